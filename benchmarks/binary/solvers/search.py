"""Search: starts, exchanges and recombination, 128 of them."""

from benchmark_utils.runs import CounterpoiseSolver

from counterpoise.problems import DCPB2


class Solver(CounterpoiseSolver):
    """Starts, exchanges and recombination of the best, 128 of them, then BCD-g to a certificate."""

    name = "search"
    problem_class = DCPB2
    method = "search"

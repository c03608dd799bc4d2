"""BCD-g on the penalty λ(√n − ‖x‖), until a scan of all pairs finds nothing."""

from benchmark_utils.runs import CounterpoiseSolver

from counterpoise.problems import DCPB2


class Solver(CounterpoiseSolver):
    """BCD-g on the penalty λ(√n − ‖x‖), until a scan of all pairs finds nothing."""

    name = "BCD-g-DCPB2"
    problem_class = DCPB2
    method = "bcd-g"

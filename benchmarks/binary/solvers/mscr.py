"""Multi-stage convex relaxation, subproblems solved exactly."""

from benchmark_utils.runs import CounterpoiseSolver

from counterpoise.problems import DCPB2


class Solver(CounterpoiseSolver):
    """Multi-stage convex relaxation, subproblems solved exactly."""

    name = "MSCR"
    problem_class = DCPB2
    method = "mscr"
    parameters = {"inner": ["exact"]}

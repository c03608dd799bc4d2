"""Multi-stage convex relaxation, subproblems solved exactly."""

from benchmark_utils.runs import CounterpoiseSolver

from counterpoise.problems import SIT


class Solver(CounterpoiseSolver):
    """Multi-stage convex relaxation, subproblems solved exactly."""

    name = "MSCR"
    problem_class = SIT
    method = "mscr"
    parameters = {"inner": ["exact"]}

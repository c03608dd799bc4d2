"""BCD-g on the penalty λ(n − ‖x‖²); the point is scored like all others."""

from benchmark_utils.runs import CounterpoiseSolver

from counterpoise.problems import DCPB1


class Solver(CounterpoiseSolver):
    """BCD-g on the penalty λ(n − ‖x‖²); the point is scored like all others."""

    name = "BCD-g-DCPB1"
    problem_class = DCPB1
    method = "bcd-g"

"""Block coordinate descent: blocks of k solved locally by nested states."""

from benchmark_utils.runs import CounterpoiseSolver

from counterpoise.problems import SIT


class Solver(CounterpoiseSolver):
    """Block coordinate descent: blocks of k solved locally by nested states."""

    name = "BCD-l"
    problem_class = SIT
    method = "bcd-l"
    parameters = {"k": [20], "subproblem": ["nested"]}

"""Block coordinate descent: pairs solved globally, until a scan of all pairs finds nothing."""

from benchmark_utils.runs import CounterpoiseSolver

from counterpoise.problems import SIT


class Solver(CounterpoiseSolver):
    """Block coordinate descent: pairs solved globally, until a scan of all pairs finds nothing."""

    name = "BCD-g"
    problem_class = SIT
    method = "bcd-g"

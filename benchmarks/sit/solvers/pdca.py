"""Proximal DC algorithm with extrapolation."""

from benchmark_utils.runs import CounterpoiseSolver

from counterpoise.problems import SIT


class Solver(CounterpoiseSolver):
    """Proximal DC algorithm with extrapolation."""

    name = "PDCA"
    problem_class = SIT
    method = "pdca"
    parameters = {"extrapolate": [True]}

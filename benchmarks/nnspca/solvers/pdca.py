"""Proximal DC algorithm with extrapolation."""

from benchmark_utils.runs import CounterpoiseSolver

from counterpoise.problems import NNSPCA


class Solver(CounterpoiseSolver):
    """Proximal DC algorithm with extrapolation."""

    name = "PDCA"
    problem_class = NNSPCA
    method = "pdca"
    parameters = {"extrapolate": [True]}

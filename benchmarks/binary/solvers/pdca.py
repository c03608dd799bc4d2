"""Proximal DC algorithm with extrapolation."""

from benchmark_utils.runs import CounterpoiseSolver

from counterpoise.problems import DCPB2


class Solver(CounterpoiseSolver):
    """Proximal DC algorithm with extrapolation."""

    name = "PDCA"
    problem_class = DCPB2
    method = "pdca"
    parameters = {"extrapolate": [True]}

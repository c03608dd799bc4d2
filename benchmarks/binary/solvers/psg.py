"""Projected subgradients, the best of six step sizes."""

from benchmark_utils.runs import CounterpoiseSolver

from counterpoise.problems import DCPB2


class Solver(CounterpoiseSolver):
    """Projected subgradients, the best of six step sizes."""

    name = "PSG"
    problem_class = DCPB2
    method = "psg"
    parameters = {"step": ["grid"]}

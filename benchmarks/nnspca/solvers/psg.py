"""Projected subgradients, the best of six step sizes."""

from benchmark_utils.runs import CounterpoiseSolver

from counterpoise.problems import NNSPCA


class Solver(CounterpoiseSolver):
    """Projected subgradients, the best of six step sizes."""

    name = "PSG"
    problem_class = NNSPCA
    method = "psg"
    parameters = {"step": ["grid"]}

"""Projected subgradients, the best of six step sizes."""

from benchmark_utils.runs import CounterpoiseSolver

from counterpoise.problems import SIT


class Solver(CounterpoiseSolver):
    """Projected subgradients, the best of six step sizes."""

    name = "PSG"
    problem_class = SIT
    method = "psg"
    parameters = {"step": ["grid"]}

"""How benchopt follows a run of counterpoise, and what one-shot solvers have in common."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from benchopt import BaseSolver
from benchopt.stopping_criterion import NoCriterion

import counterpoise as cp

Callback = Callable[[], bool]


class InstanceSolver(BaseSolver):
    """Keeps the instance, and a seed that all solvers of one repetition share."""

    requirements = ["pip::counterpoise"]

    def set_objective(self, **instance: Any) -> None:
        """Keep what the objective hands out."""
        self.instance = instance
        self.seed = int(self.get_seed(use_dataset=True, use_repetition=True))

    def get_result(self) -> dict[str, Any]:
        """Return the point; the objective scores it."""
        return {"x": self.x}


class OneShotSolver(InstanceSolver):
    """Solves once: ``solve(seed, **instance)`` returns x."""

    sampling_strategy = "run_once"

    def run(self, _: Any) -> None:
        """Solve."""
        self.x = self.solve(self.seed, **self.instance)


class CounterpoiseSolver(InstanceSolver):
    """A method of ``counterpoise.minimize``, followed epoch by epoch; benchopt's parameters are the method's options.

    The curve starts at the start and shows the best point so far. Making the problem, and so AᵀA, is timed; compiling
    is not. The method ends by itself: benchopt's own criterion would take a plateau for the end.
    """

    sampling_strategy = "callback"
    stopping_criterion = NoCriterion()
    problem_class: Callable[..., cp.Problem]
    method: str
    parameters: dict[str, list[Any]] = {}

    def warm_up(self) -> None:
        """Compile: solve a tiny instance to its end, then begin with the real one."""
        self._minimize(lambda: True, **tiny(self.instance))
        self.run_once(2)

    def run(self, callback: Callback) -> None:
        """Minimise until the method or benchopt stops."""
        self._minimize(callback, **self.instance)

    def _minimize(self, callback: Callback, **instance: Any) -> None:
        problem = type(self).problem_class(**instance)
        self.x, best = problem.start(self.seed), math.inf

        def follow(progress: Any) -> bool:
            nonlocal best
            if progress.objective < best:
                self.x, best = progress.x, progress.objective
            return not callback()

        if callback():
            options = {name: getattr(self, name) for name in self.parameters}
            cp.minimize(problem, self.x, self.method, seed=self.seed, callback=follow, **options)


def tiny(instance: dict[str, Any]) -> dict[str, Any]:
    """Return an instance of the same kind, 12 × 24."""
    small = {"A": np.random.default_rng(0).standard_normal((12, 24)), "y": np.zeros(12), "s": 3, "c": 0}
    return {name: small.get(name, value) for name, value in instance.items()}

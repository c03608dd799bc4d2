"""Binary least squares: minimise ½‖Ax − y‖² over x ∈ {−1, 1}ⁿ, 1ᵀx = c.

It runs offline, in the environment that is active, and writes a table and an HTML page to ``outputs/`` in this folder.
``BENCHOPT_CACHE`` names another folder than ``__cache__/`` here for finished runs, ``--no-cache`` does without::

    benchopt run benchmarks/binary -d randn -r 1 --timeout 60 --no-display
    COUNTERPOISE_DATA=... benchopt run benchmarks/binary -d images -s BCD-g-DCPB2 -s PDCA -s tabu
    benchopt test benchmarks/binary --skip-env

A solver of yours is a file: ``-s path/to/solver.py``. ``-n`` counts the points of a curve: a small one cuts iterative
solvers short. BLAS has one thread, for all solvers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmark_utils.scoring import HELD, one_thread, score
from benchopt import BaseObjective

from counterpoise.problems import DCPB2


class Objective(BaseObjective):
    """½‖Ax − y‖² + λ(√n − ‖x‖), the paper's tabulated value, at the point of −1 ≤ x ≤ 1, 1ᵀx = c nearest to x.

    Where x is binary the second term is 0.
    """

    name = "Binary least squares"
    min_benchopt_version = "1.10"
    requirements = ["pip::counterpoise"]
    parameters = {"c": [0], "lam": [1e4]}
    test_dataset_name = "randn"

    def skip(self, absent: str | None = None, **data: Any) -> tuple[bool, str | None]:
        """Skip data that are absent, and sums that no binary point has."""
        reason = absent
        if reason is None and (abs(self.c) > data["A"].shape[1] or (self.c - data["A"].shape[1]) % 2):
            reason = f"no vector of {data['A'].shape[1]} times ±1 has the sum {self.c}"
        return reason is not None, reason

    def set_data(self, A: Any, y: Any = None) -> None:
        """Keep the data; y is 0 if there is none."""
        self.A, self.y = A, np.zeros(len(A)) if y is None else y
        self.problem = DCPB2(A, self.y, self.c, self.lam)

    def get_objective(self) -> dict[str, Any]:
        """Return what every solver gets, and one thread."""
        one_thread()
        return {"A": self.A, "y": self.y, "c": self.c, "lam": self.lam}

    def evaluate_result(self, x: Any) -> dict[str, float]:
        """Score x; ``violation`` is the largest of |1ᵀx − c| and the distances to the box and to ±1."""
        value, violation = score(self.problem, x)
        distance = np.abs(1.0 - np.abs(x))
        return {
            "value": value,
            "n_fractional": int(np.count_nonzero(distance > HELD)),
            "violation": max(violation, float(distance.max())),
        }

    def get_one_result(self) -> dict[str, Any]:
        """Return a binary point."""
        n = self.A.shape[1]
        return {"x": np.where(np.arange(n) < (n + self.c) // 2, 1.0, -1.0)}

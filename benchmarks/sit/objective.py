"""Sparse index tracking: minimise ½‖Ax − y‖² over x ≥ 0, 1ᵀx = 1, with at most s non-zeros.

It runs offline, in the environment that is active, and writes a table and an HTML page to ``outputs/`` in this folder.
``BENCHOPT_CACHE`` names another folder than ``__cache__/`` here for finished runs, ``--no-cache`` does without::

    benchopt run benchmarks/sit -d Simulated -r 1 --timeout 60 --no-display
    COUNTERPOISE_DATA=... benchopt run benchmarks/sit -d "Index[market=SP-16]" -s BCD-g -s PDCA -s forward
    benchopt test benchmarks/sit --skip-env

A solver of yours is a file: ``-s path/to/solver.py``. ``-n`` counts the points of a curve: a small one cuts iterative
solvers short. BLAS has one thread, for all solvers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmark_utils.scoring import HELD, one_thread, score, weight_beyond
from benchopt import BaseObjective

from counterpoise.problems import SIT


class Objective(BaseObjective):
    """½‖Ax − y‖² + λ(1 − the s largest of x), the paper's tabulated value, at the point of the simplex nearest to x.

    Where at most s are held the second term is 0. Returns are in percent.
    """

    name = "Sparse index tracking"
    min_benchopt_version = "1.10"
    requirements = ["pip::counterpoise"]
    parameters = {"s": [10], "lam": [1e3]}
    test_dataset_name = "Simulated"
    test_config = {"s": 4}

    def skip(self, absent: str | None = None, **data: Any) -> tuple[bool, str | None]:
        """Skip data that are absent, and those with no more than s stocks."""
        reason = absent
        if reason is None and data["A"].shape[1] <= self.s:
            reason = f"only {data['A'].shape[1]} stocks for s = {self.s}"
        return reason is not None, reason

    def set_data(self, A: Any, y: Any) -> None:
        """Keep returns of the stocks and of the index."""
        self.A, self.y = A, y
        self.problem = SIT(A, y, self.s, self.lam)

    def get_objective(self) -> dict[str, Any]:
        """Return what every solver gets, and one thread."""
        one_thread()
        return {"A": self.A, "y": self.y, "s": self.s, "lam": self.lam}

    def evaluate_result(self, x: Any) -> dict[str, float]:
        """Score x.

        ``violation`` is the largest of negativity, |1ᵀx − 1| and the weight beyond the s largest; ``tracking`` is
        ½‖Ax − y‖² at x itself.
        """
        value, violation = score(self.problem, x)
        return {
            "value": value,
            "tracking": 0.5 * float(np.sum((self.A @ x - self.y) ** 2)),
            "n_held": int(np.count_nonzero(np.abs(x) > HELD)),
            "violation": max(violation, weight_beyond(x, self.s)),
        }

    def get_one_result(self) -> dict[str, Any]:
        """Return equal weights."""
        n = self.A.shape[1]
        return {"x": np.full(n, 1.0 / n)}

"""Non-negative sparse PCA: minimise −½‖Ax‖² over x ≥ 0, ‖x‖ = 1, with at most s non-zeros.

It runs offline, in the environment that is active, and writes a table and an HTML page to ``outputs/`` in this folder.
``BENCHOPT_CACHE`` names another folder than ``__cache__/`` here for finished runs, ``--no-cache`` does without::

    benchopt run benchmarks/nnspca -d randn -r 1 --timeout 60 --no-display
    COUNTERPOISE_DATA=... benchopt run benchmarks/nnspca -d images -s BCD-g -s PDCA -s truncated-power
    benchopt test benchmarks/nnspca --skip-env

A solver of yours is a file: ``-s path/to/solver.py``. ``-n`` counts the points of a curve: a small one cuts iterative
solvers short. BLAS has one thread, for all solvers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmark_utils.scoring import HELD, one_thread, score, weight_beyond
from benchopt import BaseObjective

from counterpoise.problems import NNSPCA


class Objective(BaseObjective):
    """−½‖Ax‖² + λ(1ᵀx − the s largest of x), the paper's tabulated value, at the feasible point nearest to x.

    Where at most s are non-zero the second term is 0. Data are not centred.
    """

    name = "Non-negative sparse PCA"
    min_benchopt_version = "1.10"
    requirements = ["pip::counterpoise"]
    parameters = {"s": [30], "lam": [1e4]}
    test_dataset_name = "randn"
    test_config = {"s": 4}

    def skip(self, absent: str | None = None, **data: Any) -> tuple[bool, str | None]:
        """Skip data that are absent, and those with no more than s columns."""
        reason = absent
        if reason is None and data["A"].shape[1] <= self.s:
            reason = f"only {data['A'].shape[1]} columns for s = {self.s}"
        return reason is not None, reason

    def set_data(self, A: Any) -> None:
        """Keep the data, samples × variables."""
        self.A = A
        self.problem = NNSPCA(A, self.s, self.lam)

    def get_objective(self) -> dict[str, Any]:
        """Return what every solver gets, and one thread."""
        one_thread()
        return {"A": self.A, "s": self.s, "lam": self.lam}

    def evaluate_result(self, x: Any) -> dict[str, float]:
        """Score x; ``violation`` is the largest of negativity, |‖x‖ − 1| and the weight beyond the s largest."""
        value, violation = score(self.problem, x)
        return {
            "value": value,
            "n_held": int(np.count_nonzero(np.abs(x) > HELD)),
            "violation": max(violation, weight_beyond(x, self.s)),
        }

    def get_one_result(self) -> dict[str, Any]:
        """Return equal weights."""
        n = self.A.shape[1]
        return {"x": np.full(n, n**-0.5)}

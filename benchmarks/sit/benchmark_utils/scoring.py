"""How a point is scored, and on how many threads it is found, whoever finds it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import counterpoise as cp

# A coordinate is held above this, and binary up to this.
HELD = 1e-8


def one_thread() -> None:
    """Hold BLAS to one thread from here on: on busy cores more make an eigenvalue a hundred times slower."""
    threadpool_limits(1)


def score(problem: cp.Problem, x: Any) -> tuple[float, float]:
    """Return F at the feasible point nearest to x, and how far x is from feasible: no one gains by infeasibility."""
    x = np.asarray(x, dtype=np.float64)
    if x.shape != (problem.n,) or not np.isfinite(x).all():
        return math.inf, math.inf
    return problem.objective(problem.project(x)), problem.violation(x)


def weight_beyond(x: Any, s: int) -> float:
    """Return the sum of |x| beyond its s largest."""
    return float(np.sort(np.abs(x))[: max(len(x) - s, 0)].sum())

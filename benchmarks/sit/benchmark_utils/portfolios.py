"""Portfolios on a given support, and the greedy choice of one.

On the simplex Ax − y = (A − y1ᵀ)x is homogeneous. So min ‖(A − y1ᵀ)x‖² + ρ²(1ᵀx − 1)² over x ≥ 0 with at most s
non-zeros has, scaled to sum 1, the very minimisers of index tracking, whatever ρ > 0: regression can solve it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.optimize import nnls


def as_regression(A: Any, y: Any, weight: float = 1.0) -> tuple[Any, Any]:
    """Return X, b with ‖Xx − b‖² = ‖(A − y1ᵀ)x‖² + ρ²(1ᵀx − 1)², ρ being ``weight`` times a column's usual norm."""
    excess = A - y[:, None]
    rho = weight * float(np.median(np.linalg.norm(excess, axis=0))) or 1.0
    return np.vstack([excess, np.full(A.shape[1], rho)]), np.append(np.zeros(len(y)), rho)


def simplex_qp(A: Any, y: Any) -> tuple[Any, float]:
    """Return the minimiser of ½‖Aw − y‖² over w ≥ 0, 1ᵀw = 1, by active sets, and the minimum."""
    weights = nnls(*as_regression(A, y))[0]
    weights /= weights.sum()
    return weights, 0.5 * float(np.sum((A @ weights - y) ** 2))


def on_support(A: Any, y: Any, support: Any) -> Any:
    """Return the best portfolio that holds nothing outside a support."""
    x = np.zeros(A.shape[1])
    x[support] = simplex_qp(A[:, support], y)[0]
    return x


def forward_selection(A: Any, y: Any, s: int, candidates: int) -> Any:
    """Add one stock at a time: the one that is best after re-optimising, of the most promising candidates.

    A candidate's promise is what an exact step from x towards it alone would gain.
    """
    norms = np.sum(A**2, axis=0)
    support = [int(np.argmin(norms - 2.0 * y @ A))]
    weights, value = simplex_qp(A[:, support], y)
    while len(support) < s:
        portfolio = A[:, support] @ weights
        residual = portfolio - y
        slope = residual @ A - residual @ portfolio
        curvature = norms - 2.0 * portfolio @ A + portfolio @ portfolio
        gain = np.minimum(slope, 0.0) ** 2 / np.maximum(curvature, 1e-12 * norms.max())
        gain[support] = 0.0
        hopeful = [int(j) for j in np.argsort(-gain)[:candidates] if gain[j] > 0.0]
        trials = [(*simplex_qp(A[:, [*support, j]], y), j) for j in hopeful]
        if not trials:
            break
        trial, least, j = min(trials, key=lambda t: t[1])
        if least >= value:
            break
        support = [k for k, w in zip([*support, j], trial, strict=True) if w > 0.0]
        weights, value = trial[trial > 0.0], least
    return on_support(A, y, support)


def by_skfolio(A: Any, y: Any, s: int, seconds: float) -> Any:
    """Return the portfolio of skfolio's BenchmarkTracker with a cardinality, by SCIP, solved again on its support.

    skfolio tracks the variance, which ignores the mean. Every day is given twice, once with its sign turned: then the
    mean is 0, and the variance is the objective of index tracking. If SCIP finds nothing in time, the support is that
    of the s stocks nearest to the index.
    """
    from skfolio import RiskMeasure
    from skfolio.optimization import BenchmarkTracker

    tracker = BenchmarkTracker(
        risk_measure=RiskMeasure.VARIANCE,
        cardinality=s,
        solver="SCIP",
        solver_params={"scip_params": {"limits/time": seconds}},
        raise_on_failure=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a time limit makes the solution "inaccurate"
        tracker.fit(np.vstack([A, -A]) / 100.0, np.append(y, -y) / 100.0)
    weights = -np.sum((A - y[:, None]) ** 2, axis=0) if tracker.weights_ is None else tracker.weights_
    return on_support(A, y, np.argsort(-weights)[:s])

"""Power iterations that keep the s largest entries: x⁺ = the best feasible point for the linearised objective."""

from __future__ import annotations

from typing import Any

import numpy as np


def truncate(z: Any, s: int) -> Any:
    """Return the unit vector along the s largest positive entries of z, or the axis of its largest entry."""
    x = np.zeros(len(z))
    top = np.argpartition(-z, s - 1)[:s] if s < len(z) else np.arange(len(z))
    x[top] = np.maximum(z[top], 0.0)
    norm = float(np.linalg.norm(x))
    if norm == 0.0:
        x[np.argmax(z)] = norm = 1.0
    return x / norm


def power_iterations(A: Any, x: Any, s: int, max_iter: int = 1000, tol: float = 1e-10) -> Any:
    """Iterate x⁺ = truncate(AᵀAx, s) until x rests; ‖Ax‖ never falls, because it is convex."""
    for _ in range(max_iter):
        new = truncate(A.T @ (A @ x), s)
        moved = float(np.max(np.abs(new - x)))
        x = new
        if moved <= tol:
            break
    return x


def truncated_power(A: Any, s: int) -> Any:
    """Start from the column of AᵀA with the largest diagonal entry, and halve the number of entries down to s."""
    column = A[:, np.argmax(np.sum(A**2, axis=0))]
    x, size = truncate(A.T @ column, A.shape[1]), A.shape[1]
    while size > s:
        size = max(size // 2, s)
        x = power_iterations(A, truncate(x, size), size)
    return x


def expectation_maximisation(A: Any, s: int, restarts: int, seed: int) -> Any:
    """Return the best of several random starts of EM for one component: scores z = Ax, then loadings from Aᵀz."""
    rng = np.random.default_rng(seed)
    starts = (truncate(np.abs(rng.standard_normal(A.shape[1])), A.shape[1]) for _ in range(restarts))
    return max((power_iterations(A, x, s) for x in starts), key=lambda x: float(np.linalg.norm(A @ x)))

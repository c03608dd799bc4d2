"""Spins in place of the sum constraint: ½‖Ax − y‖² + P(1ᵀx − c)² for samplers, and the repair of what they return."""

from __future__ import annotations

from typing import Any

import dimod
import numpy as np


def spin_model(A: Any, y: Any, c: int, penalty: float) -> Any:
    """Return the model, up to a constant; P is ``penalty`` times the mean squared norm of a column."""
    Q = A.T @ A
    P = penalty * float(np.trace(Q)) / len(Q)
    quadratic = np.triu(Q + 2.0 * P, 1)
    return dimod.BinaryQuadraticModel(-(A.T @ y) - 2.0 * P * c, quadratic, 0.0, dimod.SPIN)


def repair(A: Any, y: Any, x: Any, c: int) -> Any:
    """Flip, one at a time, the spin that costs least, until the sum is c."""
    x = np.array(x, dtype=np.float64)
    squares = np.sum(A**2, axis=0)
    residual = A @ x - y
    while (surplus := round(float(x.sum())) - c) != 0:
        sign = np.sign(surplus)
        cost = np.where(x == sign, 2.0 * squares - 2.0 * sign * (residual @ A), np.inf)
        i = int(np.argmin(cost))
        x[i] = -sign
        residual -= 2.0 * sign * A[:, i]
    return x


def best_repaired(A: Any, y: Any, c: int, samples: Any) -> Any:
    """Repair every sample and return the best."""
    repaired = [repair(A, y, x, c) for x in samples.record.sample[:, np.argsort(samples.variables)]]
    return min(repaired, key=lambda x: float(np.sum((A @ x - y) ** 2)))

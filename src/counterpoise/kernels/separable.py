"""h in kernels: a piecewise quadratic function of every coordinate.

On [loᵢ, hiᵢ], +∞ outside,

    hᵢ(t) = wᵢt + ½bᵢt² + Σₖ costₖᵢ|t − centreₖᵢ| + ½Σₖ curveₖᵢ max(t − centreₖᵢ, 0)².

Every convex function with finitely many linear or quadratic pieces has this form, so h needs one NamedTuple and no
dispatch. A coordinate whose ``floor`` is above its ``lo`` is semicontinuous: it is 0, or between ``floor`` and ``hi``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterpoise.kernels.basics import larger
from counterpoise.kernels.dispatch import kernel


class Separable(NamedTuple):
    """Bounds, floors, slopes and bends of h; ``centre``, ``cost`` and ``curve`` have one row per knot."""

    lo: np.ndarray
    hi: np.ndarray
    floor: np.ndarray
    weight: np.ndarray
    bend: np.ndarray
    centre: np.ndarray
    cost: np.ndarray
    curve: np.ndarray


@kernel
def separable_change(h, i, old, new):
    """Return hᵢ(new) − hᵢ(old) for two values inside the bounds."""
    total = (h.weight[i] + 0.5 * h.bend[i] * (new + old)) * (new - old)
    for k in range(len(h.centre)):
        before, after = old - h.centre[k, i], new - h.centre[k, i]
        total += h.cost[k, i] * (abs(after) - abs(before))
        before, after = larger(before, 0.0), larger(after, 0.0)
        total += 0.5 * h.curve[k, i] * (after - before) * (after + before)
    return total


@kernel
def slope_right(h, i, at):
    """Return the right derivative of hᵢ at ``at``, bounds ignored."""
    total = h.weight[i] + h.bend[i] * at
    for k in range(len(h.centre)):
        beyond = at - h.centre[k, i]
        total += (h.cost[k, i] if beyond >= 0.0 else -h.cost[k, i]) + h.curve[k, i] * larger(beyond, 0.0)
    return total


@kernel
def slope_left(h, i, at):
    """Return the left derivative of hᵢ at ``at``, bounds ignored."""
    total = h.weight[i] + h.bend[i] * at
    for k in range(len(h.centre)):
        beyond = at - h.centre[k, i]
        total += (h.cost[k, i] if beyond > 0.0 else -h.cost[k, i]) + h.curve[k, i] * larger(beyond, 0.0)
    return total


@kernel
def bend_right(h, i, at):
    """Return the second derivative of hᵢ to the right of ``at``."""
    total = h.bend[i]
    for k in range(len(h.centre)):
        total += h.curve[k, i] if at >= h.centre[k, i] else 0.0
    return total

"""h in kernels: bounds, a linear part, and convex kinks, one of each per coordinate.

hᵢ(t) = wᵢt + Σₖ costₖᵢ|t − centreₖᵢ| on [loᵢ, hiᵢ], +∞ outside. Every sum of ``Bounds``, ``Linear`` and
``AbsoluteDeviation`` has this form, so h needs one NamedTuple and no dispatch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterpoise.kernels.dispatch import kernel


class Separable(NamedTuple):
    """Bounds, slopes and kinks of h; ``centre`` and ``cost`` have one row per kink of a coordinate."""

    lo: np.ndarray
    hi: np.ndarray
    weight: np.ndarray
    centre: np.ndarray
    cost: np.ndarray


@kernel
def separable_change(h, i, old, new):
    """Return hᵢ(new) − hᵢ(old) for two values inside the bounds."""
    total = h.weight[i] * (new - old)
    for k in range(len(h.centre)):
        total += h.cost[k, i] * (abs(new - h.centre[k, i]) - abs(old - h.centre[k, i]))
    return total


@kernel
def slope_right(h, i, at):
    """Return the right derivative of hᵢ at ``at``, bounds ignored."""
    total = h.weight[i]
    for k in range(len(h.centre)):
        total += h.cost[k, i] if at >= h.centre[k, i] else -h.cost[k, i]
    return total


@kernel
def slope_left(h, i, at):
    """Return the left derivative of hᵢ at ``at``, bounds ignored."""
    total = h.weight[i]
    for k in range(len(h.centre)):
        total += h.cost[k, i] if at > h.centre[k, i] else -h.cost[k, i]
    return total

"""g in kernels: bodies of AtMost, which allows at most s non-zeros."""

import numpy as np

from counterpoise.kernels.concave import (
    UNBOUNDED,
    AtMost,
    arc_floor,
    barrier,
    change,
    minimise_on_arc,
    minimise_on_line,
    parabola_minimiser,
    repositioned,
    slope_floor,
)
from counterpoise.kernels.dispatch import implements, kernel
from counterpoise.kernels.roots import half_angle_minimisers
from counterpoise.kernels.smooth import load


@kernel
def _spare_places(g, x, i, j):
    """Return how many coordinates of the pair may be non-zero; 2 or more if both may."""
    return g.s - g.count[0] + int(x[i] != 0.0) + int(x[j] != 0.0)


@implements(load, AtMost)
def _load_count(g, x):
    g.count[0] = 0
    for value in x:
        g.count[0] += int(value != 0.0)


@implements(repositioned, AtMost)
def _repositioned_count(g, i, old, new):
    g.count[0] += int(new != 0.0) - int(old != 0.0)


@implements(change, AtMost)
def _change_count(g, x, i, new_i, j, new_j):
    return 0.0 if int(new_i != 0.0) + int(new_j != 0.0) <= _spare_places(g, x, i, j) else np.inf


@implements(minimise_on_line, AtMost)
def _line_count(g, x, i, j, alpha, beta, low, high):
    """Return the parabola's minimiser if both may be non-zero, otherwise the better point at which one is 0."""
    if _spare_places(g, x, i, j) >= 2:
        return parabola_minimiser(alpha, beta, low, high)
    best, least = low, np.inf
    for eta in (-x[i], x[j]):
        value = (0.5 * alpha * eta + beta) * eta
        if low <= eta <= high and value < least:
            best, least = eta, value
    return best


@implements(minimise_on_arc, AtMost)
def _arc_count(g, x, i, j, a, b, c, d, v):
    """Propose interior points only if both coordinates may be non-zero; in the arc's interior both are."""
    t0, t1 = -1.0, -1.0
    if _spare_places(g, x, i, j) >= 2:
        t0, t1 = half_angle_minimisers(a, b, c, d)
    return t0, t1, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0


@implements(slope_floor, AtMost)
def _slope_floor_count(g, x, i):
    return 0.0, 0.0


@implements(barrier, AtMost)
def _barrier_count(g, x, j, capacity):
    """Return a huge barrier if j must give all of xⱼ or nothing, because s coordinates are already non-zero."""
    return UNBOUNDED if g.count[0] >= g.s and x[j] != 0.0 and capacity == x[j] else 0.0


@implements(arc_floor, AtMost)
def _arc_floor_count(g, x, j):
    return 0.0, UNBOUNDED if g.count[0] >= g.s and x[j] != 0.0 else 0.0

"""g in kernels: how each concave term changes over a pair, and where it is least on a line or an arc.

A term g of your own is a NamedTuple with bodies for ``change`` and for ``minimise_on_line`` or
``minimise_on_arc``; the other verbs, among them ``load`` of :mod:`counterpoise.kernels.smooth`, have defaults.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterpoise.kernels.basics import larger, plus_dot, smaller
from counterpoise.kernels.dispatch import implements, kernel, outlined, verb
from counterpoise.kernels.roots import half_angle_minimisers
from counterpoise.kernels.smooth import load
from counterpoise.kernels.topsum import others, reposition, sort_by_magnitude, top_tail

ROOT_HALF = 0.7071067811865476
UNBOUNDED = 1e300  # ∞ times an interval of length 0 would be NaN


class TopSum(NamedTuple):
    """g(x) = −λ‖x‖_[s], with the order of |x|; ``signed`` when some coordinate may be negative."""

    s: int
    lam: float
    signed: bool
    order: np.ndarray
    rank: np.ndarray
    key: np.ndarray


class Norm2(NamedTuple):
    """g(x) = −λ‖x‖₂, with ‖x‖² in ``square[0]``."""

    lam: float
    square: np.ndarray


class ConcaveQuadratic(NamedTuple):
    """g(x) = −λ‖x‖²; λ = 0 stands for no g at all."""

    lam: float


class AtMost(NamedTuple):
    """g(x) = 0 if at most s coordinates are not 0, else ∞, with their number in ``count[0]``."""

    s: int
    count: np.ndarray


@verb
def change(g, x, i, new_i, j, new_j):
    """Return g(x with xᵢ = new_i, xⱼ = new_j) − g(x), in O(1)."""
    raise NotImplementedError


@verb
def minimise_on_line(g, x, i, j, alpha, beta, low, high):
    """Return a global minimiser of ½αη² + βη + g(x + η(eᵢ − eⱼ)) on [low, high]."""
    raise NotImplementedError


@verb
def minimise_on_arc(g, x, i, j, a, b, c, d, v):
    """Return candidates t = tan(α/2), −1 for none; one of them, or an end of the arc, must be a global minimiser.

    The objective is a cos²α + b sin α + c cos α + d sin α cos α + g on |xᵢ| = v sin α, |xⱼ| = v cos α, 0 ≤ α ≤ π/2.
    """
    raise NotImplementedError


@verb
def repositioned(g, i, old, new):
    """Update the cached state of g after the move xᵢ: old → new; by default there is none."""


@verb
def slope_floor(g, x, i):
    """Return (ρᵢ, σᵢ) with g(x + η(eᵢ − eⱼ)) − g(x) ≥ (ρᵢ − σⱼ)η + ½κη² for η ≥ 0.

    The default bound rules out no pair.
    """
    return -UNBOUNDED, 0.0


@verb
def curvature_floor(g):
    """Return κ, the curvature of the bound in :func:`slope_floor`."""
    return 0.0


@verb
def barrier(g, x, j, capacity):
    """Return b ≥ 0 with g(x + η(eᵢ − eⱼ)) − g(x) ≥ b·min(η, capacity − η) for every zero i."""
    return 0.0


@verb
def arc_floor(g, x, j):
    """Return (λ, b) such that g rises by at least −λ(u + w − v) + b·min(u, w) over a pair (zero i, j) on the arc.

    u and w are the new magnitudes of i and j, and v = |xⱼ|. The default bound rules out no pair.
    """
    return UNBOUNDED, 0.0


@verb
def subslope(g, x, i):
    """Return coordinate i of a subgradient of g; it only guides the choice of pairs; certificates do not use it."""
    return 0.0


# −λ‖x‖_[s] is a minimum of linear functions, so on a pair P is a minimum of convex quadratics.


@implements(load, TopSum)
def _load_top(g, x):
    sort_by_magnitude(x, g.order, g.rank, g.key)


@implements(repositioned, TopSum)
def _repositioned_top(g, i, old, new):
    reposition(g.order, g.rank, g.key, i, abs(new))


@implements(change, TopSum)
def _change_top(g, x, i, new_i, j, new_j):
    first, second = others(g, i, j)
    before = top_tail(first, second, abs(x[i]), abs(x[j]))
    return g.lam * (before - top_tail(first, second, abs(new_i), abs(new_j)))


@implements(minimise_on_line, TopSum)
def _line_top(g, x, i, j, alpha, beta, low, high):
    """Eq. (eq:subproblem2) with β = ∇ᵢf − ∇ⱼf: the best of clip((kλ − β)/α), k = −1, 0, 1 (±2 if signed).

    With α ≤ 0 every piece is concave, and an end of the interval is the minimiser.
    """
    lam, reach = g.lam, 2 if g.signed else 1
    first, second = others(g, i, j)
    x_i, x_j = x[i], x[j]
    best, best_value = low, np.inf
    for k in range(-reach, reach + 1):
        if alpha > 0.0:
            eta = smaller(larger((k * lam - beta) / alpha, low), high)
        elif k == 0:
            continue
        else:
            eta = low if k < 0 else high
        tail = top_tail(first, second, abs(x_i + eta), abs(x_j - eta))
        value = (0.5 * alpha * eta + beta) * eta - lam * tail
        if value < best_value:
            best, best_value = eta, value
    return best


@implements(minimise_on_arc, TopSum)
def _arc_top(g, x, i, j, a, b, c, d, v):
    """Cases (i)–(iv) of eq. (plb:nnspca:break): neither, i, j, or both of the pair among the s largest."""
    pull = g.lam * v
    first, second = others(g, i, j)
    both0, both1, i0, i1, j0, j1, none0, none1 = -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0
    # On the arc the smaller of the two magnitudes is at most v/√2, and the larger is between v/√2 and v.
    if v * ROOT_HALF >= first:
        both0, both1 = half_angle_minimisers(a, b - pull, c - pull, d)
    if v >= second:
        i0, i1 = half_angle_minimisers(a, b - pull, c, d)
        j0, j1 = half_angle_minimisers(a, b, c - pull, d)
    if v * ROOT_HALF <= second:
        none0, none1 = half_angle_minimisers(a, b, c, d)
    return both0, both1, i0, i1, j0, j1, none0, none1


@implements(slope_floor, TopSum)
def _slope_floor_top(g, x, i):
    if g.signed:
        return -2.0 * g.lam, 0.0
    # Moving mass onto a zero makes x flatter, and ‖·‖_[s], which is Schur-convex, cannot rise.
    return (0.0 if x[i] == 0.0 else -g.lam), 0.0


@implements(barrier, TopSum)
def _barrier_top(g, x, j, capacity):
    """Return the slope of two chords below the loss of ‖x‖_[s], times λ.

    For a zero i the loss is concave in η, 0 at η = 0 and ≥ 0 at the capacity, so it lies above the two chords to its
    value at half the capacity.
    """
    if g.signed or capacity <= 0.0 or capacity == np.inf:
        return 0.0
    last = g.order[len(g.order) - 1]
    if last == j:
        return 0.0
    first, second = others(g, last, j)
    loss = top_tail(first, second, 0.0, x[j]) - top_tail(first, second, 0.5 * capacity, x[j] - 0.5 * capacity)
    return larger(2.0 * g.lam * loss / capacity, 0.0)


@implements(arc_floor, TopSum)
def _arc_floor_top(g, x, j):
    """Return λ and b: if the s-th largest outside the pair is 0, g also rises by λ·min(u, w, first)."""
    last = g.order[len(g.order) - 1]
    if last == j or x[j] == 0.0:
        return g.lam, 0.0
    first, second = others(g, last, j)
    if second > 0.0:
        return g.lam, 0.0
    return g.lam, g.lam * smaller(1.0, first / (ROOT_HALF * abs(x[j])))


@implements(subslope, TopSum)
def _subslope_top(g, x, i):
    if g.rank[i] >= g.s:
        return 0.0
    return g.lam if x[i] < 0.0 else -g.lam


# −λ‖x‖₂


@implements(load, Norm2)
def _load_norm(g, x):
    g.square[0] = plus_dot(0.0, x, x)


@implements(repositioned, Norm2)
def _repositioned_norm(g, i, old, new):
    g.square[0] = larger(g.square[0] + (new - old) * (new + old), 0.0)


@implements(change, Norm2)
def _change_norm(g, x, i, new_i, j, new_j):
    rise = (new_i - x[i]) * (new_i + x[i]) + (new_j - x[j]) * (new_j + x[j])
    before = np.sqrt(g.square[0])
    after = np.sqrt(larger(g.square[0] + rise, 0.0))
    total = before + after
    # The quotient is the difference of the square roots, without cancellation.
    return -g.lam * rise / total if total > 0.0 else 0.0


@outlined
def _least_beyond(alpha, b, lam, r, near, far):
    """Minimise ½αt² + bt − λ√(2t² + r) on [near, far] with near ≥ 0.

    P′ is convex there, so P has at most one interior local minimiser, the larger root of P′; Newton's method from
    ``far`` reaches it monotonically. ``near`` is the other candidate.
    """
    t = far
    if alpha > 0.0:
        for _ in range(100):
            root = np.sqrt(2.0 * t * t + r)
            if root == 0.0:
                break
            value = alpha * t + b - 2.0 * lam * t / root
            bend = alpha - 2.0 * lam * r / (root * root * root)
            if value <= 0.0:
                break
            if bend <= 0.0:  # P′ > 0 to the left of t as well: P rises from near to far
                t = near
                break
            following = t - value / bend
            if following <= near:
                t = near
                break
            if following >= t:
                break
            t = following
    at_t = (0.5 * alpha * t + b) * t - lam * np.sqrt(2.0 * t * t + r)
    at_near = (0.5 * alpha * near + b) * near - lam * np.sqrt(2.0 * near * near + r)
    return (t, at_t) if at_t <= at_near else (near, at_near)


@implements(minimise_on_line, Norm2)
def _line_norm(g, x, i, j, alpha, beta, low, high):
    """Eq. (plb:bin:sub4), centred: with t = η + (xᵢ − xⱼ)/2, P is even except for the term bt.

    So a point on the side of −b beats its mirror image, and the other side matters only where it reaches further.
    No quartic is needed (the printed derivative is twice the true one).
    """
    # Read scalars first: in a loop that uses arrays, reference counting costs ten times the arithmetic.
    lam, centre = g.lam, 0.5 * (x[i] - x[j])
    r = larger(g.square[0] - 2.0 * centre * centre, 0.0)
    b = beta - alpha * centre
    low_t, high_t = low + centre, high + centre
    side = 1.0
    if b > 0.0:
        side, b, low_t, high_t = -1.0, -b, -high_t, -low_t
    t, value = np.inf, np.inf
    if high_t >= 0.0:
        t, value = _least_beyond(alpha, b, lam, r, larger(low_t, 0.0), high_t)
    if low_t < 0.0 and -low_t > high_t:
        mirrored, mirrored_value = _least_beyond(alpha, -b, lam, r, larger(-high_t, 0.0), -low_t)
        if mirrored_value < value:
            t = -mirrored
    return smaller(larger(side * t - centre, low), high)


@implements(subslope, Norm2)
def _subslope_norm(g, x, i):
    return -g.lam * x[i] / np.sqrt(g.square[0]) if g.square[0] > 0.0 else 0.0


@implements(slope_floor, Norm2)
def _slope_floor_norm(g, x, i):
    # √ lies below its tangent.
    if g.square[0] == 0.0:
        return -UNBOUNDED, 0.0
    slope = -g.lam * x[i] / np.sqrt(g.square[0])
    return slope, slope


@implements(curvature_floor, Norm2)
def _curvature_floor_norm(g):
    return -2.0 * g.lam / np.sqrt(g.square[0]) if g.square[0] > 0.0 else 0.0


# −λ‖x‖², and none


@implements(change, ConcaveQuadratic)
def _change_concave(g, x, i, new_i, j, new_j):
    return -g.lam * ((new_i - x[i]) * (new_i + x[i]) + (new_j - x[j]) * (new_j + x[j]))


@kernel
def parabola_minimiser(alpha, beta, low, high):
    """Return the minimiser of ½αη² + βη on [low, high]."""
    if alpha > 0.0:
        return smaller(larger(-beta / alpha, low), high)
    return low if (0.5 * alpha * low + beta) * low <= (0.5 * alpha * high + beta) * high else high


@implements(minimise_on_line, ConcaveQuadratic)
def _line_concave(g, x, i, j, alpha, beta, low, high):
    """Eq. (plb:bin:sub3): a parabola with α − 4λ and β − 2λ(xᵢ − xⱼ)."""
    return parabola_minimiser(alpha - 4.0 * g.lam, beta - 2.0 * g.lam * (x[i] - x[j]), low, high)


@implements(minimise_on_arc, ConcaveQuadratic)
def _arc_concave(g, x, i, j, a, b, c, d, v):
    """Ignore g, because ‖x‖² is constant on the arc."""
    t0, t1 = half_angle_minimisers(a, b, c, d)
    return t0, t1, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0


@implements(arc_floor, ConcaveQuadratic)
def _arc_floor_concave(g, x, j):
    return 0.0, 0.0


@implements(subslope, ConcaveQuadratic)
def _subslope_concave(g, x, i):
    return -2.0 * g.lam * x[i]


@implements(slope_floor, ConcaveQuadratic)
def _slope_floor_concave(g, x, i):
    slope = -2.0 * g.lam * x[i]
    return slope, slope


@implements(curvature_floor, ConcaveQuadratic)
def _curvature_floor_concave(g):
    return -4.0 * g.lam

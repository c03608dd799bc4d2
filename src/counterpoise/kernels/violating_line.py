"""The pair on the line that most violates first-order optimality, in loops that LLVM vectorises."""

import numpy as np

from counterpoise.kernels.basics import smaller
from counterpoise.kernels.concave import subslope
from counterpoise.kernels.dispatch import implements, outlined
from counterpoise.kernels.line import GroupedLine, Line
from counterpoise.kernels.pair import violating_pair
from counterpoise.kernels.separable import slope_left, slope_right
from counterpoise.kernels.smooth import load_row, load_slopes


@outlined
def _slopes_without_knots(g, gradient, weight, bend, hi, x, left, right):
    """Write the left slopes of F, and the right ones, ∞ at upper bounds; a loop over knots would not vectorise."""
    for i in range(len(x)):
        left[i] = gradient[i] + (weight[i] + bend[i] * x[i]) + subslope(g, x, i)
        right[i] = left[i] if x[i] < hi[i] else np.inf


@outlined
def _least_below(values, least):
    """Return the first index of the smallest value below ``least``, −1 if there is none."""
    # In parts, with four comparisons at a time; otherwise each comparison would wait for the previous one.
    place, n = -1, len(values)
    for first in range(0, n, 32):
        a, b, c, d, last = least, least, least, least, smaller(first + 32, n)
        for i in range(first, last - 3, 4):
            a, b = smaller(a, values[i]), smaller(b, values[i + 1])
            c, d = smaller(c, values[i + 2]), smaller(d, values[i + 3])
        for i in range(last - (last - first) % 4, last):
            a = smaller(a, values[i])
        a = smaller(smaller(a, b), smaller(c, d))
        if a < least:
            least, place = a, first
    while place >= 0 and values[place] != least:
        place += 1
    return place


@outlined
def _estimate_gains(row, diagonal, diagonal_i, least, left, x, lo, minus):
    """Write −S₁² of :func:`_violating_pair` for every giver, 0 for coordinates that cannot give, without a branch."""
    for j in range(len(row)):
        excess, room, bend = left[j] - least, x[j] - lo[j], diagonal[j] + diagonal_i - 2.0 * row[j]
        step = smaller(excess / (bend if bend > 0.0 else 1.0), room)
        gain = bend * (step * step) if bend > 0.0 else 2.0 * excess * room
        minus[j] = -gain if (excess > 0.0) & (room > 0.0) else 0.0


@implements(violating_pair, Line, GroupedLine)
def _violating_pair(u, problem, x, as_printed, rng):
    """Return Algorithm 2's pair: the receiver with the least slope, the giver with the largest S₁.

    S₁ = √L·min((Dⱼ − Dᵢ)/L, room) with L = Q_ii + Q_jj − 2Q_ij (the printed L_ij = Q_ij can be negative) estimates
    √(2·decrease); if L ≤ 0 the estimate is √(2(Dⱼ − Dᵢ)·room).
    """
    f, h, g, n = problem.f, problem.h, problem.g, len(x)
    right, left = problem.work[0], problem.work[1]
    load_slopes(f)
    if len(h.centre) == 0:
        _slopes_without_knots(g, f.gradient, h.weight, h.bend, h.hi, x, left, right)
    else:
        for i in range(n):
            left[i] = f.gradient[i] + slope_left(h, i, x[i]) + subslope(g, x, i)
            right[i] = f.gradient[i] + slope_right(h, i, x[i]) + subslope(g, x, i) if x[i] < h.hi[i] else np.inf
    receiver = _least_below(right, np.inf)
    if receiver < 0:
        return -1, -1
    row, minus = f.Q[load_row(f, receiver)], problem.work[2]
    _estimate_gains(row, f.diagonal, f.diagonal[receiver], right[receiver], left, x, h.lo, minus)
    minus[receiver] = 0.0
    giver = _least_below(minus, 0.0)
    return (receiver, giver) if giver >= 0 else (-1, -1)

"""(S2) on the arc u: ‖x‖² = 1, where a pair turns: xᵢ = v sin α, xⱼ = v cos α, on a quarter circle if x ≥ 0.

With signs it turns on the full circle, four quarters with xᵢ = ±v sin α and xⱼ = ±v cos α. On each quarter P is that of
the first with other signs of b, c and d. Kinks of h at 0 lie where quarters meet, and g depends only on |x|.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterpoise.kernels.basics import fill, larger, plus_dot, smaller
from counterpoise.kernels.concave import arc_floor, minimise_on_arc, subslope
from counterpoise.kernels.dispatch import implements, kernel, outlined
from counterpoise.kernels.pair import is_live, model_change, pair_step, repair, screened_best_pair, violating_pair
from counterpoise.kernels.separable import slope_left, slope_right
from counterpoise.kernels.smooth import curvature, load_row, load_slopes, slope


class Arc(NamedTuple):
    """u(x) = ‖x‖² − radius², with x ≥ 0 unless ``signed``."""

    radius: float
    signed: bool


@implements(is_live, Arc)
def _is_live(u, problem, x, i, j):
    return x[i] != 0.0 or x[j] != 0.0


@kernel
def outward(h, i, sign):
    """Return the slope of h along a coordinate that leaves 0 in the direction ``sign``."""
    return slope_right(h, i, 0.0) if sign > 0.0 else -slope_left(h, i, 0.0)


@kernel
def is_dominated(b, c, d, other_b, other_c):
    """Whether another quarter has P no larger at every angle, so that this one can be skipped.

    ``other_b`` is b for the other sign of xᵢ and ``other_c`` is c for the other sign of xⱼ; either change also flips
    the sign of d. Two quarters differ in two of b, c and d: if both are worse here, the other quarter dominates.
    """
    worse = (b > other_b) + (c > other_c) + (d > 0.0)
    return worse > 1 or (worse == 1 and d == 0.0)


@implements(pair_step, Arc)
def _pair_step(u, problem, x, i, j, theta):
    """Minimise Q(α) of eq. (plb:nnspca:break) globally, v² = xᵢ² + xⱼ² (misprinted as 1 − xᵢ² + xⱼ²).

    a = ½(Q_jj − Q_ii)v², b = (∇ᵢ − Q_ii xᵢ − Q_ij xⱼ)v, c = (∇ⱼ − Q_ij xᵢ − Q_jj xⱼ)v, d = Q_ij v², where ∇ includes
    the slope of h, and Q_ii and Q_jj include θ.
    """
    f, h, g = problem.f, problem.h, problem.g
    best_i, best_j, best = x[i], x[j], 0.0
    v = np.hypot(x[i], x[j])
    if v == 0.0:
        return best_i, best_j, 0.0
    cross = curvature(f, i, j)
    a, d = 0.5 * (f.diagonal[j] - f.diagonal[i]) * v * v, cross * v * v
    pull_i = slope(f, i) - (f.diagonal[i] + theta) * x[i] - cross * x[j]
    pull_j = slope(f, j) - (f.diagonal[j] + theta) * x[j] - cross * x[i]
    b, c = (pull_i + outward(h, i, 1.0)) * v, (pull_j + outward(h, j, 1.0)) * v
    other_b, other_c, v_i, v_j = 0.0, 0.0, v, v
    if u.signed:
        other_b, other_c = (outward(h, i, -1.0) - pull_i) * v, (outward(h, j, -1.0) - pull_j) * v
    for quarter in range(4 if u.signed else 1):
        # xᵢ changes its sign before quarter 2, xⱼ before quarters 1 and 3.
        if quarter == 2:
            b, other_b, d, v_i = other_b, b, -d, -v_i
        elif quarter > 0:
            c, other_c, d, v_j = other_c, c, -d, -v_j
        if u.signed and is_dominated(b, c, d, other_b, other_c):
            continue
        # t = 0 and t = 1 are the ends of the arc; t = −1 marks an absent candidate.
        for t in (0.0, 1.0, *minimise_on_arc(g, x, i, j, a, b, c, d, v)):
            if t >= 0.0:
                new_i, new_j = v_i * (2.0 * t / (1.0 + t * t)), v_j * ((1.0 - t) * (1.0 + t) / (1.0 + t * t))
                delta = model_change(problem, x, i, new_i, j, new_j, theta)
                if delta < best:
                    best_i, best_j, best = new_i, new_j, delta
    return best_i + 0.0, best_j + 0.0, -best  # −0 becomes 0


@kernel
def turning_polynomial(slope_i, slope_j, even_j, q_ii, q_jj, q_ij, v, crosses):
    """Return c₀ … c₄: turning j, at v > 0, towards a zero i changes a function by (c₀ + … + c₄t⁴)/(1 + t²)².

    Here t = tan(α/2), xᵢ becomes u = v sin α, and xⱼ becomes w = v cos α, or −w if it ``crosses`` 0. The function has
    the slopes ``slope_i`` and ``slope_j`` and a quadratic part; ``even_j`` is the part of ``slope_j`` due to |xⱼ|.
    """
    if crosses:
        rest = slope_j - even_j
        c0, c1 = q_jj * v - rest, slope_i - 2.0 * q_ij * v
        c2, c3, c4 = q_ii * v - slope_j, slope_i, -even_j
    else:
        c0, c1 = 0.0, slope_i
        c2, c3, c4 = q_ii * v - slope_j, slope_i - 2.0 * q_ij * v, q_jj * v - slope_j
    return 2.0 * v * c0, 2.0 * v * c1, 2.0 * v * c2, 2.0 * v * c3, 2.0 * v * c4


@kernel
def least_coefficient(c0, c1, c2, c3, c4, hill):
    """Return a lower bound on (c₀ + c₁t + … + c₄t⁴)/(1 + t²)² + hill·min(sin α, cos α) on [0, 1], hill ≥ 0.

    It is the least quotient of Bernstein coefficients. Those of (1 + t²)² are 1, 1, 4/3, 2, 4, those of
    (1 + t²)² sin α are 0, ½, 1, 2, 4, and those of (1 + t²)² cos α are 1, 1, 1, 1, 0.
    """
    b1, b2 = c0 + 0.25 * c1, c0 + 0.5 * c1 + c2 / 6.0
    b3, b4 = c0 + 0.75 * c1 + 0.5 * c2 + 0.25 * c3, c0 + c1 + c2 + c3 + c4
    return smaller(smaller(smaller(c0, b1 + 0.5 * hill), smaller(0.75 * (b2 + hill), 0.5 * (b3 + hill))), 0.25 * b4)


@outlined
def _bound_turns(slopes, diagonal, row, sign, v, slope_j, even_j, q_jj, crosses, pull, hill, promise):
    """Raise ``promise`` to bounds on the gain of turning j towards each zero i on one quarter, in a vectorised loop.

    g is bounded by ``arc_floor``. ``slopes`` are those of f + h in the direction of i, and ``sign`` is that of xᵢxⱼ.
    """
    for i in range(len(promise)):
        c0, c1, c2, c3, c4 = turning_polynomial(
            slopes[i] - pull, slope_j - pull, even_j - pull, diagonal[i], q_jj, sign * row[i], v, crosses
        )
        promise[i] = larger(promise[i], -least_coefficient(c0, c1, c2, c3, c4, hill * v))


@implements(screened_best_pair, Arc)
def _screened_best_pair(u, problem, x, theta, floor):
    """Solve the pairs of non-zero coordinates, and the pairs (zero i, non-zero j) that no bound rules out."""
    f, h, g, n = problem.f, problem.h, problem.g, len(x)
    rising, falling, promise = problem.work[0], problem.work[1], problem.work[2]
    load_slopes(f)
    for i in range(n):
        rising[i] = f.gradient[i] + outward(h, i, 1.0)
        falling[i] = outward(h, i, -1.0) - f.gradient[i]
    best, best_i, best_j, at_i, at_j = floor, -1, -1, 0.0, 0.0
    for j in range(n):
        if x[j] == 0.0:
            continue
        v, q_jj = abs(x[j]), f.diagonal[j]
        slope_j, even_j = rising[j] if x[j] > 0.0 else falling[j], 0.5 * (rising[j] + falling[j])
        row = f.Q[load_row(f, j)]
        pull, hill = arc_floor(g, x, j)
        fill(promise, 0.0)
        for quarter in range(4 if u.signed else 1):
            slopes, sign = (rising if quarter < 2 else falling), 1.0 if (quarter < 2) == (x[j] > 0.0) else -1.0
            crosses = quarter % 2 == 1
            _bound_turns(slopes, f.diagonal, row, sign, v, slope_j, even_j, q_jj, crosses, pull, hill, promise)
        for i in range(n):
            if i <= j if x[i] != 0.0 else promise[i] <= best:
                continue
            new_i, new_j, gain = pair_step(u, problem, x, i, j, theta)
            if gain > best:
                best, best_i, best_j, at_i, at_j = gain, i, j, new_i, new_j
    return best, best_i, best_j, at_i, at_j


@outlined
def _printed_pair(x, total, product, rng):
    """Algorithm 3: i = argmax z, j = argmin z for z = |G ⊙ x − (xᵀG)x ⊙ x|.

    z is 0 at every zero coordinate, so argmin alone would always return the first of them; ties are broken at random.
    """
    worst, largest, best, least, ties = 0, -1.0, 0, np.inf, 0
    for i in range(len(x)):
        z = abs(total[i] * x[i] - product * x[i] * x[i])
        if z > largest:
            worst, largest = i, z
        if z < least:
            best, least, ties = i, z, 1
        elif z == least:
            ties += 1
            if rng.random() * ties < 1.0:
                best = i
    return (worst, best) if worst != best else (-1, -1)


@implements(violating_pair, Arc)
def _violating_pair(u, problem, x, as_printed, rng):
    """Return the coordinate i with the largest feasible |Gᵢ − (xᵀG)xᵢ| and the partner j with the best estimated gain.

    Turning the pair has the slope τ = Gᵢxⱼ − Gⱼxᵢ and the curvature κ = xⱼ²Q_ii + xᵢ²Q_jj − 2xᵢxⱼQ_ij − Gᵢxᵢ − Gⱼxⱼ.
    The estimate is τ²/2κ, at most ½|τ|, or |τ| if κ ≤ 0. Unlike the paper's S₂ it considers zero coordinates.
    """
    f, h, g, n = problem.f, problem.h, problem.g, len(x)
    total = problem.work[0]
    load_slopes(f)
    product = 0.0
    for i in range(n):
        side, tilt = (-1.0 if x[i] < 0.0 else 1.0), subslope(g, x, i)
        if u.signed and x[i] == 0.0 and outward(h, i, -1.0) - f.gradient[i] < outward(h, i, 1.0) + f.gradient[i]:
            side, tilt = -1.0, -tilt
        total[i] = f.gradient[i] + side * outward(h, i, side) + tilt
        if x[i] == 0.0 and side * total[i] >= 0.0:
            total[i] = 0.0  # no direction away from 0 is downhill: the coordinate is not used
        product += total[i] * x[i]
    if as_printed:
        return _printed_pair(x, total, product, rng)
    worst, largest = -1, 0.0
    for i in range(n):
        size = abs(total[i] - product * x[i])
        if size > largest:
            worst, largest = i, size
    if worst < 0:
        return -1, -1
    row, x_i, total_i = f.Q[load_row(f, worst)], x[worst], total[worst]
    partner, largest = -1, 0.0
    for j in range(n):
        torque = total_i * x[j] - total[j] * x_i  # 0 for j = worst
        bend = x[j] * x[j] * f.diagonal[worst] + x_i * x_i * f.diagonal[j] - 2.0 * x_i * x[j] * row[j]
        bend -= total_i * x_i + total[j] * x[j]
        promise = 0.5 * abs(torque) * smaller(abs(torque) / bend, 1.0) if bend > 0.0 else abs(torque)
        if promise > largest:
            partner, largest = j, promise
    return (worst, partner) if partner >= 0 else (-1, -1)


@implements(repair, Arc)
def _repair(u, h, x):
    """Rescale x to the radius."""
    scale = u.radius / np.sqrt(plus_dot(0.0, x, x))
    for i in range(len(x)):
        x[i] *= scale

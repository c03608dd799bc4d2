"""(S2) on the arc u: ‖x‖² = 1, x ≥ 0. The pair turns: xᵢ = v sin α, xⱼ = v cos α."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterpoise.kernels.concave import ROOT_HALF, arc_floor, minimise_on_arc, subslope
from counterpoise.kernels.dispatch import implements, kernel, outlined
from counterpoise.kernels.pair import (
    is_live,
    model_change,
    pair_step,
    repair,
    screened_best_pair,
    violating_pair,
)
from counterpoise.kernels.smooth import curvature, load_row, load_slopes, slope


class Arc(NamedTuple):
    """u(x) = ‖x‖² − radius², with x ≥ 0."""

    radius: float


@implements(is_live, Arc)
def _is_live(u, problem, x, i, j):
    return x[i] > 0.0 or x[j] > 0.0


@implements(pair_step, Arc)
def _pair_step(u, problem, x, i, j, theta):
    """Minimise Q(α) of eq. (plb:nnspca:break) globally, v² = xᵢ² + xⱼ² (misprinted as 1 − xᵢ² + xⱼ²).

    a = ½(Q_jj − Q_ii)v², b = (∇ᵢ − Q_ii xᵢ − Q_ij xⱼ)v, c = (∇ⱼ − Q_ij xᵢ − Q_jj xⱼ)v, d = Q_ij v², where ∇
    includes h's slope and Q its θ.
    """
    f, w, g = problem.f, problem.h.weight, problem.g
    best_i, best_j, best = x[i], x[j], 0.0
    v = np.hypot(x[i], x[j])
    if v == 0.0:
        return best_i, best_j, 0.0
    cross = curvature(f, i, j)
    a = 0.5 * (f.diagonal[j] - f.diagonal[i]) * v * v
    b = (slope(f, i) + w[i] - (f.diagonal[i] + theta) * x[i] - cross * x[j]) * v
    c = (slope(f, j) + w[j] - (f.diagonal[j] + theta) * x[j] - cross * x[i]) * v
    # t = 0 and t = 1 are the ends of the arc; t = −1 marks an absent candidate.
    for t in (0.0, 1.0, *minimise_on_arc(g, x, i, j, a, b, c, cross * v * v, v)):
        if t >= 0.0:
            new_i, new_j = v * (2.0 * t / (1.0 + t * t)), v * ((1.0 - t) * (1.0 + t) / (1.0 + t * t))
            delta = model_change(problem, x, i, new_i, j, new_j, theta)
            if delta < best:
                best_i, best_j, best = new_i, new_j, delta
    return best_i, best_j, -best


@kernel
def _rises(slope_i, slope_j, q_ii, q_jj, q_ij, v):
    """Whether turning mass from j onto a zero i, up to half the arc, cannot lower f.

    With u, w the new values and e = v − w: u²/2v ≤ e ≤ u²/(1 + √½)v and e ≤ (√2 − 1)u, so the change is at
    least u·slope_i + u²·C; that is ≥ 0 on [0, v√½] if it is so at both ends after division by u.
    """
    bend = -slope_j / (2.0 * v) if slope_j < 0.0 else -slope_j / ((1.0 + ROOT_HALF) * v)
    bend += 0.5 * q_ii + 0.0858 * min(q_jj, 0.0) - 0.41422 * max(q_ij, 0.0)
    return slope_i >= 0.0 and slope_i + bend * v * ROOT_HALF >= 0.0


@implements(screened_best_pair, Arc)
def _screened_best_pair(u, problem, x, theta, floor):
    """Try every pair of positive coordinates; bound the pairs (zero i, positive j) from both ends of the arc."""
    f, g, n = problem.f, problem.g, len(x)
    gradient = problem.work[0]
    load_slopes(f)
    for i in range(n):
        gradient[i] = f.gradient[i] + problem.h.weight[i]
    best, best_i, best_j, at_i, at_j = floor, -1, -1, 0.0, 0.0
    for j in range(n):
        v = x[j]
        if v <= 0.0:
            continue
        row = f.Q[load_row(f, j)]
        pull, hill = arc_floor(g, x, j)
        slope_j, q_jj = gradient[j] - pull, f.diagonal[j]
        for i in range(n):
            if x[i] > 0.0:
                if i <= j:
                    continue
            else:
                slope_i, q_ii, q_ij = gradient[i] - pull, f.diagonal[i], row[i]
                exchange = v * (slope_j - slope_i - v * (0.5 * (q_ii + q_jj) - q_ij))
                if (
                    exchange <= best
                    and _rises(slope_i + hill, slope_j, q_ii, q_jj, q_ij, v)
                    and _rises(slope_j + v * (q_ij - q_jj) + hill, slope_i + v * (q_ii - q_ij), q_jj, q_ii, q_ij, v)
                ):
                    continue
            new_i, new_j, gain = pair_step(problem.u, problem, x, i, j, theta)
            if gain > best:
                best, best_i, best_j, at_i, at_j = gain, i, j, new_i, new_j
    return best, best_i, best_j, at_i, at_j


@outlined
def _printed_pair(x, total, product, rng):
    """Algorithm 3: i = argmax z, j = argmin z for z = |G ⊙ x − (xᵀG)x ⊙ x|.

    z vanishes on every zero coordinate, so argmin alone would always name the first of them; ties are broken
    at random.
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
    """Return the coordinate i with the largest feasible |Gᵢ − (xᵀG)xᵢ| and the partner j that promises most.

    Turning the pair has the slope τ = Gᵢxⱼ − Gⱼxᵢ and the curvature κ = xⱼ²Q_ii + xᵢ²Q_jj − 2xᵢxⱼQ_ij − Gᵢxᵢ − Gⱼxⱼ;
    it promises τ²/2κ, or |τ| per radian where κ is not positive. Unlike the paper's S₂ this sees zero coordinates.
    """
    f, g, n = problem.f, problem.g, len(x)
    total = problem.work[0]
    load_slopes(f)
    product = 0.0
    for i in range(n):
        total[i] = f.gradient[i] + problem.h.weight[i] + subslope(g, x, i)
        product += total[i] * x[i]
    if as_printed:
        return _printed_pair(x, total, product, rng)
    worst, largest = -1, 0.0
    for i in range(n):
        residual = total[i] - product * x[i]
        size = -residual if x[i] <= 0.0 else abs(residual)
        if size > largest:
            worst, largest = i, size
    if worst < 0:
        return -1, -1
    row, x_i, total_i = f.Q[load_row(f, worst)], x[worst], total[worst]
    partner, largest = -1, 0.0
    for j in range(n):
        torque = total_i * x[j] - total[j] * x_i
        # At an end of the arc only one sense of turning is open; j = worst has no torque.
        if (x_i > 0.0 or torque < 0.0) and (x[j] > 0.0 or torque > 0.0):
            bend = x[j] * x[j] * f.diagonal[worst] + x_i * x_i * f.diagonal[j] - 2.0 * x_i * x[j] * row[j]
            bend -= total_i * x_i + total[j] * x[j]
            promise = 0.5 * abs(torque) * min(abs(torque) / bend, 1.0) if bend > 0.0 else abs(torque)
            if promise > largest:
                partner, largest = j, promise
    return (worst, partner) if partner >= 0 else (-1, -1)


@implements(repair, Arc)
def _repair(u, h, x):
    """Rescale to the radius."""
    total = 0.0
    for value in x:
        total += value * value
    scale = u.radius / np.sqrt(total)
    for i in range(len(x)):
        x[i] *= scale

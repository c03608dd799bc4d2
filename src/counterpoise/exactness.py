"""Thresholds of λ above which every CWS point is sparse or binary, for the strategies that use them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from counterpoise.terms.separable import is_gapped, is_linear

# Rows of Q that are read at a time.
ROWS = 512


def binary_on_line(problem: Any, theta: float = 0.0) -> float | None:
    """Return the threshold of a g that pushes x to its bounds; None if no theorem covers the problem."""
    h = problem.separable
    if not is_linear(h) or is_gapped(h) or problem.u.groups:
        return None
    threshold: float | None = problem.g.threshold(_largest_alpha(problem) + 2.0 * theta, h.lo, h.hi)
    return threshold


def _largest_alpha(problem: Any) -> float:
    """Return max(Q_ii + Q_jj − 2Q_ij), or the bound 4·max Q_ii where Q is not formed."""
    f = problem.f.majorant
    diagonal = f.diagonal
    if not problem.f.gram:
        return 4.0 * max(float(diagonal.max()), 0.0)
    parts = [slice(first, first + ROWS) for first in range(0, problem.n, ROWS)]
    return max(0.0, *(float((diagonal[rows, None] + diagonal - 2.0 * f.Q[rows]).max()) for rows in parts))


def sparse_on_line(problem: Any, theta: float = 0.0) -> float | None:
    """Return the threshold of TopSum on the line; None if bounds may block the move that the proof makes."""
    h, u = problem.separable, problem.u
    s = problem.g.kernel(h.lo, h.hi).s
    # The coordinate that receives mass must have room: if all have the same bound hi and s·hi ≥ c, one of the s
    # largest has room.
    common = (h.hi == h.hi[0]).all() and s * float(h.hi[0]) >= u.c
    if (h.lo != 0.0).any() or not common or is_gapped(h) or u.groups:
        return None
    slope = h.weight[None, :]
    # Slopes of h differ by at most this much, at its kinks and on its curved pieces up to x = c.
    kinks: float = 2.0 * float(h.cost.sum(axis=0).max(initial=0.0))
    kinks += float(u.c) * float((h.bend + np.maximum(h.curve, 0.0).sum(axis=0)).max())
    if problem.f.quadratic is None:
        return float(problem.f.largest_spread(u.c)) + float(np.ptp(h.weight)) + kinks
    if not problem.f.gram:
        length = math.sqrt(float(np.abs(problem.f.diagonal).max()))
        residual = u.c * length + math.sqrt(2.0 * abs(problem.f.value_at_zero))
        return float(2.0 * length * residual) + float(np.ptp(h.weight)) + kinks
    # The gradient is affine, so its spread is largest at a vertex c·e_k of the simplex.
    spread = max(
        float(np.ptp(u.c * problem.f.Q[first : first + ROWS] + problem.f.p[None, :] + slope, axis=1).max())
        for first in range(0, problem.n, ROWS)
    )
    return spread + kinks


def sparse_on_arc(problem: Any, theta: float = 0.0) -> float | None:
    """Return a multiple of a bound on ‖Qx‖∞: the largest norm of a row of Q, or for x ≥ 0 of its ± parts.

    It holds for h = λ‖x‖₁, which cancels g on the s largest. Let i be the smallest non-zero if there are more than s,
    and j one of the s largest. Rotating i into j until xᵢ = 0 lowers h + g by λ|xᵢ|. If f is concave it raises f by at
    most |∇ᵢf||xᵢ| + |∇ⱼf|(√2 − 1)|xᵢ|, so that λ > √2·max‖Qx‖∞ suffices; with signs the second term is not positive,
    because otherwise xⱼ would change its sign, and λ > max‖Qx‖∞ suffices. For other f the rate of change at the start
    of the rotation is at most |∇ᵢf||xⱼ| + |∇ⱼf||xᵢ| for f and −λ|xⱼ| for h + g: λ > 2·max‖Qx‖∞ suffices.
    """
    signed = problem.u.signed
    if problem.f.quadratic is None or problem.f.value_at_zero != 0.0:
        return None
    if not problem.u.cancels(problem.separable, problem.g.lam):
        return None
    if not problem.f.gram:
        largest = math.sqrt(problem.n) * float(np.abs(problem.f.diagonal).max())
    elif np.any(problem.f.p):
        return None
    else:
        largest = 0.0
        for first in range(0, problem.n, ROWS):
            rows = problem.f.Q[first : first + ROWS]
            for part in (rows,) if signed else (np.maximum(rows, 0.0), np.minimum(rows, 0.0)):
                largest = max(largest, math.sqrt(float(np.einsum("ij,ij->i", part, part).max())))
    if not problem.f.is_concave:
        return 2.0 * largest
    return largest if signed else math.sqrt(2.0) * largest

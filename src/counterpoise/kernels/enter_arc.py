"""Pricing on the arc: what turning a held coordinate towards one at 0 gains, for very many of the latter."""

from __future__ import annotations

import numpy as np

from counterpoise.kernels.dispatch import entry_point, kernel
from counterpoise.kernels.pair import pair_step
from counterpoise.kernels.topsum import others


@kernel
def _nowhere_negative(c0, c1, c2, c3, c4):
    """Whether the Bernstein coefficients on [0, 1] of c₀ + c₁t + … + c₄t⁴ prove that it is ≥ 0 there."""
    b1, b2 = c0 + 0.25 * c1, c0 + 0.5 * c1 + c2 / 6.0
    b3, b4 = c0 + 0.75 * c1 + 0.5 * c2 + 0.25 * c3, c0 + c1 + c2 + c3 + c4
    return c0 >= 0.0 and b1 >= 0.0 and b2 >= 0.0 and b3 >= 0.0 and b4 >= 0.0


@kernel
def _cannot_gain(slope_k, slope_j, q_kk, q_jj, q_kj, v, first, second, lam, most):
    """Whether no turn of a held j towards a zero k lowers F by more than ``most``, without finding the best turn.

    With xₖ = u = v sin α, xⱼ = w = v cos α and t = tan(α/2) ∈ [0, 1], slopes of f + h, and p ≥ q the (s−1)-th and s-th
    largest of the others, F changes by

        σₖu − σⱼ(v − w) + ½Q_kk u² + ½Q_jj(v − w)² − Q_kj u(v − w) + λ·min(u, w, p, u + w − q),    σ = slope − λ,

    if v ≥ q: ‖x‖_[s] rises by max(u, w, q, u + w − p) − v. If v < q it does not rise, for u, w ≤ v < q ≤ p: then σ is
    the slope itself and nothing is added to the quadratic. Each of the four, times (1 + t²)², is a polynomial:

        the quadratic    2v(σₖt + (Q_kk v − σⱼ)t² + (σₖ − 2Q_kj v)t³ + (Q_jj v − σⱼ)t⁴)
        λu, λw           2λv(t + t³), λv(1 − t⁴)
        most, λp, λq     times 1 + 2t² + t⁴

    so no turn gains more than ``most`` if all four sums with most·(1 + t²)² are ≥ 0. That is necessary as well; what is
    lost is lost by Bernstein's coefficients alone.
    """
    in_top = v >= second
    pull = lam if in_top else 0.0
    c1, c2 = 2.0 * v * (slope_k - pull), 2.0 * v * (q_kk * v - slope_j + pull) + 2.0 * most
    c3, c4 = 2.0 * v * (slope_k - pull - 2.0 * q_kj * v), 2.0 * v * (q_jj * v - slope_j + pull) + most
    if not in_top:
        return _nowhere_negative(most, c1, c2, c3, c4)
    # u and w do not exceed v, so p need not; for s = 1 it is infinite.
    rise, hill, bar = 2.0 * lam * v, lam * min(first, v), lam * second
    return (
        _nowhere_negative(most, c1 + rise, c2, c3 + rise, c4)
        and _nowhere_negative(most + 0.5 * rise, c1, c2, c3, c4 - 0.5 * rise)
        and _nowhere_negative(most + hill, c1, c2 + 2.0 * hill, c3, c4 + hill)
        and (
            second == 0.0  # then u + w − q is never the least
            or _nowhere_negative(most + 0.5 * rise - bar, c1 + rise, c2 - 2.0 * bar, c3 + rise, c4 - 0.5 * rise - bar)
        )
    )


@entry_point
def may_gain(problem, x, slope, weight, diagonal, signed, out):
    """Write for each coordinate k at 0 whether turning some held j towards it may gain, whatever Q_kj = σAₖᵀAⱼ is.

    A gain grows with Q_kj, of which the change has the term −Q_kj u(v − w). For σ < 0 Q_kj is at most √(Q_kk Q_jj), and
    at most 0 if no entry of A is negative (``signed`` is false). So no product of columns is needed for those that λ
    keeps out. ``problem``, x and the arrays over k are those of :func:`turning_gains`.
    """
    f, h, g, last = problem.f, problem.h, problem.g, len(x) - 1
    waiting = np.empty((last, 2))
    for j in range(last):
        waiting[j, 0], waiting[j, 1] = others(g, last, j)
    for k in range(len(slope)):
        slope_k, q_kk = slope[k] + weight[k], diagonal[k]
        out[k] = False
        for j in range(last):
            slope_j, q_jj, first, second = f.gradient[j] + h.weight[j], f.diagonal[j], waiting[j, 0], waiting[j, 1]
            q_kj = np.sqrt(q_kk * q_jj) if signed else 0.0
            if not _cannot_gain(slope_k, slope_j, q_kk, q_jj, q_kj, x[j], first, second, g.lam, 0.0):
                out[k] = True
                break


@entry_point
def turning_gains(problem, x, begin, slope, weight, diagonal, cross, best):
    """Raise ``best`` to the largest decrease of F over turns of some held coordinates towards each coordinate k at 0.

    Few pairs are solved, the others are bounded; those above ``best`` are found exactly.

    Parameters
    ----------
    problem, x : Terms and array
        The problem on the held coordinates and one more, the last, at 0: it is made each k in turn.
    begin : int
        The first of the held coordinates that ``cross`` is about.
    slope, weight, diagonal : arrays over k
        ∇ₖf, h's weight and Q_kk.
    cross : array, k × some held coordinates
        Q_kj.
    best : array over k
    """
    f, h, g, last, width = problem.f, problem.h, problem.g, len(x) - 1, cross.shape[1]
    waiting = np.empty((width, 2))
    for c in range(width):
        waiting[c, 0], waiting[c, 1] = others(g, last, begin + c)
    for k in range(len(slope)):
        f.gradient[last], f.diagonal[last], h.weight[last] = slope[k], diagonal[k], weight[k]
        slope_k, q_kk, largest = slope[k] + weight[k], diagonal[k], best[k]
        for c in range(width):
            j, q_kj = begin + c, cross[k, c]
            slope_j, q_jj, first, second = f.gradient[j] + h.weight[j], f.diagonal[j], waiting[c, 0], waiting[c, 1]
            if not _cannot_gain(slope_k, slope_j, q_kk, q_jj, q_kj, x[j], first, second, g.lam, largest):
                f.Q[last, j] = q_kj
                largest = max(largest, pair_step(problem.u, problem, x, last, j, 0.0)[2])
        best[k] = largest

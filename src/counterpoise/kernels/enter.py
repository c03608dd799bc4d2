"""Pricing: the gain of moving or turning a held coordinate towards one at 0, for very many of the latter."""

import numpy as np

from counterpoise.kernels.arc import least_coefficient, outward, turning_polynomial
from counterpoise.kernels.basics import larger, smaller, table
from counterpoise.kernels.dispatch import entry_point, kernel
from counterpoise.kernels.pair import pair_step
from counterpoise.kernels.topsum import others

# On the line: mass moves.


@entry_point
def entering_gains(slope, diagonal, cross, top, held_slope, held_diagonal, mass, rests, lam, old_top, best):
    """Write for each coordinate k at 0 the largest decrease of F over moves of η from a held coordinate j to k.

    ΔF(η) = (slopeₖ − held_slopeⱼ)η + ½(Q_kk + Q_jj − 2Q_kj)η² − λ(‖x⁺‖_[s] − ‖x‖_[s]) for 0 ≤ η ≤ min(massⱼ, topₖ).
    It is a minimum of three convex quadratics, eq. (SIT), whose minimisers are the candidates. λ = ∞ stands for a limit
    on the number of non-zeros: ``old_top`` is then 1 if one more may be non-zero; otherwise all of j goes to k.

    ``slope`` is ∇ₖf + the right slope of h, ``top`` how much k can take, ``cross`` Q_jk, ``held_slope`` ∇ⱼf + the left
    slope of h, ``mass`` how much j can give, and the rows of ``rests`` xⱼ and the sums of the s, s − 1 and s − 2
    largest of the others.
    """
    for k in range(len(slope)):
        largest = 0.0
        here, bend, room = slope[k], diagonal[k], top[k]
        for j in range(len(mass)):
            beta = here - held_slope[j]
            # ‖x‖_[s] does not rise when a zero takes mass, so only a downhill move can gain.
            if beta >= 0.0:
                continue
            most = smaller(mass[j], room)
            alpha = bend + held_diagonal[j] - 2.0 * cross[j, k]
            at, t0, t1, t2 = rests[j, 0], rests[j, 1], rests[j, 2], rests[j, 3]
            if lam == np.inf:
                eta = most
                if old_top > 0.0 and alpha > 0.0:
                    eta = smaller(-beta / alpha, most)
                if old_top > 0.0 or eta == at:
                    largest = larger(largest, -eta * (beta + 0.5 * alpha * eta))
                continue
            for state in range(4):
                if state == 3:
                    eta = most
                elif alpha > 0.0:
                    push = -beta if state == 0 else (lam - beta if state == 1 else -lam - beta)
                    eta = smaller(larger(push / alpha, 0.0), most)
                else:
                    continue
                a, b = eta, at - eta
                new_top = larger(larger(t0, t1 + larger(a, b)), t2 + a + b)
                gain = -eta * (beta + 0.5 * alpha * eta) + lam * (new_top - old_top)
                if gain > largest:
                    largest = gain
        best[k] = largest


# On the arc: a pair turns.


@kernel
def _cannot_gain(slope_k, q_kk, q_jj, q_kj, crosses, held_j, lam, most):
    """Whether no turn of a held j towards a zero k lowers F by more than ``most``, without finding the best turn.

    ``held_j`` is what :func:`_held` writes. With |xₖ| = u = v sin α, |xⱼ| = w = v cos α, t = tan(α/2) ∈ [0, 1], slopes
    of f + h, and p ≥ q the (s−1)-th and s-th largest of the others, F changes by

        σₖu − σⱼ(v − w) + ½Q_kk u² + ½Q_jj(v − w)² − Q_kj u(v − w) + λ·min(u, w, p, u + w − q),    σ = slope − λ,

    if v ≥ q: ‖x‖_[s] rises by max(u, w, q, u + w − p) − v. If v < q it does not rise, because u, w ≤ v < q ≤ p: then σ
    is the slope itself and nothing is added to the quadratic; if j ``crosses`` 0, see :func:`turning_polynomial`. Each
    of the four, times (1 + t²)², is a polynomial:

        λu, λw           2λv(t + t³), λv(1 − t⁴)
        λp, λq           times 1 + 2t² + t⁴

    so no turn gains more than ``most`` if all four sums are ≥ −most. That is also necessary; only the use of Bernstein
    coefficients makes the test conservative.
    """
    v, slope_j, even_j, first, second = held_j[0], held_j[1], held_j[2], held_j[3], held_j[4]
    in_top = v >= second
    pull = lam if in_top else 0.0
    c0, c1, c2, c3, c4 = turning_polynomial(slope_k - pull, slope_j - pull, even_j - pull, q_kk, q_jj, q_kj, v, crosses)
    if not in_top:
        return least_coefficient(c0, c1, c2, c3, c4, 0.0) >= -most
    # u and w do not exceed v, so p can be replaced by min(p, v); for s = 1 it is infinite.
    rise, hill, bar = 2.0 * lam * v, lam * smaller(first, v), lam * second
    return (
        least_coefficient(c0, c1 + rise, c2, c3 + rise, c4, 0.0) >= -most
        and least_coefficient(c0 + 0.5 * rise, c1, c2, c3, c4 - 0.5 * rise, 0.0) >= -most
        and least_coefficient(c0, c1, c2, c3, c4, 0.0) >= -most - hill
        and (
            second == 0.0  # then u + w − q is never the least
            or least_coefficient(c0 + 0.5 * rise, c1 + rise, c2, c3 + rise, c4 - 0.5 * rise, 0.0) >= bar - most
        )
    )


@kernel
def _held(problem, x, j, last, column):
    """Write the data of a held j to ``column``: |xⱼ|, its slope and the even part of that, p, q, and the sign of xⱼ."""
    f, h = problem.f, problem.h
    side = 1.0 if x[j] > 0.0 else -1.0
    column[0], column[1] = abs(x[j]), side * f.gradient[j] + outward(h, j, side)
    column[2] = 0.5 * (outward(h, j, 1.0) + outward(h, j, -1.0))
    column[3], column[4] = others(problem.g, last, j)
    column[5] = side


@entry_point
def may_gain(problem, x, slope, diagonal, mixed, out):
    """Write for each coordinate k at 0 whether turning some held j towards it may gain, for any Q_kj = σAₖᵀAⱼ.

    F changes by a term −Q_kj u(v ∓ w), so a gain grows with Q_kj. That is at most √(Q_kk Q_jj), and for σ < 0 and x ≥ 0
    at most 0 if no entry of A is negative (``mixed`` is false). So columns that λ keeps out need no products.
    ``problem``, x and the arrays over k are those of :func:`turning_gains`.
    """
    f, h, g, signed, last = problem.f, problem.h, problem.g, problem.u.signed, len(x) - 1
    held = table(last, 6)
    for j in range(last):
        _held(problem, x, j, last, held[j])
    rising, falling = outward(h, last, 1.0), outward(h, last, -1.0)
    for k in range(len(slope)):
        # The bound on Q_kj is the same on all quarters, so the steeper of the two directions of k suffices.
        slope_k, q_kk = rising + slope[k], diagonal[k]
        if signed:
            slope_k = smaller(slope_k, falling - slope[k])
        out[k] = False
        for j in range(last):
            q_jj = f.diagonal[j]
            q_kj = np.sqrt(q_kk * q_jj) if mixed or signed else 0.0
            for side in range(2 if signed else 1):
                if not _cannot_gain(slope_k, q_kk, q_jj, q_kj, side == 1, held[j], g.lam, 0.0):
                    out[k] = True
            if out[k]:
                break


@entry_point
def turning_gains(problem, x, begin, slope, diagonal, cross, best):
    """Raise ``best`` to the largest decrease of F over turns of some held coordinates towards each coordinate k at 0.

    Most pairs are only bounded; those that may exceed ``best`` are solved exactly. ``problem`` and x are those on the
    held coordinates and one more, the last, at 0, which stands for each k in turn; h is the same for all k. ``slope``
    and ``diagonal`` are ∇ₖf and Q_kk, and ``cross`` has Q_kj for the held coordinates from ``begin`` on.
    """
    f, h, g, last, width = problem.f, problem.h, problem.g, len(x) - 1, cross.shape[1]
    held = table(width, 6)
    for c in range(width):
        _held(problem, x, begin + c, last, held[c])
    rising, falling = outward(h, last, 1.0), outward(h, last, -1.0)
    for k in range(len(slope)):
        f.gradient[last], f.diagonal[last] = slope[k], diagonal[k]
        q_kk, largest = diagonal[k], best[k]
        for c in range(width):
            j, q_kj = begin + c, held[c, 5] * cross[k, c]
            for quarter in range(4 if problem.u.signed else 1):
                slope_k, turned = (rising + slope[k], q_kj) if quarter < 2 else (falling - slope[k], -q_kj)
                if not _cannot_gain(slope_k, q_kk, f.diagonal[j], turned, quarter % 2 == 1, held[c], g.lam, largest):
                    f.Q[last, j] = cross[k, c]
                    largest = larger(largest, pair_step(problem.u, problem, x, last, j, 0.0)[2])
                    break
        best[k] = largest

"""Exchanges at points whose entries are ±1: descent, tabu search, annealing, and a start by homotopy.

The problem is min ½xᵀQx + pᵀx over the vertices of {−1 ≤ x ≤ 1, 1ᵀx = c}: every entry is 1 or −1 except at most one,
whose value the sum fixes. Exchanging xᵢ and xⱼ keeps the sum, and with δ = xⱼ − xᵢ changes the objective by

    Δ_ij = δ(gᵢ − gⱼ) + ½δ²(Q_ii + Q_jj − 2Q_ij),    g = Qx + p,

which for xᵢ = 1, xⱼ = −1 is aᵢ + bⱼ − 4Q_ij with aᵢ = 2Q_ii − 2gᵢ and bⱼ = 2Q_jj + 2gⱼ. The gradient is updated after
every exchange in O(n), and recomputed after RELOAD·n of them, which adds 1/RELOAD to the cost.
"""

import numpy as np

from counterpoise.kernels.basics import assign, axpy, copied, integers, larger, smaller
from counterpoise.kernels.dispatch import allocating, entry_point, kernel, outlined

RELOAD = 64
# Marks for a coordinate that must not be the first of a pair, and for one that must not move at all.
SECOND_ONLY, NEVER = -1, 2**62
# Larger than any change, and finite, because 0·FORBIDDEN must be 0.
FORBIDDEN = 1e150


@outlined
def load_gradient(Q, p, x, g):
    """Compute g = Qx + p."""
    assign(p, g)
    for i in range(len(x)):
        axpy(x[i], Q[i], g)


@outlined
def follow(Q, g, i, j, delta):
    """Update g after x + δeᵢ − δeⱼ."""
    for k in range(len(g)):
        g[k] += delta * (Q[i, k] - Q[j, k])


@kernel
def exchange_change(Q, diagonal, g, i, j, delta):
    """Return Δ_ij of x + δeᵢ − δeⱼ."""
    return delta * (g[i] - g[j] + 0.5 * delta * (diagonal[i] + diagonal[j] - 2.0 * Q[i, j]))


@entry_point
def descend(Q, p, diagonal, ceiling, floor, most, x, g):
    """Exchange, in place, until no exchange decreases the objective by more than ``floor``; return how many were made.

    At most ``most`` are made.

    Row by row, the best exchange of the row is made. A row i with aᵢ + minⱼ bⱼ − 4 ``ceiling``ᵢ ≥ −floor, where
    ceilingᵢ = max_{j≠i} Q_ij, has none and is skipped in O(1): near the end these are nearly all rows on Gaussian data,
    and half of them on image data. After n successive rows without an exchange the point is proved optimal.
    """
    n = len(x)
    load_gradient(Q, p, x, g)
    done, idle, i = 0, 0, 0
    least = _least_rise(diagonal, g, x)
    while idle < n and done < most:
        j = -1
        if x[i] == 1.0:
            if 2.0 * (diagonal[i] - g[i]) + least - 4.0 * ceiling[i] < -floor:
                j = _best_partner_of_one(Q[i], diagonal, g, x, i, floor)
        elif x[i] != -1.0:
            j = _best_partner_of_fraction(Q, diagonal, g, x, i, floor)
        idle += 1
        if j >= 0:
            follow(Q, g, i, j, x[j] - x[i])
            x[i], x[j] = x[j], x[i]
            done, idle = done + 1, 0
            if done % (RELOAD * n) == 0:
                load_gradient(Q, p, x, g)
            least = _least_rise(diagonal, g, x)
        i = i + 1 if i + 1 < n else 0
    load_gradient(Q, p, x, g)
    return done


@outlined
def _least_rise(diagonal, g, x):
    """Return min bⱼ over xⱼ = −1."""
    least = np.inf
    for j in range(len(x)):
        rise = 2.0 * (diagonal[j] + g[j])
        if rise < least and x[j] == -1.0:
            least = rise
    return least


@outlined
def _best_partner_of_one(row, diagonal, g, x, i, floor):
    """Return the j with the least Δ_ij < −floor among xⱼ = −1, for xᵢ = 1, or −1."""
    best, least = -1, -0.5 * floor - diagonal[i] + g[i]
    for j in range(len(x)):
        rise = diagonal[j] + g[j] - 2.0 * row[j]
        if rise < least and x[j] == -1.0:
            best, least = j, rise
    return best


@outlined
def _best_partner_of_fraction(Q, diagonal, g, x, i, floor):
    """Return the j with the least Δ_ij < −floor among all j, or −1."""
    best, least = -1, -floor
    for j in range(len(x)):
        change = exchange_change(Q, diagonal, g, i, j, x[j] - x[i])
        if change < least and j != i:
            best, least = j, change
    return best


@entry_point
def tabu(Q, p, diagonal, floor, thin, tenure, spread, steps, rng, x, g):
    """Run ``steps`` exchanges of a tabu search and leave x at the best point seen; return its change.

    The first of a pair is the coordinate whose flip costs least, the second its best partner of the other sign. Both
    then rest for ``tenure`` to ``tenure + spread − 1`` steps; an exchange that improves on the best point may still use
    a resting partner. Columns with Q_ii < ``thin`` never come first: their flips cost so little that the search would
    make no others. A fractional coordinate does not move. g is work space.
    """
    n = len(x)
    until, best_x = integers(n), copied(x)
    for k in range(n):
        if abs(x[k]) != 1.0:
            until[k] = NEVER
        elif diagonal[k] < thin:
            until[k] = SECOND_ONLY
    load_gradient(Q, p, x, g)
    change, best, done = 0.0, 0.0, 0
    for now in range(1, steps + 1):
        i = _cheapest_flip(diagonal, g, x, until, now)
        if i < 0:
            continue
        wanted = 0.5 * (best - floor - change)
        j, gain = _best_partner(Q[i], diagonal, g, x, until, now, i, wanted)
        until[i] = now + tenure + int(rng.random() * spread)
        if j < 0:
            continue
        if until[j] != SECOND_ONLY:
            until[j] = now + tenure + int(rng.random() * spread)
        sign = x[i]
        follow(Q, g, i, j, -2.0 * sign)
        x[i], x[j] = -sign, sign
        change += 2.0 * gain
        done += 1
        if done % (RELOAD * n) == 0:
            load_gradient(Q, p, x, g)
        if change < best - floor:
            best = change
            assign(x, best_x)
    assign(best_x, x)
    return best


@outlined
def _cheapest_flip(diagonal, g, x, until, now):
    """Return the free i with the least Q_ii − xᵢgᵢ, half the cost of its flip, or −1."""
    best, least = -1, np.inf
    for k in range(len(x)):
        cost = diagonal[k] - x[k] * g[k]
        if cost < least and 0 <= until[k] < now:
            best, least = k, cost
    return best


@outlined
def _best_partner(row, diagonal, g, x, until, now, i, wanted):
    """Return the j with the least ½Δ_ij among free ones and those with ½Δ_ij < ``wanted``, and that ½Δ_ij."""
    sign = x[i]
    flip = diagonal[i] - sign * g[i]
    best, least = -1, 0.5 * FORBIDDEN
    for k in range(len(x)):
        # Equal signs are excluded by arithmetic, because a branch would be mispredicted half of the time.
        half = flip + diagonal[k] + sign * g[k] - 2.0 * row[k] + (1.0 + sign * x[k]) * FORBIDDEN
        if half < least and (until[k] < now or half < wanted):
            best, least = k, half
    return best, least


@entry_point
def anneal(Q, p, diagonal, hot, cold, proposals, rng, x, g):
    """Propose random exchanges at temperatures falling geometrically from ``hot`` to ``cold``; return the change of f.

    A proposal costs O(1), an accepted one O(n). The coordinates are kept in order, ones first and then the fractional
    one, so that the place of a coordinate determines its value, and values are exchanged by exchanging places.
    """
    n = len(x)
    order, ones, fractional = _order_by_value(x)
    # Without a fractional coordinate, the place after the ones holds a −1 like the following ones.
    middle = x[order[ones]] if ones < n else -1.0
    load_gradient(Q, p, x, g)
    cooling = (cold / hot) ** (n / proposals)
    temperature, change, done = hot, 0.0, 0
    for now in range(1, proposals + 1):
        if now % n == 0:
            temperature *= cooling
        # The fractional coordinate counts among the upper ones and the lower ones alternately.
        upper = ones + (now & 1) * fractional
        if upper == 0 or upper == n:
            continue
        draw = rng.random() * upper
        # The digits that are not used for a choose b; rounding could lead to the end of either range.
        a = smaller(int(draw), upper - 1)
        b = smaller(upper + int((draw - a) * (n - upper)), n - 1)
        i, j = order[a], order[b]
        delta = (middle if b == ones else -1.0) - (middle if a == ones else 1.0)
        rise = exchange_change(Q, diagonal, g, i, j, delta)
        if rise <= 0.0 or (rise < 16.0 * temperature and rng.random() < np.exp(-rise / temperature)):
            order[a], order[b] = j, i
            change += rise
            follow(Q, g, i, j, delta)
            done += 1
            if done % (RELOAD * n) == 0:
                _write_values(order, ones, fractional, middle, x)
                load_gradient(Q, p, x, g)
    _write_values(order, ones, fractional, middle, x)
    return change


@allocating
def _order_by_value(x):
    """Return the coordinates, ones first and then the fractional one, and the numbers of ones and fractional ones."""
    n = len(x)
    order, ones, minus, fraction = integers(n), 0, 0, -1
    for k in range(n):
        if x[k] == 1.0:
            order[ones] = k
            ones += 1
        elif x[k] == -1.0:
            minus += 1
            order[n - minus] = k
        else:
            fraction = k
    if fraction >= 0:
        order[ones] = fraction
    return order, ones, 1 if fraction >= 0 else 0


@outlined
def _write_values(order, ones, fractional, middle, x):
    for a in range(len(order)):
        x[order[a]] = 1.0 if a < ones else -1.0
    if fractional:
        x[order[ones]] = middle


@entry_point
def homotopy(Q, p, c, lipschitz, lam, iterations, x, g):
    """Follow, in place, the minimiser of f − λₖ‖x‖² on {−1 ≤ x ≤ 1, 1ᵀx = c} while λₖ rises from 0 to ``lam``.

    It takes projected gradient steps of length 1/``lipschitz`` from z = x + 0.9(x − x₋). At λ = 0 the problem is
    convex; the growing concave term drives the coordinates apart, so that few have to be rounded at the end.
    """
    n = len(x)
    z, before = copied(x), copied(x)
    for k in range(iterations):
        twice = 2.0 * lam * k / iterations
        for i in range(n):
            z[i] = x[i] + 0.9 * (x[i] - before[i])
            before[i] = x[i]
        load_gradient(Q, p, z, g)
        for i in range(n):
            x[i] = z[i] - (g[i] - twice * z[i]) / lipschitz
        _project(x, c)


@outlined
def _project(x, c):
    """Replace x by clip(x + t, −1, 1) with the sum c, by Newton's method on t, safeguarded by bisection."""
    n = len(x)
    least, most = np.inf, -np.inf
    for i in range(n):
        least, most = smaller(least, x[i]), larger(most, x[i])
    below, above, t = -1.0 - most, 1.0 - least, 0.0
    for _ in range(60):
        missing, free = c, 0
        for i in range(n):
            value = x[i] + t
            if value <= -1.0:
                missing += 1.0
            elif value >= 1.0:
                missing -= 1.0
            else:
                missing -= value
                free += 1
        if abs(missing) <= 1e-12 * n:
            break
        if missing > 0.0:
            below = t
        else:
            above = t
        t = t + missing / free if free > 0 else below
        if not below < t < above:
            t = 0.5 * (below + above)
    for i in range(n):
        x[i] = smaller(larger(x[i] + t, -1.0), 1.0)

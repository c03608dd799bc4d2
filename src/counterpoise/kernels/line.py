"""(S2) on the line u: 1ᵀx = c, where a pair moves to x + η(eᵢ − eⱼ)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterpoise.kernels.basics import fill, larger, smaller
from counterpoise.kernels.concave import barrier, curvature_floor, minimise_on_line, slope_floor
from counterpoise.kernels.dispatch import implements, kernel, outlined, verb
from counterpoise.kernels.pair import (
    followed,
    is_live,
    model_change,
    next_good_pair,
    pair_step,
    repair,
    screened_best_pair,
)
from counterpoise.kernels.separable import bend_right, slope_left, slope_right
from counterpoise.kernels.smooth import curvature, load, load_row, load_slopes, slope

ULP = 4.5e-16
# Factor by which a tight bound is raised, so that rounding does not rule out a pair whose gain equals it.
LOOSE = 1.0 + 1e-6


class Line(NamedTuple):
    """u(x) = 1ᵀx − total; ``scale`` is the largest possible |xᵢ|, the unit of rounding."""

    total: float
    scale: float


class GroupedLine(NamedTuple):
    """A line with limits on the sums over groups, which are disjoint or nested and thus form a tree.

    ``leaf`` is the innermost group of every coordinate. The last group is the root, which holds all coordinates and has
    no limits; ``parent`` and ``depth`` describe the tree, and ``sums`` are the current sums of x.
    """

    total: float
    scale: float
    leaf: np.ndarray
    parent: np.ndarray
    depth: np.ndarray
    least: np.ndarray
    most: np.ndarray
    sums: np.ndarray


@verb
def within(u, i, j, low, high):
    """Return the part of [low, high] in which a transfer η from j to i breaks no limit of u."""
    return low, high


@implements(within, GroupedLine)
def _within(u, i, j, low, high):
    """Check the groups whose sums a transfer changes: those that hold only one of the two."""
    a, b = u.leaf[i], u.leaf[j]
    while a != b:
        if u.depth[a] >= u.depth[b]:
            low, high = larger(low, u.least[a] - u.sums[a]), smaller(high, u.most[a] - u.sums[a])
            a = u.parent[a]
        else:
            low, high = larger(low, u.sums[b] - u.most[b]), smaller(high, u.sums[b] - u.least[b])
            b = u.parent[b]
    return smaller(low, 0.0), larger(high, 0.0)  # rounding of the sums must not exclude η = 0


@implements(followed, GroupedLine)
def _followed(u, i, step):
    g = u.leaf[i]
    while g >= 0:
        u.sums[g] += step
        g = u.parent[g]


@implements(load, GroupedLine)
def _load_sums(u, x):
    fill(u.sums, 0.0)
    for i in range(len(x)):
        if x[i] != 0.0:
            u.sums[u.leaf[i]] += x[i]
    # Children come before their parents.
    for g in range(len(u.sums) - 1):
        u.sums[u.parent[g]] += u.sums[g]


@implements(is_live, Line, GroupedLine)
def _is_live(u, problem, x, i, j):
    h = problem.h
    return (x[i] < h.hi[i] and x[j] > h.lo[j]) or (x[j] < h.hi[j] and x[i] > h.lo[i])


@kernel
def _snap(u, h, i, value):
    """Return the bound, floor or knot that a value equals up to rounding, or the value itself."""
    for k in range(len(h.centre)):
        if abs(value - h.centre[k, i]) <= ULP * larger(u.scale, abs(h.centre[k, i])):
            value = h.centre[k, i]
    if abs(value - h.floor[i]) <= ULP * larger(u.scale, abs(value)):
        return h.floor[i]
    if value - h.lo[i] <= ULP * larger(u.scale, abs(value)):
        return h.lo[i]
    if h.hi[i] - value <= ULP * larger(u.scale, abs(value)):
        return h.hi[i]
    return value


@kernel
def _next_kink(h, x, i, j, position, high):
    """Return the first kink of h along the line beyond ``position``, or ``high``."""
    nearest = high
    for k in range(len(h.centre)):
        at_i, at_j = h.centre[k, i] - x[i], x[j] - h.centre[k, j]
        if position < at_i < nearest:
            nearest = at_i
        if position < at_j < nearest:
            nearest = at_j
    return nearest


@kernel
def admits(h, i, value):
    """Whether a coordinate may have a value: within its bounds, and 0 or at least its floor."""
    return (h.floor[i] <= value or value == 0.0) and h.lo[i] <= value <= h.hi[i]


@implements(pair_step, Line, GroupedLine)
def _pair_step(u, problem, x, i, j, theta):
    """Minimise P(η) = ½αη² + βη + h + g globally over the interval that bounds and limits allow.

    α = Q_ii + Q_jj − 2Q_ij + 2θ, β = ∇ᵢf − ∇ⱼf (the printed sum raises F). h is quadratic between its knots, so on each
    piece g's own minimiser applies with another α and β. Semicontinuous coordinates may also be 0.
    """
    f, h, g = problem.f, problem.h, problem.g
    low, high = larger(h.lo[i] - x[i], x[j] - h.hi[j]), smaller(h.hi[i] - x[i], x[j] - h.lo[j])
    low, high = within(u, i, j, low, high)
    alpha = f.diagonal[i] + f.diagonal[j] - 2.0 * curvature(f, i, j) + 2.0 * theta
    beta = slope(f, i) - slope(f, j)
    best_i, best_j, best = x[i], x[j], 0.0
    position, last = larger(low, h.floor[i] - x[i]), smaller(high, x[j] - h.floor[j])
    while position < last:
        end = _next_kink(h, x, i, j, position, last)
        middle = 0.5 * (position + end)
        bend = bend_right(h, i, x[i] + middle) + bend_right(h, j, x[j] - middle)
        tilt = slope_right(h, i, x[i] + middle) - slope_right(h, j, x[j] - middle) - bend * middle
        eta = minimise_on_line(g, x, i, j, alpha + bend, beta + tilt, position, end)
        new_i, new_j = _snap(u, h, i, x[i] + eta), _snap(u, h, j, x[j] - eta)
        delta = model_change(problem, x, i, new_i, j, new_j, theta)
        if delta < best:
            best_i, best_j, best = new_i, new_j, delta
        position = end
    if h.floor[i] > h.lo[i] or h.floor[j] > h.lo[j]:
        slack = ULP * u.scale
        # A coordinate whose floor equals its upper bound has one value besides 0, and no piece above.
        for side in range(3):
            eta = -x[i] if side == 0 else (x[j] if side == 1 else larger(low, h.floor[i] - x[i]))
            if low - slack <= eta <= high + slack:
                new_i = 0.0 if side == 0 else _snap(u, h, i, x[i] + eta)
                new_j = 0.0 if side == 1 else _snap(u, h, j, x[j] - eta)
                if admits(h, i, new_i) and admits(h, j, new_j):
                    delta = model_change(problem, x, i, new_i, j, new_j, theta)
                    if delta < best:
                        best_i, best_j, best = new_i, new_j, delta
    return best_i, best_j, -best


@kernel
def _rough_bound(alpha, beta, hill, c):
    """Return an upper bound on the gain over η ∈ [0, c], if F changes by at least βη + ½αη² + hill·min(η, c − η).

    For α ≥ 0 the first half gains nothing if β + hill ≥ 0 (otherwise ∞ is returned), and the second half at most the
    gain at c plus ½c times the slope at c, if positive. For α < 0 an end is best. There is no branch and no division,
    so that loops vectorise; c = 0 gives 0.
    """
    convex = alpha >= 0.0
    most = 0.5 * c * larger(0.0, beta + alpha * c - hill) * convex - c * (beta + 0.5 * alpha * c)
    return np.inf if convex & (beta + hill < 0.0) & (c > 0.0) else most


@kernel
def _gain_bound(alpha, beta, hill, c):
    """Return :func:`_rough_bound`, or if that is ∞ the gain without the hill, which is ∞ if unbounded."""
    rough = _rough_bound(alpha, beta, hill, c)
    step = -beta / alpha if (beta < 0.0) & (alpha * c > -beta) else c
    free = -LOOSE * step * (beta + 0.5 * alpha * step)
    free = free if free < np.inf else np.inf
    return free if rough == np.inf else rough


@outlined
def _bound_partners(row, diagonal, diagonal_j, work, receive_j, give_j, space_j, room_j, hill, floor, bound):
    """Bound the gain of every i by receiving from j or giving to j; return how many bounds exceed ``floor``."""
    receive, give, space, resting, room, count = work[0], work[1], work[2], work[3], work[4], 0
    for i in range(len(row)):
        alpha = diagonal[i] + diagonal_j - 2.0 * row[i]
        to_i = _gain_bound(alpha, receive[i] - give_j, hill * resting[i], smaller(room_j, space[i]))
        to_j = _gain_bound(alpha, receive_j - give[i], 0.0, smaller(room[i], space_j))
        bound[i] = larger(to_i, to_j)
        count += bound[i] > floor
    return count


@outlined
def _list_above(values, floor, places):
    """Write the indices of the values above ``floor`` and return their number, without a branch."""
    count = 0
    for i in range(len(values)):
        places[count] = i
        count += values[i] > floor
    return count


@outlined
def _bound_behind_hill(row, diagonal, diagonal_j, work, receive_j, give_j, space_j, room_j, hill, floor, bound, givers):
    """Do as :func:`_bound_partners` for few ``givers``; rough bounds, without a division, suffice behind a hill."""
    receive, give, space, resting, room, count = work[0], work[1], work[2], work[3], work[4], 0
    for i in range(len(row)):
        alpha = diagonal[i] + diagonal_j - 2.0 * row[i]
        bound[i] = _rough_bound(alpha, receive[i] - give_j, hill * resting[i], smaller(room_j, space[i]))
        count += bound[i] > floor
    for i in givers:
        alpha = diagonal[i] + diagonal_j - 2.0 * row[i]
        to_i = _gain_bound(alpha, receive[i] - give_j, 0.0, smaller(room_j, space[i]))
        to_j = _gain_bound(alpha, receive_j - give[i], 0.0, smaller(room[i], space_j))
        bound[i] = larger(to_i, to_j)
        count += bound[i] > floor
    return count


@implements(screened_best_pair, Line, GroupedLine)
def _screened_best_pair(u, problem, x, theta, floor):
    """Solve only the pairs that the bound of :func:`_gain_bound` cannot rule out.

    The many coordinates at their lower bound can only receive. Pairs of two givers are bounded in both directions; the
    room and space of later givers are still 0, so that each pair is examined once.
    """
    f, h, g, n = problem.f, problem.h, problem.g, len(x)
    receive, give, space, resting = problem.work[0], problem.work[1], problem.work[2], problem.work[3]
    given, bound, n_givers = problem.work[4], problem.work[5], 0
    givers, likely = problem.places[:n], problem.places[n:]
    load_slopes(f)
    for i in range(n):
        rho, sigma = slope_floor(g, x, i)
        receive[i] = f.gradient[i] + slope_right(h, i, x[i]) + rho
        give[i] = f.gradient[i] + slope_left(h, i, x[i]) + sigma
        resting[i], space[i], given[i] = x[i] == 0.0, h.hi[i] - x[i], 0.0
        if x[i] > h.lo[i]:
            givers[n_givers] = i
            n_givers += 1
            resting[i] = space[i] = 0.0
    bend = curvature_floor(g) + 2.0 * theta
    best, best_i, best_j, at_i, at_j = floor, -1, -1, 0.0, 0.0
    for position in range(n_givers):
        j = givers[position]
        row, room, diagonal_j = f.Q[load_row(f, j)], x[j] - h.lo[j], f.diagonal[j] + bend
        space_j, hill = h.hi[j] - x[j], barrier(g, x, j, room)
        args = row, f.diagonal, diagonal_j, problem.work, receive[j], give[j], space_j, room, hill, best, bound
        if hill > 0.0 and 8 * n_givers < n:
            count = _bound_behind_hill(*args, givers[:position])
        else:
            count = _bound_partners(*args)
        given[j], space[j] = room, space_j
        for k in range(_list_above(bound, best, likely) if count > 0 else 0):
            i = likely[k]
            if bound[i] > best:
                new_i, new_j, gain = pair_step(problem.u, problem, x, i, j, theta)
                if gain > best:
                    best, best_i, best_j, at_i, at_j = gain, i, j, new_i, new_j
    return best, best_i, best_j, at_i, at_j


@implements(next_good_pair, Line, GroupedLine)
def _next_good_pair(u, problem, x, theta, floor, row):
    """Return the best receiver of the next giver that has one; costs O(n) per giver tried."""
    f, h, g, n = problem.f, problem.h, problem.g, len(x)
    receive = problem.work[0]
    load_slopes(f)
    for i in range(n):
        receive[i] = f.gradient[i] + slope_right(h, i, x[i]) + slope_floor(g, x, i)[0]
    bend = curvature_floor(g) + 2.0 * theta
    best, best_i, j, at_i, at_j = floor, -1, -1, 0.0, 0.0
    for _ in range(n):
        j = row[0] = (row[0] + 1) % n
        if x[j] <= h.lo[j]:
            continue
        give = f.gradient[j] + slope_left(h, j, x[j]) + slope_floor(g, x, j)[1]
        products, room, diagonal_j = f.Q[load_row(f, j)], x[j] - h.lo[j], f.diagonal[j] + bend
        for i in range(n):
            alpha = f.diagonal[i] + diagonal_j - 2.0 * products[i]
            if i != j and _gain_bound(alpha, receive[i] - give, 0.0, smaller(room, h.hi[i] - x[i])) > best:
                new_i, new_j, gain = pair_step(problem.u, problem, x, i, j, theta)
                if gain > best:
                    best, best_i, at_i, at_j = gain, i, new_i, new_j
        if best_i >= 0:
            break
    return best, best_i, j, at_i, at_j


@implements(repair, Line)
def _repair(u, h, x):
    _restore_sum(u.total, u.scale, h, x, False)


@implements(repair, GroupedLine)
def _repair_groups(u, h, x):
    """Restore the sum, then limits broken by rounding, by transfers between a group and the rest of its parent."""
    _restore_sum(u.total, u.scale, h, x, True)
    load(u, x)
    for g in range(len(u.sums) - 1):
        missing = smaller(larger(u.sums[g], u.least[g]), u.most[g]) - u.sums[g]
        if missing != 0.0:
            zeros = abs(missing) > ULP * (32 + len(x)) * u.scale
            inside = _roomiest(u, h, x, g, True, zeros, abs(missing))
            outside = _roomiest(u, h, x, g, False, zeros, abs(missing))
            if inside >= 0 and outside >= 0:
                x[inside] += missing
                x[outside] -= missing


@outlined
def _roomiest(u, h, x, group, inside, zeros, wanted):
    """Return the coordinate with the most room on both sides in a group, or in its parent outside it; −1 for none.

    Coordinates that are 0 may have to stay 0: they count only if ``zeros``, and if no other has the ``wanted`` room.
    """
    best, room = -1, 0.0
    zero, spare = -1, 0.0
    for i in range(len(x)):
        g = u.leaf[i]
        while g >= 0 and g != group and g != u.parent[group]:
            g = u.parent[g]
        slack = smaller(x[i] - larger(h.lo[i], h.floor[i]), h.hi[i] - x[i])
        if g < 0 or (g == group) != inside:
            continue
        if x[i] != 0.0 and slack > room:
            best, room = i, slack
        elif x[i] == 0.0 and slack > spare:
            zero, spare = i, slack
    return zero if zeros and room < wanted and spare > room else best


@outlined
def _restore_sum(sum_wanted, scale, h, x, is_grouped):
    """Snap coordinates to bounds, then give the missing sum to the coordinate with the most room on both sides.

    If only rounding is missing and there are no groups, room counts up to |xᵢ|: to a small coordinate the rounding of
    large ones would be a large change, and a column of large entries has a small coordinate. The sum is compensated
    (Neumaier). ``dust`` is the largest distance from a bound that rounding of n terms explains. If no single coordinate
    has the room, as many as necessary share the missing sum, zeros last.
    """
    lo, hi, floor = h.lo, h.hi, h.floor
    total, lost = 0.0, 0.0
    roomiest, room = -1, 0.0
    steadiest, steady = -1, 0.0
    dust = ULP * (32 + len(x)) * scale
    for i in range(len(x)):
        if x[i] - lo[i] <= dust:
            x[i] = lo[i]
        elif hi[i] - x[i] <= dust:
            x[i] = hi[i]
        elif abs(x[i] - floor[i]) <= dust:
            x[i] = floor[i]
        following = total + x[i]
        if abs(total) >= abs(x[i]):
            lost += (total - following) + x[i]
        else:
            lost += (x[i] - following) + total
        total = following
        slack = smaller(x[i] - floor[i], hi[i] - x[i])
        if slack > room and x[i] != 0.0:
            roomiest, room = i, slack
        if smaller(slack, abs(x[i])) > steady:
            steadiest, steady = i, smaller(slack, abs(x[i]))
    missing = (sum_wanted - total) - lost
    if not is_grouped and 0.0 < abs(missing) <= dust and abs(missing) < steady:
        x[steadiest] += missing
        return
    if abs(missing) < room:
        x[roomiest] += missing
        return
    for zeros in range(2):
        for i in range(len(x)):
            # Do not use a zero to correct rounding: it may have to stay 0.
            if missing == 0.0 or (zeros == 1 and abs(missing) <= dust):
                return
            if (x[i] == 0.0) == (zeros == 1):
                moved = smaller(larger(x[i] + missing, floor[i] if zeros == 0 else lo[i]), hi[i])
                missing -= moved - x[i]
                x[i] = moved

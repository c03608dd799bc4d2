"""Tabu search over supports on the line: a walk that goes on when no exchange improves.

Every step makes the best allowed exchange, whether F rises or falls. For some steps, a coordinate that entered must not
leave and one that left must not enter, so that the walk does not return at once; its result is the best support it
visits. A step scores all exchanges by the closed forms of :mod:`counterpoise.kernels.swap_line` and updates M, Z and ς
after the one it makes. The weights are those given by M if they are within the bounds and h has no kinks, otherwise
those of the small program on the support.
"""

import numpy as np

from counterpoise.kernels.basics import assign, axpy, fill, find, flags, integers, larger, reals, smaller, table
from counterpoise.kernels.dispatch import entry_point, outlined
from counterpoise.kernels.groups import keeps_limits
from counterpoise.kernels.price_line import FLAT, excess_slopes, price, reprice
from counterpoise.kernels.swap_line import copy_support, exchange, gradient_at, load, mark, unload, value_on
from counterpoise.kernels.walk_line import draw_some


@outlined
def drop(m, place, M, Z, schur):
    """Update M, Z and ς after a member leaves; the last member takes its place, and the sum that of the last."""
    n, last = len(schur), m - 1
    inverse = 1.0 / M[place, place]
    for k in range(n):
        schur[k] += Z[place, k] * Z[place, k] * inverse
    for a in range(m + 1):
        if a != place:
            weight = M[a, place] * inverse
            axpy(-weight, Z[place], Z[a])
            for e in range(m + 1):
                if e != place:
                    M[a, e] -= weight * M[place, e]
    for target, source in ((place, last), (last, m)):
        if target != source:
            assign(Z[source], Z[target])
            corner = M[source, source]
            assign(M[source, : m + 1], M[target])
            for e in range(m + 1):
                M[e, target] = M[e, source]
            M[target, target] = corner


@outlined
def enter(problem, held, m, enters, M, Z, schur, entry):
    """Update M, Z and ς after a newcomer enters as the last of m + 1 members; the sum comes after it."""
    Q, n = problem.Q, len(schur)
    for k in range(n):
        entry[k] = Q[enters, k] - Z[m, k]
    for a in range(m):
        axpy(-Q[held[a], enters], Z[a], entry)
    inverse = 1.0 / entry[enters]
    # The sum moves up by one.
    assign(Z[m], Z[m + 1])
    assign(M[m, : m + 1], M[m + 1])
    for e in range(m + 1):
        M[e, m + 1] = M[e, m]
    M[m + 1, m + 1] = M[m, m]
    for a in range(m + 2):
        if a != m:
            weight = Z[a, enters] * inverse
            for e in range(m + 2):
                if e != m:
                    M[a, e] += weight * Z[e, enters]
            M[a, m] = -weight
            M[m, a] = -weight
    M[m, m] = inverse
    for a in range(m + 2):
        if a != m:
            axpy(-Z[a, enters] * inverse, entry, Z[a])
    for k in range(n):
        Z[m, k] = entry[k] * inverse
        schur[k] -= entry[k] * entry[k] * inverse


@outlined
def _challenge(slope, schur, row, shift, inverse, cost, flat, member, top, who):
    """Record a member as the leaver for every newcomer for which it gains most so far, without a branch."""
    for k in range(len(top)):
        descent = larger(row[k] * shift - slope[k], 0.0)
        bend = schur[k] + row[k] * row[k] * inverse
        gain = (0.5 * descent * descent / bend if bend > flat[k] else 0.0) - cost
        better = gain > top[k]
        top[k] = gain if better else top[k]
        who[k] = member if better else who[k]


@outlined
def _free_weights(problem, held, m, M, z):
    """Write the weights given by M, which ignore bounds; return whether they are optimal on the support."""
    h, inside = problem.h, len(problem.h.centre) == 0
    for a in range(m):
        total = problem.u.total * M[a, m]
        for e in range(m):
            total -= M[a, e] * problem.b[held[e]]
        z[a] = total
        inside = inside and larger(h.lo[held[a]], h.floor[held[a]]) <= total <= h.hi[held[a]] and total > 0.0
    return inside and keeps_limits(problem.u, held, m, z)


@outlined
def _entering(slope, bend, least, reach):
    """Return the gain of a newcomer with the best weight between ``least`` and ``reach``; it may be negative."""
    weight = reach
    if bend * reach > -slope:
        weight = larger(-slope / bend, least) if bend > 0.0 else least
    return -slope * weight - 0.5 * larger(bend, 0.0) * weight * weight


@outlined
def _best_ruled_move(problem, held, m, z, s, step, slope, schur, M, Z, is_held, leave_from, enter_from):
    """Return (place of the leaver, newcomer), −1 for none, of the allowed move with the best estimate under floors."""
    h, place, enters, most = problem.h, -1, -1, -np.inf
    for a in range(-1, m):
        shift, inverse, cost = 0.0, 0.0, 0.0
        if a >= 0:
            i = held[a]
            if leave_from[i] > step or h.lo[i] > 0.0 or M[a, a] <= 0.0 or m == 1:
                continue
            inverse = 1.0 / M[a, a]
            shift = z[a] * inverse
            cost = 0.5 * z[a] * shift - larger(slope[i], 0.0) * z[a]
            if -cost > most:
                place, enters, most = a, -1, -cost
        elif m >= s:
            continue
        for k in range(len(slope)):
            if is_held[k] or enter_from[k] > step or h.hi[k] <= 0.0:
                continue
            row = Z[a, k] if a >= 0 else 0.0
            bend = schur[k] + row * row * inverse
            gain = _entering(slope[k] - row * shift, bend, h.floor[k], smaller(problem.u.total, h.hi[k])) - cost
            if gain > most:
                place, enters, most = a, k, gain
    return place, enters


@entry_point
def walk(problem, x, s, steps, stay, away, rng):
    """Walk ``steps`` steps from x, and write the best point visited to x.

    It begins at the s largest coordinates of x; while there are fewer, the one with the largest gain enters at every
    step. A newcomer has to stay, and a leaver to stay away, for a random number of steps from half of ``stay`` or
    ``away`` up. Return f + h at the best point, relative to its value at 0; infinite if the s largest coordinates
    cannot hold the sum.
    """
    n = len(x)
    held, z = integers(s + 1), reals(s + 1)
    m, _ = load(problem, x, s, held, z)
    if m == 0:
        return np.inf
    value = value_on(problem, held, m, z)
    best_held, best_z, best_m, best = integers(s + 1), reals(s + 1), m, value
    copy_support(held, z, m, best_held, best_z)
    if s < 2:
        return value
    old_held, old_z = integers(s + 1), reals(s + 1)
    new_held, new_z = integers(s + 1), reals(s + 1)
    M, Z, schur = table(s + 2, s + 2), table(s + 2, n), reals(n)
    gradient, slope, entry, flat = reals(n), reals(n), reals(n), reals(n)
    top, who = reals(n), reals(n)
    leave_from, enter_from = integers(n), integers(n)
    is_held = flags(n, False)
    for k in range(n):
        flat[k] = FLAT * problem.Q[k, k]
    mark(held, m, is_held)
    price(problem, held, m, M, Z, schur)
    for step in range(steps):
        gradient_at(problem, held, m, z, gradient)
        excess_slopes(problem, held, m, z, gradient, slope)
        place, enters, most = -1, -1, 0.0
        if problem.ruled:
            found = _best_ruled_move(problem, held, m, z, s, step, slope, schur, M, Z, is_held, leave_from, enter_from)
            place, enters = found
        elif m < s:  # there is room: the coordinate that gains most enters
            for k in range(n):
                closed = is_held[k] or enter_from[k] > step or problem.h.hi[k] <= 0.0 or schur[k] <= flat[k]
                if not closed and slope[k] < 0.0 and slope[k] * slope[k] > most * schur[k]:
                    enters, most = k, slope[k] * slope[k] / schur[k]
        if enters < 0 and m >= 2 and not problem.ruled:
            fill(top, -np.inf)
            for a in range(m):
                i = held[a]
                if leave_from[i] > step or problem.h.lo[i] > 0.0 or M[a, a] <= 0.0:
                    continue
                inverse = 1.0 / M[a, a]
                shift = z[a] * inverse
                _challenge(slope, schur, Z[a], shift, inverse, 0.5 * z[a] * shift, flat, float(a), top, who)
            most = -np.inf
            for k in range(n):
                if top[k] > most and not is_held[k] and enter_from[k] <= step and problem.h.hi[k] > 0.0:
                    place, enters, most = int(who[k]), k, top[k]
        if enters < 0 and place < 0:
            continue
        # Update M, Z and ς first: the weights given by M show whether the small program is needed.
        old_m, sound = m, True
        copy_support(held, z, m, old_held, old_z)
        if place < 0:
            enter(problem, held, m, enters, M, Z, schur, entry)
            held[m] = enters
            m += 1
        elif enters < 0:
            drop(m, place, M, Z, schur)
            m -= 1
            held[place], z[place] = held[m], z[m]
        else:
            held[place] = enters
            sound = reprice(problem, held, m, place, enters, M, Z, schur, entry)
        if not sound:
            price(problem, held, m, M, Z, schur)
        inside = _free_weights(problem, held, m, M, z)
        if not inside:
            size, _ = exchange(problem, old_held, old_m, old_z, place, enters, new_held, new_z)
            if size == 0:  # no feasible point: undo the move, and forbid it for a while
                m = old_m
                copy_support(old_held, old_z, m, held, z)
                price(problem, held, m, M, Z, schur)
                if enters >= 0:
                    enter_from[enters] = step + 1 + away
                else:
                    leave_from[held[place]] = step + 1 + away
                continue
            kept = 0
            # new_held is held without those that became 0, in the same order.
            for a in range(m):
                if kept < size and new_held[kept] == held[a]:
                    z[a] = new_z[kept]
                    kept += 1
                else:
                    z[a] = -1.0
            a = m - 1
            while a >= 0:
                if z[a] < 0.0:
                    is_held[held[a]] = False
                    enter_from[held[a]] = step + 1 + draw_some(away, rng)
                    if M[a, a] > 0.0:
                        drop(m, a, M, Z, schur)
                    else:
                        sound = False
                    m -= 1
                    held[a], z[a] = held[m], z[m]
                    if not sound:
                        price(problem, held, m, M, Z, schur)
                        sound = True
                a -= 1
        if enters >= 0:
            is_held[enters] = find(enters, held, m) >= 0
            leave_from[enters] = step + 1 + draw_some(stay, rng)
        if place >= 0:
            left = old_held[place]
            is_held[left] = False
            enter_from[left] = step + 1 + draw_some(away, rng)
        value = value_on(problem, held, m, z)
        if value < best:
            best, best_m = value, m
            copy_support(held, z, m, best_held, best_z)
    unload(best_held, best_m, best_z, x)
    return best

"""Portfolios under rules: the best weights of given names, exchanges of names, and the best pair under all rules.

The problem is min ½xᵀQx + bᵀx + Σ costᵢ|xᵢ − centreᵢ| subject to 1ᵀx = 1, xᵢ = 0 or loᵢ ≤ xᵢ ≤ hiᵢ, at most s names,
and limits least ≤ Σ_{i∈g} xᵢ ≤ most on disjoint groups. A name's lower bound is a breakpoint: below it only 0 is left.

A direction that keeps the sum and the limits of disjoint groups is a sum of transfers between two names, none of which
breaks a limit that the direction keeps (the rules are those of a flow in a tree). So for given names, where all rules
are convex, a point that no pair improves is the best one; :func:`solve_on` stops there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterpoise.kernels.dispatch import allocating, entry_point, outlined
from counterpoise.kernels.swap_line import copy_support, invert_definite, mark

# Relative: what counts as being on a limit, and as a slope that is worth a step.
AT_LIMIT, FLAT_SLOPE = 1e-12, 1e-13
# Added to the diagonal, relative to its largest entry.
RIDGE = 1e-11


class Rules(NamedTuple):
    """The problem as kernels see it; ``group`` is −1 for names without one."""

    Q: np.ndarray
    b: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    must: np.ndarray
    group: np.ndarray
    least: np.ndarray
    most: np.ndarray
    centre: np.ndarray
    cost: np.ndarray


@outlined
def value_on(rules, held, m, z):
    """Return the objective of m held names with weights z, relative to that of x = 0."""
    total = 0.0
    for a in range(m):
        i, slope = held[a], 0.0
        for e in range(m):
            slope += rules.Q[i, held[e]] * z[e]
        total += z[a] * (rules.b[i] + 0.5 * slope)
        total += rules.cost[i] * (abs(z[a] - rules.centre[i]) - abs(rules.centre[i]))
    return total


@outlined
def group_sums(rules, held, m, z, sums):
    """Write the weight of every group."""
    sums[:] = 0.0
    for a in range(m):
        if rules.group[held[a]] >= 0:
            sums[rules.group[held[a]]] += z[a]


@allocating
def make_feasible(rules, held, m, z):
    """Move z, in place, to weights that keep all rules for these names; return whether there are any."""
    sums = np.zeros(len(rules.least))
    for a in range(m):
        z[a] = min(max(z[a], rules.lo[held[a]]), rules.hi[held[a]])
    group_sums(rules, held, m, z, sums)
    for g in range(len(sums)):
        for a in range(m):
            i = held[a]
            if rules.group[i] == g:
                wanted = min(max(sums[g], rules.least[g]), rules.most[g]) - sums[g]
                moved = min(max(z[a] + wanted, rules.lo[i]), rules.hi[i])
                sums[g] += moved - z[a]
                z[a] = moved
        if sums[g] < rules.least[g] - AT_LIMIT or sums[g] > rules.most[g] + AT_LIMIT:
            return False
    rest = 1.0
    for a in range(m):
        rest -= z[a]
    for _ in range(2):  # the second round removes what rounding left
        for a in range(m):
            i, g = held[a], rules.group[held[a]]
            moved = min(max(z[a] + rest, rules.lo[i]), rules.hi[i])
            if g >= 0:
                moved = min(
                    max(moved, z[a] + min(rules.least[g] - sums[g], 0.0)), z[a] + max(rules.most[g] - sums[g], 0.0)
                )
                sums[g] += moved - z[a]
            rest -= moved - z[a]
            z[a] = moved
    return abs(rest) <= AT_LIMIT


@outlined
def worst_transfer(held, m, z, lo, hi, right, left, group, sums, least, most):
    """Return (receiver, giver, slope difference) of the transfer that the slopes want most; −1 if none is open."""
    rise, fall, worst = -1, -1, 0.0
    for a in range(m):
        if z[a] >= hi[a]:
            continue
        g = group[held[a]]
        full = g >= 0 and sums[g] >= most[g] - AT_LIMIT
        for c in range(m):
            if c == a or z[c] <= lo[c] or left[c] - right[a] <= worst:
                continue
            k = group[held[c]]
            if g != k and (full or (k >= 0 and sums[k] <= least[k] + AT_LIMIT)):
                continue
            rise, fall, worst = a, c, left[c] - right[a]
    return rise, fall, worst


@allocating
def free_step(H, gradient, free, m, row_of, rows, step):
    """Write the Newton step of the m free coordinates that changes no active row; row_of[a] is a's group row or −1.

    Row 0 is the sum if ``rows`` counts it; coordinates whose row_of is −1 belong to it alone.
    """
    P = np.empty((m, m))
    size = 0.0
    for a in range(m):
        size = max(size, H[free[a], free[a]])
    for a in range(m):
        for e in range(m):
            P[a, e] = H[free[a], free[e]]
        P[a, a] += RIDGE * size + 1e-100
    inverse = invert_definite(P)
    E = np.zeros((rows, m))
    loose = False
    for a in range(m):
        loose = loose or row_of[free[a]] < 0
    # If every free coordinate has an active group, the groups fix the sum: its row would repeat theirs.
    for a in range(m):
        E[0, a] = 1.0 if loose else 0.0
        if row_of[free[a]] >= 0:
            E[row_of[free[a]], a] = 1.0
    W = np.zeros((rows, m))
    for r in range(rows):
        for a in range(m):
            for e in range(m):
                W[r, a] += E[r, e] * inverse[e, a]
    S = np.zeros((rows, rows))
    weight = np.zeros(rows)
    for r in range(rows):
        for q in range(rows):
            for a in range(m):
                S[r, q] += W[r, a] * E[q, a]
        for a in range(m):
            weight[r] += W[r, a] * gradient[free[a]]
    for r in range(rows):
        if S[r, r] <= 0.0:  # a row without free members
            S[r, r] = 1.0
    multiplier = invert_definite(S) @ weight
    for a in range(m):
        total = 0.0
        for e in range(m):
            total -= inverse[a, e] * gradient[free[e]]
        for r in range(rows):
            total += W[r, a] * multiplier[r]
        step[a] = total
    # Where H is singular the inverse is large and its rounding too: what the rows lost by it is given back.
    excess, members = np.zeros(rows), np.zeros(rows)
    for a in range(m):
        r = max(row_of[free[a]], 0)
        excess[r] += step[a]
        members[r] += 1.0
    for a in range(m):
        r = max(row_of[free[a]], 0)
        step[a] -= excess[r] / members[r]


@allocating
def solve_pieces(rules, held, H, q, lo, hi, z):
    """Minimise ½zᵀHz + qᵀz over the box, the sum as it is and the groups, from a feasible z, in place.

    A primal active set as :func:`counterpoise.kernels.programs.solve_box_sum`, with a row for every group at a limit.
    """
    k, groups = len(z), len(rules.least)
    at = np.zeros(k, dtype=np.int64)
    active = np.zeros(groups, dtype=np.bool_)
    sums, row = np.zeros(groups), np.full(groups, -1, dtype=np.int64)
    free, row_of = np.empty(k, dtype=np.int64), np.full(k, -1, dtype=np.int64)
    gradient, step, shift = np.empty(k), np.empty(k), np.empty(groups)
    group_sums(rules, held, k, z, sums)
    for a in range(k):
        at[a] = -1 if z[a] <= lo[a] else (1 if z[a] >= hi[a] else 0)
    for g in range(groups):
        active[g] = sums[g] <= rules.least[g] + AT_LIMIT or sums[g] >= rules.most[g] - AT_LIMIT
    whole_steps = 0
    for _ in range(40 * k + 40):
        m, size = 0, 0.0
        for a in range(k):
            total = q[a]
            for c in range(k):
                total += H[a, c] * z[c]
            gradient[a] = total
            size = max(size, abs(total), abs(q[a]))
            if at[a] == 0:
                free[m] = a
                m += 1
        group_sums(rules, held, k, z, sums)
        found = worst_transfer(held, k, z, lo, hi, gradient, gradient, rules.group, sums, rules.least, rules.most)
        rise, fall, worst = found
        if rise < 0 or worst <= FLAT_SLOPE * size:
            return
        if whole_steps >= 2 or m < 2:
            g, c = rules.group[held[rise]], rules.group[held[fall]]
            across = g != c
            if (
                at[rise] == 0
                and at[fall] == 0
                and (not across or not ((g >= 0 and active[g]) or (c >= 0 and active[c])))
            ):
                return
            at[rise], at[fall], whole_steps = 0, 0, 0
            if across and g >= 0:
                active[g] = False
            if across and c >= 0:
                active[c] = False
            continue
        rows = 1
        for g in range(groups):
            row[g] = -1
        for a in range(m):
            g = rules.group[held[free[a]]]
            row_of[free[a]] = -1
            if g >= 0 and active[g]:
                if row[g] < 0:
                    row[g] = rows
                    rows += 1
                row_of[free[a]] = row[g]
        free_step(H, gradient, free, m, row_of, rows, step)
        length, blocking, limit = 1.0, -1, -1
        shift[:] = 0.0
        for a in range(m):
            i = free[a]
            room = (hi[i] - z[i]) if step[a] > 0.0 else (lo[i] - z[i])
            if step[a] != 0.0 and room / step[a] < length:
                length, blocking = max(room / step[a], 0.0), a
            if rules.group[held[i]] >= 0:
                shift[rules.group[held[i]]] += step[a]
        for g in range(groups):
            if active[g] or shift[g] == 0.0:
                continue
            room = (rules.most[g] - sums[g]) if shift[g] > 0.0 else (rules.least[g] - sums[g])
            if room / shift[g] < length:
                length, blocking, limit = max(room / shift[g], 0.0), -1, g
        for a in range(m):
            z[free[a]] += length * step[a]
        whole_steps += 1
        if blocking >= 0:
            i = free[blocking]
            at[i] = 1 if step[blocking] > 0.0 else -1
            z[i] = hi[i] if at[i] == 1 else lo[i]
            whole_steps = 0
        elif limit >= 0:
            active[limit] = True
            whole_steps = 0


@allocating
def solve_on(rules, held, m, z):
    """Find the best weights of the m held names from feasible z, in place; kinks of the cost are crossed in pairs."""
    H, q, lo, hi = np.empty((m, m)), np.empty(m), np.empty(m), np.empty(m)
    kinked = False
    for a in range(m):
        i = held[a]
        for e in range(m):
            H[a, e] = rules.Q[i, held[e]]
        lo[a], hi[a], q[a] = rules.lo[i], rules.hi[i], rules.b[i]
        kinked = kinked or (rules.cost[i] > 0.0 and lo[a] < rules.centre[i] < hi[a])
    to_right = np.ones(m, dtype=np.bool_)
    piece_lo, piece_hi, tilt = np.empty(m), np.empty(m), np.empty(m)
    right, left, sums = np.empty(m), np.empty(m), np.zeros(len(rules.least))
    for _ in range(6 * m + 20):
        for a in range(m):
            i = held[a]
            above = z[a] > rules.centre[i] or (z[a] == rules.centre[i] and to_right[a])
            piece_lo[a] = max(lo[a], rules.centre[i]) if above and rules.cost[i] > 0.0 else lo[a]
            piece_hi[a] = hi[a] if above or rules.cost[i] == 0.0 else min(hi[a], rules.centre[i])
            tilt[a] = q[a] + (rules.cost[i] if above else -rules.cost[i])
        solve_pieces(rules, held, H, tilt, piece_lo, piece_hi, z)
        if not kinked:
            return
        size = 0.0
        for a in range(m):
            i, gradient = held[a], q[a]
            for e in range(m):
                gradient += H[a, e] * z[e]
            right[a] = gradient + (rules.cost[i] if z[a] >= rules.centre[i] else -rules.cost[i])
            left[a] = gradient + (rules.cost[i] if z[a] > rules.centre[i] else -rules.cost[i])
            size = max(size, abs(right[a]), abs(left[a]))
        group_sums(rules, held, m, z, sums)
        rise, fall, worst = worst_transfer(held, m, z, lo, hi, right, left, rules.group, sums, rules.least, rules.most)
        if rise < 0 or worst <= 1e-12 * size:
            return
        to_right[:] = True
        to_right[rise], to_right[fall] = True, False


@outlined
def trim(rules, held, m, z):
    """Drop the names of weight 0; return how many are left."""
    kept = 0
    for a in range(m):
        if z[a] > 0.0:
            held[kept], z[kept] = held[a], z[a]
            kept += 1
    return kept


@allocating
def score(rules, held, m, z, s, gradient, is_held, best, out, into):
    """Fill the lists of the most promising moves, best first: gain, who leaves (−1: none), who enters (−1: none).

    The promise takes all members as free and the groups at a limit as fixed; :func:`solve_on` verifies every move.
    """
    Q, n, groups = rules.Q, len(rules.b), len(rules.least)
    sums, row = np.zeros(groups), np.full(groups, -1, dtype=np.int64)
    group_sums(rules, held, m, z, sums)
    rows, loose = 1, False
    for a in range(m):
        g = rules.group[held[a]]
        if g >= 0 and (sums[g] <= rules.least[g] + AT_LIMIT or sums[g] >= rules.most[g] - AT_LIMIT):
            if row[g] < 0:
                row[g] = rows
                rows += 1
        else:
            loose = True
    P, size = np.empty((m, m)), 0.0
    for a in range(m):
        size = max(size, Q[held[a], held[a]])
    for a in range(m):
        for e in range(m):
            P[a, e] = Q[held[a], held[e]]
        P[a, a] += 1e-11 * size + 1e-100
    inverse = invert_definite(P)
    E = np.zeros((rows, m))
    for a in range(m):
        g = rules.group[held[a]]
        E[0, a] = 1.0 if loose else 0.0
        if g >= 0 and row[g] >= 0:
            E[row[g], a] = 1.0
    W = E @ inverse
    S = W @ E.T
    for r in range(rows):
        if S[r, r] <= 0.0:
            S[r, r] = 1.0
    T = invert_definite(S)
    M = inverse - W.T @ (T @ W)
    V = T @ W
    multiplier = np.zeros(rows)
    for r in range(rows):
        for a in range(m):
            multiplier[r] += V[r, a] * gradient[held[a]]
    count, most = 0, len(best)
    column, Z = np.empty(m), np.empty(m)
    cost, shift = np.empty(m), np.empty(m)
    for a in range(m):
        i, g = held[a], rules.group[held[a]]
        slope = gradient[i] - multiplier[0] * loose
        if g >= 0 and row[g] >= 0:
            slope -= multiplier[row[g]]
        spread = max(M[a, a], 1e-100)
        shift[a] = z[a] / spread
        cost[a] = 0.5 * z[a] * shift[a] - slope * z[a]
        if rules.must[i]:
            cost[a] = np.inf
        elif m > 1 and -cost[a] > 0.0:
            count = _enlist(best, out, into, count, most, -cost[a], i, -1)
    for k in range(n):
        if is_held[k] or rules.hi[k] <= 0.0:
            continue
        g = rules.group[k]
        slope, bend = gradient[k] - multiplier[0] * loose, Q[k, k]
        if g >= 0 and row[g] >= 0:
            slope -= multiplier[row[g]]
        for a in range(m):
            column[a] = Q[held[a], k]
        for a in range(m):
            total = V[0, a] * loose
            if g >= 0 and row[g] >= 0:
                total += V[row[g], a]
            for e in range(m):
                total += M[a, e] * column[e]
            Z[a] = total
            bend -= column[a] * total
        for r in range(rows):
            inside = (r == 0 and loose) or (g >= 0 and row[g] == r)
            if inside:
                for a in range(m):
                    bend -= V[r, a] * column[a]
                for o in range(rows):
                    if (o == 0 and loose) or (g >= 0 and row[g] == o):
                        bend += T[r, o]
        reach = min(1.0, rules.hi[k])
        if m < s:
            gain = _entering(slope, bend, rules.lo[k], reach)
            if gain > 0.0:
                count = _enlist(best, out, into, count, most, gain, -1, k)
        for a in range(m):
            if cost[a] == np.inf:
                continue
            tilted, bent = slope, bend
            price = cost[a]
            if m > 1:
                tilted -= Z[a] * shift[a]
                bent += Z[a] * Z[a] / max(M[a, a], 1e-100)
            else:
                price = 0.0
            gain = _entering(tilted, bent, rules.lo[k], reach) - price
            if gain > 0.0:
                count = _enlist(best, out, into, count, most, gain, held[a], k)
    return count


@outlined
def _entering(slope, bend, least, reach):
    """Return what a newcomer may gain with a weight between ``least`` and ``reach``."""
    if slope >= 0.0:
        weight = least
    elif bend * reach > -slope:
        weight = max(-slope / bend, least)
    else:
        weight = reach
    return -slope * weight - 0.5 * max(bend, 0.0) * weight * weight


@outlined
def _enlist(best, out, into, count, most, gain, leaver, newcomer):
    """Put a move into the list if it is among the best; return the list's length."""
    if count == most and gain <= best[most - 1]:
        return count
    place = min(count, most - 1)
    while place > 0 and best[place - 1] < gain:
        best[place], out[place], into[place] = best[place - 1], out[place - 1], into[place - 1]
        place -= 1
    best[place], out[place], into[place] = gain, leaver, newcomer
    return min(count + 1, most)


@outlined
def changed(rules, held, m, z, leaver, newcomer, new_held, new_z):
    """Write the names after a move, solved; return how many they are, 0 if they cannot keep the rules."""
    size, mass = 0, 0.0
    for a in range(m):
        if held[a] == leaver:
            mass = z[a]
        else:
            new_held[size], new_z[size] = held[a], z[a]
            size += 1
    if newcomer >= 0:
        new_held[size], new_z[size] = newcomer, mass
        size += 1
    if not make_feasible(rules, new_held, size, new_z):
        return 0
    solve_on(rules, new_held[:size], size, new_z[:size])
    return trim(rules, new_held, size, new_z)


@outlined
def slopes_at(rules, held, m, z, gradient):
    """Write all slopes; to the right of 0 for names that are not held."""
    n = len(gradient)
    for k in range(n):
        gradient[k] = rules.b[k] + (rules.cost[k] if rules.centre[k] <= 0.0 else -rules.cost[k])
    for a in range(m):
        i = held[a]
        for k in range(n):
            gradient[k] += z[a] * rules.Q[i, k]
    for a in range(m):
        i = held[a]
        gradient[i] -= rules.cost[i] if rules.centre[i] <= 0.0 else -rules.cost[i]
        gradient[i] += rules.cost[i] if z[a] >= rules.centre[i] else -rules.cost[i]


@allocating
def climb_down(rules, s, held, m, z, value, tol, tries, rounds):
    """Move while one of the most promising moves gains more than tol·|value|, in so many rounds at most.

    Returns the new size and value, and whether no such move is left.
    """
    n = len(rules.b)
    gradient, is_held = np.empty(n), np.zeros(n, dtype=np.bool_)
    best, out, into = np.empty(tries), np.empty(tries, dtype=np.int64), np.empty(tries, dtype=np.int64)
    new_held, new_z = np.empty(s + 1, dtype=np.int64), np.empty(s + 1)
    for _ in range(rounds if tries else 0):
        mark(held, m, is_held)
        slopes_at(rules, held, m, z, gradient)
        count = score(rules, held, m, z, s, gradient, is_held, best, out, into)
        moved = False
        for k in range(count):
            # Names that have moved since the list was made are passed over.
            if (out[k] >= 0 and not is_held[out[k]]) or (into[k] >= 0 and is_held[into[k]]):
                continue
            if (into[k] >= 0 and out[k] < 0 and m >= s) or m + (into[k] >= 0) - (out[k] >= 0) > s:
                continue
            size = changed(rules, held, m, z, out[k], into[k], new_held, new_z)
            if size == 0:
                continue
            found = value_on(rules, new_held, size, new_z)
            if found < value - tol * abs(value):
                m, value, moved = size, found, True
                copy_support(new_held, new_z, m, held, z)
                mark(held, m, is_held)
        if not moved:
            # A name at its least weight may do better without it; its promise is too crude to tell.
            for a in range(m):
                if rules.must[held[a]] or z[a] > rules.lo[held[a]] or m == 1:
                    continue
                size = changed(rules, held, m, z, held[a], -1, new_held, new_z)
                found = value_on(rules, new_held, size, new_z) if size else np.inf
                if found < value - tol * abs(value):
                    m, value, moved = size, found, True
                    copy_support(new_held, new_z, m, held, z)
                    break
        if not moved:
            return m, value, True
    return m, value, tries == 0


@entry_point
def feasible(rules, x, s):
    """Move x, in place, to weights of its names that keep all rules; return whether there are any."""
    held, z = np.empty(s + 1, dtype=np.int64), np.empty(s + 1)
    m = 0
    for i in range(len(x)):
        if m < s and x[i] > 0.0:
            held[m], z[m] = i, x[i]
            m += 1
    found = make_feasible(rules, held, m, z)
    x[:] = 0.0
    for a in range(m):
        x[held[a]] = z[a]
    return found


@entry_point
def descend(rules, x, s, tol, tries, rounds):
    """Go from x, whose names can keep the rules, towards names that no promising move improves, in place.

    Returns the value and whether the end is reached, which may take more rounds. Infinite, and x as it was, if the
    names of x cannot keep the rules.
    """
    held, z = np.empty(s + 1, dtype=np.int64), np.empty(s + 1)
    m = 0
    for i in range(len(x)):
        if m < s and (x[i] > 0.0 or (rules.must[i] and rules.lo[i] > 0.0)):
            held[m], z[m] = i, x[i]
            m += 1
    if not make_feasible(rules, held, m, z):
        return np.inf, True
    solve_on(rules, held[:m], m, z[:m])
    m = trim(rules, held, m, z)
    m, value, settled = climb_down(rules, s, held, m, z, value_on(rules, held, m, z), tol, tries, rounds)
    x[:] = 0.0
    for a in range(m):
        x[held[a]] = z[a]
    return value, settled


@entry_point
def replace_names(rules, x, s, rng):
    """Replace a few names of x at random, in place; return whether the new names can keep the rules."""
    n = len(x)
    held, z = np.empty(s + 1, dtype=np.int64), np.empty(s + 1)
    is_held = np.zeros(n, dtype=np.bool_)
    m = 0
    for i in range(n):
        if x[i] > 0.0:
            held[m], z[m] = i, x[i]
            is_held[i] = True
            m += 1
    for _ in range(1 + int(rng.random() * max(2.0, m / 3.0))):
        a = int(rng.random() * m)
        k = int(rng.random() * n)
        if rules.must[held[a]] or is_held[k] or rules.hi[k] <= 0.0:
            continue
        # A stranger of the same group keeps that group's limits within reach more often.
        if rules.group[k] != rules.group[held[a]] and rng.random() < 0.5:
            continue
        is_held[held[a]], is_held[k] = False, True
        held[a] = k
    if not make_feasible(rules, held, m, z):
        return False
    x[:] = 0.0
    for a in range(m):
        x[held[a]] = max(z[a], 1e-300)  # a name at 0 would be lost
    return True


@outlined
def _transfer(rules, gradient, x, i, j, low, high):
    """Return (η, decrease) of the best transfer of η ∈ [low, high] from j to i; 0 counts only if it is inside."""
    alpha = rules.Q[i, i] + rules.Q[j, j] - 2.0 * rules.Q[i, j]
    beta = gradient[i] - gradient[j]
    best, at = 0.0, 0.0
    # Between the kinks of the cost, and at both ends.
    a, c = rules.centre[i] - x[i], x[j] - rules.centre[j]
    first, second = min(a, c), max(a, c)
    start = low
    for stretch in range(3):
        end = high if stretch == 2 else min(max((first, second)[stretch], low), high)
        middle = 0.5 * (start + end)
        slope = beta + (rules.cost[i] if middle >= a else -rules.cost[i])
        slope += rules.cost[j] if middle >= c else -rules.cost[j]
        inner = start
        if alpha > 0.0:
            inner = min(max(-slope / alpha, start), end)
        for eta in (start, inner, end):
            change = eta * (beta + 0.5 * alpha * eta)
            change += rules.cost[i] * (abs(x[i] + eta - rules.centre[i]) - abs(x[i] - rules.centre[i]))
            change += rules.cost[j] * (abs(x[j] - eta - rules.centre[j]) - abs(x[j] - rules.centre[j]))
            if change < best:
                best, at = change, eta
        start = end
    return at, -best


@entry_point
def best_pair(rules, x, s):
    """Return (decrease, i, j, η): the best transfer from a j to an i that keeps all rules; (0, −1, −1, 0) if none."""
    n, groups = len(x), len(rules.least)
    gradient, sums, count = rules.b.copy(), np.zeros(groups), 0
    for j in range(n):
        if x[j] != 0.0:
            count += 1
            for k in range(n):
                gradient[k] += x[j] * rules.Q[j, k]
            if rules.group[j] >= 0:
                sums[rules.group[j]] += x[j]
    best, best_i, best_j, at = 0.0, -1, -1, 0.0
    for j in range(n):
        if x[j] <= 0.0:
            continue
        for i in range(n):
            if i == j:
                continue
            most = rules.hi[i] - x[i]
            g, k = rules.group[i], rules.group[j]
            if g != k:
                if g >= 0:
                    most = min(most, rules.most[g] - sums[g])
                if k >= 0:
                    most = min(most, sums[k] - rules.least[k])
            least = 0.0 if x[i] > 0.0 else rules.lo[i]
            if most <= 0.0 or least > most:
                continue
            if x[i] > 0.0 or count < s:
                high = min(most, x[j] - rules.lo[j])
                if high >= least and high > 0.0:
                    eta, gain = _transfer(rules, gradient, x, i, j, least, high)
                    if gain > best:
                        best, best_i, best_j, at = gain, i, j, eta
            if not rules.must[j] and least - AT_LIMIT <= x[j] <= most + AT_LIMIT:
                eta, gain = _transfer(rules, gradient, x, i, j, x[j], x[j])
                if gain > best:
                    best, best_i, best_j, at = gain, i, j, eta
    return best, best_i, best_j, at

"""Supports on the line: the best x on a support, all exchanges of one coordinate in closed form, and descent.

The problem is min ½xᵀQx + bᵀx + kinks over {lo ≤ x ≤ hi, 1ᵀx = c} with at most s coordinates above 0. A coordinate
whose lower bound is positive is always held. With W the members of a support, x optimal on it, μ the common slope of
the members that are neither at a bound nor at a kink, M = [[Q_WW, 1], [1ᵀ, 0]]⁻¹, kᵢ = (Q_Wi, 1), Zᵢ = M kᵢ,
ςᵢ = Q_ii − kᵢᵀZᵢ and ρᵢ = ∇ᵢ − μ:

* if j leaves, F rises by xⱼ²/(2M_jj), ρᵢ becomes ρᵢ − Z_ji xⱼ/M_jj and ςᵢ becomes ςᵢ + Z_ji²/M_jj;
* if i enters, F falls by ρᵢ²/(2ςᵢ) if ρᵢ < 0.

These formulas bound the gain of an exchange (its *promise*), and the best exchanges are verified. Proof: x is optimal
on W, so for every member μ lies between the left slope and the right slope, where the latter is ∞ at the upper bound
and the former −∞ at a positive lower bound. So the convex hⱼ, its bounds included, is nowhere below the line through
hⱼ(xⱼ) that gives j the slope μ. With these lines instead of the hⱼ, no member has bounds, all have the slope μ, and the
minimum has a closed form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterpoise.kernels.basics import assign, axpy, fill, find, flags, integers, larger, reals, table
from counterpoise.kernels.dispatch import allocating, apart, entry_point, outlined
from counterpoise.kernels.groups import make_feasible
from counterpoise.kernels.pieces import solve_pieces
from counterpoise.kernels.price_line import RIDGE, price, reprice, score
from counterpoise.kernels.separable import separable_change, slope_right

# Number of exchanges after which the inverse is recomputed instead of updated.
REPRICINGS = 24
# A descent without a limit on the exchanges that it solves.
UNLIMITED = 2**62


class Support(NamedTuple):
    """f + h on u in the form that kernels for supports use.

    Q and b hold f and the linear and quadratic parts of h, so that ``h`` has only bounds, floors and knots. ``noise``
    is the largest gain that may be rounding error; ``ruled`` means that there are floors or groups, so that promises
    are not bounds.
    """

    Q: np.ndarray
    b: np.ndarray
    h: tuple
    u: tuple
    noise: float
    ruled: bool


@apart
@outlined
def value_on(problem, held, m, z):
    """Return f + h at the point whose m held coordinates are z, relative to its value at 0."""
    Q, b = problem.Q, problem.b
    total = 0.0
    for a in range(m):
        i, slope = held[a], 0.0
        for e in range(m):
            slope += Q[i, held[e]] * z[e]
        total += z[a] * (b[i] + 0.5 * slope)
    for a in range(m):
        total += separable_change(problem.h, held[a], 0.0, z[a])
    return total


@allocating
def solve_on(problem, held, m, z):
    """Minimise over the m held coordinates from a feasible z, in place; return as :func:`pieces.solve_pieces`."""
    h, Q = problem.h, problem.Q
    H, slope, lo, hi = table(m, m), reals(m), reals(m), reals(m)
    for a in range(m):
        i = held[a]
        for e in range(m):
            H[a, e] = Q[i, held[e]]
        lo[a], hi[a], slope[a] = larger(h.lo[i], h.floor[i]), h.hi[i], problem.b[i]
    return solve_pieces(problem.u, h, held, H, slope, lo, hi, z)


@outlined
def trim(problem, held, m, z):
    """Drop the coordinates that are 0 and need not be held; return how many are left."""
    kept = 0
    for a in range(m):
        if z[a] > 0.0 or problem.h.lo[held[a]] > 0.0:
            held[kept], z[kept] = held[a], z[a]
            kept += 1
    return kept


@apart
@outlined
def copy_support(held, z, m, to_held, to_z):
    """Copy the m members of a support and their values."""
    for a in range(m):
        to_held[a], to_z[a] = held[a], z[a]


@outlined
def mark(held, m, is_held):
    """Write for every coordinate whether it is one of the m held."""
    fill(is_held, False)
    for a in range(m):
        is_held[held[a]] = True


@apart
@outlined
def gradient_at(problem, held, m, z, gradient):
    """Write the right slopes of f + h at the point whose m held coordinates are z."""
    h = problem.h
    assign(problem.b, gradient)
    for a in range(m):
        axpy(z[a], problem.Q[held[a]], gradient)
    if len(h.centre):
        for k in range(len(gradient)):
            gradient[k] += slope_right(h, k, 0.0)
        for a in range(m):
            i = held[a]
            gradient[i] += slope_right(h, i, z[a]) - slope_right(h, i, 0.0)


@allocating
def exchange(problem, held, m, z, leaver, enters, new_held, new_z):
    """Write the support with ``enters`` in the place of the leaver (at the end if −1), and solve on it.

    If none enters (−1), the last member takes the leaver's place. Return the new size, 0 if the support allows no
    feasible point, and the rate that :func:`solve_on` returned.
    """
    copy_support(held, z, m, new_held, new_z)
    place, size = (leaver, m) if leaver >= 0 else (m, m + 1)
    if enters >= 0:
        new_held[place], new_z[place] = enters, z[leaver] if leaver >= 0 else 0.0
    else:
        size = m - 1
        new_held[place], new_z[place] = held[size], z[size]
    if not make_feasible(problem.u, problem.h, new_held, size, new_z):
        return 0, 0.0
    violation = solve_on(problem, new_held, size, new_z)
    return trim(problem, new_held, size, new_z), violation


@outlined
def largest(values, taken):
    """Return the index of the largest value that is not taken, −1 if all are taken."""
    best = -1
    for i in range(len(values)):
        if not taken[i] and (best < 0 or values[i] > values[best]):
            best = i
    return best


@allocating
def load(problem, x, s, held, z):
    """Take the s largest of x as the support, make it feasible and solve on it; return as in :func:`exchange`."""
    n, m = len(x), 0
    taken = flags(n, False)
    room = 0.0
    for i in range(n):
        if problem.h.lo[i] > 0.0:
            held[m], taken[i] = i, True
            room += problem.h.hi[i]
            m += 1
    while m < s:
        i = largest(x, taken)
        if i < 0 or (x[i] <= 0.0 and room >= problem.u.total):  # zeros are held only if the others cannot reach the sum
            break
        held[m], taken[i] = i, True
        room += problem.h.hi[i]
        m += 1
    for a in range(m):
        z[a] = x[held[a]]
    while m > 0 and not make_feasible(problem.u, problem.h, held, m, z):
        # Too many floors: the smallest member that need not be held is dropped.
        m -= 1
        if not problem.ruled or m == 0 or problem.h.lo[held[m]] > 0.0:
            return 0, 0.0
    if m == 0:
        return 0, 0.0
    violation = solve_on(problem, held, m, z)
    return trim(problem, held, m, z), violation


@outlined
def unload(held, m, z, x):
    """Write the point of a support to x."""
    fill(x, 0.0)
    for a in range(m):
        x[held[a]] = z[a]


@entry_point
def descend(problem, x, s, tol, floor, most_swaps, tries, most_solved, found):
    """Descend from x, in place, to a support that no exchange improves by more than tol·|value| + floor.

    Moves are tried in the order of their promises, and every one that gains is made at once, because scoring costs
    more than verifying. With ``most_swaps`` = 0, x gets the best weights on its support. With −1 no move is made, and
    ``found`` becomes the gain of the best exchange, who leaves (−1: none has to), who enters (−1: no exchange gains), a
    bound on the gain of any exchange, and 1 if that bound is proved. Promises are upper bounds up to the effects of the
    ridge and of inexact small programs; they are verified from the largest down until none of the rest can exceed the
    gain found. If that takes more than ``tries``, the bound is not proved. A descent ends once ``most_solved``
    exchanges have been solved, of which ``found`` gets the number.

    Return f + h there, relative to its value at 0 (infinite if the s largest coordinates cannot hold the sum), the
    number of exchanges, and the largest gain among those tried in the last round (NaN if ``most_swaps`` or
    ``most_solved`` ended the descent).
    """
    n, looks = len(x), most_swaps < 0
    held, z = integers(s + 1), reals(s + 1)
    m, violation = load(problem, x, s, held, z)
    if m == 0:
        return np.inf, 0, np.nan
    value = value_on(problem, held, m, z)
    new_held, new_z = integers(s + 1), reals(s + 1)
    gradient, schur, entry = reals(n), reals(n), reals(n)
    M, Z = table(s + 2, s + 2), table(s + 2, n)
    best, out, into = reals(tries), integers(tries), integers(tries)
    is_held = flags(n, False)
    mass, bend = 0.0, 0.0
    for a in range(m):
        mass += 2.0 * abs(z[a])
        bend = larger(bend, problem.Q[held[a], held[a]])
    # No move is longer than ``mass``, so the ridge and the inexact program change its gain by at most this.
    slack = RIDGE * bend * mass * mass + violation * mass if looks else 0.0
    swaps, solved, gap, moved = 0, 0, np.nan, most_swaps != 0
    followed = -1  # number of updates of M, Z and ς; −1 if they do not belong to this support
    while moved:
        mark(held, m, is_held)
        gradient_at(problem, held, m, z, gradient)
        if followed < 0 or followed >= REPRICINGS:
            price(problem, held, m, M, Z, schur)
            followed = 0
        least = -np.inf if problem.ruled and looks else -slack
        count = score(problem, held, m, z, m < s, gradient, is_held, M, Z, schur, least, best, out, into)
        enough = tol * abs(value) + floor
        moved, gap, bound, proved = False, 0.0, violation * mass, count < tries
        leaves, enters = np.int64(-1), np.int64(-1)
        for k in range(count):
            out[k] = held[out[k]] if out[k] >= 0 else -1
        for k in range(count):
            if looks and not problem.ruled and best[k] + slack <= gap:
                proved = True
                break
            if not looks and (best[k] <= enough or swaps >= most_swaps or solved >= most_solved):
                break
            place = find(out[k], held, m)
            if find(into[k], held, m) >= 0 or (place < 0 and (out[k] >= 0 or m >= s)):
                continue
            size, violation = exchange(problem, held, m, z, place, into[k], new_held, new_z)
            solved += 1
            if size == 0:
                continue
            gain = value - value_on(problem, new_held, size, new_z)
            bound = larger(bound, gain + violation * mass)
            if gain > enough and not looks:
                same = size == m and place >= 0 and new_held[place] == into[k]
                m, value, moved = size, value - gain, True
                copy_support(new_held, new_z, m, held, z)
                swaps += 1
                follows = same and followed >= 0 and reprice(problem, held, m, place, into[k], M, Z, schur, entry)
                followed = followed + 1 if follows else -1
            elif gain > gap:
                gap, leaves, enters = gain, out[k], into[k]
        if problem.ruled and not moved and not looks and swaps < most_swaps and solved < most_solved:
            # F may be lower without a member at its floor; promises are too crude to tell.
            for a in range(m):
                i = held[a]
                if m == 1 or problem.h.lo[i] > 0.0 or z[a] > problem.h.floor[i] or problem.h.floor[i] <= 0.0:
                    continue
                size, _ = exchange(problem, held, m, z, a, -1, new_held, new_z)
                solved += 1
                if size > 0 and value - value_on(problem, new_held, size, new_z) > enough:
                    m, value, moved, followed = size, value_on(problem, new_held, size, new_z), True, -1
                    copy_support(new_held, new_z, m, held, z)
                    swaps += 1
                    break
        if looks:
            found[0], found[1], found[2], found[3], found[4] = gap, leaves, enters, bound, proved
        elif swaps >= most_swaps or solved >= most_solved:
            moved, gap = False, np.nan
    if not looks:
        found[0] = solved
    unload(held, m, z, x)
    return value, swaps, gap

"""Prices of all exchanges on the line: M, Z, ς and ρ of :mod:`.swap_line`, computed or updated after an exchange."""

import numpy as np

from counterpoise.kernels.basics import axpy, fill, larger, reals, smaller, table
from counterpoise.kernels.dispatch import allocating, entry_point, outlined
from counterpoise.kernels.groups import invert_definite, share_slopes
from counterpoise.kernels.separable import slope_left, slope_right

# Fractions of the diagonal: below the first a Schur complement is rounding error; the second keeps factors positive.
FLAT, RIDGE = 1e-9, 1e-11


@allocating
def inverse_with_sum(Q, free, m, M):
    """Write M = [[Q_FF, 1], [1ᵀ, 0]]⁻¹ for the m free coordinates F to the leading (m + 1)² entries of M."""
    size = 0.0
    for a in range(m):
        size = larger(size, Q[free[a], free[a]])
    P = table(m, m)
    for a in range(m):
        for e in range(m):
            P[a, e] = Q[free[a], free[e]]
        P[a, a] += RIDGE * size + 1e-100
    inverse = invert_definite(P)
    total = 0.0
    for a in range(m):
        row = 0.0
        for e in range(m):
            row += inverse[a, e]
        M[a, m] = row
        total += row
    for a in range(m):
        for e in range(m):
            M[a, e] = inverse[a, e] - M[a, m] * M[e, m] / total
    for a in range(m):
        M[a, m] /= total
        M[m, a] = M[a, m]
    M[m, m] = -1.0 / total


@entry_point
def eliminate(M, z, must, s):
    """Drop coordinates one by one until s are left, and update M and z; return which are left.

    Negative ones are dropped first, the largest gain before the others, then those that cost least, xⱼ²/(2M_jj). Those
    that ``must`` stay are passed over.
    """
    m, column, row = len(z), reals(len(z) + 1), reals(len(z) + 1)
    keeps = np.ones(m, dtype=np.bool_)
    for _ in range(m - s):
        worst, least = -1, np.inf
        for a in range(m):
            if keeps[a] and not must[a]:
                price = 0.5 * z[a] * abs(z[a]) / larger(M[a, a], 1e-300)
                if price < least:
                    worst, least = a, price
        if worst < 0:
            break
        for a in range(m + 1):
            column[a], row[a] = M[a, worst] / larger(M[worst, worst], 1e-300), M[worst, a]
        axpy(-z[worst], column[:m], z)
        for a in range(m + 1):
            axpy(-column[a], row, M[a])
        keeps[worst] = False
    return keeps


@allocating
def excess_slopes(problem, held, m, z, gradient, slope):
    """Write ρ of :mod:`.swap_line` for all coordinates; for held ones it uses the right slope."""
    h, right, left = problem.h, reals(m), reals(m)
    for a in range(m):
        i = held[a]
        right[a] = left[a] = gradient[i]
        if len(h.centre):
            left[a] += slope_left(h, i, z[a]) - slope_right(h, i, z[a])
    share_slopes(problem.u, h, held, m, z, right, left, slope)
    for k in range(len(slope)):
        slope[k] = gradient[k] - slope[k]


@allocating
def price(problem, held, m, M, Z, schur):
    """Write M, Z (whose last row belongs to the sum) and ς of :mod:`.swap_line` for all coordinates."""
    Q, n = problem.Q, len(schur)
    inverse_with_sum(Q, held, m, M)
    for a in range(m + 1):
        fill(Z[a], M[a, m])
        # Four rows at a time, because memory traffic of Z limits this product.
        for e in range(0, m - 3, 4):
            w0, w1, w2, w3 = M[a, e], M[a, e + 1], M[a, e + 2], M[a, e + 3]
            i0, i1, i2, i3 = held[e], held[e + 1], held[e + 2], held[e + 3]
            for k in range(n):
                Z[a, k] += w0 * Q[i0, k] + w1 * Q[i1, k] + w2 * Q[i2, k] + w3 * Q[i3, k]
        for e in range(m - m % 4, m):
            axpy(M[a, e], Q[held[e]], Z[a])
    for k in range(n):
        schur[k] = Q[k, k] - Z[m, k]
    for a in range(m):
        i = held[a]
        for k in range(n):
            schur[k] -= Q[i, k] * Z[a, k]


@allocating
def reprice(problem, held, m, place, enters, M, Z, schur, entry):
    """Update M, Z and ς after an exchange at one place, in O(mn) instead of O(m²n); ``held`` has the newcomer already.

    Return whether that succeeded: if a pivot is rounding error, :func:`price` is needed.
    """
    Q, n = problem.Q, len(schur)
    pivot = M[place, place]
    if not pivot > 0.0 or schur[enters] + Z[place, enters] * Z[place, enters] / pivot <= FLAT * Q[enters, enters]:
        return False
    # entry = Q_i − kᵢᵀZ without the leaver: the newcomer's row before it is scaled.
    inverse, along = 1.0 / pivot, M[m, place]
    for k in range(n):
        entry[k] = Q[enters, k] - Z[m, k]
    for a in range(m):
        if a != place:
            weight = Q[held[a], enters]
            along += weight * M[a, place]
            axpy(-weight, Z[a], entry)
    axpy(along * inverse, Z[place], entry)
    scale = 1.0 / entry[enters]
    # Apply both parts of the change, along the leaver's row and the newcomer's, in one pass.
    leaver, newcomer = Z[place, enters] * inverse, reals(m + 1)
    for a in range(m + 1):
        newcomer[a] = Z[a, enters] - M[a, place] * leaver
    for a in range(m + 1):
        if a != place:
            out, into = M[a, place] * inverse, newcomer[a] * scale
            for e in range(m + 1):
                if e != place:
                    M[a, e] += into * newcomer[e] - out * M[place, e]
            for k in range(n):
                Z[a, k] -= out * Z[place, k] + into * entry[k]
    for a in range(m + 1):
        M[a, place] = -newcomer[a] * scale
        M[place, a] = M[a, place]
    M[place, place] = scale
    for k in range(n):
        schur[k] += Z[place, k] * Z[place, k] * inverse - entry[k] * entry[k] * scale
        Z[place, k] = entry[k] * scale
    return True


@outlined
def _promises(slope, schur, row, shift, inverse, cost, reach, closed, gain):
    """Bound the gain of every coordinate in the place of one member, whose row of Z is given, without a branch."""
    for k in range(len(gain)):
        descent = larger(row[k] * shift - slope[k], 0.0)
        bend = schur[k] + row[k] * row[k] * inverse
        # At most the total mass can go to k, which matters if the bend is rounding error.
        inner = 0.5 * descent * descent / larger(bend, 1e-300)
        outer = descent * reach[k] - 0.5 * larger(bend, 0.0) * reach[k] * reach[k]
        gain[k] = (inner if bend * reach[k] > descent else outer) - cost - closed[k]


@allocating
def score(problem, held, m, z, room, gradient, is_held, M, Z, schur, least, best, out, into):
    """List the moves with the largest estimated gains, best first: gain, place of the leaver (−1: none), newcomer.

    With ``room`` a coordinate may enter while none leaves; without it, and under floors or groups, which may not allow
    one more, a held one leaves for each that enters. Estimates of at most ``least`` are omitted. Return the number.
    """
    n, count, most = len(gradient), 0, len(best)
    slope, reach, closed, gain = reals(n), reals(n), reals(n), reals(n)
    excess_slopes(problem, held, m, z, gradient, slope)
    for k in range(n):
        reach[k] = smaller(problem.u.total, problem.h.hi[k])
        closed[k] = np.inf if is_held[k] or problem.h.hi[k] <= 0.0 else 0.0
    for a in range(-1 if room else 0, 0 if room and not problem.ruled else m):
        # The sum fixes a single member: all of it goes to the newcomer, and its row gives no cost.
        shift, inverse, cost = 0.0, 0.0, 0.0
        if a >= 0:
            if problem.h.lo[held[a]] > 0.0:
                continue
            if m > 1:
                inverse = 1.0 / larger(M[a, a], 1e-300)
                shift = z[a] * inverse
                cost = 0.5 * z[a] * shift
            if problem.h.floor[held[a]] > problem.h.lo[held[a]]:
                cost -= larger(slope[held[a]], 0.0) * z[a]  # at its floor F would fall with less of it
        _promises(slope, schur, Z[larger(a, 0)], shift, inverse, cost, reach, closed, gain)
        for k in range(n):
            if gain[k] <= least or (count == most and gain[k] <= best[most - 1]):
                continue
            place = smaller(count, most - 1)
            while place > 0 and best[place - 1] < gain[k]:
                best[place], out[place], into[place] = best[place - 1], out[place - 1], into[place - 1]
                place -= 1
            best[place], out[place], into[place] = gain[k], a, k
            count = smaller(count + 1, most)
    return count

"""Exchanges of one held coordinate on the sphere: max ½xᵀGx over ‖x‖ = 1, at most s non-zeros, x ≥ 0 unless ``signed``.

G = AᵀA is dense and positive semidefinite. A support is *polished* when x is stationary on it, and *swap-optimal* when
no exchange of a held coordinate for one outside improves it. All exchanges are scored in closed form in O(sn): drop xᵢ,
keep the others in proportion, x̂ = (x − xᵢeᵢ)/‖x − xᵢeᵢ‖, and turn x̂ towards eⱼ by the best angle. A score is the
value of a feasible point, so polishing from that point never gives less.
"""

import numpy as np

from counterpoise.kernels.basics import axpy, fill, flags, integers, larger, reals, smaller, table
from counterpoise.kernels.dispatch import allocating, entry_point, kernel, outlined
from counterpoise.kernels.polish_arc import NONE, polish_block
from counterpoise.kernels.score_arc import best_swap, except_held, exchange, score_swaps, value_at
from counterpoise.kernels.swap_line import copy_support, largest, unload

# Polishing ends when ‖Hz − ρz‖² ≤ PRECISION ρ²; the value is then exact to about PRECISION over the relative gap of H.
PRECISION = 1e-22
# The precision of polishing between exchanges whose scores alone are gains.
ROUGH = 1e-7
# How many exchanges are polished when no score is a gain.
CANDIDATES = 6
# An exchange that misses its target by more than this fraction after rough polishing is not polished further.
HOPELESS = 1e-5
# The most power steps to new supports before exchanges, used if there are more than WIDE columns; usually one or two
# are taken. With fewer columns they save little time, and more starts end at the same point.
POWER_STEPS, WIDE = 30, 256


@outlined
def _polish_held(G, held, z, m, precision, signed, H, work):
    """Polish z on the support ``held``; return ½zᵀG_WW z. ``H`` becomes G_WW."""
    for a in range(m):
        for c in range(m):
            H[a, c] = G[held[a], held[c]]
    return 0.5 * polish_block(H, z, m, precision, signed, work[0], work[1], work[2], work[3])


@outlined
def _scatter(G, held, z, m, x, g):
    """Write the point to x, and Gx to g."""
    unload(held, m, z, x)
    fill(g, 0.0)
    for a in range(m):
        if z[a] != 0.0:
            axpy(z[a], G[held[a]], g)


@kernel
def _compress(held, z, m):
    """Remove coordinates at zero from the support; return how many are held."""
    kept = 0
    for a in range(m):
        if z[a] != 0.0:
            held[kept], z[kept] = held[a], z[a]
            kept += 1
    return kept


@kernel
def _collect(G, x, held, z):
    """Write the non-zeros of x, scaled to length 1, to held and z; the best single coordinate if there are none."""
    m, square, best = 0, 0.0, 0
    for j in range(len(x)):
        if x[j] != 0.0:
            held[m], z[m] = j, x[j]
            square += x[j] * x[j]
            m += 1
        if G[j, j] > G[best, best]:
            best = j
    if m == 0:
        held[0], z[0] = best, 1.0
        return 1
    scale = 1.0 / np.sqrt(square)
    for a in range(m):
        z[a] *= scale
    return m


@allocating
def _keep_largest(held, z, m, most):
    """Keep the ``most`` largest coordinates, scaled to length 1; return how many are held."""
    if m <= most:
        return m
    taken, sizes = flags(m, False), reals(m)
    for a in range(m):
        sizes[a] = abs(z[a])
    for _ in range(most):
        taken[largest(sizes, taken)] = True
    square, kept = 0.0, 0
    for a in range(m):
        if taken[a]:
            held[kept], z[kept] = held[a], z[a]
            square += z[a] * z[a]
            kept += 1
    scale = 1.0 / np.sqrt(square)
    for a in range(most):
        z[a] *= scale
    return most


@outlined
def _power_support(x, g, held, z, m, s, signed):
    """Write the s largest allowed entries of g = Gx to (held, z), scaled to length 1; x holds m coordinates.

    Return how many there are, or 0 if x holds all of them already.
    """
    # The s-th largest entry is at least the smallest of s held entries.
    least, count, square, is_new = np.inf if m >= s else 0.0, 0, 0.0, False
    for a in range(m):
        least = smaller(least, abs(g[held[a]]))
    for j in range(len(g)):
        if (g[j] > 0.0 or (signed and g[j] < 0.0)) and abs(g[j]) >= least:
            held[count], z[count] = j, g[j]
            count += 1
    m = _keep_largest(held, z, count, s)
    for a in range(m):
        square += z[a] * z[a]
        is_new = is_new or x[held[a]] == 0.0
    if not is_new:
        return 0
    for a in range(m):
        z[a] /= np.sqrt(square)
    return m


@outlined
def _best_scores(score, count, best):
    """Write the coordinates of the ``count`` largest finite scores to ``best``, largest first; return how many."""
    found = 0
    for j in range(len(score)):
        value = score[j]
        if value == -np.inf or (found == count and value <= score[best[count - 1]]):
            continue
        a = found if found < count else count - 1
        while a > 0 and score[best[a - 1]] < value:
            best[a] = best[a - 1]
            a -= 1
        best[a] = j
        found = smaller(found + 1, count)
    return found


@outlined
def _best_exchange(G, x, g, held, m, best, found, out, rest, enough, signed, H, work, tried, z, kept, kept_z):
    """Polish the exchanges listed in ``best``; write the best to (kept, kept_z), return its value, size and entrant.

    Each is polished roughly, and then fully unless it is well below ``enough``; with ∞ none is polished fully.
    """
    most, size, entrant = -np.inf, 0, NONE
    for c in range(found):
        j = best[c]
        a = value_at(x, g, held, m) if out[j] == NONE else rest[out[j]]
        count = exchange(G, x, held, m, out[j], j, a, signed, tried, z)
        value = _polish_held(G, tried, z, count, ROUGH, signed, H, work)
        if value >= (1.0 - HOPELESS) * enough:
            value = 0.5 * polish_block(H, z, count, PRECISION, signed, work[0], work[1], work[2], work[3])
        if value > most:
            most, size, entrant = value, count, j
            copy_support(tried, z, count, kept, kept_z)
    return most, size, entrant


@entry_point
def polish(G, x, signed):
    """Climb on the support of x to a stationary point of ½xᵀGx, in place; return the value."""
    n = len(x)
    held, z = integers(n), reals(n)
    m = _collect(G, x, held, z)
    value = _polish_held(G, held, z, m, PRECISION, signed, table(m, m), table(4, m))
    unload(held, m, z, x)
    return value


@entry_point
def shrink(G, x, s, signed):
    """Reduce the support of x to at most s by backward elimination, in place.

    Each round polishes roughly and drops the smallest coordinates, half as many as there are too many.
    """
    n = len(x)
    held, z = integers(n), reals(n)
    m = _collect(G, x, held, z)
    H, work = table(m, m), table(4, m)
    while m > s:
        _polish_held(G, held, z, m, ROUGH, signed, H, work)
        m = _compress(held, z, m)
        m = _keep_largest(held, z, m, larger(s, m - (m - s + 1) // 2))
    unload(held, m, z, x)


@entry_point
def descend(G, x, s, tol, most, signed):
    """Exchange from any x until no exchange gains more than tol times the value, in place; return how many were made.

    x ≥ 0 unless ``signed``. The s largest coordinates are kept and polished. With many columns, power steps exchange
    several at once while that gains. Then each round scores all exchanges. If the best score is a gain, it is made;
    otherwise x is polished fully, then the best few exchanges are, and the best of them is made if it gains. ``most``
    limits the number of exchanges after the power steps.
    """
    n, s = len(x), smaller(s, len(x))
    held, z = integers(n), reals(n)
    kept, kept_z, tried = integers(s), reals(s), integers(s)
    row, score, out, rest = reals(n), reals(n), integers(n), reals(s)
    H, work, g, best = table(s, s), table(4, s), reals(n), integers(CANDIDATES)
    diagonal, free = np.diag(G).copy(), reals(n)
    m = _keep_largest(held, z, _collect(G, x, held, z), s)
    value, polished, swaps = _polish_held(G, held, z, m, ROUGH, signed, H, work), False, 0
    for _ in range(POWER_STEPS if n > WIDE else 0):
        _scatter(G, held, z, m, x, g)
        size = _power_support(x, g, held, z, m, s, signed)
        gained = _polish_held(G, held, z, size, ROUGH, signed, H, work) if size > 0 else value
        if not gained > value:
            m = _collect(G, x, held, z)
            break
        m, value = size, gained
    while True:
        m = _compress(held, z, m)
        _scatter(G, held, z, m, x, g)
        except_held(diagonal, held, m, free)
        enough = value + tol * abs(value)
        entrant, leaves = best_swap(G, free, x, g, held, m, s, signed, 2.0 * enough, row, rest)
        by_score = entrant != NONE and swaps < most
        if not by_score and not polished:
            value, polished = _polish_held(G, held, z, m, PRECISION, signed, H, work), True
            continue
        if swaps >= most:
            return swaps
        if by_score:
            best[0], out[entrant], found = entrant, leaves, 1
        else:
            score_swaps(G, diagonal, x, g, held, m, s, signed, row, score, out, rest)
            found = _best_scores(score, CANDIDATES, best)
        to_reach = np.inf if by_score else enough
        gained, size, _ = _best_exchange(
            G, x, g, held, m, best, found, out, rest, to_reach, signed, H, work, tried, z, kept, kept_z
        )
        if not gained > enough:
            return swaps
        copy_support(kept, kept_z, size, held, z)
        m, value, polished, swaps = size, gained, not by_score, swaps + 1


@entry_point
def swap_gap(G, x, s, tries, signed):
    """Return the largest gain of ½xᵀGx by one exchange, the coordinate that leaves (−1 if none has to) and the entrant.

    It is the larger of the best score and the best of ``tries`` polished exchanges; (0, −1, −1) if none gains. x has
    length 1 and at most s non-zeros.
    """
    n, s = len(x), smaller(s, len(x))
    held, z, g, point = integers(n), reals(n), reals(n), reals(n)
    kept, kept_z, tried = integers(s), reals(s), integers(s)
    row, score, out, rest = reals(n), reals(n), integers(n), reals(s)
    best = integers(larger(tries, 1))
    m = _keep_largest(held, z, _collect(G, x, held, z), s)
    _scatter(G, held, z, m, point, g)
    value = 0.5 * value_at(point, g, held, m)
    score_swaps(G, np.diag(G).copy(), point, g, held, m, s, signed, row, score, out, rest)
    found = _best_scores(score, len(best), best)
    if found == 0:
        return 0.0, NONE, NONE
    gain, entrant = score[best[0]] - value, best[0]
    H, work = table(s, s), table(4, s)
    polished, _, candidate = _best_exchange(
        G, point, g, held, m, best, smaller(found, tries), out, rest, -np.inf, signed, H, work, tried, z, kept, kept_z
    )
    if polished - value > gain:
        gain, entrant = polished - value, candidate
    if not gain > 0.0:
        return 0.0, NONE, NONE
    return gain, NONE if out[entrant] == NONE else held[out[entrant]], entrant

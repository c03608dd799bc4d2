"""A several times faster walk of :mod:`counterpoise.kernels.tabu_line`, if h has no knots and no bound except 0.

The weights on a support are then given by M if they are positive; a member with a negative one leaves. M and the
weights are updated in double precision. Z and ς, which are most of the work, only choose the moves. They are in single
precision, as are changes of ρ, so that the last digits of values are inexact, and are recomputed before every slice of
the walk. The best support is solved again at the end. The letters are those of :mod:`counterpoise.kernels.swap_line`,
in units of 1/``per``; row 0 of M and Z belongs to the sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterpoise.kernels.basics import assign, axpy, fill, larger, smaller
from counterpoise.kernels.dispatch import entry_point, kernel, outlined

ZERO, HALF, FAR = np.float32(0.0), np.float32(0.5), np.float32(1e30)
# Fractions of the diagonal below which ς is rounding error: in single precision (see ``State.flat``) and in double.
FLAT, FLATTER = 1e-5, 1e-9


class State(NamedTuple):
    """A support and its prices: members are at places 1 to m of ``held``, ``z``, ``M`` and ``Z``."""

    held: np.ndarray
    z: np.ndarray
    M: np.ndarray
    Z: np.ndarray
    schur: np.ndarray
    flat: np.ndarray
    slope: np.ndarray
    leave_from: np.ndarray
    enter_from: np.ndarray
    is_held: np.ndarray
    best_held: np.ndarray
    # Work arrays: rows and columns of the leaver and the newcomer, and slopes and ς of coordinates that may enter.
    leaver: np.ndarray
    entry: np.ndarray
    out: np.ndarray
    into: np.ndarray
    leaving: np.ndarray
    open_slope: np.ndarray
    open_schur: np.ndarray


@outlined
def _any_better(row, slope, schur, shift, inverse, level):
    """Return whether a newcomer gains more than ``level`` in the place of a member, without branch or division."""
    found = False
    for k in range(len(row)):
        descent = larger(ZERO, row[k] * shift - slope[k])
        found |= HALF * descent * descent > level * (schur[k] + row[k] * row[k] * inverse)
    return found


@outlined
def _best_of(row, slope, schur, shift, inverse, level, gain):
    """Return the newcomer that gains most, −1 if none gains more than ``level``, and its gain."""
    best = -1
    for k in range(len(row)):
        descent = larger(ZERO, row[k] * shift - slope[k])
        gain[k] = HALF * descent * descent / (schur[k] + row[k] * row[k] * inverse)
    # In parts, with two comparisons at a time; otherwise each comparison would wait for the previous one.
    for first in range(0, len(row), 32):
        most, other, last = level, level, smaller(first + 32, len(row))
        for k in range(first, last - 1, 2):
            most, other = larger(most, gain[k]), larger(other, gain[k + 1])
        most = larger(larger(most, gain[last - 1]), other)
        if most > level:
            best, level = first, most
    while best >= 0 and gain[best] != level:
        best += 1
    return best, level


@outlined
def _subtract(row, weight, first, other, second):
    """Subtract multiples of two rows from a row."""
    for k in range(len(row)):
        row[k] -= weight * first[k] + other * second[k]


@outlined
def _turn_row(row, mine, into, out, leaving, m):
    """Add a multiple of one row to a row of M and subtract a multiple of another."""
    for e in range(m + 1):
        row[e] += mine * into[e] - out * leaving[e]


@outlined
def follow(Q, per, now, m, place, enters):
    """Update a support and its prices after one member leaves (place −1: none) and one enters (−1: none).

    Return the number of members, and the decrease of f in units of 1/``per``. A newcomer that depends linearly on the
    members cannot enter: then that is NaN, and nothing has changed.
    """
    held, z, M, Z, schur, slope = now.held, now.z, now.M, now.Z, now.schur, now.slope
    leaver, entry, out, into, n = now.leaver, now.entry, now.out, now.into, len(now.schur)
    weight, shift, inverse, scale, gain, along = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    z_out = z[place] if place > 0 else 0.0
    if place > 0:
        inverse = 1.0 / M[place, place]
        shift = z_out * inverse
    for a in range(m + 1):
        now.leaving[a] = M[place, a] if place > 0 else 0.0
        out[a] = M[a, place] * inverse if place > 0 else 0.0
        into[a] = M[a, 0] if enters >= 0 else 0.0
    if enters >= 0:
        for e in range(1, m + 1):
            axpy(Q[enters, held[e]] * per, M[e, : m + 1], into)
        bend = Q[enters, enters] * per - into[0]
        for e in range(1, m + 1):
            bend -= Q[enters, held[e]] * per * into[e]
        row = into[place] if place > 0 else 0.0
        bend += row * row * inverse
        if not bend > FLATTER * Q[enters, enters] * per:
            return m, np.nan
        for a in range(m + 1):
            into[a] -= out[a] * row
        descent = row * shift - slope[enters]
        weight, scale, gain = descent / bend, 1.0 / bend, 0.5 * descent * descent / bend
    gain -= 0.5 * z_out * shift
    for k in range(n):
        leaver[k] = Z[place, k] if place > 0 else ZERO
    if enters >= 0:
        for e in range(m + 1):
            if e != place:
                along += out[e] * (Q[enters, held[e]] * per if e > 0 else 1.0)
        for k in range(n):
            entry[k] = np.float32(Q[enters, k] * per) - Z[0, k] + np.float32(along) * leaver[k]
        for e in range(1, m + 1, 2):
            f = e + 1 if e < m else e
            left = Q[enters, held[e]] * per if e != place else 0.0
            right = Q[enters, held[f]] * per if f != place and f != e else 0.0
            _subtract(entry, np.float32(left), Z[e], np.float32(right), Z[f])
    else:
        fill(entry, ZERO)
    for a in range(m + 1):
        if a != place:
            z[a] -= out[a] * z_out + weight * into[a]
            mine = into[a] * scale
            _turn_row(M[a], mine, into, out[a], now.leaving, m)
            _subtract(Z[a], np.float32(out[a]), leaver, np.float32(mine), entry)
    for k in range(n):
        slope[k] += weight * entry[k] - shift * leaver[k]
        schur[k] += np.float32(inverse) * leaver[k] * leaver[k] - np.float32(scale) * entry[k] * entry[k]
    if enters >= 0:
        slot = place if place > 0 else m + 1
        m = m if place > 0 else m + 1
        for a in range(m + 1):
            M[a, slot] = M[slot, a] = -into[a] * scale
        M[slot, slot], z[slot], held[slot] = scale, weight, enters
        for k in range(n):
            Z[slot, k] = np.float32(scale) * entry[k]
    else:
        # The last member takes the place of the leaver.
        assign(M[m, : m + 1], M[place])
        for e in range(m + 1):
            M[e, place] = M[e, m]
        M[place, place], z[place], held[place] = M[m, m], z[m], held[m]
        assign(Z[m], Z[place])
        m -= 1
    return m, gain


@outlined
def choose(now, m, s, step):
    """Return the place of the leaver and the newcomer, −1 for none, of the best allowed move."""
    slope, schur, place, enters, n = now.open_slope, now.open_schur, -1, -1, len(now.schur)
    for k in range(n):
        is_open = now.enter_from[k] <= step and not now.is_held[k] and now.schur[k] > now.flat[k]
        slope[k] = np.float32(now.slope[k]) if is_open else FAR
        schur[k] = now.schur[k] if is_open else FAR
    most = ZERO
    if m < s:  # there is room: the coordinate that gains most enters
        for k in range(n):
            if slope[k] < ZERO and slope[k] * slope[k] > most * schur[k]:
                enters, most = k, slope[k] * slope[k] / schur[k]
    if enters < 0 and m > 1:
        most = -FAR
        for a in range(1, m + 1):
            if now.leave_from[now.held[a]] > step or not now.M[a, a] > 0.0:
                continue
            inverse = np.float32(1.0 / now.M[a, a])
            shift, cost = np.float32(now.z[a]) * inverse, HALF * np.float32(now.z[a] * now.z[a]) * inverse
            level = larger(ZERO, most + cost)
            if _any_better(now.Z[a], slope, schur, shift, inverse, level):
                k, gain = _best_of(now.Z[a], slope, schur, shift, inverse, level, now.entry)
                if k >= 0:
                    place, enters, most = a, k, gain - cost
    return place, enters


@kernel
def draw_some(most, rng):
    """Draw from ⌊most/2⌋ … most − 1."""
    return most // 2 + int(rng.random() * (most - most // 2))


@entry_point
def walk(Q, per, now, m, s, first, last, stay, away, value, best, best_m, rng):
    """Make steps ``first`` to ``last`` − 1 of a walk.

    Return the number of members, and the value and the number of members of the best support so far, which is in
    ``now.best_held``.
    """
    for step in range(first, last):
        place, enters = choose(now, m, s, step)
        if enters < 0:
            continue
        left = now.held[place] if place > 0 else -1
        m, gain = follow(Q, per, now, m, place, enters)
        now.enter_from[enters] = step + 1 + away
        if np.isnan(gain):
            continue
        value -= gain
        now.is_held[enters], now.leave_from[enters] = True, step + 1 + draw_some(stay, rng)
        while True:
            if left >= 0:
                now.is_held[left], now.enter_from[left] = False, step + 1 + draw_some(away, rng)
            place = 1
            for a in range(2, m + 1):
                place = a if now.z[a] < now.z[place] else place
            if m == 1 or now.z[place] > 0.0 or not now.M[place, place] > 0.0:
                break
            left = now.held[place]
            m, gain = follow(Q, per, now, m, place, -1)
            value -= gain
        if value < best and now.z[place] > 0.0:
            best, best_m = value, m
            for a in range(1, m + 1):
                now.best_held[a] = now.held[a]
    return m, best, best_m

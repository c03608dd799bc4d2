"""Scores of exchanges on the sphere: drop one held coordinate, turn the rest towards another by the best angle.

See :mod:`counterpoise.kernels.swap_arc`. Computing all scores takes O(sn) square roots; finding the best takes few.
"""

import numpy as np

from counterpoise.kernels.basics import assign, axpy, fill, larger
from counterpoise.kernels.dispatch import kernel, outlined
from counterpoise.kernels.polish_arc import NONE

# If the rest of x has less than this fraction of ‖x‖², Gx̂ is summed directly, because a difference would cancel.
SMALL_REST = 1e-2


@kernel
def value_at(x, g, held, m):
    """Return xᵀGx from g = Gx."""
    total = 0.0
    for a in range(m):
        total += x[held[a]] * g[held[a]]
    return total


@kernel
def except_held(diagonal, held, m, free):
    """Write the diagonal to ``free``, −∞ for held coordinates."""
    assign(diagonal, free)
    for a in range(m):
        free[held[a]] = -np.inf


@outlined
def _raise_scores(a, row, diagonal, position, signed, score, out):
    """Raise every score to at least ½λmax([[a, b], [b, dⱼ]]), b = max(rowⱼ, 0), or rowⱼ if ``signed``; set ``out``."""
    least = -np.inf if signed else 0.0
    for j in range(len(row)):
        b, d = larger(row[j], least), diagonal[j]
        half = 0.5 * (a - d)
        value = 0.5 * (0.5 * (a + d) + np.sqrt(half * half + b * b))
        if value > score[j]:
            score[j] = value
            out[j] = position


@outlined
def _is_above(a, row, free, level, signed):
    """Return whether λmax([[a, b], [b, dⱼ]]) > level for some j, b as in :func:`_raise_scores`, d = ``free``.

    λmax > level > a if and only if b² > (level − a)(level − dⱼ), which needs no square roots and settles most rows. For
    level ≤ a the answer is True.
    """
    least, count, rest = -np.inf if signed else 0.0, 0, level - a
    if rest <= 0.0:
        return True
    for j in range(len(row)):
        b = larger(row[j], least)
        count += 1 if b * b > rest * (level - free[j]) else 0
    return count > 0


@outlined
def _best_turn(a, row, free, level, signed):
    """Return the largest λmax([[a, b], [b, dⱼ]]) above ``level`` and its j, or ``level`` and −1."""
    least, best = -np.inf if signed else 0.0, NONE
    for j in range(len(row)):
        b, d = larger(row[j], least), free[j]
        if d == -np.inf:
            continue
        half = 0.5 * (a - d)
        value = 0.5 * (a + d) + np.sqrt(half * half + b * b)
        if value > level:
            level, best = value, j
    return level, best


@outlined
def _rest_without(G, x, g, held, m, position, row):
    """Write Gx̂ to ``row``, x̂ being x without one held coordinate, scaled to length 1; return x̂ᵀGx̂, −1 if x̂ = 0."""
    i, square = held[position], 0.0
    v = x[i]
    for a in range(m):
        if a != position:
            square += x[held[a]] * x[held[a]]
    if not square > 0.0:
        return -1.0
    scale = 1.0 / np.sqrt(square)
    if square > SMALL_REST:
        for j in range(len(x)):
            row[j] = scale * (g[j] - v * G[i, j])
    else:
        fill(row, 0.0)
        for a in range(m):
            if a != position:
                axpy(scale * x[held[a]], G[held[a]], row)
    total = 0.0
    for a in range(m):
        if a != position:
            total += x[held[a]] * row[held[a]]
    return larger(scale * total, 0.0)


@outlined
def best_swap(G, free, x, g, held, m, s, signed, level, row, rest):
    """Return (j, position that leaves) of the exchange with the best score if twice that exceeds ``level``, or −1.

    Scores are those of :func:`score_swaps`, but only the best is found.
    """
    entrant, leaves, shortest = NONE, NONE, 0 if m >= s else NONE
    for j in range(len(x)):
        if free[j] > level:
            level, entrant, leaves = free[j], j, shortest
    for position in range(m if m >= s else 0):
        rest[position] = _rest_without(G, x, g, held, m, position, row)
        if rest[position] >= 0.0 and _is_above(rest[position], row, free, level, signed):
            level, j = _best_turn(rest[position], row, free, level, signed)
            if j != NONE:
                entrant, leaves = j, position
    if m < s:
        level, j = _best_turn(value_at(x, g, held, m), g, free, level, signed)
        entrant = j if j != NONE else entrant
    return entrant, leaves


@outlined
def score_swaps(G, diagonal, x, g, held, m, s, signed, row, score, out, rest):
    """Write to ``score`` the best value ½yᵀGy if j enters, and to ``out`` the position that leaves for it.

    y = x̂ cos t + eⱼ sin t, 0 ≤ t ≤ π/2, or any t if ``signed``; ``rest`` becomes x̂ᵀGx̂ for every position. If fewer
    than s are held, none leaves, x̂ = x, and ``out`` is −1. The score of held coordinates is −∞.
    """
    for j in range(len(x)):
        score[j] = 0.5 * diagonal[j]
        out[j] = 0 if m >= s else NONE
    if m < s:
        _raise_scores(value_at(x, g, held, m), g, diagonal, NONE, signed, score, out)
    else:
        for position in range(m):
            rest[position] = _rest_without(G, x, g, held, m, position, row)
            if rest[position] >= 0.0:
                _raise_scores(rest[position], row, diagonal, position, signed, score, out)
    for a in range(m):
        score[held[a]] = -np.inf


@outlined
def exchange(G, x, held, m, position, j, a, signed, tried, z):
    """Write the scored point to (tried, z), where a = x̂ᵀGx̂; return how many coordinates it holds."""
    square, count = 0.0, 0
    for c in range(m):
        if c != position:
            k = held[c]
            tried[count], z[count] = k, x[k]
            square += x[k] * x[k]
            count += 1
    b, d = 0.0, G[j, j]
    scale = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
    for c in range(count):
        z[c] *= scale
        b += z[c] * G[j, tried[c]]
    if b > 0.0 or (signed and b < 0.0):
        angle = 0.5 * np.arctan2(2.0 * b, a - d)
        cosine, sine = np.cos(angle), np.sin(angle)
    else:
        cosine, sine = (1.0, 0.0) if count > 0 and a >= d else (0.0, 1.0)
    for c in range(count):
        z[c] *= cosine
    tried[count], z[count] = j, sine
    return count + 1

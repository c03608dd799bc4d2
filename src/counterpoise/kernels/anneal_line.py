"""Simulated annealing over supports, for floors that nearly fill the sum.

If every member needs a minimum position, a good exchange often replaces one member with a large floor by two with small
floors, and the estimates of :mod:`counterpoise.kernels.swap_line` say little. So moves are drawn at random, up to two
members out and up to two in, solved, and accepted if they lower F or, with some probability, if they raise it.
"""

import numpy as np

from counterpoise.kernels.basics import flags, integers, reals
from counterpoise.kernels.dispatch import entry_point, outlined
from counterpoise.kernels.groups import make_feasible
from counterpoise.kernels.swap_line import copy_support, load, mark, solve_on, trim, unload, value_on

# Cumulative shares of the moves (out, in) = (1, 2), (2, 1), (0, 1), (1, 0), (2, 2); the others are (1, 1).
SHARES = (0.12, 0.24, 0.30, 0.36, 0.46)
# A newcomer has the least floor of up to this many draws.
DRAWS = 8
OUT, IN = (1, 2, 0, 1, 2, 1), (2, 1, 1, 0, 2, 1)


@outlined
def _draw(problem, held, m, z, s, is_held, new_held, new_z, rng):
    """Draw a neighbouring support, not yet solved; return its size, 0 if it is invalid or cannot reach the sum."""
    h, kind, share = problem.h, 0, rng.random()
    while kind < len(SHARES) and share >= SHARES[kind]:
        kind += 1
    size = m - OUT[kind]
    if size < 0 or size + IN[kind] > s or size + IN[kind] == 0:
        return 0
    copy_support(held, z, m, new_held, new_z)
    for k in range(OUT[kind]):
        a = int(rng.random() * (m - k))
        if h.lo[new_held[a]] > 0.0:
            return 0
        new_held[a], new_z[a] = new_held[m - 1 - k], new_z[m - 1 - k]
    for _ in range(IN[kind]):
        # Take the least floor of a few: supports with one more member are rare, and have small floors.
        i, draws = int(rng.random() * len(is_held)), int(rng.random() * DRAWS)
        for _ in range(draws):
            other = int(rng.random() * len(is_held))
            if h.floor[other] < h.floor[i]:
                i = other
        if is_held[i] or h.hi[i] <= 0.0 or (IN[kind] == 2 and new_held[size - 1] == i and size > m - OUT[kind]):
            return 0
        new_held[size], new_z[size] = i, h.floor[i]
        size += 1
    least, most = 0.0, 0.0
    for a in range(size):
        least += h.floor[new_held[a]]
        most += h.hi[new_held[a]]
    return size if least <= problem.u.total <= most else 0


@entry_point
def anneal(problem, x, best_x, best, s, steps, hot, cold, rng):
    """Make ``steps`` random moves from x, in place, at temperatures that fall from ``hot`` to ``cold``.

    A move that raises F by Δ is accepted with probability exp(−Δ/temperature); with ``hot`` = 0 none is. Return the
    least f + h seen, relative to 0, if that is below the ``best`` given (its point is then in ``best_x``), and the mean
    rise of the moves that would have raised F, 0 if there were none.
    """
    held, z, new_held, new_z = integers(s + 2), reals(s + 2), integers(s + 2), reals(s + 2)
    m, _ = load(problem, x, s, held, z)
    if m == 0:
        return best, 0.0
    value, is_held = value_on(problem, held, m, z), flags(len(x), False)
    mark(held, m, is_held)
    heat, ratio = hot, (cold / hot) ** (1.0 / steps) if hot > 0.0 else 1.0
    rises, count = 0.0, 0
    for _ in range(steps):
        heat *= ratio
        size = _draw(problem, held, m, z, s, is_held, new_held, new_z, rng)
        if size == 0 or not make_feasible(problem.u, problem.h, new_held, size, new_z):
            continue
        solve_on(problem, new_held, size, new_z)
        size = trim(problem, new_held, size, new_z)
        if size == 0:
            continue
        change = value_on(problem, new_held, size, new_z) - value
        if change > 0.0:
            rises += change
            count += 1
            if heat <= 0.0 or rng.random() >= np.exp(-change / heat):
                continue
        m, value = size, value + change
        copy_support(new_held, new_z, m, held, z)
        mark(held, m, is_held)
        if value < best:
            best = value
            unload(held, m, z, best_x)
    unload(held, m, z, x)
    return best, rises / count if count > 0 else 0.0

"""States of blocks under AtMost: the choice of coordinates of a block that may be non-zero."""

import numpy as np

from counterpoise.kernels.arc import Arc
from counterpoise.kernels.basics import integers, larger, plus_dot, reals, smaller, table
from counterpoise.kernels.block_states import concave_change, enumerate_states, propose, solve_state
from counterpoise.kernels.concave import AtMost
from counterpoise.kernels.dispatch import allocating, allocating_verb, implements, kernel
from counterpoise.kernels.groups import make_feasible
from counterpoise.kernels.line import GroupedLine, Line


@implements(concave_change, AtMost)
def _change_count(g, x, block, z):
    count = g.count[0]
    for a in range(len(block)):
        count += int(z[a] != 0.0) - int(x[block[a]] != 0.0)
    return 0.0 if count <= g.s else np.inf


@allocating_verb
def refill(u, h, held, here, z):
    """Move z, the coordinates of a block that do not become 0, so that u(x) = 0 holds; return whether it can."""
    raise NotImplementedError


@implements(refill, Line, GroupedLine)
def _refill_line(u, h, held, here, z):
    return make_feasible(u, h, held, len(z), z)


@implements(refill, Arc)
def _refill_arc(u, h, held, here, z):
    wanted, square = plus_dot(0.0, here, here), plus_dot(0.0, z, z)
    if square == 0.0:
        z[0], square = 1.0, 1.0
    for a in range(len(z)):
        z[a] *= np.sqrt(wanted / square)
    return True


@allocating
def solve_part(u, h, x, block, H, b, free, m, z):
    """Write the candidate in which only ``free[:m]`` may be non-zero; x itself if u(x) = 0 cannot hold then."""
    k = len(z)
    part, tilt, low, high, point = table(m, m), reals(m), reals(m), reals(m), reals(m)
    here, held = reals(k), integers(m)
    for a in range(k):
        here[a] = x[block[a]]
    for a in range(m):
        i = free[a]
        held[a], tilt[a], point[a] = block[i], b[i], z[i]
        low[a], high[a] = larger(h.lo[block[i]], h.floor[block[i]]), h.hi[block[i]]
        for c in range(m):
            part[a, c] = H[i, free[c]]
    kept = m > 0 and refill(u, h, held, here, point)
    if kept:
        solve_state(u, h, held, part, tilt, low, high, point)
    for a in range(k):
        z[a] = 0.0 if kept else here[a]
    for a in range(m if kept else 0):
        z[free[a]] = point[a]


@kernel
def _places_of_block(g, x, block):
    """Return how many coordinates of a block may be non-zero."""
    places = g.s - g.count[0]
    for a in range(len(block)):
        places += int(x[block[a]] != 0.0)
    return places


@implements(propose, AtMost)
def _propose_count(g, u, h, x, block, H, b, lo, hi, ranking, state, z):
    """State t: the first min(k, places) − t of the ranking may be non-zero; state −1: the current non-zeros."""
    k = len(z)
    most = smaller(k, _places_of_block(g, x, block))
    if state >= most:
        return False
    free, m = integers(k), 0
    if state < 0:
        for a in range(k):
            if x[block[a]] != 0.0:
                free[m] = a
                m += 1
    else:
        m = most - state
        if state > 0:
            smallest = m
            for a in range(m):
                if abs(z[ranking[a]]) < abs(z[ranking[smallest]]):
                    smallest = a
            ranking[smallest], ranking[m] = ranking[m], ranking[smallest]
        for a in range(m):
            free[a] = ranking[a]
    solve_part(u, h, x, block, H, b, free, m, z)
    return True


@implements(enumerate_states, AtMost)
def _enumerate_count(g, u, h, x, block, H, b, lo, hi, state, z):
    """State t: the coordinates in the binary digits of t may be non-zero, if these are not too many."""
    k = len(z)
    if state >= 1 << k:
        return -1
    free, m = integers(k), 0
    for a in range(k):
        if state >> a & 1:
            free[m] = a
            m += 1
    if m > _places_of_block(g, x, block):
        return 0
    solve_part(u, h, x, block, H, b, free, m, z)
    return 1

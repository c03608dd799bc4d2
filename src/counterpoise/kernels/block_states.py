"""States of blocks: the programs of the constraints, and the candidates of TopSum and the smooth concave terms.

A *state* replaces g by a linear function of the block's new values z; see :mod:`.block`. Here u is the constraint on
the block alone, :func:`.pieces.part_of`.
"""

import numpy as np

from counterpoise.kernels.arc import Arc
from counterpoise.kernels.basics import copied, find, integers, larger, reals, smaller, table
from counterpoise.kernels.concave import ConcaveQuadratic, Norm2, TopSum, subslope
from counterpoise.kernels.dispatch import allocating, allocating_verb, implements, kernel, outlined, verb
from counterpoise.kernels.groups import keeps_limits
from counterpoise.kernels.line import GroupedLine, Line, admits
from counterpoise.kernels.pieces import solve_pieces
from counterpoise.kernels.programs import solve_on_sphere

# Relative tolerance for the rounding error of a block in the constraint.
STAYS = 1e-13


@verb
def is_signed(u):
    """Return whether x may have any sign and h a part Σ evenᵢ|xᵢ|."""
    return False


@implements(is_signed, Arc)
def _is_signed_arc(u):
    return u.signed


@verb
def solve_state(u, h, block, H, b, lo, hi, z):
    """Minimise ½zᵀHz + bᵀz over the block's part of the feasible set, from a feasible z, in place.

    If h has knots, and not on a sphere, Σhᵢ(zᵢ) is added; otherwise h is part of H and b.
    """
    raise NotImplementedError


@implements(solve_state, Line, GroupedLine)
def _solve_state_line(u, h, block, H, b, lo, hi, z):
    solve_pieces(u, h, block, H, b, lo, hi, z)


@implements(solve_state, Arc)
def _solve_state_arc(u, h, block, H, b, lo, hi, z):
    solve_on_sphere(H, b, z)


@verb
def stays(u, h, block, here, z):
    """Return whether a block that moves from ``here`` to z stays on u(x) = 0 and in its bounds, up to rounding."""
    raise NotImplementedError


@implements(stays, Line, GroupedLine)
def _stays_line(u, h, block, here, z):
    total, size = 0.0, 0.0
    for a in range(len(z)):
        if not admits(h, block[a], z[a]):
            return False
        total += z[a] - here[a]
        size += abs(z[a]) + abs(here[a])
    return abs(total) <= STAYS * size and keeps_limits(u, block, len(z), z)


@implements(stays, Arc)
def _stays_arc(u, h, block, here, z):
    total, size = 0.0, 0.0
    for a in range(len(z)):
        if not z[a] >= 0.0:
            return False
        total += (z[a] - here[a]) * (z[a] + here[a])
        size += here[a] * here[a]
    return abs(total) <= STAYS * size


@allocating_verb
def concave_change(g, x, block, z):
    """Return g(x with x_B = z) − g(x)."""
    raise NotImplementedError


@allocating_verb
def propose(g, u, h, x, block, H, b, lo, hi, ranking, state, z):
    """Write the candidate of one state to z, which holds a feasible start; return whether the state exists.

    ``ranking`` orders the block by the solution without g, largest first. State −1 is the state of x itself.
    """
    raise NotImplementedError


@allocating_verb
def enumerate_states(g, u, h, x, block, H, b, lo, hi, state, z):
    """Write the candidate of a state to z, over all states; return 1, 0 if the state is empty, −1 after the last."""
    raise NotImplementedError


@kernel
def _outside(g, block, k, values):
    """Write the magnitudes of ranks s−K+1 … s among the coordinates outside the block, K = min(k, s); return K."""
    K = smaller(k, g.s)
    taken, r = 0, 0
    while taken < g.s and r < len(g.order):
        if find(g.order[r], block, k) < 0:
            if taken >= g.s - K:
                values[taken - (g.s - K)] = g.key[r]
            taken += 1
        r += 1
    for a in range(larger(taken - (g.s - K), 0), K):
        values[a] = 0.0
    return K


@outlined
def _top_of_both(outside, K, sizes):
    """Return the sum of the K largest of ``outside`` (descending) and ``sizes`` (sorted here, in place) together."""
    k = len(sizes)
    for a in range(1, k):
        value, c = sizes[a], a
        while c > 0 and sizes[c - 1] < value:
            sizes[c] = sizes[c - 1]
            c -= 1
        sizes[c] = value
    total, a, c = 0.0, 0, 0
    for _ in range(K):
        if c < k and sizes[c] >= outside[a]:
            total += sizes[c]
            c += 1
        else:
            total += outside[a]
            a += 1
    return total


@implements(concave_change, TopSum)
def _change_top(g, x, block, z):
    k = len(block)
    outside, before, after = reals(k), reals(k), reals(k)
    K = _outside(g, block, k, outside)
    for a in range(k):
        before[a], after[a] = abs(x[block[a]]), abs(z[a])
    return g.lam * (_top_of_both(outside, K, before) - _top_of_both(outside, K, after))


@kernel
def _block_rise(x, block, z):
    rise = 0.0
    for a in range(len(block)):
        rise += (z[a] - x[block[a]]) * (z[a] + x[block[a]])
    return rise


@implements(concave_change, ConcaveQuadratic)
def _change_square(g, x, block, z):
    return -g.lam * _block_rise(x, block, z)


@implements(concave_change, Norm2)
def _change_norm(g, x, block, z):
    rise, square = _block_rise(x, block, z), g.square[0]
    total = np.sqrt(square) + np.sqrt(larger(square + rise, 0.0))
    return -g.lam * rise / total if total > 0.0 else 0.0


@implements(propose, TopSum)
def _propose_top(g, u, h, x, block, H, b, lo, hi, ranking, state, z):
    """State t: the first p = min(k, s) − t of the ranking are among the s largest.

    Each state drops the coordinate that is smallest in the solution of the previous state (backward elimination).
    """
    k, lam, s = len(z), g.lam, g.s
    most = smaller(k, s)
    if state > most:
        return False
    tilted = copied(b)
    if state < 0:
        for a in range(k):
            tilted[a] -= lam if g.rank[block[a]] < s else 0.0
    else:
        p = most - state
        if state > 0:
            smallest = p
            for a in range(p):
                if z[ranking[a]] < z[ranking[smallest]]:
                    smallest = a
            ranking[smallest], ranking[p] = ranking[p], ranking[smallest]
        for a in range(p):
            tilted[ranking[a]] -= lam
    solve_state(u, h, block, H, tilted, lo, hi, z)
    return True


@verb
def fill_vertex(u, lo, hi, ranking, z):
    """Write the vertex of the feasible set that belongs to ``ranking``; return whether there is one."""
    return False


@implements(fill_vertex, Line)
def _fill_vertex(u, lo, hi, ranking, z):
    """Raise coordinates to their upper bounds in the order of ``ranking`` until the block's sum is used up."""
    spare = 0.0
    for a in range(len(z)):
        spare += z[a] - lo[a]
    if not np.isfinite(spare):
        return False
    for a in range(len(z)):
        i = ranking[a]
        rise = smaller(spare, hi[i] - lo[i])
        z[i] = hi[i] if rise >= hi[i] - lo[i] else lo[i] + rise
        spare -= rise
    return True


@implements(propose, ConcaveQuadratic, Norm2)
def _propose_vertex(g, u, h, x, block, H, b, lo, hi, ranking, state, z):
    """State 0: the first of the ranking at their upper bounds, the rest at the lower; state −1: g linearised at x."""
    if state > 0:
        return False
    if state == 0:
        return fill_vertex(u, lo, hi, ranking, z)
    tilted = copied(b)
    for a in range(len(z)):
        tilted[a] += subslope(g, x, block[a])
    solve_state(u, h, block, H, tilted, lo, hi, z)
    return True


@implements(enumerate_states, TopSum)
def _enumerate_top(g, u, h, x, block, H, b, lo, hi, state, z):
    """State t: one of the 2ᵏ sets of block coordinates is among the s largest; g is their minimum (x ≥ 0)."""
    k, lam = len(z), g.lam
    if state >= 1 << k:
        return -1
    tilted, count = copied(b), 0
    for a in range(k):
        if state >> a & 1:
            tilted[a] -= lam
            count += 1
    if count > g.s:
        return 0
    solve_state(u, h, block, H, tilted, lo, hi, z)
    return 1


@allocating
def stationary_on_face(H, b, lo, hi, state, most_free, z):
    """Write the stationary point of ½zᵀHz + bᵀz on a face of the box with 1ᵀz unchanged; return whether it is inside.

    The base-3 digits of ``state`` put each coordinate on lo, on hi, or set it free. The bordered system is solved by
    Gaussian elimination with pivoting; a singular face is skipped, because its minimum recurs on a smaller face.
    """
    k, spare, m, reach = len(z), np.sum(z), 0, 0.0
    free = integers(k)
    for a in range(k):
        digit = state % 3
        state //= 3
        if digit == 2:
            free[m] = a
            m += 1
        else:
            z[a] = lo[a] if digit == 0 else hi[a]
            if not np.isfinite(z[a]):
                return False  # no such face: a coordinate limited only by the sum is free
            spare -= z[a]
            reach += abs(z[a])
    if m == 0 or m > most_free:
        return m == 0 and abs(spare) <= STAYS * reach
    system = table(m + 1, m + 2)
    size = 0.0
    for a in range(m):
        right = -b[free[a]]
        for c in range(k):
            if find(c, free, m) < 0:
                right -= H[free[a], c] * z[c]
        for c in range(m):
            system[a, c] = H[free[a], free[c]]
            size = larger(size, abs(system[a, c]))
        system[a, m], system[m, a], system[a, m + 1] = 1.0, 1.0, right
    system[m, m + 1] = spare
    for column in range(m + 1):
        pivot = column
        for row in range(column + 1, m + 1):
            if abs(system[row, column]) > abs(system[pivot, column]):
                pivot = row
        if abs(system[pivot, column]) <= 1e-13 * larger(size, 1e-300) and m > 1:
            return False
        for c in range(column, m + 2):
            system[column, c], system[pivot, c] = system[pivot, c], system[column, c]
        for row in range(m + 1):
            if row != column:
                ratio = system[row, column] / system[column, column]
                for c in range(column, m + 2):
                    system[row, c] -= ratio * system[column, c]
    # The last free coordinate takes the rest of the sum, so that the sum holds even on an ill-conditioned face.
    for a in range(m):
        value, i = (system[a, m + 1] / system[a, a] if a + 1 < m else spare), free[a]
        slack = 1e-14 * larger(abs(lo[i]), abs(hi[i])) if np.isfinite(lo[i]) and np.isfinite(hi[i]) else 0.0
        if not lo[i] - slack <= value <= hi[i] + slack:
            return False
        z[i] = smaller(larger(value, lo[i]), hi[i])
        spare -= z[i]
    return True


@implements(enumerate_states, ConcaveQuadratic)
def _enumerate_square(g, u, h, x, block, H, b, lo, hi, state, z):
    """State t: one of the 3ᵏ faces; a minimiser of a quadratic on a polytope is stationary on its face."""
    k, lam = len(z), g.lam
    if state >= 3**k:
        return -1
    bent = H.copy()
    for a in range(k):
        bent[a, a] -= 2.0 * lam
    return 1 if stationary_on_face(bent, b, lo, hi, state, k, z) else 0


@implements(enumerate_states, Norm2)
def _enumerate_norm(g, u, h, x, block, H, b, lo, hi, state, z):
    """State t: a vertex, with at most one coordinate off its bounds; above the exactness threshold these suffice."""
    if state >= 3 ** len(z):
        return -1
    return 1 if stationary_on_face(H, b, lo, hi, state, 1, z) else 0

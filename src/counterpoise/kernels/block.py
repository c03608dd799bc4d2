"""(S2) for blocks of k coordinates: linearised, nested and enumerated states.

With B the block and z its new values, f's model is ½zᵀHz + bᵀz up to a constant, H = Q_BB + θI and
b = ∇_B f + w_B − Hx_B. A *state* replaces g by a linear function of z and leaves a program of :mod:`.programs`, convex
on the line, on a sphere on the arc. As with pairs, states only propose: :func:`block_change` scores every candidate by
the true model, and the best one is kept if it is a decrease.

With signs every orthant is the non-negative one after a reflection; a block is solved in two of them.
"""

from __future__ import annotations

import numpy as np

from counterpoise.kernels.arc import Arc
from counterpoise.kernels.basics import copied, fill, integers, larger, reals, smaller, table
from counterpoise.kernels.concave import AtMost, ConcaveQuadratic, Norm2, TopSum, repositioned, subslope
from counterpoise.kernels.dispatch import allocating, allocating_verb, entry_point, implements, kernel, outlined, verb
from counterpoise.kernels.line import Line
from counterpoise.kernels.pair import followed, note_step, refresh_if_due
from counterpoise.kernels.programs import power_steps, solve_box_sum, solve_on_sphere
from counterpoise.kernels.separable import slope_left, slope_right
from counterpoise.kernels.smooth import curvature, load_slopes, moved, slope

LINEARISED, NESTED, ENUMERATED = 0, 1, 2
# By so much, relative to its size, rounding may take a block off the constraint.
STAYS = 1e-13


# The program of a state.


@verb
def is_signed(u):
    """Return whether blocks have signs, and h a part Σ evenᵢ|xᵢ|."""
    return False


@implements(is_signed, Arc)
def _is_signed_arc(u):
    return u.signed


@verb
def solve_state(u, H, b, lo, hi, z):
    """Minimise ½zᵀHz + bᵀz over the block's part of the feasible set, from a feasible z, in place."""
    raise NotImplementedError


@implements(solve_state, Line)
def _solve_state_line(u, H, b, lo, hi, z):
    solve_box_sum(H, b, lo, hi, z)


@implements(solve_state, Arc)
def _solve_state_arc(u, H, b, lo, hi, z):
    solve_on_sphere(H, b, z)


@verb
def stays(u, lo, hi, here, z):
    """Return whether a block that goes from ``here`` to z stays on u(x) = 0 and within its bounds, but for rounding."""
    raise NotImplementedError


@implements(stays, Line)
def _stays_line(u, lo, hi, here, z):
    total, size = 0.0, 0.0
    for a in range(len(z)):
        if not lo[a] <= z[a] <= hi[a]:
            return False
        total += z[a] - here[a]
        size += abs(z[a]) + abs(here[a])
    return abs(total) <= STAYS * size


@implements(stays, Arc)
def _stays_arc(u, lo, hi, here, z):
    total, size = 0.0, 0.0
    for a in range(len(z)):
        if not z[a] >= 0.0:
            return False
        total += (z[a] - here[a]) * (z[a] + here[a])
        size += here[a] * here[a]
    return abs(total) <= STAYS * size


# How g changes over a block, and what its states propose.


@allocating_verb
def concave_change(g, x, block, z):
    """Return g(x with x_B = z) − g(x)."""
    raise NotImplementedError


@allocating_verb
def propose(g, u, x, block, H, b, lo, hi, ranking, state, z):
    """Write the candidate of one state into z, which holds a feasible start; return whether there was such a state.

    ``ranking`` orders the block by the solution without g, largest first. State −1 is the state of x itself.
    """
    raise NotImplementedError


@allocating_verb
def enumerate_states(g, u, x, block, H, b, lo, hi, state, z):
    """Write the candidate of one of all states into z; return 1, 0 if the state is empty, −1 after the last state."""
    raise NotImplementedError


@kernel
def _outside(g, block, k, values):
    """Fill ``values`` with the magnitudes of ranks s−K+1 … s among the coordinates outside the block, K = min(k, s)."""
    K = smaller(k, g.s)
    taken, r = 0, 0
    while taken < g.s and r < len(g.order):
        inside = False
        for a in range(k):
            if block[a] == g.order[r]:
                inside = True
        if not inside:
            if taken >= g.s - K:
                values[taken - (g.s - K)] = g.key[r]
            taken += 1
        r += 1
    for a in range(larger(taken - (g.s - K), 0), K):
        values[a] = 0.0
    return K


@outlined
def _top_of_both(outside, K, sizes):
    """Return the sum of the K largest of ``outside`` (descending) and ``sizes`` (sorted here, descending) together."""
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
def _propose_top(g, u, x, block, H, b, lo, hi, ranking, state, z):
    """State t: the first p = min(k, s) − t of the ranking are among the s largest.

    Each state drops from the ranking the coordinate that the last one left smallest: backward elimination.
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
    solve_state(u, H, tilted, lo, hi, z)
    return True


@implements(concave_change, AtMost)
def _change_count(g, x, block, z):
    count = g.count[0]
    for a in range(len(block)):
        count += int(z[a] != 0.0) - int(x[block[a]] != 0.0)
    return 0.0 if count <= g.s else np.inf


@verb
def refill(u, lo, hi, here, z):
    """Move z, some coordinates of a block that is to become 0 elsewhere, to where it keeps u; return whether it can."""
    raise NotImplementedError


@implements(refill, Line)
def _refill_line(u, lo, hi, here, z):
    rest, size = 0.0, 0.0
    for a in range(len(here)):
        rest += here[a]
        size += abs(here[a])
    for a in range(len(z)):
        rest -= z[a]
    for a in range(len(z)):
        moved = smaller(larger(z[a] + rest, lo[a]), hi[a])
        rest -= moved - z[a]
        z[a] = moved
    return abs(rest) <= STAYS * size


@implements(refill, Arc)
def _refill_arc(u, lo, hi, here, z):
    wanted, square = 0.0, 0.0
    for a in range(len(here)):
        wanted += here[a] * here[a]
    for a in range(len(z)):
        square += z[a] * z[a]
    if square == 0.0:
        z[0], square = 1.0, 1.0
    for a in range(len(z)):
        z[a] *= np.sqrt(wanted / square)
    return True


@allocating
def solve_part(u, x, block, H, b, lo, hi, free, m, z):
    """Write the candidate whose first m coordinates of ``free`` may be non-zero; x itself if they cannot keep u."""
    k = len(z)
    part, tilt, low, high, point = table(m, m), reals(m), reals(m), reals(m), reals(m)
    here = reals(k)
    for a in range(k):
        here[a] = x[block[a]]
    for a in range(m):
        i = free[a]
        tilt[a], low[a], high[a], point[a] = b[i], lo[i], hi[i], z[i]
        for c in range(m):
            part[a, c] = H[i, free[c]]
    kept = m > 0 and refill(u, low, high, here, point)
    if kept:
        solve_state(u, part, tilt, low, high, point)
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
def _propose_count(g, u, x, block, H, b, lo, hi, ranking, state, z):
    """State t: the first min(k, places) − t of the ranking may be non-zero; state −1: those that are."""
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
    solve_part(u, x, block, H, b, lo, hi, free, m, z)
    return True


@implements(enumerate_states, AtMost)
def _enumerate_count(g, u, x, block, H, b, lo, hi, state, z):
    """All sets of as many coordinates as may be non-zero, or of fewer."""
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
    solve_part(u, x, block, H, b, lo, hi, free, m, z)
    return 1


@verb
def fill_vertex(u, lo, hi, ranking, z):
    """Write the vertex of the feasible set that ``ranking`` names; return whether the set has one."""
    return False


@implements(fill_vertex, Line)
def _fill_vertex(u, lo, hi, ranking, z):
    """Raise the coordinates to their upper bounds in the order of ``ranking`` until the block's sum is spent."""
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


@implements(propose, ConcaveQuadratic)
@implements(propose, Norm2)
def _propose_vertex(g, u, x, block, H, b, lo, hi, ranking, state, z):
    """The sum leaves one state: the first of the ranking at their upper bounds, the rest at the lower."""
    if state > 0:
        return False
    if state == 0:
        return fill_vertex(u, lo, hi, ranking, z)
    tilted = copied(b)
    for a in range(len(z)):
        tilted[a] += subslope(g, x, block[a])
    solve_state(u, H, tilted, lo, hi, z)
    return True


@implements(enumerate_states, TopSum)
def _enumerate_top(g, u, x, block, H, b, lo, hi, state, z):
    """All 2ᵏ sets S of block coordinates among the s largest: g is the least of their linear functions (x ≥ 0)."""
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
    solve_state(u, H, tilted, lo, hi, z)
    return 1


@allocating
def stationary_on_face(H, b, lo, hi, state, most_free, z):
    """Write the stationary point of ½zᵀHz + bᵀz on a face of the box with 1ᵀz as it is; return whether it is inside.

    The base-3 digits of ``state`` put each coordinate on lo, on hi, or set it free. Gaussian elimination with pivoting
    on the bordered system; a singular face is passed over, because its minimum recurs on a smaller face.
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
                return False  # there is no such face; where the sum is the limit, the others are at their bounds
            spare -= z[a]
            reach += abs(z[a])
    if m == 0 or m > most_free:
        return m == 0 and abs(spare) <= STAYS * reach
    system = table(m + 1, m + 2)
    size = 0.0
    for a in range(m):
        right = -b[free[a]]
        for c in range(k):
            inside = False
            for e in range(m):
                if free[e] == c:
                    inside = True
            if not inside:
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
    # The last free coordinate takes what the sum leaves, so that a poorly conditioned face is still on the sum.
    for a in range(m):
        value, i = (system[a, m + 1] / system[a, a] if a + 1 < m else spare), free[a]
        slack = 1e-14 * larger(abs(lo[i]), abs(hi[i])) if np.isfinite(lo[i]) and np.isfinite(hi[i]) else 0.0
        if not lo[i] - slack <= value <= hi[i] + slack:
            return False
        z[i] = smaller(larger(value, lo[i]), hi[i])
        spare -= z[i]
    return True


@implements(enumerate_states, ConcaveQuadratic)
def _enumerate_square(g, u, x, block, H, b, lo, hi, state, z):
    """All 3ᵏ faces: the least of a quadratic on a polytope is stationary on the face that holds it."""
    k, lam = len(z), g.lam
    if state >= 3**k:
        return -1
    bent = H.copy()
    for a in range(k):
        bent[a, a] -= 2.0 * lam
    return 1 if stationary_on_face(bent, b, lo, hi, state, k, z) else 0


@implements(enumerate_states, Norm2)
def _enumerate_norm(g, u, x, block, H, b, lo, hi, state, z):
    """All vertices, with at most one coordinate off its bounds: enough in the exact regime, where two never pay."""
    if state >= 3 ** len(z):
        return -1
    return 1 if stationary_on_face(H, b, lo, hi, state, 1, z) else 0


# One block step.


@allocating
def block_change(problem, x, block, H, q, even, z):
    """Return the change of the model when x_B becomes z; ``H`` and ``q`` are Q_BB + θI and ∇_B f + w_B."""
    k, smooth = len(block), 0.0
    for a in range(k):
        da = z[a] - x[block[a]]
        smooth += q[a] * da + even[a] * (abs(z[a]) - abs(x[block[a]]))
        for c in range(k):
            smooth += 0.5 * da * H[a, c] * (z[c] - x[block[c]])
    return smooth + concave_change(problem.g, x, block, z)


@allocating
def block_step(problem, x, block, theta, kind, best_z):
    """Write the best candidate of the block into ``best_z``; return by how much it decreases the model (0 for none)."""
    f, h, u, k = problem.f, problem.h, problem.u, len(block)
    H, q, b, even = table(k, k), reals(k), reals(k), reals(k)
    here, side, before = reals(k), reals(k), reals(k)
    fill(side, 1.0)
    for a in range(k):
        i = block[a]
        q[a], here[a] = slope(f, i) + slope_right(h, i, x[i]), x[i]
        if is_signed(u):
            even[a] = 0.5 * (slope_right(h, i, 0.0) - slope_left(h, i, 0.0))
            q[a] = slope(f, i) + slope_right(h, i, 0.0) - even[a]
        for c in range(k):
            H[a, c] = f.diagonal[i] + h.bend[i] + theta if a == c else curvature(f, i, block[c])
    for a in range(k):
        total = q[a]
        for c in range(k):
            total -= H[a, c] * here[c]
        b[a] = total
    if not is_signed(u):
        return -_best_state(problem, x, block, kind, H, q, b, even, side, here, 0.0, best_z)
    best, start = 0.0, copied(here)
    for orthant in range(2):
        # That of x, and that in which the block lies without g.
        if orthant == 1:
            power_steps(H, b, even, True, start)
        differs = False
        for a in range(k):
            total = b[a]
            for c in range(k):
                total += H[a, c] * start[c]
            side[a] = -1.0 if start[a] < 0.0 or (start[a] == 0.0 and total > 0.0) else 1.0
            differs = differs or side[a] != before[a]
            before[a] = side[a]
        if differs:
            best = _best_state(problem, x, block, kind, H, q, b, even, side, start, best, best_z)
    return -best


@allocating
def _best_state(problem, x, block, kind, H, q, b, even, side, start, best, best_z):
    """Write the best candidate of all states, if it is below ``best``, into ``best_z``; return the lower of the two.

    The states are those of the block with its coordinates multiplied by ``side``, ±1.
    """
    g, u, k = problem.g, problem.u, len(block)
    turned, tilted, lo, hi = table(k, k), reals(k), reals(k), reals(k)
    here, point = reals(k), reals(k)
    for a in range(k):
        tilted[a], here[a] = side[a] * b[a] + even[a], side[a] * start[a]
        lo[a], hi[a] = problem.h.lo[block[a]], problem.h.hi[block[a]]
        if is_signed(u):
            lo[a] = 0.0
        for c in range(k):
            turned[a, c] = side[a] * side[c] * H[a, c]
    ranking = np.arange(k)
    z = copied(here)
    if kind == NESTED:
        solve_state(u, turned, tilted, lo, hi, z)
        for a in range(1, k):
            i, c = ranking[a], a
            while c > 0 and z[ranking[c - 1]] < z[i]:
                ranking[c] = ranking[c - 1]
                c -= 1
            ranking[c] = i
    state = 0 if kind == ENUMERATED else -1
    while True:
        if kind == ENUMERATED:
            z[:] = here
            found = enumerate_states(g, u, x, block, turned, tilted, lo, hi, state, z)
        else:
            if state <= 0:
                z[:] = here  # later states start from their neighbour's solution
            found = 1 if propose(g, u, x, block, turned, tilted, lo, hi, ranking, state, z) else -1
        if found < 0:
            break
        if found > 0 and stays(u, lo, hi, here, z):
            for a in range(k):
                point[a] = side[a] * z[a] + 0.0  # −0 becomes 0
            delta = block_change(problem, x, block, H, q, even, point)
            if delta < best:
                best = delta
                best_z[:] = point
        if kind == LINEARISED:
            break
        state += 1
    return best


@kernel
def accept_block(problem, x, block, z):
    """Write the block into x and let every term follow, two coordinates at a time."""
    k = len(block)
    for a in range(0, k, 2):
        i = block[a]
        if a + 1 < k:
            j = block[a + 1]
            moved(problem.f, i, z[a] - x[i], j, z[a + 1] - x[j])
        else:
            moved(problem.f, i, z[a] - x[i], block[0], 0.0)
    for a in range(k):
        repositioned(problem.g, block[a], x[block[a]], z[a])
        followed(problem.u, block[a], z[a] - x[block[a]])
        x[block[a]] = z[a]


# Which block.


@kernel
def random_block(n, rng, block, chosen):
    """Fill ``block[chosen:]`` with coordinates that are not in it yet, uniformly."""
    k = len(block)
    while chosen < k:
        i = int(rng.random() * n)
        fresh = True
        for a in range(chosen):
            if block[a] == i:
                fresh = False
        if fresh:
            block[chosen] = i
            chosen += 1


@allocating
def support_block(problem, x, rng, block):
    """Take a random share of the block from the coordinates off their lower bounds, half of the rest by least slopes.

    The share varies from one coordinate to all but one: no fixed share serves all stages of a run.
    """
    k, n = len(block), len(x)
    above, count, signed = integers(n), 0, is_signed(problem.u)
    for i in range(n):
        if (signed and x[i] != 0.0) or (not signed and x[i] > problem.h.lo[i]):
            above[count] = i
            count += 1
    chosen, share = 0, 1 + int(rng.random() * (k - 1))
    if count <= k // 2 and rng.random() < 0.5:
        share = count  # a small support as a whole: every exchange with the rest is then open
    while chosen < share and chosen < count:
        pick = chosen + int(rng.random() * (count - chosen))
        above[chosen], above[pick] = above[pick], above[chosen]
        block[chosen] = above[chosen]
        chosen += 1
    load_slopes(problem.f)
    gradient = problem.f.gradient
    wanted = chosen + (k - chosen) // 2
    while chosen < wanted:
        # The least slope among a random sample of the rest: cheap, and not the same coordinate every time.
        least, value = -1, np.inf
        for _ in range(larger(8, n // 8)):
            i = int(rng.random() * n)
            fresh = True
            for a in range(chosen):
                if block[a] == i:
                    fresh = False
            total = gradient[i] + slope_right(problem.h, i, x[i])
            if signed and x[i] == 0.0:
                total = smaller(total, -gradient[i] - slope_left(problem.h, i, 0.0))
            if fresh and total < value:
                least, value = i, total
        if least < 0:
            break
        block[chosen] = least
        chosen += 1
    random_block(n, rng, block, chosen)


@entry_point
def block_epoch(problem, x, k, kind, support_aware, theta, tol, level, trials, patience, rng, age):
    """Run at most ``trials`` block steps, in place; return (done, accepted, settled) as :func:`sweep.epoch` does."""
    block, z = integers(k), reals(k)
    accepted, floor = 0, tol * abs(level[0]) + level[1]
    for done in range(trials):
        refresh_if_due(problem, x, age)
        if support_aware:
            support_block(problem, x, rng, block)
        else:
            random_block(len(x), rng, block, 0)
        gain = block_step(problem, x, block, theta, kind, z)
        if gain > floor:
            accept_block(problem, x, block, z)
            accepted += 1
            level[0] -= gain
            floor = tol * abs(level[0]) + level[1]
            note_step(age)
        else:
            age[2] += 1
            if age[2] >= patience:
                return done + 1, accepted, True
    return trials, accepted, False


@entry_point
def best_of_block(problem, x, block, theta, kind, z):
    """Return the decrease of one block step, its new values in ``z``; x is left as it is."""
    return block_step(problem, x, block, theta, kind, z)

"""(S2) for blocks of k coordinates: linearised, nested and enumerated states.

With B the block and z its new values, f's model is ½zᵀHz + bᵀz up to a constant, H = Q_BB + θI and
b = ∇_B f + w_B − Hx_B. A *state* replaces g by a linear function of |z|; on the line it leaves a convex quadratic
program on a box and a sum, solved exactly by an active set, on the arc a majorised power iteration. As with pairs,
states only propose: :func:`block_change` scores every candidate by the true model, and the best one is kept if it is a
decrease.
"""

from __future__ import annotations

import numpy as np

from counterpoise.kernels.arc import Arc
from counterpoise.kernels.concave import ConcaveQuadratic, Norm2, TopSum, repositioned, subslope
from counterpoise.kernels.dispatch import allocating, allocating_verb, entry_point, implements, kernel, outlined, verb
from counterpoise.kernels.line import Line
from counterpoise.kernels.pair import note_step, refresh_if_due
from counterpoise.kernels.separable import slope_left, slope_right
from counterpoise.kernels.smooth import curvature, load_slopes, moved, slope

LINEARISED, NESTED, ENUMERATED = 0, 1, 2
# By so much, relative to its size, rounding may take a block off the constraint.
STAYS = 1e-13


# The convex quadratic program of a state on the line.


@outlined
def _free_step(H, gradient, free, m, factor, step):
    """Write into ``step`` the minimiser over the m ≥ 2 free coordinates of the model at z, with 1ᵀstep = 0.

    The first free coordinate balances the others: the reduced matrix H_ac − H_ar − H_rc + H_rr is factored by Cholesky
    with a ridge, for duplicate columns; what the ridge takes off a step is made up by the next.
    """
    r = free[0]
    for a in range(1, m):
        i = free[a]
        for c in range(1, a + 1):
            j = free[c]
            total = H[i, j] - H[i, r] - H[r, j] + H[r, r]
            ridge = 1e-10 * (abs(H[i, i]) + abs(H[r, r])) + 1e-300
            if a == c:
                total += ridge
            for e in range(1, c):
                total -= factor[a, e] * factor[c, e]
            # A pivot below a share of the ridge is rounding; the floor keeps the step within what doubles can add up.
            factor[a, c] = np.sqrt(max(total, 1e-3 * ridge)) if a == c else total / factor[c, c]
        total = gradient[r] - gradient[i]
        for e in range(1, a):
            total -= factor[a, e] * step[e]
        step[a] = total / factor[a, a]
    step[0] = 0.0
    for a in range(m - 1, 0, -1):
        total = step[a]
        for e in range(a + 1, m):
            total -= factor[e, a] * step[e]
        step[a] = total / factor[a, a]
        step[0] -= step[a]


@outlined
def solve_box_sum(H, b, lo, hi, z):
    """Minimise ½zᵀHz + bᵀz over {lo ≤ z ≤ hi, 1ᵀz as it is} from a feasible z, in place, by a primal active set.

    Each round solves the problem on the free coordinates, stops at the first bound in the way, or, if there is none,
    frees the bound coordinate whose slope most contradicts the free ones. H must be positive semidefinite. What
    rounding adds to the sum is taken off at the end.

    Returns by how much the slope of a coordinate that can fall exceeds that of one that can rise: 0 at the solution,
    and times the mass that can move a bound of what is left to gain.
    """
    k, target = len(z), 0.0
    for a in range(k):
        target += z[a]
    violation = _walk_box_sum(H, b, lo, hi, z)
    # A coordinate on a bound stays there: the bound may be a kink, where a hair's breadth is another slope.
    roomiest, room = -1, 0.0
    for a in range(k):
        target -= z[a]
        if min(z[a] - lo[a], hi[a] - z[a]) > room:
            roomiest, room = a, min(z[a] - lo[a], hi[a] - z[a])
    if abs(target) < room:
        z[roomiest] += target
    return violation


@allocating
def _walk_box_sum(H, b, lo, hi, z):
    """Make the rounds of :func:`solve_box_sum`."""
    k = len(z)
    at = np.zeros(k, dtype=np.int64)  # −1 on lo, 1 on hi, 0 free
    size = 0.0
    for a in range(k):
        at[a] = -1 if z[a] <= lo[a] else (1 if z[a] >= hi[a] else 0)
        size = max(size, abs(b[a]), abs(H[a, a]))
    free, factor = np.empty(k, dtype=np.int64), np.empty((k, k))
    step, gradient = np.empty(k), np.empty(k)
    whole_steps, violation = 0, np.inf
    for _ in range(20 * k + 20):
        m = 0
        for a in range(k):
            total = b[a]
            for c in range(k):
                total += H[a, c] * z[c]
            gradient[a] = total
            if at[a] == 0:
                free[m] = a
                m += 1
        # Rising is open to free and low coordinates, falling to free and high ones.
        rise, fall = -1, -1
        for a in range(k):
            if at[a] <= 0 and z[a] < hi[a] and (rise < 0 or gradient[a] < gradient[rise]):
                rise = a
            if at[a] >= 0 and z[a] > lo[a] and (fall < 0 or gradient[a] > gradient[fall]):
                fall = a
        violation = max(gradient[fall] - gradient[rise], 0.0) if rise >= 0 and fall >= 0 else 0.0
        if violation <= 1e-14 * size:
            return violation
        # Two whole steps solve the free coordinates as well as rounding allows; then the bounds are asked.
        if whole_steps >= 2 or m < 2:
            if at[rise] == 0 and at[fall] == 0:
                return violation
            at[rise], at[fall], whole_steps = 0, 0, 0
            continue
        _free_step(H, gradient, free, m, factor, step)
        length, blocking = 1.0, -1
        for a in range(m):
            i = free[a]
            room = (hi[i] - z[i]) if step[a] > 0.0 else (lo[i] - z[i])
            if step[a] != 0.0 and room / step[a] < length:
                length, blocking = max(room / step[a], 0.0), a
        for a in range(m):
            z[free[a]] += length * step[a]
        whole_steps += 1
        if blocking >= 0:
            i = free[blocking]
            at[i] = 1 if step[blocking] > 0.0 else -1
            z[i] = hi[i] if at[i] == 1 else lo[i]
            whole_steps = 0
    return violation


@verb
def is_signed(u):
    """Return whether blocks have signs and kinks at 0: they are ranked by |z|, and h has a part Σ evenᵢ|xᵢ|."""
    return False


@implements(is_signed, Arc)
def _is_signed_arc(u):
    return u.signed


@allocating_verb
def solve_state(u, H, b, tilt, lo, hi, z):
    """Minimise ½zᵀHz + bᵀz + Σ tiltₐ|zₐ| over the block's part of the feasible set, from a feasible z, in place."""
    raise NotImplementedError


@implements(solve_state, Line)
def _solve_state_line(u, H, b, tilt, lo, hi, z):
    solve_box_sum(H, b + tilt, lo, hi, z)


@implements(solve_state, Arc)
def _solve_state_arc(u, H, b, tilt, lo, hi, z):
    power_steps(H, b, tilt, u.signed, z)


@allocating
def power_steps(H, b, tilt, signed, z):
    """Minimise ½zᵀHz + bᵀz + Σ tiltₐ|zₐ| over {‖z‖ as it is}, with z ≥ 0 unless ``signed``, by majorisation, in place.

    On the sphere H may be shifted by −ρI; with ρ at least its largest eigenvalue (Gershgorin) the quadratic is concave,
    lies below its tangent q = (H − ρI)z + b, and qᵀz + Σ tiltₐ|zₐ| is least at z in proportion to the positive part of
    −q − tilt; with signs to that of |q| − tilt, on the side of −q.
    """
    k = len(z)
    rho, norm = 0.0, 0.0
    for a in range(k):
        radius = H[a, a]
        for c in range(k):
            if c != a:
                radius += abs(H[a, c])
        rho = max(rho, radius)
        norm += z[a] * z[a]
    norm = np.sqrt(norm)
    if norm == 0.0:
        return
    size, tangent = np.empty(k), np.empty(k)
    for _ in range(1000):
        length, most = 0.0, 0
        for a in range(k):
            total = b[a] - rho * z[a]
            for c in range(k):
                total += H[a, c] * z[c]
            tangent[a] = total
        for a in range(k):
            size[a] = (abs(tangent[a]) if signed else -tangent[a]) - tilt[a]
            length += max(size[a], 0.0) ** 2
            if size[a] > size[most]:
                most = a
        scale, change = norm / np.sqrt(length) if length > 0.0 else 0.0, 0.0
        for a in range(k):
            value = scale * max(size[a], 0.0)
            if length == 0.0 and a == most:
                value = norm
            if signed and tangent[a] > 0.0 and value > 0.0:
                value = -value
            change = max(change, abs(value - z[a]))
            z[a] = value
        if change <= 1e-15 * norm:
            return


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
        if not (z[a] >= 0.0 or (u.signed and z[a] < 0.0)):
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
def propose(g, u, x, block, H, b, even, lo, hi, ranking, state, z):
    """Write the candidate of one state into z, which holds a feasible start; return whether there was such a state.

    ``ranking`` orders the block by the solution without g, largest first. State −1 is the state of x itself. ``even``
    is h's slope along |x|.
    """
    raise NotImplementedError


@allocating_verb
def enumerate_states(g, u, x, block, H, b, lo, hi, state, z):
    """Write the candidate of one of all states into z; return 1, 0 if the state is empty, −1 after the last state."""
    raise NotImplementedError


@kernel
def _outside(g, block, k, values):
    """Fill ``values`` with the magnitudes of ranks s−K+1 … s among the coordinates outside the block, K = min(k, s)."""
    K = min(k, g.s)
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
    for a in range(max(taken - (g.s - K), 0), K):
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
    outside, before, after = np.empty(k), np.empty(k), np.empty(k)
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
    total = np.sqrt(square) + np.sqrt(max(square + rise, 0.0))
    return -g.lam * rise / total if total > 0.0 else 0.0


@kernel
def _ranked(u, value):
    """Return what the coordinates of a block are ranked by."""
    return abs(value) if is_signed(u) else value


@implements(propose, TopSum)
def _propose_top(g, u, x, block, H, b, even, lo, hi, ranking, state, z):
    """State t: the first p = min(k, s) − t of the ranking are among the s largest.

    Each state drops from the ranking the coordinate that the last one left smallest: backward elimination.
    """
    k, lam, s = len(z), g.lam, g.s
    most = min(k, s)
    if state > most:
        return False
    tilt = even.copy()
    if state < 0:
        for a in range(k):
            tilt[a] -= lam if g.rank[block[a]] < s else 0.0
    else:
        p = most - state
        if state > 0:
            smallest = p
            for a in range(p):
                if _ranked(u, z[ranking[a]]) < _ranked(u, z[ranking[smallest]]):
                    smallest = a
            ranking[smallest], ranking[p] = ranking[p], ranking[smallest]
        for a in range(p):
            tilt[ranking[a]] -= lam
    solve_state(u, H, b, tilt, lo, hi, z)
    return True


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
        rise = min(spare, hi[i] - lo[i])
        z[i] = hi[i] if rise >= hi[i] - lo[i] else lo[i] + rise
        spare -= rise
    return True


@implements(propose, ConcaveQuadratic)
@implements(propose, Norm2)
def _propose_vertex(g, u, x, block, H, b, even, lo, hi, ranking, state, z):
    """The sum leaves one state: the first of the ranking at their upper bounds, the rest at the lower."""
    if state > 0:
        return False
    if state == 0:
        return fill_vertex(u, lo, hi, ranking, z)
    tilted = b.copy()
    for a in range(len(z)):
        tilted[a] += subslope(g, x, block[a])
    solve_state(u, H, tilted, even, lo, hi, z)
    return True


@implements(enumerate_states, TopSum)
def _enumerate_top(g, u, x, block, H, b, lo, hi, state, z):
    """All 2ᵏ sets S of block coordinates among the s largest: g is the least of their linear functions (x ≥ 0)."""
    k, lam = len(z), g.lam
    if state >= 1 << k:
        return -1
    tilt, count = np.zeros(k), 0
    for a in range(k):
        if state >> a & 1:
            tilt[a] -= lam
            count += 1
    if count > g.s:
        return 0
    solve_state(u, H, b, tilt, lo, hi, z)
    return 1


@allocating
def stationary_on_face(H, b, lo, hi, state, most_free, z):
    """Write the stationary point of ½zᵀHz + bᵀz on a face of the box with 1ᵀz as it is; return whether it is inside.

    The base-3 digits of ``state`` put each coordinate on lo, on hi, or set it free. Gaussian elimination with pivoting
    on the bordered system; a singular face is passed over, because its minimum recurs on a smaller face.
    """
    k, spare, m, reach = len(z), np.sum(z), 0, 0.0
    free = np.empty(k, dtype=np.int64)
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
    system = np.zeros((m + 1, m + 2))
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
            size = max(size, abs(system[a, c]))
        system[a, m], system[m, a], system[a, m + 1] = 1.0, 1.0, right
    system[m, m + 1] = spare
    for column in range(m + 1):
        pivot = column
        for row in range(column + 1, m + 1):
            if abs(system[row, column]) > abs(system[pivot, column]):
                pivot = row
        if abs(system[pivot, column]) <= 1e-13 * max(size, 1e-300) and m > 1:
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
        slack = 1e-14 * max(abs(lo[i]), abs(hi[i])) if np.isfinite(lo[i]) and np.isfinite(hi[i]) else 0.0
        if not lo[i] - slack <= value <= hi[i] + slack:
            return False
        z[i] = min(max(value, lo[i]), hi[i])
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
    f, h, g, u, k = problem.f, problem.h, problem.g, problem.u, len(block)
    H, q, b, even = np.empty((k, k)), np.empty(k), np.empty(k), np.zeros(k)
    lo, hi, here = np.empty(k), np.empty(k), np.empty(k)
    for a in range(k):
        i = block[a]
        q[a], lo[a], hi[a], here[a] = slope(f, i) + h.weight[i], h.lo[i], h.hi[i], x[i]
        if is_signed(u):
            even[a] = 0.5 * (slope_right(h, i, 0.0) - slope_left(h, i, 0.0))
        for c in range(k):
            H[a, c] = f.diagonal[i] + theta if a == c else curvature(f, i, block[c])
    for a in range(k):
        total = q[a]
        for c in range(k):
            total -= H[a, c] * here[c]
        b[a] = total
    ranking = np.arange(k)
    z = here.copy()
    if kind == NESTED:
        solve_state(u, H, b, even, lo, hi, z)
        for a in range(1, k):
            i, c = ranking[a], a
            while c > 0 and _ranked(u, z[ranking[c - 1]]) < _ranked(u, z[i]):
                ranking[c] = ranking[c - 1]
                c -= 1
            ranking[c] = i
    best = 0.0
    state = 0 if kind == ENUMERATED else -1
    while True:
        if kind == ENUMERATED:
            z[:] = here
            found = enumerate_states(g, u, x, block, H, b, lo, hi, state, z)
        else:
            if state <= 0:
                z[:] = here  # later states start from their neighbour's solution
            found = 1 if propose(g, u, x, block, H, b, even, lo, hi, ranking, state, z) else -1
        if found < 0:
            break
        if found > 0 and stays(u, lo, hi, here, z):
            delta = block_change(problem, x, block, H, q, even, z)
            if delta < best:
                best = delta
                best_z[:] = z
        if kind == LINEARISED:
            break
        state += 1
    return -best


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
    above, count, signed = np.empty(n, dtype=np.int64), 0, is_signed(problem.u)
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
        for _ in range(max(8, n // 8)):
            i = int(rng.random() * n)
            fresh = True
            for a in range(chosen):
                if block[a] == i:
                    fresh = False
            total = gradient[i] + slope_right(problem.h, i, x[i])
            if signed and x[i] == 0.0:
                total = min(total, -gradient[i] - slope_left(problem.h, i, 0.0))
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
    block, z = np.empty(k, dtype=np.int64), np.empty(k)
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

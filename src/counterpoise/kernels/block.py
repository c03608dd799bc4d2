"""(S2) for blocks of k coordinates: linearised, nested and enumerated states.

With B the block and z its new values, f's model is ½zᵀHz + bᵀz up to a constant, H = Q_BB + θI and
b = ∇_B f + w_B − Hx_B. A *state* replaces g by a linear function of z. What remains is a program of :mod:`.programs`,
convex on the line, on a sphere on the arc. As with pairs, states only propose candidates: :func:`block_change` scores
each by the true model, and the best one is kept if it is a decrease. If h has knots, b and H leave h out, and states
add it. A semicontinuous coordinate that is 0 stays 0, others stay at or above their floors, unless g is AtMost, whose
states choose the non-zeros.

With signs, a reflection turns every orthant into the non-negative one; a block is solved in two orthants.
"""

from __future__ import annotations

import numpy as np

from counterpoise.checks import Vector
from counterpoise.kernels import block_count  # noqa: F401  (it registers the states of AtMost)
from counterpoise.kernels.basics import assign, copied, fill, find, integers, larger, plus_dot, reals, smaller, table
from counterpoise.kernels.block_states import concave_change, enumerate_states, is_signed, propose, solve_state, stays
from counterpoise.kernels.concave import repositioned
from counterpoise.kernels.dispatch import allocating, entry_point, kernel
from counterpoise.kernels.pair import Terms, followed, new_age, note_step, refresh_if_due
from counterpoise.kernels.pieces import part_of
from counterpoise.kernels.programs import power_steps
from counterpoise.kernels.separable import separable_change, slope_left, slope_right
from counterpoise.kernels.smooth import curvature, load_slopes, moved, slope

LINEARISED, NESTED, ENUMERATED = 0, 1, 2
# How blocks are chosen: uniformly, with a preference for the support, or by the caller.
UNIFORM, SUPPORT, GIVEN = 0, 1, 2


@allocating
def block_change(problem, x, block, H, q, even, z):
    """Return the change of the model when x_B becomes z; ``H`` and ``q`` are Q_BB + θI and ∇_B f + w_B."""
    k, smooth = len(block), 0.0
    if _adds_knots(problem):
        for a in range(k):
            smooth += separable_change(problem.h, block[a], x[block[a]], z[a])
    for a in range(k):
        da = z[a] - x[block[a]]
        smooth += q[a] * da + even[a] * (abs(z[a]) - abs(x[block[a]]))
        for c in range(k):
            smooth += 0.5 * da * H[a, c] * (z[c] - x[block[c]])
    return smooth + concave_change(problem.g, x, block, z)


@kernel
def _adds_knots(problem):
    """Return whether states add h, because it has knots; the knots of a signed sphere are in ``even``."""
    return len(problem.h.centre) > 0 and not is_signed(problem.u)


@allocating
def block_step(problem, x, block, theta, kind, best_z):
    """Write the best candidate of the block to ``best_z``; return the decrease of the model (0 if there is none)."""
    f, h, u, k, apart = problem.f, problem.h, problem.u, len(block), _adds_knots(problem)
    H, q, b, even = table(k, k), reals(k), reals(k), reals(k)
    here, side, before = reals(k), reals(k), reals(k)
    fill(side, 1.0)
    for a in range(k):
        i = block[a]
        q[a], here[a] = slope(f, i) + (0.0 if apart else slope_right(h, i, x[i])), x[i]
        if is_signed(u):
            even[a] = 0.5 * (slope_right(h, i, 0.0) - slope_left(h, i, 0.0))
            q[a] = slope(f, i) + slope_right(h, i, 0.0) - even[a]
        for c in range(k):
            H[a, c] = curvature(f, i, block[c]) if a != c else f.diagonal[i] + theta + (0.0 if apart else h.bend[i])
    for a in range(k):
        b[a] = q[a]
        for c in range(k):
            b[a] -= H[a, c] * here[c]
    if not is_signed(u):
        return -_best_state(problem, x, block, kind, H, q, b, even, side, here, 0.0, best_z)
    best, start = 0.0, copied(here)
    for orthant in range(2):
        # The orthant of x, and that of the block's minimiser without g.
        if orthant == 1:
            power_steps(H, b, even, True, start)
        differs = False
        for a in range(k):
            total = plus_dot(b[a], H[a], start)
            side[a] = -1.0 if start[a] < 0.0 or (start[a] == 0.0 and total > 0.0) else 1.0
            differs = differs or side[a] != before[a]
            before[a] = side[a]
        if differs:
            best = _best_state(problem, x, block, kind, H, q, b, even, side, start, best, best_z)
    return -best


@allocating
def _best_state(problem, x, block, kind, H, q, b, even, side, start, best, best_z):
    """Write the best candidate of all states to ``best_z`` if it is below ``best``; return the lower of the two.

    The states are those of the block with its coordinates multiplied by ``side``, ±1.
    """
    g, h, k = problem.g, problem.h, len(block)
    turned, tilted, lo, hi = table(k, k), reals(k), reals(k), reals(k)
    here, point = reals(k), reals(k)
    for a in range(k):
        tilted[a], here[a] = side[a] * b[a] + even[a], side[a] * start[a]
        lo[a], hi[a] = 0.0 if is_signed(problem.u) else h.lo[block[a]], h.hi[block[a]]
        for c in range(k):
            turned[a, c] = side[a] * side[c] * H[a, c]
    ranking, z, u = integers(k), copied(here), part_of(problem.u, block, here)
    for a in range(k):
        ranking[a] = a
    if kind == NESTED:
        solve_state(u, h, block, turned, tilted, lo, hi, z)
        for a in range(1, k):
            i, c = ranking[a], a
            while c > 0 and z[ranking[c - 1]] < z[i]:
                ranking[c] = ranking[c - 1]
                c -= 1
            ranking[c] = i
    for a in range(k):
        i = block[a]
        if h.floor[i] > h.lo[i] and x[i] == 0.0:
            lo[a], hi[a] = 0.0, 0.0
        elif h.floor[i] > h.lo[i]:
            lo[a] = h.floor[i]
    state = 0 if kind == ENUMERATED else -1
    while True:
        if kind == ENUMERATED or state <= 0:
            assign(here, z)  # later proposals start from their neighbour's solution
        if kind == ENUMERATED:
            found = enumerate_states(g, u, h, x, block, turned, tilted, lo, hi, state, z)
        else:
            found = 1 if propose(g, u, h, x, block, turned, tilted, lo, hi, ranking, state, z) else -1
        if found < 0:
            break
        if found > 0 and stays(u, h, block, here, z):
            for a in range(k):
                point[a] = side[a] * z[a] + 0.0  # −0 becomes 0
            delta = block_change(problem, x, block, H, q, even, point)
            if delta < best:
                best = delta
                assign(point, best_z)
        if kind == LINEARISED:
            break
        state += 1
    return best


@kernel
def accept_block(problem, x, block, z):
    """Write the block into x and update the cached state of every term."""
    k = len(block)
    for a in range(0, k, 2):
        c = a + 1 if a + 1 < k else 0  # the last of an odd number moves alone
        i, j = block[a], block[c]
        moved(problem.f, i, z[a] - x[i], j, z[c] - x[j] if c > 0 else 0.0)
    for a in range(k):
        repositioned(problem.g, block[a], x[block[a]], z[a])
        followed(problem.u, block[a], z[a] - x[block[a]])
        x[block[a]] = z[a]


@kernel
def random_block(n, rng, block, chosen):
    """Fill ``block[chosen:]`` with uniformly drawn coordinates that are not in the block yet."""
    while chosen < len(block):
        block[chosen] = int(rng.random() * n)
        chosen += find(block[chosen], block, chosen) < 0


@allocating
def support_block(problem, x, rng, block):
    """Draw a random share of the block from coordinates off their lower bounds, half of the rest by least slopes.

    The share varies from one coordinate to all but one, because no fixed share suits all stages of a run.
    """
    k, n = len(block), len(x)
    above, count, signed = integers(n), 0, is_signed(problem.u)
    for i in range(n):
        if (signed and x[i] != 0.0) or (not signed and x[i] > problem.h.lo[i]):
            above[count] = i
            count += 1
    chosen, share = 0, 1 + int(rng.random() * (k - 1))
    if count <= k // 2 and rng.random() < 0.5:
        share = count  # take a small support as a whole, so that every exchange with the rest is possible
    while chosen < share and chosen < count:
        pick = chosen + int(rng.random() * (count - chosen))
        above[chosen], above[pick] = above[pick], above[chosen]
        block[chosen] = above[chosen]
        chosen += 1
    load_slopes(problem.f)
    gradient = problem.f.gradient
    wanted = chosen + (k - chosen) // 2
    while chosen < wanted:
        # Take the least slope in a random sample: cheap, and not the same coordinate every time.
        least, value = -1, np.inf
        for _ in range(larger(8, n // 8)):
            i = int(rng.random() * n)
            total = gradient[i] + slope_right(problem.h, i, x[i])
            if signed and x[i] == 0.0:
                total = smaller(total, -gradient[i] - slope_left(problem.h, i, 0.0))
            if total < value and find(i, block, chosen) < 0:
                least, value = i, total
        if least < 0:
            break
        block[chosen] = least
        chosen += 1
    random_block(n, rng, block, chosen)


@entry_point
def block_epoch(problem, x, block, z, how, kind, theta, tol, level, trials, patience, rng, age):
    """Run at most ``trials`` block steps, in place; return (done, accepted, settled, decrease).

    The first three are as in :func:`sweep.epoch`; ``block``, ``z`` and the decrease are those of the last step.
    """
    accepted, floor, gain = 0, tol * abs(level[0]) + level[1], 0.0
    for done in range(trials):
        refresh_if_due(problem, x, age)
        if how == SUPPORT:
            support_block(problem, x, rng, block)
        elif how == UNIFORM:
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
                return done + 1, accepted, True, gain
    return trials, accepted, False, gain


def best_of_block(problem: Terms, x: Vector, block: Vector, theta: float, kind: int, z: Vector) -> float:
    """Return the decrease of one block step, and write its new values to ``z``; x is not changed."""
    # One compiled function serves runs and single blocks; with a floor of ∞ no step is accepted.
    level, age, unused = np.array([0.0, np.inf]), new_age(1), np.random.default_rng(0)
    return float(block_epoch(problem, x, block, z, GIVEN, kind, float(theta), 0.0, level, 1, 2, unused, age)[3])

"""Values of held coordinates on the line: a feasible start, the transfer that lowers F fastest, the best values.

The m held coordinates have bounds, a sum and, on a :class:`~counterpoise.kernels.line.GroupedLine`, group limits.
A direction that keeps the sum and the limits is a sum of transfers between two coordinates, none of which breaks a
limit that the direction keeps (a flow in a tree). So if all constraints are convex, a point that no transfer improves
is optimal.
"""

import numpy as np

from counterpoise.kernels.basics import axpy, fill, flags, integers, larger, less_dot, plus_dot, reals, smaller, table
from counterpoise.kernels.dispatch import allocating, allocating_verb, implements, outlined
from counterpoise.kernels.line import GroupedLine, Line
from counterpoise.kernels.programs import longest, solve_box_sum

# Relative sizes: the distance within which a sum is at a limit, the least slope worth a step, the ridge of a diagonal.
AT_LIMIT, FLAT_SLOPE, RIDGE = 1e-12, 1e-14, 1e-11


@allocating_verb
def make_feasible(u, h, held, m, z):
    """Move the values z of held coordinates into their bounds and onto u, in place; return whether that succeeds."""
    raise NotImplementedError


@allocating_verb
def wanted_transfer(u, held, m, z, lo, hi, right, left):
    """Return (receiver, giver, rate) of the allowed transfer that lowers F fastest; −1 if none does."""
    raise NotImplementedError


@allocating_verb
def solve_box(u, held, H, b, lo, hi, z):
    """Minimise ½zᵀHz + bᵀz over the box and u from a feasible z, in place; return the rate of the best transfer."""
    raise NotImplementedError


@allocating_verb
def share_slopes(u, h, held, m, z, right, left, shared):
    """Write to ``shared`` the slope below which each coordinate would enter: that of the held ones that can give way.

    ``right`` and ``left`` are the one-sided slopes of the held coordinates. The slope is the largest left one of those
    that can fall, which gives the smallest estimated gain; if none can fall, the smallest right one.
    """
    raise NotImplementedError


@allocating_verb
def keeps_limits(u, held, m, z):
    """Return whether the values of the held coordinates keep the group limits, if there are any."""
    return True


@outlined
def clip_to_bounds(h, held, m, z):
    """Clip every value to its bounds and its floor; return their sum."""
    total = 0.0
    for a in range(m):
        i = held[a]
        z[a] = smaller(larger(larger(z[a], h.lo[i]), h.floor[i]), h.hi[i])
        total += z[a]
    return total


@implements(make_feasible, Line)
def _make_feasible_line(u, h, held, m, z):
    rest = u.total - clip_to_bounds(h, held, m, z)
    for _ in range(2):  # the second round removes rounding error
        for a in range(m):
            i = held[a]
            moved = smaller(larger(larger(z[a] + rest, h.lo[i]), h.floor[i]), h.hi[i])
            rest -= moved - z[a]
            z[a] = moved
    return m > 0 and abs(rest) <= AT_LIMIT * u.scale


@outlined
def held_sums(u, held, m, z, sums):
    """Write the sum of every group."""
    fill(sums, 0.0)
    for a in range(m):
        sums[u.leaf[held[a]]] += z[a]
    for g in range(len(sums) - 1):
        sums[u.parent[g]] += sums[g]


@implements(make_feasible, GroupedLine)
def _make_feasible_groups(u, h, held, m, z):
    """Bring every group within its limits, innermost first, by moving its members as far as inner groups allow."""
    clip_to_bounds(h, held, m, z)
    sums, root, slack = reals(len(u.least)), len(u.least) - 1, AT_LIMIT * u.scale
    held_sums(u, held, m, z, sums)
    for group in range(root + 1):
        least, most = (u.total, u.total) if group == root else (u.least[group], u.most[group])
        for _ in range(2):
            for a in range(m):
                missing = smaller(larger(sums[group], least), most) - sums[group]
                if missing == 0.0:
                    break
                i = held[a]
                low, high = larger(h.lo[i], h.floor[i]) - z[a], h.hi[i] - z[a]
                g = u.leaf[i]
                while g >= 0 and g != group:
                    low, high = larger(low, u.least[g] - sums[g]), smaller(high, u.most[g] - sums[g])
                    g = u.parent[g]
                if g < 0:  # not a member of the group
                    continue
                moved = smaller(larger(missing, smaller(low, 0.0)), larger(high, 0.0))
                z[a] += moved
                g = u.leaf[i]
                while g >= 0:
                    sums[g] += moved
                    g = u.parent[g]
        if sums[group] < least - slack or sums[group] > most + slack:
            return False
    return m > 0


@implements(wanted_transfer, Line)
def _wanted_transfer_line(u, held, m, z, lo, hi, right, left):
    rise, fall, least, most = -1, -1, np.inf, -np.inf
    for a in range(m):
        if z[a] < hi[a] and right[a] < least:
            rise, least = a, right[a]
        if z[a] > lo[a] and left[a] > most:
            fall, most = a, left[a]
    return rise, fall, larger(most - least, 0.0) if rise >= 0 and fall >= 0 else 0.0


@outlined
def _is_open(u, sums, slack, i, j):
    """Whether the groups let i take from j."""
    a, b = u.leaf[i], u.leaf[j]
    while a != b:
        if u.depth[a] >= u.depth[b]:
            if sums[a] >= u.most[a] - slack:
                return False
            a = u.parent[a]
        else:
            if sums[b] <= u.least[b] + slack:
                return False
            b = u.parent[b]
    return True


@implements(keeps_limits, GroupedLine)
def _keeps_limits(u, held, m, z):
    sums, slack = reals(len(u.least)), AT_LIMIT * u.scale
    held_sums(u, held, m, z, sums)
    for g in range(len(sums) - 1):
        if sums[g] < u.least[g] - slack or sums[g] > u.most[g] + slack:
            return False
    return True


@implements(wanted_transfer, GroupedLine)
def _wanted_transfer_groups(u, held, m, z, lo, hi, right, left):
    sums = reals(len(u.least))
    held_sums(u, held, m, z, sums)
    return _open_transfer(u, sums, held, m, z, lo, hi, right, left)


@outlined
def _open_transfer(u, sums, held, m, z, lo, hi, right, left):
    rise, fall, worst, slack = -1, -1, 0.0, AT_LIMIT * u.scale
    for a in range(m):
        if z[a] >= hi[a]:
            continue
        for c in range(m):
            if c == a or z[c] <= lo[c] or left[c] - right[a] <= worst:
                continue
            if _is_open(u, sums, slack, held[a], held[c]):
                rise, fall, worst = a, c, left[c] - right[a]
    return rise, fall, worst


@implements(solve_box, Line)
def _solve_box_line(u, held, H, b, lo, hi, z):
    return solve_box_sum(H, b, lo, hi, z)


@allocating
def invert_definite(P):
    """Return P⁻¹ of a positive definite P by Cholesky, P = LLᵀ, without the threads that LAPACK would start."""
    m = len(P)
    L, out = table(m, m), table(m, m)
    for a in range(m):
        for c in range(a + 1):
            total = less_dot(P[a, c], L[a, :c], L[c])
            L[a, c] = np.sqrt(larger(total, 1e-300)) if a == c else total / L[c, c]
    # U = L⁻¹, row by row, each a combination of previous rows; then P⁻¹ = UᵀU.
    U = table(m, m)
    for a in range(m):
        scale = 1.0 / L[a, a]
        U[a, a] = scale
        for e in range(a):
            axpy(-L[a, e] * scale, U[e, : e + 1], U[a])
    for a in range(m):
        for c in range(a + 1):
            axpy(U[a, c], U[a, : a + 1], out[c])
    return out


@allocating
def _cell_step(H, gradient, free, m, cell, cells, step):
    """Write the Newton step of the m free coordinates that keeps the sum of every cell; return whether H bends down.

    One member of each cell balances the others, as in :mod:`counterpoise.kernels.programs`: the reduced matrix is
    definite if H is singular only along other directions. A pivot below a fraction of the ridge is rounding error; one
    below minus the ridge is not, and becomes positive, so that the step is still one of descent.
    """
    L, balance, down = table(m, m), integers(cells), False
    fill(balance, -1)
    for a in range(m):
        r = balance[cell[a]]
        if r < 0 or H[free[a], free[a]] < H[free[r], free[r]]:
            balance[cell[a]] = a
    for a in range(m):
        step[a] = 0.0
        i, p = free[a], free[balance[cell[a]]]
        if i == p:
            continue
        for c in range(a + 1):
            j, q = free[c], free[balance[cell[c]]]
            if j == q:
                continue
            total, floor = (H[i, j] - H[i, q]) - (H[p, j] - H[p, q]), 0.0
            if a == c:
                floor = RIDGE * (abs(H[i, i]) + abs(H[p, p])) + 1e-100
                total += floor
            for e in range(c):
                total -= L[a, e] * L[c, e]
            if a == c and total < -floor:
                down, total = True, larger(-total, abs(H[i, i]) + abs(H[p, p]))
            L[a, c] = np.sqrt(larger(total, 1e-3 * floor)) if a == c else total / L[c, c]
        total = gradient[p] - gradient[i]
        for e in range(a):
            total -= L[a, e] * step[e]
        step[a] = total / L[a, a]
    for a in range(m - 1, -1, -1):
        if balance[cell[a]] != a:
            total = step[a]
            for e in range(a + 1, m):
                total -= L[e, a] * step[e]
            step[a] = total / L[a, a]
    for a in range(m):
        if balance[cell[a]] != a:
            step[balance[cell[a]]] -= step[a]
    return down


@implements(solve_box, GroupedLine)
def _solve_box_groups(u, held, H, b, lo, hi, z):
    """Solve by a primal active set like :func:`counterpoise.kernels.programs.solve_box_sum`, with groups at limits.

    Free coordinates with the same innermost group at a limit form a cell, whose sum is kept. If H bends down, steps
    end at the first bound or limit.
    """
    k, nodes, slack = len(b), len(u.least), AT_LIMIT * u.scale
    at, active = integers(k), flags(nodes, False)
    sums, shift, number = reals(nodes), reals(nodes), integers(nodes)
    free, cell = integers(k), integers(k)
    gradient, step = reals(k), reals(k)
    held_sums(u, held, k, z, sums)
    for a in range(k):
        at[a] = -1 if z[a] <= lo[a] else (1 if z[a] >= hi[a] else 0)
    for g in range(nodes):
        active[g] = g == nodes - 1 or sums[g] <= u.least[g] + slack or sums[g] >= u.most[g] - slack
    whole_steps, worst = 0, np.inf
    for _ in range(40 * k + 40):
        m, size = 0, 0.0
        for a in range(k):
            gradient[a] = plus_dot(b[a], H[a], z)
            size = larger(larger(size, abs(gradient[a])), abs(b[a]))
            if at[a] == 0:
                free[m] = a
                m += 1
        held_sums(u, held, k, z, sums)
        rise, fall, worst = _open_transfer(u, sums, held, k, z, lo, hi, gradient, gradient)
        if rise < 0 or worst <= FLAT_SLOPE * size:
            return worst
        if whole_steps >= 2 or m < 2:
            # Whole steps solve the face up to rounding; now the best transfer leaves the face, or we are done.
            leaves = at[rise] != 0 or at[fall] != 0
            at[rise], at[fall], whole_steps = 0, 0, 0
            g, c = u.leaf[held[rise]], u.leaf[held[fall]]
            while g != c:
                if u.depth[g] >= u.depth[c]:
                    leaves, active[g], g = leaves or active[g], False, u.parent[g]
                else:
                    leaves, active[c], c = leaves or active[c], False, u.parent[c]
            if not leaves:
                return worst
            continue
        cells = 0
        fill(number, -1)
        fill(shift, 0.0)
        for a in range(m):
            g = u.leaf[held[free[a]]]
            while not active[g]:
                g = u.parent[g]
            if number[g] < 0:
                number[g] = cells
                cells += 1
            cell[a] = number[g]
        length, blocking, limit = 1.0, -1, -1
        if _cell_step(H, gradient, free, m, cell, cells, step):
            length = longest(H, free, m, step)
        for a in range(m):
            i = free[a]
            room = (hi[i] - z[i]) if step[a] > 0.0 else (lo[i] - z[i])
            if step[a] != 0.0 and room / step[a] < length:
                length, blocking = larger(room / step[a], 0.0), a
            shift[u.leaf[held[i]]] += step[a]
        for g in range(nodes - 1):
            shift[u.parent[g]] += shift[g]
        for g in range(nodes - 1):
            if active[g] or shift[g] == 0.0:
                continue
            room = (u.most[g] - sums[g]) if shift[g] > 0.0 else (u.least[g] - sums[g])
            if room / shift[g] < length:
                length, blocking, limit = larger(room / shift[g], 0.0), -1, g
        length = length if length < np.inf else 1.0
        for a in range(m):
            z[free[a]] += length * step[a]
        whole_steps += 1
        if blocking >= 0:
            i = free[blocking]
            at[i] = 1 if step[blocking] > 0.0 else -1
            z[i] = hi[i] if at[i] == 1 else lo[i]
            whole_steps = 0
        elif limit >= 0:
            active[limit], whole_steps = True, 0
    return worst


@outlined
def _tightest(h, held, m, z, right, left, member):
    """Return the slope shared by the held coordinates for which ``member`` is true."""
    below, above = -np.inf, np.inf
    for a in range(m):
        i = held[a]
        if member[a]:
            above = smaller(above, right[a] if z[a] < h.hi[i] else np.inf)
            if z[a] > larger(h.lo[i], h.floor[i]):
                below = larger(below, left[a])
    return below if below > -np.inf else above


@implements(share_slopes, Line)
def _share_slopes_line(u, h, held, m, z, right, left, shared):
    fill(shared, _tightest(h, held, m, z, right, left, flags(m, True)))


@implements(share_slopes, GroupedLine)
def _share_slopes_groups(u, h, held, m, z, right, left, shared):
    """Use the cells of :func:`solve_box`; a cell without members takes the slope of the enclosing cell."""
    nodes, slack = len(u.least), AT_LIMIT * u.scale
    sums, value, member = reals(nodes), reals(nodes), flags(m, False)
    cell_of = integers(nodes)
    held_sums(u, held, m, z, sums)
    for g in range(nodes - 1, -1, -1):
        active = g == nodes - 1 or sums[g] <= u.least[g] + slack or sums[g] >= u.most[g] - slack
        cell_of[g] = g if active else cell_of[u.parent[g]]
    for g in range(nodes - 1, -1, -1):
        if cell_of[g] != g:
            continue
        for a in range(m):
            member[a] = cell_of[u.leaf[held[a]]] == g
        value[g] = _tightest(h, held, m, z, right, left, member)
        if value[g] == np.inf:
            value[g] = value[cell_of[u.parent[g]]] if g < nodes - 1 else 0.0
    for k in range(len(shared)):
        shared[k] = value[cell_of[u.leaf[k]]]

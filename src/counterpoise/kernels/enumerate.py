"""Proofs by enumeration of all supports or all sign vectors, most of them by a closed form or a bound.

On the line the supports are i₁ < i₂ < … < i_s. Sweeping a coordinate j out of (value, ρ, C) costs O(n²):
value − ρⱼ²/(2C_jj), ρᵢ − ρⱼC_ij/C_jj, C_ik − C_ij C_jk/C_jj. The last coordinate is never swept: its value
is read off, so that a support costs O(1). This ignores bounds and replaces h with knots by its tangent at 0, which can
only lower the value: a support whose value is not below that of the best known point is skipped, any other is solved.
"""

import numpy as np

from counterpoise.kernels.basics import assign, fill, find, integers, larger, plus_dot, reals, smaller, table
from counterpoise.kernels.dispatch import allocating, entry_point
from counterpoise.kernels.groups import make_feasible
from counterpoise.kernels.swap_line import solve_on, unload, value_on

# A diagonal below this fraction of its first value is rounding error: the support is solved instead of read off.
FLAT = 1e-9


@allocating
def _verify(problem, chosen, s, value, x):
    """Solve on a support; if it beats ``value`` write its point to x, and return the better of the two values.

    A support that lacks a coordinate with a positive lower bound has no feasible point.
    """
    missing = 0
    for i in range(len(x)):
        missing += problem.h.lo[i] > 0.0
    for a in range(s):
        missing -= problem.h.lo[chosen[a]] > 0.0
    if missing > 0:
        return value
    z = np.full(s, problem.u.total / s)
    if not make_feasible(problem.u, problem.h, chosen, s, z):
        return value
    solve_on(problem, chosen, s, z)
    found = value_on(problem, chosen, s, z)
    if found >= value:
        return value
    unload(chosen, s, z, x)
    return found


@entry_point
def supports_from(problem, Q, b, first, s, value, margin, x):
    """Examine all supports of s coordinates whose first is ``first``; write the best point to x if one is better.

    ½xᵀQx + bᵀx is at most f + h for x ≥ 0, and ``value`` is f + h at the best known point, both relative to x = 0. A
    support is skipped unless its bound is below ``value`` by more than ``margin``. Return the best value, and the
    number of supports that had to be solved.
    """
    c, n, solved, chosen = problem.u.total, len(b), 0, integers(s)
    chosen[0] = first
    if s == 1:
        return _verify(problem, chosen, 1, value, x), 1
    levels = larger(1, s - 2)
    values, rho, C, flat = reals(levels + 1), table(levels, n), np.empty((levels, n, n)), reals(n)
    values[0] = 0.5 * c * c * Q[first, first] + c * b[first]
    mean = c * Q[first, first] + b[first]
    for i in range(first + 1, n):
        rho[0, i] = c * Q[i, first] + b[i] - mean
        for k in range(first + 1, n):
            C[0, i, k] = Q[i, k] - Q[i, first] - Q[k, first] + Q[first, first]
        flat[i] = FLAT * (Q[i, i] + Q[first, first])
    if s == 2:
        for i in range(first + 1, n):
            bend = C[0, i, i]
            if bend <= flat[i] or values[0] - 0.5 * rho[0, i] * rho[0, i] / bend < value - margin:
                chosen[1] = i
                value = _verify(problem, chosen, 2, value, x)
                solved += 1
        return value, solved
    # depth is the place in ``chosen`` being filled; level depth − 1 holds the state after the coordinates before it.
    depth, chosen[1] = 1, first
    while depth >= 1:
        chosen[depth] += 1
        j, level = chosen[depth], depth - 1
        if j > n - (s - depth):
            depth -= 1
            continue
        bend, slope = C[level, j, j], rho[level, j]
        degenerate = bend <= flat[j]
        if depth < s - 2:
            # Sweep j. A degenerate j is not swept; −∞ ensures that its supports, whose values are wrong, are solved.
            values[depth] = -np.inf if degenerate else values[level] - 0.5 * slope * slope / bend
            for i in range(j + 1, n):
                ratio = 0.0 if degenerate else C[level, i, j] / bend
                rho[depth, i] = rho[level, i] - slope * ratio
                for k in range(j + 1, n):
                    C[depth, i, k] = C[level, i, k] - ratio * C[level, j, k]
            depth += 1
            chosen[depth] = j
            continue
        base = -np.inf if degenerate else values[level] - 0.5 * slope * slope / bend
        goal = value - margin
        for i in range(j + 1, n):
            ratio = 0.0 if degenerate else C[level, i, j] / bend
            tilt = rho[level, i] - slope * ratio
            rest = C[level, i, i] - ratio * C[level, i, j]
            if rest <= flat[i] or base - 0.5 * tilt * tilt / rest < goal:
                chosen[s - 1] = i
                value = _verify(problem, chosen, s, value, x)
                goal = value - margin
                solved += 1
    return value, solved


@entry_point
def components_from(G, first, s, value, signed, x):
    """Examine all supports of at most s coordinates whose first is ``first``, for max xᵀGx over ‖x‖ = 1.

    If x ≥ 0, the maximiser on a support is its leading eigenvector if that has one sign; otherwise it lies on a smaller
    support. With signs it is the leading eigenvector, and supports of s coordinates suffice, because λ_max grows with
    the support. With G⁺ = max(G, 0), or |G| with signs, λ_max of a support and of its extensions is at most the largest
    sum over a row of G⁺, on the support and the largest later entries; if that is ≤ ``value``, all are skipped.

    Return the largest xᵀGx found, or the ``value`` given, and the number of supports that were solved.
    """
    n, solved = len(G), 0
    chosen, sums = integers(s), table(s + 1, n)
    for i in range(n):
        sums[1, i] = abs(G[i, first]) if signed else larger(G[i, first], 0.0)
    chosen[0] = first
    if G[first, first] > value:
        value = G[first, first]
        fill(x, 0.0)
        x[first] = 1.0
    if s == 1 or (signed and first + s > n):
        return value, 1
    depth = 1
    chosen[1] = first
    largest = reals(s)
    while depth >= 1:
        chosen[depth] += 1
        j = chosen[depth]
        if j >= n or (signed and j > n - (s - depth)):
            depth -= 1
            continue
        for i in range(n):
            sums[depth + 1, i] = sums[depth, i] + (abs(G[i, j]) if signed else larger(G[i, j], 0.0))
        # The bound for this support and all that extend it by later coordinates.
        left = s - depth - 1
        bound = 0.0
        for i in range(n):
            if i <= j and find(i, chosen, depth + 1) < 0:
                continue
            total = sums[depth + 1, i]
            fill(largest, 0.0)
            for k in range(j + 1, n):
                weight = abs(G[i, k]) if signed else G[i, k]
                a = left - 1
                if left > 0 and weight > largest[a]:
                    while a > 0 and largest[a - 1] < weight:
                        largest[a] = largest[a - 1]
                        a -= 1
                    largest[a] = weight
            for a in range(left):
                total += largest[a]
            bound = larger(bound, total)
        if bound <= value:
            continue
        size = depth + 1
        if signed and size < s:
            depth += 1
            chosen[depth] = j
            continue
        H = table(size, size)
        for a in range(size):
            for e in range(size):
                H[a, e] = G[chosen[a], chosen[e]]
        solved += 1
        eigenvalues, vectors = np.linalg.eigh(H)
        top = eigenvalues[size - 1]
        if top > value:
            least, most = 0.0, 0.0
            for a in range(size):
                least, most = smaller(least, vectors[a, size - 1]), larger(most, vectors[a, size - 1])
            if signed or least >= 0.0 or most <= 0.0:
                value = top
                fill(x, 0.0)
                for a in range(size):
                    x[chosen[a]] = vectors[a, size - 1] if signed else abs(vectors[a, size - 1])
        if size < s:
            depth += 1
            chosen[depth] = j
    return value, solved


@entry_point
def signs_from(Q, b, base, reach, ups, first, value, x):
    """Examine all points with ``ups`` ≥ 1 coordinates raised by ``reach`` from ``base``, the first of them ``first``.

    ``value`` is ½xᵀQx + bᵀx at the best known point. Return the best value, and the number of points.
    """
    n = len(b)
    chosen, slopes, values = integers(ups), table(ups + 1, n), reals(ups + 1)
    for i in range(n):
        slope = plus_dot(0.0, Q[i], base)
        slopes[0, i] = slope + b[i]
        values[0] += base[i] * (b[i] + 0.5 * slope)
    chosen[0] = first - 1
    depth, looked = 0, 0
    while depth >= 0:
        chosen[depth] += 1
        j = chosen[depth]
        if j > n - (ups - depth) or (depth == 0 and j > first):
            depth -= 1
            continue
        if depth == ups - 1:
            last = first + 1 if ups == 1 else n
            for i in range(j, last):
                looked += 1
                found = values[depth] + reach * (slopes[depth, i] + 0.5 * reach * Q[i, i])
                if found < value:
                    value = found
                    assign(base, x)
                    for a in range(depth):
                        x[chosen[a]] += reach
                    x[i] += reach
            depth -= 1
            continue
        values[depth + 1] = values[depth] + reach * (slopes[depth, j] + 0.5 * reach * Q[j, j])
        for i in range(j + 1, n):
            slopes[depth + 1, i] = slopes[depth, i] + reach * Q[i, j]
        depth += 1
        chosen[depth] = j
    return value, looked

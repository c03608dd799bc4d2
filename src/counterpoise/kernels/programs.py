"""Quadratic programs in few coordinates: over a box and a sum (convex), and over the part x ≥ 0 of a sphere."""

import numpy as np

from counterpoise.kernels.basics import fill, integers, larger, plus_dot, reals, smaller, table
from counterpoise.kernels.dispatch import allocating, apart, kernel, outlined

# The ridge of a convex program, for duplicate columns.
RIDGE = 1e-10
# Most rounds of power steps, which find the zeros of a solution; limits of the damping of Newton steps on the sphere,
# and the factor by which it changes.
POWER_ROUNDS, LEAST_DAMPING, MOST_DAMPING, DAMPING = 100, 1.0 / 512.0, 1e15, 8.0


@outlined
def _free_step(H, shift, weight, gradient, free, m, ridge, forced, factor, step):
    """Write to ``step`` the minimiser of the model over the m ≥ 2 free coordinates, with Σ weight·step = 0.

    The first free coordinate r balances the others: step_r = −Σ cₐ stepₐ, cₐ = weightₐ/weight_r. The reduced matrix of
    H − shift·I is factored by Cholesky with a ridge relative to its diagonal; the next step corrects the effect of the
    ridge. A pivot that is not positive is raised if the step is ``forced``: it is rounding error, or H bends down, and
    the step is still one of descent. Otherwise there is no minimiser. Return whether the model has one.
    """
    r, convex = free[0], True
    for a in range(1, m):
        i = free[a]
        share = weight[i] / weight[r]
        factor[a, 0] = share  # this column is not used by the factor
        for c in range(1, a + 1):
            j, other = free[c], factor[c, 0]
            total = H[i, j] - other * H[i, r] - share * H[r, j] + share * other * (H[r, r] - shift)
            floor, size = 0.0, 0.0
            if a == c:
                total -= shift
                size = abs(H[i, i]) + share * share * abs(H[r, r]) + (1.0 + share * share) * abs(shift)
                floor = ridge * size + 1e-300
                total += floor
            for e in range(1, c):
                total -= factor[a, e] * factor[c, e]
            if a == c and not forced and total <= 1e-3 * floor:
                return False
            if a == c and total < -floor:
                convex, total = False, larger(-total, size)
            # A pivot below a fraction of the ridge is rounding error; the floor keeps the step from growing too large.
            factor[a, c] = np.sqrt(larger(total, 1e-3 * floor)) if a == c else total / factor[c, c]
        total = share * gradient[r] - gradient[i]
        for e in range(1, a):
            total -= factor[a, e] * step[e]
        step[a] = total / factor[a, a]
    step[0] = 0.0
    for a in range(m - 1, 0, -1):
        total = step[a]
        for e in range(a + 1, m):
            total -= factor[e, a] * step[e]
        step[a] = total / factor[a, a]
        step[0] -= factor[a, 0] * step[a]
    return convex


@outlined
def solve_box_sum(H, b, lo, hi, z):
    """Minimise ½zᵀHz + bᵀz over {lo ≤ z ≤ hi, 1ᵀz unchanged} from a feasible z, in place, by a primal active set.

    Each round solves the problem on the free coordinates and stops at the first bound in the way. If there is none, it
    frees the coordinates whose slopes most violate optimality. If H is not positive semidefinite, z only descends, and
    steps along which H bends down end at the first bound. The rounding error of the sum is corrected at the end.

    Return by how much the slope of a coordinate that can fall exceeds that of one that can rise: 0 at the solution;
    times the mass that can move, it bounds the remaining gain. z may be longer than b; its rest is not used.
    """
    k, target = len(b), 0.0
    for a in range(k):
        target += z[a]
    violation = _walk_box_sum(H, b, lo, hi, z)
    # A coordinate on a bound stays there: the bound may be a kink, beyond which the slope differs.
    roomiest, room = -1, 0.0
    for a in range(k):
        target -= z[a]
        if smaller(z[a] - lo[a], hi[a] - z[a]) > room:
            roomiest, room = a, smaller(z[a] - lo[a], hi[a] - z[a])
    if abs(target) < room:
        z[roomiest] += target
    return violation


@outlined
def longest(H, free, m, step):
    """Return the length beyond which a step of descent may rise again: ∞ if H bends down along it, otherwise 1."""
    bend = 0.0
    for a in range(m):
        for c in range(m):
            bend += step[a] * H[free[a], free[c]] * step[c]
    return np.inf if bend <= 0.0 else 1.0


@apart
@allocating
def _walk_box_sum(H, b, lo, hi, z):
    """Make the rounds of :func:`solve_box_sum`."""
    k = len(b)
    at = integers(k)  # −1 on lo, 1 on hi, 0 free
    for a in range(k):
        at[a] = -1 if z[a] <= lo[a] else (1 if z[a] >= hi[a] else 0)
    free, factor = integers(k), table(k, k)
    step, gradient, ones = reals(k), reals(k), reals(k)
    fill(ones, 1.0)
    whole_steps, violation = 0, np.inf
    for _ in range(20 * k + 20):
        m, least = 0, 0
        for a in range(k):
            gradient[a] = plus_dot(b[a], H[a], z)
            if at[a] == 0:
                free[m] = a
                least = m if H[a, a] < H[free[least], free[least]] else least
                m += 1
        # A large entry of the coordinate that balances the others would hide their own.
        free[0], free[least] = free[least], free[0]
        # Free coordinates and those on lo can rise, free coordinates and those on hi can fall.
        rise, fall = -1, -1
        for a in range(k):
            if at[a] <= 0 and z[a] < hi[a] and (rise < 0 or gradient[a] < gradient[rise]):
                rise = a
            if at[a] >= 0 and z[a] > lo[a] and (fall < 0 or gradient[a] > gradient[fall]):
                fall = a
        violation = larger(gradient[fall] - gradient[rise], 0.0) if rise >= 0 and fall >= 0 else 0.0
        if violation == 0.0:
            return violation
        size = abs(b[rise]) + abs(b[fall])
        for c in range(k):
            size += (abs(H[rise, c]) + abs(H[fall, c])) * abs(z[c])
        if violation <= 1e-14 * size:
            return violation
        # Two whole steps solve for the free coordinates up to rounding; then coordinates on bounds are freed.
        if whole_steps >= 2 or m < 2:
            if at[rise] == 0 and at[fall] == 0:
                return violation
            at[rise], at[fall], whole_steps = 0, 0, 0
            continue
        length, blocking = 1.0, -1
        if not _free_step(H, 0.0, ones, gradient, free, m, RIDGE, True, factor, step):
            length = longest(H, free, m, step)
        for a in range(m):
            i = free[a]
            room = (hi[i] - z[i]) if step[a] > 0.0 else (lo[i] - z[i])
            if step[a] != 0.0 and room / step[a] < length:
                length, blocking = larger(room / step[a], 0.0), a
        length = length if length < np.inf else 1.0
        for a in range(m):
            z[free[a]] += length * step[a]
        whole_steps += 1
        if blocking >= 0:
            i = free[blocking]
            at[i] = 1 if step[blocking] > 0.0 else -1
            z[i] = hi[i] if at[i] == 1 else lo[i]
            whole_steps = 0
    return violation


@allocating
def solve_on_sphere(H, b, z):
    """Minimise ½zᵀHz + bᵀz over {z ≥ 0, ‖z‖ unchanged} to a local minimum, in place.

    Power steps soon find which coordinates are zero, but converge very slowly if the eigenvalues of H differ by much;
    Newton steps on the sphere do the rest. Neither raises the objective except by rounding.
    """
    power_steps(H, b, reals(len(z)), False, z)
    newton_steps(H, b, z)


@allocating
def power_steps(H, b, even, signed, z):
    """Lower ½zᵀHz + bᵀz + Σ evenₐ|zₐ| over {‖z‖ unchanged}, with z ≥ 0 unless ``signed``, by majorisation, in place.

    On the sphere H may be shifted by −ρI. With ρ at least its largest eigenvalue (Gershgorin) the quadratic is concave
    and lies below its tangent, of slope q = (H − ρI)z + b. qᵀz + Σ evenₐ|zₐ| is least at a multiple of the positive
    part of −q − even; with signs, of |q| − even, with the signs of −q.
    """
    k, rho, norm = len(z), 0.0, np.sqrt(plus_dot(0.0, z, z))
    for a in range(k):
        radius = H[a, a]
        for c in range(k):
            if c != a:
                radius += abs(H[a, c])
        rho = larger(rho, radius)
    if norm == 0.0:
        return
    size, tangent = reals(k), reals(k)
    for _ in range(POWER_ROUNDS):
        length, most = 0.0, 0
        for a in range(k):
            tangent[a] = plus_dot(b[a] - rho * z[a], H[a], z)
        for a in range(k):
            size[a] = (abs(tangent[a]) if signed else -tangent[a]) - even[a]
            length += larger(size[a], 0.0) ** 2
            if size[a] > size[most]:
                most = a
        scale, change = norm / np.sqrt(length) if length > 0.0 else 0.0, 0.0
        for a in range(k):
            value = scale * larger(size[a], 0.0)
            if length == 0.0 and a == most:
                value = norm
            if signed and tangent[a] > 0.0 and value > 0.0:
                value = -value
            change = larger(change, abs(value - z[a]))
            z[a] = value
        if change <= 1e-15 * norm:
            return


@kernel
def _slopes_on_sphere(H, b, z, square, slopes):
    """Write the slopes along the sphere, Hz + b − νz with ν = zᵀ(Hz + b)/‖z‖²; return ν and the size of the terms."""
    k, along, size = len(z), 0.0, 0.0
    for a in range(k):
        slopes[a], sizes = plus_dot(b[a], H[a], z), abs(b[a])
        for c in range(k):
            sizes += abs(H[a, c]) * z[c]
        along += slopes[a] * z[a]
        size += sizes * z[a]
    nu = along / square
    for a in range(k):
        slopes[a] -= nu * z[a]
    return nu, size


@kernel
def _entering(H, b, z, slopes):
    """Return the zero coordinate with the least slope, or −1 if no slope is negative beyond rounding."""
    found, least = -1, 0.0
    for a in range(len(z)):
        if z[a] <= 0.0 and slopes[a] < least:
            size = abs(b[a])
            for c in range(len(z)):
                size += abs(H[a, c]) * z[c]
            if slopes[a] < -1e-14 * size:
                found, least = a, slopes[a]
    return found


@kernel
def _turn(H, z, nu, slopes, square, free, m, step, new):
    """Write z + t·step, scaled back to the sphere, to ``new``, with the largest t ≤ 1 that keeps it ≥ 0.

    Return t, and the decrease of the objective.
    """
    length, blocking, total = 1.0, -1, 0.0
    for a in range(m):
        i = free[a]
        if step[a] < 0.0 and z[i] < -length * step[a]:
            length, blocking = -z[i] / step[a], a
    for a in range(m):
        i = free[a]
        new[i] = z[i] + length * step[a] if a != blocking else 0.0
        total += new[i] * new[i]
    scale, decrease = np.sqrt(square / total), 0.0
    for a in range(m):
        new[free[a]] *= scale
    # With ‖new‖ = ‖z‖ the change is gᵀd + ½dᵀ(H − νI)d, which avoids cancellation of radial parts.
    for a in range(m):
        i = free[a]
        bend = -nu * (new[i] - z[i])
        for c in range(m):
            bend += H[i, free[c]] * (new[free[c]] - z[free[c]])
        decrease -= (new[i] - z[i]) * (slopes[i] + 0.5 * bend)
    return length, decrease


@allocating
def newton_steps(H, b, z):
    """Minimise ½zᵀHz + bᵀz over {z ≥ 0, ‖z‖ unchanged} from z by Newton steps on the sphere, in place.

    A step minimises gᵀd + ½dᵀ(H − νI)d, g = Hz + b − νz, along the tangent zᵀd = 0 over the positive coordinates. If
    that matrix is not definite or the objective decreases too little, the step is damped: ν > 0 is lowered to 0, which
    makes it a step of inverse iteration, and then a ridge grows. A step ends where the first coordinate becomes 0. When
    nothing is left to gain, the zero coordinate with the least slope joins.
    """
    k, square = len(z), plus_dot(0.0, z, z)
    if square == 0.0:
        return
    free, factor = integers(k), table(k, k)
    step, slopes, new = reals(k), reals(k), reals(k)
    nu, size = _slopes_on_sphere(H, b, z, square, slopes)
    joins, damping = -1, 0.0
    for _ in range(40 * k):
        m, largest = 0, 0
        for a in range(k):
            if z[a] > 0.0 or a == joins:
                free[m] = a
                if z[a] > z[free[largest]]:
                    largest = m
                m += 1
        free[0], free[largest] = free[largest], free[0]
        promise, length, decrease, good = 0.0, 0.0, 0.0, False
        if m > 1:
            shift, ridge = nu * larger(1.0 - damping, 0.0), 0.0
            if nu <= 0.0 or damping > 1.0:
                shift, ridge = smaller(nu, 0.0), 1e-2 * damping
            if _free_step(H, shift, z, slopes, free, m, ridge, False, factor, step):
                for a in range(m):
                    promise -= 0.5 * slopes[free[a]] * step[a]
                length, decrease = _turn(H, z, nu, slopes, square, free, m, step, new)
                good = decrease > 0.1 * length * (2.0 - length) * promise
            elif damping < MOST_DAMPING:
                damping = larger(DAMPING * damping, LEAST_DAMPING)
                continue
        if promise <= 1e-16 * size or length == 0.0:
            joins = _entering(H, b, z, slopes) if joins < 0 else -1
            if joins < 0:
                return
            damping = 0.0
        elif good:
            for a in range(m):
                z[free[a]] = new[free[a]]
            nu, size = _slopes_on_sphere(H, b, z, square, slopes)
            joins, damping = -1, damping / DAMPING if damping > LEAST_DAMPING else 0.0
        else:
            damping = larger(DAMPING * damping, LEAST_DAMPING)

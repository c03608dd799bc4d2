"""Convex programs with kinks in some coordinates on the line, and the part of u that belongs to these coordinates."""

import numpy as np

from counterpoise.kernels.basics import assign, fill, flags, larger, plus_dot, reals, smaller, table
from counterpoise.kernels.dispatch import allocating, allocating_verb, implements
from counterpoise.kernels.groups import held_sums, solve_box, wanted_transfer
from counterpoise.kernels.line import GroupedLine, Line
from counterpoise.kernels.separable import bend_right, slope_left, slope_right


@allocating
def solve_pieces(u, h, held, H, b, lo, hi, z):
    """Minimise ½zᵀHz + bᵀz + Σhᵢ(zᵢ) over the box and u from a feasible z of the held coordinates, in place.

    Without knots, h must be part of H and b. Between knots h is quadratic: the box of the current pieces is solved,
    then the pair that gains most by crossing a knot does so, until none gains. Return the rate at which the best
    transfer would lower F, which is nearly 0 at the solution. z may be longer than b; its rest is not used.
    """
    m, rows = len(b), len(h.centre)
    if rows == 0:
        return solve_box(u, held, H, b, lo, hi, z)
    to_right = flags(m, True)
    piece_lo, piece_hi, tilt = reals(m), reals(m), reals(m)
    right, left, bent = reals(m), reals(m), table(m, m)
    for a in range(m):
        assign(H[a], bent[a])
    violation = np.inf
    for _ in range(4 * m * (rows + 1) + 20):
        for a in range(m):
            i = held[a]
            piece_lo[a], piece_hi[a] = lo[a], hi[a]
            for k in range(rows):
                knot = h.centre[k, i]
                if knot < z[a] or (knot == z[a] and to_right[a]):
                    piece_lo[a] = larger(piece_lo[a], knot)
                else:
                    piece_hi[a] = smaller(piece_hi[a], knot)
            bend = bend_right(h, i, piece_lo[a])
            bent[a, a] = H[a, a] + bend
            slope = slope_right(h, i, z[a]) if to_right[a] else slope_left(h, i, z[a])
            tilt[a] = b[a] - bend * z[a] + slope
        solve_box(u, held, bent, tilt, piece_lo, piece_hi, z)
        size = 0.0
        for a in range(m):
            i, gradient = held[a], plus_dot(b[a], H[a], z)
            right[a], left[a] = gradient + slope_right(h, i, z[a]), gradient + slope_left(h, i, z[a])
            size = larger(larger(size, abs(right[a])), abs(left[a]))
        rise, fall, violation = wanted_transfer(u, held, m, z, lo, hi, right, left)
        if violation <= 1e-12 * size:
            return violation
        fill(to_right, True)
        to_right[rise], to_right[fall] = True, False
    return violation


@allocating_verb
def part_of(u, held, z):
    """Return the constraint on the held coordinates, whose values are z, while all others keep theirs."""
    return u


@implements(part_of, Line)
def _part_of_line(u, held, z):
    return Line(np.sum(z), u.scale)


@implements(part_of, GroupedLine)
def _part_of_groups(u, held, z):
    inside, least, most = reals(len(u.sums)), reals(len(u.sums)), reals(len(u.sums))
    held_sums(u, held, len(z), z, inside)
    for g in range(len(inside)):
        least[g], most[g] = u.least[g] - (u.sums[g] - inside[g]), u.most[g] - (u.sums[g] - inside[g])
    return GroupedLine(np.sum(z), u.scale, u.leaf, u.parent, u.depth, least, most, inside)

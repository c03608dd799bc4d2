"""Stationary points on one support on the sphere, by power steps and then conjugate gradients along arcs."""

import numpy as np

from counterpoise.kernels.basics import axpy, larger
from counterpoise.kernels.dispatch import kernel, outlined

NONE = -1


@outlined
def _multiply(H, z, m, product):
    """Write Hz to ``product``; H is symmetric, and its rows are added up because that vectorises."""
    for a in range(m):
        product[a] = 0.0
    for a in range(m):
        if z[a] != 0.0:
            axpy(z[a], H[a, :m], product)


@outlined
def _power_phase(H, z, m, signed, product):
    """Take steps z ← max(Hz, 0)/‖max(Hz, 0)‖, which do not lower zᵀHz, until the set of zeros no longer changes.

    Each step may drop or return many coordinates at once; the remaining problem is smooth. With signs only one step
    z ← Hz/‖Hz‖ is taken. ``product`` ends as Hz.
    """
    least = -np.inf if signed else 0.0
    _multiply(H, z, m, product)
    for _ in range(m + 2):
        square = 0.0
        for a in range(m):
            square += larger(product[a], least) ** 2
        if not square > 0.0:
            return
        scale, settled = 1.0 / np.sqrt(square), True
        for a in range(m):
            value = scale * larger(product[a], least)
            if not signed and (value == 0.0) != (z[a] == 0.0):
                settled = False
            z[a] = value
        _multiply(H, z, m, product)
        if settled:
            return


@kernel
def _residual(z, product, m, signed, residual):
    """Scale z to length 1 and write r = Hz − ρz to ``residual``; return ρ = zᵀHz, ‖r‖² and rᵀ(r − previous r).

    Coordinates at zero that would become negative are not free: their residual is 0.
    """
    rho, length = 0.0, 0.0
    for a in range(m):
        rho += z[a] * product[a]
        length += z[a] * z[a]
    scale, rho = 1.0 / np.sqrt(length), rho / length
    square, change = 0.0, 0.0
    for a in range(m):
        z[a] *= scale
        product[a] *= scale
        value = product[a] - rho * z[a] if z[a] > 0.0 or product[a] > 0.0 or signed else 0.0
        change += value * (value - residual[a])
        square += value * value
        residual[a] = value
    return rho, square, change


@kernel
def _turn_direction(z, residual, beta, m, signed, direction):
    """Replace d by r + βd on the free coordinates, made orthogonal to z and scaled to length 1.

    Return dᵀr and the length before scaling; both are 0, and d is not usable, if d does not point uphill.
    """
    along = 0.0
    for a in range(m):
        free = z[a] > 0.0 or residual[a] > 0.0 or signed
        direction[a] = (residual[a] + beta * direction[a] if beta > 0.0 else residual[a]) if free else 0.0
        along += direction[a] * z[a]
    rise, square = 0.0, 0.0
    for a in range(m):
        direction[a] -= along * z[a]
        rise += direction[a] * residual[a]
        square += direction[a] * direction[a]
    if not rise > 0.0:
        return 0.0, 0.0
    length = np.sqrt(square)
    for a in range(m):
        direction[a] /= length
    return rise / length, length


@kernel
def _turn(z, product, direction, turned, rho, rise, m, signed):
    """Move to the best feasible point z cos t + d sin t, tan 2t = 2zᵀHd/(ρ − dᵀHd); return whether none blocked."""
    curvature = 0.0
    for a in range(m):
        curvature += direction[a] * turned[a]
    # d is orthogonal to z and 0 off the free coordinates, so zᵀHd = dᵀr.
    angle = 0.5 * np.arctan2(2.0 * rise, rho - curvature)
    cosine, sine = np.cos(angle), np.sin(angle)
    # The largest tan t with z cos t + d sin t ≥ 0, and the coordinate that blocks the turn.
    longest, blocking = np.inf, NONE
    for a in range(0 if signed else m):
        if direction[a] < 0.0 and z[a] < -direction[a] * longest:
            longest, blocking = z[a] / -direction[a], a
    blocked, least = blocking >= 0 and sine > longest * cosine, -np.inf if signed else 0.0
    if blocked:
        cosine = 1.0 / np.sqrt(1.0 + longest * longest)
        sine = longest * cosine
    for a in range(m):
        z[a] = larger(cosine * z[a] + sine * direction[a], least)
        product[a] = cosine * product[a] + sine * turned[a]
    if blocked:
        z[blocking] = 0.0
    return not blocked


@outlined
def polish_block(H, z, m, precision, signed, product, residual, direction, turned):
    """Climb to a stationary point of zᵀHz on {‖z‖ = 1, z ≥ 0 unless signed}, in place; return zᵀHz. Monotone for H ⪰ 0.

    Power steps settle which coordinates are zero. Conjugate gradients with the best angle on each arc do the rest:
    their rate depends on the square root of the gap between eigenvalues, that of power steps on the gap itself.
    """
    _power_phase(H, z, m, signed, product)
    rho, before, length, conjugate = 0.0, 0.0, 0.0, False
    for a in range(m):
        residual[a] = 0.0
    for _ in range(20 * m + 50):
        rho, square, change = _residual(z, product, m, signed, residual)
        if square <= precision * rho * rho:
            break
        # Polak and Ribière's β; ``length`` undoes the scaling of d.
        beta = larger(change / before, 0.0) * length if conjugate else 0.0
        rise, length = _turn_direction(z, residual, beta, m, signed, direction)
        before = square
        if rise > 0.0:
            _multiply(H, direction, m, turned)
            conjugate = _turn(z, product, direction, turned, rho, rise, m, signed)
        elif conjugate:
            conjugate = False
        else:
            break
    return rho

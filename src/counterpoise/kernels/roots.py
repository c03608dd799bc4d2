"""Minimisers of the trigonometric polynomial of the arc, through an exact quartic on [0, 1]."""

import numpy as np

from counterpoise.kernels.basics import larger, smaller
from counterpoise.kernels.dispatch import kernel, outlined


@kernel
def _quartic(q4, q3, q2, q1, q0, t):
    return (((q4 * t + q3) * t + q2) * t + q1) * t + q0


@outlined
def bracketed_root(q4, q3, q2, q1, q0, low, high):
    """Return the root of a polynomial in [low, high] whose signs at the ends differ.

    It uses Newton's method, and bisection if a Newton step leaves the bracket.
    """
    rising = _quartic(q4, q3, q2, q1, q0, high) > 0.0
    t = 0.5 * (low + high)
    for _ in range(100):
        value = _quartic(q4, q3, q2, q1, q0, t)
        if value == 0.0:
            return t
        if (value > 0.0) == rising:
            high = t
        else:
            low = t
        derivative = ((4.0 * q4 * t + 3.0 * q3) * t + 2.0 * q2) * t + q1
        following = t - (value / derivative if derivative != 0.0 else np.inf)
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(following - t) <= 1e-16 or following == t:
            return following
        t = following
    return t


@kernel
def _signs_change(a, b):
    return 1 if (a < 0.0 and b > 0.0) or (a > 0.0 and b < 0.0) else 0


@kernel
def _turn_between(q4, q3, q2, q1, low, high):
    """Return the stationary point of the quartic in [low, high], where q′ is monotone, or ``low``."""
    at_low = _quartic(0.0, 4.0 * q4, 3.0 * q3, 2.0 * q2, q1, low)
    at_high = _quartic(0.0, 4.0 * q4, 3.0 * q3, 2.0 * q2, q1, high)
    if _signs_change(at_low, at_high):
        return bracketed_root(0.0, 4.0 * q4, 3.0 * q3, 2.0 * q2, q1, low, high)
    return low


@kernel
def _turns(q4, q3, q2, q1):
    """Return three ascending points in [0, 1] that include every interior stationary point of the quartic.

    They are the roots of the cubic q′, bracketed between those of the quadratic q″.
    """
    a, b, c = 12.0 * q4, 6.0 * q3, 2.0 * q2
    inner0, inner1 = 0.0, 0.0
    discriminant = b * b - 4.0 * a * c
    if discriminant > 0.0:
        # The product form keeps the smaller root accurate.
        root = -0.5 * (b + np.copysign(np.sqrt(discriminant), b))
        first = root / a if a != 0.0 else 0.0
        second = c / root if root != 0.0 else 0.0
        inner0 = smaller(larger(smaller(first, second), 0.0), 1.0)
        inner1 = smaller(larger(larger(first, second), 0.0), 1.0)
    return (
        _turn_between(q4, q3, q2, q1, 0.0, inner0),
        _turn_between(q4, q3, q2, q1, inner0, inner1),
        _turn_between(q4, q3, q2, q1, inner1, 1.0),
    )


@kernel
def half_angle_minimisers(a, b, c, d):
    """Find the interior local minimisers of P = a cos² + b sin + c cos + d sin cos on [0, π/2].

    With t = tan(α/2) ∈ [0, 1], P′(α)(1 + t²)² is exactly the quartic

        (d − b)t⁴ + (4a − 2c)t³ − 6d t² − (4a + 2c)t + (d + b),

    which replaces the paper's squared equation in tan α (its squaring adds spurious roots, and its β → ∞ as α → π/2).
    Bernstein coefficients on [0, 1] without a sign change prove that there is no root; with a single change there is
    exactly one. Return the at most two values of t where the quartic rises through zero; −1 where absent.
    """
    q4, q3, q2, q1, q0 = d - b, 4.0 * a - 2.0 * c, -6.0 * d, -4.0 * a - 2.0 * c, d + b
    b1 = q0 + 0.25 * q1
    b2 = q0 + 0.5 * q1 + q2 / 6.0
    b3 = q0 + 0.75 * q1 + 0.5 * q2 + 0.25 * q3
    b4 = q4 + q3 + q2 + q1 + q0
    least = smaller(smaller(q0, b1), smaller(smaller(b2, b3), b4))
    most = larger(larger(q0, b1), larger(larger(b2, b3), b4))
    if least >= 0.0 or most <= 0.0:
        return -1.0, -1.0
    changes = _signs_change(q0, b1) + _signs_change(b1, b2) + _signs_change(b2, b3) + _signs_change(b3, b4)
    plain = q0 != 0.0 and b1 != 0.0 and b2 != 0.0 and b3 != 0.0 and b4 != 0.0
    if plain and changes == 1:
        return bracketed_root(q4, q3, q2, q1, q0, 0.0, 1.0) if q0 < 0.0 else -1.0, -1.0
    turn0, turn1, turn2 = _turns(q4, q3, q2, q1)
    first, second, low = -1.0, -1.0, 0.0
    for high in (turn0, turn1, turn2, 1.0):  # in (low, high] the quartic is monotone
        at_high = _quartic(q4, q3, q2, q1, q0, high)
        if _quartic(q4, q3, q2, q1, q0, low) < 0.0 and at_high >= 0.0:
            first, second = bracketed_root(q4, q3, q2, q1, q0, low, high) if at_high > 0.0 else high, first
        low = high
    return first, second

"""The half-angle quartic against a dense grid of angles."""

from __future__ import annotations

import numpy as np

from conftest import scaled
from counterpoise.kernels.roots import half_angle_minimisers


def trigonometric(a, b, c, d, angle):
    return a * np.cos(angle) ** 2 + b * np.sin(angle) + c * np.cos(angle) + d * np.sin(angle) * np.cos(angle)


def test_candidates_contain_the_global_minimiser(rng):
    grid = np.linspace(0, np.pi / 2, 2001)
    for trial in range(scaled(20000, 500)):
        a, b, c, d = rng.standard_normal(4) * 10.0 ** rng.integers(-3, 4, 4) * (rng.random(4) > 0.15)
        if trial % 7 == 0:
            b, c = -d, 2 * a  # several coefficients of the quartic vanish
        roots = [t for t in half_angle_minimisers(a, b, c, d) if t >= 0]
        angles = np.array([0.0, np.pi / 2, *(2 * np.arctan(roots))])
        best = trigonometric(a, b, c, d, angles).min()
        size = abs(a) + abs(b) + abs(c) + abs(d)
        assert best <= trigonometric(a, b, c, d, grid).min() + 1e-12 * size
        assert all(0 <= t <= 1 for t in roots)


def test_a_triple_root_is_found():
    """P′ ∝ (t − ½)³ (t + r): the quartic touches zero with three equal roots."""
    t0 = 0.5
    cubic = np.poly([t0, t0, t0])
    # (q4, q3, q2, q1, q0) must satisfy q2 = −6d, q4 + q0 = 2d: choose the fourth root to fit.
    for r in np.linspace(-5, 5, 2001):
        q4, q3, q2, q1, q0 = np.polymul(cubic, [1.0, r])
        if abs(q4 + q0 + q2 / 3) < 2e-3:
            d, b = -q2 / 6, -q4 - q2 / 6
            a, c = (q3 - q1) / 8, -(q3 + q1) / 4
            roots = [t for t in half_angle_minimisers(a, b, c, d) if t >= 0]
            angles = np.array([0.0, np.pi / 2, *(2 * np.arctan(roots))])
            grid = np.linspace(0, np.pi / 2, 20001)
            assert trigonometric(a, b, c, d, angles).min() <= trigonometric(a, b, c, d, grid).min() + 1e-9

"""Projections and random points, against the optimality conditions and a general solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

import counterpoise as cp
from conftest import scaled
from counterpoise.terms.separable import compile_separable


def box(lo, hi, n):
    return compile_separable(cp.Bounds(lo, hi), n)[0]


def test_projection_on_box_and_sum_satisfies_its_optimality_conditions(rng):
    """x = clip(z + t): all free coordinates moved by one t, those at lo by at least it, those at hi by at most it."""
    for _ in range(scaled(2000, 300)):
        n = int(rng.integers(2, 9))
        lo = rng.normal(size=n) if rng.integers(0, 2) else np.zeros(n)
        hi = lo + rng.random(n) * 2
        if rng.integers(0, 3) == 0:
            hi = np.full(n, np.inf)
        elif rng.integers(0, 4) == 0:
            lo = np.full(n, -np.inf)
        least, most = lo.sum(), hi.sum()
        least, most = max(least, most - 50 if np.isfinite(most) else -50), min(most, max(least, -50) + 50)
        c = float(rng.choice([least, most, rng.uniform(least, most)]))
        z = np.round(rng.normal(size=n) * 3, int(rng.integers(0, 3)))
        x = cp.Sum(c).project(z, box(lo, hi, n))
        assert abs(x.sum() - c) < 1e-12 * max(1, abs(c), np.abs(z).max()) * n
        assert (x >= lo).all() and (x <= hi).all()
        shift = x - z
        rises, falls = shift[x < hi - 1e-12], shift[x > lo + 1e-12]
        if len(rises) and len(falls):
            assert falls.max() <= rises.min() + 1e-9


def test_projection_agrees_with_a_general_solver(rng):
    for _ in range(10):
        z, n = rng.normal(size=5), 5
        x = cp.Sum(1.0).project(z, box(0.0, 0.6, n))
        reference = scipy_minimize(
            lambda v, z=z: np.sum((v - z) ** 2),
            np.full(n, 0.2),
            bounds=[(0, 0.6)] * n,
            constraints={"type": "eq", "fun": lambda v: v.sum() - 1},
            options={"ftol": 1e-14},
        ).x
        np.testing.assert_allclose(x, reference, atol=1e-5)


def test_projection_on_the_sphere(rng):
    h = box(0.0, np.inf, 4)
    for _ in range(200):
        z = rng.normal(size=4)
        x = cp.Sphere().project(z, h)
        others = np.abs(rng.normal(size=(200, 4)))
        others /= np.linalg.norm(others, axis=1)[:, None]
        assert np.linalg.norm(x) == pytest.approx(1)
        assert (x >= 0).all()
        assert np.linalg.norm(z - x) <= np.linalg.norm(z - others, axis=1).min() + 1e-12
    np.testing.assert_array_equal(cp.Sphere().project(np.array([-3.0, -1.0, -2.0, -1.0]), h), [0, 1, 0, 0])
    np.testing.assert_array_equal(cp.Sphere().project(np.zeros(4), h), [1, 0, 0, 0])


@pytest.mark.parametrize(
    ("lo", "hi", "c"),
    [
        (0, np.inf, 1),
        (0, 0.1, 1),
        (-1, 1, 0),
        (-1, 1, 4),
        (-1, 1, 12),
        (0.05, 0.2, 1),
        (-np.inf, 0.5, 1),
        (0, [0.5] * 6 + [np.inf] * 6, 3),
    ],
)
def test_random_points_are_feasible_and_differ(lo, hi, c):
    problem = cp.Problem(cp.Quadratic(np.eye(12)), cp.Bounds(lo, hi), None, cp.Sum(c))
    points = [problem.start(seed) for seed in range(5)]
    assert max(problem.violation(x) for x in points) <= 1e-12
    np.testing.assert_array_equal(problem.start(3), points[3])
    if c not in (12,):
        assert np.ptp(points, axis=0).max() > 1e-3


def test_random_points_of_the_sphere():
    problem = cp.Problem(cp.Quadratic(np.eye(5)), cp.Bounds(0, np.inf), None, cp.Sphere())
    assert problem.violation(problem.start(7)) <= 1e-15

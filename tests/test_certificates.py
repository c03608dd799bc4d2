"""Certificates: pruned and full scans agree with each other and with brute force; thresholds hold."""

from __future__ import annotations

import numpy as np
import pytest

import counterpoise as cp
from conftest import make_problem, scaled
from counterpoise.certificates import exactness_threshold
from counterpoise.problems import DCPB1, DCPB2, NNSPCA, SIT
from naive import largest_gap
from test_bcd import NAMES, build
from test_pair_steps import degenerate_matrix, problem_of, random_case


def assert_scans_agree(problem, x, theta=0.0):
    pruned = cp.certify(problem, x, theta=theta)
    every = cp.certify(problem, x, theta=theta, scan="all")
    _, resolution = problem.value_and_resolution(x)
    assert pruned.cws_gap == pytest.approx(every.cws_gap, rel=1e-12, abs=16 * resolution)
    return pruned, every


@pytest.mark.parametrize("name", NAMES)
def test_scans_agree_on_the_way_and_at_the_end(name, rng):
    for trial in range(scaled(60, 6)):
        n = int(rng.integers(2, scaled(40, 10)))
        A = degenerate_matrix(rng, int(rng.integers(2, 30)), n)
        y = rng.standard_normal(len(A))
        lam, s = float(10.0 ** rng.uniform(-2, 4)), int(rng.integers(1, n + 1))
        c = n % 2
        problem = make_problem(name, A, y, s, c, lam)
        assert_scans_agree(problem, problem.start(trial), theta=float(trial % 2))
        halfway = cp.minimize(problem, max_iter=1 + int(rng.integers(0, 3 * n)), seed=trial)
        assert_scans_agree(problem, halfway.x)
        assert_scans_agree(problem, cp.minimize(problem, x0=halfway.x).x)


@pytest.mark.parametrize("g", ["top", "norm", "square", "none"])
def test_scans_agree_for_every_g_and_h(g, rng):
    for trial in range(scaled(60, 8)):
        case = random_case(rng, g)
        problem = problem_of(case, float(rng.uniform(case.lo.sum(), case.hi.sum())))
        assert_scans_agree(problem, problem.start(trial))
        assert_scans_agree(problem, cp.minimize(problem, seed=trial, max_iter=200).x)


@pytest.mark.parametrize("name", NAMES)
def test_the_gap_is_that_of_brute_force_and_its_step_brings_it(name, rng):
    for trial in range(scaled(20, 3)):
        problem, case, _ = build(name, rng, n=6, lam=float(10.0 ** rng.uniform(-1, 3)))
        x = cp.minimize(problem, seed=trial, max_iter=1 + trial).x
        certificate = cp.certify(problem, x)
        on = "arc" if name == "NNSPCA" else "line"
        assert certificate.cws_gap >= largest_gap(case, x, on) - 1e-9 * case.size(x)
        if certificate.worst_pair is not None:
            (i, j), (di, dj) = certificate.worst_pair, certificate.worst_step
            moved = x.copy()
            moved[i] += di
            moved[j] += dj
            assert problem.objective(x) - problem.objective(moved) == pytest.approx(
                certificate.cws_gap, abs=1e-9 * case.size(x)
            )


def test_violation_objective_and_repr(rng):
    problem, _, reference = build("SIT", rng)
    result = cp.minimize(problem)
    certificate = cp.certify(problem, result.x)
    assert certificate.violation <= 1e-12
    assert certificate.objective == pytest.approx(reference(result.x))
    assert certificate.critical_residual <= 1e-2
    assert "cws_gap" in repr(certificate)


def test_bad_input(rng):
    problem, _, _ = build("SIT", rng)
    with pytest.raises(ValueError, match=r"x violates the constraints by 11; certify problem.project\(x\)"):
        cp.certify(problem, np.ones(12))
    with pytest.raises(ValueError, match="scan is 'some'"):
        cp.certify(problem, problem.start(0), scan="some")


@pytest.mark.parametrize("name", NAMES)
def test_the_residual_vanishes_at_smooth_critical_points_only(name, rng):
    """Far from critical points the residual is of the order of the slopes; at certified points it is tiny."""
    problem, _, _ = build(name, rng, lam=1.0)
    assert cp.certify(problem, problem.start(0)).critical_residual > 0.1
    result = cp.minimize(problem, tol=1e-15)
    assert cp.certify(problem, result.x).critical_residual < 1e-4


def test_residual_on_the_line_by_hand():
    """F = ½‖x − y‖² on the simplex: slopes x − y; at (1, 0) coordinate 1 can rise with slope −y₁, 0 can fall."""
    problem = cp.Problem(cp.LeastSquares(np.eye(2), [0.2, 0.8]), cp.Bounds(0, 1), None, cp.Sum(1))
    certificate = cp.certify(problem, [1.0, 0.0])
    assert certificate.critical_residual == pytest.approx((1 - 0.2) - (0 - 0.8))
    assert certificate.cws_gap == pytest.approx(0.5 * 0.8**2 * 2)
    assert certificate.worst_pair in ((0, 1), (1, 0))
    assert sorted(certificate.worst_step) == pytest.approx([-0.8, 0.8])
    assert cp.certify(problem, [0.2, 0.8]).critical_residual == pytest.approx(0, abs=1e-15)
    pinned = cp.Problem(cp.LeastSquares(np.eye(2)), cp.Bounds(0, 0.5), None, cp.Sum(1))
    assert cp.certify(pinned, [0.5, 0.5]).critical_residual == 0.0


def test_threshold_of_tracking_is_the_largest_spread_of_slopes_on_the_simplex(rng):
    A, y = rng.standard_normal((6, 5)), rng.standard_normal(6)
    problem = SIT(A, y, 2, 1.0)
    threshold = exactness_threshold(problem)
    spreads = [np.ptp(A.T @ (A @ x - y)) for x in [*np.eye(5), *rng.dirichlet(np.ones(5), 500)]]
    assert threshold == pytest.approx(max(spreads))
    without_gram = cp.Problem(cp.LeastSquares(A, y, gram=False), cp.Bounds(0), cp.TopSum(2, 1.0), cp.Sum(1))
    assert exactness_threshold(without_gram) >= threshold


def test_threshold_of_pca_bounds_the_products(rng):
    A = rng.standard_normal((6, 5))
    threshold = exactness_threshold(NNSPCA(A, 2, 1.0))
    points = np.abs(rng.standard_normal((2000, 5)))
    points /= np.linalg.norm(points, axis=1)[:, None]
    assert threshold >= np.sqrt(2) * np.abs(points @ (A.T @ A)).max()
    without_gram = cp.Problem(
        cp.LeastSquares(A, 0.0, scale=-1, gram=False), cp.Bounds(0) + cp.Linear(1.0), cp.TopSum(2, 1.0), cp.Sphere()
    )
    assert exactness_threshold(without_gram) >= threshold


def test_thresholds_of_binary_problems(rng):
    A, y = rng.standard_normal((6, 4)), rng.standard_normal(6)
    Q = A.T @ A
    alpha = max(Q[i, i] + Q[j, j] - 2 * Q[i, j] for i in range(4) for j in range(4))
    assert exactness_threshold(DCPB1(A, y, 0, 1.0)) == pytest.approx(alpha / 4)
    assert exactness_threshold(DCPB2(A, y, 0, 1.0)) == pytest.approx(alpha * np.sqrt(4) / 2)
    without_gram = cp.Problem(cp.LeastSquares(A, y, gram=False), cp.Bounds(-1, 1), cp.ConcaveQuadratic(1.0), cp.Sum(0))
    assert exactness_threshold(without_gram) >= alpha / 4


def test_no_threshold_where_no_theorem_speaks(rng):
    f = cp.LeastSquares(rng.standard_normal((6, 4)))
    for h, g, u in [
        (cp.Bounds(0, [0.5, 0.5, 0.5, 1]), cp.TopSum(2, 1.0), cp.Sum(1)),
        (cp.Bounds(0, 0.4), cp.TopSum(2, 1.0), cp.Sum(1)),
        (cp.Bounds(-1, 1), cp.TopSum(2, 1.0), cp.Sum(1)),
        (cp.Bounds(-1, 2), cp.Norm2(1.0), cp.Sum(1)),
        (cp.Bounds(-1, 1) + cp.AbsoluteDeviation(0.0, 1.0), cp.Norm2(1.0), cp.Sum(1)),
        (cp.Bounds(0), cp.TopSum(2, 1.0), cp.Sphere()),
        (cp.Bounds(0), None, cp.Sphere()),
    ]:
        problem = cp.Problem(f, h, g, u)
        assert exactness_threshold(problem) is None
        assert cp.certify(problem, problem.start(0)).exact is None
    shifted = cp.Problem(cp.Quadratic(np.eye(4), 1.0), cp.Bounds(0) + cp.Linear(1.0), cp.TopSum(2, 1.0), cp.Sphere())
    assert exactness_threshold(shifted) is None


def test_exact_is_said_when_lam_is_above(rng):
    A, y = rng.standard_normal((6, 5)), rng.standard_normal(6)
    threshold = exactness_threshold(SIT(A, y, 2, 1.0))
    for factor, exact in ((0.9, False), (1.1, True)):
        problem = SIT(A, y, 2, factor * threshold)
        assert cp.certify(problem, problem.start(0)).exact is exact


def test_cases_of_the_paper_match_their_problems(rng):
    """The references' own check: case_of differs from the problem by a constant."""
    for name in NAMES:
        problem, case, reference = build(name, rng)
        differences = [reference(problem.start(k)) - case.value(problem.start(k)) for k in range(4)]
        assert np.ptp(differences) < 1e-9

"""The paper's theorems, as corrected, with the counterexamples that the corrections exclude."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import counterpoise as cp
from conftest import make_problem, scaled
from counterpoise.certificates import exactness_threshold
from counterpoise.kernels import sweep
from counterpoise.kernels.pair import new_age
from counterpoise.problems import DCPB1, DCPB2, NNSPCA, SIT
from counterpoise.solvers.bcd import RULES, make_rule
from naive import binary_optimum, case_of, sparse_pca_optimum, sparse_tracking_optimum
from test_bcd import NAMES, build


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("theta", [1e-6, 1.0, 30.0])
def test_sufficient_decrease_on_every_step(name, rule, theta, rng):
    """F(x⁺) − F(x) ≤ −½θ‖x⁺ − x‖², Theorem (theo:global)."""
    problem, case, _ = build(name, rng, n=scaled(12, 6))
    x = problem.start(1)
    terms = problem.terms()
    sweep.start(terms, x)
    chosen, _ = make_rule(rule, problem)
    age, value, moves = new_age(10**9), case.value(x), 0
    for _ in range(scaled(400, 40)):
        before = x.copy()
        sweep.epoch(chosen, terms, x, theta, 0.0, np.zeros(2), 1, 10**9, rng, age, 0.0, np.empty(5))
        after = case.value(x)
        slack = 1e-12 * case.size(x)
        assert after - value <= -0.5 * theta * np.sum((x - before) ** 2) + slack
        moves += bool((x != before).any())
        assert np.count_nonzero(x != before) <= 2
        value = after
    assert moves >= 3


def optimum_of(name, A, y, s, c):
    if name == "SIT":
        return sparse_tracking_optimum(A, y, s)[1]
    if name == "NNSPCA":
        return sparse_pca_optimum(A, s)[1]
    return binary_optimum(A, y, c)[1]


@pytest.mark.parametrize("name", NAMES)
def test_optimal_points_are_cws_and_cws_points_are_critical(name, rng):
    """Theorem (theo:optimality), in the exact regime, where enumeration gives the optimum of the penalised problem."""
    for trial in range(scaled(25, 3)):
        n = int(rng.integers(4, scaled(11, 7)))
        s, c = int(rng.integers(1, 4)), n % 2
        A, y = rng.standard_normal((n + 2, n)), rng.standard_normal(n + 2)
        threshold = exactness_threshold(make_problem(name, A, y, s, c, 1.0))
        problem = make_problem(name, A, y, s, c, 1.01 * threshold)
        scale = case_of(name, A, y, problem.g.lam, s).size(y)
        optimal = problem.project(optimum_of(name, A, y, s, c))
        certificate = cp.certify(problem, optimal, scan="all")
        assert certificate.cws_gap <= 1e-10 * scale
        assert certificate.critical_residual <= 1e-5 * scale
        reached = cp.minimize(problem, seed=trial, tol=1e-14)
        assert reached.objective >= problem.objective(optimal) - 1e-10 * scale
        assert cp.certify(problem, reached.x).critical_residual <= 1e-4 * scale


def test_some_critical_points_are_not_cws():
    """A vertex of the simplex with s = 1 is critical for large λ, yet a better vertex is one pair step away."""
    A, y = np.eye(3), np.array([0.1, 0.9, 0.0])
    problem = SIT(A, y, 1, 100.0)
    certificate = cp.certify(problem, [0.0, 0.0, 1.0])
    assert certificate.critical_residual == 0.0
    assert certificate.cws_gap == pytest.approx(0.9)


@pytest.mark.parametrize("name", ["SIT", "NNSPCA"])
@pytest.mark.parametrize("rule", ["hybrid", "random", "cyclic"])
def test_above_the_threshold_cws_points_are_sparse(name, rule, rng):
    """Theorem (theo:excat:index) with λ > max|∇ᵢf − ∇ⱼf|; √2‖Gx‖∞ for NNSPCA."""
    for trial in range(scaled(30, 3)):
        n = int(rng.integers(3, scaled(25, 8)))
        s = int(rng.integers(1, n))
        A, y = rng.standard_normal((8, n)), rng.standard_normal(8)
        problem = SIT(A, y, s, 1.0) if name == "SIT" else NNSPCA(A, s, 1.0)
        lam = 1.001 * exactness_threshold(problem)
        problem = SIT(A, y, s, lam) if name == "SIT" else NNSPCA(A, s, lam)
        result = cp.minimize(problem, working_set=rule, seed=trial, theta=0.0, tol=1e-12)
        assert result.success
        assert np.count_nonzero(result.x) <= s
        if name == "SIT":
            held = problem.f.gradient(result.x)[result.x > 0]
            assert np.ptp(held) <= 1e-4 * lam


def test_below_the_threshold_dense_points_are_legitimate():
    """Counterexample: a small λ leaves the convex optimum, which is dense, in place."""
    problem = SIT(np.eye(4), np.full(4, 0.25), 1, 1e-3)
    result = cp.minimize(problem, tol=1e-14)
    assert np.count_nonzero(result.x) == 4
    certificate = cp.certify(problem, result.x)
    assert certificate.exact is False


def test_theta_raises_the_threshold():
    """Counterexample: λ > ¼α does not suffice with θ > 0; the centre is stationary until λ > ¼α + ½θ."""
    centre = np.zeros(4)
    for lam, theta, stationary in ((1.0, 0.0, False), (1.0, 2.0, True), (1.6, 2.0, False)):
        problem = DCPB1(np.eye(4), np.zeros(4), 0, lam)
        assert (lam > exactness_threshold(problem, theta)) is not stationary
        assert (cp.certify(problem, centre, theta=theta).cws_gap == 0.0) is stationary


@pytest.mark.parametrize("name", ["DCPB1", "DCPB2"])
@pytest.mark.parametrize("rule", ["hybrid", "random", "cyclic"])
def test_above_the_threshold_cws_points_are_binary_for_the_right_parity(name, rule, rng):
    """Theorems (theo:extreme:bin) and (theo:exact:bin), corrected: at most one fractional coordinate, none if c ≡ n."""
    make = DCPB1 if name == "DCPB1" else DCPB2
    for trial in range(scaled(30, 3)):
        n = int(rng.integers(3, scaled(25, 8)))
        A, y = rng.standard_normal((8, n)), rng.standard_normal(8)
        lam = 1.001 * exactness_threshold(make(A, y, n % 2, 1.0))
        c = n - 2 * int(rng.integers(0, n + 1))
        result = cp.minimize(make(A, y, c, lam), working_set=rule, seed=trial, theta=0.0)
        assert result.success
        assert (np.abs(result.x) == 1).all()
        if abs(c) < n:
            with pytest.warns(UserWarning, match="one fractional"):
                problem = make(A, y, c + 0.5, lam)
            result = cp.minimize(problem, working_set=rule, seed=trial, theta=0.0)
            assert (np.abs(result.x) < 1).sum() == 1


def test_below_the_threshold_fractional_points_are_legitimate():
    """Counterexample: with λ = 0 the centre is the optimum."""
    result = cp.minimize(DCPB2(np.eye(4), np.zeros(4), 0, 1e-6), tol=1e-14)
    assert (np.abs(result.x) < 0.1).all()


def test_vertices_satisfy_the_papers_measure_without_being_critical():
    """Erratum: S₂ = |G ⊙ x − (xᵀG)x ⊙ x| vanishes at every vertex; criticality also looks at the zeros."""
    A = np.array([[1.0, 0.0], [0.0, 2.0], [0.5, 1.0]])
    problem = NNSPCA(A, 2, 0.1)
    x = np.array([1.0, 0.0])
    G = -A.T @ A @ x
    np.testing.assert_allclose(G * x - (x @ G) * x * x, 0)
    assert cp.certify(problem, x).critical_residual > 0.1


def test_adjacent_windows_stall(rng):
    """Erratum: cyclic windows {t, t+1} stop far from a CWS point; all pairs do not."""
    stalled = 0
    for trial in range(10):
        A, y = rng.standard_normal((10, 8)), rng.standard_normal(10)
        problem = SIT(A, y, 2, 50.0)
        x = problem.start(trial)
        terms = problem.terms()
        sweep.start(terms, x)
        for _, i in itertools.product(range(200), range(7)):
            a, b, _ = sweep.step(terms, x, i, i + 1, 0.0)
            x[i], x[i + 1] = a, b
            sweep.start(terms, x)
        stalled += cp.certify(problem, x).cws_gap > 1e-3
    assert stalled >= 5

"""The sphere with signs: pair steps against grids, scans, projections, blocks and the three opponents."""

from __future__ import annotations

import numpy as np
import pytest

import counterpoise as cp
from conftest import parts, scaled
from counterpoise.certificates import critical_residual
from counterpoise.kernels import block, programs, sweep
from counterpoise.problems import NNSPCA, SPCA
from counterpoise.solvers.baselines import Model
from naive import Case, best_on_pair, case_of, largest_gap, spca
from test_pair_steps import degenerate_matrix


def signed_case(rng):
    """Any quadratic, linear terms or none, ℓ1 terms or none, a λ between 0 and 1e12."""
    n = int(rng.integers(2, 9))
    A = degenerate_matrix(rng, int(rng.integers(1, 12)), n)
    Q = A.T @ A * rng.choice([-1.0, 1.0]) if rng.integers(0, 3) else A[:1].T @ A[:1] - A.T @ A
    linear = rng.standard_normal((2, n)) * rng.integers(0, 2, (2, 1)) * 10.0 ** rng.integers(-2, 3)
    lam = float(rng.choice([0.0, 1e12, *(10.0 ** rng.uniform(-3, 4, 6))]))
    kinks = int(rng.integers(0, 3))
    cost = np.full((kinks, n), lam) if rng.integers(0, 2) else rng.random((kinks, n)) * rng.integers(0, 2, (kinks, n))
    free, g = np.full(n, np.inf), str(rng.choice(["top", "top", "top", "count", "square", "none"]))
    return Case(Q, linear[0], -free, free, linear[1], np.zeros((kinks, n)), cost, g, lam, int(rng.integers(1, n + 1)))


def signed_problem(case):
    h = cp.Linear(case.w)
    for cost in case.cost:
        h = h + cp.AbsoluteDeviation(0.0, cost)
    g = {"top": cp.TopSum(case.s, case.lam), "count": cp.AtMost(case.s), "square": cp.ConcaveQuadratic(case.lam)}
    return cp.Problem(cp.Quadratic(case.Q, case.p), h, g.get(case.g), cp.Sphere(signed=True))


def signed_point(rng, problem):
    """Zeros, equal magnitudes and unit vectors as well as other points."""
    n, kind = problem.n, rng.integers(0, 5)
    x = rng.standard_normal(n)
    if kind == 0:
        x = np.sign(x)
    elif kind == 1:
        x[rng.random(n) < 0.5] = 0.0
    elif kind == 2:
        x = np.round(x)
    elif kind == 3:
        x = rng.choice([-1.0, 1.0]) * np.eye(n)[int(rng.integers(n))]
    return problem.project(x)


def resolution(case, share=1e-9):
    """What a grid cannot tell apart: a share of f and of linear terms, and the rounding of terms of λ."""
    parts_of_f = 1 + np.abs(case.Q).max() + np.abs(case.p).max() + np.abs(case.w).max()
    return share * parts_of_f + 1e-14 * len(case.p) * (case.lam + np.abs(case.cost).sum())


@pytest.mark.parametrize("part", parts(4))
def test_pair_steps_against_a_grid_of_the_whole_circle(part, rng):
    for _ in range(scaled(3000, 60)):
        case = signed_case(rng)
        problem = signed_problem(case)
        x = signed_point(rng, problem)
        theta = float(rng.choice([0.0, 0.0, 10.0 ** rng.uniform(-6, 1)]))
        i, j = (int(k) for k in rng.permutation(problem.n)[:2])
        terms = problem.terms()
        sweep.start(terms, x)
        new_i, new_j, gain = sweep.step(terms, x, i, j, theta)
        moved = x.copy()
        moved[i], moved[j] = new_i, new_j
        claimed = case.value(x) - case.value(moved) - 0.5 * theta * np.sum((moved - x) ** 2)
        assert gain == pytest.approx(claimed, abs=resolution(case))
        assert problem.violation(moved) <= 1e-12
        assert gain >= best_on_pair(case, x, i, j, "circle", theta, 201) - resolution(case)


def test_a_scan_finds_the_best_of_all_pairs(rng):
    """The bounds of the scan rule out no pair that gains more; both scans agree with a grid."""
    pruned = 0
    for trial in range(scaled(3000, 60)):
        case = signed_case(rng)
        problem = signed_problem(case)
        x = signed_point(rng, problem)
        if trial % 3 == 0:
            x = cp.minimize(problem, x).x
        terms = problem.terms()
        sweep.start(terms, x)
        every, some = sweep.scan_all(terms, x, 0.0)[0], sweep.scan(terms, x, 0.0, np.inf)[0]
        assert some == pytest.approx(every, rel=1e-12, abs=resolution(case, 1e-12))
        if trial % 20 == 0:
            assert every >= largest_gap(case, x, "circle", grid=101) - resolution(case)
        pruned += every == 0.0
    assert pruned


@pytest.mark.parametrize("rule", ["hybrid", "cyclic", "random", "greedy", "semi-greedy"])
def test_every_rule_ends_at_a_certified_point(rule, rng):
    for _ in range(scaled(40, 3)):
        case = signed_case(rng)
        problem = signed_problem(case)
        x = signed_point(rng, problem)
        result = cp.minimize(problem, x, working_set=rule)
        assert result.status is cp.Status.CERTIFIED
        assert problem.violation(result.x) <= 1e-12
        assert result.objective <= problem.objective(x) + resolution(case)
        certificate, rounding = cp.certify(problem, result.x), resolution(case, 1e-12)
        assert certificate.cws_gap == pytest.approx(cp.certify(problem, result.x, scan="all").cws_gap, abs=rounding)
        assert certificate.cws_gap <= result.tolerance + rounding
        assert largest_gap(case, result.x, "circle", grid=81) <= certificate.cws_gap + resolution(case)


def test_columns_and_sparse_data_agree_with_the_gram_matrix(rng):
    from scipy.sparse import csc_array

    for _ in range(scaled(20, 3)):
        n = int(rng.integers(3, 12))
        A = rng.standard_normal((6, n)) * (rng.random((6, n)) < 0.6)
        s, lam = int(rng.integers(1, n)), float(10.0 ** rng.uniform(-2, 2))
        gaps, x = [], None
        for data, gram in ((A, True), (A, False), (csc_array(A), True), (csc_array(A), False), (A.astype("f4"), False)):
            f = cp.LeastSquares(data, 0.0, scale=-1.0, gram=gram)
            problem = cp.Problem(f, cp.AbsoluteDeviation(0, lam), cp.TopSum(s, lam), cp.Sphere(signed=True))
            x = problem.start(1) if x is None else x
            gaps.append(cp.certify(problem, x, theta=0.1).cws_gap)
            result = cp.minimize(problem, x, working_set="greedy")
            assert result.objective == pytest.approx(spca(A, s, lam, result.x), abs=1e-5)
            assert result.status is cp.Status.CERTIFIED
        np.testing.assert_allclose(gaps[:-1], gaps[0], rtol=1e-9)
        assert gaps[-1] == pytest.approx(gaps[0], rel=1e-5)


def test_the_preset_is_its_formula(rng):
    for _ in range(50):
        n = int(rng.integers(2, 8))
        A, s, lam = rng.standard_normal((5, n)), int(rng.integers(1, n + 1)), float(10.0 ** rng.uniform(-2, 2))
        problem = SPCA(A, s, lam)
        x = problem.start(int(rng.integers(100)))
        assert problem.objective(x) == pytest.approx(spca(A, s, lam, x), rel=1e-12)
        assert case_of("SPCA", A, None, lam, s).value(x) == pytest.approx(spca(A, s, lam, x), rel=1e-12)
        other = problem.variant(lam=2 * lam)
        assert other.objective(x) == pytest.approx(spca(A, s, 2 * lam, x), rel=1e-12) and other.f is problem.f
        assert (x < 0).any() or n < 6


def test_signs_never_hurt(rng):
    """A non-negative point is feasible with signs, where it has the same objective."""
    for _ in range(scaled(20, 4)):
        A, lam = rng.standard_normal((8, 10)), float(10.0 ** rng.uniform(-1, 2))
        below = cp.minimize(NNSPCA(A, 3, lam))
        problem = SPCA(A, 3, lam)
        assert problem.objective(below.x) == pytest.approx(below.objective, rel=1e-12)
        assert cp.minimize(problem, below.x).objective <= below.objective + 1e-12


# The constraint.


def test_projection_and_random_points(rng):
    u, h = cp.Sphere(signed=True), signed_problem(case_of("SPCA", np.eye(4), None, 1.0, 2)).separable
    for _ in range(100):
        z = rng.normal(size=4) * 10.0 ** rng.integers(-100, 100)
        np.testing.assert_allclose(
            u.project(z, h), z / np.abs(z).max() / np.linalg.norm(z / np.abs(z).max()), rtol=1e-14
        )
    np.testing.assert_array_equal(u.project(np.zeros(4), h), [1, 0, 0, 0])
    draws = np.array([u.random(h, rng) for _ in range(2000)])
    np.testing.assert_allclose(np.linalg.norm(draws, axis=1), 1.0, rtol=1e-15)
    assert np.abs(draws.mean(axis=0)).max() < 0.05 and np.abs(draws.T @ draws / 2000 - np.eye(4) / 4).max() < 0.05


def test_shrinking_is_the_least_of_its_function(rng):
    for _ in range(200):
        n = int(rng.integers(2, 6))
        z, cost = rng.normal(size=n), rng.random(n) * float(rng.choice([0.0, 1.0, 5.0]))
        problem = cp.Problem(cp.Quadratic(np.eye(n)), cp.AbsoluteDeviation(0, cost), None, cp.Sphere(signed=True))
        x = problem.u.shrink(z, problem.separable)
        others = rng.normal(size=(500, n)) * (rng.random((500, n)) < 0.6) + 1e-9
        others = np.vstack([others / np.linalg.norm(others, axis=1)[:, None], np.eye(n), -np.eye(n)])
        assert np.linalg.norm(x) == pytest.approx(1.0, rel=1e-15)
        assert -z @ x + cost @ np.abs(x) <= (np.abs(others) @ cost - others @ z).min() + 1e-12


@pytest.mark.parametrize(
    ("h", "sentence"),
    [
        (cp.Bounds(0.0, np.inf), r"takes no bounds.*coordinate 0 is between 0 and inf.*Sphere\(\) for x ≥ 0"),
        (cp.Bounds(-np.inf, [2.0, 0.5, 1.0]), "coordinate 1 is between -inf and 0.5"),
        (cp.AbsoluteDeviation([0.0, 0.0, 0.1], 1.0), "kinks of h at 0 alone.*coordinate 2 has one at 0.1"),
        (cp.AbsoluteDeviation(0.0, 1.0) + cp.AbsoluteDeviation(-2.0, [0.0, 3.0, 0.0]), "coordinate 1 has one at -2"),
    ],
)
def test_other_bounds_and_kinks_are_refused(h, sentence):
    with pytest.raises(ValueError, match=sentence):
        cp.Problem(cp.Quadratic(-np.eye(3)), h, cp.TopSum(1, 1.0), cp.Sphere(signed=True))


def test_what_is_not_a_bool_is_refused():
    with pytest.raises(TypeError, match="signed is 1; it must be True or False"):
        cp.Sphere(signed=1)
    with pytest.raises(ValueError, match="or signed=True for x of any sign"):
        cp.Problem(cp.Quadratic(-np.eye(3)), None, cp.TopSum(1, 1.0), cp.Sphere())
    with pytest.raises(TypeError, match="Norm2 has no exact pair step on Sphere"):
        cp.Problem(cp.Quadratic(-np.eye(3)), None, cp.Norm2(1.0), cp.Sphere(signed=True))


# First-order conditions.


def slopes_along_pairs(case, x, step=1e-7):
    """The least slope of F over all small turns of one pair, by differences."""
    here, least = case.value(x), np.inf
    for i in range(len(x)):
        for j in range(len(x)):
            if i != j and np.hypot(x[i], x[j]) > 0:
                for angle in (step, -step):
                    moved = x.copy()
                    moved[i] = np.cos(angle) * x[i] + np.sin(angle) * x[j]
                    moved[j] = np.cos(angle) * x[j] - np.sin(angle) * x[i]
                    least = min(least, (case.value(moved) - here) / step)
    return least


def test_the_residual_is_zero_at_cws_points_and_the_projected_gradient_elsewhere(rng):
    for _ in range(scaled(200, 20)):
        n = int(rng.integers(2, 7))
        A, s, lam = rng.standard_normal((6, n)), int(rng.integers(1, n + 1)), float(10.0 ** rng.uniform(-2, 1))
        problem, case = SPCA(A, s, lam), case_of("SPCA", A, None, lam, s)
        x = problem.start(int(rng.integers(1000)))
        # Away from kinks: all coordinates differ and none is 0.
        top = np.abs(x) >= np.sort(np.abs(x))[-s]
        gradient = -A.T @ (A @ x) + lam * np.sign(x) * ~top
        projected = gradient - (x @ gradient) * x
        assert critical_residual(problem, x) == pytest.approx(np.abs(projected).max(), rel=1e-9)
        end = cp.minimize(problem, x, tol=1e-14).x
        assert critical_residual(problem, end) <= 1e-5 * (np.abs(A.T @ A).max() + lam)
        assert slopes_along_pairs(case, end) >= -1e-4 * (np.abs(A.T @ A).max() + lam)


def test_the_residual_sees_zeros_that_can_leave(rng):
    """At a unit vector a zero is excused by λ, by 2λ where it is among the s largest, and by nothing without h and g."""
    Q = np.array([[-4.0, 3.0], [3.0, -1.0]])

    def residual(s, lam, cost):
        h = cp.AbsoluteDeviation(0.0, cost)
        problem = cp.Problem(cp.Quadratic(Q), h, cp.TopSum(s, lam), cp.Sphere(signed=True))
        return critical_residual(problem, np.array([-1.0, 0.0]))

    assert residual(1, 0.0, 0.0) == pytest.approx(3.0)
    assert residual(1, 1.0, 1.0) == pytest.approx(2.0)
    assert residual(2, 1.0, 1.0) == pytest.approx(1.0)
    assert residual(1, 5.0, 3.0) == 0.0


# Blocks.


@pytest.mark.parametrize("kind", [block.NESTED, block.LINEARISED])
def test_block_steps_claim_what_is_true(kind, rng):
    for _ in range(scaled(1500, 60)):
        case = signed_case(rng)
        problem = signed_problem(case)
        x, k = signed_point(rng, problem), int(rng.integers(2, problem.n + 1))
        chosen, z = rng.permutation(problem.n)[:k], np.empty(k)
        theta, terms = float(rng.choice([0.0, 0.5])), problem.terms()
        sweep.start(terms, x)
        gain = block.best_of_block(terms, x, chosen, theta, kind, z)
        assert gain >= 0.0
        if gain > 0.0:
            moved = x.copy()
            moved[chosen] = z
            claimed = case.value(x) - case.value(moved) - 0.5 * theta * np.sum((moved - x) ** 2)
            assert gain == pytest.approx(claimed, abs=resolution(case))
            assert problem.violation(moved) <= 1e-12


def test_power_steps_with_signs_do_not_rise(rng):
    for _ in range(scaled(300, 30)):
        k = int(rng.integers(2, 8))
        H = rng.standard_normal((k, k))
        H, b, tilt = H + H.T, rng.standard_normal(k), rng.standard_normal(k)
        z = rng.standard_normal(k) * (rng.random(k) < 0.7) + 1e-3
        norm, before = np.linalg.norm(z), 0.5 * z @ H @ z + b @ z + tilt @ np.abs(z)
        programs.power_steps(H, b, tilt, True, z)
        assert np.linalg.norm(z) == pytest.approx(norm)
        assert 0.5 * z @ H @ z + b @ z + tilt @ np.abs(z) <= before + 1e-12
    eigen = rng.standard_normal((5, 5))
    eigen = eigen + eigen.T
    z = rng.standard_normal(5)
    programs.power_steps(eigen, np.zeros(5), np.zeros(5), True, z)
    values = np.linalg.eigvalsh(eigen)
    assert z @ eigen @ z / (z @ z) == pytest.approx(values[0], rel=1e-9)


@pytest.mark.parametrize("subproblem", ["nested", "linearised"])
def test_blocks_descend_to_the_end(subproblem, rng):
    for _ in range(scaled(20, 2)):
        case = signed_case(rng)
        problem = signed_problem(case)
        x = signed_point(rng, problem)
        result = cp.minimize(problem, x, method="bcd-l", k=min(4, problem.n), subproblem=subproblem)
        assert result.status is (cp.Status.CERTIFIED if subproblem == "nested" else cp.Status.STATIONARY)
        assert result.objective <= problem.objective(x) + resolution(case)
        assert problem.violation(result.x) <= 1e-12


# The three opponents.


@pytest.mark.parametrize("method", ["psg", "mscr", "pdca"])
def test_the_opponents_end_feasible_and_mscr_and_pdca_do_not_rise(method, rng):
    for _ in range(scaled(30, 5)):
        case = signed_case(rng)
        if case.g == "count":
            continue
        problem = signed_problem(case)
        x = signed_point(rng, problem)
        result = cp.minimize(problem, x, method=method, max_iter=200)
        assert problem.violation(result.x) <= 1e-12
        assert result.objective <= problem.objective(x) + resolution(case)
        if method != "psg":
            assert (np.diff(np.array(result.history)[:, 2]) <= resolution(case)).all()


def test_a_step_of_the_opponents_is_the_least_of_its_model(rng):
    for _ in range(100):
        n = int(rng.integers(2, 6))
        A, lam = rng.standard_normal((5, n)), float(10.0 ** rng.uniform(-1, 1))
        problem = SPCA(A, 1, lam)
        x, G, L = problem.start(3), rng.standard_normal(n), float(rng.choice([0.0, 2.0]))
        z = Model(problem).argmin(x, G, L)
        others = rng.normal(size=(500, n)) * (rng.random((500, n)) < 0.6) + 1e-9
        others /= np.linalg.norm(others, axis=1)[:, None]

        def model(points, x=x, G=G, L=L, lam=lam):
            return points @ G + 0.5 * L * ((points - x) ** 2).sum(axis=-1) + lam * np.abs(points).sum(axis=-1)

        assert model(z) <= model(others).min() + 1e-12


# Exactness.


def test_above_the_threshold_every_certified_point_is_sparse(rng):
    dense_below = 0
    for trial in range(scaled(300, 10)):
        n = int(rng.integers(3, 9))
        s = int(rng.integers(1, n))
        A = degenerate_matrix(rng, int(rng.integers(1, 9)), n)
        Q = -A.T @ A if trial % 3 else (A.T @ A if trial % 2 else A[:, ::-1].T @ A + A.T @ A[:, ::-1])
        if not Q.any():
            continue
        signed = bool(trial % 5)
        u = cp.Sphere(signed=signed)

        def stated(lam, Q=Q, s=s, u=u, signed=signed):
            h = cp.AbsoluteDeviation(0, lam) if signed else cp.Bounds(0, np.inf) + cp.Linear(lam)
            return cp.Problem(cp.Quadratic(Q), h, cp.TopSum(s, lam), u)

        threshold = cp.certify(stated(1.0), stated(1.0).start(0)).exact_lam
        rows = np.linalg.norm(Q, axis=1).max()
        if signed:
            assert threshold == pytest.approx(rows * (1 if trial % 3 else 2), rel=1e-12)
        for seed in range(4):
            problem = stated(1.0001 * threshold)
            end = cp.minimize(problem, seed=seed, tol=1e-13).x
            assert np.count_nonzero(np.abs(end) > 1e-6) <= s
            dense_below += np.count_nonzero(cp.minimize(stated(0.1 * threshold), seed=seed).x) > s
    assert dense_below

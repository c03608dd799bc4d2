"""Newton steps on faces against SciPy's nnls and SLSQP, and against the enumeration of all faces."""

import itertools

import numpy as np
import pytest

import counterpoise as cp
import naive
from conftest import scaled
from counterpoise.certificates import convex_gap
from counterpoise.solvers import faces
from counterpoise.supervision import Limits

KINDS = ("gaussian", "duplicates", "few rows", "integers", "in the hull", "zero columns", "all equal", "badly scaled")


def data(rng, kind, m, n):
    A, y = rng.standard_normal((m, n)), rng.standard_normal(m)
    if kind == "duplicates":
        A = A[:, rng.integers(max(1, n // 2), size=n)]
    elif kind == "few rows":
        A, y = A[:1], y[:1]
    elif kind == "integers":
        A, y = np.round(A), np.round(y)
    elif kind == "in the hull":
        y = A @ rng.dirichlet(np.ones(n))
    elif kind == "zero columns":
        A[:, rng.random(n) < 0.5] = 0.0
    elif kind == "all equal":
        A = np.repeat(A[:, :1], n, axis=1)
    elif kind == "badly scaled":
        A = A * 10.0 ** rng.integers(-3, 4, size=n)
    return A, y


def on_simplex(A, y):
    return cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1), u=cp.Sum(1))


def settled(problem, x):
    """Return the end of Newton steps from x; F must not rise, and x stay feasible."""
    end = x.copy()
    faces.settle(problem, end, 0.0, Limits())
    size = 1e-12 * (abs(problem.objective(x)) + problem.f.size(x))
    assert problem.objective(end) <= problem.objective(x) + size
    assert problem.violation(end) <= 1e-10 * max(problem.scale, 1.0)
    return end


def compare_with_nnls(cases, seed):
    rng, worst = np.random.default_rng(seed), 0.0
    for k in range(cases):
        m, n = int(rng.integers(1, 9)), int(rng.integers(2, 9))
        A, y = data(rng, KINDS[k % len(KINDS)], m, n)
        problem = on_simplex(A, y)
        start = rng.dirichlet(np.ones(n)) if k % 3 else np.eye(n)[int(rng.integers(n))]
        x = settled(problem, start)
        reference = naive.least_squares_on_simplex(A, y)
        size = max(0.5 * float(y @ y) + 0.5 * float((A**2).sum(axis=0).max()), 1e-300)
        worst = max(worst, (problem.objective(x) - problem.objective(reference)) / size)
        assert worst <= 1e-11, (k, KINDS[k % len(KINDS)], A.tolist(), y.tolist(), start.tolist())
        gap = convex_gap(problem, x)
        assert problem.objective(x) - problem.objective(reference) <= gap + 1e-12 * size


def test_least_squares_on_the_simplex_are_those_of_nnls():
    compare_with_nnls(scaled(400, 40), 0)


@pytest.mark.slow
def test_ten_thousand_more_are_those_of_nnls():
    compare_with_nnls(10_000, 1)


def test_points_with_kinks_and_bounds_are_the_best_of_all_faces(rng):
    for k in range(scaled(100, 8)):
        n = int(rng.integers(2, 4))
        A, y = data(rng, KINDS[k % len(KINDS)], int(rng.integers(1, 6)), n)
        lo, hi = -rng.random(n), 0.6 + rng.random(n)
        centre, cost = np.round(rng.uniform(-0.4, 0.4, n), 1), 0.3 * rng.random(n)
        h = cp.Bounds(lo, hi) + cp.AbsoluteDeviation(centre, cost)
        problem = cp.Problem(cp.LeastSquares(A, y), h, u=cp.Sum(1))
        least, _ = naive.tracking_on(A, y, np.arange(n), lo, hi, centre, cost)
        for x in (settled(problem, problem.start(k)), cp.minimize(problem).x):
            assert problem.objective(x) <= least + 1e-9 * max(1.0, least), (k, x)


def test_ridges_with_few_rows_are_those_of_nnls(rng):
    for k in range(scaled(300, 20)):
        n = int(rng.integers(6, 30))
        A, y = data(rng, KINDS[k % len(KINDS)], int(rng.integers(1, n // 3 + 1)), n)
        v, x0 = rng.uniform(0.0, 2.0, len(A)) if k % 2 else np.ones(len(A)), rng.uniform(-0.1, 0.2, n)
        rho = 10.0 ** rng.uniform(-6, 4) * (rng.uniform(0.1, 1.0, n) if k % 3 else np.ones(n))
        problem = cp.Problem(cp.LeastSquares(A, y, weights=v), cp.Bounds(0, 1) + cp.Ridge(x0, rho), u=cp.Sum(1))
        B = np.vstack([np.sqrt(v)[:, None] * A, np.diag(np.sqrt(rho))])
        z = np.append(np.sqrt(v) * y, np.sqrt(rho) * x0)
        reference = naive.least_squares_on_simplex(B, z)
        least, size = 0.5 * np.sum((B @ reference - z) ** 2), 0.5 * (z @ z + np.square(B).sum(axis=0).max())
        for x in (settled(problem, problem.start(k)), cp.minimize(problem).x):
            assert 0.5 * np.sum((B @ x - z) ** 2) <= least + 1e-11 * size, (k, KINDS[k % len(KINDS)])


def test_thin_roots_are_roots_of_the_hessian(rng):
    A, v, members = rng.standard_normal((3, 20)), rng.uniform(0.0, 2.0, 3), np.arange(1, 20, 2)
    f = cp.LeastSquares(A, 0.0, scale=2.5, weights=v)
    root = f.thin_root(members, 3)
    np.testing.assert_allclose(root.T @ root, f.hessian(members), atol=1e-12)
    assert f.thin_root(members, 4) is None and cp.Quadratic(np.eye(20)).thin_root(members, 3) is None


@pytest.mark.parametrize("kind", ["gaussian", "duplicates", "few rows"])
def test_larger_faces_are_those_of_slsqp(kind, rng):
    from scipy.optimize import minimize

    A, y = data(rng, kind, 30, 20)
    problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 0.15), u=cp.Sum(1))
    sum_to_one = {"type": "eq", "fun": lambda x: x.sum() - 1.0, "jac": lambda x: np.ones(20)}
    reference = minimize(
        lambda x: 0.5 * float(((A @ x - y) ** 2).sum()), np.full(20, 0.05), jac=lambda x: A.T @ (A @ x - y),
        bounds=[(0, 0.15)] * 20, constraints=[sum_to_one], method="SLSQP", options={"maxiter": 500, "ftol": 1e-14},
    )  # fmt: skip
    result = cp.minimize(problem)
    assert result.status is cp.Status.CERTIFIED and result.convex_gap <= result.tolerance
    assert result.objective == pytest.approx(reference.fun, rel=1e-6, abs=1e-9)
    assert result.objective <= reference.fun + 1e-9


def test_groups_keep_their_limits_on_the_way(rng):
    for _ in range(scaled(30, 4)):
        A, y = rng.standard_normal((10, 8)), rng.standard_normal(10)
        u = cp.Sum(1).within(["a"] * 4 + ["b"] * 4, {"a": (0.3, 0.4)})
        problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1), u=u)
        x = settled(problem, problem.start(0))
        corners = [
            problem.objective(np.concatenate([t * np.eye(4)[i], (1.0 - t) * np.eye(4)[j]]))
            for t in (0.3, 0.4)
            for i, j in itertools.product(range(4), repeat=2)
        ]
        assert problem.objective(x) <= min(corners) + 1e-9
        assert convex_gap(problem, x) <= 1e-8


def test_a_limit_on_the_names_holds_while_a_face_grows(rng):
    A = rng.standard_normal((60, 40))
    y = A @ rng.dirichlet(np.ones(40))
    for s in (1, 2, 5, 12, 39):
        problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1), cp.AtMost(s), cp.Sum(1))
        x = np.zeros(40)
        x[int(rng.integers(40))] = 1.0
        before = problem.objective(x)
        faces.descend_face(problem, x, 0.0, Limits())
        assert np.count_nonzero(x) <= s and problem.violation(x) <= 1e-12
        assert problem.objective(x) <= before + 1e-12


def test_many_names_with_a_small_penalty_are_certified(rng):
    A = rng.standard_normal((90, 60)) + rng.standard_normal((90, 1))
    y = A @ rng.dirichlet(np.ones(60)) + 0.1 * rng.standard_normal(90)
    for lam in (1e-3, 1e-2, 0.1, 1.0):
        problem = cp.problems.SIT(A, y, 5, lam)
        result = cp.minimize(problem)
        assert result.status is cp.Status.CERTIFIED
        assert naive_gap(problem, result.x) <= result.tolerance + 1e-9


def naive_gap(problem, x):
    """Return what the best pair gains, by a fine grid over every transfer."""
    best, at = 0.0, problem.objective(x)
    for i, j in itertools.permutations(range(0, len(x), 7), 2):
        for share in (0.001, 0.01, 0.1, 0.5, 1.0):
            z = x.copy()
            z[i], z[j] = x[i] + share * x[j], (1.0 - share) * x[j]
            best = max(best, at - problem.objective(z))
    return best


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("s", [1, 3, 8])
def test_the_dense_minimum_is_the_answer_where_it_holds_few(kind, s, rng):
    A, y = data(rng, kind, 6, 8)
    problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1), cp.AtMost(s), cp.Sum(1))
    result = cp.minimize(problem, method="search", work=4)
    dense = naive.least_squares_on_simplex(A, y)
    least = 0.5 * float(((A @ dense - y) ** 2).sum())
    size = 0.5 * float(y @ y) + 0.5 * float((A**2).sum(axis=0).max())
    assert np.count_nonzero(result.x) <= s and problem.violation(result.x) <= 1e-10
    assert result.objective >= least - 1e-11 * size
    if result.status is cp.Status.OPTIMAL:
        assert result.objective <= least + 1e-9 * size
        gap = result.support_gap if s < 8 else result.convex_gap
        assert gap <= result.tolerance and (result.convex_gap is None) == (s < 8)
    if s == 8:
        assert result.status is cp.Status.OPTIMAL


@pytest.mark.compiled
def test_trackers_of_all_names_end_at_the_minimum(rng):
    returns = 0.01 * (rng.standard_normal((60, 1)) + rng.standard_normal((60, 40)))
    index = returns @ rng.dirichlet(np.ones(40))
    tracker = cp.IndexTracker(40, random_state=0).fit(returns, index)
    assert tracker.result_.status is cp.Status.OPTIMAL
    dense = naive.least_squares_on_simplex(returns, index)
    assert tracker.result_.objective <= 0.5 * float(((returns @ dense - index) ** 2).sum()) + 1e-12


def test_the_dense_minimum_is_the_answer_with_costs_and_losses(rng):
    """Repairing the sum moves x by rounding; a proof for the point before was thrown away."""
    A = rng.standard_normal((30, 60))
    y = A @ rng.dirichlet(np.ones(60)) + 0.1 * rng.standard_normal(30)
    before = rng.dirichlet(np.ones(60))
    for f in (cp.LeastSquares(A, y), cp.Huber(A, y, 0.1)):
        for h in (cp.Bounds(0, 1), cp.Bounds(0, 1) + cp.AbsoluteDeviation(before, 0.01)):
            result = cp.minimize(cp.Problem(f, h, cp.AtMost(60), cp.Sum(1)), method="search", work=4)
            assert result.status is cp.Status.OPTIMAL and result.convex_gap <= result.tolerance

            def F(x, f=f, h=h):
                z = A @ x - y
                huber = np.where(np.abs(z) <= 0.1, 0.5 * z * z, 0.1 * np.abs(z) - 0.005)
                fit = (0.5 * z * z).sum() if isinstance(f, cp.LeastSquares) else huber.sum()
                return fit + (0.0 if isinstance(h, cp.Bounds) else 0.01 * np.abs(x - before).sum())

            assert result.objective == pytest.approx(F(result.x), rel=1e-12)
            # F is convex: no point between this one and any other is lower.
            for _ in range(300):
                other = rng.dirichlet(np.full(60, rng.choice([0.05, 1.0])))
                for t in (1e-3, 1e-2, 0.1, 1.0):
                    assert F(result.x + t * (other - result.x)) >= result.objective - result.tolerance


@pytest.mark.compiled
def test_more_than_three_thousand_columns_of_few_rows_end_at_the_minimum(rng):
    A = rng.standard_normal((20, 3200))
    for y in (A[:, :30] @ rng.dirichlet(np.ones(30)), rng.standard_normal(20)):
        result = cp.minimize(cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1), u=cp.Sum(1)))
        least = 0.5 * float(((A @ naive.least_squares_on_simplex(A, y) - y) ** 2).sum())
        assert result.status is cp.Status.CERTIFIED and result.convex_gap <= result.tolerance
        assert result.objective <= least + 1e-9


@pytest.mark.compiled
@pytest.mark.parametrize("seed", [1, 2])
def test_runs_end_once_neither_f_nor_the_gap_falls(seed):
    """F is 10¹⁴ times smaller than at the start, and the gap is rounding error: some rounds, not hundreds."""
    rng, n = np.random.default_rng(seed), 600
    A = rng.standard_normal((3, n))
    f, D = cp.LeastSquares(A, A @ rng.dirichlet(np.ones(n))), float((A * A).sum(axis=0).max())
    ridge = 1e-10 * D * rng.uniform(0.5, 2.0, n)
    problem, rounds = cp.Problem(f, cp.Bounds(-1, np.inf) + cp.Ridge(0.0, ridge), u=cp.Sum(1)), []
    with pytest.MonkeyPatch.context() as patch:
        one = faces._round
        patch.setattr(faces, "_round", lambda face, x, limits: rounds.append(face) or one(face, x, limits))
        result = cp.minimize(problem)
    border = np.ones((n, 1))
    system = np.block([[A.T @ A + np.diag(ridge), border], [border.T, np.zeros((1, 1))]])
    least = np.linalg.solve(system, np.append(A.T @ f.y, 1.0))[:n]
    assert (least > -1).all() and result.objective <= problem.objective(least) * (1 + 1e-6)
    assert len(rounds) <= 200

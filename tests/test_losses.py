"""f that is not quadratic: formulas, upper bounds, descent to certified points of the model, convex optima, messages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
import scipy.special

import counterpoise as cp
from conftest import scaled
from counterpoise.problem import Status
from naive import Case, frank_wolfe_gap, largest_gap, loss_model, loss_slope, loss_sum

KINDS = ["square", "huber", "downside", "huber downside", "logistic"]
LOSSES = KINDS[1:]
RULES = ["hybrid", "cyclic", "random", "greedy", "semi-greedy"]
DELTA = 0.3


def make(kind, A, y, v=None, delta=DELTA, gram=None):
    """The term of a kind; y holds the labels of a logistic loss."""
    if kind == "square":
        return cp.LeastSquares(A, y, weights=v, gram=gram)
    if kind == "huber":
        f = cp.Huber(A, y, delta, v)
    elif kind == "downside":
        f = cp.Downside(A, y, v)
    elif kind == "huber downside":
        f = cp.HuberDownside(A, y, delta, v)
    else:
        f = cp.Logistic(A, y, v)
    f.gram = f.gram if gram is None else gram
    return f


def data(kind, rng, m=15, n=8):
    A = rng.standard_normal((m, n)) + 0.5 * rng.standard_normal((m, 1))
    y = np.where(rng.random(m) < 0.5, -1.0, 1.0) if kind == "logistic" else rng.standard_normal(m)
    return A, y, rng.uniform(0.0, 2.0, m) * (rng.random(m) < 0.8)


def problem_of(kind, rng, g=None, u=None, m=15, n=8, **options):
    A, y, v = data(kind, rng, m, n)
    return cp.Problem(make(kind, A, y, v, **options), cp.Bounds(0, np.inf), g, u or cp.Sum(1)), (kind, A, y, v)


def forms(A):
    return {
        "dense": A,
        "single": A.astype(np.float32),
        "sparse": sp.csr_array(A),
        "single sparse": sp.csc_array(A.astype(np.float32)),
    }


@pytest.mark.parametrize("gram", [True, False])
@pytest.mark.parametrize("form", ["dense", "single", "sparse", "single sparse"])
@pytest.mark.parametrize("kind", KINDS)
def test_value_and_gradient_follow_the_formula(kind, form, gram, rng):
    for _ in range(scaled(30, 3)):
        A, y, v = data(kind, rng, 9, 6)
        A = A * (rng.random(A.shape) < 0.7)
        A = A.astype(np.float32).astype(float)
        f, x = make(kind, forms(A)[form], y, v, gram=gram), rng.standard_normal(6) * (rng.random(6) < 0.8)
        assert f.value(x) == pytest.approx(loss_sum(kind, A, y, v, x, DELTA), rel=1e-12, abs=1e-13)
        np.testing.assert_allclose(f.gradient(x), loss_slope(kind, A, y, v, x, DELTA), atol=1e-12)
        step = 1e-6 * rng.standard_normal(6)
        change = loss_sum(kind, A, y, v, x + step, DELTA) - loss_sum(kind, A, y, v, x - step, DELTA)
        assert 2.0 * f.gradient(x) @ step == pytest.approx(change, abs=1e-10)
        np.testing.assert_allclose(f.diagonal, np.diag(loss_model(kind, A, y, v, x)[0]), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", LOSSES)
def test_curvature_is_the_second_derivative_where_there_is_one(kind, rng):
    z = np.concatenate([rng.standard_normal(400), [-30.0, 30.0]])
    y = np.where(rng.random(len(z)) < 0.5, -1.0, 1.0)
    phi = make(kind, np.ones((len(z), 2)), y).phi
    smooth = (np.abs(np.abs(z) - DELTA) > 1e-3) & (np.abs(z) > 1e-3)
    change = (phi.slope(z + 1e-5) - phi.slope(z - 1e-5)) / 2e-5
    np.testing.assert_allclose(phi.curvature(z)[smooth], change[smooth], atol=1e-7)
    assert (phi.curvature(z) >= 0.0).all() and (phi.curvature(z) <= phi.bound).all()


@pytest.mark.parametrize("gram", [True, False])
@pytest.mark.parametrize("kind", LOSSES)
def test_the_model_touches_f_and_is_nowhere_below_it(kind, gram, rng):
    for _ in range(scaled(60, 3)):
        A, y, v = data(kind, rng, 9, 6)
        f, x = make(kind, A, y, v, gram=gram), rng.standard_normal(6)
        for mix in (1.0, 0.1, 0.0):
            q, constant = f.model(x, mix)
            if mix > 0.0:
                assert q.value(x) + constant == pytest.approx(f.value(x), rel=1e-11, abs=1e-12)
            np.testing.assert_allclose(q.gradient(x), f.gradient(x), atol=1e-12)
            np.testing.assert_allclose(q.Q @ x + q.p, f.gradient(x), atol=1e-11)
        q, constant = f.model(x)
        Q, p = loss_model(kind, A, y, v, x, DELTA)
        np.testing.assert_allclose(q.Q, Q, atol=1e-12)
        np.testing.assert_allclose(q.p, p, atol=1e-12)
        for _ in range(scaled(60, 5)):
            z = x + rng.standard_normal(6) * 10.0 ** rng.uniform(-3, 2)
            assert f.value(z) <= q.value(z) + constant + 1e-11 * (1.0 + q.value(z))


@pytest.mark.parametrize("kind", LOSSES)
def test_the_local_model_has_the_local_curvature(kind, rng):
    A, y, v = data(kind, rng)
    f, x = make(kind, A, y, v), rng.standard_normal(8)
    d = v * f.phi.curvature(A @ x if kind == "logistic" else A @ x - y)
    np.testing.assert_allclose(f.model(x, 0.0)[0].Q, A.T @ (d[:, None] * A), atol=1e-4)
    members = np.array([1, 4, 6])
    hessian = f.model(x, 0.25)[0].hessian(members)
    mixed = d + 0.25 * (f.phi.bound * v - d)
    np.testing.assert_allclose(hessian, (A.T @ (mixed[:, None] * A))[np.ix_(members, members)], atol=1e-12)


def model_case(description, x, g, delta=DELTA):
    """The upper bound of F at x, as a reference knows it."""
    Q, p = loss_model(*description, x, delta)
    zero, none = np.zeros(len(x)), np.zeros((0, len(x)))
    name = {"TopSum": "top", "Norm2": "norm", "ConcaveQuadratic": "square"}.get(type(g).__name__, "")
    lam, s = (0.0, 1) if g is None else (g.lam, getattr(g, "s", 1))
    return Case(Q, p, zero, np.full(len(x), np.inf), zero, none, none, name, lam, s)


@pytest.mark.parametrize("g", [None, cp.TopSum(2, 3.0), cp.Norm2(1.5), cp.ConcaveQuadratic(0.8)])
@pytest.mark.parametrize("kind", LOSSES)
def test_scans_of_pairs_are_those_of_the_model(kind, g, rng):
    for _ in range(scaled(12, 1)):
        problem, description = problem_of(kind, rng, g, n=5)
        x = problem.start(int(rng.integers(1000)))
        x = problem.project(x * (rng.random(5) < 0.7))
        case = model_case(description, x, g)
        expected, allowed = largest_gap(case, x, "line"), 1e-7 * case.size(x)
        for scan in ("pruned", "all"):
            assert cp.certify(problem, x, scan=scan).cws_gap == pytest.approx(expected, abs=allowed)


@pytest.mark.parametrize("kind", LOSSES)
def test_scans_of_pairs_on_the_sphere(kind, rng):
    for _ in range(scaled(12, 1)):
        problem, description = problem_of(kind, rng, cp.TopSum(2, 3.0), cp.Sphere(), n=5)
        x = problem.start(int(rng.integers(1000)))
        case = model_case(description, x, problem.g)
        expected = largest_gap(case, x, "arc")
        assert cp.certify(problem, x).cws_gap == pytest.approx(expected, abs=1e-7 * case.size(x))


def assert_certified(problem, description, result, on="line", delta=DELTA):
    """A certificate of the model, checked by a grid, and a history that never rises."""
    assert result.status is Status.CERTIFIED
    assert problem.violation(result.x) <= 1e-12
    assert (np.diff(result.history[:, 2]) <= 0.0).all()
    g = None if problem.g.lam == 0.0 else problem.g
    case = model_case(description, result.x, g, delta)
    allowed = result.tolerance + 1e-8 * case.size(result.x)
    assert largest_gap(case, result.x, on) <= allowed
    assert result.cws_gap <= result.tolerance
    penalty = 0.0 if g is None else g.value(result.x)
    assert result.objective == pytest.approx(
        loss_sum(*description, result.x, delta) + penalty, abs=1e-12 + 1e-12 * allowed
    )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", LOSSES)
def test_every_rule_ends_at_a_certified_point_of_the_model(kind, rule, rng):
    for _ in range(scaled(4, 1)):
        problem, description = problem_of(kind, rng, cp.TopSum(3, float(rng.choice([0.05, 1.0, 30.0]))))
        assert_certified(problem, description, cp.minimize(problem, working_set=rule))


@pytest.mark.parametrize(
    "options", [{"k": 3}, {"k": 4}, {"method": "bcd-l", "k": 4}, {"method": "bcd-l", "k": 2}], ids=str
)
@pytest.mark.parametrize("kind", LOSSES)
def test_blocks(kind, options, rng):
    for g in (None, cp.TopSum(3, 2.0), cp.ConcaveQuadratic(0.3)):
        problem, description = problem_of(kind, rng, g)
        result = cp.minimize(problem, **options)
        assert_certified(problem, description, result)
        blocks = cp.certify(problem, result.x, k=3)
        assert blocks.blocks_tried == 56
        if options["k"] > 2 and "method" not in options:
            assert blocks.block_gap <= 100 * result.tolerance


@pytest.mark.parametrize("kind", LOSSES)
def test_on_the_sphere(kind, rng):
    problem, description = problem_of(kind, rng, cp.TopSum(3, 2.0), cp.Sphere())
    for working_set in ("hybrid", "cyclic"):
        assert_certified(problem, description, cp.minimize(problem, working_set=working_set), "arc")
    assert_certified(problem, description, cp.minimize(problem, method="bcd-l", k=4), "arc")


@pytest.mark.parametrize("g", [cp.Norm2(1.0), cp.ConcaveQuadratic(1.0)])
@pytest.mark.parametrize("kind", LOSSES)
def test_binary_penalties(kind, g, rng):
    A, y, v = data(kind, rng)
    threshold = cp.certify(cp.Problem(make(kind, A, y, v), cp.Bounds(-1, 1), g, cp.Sum(0)), np.zeros(8)).exact_lam
    problem = cp.Problem(make(kind, A, y, v), cp.Bounds(-1, 1), type(g)(1.01 * threshold), cp.Sum(0))
    result = cp.minimize(problem)
    assert result.status is Status.CERTIFIED
    assert np.count_nonzero(np.abs(result.x) < 1 - 1e-9) <= 1


def reference(kind, A, y, v, lo, hi, c, delta=DELTA):
    """The least f on {lo ≤ x ≤ hi, 1ᵀx = c}, by SLSQP from several starts; convex, so that the lowest is best."""
    best = np.inf
    for seed in range(3):
        start = np.clip(np.random.default_rng(seed).dirichlet(np.ones(A.shape[1])) * c, lo, hi)
        found = scipy.optimize.minimize(
            lambda x: loss_sum(kind, A, y, v, x, delta),
            start,
            jac=lambda x: loss_slope(kind, A, y, v, x, delta),
            bounds=list(zip(lo, hi, strict=True)),
            constraints={"type": "eq", "fun": lambda x: x.sum() - c, "jac": np.ones_like},
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 1000},
        )
        if abs(found.x.sum() - c) < 1e-9:
            best = min(best, found.fun)
    return best


@pytest.mark.parametrize("hi", [1.0, 0.3])
@pytest.mark.parametrize("kind", LOSSES)
def test_convex_problems_are_solved(kind, hi, rng):
    for size in (0.1, 1.0, 10.0):
        A, y, v = data(kind, rng, 20, 10)
        A, delta = size * A, float(rng.choice([0.03, 0.3, 3.0]))
        lo, hi = np.zeros(10), np.full(10, hi)
        problem = cp.Problem(make(kind, A, y, v, delta), cp.Bounds(lo, hi), u=cp.Sum(1))
        result = cp.minimize(problem)
        assert result.status is Status.CERTIFIED
        assert result.convex_gap <= result.tolerance
        expected = reference(kind, A, y, v, lo, hi, 1.0, delta)
        assert result.objective <= expected + 1e-8 * (1.0 + abs(expected))
        gap = frank_wolfe_gap(loss_slope(kind, A, y, v, result.x, delta), result.x, lo, hi, 1.0)
        assert gap <= 2.0 * result.tolerance + 1e-12 * size**2
        assert cp.certify(problem, result.x).convex_gap == pytest.approx(gap, abs=1e-12 * (1 + size**2))


@pytest.mark.parametrize("kind", LOSSES)
def test_kinks_and_slopes_of_h(kind, rng):
    A, y, v = data(kind, rng, 20, 6)
    x0, cost, w = rng.dirichlet(np.ones(6)), rng.uniform(0.0, 1.0, 6), rng.standard_normal(6)
    h = cp.Bounds(0, 1) + cp.Linear(w) + cp.AbsoluteDeviation(x0, cost)
    result = cp.minimize(cp.Problem(make(kind, A, y, v), h, u=cp.Sum(1)))
    assert result.status is Status.CERTIFIED and result.convex_gap <= result.tolerance

    def F(x):
        return loss_sum(kind, A, y, v, x, DELTA) + w @ x + cost @ np.abs(x - x0)

    for _ in range(scaled(2000, 50)):
        z = rng.dirichlet(np.full(6, rng.choice([0.2, 1.0])))
        for t in (1e-4, 1e-2, 1.0):
            assert F(result.x + t * (z - result.x)) >= result.objective - 2.0 * result.tolerance - 1e-12


@pytest.mark.parametrize("method", ["psg", "mscr", "pdca"])
@pytest.mark.parametrize("kind", LOSSES)
def test_baselines_reach_the_convex_optimum(kind, method, rng):
    problem, _ = problem_of(kind, rng)
    best = cp.minimize(problem).objective
    strong = {"psg": {"step": "grid"}, "mscr": {"inner": "exact"}, "pdca": {"extrapolate": True}}[method]
    for options in ({}, strong):
        # Subgradient steps go on as long as they may.
        limit = {"max_iter": 2000} if method == "psg" else {}
        result = cp.minimize(problem, method=method, **options, **limit)
        assert result.objective >= best - 1e-9
        assert problem.violation(result.x) <= 1e-12
        if options and method != "psg":
            assert result.objective <= best + 1e-6 * (1.0 + abs(best))
        if method != "psg" and not options.get("extrapolate"):
            assert (np.diff(result.history[:, 2]) <= 0.0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_step_of_the_baselines_is_safe(kind, rng):
    from counterpoise.solvers.baselines import Model

    for m, n in ((15, 8), (6, 9)):
        problem, (_, A, y, v) = problem_of(kind, rng, m=m, n=n)
        Q = loss_model(kind, A, y, v, np.zeros(n))[0]
        assert Model(problem).norm == pytest.approx(np.linalg.eigvalsh(Q)[-1], rel=1e-9)


@pytest.mark.parametrize("kind", LOSSES)
def test_a_hybrid_goes_on_from_where_the_baseline_ended(kind, rng):
    problem, description = problem_of(kind, rng, cp.TopSum(3, 2.0))
    first = cp.minimize(problem, method="pdca")
    second = cp.minimize(problem, first.x)
    assert second.objective <= first.objective + 1e-12
    assert_certified(problem, description, second)


@pytest.mark.compiled
def test_many_columns_without_a_gram_matrix(rng):
    A, y = rng.standard_normal((20, 7000)), rng.standard_normal(20)
    problem = cp.Problem(cp.Huber(A, y, 0.2), cp.Bounds(0, 1), cp.TopSum(4, 1e3), cp.Sum(1))
    x0 = np.zeros(7000)
    x0[:4] = 0.25
    result = cp.minimize(problem, x0)
    assert not problem.f.gram and result.status is Status.CERTIFIED
    assert np.count_nonzero(result.x) <= 4 and result.support_gap <= result.tolerance
    assert cp.certify(problem, result.x).cws_gap <= result.tolerance


def test_paths(rng):
    problem, _ = problem_of("huber", rng, cp.TopSum(3, 20.0))
    found = cp.path(problem, s=[2, 3, 4])
    assert all(result.status is Status.CERTIFIED for _, result in found)
    assert (np.diff(found.objectives) <= 1e-9).all()


@pytest.mark.parametrize("kind", LOSSES)
def test_a_large_lam_makes_points_sparse(kind, rng):
    for seed in range(scaled(5, 1)):
        A, y, v = data(kind, rng)
        problem = cp.Problem(make(kind, A, y, v), cp.Bounds(0, np.inf), cp.TopSum(3, 1.0), cp.Sum(1))
        threshold = cp.certify(problem, problem.start(0)).exact_lam
        for _ in range(scaled(200, 5)):
            slope = loss_slope(kind, A, y, v, rng.dirichlet(np.full(8, 0.3)), DELTA)
            assert np.ptp(slope) <= threshold
        result = cp.minimize(problem.variant(lam=1.01 * threshold), seed=seed)
        assert result.status is Status.CERTIFIED and np.count_nonzero(result.x) <= 3


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["huber", "downside", "huber downside"])
def test_a_limited_number_of_nonzeros_is_kept_by_newton_steps(kind):
    """Between two supports there are too many non-zeros; steps that ended there were lost, with all that they gained."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((60, 1)) + rng.standard_normal((60, 80))
        y = A @ rng.dirichlet(np.ones(80))
        problem = cp.Problem(make(kind, A, y, delta=0.1), cp.Bounds(0, 1), cp.AtMost(30), cp.Sum(1))
        result = cp.minimize(problem, seed=seed)
        assert result.status is Status.CERTIFIED and np.count_nonzero(result.x) <= 30
        assert result.x.min() >= 0.0 and result.x.sum() == pytest.approx(1.0, abs=1e-12)
        held = np.flatnonzero(result.x)
        best = reference(kind, A[:, held], y, np.ones(60), np.zeros(len(held)), np.ones(len(held)), 1.0, 0.1)
        assert result.objective <= best + 1e-7 * (1.0 + abs(best))


@pytest.mark.parametrize("form", ["single", "sparse", "single sparse"])
@pytest.mark.parametrize("gram", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_every_form_of_data_reaches_a_certified_point(kind, gram, form, rng):
    A, y, v = data(kind, rng, 12, 7)
    A = A.astype(np.float32).astype(float)
    h, g, u = cp.Bounds(0, 1), cp.TopSum(3, 2.0), cp.Sum(1)
    dense, other = (cp.Problem(make(kind, B, y, v, gram=gram), h, g, u) for B in (A, forms(A)[form]))
    result = cp.minimize(other)
    assert result.status is Status.CERTIFIED
    assert cp.certify(dense, result.x).cws_gap <= 2.0 * result.tolerance
    assert dense.objective(result.x) == pytest.approx(result.objective, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_count_rows(kind, rng):
    A, y, _ = data(kind, rng, 6, 5)
    counts = np.array([0, 1, 2, 3, 0, 1])
    x = rng.dirichlet(np.ones(5))
    weighted, repeated = make(kind, A, y, counts), make(kind, np.repeat(A, counts, axis=0), np.repeat(y, counts))
    assert weighted.value(x) == pytest.approx(repeated.value(x))
    np.testing.assert_allclose(weighted.gradient(x), repeated.gradient(x), atol=1e-13)
    ends = [
        cp.minimize(cp.Problem(f, cp.Bounds(0, 1), cp.TopSum(2, 5.0), cp.Sum(1))).objective
        for f in (weighted, repeated)
    ]
    assert ends[0] == pytest.approx(ends[1], rel=1e-7)
    assert make(kind, A, y, 2.0).value(x) == pytest.approx(2.0 * make(kind, A, y).value(x))


@pytest.mark.parametrize("kind", KINDS)
def test_degenerate_data(kind, rng):
    A, y, _ = data(kind, rng, 10, 6)
    cases = {
        "duplicate columns": (np.repeat(A[:, :3], 2, axis=1), y, None),
        "zero rows": (np.vstack([A, np.zeros((3, 6))]), np.concatenate([y, y[:3]]), None),
        "zero data": (np.zeros((4, 6)), np.ones(4), None),
        "no weight": (A, y, np.zeros(10)),
        "large": (1e8 * A, y if kind == "logistic" else 1e8 * y, None),
        "small": (1e-8 * A, y if kind == "logistic" else 1e-8 * y, None),
        "one row": (A[:1], y[:1], None),
    }
    for name, (B, target, v) in cases.items():
        for g in (None, cp.TopSum(2, 1.0)):
            delta = 0.3 * max(float(np.abs(B).max()), 1e-3)
            problem = cp.Problem(make(kind, B, target, v, delta), cp.Bounds(0, 1), g, cp.Sum(1))
            result = cp.minimize(problem)
            assert result.status is Status.CERTIFIED, (name, g)
            assert cp.certify(problem, result.x).cws_gap <= result.tolerance


@pytest.mark.parametrize("delta", [1e-9, 1e-4, 1e4, 1e9])
@pytest.mark.parametrize("kind", ["huber", "huber downside"])
def test_corners_near_zero_and_far_away(kind, delta, rng):
    A, y, v = data(kind, rng, 20, 6)
    problem = cp.Problem(make(kind, A, y, v, delta), cp.Bounds(0, 1), u=cp.Sum(1))
    result = cp.minimize(problem)
    assert result.status is Status.CERTIFIED and result.convex_gap <= result.tolerance
    if delta > 1.0:
        like = cp.LeastSquares(A, y, weights=v) if kind == "huber" else cp.Downside(A, y, v)
        expected = cp.minimize(cp.Problem(like, cp.Bounds(0, 1), u=cp.Sum(1))).objective
        assert result.objective == pytest.approx(expected, rel=1e-8)


def test_separable_labels(rng):
    A = rng.standard_normal((30, 6))
    labels = np.sign(A @ np.array([1.0, 0.5, 0.0, 0.0, 0.0, 0.0]))
    for size in (1.0, 30.0, 1e4):
        for g in (None, cp.TopSum(2, 5.0)):
            result = cp.minimize(cp.Problem(cp.Logistic(size * A, labels), cp.Bounds(0, 1), g, cp.Sum(1)))
            assert result.status is Status.CERTIFIED
            assert np.isfinite(result.objective)


def test_a_downside_of_zero_is_found(rng):
    A = rng.standard_normal((20, 8))
    y = A @ rng.dirichlet(np.ones(8)) - 0.05
    result = cp.minimize(cp.Problem(cp.Downside(A, y), cp.Bounds(0, 1), u=cp.Sum(1)))
    assert result.status is Status.CERTIFIED
    assert 0.0 <= result.objective <= result.tolerance


def test_limits_callbacks_and_seeds(rng, monkeypatch):
    problem, _ = problem_of("huber", rng, cp.TopSum(4, 3.0), m=40, n=30)
    assert cp.minimize(problem, max_iter=7).nit == 7
    assert cp.minimize(problem, max_iter=7).status is Status.ITERATION_LIMIT
    assert cp.minimize(problem, max_time=0.0).status is Status.TIME_LIMIT
    seen = []
    stopped = cp.minimize(problem, callback=lambda progress: seen.append(progress.objective) or len(seen) == 3)
    assert stopped.status is Status.STOPPED_BY_CALLBACK and len(seen) == 3
    one, two = (cp.minimize(problem, seed=3) for _ in range(2))
    # However long the slices are in which a run works, its steps are the same.
    monkeypatch.setattr("counterpoise.solvers.run.EPOCH_SECONDS", 1e-5)
    for other in (two, cp.minimize(problem, seed=3)):
        np.testing.assert_array_equal(one.x, other.x)
    again = cp.minimize(problem, one.x)
    assert again.objective <= one.objective + one.tolerance


class LogCosh:
    """φ(z) = log cosh z."""

    bound = 1.0

    def value(self, z):
        return np.logaddexp(z, -z) - np.log(2.0)

    def slope(self, z):
        return np.tanh(z)

    def curvature(self, z):
        return 1.0 / np.cosh(np.minimum(np.abs(z), 300.0)) ** 2


def test_a_loss_of_ones_own(rng):
    A, y = rng.standard_normal((20, 8)), rng.standard_normal(20)
    problem = cp.Problem(cp.Loss(LogCosh(), A, y), cp.Bounds(0, 1), u=cp.Sum(1))
    result = cp.minimize(problem)
    found = scipy.optimize.minimize(
        lambda x: np.log(np.cosh(A @ x - y)).sum(),
        np.full(8, 0.125),
        jac=lambda x: A.T @ np.tanh(A @ x - y),
        bounds=[(0, 1)] * 8,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1.0},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert result.objective == pytest.approx(found.fun, rel=1e-8)


def broken(**parts):
    return type(
        "Broken", (LogCosh,), {name: staticmethod(value) if callable(value) else value for name, value in parts.items()}
    )()


A3, Y3 = np.arange(6.0).reshape(3, 2), np.arange(3.0)


@pytest.mark.parametrize(
    ("make_bad", "sentence"),
    [
        (lambda: cp.Huber(A3, Y3, 0.0), "delta is 0; it must be positive"),
        (lambda: cp.HuberDownside(A3, Y3, -1.0), "delta is -1; it must be positive"),
        (lambda: cp.Huber(A3, Y3, np.nan), "delta is nan; it must be finite"),
        (lambda: cp.Huber(A3, Y3, "one"), "delta is 'one'; it must be one real number"),
        (lambda: cp.Huber(A3, Y3, True), "delta is True; it must be one real number"),
        (lambda: cp.Downside(A3, Y3, ties=2), "ties is 2; it must be between 0 and 1"),
        (lambda: cp.HuberDownside(A3, Y3, 1.0, ties=-1e-9), "ties is -1e-09; it must be between 0 and 1"),
        (lambda: cp.Downside(A3, Y3, 1e-200), "the largest weight is 1e-200, which makes the squares of the data as"),
        (
            lambda: cp.Logistic(A3, [True, True, True]),
            "labels has dtype bool; every label must be 1 or −1, such as np",
        ),
        (lambda: cp.Logistic(A3, [1, 0, -1]), "labels contains 0 at 1; every label must be 1 or −1"),
        (lambda: cp.Logistic(A3, [1, -1]), r"labels has shape \(2,\); it must be \(3,\)"),
        (lambda: cp.Logistic(A3, [1, -1, np.nan]), "labels contains nan at 2"),
        (lambda: cp.Logistic(A3[0], [1, -1]), "A has 1 dimension"),
        (lambda: cp.Downside(A3, Y3, [1, -2, 1]), "weights contains -2 at 1; the weight of a row must be at least 0"),
        (lambda: cp.LeastSquares(A3, Y3, weights=[1, 2]), r"weights has shape \(2,\); it must be \(3,\)"),
        (lambda: cp.LeastSquares(A3, Y3, weights=[1, np.inf, 1]), "weights contains inf at 1"),
        (lambda: cp.LeastSquares(A3, Y3, weights=1e300), "weights has entries as large as 1e[+]300"),
        (lambda: cp.Downside(A3, Y3[:2]), r"y has shape \(2,\); it must be \(3,\)"),
        (lambda: cp.Downside(np.where(A3 > 3, np.nan, A3), Y3), r"A contains nan at \(2, 0\)"),
        (
            lambda: cp.Loss(np.tanh, A3, Y3),
            r"phi is of type ufunc; it must be an object with value\(z\), slope\(z\), curvature\(z\) and bound",
        ),
        (lambda: cp.Loss(broken(bound=0.0), A3, Y3), "the bound of Broken is 0; it must be positive"),
        (lambda: cp.Loss(broken(bound=0.5), A3, Y3), "curvature of Broken reaches from .* its bound, 0.5"),
        (lambda: cp.Loss(broken(slope=np.sin), A3, Y3), "value, slope and bound of Broken do not fit"),
        (lambda: cp.Loss(broken(value=lambda z: z[:1]), A3, Y3), r"Broken.value\(z\) has shape \(1,\)"),
        (
            lambda: cp.Loss(broken(curvature=3.0), A3, Y3),
            r"phi is of type Broken without curvature\(z\); it must be an",
        ),
        (
            lambda: cp.Loss(broken(value=lambda z: max(z, 0)), A3, Y3),
            r"Broken\.value\(z\) fails for a vector z .* NumPy",
        ),
        (lambda: cp.Problem(LogCosh(), u=cp.Sum(1)), "f is of type LogCosh; it must be LeastSquares.* or Loss"),
    ],
)
def test_bad_input(make_bad, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        make_bad()


@pytest.mark.parametrize("kind", KINDS)
def test_another_problem_with_the_same_f_has_values_of_its_own(kind, rng):
    """f keeps the last product Ax; a sum with weights rescales A."""
    A, y, v = data(kind, rng)
    f, x, a = make(kind, A, y, v), rng.dirichlet(np.ones(8)), rng.uniform(0.5, 2.0, 8)
    f.gradient(x)
    problem = cp.Problem(f, cp.Bounds(0, np.inf), u=cp.Sum(1, weights=a))
    assert problem.unweighted.objective(x) == pytest.approx(loss_sum(kind, A / a, y, v, x, DELTA), rel=1e-12, abs=1e-13)
    assert problem.objective(x) == pytest.approx(loss_sum(kind, A, y, v, x, DELTA), rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("method", ["exact"])
def test_methods_that_need_a_quadratic_f_say_so(method, rng):
    problem, _ = problem_of("huber", rng, cp.TopSum(3, 1e3))
    with pytest.raises(ValueError, match=f"method '{method}' needs a quadratic f, which Huber is not"):
        cp.minimize(problem, method=method)


def check_optimal(A, labels, low, total):
    """Compare a convex logistic problem with the minimum of a tangent of F over the box and the sum."""
    result = cp.minimize(cp.Problem(cp.Logistic(A, labels), cp.Bounds(low, 1), u=cp.Sum(total)))
    assert result.status is Status.CERTIFIED and result.convex_gap <= result.tolerance
    z, n = A @ result.x, A.shape[1]
    value, slope = np.logaddexp(0.0, -labels * z).sum(), A.T @ (-labels * scipy.special.expit(-labels * z))
    vertex, left = np.full(n, low), total - n * low
    for i in np.argsort(slope):
        vertex[i] += min(left, 1.0 - low)
        left -= vertex[i] - low
    assert result.objective == pytest.approx(value, rel=1e-9)
    assert (slope - np.median(slope)) @ (result.x - vertex) <= 2.0 * result.tolerance <= 1e-4 * value


@pytest.mark.parametrize("low, total", [(-1.0, 1.0), (-1.0, 0.0)])
def test_columns_of_different_scale(low, total):
    """The rounding error of the sum is not given to a small coordinate, whose column is large."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((400, 100)) * np.logspace(0.0, 6.0, 100)
    check_optimal(A, np.where(rng.random(400) < 0.5, 1.0, -1.0), low, total)


@pytest.mark.parametrize("low", [0.0, -1.0])
@pytest.mark.parametrize("size", [1e6, 1e8])
def test_logistic_with_large_scores(size, low):
    """Newton's method alone ended 0.02 % to 25 % above the minimum, where most rows are far from their corner."""
    rng = np.random.default_rng(2)
    A = rng.standard_normal((400, 100))
    check_optimal(size * A, np.where(rng.random(400) < 0.5, 1.0, -1.0), low, 1.0)


class SoftAbs:
    """√(1 + z²) − 1, with a curvature that may be wrong by a factor."""

    bound = 1.0

    def __init__(self, factor=1.0, error=None):
        self.factor, self.error = factor, error

    def value(self, z):
        return np.sqrt(1.0 + z * z) - 1.0

    def slope(self, z):
        if self.error is not None:
            raise self.error
        return z / np.sqrt(1.0 + z * z)

    def curvature(self, z):
        return self.factor * (1.0 + z * z) ** -1.5


def test_a_curvature_that_is_not_the_derivative_of_the_slope_is_refused(rng):
    A, y = rng.standard_normal((20, 5)), rng.standard_normal(20)
    cp.Loss(SoftAbs(), A, y)
    for factor in (0.0, 0.5, 0.9):
        with pytest.raises(ValueError, match=r"the curvature of SoftAbs at z = .*; it must be φ″, the derivative"):
            cp.Loss(SoftAbs(factor), A, y)
    with pytest.raises(RuntimeError, match=r"SoftAbs\.slope\(z\) raised KeyError: 'key'"):
        cp.Loss(SoftAbs(error=KeyError("key")), A, y)


@pytest.mark.parametrize("size", [0.0, 1e-9, 1.0, 1e6])
def test_a_curvature_may_jump(size, rng):
    A, y = rng.standard_normal((20, 5)), size * rng.standard_normal(20)
    for delta in 10.0 ** np.arange(-9, 9):
        for f in (cp.Huber(A, y, delta), cp.HuberDownside(A, y, delta, ties=1e-6), cp.Downside(A, y)):
            assert type(cp.Loss(f.phi, A, y).phi) is type(f.phi)


class Late(NamedTuple):
    """½z², whose slope fails once ``after`` slopes have been computed: an error of a run, not of the construction."""

    count: list
    after: float = np.inf
    bound = 1.0

    def value(self, z):
        return 0.5 * z * z

    def slope(self, z):
        self.count.append(1)
        if len(self.count) > self.after:
            raise KeyError("rate")
        return z

    def curvature(self, z):
        return np.ones_like(z)


@pytest.mark.parametrize("method", ["bcd-g", "swap", "search", "bcd-l"])
def test_an_error_in_a_loss_during_a_run_names_it(rng, method):
    A, y, seen = rng.standard_normal((12, 6)), rng.standard_normal(12), []
    cp.Loss(Late(seen), A, y)
    built = len(seen)
    for later in (1, 3):
        f = cp.Loss(Late([], built + later), A, y)
        problem = cp.Problem(f, cp.Bounds(0, 1), cp.AtMost(3), cp.Sum(1))
        with pytest.raises(RuntimeError, match=r"Late.slope\(z\) raised KeyError: 'rate'"):
            cp.minimize(problem, method=method)

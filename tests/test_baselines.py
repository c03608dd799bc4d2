"""PSG, MSCR and PDCA: their iterates, what they converge to, limits, settings, messages."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

import counterpoise as cp
from conftest import make_problem, scaled
from counterpoise.certificates import critical_residual
from counterpoise.problems import NNSPCA, SIT
from counterpoise.solvers import baselines, drive
from counterpoise.solvers.baselines import STEP_GRID, Model, Momentum, cheapest_point, mscr, pdca, psg
from naive import case_of, concave_slope, mscr_points, pdca_points, project_line, psg_points

NAMES = ["SIT", "NNSPCA", "DCPB1", "DCPB2"]
SETTINGS = {
    "psg": (psg, {}),
    "psg-grid": (psg, {"step": "grid"}),
    "mscr": (mscr, {}),
    "mscr-convex": (mscr, {"split": "convex"}),
    "mscr-exact": (mscr, {"inner": "exact", "split": "convex"}),
    "pdca": (pdca, {}),
    "pdca-e": (pdca, {"extrapolate": True}),
}


class Instance:
    """A small random problem with its reference."""

    def __init__(self, name, rng, n=12, m=15, lam=30.0, s=4):
        self.A, self.y = rng.standard_normal((m, n)), rng.standard_normal(m)
        self.problem = make_problem(name, self.A, self.y, s, 2 - n % 2, lam)
        self.case = case_of(name, self.A, self.y, lam, s)
        self.c = {"SIT": 1.0, "NNSPCA": None}.get(name, 2.0 - n % 2)
        self.norm = np.linalg.norm(self.A, 2) ** 2
        self.size = self.case.size(self.problem.start(0))


def last_point(method, problem, count, **options):
    """The last recorded point after ``count`` iterations."""
    seen = []
    method(problem, max_iter=count, callback=lambda p: seen.append(p.x), **options)
    return seen[-1]


def rules_for_ties(name):
    """The rules that the g of a problem has; −λ‖x‖ has ties at 0 only, where no start is."""
    return ["index", "slope"] if name in ("SIT", "NNSPCA") else [None]


@pytest.mark.parametrize("lam", [0.5, 30.0])
@pytest.mark.parametrize(("name", "ties"), [(name, ties) for name in NAMES for ties in rules_for_ties(name)])
class TestIteratesAreTheReferences:
    @pytest.mark.parametrize("step", [0.01, 0.3])
    def test_psg(self, name, ties, lam, step, rng):
        at = Instance(name, rng, lam=lam)
        points = psg_points(at.case, at.problem.start(2), step, 100, at.c, ties)
        for count in (1, 5, 16):
            found = last_point(psg, at.problem, count, step=step, ties=ties, seed=2, tol=0.0)
            np.testing.assert_allclose(found, points[count], atol=1e-10)
        scored = [*points[::16], points[100]]
        best = min(scored, key=at.case.value)
        result = psg(at.problem, max_iter=100, step=step, ties=ties, seed=2, tol=0.0)
        assert at.case.value(result.x) == pytest.approx(at.case.value(best), abs=1e-10 * at.size)

    def test_mscr(self, name, ties, lam, rng):
        at = Instance(name, rng, lam=lam)
        L = 0.0 if name == "NNSPCA" else at.norm
        points = mscr_points(at.case, at.problem.start(2), L, 12, 10, at.c, ties)
        for count in (1, 4, 12):
            found = last_point(mscr, at.problem, count, split="convex", ties=ties, seed=2, tol=0.0)
            np.testing.assert_allclose(found, points[count], atol=1e-10)

    @pytest.mark.parametrize("restart", [None, "adaptive", "weight"])
    def test_pdca(self, name, ties, lam, restart, rng):
        at, most = Instance(name, rng, lam=lam), 40.0 if restart == "weight" else None
        options = {} if restart is None else {"extrapolate": True, "restart": restart}
        points = pdca_points(at.case, at.problem.start(2), at.norm, 120, at.c, bool(options), ties, most)
        for count in (1, 4, 16):
            found = last_point(pdca, at.problem, count, ties=ties, seed=2, tol=0.0, **options)
            np.testing.assert_allclose(found, points[count], atol=1e-10)
        # Runs return the best of the points that they score, so later steps are compared one by one.
        model, x = Model(at.problem), at.problem.start(2)
        momentum = None if restart is None else Momentum.restarted(restart)
        step = baselines._rule(model, itertools.repeat(model.norm), ties, momentum)
        for count in range(1, 121):
            x = step(x)
            np.testing.assert_allclose(x, points[count], atol=1e-8)


@pytest.mark.parametrize("method", [psg, mscr, pdca])
def test_all_rules_for_ties_are_tried_from_the_same_start(rng, method):
    for _ in range(5):
        problem = Instance("SIT", rng, n=20, m=25, s=8).problem
        alone = [method(problem, ties=ties, max_iter=400, tol=0.0, seed=1) for ties in ("index", "slope")]
        both = method(problem, ties="all", max_iter=800, tol=0.0, seed=1)
        assert both.objective == min(run.objective for run in alone)
    problem = Instance("DCPB1", rng).problem
    plain = method(problem, max_iter=50, seed=1)
    np.testing.assert_array_equal(method(problem, ties="all", max_iter=50, seed=1).x, plain.x)
    with pytest.raises(ValueError, match="ties is 'slope', but ConcaveQuadratic has no tied subgradients"):
        method(problem, ties="slope")
    with pytest.raises(ValueError, match="ties is 'first'; it must be one of 'index', 'slope', 'all'"):
        method(problem, ties="first")


def test_both_rules_for_restarts_are_tried_from_the_same_start(rng):
    problem = Instance("SIT", rng, n=20, m=25, s=8, lam=0.5).problem
    options = {"extrapolate": True, "tol": 0.0, "seed": 1}
    alone = [pdca(problem, restart=how, max_iter=400, **options) for how in ("adaptive", "weight")]
    both = pdca(problem, restart="all", max_iter=800, **options)
    assert both.objective == min(run.objective for run in alone)
    with pytest.raises(ValueError, match="restart is 'all', but there is no extrapolation"):
        pdca(problem, restart="all")


def test_every_rule_for_ties_gives_a_subgradient(rng):
    """g(z) ≤ g(x) + ⟨v, z − x⟩ for concave g, at points with ties and zeros; "slope" is the steepest at a start of 0."""
    for _ in range(scaled(2000, 100)):
        n, lam = int(rng.integers(2, 8)), float(rng.uniform(0.1, 3.0))
        signed = bool(rng.random() < 0.5)
        x = rng.choice([0.0, 0.25, 0.5], n) * (rng.choice([-1.0, 1.0], n) if signed else 1.0)
        slope = rng.standard_normal(n)
        for g in (cp.TopSum(int(rng.integers(1, n + 1)), lam), cp.Norm2(lam)):
            for ties in ("index", "slope"):
                v = g.tied_subgradient(x, slope, ties, signed)
                for _ in range(5):
                    z = rng.standard_normal(n) if signed else np.abs(rng.standard_normal(n))
                    assert g.value(z) <= g.value(x) + v @ (z - x) + 1e-12
    zero = np.zeros(5)
    slope = np.array([3.0, -1.0, 2.0, -4.0, 0.0])
    assert cp.TopSum(2, 1.0).tied_subgradient(zero, slope, "slope").tolist() == [0, -1, 0, -1, 0]
    assert cp.TopSum(2, 1.0).tied_subgradient(zero, slope, "slope", True).tolist() == [1, 0, 0, -1, 0]
    assert cp.TopSum(2, 1.0).tied_subgradient(zero, slope, "index").tolist() == [-1, -1, 0, 0, 0]
    pull = cp.Norm2(2.0).tied_subgradient(zero, slope, "slope")
    assert np.linalg.norm(pull) == pytest.approx(2.0) and abs(pull.sum()) <= 1e-12 and pull @ slope > 0.0


def test_pdca_without_a_proximal_term_is_the_power_method_of_nnspca(rng):
    at = Instance("NNSPCA", rng, lam=3.0)
    points = pdca_points(at.case, at.problem.start(2), 0.0, 12, at.c)
    for count in (1, 4, 12):
        np.testing.assert_allclose(last_point(pdca, at.problem, count, lipschitz=0, seed=2, tol=0.0), points[count])


def test_mscr_in_the_papers_split_of_dcpb1_goes_from_vertex_to_vertex(rng):
    at = Instance("DCPB1", rng, lam=60.0)
    assert 2 * 60.0 >= at.norm
    points = pdca_points(at.case, at.problem.start(2), 0.0, 5, at.c)
    for count in (1, 2, 5):
        found = last_point(mscr, at.problem, count, seed=2, tol=0.0)
        np.testing.assert_allclose(found, points[count], atol=1e-12)
        assert set(found) == {-1.0, 1.0}
    np.testing.assert_array_equal(found, last_point(pdca, at.problem, 5, lipschitz=0.0, seed=2, tol=0.0))


def test_where_that_split_is_no_upper_bound_f_is_kept(rng):
    at = Instance("DCPB1", rng, lam=0.4 * Instance("DCPB1", rng).norm)
    weak = Instance("DCPB1", rng, lam=0.1)
    assert 2 * 0.1 < weak.norm
    kept, default = (last_point(mscr, weak.problem, 3, split=split) for split in ("convex", "paper"))
    np.testing.assert_array_equal(kept, default)
    assert Model(at.problem).is_concave(with_g=True) == (2 * at.problem.g.lam >= at.norm)


@pytest.mark.parametrize("name", ["SIT", "DCPB1", "DCPB2"])
@pytest.mark.parametrize(("n", "m"), [(8, 10), (8, 4)])
@pytest.mark.parametrize("lam", [0.5, 10.0])
def test_exact_subproblems_are_optimal(name, n, m, lam, rng):
    at = Instance(name, rng, n=n, m=m, lam=lam)
    x = at.problem.start(1)
    z = last_point(mscr, at.problem, 1, inner="exact", split="convex", seed=1)
    case = at.case
    tilt = case.p + concave_slope(case, x, case.Q @ x + case.p + case.w)
    G = case.Q @ z + tilt
    again = project_line(z - G / at.norm, case.lo, case.hi, at.c)
    assert at.norm * np.abs(again - z).max() <= 4e-10 * np.abs(G).max()
    solved = scipy.optimize.minimize(
        lambda z: 0.5 * z @ case.Q @ z + tilt @ z,
        x,
        jac=lambda z: case.Q @ z + tilt,
        bounds=list(zip(case.lo, case.hi, strict=True)),
        constraints={"type": "eq", "fun": lambda z: z.sum() - at.c, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert 0.5 * z @ case.Q @ z + tilt @ z <= solved.fun + 1e-8 * at.size


@pytest.mark.parametrize("trial", range(8))
def test_cheapest_point_solves_the_linear_program(trial, rng):
    n = 9
    lo, hi = -rng.random(n) * 2, rng.random(n) * 2
    if trial % 4 == 1:
        hi[3:] = np.inf
    if trial % 4 == 2:
        lo[rng.random(n) < 0.5] = -np.inf
        lo[0] = -np.inf
    c = lo.sum() + 0.4 * (hi - lo).sum() if trial % 4 == 0 or trial % 4 == 3 else 0.3
    G = rng.integers(-2, 3, n).astype(float) if trial % 4 == 3 else rng.standard_normal(n)
    problem = cp.Problem(cp.LeastSquares(np.eye(n), 0.0), cp.Bounds(lo, hi), u=cp.Sum(c))
    z = cheapest_point(G, problem.separable, problem.u, np.zeros(n))
    solved = scipy.optimize.linprog(G, A_eq=np.ones((1, n)), b_eq=[c], bounds=list(zip(lo, hi, strict=True)))
    assert solved.success
    assert G @ z == pytest.approx(solved.fun, abs=1e-9)
    assert problem.violation(z) <= 1e-12
    np.testing.assert_allclose(cheapest_point(G, problem.separable, problem.u, z), z, atol=1e-12)


@pytest.mark.parametrize("below", [False, True])
def test_linear_programs_with_groups(below, rng):
    """Also where all lower bounds are infinite."""
    for _ in range(scaled(20, 5)):
        G, hi = rng.standard_normal(5), rng.random(5)
        h = cp.Bounds(-np.inf, hi) if below else cp.Bounds(-hi, 2.0 * hi)
        z = hi - 0.3 * rng.random(5)
        limits = {"a": (float(z[:2].sum()) - 0.1, None), "b": (None, float(z[:3].sum()) + 0.1)}
        u = cp.Sum(float(z.sum())).within({"a": [0, 1], "b": [0, 1, 2]}, limits)
        problem = cp.Problem(cp.LeastSquares(np.eye(5), 0.0), h, u=u)
        found = Model(problem).argmin(z, G, 0.0)
        rows, ends = np.array([[-1, -1, 0, 0, 0], [1, 1, 1, 0, 0]]), [-limits["a"][0], limits["b"][1]]
        lo = problem.separable.lo
        bounds = list(zip(lo, problem.separable.hi, strict=True))
        expected = scipy.optimize.linprog(G, rows, ends, np.ones((1, 5)), [u.c], bounds)
        assert problem.violation(found) <= 1e-12
        assert G @ found == pytest.approx(expected.fun, abs=1e-9)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lam", [0.5, 30.0, 1e3])
def test_every_recorded_point_is_feasible_and_the_best_is_returned(name, setting, lam, rng):
    at, (method, options) = Instance(name, rng, lam=lam), SETTINGS[setting]
    seen = []
    result = method(at.problem, max_iter=150, callback=seen.append, **options)
    assert max(at.problem.violation(p.x) for p in seen) <= 1e-10
    assert result.objective == min(result.history[:, 2])
    assert result.objective == pytest.approx(at.problem.objective(result.x), rel=1e-12)
    assert [p.iteration for p in seen] == result.history[1:, 0].astype(int).tolist()
    assert not result.success
    assert np.isnan(result.cws_gap)


@pytest.mark.parametrize("setting", ["mscr", "mscr-convex", "mscr-exact", "pdca"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lam", [0.5, 30.0])
def test_the_objective_never_rises(name, setting, lam, rng):
    at, (method, options) = Instance(name, rng, lam=lam), SETTINGS[setting]
    values, x = [], at.problem.start(4)
    for _ in range(15):
        values.append(at.problem.objective(x))
        x = last_point(method, at.problem, 1, x0=x, **options)
    assert (np.diff(values) <= 1e-11 * at.size).all()
    assert values[-1] < values[0]


@pytest.mark.parametrize("setting", ["mscr", "mscr-convex", "mscr-exact", "pdca", "pdca-e"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lam", [0.5, 30.0])
def test_stationary_points_are_critical(name, setting, lam, rng):
    at, (method, options) = Instance(name, rng, n=10, lam=lam), SETTINGS[setting]
    result = method(at.problem, tol=1e-11, max_iter=20_000, **options)
    assert result.status is cp.Status.STATIONARY
    assert critical_residual(at.problem, result.x) <= 1e-6 * at.size
    assert not result.success


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", NAMES)
def test_limits(name, setting, rng):
    at, (method, options) = Instance(name, rng, n=20, lam=1.0), SETTINGS[setting]
    start = at.problem.objective(at.problem.start(0))
    limited = method(at.problem, max_iter=1, tol=0.0, **options)
    assert limited.status is cp.Status.ITERATION_LIMIT
    assert limited.nit == 1
    assert limited.objective <= start
    timed = method(at.problem, max_time=0.0, tol=0.0, **options)
    assert timed.status is cp.Status.TIME_LIMIT
    assert timed.nit <= 16


def test_a_time_limit_holds_inside_a_subproblem(rng, monkeypatch):
    monkeypatch.setattr(baselines, "INNER_TOL", 0.0)
    monkeypatch.setattr(baselines, "ROUNDING", -1.0)
    monkeypatch.setattr(baselines, "INNER_LIMIT", 10**9)
    at = Instance("SIT", rng, n=30)
    # The inner iteration never ends by itself: that the next line is passed is the test.
    result = mscr(at.problem, inner="exact", max_time=0.1)
    assert result.status is cp.Status.TIME_LIMIT


@pytest.mark.parametrize("method", [psg, mscr, pdca])
def test_a_call_without_limits_ends(method, rng, monkeypatch):
    monkeypatch.setattr(baselines, "PSG_MAX_ITER", 40)
    monkeypatch.setattr(baselines, "MAX_ITER", 40)
    result = method(Instance("SIT", rng, lam=0.1).problem, tol=0.0)
    assert result.nit <= 40


def test_psg_stops_where_it_no_longer_moves(rng):
    result = psg(Instance("DCPB1", rng, lam=1e3).problem, step=10.0)
    assert result.status is cp.Status.STATIONARY
    assert result.nit < 100


class TestGrid:
    def test_limits_are_shared_evenly_from_the_same_start(self, rng):
        at = Instance("SIT", rng, lam=1.0)
        seen = []
        result = psg(at.problem, step=(0.5, 0.01, 1e-3), max_iter=23, tol=0.0, callback=seen.append)
        assert [p.iteration for p in seen] == [8, 16, 23]
        for p, step, count in zip(seen, (0.5, 0.01, 1e-3), (8, 8, 7), strict=True):
            np.testing.assert_array_equal(p.x, last_point(psg, at.problem, count, step=step, tol=0.0))
        assert result.status is cp.Status.ITERATION_LIMIT

    def test_every_step_gets_its_time(self, rng):
        at = Instance("SIT", rng, lam=1.0)
        result = psg(at.problem, step="grid", max_time=0.3, tol=0.0)
        assert result.status is cp.Status.TIME_LIMIT
        assert result.time >= 0.3
        assert len(result.history) > len(STEP_GRID)

    def test_fewer_iterations_than_steps(self, rng):
        result = psg(Instance("SIT", rng).problem, step="grid", max_iter=3)
        assert result.nit == 3

    def test_what_a_finished_step_leaves_goes_to_the_others(self, rng):
        at = Instance("DCPB1", rng, lam=1e3)
        result = psg(at.problem, step=(10.0, 1e-9), max_iter=1000, tol=1e-15)
        assert result.nit == 1000
        assert result.status is cp.Status.ITERATION_LIMIT
        both = psg(at.problem, step=(10.0, 5.0), max_iter=1000)
        assert both.status is cp.Status.STATIONARY

    def test_a_limit_on_any_step_is_told(self, rng):
        result = psg(Instance("SIT", rng, lam=1.0).problem, step=(1e-18, 1.0), max_iter=200, tol=1e-12)
        assert result.nit == 100 + 16
        assert result.status is cp.Status.ITERATION_LIMIT


@pytest.mark.parametrize("setting", SETTINGS)
def test_same_seed_same_bits(setting, rng, monkeypatch):
    at, (method, options) = Instance("NNSPCA", rng, lam=3.0), SETTINGS[setting]
    first = method(at.problem, max_iter=300, seed=5, **options)
    monkeypatch.setattr(drive, "EPOCH_SECONDS", 0.0)
    second = method(at.problem, max_iter=300, seed=5, callback=lambda p: time.sleep(1e-4), **options)
    np.testing.assert_array_equal(first.x, second.x)
    assert first.nit == second.nit
    assert len(second.history) >= len(first.history)
    assert first.seed == 5


@pytest.mark.parametrize("setting", SETTINGS)
def test_callback_can_stop_and_interrupt(setting, rng):
    at, (method, options) = Instance("SIT", rng, n=20, lam=0.1), SETTINGS[setting]

    def interrupt(progress):
        raise KeyboardInterrupt

    stopped = method(at.problem, callback=lambda p: True, max_iter=100, tol=0.0, **options)
    assert stopped.status in (cp.Status.STOPPED_BY_CALLBACK, cp.Status.STATIONARY)
    interrupted = method(at.problem, callback=interrupt, **options)
    assert interrupted.status is cp.Status.INTERRUPTED
    assert at.problem.violation(interrupted.x) <= 1e-12


class TestStrongSettings:
    """Given the same many iterations the stronger settings do not lose."""

    @pytest.mark.parametrize("name", NAMES)
    def test_a_grid_contains_the_papers_step(self, name, rng):
        at = Instance(name, rng, lam=10.0)
        for seed in range(3):
            grid = psg(at.problem, step="grid", max_iter=200 * len(STEP_GRID), tol=0.0, seed=seed)
            assert grid.objective <= psg(at.problem, max_iter=200, tol=0.0, seed=seed).objective

    @pytest.mark.parametrize("lam", [0.5, 10.0])
    @pytest.mark.parametrize("name", ["SIT", "DCPB2"])
    def test_exact_relaxation_lowers_the_convex_model_further(self, name, lam, rng):
        at = Instance(name, rng, lam=lam)
        further = 0
        for seed in range(5):
            x = at.problem.start(seed)
            tilt = at.case.p + concave_slope(at.case, x, at.case.Q @ x + at.case.p + at.case.w)
            points = (
                last_point(mscr, at.problem, 1, inner=inner, split="convex", seed=seed) for inner in ("paper", "exact")
            )
            paper, exact = (0.5 * z @ at.case.Q @ z + tilt @ z for z in points)
            assert exact <= paper + 1e-12 * at.size
            further += exact < paper - 1e-6 * at.size
        assert further > 0

    def test_the_convex_split_of_dcpb1_on_average(self, rng):
        at = Instance("DCPB1", rng, n=20, m=30, lam=60.0)
        paper, convex = (
            np.mean([mscr(at.problem, inner="exact", split=split, seed=seed).objective for seed in range(10)])
            for split in ("paper", "convex")
        )
        assert convex <= paper

    def test_extrapolation_reaches_the_same_value_sooner(self, rng):
        A = rng.standard_normal((30, 20)) * np.geomspace(1, 30, 20)
        problem = SIT(A, A @ np.full(20, 0.05), s=5, lam=0.0)
        plain, ahead = (pdca(problem, extrapolate=e, max_iter=300) for e in (False, True))
        assert ahead.objective < 0.1 * plain.objective

    def test_no_proximal_term_for_a_concave_f(self, rng):
        problem = NNSPCA(rng.standard_normal((40, 30)), s=5, lam=1.0)
        plain, bold = (
            np.mean([pdca(problem, lipschitz=L, seed=seed).objective for seed in range(10)]) for L in (None, 0.0)
        )
        assert bold <= plain + 1e-12 * abs(plain)


class TestGradientAndNorm:
    def test_data_of_every_shape_and_kind_give_the_same(self, rng):
        A = rng.standard_normal((6, 30)) * (rng.random((6, 30)) < 0.5)
        y = rng.standard_normal(6)
        h, g, u = cp.Bounds(0, 1), cp.TopSum(3, 2.0), cp.Sum(1)
        fs = [
            cp.LeastSquares(A, y),
            cp.LeastSquares(A, y, gram=False),
            cp.LeastSquares(sp.csr_array(A), y),
            cp.Quadratic(A.T @ A, -A.T @ y),
        ]
        models = [Model(cp.Problem(f, h, g, u)) for f in fs]
        assert [model.by_gram for model in models] == [False, False, False, True]
        x = models[0].problem.start(0)
        for model in models:
            np.testing.assert_allclose(model.slope(x), A.T @ (A @ x - y), atol=1e-12)
            assert model.norm == pytest.approx(np.linalg.norm(A, 2) ** 2, rel=1e-12)
            assert model.f.is_convex
            assert not model.is_concave()
        assert Model(cp.Problem(cp.LeastSquares(A.T @ A, 0.0), h, g, u)).by_gram

    @pytest.mark.parametrize("side", [1, 500])
    def test_the_norm_by_both_routes(self, side, rng, monkeypatch):
        monkeypatch.setattr(baselines, "DENSE_SIDE", side)
        A = rng.standard_normal((20, 30))
        Q = A[:, :20] + A[:, :20].T
        assert Model(SIT(A, A[:, 0], 3, 1.0)).norm == pytest.approx(np.linalg.norm(A, 2) ** 2, rel=1e-10)
        model = Model(cp.Problem(cp.Quadratic(Q), cp.Bounds(0, 1), u=cp.Sum(1)))
        assert model.norm == pytest.approx(np.linalg.norm(Q, 2), rel=1e-10)
        assert not model.f.is_convex
        assert not model.is_concave()

    def test_slow_iterations_are_scored_more_often(self, rng, monkeypatch):
        model = Model(Instance("SIT", rng).problem)
        assert model.stride == 16
        monkeypatch.setattr(baselines, "WINDOW_COST", 10)
        assert model.stride == 1

    @pytest.mark.parametrize("setting", SETTINGS)
    def test_an_indefinite_quadratic_and_linear_terms(self, setting, rng):
        n, (method, options) = 8, SETTINGS[setting]
        Q = rng.standard_normal((n, n))
        h = cp.Bounds(0, 0.6) + cp.Linear(rng.standard_normal(n))
        problem = cp.Problem(cp.Quadratic(Q + Q.T, rng.standard_normal(n)), h, u=cp.Sum(1.5))
        result = method(problem, max_iter=3000, **options)
        assert problem.violation(result.x) <= 1e-10
        if method is not psg:
            assert critical_residual(problem, result.x) <= 1e-5


class TestBadInput:
    @pytest.fixture
    def problem(self, rng):
        return Instance("SIT", rng).problem

    @pytest.mark.parametrize(
        ("method", "options", "message"),
        [
            (psg, {"step": 0.0}, r"step is 0\.0; it must be a positive number"),
            (psg, {"step": -1.0}, r"step is -1; it must be finite and at least 0"),
            (psg, {"step": ()}, r"step is \(\); it must be a positive number or several of them"),
            (psg, {"step": "best"}, r"step is 'best'; it must be 'grid', a number or several numbers"),
            (mscr, {"inner": "fast"}, r"inner is 'fast'; it must be one of 'paper', 'exact'\."),
            (mscr, {"split": "dc"}, r"split is 'dc'; it must be one of 'paper', 'convex'\."),
            (pdca, {"lipschitz": -1}, r"lipschitz is -1; it must be finite and at least 0"),
            (pdca, {"lipschitz": 0}, r"lipschitz is 0, but f is not concave"),
            (pdca, {"max_iter": 0}, r"max_iter is 0; it must be at least 1"),
            (mscr, {"tol": -1}, r"tol is -1; it must be finite and at least 0"),
            (psg, {"x0": np.ones(3)}, r"x0 has shape \(3,\); it must be \(12,\)"),
        ],
    )
    def test_values(self, problem, method, options, message):
        with pytest.raises(ValueError, match=message):
            method(problem, **options)

    @pytest.mark.parametrize(
        ("method", "options", "message"),
        [
            (psg, {"step": None}, r"step is None; it must be one real number"),
            (psg, {"step": [0.1, "x"]}, r"step is 'x'; it must be one real number"),
            (pdca, {"lipschitz": "big"}, r"lipschitz is 'big'; it must be one real number"),
        ],
    )
    def test_types(self, problem, method, options, message):
        with pytest.raises(TypeError, match=message):
            method(problem, **options)

    @pytest.mark.parametrize("method", [psg, mscr, pdca])
    def test_kinks(self, method, rng):
        h = cp.Bounds(0, 1) + cp.AbsoluteDeviation(0.1, 0.01)
        problem = cp.Problem(cp.LeastSquares(rng.standard_normal((5, 4)), 0.0), h, u=cp.Sum(1))
        with pytest.raises(
            ValueError, match=r"h contains AbsoluteDeviation .* whose kinks and gaps .* cannot step over"
        ):
            method(problem)

    def test_the_start_is_not_changed(self, problem):
        x0 = problem.start(2)
        kept = x0.copy()
        x0.setflags(write=False)
        for method, options in SETTINGS.values():
            method(problem, x0=x0, max_iter=20, **options)
        np.testing.assert_array_equal(x0, kept)

"""Blocks: the active set, states, enumeration and BCD-l-k, against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import counterpoise as cp
from conftest import make_problem, scaled
from counterpoise.certificates import exactness_threshold
from counterpoise.kernels import block as kernels
from counterpoise.kernels import programs, sweep
from counterpoise.problems import DCPB2, NNSPCA, SIT
from counterpoise.solvers import faces
from counterpoise.supervision import Limits
from naive import Case, best_on_block, case_of, largest_gap, least_on_box_and_sum
from test_bcd import NAMES, build


def test_the_active_set_finds_the_least_of_a_convex_quadratic(rng):
    for trial in range(scaled(500, 40)):
        k = int(rng.integers(2, scaled(6, 5)))
        half = rng.standard_normal((int(rng.integers(1, 8)), k))
        if trial % 4 == 0:
            half[:, 1] = half[:, 0]
        H, b = half.T @ half, rng.standard_normal(k) * 10.0 ** rng.integers(-2, 3)
        lo = -rng.random(k) * (rng.random(k) < 0.7)
        hi = np.where(rng.random(k) < 0.3, np.inf, lo + 0.3 + rng.random(k) * 2)
        problem = cp.Problem(cp.Quadratic(np.eye(k)), cp.Bounds(lo, hi), None, cp.Sum(lo.sum() + 0.5))
        z = problem.project(rng.standard_normal(k))
        total = z.sum()
        programs.solve_box_sum(H, b, lo, hi, z)
        best, _ = least_on_box_and_sum(H, b, lo, hi, total)
        assert (z >= lo).all() and (z <= hi).all()
        assert z.sum() == pytest.approx(total, abs=1e-12)
        assert 0.5 * z @ H @ z + b @ z <= best + 1e-9 * (1 + abs(best) + np.abs(b).max())


@pytest.mark.compiled
def test_the_active_set_on_large_blocks_satisfies_its_conditions(rng):
    for _ in range(40):
        k = 50
        half = rng.standard_normal((60, k))
        H, b, lo, hi = half.T @ half, rng.standard_normal(k) * 5, np.zeros(k), np.full(k, np.inf)
        z = rng.dirichlet(np.full(k, 0.2))
        programs.solve_box_sum(H, b, lo, hi, z)
        slopes = H @ z + b
        assert np.ptp(slopes[z > 0]) <= 1e-9 * np.abs(b).max()
        assert slopes[z <= 0].min(initial=np.inf) >= slopes[z > 0].max() - 1e-9 * np.abs(b).max()


def test_the_active_set_ends_stationary_where_h_bends_down(rng):
    for trial in range(scaled(1000, 40)):
        k = int(rng.integers(2, scaled(30, 8)))
        H = rng.standard_normal((k, k))
        H = H + H.T + (rng.uniform(0, 2) * np.sqrt(k) if trial % 3 == 0 else 0.0) * np.eye(k)
        if trial % 5 == 0:
            scale = 10.0 ** rng.uniform(-3, 3, k)
            H = scale[:, None] * H * scale
        b, lo = rng.standard_normal(k) * 10.0 ** rng.integers(-2, 3), -rng.random(k)
        hi = lo + 3 * rng.random(k)
        z = lo + (hi - lo) * rng.random(k)
        total, before = z.sum(), 0.5 * z @ H @ z + b @ z
        programs.solve_box_sum(H, b, lo, hi, z)
        assert (z >= lo).all() and (z <= hi).all()
        assert z.sum() == pytest.approx(total, abs=1e-12 * k)
        assert 0.5 * z @ H @ z + b @ z <= before + 1e-12 * (np.abs(z) @ np.abs(H) @ np.abs(z) + abs(before))
        slopes, size = H @ z + b, (np.abs(H) @ np.abs(z) + np.abs(b)).max()
        assert slopes[z > lo].max(initial=-np.inf) - slopes[z < hi].min(initial=np.inf) <= 1e-9 * size


@pytest.mark.compiled
@pytest.mark.parametrize("g", [None, cp.TopSum(8, 0.5)], ids=["none", "top"])
def test_large_blocks_of_indefinite_forms_descend_under_groups_with_kinks(g, rng):
    for _ in range(3):
        n = 36
        Q, x0 = rng.standard_normal((n, n)), rng.dirichlet(np.ones(n))
        u = cp.Sum(1).within(["a"] * 14 + ["b"] * 14 + ["c"] * 8, {"a": (0.1, 0.5), "b": (0.2, 0.6)})
        h = cp.Bounds(0, 1) + cp.AbsoluteDeviation(x0, 0.5)
        problem = cp.Problem(cp.Quadratic(Q + Q.T, rng.standard_normal(n)), h, g, u)
        result = cp.minimize(problem, method="bcd-l", k=n, idle_blocks=1, max_iter=10 * n)
        assert problem.is_feasible(result.x) and result.status is cp.Status.CERTIFIED
        # The first block alone lowers F by most of what the run does.
        once = cp.minimize(problem, method="bcd-l", k=n, max_iter=1)
        assert once.history[0, 2] - once.objective >= 0.5 * (once.history[0, 2] - result.objective)


def curvatures(rng, trial, k):
    """A matrix of one of several kinds: indefinite, definite with columns of different scale, nearly of rank 1."""
    H = rng.standard_normal((k, k))
    if trial % 3 == 0:
        return H + H.T
    half = H * 10.0 ** rng.uniform(-3, 3, k) if trial % 3 == 1 else 1e4 * H[:1] + 1e-2 * H
    return half.T @ half


def test_programs_on_the_sphere_do_not_rise_and_end_stationary(rng):
    """The power steps alone would take 10¹⁰ rounds where the eigenvalues of H differ by as much."""
    for trial in range(scaled(600, 30)):
        k = int(rng.integers(2, 8))
        H = curvatures(rng, trial, k)
        b = rng.standard_normal(k) * np.abs(H).max() * 10.0 ** rng.uniform(-8, 1) * (rng.random() < 0.6)
        z = np.abs(rng.standard_normal(k))
        norm, before = np.linalg.norm(z), 0.5 * z @ H @ z + b @ z
        programs.solve_on_sphere(H, b, z)
        assert np.linalg.norm(z) == pytest.approx(norm, rel=1e-14)
        assert (z >= 0).all()
        sizes = np.abs(H) @ z + np.abs(b)
        assert 0.5 * z @ H @ z + b @ z <= before + 1e-12 * abs(before)
        # A slope σ over a curvature κ leaves σ²/κ to gain; rounding of the objective hides √ε of the slopes.
        slopes = H @ z + b
        slopes -= (z @ slopes) / norm**2 * z
        hidden = 1e-5 * np.sqrt((z @ sizes) * (np.diag(np.abs(H)) + sizes / norm))
        assert (np.where(z > 0, np.abs(slopes), -slopes) <= hidden).all()
    z = np.array([1.0, 0.0])
    programs.solve_on_sphere(np.zeros((2, 2)), np.array([2.0, 1.0]), z)  # no negative slope: a unit vector is best
    np.testing.assert_array_equal(z, [0.0, 1.0])
    zero = np.zeros(2)
    programs.solve_on_sphere(np.eye(2), np.ones(2), zero)
    np.testing.assert_array_equal(zero, [0.0, 0.0])


def test_turning_many_coordinates_lowers_f_to_where_their_slopes_agree(rng):
    """Newton steps over the positive coordinates, from points at which pairs would take 10⁵ steps and more."""
    for trial in range(scaled(60, 12)):
        n = int(rng.integers(3, 9))
        Q, p = curvatures(rng, trial, n), rng.standard_normal(n) * (trial % 2)
        g = cp.TopSum(int(rng.integers(1, n + 1)), float(rng.choice([0.0, 1e-3, 10.0])))
        problem = cp.Problem(cp.Quadratic(Q, p * np.abs(Q).max()), cp.Bounds(0, np.inf), g, cp.Sphere())
        x = problem.start(trial)
        before, start = problem.objective(x), x.copy()
        faces.turn(problem, x, 0.0, Limits())
        assert problem.is_feasible(x)
        assert (x[start == 0.0] == 0.0).all()
        assert problem.objective(x) <= before
        free = x > 0.0
        slopes = Q @ x + p * np.abs(Q).max()
        slopes += g.subgradient(x, slopes)
        sizes = np.abs(Q) @ x + np.abs(p) * np.abs(Q).max() + g.lam
        slopes -= (x @ slopes) * x
        hidden = 1e-5 * np.sqrt((x @ sizes) * (np.diag(np.abs(Q)) + sizes))
        assert (np.abs(slopes) <= hidden)[free].all()


def step_of(problem, x, block, theta, kind):
    terms, x, z = problem.terms(), x.copy(), np.empty(len(block))
    sweep.start(terms, x)
    gain = kernels.best_of_block(terms, x, np.array(block), theta, kind, z)
    moved = x.copy()
    if gain > 0:
        moved[list(block)] = z
    return x, moved, gain


@pytest.mark.parametrize("g", ["top", "count"])
def test_enumerated_steps_with_kinks_equal_brute_force(g, rng):
    for trial in range(scaled(120, 6)):
        n, k = int(rng.integers(3, 6)), 3
        half, p, x0 = rng.standard_normal((4, n)), rng.standard_normal(n), rng.dirichlet(np.ones(n))
        Q, cost, s, lam = half.T @ half, rng.random(n) * (rng.random(n) < 0.8), int(rng.integers(1, n + 1)), 0.5
        centre = np.where(rng.random(n) < 0.2, 0.0, x0)
        case = Case(Q, p, np.zeros(n), np.ones(n), np.zeros(n), centre[None], cost[None], g, lam, s)
        h = cp.Bounds(0, 1) + cp.AbsoluteDeviation(centre, cost)
        problem = cp.Problem(cp.Quadratic(Q, p), h, cp.TopSum(s, lam) if g == "top" else cp.AtMost(s), cp.Sum(1))
        x = problem.start(trial) if trial % 2 else cp.minimize(problem, max_iter=1 + trial % 7).x
        if trial % 3 == 0 and g == "top":
            x = x0.copy()  # all coordinates at kinks
        block, theta = [int(i) for i in rng.permutation(n)[:k]], float(trial % 3)
        x, moved, gain = step_of(problem, x, block, theta, kernels.ENUMERATED)
        claimed = case.value(x) - case.value(moved) - 0.5 * theta * np.sum((moved - x) ** 2)
        assert gain == pytest.approx(claimed, abs=1e-9 * case.size(x))
        assert gain == pytest.approx(best_on_block(case, x, block, theta), abs=1e-8 * case.size(x))
        assert problem.violation(moved) <= 1e-12


@pytest.mark.compiled
def test_enumerated_steps_with_floors_and_groups_are_as_good_as_scipy(rng):
    """Every choice of the non-zeros of a block, each a program that SLSQP solves from several starts."""
    better = 0
    for trial in range(150):
        n, k = int(rng.integers(4, 7)), int(rng.integers(3, 5))
        half, p = rng.standard_normal((n + 2, n)), 2 * rng.standard_normal(n)
        Q, s, floor = half.T @ half, int(rng.integers(2, n + 1)), rng.random(n) * 0.25 * (trial % 2)
        labels, most = np.arange(n) % 2, rng.uniform(0.55, 0.9)
        u = cp.Sum(1).within(labels.tolist(), {0: (0, most)}) if trial % 3 else cp.Sum(1)
        problem = cp.Problem(cp.Quadratic(Q, p), cp.SemiContinuous(floor, 1), cp.AtMost(s), u)
        x = problem.start(trial)
        block = [int(i) for i in rng.permutation(n)[:k]]
        x, moved, gain = step_of(problem, x, block, 0.0, kernels.ENUMERATED)
        value = lambda point, Q=Q, p=p: 0.5 * point @ Q @ point + p @ point  # noqa: E731
        assert gain == pytest.approx(value(x) - value(moved), abs=1e-10)
        limit = most if trial % 3 else np.inf
        for point in (x, moved):
            assert abs(point.sum() - 1) <= 1e-12 and point[labels == 0].sum() <= limit + 1e-11
            assert ((point == 0) | ((point >= floor) & (point <= 1))).all() and np.count_nonzero(point) <= s
        found = _best_by_scipy(
            value, x, block, floor, s - np.count_nonzero(np.delete(x, block)), labels == 0, limit, rng
        )
        assert gain >= found - 1e-6
        better += gain > 1e-6
    assert better > 50


def _best_by_scipy(value, x, block, floor, places, grouped, limit, rng):
    """The largest decrease over a block with at most ``places`` non-zeros, found by SLSQP."""
    from scipy.optimize import minimize as scipy_minimize

    best = 0.0
    for size in range(1, places + 1):
        for held in itertools.combinations(block, size):
            held = list(held)
            rest = x.copy()
            rest[block] = 0.0

            def at(z, rest=rest, held=held):
                point = rest.copy()
                point[held] = z
                return point

            conditions = [
                {"type": "eq", "fun": lambda z, at=at: at(z).sum() - 1},
                {"type": "ineq", "fun": lambda z, at=at: min(limit, 9.0) - at(z)[grouped].sum()},
            ]
            bounds = [(floor[i], 1.0) for i in held]
            start = rng.dirichlet(np.ones(size)) * (1 - rest.sum())
            run = scipy_minimize(
                lambda z, at=at: value(at(z)), start, bounds=bounds, constraints=conditions, method="SLSQP"
            )
            inside = max(-conditions[1]["fun"](run.x), abs(conditions[0]["fun"](run.x))) <= 1e-8
            if run.success and inside and (run.x >= floor[held] - 1e-9).all():
                best = max(best, value(x) - value(at(run.x)))
    return best


@pytest.mark.parametrize("subproblem", ["nested", "linearised"])
@pytest.mark.parametrize("h", ["kinks", "floors"])
@pytest.mark.parametrize("g", ["none", "top", "count", "norm"])
def test_local_blocks_take_kinks_floors_and_groups(h, g, subproblem, rng):
    """They descend over feasible points, and where a pair is certified, no pair gains by the reference either."""
    for trial in range(scaled(12, 1)):
        n = int(rng.integers(4, 8))
        half, p, x0 = rng.standard_normal((4, n)), rng.standard_normal(n), rng.dirichlet(np.ones(n))
        cost = rng.random(n) if h == "kinks" else np.zeros(n)
        term = cp.Bounds(0, 1) + cp.AbsoluteDeviation(x0, cost) if h == "kinks" else cp.SemiContinuous(0.1, 1)
        grouped = trial % 2 == 1
        u = cp.Sum(1).within((np.arange(n) % 2).tolist(), {0: (0, 0.7)}) if grouped else cp.Sum(1)
        s, lam = int(rng.integers(2, n)), float(rng.choice([0.2, 3.0]))
        terms = {"none": None, "top": cp.TopSum(s, lam), "count": cp.AtMost(s), "norm": cp.Norm2(lam)}
        problem = cp.Problem(cp.Quadratic(half.T @ half, p), term, terms[g], u)
        result = cp.minimize(problem, method="bcd-l", k=int(rng.integers(2, n + 1)), subproblem=subproblem, seed=trial)
        assert problem.is_feasible(result.x)
        assert (np.diff(result.history[:, 2]) <= 1e-12).all()
        case = Case(half.T @ half, p, np.zeros(n), np.ones(n), np.zeros(n), x0[None], cost[None], g, lam, s)
        assert result.objective == pytest.approx(case.value(result.x), abs=1e-10)
        if subproblem == "nested":
            assert result.status is cp.Status.CERTIFIED
            if h == "kinks" and not grouped:
                assert largest_gap(case, result.x, "line") <= 1e-7 * case.size(result.x)


@pytest.mark.parametrize("name", ["SIT", "DCPB1"])
@pytest.mark.parametrize("lam", [0.3, 5.0, 300.0])
def test_enumerated_steps_equal_brute_force(name, lam, rng):
    for trial in range(scaled(40, 4)):
        n, k = int(rng.integers(4, 8)), int(rng.integers(3, 5))
        A, y, s, c = rng.standard_normal((6, n)), rng.standard_normal(6), int(rng.integers(1, n)), n % 2
        problem, case = make_problem(name, A, y, s, c, lam), case_of(name, A, y, lam, s)
        x = problem.start(trial) if trial % 2 else cp.minimize(problem, max_iter=1 + trial % 7).x
        block = [int(i) for i in rng.permutation(n)[:k]]
        theta = float(trial % 3)
        x, moved, gain = step_of(problem, x, block, theta, kernels.ENUMERATED)
        claimed = case.value(x) - case.value(moved) - 0.5 * theta * np.sum((moved - x) ** 2)
        assert gain == pytest.approx(claimed, abs=1e-9 * case.size(x))
        assert gain == pytest.approx(best_on_block(case, x, block, theta), abs=1e-8 * case.size(x))
        assert problem.violation(moved) <= 1e-12


def test_enumerated_steps_of_norm2_equal_a_grid_in_the_exact_regime(rng):
    side = np.linspace(-1, 1, 161)
    for trial in range(scaled(30, 3)):
        n = int(rng.integers(4, 8))
        A, y = rng.standard_normal((6, n)), rng.standard_normal(6)
        lam = 1.001 * exactness_threshold(DCPB2(A, y, n % 2, 1.0))
        problem, case = DCPB2(A, y, n % 2, lam), case_of("DCPB2", A, y, lam)
        block = [int(i) for i in rng.permutation(n)[:3]]
        x, moved, gain = step_of(problem, problem.start(trial), block, 0.0, kernels.ENUMERATED)
        a, b = (v.ravel() for v in np.meshgrid(side, side))
        c = x[block].sum() - a - b
        points = np.repeat(x[None], len(a), axis=0)
        points[:, block] = np.column_stack([a, b, c])
        least = case.values(points[np.abs(c) <= 1]).min()
        assert case.value(moved) <= least + 1e-9 * case.size(x)
        assert gain == pytest.approx(case.value(x) - case.value(moved), abs=1e-9 * case.size(x))


@pytest.mark.parametrize("kind", [kernels.LINEARISED, kernels.NESTED])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lam", [0.3, 30.0])
def test_local_steps_say_the_truth_and_never_rise(name, kind, lam, rng):
    moves = 0
    for trial in range(scaled(40, 5)):
        problem, case, _ = build(name, rng, n=9, lam=lam, s=int(rng.integers(1, 9)))
        block = [int(i) for i in rng.permutation(9)[: int(rng.integers(2, 9))]]
        x, moved, gain = step_of(problem, problem.start(trial), block, 0.1, kind)
        claimed = case.value(x) - case.value(moved) - 0.05 * np.sum((moved - x) ** 2)
        assert gain >= 0
        assert gain == pytest.approx(claimed, abs=1e-9 * case.size(x))
        assert problem.violation(moved) <= 1e-12
        moves += gain > 0
    assert moves > 0


def test_enumerated_states_of_a_pair_equal_the_exact_pair_step(rng):
    """Erratum: with all states of a pair solved exactly, a block of two is as good as the step of BCD-g."""
    for trial in range(scaled(200, 20)):
        problem, case, _ = build("SIT", rng, n=7, lam=float(10.0 ** rng.uniform(-1, 3)), s=int(rng.integers(1, 7)))
        i, j = (int(a) for a in rng.permutation(7)[:2])
        x, _, gain = step_of(problem, problem.start(trial), [i, j], 0.0, kernels.ENUMERATED)
        terms = problem.terms()
        sweep.start(terms, x)
        assert gain == pytest.approx(sweep.step(terms, x, i, j, 0.0)[2], abs=1e-9 * case.size(x))


@pytest.mark.parametrize("working_set", ["support", "random"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("k", [2, 4, pytest.param(12, marks=pytest.mark.compiled)])
def test_bcd_l_ends_at_points_without_a_better_pair(name, working_set, k, rng):
    problem, case, _ = build(name, rng, n=scaled(12, 5))
    points = []
    result = cp.minimize(
        problem, method="bcd-l", k=k, working_set=working_set, callback=lambda p: points.append(p.x) and False
    )
    assert result.status is cp.Status.CERTIFIED
    assert max(problem.violation(x) for x in points) <= 1e-10
    assert (np.diff(result.history[:, 2]) <= 1e-9 * case.size(result.x)).all()
    on = "arc" if name == "NNSPCA" else "line"
    assert largest_gap(case, result.x, on) <= result.tolerance + 1e-9 * case.size(result.x)


@pytest.mark.parametrize(("g", "lam"), [("top", 0.05), ("top", 0.5), ("top", 5.0), ("top", 500.0), ("count", 0.0)])
def test_one_block_of_all_coordinates_with_every_state_is_the_optimum(g, lam, rng):
    """−λ‖x‖_[s] is the least of −λΣ_{i∈S} xᵢ over |S| ≤ s, so the best state of a block of all is the minimum."""
    for _ in range(scaled(25, 2)):
        n, s = int(rng.integers(2, 6)), 2
        A, y = rng.standard_normal((n + 2, n)), rng.standard_normal(n + 2)
        Q, p = A.T @ A, -A.T @ y
        least = np.inf
        for S in itertools.chain.from_iterable(itertools.combinations(range(n), m) for m in range(s + 1)):
            held = list(S) if g == "count" else list(range(n))
            tilt = np.zeros(n)
            tilt[list(S)] = -lam if g == "top" else 0.0
            if not held:
                continue
            part = Q[np.ix_(held, held)], (p + tilt)[held], np.zeros(len(held)), np.ones(len(held))
            least = min(least, least_on_box_and_sum(*part, 1.0)[0])
        term = cp.TopSum(s, lam) if g == "top" else cp.AtMost(s)
        problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1), term, cp.Sum(1))
        result = cp.minimize(problem, method="bcd-l", k=n, subproblem="states", working_set="random", seed=1)
        assert result.objective == pytest.approx(least + 0.5 * float(y @ y), abs=1e-9)
        assert result.status is cp.Status.STATIONARY and (np.diff(result.history[:, 2]) <= 0.0).all()


@pytest.mark.compiled
def test_more_blocks_and_larger_ones_with_every_state_end_lower(rng):
    """The trend of table 2, which our linearised blocks do not have: F falls with k at equal numbers of blocks."""
    market = cp.datasets.simulate_market(n_days=120, n_stocks=60, seed=3)
    problem = SIT(market.returns, market.index, 8, 1e3)
    mean = {
        (k, count): np.mean(
            [
                cp.minimize(
                    problem, problem.start(seed), "bcd-l", k=k, subproblem="states", working_set="random",
                    max_iter=count, seed=seed,
                ).objective
                for seed in range(4)
            ]
        )
        for k in (2, 3, 5, 8, 15) for count in (150, 600)
    }  # fmt: skip
    for k in (2, 3, 5, 8, 15):
        assert mean[k, 600] <= mean[k, 150]
    assert mean[2, 150] > mean[3, 150] > mean[5, 150] > mean[8, 150]


def test_states_are_refused_where_there_are_none_or_too_many(rng):
    A, y = rng.standard_normal((9, 12)), rng.standard_normal(9)
    for problem in (
        DCPB2(A, y, 0, 1.0),
        NNSPCA(A, 2, 1.0),
        cp.Problem(cp.LeastSquares(A, y), cp.Bounds(-1, 1), cp.TopSum(2, 1.0), cp.Sum(1)),
        cp.Problem(cp.Quadratic(np.diag(np.arange(-3.0, 9.0))), cp.Bounds(0, 1), cp.AtMost(2), cp.Sum(1)),
    ):
        with pytest.raises(ValueError, match='subproblem "states" needs TopSum or AtMost on Sum, a convex f and x ≥ 0'):
            cp.minimize(problem, method="bcd-l", k=3, subproblem="states")
    problem = SIT(A, y, 3, 1.0)
    with pytest.raises(
        ValueError, match=r"a block of 10 coordinates has 1,024 states, about 0.004 s .* max_time is 0.001"
    ):
        cp.minimize(problem, method="bcd-l", k=10, subproblem="states", max_time=0.001)


@pytest.mark.parametrize("name", NAMES)
def test_linearised_bcd_l_ends_stationary_where_nested_goes_on(name, rng):
    """Linearised blocks do not see that a pair gains; nested ones take such a pair and end where there is none."""
    left = 0
    on = "arc" if name == "NNSPCA" else "line"
    for seed in range(scaled(8, 3)):
        problem, case, _ = build(name, rng, n=scaled(12, 6), lam=60.0)
        result = cp.minimize(problem, method="bcd-l", k=4, subproblem="linearised", seed=seed)
        assert result.status is cp.Status.STATIONARY
        assert not result.success
        assert (np.diff(result.history[:, 2]) <= 1e-9 * case.size(result.x)).all()
        nested = cp.minimize(problem, result.x, method="bcd-l", k=4, seed=seed)
        assert nested.status is cp.Status.CERTIFIED
        rounding = 1e-9 * case.size(result.x)
        gap = largest_gap(case, result.x, on)
        assert largest_gap(case, nested.x, on) <= nested.tolerance + rounding
        assert case.value(nested.x) <= case.value(result.x) + rounding
        if gap > nested.tolerance + rounding:
            assert case.value(nested.x) < case.value(result.x) - nested.tolerance
            left += 1
    assert left > 0


@pytest.mark.parametrize("name", ["SIT", "DCPB1", "DCPB2"])
def test_bcd_g_on_triples_leaves_no_better_triple(name, rng):
    n = scaled(8, 6)
    A, y = rng.standard_normal((7, n)), rng.standard_normal(7)
    lam = 1.01 * exactness_threshold(make_problem(name, A, y, 3, n % 2, 1.0))
    problem, case = make_problem(name, A, y, 3, n % 2, lam), case_of(name, A, y, lam, 3)
    result = cp.minimize(problem, k=3)
    assert result.status is cp.Status.CERTIFIED
    if name != "DCPB2":
        for block in itertools.combinations(range(n), 3):
            assert best_on_block(case, result.x, block) <= 1e-8 * case.size(result.x)
    certificate = cp.certify(problem, result.x, k=3)
    assert certificate.block_gap <= 2 * result.tolerance
    assert certificate.blocks_tried == certificate.blocks_in_all == len(list(itertools.combinations(range(n), 3)))
    sampled = cp.certify(problem, problem.start(0), k=4, n_blocks=10)
    assert sampled.blocks_tried == 10
    assert sampled.block_gap > 0


@pytest.mark.compiled
def test_blocks_leave_points_at_which_no_pair_gains(rng):
    """Triples lead lower from some points that are certified for pairs, and stay where brute force finds no better one."""
    left, stayed = 0, 0
    for seed in range(30):
        A = rng.standard_normal((20, 8))
        y = A @ rng.dirichlet(np.ones(8))
        problem, case = SIT(A, y, 4, 200.0), case_of("SIT", A, y, 200.0, 4)
        pairs = cp.minimize(problem, seed=seed)
        triples = cp.minimize(problem, pairs.x, k=3)
        rounding = 1e-8 * case.size(pairs.x)
        assert largest_gap(case, pairs.x, "line") <= rounding
        assert problem.violation(triples.x) <= 1e-12
        gained = case.value(pairs.x) - case.value(triples.x)
        if gained > rounding:
            left += 1
        elif stayed < 2:
            assert max(best_on_block(case, pairs.x, each) for each in itertools.combinations(range(8), 3)) <= rounding
            stayed += 1
    assert left > 0 and stayed > 0


class TestBadInput:
    @pytest.mark.parametrize(
        ("name", "options", "message"),
        [
            ("SIT", {"method": "bcd-l", "k": 1}, r"k is 1; it must be between 2 and 12"),
            ("SIT", {"method": "bcd-l", "k": 13}, r"k is 13; it must be between 2 and 12"),
            ("SIT", {"k": 7}, r"k is 7: a block has 2\^7 = 128 states, which are enumerated up to k = 6"),
            ("DCPB1", {"k": 8}, r"k is 8: a block has 3\^8 = 6,561 states"),
            ("NNSPCA", {"k": 3}, r"BCD-g on Sphere solves pairs only"),
            ("DCPB2", {"k": 3}, r"BCD-g with k > 2 and Norm2 needs lam at least"),
            ("SIT", {"method": "bcd-l", "working_set": "cyclic"}, r'for blocks it must be "support" or "random"'),
            ("SIT", {"method": "bcd-l", "idle_blocks": 0}, r"idle_blocks is 0; it must be at least 1"),
            ("SIT", {"method": "bcd-l", "subproblem": "magic"}, r"subproblem is 'magic'; it must be one of 'nested'"),
            ("SIT", {"method": "bcd-l", "subproblem": ["nested"]}, r"subproblem is \['nested'\]; it must be one of"),
        ],
    )
    def test_values(self, name, options, message, rng):
        problem, _, _ = build(name, rng, lam=1.0)
        with pytest.raises(ValueError, match=message):
            cp.minimize(problem, **options)

    def test_kinks_signs_and_unknown_terms(self, rng):
        f = cp.LeastSquares(rng.standard_normal((5, 4)))
        for h, u in (
            (cp.Bounds(0, 1) + cp.AbsoluteDeviation(0.1, 1.0), cp.Sum(1)),
            (cp.Bounds(0, 1), cp.Sum(1).within(list("aabb"), {"a": 0.6})),
        ):
            with pytest.raises(ValueError, match="and no g takes neither AbsoluteDeviation nor limits"):
                cp.minimize(cp.Problem(f, h, None, u), k=3)
            with pytest.raises(ValueError, match="and Norm2 takes neither AbsoluteDeviation nor limits"):
                cp.minimize(cp.Problem(f, h, cp.Norm2(1.0), u), k=3)
        gapped = cp.Problem(f, cp.SemiContinuous(0.2, 1), cp.TopSum(2, 1.0), cp.Sum(1))
        with pytest.raises(ValueError, match="takes SemiContinuous only with AtMost"):
            cp.minimize(gapped, k=3)
        signed = cp.Problem(f, cp.Bounds(-1, 1), cp.TopSum(2, 1.0), cp.Sum(1))
        with pytest.raises(ValueError, match="needs x ≥ 0"):
            cp.minimize(signed, k=3)
        crooked = cp.Problem(f, cp.Bounds(-1, 2), cp.Norm2(1.0), cp.Sum(1))
        with pytest.raises(ValueError, match="needs bounds"):
            cp.minimize(crooked, k=3)
        from test_dispatch import load_example

        own = cp.Problem(f, cp.Bounds(0, 1), load_example()(1.0, 0.1), cp.Sum(1))
        with pytest.raises(TypeError, match="CappedL1 has no block step: register a body of `concave_change` for"):
            cp.minimize(own, method="bcd-l", k=3)


def test_the_brute_force_agrees_with_itself(rng):
    """The reference's own check: on a convex quadratic without g the faces give what SciPy gives."""
    from scipy.optimize import minimize as scipy_minimize

    case = Case(
        np.eye(4) * 2,
        rng.standard_normal(4),
        np.zeros(4),
        np.ones(4),
        np.zeros(4),
        np.zeros((0, 4)),
        np.zeros((0, 4)),
        "square",
        0.0,
    )
    x = rng.dirichlet(np.ones(4))
    reference = scipy_minimize(
        case.value,
        x,
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda v: v.sum() - 1},
        options={"ftol": 1e-14},
    )
    assert best_on_block(case, x, range(4)) == pytest.approx(case.value(x) - reference.fun, abs=1e-6)

"""minimize: certified points of every problem and rule, limits, interrupts, callbacks, seeds."""

from __future__ import annotations

import signal
import threading
import time
import warnings

import numpy as np
import pytest

import counterpoise as cp
from conftest import make_problem, scaled
from counterpoise.kernels.pair import is_live
from counterpoise.kernels.violating_line import _least_below
from counterpoise.solvers import faces
from counterpoise.solvers.bcd import RULES
from counterpoise.solvers.run import Progress
from naive import case_of, dcpb1, dcpb2, largest_gap, nnspca, sit

NAMES = ["SIT", "NNSPCA", "DCPB1", "DCPB2"]


def build(name, rng, n=12, m=15, lam=30.0, s=4):
    A, y = rng.standard_normal((m, n)), rng.standard_normal(m)
    problem = make_problem(name, A, y, s, 2 - n % 2, lam)
    reference = {
        "SIT": lambda x: sit(A, y, s, lam, x),
        "NNSPCA": lambda x: nnspca(A, s, lam, x),
        "DCPB1": lambda x: dcpb1(A, y, lam, x),
        "DCPB2": lambda x: dcpb2(A, y, lam, x),
    }[name]
    return problem, case_of(name, A, y, lam, s), reference


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lam", [0.5, 30.0, 1e3])
def test_objective_is_the_papers(name, lam, rng):
    problem, _, reference = build(name, rng, lam=lam)
    for seed in range(5):
        x = problem.start(seed)
        assert problem.objective(x) == pytest.approx(reference(x), rel=1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lam", [0.5, 30.0])
def test_final_points_survive_an_independent_scan_of_all_pairs(name, rule, lam, rng):
    problem, case, reference = build(name, rng, n=scaled(12, 7), lam=lam)
    result = cp.minimize(problem, working_set=rule, seed=3)
    assert result.status is cp.Status.CERTIFIED
    assert result.success
    assert result.cws_gap <= result.tolerance
    assert result.objective == pytest.approx(reference(result.x), rel=1e-12)
    assert problem.violation(result.x) <= 1e-12
    on = "arc" if name == "NNSPCA" else "line"
    assert largest_gap(case, result.x, on) <= result.tolerance + 1e-9 * case.size(result.x)
    assert (np.diff(result.history[:, 2]) <= 1e-9 * case.size(result.x)).all()


@pytest.mark.parametrize("name", NAMES)
def test_limits_return_the_best_point_so_far(name, rng):
    problem, _, _ = build(name, rng, n=scaled(40, 12))
    start = problem.objective(problem.start(0))
    limited = cp.minimize(problem, max_iter=3)
    assert limited.status is cp.Status.ITERATION_LIMIT
    assert not limited.success
    assert limited.nit == 3
    assert np.isnan(limited.cws_gap)
    assert limited.objective == pytest.approx(problem.objective(limited.x))
    assert limited.objective < start
    timed = cp.minimize(problem, max_time=0.0, working_set="cyclic")
    assert timed.status is cp.Status.TIME_LIMIT
    assert timed.objective <= start
    assert "limit" in timed.message


def test_callback_sees_progress_and_can_stop(rng):
    problem, _, _ = build("SIT", rng, n=30)
    seen: list[Progress] = []
    result = cp.minimize(problem, working_set="random", callback=lambda p: seen.append(p) or len(seen) == 3)
    assert result.status is cp.Status.STOPPED_BY_CALLBACK
    assert len(seen) == 3
    assert [p.iteration for p in seen] == [int(row[0]) for row in result.history[1:]]
    assert seen[-1].objective == result.objective
    np.testing.assert_array_equal(seen[-1].x, result.x)


@pytest.mark.compiled
def test_interrupt_returns_the_best_point_so_far(rng):
    problem, _, _ = build("NNSPCA", rng, n=300, m=300)
    cp.minimize(problem, working_set="cyclic", max_iter=5)  # compile before the clock starts
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    timer.start()
    result = cp.minimize(problem, working_set="cyclic", tol=0.0, callback=lambda p: time.sleep(0.02))
    timer.join()
    assert result.status is cp.Status.INTERRUPTED
    assert problem.violation(result.x) <= 1e-12
    assert result.objective < problem.objective(problem.start(0))


def test_interrupt_inside_a_callback(rng):
    problem, _, _ = build("SIT", rng)

    def interrupt(progress):
        raise KeyboardInterrupt

    result = cp.minimize(problem, callback=interrupt)
    assert result.status is cp.Status.INTERRUPTED
    assert problem.violation(result.x) <= 1e-12


def steps_of(problem, **options):
    """The objectives and points that a run reports, and its end."""
    points = []
    result = cp.minimize(problem, callback=lambda p: points.append(p.x) and False, **options)
    return result.history[:, [0, 2]].tolist(), np.array([*points, result.x]).tolist(), result.nit, result.nacc


@pytest.mark.parametrize("rule", RULES)
def test_same_seed_same_bits(rule, rng, monkeypatch):
    """The seed chooses the start and, for rules that draw, the pairs; whole runs are compared, step by step."""
    monkeypatch.setattr("counterpoise.solvers.run.EPOCH_SECONDS", 0.0)
    problem, _, _ = build("NNSPCA", rng, n=scaled(20, 8))
    first, second, other = (steps_of(problem, working_set=rule, seed=seed) for seed in (5, 5, 6))
    assert first == second
    assert first[:2] != other[:2]
    x0 = problem.start(5)
    same, another = (steps_of(problem, x0=x0, working_set=rule, seed=seed) for seed in (5, 6))
    assert (same == another) == (rule in ("cyclic", "greedy", "violating"))


def test_a_result_is_a_warm_start(rng):
    problem, _, _ = build("SIT", rng, n=20)
    result = cp.minimize(problem)
    again = cp.minimize(problem, x0=result.x)
    assert again.success
    assert again.objective <= result.objective
    assert again.nacc <= 1


def test_a_function_as_working_set(rng):
    def first_with_random(problem, x, theta, floor, rng):
        return 0, 1 + int(rng.random() * (len(x) - 1))

    problem, case, _ = build("SIT", rng)
    result = cp.minimize(problem, working_set=first_with_random)
    assert result.success
    assert largest_gap(case, result.x, "line") <= result.tolerance + 1e-9 * case.size(result.x)
    again = cp.minimize(problem, working_set=first_with_random)
    np.testing.assert_array_equal(result.x, again.x)


def test_pairs_that_cannot_move_are_not_live(rng):
    problem, _, _ = build("SIT", rng)
    x = np.eye(12)[0]
    terms = problem.terms()
    assert is_live(terms.u, terms, x, 0, 5)
    assert not is_live(terms.u, terms, x, 4, 5)
    binary, _, _ = build("DCPB1", rng)
    x = np.r_[np.ones(7), -np.ones(5)]
    terms = binary.terms()
    assert is_live(terms.u, terms, x, 0, 9)
    assert is_live(terms.u, terms, x, 9, 0)
    assert not is_live(terms.u, terms, x, 0, 1)
    assert not is_live(terms.u, terms, x, 8, 9)


@pytest.mark.parametrize("name", ["SIT", "NNSPCA", "DCPB1", "DCPB2"])
@pytest.mark.parametrize("factor", [1e-12, 1e-3, 1.0, 1e3])
def test_what_theta_leaves_is_reported_and_not_certified(rng, name, factor):
    problem, case, _ = build(name, rng, n=scaled(12, 6))
    theta, kind = factor * float(np.linalg.norm(case.Q, 2)), "arc" if name == "NNSPCA" else "line"
    result = cp.minimize(problem, theta=theta)
    rounding = 1e-9 * case.size(result.x)
    assert largest_gap(case, result.x, kind, theta) <= result.tolerance + rounding
    gain = largest_gap(case, result.x, kind)
    assert result.cws_gap == pytest.approx(gain, abs=rounding)
    assert result.status is (cp.Status.CERTIFIED if result.cws_gap <= result.tolerance else cp.Status.STATIONARY)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["SIT", "NNSPCA", "DCPB1", "DCPB2"])
def test_algorithm_1_alone_ends_where_no_pair_gains(rng, name, rule, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("a Newton step was taken")

    for step in ("settle", "turn", "descend_face", "settle_from_vertex"):
        monkeypatch.setattr(faces, step, refuse)
    problem, case, _ = build(name, rng, n=scaled(14, 6))
    result = cp.minimize(problem, working_set=rule, newton=False, seed=3)
    assert result.status is cp.Status.CERTIFIED
    on = "arc" if name == "NNSPCA" else "line"
    assert largest_gap(case, result.x, on) <= result.tolerance + 1e-9 * case.size(result.x)


def test_algorithm_1_alone_says_how_far_a_convex_f_could_still_fall(rng):
    """Near-duplicate columns: pairs end early, and the bound that a run with Newton steps closes stays open."""
    A = np.cumsum(rng.standard_normal((30, 25)), axis=1)
    y = A @ rng.dirichlet(np.ones(25)) + rng.standard_normal(30)
    problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1), u=cp.Sum(1))
    least = cp.minimize(problem, tol=1e-12)
    assert least.convex_gap <= least.tolerance
    for rule in RULES:
        result = cp.minimize(problem, working_set=rule, newton=False, tol=1e-4)
        assert result.status is cp.Status.CERTIFIED and result.cws_gap <= result.tolerance
        assert result.objective - least.objective <= result.convex_gap + 1e-12


class TestBadInput:
    @pytest.fixture
    def problem(self, rng):
        return build("SIT", rng)[0]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"method": "bcd-q"}, r"method is 'bcd-q'; it must be one of 'bcd-g'"),
            ({"method": ["bcd-g"]}, r"method is \['bcd-g'\]; it must be one of 'bcd-g'"),
            ({"working_set": "clever"}, r"working_set is 'clever'; it must be one of 'hybrid'"),
            ({"tol": -1}, r"tol is -1; it must be finite and at least 0"),
            ({"theta": -1}, r"theta is -1; it must be finite and at least 0"),
            ({"max_iter": 0}, r"max_iter is 0; it must be at least 1"),
            ({"max_time": -1}, r"max_time is -1; it must be finite and at least 0"),
            ({"x0": np.full(12, np.nan)}, r"x0 contains nan at 0 \(12 such entries\)"),
            ({"x0": np.ones(3)}, r"x0 has shape \(3,\); it must be \(12,\)"),
        ],
    )
    def test_values(self, problem, options, message):
        with pytest.raises(ValueError, match=message):
            cp.minimize(problem, **options)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"method": "psg", "theta": 1.0},
                r"method 'psg': got an unexpected keyword argument 'theta'; its options are step",
            ),
            ({"working_set": 3}, r"working_set is of type int; it must be one of 'hybrid'.* a function"),
            ({"working_set": lambda x: (0, 1)}, r"takes 1 argument\(s\); it must be rule"),
            ({"max_iter": 2.5}, r"max_iter is 2.5; it must be a whole number"),
            ({"tol": "small"}, r"tol is 'small'; it must be one real number"),
            ({"x0": np.ones(12) * 1j}, r"x0 has dtype complex128; give real numbers"),
        ],
    )
    def test_types(self, problem, options, message):
        with pytest.raises(TypeError, match=message):
            cp.minimize(problem, **options)

    def test_no_problem(self):
        with pytest.raises(TypeError, match=r"problem is of type int; it must be a counterpoise\.Problem"):
            cp.minimize(3)

    @pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 12)])
    @pytest.mark.parametrize("g", [None, cp.AtMost(3)])
    def test_an_infeasible_start_is_projected_with_a_warning(self, rng, g, weights):
        f = cp.LeastSquares(rng.standard_normal((20, 12)), rng.standard_normal(20))
        problem = cp.Problem(f, cp.Bounds(0, 0.8), g, cp.Sum(1, weights))
        index = rng.dirichlet(np.ones(12))
        for x0 in (np.zeros(12), np.full(12, 1 / 12), index, np.full(12, 40.0), -index, 1.01 * problem.start(1)):
            near = problem.project(x0)
            assert problem.is_feasible(near)
            if problem.is_feasible(x0):
                continue
            count = np.count_nonzero(x0)
            why = "is infeasible by" if g is None or count <= 3 else f"has {count} non-zeros instead of at most 3"
            with pytest.warns(UserWarning, match=rf"x0 {why}.*; the run starts from problem.project\(x0\)"):
                result = cp.minimize(problem, x0=x0)
            assert problem.violation(result.x) <= 1e-12
            assert result.objective <= problem.objective(near) + 1e-12

    def test_rounding_in_the_start_is_no_matter(self, problem):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cp.minimize(problem, x0=problem.start(1) * (1 + 1e-11))

    def test_the_start_is_not_changed(self, problem):
        x0 = problem.start(2)
        kept = x0.copy()
        x0.setflags(write=False)
        cp.minimize(problem, x0=x0)
        np.testing.assert_array_equal(x0, kept)


@pytest.mark.compiled
def test_epochs_shorter_than_the_patience_of_a_rule_still_settle(rng, monkeypatch):
    """Idle iterations are counted across epochs: otherwise a cyclic run on many pairs would never end."""
    monkeypatch.setattr("counterpoise.solvers.run.EPOCH_SECONDS", 0.0)
    problem, _, _ = build("SIT", rng, n=30)
    result = cp.minimize(problem, working_set="cyclic", max_iter=10**6)
    assert result.status is cp.Status.CERTIFIED
    assert cp.minimize(problem, method="bcd-l", k=5, max_iter=10**5).status is cp.Status.CERTIFIED


@pytest.mark.compiled
@pytest.mark.parametrize("options", [{"working_set": "random"}, {}, {"method": "bcd-l", "k": 4}])
def test_the_length_of_epochs_does_not_change_a_bit(options, rng, monkeypatch):
    problem, _, _ = build("NNSPCA", rng, n=25)
    results = []
    for seconds in (0.0, 0.003, 10.0):
        monkeypatch.setattr("counterpoise.solvers.run.EPOCH_SECONDS", seconds)
        results.append(cp.minimize(problem, **options))
    for other in results[1:]:
        np.testing.assert_array_equal(other.x, results[0].x)
        assert (other.nit, other.nacc) == (results[0].nit, results[0].nacc)


@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_point_is_feasible(name, rng):
    problem, _, _ = build(name, rng, n=scaled(25, 8))
    points = [problem.start(4)]
    cp.minimize(problem, x0=points[0], working_set="random", callback=lambda p: points.append(p.x) and False)
    assert len(points) > 2
    assert max(problem.violation(x) for x in points) <= 1e-10


def test_a_rule_of_ones_own_may_make_arrays(rng):
    """Kernels of the package make none; what users write may."""

    def steepest(problem, x, theta, floor, rng):
        order = np.argsort(problem.f.gradient)
        first = int(rng.random() * 2)
        return order[first], order[len(x) - 1 - int(rng.random() * 3)]

    problem, case, _ = build("SIT", rng, n=12, m=8)
    result = cp.minimize(problem, working_set=steepest)
    assert result.status is cp.Status.CERTIFIED
    assert largest_gap(case, result.x, "line") <= result.tolerance + 1e-9 * case.size(result.x)


@pytest.mark.parametrize("limit", [{}, {"max_iter": 700}, {"callback": lambda progress: progress.iteration > 300}])
@pytest.mark.compiled
def test_an_objective_that_is_followed_is_that_of_the_point(rng, limit):
    """With 1050 coordinates F follows the steps between two measurements, and what is returned was measured."""
    n = 1050
    B = rng.standard_normal((n, 60))
    Q, p = B @ B.T + 0.1 * np.eye(n), rng.standard_normal(n)
    problem = cp.Problem(cp.Quadratic(Q, p), cp.Bounds(0.0, 0.02), u=cp.Sum(1.0))
    result = cp.minimize(problem, problem.start(1), **limit)
    x = result.x
    assert result.objective == float(0.5 * x @ (Q @ x) + p @ x)
    assert np.all(np.diff(result.history[:, 2]) <= 0.0)
    assert result.history[-1, 2] == pytest.approx(result.objective, rel=1e-12)
    if not limit:
        assert result.status is cp.Status.CERTIFIED and result.convex_gap <= result.tolerance


def test_the_least_of_many_is_the_first_one(rng):
    for n in [1, 2, 3, 31, 32, 33, 64, 77, 500]:
        for _ in range(20):
            values = rng.integers(-4, 5, n).astype(np.float64)
            values[rng.random(n) < 0.2] = np.inf
            for below in (np.inf, 0.0, -3.0):
                expected = int(np.argmin(values)) if values.min() < below else -1
                assert _least_below(values, below) == expected

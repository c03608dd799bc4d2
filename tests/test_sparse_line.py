"""Supports on the line against brute force: the best x on a support, exchanges, starts, children, enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

import counterpoise as cp
from conftest import parts, scaled
from counterpoise.kernels import swap_line, tabu_line, walk_line
from counterpoise.problems import SIT
from counterpoise.registry import strategy_for
from counterpoise.solvers import sparse_line
from counterpoise.solvers.line_walk import new_state, priced, straightened, walk
from counterpoise.solvers.sparse_line import SparseLine, reduce_to


def random_problem(rng, n=7, s=3, kinks=False, bounded=False, weights=False, rows=20):
    A, y = rng.standard_normal((rows, n)), rng.standard_normal(rows)
    h = cp.Bounds(0.0, rng.uniform(0.36, 0.6, n) if bounded else np.inf)
    if weights:
        h = h + cp.Linear(rng.normal(0.0, 3.0, n))
    if kinks:
        x0 = rng.dirichlet(np.ones(n))
        x0[rng.random(n) < 0.4] = 0.0
        h = h + cp.AbsoluteDeviation(x0, rng.uniform(0.0, 4.0, n))
    return cp.Problem(cp.LeastSquares(A, y), h, cp.TopSum(s, 1e5), cp.Sum(1.0), constant=1e5)


VARIANTS = [
    {},
    {"bounded": True},
    {"weights": True},
    {"kinks": True},
    {"kinks": True, "bounded": True, "weights": True},
    {"rows": 2},
]


def sparse_value(problem, x):
    """f + h, by the definitions."""
    total = problem.f.value(x) + problem.separable.weight @ x
    return total + np.sum(problem.separable.cost * np.abs(x - problem.separable.centre))


def best_on(problem, W):
    """The least f + h on a support, by SciPy with the kinks split off: x = x0 + p − q."""
    W = list(W)
    A, h = problem.f.A[:, W], problem.separable
    kinked = len(h.centre) > 0
    x0 = h.centre[0, W] if kinked else np.zeros(len(W))
    cost = h.cost[0, W] if kinked else np.zeros(len(W))
    outside = float(np.sum(np.delete(h.cost[0] * h.centre[0], W))) if kinked else 0.0

    def value(v):
        x = x0 + v[: len(W)] - v[len(W) :]
        r = A @ x - problem.f.y
        slope = A.T @ r + h.weight[W]
        return 0.5 * r @ r + h.weight[W] @ x + cost @ (v[: len(W)] + v[len(W) :]), np.r_[slope + cost, cost - slope]

    k = len(W)
    eye = np.eye(k)
    rooms = [
        {
            "type": "eq",
            "fun": lambda v: (x0 + v[:k] - v[k:]).sum() - 1.0,
            "jac": lambda v: np.r_[np.ones(k), -np.ones(k)],
        },
        {"type": "ineq", "fun": lambda v: x0 + v[:k] - v[k:], "jac": lambda v: np.hstack([eye, -eye])},
    ]
    hi = h.hi[W]
    if np.isfinite(hi).all():
        if hi.sum() < 1.0:
            return np.inf
        rooms.append(
            {"type": "ineq", "fun": lambda v: hi - x0 - v[:k] + v[k:], "jac": lambda v: np.hstack([-eye, eye])}
        )
    start = np.full(k, 1.0 / k) - x0
    found = scipy_minimize(
        value,
        np.r_[np.maximum(start, 0.0), np.maximum(-start, 0.0)],
        jac=True,
        bounds=[(0.0, None)] * (2 * k),
        constraints=rooms,
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 400},
    )
    return float(found.fun) + outside


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_point_on_a_support_is_the_best_one(rng, variant):
    for _ in range(scaled(100, 12)):
        problem = random_problem(rng, **variant)
        line = SparseLine(problem)
        W = np.sort(rng.choice(7, 3, replace=False)).astype(np.int64)
        held, z = W.copy(), np.full(3, 1.0 / 3.0)
        swap_line.solve_on(line.support, held, 3, z)
        x = np.zeros(7)
        x[W] = z
        assert problem.violation(x) < 1e-12
        reference = best_on(problem, W)
        assert sparse_value(problem, x) <= reference + 1e-7 * (1.0 + abs(reference))
        shown = swap_line.value_on(line.support, held, 3, z)
        at_zero = sparse_value(problem, np.zeros(7))
        assert shown == pytest.approx(sparse_value(problem, x) - at_zero, rel=1e-10, abs=1e-10)


def all_exchanges(problem, x, s):
    """The largest gain of any exchange (or addition, while there is room), by solving every support."""
    held = np.flatnonzero(x > 0.0)
    now = best_on(problem, held)
    out = [()] if len(held) < s else [(j,) for j in held]
    supports = [sorted({*held} - {*leaves} | {i}) for leaves in out for i in np.flatnonzero(x == 0.0)]
    return max((now - best_on(problem, W) for W in supports), default=0.0)


def random_support(line, rng):
    """Return the best weights on three coordinates, on more than these if they cannot hold the sum."""
    x = np.zeros(7)
    must = np.flatnonzero(line.problem.separable.lo > 0.0)
    x[np.union1d(must, rng.choice(7, 3, replace=False))[: max(3, len(must))]] = line.support.u.total / 3.0
    return line.weighted(x)


@pytest.mark.parametrize("variant", VARIANTS[:5])
def test_the_gap_is_the_largest_gain_of_all_exchanges(rng, variant):
    for _ in range(scaled(25, 5)):
        problem = random_problem(rng, **variant)
        line = SparseLine(problem)
        x = random_support(line, rng)
        own, gap, leaves, enters, bound = line.gap(x)
        assert own + gap <= bound <= own + gap + 1e-6 * (1.0 + abs(sparse_value(problem, x)))
        reference = max(0.0, all_exchanges(problem, x, 3))
        assert own <= 1e-12 * (1.0 + abs(sparse_value(problem, x)))
        assert gap == pytest.approx(reference, rel=1e-5, abs=1e-6 * (1.0 + abs(sparse_value(problem, x))))
        assert (enters >= 0) == (gap > 0.0)
        if leaves >= 0:
            assert x[leaves] > 0.0 and x[enters] == 0.0


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_exchange_improves_the_end_of_a_descent(rng, variant):
    for _ in range(scaled(25, 4)):
        problem = random_problem(rng, **variant)
        line = SparseLine(problem)
        x = line.descend(problem.start(int(rng.integers(1000))))
        assert problem.violation(x) < 1e-9 and (x > 0.0).sum() <= 3
        size = 1.0 + abs(sparse_value(problem, x))
        assert sum(line.gap(x)[:2]) <= 1e-8 * size
        if variant != {"rows": 2}:
            assert all_exchanges(problem, x, 3) <= 1e-6 * size


def test_prices_that_follow_an_exchange_are_those_made_anew(rng):
    followed = 0
    for _ in range(scaled(200, 20)):
        problem = random_problem(rng)
        support, n = SparseLine(problem).support, 7
        held = rng.choice(n, 3, replace=False).astype(np.int64)
        M, Z, schur = np.empty((5, 5)), np.empty((5, n)), np.empty(n)
        swap_line.price(support, held, 3, M, Z, schur)
        for _ in range(3):
            place, enters = int(rng.integers(3)), int(rng.choice(np.setdiff1d(np.arange(n), held)))
            held[place] = enters
            if not swap_line.reprice(support, held, 3, place, enters, M, Z, schur, np.empty(n)):
                break
            fresh = np.empty((5, 5)), np.empty((5, n)), np.empty(n)
            swap_line.price(support, held, 3, *fresh)
            for mine, anew in ((M[:4, :4], fresh[0][:4, :4]), (Z[:4], fresh[1][:4]), (schur, fresh[2])):
                assert np.abs(mine - anew).max() <= 1e-5 * np.abs(anew).max()
            followed += 1
    assert followed > 0


def test_prices_that_follow_who_comes_and_who_goes_are_those_made_anew(rng):
    followed = 0
    for _ in range(scaled(200, 20)):
        problem = random_problem(rng, n=9)
        support, n, m = SparseLine(problem).support, 9, int(rng.integers(2, 5))
        held = np.zeros(6, dtype=np.int64)
        held[:m] = rng.choice(n, m, replace=False)
        M, Z, schur = np.empty((7, 7)), np.empty((7, n)), np.empty(n)
        swap_line.price(support, held, m, M, Z, schur)
        for _ in range(6):
            if m > 1 and (m == 5 or rng.random() < 0.5):
                place = int(rng.integers(m))
                tabu_line.drop(m, place, M, Z, schur)
                m -= 1
                held[place] = held[m]
            else:
                enters = int(rng.choice(np.setdiff1d(np.arange(n), held[:m])))
                tabu_line.enter(support, held, m, enters, M, Z, schur, np.empty(n))
                held[m] = enters
                m += 1
            fresh = np.empty((7, 7)), np.empty((7, n)), np.empty(n)
            swap_line.price(support, held, m, *fresh)
            mine, anew = (M, Z, schur), fresh
            for one, other in zip(mine, anew, strict=True):
                one, other = one[: m + 1], other[: m + 1]
                if one.ndim == 2 and one.shape[1] == 7:
                    one, other = one[:, : m + 1], other[:, : m + 1]
                assert np.abs(one - other).max() <= 1e-6 * np.abs(other).max()
            followed += 1
    assert followed > 0


def test_promises_are_never_below_the_gains(rng):
    """Without kinks the closed form is an upper bound; where no bound is in the way it is the gain."""
    equal = 0
    for _ in range(scaled(60, 10)):
        problem = random_problem(rng)
        line = SparseLine(problem)
        x = random_support(line, rng)
        held = np.flatnonzero(x).astype(np.int64)
        if len(held) < 3:
            continue
        z, n = x[held].copy(), 7
        gradient, schur = np.empty(n), np.empty(n)
        M, Z = np.empty((5, 5)), np.empty((5, n))
        best, out, into = np.empty(12), np.empty(12, dtype=np.int64), np.empty(12, dtype=np.int64)
        swap_line.gradient_at(line.support, held, 3, z, gradient)
        swap_line.price(line.support, held, 3, M, Z, schur)
        count = swap_line.score(line.support, held, 3, z, False, gradient, x > 0.0, M, Z, schur, 0.0, best, out, into)
        now = best_on(problem, held)
        for promise, leaver, enters in zip(best[:count], out[:count], into[:count], strict=True):
            W = sorted({*held.tolist()} - {int(held[leaver])} | {int(enters)})
            gain = now - best_on(problem, W)
            assert promise >= gain - 1e-6 * (1.0 + abs(now))
            equal += abs(promise - gain) <= 1e-6 * (1.0 + abs(now))
    assert equal > 0


@pytest.mark.parametrize("variant", [{}, {"bounded": True}, {"kinks": True}])
def test_starts_and_children_find_the_optimum(rng, variant):
    for case in range(scaled(20, 4)):
        problem = random_problem(rng, n=8, **variant)
        line = SparseLine(problem)
        points = [line.start(k, np.random.default_rng(k)) for k in range(6)]
        points += [line.child(points[:2], np.random.default_rng(k)) for k in range(4)]
        found = min(sparse_value(problem, x) for x in points)
        optimum = min(best_on(problem, W) for W in itertools.combinations(range(8), 3))
        assert found <= optimum + 1e-6 * (1.0 + abs(optimum)), case


def test_backward_elimination_keeps_s_feasible_coordinates(rng):
    problem = random_problem(rng, n=9, s=3)
    line = SparseLine(problem)
    x = np.zeros(9)
    assert reduce_to(line.support, 3, np.arange(9), x) <= 3
    assert problem.violation(x) < 1e-12 and 1 <= (x > 0.0).sum() <= 3


def test_pair_gap_of_a_constraint_against_a_grid_of_pairs(rng):
    """The gap by closed forms is that of the kernels, and no grid of pairs finds more."""
    known = 0
    for case in range(scaled(300, 40)):
        n, s = int(rng.integers(2, 8)), int(rng.integers(1, 4))
        A, y = rng.standard_normal((int(rng.integers(1, 9)), n)), rng.standard_normal()
        A[:, rng.integers(n)] = A[:, rng.integers(n)]
        lo, hi = np.where(rng.random(n) < 0.15, 0.05, 0.0), rng.uniform(0.3, 1.2, n)
        x, held = np.zeros(n), np.union1d(np.flatnonzero(lo), rng.permutation(n)[: rng.integers(1, s + 1)])
        if len(held) > min(s, n) or hi[held].sum() < 1.0:
            continue
        problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(lo, hi), cp.AtMost(min(s, n)), cp.Sum(1.0))
        x[held] = lo[held] + (hi - lo)[held] * (1.0 - lo[held].sum()) / (hi - lo)[held].sum()
        if rng.random() < 0.5 and len(held) > 1 and hi[held[0]] >= 1.0 and not lo.any():
            x[held], x[held[0]] = 0.0, 1.0
        gap, best, known = SparseLine(problem).pair_gap(x), 0.0, known + 1
        for i, j in itertools.permutations(range(n), 2):
            for eta in np.r_[x[j], np.linspace(0.0, min(hi[i] - x[i], x[j] - lo[j]), 60)]:
                z = x.copy()
                z[i], z[j] = x[i] + eta, x[j] - eta if eta != x[j] else 0.0
                if (z >= lo - 1e-12).all() and (z <= hi + 1e-12).all() and np.count_nonzero(z) <= problem.g.s:
                    best = max(best, problem.f.value(x) - problem.f.value(z))
        assert gap >= best - 1e-9, case
        assert gap == pytest.approx(cp.certify(problem, x, scan="all").cws_gap, abs=1e-9), case
    assert known > scaled(100, 10)


def test_pair_gap_leaves_the_rest_to_kernels(rng):
    A, y, bounds, line = rng.standard_normal((9, 6)), rng.standard_normal(9), cp.Bounds(0, 1), cp.Sum(1.0)
    x = np.array([0.5, 0.5, 0.0, 0.0, 0.0, 0.0])
    for h, g, u in (
        (bounds, cp.TopSum(2, 1e5), line),
        (bounds + cp.AbsoluteDeviation(np.full(6, 0.1), 1.0), cp.AtMost(2), line),
        (cp.SemiContinuous(0.1, 1.0), cp.AtMost(2), line),
        (bounds, cp.AtMost(2), line.within({"a": [0, 1, 2]}, {"a": (0.0, 0.8)})),
    ):
        assert SparseLine(cp.Problem(cp.LeastSquares(A, y), h, g, u)).pair_gap(x) is None


@pytest.mark.parametrize("s", [1, 2, 6, 7])
def test_every_s_from_one_to_n(rng, s):
    A, y = rng.standard_normal((12, 7)), rng.standard_normal(12)
    problem = SIT(A, y, s, 1e5)
    line = SparseLine(problem)
    found = min(sparse_value(problem, line.start(k, rng)) for k in range(7))
    optimum = min(best_on(problem, W) for W in itertools.combinations(range(7), s))
    assert found == pytest.approx(optimum, rel=1e-6)


def test_degenerate_columns(rng):
    A = rng.standard_normal((6, 8))
    A[:, 1] = A[:, 0]
    A[:, 2] = 0.0
    A[:, 5] = A[:, 4] * (1.0 + 1e-14)
    problem = SIT(A, A @ np.full(8, 0.125), 3, 1e5)
    line = SparseLine(problem)
    x = line.descend(problem.start(0))
    assert np.isfinite(x).all() and problem.violation(x) < 1e-9 and (x > 0.0).sum() <= 3
    assert sum(line.gap(x)[:2]) <= 1e-8
    flat = SIT(np.zeros((3, 5)), np.zeros(3), 2, 1.0)
    assert flat.violation(SparseLine(flat).descend(flat.start(0))) < 1e-12


def test_positive_lower_bounds_are_always_held(rng):
    lo = np.array([0.0, 0.2, 0.0, 0.1, 0.0, 0.0])
    A, y = rng.standard_normal((10, 6)), rng.standard_normal(10)
    problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(lo, 1.0), cp.TopSum(3, 1e4), cp.Sum(1.0))
    line = SparseLine(problem)
    for k in range(4):
        x = line.start(k, rng)
        assert (x >= lo).all() and (x > 0.0).sum() <= 3 and problem.violation(x) < 1e-12
    with pytest.raises(ValueError, match="2 lower bounds are positive, but at most s = 1"):
        cp.minimize(cp.Problem(problem.f, problem.h, cp.TopSum(1, 1.0), cp.Sum(1.0)), method="swap")


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_walk_never_loses_ground(rng, variant):
    for _ in range(scaled(30, 4)):
        problem = random_problem(rng, n=9, **variant)
        line = SparseLine(problem)
        x = line.descend(problem.start(int(rng.integers(1000))))
        before = sparse_value(problem, x)
        value = tabu_line.walk(line.support, x, 3, 20, 2, 3, rng)
        assert problem.violation(x) < 1e-9 and (x > 0.0).sum() <= 3
        assert sparse_value(problem, x) <= before + 1e-9 * (1.0 + abs(before))
        at_zero = sparse_value(problem, np.zeros(9))
        assert value == pytest.approx(sparse_value(problem, x) - at_zero, rel=1e-9, abs=1e-9)


def test_prices_in_single_precision_follow_moves_and_their_gains_are_true(rng):
    """Weights, prices and gains after exchanges, newcomers and leavers are those made anew and those of SciPy."""
    n, s, per, followed = 9, 5, 0.01, 0
    for _ in range(scaled(60, 8)):
        problem = random_problem(rng, n=n)
        support, m = SparseLine(problem).support, int(rng.integers(2, 6))
        now, fresh = new_state(support, per, s), new_state(support, per, s)
        now.held[1 : m + 1] = rng.choice(n, m, replace=False)
        value = priced(support, per, now, m)
        for _ in range(5):
            kind = int(rng.integers(3))
            place = int(rng.integers(1, m + 1)) if (kind != 1 and m > 1) or m == s else -1
            others = np.setdiff1d(np.arange(n), now.held[1 : m + 1])
            enters = -1 if kind == 2 and place > 0 else int(rng.choice(others))
            m, gain = walk_line.follow(support.Q, per, now, m, place, enters)
            value -= gain
            fresh.held[:] = now.held
            anew = priced(support, per, fresh, m)
            size = per * (problem.f.value(np.zeros(n)) + np.diag(support.Q).max())  # of what is added up
            assert value == pytest.approx(anew, abs=3e-6 * size)
            pairs = [(now.M[: m + 1, : m + 1], fresh.M[: m + 1, : m + 1]), (now.Z[: m + 1], fresh.Z[: m + 1])]
            pairs += [(now.z[1 : m + 1], fresh.z[1 : m + 1]), (now.schur, fresh.schur), (now.slope, fresh.slope)]
            for mine, other in pairs:
                assert np.abs(mine - other).max() <= 1e-3 * np.abs(other).max() + 1e-9
            if (now.z[1 : m + 1] > 0.0).all():
                true = best_on(problem, now.held[1 : m + 1]) - sparse_value(problem, np.zeros(n))
                assert anew / per == pytest.approx(true, rel=1e-5, abs=1e-5)
            followed += 1
    assert followed > 0


def test_the_best_newcomer_of_a_row_is_the_first_with_the_largest_gain(rng):
    single = np.float32
    for n in (1, 2, 31, 33, 64, 150):
        for _ in range(10):
            row, slope = rng.integers(-3, 4, n).astype(single), rng.integers(-3, 4, n).astype(single)
            schur, shift, inverse = np.full(n, 2.0, single), single(rng.uniform(-1.0, 1.0)), single(0.5)
            descent = np.maximum(row * shift - slope, single(0.0))
            gain = single(0.5) * descent * descent / (schur + row * row * inverse)
            for level in (single(0.0), single(1.0), single(100.0)):
                place, most = walk_line._best_of(row, slope, schur, shift, inverse, level, np.empty(n, single))
                assert place == (int(np.argmax(gain)) if gain.max() > level else -1)
                assert most == max(gain.max(), level)


def test_a_walk_makes_the_best_exchange_that_is_allowed(rng):
    n, s, per, chosen = 9, 3, 1.0, 0
    for _ in range(scaled(40, 6)):
        problem = random_problem(rng, n=n, s=s)
        support = SparseLine(problem).support
        now = new_state(support, per, s)
        held = np.sort(rng.choice(n, s, replace=False))
        now.held[1 : s + 1], now.is_held[held] = held, True
        value = priced(support, per, now, s)
        rests = int(rng.choice(np.setdiff1d(np.arange(n), held)))
        now.enter_from[rests], now.leave_from[held[0]] = 1, 1
        place, enters = walk_line.choose(now, s, s, 0)
        if place < 0:
            continue
        assert enters != rests and now.held[place] != held[0] and not now.is_held[enters]
        gains, fresh = {}, new_state(support, per, s)
        for a in range(2, s + 1):
            for k in np.setdiff1d(np.arange(n), [*held, rests]):
                fresh.held[:] = now.held
                fresh.held[a] = k
                anew = priced(support, per, fresh, s)
                if fresh.z[a] > 0.0:
                    gains[a, int(k)] = value - anew
        best = max(gains.values())
        assert gains[place, enters] == pytest.approx(best, rel=1e-3, abs=1e-4 * (1.0 + abs(value)))
        chosen += 1
    assert chosen > 0


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_walks_keep_the_constraint_and_never_lose_ground(rng, scale):
    for s in (2, 4, 9, 10):
        A, y = scale * rng.standard_normal((12, 10)), scale * rng.standard_normal(12)
        hi = np.where(rng.random(10) < 0.2, 0.0, 1.0)
        problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, hi), cp.AtMost(s), cp.Sum(1.0))
        line = SparseLine(problem)
        x = line.descend(problem.start(1))
        before = problem.objective(x)
        walk(line.support, x, s, np.random.default_rng(0), 40)
        assert problem.is_feasible(x) and np.count_nonzero(x) <= s and not x[hi == 0.0].any()
        assert problem.objective(x) <= before + 1e-9 * abs(before)
        again = line.descend(problem.start(1))
        walk(line.support, again, s, np.random.default_rng(0), 40)
        assert np.array_equal(x, again)


def test_the_tangent_of_h_is_nowhere_above_it(rng):
    """The model on which many names under kinks are walked over is a tangent: equal at x, and below elsewhere."""
    for _ in range(scaled(40, 6)):
        problem = random_problem(rng, kinks=True, weights=True)
        line = SparseLine(problem)
        x = random_support(line, rng)
        model = straightened(line.support, x)
        assert not len(model.h.centre)

        def model_value(z, model=model):
            return z @ (0.5 * model.Q @ z + model.b)

        shift = line._value(x) - model_value(x)
        for _ in range(10):
            z = rng.dirichlet(np.ones(7)) * (rng.random(7) < 0.6)
            assert model_value(z) + shift <= line._value(z) + 1e-9 * (1.0 + abs(line._value(z)))


@pytest.mark.compiled
@pytest.mark.parametrize("variant", VARIANTS[:5])
@pytest.mark.parametrize("part", parts(2))
def test_one_walk_leaves_local_optima_for_the_optimum(rng, variant, part):
    """From the worst of many local optima; each of the cases has one above the optimum."""
    reached = cases = 0
    while cases < 6:
        problem = random_problem(rng, n=9, **variant)
        line = SparseLine(problem)
        ends = [line.descend(problem.start(k)) for k in range(12)]
        values = [sparse_value(problem, end) for end in ends]
        if max(values) <= min(values) + 1e-4 * (1.0 + abs(min(values))):
            continue
        cases += 1
        x = ends[int(np.argmax(values))].copy()
        optimum = min(best_on(problem, W) for W in itertools.combinations(range(9), 3))
        tabu_line.walk(line.support, x, 3, 60, 2, 3, rng)
        reached += sparse_value(problem, x) <= optimum + 1e-6 * (1.0 + abs(optimum))
    assert reached >= 0.8 * cases


@pytest.mark.parametrize("s", [1, 2, 7, 8])
def test_a_walk_with_few_or_all(rng, s):
    problem = SIT(rng.standard_normal((12, 8)), rng.standard_normal(12), s, 1e5)
    line = SparseLine(problem)
    x = line.descend(problem.start(0))
    before = sparse_value(problem, x)
    assert np.isfinite(tabu_line.walk(line.support, x, s, 40, 3, 1, rng))
    assert problem.violation(x) < 1e-12 and sparse_value(problem, x) <= before + 1e-12


def test_a_walk_over_degenerate_columns(rng):
    A = rng.standard_normal((6, 8))
    A[:, 1], A[:, 2], A[:, 5] = A[:, 0], 0.0, A[:, 4] * (1.0 + 1e-14)
    lo = np.zeros(8)
    lo[3] = 0.1
    for h in (cp.Bounds(0.0, np.inf), cp.Bounds(lo, 0.5), cp.Bounds(0.0, [0.0, 0.5, 0.5, 0.4, 0.3, 0.5, 0.5, 0.0])):
        for matrix in (A, np.zeros((3, 8))):
            y = matrix @ np.full(8, 0.125)
            problem = cp.Problem(cp.LeastSquares(matrix, y), h, cp.TopSum(3, 1e5), cp.Sum(1.0))
            line = SparseLine(problem)
            for seed in range(5):
                x = line.start(1, np.random.default_rng(seed))
                tabu_line.walk(line.support, x, 3, 40, 2, 2, rng)
                assert np.isfinite(x).all() and problem.violation(x) < 1e-9 and (x > 0.0).sum() <= 3


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_enumeration_finds_the_optimum_from_any_point(rng, variant):
    """Supports are left out only if a bound allows it, with kinks that reward holding as well."""
    for trial in range(scaled(6, 1)):
        problem = random_problem(rng, s=3 + trial % 2, **variant)
        if len(problem.separable.centre):
            problem = cp.Problem(
                problem.f,
                problem.h + cp.AbsoluteDeviation(rng.random(7), rng.uniform(0.0, 60.0, 7)),
                problem.g,
                problem.u,
            )
        line = SparseLine(problem)
        x = random_support(line, rng)
        for _ in line.enumeration()[2](x):
            pass
        best = min(
            problem.objective(line.weighted(np.isin(np.arange(7), W) / line.s))
            for W in itertools.combinations(range(7), line.s)
        )
        assert problem.is_feasible(x)
        assert problem.objective(x) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("seed", range(scaled(8, 2)))
def test_exact_holds_what_has_to_be_positive(seed):
    rng = np.random.default_rng(seed)
    A, y, lo = rng.standard_normal((5, 6)), rng.standard_normal(5), np.zeros(6)
    lo[rng.integers(6)] = 0.3
    problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(lo, 1.0), cp.AtMost(2), cp.Sum(1))
    result = cp.minimize(problem, method="exact")
    assert result.status is cp.Status.OPTIMAL
    assert (result.x >= lo).all()


def test_starts_under_floors_leave_room(rng, monkeypatch):
    """If all floors fit and s is no limit, a descent from all coordinates would drop most of them one by one."""
    n, held = 40, []
    A, y = rng.standard_normal((20, n)), rng.standard_normal(20)
    problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 0.3) + cp.SemiContinuous(0.01), None, cp.Sum(1))
    strategy, walk = strategy_for(problem)(problem), sparse_line.walk
    assert strategy.s == n and not strategy.tight

    def seen(support, x, *rest):
        held.append(np.count_nonzero(x))
        walk(support, x, *rest)

    monkeypatch.setattr(sparse_line, "walk", seen)
    points = [strategy.start(k, np.random.default_rng(k)) for k in range(4)]
    assert max(held) <= n // 4
    for x in points:
        assert problem.is_feasible(x) and problem.objective(x) <= cp.minimize(problem).objective * 1.1


def test_exchanges_among_many_are_limited_in_work(rng, monkeypatch):
    """Without a time limit a swap and a search solve a limited number of small programs; nothing more is claimed."""
    n, s, solved, rate = 40, 30, [], sparse_line.RATE * sparse_line.GROUPED * sparse_line.KINKED
    A = rng.standard_normal((30, n))
    y = A @ rng.dirichlet(np.ones(n))
    h = (
        cp.SemiContinuous(0.001, 0.2)
        + cp.Ridge(np.zeros(n), 1.0)
        + cp.AbsoluteDeviation(rng.dirichlet(np.ones(n)), 0.1)
    )
    groups = cp.Sum(1).within([k % 3 for k in range(n)], {k: (0.1, 0.6) for k in range(3)})
    problem = cp.Problem(cp.LeastSquares(A, y), h, cp.AtMost(s), groups)
    first, descend, walk = cp.minimize(problem), swap_line.descend, sparse_line.walk

    def counted(support, x, *rest):
        held, found = np.count_nonzero(x), np.zeros(5)
        result = descend(support, x, *rest[:-1], found)
        rest[-1][:] = found
        solved.append(rate * max(held, np.count_nonzero(x)) ** 3 * (found[0] if rest[3] > 0 else 1))
        return result

    def walked(support, x, s, rng, steps, *rest):
        solved.append(rate * s**3 * steps)
        walk(support, x, s, rng, steps, *rest)

    monkeypatch.setattr(swap_line, "descend", counted)
    monkeypatch.setattr(sparse_line, "walk", walked)
    monkeypatch.setattr(sparse_line, "MANY", 10)
    limits = {"WALK_LIMIT": 6.0, "JOB_WORK": 12.0, "KINKED_WORK": 40.0, "SWAP_WORK": 40.0, "SLICE_WORK": 10.0}
    for name, programs in limits.items():
        monkeypatch.setattr(sparse_line, name, programs * rate * s**3)
    for method, most in (("swap", 60.0), ("search", 120.0)):
        solved.clear()
        result = cp.minimize(problem, method=method)
        assert 0.0 < sum(solved) <= most * rate * s**3
        assert result.status is cp.Status.CERTIFIED and result.swap_gap is None
        assert result.objective <= first.objective + first.tolerance
        again = cp.minimize(problem, method=method)
        assert np.array_equal(again.x, result.x)
    solved.clear()
    longer = cp.minimize(problem, method="swap", max_time=60.0)
    assert sum(solved) > 120.0 * rate * s**3
    assert longer.objective <= first.objective + first.tolerance

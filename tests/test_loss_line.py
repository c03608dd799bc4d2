"""Supports where f is not quadratic: search, swap and certificates against SLSQP on every support."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.optimize

import counterpoise as cp
from conftest import COMPILED, scaled
from counterpoise.problem import Status
from counterpoise.registry import strategy_for
from counterpoise.solvers import loss_line
from counterpoise.solvers.loss_line import LossLine
from naive import binary_optimum, binary_points, loss_slope, loss_sum
from test_losses import DELTA, LOSSES, data, make

CLOSE = 2e-6


def least_on(description, members, lo, hi, cost, groups=()):
    """The least f + cost·x over the weights of the members, each within its bounds, by SLSQP; ∞ if it finds none."""
    kind, A, y, v = description
    B, members = A[:, members], list(members)
    lo, hi, cost = lo[members], hi[members], cost[members]
    rules = [{"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": lambda w: np.ones(len(w))}]
    for inside, most in groups:
        mask = np.isin(members, inside).astype(float)
        if mask.any():
            rules.append({"type": "ineq", "fun": lambda w, m=mask, b=most: b - m @ w, "jac": lambda w, m=mask: -m})
    least = np.inf
    for start in (np.full(len(members), 1.0 / len(members)), lo + (hi - lo) / (1.0 + np.arange(len(members)))):
        found = scipy.optimize.minimize(
            lambda w: loss_sum(kind, B, y, v, w, DELTA) + cost @ w,
            np.clip(start, lo, hi),
            jac=lambda w: loss_slope(kind, B, y, v, w, DELTA) + cost,
            bounds=list(zip(lo, hi, strict=True)),
            constraints=rules,
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 300},
        )
        ok = abs(found.x.sum() - 1.0) < 1e-7 and all(np.atleast_1d(r["fun"](found.x)).min() > -1e-7 for r in rules[1:])
        least = min(least, float(found.fun)) if ok else least
    return least


def case(kind, rng, n=6, m=12, floors=False, groups=False, costs=False):
    A, y, v = data(kind, rng, m, n)
    hi = np.full(n, 0.7)
    lo = np.where(rng.random(n) < 0.5, 0.15, 0.0) if floors else np.zeros(n)
    cost = rng.uniform(0.0, 0.5, n) if costs else np.zeros(n)
    h, u, limits = cp.Bounds(0, hi), cp.Sum(1), ()
    if floors:
        h = h + cp.SemiContinuous(lo, hi)
    if costs:
        h = h + cp.AbsoluteDeviation(np.zeros(n), cost)
    if groups:
        limits = (([0, 1, 2], 0.6),)
        u = u.within({"a": [0, 1, 2]}, {"a": (0.0, 0.6)})
    return (make(kind, A, y, v), h, u), ((kind, A, y, v), lo, hi, cost, limits)


def best_of_all(reference, n, s):
    """The least value over all supports of at most s."""
    sets = itertools.chain.from_iterable(itertools.combinations(range(n), k) for k in range(1, s + 1))
    return min(least_on(reference[0], held, *reference[1:]) for held in sets)


@pytest.mark.parametrize("rules", [{}, {"floors": True}, {"groups": True}, {"costs": True}])
@pytest.mark.parametrize("kind", LOSSES)
def test_search_finds_the_best_support(kind, rules, rng, monkeypatch):
    # Otherwise the minimum over all six may be the answer.
    monkeypatch.setattr("counterpoise.solvers.dense.ONE_IN", 0)
    for _ in range(scaled(3, 1)):
        (f, h, u), reference = case(kind, rng, **rules)
        problem = cp.Problem(f, h, cp.AtMost(3), u)
        result = cp.minimize(problem, method="search", seed=0)
        best = best_of_all(reference, 6, 3)
        assert result.objective == pytest.approx(best, rel=CLOSE, abs=1e-9)
        assert result.status is Status.CERTIFIED and problem.is_feasible(result.x)


@pytest.mark.parametrize("rules", [{}, {"groups": True}, {"costs": True}])
@pytest.mark.parametrize("kind", LOSSES)
def test_weights_on_a_support_are_the_best(kind, rules, rng):
    for _ in range(scaled(20, 3)):
        (f, h, u), reference = case(kind, rng, **rules)
        problem = cp.Problem(f, h, cp.AtMost(4), u)
        held = np.sort(rng.choice(6, 4, replace=False))
        start = np.zeros(6)
        start[held] = rng.dirichlet(np.ones(4))
        found = LossLine(problem).solve(start, held, loss_line.CLAIMED)
        assert problem.is_feasible(found.x) and set(np.flatnonzero(found.x)) <= set(held)
        best = least_on(reference[0], held, *reference[1:])
        assert found.value == pytest.approx(
            problem.objective(found.x) - problem.objective(0 * found.x) + f.value_at_zero
        )
        assert found.value <= best + CLOSE * abs(best) + 1e-10
        assert found.gap <= 1e-9 * abs(found.value) + 1e-12


@pytest.mark.parametrize("g", [cp.AtMost(3), cp.TopSum(3, 1e3)])
@pytest.mark.parametrize("kind", LOSSES)
def test_swap_optimal_points_have_no_better_exchange(kind, g, rng):
    for _ in range(scaled(4, 1)):
        (f, h, u), reference = case(kind, rng)
        problem = cp.Problem(f, h, g, u)
        result = cp.minimize(problem, method="swap", seed=0)
        assert result.status is Status.SWAP_OPTIMAL
        held = np.flatnonzero(result.x)
        outside = np.setdiff1d(np.arange(6), held)
        pairs = itertools.product(held if len(held) == 3 else [-1], outside)
        best = min(least_on(reference[0], [*(k for k in held if k != j), i], *reference[1:]) for j, i in pairs)
        value = loss_sum(*reference[0], result.x, DELTA)
        assert value - best <= CLOSE * abs(value) + 1e-9
        assert 0.0 <= result.swap_gap <= 1e-8 * abs(value) + 1e-11


@pytest.mark.parametrize("kind", ["huber", "huber downside"])
@pytest.mark.parametrize("delta", [1e-14, 1e-12, 1e-9])
def test_claims_of_exchanges_follow_a_loss_that_is_nearly_linear(kind, delta):
    """Rounding of F is in proportion to δ, as F is; where models cannot resolve F, a claim needs a finer proof."""
    claimed = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        A, y, ones = rng.standard_normal((8, 6)), rng.standard_normal(8), np.ones(8)
        problem = cp.Problem(make(kind, A, y, delta=delta), cp.Bounds(0, 1), cp.AtMost(2), cp.Sum(1))
        result = cp.minimize(problem, method="swap")
        held = np.flatnonzero(result.x)
        sets = [(*held[held != j], i) for j in held for i in np.setdiff1d(range(6), held)]
        x, least = np.zeros(6), np.inf
        for one, t in itertools.product(sets, np.linspace(0.0, 1.0, 201)):
            x[:], x[one[0]], x[one[-1]] = 0.0, t, 1.0 - t * (len(one) > 1)
            least = min(least, loss_sum(kind, A, y, ones, x, delta))
        if result.status is Status.SWAP_OPTIMAL:
            claimed += 1
            assert least >= result.objective - result.swap_gap - 1e-8 * result.objective
            assert result.swap_gap <= 1e-3 * result.objective
    assert claimed == 8 or delta < 1e-10


def floored(kind, seed):
    """A problem of three names with floors so large that two may be better."""
    rng = np.random.default_rng(seed)
    A, y = rng.standard_normal((8, 6)), rng.standard_normal(8)
    if kind == "logistic":
        y = np.where(y > 0.0, 1.0, -1.0)
    lo, hi = rng.uniform(0.1, 0.45, 6), rng.uniform(0.5, 1.0, 6)
    problem = cp.Problem(make(kind, A, y), cp.SemiContinuous(lo, hi), cp.AtMost(3), cp.Sum(1))
    return problem, ((kind, A, y, np.ones(8)), lo, hi, np.zeros(6), ())


@pytest.mark.parametrize(
    ("kind", "seed"),
    [("huber", 12), ("huber", 14), ("huber", 35), ("downside", 9), ("huber downside", 20), ("logistic", 12)],
)
def test_names_may_leave_under_floors_without_a_newcomer(kind, seed):
    problem, reference = floored(kind, seed)
    for method in ("swap", "search"):
        result = cp.minimize(problem, method=method, seed=0)
        held, value = np.flatnonzero(result.x), loss_sum(*reference[0], result.x, DELTA)
        without = [least_on(reference[0], held[held != j], *reference[1:]) for j in held]
        assert value <= min(without) + CLOSE * abs(value) + 1e-9
        assert method == "search" or result.status is Status.SWAP_OPTIMAL
    assert value == pytest.approx(best_of_all(reference, 6, 3), rel=CLOSE, abs=1e-9)


@pytest.mark.parametrize("kind", LOSSES)
def test_certificates_count_exchanges_alone_under_floors(kind):
    """A name that leaves without a newcomer is a move of ``swap``, but no exchange."""
    for seed in range(scaled(6, 2)):
        problem, reference = floored(kind, seed)
        x = problem.project(np.where(np.arange(6) < 3, 1.0 / 3.0, 0.0))
        held = np.flatnonzero(x)
        certificate = cp.certify(problem, x, level="swap")
        leavers = [*held, -1] if len(held) < 3 else held
        sets = [[*held[held != j], i] for j in leavers for i in np.setdiff1d(np.arange(6), held)]
        best = min(least_on(reference[0], members, *reference[1:]) for members in [held, *sets])
        gain = problem.objective(x) - best
        assert certificate.swap_gap == pytest.approx(gain, abs=CLOSE * problem.objective(x))
        assert certificate.worst_swap is None or certificate.worst_swap[1] >= 0


@pytest.mark.parametrize("kind", LOSSES)
def test_certificates_measure_exchanges(kind, rng):
    """At a point that is not swap-optimal the gap is what SLSQP finds over all exchanges."""
    for _ in range(scaled(4, 1)):
        (f, h, u), reference = case(kind, rng)
        problem = cp.Problem(f, h, cp.AtMost(3), u)
        x = np.zeros(6)
        x[:3] = [0.5, 0.3, 0.2]
        certificate = cp.certify(problem, x, level="swap")
        sets = [[*(k for k in range(3) if k != j), i] for j in range(3) for i in range(3, 6)]
        best = min(least_on(reference[0], held, *reference[1:]) for held in [[0, 1, 2], *sets])
        gain = problem.objective(x) - best
        assert certificate.swap_gap == pytest.approx(gain, abs=CLOSE * problem.objective(x))
        assert certificate.swap_gap <= certificate.swap_bound * (1.0 + 1e-12) + 1e-15
        assert certificate.swap_bound <= certificate.swap_gap + 1e-8 * problem.objective(x)


@pytest.mark.parametrize("kind", ["square", "huber"])
def test_a_loss_that_is_quadratic_agrees_with_least_squares(kind, rng):
    """Huber with a large δ is least squares: both ways end at the same points."""
    for _ in range(scaled(5, 2)):
        A, y, v = data("huber", rng, 25, 12)
        f = cp.LeastSquares(A, y, weights=v) if kind == "square" else cp.Huber(A, y, 1e6, v)
        problem = cp.Problem(f, cp.Bounds(0, 0.6), cp.AtMost(4), cp.Sum(1))
        exact = cp.minimize(cp.Problem(cp.LeastSquares(A, y, weights=v), cp.Bounds(0, 0.6), cp.AtMost(4), cp.Sum(1)),
                            method="exact")  # fmt: skip
        assert cp.minimize(problem, method="search", seed=0).objective == pytest.approx(exact.objective, rel=1e-9)


def test_the_registry_chooses_by_what_f_can_do(rng):
    A, y, _ = data("huber", rng)
    for f, name in ((cp.Huber(A, y, 1.0), "LossLine"), (cp.LeastSquares(A, y), "SparseLine")):
        assert strategy_for(cp.Problem(f, cp.Bounds(0, 1), cp.AtMost(2), cp.Sum(1))).__name__ == name


def test_more_exchanges_than_can_be_verified_are_not_claimed(rng, monkeypatch):
    (f, h, u), _ = case("downside", rng)
    problem = cp.Problem(f, h, cp.AtMost(3), u)
    monkeypatch.setattr(loss_line, "PROVED", 2)
    assert cp.minimize(problem, method="swap").status is Status.CERTIFIED
    x = np.zeros(6)
    x[:3] = [0.5, 0.3, 0.2]
    with pytest.raises(ValueError, match="9 exchanges would have to be verified one by one, more than the limit of 2"):
        cp.certify(problem, x, level="swap")


@pytest.mark.parametrize("rules", [{}, {"floors": True}, {"groups": True}])
@pytest.mark.parametrize("kind", LOSSES)
def test_search_without_the_gram_matrix_finds_the_best_support(kind, rules, rng, monkeypatch):
    # Otherwise the minimum over all six may be the answer.
    monkeypatch.setattr("counterpoise.solvers.dense.ONE_IN", 0)
    (f, h, u), reference = case(kind, rng, **rules)
    problem = cp.Problem(cp.Loss(f.phi, f.A, f.y, f.weights, gram=False), h, cp.AtMost(3), u)
    result = cp.minimize(problem, method="search", seed=0)
    assert result.objective == pytest.approx(best_of_all(reference, 6, 3), rel=CLOSE, abs=1e-9)
    assert result.status is Status.CERTIFIED


@pytest.mark.parametrize("ruled", [False, True])
def test_search_among_very_many_columns_forms_no_square_matrix(ruled, rng, monkeypatch):
    """Three planted columns of 6100 are found; their weights are those of SLSQP."""

    def refuse(self):
        raise AssertionError("AᵀA was formed")

    monkeypatch.setattr(cp.LeastSquares, "Q", property(refuse))
    n, planted = 6100, [7, 2000, 6050]
    A = rng.standard_normal((60, n))
    y = A[:, planted] @ [0.5, 0.3, 0.2] + 0.01 * rng.standard_t(2, 60)
    h = cp.SemiContinuous(0.1, 0.6) if ruled else cp.Bounds(0, 0.6)
    u = cp.Sum(1).within({"a": np.arange(1000)}, {"a": (0.0, 0.45)}) if ruled else cp.Sum(1)
    problem = cp.Problem(cp.Huber(A, y, DELTA), h, cp.AtMost(3), u)
    result = cp.minimize(problem, method="search", work=4, seed=0)
    assert np.flatnonzero(result.x).tolist() == planted and result.status is Status.CERTIFIED
    bounds = np.full(n, 0.1 if ruled else 0.0), np.full(n, 0.6), np.zeros(n)
    limits = (([7], 0.45),) if ruled else ()
    best = least_on(("huber", A, y, np.ones(60)), planted, *bounds, limits)
    assert result.objective == pytest.approx(best, rel=CLOSE)


def test_time_limits_and_seeds_are_kept(rng):
    A, y, v = data("huber", rng, 60, 40)
    problem = cp.Problem(cp.Huber(A, y, 0.3, v), cp.Bounds(0, 1), cp.AtMost(6), cp.Sum(1))
    one, two = (cp.minimize(problem, method="search", seed=3, work=8, n_jobs=jobs) for jobs in (None, 2))
    np.testing.assert_array_equal(one.x, two.x)
    for method in ("search", "swap"):
        limited = cp.minimize(problem, method=method, max_time=0.05)
        assert problem.is_feasible(limited.x)


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("seed", range(scaled(8, 1)))
def test_binary_points_against_enumeration(kind, seed):
    rng = np.random.default_rng([seed, 5])
    n, b, w = int(rng.integers(3, 9 if COMPILED else 5)), (1.0, 0.4)[seed % 2], (seed % 3) * rng.standard_normal(8)
    c = float(rng.integers(-1, 2)) if seed % 4 else float(rng.uniform(-1.5, 1.5))
    A, y, v = data(kind, rng, 15, n)
    A *= 10.0 ** rng.uniform(-1, 1, n)
    w = w[:n]

    def value(x):
        return loss_sum(kind, A, y, v, x, DELTA) + w @ x

    g = (cp.Norm2, cp.ConcaveQuadratic)[seed % 2](1e5 * float(np.square(A).sum()))
    problem = cp.Problem(make(kind, A, y, v), cp.Bounds(-b, b) + cp.Linear(w), g, cp.Sum(b * c))
    least = min(value(b * x) for x in binary_points(n, c))
    found = cp.minimize(problem, method="search").x
    assert np.count_nonzero(np.abs(found) != b) <= 1
    assert value(found) == pytest.approx(least, rel=1e-9, abs=1e-12)
    end = strategy_for(problem)(problem)
    x = end.round(rng.standard_normal(n))
    while end.advance(x, 3)[2] is None:
        pass
    assert problem.is_feasible(x)
    for i, j in itertools.combinations(range(n), 2):
        other = x.copy()
        other[i], other[j] = x[j], x[i]
        assert value(other) >= value(x) - 1e-9 * abs(value(x))


def test_swap_on_binary_losses_ends_no_higher_than_bcd(rng):
    A, y, v = data("huber", rng, 60, 20)
    problem = cp.Problem(cp.Huber(A, y, 0.3, v), cp.Bounds(-1, 1), cp.Norm2(1e4), cp.Sum(0))
    first, swapped = cp.minimize(problem), cp.minimize(problem, method="swap")
    assert swapped.status is Status.CERTIFIED
    assert swapped.objective <= first.objective
    for more in (0, 1, 3):
        assert cp.minimize(problem, method="swap", max_iter=first.nit + more).nit <= first.nit + more
    one, two = (cp.minimize(problem, method="search", work=8, n_jobs=jobs) for jobs in (None, 2))
    np.testing.assert_array_equal(one.x, two.x)
    assert one.objective <= swapped.objective
    limited = cp.minimize(problem, method="search", max_time=0.05)
    assert problem.is_feasible(limited.x)


class Uneven:
    """½z², five times as much for the first row of A; z is one vector."""

    bound = 5.0

    def rows(self, z):
        many = np.ones_like(z)
        many[0] = 5.0
        return many

    def value(self, z):
        return self.rows(z) * 0.5 * z * z

    def slope(self, z):
        return self.rows(z) * z

    def curvature(self, z):
        return self.rows(z)


def test_own_losses_on_binary_points_may_take_one_vector_at_a_time(rng):
    A, y, _ = data("huber", rng, 12, 7)
    problem = cp.Problem(cp.Loss(Uneven(), A, y), cp.Bounds(-1, 1), cp.Norm2(1e4), cp.Sum(1))
    roots = np.sqrt(np.append(5.0, np.ones(11)))
    least, _ = binary_optimum(roots[:, None] * A, roots * y, 1)
    assert problem.f.value(cp.minimize(problem, method="search").x) == pytest.approx(least, rel=1e-9)


def least_on_circles(description, n, signed):
    """The least f over x on the unit sphere with two non-zeros: on the circle of each pair, by a refined grid."""
    kind, A, y, v = description
    least, angles = np.inf, np.linspace(0.0, 2 * np.pi if signed else np.pi / 2, 121)
    for pair in itertools.combinations(range(n), 2):

        def value(angle, B=A[:, pair]):
            return loss_sum(kind, B, y, v, np.array([np.cos(angle), np.sin(angle)]), DELTA)

        values = np.array([value(angle) for angle in angles])
        a = int(values.argmin())
        around = angles[max(a - 1, 0)], angles[min(a + 1, 120)]
        fine = scipy.optimize.minimize_scalar(value, bounds=around, method="bounded", options={"xatol": 1e-9})
        least = min(least, values[a], fine.fun)
    return least


@pytest.mark.compiled
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("kind", ["square", "huber", "downside", "logistic"])
def test_swaps_on_a_sphere_nearly_always_reach_the_least(kind, signed, rng):
    missed, trials = 0, 12
    for seed in range(trials):
        A, y, v = data(kind, rng, int(rng.integers(4, 16)), 6)
        h, u = cp.Bounds(-np.inf if signed else 0, np.inf), cp.Sphere(signed=signed)
        problem = cp.Problem(make(kind, A, y, v), h, cp.AtMost(2), u)
        result, first = cp.minimize(problem, method="swap", seed=seed), cp.minimize(problem, seed=seed)
        assert problem.is_feasible(result.x) and result.status is Status.CERTIFIED
        assert result.objective <= first.objective + first.tolerance
        least = least_on_circles((kind, A, y, v), 6, signed)
        assert result.objective >= least - 1e-7 * (1.0 + abs(least))
        missed += result.objective > least + 1e-6 * (1.0 + abs(least))
    assert missed <= trials // 3  # nothing is proved of exchanges here; of 192 points 5 are missed, 45 by bcd-g


@pytest.mark.compiled
def test_swaps_on_a_sphere_keep_limits_and_penalties(rng):
    A, y, v = data("huber", rng, 12, 9)
    f, ball = make("huber", A, y, v), cp.Bounds(0, np.inf)
    problem = cp.Problem(f, ball, cp.AtMost(3), cp.Sphere())
    assert cp.minimize(problem, method="swap", callback=lambda p: True).status is Status.STOPPED_BY_CALLBACK
    short = cp.minimize(problem, method="swap", max_iter=1)
    assert problem.is_feasible(short.x) and short.status in (Status.ITERATION_LIMIT, Status.CERTIFIED)
    for lam in (0.1, 30.0):
        penalised = cp.Problem(f, ball + cp.Linear(lam), cp.TopSum(3, lam), cp.Sphere())
        result, first = cp.minimize(penalised, method="swap"), cp.minimize(penalised)
        assert penalised.is_feasible(result.x) and result.objective <= first.objective + first.tolerance
    for problem in (cp.Problem(f, ball, None, cp.Sphere()), cp.Problem(f, ball, cp.ConcaveQuadratic(1.0), cp.Sphere())):
        with pytest.raises(ValueError, match="method 'swap' takes TopSum and AtMost on Sum or Sphere"):
            cp.minimize(problem, method="swap")


def test_exchanges_of_a_swap_are_limited_in_work(rng, monkeypatch):
    """Without a time limit the proof of many exchanges is given up, and nothing is claimed of them."""
    n, m, s = 60, 80, 25
    A = 0.01 * (rng.standard_normal((m, 1)) + rng.standard_normal((m, n)))
    y = A @ rng.dirichlet(np.ones(n)) + 0.0005 * rng.standard_normal(m)
    problem = cp.Problem(cp.HuberDownside(A, y, 0.0005, ties=1e-3), cp.Bounds(0, 1), cp.AtMost(s), cp.Sum(1))
    first, solved, solve = cp.minimize(problem), [], LossLine.solve

    def counted(self, *arguments):
        found = solve(self, *arguments)
        solved.append(found.work)
        return found

    monkeypatch.setattr(LossLine, "solve", counted)
    for limit in (1e8, 3e8):
        monkeypatch.setattr(loss_line, "SWAP_WORK", limit)
        solved.clear()
        result = cp.minimize(problem, method="swap")
        assert sum(solved) <= limit + 10.0 * max(solved)
        assert result.status is Status.CERTIFIED and result.swap_gap is None
        assert result.objective <= first.objective + first.tolerance

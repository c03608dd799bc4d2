"""Portfolios under rules against enumeration of names, each set solved by enumeration of faces."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from conftest import scaled
from counterpoise.kernels import holdings as kernel
from counterpoise.problem import Status
from counterpoise.solvers import holdings as module
from counterpoise.solvers import portfolios
from counterpoise.solvers.holdings import Holdings, best_holdings


def draw(rng, n=6, s=3, *, lo=False, groups=False, turnover=False, must=False, tight=True):
    A, y = rng.standard_normal((12, n)), rng.standard_normal(12)
    hi = rng.choice([0.4, 0.6, 1.0], n) if tight else np.ones(n)
    count = int(rng.integers(1, 4)) if groups else 0
    group = rng.integers(-1, count, n) if groups else np.full(n, -1)
    least, most = np.zeros(count), np.ones(count)
    for g in range(count):
        least[g], most[g] = np.sort(np.round(rng.random(2), 1))
        if rng.random() < 0.3:
            least[g] = most[g] = round(0.5 * float(rng.random()), 1)
        if rng.random() < 0.3:
            least[g] = 0.0
    centre = np.zeros(n)
    if turnover:
        held = rng.choice(n, min(n, s + 1), replace=False)
        centre[held] = rng.dirichlet(np.ones(len(held)))
    required = np.zeros(n, dtype=bool)
    if must:
        required[int(rng.integers(n))] = True
    return Holdings(
        Q=A.T @ A,
        b=-A.T @ y,
        s=s,
        lo=np.minimum(rng.choice([0.0, 0.1, 0.3], n), hi) if lo else np.zeros(n),
        hi=hi,
        must=required,
        group=group.astype(np.int64),
        least=least,
        most=most,
        centre=centre,
        cost=rng.choice([0.0, 0.5, 3.0], n) if turnover else np.zeros(n),
        constant=0.5 * float(y @ y),
    )


def feasible_weights(problem, held, rng):
    """Weights of given names inside all rules, between three vertices that a linear program finds; None if none."""
    held = list(held)
    inside = [(problem.group[held] == g).astype(float) for g in range(len(problem.least))]
    rows = np.array([row for g in inside for row in (g, -g)]).reshape(-1, len(held))
    limits = np.ravel(np.column_stack([problem.most, -problem.least]))
    vertices = []
    for _ in range(3):
        found = linprog(
            rng.standard_normal(len(held)),
            A_ub=rows if len(rows) else None,
            b_ub=limits if len(rows) else None,
            A_eq=np.ones((1, len(held))),
            b_eq=[1.0],
            bounds=[(problem.lo[i], problem.hi[i]) for i in held],
        )
        if found.status != 0:
            return None
        vertices.append(found.x)
    return rng.dirichlet(np.ones(3)) @ np.array(vertices)


def best_of_names(problem, held):
    """The best weights of given names, by the stationary points of all faces of what is allowed; None if none is.

    A face has every weight at a limit, at its kink or free on one side of it, and every group at a limit or free. The
    points solve the same linear system, regularised as rows may repeat each other; those that keep the rules count.
    """
    held = list(held)
    m, count = len(held), len(problem.least)
    Q, b, cost, centre = problem.Q[np.ix_(held, held)], problem.b[held], problem.cost[held], problem.centre[held]
    lo, hi = problem.lo[held], problem.hi[held]
    inside = (problem.group[held] == np.arange(count)[:, None]).astype(float)
    rows = np.vstack([np.ones(m), np.eye(m), inside])
    # Whether a row is kept, at which value, and the sign of a weight's distance from its kink.
    states = [[(1, lo[a], 0), (1, hi[a], 0), (1, centre[a], 0), (0, 0, 1), (0, 0, -1)] for a in range(m)]
    states += [[(0, 0, 0), (1, problem.least[g], 0), (1, problem.most[g], 0)] for g in range(count)]
    faces = np.array(list(itertools.product(*(dict.fromkeys(each) for each in states))), dtype=float)
    kept = np.hstack([np.ones((len(faces), 1)), faces[:, :, 0]])
    values = kept * np.hstack([np.ones((len(faces), 1)), faces[:, :, 1]])
    system = np.zeros((len(faces), m + len(rows), m + len(rows)))
    system[:, :m, :m], system[:, :m, m:], system[:, m:, :m] = Q + 1e-13 * np.eye(m), rows.T, kept[:, :, None] * rows
    at = m + np.arange(len(rows))
    system[:, at, at] = np.where(kept > 0, -1e-11, 1.0)
    right = np.hstack([-b - faces[:, :m, 2] * cost, values])
    points = np.linalg.solve(system, right[:, :, None])[:, :m, 0]
    sums = points @ inside.T
    allowed = (np.abs(points.sum(axis=1) - 1.0) <= 1e-8) & ((points >= lo - 1e-8) & (points <= hi + 1e-8)).all(axis=1)
    allowed &= ((sums >= problem.least - 1e-8) & (sums <= problem.most + 1e-8)).all(axis=1)
    if not allowed.any():
        return None
    x = np.zeros((int(allowed.sum()), problem.n))
    x[:, held] = points[allowed]
    return min(problem.value(each) for each in x)


def optimum(problem):
    """The best objective over all sets of names; None if there is no portfolio."""
    must = [i for i in range(problem.n) if problem.must[i]]
    others = [i for i in range(problem.n) if not problem.must[i] and problem.hi[i] > 0.0]
    values = []
    for size in range(problem.s - len(must) + 1):
        for more in itertools.combinations(others, size):
            if must or more:
                values.append(best_of_names(problem, [*must, *more]))
    return min((v for v in values if v is not None), default=None)


KINDS = {
    "bounds": {},
    "least weights": {"lo": True},
    "groups": {"groups": True, "tight": False},
    "turnover": {"turnover": True},
    "names": {"must": True, "lo": True},
    "all": {"lo": True, "groups": True, "turnover": True, "must": True},
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_search_finds_the_optimum_under_every_rule(kind, rng):
    solved = refused = 0
    for _ in range(scaled(60, 12)):
        problem = draw(rng, n=int(rng.integers(3, 8)), s=int(rng.integers(1, 4)), **KINDS[kind])
        expected = optimum(problem)
        if expected is None:
            with pytest.raises(ValueError, match=r"hold|weigh|portfolio"):
                best_holdings(problem)
            refused += 1
            continue
        result = best_holdings(problem, work=32)
        assert problem.violation(result.x) <= 1e-10
        assert result.objective == pytest.approx(problem.value(result.x), abs=1e-12)
        assert result.objective <= expected + 1e-6 * (1.0 + abs(expected))
        assert result.status is Status.CERTIFIED and result.cws_gap <= result.tolerance
        solved += 1
    assert solved > 0 and refused > 0, (solved, refused)


def test_the_weights_of_given_names_are_the_best(rng):
    checked = 0
    for _ in range(scaled(150, 10)):
        problem = draw(rng, n=4, s=4, lo=True, groups=True, turnover=True)
        expected = best_of_names(problem, range(4))
        x = np.full(4, 0.25)
        value, settled = kernel.descend(problem.rules(), x, 4, 1e-9, 0, 0)
        assert settled
        if expected is None:
            assert not np.isfinite(value)
            continue
        assert problem.violation(x) <= 1e-10
        assert problem.value(x) <= expected + 1e-7 * (1.0 + abs(expected))
        checked += 1
    assert checked > 0


def test_the_best_pair_is_the_best_of_a_grid(rng):
    found = 0
    for _ in range(scaled(200, 60)):
        problem = draw(rng, n=5, s=3, lo=True, groups=True, turnover=True)
        held = rng.choice(5, int(rng.integers(1, 4)), replace=False)
        weights = feasible_weights(problem, held, rng)
        if weights is None or (weights <= 1e-9).any():
            continue
        x = np.zeros(5)
        x[held] = weights
        gap, i, j, eta = kernel.best_pair(problem.rules(), x, problem.s)
        most = 0.0
        for receiver, giver in itertools.permutations(range(5), 2):
            steps = np.unique(np.r_[np.linspace(0.0, x[giver], 201), x[giver], problem.lo[receiver]])
            for step in steps[steps <= x[giver]]:
                moved = x.copy()
                moved[receiver] += step
                moved[giver] = 0.0 if step == x[giver] else x[giver] - step
                if problem.violation(moved) <= 1e-12:
                    most = max(most, problem.value(x) - problem.value(moved))
        assert gap >= most - 1e-10
        if i >= 0:
            moved = x.copy()
            moved[i] += eta
            moved[j] = 0.0 if eta == x[j] else x[j] - eta
            assert problem.violation(moved) <= 1e-12
            assert problem.value(x) - problem.value(moved) == pytest.approx(gap, abs=1e-10)
            found += 1
    assert found > 0


def test_bad_calls_are_refused(rng):
    problem = draw(rng)
    with pytest.raises(ValueError, match="method is 'guess'"):
        best_holdings(problem, method="guess")
    with pytest.raises(ValueError, match="work is 0"):
        best_holdings(problem, work=0)


def test_an_interrupt_returns_the_best_so_far(rng):
    problem = draw(rng, n=7, s=3, lo=True)

    def stop(progress):
        raise KeyboardInterrupt

    result = best_holdings(problem, work=64, callback=stop)
    assert result.status is Status.INTERRUPTED and not result.success
    assert problem.violation(result.x) <= 1e-10
    result = best_holdings(problem, work=64, callback=lambda p: True)
    assert result.status is Status.STOPPED_BY_CALLBACK and not result.success
    assert problem.violation(result.x) <= 1e-10


# Rules of many names: is there a portfolio at all?


def wide(rng):
    """Rules of 20 to 39 names, weights on a grid and often fixed, so that only some sets of names sum to 1."""
    n, grid = int(rng.integers(20, 40)), int(rng.choice([10, 20, 50, 100]))
    hi = rng.integers(1, grid, n) / grid
    lo = hi if rng.random() < 0.3 else hi * rng.choice([0.0, 0.5, 0.9, 1.0, 1.0], n)
    count = int(rng.integers(0, 5))
    limits = np.sort(np.round(0.6 * rng.random((count, 2)), 2), axis=1)
    limits[rng.random(count) < 0.4, 0] = 0.0
    must = np.zeros(n, dtype=bool)
    must[int(rng.integers(n))] = rng.random() < 0.3
    group = rng.integers(-1, count, n) if count else np.full(n, -1)
    return Holdings(
        Q=np.eye(n),
        b=rng.standard_normal(n),
        s=int(rng.integers(2, 13)),
        lo=lo,
        hi=hi,
        must=must,
        group=group.astype(np.int64),
        least=limits[:, 0],
        most=limits[:, 1],
        centre=np.zeros(n),
        cost=np.zeros(n),
    )


def has_a_portfolio(problem):
    """Whether there is one, by an integer program written for this test."""
    n, eye = problem.n, np.eye(problem.n)
    groups = (problem.group == np.arange(len(problem.least))[:, None]).astype(float)
    rows = [
        (np.hstack([-eye, np.diag(problem.lo)]), -np.inf, 0.0),
        (np.hstack([eye, -np.diag(problem.hi)]), -np.inf, 0.0),
        (np.hstack([np.ones((1, n)), np.zeros((1, n))]), 1.0, 1.0),
        (np.hstack([np.zeros((1, n)), np.ones((1, n))]), 1.0, problem.s),
        (np.hstack([groups, np.zeros_like(groups)]), problem.least, problem.most),
    ]
    found = milp(
        np.concatenate([problem.b, np.zeros(n)]),
        integrality=np.repeat([0, 1], n),
        bounds=Bounds(np.concatenate([np.zeros(n), problem.must]), np.ones(2 * n)),
        constraints=[LinearConstraint(*row) for row in rows if len(row[0])],
        options={"mip_rel_gap": 10.0},
    )
    assert found.status in (0, 2)
    return found.status == 0


@pytest.mark.compiled
def test_a_first_portfolio_is_found_or_there_is_none(rng):
    counts = [0, 0]
    for _ in range(60):
        problem = wide(rng)
        exists = has_a_portfolio(problem)
        if exists:
            assert problem.violation(portfolios.first_portfolio(problem)) <= 1e-10
        else:
            with pytest.raises(ValueError, match=r"hold|weigh|No portfolio"):
                portfolios.first_portfolio(problem)
        counts[exists] += 1
    assert min(counts) >= 10


def test_the_integer_program_agrees_with_enumeration(rng):
    counts = [0, 0]
    for _ in range(60):
        rules = dict(zip(("lo", "groups", "must", "tight"), rng.random(4) < 0.7, strict=True))
        problem = draw(rng, n=int(rng.integers(3, 9)), s=int(rng.integers(1, 4)), **rules)
        exists = any(portfolios.can_hold(problem, names) for names in portfolios.all_sets(problem))
        found = portfolios._IntegerProgram(problem).names(10.0)
        assert (found is not None) == exists
        assert found is None or feasible_weights(problem, found, rng) is not None
        counts[exists] += 1
    assert min(counts) >= 5


def test_weights_of_which_few_sets_sum_to_one():
    """Of 155 381 sets only those of three names of 0.3 and the one of 0.1 sum to 1; one that is 1e-8 off does not."""
    weights = np.array([0.37] * 8 + [0.3] * 8 + [0.1, 0.05])
    rest = {"must": np.zeros(18, dtype=bool), "group": np.full(18, -1), "least": np.zeros(0), "most": np.zeros(0)}
    numbers = {"Q": np.eye(18), "b": np.zeros(18), "centre": np.zeros(18), "cost": np.zeros(18)}
    problem = Holdings(s=9, lo=weights, hi=weights, **rest, **numbers)
    assert portfolios.count_sets(problem) > 50_000
    x = portfolios.first_portfolio(problem)
    assert sorted(x[x > 0.0]) == pytest.approx([0.1, 0.3, 0.3, 0.3], abs=1e-15)
    off = weights + np.where(weights == 0.1, 1e-8, 0.0)
    with pytest.raises(ValueError, match=r"miss the rules by less than 1e-6|No portfolio of at most 9 names keeps all"):
        portfolios.first_portfolio(Holdings(s=9, lo=off, hi=off, **rest, **numbers))


def test_the_rule_in_the_way_is_named(monkeypatch):
    n = 20
    rest = {"must": np.zeros(n, dtype=bool), "centre": np.zeros(n), "cost": np.zeros(n)}
    alone = {"group": np.full(n, -1), "least": np.zeros(0), "most": np.zeros(0)}
    halves = {"group": np.arange(n) % 2, "least": np.array([0.5, 0.0]), "most": np.array([0.5, 0.5])}
    for lo, hi, groups, sentence in (
        (0.3, 0.4, halves, "without the limits of the groups there would be one"),
        (0.13, 0.14, alone, "without the least weights there would be one"),
    ):
        rules = {"lo": np.full(n, lo), "hi": np.full(n, hi), **groups, **rest}
        with pytest.raises(ValueError, match=f"No portfolio of at most 9 names keeps all rules together; {sentence}"):
            portfolios.first_portfolio(Holdings(Q=np.eye(n), b=np.zeros(n), s=9, **rules))
    with pytest.raises(ValueError, match=r"^2 groups must have a weight, but at most 1 names may be held\.$"):
        portfolios.first_portfolio(draw_halves(n, rest))
    monkeypatch.setattr(portfolios, "names_near", lambda problem, x: None)
    monkeypatch.setattr(portfolios, "_any_names", lambda problem, seconds: None)
    with pytest.raises(ValueError, match=r"keeps all rules together; loosen the weights or the groups\.$"):
        portfolios.first_portfolio(Holdings(Q=np.eye(n), b=np.zeros(n), s=9, **rules))


def draw_halves(n, rest):
    """Two groups that must both have a weight, and room for one name."""
    limits = {"least": np.array([0.4, 0.4]), "most": np.ones(2), "group": np.arange(n) % 2}
    return Holdings(Q=np.eye(n), b=np.zeros(n), s=1, lo=np.zeros(n), hi=np.ones(n), **limits, **rest)


def test_what_takes_too_long_to_decide_is_said(rng):
    with pytest.raises(ValueError, match=r"In 1e-09 seconds no portfolio .* and no proof that there is none"):
        portfolios._any_names(wide(rng), 1e-9)


# Limits, interrupts, claims.


class Clock:
    """A clock that advances by the same amount at every look."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.mark.compiled
@pytest.mark.parametrize("options", [{"lo": True, "groups": True}, {"tight": False}])
def test_a_limit_is_looked_at_between_slices(options, rng, monkeypatch):
    problem = draw(rng, n=40, s=6, **options)
    monkeypatch.setattr(module, "search", lambda relaxed, start, **_: module.bcd_g(relaxed, start))
    looks = {}
    for step in (0.01, 1.0):
        clock = Clock(step)
        monkeypatch.setattr(module, "working_seconds", clock)
        result = best_holdings(problem, max_time=10.0)
        assert problem.violation(result.x) <= 1e-10
        assert result.status in (Status.CERTIFIED, Status.TIME_LIMIT)
        looks[step] = round(clock.now / step)
    # What is left to do after the limit is a scan, not a descent.
    assert looks[1.0] <= 10 + 12
    assert len(problem.least) == 0 or 1000 <= looks[0.01] <= 1000 + 12


@pytest.mark.compiled
@pytest.mark.parametrize("calls", range(1, 12, 2))
def test_ctrl_c_between_kernels_keeps_the_best_point(calls, rng, monkeypatch):
    problem, count = draw(rng, n=30, s=5, lo=True, groups=True), 0
    descend = kernel.descend

    def pressed(*arguments):
        nonlocal count
        count += 1
        if count == calls + 1:  # the first is of the first portfolio
            raise KeyboardInterrupt
        return descend(*arguments)

    monkeypatch.setattr(kernel, "descend", pressed)
    result = best_holdings(problem, method="search", work=40)
    assert result.status is Status.INTERRUPTED and not result.success
    assert problem.violation(result.x) <= 1e-10
    assert result.objective == problem.value(result.x) == result.history[-1, 2]
    assert np.isnan(result.cws_gap) or result.cws_gap == kernel.best_pair(problem.rules(), result.x, problem.s)[0]


@pytest.mark.compiled
def test_history_falls_to_the_objective(rng):
    for method in ("search", "swap", "bcd-g"):
        for _ in range(10):
            problem = draw(rng, n=20, s=4, lo=True)
            result = best_holdings(problem, method=method, work=8)
            assert (np.diff(result.history[:, 2]) <= 0.0).all() and (np.diff(result.history[:, 1]) >= 0.0).all()
            assert result.history[-1, 2] == result.objective == problem.value(result.x)
            assert result.status is Status.CERTIFIED
            assert result.cws_gap == kernel.best_pair(problem.rules(), result.x, problem.s)[0] <= result.tolerance


@pytest.mark.compiled
def test_a_callback_sees_points_that_keep_the_rules(rng):
    problem, seen = draw(rng, n=40, s=6, lo=True, groups=True), []
    result = best_holdings(problem, work=16, callback=lambda progress: seen.append(progress))
    assert all(problem.violation(progress.x) <= 1e-10 for progress in seen)
    assert [p.objective for p in seen] == [problem.value(p.x) for p in seen]
    assert len(seen) >= 4 and result.objective <= min(progress.objective for progress in seen)

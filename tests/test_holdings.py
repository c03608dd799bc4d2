"""Portfolios under rules against enumeration of names, each set solved by another method."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, linprog, minimize

from conftest import scaled
from counterpoise.kernels import holdings as kernel
from counterpoise.problem import Status
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
    """The best weights of given names by SLSQP on a split of every trade into a purchase and a sale; None if none."""
    held, rng = list(held), np.random.default_rng(0)
    m = len(held)
    Q, b, centre, cost = problem.Q[np.ix_(held, held)], problem.b[held], problem.centre[held], problem.cost[held]
    outside = float(sum(problem.cost[i] * abs(problem.centre[i]) for i in range(problem.n) if i not in held))
    rows, right = [np.r_[np.ones(m), np.zeros(2 * m)]], [1.0]
    for a in range(m):
        row = np.zeros(3 * m)
        row[a], row[m + a], row[2 * m + a] = 1.0, -1.0, 1.0
        rows.append(row)
        right.append(centre[a])
    rules = [LinearConstraint(np.array(rows), right, right)]
    for g in range(len(problem.least)):
        row = np.r_[(problem.group[held] == g).astype(float), np.zeros(2 * m)]
        if row.any():
            rules.append(LinearConstraint(row[None, :], problem.least[g], problem.most[g]))
    bounds = [(problem.lo[i], problem.hi[i]) for i in held] + [(0.0, None)] * (2 * m)
    values = []
    for _ in range(3):
        start = feasible_weights(problem, held, rng)
        if start is None:
            return None
        found = minimize(
            lambda v: 0.5 * v[:m] @ Q @ v[:m] + b @ v[:m] + cost @ (v[m : 2 * m] + v[2 * m :]),
            np.r_[start, np.maximum(start - centre, 0.0), np.maximum(centre - start, 0.0)],
            jac=lambda v: np.r_[Q @ v[:m] + b, cost, cost],
            bounds=bounds,
            constraints=rules,
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        x = np.zeros(problem.n)
        x[held] = found.x[:m]
        sums = problem.sums(x)
        if max(abs(x.sum() - 1.0), *(problem.least - sums), *(sums - problem.most), 0.0) <= 1e-7:
            values.append(float(found.fun) + outside + problem.constant)
        x[held] = start
        values.append(problem.value(x))
    return min(values)


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


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")
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
    assert solved > 0


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")
def test_the_weights_of_given_names_are_the_best(rng):
    checked = 0
    for _ in range(scaled(300, 10)):
        problem = draw(rng, n=5, s=5, lo=True, groups=True, turnover=True)
        expected = best_of_names(problem, range(5))
        x = np.full(5, 0.2)
        value = kernel.descend(problem.rules(), x, 5, 1e-9, 0)
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
    assert best_holdings(problem, work=64, callback=lambda p: True).success

"""Portfolios under rules against enumeration of names, each set solved by another method."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

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


def best_of_names(problem, held):
    """The best weights of given names by SLSQP on a split of every trade into a purchase and a sale; None if none."""
    held = list(held)
    m = len(held)
    Q, b, centre, cost = problem.Q[np.ix_(held, held)], problem.b[held], problem.centre[held], problem.cost[held]
    outside = float(sum(problem.cost[i] * abs(problem.centre[i]) for i in range(problem.n) if i not in held))
    rows = [np.r_[np.ones(m), np.zeros(2 * m)]]
    low, high = [1.0], [1.0]
    for g in range(len(problem.least)):
        rows.append(np.r_[(problem.group[held] == g).astype(float), np.zeros(2 * m)])
        low.append(problem.least[g])
        high.append(problem.most[g])
    for a in range(m):
        row = np.zeros(3 * m)
        row[a], row[m + a], row[2 * m + a] = 1.0, -1.0, 1.0
        rows.append(row)
        low.append(centre[a])
        high.append(centre[a])
    bounds = [(problem.lo[i], problem.hi[i]) for i in held] + [(0.0, None)] * (2 * m)
    x0 = np.r_[np.full(m, 1.0 / m), np.maximum(1.0 / m - centre, 0.0), np.maximum(centre - 1.0 / m, 0.0)]
    found = minimize(
        lambda v: 0.5 * v[:m] @ Q @ v[:m] + b @ v[:m] + cost @ (v[m : 2 * m] + v[2 * m :]),
        x0,
        jac=lambda v: np.r_[Q @ v[:m] + b, cost, cost],
        bounds=bounds,
        constraints=[LinearConstraint(np.array(rows), low, high)],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    x = np.zeros(problem.n)
    x[held] = found.x[:m]
    outside_rules = abs(x.sum() - 1.0) > 1e-7 or (problem.least - problem.sums(x) > 1e-7).any()
    if outside_rules or (problem.sums(x) - problem.most > 1e-7).any():
        return None
    return float(found.fun) + outside + problem.constant


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
    for _ in range(scaled(60, 4)):
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
    for _ in range(scaled(60, 5)):
        problem = draw(rng, n=5, s=3, lo=True, groups=True, turnover=True)
        try:
            x = best_holdings(problem, method="bcd-g").x
        except ValueError:
            continue
        other = np.flatnonzero(x > 0)
        x = x.copy()
        if len(other) >= 2:  # some other weights of the same names
            x[other] = rng.dirichlet(np.ones(len(other)))
            if problem.violation(x) > 1e-12:
                continue
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
    assert problem.violation(result.x) <= 1e-10
    assert best_holdings(problem, work=64, callback=lambda p: True).success

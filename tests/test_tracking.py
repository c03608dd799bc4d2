"""IndexTracker: every rule against all sets of names, its own sentences, and scikit-learn's contract."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import counterpoise as cp
from conftest import parts, scaled
from counterpoise.estimators import tracking as module
from counterpoise.estimators import tracking_task
from counterpoise.estimators.options import price_columns
from counterpoise.estimators.tracking import IndexTracker
from counterpoise.problems import SIT
from counterpoise.solvers import minimize

NAMES = ["AAPL", "BAYN", "CSCO", "DELL", "EBAY", "FORD", "GOOG"]
WORK = scaled(24, 4)


def market(rng, m=40, n=7):
    """Percent returns of names with one factor in common, and of an index that holds all of them."""
    returns = rng.standard_normal((m, 1)) * rng.uniform(0.5, 1.5, n) + rng.standard_normal((m, n))
    return returns, returns @ rng.dirichlet(np.ones(n)) + 0.1 * rng.standard_normal(m)


def frames(rng, m=40, n=7):
    """The same as a DataFrame and a Series, with names and dates."""
    returns, index = market(rng, m, n)
    dates = pd.bdate_range("2024-01-01", periods=m)
    return pd.DataFrame(returns, dates, NAMES[:n]), pd.Series(index, dates, name="DAX")


def in_fractions(returns):
    return 0.01 * returns


def tracker(n_assets=3, **options):
    return IndexTracker(n_assets, **{"work": WORK, "random_state": 0, **options})


# The reference: all sets of names, and for each all ways in which rules can be tight.


@dataclasses.dataclass
class Case:
    """½‖Rw − r‖² + Σ cost|w − previous| under rules, as plain arrays."""

    R: np.ndarray
    r: np.ndarray
    s: int
    lo: np.ndarray
    hi: np.ndarray
    must: np.ndarray
    group: np.ndarray
    limits: list
    previous: np.ndarray
    cost: np.ndarray

    def value(self, w):
        return 0.5 * np.sum((self.R @ w - self.r) ** 2) + self.cost @ np.abs(w - self.previous)

    def violation(self, w):
        """The largest violation of a rule, one by one."""
        held = w != 0.0
        parts = [abs(w.sum() - 1.0), *np.maximum(self.lo - w, w - self.hi)[held]]
        parts += [self.lo[i] - w[i] for i in np.flatnonzero(self.must)]
        for g, (low, high) in enumerate(self.limits):
            total = w[self.group == g].sum()
            parts += [low - total, total - high]
        return math.inf if held.sum() > self.s else max(parts)

    def planes(self, held):
        """Rows (a, c) of a·w = c where a rule is tight or a cost has its kink."""
        rows = []
        for k, i in enumerate(held):
            unit = np.eye(len(held))[k]
            rows += [(unit, self.lo[i]), (unit, self.hi[i])]
            if self.cost[i] > 0.0:
                rows.append((unit, self.previous[i]))
        for g, limits in enumerate(self.limits):
            member = (self.group[held] == g).astype(float)
            if member.any():
                rows += [(member, limit) for limit in limits]
        return rows

    def best_on(self, held):
        """The least value on a set of names: the minimiser of every piece of F on every intersection of planes."""
        k, rows = len(held), self.planes(held)
        Q, b = self.R[:, held].T @ self.R[:, held], -self.R[:, held].T @ self.r
        Q += 1e-11 * np.trace(Q) * np.eye(k)  # for names that are copies of each other
        kinked = [a for a in range(k) if self.cost[held[a]] > 0.0]
        best, where = math.inf, None
        for count in range(k):
            subsets = list(itertools.combinations(rows, count))
            signs = list(itertools.product([-1.0, 1.0], repeat=len(kinked)))
            K = np.zeros((len(subsets), k + 1 + count, k + 1 + count))
            right = np.zeros((len(subsets), k + 1 + count, len(signs)))
            K[:, :k, :k], K[:, k, :k], K[:, :k, k], right[:, k] = Q, 1.0, 1.0, 1.0
            for t, subset in enumerate(subsets):
                for e, (plane, constant) in enumerate(subset):
                    K[t, k + 1 + e, :k], K[t, :k, k + 1 + e], right[t, k + 1 + e] = plane, plane, constant
            # A plane given twice has no multiplier of its own; this gives it one.
            K[:, range(k, k + 1 + count), range(k, k + 1 + count)] = -1e-13
            right[:, :k] = -b[:, None]
            for e, sign in enumerate(signs):
                right[:, kinked, e] -= self.cost[held][kinked] * sign
            for z in np.swapaxes(np.linalg.solve(K, right)[:, :k], 1, 2).reshape(-1, k):
                w = np.zeros(len(self.lo))
                w[held] = z
                tight = np.maximum(self.lo[held] - z, z - self.hi[held]).max() <= 1e-9
                if tight and self.violation(np.where(np.abs(w) <= 1e-9, 0.0, w)) <= 1e-9 and self.value(w) < best:
                    best, where = self.value(w), w
        return best, where

    def optimum(self):
        """The least value of all sets of names; those that even without rules are no better are not gone through."""
        allowed = np.flatnonzero(self.hi > 0.0)
        needed = set(np.flatnonzero(self.must))
        sets = []
        for k in range(1, self.s + 1):
            for held in map(list, itertools.combinations(allowed, k)):
                if needed <= set(held):
                    A = self.R[:, held[1:]] - self.R[:, held[:1]]
                    y = self.r - self.R[:, held[0]]
                    z = np.linalg.lstsq(A, y, rcond=None)[0] if k > 1 else np.zeros(0)
                    sets.append((0.5 * np.sum((A @ z - y) ** 2), held))
        best, where = math.inf, None
        for bound, held in sorted(sets):
            if bound >= best:
                break
            value, w = self.best_on(np.array(held))
            if value < best:
                best, where = value, w
        return best, where


RULES = ("max_weight", "min_weight", "groups", "neutral", "turnover", "include", "exclude")


def random_case(rng, rules, n=7):
    """Random options of IndexTracker, and the same as arrays; round numbers make many of them tight at once."""
    returns, index = market(rng, n=n)
    n_assets = int(rng.integers(1, 4))
    options = {"n_assets": n_assets}
    lo, hi, group, cost = np.zeros(n), np.ones(n), np.full(n, -1), np.zeros(n)
    must, previous, limits = np.zeros(n, dtype=bool), np.zeros(n), []
    if "max_weight" in rules:
        hi = rng.choice([0.3, 0.35, 0.5, 0.7, 1.0], n)
        options["max_weight"] = hi.copy()
    if "min_weight" in rules:
        lo = np.minimum(rng.choice([0.0, 0.1, 0.2, 0.3, 0.45], n), hi)
        options["min_weight"] = dict(enumerate(lo.tolist()))
    if "groups" in rules or "neutral" in rules:
        group = rng.integers(-1, 3, n)
        kinds = [g for g in range(3) if (group == g).any()]
        group = np.array([kinds.index(g) if g in kinds else -1 for g in group])
        names = ["energy", "health", "tech"][: len(kinds)]
        for _ in kinds:
            low = float(rng.choice([0.0, 0.1, 0.25, 0.4]))
            limits.append((low, low if "neutral" in rules else float(rng.choice([0.4, 0.5, 0.75, 1.0]))))
        options["groups"] = [None if g < 0 else names[g] for g in group]
        options["group_limits"] = {
            name: pair[0] if "neutral" in rules else pair for name, pair in zip(names, limits, strict=True)
        }
    if "turnover" in rules:
        cost = rng.choice([0.0, 0.2, 1.0, 5.0], n) if rng.random() < 0.7 else np.full(n, 0.5)
        held = rng.choice(n, size=3, replace=False)
        previous[held] = rng.choice([0.2, 0.3, 0.5], 3)
        options |= {"transaction_cost": cost.copy(), "previous_weights": previous.copy()}
    chosen = rng.permutation(n)
    if "include" in rules:
        must[chosen[:1]] = True
        lo[chosen[:1]] = np.maximum(lo[chosen[:1]], 1e-4)
        options["include"] = chosen[:1].tolist()
    if "exclude" in rules:
        hi[chosen[1:3]] = 0.0
        lo[chosen[1:3]] = 0.0
        options["exclude"] = chosen[1:3]
    return Case(returns, index, n_assets, lo, hi, must, group, limits, previous, cost), options


def compare(case, options, **more):
    """Fit and compare with the reference; return whether there was a portfolio at all."""
    best, where = case.optimum()
    model = IndexTracker(**options, **{"work": WORK, "random_state": 0, **more})
    if where is None:
        with pytest.raises(ValueError, match=r"[a-z ].*\.$"):
            model.fit(case.R, case.r)
        return False
    model.fit(case.R, case.r)
    w, room = model.weights_, 1e-6 * best + 1e-12 * (case.r @ case.r)
    assert case.violation(w) <= 1e-10
    assert model.result_.objective == pytest.approx(case.value(w), rel=1e-12)
    assert model.result_.objective >= best - room
    assert model.turnover_ == pytest.approx(np.abs(w - case.previous).sum(), rel=1e-12)
    assert model.cws_gap_ <= room
    if more.get("method", "search") == "search":
        assert model.result_.objective <= best + room, (options, w, where)
    return True


def single_rules():
    return [pytest.param({rule}, id=rule) for rule in RULES]


@pytest.mark.parametrize("rules", [*single_rules(), pytest.param({"min_weight", "include"}, id="min_weight+include")])
def test_each_rule_against_all_sets_of_names(rng, rules):
    possible = sum(compare(*random_case(rng, rules)) for _ in range(scaled(25, 8)))
    assert possible


@pytest.mark.parametrize("part", parts(3))
def test_mixed_rules_against_all_sets_of_names(rng, part):
    """Infeasible ones among them: both must agree on that, too."""
    count, possible = scaled(84, 30), 0
    for _ in range(count):
        rules = {rule for rule in RULES if rng.random() < 0.5}
        possible += compare(*random_case(rng, rules, n=int(rng.integers(4, 8))))
    assert 0.2 * count < possible < count


@pytest.mark.parametrize("method", ["swap", "bcd-g"])
def test_other_methods_keep_the_rules(rng, method):
    for _ in range(scaled(20, 8)):
        rules = {rule for rule in RULES if rng.random() < 0.5}
        case, options = random_case(rng, rules)
        compare(case, options, method=method)


@pytest.mark.parametrize("kind", ["copies", "cash", "few days"])
@pytest.mark.parametrize("part", parts(3))
def test_names_that_cannot_be_told_apart(rng, kind, part):
    """Copies of a name, a name that never moves, fewer days than names: the weights are not unique, the optimum is."""
    for _ in range(scaled(20, 8)):
        case, options = random_case(rng, {rule for rule in RULES if rng.random() < 0.4})
        if kind == "copies":
            case.R[:, 1] = case.R[:, 0]
        elif kind == "cash":
            case.R[:, 2] = 0.0
        else:
            case.R, case.r = case.R[:2], case.r[:2]
        compare(case, options)


def test_without_rules_it_is_the_papers_problem(rng):
    returns, index = market(rng)
    model = tracker().fit(returns, index)
    problem = SIT(returns, index, s=3, lam=1e4)
    assert model.result_.objective == pytest.approx(problem.objective(model.coef_), rel=1e-9)
    found = cp.minimize(problem, method="search", work=WORK)
    assert model.result_.objective == pytest.approx(found.objective, rel=1e-9)


# What it is in numbers.


def test_predictions_and_errors(rng):
    returns, index = frames(rng)
    model = tracker(3, max_weight=0.5).fit(returns[:30], index[:30])
    w = model.coef_
    past, later = returns[:30], returns[30:]
    predicted = model.predict(later)
    assert isinstance(predicted, np.ndarray)
    np.testing.assert_allclose(predicted, later.to_numpy() @ w)
    difference = past.to_numpy() @ w - index[:30].to_numpy()
    assert model.tracking_error_ == pytest.approx(np.sqrt(np.mean(difference**2)))
    assert model.tracking_error(past, index[:30]) == pytest.approx(model.tracking_error_)
    out = later.to_numpy() @ w - index[30:].to_numpy()
    assert model.tracking_error(later, index[30:]) == pytest.approx(np.sqrt(np.mean(out**2)))
    variation = np.sum((index[30:] - index[30:].mean()) ** 2)
    assert model.score(later, index[30:]) == pytest.approx(1 - np.sum(out**2) / variation)
    assert model.result_.objective == pytest.approx(0.5 * np.sum(difference**2))
    weight = np.arange(10.0)
    expected = np.sqrt(weight @ out**2 / weight.sum())
    assert model.tracking_error(later, index[30:], weight) == pytest.approx(expected)
    column = index[30:].to_frame()
    assert model.tracking_error(later, column) == model.tracking_error(later, column.to_numpy())


def test_output_is_of_the_kind_of_the_input(rng):
    returns, index = frames(rng)
    named, plain = tracker().fit(returns, index), tracker().fit(returns.to_numpy(), index.to_numpy())
    assert isinstance(named.weights_, pd.Series) and list(named.weights_.index) == NAMES
    assert isinstance(plain.weights_, np.ndarray)
    np.testing.assert_array_equal(named.weights_, plain.weights_)
    np.testing.assert_array_equal(named.coef_, plain.coef_)
    assert plain.support_.dtype.kind == "i"
    assert list(named.support_) == [NAMES[k] for k in plain.support_] == list(named.weights_[named.weights_ > 0].index)
    assert named.n_features_in_ == 7 and list(named.feature_names_in_) == NAMES
    assert named.weights_.sum() == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("labels", [range(10, 17), pd.MultiIndex.from_product([["DE"], NAMES])])
def test_names_that_are_no_words(rng, labels):
    returns, index = frames(rng)
    returns.columns = labels
    model = tracker(3, min_weight={labels[2]: 0.2}, include=[labels[2]], exclude=labels[3]).fit(returns, index)
    assert list(model.weights_.index) == list(labels)
    assert model.weights_[labels[2]] >= 0.2 - 1e-10 and model.weights_[labels[3]] == 0.0
    assert labels[2] in list(model.support_)
    if labels[0] == 10:
        with pytest.raises(ValueError, match=r"^exclude: 3 is not a column of returns; there are 10, 11, 12, 13, 14"):
            tracker(exclude=[3]).fit(returns, index)


def test_more_names_than_columns_and_one_column(rng):
    returns, index = market(rng)
    all_of_them = tracker(30).fit(returns, index)
    assert all_of_them.result_.objective <= tracker(7).fit(returns, index).result_.objective * (1 + 1e-9)
    one = tracker().fit(returns[:, :1], index)
    np.testing.assert_array_equal(one.weights_, [1.0])
    assert one.cws_gap_ == 0.0


def test_sample_weights_are_repeated_days(rng):
    returns, index = frames(rng)
    weight = pd.Series(rng.integers(0, 4, len(index)), index.index)
    options = {"max_weight": 0.6, "transaction_cost": 0.3, "previous_weights": {"AAPL": 1.0}}
    weighted = tracker(**options).fit(returns, index, sample_weight=weight)
    rows = np.repeat(np.arange(len(index)), weight)
    repeated = tracker(**{**options, "previous_weights": [1.0, *[0.0] * 6]}).fit(
        returns.to_numpy()[rows], index.to_numpy()[rows]
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-7)
    assert weighted.result_.objective == pytest.approx(repeated.result_.objective, rel=1e-9)
    assert weighted.tracking_error_ == pytest.approx(repeated.tracking_error_, rel=1e-9)
    assert weighted.tracking_error(returns, index, weight) == pytest.approx(weighted.tracking_error_)


def test_limits_by_number_name_and_place_are_the_same(rng):
    returns, index = frames(rng)
    hi = pd.Series([0.3, 0.4, 1.0, 0.5, 0.6, 1.0, 0.2], NAMES)
    given = [hi, hi[::-1], hi[hi < 1.0], hi.to_dict(), hi.to_numpy(), hi.tolist()]
    found = [tracker(max_weight=each).fit(returns, index).coef_ for each in given]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
    sectors = pd.Series(["a", "a", "b", "b", None, np.nan, "c"], NAMES, dtype=object)
    given = [sectors, sectors.dropna(), sectors.dropna().to_dict(), sectors.tolist(), sectors.to_numpy()]
    limits = {"a": (0.2, 0.2), "b": (None, 0.3)}
    found = [tracker(groups=each, group_limits=limits).fit(returns, index).coef_ for each in given]
    found.append(
        tracker(groups=sectors, group_limits={"a": 0.2, "b": (0.0, 0.3), "c": (0, None)}).fit(returns, index).coef_
    )
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-9)
    named = tracker(include="CSCO", min_weight=0.1, exclude=["AAPL", "GOOG"]).fit(returns, index).coef_
    placed = tracker(include=2, min_weight=0.1, exclude=np.array([0, 6])).fit(returns, index).coef_
    np.testing.assert_array_equal(named, placed)
    assert named[2] >= 0.1 - 1e-10


def test_limits_that_meet_one_but_for_rounding(rng):
    """Ten times 0.1 is less than 1 in doubles, 0.1 + 0.7 + 0.2 is not 1, and a user means 1."""
    returns, index = market(rng, n=10)
    equal = tracker(10, max_weight=0.1).fit(returns, index)
    np.testing.assert_allclose(equal.weights_, 0.1, atol=1e-10)
    forced = tracker(10, min_weight=1 / 10 + 1e-17, include=range(10)).fit(returns, index)
    np.testing.assert_allclose(forced.weights_, 0.1, atol=1e-10)
    shares = np.array([0.1, 0.7, 0.2]) * (1 - 1e-12)
    groups = np.arange(10) % 3
    for factor in (1.0, 1.0 + 2e-12):
        neutral = tracker(5, groups=groups, group_limits=dict(enumerate(shares * factor))).fit(returns, index)
        sums = np.bincount(groups, neutral.weights_)
        np.testing.assert_allclose(sums, shares, atol=1e-10)
        assert neutral.weights_.sum() == pytest.approx(1.0, abs=1e-10)


def test_names_that_are_sold(rng):
    """A name that is no column any more costs the same whatever is bought."""
    returns, index = frames(rng)
    previous = pd.Series({"AAPL": 0.5, "FORD": 0.2, "GONE": 0.2, "LOST": 0.1})
    kept = tracker(previous_weights=previous[:2], transaction_cost=0.5).fit(returns, index)
    model = tracker(previous_weights=previous, transaction_cost=0.5).fit(returns, index)
    np.testing.assert_array_equal(model.coef_, kept.coef_)
    assert model.turnover_ == pytest.approx(kept.turnover_ + 0.3)
    assert model.result_.objective == pytest.approx(kept.result_.objective + 0.15)
    by_name = tracker(previous_weights=previous, transaction_cost={"GONE": 1.0, "AAPL": 0.5}).fit(returns, index)
    without = tracker(previous_weights=previous, transaction_cost={"AAPL": 0.5}).fit(returns, index)
    assert by_name.result_.objective == pytest.approx(without.result_.objective + 0.2)
    arrays = tracker(previous_weights=previous, transaction_cost=np.full(7, 0.5)).fit(returns, index)
    assert arrays.result_.objective == pytest.approx(kept.result_.objective)


def test_costs_keep_what_is_held(rng):
    returns, index = frames(rng)
    first = tracker().fit(returns[:20], index[:20])
    assert first.turnover_ == pytest.approx(1.0)
    cheap = tracker(previous_weights=first.weights_).fit(returns, index)
    dear = tracker(previous_weights=first.weights_, transaction_cost=1e3).fit(returns, index)
    some = tracker(previous_weights=first.weights_, transaction_cost=1.0).fit(returns, index)
    np.testing.assert_allclose(dear.weights_, first.weights_, atol=1e-12)
    assert dear.turnover_ <= some.turnover_ <= cheap.turnover_ <= 2.0
    assert cheap.turnover_ == pytest.approx(np.abs(cheap.weights_ - first.weights_).sum())


def test_a_name_to_include_is_held_at_a_basis_point_at_least(rng):
    returns, index = frames(rng)
    free = tracker().fit(returns, index)
    idle = next(name for name in NAMES if free.weights_[name] == 0.0)
    index = index - 0.5 * returns[idle]
    model = tracker(include=idle).fit(returns, index)
    assert model.weights_[idle] == pytest.approx(1e-4) and idle in list(model.support_)
    tiny = tracker(include=idle, max_weight={idle: 1e-5}).fit(returns, index)
    assert tiny.weights_[idle] == pytest.approx(1e-5)


def test_a_name_that_does_not_vary_is_told_if_it_is_held(rng):
    returns, index = frames(rng)
    still = returns.assign(EBAY=0.0)
    tracker(exclude="EBAY").fit(still, index)
    with pytest.warns(
        UserWarning, match=r"^EBAY has the same return on every day and is held; exclude names whose prices"
    ):
        model = tracker(min_weight={"EBAY": 0.1}, include="EBAY").fit(still, index)
    assert model.weights_["EBAY"] >= 0.1 - 1e-10


# Paths.


@pytest.mark.parametrize("method", module.METHODS)
def test_a_path_falls(rng, method):
    returns, index = frames(rng)
    model = tracker(method=method, max_weight=0.8)
    before = dict(vars(model))
    path = model.path(returns, index, s=[5, 2, 3, 7])
    assert vars(model) == before
    assert path.n_assets == (5, 2, 3, 7) and len(path) == 4
    order = np.argsort(path.n_assets)
    assert (np.diff(path.tracking_errors[order]) <= 1e-12).all()
    assert (np.diff([path.results[k].objective for k in order]) <= 1e-12).all()
    assert isinstance(path.weights, pd.DataFrame) and list(path.weights.index) == [5, 2, 3, 7]
    assert (np.count_nonzero(path.weights, axis=1) <= path.n_assets).all()
    for k, size in enumerate(path.n_assets):
        w = path.weights.loc[size].to_numpy()
        np.testing.assert_array_equal(w, path.results[k].x)
        assert w.max() <= 0.8 + 1e-10 and w.sum() == pytest.approx(1.0, abs=1e-10)
        assert path.tracking_errors[k] == pytest.approx(np.sqrt(np.mean((returns @ w - index) ** 2)))
        if method == "search":
            alone = clone(model).set_params(n_assets=size).fit(returns, index)
            assert path.tracking_errors[k] <= alone.tracking_error_ * (1 + 1e-9)
    assert list(path.table.columns) == ["held", "tracking_error", "turnover", "objective"]
    np.testing.assert_allclose(path.table["turnover"], 1.0)
    np.testing.assert_array_equal(path.table["tracking_error"], path.tracking_errors)


def test_a_path_of_arrays_and_its_plot(rng):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    path = tracker().path(*market(rng), s=(3, 1, 2))
    assert isinstance(path.weights, np.ndarray) and path.weights.shape == (3, 7)
    ax = Figure().subplots()
    assert path.plot(ax) is ax
    line = ax.get_lines()[0]
    assert line.get_xdata().tolist() == [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(line.get_ydata(), path.tracking_errors[[1, 2, 0]])
    assert ax.get_ylabel().startswith("tracking error")
    own = path.plot()
    assert own.figure.number in pyplot.get_fignums()
    pyplot.close(own.figure)


def test_bad_paths(rng):
    from counterpoise.plotting import plot_path

    with pytest.raises(ValueError, match=r"^s is empty; give at least one number of names\.$"):
        tracker().path(*market(rng), s=[])
    with pytest.raises(ValueError, match=r"^s\[1\] is 0; it must be at least 1\.$"):
        tracker().path(*market(rng), s=[1, 0])
    with pytest.raises(TypeError, match=r"^s is 3; give a list of numbers of names, such as \[10, 20\]\.$"):
        tracker().path(*market(rng), s=3)
    with pytest.raises(
        ValueError, match=r"^2 names can hold at most 0\.8 under max_weight, but the weights must sum to 1"
    ):
        tracker(max_weight=0.4).path(*market(rng), s=[3, 2])
    with pytest.raises(ValueError, match=r"^n_assets is empty; there is nothing to plot\.$"):
        plot_path([], [])


# scikit-learn.


# Some of its data are 100 ± 1, which is what prices look like.
@pytest.mark.filterwarnings("ignore:.* looks? like prices:UserWarning")
@parametrize_with_checks([IndexTracker(work=WORK), IndexTracker(2, min_weight=0.1, transaction_cost=0.1, work=WORK)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_in_a_pipeline_and_a_grid(rng):
    returns, index = frames(rng)
    model = make_pipeline(FunctionTransformer(in_fractions), tracker(2))
    model.fit(returns, 0.01 * index)
    assert model[-1].weights_.index.equals(returns.columns)
    grid = GridSearchCV(tracker(), {"n_assets": [1, 2, 4]}, cv=TimeSeriesSplit(3)).fit(returns, index)
    assert grid.best_params_["n_assets"] in (1, 2, 4)
    scores = cross_val_score(grid.best_estimator_, returns, index, cv=TimeSeriesSplit(3))
    assert scores.mean() == pytest.approx(grid.best_score_)
    fitted = tracker(groups=pd.Series("a", NAMES), group_limits={"a": 1.0}, previous_weights={"AAPL": 1}).fit(
        returns, index
    )
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(returns), fitted.predict(returns))
    pd.testing.assert_series_equal(again.weights_, fitted.weights_)
    assert clone(fitted).get_params()["group_limits"] == {"a": 1.0}
    assert "IndexTracker" in repr(fitted)


def test_data_are_no_metadata():
    assert set(IndexTracker().get_metadata_routing()._serialize().get("fit", {})) <= {"sample_weight"}


def test_the_same_seed_gives_the_same_bits(rng):
    returns, index = market(rng)
    options = {"min_weight": 0.1, "groups": list("aabbbcc"), "group_limits": {"a": (0.2, 0.4)}, "max_weight": 0.5}
    first = tracker(random_state=3, **options).fit(returns, index)
    for other in (tracker(random_state=3, **options), tracker(random_state=3, n_jobs=2, **options)):
        np.testing.assert_array_equal(other.fit(returns, index).coef_, first.coef_)


@pytest.mark.compiled
def test_a_time_limit_ends_a_fit(rng):
    returns, index = market(rng, m=250, n=60)
    for options in ({}, {"min_weight": 0.02, "groups": np.arange(60) % 4, "group_limits": {0: 0.25, 1: (0.1, 0.3)}}):
        # Without work the clock alone ends a search: that this line is passed is the test.
        model = tracker(15, work=None, max_time=0.3, **options).fit(returns, index)
        assert np.count_nonzero(model.coef_) <= 15 and model.coef_.sum() == pytest.approx(1.0, abs=1e-10)


def prices(rng, days, count, first):
    return first * np.cumprod(1.0 + 0.02 * rng.standard_normal((days, count)), axis=0)


def test_what_looks_like_prices(rng):
    """Prices do; returns of any market, unit and length do not."""
    for days in (5, 20, 500):
        assert price_columns(prices(rng, days, 8, 40.0)) == list(range(8))
        assert price_columns(prices(rng, days, 8, 2.0) + 1.0) == list(range(8))
        mixed = np.column_stack([0.01 * rng.standard_normal((days, 5)), prices(rng, days, 1, 60.0)])
        assert price_columns(mixed) == [5]
        for unit in (0.01, 1.0, 100.0):
            for mean in (0.0, 0.1, 1.0):
                assert price_columns(unit * (mean + rng.standard_normal((days, 6)))) == []
        # A month of strong gains in percent, interest in percent, constants, gross returns, too few rows.
        assert price_columns(np.abs(rng.standard_normal((days, 6))) + 1.0) == []
        rates = np.column_stack([1.1 + 0.02 * rng.random(days), rng.standard_normal((days, 5))])
        assert price_columns(rates) == []
        assert price_columns(np.full((days, 3), 7.0)) == []
        assert price_columns(1.0 + 0.01 * rng.standard_normal((days, 6))) == []
    assert price_columns(prices(rng, 4, 8, 40.0)) == []


def test_prices_in_place_of_returns_are_told(rng):
    returns, index = frames(rng)
    levels, level = 30.0 * (1.0 + 0.02 * returns).cumprod(), 1e3 * (1.0 + 0.02 * index).cumprod()
    for data, who in (
        ((levels, index), r"AAPL, BAYN, CSCO, DELL, EBAY and 2 more of returns look"),
        ((returns, level), r"the index looks"),
        ((levels, level), r"AAPL, .* of returns and the index look"),
        ((returns.assign(CSCO=levels["CSCO"]), index), r"CSCO of returns looks"),
    ):
        sentence = rf"^{who} like prices: .*; convert prices to returns with counterpoise\.to_returns\.$"
        with pytest.warns(UserWarning, match=sentence) as caught:
            tracker().fit(*data)
        assert caught[0].filename == __file__
        with pytest.warns(UserWarning, match=sentence) as caught:
            tracker().path(*data, s=[2])
        assert caught[0].filename == __file__


def test_an_interrupted_fit_is_kept_and_told(rng, monkeypatch):
    def interrupted(problem, x0=None, **options):
        result = minimize(problem, x0, **options)
        result.update(status=cp.Status.INTERRUPTED, success=False)
        return result

    monkeypatch.setattr(tracking_task, "minimize", interrupted)
    with pytest.warns(UserWarning, match=r"^The fit was interrupted; the best point so far is kept\.$") as caught:
        model = tracker().fit(*market(rng))
    assert caught[0].filename == __file__
    assert model.coef_.sum() == pytest.approx(1.0, abs=1e-10)


def test_history_ends_at_the_objective(rng):
    """Also where the objective is far below the rounding error of its terms."""
    returns, _ = market(rng)
    for index in (returns[:, 1], returns[:, :2] @ [0.3, 0.7], rng.standard_normal(len(returns))):
        result = tracker(2).fit(returns, index).result_
        assert result.history[-1, 2] == result.objective >= 0.0
        assert (np.diff(result.history[:, 2]) <= 0.0).all()


def test_weights_of_which_few_sets_sum_to_one(rng):
    """Four names of the 18 sum to 1; more are allowed, which makes more than 50 000 sets."""
    weights = np.array([0.37] * 8 + [0.3] * 8 + [0.1, 0.05])
    returns, index = market(rng, n=18)
    few, many = (tracker(n, min_weight=weights, max_weight=weights).fit(returns, index) for n in (4, 9))
    for model in (few, many):
        assert sorted(model.coef_[model.coef_ > 0.0]) == pytest.approx([0.1, 0.3, 0.3, 0.3], abs=1e-12)
    best = min(
        0.5 * float(np.sum((returns[:, [*held, 16]] @ [0.3, 0.3, 0.3, 0.1] - index) ** 2))
        for held in itertools.combinations(range(8, 16), 3)
    )
    assert few.result_.objective == pytest.approx(best, rel=1e-9)


@pytest.mark.compiled
def test_a_year_of_many_names(rng):
    """All rules at once on more names than can be enumerated: kept to 1e-10, and no worse than a plain start."""
    returns, index = market(rng, m=250, n=120)
    groups = np.arange(120) % 6
    previous = np.zeros(120)
    previous[:20] = 0.05
    case = Case(
        returns, index, 20, np.full(120, 0.01), np.full(120, 0.1), np.arange(120) == 5, groups,
        [(0.1, 0.2)] * 6, previous, np.full(120, 0.1),
    )  # fmt: skip
    model = tracker(
        20, min_weight=0.01, max_weight=0.1, groups=groups, group_limits=dict.fromkeys(range(6), (0.1, 0.2)),
        previous_weights=previous, transaction_cost=0.1, include=5,
    ).fit(returns, index)  # fmt: skip
    assert case.violation(model.coef_) <= 1e-10
    assert model.result_.objective == pytest.approx(case.value(model.coef_), rel=1e-12)
    assert model.result_.status is cp.Status.CERTIFIED


# Sentences.


TWO = {"groups": list("aabbbbb")}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_assets": 0}, r"n_assets is 0; it must be at least 1\."),
        (
            {"max_weight": 0.3},
            r"3 names can hold at most 0\.9 under max_weight, but the weights must sum to 1; raise n",
        ),
        ({"max_weight": 30}, r"max_weight is 30; it must be between 0 and 1\."),
        ({"max_weight": {"AAPL": -0.1}}, r"max_weight is -0\.1 for 'AAPL'; it must be between 0 and 1\."),
        ({"max_weight": {"APPL": 0.1}}, r"max_weight: 'APPL' is not a column of returns; did you mean AAPL\?"),
        ({"max_weight": [0.5, 0.5]}, r"max_weight has shape \(2,\); give one number, one for each of 7 names or a map"),
        ({"min_weight": {"EBAY": np.nan}}, r"min_weight is nan for 'EBAY'; it must be between 0 and 1\."),
        ({"min_weight": 0.6, "max_weight": {"DELL": 0.5}}, r"min_weight is 0\.6 and max_weight 0\.5 for 'DELL'; the f"),
        ({"max_weight": 0.0}, r"exclude and max_weight leave no name to hold; allow at least one\."),
        ({"exclude": NAMES}, r"exclude and max_weight leave no name to hold; allow at least one\."),
        ({"include": ["AAPL", "FORT"]}, r"include: 'FORT' is not a column of returns; did you mean FORD\?"),
        (
            {"exclude": "xyz"},
            r"exclude: 'xyz' is not a column of returns; there are AAPL, BAYN, CSCO, DELL, EBAY, FORD, GOOG",
        ),
        ({"exclude": [7]}, r"a position in exclude is 7; it must be between 0 and 6\."),
        ({"exclude": [["AAPL"]]}, r"exclude: \['AAPL'\] is not a column of returns"),
        ({"include": NAMES[:4]}, r"include lists 4 names, but at most 3 may be held; raise n_assets\."),
        (
            {"include": ["AAPL", "DELL"], "exclude": ["DELL"]},
            r"include and exclude both name DELL; a name may be in only o",
        ),
        ({"include": "DELL", "max_weight": {"DELL": 0}}, r"include lists 'DELL', but its max_weight is 0; raise it\."),
        (
            {"include": NAMES[:2], "min_weight": 0.6},
            r"The min_weight values of the names in include sum to 1\.2; the sum",
        ),
        ({"transaction_cost": -1}, r"transaction_cost is -1; it must be finite and at least 0\."),
        ({"transaction_cost": {"AAPL": np.inf}}, r"transaction_cost is inf for 'AAPL'; it must be finite and at least"),
        ({"previous_weights": {"AAPL": 50.0}}, r"previous_weights is 50 for 'AAPL'; it must be between 0 and 1\."),
        ({"previous_weights": {"GONE": -0.5}}, r"previous_weights is -0\.5 for 'GONE'; it must be between 0 and 1\."),
        (
            {"previous_weights": {"GONE": 0.5}, "transaction_cost": {"GONE": -1}},
            r"transaction_cost is -1 for 'GONE'; it must be finite and at least 0\.",
        ),
        (
            {"previous_weights": pd.Series([0.5, 0.5], ["AAPL", "AAPL"])},
            r"previous_weights lists 'AAPL' twice; names must be unique\.",
        ),
        ({"group_limits": {"a": 0.5}}, r"group_limits is given without groups; say which name is in which group\."),
        ({"groups": {"APPL": "a"}}, r"groups: 'APPL' is not a column of returns; did you mean AAPL\?"),
        ({"groups": ["a"]}, r"groups has 1 entries; give one for each of 7 names, or a mapping\."),
        ({**TWO, "group_limits": {"c": 0.5}}, r"group_limits: no name is in group 'c'; there are a, b\."),
        (
            {**TWO, "group_limits": {"a": (0.5, 0.2)}},
            r"group_limits of 'a' is \(0\.5, 0\.2\); the first must not exceed",
        ),
        (
            {**TWO, "group_limits": {"a": (0.1, 0.2, 0.3)}},
            r"group_limits of 'a' is \(0\.1, 0\.2, 0\.3\); it must be on",
        ),
        ({**TWO, "group_limits": {"a": 30}}, r"group_limits of 'a' is 30; weights sum to 1, so limits must be"),
        ({**TWO, "group_limits": {"a": -0.1}}, r"group_limits of 'a' is -0\.1; it must be finite and at least 0\."),
        (
            {**TWO, "group_limits": {"a": 0.6, "b": (0.6, 0.7)}},
            r"The lower limits of group_limits sum to 1\.2; the sum must be at most 1\.",
        ),
        (
            {**TWO, "group_limits": {"a": 0.3, "b": (0.1, 0.6)}},
            r"Every name that may be held is in a group, and the upper limits of group_limits sum to 0\.9; the sum must be at least 1",
        ),
        (
            {**TWO, "group_limits": {"a": (0.9, 1.0)}, "max_weight": 0.4},
            r"group_limits requires at least 0\.9 in group 'a', but with at most 3 names it can hold only 0\.8",
        ),
        (
            {**TWO, "group_limits": {"a": (0.0, 0.1)}, "include": "AAPL", "min_weight": 0.2},
            r"group_limits allows at most 0\.1 in group 'a', but the min_weight values of its names in include sum to 0\.2\.",
        ),
        # Rules that contradict each other only together are the solver's to find.
        ({**TWO, "group_limits": {"a": 0.05}, "min_weight": 0.1}, r"[A-Za-z].* names .*\."),
        ({"method": "pdca"}, r"method is 'pdca'; it must be one of 'search', 'swap', 'bcd-g'\."),
        ({"max_time": 0.0}, r"max_time is 0; it must be positive"),
        ({"work": 0}, r"work is 0; it must be at least 1\."),
        ({"random_state": -1}, r"random_state is -1; it must be a whole number of at least 0, or None\."),
        ({"n_jobs": 0}, r"n_jobs is 0; it must be a positive number of workers, -1 for one per core, or None\."),
        ({"max_weight": np.ma.masked_less(np.arange(7) / 7, 0.2)}, r"max_weight has 2 masked entries; remove or imp"),
    ],
)
def test_bad_options_are_named(rng, options, sentence):
    with pytest.raises(ValueError, match="^" + sentence):
        tracker(**options).fit(*frames(rng))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_assets": 2.5}, r"n_assets is 2\.5; it must be a whole number\."),
        ({"max_weight": "much"}, r"max_weight is 'much'; give real numbers: one, one for each name, or a mapping"),
        ({"previous_weights": {"GONE": "all"}}, r"previous_weights is 'all'; give real numbers"),
        (
            {"group_limits": 0.3},
            r"group_limits is 0\.3; it must map groups to limits, such as \{'energy': \(0\.0, 0\.3",
        ),
        ({"exclude": np.arange(7) > 3}, r"exclude contains False; give names or positions, not booleans\."),
        ({"groups": [["a"]] * 7}, r"groups holds \['a'\], which cannot name a group; give a word or a number\."),
        ({"groups": {"AAPL": {"b"}}}, r"groups holds \{'b'\}, which cannot name a group"),
        ({"random_state": "a"}, r"random_state is 'a'; it must be a whole number of at least 0, or None\."),
        ({"random_state": 1.5}, r"random_state is 1\.5; it must be a whole number of at least 0, or None\."),
        ({"n_jobs": "a"}, r"n_jobs is 'a'; it must be a whole number of workers, -1 for one per core, or None\."),
        ({"max_weight": 1j}, r"max_weight is 1j; give real numbers"),
    ],
)
def test_options_of_another_type_are_named(rng, options, sentence):
    with pytest.raises(TypeError, match="^" + sentence):
        tracker(**options).fit(*frames(rng))


def test_bad_data_are_named(rng):
    returns, index = frames(rng)
    model = tracker().fit(returns, index)

    def refused(sentence, returns=returns, index=index, sample_weight=None):
        for call in (model.fit, model.score, model.tracking_error):
            with pytest.raises(ValueError, match="^" + sentence):
                call(returns, index, sample_weight)

    holes = returns.copy()
    holes.iloc[[3, 5], [2]] = np.nan
    holes.iloc[4, 1] = np.nan
    where = r"the first of each: 'BAYN' on 2024-01-05, 'CSCO' on 2024-01-04; drop these names or dates, or fill them\."
    refused(r"returns has 3 missing values \(NaN\) in 2 columns, " + where, holes)
    infinite = returns.copy()
    infinite.iloc[3, 2] = np.inf
    refused(r"returns contains NaN or infinity: inf in row 3, column 2 is the first of 1; remove or impute", infinite)
    with pytest.raises(ValueError, match=r"^returns contains NaN or infinity: inf in row 3, column 2"):
        tracker().fit(infinite.to_numpy(), index.to_numpy())
    refused(
        r"Column 'DELL' of returns holds (str|string|object).*; returns must be numbers\.", returns.assign(DELL="x")
    )
    refused(r"returns has more than one column BAYN; names must be unique\.", returns.rename(columns={"AAPL": "BAYN"}))
    refused(
        r"index is NaN on 2024-01-03, 2024-01-04; drop these dates",
        index=index.where(~index.index.isin(index.index[2:4])),
    )
    refused(r"index has 2 columns, a, b; it must be one series\.", index=pd.DataFrame({"a": index, "b": index}))
    lacks = r"index lacks 2024-01-01, 2024-01-02, which returns has: give both on the same dates\."
    refused(lacks, index=index[2:])
    refused(lacks.replace("index lacks", "returns lacks").replace("returns has", "index has"), returns[2:])
    plain = index.reset_index(drop=True)
    refused(
        r"index lacks 2024-01-01, .* and 37 more, which returns has; returns lacks 0, 1, 2 and 37 more", index=plain
    )
    order = (
        r"returns and index have the same dates in a different order: row 0 is 2024-01-01 in returns and 2024-02-23 in"
    )
    refused(order, index=index[::-1])
    twice = index.iloc[[0, *range(len(index))]]
    refused(r"returns has 40 rows and index 41, because dates are duplicated; drop the duplicates\.", index=twice)
    refused(
        r"sample_weight lacks 2024-01-01, 2024-01-02, which returns has", sample_weight=pd.Series(1.0, index.index)[2:]
    )
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(returns[NAMES[::-1]])
    numbers = returns.to_numpy(), index.to_numpy()
    for changed, sentence in (
        ((np.ma.masked_less(numbers[0], 0.0), numbers[1]), r"returns has \d+ masked entries; remove or impute them"),
        ((numbers[0], np.ma.masked_less(numbers[1], 0.0)), r"index has \d+ masked entries"),
        ((returns.assign(DELL=1j), index), r"Complex data not supported: returns holds complex numbers"),
        ((numbers[0], 1j * numbers[1]), r"Complex data not supported: index holds complex numbers"),
        (
            (returns.assign(DELL=[None, *["1.5"] * 39]).astype(object), index),
            r"Column 'DELL' of returns holds '1\.5' on ",
        ),
        ((1e200 * numbers[0], numbers[1]), r"returns has entries as large as \S+, whose products overflow; rescale"),
        ((1e-200 * numbers[0], numbers[1]), r"the largest entry of returns is \S+, .* underflow; rescale the data"),
        ((numbers[0], 1e200 * numbers[1]), r"index has entries as large as"),
    ):
        with pytest.raises(ValueError, match="^" + sentence):
            tracker().fit(*changed)
    with pytest.raises(ValueError, match=r"^sample_weight has 1 masked entry"):
        tracker().fit(*numbers, np.ma.masked_less(np.arange(40.0), 1.0))


def test_kinds_of_data(rng):
    """A column, integers, nullable numbers and the index by its name."""
    returns, index = frames(rng)
    expected = tracker().fit(returns, index).coef_
    np.testing.assert_array_equal(tracker().fit(returns, index.to_frame()).coef_, expected)
    np.testing.assert_array_equal(tracker().fit(returns.astype("Float64"), index.astype("Float64")).coef_, expected)
    np.testing.assert_array_equal(tracker().fit(returns.astype(object), index).coef_, expected)
    np.testing.assert_array_equal(tracker().fit(returns.map(Fraction), index.map(Decimal)).coef_, expected)
    np.testing.assert_array_equal(tracker().fit(np.ma.masked_array(returns), index).coef_, expected)
    np.testing.assert_array_equal(tracker().fit(returns, index=index).coef_, expected)
    np.testing.assert_array_equal(tracker().fit(returns.to_numpy(), index).coef_, expected)
    options = {"max_weight": Decimal("0.5"), "min_weight": {"AAPL": Fraction(1, 10)}}
    expected = tracker(max_weight=0.5, min_weight={"AAPL": 0.1}).fit(returns, index).coef_
    np.testing.assert_array_equal(tracker(**options).fit(returns, index).coef_, expected)


@pytest.mark.compiled
def test_very_many_columns(rng):
    """Above 6000 columns no Gram matrix is kept; the portfolio is certified against all columns."""
    returns = 0.01 * rng.standard_normal((40, 6500))
    index = returns[:, :4] @ [0.4, 0.3, 0.2, 0.1]
    model = tracker(4, method="bcd-g").fit(returns, index)
    assert model.result_.status is cp.Status.CERTIFIED and np.count_nonzero(model.coef_) <= 4
    assert cp.certify(model.problem_, model.coef_).cws_gap <= model.result_.tolerance


def test_the_stated_problem_certifies_the_portfolio(rng):
    returns, index = market(rng)
    groups = [0, 0, 0, 1, 1, 1, None]
    model = tracker(3, min_weight=0.1, groups=groups, group_limits={0: (0.2, 0.5)}).fit(returns, index)
    found = cp.certify(model.problem_, model.coef_, level="swap")
    assert found.cws_gap <= model.result_.tolerance and found.objective == model.result_.objective
    assert found.swap_bound >= found.swap_gap
    assert model.problem_.violation(model.coef_) <= 1e-10


@pytest.mark.compiled
def test_a_path_of_the_stated_problem_matches_fits_of_their_own(rng):
    returns, index = market(rng)
    rules = {"min_weight": 0.1, "groups": [0, 0, 0, 1, 1, 1, None], "group_limits": {0: (0.2, 0.5)}}
    for options in ({}, rules, {"measure": "hete", "huber": 0.01}):
        model = tracker(3, **options).fit(returns, index)
        for s, result in cp.path(model.problem_, s=[2, 4], method="search"):
            alone = tracker(s, **options).fit(returns, index)
            assert np.count_nonzero(result.x) <= s and model.problem_.variant(s=s).is_feasible(result.x)
            assert result.objective == pytest.approx(alone.result_.objective, rel=1e-9)


def test_a_table_without_pandas_names_the_extra(rng, monkeypatch):
    path = tracker().path(*market(rng), s=[2])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"^A table needs pandas: .* pip install pandas\.$"):
        _ = path.table


def test_a_regression_on_all_names_is_no_worse(rng):
    """With all names and no rules but the sum and signs, ordinary least squares is a lower bound."""
    returns, index = market(rng)
    model = tracker(7).fit(returns, index)
    free = LinearRegression(fit_intercept=False).fit(returns, index)
    assert model.result_.objective >= 0.5 * np.sum((free.predict(returns) - index) ** 2)

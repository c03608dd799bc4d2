"""Balanced splits against all splits of few units, against pandas, and their randomisation test by simulation."""

import itertools
import math
import sys
import threading

import numpy as np
import pytest

from conftest import scaled
from counterpoise.estimators import exchanges
from counterpoise.estimators.exchanges import NEAR, Budget, Groups, gather_groups, search_groups
from counterpoise.estimators.split import Split, balanced_split

pandas = pytest.importorskip("pandas")
# All splits of few units, or one of two units, are as good as random ones.
unsurprising = pytest.mark.filterwarnings("ignore:This split is NO BETTER THAN RANDOM")

FEW = scaled(32, 12)


def scores(table):
    table = np.asarray(table, dtype=float)
    return (table - table.mean(axis=0)) / table.std(axis=0, ddof=1)


def imbalance(Z, labels, weights=None):
    """Σ over pairs of groups and covariates of w SMD²."""
    means = [Z[labels == g].mean(axis=0) for g in range(labels.max() + 1)]
    weights = np.ones(Z.shape[1]) if weights is None else weights
    return sum(float(weights @ (a - b) ** 2) for a, b in itertools.combinations(means, 2))


def all_splits(sizes):
    """Every assignment of groups 0, 1, … of these sizes."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    seen = set(itertools.permutations(labels)) if len(labels) <= 8 else None
    if seen is not None:
        return np.array(sorted(seen))
    n, rows = len(labels), []
    for first in itertools.combinations(range(n), sizes[1]):
        rest = [i for i in range(n) if i not in first]
        for second in itertools.combinations(rest, sizes[2] if len(sizes) > 2 else 0):
            row = np.zeros(n, dtype=int)
            row[list(first)], row[list(second)] = 1, 2
            rows.append(row)
    return np.array(rows)


def largest(Z, labels, weights=None):
    """The largest √w|SMD| between any two groups."""
    means = [Z[labels == g].mean(axis=0) for g in range(labels.max() + 1)]
    return float((np.ptp(means, axis=0) * np.sqrt(1.0 if weights is None else weights)).max())


def assert_optimal(split, Z, splits, weights=None):
    """Within the stated factor of the least sum, and no larger in its largest difference than where that is."""
    values = [imbalance(Z, labels, weights) for labels in splits]
    best = splits[int(np.argmin(values))]
    labels = np.asarray(split.labels)
    assert split.objective == pytest.approx(imbalance(Z, labels, weights), rel=1e-6, abs=1e-12)
    assert split.objective <= NEAR * min(values) * (1 + 1e-9)
    assert largest(Z, labels, weights) <= largest(Z, best, weights) * (1 + 1e-9)


@unsurprising
@pytest.mark.parametrize(("n", "treated"), [(2, 1), (5, 2), (8, 4), (10, 3), (scaled(12, 9), 6), (9, 8)])
def test_two_groups_are_optimal(rng, n, treated):
    X = rng.standard_normal((n, 3)) * [1.0, 1e-3, 1e6] + [0.0, 5.0, -1e7]
    split = balanced_split(X, treated, work=FEW, random_state=0)
    assert split.labels.sum() == treated
    assert split.group_sizes == (n - treated, treated)
    assert_optimal(split, scores(X), all_splits([n - treated, treated]))


def test_the_least_sum_is_found(rng):
    cases = [
        ([[5, 5]], None),
        ([[7, 3]], None),
        ([[3, 2, 3]], None),
        ([[2, 2], [3, 3]], [0, 1, 1, 0, 0, 1, 1, 1, 0, 1]),
    ]
    for sizes, strata in cases:
        sizes, n = np.array(sizes), int(np.sum(sizes))
        strata = np.zeros(n, dtype=int) if strata is None else np.array(strata)
        Z = scores(rng.standard_normal((n, 3)))
        groups = Groups(Z, sizes, strata)
        found = search_groups(groups, Budget(FEW, None, 0, None))
        allowed = [
            labels
            for labels in all_splits(sizes.sum(axis=0))
            if all((np.bincount(labels[strata == s], minlength=len(row)) == row).all() for s, row in enumerate(sizes))
        ]
        assert found[0].imbalance == pytest.approx(min(imbalance(Z, labels) for labels in allowed))
        assert [each.imbalance for each in found] == sorted(each.imbalance for each in found)
        assert found[-1].imbalance <= NEAR * found[0].imbalance


def test_weights_are_counted(rng):
    X, weights = rng.standard_normal((10, 3)), np.array([1.0, 50.0, 0.0])
    split = balanced_split(X, 5, weights=weights, work=FEW, random_state=0)
    assert_optimal(split, scores(X), all_splits([5, 5]), weights)
    named = pandas.DataFrame(X, columns=list("abc"))
    for given in ({"b": 50, "c": 0}, pandas.Series({"c": 0.0, "b": 50.0})):
        again = balanced_split(named, 5, weights=given, work=FEW, random_state=0)
        assert np.array_equal(again.labels, split.labels)
    # A covariate of weight 0 is shown, and not counted among the differences.
    assert split.max_difference == np.abs(split.differences[:2]).max()


@pytest.mark.parametrize("sizes", [[3, 3], [3, 2, 3], [2, 4, 3]])
def test_several_groups_are_optimal(rng, sizes):
    X = rng.standard_normal((sum(sizes), 2))
    split = balanced_split(X, sizes, work=FEW, random_state=0)
    assert np.bincount(split.labels).tolist() == sizes == list(split.group_sizes)
    assert_optimal(split, scores(X), all_splits(sizes))


def test_a_rest_is_group_0(rng):
    split = balanced_split(rng.standard_normal((9, 2)), (2, 3), work=FEW, random_state=0)
    assert np.bincount(split.labels).tolist() == [4, 2, 3]
    means = np.array([split.covariates.scores[split.labels == g].mean(axis=0) for g in range(3)])
    largest = np.abs(means[:, None] - means[None, :]).max(axis=(0, 1))
    np.testing.assert_allclose(split.differences, largest)
    np.testing.assert_allclose(split.balance["random"], math.sqrt(1 / 2 + 1 / 3))


@pytest.mark.parametrize("treated", [5, {"u": 2, "v": 3}])
def test_strata_are_optimal_jointly(rng, treated):
    X, strata = rng.standard_normal((10, 3)), np.array(list("uvuvvuuvvv"))
    split = balanced_split(X, treated, strata=strata, work=FEW, random_state=0)
    assert [int(split.labels[strata == name].sum()) for name in "uv"] == [2, 3]
    allowed = [x for x in all_splits([5, 5]) if x[strata == "u"].sum() == 2]
    assert_optimal(split, scores(X), allowed)


def test_pairs_of_groups_in_strata(rng):
    X, strata = rng.standard_normal((8, 2)), [0, 0, 0, 0, 1, 1, 1, 1]
    split = balanced_split(X, {0: [1, 2, 1], 1: [2, 1, 1]}, strata=strata, work=FEW, random_state=0)
    assert np.bincount(split.labels[:4]).tolist() == [1, 2, 1]
    assert np.bincount(split.labels[4:]).tolist() == [2, 1, 1]
    allowed = [
        x
        for x in all_splits([3, 3, 2])
        if np.array_equal(np.bincount(x[:4], minlength=3), [1, 2, 1]) and np.bincount(x[4:], minlength=3)[0] == 2
    ]
    assert_optimal(split, scores(X), allowed)


@pytest.mark.parametrize("sizes", [7, [3, 5], [4, 4, 5], (6, 6, 5)])
def test_strata_are_divided_in_proportion(rng, sizes):
    strata = rng.permutation(np.repeat([0, 1, 2, 3], [1, 3, 5, 8]))
    split = balanced_split(rng.standard_normal((17, 2)), sizes, strata=strata, work=1, random_state=0)
    counts = np.array([np.bincount(split.labels[strata == s], minlength=len(split.group_sizes)) for s in range(4)])
    assert counts.sum(axis=0).tolist() == list(split.group_sizes)
    exact = np.outer([1, 3, 5, 8], split.group_sizes) / 17
    assert np.abs(counts - exact).max() < (1.0 if len(split.group_sizes) == 2 else 1.5)


def test_matched_pairs_stay_apart(rng):
    strata = np.repeat(np.arange(5), 2)
    split = balanced_split(rng.standard_normal((10, 2)), 5, strata=strata, work=FEW, random_state=0)
    assert (split.labels.reshape(5, 2).sum(axis=1) == 1).all()
    assert split.mirrored


def test_no_exchange_improves_a_local_optimum(rng):
    for sizes in ([[7, 5]], [[4, 4, 4]], [[3, 2, 2], [2, 1, 2]]):
        sizes = np.array(sizes)
        strata = np.repeat(np.arange(len(sizes)), sizes.sum(axis=1))
        groups = Groups(scores(rng.standard_normal((12, 3))), sizes, strata)
        for tabu in (False, True):
            found = groups.improved(groups.random(rng), rng, tabu)
            assert found.imbalance == pytest.approx(imbalance(groups.Z, found.labels))
            neighbours = list(groups.neighbours(found, rng))
            assert len(neighbours) == sum(
                strata[i] == strata[j] and found.labels[i] != found.labels[j]
                for i, j in itertools.combinations(range(12), 2)
            )
            values = [imbalance(groups.Z, each.labels) for each in neighbours]
            np.testing.assert_allclose([each.imbalance for each in neighbours], values, atol=1e-12)
            assert values == sorted(values)
            assert min(values) >= found.imbalance - 1e-10


def test_large_tables_are_divided_in_blocks(rng, monkeypatch):
    monkeypatch.setattr(exchanges, "BLOCK", 20)
    X = rng.standard_normal((60, 2))
    split = balanced_split(X, 25, work=2, random_state=0)
    assert split.labels.sum() == 25
    assert split.max_difference < 0.1
    groups = Groups(scores(X), np.array([[35, 25]]), np.zeros(60, dtype=int))
    found = gather_groups(groups, 30, Budget(2, None, 0, None))
    assert len({each.labels.tobytes() for each in found}) == 30


def test_pairs_of_groups_that_fit_a_block_end_in_a_local_optimum(rng, monkeypatch):
    monkeypatch.setattr(exchanges, "BLOCK", 40)
    monkeypatch.setattr(exchanges, "SMALL", 10)
    groups = Groups(scores(rng.standard_normal((60, 3))), np.array([[15] * 4]), np.zeros(60, dtype=int))
    for _ in range(5):
        found = groups.improved(groups.random(rng), rng)
        values = [imbalance(groups.Z, each.labels) for each in groups.neighbours(found, rng)]
        assert len(values) == 6 * 15**2 and min(values) >= found.imbalance - 1e-10


def users(n, rng):
    return pandas.DataFrame(
        {
            "age": rng.normal(40.0, 12.0, n).round(),
            "spend": rng.lognormal(3.0, 1.0, n).round(2),
            "country": rng.choice(["DE", "FR", "US", "IT"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "premium": (rng.random(n) < 0.2).astype(int),
        }
    )


@pytest.mark.compiled
@pytest.mark.parametrize("strata", [None, "country"])
@pytest.mark.parametrize(("n", "count"), [(5000, 4), (3000, 3)])
def test_searches_that_bring_nothing_are_left_out(rng, n, count, strata):
    """The counts of units per level leave some difference in any split, and the first search finds it."""
    table, reports = users(n, rng), []
    premium = rng.permutation(n) <= n // 5  # one more than a multiple of the number of groups
    table["premium"] = premium.astype(int)
    split = balanced_split(table, [n // count] * count, strata=strata, callback=reports.append, random_state=0)
    assert reports[-1].iteration <= 16
    columns = [premium] if strata else [premium, *(table["country"] == name for name in ("DE", "FR", "US", "IT"))]
    least = max(count / n / np.std(column, ddof=1) for column in columns if column.sum() % count)
    assert split.max_difference == pytest.approx(least)


def test_a_number_of_searches_that_is_given_is_kept(rng):
    reports = []
    balanced_split(users(60, rng), 30, work=20, callback=reports.append, random_state=0)
    assert [report.iteration for report in reports] == [8, 16, 20]


@pytest.mark.parametrize("n_draws", [1, 30])
def test_progress_is_reported_and_may_end_the_search(rng, n_draws):
    X, reports = rng.standard_normal((40, 3)), []
    pairs = [(0, 1), (2, 3)]
    options = {"together": pairs, "n_draws": n_draws, "random_state": 0}
    split = balanced_split(X, 20, callback=reports.append, **options)
    assert [report.iteration for report in reports] == ([8, 16, 24, 32, 40, 48, 56, 64] if n_draws == 1 else [60])
    assert (np.diff([report.objective for report in reports]) <= 0.0).all()
    for report in reports:
        assert imbalance(scores(X), report.x.astype(int)) == pytest.approx(report.objective)
        assert report.x[0] == report.x[1] and report.x[2] == report.x[3]
    assert min(split.draw_objectives) >= reports[-1].objective - 1e-12
    seen = []
    stopped = balanced_split(
        X, 20, work=10**6, callback=lambda report: seen.append(report) or len(seen) == 2, **options
    )
    assert len(seen) == 2 and stopped.labels.sum() == 20 and len(stopped.draws) == n_draws
    with pytest.raises(TypeError, match="callback is 3; it must be a function, or None"):
        balanced_split(X, 20, callback=3)


def table_of(n, rng):
    return pandas.DataFrame(
        {
            "age": rng.normal(50.0, 10.0, n),
            "visits": rng.integers(0, 5, n),
            "site": rng.choice(["north", "south", "west"], n),
            "smokes": rng.random(n) < 0.3,
            "stage": pandas.Categorical(rng.choice(["I", "II"], n), categories=["I", "II", "III"]),
            "code": np.ones(n),
        },
        index=[f"unit {k}" for k in range(n)],
    )


def test_balance_agrees_with_pandas(rng):
    n, treated = 24, 9
    table = table_of(n, rng)
    split = balanced_split(table, treated, work=FEW, random_state=0)
    assert split.labels.index.equals(table.index)
    assert split.labels.dtype == np.int64
    assert int(split.labels.sum()) == treated
    wide = pandas.get_dummies(table, columns=["site"], prefix_sep=" = ").drop(columns="stage").astype(float)
    # Of two levels one says all.
    wide["stage = II"] = (table["stage"] == "II").astype(float)
    means = wide.groupby(split.labels).mean()
    smd = ((means.loc[1] - means.loc[0]) / wide.std()).fillna(0.0)
    balance = split.balance
    assert sorted(balance.index) == sorted(wide.columns)
    np.testing.assert_allclose(balance["difference"], smd[balance.index], atol=1e-12)
    for g in (0, 1):
        np.testing.assert_allclose(balance[f"mean {g}"], means.loc[g, balance.index])
    random = np.where(balance.index == "code", 0.0, math.sqrt(1 / treated + 1 / (n - treated)))
    np.testing.assert_allclose(balance["random"], random)
    # A category counts as much as a number.
    share = {"age": 1, "visits": 1, "smokes": 1, "stage = II": 1}
    squares = sum(share.get(name, 1 / 3) * value**2 for name, value in smd.items())
    assert split.objective == pytest.approx(squares)
    assert split.max_difference == pytest.approx(smd.abs().max())
    assert repr(split).startswith("Split(groups of 15, 9 units: largest difference ")


def test_random_is_the_root_mean_square(rng):
    X = rng.exponential(size=(7, 1))
    splits = all_splits([4, 3])
    squares = [imbalance(scores(X), labels) for labels in splits]
    split = balanced_split(X, 3, work=1, random_state=0)
    assert split.balance["random"].iloc[0] == pytest.approx(math.sqrt(np.mean(squares)))


def test_numbers_may_be_categories(rng):
    X = np.column_stack([rng.integers(0, 3, 12), rng.standard_normal(12)])
    X[:3, 0] = [0, 1, 2]
    names = ["x0 = 0", "x0 = 1", "x0 = 2", "x1"]
    for categorical in (0, [0], (0,)):
        assert balanced_split(X, 6, categorical=categorical, work=1).balance.index.tolist() == names
    table = pandas.DataFrame(X, columns=["site", "age"])
    assert "site = 1" in balanced_split(table, 6, categorical="site", work=1).balance.index


def test_nullable_and_object_numbers_are_numbers(rng):
    table = pandas.DataFrame(
        {"a": pandas.array(range(6), dtype="Int64"), "b": np.array([1, 2, 3, 4, 5, 7], dtype=object)}
    )
    assert balanced_split(table, 3, work=1).balance.index.tolist() == ["a", "b"]


def test_a_column_of_strata_is_no_covariate(rng):
    table = table_of(24, rng)
    split = balanced_split(table, 12, strata="site", work=2, random_state=0)
    assert not [name for name in split.balance.index if name.startswith("site")]
    elsewhere = balanced_split(table.drop(columns="site"), 12, strata=table["site"][::-1], work=2, random_state=0)
    pandas.testing.assert_series_equal(split.labels, elsewhere.labels)


def test_columns_that_are_all_constant_leave_any_split(rng):
    split = balanced_split(np.ones((6, 2)), 2, work=1, random_state=0)
    assert split.labels.sum() == 2
    assert split.max_difference == split.objective == 0.0
    assert balanced_split(np.ones((6, 2)), 2, n_draws=9, work=3, random_state=0).draws.sum() == 18


def test_huge_and_tiny_values_are_scaled(rng):
    X = rng.standard_normal((8, 2))
    plain = balanced_split(X, 4, work=FEW, random_state=0)
    scaled_up = balanced_split(X * [1e300, 1e-300], 4, work=FEW, random_state=0)
    assert scaled_up.objective == pytest.approx(plain.objective)


def test_same_state_same_split(rng):
    X = rng.standard_normal((scaled(40, 12), 3))
    n = len(X)
    for options in ({}, {"n_draws": 5}, {"strata": np.arange(n) % 2}):
        first, again, parallel = (
            balanced_split(X, n // 2, work=8, random_state=3, n_jobs=n_jobs, **options) for n_jobs in (None, None, 2)
        )
        assert np.array_equal(first.labels, again.labels)
        assert np.array_equal(first.labels, parallel.labels)
        assert np.array_equal(first.draws, parallel.draws)
    generator = balanced_split(X, n // 2, work=1, random_state=np.random.default_rng(0))
    assert generator.labels.sum() == n // 2


@unsurprising
@pytest.mark.parametrize(
    ("treated", "strata"), [(4, None), (3, None), ([2, 3, 3], None), (4, [0, 0, 0, 0, 1, 1, 1, 1])]
)
def test_draws_are_distinct_and_the_best(rng, treated, strata):
    X = rng.standard_normal((8, 2))
    splits = all_splits([8 - treated, treated] if isinstance(treated, int) else treated)
    if strata is not None:
        splits = [x for x in splits if x[:4].sum() == 2]
    values = sorted(imbalance(scores(X), x) for x in splits)
    mirrored = treated == 4
    for count in (2, 7, len(splits) // (2 if mirrored else 1)):
        split = balanced_split(X, treated, strata=strata, n_draws=count, work=4, random_state=0)
        assert split.draws.shape == (count, 8)
        assert split.mirrored is mirrored
        assert len(np.unique(split.reference, axis=0)) == (2 * count if mirrored else count)
        direct = [imbalance(scores(X), labels) for labels in split.draws]
        np.testing.assert_allclose(split.draw_objectives, direct, atol=1e-12)
        assert direct == pytest.approx(sorted(direct))
        assert any(np.array_equal(split.labels, labels) for labels in split.reference)
        assert split.objective == pytest.approx(imbalance(scores(X), split.labels))
    # All splits there are have been drawn.
    np.testing.assert_allclose(direct, values[:: 2 if mirrored else 1], atol=1e-9)


@unsurprising
def test_a_time_limit_still_gives_all_draws(rng):
    X = rng.standard_normal((12, 2))
    assert balanced_split(X, 6, max_time=1e-9, random_state=0).labels.sum() == 6
    split = balanced_split(X, 5, n_draws=200, work=10**9, max_time=1e-9, random_state=0)
    assert len(np.unique(split.draws, axis=0)) == 200


@pytest.mark.compiled
class Ticks:
    """A clock that advances by the same amount at every look."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("n_draws", [1, 20])
def test_the_clock_is_looked_at_between_blocks(rng, monkeypatch, n_draws, n_jobs):
    X, blocks = rng.standard_normal((60, 3)), []
    divide = exchanges.Groups._divide
    monkeypatch.setattr(exchanges.Groups, "_divide", lambda self, *rest: (blocks.append(1), divide(self, *rest))[1])
    monkeypatch.setattr("counterpoise.supervision.working_seconds", Ticks(1.0))
    split = balanced_split(X, [20, 20, 20], n_draws=n_draws, work=10**6, max_time=50.0, n_jobs=n_jobs, random_state=0)
    # Between two blocks there is a look at the clock, and every worker may have begun one.
    assert len(blocks) <= 50 + 2
    assert split.draws.shape == (n_draws, 60) and len({tuple(draw) for draw in split.draws}) == n_draws
    assert (np.diff(split.draw_objectives) >= 0.0).all()
    for labels, objective in zip(split.draws, split.draw_objectives, strict=True):
        assert np.bincount(labels).tolist() == [20, 20, 20]
        assert objective == pytest.approx(imbalance(split.covariates.scores, labels), rel=1e-9)


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize(("call", "draws"), [(1, 1), (200, 1), (1000, 20)])
def test_ctrl_c_ends_all_workers_and_keeps_the_best_split(rng, monkeypatch, n_jobs, call, draws):
    X, calls = rng.standard_normal((60, 3)), []
    divide = exchanges.Groups._divide

    def pressed(self, *rest):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return divide(self, *rest)

    monkeypatch.setattr(exchanges.Groups, "_divide", pressed)
    # Before the first batch there is nothing to keep.
    expected = pytest.raises(KeyboardInterrupt) if call == 1 else pytest.warns(UserWarning, match="was interrupted")
    with expected:
        split = balanced_split(X, 30, n_draws=draws, work=10**6, n_jobs=n_jobs, random_state=0)
        assert np.bincount(split.labels).tolist() == [30, 30] and len(split.draws) == draws
        assert split.is_better_than_random
    for thread in threading.enumerate():
        if thread.name.startswith("ThreadPool"):
            thread.join(60.0)
            assert not thread.is_alive()


def test_exchanges_come_in_order(rng, monkeypatch):
    monkeypatch.setattr(exchanges, "SORTED", 7)
    for size in (5, 7, 60):
        values = np.round(rng.random(size), 1)
        values[rng.random(size) < 0.3] = np.inf
        found = list(exchanges._ascending(values))
        assert sorted(found) == np.flatnonzero(np.isfinite(values)).tolist()
        assert (np.diff(values[found]) >= 0.0).all()


def test_draws_are_near_the_best(rng):
    X = rng.standard_normal((200, 10))
    best = balanced_split(X, 100, random_state=0)
    many = balanced_split(X, 100, n_draws=200, random_state=0)
    at_random = np.median([imbalance(scores(X), rng.permutation(many.labels)) for _ in range(200)])
    assert many.draw_objectives.max() < 0.02 * at_random
    assert best.objective <= 1.5 * many.draw_objectives.min()


@pytest.mark.compiled
@pytest.mark.parametrize("options", [{}, {"strata": np.arange(200) % 4}])
def test_the_order_of_units_does_not_matter(rng, options):
    split = balanced_split(rng.standard_normal((200, 10)), 100, n_draws=400, random_state=0, **options)
    sides = 2.0 * split.draws - 1.0
    together = (sides.T @ sides) / 400 - np.eye(200)
    # How often two units are on the same side, of neighbours in the table and of any two.
    assert abs(np.diagonal(together, 1).mean() - together.mean()) < 0.02
    assert abs(together[:40, :40].mean()) < 0.03


@pytest.mark.compiled
def test_eight_times_better_than_the_best_of_many_random_splits(rng):
    X = rng.standard_normal((400, 20))
    Z, labels = scores(X), np.repeat([-1.0, 1.0], 200)
    best = min(np.abs(Z.T @ rng.permutation(labels)).max() / 200 for _ in range(10_000))
    assert 8.0 * balanced_split(X, 200, random_state=0).max_difference < best


def test_labels_are_drawn_with_equal_chances(rng):
    X = rng.standard_normal((6, 1))
    counts = {}
    for seed in range(scaled(400, 120)):
        split = balanced_split(X, 3, n_draws=3, work=2, random_state=seed)
        counts[split.labels.tobytes()] = counts.get(split.labels.tobytes(), 0) + 1
    # Three draws and their mirror images, the same set for every seed since there are few splits.
    assert len(counts) >= 6
    assert max(counts.values()) < 0.35 * sum(counts.values())


def test_p_values_are_valid_under_the_null(rng):
    X = rng.standard_normal((12, 2))
    outcome = X[:, 0] + rng.exponential(size=12)
    p_values = []
    first = balanced_split(X, 5, n_draws=40, work=20, random_state=0)
    for labels in first.reference:
        split = Split(labels, *(getattr(first, name) for name in list(first.__dataclass_fields__)[1:]))
        p_values.append(
            [split.randomisation_test(outcome, alternative=a).p_value for a in ("two-sided", "greater", "less")]
        )
    p_values = np.array(p_values)
    for alpha in np.arange(1, 41) / 40:
        assert ((p_values <= alpha + 1e-9).mean(axis=0) <= alpha + 1e-9).all()
    # Without ties the p-values are exactly uniform.
    np.testing.assert_allclose(np.sort(p_values[:, 1]), np.arange(1, 41) / 40)


def test_an_effect_is_detected(rng):
    X = rng.standard_normal((20, 2))
    split = balanced_split(X, 10, n_draws=60, work=scaled(120, 20), random_state=0)
    outcome = X.sum(axis=1) + 0.1 * rng.standard_normal(20) + 5.0 * split.labels
    test = split.randomisation_test(outcome)
    assert test.statistic == pytest.approx(outcome[split.labels == 1].mean() - outcome[split.labels == 0].mean())
    assert test.p_value == pytest.approx(2 / 120)
    assert len(test.null) == 120
    np.testing.assert_allclose(np.sort(test.null), -np.sort(test.null)[::-1], atol=1e-12)
    assert split.randomisation_test(outcome, alternative="greater").p_value == pytest.approx(1 / 120)
    assert split.randomisation_test(outcome, alternative="less").p_value == 1.0
    assert split.randomisation_test(np.zeros(20)).p_value == 1.0


def test_a_statistic_of_ones_own(rng):
    table = table_of(12, rng)
    split = balanced_split(table, [4, 4, 4], n_draws=30, work=10, random_state=0)
    outcome = pandas.Series(10.0 * split.labels + rng.standard_normal(12), index=table.index)

    def trend(y, labels):
        return (y - y.mean()) @ labels

    assert split.randomisation_test(outcome[::-1], trend, "greater").p_value == pytest.approx(1 / 30)


def test_a_plot_has_a_point_per_covariate_and_a_line_for_random_splits(rng):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    split = balanced_split(table_of(20, rng), 10, work=1, random_state=0)
    ax = Figure().subplots()
    assert split.plot(ax) is ax
    lines = {line.get_label(): line for line in ax.get_lines() if not line.get_label().startswith("_")}
    assert list(lines) == ["this split", "random, root mean square"]
    assert lines["random, root mean square"].get_xdata() == pytest.approx([split.balance["random"].max()] * 2)
    np.testing.assert_allclose(lines["this split"].get_xdata(), np.abs(split.differences))
    assert [text.get_text() for text in ax.get_yticklabels()] == split.balance.index.tolist()
    own = split.plot()
    own.figure.canvas.draw()
    pyplot.close(own.figure)
    with pytest.raises(ValueError, match=r"^split has no column 'random'; give a split, or its balance\.$"):
        from counterpoise.plotting import plot_balance

        plot_balance(split.balance.drop(columns="random"))
    with pytest.raises(ValueError, match=r"^split is empty; there is nothing to plot\.$"):
        plot_balance(split.balance.iloc[:0])


def test_arrays_need_no_pandas(rng, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    split = balanced_split(rng.standard_normal((8, 2)), 4, n_draws=4, work=4, random_state=0)
    assert isinstance(split.labels, np.ndarray)
    assert split.max_difference > 0.0
    assert 0.0 < split.randomisation_test(rng.standard_normal(8)).p_value <= 1.0
    with pytest.raises(ImportError, match=r"^A table of balance needs pandas: .* pip install pandas\.$"):
        split.balance  # noqa: B018


TABLE = pandas.DataFrame({"age": [1.0, 2.0, 4.0, 8.0], "site": ["a", "b", "a", "b"]}, index=list("wxyz"))
MISSING, INFINITE = TABLE.copy(), TABLE.copy()
MISSING.loc["x", "age"] = np.nan
INFINITE.loc[["y", "z"], "age"] = np.inf
ARRAY = np.arange(12.0).reshape(6, 2) ** 2


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ((ARRAY, 0), {}, r"^n_treated is 0; it must be between 1 and 5\.$"),
        ((ARRAY, 6), {}, r"^n_treated is 6; it must be between 1 and 5\.$"),
        ((ARRAY, 2.0), {}, r"^n_treated is 2\.0; it must be a whole number, or a fraction between 0 and 1\.$"),
        ((ARRAY, "2"), {}, r"^n_treated is '2'; it must be a whole number\.$"),
        ((ARRAY, [3, 4]), {}, r"^n_treated adds up to 7 of 6 units; it must add up to at most 6\.$"),
        ((ARRAY, [3, 0]), {}, r"^n_treated\[1\] is 0; it must be at least 1\.$"),
        ((ARRAY, [6]), {}, r"^n_treated leaves no unit for group 0; at least two groups are needed, none empty\.$"),
        ((ARRAY, []), {}, r"^n_treated leaves no unit for group 1; at least two groups are needed, none empty\.$"),
        ((ARRAY, {0: 2}), {}, r"^n_treated is a mapping, but there are no strata; give a whole number or sizes"),
        ((ARRAY[:1], 1), {}, r"^covariates has 1 row\(s\); a split needs at least two units, one per row\.$"),
        ((ARRAY[:0], 1), {}, r"^covariates has 0 row\(s\); a split needs at least two units"),
        ((ARRAY[:, :0], 1), {}, r"^covariates has no columns; there is nothing to balance\.$"),
        ((ARRAY[:, 0], 1), {}, r"^covariates has 1 dimension\(s\); it must be a table, units × covariates\.$"),
        ((np.where(ARRAY == 4, np.nan, ARRAY), 2), {}, r"^covariates contains nan at \(1, 0\)"),
        ((np.array([["a"], ["b"]]), 1), {}, r"^covariates has dtype <U1; give real numbers"),
        ((MISSING, 2), {}, r"^Column 'age' of covariates lacks a value at index x; remove or impute these units, all "),
        ((INFINITE, 2), {}, r"^Column 'age' of covariates is infinite at index y, z; remove or impute"),
        ((TABLE[["age", "age"]], 2), {}, r"^covariates has more than one column 'age'; names must be unique\.$"),
        (
            (TABLE.assign(id=list("abcd")), 2),
            {},
            r"^Column 'id' of covariates has a different level for each of the 4 ",
        ),
        (
            (TABLE.assign(born=pandas.to_datetime(["2001-01-01"] * 4)), 2),
            {},
            r"^Column 'born' of covariates holds dates; leave it out, or choose a date unit with dates=\{'born': 'month'\}: day, week",
        ),
        ((TABLE.assign(z=1j), 2), {}, r"^Column 'z' of covariates holds complex numbers; give real numbers\.$"),
        (
            (TABLE.assign(z=[[1], [2], [1], [2]]), 2),
            {},
            r"^Column 'z' of covariates holds mixed objects; give numbers or",
        ),
        ((TABLE, 2), {"weights": {"aeg": 1}}, r"^weights: name 'aeg' is not a covariate; did you mean age\?$"),
        ((TABLE, 2), {"weights": {7: 1}}, r"^weights: name 7 is not a covariate; there are age, site\.$"),
        ((TABLE, 2), {"weights": [1, -2]}, r"^weights is -2 for 'site'; a weight must be at least 0\.$"),
        ((TABLE, 2), {"weights": [1, 2, 3]}, r"^weights has shape \(3,\); it must be \(2,\), one per covariate\.$"),
        (
            (TABLE, 2),
            {"weights": [0, 0]},
            r"^weights are all 0, so nothing is balanced; at least one must be positive\.$",
        ),
        ((TABLE, 2), {"categorical": "sit"}, r"^categorical: column 'sit' is not a covariate; did you mean site\?$"),
        (
            (TABLE, 2),
            {"strata": "sit"},
            r"^strata is 'sit', which is not a column of covariates; give a column or one ",
        ),
        ((TABLE[["site"]], 2), {"strata": "site"}, r"^covariates has no column besides site; there is"),
        ((TABLE, 2), {"strata": [1, 2]}, r"^strata has 2 values for 4 units; it must hold one per unit\.$"),
        ((TABLE, 2), {"strata": 3}, r"^strata is 3; it must hold one value per unit\.$"),
        ((TABLE, 2), {"strata": ["a", None, "a", "b"]}, r"^strata has no value for unit x; every unit needs one\.$"),
        ((TABLE, 2), {"strata": np.array([1.0, 1.0, np.nan, 2.0])}, r"^strata has no value for unit y; every unit"),
        (
            (TABLE, 2),
            {"strata": TABLE["age"].reset_index(drop=True)},
            r"^strata and covariates have different indexes; both",
        ),
        ((TABLE, {"a": 1}), {"strata": "site"}, r"^n_treated has no size for stratum 'b'; every stratum needs one\.$"),
        ((TABLE, {"c": 1}), {"strata": "site"}, r"^n_treated: 'c' is not a stratum; the strata are a, b\.$"),
        (
            (TABLE, {"a": 3, "b": 1}),
            {"strata": "site"},
            r"^n_treated of stratum 'a' is 3; it must be between 0 and 2\.$",
        ),
        ((TABLE, {"a": 0, "b": 0}), {"strata": "site"}, r"^n_treated leaves no unit for group 1; at least two"),
        (
            (TABLE, {"a": [1, 1], "b": 1}),
            {"strata": "site"},
            r"^n_treated has more sizes for some strata than for others; give",
        ),
        ((TABLE, 2), {"n_draws": 0}, r"^n_draws is 0; it must be at least 1\.$"),
        ((TABLE, 1), {"n_draws": 5}, r"^n_draws is 5, but there are 4 splits; ask for at most 4\.$"),
        (
            (TABLE, 2),
            {"n_draws": 4},
            r"^n_draws is 4, but there are 3 splits, not counting mirror images; ask for at most 3",
        ),
        ((TABLE, 2), {"work": 0}, r"^work is 0; it must be at least 1\.$"),
        ((TABLE, 2), {"max_time": 0}, r"^max_time is 0; a search needs a positive budget\.$"),
        ((TABLE, 2), {"random_state": -1}, r"^random_state is -1; it must be an int of at least 0, a numpy Gene"),
        ((TABLE, 2), {"random_state": 1.5}, r"^random_state is 1\.5; it must be an int of at least 0, a numpy Gene"),
        ((TABLE, 2), {"n_jobs": 0}, r"^n_jobs is 0; it must be a positive number of workers"),
        ((TABLE, 2), {"n_jobs": "a"}, r"^n_jobs is 'a'; it must be a whole number of workers"),
        ((TABLE, 2), {"strata": [[1], [2], [1], [2]]}, r"^strata holds \[1\], which cannot name a stratum; give words"),
        ((np.ma.masked_less(ARRAY, 5.0), 2), {}, r"^covariates has 3 masked entries; remove or impute them"),
        ((TABLE, 2), {"random_state": "x"}, r"^random_state is 'x'; it must be an int of at least 0, a numpy Gene"),
    ],
)
def test_bad_arguments_get_one_sentence(arguments, options, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        balanced_split(*arguments, **options)


def test_bad_tests_get_one_sentence(rng):
    X = rng.standard_normal((6, 2))
    with pytest.raises(ValueError, match=r"^This split has a single draw, so there is nothing to compare"):
        balanced_split(X, 3, work=1).randomisation_test(np.zeros(6))
    split = balanced_split(X, 3, n_draws=5, work=5, random_state=0)
    for outcome, options, sentence in (
        (np.zeros(5), {}, r"^outcome has 5 values for 6 units; it must hold one per unit\.$"),
        (np.zeros((6, 2)), {}, r"^outcome has 2 dimensions; it must hold one number per unit\.$"),
        (np.full(6, np.nan), {}, r"^outcome contains nan at 0"),
        (
            np.zeros(6),
            {"alternative": "both"},
            r"^alternative is 'both'; it must be one of two-sided, greater, less\.$",
        ),
        (
            np.zeros(6),
            {"statistic": "t"},
            r"^statistic is 't'; it must be \"mean difference\", \"between groups\" or a f",
        ),
    ):
        with pytest.raises(ValueError, match=sentence):
            split.randomisation_test(outcome, **options)
    three = balanced_split(X, [2, 2, 2], n_draws=5, work=5, random_state=0)
    with pytest.raises(ValueError, match=r"^The mean difference needs two groups, but there are 3; give statistic as"):
        three.randomisation_test(np.zeros(6))

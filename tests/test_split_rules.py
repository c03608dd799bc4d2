"""Rules of splits against all splits of few units; intervals, power and files of draws against direct computation."""

import itertools
import math
import runpy
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from conftest import scaled
from counterpoise.estimators.exchanges import NEAR, Groups
from counterpoise.estimators.randomisation import interval, mean_differences
from counterpoise.estimators.split import Split, balanced_split
from counterpoise.estimators.split_input import random_split, read_links

pandas = pytest.importorskip("pandas")
unsurprising = pytest.mark.filterwarnings("ignore:This split is NO BETTER THAN RANDOM")


def every_split(n, sizes):
    """Every assignment of groups 0, 1, … of these sizes."""
    rows = [
        row
        for row in itertools.product(range(len(sizes)), repeat=n)
        if np.bincount(row, minlength=len(sizes)).tolist() == sizes
    ]
    return np.array(rows)


def objective(X, labels):
    Z = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    means = [Z[labels == g].mean(axis=0) for g in range(labels.max() + 1)]
    return sum(float(((a - b) ** 2).sum()) for a, b in itertools.combinations(means, 2))


def keeps(labels, together, apart):
    return all(len({labels[unit] for unit in units}) == 1 for units in together) and all(
        len({labels[unit] for unit in units}) == len(units) for units in apart
    )


RULES = [
    ([5, 5], [(0, 1), (2, 3)], []),
    ([5, 5], [(0, 1), (2, 1), (3, 4)], []),
    ([6, 3], [(0, 4)], [(1, 2)]),
    ([4, 4], [], [(0, 1), (1, 2), (2, 3)]),
    ([5, 5], [(0, 1)], [(1, 2), (3, 4), (5, 6)]),
    ([3, 3, 3], [(0, 1)], [(2, 3, 4), (1, 5)]),
    ([2, 3, 3], [], [(0, 1), (1, 2), (0, 2), (3, 4)]),
    ([6, 6], [(0, 1, 2), (3, 4, 5), (6, 7), (8, 9), (10, 11)], []),
]  # fmt: skip


@unsurprising
@pytest.mark.parametrize(("sizes", "together", "apart"), RULES)
def test_rules_are_kept_and_the_best_split_is_found(rng, sizes, together, apart):
    n = sum(sizes)
    X = rng.standard_normal((n, 2))
    allowed = [row for row in every_split(n, sizes) if keeps(row, together, apart)]
    best = min(objective(X, row) for row in allowed)
    split = balanced_split(X, sizes, together=together, apart=apart, random_state=0)
    assert keeps(split.labels, together, apart)
    assert np.bincount(split.labels).tolist() == sizes
    assert split.objective == pytest.approx(objective(X, split.labels), abs=1e-12)
    assert best - 1e-12 <= split.objective <= NEAR * best * (1 + 1e-9) + 1e-12


@unsurprising
@pytest.mark.parametrize(("sizes", "together", "apart"), RULES[:6])
def test_all_draws_keep_the_rules(rng, sizes, together, apart):
    X = rng.standard_normal((sum(sizes), 2))
    allowed = {tuple(row) for row in every_split(sum(sizes), sizes) if keeps(row, together, apart)}
    split = balanced_split(X, sizes, together=together, apart=apart, n_draws=4, random_state=0)
    drawn = {tuple(row) for row in split.reference.tolist()}
    assert drawn <= allowed and len(drawn) == len(split.reference)
    np.testing.assert_allclose(split.draw_objectives, [objective(X, row) for row in split.draws], atol=1e-12)


def test_exchanges_of_linked_blocks_are_the_allowed_ones(rng):
    X = rng.standard_normal((9, 2))
    links = read_links([(0, 1), (2, 3)], [(1, 4), (5, 6)], None, np.zeros(9, dtype=int), 3)
    sizes = np.array([[3, 3, 3]])
    groups = Groups(links.sums(X - X.mean(axis=0)), sizes, np.zeros(len(links.sizes), dtype=int), links)
    for _ in range(20):
        labels = groups.random(rng)
        assert np.bincount(labels[links.blocks]).tolist() == [3, 3, 3] and links.keeps_apart(labels)
        found = groups.improved(labels, rng, tabu=True)
        assert links.keeps_apart(found.labels)
        got = {tuple(each.labels) for each in groups.neighbours(found, rng)}
        wanted = set()
        for i, j in itertools.combinations(range(len(labels)), 2):
            moved = found.labels.copy()
            moved[[i, j]] = moved[[j, i]]
            if links.sizes[i] == links.sizes[j] and found.labels[i] != found.labels[j] and links.keeps_apart(moved):
                wanted.add(tuple(moved))
        assert got == wanted
        for each in groups.neighbours(found, rng):
            assert each.imbalance == pytest.approx(groups.imbalance(each.labels))
        shaken = groups.shaken(found.labels, rng)
        assert np.bincount(shaken[links.blocks]).tolist() == [3, 3, 3] and links.keeps_apart(shaken)


def test_rules_by_column_and_by_value(rng):
    n = 24
    table = pandas.DataFrame(
        {"age": rng.normal(50, 9, n), "family": [f"F{k // 2}" if k < 8 else None for k in range(n)]}
    )
    table["rival"] = [k % 6 if k < 12 else np.nan for k in range(n)]
    split = balanced_split(table, 12, together="family", apart="rival", random_state=0)
    assert list(split.balance.index) == ["age"]
    groups = split.labels.to_numpy()
    assert (groups[:8:2] == groups[1:8:2]).all()
    assert (groups[:6] != groups[6:12]).all()
    again = balanced_split(table[["age"]], 12, together=table["family"], apart=table["rival"][::-1], random_state=0)
    pandas.testing.assert_series_equal(split.labels, again.labels)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"apart": [(0, 1, 2)]}, r"^apart: 0, 1, 2 are 3 units, but there are only 2 groups; at most 2 units can be kept apart\.$"),
        ({"apart": [(0, 1), (1, 2), (0, 2)]}, r"^No split into groups of 5, 5 units was found that satisfies together and apart"),
        ({"together": [(0, 1)], "apart": [(0, 1)]}, r"^apart: two of 0, 1 must also stay together; drop one"),
        ({"together": [tuple(range(6))]}, r"^No split into groups of 5, 5 units was found"),
        ({"together": [(0, 99)]}, r"^together: 99 is not a unit; give the positions of units\.$"),
        ({"together": "family"}, r"^together is 'family', which is not a column of covariates"),
        ({"together": [1, 2]}, r"^together has 2 values for 10 units; it must hold one per unit\.$"),
        ({"together": [(0, 1)], "strata": list("uv") * 5}, r"^together: 0, 1 are in more than one stratum; units"),
        ({"moments": 5}, r"^moments is 5; it must be between 1 and 4\.$"),
        ({"group_names": ["a"]}, r"^group_names is \['a'\]; it must hold 2 different names, group 0 first\.$"),
        ({"group_names": ["a", "a"]}, r"it must hold 2 different names"),
        ({"dates": ["x"]}, r"^dates is \['x'\]; it must map columns to units"),
    ],
)  # fmt: skip
def test_bad_rules_get_one_sentence(rng, options, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        balanced_split(rng.standard_normal((10, 2)), 5, random_state=0, **options)


def test_more_draws_than_rules_allow_are_refused(rng):
    pairs = [(k, k + 4) for k in range(4)]
    with pytest.raises(
        ValueError, match=r"^n_draws is 100, but only 8 splits were found that satisfy together and apart"
    ):
        balanced_split(rng.standard_normal((8, 1)), 4, apart=pairs, n_draws=100, random_state=0)


def test_random_starts_reach_every_allowed_split(rng):
    links = read_links([(0, 1)], [(2, 3)], None, np.zeros(6, dtype=int), 2)
    wanted = {tuple(row) for row in every_split(6, [3, 3]) if keeps(row, [(0, 1)], [(2, 3)])}
    starts = (random_split(np.array([[3, 3]]), np.zeros(5, dtype=int), links, rng)[links.blocks] for _ in range(200))
    assert {tuple(row) for row in starts} == wanted


@pytest.mark.parametrize(
    ("treated", "n", "sizes"),
    [(0.5, 10, (5, 5)), (0.25, 10, (7, 3)), ([0.5, 0.5], 15, (8, 7)), ([0.3, 0.3], 20, (8, 6, 6)), (np.float64(0.1), 20, (18, 2))],
)  # fmt: skip
def test_fractions(rng, treated, n, sizes):
    assert balanced_split(rng.standard_normal((n, 2)), treated, work=4, random_state=0).group_sizes == sizes


@pytest.mark.parametrize(
    ("treated", "sentence"),
    [
        (1.5, r"^n_treated is 1\.5; it must be a whole number, or a fraction between 0 and 1\.$"),
        (0.01, r"^n_treated, 0\.01 of 10 units, is 0; it must be between 1 and 9\.$"),
        ([0.7, 0.7], r"^n_treated adds up to 1\.4 of all units; fractions must add up to at most 1\.$"),
    ],
)
def test_bad_fractions(rng, treated, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        balanced_split(rng.standard_normal((10, 2)), treated)


def test_squares_are_balanced_too(rng):
    X = pandas.DataFrame(
        {"age": rng.lognormal(0, 1, 60), "score": rng.standard_normal(60), "male": rng.random(60) < 0.5}
    )
    plain, plus = (balanced_split(X, 30, moments=moments, random_state=0) for moments in (1, 2))
    assert list(plus.balance.index) == ["age", "age²", "score", "score²", "male"]
    centred = (X["age"] - X["age"].mean()) ** 2
    by_group = centred.groupby(plus.labels).mean()
    assert plus.balance.loc["age²", "mean 1"] == pytest.approx(by_group[1])
    assert plus.balance.loc["age²", "difference"] == pytest.approx((by_group[1] - by_group[0]) / centred.std())
    spreads = [abs(np.subtract(*X["age"].groupby(split.labels).var())) for split in (plain, plus)]
    assert spreads[1] < 0.2 * spreads[0]
    assert plus.covariates.weights.tolist() == [1.0] * 5
    weighted = balanced_split(X, 30, moments=3, weights={"age": 4.0}, work=2, random_state=0)
    assert weighted.covariates.weights.tolist() == [4.0] * 3 + [1.0] * 4


def test_dates_are_refused_or_binned(rng):
    days = pandas.date_range("2024-01-01", periods=40)
    for values in (days, [str(day.date()) for day in days]):
        table = pandas.DataFrame({"age": rng.normal(50, 9, 40), "enrolled": values})
        with pytest.raises(
            TypeError, match=r"^Column 'enrolled' of covariates holds dates; leave it out, or choose a date unit"
        ):
            balanced_split(table, 20)
        month = balanced_split(table, 20, dates={"enrolled": "month"}, random_state=0)
        assert list(month.balance.index) == ["age", "enrolled = 2024-02"]  # of two levels the last one's
        day = balanced_split(table, 20, dates={"enrolled": "day"}, random_state=0)
        assert day.covariates.values[:, 1].tolist() == list(range(40))
        assert list(day.balance.index) == ["age", "enrolled in days"]
    for unit, level in (("week", "2024-W01"), ("quarter", "2024-Q1")):
        found = balanced_split(table, 20, dates={"enrolled": unit}, random_state=0)
        assert f"enrolled = {level}" in found.balance.index


@unsurprising
def test_names_of_groups(rng):
    table = pandas.DataFrame({"age": rng.normal(50, 9, 12)}, index=[f"P{k}" for k in range(12)])
    plain = balanced_split(table, 6, random_state=0)
    split = balanced_split(table, 6, group_names=["control", "treated"], random_state=0)
    assert split.labels.map({"control": 0, "treated": 1}).tolist() == plain.labels.tolist() == split.codes.tolist()
    assert list(split.balance.columns[:2]) == ["mean control", "mean treated"]


def test_a_seed_is_drawn_and_kept(rng):
    X = rng.standard_normal((30, 3))
    first, second = balanced_split(X, 15, work=2), balanced_split(X, 15, work=2)
    assert first.seed != second.seed
    again = balanced_split(X, 15, work=2, random_state=first.seed)
    assert np.array_equal(again.labels, first.labels) and again.seed == first.seed
    assert balanced_split(X, 15, work=2, random_state=np.random.default_rng(0)).seed is None


def test_a_split_no_better_than_random_says_so(rng):
    X = rng.standard_normal((4, 1))
    with pytest.warns(UserWarning, match=r"^This split is NO BETTER THAN RANDOM: its largest standardised difference"):
        splits = [balanced_split(X, 2, n_draws=3, random_state=seed) for seed in range(20)]
    assert {split.is_better_than_random for split in splits} == {False, True} or not splits[0].is_better_than_random
    good = balanced_split(rng.standard_normal((40, 3)), 20, random_state=0)
    assert good.is_better_than_random and good.at_random[1] > good.max_difference
    rows = [rng.permutation(40) < 20 for _ in range(400)]
    Z = good.covariates.scores
    largest = np.median([np.abs(Z[row].mean(axis=0) - Z[~row].mean(axis=0)).max() for row in rows])
    assert good.at_random[1] == pytest.approx(largest, rel=0.2)


# Tests of outcomes.


def p_of(y, labels, reference, effect, alternative):
    """The p-value of y − effect × labels, split by split."""
    rest = y - effect * labels
    values = [rest[row == 1].mean() - rest[row == 0].mean() for row in reference]
    observed = rest[labels == 1].mean() - rest[labels == 0].mean()
    sign = {"greater": 1.0, "less": -1.0}[alternative]
    return np.mean([sign * value >= sign * observed - 1e-9 for value in values])


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("sizes", [[4, 4], [5, 3]])
def test_the_interval_inverts_the_test(rng, sizes, confidence):
    reference = every_split(8, sizes)
    labels, y = reference[len(reference) // 3], rng.standard_normal(8)
    for alternative in ("two-sided", "greater", "less"):
        low, high = interval(labels, reference, y, confidence, alternative)
        share = (1.0 - confidence) / (2.0 if alternative == "two-sided" else 1.0)
        for limit, side, way in ((low, "greater", -1.0), (high, "less", 1.0)):
            if math.isinf(limit):
                assert alternative not in ("two-sided", side)
                continue
            # Just inside the interval the test does not reject, just outside it does.
            assert p_of(y, labels, reference, limit - 1e-6 * way, side) > share
            assert p_of(y, labels, reference, limit + 1e-6 * way, side) <= share + 1e-12


def test_too_few_splits_have_no_limits(rng):
    X = rng.standard_normal((20, 2))
    split = balanced_split(X, 10, n_draws=5, random_state=0)
    test = split.randomisation_test(rng.standard_normal(20))
    assert test.interval == (-math.inf, math.inf)
    assert "interval -inf to inf" in repr(test)


@unsurprising
def test_p_value_of_all_assignments(rng):
    y = rng.standard_normal(8)
    split = balanced_split(rng.standard_normal((8, 1)), 4, n_draws=35, random_state=0)
    test = split.randomisation_test(y)
    labels = split.labels
    values = [abs(y[row == 1].mean() - y[row == 0].mean()) for row in every_split(8, [4, 4])]
    observed = y[labels == 1].mean() - y[labels == 0].mean()
    assert test.p_value == pytest.approx(np.mean(np.array(values) >= abs(observed) - 1e-12))
    assert test.statistic == pytest.approx(observed)
    assert repr(test).startswith(
        f"RandomisationTest(p = {test.p_value:.4g} over 70 splits: {observed:.4g}, 95 % interval "
    )
    assert "\n" not in repr(test) and len(repr(test)) < 120
    p_value, statistic, null = test
    assert (p_value, statistic) == (test.p_value, test.statistic) and null is test.null
    # Consistent with the interval: 0 is inside where the test does not reject.
    for confidence in (0.3, 0.5, 0.7, 0.9):
        low, high = split.randomisation_test(y, confidence=confidence).interval
        assert (low <= 0.0 <= high) == (test.p_value > 1.0 - confidence + 1e-9)


def exact_p(y, labels, reference, statistic):
    """The p-value in rational arithmetic, of outcomes as they are stored."""
    y = [Fraction(value) for value in y.tolist()]
    mean = sum(y) / len(y)

    def value(groups):
        parts = [[each for each, g in zip(y, groups, strict=True) if g == k] for k in sorted(set(groups))]
        if statistic == "mean difference":
            return abs(sum(parts[1]) / len(parts[1]) - sum(parts[0]) / len(parts[0]))
        return sum(len(part) * (sum(part) / len(part) - mean) ** 2 for part in parts)

    observed = value(labels.tolist())
    return float(np.mean([value(each.tolist()) >= observed for each in reference]))


@unsurprising
@pytest.mark.parametrize("offset", [0.0, 1e6, 1e7, -1e12])
@pytest.mark.parametrize(
    ("sizes", "statistic"),
    [(10, "mean difference"), (7, "mean difference"), ([6, 6, 8], "between groups")],
)
def test_an_offset_of_whole_outcomes_changes_no_p_value(rng, sizes, statistic, offset):
    for seed in range(8):
        split = balanced_split(rng.standard_normal((20, 2)), sizes, n_draws=30, work=8, random_state=seed)
        y = rng.integers(0, 3, 20) + offset
        found = split.randomisation_test(y, statistic)
        assert found.p_value == pytest.approx(exact_p(y, split.labels, split.reference, statistic), abs=1e-12)
        assert found.p_value >= (1 + split.mirrored) / len(split.reference) - 1e-12


def test_ties_of_outcomes_with_decimals_and_an_offset(rng):
    """0.1 + 0.3 = 0.2 + 0.2 in the table, though not in binary, whatever is added to all of them."""
    split = balanced_split(rng.standard_normal((16, 2)), 8, n_draws=60, work=60, random_state=0)
    for _ in range(8):
        tenths = rng.integers(0, 4, 16)
        expected = split.randomisation_test(tenths).p_value
        for offset in (0, 10**6, 10**7):
            y = np.array([float(Fraction(int(each), 10) + offset) for each in tenths])
            assert split.randomisation_test(y).p_value == expected


@pytest.mark.parametrize("treated", [10, 7])
def test_the_interval_covers_a_constant_effect(rng, treated):
    """Labels are drawn from the reference again and again; the interval misses the effect in 20 % of all at most."""
    X = rng.standard_normal((20, 3))
    split = balanced_split(X, treated, n_draws=50, random_state=0)
    y = X @ [2.0, 1.0, 0.0] + rng.exponential(size=20)
    covered = []
    for labels in split.reference:
        low, high = interval(labels, split.reference, y + 1.5 * labels, 0.8, "two-sided")
        covered.append(low <= 1.5 <= high)
    # Over the whole reference the coverage is exact, no matter of chance.
    assert 0.8 <= np.mean(covered) <= 0.9


def test_power_is_the_share_of_splits_that_find_the_effect(rng):
    X = rng.standard_normal((16, 2))
    split = balanced_split(X, 7, n_draws=40, random_state=0)
    y = rng.standard_normal(16)
    for effect, alternative in ((0.0, "two-sided"), (1.0, "greater"), (1.5, "two-sided"), (-1.0, "less")):
        found = []
        for labels in split.reference:
            other = Split(labels, *(getattr(split, name) for name in list(split.__dataclass_fields__)[1:]))
            found.append(other.randomisation_test(y + effect * labels, alternative=alternative).p_value <= 0.1)
        assert split.power(effect, y, alpha=0.1, alternative=alternative) == pytest.approx(np.mean(found))
    assert split.power(20.0, y, alpha=0.1) == 1.0
    assert split.power(0.0, y, alpha=0.1) <= 0.1


def test_several_groups_are_tested_together(rng):
    split = balanced_split(rng.standard_normal((12, 2)), [4, 4, 4], n_draws=60, random_state=0)
    y = rng.standard_normal(12) + 3.0 * (np.asarray(split.labels) == 2)

    def between(y, labels):
        return sum((labels == g).sum() * (y[labels == g].mean() - y.mean()) ** 2 for g in range(3))

    test, same = split.randomisation_test(y, "between groups"), split.randomisation_test(y, between, "greater")
    assert test.p_value == same.p_value
    np.testing.assert_allclose(test.null, same.null)
    assert test.interval is None and "interval" not in repr(test)
    with pytest.raises(ValueError, match="Power needs two groups, but there are 3; it is that of the mean difference"):
        split.power(1.0, y)


def test_missing_outcomes_are_left_out_of_every_split(rng):
    split = balanced_split(rng.standard_normal((20, 2)), 10, n_draws=60, random_state=0)
    y = rng.standard_normal(20)
    y[[3, 11, 12]] = np.nan
    with pytest.raises(ValueError, match="outcome contains nan at 3"):
        split.randomisation_test(y)
    test, known = split.randomisation_test(y, missing="drop-units"), ~np.isnan(y)
    values = np.array([y[known & (row == 1)].mean() - y[known & (row == 0)].mean() for row in split.reference])
    np.testing.assert_allclose(test.null, values)
    assert test.p_value == pytest.approx(np.mean(np.abs(values) >= abs(test.statistic) - 1e-12))
    y[np.flatnonzero(split.labels)[:9]] = np.nan
    y[:12] = np.nan
    with pytest.raises(ValueError, match="under some draws none of them is in group"):
        split.randomisation_test(y, missing="drop-units")


def test_differences_of_many_outcomes_at_once(rng):
    reference, Y = every_split(6, [3, 3]), rng.standard_normal((6, 4))
    for k in range(4):
        np.testing.assert_allclose(mean_differences(reference, Y)[:, k], mean_differences(reference, Y[:, k]))


# Files.


@unsurprising
@pytest.mark.parametrize("names", [None, ["control", "treated"]])
@pytest.mark.parametrize("treated", [6, 5])
def test_a_split_comes_back_from_its_file(rng, tmp_path, names, treated):
    index = pandas.Index([101 + k for k in range(12)] if names else [f"P{k}" for k in range(12)], name="patient")
    table = pandas.DataFrame({"age": rng.normal(50, 9, 12)}, index=index)
    split = balanced_split(table, treated, n_draws=20, group_names=names)
    path = split.save(tmp_path / "draws.csv")
    text = pandas.read_csv(path)
    assert (text["seed"] == split.seed).all()
    assert (
        sum(name.startswith("draw ") for name in text.columns) == len(split.reference) == (40 if treated == 6 else 20)
    )
    back = Split.load(path)
    pandas.testing.assert_series_equal(back.labels, split.labels, check_dtype=False)
    assert np.array_equal(back.reference, split.reference) and back.mirrored is split.mirrored
    assert (back.seed, back.groups, back.group_sizes) == (split.seed, split.groups, split.group_sizes)
    y = pandas.Series(rng.standard_normal(12), index=index)
    assert back.randomisation_test(y[::-1]).interval == split.randomisation_test(y).interval
    assert "largest difference" not in repr(back)
    with pytest.raises(ValueError, match="has no covariates"):
        back.balance  # noqa: B018


def test_an_array_comes_back_from_its_file(rng, tmp_path):
    split = balanced_split(rng.standard_normal((12, 2)), [4, 4, 4], n_draws=9, random_state=3)
    back = Split.load(split.save(tmp_path / "draws.csv"))
    assert np.array_equal(back.codes, split.labels) and back.seed == 3
    assert back.labels.index.tolist() == list(range(1, 13))


NAMES = ["NA", "NULL", "None", "nan", "n/a", "-", " x", "x ", "x", "007", "7", "=1+2"]


@unsurprising
def test_names_come_back_as_they_stand(rng, tmp_path):
    table = pandas.DataFrame({"age": rng.standard_normal(12)}, index=pandas.Index(NAMES, name="name"))
    split = balanced_split(table, 6, n_draws=20, group_names=["None", "NA"], random_state=0)
    again = Split.load(split.save(tmp_path / "draws.csv"))
    assert list(again.index) == NAMES and again.index.name == "name"
    assert again.labels.to_dict() == split.labels.to_dict()
    assert again.groups == ("None", "NA")


@unsurprising
@pytest.mark.parametrize("names", [["00000", "00001", "00002", "00003"], [1001, 1002, 1003, 2**62]])
def test_numbers_that_name_units_come_back(rng, tmp_path, names):
    table = pandas.DataFrame({"age": rng.standard_normal(4)}, index=pandas.Index(names, name="patient"))
    split = balanced_split(table, 2, n_draws=3, random_state=0)
    assert list(Split.load(split.save(tmp_path / "draws.csv")).index) == names


@unsurprising
def test_units_called_like_a_column_of_draws_are_refused(rng):
    for name in ("group", "seed", "draw 1"):
        table = pandas.DataFrame({"age": rng.standard_normal(4)}, index=pandas.Index(list("abcd"), name=name))
        with pytest.raises(
            ValueError, match=f"names of the units is called '{name}', like a column of the file of draws"
        ):
            balanced_split(table, 2, n_draws=2, random_state=0).to_csv()


def test_a_column_of_names_among_covariates_is_warned_of(rng):
    table = pandas.DataFrame({"patient": range(1001, 1021), "age": rng.standard_normal(20)})
    with pytest.warns(UserWarning, match="Column 'patient' of covariates looks like the names of the units"):
        balanced_split(table, 10, work=2, random_state=0)
    balanced_split(table.set_index("patient"), 10, work=2, random_state=0)
    balanced_split(table, 10, weights={"patient": 1.0}, work=2, random_state=0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text.replace("draw ", "d "), "has no columns group and draw 1"),
        (lambda text: "\n".join([text.split("\n")[0], *(f"{k},{k % 2}" + ",0" * 8 + "," for k in range(1, 5))]), "none of its draws"),
        (lambda text: "row,group,draw 1,draw 2,seed\n1,0,0,1,5\n1,1,1,0,5\n", "has unit 1 more than once"),
        (lambda text: "row,group,draw 1,draw 2,seed\n1,0,0,1,5\n2,1,2,0,5\n", "is 2; groups are numbered from 0 to 1"),
    ],
)  # fmt: skip
def test_altered_files_are_refused(rng, tmp_path, change, sentence):
    path = tmp_path / "draws.csv"
    split = balanced_split(rng.standard_normal((scaled(8, 8), 2)), 4, n_draws=4, random_state=1)
    path.write_text(change(split.to_csv()))
    with pytest.raises(ValueError, match=sentence):
        Split.load(path)


# Peers of the benchmark.


@pytest.fixture(scope="module")
def peers():
    path = Path(__file__).parent.parent / "benchmarks" / "estimators_split.py"
    return runpy.run_path(str(path))


@pytest.mark.parametrize("criterion", ["k-means", "k-plus", "diversity"])
def test_anticlustering_ends_where_no_exchange_helps(rng, peers, criterion):
    X = rng.standard_normal((12, 2))
    labels = peers["anticlustered"](X, 5, criterion, seed=0, repetitions=2)
    assert labels.sum() == 5
    Z = peers["standardised"](X, squares=criterion == "k-plus")
    distances = np.linalg.norm(Z[:, None] - Z[None, :], axis=2)
    loss = peers["_loss"](Z, distances, labels, criterion)
    # The criteria as published, up to a constant.
    if criterion == "diversity":
        pairs = itertools.combinations(range(12), 2)
        assert -loss == pytest.approx(sum(distances[i, j] for i, j in pairs if labels[i] == labels[j]))
    else:
        inside = sum(((Z[labels == g] - Z[labels == g].mean(axis=0)) ** 2).sum() for g in (0, 1))
        assert inside + loss == pytest.approx((Z**2).sum())
    for i in range(12):
        others = np.flatnonzero(labels != labels[i])
        changes = peers["_changes"](Z, distances, labels, i, others, criterion)
        for j, change in zip(others, changes, strict=True):
            moved = labels.copy()
            moved[[i, j]] = moved[[j, i]]
            assert change == pytest.approx(peers["_loss"](Z, distances, moved, criterion) - loss, abs=1e-9)
            assert change >= -1e-8


def test_the_gram_schmidt_walk_is_fair_and_balances(rng, peers):
    X = rng.standard_normal((40, 3))
    walks = np.array([peers["gram_schmidt_walk"](X, 0.1, seed) for seed in range(scaled(300, 100))])
    assert set(np.unique(walks)) == {0.0, 1.0}
    assert np.abs(walks.mean(axis=0) - 0.5).max() < 4.5 * 0.5 / math.sqrt(len(walks))
    free = np.array([peers["gram_schmidt_walk"](X, 0.999, seed) for seed in range(100)])

    def spread(rows):
        return np.mean([np.abs((2.0 * row - 1.0) @ X).max() for row in rows])

    assert spread(walks) < 0.6 * spread(free)

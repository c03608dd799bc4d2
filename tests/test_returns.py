from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from counterpoise.tables.portfolios import read_prices
from counterpoise.tables.prices import FrameReturns, to_returns

pandas = pytest.importorskip("pandas")

DAYS = pandas.bdate_range("2024-01-02", periods=12, name="Date")


@pytest.fixture
def prices(rng):
    values = 100.0 * np.exp(0.02 * rng.standard_normal((12, 3))).cumprod(axis=0)
    return pandas.DataFrame(values, index=DAYS, columns=["AAA", "BBB", "CCC"])


@pytest.fixture
def spx(rng):
    return pandas.Series(4000.0 * np.exp(0.01 * rng.standard_normal(12)).cumprod(), index=DAYS, name="SPX")


def test_returns_are_those_of_pandas(prices, spx):
    made = to_returns(prices, spx)
    assert isinstance(made, FrameReturns) and made.notes == []
    pandas.testing.assert_frame_equal(made.returns, prices.pct_change().iloc[1:])
    pandas.testing.assert_series_equal(made.index, spx.pct_change().iloc[1:])


def test_the_index_may_be_a_column_a_frame_or_absent(prices, spx):
    beside = to_returns(prices, spx)
    within = to_returns(prices.assign(SPX=spx), "SPX")
    framed = to_returns(prices, spx.to_frame())
    for made in (within, framed):
        pandas.testing.assert_frame_equal(made.returns, beside.returns)
        pandas.testing.assert_series_equal(made.index, beside.index)
    alone = to_returns(prices)
    pandas.testing.assert_frame_equal(alone.returns, beside.returns)
    assert alone.index is None


@pytest.mark.parametrize("name", [None, "AAA"])
def test_an_index_without_a_name_of_its_own(prices, spx, name):
    made = to_returns(prices, spx.rename(name))
    assert list(made.returns) == ["AAA", "BBB", "CCC"] and made.index.name == name
    np.testing.assert_allclose(made.index, spx.pct_change().iloc[1:])


def test_the_users_tables_are_left_as_they_were(prices, spx):
    before, index = prices.copy(), spx.copy()
    to_returns(prices, spx)
    to_returns(prices, spx.iloc[1:], align="inner")
    pandas.testing.assert_frame_equal(prices, before)
    pandas.testing.assert_series_equal(spx, index)


def test_other_days_are_refused_or_left_out_by_the_rule(prices, spx):
    stocks, index = prices.drop(DAYS[3]), spx.drop(DAYS[[0, 5]])
    with pytest.raises(ValueError) as caught:
        to_returns(stocks, index)
    assert str(caught.value) == (
        "prices and index have different days: 2 that only prices has (the first is 2024-01-02) and 1 that only the "
        'index has (the first is 2024-01-05); align="inner" keeps those of both.'
    )
    made = to_returns(stocks, index, align="inner")
    kept = DAYS.delete([0, 3, 5])
    pandas.testing.assert_frame_equal(made.returns, prices.loc[kept].pct_change().iloc[1:], check_freq=False)
    np.testing.assert_allclose(made.index, spx[kept].pct_change().iloc[1:])
    assert made.notes == [
        "Left out 2 days that only the stocks have: 2024-01-02, 2024-01-09.",
        "Left out 1 day that only the index has: 2024-01-05.",
    ]


@pytest.mark.parametrize(
    ("rule", "columns", "rows", "note"),
    [
        ("drop-stocks", ["AAA", "CCC"], 11, "Left out 1 stock with missing prices: BBB."),
        ("drop-days", ["AAA", "BBB", "CCC"], 9, "Left out 2 days with missing prices."),
        ("carry-forward", ["AAA", "BBB", "CCC"], 11, "Took the last price 2 times where one was missing."),
    ],
)
@pytest.mark.parametrize("with_index", [True, False])
def test_missing_prices_follow_the_rule_and_are_told(prices, spx, rule, columns, rows, note, with_index):
    prices.loc[DAYS[[4, 5]], "BBB"] = np.nan
    index = spx if with_index else None
    with pytest.raises(ValueError, match=r"2 prices are missing, of 1 stock on 2 days, such as BBB on 2024-01-08"):
        to_returns(prices, index)
    made = to_returns(prices, index, rule)
    assert list(made.returns) == columns and len(made.returns) == rows and made.notes == [note]
    assert not with_index or made.index.index.equals(made.returns.index)


def test_a_missing_price_of_the_index_is_not_passed_over(prices, spx):
    spx.iloc[2] = np.nan
    with pytest.raises(ValueError, match=r"1 price of SPX is missing, such as that of 2024-01-04; choose a rule"):
        to_returns(prices, spx)
    made = to_returns(prices, spx, "drop-days")
    assert made.notes == ["Left out 1 day on which SPX has no price."] and len(made.returns) == 10


@pytest.mark.parametrize(
    ("change", "options", "kind", "sentence"),
    [
        (
            lambda p, i: (p.to_numpy(), i),
            {},
            TypeError,
            "prices is of type ndarray; it must be a DataFrame, one row per day",
        ),
        (
            lambda p, i: (p, i.to_numpy()),
            {},
            TypeError,
            "index is of type ndarray; it must be a column's name, or a Series",
        ),
        (lambda p, i: (p, "AAB"), {}, ValueError, "prices has no column AAB; did you mean AAA"),
        (lambda p, i: (p.iloc[::-1], i), {}, ValueError, "The days of prices are not in order: 2024-01-16 comes after"),
        (lambda p, i: (p, i.iloc[::-1]), {}, ValueError, "The days of index are not in order"),
        (lambda p, i: (pandas.concat([p, p[-1:]]), i), {}, ValueError, "prices has more than one row of 2024-01-17"),
        (lambda p, i: (pandas.concat([p, p], axis=1), i), {}, ValueError, "prices has more than one column 'AAA'"),
        (
            lambda p, i: (p.assign(BBB="x"), i),
            {},
            ValueError,
            "Column BBB of prices holds 'x' on 2024-01-02, a str; prices must be numbers",
        ),
        (lambda p, i: (p.assign(BBB=-1.0), i), {}, ValueError, "The price of BBB on 2024-01-02 is -1; prices must be"),
        (
            lambda p, i: (p.assign(BBB=1j), i),
            {},
            ValueError,
            "Column BBB of prices holds complex numbers; prices must be",
        ),
        (lambda p, i: (p, i * 1j), {}, ValueError, "Column SPX of index holds complex numbers"),
        (
            lambda p, i: (p.assign(BBB=[Decimal(1), 1j] * 6), i),
            {},
            ValueError,
            "holds 1j on 2024-01-03, a complex; prices must be numbers",
        ),
        (
            lambda p, i: (p.assign(BBB=["7"] * 12), i),
            {},
            ValueError,
            "Column BBB of prices holds '7' on 2024-01-02, a str",
        ),
        (
            lambda p, i: (p.pct_change().fillna(-0.01), i),
            {},
            ValueError,
            r"is -0.01; prices must be positive and finite; the table looks like returns, which given=.returns. takes\.$",
        ),
        (lambda p, i: (p[["AAA"]], i), {}, ValueError, "There is 1 stock; at least 2 are needed"),
        (lambda p, i: (p, p), {}, ValueError, "index has 3 columns; it must be a Series or have one column"),
        (lambda p, i: (p, i), {"align": "outer"}, ValueError, "align is 'outer'; it must be one of refuse, inner"),
        (lambda p, i: (p, i), {"missing": "zero"}, ValueError, "missing is 'zero'; it must be one of refuse, drop"),
        (
            lambda p, i: (p, i.set_axis(range(12))),
            {"align": "inner"},
            ValueError,
            "share no day: one begins 2024-01-02",
        ),
    ],
)
def test_bad_tables_get_a_sentence(prices, spx, change, options, kind, sentence):
    with pytest.raises(kind, match=sentence):
        to_returns(*change(prices, spx), **options)


def test_a_table_of_returns_is_read_by_its_dates(prices, tmp_path):
    prices.iloc[::-1].to_csv(tmp_path / "p.csv")
    prices.to_parquet(tmp_path / "p.parquet")
    for name in ("p.csv", "p.parquet"):
        found = read_prices(tmp_path / name).frame
        pandas.testing.assert_frame_equal(found, prices, check_freq=False, check_index_type=False, check_names=False)


def test_numbers_of_python_are_numbers(prices, spx):
    exact = prices.assign(
        AAA=[Decimal(str(price)) for price in prices["AAA"]], BBB=pandas.Series(prices["BBB"], dtype=object)
    )
    exact["CCC"] = [Fraction(price) for price in prices["CCC"]]
    assert [str(dtype) for dtype in exact.dtypes] == ["object"] * 3
    pandas.testing.assert_frame_equal(to_returns(exact, spx.astype(object)).returns, to_returns(prices, spx).returns)
    gap = exact.copy()
    gap.iloc[3, 0] = None
    assert to_returns(gap, spx, "drop-days").notes == ["Left out 1 day with missing prices."]

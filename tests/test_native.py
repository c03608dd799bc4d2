"""Tables of Polars and Arrow give what pandas gives, in their own kind."""

import datetime
import sys

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import counterpoise as cp
from counterpoise.tables.native import as_pandas, native_of, to_pandas

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")


def polars():
    return pytest.importorskip("polars", reason="Polars is not installed; pip install polars runs this test")


@pytest.fixture(params=["polars", "pyarrow"])
def library(request):
    return polars() if request.param == "polars" else pa


def table(library, frame):
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    return arrow if library is pa else library.from_arrow(arrow)


def is_of(library, *values):
    return all(native_of(value) == library.__name__ for value in values)


@pytest.fixture
def market(rng):
    """Returns with their days in a column, and those of an index."""
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=k) for k in range(80)]
    returns = 0.01 * rng.standard_normal((80, 5)) + 0.01 * rng.standard_normal((80, 1))
    frame = pd.DataFrame(returns, columns=list("ABCDE"))
    frame.insert(0, "date", days)
    return frame, pd.Series(returns @ [0.4, 0.3, 0.2, 0.1, 0.0], name="SPX")


def dated(frame):
    return frame.assign(date=pd.to_datetime(frame["date"])).set_index("date")


def test_there_and_back(library, market):
    given = table(library, market[0])
    frame, native = to_pandas(given, dated=True)
    assert frame.index.name == "date" and list(frame.columns) == list("ABCDE")
    back = native.table(frame)
    assert back.equals(given) and type(back) is type(given)
    assert as_pandas(given["A"]).tolist() == market[0]["A"].tolist()
    for other in (market[0], np.zeros(3), None, "A", {"a": 1}):
        assert to_pandas(other)[0] is other and to_pandas(other)[1] is None


def test_a_lazy_frame_is_collected(market):
    lazy = table(polars(), market[0]).lazy()
    assert to_pandas(lazy)[0].shape == (80, 6)


def test_trackers(library, market):
    frame, index = market
    returns = table(library, frame)
    tracker = cp.IndexTracker(3, random_state=0).fit(returns, table(library, index.to_frame())["SPX"])
    plain = cp.IndexTracker(3, random_state=0).fit(dated(frame), index.to_numpy())
    assert is_of(library, tracker.weights_)
    weights = as_pandas(tracker.weights_)
    assert weights["name"].tolist() == list("ABCDE") and weights["weight"].tolist() == plain.weights_.tolist()
    assert tracker.feature_names_in_.tolist() == list("ABCDE")
    assert tracker.support_.tolist() == plain.support_.tolist()
    np.testing.assert_array_equal(tracker.predict(returns), plain.predict(dated(frame)))
    dates_too = table(library, pd.DataFrame({"date": frame["date"], "SPX": index}))
    assert tracker.score(returns, dates_too) == plain.score(dated(frame), index.to_numpy())
    assert tracker.tracking_error(returns, dates_too) == pytest.approx(plain.tracking_error_)
    # What was found goes into the next fit.
    again = cp.IndexTracker(3, previous_weights=tracker.weights_, transaction_cost=0.01, random_state=0)
    assert again.fit(returns, dates_too).turnover_ == pytest.approx(0.0, abs=1e-6)
    path = tracker.path(returns, dates_too, [1, 2])
    assert is_of(library, path.weights) and path.table["held"].tolist() == [1, 2]
    late = table(library, pd.DataFrame({"date": frame["date"] + datetime.timedelta(days=1), "SPX": index}))
    with pytest.raises(ValueError, match="index lacks 2024-01-01, which returns has"):
        tracker.fit(returns, late)


def test_holdings_of_a_tracker_of_a_native_table(library, market):
    from counterpoise.findings import holdings_table

    frame, index = market
    tracker = cp.IndexTracker(3, random_state=0).fit(table(library, frame), index.to_numpy())
    assert sorted(row[0] for row in holdings_table(tracker).rows) == sorted(tracker.support_)


def test_backtests(library, market):
    pytest.importorskip("matplotlib").use("agg")
    frame, index = market
    spx = table(library, pd.DataFrame({"date": frame["date"], "SPX": index}))
    found = cp.backtest(LinearRegression(), table(library, frame), spx, 40, 20, cost=0.001)
    plain = cp.backtest(LinearRegression(), dated(frame), index.set_axis(dated(frame).index), 40, 20, cost=0.001)
    names = ("portfolio", "gross", "index", "turnover", "costs", "names_held", "in_sample_error", "difference")
    for name in names:
        assert is_of(library, getattr(found, name))
        np.testing.assert_array_equal(as_pandas(getattr(found, name)), getattr(plain, name))
    for name in ("weights", "cumulative", "holdings"):
        assert is_of(library, getattr(found, name))
    assert list(as_pandas(found.rebalances)) == list(plain.rebalances.to_numpy())
    pd.testing.assert_frame_equal(as_pandas(found.weights), plain.weights, check_index_type=False, check_freq=False)
    np.testing.assert_array_equal(as_pandas(found.cumulative), plain.cumulative)
    assert as_pandas(found.holdings)["weight"].tolist() == plain.holdings.tolist()
    assert found.summary(252) == plain.summary(252).to_dict() and repr(found) == repr(plain)
    assert found.plot() is not None


def test_returns(library, market):
    frame, index = market
    prices = frame.assign(**{name: 100.0 * np.cumprod(1.0 + frame[name]) for name in "ABCDE"})
    level = 1000.0 * np.cumprod(1.0 + index)
    plain = cp.to_returns(dated(prices), level.set_axis(dated(prices).index))
    given = table(library, prices)
    as_table = table(library, pd.DataFrame({"date": frame["date"], "SPX": level}))
    for spx in (as_table, as_table["SPX"]):
        found = cp.to_returns(given, spx)
        assert is_of(library, found.returns, found.index)
        np.testing.assert_array_equal(as_pandas(found.returns), plain.returns)
        np.testing.assert_array_equal(as_pandas(found.index), plain.index)
        assert to_pandas(found.returns)[0]["date"].tolist() == list(plain.returns.index)
    inside = cp.to_returns(table(library, prices.assign(SPX=level)), "SPX")
    np.testing.assert_array_equal(as_pandas(inside.index), plain.index)
    assert cp.to_returns(given).index is None


def test_splits(library, rng):
    frame = pd.DataFrame(
        {"age": rng.normal(50, 9, 20), "sex": list("fm") * 10, "site": ["a", "b", "b", "a"] * 5, "twin": [1.0, 1.0] + [np.nan] * 18}
    )  # fmt: skip
    options = {"strata": "site", "n_draws": 20, "random_state": 0, "group_names": ["control", "treated"]}
    linked = table(library, frame)
    frame = frame.drop(columns="twin")
    given = table(library, frame)
    split, plain = cp.balanced_split(given, 10, **options), cp.balanced_split(frame, 10, **options)
    assert is_of(library, split.labels, split.balance)
    assert as_pandas(split.labels).tolist() == plain.labels.tolist()
    assert to_pandas(split.balance)[0]["difference"].tolist() == plain.balance["difference"].tolist()
    y = rng.standard_normal(20)
    outcome = table(library, pd.DataFrame({"y": y}))["y"]
    assert split.randomisation_test(outcome).p_value == plain.randomisation_test(y).p_value
    aside = cp.balanced_split(frame[["age", "sex"]], 10, strata=given["site"], random_state=0)
    assert np.array_equal(
        aside.labels, cp.balanced_split(frame[["age", "sex"]], 10, strata=frame["site"], random_state=0).labels
    )
    pair = cp.balanced_split(linked, 10, together="twin", random_state=0)
    assert pair.codes[0] == pair.codes[1]
    assert split.plot() is not None


def test_regressors_and_components(library, rng):
    X = pd.DataFrame(rng.standard_normal((30, 4)), columns=list("abcd"))
    y = X @ [0.5, 0.5, 0.0, 0.0]
    given, target = table(library, X), table(library, y.to_frame("y"))["y"]
    for model in (cp.SimplexRegression(random_state=0), cp.BinaryLeastSquares(work=2, random_state=0)):
        plain = type(model)(**model.get_params()).fit(X, y)
        model.fit(given, target)
        assert model.feature_names_in_.tolist() == list("abcd")
        np.testing.assert_array_equal(model.coef_, plain.coef_)
        np.testing.assert_allclose(model.predict(given), plain.predict(X), rtol=1e-12)
    pca = cp.SparsePCA(2, n_nonzero=2, random_state=0).fit(given)
    plain = cp.SparsePCA(2, n_nonzero=2, random_state=0).fit(X)
    np.testing.assert_allclose(pca.components_, plain.components_, atol=1e-12)
    assert pca.feature_names_in_.tolist() == list("abcd")
    if library is not pa:
        assert is_of(library, pca.set_output(transform="polars").transform(given))


def test_without_pandas_the_package_is_named(library, market, monkeypatch):
    given = table(library, market[0])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        ImportError, match=r"^Tables of Polars and Arrow need pandas: install it with pip install pandas\.$"
    ):
        cp.balanced_split(given, 10)

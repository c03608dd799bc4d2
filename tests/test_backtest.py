"""Backtests against a recomputation by hand, with stand-in trackers that fit at once."""

import contextlib
import signal
import threading
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit

import counterpoise as cp
from counterpoise import Status
from counterpoise.backtest import Backtest, backtest

pandas = pytest.importorskip("pandas")

ROWS, NAMES = 100, 6
DAYS = pandas.bdate_range("2020-01-01", periods=ROWS, name="Date")


class First(BaseEstimator):
    """Equal weights on the k names that did best on the window, so that they change from window to window."""

    def __init__(self, k=2):
        self.k = k

    def fit(self, returns, index):
        assert len(returns) == len(index)
        weights = np.zeros(returns.shape[1])
        weights[np.argsort(-np.asarray(returns).sum(axis=0), kind="stable")[: self.k]] = 1.0 / self.k
        self.weights_ = weights if isinstance(returns, np.ndarray) else pandas.Series(weights, index=returns.columns)
        return self


class Lazy(First):
    """Goes half of the way from what is held."""

    def __init__(self, k=2, previous_weights=None):
        super().__init__(k)
        self.previous_weights = previous_weights

    def fit(self, returns, index):
        super().fit(returns, index)
        if self.previous_weights is not None and not isinstance(self.previous_weights, dict):
            self.weights_ = 0.5 * self.weights_ + 0.5 * self.previous_weights
        return self


@pytest.fixture
def market():
    rng = np.random.default_rng(5)
    returns = 0.01 * rng.standard_normal((ROWS, 1)) + 0.02 * rng.standard_normal((ROWS, NAMES))
    index = returns @ rng.dirichlet(np.ones(NAMES))
    frame = pandas.DataFrame(returns, index=DAYS, columns=list("ABCDEF"))
    return frame, pandas.Series(index, index=DAYS, name="SPX")


def by_hand(market, window, step, cost, lazy=False):
    """Follow the money, name by name and day by day."""
    frame, _ = market
    money, net, held, turnovers = 1.0, [], pandas.Series(0.0, frame.columns), []
    for start in range(window, len(frame), step):
        best = frame.iloc[start - window : start].sum().nlargest(2).index
        target = pandas.Series(0.5, best).reindex(frame.columns, fill_value=0.0)
        if lazy and start > window:
            target = 0.5 * target + 0.5 * held / held.sum()
        turnovers.append((target - (held / held.sum() if held.any() else held)).abs().sum())
        held = target * money * (1.0 - cost * turnovers[-1])
        for day in frame.index[start : start + step]:
            held = held * (1.0 + frame.loc[day])
            net.append(held.sum() / money - 1.0)
            money = held.sum()
    return np.array(net), np.array(turnovers), (held / money).to_numpy()


@pytest.mark.parametrize("step", [1, 7, 20, 60, 200])
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("cost", [0.0, 0.01])
def test_the_numbers_are_those_of_a_recomputation(market, step, lazy, cost):
    found = backtest(Lazy() if lazy else First(), *market, 40, step, cost=cost)
    net, turnovers, last = by_hand(market, 40, step, cost, lazy)
    np.testing.assert_allclose(found.portfolio, net, atol=1e-13)
    np.testing.assert_allclose(found.turnover, turnovers, atol=1e-13)
    np.testing.assert_allclose(found.costs, cost * turnovers, atol=1e-15)
    np.testing.assert_allclose(found.holdings, last, atol=1e-13)
    np.testing.assert_allclose(found.cumulative["portfolio"], np.cumprod(1.0 + net), rtol=1e-12)
    np.testing.assert_allclose(found.tracking_error, np.sqrt(np.mean((net - market[1].to_numpy()[40:]) ** 2)))
    if cost:
        free = backtest(First(), *market, 40, step)
        if not lazy:
            np.testing.assert_allclose(found.gross, free.portfolio, atol=1e-15)
        assert (np.asarray(found.gross) >= found.portfolio - 1e-15).all()
    else:
        np.testing.assert_array_equal(found.gross, found.portfolio)


def test_series_and_frames_carry_the_users_labels(market):
    frame, index = market
    found = backtest(First(), frame, index, window=40, step=15, cost=0.001)
    assert isinstance(found, Backtest) and found.complete
    assert found.portfolio.index.equals(DAYS[40:]) and found.portfolio.name == "portfolio"
    assert found.rebalances.equals(DAYS[[40, 55, 70, 85]])
    assert list(found.weights) == list(frame) and found.weights.index.equals(found.rebalances)
    assert (found.names_held == 2).all() and found.names_held.index.equals(found.rebalances)
    assert found.turnover.iloc[0] == pytest.approx(1.0)
    assert list(found.holdings.index) == list(frame) and found.holdings.sum() == pytest.approx(1.0)
    assert list(found.cumulative) == ["portfolio", "index"]
    pandas.testing.assert_series_equal(found.difference, found.portfolio - index.iloc[40:], check_names=False)
    assert len(found.trackers) == 4 and found.trackers[1] is not found.trackers[0]
    np.testing.assert_allclose(found.trackers[2].weights_, found.weights.iloc[2])
    fitted = frame.iloc[15:55].to_numpy() @ found.weights.iloc[1].to_numpy() - index.iloc[15:55].to_numpy()
    assert found.in_sample_error.iloc[1] == pytest.approx(np.sqrt(np.mean(fitted**2)))
    assert repr(found).startswith("Backtest(60 rows, 4 rebalances: tracking error 0.0")


def test_arrays_give_arrays_and_the_same_numbers(market):
    frame, index = market
    named = backtest(First(), frame, index, 40, 15, cost=0.002)
    plain = backtest(First(), frame.to_numpy(), index.to_numpy(), 40, 15, cost=0.002)
    for field in (
        "portfolio",
        "gross",
        "index",
        "weights",
        "turnover",
        "costs",
        "names_held",
        "holdings",
        "cumulative",
    ):
        assert isinstance(getattr(plain, field), np.ndarray)
        np.testing.assert_array_equal(getattr(plain, field), getattr(named, field))
    assert plain.rebalances.tolist() == [40, 55, 70, 85]
    summary = plain.summary()
    assert isinstance(summary, dict)
    assert summary == pytest.approx(named.summary().drop("tracking_error_annual").to_dict())
    mixed = backtest(First(), frame.to_numpy(), index.to_frame(), 40, 15, cost=0.002)
    np.testing.assert_array_equal(mixed.portfolio, plain.portfolio)


def test_the_summary_is_a_factsheet(market):
    found = backtest(First(), *market, 40, 15, cost=0.002)
    sheet = found.summary(periods=252)
    assert sheet["rows"] == 60 and sheet["rebalances"] == 4 and sheet["names_held"] == 2.0
    assert sheet["tracking_error_annual"] == pytest.approx(np.sqrt(252) * found.tracking_error)
    assert sheet["correlation"] == pytest.approx(np.corrcoef(found.portfolio, found.index)[0, 1])
    assert sheet["total_return"] == pytest.approx((1.0 + found.portfolio).prod() - 1.0)
    assert sheet["turnover"] == pytest.approx(found.turnover.iloc[1:].mean())
    assert sheet["total_cost"] == pytest.approx(0.002 * found.turnover.sum())
    assert sheet["largest_difference"] == found.difference.abs().max()
    once = backtest(First(), *market, 40, 60).summary()
    assert np.isnan(once["turnover"]) and once["tracking_error_annual"] == once["tracking_error"] * np.sqrt(252)
    with pytest.raises(ValueError, match=r"periods is 0; it must be positive\."):
        found.annual_tracking_error(0)


def test_weights_drift_with_the_returns():
    returns = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])

    class Half(First):
        def fit(self, returns, index):
            self.weights_ = np.array([0.5, 0.5])
            return self

    found = backtest(Half(), returns, returns.mean(axis=1), 1, 2, cost=0.1)
    # 0.5, 0.5 → 1, 0.5 (+50 %) → 1, 1 (+33 %): equal again, so that the rebalance is free.
    np.testing.assert_allclose(found.gross, [0.5, 1.0 / 3.0, 0.0])
    np.testing.assert_allclose(found.turnover, [1.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(found.portfolio, [0.9 * 1.5 - 1.0, 1.0 / 3.0, 0.0], atol=1e-15)


def test_an_index_held_in_full_is_tracked_exactly_between_rebalances(market):
    frame, _ = market
    growth = (1.0 + frame.iloc[40:]).cumprod()
    value = growth.mean(axis=1)
    index = (value / value.shift(1, fill_value=1.0) - 1.0).reindex(frame.index, fill_value=0.0)
    found = backtest(First(k=NAMES), frame, index, 40, 60)
    assert found.tracking_error < 1e-15


def test_weights_that_leave_cash_and_coefficients(market):
    class Quarter(BaseEstimator):
        def fit(self, returns, index):
            self.coef_ = np.full((1, NAMES), 0.25 / NAMES)

    frame, index = market
    found = backtest(Quarter(), frame, index, 40, 60)
    value = 0.75 + 0.25 * (1.0 + frame.iloc[40:]).cumprod().mean(axis=1)
    np.testing.assert_allclose(found.cumulative["portfolio"], value)
    assert found.holdings.sum() == pytest.approx(1.0 - 0.75 / value.iloc[-1])
    regression = backtest(LinearRegression(), frame, index, 40)
    assert regression.tracking_error < 1e-3 and len(regression.rebalances) == 6


def test_weights_by_name_may_leave_names_out(market):
    class Named(First):
        def fit(self, returns, index):
            self.weights_ = {"C": 0.25, "B": 0.75}
            return self

    found = backtest(Named(), *market, 40, 60)
    assert found.weights.iloc[0].tolist() == [0.0, 0.75, 0.25, 0.0, 0.0, 0.0]


def test_previous_weights_are_handed_over_drifted(market):
    frame, index = market
    found = backtest(Lazy(), frame, index, 40, 20)
    first, second, third = found.trackers
    assert first.previous_weights is None
    growth = (1.0 + frame.iloc[40:60]).prod() * found.weights.iloc[0]
    pandas.testing.assert_series_equal(second.previous_weights, growth / growth.sum(), check_names=False)
    assert isinstance(third.previous_weights, pandas.Series)
    plain = backtest(Lazy(), frame.to_numpy(), index.to_numpy(), 40, 20)
    assert isinstance(plain.trackers[1].previous_weights, np.ndarray)
    np.testing.assert_allclose(plain.portfolio, found.portfolio)
    alone = backtest(Lazy(), frame, index, 40, 20, hand_over=False)
    assert all(tracker.previous_weights is None for tracker in alone.trackers)
    np.testing.assert_array_equal(alone.weights, backtest(First(), frame, index, 40, 20).weights)


def test_what_is_held_before_counts_for_the_first_turnover(market):
    tracker = Lazy(previous_weights={"A": 0.5, "Gone": 0.5})
    found = backtest(tracker, *market, 40, 20, cost=0.01)
    first = found.weights.iloc[0]
    assert found.turnover.iloc[0] == pytest.approx(
        (first - pandas.Series({"A": 0.5}).reindex(first.index, fill_value=0)).abs().sum() + 0.5
    )
    assert tracker.previous_weights == {"A": 0.5, "Gone": 0.5}
    assert found.trackers[0].previous_weights == tracker.previous_weights


def test_the_tracker_is_not_changed(market):
    tracker = Lazy()
    backtest(tracker, *market, 40, 20)
    assert tracker.previous_weights is None and not hasattr(tracker, "weights_")


@pytest.mark.parametrize("n_jobs", [2, -1])
@pytest.mark.parametrize("tracker", [First(), Lazy()])
def test_serial_and_parallel_are_the_same(market, tracker, n_jobs):
    one, many = (backtest(tracker, *market, 30, 5, cost=0.01, n_jobs=jobs) for jobs in (None, n_jobs))
    for field in ("portfolio", "gross", "turnover", "holdings"):
        pandas.testing.assert_series_equal(getattr(one, field), getattr(many, field), check_exact=True)
    pandas.testing.assert_frame_equal(one.weights, many.weights, check_exact=True)


def test_expanding_windows_see_all_rows_so_far(market):
    seen = []

    class Seeing(First):
        def fit(self, returns, index):
            seen.append((returns.index[0], len(returns)))
            return super().fit(returns, index)

    backtest(Seeing(), *market, 40, 30, expanding=True)
    assert seen == [(DAYS[0], 40), (DAYS[0], 70)]
    seen.clear()
    backtest(Seeing(), *market, 40, 30)
    assert seen == [(DAYS[0], 40), (DAYS[30], 40)]


def test_no_fit_sees_what_comes_after_it(market):
    frame, index = market
    changed = frame.copy()
    changed.iloc[70:] = -0.5 * changed.iloc[70:]
    before, after = (backtest(First(), part, index, 40, 10) for part in (frame, changed))
    np.testing.assert_array_equal(before.portfolio[:30], after.portfolio[:30])
    np.testing.assert_array_equal(before.weights[:4], after.weights[:4])


def test_a_splitter_in_place_of_window_and_step(market):
    splitter = TimeSeriesSplit(n_splits=3, max_train_size=40, test_size=20)
    split = backtest(First(), *market, splitter=splitter, cost=0.01)
    rolling = backtest(First(), *market, 40, 20, cost=0.01)
    pandas.testing.assert_series_equal(split.portfolio, rolling.portfolio)
    pairs = ((range(start - 40, start), range(start, start + 20)) for start in (40, 60, 80))
    pandas.testing.assert_series_equal(
        backtest(First(), *market, splitter=pairs, cost=0.01).portfolio, rolling.portfolio
    )
    purged = backtest(First(), *market, splitter=TimeSeriesSplit(n_splits=3, gap=5))
    assert len(purged.rebalances) == 3


@pytest.mark.parametrize(
    ("splitter", "kind", "sentence"),
    [
        (KFold(3), ValueError, r"Split 0 fits on row 99 and holds from row 0: a fit must not see what comes after it"),
        ([([0, 1], [2, 3]), ([0, 1], [5, 6])], ValueError, r"split 1 has row 5 where row 4 follows"),
        ([([0, 1], [2, 4])], ValueError, r"split 0 has row 4 where row 3 follows"),
        ([([1, 0], [2, 3])], ValueError, r"train set of split 0 are not in order"),
        ([([0, 1], [99, 100])], ValueError, r"test set of split 0 has row 100; rows are 0 to 99"),
        ([([-1, 1], [2])], ValueError, r"train set of split 0 has row -1"),
        ([([0, 1], [])], ValueError, r"test set of split 0 is empty or no list of row numbers"),
        ([([0.5, 1], [2])], ValueError, r"train set of split 0 is empty or no list of row numbers"),
        ([([0, 1],)], ValueError, r"Split 0 of the splitter is no pair"),
        ([], ValueError, r"The splitter gives no splits"),
        (7, TypeError, r"splitter is of type int; it must have the method split"),
    ],
)
def test_a_splitter_must_go_forward(market, splitter, kind, sentence):
    with pytest.raises(kind, match=sentence):
        backtest(First(), *market, splitter=splitter)


# Interrupts and progress


def test_progress_is_called_after_each_window_and_may_stop(market):
    calls = []
    backtest(First(), *market, 40, 20, callback=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 3), (2, 3), (3, 3)]
    for n_jobs in (None, 2):
        found = backtest(First(), *market, 40, 20, callback=lambda done, total: done == 2, n_jobs=n_jobs)
        assert not found.complete and len(found.rebalances) == 2 and len(found.portfolio) == 40
        assert "ended early" in repr(found)
    assert backtest(First(), *market, 40, 20, callback=lambda done, total: True).portfolio.index[-1] == DAYS[59]
    assert backtest(First(), *market, 40, 60, callback=lambda done, total: True).complete


class Stopped(First):
    """Is interrupted in the third window, or returns its best so far as a solver does."""

    def __init__(self, k=2, at=80, quietly=False):
        super().__init__(k)
        self.at, self.quietly = at, quietly

    def fit(self, returns, index):
        if returns.index[-1] == DAYS[self.at - 1]:
            if not self.quietly:
                raise KeyboardInterrupt
            self.result_ = type("Result", (), {"status": Status.INTERRUPTED})()
        return super().fit(returns, index)


@pytest.mark.parametrize("quietly", [False, True])
def test_an_interrupt_returns_the_finished_windows(market, quietly):
    whole = backtest(First(), *market, 40, 20, cost=0.01)
    with pytest.warns(UserWarning, match=r"interrupted after 2 of 3 windows; these are returned"):
        part = backtest(Stopped(quietly=quietly), *market, 40, 20, cost=0.01)
    assert not part.complete
    pandas.testing.assert_series_equal(part.portfolio, whole.portfolio[:40])
    pandas.testing.assert_frame_equal(part.weights, whole.weights[:2])
    with pytest.raises(KeyboardInterrupt):
        backtest(Stopped(at=40, quietly=quietly), *market, 40, 20)


class Pressed(First):
    """Catches Ctrl-C in the second window, says nothing and returns what it has."""

    def fit(self, returns, index):
        if returns.index[-1] == DAYS[59]:
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        return super().fit(returns, index)


def test_an_interrupt_that_a_tracker_swallows_still_counts(market):
    before = signal.getsignal(signal.SIGINT)
    with pytest.warns(UserWarning, match=r"interrupted after 1 of 3 windows"):
        part = backtest(Pressed(), *market, 40, 20)
    assert len(part.portfolio) == 20 and signal.getsignal(signal.SIGINT) is before
    found = []
    thread = threading.Thread(target=lambda: found.append(backtest(First(), *market, 40, 20)))
    thread.start()
    thread.join()
    assert found[0].complete


def test_an_interrupt_in_the_callback_of_parallel_windows(market):
    def press(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match=r"after 2 of 12 windows"):
        part = backtest(First(), *market, 40, 5, callback=press, n_jobs=2)
    assert len(part.rebalances) == 2


def test_an_error_says_which_window_it_was(market):
    class Failing(First):
        def fit(self, returns, index):
            if returns.index[-1] == DAYS[59]:
                raise ArithmeticError("no weights")
            return super().fit(returns, index)

    with pytest.raises(ArithmeticError, match="no weights") as caught:
        backtest(Failing(), *market, 40, 20)
    assert caught.value.__notes__ == [
        f"This was the fit on 40 rows, {DAYS[20].date()} to {DAYS[59].date()}, to be held from the row after."
    ]


# Bad input


def with_gap(frame):
    frame = frame.copy()
    frame.iloc[[3, 5], [1, 2]] = np.nan
    return frame


@pytest.mark.parametrize(
    ("change", "options", "kind", "sentence"),
    [
        (lambda f, i: (f, i), {"window": 100}, ValueError, r"window is 100, but there are 100 rows; it must be at most 99"),
        (lambda f, i: (f, i), {"window": 0}, ValueError, r"window is 0; it must be at least 1\."),
        (lambda f, i: (f, i), {"window": None}, ValueError, r"window is missing; give the number of rows to fit on"),
        (lambda f, i: (f, i), {"window": 10.5}, TypeError, r"window is 10\.5; it must be a whole number"),
        (lambda f, i: (f, i), {"step": 0}, ValueError, r"step is 0; it must be at least 1\."),
        (lambda f, i: (f, i), {"cost": -0.1}, ValueError, r"cost is -0\.1; it must be finite and at least 0\."),
        (lambda f, i: (f, i), {"cost": 1.0}, ValueError, r"turnover 1, which at 1 per unit costs at least the whole"),
        (lambda f, i: (f, i), {"splitter": KFold(2)}, ValueError, r"give one or the other"),
        (lambda f, i: (f, i), {"hand_over": True}, ValueError, r"First has no parameter previous_weights"),
        (lambda f, i: (f[:1], i[:1]), {}, ValueError, r"There are 1 rows; a backtest needs at least two"),
        (lambda f, i: (f, i[:-2]), {}, ValueError, r"^index lacks 2020-05-18, 2020-05-19, which returns has: give both on the same dates\.$"),
        (lambda f, i: (f[:-1], i.drop(DAYS[4])), {}, ValueError, r"^index lacks 2020-01-07, which returns has; returns lacks 2020-05-19, which index has: give both"),
        (lambda f, i: (f.to_numpy(), i.to_numpy()[1:]), {}, ValueError, r"index has 99 rows and returns has 100"),
        (lambda f, i: (with_gap(f), i), {}, ValueError, r"returns is not finite at row 2020-01-06, column B, row 2020-01-06, column C"),
        (lambda f, i: (with_gap(f).to_numpy(), i), {}, ValueError, r"row 2020-01-06, column 1, .* \(4 such entries\)"),
        (lambda f, i: (f, i.where(i.index != DAYS[2])), {}, ValueError, r"index is not finite at row 2020-01-03 \(1 such"),
        (lambda f, i: (100.0 * f, 100.0 * i), {}, ValueError, r"a loss of more than everything; give fractions, not percent"),
        (lambda f, i: (f[::-1], i[::-1]), {}, ValueError, r"The days of returns are not in order: 2020-05-18 comes after 2020-05-19"),
        (lambda f, i: (pandas.concat([f[:1], f]), i), {}, ValueError, r"returns has more than one row of 2020-01-01"),
        (lambda f, i: (f.rename(columns={"B": "A"}), i), {}, ValueError, r"more than one column 'A'; names must be unique"),
        (lambda f, i: (f.assign(A="x"), i), {}, TypeError, r"returns contains 'x' at \(0, 0\), a str; give real numbers"),
        (lambda f, i: (f.astype(str), i), {}, TypeError, r"returns contains '.*' at \(0, 0\), a str; give real numbers"),
        (lambda f, i: (f.assign(A=1j), i), {}, ValueError, r"Complex data not supported: returns holds complex numbers"),
        (lambda f, i: (f, np.ma.masked_less(i, 0.0)), {}, ValueError, r"index has \d+ masked entries; remove or impute"),
        (lambda f, i: (f, i), {"n_jobs": 0}, ValueError, r"n_jobs is 0; it must be a positive number of workers"),
        (lambda f, i: (f, i), {"n_jobs": "a"}, TypeError, r"n_jobs is 'a'; it must be a whole number of workers"),
        (lambda f, i: (f, i), {"callback": 3}, TypeError, r"callback is 3; it must be a function, or None"),
        (lambda f, i: (f.iloc[:, 0].to_numpy(), i), {}, ValueError, r"returns has 1 dimension\(s\); it must be a table"),
        (lambda f, i: (f[[]], i), {}, ValueError, r"returns has no columns"),
        (lambda f, i: (f, f), {}, ValueError, r"index has 6 columns; it must be a Series or have one column"),
    ],
)  # fmt: skip
def test_bad_input_gets_a_sentence(market, change, options, kind, sentence):
    with pytest.raises(kind, match=sentence):
        backtest(First(), *change(*market), **{"window": 40, **options})


def test_nullable_numbers_are_numbers(market):
    frame, index = market
    found = backtest(First(), frame.convert_dtypes(), index.convert_dtypes(), 40, 20)
    np.testing.assert_array_equal(found.portfolio, backtest(First(), frame, index, 40, 20).portfolio)
    found = backtest(First(), frame.map(Fraction), index.map(Decimal), 40, 20)
    np.testing.assert_array_equal(found.portfolio, backtest(First(), frame, index, 40, 20).portfolio)


def test_prices_in_place_of_returns_are_told(market):
    frame, index = market
    for returns, follows, who in (
        (10.0 * (1.0 + frame).cumprod(), index, r"A, B, C, D, E and 1 more of returns look"),
        (frame, 100.0 * (1.0 + index).cumprod(), r"the index looks"),
    ):
        with pytest.warns(UserWarning, match=who + r" like prices.*counterpoise\.to_returns") as caught:
            backtest(First(), returns, follows, 40)
        assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("attributes", "kind", "sentence"),
    [
        ({}, TypeError, "Odd has neither weights_ nor coef_ after fit"),
        ({"weights_": None}, TypeError, "weights_ of Odd is None; it must hold one weight a name"),
        ({"weights_": np.ones(3)}, ValueError, "weights_ of Odd are 3 numbers for 6 names"),
        ({"weights_": {"Z": 1.0}}, ValueError, "weights_ of Odd name Z, of which there are no returns; there are A, B"),
        ({"coef_": [np.nan] * 6}, ValueError, "coef_ of Odd are nan for A; all must be finite"),
        ({"coef_": [-80.0] * 6}, ValueError, "The portfolio has lost its whole value by row 2020-"),
    ],
)
def test_a_tracker_must_give_weights(market, attributes, kind, sentence):
    class Odd(BaseEstimator):
        def fit(self, returns, index):
            vars(self).update(attributes)

    with pytest.raises(kind, match=sentence):
        backtest(Odd(), *market, 40)


def test_what_is_no_tracker_is_refused(market):
    with pytest.raises(TypeError, match=r"tracker is 3; it must be an estimator with fit\(returns, index\)"):
        backtest(3, *market, 40)
    with pytest.raises(ValueError, match="previous_weights are given by name, but the returns have no names"):
        backtest(Lazy(previous_weights={"A": 1.0}), market[0].to_numpy(), market[1], 40)


# Pictures


@pytest.fixture
def figure():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    return Figure(layout="constrained")


def test_the_picture_has_both_curves_and_their_difference(market, figure):
    found = backtest(First(), *market, 40, 20, cost=0.01)
    ax = found.plot(figure.subplots())
    lower = figure.axes[-1]
    assert len(figure.axes) == 2 and lower.get_shared_x_axes().joined(ax, lower)
    drawn = {line.get_label(): line for line in ax.get_lines()}
    for name in ("portfolio", "index"):
        np.testing.assert_allclose(drawn[name].get_ydata(), [1.0, *found.cumulative[name]])
    assert list(drawn["index"].get_xdata()[:2]) == [DAYS[39].to_datetime64(), DAYS[40].to_datetime64()]
    np.testing.assert_allclose(lower.get_lines()[0].get_ydata(), found.difference)
    assert len([line for line in ax.get_lines() if line.get_label().startswith("_")]) == 3
    figure.canvas.draw()
    assert ax.get_position().y0 > lower.get_position().y1 > ax.get_position().height / 3


def test_a_picture_without_dates_and_in_a_place_of_ones_own(market, figure):
    frame, index = market
    found = backtest(First(), frame.to_numpy(), index.to_numpy(), 40, 20)
    figure.set_layout_engine("none")
    ax = found.plot(figure.add_axes((0.1, 0.1, 0.8, 0.8)))
    marks = [line.get_xdata()[0] for line in ax.get_lines() if line.get_label().startswith("_")]
    assert marks == [0, 20, 40] and figure.axes[-1].get_xlabel() == "row"
    figure.canvas.draw()
    assert figure.axes[-1].get_position().y1 < ax.get_position().y0


def test_in_sample_rows_are_shaded(market, figure):
    from counterpoise.plotting import plot_tracking

    frame, index = market
    portfolio = frame.mean(axis=1)
    ax = plot_tracking(portfolio, index, out_of_sample=str(DAYS[60].date()), ax=figure.subplots())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["index", "portfolio", "in sample"]
    shaded = next(patch for patch in ax.patches if patch.get_label() == "in sample")
    from matplotlib.dates import date2num

    assert shaded.get_x() + shaded.get_width() == pytest.approx(date2num(DAYS[60]))
    other = plot_tracking(portfolio.to_numpy(), index.to_numpy(), out_of_sample=0, ax=figure.add_subplot())
    assert not other.patches
    with pytest.raises(ValueError, match="portfolio is empty"):
        plot_tracking(np.zeros(0), np.zeros(0), ax=other)


def test_a_new_figure_by_default(market):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    ax = backtest(First(), *market, 40, 20).plot()
    assert len(ax.figure.axes) == 2
    pyplot.close(ax.figure)


# skfolio


class Costly(Lazy):
    """Has a cost, so that windows depend on each other; keeps what it was handed."""

    def __init__(self, k=2, previous_weights=None, transaction_cost=0.0):
        super().__init__(k, previous_weights)
        self.transaction_cost = transaction_cost


@pytest.fixture
def adapter():
    pytest.importorskip("skfolio", reason="skfolio is not installed")
    from counterpoise.skfolio import SkfolioTracker

    return SkfolioTracker


def test_a_walk_forward_of_skfolio_is_a_backtest_without_drift(market, adapter):
    from skfolio.model_selection import WalkForward, cross_val_predict

    frame, index = market
    cv = WalkForward(train_size=40, test_size=20)
    found = cross_val_predict(adapter(First()), frame, index, cv=cv)
    ours = backtest(First(), frame, index, 40, 20)
    expected = [
        frame.iloc[start : start + 20].to_numpy() @ w
        for start, w in zip((40, 60, 80), ours.weights.to_numpy(), strict=True)
    ]
    np.testing.assert_allclose(found.returns, np.concatenate(expected))
    drifting = cross_val_predict(
        adapter(First(), portfolio_params={"weight_drift": True}), frame, index.to_frame(), cv=cv
    )
    np.testing.assert_allclose(drifting.returns, ours.gross, atol=1e-15)
    split = backtest(First(), frame, index, splitter=cv)
    np.testing.assert_array_equal(split.portfolio, ours.portfolio)


def test_skfolio_hands_weights_over_where_they_matter(market, adapter):
    from skfolio.model_selection import WalkForward, cross_val_predict

    frame, index = market
    cv = WalkForward(train_size=40, test_size=20)
    assert not adapter(First()).needs_previous_weights and not adapter(Costly()).needs_previous_weights
    assert adapter(Costly(transaction_cost={"A": 0.1})).needs_previous_weights
    assert adapter(First(), transaction_costs=0.1).needs_previous_weights
    tracker = adapter(Costly(transaction_cost=0.1)).fit(frame, index)
    np.testing.assert_allclose(tracker.weights_, First().fit(frame, index).weights_)
    held = {"A": 1.0}
    assert adapter(Costly(), previous_weights=held).fit(frame, index).tracker_.previous_weights == held
    plain = adapter(Costly(), previous_weights=[0.5] * NAMES).fit(frame.to_numpy(), index.to_numpy())
    assert plain.tracker_.previous_weights.tolist() == [0.5] * NAMES
    found = cross_val_predict(adapter(Costly(transaction_cost=0.1)), frame, index, cv=cv)
    assert np.isfinite(found.returns).all() and len(found.returns) == 60


def test_the_adapter_is_an_estimator_of_scikit_learn(market, adapter):
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV

    frame, index = market
    tracker = clone(adapter(First(k=3))).set_params(tracker__k=4)
    assert tracker.fit(frame, index).predict(frame).n_assets == NAMES and tracker.tracker.k == 4
    assert np.count_nonzero(tracker.weights_) == 4 and tracker.feature_names_in_.tolist() == list(frame)
    difference = frame.to_numpy() @ tracker.weights_ - index.to_numpy()
    assert tracker.score(frame, index) == pytest.approx(-np.sqrt(np.mean(difference**2)))
    assert tracker.score(frame) == pytest.approx(tracker.predict(frame).sharpe_ratio)
    search = GridSearchCV(adapter(First()), {"tracker__k": [1, 6]}, cv=TimeSeriesSplit(3)).fit(frame, index)
    assert search.best_params_ == {"tracker__k": 6}
    with pytest.raises(ValueError, match="y is missing; give the returns of the benchmark"):
        tracker.fit(frame)
    with pytest.raises(ValueError, match="y has 6 columns; it must hold the returns of one benchmark"):
        tracker.fit(frame, frame)


def test_without_skfolio_a_sentence(monkeypatch):
    import importlib
    import sys

    monkeypatch.setitem(sys.modules, "skfolio.optimization", None)
    monkeypatch.delitem(sys.modules, "counterpoise.skfolio", raising=False)
    module = importlib.import_module("counterpoise.skfolio")
    with pytest.raises(ImportError, match=r"needs skfolio: install it with pip install skfolio"):
        module.SkfolioTracker(First())
    monkeypatch.delitem(sys.modules, "counterpoise.skfolio")


# The real one


def test_the_index_tracker_itself(market):
    from counterpoise.estimators.tracking import IndexTracker

    frame, index = market
    tracker = IndexTracker(n_assets=3, work=2, random_state=0)
    found = backtest(tracker, frame, index, 60, 20, cost=0.001)
    assert (found.names_held <= 3).all() and np.allclose(found.weights.sum(axis=1), 1.0)
    assert found.in_sample_error.iloc[0] == pytest.approx(found.trackers[0].tracking_error_)
    assert found.turnover.iloc[1] == pytest.approx(found.trackers[1].turnover_)
    still = backtest(IndexTracker(n_assets=3, work=2, random_state=0, transaction_cost=1.0), frame, index, 60, 20)
    assert still.turnover.iloc[1] == pytest.approx(0.0, abs=1e-9) and found.turnover.iloc[1] > 0.0
    alone = [backtest(tracker, frame, index, 60, 10, hand_over=False, n_jobs=jobs) for jobs in (None, 2)]
    pandas.testing.assert_series_equal(alone[0].portfolio, alone[1].portfolio, check_exact=True)


def test_a_search_over_parameters_is_followed_to_its_best_estimator(market):
    returns, index = market
    tracker = cp.IndexTracker(method="bcd-g", transaction_cost=1e-4, random_state=0)
    search = GridSearchCV(tracker, {"n_assets": [1, 2]}, cv=TimeSeriesSplit(2))
    found = backtest(search, returns, index, 40, 20, cost=0.001)
    for k, fitted in enumerate(found.trackers):
        best = fitted.best_estimator_
        np.testing.assert_allclose(found.weights.iloc[k], best.weights_)
        # What is held is handed over, as for a tracker itself.
        assert (best.previous_weights is None) == (k == 0)
    assert search.estimator.previous_weights is None
    alone = backtest(search, returns, index, 40, 20, hand_over=False)
    assert all(fitted.best_estimator_.previous_weights is None for fitted in alone.trackers)


# Names that are listed and delisted, against shares counted day by day.


def listings(seed, rows=130, names=8, share=0.02):
    """Return prices with names that come late, names that end early, short gaps and a suspension."""
    rng = np.random.default_rng(seed)
    steps = 1.0 + 0.01 * rng.standard_normal((rows, 1)) + 0.03 * rng.standard_normal((rows, names))
    days = pandas.bdate_range("2020-01-01", periods=rows)
    prices = pandas.DataFrame(50.0 * steps.cumprod(axis=0), days, [f"S{k}" for k in range(names)])
    index = pandas.Series(prices.mean(axis=1), name="SPX")
    gaps = rng.random(prices.shape) < share
    prices = prices.mask(gaps)
    late, early, away = rng.permutation(names)[:6].reshape(3, 2)
    for k in late:
        start = int(rng.integers(5, 70))
        prices.iloc[:start, k] = np.nan
    for k in early:
        prices.iloc[int(rng.integers(45, 125)) :, k] = np.nan
    for k in away:
        start = int(rng.integers(40, 100))
        prices.iloc[start : start + int(rng.integers(4, 25)), k] = np.nan
    return prices, index


def by_shares(prices, window, step, cost, carry):
    """Buy shares of the two names that did best, day by day; return values, turnovers, weights and holdings."""
    names, table = list(prices), prices.to_numpy()
    last = np.full(table.shape, np.nan)  # the last price, if it is at most `carry` rows old
    for i, j in np.ndindex(table.shape):
        for back in range(min(carry, i) + 1):
            if not np.isnan(table[i - back, j]):
                last[i, j] = table[i - back, j]
                break
    money, net, turnovers, weights = 1.0, [], [], []
    worth, closed = np.zeros(len(names)), np.zeros(len(names))
    for bought in range(window, len(table) - 1, step):
        rows = range(bought - window, bought + 1)
        may = [j for j in range(len(names)) if not np.isnan(table[bought, j]) and not np.isnan(last[rows, j]).any()]
        gains = {j: sum(last[i, j] / last[i - 1, j] - 1.0 for i in rows[1:]) for j in may}
        best = sorted(may, key=lambda j: (-gains[j], j))[:2]
        target = np.zeros(len(names))
        target[best] = 0.5
        turnovers.append(np.abs(target - worth / money).sum() + closed.sum() / money)
        weights.append(target)
        spent = money * (1.0 - cost * turnovers[-1])
        shares = {j: 0.5 * spent / table[bought, j] for j in best}
        cash = spent - 0.5 * spent * len(best)
        closed, worth = np.zeros(len(names)), np.zeros(len(names))
        for day in range(bought + 1, min(bought + step, len(table) - 1) + 1):
            for j in list(shares):
                if np.isnan(last[day, j]):
                    closed[j] = shares.pop(j) * last[day - 1, j]  # sold at the last price
            worth = np.zeros(len(names))
            for j, count in shares.items():
                worth[j] = count * last[day, j]
            net.append((worth.sum() + closed.sum() + cash) / money - 1.0)
            money = worth.sum() + closed.sum() + cash
    return np.array(net), np.array(turnovers), np.array(weights), (worth + closed) / money


@pytest.mark.parametrize("carry", [0, 2, 5])
@pytest.mark.parametrize("step", [1, 7, 30])
@pytest.mark.parametrize("seed", range(6))
def test_names_come_and_go_as_shares_counted_by_hand(seed, step, carry):
    prices, index = listings(seed, share=0.02 if carry else 0.003)
    made = cp.to_returns(prices, index, "carry-forward", carry_days=carry, partial=True)
    assert made.returns.shape == (129, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names in no window
        found = backtest(First(), made.returns, made.index, 30, step, cost=0.01, carry_days=carry)
    net, turnovers, weights, holdings = by_shares(prices, 30, step, 0.01, carry)
    np.testing.assert_array_equal(found.weights, weights)
    np.testing.assert_allclose(found.portfolio, net, atol=1e-12)
    np.testing.assert_allclose(found.turnover, turnovers, atol=1e-12)
    np.testing.assert_allclose(found.costs, 0.01 * turnovers, atol=1e-13)
    np.testing.assert_allclose(found.holdings, holdings, atol=1e-12)
    # The same in arrays.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        plain = backtest(First(), made.returns.to_numpy(), made.index.to_numpy(), 30, step, cost=0.01, carry_days=carry)
    np.testing.assert_array_equal(plain.portfolio, found.portfolio)
    assert [prices.columns[j] for _, j in plain.sold] == [name for _, name in found.sold]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_bought_does_not_depend_on_later_prices_or_delistings(seed):
    prices, index = listings(seed)
    rng = np.random.default_rng(100 + seed)
    cut = int(rng.integers(50, 110))
    other = prices.copy()
    later = other.iloc[cut + 1 :]
    other.iloc[cut + 1 :] = later.where(rng.random(later.shape) < 0.7, later * rng.uniform(0.8, 1.2, later.shape))
    other.iloc[cut + 1 :, rng.permutation(8)[:3]] = np.nan
    back = rng.permutation(8)[:2]
    other.iloc[cut + 1 :, back] = 40.0  # listed again, or never away
    found = []
    for table in (prices, other):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            made = cp.to_returns(table, index, "carry-forward", partial=True)
            found.append(backtest(First(), made.returns, made.index, 30, 6, cost=0.01, carry_days=5))
    one, two = found
    known = one.weights.index <= prices.index[cut + 1]  # bought at prices of the row before, at the latest of `cut`
    assert known.sum() >= 3
    pandas.testing.assert_frame_equal(one.weights[known], two.weights[known])
    pandas.testing.assert_series_equal(one.turnover[known], two.turnover[known])
    until = one.portfolio.index <= prices.index[cut]
    pandas.testing.assert_series_equal(one.portfolio[until], two.portfolio[until])


def test_a_holding_whose_prices_end_is_sold_at_the_last_one(market):
    frame, index = market
    frame = frame.copy()
    frame.loc[DAYS[20:40], "A"] = 0.02  # the best of the first windows
    frame.loc[DAYS[50] :, "A"] = np.nan
    frame["B"] = np.nan  # never listed
    with pytest.warns(UserWarning, match=r"^1 name of 6 takes part in no window, because .*: B\.$"):
        found = backtest(First(), frame, index, 40, 20, cost=0.01)
    assert found.sold == [(DAYS[49], "A")]
    assert found.weights["A"].tolist() == [0.5, 0.0, 0.0]
    other = next(name for name in "CDEF" if found.weights[name].iloc[0] == 0.5)
    ours = 0.5 * (1.0 + frame["A"].iloc[40:50]).prod()
    theirs = 0.5 * (1.0 + frame[other].iloc[40:60]).prod()
    assert (1.0 + found.gross.iloc[:20]).prod() == pytest.approx(ours + theirs, abs=1e-13)
    held = pandas.Series({"A": ours, other: theirs}) / (ours + theirs)
    assert found.turnover.iloc[1] == pytest.approx(found.weights.iloc[1].sub(held, fill_value=0.0).abs().sum())
    short = frame.drop(columns="B")
    short.iloc[:9] = np.nan
    with pytest.raises(ValueError, match=r"^No name has returns on all of the 5 rows from 2020-01-01 to 2020-01-07 "):
        backtest(First(), short, index, 5, 5)


def test_a_tracker_with_rules_by_name_meets_names_that_come_and_go(market):
    frame, index = market
    frame = frame.copy()
    frame.loc[: DAYS[49], "A"] = np.nan
    frame.loc[DAYS[70] :, "B"] = np.nan
    rules = {
        "max_weight": {"A": 0.3, "B": 0.3, "C": 0.5},
        "groups": {"A": "new", "B": "old", "C": "old", "D": "rest", "E": "rest"},
        "group_limits": {"new": (0.0, 0.2), "old": 0.4},
        "include": ["A", "C"],
        "exclude": "B",
        "transaction_cost": pandas.Series(0.001, list("ABCDEF")),
    }
    tracker = cp.IndexTracker(5, random_state=0, **rules)
    found = backtest(tracker, frame, index, 20, 20)
    weights = found.weights
    assert (weights["B"] == 0.0).all() and (weights["C"] > 0.0).all()
    assert (weights["A"].iloc[:2] == 0.0).all() and (weights["A"].iloc[-1] > 0.0) and weights["A"].max() <= 0.2 + 1e-10
    np.testing.assert_allclose(weights["B"] + weights["C"], 0.4, atol=1e-9)
    assert tracker.max_weight == rules["max_weight"]
    limits = np.array([0.3, 0.3, 0.5, 1.0, 1.0, 1.0])
    plain = cp.IndexTracker(5, random_state=0, max_weight=limits, include=[0, 2], exclude=[1])
    by_place = backtest(plain, frame.to_numpy(), index.to_numpy(), 20, 20)
    assert (by_place.weights[:, 1] == 0.0).all() and (by_place.weights[:, 2] > 0.0).all()
    assert by_place.weights[-1, 0] > 0.0 and (by_place.weights <= limits + 1e-10).all()
    with pytest.raises(ValueError, match=r"max_weight: 'AA' is not a column of returns"):
        backtest(cp.IndexTracker(5, max_weight={"AA": 0.1}), frame, index, 20, 20)


def test_gaps_between_returns_need_a_rule(market):
    frame, index = market
    frame = frame.copy()
    frame.loc[DAYS[[30, 31]], "A"] = np.nan
    with pytest.raises(ValueError, match=r"returns is not finite at row 2020-02-12, column A.* if carry_days is given"):
        backtest(First(), frame, index, 40, 20)
    zero = backtest(First(), frame.fillna(0.0), index, 40, 20)
    np.testing.assert_array_equal(backtest(First(), frame, index, 40, 20, carry_days=2).weights, zero.weights)
    with pytest.raises(ValueError, match=r"carry_days is -1; it must be at least 0"):
        backtest(First(), frame, index, 40, 20, carry_days=-1)


@pytest.mark.parametrize("kind", ["Float64", object, "polars"])
def test_other_kinds_of_tables_may_have_names_that_come_and_go(kind):
    prices, index = listings(3)
    made = cp.to_returns(prices, index, "carry-forward", partial=True)
    expected = backtest(First(8), made.returns, made.index, 30, 20, cost=0.01, carry_days=5)
    assert len(expected.sold) == 2
    if kind == "polars":
        polars = pytest.importorskip("polars")
        table = polars.from_pandas(prices.rename_axis("date").reset_index())
        again = cp.to_returns(table, polars.Series("SPX", index.to_numpy()), "carry-forward", partial=True)
        returns, level = again.returns, again.index
        assert returns.drop("date").null_count().sum_horizontal().item() == made.returns.isna().sum().sum()
    else:
        again = cp.to_returns(prices.astype(kind), index, "carry-forward", partial=True)
        pandas.testing.assert_frame_equal(again.returns, made.returns)
        returns, level = made.returns.astype(kind), made.index
    found = backtest(First(8), returns, level, 30, 20, cost=0.01, carry_days=5)
    np.testing.assert_allclose(np.asarray(found.portfolio), expected.portfolio, atol=1e-14)
    assert found.sold == expected.sold


def test_what_is_held_before_is_sold_if_it_takes_no_part(market):
    frame, index = market
    frame = frame.copy()
    frame.loc[DAYS[30] :, "A"] = np.nan
    with pytest.warns(UserWarning, match=r"^1 name of 6 takes part in no window"):
        found = backtest(Lazy(previous_weights={"A": 0.5, "Gone": 0.25}), frame, index, 40, 60, cost=0.01)
    assert found.turnover.tolist() == [1.75] and found.trackers[0].previous_weights == {"Gone": 0.25}
    search = GridSearchCV(
        cp.IndexTracker(3, method="bcd-g", random_state=0, max_weight={"A": 0.3, "B": 0.35}),
        {"n_assets": [3, 4]},
        cv=TimeSeriesSplit(2),
    )
    weights = backtest(search, frame, index, 25, 25).weights
    assert weights["A"].iloc[0] <= 0.3 + 1e-10 and (weights["A"].iloc[1:] == 0.0).all()
    assert (weights["B"] <= 0.35 + 1e-10).all()

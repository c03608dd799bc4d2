"""Backtest trackers: refit on past rows, hold the portfolio, charge costs, and compare with the index."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterpoise import windows
from counterpoise.checks import Vector, callback_function, number, whole_number, worker_count
from counterpoise.estimators.options import warn, warn_of_prices
from counterpoise.findings import rhythm_of
from counterpoise.interrupts import noting_interrupts
from counterpoise.tables.native import Native, is_pandas
from counterpoise.windows import PREVIOUS, Data, Split, previous_key, weights_after

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Smaller weights are rounding, not holdings.
DUST = 1e-8


@dataclasses.dataclass(frozen=True, eq=False)
class Backtest:
    """The result of :func:`backtest`.

    Attributes are Series and DataFrames if the returns were a DataFrame, columns and tables of the same library (with a
    column of dates in tables) if they were a Polars or Arrow table, and arrays otherwise.

    Attributes
    ----------
    portfolio : Series or array
        Out-of-sample returns of the portfolio, net of costs, one for each row after the first window.
    gross : Series or array
        The same before costs.
    index : Series or array
        The returns of the index on these rows.
    weights : DataFrame or array, rebalances × names
        The weights bought at each rebalance.
    turnover : Series or array
        Σ|bought − held before| at each rebalance.
    costs : Series or array
        ``cost`` × turnover, as a share of the portfolio's value at the rebalance.
    names_held : Series or array of int
        The number of non-zero weights after each rebalance.
    in_sample_error : Series or array
        The tracking error on the rows fitted on: root mean square of returns @ weights − index, at constant weights.
    rebalances : Index or array of int
        The first row on which each portfolio earns; it is bought at the prices of the row before.
    holdings : Series or array
        Drifted weights after the last row: pass them to the next fit as its previous weights. Names
        whose prices have ended are included at their last price.
    sold : list of (row label, name or column)
        The last row with a price, and the name, of each holding whose prices ended before the next rebalance.
    trackers : list
        The fitted estimators, one for each rebalance.
    complete : bool
        False if an interrupt or the callback ended the backtest early; all attributes then cover the finished windows.
    in_pandas : Backtest or None
        The same backtest in pandas, if the returns were a table of another library.
    native : Native or None
        The kind of that table.
    """

    portfolio: Any
    gross: Any
    index: Any
    weights: Any
    turnover: Any
    costs: Any
    names_held: Any
    in_sample_error: Any
    rebalances: Any
    holdings: Any
    trackers: list[Any]
    complete: bool
    sold: list[tuple[Any, Any]] = dataclasses.field(default_factory=list)
    in_pandas: Backtest | None = None
    native: Native | None = None

    def __repr__(self) -> str:
        cut, held = "" if self.complete else ", ended early", float(np.mean(np.asarray(self.names_held)))
        return (
            f"Backtest({len(self.portfolio)} rows, {len(self.rebalances)} rebalances{cut}: tracking error "
            f"{self.tracking_error:.3g}, {held:.3g} names, costs {self._total_cost:.3g})"
        )

    @property
    def difference(self) -> Any:
        """The portfolio's net returns minus those of the index."""
        if self.in_pandas is not None and self.native is not None:
            return self.native.column(self.in_pandas.difference, "difference")
        return self.portfolio - self.index

    @property
    def tracking_error(self) -> float:
        """Root mean square of ``difference``, per row and net of costs; unlike a standard deviation, not centred."""
        return _root_mean_square(np.asarray(self.difference))

    @cached_property
    def cumulative(self) -> Any:
        """Value of 1 invested at the start, after each row: a DataFrame or array with columns portfolio and index."""
        if self.in_pandas is not None and self.native is not None:
            return self.native.table(self.in_pandas.cumulative)
        growth = np.cumprod(1.0 + np.column_stack([self.portfolio, self.index]), axis=0)
        if not is_pandas(self.portfolio, "Series"):
            return growth
        import pandas

        return pandas.DataFrame(growth, index=self.portfolio.index, columns=["portfolio", "index"])

    def annual_tracking_error(self, periods: float) -> float:
        """Return √periods × ``tracking_error``, where periods is the number of rows per year (252, 52 or 12).

        The square root assumes independent differences with mean 0.
        """
        if number(periods, "periods", 0.0) == 0.0:
            raise ValueError("periods is 0; it must be positive.")
        return math.sqrt(periods) * self.tracking_error

    def summary(self, periods: float | None = None) -> Any:
        """Return summary statistics as a Series, or a dict for arrays.

        Parameters
        ----------
        periods : float, optional
            Rows per year, for ``tracking_error_annual``; by default inferred from the dates: 252, 52, 12 or 4.

        Returns
        -------
        Series or dict
            ``turnover`` is the mean over rebalances after the first, NaN if there are none; ``total_return`` and
            ``index_return`` are over all rows; ``correlation`` is NaN if either series is constant.
        """
        if self.in_pandas is not None:
            return dict(self.in_pandas.summary(periods))
        portfolio, index, turnover = (np.asarray(part) for part in (self.portfolio, self.index, self.turnover))
        growth, varies = np.asarray(self.cumulative)[-1], portfolio.std() > 0.0 and index.std() > 0.0
        figures: dict[str, float] = {
            "rows": len(portfolio),
            "rebalances": len(self.rebalances),
            "tracking_error": self.tracking_error,
            "tracking_error_gross": _root_mean_square(np.asarray(self.gross) - index),
            "tracking_error_in_sample": _root_mean_square(np.asarray(self.in_sample_error)),
            "mean_difference": float((portfolio - index).mean()),
            "largest_difference": float(np.abs(portfolio - index).max()),
            "correlation": float(np.corrcoef(portfolio, index)[0, 1]) if varies else math.nan,
            "total_return": float(growth[0] - 1.0),
            "index_return": float(growth[1] - 1.0),
            "names_held": float(np.mean(np.asarray(self.names_held))),
            "turnover": float(turnover[1:].mean()) if len(turnover) > 1 else math.nan,
            "total_cost": self._total_cost,
        }
        periods = rhythm_of(getattr(self.portfolio, "index", None)).periods if periods is None else periods
        if periods is not None:
            figures["tracking_error_annual"] = self.annual_tracking_error(periods)
        if not is_pandas(self.portfolio, "Series"):
            return figures
        import pandas

        return pandas.Series(figures, name="backtest", dtype=float)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the curves and their difference; see :func:`counterpoise.plotting.plot_tracking`."""
        from counterpoise.plotting import plot_tracking

        if self.in_pandas is not None:
            return self.in_pandas.plot(ax)
        # Without labels, the plot numbers rows from its first one.
        marks = self.rebalances if is_pandas(self.portfolio, "Series") else self.rebalances - self.rebalances[0]
        return plot_tracking(self.portfolio, self.index, rebalances=marks, ax=ax)

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write a self-contained HTML report; see :func:`counterpoise.report_tracking.backtest_report`."""
        from counterpoise.report_tracking import backtest_report

        return backtest_report(self, **options).write(path)

    @property
    def _total_cost(self) -> float:
        return float(np.sum(np.asarray(self.costs)))


def backtest(
    tracker: Any,
    returns: Any,
    index: Any,
    window: int | None = None,
    step: int | None = None,
    *,
    cost: float = 0.0,
    expanding: bool = False,
    splitter: Any = None,
    hand_over: bool | None = None,
    n_jobs: int | None = None,
    callback: Callable[[int, int], Any] | None = None,
    carry_days: int | None = None,
) -> Backtest:
    """Refit a tracker repeatedly on past rows, and hold each portfolio over the following rows.

    A portfolio is bought and held: its weights drift, w ← w(1 + r)/(1 + w·r), until the next rebalance. Then the
    turnover Σ|w_new − w_drifted| costs ``cost`` per unit, which is paid out of the portfolio before its next return, so
    the net return of that row is (1 − cost·turnover)(1 + gross) − 1. The first purchase is charged, too: it is made
    from cash, a turnover of 1 for positive weights that sum to 1, or from the tracker's own previous weights if it has
    any; names among these that have no returns are sold. These are what is held when the backtest
    begins: to test a tracker whose previous weights are those of today, set them to None. If weights
    sum to less than 1, the rest is cash with a return of 0.

    Returns may be NaN before a name is listed and after it is delisted, as
    :func:`counterpoise.to_returns` leaves them with ``partial=True``, so that a backtest is not one of
    survivors. A name takes part in a window if it has returns on all rows to fit on (with
    ``expanding``, from the first row on) and a price when it is bought. A name whose prices end while
    it is held is sold at its last price: it earns 0 until the next rebalance, which counts and charges
    the sale. Parameters of the tracker by name, such as ``max_weight``, are restricted to the names of
    each window.

    Parameters
    ----------
    tracker : estimator
        Anything that scikit-learn can clone, with a method ``fit(returns, index)`` that sets ``weights_`` or ``coef_``.
        It is not changed; each window fits a clone.
    returns : DataFrame or array, rows × names
        Simple returns as fractions (0.01 is one percent), with rows in chronological order. Use
        :func:`counterpoise.to_returns` to convert prices.
    index : Series or array of rows
        The returns of the index on the same rows.
    window : int
        Number of rows to fit on.
    step : int, optional
        Number of rows to hold each portfolio for, by default ``window // 4`` and at least 1. The last portfolio may be
        held for fewer: all rows after the first window are used.
    cost : float
        Cost per unit of turnover: 0.001 is ten basis points of everything bought and of everything sold.
    expanding : bool
        Fit on all past rows; the first fit uses ``window`` rows.
    splitter : splitter of scikit-learn, or iterable of (train, test), optional
        Replaces window and step, such as ``TimeSeriesSplit``. Every test set must come after its train set and start
        where the previous test set ended, because portfolios are held without gaps.
    hand_over : bool, optional
        Whether to pass the drifted weights to each fit as the tracker's parameter ``previous_weights``; by default, if
        it has that parameter. False makes the fits independent of each other.
    n_jobs : int, optional
        Number of windows fitted in parallel by joblib, in threads unless ``joblib.parallel_config`` says otherwise.
        Fits that are passed the previous weights run one after the other. Results do not depend on it.
    callback : callable, optional
        Called as ``callback(done, total)`` after each window; return True to end the backtest.
    carry_days : int, optional
        Allows NaN between a name's returns, on rows without a price: its last price stands for at most
        this many rows, and a name that is held is sold if more are missing. A name cannot be bought on
        such a row. By default NaN between returns is an error.

    Returns
    -------
    Backtest
        If Ctrl-C ends the run, it covers the finished windows, and a warning is issued.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> returns = 0.01 * rng.standard_normal((120, 4))
    >>> index = returns @ [0.4, 0.3, 0.2, 0.1] + 1e-4 * rng.standard_normal(120)
    >>> backtest(LinearRegression(), returns, index, window=60, step=20, cost=0.001)
    Backtest(60 rows, 3 rebalances: tracking error 0.000204, 4 names, costs 0.00103)
    """
    n_jobs, callback = worker_count(n_jobs), callback_function(callback)
    carry_days = None if carry_days is None else whole_number(carry_days, "carry_days", 0)
    data = Data(returns, index, carry_days)
    warn_of_prices(data.R, range(data.n) if data.names is None else data.names, data.y)
    splits = windows.splits_of(data, window, step, expanding, splitter)
    windows.warn_of_absent(data, splits)
    cost = number(cost, "cost", 0.0)
    held, sold = windows.own_weights(tracker, data)
    can_hand = previous_key(tracker) is not None
    handed = can_hand if hand_over is None else bool(hand_over)
    if handed and not can_hand:
        raise ValueError(
            f"hand_over is True, but {type(tracker).__name__} has no parameter {PREVIOUS}; leave it out, or use a "
            "tracker that has one."
        )
    path = _Path(data, cost, held, sold)
    try:
        fits = windows.fits_of(tracker, data, splits, (lambda: path.kept) if handed else None, n_jobs)
        with noting_interrupts() as pressed, contextlib.closing(fits):
            for split, fitted in zip(splits, fits, strict=True):
                if pressed or windows.cut_short(fitted):
                    raise KeyboardInterrupt
                path.hold(split, fitted)
                if callback is not None and callback(len(path.done), len(splits)):
                    break
    except KeyboardInterrupt:
        if not path.done:
            raise
        if len(path.done) < len(splits):
            warn(f"The backtest was interrupted after {len(path.done)} of {len(splits)} windows; these are returned.")
    return path.result(complete=len(path.done) == len(splits))


class _Period(NamedTuple):
    """One holding period."""

    split: Split
    tracker: Any
    weights: Vector
    turnover: float
    cost: float
    gross: Vector
    net: Vector
    in_sample_error: float
    end: Vector
    ended: Any


class _Path:
    """The holding periods so far."""

    def __init__(self, data: Data, cost: float, held: Vector, sold: float) -> None:
        self.data, self.cost, self.before, self.sold = data, cost, held, sold
        self.done: list[_Period] = []

    @property
    def held(self) -> Vector:
        """Drifted weights after the last finished period, or the initial ones."""
        return self.done[-1].end if self.done else self.before

    @property
    def kept(self) -> Vector:
        """What is held without the names whose prices have ended."""
        return np.where(self.done[-1].ended, 0.0, self.held) if self.done else self.before

    def hold(self, split: Split, fitted: Any) -> None:
        """Rebalance to a fitted tracker's weights, charge costs, and hold."""
        data, columns = self.data, self.data.taking_part(split)
        weights = np.zeros(data.n)
        names = None if data.names is None else data.names[columns]
        weights[columns] = weights_after(fitted, names, len(columns))
        # What was sold at its last price counts in full, even if the name has prices again and is bought again.
        ended = self.done[-1].ended if self.done else np.zeros(data.n, dtype=bool)
        turnover = float(np.abs(weights - self.kept).sum() + np.abs(self.held[ended]).sum())
        turnover += 0.0 if self.done else self.sold
        paid = self.cost * turnover
        if paid >= 1.0:
            raise ValueError(
                f"The rebalance at row {data.row_label(split.start)} has turnover {turnover:g}, which at {self.cost:g} "
                "per unit costs at least the whole portfolio; cost is a fraction, 0.001 for ten basis points."
            )
        # From the first row without a price on, a name earns nothing, even if it has prices again.
        traded = np.logical_and.accumulate(~np.isnan(data.R[split.start : split.stop]), axis=0)
        growth = np.cumprod(1.0 + np.where(traded, data.R[split.start : split.stop], 0.0), axis=0)
        value = (1.0 - weights.sum()) + growth @ weights
        ruin = np.flatnonzero(value <= 0.0)
        if len(ruin):
            row = data.row_label(split.start + int(ruin[0]))
            raise ValueError(f"The portfolio has lost its whole value by row {row}; it cannot be held.")
        gross = value / np.concatenate([[1.0], value[:-1]]) - 1.0
        net = gross.copy()
        net[0] = (1.0 - paid) * (1.0 + gross[0]) - 1.0
        portfolio = data.values(split.train, columns) @ weights[columns]
        error = _root_mean_square(portfolio - data.y[split.train])
        end = weights * growth[-1] / value[-1]
        # Append the whole period at once, so that an interrupt never leaves half of one.
        self.done.append(_Period(split, fitted, weights, turnover, paid, gross, net, error, end, ~traded[-1]))

    def _sales(self, period: _Period) -> list[tuple[Any, Any]]:
        """Return the last row with a price, and the name, of what was held when its prices ended."""
        data, sales = self.data, []
        for j in np.flatnonzero(period.ended & (np.abs(period.weights) > DUST)):
            held = data.R[period.split.start : period.split.stop, j]
            gone = period.split.start + int(np.isnan(held).argmax())
            row = int(np.flatnonzero(data.known[:gone, j])[-1])
            label = row if data.labels is None else data.labels[row]
            sales.append((label, int(j) if data.names is None else data.names[j]))
        return sales

    def result(self, complete: bool) -> Backtest:
        data, done = self.data, self.done
        starts = np.array([period.split.start for period in done])
        rows = slice(int(starts[0]), done[-1].split.stop)

        def each(name: str) -> Any:
            return data.labelled(np.array([getattr(period, name) for period in done]), name, starts)

        weights = np.array([period.weights for period in done])
        held = np.count_nonzero(np.abs(weights) > DUST, axis=1)
        found = Backtest(
            portfolio=data.labelled(np.concatenate([period.net for period in done]), "portfolio", rows),
            gross=data.labelled(np.concatenate([period.gross for period in done]), "gross", rows),
            index=data.labelled(data.y[rows].copy(), "index", rows),
            weights=data.labelled(weights, None, starts),
            turnover=each("turnover"),
            costs=each("cost"),
            names_held=data.labelled(held, "names_held", starts),
            in_sample_error=each("in_sample_error"),
            rebalances=starts if data.frame is None else data.frame.index[starts],
            holdings=data.labelled(self.held.copy(), "holdings"),
            trackers=[period.tracker for period in done],
            complete=complete,
            sold=[sale for period in done for sale in self._sales(period)],
        )
        return found if data.native is None else _in_native(found, data.native)


def _in_native(found: Backtest, native: Native) -> Backtest:
    """Convert the columns and tables of a backtest to the library of the returns."""
    columns = ("portfolio", "gross", "index", "turnover", "costs", "names_held", "in_sample_error", "rebalances")
    parts = {name: native.column(getattr(found, name), name) for name in columns}
    parts["holdings"] = native.table(found.holdings.rename_axis("name").to_frame("weight"))
    parts["weights"] = native.table(found.weights)
    return dataclasses.replace(found, **parts, in_pandas=found, native=native)


def _root_mean_square(values: Vector) -> float:
    return math.sqrt(float(np.mean(np.square(values))))

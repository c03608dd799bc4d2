"""Backtests: refit a tracker on the past, hold what it chose, pay for the changes, and compare with the index."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import warnings
from collections.abc import Callable, Generator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.checks import Vector, callback_function, float_array, number, whole_number, worker_count
from counterpoise.estimators.covariates import is_pandas
from counterpoise.estimators.options import refuse_unusable, warn_of_prices
from counterpoise.interrupts import noting_interrupts
from counterpoise.sentences import day_label, some
from counterpoise.tables.prices import check_days

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Fits = Generator[Any, None, None]
Rows = npt.NDArray[np.intp]

# A smaller weight is a solver's dust and no name held.
DUST = 1e-8
# By default a portfolio is held for this part of the rows that it was fitted on.
STEPS_PER_WINDOW = 4
PREVIOUS = "previous_weights"


@dataclasses.dataclass(frozen=True, eq=False)
class Backtest:
    """What :func:`backtest` returns; Series and DataFrames if the returns were a DataFrame, arrays otherwise.

    Attributes
    ----------
    portfolio : Series or array
        Out-of-sample returns of the portfolio, net of costs, one a row after the first window.
    gross : Series or array
        The same before costs.
    index : Series or array
        The index's returns on these rows.
    weights : DataFrame or array, rebalances × names
        What was bought at each rebalance.
    turnover : Series or array
        Σ|bought − held before| of each rebalance.
    costs : Series or array
        ``cost`` × turnover, as a share of the portfolio's value then.
    names_held : Series or array of int
        How many weights are not 0.
    in_sample_error : Series or array
        Root mean square of (rows fitted on) @ weights − index: the tracking error as a fit sees it, with weights that
        do not drift.
    rebalances : Index or array of int
        The first row on which each portfolio earns; what is bought is bought before it, at the prices of the row above.
    holdings : Series or array
        Weights after the last row, drifted: what to hand to the next fit as its previous weights.
    trackers : list
        The fitted estimators, one a rebalance.
    complete : bool
        False if an interrupt or the callback ended it early; all fields are then of the windows finished.
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

    def __repr__(self) -> str:
        """Say how well it tracked."""
        cut = "" if self.complete else ", ended early"
        return (
            f"Backtest({len(self.portfolio)} rows, {len(self.rebalances)} rebalances{cut}: tracking error "
            f"{self.tracking_error:.3g}, {float(np.mean(self.names_held)):.3g} names, costs {self._total_cost:.3g})"
        )

    @property
    def difference(self) -> Any:
        """The portfolio's net returns − the index's."""
        return self.portfolio - self.index

    @property
    def tracking_error(self) -> float:
        """Root mean square of ``difference``, per row and net of costs: not a standard deviation, drifts count."""
        return _root_mean_square(np.asarray(self.difference))

    @cached_property
    def cumulative(self) -> Any:
        """Growth of 1 to the end of each row: a DataFrame or array with the columns portfolio and index."""
        growth = np.cumprod(1.0 + np.column_stack([self.portfolio, self.index]), axis=0)
        if not is_pandas(self.portfolio, "Series"):
            return growth
        import pandas

        return pandas.DataFrame(growth, index=self.portfolio.index, columns=["portfolio", "index"])

    def annual_tracking_error(self, periods: float) -> float:
        """Return √periods × ``tracking_error``, for so many rows a year (252 days, 52 weeks, 12 months).

        The root assumes differences of mean 0 that do not depend on each other.
        """
        return math.sqrt(_positive(periods, "periods")) * self.tracking_error

    def summary(self, periods: float | None = None) -> Any:
        """Return the figures of a factsheet, a Series or else a dict.

        Parameters
        ----------
        periods : float, optional
            Rows a year; adds ``tracking_error_annual``.

        Returns
        -------
        Series or dict
            ``turnover`` is the mean of the rebalances after the first, NaN if there are none; ``total_return`` and
            ``index_return`` are over all rows; ``correlation`` is NaN if either does not vary.
        """
        portfolio, index, turnover = (np.asarray(part) for part in (self.portfolio, self.index, self.turnover))
        growth = np.asarray(self.cumulative)[-1]
        figures: dict[str, float] = {
            "rows": len(portfolio),
            "rebalances": len(self.rebalances),
            "tracking_error": self.tracking_error,
            "tracking_error_gross": _root_mean_square(np.asarray(self.gross) - index),
            "tracking_error_in_sample": _root_mean_square(np.asarray(self.in_sample_error)),
            "mean_difference": float((portfolio - index).mean()),
            "largest_difference": float(np.abs(portfolio - index).max()),
            "correlation": _correlation(portfolio, index),
            "total_return": float(growth[0] - 1.0),
            "index_return": float(growth[1] - 1.0),
            "names_held": float(np.mean(self.names_held)),
            "turnover": float(turnover[1:].mean()) if len(turnover) > 1 else math.nan,
            "total_cost": self._total_cost,
        }
        if periods is not None:
            figures["tracking_error_annual"] = self.annual_tracking_error(periods)
        if not is_pandas(self.portfolio, "Series"):
            return figures
        import pandas

        return pandas.Series(figures, name="backtest", dtype=float)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the curves and their difference; see :func:`counterpoise.plotting.plot_tracking`."""
        from counterpoise.plotting import plot_tracking

        # Without labels, the rows of a picture are counted from the first of its own.
        marks = self.rebalances if is_pandas(self.portfolio, "Series") else self.rebalances - self.rebalances[0]
        return plot_tracking(self.portfolio, self.index, rebalances=marks, ax=ax)

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
) -> Backtest:
    """Fit a tracker again and again on the rows so far, and hold each portfolio on the rows that follow.

    A portfolio is bought and held: its weights drift, w ← w(1 + r)/(1 + w·r), until the next rebalance. There the
    turnover Σ|w_new − w_drifted| costs ``cost`` a unit, taken from the portfolio's value before it earns again, so that
    the net return of that row is (1 − cost·turnover)(1 + gross) − 1. The first purchase counts: it is made from cash,
    a turnover of 1 for weights that are positive and sum to 1, unless the tracker comes with previous weights of its
    own, from which it then is; names among them that have no returns are sold. What weights leave of 1 is cash at a
    return of 0.

    Parameters
    ----------
    tracker : estimator
        Anything that scikit-learn can clone, with ``fit(returns, index)`` and then ``weights_`` or ``coef_``. It is
        not changed; every window fits a clone.
    returns : DataFrame or array, rows × names
        Simple returns as fractions (0.01 is one percent), the rows in order of time. Prices become returns by
        :func:`counterpoise.to_returns`.
    index : Series or array of rows
        The index's, on the same rows.
    window : int
        Rows to fit on.
    step : int, optional
        Rows to hold a portfolio for, by default ``window // 4`` and at least 1. The last may be held for fewer: all
        rows after the first window are used.
    cost : float
        Of a unit of turnover: 0.001 is ten basis points of what is bought and of what is sold.
    expanding : bool
        Fit on all rows so far, the first fit on ``window``.
    splitter : splitter of scikit-learn, or iterable of (train, test), optional
        Instead of window and step, such as ``TimeSeriesSplit``. Every test set must come after its train set and
        directly after the test set before it, because what was bought is held.
    hand_over : bool, optional
        Whether each fit gets the drifted weights as its parameter ``previous_weights``; by default if there is one.
        False makes the fits independent of each other.
    n_jobs : int, optional
        Windows fitted at a time, by joblib: threads, or what ``joblib.parallel_config`` says. Fits that get the weights
        of the one before run one after the other. The numbers are the same for any.
    callback : callable, optional
        Called as ``callback(done, total)`` after each window; returning True ends the backtest there.

    Returns
    -------
    Backtest
        Of the windows finished, with a warning, if Ctrl-C ends it.

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
    data = _Data(returns, index)
    warn_of_prices(data.R, range(data.n) if data.names is None else data.names, data.y, 2)
    splits = _splits(data, window, step, expanding, splitter)
    cost = number(cost, "cost", 0.0)
    held, sold = _own_weights(tracker, data)
    handed = has_previous_weights(tracker) if hand_over is None else bool(hand_over)
    if handed and not has_previous_weights(tracker):
        raise ValueError(
            f"hand_over is True, but {type(tracker).__name__} has no parameter {PREVIOUS}; leave it out, or use a "
            "tracker that has one."
        )
    path = _Path(data, cost, held, sold)
    complete, interrupted = True, False
    try:
        fits = _fits(tracker, data, splits, path if handed else None, n_jobs)
        with noting_interrupts() as pressed, contextlib.closing(fits):
            for split, fitted in zip(splits, fits, strict=True):
                if pressed or _cut_short(fitted):
                    raise KeyboardInterrupt
                path.hold(split, fitted)
                if callback is not None and callback(len(path.done), len(splits)) and len(path.done) < len(splits):
                    complete = False
                    break
    except KeyboardInterrupt:
        if not path.done:
            raise
        complete, interrupted = len(path.done) == len(splits), True
    if interrupted and not complete:
        warnings.warn(
            f"The backtest was interrupted after {len(path.done)} of {len(splits)} windows; these are returned.",
            UserWarning,
            stacklevel=2,
        )
    return path.result(complete)


# What comes in.


class _Split(NamedTuple):
    """Rows to fit on, and the rows start, …, stop − 1 to hold."""

    train: Rows
    start: int
    stop: int


class _Data:
    """Returns and index on the same rows, checked; and how to give results the same labels."""

    def __init__(self, returns: Any, index: Any) -> None:
        self.frame = returns if is_pandas(returns, "DataFrame") else None
        if is_pandas(index, "DataFrame"):
            if index.shape[1] != 1:
                raise ValueError(f"index has {index.shape[1]} columns; it must be a Series or have one column.")
            index = index.iloc[:, 0]
        self.series = index if is_pandas(index, "Series") else None
        labels: Any = None
        for part, name in ((self.frame, "returns"), (self.series, "index")):
            if part is not None:
                check_days(part.index, name)
                labels = part.index if labels is None else labels
        self.labels, self.names = labels, None if self.frame is None else self.frame.columns
        if self.names is not None and not self.names.is_unique:
            twice = self.names[self.names.duplicated()][0]
            raise ValueError(f"returns has more than one column {twice!r}; names must be unique.")
        self.R, self.y = self._numbers(returns, "returns", 2), self._numbers(index, "index", 1)
        self.rows, self.n = self.R.shape
        self._check_rows()
        for values, name in ((self.R, "returns"), (self.y, "index")):
            self._check_values(values, name)

    def _numbers(self, values: Any, name: str, dimensions: int) -> Vector:
        refuse_unusable(name, values)
        if is_pandas(values, "DataFrame") or is_pandas(values, "Series"):
            # What is missing is told with its row; nullable numbers come as objects.
            numeric = all(getattr(kind, "kind", "O") in "biuf" for kind in np.atleast_1d(values.dtypes))
            values = values if numeric else values.astype(object).where(values.notna(), np.nan)
        array = float_array(values, name)
        if dimensions == 1 and array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != dimensions:
            right = "a table, rows × names" if dimensions == 2 else "one number a row"
            raise ValueError(f"{name} has {array.ndim} dimension(s); it must be {right}.")
        if dimensions == 2 and array.shape[1] == 0:
            raise ValueError("returns has no columns; it must be a table, rows × names.")
        return array

    def _check_rows(self) -> None:
        """Refuse rows that do not belong together, and name the first."""
        if self.frame is not None and self.series is not None and not self.frame.index.equals(self.series.index):
            ours, theirs = (
                self.frame.index.difference(self.series.index),
                self.series.index.difference(self.frame.index),
            )
            where = " and ".join(
                f"{len(days)} only in {name} (the first {some(map(day_label, days[:3]), 3)})"
                for days, name in ((ours, "returns"), (theirs, "index"))
                if len(days)
            )
            raise ValueError(
                f"returns and index have different rows: {where}; both must have the same, as after "
                "returns.align(index, join='inner', axis=0)."
            )
        if len(self.y) != self.rows:
            raise ValueError(f"index has {len(self.y)} rows and returns has {self.rows}; they must be the same rows.")

    def _check_values(self, values: Vector, name: str) -> None:
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            raise ValueError(
                f"{name} is not finite at {some(map(self._place, bad[:3]), 3)} ({len(bad)} such entries); remove or "
                "impute them, all entries must be finite."
            )
        bad = np.argwhere(values < -1.0)
        if len(bad):
            raise ValueError(
                f"{name} is {values[tuple(bad[0])]:g} at {self._place(bad[0])}, a loss of more than everything; give "
                "fractions, not percent, and simple returns."
            )

    def _place(self, where: Any) -> str:
        row = self.row_label(int(where[0]))
        if len(where) == 1:
            return f"row {row}"
        return f"row {row}, column {where[1] if self.names is None else self.names[where[1]]}"

    def row_label(self, row: int) -> str:
        """Return a row's day, or its number."""
        return str(row) if self.labels is None else day_label(self.labels[row])

    def part(self, rows: Rows) -> tuple[Any, Any]:
        """Return some rows in the types that came in."""
        returns = self.R[rows] if self.frame is None else self.frame.iloc[rows]
        return returns, self.y[rows] if self.series is None else self.series.iloc[rows]

    def as_weights(self, values: Vector, name: str | None = None) -> Any:
        """Return weights as a Series if the returns have names."""
        if self.names is None:
            return values
        import pandas

        return pandas.Series(values, index=self.names, name=name)

    def over_rows(self, values: Any, rows: Any, name: str) -> Any:
        """Return one value a row as a Series if the returns are a DataFrame."""
        if self.frame is None:
            return values
        import pandas

        return pandas.Series(values, index=self.frame.index[rows], name=name)

    def table(self, values: Vector, rows: Any) -> Any:
        """Return weights of several rows, with names if the returns have them."""
        if self.frame is None:
            return values
        import pandas

        return pandas.DataFrame(values, index=self.frame.index[rows], columns=self.names)


def _splits(data: _Data, window: Any, step: Any, expanding: bool, splitter: Any) -> list[_Split]:
    """Return the windows, checked."""
    if splitter is not None:
        if window is not None or step is not None or expanding:
            raise ValueError("Both a splitter and window, step or expanding are given; give one or the other.")
        return _given_splits(data, splitter)
    if window is None:
        raise ValueError("window is missing; give the number of rows to fit on, or a splitter.")
    window = whole_number(window, "window", 1)
    if window >= data.rows:
        raise ValueError(
            f"window is {window}, but there are {data.rows} rows; it must be at most {data.rows - 1}, so that a row is "
            "left to hold a portfolio on."
            if data.rows > 1
            else f"There are {data.rows} rows; a backtest needs at least two, one to fit on and one to hold."
        )
    step = max(1, window // STEPS_PER_WINDOW) if step is None else whole_number(step, "step", 1)
    return [
        _Split(np.arange(0 if expanding else start - window, start), start, min(start + step, data.rows))
        for start in range(window, data.rows, step)
    ]


def _given_splits(data: _Data, splitter: Any) -> list[_Split]:
    pairs = splitter.split(data.R) if hasattr(splitter, "split") else splitter
    if not hasattr(pairs, "__iter__"):
        raise TypeError(
            f"splitter is a {type(splitter).__name__}; it must have the method split, or hold pairs (train, test)."
        )
    splits: list[_Split] = []
    for k, pair in enumerate(pairs):
        try:
            train, test = (np.asarray(part) for part in pair)
        except (TypeError, ValueError):
            raise ValueError(f"Split {k} of the splitter is no pair (train, test) of row numbers.") from None
        for rows, name in ((train, "train"), (test, "test")):
            if rows.ndim != 1 or rows.dtype.kind not in "iu" or not len(rows):
                raise ValueError(f"The {name} set of split {k} is empty or no list of row numbers; it must be one.")
            if rows.min() < 0 or rows.max() >= data.rows:
                wrong = int(rows.min() if rows.min() < 0 else rows.max())
                raise ValueError(f"The {name} set of split {k} has row {wrong}; rows are 0 to {data.rows - 1}.")
            if (np.diff(rows) <= 0).any():
                raise ValueError(
                    f"The rows of the {name} set of split {k} are not in order; they must not be shuffled."
                )
        if train[-1] >= test[0]:
            raise ValueError(
                f"Split {k} fits on row {int(train[-1])} and holds from row {int(test[0])}: a fit must not see what "
                "comes after it; use a splitter over time, such as TimeSeriesSplit."
            )
        expected = splits[-1].stop if splits else int(test[0])
        gap = np.flatnonzero(test != np.arange(expected, expected + len(test)))
        if len(gap):
            raise ValueError(
                f"The test set of split {k} has row {int(test[gap[0]])} where row {expected + int(gap[0])} follows; "
                "test sets must follow one another without a gap, because what was bought is held."
            )
        splits.append(_Split(train.astype(np.intp), expected, expected + len(test)))
    if not splits:
        raise ValueError("The splitter gives no splits; it must give at least one pair (train, test).")
    return splits


def has_previous_weights(tracker: Any) -> bool:
    """Whether an estimator has the parameter ``previous_weights``."""
    return hasattr(tracker, "get_params") and PREVIOUS in tracker.get_params(deep=False)


def _own_weights(tracker: Any, data: _Data) -> tuple[Vector, float]:
    """Return what the tracker says is held before the first purchase, and how much of other names; else nothing."""
    if not hasattr(tracker, "fit"):
        raise TypeError(f"tracker is {tracker!r}; it must be an estimator with fit(returns, index).")
    values: Any = tracker.get_params(deep=False)[PREVIOUS] if has_previous_weights(tracker) else None
    sold = 0.0
    if data.names is not None and (isinstance(values, Mapping) or is_pandas(values, "Series")):
        sold = float(sum(abs(weight) for name, weight in values.items() if name not in data.names))
        values = {name: weight for name, weight in values.items() if name in data.names}
    return weights_of(values, data.names, data.n, PREVIOUS), sold


def weights_of(values: Any, names: Any, n: int, what: str) -> Vector:
    """Return n finite weights from a Series or mapping of names, an array, one number for all, or None for nothing.

    Names that are not mentioned have the weight 0.
    """
    if values is None:
        return np.zeros(n)
    if is_pandas(values, "Series") and names is not None:
        values = values.to_dict()
    if isinstance(values, Mapping):
        if names is None:
            raise ValueError(f"{what} are given by name, but the returns have no names; give an array of {n}.")
        known = {name: k for k, name in enumerate(names)}
        strange = [name for name in values if name not in known]
        if strange:
            raise ValueError(f"{what} name {some(strange, 3)}, of which there are no returns; there are {some(names)}.")
        weights = np.zeros(n)
        for name, weight in values.items():
            weights[known[name]] = weight
    else:
        weights = np.asarray(values, dtype=np.float64)
        weights = np.full(n, float(weights)) if weights.ndim == 0 else weights.ravel()
    if weights.shape != (n,):
        raise ValueError(f"{what} are {len(weights)} numbers for {n} names; they must be one a name.")
    bad = np.flatnonzero(~np.isfinite(weights))
    if len(bad):
        place = bad[0] if names is None else names[bad[0]]
        raise ValueError(f"{what} are {weights[bad[0]]} for {place}; all must be finite.")
    return weights


def weights_after(fitted: Any, names: Any, n: int) -> Vector:
    """Return the weights of a fitted estimator, its ``weights_`` or else its ``coef_``."""
    name = next((name for name in ("weights_", "coef_") if hasattr(fitted, name)), None)
    if name is None:
        raise TypeError(f"{type(fitted).__name__} has neither weights_ nor coef_ after fit; a tracker has one.")
    what, values = f"{name} of {type(fitted).__name__}", getattr(fitted, name)
    if values is None or (np.ndim(values) == 0 and not isinstance(values, Mapping)):
        raise TypeError(f"{what} is {values!r}; it must hold one weight a name.")
    return weights_of(values, names, n, what)


# The fits.


def _fits(tracker: Any, data: _Data, splits: list[_Split], path: _Path | None, n_jobs: int | None) -> _Fits:
    """Yield the fitted trackers in order; each gets the weights that the path holds by then if there is a path."""
    import joblib

    if path is not None or joblib.effective_n_jobs(n_jobs) == 1 or len(splits) == 1:
        for k, split in enumerate(splits):
            handed = {} if path is None or k == 0 else {PREVIOUS: data.as_weights(path.held.copy())}
            yield _fit(tracker, data, split, handed)
        return
    jobs = [joblib.delayed(_fit)(tracker, data, split, {}) for split in splits]
    try:
        arriving = joblib.Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator", batch_size=1)
    except ValueError:  # a backend that returns all at once
        arriving = joblib.Parallel(n_jobs=n_jobs, prefer="threads")
    results = arriving(jobs)
    try:
        for fitted in results:  # noqa: UP028  (`yield from` would close it before the warning is silenced)
            yield fitted
    finally:
        if hasattr(results, "close"):
            with warnings.catch_warnings():
                # joblib would say that some fits were begun in vain; whoever stops a backtest knows.
                warnings.simplefilter("ignore", UserWarning)
                results.close()


def _fit(tracker: Any, data: _Data, split: _Split, parameters: dict[str, Any]) -> Any:
    from sklearn.base import clone  # slow to import, and only fits need it

    fitted = clone(tracker)
    if parameters:
        fitted.set_params(**parameters)
    try:
        # Some estimators return nothing.
        fitted.fit(*data.part(split.train))
    except Exception as error:
        first, last = (data.row_label(int(split.train[k])) for k in (0, -1))
        error.add_note(
            f"This was the fit on {len(split.train)} rows, {first} to {last}, to be held from the row after."
        )
        raise
    return fitted


def _cut_short(fitted: Any) -> bool:
    """Whether a fit says that it was interrupted, as in another process."""
    from counterpoise.problem import Status

    return getattr(getattr(fitted, "result_", None), "status", None) is Status.INTERRUPTED


# What is held.


class _Period(NamedTuple):
    """One portfolio, from its purchase to the next."""

    split: _Split
    tracker: Any
    weights: Vector
    turnover: float
    cost: float
    gross: Vector
    net: Vector
    in_sample_error: float
    end: Vector


class _Path:
    """The portfolio through time."""

    def __init__(self, data: _Data, cost: float, held: Vector, sold: float) -> None:
        self.data, self.cost, self.before, self.sold = data, cost, held, sold
        self.done: list[_Period] = []

    @property
    def held(self) -> Vector:
        """Weights after the rows done, drifted."""
        return self.done[-1].end if self.done else self.before

    def hold(self, split: _Split, fitted: Any) -> None:
        """Change to a fitted tracker's weights, pay, and hold them."""
        data = self.data
        weights = weights_after(fitted, data.names, data.n)
        turnover = float(np.abs(weights - self.held).sum()) + (0.0 if self.done else self.sold)
        paid = self.cost * turnover
        if paid >= 1.0:
            raise ValueError(
                f"The rebalance of row {data.row_label(split.start)} has the turnover {turnover:g}, at a cost of "
                f"{self.cost:g} a unit more than the whole portfolio; cost is a fraction, 0.001 for ten basis points."
            )
        growth = np.cumprod(1.0 + data.R[split.start : split.stop], axis=0)
        value = (1.0 - weights.sum()) + growth @ weights
        ruin = np.flatnonzero(value <= 0.0)
        if len(ruin):
            row = data.row_label(split.start + int(ruin[0]))
            raise ValueError(f"The portfolio has lost everything by row {row}; weights that may do so cannot be held.")
        gross = value / np.concatenate([[1.0], value[:-1]]) - 1.0
        net = gross.copy()
        net[0] = (1.0 - paid) * (1.0 + gross[0]) - 1.0
        error = _root_mean_square(data.R[split.train] @ weights - data.y[split.train])
        end = weights * growth[-1] / value[-1]
        # One step, so that an interrupt finds the period done or not begun.
        self.done.append(_Period(split, fitted, weights, turnover, paid, gross, net, error, end))

    def result(self, complete: bool) -> Backtest:
        """Put the periods together."""
        data, done = self.data, self.done
        starts = np.array([period.split.start for period in done])
        rows = slice(int(starts[0]), done[-1].split.stop)

        def each(name: str) -> Any:
            return data.over_rows(np.array([getattr(period, name) for period in done]), starts, name)

        weights = np.array([period.weights for period in done])
        held = np.count_nonzero(np.abs(weights) > DUST, axis=1)
        return Backtest(
            portfolio=data.over_rows(np.concatenate([period.net for period in done]), rows, "portfolio"),
            gross=data.over_rows(np.concatenate([period.gross for period in done]), rows, "gross"),
            index=data.over_rows(data.y[rows].copy(), rows, "index"),
            weights=data.table(weights, starts),
            turnover=each("turnover"),
            costs=each("cost"),
            names_held=data.over_rows(held, starts, "names_held"),
            in_sample_error=each("in_sample_error"),
            rebalances=starts if data.frame is None else data.frame.index[starts],
            holdings=data.as_weights(self.held.copy(), "holdings"),
            trackers=[period.tracker for period in done],
            complete=complete,
        )


def _root_mean_square(values: Vector) -> float:
    return math.sqrt(float(np.mean(np.square(values))))


def _correlation(first: Vector, second: Vector) -> float:
    first, second = first - first.mean(), second - second.mean()
    scale = math.sqrt(float(first @ first)) * math.sqrt(float(second @ second))
    return float(first @ second) / scale if scale > 0.0 else math.nan


def _positive(value: Any, name: str) -> float:
    result = number(value, name, 0.0)
    if result == 0.0:
        raise ValueError(f"{name} is 0; it must be positive.")
    return result

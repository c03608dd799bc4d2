"""The windows of a backtest: returns and index on the same rows, splits, weights by name, and the fits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.checks import Vector, float_array, whole_number
from counterpoise.estimators.options import refuse_unusable, same_dates, warn
from counterpoise.sentences import counted, day_label, some
from counterpoise.tables.native import as_pandas, by_name, is_pandas, to_pandas
from counterpoise.tables.prices import carried, check_labels, only_column

Rows = npt.NDArray[np.intp]

# By default a portfolio is held for window // STEPS_PER_WINDOW rows.
STEPS_PER_WINDOW = 4
PREVIOUS = "previous_weights"
# Parameters of trackers with an entry for each name, and with a list of names or positions.
BY_NAME = (PREVIOUS, "max_weight", "min_weight", "groups", "transaction_cost")
LISTS = ("include", "exclude")


class Split(NamedTuple):
    """The rows to fit on, and the rows start, …, stop − 1 during which the portfolio is held."""

    train: Rows
    start: int
    stop: int


class Data:
    """Validated returns and index on the same rows; labels results like the input.

    ``R`` holds the returns with 0 where a price was carried, and NaN where there was none.
    """

    def __init__(self, returns: Any, index: Any, carry_days: int | None = None) -> None:
        returns, self.native = to_pandas(returns, dated=True)
        index = as_pandas(index)
        self.frame = returns if is_pandas(returns, "DataFrame") else None
        index = only_column(index) if is_pandas(index, "DataFrame") else index
        self.series = index if is_pandas(index, "Series") else None
        for part, name in ((self.frame, "returns"), (self.series, "index")):
            if part is not None:
                check_labels(part, name)
        first = self.series if self.frame is None else self.frame
        self.labels = None if first is None else first.index
        self.names = None if self.frame is None else self.frame.columns
        self.R, self.y = self._numbers(returns, "returns", 2), self._numbers(index, "index", 1)
        self.rows, self.n = self.R.shape
        same_dates(self.frame, self.series, "index")
        if len(self.y) != self.rows:
            raise ValueError(f"index has {len(self.y)} rows and returns has {self.rows}; they must be the same rows.")
        self.known = ~np.isnan(self.R)
        between = ~self.known & np.maximum.accumulate(self.known, axis=0)
        between &= np.maximum.accumulate(self.known[::-1], axis=0)[::-1]
        self._check_values(self.R, "returns", np.isinf(self.R) | (between & (carry_days is None)))
        self._check_values(self.y, "index", ~np.isfinite(self.y))
        self.R = carried(self.R, carry_days or 0)

    def _numbers(self, values: Any, name: str, dimensions: int) -> Vector:
        refuse_unusable(**{name: values})
        if is_pandas(values, "DataFrame") or is_pandas(values, "Series"):
            # Keep missing values, which are reported with their row; nullable dtypes become objects.
            numeric = all(isinstance(kind, np.dtype) and kind.kind in "biuf" for kind in np.atleast_1d(values.dtypes))
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

    def _check_values(self, values: Vector, name: str, wrong: Any) -> None:
        bad = np.argwhere(wrong)
        if len(bad):
            right = "remove or impute them, all entries must be finite."
            if name == "returns":
                right = (
                    "remove or impute them. NaN may stand before a name's first return and after its last one, and "
                    "between them if carry_days is given."
                )
            raise ValueError(
                f"{name} is not finite at {some(map(self._place, bad[:3]), 3)} ({len(bad)} such entries); {right}"
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
        """Return the day of a row, or its number if there are no labels."""
        return str(row) if self.labels is None else day_label(self.labels[row])

    def taking_part(self, split: Split) -> Rows:
        """Return the columns with returns on all rows to fit on, and a price on the row at which they are bought."""
        whole = ~np.isnan(self.R[split.train]).any(axis=0) & self.known[split.start - 1]
        if not whole.any():
            first, last = self.row_label(int(split.train[0])), self.row_label(int(split.train[-1]))
            raise ValueError(
                f"No name has returns on all of the {len(split.train)} rows from {first} to {last} that a portfolio is "
                "fitted on, and a price when it is bought; give shorter windows or more names."
            )
        return np.flatnonzero(whole)

    def values(self, rows: Rows, columns: Rows) -> Vector:
        """Return the returns of some columns on some rows."""
        return self.R[rows] if len(columns) == self.n else self.R[np.ix_(rows, columns)]

    def part(self, rows: Rows, columns: Rows) -> tuple[Any, Any]:
        """Return the returns of some columns and the index on some rows, in the types of the input."""
        if self.frame is None:
            returns: Any = self.values(rows, columns)
        else:
            returns = self.frame.iloc[rows]
            if len(columns) < self.n or not self.known[rows].all():
                names = self.frame.columns[columns]
                returns = type(self.frame)(self.values(rows, columns), index=returns.index, columns=names)
        return returns, self.y[rows] if self.series is None else self.series.iloc[rows]

    def labelled(self, values: Vector, name: str | None = None, rows: Any = None) -> Any:
        """Return weights by name, or values or weights by row, labelled if the returns are a DataFrame."""
        if self.frame is None:
            return values
        import pandas

        if values.ndim == 2:
            return pandas.DataFrame(values, index=self.frame.index[rows], columns=self.names)
        return pandas.Series(values, index=self.names if rows is None else self.frame.index[rows], name=name)


def splits_of(data: Data, window: Any, step: Any, expanding: bool, splitter: Any) -> list[Split]:
    """Return the validated windows."""
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
        Split(np.arange(0 if expanding else start - window, start), start, min(start + step, data.rows))
        for start in range(window, data.rows, step)
    ]


def _given_splits(data: Data, splitter: Any) -> list[Split]:
    pairs = splitter.split(data.R) if hasattr(splitter, "split") else splitter
    if not hasattr(pairs, "__iter__"):
        raise TypeError(
            f"splitter is of type {type(splitter).__name__}; it must have the method split, or hold pairs "
            "(train, test)."
        )
    splits: list[Split] = []
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
        splits.append(Split(train.astype(np.intp), expected, expected + len(test)))
    if not splits:
        raise ValueError("The splitter gives no splits; it must give at least one pair (train, test).")
    return splits


def warn_of_absent(data: Data, splits: list[Split]) -> None:
    """Warn of names that take part in no window."""
    if data.known.all():
        return
    parts = set().union(*(data.taking_part(split).tolist() for split in splits))
    absent = [k if data.names is None else data.names[k] for k in range(data.n) if k not in parts]
    if absent:
        take = "takes" if len(absent) == 1 else "take"
        warn(
            f"{counted(len(absent), 'name')} of {data.n} {take} part in no window, because no window has "
            f"their returns on all rows: {some(absent)}."
        )


def previous_key(tracker: Any) -> str | None:
    """Return the parameter for the previous weights, ``estimator__previous_weights`` of a search, None without any."""
    known = tracker.get_params() if hasattr(tracker, "get_params") else {}
    return next((key for key in (PREVIOUS, f"estimator__{PREVIOUS}") if key in known), None)


def own_weights(tracker: Any, data: Data) -> tuple[Vector, float]:
    """Return the tracker's previous weights, and the total weight of names without returns."""
    if not hasattr(tracker, "fit"):
        raise TypeError(f"tracker is {tracker!r}; it must be an estimator with fit(returns, index).")
    key = previous_key(tracker)
    values: Any = None if key is None else by_name(tracker.get_params()[key])
    sold = 0.0
    if data.names is not None and (isinstance(values, Mapping) or is_pandas(values, "Series")):
        sold = float(sum(abs(weight) for name, weight in values.items() if name not in data.names))
        values = {name: weight for name, weight in values.items() if name in data.names}
    return weights_of(values, data.names, data.n, PREVIOUS), sold


def weights_of(values: Any, names: Any, n: int, what: str) -> Vector:
    """Return n finite weights from a Series or mapping by name, an array, one number for all, or None for zeros.

    Names that are not mentioned get the weight 0.
    """
    if values is None:
        return np.zeros(n)
    if is_pandas(values, "Series") and names is not None:
        values = values.to_dict()
    if isinstance(values, Mapping):
        if names is None:
            raise ValueError(f"{what} are given by name, but the returns have no names; give an array of {n}.")
        known = set(names)
        strange = [name for name in values if name not in known]
        if strange:
            raise ValueError(f"{what} name {some(strange, 3)}, of which there are no returns; there are {some(names)}.")
        values = [values.get(name, 0.0) for name in names]
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
    """Return the weights of a fitted estimator, or of the best one of a search: ``weights_`` or else ``coef_``."""
    fitted = getattr(fitted, "best_estimator_", fitted)
    name = next((name for name in ("weights_", "coef_") if hasattr(fitted, name)), None)
    if name is None:
        raise TypeError(f"{type(fitted).__name__} has neither weights_ nor coef_ after fit; a tracker has one.")
    what, values = f"{name} of {type(fitted).__name__}", getattr(fitted, name)
    if values is None or (np.ndim(values) == 0 and not isinstance(values, Mapping)):
        raise TypeError(f"{what} is {values!r}; it must hold one weight a name.")
    return weights_of(values, names, n, what)


# Fits.


def fits_of(
    tracker: Any, data: Data, splits: list[Split], held: Callable[[], Vector] | None, n_jobs: int | None
) -> Generator[Any, None, None]:
    """Yield the fitted trackers in order; if ``held`` is given, each after the first gets the weights held by then."""
    import joblib

    if held is not None or joblib.effective_n_jobs(n_jobs) == 1 or len(splits) == 1:
        for k, split in enumerate(splits):
            yield _fit(tracker, data, split, None if held is None or k == 0 else data.labelled(held().copy()))
        return
    jobs = [joblib.delayed(_fit)(tracker, data, split) for split in splits]
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
                # joblib warns about unfinished fits, which are expected here.
                warnings.simplefilter("ignore", UserWarning)
                results.close()


def _fit(tracker: Any, data: Data, split: Split, previous: Any = None) -> Any:
    from sklearn.base import clone  # slow to import, and only fits need it

    fitted, columns = clone(tracker), data.taking_part(split)
    if previous is not None:
        fitted.set_params(**{str(previous_key(tracker)): previous})
    if len(columns) < data.n:
        fitted.set_params(**among(fitted, data.names, data.n, columns))
    try:
        # Do not use the return value: fit of some estimators returns None.
        fitted.fit(*data.part(split.train, columns))
    except Exception as error:
        first, last = (data.row_label(int(split.train[k])) for k in (0, -1))
        error.add_note(
            f"This was the fit on {len(split.train)} rows, {first} to {last}, to be held from the row after."
        )
        raise
    return fitted


def among(tracker: Any, names: Any, n: int, columns: Rows) -> dict[str, Any]:
    """Return a tracker's parameters that refer to names, for a fit on some of the n columns only."""
    labels = list(range(n)) if names is None else list(names)
    new = {label: place if names is None else label for place, label in enumerate(labels[k] for k in columns)}
    positions = {int(k): place for place, k in enumerate(columns)}
    out = set(labels).difference(new)
    changed: dict[str, Any] = {}
    for key, value in (tracker.get_params() if hasattr(tracker, "get_params") else {}).items():
        name, value = key.rpartition("__")[2], by_name(value)
        if value is None or name not in (*BY_NAME, *LISTS):
            continue
        if is_pandas(value, "Series") and names is not None:
            changed[key] = value[~value.index.isin(out)]
        elif isinstance(value, Mapping) or is_pandas(value, "Series"):
            changed[key] = {new.get(label, label): entry for label, entry in value.items() if label not in out}
        elif name in LISTS:
            single = np.ndim(value) == 0 or (isinstance(value, tuple) and value in new)
            entries = [_new_place(entry, new, positions, out, n) for entry in ([value] if single else value)]
            changed[key] = [entry for entry in entries if entry is not None]
        elif np.ndim(value) == 1 and len(value) == n:
            changed[key] = (
                [value[k] for k in columns] if isinstance(value, list | tuple) else np.asarray(value)[columns]
            )
        if name == "groups" and key in changed:
            limits = key.replace("groups", "group_limits")
            changed[limits] = _limits_of(tracker.get_params()[limits], value, changed[key])
    return changed


def _new_place(entry: Any, new: dict[Any, Any], positions: dict[int, int], out: set[Any], n: int) -> Any:
    """Return a name that takes part, the new position of a column, or None; a fit refuses the rest."""
    if entry in new or entry in out:
        return new.get(entry)
    return positions.get(int(entry)) if isinstance(entry, int | np.integer) and 0 <= entry < n else entry


def _limits_of(limits: Any, groups: Any, left: Any) -> Any:
    """Return group limits without upper limits on groups that have no member in a window."""
    limits = by_name(limits)
    if limits is None:
        return None
    before, now = (set(dict(part.items()).values() if hasattr(part, "items") else part) for part in (groups, left))
    gone = before - now
    return {group: ends for group, ends in limits.items() if group not in gone or (np.ravel(ends)[0] or 0.0) > 0.0}


def cut_short(fitted: Any) -> bool:
    """Whether a fit was interrupted, perhaps in another process."""
    from counterpoise.problem import Status

    fitted = getattr(fitted, "best_estimator_", fitted)
    return getattr(getattr(fitted, "result_", None), "status", None) is Status.INTERRUPTED

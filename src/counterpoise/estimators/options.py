"""What estimators share: checks of options and data, warnings, and one thread for small BLAS products."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Collection, Hashable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterpoise.checks import (
    Vector,
    choice,
    is_sparse,
    number,
    random_seed,
    refuse_masked,
    whole_number,
    worker_count,
)
from counterpoise.sentences import require, some
from counterpoise.tables.native import as_pandas, is_missing, is_pandas
from counterpoise.tables.prices import from_objects

if TYPE_CHECKING:
    from counterpoise.problem import Result
    from counterpoise.solvers.population import Population

# Minimum number of rows, and minimum ratio of mean to daily change, for a column to look like prices.
LEAST_ROWS, SMOOTH = 5, 5.0
# Smooth columns look like prices if all values are above HIGH, or above ABOVE in most columns.
HIGH, ABOVE = 5.0, 1.0
# BLAS products with more multiplications than this are worth several threads; in smaller ones these would mostly wait.
SINGLE = 250_000_000


class RunOptions(NamedTuple):
    """Checked options of an estimator that are passed to :func:`counterpoise.minimize`."""

    method: str
    work: int | None
    max_time: float | None
    seed: int
    n_jobs: int | None

    @classmethod
    def of(cls, estimator: Any, methods: Collection[str]) -> RunOptions:
        """Check and return the options of an estimator that supports these methods."""
        return cls(
            choice(estimator.method, "method", methods),
            None if estimator.work is None else whole_number(estimator.work, "work", 1),
            time_limit(estimator.max_time),
            drawn_seed(estimator.random_state),
            worker_count(estimator.n_jobs),
        )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of ``minimize``; only "search" takes ``work`` and ``n_jobs``."""
        arguments = self._asdict()
        if self.method != "search":
            del arguments["work"], arguments["n_jobs"]
        return arguments

    def batches(self, plan: Population) -> int | None:
        """Return the most reports that a search can make, or None if unknown, as for other methods."""
        if self.method != "search" or (self.work is None and self.max_time is not None):
            return None
        return -(-(plan.work if self.work is None else self.work) // plan.batch)


def refuse_unusable(**given: Any) -> None:
    """Refuse masked entries and complex numbers, which conversion to float would silently lose."""
    for name, values in given.items():
        refuse_masked(values, name)
        kinds = list(values.dtypes) if is_pandas(values, "DataFrame") else [getattr(values, "dtype", None)]
        if any(getattr(kind, "kind", "") == "c" for kind in kinds):
            raise ValueError(f"Complex data not supported: {name} holds complex numbers; give real ones.")


def hashable(values: Iterable[Any], name: str, hint: str) -> list[Any]:
    """Return values with None for missing ones; refuse those that cannot be keys, such as lists."""
    found = list(values)
    for value in found:
        if not isinstance(value, Hashable):
            raise TypeError(f"{name} holds {value!r}{hint}")
    return [None if is_missing(value) else value for value in found]


def refuse_non_finite(X: Any, name: str = "X") -> None:
    """Refuse NaN and infinity, with an error that names the first by row and column."""
    sparse = is_sparse(X)
    values = X.data if sparse else X
    # A finite sum implies finite entries; an infinite one may be overflow, so check the entries.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    if sparse:
        entries = X.tocoo()
        places = np.column_stack([entries.row, entries.col])[~np.isfinite(entries.data)]
        row, column = min(places.tolist())
    else:
        row, column = np.argwhere(bad)[0].tolist()
    raise ValueError(
        f"{name} contains NaN or infinity: {X[row, column]} in row {row}, column {column} is the first of "
        f"{int(bad.sum())}; remove or impute them, all entries must be finite."
    )


def on_same_dates(returns: Any, index: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return all three in pandas, the index as one series; refuse dates that differ from those of the returns."""
    returns, index, sample_weight = map(as_pandas, (returns, index, sample_weight))
    if is_pandas(index, "DataFrame"):
        if index.shape[1] != 1:
            raise ValueError(f"index has {index.shape[1]} columns, {some(index.columns)}; it must be one series.")
        index = index.iloc[:, 0]
    same_dates(returns, index, "index")
    same_dates(returns, sample_weight, "sample_weight")
    if is_pandas(index, "Series") and index.dtype.kind in "fO":
        missing = np.flatnonzero(index.isna().to_numpy())
        if len(missing):
            raise ValueError(
                f"index is NaN on {some(map(_date, index.index[missing]), 3)}; drop these dates from both or fill them."
            )
    return returns, index, sample_weight


def same_dates(returns: Any, other: Any, what: str) -> None:
    """Refuse two pandas objects whose dates differ, with an error that names the first differences."""
    if not (is_pandas(returns, "DataFrame") and is_pandas(other, "Series")) or returns.index.equals(other.index):
        return
    lacking = returns.index[~returns.index.isin(other.index)]
    extra = other.index[~other.index.isin(returns.index)]
    found = []
    if len(lacking):
        found.append(f"{what} lacks {some(map(_date, lacking), 3)}, which returns has")
    if len(extra):
        found.append(f"returns lacks {some(map(_date, extra), 3)}, which {what} has")
    if found:
        raise ValueError(f"{'; '.join(found)}: give both on the same dates.")
    if len(returns) != len(other):
        rows = f"returns has {len(returns)} rows and {what} {len(other)}"
        raise ValueError(f"{rows}, because dates are duplicated; drop the duplicates.")
    k = int(np.flatnonzero(np.asarray(returns.index != other.index))[0])
    dates = _date(returns.index[k]), _date(other.index[k])
    raise ValueError(
        f"returns and {what} have the same dates in a different order: row {k} is {dates[0]} in returns and "
        f"{dates[1]} in {what}; sort both."
    )


def check_frame(returns: Any) -> None:
    """Refuse columns with duplicate names, non-numeric values or missing values, with an error that names them."""
    if not returns.columns.is_unique:
        twice = returns.columns[returns.columns.duplicated()]
        raise ValueError(f"returns has more than one column {some(twice.unique())}; names must be unique.")
    types = require("A DataFrame needs", "pandas").api.types
    for name, column in returns.items():
        if types.is_object_dtype(column.dtype):
            from_objects(column, f"Column {name!r} of returns", "returns")
        elif not types.is_numeric_dtype(column.dtype):
            raise ValueError(f"Column {name!r} of returns holds {column.dtype}; returns must be numbers.")
    bad = returns.isna().to_numpy()
    if not bad.any():
        return
    first = [
        f"{returns.columns[k]!r} on {_date(returns.index[bad[:, k].argmax()])}" for k in np.flatnonzero(bad.any(axis=0))
    ]
    raise ValueError(
        f"returns has {int(bad.sum())} missing values (NaN) in {len(first)} columns, the first of each: "
        f"{some(first, 3)}; drop these names or dates, or fill them."
    )


def _date(label: Any) -> str:
    return str(label).removesuffix(" 00:00:00")


def drawn_seed(random_state: Any) -> int:
    """Return a seed drawn from an int, a RandomState or None, as accepted by scikit-learn."""
    if not isinstance(random_state, np.random.RandomState):
        random_seed(random_state, "random_state")
        if random_state is not None and random_state >= 2**32:
            raise ValueError(f"random_state is {random_state}; it must be below 2**32.")
    from sklearn.utils import check_random_state

    return int(check_random_state(random_state).randint(2**31 - 1))


def time_limit(max_time: Any) -> float | None:
    """Check a time limit and return it in seconds, or None for no limit."""
    if max_time is None:
        return None
    seconds = number(max_time, "max_time", 0.0)
    if seconds == 0.0:
        raise ValueError("max_time is 0; it must be positive, or None for no limit.")
    return seconds


def price_columns(values: Vector) -> list[int]:
    """Return the positions of columns that look like prices.

    Such a column is above 5 on every day, and its mean is more than 5 times its mean daily change; above 1 suffices if
    most columns are. Returns in percent do not look like that: no asset gains more than 5 percent, by about the same
    amount, on each of five or more days, and most of a market does not gain more than 1 percent every day.
    """
    if values.ndim == 1:
        values = values[:, None]
    if len(values) < LEAST_ROWS:
        return []
    least, change = values.min(axis=0), np.abs(np.diff(values, axis=0)).mean(axis=0)
    smooth = (least > ABOVE) & (change > 0.0) & (values.mean(axis=0) > SMOOTH * change)
    found = smooth if 2 * int(smooth.sum()) > len(smooth) else smooth & (least > HIGH)
    return [int(k) for k in np.flatnonzero(found)]


def warn(message: str) -> None:
    """Warn the caller outside of this package and of scikit-learn, which calls fits with callbacks and in searches."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(("counterpoise.", "sklearn.")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)


def warn_of_prices(returns: Vector, names: Any, index: Vector) -> None:
    """Warn of columns, or an index, that look like prices instead of returns."""
    found: list[str] = []
    columns = price_columns(returns)
    if columns:
        found.append(f"{some(names[k] for k in columns)} of returns")
    if price_columns(index):
        found.append("the index")
    if found:
        look = "looks" if len(found) == 1 and len(columns) < 2 else "look"
        warn(
            f"{' and '.join(found)} {look} like prices: positive, above 1 and smooth; convert prices to returns with "
            "counterpoise.to_returns."
        )


def warn_if_interrupted(results: Iterable[Result]) -> None:
    """Warn that a fit was interrupted."""
    from counterpoise.problem import Status

    if any(result.status is Status.INTERRUPTED for result in results):
        warn("The fit was interrupted; the best point so far is kept.")


def single_thread(amount: int = 0) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread, unless ``amount`` exceeds SINGLE multiplications."""
    return nullcontext() if amount > SINGLE else _libraries().limit(limits=1, user_api="blas")


@functools.cache
def _libraries() -> Any:
    """Return the BLAS libraries of this process; cached, because finding them takes some milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()

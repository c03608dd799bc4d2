"""Prices to returns: what is missing is reported and treated by a rule that the user names, never in silence."""

from __future__ import annotations

import dataclasses
import difflib
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoise.checks import Vector

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("refuse", "drop-stocks", "drop-days", "carry-forward")
LEAST_DAYS = 3


@dataclasses.dataclass(frozen=True, eq=False)
class Returns:
    """Simple returns of stocks and of an index, as fractions, and sentences about what was done to get them."""

    returns: Vector
    index: Vector
    tickers: list[str]
    dates: list[str]
    notes: list[str]


def read_prices(path: str | os.PathLike[str], index: str, dates: str | None = None) -> tuple[pd.DataFrame, str]:
    """Read a wide table of prices, a row a day, and return it indexed by date, with the index's column name.

    Parameters
    ----------
    path : path
        ``.csv`` or ``.parquet``.
    index : str
        The column of the index.
    dates : str, optional
        The column of dates; by default the first that holds no numbers, else the table's own index.
    """
    path, pandas = Path(path), _pandas()
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist.")
    readers = {".csv": pandas.read_csv, ".parquet": pandas.read_parquet}
    if path.suffix.lower() not in readers:
        raise ValueError(f"{path} has the suffix {path.suffix!r}; prices are one of {', '.join(readers)}.")
    try:
        frame = readers[path.suffix.lower()](path)
    except Exception as error:
        raise ValueError(f"{path} cannot be read as a table: {str(error).splitlines()[0]}.") from None
    frame.columns = [str(column) for column in frame.columns]
    if dates is None:
        words = [name for name in frame.columns if not pandas.api.types.is_numeric_dtype(frame[name])]
        dates = next((name for name in words if name != index), None)
    elif dates not in frame.columns:
        raise ValueError(_no_column(path, dates, frame.columns))
    if dates is not None:
        frame = frame.set_index(_as_dates(path, frame[dates], pandas)).drop(columns=dates)
    if index not in frame.columns:
        raise ValueError(_no_column(path, index, frame.columns))
    _refuse_words(path, frame, pandas)
    return frame.sort_index(), index


def returns_of(prices: tuple[pd.DataFrame, str], missing: str = "refuse") -> Returns:
    """Return simple returns p(t)/p(t−1) − 1.

    Parameters
    ----------
    prices : DataFrame and the name of the index's column
    missing : {"refuse", "drop-stocks", "drop-days", "carry-forward"}
        Of prices that are not there: refuse the table; leave out the stocks or the days concerned; or take a stock's
        last price, leaving out those that have none on the first day.
    """
    if missing not in MISSING:
        raise ValueError(f"missing is {missing!r}; it must be one of {', '.join(MISSING)}.")
    frame, index = prices
    frame, notes = _without_gaps(frame, index, missing)
    if len(frame) < LEAST_DAYS:
        raise ValueError(f"There are {len(frame)} days of prices; at least {LEAST_DAYS} are needed.")
    tickers = [name for name in frame.columns if name != index]
    if len(tickers) < 2:
        raise ValueError(f"There are {len(tickers)} stocks; at least 2 are needed.")
    values = frame.to_numpy(np.float64)
    bad = np.argwhere(~(values > 0.0) | np.isinf(values))
    if len(bad):
        day, column = bad[0]
        place = f"{frame.columns[column]} on {_day(frame.index[day])}"
        raise ValueError(f"The price of {place} is {values[day, column]:g}; prices must be positive and finite.")
    returns = values[1:] / values[:-1] - 1.0
    at = list(frame.columns).index(index)
    days = [_day(day) for day in frame.index[1:]]
    return Returns(np.delete(returns, at, axis=1), returns[:, at], tickers, days, notes)


def _without_gaps(frame: pd.DataFrame, index: str, missing: str) -> tuple[pd.DataFrame, list[str]]:
    """Apply the rule and say what it did."""
    notes = []
    doubled = frame.index.duplicated(keep="last")
    if doubled.any():
        notes.append(f"Left out {int(doubled.sum())} rows of days that come again; the last of each day counts.")
        frame = frame[~doubled]
    lacking = frame[index].isna()
    if lacking.any():
        notes.append(f"Left out {int(lacking.sum())} days on which {index} has no price.")
        frame = frame[~lacking]
    gaps = frame.isna()
    if not gaps.to_numpy().any():
        return frame, notes
    stocks, days, count = gaps.any(axis=0), gaps.any(axis=1), int(gaps.to_numpy().sum())
    first = next(name for name in frame.columns if stocks[name])
    if missing == "refuse":
        raise ValueError(
            f"{count} prices are missing, of {int(stocks.sum())} stocks on {int(days.sum())} days, such as {first} on "
            f"{_day(frame.index[gaps[first].to_numpy().argmax()])}; choose a rule: {', '.join(MISSING[1:])}."
        )
    if missing == "drop-stocks":
        notes.append(f"Left out {int(stocks.sum())} stocks with missing prices: {_some(frame.columns[stocks])}.")
        return frame.loc[:, ~stocks], notes
    if missing == "drop-days":
        notes.append(f"Left out {int(days.sum())} days with missing prices.")
        return frame[~days], notes
    late = gaps.iloc[0]
    if late.any():
        notes.append(
            f"Left out {int(late.sum())} stocks without a price on the first day: {_some(frame.columns[late])}."
        )
        frame = frame.loc[:, ~late]
    carried = int(frame.isna().to_numpy().sum())
    notes.append(f"Took the last price {carried} times where one was missing.")
    return frame.ffill(), notes


def _as_dates(path: Path, column: Any, pandas: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that each date is parsed for itself
            return pandas.to_datetime(column)
    except (ValueError, TypeError):
        raise ValueError(f"Column {column.name} of {path} does not hold dates; name their column.") from None


def _refuse_words(path: Path, frame: pd.DataFrame, pandas: Any) -> None:
    """Name the first cell that is no number."""
    for name in frame.columns:
        if pandas.api.types.is_numeric_dtype(frame[name]):
            continue
        numbers = pandas.to_numeric(frame[name], errors="coerce")
        bad = np.flatnonzero((numbers.isna() & frame[name].notna()).to_numpy())
        where = f", row {bad[0] + 1}: {str(frame[name].iloc[bad[0]])!r}" if len(bad) else ""
        raise ValueError(f"Column {name} of {path} holds words{where}; prices must be numbers.")


def _no_column(path: Path, name: str, columns: Any) -> str:
    near = difflib.get_close_matches(name, list(columns), n=3)
    hint = f"; did you mean {' or '.join(near)}" if near else f"; it has {_some(columns)}"
    return f"{path} has no column {name}{hint}."


def _some(names: Any, most: int = 5) -> str:
    names = [str(name) for name in names]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _day(label: Any) -> str:
    return str(label.date()) if hasattr(label, "date") else str(label)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("Prices need pandas: install the extra with pip install 'counterpoise[data]'.") from None
    return pandas

"""Parse columns of dates such as 2024-01-31, 31.1.2024 or 20240131, and any others that pandas can parse."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from counterpoise.sentences import require

DATE_NAMES = ("date", "dates", "day", "datetime", "time", "timestamp")
# Smallest and largest date written as a whole number, such as 20240131.
COMPACT_DAYS = (19000101, 21991231)
DAY = re.compile(
    r"(\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./](\d{4}|\d{2}))(?![-./\d])"
    r"|\d{1,2}[ -][A-Za-z]{3}|[A-Za-z]{3,9}\.? \d{1,2},? \d{4}\b"
)
# 3/1/2024 or 3/1/24, optionally followed by a time.
DAY_AND_MONTH = re.compile(r"\s*(\d{1,2})[./-](\d{1,2})[./-](\d{4}|\d{2})(?!\d)(.*)")


def is_compact(values: Any) -> Any:
    """Return whether numbers are dates such as 20240131."""
    return (values % 1.0 == 0.0) & (values >= COMPACT_DAYS[0]) & (values <= COMPACT_DAYS[1])


def is_calendar(values: npt.NDArray[Any]) -> bool:
    """Return whether a column holds valid dates such as 20240131, all different."""
    if values.dtype.kind != "f" or len(values) < 2 or not is_compact(values).all():
        return False
    months, days = values // 100 % 100, values % 100
    exist = (months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)
    return bool(exist.all()) and len(np.unique(values)) == len(values)


def as_days(values: npt.NDArray[Any], place: Callable[[int], str]) -> Any:
    """Return a column as a DatetimeIndex; refuse cells that are not dates, with an error that locates the first."""
    pandas = require("Tables need", "pandas")
    column = pandas.Series(values, dtype=values.dtype)
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(f"{place(int(missing.argmax()))} is empty; every row needs its day.")
    if column.dtype.kind == "M":
        return pandas.DatetimeIndex(column)
    if column.dtype.kind == "f":
        said = [f"{value:g}" if value % 1.0 else str(int(value)) for value in column]
        texts = [text if fits else "" for text, fits in zip(said, is_compact(column), strict=True)]
        days = pandas.to_datetime(pandas.Series(texts), format="%Y%m%d", errors="coerce")
    else:
        said = [str(value) for value in column]
        days = _read_days(said, place, pandas)
    bad = np.flatnonzero(days.isna().to_numpy())
    if len(bad):
        raise ValueError(f"{place(int(bad[0]))} is {said[bad[0]]!r}; it must be a day such as 2024-01-31.")
    return pandas.DatetimeIndex(days)


def _read_days(texts: list[str], place: Callable[[int], str], pandas: Any) -> Any:
    """Parse dates; the whole column decides whether 3/1/2024 starts with the day or the month."""
    found = [DAY_AND_MONTH.fullmatch(text) for text in texts]
    for row, each in enumerate(found):
        if each and len(each.group(3)) == 2:
            raise ValueError(f"{place(row)} is {texts[row]!r}, which has a two-digit year; write dates as 2024-01-31.")
    if all(found):
        firsts, seconds = ({int(each.group(k)) for each in found if each} for k in (1, 2))
        if max(firsts) <= 12 and max(seconds) <= 12:
            raise ValueError(
                f"{place(0)} is {texts[0]!r}, which is ambiguous, as are all other dates in the column; "
                "write dates as 2024-01-31."
            )
        day, month = (1, 2) if max(firsts) > 12 else (2, 1)
        texts = [
            f"{each.group(3)}-{each.group(month):0>2}-{each.group(day):0>2}{each.group(4)}" for each in found if each
        ]
    series = pandas.Series(texts)
    days = pandas.to_datetime(series, format="ISO8601", errors="coerce", utc=True).dt.tz_localize(None)
    if not days.isna().all() or not all(re.search(r"\d", text) for text in texts):
        return days
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pandas warns that it parses each date individually
        return pandas.to_datetime(series, errors="coerce", utc=True).dt.tz_localize(None)

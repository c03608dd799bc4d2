"""Checks of tables of returns: matching dates, unique column names, numbers only."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise.sentences import require, some
from counterpoise.tables.native import is_pandas
from counterpoise.tables.prices import from_objects


def one_series(returns: Any, index: Any, sample_weight: Any) -> Any:
    """Return the index as a Series or array; refuse dates that differ from those of the returns."""
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
    return index


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

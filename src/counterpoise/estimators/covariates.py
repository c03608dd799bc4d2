"""Check and standardise a table of units and covariates: one score per number or level of a category."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from counterpoise.checks import Vector, choice, real_array
from counterpoise.estimators.options import hashable, warn
from counterpoise.sentences import some, suggest
from counterpoise.tables.days import DAY, as_days
from counterpoise.tables.native import is_pandas
from counterpoise.tables.read import names_units

# A standard deviation below this, relative to the largest value, is rounding error of a constant column.
CONSTANT = 1e-12
TIMES = ("timedelta", "timedelta64", "period", "time")
DATES = ("date", "datetime", "datetime64")
# How a date may be balanced: as the number of days since the first, or as a category.
DATE_UNITS = ("day", "week", "month", "quarter", "year")
POWERS = {2: "²", 3: "³", 4: "⁴"}


class Covariates(NamedTuple):
    """The quantities to balance: numbers, and indicators of the levels of categories.

    Attributes
    ----------
    names : list of str
        The column's name for a number, "column²" and so on for its moments, or "column = level".
    values : array, units × names
        In the units of the table; 0 or 1 for a level.
    scores : array, units × names
        (value − mean) / standard deviation over all units, the latter with n − 1; 0 for a constant.
    weights : array
        The weight of each name in the objective; a category's weight is divided evenly among its levels.
    index : pandas Index or None
        The labels of the units, if the table has any.
    """

    names: list[str]
    values: Vector
    scores: Vector
    weights: Vector
    index: Any


class _Column(NamedTuple):
    """A number and its moments, each with the full weight, or the levels of a category, which share its weight."""

    names: list[str]
    values: list[Vector]
    scores: list[Vector]
    share: float = 1.0


def read_covariates(
    table: Any,
    weights: Any = None,
    categorical: Any = None,
    left_out: Collection[Any] = (),
    dates: Mapping[Any, str] | None = None,
    moments: int = 1,
) -> Covariates:
    """Read covariates from a DataFrame or a numeric array; ``left_out`` lists columns that are no covariates.

    Numbers and booleans are numbers; other columns of a DataFrame are categories, with one indicator per level. The
    other parameters are those of :func:`counterpoise.balanced_split`.
    """
    frame = is_pandas(table, "DataFrame")
    labels = list(table.columns) if frame else list(range(_array(table).shape[1]))
    _check_shape(len(table), labels)
    chosen = [label for label in labels if label not in left_out]
    if not chosen:
        raise ValueError(f"covariates has no column besides {some(left_out)}; there is nothing to balance.")
    categories = _categories(categorical, chosen)
    units = _date_units(dates, chosen)
    if frame:
        columns = [
            _frame_column(table[label], label, label in categories, units.get(label), moments) for label in chosen
        ]
    else:
        array = _array(table)
        columns = [
            _levels(label, f"x{label}", *np.unique(array[:, label], return_inverse=True))
            if label in categories
            else _number(f"x{label}", array[:, label], moments)
            for label in chosen
        ]
    each = _weights(weights, chosen)
    if frame:
        asked = {
            *categories,
            *units,
            *(weights if is_pandas(weights, "Series") or isinstance(weights, Mapping) else ()),
        }
        _warn_of_names(table, [label for label in chosen if label not in asked])
    return Covariates(
        [name for column in columns for name in column.names],
        np.column_stack([part for column in columns for part in column.values]),
        np.column_stack([part for column in columns for part in column.scores]),
        np.concatenate([np.full(len(c.names), weight * c.share) for c, weight in zip(columns, each, strict=True)]),
        table.index if frame else None,
    )


def _warn_of_names(table: Any, labels: list[Any]) -> None:
    """Warn of columns of different whole numbers that are called like names of units."""
    for label in labels:
        column = table[label]
        if names_units(label) and column.dtype.kind in "iu" and len(column) > 2 and column.is_unique:
            warn(
                f"Column {label!r} of covariates looks like the names of the units, but is balanced as a number; make "
                "it the index, or leave it out."
            )


def aligned(values: Any, index: Any, length: int, name: str) -> Any:
    """Return one value per unit: a Series is reordered to match the units' index, anything else is unchanged."""
    if is_pandas(values, "Series") and index is not None and not values.index.equals(index):
        if not (values.index.is_unique and index.is_unique and set(values.index) == set(index)):
            raise ValueError(f"{name} and covariates have different indexes; both must label the same units.")
        values = values.loc[index]
    elif not hasattr(values, "__len__"):
        raise TypeError(f"{name} is {values!r}; it must hold one value per unit.")
    if len(values) != length:
        raise ValueError(f"{name} has {len(values)} values for {length} units; it must hold one per unit.")
    return values


def keys_of(values: Any, index: Any, length: int, name: str, hint: str) -> list[Any]:
    """Return one plain value per unit that can be a key, None where it is missing; errors end with ``hint``."""
    plain = (getattr(value, "item", lambda value=value: value)() for value in aligned(values, index, length, name))
    return hashable(plain, name, hint)


def unknown_name(name: Any, known: Iterable[Any], what: str) -> str:
    """Return an error message about an unknown name that suggests similar ones."""
    return f"{what} {name!r} is not a covariate; {suggest(name, known)}"


def _array(table: Any) -> Vector:
    array: Vector = real_array(table, "covariates")
    if array.ndim != 2:
        raise ValueError(f"covariates has {array.ndim} dimension(s); it must be a table, units × covariates.")
    return array


def _check_shape(units: int, labels: list[Any]) -> None:
    if units < 2:
        raise ValueError(f"covariates has {units} row(s); a split needs at least two units, one per row.")
    if not labels:
        raise ValueError("covariates has no columns; there is nothing to balance.")
    for label, count in Counter(labels).items():
        if count > 1:
            raise ValueError(f"covariates has more than one column {label!r}; names must be unique.")


def _categories(categorical: Any, labels: list[Any]) -> list[Any]:
    if categorical is None:
        return []
    is_label = isinstance(categorical, tuple) and categorical in labels
    several = isinstance(categorical, Iterable) and not isinstance(categorical, str) and not is_label
    chosen = list(categorical) if several else [categorical]
    for label in chosen:
        if label not in labels:
            raise ValueError(unknown_name(label, labels, "categorical: column"))
    return chosen


def _date_units(dates: Any, labels: list[Any]) -> dict[Any, str]:
    if dates is not None and not isinstance(dates, Mapping):
        raise TypeError(f"dates is {dates!r}; it must map columns to units, such as {{'enrolled': 'month'}}.")
    for label, unit in (dates or {}).items():
        if label not in labels:
            raise ValueError(unknown_name(label, labels, "dates: column"))
        choice(unit, f"dates of {label!r}", DATE_UNITS, quoted=False)
    return dict(dates or {})


def _frame_column(column: Any, label: Any, is_category: bool, unit: str | None, moments: int) -> _Column:
    import pandas

    types = pandas.api.types
    column = column.infer_objects()
    kind = types.infer_dtype(column, skipna=True)
    _refuse_places(column.isna().to_numpy(), column.index, label, "lacks a value")
    if kind in TIMES or types.is_complex_dtype(column.dtype):
        what = "times or periods" if kind in TIMES else "complex numbers"
        raise TypeError(f"Column {label!r} of covariates holds {what}; give real numbers.")
    if unit is not None:
        days = as_days(
            column.to_numpy() if kind in DATES else np.array(column, dtype=object),
            lambda row: f"Column {label!r} of covariates at index {column.index[row]}",
        )
        if unit == "day":
            return _number(f"{label} in days", np.asarray((days - days.min()).days, dtype=np.float64), moments)
        column = pandas.Series(_binned(days, unit), index=column.index, dtype=object)
    elif kind in DATES or (not is_category and kind == "string" and all(map(DAY.match, column))):
        raise TypeError(
            f"Column {label!r} of covariates holds dates; leave it out, or choose a date unit with "
            f"dates={{{label!r}: 'month'}}: {', '.join(DATE_UNITS)}."
        )
    elif not is_category and (types.is_numeric_dtype(column.dtype) or kind == "decimal"):
        numbers = column.to_numpy(dtype=np.float64)
        _refuse_places(~np.isfinite(numbers), column.index, label, "is infinite")
        return _number(str(label), numbers, moments)
    try:
        category = column.astype("category").cat.remove_unused_categories()
    except TypeError:
        raise TypeError(f"Column {label!r} of covariates holds {kind} objects; give numbers or words.") from None
    return _levels(label, str(label), category.cat.categories, category.cat.codes.to_numpy())


def _binned(days: Any, unit: str) -> list[str]:
    """Return the week, month, quarter or year of days."""
    if unit == "quarter":
        return [f"{day.year}-Q{day.quarter}" for day in days]
    return list(days.strftime({"week": "%G-W%V", "month": "%Y-%m", "year": "%Y"}[unit]))


def _number(name: str, values: Vector, moments: int) -> _Column:
    """Return a number and its moments; a number with only two values has none, as they would be redundant."""
    column = _Column([name], [values], [_standardise(values)])
    if len(np.unique(values)) < 3:
        return column
    for power in range(2, moments + 1):
        with np.errstate(over="ignore"):
            column.values.append((values - values.mean()) ** power)
        column.names.append(f"{name}{POWERS[power]}")
        column.scores.append(_standardise(column.scores[0] ** power))
    return column


def _levels(label: Any, name: str, levels: Any, codes: Any) -> _Column:
    """Return one indicator per level; for two levels only that of the second, as the other is redundant."""
    if len(levels) == len(codes):
        raise ValueError(
            f"Column {label!r} of covariates has a different level for each of the {len(codes)} units, which no split "
            "can balance; leave it out or group its levels."
        )
    names = [f"{name} = {level:g}" if isinstance(level, float) else f"{name} = {level}" for level in levels]
    first = int(len(levels) == 2)
    values = [(codes == k).astype(np.float64) for k in range(first, len(levels))]
    return _Column(names[first:], values, [_standardise(part) for part in values], 1.0 / len(values))


def _refuse_places(bad: Any, index: Any, label: Any, what: str) -> None:
    places = np.flatnonzero(bad)
    if len(places):
        raise ValueError(
            f"Column {label!r} of covariates {what} at index {some(index[places], 3)}; remove or impute these "
            "units, all values must be present and finite."
        )


def _weights(weights: Any, labels: list[Any]) -> Vector:
    if weights is None:
        return np.ones(len(labels))
    if is_pandas(weights, "Series"):
        weights = weights.to_dict()
    if isinstance(weights, Mapping):
        for name in weights:
            if name not in labels:
                raise ValueError(unknown_name(name, labels, "weights: name"))
        weights = [weights.get(label, 1.0) for label in labels]
    result: Vector = real_array(weights, "weights")
    if result.shape != (len(labels),):
        raise ValueError(f"weights has shape {result.shape}; it must be ({len(labels)},), one per covariate.")
    if (result < 0.0).any():
        k = int(np.flatnonzero(result < 0.0)[0])
        raise ValueError(f"weights is {result[k]:g} for {labels[k]!r}; a weight must be at least 0.")
    if not result.any():
        raise ValueError("weights are all 0, so nothing is balanced; at least one must be positive.")
    return result


def _standardise(values: Vector) -> Vector:
    """Return standardised scores; dividing by the largest absolute value first avoids overflow."""
    largest = float(np.abs(values).max())
    if largest == 0.0:
        return np.zeros(len(values))
    centred = values / largest
    centred = centred - centred.mean()
    deviation = float(np.sqrt((centred @ centred) / (len(values) - 1)))
    if deviation <= CONSTANT:
        return np.zeros(len(values))
    scores = centred / deviation
    return np.asarray(scores - scores.mean(), dtype=np.float64)

"""Convert prices to returns; an explicit rule handles missing prices, and notes report what it did."""

from __future__ import annotations

import decimal
import numbers
import warnings
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterpoise.checks import Vector, choice
from counterpoise.sentences import are, counted, day_label, percent, require, some, suggest
from counterpoise.tables.native import to_pandas

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("refuse", "drop-stocks", "drop-days", "carry-forward")
ALIGN = ("refuse", "inner")
GIVEN = ("prices", "returns")
LEAST_DAYS = 3
# Returns below LOW or above HIGH are reported, and so are STALE or more consecutive rows without a change.
LOW, HIGH, STALE = -0.45, 0.8, 10
# A ratio of two prices this close to a whole number looks like a split: to 2, as prices may also halve, or to others.
NEAR_TWO, NEAR = 0.03, 0.06
# Maximum number of sentences about oddities of each kind; further names are only listed.
MOST = 5


class FrameReturns(NamedTuple):
    """The result of :func:`to_returns`; it unpacks as returns, index and notes.

    Attributes
    ----------
    returns : DataFrame, or table of the library of the prices, days × stocks
        Simple returns p(t)/p(t−1) − 1 as fractions, dated with the later day.
    index : Series or None
        The returns of the index on the same days.
    notes : list of str
        Sentences that say what was left out or filled in; empty if nothing was.
    """

    returns: Any
    index: Any
    notes: list[str]


def to_returns(
    prices: Any, index: Any = None, missing: str = "refuse", align: str = "refuse", given: str = "prices"
) -> FrameReturns:
    """Convert a table of prices, and an index, to simple returns p(t)/p(t−1) − 1 on the same days.

    By default, missing prices and an index with other days raise an error; choose a rule to handle them instead, and
    ``notes`` says what it did. A warning gives the name and date of anything that looks like a mistake: a total loss, a
    move like that of an unadjusted stock split, or a price that stays the same for ten rows or more.

    Parameters
    ----------
    prices : DataFrame, or table of Polars or Arrow with a column of days, days × stocks
        Positive prices in chronological order. Returns are between consecutive rows, however many days apart.
    index : column name or Series, optional
        The prices of the index: a column of ``prices``, or a Series (or DataFrame of one column) with its own days. A
        Polars or Arrow column is taken to have the days of ``prices``.
    missing : {"refuse", "drop-stocks", "drop-days", "carry-forward"}
        How to handle missing prices: raise an error; leave out the stocks, or the days, that have any; or use a stock's
        last known price, leaving out stocks without a price on the first day. All rules but "refuse" also leave out
        days on which the index has no price.
    align : {"refuse", "inner"}
        How to handle an index whose days differ from those of the stocks: raise an error, or keep common days only.
    given : {"prices", "returns"}
        What the tables contain. Returns of stocks and index are checked and aligned in the same way, but not converted.

    Returns
    -------
    FrameReturns
        With ``returns``, ``index`` and ``notes``, as attributes or unpacked, in the library of ``prices``.

    Examples
    --------
    >>> import pandas as pd
    >>> days = pd.date_range("2024-01-02", periods=4)
    >>> prices = pd.DataFrame({"AAA": [10.0, 11, 11, 13.2], "BBB": [5.0, 5, None, 6]}, index=days)
    >>> spx = pd.Series([100.0, 101, 102, 104, 105], index=pd.date_range("2024-01-02", periods=5), name="SPX")
    >>> returns, index, notes = to_returns(prices, spx, missing="drop-days", align="inner")
    >>> returns.round(3).to_numpy().tolist()
    [[0.1, 0.0], [0.2, 0.2]]
    >>> notes
    ['Left out 1 day that only the index has: 2024-01-06.', 'Left out 1 day with missing prices.']
    """
    pandas = require("Prices need", "pandas")
    choice(align, "align", ALIGN, quoted=False)
    word = choice(given, "given", GIVEN, quoted=False).removesuffix("s")
    prices, native = to_pandas(prices, dated=True)
    index, column = to_pandas(index, dated=True)
    if column is not None and index.ndim == 1 and len(index) == len(prices):
        index = index.set_axis(prices.index)
    if native is not None:
        found = to_returns(prices, index, missing, align, given)
        of_index = None if found.index is None else native.column(found.index, str(found.index.name or "index"))
        return FrameReturns(native.table(found.returns), of_index, found.notes)
    prices = _checked_table(prices, "prices", pandas)
    frame, label = prices, None
    notes: list[str] = []
    if isinstance(index, pandas.Series | pandas.DataFrame):
        frame, label, notes = _joined(prices, index, align, pandas)
    elif index is not None:
        if not isinstance(index, Hashable):
            raise TypeError(
                f"index is of type {type(index).__name__}; it must be a column's name, or a Series with its days."
            )
        if index not in prices.columns:
            raise ValueError(f"prices has no column {index}; {suggest(index, prices.columns, 'it has {}')}")
        label = index
    if word == "return" and len(frame) and frame.iloc[0].isna().all():  # as pct_change of pandas leaves it
        notes = [*notes, f"Left out {day_label(frame.index[0])}, which has no returns."]
        frame = frame.iloc[1:]
    frame, values, said = _checked(frame, label, missing, word)
    if word == "price":
        frame, values = frame.iloc[1:], values[1:] / values[:-1] - 1.0
    for sentence in _oddities(values, frame.columns, frame.index):
        warnings.warn(sentence, UserWarning, stacklevel=2)
    returns = pandas.DataFrame(values, index=frame.index, columns=frame.columns)
    if label is None:
        return FrameReturns(returns, None, notes + said)
    of_index = returns.pop(label)
    if isinstance(index, pandas.Series):
        of_index.name = index.name
    return FrameReturns(returns, of_index, notes + said)


def _joined(prices: pd.DataFrame, index: Any, align: str, pandas: Any) -> tuple[pd.DataFrame, Any, list[str]]:
    """Join the index to the stocks by the rule ``align``; return the table, the index's column name and notes."""
    index = only_column(index)
    label = index.name if index.name is not None and index.name not in prices.columns else "the index"
    index = _checked_table(index.to_frame(label), "index", pandas)[label]
    if prices.index.equals(index.index):
        frame = prices.copy()
        frame[label] = index
        return frame, label, []
    only_stocks, only_index = prices.index.difference(index.index), index.index.difference(prices.index)
    if align == "refuse":
        where = " and ".join(
            f"{len(days)} that only {who} (the first is {day_label(days[0])})"
            for days, who in ((only_stocks, "prices has"), (only_index, "the index has"))
            if len(days)
        )
        raise ValueError(f'prices and index have different days: {where}; align="inner" keeps those of both.')
    common = prices.index.intersection(index.index)
    if not len(common):
        raise ValueError(
            f"prices and index share no day: one begins {day_label(prices.index[0])} as {prices.index.dtype}, the "
            f"other {day_label(index.index[0])} as {index.index.dtype}; both must use the same kind of days."
        )
    notes = [
        f"Left out {counted(len(days), 'day')} that only {who}: {some(map(day_label, days))}."
        for days, who in ((only_stocks, "the stocks have"), (only_index, "the index has"))
        if len(days)
    ]
    frame = prices.loc[common].copy()
    frame[label] = index.loc[common]
    return frame, label, notes


def _checked_table(frame: Any, name: str, pandas: Any) -> Any:
    """Return a table of numbers, also from Decimal and the like; refuse other cells, and what labels must not be."""
    if not isinstance(frame, pandas.DataFrame):
        raise TypeError(
            f"{name} is of type {type(frame).__name__}; it must be a DataFrame, one row per day, one column per stock."
        )
    check_labels(frame, name)
    frame = frame.copy(deep=False)
    for label in frame.columns:
        column, where = frame[label], f"Column {label} of {name}"
        if pandas.api.types.is_complex_dtype(column):
            raise ValueError(f"{where} holds complex numbers; prices must be real.")
        if not pandas.api.types.is_numeric_dtype(column):
            frame[label] = from_objects(column, where)
    return frame


def only_column(index: Any) -> Any:
    """Return a Series unchanged, and a DataFrame of one column as a Series."""
    if index.ndim == 2 and index.shape[1] != 1:
        raise ValueError(f"index has {index.shape[1]} columns; it must be a Series or have one column.")
    return index if index.ndim == 1 else index.iloc[:, 0]


def check_labels(frame: Any, name: str) -> None:
    """Refuse duplicate days, unsorted days and duplicate names."""
    if frame.ndim == 2 and not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"{name} has more than one column {twice!r}; names must be unique.")
    days = frame.index
    if not days.is_unique:
        twice = days[days.duplicated()][0]
        raise ValueError(f"{name} has more than one row of {day_label(twice)}; keep one row per day.")
    if not days.is_monotonic_increasing:
        values = list(days)
        late = next((k for k in range(1, len(values)) if not values[k - 1] < values[k]), 1)
        raise ValueError(
            f"The days of {name} are not in order: {day_label(values[late])} comes after "
            f"{day_label(values[late - 1])}; sort the rows, as by sort_index()."
        )


def _rules_for(word: str) -> tuple[str, ...]:
    """Return the rules for missing prices or returns, except "refuse"; only prices can be carried forward."""
    return MISSING[1:] if word == "price" else MISSING[1:-1]


def _checked(frame: pd.DataFrame, index: Any, missing: str, word: str) -> tuple[pd.DataFrame, Vector, list[str]]:
    """Return prices or returns without gaps, their values and notes; refuse too few, and impossible values."""
    choice(missing, "missing", MISSING, quoted=False)
    if missing not in (MISSING[0], *_rules_for(word)):
        raise ValueError(f"missing is {missing}, a rule for prices; of returns it is {', '.join(_rules_for(word))}.")
    frame, notes = _without_gaps(frame, index, missing, word)
    least = LEAST_DAYS - (word != "price")
    if len(frame) < least:
        raise ValueError(f"There {are(len(frame), 'day')} of {word}s; at least {least} are needed.")
    stocks = frame.shape[1] - (index is not None)
    if stocks < 2:
        raise ValueError(f"There {are(stocks, 'stock')}; at least 2 are needed.")
    values = frame.to_numpy(np.float64)
    bad = np.argwhere(~(values > 0.0 if word == "price" else values >= -1.0) | np.isinf(values))
    if len(bad):
        day, column = bad[0]
        place = f"{frame.columns[column]} on {day_label(frame.index[day])}"
        right = "prices must be positive and finite"
        if word != "price":
            right = "a return is finite and at least −1, a loss of everything: give fractions, not percent"
        elif look_like_returns(values):
            right += '; the table looks like returns, which given="returns" takes'
        raise ValueError(f"The {word} of {place} is {values[day, column]:g}; {right}.")
    return frame, values, notes


def look_like_returns(values: Vector) -> bool:
    """Return whether most columns are often negative, like returns and unlike prices."""
    with np.errstate(invalid="ignore"):
        negative = (values < 0.0).mean(axis=0)
    return bool(np.median(negative) > 0.2)


def look_like_prices(values: Vector) -> bool:
    """Return whether most columns stay above 1 and vary little, like prices and unlike returns."""
    with np.errstate(all="ignore"):
        above = (values > 1.0).all(axis=0) & (values.mean(axis=0) > 2.0 * values.std(axis=0))
    return bool(above.mean() > 0.5)


def _without_gaps(frame: pd.DataFrame, index: Any, missing: str, word: str) -> tuple[pd.DataFrame, list[str]]:
    """Apply the rule for missing prices or returns; return the table and notes."""
    notes = []
    lacking = frame[index].isna().to_numpy() if index is not None else np.zeros(len(frame), bool)
    if lacking.any():
        if missing == "refuse":
            raise ValueError(
                f"{counted(lacking.sum(), word)} of {index} {'is' if lacking.sum() == 1 else 'are'} missing, such as "
                f"that of {day_label(frame.index[lacking.argmax()])}; choose a rule: {', '.join(_rules_for(word))}."
            )
        notes.append(f"Left out {counted(lacking.sum(), 'day')} on which {index} has no {word}.")
        frame = frame[~lacking]
    gaps = frame.isna()
    if not gaps.to_numpy().any():
        return frame, notes
    stocks, days, count = gaps.any(axis=0), gaps.any(axis=1), int(gaps.to_numpy().sum())
    first = next(name for name in frame.columns if stocks[name])
    if missing == "refuse":
        raise ValueError(
            f"{counted(count, word)} {'is' if count == 1 else 'are'} missing, of {counted(stocks.sum(), 'stock')} "
            f"on {counted(days.sum(), 'day')}, such as {first} on "
            f"{day_label(frame.index[gaps[first].to_numpy().argmax()])}; choose a rule: {', '.join(_rules_for(word))}."
        )
    if missing == "drop-stocks":
        which = some(frame.columns[stocks])
        notes.append(f"Left out {counted(stocks.sum(), 'stock')} with missing {word}s: {which}.")
        return frame.loc[:, ~stocks], notes
    if missing == "drop-days":
        notes.append(f"Left out {counted(days.sum(), 'day')} with missing {word}s.")
        return frame[~days], notes
    late = gaps.iloc[0]
    if late.any():
        notes.append(
            f"Left out {counted(late.sum(), 'stock')} without a price on the first day: {some(frame.columns[late])}."
        )
        frame = frame.loc[:, ~late]
    carried = int(frame.isna().to_numpy().sum())
    notes.append(f"Took the last price {'once' if carried == 1 else f'{carried} times'} where one was missing.")
    return frame.ffill(), notes


def from_objects(column: Any, where: str, what: str = "prices") -> Vector:
    """Convert a column of objects to floats, with NaN for missing ones; refuse objects that are not numbers."""
    for day, value in column[column.notna()].items():
        if isinstance(value, bool) or not isinstance(value, numbers.Real | decimal.Decimal):
            kind = type(value).__name__
            raise ValueError(f"{where} holds {value!r} on {day_label(day)}, a {kind}; {what} must be numbers.")
    return np.array([np.nan if missing else float(value) for value, missing in zip(column, column.isna(), strict=True)])


# Returns that look like mistakes.


def _oddities(returns: Vector, names: Iterable[Any], labels: Sequence[Any]) -> list[str]:
    """Return a sentence for each total loss, split-like move and long run of zeros in returns, days × names."""
    known = list(names)
    lost = [(j, f"{known[j]} lost 100 % {_on(labels[i])}, all that it was worth.") for i, j in _places(returns <= -1.0)]
    moves = [
        (j, _move(known[j], returns[i, j], _on(labels[i])))
        for i, j in _places(((returns < LOW) | (returns > HIGH)) & (returns > -1.0))
    ]
    stale = []
    for j in np.flatnonzero((returns == 0.0).sum(axis=0) >= STALE):
        first, length = _longest_run(returns[:, j] == 0.0)
        if STALE <= length < len(returns):
            days = f"{_on(labels[first], 'from')} to {day_label(labels[first + length - 1])}"
            stale.append((j, f"{known[j]} has the same price in {length} rows, {days}; it may be stale."))
    return [sentence for found in (lost, moves, stale) for sentence in _shortened(found, known)]


def _places(chosen: Any) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in np.argwhere(chosen)]


def _on(label: Any, word: str = "on") -> str:
    return f"{word} {day_label(label)}" if hasattr(label, "date") else f"{word if word != 'on' else 'in'} row {label}"


def _move(name: Any, by: float, when: str) -> str:
    verb, ratio = ("fell", 1.0 / (1.0 + by)) if by < 0.0 else ("rose", 1.0 + by)
    whole = round(ratio)
    near = abs(ratio - whole) <= (NEAR_TWO if whole == 2 else NEAR) * whole
    like = f"{whole} for 1" if by < 0.0 else f"1 for {whole}"
    split = f"which looks like a split of {like} that prices are not adjusted for"
    return f"{name} {verb} by {percent(abs(by))} {when}, {split if near else 'which is much for one row'}."


def _longest_run(zero: Any) -> tuple[int, int]:
    """Return the start of the longest run of True, and its length."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], zero.astype(np.int8), [0]])))
    lengths = edges[1::2] - edges[::2]
    best = int(lengths.argmax())
    return int(edges[2 * best]), int(lengths[best])


def _shortened(found: list[tuple[Any, str]], names: list[Any]) -> list[str]:
    said = [sentence for _, sentence in found[:MOST]]
    others = dict.fromkeys(names[j] for j, _ in found[MOST:])
    return [*said, f"The same holds for {some(others, 8)}."] if others else said

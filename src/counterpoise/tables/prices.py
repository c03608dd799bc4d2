"""Convert prices to returns; an explicit rule handles missing prices, and notes report what it did."""

from __future__ import annotations

import decimal
import numbers
import warnings
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterpoise.checks import Vector, choice, whole_number
from counterpoise.sentences import are, counted, day_label, percent, require, some, suggest
from counterpoise.tables.native import to_pandas
from counterpoise.tables.oddities import oddities

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("refuse", "drop-stocks", "drop-days", "carry-forward")
ALIGN = ("refuse", "inner")
GIVEN = ("prices", "returns")
LEAST_DAYS = 3
# A missing price is replaced by the last one for at most this many rows.
CARRY_DAYS = 5
# A warning with these words is issued if at least this share of the stocks is left out.
MANY, FEW_LEFT = 0.1, "left out because of missing prices"


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
    prices: Any,
    index: Any = None,
    missing: str = "refuse",
    align: str = "refuse",
    given: str = "prices",
    *,
    carry_days: int = CARRY_DAYS,
    partial: bool = False,
) -> FrameReturns:
    """Convert a table of prices, and an index, to simple returns p(t)/p(t−1) − 1 on the same days.

    By default, missing prices and an index with other days raise an error; choose a rule to handle them instead, and
    ``notes`` says what it did. A warning is issued if a tenth of the stocks or more is left out.

    Warnings also give the name and date of anything that looks like a mistake: a total loss, a move
    like that of an unadjusted stock split, or a price that stays the same for ten rows or more. A split
    is recognised by its ratio (2 for 1, 3 for 2, 1 for 10 and so on) if the move, less that of the
    index on that day, is far larger than the stock's other moves. Splits as small as 5 for 4 are
    recognised only for stocks that move little: reports of earnings move others as much.

    Parameters
    ----------
    prices : DataFrame, or table of Polars or Arrow with a column of days, days × stocks
        Positive prices in chronological order. Returns are between consecutive rows, however many days apart.
    index : column name or Series, optional
        The prices of the index: a column of ``prices``, or a Series (or DataFrame of one column) with its own days. A
        Polars or Arrow column is taken to have the days of ``prices``.
    missing : {"refuse", "drop-stocks", "drop-days", "carry-forward"}
        How to handle missing prices: raise an error; leave out the stocks, or the days, that have any;
        or use a stock's last known price for at most ``carry_days`` rows, leaving out stocks with
        longer gaps, or without a price on the first or the last day: a stock without a price on the
        last day cannot be bought. "drop-days" leaves out stocks whose prices end more than
        ``carry_days`` rows before the last day. All rules but "refuse" also leave out days on which no
        stock, or the index, has a price.
    align : {"refuse", "inner"}
        How to handle an index whose days differ from those of the stocks: raise an error, or keep common days only.
    given : {"prices", "returns"}
        What the tables contain. Returns of stocks and index are checked and aligned in the same way, but not converted.
    carry_days : int
        For how many rows the last price stands for missing ones.
    partial : bool
        Keep stocks that are listed or delisted within the table, for :func:`counterpoise.backtest`:
        returns are NaN on rows without a price, and ``missing`` applies only between a stock's first
        and last price. With "carry-forward", the return after a gap of at most ``carry_days`` rows is
        since the last price; pass the same ``carry_days`` to ``backtest``.

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
    carry_days = whole_number(carry_days, "carry_days", 0)
    prices, native = to_pandas(prices, dated=True)
    index, column = to_pandas(index, dated=True)
    if column is not None and index.ndim == 1 and len(index) == len(prices):
        index = index.set_axis(prices.index)
    if native is not None:
        found = to_returns(prices, index, missing, align, given, carry_days=carry_days, partial=partial)
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
    before = frame.shape[1] - (label is not None)
    frame, said = _checked(frame, label, missing, word, carry_days, partial)
    returns = _simple_returns(frame, carry_days) if word == "price" else frame.astype(np.float64)
    of_index = None if label is None else returns.pop(label)
    if not partial:
        returns, left_out = complete(returns, carry_days if word == "price" else 0)
        said += left_out
    _refuse_few_stocks(returns.shape[1])
    warned = few_left(returns.shape[1], before)
    kept = [*returns.columns, *([] if label is None else [label])]
    for sentence in [*warned, *oddities(frame[kept], returns, of_index, word)]:
        warnings.warn(sentence, UserWarning, stacklevel=2)
    if of_index is not None and isinstance(index, pandas.Series):
        of_index.name = index.name
    return FrameReturns(returns, of_index, notes + said)


def _simple_returns(prices: pd.DataFrame, carry_days: int) -> pd.DataFrame:
    """Return p(t)/p(t−1) − 1, with p(t−1) carried for at most ``carry_days`` rows; NaN without p(t)."""
    values = prices.to_numpy(np.float64)
    last = values
    if carry_days:
        last = prices.astype(np.float64).ffill(limit=carry_days).to_numpy()
    returns = values[1:] / last[:-1] - 1.0
    if carry_days:
        # A first price that is carried to the next row: without a return here it would seem to come later.
        before = np.vstack([np.full(values.shape[1], np.nan), returns[:-1]])
        returns[np.isnan(values[1:]) & ~np.isnan(values[:-1]) & np.isnan(before)] = 0.0
    return type(prices)(returns, index=prices.index[1:], columns=prices.columns)


def carried(returns: Vector, carry_days: int) -> Vector:
    """Return returns with 0 instead of NaN where the last number is at most ``carry_days`` rows before."""
    known = ~np.isnan(returns)
    rows = np.arange(len(returns))[:, None]
    last = np.maximum.accumulate(np.where(known, rows, -len(returns) - carry_days - 1), axis=0)
    return np.where(~known & (rows - last <= carry_days), 0.0, returns)


def complete(returns: pd.DataFrame, carry_days: int) -> tuple[pd.DataFrame, list[str]]:
    """Return the stocks that can be fitted on all rows and bought on the last one, and notes on the others."""
    values = returns.to_numpy(np.float64)
    known = ~np.isnan(values)
    if known.all():
        return returns, []
    filled = carried(values, carry_days)
    first, last = ~known[0], ~known[-1]
    gaps = np.isnan(filled).any(axis=0) & ~first & ~last
    notes = []
    if first.any():
        which = some(returns.columns[first])
        notes.append(f"Left out {counted(first.sum(), 'stock')} without a price on the first day: {which}.")
    late = last & ~first
    if late.any():
        ends = [len(known) - 1 - int(known[::-1, j].argmax()) for j in np.flatnonzero(late)]
        names = zip(returns.columns[late], ends, strict=True)
        which = some(f"{name} (until {day_label(returns.index[end])})" for name, end in names)
        notes.append(
            f"Left out {counted(late.sum(), 'stock')} without a price on the last day, "
            f"{day_label(returns.index[-1])}, which cannot be bought: {which}."
        )
    if gaps.any():
        lack = "with gaps in the prices"
        if carry_days:
            lack = f"without a price for more than {counted(carry_days, 'row')}"
        notes.append(f"Left out {counted(gaps.sum(), 'stock')} {lack}: {some(returns.columns[gaps])}.")
    kept = ~(first | last | gaps)
    times = int((~known[:, kept]).sum())
    if times:
        notes.append(f"Took the last price {'once' if times == 1 else f'{times} times'} where one was missing.")
    return type(returns)(filled[:, kept], index=returns.index, columns=returns.columns[kept]), notes


def few_left(left: int, count: int) -> list[str]:
    """Return a warning if a tenth of the stocks or more was left out; see ``FEW_LEFT``."""
    lost = count - left
    if lost == 0 or lost < MANY * count:
        return []
    return [
        f"{lost} of {counted(count, 'stock')} {'is' if lost == 1 else 'are'} {FEW_LEFT}, "
        f"{percent(lost / count)}; the others may not be a fair sample of the index."
    ]


def _refuse_few_stocks(count: int) -> None:
    if count < 2:
        raise ValueError(f"There {are(count, 'stock')}; at least 2 are needed.")


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


def _checked(
    frame: pd.DataFrame, index: Any, missing: str, word: str, carry_days: int, partial: bool
) -> tuple[pd.DataFrame, list[str]]:
    """Apply the rule for missing prices or returns; refuse too few, and impossible values; return notes as well."""
    choice(missing, "missing", MISSING, quoted=False)
    if missing not in (MISSING[0], *_rules_for(word)):
        raise ValueError(f"missing is {missing}, a rule for prices; of returns it is {', '.join(_rules_for(word))}.")
    frame, notes = _without_gaps(frame, index, missing, word, carry_days, partial)
    least = LEAST_DAYS - (word != "price")
    if len(frame) < least:
        raise ValueError(f"There {are(len(frame), 'day')} of {word}s; at least {least} are needed.")
    _refuse_few_stocks(frame.shape[1] - (index is not None))
    values = frame.to_numpy(np.float64)
    bad = np.argwhere((values <= 0.0 if word == "price" else values < -1.0) | np.isinf(values))
    if len(bad):
        day, column = bad[0]
        place = f"{frame.columns[column]} on {day_label(frame.index[day])}"
        right = "prices must be positive and finite"
        if word != "price":
            right = "a return is finite and at least −1, a loss of everything: give fractions, not percent"
        elif look_like_returns(values):
            right += '; the table looks like returns, which given="returns" takes'
        raise ValueError(f"The {word} of {place} is {values[day, column]:g}; {right}.")
    return frame, notes


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


def _without_gaps(
    frame: pd.DataFrame, index: Any, missing: str, word: str, carry_days: int, partial: bool
) -> tuple[pd.DataFrame, list[str]]:
    """Apply the rule for missing prices or returns; return the table and notes.

    With "carry-forward" the table keeps its gaps, and so do, if ``partial``, names before their first and after their
    last price.
    """
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
    if index is not None:
        gaps = gaps.drop(columns=index)
    empty = gaps.to_numpy().all(axis=1)
    if missing != "refuse" and empty.any() and not empty.all():
        notes.append(f"Left out {counted(empty.sum(), 'day')} on which no stock has a {word}.")
        frame, gaps = frame[~empty], gaps[~empty]
    ended = gaps.iloc[::-1].cummin().iloc[::-1]
    if partial:
        never = gaps.all()
        if never.any():
            notes.append(f"Left out {counted(never.sum(), 'stock')} without any {word}: {some(gaps.columns[never])}.")
            frame, gaps, ended = (part.drop(columns=gaps.columns[never]) for part in (frame, gaps, ended))
        gaps = gaps & ~gaps.cummin() & ~ended
    if missing == "carry-forward" or not gaps.to_numpy().any():
        return frame, notes
    if missing == "drop-days" and not partial:
        gone = ended.sum() > carry_days
        if gone.any():
            which = some(gaps.columns[gone])
            notes.append(
                f"Left out {counted(gone.sum(), 'stock')} without a {word} in the last {carry_days + 1} rows or more, "
                f"which cannot be bought: {which}."
            )
            frame, gaps = frame.drop(columns=gaps.columns[gone]), gaps.loc[:, ~gone]
    stocks, days, count = gaps.any(axis=0), gaps.any(axis=1), int(gaps.to_numpy().sum())
    if missing == "refuse":
        first = gaps.columns[stocks][0]
        raise ValueError(
            f"{counted(count, word)} {'is' if count == 1 else 'are'} missing, of {counted(stocks.sum(), 'stock')} "
            f"on {counted(days.sum(), 'day')}, such as {first} on "
            f"{day_label(frame.index[gaps[first].to_numpy().argmax()])}; choose a rule: {', '.join(_rules_for(word))}."
        )
    if missing == "drop-stocks":
        which = some(gaps.columns[stocks])
        notes.append(f"Left out {counted(stocks.sum(), 'stock')} with missing {word}s: {which}.")
        return frame.drop(columns=gaps.columns[stocks]), notes
    if days.any():
        notes.append(f"Left out {counted(days.sum(), 'day')} with missing {word}s.")
    return frame[~days], notes


def from_objects(column: Any, where: str, what: str = "prices") -> Vector:
    """Convert a column of objects to floats, with NaN for missing ones; refuse objects that are not numbers."""
    for day, value in column[column.notna()].items():
        if isinstance(value, bool) or not isinstance(value, numbers.Real | decimal.Decimal):
            kind = type(value).__name__
            raise ValueError(f"{where} holds {value!r} on {day_label(day)}, a {kind}; {what} must be numbers.")
    return np.array([np.nan if missing else float(value) for value, missing in zip(column, column.isna(), strict=True)])

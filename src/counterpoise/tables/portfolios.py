"""Read prices (wide or long), an index, and small tables of weights, groups and limits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from counterpoise.sentences import counted, day_label, require, some, suggest
from counterpoise.tables.read import SUFFIXES, Sheet, read_sheet

TICKER_NAMES = ("ticker", "tickers", "symbol", "name", "asset", "stock", "isin", "id", "permno")
PRICE_NAMES = ("adj close", "adj_close", "adjclose", "adjusted close", "adjusted", "close", "price", "value")
WEIGHT_NAMES = ("weight", "weights")
GROUP_NAMES = ("group", "sector", "industry", "country")
LOW_NAMES, HIGH_NAMES = ("low", "min", "least"), ("high", "max", "most")


class Prices(NamedTuple):
    """A wide table of prices, days × names, with notes for the user."""

    frame: Any
    dated: bool
    notes: list[str]


def read_prices(path: Path, dates: str | None = None, ignore: Sequence[str] = (), **marks: Any) -> Prices:
    """Read prices: wide, one column per name; or long, with columns such as date, ticker and price.

    Columns in ``ignore`` are left out; ``marks`` are the ``separator`` and ``decimal`` of
    :func:`counterpoise.tables.read.read_sheet`.
    """
    sheet = read_sheet(path, **marks)
    sheet = sheet.without([sheet.require(name, "--ignore") for name in ignore])
    day = sheet.date_column(dates)
    if day is None:
        frame = _wide(sheet, sheet.names)
        return Prices(frame, False, [*sheet.notes, f"{path} has no days; its rows are taken in their order."])
    days = sheet.days(day)
    ticker = _ticker_column(sheet, day) if days.has_duplicates else None
    if ticker is not None:
        frame, notes = _long(sheet, day, days, ticker)
        return Prices(frame, True, [*sheet.notes, *notes])
    frame = _wide(sheet, [name for name in sheet.names if name != day])
    frame.index = days.rename("date")
    return Prices(frame.sort_index(), True, sheet.notes)


def _ticker_column(sheet: Sheet, day: str) -> str | None:
    named = sheet.one_of(TICKER_NAMES, besides=[day])
    if named is not None:
        return named
    words = [name for name in sheet.words if name != day and not sheet.is_mixed(name)]
    return words[0] if len(words) == 1 else None


def _wide(sheet: Sheet, names: list[str]) -> Any:
    for name in names:
        if name in sheet.words and not sheet.is_mixed(name):
            raise ValueError(
                f"Column {name!r} of {sheet.path} holds words such as {next(filter(None, sheet.text(name)))!r}; prices "
                f"must be numbers without a unit; correct the column, or leave it out with --ignore {name}."
            )
        sheet.numbers(name, "prices must be numbers")
    return sheet.frame[names].astype(float)


def _long(sheet: Sheet, day: str, days: Any, ticker: str) -> tuple[Any, list[str]]:
    """Pivot a long table to a wide one; return it and notes."""
    import pandas

    price = _price_column(sheet, [day, ticker])
    tickers = sheet.labels(ticker)
    prices = sheet.numbers(price, "prices must be numbers")
    long = pandas.DataFrame({"date": days, "ticker": tickers, "price": prices})
    twice = long.duplicated(["date", "ticker"]).to_numpy()
    if twice.any():
        row = int(twice.argmax())
        raise ValueError(
            f"{sheet.place(row, ticker)}: there is another price of {tickers[row]} on {day_label(days[row])}; keep one."
        )
    wide = long.pivot(index="date", columns="ticker", values="price").sort_index()
    wide = wide[list(dict.fromkeys(tickers))]
    wide.columns.name = None
    return wide, [f"Read {sheet.path} as a long table: names from {ticker!r}, prices from {price!r}."]


def _price_column(sheet: Sheet, besides: list[str]) -> str:
    """Return the only numeric column, or one named price, close or similar."""
    others = [name for name in sheet.names if name not in besides]
    numeric = [name for name in others if name not in sheet.words or sheet.is_mixed(name)]
    if len(numeric) == 1:
        return numeric[0]
    named = sheet.one_of(PRICE_NAMES, besides)
    if named is not None:
        return named
    if not numeric:
        raise ValueError(f"{sheet.path} has no column of numbers; it needs one of prices.")
    raise ValueError(
        f"{sheet.path} has {len(numeric)} columns of numbers, {some(numeric)}, and none is called close or price; "
        "keep one."
    )


def read_index(given: str, prices: Prices, path: Path, **marks: Any) -> tuple[Any, list[str]]:
    """Return the index, as the name of a column of the prices or a Series read from its own file, and notes."""
    file, columns = Path(given), list(prices.frame.columns)
    if given in columns:
        if file.is_file():
            raise ValueError(f"--index is {given}, a column of {path} and also a file; write ./{given} for the file.")
        return given, []
    if not file.is_file():
        if file.suffix.lower() in SUFFIXES or "/" in given:
            raise FileNotFoundError(f"--index is {given}, which does not exist, nor is it a column of {path}.")
        hint = suggest(given, columns, "its columns are {}", quoted=True)
        raise ValueError(f"--index is {given!r}, but {path} has no such column; {hint}")
    sheet = read_sheet(file, **marks)
    day = sheet.date_column()
    if day is None or not prices.dated:
        raise ValueError(f"{file if day is None else path} has no days, so rows of the two cannot be matched.")
    column = _price_column(sheet, [day])
    series = require("Tables need", "pandas").Series(
        sheet.numbers(column, "prices must be numbers"), sheet.days(day), name=column
    )
    notes = [f"Took the index from column {column!r} of {file}."] if len(sheet.names) > 2 else []
    return series.sort_index(), notes


# Small tables that accompany the prices.


def read_pairs(path: Path, value_names: Sequence[str], option: str) -> tuple[Sheet, str, str]:
    """Read a table with one value per name; return it and the names of its two columns."""
    sheet = read_sheet(path)
    if len(sheet.names) < 2:
        raise ValueError(f"{option} is {path}, which has one column; it needs two, names and {value_names[0]}s.")
    name = sheet.one_of(TICKER_NAMES) or next(each for each in sheet.names if each.lower() not in value_names)
    value = sheet.one_of(value_names, besides=[name]) or next(each for each in sheet.names if each != name)
    names = sheet.labels(name)
    for row, each in enumerate(names):
        if each in names[:row]:
            raise ValueError(f"{sheet.place(row, name)} is {each!r}, which is a duplicate; keep one row per name.")
    return sheet, name, value


def read_weights(path: Path, option: str, column: str | None = None, column_option: str = "") -> dict[str, float]:
    """Read weights by name, such as the weights.csv that ``track`` writes; empty cells are 0.

    ``column`` selects a column other than the default one.
    """
    sheet, name, value = read_pairs(path, WEIGHT_NAMES, option)
    if column is not None:
        value = sheet.require(column, column_option)
    weights = np.nan_to_num(sheet.numbers(value, "a weight must be a number"), posinf=np.inf, neginf=-np.inf)
    return {each: float(weight) for each, weight in zip(sheet.labels(name), weights, strict=True)}


def read_groups(path: Path, option: str) -> dict[str, str]:
    """Read the group of each name; names with an empty cell have no group."""
    sheet, name, value = read_pairs(path, GROUP_NAMES, option)
    pairs = zip(sheet.labels(name), _group_names(sheet, value), strict=True)
    return {each: group for each, group in pairs if group}


def read_limits(path: Path, option: str) -> dict[str, tuple[float | None, float | None]]:
    """Read (low, high) of each group; an empty cell means no limit."""
    sheet = read_sheet(path)
    if len(sheet.names) < 3:
        raise ValueError(
            f"{option} is {path}, which has {counted(len(sheet.names), 'column')}; it needs group, low and high."
        )
    group = sheet.one_of(GROUP_NAMES) or sheet.names[0]
    others = [name for name in sheet.names if name != group]
    low, high = sheet.one_of(LOW_NAMES) or others[0], sheet.one_of(HIGH_NAMES) or others[1]
    limits = [
        [None if value != value else float(value) for value in sheet.numbers(name, "a limit must be a number")]
        for name in (low, high)
    ]
    return {each: (least, most) for each, least, most in zip(_group_names(sheet, group), *limits, strict=True)}


def _group_names(sheet: Sheet, name: str) -> list[str]:
    """Return a column of groups; "NA" is a group, such as North America, and only a blank cell is none."""
    return [word or cell.strip() for word, cell in zip(sheet.text(name), sheet.as_written(name), strict=True)]

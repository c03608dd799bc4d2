"""Tables that people have: CSV, Parquet, Excel; long or wide; or one sentence of what is wrong, and where."""

from __future__ import annotations

import csv
import dataclasses
import difflib
import importlib
import io
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from counterpoise.prices import counted, day_label

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".xlsx")
# How files say that a cell is empty.
NOTHING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "-"}
DATE_NAMES = ("date", "dates", "day", "datetime", "time", "timestamp")
TICKER_NAMES = ("ticker", "tickers", "symbol", "name", "asset", "stock", "isin", "id", "permno")
PRICE_NAMES = ("adj close", "adj_close", "adjclose", "adjusted close", "adjusted", "close", "price", "value")
WEIGHT_NAMES = ("weight", "weights")
GROUP_NAMES = ("group", "sector", "industry", "country")
LOW_NAMES, HIGH_NAMES = ("low", "min", "least"), ("high", "max", "most")
DAY_AND_MONTH = re.compile(r"(\d{1,2})[./-](\d{1,2})[./-]\d{4}")
COMPACT_DAYS = (19000101, 21991231)


@dataclasses.dataclass(frozen=True, eq=False)
class Sheet:
    """A table as a file holds it.

    Attributes
    ----------
    path : Path
    frame : DataFrame
        Columns of floats, NaN where a cell is empty; or of days; or of words, None where a cell is empty.
    lines : list of int
        Where each row is in the file.
    """

    path: Path
    frame: Any
    lines: list[int]

    @property
    def names(self) -> list[str]:
        """The columns."""
        return list(self.frame.columns)

    @cached_property
    def words(self) -> list[str]:
        """The columns that hold something that is no number."""
        return [name for name in self.names if self.frame[name].dtype.kind not in "biuf"]

    def place(self, row: int, name: str) -> str:
        """Say where a cell is."""
        unit = "line" if self.path.suffix.lower() in (".csv", ".tsv", ".txt") else "row"
        return f"{self.path}, {unit} {self.lines[row]}, column {name!r}"

    def text(self, name: str) -> list[str | None]:
        """Return a column as words: 600519 and not 600519.0."""
        return [_as_word(value) for value in self.frame[name]]

    def one_of(self, names: Sequence[str], besides: Iterable[str] = ()) -> str | None:
        """Return the first of these names that is a column, in any case of letters."""
        known = {name.strip().lower(): name for name in self.names if name not in set(besides)}
        return next((known[name] for name in names if name in known), None)

    def require(self, name: str, option: str) -> str:
        """Return a column's name, or refuse it and suggest others."""
        if name not in self.names:
            raise ValueError(f"{option} is {name!r}, but {self.path} has no such column; {nearest(name, self.names)}")
        return name

    def numbers(self, name: str, what: str = "it must be a number") -> Any:
        """Return a column of numbers, or name the first cell that is none."""
        if name in self.words:
            for row, value in enumerate(self.frame[name]):
                if value is not None and value == value and _number(str(value)) is None:
                    raise ValueError(f"{self.place(row, name)} is {str(value)!r}; {what}.")
        return self.frame[name].astype(float)

    def is_mixed(self, name: str) -> bool:
        """Whether a column of words holds numbers as well."""
        return any(_number(str(value)) is not None for value in self.frame[name] if value is not None)

    def days(self, name: str) -> Any:
        """Return a column as days, or name the first cell that is none."""
        return _as_days(self, name)


def read_sheet(path: Path) -> Sheet:
    """Read a table with a line of names.

    Raises
    ------
    OSError
        If the file is not there or cannot be read.
    ValueError
        If it does not hold a table; the sentence says where.
    ImportError
        If it needs a package that is not installed.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give a file.")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        said = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
        raise ValueError(f"{path} has {said}; a table is one of {', '.join(SUFFIXES)}.")
    pandas = _package("pandas", "Tables need", "counterpoise[data]")
    try:
        if path.stat().st_size == 0:
            raise ValueError(f"{path} is empty.")
        if suffix in (".parquet", ".xlsx"):
            return _read_binary(path, pandas)
        names, columns, lines = _read_text(path)
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror or error}.") from None
    frame = pandas.DataFrame({k: _column(cells, pandas) for k, cells in enumerate(columns)})
    frame.columns = _checked_names(path, names)
    if not names[0] and len(names) > 1 and _counts(frame["row"]):
        frame = frame.drop(columns="row")
    return Sheet(path, frame, lines)


def _counts(column: Any) -> bool:
    """Whether a column without a name is the numbers of rows that pandas writes."""
    return column.dtype.kind == "f" and bool((column == np.arange(len(column))).all())


def _read_text(path: Path) -> tuple[list[str], list[list[str]], list[int]]:
    """Return the names, the cells by column, and the lines that they are on."""
    content = path.read_bytes()
    if content[:4] in (b"PK\x03\x04", b"PAR1") or b"\0" in content:
        raise ValueError(f"{path} is no text, but a spreadsheet, an archive or another binary file; save it as CSV.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}, line {line} is not UTF-8 text; save the file as UTF-8.") from None
    first = next((line for line in text.splitlines() if line.strip()), "")
    separator = next((mark for mark in (",", ";", "\t") if mark in first), ",")
    reader = csv.reader(io.StringIO(text), delimiter=separator, strict=True)
    try:
        rows = [(row, reader.line_num) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}.") from None
    if not rows:
        raise ValueError(f"{path} is empty.")
    width = len(rows[0][0])
    for row, line in rows:
        if len(row) != width:
            fields = counted(len(row), "field")
            raise ValueError(f"{path}, line {line}: {fields}, but line {rows[0][1]} has {width}; all must agree.")
    names = [cell.strip() for cell in rows[0][0]]
    if all(_number(name) is not None for name in names):
        raise ValueError(f"{path}, line {rows[0][1]} holds numbers only; the first line must be the columns' names.")
    if len(rows) == 1:
        raise ValueError(f"{path} has a line of names but no rows below it.")
    columns = [list(cells) for cells in zip(*(row for row, _ in rows[1:]), strict=True)]
    return names, columns, [line for _, line in rows[1:]]


def _read_binary(path: Path, pandas: Any) -> Sheet:
    if path.suffix.lower() == ".xlsx":
        _package("openpyxl", "Reading .xlsx needs", "openpyxl")
        read = {"io": path, "engine": "openpyxl"}, pandas.read_excel
    else:
        _package("pyarrow", "Reading .parquet needs", "counterpoise[data]")
        read = {"path": path, "engine": "pyarrow"}, pandas.read_parquet
    try:
        frame = read[1](**read[0])
    except Exception:
        raise ValueError(f"{path} is damaged, or not a {path.suffix.lower()} file.") from None
    if not isinstance(frame.index, pandas.RangeIndex):
        frame = frame.reset_index(names=frame.index.name or "date")
    lines = list(range(1, len(frame) + 1))
    if path.suffix.lower() == ".xlsx":
        frame = _without_margins(frame)
        lines = [int(row) + 2 for row in frame.index]  # row 1 of the sheet holds the names
    if frame.empty:
        raise ValueError(f"{path} has no rows.")
    frame = frame.reset_index(drop=True)
    given = [str(name).strip() for name in frame.columns]
    names = _checked_names(path, given)
    frame.columns = names
    for name in names:
        column = frame[name]
        if pandas.api.types.is_numeric_dtype(column.dtype):
            frame[name] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        elif column.dtype.kind != "M":
            frame[name] = _column(["" if value is None or value != value else str(value) for value in column], pandas)
    if not given[0] and len(names) > 1 and _counts(frame["row"]):
        frame = frame.drop(columns="row")
    return Sheet(path, frame, lines)


def _without_margins(frame: Any) -> Any:
    """Leave out the empty rows and the empty columns without a name that a sheet may have; name no column by itself."""
    unnamed = [bool(re.fullmatch(r"Unnamed: \d+", str(name))) for name in frame.columns]
    kept = [k for k, name in enumerate(frame.columns) if not (unnamed[k] and frame[name].isna().all())]
    names = ["" if unnamed[k] else frame.columns[k] for k in kept]
    frame = frame.iloc[:, kept].dropna(how="all")
    frame.columns = names
    return frame


def _checked_names(path: Path, names: list[str]) -> list[str]:
    """Give the first column a name if it has none, as pandas writes it, and refuse names that come again."""
    names = ["row" if k == 0 and not name else name for k, name in enumerate(names)]
    for k, name in enumerate(names):
        if not name:
            raise ValueError(f"{path}: column {k + 1} has no name; give every column one.")
        if name in names[:k]:
            raise ValueError(
                f"{path} has more than one column {name!r}, the {names.index(name) + 1}. and the {k + 1}.; names must "
                "be unique."
            )
    return names


def _column(cells: list[str], pandas: Any) -> Any:
    """Return floats if every cell is a number or empty, words otherwise."""
    values: list[float] = []
    for cell in cells:
        value = _number(cell)
        if value is None:
            words = [None if word.strip().lower() in NOTHING else word.strip() for word in cells]
            return pandas.Series(words, dtype=object)
        values.append(value)
    return pandas.Series(values, dtype=np.float64)


def _number(cell: str) -> float | None:
    """Return a number, NaN for an empty cell, None for a word."""
    try:
        # float("1_000") is 1000, but in a file it is more likely a label.
        return float(cell) if "_" not in cell else None
    except ValueError:
        return math.nan if cell.strip().lower() in NOTHING else None


def _as_word(value: Any) -> str | None:
    if value is None or value != value:
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return day_label(value) if hasattr(value, "date") else str(value).strip()


# Days.


def _as_days(sheet: Sheet, name: str) -> Any:
    import pandas

    column = sheet.frame[name]
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(f"{sheet.place(int(missing.argmax()), name)} is empty; every row needs its day.")
    if column.dtype.kind == "M":
        days = pandas.DatetimeIndex(column)
        return days if days.tz is None else days.tz_localize(None)
    if column.dtype.kind == "f":
        whole = (column % 1.0 == 0.0) & column.between(*COMPACT_DAYS)
        texts = [str(int(value)) if fits else "" for value, fits in zip(column, whole, strict=True)]
        days = pandas.to_datetime(pandas.Series(texts), format="%Y%m%d", errors="coerce")
    else:
        texts = [str(value) for value in column]
        days = _parsed(sheet, name, texts, pandas)
    bad = days.isna().to_numpy()
    if bad.any():
        row = int(bad.argmax())
        said = _as_word(column.iloc[row])
        raise ValueError(f"{sheet.place(row, name)} is {said!r}; it must be a day such as 2024-01-31.")
    return pandas.DatetimeIndex(days)


def _parsed(sheet: Sheet, name: str, texts: list[str], pandas: Any) -> Any:
    """Return days; 3/1/2024 is read by what the column as a whole allows."""
    found = [DAY_AND_MONTH.fullmatch(text.strip()) for text in texts]
    if all(found):
        firsts, seconds = ({int(each.group(k)) for each in found if each} for k in (1, 2))
        if max(firsts) <= 12 and max(seconds) <= 12:
            raise ValueError(
                f"{sheet.place(0, name)} is {texts[0]!r}, which may be read in two ways, and so may all others; "
                "write days as 2024-01-31."
            )
        texts = [re.sub(r"[./-]", "/", text.strip()) for text in texts]
        order = "%d/%m/%Y" if max(firsts) > 12 else "%m/%d/%Y"
        return pandas.to_datetime(pandas.Series(texts), format=order, errors="coerce")
    series = pandas.Series(texts)
    days = pandas.to_datetime(series, format="ISO8601", errors="coerce", utc=True).dt.tz_localize(None)
    if not days.isna().all():
        return days
    words = [text for text in texts if re.search(r"\d", text)]
    if len(words) < len(texts):
        return days
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that each date is parsed for itself
        return pandas.to_datetime(series, errors="coerce", utc=True).dt.tz_localize(None)


def _is_day(text: str) -> bool:
    return bool(re.match(r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{1,2}[ -][A-Za-z]{3}", text))


def date_column(sheet: Sheet, given: str | None = None) -> str | None:
    """Return the column of days: the one given, one so called, or the first that looks like days."""
    if given is not None:
        return sheet.require(given, "--dates")
    named = sheet.one_of(DATE_NAMES)
    if named is not None:
        return named
    for name in sheet.words:
        if sheet.frame[name].dtype.kind == "M" or _is_day(str(next((v for v in sheet.frame[name] if v), ""))):
            return name
    return None


# Prices.


@dataclasses.dataclass(frozen=True, eq=False)
class Prices:
    """A wide table of prices, a row a day and a column a name, and what to say about it."""

    frame: Any
    dated: bool
    notes: list[str]


def read_prices(path: Path, dates: str | None = None) -> Prices:
    """Read prices: wide, a column a name; or long, with columns such as date, ticker and price."""
    sheet = read_sheet(path)
    day = date_column(sheet, dates)
    if day is None:
        frame = _wide(sheet, sheet.names)
        return Prices(frame, False, [f"{path} has no days; its rows are taken in their order."])
    days = sheet.days(day)
    ticker = _ticker_column(sheet, day) if days.has_duplicates else None
    if ticker is not None:
        frame, notes = _long(sheet, day, days, ticker)
        return Prices(frame, True, notes)
    frame = _wide(sheet, [name for name in sheet.names if name != day])
    frame.index = days.rename("date")
    return Prices(frame.sort_index(), True, [])


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
                f"Column {name!r} of {sheet.path} holds words such as {_first_word(sheet, name)!r}; prices must be "
                "numbers, leave the column out."
            )
        sheet.numbers(name, "prices must be numbers")
    return sheet.frame[names].astype(float)


def _first_word(sheet: Sheet, name: str) -> str:
    return str(next(value for value in sheet.frame[name] if value is not None))


def _long(sheet: Sheet, day: str, days: Any, ticker: str) -> tuple[Any, list[str]]:
    """Return the wide table of a long one."""
    import pandas

    price = _price_column(sheet, [day, ticker])
    tickers = sheet.text(ticker)
    if None in tickers:
        raise ValueError(f"{sheet.place(tickers.index(None), ticker)} is empty; every row needs its name.")
    long = pandas.DataFrame(
        {"date": days, "ticker": tickers, "price": sheet.numbers(price, "prices must be numbers").to_numpy()}
    )
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
    """Return the one column of prices, or the one so called."""
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


def read_index(given: str, prices: Prices, path: Path) -> tuple[Any, list[str]]:
    """Return the index: the name of a column of the prices, or a Series from a file of its own."""
    file, columns = Path(given), list(prices.frame.columns)
    if given in columns:
        if file.is_file():
            raise ValueError(f"--index is {given}, a column of {path} and also a file; write ./{given} for the file.")
        return given, []
    if not file.is_file():
        if file.suffix.lower() in SUFFIXES or "/" in given:
            raise FileNotFoundError(f"--index is {given}, which does not exist, nor is it a column of {path}.")
        raise ValueError(f"--index is {given!r}, but {path} has no such column; {nearest(given, columns)}")
    sheet = read_sheet(file)
    day = date_column(sheet)
    if day is None or not prices.dated:
        raise ValueError(f"{file if day is None else path} has no days, so that rows of the two cannot be matched.")
    column = _price_column(sheet, [day])
    series = sheet.numbers(column, "prices must be numbers")
    series.index = sheet.days(day)
    series.name = column
    notes = [f"Took the index from column {column!r} of {file}."] if len(sheet.names) > 2 else []
    return series.sort_index(), notes


# Small tables beside the prices.


def read_pairs(path: Path, value_names: Sequence[str], option: str) -> tuple[Sheet, str, str]:
    """Read a table of names and one thing about each; return it and the two columns."""
    sheet = read_sheet(path)
    if len(sheet.names) < 2:
        raise ValueError(f"{option} is {path}, which has one column; it needs two, names and {value_names[0]}s.")
    name = sheet.one_of(TICKER_NAMES) or next(each for each in sheet.names if each.lower() not in value_names)
    value = sheet.one_of(value_names, besides=[name]) or next(each for each in sheet.names if each != name)
    names = sheet.text(name)
    for row, each in enumerate(names):
        if each is None:
            raise ValueError(f"{sheet.place(row, name)} is empty; every row needs its name.")
        if each in names[:row]:
            raise ValueError(f"{sheet.place(row, name)} is {each!r}, which comes before as well; keep one row a name.")
    return sheet, name, value


def read_weights(path: Path, option: str) -> dict[str, float]:
    """Read weights by name, such as the weights.csv that ``track`` writes; empty cells are 0."""
    sheet, name, value = read_pairs(path, WEIGHT_NAMES, option)
    weights = sheet.numbers(value, "a weight must be a number").fillna(0.0)
    return {str(each): float(weight) for each, weight in zip(sheet.text(name), weights, strict=True)}


def read_groups(path: Path, option: str) -> dict[str, str]:
    """Read the group of each name; names with an empty cell are in none."""
    sheet, name, value = read_pairs(path, GROUP_NAMES, option)
    pairs = zip(sheet.text(name), sheet.text(value), strict=True)
    return {str(each): group for each, group in pairs if group is not None}


def read_limits(path: Path, option: str) -> dict[str, tuple[float | None, float | None]]:
    """Read (low, high) of each group; an empty cell is no limit."""
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
    return {str(each): (least, most) for each, least, most in zip(sheet.text(group), *limits, strict=True)}


# Words.


def nearest(name: str, names: Sequence[str]) -> str:
    """Suggest names that look alike, in any case of letters."""
    by_lower = {each.lower(): each for each in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=3)
    if close:
        return f"did you mean {' or '.join(repr(by_lower[each]) for each in close)}?"
    return f"its columns are {some(names)}."


def some(names: Iterable[str], most: int = 8) -> str:
    """Return the first names and how many more there are."""
    words = [str(name) for name in names]
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def _package(name: str, need: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError(f"{need} {name}: install it with pip install '{extra}'.") from None

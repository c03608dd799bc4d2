"""Tables that people have: CSV, Parquet or Excel; or one sentence of what is wrong, and where."""

from __future__ import annotations

import csv
import dataclasses
import difflib
import io
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from counterpoise.extras import require
from counterpoise.files import COMPACT_DAYS, DATE_NAMES, DAY
from counterpoise.output import unguarded
from counterpoise.prices import counted, day_label

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".xlsx")
# How files say that a cell is empty.
NOTHING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "-"}
DAY_AND_MONTH = re.compile(r"(\d{1,2})[./-](\d{1,2})[./-]\d{4}")


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
    notes : list of str
        What to tell the user about how it was read.
    """

    path: Path
    frame: Any
    lines: list[int]
    notes: list[str] = dataclasses.field(default_factory=list)

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


def read_sheet(path: Path, may_lack_names: bool = False) -> Sheet:
    """Read a table with a line of names.

    Parameters
    ----------
    path : Path
    may_lack_names : bool
        Take a first line of numbers for data, name the columns by their place, and say so in the notes; otherwise
        such a table is refused.

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
    pandas = require("Tables need", "pandas")
    try:
        if path.stat().st_size == 0:
            raise ValueError(f"{path} is empty.")
        if suffix in (".parquet", ".xlsx"):
            return _read_binary(path, pandas, may_lack_names)
        rows, lines = _read_text(path)
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror or error}.") from None
    names, notes = _names_of(path, f"line {lines[0]}", rows[0], may_lack_names)
    if names == rows[0]:
        rows, lines = rows[1:], lines[1:]
    if not rows:
        raise ValueError(f"{path} has a line of names but no rows below it.")
    frame = pandas.DataFrame({k: _column(list(cells), pandas) for k, cells in enumerate(zip(*rows, strict=True))})
    frame.columns = _checked_names(path, [unguarded(name) for name in names])
    if not names[0] and len(names) > 1 and _counts(frame["row"]):
        frame = frame.drop(columns="row")
    return Sheet(path, frame, lines, notes)


def _names_of(path: Path, where: str, first: list[str], may_lack_names: bool) -> tuple[list[str], list[str]]:
    """Return the names of the columns, made up where the first line is data, and what to say about them.

    Whole numbers beside words, or below an empty corner as pandas writes them, may well be names, such as years; a
    fraction is not.
    """
    numbers = [cell for cell in first if _is_number(cell)]
    if not numbers:
        return first, []
    fraction = next((cell for cell in numbers if not cell.isdigit()), None)
    if fraction is None and len(numbers) < len(first):
        few = some(numbers, 3)
        return first, [f"Took {where} of {path} for the names of the columns, numbers among them: {few}."]
    what = "numbers only" if len(numbers) == len(first) else f"{fraction!r}, a number"
    if not may_lack_names:
        raise ValueError(f"{path}, {where} holds {what}; the first line must be the columns' names.")
    names = [f"column {k}" for k in range(1, len(first) + 1)]
    return names, [
        f"Took {where} of {path} for data, as it holds {what}; the columns are called {names[0]}, and so on."
    ]


def _is_number(cell: str) -> bool:
    number = _number(cell)
    return number is not None and not math.isnan(number)


def _counts(column: Any) -> bool:
    """Whether a column without a name is the numbers of rows that pandas writes."""
    return column.dtype.kind == "f" and bool((column == np.arange(len(column))).all())


def _read_text(path: Path) -> tuple[list[list[str]], list[int]]:
    """Return the rows of cells, the first with the spaces around its cells removed, and the lines that they are on."""
    content = path.read_bytes()
    if content[:4] in (b"PK\x03\x04", b"PAR1") or b"\0" in content:
        raise ValueError(f"{path} is no text, but a spreadsheet, an archive or another binary file; save it as CSV.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = len(content[: error.start + 1].splitlines())
        raise ValueError(f"{path}, line {line} is not UTF-8 text; save the file as UTF-8.") from None
    first = next((line for line in text.splitlines() if line.strip()), "")
    separator = next((mark for mark in (",", ";", "\t") if mark in first), ",")
    # Lines may end as on any system, by a carriage return alone too.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
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
    head = [cell.strip() for cell in rows[0][0]]
    return [head, *(row for row, _ in rows[1:])], [line for _, line in rows]


def _read_binary(path: Path, pandas: Any, may_lack_names: bool) -> Sheet:
    excel = path.suffix.lower() == ".xlsx"
    notes: list[str] = []
    require(f"Reading {path.suffix.lower()} needs", "openpyxl" if excel else "pyarrow")
    try:
        frame = pandas.read_excel(path, engine="openpyxl") if excel else pandas.read_parquet(path, engine="pyarrow")
    except Exception:
        raise ValueError(f"{path} is damaged, or not a {path.suffix.lower()} file.") from None
    if not isinstance(frame.index, pandas.RangeIndex):
        frame = frame.reset_index(names=frame.index.name or "date")
    lines = list(range(1, len(frame) + 1))
    if excel:
        frame = _without_margins(frame)
        lines = [int(row) + 2 for row in frame.index]  # row 1 of the sheet holds the names
        given = [str(name).strip() for name in frame.columns]
        names, notes = _names_of(path, "row 1", given, may_lack_names)
        if names != given:
            first = pandas.read_excel(path, engine="openpyxl", header=None)
            frame = first.dropna(axis=1, how="all").dropna(how="all")
            frame.columns = names
            lines = [int(row) + 1 for row in frame.index]
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
    return Sheet(path, frame, lines, notes)


def _without_margins(frame: Any) -> Any:
    """Leave out the empty rows and the empty columns without a name that a sheet may have; name no column by itself."""
    unnamed = [bool(re.fullmatch(r"Unnamed: \d+", str(name))) for name in frame.columns]
    kept = [k for k, name in enumerate(frame.columns) if not (unnamed[k] and frame[name].isna().all())]
    names = ["" if unnamed[k] else frame.columns[k] for k in kept]
    frame = frame.iloc[:, kept].dropna(how="all")
    frame.columns = names
    return frame


def _checked_names(path: Path, names: list[str]) -> list[str]:
    """Give the first column a name if it has none, as pandas writes it, and refuse duplicate names."""
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
            words = [None if word.strip().lower() in NOTHING else unguarded(word.strip()) for word in cells]
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


def date_column(sheet: Sheet, given: str | None = None) -> str | None:
    """Return the column of days: the one given, one so called, or the first that looks like days."""
    if given is not None:
        return sheet.require(given, "--dates")
    named = sheet.one_of(DATE_NAMES)
    if named is not None:
        return named
    for name in sheet.words:
        if sheet.frame[name].dtype.kind == "M" or DAY.match(str(next((v for v in sheet.frame[name] if v), ""))):
            return name
    return None


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

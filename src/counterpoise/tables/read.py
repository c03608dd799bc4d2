"""Read a table from CSV, Parquet or Excel; errors say in one sentence what is wrong and where."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import functools
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from counterpoise.output import unguarded
from counterpoise.sentences import counted, require, some, suggest
from counterpoise.tables.days import DATE_NAMES, DAY, as_days, is_calendar, is_compact
from counterpoise.tables.native import is_missing
from counterpoise.tables.text import DECIMAL_COMMA, decoded, separator_of, with_point

Column = npt.NDArray[Any]
# Maps (path, place of the first row, its cells) to the names, or None if it holds data, and to notes for the user.
NameRule = Callable[[Path, str, list[str]], tuple[list[str] | None, list[str]]]

TEXT = (".csv", ".tsv", ".txt")
SUFFIXES = (*TEXT, ".parquet", ".xlsx")
# Spellings of an empty cell.
NOTHING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "-"}
# Text such as "NA" and "007" may be a name, so only blank cells are empty, and text is not parsed.
EXCEL: dict[str, Any] = {"engine": "openpyxl", "dtype": object, "keep_default_na": False, "na_values": [""]}
# Floats hold all whole numbers up to this one.
WHOLE = 2**53
# Names of columns that hold the names of units: patient, Unit no, user_id, customerId, but not acid.
OF_UNITS = re.compile(
    r"(case|client|customer|employee|member|participant|patient|person|pupil|record|respondent|sample|student|subject"
    r"|unit|user)s?([ _.-]?(code|key|name|no|nr|num|number))?|index|row|uuid|guid",
    re.IGNORECASE,
)
OF_CODES = re.compile(r"(.*[ _.-])?(id|ID|Id|ids|IDs)|.*[a-z]I[dD]s?")
WITH_ZEROS = re.compile(r"(?<=\d)\.0+$")
# Numbers with thousands separators; "1,234" does not match, because its comma may be a decimal one.
THOUSANDS = re.compile(r"\s*[-+]?\d{1,3}((,\d{3})+\.\d+|(,\d{3}){2,})\s*")


@dataclasses.dataclass(frozen=True, eq=False)
class Sheet:
    """A table read from a file.

    Attributes
    ----------
    path : Path
    names : list of str
        One per column; "column 1" and so on if the file has no names.
    columns : list of arrays
        Floats, with NaN for empty cells; or dates; or strings, with None for empty cells.
    lines : list of int
        The line number of each row in the file.
    notes : list of str
        Notes for the user on how the file was read.
    named, numbered : bool
        Whether the names come from the file, and whether a first column of row numbers, as pandas writes it, was left
        out.
    cells : list of rows of str, optional
        The unparsed cells of a text file.
    texts : dict
        The unparsed text of columns of a Parquet or Excel file that parsing changes, by name.
    index : str, optional
        The column that was the index of a DataFrame.
    """

    path: Path
    names: list[str]
    columns: list[Column]
    lines: list[int]
    notes: list[str] = dataclasses.field(default_factory=list)
    named: bool = True
    cells: list[list[str]] | None = None
    index: str | None = None
    numbered: bool = False
    texts: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    @cached_property
    def frame(self) -> Any:
        """The columns as a DataFrame."""
        pandas = require("Tables need", "pandas")
        series = [pandas.Series(column, dtype=column.dtype) for column in self.columns]
        frame = pandas.DataFrame(dict(enumerate(series)))
        frame.columns = self.names
        return frame

    @cached_property
    def words(self) -> list[str]:
        """The names of columns that are not numeric."""
        return [name for name, column in zip(self.names, self.columns, strict=True) if column.dtype.kind != "f"]

    def column(self, name: str) -> Column:
        """Return a column by name."""
        return self.columns[self.names.index(name)]

    def place(self, row: int, name: str | int) -> str:
        """Return the location of a cell for messages; unnamed columns are numbered."""
        k = name if isinstance(name, int) else self.names.index(name)
        unit = "line" if self.path.suffix.lower() in TEXT else "row"
        which = repr(self.names[k]) if self.named and self.names[k] else k + 1
        return f"{self.path}, {unit} {self.lines[row]}, column {which}"

    def text(self, name: str) -> list[str | None]:
        """Return a column as strings; whole numbers have no decimals, and keep leading zeros."""
        words, k = [_as_word(value) for value in self.column(name)], self.names.index(name)
        if self.cells is None or name in self.words:
            return words
        given = [row[k].strip() for row in self.cells]
        return [cell if cell.isdigit() else word for cell, word in zip(given, words, strict=True)]

    def as_written(self, name: str) -> list[str]:
        """Return a column as text as it stands, which is how names are read: "NA", "007" and spaces are kept.

        Blank cells are empty strings. In a column of numbers spaces, and the decimals of 12.0, do not count.
        """
        if self.cells is not None:
            k = self.names.index(name)
            words = [unguarded(row[k]) for row in self.cells]
        else:
            words = self.texts.get(name) or [_as_word(value) or "" for value in self.column(name)]
        if name not in self.words:
            words = [WITH_ZEROS.sub("", word.strip()) for word in words]
        return [word if word.strip() else "" for word in words]

    def labels(self, name: str, noun: str = "row") -> list[str]:
        """Return a column of names, as it stands; refuse blank ones, with an error that locates the first."""
        words = self.as_written(name)
        if "" in words:
            raise ValueError(f"{self.place(words.index(''), name)} is empty; every {noun} needs its name.")
        return words

    def without(self, names: Sequence[str]) -> Sheet:
        """Return the table without some columns."""
        kept = [k for k, name in enumerate(self.names) if name not in names]
        cells = None if self.cells is None else [[row[k] for k in kept] for row in self.cells]
        parts = {"names": [self.names[k] for k in kept], "columns": [self.columns[k] for k in kept], "cells": cells}
        return dataclasses.replace(self, **parts)  # type: ignore[arg-type]

    def one_of(self, names: Sequence[str], besides: Sequence[str] = ()) -> str | None:
        """Return the first of these names that is a column, ignoring case."""
        known = {name.strip().lower(): name for name in self.names if name not in besides}
        return next((known[name] for name in names if name in known), None)

    def require(self, name: str, option: str) -> str:
        """Return the name of a column; refuse unknown ones, with suggestions."""
        if name not in self.names:
            hint = suggest(name, self.names, "its columns are {}", quoted=True)
            raise ValueError(f"{option} is {name!r}, but {self.path} has no such column; {hint}")
        return name

    def numbers(self, name: str, what: str = "it must be a number") -> Column:
        """Return a column of numbers; refuse other cells, with an error that locates the first."""
        column = self.column(name)
        if name in self.words:
            for row, value in enumerate(column):
                if value is not None and value == value and number_in(str(value)) is None:
                    raise ValueError(f"{self.place(row, name)} is {str(value)!r}; {what}.")
        return column.astype(float)

    def is_mixed(self, name: str) -> bool:
        """Return whether a column of strings contains numbers as well."""
        column = self.column(name)
        return column.dtype.kind == "O" and any(number_in(str(value)) is not None for value in column if value)

    def holds_days(self, k: int) -> bool:
        """Return whether a column holds dates, by their format, or by its name and numbers such as 20240131."""
        column = self.columns[k]
        if column.dtype.kind == "f":
            given = column[~np.isnan(column)]
            return bool(self.names[k].strip().lower() in DATE_NAMES and len(given) and is_compact(given).all())
        words = [str(value) for value in column if value is not None]
        return column.dtype.kind == "M" or (bool(words) and all(DAY.match(word) for word in words))

    def days(self, name: str, rows: Sequence[int] | None = None) -> Any:
        """Return a column, or some rows of it, as a DatetimeIndex; an error locates the first cell without a date."""
        kept = list(range(len(self.lines)) if rows is None else rows)
        return as_days(self.column(name)[kept], lambda row: self.place(kept[row], name))

    def date_column(self, given: str | None = None) -> str | None:
        """Return the column of dates: the one given, one named like it, or the first that looks like dates."""
        if given is not None:
            return self.require(given, "--dates")
        named = self.one_of(DATE_NAMES)
        if named is not None:
            return named
        for name in self.words:
            column = self.column(name)
            if column.dtype.kind == "M" or DAY.match(str(next((value for value in column if value), ""))):
                return name
        # A first column of valid dates such as 20240131, whatever its name, cannot be prices.
        return self.names[0] if self.named and is_calendar(self.columns[0]) else None


def read_sheet(
    path: Path, may_lack_names: bool = False, *, separator: str | None = None, decimal: str | None = None
) -> Sheet:
    """Read a table with a line of column names: ``.csv``, ``.tsv``, ``.txt``, ``.parquet`` or ``.xlsx``.

    Parameters
    ----------
    path : Path
    may_lack_names : bool
        Treat a first line of numbers as data, name the columns by position, and say so in the notes; otherwise such a
        table is refused.
    separator : str, optional
        Character between cells of a text file; by default whichever of semicolon, tab, bar and comma divides the first
        lines into the same number of cells.
    decimal : {".", ","}, optional
        Decimal mark of a text file; by default a comma if semicolons separate cells and no number has a point.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give a file.")
    check_suffix(path, SUFFIXES, "a table")
    sheet = open_sheet(path, functools.partial(_names_in, may_lack_names), separator, decimal)
    if not sheet.lines:
        said = "no rows" if sheet.cells is None else "a line of names but no rows below it"
        raise ValueError(f"{path} has {said}.")
    if sheet.named:
        names = ["row" if k == 0 and not name else name for k, name in enumerate(sheet.names)]
        _check_names(path, names)
        sheet = dataclasses.replace(
            sheet, names=names, texts={name or "row": sheet.texts[name] for name in sheet.texts}
        )
    return sheet


def is_code(name: Any) -> bool:
    """Return whether a column's name says that its numbers are codes, such as id, clinic_id or customerId."""
    return OF_CODES.fullmatch(str(name).strip()) is not None


def names_units(name: Any) -> bool:
    """Return whether a column's name says that it holds the names of units, such as patient or user_id."""
    return is_code(name) or OF_UNITS.fullmatch(str(name).strip()) is not None


def check_suffix(path: Path, suffixes: Iterable[str], what: str) -> str:
    """Return a file's suffix in lower case; refuse others than ``suffixes``."""
    if path.suffix.lower() not in suffixes:
        said = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
        raise ValueError(f"{path} has {said}; {what} is one of {', '.join(suffixes)}.")
    return path.suffix.lower()


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say in one sentence that a file does not exist, is empty or cannot be read."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    try:
        if path.stat().st_size == 0:
            raise ValueError(f"{path} is empty.")
        yield
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror or error}.") from None


def open_sheet(path: Path, rule: NameRule, separator: str | None = None, decimal: str | None = None) -> Sheet:
    """Read a table; ``rule`` decides whether the first row holds names, which may be duplicate or empty."""
    with reading(path):
        sheet = (_read_text if path.suffix.lower() in TEXT else _read_binary)(path, rule, separator, decimal)
    first = sheet.columns[0] if sheet.columns else np.empty(0)
    counts = first.dtype.kind == "f" and len(first) > 0 and bool((first == np.arange(len(first))).all())
    if not (sheet.named and not sheet.names[0] and len(sheet.names) > 1 and counts):
        return sheet
    cells = None if sheet.cells is None else [row[1:] for row in sheet.cells]
    return dataclasses.replace(sheet, names=sheet.names[1:], columns=sheet.columns[1:], cells=cells, numbered=True)


# Names.


def _names_in(may_lack: bool, path: Path, where: str, first: list[str]) -> tuple[list[str] | None, list[str]]:
    """Decide whether the first row holds names.

    Whole numbers next to words, or next to the empty corner that pandas writes, may be names, such as years; fractions
    are not.
    """
    numbers = [cell for cell in first if is_number(cell)]
    if not numbers:
        return first, []
    fraction = next((cell for cell in numbers if not cell.isdigit()), None)
    if fraction is None and len(numbers) < len(first):
        few = some(numbers, 3)
        return first, [f"Took {where} of {path} for the names of the columns, numbers among them: {few}."]
    what = "numbers only" if len(numbers) == len(first) else f"{fraction!r}, a number"
    if not may_lack:
        raise ValueError(f"{path}, {where} holds {what}; the first line must be the columns' names.")
    return None, [f"Took {where} of {path} for data, as it holds {what}; the columns are called column 1, and so on."]


def _check_names(path: Path, names: list[str]) -> None:
    for k, name in enumerate(names):
        if not name:
            raise ValueError(f"{path}: column {k + 1} has no name; give every column one.")
        if name in names[:k]:
            raise ValueError(
                f"{path} has more than one column {name!r}, columns {names.index(name) + 1} and {k + 1}; names must "
                "be unique."
            )


# Text.


def _read_text(path: Path, rule: NameRule, separator: str | None, decimal: str | None) -> Sheet:
    text = decoded(path)
    separator = separator_of(text, decimal) if separator is None else separator
    rows, lines = _split_text(path, text, separator)
    names, notes = rule(path, f"line {lines[0]}", rows[0])
    if names is not None:
        rows, lines = rows[1:], lines[1:]
        names = [unguarded(name) for name in names]
    if decimal is None and separator != "," and _has_decimal_commas(rows):
        decimal = ","
        notes = [*notes, f"Read commas in the numbers of {path} as decimal points."]
    cells = [[with_point(cell) for cell in row] for row in rows] if decimal == "," else rows
    columns = [parsed(column) for column in zip(*cells, strict=True)]
    return Sheet(path, names or _numbered(columns), columns, lines, notes, names is not None, rows)


def _numbered(columns: Sequence[Any]) -> list[str]:
    """Return names for columns without any."""
    return [f"column {k}" for k in range(1, len(columns) + 1)]


def _split_text(path: Path, text: str, separator: str) -> tuple[list[list[str]], list[int]]:
    """Return the rows of cells, with those of the first row stripped, and their line numbers."""
    # Lines may end as on any system, even with a single carriage return.
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


def _has_decimal_commas(rows: list[list[str]]) -> bool:
    """Return whether some numbers have decimal commas, and none has a point."""
    cells = [cell for row in rows for cell in row if "," in cell or "." in cell]
    has_points = any("." in cell and is_number(cell) for cell in cells)
    return not has_points and any("," in cell and DECIMAL_COMMA.fullmatch(cell) for cell in cells)


def parsed(cells: Sequence[str]) -> Column:
    """Return floats if every cell is a number or empty, otherwise strings."""
    if not any("_" in cell for cell in cells):  # float("1_000") is 1000, but in a file it is more likely a label
        try:
            return np.array(cells, dtype=np.float64)
        except ValueError:
            pass
    values = [number_in(cell) for cell in cells]
    if None not in values:
        return np.array(values, dtype=np.float64)
    words = [None if word.strip().lower() in NOTHING else unguarded(word.strip()) for word in cells]
    return np.array(words, dtype=object)


def number_in(cell: str) -> float | None:
    """Return the number in a cell, NaN for an empty cell, None for any other text."""
    try:
        return float(cell) if "_" not in cell else None
    except ValueError:
        if THOUSANDS.fullmatch(cell):
            return float(cell.replace(",", ""))
        return math.nan if cell.strip().lower() in NOTHING else None


def is_number(cell: str) -> bool:
    """Return whether a cell holds a number that is not NaN."""
    number = number_in(cell)
    return number is not None and not math.isnan(number)


def _as_word(value: Any) -> str | None:
    if value is None or value != value:
        return None
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[D]"))
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


# Parquet and Excel.


def _read_binary(path: Path, rule: NameRule, separator: str | None, decimal: str | None) -> Sheet:
    suffix, excel = path.suffix.lower(), path.suffix.lower() == ".xlsx"
    notes: list[str] = []
    pandas = require(f"Reading {suffix} needs", "pandas", "openpyxl" if excel else "pyarrow")
    try:
        frame = pandas.read_excel(path, **EXCEL) if excel else pandas.read_parquet(path, engine="pyarrow")
    except Exception:
        raise ValueError(f"{path} is damaged, or not a {suffix} file.") from None
    index = None
    if not isinstance(frame.index, pandas.RangeIndex):
        index = str(frame.index.name or "date")
        frame = frame.reset_index(names=index)
    lines, named = list(range(1, len(frame) + 1)), True
    if excel:
        frame = _without_margins(frame)
        lines = [int(row) + 2 for row in frame.index]  # row 1 of the sheet holds the names
        names, notes = rule(path, "row 1", [str(name).strip() for name in frame.columns])
        with pandas.ExcelFile(path, engine="openpyxl") as book:
            sheets = book.sheet_names
        if len(sheets) > 1:
            notes = [f"Read {sheets[0]!r}, the first of {len(sheets)} sheets of {path}.", *notes]
        if names is None:
            frame = pandas.read_excel(path, header=None, **EXCEL)
            frame = frame.dropna(axis=1, how="all").dropna(how="all")
            frame.columns, named = _numbered(frame.columns), False
            lines = [int(row) + 1 for row in frame.index]
    names = [str(name).strip() for name in frame.columns]
    frame = frame.infer_objects()
    columns = [_as_array(frame.iloc[:, k], pandas) for k in range(len(names))]
    texts = {name: text for k, name in enumerate(names) if (text := _text_of(frame.iloc[:, k], pandas))}
    return Sheet(path, names, columns, lines, notes, named, index=index, texts=texts)


def _without_margins(frame: Any) -> Any:
    """Drop empty rows, and empty columns without a name or with one made up by pandas."""
    unnamed = [bool(re.fullmatch(r"Unnamed: \d+", str(name))) for name in frame.columns]
    kept = [k for k, name in enumerate(frame.columns) if not (unnamed[k] and frame[name].isna().all())]
    names = ["" if unnamed[k] else frame.columns[k] for k in kept]
    frame = frame.iloc[:, kept].dropna(how="all")
    frame.columns = names
    return frame


def _text_of(column: Any, pandas: Any) -> list[str]:
    """Return the text of a column of words, or of whole numbers that floats cannot hold; otherwise nothing."""
    types = pandas.api.types
    wide = types.is_integer_dtype(column.dtype) and bool((column.abs() > WHOLE).any())
    if not wide and (column.dtype.kind == "M" or types.is_numeric_dtype(column.dtype)):
        return []
    return ["" if is_missing(value) else value if isinstance(value, str) else _as_word(value) or "" for value in column]


def _as_array(column: Any, pandas: Any) -> Column:
    if column.dtype.kind == "M":
        return np.asarray(column if getattr(column.dtype, "tz", None) is None else column.dt.tz_localize(None))
    if pandas.api.types.is_numeric_dtype(column.dtype):
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return parsed(["" if value is None or value != value else str(value) for value in column])

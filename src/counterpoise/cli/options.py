"""Options shared by several commands, and their checks that need no data."""

from __future__ import annotations

import dataclasses
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from counterpoise.checks import number
from counterpoise.sentences import counted, some
from counterpoise.tables.read import Sheet, names_units

# Rules for empty cells.
GAPS = ("refuse", "drop-rows", "drop-columns")


Seconds = Annotated[float | None, "Time limit of a fit in seconds; by default a fixed amount of work."]


@dataclasses.dataclass(frozen=True)
class Manners:
    """Options for the output of every command."""

    as_json: Annotated[bool, "Print JSON only.", "--json"] = False
    quiet: Annotated[bool, "Print warnings and errors only.", "--quiet", "-q"] = False
    debug: Annotated[bool, "Show the traceback of an error."] = False

    @property
    def silent(self) -> bool:
        """Whether to print no human-readable output."""
        return self.quiet or self.as_json


@dataclasses.dataclass(frozen=True)
class Telling(Manners):
    """Options for the output of commands that have --verbose."""

    verbose: Annotated[bool, "Say how the run ended and how long it took.", "--verbose", "-v"] = False

    def __post_init__(self) -> None:
        if self.quiet and self.verbose:
            raise ValueError("--quiet and --verbose are both given; give one of them.")


@dataclasses.dataclass(frozen=True)
class Writing(Telling):
    """Options for the output of commands that write files."""

    force: Annotated[bool, "Replace existing files."] = False


@dataclasses.dataclass(frozen=True)
class Marks:
    """Options for the format of a text file."""

    separator: Annotated[str | None, "Character between cells of a text file, or tab; detected by default.", "MARK"] = (
        None
    )
    decimal: Annotated[str | None, "Decimal mark of a text file: . or a comma; detected by default.", "MARK"] = None

    def arguments(self) -> dict[str, Any]:
        """Check the options and return them as arguments of the table readers."""
        separator = {"tab": "\t", "\\t": "\t"}.get(str(self.separator), self.separator)
        if separator is not None and (len(separator) != 1 or separator in '\r\n"'):
            raise ValueError(f"--separator is {separator!r}; it must be one character, or tab.")
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"--decimal is {self.decimal!r}; it must be . or a comma.")
        if self.decimal == "," and separator == ",":
            raise ValueError("--separator and --decimal are both a comma; change one of them.")
        return {"separator": separator, "decimal": self.decimal}


@dataclasses.dataclass(frozen=True)
class Effort:
    """Options for the budget of a search."""

    work: Annotated[int | None, "Starting points and recombinations of a search; more is slower and better."] = None
    jobs: Annotated[int | None, "Workers of a search; -1 for one per core."] = None
    seconds: Seconds = None

    def arguments(self) -> dict[str, Any]:
        """Return the options as arguments of estimators."""
        return {"work": self.work, "n_jobs": self.jobs, "max_time": self.seconds}


Dates = Annotated[str | None, "Column of dates, if it is not detected.", "COL"]
Ignore = Annotated[list[str] | None, "Columns to leave out: a,b; repeatable.", "COLS"]
Identity = Annotated[str | None, "Column with the names of the units; detected by default.", "COL", "--id"]
Gaps = Annotated[str, f"What to do about empty cells: {', '.join(GAPS)}.", "RULE", GAPS]


def units_column(sheet: Sheet, besides: Iterable[str] = ()) -> str | None:
    """Return the column that holds the names of the units, if any, apart from some columns.

    No two names are the same, and the column is called like names of units, such as patient or user_id; or it is the
    first of the table and holds whole numbers or codes such as 007; or it is the first column of words.
    """
    left_out = set(besides)
    unlike = [name for name in sheet.names if name not in left_out and all_differ(sheet, name)]
    named = next((name for name in unlike if names_units(name)), None)
    if named is not None:
        return named
    if len(sheet.names) > 1 and sheet.names[0] in unlike and sheet.names[0] not in sheet.words:
        return sheet.names[0]
    return next((name for name in unlike if name in sheet.words and not sheet.is_mixed(name)), None)


def all_differ(sheet: Sheet, name: str) -> bool:
    """Return whether a column holds words or whole numbers, not dates, and no two are the same."""
    if sheet.holds_days(sheet.names.index(name)):
        return False
    if name not in sheet.words and not bool((sheet.column(name) % 1.0 == 0.0).all()):
        return False
    words = sheet.as_written(name)
    return len(words) > 2 and "" not in words and len(set(words)) == len(words)


def repeated(words: Iterable[str]) -> str | None:
    """Return the first word that is there more than once, or an empty one, or None."""
    seen: set[str] = set()
    for word in words:
        if word in seen or not word:
            return word
        seen.add(word)
    return None


def counts_units(sheet: Sheet, name: str) -> bool:
    """Return whether different whole numbers are codes such as 007, or fill a range such as 1001 to 1300."""
    column = sheet.column(name)
    padded = any(len(word) > 1 and word.startswith("0") for word in sheet.as_written(name))
    return padded or bool(np.ptp(column) == len(column) - 1)


def check_writable(option: str, path: Path, within: Path | None = None) -> None:
    """Check that a path, or anything ``within`` a folder on it, can be written, without changing it."""
    try:
        if within is None and path.exists():
            os.close(os.open(path, os.O_WRONLY))
        else:
            tempfile.TemporaryFile(dir=within or path.parent).close()
    except OSError as error:
        raise OSError(f"{option} is {path}, which cannot be written: {error.strerror}.") from None


def check_files(*paths: Path, **options: Path | None) -> None:
    """Refuse files that do not exist, before any other check; messages name the option of a file."""
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist.")
    for option, file in options.items():
        if file is not None and not file.exists():
            raise FileNotFoundError(f"--{option.replace('_', '-')} is {file}, which does not exist.")


def names_in(texts: Sequence[str] | None, known: Iterable[Any]) -> list[str]:
    """Return names given one at a time or joined by commas; known names may themselves contain commas."""
    names = {str(name) for name in known}
    parts = [[text] if text in names else text.split(",") for text in texts or ()]
    return [name.strip() for several in parts for name in several if name.strip()]


def columns_in(sheet: Sheet, option: str, texts: Sequence[str] | None) -> list[str]:
    """Return columns given one at a time or joined by commas; refuse unknown ones."""
    return [sheet.require(name, option) for name in names_in(texts, sheet.names)]


def check_folder(folder: Path, names: Sequence[str], force: bool, may_ask: bool) -> None:
    """Refuse an output folder that cannot be written, or existing files unless the user confirms."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--output is {folder}, which is a file; give a folder.")
    above = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    check_writable("--output", folder, within=above)
    there = [name for name in names if (folder / name).exists()]
    for name in there:
        if (folder / name).is_dir():
            raise ValueError(f"{folder / name} is a folder, but a file must be written there; give another --output.")
        check_writable("--output", folder / name)
    if not there or force:
        return
    which = f"{folder} holds {' and '.join(there)}"
    if not (may_ask and _is_terminal()):
        raise ValueError(
            f"{which}; give another --output, or --force to replace {'it' if len(there) == 1 else 'them'}."
        )
    typer.confirm(f"{which}. Replace?", abort=True, err=True)


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def check_seconds(seconds: float | None) -> None:
    """Refuse a time limit of 0."""
    if seconds is not None and number(seconds, "--seconds", 0.0) == 0.0:
        raise ValueError("--seconds is 0; it must be positive.")


def without_gaps(
    gaps: Any, rule: str, rows: Sequence[Any], names: Sequence[str], noun: str, place: Callable[[int, str], str]
) -> tuple[Any, Any, list[str]]:
    """Apply a rule for empty cells; return which rows and columns to keep, and notes for the user.

    ``place`` returns the location of a cell, given its row and column name.
    """
    whole_rows, whole_columns = np.ones(len(rows), dtype=bool), np.ones(len(names), dtype=bool)
    if not gaps.any():
        return whole_rows, whole_columns, []
    if rule == "refuse":
        row, k = map(int, np.argwhere(gaps)[0])
        empty = f"{counted(gaps.sum(), 'cell')} {'is' if gaps.sum() == 1 else 'are'} empty"
        raise ValueError(
            f"{empty}, the first at {place(row, names[k])}; choose a rule with --missing: {', '.join(GAPS[1:])}."
        )
    if rule == "drop-rows":
        bad = gaps.any(axis=1)
        which = some(row for row, drop in zip(rows, bad, strict=True) if drop)
        note = f"Left out {int(bad.sum())} of {counted(len(rows), noun)} with empty cells: {which}."
        return ~bad, whole_columns, [note]
    bad = gaps.any(axis=0)
    lost = [name for name, drop in zip(names, bad, strict=True) if drop]
    return whole_rows, ~bad, [f"Left out {counted(len(lost), 'column')} with empty cells: {some(lost)}."]

"""Write files completely or not at all, and CSV cells that spreadsheets do not evaluate as formulas."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from counterpoise.interrupts import noting_interrupts

# Spreadsheets evaluate cells of a CSV file that begin like this; an apostrophe prevents it (OWASP, "CSV Injection").
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
_GUARDED = re.compile(r"'+[=+\-@\t\r\n]")


class CannotWriteError(OSError):
    """Raised if a file cannot be written, for example because the disk is full; the message names it."""


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; the file replaces ``path`` at the end, or is removed after an error."""
    # A hidden file; it keeps the suffix, from which matplotlib infers the format.
    part = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    # Ctrl-C waits until the file is in place, which takes less than a second.
    with noting_interrupts(delayed=True):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield part
            part.replace(path)
        except OSError as error:
            if error.errno is None:  # its message is already a full sentence
                raise
            raise CannotWriteError(f"{path} cannot be written: {error.strerror}.") from None
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> Path:
    """Write text to a file atomically and return its path."""
    return write_texts(path.parent, {path.name: text})[0]


def write_texts(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write texts to files by name and return their paths; no file is replaced before all are written."""
    with contextlib.ExitStack() as stack:
        for name, text in files.items():
            stack.enter_context(whole_file(folder / name)).write_text(text, encoding="utf-8", newline="\n")
    return [folder / name for name in files]


def csv_text(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a CSV table; numbers have full precision, and text that looks like a formula is guarded.

    Examples
    --------
    >>> print(csv_text(["name", "weight"], [["=A1", -0.5], ["-7", 0.5]]), end="")
    name,weight
    '=A1,-0.5
    -7,0.5
    """
    return "".join(f"{_record(row)}\n" for row in (head, *rows))


def _record(row: Sequence[Any]) -> str:
    """Return a line of CSV; before Python 3.13 only a writer that ends lines with CRLF quotes every line break."""
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\r\n").writerow([guarded(cell) for cell in row])
    return stream.getvalue().removesuffix("\r\n")


def guarded(cell: Any) -> Any:
    """Prefix text that a spreadsheet would evaluate with an apostrophe; return anything else unchanged."""
    if not (isinstance(cell, str) and _FORMULA.match(cell)):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def unguarded(cell: str) -> str:
    """Undo :func:`guarded`."""
    return cell[1:] if _GUARDED.match(cell) else cell

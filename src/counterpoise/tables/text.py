"""Decode the text of a table, detect the separator of its cells, and convert decimal commas."""

from __future__ import annotations

import contextlib
import csv
import itertools
import re
from pathlib import Path

SEPARATORS = (";", "\t", "|", ",")
# Number of lines used to detect the separator.
SAMPLE = 20
DECIMAL_COMMA = re.compile(r"\s*[-+]?(\d{1,3}(\.\d{3})+(,\d+)?|\d*,\d+)([eE][-+]?\d+)?\s*")


def separator_of(text: str, decimal: str | None) -> str:
    """Return the separator that divides the first lines into the same number of cells, or one in the first line.

    The comma is tried last, because names and numbers in a file with semicolons may contain commas.
    """
    lines = list(itertools.islice((line for line in text.splitlines() if line.strip()), SAMPLE))
    found = [mark for mark in SEPARATORS if mark != decimal and lines and mark in lines[0]]
    for mark in found:
        with contextlib.suppress(csv.Error):  # a cell is too long; reading the whole file reports it
            widths = {len(row) for row in csv.reader(lines, delimiter=mark)}
            if len(widths) == 1 and widths != {1}:
                return mark
    return "," if "," in found or not found else found[0]


def decoded(path: Path) -> str:
    """Return the text of a file in UTF-8 or UTF-16; refuse other content, with an error that says why."""
    content = path.read_bytes()
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):  # the byte order mark of a spreadsheet's "Unicode text"
        try:
            return content.decode("utf-16")
        except UnicodeDecodeError:
            raise ValueError(f"{path} begins as UTF-16 text, but is damaged; save it as UTF-8.") from None
    if content[:4] in (b"PK\x03\x04", b"PAR1") or b"\0" in content:
        raise ValueError(f"{path} is not text but a spreadsheet, an archive or another binary file; save it as CSV.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = len(content[: error.start + 1].splitlines())
        raise ValueError(f"{path}, line {line} is not UTF-8 text; save the file as UTF-8.") from None


def with_point(cell: str) -> str:
    """Replace a decimal comma by a point, and drop any points between thousands."""
    return cell.replace(".", "").replace(",", ".") if DECIMAL_COMMA.fullmatch(cell) else cell

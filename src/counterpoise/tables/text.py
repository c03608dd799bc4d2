"""Text of a table: how its bytes are decoded, what separates its cells, and decimal commas."""

from __future__ import annotations

import contextlib
import csv
import itertools
import re
from pathlib import Path

SEPARATORS = (";", "\t", "|", ",")
# Lines by which the separator is found.
SAMPLE = 20
DECIMAL_COMMA = re.compile(r"\s*[-+]?(\d{1,3}(\.\d{3})+(,\d+)?|\d*,\d+)([eE][-+]?\d+)?\s*")


def separator_of(text: str, decimal: str | None) -> str:
    """Return the mark that divides the first lines into equally many cells, or one that the first line has.

    A comma comes last: it may be in names and numbers of a file that semicolons separate.
    """
    lines = list(itertools.islice((line for line in text.splitlines() if line.strip()), SAMPLE))
    found = [mark for mark in SEPARATORS if mark != decimal and lines and mark in lines[0]]
    for mark in found:
        with contextlib.suppress(csv.Error):  # of a cell too long, which reading the whole file reports
            widths = {len(row) for row in csv.reader(lines, delimiter=mark)}
            if len(widths) == 1 and widths != {1}:
                return mark
    return "," if "," in found or not found else found[0]


def decoded(path: Path) -> str:
    """Return the text of a file in UTF-8 or UTF-16, or say why it is none."""
    content = path.read_bytes()
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):  # what spreadsheets write before "Unicode text"
        try:
            return content.decode("utf-16")
        except UnicodeDecodeError:
            raise ValueError(f"{path} begins as UTF-16 text, but is damaged; save it as UTF-8.") from None
    if content[:4] in (b"PK\x03\x04", b"PAR1") or b"\0" in content:
        raise ValueError(f"{path} is no text, but a spreadsheet, an archive or another binary file; save it as CSV.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = len(content[: error.start + 1].splitlines())
        raise ValueError(f"{path}, line {line} is not UTF-8 text; save the file as UTF-8.") from None


def with_point(cell: str) -> str:
    """Return a number with a decimal comma, and perhaps points between thousands, with a decimal point."""
    return cell.replace(".", "").replace(",", ".") if DECIMAL_COMMA.fullmatch(cell) else cell

"""Parts of messages that modules share: counts, lists of names, suggestions, numbers, missing packages."""

from __future__ import annotations

import decimal
import difflib
import importlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

# Smaller numbers are shown as 0.
ROUNDING = 1e-15


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "day"), counted(2000, "day")
    ('1 day', '2000 days')
    """
    return f"{number} {noun if number == 1 else f'{noun}s'}"


def are(number: int, noun: str) -> str:
    """Return "is 1 day" or "are 2 days"."""
    return f"{'is' if number == 1 else 'are'} {counted(number, noun)}"


def joined(words: Iterable[Any], last: str = "and") -> str:
    """Return "a, b and c"."""
    *most, end = [str(word) for word in words]
    return f"{', '.join(most)} {last} {end}" if most else end


def some(names: Iterable[Any], most: int = 5) -> str:
    """Return the first names and how many more there are.

    Examples
    --------
    >>> some("abcd", 2)
    'a, b and 2 more'
    """
    words = [str(name) for name in names]
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def suggest(name: Any, known: Iterable[Any], otherwise: str = "there are {}", quoted: bool = False) -> str:
    """Return "did you mean …" with up to three similar names, ignoring case, or list the known names.

    Examples
    --------
    >>> suggest("spx", ["SPX", "AAA"]), suggest("x", ["AAA", "BBB"])
    ('did you mean SPX?', 'there are AAA, BBB.')
    """
    words = [str(label) for label in known]
    by_case = {word.lower(): word for word in words if word}
    close = difflib.get_close_matches(name.lower(), by_case, n=3) if isinstance(name, str) else []
    near = [by_case[word] for word in close]
    if near:
        return f"did you mean {joined(map(repr, near) if quoted else near, 'or')}?"
    return f"{otherwise.format(some(words, 8) or 'none')}."


def day_label(label: Any) -> str:
    """Return a day as 2024-01-31, any other label as it prints."""
    return str(label.date()) if hasattr(label, "date") else str(label)


def spelled(status: Any) -> str:
    """Return a status, or its name, in words: "time limit"."""
    return str(getattr(status, "name", status)).lower().replace("_", " ")


# Numbers.


def as_text(value: float, kind: str = "number") -> str:
    """Format a number for a table: "number", "long" (five digits), "percent" or "whole"."""
    value = 0.0 if abs(value) < ROUNDING else value
    if kind == "whole":
        text = f"{int(value):,}"
    elif kind == "percent":
        text = f"{100.0 * value:.2f} %" if value == 0.0 or abs(value) >= 0.01 else f"{100.0 * value:.3g} %"
    else:
        text = f"{value:.5g}" if kind == "long" else f"{value:.4g}"
    return text.replace("-", "−")


def in_column(values: Sequence[float], kind: str = "number") -> list[str]:
    """Format the numbers of a column with equal decimals, or with equal digits where their sizes differ too much.

    Examples
    --------
    >>> in_column([0.125, 0.00123], "percent"), in_column([12.0, 0.5, 1 / 3])
    (['12.50 %', '0.12 %'], ['12.00', '0.50', '0.33'])
    """
    values = [0.0 if abs(value) < ROUNDING else value for value in values]
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    if kind == "whole" or not sizes:
        return [as_text(value, kind) for value in values]
    scale, unit = (100.0, " %") if kind == "percent" else (1.0, "")
    digits = {"percent": 3, "long": 5}.get(kind, 4)
    top, low = (math.floor(math.log10(scale * size)) for size in (max(sizes), min(sizes)))
    if kind == "percent" and top > -5:
        texts = [f"{scale * value:.{max(2, 2 - top)}f}" for value in values]
    elif top < 7 and all(value == round(value) for value in values):
        texts = [f"{value:.0f}" for value in values]
    elif top - low <= 3 and -4 <= top < digits:
        texts = [f"{value:.{digits - 1 - top}f}" for value in values]
    else:
        texts = [_significant(scale * value, digits) for value in values]
    return [f"{text}{unit}".replace("-", "−") for text in texts]


def _significant(value: float, digits: int) -> str:
    """Format a number with this many digits, trailing zeros included."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(value)))
    return f"{value:.{max(0, digits - 1 - exponent)}f}" if -4 <= exponent < 7 else f"{value:.{digits - 1}e}"


def percent(share: float, digits: int | None = None) -> str:
    """Format a share in percent, with three significant digits or a given number of decimals."""
    return f"{100.0 * share:.3g} %" if digits is None else f"{100.0 * share:.{digits}f} %"


def rounded_up(bound: float) -> str:
    """Format an upper bound with two digits, rounded up so that it stays a bound."""
    return f"{decimal.Context(prec=2, rounding=decimal.ROUND_CEILING).create_decimal_from_float(bound):.1e}"


def by_more_than(bound: float, resolution: float = 0.0) -> str:
    """Return "by more than 1.2e-9"; "by anything measurable" up to a rounding error, and "at all" for 0."""
    if bound <= 0.0:
        return "at all"
    return f"by more than {rounded_up(bound)}" if bound > resolution else "by anything measurable"


def short_gap(gap: float) -> str:
    """Format the gap of a certificate for a line of progress; a dash if it is not known."""
    return f"{max(0.0, gap):.0e}" if math.isfinite(gap) else "–"


def as_seconds(seconds: float) -> str:
    """Format seconds or milliseconds with their unit."""
    return f"{seconds:.2f} s" if seconds >= 1.0 else f"{1e3 * seconds:.3g} ms"


# Packages that only some features need.


def lacking(need: str, *packages: str) -> ImportError:
    """Return an error that says which packages are needed for what, and how to install them.

    The hint names packages, not an extra of counterpoise, which pip would find only in a clone.

    Examples
    --------
    >>> print(lacking("Reading .parquet needs", "pandas", "pyarrow"))
    Reading .parquet needs pandas and pyarrow: install them with pip install pandas pyarrow.
    """
    names = [package.partition(".")[0] for package in packages]
    hint = f"install {'it' if len(names) == 1 else 'them'} with pip install {' '.join(names)}"
    return ImportError(f"{need} {' and '.join(names)}: {hint}.", name=names[0])


def require(need: str, *packages: str) -> Any:
    """Import packages and return the first; the error if some are absent begins with ``need``, as in "A plot needs"."""
    found, absent = [], []
    for name in packages:
        try:
            found.append(importlib.import_module(name))
        except ImportError:
            absent.append(name)
    if absent:
        raise lacking(need, *absent) from None
    return found[0]

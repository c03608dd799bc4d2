"""Descriptions of pictures: axes, series and panels, and the style of each method in all of them."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.checks import Vector, choice

Values = Sequence[Any] | npt.NDArray[Any]

# "bar" and "dot" have a row for each category.
KINDS = ("line", "bar", "dot", "scatter")
# The best point is drawn this far above 0, as a share of the whole descent, because a logarithmic axis has no 0.
FLOOR = 1e-6


class Style(NamedTuple):
    """Colour and dashes of a line, either of which distinguishes methods, its width and opacity, and a marker.

    Without dashes only points are drawn.
    """

    colour: str
    dash: Any
    width: float = 1.6
    opacity: float = 1.0
    marker: str = ""
    filled: bool = False


# Colours of Okabe and Ito, safe for colour-blind readers; dashes distinguish lines in greyscale.
STYLES = {
    "bcd-g": Style("#000000", "-"),
    "bcd-l": Style("#0072B2", (0, (7, 2))),
    "psg": Style("#D55E00", (0, (1, 1.5))),
    "mscr": Style("#009E73", (0, (4, 1.5, 1, 1.5))),
    "pdca": Style("#CC79A7", (0, (3, 3))),
}
SPARE = (
    Style("#E69F00", (0, (9, 2, 2, 2))),
    Style("#56B4E9", (0, (5, 1))),
    Style("#7F3C8D", (0, (6, 1.5, 1, 1.5, 1, 1.5))),
    Style("#80461B", (0, (2, 1, 2, 4))),
)
BLACK, BLUE, ORANGE = (STYLES[name].colour for name in ("bcd-g", "bcd-l", "psg"))
# Light to dark, for one method at several sizes.
SHADES = ("#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#08519c", "#08306b")
# A hybrid is a broad pale line, on top of which the line of its first stage is visible.
HYBRID_WIDTH, HYBRID_OPACITY = 5.0, 0.4
# Markers of the end of a run, by the name of its status.
MARKERS = {
    "CERTIFIED": "o",
    "SWAP_OPTIMAL": "P",
    "OPTIMAL": "*",
    "STATIONARY": "s",
    "ITERATION_LIMIT": "D",
    "TIME_LIMIT": "x",
    "INTERRUPTED": "v",
    "STOPPED_BY_CALLBACK": "^",
}


class Axis(NamedTuple):
    """An axis: its label, its kind ("number", "log", "percent" for shares, or "date"), and values that it must include.

    A logarithmic axis omits values that are not positive.
    """

    label: str
    kind: str = "number"
    reach: Sequence[float] = ()


class Series(NamedTuple):
    """A series of values that share a colour.

    Attributes
    ----------
    name : str
        The entry in the legend; none if empty.
    x, y : sequences of equal length
        Numbers, or dates such as 2024-01-31 for a date axis. Bars and dots have only x, one value per category. NaN
        leaves a gap.
    labels : sequence of str
        The names of the points in a scatter plot.
    style : {"", "muted", "hollow", "muted hollow", "dashed", "steps"}
        A line in steps keeps each value until the next.
    low, high : sequences of equal length
        Ends of a pale band around a line, or of a bracket beside a bar.
    family : str
        Series of the same family have the same colour.
    look : Style, optional
        Overrides ``style`` in matplotlib.
    """

    name: str
    x: Values
    y: Values = ()
    labels: Sequence[str] = ()
    style: str = ""
    low: Values = ()
    high: Values = ()
    family: str = ""
    look: Style | None = None


class Panel(NamedTuple):
    """One chart: its label, axes and series.

    Attributes
    ----------
    label : str
    x, y : Axis
    series : sequence of Series
    categories : sequence of str
        The rows of bars and dots.
    marks : sequence
        Where to draw vertical lines.
    empty : str
        Why there are no series.
    letters : int
        Minimum width of category names on a page, in letters; charts with the same width can be compared.
    """

    label: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    categories: Sequence[str] = ()
    marks: Values = ()
    empty: str = ""
    letters: int = 0


class Image(NamedTuple):
    """Pixels on a scale: linear from 0 and possibly signed, or logarithmic, where masked pixels are blank.

    Attributes
    ----------
    label : str
    pixels : array, rows × columns
    reach : float
        The largest |pixel| on the scale.
    signed : bool
        Whether the scale has negative values, whose pixels get a minus sign.
    floor : float
        The smallest value on a logarithmic scale; 0 for a linear one.
    """

    label: str
    pixels: Any
    reach: float
    signed: bool = False
    floor: float = 0.0


@dataclasses.dataclass(frozen=True)
class Chart:
    """Panels of one kind; a page shows one of them at a time, a figure all."""

    name: str
    title: str
    kind: str
    panels: Sequence[Panel]
    note: str = ""


def check_panel(name: str, kind: str, panel: Panel) -> None:
    """Refuse a panel without series, or with series of mismatched lengths."""
    choice(kind, "kind", KINDS, quoted=False)
    if not panel.series:
        raise ValueError(f"The chart {name!r} has no series; give at least one.")
    for each in panel.series:
        length = len(panel.categories) if kind in ("bar", "dot") else len(each.y)
        said = f"The series {each.name!r} of {name!r} has {len(each.x)} values for {length} places"
        if len(each.x) != length:
            raise ValueError(f"{said}.")
        for part in ("labels", "low", "high"):
            if len(getattr(each, part)) not in (0, length):
                raise ValueError(f"{said}, {len(getattr(each, part))} of them {part}.")


# Styles.


def styles_of(names: Iterable[str]) -> dict[str, Style]:
    """Return the style of each name: its own or a spare one; a hybrid gets that of its first stage, broad and pale.

    Examples
    --------
    >>> styles_of(["psg", "psg+bcd-g"])["psg+bcd-g"].colour == STYLES["psg"].colour
    True
    """
    found: dict[str, Style] = {}
    for name in names:
        first, *later = name.split("+")
        style = STYLES.get(first) or _spare(first, found)
        found[name] = _broad(style) if later else style
    return found


def shade(place: int, count: int) -> Style:
    """Return the style at a place in a family: darker and with longer dashes from the first to the last."""
    colour = SHADES[round(place * (len(SHADES) - 1) / max(1, count - 1))]
    return Style(colour, (0, (1.0 + 2.0 * place, 1.5)), 1.2)


def _broad(style: Style) -> Style:
    """Return the style of a hybrid; dashes are shortened, because matplotlib scales them with the width."""
    shrink, dash = style.width / HYBRID_WIDTH, style.dash
    if not isinstance(dash, str):
        dash = (dash[0], tuple(shrink * length for length in dash[1]))
    return style._replace(dash=dash, width=HYBRID_WIDTH, opacity=HYBRID_OPACITY)


def _spare(name: str, taken: Mapping[str, Style]) -> Style:
    """Return the spare style assigned to a name, or the next one that no other name in the plot has."""
    start = zlib.crc32(name.encode()) % len(SPARE)
    turned = [*SPARE[start:], *SPARE[:start]]
    colours = {style.colour for other, style in taken.items() if other.split("+")[0] != name}
    return next((style for style in turned if style.colour not in colours), turned[0])


# Panels shared by plots and reports.


def heights(values: Iterable[Vector], best: float | None = None) -> tuple[float, float]:
    """Return the best known objective, and what to subtract from objectives to draw them on a log axis."""
    every = np.concatenate(list(values))
    known = float(every.min()) if best is None else min(float(every.min()), best)
    drop = float(every.max()) - known
    return known, known - FLOOR * (drop if drop > 0.0 else max(1.0, abs(known)))


def median_band(curves: Sequence[tuple[Vector, Vector]], along: Vector) -> tuple[Vector, Vector, Vector]:
    """Return the minimum, median and maximum of step functions (x, y) at the points ``along``.

    A curve keeps its last value after its end, and has its first value before its start.
    """
    at = np.array([y[np.maximum(np.searchsorted(x, along, side="right") - 1, 0)] for x, y in curves])
    return at.min(axis=0), np.median(at, axis=0), at.max(axis=0)


def with_start(along: Values) -> Values:
    """Prepend the start of the first row: the previous row number, business day or period."""
    if len(along) == 0:
        return along
    values = np.asarray(along)
    if values.dtype.kind in "iuf":
        return np.concatenate([[values[0] - 1], values])
    days = values.astype("datetime64[D]")
    gap = int(np.median(np.diff(days).astype(np.int64))) if len(days) > 1 else 1
    start = days[0] - gap if gap > 4 else np.busday_offset(days[0], -1, roll="forward")
    return [str(start), *along] if isinstance(along, list) else np.concatenate([[start.astype(values.dtype)], values])


def growth_panel(along: Values, x: Axis, portfolio: Any, index: Any, marks: Sequence[Any] = ()) -> Panel:
    """Return the growth of 1 invested in a portfolio and in its index; the index is drawn first, hence underneath."""
    ours, theirs = (np.cumprod(np.append(1.0, 1.0 + np.asarray(each, dtype=np.float64))) for each in (portfolio, index))
    along = with_start(along)
    series = [Series("index", along, theirs, style="muted"), Series("portfolio", along, ours)]
    return Panel("Growth of 1", x, Axis("growth of 1"), series, marks=marks)


def balance_panel(names: Sequence[str], random: float, differences: Any) -> Panel:
    """Return |standardised mean difference| of each covariate after a split, with a mark for random splits."""
    x = Axis("|standardised mean difference|", reach=(random,))
    return Panel("", x, Axis(""), [Series("this split", np.abs(differences))], names, marks=(random,))


def bars_panel(x: Axis, names: Sequence[str], /, **values: Values) -> Panel:
    """Return bars by name, with one series per sequence of values; the series "before" is muted."""
    series = [Series(name, each, style="muted" if name == "before" else "") for name, each in values.items()]
    return Panel("", x, Axis(""), series, names)

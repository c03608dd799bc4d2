"""Pictures of runs, with matplotlib, which is imported nowhere else."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from counterpoise.checks import Vector
from counterpoise.problem import Result, Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")


class Style(NamedTuple):
    """A line's colour and dashes, either of which tells methods apart, its width and opacity."""

    colour: str
    dash: Any
    width: float = 1.6
    opacity: float = 1.0


# Colours of Okabe and Ito, which colour-blind readers can tell apart; in grey the dashes do it.
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
# Light to dark, for one method of several sizes.
SHADES = ("#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#08519c", "#08306b")
# A hybrid is a broad pale line, on which its first stage can be seen.
HYBRID_WIDTH, HYBRID_OPACITY = 5.0, 0.4
MARKERS = {
    Status.CERTIFIED: "o",
    Status.SWAP_OPTIMAL: "P",
    Status.OPTIMAL: "*",
    Status.STATIONARY: "s",
    Status.ITERATION_LIMIT: "D",
    Status.TIME_LIMIT: "x",
    Status.INTERRUPTED: "v",
    Status.STOPPED_BY_CALLBACK: "^",
}
# The best point is drawn this far above 0, as a share of the whole descent.
FLOOR = 1e-6
# Inches that an entry of a legend takes.
LEGEND_ENTRY = 1.7


def require_matplotlib() -> None:
    """Raise an ImportError of one sentence where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError(
            "A plot needs matplotlib: install the extra with pip install 'counterpoise[plots]'."
        ) from None


def plot_objective(
    results: Mapping[str, Result],
    best: float | None = None,
    x: Literal["time", "iteration"] = "time",
    ax: Axes | None = None,
) -> Axes:
    """Plot how far the best objective so far is above the best known, on logarithmic scales.

    Parameters
    ----------
    results : mapping of names to results
        One line each. A name has the same colour and dash in every plot.
    best : float, optional
        The best objective known from elsewhere; the least of all is used if it is smaller or this is not given.
    x : {"time", "iteration"}
    ax : Axes, optional
        A new figure's by default.
    """
    if x not in ("time", "iteration"):
        raise ValueError(f'x is {x!r}; it must be "time" or "iteration".')
    if not results:
        raise ValueError("results is empty; there is nothing to plot.")
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(layout="constrained")[1]
    curves = {name: _curve(result, 1 if x == "time" else 0) for name, result in results.items()}
    known, floor = _floor([values for _, values in curves.values()], best)
    styles = styles_of(results)
    for name, (along, values) in curves.items():
        _draw(ax, along, values - known + floor, name, styles[name], results[name].status)
    _dress(ax, x, known)
    _legend(ax, [result.status for result in results.values()])
    return ax


def save_objective(results: Mapping[str, Result], path: str | os.PathLike[str], title: str = "") -> None:
    """Write :func:`plot_objective` against time to a ``.png``, ``.svg`` or ``.pdf`` file."""
    figure = new_figure(7.6, 4.4)
    plot_objective(results, ax=figure.subplots()).set_title(title)
    figure.savefig(Path(path), dpi=160)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure; the same figure gives the same bytes, whenever it is written."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "counterpoise", "svg.fonttype": "path"}):
        figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches, which belongs to no window."""
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def panels(count: int, per_row: int, width: float = 2.6, height: float = 2.1) -> tuple[Figure, list[Axes]]:
    """Return a figure of so many panels, as many in a row as given."""
    columns, rows = min(count, per_row), -(-count // per_row)
    figure = new_figure(max(columns, 2) * width, rows * height + 0.5)
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax in grid[count:]:
        ax.set_axis_off()
    for ax in grid[:count]:
        ax.tick_params(labelsize=7)
        ax.grid(True, which="major", color="0.9")
        ax.set_axisbelow(True)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    return figure, grid[:count]


def draw_band(ax: Axes, along: Vector, low: Vector, middle: Vector, high: Vector, name: str, style: Style) -> None:
    """Draw a line in a pale band."""
    ax.fill_between(along, low, high, color=style.colour, alpha=0.12, lw=0)
    colour, dash, width, opacity = style
    ax.plot(along, middle, color=colour, ls=dash, lw=width, alpha=opacity, label=name)


def leave_empty(ax: Axes, reason: str) -> None:
    """Say in an empty panel why it is empty."""
    ax.text(0.5, 0.5, reason, transform=ax.transAxes, ha="center", va="center", color="0.5")
    ax.set_xticks([])
    ax.set_yticks([])


def share_legend(figure: Figure, axes: Iterable[Axes]) -> None:
    """Name each line once, below all panels."""
    named = {str(line.get_label()): line for ax in axes for line in ax.get_lines()}
    lines = {name: line for name, line in named.items() if not name.startswith("_")}
    if lines:
        options: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "handlelength": 4.0}
        fitting = int(figure.get_figwidth() / LEGEND_ENTRY)
        figure.legend(list(lines.values()), list(lines), ncols=max(1, min(len(lines), fitting)), **options)


def shade(place: int, count: int) -> Style:
    """Return one of a family's styles: darker and with longer dashes from the first to the last."""
    colour = SHADES[round(place * (len(SHADES) - 1) / max(1, count - 1))]
    return Style(colour, (0, (1.0 + 2.0 * place, 1.5)), 1.2)


def styles_of(names: Iterable[str]) -> dict[str, Style]:
    """Return the style of each name: its own, else a spare one; a hybrid is its first stage, broad and pale.

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


def _broad(style: Style) -> Style:
    """Return the style of a hybrid; matplotlib stretches dashes with the width, which is undone."""
    shrink, dash = style.width / HYBRID_WIDTH, style.dash
    if not isinstance(dash, str):
        dash = (dash[0], tuple(shrink * length for length in dash[1]))
    return Style(style.colour, dash, HYBRID_WIDTH, HYBRID_OPACITY)


def _spare(name: str, taken: Mapping[str, Style]) -> Style:
    """Return the spare style that belongs to a name, or the next that no other name of the plot has."""
    start = zlib.crc32(name.encode()) % len(SPARE)
    turned = [*SPARE[start:], *SPARE[:start]]
    colours = {style.colour for other, style in taken.items() if other.split("+")[0] != name}
    return next((style for style in turned if style.colour not in colours), turned[0])


def _curve(result: Result, column: int) -> tuple[Vector, Vector]:
    """Return time or iterations, the first moved off 0, and the best objective so far."""
    along, values = result.history[:, column], np.minimum.accumulate(result.history[:, 2])
    positive = along[along > 0.0]
    least = 0.5 * float(positive.min()) if len(positive) else 1.0
    return np.maximum(along, least), values


def _floor(curves: list[Vector], best: float | None) -> tuple[float, float]:
    """Return the best objective known, and the height at which it is drawn."""
    values = np.concatenate(curves)
    known = float(values.min()) if best is None else min(float(values.min()), best)
    drop = float(values.max()) - known
    return known, FLOOR * (drop if drop > 0.0 else max(1.0, abs(known)))


def _draw(ax: Axes, along: Vector, above: Vector, name: str, style: Style, status: Status) -> None:
    """Draw a line and mark why it ended; hollow marks leave the lines below them visible."""
    colour, dash, width, opacity = style
    below = 1.5 if opacity < 1.0 else 2.0
    ax.plot(along, above, color=colour, ls=dash, lw=width, alpha=opacity, label=name, zorder=below)
    ax.plot(along[-1:], above[-1:], MARKERS[status], color=colour, mfc="white", ms=7, mew=1.6, zorder=3)


def _dress(ax: Axes, x: str, known: float) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("time (s)" if x == "time" else "iterations")
    ax.set_ylabel(f"best objective so far − best known ({known:.6g})")
    ax.grid(True, which="major", color="0.9")
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _legend(ax: Axes, statuses: Iterable[Status]) -> None:
    """Name the lines, and the marks that occur."""
    from matplotlib.lines import Line2D

    lines = [line for line in ax.get_lines() if not str(line.get_label()).startswith("_")]
    marks = [
        Line2D([], [], ls="", marker=MARKERS[status], color="0.3", mfc="white", ms=7, mew=1.6)
        for status in dict.fromkeys(statuses)
    ]
    words = [status.name.lower().replace("_", " ") for status in dict.fromkeys(statuses)]
    names = [str(line.get_label()) for line in lines]
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    ax.legend([*lines, *marks], [*names, *words], frameon=False, handlelength=4.0, **place)


def plot_balance(table: Any, ax: Axes | None = None) -> Axes:
    """Plot the balance of a split, as Love plots do: |standardised mean difference| of every covariate.

    Parameters
    ----------
    table : DataFrame
        ``Split.balance``: one row per covariate, with columns ``random`` and ``difference``.
    ax : Axes, optional
        A new figure's by default.
    """
    absent = [name for name in ("random", "difference") if name not in table]
    if absent:
        raise ValueError(f"table has no column {absent[0]!r}; give the balance of a split.")
    if not len(table):
        raise ValueError("table is empty; there is nothing to plot.")
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(layout="constrained", figsize=(6.4, min(1.4 + 0.24 * len(table), 40.0)))[1]
    names, rows = [str(name) for name in table.index], np.arange(len(table))
    at_random, after = np.abs(table["random"].to_numpy()), np.abs(table["difference"].to_numpy())
    ax.hlines(rows, np.minimum(at_random, after), np.maximum(at_random, after), color="0.8", lw=1.0, zorder=1)
    circle: dict[str, Any] = {"marker": "o", "ls": "", "ms": 6, "zorder": 3}
    ax.plot(at_random, rows, color=SPARE[0].colour, mfc="white", mew=1.6, label="random, root mean square", **circle)
    ax.plot(after, rows, color=STYLES["bcd-l"].colour, label="this split", **circle)
    ax.axvline(0.0, color="0.5", lw=0.8, zorder=0)
    ax.set_yticks(rows, names)
    ax.set_ylim(len(table) - 0.4, -0.6)
    ax.set_xlabel("|standardised mean difference|")
    ax.grid(True, axis="x", color="0.9")
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return ax


def plot_tracking(
    portfolio: Any,
    index: Any,
    *,
    out_of_sample: Any = None,
    rebalances: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the growth of a portfolio and of its index, and below it the difference of their returns.

    Parameters
    ----------
    portfolio, index : Series or array of rows
        Simple returns as fractions, on the same rows.
    out_of_sample : label or int, optional
        The first row after those of the fit, a label of the Series or the number of a row; the rows before it are
        shaded.
    rebalances : sequence of labels or ints, optional
        Rows to mark.
    ax : Axes, optional
        A new figure's by default. The lower third of its place becomes the panel of differences, which is the last
        of ``ax.figure.axes``; the upper part is returned.
    """
    along, rows = _rows_of(portfolio)
    both = np.column_stack([np.asarray(part, dtype=np.float64) for part in (portfolio, index)])
    if not len(both):
        raise ValueError("portfolio is empty; there is nothing to plot.")
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(layout="constrained", figsize=(7.6, 5.0))[1]
    below = _panel_below(ax)
    names, styles = ("index", "portfolio"), (Style("0.55", "-", 2.6), STYLES["bcd-l"])
    for name, style, growth in zip(names, styles, np.cumprod(1.0 + both, axis=0).T[::-1], strict=True):
        ax.plot(along, growth, color=style.colour, ls="-", lw=style.width, label=name)
    difference = both[:, 0] - both[:, 1]
    error = float(np.sqrt(np.mean(difference**2)))
    below.fill_between(along, -error, error, color="0.85", lw=0, label=f"± {error:.2g}, root mean square")
    below.plot(along, difference, color=STYLES["bcd-l"].colour, lw=0.8)
    for row in () if rebalances is None else rebalances:
        for panel in (ax, below):
            panel.axvline(along[rows(row)], color="0.8", lw=0.7, ls=(0, (2, 2)), zorder=0)
    if out_of_sample is not None and (first := rows(out_of_sample)) > 0:
        for panel in (ax, below):
            label = "in sample" if panel is ax else None
            panel.axvspan(along[0], along[first], color=SPARE[0].colour, alpha=0.15, lw=0, zorder=0, label=label)
    ax.set_ylabel("growth of 1")
    below.set_ylabel("portfolio − index")
    for panel in (ax, below):
        panel.grid(True, axis="y", color="0.9")
        panel.set_axisbelow(True)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    ax.tick_params(labelbottom=False)
    if np.asarray(along).dtype.kind != "M":
        below.set_xlabel("row")
    ax.legend(frameon=False, loc="upper left")
    below.legend(frameon=False, loc="upper left", fontsize="small")
    return ax


def _rows_of(portfolio: Any) -> tuple[Any, Any]:
    """Return what to draw against, days or row numbers, and a function from a row's label or number to its number."""
    labels = getattr(portfolio, "index", None)
    if labels is None or callable(labels):
        return np.arange(len(portfolio)), int
    along = labels.tz_localize(None).to_numpy() if getattr(labels, "tz", None) is not None else labels.to_numpy()
    along = along if along.dtype.kind in "Miuf" else np.arange(len(labels))
    return along, lambda row: min(int(labels.searchsorted(row)), len(labels) - 1)


def _panel_below(ax: Axes) -> Axes:
    """Give the lower third of the place of an Axes to a new one with the same x-axis."""
    figure, place = ax.get_figure(), ax.get_subplotspec()
    assert figure is not None
    if place is not None:
        parts = place.subgridspec(2, 1, height_ratios=(2, 1))
        ax.set_subplotspec(parts[0])
        return figure.add_subplot(parts[1], sharex=ax)
    box = ax.get_position()
    third = box.height / 3.0
    ax.set_position((box.x0, box.y0 + third, box.width, 2.0 * third))
    return figure.add_axes((box.x0, box.y0, box.width, 0.9 * third), sharex=ax)


def plot_path(n_assets: Iterable[int], tracking_errors: Iterable[float], ax: Axes | None = None) -> Axes:
    """Plot the tracking error of portfolios against the number of their names.

    Parameters
    ----------
    n_assets : numbers of names
        In any order.
    tracking_errors : of each, in the unit of the returns
    ax : Axes, optional
        A new figure's by default.
    """
    pairs = sorted(zip(n_assets, tracking_errors, strict=True))
    if not pairs:
        raise ValueError("n_assets is empty; there is nothing to plot.")
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(layout="constrained")[1]
    numbers, errors = np.array(pairs).T
    ax.plot(numbers, errors, "o-", color=STYLES["bcd-l"].colour, mfc="white", mew=1.6)
    ax.set_xlabel("names, at most")
    ax.set_ylabel("tracking error (root mean square, per day)")
    ax.set_ylim(bottom=0.0)
    ax.grid(True, color="0.9")
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax

"""Pictures of runs, with matplotlib, which is imported nowhere else."""

from __future__ import annotations

import importlib.util
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

import counterpoise as cp
from counterpoise.checks import Vector, real_array, vector, whole_number
from counterpoise.extras import require
from counterpoise.output import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from counterpoise.problem import Problem, Result, Status

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
# By the name of the status.
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
# The best point is drawn this far above 0, as a share of the whole descent.
FLOOR = 1e-6
# Inches that an entry of a legend takes.
LEGEND_ENTRY = 1.7
# Points at which the landscape of a pair is evaluated, its marks apart.
LANDSCAPE = 601
# Share of a line or arc on either side of a point that is asked for a kink.
NEARBY = 1e-6
# A decrease below so many units of rounding of F is none, as in a run.
NOISE = 64.0
# Decreases below this share of the largest have the lightest colour.
FAINTEST = 1e-6


def require_matplotlib() -> None:
    """Raise an ImportError of one sentence where matplotlib is missing."""
    require("A plot needs", "matplotlib")


def has_matplotlib() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def plot_objective(
    results: Mapping[str, Result | Sequence[Result]],
    best: float | None = None,
    x: Literal["time", "iteration"] = "time",
    ax: Axes | None = None,
) -> Axes:
    """Plot how far the best objective so far is above the best known, on logarithmic scales.

    Parameters
    ----------
    results : mapping of names to results
        One line each. A name has the same colour and dash in every plot. With a list of results, from several starts,
        the line is their median and a band reaches from the least to the largest; a run that has ended keeps its last
        value.
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
    started = {name: [entry] if isinstance(entry, cp.Result) else list(entry) for name, entry in results.items()}
    if empty := [name for name, runs in started.items() if not runs]:
        raise ValueError(f"results[{empty[0]!r}] is empty; give at least one result.")
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(layout="constrained")[1]
    curves = {name: [_curve(run, 1 if x == "time" else 0) for run in runs] for name, runs in started.items()}
    known, floor = _floor([values for several in curves.values() for _, values in several], best)
    styles = styles_of(results)
    for name, several in curves.items():
        above = [(along, values - known + floor) for along, values in several]
        statuses = [run.status for run in started[name]]
        if len(above) == 1:
            _draw(ax, *above[0], name, styles[name], statuses[0])
        else:
            _draw_several(ax, above, name, styles[name], statuses)
    _dress(ax, x, known)
    _legend(ax, [run.status for runs in started.values() for run in runs])
    return ax


def save_objective(results: Mapping[str, Result], path: str | os.PathLike[str], title: str = "") -> None:
    """Write :func:`plot_objective` against time to a ``.png``, ``.svg`` or ``.pdf`` file."""
    figure = new_figure(7.6, 4.4)
    plot_objective(results, ax=figure.subplots()).set_title(title)
    with whole_file(Path(path)) as part:
        figure.savefig(part, dpi=160)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure; the same figure gives the same bytes, whenever it is written."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "counterpoise", "svg.fonttype": "path"}):
        with whole_file(path) as part:
            figure.savefig(part, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches, which belongs to no window."""
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def panels(count: int, per_row: int, width: float = 2.6, height: float = 2.1) -> tuple[Figure, list[Axes]]:
    """Return a figure of so many panels, as many in a row as given."""
    columns, rows = min(count, per_row), -(-count // per_row)
    if columns <= 2:  # one or two panels have the page to themselves
        width, height = 1.5 * width, 1.4 * height
    figure = new_figure(max(columns, 2) * width, rows * height)
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax in grid[count:]:
        ax.set_axis_off()
    for ax in grid[:count]:
        ax.tick_params(which="both", labelsize=7)
        ax.xaxis.label.set_size(8)
        ax.yaxis.label.set_size(8)
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
        options: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "handlelength": 4.0, "fontsize": 8}
        columns = max(1, min(len(lines), int(figure.get_figwidth() / LEGEND_ENTRY)))
        figure.set_figheight(figure.get_figheight() + 0.2 + 0.2 * -(-len(lines) // columns))
        figure.legend(list(lines.values()), list(lines), ncols=columns, **options)


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
    ax.plot(along[-1:], above[-1:], MARKERS[status.name], color=colour, mfc="white", ms=7, mew=1.6, zorder=3)


def _draw_several(
    ax: Axes, curves: list[tuple[Vector, Vector]], name: str, style: Style, statuses: list[Status]
) -> None:
    """Draw the median of several runs in the band of all, and mark where and why each ended."""
    along = np.unique(np.concatenate([one for one, _ in curves]))
    heights = np.array([values[np.maximum(np.searchsorted(one, along, "right") - 1, 0)] for one, values in curves])
    label = f"{name}, median of {len(curves)}"
    draw_band(ax, along, heights.min(axis=0), np.median(heights, axis=0), heights.max(axis=0), label, style)
    for (one, values), status in zip(curves, statuses, strict=True):
        ax.plot(one[-1:], values[-1:], MARKERS[status.name], color=style.colour, mfc="white", ms=5, mew=1.2, zorder=3)


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
        Line2D([], [], ls="", marker=MARKERS[status.name], color="0.3", mfc="white", ms=7, mew=1.6)
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


def plot_weights(weights: Any, ax: Axes | None = None, most: int = 30) -> Axes:
    """Plot the weights that are not 0 as horizontal bars, the largest first; negative ones are hatched.

    Parameters
    ----------
    weights : Series or array
        One weight per name; without names their positions are written.
    ax : Axes, optional
        A new figure's by default.
    most : int
        How many bars there are at most. What the others sum to is written below.
    """
    values, most = real_array(weights, "weights"), whole_number(most, "most", 1)
    if values.ndim != 1:
        raise ValueError(f"weights has shape {values.shape}; it must be one-dimensional, one weight per name.")
    if not len(values):
        raise ValueError("weights is empty; there is nothing to plot.")
    require_matplotlib()
    order, names = _largest_first(values), _labels_of(weights, len(values))
    drawn, others = order[:most], order[most:]
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(layout="constrained", figsize=(6.4, 1.4 + 0.24 * max(len(drawn), 3)))[1]
    if not len(drawn):
        leave_empty(ax, "all weights are 0")
        return ax
    _bars(ax, [names[k] for k in drawn], values[drawn])
    rest = f"; {len(others)} others sum to {values[others].sum():.3g}" if len(others) else ""
    ax.set_xlabel(f"weight{rest}")
    return ax


def plot_loadings(
    components: Any,
    shape: tuple[int, int] | None = None,
    names: Any = None,
    most: int = 10,
    titles: Sequence[str] | None = None,
    axes: Any = None,
) -> list[Axes]:
    """Plot each component, as an image or as horizontal bars of its largest loadings, all on one scale.

    Negative loadings have a minus sign in an image, and hatched bars.

    Parameters
    ----------
    components : array or DataFrame, components × features
        ``components_`` of an estimator; a single vector is one component.
    shape : (rows, columns), optional
        Of an image: draw images, not bars.
    names : of the features, optional
        Of bars. By default the columns of a DataFrame, otherwise positions.
    most : int
        How many bars a component has at most.
    titles : one per component, optional
        "component 0" and so on by default.
    axes : Axes, several, optional
        One per component at least. By default those of a new figure, where images have a colour bar too.

    Returns
    -------
    list of Axes
        One per component.
    """
    table, most = np.atleast_2d(real_array(components, "components")), whole_number(most, "most", 1)
    if table.ndim != 2 or not table.size:
        raise ValueError(f"components has shape {table.shape}; it must be components × features.")
    count, n = table.shape
    if shape is not None:
        _check_image(shape, names, n)
    labels = [str(name) for name in (getattr(components, "columns", range(n)) if names is None else names)]
    if len(labels) != n:
        raise ValueError(f"names has {len(labels)} names, but a component has {n} loadings.")
    words = [f"component {k}" for k in range(count)] if titles is None else [*titles]
    if len(words) != count:
        raise ValueError(f"titles has {len(words)} titles, but there are {count} components.")
    require_matplotlib()
    own = axes is None
    places = _places(count, most, shape) if own else [*np.ravel(axes)]
    if len(places) < count:
        raise ValueError(f"axes has {len(places)} Axes, but there are {count} components.")
    for ax, title in zip(places, words, strict=False):
        ax.set_title(title, loc="left", fontsize="medium")
    if shape is not None:
        _images(places[:count], table.reshape(count, *shape), own)
        return places[:count]
    for ax, row in zip(places, table, strict=False):
        order = _largest_first(row)[:most]
        if len(order):
            _bars(ax, [labels[k] for k in order], row[order])
            ax.set_xlim(1.05 * min(float(table.min()), 0.0), 1.05 * max(float(table.max()), 0.0))
            ax.set_xlabel("loading")
        else:
            leave_empty(ax, "all loadings are 0")
    return places[:count]


def _check_image(shape: tuple[int, int], names: Any, n: int) -> None:
    """Refuse a shape that does not hold a component, and names that an image cannot show."""
    if names is not None:
        raise ValueError("shape and names are both given; give shape for images, or names for bars.")
    if len(shape) != 2 or shape[0] * shape[1] != n:
        raise ValueError(f"shape is {tuple(shape)}, but a component has {n} loadings; give rows and columns of these.")


def _places(count: int, most: int, shape: tuple[int, int] | None) -> list[Axes]:
    """Return the Axes of a new figure, nearly as many rows as columns."""
    from matplotlib import pyplot

    columns = min(count, 4, max(1, int(np.ceil(np.sqrt(count)))))
    rows = -(-count // columns)
    size = (2.0 * columns + 0.8, 2.2 * rows) if shape is not None else (2.9 * columns, (0.9 + 0.2 * most) * rows)
    grid = pyplot.subplots(rows, columns, squeeze=False, figsize=size, layout="constrained")[1]
    for ax in grid.flat[count:]:
        ax.set_axis_off()
    return [*grid.flat[:count]]


def _images(axes: list[Axes], images: Vector, bar: bool) -> None:
    """Draw images on one scale; where there are signs, minus signs stand on the negative pixels."""
    signed, reach = bool((images < 0.0).any()), float(np.abs(images).max()) or 1.0
    scale: dict[str, Any] = {"cmap": "PuOr_r" if signed else "Blues", "vmin": -reach if signed else 0.0, "vmax": reach}
    for ax, image in zip(axes, images, strict=True):
        drawn = ax.imshow(image, **scale)
        for chosen, colour in ((image < -0.5 * reach, "white"), ((image < 0.0) & (image >= -0.5 * reach), "black")):
            rows, columns = np.nonzero(chosen)
            ax.plot(columns, rows, "_", color=colour, ms=4, mew=0.8)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.spines[:].set_color("0.8")
    if bar:
        figure = axes[0].get_figure()
        assert figure is not None
        figure.colorbar(drawn, ax=axes, label="loading", shrink=0.8)


def _largest_first(values: Vector) -> Any:
    """Return the positions of what is not 0, by size."""
    order = np.argsort(-np.abs(values), kind="stable")
    return order[values[order] != 0.0]


def _labels_of(values: Any, count: int) -> list[str]:
    """Return the names of a Series, or positions."""
    labels = getattr(values, "index", None)
    return [str(label) for label in (range(count) if labels is None or callable(labels) else labels)]


def _bars(ax: Axes, names: list[str], values: Vector) -> None:
    """Draw horizontal bars from the top down, negative ones in another colour and hatched."""
    rows = np.arange(len(values))
    positive: dict[str, Any] = {"color": STYLES["bcd-l"].colour}
    negative: dict[str, Any] = {"color": "white", "ec": STYLES["psg"].colour, "hatch": "////"}
    for chosen, look in ((values > 0.0, positive), (values < 0.0, negative)):
        ax.barh(rows[chosen], values[chosen], height=0.7, **look)
    ax.set_yticks(rows, names)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    if (values < 0.0).any():
        ax.axvline(0.0, color="0.5", lw=0.8)
    ax.tick_params(left=False)
    ax.grid(True, axis="x", color="0.9")
    ax.set_axisbelow(True)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def plot_pair(problem: Problem, x: Any, i: Any, j: Any, ax: Axes | None = None) -> Axes:
    """Plot how F changes when two coordinates move and all others stay, and where it is least.

    On ``Sum`` the pair moves on the line x + η(eᵢ − eⱼ) as far as the bounds allow, on ``Sphere`` on the arc, or with
    signs on the circle, xᵢ = v sin α, xⱼ = v cos α. The curve is ``problem.objective`` on a dense grid; the least is
    the one that the exact step of BCD-g finds. Vertical lines are the breakpoints of ``TopSum``, where a coordinate of
    the pair comes among the s largest or leaves them.

    Parameters
    ----------
    problem : Problem
    x : Series or array of length n
        Feasible to 1e-6.
    i, j : int, or str
        Two positions, or names if x is a Series.
    ax : Axes, optional
        A new figure's by default.
    """
    at, names = _feasible(problem, x), _labels_of(x, problem.n)
    i, j = _position(i, "i", names), _position(j, "j", names)
    if i == j:
        raise ValueError(f"i and j are both {i}; a pair has two different coordinates.")
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(layout="constrained")[1]
    from counterpoise.kernels import sweep

    terms = problem.terms()
    sweep.start(terms, at)
    track = _line(problem, at, i, j) if isinstance(problem.u, cp.Sum) else _arc(at, i, j, problem.u.signed)
    if track.low >= track.high:
        leave_empty(ax, f"the pair {names[i]}, {names[j]} cannot move")
        return ax
    new_i, new_j, gain = sweep.step(terms, at, i, j, 0.0)
    level, rounding = problem.value_and_resolution(at)
    gains = gain > NOISE * rounding
    here, best = track.parameter(at[i], at[j]), track.parameter(new_i, new_j)
    breaks = _breakpoints(problem, track)
    along = np.unique(np.r_[np.linspace(track.low, track.high, LANDSCAPE), breaks, here, best])
    change = np.array([problem.objective(track.point(float(t))) - level for t in along])
    for place, t in enumerate(breaks):
        label = f"breakpoint{'s' * (len(breaks) > 1)} of TopSum" if place == 0 else None
        ax.axvline(track.unit * t, color="0.6", lw=1.0, ls=(0, (3, 2)), zorder=1, label=label)
    ax.plot(track.unit * along, change, color=STYLES["bcd-g"].colour, lw=2.0, label="change of F")
    mark: dict[str, Any] = {"ls": "", "zorder": 4, "clip_on": False}
    ax.plot(track.unit * here, 0.0, marker="s", ms=8, mew=1.6, color="black", mfc="white", label="here", **mark)
    if gains:
        ax.plot(track.unit * best, -gain, marker="*", ms=15, color=STYLES["psg"].colour, label="exact step", **mark)
    ax.set_title(f"F falls by {gain:.3g}" if gains else "no step of this pair gains", loc="left")
    ax.set_xlabel(
        f"η, moved from {names[j]} to {names[i]}"
        if isinstance(problem.u, cp.Sum)
        else f"angle in degrees: sine for {names[i]}, cosine for {names[j]}"
    )
    ax.set_ylabel(f"F − F(x), where F(x) = {level:.6g}")
    if not isinstance(problem.u, cp.Sum):
        ax.set_xticks(np.linspace(track.unit * track.low, track.unit * track.high, 9 if problem.u.signed else 7))
    ax.grid(True, axis="y", color="0.9")
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


class _Track(NamedTuple):
    """Where a pair may move: an interval, its points, and the inverse."""

    low: float
    high: float
    unit: float
    point: Callable[[float], Vector]
    parameter: Callable[[float, float], float]
    crossings: Callable[[float], list[float]]
    meetings: tuple[float, ...]


def _line(problem: Problem, x: Vector, i: int, j: int) -> _Track:
    """Return x + η(eᵢ − eⱼ) between the bounds."""
    h, x_i, x_j = problem.separable, float(x[i]), float(x[j])

    def point(eta: float) -> Vector:
        moved = x.copy()
        moved[i], moved[j] = x_i + eta, x_j - eta
        return moved

    def crossings(level: float) -> list[float]:
        return [level - x_i, -level - x_i, x_j - level, x_j + level]

    low, high = max(h.lo[i] - x_i, x_j - h.hi[j]), min(h.hi[i] - x_i, x_j - h.lo[j])
    return _Track(float(low), float(high), 1.0, point, lambda a, b: float(a) - x_i, crossings, (0.5 * (x_j - x_i),))


def _arc(x: Vector, i: int, j: int, signed: bool) -> _Track:
    """Return the quarter of a circle, or with signs the circle, on which xᵢ² + xⱼ² stays."""
    v = float(np.hypot(x[i], x[j]))

    def point(angle: float) -> Vector:
        moved = x.copy()
        moved[i], moved[j] = v * np.sin(angle), v * np.cos(angle)
        return moved

    def crossings(level: float) -> list[float]:
        if level > v:
            return []
        sine, cosine = float(np.arcsin(level / v)), float(np.arccos(level / v))
        return [sine, -sine, np.pi - sine, sine - np.pi, cosine, -cosine, np.pi - cosine, cosine - np.pi]

    high = (np.pi if signed else 0.5 * np.pi) if v > 0.0 else 0.0
    low, meetings = (-high if signed else 0.0), tuple(0.25 * np.pi * k for k in (-3, -1, 1, 3))
    return _Track(low, high, 180.0 / np.pi, point, lambda a, b: float(np.arctan2(a, b)), crossings, meetings)


def _breakpoints(problem: Problem, track: _Track) -> Vector:
    """Return where −λ‖x‖_[s] has a kink inside the interval.

    A coordinate of the pair is then level with one of the others of rank s − 1 or s, or with its partner.
    """
    g = problem.g
    if not isinstance(g, cp.TopSum) or g.lam == 0.0:
        return np.empty(0)
    first, last = track.point(track.low), track.point(0.5 * (track.low + track.high))
    others = np.sort(np.abs(first[first == last]))[::-1][max(g.s - 2, 0) : g.s]
    maybe = np.unique([*track.meetings, *(t for level in (0.0, *others) for t in track.crossings(float(level)))])
    near = NEARBY * (track.high - track.low)

    def bends(t: float) -> bool:
        before, at, after = (g.value(track.point(each)) for each in (t - near, t, t + near))
        return abs(before - 2.0 * at + after) > 1e-3 * g.lam * near * float(np.abs(first - last).max())

    inside = maybe[(maybe > track.low + near) & (maybe < track.high - near)]
    return np.array([t for t in inside if bends(float(t))])


def _feasible(problem: Problem, x: Any) -> Vector:
    """Return a copy of x within its bounds, refusing a point that violates the constraints."""
    x = vector(x, "x", problem.n)
    violation = problem.violation(x)
    if violation > 1e-6:
        raise ValueError(f"x violates the constraints by {violation:g}; give problem.project(x) instead.")
    at: Vector = np.clip(x, problem.separable.lo, problem.separable.hi)
    return at


def _position(item: Any, what: str, names: list[str]) -> int:
    """Return the position of a coordinate that is given by name or position."""
    if isinstance(item, str):
        if item not in names:
            raise ValueError(f"{what} is {item!r}, which is no name of x; give one of its {len(names)} names.")
        return names.index(item)
    return whole_number(item, what, 0, len(names) - 1)


def plot_gap(problem: Problem, x: Any, ax: Axes | None = None, most: int = 40) -> Axes:
    """Plot how much F falls by the exact step of each pair, as a heat map; where none gains, the picture says so.

    The largest decrease of all is ``cws_gap`` of :func:`counterpoise.certify`, and its pair is always shown, with a
    star. Decreases below what double precision resolves of F count as none.

    Parameters
    ----------
    problem : Problem
    x : Series or array of length n
        Feasible to 1e-6.
    ax : Axes, optional
        A new figure's by default.
    most : int
        How many coordinates are shown at most: held ones, that is above their lower bound, and those of the smallest
        slopes, to which it pays most to move. A quarter of the places is for the latter.
    """
    at, names, most = _feasible(problem, x), _labels_of(x, problem.n), whole_number(most, "most", 2)
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(layout="constrained", figsize=(7.2, 6.0))[1]
    from counterpoise.kernels import sweep

    terms = problem.terms()
    sweep.start(terms, at)
    gap, *pair = sweep.scan(terms, at, 0.0, np.inf)[:3]
    resolved = NOISE * problem.value_and_resolution(at)[1]
    if gap <= resolved:
        leave_empty(ax, "no pair gains")
        ax.set_title(f"none of the {problem.n * (problem.n - 1) // 2:,} pairs lowers F", loc="left")
        return ax
    chosen, held = _relevant(problem, at, [int(k) for k in pair], most)
    count = len(chosen)
    decrease = np.zeros((count, count))
    for a, b in zip(*np.triu_indices(count, 1), strict=True):
        first, second = sorted((chosen[a], chosen[b]))
        decrease[a, b] = decrease[b, a] = sweep.step(terms, at, first, second, 0.0)[2]
    _heat(ax, np.ma.masked_less_equal(decrease, resolved))
    if 0 < held < count:
        for rule in (ax.axvline, ax.axhline):
            rule(held - 0.5, color="0.4", lw=0.8, ls=(0, (3, 2)))
    places = [chosen.index(int(k)) for k in pair]
    ax.plot(places, places[::-1], "*", color=SPARE[0].colour, mec="white", mew=0.8, ms=13)
    words: dict[str, Any] = {"fontsize": 9 if count <= 20 else 6}
    ax.set_xticks(range(count), [names[k] for k in chosen], rotation=90, **words)
    ax.set_yticks(range(count), [names[k] for k in chosen], **words)
    ax.set_title(f"largest decrease: {gap:.3g}, by {names[pair[0]]} and {names[pair[1]]}", loc="left")
    part = "" if count == problem.n else f"{count} of {problem.n} coordinates: "
    ax.set_xlabel(f"{part}{held} held, {count - held} at their lower bound")
    return ax


def _relevant(problem: Problem, x: Vector, pair: list[int], most: int) -> tuple[list[int], int]:
    """Return the coordinates to show, held ones before others, and how many are held.

    Of too many held ones those remain whose slopes differ most from the middle; the pair always does.
    """
    from counterpoise.terms.separable import one_sided_slopes

    gradient = problem.f.gradient(x)
    right = one_sided_slopes(problem.separable, x)[1]
    slope = gradient + right + problem.g.subgradient(x, gradient + right)
    if not isinstance(problem.u, cp.Sum):
        slope = slope - (x @ slope) * x
    above = x > problem.separable.lo
    odd = np.abs(slope - np.median(slope[above])) if above.any() else np.zeros(len(x))
    odd[pair] = np.inf
    sought = slope.copy()
    sought[pair] = -np.inf
    held, others = np.flatnonzero(above), np.flatnonzero(~above)
    held, others = held[np.argsort(-odd[held], kind="stable")], others[np.argsort(sought[others], kind="stable")]
    kept = held[: max(most - max(most // 4, 1), most - len(others))]
    entering = others[: most - len(kept)]
    kept, entering = kept[np.argsort(-x[kept], kind="stable")], entering[np.argsort(slope[entering], kind="stable")]
    return [*map(int, kept), *map(int, entering)], len(kept)


def _heat(ax: Axes, decrease: Any) -> None:
    """Draw a heat map on a logarithmic scale, dark for much and white for nothing."""
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    largest, least = float(decrease.max()), float(decrease.min())
    floor = min(max(least, FAINTEST * largest), 0.1 * largest)
    colours = LinearSegmentedColormap.from_list("decrease", SHADES)
    image = ax.imshow(decrease, cmap=colours, norm=LogNorm(floor, largest), interpolation="nearest")
    figure = ax.get_figure()
    assert figure is not None
    extend = "min" if least < floor else "neither"
    figure.colorbar(image, ax=ax, label="decrease of F; white: none", extend=extend, shrink=0.8)

"""Draw descriptions of pictures with matplotlib; no other module imports it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoise.figures.describe import BLUE, ORANGE, SHADES, SPARE, STYLES, Axis, Image, Panel, Series, Style
from counterpoise.output import whole_file
from counterpoise.sentences import percent, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours of series without a look of their own.
COLOURS = (BLUE, ORANGE, STYLES["mscr"].colour, STYLES["pdca"].colour, *(style.colour for style in SPARE))
MUTED = "0.55"
# Size of a marker relative to the width of its line, alone and, smaller, on a line.
MARKER, ON_LINE = 4.4, 3.2
# Width in inches of a legend entry, and of a letter in it.
LEGEND_ENTRY, LETTER = 0.95, 0.068
LEGENDS: dict[str, dict[str, Any]] = {
    "right": {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)},
    "above": {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2},
    "inside": {"loc": "upper left"},
}


def require_matplotlib() -> None:
    """Raise an ImportError with a one-sentence message if matplotlib is not installed."""
    require("A plot needs", "matplotlib")


def has_matplotlib() -> bool:
    """Return whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def axes_or_new(ax: Axes | None, width: float = 6.4, height: float = 4.8) -> Axes:
    """Return the given Axes, or those of a new pyplot figure."""
    require_matplotlib()
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained", figsize=(width, height))[1]


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, without a pyplot window."""
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path, dpi: int = 110) -> None:
    """Write a figure to a file; the same figure always gives the same bytes."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "counterpoise", "svg.fonttype": "path"}):
        with whole_file(path) as part:
            figure.savefig(part, dpi=dpi, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


# One panel.


def draw(ax: Axes, kind: str, panel: Panel, legend: str = "", marks: str = "") -> None:
    """Draw a panel into Axes.

    Parameters
    ----------
    ax : Axes
    kind : {"line", "bar", "dot", "scatter"}
    panel : Panel
    legend : {"", "right", "above", "inside"}
        Where to put the legend, if any.
    marks : str
        The name of the vertical lines in the legend.
    """
    if not panel.series:
        leave_empty(ax, panel.empty)
        return
    coloured = [series for series in panel.series if "muted" not in series.style]
    families = list(dict.fromkeys(series.family or series.name for series in coloured))
    for k, series in enumerate(panel.series):
        place = families.index(series.family or series.name) if series in coloured else 0
        style = series.look or _look(series, COLOURS[place % len(COLOURS)])
        if kind in ("bar", "dot"):
            (_draw_bars if kind == "bar" else _draw_dots)(ax, panel, k, style)
        else:
            _draw_line(ax, series, style if kind == "line" else style._replace(dash="", marker="."))
    for k, mark in enumerate(panel.marks):
        label = marks if k == 0 and marks else None
        ax.axvline(mark, color="0.6", lw=0.9, ls=(0, (3, 2)), zorder=1, label=label)
    _dress(ax, kind, panel)
    if legend:
        add_legend(ax, legend)


def _look(series: Series, colour: str) -> Style:
    muted, dashed = "muted" in series.style, "dashed" in series.style
    return Style(MUTED if muted else colour, (0, (4, 2)) if dashed else "-", 2.6 if muted else 1.6)


def _draw_line(ax: Axes, series: Series, style: Style) -> None:
    """Draw a line with its pale band, or only a band or points; lines underneath hollow points stay visible."""
    label, points = series.name or None, style.dash == ""
    if len(series.low):
        alone = not len(series.y)
        look: dict[str, Any] = {"color": "0.85"} if alone else {"color": style.colour, "alpha": 0.12}
        look |= {"step": "post"} if "steps" in series.style else {}
        ax.fill_between(series.x, series.low, series.high, lw=0, label=label if alone else None, **look)
    if len(series.y):
        look = {"color": style.colour, "ls": style.dash, "lw": style.width, "alpha": style.opacity, **_marker(style)}
        steps = "steps-post" if "steps" in series.style else "default"
        order = 3.0 if points else 1.5 if style.opacity < 1.0 else 2.0
        ax.plot(series.x, series.y, label=label, drawstyle=steps, zorder=order, clip_on=not points, **look)


def _marker(style: Style) -> dict[str, Any]:
    if not style.marker:
        return {}
    size = (MARKER if style.dash == "" else ON_LINE) * style.width
    look = {"marker": style.marker, "ms": size, "mew": min(style.width, 1.6)}
    return look if style.filled else {**look, "mfc": "white"}


def _draw_dots(ax: Axes, panel: Panel, k: int, style: Style) -> None:
    rows, values = np.arange(len(panel.categories)), np.array([series.x for series in panel.series], dtype=np.float64)
    if k == 0:
        ax.hlines(rows, values.min(axis=0), values.max(axis=0), color="0.8", lw=1.0, zorder=1)
    series = panel.series[k]
    colour = SPARE[0].colour if "muted" in series.style else style.colour
    fill: dict[str, Any] = {"mfc": "white", "mew": 1.6} if "hollow" in series.style else {}
    ax.plot(series.x, rows, color=colour, marker="o", ls="", ms=6, zorder=3, label=series.name, **fill)


def _draw_bars(ax: Axes, panel: Panel, k: int, style: Style) -> None:
    """Draw horizontal bars, grouped by category; negative ones are hatched."""
    values, count = np.asarray(panel.series[k].x, dtype=np.float64), len(panel.series)
    height = 0.7 / count
    rows = np.arange(len(values)) + (k - 0.5 * (count - 1)) * height
    negative: dict[str, Any] = {"color": "white", "ec": ORANGE, "hatch": "////"}
    name = panel.series[k].name if count > 1 else None
    for chosen, look in ((~(values < 0.0), {"color": style.colour}), (values < 0.0, negative)):
        if chosen.any():
            bars = ax.barh(rows[chosen], values[chosen], height=height, label=name, **look)
            name = None
            if count > 1:
                texts = [percent(v, 0) if panel.x.kind == "percent" else f"{v:.3g}" for v in values[chosen]]
                ax.bar_label(bars, texts, fontsize=6, padding=2)
    if (values < 0.0).any():
        ax.axvline(0.0, color="0.5", lw=0.8)


def _dress(ax: Axes, kind: str, panel: Panel) -> None:
    """Set scales, labels and ticks, with a minimal frame and grid."""
    by_row = kind in ("bar", "dot")
    _scale(ax, "x", panel.x)
    if by_row:
        ax.set_yticks(np.arange(len(panel.categories)), list(panel.categories))
        ax.set_ylim(len(panel.categories) - 0.4, -0.6)
        ax.tick_params(left=kind == "dot")
    else:
        _scale(ax, "y", panel.y)
    ax.grid(True, axis="x" if by_row else "both", which="major", color="0.9")
    ax.set_axisbelow(True)
    for side in ("top", "right", *(("left",) if kind == "bar" else ())):
        ax.spines[side].set_visible(False)


def _scale(ax: Axes, which: str, axis: Axis) -> None:
    from matplotlib.ticker import PercentFormatter

    if axis.kind == "log":
        (ax.set_xscale if which == "x" else ax.set_yscale)("log")
    elif axis.kind == "percent":
        getattr(ax, f"{which}axis").set_major_formatter(PercentFormatter(1.0))
    (ax.set_xlabel if which == "x" else ax.set_ylabel)(axis.label)


def add_legend(ax: Axes, where: str, marks: Mapping[str, Style] | None = None, **options: Any) -> None:
    """Add a legend of the series, and of ``marks`` that occur."""
    from matplotlib.lines import Line2D

    handles, names = ax.get_legend_handles_labels()
    for name, style in (marks or {}).items():
        handles.append(Line2D([], [], color=style.colour, ls="", **_marker(style)))
        names.append(name)
    place = {**LEGENDS[where], **({"handlelength": 4.0} if where == "right" else {}), **options}
    ax.legend(handles, names, frameon=False, **place)


def leave_empty(ax: Axes, reason: str) -> None:
    """Write in empty Axes why they are empty."""
    ax.text(0.5, 0.5, reason, transform=ax.transAxes, ha="center", va="center", color="0.5")
    ax.set_xticks([])
    ax.set_yticks([])


# Several panels.


def draw_grid(panels: Sequence[Panel], kind: str, per_row: int, width: float = 2.6, height: float = 2.1) -> Figure:
    """Return a figure of panels with one legend below; labels repeated within a row are shown once."""
    count = len(panels)
    columns, rows = min(count, per_row), -(-count // per_row)
    if columns <= 2:  # one or two panels can be larger
        width, height = 1.5 * width, 1.4 * height
    figure = new_figure(max(columns, 2) * width, rows * height)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for k, (ax, panel) in enumerate(zip(axes, panels, strict=False)):
        ax.set_title(panel.label, fontsize=8)
        ax.tick_params(which="both", labelsize=7)
        for axis in (ax.xaxis, ax.yaxis):
            axis.label.set_size(8)
        draw(ax, kind, panel)
        if k % columns and panel.y.label == panels[k - 1].y.label:
            ax.set_ylabel("")
    for ax in axes[count:]:
        ax.set_axis_off()
    share_legend(figure, axes[:count])
    return figure


def share_legend(figure: Figure, axes: Iterable[Axes]) -> None:
    """Add a legend below all panels that lists each series once."""
    named = {name: handle for ax in axes for handle, name in zip(*ax.get_legend_handles_labels(), strict=True)}
    if named:
        options: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "handlelength": 4.0, "fontsize": 8}
        entry = LEGEND_ENTRY + LETTER * max(map(len, named))
        columns = max(1, min(len(named), int(figure.get_figwidth() / entry)))
        figure.set_figheight(figure.get_figheight() + 0.2 + 0.2 * -(-len(named) // columns))
        figure.legend(list(named.values()), list(named), ncols=columns, **options)


def panel_below(ax: Axes) -> Axes:
    """Split off the lower third of Axes as new Axes with the same x-axis."""
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


# Images.


def draw_images(axes: Sequence[Axes], images: Sequence[Image], bar: str = "", **options: Any) -> None:
    """Draw images, with a colour bar labelled ``bar`` unless that is empty; ``options`` are passed to the bar.

    Negative pixels get a minus sign, so that they can be recognised in greyscale.
    """
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize

    for ax, (label, pixels, reach, signed, floor) in zip(axes, images, strict=True):
        norm = LogNorm(floor, reach) if floor > 0.0 else Normalize(-reach if signed else 0.0, reach)
        shades = LinearSegmentedColormap.from_list("shades", SHADES)
        colours = shades if floor > 0.0 else "PuOr_r" if signed else "Blues"
        drawn = ax.imshow(pixels, interpolation="nearest", cmap=colours, norm=norm)
        faint = (pixels < 0.0) & (pixels >= -0.5 * reach)
        for chosen, colour in ((pixels < -0.5 * reach, "white"), (faint, "black")) if signed else ():
            rows, columns = np.nonzero(chosen)
            ax.plot(columns, rows, "_", color=colour, ms=4, mew=0.8)
        ax.set_xticks([])
        ax.set_yticks([])
        if floor == 0.0:
            ax.spines[:].set_color("0.8")
        if label:
            ax.set_title(label, loc="left", fontsize="medium")
    if bar:
        figure = axes[0].get_figure()
        assert figure is not None
        figure.colorbar(drawn, ax=list(axes), label=bar, shrink=0.8, **options)


def draw_path(
    ax: Axes | None, name: str, numbers: Iterable[int], values: Iterable[float], across: str, up: Axis, mark: Any = None
) -> Axes:
    """Draw values against numbers, given in any order, and mark one; ``name`` is for the error if there are none."""
    pairs = sorted(zip(numbers, values, strict=True))
    if not pairs:
        raise ValueError(f"{name} is empty; there is nothing to plot.")
    ax = axes_or_new(ax)
    along, heights = np.array(pairs).T
    series = [Series("", along, heights, look=Style(BLUE, "-", marker="o"))]
    marks, label = ((), "") if mark is None else ([mark], f"elbow: {mark} loadings")
    draw(ax, "line", Panel("", Axis(across), up, series, marks=marks), marks=label)
    ax.set_ylim(bottom=0.0)
    if label:
        add_legend(ax, "inside", loc="lower right")
    return ax

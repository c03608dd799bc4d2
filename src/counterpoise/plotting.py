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
# A hybrid is a broad pale line, on which its first stage can be seen.
HYBRID_WIDTH, HYBRID_OPACITY = 5.0, 0.4
MARKERS = {
    Status.CERTIFIED: "o",
    Status.STATIONARY: "s",
    Status.ITERATION_LIMIT: "D",
    Status.TIME_LIMIT: "x",
    Status.INTERRUPTED: "v",
    Status.STOPPED_BY_CALLBACK: "^",
}
# The best point is drawn this far above 0, as a share of the whole descent.
FLOOR = 1e-6


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
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.4), layout="constrained")
    plot_objective(results, ax=figure.subplots()).set_title(title)
    figure.savefig(Path(path), dpi=160)


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

"""Figures made from records alone, laid out as in the paper: five panels a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from counterpoise import plotting
from counterpoise.checks import Vector
from counterpoise.experiments.compare import Cell
from counterpoise.experiments.plan import LETTERS, Method, Target
from counterpoise.experiments.store import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Item = TypeVar("Item", Cell, Record)

PER_ROW = 5
# Points in time at which histories are read off.
INSTANTS = 160


def styles(methods: Sequence[Method]) -> dict[str, plotting.Style]:
    """Return a style a method: the strongest setting is the thin brother of the paper's, blocks are shades of one."""
    found = {}
    blocks = list(dict.fromkeys(m.name.rstrip("*") for m in methods if m.stages[0]["method"] == "bcd-l"))
    for method in methods:
        stages = [str(stage["method"]) for stage in method.stages]
        style = plotting.styles_of(["+".join(stages)])["+".join(stages)]
        if method.name.rstrip("*") in blocks and len(blocks) > 1:
            style = plotting.shade(blocks.index(method.name.rstrip("*")), len(blocks))
        if method.name.endswith("*"):
            style = style._replace(width=0.8, dash="-")
        found[method.name] = style
    return found


def curves(target: Target, cells: list[Cell], absent: dict[str, str]) -> Figure:
    """Draw the mean objective, and the range over starts, against s or c; one panel a problem and set."""
    drawn = styles(target.methods)
    figure, axes, panels = _layout(target, cells, absent)
    for ax, problem, found in panels:
        chosen = sorted(found, key=lambda cell: cell.value)
        along = np.array([cell.value for cell in chosen])
        for method, style in drawn.items():
            finals = [cell.finals[method] for cell in chosen]
            low, middle, high = (np.array([take(x) for x in finals]) for take in (np.min, np.mean, np.max))
            plotting.draw_band(ax, along, low, middle, high, method, style)
        if min(cell.finals[method].min() for cell in chosen for method in drawn) > 0.0:
            ax.set_yscale("log")
        ax.set_xlabel(LETTERS[problem])
    plotting.share_legend(figure, axes)
    return figure


def histories(target: Target, records: list[Record], absent: dict[str, str]) -> Figure:
    """Draw the median over starts of the best objective so far, above the best known, against time."""
    drawn = styles(target.methods)
    figure, axes, panels = _layout(target, records, absent)
    for ax, _, chosen in panels:
        best = min(record.objective for record in chosen)
        drop = max(record.history[0, 2] for record in chosen) - best
        floor = plotting.FLOOR * (drop if drop > 0.0 else max(1.0, abs(best)))
        for method, style in drawn.items():
            runs = [record.history for record in chosen if record.method == method]
            if runs:
                instants, low, middle, high = band(runs)
                shift = floor - best
                plotting.draw_band(ax, instants, low + shift, middle + shift, high + shift, method, style)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("seconds")
    for ax in axes[::PER_ROW]:
        ax.set_ylabel("objective − best known")
    plotting.share_legend(figure, axes)
    return figure


def _layout(
    target: Target, items: Sequence[Item], absent: dict[str, str]
) -> tuple[Figure, list[Axes], list[tuple[Axes, str, list[Item]]]]:
    """Return the figure, all its Axes, and (Axes, problem, items) of each panel that has something to draw."""
    places = list(dict.fromkeys((grid.problem, name) for grid in target.grids for name in grid.sets))
    figure, axes = plotting.panels(len(places), PER_ROW)
    filled = []
    for ax, (problem, name) in zip(axes, places, strict=True):
        chosen = [item for item in items if (item.problem, item.dataset) == (problem, name)]
        ax.set_title(f"{problem} in {name}", fontsize=8)
        if chosen:
            filled.append((ax, problem, chosen))
        else:
            plotting.leave_empty(ax, "absent" if name in absent else "no records")
    return figure, axes, filled


def band(runs: list[Vector]) -> tuple[Vector, Vector, Vector, Vector]:
    """Return instants, and the least, median and largest of the best objectives so far at each.

    A run that has ended keeps its last value; before its first instant it has its first.
    """
    first = min(max(run[run[:, 1] > 0.0, 1].min(initial=1.0), 1e-6) for run in runs)
    last = max(max(run[-1, 1] for run in runs), 2.0 * first)
    instants = np.geomspace(first, last, INSTANTS)
    values = []
    for run in runs:
        at = np.searchsorted(run[:, 1], instants, side="right") - 1
        values.append(np.minimum.accumulate(run[:, 2])[np.maximum(at, 0)])
    stacked = np.array(values)
    return instants, stacked.min(axis=0), np.median(stacked, axis=0), stacked.max(axis=0)

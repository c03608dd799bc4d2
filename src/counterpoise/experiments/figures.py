"""Figures made from records alone: laid out as in the paper, five panels a row, and as charts of a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from counterpoise import plotting
from counterpoise.checks import Vector
from counterpoise.experiments.compare import Cell
from counterpoise.experiments.plan import LETTERS, Method, Target
from counterpoise.experiments.store import Record
from counterpoise.report import Axis, Panel, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Item = TypeVar("Item", Cell, Record)

PER_ROW = 5
# Points in time at which histories are read off.
INSTANTS = 160
# Digits of what a chart shows of a history; a page holds many.
DIGITS = 6


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
        for method, style in drawn.items():
            plotting.draw_band(ax, *_curve(found, method), method, style)
        if _all_positive(found):
            ax.set_yscale("log")
        ax.set_xlabel(LETTERS[problem])
    plotting.share_legend(figure, axes)
    return figure


def curve_panels(target: Target, cells: list[Cell]) -> list[Panel]:
    """Return what :func:`curves` draws as panels of a chart."""
    panels = []
    for problem, name in _places(target):
        chosen = _of(cells, problem, name)
        if chosen:
            kind = "log" if _all_positive(chosen) else "number"
            series = [_series(method.name, *_curve(chosen, method.name)) for method in target.methods]
            panels.append(Panel(f"{problem} in {name}", Axis(LETTERS[problem]), Axis("objective", kind), series))
    return panels


def _curve(cells: list[Cell], method: str) -> tuple[Vector, Vector, Vector, Vector]:
    """Return s or c, and the least, mean and largest final objective at each."""
    chosen = sorted(cells, key=lambda cell: cell.value)
    finals = [cell.finals[method] for cell in chosen]
    low, middle, high = (np.array([take(x) for x in finals]) for take in (np.min, np.mean, np.max))
    return np.array([cell.value for cell in chosen]), low, middle, high


def _all_positive(cells: list[Cell]) -> bool:
    return all(finals.min() > 0.0 for cell in cells for finals in cell.finals.values())


def _series(name: str, along: Vector, low: Vector, middle: Vector, high: Vector) -> Series:
    """Return a line in its band; the strongest setting and a hybrid are the dashed brothers of the paper's method."""
    family = name.rstrip("*").split("+")[0]
    style = "" if name == family else "dashed"
    if (low < high).any():
        return Series(name, along, middle, style=style, low=low, high=high, family=family)
    return Series(name, along, middle, style=style, family=family)


def histories(target: Target, records: list[Record], absent: dict[str, str]) -> Figure:
    """Draw the median over starts of the best objective so far, above the best known, against time."""
    drawn = styles(target.methods)
    figure, axes, panels = _layout(target, records, absent)
    for ax, _, chosen in panels:
        best, floor = _floor(chosen)
        shift = floor - best
        for method, style in drawn.items():
            runs = _runs(chosen, method)
            if runs:
                instants, low, middle, high = band(runs)
                plotting.draw_band(ax, instants, low + shift, middle + shift, high + shift, method, style)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("seconds")
    for ax in axes[::PER_ROW]:
        ax.set_ylabel("objective − best known")
    plotting.share_legend(figure, axes)
    return figure


def history_panels(target: Target, records: list[Record]) -> list[Panel]:
    """Return what :func:`histories` draws as panels of a chart, all methods read off at the same instants."""
    panels = []
    for problem, name in _places(target):
        chosen = _of(records, problem, name)
        by_method = {method.name: _runs(chosen, method.name) for method in target.methods}
        by_method = {method: runs for method, runs in by_method.items() if runs}
        if by_method:
            best, floor = _floor(chosen)
            instants = instants_of([run for runs in by_method.values() for run in runs])
            series = []
            for method, runs in by_method.items():
                levels = (_rounded(level - best + floor) for level in band(runs, instants)[1:])
                series.append(_series(method, _rounded(instants), *levels))
            axes = Axis("seconds", "log"), Axis("objective − best known", "log")
            panels.append(Panel(f"{problem} in {name}", *axes, series))
    return panels


def _rounded(values: Vector) -> Vector:
    return np.array([float(f"{value:.{DIGITS}g}") for value in values])


def _floor(records: list[Record]) -> tuple[float, float]:
    """Return the best objective known, and how far above 0 it is drawn, as a logarithm has no 0."""
    best = min(record.objective for record in records)
    drop = max(record.history[0, 2] for record in records) - best
    return best, plotting.FLOOR * (drop if drop > 0.0 else max(1.0, abs(best)))


def _runs(records: list[Record], method: str) -> list[Vector]:
    return [record.history for record in records if record.method == method]


def _places(target: Target) -> list[tuple[str, str]]:
    """Return the panels: a problem and a set each."""
    return list(dict.fromkeys((grid.problem, name) for grid in target.grids for name in grid.sets))


def _of(items: Sequence[Item], problem: str, name: str) -> list[Item]:
    return [item for item in items if (item.problem, item.dataset) == (problem, name)]


def _layout(
    target: Target, items: Sequence[Item], absent: dict[str, str]
) -> tuple[Figure, list[Axes], list[tuple[Axes, str, list[Item]]]]:
    """Return the figure, all its Axes, and (Axes, problem, items) of each panel that has something to draw."""
    places = _places(target)
    figure, axes = plotting.panels(len(places), PER_ROW)
    filled = []
    for ax, (problem, name) in zip(axes, places, strict=True):
        chosen = _of(items, problem, name)
        ax.set_title(f"{problem} in {name}", fontsize=8)
        if chosen:
            filled.append((ax, problem, chosen))
        else:
            plotting.leave_empty(ax, "absent" if name in absent else "no records")
    return figure, axes, filled


def instants_of(runs: list[Vector]) -> Vector:
    """Return points in time, even by their logarithm, from the first that a run reports to the last."""
    first = min(max(run[run[:, 1] > 0.0, 1].min(initial=1.0), 1e-6) for run in runs)
    last = max(max(run[-1, 1] for run in runs), 2.0 * first)
    return np.geomspace(first, last, INSTANTS)


def band(runs: list[Vector], instants: Vector | None = None) -> tuple[Vector, Vector, Vector, Vector]:
    """Return instants, and the least, median and largest of the best objectives so far at each.

    A run that has ended keeps its last value; before its first instant it has its first.
    """
    instants = instants_of(runs) if instants is None else instants
    values = []
    for run in runs:
        at = np.searchsorted(run[:, 1], instants, side="right") - 1
        values.append(np.minimum.accumulate(run[:, 2])[np.maximum(at, 0)])
    stacked = np.array(values)
    return instants, stacked.min(axis=0), np.median(stacked, axis=0), stacked.max(axis=0)

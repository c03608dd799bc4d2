"""Describe the paper's figures, from records only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from counterpoise.checks import Vector
from counterpoise.experiments.compare import Cell
from counterpoise.experiments.plan import LETTERS, Method, Target
from counterpoise.experiments.store import Record
from counterpoise.figures.describe import Axis, Panel, Series, Style, heights, median_band, shade, styles_of

# Points in time at which histories are evaluated.
INSTANTS = 160
# Digits of the values in a chart; a page holds many of them.
DIGITS = 6


def styles(methods: Sequence[Method]) -> dict[str, Style]:
    """Return the style of each method; columns with a star are thin, block sizes are shades of one colour."""
    found = {}
    blocks = list(dict.fromkeys(m.name.rstrip("*") for m in methods if m.stages[0]["method"] == "bcd-l"))
    for method in methods:
        stages = "+".join(str(stage["method"]) for stage in method.stages)
        style = styles_of([stages])[stages]
        if method.name.rstrip("*") in blocks and len(blocks) > 1:
            style = shade(blocks.index(method.name.rstrip("*")), len(blocks))
        found[method.name] = style._replace(width=0.8, dash="-") if method.name.endswith("*") else style
    return found


def panels_of(target: Target, items: Sequence[Cell] | Sequence[Record], absent: dict[str, str]) -> list[Panel]:
    """Return a panel for each problem and set, from cells for curves and from records for histories.

    Curves show the mean objective and its range over starts against s or c. Histories show the median over starts of
    the best objective so far, minus the best known, against time. A panel without items says why it is empty.
    """
    drawn, panels = styles(target.methods), []
    build: Any = _curve_panel if target.kind == "curves" else _history_panel
    for problem, name in dict.fromkeys((grid.problem, name) for grid in target.grids for name in grid.sets):
        chosen = [item for item in items if (item.problem, item.dataset) == (problem, name)]
        reason = "absent" if name in absent else "no records"
        panel = build(problem, chosen, drawn) if chosen else Panel("", Axis(""), Axis(""), (), empty=reason)
        panels.append(panel._replace(label=f"{problem} in {name}"))
    return panels


def _curve_panel(problem: str, cells: list[Cell], drawn: dict[str, Style]) -> Panel:
    cells = sorted(cells, key=lambda cell: cell.value)
    positive = all(finals.min() > 0.0 for cell in cells for finals in cell.finals.values())
    along, series = np.array([cell.value for cell in cells]), []
    for method, style in drawn.items():
        finals = [cell.finals[method] for cell in cells]
        levels = [np.array([take(values) for values in finals]) for take in (np.min, np.mean, np.max)]
        series.append(_series(method, along, levels, style))
    return Panel("", Axis(LETTERS[problem]), Axis("objective", "log" if positive else "number"), series)


def _history_panel(problem: str, records: list[Record], drawn: dict[str, Style]) -> Panel:
    """Return a panel in which all methods are evaluated at the same instants."""
    runs = {method: [record.history for record in records if record.method == method] for method in drawn}
    runs = {method: histories for method, histories in runs.items() if histories}
    if not runs:
        return Panel("", Axis(""), Axis(""), (), empty="no records")
    ends = [np.array([record.objective, record.history[0, 2]]) for record in records]
    _, shift = heights(ends)
    instants = instants_of([run for several in runs.values() for run in several])
    series = []
    for method, several in runs.items():
        levels = [_rounded(level - shift) for level in band(several, instants)[1:]]
        series.append(_series(method, _rounded(instants), levels, drawn[method]))
    return Panel("", Axis("seconds", "log"), Axis("objective − best known", "log"), series)


def _series(name: str, along: Vector, levels: Sequence[Vector], look: Style) -> Series:
    """Return a line with its band; on a page, columns with a star and hybrids are dashed and share a colour."""
    low, middle, high = levels
    family = name.rstrip("*").split("+")[0]
    line = Series(name, along, middle, style="" if name == family else "dashed", family=family, look=look)
    return line._replace(low=low, high=high) if (low < high).any() else line


def _rounded(values: Vector) -> Vector:
    return np.array([float(f"{value:.{DIGITS}g}") for value in values])


def instants_of(runs: list[Vector]) -> Vector:
    """Return times from the first reported to the last, evenly spaced on a log scale."""
    first = min(max(run[run[:, 1] > 0.0, 1].min(initial=1.0), 1e-6) for run in runs)
    last = max(max(run[-1, 1] for run in runs), 2.0 * first)
    return np.geomspace(first, last, INSTANTS)


def band(runs: list[Vector], instants: Vector | None = None) -> tuple[Vector, Vector, Vector, Vector]:
    """Return instants, and the minimum, median and maximum of the best objectives so far at each."""
    instants = instants_of(runs) if instants is None else instants
    return instants, *median_band([(run[:, 1], np.minimum.accumulate(run[:, 2])) for run in runs], instants)

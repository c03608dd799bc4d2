"""Compare methods from records: means, wins, ratios and times."""

from __future__ import annotations

import csv
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from importlib import resources

import numpy as np

from counterpoise.checks import Vector
from counterpoise.experiments.plan import LETTERS, Method, Target
from counterpoise.experiments.store import Record
from counterpoise.experiments.tables import Cell as Text
from counterpoise.experiments.tables import Table
from counterpoise.report import rounded_up

# Means tie if they differ by less than this, relatively: MSCR and PDCA reach the same point up to rounding.
TIE = 1e-4
CONFIDENCE = 0.95
LEAD = "BCD-g"
CAVEAT = (
    "Printed values are the paper's. It publishes neither member lists nor the rows and columns it drew, so cells can "
    "be compared in kind, not digit by digit. Known: returns are in percent, pixels divided by 255; y = 0 and c = 30 "
    "fit the printed DCPB2 baselines; counts of words are scaled here to rows of unit length, which comes nearest to "
    "the printed magnitudes."
)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell of a table: the objectives of each method over the starts common to all methods."""

    problem: str
    dataset: str
    value: float
    lam: float
    finals: dict[str, Vector]
    starts: tuple[int, ...]

    @property
    def means(self) -> dict[str, float]:
        """The mean objective of each method."""
        return {method: float(values.mean()) for method, values in self.finals.items()}

    @property
    def place(self) -> str:
        """A description of the cell."""
        return f"{self.problem} {self.dataset}, {LETTERS[self.problem]} = {self.value:g}, λ = {self.lam:g}"


def group(records: Iterable[Record], methods: Sequence[Method]) -> list[Cell]:
    """Group records into cells, in the order of their first record; only starts common to all methods are used."""
    found: dict[tuple[str, str, float, float], dict[str, dict[int, float]]] = {}
    for record in records:
        by_start = found.setdefault(record.cell, {}).setdefault(record.method, {})
        by_start[record.start] = record.objective
    cells = []
    for place, by_method in found.items():
        runs = {method.name: by_method.get(method.name, {}) for method in methods}
        starts = sorted(set.intersection(*map(set, runs.values())))
        if starts:
            finals = {name: np.array([by_start[k] for k in starts]) for name, by_start in runs.items()}
            cells.append(Cell(*place, finals, tuple(starts)))
    return cells


def is_below(first: float, second: float) -> bool:
    """Return whether the first objective is better by more than a tie."""
    return second - first > TIE * max(abs(first), abs(second))


def best_of(means: dict[str, float]) -> set[str]:
    """Return the methods tied for the best."""
    least = min(means.values())
    return {method for method, mean in means.items() if not is_below(least, mean)}


@functools.cache
def printed() -> dict[tuple[str, str, str, float], dict[str, float]]:
    """Return the paper's values: (target, problem, set, λ) to objectives by method."""
    values: dict[tuple[str, str, str, float], dict[str, float]] = {}
    with (resources.files(__package__) / "paper.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            place = row["target"], row["problem"], row["set"], float(row["lam"])
            values.setdefault(place, {})[row["method"]] = float(row["objective"])
    return values


def objective_tables(target: Target, cells: list[Cell]) -> list[Table]:
    """Return a table of means for each problem, the best in bold, with the paper's values in extra columns or rows."""
    problems = dict.fromkeys(cell.problem for cell in cells)
    return [_objective_table(target, name, [cell for cell in cells if cell.problem == name]) for name in problems]


def _objective_table(target: Target, problem: str, cells: list[Cell]) -> Table:
    known = [row for place, row in printed().items() if place[:2] == (target.name, problem)]
    columns = list(dict.fromkeys(name for row in known for name in row if name))
    beside, below = (columns, False) if len(columns) <= 4 else ([], True)
    heads = {"value": LETTERS[problem], "lam": "λ"}
    levels = {field: {getattr(cell, field) for cell in cells} for field in heads}
    varying = [field for field in heads if len(levels[field]) > 1]
    methods = [method.name for method in target.methods]
    rows: list[list[Text]] = []
    bold: set[tuple[int, int]] = set()
    for cell in cells:
        theirs = printed().get((target.name, cell.problem, cell.dataset, cell.lam), {})
        means, labels = cell.means, [cell.dataset, *(f"{getattr(cell, field):g}" for field in varying)]
        bold |= {(len(rows), len(labels) + methods.index(name)) for name in best_of(means)}
        rows.append([*labels, *(means[name] for name in methods), *(theirs.get(name) for name in beside)])
        if below and theirs:
            rows.append([f"{labels[0]} (paper)", *labels[1:], *(theirs.get(name) for name in methods)])
    head = ["set", *(heads[field] for field in varying), *methods, *(f"paper: {name}" for name in beside)]
    starts = sorted({len(cell.starts) for cell in cells})
    counted = f"{starts[0]}" if len(starts) == 1 else f"{starts[0]}–{starts[-1]}"
    fixed = "".join(f", {heads[field]} = {values.pop():g}" for field, values in levels.items() if len(values) == 1)
    caption = f"{problem}: mean objective over {counted} start{'s' * (starts[-1] > 1)}{fixed}"
    return Table(f"{target.name}-{problem.lower()}", caption, head, rows, bold)


def explanations(target: Target) -> list[str]:
    """Explain the columns and, if the paper's values are shown, how far they can be compared."""
    has_printed = any(place[0] == target.name for place in printed())
    settings = "; ".join(f"{method.name}: {method.setting}" for method in target.methods if method.setting)
    return [f"Settings: {settings}.", *([CAVEAT] if has_printed else [])]


def standings(name: str, cells: list[Cell], methods: Sequence[Method]) -> list[Table]:
    """Count the cells that each of our methods wins, ties and loses, against the others and against each other."""
    ours, others = ([m.name for m in methods if m.ours == mine] for mine in (True, False))
    rivals = [("", f"each against the best of {', '.join(others)}", others)] if others else []
    rivals += [("-ours", "among our own methods", ours)] if len(ours) > 1 else []
    tables = []
    for suffix, who, against in rivals:
        rows: list[list[Text]] = []
        for method in ours:
            best = [best_of({key: cell.means[key] for key in {*against, method}}) for cell in cells]
            alone = sum(winners == {method} for winners in best)
            shared = sum(method in winners for winners in best) - alone
            rows.append([method, alone, shared, len(cells) - alone - shared])
        caption = f"Cells won alone, tied for the best (relative {TIE:g}) and lost, of {len(cells)}, {who}"
        tables.append(Table(f"{name}-standings{suffix}", caption, ("method", "wins", "ties", "losses"), rows))
    return tables


def ratios(name: str, cells: list[Cell], methods: Sequence[Method], lead: str = LEAD) -> Table:
    """Compare the lead with each other method by the geometric mean of ratios of objectives.

    A ratio is F(method)/F(lead) if both are positive and F(lead)/F(method) if both are negative, so that the lead is
    better if it is above 1. Ratios are averaged over cells for each start; the interval is Student's, over starts.
    """
    rows: list[list[Text]] = []
    for problem in dict.fromkeys(cell.problem for cell in cells):
        chosen = [cell for cell in cells if cell.problem == problem]
        for method in (m.name for m in methods if m.name != lead):
            logs, left_out = _log_ratios(chosen, lead, method)
            mean, low, high = interval(logs)
            rows.append([problem, method, mean, low, high, len(chosen) - left_out, left_out])
    caption = (
        f"F(method) relative to F({lead}), geometric mean and {CONFIDENCE:.0%} interval over starts; "
        f"above 1 {lead} is better"
    )
    head = ("problem", "method", "ratio", "low", "high", "cells", "left out")
    notes = ["Left out: cells where an objective is zero or the signs differ, which have no ratio."]
    return Table(f"{name}-ratios", caption, head, rows, notes=notes)


def _log_ratios(cells: list[Cell], lead: str, method: str) -> tuple[Vector, int]:
    """Return, for each start, the mean log ratio over cells that have one, and the number of cells without."""
    by_start: dict[int, list[float]] = {}
    left_out = 0
    for cell in cells:
        ours, theirs = cell.finals[lead], cell.finals[method]
        if (ours * theirs <= 0.0).any():
            left_out += 1
            continue
        logs = np.log(np.abs(theirs / ours)) * np.sign(ours)
        for start, log in zip(cell.starts, logs, strict=True):
            by_start.setdefault(start, []).append(float(log))
    return np.array([np.mean(values) for values in by_start.values()]), left_out


def interval(logs: Vector) -> tuple[float, float, float]:
    """Return exp of a sample's mean and of the ends of Student's interval, NaN if the sample is too small.

    Examples
    --------
    >>> [round(end, 4) for end in interval(np.log([1.0, 2.0, 4.0]))]
    [2.0, 0.3575, 11.19]
    """
    from scipy import stats  # slow to import

    mean = float(logs.mean()) if len(logs) else math.nan
    half = math.nan
    if len(logs) > 1:
        half = float(stats.t.ppf(0.5 + CONFIDENCE / 2.0, len(logs) - 1) * stats.sem(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def certificates(name: str, records: Sequence[Record], methods: Sequence[Method]) -> Table:
    """Summarise the ends of each method's runs: certified, at a limit, cws_gap/|F|, violation, iterations, seconds."""
    rows: list[list[Text]] = []
    for method in methods:
        runs = [record for record in records if record.method == method.name]
        if runs:
            worst = max(_relative_gap(record) for record in runs)
            violation = max(record.violation for record in runs)
            gap = None if math.isinf(worst) else worst
            limited = sum(record.status.endswith("_LIMIT") for record in runs)
            took = [float(np.median([getattr(record, name) for record in runs])) for name in ("nit", "seconds")]
            rows.append([method.name, len(runs), sum(map(is_certified, runs)), limited, gap, violation, *took])
    note = (
        "Certified: the run ended because no change of any two coordinates lowers the objective by more than its "
        "tolerance. The gap is the most that such a change would still bring at a final point, every pair tried, "
        "relative to |F|; no number means that a point was too far off the constraints to have one. Iterations are "
        "pairs tried, blocks, steps or subproblems; they and the seconds are medians."
    )
    caption = "How the runs ended, and what is proved about their last points"
    head = ("method", "runs", "certified", "at a limit", "largest gap", "largest violation", "iterations", "seconds")
    return Table(f"{name}-certificates", caption, head, rows, notes=[note])


def is_certified(record: Record) -> bool:
    """Return whether a run ended with a proof over all pairs."""
    return record.status in ("CERTIFIED", "SWAP_OPTIMAL", "OPTIMAL")


def _relative_gap(record: Record) -> float:
    """Return the gap relative to |F|, or infinity, the worst, if there is none."""
    if math.isnan(record.cws_gap):
        return math.inf
    return max(0.0, record.cws_gap) / max(abs(record.objective), 1e-300)


def claims(records: Sequence[Record], lead: str = LEAD) -> list[str]:
    """Describe what is proved about the final points of the lead."""
    runs = [record for record in records if record.method == lead]
    proved = [record for record in runs if is_certified(record)]
    if not runs:
        return []
    worst = max((_relative_gap(record) for record in proved), default=math.nan)
    said = f"{len(proved)} of {len(runs)} runs of {lead} ended with a proof"
    if proved:
        said += f": no change of any two coordinates lowers the objective by more than {rounded_up(worst)} of it"
    return [f"{said}. That no other point is better is not proved."]


def losses(name: str, cells: list[Cell], methods: Sequence[Method], leads: Sequence[str] = (LEAD, "search")) -> Table:
    """List every cell in which a method that is not ours has a better mean than one of ``leads``, with both values."""
    others = [m.name for m in methods if not m.ours]
    mine = [m.name for m in methods if m.ours]
    rows: list[list[Text]] = []
    leads = [lead for lead in leads if lead in mine]
    for lead, cell in itertools.product(leads, cells):
        means = cell.means
        best = min(others, key=lambda method: means[method])
        if is_below(means[best], means[lead]):
            ours = min(mine, key=lambda method: means[method])
            gap = (means[lead] - means[best]) / abs(means[best]) if means[best] else math.nan
            rows.append([lead, cell.place, means[lead], means[best], best, f"{gap:.2%}", means[ours], ours])
    counts = " and ".join(f"{lead} ({sum(row[0] == lead for row in rows)})" for lead in leads)
    caption = f"Cells of {len(cells)} that are lost to another method, by {counts}"
    head = ("method", "cell", "objective", "better", "by", "gap", "best of ours", "reached by")
    return Table(f"{name}-losses", caption, head, rows)


def sooner(name: str, records: list[Record], methods: Sequence[Method], lead: str = LEAD) -> Table:
    """Report how often the lead reaches the final value of another method, and how many times sooner."""
    by_run = {(record.cell, record.start, record.method): record for record in records}
    rows: list[list[Text]] = []
    for problem in dict.fromkeys(record.problem for record in records):
        for method in (m.name for m in methods if m.name != lead):
            pairs = [
                (by_run[cell, start, lead], record)
                for (cell, start, name), record in by_run.items()
                if name == method and record.problem == problem and (cell, start, lead) in by_run
            ]
            times = [(first_time(ours, theirs), first_time(theirs, theirs)) for ours, theirs in pairs]
            logs = np.array([math.log(late / early) for early, late in times if early and late])
            mean = math.exp(float(logs.mean())) if len(logs) else math.nan
            rows.append([problem, method, len(pairs), len(logs), mean])
    caption = f"Runs in which {lead} passes the other's final objective from the same start, and how many times sooner"
    return Table(f"{name}-sooner", caption, ("problem", "method", "runs", f"{lead} passes", "times sooner"), rows)


def first_time(record: Record, other: Record) -> float | None:
    """Return the time at which a run first reached the other's final objective, to 1e-6 of it; None if never."""
    goal = other.objective + 1e-6 * abs(other.objective)
    reached = np.flatnonzero(record.history[:, 2] <= goal)
    return float(record.history[reached[0], 1]) if len(reached) else None


def continued(name: str, cells: list[Cell], methods: Sequence[Method]) -> Table:
    """Report how much BCD-g gains from the final points of other methods (fig:compareindex, fig:comparebin)."""
    rows: list[list[Text]] = []
    known = {method.name for method in methods}
    hybrids = [m.name for m in methods if len(m.stages) > 1 and m.name.split("+")[0] in known]
    for problem in dict.fromkeys(cell.problem for cell in cells):
        chosen = [cell for cell in cells if cell.problem == problem]
        for hybrid in hybrids:
            before = np.concatenate([cell.finals[hybrid.split("+")[0]] for cell in chosen])
            after = np.concatenate([cell.finals[hybrid] for cell in chosen])
            gains = (before - after) / np.maximum(np.abs(before), 1e-300)
            lower = int((gains > TIE).sum())
            rows.append([problem, hybrid, len(gains), lower, f"{np.median(gains):.1%}", f"{gains.max():.1%}"])
    caption = "What BCD-g takes off the objective where another method stopped: a critical point need not be CWS"
    return Table(f"{name}-gains", caption, ("problem", "hybrid", "runs", "lower", "median", "most"), rows)

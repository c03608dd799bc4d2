"""Write the tables and figures of a target to files, and one page with all targets so far."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterpoise.experiments import compare, figures
from counterpoise.experiments.plan import LETTERS, TARGETS, Target
from counterpoise.experiments.sets import Data, catalogue, paper_names, where_from
from counterpoise.experiments.store import Record
from counterpoise.experiments.tables import Cell, Table, show
from counterpoise.figures.describe import FLOOR, Axis, Chart, Panel, Series
from counterpoise.figures.drawing import draw_grid, has_matplotlib, save_figure
from counterpoise.figures.page import Cell as Shown
from counterpoise.figures.page import Column, Report
from counterpoise.output import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SECTION = ".section.json"
# Version of a section's file; files of other versions are ignored until their target is run again.
LAYOUT = 3
TITLE = "The paper's tables and figures, rerun"
# Panels per row of a figure, as in the paper.
PER_ROW = 5
# What the charts of each kind show.
NOTES = {
    "curves": "The mean over the starts; the band is from the least to the largest.",
    "histories": "The median over the starts of the best objective so far; the band is from the least to the largest. "
    f"A run that has ended keeps its value. The best known is drawn at {FLOOR:g} of the whole descent, as a logarithm "
    "has no 0.",
}
# Text that is a number, with or without a percent sign.
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?%?")


@dataclasses.dataclass(frozen=True)
class Tally:
    """Counts for the top of the page: runs, cells won, tied and lost, and certified runs.

    ``won``, ``tied`` and ``lost`` count cells of the lead against methods that are not ours; ``certified`` is how many
    of the lead's ``of_lead`` runs ended with a proof.
    """

    runs: int = 0
    wanted: int = 0
    cells: int = 0
    won: int = 0
    tied: int = 0
    lost: int = 0
    of_lead: int = 0
    certified: int = 0

    def __add__(self, other: Tally) -> Tally:
        """Add the counts."""
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return Tally(*(one + two for one, two in pairs))


@dataclasses.dataclass(frozen=True)
class Chapter:
    """A target's tables and figures, the charts and counts of its page, and the command that reproduces it."""

    name: str
    title: str
    lines: Sequence[str]
    tables: Sequence[Table]
    figures: dict[str, Figure]
    charts: Sequence[Chart] = ()
    tally: Tally = Tally()
    command: str = ""
    settings: str = ""


def sizes(here: dict[str, Data], absent: dict[str, str]) -> Table:
    """Return table 1, with our sizes next to the paper's and the source of each set."""
    known, rows = catalogue()["tracking"]["paper_sizes"], []
    for name in [*paper_names(), *(name for name in here if name not in paper_names())]:
        size = catalogue()["blocks"]["sizes"].get(name.rpartition("-")[2])
        m, n = known.get(name, (size, size))
        ours = here[name].sizes if name in here else (None, None)
        rows.append([name, *ours, m, n, here[name].source if name in here else f"absent: {where_from(name)}"])
    head = ("set", "m", "n", "paper: m", "paper: n", "source")
    return Table("table-1-sizes", f"Sizes of {len(rows)} sets, of which {len(here)} are here", head, rows)


def chapter(target: Target, records: list[Record], wanted: int, absent: dict[str, str], command: str) -> Chapter:
    """Build a target's tables and figures, only from its records so that they are reproducible."""
    cells = compare.group(records, target.methods)
    lines = [_provenance(records, wanted, command), *absent.values()]
    lines += [*compare.explanations(target), *compare.claims(records)]
    of_lead = [record for record in records if record.method == compare.LEAD]
    tally = Tally(len(records), wanted, of_lead=len(of_lead), certified=sum(map(compare.is_certified, of_lead)))
    settings = _settings(target)
    if not cells:
        lines.append("No cell is complete yet.")
        return Chapter(target.name, target.title, lines, [], {}, (), tally, command, settings)
    tables = [] if target.kind == "curves" else compare.objective_tables(target, cells)
    standings = compare.standings(target.name, cells, target.methods)
    tables += standings
    if any(method.name == compare.LEAD for method in target.methods):
        if any(not method.ours for method in target.methods):
            _, *counts = next(row for row in standings[0].rows if row[0] == compare.LEAD)
            won, tied, lost = (int(count or 0) for count in counts)
            tally += Tally(cells=len(cells), won=won, tied=tied, lost=lost)
            tables.append(compare.losses(target.name, cells, target.methods))
        tables.append(compare.ratios(target.name, cells, target.methods))
        if target.measure == "timing":
            tables.append(compare.sooner(target.name, records, target.methods))
    if any(len(method.stages) > 1 for method in target.methods):
        tables.append(compare.continued(target.name, cells, target.methods))
    drawn: dict[str, Figure] = {}
    charts = []
    if target.kind == "curves":
        tables += compare.objective_tables(target, cells)
    if target.kind in NOTES:
        panels = figures.panels_of(target, cells if target.kind == "curves" else records, absent)
        if has_matplotlib():
            drawn[target.name] = draw_grid(panels, "line", PER_ROW)
        shown = [panel for panel in panels if panel.series]
        charts.append(Chart(target.kind, target.title, "line", shown, NOTES[target.kind]))
    tables.append(compare.certificates(target.name, records, target.methods))
    return Chapter(target.name, target.title, lines, tables, drawn, charts, tally, command, settings)


def _settings(target: Target) -> str:
    """Describe the problems, values and sets that were run."""
    parts = []
    for grid in target.grids:
        values = f"{LETTERS[grid.problem]} = {_listed(grid.values)} and λ = {_listed(grid.lams)}"
        parts.append(f"{grid.problem} with {values} on {', '.join(grid.sets)}")
    return "; ".join([*parts, f"starts {_listed(target.starts)}"])


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _provenance(records: list[Record], wanted: int, command: str) -> str:
    """Describe the records: count, command, dates, versions and machines."""
    if not records:
        return f"No records yet; `{command}` makes them."
    days = sorted({record.at[:10] for record in records})
    made = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    known = [json.loads(text) for text in {record.machine for record in records}]
    machines = sorted({f"{each['processor']}, {each['cores']} cores" for each in known})
    codes = sorted({record.code for record in records})
    limited = sum(record.status == "TIME_LIMIT" for record in records)
    ended = f" {limited} runs ended at their time limit and depend on the machine." if limited else ""
    how = f"made by `{command}` on {made}, counterpoise {', '.join(codes)}, {'; '.join(machines)}"
    return f"{len(records)} of {wanted} runs, {how}.{ended}"


def write(chapter: Chapter, output: Path) -> list[Path]:
    """Write a chapter as Markdown, CSV, LaTeX, SVG and PNG, and the page with all chapters so far."""
    output.mkdir(parents=True, exist_ok=True)
    written = [write_text(output / f"{table.name}.csv", table.csv()) for table in chapter.tables]
    if chapter.tables:
        tex = "\n\n".join(table.latex() for table in chapter.tables)
        written.append(write_text(output / f"{chapter.name}.tex", "% needs booktabs\n" + tex + "\n"))
    for name, figure in chapter.figures.items():
        for suffix in (".svg", ".png"):
            save_figure(figure, output / f"{name}{suffix}")
            written.append(output / f"{name}{suffix}")
    written.append(write_text(output / f"{chapter.name}.md", markdown(chapter)))
    write_text(output / f"{chapter.name}{SECTION}", _packed(chapter))
    written.append(write_index(output))
    return written


def markdown(chapter: Chapter) -> str:
    """Return a chapter as Markdown."""
    parts = [f"# {chapter.name}: {chapter.title}", *chapter.lines]
    parts += [f"![{name}]({name}.svg)" for name in chapter.figures]
    parts += [table.markdown() for table in chapter.tables]
    return "\n\n".join(parts) + "\n"


def write_index(output: Path) -> Path:
    """Write a self-contained ``index.html`` from the existing sections, in the paper's order."""
    chapters = [_unpacked(file.read_text("utf-8")) for file in sorted(output.glob(f"*{SECTION}"))]
    found = {chapter.name: chapter for chapter in chapters if chapter is not None}
    order = [name for name in TARGETS if name in found] + [name for name in found if name not in TARGETS]
    return write_text(output / "index.html", report([found[name] for name in order]).html())


def report(chapters: Sequence[Chapter]) -> Report:
    """Return the page of some chapters."""
    commands = dict.fromkeys(chapter.command for chapter in chapters if chapter.command)
    settings = {chapter.name: chapter.settings for chapter in chapters if chapter.settings}
    page = Report(TITLE, "\n".join(commands), settings)
    tally = sum((chapter.tally for chapter in chapters), Tally())
    ours = sum(chapter.name in TARGETS for chapter in chapters)
    own = len(chapters) - ours
    beside = f"and {own} of your own" if own else "of the paper and beside it"
    page.headline("targets", f"{ours} of {len(TARGETS)}", beside)
    if tally.wanted:
        page.headline("runs", f"{tally.runs:,}", f"of {tally.wanted:,}")
    if tally.cells:
        lead = compare.LEAD
        page.headline(f"cells that {lead} wins", f"{tally.won:,}", f"of {tally.cells:,}, against methods not ours")
        page.headline(f"cells that {lead} ties", f"{tally.tied:,}", f"within {compare.TIE:g} of the best of them")
        page.headline(f"cells that {lead} loses", f"{tally.lost:,}", "to one of them; all are listed")
    if tally.of_lead:
        page.headline("certified", f"{tally.certified:,}", f"of {tally.of_lead:,} runs of {compare.LEAD}")
    for chapter in chapters:
        _add(page, chapter)
    return page


def _add(page: Report, chapter: Chapter) -> None:
    page.heading(f"{chapter.name}: {chapter.title}", f"target-{_as_name(chapter.name)}")
    for chart in chapter.charts:
        name = f"{_as_name(chapter.name)}-{_as_name(chart.name)}-chart"
        page.panels(name, chart.title, chart.kind, chart.panels, chart.note)
    # Lines are Markdown, with commands in backticks; the page shows quotation marks instead.
    page.paragraphs(*(line.replace("`", '"') for line in chapter.lines))
    for table in chapter.tables:
        page.subheading(table.caption)
        page.paragraphs(*table.notes)
        if table.rows:
            formats = [_format(table, column) for column in range(len(table.head))]
            cells = table.cells(lambda value, bold: (value, bold))
            rows = [[_shown(value, bold, formats[c]) for c, (value, bold) in enumerate(row)] for row in cells]
            # The suffix avoids a clash with the name of the target.
            page.table(f"{_as_name(table.name)}-table", table.caption, list(map(Column, table.head, formats)), rows)


def _as_name(text: str) -> str:
    """Return a valid element name; a user's file may have any name."""
    return re.sub(r"[^A-Za-z0-9-]", lambda match: f"_{ord(match[0]):x}_", text)


def _format(table: Table, column: int) -> str:
    """Return the format of a column: text, whole numbers, or numbers to five digits as in the other files."""
    values = [row[column] for row in table.rows if row[column] is not None]
    if not values or not all(not isinstance(value, str) or NUMBER.fullmatch(value) for value in values):
        return "text"
    return "whole" if all(isinstance(value, int) for value in values) else "long"


def _shown(value: Cell, strong: bool, format: str) -> Any:
    if value is None or format == "text":
        return value if value is None else show(value)
    if isinstance(value, str):
        number = float(value.removesuffix("%")) / (100.0 if value.endswith("%") else 1.0)
        return Shown(number, format, value, strong)
    return Shown(value, format, strong=strong)


def _packed(chapter: Chapter) -> str:
    """Return a chapter without its figures, which are separate files, as JSON."""
    kept = {"layout": LAYOUT, **dataclasses.asdict(dataclasses.replace(chapter, figures={}))}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"), default=_as_list) + "\n"


def _as_list(values: Any) -> list[Any]:
    return sorted(values) if isinstance(values, set) else values.tolist()


def _unpacked(text: str) -> Chapter | None:
    """Return a chapter, or None if the text has another layout or is incomplete."""
    try:
        kept = json.loads(text)
    except ValueError:
        return None
    if kept.pop("layout", None) != LAYOUT:
        return None
    for table in kept["tables"]:
        table["bold"] = {(row, column) for row, column in table["bold"]}
    for chart in kept["charts"]:
        chart["panels"] = [_panel(*parts) for parts in chart["panels"]]
    tables, charts = [Table(**table) for table in kept["tables"]], [Chart(**chart) for chart in kept["charts"]]
    return Chapter(**{**kept, "tally": Tally(**kept["tally"]), "tables": tables, "charts": charts})


def _panel(label: str, x: list[Any], y: list[Any], series: list[list[Any]], *more: Any) -> Panel:
    return Panel(label, Axis(*x), Axis(*y), [Series(*each) for each in series], *more)

"""Pages: what a target's records say, as files, and one index that gathers all targets."""

from __future__ import annotations

import dataclasses
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterpoise import plotting
from counterpoise.experiments import compare, figures
from counterpoise.experiments.plan import TARGETS, Target
from counterpoise.experiments.sets import Data, catalogue, paper_names, where_from
from counterpoise.experiments.store import Record
from counterpoise.experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SECTION = ".section.html"
STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
section { margin-bottom: 3rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; margin: 1rem 0; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .15rem .6rem; text-align: left; border-bottom: 1px solid #8884; white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
img { max-width: 100%; background: white; }
p { max-width: 60rem; }
"""


@dataclasses.dataclass(frozen=True)
class Chapter:
    """A target's tables and figures."""

    name: str
    title: str
    lines: Sequence[str]
    tables: Sequence[Table]
    figures: dict[str, Figure]


def sizes(here: dict[str, Data], absent: dict[str, str]) -> Table:
    """Return table 1 with our sizes beside the paper's, and where each set comes from."""
    known, rows = catalogue()["tracking"]["paper_sizes"], []
    for name in [*paper_names(), *(name for name in here if name not in paper_names())]:
        size = catalogue()["blocks"]["sizes"].get(name.rpartition("-")[2])
        m, n = known.get(name, (size, size))
        ours = here[name].sizes if name in here else (None, None)
        rows.append([name, *ours, m, n, here[name].source if name in here else f"absent: {where_from(name)}"])
    head = ("set", "m", "n", "paper: m", "paper: n", "source")
    return Table("table-1-sizes", f"Sizes of {len(rows)} sets, of which {len(here)} are here", head, rows)


def chapter(target: Target, records: list[Record], wanted: int, absent: dict[str, str], command: str) -> Chapter:
    """Build a target's tables and figure from its records; nothing else enters, so the same store gives the same."""
    cells = compare.group(records, target.methods)
    lines = [_provenance(records, wanted, command), *absent.values()]
    lines += compare.explanations(target)
    if not cells:
        return Chapter(target.name, target.title, [*lines, "No cell is complete yet."], [], {})
    tables = [] if target.kind == "curves" else compare.objective_tables(target, cells)
    named = {method.name for method in target.methods}
    tables.append(compare.standings(target.name, cells, target.methods))
    if compare.LEAD in named:
        tables.append(compare.ratios(target.name, cells, target.methods))
        if any(not method.ours for method in target.methods):
            tables.append(compare.losses(target.name, cells, target.methods))
        if target.measure == "timing":
            tables.append(compare.sooner(target.name, records, target.methods))
    if any(len(method.stages) > 1 for method in target.methods):
        tables.append(compare.continued(target.name, cells, target.methods))
    drawn: dict[str, Figure] = {}
    if target.kind == "curves":
        tables += compare.objective_tables(target, cells)
        drawn[target.name] = figures.curves(target, cells, absent)
    if target.kind == "histories":
        drawn[target.name] = figures.histories(target, records, absent)
    return Chapter(target.name, target.title, lines, tables, drawn)


def _provenance(records: list[Record], wanted: int, command: str) -> str:
    """Say what the numbers come from; dates and machines are the records', not the page's."""
    if not records:
        return f"No records yet; `{command}` makes them."
    days = sorted({record.at[:10] for record in records})
    made = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    machines = sorted({_machine(record.machine) for record in records})
    codes = sorted({record.code for record in records})
    limited = sum(record.status == "TIME_LIMIT" for record in records)
    ended = f" {limited} runs ended at their time limit and depend on the machine." if limited else ""
    return (
        f"{len(records)} of {wanted} runs, made by `{command}` on {made}, counterpoise {', '.join(codes)}, "
        f"{'; '.join(machines)}.{ended}"
    )


def _machine(text: str) -> str:
    known: dict[str, Any] = json.loads(text)
    return f"{known['processor']}, {known['cores']} cores"


def write(chapter: Chapter, output: Path) -> list[Path]:
    """Write Markdown, CSV, LaTeX, SVG and PNG of a chapter, and the index of all chapters so far."""
    output.mkdir(parents=True, exist_ok=True)
    written = []
    for table in chapter.tables:
        written.append(_put(output / f"{table.name}.csv", table.csv()))
    if chapter.tables:
        tex = "\n\n".join(table.latex() for table in chapter.tables)
        written.append(_put(output / f"{chapter.name}.tex", "% needs booktabs\n" + tex + "\n"))
    for name, figure in chapter.figures.items():
        for suffix in (".svg", ".png"):
            plotting.save_figure(figure, output / f"{name}{suffix}")
            written.append(output / f"{name}{suffix}")
    written.append(_put(output / f"{chapter.name}.md", markdown(chapter)))
    _put(output / f"{chapter.name}{SECTION}", _section(chapter))
    written.append(write_index(output))
    return written


def markdown(chapter: Chapter) -> str:
    """Return a chapter as Markdown."""
    parts = [f"# {chapter.name}: {chapter.title}", *chapter.lines]
    parts += [f"![{name}]({name}.svg)" for name in chapter.figures]
    parts += [table.markdown() for table in chapter.tables]
    return "\n\n".join(parts) + "\n"


def write_index(output: Path) -> Path:
    """Write ``index.html`` from the sections that are there, in the paper's order."""
    found = {file.name.removesuffix(SECTION): file for file in sorted(output.glob(f"*{SECTION}"))}
    order = [name for name in TARGETS if name in found] + [name for name in found if name not in TARGETS]
    links = " · ".join(f'<a href="#{name}">{name}</a>' for name in order)
    body = "\n".join(found[name].read_text("utf-8") for name in order)
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>The paper's tables and figures, rerun</title><style>{STYLE}</style></head><body>\n"
        f"<h1>The paper's tables and figures, rerun</h1>\n<nav>{links}</nav>\n{body}\n</body></html>\n"
    )
    return _put(output / "index.html", page)


def _section(chapter: Chapter) -> str:
    lines = "".join(f"<p>{html.escape(line)}</p>" for line in chapter.lines)
    pictures = "".join(f'<p><img src="{name}.svg" alt="{html.escape(chapter.title)}"></p>' for name in chapter.figures)
    tables = "".join(f'<div class="wide">{table.html()}</div>' for table in chapter.tables)
    head = f"<h2>{chapter.name}: {html.escape(chapter.title)}</h2>"
    return f'<section id="{chapter.name}">{head}{lines}{pictures}{tables}</section>\n'


def _put(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="\n")
    return path

"""Build a report: a self-contained HTML file with charts, tables and instructions for reproducing it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import counterpoise as cp
from counterpoise.figures.describe import Axis, Panel, Series, check_panel
from counterpoise.output import write_text
from counterpoise.sentences import as_text, in_column, some

# Longer tables scroll.
MOST_WHOLE = 60
# Settings with more entries are not written out.
MOST_LISTED = 8
FORMATS = ("text", "day", "number", "long", "percent", "whole")


class Column(NamedTuple):
    """A column of a table: its head and its format, one of text, day, number, long (five digits), percent, whole."""

    head: str
    format: str = "text"

    @property
    def is_text(self) -> bool:
        """Whether it sorts alphabetically."""
        return self.format in ("text", "day")


class Cell(NamedTuple):
    """A number with a format other than its column's, with its own text, or in bold."""

    value: float
    format: str = "number"
    text: str = ""
    strong: bool = False


class Report:
    """A page built from top to bottom.

    Parameters
    ----------
    title : str
    command : str
        The command that reproduces the page; "" if there is none.
    settings : mapping
        The settings used, by name.
    notes : sequence of str
        Sentences about the data, for the first section.

    Examples
    --------
    >>> report = Report("Two weights", "counterpoise track prices.csv --index SPX", {"names": 2})
    >>> report.headline("names held", "2", "of 400")
    >>> report.table("weights", "Weights", [Column("name"), Column("weight", "percent")], [["A", 0.75], ["B", 0.25]])
    >>> page = report.html()
    >>> "75.00 %" in page and "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    True
    """

    def __init__(
        self, title: str, command: str = "", settings: Mapping[str, Any] | None = None, notes: Sequence[str] = ()
    ) -> None:
        self.title, self.command, self.settings = title, command, dict(settings or {})
        self.headlines: list[tuple[str, str, str]] = []
        self.charts: dict[str, dict[str, Any]] = {}
        self._body: list[str] = []
        self._names: set[str] = {"data", "theme"}
        self._sections: list[tuple[str, str]] = []
        if notes:
            self.heading("The data")
            self.paragraphs(*notes)

    def headline(self, label: str, value: str, note: str = "") -> None:
        """Add a key figure at the top of the page."""
        self.headlines.append((label, value, note))

    def heading(self, text: str, name: str = "") -> None:
        """Begin a section; a name makes it linkable, and two or more named sections make a list of contents."""
        if name:
            self._take_name(name)
            self._sections.append((name, text))
        mark = f' id="{name}"' if name else ""
        self._body.append(f"<h2{mark}>{html.escape(text)}</h2>")

    def subheading(self, text: str) -> None:
        """Begin a subsection."""
        self._body.append(f"<h3>{html.escape(text)}</h3>")

    def paragraphs(self, *sentences: str) -> None:
        """Add each text as a paragraph."""
        self._body += [f"<p>{html.escape(sentence)}</p>" for sentence in sentences]

    def chart(self, name: str, title: str, kind: str, *parts: Any, note: str = "", **more: Any) -> None:
        """Add a chart of one panel, given by the fields of :class:`counterpoise.figures.describe.Panel` from x on."""
        self.draw(name, title, kind, Panel(title, *parts, **more), note)

    def draw(self, name: str, title: str, kind: str, panel: Panel, note: str = "") -> None:
        """Add a chart of one panel.

        ``name`` is the id of the element, for links such as ``#hide=name:series``; ``kind`` is "line", "bar", "dot" or
        "scatter". Bars and dots are in rows, one per category.
        """
        self._add_figure(name, title, note, _spec(name, kind, panel))

    def panels(self, name: str, title: str, kind: str, panels: Sequence[Panel], note: str = "") -> None:
        """Add charts of one kind, shown one at a time; a list or ``#panel=name:label`` selects one."""
        if not panels:
            raise ValueError(f"The chart {name!r} has no panels; give at least one.")
        specs = [{"label": panel.label, **_spec(name, kind, panel)} for panel in panels]
        self._add_figure(name, title, note, {"panels": specs})

    def _add_figure(self, name: str, title: str, note: str, spec: dict[str, Any]) -> None:
        self._take_name(name)
        self.charts[name] = spec
        self._body.append(f'<figure id="{name}"><figcaption>{html.escape(title)}</figcaption>{_note(note)}</figure>')

    def table(
        self, name: str, title: str, columns: Sequence[Column], rows: Iterable[Sequence[Any]], note: str = ""
    ) -> None:
        """Add a table that is sorted by clicking a column's head; None and NaN are shown as a dash and sort last."""
        for column in columns:
            if column.format not in FORMATS:
                raise ValueError(f"The format of {column.head!r} is {column.format!r}; use one of {some(FORMATS, 9)}.")
        self._take_name(name)
        marks = {True: "", False: ' class="number"'}
        heads = "".join(
            f'<th{marks[column.is_text]} data-column="{html.escape(column.head)}" scope="col">'
            f'<button type="button">{html.escape(column.head)}</button></th>'
            for column in columns
        )
        rows = [list(row) for row in rows]
        parts = [_cells([row[k] for row in rows], column) for k, column in enumerate(columns)]
        body = "".join(f"<tr>{''.join(cells)}</tr>\n" for cells in zip(*parts, strict=True))
        kind = "wide tall" if len(rows) > MOST_WHOLE else "wide"
        self._body.append(
            f'{_note(note)}<div class="{kind}" tabindex="0"><table id="{name}">'
            f"<caption>{html.escape(title)}</caption><thead><tr>{heads}</tr></thead>\n<tbody>{body}</tbody></table></div>"
        )

    def html(self) -> str:
        """Return the page; its date is today's, or that of SOURCE_DATE_EPOCH, which makes builds reproducible."""
        moment = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
        day = time.strftime("%Y-%m-%d", time.localtime(moment))
        style, script, body = _resource("page.css"), _resource("page.js"), "\n".join(self._body)
        # Allow only the page's own style and script, so that nothing in the data can be executed.
        policy = f"default-src 'none'; style-src 'sha256-{_digest(style)}'; script-src 'sha256-{_digest(script)}'"
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(self.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
            f"<header><div><h1>{html.escape(self.title)}</h1>"
            f'<p class="made">{day}, counterpoise {cp.__version__}</p></div>'
            '<button id="theme" type="button" hidden>Dark</button></header>\n'
            f"<main>\n{self._headlines()}{self._contents()}{body}\n{self._repeat()}</main>\n"
            "<noscript><p>The charts need JavaScript; the tables do not.</p></noscript>\n"
            "<footer>This page is one file and loads nothing.</footer>\n"
            f'<script type="application/json" id="data">{_json(self.charts)}</script>\n'
            f"<script>{script}</script>\n</body>\n</html>\n"
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page and return its path."""
        return write_text(Path(path), self.html())

    def _take_name(self, name: str) -> None:
        if not name or not all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in name):
            raise ValueError(f"name is {name!r}; use letters, digits, - and _.")
        if name in self._names:
            raise ValueError(f"name is {name!r}, which is taken; names on a page must differ.")
        self._names.add(name)

    def _headlines(self) -> str:
        cells = "".join(
            f"<div><dt>{html.escape(label)}</dt><dd>{_unbroken(value)}</dd>"
            + (f"<dd>{_unbroken(note)}</dd>" if note else "")
            + "</div>\n"
            for label, value, note in self.headlines
        )
        count = len(self.headlines)
        # Columns that fill rows evenly, 4 or 3; otherwise up to five in one row.
        columns = next((k for k in (4, 3) if count % k == 0), min(count, 5) if count <= 5 else 4)
        return f'<dl class="headlines in-{columns}{" odd" if count % 2 else ""}">\n{cells}</dl>\n' if cells else ""

    def _contents(self) -> str:
        if len(self._sections) < 2:
            return ""
        links = "".join(f'<li><a href="#{name}">{html.escape(text)}</a></li>\n' for name, text in self._sections)
        return f'<nav aria-label="Contents"><ul>\n{links}</ul></nav>\n'

    def _repeat(self) -> str:
        parts = []
        if self.settings:
            pairs = "".join(
                f"<dt>{html.escape(str(name))}</dt><dd>{html.escape(_setting(value))}</dd>\n"
                for name, value in self.settings.items()
            )
            parts.append(f'<h2>Settings</h2>\n<dl class="settings">\n{pairs}</dl>\n')
        if self.command:
            parts.append(f"<h2>To repeat it</h2>\n<pre><code>{html.escape(self.command)}</code></pre>\n")
        return "".join(parts)


def _note(text: str) -> str:
    return f'<p class="note">{html.escape(text)}</p>' if text else ""


def _setting(value: Any) -> str:
    """Return a setting as text; for long ones, such as weights by name, only their length."""
    if isinstance(value, str) or not hasattr(value, "__len__") or len(value) <= MOST_LISTED:
        return str(value.to_dict() if hasattr(value, "to_dict") else value)
    return f"{type(value).__name__} of {len(value):,}"


def _unbroken(text: str) -> str:
    """Escape a text, and keep numbers and their percent sign on the same line."""
    return html.escape(text.replace(" %", "\u00a0%"))


def _cells(values: Sequence[Any], column: Column) -> list[str]:
    """Return the cells of a column, numbers with the same digits; each also has its full value as an attribute."""
    if column.is_text:
        kind = ' class="day"' if column.format == "day" else ""
        return [f"<td{kind}>{html.escape('–' if value is None else str(value))}</td>" for value in values]
    cells = [value if isinstance(value, Cell) else Cell(value, column.format) for value in values]
    found = ['<td class="number">–</td>'] * len(cells)
    present = [k for k, cell in enumerate(cells) if cell.value is not None and not math.isnan(cell.value)]
    shared = [k for k in present if cells[k].format == column.format and not cells[k].text]
    texts = dict(zip(shared, in_column([cells[k].value for k in shared], column.format), strict=True))
    for k in present:
        value, format, text, strong = cells[k]
        said = html.escape(texts.get(k) or text or as_text(value, format))
        found[k] = f'<td class="number{" strong" * strong}" data-value="{plain(value)!r}">{said}</td>'
    return found


def _spec(name: str, kind: str, panel: Panel) -> dict[str, Any]:
    """Check a panel and return its description for the page's script."""
    check_panel(name, kind, panel)
    return {
        "kind": kind,
        "x": _axis_spec(panel.x),
        "y": _axis_spec(panel.y),
        "categories": [str(category) for category in panel.categories],
        "marks": [plain(mark) for mark in panel.marks],
        "letters": panel.letters,
        "series": [_series_spec(series) for series in panel.series],
    }


def _axis_spec(axis: Axis) -> dict[str, Any]:
    reach = [plain(value) for value in axis.reach]
    return {"label": axis.label, "kind": axis.kind} | ({"reach": reach} if reach else {})


def _series_spec(series: Series) -> dict[str, Any]:
    """Return the parts of a series, omitting optional ones that are empty."""
    found: dict[str, Any] = {"name": series.name}
    found |= {name: list(map(plain, getattr(series, name))) for name in ("x", "y", "low", "high")}
    found |= {"style": series.style, "labels": list(map(str, series.labels)), "family": series.family}
    return {name: part for name, part in found.items() if part or name in ("name", "x", "y", "style")}


def plain(value: Any) -> Any:
    """Convert a value for JSON: NaN and NaT become None, dates strings such as 2024-01-31."""
    if value is None or value != value:
        return None
    if hasattr(value, "date") and callable(value.date):
        return str(value.date())
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and math.isinf(value) else value


def _json(values: Any) -> str:
    """Return JSON with characters escaped so that it cannot open or close an HTML tag."""
    text = json.dumps(values, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

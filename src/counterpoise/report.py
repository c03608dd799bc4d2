"""Reports: one HTML file that shows what was found, needs no network, and says how to repeat it."""

from __future__ import annotations

import base64
import decimal
import hashlib
import html
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.output import write_text

if TYPE_CHECKING:
    from counterpoise.backtest import Backtest
    from counterpoise.estimators.pca import NonnegativeSparsePCA
    from counterpoise.estimators.split import Split
    from counterpoise.estimators.tracking import IndexTracker
    from counterpoise.problem import Result

Values = Sequence[Any] | npt.NDArray[Any]

KINDS = ("line", "bar", "dot", "scatter")
FORMATS = ("text", "day", "number", "long", "percent", "whole")
# Rows a year by the median number of days between rows.
PERIODS = ((4.5, 252.0), (10.5, 52.0), (45.5, 12.0), (130.5, 4.0))
# More bars, points or rows than these would not be read.
MOST_BARS, MOST_POINTS, MOST_ROWS, MOST_COMPONENTS = 120, 5000, 1000, 12
# Larger tables are not decomposed for a comparison.
MOST_ENTRIES = 20_000_000
# What is smaller is shown as 0.
ROUNDING = 1e-15


class Axis(NamedTuple):
    """An axis: its label, and whether it counts numbers, numbers by their logarithm, shares in percent, or days.

    The kinds are "number", "log", "percent" and "date"; what is not positive has no place on a logarithmic axis.
    """

    label: str
    kind: str = "number"


class Series(NamedTuple):
    """Values of one colour.

    Attributes
    ----------
    name : str
    x, y : sequences of equal length
        Numbers; days of a date axis as 2024-01-31. Of bars and dots x alone, one a category. NaN leaves a gap.
    labels : sequence of str
        What to call each point of a scatter.
    style : {"", "muted", "hollow", "muted hollow", "dashed"}
    low, high : sequences of equal length
        Ends of a pale band around a line.
    family : str
        Series of one family have the same colour.
    """

    name: str
    x: Values
    y: Values = ()
    labels: Sequence[str] = ()
    style: str = ""
    low: Values = ()
    high: Values = ()
    family: str = ""


class Panel(NamedTuple):
    """One of several charts that share a place on the page: its name in the list, its axes and its series.

    Attributes
    ----------
    label : str
    x, y : Axis
    series : sequence of Series
    categories : sequence of str
        Of bars and dots.
    marks : sequence
        Where to draw vertical lines.
    """

    label: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    categories: Sequence[str] = ()
    marks: Sequence[Any] = ()


class Column(NamedTuple):
    """A column of a table: its head, and "text", "day", "number", "long" (five digits), "percent" or "whole"."""

    head: str
    format: str = "text"

    @property
    def is_text(self) -> bool:
        """Whether it sorts by letters."""
        return self.format in ("text", "day")


class Cell(NamedTuple):
    """A number in a format other than its column's, in words of its own, or in bold."""

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
        What to type to make the same page again; "" if there is none.
    settings : mapping
        What it was made with, by name.

    Examples
    --------
    >>> report = Report("Two weights", "counterpoise track prices.csv --index SPX", {"names": 2})
    >>> report.headline("names held", "2", "of 400")
    >>> report.table("weights", "Weights", [Column("name"), Column("weight", "percent")], [["A", 0.75], ["B", 0.25]])
    >>> page = report.html()
    >>> "75.00 %" in page and "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    True
    """

    def __init__(self, title: str, command: str = "", settings: Mapping[str, Any] | None = None) -> None:
        self.title, self.command, self.settings = title, command, dict(settings or {})
        self.headlines: list[tuple[str, str, str]] = []
        self.charts: dict[str, dict[str, Any]] = {}
        self._body: list[str] = []
        self._names: set[str] = {"data", "theme"}
        self._sections: list[tuple[str, str]] = []

    def headline(self, label: str, value: str, note: str = "") -> None:
        """Add a number to those at the top."""
        self.headlines.append((label, value, note))

    def heading(self, text: str, name: str = "") -> None:
        """Begin a section; one with a name can be linked to, and two or more such make a list at the top."""
        if name:
            self._take_name(name)
            self._sections.append((name, text))
        mark = f' id="{name}"' if name else ""
        self._body.append(f"<h2{mark}>{html.escape(text)}</h2>")

    def subheading(self, text: str) -> None:
        """Begin a part of a section."""
        self._body.append(f"<h3>{html.escape(text)}</h3>")

    def paragraphs(self, *sentences: str) -> None:
        """Add text, a paragraph each."""
        self._body += [f"<p>{html.escape(sentence)}</p>" for sentence in sentences]

    def chart(
        self,
        name: str,
        title: str,
        kind: str,
        x: Axis,
        y: Axis,
        series: Sequence[Series],
        categories: Sequence[str] = (),
        marks: Sequence[Any] = (),
        note: str = "",
    ) -> None:
        """Add a chart.

        Parameters
        ----------
        name : str
            Of the element, for links such as ``#hide=name:series``.
        title : str
        kind : {"line", "bar", "dot", "scatter"}
            Bars and dots lie in rows, one a category.
        x, y, series, categories, marks
            As in :class:`Panel`.
        note : str
        """
        self._check_chart(name, kind, series, categories)
        self._take_name(name)
        self.charts[name] = _spec(kind, Panel(title, x, y, series, categories, marks))
        self._add_figure(name, title, note)

    def panels(self, name: str, title: str, kind: str, panels: Sequence[Panel], note: str = "") -> None:
        """Add charts of one kind of which one is seen at a time, chosen from a list.

        Parameters
        ----------
        name : str
            Of the element, for links such as ``#panel=name:label``.
        title : str
        kind : {"line", "bar", "dot", "scatter"}
        panels : sequence of Panel
        note : str
        """
        if not panels:
            raise ValueError(f"The chart {name!r} has no panels; give at least one.")
        for panel in panels:
            self._check_chart(name, kind, panel.series, panel.categories)
        self._take_name(name)
        self.charts[name] = {"panels": [{"label": panel.label, **_spec(kind, panel)} for panel in panels]}
        self._add_figure(name, title, note)

    def _check_chart(self, name: str, kind: str, series: Sequence[Series], categories: Sequence[str]) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(KINDS)}.")
        if not series:
            raise ValueError(f"The chart {name!r} has no series; give at least one.")
        for each in series:
            length = len(categories) if kind in ("bar", "dot") else len(each.y)
            said = f"The series {each.name!r} of {name!r} has {len(each.x)} values for {length} places"
            if len(each.x) != length:
                raise ValueError(f"{said}.")
            for part in ("labels", "low", "high"):
                if len(getattr(each, part)) not in (0, length):
                    raise ValueError(f"{said}, {len(getattr(each, part))} of them {part}.")

    def _add_figure(self, name: str, title: str, note: str) -> None:
        said = f'<p class="note">{html.escape(note)}</p>' if note else ""
        self._body.append(f'<figure id="{name}"><figcaption>{html.escape(title)}</figcaption>{said}</figure>')

    def table(
        self, name: str, title: str, columns: Sequence[Column], rows: Iterable[Sequence[Any]], note: str = ""
    ) -> None:
        """Add a table that sorts by a click on its head; None and NaN are shown as a dash and sort last."""
        for column in columns:
            if column.format not in FORMATS:
                raise ValueError(
                    f"The format of {column.head!r} is {column.format!r}; use one of {', '.join(FORMATS)}."
                )
        self._take_name(name)
        heads = "".join(
            f'<th{_class(column)} data-column="{html.escape(column.head)}" scope="col">'
            f'<button type="button">{html.escape(column.head)}</button></th>'
            for column in columns
        )
        body = "".join(
            "<tr>" + "".join(_cell(value, column) for value, column in zip(row, columns, strict=True)) + "</tr>\n"
            for row in rows
        )
        said = f'<p class="note">{html.escape(note)}</p>' if note else ""
        self._body.append(
            f'{said}<div class="wide" tabindex="0"><table id="{name}"><caption>{html.escape(title)}</caption>'
            f"<thead><tr>{heads}</tr></thead>\n<tbody>{body}</tbody></table></div>"
        )

    def html(self) -> str:
        """Return the page."""
        style, script = _resource("report.css"), _resource("report.js")
        # The page allows its own style and script and nothing else, least of all what a name in the data might hold.
        policy = f"default-src 'none'; style-src 'sha256-{_digest(style)}'; script-src 'sha256-{_digest(script)}'"
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(self.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
            f"<header><h1>{html.escape(self.title)}</h1>"
            '<button id="theme" type="button" hidden>Dark</button></header>\n'
            "<main>\n"
            + self._headlines()
            + self._contents()
            + "\n".join(self._body)
            + "\n"
            + self._repeat()
            + "</main>\n"
            "<noscript><p>The charts need JavaScript; the tables do not.</p></noscript>\n"
            f"<footer>Made by counterpoise {html.escape(_version())}. "
            "This page is one file and loads nothing.</footer>\n"
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
        return f'<dl class="headlines">\n{cells}</dl>\n' if cells else ""

    def _contents(self) -> str:
        if len(self._sections) < 2:
            return ""
        links = "".join(f'<li><a href="#{name}">{html.escape(text)}</a></li>\n' for name, text in self._sections)
        return f'<nav aria-label="Contents"><ul>\n{links}</ul></nav>\n'

    def _repeat(self) -> str:
        parts = []
        if self.settings:
            pairs = "".join(
                f"<dt>{html.escape(str(name))}</dt><dd>{html.escape(str(value))}</dd>\n"
                for name, value in self.settings.items()
            )
            parts.append(f'<h2>Settings</h2>\n<dl class="settings">\n{pairs}</dl>\n')
        if self.command:
            parts.append(f"<h2>To repeat it</h2>\n<pre><code>{html.escape(self.command)}</code></pre>\n")
        return "".join(parts)


def _unbroken(text: str) -> str:
    """Escape a text and keep numbers on one line with their percent sign."""
    return html.escape(text.replace(" %", "\u00a0%"))


def _class(column: Column) -> str:
    return "" if column.is_text else ' class="number"'


def _cell(value: Any, column: Column) -> str:
    """Return a cell that carries its full value beside the text."""
    if column.is_text:
        kind = ' class="day"' if column.format == "day" else ""
        return f"<td{kind}>{html.escape('–' if value is None else str(value))}</td>"
    cell = value if isinstance(value, Cell) else Cell(value, column.format)
    if cell.value is None or math.isnan(cell.value):
        return '<td class="number">–</td>'
    text = html.escape(cell.text or as_text(cell.value, cell.format))
    kind = "number strong" if cell.strong else "number"
    return f'<td class="{kind}" data-value="{_plain(cell.value)!r}">{text}</td>'


def _spec(kind: str, panel: Panel) -> dict[str, Any]:
    """Return what the script draws."""
    return {
        "kind": kind,
        "x": panel.x._asdict(),
        "y": panel.y._asdict(),
        "categories": [str(category) for category in panel.categories],
        "marks": [_plain(mark) for mark in panel.marks],
        "series": [_series_spec(series) for series in panel.series],
    }


def _series_spec(series: Series) -> dict[str, Any]:
    found: dict[str, Any] = {"name": series.name, "x": series.x, "y": series.y}
    found |= {name: part for name in ("low", "high") if len(part := getattr(series, name))}
    found = {name: part if name == "name" else [_plain(value) for value in part] for name, part in found.items()}
    found["style"] = series.style
    found |= {"labels": [str(label) for label in series.labels]} if series.labels else {}
    return found | ({"family": series.family} if series.family else {})


def as_text(value: float, kind: str = "number") -> str:
    """Write a number as tables do."""
    value = 0.0 if abs(value) < ROUNDING else value
    if kind == "whole":
        text = f"{int(value):,}"
    elif kind == "percent":
        text = f"{100.0 * value:.2f} %" if value == 0.0 or abs(value) >= 0.01 else f"{100.0 * value:.3g} %"
    else:
        text = f"{value:.5g}" if kind == "long" else f"{value:.4g}"
    return text.replace("-", "−")


def _plain(value: Any) -> Any:
    """Return what JSON can hold: NaN and NaT become None, days 2024-01-31."""
    if value is None or value != value:
        return None
    if hasattr(value, "date") and callable(value.date):
        return str(value.date())
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and math.isinf(value) else value


def _json(values: Any) -> str:
    """Return JSON in which no tag can end or begin."""
    text = json.dumps(values, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _resource(name: str) -> str:
    return resources.files("counterpoise").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _version() -> str:
    from counterpoise import __version__

    return __version__


# Certificates in plain words.


def rounded_up(gap: float) -> str:
    """Write a bound with two digits, rounded up so that sentences with it stay true."""
    return f"{decimal.Context(prec=2, rounding=decimal.ROUND_CEILING).create_decimal_from_float(gap):.1e}"


def ending(result: Result) -> str:
    """Say how a run ended and what it took."""
    return (
        f"The run ended as {result.status.name.lower().replace('_', ' ')} after {result.time:.2f} s and "
        f"{result.nit:,} iterations: {result.message}."
    )


def tracking_claims(tracker: IndexTracker) -> list[str]:
    """Say what is proved about a fitted tracker's weights, and what is not."""
    gap, n = float(tracker.cws_gap_), int(tracker.n_features_in_)
    if math.isnan(gap):
        claim = "The run ended before its weights were examined, so that nothing is proved about them."
    elif gap <= 0.0:
        claim = f"Proved: no change of any two of the {n} weights, within the rules, lowers the objective at all."
    elif tracker.result_.success:
        claim = (
            f"Proved: no change of any two of the {n} weights, within the rules, lowers the objective by more than "
            f"{rounded_up(gap)}, of {tracker.result_.objective:.4g} in all."
        )
    else:
        claim = (
            f"Not settled: a change of two weights would still lower the objective, {tracker.result_.objective:.4g}, "
            f"by up to {rounded_up(gap)}; give it more time."
        )
    limits = "Not proved: that no other portfolio of as many names is better; the search looks for one and stops."
    return [claim, limits] if tracker.result_.success else [claim]


def component_claims(pca: NonnegativeSparsePCA) -> list[str]:
    """Say what is proved about fitted components."""
    certified = [k for k, result in enumerate(pca.results_, 1) if result.success]
    others = [(k, result) for k, result in enumerate(pca.results_, 1) if not result.success]
    sentences = []
    if certified:
        gap = max(max(0.0, float(pca.results_[k - 1].cws_gap)) for k in certified)
        which = "each component" if not others else f"component{'s' * (len(certified) > 1)} {_listed(certified)}"
        # The objective is minus half the variance.
        amount = f"by more than {rounded_up(2.0 * gap)}" if gap > 0.0 else "at all"
        alone = len(pca.results_) == 1
        given = "" if alone else "given the others, " if pca.backfit > 0 else "given those before it, "
        sentences.append(f"Proved of {which}: {given}no change of any two loadings raises its variance {amount}.")
        sentences.append("Not proved: that no other loadings are better; the search looks for some and stops.")
    by_message: dict[str, list[int]] = {}
    for k, result in others:
        by_message.setdefault(result.message, []).append(k)
    sentences += [
        f"{'Each of components' if len(which_ones) > 1 else 'Component'} {_listed(which_ones)}: {message}."
        for message, which_ones in by_message.items()
    ]
    return sentences


def split_claims(split: Split) -> list[str]:
    """Say what is known about a split, and what its draws are good for."""
    ratio = split._random_difference / split.max_difference if split.max_difference > 0.0 else math.inf
    better = "exact" if math.isinf(ratio) else f"{ratio:,.0f} times closer than a random split leaves them on average"
    sentences = [
        f"The largest standardised difference between groups is {split.max_difference:.2g}: {better}.",
        "The search improves splits by exchanges of two units; that no other split is better is not proved.",
    ]
    count = len(split.reference)
    if len(split.draws) > 1:
        sentences.append(
            f"The split was drawn by lot from {count} near-optimal ones"
            f"{', the draws and their mirror images' if split.mirrored else ''}. A randomisation test over them is "
            f"exact, whatever the outcomes' distribution; its least two-sided p-value is {1 + split.mirrored}/{count}."
        )
    else:
        sentences.append(
            "There is one draw, so that no randomisation test belongs to it; ask for 100 draws or more, before the "
            "experiment, if you want one."
        )
    return sentences


def _listed(numbers: Sequence[int]) -> str:
    words = [str(number) for number in numbers]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# What the estimators found.


def periods_of(labels: Any) -> float | None:
    """Return how many rows a year has, by the median distance of its days; None if the labels are no days."""
    if labels is None or getattr(labels, "dtype", None) is None or labels.dtype.kind != "M" or len(labels) < 3:
        return None
    gap = float(np.median(np.diff(np.asarray(labels, dtype="datetime64[s]")).astype(np.float64))) / 86400.0
    return next((periods for most, periods in PERIODS if gap <= most), None)


def _labels(table: Any) -> Any:
    """Return the row labels of a pandas object, None of an array."""
    return getattr(table, "index", None) if hasattr(table, "iloc") else None


def _along(labels: Any, count: int) -> tuple[Sequence[Any], Axis, list[str]]:
    """Return what to draw rows against, its axis, and a name for each row."""
    if labels is not None and getattr(labels.dtype, "kind", "") == "M":
        days = [_plain(day) for day in labels]
        return days, Axis("", "date"), days
    return list(range(1, count + 1)), Axis("row"), [str(k) for k in (range(1, count + 1) if labels is None else labels)]


def _yearly(error: float, periods: float | None) -> str:
    return "" if periods is None else f"about {as_text(math.sqrt(periods) * error, 'percent')} a year"


def _percent(share: float) -> str:
    """Write a share in percent with three digits, however small."""
    return f"{100.0 * share:.3g} %"


def tracking_report(
    tracker: IndexTracker,
    returns: Any,
    index: Any,
    *,
    backtest: Backtest | None = None,
    title: str = "Index tracking",
    command: str = "",
    settings: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    groups: Mapping[Any, Any] | None = None,
) -> Report:
    """Report a fitted tracker.

    Parameters
    ----------
    tracker : IndexTracker
        Fitted.
    returns, index : DataFrame and Series, or arrays
        The rows it was fitted on.
    backtest : Backtest, optional
        Shown first, as it is what to expect.
    title, command, settings
        Of :class:`Report`.
    notes : sequence of str
        Sentences about the data.
    groups : mapping, optional
        From names to groups; by default the tracker's own.
    """
    weights = holdings_table(tracker, groups)
    labels, fitted, target = _labels(returns), np.asarray(tracker.predict(returns)), np.asarray(index, dtype=np.float64)
    target = target.ravel()
    periods, error = periods_of(labels), float(tracker.tracking_error_)
    along, axis, row_names = _along(labels, len(fitted))
    report = Report(title, command, settings if settings is not None else tracker.get_params())
    report.headline("names held", str(len(tracker.support_)), f"of {tracker.n_features_in_}")
    if backtest is not None:
        outside = backtest.tracking_error
        report.headline("tracking error out of sample", f"{_percent(outside)} a row", _yearly(outside, periods))
    report.headline("tracking error of the fit", f"{_percent(error)} a row", _yearly(error, periods))
    if len(weights.rows):
        largest = max(weights.rows, key=lambda row: row[weights.at])
        report.headline("largest weight", as_text(largest[weights.at], "percent"), str(largest[0]))
    if tracker.previous_weights is not None:
        report.headline("turnover", as_text(float(tracker.turnover_), "percent"), "bought and sold, of the portfolio")
    report.headline(
        "certificate",
        "certified" if tracker.result_.success else tracker.result_.status.name.lower().replace("_", " "),
        "" if math.isnan(tracker.cws_gap_) else f"gap {rounded_up(max(0.0, float(tracker.cws_gap_)))}",
    )
    if notes:
        report.heading("The data")
        report.paragraphs(*notes)
    if backtest is not None:
        _add_backtest(report, backtest, periods)
    report.heading("Weights")
    _add_weights(report, weights)
    report.heading("The fit")
    first_and_last = f", {row_names[0]} to {row_names[-1]}" if labels is not None and len(row_names) else ""
    report.paragraphs(
        f"Fitted on {len(fitted):,} rows of returns{first_and_last}; the lines are those of constant weights. A fit "
        "sees the rows that it is judged by here, so that it looks better than what follows."
    )
    _add_growth(report, "fit", along, axis, fitted, target)
    _add_scatter(report, "fit-returns", row_names, fitted, target)
    report.heading("What is proved")
    report.paragraphs(*tracking_claims(tracker), ending(tracker.result_))
    return report


class Weights(NamedTuple):
    """The names held, the largest first: columns, rows, and the position of the weight in a row."""

    columns: list[Column]
    rows: list[list[Any]]
    at: int


def holdings_table(tracker: IndexTracker, groups: Mapping[Any, Any] | None = None) -> Weights:
    """Return what a fitted tracker holds, with groups and previous weights if it has them; sold names come last."""
    weights = tracker.weights_
    names = list(weights.index) if hasattr(weights, "index") else list(range(len(weights)))
    values = dict(zip(names, (float(value) for value in np.asarray(weights)), strict=True))
    groups = groups if groups is not None else _by_name(tracker.groups, names)
    previous = _by_name(tracker.previous_weights, names)
    before = {name: float(value) for name, value in (previous or {}).items() if float(value) != 0.0}
    shown = sorted((name for name in values if values[name] != 0.0), key=lambda name: -values[name])
    gone = [name for name in before if not values.get(name)] if previous is not None else []
    columns = [Column("name")]
    if groups is not None:
        columns.append(Column("group"))
    columns.append(Column("weight", "percent"))
    if previous is not None:
        columns += [Column("before", "percent"), Column("change", "percent")]
    rows = []
    for name in [*shown, *gone]:
        weight, was = values.get(name, 0.0), before.get(name, 0.0)
        row: list[Any] = [str(name)]
        row += [] if groups is None else [_group_name(groups.get(name))]
        row += [weight] if previous is None else [weight, was, weight - was]
        rows.append(row)
    return Weights(columns, rows, 1 if groups is None else 2)


def _group_name(group: Any) -> str:
    return "none" if group is None or group != group else str(group)


def _by_name(values: Any, names: Sequence[Any]) -> dict[Any, Any] | None:
    """Return a mapping, Series or array as a dictionary."""
    if values is None:
        return None
    if hasattr(values, "items"):
        return dict(values.items())
    return dict(zip(names, np.asarray(values).tolist(), strict=True))


def _add_weights(report: Report, weights: Weights) -> None:
    rows, at = weights.rows[:MOST_BARS], weights.at
    series = [Series("weight", [row[at] for row in rows])]
    if len(weights.columns) > at + 1:
        series.append(Series("before", [row[at + 1] for row in rows], style="muted"))
    note = "" if len(rows) == len(weights.rows) else f"The first {len(rows)} of {len(weights.rows)}."
    report.chart(
        "bars", "Weights", "bar", Axis("weight", "percent"), Axis(""), series, [row[0] for row in rows], note=note
    )
    if at == 2:
        sums: dict[str, float] = {}
        for row in weights.rows:
            sums[row[1]] = sums.get(row[1], 0.0) + row[at]
        order = sorted(sums, key=lambda name: -sums[name])
        values = [sums[name] for name in order]
        report.chart(
            "groups", "Weights of groups", "bar", Axis("weight", "percent"), Axis(""), [Series("weight", values)], order
        )
    report.table("weights", "Weights", weights.columns, weights.rows)


def _add_growth(
    report: Report,
    name: str,
    along: Sequence[Any],
    axis: Axis,
    portfolio: Any,
    index: Any,
    marks: Sequence[Any] = (),
    note: str = "",
) -> None:
    """Draw both growing from 1, and how far one is ahead of the other."""
    ours, theirs = np.cumprod(1.0 + np.asarray(portfolio)), np.cumprod(1.0 + np.asarray(index))
    series = [Series("index", along, theirs, style="muted"), Series("portfolio", along, ours)]
    # The index is drawn first, below; the portfolio has the first colour.
    report.chart(f"{name}-growth", "Growth of 1", "line", axis, Axis("growth of 1"), series, marks=marks, note=note)
    ahead = Series("portfolio", along, ours / theirs - 1.0)
    report.chart(
        f"{name}-ahead",
        "How far the portfolio is ahead of the index",
        "line",
        axis,
        Axis("ahead", "percent"),
        [ahead],
        marks=marks,
    )


def _add_scatter(report: Report, name: str, row_names: Sequence[str], portfolio: Any, index: Any) -> None:
    count = len(portfolio)
    if count > MOST_POINTS:
        row_names, portfolio, index = row_names[-MOST_POINTS:], portfolio[-MOST_POINTS:], index[-MOST_POINTS:]
    note = f"The last {MOST_POINTS:,} of {count:,} rows." if count > MOST_POINTS else ""
    axes = Axis("index", "percent"), Axis("portfolio", "percent")
    series = [Series("rows", index, portfolio, row_names)]
    report.chart(name, "Returns of the portfolio against those of the index", "scatter", *axes, series, note=note)


def _add_backtest(report: Report, backtest: Backtest, periods: float | None) -> None:
    """Show what would have happened."""
    labels, count = _labels(backtest.portfolio), len(backtest.portfolio)
    along, axis, _ = _along(labels, count)
    figures = dict(backtest.summary(periods).items())
    report.heading("Out of sample")
    cut = "" if backtest.complete else " It was ended early; this is the part that was done."
    costs = float(np.sum(np.asarray(backtest.costs)))
    several = len(backtest.rebalances) > 1
    which = f"{len(backtest.rebalances)} portfolios, each" if several else "One portfolio,"
    report.paragraphs(
        f"{which} chosen from the rows before it and held for those after, {count:,} rows in all. Between rebalances "
        f"weights drift; costs of {_percent(costs)} of the value are paid.{cut}"
    )
    starts = backtest.rebalances if labels is not None else backtest.rebalances - backtest.rebalances[0] + 1
    marks = [_plain(start) for start in starts] if axis.kind == "date" else []
    note = "Dotted lines are rebalances." if 1 < len(marks) else ""
    _add_growth(report, "out", along, axis, backtest.portfolio, backtest.index, marks if note else (), note)
    report.table(
        "summary",
        "Out of sample",
        [Column("figure"), Column("value", "number")],
        [[name.replace("_", " "), Cell(float(value), _figure_format(name))] for name, value in figures.items()],
        note="Tracking errors and differences are per row; that called annual is per year.",
    )
    if len(backtest.rebalances) > 1:
        parts = (backtest.names_held, backtest.turnover, backtest.costs, backtest.in_sample_error)
        columns = [
            Column("from", "day"),
            Column("names", "whole"),
            Column("turnover", "percent"),
            Column("cost", "percent"),
        ]
        rows = [
            [str(_plain(start)), *(float(value) for value in values)]
            for start, *values in zip(backtest.rebalances, *(np.asarray(part) for part in parts), strict=True)
        ]
        report.table("rebalances", "Rebalances", [*columns, Column("error of the fit", "percent")], rows)


def _figure_format(name: str) -> str:
    """Return how to show a figure of a backtest's summary."""
    if name in ("rows", "rebalances"):
        return "whole"
    return "number" if name in ("correlation", "names_held") else "percent"


def components_report(
    pca: NonnegativeSparsePCA,
    X: Any = None,
    *,
    names: Sequence[str] | None = None,
    rows: Sequence[str] | None = None,
    title: str = "Non-negative sparse principal components",
    command: str = "",
    settings: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> Report:
    """Report fitted components.

    Parameters
    ----------
    pca : NonnegativeSparsePCA
        Fitted.
    X : array or DataFrame, optional
        The data, for the scores and a comparison with ordinary components.
    names : sequence of str, optional
        Of the features; by default those of the fit.
    rows : sequence of str, optional
        Of the rows of X.
    title, command, settings
        Of :class:`Report`.
    notes : sequence of str
        Sentences about the data.
    """
    loadings = loadings_table(pca, names)
    shares = np.asarray(pca.explained_variance_ratio_, dtype=np.float64)
    count = len(shares)
    report = Report(title, command, settings if settings is not None else pca.get_params())
    ordinary = _ordinary_shares(X, count)
    against = "" if ordinary is None else f"ordinary components, dense and signed: {as_text(ordinary.sum(), 'percent')}"
    report.headline("variance explained", as_text(float(shares.sum()), "percent"), against)
    report.headline("components", str(count))
    used = len({row[1] for row in loadings.rows})
    report.headline("features used", f"{used:,}", f"of {pca.n_features_in_:,}")
    certified = sum(bool(result.success) for result in pca.results_)
    report.headline("certified", f"{certified} of {count}", "components")
    if notes:
        report.heading("The data")
        report.paragraphs(*notes)
    report.heading("Variance explained")
    series = [Series("this component", shares)]
    if ordinary is not None:
        series.append(Series("ordinary component", ordinary, style="muted"))
    names_of = [f"component {k}" for k in range(1, count + 1)]
    report.chart(
        "variance",
        "Share of the variance that each component adds",
        "bar",
        Axis("share of the variance", "percent"),
        Axis(""),
        series,
        names_of,
        note="Adjusted: what the components before explain is not counted again.",
    )
    report.heading("Loadings")
    if count > MOST_COMPONENTS:
        report.paragraphs(f"The first {MOST_COMPONENTS} of {count} components are drawn; the table has all.")
    for k in range(1, min(count, MOST_COMPONENTS) + 1):
        own = [row for row in loadings.rows if row[0] == k][:MOST_BARS]
        values = [Series("loading", [row[2] for row in own])]
        report.chart(
            f"component-{k}", f"Component {k}", "bar", Axis("loading"), Axis(""), values, [row[1] for row in own]
        )
    report.table("loadings", "Loadings", loadings.columns, loadings.rows[:MOST_ROWS], _cut(loadings.rows))
    if X is not None and count > 1:
        scores = np.asarray(pca.transform(X), dtype=np.float64)[:MOST_POINTS]
        labels = [str(name) for name in (rows if rows is not None else range(1, len(scores) + 1))][: len(scores)]
        report.heading("Scores")
        series = [Series("rows", scores[:, 0], scores[:, 1], labels)]
        axes = Axis("component 1"), Axis("component 2")
        report.chart("scores", "Scores of the first two components", "scatter", *axes, series)
    report.heading("What is proved")
    report.paragraphs(*component_claims(pca))
    columns = [Column("component", "whole"), Column("share", "percent"), Column("non-zeros", "whole")]
    ends = [
        [k, share, int(np.count_nonzero(row)), result.status.name.lower().replace("_", " "), 2.0 * result.cws_gap]
        for k, (share, row, result) in enumerate(zip(shares, pca.components_, pca.results_, strict=True), 1)
    ]
    report.table("components", "Components", [*columns, Column("ended as"), Column("gap", "number")], ends)
    return report


def _cut(rows: Sequence[Any]) -> str:
    return f"The first {MOST_ROWS:,} of {len(rows):,} rows." if len(rows) > MOST_ROWS else ""


class Loadings(NamedTuple):
    """The loadings that are not 0, by component and the largest first."""

    columns: list[Column]
    rows: list[list[Any]]


def loadings_table(pca: NonnegativeSparsePCA, names: Sequence[str] | None = None) -> Loadings:
    """Return rows of component, feature and loading."""
    known = names if names is not None else getattr(pca, "feature_names_in_", None)
    features = [f"x{k}" for k in range(pca.n_features_in_)] if known is None else [str(name) for name in known]
    rows: list[list[Any]] = []
    for k, component in enumerate(np.asarray(pca.components_, dtype=np.float64), 1):
        order = np.argsort(-component, kind="stable")[: np.count_nonzero(component)]
        rows += [[k, features[j], float(component[j])] for j in order]
    return Loadings([Column("component", "whole"), Column("feature"), Column("loading", "number")], rows)


def _ordinary_shares(X: Any, count: int) -> npt.NDArray[np.float64] | None:
    """Return the shares of variance of ordinary principal components, of tables that are not too large."""
    if X is None or hasattr(X, "tocsr") or math.prod(np.shape(X)) > MOST_ENTRIES:
        return None
    values = np.asarray(X, dtype=np.float64)
    spectrum = np.linalg.svd(values - values.mean(axis=0), compute_uv=False) ** 2
    return np.asarray(spectrum[:count] / spectrum.sum(), dtype=np.float64)


def split_report(
    split: Split,
    *,
    title: str = "Balanced split",
    command: str = "",
    settings: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> Report:
    """Report a split.

    Parameters
    ----------
    split : Split
    title, command, settings
        Of :class:`Report`.
    notes : sequence of str
        Sentences about the data.
    """
    balance = balance_table(split)
    at_random = split._random_difference
    report = Report(title, command, settings)
    sizes = " + ".join(str(size) for size in split.group_sizes)
    report.headline("groups", sizes, f"{sum(split.group_sizes)} units")
    report.headline("largest difference", f"{split.max_difference:.2g}", f"standardised; {at_random:.2g} at random")
    report.headline("covariates", str(len(balance.rows)), "numbers, and levels of categories")
    report.headline(
        "draws",
        f"{len(split.draws):,}",
        f"{len(split.reference):,} splits to compare with" if len(split.draws) > 1 else "",
    )
    if notes:
        report.heading("The data")
        report.paragraphs(*notes)
    report.heading("Balance")
    order = sorted(balance.rows, key=lambda row: -abs(row[-1]))[:MOST_BARS]
    names = [row[0] for row in order]
    series = [
        Series("random split, root mean square", [abs(row[-2]) for row in order], style="muted hollow"),
        Series("this split", [abs(row[-1]) for row in order]),
    ]
    report.chart(
        "balance-dots",
        "Differences between groups",
        "dot",
        Axis("|standardised mean difference|"),
        Axis(""),
        series,
        names,
        note=f"The {len(names)} largest of {len(balance.rows)}." if len(names) < len(balance.rows) else "",
    )
    # The difference first: on a phone the means are a scroll away.
    columns = [balance.columns[0], *balance.columns[:-3:-1], *balance.columns[1:-2]]
    rows = [[row[0], *row[:-3:-1], *row[1:-2]] for row in balance.rows]
    note = "Means are in each covariate's own unit; a difference is of two means over the deviation of all units."
    report.table("balance", "Balance", columns, rows, note)
    if len(split.draws) > 1:
        values = np.sort(np.asarray(split.draw_objectives, dtype=np.float64))
        places = list(range(1, len(values) + 1))
        axes = Axis("draw, the best first"), Axis("Σ w·difference²")
        report.chart("draws", "How good the draws are", "line", *axes, [Series("draws", places, values)])
    report.heading("What is known")
    report.paragraphs(*split_claims(split))
    return report


class Balance(NamedTuple):
    """One row per covariate: its name, the groups' means, the difference at random and here."""

    columns: list[Column]
    rows: list[list[Any]]


def balance_table(split: Split) -> Balance:
    """Return the balance of a split without pandas."""
    labels, parts = np.asarray(split.labels), split.covariates
    groups = range(len(split.group_sizes))
    means = [parts.values[labels == g].mean(axis=0) for g in groups]
    at_random = np.where(parts.scores.any(axis=0), split._random_difference, 0.0)
    columns = [Column("covariate"), *(Column(f"mean {g}", "number") for g in groups)]
    rows = [
        [name, *(float(mean[k]) for mean in means), float(at_random[k]), float(split.differences[k])]
        for k, name in enumerate(parts.names)
    ]
    return Balance([*columns, Column("random", "number"), Column("difference", "number")], rows)

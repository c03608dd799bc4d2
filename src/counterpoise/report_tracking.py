"""Reports on index tracking: a fitted tracker, a backtest, or both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoise import findings
from counterpoise.figures.describe import Axis, Panel, Series, bars_panel, growth_panel
from counterpoise.figures.page import Cell, Column, Report, plain
from counterpoise.findings import Listing, Rhythm, ending, rhythm_of
from counterpoise.sentences import as_text, percent, rounded_up, spelled

if TYPE_CHECKING:
    from counterpoise.backtest import Backtest
    from counterpoise.estimators.tracking import IndexTracker

# Maximum number of bars and of points on a page.
MOST_BARS, MOST_POINTS = 120, 5000
# Formats of a backtest's statistics that are not in percent.
KINDS = {"rows": "whole", "rebalances": "whole", "correlation": "number", "names_held": "number"}


def tracking_report(
    tracker: IndexTracker,
    returns: Any = None,
    index: Any = None,
    *,
    backtest: Backtest | None = None,
    title: str = "Index tracking",
    groups: Mapping[Any, Any] | None = None,
    index_weights: Mapping[Any, float] | None = None,
    **page: Any,
) -> Report:
    """Report a fitted tracker.

    Parameters
    ----------
    tracker : IndexTracker
        Fitted.
    returns, index : DataFrame and Series, or arrays, optional
        Rows to show the portfolio on; by default those of the fit.
    backtest : Backtest, optional
        Shown first, because it predicts future performance better than the fit.
    groups : mapping, optional
        Maps names to groups; by default the tracker's own.
    index_weights : mapping, optional
        Maps names to their weights in the index, for comparison.
    title, **page
        Passed to :class:`Report`.
    """
    holdings = findings.holdings_table(tracker, groups, index_weights)
    backtest = backtest if backtest is None else backtest.in_pandas or backtest
    labels, fitted, target = tracker._fitted_rows
    if returns is not None:
        labels, fitted = _labels(returns), np.asarray(tracker.predict(returns))
        target = np.asarray(index, dtype=np.float64).ravel()
    rhythm, error = rhythm_of(labels), float(tracker.tracking_error_)
    along, axis, row_names = _along(labels, len(fitted))
    report = Report(title, **{"settings": tracker.get_params(), **page})
    report.headline("certificate", *_certificate(tracker))
    if backtest is not None:
        _add_error(report, "tracking error out of sample", float(backtest.tracking_error), rhythm)
    _add_error(report, "tracking error of the fit", error, rhythm)
    report.headline("names held", str(len(tracker.support_)), f"of {tracker.n_features_in_}")
    if len(holdings.rows):
        largest = max(holdings.rows, key=lambda row: row[holdings.at])
        report.headline("largest weight", as_text(largest[holdings.at], "percent"), str(largest[0]))
    if tracker.previous_weights is not None:
        report.headline("turnover", as_text(float(tracker.turnover_), "percent"), "bought and sold, of the portfolio")
    if backtest is not None:
        add_backtest(report, backtest, rhythm)
    report.heading("Weights")
    _add_weights(report, holdings)
    if Column("group") in holdings.columns:
        _add_groups(report, tracker, holdings, groups, index_weights)
    report.heading("The fit")
    first_and_last = f", {row_names[0]} to {row_names[-1]}" if labels is not None and len(row_names) else ""
    report.paragraphs(
        f"Fitted on {len(fitted):,} {rhythm.unit}s of returns{first_and_last}. The charts keep the weights constant, "
        "and show the rows that the portfolio was fitted to, so that it looks better here than it will on later rows.",
        *_convention(rhythm),
    )
    _add_growth(report, "fit", growth_panel(along, axis, fitted, target))
    _add_scatter(report, row_names, fitted, target)
    report.heading("What is proved")
    report.paragraphs(*findings.tracking_claims(tracker), ending(tracker.result_))
    return report


def backtest_report(backtest: Backtest, *, title: str = "Backtest", **page: Any) -> Report:
    """Report a backtest; ``title`` and ``page`` are passed to :class:`Report`."""
    backtest = backtest.in_pandas or backtest
    rhythm = rhythm_of(_labels(backtest.portfolio))
    report = Report(title, **page)
    _add_error(report, "tracking error out of sample", float(backtest.tracking_error), rhythm)
    grown = np.asarray(backtest.cumulative)[-1] - 1.0
    report.headline("growth", as_text(grown[0], "percent"), f"index: {as_text(grown[1], 'percent')}")
    report.headline("names held", f"{float(np.mean(np.asarray(backtest.names_held))):.3g}", "on average")
    costs = percent(backtest._total_cost)
    report.headline("rebalances", str(len(backtest.rebalances)), f"costs of {costs} in all")
    add_backtest(report, backtest, rhythm)
    report.paragraphs(*_convention(rhythm))
    return report


def _certificate(tracker: IndexTracker) -> tuple[str, str]:
    """Return what is proved, and a note on the gap and on what is not proved."""
    gap, result = float(tracker.cws_gap_), tracker.result_
    value = findings.proved(result, "trade between two names", "portfolio")
    if not result.success:
        return value, f"{spelled(result.status)}: a better portfolio is likely"
    measurable = gap > findings.resolution(tracker.problem_, tracker.coef_)
    more = f"by more than {rounded_up(gap)}" if measurable else ""
    other = "" if result.status.name == "OPTIMAL" else "another portfolio may be better"
    return value, "; ".join(filter(None, [more, other]))


def _add_error(report: Report, label: str, error: float, rhythm: Rhythm) -> None:
    yearly, per_row = rhythm.yearly(error), f"{percent(error)} a {rhythm.unit}"
    value, note = (per_row, "") if yearly is None else (f"{percent(yearly, 2)} a year", per_row)
    report.headline(label, value, note)


def _convention(rhythm: Rhythm) -> list[str]:
    if rhythm.periods is None:
        return []
    return [
        f"A tracking error is the root mean square difference of returns per {rhythm.unit}. Per year it is "
        f"{rhythm.convention}, which assumes differences that are independent and have mean 0."
    ]


def _labels(table: Any) -> Any:
    """Return the row labels of a pandas object, None for an array."""
    return getattr(table, "index", None) if hasattr(table, "iloc") else None


def _along(labels: Any, count: int) -> tuple[Sequence[Any], Axis, list[str]]:
    """Return x values for rows, their axis, and the row names."""
    if labels is not None and getattr(labels.dtype, "kind", "") == "M":
        days = [plain(day) for day in labels]
        return days, Axis("", "date"), days
    return list(range(1, count + 1)), Axis("row"), [str(k) for k in (range(1, count + 1) if labels is None else labels)]


def _add_weights(report: Report, holdings: Listing) -> None:
    rows = holdings.rows[:MOST_BARS]
    note = "" if len(rows) == len(holdings.rows) else f"The first {len(rows)} of {len(holdings.rows)}."
    panel = bars_panel(Axis("weight", "percent"), [row[0] for row in rows], **holdings.series(rows))
    report.draw("bars", "Weights", "bar", panel, note)
    report.table("weights", "Weights", holdings.columns, holdings.rows)


def _add_groups(report: Report, tracker: IndexTracker, holdings: Listing, members: Any, index_weights: Any) -> None:
    """Add a chart and a table of the total weights of groups, with their limits."""
    groups = findings.group_rows(tracker, holdings, members, index_weights)
    panel = bars_panel(Axis("weight", "percent"), [row[0] for row in groups.rows], **groups.series(groups.rows))
    limits = [[row[k] for row in groups.rows] for k in (-2, -1)]
    note = ""
    if any(value is not None for side in limits for value in side):
        first = panel.series[0]._replace(low=limits[0], high=limits[1])
        panel, note = panel._replace(series=[first, *panel.series[1:]]), "Brackets are the limits of a group."
    report.subheading("Groups")
    report.draw("groups", "Weights of groups", "bar", panel, note)
    report.table("group-weights", "Weights of groups", groups.columns, groups.rows)


def _add_growth(report: Report, name: str, panel: Panel, note: str = "") -> None:
    """Add a chart of the growth of portfolio and index, and one of their relative difference."""
    report.draw(f"{name}-growth", panel.label, "line", panel, note)
    theirs, ours = (np.asarray(series.y) for series in panel.series)
    line = Series("portfolio", panel.series[0].x, ours / theirs - 1.0)
    ahead = panel._replace(y=Axis("ahead", "percent"), series=[line])
    report.draw(f"{name}-ahead", "How far the portfolio is ahead of the index", "line", ahead)


def _add_scatter(report: Report, row_names: Sequence[str], portfolio: Any, index: Any) -> None:
    count, last = len(portfolio), slice(-MOST_POINTS, None)
    note = f"The last {MOST_POINTS:,} of {count:,} rows." if count > MOST_POINTS else ""
    axes = Axis("index", "percent"), Axis("portfolio", "percent")
    series = [Series("rows", index[last], portfolio[last], row_names[last])]
    title = "Returns of the portfolio against those of the index"
    report.chart("fit-returns", title, "scatter", *axes, series, note=note)


def add_backtest(report: Report, backtest: Backtest, rhythm: Rhythm) -> None:
    """Add the results of a backtest."""
    labels, count = _labels(backtest.portfolio), len(backtest.portfolio)
    along, axis, _ = _along(labels, count)
    figures = dict(backtest.summary(rhythm.periods).items())
    report.heading("Out of sample")
    cut = "" if backtest.complete else " It was ended early; this is the part that was done."
    costs = backtest._total_cost
    paid = f"costs of {percent(costs)} of the value" if costs else "no costs"
    several = len(backtest.rebalances) > 1
    which = f"{len(backtest.rebalances)} portfolios, each" if several else "One portfolio,"
    report.paragraphs(
        f"{which} chosen from the rows before it and held for those after, {count:,} {rhythm.unit}s in all. Between "
        f"rebalances weights drift; {paid} are paid.{cut}",
        *findings.sales(backtest),
    )
    starts = backtest.rebalances if labels is not None else backtest.rebalances - backtest.rebalances[0] + 1
    marks = [plain(start) for start in starts] if axis.kind == "date" else []
    note = "Dashed lines are rebalances." if 1 < len(marks) else ""
    panel = growth_panel(along, axis, backtest.portfolio, backtest.index, marks if note else ())
    _add_growth(report, "out", panel, note)
    rows = [[name.replace("_", " "), Cell(float(value), KINDS.get(name, "percent"))] for name, value in figures.items()]
    note = f"Tracking errors and differences are per {rhythm.unit}, except the annual one."
    report.table("summary", "Out of sample", [Column("figure"), Column("value", "long")], rows, note)
    if several:
        parts = (backtest.names_held, backtest.turnover, backtest.costs, backtest.in_sample_error)
        heads = ("from", "names", "turnover", "cost", "error of the fit")
        columns = list(map(Column, heads, ("day", "whole", "percent", "percent", "percent")))
        rows = [
            [str(plain(start)), *(float(value) for value in values)]
            for start, *values in zip(backtest.rebalances, *(np.asarray(part) for part in parts), strict=True)
        ]
        report.table("rebalances", "Rebalances", columns, rows)

"""Report what the estimators found: one HTML file each, which needs no network and says how to repeat it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from counterpoise.figures.describe import Axis, Panel, Series, balance_panel, bars_panel, growth_panel
from counterpoise.figures.page import Cell, Column, Report, plain
from counterpoise.findings import (
    Listing,
    balance_table,
    component_claims,
    ending,
    holdings_table,
    loadings_table,
    split_claims,
    tracking_claims,
)
from counterpoise.sentences import as_text, percent, rounded_up, spelled

if TYPE_CHECKING:
    from counterpoise.backtest import Backtest
    from counterpoise.estimators.pca import SparsePCA
    from counterpoise.estimators.split import Split
    from counterpoise.estimators.tracking import IndexTracker

__all__ = ["Axis", "Cell", "Column", "Panel", "Report", "Series", "as_text", "balance_table", "component_claims"]
__all__ += ["components_report", "ending", "holdings_table", "loadings_table", "periods_of", "rounded_up"]
__all__ += ["split_claims", "split_report", "tracking_claims", "tracking_report"]

# Rows a year by the median number of days between rows.
PERIODS = ((4.5, 252.0), (10.5, 52.0), (45.5, 12.0), (130.5, 4.0))
# Limits of bars, points, rows and components on a page.
MOST_BARS, MOST_POINTS, MOST_ROWS, MOST_COMPONENTS = 120, 5000, 1000, 12
# For larger tables, ordinary components are not computed.
MOST_ENTRIES = 20_000_000


def periods_of(labels: Any) -> float | None:
    """Return the rows per year, from the median gap between days; None if the labels are not days."""
    if labels is None or getattr(labels, "dtype", None) is None or labels.dtype.kind != "M" or len(labels) < 3:
        return None
    gap = float(np.median(np.diff(np.asarray(labels, dtype="datetime64[s]")).astype(np.float64))) / 86400.0
    return next((periods for most, periods in PERIODS if gap <= most), None)


def _labels(table: Any) -> Any:
    """Return the row labels of a pandas object, None of an array."""
    return getattr(table, "index", None) if hasattr(table, "iloc") else None


def _along(labels: Any, count: int) -> tuple[Sequence[Any], Axis, list[str]]:
    """Return x values for rows, their axis, and the row names."""
    if labels is not None and getattr(labels.dtype, "kind", "") == "M":
        days = [plain(day) for day in labels]
        return days, Axis("", "date"), days
    return list(range(1, count + 1)), Axis("row"), [str(k) for k in (range(1, count + 1) if labels is None else labels)]


def _yearly(error: float, periods: float | None) -> str:
    return "" if periods is None else f"about {as_text(math.sqrt(periods) * error, 'percent')} a year"


def _add_notes(report: Report, notes: Sequence[str]) -> None:
    if notes:
        report.heading("The data")
        report.paragraphs(*notes)


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
        What to tell about the data.
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
        report.headline("tracking error out of sample", f"{percent(outside)} a row", _yearly(outside, periods))
    report.headline("tracking error of the fit", f"{percent(error)} a row", _yearly(error, periods))
    if len(weights.rows):
        largest = max(weights.rows, key=lambda row: row[weights.at])
        report.headline("largest weight", as_text(largest[weights.at], "percent"), str(largest[0]))
    if tracker.previous_weights is not None:
        report.headline("turnover", as_text(float(tracker.turnover_), "percent"), "bought and sold, of the portfolio")
    report.headline(
        "certificate",
        "certified" if tracker.result_.success else spelled(tracker.result_.status),
        "" if math.isnan(tracker.cws_gap_) else f"gap {rounded_up(max(0.0, float(tracker.cws_gap_)))}",
    )
    _add_notes(report, notes)
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


def _add_weights(report: Report, weights: Listing) -> None:
    rows, at = weights.rows[:MOST_BARS], weights.at
    values = [[row[k] for row in rows] for k in (at, at + 1)[: len(weights.columns) - at]]
    x, names = Axis("weight", "percent"), [row[0] for row in rows]
    note = "" if len(rows) == len(weights.rows) else f"The first {len(rows)} of {len(weights.rows)}."
    report.draw("bars", "Weights", "bar", bars_panel("weight", x, names, *values), note)
    if at == 2:
        sums: dict[str, float] = {}
        for row in weights.rows:
            sums[row[1]] = sums.get(row[1], 0.0) + row[at]
        order = sorted(sums, key=lambda name: -sums[name])
        panel = bars_panel("weight", x, order, [sums[name] for name in order])
        report.draw("groups", "Weights of groups", "bar", panel)
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
    """Draw the growth of both, and their relative difference."""
    panel = growth_panel(along, axis, portfolio, index, marks)
    report.draw(f"{name}-growth", panel.label, "line", panel, note)
    theirs, ours = (np.asarray(series.y) for series in panel.series)
    ahead = panel._replace(y=Axis("ahead", "percent"), series=[Series("portfolio", along, ours / theirs - 1.0)])
    report.draw(f"{name}-ahead", "How far the portfolio is ahead of the index", "line", ahead)


def _add_scatter(report: Report, name: str, row_names: Sequence[str], portfolio: Any, index: Any) -> None:
    count = len(portfolio)
    if count > MOST_POINTS:
        row_names, portfolio, index = row_names[-MOST_POINTS:], portfolio[-MOST_POINTS:], index[-MOST_POINTS:]
    note = f"The last {MOST_POINTS:,} of {count:,} rows." if count > MOST_POINTS else ""
    axes = Axis("index", "percent"), Axis("portfolio", "percent")
    series = [Series("rows", index, portfolio, row_names)]
    report.chart(name, "Returns of the portfolio against those of the index", "scatter", *axes, series, note=note)


def _add_backtest(report: Report, backtest: Backtest, periods: float | None) -> None:
    """Add the results of a backtest."""
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
        f"weights drift; costs of {percent(costs)} of the value are paid.{cut}"
    )
    starts = backtest.rebalances if labels is not None else backtest.rebalances - backtest.rebalances[0] + 1
    marks = [plain(start) for start in starts] if axis.kind == "date" else []
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
        kinds = {
            "from": "day",
            "names": "whole",
            "turnover": "percent",
            "cost": "percent",
            "error of the fit": "percent",
        }
        rows = [
            [str(plain(start)), *(float(value) for value in values)]
            for start, *values in zip(backtest.rebalances, *(np.asarray(part) for part in parts), strict=True)
        ]
        report.table("rebalances", "Rebalances", [Column(*pair) for pair in kinds.items()], rows)


def _figure_format(name: str) -> str:
    """Return the format of a statistic of a backtest."""
    if name in ("rows", "rebalances"):
        return "whole"
    return "number" if name in ("correlation", "names_held") else "percent"


def components_report(
    pca: SparsePCA,
    X: Any = None,
    *,
    names: Sequence[str] | None = None,
    rows: Sequence[str] | None = None,
    title: str = "Sparse principal components",
    command: str = "",
    settings: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> Report:
    """Report fitted components.

    Parameters
    ----------
    pca : SparsePCA
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
        What to tell about the data.
    """
    loadings = loadings_table(pca, names)
    shares = np.asarray(pca.explained_variance_ratio_, dtype=np.float64)
    count = len(shares)
    report = Report(title, command, settings if settings is not None else pca.get_params())
    ordinary = _ordinary_shares(X, pca.scale_, count)
    kind = "dense and signed" if pca.nonnegative else "dense"
    against = "" if ordinary is None else f"ordinary components, {kind}: {as_text(ordinary.sum(), 'percent')}"
    report.headline("variance explained", as_text(float(shares.sum()), "percent"), against)
    report.headline("components", str(count))
    used = len({row[1] for row in loadings.rows})
    report.headline("features used", f"{used:,}", f"of {pca.n_features_in_:,}")
    certified = sum(bool(result.success) for result in pca.results_)
    report.headline("certified", f"{certified} of {count}", "components")
    _add_notes(report, notes)
    report.heading("Variance explained")
    series = [Series("this component", shares)]
    if ordinary is not None:
        series.append(Series("ordinary component", ordinary, style="muted"))
    names_of = [f"component {k}" for k in range(1, count + 1)]
    panel = Panel("", Axis("share of the variance", "percent"), Axis(""), series, names_of)
    note = "Adjusted: what the components before explain is not counted again."
    report.draw("variance", "Share of the variance that each component adds", "bar", panel, note)
    report.heading("Loadings")
    if count > MOST_COMPONENTS:
        report.paragraphs(f"The first {MOST_COMPONENTS} of {count} components are drawn; the table has all.")
    for k in range(1, min(count, MOST_COMPONENTS) + 1):
        own = [row for row in loadings.rows if row[0] == k][:MOST_BARS]
        panel = bars_panel("loading", Axis("loading"), [row[1] for row in own], [row[2] for row in own])
        report.draw(f"component-{k}", f"Component {k}", "bar", panel)
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
    kinds = {
        "component": "whole",
        "share": "percent",
        "non-zeros": "whole",
        "variance": "number",
        "upper bound": "number",
        "ended as": "text",
        "gap": "number",
    }
    parts = shares, pca.components_, pca.score_variance_, pca.upper_bound_, pca.results_
    ends = [
        [k, share, int(np.count_nonzero(row)), float(own), float(bound), spelled(result.status), 2.0 * result.cws_gap]
        for k, (share, row, own, bound, result) in enumerate(zip(*parts, strict=True), 1)
    ]
    note = (
        "The variance is that of the score by itself; no component of as many loadings has more than the upper bound."
    )
    report.table("components", "Components", [Column(*pair) for pair in kinds.items()], ends, note)
    if count > 1:
        columns = [Column("component", "whole"), *(Column(f"with {k}", "number") for k in range(1, count + 1))]
        rows_of = [[k, *(float(value) for value in row)] for k, row in enumerate(pca.score_correlation_, 1)]
        report.subheading("Correlations of the scores")
        report.table("correlations", "Correlations of the scores", columns, rows_of[:MOST_COMPONENTS])
    return report


def _cut(rows: Sequence[Any]) -> str:
    return f"The first {MOST_ROWS:,} of {len(rows):,} rows." if len(rows) > MOST_ROWS else ""


def _ordinary_shares(X: Any, scale: Any, count: int) -> npt.NDArray[np.float64] | None:
    """Return the variance shares of ordinary principal components of X/scale, or None for large tables."""
    if X is None or hasattr(X, "tocsr") or math.prod(np.shape(X)) > MOST_ENTRIES:
        return None
    values = np.asarray(X, dtype=np.float64) / scale
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
        What to tell about the data.
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
    _add_notes(report, notes)
    report.heading("Balance")
    order = sorted(balance.rows, key=lambda row: -abs(row[-1]))[:MOST_BARS]
    names = [row[0] for row in order]
    panel = balance_panel(names, [row[-2] for row in order], [row[-1] for row in order])
    note = f"The {len(names)} largest of {len(balance.rows)}." if len(names) < len(balance.rows) else ""
    report.draw("balance-dots", "Differences between groups", "dot", panel, note)
    # The difference comes first, to be visible on a phone without scrolling.
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

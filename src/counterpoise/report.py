"""Reports on results of estimators: self-contained HTML files, which also say how to reproduce the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from counterpoise.figures.describe import Axis, Panel, Series, balance_panel, bars_panel
from counterpoise.figures.page import Cell, Column, Report
from counterpoise.findings import (
    ROUNDING,
    balance_table,
    component_claims,
    ending,
    holdings_table,
    loadings_table,
    proved,
    split_claims,
    tracking_claims,
)
from counterpoise.report_tracking import MOST_BARS, MOST_POINTS, tracking_report
from counterpoise.sentences import as_seconds, as_text, rounded_up, spelled

if TYPE_CHECKING:
    from counterpoise.estimators.pca import SparsePCA
    from counterpoise.estimators.split import Split
    from counterpoise.problem import Result

__all__ = ["Axis", "Cell", "Column", "Panel", "Report", "Series", "as_text", "balance_table", "component_claims"]
__all__ += ["components_report", "ending", "holdings_table", "loadings_table", "rounded_up", "run_report"]
__all__ += ["split_claims", "split_report", "tracking_claims", "tracking_report"]

# Maximum number of rows and of components on a page.
MOST_ROWS, MOST_COMPONENTS = 1000, 12
# Ordinary components are not computed for tables with more entries.
MOST_ENTRIES = 20_000_000


def components_report(
    pca: SparsePCA,
    X: Any = None,
    *,
    names: Sequence[str] | None = None,
    rows: Sequence[str] | None = None,
    title: str = "Sparse principal components",
    **page: Any,
) -> Report:
    """Report fitted components.

    Parameters
    ----------
    pca : SparsePCA
        Fitted.
    X : array or DataFrame, optional
        The data, to show scores and a comparison with ordinary components.
    names : sequence of str, optional
        Names of the features; by default those of the fit.
    rows : sequence of str, optional
        Names of the rows of X.
    title, **page
        Passed to :class:`Report`.
    """
    loadings = loadings_table(pca, names)
    shares = np.asarray(pca.explained_variance_ratio_, dtype=np.float64)
    count = len(shares)
    report = Report(title, **{"settings": pca.get_params(), **page})
    ordinary = _ordinary_shares(X, pca.scale_, count)
    kind = "dense and signed" if pca.nonnegative else "dense"
    against = "" if ordinary is None else f"ordinary components, {kind}: {as_text(ordinary.sum(), 'percent')}"
    report.headline("certificate", *_proved_of_components(pca.results_))
    report.headline("variance explained", as_text(float(shares.sum()), "percent"), against)
    report.headline("components", str(count))
    used = len({row[1] for row in loadings.rows})
    report.headline("features used", f"{used:,}", f"of {pca.n_features_in_:,}")
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
    sizes, letters = [row[2] for row in loadings.rows], max(len(row[1]) for row in loadings.rows)
    axis = Axis("loading", reach=(min(0.0, *sizes), max(0.0, *sizes)))
    for k in range(1, min(count, MOST_COMPONENTS) + 1):
        own = [row for row in loadings.rows if row[0] == k][:MOST_BARS]
        panel = bars_panel(axis, [row[1] for row in own], loading=[row[2] for row in own])._replace(letters=letters)
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
    heads = ("component", "share", "non-zeros", "variance", "upper bound", "ended as", "gap")
    columns = list(map(Column, heads, ("whole", "percent", "whole", "number", "number", "text", "number")))
    parts = shares, pca.components_, pca.score_variance_, pca.upper_bound_, pca.results_
    ends = [
        [k, share, int(np.count_nonzero(row)), float(own), float(bound), _ended(result), _gap(result)]
        for k, (share, row, own, bound, result) in enumerate(zip(*parts, strict=True), 1)
    ]
    note = "The variance is that of the score alone; no component with as many loadings exceeds the upper bound."
    report.table("components", "Components", columns, ends, note)
    if count > 1:
        columns = [Column("component", "whole"), *(Column(f"with {k}", "number") for k in range(1, count + 1))]
        rows_of = [[k, *(float(value) for value in row)] for k, row in enumerate(pca.score_correlation_, 1)]
        report.subheading("Correlations of the scores")
        report.table("correlations", "Correlations of the scores", columns, rows_of[:MOST_COMPONENTS])
    return report


def _proved_of_components(results: Sequence[Result]) -> tuple[str, str]:
    """Return what is proved of components, and a note on what is not."""
    if len(results) == 1:
        value = proved(results[0], "change of two loadings", "component")
    else:
        certified = sum(bool(result.success) for result in results)
        of = "any component" if certified == len(results) else f"{certified} of {len(results)} components"
        value = f"no change of two loadings improves {of}" if certified else "none"
    if value.startswith("optimal"):
        return value, ""
    return value, "other loadings may be better" if value != "none" else spelled(results[0].status)


def _ended(result: Result) -> str:
    """Return how a component ended, in words that say what was tried."""
    words = {"CERTIFIED": "no pair of loadings improves it", "SWAP_OPTIMAL": "no exchange of loadings improves it"}
    return words.get(result.status.name, spelled(result.status))


def _gap(result: Result) -> float:
    """Return how much a change of two loadings can raise the variance, twice the gap; 0 if it is rounding error."""
    gap = float(result.cws_gap)
    return 0.0 if gap <= ROUNDING * abs(float(result.objective)) else 2.0 * gap


def run_report(
    result: Result, *, names: Sequence[Any] | None = None, title: str = "A minimisation", **page: Any
) -> Report:
    """Report a run of :func:`counterpoise.minimize`.

    Parameters
    ----------
    result : Result
    names : sequence, optional
        Names of the coordinates; by default their positions.
    title, **page
        Passed to :class:`Report`.
    """
    x = np.asarray(result.x, dtype=np.float64)
    labels = [str(name) for name in (range(len(x)) if names is None else names)]
    if len(labels) != len(x):
        raise ValueError(f"names has {len(labels)} names, but x has {len(x)} coordinates.")
    gap = float(result.cws_gap)
    report = Report(title, **page)
    said = "" if math.isnan(gap) else f"gap {rounded_up(gap)}, tolerance {result.tolerance:.1e}"
    if gap <= result.tolerance:
        said = f"no gap above the tolerance, {result.tolerance:.1e}"
    if result.status.name != "OPTIMAL":
        other = "another point may be better" if result.success else spelled(result.status)
        said = "; ".join(filter(None, [other, said]))
    report.headline("certificate", proved(result, "change of two coordinates", "feasible point"), said)
    report.headline("objective", as_text(float(result.objective), "long"))
    report.headline("non-zeros", f"{np.count_nonzero(x):,}", f"of {len(x):,} coordinates")
    report.headline("time", as_seconds(float(result.time)), f"{result.nit:,} iterations")
    report.heading("The run")
    report.paragraphs(ending(result))
    history = np.asarray(result.history, dtype=np.float64)
    if len(history) > 1:
        line = Series("objective", history[:, 1], np.minimum.accumulate(history[:, 2]), style="steps")
        axis = Axis("objective", "log" if history[:, 2].min() > 0.0 else "number")
        report.chart("history", "Best objective so far", "line", Axis("seconds"), axis, [line])
    report.heading("The point")
    order = [int(k) for k in np.argsort(-np.abs(x), kind="stable") if x[k] != 0.0]
    drawn = order[:MOST_BARS]
    if drawn:
        panel = bars_panel(Axis("x"), [labels[k] for k in drawn], x=[float(x[k]) for k in drawn])
        note = "" if len(drawn) == len(order) else f"The {len(drawn)} largest of {len(order)}."
        report.draw("point", "Coordinates that are not 0", "bar", panel, note)
    rows = [[labels[k], float(x[k])] for k in order]
    report.table("coordinates", "Coordinates", [Column("name"), Column("x", "number")], rows[:MOST_ROWS], _cut(rows))
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


def _stratum_counts(split: Split) -> tuple[list[Column], list[list[Any]]]:
    """Return the number of units by stratum and group, with totals."""
    counted = [Column(head, "whole") for head in (*(f"group {name}" for name in split.groups), "units")]
    rows, strata = [], np.asarray(split.strata)
    for stratum in np.unique(strata):
        counts = np.bincount(split.codes[strata == stratum], minlength=len(split.groups)).tolist()
        rows.append([str(stratum), *counts, sum(counts)])
    return [Column("stratum"), *counted], rows


def split_report(split: Split, *, title: str = "Balanced split", **page: Any) -> Report:
    """Report a split; ``title`` and ``page`` are passed to :class:`Report`."""
    balance = balance_table(split)
    at_random = split._random_difference
    report = Report(title, **page)
    sizes = " + ".join(str(size) for size in split.group_sizes)
    usual = f"standardised; {split.at_random[1]:.2g} at random"
    report.headline("largest difference", f"{split.max_difference:.2g}", usual)
    report.headline("groups", sizes, f"{sum(split.group_sizes)} units")
    report.headline("covariates", str(len(balance.rows)), "numbers, and levels of categories")
    compared = f"{len(split.reference):,} splits to compare with" if len(split.draws) > 1 else ""
    report.headline("draws", f"{len(split.draws):,}", compared)
    report.heading("Balance")
    order = sorted(balance.rows, key=lambda row: -abs(row[-1]))[:MOST_BARS]
    names = [row[0] for row in order]
    panel = balance_panel(names, at_random, [row[-1] for row in order])
    note = f"The {len(names)} largest of {len(balance.rows)}. " if len(names) < len(balance.rows) else ""
    note += f"The dashed line is a random split's root mean square, {at_random:.2g}."
    report.draw("balance-dots", "Differences between groups", "dot", panel, note)
    # Put the difference first, so that it is visible on a phone without scrolling.
    columns = [balance.columns[0], *balance.columns[:-3:-1], *balance.columns[1:-2]]
    rows = [[row[0], *row[:-3:-1], *row[1:-2]] for row in balance.rows]
    note = "Means are in each covariate's own unit; a difference is of two means over the deviation of all units."
    report.table("balance", "Balance", columns, rows, note)
    if split.strata is not None:
        report.subheading("Strata")
        report.table("strata", "Units by stratum and group", *_stratum_counts(split))
    if len(split.draws) > 1:
        values = np.sort(np.asarray(split.draw_objectives, dtype=np.float64))
        places = list(range(1, len(values) + 1))
        axes = Axis("draw, the best first"), Axis("Σ w·difference²")
        report.chart("draws", "How good the draws are", "line", *axes, [Series("draws", places, values)])
    report.heading("What is known")
    report.paragraphs(*split_claims(split))
    return report

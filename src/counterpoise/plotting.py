"""Plots of results with matplotlib; each function builds a description of a picture and draws it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import counterpoise as cp
from counterpoise.checks import Vector, real_array, whole_number
from counterpoise.figures import describe, drawing
from counterpoise.figures.components import plot_biplot, plot_variance
from counterpoise.figures.describe import FLOOR, MARKERS, SPARE, STYLES, Axis, Image, Panel, Series, Style, styles_of
from counterpoise.figures.drawing import add_legend, axes_or_new, draw, has_matplotlib, require_matplotlib
from counterpoise.figures.pairs import labels_of, plot_gap, plot_pair
from counterpoise.sentences import spelled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from counterpoise.problem import Result

__all__ = ["FLOOR", "FORMATS", "MARKERS", "SPARE", "STYLES", "Style", "has_matplotlib", "plot_balance", "plot_biplot"]
__all__ += ["plot_gap", "plot_loadings", "plot_objective", "plot_pair", "plot_path", "plot_tracking", "plot_variance"]
__all__ += ["plot_weights", "require_matplotlib", "save_objective", "styles_of"]

FORMATS = (".png", ".svg", ".pdf")
# Space for the legend above the curve of differences, as a share of its range.
LEGEND_ROOM = 0.4


def plot_objective(
    results: Mapping[str, Result | Sequence[Result]],
    best: float | None = None,
    x: Literal["time", "iteration"] = "time",
    ax: Axes | None = None,
) -> Axes:
    """Plot the best objective so far minus the best known one, on logarithmic scales.

    Parameters
    ----------
    results : mapping of names to results
        One line per name, with the same colour and dashes in every plot. For a list of results, from several starts,
        the line is their median, and a band extends from the smallest to the largest; a run that has ended keeps its
        last value.
    best : float, optional
        The best objective known from elsewhere. The smallest objective of all results is used if it is smaller, or if
        this is not given.
    x : {"time", "iteration"}
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.
    """
    if x not in ("time", "iteration"):
        raise ValueError(f'x is {x!r}; it must be "time" or "iteration".')
    if not results:
        raise ValueError("results is empty; there is nothing to plot.")
    started = {name: [entry] if isinstance(entry, cp.Result) else list(entry) for name, entry in results.items()}
    if empty := [name for name, runs in started.items() if not runs]:
        raise ValueError(f"results[{empty[0]!r}] is empty; give at least one result.")
    ax = axes_or_new(ax)
    curves = {name: [_curve(run, 1 if x == "time" else 0) for run in runs] for name, runs in started.items()}
    known, shift = describe.heights([values for several in curves.values() for _, values in several], best)
    styles, series, statuses = styles_of(results), [], []
    for name, several in curves.items():
        above, style = [(along, values - shift) for along, values in several], styles[name]
        if len(above) == 1:
            series.append(Series(name, *above[0], style="steps", look=style))
        else:
            along = np.unique(np.concatenate([each for each, _ in above]))
            low, middle, high = describe.median_band(above, along)
            many = f"{name}, median of {len(above)}"
            series.append(Series(many, along, middle, style="steps", low=low, high=high, look=style))
        for (along, values), run in zip(above, started[name], strict=True):
            mark = Style(style.colour, "", 1.6 if len(above) == 1 else 1.2, marker=MARKERS[run.status.name])
            series.append(Series("", along[-1:], values[-1:], look=mark))
            statuses.append(run.status.name)
    along_x = Axis("time (s)" if x == "time" else "iterations", "log")
    draw(ax, "line", Panel("", along_x, Axis(f"best objective so far − best known ({known:.6g})", "log"), series))
    ax.axhline(known - shift, color="0.5", lw=0.9, ls=(0, (1, 2)), zorder=1, label="best known (log axes have no 0)")
    add_legend(ax, "right", {spelled(name): Style("0.3", "", marker=MARKERS[name]) for name in dict.fromkeys(statuses)})
    return ax


def save_objective(results: Mapping[str, Result], path: str | os.PathLike[str], title: str = "") -> None:
    """Write :func:`plot_objective` against time to a ``.png``, ``.svg`` or ``.pdf`` file."""
    figure = drawing.new_figure(7.6, 4.4)
    plot_objective(results, ax=figure.subplots()).set_title(title)
    drawing.save_figure(figure, Path(path), dpi=160)


def _curve(result: Result, column: int) -> tuple[Vector, Vector]:
    """Return times or iterations, with the first one moved away from 0, and the best objective so far."""
    along, values = result.history[:, column], np.minimum.accumulate(result.history[:, 2])
    positive = along[along > 0.0]
    return np.maximum(along, 0.5 * float(positive.min()) if len(positive) else 1.0), values


def plot_balance(split: Any, ax: Axes | None = None) -> Axes:
    """Plot the balance of a split as a Love plot: |standardised mean difference| of every covariate.

    Parameters
    ----------
    split : Split or DataFrame
        A split, or its ``balance``: one row per covariate, with columns ``random`` and ``difference``.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.
    """
    table = dataclasses.replace(split, native=None).balance if hasattr(split, "balance") else split
    absent = [name for name in ("random", "difference") if name not in table]
    if absent:
        raise ValueError(f"split has no column {absent[0]!r}; give a split, or its balance.")
    if not len(table):
        raise ValueError("split is empty; there is nothing to plot.")
    ax = axes_or_new(ax, 6.4, min(1.4 + 0.24 * len(table), 40.0))
    names = [str(name) for name in table.index]
    panel = describe.balance_panel(names, float(table["random"].max()), table["difference"].to_numpy())
    draw(ax, "dot", panel, legend="above", marks="random, root mean square")
    ax.axvline(0.0, color="0.5", lw=0.8, zorder=0)
    return ax


def plot_tracking(
    portfolio: Any, index: Any, *, out_of_sample: Any = None, rebalances: Any = None, ax: Axes | None = None
) -> Axes:
    """Plot the growth of a portfolio and of its index, and below it the difference between their returns.

    Parameters
    ----------
    portfolio, index : Series or array of rows
        Simple returns as fractions, on the same rows.
    out_of_sample : label or int, optional
        The first row after those of the fit, as a label of the Series or a row number; rows before it are shaded.
    rebalances : sequence of labels or ints, optional
        Rows to mark.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure. Its lower third becomes the panel of differences, which is
        the last of ``ax.figure.axes``; the upper part is returned.
    """
    along, rows = _rows_of(portfolio)
    difference = np.asarray(portfolio, dtype=np.float64) - np.asarray(index, dtype=np.float64)
    if not len(difference):
        raise ValueError("portfolio is empty; there is nothing to plot.")
    ax = axes_or_new(ax, 7.6, 5.0)
    below = drawing.panel_below(ax)
    marks = [along[rows(row)] for row in (() if rebalances is None else rebalances)]
    error = float(np.sqrt(np.mean(difference**2)))
    ends = np.full(len(along), error)
    lower = [
        Series(f"± {error:.2g}, root mean square", along, low=-ends, high=ends),
        Series("", along, difference, look=Style(describe.BLUE, "-", 0.8)),
    ]
    x = Axis("" if np.asarray(along).dtype.kind == "M" else "row")
    draw(ax, "line", describe.growth_panel(along, Axis(""), portfolio, index, marks))
    draw(below, "line", Panel("", x, Axis("portfolio − index"), lower, marks=marks))
    if out_of_sample is not None and (first := rows(out_of_sample)) > 0:
        for panel, label in ((ax, "in sample"), (below, None)):
            panel.axvspan(along[0], along[first], color=SPARE[0].colour, alpha=0.15, lw=0, zorder=0, label=label)
    ax.tick_params(labelbottom=False)
    add_legend(ax, "inside")
    low, high = below.get_ylim()
    below.set_ylim(low, high + LEGEND_ROOM * (high - low))
    add_legend(below, "inside", fontsize="small")
    return ax


def _rows_of(portfolio: Any) -> tuple[Any, Any]:
    """Return x values (dates or row numbers) and a function that maps a row's label to its number."""
    labels = getattr(portfolio, "index", None)
    if labels is None or callable(labels):
        return np.arange(len(portfolio)), int
    along = labels.tz_localize(None).to_numpy() if getattr(labels, "tz", None) is not None else labels.to_numpy()
    along = along if along.dtype.kind in "Miuf" else np.arange(len(labels))
    return along, lambda row: min(int(labels.searchsorted(row)), len(labels) - 1)


def plot_path(n_assets: Iterable[int], tracking_errors: Iterable[float], ax: Axes | None = None) -> Axes:
    """Plot the tracking error of portfolios against their number of names.

    Parameters
    ----------
    n_assets : numbers of names
        In any order.
    tracking_errors : one per number, in the unit of the returns
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.
    """
    up = Axis("tracking error (root mean square, per day)")
    return drawing.draw_path(ax, "n_assets", n_assets, tracking_errors, "names, at most", up)


def plot_weights(weights: Any, ax: Axes | None = None, most: int = 30) -> Axes:
    """Plot non-zero weights as horizontal bars, the largest first; negative ones are hatched.

    Parameters
    ----------
    weights : Series, array or fitted estimator
        One weight per name, or an estimator with ``weights_`` or ``coef_``; without names, positions are shown.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.
    most : int
        Maximum number of bars. The sum of the other weights is shown below.
    """
    names = getattr(weights, "feature_names_in_", None)
    weights = _part_of(weights, "coef_", "weights_")
    values, most = real_array(weights, "weights"), whole_number(most, "most", 1)
    if values.ndim != 1:
        raise ValueError(f"weights has shape {values.shape}; it must be one-dimensional, one weight per name.")
    if not len(values):
        raise ValueError("weights is empty; there is nothing to plot.")
    order, names = _largest_first(values), labels_of(weights, len(values)) if names is None else list(map(str, names))
    drawn, others = order[:most], order[most:]
    ax = axes_or_new(ax, 6.4, 1.4 + 0.24 * max(len(drawn), 3))
    rest = f"; {len(others)} others sum to {values[others].sum():.3g}" if len(others) else ""
    _draw_largest(ax, f"weight{rest}", [names[k] for k in drawn], values[drawn], "all weights are 0")
    return ax


def plot_loadings(
    components: Any,
    shape: tuple[int, int] | None = None,
    names: Any = None,
    most: int = 10,
    titles: Sequence[str] | None = None,
    axes: Any = None,
) -> list[Axes]:
    """Plot each component as an image, or as horizontal bars of its largest loadings, all on the same scale.

    Negative loadings are marked by a minus sign in images, and by hatching in bars.

    Parameters
    ----------
    components : fitted estimator, array or DataFrame, components × features
        An estimator, or its ``components_``; a single vector is one component.
    shape : (rows, columns), optional
        The shape of an image; if given, draw images, not bars.
    names : of the features, optional
        Names of bars. By default those of the estimator or of a DataFrame's columns, otherwise positions.
    most : int
        Maximum number of bars per component.
    titles : one per component, optional
        "component 0" and so on by default.
    axes : Axes, several, optional
        At least one per component. By default those of a new figure, where images also get a colour bar.

    Returns
    -------
    list of Axes
        One per component.
    """
    if shape is None and names is None:
        names = getattr(components, "feature_names_in_", None)
    components = _part_of(components, "components_")
    table, most = np.atleast_2d(real_array(components, "components")), whole_number(most, "most", 1)
    if table.ndim != 2 or not table.size:
        raise ValueError(f"components has shape {table.shape}; it must be components × features.")
    count, n = table.shape
    if shape is not None and names is not None:
        raise ValueError("shape and names are both given; give shape for images, or names for bars.")
    if shape is not None and (len(shape) != 2 or shape[0] * shape[1] != n):
        raise ValueError(f"shape is {tuple(shape)}, but a component has {n} loadings; give rows and columns of these.")
    labels = [str(name) for name in (getattr(components, "columns", range(n)) if names is None else names)]
    if len(labels) != n:
        raise ValueError(f"names has {len(labels)} names, but a component has {n} loadings.")
    words = [f"component {k}" for k in range(count)] if titles is None else [*titles]
    if len(words) != count:
        raise ValueError(f"titles has {len(words)} titles, but there are {count} components.")
    require_matplotlib()
    places = _places(count, most, shape) if axes is None else [*np.ravel(axes)]
    if len(places) < count:
        raise ValueError(f"axes has {len(places)} Axes, but there are {count} components.")
    places = places[:count]
    low, high = float(table.min()), float(table.max())
    if shape is not None:
        reach, signed = max(-low, high) or 1.0, low < 0.0
        blocks = [Image(word, row.reshape(shape), reach, signed) for word, row in zip(words, table, strict=True)]
        drawing.draw_images(places, blocks, "loading" if axes is None else "")
        return places
    for ax, word, row in zip(places, words, table, strict=True):
        order = _largest_first(row)[:most]
        ax.set_title(word, loc="left", fontsize="medium")
        _draw_largest(ax, "loading", [labels[k] for k in order], row[order], "all loadings are 0")
        if len(order):
            ax.set_xlim(1.05 * min(low, 0.0), 1.05 * max(high, 0.0))
    return places


def _part_of(given: Any, *names: str) -> Any:
    """Return an attribute of a fitted estimator, or of a search's best estimator; anything else unchanged."""
    if not hasattr(given, "get_params"):
        return given
    fitted = getattr(given, "best_estimator_", given)
    found = next((getattr(fitted, name) for name in names if hasattr(fitted, name)), None)
    if found is None:
        raise ValueError(f"{type(given).__name__} has no {' or '.join(names)}; fit it first.")
    return found


def _places(count: int, most: int, shape: tuple[int, int] | None) -> list[Axes]:
    """Return the Axes of a new figure, arranged with about as many rows as columns."""
    from matplotlib import pyplot

    columns = min(count, 4, max(1, int(np.ceil(np.sqrt(count)))))
    rows = -(-count // columns)
    size = (2.0 * columns + 0.8, 2.2 * rows) if shape is not None else (2.9 * columns, (0.9 + 0.2 * most) * rows)
    grid = pyplot.subplots(rows, columns, squeeze=False, figsize=size, layout="constrained")[1]
    for ax in grid.flat[count:]:
        ax.set_axis_off()
    return [*grid.flat[:count]]


def _largest_first(values: Vector) -> Any:
    """Return the positions of non-zeros, largest first."""
    order = np.argsort(-np.abs(values), kind="stable")
    return order[values[order] != 0.0]


def _draw_largest(ax: Axes, label: str, names: list[str], values: Vector, empty: str) -> None:
    if len(values):
        draw(ax, "bar", describe.bars_panel(Axis(label), names, value=values))
    else:
        drawing.leave_empty(ax, empty)

"""Plots of sparse components: variance against loadings, and biplots of rows and loadings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoise.checks import Vector, whole_number
from counterpoise.figures.describe import BLUE, ORANGE, Axis, Panel, Series, Style
from counterpoise.figures.drawing import add_legend, axes_or_new, draw, draw_path
from counterpoise.sentences import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The longest arrow reaches this share of the way to the farthest row.
REACH = 0.95
# Minimum distance between two names along an axis, as a share of its length.
APART = 0.055
# Distance of names from an axis that their arrows lie on, as a share of the way to the edge; a line joins the two.
BESIDE = 0.07
# Markers of groups of rows.
MARKERS = (".", "x", "^", "s", "D", "v", "P", "*")


def plot_variance(
    n_nonzero: Iterable[int], shares: Iterable[float], elbow: int | None = None, ax: Axes | None = None
) -> Axes:
    """Plot the share of variance that sparse components explain against their number of loadings.

    Parameters
    ----------
    n_nonzero : numbers of loadings of a component
        In any order.
    shares : of the variance, between 0 and 1
    elbow : int, optional
        A number of loadings to mark.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.
    """
    up = Axis("variance explained", "percent")
    return draw_path(ax, "n_nonzero", n_nonzero, shares, "loadings of a component, at most", up, elbow)


def plot_biplot(
    pca: Any,
    X: Any,
    components: tuple[int, int] = (0, 1),
    names: Any = None,
    groups: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a biplot: rows by their scores on two components, and loadings on both as arrows.

    An arrow points to a feature's loadings on the two components; all arrows are scaled alike, so that the longest
    reaches nearly as far as the rows. Negative loadings point down or to the left and are dashed. Features with no
    loading on either component have no arrow.

    Parameters
    ----------
    pca : SparsePCA
        Fitted.
    X : array, DataFrame or sparse matrix
        Rows to draw.
    components : (int, int)
        The components on the horizontal and the vertical axis.
    names : of the features, optional
        By default those of the fit, otherwise positions.
    groups : one label per row, optional
        Each group of rows gets its own colour and marker.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.
    """
    count = len(pca.components_)
    across, up = (whole_number(k, f"components[{place}]", 0) for place, k in enumerate(components))
    if max(across, up) >= count or across == up:
        raise ValueError(f"components is {tuple(components)}; give two different ones of 0 to {count - 1}.")
    known = getattr(pca, "feature_names_in_", range(pca.n_features_in_)) if names is None else names
    labels = [str(name) for name in known]
    if len(labels) != pca.n_features_in_:
        raise ValueError(f"names has {len(labels)} names, but there are {pca.n_features_in_} features.")
    scores = np.asarray(pca.transform(X), dtype=np.float64)[:, [across, up]]
    loadings = np.asarray(pca.components_, dtype=np.float64)[[across, up]].T
    if groups is not None and len(groups) != len(scores):
        raise ValueError(f"groups has {len(groups)} labels, but X has {len(scores)} rows.")
    ax = axes_or_new(ax, 6.4, 5.4)
    shares = [percent(float(pca.explained_variance_ratio_[k]), 0) for k in (across, up)]
    x, y = (Axis(f"component {k} ({share} of the variance)") for k, share in zip((across, up), shares, strict=True))
    series = _rows(scores, groups)
    far = np.abs(scores).max(axis=0)
    draw(ax, "line", Panel("", x, y, series))
    _draw_arrows(ax, loadings, labels, far)
    if groups is not None:
        add_legend(ax, "right")
    return ax


def _rows(scores: Vector, groups: Any) -> list[Series]:
    """Return one series per group of rows, or a single one without groups."""
    if groups is None:
        return [Series("", scores[:, 0], scores[:, 1], look=Style("0.65", "", 1.0, marker=".", filled=True))]
    found = [str(group) for group in groups]
    colours = (BLUE, ORANGE, "0.35", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
    series = []
    for k, group in enumerate(dict.fromkeys(found)):
        own = np.array([each == group for each in found])
        look = Style(colours[k % len(colours)], "", 1.0, opacity=0.7, marker=MARKERS[k % len(MARKERS)], filled=True)
        series.append(Series(group, scores[own, 0], scores[own, 1], look=look))
    return series


def _draw_arrows(ax: Axes, loadings: Vector, labels: list[str], far: Vector) -> None:
    """Draw arrows with names at their ends; names along an axis are spread out, and joined to the arrow by a line."""
    held = np.flatnonzero(loadings.any(axis=1))
    longest = np.maximum(np.abs(loadings).max(axis=0), 1e-300)
    ends = loadings[held] * REACH * float(np.min(far / longest))
    reach = np.maximum(far, np.abs(ends).max(axis=0)) * 1.12
    ax.set_xlim(-reach[0], reach[0])
    ax.set_ylim(-reach[1], reach[1])
    for line in (ax.axhline, ax.axvline):
        line(0.0, color="0.8", lw=0.8, zorder=0)
    at = ends + np.where(ends[:, :1] >= 0.0, 1.0, -1.0) * [0.015 * reach[0], 0.0]
    for axis in (0, 1):
        alone = np.flatnonzero(ends[:, 1 - axis] == 0.0)
        at[alone, axis] = spread(ends[alone, axis], APART * 2.0 * reach[axis])
        at[alone, 1 - axis] = BESIDE * reach[1 - axis]
    for j, end, place in zip(held, ends, at, strict=True):
        dash = "--" if end[np.argmax(np.abs(end))] < 0.0 else "-"
        arrow = {"arrowstyle": "-|>", "color": "black", "lw": 1.0, "ls": dash, "shrinkA": 0.0, "shrinkB": 0.0}
        ax.annotate("", tuple(end), (0.0, 0.0), arrowprops=arrow)
        text: dict[str, Any] = {"rotation": 0.0, "ha": "left" if end[0] >= 0.0 else "right", "va": "center"}
        if end[1] == 0.0:  # names on the horizontal axis are rotated
            text = {"rotation": 90.0, "ha": "center", "va": "bottom"}
        text |= {"fontsize": "small", "bbox": {"facecolor": "white", "alpha": 0.7, "lw": 0.0, "pad": 0.5}}
        thin = {**arrow, "arrowstyle": "-", "color": "0.5", "lw": 0.6, "ls": "-"} if 0.0 in end else None
        ax.annotate(labels[j], tuple(end), xytext=tuple(place), arrowprops=thin, **text)


def spread(places: Vector, least: float) -> Vector:
    """Move places as little as possible, in least squares, so that they are at least ``least`` apart in the same order.

    Examples
    --------
    >>> spread(np.array([0.0, 0.1, 3.0]), 1.0).tolist()
    [-0.45, 0.55, 3.0]
    """
    from sklearn.isotonic import isotonic_regression  # slow to import

    order, steps = np.argsort(places, kind="stable"), least * np.arange(len(places))
    out = np.empty(len(places))
    out[order] = isotonic_regression(places[order] - steps) + steps if len(places) else out
    return out

"""Results of fitted estimators as tables, and as sentences that say what is proved and what is not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterpoise.figures.page import Column
from counterpoise.sentences import by_more_than, joined, rounded_up, spelled

if TYPE_CHECKING:
    from counterpoise.estimators.pca import SparsePCA
    from counterpoise.estimators.split import Split
    from counterpoise.estimators.tracking import IndexTracker
    from counterpoise.problem import Result


def ending(result: Result) -> str:
    """Say how a run ended and what it took."""
    took = f"{result.time:.2f} s and {result.nit:,} iterations"
    return f"The run ended as {spelled(result.status)} after {took}: {result.message}."


def tracking_claims(tracker: IndexTracker) -> list[str]:
    """Say what is proved about a fitted tracker's weights, and what is not."""
    gap, objective = float(tracker.cws_gap_), f"{tracker.result_.objective:.4g}"
    change = f"change of any two of the {int(tracker.n_features_in_)} weights, within the rules, lowers the objective"
    proved = f"Proved: no {change}"
    if math.isnan(gap):
        claim = "The run ended before its weights were examined, so that nothing is proved about them."
    elif gap <= 0.0:
        claim = f"{proved} at all."
    elif tracker.result_.success:
        claim = f"{proved} {by_more_than(gap)}, of {objective} in all."
    else:
        claim = (
            f"Not settled: a change of two weights would still lower the objective, {objective}, by up to "
            f"{rounded_up(gap)}; give it more time."
        )
    limits = "Not proved: that no other portfolio of as many names is better; the search looks for one and stops."
    return [claim, limits] if tracker.result_.success else [claim]


def component_claims(pca: SparsePCA) -> list[str]:
    """Say what is proved about fitted components."""
    certified = [k for k, result in enumerate(pca.results_, 1) if result.success]
    by_message: dict[str, list[int]] = {}
    for k, result in enumerate(pca.results_, 1):
        if not result.success:
            by_message.setdefault(result.message, []).append(k)
    sentences = []
    if certified:
        gap = max(max(0.0, float(pca.results_[k - 1].cws_gap)) for k in certified)
        which = "each component" if not by_message else f"component{'s' * (len(certified) > 1)} {joined(certified)}"
        joint = pca.backfit != 0 and pca.deflation == "schur"
        given = "given the others, " if joint else "given those before it, "
        given = "" if len(pca.results_) == 1 else given
        # The objective is minus half the variance.
        amount = by_more_than(2.0 * gap)
        sentences.append(f"Proved of {which}: {given}no change of any two loadings raises its variance {amount}.")
        sentences.append("Not proved: that no other loadings are better; the search looks for some and stops.")
    return sentences + [
        f"{'Each of components' if len(which_ones) > 1 else 'Component'} {joined(which_ones)}: {message}."
        for message, which_ones in by_message.items()
    ]


def split_claims(split: Split) -> list[str]:
    """Say what is known about a split, and what its draws can test."""
    largest, at_random = split.max_difference, split.at_random[1]
    ratio = at_random / largest if largest > 1e-12 else math.inf
    times = f"{ratio:,.0f}" if ratio >= 10.0 else f"{ratio:.2g}"
    better = "none at all" if math.isinf(ratio) else f"{times} times less than {at_random:.2g}, the median at random"
    if not split.is_better_than_random:
        better = f"NO BETTER THAN RANDOM, where the median is {at_random:.2g}"
    sentences = [
        f"The largest standardised difference between groups is {largest if largest > 1e-12 else 0.0:.2g}: {better}.",
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


# Tables.


class Listing(NamedTuple):
    """A table: columns, rows, and the position of the weight in a row of weights."""

    columns: list[Column]
    rows: list[list[Any]]
    at: int = 0


def holdings_table(tracker: IndexTracker, groups: Mapping[Any, Any] | None = None) -> Listing:
    """Return the holdings of a fitted tracker, with groups and previous weights if given; sold names come last."""
    known = getattr(tracker, "feature_names_in_", range(len(tracker.coef_)))
    names = list(getattr(tracker.weights_, "index", known))
    values = dict(zip(names, (float(value) for value in tracker.coef_), strict=True))
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
    return Listing(columns, rows, 1 if groups is None else 2)


def _group_name(group: Any) -> str:
    return "none" if group is None or group != group else str(group)


def _by_name(values: Any, names: Sequence[Any]) -> dict[Any, Any] | None:
    """Return a mapping, Series or array as a dictionary."""
    if values is None:
        return None
    if hasattr(values, "items"):
        return dict(values.items())
    return dict(zip(names, np.asarray(values).tolist(), strict=True))


def loadings_table(pca: SparsePCA, names: Sequence[str] | None = None) -> Listing:
    """Return rows of component, feature and loading, the largest by size first."""
    known = names if names is not None else getattr(pca, "feature_names_in_", None)
    features = [f"x{k}" for k in range(pca.n_features_in_)] if known is None else [str(name) for name in known]
    rows: list[list[Any]] = []
    for k, component in enumerate(np.asarray(pca.components_, dtype=np.float64), 1):
        order = np.argsort(-np.abs(component), kind="stable")[: np.count_nonzero(component)]
        rows += [[k, features[j], float(component[j])] for j in order]
    return Listing([Column("component", "whole"), Column("feature"), Column("loading", "number")], rows)


def balance_table(split: Split) -> Listing:
    """Return the balance of a split without pandas."""
    parts = split._parts
    means = [parts.values[split.codes == g].mean(axis=0) for g in range(len(split.group_sizes))]
    at_random = np.where(parts.scores.any(axis=0), split._random_difference, 0.0)
    columns = [Column("covariate"), *(Column(f"mean {name}", "number") for name in split.groups)]
    rows = [
        [name, *(float(mean[k]) for mean in means), float(at_random[k]), float(split.differences[k])]
        for k, name in enumerate(parts.names)
    ]
    return Listing([*columns, Column("random", "number"), Column("difference", "number")], rows)

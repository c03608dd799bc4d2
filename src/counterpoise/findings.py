"""Present results of fitted estimators as tables, and as sentences that say what is proved and what is not."""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterpoise.figures.page import Column
from counterpoise.sentences import by_more_than, day_label, joined, percent, rounded_up, some, spelled
from counterpoise.tables.native import is_missing

if TYPE_CHECKING:
    from counterpoise.backtest import Backtest
    from counterpoise.estimators.pca import SparsePCA
    from counterpoise.estimators.split import Split
    from counterpoise.estimators.tracking import IndexTracker
    from counterpoise.problem import Result


# A change of a variance by less than this share is rounding error.
ROUNDING = 64.0 * float(np.finfo(float).eps)
# A tracking error below this is rounding error of the returns.
NO_ERROR = 1e-14


class Rhythm(NamedTuple):
    """The period of a row, such as "day", and the number of rows per year, None if rows have no dates."""

    unit: str = "row"
    periods: float | None = None

    def yearly(self, error: float) -> float | None:
        """Return √periods × error, the annual error if rows are independent."""
        return None if self.periods is None else math.sqrt(self.periods) * error

    def in_words(self, error: float) -> str:
        """Describe an error per row and, if rows have dates, per year with the convention."""
        error = error if error > NO_ERROR else 0.0
        yearly = self.yearly(error)
        said = f"{percent(error)} a {self.unit}"
        return said if yearly is None else f"{said}, {percent(yearly, 2)} a year ({self.convention})"

    @property
    def convention(self) -> str:
        """How an error per row is annualised."""
        return f"times √{self.periods:g}, for {self.periods:g} {self.unit}s a year"


# The largest median gap between rows, in days, of each rhythm.
RHYTHMS = (
    (4.5, Rhythm("day", 252.0)),
    (10.5, Rhythm("week", 52.0)),
    (45.5, Rhythm("month", 12.0)),
    (130.5, Rhythm("quarter", 4.0)),
)


def rhythm_of(labels: Any) -> Rhythm:
    """Infer the rhythm of rows from the median gap between their dates."""
    if labels is None or getattr(labels, "dtype", None) is None or labels.dtype.kind != "M" or len(labels) < 3:
        return Rhythm()
    gap = float(np.median(np.diff(np.asarray(labels, dtype="datetime64[s]")).astype(np.float64))) / 86400.0
    return next((rhythm for most, rhythm in RHYTHMS if gap <= most), Rhythm())


def proved(result: Result, change: str, whole: str) -> str:
    """Say what a run proved, so that it is not read as more: certified is not optimal.

    ``change`` is what was tried, such as "trade between two names", ``whole`` what may be better, such as "portfolio".
    """
    if result.status.name == "OPTIMAL":
        return f"optimal: no other {whole} is better"
    if result.status.name == "SWAP_OPTIMAL":
        return f"no {change} improves it, nor does an exchange of one for another"
    return f"no {change} improves it" if result.success else "none"


def ending(result: Result) -> str:
    """Say how a run ended and what it took."""
    took = f"{result.time:.2f} s and {result.nit:,} iterations"
    return f"The run ended after {took}, with status {spelled(result.status)}: {result.message}."


def resolution(problem: Any, x: Any) -> float:
    """Return the rounding error of F(x): a smaller change cannot be measured. What x leaves out is 0."""
    whole = np.zeros(problem.n)
    whole[: len(x)] = x
    return float(problem.value_and_resolution(whole)[1])


def tracking_claims(tracker: IndexTracker) -> list[str]:
    """Say what is proved about a fitted tracker's weights, and what is not."""
    gap, objective = float(tracker.cws_gap_), f"{tracker.result_.objective:.4g}"
    change = f"change of any two of the {int(tracker.n_features_in_)} weights, within the rules, lowers the objective"
    status = tracker.result_.status.name
    if math.isnan(gap):
        return ["The run ended before its weights were examined, so nothing is proved about them."]
    if not tracker.result_.success:
        return [
            f"Not settled: a change of two weights would still lower the objective, {objective}, by up to "
            f"{rounded_up(gap)}; give it more time."
        ]
    least = by_more_than(gap, resolution(tracker.problem_, tracker.coef_))
    claims = [f"Proved: no {change}, {objective}, {least}."]
    if status == "OPTIMAL":
        return [*claims, "Proved: no other portfolio within the rules has a lower objective."]
    if status == "SWAP_OPTIMAL":
        claims.append("Proved: no exchange of a held name for another lowers it, with the best weights for the names.")
    return [*claims, "Not proved: that no other portfolio with as many names is better; the search is heuristic."]


def sales(backtest: Backtest) -> list[str]:
    """Say which holdings of a backtest were sold because their prices ended."""
    if not backtest.sold:
        return []
    which = some(f"{name} ({day_label(row)})" for row, name in backtest.sold)
    were = "holding was" if len(backtest.sold) == 1 else "holdings were"
    return [f"{len(backtest.sold)} {were} sold at the last price, because no more followed: {which}."]


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
        least = min(abs(float(pca.results_[k - 1].objective)) for k in certified)
        which = "each component" if not by_message else f"component{'s' * (len(certified) > 1)} {joined(certified)}"
        joint = pca.backfit != 0 and pca.deflation == "schur"
        given = "given the others, " if joint else "given those before it, "
        given = "" if len(pca.results_) == 1 else given
        # The objective is minus half the variance.
        amount = by_more_than(2.0 * gap, ROUNDING * least)
        sentences.append(f"Proved of {which}: {given}no change of any two loadings raises its variance {amount}.")
        if len(pca.results_) > 1 or pca.results_[0].status.name != "OPTIMAL":
            sentences.append("Not proved: that no other loadings are better; the search is heuristic.")
    return sentences + [
        f"Component{'s' * (len(these) > 1)} {joined(these)} {are} not certified: {message}."
        for message, these in by_message.items()
        for are in ["is" if len(these) == 1 else "are"]
    ]


def split_claims(split: Split) -> list[str]:
    """Say what is known about a split, and what its draws can test."""
    largest, at_random = split.max_difference, split.at_random[1]
    ratio = at_random / largest if largest > 1e-12 else math.inf
    times = f"{ratio:,.0f}" if ratio >= 10.0 else f"{ratio:.2g}"
    better = f"{times} times less than the median of random splits, {at_random:.2g}"
    if not split.is_better_than_random:
        better = f"NO BETTER THAN RANDOM, where the median is {at_random:.2g}"
    elif math.isinf(ratio):
        better = "none at all"
    sentences = [
        f"The largest standardised difference between groups is {largest if largest > 1e-12 else 0.0:.2g}: {better}.",
        "The search improves splits by exchanges of two units; it is not proved that no other split is better.",
    ]
    count = len(split.reference)
    if len(split.draws) > 1:
        sentences.append(
            f"The split was drawn at random from {count} near-optimal ones"
            f"{', the draws and their mirror images' if split.mirrored else ''}. A randomisation test over them is "
            f"exact, whatever the outcomes' distribution; its least two-sided p-value is {1 + split.mirrored}/{count}."
        )
    else:
        sentences.append(
            "There is only one draw, so no randomisation test is possible; for one, ask for 100 draws or more before "
            "the experiment."
        )
    return sentences


# Tables.


class Listing(NamedTuple):
    """A table: columns, rows, and the position of the weight in a row, if rows have weights."""

    columns: list[Column]
    rows: list[list[Any]]
    at: int = 0

    def series(self, rows: list[list[Any]]) -> dict[str, list[float]]:
        """Return the weights in these rows (held, index, previous), keyed by column head."""
        places = {column.head: k for k, column in enumerate(self.columns)}
        heads = [head for head in ("weight", "index", "before") if head in places]
        return {head: [row[places[head]] for row in rows] for head in heads}


def holdings_table(
    tracker: IndexTracker, groups: Mapping[Any, Any] | None = None, index_weights: Mapping[Any, float] | None = None
) -> Listing:
    """Return the holdings of a fitted tracker; sold names come last.

    Groups, index weights and previous weights get a column each, if known.
    """
    names = _names_of(tracker)
    values = dict(zip(names, (float(value) for value in tracker.coef_), strict=True))
    groups = groups if groups is not None else _by_name(tracker.groups, names)
    previous = _by_name(tracker.previous_weights, names)
    before = {name: float(value) for name, value in (previous or {}).items() if float(value) != 0.0}
    shown = sorted((name for name in values if values[name] != 0.0), key=lambda name: -values[name])
    gone = [name for name in before if not values.get(name)] if previous is not None else []
    columns = [Column("name"), *([] if groups is None else [Column("group")]), Column("weight", "percent")]
    columns += [] if index_weights is None else [Column("index", "percent")]
    columns += [] if previous is None else [Column("before", "percent"), Column("change", "percent")]
    rows = []
    for name in [*shown, *gone]:
        weight, was = values.get(name, 0.0), before.get(name, 0.0)
        row: list[Any] = [str(name)]
        row += [] if groups is None else [_group_name(groups.get(name))]
        row += [weight]
        row += [] if index_weights is None else [float(index_weights.get(name, 0.0))]
        row += [] if previous is None else [was, weight - was]
        rows.append(row)
    return Listing(columns, rows, 1 if groups is None else 2)


def group_rows(
    tracker: IndexTracker,
    holdings: Listing,
    groups: Mapping[Any, Any] | None = None,
    index_weights: Mapping[Any, float] | None = None,
) -> Listing:
    """Return the total weight of held names per group, with its limits; index weights include names not held.

    A single number is both limits of a group.
    """
    groups = groups if groups is not None else _by_name(tracker.groups, _names_of(tracker)) or {}
    given = _by_name(tracker.group_limits, ()) or {}
    limits = {_group_name(group): ends if np.ndim(ends) else (ends, ends) for group, ends in given.items()}
    of_index: collections.defaultdict[str, float] = collections.defaultdict(float)
    for name, weight in (index_weights or {}).items():
        of_index[_group_name(groups.get(name))] += float(weight)
    columns = [Column("group"), *holdings.columns[holdings.at :]]
    sums: dict[str, list[float]] = {group: [0.0] * (len(columns) - 1) for group in (*limits, *of_index)}
    for row in holdings.rows:
        so_far = sums.get(row[1], [0.0] * (len(columns) - 1))
        sums[row[1]] = [one + other for one, other in zip(so_far, row[holdings.at :], strict=True)]
    rows = []
    for group in sorted(sums, key=lambda name: -sums[name][0]):
        values = sums[group]
        if index_weights is not None:
            values = [values[0], of_index[group], *values[2:]]
        rows.append([group, *values, *limits.get(group, (None, None))])
    return Listing([*columns, Column("low", "percent"), Column("high", "percent")], rows, 1)


def _names_of(tracker: IndexTracker) -> list[Any]:
    """Return the names of a fitted tracker's weights, or their positions."""
    known = getattr(tracker, "feature_names_in_", range(len(tracker.coef_)))
    return list(getattr(tracker.weights_, "index", known))


def _group_name(group: Any) -> str:
    return "none" if is_missing(group) else str(group)


def _by_name(values: Any, names: Sequence[Any]) -> dict[Any, Any] | None:
    """Return a mapping, Series or array as a dictionary."""
    if values is None:
        return None
    if hasattr(values, "items"):
        return dict(values.items())
    return dict(zip(names, np.asarray(values).tolist(), strict=True))


def loadings_table(pca: SparsePCA, names: Sequence[str] | None = None) -> Listing:
    """Return rows of component, feature and loading, largest absolute value first."""
    known = names if names is not None else getattr(pca, "feature_names_in_", None)
    features = [f"x{k}" for k in range(pca.n_features_in_)] if known is None else [str(name) for name in known]
    rows: list[list[Any]] = []
    for k, component in enumerate(np.asarray(pca.components_, dtype=np.float64), 1):
        order = np.argsort(-np.abs(component), kind="stable")[: np.count_nonzero(component)]
        rows += [[k, features[j], float(component[j])] for j in order]
    return Listing([Column("component", "whole"), Column("feature"), Column("loading", "number")], rows)


def balance_table(split: Split) -> Listing:
    """Return the balance of a split; works without pandas."""
    columns = split._balance
    rows = [[name, *map(float, row)] for name, *row in zip(split._parts.names, *columns.values(), strict=True)]
    return Listing([Column("covariate"), *(Column(head, "number") for head in columns)], rows)

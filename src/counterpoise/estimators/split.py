"""Split units into groups with balanced covariates, and test outcomes by randomisation."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterpoise.checks import Vector, choice, number, random_seed, real_array, whole_number, worker_count
from counterpoise.estimators.covariates import Covariates, aligned, is_pandas, read_covariates
from counterpoise.estimators.exchanges import Budget, Groups, Labels, gather_groups, search_groups
from counterpoise.sentences import require, some

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Local searches for a single split, and random starts per draw for several.
DEFAULT_WORK, STARTS_PER_DRAW = 64, 2
ALTERNATIVES = ("two-sided", "greater", "less")
# Statistics closer than this, relative to the largest, are equal: a tie counts against the alternative.
TIE = 1e-10


class RandomisationTest(NamedTuple):
    """The outcome of :meth:`Split.randomisation_test`.

    Attributes
    ----------
    p_value : float
    statistic : float
        Of the split that was used.
    null : array
        The statistic of every split that might have been used, this one among them.
    """

    p_value: float
    statistic: float
    null: Vector


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """What :func:`balanced_split` returns.

    Attributes
    ----------
    labels : Series or array of int
        The group of every unit; a Series indexed like the covariates if they are a DataFrame.
    draws : array of int, n_draws × units
        Distinct splits, the best first; of two mirror images only one.
    objective : float
        Σ w SMD² of ``labels``, summed over covariates and pairs of groups.
    draw_objectives : array of length n_draws
    group_sizes : tuple of int
    mirrored : bool
        Whether there are two groups of equal size in every stratum. The mirror image of a draw is then as good, and
        ``labels`` may be one.
    covariates : Covariates
        Names, values, standardised scores and weights.
    strata : list of str or None
        The stratum of every unit, if there are strata.
    """

    labels: Any
    draws: Labels
    objective: float
    draw_objectives: Vector
    group_sizes: tuple[int, ...]
    mirrored: bool
    covariates: Covariates
    strata: list[str] | None = None

    def __repr__(self) -> str:
        """Summarise in one line."""
        sizes = ", ".join(map(str, self.group_sizes))
        draws = f", {len(self.draws)} draws" if len(self.draws) > 1 else ""
        return (
            f"Split(groups of {sizes} units{draws}: largest difference {self.max_difference:.3g}, "
            f"{self._random_difference:.3g} at random)"
        )

    @cached_property
    def differences(self) -> Vector:
        """Standardised mean differences: group 1 − group 0, or the largest between any two of more than two groups."""
        labels, scores = np.asarray(self.labels), self.covariates.scores
        means = np.array([scores[labels == g].mean(axis=0) for g in range(len(self.group_sizes))])
        return np.asarray(means[1] - means[0] if len(means) == 2 else np.ptp(means, axis=0), dtype=np.float64)

    @property
    def max_difference(self) -> float:
        """The largest |difference| of a covariate of positive weight."""
        return float(np.abs(self.differences[self.covariates.weights > 0.0]).max())

    @property
    def _random_difference(self) -> float:
        """√(1/n_g + 1/n_h) of the two smallest groups: the root mean square difference of a random split."""
        first, second = sorted(self.group_sizes)[:2]
        return math.sqrt(1.0 / first + 1.0 / second)

    @property
    def balance(self) -> pd.DataFrame:
        """One row per number or level: the group means, in the covariate's own units, and standardised differences.

        A standardised mean difference (SMD) is (mean of group 1 − mean of group 0) / standard deviation, the latter
        over all units, with n − 1. For more than two groups it is the largest between any two of them. ``random`` is
        the root mean square SMD of a purely random split of these sizes, √(1/n₁ + 1/n₀) exactly; for more than two
        groups that of the two smallest. A constant column has 0 in both.
        """
        pandas = require("A table of balance needs", "pandas")
        labels, parts = np.asarray(self.labels), self.covariates
        columns: dict[str, Any] = {
            f"mean {g}": parts.values[labels == g].mean(axis=0) for g in range(len(self.group_sizes))
        }
        columns["random"] = np.where(parts.scores.any(axis=0), self._random_difference, 0.0)
        columns["difference"] = self.differences
        return pandas.DataFrame(columns, index=pandas.Index(parts.names, name="covariate"))

    @property
    def reference(self) -> Labels:
        """All splits that ``labels`` was drawn from, with equal chances: draws and, where mirrored, mirror images."""
        return np.vstack([self.draws, 1 - self.draws]) if self.mirrored else self.draws

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the balance; see :func:`counterpoise.plotting.plot_balance`."""
        from counterpoise.plotting import plot_balance

        return plot_balance(self, ax)

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write a page, one HTML file that loads nothing; see :func:`counterpoise.report.split_report`."""
        from counterpoise.report import split_report

        return split_report(self, **options).write(path)

    def randomisation_test(
        self,
        outcome: Any,
        statistic: str | Callable[[Vector, Labels], float] = "mean difference",
        alternative: str = "two-sided",
    ) -> RandomisationTest:
        """Test the sharp null hypothesis that no unit's outcome depends on its group.

        ``labels`` was drawn from ``reference`` with equal chances, and before any outcome was known. Under the null
        hypothesis the outcomes would have been the same under every other split of that fixed set, so that

            p = #{r in reference : T(r) ≥ T(labels)} / #reference

        satisfies P(p ≤ α) ≤ α for every α, given the set: the test is exact for this design, whatever the outcomes'
        distribution, and however the set was found. It says nothing if other labels were used than these, or if the
        random state was chosen by looking at its split. p is at least 1/#reference, or 2/#reference for the two-sided
        mean difference where mirrored: 100 draws or more are advised.

        Parameters
        ----------
        outcome : Series or array of units
            A Series is matched by index.
        statistic : "mean difference" or callable
            Mean outcome of group 1 − that of group 0, or a function of (outcome, labels) that returns a number; more
            than two groups need one.
        alternative : {"two-sided", "greater", "less"}
            T is |statistic|, the statistic, or its negative.
        """
        if len(self.draws) < 2:
            raise ValueError(
                "This split was not drawn from several, so that there is nothing to compare it with; "
                "call balanced_split with n_draws of 100 or more before the experiment."
            )
        choice(alternative, "alternative", ALTERNATIVES, quoted=False)
        outcome = aligned(outcome, self.covariates.index, self.draws.shape[1], "outcome")
        y: Vector = real_array(outcome, "outcome")
        observed, null = self._statistics(y, statistic)
        signed = {"two-sided": np.abs, "greater": np.positive, "less": np.negative}[alternative]
        slack = TIE * float(np.abs(null).max())
        p_value = float(np.mean(signed(null) >= signed(observed) - slack))
        return RandomisationTest(p_value, observed, null)

    def _statistics(self, y: Vector, statistic: Any) -> tuple[float, Vector]:
        """Return the statistic of ``labels`` and of the reference."""
        if y.ndim != 1:
            raise ValueError(f"outcome has {y.ndim} dimensions; it must hold one number per unit.")
        labels = np.asarray(self.labels)
        if callable(statistic):
            null = np.array([float(statistic(y, each)) for each in self.reference])
            return float(statistic(y, labels)), null
        if statistic != "mean difference":
            raise ValueError(f'statistic is {statistic!r}; it must be "mean difference" or a function of two arrays.')
        if len(self.group_sizes) != 2:
            raise ValueError(
                f"A mean difference is between two groups and here are {len(self.group_sizes)}; "
                "give statistic as a function of (outcome, labels)."
            )
        y, scale = y - y.mean(), sum(1.0 / size for size in self.group_sizes)
        return scale * float(labels @ y), scale * np.asarray(self.reference @ y, dtype=np.float64)


def balanced_split(
    covariates: Any,
    n_treated: Any,
    *,
    weights: Any = None,
    strata: Any = None,
    categorical: Any = None,
    n_draws: int = 1,
    work: int | None = None,
    max_time: float | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Split:
    """Divide units into groups of given sizes whose covariates agree as well as possible.

    Minimises Σ_k w_k SMD_k², the weighted sum of squared standardised mean differences; see :attr:`Split.balance` for
    their definition. With centred scores zᵢ and x = 1 in group 1, −1 in group 0, the differences are
    ½(1/n₁ + 1/n₀) Σ xᵢzᵢ, so that two groups are binary least squares, :class:`counterpoise.problems.DCPB1` with
    A = √w Zᵀ, y = 0 and c = n₁ − n₀. More groups, whose SMD² are summed over all pairs, are blocks of the same kind,
    two groups at a time. Local optima are splits whose sum no exchange of two units of one stratum lowers; beyond 2000
    units of two groups, exchanges within samples of 2000 are made and nothing is claimed.

    One split is the end of a search by tabu: of the local optima within 1.5 times the least sum, the one whose largest
    √w |SMD| is least. Many draws are the best of the local optima that descents from random splits lead to; if these
    are too few, they are completed by the best exchanges of one pair.

    Parameters
    ----------
    covariates : DataFrame or array, units × covariates
        Numbers, and in a DataFrame also words, categories and booleans. A category counts as much as a number: its
        weight is divided evenly among the indicators of its levels, which are standardised like numbers. A constant
        column stays in the table of balance and is ignored.
    n_treated : int, sequence or mapping
        How many units form group 1; the others are group 0. Several sizes make several groups: if they add up to the
        number of units the groups are 0, 1, … in that order, else they are 1, 2, … and the rest is group 0. With
        strata, sizes are divided in proportion to the strata, the largest remainders first; a mapping gives an int or
        sizes for every stratum.
    weights : mapping, Series or array, optional
        w ≥ 0 of every covariate, 1 by default and for names that a mapping does not mention. Columns of an array are
        called by position.
    strata : array, Series or column name, optional
        Units of each stratum are divided for themselves, and all are balanced jointly. A column named here is no
        covariate.
    categorical : column name, position or several, optional
        Columns of numbers that are categories.
    n_draws : int
        How many distinct near-optimal splits to find. One of them, or its mirror image if the two groups are of equal
        size in every stratum, becomes ``labels`` by lot, which makes :meth:`Split.randomisation_test` exact. With 1,
        that is the best split found or, by lot, its mirror image.
    work : int, optional
        How many local searches: 64 for one split, or two random starts per draw.
    max_time : float, optional
        Seconds for these; searches that have begun by then end where they are. Draws that are missing then are
        completed by exchanges. Ctrl-C raises KeyboardInterrupt.
    random_state : int, numpy Generator or None
    n_jobs : int, optional
        Threads, -1 for one per core; they do not change the split unless ``max_time`` ends the search.

    Examples
    --------
    >>> import numpy as np
    >>> covariates = np.random.default_rng(0).standard_normal((40, 4))
    >>> split = balanced_split(covariates, n_treated=20, random_state=0)
    >>> int(split.labels.sum()), bool(split.max_difference < 0.01)
    (20, True)
    """
    column = strata if _names_a_column(covariates, strata) else None
    parts = read_covariates(covariates, weights, categorical, column)
    n = len(parts.scores)
    names, codes = _strata(strata if column is None else covariates[column], parts.index, n)
    sizes = _sizes(n_treated, names, np.bincount(codes, minlength=len(names)))
    n_draws = whole_number(n_draws, "n_draws", 1)
    work = None if work is None else whole_number(work, "work", 1)
    if max_time is not None and number(max_time, "max_time", 0.0) <= 0.0:
        raise ValueError("max_time is 0; a search needs a positive budget.")
    rng, n_jobs = _generator(random_state), worker_count(n_jobs)
    counted = parts.scores.any(axis=0) & (parts.weights > 0.0)
    Z = parts.scores[:, counted] * np.sqrt(parts.weights[counted]) if counted.any() else np.zeros((n, 1))
    groups = Groups(Z, sizes, codes)
    _check_draws(n_draws, groups)
    seed = int(rng.integers(2**31))
    if n_draws > 1:
        found = gather_groups(groups, n_draws, Budget(work or STARTS_PER_DRAW * n_draws, max_time, seed, n_jobs))
    else:
        near = search_groups(groups, Budget(work or DEFAULT_WORK, max_time, seed, n_jobs))
        found = [min(near, key=lambda each: groups.largest_difference(each.labels))]
    drawn = int(rng.integers(len(found)))
    labels = found[drawn].labels
    if groups.mirrored and rng.random() < 0.5:
        labels = 1 - labels
    if parts.index is not None:
        labels = require("Labels by unit need", "pandas").Series(labels, parts.index, name="group")
    return Split(
        labels,
        np.array([each.labels for each in found]),
        found[drawn].imbalance,
        np.array([each.imbalance for each in found]),
        tuple(int(size) for size in sizes.sum(axis=0)),
        groups.mirrored,
        parts,
        strata=None if strata is None else [str(names[code]) for code in codes],
    )


def _generator(random_state: Any) -> np.random.Generator:
    """Return a generator from an int, a numpy Generator or None."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    try:
        return np.random.default_rng(random_seed(random_state))
    except (TypeError, ValueError) as error:
        right = "it must be an int of at least 0, a numpy Generator or None"
        raise type(error)(f"random_state is {random_state!r}; {right}.") from None


def _names_a_column(covariates: Any, strata: Any) -> bool:
    """Whether strata names a column; other strings are refused."""
    if not isinstance(strata, str):
        return False
    if is_pandas(covariates, "DataFrame") and strata in list(covariates.columns):
        return True
    raise ValueError(f"strata is {strata!r}, which is no column of covariates; give a column or one value per unit.")


def _strata(strata: Any, index: Any, n: int) -> tuple[list[Any], Labels]:
    """Return the strata's names, in order of appearance, and the number of each unit's stratum."""
    if strata is None:
        return [None], np.zeros(n, dtype=np.int64)
    values = [getattr(value, "item", lambda value=value: value)() for value in aligned(strata, index, n, "strata")]
    for k, value in enumerate(values):
        if not isinstance(value, Hashable):
            raise TypeError(f"strata holds {value!r}, which cannot name a stratum; give words or numbers.")
        if value is None or value != value or str(value) == "<NA>":
            raise ValueError(f"strata has no value for unit {k if index is None else index[k]}; every unit needs one.")
    numbers = {name: k for k, name in enumerate(dict.fromkeys(values))}
    return list(numbers), np.array([numbers[value] for value in values], dtype=np.int64)


def _sizes(n_treated: Any, names: list[Any], units: Labels) -> Labels:
    """Return how many units of each stratum form each group."""
    if not isinstance(n_treated, Mapping):
        listed = [_listed(n_treated, "n_treated", int(units.sum()), least=1)]
        return _in_proportion(_with_rest(listed, units.sum(keepdims=True))[0], units)
    if names == [None]:
        raise TypeError("n_treated is a mapping, but there are no strata; give a whole number or sizes of groups.")
    for name in n_treated:
        if name not in names:
            raise ValueError(f"n_treated: {name!r} is no stratum; there are {some(names)}.")
    absent = [name for name in names if name not in n_treated]
    if absent:
        raise ValueError(f"n_treated has no size for stratum {absent[0]!r}; every stratum needs one.")
    listed = [
        _listed(n_treated[name], f"n_treated of stratum {name!r}", int(count), least=0)
        for name, count in zip(names, units, strict=True)
    ]
    if len({len(sizes) for sizes in listed}) > 1:
        raise ValueError("n_treated gives some strata more sizes than others; give all the same number.")
    return _with_rest(listed, units)


def _listed(sizes: Any, name: str, units: int, least: int) -> list[int]:
    """Return the given sizes, checked against the number of units."""
    if isinstance(sizes, str) or not isinstance(sizes, Sequence | np.ndarray):
        return [whole_number(sizes, name, least, units - least)]
    each = [whole_number(size, f"{name}[{k}]", least) for k, size in enumerate(sizes)]
    if sum(each) > units:
        raise ValueError(f"{name} adds up to {sum(each)} of {units} units; it must be {units} at most.")
    return each


def _with_rest(listed: list[list[int]], units: Labels) -> Labels:
    """Return the sizes with those of group 0 before them, unless they hold every unit."""
    sizes = np.array(listed, dtype=np.int64).reshape(len(units), -1)
    rest = units - sizes.sum(axis=1)
    if rest.any() or sizes.shape[1] < 2:
        sizes = np.column_stack([rest, sizes])
    empty = np.flatnonzero(sizes.sum(axis=0) == 0)
    if len(empty) or sizes.shape[1] < 2:
        group = int(empty[0]) if len(empty) else 1
        raise ValueError(f"n_treated leaves no unit for group {group}; there must be two groups or more, none empty.")
    return sizes


def _in_proportion(totals: Labels, units: Labels) -> Labels:
    """Divide each group's size among strata in proportion to the units not taken yet, the largest remainders first."""
    left, rows = units.copy(), []
    for total in totals[:0:-1]:
        quota = total * left / left.sum()
        taken = np.floor(quota + 1e-9).astype(np.int64)
        order = np.argsort(-(quota - taken), kind="stable")
        order = order[(taken < left)[order]]
        taken[order[: total - taken.sum()]] += 1
        rows.append(taken)
        left = left - taken
    return np.column_stack([left, *rows[::-1]])


def _check_draws(n_draws: int, groups: Groups) -> None:
    """Refuse more draws than there are splits."""
    count = 1
    for sizes in groups.sizes:
        left = int(sizes.sum())
        for size in sizes:
            count *= math.comb(left, int(size))
            left -= int(size)
    apart = " that are no mirror images" if groups.mirrored else ""
    count = count // 2 if groups.mirrored else count
    if n_draws > count:
        raise ValueError(f"n_draws is {n_draws}, but there are {count} splits{apart}; ask for {count} at most.")

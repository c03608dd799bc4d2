"""The result of a balanced split: balance, files of draws, and randomisation tests of outcomes."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoise.checks import Vector, choice, float_array, number, real_array
from counterpoise.estimators import randomisation
from counterpoise.estimators.covariates import Covariates, aligned
from counterpoise.estimators.randomisation import ALTERNATIVES, RandomisationTest, Statistic
from counterpoise.estimators.split_input import Labels
from counterpoise.output import csv_text, write_text
from counterpoise.sentences import counted, require, some
from counterpoise.tables.native import Native, as_pandas
from counterpoise.tables.read import read_sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MISSING = ("refuse", "drop-units")
# Columns of a file of draws, besides "draw 1" and so on. The names of groups are in a column "name", or "group name" if
# the column of units is called "name".
RESERVED, GROUP_NAME = ("group", "seed"), ("name", "group name")
# How the names of columns of covariates begin, in a file of draws of units without names.
COVARIATE = "covariate "
# Units that are written like these are numbers.
WHOLE = re.compile(r"0|-?[1-9]\d{0,18}")


def check_head(name: str) -> str:
    """Return the name of the column of units; refuse a name that another column of a file of draws has."""
    if name in RESERVED or name.startswith("draw "):
        raise ValueError(
            f"The column with the names of the units is called {name!r}, like a column of the file of draws; rename it."
        )
    return name


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """The result of :func:`balanced_split`.

    Attributes
    ----------
    labels : Series or array
        The group of every unit, as a number or a name: a Series indexed like the covariates if they are a DataFrame, a
        Polars or Arrow column if they are such a table, otherwise an array.
    draws : array of int, n_draws × units
        Distinct splits, the best first; only one of two mirror images is included.
    objective : float
        Σ w SMD² of ``labels``, summed over covariates and pairs of groups.
    draw_objectives : array of length n_draws
        The objective of each draw.
    group_sizes : tuple of int
    mirrored : bool
        Whether there are two groups of equal size in every stratum. The mirror image of a draw, with the two groups
        exchanged, is then equally good, and ``labels`` may be a mirror image.
    covariates : Covariates or None
        Names, values, standardised scores and weights; None for a split loaded from a file, which has no balance.
    index : pandas Index or None
        The labels of the units.
    groups : tuple
        The names of the groups; 0, 1, … by default.
    seed : int or None
        ``random_state=seed`` reproduces the split; None if a generator was given.
    at_random : pair of floats
        The medians of the objective and of the largest difference over 100 random splits with the same group sizes.
    native : Native or None
        The kind of the covariates' table, if it is not a pandas one.
    strata : list of str or None
        The stratum of every unit, if there are strata.
    """

    labels: Any
    draws: Labels
    objective: float
    draw_objectives: Vector
    group_sizes: tuple[int, ...]
    mirrored: bool
    covariates: Any
    index: Any = None
    groups: tuple[Any, ...] = (0, 1)
    seed: int | None = None
    at_random: tuple[float, float] = (math.nan, math.nan)
    native: Native | None = None
    strata: list[str] | None = None

    def __repr__(self) -> str:
        """Summarise in one line."""
        draws = f", {len(self.draws)} draws" if len(self.draws) > 1 else ""
        said = f"Split(groups of {some(self.group_sizes, 9)} units{draws}"
        if self.covariates is None:
            return f"{said})"
        return f"{said}: largest difference {self.max_difference:.3g}, {self.at_random[1]:.3g} at random)"

    @cached_property
    def codes(self) -> Labels:
        """The group of every unit as a number, 0, 1, …"""
        number = {name: g for g, name in enumerate(self.groups)}
        return np.array([number[label] for label in np.asarray(self.labels).tolist()], dtype=np.int64)

    @property
    def _parts(self) -> Covariates:
        if self.covariates is None:
            raise ValueError("This split was loaded from a file of draws, which has no covariates to compare.")
        parts: Covariates = self.covariates
        return parts

    @cached_property
    def differences(self) -> Vector:
        """Standardised mean differences: group 1 − group 0, or with more groups the largest between any two."""
        scores = self._parts.scores
        means = np.array([scores[self.codes == g].mean(axis=0) for g in range(len(self.group_sizes))])
        return np.asarray(means[1] - means[0] if len(means) == 2 else np.ptp(means, axis=0), dtype=np.float64)

    @property
    def max_difference(self) -> float:
        """The largest absolute value of ``differences`` among covariates of positive weight."""
        return float(np.abs(self.differences[self._parts.weights > 0.0]).max())

    @property
    def is_better_than_random(self) -> bool:
        """Whether the objective and the largest difference are below the medians of random splits."""
        objective, largest = self.at_random
        return self.objective < objective and self.max_difference < largest

    @property
    def _random_difference(self) -> float:
        """√(1/n_g + 1/n_h) for the two smallest groups: the root mean square difference of a random split."""
        first, second = sorted(self.group_sizes)[:2]
        return math.sqrt(1.0 / first + 1.0 / second)

    @property
    def balance(self) -> Any:
        """A table of group means, in the covariate's own units, and standardised differences, by number or level.

        A standardised mean difference (SMD) is (mean of group 1 − mean of group 0) / standard deviation, the latter
        over all units, with n − 1. With more than two groups it is the largest between any two of them. ``random`` is
        the root mean square SMD of a purely random split of these sizes, exactly √(1/n₁ + 1/n₀); with more than two
        groups, that of the two smallest. Both are 0 for a constant column.
        """
        pandas = require("A table of balance needs", "pandas")
        frame = pandas.DataFrame(self._balance, index=pandas.Index(self._parts.names, name="covariate"))
        return frame if self.native is None else self.native.table(frame)

    @property
    def _balance(self) -> dict[str, Vector]:
        """The columns of :attr:`balance`."""
        parts = self._parts
        means = {f"mean {name}": parts.values[self.codes == g].mean(axis=0) for g, name in enumerate(self.groups)}
        at_random = np.where(parts.scores.any(axis=0), self._random_difference, 0.0)
        return {**means, "random": at_random, "difference": self.differences}

    @property
    def reference(self) -> Labels:
        """All splits that ``labels`` was drawn from with equal probability: ``draws``, and any mirror images."""
        return np.vstack([self.draws, 1 - self.draws]) if self.mirrored else self.draws

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the balance; see :func:`counterpoise.plotting.plot_balance`."""
        from counterpoise.plotting import plot_balance

        return plot_balance(self, ax)

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write a self-contained HTML report; see :func:`counterpoise.report.split_report`."""
        from counterpoise.report import split_report

        return split_report(self, **options).write(path)

    # Files.

    def to_csv(self) -> str:
        """Return the draws as CSV text: units, their groups, every split of ``reference``, and the seed.

        Units without names are numbered from 1 in a column "row". If they come from a table, covariates are added.
        """
        names = range(1, len(self.codes) + 1) if self.index is None else self.index
        head = "row" if self.index is None else str(getattr(self.index, "name", None) or "unit")
        check_head(head)
        named = self.groups != tuple(range(len(self.groups)))
        reference = self.reference
        seed = "" if self.seed is None else self.seed
        columns = [head, "group", *([next(name for name in GROUP_NAME if name != head)] if named else [])]
        columns += [*(f"draw {k}" for k in range(1, len(reference) + 1)), "seed"]
        # Without names of units, covariates show whether a table of outcomes has the same order.
        shown = np.zeros((len(self.codes), 0))
        if head == "row" and self.index is not None and self.covariates is not None:
            shown = self.covariates.values
            columns += [f"{COVARIATE}{name}" for name in self.covariates.names]
        rows = (
            [name, int(code), *([self.groups[code]] if named else []), *row, seed, *values]
            for name, code, row, values in zip(names, self.codes, reference.T.tolist(), shown.tolist(), strict=True)
        )
        return csv_text(columns, rows)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the draws to a CSV file, for :meth:`load` and ``counterpoise test``."""
        return write_text(Path(path), self.to_csv())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Split:
        """Read a split from a file of draws written by :meth:`save` or ``counterpoise split --draws``.

        It has labels, draws and seed, which suffice to test outcomes, but no covariates.
        """
        pandas = require("A split needs", "pandas")
        path = Path(path)
        sheet = read_sheet(path)
        head, *others = sheet.names
        draws = [name for name in others if name.startswith("draw ")]
        if "group" not in others or not draws:
            raise ValueError(
                f"{path} has no columns group and draw 1, draw 2, …; give the draws.csv that counterpoise split "
                "--draws or Split.save wrote."
            )
        table = np.column_stack([sheet.numbers(name, "a group must be a number") for name in ("group", *draws)]).T
        count = len(np.unique(table[0]))
        bad = np.argwhere(~np.isin(table, np.arange(count)))
        if len(bad):
            k, row = map(int, bad[0])
            place = sheet.place(row, ("group", *draws)[k])
            raise ValueError(f"{place} is {table[k, row]:g}; groups are numbered from 0 to {count - 1}.")
        codes, reference = table[0].astype(np.int64), table[1:].astype(np.int64)
        if not (reference == codes).all(axis=1).any():
            raise ValueError(
                f"The groups in {path} match none of its draws; the file was altered, so the test would not be exact."
            )
        units: list[Any] = sheet.labels(head, "unit")
        if all(map(WHOLE.fullmatch, units)):
            units = [int(unit) for unit in units]
        index = pandas.Index(units, name=head)
        if not index.is_unique:
            twice = index[index.duplicated()][0]
            raise ValueError(f"{path} has unit {twice} more than once; keep one row per unit.")
        names = next((sheet.labels(name, "group") for name in GROUP_NAME if name in others), None)
        groups = tuple(range(count)) if names is None else tuple(names[codes.tolist().index(g)] for g in range(count))
        half = len(reference) // 2
        mirrored = count == 2 and 2 * half == len(reference) and np.array_equal(reference[half:], 1 - reference[:half])
        given = sheet.column("seed") if "seed" in others else np.full(1, np.nan)
        seed = int(given[0]) if given.dtype.kind == "f" and given[0] == given[0] else None
        draws_kept = reference[:half] if mirrored else reference
        return cls(
            pandas.Series([groups[code] for code in codes], index, name="group"),
            draws_kept,
            math.nan,
            np.full(len(draws_kept), math.nan),
            tuple(int(size) for size in np.bincount(codes)),
            bool(mirrored),
            None,
            index,
            groups,
            seed,
        )

    # Outcomes.

    def randomisation_test(
        self,
        outcome: Any,
        statistic: Statistic = "mean difference",
        alternative: str = "two-sided",
        confidence: float = 0.95,
        missing: str = "refuse",
    ) -> RandomisationTest:
        """Test the sharp null hypothesis that no unit's outcome depends on its group, and estimate a constant effect.

        ``labels`` was drawn from ``reference`` with equal probability, before any outcome was known. Under the null
        hypothesis the outcomes would have been the same under every other split in that fixed set, so

            p = #{r in reference : T(r) ≥ T(labels)} / #reference

        satisfies P(p ≤ α) ≤ α for every α, given the set: the test is exact for this design, whatever the distribution
        of the outcomes and however the set was found. It is not valid if the experiment used other labels, or if the
        random state was chosen after looking at its split. p is at least 1/#reference, or 2/#reference for the
        two-sided mean difference if ``mirrored``, so 100 draws or more are recommended.

        The mean difference estimates the effect. Its ``interval`` contains all constant effects τ that the same test of
        outcome − τ·group does not reject: it covers a constant effect with probability at least ``confidence``. A
        two-sided interval combines two one-sided ones at level (1 − confidence)/2 each; with a one-sided alternative
        only one limit is finite. Limits are also infinite if there are too few splits.

        Parameters
        ----------
        outcome : Series or array of units
            A Series is matched by index.
        statistic : "mean difference", "between groups" or callable
            The mean outcome of group 1 − that of group 0; the sum of squares between any number of groups, for which
            the alternative is always "greater"; or a function of (outcome, labels) that returns a number.
        alternative : {"two-sided", "greater", "less"}
            T is |statistic|, the statistic, or its negative.
        confidence : float
            The confidence level of the interval.
        missing : {"refuse", "drop-units"}
            Whether to refuse outcomes that are NaN, or to drop their units from every split. The latter is exact only
            if missingness does not depend on the group.
        """
        choice(alternative, "alternative", ALTERNATIVES, quoted=False)
        self._check_level(confidence, "confidence")
        y, labels, reference = self._observed(outcome, missing)
        splits, limits = np.vstack([labels, reference]), None
        slack = randomisation.tie(y)
        if callable(statistic):
            values = np.array([float(statistic(y, each)) for each in splits])
            slack = randomisation.TIE * float(np.abs(values).max())
        elif statistic == "between groups":
            values, alternative = randomisation.between_groups(splits, y, len(self.groups)), "greater"
        elif statistic != "mean difference":
            raise ValueError(
                f'statistic is {statistic!r}; it must be "mean difference", "between groups" or a function of two '
                "arrays."
            )
        elif len(self.group_sizes) != 2:
            raise ValueError(
                f"The mean difference needs two groups, but there are {len(self.group_sizes)}; "
                'give statistic as "between groups" or as a function of (outcome, labels).'
            )
        else:
            values = randomisation.mean_differences(splits, y)
            limits = randomisation.interval(labels, reference, y, confidence, alternative)
        observed, null = float(values[0]), values[1:]
        # The roots of sums of squares are in the unit of the outcome, as the slack is.
        compared = np.sqrt(values) if statistic == "between groups" else values
        p_value = float(randomisation.p_value(compared[0], compared[1:], alternative, slack))
        return RandomisationTest(p_value, observed, null, limits, confidence)

    def power(
        self, effect: float, outcome: Any, alpha: float = 0.05, alternative: str = "two-sided", missing: str = "refuse"
    ) -> float:
        """Return the power of the test of the mean difference: the probability that it detects an effect.

        Each split in ``reference`` (a sample of 2000 if there are more) in turn is taken as the one that was drawn, the
        effect is added to the outcomes of its group 1, and the outcomes are tested at level alpha.

        Parameters
        ----------
        effect : float
            A constant effect, in the unit of the outcome.
        outcome : Series or array of units
            Outcomes without the effect, such as those of an earlier period.
        alpha : float
            The significance level.
        alternative : {"two-sided", "greater", "less"}
        missing : {"refuse", "drop-units"}
        """
        choice(alternative, "alternative", ALTERNATIVES, quoted=False)
        self._check_level(alpha, "alpha")
        if len(self.group_sizes) != 2:
            raise ValueError(
                f"Power needs two groups, but there are {len(self.group_sizes)}; it is that of the mean difference."
            )
        y, _, reference = self._observed(outcome, missing)
        effect = number(effect, "effect")
        return randomisation.power(reference, y, effect, alpha, alternative, np.random.default_rng(0))

    def _check_level(self, value: Any, name: str) -> None:
        if not 0.0 < number(value, name) < 1.0:
            raise ValueError(f"{name} is {value:g}; it must be between 0 and 1.")

    def _observed(self, outcome: Any, missing: str) -> tuple[Vector, Labels, Labels]:
        """Return outcomes, labels and reference, restricted to units with an outcome if others are to be dropped."""
        if len(self.draws) < 2:
            raise ValueError(
                "This split has a single draw, so there is nothing to compare it with; "
                "call balanced_split with n_draws=100 or more before the experiment."
            )
        choice(missing, "missing", MISSING, quoted=False)
        outcome = aligned(as_pandas(outcome), self.index, self.draws.shape[1], "outcome")
        y: Vector = float_array(outcome, "outcome")
        if y.ndim != 1:
            raise ValueError(f"outcome has {y.ndim} dimensions; it must hold one number per unit.")
        known = ~np.isnan(y)
        if missing == "refuse" or known.all():
            return real_array(y, "outcome"), self.codes, self.reference
        reference = self.reference[:, known]
        for g, name in enumerate(self.groups):
            if not (reference == g).any(axis=1).all():
                raise ValueError(
                    f"Of {counted(len(y), 'unit')}, {int(known.sum())} have an outcome, and under some draws none of "
                    f"them is in group {name}; the test needs more outcomes."
                )
        return real_array(y[known], "outcome"), self.codes[known], reference

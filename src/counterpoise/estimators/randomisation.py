"""Randomisation tests over a fixed set of splits: p-values, confidence intervals by inversion, power.

Outcomes y, and labels z drawn with equal chances from a set of splits r. If a constant effect τ is all that groups do,
y − τz would have been the same under every r, and the statistics T(r) = mean of y − τz in group 1 − that in group 0 are
its null distribution. T(z) − T(r) = (T_y(z) − T_y(r)) − τ(1 − T_z(r)) falls with τ, as T_z(r) ≤ 1: each r has one
τ_r = (T_y(z) − T_y(r))/(1 − T_z(r)) from which on T(r) ≥ T(z), and limits of the interval are order statistics of τ_r.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from counterpoise.checks import Vector
from counterpoise.estimators.links import Labels

Statistic = str | Callable[[Vector, Labels], float]

ALTERNATIVES = ("two-sided", "greater", "less")
SIDES: dict[str, Callable[[Any], Any]] = {"two-sided": np.abs, "greater": np.positive, "less": np.negative}
# Statistics closer than this, relative to the largest, are equal: a tie counts against the alternative.
TIE = 1e-10
# Splits that are taken for the one drawn, to compute power, and how many of them at a time.
MOST_TRUTHS, BLOCK = 2000, 128


@dataclasses.dataclass(frozen=True, eq=False)
class RandomisationTest:
    """The outcome of :meth:`Split.randomisation_test`; it unpacks as p-value, statistic and null.

    Attributes
    ----------
    p_value : float
    statistic : float
        Of the split that was used.
    null : array
        The statistic of every split that might have been used, this one among them.
    interval : pair of floats, or None
        Of a constant effect of group 1 compared with group 0, where the statistic is the mean difference.
    confidence : float
        Of the interval.
    """

    p_value: float
    statistic: float
    null: Vector
    interval: tuple[float, float] | None = None
    confidence: float = 0.95

    def __iter__(self) -> Iterator[Any]:
        """Unpack as p_value, statistic, null."""
        return iter((self.p_value, self.statistic, self.null))

    def __repr__(self) -> str:
        """Summarise in one line."""
        low, high = self.interval or (math.nan, math.nan)
        said = "" if self.interval is None else f", {100.0 * self.confidence:g} % interval {low:.4g} to {high:.4g}"
        return f"RandomisationTest(p = {self.p_value:.4g} over {len(self.null)} splits: {self.statistic:.4g}{said})"


def mean_differences(reference: Labels, y: Vector) -> Any:
    """Return mean of group 1 − mean of group 0 of every split; y may be a matrix, one outcome a column."""
    sizes = reference.sum(axis=1).astype(np.float64)
    scale = 1.0 / sizes + 1.0 / (reference.shape[1] - sizes)
    y = y - y.mean(axis=0)  # so that the mean of one group gives that of the other
    return (reference @ y) * (scale if y.ndim == 1 else scale[:, None])


def between_groups(reference: Labels, y: Vector, count: int) -> Vector:
    """Return Σ n_g (mean of group g − mean)² of every split."""
    y, total = y - y.mean(), np.zeros(len(reference))
    for g in range(count):
        member = (reference == g).astype(np.float64)
        total += (member @ y) ** 2 / member.sum(axis=1)
    return total


def p_value(observed: float, null: Vector, alternative: str) -> float:
    """Return the share of the null distribution that is as large as what was observed."""
    signed, slack = SIDES[alternative], TIE * float(np.abs(null).max())
    return float(np.mean(signed(null) >= signed(observed) - slack))


def interval(labels: Labels, reference: Labels, y: Vector, confidence: float, alternative: str) -> tuple[float, float]:
    """Return the constant effects that a test at level 1 − confidence does not reject; two-sided, half on each side."""
    observed = float(mean_differences(labels[None, :], y)[0])
    slopes = 1.0 - mean_differences(reference, labels.astype(np.float64))
    # The split that was used is as large as itself under every effect.
    others = slopes > TIE
    limits = np.sort((observed - mean_differences(reference, y)[others]) / slopes[others])
    share = (1.0 - confidence) / (2.0 if alternative == "two-sided" else 1.0)
    k = math.floor(share * len(reference) + 1e-9) + 1 - int((~others).sum())
    bounded = 0 < k <= len(limits)
    low = float(limits[k - 1]) if bounded and alternative != "less" else -math.inf
    high = float(limits[-k]) if bounded and alternative != "greater" else math.inf
    return low, high


def power(
    reference: Labels, y: Vector, effect: float, alpha: float, alternative: str, rng: np.random.Generator
) -> float:
    """Return the share of splits under which outcomes y + effect × group are found different at level alpha."""
    truths = reference
    if len(reference) > MOST_TRUTHS:
        truths = reference[np.sort(rng.choice(len(reference), MOST_TRUTHS, replace=False))]
    without, found, signed = mean_differences(reference, y), 0, SIDES[alternative]
    for first in range(0, len(truths), BLOCK):
        some = truths[first : first + BLOCK]
        null = without[:, None] + effect * mean_differences(reference, some.T.astype(np.float64))
        observed = mean_differences(some, y) + effect
        slack = TIE * np.abs(null).max(axis=0)
        p = (signed(null) >= signed(observed) - slack).mean(axis=0)
        found += int((p <= alpha + 1e-12).sum())
    return found / len(truths)

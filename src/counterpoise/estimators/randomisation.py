"""Randomisation tests over a fixed set of splits: p-values, confidence intervals by inversion, power.

The outcomes are y, and the labels z were drawn with equal probability from a set of splits r. If the only effect of the
groups is a constant τ, y − τz would have been the same under every r, and its null distribution consists of the
statistics T(r) = mean of y − τz in group 1 − that in group 0. As T_z(r) ≤ 1, the difference
T(z) − T(r) = (T_y(z) − T_y(r)) − τ(1 − T_z(r)) falls with τ, so that T(r) ≥ T(z) for all τ from
τ_r = (T_y(z) − T_y(r))/(1 − T_z(r)) upwards. The limits of the confidence interval are order statistics of τ_r.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from counterpoise.checks import Vector
from counterpoise.estimators.split_input import Labels

Statistic = str | Callable[[Vector, Labels], float]

ALTERNATIVES = ("two-sided", "greater", "less")
SIDES: dict[str, Callable[[Any], Any]] = {"two-sided": np.abs, "greater": np.positive, "less": np.negative}
# Statistics closer than this, relative to the spread of the outcomes, are ties, which count against the alternative.
TIE = 1e-10
EPSILON = float(np.finfo(float).eps)
# Most splits that are taken as the one drawn to compute power, and how many of them at a time.
MOST_TRUTHS, BLOCK = 2000, 128


@dataclasses.dataclass(frozen=True, eq=False)
class RandomisationTest:
    """The result of :meth:`Split.randomisation_test`; it unpacks as p_value, statistic and null.

    Attributes
    ----------
    p_value : float
    statistic : float
        The statistic of the split that was used.
    null : array
        The statistic of every split in the reference, including the one that was used.
    interval : pair of floats, or None
        Confidence interval of a constant effect of group 1 relative to group 0; only for the mean difference.
    confidence : float
        The confidence level of the interval.
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


def centred(y: Vector) -> Vector:
    """Return y less its mean, in each column, with errors relative to its spread however large an offset it has.

    The median is subtracted first. That is exact for whole numbers, and wherever the offset is large, so that a
    constant added to all outcomes changes nothing.
    """
    y = y - np.sort(y, axis=0)[len(y) // 2]
    return np.asarray(y - y.mean(axis=0), dtype=np.float64)


def tie(y: Vector) -> float:
    """Return the largest difference between mean outcomes that is attributed to rounding.

    Outcomes that are not whole were rounded to begin with, relative to their own size.
    """
    given = 0.0 if (y == np.floor(y)).all() else EPSILON * float(np.abs(y).max())
    return TIE * float(np.abs(centred(y)).mean()) + given


def mean_differences(reference: Labels, y: Vector) -> Any:
    """Return mean of group 1 − mean of group 0 for every split; y may be a matrix with one outcome per column."""
    sizes = reference.sum(axis=1).astype(np.float64)
    scale = 1.0 / sizes + 1.0 / (reference.shape[1] - sizes)
    # The sum of one group gives that of the other, because all of them add up to 0.
    return (reference @ centred(y)) * (scale if y.ndim == 1 else scale[:, None])


def between_groups(reference: Labels, y: Vector, count: int) -> Vector:
    """Return Σ n_g (mean of group g − mean)² for every split."""
    y, total = centred(y), np.zeros(len(reference))
    for g in range(count):
        member = (reference == g).astype(np.float64)
        total += (member @ y) ** 2 / member.sum(axis=1)
    return total


def p_value(observed: Any, null: Vector, alternative: str, slack: float) -> Any:
    """Return the share of the null distribution, in each column, at least as extreme as the observed statistic.

    Statistics closer than ``slack`` are ties.
    """
    signed = SIDES[alternative]
    return (signed(null) >= signed(observed) - slack).mean(axis=0)


def interval(labels: Labels, reference: Labels, y: Vector, confidence: float, alternative: str) -> tuple[float, float]:
    """Return the limits of constant effects not rejected at level 1 − confidence; if two-sided, half on each side."""
    observed = float(mean_differences(labels[None, :], y)[0])
    slopes = 1.0 - mean_differences(reference, labels.astype(np.float64))
    # The split that was used ties with itself under every effect, so it has no τ_r.
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
    """Return the share of splits under which the test rejects for outcomes y + effect × group at level alpha."""
    truths = reference
    if len(reference) > MOST_TRUTHS:
        truths = reference[np.sort(rng.choice(len(reference), MOST_TRUTHS, replace=False))]
    without, found = mean_differences(reference, y), 0
    slack = tie(y) + TIE * abs(effect)
    for first in range(0, len(truths), BLOCK):
        some = truths[first : first + BLOCK]
        null = without[:, None] + effect * mean_differences(reference, some.T.astype(np.float64))
        p = p_value(mean_differences(some, y) + effect, null, alternative, slack)
        found += int((p <= alpha + 1e-12).sum())
    return found / len(truths)

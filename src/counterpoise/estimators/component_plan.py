"""Options and results of a fit of components, and a record of which components to visit again."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from counterpoise.checks import choice, flag, whole_number
from counterpoise.estimators.deflation import KINDS, Matrix
from counterpoise.estimators.options import RunOptions
from counterpoise.estimators.pca_input import sizes_of
from counterpoise.estimators.sources import Source
from counterpoise.problem import Result

METHODS = ("search", "swap", "bcd-g", "exact")
# Starts per component before backfitting, which makes up for the rest: 8 starts end no better on digits and MNIST,
# and 2 find less variance in other data, such as breast cancer and stock returns.
FEW_STARTS = 4
# Default backfitting visits LOOKS components in total, but takes at least LEAST_ROUNDS rounds; twice as many with more
# than WIDE columns. On digits this is as fast as EM with five starts.
LOOKS, LEAST_ROUNDS, WIDE = 60, 5, 256


class Plan(NamedTuple):
    """The options of a fit."""

    sizes: list[int]
    run: RunOptions
    backfit: int
    signed: bool
    deflation: str

    @property
    def joint(self) -> bool:
        """Whether components are backfitted, which needs several of them and the Schur complement."""
        return self.backfit > 0 and len(self.sizes) > 1 and self.deflation == "schur"

    @property
    def by_size(self) -> bool:
        """Whether components are ordered by adjusted variance; if sizes differ, the user's order is kept."""
        return self.joint and len(set(self.sizes)) == 1

    @property
    def is_quick(self) -> bool:
        """Whether a few descents suffice for each component, because backfitting improves on them."""
        return self.joint and self.run.method == "search" and self.run.max_time is None


def plan_of(estimator: Any, data: Source) -> Plan:
    """Return the checked options of an estimator."""
    sizes = sizes_of(estimator, data)
    default = max(LEAST_ROUNDS, LOOKS // len(sizes)) * (2 if data.n > WIDE else 1)
    backfit = default if estimator.backfit is None else whole_number(estimator.backfit, "backfit", 0)
    signed, deflation = not flag(estimator.nonnegative, "nonnegative"), choice(estimator.deflation, "deflation", KINDS)
    plan = Plan(sizes, RunOptions.of(estimator, METHODS), backfit, signed, deflation)
    if plan.is_quick and plan.run.work is None:
        plan = plan._replace(run=plan.run._replace(work=FEW_STARTS))
    return plan


class Found(NamedTuple):
    """Components as columns of V, on all features; scores RV, where RᵀR is the covariance; upper bounds."""

    V: Matrix
    variances: Matrix
    scores: Matrix
    bounds: Matrix
    results: list[Result]
    rounds: int
    sizes: list[int]


class Seen:
    """Record which components were examined since another one changed and need not be examined again."""

    def __init__(self, count: int) -> None:
        self.since = np.zeros(count, dtype=bool)

    def look(self, k: int) -> bool:
        """Return whether component k must be examined, and mark it as examined."""
        due = not self.since[k]
        self.since[k] = True
        return due

    def change(self, k: int) -> None:
        """Mark all components but k for examination."""
        self.since[np.arange(len(self.since)) != k] = False

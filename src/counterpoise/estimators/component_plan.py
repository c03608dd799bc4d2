"""Options and results of a fit of components, and a record of which components to visit again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterpoise.estimators.deflation import Matrix
from counterpoise.estimators.options import RunOptions
from counterpoise.problem import Result


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

"""The options of a fit of components, what it finds, and which components are due."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from counterpoise.estimators.deflation import Matrix
from counterpoise.problem import Result


class Plan(NamedTuple):
    """The options of a fit."""

    sizes: list[int]
    method: str
    work: int | None
    max_time: float | None
    backfit: int
    seed: int
    n_jobs: int | None
    signed: bool = False
    deflation: str = "schur"

    @property
    def joint(self) -> bool:
        """Whether components are backfitted, which means by the Schur complement of all others."""
        return self.backfit > 0 and len(self.sizes) > 1 and self.deflation == "schur"

    @property
    def by_size(self) -> bool:
        """Whether components are ordered by adjusted variance; those of different sizes keep the user's order."""
        return self.joint and len(set(self.sizes)) == 1

    @property
    def is_quick(self) -> bool:
        """Whether a few descents suffice for each component in its turn, because backfitting searches on from there."""
        return self.joint and self.method == "search" and self.max_time is None

    def options(self, seconds: float | None) -> dict[str, Any]:
        """Return the options of the method."""
        search = {"work": self.work, "n_jobs": self.n_jobs} if self.method == "search" else {}
        return {"seed": self.seed, "max_time": seconds, **search}


class Found(NamedTuple):
    """Components as columns of V, on all features; the scores RV of the data's covariance RᵀR; upper bounds."""

    V: Matrix
    variances: Matrix
    scores: Matrix
    bounds: Matrix
    results: list[Result]
    rounds: int
    sizes: list[int]


class Seen:
    """Components that were examined since another one changed and need not be examined again."""

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

"""Measures that an index tracker minimises: sums over days of a loss of z = portfolio − index."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from counterpoise.checks import LARGEST, Vector, choice, number
from counterpoise.terms.losses import Downside, Huber, HuberDownside
from counterpoise.terms.smooth import LeastSquares

MEASURES = ("ete", "dr", "hete", "hdr")
CORNERED = ("hete", "hdr")
# One-sided measures get this share of the squared error as a tie-breaker among portfolios that are never below the
# index.
TIES = 1e-9


class Measure(NamedTuple):
    """A measure by its name in the literature, and the |z| beyond which it is linear, if any."""

    name: str
    huber: float | None

    @property
    def is_one_sided(self) -> bool:
        """Whether only days below the index count."""
        return self.name in ("dr", "hdr")

    def term(self, A: Vector, y: Vector, weight: Vector, gram: bool | None = None) -> Any:
        """Return the term f for returns A, index y and weights of the days."""
        if self.name == "ete":
            root = np.sqrt(weight)
            return LeastSquares(A * root[:, None], y * root, gram=gram)
        rows = None if (weight == 1.0).all() else weight
        if self.name == "dr":
            return Downside(A, y, rows, ties=TIES)
        if self.name == "hete":
            return Huber(A, y, self.huber or 0.0, rows)
        return HuberDownside(A, y, self.huber or 0.0, rows, ties=TIES)


def as_measure(name: Any, huber: Any) -> Measure:
    """Check a tracker's parameters ``measure`` and ``huber`` and return the measure."""
    choice(name, "measure", MEASURES)
    if name not in CORNERED:
        if huber is not None:
            raise ValueError(
                f'huber is {huber!r}, but measure "{name}" does not use it; leave it out, or use "h{name}".'
            )
        return Measure(name, None)
    if huber is None:
        raise ValueError(
            f'measure "{name}" needs huber, the daily difference beyond which it is linear, such as huber=0.0025.'
        )
    corner = number(huber, "huber", most=LARGEST)
    if corner <= 0.0:
        raise ValueError(f"huber is {corner:g}; it must be positive.")
    return Measure(name, corner)

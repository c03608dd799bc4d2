"""h: separable convex terms. They add up: ``Bounds(0, 0.1) + AbsoluteDeviation(x0, 0.002)``."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise.checks import LARGEST, LARGEST_SQUARE, Vector, float_array, real_array, refuse_extreme, spread
from counterpoise.kernels.separable import Separable as SeparableKernel


class SeparableTerm:
    """A sum of bounds, linear terms and absolute deviations."""

    @property
    def parts(self) -> tuple[SeparableTerm, ...]:
        """The summands."""
        return (self,)

    def __add__(self, other: SeparableTerm) -> SeparableTerm:
        """Return the sum of two separable terms."""
        if not isinstance(other, SeparableTerm):
            return NotImplemented
        return SeparableSum(*self.parts, *other.parts)


class SeparableSum(SeparableTerm):
    """The sum of several separable terms."""

    def __init__(self, *parts: SeparableTerm) -> None:
        self._parts = parts

    @property
    def parts(self) -> tuple[SeparableTerm, ...]:
        """The summands."""
        return self._parts


class Bounds(SeparableTerm):
    """lo ≤ x ≤ hi, each a number or one per coordinate; ±inf for none."""

    def __init__(self, lo: Any = -np.inf, hi: Any = np.inf) -> None:
        self.lo, self.hi = _bound(lo, "lo"), _bound(hi, "hi")


class Linear(SeparableTerm):
    """wᵀx with w a number or one per coordinate."""

    def __init__(self, w: Any) -> None:
        self.w = real_array(w, "w")
        refuse_extreme(self.w, "w", LARGEST_SQUARE)


class AbsoluteDeviation(SeparableTerm):
    """Σ costᵢ|xᵢ − x0ᵢ|: the price of moving away from x0 (turnover)."""

    def __init__(self, x0: Any, cost: Any) -> None:
        self.x0, self.cost = real_array(x0, "x0"), real_array(cost, "cost")
        refuse_extreme(self.x0, "x0")
        refuse_extreme(self.cost, "cost", LARGEST_SQUARE)
        if (self.cost < 0).any():
            raise ValueError(f"cost contains {self.cost.min():g}; it must be at least 0, or h is not convex.")


def _bound(values: Any, name: str) -> Vector:
    result = float_array(values, name)
    if np.isnan(result).any():
        raise ValueError(f"{name} contains NaN at {np.flatnonzero(np.isnan(result))[0]}; use inf for no bound.")
    far = np.abs(result[np.isfinite(result)])
    if (far > LARGEST).any():
        raise ValueError(f"{name} contains ±{far.max():g}; use inf for no bound, or at most {LARGEST:g}.")
    return result


def compile_separable(h: SeparableTerm | None, n: int) -> SeparableKernel:
    """Gather any sum of separable terms into the one form that kernels know."""
    lo, hi, weight = np.full(n, -np.inf), np.full(n, np.inf), np.zeros(n)
    centres: list[Vector] = []
    costs: list[Vector] = []
    for part in () if h is None else h.parts:
        if isinstance(part, Bounds):
            lo = np.maximum(lo, _stretch(part.lo, "lo", n))
            hi = np.minimum(hi, _stretch(part.hi, "hi", n))
        elif isinstance(part, Linear):
            weight += spread(part.w, "w", n)
        elif isinstance(part, AbsoluteDeviation):
            centres.append(spread(part.x0, "x0", n))
            costs.append(spread(part.cost, "cost", n))
        else:
            raise TypeError(f"h contains a {type(part).__name__}; h is a sum of Bounds, Linear and AbsoluteDeviation.")
    if (lo > hi).any():
        k = int(np.flatnonzero(lo > hi)[0])
        raise ValueError(f"the bounds of coordinate {k} are empty: lo = {lo[k]:g} > hi = {hi[k]:g}.")
    stack = (np.array(rows).reshape(len(rows), n) for rows in (centres, costs))
    return SeparableKernel(lo, hi, weight, *stack)


def _stretch(values: Vector, name: str, n: int) -> Vector:
    if values.ndim == 0:
        return np.full(n, float(values))
    if values.shape != (n,):
        raise ValueError(f"{name} has shape {values.shape}; it must be a number or have shape ({n},).")
    return values


def separable_value(h: SeparableKernel, x: Vector) -> float:
    """Return wᵀx + Σ cost|x − x0|; the bounds are a matter of feasibility."""
    return float(h.weight @ x + (h.cost * np.abs(x - h.centre)).sum())


def one_sided_slopes(h: SeparableKernel, x: Vector) -> tuple[Vector, Vector]:
    """Return the left and right derivatives of every hᵢ at xᵢ, bounds ignored."""
    left = h.weight + np.where(x > h.centre, h.cost, -h.cost).sum(axis=0)
    right = h.weight + np.where(x >= h.centre, h.cost, -h.cost).sum(axis=0)
    return left, right

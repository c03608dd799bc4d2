"""g: concave terms.

A term of your own is a NamedTuple with ``value(x)``, ``subgradient(x, slope)`` and
``kernel(lo, hi)``, and bodies for the verbs of :mod:`counterpoise.kernels.concave`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from counterpoise.checks import LARGEST_SQUARE, Vector, number, whole_number
from counterpoise.kernels import concave as kernels


class ConcaveTerm(Protocol):
    """What :class:`~counterpoise.Problem` asks of g."""

    @property
    def lam(self) -> float:
        """The weight of the term."""

    def value(self, x: Vector) -> float:
        """Return g(x)."""

    def subgradient(self, x: Vector, slope: Vector) -> Vector:
        """Return the element of ∂g(x) that makes ``slope + ∂g`` closest to stationary, where there is a choice."""

    def kernel(self, lo: Vector, hi: Vector) -> Any:
        """Return g for kernels, with state of its own."""


class TopSum:
    """g(x) = −λ‖x‖_[s], the sum of the s largest |xᵢ|: it leaves s coordinates free and presses on the rest."""

    def __init__(self, s: int, lam: float) -> None:
        self.s, self.lam = whole_number(s, "s", 1), number(lam, "lam", 0.0, LARGEST_SQUARE)

    def value(self, x: Vector) -> float:
        """Return −λ‖x‖_[s]."""
        return -self.lam * float(np.sort(np.abs(x))[::-1][: self.s].sum())

    def subgradient(self, x: Vector, slope: Vector) -> Vector:
        """Return −λ sign(x) on the s largest |xᵢ|; among equals those of the largest slope of |xᵢ| are taken."""
        top = np.lexsort((np.where(x < 0, slope, -slope), -np.abs(x)))[: self.s]
        result = np.zeros(len(x))
        result[top] = np.where(x[top] < 0, self.lam, -self.lam)
        return result

    def kernel(self, lo: Vector, hi: Vector) -> kernels.TopSum:
        """Return the term with room for the order of |x|."""
        n = len(lo)
        if self.s > n:
            raise ValueError(f"s is {self.s}, but there are {n} coordinates; it must be between 1 and {n}.")
        order = np.empty(n, dtype=np.int64)
        return kernels.TopSum(self.s, self.lam, bool((lo < 0).any()), order, np.empty_like(order), np.empty(n))


class Norm2:
    """g(x) = −λ‖x‖₂."""

    def __init__(self, lam: float) -> None:
        self.lam = number(lam, "lam", 0.0, LARGEST_SQUARE)

    def value(self, x: Vector) -> float:
        """Return −λ‖x‖₂."""
        return -self.lam * float(np.linalg.norm(x))

    def subgradient(self, x: Vector, slope: Vector) -> Vector:
        """Return −λx/‖x‖₂, and 0 at x = 0."""
        norm = float(np.linalg.norm(x))
        return -self.lam * x / norm if norm > 0 else np.zeros_like(x)

    def kernel(self, lo: Vector, hi: Vector) -> kernels.Norm2:
        """Return the term with room for ‖x‖²."""
        return kernels.Norm2(self.lam, np.zeros(1))


class ConcaveQuadratic:
    """g(x) = −λ‖x‖²."""

    def __init__(self, lam: float) -> None:
        self.lam = number(lam, "lam", 0.0, LARGEST_SQUARE)

    def value(self, x: Vector) -> float:
        """Return −λ‖x‖²."""
        return -self.lam * float(x @ x)

    def subgradient(self, x: Vector, slope: Vector) -> Vector:
        """Return −2λx."""
        return -2.0 * self.lam * x

    def kernel(self, lo: Vector, hi: Vector) -> kernels.ConcaveQuadratic:
        """Return the term, which keeps nothing of x."""
        return kernels.ConcaveQuadratic(self.lam)

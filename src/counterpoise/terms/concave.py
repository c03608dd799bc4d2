"""g: concave terms, and a limit on the number of non-zeros.

A term of your own is a NamedTuple with ``lam``, ``value(x)``, ``subgradient(x, slope)`` and ``kernel(lo, hi)``, and
bodies for the verbs of :mod:`counterpoise.kernels.concave`. A term that leaves some coordinates free, and is −λ‖x‖₁
where no others are non-zero, says how many with ``free``. A constraint on the number of non-zeros is 0 there, and has
``violation(x)`` as well.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Protocol

import numpy as np

from counterpoise.checks import LARGEST_SQUARE, Vector, number, whole_number
from counterpoise.kernels import concave as kernels
from counterpoise.terms.required import require
from counterpoise.terms.separable import SeparableTerm


class ConcaveTerm(Protocol):
    """The interface of g in :class:`~counterpoise.Problem`."""

    @property
    def lam(self) -> float:
        """The weight of the term."""

    def value(self, x: Vector) -> float:
        """Return g(x)."""

    def subgradient(self, x: Vector, slope: Vector) -> Vector:
        """Return the element of ∂g(x) that makes ``slope + ∂g`` closest to stationary."""

    def kernel(self, lo: Vector, hi: Vector) -> Any:
        """Return g for kernels, with its own state."""


class _OneTerm:
    """A g that says what to do instead of adding it to another term."""

    def __add__(self, other: Any) -> Any:
        """Refuse a sum."""
        name, others = type(self).__name__, type(other).__name__
        if isinstance(other, _OneTerm):
            raise TypeError(f"{name} + {others} is not possible: a problem takes one g; give {name} or {others}.")
        if isinstance(other, SeparableTerm):
            raise TypeError(
                f"{name} is g and {others} a part of h; give Problem both, as g={name}(…) and h={others}(…)."
            )
        return NotImplemented

    __radd__ = __add__


class TopSum(_OneTerm):
    """g(x) = −λ‖x‖_[s], ‖x‖_[s] the sum of the s largest |xᵢ|: it favours points with at most s non-zeros."""

    is_known = True

    def __init__(self, s: int, lam: float) -> None:
        self.s, self.lam = whole_number(s, "s", 1), number(lam, "lam", 0.0, LARGEST_SQUARE)

    @property
    def free(self) -> int:
        """How many coordinates are left free."""
        return self.s

    def value(self, x: Vector) -> float:
        """Return −λ‖x‖_[s]."""
        return -self.lam * float(np.sort(np.abs(x))[::-1][: self.s].sum())

    def of(self, n: int) -> TopSum:
        """Return the term for a problem with only n of the coordinates."""
        return TopSum(min(self.s, n), self.lam)

    def subgradient(self, x: Vector, slope: Vector) -> Vector:
        """Return −λ sign(x) on the s largest |xᵢ|; ties go to the largest slope in |xᵢ|.

        A certificate needs this rule: where any choice proves that x is critical, this one does. Methods that step
        along the subgradient need another one, because this one often chooses coordinates that do not grow; see
        :meth:`tied_subgradient`.
        """
        top = np.lexsort((np.where(x < 0, slope, -slope), -np.abs(x)))[: self.s]
        result = np.zeros(len(x))
        result[top] = np.where(x[top] < 0, self.lam, -self.lam)
        return result

    def tied_subgradient(self, x: Vector, slope: Vector, ties: str, signed: bool = False) -> Vector:
        """Return −λ sign(x) on the s largest |xᵢ|, chosen among equal ones by a rule for methods that step along it.

        "index" takes the first, as a stable sort does. "slope" takes those along which F falls most if |xᵢ| grows;
        with ``signed``, a coordinate at 0 may grow either way.
        """
        signs = np.sign(x) if signed else np.ones(len(x))
        order: tuple[Vector, ...] = (-np.abs(x),)
        if ties == "slope":
            signs = np.where(signs == 0.0, -np.sign(slope), signs)
            order = signs * slope, *order
        top = np.lexsort(order)[: self.s]
        result = np.zeros(len(x))
        result[top] = -self.lam * signs[top]
        return result

    def kernel(self, lo: Vector, hi: Vector) -> kernels.TopSum:
        """Return the term with space for the order of |x|."""
        n, signed = len(lo), bool((lo < 0).any())
        order, rank = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        return kernels.TopSum(_checked(self.s, n), self.lam, signed, order, rank, key=np.empty(n))


class AtMost(_OneTerm):
    """g(x) = 0 if at most s coordinates are non-zero, else ∞: a constraint on the number of non-zeros.

    It is the limit of :class:`TopSum` with h = λ‖x‖₁ as λ → ∞, without a λ to choose.
    """

    is_known = True
    lam = np.inf
    # Whether g(diag(d)x) = g(x) for every d without zeros.
    is_scale_free = True

    def __init__(self, s: int) -> None:
        self.s = whole_number(s, "s", 1)

    @property
    def free(self) -> int:
        """How many coordinates are left free."""
        return self.s

    def value(self, x: Vector) -> float:
        """Return 0; :meth:`violation` tells whether x has too many non-zeros."""
        return 0.0

    def violation(self, x: Vector) -> float:
        """Return the (s + 1)-th largest |xᵢ|, which is 0 if at most s coordinates are non-zero."""
        return 0.0 if self.s >= len(x) else float(np.sort(np.abs(x))[::-1][self.s])

    def of(self, n: int) -> AtMost:
        """Return the term for a problem with only n of the coordinates."""
        return AtMost(min(self.s, n))

    def subgradient(self, x: Vector, slope: Vector) -> Vector:
        """Return 0: a move that keeps the zeros at 0 has no cost."""
        return np.zeros(len(x))

    def kernel(self, lo: Vector, hi: Vector) -> kernels.AtMost:
        """Return the term with a counter of non-zeros."""
        return kernels.AtMost(_checked(self.s, len(lo)), np.zeros(1, dtype=np.int64))


def as_penalty(g: Any) -> Any:
    """Return g; refuse what lacks a part that runs and certificates need, naming it."""
    require(g, "g")
    if not isinstance(g.lam, Real):
        raise TypeError(f"lam of {type(g).__name__} is {g.lam!r}; it must be a number.")
    return g


def _checked(s: int, n: int) -> int:
    if s > n:
        raise ValueError(f"s is {s}, but there are {n} coordinates; it must be between 1 and {n}.")
    return s


class Norm2(_OneTerm):
    """g(x) = −λ‖x‖₂."""

    is_known = states_are_vertices = True

    def threshold(self, alpha: float, lo: Vector, hi: Vector) -> float | None:
        """Return ½α√n·b, above which at most one coordinate is off its bounds ±b, α the largest curvature of a pair."""
        reach = float(hi[0])
        return 0.5 * alpha * math.sqrt(len(lo)) * reach if (hi == reach).all() and (lo == -reach).all() else None

    def __init__(self, lam: float) -> None:
        self.lam = number(lam, "lam", 0.0, LARGEST_SQUARE)

    def value(self, x: Vector) -> float:
        """Return −λ‖x‖₂."""
        return -self.lam * float(np.linalg.norm(x))

    def subgradient(self, x: Vector, slope: Vector) -> Vector:
        """Return −λx/‖x‖₂, and 0 at x = 0."""
        norm = float(np.linalg.norm(x))
        return -self.lam * x / norm if norm > 0 else np.zeros_like(x)

    def tied_subgradient(self, x: Vector, slope: Vector, ties: str, signed: bool = False) -> Vector:
        """Return −λx/‖x‖₂; at x = 0, where any −λw with ‖w‖₂ ≤ 1 will do, 0 ("index") or the w of "slope".

        "slope" takes the direction with the sum 0 in which F falls most.
        """
        if ties == "index" or x.any():
            return self.subgradient(x, slope)
        centred = slope - slope.mean()
        length = float(np.linalg.norm(centred))
        return self.lam * centred / length if length > 0.0 else np.zeros_like(x)

    def kernel(self, lo: Vector, hi: Vector) -> kernels.Norm2:
        """Return the term with space for ‖x‖²."""
        return kernels.Norm2(self.lam, np.zeros(1))


class ConcaveQuadratic(_OneTerm):
    """g(x) = −λ‖x‖²."""

    is_known = True

    def threshold(self, alpha: float, lo: Vector, hi: Vector) -> float | None:
        """Return ¼α, above which every pair is concave, α the largest curvature of a pair."""
        return 0.25 * alpha

    def __init__(self, lam: float) -> None:
        self.lam = number(lam, "lam", 0.0, LARGEST_SQUARE)

    def value(self, x: Vector) -> float:
        """Return −λ‖x‖²."""
        return -self.lam * float(x @ x)

    @property
    def is_scale_free(self) -> bool:
        """Whether λ = 0, so that g = 0."""
        return self.lam == 0.0

    @property
    def bend(self) -> float:
        """The second derivative −2λ in every direction."""
        return -2.0 * self.lam

    def subgradient(self, x: Vector, slope: Vector) -> Vector:
        """Return −2λx."""
        return -2.0 * self.lam * x

    def kernel(self, lo: Vector, hi: Vector) -> kernels.ConcaveQuadratic:
        """Return the term, which stores nothing about x."""
        return kernels.ConcaveQuadratic(self.lam)

"""h: separable terms made of pieces, which can be added: ``Bounds(0, 0.1) + AbsoluteDeviation(x0, 0.002)``."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise.checks import LARGEST, LARGEST_SQUARE, Vector, float_array, number, real_array, refuse_extreme, spread
from counterpoise.kernels.separable import Separable as SeparableKernel
from counterpoise.terms.required import require


class SeparableTerm:
    """Σᵢ hᵢ(xᵢ), each hᵢ convex with finitely many linear or quadratic pieces.

    A term of your own is a subclass with the method :meth:`pieces`.
    """

    @property
    def parts(self) -> tuple[SeparableTerm, ...]:
        """The summands."""
        return (self,)

    def pieces(self, n: int) -> Pieces:
        """Return the term for n coordinates."""
        raise NotImplementedError

    def __add__(self, other: SeparableTerm) -> SeparableTerm:
        """Return the sum of two separable terms."""
        if not isinstance(other, SeparableTerm):
            return NotImplemented
        return SeparableSum(*self.parts, *other.parts)


class Pieces(SeparableTerm):
    """hᵢ(t) = wᵢt + ½bᵢt² + Σₖ costₖᵢ|t − knotₖᵢ| + ½Σₖ curveₖᵢ max(t − knotₖᵢ, 0)² on [loᵢ, hiᵢ].

    Every convex function with finitely many linear or quadratic pieces has this form: at a knot its slope jumps by
    2·cost and its second derivative by ``curve``.

    Parameters
    ----------
    lo, hi : number or array of length n
    floor : number or array of length n, optional
        xᵢ is 0, or between floorᵢ and hiᵢ; by default ``lo``.
    slope, bend : number or array of length n
        wᵢ and bᵢ.
    knots, cost, curve : sequence of numbers or arrays of length n
        One entry per knot.
    constant : float
        Added to h.
    """

    def __init__(
        self,
        lo: Any = -np.inf,
        hi: Any = np.inf,
        floor: Any = None,
        slope: Any = 0.0,
        bend: Any = 0.0,
        knots: Any = (),
        cost: Any = None,
        curve: Any = None,
        constant: float = 0.0,
    ) -> None:
        self.lo, self.hi = _bound(lo, "lo"), _bound(hi, "hi")
        self.floor = None if floor is None else _bound(floor, "floor")
        self.slope, self.bend = _rows([slope], "slope")[0], _rows([bend], "bend")[0]
        self.knots = _rows(knots, "knots", LARGEST)
        rows = len(self.knots)
        self.cost = _rows([0.0] * rows if cost is None else cost, "cost")
        self.curve = _rows([0.0] * rows if curve is None else curve, "curve")
        if not len(self.cost) == len(self.curve) == rows:
            raise ValueError(
                f"there are {rows} knots, {len(self.cost)} costs and {len(self.curve)} curves; "
                "give one of each per knot."
            )
        self.constant = number(constant, "constant")

    def pieces(self, n: int) -> Pieces:
        """Return the term itself."""
        return self


class SeparableSum(SeparableTerm):
    """The sum of several separable terms."""

    parts: tuple[SeparableTerm, ...] = ()

    def __init__(self, *parts: SeparableTerm) -> None:
        self.parts = parts


class Bounds(SeparableTerm):
    """lo ≤ x ≤ hi, each a number or one per coordinate; ±inf for none."""

    def __init__(self, lo: Any = -np.inf, hi: Any = np.inf) -> None:
        self.lo, self.hi = _bound(lo, "lo"), _bound(hi, "hi")

    def pieces(self, n: int) -> Pieces:
        """Return the bounds."""
        return Pieces(self.lo, self.hi)


class SemiContinuous(SeparableTerm):
    """xᵢ = 0 or loᵢ ≤ xᵢ ≤ hiᵢ, with lo ≥ 0: a coordinate is 0 or has at least a minimum size."""

    def __init__(self, lo: Any, hi: Any = np.inf) -> None:
        self.lo, self.hi = _bound(lo, "lo"), _bound(hi, "hi")
        if (self.lo < 0.0).any():
            raise ValueError(f"lo contains {self.lo.min():g}; the least value of a semicontinuous coordinate is ≥ 0.")
        if np.isinf(self.lo).any():
            raise ValueError("lo contains inf; the least value of a semicontinuous coordinate must be finite.")

    def pieces(self, n: int) -> Pieces:
        """Return bounds [0, hi] with the floor lo."""
        lo, hi = _stretch(self.lo, "lo", n), _stretch(self.hi, "hi", n)
        if (lo > hi).any():
            k = int(np.flatnonzero(lo > hi)[0])
            raise ValueError(
                f"coordinate {k} is 0 or between lo = {lo[k]:g} and hi = {hi[k]:g}; lo must not exceed hi."
            )
        return Pieces(0.0, hi, floor=lo)


class Linear(SeparableTerm):
    """wᵀx with w a number or one per coordinate."""

    def __init__(self, w: Any) -> None:
        self.w = real_array(w, "w")
        refuse_extreme(self.w, "w", LARGEST_SQUARE)

    def pieces(self, n: int) -> Pieces:
        """Return the slope."""
        return Pieces(slope=spread(self.w, "w", n))


class Ridge(SeparableTerm):
    """½Σ rhoᵢ(xᵢ − x0ᵢ)², which keeps x near x0."""

    def __init__(self, x0: Any, rho: Any) -> None:
        self.x0, self.rho = real_array(x0, "x0"), _weight(rho, "rho")
        refuse_extreme(self.x0, "x0")

    def pieces(self, n: int) -> Pieces:
        """Return ½ρx² − ρx0·x + ½ρx0²."""
        x0, rho = spread(self.x0, "x0", n), spread(self.rho, "rho", n)
        return Pieces(slope=-rho * x0, bend=rho, constant=0.5 * float(rho @ (x0 * x0)))


class AbsoluteDeviation(SeparableTerm):
    """Σ buyᵢ·max(xᵢ − x0ᵢ, 0) + sellᵢ·max(x0ᵢ − xᵢ, 0): the cost of moving away from x0 (turnover).

    Parameters
    ----------
    x0 : number or array of length n
    cost : number or array of length n
        Cost of buying, and of selling unless ``sell`` is given.
    sell : number or array of length n, optional
    buy : optional
        Another name for ``cost``.
    """

    def __init__(self, x0: Any, cost: Any = None, sell: Any = None, *, buy: Any = None) -> None:
        if (cost is None) == (buy is None):
            raise TypeError("AbsoluteDeviation needs cost, or buy and sell; give one of cost and buy.")
        self.x0 = real_array(x0, "x0")
        self.cost = _weight(cost, "cost") if buy is None else _weight(buy, "buy")
        self.sell = self.cost if sell is None else _weight(sell, "sell")
        refuse_extreme(self.x0, "x0")

    def pieces(self, n: int) -> Pieces:
        """Return ½(buy + sell)|x − x0| + ½(buy − sell)(x − x0)."""
        x0, buy, sell = spread(self.x0, "x0", n), spread(self.cost, "cost", n), spread(self.sell, "sell", n)
        tilt = 0.5 * (buy - sell)
        return Pieces(slope=tilt, knots=[x0], cost=[0.5 * (buy + sell)], constant=-float(tilt @ x0))


def _rows(given: Any, name: str, most: float = LARGEST_SQUARE) -> list[Any]:
    """Return one validated array per knot."""
    if isinstance(given, str) or not hasattr(given, "__len__") or getattr(given, "ndim", 1) == 0:
        raise TypeError(f"{name} is {given!r}; give a list with one number or array per knot.")
    rows = [real_array(row, name) for row in given]
    for row in rows:
        refuse_extreme(row, name, most)
    return rows


def _weight(values: Any, name: str) -> Any:
    """Return the weight of a convex term, which must not be negative."""
    result = real_array(values, name)
    refuse_extreme(result, name, LARGEST_SQUARE)
    if (result < 0.0).any():
        raise ValueError(f"{name} contains {result.min():g}; it must be at least 0, or h is not convex.")
    return result


def _bound(values: Any, name: str) -> Vector:
    result = float_array(values, name)
    if np.isnan(result).any():
        raise ValueError(f"{name} contains NaN at {np.flatnonzero(np.isnan(result))[0]}; use inf for no bound.")
    far = np.abs(result[np.isfinite(result)])
    if (far > LARGEST).any():
        raise ValueError(f"{name} contains ±{far.max():g}; use inf for no bound, or at most {LARGEST:g}.")
    return result


def compile_separable(h: SeparableTerm | None, n: int) -> tuple[SeparableKernel, float]:
    """Add up the terms of h in the form that kernels use; return that and the constant of h."""
    lo, hi, floor = np.full(n, -np.inf), np.full(n, np.inf), np.full(n, -np.inf)
    weight, bend, constant = np.zeros(n), np.zeros(n), 0.0
    rows: list[tuple[Vector, Vector, Vector]] = []
    for part in () if h is None else (h.parts if isinstance(h, SeparableTerm) else (h,)):
        piece = _pieces_of(part, n)
        lo, hi = np.maximum(lo, _stretch(piece.lo, "lo", n)), np.minimum(hi, _stretch(piece.hi, "hi", n))
        if piece.floor is not None:
            floor = np.maximum(floor, _stretch(piece.floor, "floor", n))
        weight += spread(piece.slope, "slope", n)
        bend += spread(piece.bend, "bend", n)
        constant += piece.constant
        for knot, cost, curve in zip(piece.knots, piece.cost, piece.curve, strict=True):
            rows.append((spread(knot, "knots", n), spread(cost, "cost", n), spread(curve, "curve", n)))
    if (lo > hi).any():
        k = int(np.flatnonzero(lo > hi)[0])
        raise ValueError(f"the bounds of coordinate {k} are empty: lo = {lo[k]:g} > hi = {hi[k]:g}.")
    floor = _floors(lo, hi, floor)
    lo = np.where((floor > lo) & (lo > 0.0), floor, lo)  # a coordinate that must not be 0 has no gap
    centre, cost, curve = (np.array([row[k] for row in rows]).reshape(len(rows), n) for k in range(3))
    kernel = SeparableKernel(lo, hi, floor, weight, bend, centre, cost, curve)
    _refuse_nonconvex(kernel)
    return kernel, constant


def _pieces_of(part: SeparableTerm, n: int) -> Pieces:
    """Return the pieces of a summand of h; refuse what has none."""
    require(part, "h", SeparableTerm)
    piece = part.pieces(n)
    if not isinstance(piece, Pieces):
        raise TypeError(
            f"{type(part).__name__}.pieces(n) returned a {type(piece).__name__}; it must return counterpoise.Pieces."
        )
    return piece


def _floors(lo: Vector, hi: Vector, floor: Vector) -> Vector:
    """Return the floors, ``lo`` where there is none; refuse floors that leave no feasible value."""
    floor = np.maximum(lo, floor)
    gapped = floor > lo
    if (gapped & (lo < 0.0)).any():
        k = int(np.flatnonzero(gapped & (lo < 0.0))[0])
        raise ValueError(f"coordinate {k} is semicontinuous, but its lower bound is {lo[k]:g}; it must be 0.")
    empty = gapped & (floor > hi)
    if (empty & (lo > 0.0)).any():
        k = int(np.flatnonzero(empty & (lo > 0.0))[0])
        raise ValueError(f"coordinate {k} must be at least {floor[k]:g} or 0, and between {lo[k]:g} and {hi[k]:g}.")
    # If the upper bound is below the floor, only 0 is left.
    hi[empty], floor[empty] = 0.0, 0.0
    return floor


def _refuse_nonconvex(h: SeparableKernel) -> None:
    """Refuse knots at which the slope decreases, and concave pieces."""
    if (h.cost < 0.0).any():
        raise ValueError(f"cost contains {h.cost.min():g}; it must be at least 0, or h is not convex.")
    bends = h.bend[None, :]
    if len(h.curve):
        order = np.argsort(h.centre, axis=0, kind="stable")
        bends = np.vstack([h.bend, h.bend + np.cumsum(np.take_along_axis(h.curve, order, axis=0), axis=0)])
    size = np.abs(h.bend) + np.abs(h.curve).sum(axis=0)
    if (bends < -1e-12 * size).any():
        raise ValueError(f"a piece of h has the second derivative {bends.min():g}; it must be at least 0 to be convex.")


def _stretch(values: Vector, name: str, n: int) -> Vector:
    if values.ndim == 0:
        return np.full(n, float(values))
    if values.shape != (n,):
        raise ValueError(f"{name} has shape {values.shape}; it must be a number or have shape ({n},).")
    return values


def take(h: SeparableKernel, members: Any) -> SeparableKernel:
    """Return h restricted to the given coordinates."""
    return SeparableKernel(*(part[..., members] for part in h))


def scaled(h: SeparableKernel, d: Vector) -> tuple[SeparableKernel, float]:
    """Return h(diag(d)x) and the constant that it omits; a negative dᵢ mirrors the coordinate."""
    if ((h.floor > h.lo) & (d < 0.0)).any():
        raise ValueError("a semicontinuous coordinate has a negative weight in Sum; its weight must be positive.")
    turned, inner, size = d < 0.0, h.centre / d, np.abs(d)
    lo, hi = np.where(turned, h.hi, h.lo) / d, np.where(turned, h.lo, h.hi) / d
    floor = np.where(h.floor > h.lo, h.floor / d, lo)
    # A mirrored piece ½c·max(k − t, 0)² is ½c(t − k)² − ½c·max(t − k, 0)².
    curve = h.curve * size**2
    around = np.where(turned, curve, 0.0)
    bend = h.bend * size**2 + around.sum(axis=0)
    weight = h.weight * d - (around * inner).sum(axis=0)
    kernel = SeparableKernel(lo, hi, floor, weight, bend, inner, h.cost * size, np.where(turned, -curve, curve))
    return kernel, 0.5 * float((around * inner**2).sum())


def as_term(h: SeparableKernel) -> Pieces:
    """Return the term that compiles to h."""
    return Pieces(h.lo, h.hi, h.floor, h.weight, h.bend, list(h.centre), list(h.cost), list(h.curve))


def is_gapped(h: SeparableKernel) -> bool:
    """Return whether a coordinate is semicontinuous."""
    return bool((h.floor > h.lo).any())


def is_linear(h: SeparableKernel) -> bool:
    """Return whether h is linear between its bounds."""
    return not len(h.centre) and not h.bend.any()


def separable_value(h: SeparableKernel, x: Vector) -> float:
    """Return Σ hᵢ(xᵢ) without its constant, bounds ignored."""
    beyond = x - h.centre
    kinks = (h.cost * np.abs(beyond) + 0.5 * h.curve * np.maximum(beyond, 0.0) ** 2).sum()
    return float((h.weight + 0.5 * h.bend * x) @ x + kinks)


def separable_size(h: SeparableKernel, x: Vector) -> float:
    """Return a bound on the sum of the magnitudes of the terms in :func:`separable_value`."""
    size, beyond = np.abs(x) + np.abs(h.centre), np.maximum(x - h.centre, 0.0)
    kinks = (h.cost * size + np.abs(h.curve) * beyond * size).sum()
    return float((np.abs(h.weight) + 0.5 * h.bend * np.abs(x)) @ np.abs(x) + kinks)


def smooth_slopes(h: SeparableKernel, x: Vector) -> Vector:
    """Return the derivative of h without its kinks."""
    return np.asarray(h.weight + h.bend * x + (h.curve * np.maximum(x - h.centre, 0.0)).sum(axis=0), dtype=np.float64)


def bends(h: SeparableKernel, x: Vector) -> Vector:
    """Return the second derivatives of h to the right of x."""
    return np.asarray(h.bend + np.where(x >= h.centre, h.curve, 0.0).sum(axis=0), dtype=np.float64)


def one_sided_slopes(h: SeparableKernel, x: Vector) -> tuple[Vector, Vector]:
    """Return the left and right derivatives of every hᵢ at xᵢ, bounds ignored."""
    smooth = smooth_slopes(h, x)
    left = smooth + np.where(x > h.centre, h.cost, -h.cost).sum(axis=0)
    right = smooth + np.where(x >= h.centre, h.cost, -h.cost).sum(axis=0)
    return left, right


def distance_to_bounds(h: SeparableKernel, x: Vector) -> float:
    """Return the largest distance of a coordinate from its bounds, or from both 0 and its floor."""
    gap = np.minimum(np.abs(x), h.floor - x)[h.floor > h.lo]
    return float(max(np.max(h.lo - x, initial=0.0), np.max(x - h.hi, initial=0.0), np.max(gap, initial=0.0)))


def keeps_floors(h: SeparableKernel, x: Vector) -> bool:
    """Return whether every semicontinuous coordinate is 0, or at least its floor up to rounding."""
    return not bool(((h.floor > h.lo) & (x != 0.0) & (x < h.floor * (1.0 - 1e-9))).any())


def nearest_admitted(h: SeparableKernel, x: Vector) -> Vector:
    """Return x with every coordinate moved to its nearest feasible value, bounds and floors considered."""
    at = np.clip(x, h.lo, h.hi)
    gap = (at > 0.0) & (at < h.floor) & (h.floor > h.lo)
    at[gap] = np.where(at < 0.5 * h.floor, 0.0, h.floor)[gap]
    return at

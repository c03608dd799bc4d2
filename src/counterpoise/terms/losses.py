"""Non-quadratic f: weighted sums of a scalar loss φ, f(x) = Σₜ vₜ φ(zₜ) with z = Ax − y.

A loss is an object with three functions of the whole vector z, ``value``, ``slope`` and ``curvature`` (φ, φ′ and φ″; at
a jump of φ″ either one-sided value), and a number ``bound`` L with φ″ ≤ L. φ must be convex.

Assumption (ii) of the paper then holds with Q = L·AᵀVA: f(z) ≤ f(x) + ⟨∇f(x), z − x⟩ + ½(z − x)ᵀQ(z − x). This model is
a least squares problem with the same A, the weights Lv and y′ = Ax − φ′(Ax − y)/L, so that all kernels apply to it.
With the local curvatures φ″ instead of L it is the second-order model of f at x, closer to f but not a bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np

from counterpoise.checks import LARGEST, Vector, matrix, number, vector
from counterpoise.terms.columns import DataTerm
from counterpoise.terms.required import require
from counterpoise.terms.smooth import LeastSquares

# The smallest ``mix`` of a model, which keeps its curvatures positive, as a least squares problem needs.
SMALLEST_MIX = 1e-10
# The points at which a loss is tested and the steps from them, in multiples of a unit.
TESTED = np.array([-30.0, -3.0, -1.0, -0.3, -0.01, 0.0, 0.01, 0.3, 1.0, 3.0, 30.0])
TEST_STEPS = -10.0, -0.1, 0.1, 10.0
# The curvature must lie between the difference quotients of the slope to the left and to the right, over one of these
# steps: a fraction of the unit, or of the distance over which the slope can rise to its size. What may be off is a
# share of the quotients plus one of the bound.
NEAR_UNIT, NEAR_SLOPES, OFF_QUOTIENT, OFF_BOUND = 1e-5, (1e-3, 1e-6), 1e-2, 1e-3


class ScalarLoss(Protocol):
    """The interface of φ in :class:`Loss`. Its functions get the whole z, so that φ may differ between rows."""

    @property
    def bound(self) -> float:
        """L > 0 with φ″ ≤ L."""

    def value(self, z: Vector) -> Vector:
        """Return φ(zₜ)."""

    def slope(self, z: Vector) -> Vector:
        """Return φ′(zₜ)."""

    def curvature(self, z: Vector) -> Vector:
        """Return φ″(zₜ), between 0 and ``bound``."""


class Loss(DataTerm):
    """f(x) = Σₜ vₜ φ((Ax − y)ₜ) with a convex scalar loss φ of your own.

    Parameters
    ----------
    phi : object
        It has ``value(z)``, ``slope(z)`` and ``curvature(z)``, functions of the array z = Ax − y, and ``bound``. If
        ``takes_rows`` is True, ``value`` also takes a matrix with one z per row, which makes binary problems faster.
    A : array or SciPy sparse matrix, m × n
        Dense data may be float32.
    y : array of length m, or a number
    weights : array of length m, or a number, optional
        v ≥ 0, by default 1.
    gram : bool, optional
        Whether to store AᵀVA, as for :class:`LeastSquares`.
    """

    is_known = is_convex = True
    quadratic = None

    def __init__(self, phi: ScalarLoss, A: Any, y: Any = 0.0, weights: Any = None, gram: bool | None = None) -> None:
        self._take_data(A, y, weights, gram)
        _check_loss(phi, self.y)
        self.phi: ScalarLoss = phi if isinstance(phi, _HuberLoss | _LogisticLoss) else _Own(phi)
        self.refuse_extreme_squares(phi.bound, f"the bound of {type(phi).__name__}")
        self._seen: tuple[Vector, Vector] | None = None

    def _anew(self) -> Self:
        other = super()._anew()
        other._seen = None
        return other

    def widened(self, stretch: float) -> Self:
        """Return f with φ(stretch·z)/stretch for φ: for a stretch below 1 a loss that bends over a wider range."""
        other = self._anew()
        other.phi = _Widened(self.phi, stretch)
        return other

    def _residual_of(self, x: Vector) -> Vector:
        """Return Ax − y, cached for the last x."""
        seen = self._seen
        if seen is not None and np.array_equal(seen[0], x):
            return seen[1]
        z = self.residual(x)
        self._seen = x.copy(), z
        return z

    def value(self, x: Vector) -> float:
        """Return Σₜ vₜφ(zₜ)."""
        return float(self.weighted(self.phi.value(self._residual_of(x))).sum())

    def gradient(self, x: Vector) -> Vector:
        """Return AᵀVφ′(z)."""
        return self.transposed(self.weighted(self.phi.slope(self._residual_of(x))))

    def slope_along(self, x: Vector, step: Vector) -> Callable[[float], float]:
        """Return the derivative of f(x + t·step) in t, as a function of t that needs no product with A."""
        z, along = self._residual_of(x), self.residual(step) + self.y
        return lambda t: float(self.weighted(self.phi.slope(z + t * along)) @ along)

    @cached_property
    def majorant(self) -> LeastSquares:
        """½L·Σₜ vₜ(Ax)ₜ², whose Hessian Q is that of assumption (ii)."""
        weights = self.phi.bound * (np.ones(self.m) if self.weights is None else self.weights)
        return LeastSquares(self.A, 0.0, gram=self.gram, weights=weights)

    def model(self, x: Vector, mix: float = 1.0) -> tuple[LeastSquares, float]:
        """Return a quadratic model of f at x, and the constant that it omits.

        Value and gradient are those of f at x. The curvature of row t is φ″ + mix·(L − φ″), mix ∈ [0, 1]: with 1 the
        model is an upper bound of f, with 0 it is the second-order model, whose slopes are exact but whose value may
        suffer from cancellation.
        """
        z, bound = self._residual_of(x), self.phi.bound
        slope, base = self.phi.slope(z), self.majorant
        if mix >= 1.0:
            pull = slope / bound
            model = base.around(z + self.y - pull)
        else:
            curvature = self.curvature(z)
            curvature = curvature + max(mix, SMALLEST_MIX) * (bound - curvature)
            pull = slope / curvature
            model = base.around(z + self.y - pull, self.weighted(curvature))
        return model, float(self.weighted(self.phi.value(z) - 0.5 * slope * pull).sum())

    def curvature(self, z: Vector) -> Vector:
        """Return φ″(zₜ); refuse a value outside [0, L], because certificates rely on the bound."""
        return _bounded(self.phi, self.phi.curvature(z))

    @property
    def value_at_zero(self) -> float:
        """f(0)."""
        return self.value(np.zeros(self.n))

    @property
    def diagonal(self) -> Vector:
        """The diagonal of Q, L times the squared column norms."""
        return self.majorant.diagonal

    @property
    def reach(self) -> Vector:
        """Numbers wᵢ with |Q_ij| ≤ wᵢwⱼ."""
        return self.majorant.reach

    def size(self, x: Vector) -> float:
        """Return a bound on the sum of the magnitudes of the terms of f(x) and its models.

        Kernels evaluate a model as a quadratic form, with slopes Qx + p, so that ½(Σwᵢ|xᵢ|)² is a part of it, however
        flat φ is. Claims over pairs are made on models. Where F itself is evaluated :meth:`value_size` is enough.
        """
        along = float(self.reach @ np.abs(x))
        return self._parts(x, along) + 0.5 * along * along

    def value_size(self, x: Vector) -> float:
        """Return a bound of the sum of the magnitudes of what f(x) itself adds up.

        Σv|φ|, the change of f by rounding of z, Σv|φ′|(|A||x| + |y|), and how far f can change while z moves by |A||x|,
        so that the bound does not vanish where f(x) does: at most ½(Σwᵢ|xᵢ|)², and at most the steepest slopes over
        that range times |A||x|. For a Huber loss all of it is in proportion to δ where δ is small, as f is.
        """
        along = float(self.reach @ np.abs(x))
        v = np.ones(self.m) if self.weights is None else self.weights
        # |A||x| is nowhere larger than this; rows without weight do not count.
        far = along / np.sqrt(self.phi.bound * np.where(v > 0.0, v, np.inf))
        z = self._residual_of(x)
        steepest = np.maximum(np.abs(self.phi.slope(z - far)), np.abs(self.phi.slope(z + far)))
        return self._parts(x, along) + along * min(0.5 * along, self._length(steepest))

    def _parts(self, x: Vector, along: float) -> float:
        """Return Σv|φ| + Σv|φ′|(|A||x| + |y|), or a little more, where ``along`` is Σwᵢ|xᵢ|."""
        z = self._residual_of(x)
        slope = np.abs(self.phi.slope(z))
        sums = self.weighted(np.abs(self.phi.value(z)) + slope * np.abs(self.y))
        return float(sums.sum()) + along * self._length(slope)

    def _length(self, slope: Vector) -> float:
        """Return √(Σv·slope²/L); times Σwᵢ|xᵢ| it is at least Σv·slope·|A||x|, by the Cauchy–Schwarz inequality."""
        return math.sqrt(float(slope @ self.weighted(slope)) / self.phi.bound)

    @property
    def is_nonnegative(self) -> bool:
        """Whether f(x) ≥ 0 for every x is known."""
        return bool(getattr(self.phi, "is_nonnegative", False))

    def largest_spread(self, c: float) -> float:
        """Return a bound on |∇ᵢf − ∇ⱼf| over all x ≥ 0 with 1ᵀx = c, from the range of every row of A."""
        least, most = _ends(self.A.min(axis=1)), _ends(self.A.max(axis=1))
        ends = [np.abs(self.phi.slope(c * end - self.y)) for end in (least, most)]
        return float((self.weighted(np.maximum(*ends)) * (most - least)).sum())


def _ends(values: Any) -> Vector:
    """Return the least or largest entries of the rows as a dense vector; for sparse A they are a sparse column."""
    dense = values.toarray() if hasattr(values, "toarray") else values
    return np.asarray(dense, dtype=np.float64).ravel()


def _check_loss(phi: ScalarLoss, y: Vector) -> None:
    """Refuse a loss that is not convex, or whose slope, curvature or bound is wrong, at a sample of z.

    0 ≤ φ(z + e) − φ(z) − φ′(z)e ≤ ½Le² for all z and e means both convexity and the upper bound.
    """
    require(phi, "phi")
    name = type(phi).__name__
    bound = number(phi.bound, f"the bound of {name}", 0.0, LARGEST)
    if bound == 0.0:
        raise ValueError(f"the bound of {name} is 0; it must be positive, with φ″ at most as large.")
    units = {1.0, float(np.abs(y).max(initial=0.0)) or 1.0}
    for unit, first in itertools.product(units, range(0, len(TESTED), len(y))):
        z = unit * np.resize(np.roll(TESTED, -first), len(y))
        value, slope, curvature = (_called(phi, part, z) for part in ("value", "slope", "curvature"))
        curvature = _bounded(phi, curvature)
        for step in TEST_STEPS:
            e = unit * step
            ahead = _called(phi, "value", z + e)
            excess = ahead - value - slope * e
            rounding = 1e-9 * (np.abs(ahead) + np.abs(value) + np.abs(slope * e))
            wrong = np.flatnonzero((excess < -rounding) | (excess > 0.5 * bound * e * e + rounding))
            if len(wrong):
                t = int(wrong[0])
                raise ValueError(
                    f"value, slope and bound of {name} do not fit: φ(z + e) − φ(z) − φ′(z)e must lie between 0 and "
                    f"½·{bound:g}·e², but at z = {z[t]:g}, e = {e:g} it is {excess[t]:g}."
                )
        _check_curvature(phi, z, slope, curvature, unit)


def _check_curvature(phi: ScalarLoss, z: Vector, slope: Vector, curvature: Vector, unit: float) -> None:
    """Refuse a curvature that is not the derivative of the slope; where that jumps, it may be on either side."""
    size, bound = float(np.abs(slope).max()), phi.bound
    off, rate = np.full(len(z), np.inf), curvature
    for step in (NEAR_UNIT * unit, *(near * size / bound for near in NEAR_SLOPES if size > 0.0)):
        ends = z - step, z + step
        moved = (ends[0] < z) & (z < ends[1])
        left = (slope - _called(phi, "slope", ends[0])) / np.where(moved, z - ends[0], np.inf)
        right = (_called(phi, "slope", ends[1]) - slope) / np.where(moved, ends[1] - z, np.inf)
        low, high = np.minimum(left, right), np.maximum(left, right)
        room = OFF_QUOTIENT * high + OFF_BOUND * bound + 1e-12 * size / step
        beyond = np.where(moved, np.maximum(low - curvature, curvature - high) - room, np.inf)
        rate = np.where(beyond < off, np.clip(curvature, low, high), rate)
        off = np.minimum(off, beyond)
    wrong = np.flatnonzero((off > 0.0) & np.isfinite(off))
    if len(wrong):
        t = int(wrong[0])
        raise ValueError(
            f"the curvature of {type(phi).__name__} at z = {z[t]:g} is {curvature[t]:g}, but its slope rises there at "
            f"a rate of {rate[t]:.3g}; it must be φ″, the derivative of the slope."
        )


def _bounded(phi: ScalarLoss, curvature: Vector) -> Vector:
    """Return curvatures within [0, L]; refuse those that are outside by more than rounding."""
    bound, name = phi.bound, type(getattr(phi, "own", phi)).__name__
    if not (curvature.min() >= -1e-12 * bound and curvature.max() <= (1.0 + 1e-12) * bound):
        raise ValueError(
            f"the curvature of {name} reaches from {curvature.min():g} to {curvature.max():g}; "
            f"it must lie between 0 and its bound, {bound:g}."
        )
    return np.clip(curvature, 0.0, bound)


def _called(phi: ScalarLoss, part: str, z: Vector) -> Vector:
    """Return one of the functions of a loss at z; refuse one that takes numbers only."""
    name = f"{type(phi).__name__}.{part}(z)"
    try:
        values = getattr(phi, part)(z)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} fails for a vector z ({error}); write it with NumPy functions.") from error
    except Exception as error:
        raise _raised(phi, part, error) from error
    return vector(values, name, len(z))


def _raised(phi: ScalarLoss, part: str, error: Exception) -> RuntimeError:
    """Return an error that names the function of a user's loss that has raised one."""
    return RuntimeError(f"{type(phi).__name__}.{part}(z) raised {type(error).__name__}: {error}")


class _Own:
    """A loss of the user's own, whose exceptions name it."""

    def __init__(self, own: ScalarLoss) -> None:
        self.own, self.bound = own, own.bound
        self.is_nonnegative = bool(getattr(own, "is_nonnegative", False))
        self.takes_rows = bool(getattr(own, "takes_rows", False))

    def _of(self, part: str, z: Vector) -> Vector:
        try:
            values: Vector = getattr(self.own, part)(z)
        except Exception as error:
            raise _raised(self.own, part, error) from error
        return values

    def value(self, z: Vector) -> Vector:
        return self._of("value", z)

    def slope(self, z: Vector) -> Vector:
        return self._of("slope", z)

    def curvature(self, z: Vector) -> Vector:
        return self._of("curvature", z)


class _Widened:
    """φ(sz)/s with an s < 1: the same slopes far away, and a corner that is wider by 1/s."""

    def __init__(self, phi: ScalarLoss, stretch: float) -> None:
        self.phi, self.stretch, self.bound = phi, stretch, stretch * phi.bound

    def value(self, z: Vector) -> Vector:
        return self.phi.value(self.stretch * z) / self.stretch

    def slope(self, z: Vector) -> Vector:
        return self.phi.slope(self.stretch * z)

    def curvature(self, z: Vector) -> Vector:
        return self.stretch * self.phi.curvature(self.stretch * z)


class _HuberLoss:
    """½z² for −low ≤ z ≤ high and linear beyond, plus ½·ties·z² everywhere.

    Huber has low = high = δ; one-sided losses have high = 0 and low = δ or ∞. Rows of a matrix z count as several z.
    """

    is_nonnegative = takes_rows = True

    def __init__(self, low: float, high: float, ties: float = 0.0) -> None:
        self.low, self.high, self.ties, self.bound = low, high, ties, 1.0 + ties

    def slope(self, z: Vector) -> Vector:
        return np.asarray(np.clip(z, -self.low, self.high) + self.ties * z, dtype=np.float64)

    def value(self, z: Vector) -> Vector:
        inner = np.clip(z, -self.low, self.high)
        return np.asarray(inner * (z - 0.5 * inner) + 0.5 * self.ties * z * z, dtype=np.float64)

    def curvature(self, z: Vector) -> Vector:
        return ((z > -self.low) & (z < self.high)).astype(np.float64) + self.ties


class _LogisticLoss:
    """log(1 + e^(−lz)) with a label l = ±1 for every row."""

    bound, is_nonnegative, takes_rows = 0.25, True, True

    def __init__(self, labels: Vector) -> None:
        self.labels = labels

    def value(self, z: Vector) -> Vector:
        return np.logaddexp(0.0, -self.labels * z)

    def slope(self, z: Vector) -> Vector:
        return np.asarray(-self.labels * np.exp(-np.logaddexp(0.0, self.labels * z)), dtype=np.float64)

    def curvature(self, z: Vector) -> Vector:
        return np.asarray(np.exp(-np.logaddexp(0.0, z) - np.logaddexp(0.0, -z)), dtype=np.float64)


class Huber(Loss):
    """f(x) = Σₜ vₜφ(zₜ), z = Ax − y, φ(z) = ½z² for |z| ≤ δ, else δ|z| − ½δ²: least squares robust to outliers.

    Parameters
    ----------
    A : array or SciPy sparse matrix, m × n
    y : array of length m, or a number
    delta : float
        δ > 0.
    weights : array of length m, or a number, optional
        v ≥ 0, by default 1.

    Examples
    --------
    >>> import numpy as np
    >>> import counterpoise as cp
    >>> f = cp.Huber(np.eye(3), [0.7, 0.3, 100.0], delta=0.1)
    >>> cp.minimize(cp.Problem(f, cp.Bounds(0, 1), u=cp.Sum(1))).x.round(3).tolist()
    [0.6, 0.2, 0.2]
    """

    is_known = True

    def __init__(self, A: Any, y: Any, delta: float, weights: Any = None) -> None:
        self.delta = _corner(delta)
        super().__init__(_HuberLoss(self.delta, self.delta), A, y, weights)


class Downside(Loss):
    """f(x) = ½Σₜ vₜ min(zₜ, 0)², z = Ax − y: only days on which the portfolio Ax is below the index y count.

    Parameters
    ----------
    A : array or SciPy sparse matrix, m × n
    y : array of length m, or a number
    weights : array of length m, or a number, optional
        v ≥ 0, by default 1.
    ties : float
        Adds ½·ties·Σₜ vₜzₜ²; 0 by default. The loss is 0 if Ax is nowhere below y, which often holds for many x; a
        small value such as 1e-9 then prefers the x with Ax closest to y.
    """

    is_known = True

    def __init__(self, A: Any, y: Any, weights: Any = None, ties: float = 0.0) -> None:
        super().__init__(_HuberLoss(np.inf, 0.0, _share(ties)), A, y, weights)


class HuberDownside(Loss):
    """f(x) = Σₜ vₜφ(min(zₜ, 0)), z = Ax − y, with the φ of :class:`Huber`.

    Parameters
    ----------
    A : array or SciPy sparse matrix, m × n
    y : array of length m, or a number
    delta : float
        δ > 0.
    weights : array of length m, or a number, optional
        v ≥ 0, by default 1.
    ties : float
        Adds ½·ties·Σₜ vₜzₜ²; 0 by default. The loss is 0 if Ax is nowhere below y, which often holds for many x; a
        small value such as 1e-9 then prefers the x with Ax closest to y.
    """

    is_known = True

    def __init__(self, A: Any, y: Any, delta: float, weights: Any = None, ties: float = 0.0) -> None:
        self.delta = _corner(delta)
        super().__init__(_HuberLoss(self.delta, 0.0, _share(ties)), A, y, weights)


class Logistic(Loss):
    """f(x) = Σₜ vₜ log(1 + exp(−labelₜ·aₜᵀx)): logistic regression, φ″ ≤ ¼.

    Parameters
    ----------
    A : array or SciPy sparse matrix, m × n
    labels : array of length m
        1 or −1 for every row.
    weights : array of length m, or a number, optional
        v ≥ 0, by default 1.
    """

    is_known = True

    def __init__(self, A: Any, labels: Any, weights: Any = None) -> None:
        A = matrix(A, "A")
        self.labels = vector(labels, "labels", A.shape[0])
        if np.asarray(labels).dtype == np.bool_:
            raise TypeError("labels has dtype bool; every label must be 1 or −1, such as np.where(labels, 1, -1).")
        wrong = np.flatnonzero(np.abs(self.labels) != 1.0)
        if len(wrong):
            raise ValueError(f"labels contains {self.labels[wrong[0]]:g} at {wrong[0]}; every label must be 1 or −1.")
        super().__init__(_LogisticLoss(self.labels), A, 0.0, weights)


def _share(ties: float) -> float:
    """Return the share of the squares that a one-sided loss counts on both sides."""
    share = number(ties, "ties")
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"ties is {share:g}; it must be between 0 and 1.")
    return share


def _corner(delta: float) -> float:
    """Return δ, the |residual| above which a Huber loss is linear, checked to be positive."""
    corner = number(delta, "delta", most=LARGEST)
    if corner <= 0.0:
        raise ValueError(f"delta is {corner:g}; it must be positive.")
    return corner

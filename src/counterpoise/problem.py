"""Problems F = f + h + g with u(x) = 0, and the results of runs."""

from __future__ import annotations

import copy
import enum
import inspect
import math
import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from counterpoise.checks import Vector, number, random_seed, vector
from counterpoise.kernels import concave as concave_kernels
from counterpoise.kernels.dispatch import has_body
from counterpoise.kernels.line import ULP as ROUNDED
from counterpoise.kernels.pair import WORK_ROWS, Terms, pair_step, repair
from counterpoise.terms import separable
from counterpoise.terms.concave import AtMost, ConcaveQuadratic, ConcaveTerm, as_penalty
from counterpoise.terms.constraint import as_constraint
from counterpoise.terms.losses import Loss
from counterpoise.terms.required import require_known
from counterpoise.terms.separable import SeparableTerm, as_term, is_gapped, separable_size, separable_value
from counterpoise.terms.smooth import LeastSquares, Quadratic

# Feasibility tolerance, relative to the largest |xᵢ| of any feasible point.
FEASIBLE = 1e-12


class Problem:
    """Minimise F(x) = f(x) + h(x) + g(x) subject to u(x) = 0, eq. (problem original) of the paper.

    Parameters
    ----------
    f : LeastSquares, Quadratic, Huber, Downside, HuberDownside, Logistic or Loss
        If f is not quadratic, steps and certificates use its quadratic :meth:`model`.
    h : Bounds, Linear, Ridge, AbsoluteDeviation, SemiContinuous, a term of your own, or a sum of them, optional
    g : TopSum, AtMost, Norm2, ConcaveQuadratic or a term of your own, optional
    u : Sum, Sphere or a constraint of your own
    constant : float
        Added to the objective; it does not affect steps.
    name : str

    Examples
    --------
    >>> import numpy as np
    >>> import counterpoise as cp
    >>> f = cp.LeastSquares(np.eye(3), [0.7, 0.3, 0.1])
    >>> problem = cp.Problem(f=f, h=cp.Bounds(0, 1), g=cp.TopSum(s=2, lam=1.0), u=cp.Sum(1))
    >>> cp.minimize(problem).x.round(3).tolist()
    [0.7, 0.3, 0.0]
    """

    def __init__(
        self,
        f: LeastSquares | Quadratic | Loss,
        h: SeparableTerm | None = None,
        g: ConcaveTerm | None = None,
        u: Any = None,
        constant: float = 0.0,
        name: str = "Problem",
    ) -> None:
        require_known(f, "f")
        self.f: Any = f
        self.h, self.u = h, as_constraint(u)
        self._has_g = g is not None
        self.g: Any = ConcaveQuadratic(0.0) if g is None else as_penalty(g)
        self.n, self.constant, self.name = f.n, number(constant, "constant"), name
        self.separable, self._separable_constant = separable.compile_separable(h, self.n)
        self._check()

    def _check(self) -> None:
        """Refuse terms that do not fit together, before any kernel runs."""
        if not self._has_g and is_gapped(self.separable):
            self.g = AtMost(self.n)  # its exchanges know that coordinates may be 0
        if self.u.weights is not None:
            _ = self.unweighted
            return
        self.u.check(self.separable)
        self._check_step()

    @property
    def offset(self) -> float:
        """The constant part of F: ``constant`` plus the constant of h."""
        return float(self.constant + self._separable_constant)

    @cached_property
    def unweighted(self) -> Problem:
        """The problem in z = a∘x, for a sum with weights a: 1ᵀz = c."""
        a = vector(self.u.weights, "weights of Sum", self.n)
        if not getattr(self.g, "is_scale_free", False):
            raise TypeError(
                f"{type(self.g).__name__} has no exact pair step on a Sum with weights: solved in z = a∘x it would be "
                "another term. Use AtMost(s) or no g."
            )
        h, constant = separable.scaled(self.separable, 1.0 / a)
        return Problem(self.f.scaled(1.0 / a), as_term(h), self.g, self.u.unweighted, self.offset + constant, self.name)

    def _check_step(self) -> None:
        """Refuse a (u, g) pair that has no exact step, before any kernel runs."""
        verb, g, u = self.u.step_verb, self.g, type(self.u).__name__
        kernel_type, u_type = type(g.kernel(self.separable.lo, self.separable.hi)), type(self.u.kernel(self.separable))
        for needed in (pair_step, repair):
            if not has_body(needed, u_type):
                raise TypeError(
                    f"{u} has no `{needed.__name__}`: register a body of it for {u_type.__name__} with "
                    "counterpoise.kernels.dispatch.implements."
                )
        if verb is None and g.lam != 0.0:
            raise TypeError(
                f"{u} has no `step_verb`, the verb of g that its pair step calls, so that its steps ignore g; leave g "
                f"out, it is {type(g).__name__}."
            )
        for needed in (verb, concave_kernels.change):
            if needed is not None and not has_body(needed, kernel_type):
                raise TypeError(
                    f"{type(g).__name__} has no exact pair step on {u}: register a body of "
                    f"`{needed.__name__}` for {kernel_type.__name__} with counterpoise.kernels.dispatch.implements."
                )

    def __repr__(self) -> str:
        terms = (self.f, *(() if self.h is None else self.h.parts), *([self.g] if self._has_g else []), self.u)
        return f"{self.name}(n={self.n}: {' + '.join(type(term).__name__ for term in terms)})"

    def objective(self, x: Any) -> float:
        """Return f(x) + h(x) + g(x) + constant; bounds and u are reported by :meth:`violation`."""
        return self.value_and_resolution(vector(x, "x", self.n))[0]

    def violation(self, x: Any) -> float:
        """Return the distance from feasibility: the largest violation of the bounds, of u(x) = 0 and of g."""
        x = vector(x, "x", self.n)
        if self.u.weights is not None:
            return max(separable.distance_to_bounds(self.separable, x), self.unweighted.violation(self.u.weights * x))
        missed = max(separable.distance_to_bounds(self.separable, x), self.u.violation(x))
        # Only a g that is a constraint has a violation.
        return float(max(missed, self.g.violation(x))) if hasattr(self.g, "violation") else missed

    @cached_property
    def free(self) -> int | None:
        """How many coordinates g leaves free, s of ``TopSum`` and ``AtMost``; None for a g that does not count them."""
        return getattr(self.g, "free", None)

    @cached_property
    def most_nonzeros(self) -> int:
        """How many coordinates may be non-zero: n, or fewer if g is a constraint on their number."""
        return int(min(self.g.free, self.n)) if hasattr(self.g, "violation") else self.n

    @cached_property
    def is_convex_set(self) -> bool:
        """Whether the bounds, and g if it is a constraint, are convex constraints; u is not considered."""
        return self.most_nonzeros == self.n and not is_gapped(self.separable)

    def project(self, x: Any) -> Vector:
        """Return the nearest feasible point to x; with ``AtMost``, ``SemiContinuous`` or weights, a nearby one."""
        if self.u.weights is not None:
            inner = self.unweighted.project(self.u.weights * vector(x, "x", self.n))
            return separable.nearest_admitted(self.separable, inner / self.u.weights)
        x = vector(x, "x", self.n)
        if not self.is_convex_set and self.is_feasible(x):
            return np.array(x)
        near: Vector = self.u.project(x, self.separable)
        if self.is_convex_set or self.is_feasible(near):
            return near
        from counterpoise.rules import near_point

        near[(x == 0.0) & (np.abs(near) <= FEASIBLE * self.scale)] = 0.0  # do not hold a coordinate because of rounding
        return near_point(self, near)

    def start(self, seed: int | None = 0) -> Vector:
        """Return a random feasible point."""
        if self.u.weights is not None:
            return separable.nearest_admitted(self.separable, self.unweighted.start(seed) / self.u.weights)
        x = self.u.random(self.separable, np.random.default_rng(random_seed(seed)))
        return x if self.is_convex_set else self.project(x)

    def value_and_resolution(self, x: Vector, by_models: bool = True) -> tuple[float, float]:
        """Return F(x) and its rounding error: ε times the sum of the magnitudes of all terms.

        For f this sum is ½Σ|xᵢ||Q_ij||xⱼ| + Σ|pᵢxᵢ| + |f(0)|, or an upper bound on it, even where f(x) itself is small.
        With ``by_models=False`` it is that of a loss which is evaluated itself, and not by quadratic models.
        """
        h = self.separable
        f, g = self.f.value(x), self.g.value(x)
        # The last term is the effect of rounding x itself, which does not vanish as x → 0.
        size = self.f.size(x) if by_models else self.f.value_size(x)
        size += separable_size(h, x) + abs(g) + abs(self.constant) + self._least_size(x)
        return f + separable_value(h, x) + g + self.offset, float(np.finfo(float).eps) * size

    def _least_size(self, x: Vector) -> float:
        """Change of f due to rounding x, over 64 ε: 2·Q_ii·d², if restoring u(x) = 0 moves xᵢ by up to d.

        On the line this is the coordinate with the most room on both sides and towards 0, if one has enough; otherwise,
        and under limits of groups, any.
        """
        bends, moved = self._bends, ROUNDED * (32 + self.n) * self.scale
        bend = float(bends.max())
        if self.u.is_line and not self.u.groups:
            h = self.separable
            room = np.minimum(np.minimum(x - h.floor, h.hi - x), np.abs(x))
            roomiest = int(np.argmax(room))
            bend = float(bends[roomiest]) if room[roomiest] > moved else bend
        change = math.sqrt(bend) * moved
        return float(change * change / (32.0 * np.finfo(float).eps))

    @cached_property
    def _bends(self) -> Vector:
        """Bounds on the second derivatives of f + h along the coordinates."""
        return np.asarray(self.f.reach**2 + self.separable.bend)

    @cached_property
    def scale(self) -> float:
        """The largest |xᵢ| of any feasible point, or a tiny positive number if that is 0."""
        if self.u.weights is not None:
            return self.unweighted.scale / float(np.abs(self.u.weights).min())
        return float(self.u.scale(self.separable))

    def is_feasible(self, x: Vector) -> bool:
        """Return whether x is within its bounds and u(x) = 0, up to the rounding error of a sum of n terms."""
        if self.u.weights is not None:  # the sum and the number of non-zeros, in the unit of the sum
            beyond = separable.distance_to_bounds(self.separable, x)
            is_within = beyond <= FEASIBLE * float(np.abs(x).max())
            return is_within and self.unweighted.is_feasible(self.u.weights * x)
        # Coordinates that must be 0 are exactly 0, not small.
        if np.count_nonzero(x) > self.most_nonzeros or not separable.keeps_floors(self.separable, x):
            return False
        # Rounding of a sum grows with its terms: 4e-16 of Σ|xᵢ| is far above the error that exact steps leave.
        return self.violation(x) <= FEASIBLE * max(self.scale, 4e-4 * float(np.abs(x).sum()))

    def variant(self, **changes: float) -> Problem:
        """Return the same problem with other constants of g, such as ``s`` or ``lam``; f and its AᵀA are shared.

        Examples
        --------
        >>> import numpy as np
        >>> from counterpoise.problems import SIT
        >>> SIT(np.eye(3), np.ones(3), s=1, lam=5.0).variant(s=2).g.s
        2
        """
        return self.derived(g=self._other_g(changes))

    def derived(
        self, *, f: Any = None, h: Any = None, g: Any = None, members: Any = None, constant: float | None = None
    ) -> Problem:
        """Return the same problem with other parts, or on some of the coordinates.

        Nothing that this problem has cached is kept, because it may depend on what changes.

        Parameters
        ----------
        f, h, g : optional
            Other terms; with ``members``, of the coordinates that are kept.
        members : array of int, optional
            The coordinates that are kept, in order, each once. ``f`` is then required. Not possible with weights of the
            sum or limits of groups.
        constant : float, optional
            Another constant.
        """
        if members is not None:
            members = self._kept(members)
        other = copy.copy(self)
        for name in [name for name in vars(self) if isinstance(getattr(type(self), name, None), cached_property)]:
            del other.__dict__[name]
        if f is not None:
            require_known(f, "f")
            wanted = self.n if members is None else len(members)
            if f.n != wanted:
                raise ValueError(f"f is a function of {f.n} coordinates; the derived problem has {wanted}.")
            other.f, other.n = f, f.n
        elif members is not None:
            raise ValueError("members is given without f; give f as a function of these coordinates.")
        if h is not None:
            other.h = h
            other.separable, other._separable_constant = separable.compile_separable(h, other.n)
        elif members is not None:
            other.separable = separable.take(other.separable, members)
            other.h = as_term(other.separable)
        if g is not None:
            other.g, other._has_g = as_penalty(g), True
        elif h is not None and not self._has_g:
            other.g = ConcaveQuadratic(0.0)
        if constant is not None:
            other.constant = number(constant, "constant")
        if h is not None or g is not None or members is not None:
            other._check()
        return other

    def _kept(self, members: Any) -> Any:
        """Return the positions of coordinates to be kept; refuse others."""
        if self.u.weights is not None or getattr(self.u, "groups", None):
            raise ValueError("members is given, but u has weights or limits of groups; make a new Problem instead.")
        members = np.asarray(members)
        fits = members.ndim == 1 and members.dtype.kind in "iu" and bool(((members >= 0) & (members < self.n)).all())
        if not fits or len(np.unique(members)) < len(members):
            raise ValueError(
                f"members must hold different whole numbers from 0 to {self.n - 1}, the coordinates to keep."
            )
        return members

    def _other_g(self, changes: dict[str, float]) -> ConcaveTerm:
        if changes and not self._has_g:
            raise ValueError(f"{', '.join(changes)} cannot change: the problem has no g; give it one, such as AtMost.")
        names = list(inspect.signature(type(self.g)).parameters)
        unknown = [name for name in changes if name not in names]
        if unknown:
            raise ValueError(f"{type(self.g).__name__} has no {unknown[0]}; its constants are {', '.join(names)}.")
        g: ConcaveTerm = type(self.g)(**{**{name: getattr(self.g, name) for name in names}, **changes})
        return g

    def model(self, x: Vector, mix: float = 1.0) -> Problem:
        """Return the problem with f replaced by its quadratic model at x; itself if f is quadratic.

        Both have the same F and the same slopes at x. With mix = 1 the model is nowhere below F, so that a step that
        lowers the model lowers F by at least as much; with mix = 0 the model has the curvature of f at x.
        """
        if self.f.quadratic is self.f:
            return self
        f, constant = self.f.model(x, mix)
        return self.derived(f=f, constant=self.constant + constant)

    @cached_property
    def by_columns(self) -> Problem:
        """The same problem without a sparse AᵀA, which suffices for pairs but not for supports; itself without one."""
        f = getattr(self.f, "by_columns", self.f)
        return self if f is self.f else self.derived(f=f)

    def require_quadratic(self, method: str) -> None:
        """Refuse an f that is not quadratic, for a method that needs its matrix."""
        if self.f.quadratic is None:
            raise ValueError(f"method {method!r} needs a quadratic f, which {type(self.f).__name__} is not.")

    def terms(self) -> Terms:
        """Return the problem for kernels, with its own state; ``sweep.start`` initialises the state at a point."""
        g = self.g.kernel(self.separable.lo, self.separable.hi)
        room = np.empty((WORK_ROWS, self.n)), np.empty(2 * self.n, dtype=np.int64)
        return Terms(self.f.kernel(), self.separable, g, self.u.kernel(self.separable), *room)


class Status(enum.Enum):
    """Why a run ended."""

    CERTIFIED = "a scan of every pair that can move found no decrease above the tolerance"
    SWAP_OPTIMAL = "no exchange of a held coordinate for another lowers the objective, nor does any pair"
    OPTIMAL = "no feasible point is better: all others were enumerated or bounded"
    STATIONARY = "the iterates no longer move, but a pair may still lower F; certify the point, or start BCD-g from it"
    ITERATION_LIMIT = "the iteration limit was reached; the best point so far is returned"
    TIME_LIMIT = "the time limit was reached; the best point so far is returned"
    INTERRUPTED = "the run was interrupted; the best point so far is returned"
    STOPPED_BY_CALLBACK = "the callback asked to stop; the best point so far is returned"


class Result(dict[str, Any]):
    """A dictionary with attribute access, like SciPy's ``OptimizeResult`` but without importing SciPy.

    Attributes
    ----------
    x : array
        The best point found.
    objective : float
        ``problem.objective(x)``; after a time limit or an interrupt, equal to it up to rounding error.
    status : Status
    success : bool
        Whether the point is certified.
    message : str
    nit, nacc : int
        Iterations (pairs tried) and accepted steps.
    time : float
        Seconds, without ``setup_time``.
    setup_time : float
        Seconds spent on compiling kernels or reading them from disk, and on forming AᵀA.
    history : array
        Rows (iteration, seconds, objective of the best point so far).
    cws_gap : float
        The largest decrease that any pair offers at x; NaN if the run ended before a scan. If f is not quadratic, it is
        the decrease of ``problem.model(x)``, an upper bound of F; pairs may lower F itself by more.
    tolerance : float
        The value that ``cws_gap`` was compared with.
    convex_gap : float or None
        An upper bound on F(x) − F*, as in :class:`counterpoise.Certificate`; None if F is not convex on the whole
        feasible set, or if the run computed no bound.
    support_gap : float or None
        An upper bound on what other weights on the support of x can gain, as in :class:`counterpoise.Certificate`; None
        if the run computed no bound.
    swap_gap : float or None
        If the status is SWAP_OPTIMAL: a proved bound on the gain of any exchange. None otherwise, and with pools of
        many columns.
    seed : int or None
    """

    def __init__(self, **fields: Any) -> None:
        super().__init__(fields)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        if name not in self:
            raise AttributeError(name)
        del self[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write a self-contained HTML page about the run; see :func:`counterpoise.report.run_report`."""
        from counterpoise.report import run_report

        return run_report(self, **options).write(path)

    def __repr__(self) -> str:
        from scipy.optimize import OptimizeResult

        shown: Any = OptimizeResult()
        shown.update(self)
        return repr(shown)

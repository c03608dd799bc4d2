"""Price many columns: solve on a pool of the best ones, with its small Gram matrix, and certify against all.

Over all columns only products with A are computed, in blocks; nothing of the size of A is copied. On the sphere a pool
does not copy sparse columns either, because its densest ones may hold half of the data: their Gram matrix suffices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from counterpoise.checks import Vector, is_sparse
from counterpoise.kernels import sweep
from counterpoise.kernels.enter import entering_gains, may_gain, turning_gains
from counterpoise.problem import Problem
from counterpoise.registry import strategy_for
from counterpoise.solvers import components
from counterpoise.solvers.line_walk import inverse_with_sum
from counterpoise.solvers.sparse_arc import NegativeGram, serves
from counterpoise.terms import columns as data_columns
from counterpoise.terms.separable import is_gapped, one_sided_slopes
from counterpoise.terms.smooth import LeastSquares, Quadratic

# How many columns enter a pool by their slopes, by their gains and by their promises (estimated gains of exchanges).
PRICED, GAINING, PROMISING = 384, 128, 1024
# On the sphere fewer enter by their promises, which are gains if above 0, and otherwise not bounds.
TURNING = 128
# How many enter by negative slopes if λ is small; then hundreds of coordinates are held and all gains are expensive.
DESCENDING = 512
# Number of sparse columns that are made dense at a time.
DENSE = 16
# If ‖x‖² without a coordinate is below this, it is rounding error.
NOTHING = 1e-12


def line_pool(problem: Problem) -> Pool | None:
    """Return the pool of a problem on the line with many columns and no AᵀA; None if it is not of that kind."""
    above = not (problem.separable.lo != 0.0).any()
    return Pool(problem) if above and _by_columns(problem) and problem.f.is_convex and not problem.u.groups else None


def arc_pool(problem: Problem) -> ArcPool | None:
    """Return the pool of a problem on the sphere with many columns and no AᵀA; None if it is not of that kind."""
    if not _by_columns(problem) or problem.f.is_convex or not math.isfinite(problem.g.lam) or not serves(problem):
        return None
    return ArcPool(problem)


def _by_columns(problem: Problem) -> bool:
    f, h = problem.f, problem.separable
    return f.quadratic is not None and not f.gram and f.sparse_Q is None and not is_gapped(h) and not h.bend.any()


class Pool:
    """A problem solved on some of its columns, with the others at 0."""

    verified_at_a_time, promises_are_bounds = PROMISING, True

    def __init__(self, problem: Problem) -> None:
        self.problem, self.f, self.s, self.lam = problem, problem.f.unweighted, problem.g.s, problem.g.lam
        self.c = getattr(problem.u, "c", 1.0)
        self.zero_slopes = one_sided_slopes(problem.separable, np.zeros(problem.n))[1]
        self.seen: tuple[Vector, Vector] | None = None

    def start(self) -> Vector:
        """Return a sparse start: the best single coordinate, or as many as the bounds require."""
        h, x, left = self.problem.separable, np.zeros(self.problem.n), self.c
        worth = self.f.p + self.zero_slopes + 0.5 * self.c * self.f.diagonal
        few = largest(-worth, PRICED)
        for i in few[np.argsort(worth[few], kind="stable")]:
            x[i] = min(left, h.hi[i])
            left -= x[i]
            if left <= 0.0:
                break
        # The sum may need more coordinates than may be held.
        return x if self.problem.is_feasible(x) else self.problem.project(x)

    def slopes(self, x: Vector) -> Vector:
        """Return ∇f + the right slope of h at 0 for every column, cached for the last x.

        They only choose columns; certificates do not use them, so single-precision data are not converted.
        """
        if self.seen is None or (self.seen[0] != x).any():
            r = self.f.residual(x).astype(self.f.A.dtype)
            self.seen = x.copy(), self.f.scale * np.asarray(self.f.A.T @ r, dtype=np.float64) + self.zero_slopes
        return self.seen[1]

    def restricted(self, pool: Any) -> Problem:
        """Return the problem on the pool's columns, with their Gram matrix."""
        problem = self.problem
        f, constant = self._restricted_f(pool)
        return problem.derived(f=f, g=problem.g.of(len(pool)), members=pool, constant=problem.constant + constant)

    def _restricted_f(self, pool: Any) -> tuple[LeastSquares | Quadratic, float]:
        """Return f on the pool's columns, and the constant that it omits."""
        return LeastSquares(self.f.A[:, pool], self.f.y, self.f.scale, gram=True), 0.0

    def gains(self, x: Vector) -> Vector:
        """Return for every column at 0 a bound on the gain of taking mass from a held one; 0 for held columns.

        Kinks of h between 0 and the end of a move are ignored, which can only raise a gain.
        """
        h, held = self.problem.separable, np.flatnonzero(x)
        A, r, scale = self.f.dense(held), self.f.residual(x), self.f.scale
        held_slope = scale * (A.T @ r) + one_sided_slopes(h, x)[0][held]
        rests, old_top = self._rests(x[held])
        if math.isinf(self.lam):  # whether one more may be non-zero
            old_top = float(len(held) < self.s)
        out, slopes = np.zeros(self.problem.n), np.empty(self.problem.n)
        dense, diagonal, room = scale * np.column_stack([A, r]), self.f.diagonal, x[held] - h.lo[held]

        def price(first: int, last: int) -> None:
            products = self._products(first, last, dense)
            slope = slopes[first:last] = products[-1] + self.zero_slopes[first:last]
            numbers = diagonal[first:last], products[:-1], h.hi[first:last], held_slope, diagonal[held]
            entering_gains(slope, *numbers, room, rests, self.lam, old_top, out[first:last])

        self.f.each_block(price)
        out[held] = 0.0
        self.seen = x.copy(), slopes
        return out

    def promises(self, x: Vector) -> Vector:
        """Return for every column at 0 a bound on the gain of an exchange for a held one; see ``kernels.swap_line``."""
        h, held = self.problem.separable, np.flatnonzero(x)
        A, r, scale, m = self.f.dense(held), self.f.residual(x), self.f.scale, len(held)
        if not m:  # x = 0 is the only feasible point
            return np.zeros(self.problem.n)
        M = inverse_with_sum(scale * (A.T @ A))
        shared = float((scale * (A.T @ r) + one_sided_slopes(h, x)[0][held]).max())
        out, slopes = np.zeros(self.problem.n), np.empty(self.problem.n)
        room = m < self.s
        spread = np.maximum(np.diag(M)[:m], 1e-300)[:, None]
        shift, cost = x[held][:, None] / spread, 0.5 * x[held][:, None] ** 2 / spread
        dense, diagonal = scale * np.column_stack([A, r]), self.f.diagonal

        def price(first: int, last: int) -> None:
            products = self._products(first, last, dense)
            cross = products[:-1]
            Z = M[:m, :m] @ cross + M[:m, m:]
            schur = diagonal[first:last] - M[m, m] - np.einsum("jk,jk->k", cross, Z + M[:m, m:])
            slopes[first:last] = products[-1] + self.zero_slopes[first:last]
            slope = slopes[first:last] - shared
            if room or m == 1:
                out[first:last] = entering(slope, schur, np.minimum(h.hi[first:last], self.c))
                return
            slope, schur = slope - Z * shift, schur + Z * Z / spread
            promise = entering(slope, schur, np.minimum(h.hi[first:last], self.c)) - cost
            out[first:last] = np.maximum(promise.max(axis=0), 0.0)

        self.f.each_block(price)
        out[held] = 0.0
        self.seen = x.copy(), slopes
        return out

    def descending(self, x: Vector, tolerance: float) -> Any:
        """Return columns that gain by their slopes alone; none on the line, where pricing finds them."""
        return np.flatnonzero(x)[:0]

    def to_verify(self, x: Vector, verified: Any, tolerance: float) -> Any:
        """Return columns whose exchange may gain and that were in no pool yet, those with the largest promises."""
        promises = np.where(verified, 0.0, self.promises(x))
        best = largest(promises, PROMISING)
        return best[promises[best] > tolerance]

    def exchange_bound(self, x: Vector, floor: float) -> float:
        """Return a bound on the gain of an exchange; on the line :meth:`to_verify` has already bounded it."""
        return floor

    def gap(self, x: Vector) -> tuple[float, float, int, int, float]:
        """Return the same as ``gap`` of the strategy; all columns are priced, and the best ones verified in a pool.

        On the sphere promises are attained, so one pool of the columns with the largest promises suffices, and
        eigenvalues bound the gain of all others.
        """
        held, at = np.flatnonzero(x), np.zeros(self.problem.n)
        few = np.union1d(held, largest(-self.slopes(x), 2))
        at[few] = self._supports(few).weighted(x[few])
        promises, best, leaves, enters, bound = self.promises(at), 0.0, -1, -1, 0.0
        while True:
            few = largest(promises, self.verified_at_a_time)
            members = np.union1d(held, few)
            own, gain, *places, proved = self._supports(members).gap(x[members])
            bound = max(bound, proved)
            if gain > best:
                best, (leaves, enters) = gain, (int(members[place]) if place >= 0 else -1 for place in places)
            promises[few] = -np.inf
            if self.promises_are_bounds and promises.max() > best:
                continue
            return self._bounded(at, own, best, leaves, enters, bound)

    def _supports(self, members: Any) -> Any:
        restricted = self.restricted(members)
        return strategy_for(restricted)(restricted)

    def _bounded(
        self, at: Vector, own: float, best: float, leaves: int, enters: int, bound: float
    ) -> tuple[float, float, int, int, float]:
        return own, best, leaves, enters, bound

    def _rests(self, values: Vector) -> tuple[Vector, float]:
        """Return for each held coordinate its value and the sums of the s, s − 1, s − 2 largest others; and ‖x‖_[s]."""
        order = np.sort(values)[::-1]
        rows = np.empty((len(values), 4))
        for k, value in enumerate(values):
            others = np.delete(order, int(np.flatnonzero(order == value)[0]))
            rows[k, 0] = value
            rows[k, 1:] = [others[: self.s - less].sum() if self.s >= less else -math.inf for less in range(3)]
        return rows, float(order[: self.s].sum())

    def _products(self, first: int, last: int, dense: Vector) -> Vector:
        """Return DᵀA for columns ``first`` to ``last`` − 1."""
        return np.ascontiguousarray(self.f.products(slice(first, last), dense).T)


class ArcPool(Pool):
    """A pool on the sphere, f = −½‖Ax‖²: the best columns have the largest entries of Gx, G = AᵀA."""

    verified_at_a_time, promises_are_bounds = TURNING, False

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        A = self.f.A
        self.mixed = bool((A.data if is_sparse(A) else A).min(initial=0.0) < 0.0)
        self.signed = bool(problem.u.signed)

    def start(self) -> Vector:
        """Return the unit vector of the longest column."""
        x = np.zeros(self.problem.n)
        x[np.argmin(self.f.diagonal)] = 1.0
        return x

    def slopes(self, x: Vector) -> Vector:
        """Return the slopes of f + h at 0; with signs, those in the steeper direction away from 0."""
        slopes = super().slopes(x)
        return np.minimum(slopes, 2.0 * self.zero_slopes - slopes) if self.signed else slopes

    def gains(self, x: Vector) -> Vector:
        """Return for every column at 0 the largest gain of turning a held one towards it; 0 for held columns."""
        out, slopes = np.zeros(self.problem.n), self._gradient(x)
        self.seen = x.copy(), slopes + self.zero_slopes
        held, outside = np.flatnonzero(x), int(np.argmin(np.abs(x)))
        if x[outside] != 0.0:
            return out
        terms, at = self.restricted(np.append(held, outside)).terms(), np.append(x[held], 0.0)
        sweep.start(terms, at)
        undecided = np.empty(self.problem.n, dtype=bool)
        may_gain(terms, at, slopes, self.f.diagonal, self.mixed, undecided)
        undecided[held] = False
        for begin, columns, rows in self._rows(held, np.flatnonzero(undecided)):
            best = out[columns]
            turning_gains(terms, at, begin, slopes[columns], self.f.diagonal[columns], rows, best)
            out[columns] = best
        return out

    def best_pair(self, x: Vector) -> tuple[float, int, int, float, float]:
        """Return (decrease, i, j, dᵢ, dⱼ) of the best of all pairs, (0, −1, −1, 0, 0) if none decreases F."""
        members = np.union1d(np.flatnonzero(x), [np.argmax(self.gains(x)), np.argmin(np.abs(x))])
        terms, at = self.restricted(members).terms(), x[members]
        sweep.start(terms, at)
        gap, i, j, di, dj = sweep.scan(terms, at, 0.0, np.inf)
        if i < 0:
            return 0.0, -1, -1, 0.0, 0.0
        # The start has moved ``at`` by rounding; the steps are those of x.
        i_all, j_all = int(members[i]), int(members[j])
        return gap, i_all, j_all, float(at[i] + di - x[i_all]), float(at[j] + dj - x[j_all])

    def descending(self, x: Vector, tolerance: float) -> Any:
        """Return the columns with the least slopes if these are negative, because λ is too small to keep them out.

        Towards eₖ, with the others in proportion, F falls at the rate bₖ, to about −½λ_max of [[xᵀGx, bₖ], [·, G_kk]].
        """
        rate = -self.slopes(x) + (self.lam if np.count_nonzero(x) < self.s else 0.0)
        rate[x != 0.0] = 0.0
        value = -2.0 * self.f.value(x)
        promise = 0.5 * (_larger_eigenvalue(value, np.maximum(rate, 0.0), -self.f.diagonal) - value)
        best = largest(rate, DESCENDING)
        return best[(rate[best] > 0.0) & (promise[best] > tolerance)]

    def promises(self, x: Vector) -> Vector:
        """Return for every column its gain in the place of a held one, with the others kept in proportion.

        Without j, x̂ = (x − xⱼeⱼ)/‖·‖; the best angle between x̂ and eₖ gives ½λ_max of [[x̂ᵀGx̂, (Gx̂)ₖ], [·, G_kk]].
        """
        held, Gx, diagonal = np.flatnonzero(x), -self._gradient(x), -self.f.diagonal
        value, out = float(x @ Gx), np.full(self.problem.n, -np.inf)
        if len(held) < self.s:
            out = 0.5 * (_larger_eigenvalue(value, self._reach(Gx), diagonal) - value)
        else:
            for begin, columns, rows in self._rows(held, np.arange(self.problem.n)):
                best = out[columns]
                for j, row in zip(held[begin:].tolist(), -rows.T, strict=False):
                    v = float(x[j])
                    rest, eigenvalue = 1.0 - v * v, diagonal[columns]
                    if rest > NOTHING:
                        a = (value - 2.0 * v * Gx[j] + v * v * diagonal[j]) / rest
                        b = self._reach(Gx[columns] - v * row) / math.sqrt(rest)
                        eigenvalue = _larger_eigenvalue(a, b, eigenvalue)
                    np.maximum(best, 0.5 * (eigenvalue - value), out=best)
                out[columns] = best
        out[held] = -np.inf
        return out

    def _reach(self, products: Vector) -> Vector:
        """Return |products| if columns may enter with either sign, otherwise their positive part."""
        return np.abs(products) if self.signed else np.maximum(products, 0.0)

    def to_verify(self, x: Vector, verified: Any, tolerance: float) -> Any:
        """Return the columns with the largest promises that were in no pool yet; promises are not upper bounds here.

        Exchanges are defined for at most s held coordinates.
        """
        if np.count_nonzero(x) > self.s:
            return np.flatnonzero(x)[:0]
        best = largest(self.promises(x), TURNING)
        return best[~verified[best]]

    def exchange_bound(self, x: Vector, floor: float) -> float:
        """Return a bound on the gain of an exchange for any column, by eigenvalues."""
        return components.exchange_bound(self.blocks, x, self.s, floor, self.signed)[0]

    def _bounded(
        self, at: Vector, own: float, best: float, leaves: int, enters: int, bound: float
    ) -> tuple[float, float, int, int, float]:
        noise = 1e-12 * abs(self.f.value(at))
        more, found, bound = components.largest_exchange(self.blocks, at, self.s, best, noise, self.signed)
        if found is not None:
            best, (leaves, enters) = more, components.exchanged(at, found, self.s)
        return own, best, leaves, enters, own + max(bound, best)

    def blocks(self, held: Any) -> Iterator[tuple[int, Vector, Vector]]:
        """Yield (first column, held rows of G, diagonal of G) for blocks of all columns."""
        dense = self.f.dense(held)
        for first in range(0, self.problem.n, data_columns.BLOCK):
            last = min(first + data_columns.BLOCK, self.problem.n)
            yield first, -self.f.scale * self._products(first, last, dense), -self.f.diagonal[first:last]

    def _restricted_f(self, pool: Any) -> tuple[LeastSquares | Quadratic, float]:
        if not is_sparse(self.f.A):
            return super()._restricted_f(pool)
        p = -self.f.scale * self.f.products(pool, self.f.y[:, None])[:, 0]
        return NegativeGram(self.f.scale * self._gram(pool), p), self.f.value_at_zero

    def _gram(self, which: Any) -> Vector:
        """Return AᵀA for the given columns, of which a few are made dense at a time."""
        gram = np.empty((len(which), len(which)))
        for first in range(0, len(which), DENSE):
            last = first + DENSE
            gram[first:, first:last] = self.f.products(which[first:], self.f.dense(which[first:last]))
            gram[first:last, first:] = gram[first:, first:last].T
        return gram

    def _gradient(self, x: Vector) -> Vector:
        """Return ∇f, unlike :meth:`slopes` in double precision, because certificates use it."""
        r = self.f.residual(x)[:, None]
        gradient, dense = np.empty(self.problem.n), self.f.scale * r

        def price(first: int, last: int) -> None:
            gradient[first:last] = self._products(first, last, dense)[0]

        self.f.each_block(price)
        return gradient

    def _rows(self, held: Any, which: Any) -> Iterator[tuple[int, Any, Vector]]:
        """Yield (begin, a block of columns k of ``which``, Q_kj for them and a few held j from ``begin`` on)."""
        for begin in range(0, len(held), DENSE):
            dense = self.f.dense(held[begin : begin + DENSE])
            for first in range(0, len(which), data_columns.BLOCK):
                columns = which[first : first + data_columns.BLOCK]
                yield begin, columns, self.f.scale * np.ascontiguousarray(self.f.products(columns, dense))


def largest(values: Vector, count: int) -> Any:
    """Return the indices of the ``count`` largest values."""
    return np.argpartition(-values, min(count, len(values) - 1))[:count]


def _larger_eigenvalue(a: float, b: Vector, d: Vector) -> Vector:
    """Return the larger eigenvalue of [[a, b], [b, d]]."""
    return 0.5 * (a + d) + np.sqrt(0.25 * (a - d) ** 2 + b * b)


def entering(slope: Vector, bend: Vector, most: Vector) -> Vector:
    """Return max over 0 ≤ η ≤ most of −slope·η − ½bend·η², 0 where the slope is not negative."""
    eta = np.where(bend * most > -slope, -slope / np.where(bend > 0.0, bend, 1.0), most)
    return np.where(slope < 0.0, -eta * (slope + 0.5 * np.maximum(bend, 0.0) * eta), 0.0)

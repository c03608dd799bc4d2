"""Many columns: a pool of the most promising with its small Gram matrix, priced and certified against all.

Only products with A are taken over all columns, in blocks; nothing of the size of A is copied.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from counterpoise.checks import Vector, is_sparse
from counterpoise.kernels import sweep
from counterpoise.kernels.enter import entering_gains
from counterpoise.kernels.swap_line import inverse_with_sum
from counterpoise.problem import Problem, Result, Status
from counterpoise.solvers.run import Epoch, Run
from counterpoise.terms.concave import TopSum
from counterpoise.terms.constraint import Sum
from counterpoise.terms.separable import AbsoluteDeviation, Bounds, Linear, one_sided_slopes
from counterpoise.terms.smooth import LeastSquares

# How many columns come into a pool by their slopes, by their gains, by their promises.
PRICED, GAINING, PROMISING = 384, 128, 1024
# A round that lowers F by less than this share of it has not helped.
HELPS = 1e-3


def applies(problem: Problem) -> bool:
    """Return whether a problem is of the kind that a pool is for: sparse points, many columns, no AᵀA."""
    f = problem.f
    if not isinstance(f, LeastSquares) or f.gram or f.sparse_Q is not None or (problem.separable.lo != 0.0).any():
        return False
    return isinstance(problem.g, TopSum) and (f.scale > 0.0) == isinstance(problem.u, Sum)


def pool_of(problem: Problem) -> Pool:
    """Return the pool of a problem."""
    return Pool(problem) if isinstance(problem.u, Sum) else ArcPool(problem)


class Pool:
    """A problem on some of its columns, the others at 0."""

    def __init__(self, problem: Problem) -> None:
        assert isinstance(problem.f, LeastSquares) and isinstance(problem.g, TopSum)
        self.problem, self.f, self.s, self.lam = problem, problem.f, problem.g.s, problem.g.lam
        self.c = problem.u.c if isinstance(problem.u, Sum) else 1.0
        self.zero_slopes = one_sided_slopes(problem.separable, np.zeros(problem.n))[1]
        self.seen: tuple[Vector, Vector] | None = None

    def start(self) -> Vector:
        """Return a sparse start: the coordinate that is best alone, or as many as the bounds ask for."""
        h, x, left = self.problem.separable, np.zeros(self.problem.n), self.c
        worth = self.f.p + self.zero_slopes + 0.5 * self.c * self.f.diagonal
        few = np.argpartition(worth, min(PRICED, len(worth) - 1))[:PRICED]
        for i in few[np.argsort(worth[few], kind="stable")]:
            x[i] = min(left, h.hi[i])
            left -= x[i]
            if left <= 0.0:
                return x
        return self.problem.project(x)

    def slopes(self, x: Vector) -> Vector:
        """Return ∇f + the right slope of h at 0, of every column; a look at all of them just taken is not repeated.

        They choose columns and claim nothing, so data in single precision is multiplied as it is.
        """
        if self.seen is None or (self.seen[0] != x).any():
            r = self.f.residual(x).astype(self.f.A.dtype)
            self.seen = x.copy(), self.f.scale * np.asarray(self.f.A.T @ r, dtype=np.float64) + self.zero_slopes
        return self.seen[1]

    def restricted(self, pool: Any) -> Problem:
        """Return the problem on the pool's columns, with their Gram matrix."""
        f = LeastSquares(self._columns(pool), self.f.y, self.f.scale, gram=True)
        p, h = self.problem, self.problem.separable
        terms: Any = Bounds(h.lo[pool], h.hi[pool]) + Linear(h.weight[pool])
        for centre, cost in zip(h.centre, h.cost, strict=True):
            terms = terms + AbsoluteDeviation(centre[pool], cost[pool])
        return Problem(f, terms, TopSum(min(self.s, len(pool)), self.lam), p.u, p.constant, p.name)

    def gains(self, x: Vector) -> Vector:
        """Return for every column at 0 what taking mass from a held one gains at most; 0 for those that are held.

        Kinks of h between 0 and the end of a move are left out, which can only raise a gain.
        """
        h, held = self.problem.separable, np.flatnonzero(x)
        A, r, scale = self._dense(held), self.f.residual(x), self.f.scale
        held_slope = scale * (A.T @ r) + one_sided_slopes(h, x)[0][held]
        rests, old_top = self._rests(x[held])
        out, slopes = np.zeros(self.problem.n), np.empty(self.problem.n)
        for first, last, block in self.f.blocks():
            cross = scale * np.ascontiguousarray(A.T @ block)
            slope = slopes[first:last] = scale * (block.T @ r) + self.zero_slopes[first:last]
            numbers = self.f.diagonal[first:last], cross, h.hi[first:last], held_slope, self.f.diagonal[held]
            entering_gains(slope, *numbers, x[held] - h.lo[held], rests, self.lam, old_top, out[first:last])
        out[held] = 0.0
        self.seen = x.copy(), slopes
        return out

    def promises(self, x: Vector) -> Vector:
        """Return for every column at 0 what an exchange for a held one gains at most, eq. of ``kernels.swap_line``."""
        h, held = self.problem.separable, np.flatnonzero(x)
        A, r, scale, m = self._dense(held), self.f.residual(x), self.f.scale, len(held)
        M = np.empty((m + 1, m + 1))
        inverse_with_sum(scale * np.ascontiguousarray(A.T @ A), np.arange(m), m, M)
        held_slope = scale * (A.T @ r) + one_sided_slopes(h, x)[1][held]
        mean = float(M[:m, m] @ held_slope)
        out, slopes = np.zeros(self.problem.n), np.empty(self.problem.n)
        room = m < self.s
        spread = np.maximum(np.diag(M)[:m], 1e-300)[:, None]
        shift, cost = x[held][:, None] / spread, 0.5 * x[held][:, None] ** 2 / spread
        for first, last, block in self.f.blocks():
            cross = scale * (A.T @ block)
            Z = M[:m, :m] @ cross + M[:m, m:]
            schur = self.f.diagonal[first:last] - M[m, m] - np.einsum("jk,jk->k", cross, Z + M[:m, m:])
            slopes[first:last] = scale * (block.T @ r) + self.zero_slopes[first:last]
            slope = slopes[first:last] - mean
            if room or m == 1:
                out[first:last] = _entering(slope, schur, np.minimum(h.hi[first:last], self.c))
                continue
            slope, schur = slope - Z * shift, schur + Z * Z / spread
            promise = _entering(slope, schur, np.minimum(h.hi[first:last], self.c)) - cost
            out[first:last] = np.maximum(promise.max(axis=0), 0.0)
        out[held] = 0.0
        self.seen = x.copy(), slopes
        return out

    def to_verify(self, x: Vector, verified: Any, tolerance: float) -> Any:
        """Return columns whose exchange may gain and that no pool has looked at yet, the most promising first."""
        promises = np.where(verified, 0.0, self.promises(x))
        best = _largest(promises, PROMISING)
        return best[promises[best] > tolerance]

    def _rests(self, values: Vector) -> tuple[Vector, float]:
        """Return, for each held coordinate, its value and the sums of the s, s − 1 and s − 2 largest others."""
        order = np.sort(values)[::-1]
        rows = np.empty((len(values), 4))
        for k, value in enumerate(values):
            others = np.delete(order, int(np.flatnonzero(order == value)[0]))
            rows[k] = (
                value,
                *(others[: max(0, self.s - less)].sum() if self.s >= less else -math.inf for less in range(3)),
            )
        return rows, float(order[: self.s].sum())

    def _columns(self, which: Any) -> Any:
        return self.f.A[:, which]

    def _dense(self, which: Any) -> Vector:
        columns = self._columns(which)
        dense: Vector = (columns.toarray() if is_sparse(columns) else columns).astype(np.float64)
        return dense


class ArcPool(Pool):
    """The same on the sphere, f = −½‖Ax‖²: the columns of the largest Gx, G = AᵀA, are the promising ones."""

    def start(self) -> Vector:
        """Return the unit vector of the longest column."""
        x = np.zeros(self.problem.n)
        x[np.argmin(self.f.diagonal)] = 1.0
        return x

    def gains(self, x: Vector) -> Vector:
        """Return what the best pair of all gains, for its column, and promises for the others, but no larger."""
        terms, at = self.problem.terms(), x.copy()
        sweep.start(terms, at)
        gap, i, j, *_ = sweep.scan(terms, at, 0.0, np.inf)
        out = np.clip(self.promises(x), 0.0, max(float(gap), 0.0))
        for k in (i, j):
            if k >= 0 and x[k] == 0.0:
                out[k] = gap
        return out

    def promises(self, x: Vector) -> Vector:
        """Return for every column what it gains in the place of a held one, the others kept in proportion.

        Without j, x̂ = (x − xⱼeⱼ)/‖·‖; the best angle between x̂ and eₖ is worth ½λ_max of [[x̂ᵀGx̂, (Gx̂)ₖ], [·, G_kk]].
        """
        held = np.flatnonzero(x)
        A, Gx, diagonal = self._columns(held), -self.f.gradient(x), -self.f.diagonal
        value, out = float(x @ Gx), np.full(self.problem.n, -np.inf)
        room = len(held) < self.s
        for k, j in enumerate([-1] if room else held.tolist()):
            v = 0.0 if room else float(x[j])
            rest = max(1.0 - v * v, 1e-300)
            row: Any = 0.0 if room else -self.f.scale * self._products(A, k)
            a = value if room else (value - 2.0 * v * Gx[j] + v * v * diagonal[j]) / rest
            b = np.maximum(Gx - v * row, 0.0) / math.sqrt(rest)
            top = 0.5 * (a + diagonal) + np.sqrt(0.25 * (a - diagonal) ** 2 + b * b)
            np.maximum(out, 0.5 * (top - value), out=out)
        out[held] = -np.inf
        return out

    def to_verify(self, x: Vector, verified: Any, tolerance: float) -> Any:
        """Return the most promising columns no pool has looked at yet; promises are no upper bounds here."""
        best = _largest(self.promises(x), PROMISING)
        return best[~verified[best]]

    def _products(self, columns: Any, k: int) -> Vector:
        """Return Aᵀ times one column."""
        if is_sparse(columns):
            return np.asarray((self.f.A.T @ columns[:, [k]]).todense(), dtype=np.float64).ravel()
        return np.concatenate([block.T @ columns[:, k].astype(np.float64) for *_, block in self.f.blocks()])


def _largest(values: Vector, count: int) -> Any:
    """Return the places of so many of the largest values."""
    return np.argpartition(-values, min(count, len(values) - 1))[:count]


def _entering(slope: Vector, bend: Vector, most: Vector) -> Vector:
    """Return max over 0 ≤ η ≤ most of −slope·η − ½bend·η², 0 where the slope is not negative."""
    eta = np.where(bend * most > -slope, -slope / np.where(bend > 0.0, bend, 1.0), most)
    gain: Vector = np.where(slope < 0.0, -eta * (slope + 0.5 * np.maximum(bend, 0.0) * eta), 0.0)
    return gain


def pooled(
    run: Run,
    descend: Callable[[Problem, Vector, float | None], Result],
    given: bool,
    ending: Status,
) -> Result:
    """Run a method on pools until no column outside gains, by a look at all of them.

    Parameters
    ----------
    run : Run
    descend : callable
        ``descend(problem on the pool, x there, seconds left)`` returns a result of the method.
    given : bool
        Whether the run's start is the user's; otherwise a sparse one is taken.
    ending : {Status.CERTIFIED, Status.SWAP_OPTIMAL}
        What a descent on the pool must end with to count, and what is looked for outside: gains of pairs, or promises
        of exchanges. A promise is an upper bound: the column that makes it comes into the pool, where it is verified.
    """
    pool, x = pool_of(run.problem), run.start
    if not given:
        x[:] = pool.start()
        run.objective, run.noise = run.measure(x)
        run.least, run.best[:] = run.objective, x
        run.history[0] = (0, run.history[0][1], run.objective)
    wanted, verified = np.flatnonzero(x)[:0], np.zeros(run.problem.n, dtype=bool)
    swaps = ending is Status.SWAP_OPTIMAL

    def epoch(trials: int) -> Epoch:
        nonlocal wanted
        slopes, reached, fresh = pool.slopes(x), run.objective, not len(wanted)
        priced = np.argpartition(slopes, min(PRICED, len(slopes) - 1))[:PRICED]
        members = np.union1d(np.union1d(wanted, priced), np.flatnonzero(x))
        before = x[members].copy()
        left = None if run.max_time is None else max(0.0, run.max_time - run.history[-1][1])
        found = descend(pool.restricted(members), before, left)
        x[members], wanted = found.x, wanted[:0]
        run.objective, run.noise = run.measure(x)
        tried, accepted = max(1, found.nit), found.nacc
        if found.status is not ending:
            return Epoch(x, tried, accepted, found.status)
        if (found.x != before).any():
            verified[:] = False
        verified[members] = True
        # A look at all gains costs several at all slopes: as long as slopes bring columns that help, they suffice.
        if fresh and run.objective < reached - HELPS * abs(reached):
            return Epoch(x, tried, accepted)
        if swaps:
            wanted = pool.to_verify(x, verified, run.tolerance)
            if len(wanted):
                return Epoch(x, tried, accepted)
        gains = pool.gains(x)
        largest = float(gains.max(initial=0.0))
        if largest <= run.tolerance:
            return Epoch(x, tried, accepted, ending, max(largest, found.cws_gap))
        best = _largest(gains, GAINING)
        wanted = best[gains[best] > run.tolerance]
        return Epoch(x, tried, accepted)

    return run.loop(epoch)

"""Many columns: a pool of the most promising with its small Gram matrix, priced and certified against all.

Only products with A are taken over all columns, in blocks; nothing of the size of A is copied.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from counterpoise.checks import Vector, is_sparse
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


def applies(problem: Problem) -> bool:
    """Return whether a problem is of the kind that a pool is for: sparse points, many columns, no AᵀA."""
    f = problem.f
    large = isinstance(f, LeastSquares) and not f.gram and f.sparse_Q is None and f.scale > 0.0
    return (
        large
        and isinstance(problem.g, TopSum)
        and isinstance(problem.u, Sum)
        and bool((problem.separable.lo == 0.0).all())
    )


class Pool:
    """A problem on some of its columns, the others at 0."""

    def __init__(self, problem: Problem) -> None:
        assert isinstance(problem.f, LeastSquares) and isinstance(problem.g, TopSum) and isinstance(problem.u, Sum)
        self.problem, self.f, self.s, self.lam, self.c = problem, problem.f, problem.g.s, problem.g.lam, problem.u.c
        self.zero_slopes = one_sided_slopes(problem.separable, np.zeros(problem.n))[1]

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
        """Return ∇f + the right slope of h at 0, of every column."""
        return self.f.gradient(x) + self.zero_slopes

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
        out = np.zeros(self.problem.n)
        for first, last, block in self.f.blocks():
            cross = scale * np.ascontiguousarray(A.T @ block)
            slope = scale * (block.T @ r) + self.zero_slopes[first:last]
            numbers = self.f.diagonal[first:last], cross, h.hi[first:last], held_slope, self.f.diagonal[held]
            entering_gains(slope, *numbers, x[held] - h.lo[held], rests, self.lam, old_top, out[first:last])
        out[held] = 0.0
        return out

    def promises(self, x: Vector) -> Vector:
        """Return for every column at 0 what an exchange for a held one gains at most, eq. of ``kernels.swap_line``."""
        h, held = self.problem.separable, np.flatnonzero(x)
        A, r, scale, m = self._dense(held), self.f.residual(x), self.f.scale, len(held)
        M = np.empty((m + 1, m + 1))
        inverse_with_sum(scale * np.ascontiguousarray(A.T @ A), np.arange(m), m, M)
        held_slope = scale * (A.T @ r) + one_sided_slopes(h, x)[1][held]
        mean = float(M[:m, m] @ held_slope)
        out = np.zeros(self.problem.n)
        room = m < self.s
        spread = np.maximum(np.diag(M)[:m], 1e-300)[:, None]
        shift, cost = x[held][:, None] / spread, 0.5 * x[held][:, None] ** 2 / spread
        for first, last, block in self.f.blocks():
            cross = scale * (A.T @ block)
            Z = M[:m, :m] @ cross + M[:m, m:]
            schur = self.f.diagonal[first:last] - M[m, m] - np.einsum("jk,jk->k", cross, Z + M[:m, m:])
            slope = scale * (block.T @ r) + self.zero_slopes[first:last] - mean
            if room or m == 1:
                out[first:last] = _entering(slope, schur, np.minimum(h.hi[first:last], self.c))
                continue
            slope, schur = slope - Z * shift, schur + Z * Z / spread
            promise = _entering(slope, schur, np.minimum(h.hi[first:last], self.c)) - cost
            out[first:last] = np.maximum(promise.max(axis=0), 0.0)
        out[held] = 0.0
        return out

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
    pool, x = Pool(run.problem), run.start
    if not given:
        x[:] = pool.start()
        run.objective, run.noise = run.measure(x)
        run.least, run.best[:] = run.objective, x
        run.history[0] = (0, run.history[0][1], run.objective)
    wanted, verified = np.flatnonzero(x), np.zeros(run.problem.n, dtype=bool)
    swaps = ending is Status.SWAP_OPTIMAL

    def epoch(trials: int) -> Epoch:
        nonlocal wanted
        slopes = pool.slopes(x)
        priced = np.argpartition(slopes, min(PRICED, len(slopes) - 1))[:PRICED]
        members = np.union1d(np.union1d(wanted, priced), np.flatnonzero(x))
        before = x[members].copy()
        left = None if run.max_time is None else max(0.0, run.max_time - run.history[-1][1])
        found = descend(pool.restricted(members), before, left)
        x[members] = found.x
        run.objective, run.noise = run.measure(x)
        tried, accepted = max(1, found.nit), found.nacc
        if found.status is not ending:
            return Epoch(x, tried, accepted, found.status)
        if (found.x != before).any():
            verified[:] = False
        verified[members] = True
        gains = pool.promises(x) if swaps else pool.gains(x)
        if swaps:
            gains[verified] = 0.0
        largest = float(gains.max(initial=0.0))
        if largest <= run.tolerance:
            return Epoch(x, tried, accepted, ending, found.cws_gap if swaps else max(largest, found.cws_gap))
        most = PROMISING if swaps else GAINING
        best = np.argpartition(-gains, min(most, len(gains) - 1))[:most]
        wanted = best[gains[best] > run.tolerance]
        return Epoch(x, tried, accepted)

    return run.loop(epoch)

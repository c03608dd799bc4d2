"""Swap-optimal points: supports that no exchange of one coordinate for another improves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from counterpoise.checks import Vector
from counterpoise.kernels import swap_arc
from counterpoise.problem import Problem, Result, Status
from counterpoise.solvers import pool
from counterpoise.solvers.bcd import bcd_g
from counterpoise.solvers.binary import Binary
from counterpoise.solvers.hybrid import join
from counterpoise.solvers.run import Epoch, Progress, Run
from counterpoise.solvers.sparse_arc import TOLERANCE, SparseArc
from counterpoise.solvers.sparse_line import SparseLine
from counterpoise.terms.concave import ConcaveQuadratic, Norm2, TopSum
from counterpoise.terms.constraint import Sum

# Exchanges between two looks at the clock.
EPOCH_SWAPS = 4
MOST_SWAPS = 10_000


def swap(
    problem: Problem,
    x0: Any = None,
    *,
    tol: float = 1e-9,
    max_iter: int | None = None,
    max_time: float | None = None,
    seed: int | None = 0,
    callback: Callable[[Progress], Any] | None = None,
) -> Result:
    """Exchange one held coordinate for one outside while that lowers f + h, re-optimised on the new support.

    The point is s-sparse. Without x0 the way begins at the end of BCD-g. If λ is so small that a denser point has a
    lower objective, the descent from there says so: the result is then the better of the two.

    On binary problems an exchange is a step on a pair, which BCD-g has tried; there the way goes from the end of BCD-g
    to the binary point next to it, over exchanges, and back to the penalised objective.

    Parameters
    ----------
    problem : Problem
        With ``TopSum`` on ``Sum`` (lower bounds of at least 0) or on ``Sphere``; or with ``Norm2`` or
        ``ConcaveQuadratic`` on ``Sum`` with bounds ±b.
    x0 : array of length n, optional
    tol, max_iter, max_time, seed, callback
        As in :func:`counterpoise.solvers.bcd.bcd_g`; an iteration is an exchange. SWAP_OPTIMAL means that no exchange
        gains more than ``tol``·|F| and that the point is CWS as well.
    """
    if pool.applies(problem):
        run = Run(problem, x0, tol, max_iter, max_time, seed, callback)
        return pool.pooled(run, _on_pool(tol, seed), x0 is not None, Status.SWAP_OPTIMAL)
    if isinstance(problem.g, Norm2 | ConcaveQuadratic) and problem.g.lam > 0.0:
        return _on_vertices(problem, x0, tol, max_iter, max_time, seed, callback)
    strategy = supports_of(problem)
    first = None
    if x0 is None:
        first = bcd_g(problem, None, tol=tol, max_time=max_time, seed=seed)
        x0 = first.x
    run = Run(problem, x0, tol, max_iter, max_time, seed, callback)

    def epoch(trials: int) -> Epoch:
        x, made, gap = _advance(strategy, run.start, min(trials, EPOCH_SWAPS))
        if made == 0 and math.isnan(gap):
            # The s largest of x cannot hold the sum: begin where s others can, if any do.
            x, made, gap = _advance(strategy, strategy.start(0, np.random.default_rng(seed)), MOST_SWAPS)
            if made == 0 and math.isnan(gap):
                return Epoch(run.start, 1, 0, Status.STATIONARY, math.nan)
        run.start[:] = x
        settled = not math.isnan(gap)
        return Epoch(run.start, max(made, 1), made, Status.SWAP_OPTIMAL if settled else None, gap)

    result = run.loop(epoch)
    result = result if first is None else join(first, result)
    return _certified(problem, result, tol, strategy.s)


def _on_vertices(problem: Problem, x0: Any, *options: Any) -> Result:
    """Descend, exchange between binary points, descend again; the second way counts if it ends lower."""
    first = bcd_g(problem, x0, 2, None, None, *options)
    second = bcd_g(problem, Binary(problem).descend(first.x), 2, None, None, *options)
    return join(first, second) if second.objective < first.objective else first


def _on_pool(tol: float, seed: int | None) -> Callable[[Problem, Vector, float | None], Result]:
    """Return this method as a pool calls it: a descent, then exchanges."""

    def descend(problem: Problem, x: Vector, seconds: float | None) -> Result:
        first = bcd_g(problem, x, tol=tol, max_time=seconds, seed=seed)
        return swap(problem, first.x, tol=tol, max_time=seconds, seed=seed)

    return descend


def _advance(strategy: SparseLine | SparseArc, x: Vector, swaps: int) -> tuple[Vector, int, float]:
    """Make at most so many exchanges; return the point, their number, and the gap left, NaN if there may be more."""
    if isinstance(strategy, SparseLine):
        return strategy.advance(x, swaps)
    point = np.array(x)
    made = int(swap_arc.descend(strategy._G, point, strategy.s, TOLERANCE, swaps))
    return point, made, math.nan if made >= swaps else sum(strategy.gap(point)[:2])


def swap_gap(problem: Problem, x: Vector) -> tuple[float, float, int, int]:
    """Return what ``gap`` of the supports does, without the Gram matrix where there are many columns.

    All of them are priced; those that promise more than was found come into a pool, which verifies them. On the sphere
    promises are attained, so that one pool of the most promising is enough.
    """
    supports, held = None if pool.applies(problem) else supports_of(problem), np.flatnonzero(x)
    s = problem.g.s  # type: ignore[attr-defined]
    if len(held) > s:
        raise ValueError(f"x holds {len(held)} coordinates, but an exchange speaks of supports of at most s = {s}.")
    if supports is not None:
        return supports.gap(x)
    everything, at = pool.pool_of(problem), np.zeros(problem.n)
    few = np.union1d(held, pool.largest(-everything.slopes(x), 2))
    at[few] = supports_of(everything.restricted(few)).weighted(x[few])
    promises, best, leaves, enters = everything.promises(at), 0.0, -1, -1
    on_line = isinstance(problem.u, Sum)
    while True:
        few = pool.largest(promises, pool.PROMISING if on_line else pool.TURNING)
        members = np.union1d(held, few)
        own, gain, *places = supports_of(everything.restricted(members)).gap(x[members])
        if gain > best:
            best, (leaves, enters) = gain, (int(members[place]) if place >= 0 else -1 for place in places)
        promises[few] = -np.inf
        if not on_line or promises.max() <= best:
            return own, best, leaves, enters


def supports_of(problem: Problem) -> SparseLine | SparseArc:
    """Return the supports of a problem with ``TopSum``."""
    if not isinstance(problem.g, TopSum):
        raise ValueError(
            f"method 'swap' exchanges members of a support; g must be TopSum, it is {type(problem.g).__name__}."
        )
    return SparseLine(problem) if isinstance(problem.u, Sum) else SparseArc(problem)


def _certified(problem: Problem, result: Result, tol: float, s: int) -> Result:
    """Look at all pairs too: a swap-optimal point is CWS where λ is large, and where it is not BCD-g goes on."""
    if result.status is not Status.SWAP_OPTIMAL:
        return result
    after = bcd_g(problem, result.x, tol=tol, max_iter=20 * problem.n**2)
    moved = float(np.abs(after.x - result.x).max())
    # Of a point that holds more than s, lower than those that do not, no exchange is claimed.
    dense = np.count_nonzero(result.x) > s
    if dense or (after.objective < result.objective and moved > 1e-6 * _size(result.x)):
        return join(result, after)
    fields = {"success": after.status is Status.CERTIFIED, "cws_gap": after.cws_gap, "tolerance": after.tolerance}
    return Result(**{**result, **fields})


def _size(x: Vector) -> float:
    return float(np.abs(x).max())

"""Swap-optimal points: supports that no exchange of one coordinate for another improves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from counterpoise.checks import Vector
from counterpoise.problem import Problem, Result, Status
from counterpoise.registry import serving, strategy_for
from counterpoise.solvers.bcd import bcd_g, pair_stage
from counterpoise.solvers.pooled import pooled
from counterpoise.solvers.run import Epoch, Progress, Run
from counterpoise.supervision import Limits, supervised

# Exchanges between two checks of the clock.
EPOCH_SWAPS = 4
MOST_SWAPS = 10_000
# On a sphere where exchanges are not proved: those verified in each round, and the limit on pair steps per coordinate.
TRIES, PAIRS_EACH = 16, 200
# The mix of curvature and bound of a loss by which they are estimated, and the least gain, relative to F.
ESTIMATED, TOL = 0.1, 1e-9
# A proof to within the tolerance of the result is worth a claim if that is at most this share of |F|.
TELLING = 1e-3


@supervised
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
    """Exchange a held coordinate for one outside while that lowers f + h, with the best weights on the new support.

    The method starts with BCD-g from x0, then exchanges at s-sparse points. If λ is so small that a denser point has a
    lower objective, BCD-g from the end of the exchanges finds it, and the better point is returned.

    On binary problems an exchange is a step on a pair, which BCD-g has already tried. There the method rounds the end
    of BCD-g to the nearest binary point, exchanges, and runs BCD-g on the penalised objective again.

    On a sphere with another f than ½xᵀQx, or another h than λ‖x‖₁, the best weights on a support are not known. There a
    held coordinate gives its value to one outside, BCD-g descends from that point, and nothing is proved of exchanges.

    Parameters
    ----------
    problem : Problem
        With ``TopSum`` or ``AtMost`` on ``Sum`` (lower bounds of at least 0) or on ``Sphere``; or with ``Norm2`` or
        ``ConcaveQuadratic`` on ``Sum`` with bounds ±b.
    x0 : array of length n, optional
    tol, max_iter, max_time, seed, callback
        As in :func:`counterpoise.solvers.bcd.bcd_g`; ``max_iter`` counts exchanges, and where nothing is proved of
        them, or on binary problems, also the pairs before and after. SWAP_OPTIMAL means a proof that no
        exchange gains more than ``tol``·|f + h| plus rounding error, at a point that is also CWS. On ``Sphere()``
        finding the best weights on a support is not a convex problem; if the proof would take too long, the status is
        CERTIFIED. On ``Sphere(signed=True)`` they are a leading eigenvector, and the proof is fast. On ``Sum`` with a
        loss, or with floors or group limits, exchanges are verified one by one; without ``max_time`` a run
        that would need much longer than a few seconds ends CERTIFIED. The same holds with bounds or kinks if more than
        100 may be held.
    """
    problem = problem.by_columns
    run, strategy = Run(problem, x0, tol, max_iter, max_time, seed, callback), strategy_for(problem)
    if problem.g.lam > 0.0 and strategy is not None and problem.u.is_sphere and strategy.refusal(problem) is not None:
        return _on_vertices(run, Moves(problem))
    strategy = serving(problem, "swap")
    columns = strategy.pool_for(problem)
    if columns is not None:
        return pooled(run, columns, _on_pool(tol, seed), x0 is not None, Status.SWAP_OPTIMAL)
    return _on_supports(run, strategy(problem)) if strategy.has_supports else _on_vertices(run, strategy(problem))


def _on_supports(run: Run, supports: Any) -> Result:
    """Alternate exchanges and descents by pairs until neither gains; F falls from round to round.

    For large λ a point that no exchange improves is also CWS. For small λ the pairs may lead to a point with more than
    s non-zeros, for which nothing is claimed about exchanges. The best of all certified points is returned.
    """
    at, claims, supports.limits = run.start, [], run.limits
    supports.is_default = run.max_time is None
    report, more = _pairs(run, at)
    while report.status is Status.CERTIFIED and run.limits.stopped is None:
        claims.append(_Claim(run.objective, report._replace(x=at.copy()), more))
        report = run.stage(_exchanges(run, supports, at))
        if report.status is not Status.SWAP_OPTIMAL:
            break
        # On a support the rounding error may exceed that of F(x), and the tolerance that the result states.
        allowed = supports.tolerance(at, run.tol) if supports.tolerance(at, 0.0) <= run.tolerance else run.tolerance
        # The other way round for a loss with a small slope, whose pairs are those of models: see Loss.value_size.
        if run.tolerance <= TELLING * abs(run.objective):
            allowed = max(allowed, run.tolerance)
        proved = report.gap <= allowed
        bound, reached = report.gap, run.objective
        report, more = _pairs(run, at)
        # Exchanges continue only from an s-sparse point that the pairs have improved, so every round lowers F.
        if run.objective >= reached - run.tolerance or np.count_nonzero(at) > supports.s:
            break
    if run.limits.stopped is not None:
        report = report._replace(status=run.limits.stopped)
    if report.status is Status.CERTIFIED:
        claim = report._replace(x=at.copy())
        if proved and run.objective >= reached - run.tolerance and np.count_nonzero(at) <= supports.s:
            claim, more = claim._replace(status=Status.SWAP_OPTIMAL), {**more, "swap_gap": bound}
        # Among points whose F differs only by rounding, prefer the last.
        claims.append(_Claim(run.objective - run.tolerance, claim, more))
        best = min(claims, key=lambda one: one.objective)
        report, more = best.report, best.more
    return run.finish(report, more)


def _pairs(run: Run, at: Vector) -> tuple[Epoch, dict[str, Any]]:
    """Descend by pairs, which do not count towards ``max_iter``."""
    most, before, run.max_iter = run.max_iter, run.done, None
    found = pair_stage(run, at)
    run.max_iter = None if most is None else most + run.done - before
    return found


class _Claim(NamedTuple):
    """A certified point with its objective and the claims about it."""

    objective: float
    report: Epoch
    more: dict[str, Any]


def _exchanges(run: Run, supports: Any, at: Vector) -> Callable[[int], Epoch]:
    """Return the slice function for exchanges from ``at``, in place; its last gap is the proved bound on any gain."""

    def epoch(trials: int) -> Epoch:
        floor = supports.tolerance(at, run.tol)
        most = min(trials, EPOCH_SWAPS)
        if run.max_iter is None and getattr(supports, "is_limited", False):
            most = MOST_SWAPS  # slices are those of its work
        x, made, bound = supports.advance(at, most, floor)
        if made == 0 and math.isnan(bound):
            # The support of x cannot reach the sum within its bounds: try another start.
            x, made, bound = supports.advance(supports.start(0, run.rng), MOST_SWAPS, floor)
            if made == 0 and math.isnan(bound):
                return Epoch(at, 1, 0, Status.SWAP_OPTIMAL, math.inf)
        at[:] = x
        return Epoch(at, max(made, 1), made, None if math.isnan(bound) else Status.SWAP_OPTIMAL, bound)

    return epoch


def _on_vertices(run: Run, binary: Any) -> Result:
    """Descend, exchange between binary points, descend again; return the better of the two ends."""
    first = run.start
    report, more = pair_stage(run, first)
    if report.status is not Status.CERTIFIED or run.limits.stopped is not None:
        return run.finish(report._replace(status=run.limits.stopped or report.status), more)
    claim, binary.limits = _Claim(run.objective, report._replace(x=first.copy()), more), run.limits
    x = binary.round(first)
    report = run.stage(lambda trials: Epoch(x, *binary.advance(x, trials)))
    if report.status is not Status.STATIONARY or run.limits.stopped is not None:
        return run.finish(report._replace(status=run.limits.stopped or report.status))
    if run.max_iter is not None and run.done >= run.max_iter:
        return run.finish(report._replace(status=Status.ITERATION_LIMIT))
    report, more = pair_stage(run, x)
    if report.status is Status.CERTIFIED and run.objective >= claim.objective:
        return run.finish(claim.report, claim.more)
    return run.finish(report, more)


class Moves:
    """Exchanges on a sphere if the best weights on a support are unknown: one coordinate gives its value to another.

    They are estimated by a model of F. Those that promise most are verified by BCD-g from there.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.limits = problem, Limits()
        self.failed = 0  # how many of the exchanges from the current point have been tried in vain
        self.signs = np.array([1.0, -1.0] if problem.u.signed else [1.0])

    def round(self, x: Vector) -> Vector:
        """Return a copy of x."""
        return x.copy()

    def advance(self, x: Vector, trials: int) -> tuple[int, int, Status | None]:
        """Make the first of the best exchanges that lowers F, in place, in at most ``trials`` tries.

        Return how many were tried, how many were made, and STATIONARY if all have been tried in vain.

        The change of F when xⱼ = v moves to i with sign σ is about v(σgᵢ − gⱼ) + ½v²(Q_ii + Q_jj − 2σQ_ij).
        """
        held, model = np.flatnonzero(x), self.problem.model(x, ESTIMATED).f
        slope, diagonal, outside = model.gradient(x) + self.problem.separable.weight, model.diagonal, x == 0.0
        change = np.full((len(held), len(self.signs), len(x)), np.inf)
        for a, j in enumerate(held):
            unit = np.zeros(len(x))
            unit[j] = x[j]
            for b, sign in enumerate(self.signs):
                bend = x[j] ** 2 * (diagonal + diagonal[j]) - 2.0 * sign * x[j] * (model.gradient(unit) - model.p)
                change[a, b, outside] = (x[j] * (sign * slope - slope[j]) + 0.5 * bend)[outside]
        (value, noise), tried = self.problem.value_and_resolution(x), 0
        most = min(TRIES, int(np.count_nonzero(change < np.inf)))
        for place in np.argsort(change, axis=None, kind="stable")[self.failed : min(most, self.failed + trials)]:
            a, b, i = np.unravel_index(place, change.shape)
            if self.limits.reached():
                break
            point, tried = x.copy(), tried + 1
            point[i], point[held[a]] = self.signs[b] * x[held[a]], 0.0
            left = None if math.isinf(self.limits.left()) else self.limits.left()
            end = bcd_g(self.problem, point, max_iter=PAIRS_EACH * len(x), max_time=left)
            if end.objective < value - 64.0 * noise - TOL * abs(value):
                x[:], self.failed = end.x, 0
                return tried, 1, None
        self.failed += tried
        return max(tried, 1), 0, Status.STATIONARY if self.failed >= most else None


def _on_pool(tol: float, seed: int | None) -> Callable[[Problem, Vector, float | None], Result]:
    """Return the function that a pool calls on its columns: BCD-g, then exchanges."""

    def descend(problem: Problem, x: Vector, seconds: float | None) -> Result:
        first = bcd_g(problem, x, tol=tol, max_time=seconds, seed=seed)
        return swap(problem, first.x, tol=tol, max_time=seconds, seed=seed)

    return descend

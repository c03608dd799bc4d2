"""Sparse points on the line if f is not quadratic: starts and children for a search, exchanges, and proofs.

Exchanges are proposed by the closed form of :mod:`counterpoise.kernels.swap_line` on a model of F and verified on F
itself, by Newton's method on the new support, because the closed form is only an estimate.
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from counterpoise import exactness
from counterpoise.checks import Vector
from counterpoise.kernels import swap_line
from counterpoise.problem import Problem
from counterpoise.rules import near_point
from counterpoise.solvers.line_walk import inverse_with_sum, walk
from counterpoise.solvers.loss_support import LEAST_CURVATURE, LossSupports, Solved
from counterpoise.solvers.pool import entering
from counterpoise.solvers.population import Population
from counterpoise.solvers.sparse_line import CLAIM_TRIES as CLAIM_EXCHANGES
from counterpoise.solvers.sparse_line import SparseLine, joined, random_size, reduce_to, short_steps
from counterpoise.terms.separable import one_sided_slopes, separable_value

# A support is solved when its gap is at most this fraction of F, in a search and for a claim.
SOLVED, CLAIMED = 1e-7, 1e-11
# Proposals that are verified before a support counts as a local optimum, in a search and for a claim.
SEARCH_TRIES, CLAIM_TRIES = 12, 100
# The most exchanges that a proof verifies one by one.
PROVED = 4000
# The most work (see :meth:`LossSupports.work_of`) on exchanges: in a job of a search, at its end, and in a swap, unless
# there is a time limit. If the proof of a swap would take more than PROOF_WORK, at STEPS Newton steps an exchange, it
# first makes exchanges on models.
JOB_WORK, END_WORK, SWAP_WORK, PROOF_WORK, STEPS = 2e8, 5e8, 2.5e9, 2e9, 4
# The work on walks under floors or groups, in a job; the fewest jobs, and the work of all of them.
WALK_WORK, LEAST_JOBS, ALL_WORK = 2.5e8, 2, 1.5e9
# Exchanges on one model at the end of a search.
EXCHANGED = 4
# Exchanges that are verified in a descent on an upper bound of f, if each solves a small program.
BOUND_TRIES = 8
# The range over which the curvatures of a model are averaged, in units of the root mean square of z.
RANGE = 1.0
# The least gain of an exchange, relative to F, in a search.
TOL = 1e-9
# The number of starts on upper bounds of f, how many successive bounds they use, and the most exchanges of a descent.
MODEL_STARTS, BOUNDS, MOST_SWAPS = 1, 3, 10_000
# A coordinate is at its floor if it is at most this many times as large.
AT_FLOOR = 1.0 + 1e-9
# The most coordinates in the model for a walk, besides the held ones.
MODELLED = 500


class LossLine(LossSupports):
    """Supports of at most s coordinates for a convex f = Σφ(Ax − y), f + h minimised on each."""

    plan = Population(first=4, size=6, stale=24, batch=4, work=32)
    has_supports = takes_losses = works_by_columns = is_unrefined = True
    threshold = staticmethod(exactness.sparse_on_line)
    refusal, pool_for = staticmethod(SparseLine.refusal), staticmethod(lambda problem: None)

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.worked = 0.0  # on exchanges
        self.steps = short_steps(self.s, problem.n)
        each = JOB_WORK * min(1.0, SEARCH_TRIES * STEPS * self.work_of(self.s) / JOB_WORK)
        if self.ruled:
            each += min(WALK_WORK, self.steps * self.work_of(self.s))
        self.plan = self.plan._replace(work=int(np.clip(ALL_WORK // each, LEAST_JOBS, self.plan.work)))

    # Exchanges.

    def proposals(self, x: Vector, count: int) -> list[tuple[int, int]]:
        """Return the exchanges with the largest estimated gains, best first: who leaves (−1: none has to), who enters.

        The formulas are those of :mod:`counterpoise.kernels.swap_line`, with curvatures averaged over the range in
        which z may move; otherwise a row just beyond a corner of φ would give too large an estimate.
        """
        problem, f, h = self.problem, self.problem.f, self.problem.separable
        held = self._held(x)
        m, z = len(held), f.residual(x)
        curvature = f.weighted(self._averaged(z))
        gradient = self.columns @ f.weighted(f.phi.slope(z))
        left, right = one_sided_slopes(h, x)
        cross = (self.columns[held] * curvature) @ self.columns.T
        Q = cross[:, held]
        Q[np.diag_indices(m)] += h.bend[held]
        M = inverse_with_sum(Q)
        Z = M[:m, :m] @ cross + M[:m, m:]
        schur = self.squares @ curvature + h.bend - M[m, m] - np.einsum("jk,jk->k", cross, Z + M[:m, m:])
        rho = gradient + right - self._shared(held, (gradient + left)[held])
        reach = np.minimum(h.hi, problem.u.c)
        leavers = self._leavers(held)
        promise = np.repeat(entering(rho, schur, reach)[None, :], len(leavers), axis=0)
        if m > 1:
            out = np.searchsorted(held, leavers[leavers >= 0])
            spread = np.maximum(np.diag(M)[out], 1e-300)[:, None]
            weight, row = x[held[out]][:, None], Z[out]
            bend = schur + row * row / spread
            promise[leavers >= 0] = entering(rho - row * (weight / spread), bend, reach) - 0.5 * weight**2 / spread
        promise[:, held] = -np.inf
        promise[:, h.hi <= 0.0] = -np.inf
        flat = promise.ravel()
        best = np.argpartition(-flat, min(count, flat.size - 1))[:count] if flat.size else np.zeros(0, dtype=np.int64)
        best = best[np.argsort(-flat[best], kind="stable")]
        return [(int(leavers[k // problem.n]), int(k % problem.n)) for k in best if flat[k] > -np.inf]

    def _leavers(self, held: Any) -> Any:
        """Return who may leave for a newcomer, −1 for none; under floors a newcomer may need another to leave."""
        room = len(held) < self.s
        leavers = held[~self.must[held]] if self.ruled or not room else held[:0]
        return np.append(-1, leavers) if room else leavers

    def _averaged(self, z: Vector) -> Vector:
        """Return the curvatures of φ, averaged over a range around z."""
        phi = self.problem.f.phi
        around = RANGE * math.sqrt(float(z @ z) / len(z))
        if around == 0.0:
            curvature = phi.curvature(z)
        else:
            curvature = (phi.slope(z + around) - phi.slope(z - around)) / (2.0 * around)
        clipped: Vector = np.clip(curvature, LEAST_CURVATURE * phi.bound, phi.bound)
        return clipped

    def _shared(self, held: Any, slopes: Vector) -> Any:
        """Return the slope that a newcomer must undercut: the largest of the held ones, in its own group if any."""
        if not self.problem.u.groups:
            return float(slopes.max())
        leaf = self.u.leaf
        shared = np.full(int(leaf.max()) + 1, -np.inf)
        np.maximum.at(shared, leaf[held], slopes)
        return np.where(np.isfinite(shared), shared, slopes.max())[leaf]

    def _dispensable(self, held: Any) -> Any:
        """Return who may leave without a newcomer: only a floor keeps members from 0 that are better left out."""
        h = self.problem.separable
        return held[(h.floor[held] > h.lo[held]) & ~self.must[held]] if len(held) > 1 else held[:0]

    def moves(self, x: Vector, count: int) -> list[tuple[int, int]]:
        """Return the proposed exchanges, then who may leave with nobody (−1) in its place.

        These are members at their floors. The weights of others would be the best without their floors as well, by
        convexity, so that 0 in their place is no better.
        """
        few = self._dispensable(self._held(x))
        at_floor = few[x[few] <= AT_FLOOR * self.problem.separable.floor[few]]
        return [*self.proposals(x, count), *((int(j), -1) for j in at_floor)]

    def exchanged(self, x: Vector, leaves: int, enters: int, solved: float, below: float) -> Solved | None:
        """Solve on the support with one coordinate in the place of another, or with none (−1) in its place."""
        start = x.copy()
        if enters >= 0:
            start[enters] = x[leaves] if leaves >= 0 else self.problem.u.c / (self.s + 1)
        if leaves >= 0:
            start[leaves] = 0.0
        return self.solve(start, self._held(start), solved, below)

    # The interface of search and swap.

    def start(self, k: int, rng: np.random.Generator) -> Vector:
        """Start from a good point of upper bounds of f, later from random sets reduced on a model; then exchange."""
        if k < MODEL_STARTS:
            return self._walked(self._reference, rng)
        n = self.problem.n
        # Among few coordinates a set must leave some out, or all starts are the same.
        few = rng.choice(n, min(n, random_size(self.s), max(self.s, (n + self.s) // 2)), replace=False)
        return self._walked(self._reduced(self._reference, few), rng)

    @cached_property
    def _reference(self) -> Vector:
        """A good sparse point: the end of several walks, each on the upper bound of f at the end of the last.

        If f stores no AᵀA, as with very many columns, each walk sees only the most promising of them.
        """
        problem, rng = self.problem, np.random.default_rng(0)
        x = problem.project(np.full(problem.n, problem.u.c / problem.n))
        for k in range(BOUNDS if self.plan.work > LEAST_JOBS else 1):
            if not problem.f.gram:
                bounds = np.full(problem.f.m, problem.f.phi.bound)
                x = self.weighted(self._model_walk(x, self._promising(x), bounds, rng))
                continue
            line = SparseLine(problem.model(x))
            line.limits = self.limits
            tries = BOUND_TRIES if line.ruled else CLAIM_EXCHANGES
            x = self.weighted(line.start(0, rng) if k == 0 else line.descend(x, tries))
        return x

    def child(self, parents: list[Vector], rng: np.random.Generator) -> Vector:
        """Take the union of the parents' supports, or a part of one, and a few more; reduce it to s, then exchange."""
        held, more = joined(parents, self.s, self.problem.n, rng)
        return self._walked(self._reduced(parents[0], np.union1d(held, more)), rng)

    def _reduced(self, x: Vector, members: Any) -> Vector:
        """Return a point with at most s of the members, by backward elimination on a model of F at x."""
        members = np.union1d(members, np.flatnonzero(self.must)).astype(np.int64)
        z, at = self.problem.f.residual(x), np.zeros(len(members))
        reduce_to(self._model(members, x, z, self._averaged(z)), self.s, np.arange(len(members)), at)
        out = np.zeros(len(x))
        out[members] = at
        if not out.any() or (self.ruled and not self.problem.is_feasible(out)):
            out = near_point(self.problem, out if out.any() else x)
        return out

    def _walked(self, x: Vector, rng: np.random.Generator) -> Vector:
        """Repeat walks on models of F while they improve x, then exchange; return the end."""
        at = self.solve(x, self._held(x), SOLVED)
        if at is None:
            return x
        walks = WALK_WORK
        while not self.limits.reached() and walks > 0:
            if self.ruled:
                walks -= self.steps * self.work_of(int(np.count_nonzero(at.x)))
            members = self._promising(at.x) if self.problem.n > MODELLED else np.arange(self.problem.n)
            end = self._model_walk(at.x, members, self._averaged(self.problem.f.residual(at.x)), rng)
            found = self.solve(end, self._held(end), SOLVED, at.value)
            if found is None or found.value >= at.value - TOL * abs(at.value) - self.noise:
                break
            at = found
        return self._improved(at, SEARCH_TRIES, MOST_SWAPS, self.noise, TOL, JOB_WORK)[0].x

    def refined(self, x: Vector) -> Vector:
        """Exchange from the end of a search, with more work than a job may take."""
        found = self.solve(x, self._held(x), SOLVED)
        if found is None:
            return x
        at, work = found, END_WORK
        while not self._can_prove(at.x) and work > 0 and not self.limits.reached():
            # As a swap does.
            at, made = self._exchanged_on_model(at, EXCHANGED, self.noise)
            work = work - self._model_work(at.x, made) if made else 0.0
        at = self._improved(at, CLAIM_TRIES, MOST_SWAPS, self.noise, TOL, max(work, JOB_WORK))[0]
        return at.x if at.value < found.value else x

    def _promising(self, x: Vector) -> Any:
        """Return the coordinates that x holds and those that promise most in an exchange."""
        entering = [enters for _, enters in self.proposals(x, 10 * MODELLED)]
        return np.union1d(self._held(x), list(dict.fromkeys(entering))[:MODELLED]).astype(np.int64)

    def _model_walk(self, x: Vector, members: Any, curvature: Vector, rng: np.random.Generator) -> Vector:
        """Return the end of a walk among the members, on the model of F at x with the given curvatures."""
        end, others = np.zeros(len(x)), x[members]
        model = self._model(members, x, self.problem.f.residual(x), curvature)
        walk(model, others, self.s, rng, short_steps(self.s, len(members)))
        end[members] = others
        return end

    def descend(self, x: Vector) -> Vector:
        """Exchange from x until no proposed exchange gains; return the point."""
        found = self.solve(x, self._held(x), SOLVED)
        return x if found is None else self._improved(found, CLAIM_TRIES, MOST_SWAPS, self.noise, TOL, SWAP_WORK)[0].x

    def _improved(
        self, at: Solved, tries: int, most: int, floor: float, tol: float, work: float = math.inf
    ) -> tuple[Solved, int, bool]:
        """Make at most ``most`` moves that gain; return the end, their number, and whether no proposal was left.

        It ends early when it has done the given work.
        """
        made, before = 0, -1
        while made > before:
            before = made
            for leaves, enters in self.moves(at.x, tries):
                if made >= most or self.limits.reached():
                    return at, made, False
                count = np.count_nonzero(at.x)
                if count == 1 if enters < 0 else at.x[enters] > 0.0:
                    continue  # an earlier move has taken it in, or left nobody else
                if count >= self.s if leaves < 0 else at.x[leaves] == 0.0:
                    continue
                below = at.value - tol * abs(at.value) - floor
                found = self.exchanged(at.x, leaves, enters, SOLVED, below)
                done = self.work_of(int(count)) if found is None else found.work
                work, self.worked = work - done, self.worked + done
                if found is not None and found.value < below:
                    at, made = found, made + 1
                if work <= 0.0:
                    return at, made, False
        return at, made, True

    def _held(self, x: Vector) -> Any:
        return np.flatnonzero((x > 0.0) | self.must)

    def weighted(self, x: Vector) -> Vector:
        """Return the best weights on the support of an s-sparse x."""
        found = self.solve(x, self._held(x), CLAIMED)
        return x if found is None else found.x

    def tolerance(self, x: Vector, tol: float) -> float:
        """Return the least gain that counts: a fraction of f + h, without the terms of λ, plus rounding error."""
        return tol * abs(self._sum(self.problem.separable, x, self.problem.f.residual(x))) + self.noise

    def advance(self, x: Vector, swaps: int, floor: float) -> tuple[Vector, int, float]:
        """Make at most ``swaps`` exchanges that gain more than ``floor``; under floors names may also just leave.

        Return the point, their number, and a proved bound of what any of these moves gains: NaN if there may be more
        that gain, ∞ if there are too many to verify them all.
        """
        found, made = self.solve(x, self._held(x), CLAIMED), 0
        if found is None:
            return x, 0, math.nan
        is_short = math.isinf(self.limits.left())
        if is_short and self.worked < SWAP_WORK and not self._can_prove(found.x):
            end, more = self._exchanged_on_model(found, swaps, floor)
            if more:
                return end.x, more, math.nan
        while True:
            left = SWAP_WORK - self.worked if is_short else math.inf
            found, more, ended = self._improved(found, CLAIM_TRIES, swaps - made, floor, 0.0, left)
            made += more
            out_of_work = not ended and made < swaps
            if self.limits.reached() or out_of_work or (ended and self._exchanges(found.x) > PROVED):
                return found.x, made, math.inf
            if not ended:
                return found.x, made, math.nan
            found = self.solve(found.x, self._held(found.x), CLAIMED) or found
            look = self._verified(found, departures=True, work=SWAP_WORK - self.worked if is_short else math.inf)
            if look.gain <= floor or made >= swaps:
                return found.x, made, look.bound if look.gain <= floor else math.nan
            found, made = look.best, made + 1

    def _exchanged_on_model(self, at: Solved, swaps: int, floor: float) -> tuple[Solved, int]:
        """Make exchanges on a model of F, of which several take as long as one on F; return the end and their number.

        The number is 0 if they do not lower F.
        """
        members = self._promising(at.x) if self.problem.n > MODELLED else np.arange(self.problem.n)
        model = self._model(members, at.x, self.problem.f.residual(at.x), self._averaged(self.problem.f.residual(at.x)))
        weights, end = at.x[members], np.zeros(len(at.x))
        most = SEARCH_TRIES, swap_line.UNLIMITED
        made = int(swap_line.descend(model, weights, self.s, TOL, floor, swaps, *most, self._unused)[1])
        end[members] = weights
        found = self.solve(end, self._held(end), CLAIMED, at.value - floor) if made else None
        self.worked += self._model_work(at.x, made)
        return (found, made) if found is not None and found.value < at.value - floor else (at, 0)

    def _model_work(self, x: Vector, made: int) -> float:
        """Return the work of exchanges on a model."""
        return (made + 1) * STEPS * self.work_of(int(np.count_nonzero(x)))

    def gap(self, x: Vector) -> tuple[float, float, int, int, float]:
        """Return (own, gain, leaves, enters, bound), as :func:`counterpoise.certificates.swap_gap` does.

        All exchanges are verified, one by one.
        """
        if not x.any():  # the only feasible point, because bounds are at least 0
            return 0.0, 0.0, -1, -1, 0.0
        count = self._exchanges(x)
        if count > PROVED:
            raise ValueError(
                f"{type(self.problem.f).__name__} is not quadratic, so all {count} exchanges would have to be "
                f"verified one by one, more than the limit of {PROVED}; use level='pair'."
            )
        found = self.solve(x, self._held(x), CLAIMED)
        if found is None:
            raise ValueError(f"the non-zeros of x cannot have the sum {self.problem.u.c:g} within their bounds.")
        h = self.problem.separable
        value = self._sum(h, x, self.problem.f.residual(x)) - separable_value(h, np.zeros(len(x)))
        own, look = max(value - found.value, 0.0), self._verified(found)
        return own, look.gain, look.leaves, look.enters, own + look.bound

    def _can_prove(self, x: Vector) -> bool:
        """Return whether all exchanges can probably be verified; a time limit allows more of them."""
        is_cheap = self._proof_work(x) <= PROOF_WORK or math.isfinite(self.limits.left())
        return self._exchanges(x) <= PROVED and is_cheap

    def _proof_work(self, x: Vector) -> float:
        """Return the work of verifying all exchanges."""
        return self._exchanges(x) * STEPS * self.work_of(int(np.count_nonzero(x)))

    def _exchanges(self, x: Vector) -> int:
        return int(self.problem.n - np.count_nonzero(x)) * len(self._leavers(self._held(x)))

    def _verified(self, at: Solved, departures: bool = False, work: float = math.inf) -> _Look:
        """Solve on the support of every exchange far enough to find the one that gains most.

        With ``departures`` this includes members that leave without replacement. The bound is ∞ if that takes more
        than the given work.
        """
        held, h = self._held(at.x), self.problem.separable
        floored = h.floor > h.lo
        outside = np.flatnonzero((at.x == 0.0) & (h.hi > 0.0) & ~self.must)
        moves = list(itertools.product(self._leavers(held).tolist(), outside.tolist()))
        if departures:
            moves += [(j, -1) for j in self._dispensable(held).tolist()]
        look = _Look(0.0, -1, -1, at.gap, at)
        for leaves, enters in moves:
            if self.limits.reached() or work <= 0.0:
                return look._replace(bound=math.inf)
            found = self.exchanged(at.x, leaves, enters, CLAIMED, at.value - look.gain)
            done = self.work_of(len(held)) if found is None else found.work
            work, self.worked = work - done, self.worked + done
            if found is None:
                continue
            members = held[held != leaves] if enters < 0 else np.append(held[held != leaves], enters)
            if (floored[members] & (found.x[members] == 0.0)).any():
                continue  # the floors do not fit, and another member would have to leave
            look = look._replace(bound=max(look.bound, at.value - found.value + found.gap))
            if at.value - found.value > look.gain:
                look = look._replace(gain=at.value - found.value, leaves=leaves, enters=enters, best=found)
        return look


class _Look(NamedTuple):
    """The best exchange: its gain, who leaves and enters, a bound on all gains, and its point."""

    gain: float
    leaves: int
    enters: int
    bound: float
    best: Solved

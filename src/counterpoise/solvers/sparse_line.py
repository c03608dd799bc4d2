"""Sparse points on the line: starts, children and exchanges for a search on ``TopSum`` or ``AtMost`` with ``Sum``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from counterpoise import exactness
from counterpoise.checks import Vector
from counterpoise.kernels import enumerate as enumeration
from counterpoise.kernels import price_line, swap_line
from counterpoise.kernels.anneal_line import anneal
from counterpoise.problem import Problem
from counterpoise.rules import near_point
from counterpoise.solvers.line_walk import FEW, TOL, inverse_with_sum, is_plain, straightened, walk
from counterpoise.solvers.pool import line_pool
from counterpoise.solvers.population import Population
from counterpoise.supervision import Limits
from counterpoise.terms.separable import is_gapped, one_sided_slopes, separable_size, separable_value, take

# The most exchanges that are verified before a support counts as locally optimal: for a claim, the factor by which they
# grow while the claim is not proved, and in a search.
CLAIM_TRIES, MORE_TRIES, SEARCH_TRIES = 4096, 8, 8
# The most that are verified at the end of a search whose estimates are rough, times s³.
REFINED = 300_000_000
# Values of an enumeration that are closer than this, relative to the size of F's parts, are equal.
MARGIN = 1e-12
MOST_SWAPS = 10_000
# Exchanges between two checks of the clock, times sn.
SLICE = 2_000_000
# The number of starts from one coordinate; others reduce a random set of min(RANDOM_SHARE·s, s + MOST_RANDOM).
FORWARD_STARTS, RANDOM_SHARE, MOST_RANDOM = 1, 3, 120
# The number of new coordinates that a child gets besides those of its parents: as a fraction of s, and at least.
FRESH_SHARE, LEAST_FRESH = 0.5, 3
# The share of children that lose a part of one parent instead of joining two.
KICKS = 0.25
# Steps of the walk of every start and child, times the sn exchanges that each scores; limits on the steps, in all and
# per coordinate.
WALK_WORK, LEAST_STEPS, MOST_STEPS, STEPS_EACH = 3_500_000, 60, 250, 4
# If more than FEW may be held, good regions are few and deep: walks have STEPS_HELD·s steps, if LONG_WORK allows.
STEPS_HELD, LONG_WORK = 5, 24_000_000
# A child then begins with NOISY steps for a y with noise, whose size relative to the residual is drawn from NOISE; if f
# has no y or steps are slow, it is a parent without a random part of its coordinates, of a share drawn from LOST.
NOISY, NOISE, LOST = 100, (0.5, 1.5), (0.15, 0.35)
# If more than FAMILIES may be held, a population is replaced after STALE jobs without an improvement, and points with a
# fraction ALIKE of their coordinates in common count as one.
FAMILIES, STALE, ALIKE = 60, 12, 0.8
# Exchanges scored in all jobs of a search without limits, the number of them that small programs count as, over s³, the
# fewest and most jobs, and the jobs if at most FEW may be held.
WORK, SOLVED, LEAST_JOBS, MOST_JOBS, JOBS_OF_FEW = 1_750_000_000, 16, 4, 150, 120
# The fraction of these jobs that is used if every step of a walk solves a small program, and the fewest.
SLOW_SHARE, LEAST_SLOW_JOBS = 0.58, 3
# If s is above n/2 and there are floors or groups, random sets hold n / ROOMY; if floors are tight, n / ROOMY_TIGHT.
ROOMY, ROOMY_TIGHT = 4, 2
# The jobs of a search if floors are tight, which are short.
TIGHT_JOBS = 8
# Verified exchanges of a claim under floors or groups, times m³ for m held: in a round, and in a proof, which is left
# out if it takes more and there is no time limit.
CLAIM_WORK, PROOF_WORK = 2_000_000_000, 10_000_000_000
# If more than MANY may be held and exchanges solve small programs, their work is limited, unless there is a time limit
# or a number of jobs is given: a program for m held counts as RATE·m³, about as many nanoseconds, GROUPED times as
# much with group limits, KINKED times with kinks. The most work on the walk of a job, on its exchanges, in a swap and
# at the end of a search, and between two checks of the clock; in all jobs of a search, without and with kinks.
MANY, RATE, GROUPED, KINKED = 100, 0.5, 2.0, 8.0
WALK_LIMIT, JOB_WORK, SWAP_WORK, SLICE_WORK = 4e8, 1.5e8, 2.2e9, 2.5e8
ALL_WORK, KINKED_WORK = 4e9, 1.5e9
# The fewest steps of a walk, without which there is none.
LEAST_WALK = 6
# The programs that a job solves besides those of the steps and exchanges.
JOB_PROGRAMS = 10
# Exchanges that a limited swap first verifies after each scoring, and the factor by which they grow if none gains.
FIRST_TRIES, GROWTH = 32, 4
# The work of scoring all exchanges of m held coordinates among n, over m²n.
SCORING = 0.3
# A round of a limited swap that could not solve so many exchanges is left out.
LEAST_SOLVED = 8
# Floors are tight if fewer than TIGHT·s of them fit into the sum. Then a job is ANNEALED // s² random moves, at most
# ANNEAL_EACH·n, in slices, at temperatures that fall from HOT to COLD, in units of the mean rise of a move.
TIGHT, ANNEALED, ANNEAL_EACH, ANNEAL_SLICE, HOT, COLD = 2, 7_000_000, 200, 1024, 0.15, 0.003


class SparseLine:
    """Supports of at most s coordinates, f + h minimised on each, for ``AtMost``, or ``TopSum`` with a large λ."""

    plan = Population(first=4, size=6, stale=24, batch=4, work=JOBS_OF_FEW)

    has_supports = True
    for_losses = "counterpoise.solvers.loss_line:LossLine"
    threshold, pool_for = staticmethod(exactness.sparse_on_line), staticmethod(line_pool)

    @staticmethod
    def refusal(problem: Problem) -> str | None:
        """Return why a problem cannot be solved on supports, or None."""
        lo, s = problem.separable.lo, int(problem.g.s)
        if (lo < 0.0).any():
            return "supports on the line need lower bounds of at least 0; method 'bcd-g' takes any."
        if int((lo > 0.0).sum()) > s:
            return f"{int((lo > 0.0).sum())} lower bounds are positive, but at most s = {s} may be held."
        if not problem.f.is_convex:
            return (
                "supports on the line need a convex f: on a support its minimum is then one small program. Here Q has "
                "a negative eigenvalue; method 'bcd-g' takes any f."
            )
        return None

    def __init__(self, problem: Problem) -> None:
        h = problem.separable
        self.problem, self.limits = problem, Limits()
        # No more coordinates can be held than floors fit into the sum.
        fits = int((np.cumsum(np.sort(np.maximum(h.floor, h.lo))) <= problem.u.c * (1.0 + MARGIN)).sum())
        self.s = min(int(problem.g.s), problem.n, max(fits, 1))
        self.tight = is_gapped(h) and fits < min(TIGHT * self.s, problem.n)
        Q, b, c = problem.f.Q, problem.f.p + h.weight, problem.u.c
        if h.bend.any():
            Q = Q + np.diag(h.bend)
        diagonal, nothing = np.diag(Q), np.zeros(problem.n)
        # A bound on the magnitudes that add up to the value of any point on a support.
        size = float(0.5 * c * c * np.abs(diagonal).max() + c * np.abs(b).max()) + separable_size(h, nothing)
        noise = 64.0 * float(np.finfo(float).eps) * size
        self._knots = h._replace(weight=nothing, bend=nothing)
        self.ruled = is_gapped(h) or bool(problem.u.groups)
        self.support = swap_line.Support(Q, b, self._knots, problem.u.kernel(h), noise, self.ruled)
        self._unused = np.empty(5)
        # If bounds matter, or there are kinks and s is at most FEW, every step of a walk solves a small program.
        slow = not is_plain(straightened(self.support, nothing) if self.s > FEW else self.support)
        # Whether steps take closed forms only, and whether these may be poor estimates of the gains of exchanges.
        self.is_swift, self.is_rough = not slow, slow or len(h.centre) > 0
        self.is_unrefined = self.is_rough
        self.plan, self.steps = plan_of(self.s, problem.n), (short_steps if slow else steps_of)(self.s, problem.n)
        if slow:
            self.plan = self.plan._replace(work=max(LEAST_SLOW_JOBS, int(SLOW_SHARE * self.plan.work)))
        if self.tight:
            self.plan = self.plan._replace(work=TIGHT_JOBS)
            self.steps = max(min(ANNEALED // self.s**2, ANNEAL_EACH * problem.n), ANNEAL_SLICE)
        # Whether no one has asked for more than the default work; the work of a swap, and the tries of its next round.
        self.is_default, self.worked, self.tries = False, 0.0, FIRST_TRIES
        self.rate = RATE * (GROUPED if problem.u.groups else 1.0) * (KINKED if len(h.centre) else 1.0)
        self.is_long = self.s > MANY and (slow or self.is_rough)
        self.limited_steps = 0 if slow else self.steps
        if self.is_long and slow and not self.tight:
            each = self.work_of(self._filled())
            steps = int(min(WALK_LIMIT // each, self.steps))
            self.limited_steps = steps if steps >= LEAST_WALK else 0
            job = (steps + JOB_PROGRAMS) * each + JOB_WORK
            jobs = int(np.clip((KINKED_WORK if len(h.centre) else ALL_WORK) // job, 1, self.plan.work))
            self.plan = self.plan._replace(work=jobs if self.limited_steps else 1)
        # The minimiser without a limit on the non-zeros, if a search has found it.
        self.dense: Vector | None = None
        self.order = np.argsort(0.5 * c * c * diagonal + c * self.support.b, kind="stable")

    def start(self, k: int, rng: np.random.Generator) -> Vector:
        """Walk from the best single coordinate; for later k, from the dense minimiser or random sets, reduced to s."""
        n, x = self.problem.n, np.zeros(self.problem.n)
        if self.is_limited and not (self.tight or self.limited_steps):
            return self.problem.start(k)
        if k < FORWARD_STARTS:
            x[self.order[k % n]] = self.problem.u.c
        else:
            if k == FORWARD_STARTS and self.dense is not None:
                few = np.flatnonzero(self.dense)
            else:
                # Where floors decide who is held, rather than s, members enter faster than they leave.
                few_of = ROOMY_TIGHT if self.tight else ROOMY
                most = max(n // few_of, 1) if self.ruled and 2 * self.s > n else n
                few = np.sort(rng.choice(n, min(most, random_size(self.s)), replace=False)).astype(np.int64)
            held = np.flatnonzero(self.problem.separable.lo > 0.0)
            reduce_to(self.support, self.s, np.union1d(few, held), x)
        return self._walked(self._feasible(x) if x.any() else self.problem.start(k), rng)

    def child(self, parents: list[Vector], rng: np.random.Generator) -> Vector:
        """Take the union of the parents' supports, or a part of one, and a few more; reduce it to s, then walk.

        If many may be held, walk from one parent, shaken.
        """
        n, must = self.problem.n, np.flatnonzero(self.problem.separable.lo > 0.0)
        if self.s > FEW:
            return self._walked(self._shaken(parents[0], rng), rng)
        held, more = joined(parents, self.s, n, rng)
        x = np.zeros(n)
        reduce_to(self.support, self.s, np.union1d(np.union1d(held, must), more).astype(np.int64), x)
        return self._walked(self._feasible(x) if x.any() else parents[0], rng)

    def _shaken(self, parent: Vector, rng: np.random.Generator) -> Vector:
        """Return the end of a short walk from a point for a noisy y, or a random part of the point."""
        x, f = parent.copy(), self.problem.f
        if self.is_swift and hasattr(f, "residual"):
            noise = rng.uniform(*NOISE) * rng.standard_normal(f.m) * math.sqrt(2.0 * f.value(x) / (f.scale * f.m))
            tilted = self.support._replace(b=self.support.b - f.scale * f.transposed(f.rooted(noise[:, None])[:, 0]))
            walk(tilted, x, self.s, rng, NOISY, self.limits)
            return x
        members = np.flatnonzero((x != 0.0) & (self.problem.separable.lo <= 0.0))
        x[rng.choice(members, int(rng.uniform(*LOST) * len(members)), replace=False)] = 0.0
        return self._feasible(x) if x.any() else parent

    def _feasible(self, x: Vector) -> Vector:
        """Return x, or a feasible point near it if x violates floors or group limits."""
        return near_point(self.problem, x) if self.ruled and not self.problem.is_feasible(x) else x

    def descend(self, x: Vector, tries: int = CLAIM_TRIES) -> Vector:
        """Descend from x by exchanges, in slices if there is a time limit; return a point that none improves."""
        at, limited = np.array(x), math.isfinite(self.limits.left())
        most = self._most_solved(JOB_WORK, at) if tries == SEARCH_TRIES else swap_line.UNLIMITED
        swaps = max(1, SLICE // (self.s * self.problem.n)) if limited else MOST_SWAPS
        while True:
            how = TOL, self.support.noise, swaps, tries, most
            value, _, gap = swap_line.descend(self.support, at, self.s, *how, self._unused)
            if not np.isfinite(value):
                return np.array(x)
            if not math.isnan(gap) or not limited or self.limits.reached():
                return at

    def refined(self, x: Vector) -> Vector:
        """Descend from x by exchanges, of which REFINED // s³ are verified, or as many as a limited swap verifies."""
        at, left = np.array(x), max(REFINED // self.s**3, SEARCH_TRIES)
        if self.is_limited:
            made, floor = 1, self.tolerance(x, TOL)
            while made and not self.limits.reached():
                at, made, _ = self._advance_limited(at, MOST_SWAPS, floor)
            return at if self.problem.is_feasible(at) else x
        while left > 0 and not self.limits.reached():
            tries = min(left, CLAIM_TRIES)
            how = TOL, self.support.noise, 1, tries, swap_line.UNLIMITED
            _, made, _ = swap_line.descend(self.support, at, self.s, *how, self._unused)
            if made == 0:
                break
            left -= tries
        return at if self.problem.is_feasible(at) else x

    def near(self, x: Vector, seed: int) -> Vector:
        """Return the end of a walk from x; much faster than :meth:`descend`, which verifies all possible gains."""
        return self._walked(x, np.random.default_rng(seed))

    def advance(self, x: Vector, swaps: int, floor: float) -> tuple[Vector, int, float]:
        """Make at most ``swaps`` exchanges that gain more than ``floor``.

        Return the point, their number, and the bound that :meth:`gap` proves, NaN if there may be more exchanges, ∞ if
        they are too many to be verified one by one, as they must be under floors and groups.
        """
        if self.is_limited:
            return self._advance_limited(x, swaps, floor)
        at, made, tries, each = np.array(x), 0, CLAIM_TRIES, max(int(np.count_nonzero(x)), 1) ** 3
        is_short = self.ruled and math.isinf(self.limits.left())
        if is_short:
            tries = min(max(CLAIM_WORK // each, SEARCH_TRIES), tries)
        while True:
            how = 0.0, floor, swaps - made, tries, swap_line.UNLIMITED
            _, more, gap = swap_line.descend(self.support, at, self.s, *how, self._unused)
            made += int(more)
            if math.isnan(gap):
                return at, made, math.nan
            if is_short and self._exchanges(at) * each > PROOF_WORK:
                return at, made, math.inf
            _, gain, _, _, bound = self.gap(at)
            if gain <= floor or tries >= self.s * self.problem.n:
                return at, made, bound
            tries *= MORE_TRIES

    def _advance_limited(self, x: Vector, swaps: int, floor: float) -> tuple[Vector, int, float]:
        """Make exchanges as :meth:`advance` does, until those of a swap have taken SWAP_WORK; the bound is then ∞.

        A walk comes first, because a step of it solves one program, and an exchange that gains is often the hundredth
        that is verified.
        """
        at, spent = np.array(x), np.empty(5)
        if self.worked == 0.0 and self.limited_steps and not self.tight:
            self.worked += self.limited_steps * self.work_of(self._filled())
            walk(self.support, at, self.s, np.random.default_rng(0), self.limited_steps, self.limits)
            if self._value(at) < self._value(x) - floor and self.problem.is_feasible(at):
                return at, 1, math.nan
            at = np.array(x)
        each = self.work_of(int(np.count_nonzero(x)))
        scoring = SCORING * self.problem.n * np.count_nonzero(x) ** 2 + each
        while self.worked + LEAST_SOLVED * each < SWAP_WORK:
            left = SWAP_WORK - self.worked
            most = max(int(min(max(SLICE_WORK, self.tries * each), left) // each), 1)
            how = 0.0, floor, swaps, self.tries, most
            value, made, gap = swap_line.descend(self.support, at, self.s, *how, spent)
            self.worked += spent[0] * each + (1 + spent[0] // self.tries) * scoring
            if made or math.isinf(value):
                return at, int(made), math.nan
            if math.isnan(gap):
                break
            if self.tries >= CLAIM_TRIES or spent[0] < self.tries:
                return at, 0, self._bound(at, floor, int((SWAP_WORK - self.worked) // each))
            self.tries *= GROWTH
        return at, 0, math.inf

    def _bound(self, x: Vector, floor: float, tries: int) -> float:
        """Return a bound on the gain of any exchange, ∞ if it is above ``floor`` or takes more than ``tries``."""
        if tries <= 0 or (self.ruled and self._exchanges(x) > tries):
            return math.inf
        found = np.empty(5)
        swap_line.descend(self.support, np.array(x), self.s, 0.0, 0.0, -1, tries, swap_line.UNLIMITED, found)
        return float(found[3]) if found[4] and found[0] <= floor else math.inf

    def work_of(self, held: int) -> float:
        """Return the work of a small program over so many coordinates."""
        return self.rate * max(held, 1) ** 3

    @property
    def is_limited(self) -> bool:
        """Whether the work on exchanges is limited."""
        return self.is_long and self.is_default and math.isinf(self.limits.left())

    def _most_solved(self, work: float, x: Vector) -> int:
        """Return how many exchanges from x may be solved; ``work`` is the limit, if there is one."""
        return max(int(work // self.work_of(int(np.count_nonzero(x)))), 1) if self.is_limited else swap_line.UNLIMITED

    def _filled(self) -> int:
        """Return how many are held after a walk, about."""
        return int(min(self.s, (self.problem.n + 1) // 2) if self.ruled else self.s)

    def _exchanges(self, x: Vector) -> int:
        held = int(np.count_nonzero(x))
        return int(self.problem.n - held) * (held + 1)

    def tolerance(self, x: Vector, tol: float) -> float:
        """Return the least gain that counts: a fraction of |f + h|, without the terms of λ, plus rounding error."""
        value = float(self.problem.f.value(x)) + separable_value(self.problem.separable, x)
        return tol * abs(value) + self.support.noise

    def weighted(self, x: Vector) -> Vector:
        """Return the best weights on the support of an s-sparse x."""
        at = np.array(x)
        swap_line.descend(self.support, at, self.s, TOL, 0.0, 0, 1, 1, self._unused)
        return at

    def gap(self, x: Vector) -> tuple[float, float, int, int, float]:
        """Return (own, gain, leaves, enters, bound), as :func:`counterpoise.certificates.swap_gap` does."""
        if not x.any():  # the only feasible point, because bounds are at least 0
            return 0.0, 0.0, -1, -1, 0.0
        tries, found = CLAIM_TRIES, np.empty(5)
        while True:
            at = np.array(x)
            value = swap_line.descend(self.support, at, self.s, 0.0, 0.0, -1, tries, swap_line.UNLIMITED, found)[0]
            if math.isinf(value):
                raise ValueError(f"the non-zeros of x cannot sum to {self.problem.u.c:g} within bounds.")
            gain, leaves, enters, bound, proved = found
            if proved:
                own = max(self._value(x) - float(value), 0.0)
                return own, float(gain), int(leaves), int(enters), own + float(bound)
            tries *= MORE_TRIES

    def pair_gap(self, x: Vector) -> float | None:
        """Return the largest decrease that a pair offers at a sparse x; None if only the pair kernels can compute it.

        If g is a constraint and there are no knots, floors or groups, F is quadratic on each pair (newcomer or member,
        member). If s are held, a newcomer takes all that the member has.
        """
        h, Q = self.problem.separable, self.support.Q
        if math.isfinite(self.problem.g.lam) or self.ruled or len(h.centre):
            return None
        held = np.flatnonzero(x)
        slopes, diagonal = Q[:, held] @ x[held] + self.support.b, np.diag(Q)
        beta, alpha = slopes[:, None] - slopes[held], diagonal[:, None] + diagonal[held] - 2.0 * Q[:, held]
        most = np.minimum((h.hi - x)[:, None], x[held] - h.lo[held])
        eta = np.where(alpha * most > -beta, -beta / np.where(alpha > 0.0, alpha, 1.0), most)
        if len(held) >= self.s:
            eta = np.where((x == 0.0)[:, None], np.where(most >= x[held], x[held], 0.0), eta)
        eta = np.clip(eta, 0.0, most)
        return max(float(-(eta * (beta + 0.5 * alpha * eta)).min(initial=0.0)), 0.0)

    def enumeration(self) -> tuple[str, int, Callable[[Vector], Iterator[int]]]:
        """Return what is enumerated, how many there are, and the function that enumerates, improving x in place."""
        if is_gapped(self.problem.separable):
            raise ValueError(
                "method 'exact' does not know SemiContinuous: it enumerates supports of s coordinates, and fewer may "
                "be held; method 'search' knows it."
            )
        return "supports", math.comb(self.problem.n, self.s), self._all_supports

    def _all_supports(self, x: Vector) -> Iterator[int]:
        value = self._value(x)
        # Supports that are as good up to rounding are left out; the margin must not exceed the tolerance of a result.
        rounding = 32.0 * self.problem.value_and_resolution(x)[1]
        margin = min(MARGIN * (abs(value) + abs(self.problem.f.value_at_zero)), rounding)
        below = self._minorant()
        for first in range(self.problem.n - self.s + 1):
            value, solved = enumeration.supports_from(self.support, *below, first, self.s, value, margin, x)
            yield int(solved)

    def _minorant(self) -> tuple[Vector, Vector]:
        """Return Q and b of a quadratic nowhere above f + h for x ≥ 0, relative to 0; kinks become tangents at 0."""
        h, Q, b = self._knots, self.support.Q, self.support.b
        if not len(h.centre):
            return Q, b
        # Second derivatives may fall at a knot, by no more than the part of h in Q.
        order = np.argsort(h.centre, axis=0, kind="stable")
        falls = np.minimum(np.cumsum(np.take_along_axis(h.curve, order, axis=0), axis=0).min(axis=0), 0.0)
        return Q + np.diag(falls), b + one_sided_slopes(h, np.zeros(len(b)))[1]

    def _value(self, x: Vector) -> float:
        """Return f + h relative to its value at 0."""
        held, Q, b = np.flatnonzero(x), self.support.Q, self.support.b
        h, z = take(self._knots, held), x[held]
        knots = separable_value(h, z) - separable_value(h, np.zeros(len(z)))
        return float(z @ (b[held] + 0.5 * (Q[np.ix_(held, held)] @ z)) + knots)

    def _walked(self, x: Vector, rng: np.random.Generator) -> Vector:
        """Return the end of a descent from the best support of a walk."""
        at = np.array(x)
        if self.tight:
            at = self._annealed(at, rng)
        elif not self.limits.reached():
            steps = self.limited_steps if self.is_limited else self.steps
            walk(self.support, at, self.s, rng, steps, self.limits)
        return self.descend(at, SEARCH_TRIES)

    def _annealed(self, x: Vector, rng: np.random.Generator) -> Vector:
        """Return the best point of random moves from x, at falling temperatures."""
        best_x, slices = np.array(x), -(-self.steps // ANNEAL_SLICE)
        best, rise = anneal(self.support, x, best_x, np.inf, self.s, ANNEAL_SLICE // 8, 0.0, 0.0, rng)
        cooling = (COLD / HOT) ** (1.0 / slices)
        for k in range(slices if rise > 0.0 else 0):
            if self.limits.reached():
                break
            hot = rise * HOT * cooling**k
            best, _ = anneal(self.support, x, best_x, best, self.s, ANNEAL_SLICE, hot, hot * cooling, rng)
        return best_x


def plan_of(s: int, n: int) -> Population:
    """Return how a search spends its jobs; there are few, because a walk takes long and ends at a good point."""
    if s <= FEW:
        return SparseLine.plan
    each = (NOISY + steps_of(s, n)) * s * n + SOLVED * s**3
    jobs = min(max(WORK // each, LEAST_JOBS), MOST_JOBS)
    plan = Population(first=4, size=3, stale=32, batch=4, work=jobs, eager=False)
    return plan._replace(stale=STALE, alike=ALIKE) if s > FAMILIES else plan


def steps_of(s: int, n: int) -> int:
    """Return the number of steps of a walk."""
    if s <= FEW:
        return short_steps(s, n)
    return min(STEPS_HELD * s, max(LONG_WORK // (s * n), LEAST_STEPS), STEPS_EACH * n)


def random_size(s: int) -> int:
    """Return the size of a random set that becomes a start."""
    return min(RANDOM_SHARE * s, s + MOST_RANDOM)


def short_steps(s: int, n: int) -> int:
    """Return the number of steps of a walk if s is small, if steps are slow, or on a model of f."""
    return min(max(WALK_WORK // (s * n), LEAST_STEPS), MOST_STEPS, STEPS_EACH * n)


def reduce_to(support: swap_line.Support, s: int, chosen: Any, x: Vector) -> int:
    """Reduce the chosen coordinates to s by backward elimination, solve on these, write x; return how many are held.

    Bounds are ignored until the end.
    """
    h: Any = support.h
    u: Any = support.u
    held, total = np.asarray(chosen), u.total
    M = inverse_with_sum(support.Q[np.ix_(held, held)])
    z = total * M[:-1, -1] - M[:-1, :-1] @ support.b[held]
    keeps = price_line.eliminate(M, z, h.lo[held] > 0.0, s)
    held, z = held[keeps], z[keeps]
    x[:] = 0.0
    x[held] = np.maximum(z, 1e-6 * total)
    if math.isinf(swap_line.descend(support, x, s, TOL, 0.0, 0, 1, 1, np.empty(5))[0]):
        x[:] = 0.0
    return int(np.count_nonzero(x))


def joined(parents: list[Vector], s: int, n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return what a child may hold: the union of the parents' supports or a part of one, and new coordinates."""
    fresh = max(LEAST_FRESH, int(FRESH_SHARE * s))
    held = np.unique(np.concatenate([np.flatnonzero(parent) for parent in parents]))
    if rng.random() < KICKS:
        members = np.flatnonzero(parents[0])
        lost = min(len(members) - 1, int(rng.integers(1, max(2, len(members) // 3) + 1)))
        held = rng.choice(members, len(members) - lost, replace=False)
        fresh = max(2 * lost, s - len(held) + lost)
    return held, rng.choice(n, min(fresh, n), replace=False)

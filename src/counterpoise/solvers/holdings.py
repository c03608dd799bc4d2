"""Portfolios under the rules that people have: names, weights, groups, costs; the search that respects all of them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from counterpoise.certificates import exactness_threshold
from counterpoise.checks import Vector, whole_number
from counterpoise.clock import working_seconds
from counterpoise.kernels import holdings as kernel
from counterpoise.problem import Problem, Result, Status
from counterpoise.solvers.bcd import bcd_g
from counterpoise.solvers.run import Population, Progress
from counterpoise.solvers.search import search
from counterpoise.solvers.swap import swap
from counterpoise.terms.concave import TopSum
from counterpoise.terms.constraint import Sum
from counterpoise.terms.separable import AbsoluteDeviation, Bounds, SeparableTerm
from counterpoise.terms.smooth import Quadratic

METHODS = ("search", "swap", "bcd-g")
# Moves verified before names are taken for the end of a way.
TRIES = 16
TOL = 1e-9
# Rounds of replacements: of one population, of which this much is known.
REPLACEMENTS = Population(first=1, size=1, batch=8, work=128)
# The share of the time that the problem without groups and least weights gets.
RELAXED_SHARE = 0.4
# Sets of names that may be gone through to find out whether any keeps the rules.
MOST_SETS = 50_000
# Up to so many sets a search solves all of them.
FEW_SETS = 500
ABOVE_THRESHOLD = 1.01
# What rounding may leave of a rule.
KEPT = 1e-10
# Up to so many names more moves are verified.
FEW, MANY_TRIES = 60, 96


@dataclasses.dataclass(frozen=True, eq=False)
class Holdings:
    """min ½xᵀQx + bᵀx + Σ costᵢ|xᵢ − centreᵢ| + constant over portfolios of at most s names.

    1ᵀx = 1; xᵢ = 0 or loᵢ ≤ xᵢ ≤ hiᵢ; names that ``must`` be held, at loᵢ at least; and least ≤ Σ_{i∈g} xᵢ ≤ most for
    disjoint groups, −1 for names without one. ``names`` and ``group_names`` are for sentences.
    """

    Q: Vector
    b: Vector
    s: int
    lo: Vector
    hi: Vector
    must: npt.NDArray[np.bool_]
    group: npt.NDArray[np.int64]
    least: Vector
    most: Vector
    centre: Vector
    cost: Vector
    constant: float = 0.0
    names: tuple[Any, ...] = ()
    group_names: tuple[Any, ...] = ()

    @property
    def n(self) -> int:
        """How many names there are."""
        return len(self.b)

    def value(self, x: Vector) -> float:
        """Return the objective."""
        moved = self.cost @ np.abs(x - self.centre)
        return float(x @ (0.5 * (self.Q @ x) + self.b) + moved + self.constant)

    def violation(self, x: Vector) -> float:
        """Return the largest violation of a rule; too many names, or one missing, count as infinite."""
        held = x != 0.0
        if held.sum() > self.s or (self.must & (self.lo > 0.0) & ~held).any():
            return math.inf
        sums = self.sums(x)
        parts = [
            abs(float(x.sum()) - 1.0),
            float(np.max(np.where(held, self.lo - x, 0.0), initial=0.0)),
            float(np.max(np.where(held, x - self.hi, 0.0), initial=0.0)),
            float(np.max(self.least - sums, initial=0.0)),
            float(np.max(sums - self.most, initial=0.0)),
        ]
        return max(0.0, *parts)

    def sums(self, x: Vector) -> Vector:
        """Return the weight of every group."""
        grouped = self.group >= 0
        return np.bincount(self.group[grouped], x[grouped], len(self.least)).astype(np.float64)

    def rules(self) -> kernel.Rules:
        """Return the problem for kernels."""
        return kernel.Rules(
            np.ascontiguousarray(self.Q, dtype=np.float64),
            self.b,
            self.lo,
            self.hi,
            self.must,
            self.group.astype(np.int64),
            self.least,
            self.most,
            self.centre,
            self.cost,
        )


def best_holdings(
    problem: Holdings,
    x0: Vector | None = None,
    *,
    method: str = "search",
    work: int | None = None,
    max_time: float | None = None,
    seed: int | None = 0,
    n_jobs: int | None = None,
    callback: Callable[[Progress], Any] | None = None,
) -> Result:
    """Find a portfolio that no transfer between two names improves, and mostly one far better than that.

    The problem without groups and least weights is one of the paper's (SIT with bounds and turnover), solved first.
    From its names the way goes on under all rules: names are exchanged as long as that helps, a few are replaced at
    random, and so on; up to 500 sets of names are all tried. The end is certified under all rules.

    Parameters
    ----------
    problem : Holdings
    x0 : array of length n, optional
        One more start.
    method : {"search", "swap", "bcd-g"}
        How hard to look: pairs alone, exchanges of names as well, or both from many starts.
    work : int, optional
        Starts and children of the search without groups and least weights, and rounds of replacements under all rules;
        32 and 128 if there is no ``max_time`` either.
    max_time, seed, n_jobs, callback
        As in :func:`counterpoise.solvers.search.search`.
    """
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; it must be one of {', '.join(map(repr, METHODS))}.")
    if work is not None:
        whole_number(work, "work", 1)
    _refuse_impossible(problem)
    return _Walk(problem, x0, method, work, max_time, seed, n_jobs, callback).run()


class _Walk:
    """One call: the relaxed problem, the way under all rules, the certificate; the best point survives interrupts."""

    def __init__(
        self,
        problem: Holdings,
        x0: Vector | None,
        method: str,
        work: int | None,
        max_time: float | None,
        seed: int | None,
        n_jobs: int | None,
        callback: Callable[[Progress], Any] | None,
    ) -> None:
        self.clock = working_seconds()
        self.problem, self.rules, self.s = problem, problem.rules(), min(problem.s, problem.n)
        self.x0, self.method, self.max_time, self.seed = x0, method, max_time, seed
        self.work = work
        self.n_jobs, self.callback = n_jobs, callback
        self.tries = MANY_TRIES if problem.n <= FEW else TRIES
        self.best: Vector = np.zeros(problem.n)
        self.least, self.done, self.gap = math.inf, 0, math.nan
        self.history: list[tuple[int, float, float]] = []
        self.rng = np.random.default_rng(seed)

    def run(self) -> Result:
        """Return the best point, with what is known about it."""
        status: Status | None = None
        self._take(_first_portfolio(self.problem, np.zeros(self.problem.n)))
        try:
            if self.problem.n > 1:
                status = self._begin()
                if status is None and self.method == "search":
                    if _count_sets(self.problem) <= FEW_SETS:
                        self._try_all()
                    elif not self._is_plain():
                        status = self._wander()
                status = self._certify(status)
            else:
                self.gap, status = 0.0, Status.CERTIFIED
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        return Result(
            x=self.best,
            objective=self.least,
            status=status,
            success=status is Status.CERTIFIED,
            message=status.value,
            nit=self.done,
            nacc=len(self.history),
            time=working_seconds() - self.clock,
            history=np.array(self.history),
            cws_gap=self.gap,
            tolerance=self._tolerance(),
            seed=self.seed,
        )

    def _is_plain(self) -> bool:
        """Whether the relaxed problem has all the rules."""
        problem = self.problem
        return len(problem.least) == 0 and not (problem.lo[~problem.must] > 0.0).any()

    def _begin(self) -> Status | None:
        """Solve the relaxed problem, and go from its names, and from x0, to names that keep all rules.

        Returns why the user ended it, if so.
        """
        relaxed = self._relaxed()
        budget = None if self.max_time is None else self.max_time * (1.0 if self._is_plain() else RELAXED_SHARE)
        start = None if self.x0 is None else relaxed.project(self.x0)
        if self.method == "search":
            found = search(
                relaxed,
                start,
                work=self.work,
                n_jobs=self.n_jobs,
                max_time=budget,
                seed=self.seed,
                callback=self.callback,
            )
        elif self.method == "swap":
            found = swap(relaxed, start, max_time=budget, seed=self.seed, callback=self.callback)
        else:
            found = bcd_g(relaxed, start, max_time=budget, seed=self.seed, callback=self.callback)
        for point in (found.x, self.x0):
            if point is not None:
                self._take(self._descended(_first_portfolio(self.problem, np.asarray(point, dtype=np.float64))))
        by_user = (Status.INTERRUPTED, Status.STOPPED_BY_CALLBACK)
        return found.status if found.status in by_user else None

    def _relaxed(self) -> Problem:
        problem = self.problem
        lo = np.where(problem.must, problem.lo, 0.0)
        h: SeparableTerm = Bounds(lo, problem.hi)
        if problem.cost.any():
            h = h + AbsoluteDeviation(problem.centre, problem.cost)
        f, u = Quadratic(problem.Q, problem.b), Sum(1.0)
        threshold = exactness_threshold(Problem(f, h, TopSum(self.s, 1.0), u))
        if threshold is None:  # bounds differ: no theorem, but no slope exceeds this
            threshold = 2.0 * float(np.abs(problem.Q).max() + np.abs(problem.b).max() + problem.cost.max())
        return Problem(f, h, TopSum(self.s, max(ABOVE_THRESHOLD * threshold, 1e-300)), u)

    def _descended(self, x: Vector) -> Vector:
        """Return the end of exchanges from x; for "bcd-g" the best weights of its names."""
        y = np.array(x)
        kernel.descend(self.rules, y, self.s, TOL, self.tries if self.method != "bcd-g" else 0)
        return y

    def _try_all(self) -> None:
        """Solve every set of names; of so few the best is found for certain."""
        for names in _all_sets(self.problem):
            if _can_hold(self.problem, names):
                self._take(_weights(self.problem, names, self.best))

    def _wander(self) -> Status | None:
        """Replace names at random and descend, in rounds, while the budget lasts."""
        while True:
            work = REPLACEMENTS.work if self.work is None and self.max_time is None else self.work
            rounds = REPLACEMENTS.batch if work is None else min(REPLACEMENTS.batch, work - self.done)
            if rounds <= 0:
                return Status.ITERATION_LIMIT
            if self.max_time is not None and working_seconds() - self.clock >= self.max_time:
                return Status.TIME_LIMIT
            x = self.best.copy()
            kernel.wander(self.rules, x, self.s, TOL, self.tries, rounds, self.rng)
            self.done += rounds
            self._take(x)
            if self.callback is not None and self.callback(Progress(*self.history[-1], self.best.copy())):
                return Status.STOPPED_BY_CALLBACK

    def _certify(self, status: Status | None) -> Status:
        """Take the best transfer until there is none; a point at which there is none is certified."""
        x = self.best.copy()
        for _ in range(100 + 20 * self.problem.n):
            gap, i, j, eta = kernel.best_pair(self.rules, x, self.s)
            if gap <= self._tolerance():
                self._take(x)
                self.gap = float(kernel.best_pair(self.rules, self.best, self.s)[0])
                if status is Status.INTERRUPTED or self.gap > self._tolerance():
                    return status or Status.STATIONARY
                return Status.CERTIFIED
            x[i] += eta
            x[j] = 0.0 if eta == x[j] else x[j] - eta
            x = self._descended(x)
        return status or Status.ITERATION_LIMIT

    def _tolerance(self) -> float:
        """Return what a transfer must gain: a share of the objective, and what rounding may pretend."""
        size = float(np.abs(self.problem.Q).max() + np.abs(self.problem.b).max())
        return TOL * abs(self.least) + 1e-13 * size

    def _take(self, x: Vector) -> None:
        """Keep x if it keeps the rules and is better."""
        if self.problem.violation(x) <= KEPT:
            objective = self.problem.value(x)
            if objective < self.least:
                self.best, self.least = x, objective
        self.history.append((self.done, working_seconds() - self.clock, self.least))


def _can_hold(problem: Holdings, held: list[int]) -> bool:
    """Whether weights for these names keep all rules: an interval for every group, and 1 in their sum."""
    at = np.array(held, dtype=np.int64)
    low, high = float(problem.lo[at][problem.group[at] < 0].sum()), float(problem.hi[at][problem.group[at] < 0].sum())
    for g in range(len(problem.least)):
        inside = at[problem.group[at] == g]
        least = max(float(problem.lo[inside].sum()), float(problem.least[g]))
        most = min(float(problem.hi[inside].sum()), float(problem.most[g]))
        if least > most + 1e-12:
            return False
        low, high = low + least, high + most
    return low <= 1.0 + 1e-12 and high >= 1.0 - 1e-12


def _count_sets(problem: Holdings) -> int:
    """Return how many sets of names there are to choose from."""
    others = int(np.sum((problem.hi > 0.0) & ~problem.must))
    room = min(problem.s, problem.n) - int(problem.must.sum())
    return sum(math.comb(others, k) for k in range(room + 1))


def _all_sets(problem: Holdings) -> Iterator[list[int]]:
    """Yield every set of names, the smallest first."""
    must = [int(i) for i in np.flatnonzero(problem.must)]
    others = [int(i) for i in np.flatnonzero((problem.hi > 0.0) & ~problem.must)]
    for k in range(min(problem.s, problem.n) - len(must) + 1):
        for more in itertools.combinations(others, k):
            if must or more:
                yield [*must, *more]


def _first_portfolio(problem: Holdings, x: Vector) -> Vector:
    """Return weights that keep all rules, near x if its names allow it."""
    by_weight = np.argsort(-x, kind="stable")
    by_room = np.lexsort((-problem.hi, problem.lo))
    for order in (by_weight, by_room, np.argsort(-problem.hi, kind="stable")):
        held = _choose(problem, [int(i) for i in order], x)
        if held is not None:
            return _weights(problem, held, x)
    if _count_sets(problem) <= MOST_SETS:
        for names in _all_sets(problem):
            if _can_hold(problem, names):
                return _weights(problem, names, x)
        raise ValueError(
            f"No portfolio of at most {problem.s} names keeps all rules together; loosen the weights or the groups."
        )
    raise ValueError(
        f"No portfolio of at most {problem.s} names that keeps all rules was found; loosen the weights or the groups."
    )


def _choose(problem: Holdings, order: list[int], x: Vector) -> list[int] | None:
    """Take names in the given order: those that must be, those that groups need, then the others, up to s."""
    s = min(problem.s, problem.n)
    held = [int(i) for i in np.flatnonzero(problem.must)]
    order = [i for i in order if problem.hi[i] > 0.0 and not problem.must[i]]
    for g in np.flatnonzero(problem.least > 0.0):
        for i in order:
            inside = [k for k in held if problem.group[k] == g]
            if problem.hi[inside].sum() >= problem.least[g] or len(held) >= s:
                break
            if problem.group[i] == g and i not in held and problem.lo[[*inside, i]].sum() <= problem.most[g]:
                held.append(i)
    for i in order:
        if len(held) >= s:
            break
        if i in held or (x[i] <= 0.0 and held and _can_hold(problem, held)):
            continue
        inside = [k for k in held if problem.group[k] == problem.group[i]]
        if problem.group[i] >= 0 and problem.lo[[*inside, i]].sum() > problem.most[problem.group[i]]:
            continue
        if problem.lo[[*held, i]].sum() <= 1.0:
            held.append(i)
    return held if held and _can_hold(problem, held) else None


def _weights(problem: Holdings, held: list[int], x: Vector) -> Vector:
    """Return the best weights of names that can keep the rules."""
    start, rules, s = np.zeros(problem.n), problem.rules(), min(problem.s, problem.n)
    start[held] = np.maximum(x[held], 1e-300)
    kernel.feasible(rules, start, s)
    best = start.copy()
    kernel.descend(rules, best, s, TOL, 0)
    return best if problem.violation(best) <= KEPT else start


def _refuse_impossible(problem: Holdings) -> None:
    """Say which rules contradict each other."""
    must = np.flatnonzero(problem.must)
    named = problem.names or tuple(range(problem.n))
    groups = problem.group_names or tuple(range(len(problem.least)))
    if len(must) > problem.s:
        raise ValueError(f"{len(must)} names must be held, but at most {problem.s} may be.")
    for i in must:
        if problem.hi[i] <= 0.0:
            raise ValueError(f"{named[i]} must be held, but its largest weight is 0.")
    if problem.lo[must].sum() > 1.0 + 1e-12:
        raise ValueError(f"the names that must be held weigh {problem.lo[must].sum():g} at least; that exceeds 1.")
    if problem.least.sum() > 1.0 + 1e-12:
        raise ValueError(f"the least weights of the groups sum to {problem.least.sum():g}; they must not exceed 1.")
    for g, name in enumerate(groups):
        inside = problem.group == g
        room = float(np.sort(problem.hi[inside])[::-1][: problem.s].sum())
        if room < problem.least[g] - 1e-12:
            raise ValueError(
                f"group {name} must weigh {problem.least[g]:g} at least, but its names can hold {room:g} at most."
            )
        forced = float(problem.lo[inside & problem.must].sum())
        if forced > problem.most[g] + 1e-12:
            raise ValueError(
                f"group {name} may weigh {problem.most[g]:g} at most, but its names that must be held weigh {forced:g}."
            )
    room = _largest_total(problem)
    if room < 1.0 - 1e-12:
        raise ValueError(
            f"the {min(problem.s, problem.n)} names with most room hold {room:g} together, less than 1; "
            "raise the largest weights, the limits of the groups or the number of names."
        )


def _largest_total(problem: Holdings) -> float:
    """Return what at most s names can hold within the groups' limits: the largest rooms first, which is best."""
    room = np.append(problem.most, np.inf)
    taken = []
    for i in np.argsort(-problem.hi, kind="stable"):
        part = min(float(problem.hi[i]), float(room[problem.group[i]]))
        room[problem.group[i]] -= part
        taken.append(part)
    return float(np.sort(taken)[::-1][: problem.s].sum())

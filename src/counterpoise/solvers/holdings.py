"""The search for portfolios under the rules that people have: names, weights, groups, costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from counterpoise.certificates import exactness_threshold
from counterpoise.checks import Vector, callback_function, choice, number, random_seed, whole_number, worker_count
from counterpoise.clock import paused, working_seconds
from counterpoise.interrupts import noting_interrupts
from counterpoise.kernels import holdings as kernel
from counterpoise.problem import Problem, Result, Status
from counterpoise.solvers.bcd import bcd_g
from counterpoise.solvers.portfolios import (
    FEW_SETS,
    KEPT,
    TOL,
    Holdings,
    all_sets,
    can_hold,
    count_sets,
    first_portfolio,
    names_near,
    weights_of_names,
)
from counterpoise.solvers.run import Population, Progress
from counterpoise.solvers.search import search
from counterpoise.solvers.sparse_line import SparseLine
from counterpoise.solvers.swap import swap
from counterpoise.supervision import Limits
from counterpoise.terms.concave import TopSum
from counterpoise.terms.constraint import Sum
from counterpoise.terms.separable import AbsoluteDeviation, Bounds, SeparableTerm
from counterpoise.terms.smooth import Quadratic

__all__ = ["REPLACEMENTS", "Holdings", "best_holdings"]

METHODS = ("search", "swap", "bcd-g")
# Moves verified before names are taken for the end of a way, and how many up to so many names.
TRIES = 16
FEW, MANY_TRIES = 60, 96
# Rounds of exchanges of one descent, at most.
MOST_ROUNDS = 1000
# Seconds of work between two looks at the clock.
SLICE = 0.05
# Rounds of replacements: of one population, of which this much is known.
REPLACEMENTS = Population(first=1, size=1, batch=8, work=128)
# The share of the time that the problem without groups and least weights gets, and if these are all the rules.
RELAXED_SHARE, PLAIN_SHARE = 0.4, 0.85
# As a share of the time: when it is too late for a scan of all pairs.
LATE = 1.05
ABOVE_THRESHOLD = 1.01
# What ends a run at once.
BY_USER = (Status.INTERRUPTED, Status.STOPPED_BY_CALLBACK)


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
    choice(method, "method", METHODS)
    if work is not None:
        whole_number(work, "work", 1)
    if max_time is not None:
        max_time = number(max_time, "max_time", 0.0)
    options = random_seed(seed), worker_count(n_jobs), callback_function(callback)
    return _Walk(problem, x0, method, work, max_time, *options).run()


class _Gram(Quadratic):
    """f(x) = ½xᵀQx + pᵀx with a Q that is known to be a Gram matrix; it is neither copied nor checked."""

    is_known = is_convex = True

    def __init__(self, Q: Vector, p: Vector) -> None:
        self.Q, self.p, self.n = Q, p, len(Q)
        self.diagonal = np.ascontiguousarray(np.diag(Q))


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
        self.problem, self.rules, self.s = problem, problem.rules(), problem.most_names
        self.size = float(np.abs(problem.Q).max() + np.abs(problem.b).max() + problem.cost.max())
        self.x0, self.method, self.max_time, self.seed = x0, method, max_time, seed
        self.work = work
        self.n_jobs, self.callback = n_jobs, callback
        self.tries = 0 if method == "bcd-g" else MANY_TRIES if problem.n <= FEW else TRIES
        self.rounds, self.stopped = 1, False
        self.line: SparseLine | None = None
        self.pressed: list[int] = []
        self.done, self.improved, self.gap = 0, 0, math.nan
        self.history: list[tuple[int, float, float]] = []
        self.rng = np.random.default_rng(seed)
        self.best, self.least = first_portfolio(problem, max_time), math.inf
        self._take(self.best)

    def run(self) -> Result:
        """Return the best point, with what is known about it."""
        try:
            with noting_interrupts() as self.pressed:
                status = self._stages()
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        self._note()
        return Result(
            x=self.best,
            objective=self.least,
            status=status,
            success=status is Status.CERTIFIED,
            message=status.value,
            nit=self.done,
            nacc=self.improved,
            time=self._seconds(),
            history=np.array(self.history),
            cws_gap=self.gap,
            tolerance=self._tolerance(),
            seed=self.seed,
        )

    def _stages(self) -> Status:
        """Go from stage to stage; return how that ended."""
        if self.problem.n == 1:
            self.gap = 0.0
            return Status.CERTIFIED
        status = self._begin()
        if status is None and self.method == "search":
            if count_sets(self.problem) <= FEW_SETS:
                status = self._try_all()
            elif not self.problem.is_plain:
                status = self._wander()
        return status if status is Status.INTERRUPTED else self._certify(status)

    def _begin(self) -> Status | None:
        """Solve the relaxed problem, and go from its names, and from x0, to names that keep all rules.

        Returns why the user ended it, if so.
        """
        with paused():
            relaxed = self._relaxed()
            # Without groups and least weights the relaxed problem is the whole one, and its kernels serve.
            self.line = SparseLine(relaxed) if self.problem.is_plain else None
        share = PLAIN_SHARE if self.problem.is_plain else RELAXED_SHARE
        options: dict[str, Any] = {
            "max_time": None if self.max_time is None else max(share * (self.max_time - self._seconds()), 1e-3),
            "seed": self.seed,
            "callback": None if self.callback is None else self._report,
        }
        start = None if self.x0 is None else relaxed.project(self.x0)
        if self.method == "search":
            found = search(relaxed, start, work=self.work, n_jobs=self.n_jobs, **options)
        else:
            found = (swap if self.method == "swap" else bcd_g)(relaxed, start, **options)
        ended = Status.STOPPED_BY_CALLBACK if self.stopped else found.status if found.status in BY_USER else None
        if self.pressed:  # a method that had come to its end does not say so
            ended = Status.INTERRUPTED
        for point in (found.x, self.x0):
            if point is None:
                continue
            x = np.asarray(point, dtype=np.float64)
            held = names_near(self.problem, x)
            if held is not None:
                x = self._weighted(held, x)
                self._take(x)
                if ended is None and not self._is_over():
                    self._take(self._descended(x))
        return ended

    def _report(self, progress: Progress) -> bool:
        """Show the callback what would be returned now, or a better point that the relaxed problem has found."""
        x, objective = progress.x, math.inf
        if self.problem.violation(x) <= KEPT:
            objective = self.problem.value(x)
        if objective > self.least:
            x, objective = self.best.copy(), self.least
        return self._asked_to_stop(progress._replace(x=x, objective=objective))

    def _asked_to_stop(self, progress: Progress) -> bool:
        if self.callback is not None and self.callback(progress):
            self.stopped = True
        return self.stopped

    def _relaxed(self) -> Problem:
        problem = self.problem
        lo = np.where(problem.must, problem.lo, 0.0)
        h: SeparableTerm = Bounds(lo, problem.hi)
        if problem.cost.any():
            h = h + AbsoluteDeviation(problem.centre, problem.cost)
        f, u = _Gram(self.rules.Q, problem.b), Sum(1.0)
        threshold = exactness_threshold(Problem(f, h, TopSum(self.s, 1.0), u))
        if threshold is None:  # bounds differ: no theorem, but no slope exceeds this
            threshold = 2.0 * self.size
        return Problem(f, h, TopSum(self.s, max(ABOVE_THRESHOLD * threshold, 1e-300)), u)

    def _weighted(self, names: list[int], x: Vector) -> Vector:
        """Return the best weights of names that can keep the rules."""
        if self.line is None:
            return weights_of_names(self.problem, names, x)
        start = np.zeros(self.problem.n)
        start[names] = np.maximum(x[names], 1e-300)
        return self.line.weighted(start)

    def _descended(self, x: Vector) -> Vector:
        """Return the end of exchanges from x, or where the time ended; for "bcd-g" the best weights of its names."""
        if self.line is not None:
            self.line.limits = Limits(None if self.max_time is None else max(self.max_time - self._seconds(), 0.0))
            return self.line.descend(x) if self.tries else self.line.weighted(x)
        y, made = np.array(x), 0
        while made < MOST_ROUNDS:
            before = working_seconds()
            settled = kernel.descend(self.rules, y, self.s, TOL, self.tries, self.rounds)[1]
            made += self.rounds
            if settled or self._is_over():
                break
            # As many rounds at a time as one slice has room for.
            took = working_seconds() - before
            if took < 0.4 * SLICE:
                self.rounds = min(2 * self.rounds, MOST_ROUNDS)
            elif took > SLICE:
                self.rounds = max(1, self.rounds // 2)
        return y

    def _try_all(self) -> Status | None:
        """Solve every set of names; of so few the best is found for certain."""
        for names in all_sets(self.problem):
            if self._is_over():
                return Status.TIME_LIMIT
            if can_hold(self.problem, names):
                self._take(self._weighted(names, self.best))
        return None

    def _wander(self) -> Status:
        """Replace names at random and descend, while the budget lasts."""
        work = REPLACEMENTS.work if self.work is None and self.max_time is None else self.work
        while True:
            if work is not None and self.done >= work:
                return Status.ITERATION_LIMIT
            if self._is_over():
                return Status.TIME_LIMIT
            x = self.best.copy()
            if kernel.replace_names(self.rules, x, self.s, self.rng):
                self._take(self._descended(x), TOL)
            self.done += 1
            at_end = self.done % REPLACEMENTS.batch == 0 or self.done == work
            if at_end and self._asked_to_stop(Progress(self.done, self._seconds(), self.least, self.best.copy())):
                return Status.STOPPED_BY_CALLBACK

    def _certify(self, status: Status | None) -> Status:
        """Take the best transfer until there is none; a point at which there is none is certified."""
        if self._is_over(LATE):
            return status or Status.TIME_LIMIT
        for _ in range(100 + 20 * self.problem.n):
            before = self.least
            gap, i, j, eta = kernel.best_pair(self.rules, self.best, self.s)
            self.gap = float(gap)
            if status in BY_USER:
                return status
            if self.gap <= self._tolerance():
                return Status.CERTIFIED
            if self._is_over():
                return Status.TIME_LIMIT
            x = self.best.copy()
            x[i] += eta
            x[j] = 0.0 if eta == x[j] else x[j] - eta
            self._take(self._descended(x))
            if not self.least < before:
                return status or Status.STATIONARY
        return status or Status.ITERATION_LIMIT

    def _tolerance(self) -> float:
        """Return what a transfer must gain: a share of the objective, and what rounding may pretend."""
        return TOL * abs(self.least) + 1e-13 * self.size

    def _take(self, x: Vector, share: float | None = None) -> None:
        """Keep x if it keeps the rules and is better, by a share of the objective if one is given."""
        if self.problem.violation(x) > KEPT:
            return
        objective = self.problem.value(x)
        if objective < (self.least if share is None else self.least - share * abs(self.least)):
            self.best, self.least, self.improved, self.gap = x, objective, self.improved + 1, math.nan
            self._note()

    def _note(self) -> None:
        self.history.append((self.done, self._seconds(), self.least))

    def _seconds(self) -> float:
        return working_seconds() - self.clock

    def _is_over(self, share: float = 1.0) -> bool:
        return self.max_time is not None and self._seconds() >= share * self.max_time

"""Search under a budget, by starts, exchanges and recombination, for much better points than a single descent finds."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from counterpoise.certificates import convex_gap, exactness_threshold, named_gap
from counterpoise.checks import Vector, number, whole_number, worker_count
from counterpoise.problem import Problem, Result, Status
from counterpoise.registry import pool_for, serving, strategy_for
from counterpoise.solvers.bcd import bcd_g
from counterpoise.solvers.dense import dense_answer
from counterpoise.solvers.penalised import Penalised, Strategy
from counterpoise.solvers.population import Window
from counterpoise.solvers.run import Epoch, Progress, Run
from counterpoise.solvers.swap import swap
from counterpoise.supervision import Limits, supervised, warn

# A search among many columns selects this many by slope and this many by the estimated gain of an exchange.
POOLED = 600
# How many of the best points of earlier populations are kept, and how often one of them is the second parent.
ELITE, ELITE_SHARE = 8, 0.2
# Share of the time reserved for the last descent and the certificate, below and above the exactness threshold.
LAST_SHARE, LAST_SHARE_EXACT = 0.15, 0.03
# Share of the time that the first descent by pairs may take.
FIRST_SHARE = 0.2
# Jobs after which a search below the exactness threshold settles on one of its two strategies.
SETTLED = 16
# Points whose objectives differ by less than this, relative to |F|, count as the same.
SAME = 1e-10


class Member(NamedTuple):
    """A point of the population."""

    objective: float
    x: Vector


class Job(NamedTuple):
    """The k-th start of a strategy, or a child of two parents, for the population with the given number."""

    strategy: Strategy
    k: int
    parents: list[Vector] | None
    rng: np.random.Generator
    population: int


@supervised
def search(
    problem: Problem,
    x0: Any = None,
    *,
    work: int | None = None,
    n_jobs: int | None = None,
    tol: float = 1e-9,
    max_time: float | None = None,
    seed: int | None = 0,
    callback: Callable[[Progress], Any] | None = None,
) -> Result:
    """Search for the best point that a budget allows, then certify it.

    Starts are local optima over exchanges of single coordinates; a small population of the best is recombined. For
    large λ all points are s-sparse or binary by construction. For small λ the penalised objective itself is also
    searched, by BCD-g from many starts. If the minimum without g is s-sparse, on ``Sum`` with a quadratic f, it is the
    answer, and the status is OPTIMAL.

    Parameters
    ----------
    problem : Problem
        With ``TopSum`` or ``AtMost`` on ``Sum`` or ``Sphere``, or ``Norm2`` or ``ConcaveQuadratic`` on ``Sum`` with
        bounds ±b.
    x0 : array of length n, optional
        An additional start.
    work : int, optional
        Number of starts and children. By default 128; for ``TopSum`` or ``AtMost`` on ``Sum``, where each takes longer,
        1 to 150, depending on how many may be held; unlimited if ``max_time`` is given. The same work and seed give the
        same point for any number of workers.
    n_jobs : int, optional
        Number of workers; -1 for one per core. Threads, or the joblib backend chosen by ``joblib.parallel_config``.
    tol : float
        Tolerance of the certificate, as in :func:`counterpoise.solvers.bcd.bcd_g`.
    max_time : float, optional
        Time limit in seconds; the last descent and the certificate are part of it.
    seed : int or None
    callback : callable, optional
        Called with a :class:`Progress` after every four or eight jobs; returning True stops the search.
    """
    if work is not None:
        work = whole_number(work, "work", 1)
    if max_time is not None and number(max_time, "max_time", 0.0) <= 0.0:
        raise ValueError("max_time is 0; a search needs a positive budget.")
    n_jobs = worker_count(n_jobs)
    problem = problem.by_columns
    run = Run(problem, x0, tol, None, max_time, seed, callback)
    columns = pool_for(problem)
    if columns is not None:
        return _on_pool(run, columns, work, n_jobs, x0 is not None)
    exact = _exact_strategy(problem)
    proved = dense_answer(run, exact)
    return _Search(run, exact, work, n_jobs, x0 is not None).result() if proved is None else proved


def _on_pool(run: Run, columns: Any, work: int | None, n_jobs: int | None, given: bool) -> Result:
    """Search among the best columns at a certified point, by slopes and promises; then exchange among all columns."""
    problem, x, tol = run.problem, run.start, run.tol
    first = bcd_g(problem, x if given else None, tol=tol, seed=run.seed)
    status = run.record(Epoch(first.x, first.nit, first.nacc, None, first.cws_gap))
    if status is not None or first.status is not Status.CERTIFIED:
        return run.finish(Epoch(first.x, 0, 0, status or first.status, first.cws_gap))
    best = [np.argsort(by, kind="stable")[:POOLED] for by in (columns.slopes(first.x), -columns.promises(first.x))]
    members = np.unique(np.concatenate([np.flatnonzero(first.x), *best]))
    left = None if run.max_time is None else max(run.limits.left(), 1e-3)
    budget: dict[str, Any] = {"work": work, "n_jobs": n_jobs, "max_time": left}
    small = search(columns.restricted(members), first.x[members], tol=tol, seed=run.seed, **budget)
    x[:] = 0.0
    x[members] = small.x
    status = run.record(Epoch(x, small.nit, small.nacc))
    if status is not None:
        return run.finish(Epoch(x, 0, 0, status))
    last = swap(problem, x, tol=tol, seed=run.seed)
    report = Epoch(last.x, last.nit, last.nacc, last.status, last.cws_gap)
    return run.finish(report._replace(status=run.record(report)))


def strategy_of(problem: Problem, method: str) -> Any:
    """Return the strategy for sparse or binary points; ``method`` is named in errors."""
    strategy = serving(problem, method)
    if not (problem.f.gram or getattr(strategy, "works_by_columns", False)):
        raise ValueError(
            f"method {method!r} keeps AᵀA, here {problem.n} × {problem.n}; give LeastSquares(…, gram=True) if that "
            "fits, or use method 'bcd-g'."
        )
    return strategy(problem)


class _Search:
    """A search: jobs on a population, performed in slices of the run."""

    def __init__(self, run: Run, exact: Strategy | None, work: int | None, n_jobs: int | None, given: bool) -> None:
        self.run, self.problem, self.work = run, run.problem, work
        points = [run.start.copy()]
        # Without a seed each search draws one, so that its jobs still agree with each other.
        self.root = int(np.random.SeedSequence(run.seed).generate_state(1)[0])
        self.exact = exact
        threshold = exactness_threshold(self.problem)
        self.is_exact = threshold is not None and self.problem.g.lam > threshold and self.exact is not None
        # Reserve time for the last descent and the certificate; they take longer if λ is small.
        share = LAST_SHARE_EXACT if self.is_exact else LAST_SHARE
        self.limits = Limits(None if run.max_time is None else (1.0 - share) * run.max_time, run.limits)
        self.penalised = Penalised(self.problem, self.exact, self.limits)
        self.is_rough = getattr(exact, "is_rough", False)
        if run.max_time is None and (self.is_rough or not self.is_exact):
            x = bcd_g(self.problem, tol=run.tol, seed=run.seed).x
            run.keep(x, self.problem.objective(x))
        if run.max_time is not None:
            # The first job may take longer than the time limit, so a short descent precedes it.
            if self.problem.u.is_sphere and not self.is_exact:
                # Pair steps are slow from few coordinates to a point that holds all of them.
                points.append(self.penalised.glide(run.start))
            else:
                points += _first_points(run, getattr(exact, "is_swift", False))
        self.strategies: list[Strategy] = [] if self.exact is None else [self.exact]
        if not self.is_exact:
            self.strategies.append(self.penalised)
        self.plan = self.penalised.plan
        if work is None and run.max_time is None:
            self.work = self.plan.work
        self.population: list[Member] = []
        self.elite: list[Member] = []
        # Of the current population: its number, jobs made and done, and jobs since it has improved.
        self.current = self.made_here = self.done_here = self.idle = 0
        # Of the whole search: jobs made and done, starts, and jobs lost.
        self.made = self.done = self.begun = self.lost = 0
        self.window = Window(self.plan.batch, perform, n_jobs, self._is_late, self._offer)
        for strategy in self.strategies:
            strategy.limits = self.limits
        if self.exact is not None:
            self.exact.is_default = work is None and run.max_time is None  # type: ignore[attr-defined]
        for x in points:
            self._add(x)
        if given and self.exact is not None:
            near = getattr(self.exact, "near", None)
            self._add(self.exact.descend(run.start) if near is None else near(run.start, self.root))

    def result(self) -> Result:
        """Run jobs until the budget is spent, then certify the best point."""
        with closing(self.window):
            report = self.run.stage(lambda trials: self._slice())
        if self.lost:
            warn(f"{self.lost} of {self.done} jobs were lost with their workers; the rest is complete.")
        if self.run.limits.reached() is not None or report.status is Status.STOPPED_BY_CALLBACK:
            return self.run.finish(report)
        if getattr(self.exact, "is_unrefined", False) and self.exact in self.strategies:
            # Of exchanges with poor estimates jobs verify only the best few.
            x = self.exact.refined(self.run.kept.x)  # type: ignore[attr-defined]
            self.run.keep(x, self.problem.objective(x))
        x = self.run.kept.x
        gaps = self._gaps(x)
        if gaps is not None:
            return self.run.finish(Epoch(x, 0, 0, Status.CERTIFIED, gaps[0]), named_gap(self.problem, gaps[1]))
        left = None if self.run.max_time is None else self.run.limits.left()
        last = bcd_g(self.problem, x, tol=self.run.tol, max_time=left, seed=self.run.seed)
        certified = last.status is Status.CERTIFIED
        status = last.status if certified else self.run.limits.reached() or report.status
        end = Epoch(last.x, 0, 0, status, last.cws_gap)
        self.run.record(end)
        more = {name: last[name] for name in ("convex_gap", "support_gap")}
        return self.run.finish(end, more if certified else None)

    def _gaps(self, x: Vector) -> tuple[float, float | None] | None:
        """Return the pair gap and the convex gap of a point if they certify it and need no pair kernels, or None."""
        pair_gap, (objective, noise) = getattr(self.exact, "pair_gap", lambda x: None), self.run.measure(x)
        tolerance, gap = self.run.tol * abs(objective) + noise, pair_gap(x)
        if gap is None or gap > tolerance:
            return None
        rest = convex_gap(self.problem, x)
        return (gap, rest) if rest is None or rest <= tolerance else None

    @property
    def best(self) -> Member:
        """The best point of all populations."""
        return min((*self.elite, *self.population), key=lambda member: member.objective)

    def _slice(self) -> Epoch:
        """Take the results of some jobs; before each, create the next jobs."""
        window = self.window
        size = self.plan.batch if self.work is None else min(self.plan.batch, self.work - self.done)
        before, taken = self.population[0].objective if self.population else math.inf, 0
        while taken < size:
            while len(window.waiting) < window.size and (self.work is None or self.made < self.work):
                window.push(self._next_job())
            job, x = window.take()
            if x is None and self._is_late():
                break
            taken += 1
            if x is None:
                self.lost += 1
            else:
                self._add(x, job.population == self.current)
        self.done += taken
        self.done_here += taken
        better = bool(self.population) and self.population[0].objective < before - SAME * abs(before)
        self.idle = 0 if better or self.done_here <= self._opening() else self.idle + taken
        self._settle_regime()
        best = self.best
        if self.idle >= self.plan.stale:
            self._give_up()
        status = self.limits.reached() or (Status.TIME_LIMIT if self._is_late() else None)
        if status is None and self.work is not None and self.done >= self.work:
            status = Status.ITERATION_LIMIT
        return Epoch(best.x, taken, int(better), status)

    def _next_job(self) -> Job:
        """Return the next job, which depends only on the seed, its number and the population."""
        number, here = self.made, self.made_here
        self.made, self.made_here = number + 1, here + 1
        rng = np.random.default_rng([self.root, number])
        strategy = self.strategies[number % len(self.strategies)]
        if here < self._opening() or len(self.population) < 3:
            self.begun += 1
            return Job(strategy, (self.begun - 1) // len(self.strategies), None, rng, self.current)
        # If ``eager``, the first parent is more often one of the best; the second may be from an earlier population.
        first = int(rng.integers(len(self.population), size=2 if self.plan.eager else 1).min())
        second = self.population[int(rng.integers(len(self.population)))]
        if self.elite and rng.random() < ELITE_SHARE:
            second = self.elite[int(rng.integers(len(self.elite)))]
        return Job(strategy, 0, [self.population[first].x, second.x], rng, self.current)

    def _opening(self) -> int:
        """Return the number of starts that seed the current population."""
        return (self.plan.size if self.elite else self.plan.first) * len(self.strategies)

    def _give_up(self) -> None:
        """Keep the best point of a population that no longer improves, and begin another."""
        self.elite = sorted([*self.elite, self.population[0]], key=lambda member: member.objective)[:ELITE]
        self.population, self.made_here, self.done_here, self.idle = [], 0, 0, 0
        self.current += 1

    def _is_late(self) -> bool:
        """Return whether a job as long as the longest so far would exceed the time for jobs."""
        return self.limits.reached() is not None or self.limits.left() < self.window.longest

    def _offer(self, x: Vector | None) -> None:
        """Offer a point to the run as soon as it is known, in case time runs out before it is taken."""
        if x is not None and self.run.max_time is not None:
            self.run.keep(x, self.problem.objective(x))

    def _settle_regime(self) -> None:
        """Below the exactness threshold, choose one of the two strategies once both have been tried."""
        if self.exact is not None and len(self.strategies) == 2 and self.done >= SETTLED:
            best = self.best
            gap = self.problem.objective(self.exact.descend(best.x)) - best.objective
            self.strategies = self.strategies[1:] if gap > SAME * abs(best.objective) else self.strategies[:1]
            if len(self.strategies) == 1 and self.strategies[0] is self.exact:
                self._add(self.penalised.descend(best.x))

    def _add(self, x: Vector, is_here: bool = True) -> None:
        """Add a feasible point to the population, unless one of equal objective, or similar and better, is in it.

        The worst point is dropped. A child of an earlier population would lead the new one back; it is added to the
        best points of earlier ones instead.
        """
        members, most = (self.population, self.plan.size) if is_here else (self.elite, ELITE)
        objective = self.problem.objective(x)
        room = SAME * max(abs(objective), 1e-300)
        if any(abs(member.objective - objective) <= room for member in members) or not self.problem.is_feasible(x):
            return
        if is_here and self.plan.alike <= 1.0:
            held, share = x != 0.0, self.plan.alike * np.count_nonzero(x)
            common = [np.count_nonzero(held & (member.x != 0.0)) >= share for member in members]
            if any(near and member.objective < objective for near, member in zip(common, members, strict=True)):
                return
            members[:] = [member for near, member in zip(common, members, strict=True) if not near]
        members.append(Member(objective, x))
        members.sort(key=lambda member: member.objective)
        del members[most:]
        self.run.keep(x, objective)


def _first_points(run: Run, is_swift: bool) -> list[Vector]:
    """Return the start, or if g has an s the best single coordinate, and the end of a short descent from it.

    If the first job is fast (``is_swift``), the descent is omitted.
    """
    problem, x = run.problem, run.start
    if problem.free is not None:
        c = getattr(problem.u, "c", 1.0)
        alone = np.zeros(problem.n)
        slopes = problem.model(alone).f.p + problem.separable.weight
        alone[np.argmin(0.5 * c * c * (problem.f.diagonal + problem.separable.bend) + c * slopes)] = c
        x = problem.project(alone)
        run.keep(x, problem.objective(x))
    if is_swift:
        return [x]
    seconds = FIRST_SHARE * (run.max_time or 0.0)
    return [x, bcd_g(problem, x, tol=1e-6, max_time=seconds, seed=run.seed).x]


def _exact_strategy(problem: Problem) -> Strategy | None:
    """Return the strategy for sparse or binary points; None if it refuses to work on supports of the problem."""
    strategy = strategy_for(problem)
    if strategy is not None and strategy.has_supports and strategy.refusal(problem) is not None:
        return None
    found: Strategy = strategy_of(problem, "search")
    return found


def perform(job: Job) -> Vector | None:
    """Return the local optimum of a job; None if its worker fails, so that other jobs are not lost."""
    try:
        return job.strategy.start(job.k, job.rng) if job.parents is None else job.strategy.child(job.parents, job.rng)
    except (OSError, MemoryError):
        return None

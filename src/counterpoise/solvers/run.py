"""What the runs of all methods share: start, clock, history, limits, callback, interrupts, result."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from counterpoise.checks import Vector, number, vector, whole_number
from counterpoise.clock import working_seconds
from counterpoise.problem import Problem, Result, Status

# Iterations of the first epoch; later ones grow until they last so many seconds, for limits, Ctrl-C and progress.
FIRST_EPOCH, EPOCH_SECONDS = 16, 0.05
# A projection farther than this, relative to the size of x, is not a correction of rounding but another point.
FAR = 0.5


class Progress(NamedTuple):
    """What a callback sees; returning True from the callback stops the run.

    ``gap`` is what the best pair would gain, NaN while that is not known: a scan of the pairs ends a run.
    """

    iteration: int
    seconds: float
    objective: float
    x: Vector
    gap: float = math.nan


class Population(NamedTuple):
    """How a search spends its jobs.

    So many starts open the first population, so many points are in one, and after so many jobs in a row that did not
    improve it, it is given up for a new one. ``batch`` jobs lie between two looks at the population, the same for any
    number of workers, so that these do not matter. ``work`` is how many jobs a call without limits has.
    """

    first: int = 8
    size: int = 16
    stale: int = 80
    batch: int = 8
    work: int = 128


class Epoch(NamedTuple):
    """What one epoch of a method reports: where it is, what it did, and whether the method itself has ended."""

    x: Vector
    tried: int
    accepted: int
    status: Status | None = None
    gap: float = math.nan


class Run:
    """One run of one method: it scores points, keeps the best, and knows when to stop.

    Parameters
    ----------
    problem : Problem
    x0 : array of length n, optional
        By default ``problem.start(seed)``.
    tol : float
        Relative to |F|.
    max_iter, max_time : optional limits
    seed : int or None
    callback : callable, optional
    """

    def __init__(
        self,
        problem: Problem,
        x0: Any,
        tol: float,
        max_iter: int | None,
        max_time: float | None,
        seed: int | None,
        callback: Callable[[Progress], Any] | None,
    ) -> None:
        self.clock = working_seconds()
        self.problem, self.seed, self.callback = problem, seed, callback
        self.tol = number(tol, "tol", 0.0)
        self.max_iter = None if max_iter is None else whole_number(max_iter, "max_iter", 1)
        self.max_time = None if max_time is None else number(max_time, "max_time", 0.0)
        self.rng = np.random.default_rng(seed)
        self.start = problem.start(seed) if x0 is None else feasible_start(problem, x0)
        self.best = self.start.copy()
        self.done = self.accepted = 0
        self.objective, self.noise = self.measure(self.start)
        self.least = self.objective
        self.history = [(0, working_seconds() - self.clock, self.objective)]

    def measure(self, x: Vector) -> tuple[float, float]:
        """Return F(x), and the decrease of F that cannot be told from rounding."""
        objective, resolution = self.problem.value_and_resolution(x)
        return objective, 64.0 * resolution

    @property
    def tolerance(self) -> float:
        """The decrease below which a step is not worth taking, or cannot be told from rounding."""
        return self.tol * abs(self.objective) + self.noise

    def loop(self, epoch: Callable[[int], Epoch]) -> Result:
        """Call ``epoch(iterations)`` until it reports a status or a limit is reached; return the best point."""
        trials, status, gap = FIRST_EPOCH, None, math.nan
        try:
            while status is None:
                if self.max_iter is not None:
                    trials = min(trials, self.max_iter - self.done)
                report = epoch(trials)
                status = self._record(report)
                gap = report.gap
                trials = _next_trials(trials, report.tried, self.history[-1][1] - self.history[-2][1])
        except KeyboardInterrupt:
            status, gap = Status.INTERRUPTED, math.nan
        return Result(
            x=self.best,
            objective=self.least,
            status=status,
            success=status in (Status.CERTIFIED, Status.SWAP_OPTIMAL),
            message=status.value,
            nit=self.done,
            nacc=self.accepted,
            time=working_seconds() - self.clock,
            history=np.array(self.history),
            cws_gap=float(gap),
            tolerance=self.tolerance,
            seed=self.seed,
        )

    def _record(self, report: Epoch) -> Status | None:
        """Score the point, keep it if it is the best, and look at the limits."""
        self.done, self.accepted = self.done + int(report.tried), self.accepted + int(report.accepted)
        self.objective, self.noise = self.measure(report.x)
        if self.objective <= self.least:
            self.least = self.objective
            self.best[:] = report.x
        seconds = working_seconds() - self.clock
        self.history.append((self.done, seconds, self.objective))
        status = report.status
        if status is None and self.max_iter is not None and self.done >= self.max_iter:
            status = Status.ITERATION_LIMIT
        if status is None and self.max_time is not None and seconds >= self.max_time:
            status = Status.TIME_LIMIT
        if self.callback is not None and self.callback(Progress(*self.history[-1], report.x.copy(), report.gap)):
            status = status or Status.STOPPED_BY_CALLBACK
        return status


def _next_trials(trials: int, tried: int, seconds: float) -> int:
    """Return how many iterations the next epoch gets, given what this one did and how long it took."""
    if seconds > EPOCH_SECONDS:
        return max(1, int(tried * EPOCH_SECONDS / seconds))
    return 2 * trials if tried >= trials else trials


def feasible_start(problem: Problem, x0: Any) -> Vector:
    """Return x0, projected with a warning if it is infeasible, refused if it is far."""
    x = np.array(vector(x0, "x0", problem.n))
    violation = problem.violation(x)
    if violation <= 1e-12:
        return x
    projected = problem.project(x)
    distance = float(np.linalg.norm(projected - x))
    size = max(float(np.linalg.norm(projected)), float(np.linalg.norm(x)))
    if distance > FAR * size:
        raise ValueError(
            f"x0 is infeasible by {violation:.3g} and {distance:.3g} away from the nearest feasible point; "
            "give problem.project(x0) if that point is meant."
        )
    if violation > 1e-9:
        warnings.warn(
            f"x0 is infeasible by {violation:.3g}; the run starts from the nearest feasible point, "
            f"{distance:.3g} away.",
            stacklevel=5,
        )
    return projected

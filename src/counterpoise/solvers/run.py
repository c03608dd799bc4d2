"""The loop shared by all methods: start, clock, limits, callback, history, best point and result.

A method works in slices of some milliseconds, each of which reports an :class:`Epoch`. The :class:`Run` checks the
limits between slices, keeps the best feasible point, and attaches a claim only to the point for which it was made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from counterpoise.certificates import certify
from counterpoise.checks import Vector, callback_function, number, random_seed, vector, whole_number
from counterpoise.clock import paused_seconds, working_seconds
from counterpoise.problem import Problem, Result, Status
from counterpoise.registry import pool_for
from counterpoise.supervision import Limits, supervision, warn
from counterpoise.terms.separable import nearest_admitted

# Iterations of the first epoch, and seconds of later ones, so that limits and progress are checked often.
FIRST_EPOCH, EPOCH_SECONDS = 16, 0.05
# A start that is infeasible by less than this, relative to x and its bounds, is projected without a warning.
ROUNDING = 1e-9
# Starts beyond this would overflow when squared.
LARGEST = 1e100
# Statuses that claim something about one point.
CLAIMS = (Status.CERTIFIED, Status.SWAP_OPTIMAL, Status.OPTIMAL)
# Guards described in :class:`Run`: accepted steps without a lower F, per coordinate and at least; iterations.
STALLED_EACH, STALLED, MOST_ITERATIONS = 200, 100_000, 10**10


class Progress(NamedTuple):
    """The argument of a callback, which stops the run by returning True.

    ``gap`` is the largest decrease that any pair offers; NaN until a scan of all pairs, which ends most runs.
    """

    iteration: int
    seconds: float
    objective: float
    x: Vector
    gap: float = math.nan


class Epoch(NamedTuple):
    """Report of one slice: the point, steps tried and accepted, and the status if the method has ended.

    ``scored`` is F and its noise at x, if the method has updated F from step to step because evaluating it takes long.
    """

    x: Vector
    tried: int
    accepted: int
    status: Status | None = None
    gap: float = math.nan
    scored: tuple[float, float] | None = None


class Kept(NamedTuple):
    """A point, its objective, and the largest decrease of F that may be rounding error."""

    objective: float
    x: Vector
    noise: float


class Run:
    """One run of one method: score points, keep the best feasible one, and decide when to stop.

    Every run ends: a step is accepted only if it lowers the model by more than ``noise``, 64 times the rounding error
    of F (:meth:`Problem.value_and_resolution`); F is bounded below on the feasible set; and every other loop has a
    fixed number of rounds. As a safeguard, a run also ends as STATIONARY when very many accepted steps in a row did not
    lower the measured F, and as ITERATION_LIMIT after 10¹⁰ iterations.

    The default of ``x0`` is ``problem.start(seed)``, and ``tol`` is relative to |F|.
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
        self.problem, self.seed, self.callback = problem, random_seed(seed), callback_function(callback)
        self.tol = number(tol, "tol", 0.0)
        self.max_iter = None if max_iter is None else whole_number(max_iter, "max_iter", 1)
        self.max_time = None if max_time is None else number(max_time, "max_time", 0.0)
        self.rng = np.random.default_rng(seed)
        supervisor = supervision()
        self.limits = Limits(self.max_time, None if supervisor is None else supervisor.limits)
        self.setup = paused_seconds()
        self.done = self.accepted = self.stalled = 0
        self.ended = False  # whether a claim has failed at the best point
        self.follows = False  # whether an objective was updated instead of evaluated
        self.begin(problem.start(seed) if x0 is None else feasible_start(problem, x0))
        if supervisor is not None:
            supervisor.attach(self)

    def begin(self, x: Vector) -> None:
        """Start from x."""
        self.start = x
        self.objective, self.noise = self.measure(x)
        least = self.objective if self.problem.is_feasible(x) else math.inf  # any feasible point is better
        # Replaced in one assignment, so that another thread never sees a half-updated point.
        self.kept = Kept(least, x.copy(), self.noise)
        self.history = [(0, working_seconds() - self.clock, self.objective)]

    def measure(self, x: Vector) -> tuple[float, float]:
        """Return F(x) and the largest decrease of F that may be rounding error."""
        objective, resolution = self.problem.value_and_resolution(x)
        return objective, 64.0 * resolution

    @property
    def tolerance(self) -> float:
        """The least decrease of F that counts."""
        return self.tol * abs(self.objective) + self.noise

    def keep(self, x: Vector, objective: float, noise: float | None = None) -> bool:
        """Keep a point if it is feasible up to rounding and no worse than the best; return whether it was kept."""
        if not (objective <= self.kept.objective and self.problem.is_feasible(x)):
            return False
        self.kept = Kept(objective, np.array(x), self.measure(x)[1] if noise is None else noise)
        return True

    def loop(self, epoch: Callable[[int], Epoch]) -> Result:
        """Call ``epoch(iterations)`` until it reports a status or a limit is reached; return the best point."""
        return self.finish(self.stage(epoch))

    def stage(self, epoch: Callable[[int], Epoch]) -> Epoch:
        """Call ``epoch(iterations)`` until it reports a status or a limit is reached; return its last report."""
        trials = FIRST_EPOCH
        while True:
            if self.max_iter is not None:
                trials = min(trials, self.max_iter - self.done)
            before = working_seconds()
            report = epoch(trials)
            status = self.record(report)
            if status is not None:
                return report._replace(status=status)
            seconds = working_seconds() - before
            if seconds > EPOCH_SECONDS:
                trials = max(1, int(report.tried * EPOCH_SECONDS / seconds))
            elif report.tried >= trials:
                trials *= 2

    def record(self, report: Epoch) -> Status | None:
        """Score the point of a slice, keep it if it is the best, and return the status with which to stop, or None."""
        self.done, self.accepted = self.done + int(report.tried), self.accepted + int(report.accepted)
        self.objective, self.noise = self.measure(report.x) if report.scored is None else report.scored
        self.follows = self.follows or report.scored is not None
        lower = self.objective < self.kept.objective
        self.keep(report.x, self.objective, self.noise)
        supervisor = supervision()
        outer = None if supervisor is None else supervisor.run
        if outer is not None and outer is not self and outer.problem is self.problem:
            # The outermost run's best point is returned if the method is abandoned.
            outer.keep(report.x, self.objective, self.noise)
        self.stalled = 0 if lower or not report.accepted else self.stalled + int(report.accepted)
        seconds = working_seconds() - self.clock
        self.history.append((self.done, seconds, self.kept.objective))
        status = report.status or self.limits.reached()
        if status is None and self.done >= min(self.max_iter or MOST_ITERATIONS, MOST_ITERATIONS):
            status = Status.ITERATION_LIMIT
        if status is None and self.stalled > max(STALLED, STALLED_EACH * self.problem.n):
            status = Status.STATIONARY
        if self.callback is not None:
            progress = Progress(self.done, seconds, self.objective, report.x.copy(), report.gap)
            if self.tell(self.callback, progress):
                # A method of several stages must not begin the next one.
                self.limits.stopped = self.limits.stopped or Status.STOPPED_BY_CALLBACK
                status = Status.STOPPED_BY_CALLBACK if status in (None, Status.ITERATION_LIMIT) else status
            status = status or self.limits.reached()
        return status

    def tell(self, callback: Callable[[Progress], Any], progress: Progress) -> bool:
        """Call the callback in the thread that started the run; return whether it asks to stop."""
        supervisor = supervision()
        answer = callback(progress) if supervisor is None else supervisor.ask(callback, progress)
        try:
            return bool(answer)
        except ValueError:  # an array of several entries
            raise TypeError(
                f"callback returned an object of type {type(answer).__name__}; it must return True to stop the "
                "run, or nothing."
            ) from None

    def finish(self, report: Epoch, more: dict[str, Any] | None = None) -> Result:
        """Return the point for which a claim was made, with ``more`` claims about it, or the best point otherwise."""
        status, gap, more = report.status, report.gap, more or {}
        assert status is not None
        kept = self.kept
        if status in CLAIMS:
            claimed, noise = self.measure(report.x)
            # Which points were scored depends on the clock; those whose F differs by rounding error count as equal.
            if self.problem.is_feasible(report.x) and claimed <= kept.objective + noise:
                kept = Kept(claimed, np.array(report.x), noise)
            else:  # the claim is made of the better point, if it holds there as well
                status, gap, more = self.examined(report, more)
                if status is Status.STATIONARY and self.may_go_on():
                    # As no claim holds there, F can fall further.
                    from counterpoise.solvers.bcd import pair_stage

                    x = kept.x.copy()
                    return self.finish(*pair_stage(self, x))
        else:
            if self.follows and math.isfinite(kept.objective):
                objective, noise = self.measure(kept.x)
                kept = Kept(objective, kept.x, noise)
            if not np.array_equal(kept.x, report.x):
                gap, more = math.nan, {}
        return self.result(status, kept, gap, **more)

    def may_go_on(self) -> bool:
        """Return whether a run that has ended may descend once more, and remember that it has been asked."""
        first, self.ended = not self.ended, True
        return first and self.limits.stopped is None and pool_for(self.problem) is None

    def examined(self, report: Epoch, more: dict[str, Any]) -> tuple[Status, float, dict[str, Any]]:
        """Return what can be claimed of the best point, which is better than the one of a report: status, gap, more."""
        assert report.status is not None
        x, tolerance = self.kept.x, self.tol * abs(self.kept.objective) + self.kept.noise
        level = "swap" if report.status is Status.SWAP_OPTIMAL else "pair"
        try:
            found = certify(self.problem, x, level=level)
        except ValueError:  # exchanges cannot be proved here, or x has more than s non-zeros
            level, found = "pair", certify(self.problem, x)
        gaps: dict[str, Any] = {}
        for name in ("convex_gap", "support_gap"):
            own, other = getattr(found, name), more.get(name)
            if other is not None and (name == "convex_gap" or not x[report.x == 0.0].any()):
                # A bound for a worse point on the same support, or one that contains it; F is known up to rounding.
                own = min(own, other + self.kept.noise / 32.0)
            gaps[name] = own
        if any(gap is not None and gap > tolerance for gap in (found.cws_gap, *gaps.values())):
            return Status.STATIONARY, found.cws_gap, gaps
        if level == "swap" and found.swap_bound is not None and found.swap_bound <= tolerance:
            gaps["swap_gap"] = found.swap_bound
        elif report.status is Status.SWAP_OPTIMAL:
            return Status.CERTIFIED, found.cws_gap, gaps
        return report.status, found.cws_gap, {**more, **gaps}

    def result(self, status: Status, kept: Kept, gap: float = math.nan, **more: Any) -> Result:
        """Return the result for a kept point; ``more`` holds further claims about it.

        No BLAS is called here, because it could block until an abandoned thread leaves BLAS.
        """
        history = np.array(self.history)
        if kept.objective < history[-1, 2]:  # a nested run has passed on a better point since
            history = np.vstack([history, (self.done, working_seconds() - self.clock, kept.objective)])
        history[:, 2] = np.maximum(history[:, 2], kept.objective)  # earlier points may seem better by rounding error
        return Result(
            x=np.array(kept.x),
            objective=kept.objective,
            status=status,
            success=status in CLAIMS,
            message=status.value,
            nit=self.done,
            nacc=self.accepted,
            time=working_seconds() - self.clock,
            setup_time=paused_seconds() - self.setup,
            history=history,
            cws_gap=float(gap),
            tolerance=self.tol * abs(kept.objective) + kept.noise,
            seed=self.seed,
            **{"convex_gap": None, "support_gap": None, "swap_gap": None, **more},
        )

    def abandoned(self, status: Status) -> Result:
        """Ask a run in another thread to stop, and return its best point without waiting for it."""
        self.limits.stopped = status
        return self.result(status, self.kept)


def feasible_start(problem: Problem, x0: Any) -> Vector:
    """Return x0, or a feasible point near it with a warning if it is infeasible."""
    x = np.array(vector(x0, "x0", problem.n))
    if float(np.abs(x).max()) > LARGEST:
        raise ValueError(f"x0 contains {float(np.abs(x).max()):g}; its entries must be at most {LARGEST:g} in size.")
    if problem.is_feasible(x):
        return x
    missed = problem.violation(x)
    projected = problem.project(x)
    distance = float(np.linalg.norm(projected - x))
    bounds = problem.separable.lo, problem.separable.hi
    unit = max(problem.scale, *(float(np.abs(one[np.isfinite(one)]).max(initial=0.0)) for one in bounds))
    if max(missed, distance) > ROUNDING * unit:
        count, most = np.count_nonzero(x), problem.most_nonzeros
        why = f"is infeasible by {missed:.3g}" if count <= most else f"has {count} non-zeros instead of at most {most}"
        warn(f"x0 {why}; the run starts from problem.project(x0), {distance:.3g} away.")
    return projected


def in_sums(problem: Problem, x0: Any, solve: Callable[[Problem, Any], Result]) -> Result:
    """Call ``solve(problem, x0)`` in z = a∘x, where the sum has no weights a, and return its result in x."""
    a = problem.u.weights
    result = solve(problem.unweighted, None if x0 is None else a * vector(x0, "x0", problem.n))
    # Dividing by a may violate a bound by rounding.
    result.x = nearest_admitted(problem.separable, result.x / a)
    if result.status not in (Status.TIME_LIMIT, Status.INTERRUPTED):  # BLAS may still be busy there
        result.objective = problem.objective(result.x)
        # F(x) and the same value in a∘x differ by rounding.
        objectives = result.history[:, 2]
        objectives[:] = np.maximum(objectives, result.objective)
        objectives[-1] = result.objective
    return result

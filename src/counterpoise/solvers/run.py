"""The loop of all methods: start, clock, limits, callback, interrupts, history, best point and result.

A method is a function of slices: each does some milliseconds of work and reports an :class:`Epoch`. The
:class:`Run` looks at limits between slices, keeps the best feasible point, and attaches a claim only to the point for
which it was made. :func:`supervised` runs a method in a thread of its own, so that Ctrl-C and the time limit are
obeyed at once, even while a kernel or BLAS is at work.
"""

from __future__ import annotations

import functools
import math
import queue
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, ParamSpec

import joblib
import numpy as np

from counterpoise.checks import Vector, number, vector, whole_number
from counterpoise.clock import paused_seconds, working_seconds
from counterpoise.problem import Problem, Result, Status

# Iterations of the first epoch; later ones grow until they last so many seconds, for limits, Ctrl-C and progress.
FIRST_EPOCH, EPOCH_SECONDS = 16, 0.05
# A projection farther than this, relative to the size of x, is not a correction of rounding but another point.
FAR = 0.5
# Statuses that claim something about one point.
CLAIMS = (Status.CERTIFIED, Status.SWAP_OPTIMAL, Status.OPTIMAL)
# Guards of the proof in :class:`Run`: accepted steps, per coordinate and at least, without a lower F; iterations.
STALLED_EACH, STALLED, MOST_ITERATIONS = 200, 100_000, 10**10
# Seconds, and the share of the limit, that a method has to notice a limit before it is left behind.
GRACE, GRACE_SHARE = 0.02, 0.04
# Seconds that it has after Ctrl-C.
INTERRUPT_GRACE = 0.1

P = ParamSpec("P")
_here = threading.local()
_LOOK_AGAIN = object()


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

    ``first`` starts seed the population, which holds ``size`` points; after ``stale`` jobs in a row without an
    improvement it is replaced by a new one. The population changes only every ``batch`` jobs, so that results do not
    depend on the number of workers. ``work`` is the number of jobs of a call without limits.
    """

    first: int = 8
    size: int = 16
    stale: int = 80
    batch: int = 8
    work: int = 128


class Epoch(NamedTuple):
    """What one slice of a method reports: where it is, what it did, and whether the method itself has ended."""

    x: Vector
    tried: int
    accepted: int
    status: Status | None = None
    gap: float = math.nan


class Limits:
    """A time limit and a request to stop, shared by a run and everything that it calls.

    Pickled, as for a worker process, a time limit is the number of seconds left.
    """

    def __init__(self, max_time: float | None = None, outer: Limits | None = None) -> None:
        self.until = math.inf if max_time is None else working_seconds() + max_time
        self.outer = outer
        self.stopped: Status | None = None

    def reached(self) -> Status | None:
        """Return why to stop, or None."""
        status = self.stopped or (None if self.outer is None else self.outer.reached())
        if status is None and working_seconds() >= self.until:
            status = Status.TIME_LIMIT
        return status

    def left(self) -> float:
        """Return the seconds left, ∞ without a limit."""
        until = self.until if self.outer is None else min(self.until, self.outer.until)
        return max(0.0, until - working_seconds())

    def __getstate__(self) -> dict[str, Any]:
        return {"left": self.left()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(None if math.isinf(state["left"]) else state["left"])  # type: ignore[misc]


class Run:
    """One run of one method: it scores points, keeps the best feasible one, and knows when to stop.

    No run is endless. A step is accepted only if it lowers the model by more than ``noise``, 64 rounding errors of the
    sum that F is (:meth:`Problem.value_and_resolution`), F is bounded below on the compact feasible set, and every
    other loop has a fixed number of rounds. Two guards stand behind that proof: a run ends as STATIONARY when
    very many accepted steps in a row did not lower the measured F, and after 10¹⁰ iterations.

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
        if callback is not None and not callable(callback):
            raise TypeError(f"callback is {callback!r}; it must be a function of a Progress, or None.")
        self.tol = number(tol, "tol", 0.0)
        self.max_iter = None if max_iter is None else whole_number(max_iter, "max_iter", 1)
        self.max_time = None if max_time is None else number(max_time, "max_time", 0.0)
        self.rng = random_generator(seed)
        supervisor: _Supervisor | None = getattr(_here, "supervisor", None)
        self.limits = Limits(self.max_time, None if supervisor is None else supervisor.limits)
        self.setup = paused_seconds()
        self.start = problem.start(seed) if x0 is None else feasible_start(problem, x0)
        self.done = self.accepted = self.stalled = 0
        self.objective, self.noise = self.measure(self.start)
        # One assignment replaces both, so that another thread never sees half of it.
        self.kept: tuple[float, Vector] = self.objective, self.start.copy()
        if not problem.is_feasible(self.start):  # any feasible point is better
            self.kept = math.inf, self.start.copy()
        self.history = [(0, working_seconds() - self.clock, self.objective)]
        if supervisor is not None:
            supervisor.attach(self)

    @property
    def best(self) -> Vector:
        """The best feasible point so far."""
        return self.kept[1]

    @property
    def least(self) -> float:
        """F there."""
        return self.kept[0]

    def measure(self, x: Vector) -> tuple[float, float]:
        """Return F(x), and the decrease of F that cannot be told from rounding."""
        objective, resolution = self.problem.value_and_resolution(x)
        return objective, 64.0 * resolution

    @property
    def tolerance(self) -> float:
        """The decrease below which a step is not worth taking, or cannot be told from rounding."""
        return self.tol * abs(self.objective) + self.noise

    def keep(self, x: Vector, objective: float) -> bool:
        """Keep a point if it is feasible to rounding and no worse than the best; return whether it was."""
        if not (objective <= self.kept[0] and self.problem.is_feasible(x)):
            return False
        self.kept = objective, np.array(x)
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
            trials = _next_trials(trials, report.tried, working_seconds() - before)

    def record(self, report: Epoch) -> Status | None:
        """Score the point of a slice, keep it if it is the best, and look at the limits."""
        self.done, self.accepted = self.done + int(report.tried), self.accepted + int(report.accepted)
        self.objective, self.noise = self.measure(report.x)
        lower = self.objective < self.least
        self.keep(report.x, self.objective)
        supervisor: _Supervisor | None = getattr(_here, "supervisor", None)
        if supervisor is not None and supervisor.run is not self and supervisor.run is not None:
            # What a part of a method finds must not be lost if the method is left behind.
            if supervisor.run.problem is self.problem:
                supervisor.run.keep(report.x, self.objective)
        self.stalled = 0 if lower or not report.accepted else self.stalled + int(report.accepted)
        seconds = working_seconds() - self.clock
        self.history.append((self.done, seconds, self.least))
        status = report.status or self.limits.reached()
        if status is None and self.max_iter is not None and self.done >= self.max_iter:
            status = Status.ITERATION_LIMIT
        if status is None and self.done >= MOST_ITERATIONS:
            status = Status.ITERATION_LIMIT
        if status is None and self.stalled > max(STALLED, STALLED_EACH * self.problem.n):
            status = Status.STATIONARY
        if self.callback is not None:
            progress = Progress(self.done, seconds, self.objective, report.x.copy(), report.gap)
            if self.tell(progress):
                status = status or Status.STOPPED_BY_CALLBACK
        return status

    def tell(self, progress: Progress) -> bool:
        """Call the callback, in the thread that started the run; return whether it asks to stop."""
        supervisor: _Supervisor | None = getattr(_here, "supervisor", None)
        if self.callback is None:
            return False
        return bool(self.callback(progress) if supervisor is None else supervisor.ask(self.callback, progress))

    def finish(self, report: Epoch, more: dict[str, Any] | None = None) -> Result:
        """Return the result: the point of a claim if one was made, otherwise the best point; ``more`` is claimed too."""
        status, gap, more = report.status, report.gap, more or {}
        assert status is not None
        objective, x = self.kept
        if status in CLAIMS:
            claimed, noise = self.measure(report.x)
            if self.problem.is_feasible(report.x) and claimed <= objective + self.tol * abs(claimed) + noise:
                objective, x = claimed, np.array(report.x)
            else:  # a better point was met on the way, of which nothing was shown
                status, gap, more = Status.STATIONARY, math.nan, {}
        elif not np.array_equal(x, report.x):
            gap, more = math.nan, {}
        return self.result(status, objective, x, gap, **more)

    def result(self, status: Status, objective: float, x: Vector, gap: float = math.nan, **more: Any) -> Result:
        """Return a result with everything that a run knows; ``more`` are claims about the same point."""
        history = np.array(list(self.history))
        return Result(
            x=np.array(x),
            objective=objective,
            status=status,
            success=status in CLAIMS,
            message=status.value,
            nit=self.done,
            nacc=self.accepted,
            time=working_seconds() - self.clock,
            setup_time=paused_seconds() - self.setup,
            history=history,
            cws_gap=float(gap),
            tolerance=self.tol * abs(objective) + self.measure(x)[1],
            seed=self.seed,
            **more,
        )

    def abandoned(self, status: Status) -> Result:
        """Return the best point of a run that is still at work in its thread and will be left there."""
        self.limits.stopped = status
        objective, x = self.kept
        return self.result(status, objective, x)


def _next_trials(trials: int, tried: int, seconds: float) -> int:
    """Return how many iterations the next epoch gets, given what this one did and how long it took."""
    if seconds > EPOCH_SECONDS:
        return max(1, int(tried * EPOCH_SECONDS / seconds))
    return 2 * trials if tried >= trials else trials


def random_generator(seed: Any) -> np.random.Generator:
    """Return a generator; a seed that NumPy does not take is refused in one sentence."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ValueError(f"seed is {seed!r}; it must be a whole number of at least 0, or None.") from None


def feasible_start(problem: Problem, x0: Any) -> Vector:
    """Return x0, projected with a warning if it is infeasible, refused if it is far."""
    x = np.array(vector(x0, "x0", problem.n))
    if problem.is_feasible(x):
        return x
    violation = problem.violation(x)
    projected = problem.project(x)
    distance = float(np.linalg.norm(projected - x))
    size = max(float(np.linalg.norm(projected)), float(np.linalg.norm(x)))
    if distance > FAR * size:
        raise ValueError(
            f"x0 is infeasible by {violation:.3g} and {distance:.3g} away from the nearest feasible point; "
            "give problem.project(x0) if that point is meant."
        )
    if violation > 1e-9 * problem.scale:
        warnings.warn(
            f"x0 is infeasible by {violation:.3g}; the run starts from the nearest feasible point, "
            f"{distance:.3g} away.",
            stacklevel=5,
        )
    return projected


# Methods in threads of their own.


def supervision() -> Any:
    """Return who supervises this thread, for :func:`under`."""
    return getattr(_here, "supervisor", None)


@contextmanager
def under(supervisor: Any) -> Iterator[None]:
    """Let a worker thread of a method be supervised as the method is."""
    before, _here.supervisor = supervision(), supervisor
    try:
        yield
    finally:
        _here.supervisor = before


class _Supervisor:
    """The thread that started a method: it calls callbacks, and looks at the clock and at Ctrl-C."""

    def __init__(self) -> None:
        self.limits = Limits()
        self.run: Run | None = None
        self.requests: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def attach(self, run: Run) -> None:
        """Remember the first run of the method, which contains all others and whose limits are theirs."""
        if self.run is None:
            self.run, self.limits = run, run.limits
            self.requests.put(_LOOK_AGAIN)

    def ask(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function in the supervising thread, from the working one."""
        answer: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.requests.put((function, argument, answer))
        value, error = answer.get()
        if error is not None:
            raise error
        return value

    def late(self) -> float:
        """Return by how many seconds the run is over its limit and its grace, −∞ if there is no limit."""
        run = self.run
        if run is None or run.max_time is None:
            return -math.inf
        return working_seconds() - run.limits.until - max(GRACE, GRACE_SHARE * run.max_time)


def supervised(method: Callable[P, Result]) -> Callable[P, Result]:
    """Let a method run in a thread of its own, unless it is part of another that does.

    A kernel, or BLAS, that is at work when the time is over or Ctrl-C is pressed cannot be stopped; it is left to end
    by itself, and the best point so far is returned. Callbacks are called in the thread of the caller.
    """

    @functools.wraps(method)
    def call(*args: P.args, **options: P.kwargs) -> Result:
        if getattr(_here, "supervisor", None) is not None:
            return method(*args, **options)
        return _supervise(lambda: method(*args, **options))

    return call


def interruptible(function: Callable[P, Any]) -> Callable[P, Any]:
    """Let a function without a result of its own be left by Ctrl-C at once, whatever kernel is at work."""

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> Any:
        if getattr(_here, "supervisor", None) is not None:
            return function(*args, **options)
        return _supervise(lambda: function(*args, **options))

    return call


def _supervise(work: Callable[[], Any]) -> Any:
    supervisor, outcome = _Supervisor(), queue.SimpleQueue[Any]()

    def perform() -> None:
        _here.supervisor = supervisor
        if configured is not None:
            joblib.parallel._backend.config = configured
        try:
            outcome.put((work(), None))
        except BaseException as error:
            outcome.put((None, error))
        supervisor.requests.put(None)

    # joblib keeps what ``parallel_config`` says for each thread.
    configured = getattr(joblib.parallel._backend, "config", None)
    threading.Thread(target=perform, name="counterpoise", daemon=True).start()
    try:
        while True:
            late = supervisor.late()
            if late >= 0.0 and supervisor.run is not None:
                return supervisor.run.abandoned(Status.TIME_LIMIT)
            try:
                request = supervisor.requests.get(timeout=None if late == -math.inf else max(1e-3, -late))
            except queue.Empty:
                continue
            if request is None:
                break
            if request is not _LOOK_AGAIN:
                _answer(*request)
        value, error = outcome.get()
        if error is not None:
            raise error
        return value
    except KeyboardInterrupt:
        return _interrupted(supervisor, outcome)


def _answer(function: Callable[[Any], Any], argument: Any, answer: Any) -> None:
    try:
        answer.put((function(argument), None))
    except Exception as error:
        answer.put((None, error))
    except BaseException:  # Ctrl-C: the method must not wait for an answer
        answer.put((True, None))
        raise


def _interrupted(supervisor: _Supervisor, outcome: Any) -> Any:
    """Ask the method to stop, wait a moment, and return its result or what it has kept."""
    supervisor.limits.stopped = Status.INTERRUPTED
    try:
        value, error = outcome.get(timeout=INTERRUPT_GRACE)
    except queue.Empty:
        value, error = None, None
    if error is not None and not isinstance(error, KeyboardInterrupt):
        raise error
    if value is not None:
        return value
    if supervisor.run is None:
        raise KeyboardInterrupt
    return supervisor.run.abandoned(Status.INTERRUPTED)

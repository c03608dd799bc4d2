"""Run methods in their own threads, so that time limits and Ctrl-C take effect at once.

A compiled kernel or a BLAS call cannot be interrupted. A method therefore runs in its own thread, while the calling
thread runs callbacks, watches the clock, and returns the best point so far when time is up or Ctrl-C is pressed.
Methods check their :class:`Limits` between slices of work, so most of them stop without being abandoned.
"""

from __future__ import annotations

import functools
import math
import queue
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from counterpoise.clock import working_seconds
from counterpoise.problem import Result, Status

# A method that overruns its time limit by the larger of these, in seconds and as a share of the limit, is abandoned.
GRACE, GRACE_SHARE = 0.03, 0.05
# Seconds that a method gets to stop after Ctrl-C.
INTERRUPT_GRACE = 0.1
# Seconds after which a method that waits for an answer checks whether the caller is still there.
PATIENCE = 0.5

P = ParamSpec("P")
T = TypeVar("T")
_here = threading.local()
_LOOK_AGAIN = object()


class Limits:
    """A time limit and a stop request, shared by a run and everything that it calls.

    Pickling, as for a worker process, keeps only the number of seconds left.
    """

    def __init__(self, max_time: float | None = None, outer: Limits | None = None) -> None:
        self.until = math.inf if max_time is None else working_seconds() + max_time
        self.outer = outer
        self.stopped: Status | None = None

    def reached(self) -> Status | None:
        """Return the status with which to stop, or None."""
        status = self.stopped or (None if self.outer is None else self.outer.reached())
        if status is None and working_seconds() >= self.until:
            status = Status.TIME_LIMIT
        return status

    def left(self) -> float:
        """Return the seconds left, ∞ without a limit."""
        own = max(0.0, self.until - working_seconds())
        return own if self.outer is None else min(own, self.outer.left())

    def __getstate__(self) -> dict[str, Any]:
        return {"left": self.left()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(None if math.isinf(state["left"]) else state["left"])  # type: ignore[misc]


def supervision() -> Supervisor | None:
    """Return the supervisor of the current thread, or None."""
    return getattr(_here, "supervisor", None)


@contextmanager
def under(supervisor: Supervisor | None) -> Iterator[None]:
    """Put the current thread, such as a worker thread of a method, under the given supervisor."""
    before, _here.supervisor = supervision(), supervisor
    try:
        yield
    finally:
        _here.supervisor = before


@contextmanager
def inline() -> Iterator[None]:
    """Run supervised functions in this thread, for work so short that starting a thread would cost as much.

    Ctrl-C then waits for the kernel that is running and raises KeyboardInterrupt; warnings and callbacks are dropped.
    """
    supervisor = Supervisor()
    supervisor.gone = True
    with under(supervisor):
        yield


class Supervisor:
    """Link between a method's thread and the calling thread, which runs callbacks and watches the clock and Ctrl-C."""

    def __init__(self) -> None:
        self.limits = Limits()
        self.run: Any = None  # the outermost run
        self.requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # True once the caller no longer waits for the method.
        self.gone = False

    def attach(self, run: Any) -> None:
        """Register the first :class:`Run` of the method; it contains all others, and its limits apply to them."""
        if self.run is None:
            self.run, self.limits = run, run.limits
            self.requests.put(_LOOK_AGAIN)

    def ask(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function in the supervising thread; return its value, or None if the caller has left."""
        answer: Future[Any] = Future()
        self.requests.put((function, argument, answer))
        while not self.gone:
            if wait([answer], PATIENCE).done:
                return answer.result()
        return None

    def late(self) -> float:
        """Return the seconds since the limit and the grace period ended, negative before; −∞ without a limit."""
        run = self.run
        if run is None or run.max_time is None:
            return -math.inf
        return float(working_seconds() - run.limits.until - max(GRACE, GRACE_SHARE * run.max_time))


def supervised(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function run in its own thread, unless another supervised function calls it.

    A kernel or BLAS call that is running when time is up or Ctrl-C is pressed cannot be stopped. It finishes in the
    background, and the best point so far is returned; a function without a :class:`Run`, such as ``certify``, raises
    KeyboardInterrupt. Callbacks run in the caller's thread.
    """

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        if supervision() is not None:
            return function(*args, **options)
        value: T = _supervise(lambda: function(*args, **options))
        return value

    return call


def _supervise(work: Callable[[], Any]) -> Any:
    supervisor, outcome = Supervisor(), Future[Any]()

    def perform() -> None:
        _here.supervisor = supervisor
        if configured is not None:
            sys.modules["joblib.parallel"]._backend.config = configured
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)
        supervisor.requests.put(None)

    # joblib stores ``parallel_config`` per thread, so it is copied to the new one; nothing to copy if not imported.
    backend = getattr(sys.modules.get("joblib.parallel"), "_backend", None)
    configured = getattr(backend, "config", None)
    if sys.is_finalizing():
        raise RuntimeError("the interpreter is shutting down; call counterpoise before it ends.")
    try:
        threading.Thread(target=perform, name="counterpoise", daemon=True).start()
        while True:
            late = supervisor.late()
            if late >= 0.0:
                return supervisor.run.abandoned(Status.TIME_LIMIT)
            try:
                request = supervisor.requests.get(timeout=None if late == -math.inf else max(1e-3, -late))
            except queue.Empty:
                continue
            if request is None:
                return outcome.result()
            if request is not _LOOK_AGAIN:
                _answer(supervisor, *request)
    except KeyboardInterrupt:
        return _interrupted(supervisor, outcome)
    finally:
        supervisor.gone = True


def _answer(supervisor: Supervisor, function: Callable[[Any], Any], argument: Any, answer: Future[Any]) -> None:
    try:
        answer.set_result(function(argument))
    except Exception as error:
        answer.set_exception(error)
    except BaseException:  # Ctrl-C: the method must not be left waiting for an answer
        supervisor.limits.stopped = Status.INTERRUPTED
        if not answer.done():
            answer.set_result(False)
        raise


def _interrupted(supervisor: Supervisor, outcome: Future[Any]) -> Any:
    """Ask the method to stop, wait briefly, and return its result or the best point that it kept."""
    supervisor.limits.stopped = Status.INTERRUPTED
    value = None
    if wait([outcome], INTERRUPT_GRACE).done:
        with suppress(KeyboardInterrupt):
            value = outcome.result()
    if supervisor.run is None:
        raise KeyboardInterrupt
    if not isinstance(value, Result):
        return supervisor.run.abandoned(Status.INTERRUPTED)
    # Even a method that has just finished reports the interrupt, so that a caller in a loop can stop.
    value.update(status=Status.INTERRUPTED, message=Status.INTERRUPTED.value, success=False)
    return value


def warn(message: str) -> None:
    """Warn from any thread, attributing the warning to the caller outside this package."""
    supervisor = supervision()
    if supervisor is not None:
        supervisor.ask(_warn_here, message)
    else:
        _warn_here(message)


def _warn_here(message: str) -> None:
    package, level, frame = str(Path(__file__).parent), 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)

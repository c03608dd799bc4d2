"""Support for scikit-learn's callbacks, such as its progress bar, if the installed version has them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from counterpoise.checks import Vector
from counterpoise.solvers.run import Progress

Method = TypeVar("Method", bound=Callable[..., Any])
# Called during a fit with the progress and with the finished share, or None if that is unknown.
Listener = Callable[[Progress, float | None], Any]

# Least seconds between two subtasks of a run of unknown length, because scikit-learn stores every subtask.
PAUSE = 0.1

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


class NoContext:
    """A callback context that does nothing, for fits without callbacks."""

    def subcontext(self, **_: Any) -> NoContext:
        """Return itself."""
        return self

    def call_on_fit_task_begin(self, **_: Any) -> NoContext:
        """Do nothing."""
        return self

    def call_on_fit_task_end(self, **_: Any) -> bool:
        """Do nothing, and do not stop."""
        return False


class NoCallbackSupport:
    """A mixin for versions of scikit-learn without callbacks, hence without ``set_callbacks``."""

    def _init_callback_context(self, **_: Any) -> NoContext:
        return NoContext()


CallbackSupport: Any
_with_callbacks: Any
try:
    import sklearn.callback
except ImportError:  # scikit-learn < 1.9
    CallbackSupport, _with_callbacks = NoCallbackSupport, None
else:
    CallbackSupport, _with_callbacks = sklearn.callback.CallbackSupportMixin, sklearn.callback.with_callbacks


def with_callbacks(method: Method) -> Method:
    """Decorate a method so that callbacks are torn down even if it raises."""
    return method if _with_callbacks is None else cast(Method, _with_callbacks(method))


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call ``listener`` with the progress of fits in this thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(progress: Progress, share: float | None) -> None:
    """Report progress to the listener, if any; ``share`` is the finished share, if known."""
    listener = _listener.get()
    if listener is not None:
        listener(progress, share)


class Tasks:
    """A task of a fit and its subtasks, one after the other.

    ``total`` is the maximum number of subtasks, if known; further ones are not reported. ``data`` holds X, y and
    metadata, for callbacks that use them.
    """

    def __init__(self, estimator: Any, context: Any, total: int | None, data: dict[str, Any]) -> None:
        self.estimator, self.context, self.total, self.data = estimator, context, total, data
        self.done = 0
        self.subtask: Any = None
        context.call_on_fit_task_begin(estimator=estimator, **data)

    @classmethod
    def of_fit(cls, estimator: Any, total: int | None, X: Any, y: Any = None, sample_weight: Any = None) -> Tasks:
        """Begin a fit."""
        context = estimator._init_callback_context(max_subtasks=total)
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        return cls(estimator, context, total, {"X": X, "y": y, "metadata": metadata})

    @classmethod
    def silent(cls) -> Tasks:
        """Begin a fit without callbacks."""
        return cls(None, NoContext(), None, {})

    def begin(self, name: str) -> None:
        """Begin the next subtask."""
        if self.total is None or self.done < self.total:
            self.subtask = self.context.subcontext(task_name=name)
            self.subtask.call_on_fit_task_begin(estimator=self.estimator, **self.data)

    def nested(self, name: str) -> Tasks:
        """Begin the next subtask, which has an unknown number of subtasks of its own, and return it."""
        self.subtask = None
        self.done += 1
        return Tasks(self.estimator, self.context.subcontext(task_name=name, max_subtasks=None), None, self.data)

    def end(self, attributes: Callable[[], dict[str, Any]] | None = None) -> bool:
        """End the current subtask, if any; return whether a callback asks to stop.

        ``attributes`` returns the attributes that the estimator would have if the fit ended here.
        """
        if self.subtask is None:
            return False
        subtask, self.subtask = self.subtask, None
        self.done += 1
        return bool(self._end(subtask, attributes))

    def finish(self, fitted: bool = False) -> None:
        """End the task; ``fitted`` says whether the estimator is fitted."""
        self.end()
        self._end(self.context, dict if fitted else None)

    def _end(self, context: Any, attributes: Callable[[], dict[str, Any]] | None) -> Any:
        return context.call_on_fit_task_end(estimator=self.estimator, reconstruction_attributes=attributes, **self.data)

    def follow(self, attributes: Callable[[Vector], dict[str, Any]]) -> Callable[[Progress], bool] | None:
        """Return a run's callback that ends a subtask, a batch, with each report, or None without listeners.

        ``attributes`` maps the best point so far to the attributes of a fitted estimator.
        """
        listener = _listener.get()
        if listener is None and not getattr(self.estimator, "_skl_callbacks", None):
            return None
        self.begin("batch")
        last, stop = time.perf_counter(), False

        def report(progress: Progress) -> bool:
            nonlocal last, stop
            if stop:  # a method may have several stages, each of which must be stopped
                return True
            if self.total is None:
                if time.perf_counter() - last < PAUSE:
                    return False
                last = time.perf_counter()
            stop = self.end(lambda: attributes(progress.x))
            if listener is not None:
                listener(progress, None if self.total is None else self.done / self.total)
            if not stop:
                self.begin("batch")
            return stop

        return report

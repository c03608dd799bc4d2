"""The clock of all runs, which stops while kernels are compiled and while AᵀA is formed for the first time.

This module also tells the user when compiling kernels takes noticeably long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event
from numba.core.caching import NullCache

from counterpoise import compiling

# Seconds of compilation that need no explanation.
UNNOTICED = 1.0


class _Pauses(event.Listener):  # type: ignore[misc]
    """Adds up the time during which any thread pauses the clock, or holds or waits for Numba's compiler lock."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._depth, self._since, self._total = 0, 0.0, 0.0

    def on_start(self, event: object) -> None:
        """Start timing at the outermost pause; overlapping pauses of several threads count once."""
        with self._guard:
            if self._depth == 0:
                self._since = time.perf_counter()
            self._depth += 1

    def on_end(self, event: object) -> None:
        """Add the interval when the last open pause ends."""
        with self._guard:
            self._depth -= 1
            if self._depth == 0:
                self._total += time.perf_counter() - self._since

    def reading(self) -> float:
        with self._guard:
            return (self._since if self._depth else time.perf_counter()) - self._total

    def paused(self) -> float:
        """Return the seconds of all pauses so far."""
        with self._guard:
            return self._total + (time.perf_counter() - self._since if self._depth else 0.0)


class _Compilations(event.Listener):  # type: ignore[misc]
    """Adds up the time spent compiling kernels of this package, and tells the user when it gets noticeable.

    Numba also reports every inner function. Its lock lets one thread compile at a time, so none is needed here.
    """

    def __init__(self) -> None:
        self._outer: Any = None
        self._since, self._total = 0.0, 0.0

    def on_start(self, event: Any) -> None:
        """Record the outermost kernel; at each kernel inside it, check how long it has taken."""
        dispatcher = event.data["dispatcher"]
        if not dispatcher.py_func.__module__.startswith("counterpoise."):
            return
        if self._outer is None:
            self._outer, self._since = dispatcher, time.perf_counter()
        if self._total + time.perf_counter() - self._since > UNNOTICED:
            compiling.tell(cached=not isinstance(self._outer._cache, NullCache))

    def on_end(self, event: Any) -> None:
        """Add the time of the outermost kernel."""
        if event.data["dispatcher"] is self._outer:
            self._total += time.perf_counter() - self._since
            self._outer = None


_pauses = _Pauses()
event.register("numba:compiler_lock", _pauses)
event.register("numba:compile", _Compilations())


def working_seconds() -> float:
    """Return seconds since some fixed moment, excluding compilation and the first computation of AᵀA.

    A limit such as ``max_time=1`` thus means the same on the first call after installation, which compiles, as on the
    second. Only differences between two readings are meaningful.
    """
    return _pauses.reading()


def paused_seconds() -> float:
    """Return the seconds that :func:`working_seconds` has left out so far."""
    return _pauses.paused()


@contextmanager
def paused() -> Iterator[None]:
    """Stop the clock."""
    _pauses.on_start(None)
    try:
        yield
    finally:
        _pauses.on_end(None)

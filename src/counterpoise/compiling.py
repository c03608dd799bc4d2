"""Tell users, once per process, that kernels are being compiled; this module does not import Numba."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Approximate compile time of a tracker's first fit, measured by benchmarks/startup.py.
SECONDS = 10

logger = logging.getLogger("counterpoise")
_listeners: list[Callable[[str], object]] = []
_told: list[bool] = []


def tell(cached: bool) -> None:
    """Announce that kernels are being compiled, once per process and never in a worker process.

    Without a listener the message is a logged warning, which Python prints to stderr if logging is not configured; to
    silence it, use ``logging.getLogger("counterpoise").setLevel("ERROR")``. If the machine code is ``cached`` on disk,
    the next process need not compile.
    """
    if _told or multiprocessing.current_process().name != "MainProcess":
        return
    _told.append(True)
    often = "once per installation" if cached else "in every process (NUMBA_CACHE_DIR is not set to a folder for them)"
    if _listeners:
        _listeners[-1](f"Compiling, {often}: about {SECONDS} s")
    else:
        logger.warning("counterpoise is compiling its kernels, %s: about %s s.", often, SECONDS)


@contextmanager
def listening(listener: Callable[[str], object]) -> Iterator[None]:
    """Pass the message to ``listener`` instead of logging it."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)

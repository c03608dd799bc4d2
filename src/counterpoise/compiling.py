"""The sentence that tells users, once a process, why the first result takes long; Numba is not needed to listen."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Roughly what the first fit of a tracker compiles for, by benchmarks/startup.py.
SECONDS = 10

logger = logging.getLogger("counterpoise")
_listeners: list[Callable[[str], object]] = []
_told: list[bool] = []


def tell(cached: bool) -> None:
    """Say that kernels are being compiled, unless that was said before or by the parent of this process.

    Without a listener it is a logged warning, which Python prints to stderr if logging is not configured; to silence
    it, use ``logging.getLogger("counterpoise").setLevel("ERROR")``.

    Parameters
    ----------
    cached : bool
        Whether the machine code is kept on disk, so that the next process need not compile.
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
    """Call ``listener`` with the sentence instead of logging it."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)

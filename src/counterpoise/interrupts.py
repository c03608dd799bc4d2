"""Record Ctrl-C: a method catches it to return its best point, and callers of several methods must know of it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def noting_interrupts(pressed: list[int] | None = None, delayed: bool = False) -> Iterator[list[int]]:
    """Record Ctrl-C in a list, a new one by default, and pass it on: at once, or if ``delayed`` at the block's end.

    Outside the main thread, where Python delivers no signals, the list stays empty.
    """
    pressed = [] if pressed is None else pressed
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield pressed
        return

    def note(number: int, frame: Any) -> None:
        pressed.append(number)
        if not delayed:
            before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
        if delayed and pressed:
            signal.raise_signal(signal.SIGINT)

"""Ctrl-C, noted: methods catch it to return their best so far, and whoever calls several of them must know."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def noting_interrupts() -> Iterator[list[int]]:
    """Take note of Ctrl-C in a list that is empty until then, and pass it on.

    Outside the main thread, where Python delivers no signals, the list stays empty.
    """
    pressed: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield pressed
        return

    def note(number: int, frame: Any) -> None:
        pressed.append(number)
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)

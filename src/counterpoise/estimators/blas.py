"""Run small BLAS products in one thread: further threads would spend most of their time busy-waiting."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from threadpoolctl import ThreadpoolController

# Products with more multiplications than this are worth several threads.
SINGLE = 250_000_000


def single_thread(amount: int = 0) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread, unless ``amount`` exceeds SINGLE multiplications."""
    return nullcontext() if amount > SINGLE else _libraries().limit(limits=1, user_api="blas")


@functools.cache
def _libraries() -> ThreadpoolController:
    """Return the BLAS libraries of this process; cached, because finding them takes some milliseconds."""
    return ThreadpoolController()

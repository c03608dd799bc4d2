"""Small products in one thread of BLAS: a second one would wait for work, at full load, longer than it works."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from threadpoolctl import ThreadpoolController

# Products of more multiplications are worth several threads.
SINGLE = 250_000_000


def single_thread(amount: int = 0) -> AbstractContextManager[Any]:
    """Let BLAS use one thread, unless products take more than SINGLE multiplications."""
    return nullcontext() if amount > SINGLE else _libraries().limit(limits=1, user_api="blas")


@functools.cache
def _libraries() -> ThreadpoolController:
    """Return the BLAS libraries of this process, which take some milliseconds to find."""
    return ThreadpoolController()

"""Creating and filling arrays, min and max, compiled once for all kernels.

Numba compiles ``np.empty``, ``max`` and similar functions again for most of the functions that call them.
"""

from __future__ import annotations

import numpy as np

from counterpoise.kernels.dispatch import allocating, kernel


@allocating
def reals(n):
    """Return n zeros."""
    out = np.empty(n)
    for i in range(n):
        out[i] = 0.0
    return out


@allocating
def table(m, n):
    """Return m × n zeros."""
    out = np.empty((m, n))
    for i in range(m):
        for j in range(n):
            out[i, j] = 0.0
    return out


@allocating
def integers(n):
    """Return n integer zeros."""
    out = np.empty(n, np.int64)
    for i in range(n):
        out[i] = 0
    return out


@allocating
def flags(n, value):
    """Return n copies of True or of False."""
    out = np.empty(n, np.bool_)
    for i in range(n):
        out[i] = value
    return out


@allocating
def copied(values):
    """Return a copy of a one-dimensional array."""
    out = np.empty(len(values), values.dtype)
    for i in range(len(values)):
        out[i] = values[i]
    return out


@kernel
def fill(values, value):
    """Set all entries of a one-dimensional array to a number."""
    for i in range(len(values)):
        values[i] = value


@kernel
def assign(values, out):
    """Copy a one-dimensional array into another."""
    for i in range(len(values)):
        out[i] = values[i]


@kernel
def larger(a, b):
    """Return max(a, b)."""
    return b if b > a else a


@kernel
def smaller(a, b):
    """Return min(a, b)."""
    return b if b < a else a

"""Creating and filling arrays, min and max, compiled once for all kernels.

Numba compiles ``np.empty``, ``max`` and similar functions again for most of the functions that call them.
"""

import numpy as np

from counterpoise.kernels.dispatch import allocating, kernel


@kernel
def fill(values, value):
    """Set all entries of a one-dimensional array to a number."""
    for i in range(len(values)):
        values[i] = value


@kernel
def assign(values, out):
    """Copy a one-dimensional array into another, or into its first entries."""
    for i in range(len(values)):
        out[i] = values[i]


@allocating
def reals(n):
    """Return n zeros."""
    out = np.empty(n)
    fill(out, 0.0)
    return out


@allocating
def table(m, n):
    """Return m × n zeros."""
    out = np.empty((m, n))
    for i in range(m):
        fill(out[i], 0.0)
    return out


@allocating
def integers(n):
    """Return n integer zeros."""
    out = np.empty(n, np.int64)
    fill(out, 0)
    return out


@allocating
def flags(n, value):
    """Return n copies of True or of False."""
    out = np.empty(n, np.bool_)
    fill(out, value)
    return out


@allocating
def copied(values):
    """Return a copy of a one-dimensional array."""
    out = np.empty(len(values), values.dtype)
    assign(values, out)
    return out


@kernel
def axpy(weight, values, out):
    """Add ``weight`` times a one-dimensional array to another, or to its first entries."""
    for i in range(len(values)):
        out[i] += weight * values[i]


@kernel
def plus_dot(total, a, b):
    """Return total + aᵀb, in double precision and added from left to right; b may be longer than a."""
    for i in range(len(a)):
        # A product of two numbers in single precision would be rounded to single precision.
        total += np.float64(a[i]) * b[i]
    return total


@kernel
def less_dot(total, a, b):
    """Return total − aᵀb, subtracted from left to right; b may be longer than a."""
    for i in range(len(a)):
        total -= a[i] * b[i]
    return total


@kernel
def find(i, values, m):
    """Return the first place of i among the first m values, −1 if it is not there."""
    for a in range(m):
        if values[a] == i:
            return a
    return -1


@kernel
def larger(a, b):
    """Return max(a, b)."""
    return b if b > a else a


@kernel
def smaller(a, b):
    """Return min(a, b)."""
    return b if b < a else a

"""Products with sparse columns, in double precision whatever the data's own, without a copy of them.

SciPy would cast all data first, and take a copy of every slice.
"""

from __future__ import annotations

import numpy as np

from counterpoise.kernels.dispatch import entry_point


@entry_point
def column_products(data, indices, indptr, which, dense, out):
    """Write AₖᵀD into one row of ``out`` for each column k in ``which``."""
    width = dense.shape[1]
    for row in range(len(which)):
        for c in range(width):
            out[row, c] = 0.0
        for position in range(indptr[which[row]], indptr[which[row] + 1]):
            value, r = np.float64(data[position]), indices[position]
            for c in range(width):
                out[row, c] += value * dense[r, c]


@entry_point
def spread_columns(data, indices, indptr, which, out):
    """Write the columns in ``which`` into those of ``out``, which is 0."""
    for c in range(len(which)):
        for position in range(indptr[which[c]], indptr[which[c] + 1]):
            out[indices[position], c] = data[position]


@entry_point
def column_squares(data, indptr, out):
    """Write ‖Aₖ‖² of every column."""
    for k in range(len(out)):
        total = 0.0
        for position in range(indptr[k], indptr[k + 1]):
            value = np.float64(data[position])
            total += value * value
        out[k] = total


@entry_point
def add_columns(data, indices, indptr, x, out):
    """Add Ax to ``out``."""
    for k in range(len(x)):
        if x[k] != 0.0:
            for position in range(indptr[k], indptr[k + 1]):
                out[indices[position]] += x[k] * np.float64(data[position])

"""f in kernels: a quadratic stored as its Gram matrix, dense or sparse, or as columns with a residual.

Each form carries the data of f and state that is updated with x: the gradient (:class:`Gram`, :class:`SparseGram`) or
the residual Ax − y (:class:`Columns`, :class:`SparseColumns`). An update costs O(n), O(m) or the number of non-zeros of
two rows or columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterpoise.kernels.basics import assign, axpy, fill, plus_dot
from counterpoise.kernels.dispatch import entry_point, implements, verb


class Gram(NamedTuple):
    """f(x) = ½xᵀQx + pᵀx with its gradient Qx + p kept up to date."""

    Q: np.ndarray
    p: np.ndarray
    diagonal: np.ndarray
    gradient: np.ndarray


class SparseGram(NamedTuple):
    """f(x) = ½xᵀQx + pᵀx with Q in CSR format: a step costs as much as two rows have non-zeros."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    p: np.ndarray
    diagonal: np.ndarray
    gradient: np.ndarray
    Q: np.ndarray  # one row
    shown: np.ndarray  # the number of that row, whose entries are the only non-zeros of ``Q``


class Columns(NamedTuple):
    """f(x) = ½σ‖Ax − y‖² with dense columns (the rows of ``AT``) and the residual kept up to date."""

    AT: np.ndarray
    y: np.ndarray
    scale: float
    diagonal: np.ndarray
    residual: np.ndarray
    Q: np.ndarray  # one row
    gradient: np.ndarray


class SparseColumns(NamedTuple):
    """f(x) = ½σ‖Ax − y‖² with A in CSC format and the residual kept up to date."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    y: np.ndarray
    scale: float
    diagonal: np.ndarray
    residual: np.ndarray
    Q: np.ndarray  # one row
    gradient: np.ndarray
    column: np.ndarray  # one dense column of A, all zero between calls


@verb
def load(term, x):
    """Rebuild the cached state of a term from x; by default there is none."""


@verb
def moved(term, i, di, j, dj):
    """Update the cached state of f after x + di·eᵢ + dj·eⱼ."""


@verb
def slope(f, i):
    """Return ∇ᵢf(x)."""
    return f.gradient[i]


@verb
def load_slopes(f):
    """Set ``f.gradient`` to ∇f(x); it is valid until the next step."""


@verb
def curvature(f, i, j):
    """Return Q_ij."""
    return f.Q[i, j]


@verb
def load_row(f, j):
    """Load the row Q_j into ``f.Q`` and return its position there; it is valid until the next verb."""
    return j


@verb
def add_line(f, i, weight, out):
    """Add a multiple of line i, a row of Q or a column of A, to ``out``."""
    for k in range(f.indptr[i], f.indptr[i + 1]):
        out[f.indices[k]] += weight * f.data[k]


@implements(add_line, Gram)
def _add_row(f, i, weight, out):
    axpy(weight, f.Q[i], out)


@implements(add_line, Columns)
def _add_column(f, i, weight, out):
    axpy(weight, f.AT[i], out)


@verb
def column_dot(f, i, dense):
    """Return Aᵢᵀ times a dense vector, in double precision also for single-precision data."""
    total = 0.0
    for k in range(f.indptr[i], f.indptr[i + 1]):
        total += f.data[k] * dense[f.indices[k]]
    return total


@implements(column_dot, Columns)
def _dense_column_dot(f, i, dense):
    return plus_dot(0.0, f.AT[i], dense)


@implements(load, Gram, SparseGram)
def _load_gradient(f, x):
    assign(f.p, f.gradient)
    for i in range(len(x)):
        if x[i] != 0.0:
            add_line(f, i, x[i], f.gradient)


@implements(load, Columns, SparseColumns)
def _load_residual(f, x):
    for r in range(len(f.residual)):
        f.residual[r] = -f.y[r]
    for i in range(len(x)):
        if x[i] != 0.0:
            add_line(f, i, x[i], f.residual)


@implements(moved, Gram)
def _moved_gram(f, i, di, j, dj):
    for k in range(len(f.gradient)):
        f.gradient[k] += di * f.Q[i, k] + dj * f.Q[j, k]


@implements(moved, Columns)
def _moved_columns(f, i, di, j, dj):
    for r in range(len(f.residual)):
        f.residual[r] += di * f.AT[i, r] + dj * f.AT[j, r]


@implements(moved, SparseGram)
def _moved_sparse_gram(f, i, di, j, dj):
    add_line(f, i, di, f.gradient)
    add_line(f, j, dj, f.gradient)


@implements(moved, SparseColumns)
def _moved_sparse_columns(f, i, di, j, dj):
    add_line(f, i, di, f.residual)
    add_line(f, j, dj, f.residual)


@implements(slope, Columns, SparseColumns)
def _slope_columns(f, i):
    return f.scale * column_dot(f, i, f.residual)


@implements(load_slopes, Columns, SparseColumns)
def _load_slopes_columns(f):
    for i in range(len(f.gradient)):
        f.gradient[i] = f.scale * column_dot(f, i, f.residual)


@implements(curvature, Columns)
def _curvature_columns(f, i, j):
    return f.diagonal[i] if i == j else f.scale * column_dot(f, i, f.AT[j])


@implements(load_row, Columns)
def _load_row_columns(f, j):
    for i in range(len(f.diagonal)):
        f.Q[0, i] = f.scale * column_dot(f, i, f.AT[j])
    return 0


@implements(curvature, SparseGram)
def _curvature_sparse_gram(f, i, j):
    # The indices of a row are sorted.
    low, high = f.indptr[i], f.indptr[i + 1]
    while low < high:
        middle = (low + high) // 2
        if f.indices[middle] < j:
            low = middle + 1
        else:
            high = middle
    return f.data[low] if low < f.indptr[i + 1] and f.indices[low] == j else 0.0


@implements(load_row, SparseGram)
def _load_row_sparse_gram(f, j):
    before = f.shown[0]
    if before >= 0:
        for k in range(f.indptr[before], f.indptr[before + 1]):
            f.Q[0, f.indices[k]] = 0.0
    add_line(f, j, 1.0, f.Q[0])
    f.shown[0] = j
    return 0


@implements(curvature, SparseColumns)
def _curvature_sparse(f, i, j):
    # Both index lists are sorted, so they are merged.
    a, a_end, b, b_end = f.indptr[i], f.indptr[i + 1], f.indptr[j], f.indptr[j + 1]
    total = 0.0
    while a < a_end and b < b_end:
        if f.indices[a] == f.indices[b]:
            total += np.float64(f.data[a]) * f.data[b]
            a += 1
            b += 1
        elif f.indices[a] < f.indices[b]:
            a += 1
        else:
            b += 1
    return f.scale * total


@implements(load_row, SparseColumns)
def _load_row_sparse(f, j):
    add_line(f, j, 1.0, f.column)
    for i in range(len(f.diagonal)):
        f.Q[0, i] = f.scale * column_dot(f, i, f.column)
    for k in range(f.indptr[j], f.indptr[j + 1]):
        f.column[f.indices[k]] = 0.0
    return 0


@entry_point
def column_products(data, indices, indptr, which, dense, out):
    """Write AₖᵀD into one row of ``out`` for each column k in ``which`` of a sparse A.

    It computes in double precision even for single-precision data; SciPy would cast all data and copy every slice.
    """
    width = dense.shape[1]
    for row in range(len(which)):
        fill(out[row], 0.0)
        for position in range(indptr[which[row]], indptr[which[row] + 1]):
            value, r = np.float64(data[position]), indices[position]
            for c in range(width):
                out[row, c] += value * dense[r, c]

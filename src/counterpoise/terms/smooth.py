"""f: quadratic functions, given by data or by a matrix."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from counterpoise.checks import (
    LARGEST_SQUARE,
    SMALLEST_SQUARE,
    Vector,
    is_sparse,
    largest_entry,
    matrix,
    number,
    real_array,
    refuse_extreme,
    spread,
    vector,
)
from counterpoise.clock import paused
from counterpoise.kernels.columns import add_columns, column_products, column_squares
from counterpoise.kernels.smooth import Columns, Gram, SparseColumns, SparseGram

GRAM_LIMIT = 6000
# A sparse AᵀA is kept if no more products than this form it.
SPARSE_GRAM_LIMIT = 20_000_000
# A scale between these leaves the squares of any data within range.
USUAL_SCALE = 1e-10, 1e10
# Columns at a time where all are gone through.
BLOCK = 8192
# Entries at a time where all are counted.
COUNTED = 1_000_000
# A matrix whose eigenvalues are above minus this share of its norm is semidefinite.
SEMIDEFINITE = 1e-13


class LeastSquares:
    """f(x) = ½σ‖Ax − y‖².

    Parameters
    ----------
    A : array or SciPy sparse matrix, m × n
        Dense data may be float32 and stay so where no Gram matrix is used.
    y : array of length m, or a number
    scale : float
        σ; −1 with y = 0 gives −½‖Ax‖², the negative variance of non-negative sparse PCA.
    gram : bool, optional
        Whether kernels keep AᵀA: an accepted step then costs O(n), otherwise the O(m) of its columns. By default up to
        6000 columns; beyond that AᵀA is kept sparse if A is and the product is small, as for graphs and counts of few
        words, and a step costs the neighbours of its coordinates.
    """

    is_known = True

    def __init__(self, A: Any, y: Any = 0.0, scale: float = 1.0, gram: bool | None = None) -> None:
        self.A = matrix(A, "A")
        self.m, self.n = self.A.shape
        self.y = spread(y, "y", self.m)
        refuse_extreme(self.y, "y")
        self.scale = number(scale, "scale")
        if self.scale == 0.0:
            raise ValueError("scale is 0, which leaves no f; use a positive or negative scale.")
        if not USUAL_SCALE[0] <= abs(self.scale) <= USUAL_SCALE[1]:
            _refuse_scale(self)
        self.gram = self.n <= GRAM_LIMIT if gram is None else bool(gram)
        self.may_keep_sparse = gram is None and not self.gram and is_sparse(self.A)

    def blocks(self) -> Iterator[tuple[int, int, Any]]:
        """Yield (first, last, columns) in double precision, some thousand at a time, so that no large copy is made."""
        for first in range(0, self.n, BLOCK):
            last = min(first + BLOCK, self.n)
            block = self.A[:, first:last]
            yield first, last, block.toarray() if is_sparse(block) else block.astype(np.float64, copy=False)

    def each_block(self, do: Callable[[int, int], None]) -> None:
        """Call ``do(first, last)`` for all columns, some thousand at a time, with one thread a core."""
        ends = [(first, min(first + BLOCK, self.n)) for first in range(0, self.n, BLOCK)]
        if len(ends) == 1:
            do(*ends[0])
            return
        with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(os.cpu_count()) as threads:
            for _ in threads.map(lambda both: do(*both), ends):
                pass

    def residual(self, x: Vector) -> Vector:
        """Return Ax − y, from the columns that x holds if they are few."""
        held = np.flatnonzero(x)
        if 8 * len(held) <= self.n:
            product = np.asarray(self.A[:, held].astype(np.float64) @ x[held], dtype=np.float64)
        elif self.A.dtype == np.float32 and is_sparse(self.A):
            product = np.zeros(self.m)
            add_columns(self.A.data, self.A.indices, self.A.indptr, x, product)
        elif self.A.dtype == np.float32:
            product = np.zeros(self.m)
            for first, last, block in self.blocks():
                product += block @ x[first:last]
        else:
            product = np.asarray(self.A @ x, dtype=np.float64)
        return product - self.y

    def value(self, x: Vector) -> float:
        """Return ½σ‖Ax − y‖²."""
        r = self.residual(x)
        return 0.5 * self.scale * float(r @ r)

    def gradient(self, x: Vector) -> Vector:
        """Return σAᵀ(Ax − y)."""
        r = self.residual(x)
        if self.A.dtype == np.float32 and is_sparse(self.A):
            products = np.empty((self.n, 1))
            column_products(self.A.data, self.A.indices, self.A.indptr, np.arange(self.n), r[:, None], products)
            return self.scale * products[:, 0]
        if self.A.dtype == np.float32:
            out = np.empty(self.n)

            def multiply(first: int, last: int) -> None:
                out[first:last] = self.scale * (r @ self.A[:, first:last].astype(np.float64))

            self.each_block(multiply)
            return out
        return self.scale * np.asarray(self.A.T @ r, dtype=np.float64)

    @cached_property
    def value_at_zero(self) -> float:
        """f(0) = ½σ‖y‖²."""
        return 0.5 * self.scale * float(self.y @ self.y)

    @property
    def is_convex(self) -> bool:
        """Whether f is convex: σ > 0."""
        return self.scale > 0.0

    @property
    def is_concave(self) -> bool:
        """Whether f is concave: σ < 0."""
        return self.scale < 0.0

    @cached_property
    def reach(self) -> Vector:
        """Numbers wᵢ with |Q_ij| ≤ wᵢwⱼ: the lengths of the columns, times √|σ|."""
        lengths: Vector = np.sqrt(np.abs(self.diagonal))
        return lengths

    def size(self, x: Vector) -> float:
        """Return a bound of the sum of the magnitudes of all that f(x) adds up: ½(Σwᵢ|xᵢ| + √|σ|‖y‖)²."""
        along = float(self.reach @ np.abs(x)) + math.sqrt(2.0 * abs(self.value_at_zero))
        return 0.5 * along * along

    def hessian(self, members: Any) -> Vector:
        """Return the rows and columns of Q that belong to ``members``, without the rest of Q if it is not kept."""
        if self.gram:
            return np.ascontiguousarray(self.Q[np.ix_(members, members)])
        columns = self.A[:, members].astype(np.float64)
        product = columns.T @ columns
        return self.scale * np.ascontiguousarray(product.toarray() if is_sparse(product) else product)

    @cached_property
    def Q(self) -> Vector:
        """The Hessian σAᵀA, dense; the clock of runs stands still while it is formed."""
        needed, free = 8.0 * self.n * self.n, _free_memory()
        if needed > free:
            raise ValueError(
                f"AᵀA of {self.n} columns takes {needed / 1e9:.3g} GB, but {free / 1e9:.3g} GB are free; use fewer "
                "columns, or method 'bcd-g' with LeastSquares(…, gram=False), which works by columns."
            )
        with paused():
            if is_sparse(self.A):
                A = self.A.astype(np.float64)
                return self.scale * np.ascontiguousarray((A.T @ A).toarray())
            A = np.asarray(self.A, dtype=np.float64)
            return self.scale * np.ascontiguousarray(A.T @ A)

    @cached_property
    def p(self) -> Vector:
        """The gradient at 0, −σAᵀy."""
        return self.gradient(np.zeros(self.n))

    @cached_property
    def diagonal(self) -> Vector:
        """The squared column norms times σ."""
        if is_sparse(self.A):
            squares = np.empty(self.n)
            column_squares(self.A.data, self.A.indptr, squares)
        else:
            squares = np.empty(self.n)

            def square(first: int, last: int) -> None:
                block = self.A[:, first:last]
                squares[first:last] = np.einsum("ij,ij->j", block, block, dtype=np.float64)

            self.each_block(square)
        return np.asarray(self.scale * squares, dtype=np.float64)

    @cached_property
    def sparse_Q(self) -> Any:
        """The Hessian in compressed sparse rows, or None where it is not kept."""
        if not self.may_keep_sparse:
            return None
        # In parts, because bincount makes a wider copy of what it counts.
        parts = np.array_split(self.A.indices, 1 + self.A.nnz // COUNTED)
        products: Vector = np.sum([np.bincount(part, minlength=self.m) for part in parts], axis=0, dtype=np.float64)
        if float(products @ products) > SPARSE_GRAM_LIMIT:
            return None
        A = self.A.astype(np.float64)
        Q = (self.scale * (A.T @ A)).tocsr()
        Q.sort_indices()
        return Q

    def kernel(self) -> Gram | SparseGram | Columns | SparseColumns:
        """Return f for kernels, with moving parts of its own."""
        if self.gram:
            return Gram(self.Q, self.p, np.ascontiguousarray(np.diag(self.Q)), np.empty(self.n))
        if self.sparse_Q is not None:
            Q = self.sparse_Q
            rows = Q.data, Q.indices.astype(np.int64), Q.indptr.astype(np.int64)
            moving = {"gradient": np.empty(self.n), "Q": np.zeros((1, self.n)), "shown": np.array([-1])}
            return SparseGram(*rows, self.p, self.diagonal, **moving)
        moving = {"residual": np.empty(self.m), "Q": np.empty((1, self.n)), "gradient": np.empty(self.n)}
        if is_sparse(self.A):
            indices = self.A.indices.astype(np.int64), self.A.indptr.astype(np.int64)
            return SparseColumns(
                self.A.data, *indices, self.y, self.scale, self.diagonal, **moving, column=np.zeros(self.m)
            )
        return Columns(np.ascontiguousarray(self.A.T), self.y, self.scale, self.diagonal, **moving)


def _refuse_scale(f: LeastSquares) -> None:
    """Refuse a scale that brings the squares of the data to the ends of double precision."""
    size = max(largest_entry(f.A.data if is_sparse(f.A) else f.A), largest_entry(f.y))
    if size > 0.0 and not SMALLEST_SQUARE <= abs(f.scale) * size**2 <= LARGEST_SQUARE:
        raise ValueError(
            f"scale is {f.scale:g}, which makes the squares of the data as {'large' if abs(f.scale) > 1 else 'small'} "
            f"as {abs(f.scale) * size**2:.3g}; rescale the data instead."
        )


def _free_memory() -> float:
    """Return the bytes that this machine can still give, ∞ where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(1024.0 * float(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return math.inf


class Quadratic:
    """f(x) = ½xᵀQx + pᵀx with a symmetric Q, definite or not.

    Parameters
    ----------
    Q : array, n × n
    p : array of length n, or a number
    """

    is_known = True
    value_at_zero = 0.0

    def __init__(self, Q: Any, p: Any = 0.0) -> None:
        Q = np.array(real_array(Q, "Q"), dtype=np.float64, order="C")
        if Q.ndim != 2 or Q.shape[0] != Q.shape[1]:
            raise ValueError(f"Q has shape {Q.shape}; it must be square.")
        if Q.shape[0] < 2:
            raise ValueError(f"Q is {Q.shape[0]} × {Q.shape[0]}; a pair step needs at least two coordinates.")
        refuse_extreme(Q, "Q", LARGEST_SQUARE, SMALLEST_SQUARE)
        asymmetry = float(np.abs(Q - Q.T).max())
        if asymmetry > 1e-10 * float(np.abs(Q).max()):
            raise ValueError(f"Q differs from its transpose by {asymmetry:g}; give ½(Q + Qᵀ).")
        self.Q = 0.5 * (Q + Q.T)
        self.n = Q.shape[0]
        self.p = spread(p, "p", self.n)
        refuse_extreme(self.p, "p", LARGEST_SQUARE)
        self.diagonal = np.ascontiguousarray(np.diag(self.Q))

    def value(self, x: Vector) -> float:
        """Return ½xᵀQx + pᵀx."""
        return float(0.5 * x @ (self.Q @ x) + self.p @ x)

    def gradient(self, x: Vector) -> Vector:
        """Return Qx + p."""
        return vector(self.Q @ x + self.p, "the gradient", self.n)

    @cached_property
    def is_convex(self) -> bool:
        """Whether Q has no eigenvalue below rounding, by Cholesky."""
        if float(self.diagonal.min()) < 0.0:
            return False
        with paused():
            raised = self.Q.copy()
            raised[np.diag_indices(self.n)] += SEMIDEFINITE * max(float(np.abs(self.Q).sum(axis=1).max()), 1e-300)
            try:
                np.linalg.cholesky(raised)
            except np.linalg.LinAlgError:
                return False
        return True

    @cached_property
    def is_concave(self) -> bool:
        """Whether Q has no eigenvalue above rounding."""
        return Quadratic(-self.Q).is_convex

    @cached_property
    def reach(self) -> Vector:
        """Numbers wᵢ with |Q_ij| ≤ wᵢwⱼ: the roots of the largest entries of the rows."""
        roots: Vector = np.sqrt(np.abs(self.Q).max(axis=1))
        return roots

    def size(self, x: Vector) -> float:
        """Return a bound of the sum of the magnitudes of all that f(x) adds up."""
        along = float(self.reach @ np.abs(x))
        return 0.5 * along * along + float(np.abs(self.p) @ np.abs(x))

    def hessian(self, members: Any) -> Vector:
        """Return the rows and columns of Q that belong to ``members``."""
        return np.ascontiguousarray(self.Q[np.ix_(members, members)])

    def kernel(self) -> Gram:
        """Return f for kernels, with a gradient of its own."""
        return Gram(self.Q, self.p, self.diagonal, np.empty(self.n))

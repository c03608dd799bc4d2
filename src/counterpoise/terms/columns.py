"""Functions of z = Ax − y: the products with A that they share, for dense, float32 and sparse data."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, Self

import numpy as np
from threadpoolctl import threadpool_limits

from counterpoise.checks import (
    LARGEST_SQUARE,
    SMALLEST_SQUARE,
    Vector,
    is_sparse,
    largest_entry,
    matrix,
    refuse_extreme,
    spread,
)
from counterpoise.kernels.smooth import column_products

GRAM_LIMIT = 6000
# Columns per block in loops over all columns.
BLOCK = 8192


class DataTerm:
    """A function of z = Ax − y with row weights vₜ ≥ 0; ``weights`` is None if all are 1."""

    def _take_data(self, A: Any, y: Any, weights: Any, gram: bool | None) -> None:
        self.A = matrix(A, "A")
        self.m, self.n = self.A.shape
        self.y = spread(y, "y", self.m)
        refuse_extreme(self.y, "y")
        self.weights = None if weights is None else _row_weights(weights, self.m)
        self.gram = self.n <= GRAM_LIMIT if gram is None else bool(gram)

    def refuse_extreme_squares(self, factor: float, name: str) -> None:
        """Refuse a factor of f, or weights, that bring the squares of the data to the ends of double precision."""
        weight = 1.0 if self.weights is None else largest_entry(self.weights)
        most = abs(factor) * weight
        if _is_usual(most) or most == 0.0:
            return
        size = max(largest_entry(self.A.data if is_sparse(self.A) else self.A), largest_entry(self.y))
        if size > 0.0 and not SMALLEST_SQUARE <= most * size**2 <= LARGEST_SQUARE:
            named = f"{name} is {factor:g}" if self.weights is None else f"{name} times the largest weight is {most:g}"
            raise ValueError(
                f"{f'the largest weight is {weight:g}' if _is_usual(abs(factor)) else named}, which makes the squares "
                f"of the data as {'large' if most > 1 else 'small'} as {most * size**2:.3g}; rescale the data instead."
            )

    def scaled(self, d: Vector) -> Self:
        """Return the function of z = A·diag(d)x − y, in double precision.

        In single precision the columns would be rounded, and claims would be about another function.
        """
        other = self._anew()
        other.A = self.A.multiply(d[None, :]).tocsc() if is_sparse(self.A) else self.A * d
        return other

    def _anew(self) -> Self:
        """Return a shallow copy without the cached values computed from A, y and the weights."""
        other = copy.copy(self)
        for name in [name for name in vars(self) if isinstance(getattr(type(self), name, None), cached_property)]:
            del other.__dict__[name]
        return other

    @property
    def cost(self) -> int:
        """The number of entries that a gradient reads: twice the stored entries of A."""
        return 2 * (int(self.A.nnz) if is_sparse(self.A) else self.m * self.n)

    def each_block(self, do: Callable[[int, int], None]) -> None:
        """Call ``do(first, last)`` for blocks of columns until all are done, with one thread per core."""
        ends = [(first, min(first + BLOCK, self.n)) for first in range(0, self.n, BLOCK)]
        if len(ends) == 1:
            do(*ends[0])
            return
        with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(os.cpu_count()) as threads:
            for _ in threads.map(lambda both: do(*both), ends):
                pass

    def residual(self, x: Vector) -> Vector:
        """Return Ax − y, using only the columns of the non-zeros of x if these are few."""
        held = np.flatnonzero(x)
        if 8 * len(held) <= self.n:
            product = np.asarray(self.A[:, held].astype(np.float64) @ x[held], dtype=np.float64)
        elif self.A.dtype == np.float32:  # in blocks, because a product with all of A would copy it to double precision
            product = np.zeros(self.m)
            for first in range(0, self.n, BLOCK):
                part = slice(first, first + BLOCK)
                product += self.A[:, part].astype(np.float64) @ x[part]
        else:
            product = np.asarray(self.A @ x, dtype=np.float64)
        return product - self.y

    def transposed(self, r: Vector) -> Vector:
        """Return Aᵀr in double precision."""
        if self.A.dtype == np.float32 and is_sparse(self.A):
            return self.products(slice(None), r[:, None])[:, 0]
        if self.A.dtype == np.float32:
            out = np.empty(self.n)

            def multiply(first: int, last: int) -> None:
                out[first:last] = r @ self.A[:, first:last].astype(np.float64)

            self.each_block(multiply)
            return out
        return np.asarray(self.A.T @ r, dtype=np.float64)

    def dense(self, which: Any) -> Vector:
        """Return the given columns, dense and in double precision."""
        columns = self.A[:, which]
        return np.asarray(columns.toarray() if is_sparse(columns) else columns, dtype=np.float64)

    def products(self, which: Any, D: Vector) -> Vector:
        """Return the rows of AᵀD for the given columns of A, in double precision."""
        if not is_sparse(self.A):  # DᵀA takes half the time of AᵀD
            return np.asarray((D.T @ self.A[:, which].astype(np.float64, copy=False)).T)
        which = np.arange(self.n)[which]
        out = np.empty((len(which), D.shape[1]))
        column_products(self.A.data, self.A.indices, self.A.indptr, which, np.ascontiguousarray(D), out)
        return out

    def weighted(self, r: Vector) -> Vector:
        """Return v∘r."""
        return r if self.weights is None else self.weights * r

    def squares(self) -> Vector:
        """Return Σₜ vₜaₜᵢ² for every column i."""
        squares = np.empty(self.n)

        def square(first: int, last: int) -> None:
            block = self.A[:, first:last]
            if is_sparse(block):
                squares[first:last] = self.rooted(block).astype(np.float64).power(2).T @ np.ones(self.m)
            elif self.weights is None:
                squares[first:last] = np.einsum("ij,ij->j", block, block, dtype=np.float64)
            else:
                squares[first:last] = self.weights @ (block * block.astype(np.float64, copy=False))

        self.each_block(square)
        return squares

    def rooted(self, columns: Any) -> Any:
        """Return columns with row t multiplied by √vₜ, in double precision; unchanged if there are no weights."""
        if self.weights is None:
            return columns
        roots = np.sqrt(self.weights)
        if not is_sparse(columns):
            return columns * roots[:, None]
        scaled = columns.astype(np.float64)
        scaled.data *= roots[scaled.indices]
        return scaled

    def gram_of(self, columns: Any) -> Vector:
        """Return AᵀVA for the given columns, dense and in double precision."""
        B = self.rooted(columns.astype(np.float64, copy=False))
        product = B.T @ B
        return np.ascontiguousarray(product.toarray() if is_sparse(product) else product)


def _is_usual(factor: float) -> bool:
    """Return whether a factor leaves the squares of any data within range."""
    return 1e-10 <= factor <= 1e10


def _row_weights(weights: Any, m: int) -> Vector:
    """Return the row weights, checked to be finite and at least 0."""
    v = spread(weights, "weights", m)
    refuse_extreme(v, "weights")
    if (v < 0.0).any():
        where = int(np.flatnonzero(v < 0.0)[0])
        raise ValueError(f"weights contains {v[where]:g} at {where}; the weight of a row must be at least 0.")
    return v

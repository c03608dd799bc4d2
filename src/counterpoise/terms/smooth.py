"""f: quadratic functions, given by data or by a matrix.

Other f are in :mod:`counterpoise.terms.losses`. Every f has ``quadratic`` (itself, or None if it is not quadratic),
``majorant`` (a quadratic with the matrix Q of assumption (ii) of the paper) and ``model(x, mix)``.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from counterpoise.checks import (
    LARGEST_SQUARE,
    SMALLEST_SQUARE,
    Vector,
    is_sparse,
    number,
    real_array,
    refuse_extreme,
    spread,
    vector,
)
from counterpoise.clock import paused
from counterpoise.kernels.smooth import Columns, Gram, SparseColumns, SparseGram
from counterpoise.terms.columns import GRAM_LIMIT as GRAM_LIMIT
from counterpoise.terms.columns import DataTerm

# A sparse AᵀA is stored if forming it takes at most this many products.
SPARSE_GRAM_LIMIT = 20_000_000
# Entries that are counted at a time.
COUNTED = 1_000_000
# Up to this many non-zeros the magnitudes of all terms of xᵀQx are added up.
FEW = 300
# From this many coordinates on, the last product with a given Q is cached.
REMEMBERED = 200
# A matrix counts as semidefinite if its eigenvalues are above minus this fraction of its norm.
SEMIDEFINITE = 1e-13


class QuadraticTerm:
    """The quadratic forms and models that solvers ask of an f, for an f that is quadratic itself."""

    @property
    def is_nonnegative(self) -> bool:
        """Whether f(x) ≥ 0 for every x is known."""
        return False

    @property
    def quadratic(self) -> Self:
        """The exact quadratic form of f: f itself."""
        return self

    @property
    def majorant(self) -> Self:
        """A quadratic with the matrix Q of assumption (ii): f itself."""
        return self

    def model(self, x: Vector, mix: float = 1.0) -> tuple[Self, float]:
        """Return a quadratic model of f at x and the constant that it omits: f itself and 0."""
        return self, 0.0

    def thin_root(self, members: Any, share: int) -> Vector | None:
        """Return a B with BᵀB = Q over ``members`` and ``share`` times as many columns as rows; None if unknown."""
        return None


class LeastSquares(DataTerm, QuadraticTerm):
    """f(x) = ½σ Σₜ vₜ(Ax − y)ₜ².

    Parameters
    ----------
    A : array or SciPy sparse matrix, m × n
        Dense float32 data stay float32 if no Gram matrix is used.
    y : array of length m, or a number
    scale : float
        σ; −1 with y = 0 gives −½‖Ax‖², the negative variance of non-negative sparse PCA.
    gram : bool, optional
        Whether to store AᵀA. An accepted step costs O(n) with it and O(m) without. By default it is stored for up to
        6000 columns. Beyond that it is stored in sparse form if A is sparse and AᵀA is cheap to form; a step then costs
        as many operations as its two rows have non-zeros.
    weights : array of length m, or a number, optional
        v ≥ 0, by default 1. Kernels without AᵀA work with √v∘A, a copy in double precision.
    """

    is_known = True

    def __init__(self, A: Any, y: Any = 0.0, scale: float = 1.0, gram: bool | None = None, weights: Any = None) -> None:
        self._take_data(A, y, weights, gram)
        self.scale = number(scale, "scale")
        if self.scale == 0.0:
            raise ValueError("scale is 0, which leaves no f; use a positive or negative scale.")
        self.refuse_extreme_squares(self.scale, "scale")
        self.may_keep_sparse = gram is None and not self.gram and is_sparse(self.A)
        # Another f with the same weights whose Q is reused, and whether this f is a short-lived model within a run.
        self._shares: LeastSquares | None = None
        self._passing = False

    def scaled(self, d: Vector) -> Self:
        """Return f(diag(d)x), in double precision."""
        other = super().scaled(d)
        other._shares = None
        return other

    def around(self, y: Vector, weights: Vector | None = None) -> LeastSquares:
        """Return f with another y and, if given, other weights; without these, both share Q and its derived values."""
        other = self._anew()
        other.y = y
        if weights is None:
            other._shares = self._shares or self
        else:
            other.weights, other._shares, other._passing = weights, None, True
        return other

    @property
    def by_columns(self) -> LeastSquares:
        """The same f without a sparse AᵀA, so that its columns are priced; f itself if it stores none."""
        if self.gram or self.sparse_Q is None:
            return self
        other = self._anew()
        other.may_keep_sparse, other._shares = False, None
        return other

    @property
    def is_nonnegative(self) -> bool:
        """Whether f(x) ≥ 0 for every x."""
        return self.scale > 0.0

    @cached_property
    def unweighted(self) -> LeastSquares:
        """The same f with √v∘A and √v∘y instead of weights."""
        if self.weights is None:
            return self
        y = np.sqrt(self.weights) * self.y
        if self._shares is not None:
            return self._shares.unweighted.around(y)
        other = self.around(y, self.weights)
        other.A, other.weights, other._passing = self.rooted(self.A), None, self._passing
        return other

    def value(self, x: Vector) -> float:
        """Return ½σ‖Ax − y‖²_V."""
        r = self.residual(x)
        return 0.5 * self.scale * float(r @ self.weighted(r))

    def gradient(self, x: Vector) -> Vector:
        """Return σAᵀV(Ax − y)."""
        return self.scale * self.transposed(self.weighted(self.residual(x)))

    @cached_property
    def value_at_zero(self) -> float:
        """f(0) = ½σ‖y‖²_V."""
        return 0.5 * self.scale * float(self.y @ self.weighted(self.y))

    @property
    def is_convex(self) -> bool:
        """Whether f is convex: σ > 0."""
        return self.scale > 0.0

    @property
    def is_concave(self) -> bool:
        """Whether f is known to be concave: σ < 0."""
        return self.scale < 0.0

    @cached_property
    def reach(self) -> Vector:
        """Numbers wᵢ with |Q_ij| ≤ wᵢwⱼ: the lengths of the columns, times √|σ|."""
        lengths: Vector = np.sqrt(np.abs(self.diagonal))
        return lengths

    def size(self, x: Vector) -> float:
        """Return a bound on the sum of the magnitudes of the terms of f(x): ½(Σwᵢ|xᵢ| + √|σ|‖y‖)²."""
        along = float(self.reach @ np.abs(x)) + math.sqrt(2.0 * abs(self.value_at_zero))
        return 0.5 * along * along

    @property
    def square(self) -> tuple[Callable[[Any], Any], int]:
        """The map v ↦ Mv and the order of M = σAᵀVA or σ√VAAᵀ√V, which have the same largest |eigenvalue|."""
        A, scale = self.A, float(self.scale)
        roots = None if self.weights is None else np.sqrt(self.weights)

        def scaled(V: Any) -> Any:
            return V if roots is None else (roots * V.T).T

        if self.m < self.n:
            return lambda v: scale * scaled(A @ (A.T @ scaled(v))), self.m
        return lambda v: scale * (A.T @ scaled(scaled(A @ v))), self.n

    def hessian(self, members: Any) -> Vector:
        """Return the rows and columns of Q that belong to ``members``, without computing the rest of Q if not stored.

        The stored Q itself if these are all.
        """
        if self.gram and not self._passing:
            return submatrix(self.Q, members)
        return self.scale * self.gram_of(self.A[:, members])

    def thin_root(self, members: Any, share: int) -> Vector | None:
        """Return √(σV)A over ``members`` if A is dense and has few enough rows."""
        if self.scale < 0.0 or is_sparse(self.A) or share * self.m > len(members):
            return None
        root: Vector = math.sqrt(self.scale) * self.rooted(np.asarray(self.A[:, members], dtype=np.float64))
        return root

    @cached_property
    def Q(self) -> Vector:
        """The Hessian σAᵀVA, dense; the clock of runs stops while it is formed for the first time."""
        if self._shares is not None:
            return self._shares.Q
        needed, free = 8.0 * self.n * self.n, _free_memory()
        if needed > free:
            raise ValueError(
                f"AᵀA of {self.n} columns takes {needed / 1e9:.3g} GB, but {free / 1e9:.3g} GB are free; use fewer "
                "columns, or method 'bcd-g' with LeastSquares(…, gram=False), which works by columns."
            )
        with nullcontext() if self._passing else paused():
            return self.scale * self.gram_of(self.A)

    @cached_property
    def p(self) -> Vector:
        """The gradient at 0, −σAᵀVy."""
        return self.gradient(np.zeros(self.n))

    @cached_property
    def diagonal(self) -> Vector:
        """The squared column norms times σ."""
        return self._shares.diagonal if self._shares is not None else self.scale * self.squares()

    @cached_property
    def sparse_Q(self) -> Any:
        """The Hessian in CSR format, or None if it is not stored."""
        if self._shares is not None:
            return self._shares.sparse_Q
        if not self.may_keep_sparse:
            return None
        # In parts, because bincount copies its input to a wider type.
        parts = np.array_split(self.A.indices, 1 + self.A.nnz // COUNTED)
        products: Vector = np.sum([np.bincount(part, minlength=self.m) for part in parts], axis=0, dtype=np.float64)
        if float(products @ products) > SPARSE_GRAM_LIMIT:
            return None
        A = self.rooted(self.A.astype(np.float64))
        Q = (self.scale * (A.T @ A)).tocsr()
        Q.sort_indices()
        return Q

    def kernel(self) -> Gram | SparseGram | Columns | SparseColumns:
        """Return f for kernels, with its own cached state."""
        if self.gram:
            return Gram(self.Q, self.p, np.ascontiguousarray(np.diag(self.Q)), np.empty(self.n))
        if self.sparse_Q is not None:
            Q = self.sparse_Q
            rows = Q.data, Q.indices.astype(np.int64), Q.indptr.astype(np.int64)
            moving = {"gradient": np.empty(self.n), "Q": np.zeros((1, self.n)), "shown": np.array([-1])}
            return SparseGram(*rows, self.p, self.diagonal, **moving)
        if self.weights is not None:
            return self.unweighted.kernel()
        moving = {"residual": np.empty(self.m), "Q": np.empty((1, self.n)), "gradient": np.empty(self.n)}
        if is_sparse(self.A):
            data = self.A.data, self.A.indices.astype(np.int64), self.A.indptr.astype(np.int64)
            return SparseColumns(*data, self.y, self.scale, self.diagonal, **moving, column=np.zeros(self.m))
        return Columns(np.ascontiguousarray(self.A.T), self.y, self.scale, self.diagonal, **moving)


def _free_memory() -> float:
    """Return the memory in bytes that this process may still take, ∞ if unknown."""
    free = [math.inf]
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        free.append(next(1024.0 * float(line.split()[1]) for line in lines if line.startswith("MemAvailable")))
    with contextlib.suppress(OSError, ValueError):  # of a container
        group = Path("/sys/fs/cgroup")
        free.append(float((group / "memory.max").read_text()) - float((group / "memory.current").read_text()))
    with contextlib.suppress(ImportError, OSError, ValueError):  # of ulimit -v; there is none on Windows
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
            free.append(float(most - pages * resource.getpagesize()))
    return min(free)


class Quadratic(QuadraticTerm):
    """f(x) = ½xᵀQx + pᵀx with a symmetric Q, definite or not.

    Parameters
    ----------
    Q : array, n × n
    p : array of length n, or a number
    """

    is_known = gram = True
    value_at_zero = 0.0
    # The last point, and Qx there.
    _last: tuple[Vector, Vector] = np.zeros(0), np.zeros(0)

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

    @property
    def cost(self) -> int:
        """The number of entries that a gradient reads."""
        return int(self.n) ** 2

    def _product(self, x: Vector) -> Vector:
        """Return Qx, cached for the last x, because F and its slopes are often needed at the same point.

        If x has few non-zeros, only their rows are read.
        """
        if self.n < REMEMBERED:
            return np.asarray(self.Q @ x)
        at, product = self._last
        if not np.array_equal(at, x):
            held = np.flatnonzero(x)
            product = x[held] @ self.Q[held] if 4 * len(held) <= self.n else self.Q @ x
            self._last = x.copy(), product
        return product

    def remember(self, x: Vector, gradient: Vector) -> None:
        """Keep Qx, given the gradient at x; kernels compute it from the rows of the non-zeros, which is faster."""
        if self.n >= REMEMBERED:
            self._last = x.copy(), gradient - self.p

    def value(self, x: Vector) -> float:
        """Return ½xᵀQx + pᵀx."""
        return float(0.5 * x @ self._product(x) + self.p @ x)

    def gradient(self, x: Vector) -> Vector:
        """Return Qx + p."""
        return vector(self._product(x) + self.p, "the gradient", self.n)

    @cached_property
    def is_convex(self) -> bool:
        """Whether Q is positive semidefinite up to rounding, by Cholesky."""
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
        """Whether Q is negative semidefinite up to rounding."""
        return Quadratic(-self.Q).is_convex

    @cached_property
    def reach(self) -> Vector:
        """Numbers wᵢ with |Q_ij| ≤ wᵢwⱼ: the square roots of the largest |entries| of the rows."""
        roots: Vector = np.sqrt(np.abs(self.Q).max(axis=1))
        return roots

    def size(self, x: Vector) -> float:
        """Return a bound on the sum of the magnitudes of the terms of f(x): that sum, if few coordinates are not 0."""
        linear, held = float(np.abs(self.p) @ np.abs(x)), np.flatnonzero(x)
        if len(held) <= FEW:
            z = np.abs(x[held])
            return 0.5 * float(z @ (np.abs(self.Q[np.ix_(held, held)]) @ z)) + linear
        along = float(self.reach @ np.abs(x))
        return 0.5 * along * along + linear

    @property
    def square(self) -> tuple[Callable[[Any], Any], int]:
        """The map v ↦ Qv and the order of Q."""
        return lambda v: self.Q @ v, self.n

    def scaled(self, d: Vector) -> Quadratic:
        """Return f(diag(d)x)."""
        return Quadratic(d[:, None] * self.Q * d, d * self.p)

    def hessian(self, members: Any) -> Vector:
        """Return the rows and columns of Q that belong to ``members``; Q itself if these are all."""
        return submatrix(self.Q, members)

    def kernel(self) -> Gram:
        """Return f for kernels, with its own gradient."""
        return Gram(self.Q, self.p, self.diagonal, np.empty(self.n))


def submatrix(Q: Vector, members: Any) -> Vector:
    """Return the rows and columns of ``members``, which are ascending; Q itself if these are all."""
    return Q if len(members) == len(Q) else Q[members][:, members]

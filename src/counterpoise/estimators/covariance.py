"""Covariance matrices, implicitly centred for sparse data, and their deflation by components."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg as sl
from sklearn.utils.sparsefuncs import mean_variance_axis

from counterpoise.checks import is_sparse
from counterpoise.problem import Problem
from counterpoise.solvers.sparse_arc import NegativeGram
from counterpoise.supervision import supervised
from counterpoise.terms.concave import TopSum
from counterpoise.terms.constraint import Sphere
from counterpoise.terms.separable import Bounds, Linear

Matrix = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

# Less than this share of the total variance is rounding error.
EXHAUSTED = 1e-12
# A column outside the pool must raise a component's variance by this share.
GAIN = 1e-9


class Centred:
    """X − 1μᵀ over √(n_samples − 1), of which only products are formed if X is sparse."""

    def __init__(self, X: Any) -> None:
        self.sparse = bool(is_sparse(X))
        self.m, self.n = X.shape
        eps = float(np.finfo(np.float64).eps)
        if self.sparse:
            self.X = X.astype(np.float64).tocsc()
            self.mean, variance = (np.asarray(part, dtype=np.float64) for part in mean_variance_axis(self.X, axis=0))
            # Subtracting n_samples·μμᵀ leaves an error of ε times a column's mean square.
            noise = 64.0 * eps * (variance + self.mean**2)
        else:
            self.mean = X.mean(axis=0, dtype=np.float64)
            self.X = X - self.mean
            variance = np.einsum("ij,ij->j", self.X, self.X) / self.m
            noise = (16.0 * eps * self.mean) ** 2
        self.variance: Matrix = np.where(variance > noise, variance * (self.m / (self.m - 1.0)), 0.0)
        self.varying: Indices = np.flatnonzero(self.variance)

    @supervised
    def covariance(self, columns: Indices) -> Matrix:
        """Return C on some columns."""
        X = self._columns(columns)
        if not self.sparse:
            return np.asarray(X.T @ X / (self.m - 1.0))
        mean = self.mean[columns]
        C = (X.T @ X).toarray() - self.m * np.outer(mean, mean)
        C /= self.m - 1.0
        return np.asarray(0.5 * (C + C.T))

    def products(self, columns: Indices, V: Matrix) -> Matrix:
        """Return C[:, columns]·V of all features, from the scores of V."""
        scores = np.asarray(self._columns(columns) @ V)
        if not self.sparse:
            return np.asarray(self.X.T @ scores / (self.m - 1.0))
        scores = scores - self.mean[columns] @ V
        return np.asarray((self.X.T @ scores - np.outer(self.mean, scores.sum(axis=0))) / (self.m - 1.0))

    def _columns(self, columns: Indices) -> Any:
        # Avoid a copy when all columns are selected.
        return self.X[:, columns] if len(columns) < self.n else self.X

    @supervised
    def pool(self, count: int, n_components: int, seed: int) -> Indices:
        """Return the initial columns: half by variance, half by their norm in the leading eigenvectors of C.

        The latter are found by subspace iteration; they name columns that vary little each, but many together.
        """
        rng, all_columns = np.random.default_rng(seed), np.arange(self.n)
        basis = rng.standard_normal((self.n, min(n_components + 10, self.n)))
        for _ in range(3):
            basis = np.linalg.qr(self.products(all_columns, basis))[0]
        products = self.products(all_columns, basis)
        leading = np.linalg.eigh(basis.T @ products)[1][:, -n_components:]
        parts = np.linalg.norm(products @ leading, axis=1)
        chosen = [np.argsort(-by, kind="stable")[: count // 2] for by in (self.variance, parts)]
        return np.intersect1d(np.concatenate(chosen), self.varying)


class Covariance:
    """C = RᵀR on the pool, and its deflation by components."""

    def __init__(self, C: Matrix) -> None:
        # A pair step needs two coordinates; the second one does not vary and stays at 0.
        self.C = np.ascontiguousarray(np.pad(C, (0, 1)) if len(C) == 1 else C)
        self.root = _root(self.C)
        self.total = float(np.trace(self.C))

    def __len__(self) -> int:
        return len(self.C)

    def rows(self, Z: Matrix, P: Matrix) -> Matrix:
        """Return B with BᵀB = CW(WᵀCW)⁻¹WᵀC from Z = RW and P = CW; C − BᵀB is the Schur complement of C by W.

        With Z = QT it is B = T⁻ᵀPᵀ = QᵀR. Components that others explain, up to rounding, are left out.
        """
        if Z.shape[1] == 0:
            return np.zeros((0, len(P)))
        T, order = sl.qr(Z, mode="r", pivoting=True, check_finite=False)
        diagonal = np.abs(np.diag(T))
        r = int(np.count_nonzero(diagonal > math.sqrt(EXHAUSTED) * diagonal[0]))
        return np.asarray(sl.solve_triangular(T[:r, :r], P[:, order[:r]].T, trans="T", check_finite=False))

    def deflate(self, B: Matrix, G: Matrix) -> None:
        """Write C − BᵀB into G, contiguous rows."""
        G[:] = self.C
        if len(B):
            # Both are symmetric, so the Fortran-ordered transpose is updated in place.
            sl.blas.dgemm(-1.0, B, B, 1.0, G.T, trans_a=True, overwrite_c=True)

    def problem(self, W: Matrix, s: int) -> Problem:
        """Return max ½vᵀGv, G = C deflated by W, with a λ above the exactness threshold √2·max‖Gx‖∞."""
        G = np.empty_like(self.C)
        self.deflate(self.rows(self.root @ W, self.C @ W), G)
        if float(np.diag(G).max()) <= EXHAUSTED * self.total:
            raise ExhaustedError(W)
        lam = 2.0 * math.sqrt(float(np.einsum("ij,ij->i", G, G).max()))
        f = NegativeGram(np.negative(G, out=G), np.zeros(len(G)))
        return Problem(f, Bounds(0.0, np.inf) + Linear(lam), TopSum(min(s, len(G)), lam), Sphere())

    def first_loadings(self, W: Matrix, s: int) -> tuple[Matrix, float]:
        """Return a component after W without a product of the size of C, and −½ of the variance that it adds.

        It has the s largest entries of the column of G, C deflated by W, that varies most; then, if that is better, the
        leading eigenvector of G on these.
        """
        held = np.flatnonzero(W.any(axis=1))
        B = self.rows(self.root[:, held] @ W[held], self.C[:, held] @ W[held])
        left = np.diag(self.C) - np.einsum("kj,kj->j", B, B)
        most = int(np.argmax(left))
        if float(left[most]) <= EXHAUSTED * self.total:
            raise ExhaustedError(W)
        x = truncated(np.maximum(self.C[most] - B.T @ B[:, most], 0.0), s)
        places = np.flatnonzero(x)
        G = self.C[np.ix_(places, places)] - B[:, places].T @ B[:, places]
        z, leading = x[places], np.linalg.eigh(G)[1][:, -1]
        leading = truncated(np.maximum(leading * (1.0 if leading.sum() >= 0.0 else -1.0), 0.0), s)
        z = max((z, leading), key=lambda each: float(each @ G @ each))
        x[places] = z
        return x, -0.5 * float(z @ G @ z)

    def adjusted(self, V: Matrix, by_size: bool) -> tuple[Matrix, Indices]:
        """Return the adjusted variances and their order: that of V, or by size if the order is free."""
        return adjusted_variances(self.root @ V, by_size)


def adjusted_variances(Z: Matrix, by_size: bool) -> tuple[Matrix, Indices]:
    """Return T_kk² of the scores Z = QT, and the order of the columns; by size it is QR with pivots."""
    if not by_size:
        return np.asarray(np.diag(np.linalg.qr(Z, mode="r")) ** 2, dtype=np.float64), np.arange(Z.shape[1])
    T, order = sl.qr(Z, mode="r", pivoting=True, check_finite=False)
    return np.asarray(np.diag(T) ** 2, dtype=np.float64), np.asarray(order, dtype=np.intp)


@supervised
def _root(C: Matrix) -> Matrix:
    """Return R with RᵀR = C and as many rows as C has rank, by Cholesky's factorisation with pivots."""
    factor, pivots, rank, _ = sl.lapack.dpstrf(C, lower=0)
    R = np.zeros((max(int(rank), 1), len(C)))
    R[:, pivots - 1] = np.triu(factor)[: len(R)]
    return R


class ExhaustedError(Exception):
    """The components V explain all variance of the pool."""

    def __init__(self, V: Matrix) -> None:
        super().__init__()
        self.V = V


def truncated(x: Matrix, s: int) -> Matrix:
    """Return the s largest entries of x ≥ 0 at length 1; x itself if it has no more."""
    held = np.flatnonzero(x)
    if len(held) > s:
        x = x.copy()
        x[held[np.argsort(-x[held], kind="stable")[s:]]] = 0.0
    length = float(np.linalg.norm(x))
    return x if abs(length - 1.0) <= 1e-15 else x / length


def left_out(data: Centred, pool: Indices, C: Covariance, V: Matrix, most: int) -> Indices:
    """Return the columns outside the pool with the largest unexplained variance."""
    B = C.rows(C.root @ V, data.products(pool, V[: len(pool)]))
    left = data.variance - np.einsum("kj,kj->j", B, B)
    left[pool] = 0.0
    chosen = np.argsort(-left, kind="stable")[:most]
    return np.asarray(chosen[left[chosen] > EXHAUSTED * float(data.variance.sum())])


def gaining(
    data: Centred, pool: Indices, C: Covariance, V: Matrix, sizes: list[int], joint: bool, most: int
) -> Indices:
    """Return columns outside the pool that would raise a component, given all others or those before it.

    As in ``kernels.swap_arc``: drop vᵢ, v̂ = (v − vᵢeᵢ)/‖v − vᵢeᵢ‖, and turn v̂ towards eⱼ by the best angle. That is
    worth λ_max of [[v̂ᵀGv̂, (Gv̂)ⱼ], [·, G_jj]], G = C deflated. With fewer non-zeros than allowed none is dropped.
    """
    entering: list[Indices] = []
    outside = np.setdiff1d(data.varying, pool)
    Z, P = C.root @ V, data.products(pool, V)
    for k, s in enumerate(sizes):
        others = np.arange(V.shape[1]) != k if joint else np.arange(V.shape[1]) < k
        B = C.rows(Z[:, others], P[:, others])
        held = np.flatnonzero(V[:, k])
        v = V[held, k]
        columns = data.products(pool[held], np.eye(len(held))) - B.T @ B[:, pool[held]]
        Gv, diagonal = columns @ v, data.variance - np.einsum("kj,kj->j", B, B)
        value = float(v @ Gv[pool[held]])
        score = diagonal[outside].copy()
        if len(held) < s:
            np.maximum(score, _turned(value, Gv[outside], diagonal[outside]), out=score)
            v = v[:0]
        for i, weight in enumerate(v):
            rest = 1.0 - weight**2
            if rest > 0.0:
                row = (Gv - weight * columns[:, i]) / math.sqrt(rest)
                a = (value - 2.0 * weight * Gv[pool[held[i]]] + weight**2 * diagonal[pool[held[i]]]) / rest
                np.maximum(score, _turned(a, row[outside], diagonal[outside]), out=score)
        best = np.argsort(-score, kind="stable")[:most]
        entering.append(outside[best[score[best] > value * (1.0 + GAIN)]])
    return np.unique(np.concatenate(entering))


def _turned(a: float, b: Matrix, d: Matrix) -> Matrix:
    """Return λ_max of [[a, b], [b, d]] for b > 0, max(a, d) otherwise."""
    b = np.maximum(b, 0.0)
    return np.asarray(0.5 * (a + d) + np.sqrt(0.25 * (a - d) ** 2 + b * b))

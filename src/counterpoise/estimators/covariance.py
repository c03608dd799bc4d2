"""Covariance matrices, of data or given, implicitly centred for sparse data, and problems of components on them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import mean_variance_axis

from counterpoise.checks import LARGEST_SQUARE, SMALLEST_SQUARE, is_sparse, refuse_extreme
from counterpoise.estimators.deflation import (
    EXHAUSTED,
    Deflation,
    Indices,
    Matrix,
    adjusted_variances,
    deflation,
    schur_rows,
)
from counterpoise.problem import Problem, Result
from counterpoise.solvers.components import component_bound
from counterpoise.solvers.sparse_arc import NegativeGram
from counterpoise.supervision import supervised
from counterpoise.terms.concave import TopSum
from counterpoise.terms.constraint import Sphere
from counterpoise.terms.separable import AbsoluteDeviation, Bounds, Linear
from counterpoise.terms.smooth import Quadratic

# A column outside the pool must raise a component's variance by this share.
GAIN = 1e-9
# A covariance may be asymmetric, and have negative eigenvalues, by this share of its largest entry: rounding.
ROUNDING = 1e-8
# A variance in a given covariance that is at most this share of the largest is rounding, of a column that is constant.
CONSTANT = 1e-24


class Source:
    """Where covariances come from: the variances of all features, and products with C.

    Attributes
    ----------
    name : str
        What messages call it.
    m : int or None
        Samples, None if they are not known.
    n : int
        Features.
    mean, scale : arrays of length n
        What is subtracted from a column of the data, and then divided by.
    variance : array of length n
        The diagonal of C.
    varying : array of int
        Features with a variance above rounding.
    """

    name = "X"
    m: int | None = None
    n: int
    mean: Matrix
    scale: Matrix
    variance: Matrix

    @property
    def varying(self) -> Indices:
        """Features with a variance."""
        return np.flatnonzero(self.variance)

    @property
    def most_components(self) -> int:
        """The largest number of components that one may ask for."""
        return self.n if self.m is None else min(self.m, self.n)

    def covariance(self, columns: Indices) -> Matrix:
        """Return C on some columns."""
        raise NotImplementedError

    def products(self, columns: Indices, V: Matrix) -> Matrix:
        """Return C[:, columns]·V of all features."""
        raise NotImplementedError

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


class Centred(Source):
    """(X − 1μᵀ)/√(n_samples − 1), of which only products are formed if X is sparse.

    With ``standardize`` columns are divided by their standard deviation, so that C holds correlations.
    """

    def __init__(self, X: Any, standardize: bool = False) -> None:
        self.sparse = bool(is_sparse(X))
        m, self.n = X.shape
        self.m: int = m
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
        self.variance = np.where(variance > noise, variance * (self.m / (self.m - 1.0)), 0.0)
        refuse_extreme(self.variance, "the variances of X", LARGEST_SQUARE, SMALLEST_SQUARE)
        self.scale, self.variance = _scales(self.variance, standardize)
        self._centre = self.mean / self.scale
        if standardize:
            self.X = (self.X @ sp.diags_array(1.0 / self.scale)).tocsc() if self.sparse else self.X / self.scale

    @supervised
    def covariance(self, columns: Indices) -> Matrix:
        """Return C on some columns."""
        X = self._columns(columns)
        if not self.sparse:
            return np.asarray(X.T @ X / (self.m - 1.0))
        mean = self._centre[columns]
        C = (X.T @ X).toarray() - self.m * np.outer(mean, mean)
        C /= self.m - 1.0
        return np.asarray(0.5 * (C + C.T))

    def products(self, columns: Indices, V: Matrix) -> Matrix:
        """Return C[:, columns]·V of all features, from the scores of V."""
        scores = np.asarray(self._columns(columns) @ V)
        if not self.sparse:
            return np.asarray(self.X.T @ scores / (self.m - 1.0))
        scores = scores - self._centre[columns] @ V
        return np.asarray((self.X.T @ scores - np.outer(self._centre, scores.sum(axis=0))) / (self.m - 1.0))

    def _columns(self, columns: Indices) -> Any:
        # Avoid a copy when all columns are selected.
        return self.X[:, columns] if len(columns) < self.n else self.X


class Given(Source):
    """A covariance matrix that is given; with ``standardize``, its correlations."""

    name = "covariance"

    def __init__(self, C: Any, standardize: bool = False) -> None:
        C = np.asarray(C, dtype=np.float64)
        if C.ndim != 2 or C.shape[0] != C.shape[1]:
            raise ValueError(
                f"covariance has shape {C.shape}; it must be square, a row and a column for every feature."
            )
        refuse_extreme(C, "covariance", LARGEST_SQUARE, SMALLEST_SQUARE)
        self.n, self.mean = len(C), np.zeros(len(C))
        variance = np.diag(C).copy()
        variance[np.abs(variance) <= CONSTANT * variance.max()] = 0.0
        self.scale, self.variance = _scales(variance, standardize)
        units = np.outer(self.scale, self.scale)
        _refuse_asymmetric(C, units)
        self.C = 0.5 * (C + C.T) / units
        np.fill_diagonal(self.C, self.variance)
        self.C = _semidefinite(self.C)
        self.variance = np.where(self.variance == 0.0, 0.0, np.diag(self.C))

    def covariance(self, columns: Indices) -> Matrix:
        """Return C on some columns."""
        return np.asarray(self.C if len(columns) == self.n else self.C[np.ix_(columns, columns)])

    def products(self, columns: Indices, V: Matrix) -> Matrix:
        """Return C[:, columns]·V."""
        return np.asarray((self.C if len(columns) == self.n else self.C[:, columns]) @ V)


def _scales(variance: Matrix, standardize: bool) -> tuple[Matrix, Matrix]:
    """Return what columns are divided by, and their variances then."""
    if not standardize:
        return np.ones(len(variance)), variance
    varies = variance > 0.0
    return np.sqrt(np.where(varies, variance, 1.0)), np.where(varies, 1.0, variance)


def _refuse_asymmetric(C: Matrix, units: Matrix) -> None:
    """Refuse entries that differ from those across the diagonal by more than rounding, in these units."""
    skew = np.abs(C - C.T) / units
    if float(skew.max()) > ROUNDING * float((np.abs(C) / units).max()):
        i, j = sorted(int(k) for k in np.unravel_index(np.argmax(skew), skew.shape))
        raise ValueError(
            f"covariance is not symmetric: entry ({i}, {j}) is {C[i, j]:g}, but ({j}, {i}) is {C[j, i]:g}; "
            "both must be the covariance of the same two features."
        )


@supervised
def _semidefinite(C: Matrix) -> Matrix:
    """Return C with negative eigenvalues that are rounding set to 0; refuse others."""
    size = float(np.abs(C).max()) * len(C)
    # A small shift makes the factorisation succeed if C is semidefinite, but not definite.
    if size == 0.0 or sl.lapack.dpotrf(C + EXHAUSTED * size * np.eye(len(C)), overwrite_a=True)[1] == 0:
        return C
    values, vectors = np.linalg.eigh(C)
    if values[0] < -ROUNDING * size:
        raise ValueError(
            f"covariance is not positive semidefinite: its least eigenvalue is {values[0]:.3g}, so that it is "
            "the covariance of no data; if it was estimated pair by pair, set its negative eigenvalues to 0 first."
        )
    half = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(half @ half.T)


class Covariance:
    """C = RᵀR on the pool, what components leave of it, and the problem of the next one."""

    def __init__(self, C: Matrix, signed: bool = False, kind: str = "schur") -> None:
        # A pair step needs two coordinates; the second one does not vary and stays at 0.
        self.C = np.ascontiguousarray(np.pad(C, (0, 1)) if len(C) == 1 else C)
        self.signed, self.kind = signed, kind
        # Then a diagonal without positive entries does not mean that nothing is left.
        self.may_be_indefinite = kind == "hotelling"
        self.root = _root(self.C)
        self.total = float(np.trace(self.C))
        self._room = np.empty_like(self.C)

    def __len__(self) -> int:
        return len(self.C)

    def part(self, columns: Indices) -> Covariance:
        """Return the covariance of some of the columns."""
        return Covariance(self.C[np.ix_(columns, columns)], self.signed, self.kind)

    def deflation(self, W: Matrix) -> Deflation:
        """Return what components leave of C."""
        held = np.flatnonzero(W.any(axis=1))
        return deflation(self.kind, W, (W[held].T @ self.C[held]).T, self.root[:, held] @ W[held])

    def deflated(self, by: Deflation) -> Matrix:
        """Return G = C − leftᵀ·right, contiguous rows; the next call overwrites it, as new memory would cost more."""
        G = self._room
        G[:] = self.C
        if len(by.left):
            # Both are symmetric, so the Fortran-ordered transpose is updated in place.
            sl.blas.dgemm(-1.0, by.left, by.right, 1.0, G.T, trans_a=True, overwrite_c=True)
        return G

    def left_by(self, W: Matrix) -> Matrix:
        """Return G = C deflated by W, see :meth:`deflated`; raise an error if nothing is left."""
        G = self.deflated(self.deflation(W))
        if not self.may_be_indefinite and float(np.diag(G).max()) <= EXHAUSTED * self.total:
            raise ExhaustedError(W)
        return G

    def problem(self, W: Matrix, s: int) -> Problem:
        """Return max ½vᵀGv, G = C deflated by W, with a λ above the exactness threshold, at most 2·max‖Gx‖∞."""
        G = self.left_by(W)
        lam = 2.5 * math.sqrt(float(np.einsum("ij,ij->i", G, G).max()))
        if self.may_be_indefinite:
            f: Quadratic = Quadratic(-0.5 * (G + G.T))
        else:
            f = NegativeGram(np.negative(G, out=G), np.zeros(len(G)))
        h = AbsoluteDeviation(0.0, lam) if self.signed else Bounds(0.0, np.inf) + Linear(lam)
        return Problem(f, h, TopSum(min(s, len(G)), lam), Sphere(signed=self.signed))

    def first_loadings(self, W: Matrix, s: int) -> tuple[Matrix, float]:
        """Return a component after W without a product of the size of C, and −½ of the variance that it adds.

        It has the s largest entries of the column of G, C deflated by W, that varies most; then, if that is better, the
        leading eigenvector of G on these.
        """
        by, every = self.deflation(W), slice(None)
        left = by.diagonal(np.diag(self.C))
        most = np.array([np.argmax(left)])
        least = EXHAUSTED * self.total
        if not self.may_be_indefinite and float(left[most[0]]) <= least:
            raise ExhaustedError(W)
        column = by.block(self.C[:, most], every, most)[:, 0]
        column[most] = max(float(column[most[0]]), least)
        x = truncated(self.allowed(column), s)
        places = np.flatnonzero(x)
        G = by.block(self.C[np.ix_(places, places)], places, places)
        z, leading = x[places], np.linalg.eigh(G)[1][:, -1]
        leading = truncated(self.allowed(leading * (1.0 if leading.sum() >= 0.0 else -1.0)), s)
        z = max((z, leading), key=lambda each: float(each @ G @ each))
        x[places] = z
        return x, -0.5 * float(z @ G @ z)

    def allowed(self, x: Matrix) -> Matrix:
        """Return x, without its negative entries unless components are signed."""
        return x if self.signed else np.maximum(x, 0.0)

    def adjusted(self, V: Matrix, by_size: bool) -> tuple[Matrix, Indices]:
        """Return the adjusted variances and their order: that of V, or by size if the order is free."""
        return adjusted_variances(self.root @ V, by_size)

    def refuse_exhausted(self, W: Matrix) -> None:
        """Raise an error if the components explain all variance, whatever their deflation leaves of C."""
        if self.kind != "schur" and W.shape[1]:
            B = schur_rows(self.root @ W, self.C @ W)
            if float(Deflation(B, B).diagonal(np.diag(self.C)).max()) <= EXHAUSTED * self.total:
                raise ExhaustedError(W)


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
        self.results: list[Result] = []


def truncated(x: Matrix, s: int) -> Matrix:
    """Return the s largest entries of x by size, at length 1; x itself if it has no more."""
    held = np.flatnonzero(x)
    if len(held) > s:
        x = x.copy()
        x[held[np.argsort(-np.abs(x[held]), kind="stable")[s:]]] = 0.0
    length = float(np.linalg.norm(x))
    return x if abs(length - 1.0) <= 1e-15 else x / length


def upper_bounds(data: Source, C: Covariance, sizes: list[int]) -> Matrix:
    """Return for each size what no component of as many loadings can exceed in variance.

    If C covers all columns that vary it is :func:`counterpoise.solvers.components.component_bound`, otherwise the sum
    of the largest variances, which needs no covariance.
    """
    largest = -np.sort(-data.variance)
    whole = len(data.varying) == len(C) or len(data.varying) == 1
    bounds = {s: float(largest[:s].sum()) for s in set(sizes)}
    if whole:
        bounds = {s: min(bound, component_bound(C.C, s, C.signed, is_semidefinite=True)) for s, bound in bounds.items()}
    return np.array([bounds[s] for s in sizes])


def _all_features(data: Source, pool: Indices, C: Covariance, V: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Return V and CV of all features, and the scores RV; V has a row for each column of the pool."""
    whole = np.zeros((data.n, V.shape[1]))
    whole[pool] = V[: len(pool)]
    return whole, data.products(pool, V[: len(pool)]), C.root @ V


def left_out(data: Source, pool: Indices, C: Covariance, V: Matrix, most: int) -> Indices:
    """Return the columns outside the pool with the largest unexplained variance."""
    left = deflation("schur", *_all_features(data, pool, C, V)).diagonal(data.variance)
    left[pool] = 0.0
    chosen = np.argsort(-left, kind="stable")[:most]
    return np.asarray(chosen[left[chosen] > EXHAUSTED * float(data.variance.sum())])


def gaining(data: Source, pool: Indices, C: Covariance, V: Matrix, sizes: list[int], joint: bool, most: int) -> Indices:
    """Return columns outside the pool that would raise a component, given all others or those before it.

    As in ``kernels.swap_arc``: drop vᵢ, v̂ = (v − vᵢeᵢ)/‖v − vᵢeᵢ‖, and turn v̂ towards eⱼ by the best angle. That is
    worth λ_max of [[v̂ᵀGv̂, (Gv̂)ⱼ], [·, G_jj]], G = C deflated. With fewer non-zeros than allowed none is dropped.
    """
    entering: list[Indices] = []
    outside = np.setdiff1d(data.varying, pool)
    whole, P, Z = _all_features(data, pool, C, V)
    for k, s in enumerate(sizes):
        others = np.arange(V.shape[1]) != k if joint else np.arange(V.shape[1]) < k
        by = deflation(C.kind, whole[:, others], P[:, others], Z[:, others])
        held = np.flatnonzero(V[:, k])
        v, at = V[held, k], pool[held]
        columns = by.block(data.products(at, np.eye(len(held))), slice(None), at)
        Gv, diagonal = columns @ v, by.diagonal(data.variance)
        value = float(v @ Gv[at])
        score = diagonal[outside].copy()
        if len(held) < s:
            np.maximum(score, _turned(value, C.allowed(Gv[outside]), diagonal[outside]), out=score)
            v = v[:0]
        for i, weight in enumerate(v):
            rest = 1.0 - weight**2
            if rest > 0.0:
                row = (Gv - weight * columns[:, i]) / math.sqrt(rest)
                a = (value - 2.0 * weight * Gv[at[i]] + weight**2 * diagonal[at[i]]) / rest
                np.maximum(score, _turned(a, C.allowed(row[outside]), diagonal[outside]), out=score)
        best = np.argsort(-score, kind="stable")[:most]
        entering.append(outside[best[score[best] > value * (1.0 + GAIN)]])
    return np.unique(np.concatenate(entering))


def _turned(a: float, b: Matrix, d: Matrix) -> Matrix:
    """Return λ_max of [[a, b], [b, d]]."""
    return np.asarray(0.5 * (a + d) + np.sqrt(0.25 * (a - d) ** 2 + b * b))

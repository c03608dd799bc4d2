"""The covariance of a pool of columns, its deflation by components, and the problem of the next component."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg as sl

from counterpoise.estimators.component_results import embedded
from counterpoise.estimators.deflation import (
    EXHAUSTED,
    Deflation,
    Indices,
    Matrix,
    adjusted_variances,
    deflation,
    schur,
)
from counterpoise.estimators.sources import Source
from counterpoise.kernels import look_arc
from counterpoise.problem import Problem, Result
from counterpoise.solvers.components import component_bound
from counterpoise.solvers.sparse_arc import NegativeGram
from counterpoise.supervision import supervised
from counterpoise.terms.concave import TopSum
from counterpoise.terms.constraint import Sphere
from counterpoise.terms.separable import AbsoluteDeviation, Bounds, Linear
from counterpoise.terms.smooth import Quadratic

# A column enters the pool only if it raises a component's variance by this share.
GAIN = 1e-9


class Covariance:
    """C = RᵀR on the pool, its deflation by components, and the problem of the next component."""

    def __init__(self, C: Matrix, signed: bool = False, kind: str = "schur", root: Matrix | None = None) -> None:
        # A pair step needs two coordinates: add a constant column, whose loading stays 0.
        self.C = np.ascontiguousarray(np.pad(C, (0, 1)) if len(C) == 1 else C)
        self.signed, self.kind = signed, kind
        # If so, some variance may be left although no diagonal entry is positive.
        self.may_be_indefinite = kind == "hotelling"
        self.root = _root(self.C) if root is None else root
        # A contiguous copy: in C every diagonal entry is on another page of memory.
        self.variance = np.ascontiguousarray(np.diag(self.C))
        self.total = float(self.variance.sum())
        self._room = np.zeros_like(self.C)

    def __len__(self) -> int:
        return len(self.C)

    def deflation(self, W: Matrix) -> Deflation:
        """Return the deflation of C by components W."""
        Z, P = self.products(W)
        return deflation(self.kind, W, P, Z)

    def products(self, W: Matrix) -> tuple[Matrix, Matrix]:
        """Return RW and CW."""
        Z = self.root @ W
        return Z, self.root.T @ Z

    def deflated(self, by: Deflation) -> Matrix:
        """Return G = C − leftᵀ·right in C order, in a buffer that the next call overwrites: allocating costs more."""
        G = self._room
        G[:] = self.C
        if len(by.left):
            # The update is symmetric, so the Fortran-ordered transpose of G can be updated in place.
            sl.blas.dgemm(-1.0, by.left, by.right, 1.0, G.T, trans_a=True, overwrite_c=True)
        return G

    def refuse_nothing_left(self, G: Matrix, W: Matrix) -> None:
        """Raise an error if G, C deflated by W, has no variance left."""
        if not self.may_be_indefinite and float(np.diag(G).max()) <= EXHAUSTED * self.total:
            raise ExhaustedError(W)

    def promising(self, by: Deflation, x: Matrix, product: Matrix, s: int, most: int) -> Indices:
        """Return the support of x and the ``most`` columns that promise most in exchange for its smallest loading.

        ``product`` is Cx, and G the Schur complement. This is a heuristic: exchanging another loading for a column that
        is left out may gain more.
        """
        score, kept = np.empty(len(x)), min(most + int(np.count_nonzero(x)), len(x))
        look_arc.promises(self.C, by.rows, self.variance, x, product, s, self.signed, score)
        return np.sort(np.argsort(-score, kind="stable")[:kept])

    def left_on(self, by: Deflation, columns: Indices) -> Matrix:
        """Return G, the Schur complement, on some columns, in the buffer of :meth:`deflated`."""
        G = self._room.reshape(-1)[: len(columns) ** 2].reshape(len(columns), len(columns))
        look_arc.left_block(self.C, by.rows, columns, G)
        return G

    def problem(self, W: Matrix, s: int) -> Problem:
        """Return max ½vᵀGv, G = C deflated by W, with λ above the exactness threshold, which is at most 2·max‖Gx‖∞."""
        G = self.deflated(self.deflation(W))
        self.refuse_nothing_left(G, W)
        lam = 2.5 * math.sqrt(float(np.einsum("ij,ij->i", G, G).max()))
        if self.may_be_indefinite:
            f: Quadratic = Quadratic(-0.5 * (G + G.T))
        else:
            f = NegativeGram(np.negative(G, out=G), np.zeros(len(G)))
        return self._sparse(f, s, lam)

    def problem_on(self, by: Deflation, held: Indices, s: int) -> Problem:
        """Return the problem of the Schur complement G for points on the support ``held``, in O(sn).

        Only these rows and columns of G and its diagonal are formed: values and pair steps at such points read no other
        entries. Again λ is above the exactness threshold: ‖Geⱼ‖² ≤ λ_max(G)·Gⱼⱼ, which is at most trace(C)·Cⱼⱼ.
        """
        G, rows = self._room, -by.block(self.C[held], held, slice(None))
        G[held] = rows
        G[:, held] = rows.T
        np.fill_diagonal(G, -by.diagonal(self.variance))
        lam = 2.5 * math.sqrt(self.total * float(self.variance.max()))
        return self._sparse(NegativeGram(G, np.zeros(len(G))), s, lam)

    def _sparse(self, f: Quadratic, s: int, lam: float) -> Problem:
        h = AbsoluteDeviation(0.0, lam) if self.signed else Bounds(0.0, np.inf) + Linear(lam)
        return Problem(f, h, TopSum(min(s, f.n), lam), Sphere(signed=self.signed))

    def first_loadings(self, W: Matrix, s: int) -> tuple[Matrix, float]:
        """Return a component after W without a product of the size of C, and −½ times the variance that it adds.

        It holds the s largest entries of the column with the largest diagonal entry of G, C deflated by W; or, if that
        is better, the leading eigenvector of G on their support.
        """
        by, every = self.deflation(W), slice(None)
        left = by.diagonal(self.variance)
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
        """Return x, with negative entries set to 0 unless components are signed."""
        return x if self.signed else np.maximum(x, 0.0)

    def adjusted(self, V: Matrix, by_size: bool) -> tuple[Matrix, Indices]:
        """Return the adjusted variances and the order of the components: as in V, or by size if ``by_size``."""
        return adjusted_variances(self.root @ V, by_size)

    def refuse_exhausted(self, W: Matrix) -> None:
        """Raise an error if components W explain all variance, even if their deflation leaves some of C."""
        if self.kind != "schur" and W.shape[1]:
            if float(schur(*self.products(W)).diagonal(self.variance).max()) <= EXHAUSTED * self.total:
                raise ExhaustedError(W)


@supervised
def _root(C: Matrix) -> Matrix:
    """Return R with RᵀR = C and rank(C) rows, by Cholesky factorisation with pivoting."""
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
    """Return x with all but its s entries of largest absolute value set to 0, scaled to length 1."""
    held = np.flatnonzero(x)
    if len(held) > s:
        x = x.copy()
        x[held[np.argsort(-np.abs(x[held]), kind="stable")[s:]]] = 0.0
    length = float(np.linalg.norm(x))
    return x if abs(length - 1.0) <= 1e-15 else x / length


def upper_bounds(data: Source, C: Covariance, sizes: list[int]) -> Matrix:
    """Return for each size an upper bound on the variance of a component with that many loadings.

    It is the sum of the largest variances, which needs no covariance; if C covers all non-constant columns, the smaller
    of that and :func:`counterpoise.solvers.components.component_bound`.
    """
    largest = -np.sort(-data.variance)
    whole = len(data.varying) == len(C) or len(data.varying) == 1
    bounds = {s: float(largest[:s].sum()) for s in set(sizes)}
    if whole:
        bounds = {s: min(bound, component_bound(C.C, s, C.signed, is_semidefinite=True)) for s, bound in bounds.items()}
    return np.array([bounds[s] for s in sizes])


def _all_features(data: Source, pool: Indices, C: Covariance, V: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Return V and CV on all features, and the scores RV, from V with one row per column of the pool."""
    return embedded(V, pool, data.n), data.products(pool, V[: len(pool)]), C.root @ V


def left_out(data: Source, pool: Indices, C: Covariance, V: Matrix, most: int) -> Indices:
    """Return the columns outside the pool with the largest unexplained variance."""
    left = deflation("schur", *_all_features(data, pool, C, V)).diagonal(data.variance)
    left[pool] = 0.0
    chosen = np.argsort(-left, kind="stable")[:most]
    return np.asarray(chosen[left[chosen] > EXHAUSTED * float(data.variance.sum())])


def gaining(data: Source, pool: Indices, C: Covariance, V: Matrix, sizes: list[int], joint: bool, most: int) -> Indices:
    """Return columns outside the pool that would improve a component, given all others or the previous ones.

    As in ``kernels.swap_arc``, drop vᵢ, v̂ = (v − vᵢeᵢ)/‖v − vᵢeᵢ‖, and rotate v̂ towards eⱼ by the best angle. The
    resulting variance is λ_max of [[v̂ᵀGv̂, (Gv̂)ⱼ], [·, G_jj]], where G is the deflated C. If v has fewer non-zeros
    than allowed, none is dropped.
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

"""The covariance of a pool of columns, its deflation by components, and the problem of the next component.

Kinds of deflation have the names of Mackey (2008). The columns of V are components, and P = CV. Every kind has the form
G = C − LᵀR, where L and R have one or two rows per component, so that it applies to all features as well as to a pool.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg as sl

from counterpoise.checks import choice
from counterpoise.kernels import look_arc
from counterpoise.problem import Problem, Result
from counterpoise.solvers.components import component_bound
from counterpoise.solvers.sparse_arc import NegativeGram
from counterpoise.supervision import supervised
from counterpoise.terms.concave import TopSum
from counterpoise.terms.constraint import Sphere
from counterpoise.terms.separable import AbsoluteDeviation, Bounds, Linear
from counterpoise.terms.smooth import Quadratic

if TYPE_CHECKING:
    from counterpoise.estimators.pca_input import Source

Matrix = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

KINDS = ("schur", "hotelling", "projection", "orthogonal")
# A variance below this share of the total is rounding error.
EXHAUSTED = 1e-12
# A column enters the pool only if it raises a component's variance by this share.
GAIN = 1e-9


class Deflation(NamedTuple):
    """G = C − leftᵀ·right, which is symmetric."""

    left: Matrix
    right: Matrix

    @property
    def rows(self) -> Matrix:
        """T with G = C − TTᵀ, for the Schur complement only."""
        return np.ascontiguousarray(self.left.T)

    def diagonal(self, variance: Matrix) -> Matrix:
        """Return the diagonal of G from that of C."""
        return np.asarray(variance - np.einsum("kj,kj->j", self.left, self.right))

    def block(self, C: Matrix, rows: Indices | slice, columns: Indices | slice) -> Matrix:
        """Return G on rows × columns from the same block of C."""
        return np.asarray(C - self.left[:, rows].T @ self.right[:, columns])


def deflation(kind: str, V: Matrix, P: Matrix, Z: Matrix) -> Deflation:
    """Return the deflation of C by components V, from P = CV and, for the Schur complement, Z = RV.

    ``kind`` is "schur", C − CV(VᵀCV)⁻¹VᵀC; or, for each v in turn, "hotelling", C − (vᵀCv)vvᵀ, which may leave negative
    eigenvalues, "projection", (I − vvᵀ)C(I − vvᵀ), or "orthogonal", the same with v made orthogonal to the previous
    components. R is any matrix with RᵀR = C on the support of V.
    """
    if V.shape[1] == 0:
        return Deflation(np.zeros((0, len(P))), np.zeros((0, len(P))))
    if kind == "schur":
        return schur(Z, P)
    if kind == "hotelling":
        theta: list[float] = []
        for v, p in zip(V.T, P.T, strict=True):
            seen = V[:, : len(theta)].T @ v
            theta.append(float(v @ p) - float(np.sum(np.array(theta) * seen**2)))
        return Deflation(np.array(theta)[:, None] * V.T, V.T)
    choice(kind, "deflation", KINDS)
    if kind == "orthogonal":
        Q, T, order = sl.qr(V, mode="economic", pivoting=True, check_finite=False)
        rank = _rank(np.asarray(T))
        CQ = sl.solve_triangular(T[:rank, :rank], P[:, order[:rank]].T, trans="T", check_finite=False).T
        return _projected(np.asarray(Q[:, :rank]), np.asarray(CQ), np.eye(rank))
    K = np.zeros((0, 0))
    for k in range(V.shape[1]):
        # The K of (I − VKVᵀ)(I − vvᵀ) has one more row and column.
        K = np.block([[K, -K @ (V[:, :k].T @ V[:, k : k + 1])], [np.zeros((1, k)), np.ones((1, 1))]])
    return _projected(V, P, K)


def _projected(V: Matrix, P: Matrix, K: Matrix) -> Deflation:
    """Return TᵀCT for T = I − VKVᵀ."""
    left = P @ K
    return Deflation(np.vstack([left.T, V.T]), np.vstack([V.T, K.T @ (P.T - (V.T @ left) @ V.T)]))


def deflate_by(G: Matrix, v: Matrix) -> None:
    """Replace a symmetric G by its Schur complement G − Gv(vᵀGv)⁻¹vᵀG in place, if vᵀGv > 0."""
    held = np.flatnonzero(v)
    g = v[held] @ G[held]
    value = float(g[held] @ v[held])
    if value > 0.0:
        # BLAS needs Fortran order; G equals its transpose.
        sl.blas.dger(-1.0 / value, g, g, a=G.T, overwrite_a=True)


def schur(Z: Matrix, P: Matrix, without: int | None = None) -> Deflation:
    """Return the Schur complement from Z = RV and P = CV, by all components but ``without``: C − BᵀB.

    With Z = QT, B = T⁻ᵀPᵀ = QᵀR. Components that others explain, up to rounding, are left out.
    """
    chosen, B = np.flatnonzero(np.arange(Z.shape[1]) != without), np.zeros((0, len(P)))
    if len(chosen):
        T, order = pivoted(Z[:, chosen])
        rank = _rank(T)
        right = P[:, chosen[order[:rank]]].T
        B = np.asarray(sl.lapack.dtrtrs(T[:rank, :rank], right, lower=0, trans=1, overwrite_b=1)[0])
    return Deflation(B, B)


def pivoted(Z: Matrix) -> tuple[Matrix, Indices]:
    """Return T and the column order of a pivoted QR factorisation; entries of T below its diagonal are arbitrary.

    LAPACK is called directly, because with few columns SciPy's checks would take most of the time.
    """
    factor, order = sl.lapack.dgeqp3(Z)[:2]
    return factor[: Z.shape[1]], order - 1


def _rank(T: Matrix) -> int:
    diagonal = np.abs(T.diagonal())
    return int(np.count_nonzero(diagonal > math.sqrt(EXHAUSTED) * diagonal[0]))


def adjusted_variances(Z: Matrix, by_size: bool) -> tuple[Matrix, Indices]:
    """Return T_kk² of the scores Z = QT and the order of the columns; ``by_size`` orders them by pivoted QR.

    A score that previous ones explain, up to rounding, adds 0 and is left out of the QR: its direction there would be
    arbitrary, and would take variance from later scores.
    """
    variances = np.zeros(Z.shape[1])  # scores beyond the rank add nothing
    if by_size:
        T, order = pivoted(Z)
        variances[: min(Z.shape)] = T.diagonal() ** 2
        return variances, np.asarray(order, dtype=np.intp)
    lengths, kept = np.einsum("ij,ij->j", Z, Z), np.arange(Z.shape[1])
    while True:
        added = np.asarray(np.linalg.qr(Z[:, kept], mode="r")).diagonal() ** 2
        explained = np.flatnonzero(added <= EXHAUSTED * lengths[kept[: len(added)]])
        if not len(explained):
            variances[kept[: len(added)]] = added
            return variances, np.arange(Z.shape[1])
        kept = np.delete(kept, explained[0])


def embedded(values: Matrix, places: Indices, length: int) -> Matrix:
    """Scatter values into an array of zeros at these places."""
    out = np.zeros((length, *values.shape[1:]))
    out[places] = values[: len(places)]
    return out


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

    def refuse_nothing_left(self, left: Matrix) -> None:
        """Raise an error if no variance is left; ``left`` is the diagonal of C deflated by some components."""
        if not self.may_be_indefinite and float(left.max()) <= EXHAUSTED * self.total:
            raise ExhaustedError

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
        self.refuse_nothing_left(np.diag(G))
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
        self.refuse_nothing_left(left)
        column = by.block(self.C[:, most], every, most)[:, 0]
        column[most] = max(float(column[most[0]]), EXHAUSTED * self.total)
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

    def refuse_exhausted(self, W: Matrix) -> None:
        """Raise an error if components W explain all variance, even if their deflation leaves some of C."""
        if self.kind != "schur" and W.shape[1]:
            if float(schur(*self.products(W)).diagonal(self.variance).max()) <= EXHAUSTED * self.total:
                raise ExhaustedError


@supervised
def _root(C: Matrix) -> Matrix:
    """Return R with RᵀR = C and rank(C) rows, by Cholesky factorisation with pivoting."""
    factor, pivots, rank, _ = sl.lapack.dpstrf(C, lower=0)
    R = np.zeros((max(int(rank), 1), len(C)))
    R[:, pivots - 1] = np.triu(factor)[: len(R)]
    return R


class ExhaustedError(Exception):
    """The components V, which have these results, explain all variance of the pool."""

    V: Matrix
    results: list[Result]


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

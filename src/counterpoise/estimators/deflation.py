"""Deflation of a covariance by components, with the names of Mackey (2008).

The columns of V are components, and P = CV. Every kind has the form G = C − LᵀR, where L and R have one or two rows per
component, so that it applies to all features as well as to a pool of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg as sl

from counterpoise.checks import choice

Matrix = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

KINDS = ("schur", "hotelling", "projection", "orthogonal")
# A variance below this share of the total is rounding error.
EXHAUSTED = 1e-12


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
    """Return the deflation of C by components V.

    Parameters
    ----------
    kind : {"schur", "hotelling", "projection", "orthogonal"}
        The Schur complement C − CV(VᵀCV)⁻¹VᵀC; or, for each v in turn, C − (vᵀCv)vvᵀ, (I − vvᵀ)C(I − vvᵀ), or the
        latter with v made orthogonal to the previous components. Hotelling's may leave negative eigenvalues.
    V, P : arrays, features × components
        P = CV.
    Z : array, rows × components
        RV, for any R with RᵀR = C on the support of V; used by the Schur complement only.
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

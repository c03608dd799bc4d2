"""Proofs about exchanges on the sphere: bounds of max ½xᵀGx over x ≥ 0, ‖x‖ = 1 on supports next to one.

The maximum over x ≥ 0 on a support S is at most ½λ_max(G_SS). With τ above λ_max(G_PP), λ_max of P and one more
coordinate j is at most τ if and only if G_jj + bᵀ(τI − G_PP)⁻¹b ≤ τ, b = G_Pj: one factorisation decides all j. Where
that fails the leading eigenvector decides: if it has one sign it is the maximum, and the exchange gains. If not, the
maximum lies on a smaller support, because on the sphere every local maximum is a leading eigenvector; the supports with
one coordinate less are looked at in turn, those with λ_max ≤ τ excluded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.linalg

from counterpoise.checks import Vector

# Eigenproblems that one proof may take before it gives up.
MOST_EIGENPROBLEMS = 3000
# An entry of an eigenvector this close to 0 is rounding.
ONE_SIGN = 1e-10

Blocks = Callable[[Any], Iterator[tuple[int, Vector, Vector]]]


class _Supports:
    """Small supports, looked at by their leading eigenvectors."""

    def __init__(self, ceiling: float) -> None:
        self.ceiling, self.left = ceiling, MOST_EIGENPROBLEMS
        self.better: tuple[float, Vector] | None = None
        self.open = -np.inf

    def look(self, G: Vector) -> bool:
        """Return whether no x ≥ 0 on this support has xᵀGx > τ; note one that has."""
        if self.left <= 0:
            self.open = max(self.open, float(np.linalg.eigvalsh(G)[-1]))
            return False
        done: set[tuple[int, ...]] = set()
        return self._look(G, tuple(range(len(G))), done)

    def _look(self, G: Vector, places: tuple[int, ...], done: set[tuple[int, ...]]) -> bool:
        if not places or places in done:
            return True
        done.add(places)
        self.left -= 1
        values, vectors = np.linalg.eigh(G[np.ix_(places, places)])
        if values[-1] <= self.ceiling:
            return True
        leading = vectors[:, -1] * np.sign(vectors[:, -1].sum() or 1.0)
        if (leading >= -ONE_SIGN).all():
            x = np.zeros(len(G))
            x[list(places)] = np.maximum(leading, 0.0) / float(np.linalg.norm(np.maximum(leading, 0.0)))
            reached = float(x @ G @ x)
            if reached > self.ceiling:
                self.better = reached, x
                return False
        if self.left <= 0:
            self.open = max(self.open, float(values[-1]))
            return False
        proved = True
        for k in range(len(places)):
            proved = self._look(G, places[:k] + places[k + 1 :], done) and proved
            if self.better is not None:
                return False
        return proved


def exchange_bound(blocks: Blocks, x: Vector, s: int, floor: float) -> tuple[float, Vector | None]:
    """Bound what an exchange, or other weights, can gain over ½xᵀGx at a unit x ≥ 0 of at most s non-zeros.

    Parameters
    ----------
    blocks : callable
        ``blocks(held)`` yields (first, G_WJ, the diagonal of G_JJ) for consecutive columns J.
    x : array of length n
    s : int
    floor : float
        Gains up to this are not told from none.

    Returns
    -------
    bound : float
        At most ``floor`` if the point is proved.
    better : array of length n, or None
        A point with an exchange that gains more than ``floor``, if the proof met one.
    """
    held = np.flatnonzero(x)
    m, at = len(held), x[held]
    first = list(blocks(held))
    inside = [(held >= begin) & (held < begin + cross.shape[1]) for begin, cross, _ in first]
    inner = np.hstack([cross[:, held[own] - begin] for own, (begin, cross, _) in zip(inside, first, strict=True)])
    value = float(at @ inner @ at)
    supports = _Supports(value + 2.0 * floor)
    supports.look(inner)
    if supports.better is not None:
        point = np.zeros(len(x))
        point[held] = supports.better[1]
        return 0.5 * (supports.better[0] - value), point
    parents = [np.arange(m)] if m < s else [np.delete(np.arange(m), k) for k in range(m)]
    for begin, cross, diagonal in first:
        outside = np.flatnonzero(~np.isin(np.arange(begin, begin + cross.shape[1]), held))
        for parent in parents:
            G = inner[np.ix_(parent, parent)]
            for j in _undecided(G, cross[np.ix_(parent, outside)], diagonal[outside], supports.ceiling):
                column = outside[j]
                b = cross[parent, column]
                supports.look(np.block([[G, b[:, None]], [b[None, :], np.array([[diagonal[column]]])]]))
                if supports.better is not None:
                    point = np.zeros(len(x))
                    point[held[parent]], point[begin + column] = supports.better[1][:-1], supports.better[1][-1]
                    return 0.5 * (supports.better[0] - value), point
    return max(floor, 0.5 * (supports.open - value)), None


def better_weights(G: Vector, ceiling: float) -> tuple[Vector | None, float]:
    """Return a unit x ≥ 0 with xᵀGx above the ceiling, if there is one, and λ_max of parts that were left open."""
    supports = _Supports(ceiling)
    supports.look(G)
    return (None if supports.better is None else supports.better[1]), supports.open


def _undecided(G: Vector, cross: Vector, diagonal: Vector, ceiling: float) -> Any:
    """Return the columns j for which λ_max of the support with j may be above the ceiling."""
    if len(G) == 0:
        return np.flatnonzero(diagonal > ceiling)
    try:
        factor = scipy.linalg.cholesky(ceiling * np.eye(len(G)) - G, lower=True)
    except np.linalg.LinAlgError:
        return np.arange(len(diagonal))
    reduced = scipy.linalg.solve_triangular(factor, cross, lower=True)
    return np.flatnonzero(diagonal + np.einsum("ij,ij->j", reduced, reduced) > ceiling)


def exchanged(before: Vector, after: Vector, s: int) -> tuple[int, int]:
    """Return which coordinate left (−1 if none had to, because there was room) and which one entered (−1 if none)."""
    left, entered = np.flatnonzero((before > 0.0) & (after == 0.0)), np.flatnonzero((before == 0.0) & (after > 0.0))
    full = np.count_nonzero(before) >= s
    return (int(left[0]) if full and len(left) else -1), (int(entered[0]) if len(entered) else -1)

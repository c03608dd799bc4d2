"""Prove that no exchange on the sphere gains: bounds on max ½xᵀGx, ‖x‖ = 1, over neighbouring supports.

The maximum on a support S is ½λ_max(G_SS) with signs, and at most that if x ≥ 0. With τ above λ_max(G_PP), λ_max of P
and one more coordinate j is at most τ if and only if G_jj + bᵀ(τI − G_PP)⁻¹b ≤ τ, b = G_Pj: one factorisation decides
all j. If the inequality fails, the leading eigenvector decides. With signs it gains. If x ≥ 0, it gains if all its
entries have one sign; otherwise the maximum lies on a smaller support, because a maximum with x > 0 is a leading
eigenvector. The supports with one coordinate fewer are then examined in the same way, except those with λ_max ≤ τ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from counterpoise.checks import Vector

# A proof gives up after this many eigenproblems.
MOST_EIGENPROBLEMS = 3000
# Entries of an eigenvector this close to 0 count as rounding error.
ONE_SIGN = 1e-10
# The number of successively better exchanges that a proof may find before it gives up.
MOST_BETTER = 100
# The eigenvalues of larger matrices are computed only if they are needed for more than a bound.
MOST_OF_SPECTRUM = 600

Blocks = Callable[[Any], Iterator[tuple[int, Vector, Vector]]]


class _Supports:
    """Examines small supports by their leading eigenvectors, against a ceiling τ of xᵀGx."""

    def __init__(self, ceiling: float, signed: bool) -> None:
        self.ceiling, self.signed, self.left = ceiling, signed, MOST_EIGENPROBLEMS
        self.better: tuple[float, Vector] | None = None
        self.open = -np.inf

    def look(self, G: Vector) -> bool:
        """Return whether it is proved that no unit x on this support has xᵀGx > τ; record one that does."""
        if self.left <= 0:
            self.open = max(self.open, float(np.linalg.eigvalsh(G)[-1]))
            return False
        return self._look(G, tuple(range(len(G))), set())

    def _look(self, G: Vector, places: tuple[int, ...], done: set[tuple[int, ...]]) -> bool:
        if not places or places in done:
            return True
        done.add(places)
        self.left -= 1
        values, vectors = np.linalg.eigh(G[np.ix_(places, places)])
        if values[-1] <= self.ceiling:
            return True
        leading = vectors[:, -1] * np.sign(vectors[:, -1].sum() or 1.0)
        if self.signed or (leading >= -ONE_SIGN).all():
            x, kept = np.zeros(len(G)), leading if self.signed else np.maximum(leading, 0.0)
            x[list(places)] = kept / float(np.linalg.norm(kept))
            reached = float(x @ G @ x)
            if reached > self.ceiling:
                self.better = reached, x
                return False
        if self.signed or self.left <= 0:
            self.open = max(self.open, float(values[-1]))
            return False
        proved = True
        for k in range(len(places)):
            proved = self._look(G, places[:k] + places[k + 1 :], done) and proved
            if self.better is not None:
                return False
        return proved


def exchange_bound(
    blocks: Blocks, x: Vector, s: int, floor: float, signed: bool = False
) -> tuple[float, Vector | None]:
    """Bound the gain in ½xᵀGx of any exchange, or of new weights, at a unit x with at most s non-zeros.

    ``blocks(held)`` yields (first column, G_HJ, diagonal of G_JJ) for blocks J of columns in order; H is ``held``.
    Points are at least 0 unless ``signed``. The bound is at most ``floor`` if it is proved that nothing gains more. If
    the proof finds a point that does, it is returned with its gain, otherwise None with the bound.
    """
    held = np.flatnonzero(x)
    m, at = len(held), x[held]
    first = list(blocks(held))
    inside = [(held >= begin) & (held < begin + cross.shape[1]) for begin, cross, _ in first]
    inner = np.hstack([cross[:, held[own] - begin] for own, (begin, cross, _) in zip(inside, first, strict=True)])
    value = float(at @ inner @ at)
    supports = _Supports(value + 2.0 * floor, signed)

    def found(places: Any, reached: float, weights: Vector) -> tuple[float, Vector]:
        point = np.zeros(len(x))
        point[places] = weights
        return 0.5 * (reached - value), point

    supports.look(inner)
    if supports.better is not None:
        return found(held, *supports.better)
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
                    return found(np.append(held[parent], begin + column), *supports.better)
    return max(floor, 0.5 * (supports.open - value)), None


def largest_exchange(
    blocks: Blocks, x: Vector, s: int, gain: float, noise: float, signed: bool = False
) -> tuple[float, Vector | None, float]:
    """Return the largest gain of an exchange, at least ``gain``, its point if above that, and a bound on all gains.

    Every point that :func:`exchange_bound` finds raises the gain to beat, until none beats it by more than ``noise``,
    the rounding error of a gain.
    """
    best: Vector | None = None
    for _ in range(MOST_BETTER):
        bound, better = exchange_bound(blocks, x, s, gain + noise, signed)
        if better is None:
            return gain, best, bound
        gain, best = bound, better
    return gain, best, math.inf


def better_weights(G: Vector, ceiling: float, signed: bool = False) -> tuple[Vector | None, float]:
    """Return a unit x with xᵀGx above the ceiling, or None, and the largest λ_max of undecided supports."""
    supports = _Supports(ceiling, signed)
    supports.look(G)
    return (None if supports.better is None else supports.better[1]), supports.open


def _undecided(G: Vector, cross: Vector, diagonal: Vector, ceiling: float) -> Any:
    """Return the columns j for which λ_max of the support with j may be above the ceiling."""
    from scipy.linalg import cholesky, solve_triangular

    if len(G) == 0:
        return np.flatnonzero(diagonal > ceiling)
    try:
        factor = cholesky(ceiling * np.eye(len(G)) - G, lower=True)
    except np.linalg.LinAlgError:
        return np.arange(len(diagonal))
    reduced = solve_triangular(factor, cross, lower=True)
    return np.flatnonzero(diagonal + np.einsum("ij,ij->j", reduced, reduced) > ceiling)


def exchanged(before: Vector, after: Vector, s: int) -> tuple[int, int]:
    """Return the coordinate that left (−1 if there was room for another) and the one that entered (−1 if none)."""
    left, entered = np.flatnonzero((before != 0.0) & (after == 0.0)), np.flatnonzero((before == 0.0) & (after != 0.0))
    full = np.count_nonzero(before) >= s
    return (int(left[0]) if full and len(left) else -1), (int(entered[0]) if len(entered) else -1)


def component_bound(C: Vector, s: int, signed: bool = True, is_semidefinite: bool | None = None) -> float:
    """Return an upper bound, up to rounding, on max xᵀCx over ‖x‖ = 1 with at most s non-zeros, for a symmetric C.

    With M = |C|, or max(C, 0) for x ≥ 0, and S the support of x, the least of

    * max over rows i of C_ii and the s − 1 largest other M_ij: Gershgorin's circles on S;
    * λ_max of ½(N + Nᵀ), N_ab the a-th largest, over all rows, of the b-th largest entry of a row of M, a, b ≤ s. Both
      sums of xᵀMx = Σᵢ|xᵢ| Σⱼ M_ij|xⱼ| only rise if the entries are sorted as |x| is;
    * λ_max(C), of matrices up to 600 × 600, and the s largest C_ii together if C has no negative eigenvalue.

    It needs the s largest entries of every row, and for small matrices the eigenvalues of C. ``is_semidefinite`` says
    whether C is known to be semidefinite; by default its eigenvalues are computed.

    Examples
    --------
    >>> C = np.array([[2.0, -1.0, 0.5], [-1.0, 2.0, 0.0], [0.5, 0.0, 1.0]])
    >>> component_bound(C, 2), round(component_bound(C, 3), 3)
    (3.0, 3.062)
    """
    n, s = len(C), min(s, len(C))
    M, diagonal = np.abs(C) if signed else np.maximum(C, 0.0), np.diag(C)
    rows = np.sort(np.partition(M, n - s, axis=1)[:, n - s :], axis=1)[:, ::-1]
    N = -np.sort(-rows, axis=0)[:s]
    # Drop the diagonal entry from the s largest, or the least if that is not among them: s − 1 others remain.
    by_rows = float((diagonal + rows.sum(axis=1) - np.maximum(np.diag(M), rows[:, -1])).max())
    bounds = [by_rows, float(np.linalg.eigvalsh(0.5 * (N + N.T))[-1])]
    if n <= MOST_OF_SPECTRUM or is_semidefinite is None:
        spectrum = np.linalg.eigvalsh(C)
        bounds.append(float(spectrum[-1]))
        is_semidefinite = bool(spectrum[0] >= 0.0) if is_semidefinite is None else is_semidefinite
    if is_semidefinite:
        bounds.append(float(np.sort(diagonal)[n - s :].sum()))
    return min(bounds)

"""Local optima over exchanges on the sphere: starts, and children of points found before.

Above the exactness threshold a problem with ``TopSum`` and ``Sphere`` is max ½xᵀGx, G = −Q, over ‖x‖ = 1 with at most s
non-zeros, and x ≥ 0 unless it is signed, because the terms of λ cancel at such points. This module proposes points; the
caller keeps the best ones.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from counterpoise import exactness
from counterpoise.checks import Vector, vector
from counterpoise.kernels import enumerate as enumeration
from counterpoise.kernels import swap_arc
from counterpoise.problem import Problem
from counterpoise.solvers import components
from counterpoise.solvers.population import Population
from counterpoise.supervision import Limits
from counterpoise.terms.smooth import LeastSquares, Quadratic

# An exchange must gain this fraction of the value; smaller gains are rounding error and could make equal columns cycle.
TOLERANCE = 1e-10
# Every exchange of a descent raises the value, so this is only a safeguard.
MOST_SWAPS = 100_000
# Exchanges between two checks of the clock, times sn.
SLICE = 10_000_000
# The number of exchanges that a gap polishes besides scoring all in closed form.
TRIES = 16
# The shares of children that start from a column, and that unite two parents; the rest are kicks.
FRESH, UNITED = 0.3, 0.35
# The range of the fraction of the support that a kick removes at random.
LEAST_KICK, LARGEST_KICK = 0.1, 0.5
# The number of random columns that a child gets besides those of its parents.
STRANGERS = 4


class SparseArc:
    """Starts and children for search on TopSum or AtMost and Sphere, with a quadratic f without linear term.

    Every returned point is feasible, has at most s non-zeros, and none of the exchanges that were tried gains. The same
    generator state gives the same point.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.problems import NNSPCA
    >>> problem = NNSPCA(np.diag([1.0, 3.0, 2.0]), s=2, lam=100.0)
    >>> search = SparseArc(problem)
    >>> search.start(0, np.random.default_rng(0)).tolist()
    [0.0, 1.0, 0.0]
    """

    plan = Population()
    has_supports = True
    threshold = staticmethod(exactness.sparse_on_arc)

    @staticmethod
    def refusal(problem: Problem) -> str | None:
        """Return why a problem cannot be solved on supports, or None."""
        if serves(problem):
            return None
        return (
            "supports on the sphere need f(x) = ½xᵀQx and h = λ‖x‖₁, which is Bounds(0, inf) + Linear(lam) as in "
            "NNSPCA, or with signs AbsoluteDeviation(0, lam) as in SPCA: the terms of λ then cancel on a support. "
            "method 'bcd-g' takes any f and h."
        )

    @staticmethod
    def pool_for(problem: Problem) -> Any:
        """Return the pool of a problem with very many columns, or None."""
        from counterpoise.solvers.pool import arc_pool  # pools use strategies

        return arc_pool(problem)

    def __init__(self, problem: Problem) -> None:
        self.n, self.s, self.limits = problem.n, min(problem.g.s, problem.n), Limits()
        self.signed = bool(problem.u.signed)
        self._f, self._G = problem.f, _semidefinite(problem.f)
        lengths = np.sqrt(np.einsum("ij,ij->i", self._G, self._G))
        self.noise = 64.0 * float(np.finfo(float).eps) * float(np.abs(np.diag(self._G)).max()) * self.s
        self._order = np.argsort(-lengths, kind="stable")
        # How many starts are columns of G; later ones are drawn at random.
        self.starts = max(int(np.count_nonzero(lengths)), 1)

    def start(self, k: int, rng: Generator) -> Vector:
        """Descend from the s largest entries of the k-th longest column of G, later of the sum of two random columns.

        A column of G is a power step from a single coordinate.
        """
        if k < self.starts:
            return self.descend(self._G[self._order[k]])
        pair = self._order[rng.integers(self.starts, size=2)]
        return self.descend(self._G[pair[0]] + rng.random() * self._G[pair[1]])

    def child(self, parents: Sequence[Vector], rng: Generator) -> Vector:
        """Return a point from the union of two parents' supports, from one parent after a kick, or from a column.

        Without children from columns a population may settle around the wrong points.
        """
        drawn = rng.random()
        if drawn < FRESH:
            return self.start(int(rng.integers(self.starts)), rng)
        if len(parents) > 1 and drawn < FRESH + UNITED:
            first, second = rng.choice(len(parents), size=2, replace=False)
            return self._united(parents[first], parents[second], rng)
        return self._kicked(parents[int(rng.integers(len(parents)))], rng)

    def descend(self, x: Any) -> Vector:
        """Exchange from the s largest coordinates of x until no exchange tried gains; return the point."""
        point = vector(x, "x", self.n)
        point = point.copy() if self.signed else np.maximum(point, 0.0)
        swaps = max(1, SLICE // (self.s * self.n)) if math.isfinite(self.limits.left()) else MOST_SWAPS
        while self._exchange(point, swaps) >= swaps and not self.limits.reached():
            pass
        return point

    def _exchange(self, point: Vector, swaps: int) -> int:
        """Make at most ``swaps`` exchanges, in place; return their number."""
        return int(swap_arc.descend(self._G, point, self.s, TOLERANCE, swaps, self.signed))

    def tolerance(self, x: Vector, tol: float) -> float:
        """Return the least gain that counts: a fraction of |f|, without the shift of G, plus rounding error."""
        return float(tol * abs(self._f.value(x)) + self.noise)

    def weighted(self, x: Any) -> Vector:
        """Return the best weights on the support of x; if x ≥ 0, the best that polishing and eigenvectors give."""
        return self._best_weights(vector(x, "x", self.n))[0]

    def _best_weights(self, x: Vector) -> tuple[Vector, float]:
        """Return the best weights, and the largest λ_max of supports left undecided, −∞ if there are none."""
        held, at, opened = np.flatnonzero(x), self._polished(x), -np.inf
        inner = self._G[np.ix_(held, held)]
        # Polishing is local: eigenvectors on parts of the support may be better.
        for _ in range(len(held)):
            ceiling = float(at @ self._G @ at) + 2.0 * self.noise
            better, opened = components.better_weights(inner, ceiling, self.signed)
            if better is None:
                break
            at = np.zeros(self.n)
            at[held] = better
            at = self._polished(at)
        return at, opened

    def _polished(self, x: Vector) -> Vector:
        at = x.copy()
        swap_arc.polish(self._G, at, self.signed)
        return at

    def advance(self, x: Vector, swaps: int, floor: float) -> tuple[Vector, int, float]:
        """Make at most ``swaps`` exchanges; return the point, their number, and the bound that :meth:`gap` proves.

        The bound is NaN if there may be more exchanges. An exchange that only the proof finds is also made.
        """
        point = np.array(x)
        made = self._exchange(point, swaps)
        if made >= swaps:
            return point, made, math.nan
        # Slightly below the floor: polishing moves x by rounding, which changes the caller's tolerance.
        bound, better = components.exchange_bound(self._blocks, point, self.s, (1.0 - 1e-6) * floor, self.signed)
        if better is not None:
            return self.weighted(better), made + 1, math.nan
        return point, made, bound

    def gap(self, x: Any) -> tuple[float, float, int, int, float]:
        """Return (own, gain, leaves, enters, bound), as :func:`counterpoise.certificates.swap_gap` does.

        Every exchange is scored in closed form, those with the best scores are polished, and eigenvalues bound all.
        """
        at, opened = self._best_weights(vector(x, "x", self.n))
        value = 0.5 * float(at @ self._G @ at)
        own = max(float(self._f.value(x) - self._f.value(at)), 0.0)  # without the shift of G, which would add rounding
        gain, leaves, enters = swap_arc.swap_gap(self._G, at, self.s, TRIES, self.signed)
        if gain <= self.noise:
            gain, leaves, enters = 0.0, -1, -1
        more, found, bound = components.largest_exchange(self._blocks, at, self.s, float(gain), self.noise, self.signed)
        if found is not None:
            gain, (leaves, enters) = more, components.exchanged(at, found, self.s)
        bound = max(bound, float(gain), 0.5 * opened - value)
        return own, float(gain), int(leaves), int(enters), own + bound

    def _blocks(self, held: Any) -> Iterator[tuple[int, Vector, Vector]]:
        """Yield (first column, held rows of G, diagonal of G) once, for all columns."""
        yield 0, self._G[held], np.diag(self._G)

    def enumeration(self) -> tuple[str, int, Callable[[Vector], Iterator[int]]]:
        """Return what is enumerated, how many there are, and the function that enumerates, improving x in place."""
        # With signs the largest supports suffice, because they contain the others.
        sizes = range(self.s if self.signed else 1, self.s + 1)
        return "components", sum(math.comb(self.n, k) for k in sizes), self._all_components

    def _all_components(self, x: Vector) -> Iterator[int]:
        G = -self._f.Q
        # F is minus half of the eigenvalue: components within ``noise`` of it are as good.
        value = float(x @ G @ x) + self.noise
        for first in range(self.n):
            value, solved = enumeration.components_from(G, first, self.s, value, self.signed, x)
            yield int(solved)

    def _united(self, first: Vector, second: Vector, rng: Generator) -> Vector:
        """Polish on both supports and a few more columns, eliminate down to s, then descend."""
        # With signs x and −x are the same component; entries of both must not cancel.
        other = -second if self.signed and first @ second < 0.0 else second
        x = np.where(first == 0.0, other, first) if self.signed else first + second
        strangers = rng.integers(self.n, size=STRANGERS)
        weight = 1.0 / np.sqrt(self.s)
        x[strangers] = np.where(np.abs(x[strangers]) < weight, weight, x[strangers])
        swap_arc.shrink(self._G, x, self.s, self.signed)
        return self.descend(x)

    def _kicked(self, parent: Vector, rng: Generator) -> Vector:
        """Exchange a random part of the support for random columns, then descend."""
        x, held = parent.copy(), np.flatnonzero(parent)
        count = max(int(rng.uniform(LEAST_KICK, LARGEST_KICK) * len(held)), 1)
        x[rng.choice(held, size=count, replace=False)] = 0.0
        x[rng.integers(self.n, size=count)] = 1.0 / np.sqrt(self.s)
        return self.descend(x)


def serves(problem: Problem) -> bool:
    """Return whether F = ½xᵀQx up to a constant at every s-sparse point, so that only f is minimised on a support."""
    if problem.f.quadratic is None:
        return False
    return not np.any(problem.f.p) and bool(problem.u.cancels(problem.separable, problem.g.lam))


class NegativeGram(Quadratic):
    """f(x) = ½xᵀQx + pᵀx with a Q that is known to be negative semidefinite, such as −AᵀA; it is not copied."""

    is_known = is_concave = True

    def __init__(self, Q: Vector, p: Vector) -> None:
        self.Q, self.p, self.n = Q, p, len(Q)
        self.diagonal = np.ascontiguousarray(np.diag(Q))

    @functools.cached_property
    def reach(self) -> Vector:
        """Numbers wᵢ with |Q_ij| ≤ wᵢwⱼ: the square roots of the |diagonal|, because Q is semidefinite."""
        roots: Vector = np.sqrt(np.abs(self.diagonal))
        return roots


def _semidefinite(f: LeastSquares | Quadratic) -> Vector:
    """Return −Q + σI, semidefinite so that power steps never descend; ½σ‖x‖² is constant on the sphere."""
    G = -f.Q
    if not f.is_concave:
        G[np.diag_indices(f.n)] += max(-float(np.linalg.eigvalsh(G)[0]), 0.0)
    return np.ascontiguousarray(G)

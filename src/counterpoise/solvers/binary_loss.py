"""Starts and children for a search over binary points if f = Σφ(Ax − y) is not quadratic.

Points are proposed by the search for quadratic f, on models of f. Exchanges of two entries are made on f itself: f is
convex, so that ⟨∇f, d⟩ bounds its change from below, which rules out many of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from counterpoise.checks import Vector, is_sparse, vector
from counterpoise.problem import Problem, Status
from counterpoise.solvers.binary import Binary
from counterpoise.solvers.population import Population
from counterpoise.supervision import Limits

# Models of a job, each at the end of the descent from the last, and the mixes of curvature and bound they draw from.
ROUNDS, MIXES = 3, (0.0, 0.1, 1.0)
# The mix by which exchanges are estimated.
ESTIMATED = 0.1
# The exchanges per coordinate that a search tries in vain before a point counts as a local optimum.
TRIES_EACH = 20
# Exchanges that are evaluated together; the best of them is made.
BATCH = 32


class BinaryLoss:
    """Binary points as in :class:`counterpoise.solvers.binary.Binary`, for a loss."""

    plan = Population(first=8, work=32)
    has_supports, takes_losses = False, True
    threshold, refusal, pool_for = Binary.threshold, staticmethod(Binary.refusal), staticmethod(Binary.pool_for)

    def __init__(self, problem: Problem) -> None:
        f = problem.f
        self.problem, self.limits, self.centre = problem, Limits(), problem.project(np.zeros(problem.n))
        self.frame = Binary(problem.model(self.centre))
        A = f.A.toarray() if is_sparse(f.A) else f.A
        self.columns = np.ascontiguousarray(A.T, dtype=np.float64)

    def value(self, x: Vector) -> float:
        """Return f + h: F up to a constant on binary points."""
        return float(self.problem.f.value(x)) + float(self.problem.separable.weight @ x)

    def start(self, k: int, rng: np.random.Generator) -> Vector:
        """Return the best descent from a start of :class:`Binary` on a model at the centre or at a random point."""
        at = self.centre if k == 0 else self.frame.round(rng.random(self.problem.n))
        return self._proposed(at, lambda model: model.start(k, rng), rng)

    def child(self, parents: list[Vector], rng: np.random.Generator) -> Vector:
        """Return the best descent from a child of one parent on a model at that parent."""
        parent = parents[int(rng.integers(len(parents)))]
        return self._proposed(parent, lambda model: model.child([parent], rng), rng)

    def _proposed(self, at: Vector, propose: Callable[[Binary], Vector], rng: np.random.Generator) -> Vector:
        """Descend from points that are proposed on models, the first at ``at``, while that gains; return the best."""
        best, least = at, np.inf
        for _ in range(ROUNDS):
            model = Binary(self.problem.model(at, float(rng.choice(MIXES))))
            model.limits = self.limits
            at = self.descend(propose(model))
            if self.value(at) >= least:
                break
            best, least = at, self.value(at)
            if self.limits.reached():
                break
        return best

    def descend(self, x: Any) -> Vector:
        """Return a point that no exchange tried improves, from any x: its largest entries become b, the others −b."""
        point = self.frame.round(vector(x, "x", self.problem.n))
        n = self.problem.n
        while self._exchange(point, TRIES_EACH * n, n) and not self.limits.reached():
            pass
        return point

    def round(self, x: Vector) -> Vector:
        """Return the binary point nearest to x."""
        return self.frame.round(x)

    def advance(self, x: Vector, trials: int) -> tuple[int, int, Status | None]:
        """Make a round of at most ``trials`` exchanges from a binary x, in place.

        Return how many were tried, how many were made, and STATIONARY if no further exchange gains.
        """
        made = self._exchange(x, self.problem.n**2, trials)
        ends = not (made or trials == 0 or self.limits.reached())
        return min(max(made, 1), trials), made, Status.STATIONARY if ends else None

    def _exchange(self, x: Vector, tries: int, most: int) -> int:
        """Exchange entries of x that lower f + h, each at most once, in place; return how many exchanges were made.

        The most promising pairs come first. The rest is left out after ``tries`` pairs in a row without a gain, or
        ``most`` exchanges.
        """
        f, w = self.problem.f, self.problem.separable.weight
        z, value = f.residual(x), self.value(x)
        noise = 64.0 * float(np.finfo(float).eps) * (f.value_size(x) + float(np.abs(w) @ np.abs(x)))
        low, high = np.flatnonzero(x < x.max()), np.flatnonzero(x > x.min())
        slope, H = f.gradient(x) + w, self.problem.model(x, ESTIMATED).f.Q
        rise = np.maximum(x[high] - x[low, None], 0.0)
        least = rise * (slope[low, None] - slope[high])
        bend = np.diag(H)[low, None] + np.diag(H)[high] - 2.0 * H[np.ix_(low, high)]
        pairs = np.flatnonzero(least < -noise)
        pairs = pairs[np.argsort((least + 0.5 * rise**2 * bend).ravel()[pairs], kind="stable")]
        made, idle, linear, used = 0, 0, float(w @ x), np.zeros(len(x), dtype=np.bool_)
        for first in range(0, len(pairs), BATCH):
            if idle >= tries or made >= most or self.limits.reached():
                break
            batch = pairs[first : first + BATCH]
            i, j = low[batch // len(high)], high[batch % len(high)]
            fresh = ~(used[i] | used[j])
            i, j = i[fresh], j[fresh]
            if len(i) == 0:
                continue
            step = x[j] - x[i]
            moved = z + step[:, None] * (self.columns[i] - self.columns[j])
            reached = self._sums(moved) + linear + step * (w[i] - w[j])
            k = int(np.argmin(reached))
            idle += len(i)
            if reached[k] < value - noise:
                linear += float(step[k] * (w[i[k]] - w[j[k]]))
                z, value, made, idle, used[[i[k], j[k]]] = moved[k], float(reached[k]), made + 1, 0, True
                x[i[k]], x[j[k]] = x[j[k]], x[i[k]]
        return made

    def _sums(self, z: Vector) -> Vector:
        """Return Σₜvₜφ(zₜ) for every row of z."""
        f = self.problem.f
        if getattr(f.phi, "takes_rows", False):
            sums: Vector = f.weighted(f.phi.value(z)).sum(axis=1)
            return sums
        return np.array([float(f.weighted(f.phi.value(row)).sum()) for row in z])

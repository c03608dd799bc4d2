"""The interface of search strategies, and the strategy for a λ at which best points need not be sparse or binary."""

from __future__ import annotations

import functools
import math
from typing import Protocol

import numpy as np

from counterpoise.checks import Vector
from counterpoise.problem import Problem, Status
from counterpoise.solvers.baselines import pdca
from counterpoise.solvers.bcd import bcd_g
from counterpoise.solvers.faces import walk_on_faces
from counterpoise.solvers.population import Population
from counterpoise.supervision import Limits

# Limits below the exactness threshold: pair steps per coordinate, steps of the DC method, Newton steps on faces.
PAIRS_EACH, GLIDE, FACES = 200, 300, 40


class Strategy(Protocol):
    """How a search makes starts, and children of two points."""

    plan: Population
    limits: Limits

    def start(self, k: int, rng: np.random.Generator) -> Vector:
        """Return a local optimum, from the k-th start."""

    def child(self, parents: list[Vector], rng: np.random.Generator) -> Vector:
        """Return a local optimum near two points."""

    def descend(self, x: Vector) -> Vector:
        """Return a local optimum near a point."""


class Penalised:
    """Descents on the penalised objective itself, for a λ at which the best points need not be sparse or binary.

    Starts come in turn from the strategy for sparse or binary points, from a random point and, if g is smooth, from a
    direction in which f hardly grows: −λ‖x‖ rewards length, so minimisers lie near such directions. A child exchanges
    the values of some coordinates of one point, or averages two points. All are followed by BCD-g. Most starts first
    take steps on all coordinates at once.
    """

    def __init__(self, problem: Problem, exact: Strategy | None, limits: Limits) -> None:
        self.problem, self.exact, self.limits = problem, exact, limits
        self.plan = Population() if exact is None else exact.plan
        self.has_corners = problem.free is not None

    def start(self, k: int, rng: np.random.Generator) -> Vector:
        """Descend from a sparse or binary point, a random one, or a direction in which f hardly grows."""
        kinds = 2 if self.has_corners else 3
        if k % kinds == 0 and self.exact is not None:
            x = self.exact.start(k // kinds, rng)
            return self.descend(x if self.has_corners else self.glide(x))
        flat = not self.has_corners and k % kinds == 1
        x = self._flat_direction(rng) if flat else self.problem.start(int(rng.integers(2**31)))
        return self.descend(self.glide(x))

    def child(self, parents: list[Vector], rng: np.random.Generator) -> Vector:
        """Exchange the values of a few random pairs of the first parent, or average both, and descend."""
        x = parents[0].copy()
        if rng.random() < 0.3:
            x = self.problem.project(0.5 * (parents[0] + parents[-1]))
        else:
            high = np.argsort(-np.abs(x) if self.has_corners else -x, kind="stable")[: max(1, self._large(x))]
            for _ in range(int(rng.integers(1, 4))):
                i, j = int(rng.choice(high)), int(rng.integers(len(x)))
                x[i], x[j] = x[j], x[i]
            if self.problem.violation(x) > 1e-12:
                x = self.problem.project(x)
        return self.descend(x)

    def descend(self, x: Vector) -> Vector:
        """Return the end of BCD-g from x; if g is smooth and pairs do not converge, then step on all coordinates."""
        # The closed forms on a support may violate the constraint by more than the allowed rounding error.
        x = x if self.problem.is_feasible(x) else self.problem.project(x)
        end = bcd_g(self.problem, x, max_iter=PAIRS_EACH * self.problem.n, max_time=self.seconds())
        found: Vector = end.x
        return found if self.has_corners or end.status is Status.CERTIFIED else self.glide(found)

    def seconds(self) -> float | None:
        """Return the seconds that one descent may take; None if there is no time limit."""
        left = self.limits.left()
        return None if math.isinf(left) else left

    def glide(self, x: Vector) -> Vector:
        """Step on all coordinates at once: by the DC method and, if g is smooth and f quadratic, by Newton steps.

        The DC method does not handle kinks of h, nor bounds that are not convex; then x is returned unchanged.
        """
        x = x if self.problem.is_feasible(x) else self.problem.project(x)
        if (len(self.problem.separable.centre) and not self.problem.u.signed) or not self.problem.is_convex_set:
            return x
        found: Vector = pdca(self.problem, x, extrapolate=True, max_iter=GLIDE, max_time=self.seconds()).x
        if self.has_corners or self.problem.f.quadratic is None:
            return found
        return walk_on_faces(self.problem, found, FACES, self.limits)

    def _flat_direction(self, rng: np.random.Generator) -> Vector:
        """Draw from N(0, Q⁻¹), scale to the length of a binary point, and project."""
        values, vectors = self._spectrum
        along = rng.standard_normal(len(values)) / np.sqrt(np.maximum(values, 1e-8 * values[-1]))
        x = vectors @ along
        x *= math.sqrt(len(x)) * float(self.problem.separable.hi[0]) / float(np.linalg.norm(x))
        return self.problem.project(x)

    @functools.cached_property
    def _spectrum(self) -> tuple[Vector, Vector]:
        values, vectors = np.linalg.eigh(self.problem.f.majorant.Q)
        return values, vectors

    def _large(self, x: Vector) -> int:
        return len(x) // 2 if self.problem.free is None else min(self.problem.free, len(x))

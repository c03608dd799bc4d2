"""Newton's method on a support of the line, for an f = Σφ(Ax − y) that is not quadratic.

A step minimises a model of F with the local curvatures over the held coordinates, by the kernel for quadratic f, which
handles bounds, floors, groups and kinks. A line search on the true F follows. If that fails, the next model is closer
to the upper bound of the curvatures. F is convex on a support, so the Frank–Wolfe gap bounds the remaining gain.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from counterpoise.certificates import linear_gap
from counterpoise.checks import Vector, is_sparse
from counterpoise.kernels import swap_line
from counterpoise.problem import Problem
from counterpoise.supervision import Limits
from counterpoise.terms.losses import SMALLEST_MIX
from counterpoise.terms.separable import is_gapped, one_sided_slopes, separable_value, take

# The most Newton steps on a support; the fraction of its predicted decrease that a full step must reach; line steps.
NEWTON_STEPS, ACCEPTED, LINE_STEPS = 60, 0.25, 40
# If a predicted decrease is below this fraction of the distance to ``below``, the gap may prove that out of reach.
NEAR = 0.1
# The least curvature of a first model, as a fraction of the bound.
LEAST_CURVATURE = 1e-3
# The work of a Newton step over s of n coordinates with m rows: OVERHEAD + PER_GRAM·ms² + PER_PROGRAM·s³, about one
# nanosecond each; a knot of h adds KNOTTED times the last.
OVERHEAD, PER_GRAM, PER_PROGRAM, KNOTTED = 150_000, 0.07, 0.6, 5
# Stands for 0 in kernels that drop zeros.
TINY = 1e-250


class Solved(NamedTuple):
    """The best point found on a support, f + h there relative to h(0), a bound on the remaining gain, and the work."""

    x: Vector
    value: float
    gap: float
    work: float = 0.0


class LossSupports:
    """f + h on the line, minimised over given coordinates."""

    def __init__(self, problem: Problem) -> None:
        f, h = problem.f, problem.separable
        self.problem, self.s, self.limits = problem, min(int(problem.g.s), problem.n), Limits()
        A = f.A.toarray() if is_sparse(f.A) else f.A
        self.columns = np.ascontiguousarray(A.T, dtype=np.float64)
        self.squares = self.columns**2
        self.must = h.lo > 0.0
        self.ruled = is_gapped(h) or bool(problem.u.groups)
        self.u = problem.u.kernel(h)
        # Values, slopes and gaps on a support are those of F itself.
        middle = problem.project(np.full(problem.n, 1.0 / problem.n))
        self.noise = 64.0 * problem.value_and_resolution(middle, by_models=False)[1]
        self._unused = np.empty(5)

    def _model(self, held: Any, x: Vector, z: Vector, curvature: Vector) -> swap_line.Support:
        """Return the model of F at x with the given curvatures, over the held coordinates only."""
        h, f = take(self.problem.separable, held), self.problem.f
        rows = self.columns[held]
        Q = (rows * f.weighted(curvature)) @ rows.T
        b = rows @ f.weighted(f.phi.slope(z)) + h.weight - Q @ x[held]
        Q[np.diag_indices(len(held))] += h.bend
        nothing = np.zeros(len(held))
        u = self.u._replace(leaf=self.u.leaf[held]) if self.problem.u.groups else self.u
        return swap_line.Support(Q, b, h._replace(weight=nothing, bend=nothing), u, 0.0, self.ruled)

    def solve(self, x: Vector, held: Any, solved: float, below: float = math.inf) -> Solved | None:
        """Minimise f + h over the held coordinates from weights x, feasible or not; None if no weights are feasible.

        It stops early once the gap proves that the value cannot reach ``below``.
        """
        f, own, rows = self.problem.f, take(self.problem.separable, held), self.columns[held]
        at_zero, floors = separable_value(own, np.zeros(len(held))), own.floor > own.lo
        x, w, z = x.copy(), x[held], rows.T @ x[held] - f.y
        value, mix, gap, steps = math.inf, LEAST_CURVATURE, math.inf, 0
        for _ in range(NEWTON_STEPS):
            steps += 1
            curvature = f.phi.curvature(z)
            curvature = curvature + mix * (f.phi.bound - curvature)
            end = np.where(floors, w, np.maximum(w, TINY))
            model = self._model(held, x, z, curvature)
            if not math.isfinite(swap_line.descend(model, end, len(held), 0.0, 0.0, 0, 1, 1, self._unused)[0]):
                return None
            end[end < 2.0 * TINY] = 0.0
            step = end - w
            along = rows.T @ step
            bent = float(f.weighted(f.phi.slope(z)) @ along + 0.5 * f.weighted(curvature) @ (along * along))
            promised, last, t = separable_value(own, w) - separable_value(own, end) - bent, value, 1.0
            value = self._sum(own, end, z + along) - at_zero
            # When F changes only by rounding, its slopes are still accurate: the last steps are judged by the gap.
            by_gap = promised <= self.noise and math.isfinite(last)
            if not by_gap and last - value < ACCEPTED * promised:
                t = self._lowest(own, w, step, z, along)
                end = w + t * step
                value = self._sum(own, end, z + t * along) - at_zero
                if last - value <= 0.0 and mix >= 1.0:
                    value = last
                    break
            before = x, w, z, gap
            x, w, z = x.copy(), end, z + t * along
            x[held] = w
            # The gap costs as much as a step, so it is computed only if it may end the iteration.
            enough = solved * abs(value) + self.noise
            gap = math.inf
            if by_gap or promised <= max(enough, NEAR * (value - below)):
                gap = self._left(x, held[~(floors & (w == 0.0))], z)
                if gap <= enough or value - gap > below:
                    break
                if by_gap and gap >= before[-1]:
                    (x, w, z, gap), value = before, last
                    if mix >= 1.0:
                        break
                    mix = 10.0 * max(mix, LEAST_CURVATURE)
                    continue
            mix = max(0.1 * mix, SMALLEST_MIX) if by_gap or last - value >= 0.5 * promised else min(10.0 * mix, 1.0)
        if math.isinf(gap):
            gap = self._left(x, held[~(floors & (x[held] == 0.0))], self.problem.f.residual(x))
        return Solved(x, value, gap, steps * self.work_of(len(held)))

    def work_of(self, held: int) -> float:
        """Return the work of a Newton step over so many coordinates."""
        knots = len(self.problem.separable.centre)
        program = PER_PROGRAM * (1 + KNOTTED * knots) * held**3
        return OVERHEAD + PER_GRAM * int(self.problem.f.m) * held**2 + program

    def _sum(self, own: Any, w: Vector, z: Vector) -> float:
        """Return f + h of the held coordinates."""
        f = self.problem.f
        return float(f.weighted(f.phi.value(z)).sum()) + separable_value(own, w)

    def _left(self, x: Vector, members: Any, z: Vector) -> float:
        """Return a bound on the gain of better weights on the members."""
        gradient = np.zeros(len(x))
        gradient[members] = self.columns[members] @ self.problem.f.weighted(self.problem.f.phi.slope(z))
        return linear_gap(self.problem, x, members, gradient)

    def _lowest(self, own: Any, w: Vector, step: Vector, z: Vector, along: Vector) -> float:
        """Return the t ∈ [0, 1] at which F is lowest along w + t·step, by bisection on its slope."""
        f = self.problem.f

        def falls(t: float) -> bool:
            left, right = one_sided_slopes(own, w + t * step)
            slope = float(f.weighted(f.phi.slope(z + t * along)) @ along)
            return slope + float(np.where(step > 0.0, left, right) @ step) <= 0.0

        if falls(1.0):
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(LINE_STEPS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if falls(middle) else (low, middle)
            if high - low < 1e-3 * high:
                break
        return low

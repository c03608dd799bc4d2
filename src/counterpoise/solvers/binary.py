"""Starts and children for a search over binary points: binary least squares with a fixed sum.

On the vertices of {−b ≤ x ≤ b, 1ᵀx = c} the concave term of DCPB1 and DCPB2 is constant, so the search minimises
½xᵀQx + pᵀx alone, by exchanges of two entries. Which method is best depends on the columns: tabu search is far better
on similar ones, such as Gaussian columns; annealing is if their norms differ by orders of magnitude, as those of pixels
do. Children choose one of the two at random, more often the one that suits the columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from counterpoise import exactness
from counterpoise.checks import Vector, vector
from counterpoise.kernels import enumerate as enumeration
from counterpoise.kernels import exchange
from counterpoise.problem import Problem, Status
from counterpoise.solvers.population import Population
from counterpoise.supervision import Limits
from counterpoise.terms.separable import is_gapped, is_linear

TENURE, TENURE_SPREAD = 3, 4
# The share of children that are annealed if no column is short, what is added to it if all are, and the fraction of the
# mean Q_ii below which a column is short.
ANNEALED, ANNEALED_IF_SHORT, SHORT = 0.2, 0.8, 0.25
# Temperatures, in multiples of the mean Q_ii: first ones from a random point, a range from a good point, and the last.
HOT, WARM, COLD = 0.3, (0.06, 0.6), 0.03
# Work per call, which then takes 5 to 30 milliseconds: steps per coordinate, and limits for large n.
TABU_STEPS, TABU_WORK = 20, 5_000_000
PROPOSALS, MOST_PROPOSALS = 300, 150_000
HOMOTOPY_STEPS, HOMOTOPY_WORK = 200, 40_000_000
FEWEST_STEPS = 20
# Exchanges between two checks of the clock, times n²; the most exchanges of a descent without a time limit.
ADVANCE_WORK, MOST_EXCHANGES = 20_000_000, 10**9


class Binary:
    """Starts and children for search on Norm2 or ConcaveQuadratic, Sum and bounds −b ≤ x ≤ b.

    All entries of a returned point are exactly ±b except at most one, whose value the sum fixes; there is one if and
    only if no vector of ±b has the sum c. Calls are deterministic given ``rng``; the instance keeps no state.
    """

    plan = Population()
    has_supports = False
    for_losses = "counterpoise.solvers.binary_loss:BinaryLoss"
    threshold = staticmethod(exactness.binary_on_line)
    pool_for = staticmethod(lambda problem: None)  # all columns of a binary point are non-zero

    @staticmethod
    def refusal(problem: Problem) -> str | None:
        """Return why a problem cannot be searched over binary points, or None."""
        h = problem.separable
        if problem.g.lam == 0.0:
            return "it has no g, or λ = 0, so that nothing asks for sparse or binary points; method 'bcd-g' serves it."
        if not is_linear(h) or is_gapped(h) or problem.u.groups:
            return "the search over binary points takes Bounds and Linear as h, and Sum without groups as u."
        b = float(h.hi[0])
        if not (np.isfinite(b) and b > 0.0 and (h.hi == b).all() and (h.lo == -b).all()):
            return "the search over binary points needs Bounds(-b, b) with one finite b > 0 for all coordinates."
        return None

    def __init__(self, problem: Problem) -> None:
        refusal = self.refusal(problem)
        if refusal is not None:
            raise ValueError(refusal)
        self.problem, self.b, c = problem, float(problem.separable.hi[0]), problem.u.c
        self.limits = Limits()
        self.n = n = problem.n
        if not problem.f.gram:
            raise ValueError(
                f"Exchanges between binary points keep AᵀA, here {problem.n} × {problem.n}; give "
                "LeastSquares(…, gram=True) if that fits, or use method 'bcd-g'."
            )
        # In units of b the bounds are ±1.
        self.Q = problem.f.Q if self.b == 1.0 else self.b**2 * problem.f.Q
        self.p = self.b * (problem.f.p + problem.separable.weight)
        self.c = min(max(c / self.b, -float(n)), float(n))
        self.ones, self.fraction = _count_ones(n, self.c)
        self.diagonal = np.ascontiguousarray(np.diag(self.Q))
        # The largest Q_ij with j ≠ i of every row i.
        self.ceiling = np.where(np.eye(n, dtype=np.bool_), -np.inf, self.Q).max(axis=1)
        self.scale = float(np.abs(self.diagonal).mean()) or 1.0
        short = float(np.mean(np.abs(self.diagonal) < SHORT * self.scale))
        self.annealed_share = ANNEALED + ANNEALED_IF_SHORT * short
        rounding = 64.0 * float(np.finfo(float).eps)
        self.floor = rounding * float((np.abs(self.Q).sum(axis=1) + np.abs(self.p)).max())

    def value(self, x: Vector) -> float:
        """Return ½xᵀQx + (p + w)ᵀx: F up to a constant on the points of this class."""
        z = x / self.b
        return float(z @ (0.5 * (self.Q @ z) + self.p))

    def start(self, k: int, rng: np.random.Generator) -> Vector:
        """Return the point of the homotopy for k = 0, a random one for k > 0, improved by tabu search or annealing."""
        annealing_first = self.annealed_share > 0.5
        z = self._homotopy(rng) if k == 0 else self._round(rng.random(self.n))
        if annealing_first == (k % 2 == 0):
            return self.b * self._anneal(z, _between(*WARM, rng) if k == 0 else HOT, rng)
        return self.b * self._search_by_tabu(z, rng)

    def child(self, parents: list[Vector], rng: np.random.Generator) -> Vector:
        """Return the better of two random parents, reheated and annealed, or perturbed and improved by tabu search."""
        drawn = [parents[int(k)] for k in rng.integers(len(parents), size=2)]
        z = self._round(min(drawn, key=self.value))
        if rng.random() < self.annealed_share:
            return self.b * self._anneal(z, _between(*WARM, rng), rng)
        return self.b * self._search_by_tabu(self._shake(z, rng), rng)

    def descend(self, x: Any) -> Vector:
        """Return a point that no exchange improves, from any x: its largest entries become b, the others −b."""
        return self.b * self._descend(self._round(vector(x, "x", self.n)))

    def round(self, x: Vector) -> Vector:
        """Return the binary point nearest to x."""
        return self.b * self._round(x)

    def advance(self, x: Vector, trials: int) -> tuple[int, int, Status | None]:
        """Make at most ``trials`` exchanges from a binary x, in place, for some milliseconds.

        Return how many were tried, how many were made, and STATIONARY if no further exchange gains.
        """
        z = x / self.b
        most = min(max(16, ADVANCE_WORK // self.n**2), trials)
        made = exchange.descend(self.Q, self.p, self.diagonal, self.ceiling, self.floor, most, z, np.empty(self.n))
        x[:] = self.b * z
        return min(max(int(made), 1), trials), int(made), None if made >= most else Status.STATIONARY

    def _round(self, x: Vector) -> Vector:
        """Return the binary point nearest to x, in units of b; among equal entries the first become larger."""
        order, z = np.argsort(-x, kind="stable"), np.full(self.n, -1.0)
        z[order[: self.ones]] = 1.0
        if self.fraction is not None:
            z[order[self.ones]] = self.fraction
        return z

    def _shake(self, z: Vector, rng: np.random.Generator) -> Vector:
        """Return z after about n/16 random exchanges of a 1 with a −1."""
        z, upper, lower = z.copy(), np.flatnonzero(z == 1.0), np.flatnonzero(z == -1.0)
        count = min(max(2, int(rng.random() * self.n / 8)), len(upper), len(lower))
        z[rng.choice(upper, count, replace=False)] = -1.0
        z[rng.choice(lower, count, replace=False)] = 1.0
        return z

    def _descend(self, z: Vector) -> Vector:
        most = max(16, ADVANCE_WORK // self.n**2) if math.isfinite(self.limits.left()) else MOST_EXCHANGES
        data = self.Q, self.p, self.diagonal, self.ceiling, self.floor
        while exchange.descend(*data, most, z, np.empty(len(z))) >= most and not self.limits.reached():
            pass
        return z

    def _search_by_tabu(self, z: Vector, rng: np.random.Generator) -> Vector:
        steps = max(FEWEST_STEPS, min(TABU_STEPS * self.n, TABU_WORK // self.n))
        data = self.Q, self.p, self.diagonal, self.floor, self.scale * rng.random() ** 2
        exchange.tabu(*data, TENURE, TENURE_SPREAD, steps, rng, self._descend(z), np.empty(len(z)))
        return self._descend(z)

    def _anneal(self, z: Vector, hot: float, rng: np.random.Generator) -> Vector:
        proposals = min(PROPOSALS * self.n, MOST_PROPOSALS)
        temperatures = (hot * self.scale, COLD * self.scale)
        exchange.anneal(self.Q, self.p, self.diagonal, *temperatures, proposals, rng, z, np.empty(len(z)))
        return self._descend(z)

    def enumeration(self) -> tuple[str, int, Callable[[Vector], Iterator[int]]]:
        """Return what is enumerated, how many there are, and the function that enumerates, improving x in place."""
        whole = self.fraction is None
        count = math.comb(self.n, self.ones) if whole else self.n * math.comb(self.n - 1, self.ones)
        return "sign vectors", count, self._all_signs

    def _all_signs(self, x: Vector) -> Iterator[int]:
        """Improve x in place by all binary points; yield how many were examined, part by part."""
        value, whole, fraction = self.value(x), self.fraction is None, self.fraction or 0.0
        for odd in range(1 if whole else self.n):
            # A fractional coordinate, if there must be one, is folded into the slopes.
            free = np.delete(np.arange(self.n), [] if whole else odd)
            slopes = self.p[free] + fraction * self.Q[free, odd]
            offset = fraction * float(0.5 * fraction * self.Q[odd, odd] + self.p[odd])
            # Raise some from −1 or lower some from 1, whichever are fewer, but at least one.
            downs = len(free) - self.ones
            raised = downs == 0 or 0 < self.ones <= downs
            base, step, count = (-1.0, 2.0, self.ones) if raised else (1.0, -2.0, downs)
            H, best = np.ascontiguousarray(self.Q[np.ix_(free, free)]), np.empty(len(free))
            for first in range(len(free) - count + 1):
                before, start = value - offset, np.full(len(free), base)
                after, looked = enumeration.signs_from(H, slopes, start, step, count, first, before, best)
                if after < before:
                    value, x[odd], x[free] = after + offset, self.b * fraction, self.b * best
                yield int(looked)

    def _homotopy(self, rng: np.random.Generator) -> Vector:
        steps = max(FEWEST_STEPS, min(HOMOTOPY_STEPS, HOMOTOPY_WORK // self.n**2))
        lam = 0.35 * max(float(np.median(self.diagonal)), 0.2 * float(self.diagonal.max()))
        # The centre is stationary if p = 0; a little noise leads away from it.
        x = self.c / self.n + 1e-3 * rng.standard_normal(self.n)
        exchange.homotopy(self.Q, self.p, self.c, _curvature(self.Q, rng), lam, steps, x, np.empty(self.n))
        return self._round(x)


def _count_ones(n: int, c: float) -> tuple[int, float | None]:
    """Return how many of n entries ±1 with the sum c are 1, and the value of the fractional entry if one is needed."""
    exact = 0.5 * (n + c)
    ones = round(exact)
    if abs(exact - ones) <= 1e-12 * n:
        return ones, None
    ones = math.floor(exact)
    return ones, float(c - ones + (n - ones - 1))


def _between(low: float, high: float, rng: np.random.Generator) -> float:
    """Draw a number between the two whose logarithm is uniform."""
    return float(low * (high / low) ** rng.random())


def _curvature(Q: Vector, rng: np.random.Generator) -> float:
    """Return a little more than the largest |eigenvalue| of Q, by 20 power iterations."""
    v, size = rng.standard_normal(len(Q)), 0.0
    for _ in range(20):
        v = Q @ v
        size = float(np.linalg.norm(v))
        if size == 0.0:
            return 1.0
        v /= size
    return 1.1 * size

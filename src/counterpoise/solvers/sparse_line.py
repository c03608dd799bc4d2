"""Sparse points on the line: where a search on ``TopSum`` and ``Sum`` starts, and what it makes of two points."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise.checks import Vector
from counterpoise.kernels import swap_line
from counterpoise.problem import Problem
from counterpoise.terms.concave import TopSum
from counterpoise.terms.constraint import Sum

# Exchanges verified before a support is taken for the end of the way: many for a claim, few in a search.
CLAIM_TRIES, SEARCH_TRIES = 4096, 8
TOL = 1e-9
MOST_SWAPS = 10_000
# Starts that select forward; the others reduce a random set of so many times s coordinates.
FORWARD_STARTS, RANDOM_SHARE = 1, 3
# New coordinates that a child gets besides those of its parents, as a share of s, and at least.
FRESH_SHARE, LEAST_FRESH = 0.5, 3
# The share of children that lose a part of one parent instead of joining two.
KICKS = 0.25
# Kicks and descents that follow a child: so many, divided by s²n, and not more than an eighth of n.
WANDER_WORK = 400_000


class SparseLine:
    """Supports of at most s coordinates, f + h minimised on each: the problem of ``TopSum`` with a large λ."""

    def __init__(self, problem: Problem) -> None:
        h = problem.separable
        if not (isinstance(problem.g, TopSum) and isinstance(problem.u, Sum)) or (h.lo < 0.0).any():
            raise ValueError("Supports on the line need g = TopSum, u = Sum and lower bounds of at least 0.")
        self.problem, self.s = problem, min(int(problem.g.s), problem.n)
        if int((h.lo > 0.0).sum()) > self.s:
            raise ValueError(
                f"{int((h.lo > 0.0).sum())} lower bounds are positive, but at most s = {self.s} may be held."
            )
        self.support = swap_line.Support(problem.f.Q, problem.f.p + h.weight, h, problem.u.c)
        c, diagonal = problem.u.c, np.diag(self.support.Q)
        self.order = np.argsort(0.5 * c * c * diagonal + c * self.support.b, kind="stable")

    def start(self, k: int, rng: np.random.Generator) -> Vector:
        """Select forward from the best single coordinate, later reduce random sets, which differ; then exchange."""
        n, x = self.problem.n, np.zeros(self.problem.n)
        if k < FORWARD_STARTS:
            swap_line.forward(self.support, self.s, int(self.order[k % n]), 1, rng, x)
        else:
            few = np.sort(rng.choice(n, min(n, RANDOM_SHARE * self.s), replace=False)).astype(np.int64)
            held = np.flatnonzero(self.problem.separable.lo > 0.0)
            swap_line.reduce_to(self.support, self.s, np.union1d(few, held), x)
        return self._descended(x if x.any() else self.problem.start(k), SEARCH_TRIES)

    def child(self, parents: list[Vector], rng: np.random.Generator) -> Vector:
        """Take the union of the parents' supports, or a part of one, and a few more; reduce it to s, then exchange."""
        n, fresh = self.problem.n, max(LEAST_FRESH, int(FRESH_SHARE * self.s))
        held = np.unique(np.concatenate([np.flatnonzero(parent) for parent in parents]))
        if rng.random() < KICKS:
            members = np.flatnonzero(parents[0])
            lost = min(len(members) - 1, int(rng.integers(1, max(2, len(members) // 3) + 1)))
            keep = rng.choice(members, len(members) - lost, replace=False)
            must = np.flatnonzero(self.problem.separable.lo > 0.0)
            held, fresh = np.union1d(keep, must), max(2 * lost, self.s - len(keep) + lost)
        more = rng.choice(n, min(fresh, n), replace=False)
        x = np.zeros(n)
        swap_line.reduce_to(self.support, self.s, np.union1d(held, more).astype(np.int64), x)
        x = self._descended(x if x.any() else parents[0], SEARCH_TRIES)
        # A small support is done with in no time: what is left of a child's share goes into kicks.
        rounds = min(WANDER_WORK // (self.s * self.s * n), n // 8)
        if rounds:
            swap_line.wander(self.support, x, self.s, TOL, SEARCH_TRIES, rounds, rng)
        return x

    def descend(self, x: Vector) -> Vector:
        """Return the point of a support that no exchange improves, reached from x."""
        return self._descended(x, CLAIM_TRIES)

    def advance(self, x: Vector, swaps: int) -> tuple[Vector, int, float]:
        """Make at most so many exchanges; return the point, their number, and the gap left, NaN if not known."""
        at = np.array(x)
        _, made, gap = swap_line.descend(self.support, at, self.s, TOL, swaps, CLAIM_TRIES)
        return (at if made or at.any() else np.array(x)), int(made), float(gap)

    def gap(self, x: Vector) -> tuple[float, int, int, bool]:
        """Return the largest gain of an exchange, who leaves and who enters (−1: nobody), and whether it is proved."""
        found: Any = swap_line.best_exchange(self.support, np.array(x), self.s, CLAIM_TRIES)
        return float(found[0]), int(found[1]), int(found[2]), bool(found[3])

    def _descended(self, x: Vector, tries: int) -> Vector:
        at = np.array(x)
        value, *_ = swap_line.descend(self.support, at, self.s, TOL, MOST_SWAPS, tries)
        return at if np.isfinite(value) else np.array(x)

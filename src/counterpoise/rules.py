"""Find feasible points under floors, a limit on non-zeros and group limits, or prove that there are none.

``SemiContinuous`` and ``AtMost`` make the feasible set non-convex. Once it is known which coordinates are *held*, that
is, may be non-zero, only a box, a sum and group limits remain. Taking coordinates in simple orders finds a held set in
most cases; otherwise an integer program finds one or proves that there is none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.checks import Vector
from counterpoise.sentences import counted
from counterpoise.supervision import supervised
from counterpoise.terms.constraint import Sum

# Tolerance of limits for rounding, relative to the size of x.
ROUNDING = 1e-12
# Up to this many sets of coordinates, all are tried; beyond that the integer program decides.
FEW_SETS = 500
# Time limits in seconds: of the integer program, and of each attempt to find the rule that is in the way.
PROOF_SECONDS, REASON_SECONDS = 60.0, 1.0
# x is scaled to this size for the integer program, whose tolerances are absolute and around 1e-6.
PROGRAM_SCALE = 1e3
# How many infeasible sets the integer program may propose, because its tolerance is wider than ours.
NEAR_MISSES = 50


class Rules(NamedTuple):
    """Constraints on a point: xᵢ is 0 or in [least, most], at most s are non-zero, and u(x) = 0 with its groups."""

    least: Vector
    most: Vector
    must: npt.NDArray[np.bool_]
    s: int
    u: Sum
    size: float

    @property
    def n(self) -> int:
        """The number of coordinates."""
        return len(self.least)

    @property
    def point(self) -> str:
        """A point in words, with its number of non-zeros if that is limited."""
        return "point" if self.s >= self.n else f"point with at most {counted(self.s, 'non-zero')}"

    def can_hold(self, held: Any) -> bool:
        """Return whether a feasible point exists whose non-zeros are among ``held``."""
        at, slack = np.asarray(held, dtype=np.int64), ROUNDING * self.size
        try:
            low, high = self.u.tree(self.n).reach(self.least[at], self.most[at], slack, at)
        except ValueError:
            return False
        return low <= self.u.c + slack and high >= self.u.c - slack

    def all_sets(self) -> Iterator[list[int]]:
        """Yield every set of coordinates, the smallest first."""
        must, others = np.flatnonzero(self.must).tolist(), np.flatnonzero(self._open & ~self.must).tolist()
        for k in range(self.s - len(must) + 1):
            for more in itertools.combinations(others, k):
                yield [*must, *more]

    @property
    def _open(self) -> npt.NDArray[np.bool_]:
        free: npt.NDArray[np.bool_] = (self.least != 0.0) | (self.most != 0.0)
        return free

    def names_near(self, x: Vector) -> list[int] | None:
        """Return a held set that allows a feasible point, preferring large |xᵢ|; None if simple orders find none."""
        if int(self.must.sum()) > self.s:
            return None
        by_size = np.argsort(-np.abs(x), kind="stable")
        by_room, by_most = np.lexsort((-self.most, self.least)), np.argsort(-self.most, kind="stable")
        found = (self._choose(order, x) for order in (by_size, by_room, by_most))
        return next((held for held in found if held is not None), None)

    def _choose(self, order: Any, x: Vector) -> list[int] | None:
        """Hold up to s coordinates: those that must be held, then those that groups need, then others in order."""
        held: list[int] = []
        order = order[(self._open & ~self.must)[order]].tolist()
        tree = self.u.tree(self.n)
        most = np.append(tree.most[:-1], self.u.c)
        low, high = np.zeros(len(most)), np.zeros(len(most))

        def chain(i: int) -> Iterator[int]:
            return tree.chain(int(tree.leaf[i]))

        def take(i: int) -> None:
            held.append(i)
            for k in chain(i):
                low[k] += self.least[i]
                high[k] += self.most[i]

        def fits(i: int) -> bool:
            return i not in held and all(low[k] + self.least[i] <= most[k] + ROUNDING * self.size for k in chain(i))

        for i in np.flatnonzero(self.must).tolist():
            take(i)
        for k, group in enumerate(self.u.groups):
            for i in order:
                if high[k] >= group.least or len(held) >= self.s:
                    break
                if k in chain(i) and fits(i):
                    take(i)
        enough = self.can_hold(held)
        for i in order:
            if len(held) >= self.s or (enough and x[i] == 0.0):
                break
            if fits(i):
                take(i)
                enough = self.can_hold(held)
        return held if enough else None

    def any_names(self, seconds: float) -> list[int] | None:
        """Return a held set that allows a feasible point, None if there is none; raise an error if time runs out."""
        sets = list(itertools.islice(self.all_sets(), FEW_SETS + 1))
        if len(sets) <= FEW_SETS:
            return next((held for held in sets if self.can_hold(held)), None)
        return _by_integer_program(self, seconds)

    def in_the_way(self) -> str:
        """Say which kind of rule, if dropped alone, would make the problem feasible."""
        nothing, no_floors = np.zeros(self.n), np.minimum(self.least, 0.0)
        for what, other in (
            ("without the limits of the groups", self._replace(u=Sum(self.u.c)) if self.u.groups else None),
            ("without the least values", self._replace(least=np.where(self.must, self.least, no_floors))),
            ("without the largest values", self._replace(most=np.where(self._open, max(self.size, 0.0), 0.0))),
            ("with more non-zeros", self._replace(s=self.n)),
        ):
            try:
                if other is not None and (other.names_near(nothing) or other.any_names(REASON_SECONDS)):
                    return f"{what} there would be one"
            except ValueError:  # not known in that time
                continue
        return "loosen the bounds or the limits of the groups"


class InfeasibleError(ValueError):
    """No point satisfies all rules; ``reason`` says which kind of rule is in the way."""

    def __init__(self, point: str, reason: str) -> None:
        super().__init__(f"no {point} keeps all bounds and limits together; {reason}.")
        self.reason = reason


def rules_of(problem: Any) -> Rules:
    """Return the rules of a problem on ``Sum``."""
    h = problem.separable
    must = (h.lo > 0.0) | (h.hi < 0.0)
    least = np.where(h.floor > h.lo, h.floor, h.lo)
    return Rules(least, np.asarray(h.hi), must, problem.most_nonzeros, problem.u, problem.scale)


def near_point(problem: Any, x: Vector) -> Vector:
    """Return a feasible point near x; raise :class:`InfeasibleError` if there is none."""
    h, at = problem.separable, np.zeros(len(x))
    if problem.u.is_line:
        rules = rules_of(problem)
        held = rules.names_near(x) or rules.any_names(PROOF_SECONDS)
        if held is None:
            raise InfeasibleError(rules.point, rules.in_the_way())
        # Held coordinates stay at or above their floors, and all others at 0.
        least, most = np.zeros(len(x)), np.zeros(len(x))
        least[held], most[held] = h.floor[held], h.hi[held]
        h, at = h._replace(lo=least, hi=most, floor=least), x
    else:
        few = np.argsort(-np.abs(x), kind="stable")[: problem.most_nonzeros]
        at[few] = x[few]
    point: Vector = problem.u.project(at, h)
    return point


def _by_integer_program(rules: Rules, seconds: float) -> list[int] | None:
    """Return a held set that allows a feasible point, None if there is none; raise an error if time runs out.

    Finds x and binary z with leastᵢzᵢ ≤ xᵢ ≤ mostᵢzᵢ, Σz ≤ s, Σx = c and the groups' limits, by HiGHS. Its tolerances
    are wider than ours: a proposed set that misses a rule by less than they allow is cut off by
    Σ_{i∈held} zᵢ − Σ_{i∉held} zᵢ ≤ |held| − 1, and the program is solved again.
    """
    import scipy.sparse as sp
    from scipy.optimize import Bounds, LinearConstraint, milp

    n, zeros, ones = rules.n, np.zeros(rules.n), np.ones(rules.n)
    scale = PROGRAM_SCALE / max(rules.size, 1e-300)
    least, most, total = scale * rules.least, scale * np.minimum(rules.most, rules.size), scale * rules.u.c

    def one_row(of_x: Vector, of_z: Vector, low: float, high: float) -> LinearConstraint:
        return LinearConstraint(sp.csr_array(np.concatenate([of_x, of_z])[None, :]), low, high)

    constraints = [
        LinearConstraint(sp.hstack([sp.eye_array(n), sp.diags_array(-least)]), 0.0, np.inf),
        LinearConstraint(sp.hstack([sp.eye_array(n), sp.diags_array(-most)]), -np.inf, 0.0),
        one_row(ones, zeros, total, total),
        one_row(zeros, ones, -np.inf, rules.s),
    ]
    for group in rules.u.groups:
        inside = np.isin(np.arange(n), group.members).astype(np.float64)
        constraints.append(one_row(inside, zeros, scale * group.least, scale * group.most))
    bounds = Bounds(np.concatenate([np.minimum(least, 0.0), rules.must]), np.concatenate([np.maximum(most, 0.0), ones]))
    for _ in range(NEAR_MISSES):
        # Supervised, because HiGHS does not react to Ctrl-C.
        found = supervised(milp)(
            np.zeros(2 * n),
            integrality=np.repeat([0, 1], n),
            bounds=bounds,
            constraints=constraints,
            options={"time_limit": seconds},
        )
        if found.status == 2:
            return None
        if found.x is None:
            raise ValueError(
                f"{seconds:.3g} seconds neither found a {rules.point} that keeps all bounds and limits nor proved that "
                "there is none; loosen them."
            )
        held = np.flatnonzero(found.x[n:] > 0.5)
        if rules.can_hold(held):
            return [int(i) for i in held]
        constraints.append(one_row(zeros, np.where(np.isin(np.arange(n), held), 1.0, -1.0), -np.inf, len(held) - 1.0))
    raise ValueError(
        f"every {rules.point} that was found misses the bounds or limits, though by less than 1e-6; loosen them a "
        "little."
    )

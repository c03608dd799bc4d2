"""Portfolios under rules: the problem, and a first portfolio that keeps them, or the proof that there is none."""

from __future__ import annotations

import dataclasses
import itertools
import math
import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from typing import Any

import numpy as np
import numpy.typing as npt

from counterpoise.checks import Vector
from counterpoise.kernels import holdings as kernel

# What rounding may leave of a rule, of the weights of given names and of any result.
ROUNDING, KEPT = 1e-12, 1e-10
# Up to so many sets of names are all tried; beyond that an integer program decides whether any keeps the rules.
FEW_SETS = 500
# Seconds of the integer program: without a limit, at least with one, as a fit without any portfolio is an error; and of
# each look at which rule is in the way.
PROOF_SECONDS, LEAST_SECONDS, REASON_SECONDS = 60.0, 5.0, 1.0
# Weights are scaled by this for the integer program, whose tolerances are absolute and around 1e-6.
PROGRAM_SCALE = 1e3
# Sets of names that the integer program may propose although they miss the rules by less than its tolerance.
NEAR_MISSES = 50
TOL = 1e-9


@dataclasses.dataclass(frozen=True, eq=False)
class Holdings:
    """min ½xᵀQx + bᵀx + Σ costᵢ|xᵢ − centreᵢ| + constant over portfolios of at most s names.

    1ᵀx = 1; xᵢ = 0 or loᵢ ≤ xᵢ ≤ hiᵢ; names that ``must`` be held, at loᵢ at least; and least ≤ Σ_{i∈g} xᵢ ≤ most for
    disjoint groups, −1 for names without one. Q is semidefinite. ``names`` and ``group_names`` are for sentences.
    """

    Q: Vector
    b: Vector
    s: int
    lo: Vector
    hi: Vector
    must: npt.NDArray[np.bool_]
    group: npt.NDArray[np.int64]
    least: Vector
    most: Vector
    centre: Vector
    cost: Vector
    constant: float = 0.0
    names: tuple[Any, ...] = ()
    group_names: tuple[Any, ...] = ()

    @property
    def n(self) -> int:
        """How many names there are."""
        return len(self.b)

    @property
    def most_names(self) -> int:
        """How many may be held."""
        return min(self.s, self.n)

    @property
    def is_plain(self) -> bool:
        """Whether there are neither groups nor least weights, except of names that must be held."""
        return len(self.least) == 0 and not bool((self.lo[~self.must] > 0.0).any())

    def value(self, x: Vector) -> float:
        """Return the objective."""
        moved = self.cost @ np.abs(x - self.centre)
        return float(x @ (0.5 * (self.Q @ x) + self.b) + moved + self.constant)

    def violation(self, x: Vector) -> float:
        """Return the largest violation of a rule; too many names, or one missing, count as infinite."""
        held = x != 0.0
        if held.sum() > self.s or (self.must & (self.lo > 0.0) & ~held).any():
            return math.inf
        sums = self.sums(x)
        parts = [
            abs(float(x.sum()) - 1.0),
            float(np.max(np.where(held, self.lo - x, 0.0), initial=0.0)),
            float(np.max(np.where(held, x - self.hi, 0.0), initial=0.0)),
            float(np.max(self.least - sums, initial=0.0)),
            float(np.max(sums - self.most, initial=0.0)),
        ]
        return max(0.0, *parts)

    def sums(self, x: Vector) -> Vector:
        """Return the weight of every group."""
        grouped = self.group >= 0
        return np.bincount(self.group[grouped], x[grouped], len(self.least)).astype(np.float64)

    def rules(self) -> kernel.Rules:
        """Return the problem for kernels."""
        return kernel.Rules(
            np.ascontiguousarray(self.Q, dtype=np.float64),
            self.b,
            self.lo,
            self.hi,
            self.must,
            self.group.astype(np.int64),
            self.least,
            self.most,
            self.centre,
            self.cost,
        )


def first_portfolio(problem: Holdings, seconds: float | None = None) -> Vector:
    """Return weights that keep all rules; refuse rules that no portfolio keeps.

    Names are taken in three orders first. Where none of them works, all sets are tried if they are few; otherwise an
    integer program finds names or proves that there are none.
    """
    _refuse_contradictions(problem)
    nothing = np.zeros(problem.n)
    seconds = PROOF_SECONDS if seconds is None else max(seconds, LEAST_SECONDS)
    held = names_near(problem, nothing) or _any_names(problem, seconds)
    if held is None:
        raise ValueError(
            f"No portfolio of at most {problem.s} names keeps all rules together; {_what_is_in_the_way(problem)}."
        )
    return plain_weights(problem, held) if problem.is_plain else weights_of_names(problem, held, nothing)


def names_near(problem: Holdings, x: Vector) -> list[int] | None:
    """Return names that can keep all rules, those of x first; None if simple orders of names find none."""
    by_weight = np.argsort(-x, kind="stable")
    by_room = np.lexsort((-problem.hi, problem.lo))
    for order in (by_weight, by_room, np.argsort(-problem.hi, kind="stable")):
        held = _choose(problem, order, x)
        if held is not None:
            return held
    return None


def plain_weights(problem: Holdings, held: list[int]) -> Vector:
    """Return weights of names that can keep the rules of a plain problem: each at its least, then filled up in turn."""
    x = np.zeros(problem.n)
    x[held] = problem.lo[held]
    for name in held:
        x[name] += min(max(1.0 - float(x.sum()), 0.0), float(problem.hi[name] - problem.lo[name]))
    return x


def weights_of_names(problem: Holdings, held: list[int], x: Vector) -> Vector:
    """Return the best weights of names that can keep the rules."""
    start, rules, s = np.zeros(problem.n), problem.rules(), problem.most_names
    start[held] = np.maximum(x[held], 1e-300)
    kernel.feasible(rules, start, s)
    best = start.copy()
    kernel.descend(rules, best, s, TOL, 0, 0)
    return best if problem.violation(best) <= KEPT else start


def can_hold(problem: Holdings, held: list[int]) -> bool:
    """Whether weights for these names keep all rules: an interval for every group, and 1 in their sum."""
    at = np.array(held, dtype=np.int64)
    group = problem.group[at]
    low, high = float(problem.lo[at][group < 0].sum()), float(problem.hi[at][group < 0].sum())
    for g in range(len(problem.least)):
        inside = at[group == g]
        least = max(float(problem.lo[inside].sum()), float(problem.least[g]))
        most = min(float(problem.hi[inside].sum()), float(problem.most[g]))
        if least > most + ROUNDING:
            return False
        low, high = low + least, high + most
    return low <= 1.0 + ROUNDING and high >= 1.0 - ROUNDING


def count_sets(problem: Holdings) -> int:
    """Return how many sets of names there are to choose from."""
    others = int(np.sum((problem.hi > 0.0) & ~problem.must))
    room = problem.most_names - int(problem.must.sum())
    return sum(math.comb(others, k) for k in range(room + 1))


def all_sets(problem: Holdings) -> Iterator[list[int]]:
    """Yield every set of names, the smallest first."""
    must = [int(i) for i in np.flatnonzero(problem.must)]
    others = [int(i) for i in np.flatnonzero((problem.hi > 0.0) & ~problem.must)]
    for k in range(problem.most_names - len(must) + 1):
        for more in itertools.combinations(others, k):
            if must or more:
                yield [*must, *more]


def _choose(problem: Holdings, order: Any, x: Vector) -> list[int] | None:
    """Take names in the given order: those that must be, those that groups need, then the others, up to s."""
    s, lo, hi, group = problem.most_names, problem.lo, problem.hi, problem.group
    held = [int(i) for i in np.flatnonzero(problem.must)]
    taken = set(held)
    # Sums of the least and of the largest weights by group; names without one are in the last, which has no limit.
    most = np.append(problem.most, np.inf)
    low, high = np.zeros(len(most)), np.zeros(len(most))
    np.add.at(low, group[held], lo[held])
    np.add.at(high, group[held], hi[held])

    def take(i: int) -> None:
        held.append(i)
        taken.add(i)
        low[group[i]] += lo[i]
        high[group[i]] += hi[i]

    order = [int(i) for i in order if hi[i] > 0.0 and not problem.must[i]]
    for g in np.flatnonzero(problem.least > 0.0):
        for i in order:
            if high[g] >= problem.least[g] or len(held) >= s:
                break
            if group[i] == g and i not in taken and low[g] + lo[i] <= most[g]:
                take(i)
    enough, total = bool(held) and can_hold(problem, held), float(low.sum())
    for i in order:
        if len(held) >= s:
            break
        if i in taken or (x[i] <= 0.0 and enough) or low[group[i]] + lo[i] > most[group[i]] or total + lo[i] > 1.0:
            continue
        take(i)
        enough, total = can_hold(problem, held), total + float(lo[i])
    return held if held and can_hold(problem, held) else None


def _any_names(problem: Holdings, seconds: float) -> list[int] | None:
    """Return names that can keep all rules, None if there are none; refuse what takes too long to decide."""
    if count_sets(problem) <= FEW_SETS:
        return next((names for names in all_sets(problem) if can_hold(problem, names)), None)
    return _IntegerProgram(problem).names(seconds)


class _IntegerProgram:
    """Find x and binary z with loᵢzᵢ ≤ xᵢ ≤ hiᵢzᵢ, Σz ≤ s, Σx = 1 and the groups' limits, by HiGHS.

    Its tolerances are wider than ours: a set of names that misses a rule by less than they allow is cut off, and the
    program is solved again.
    """

    def __init__(self, problem: Holdings) -> None:
        import scipy.sparse as sp

        self.problem, n = problem, problem.n
        nothing, some, scale = sp.csr_array((1, n)), sp.csr_array(np.ones((1, n))), PROGRAM_SCALE
        inside = sp.csr_array(problem.group == np.arange(len(problem.least))[:, None], dtype=np.float64)
        self.rows = [
            sp.hstack([sp.eye_array(n), sp.diags_array(-scale * problem.lo)]),
            sp.hstack([sp.eye_array(n), sp.diags_array(-scale * problem.hi)]),
            sp.hstack([some, nothing]),
            sp.hstack([nothing, some]),
            sp.hstack([inside, sp.csr_array(inside.shape)]),
        ]
        self.low: list[Any] = [np.zeros(n), np.full(n, -np.inf), [scale], [-np.inf], scale * problem.least]
        self.high: list[Any] = [
            np.full(n, np.inf),
            np.zeros(n),
            [scale],
            [float(problem.most_names)],
            scale * problem.most,
        ]
        self.bounds = (
            np.concatenate([np.zeros(n), problem.must.astype(np.float64)]),
            np.concatenate([scale * problem.hi, (problem.hi > 0.0).astype(np.float64)]),
        )

    def names(self, seconds: float) -> list[int] | None:
        """Return names that can keep all rules, None if there are none."""
        for _ in range(NEAR_MISSES):
            found = _in_a_thread(self._solve, seconds)
            if found.status == 2:
                return None
            if found.x is None:
                raise ValueError(
                    f"In {seconds:.3g} seconds no portfolio of at most {self.problem.s} names that keeps all rules was "
                    "found, and no proof that there is none; loosen the weights or the groups, or give more time."
                )
            held = [int(i) for i in np.flatnonzero(found.x[self.problem.n :] > 0.5)]
            if can_hold(self.problem, held):
                return held
            self._cut_off(held)
        raise ValueError(
            f"Portfolios of at most {self.problem.s} names miss the rules by less than 1e-6, and none that keeps them "
            "was found; loosen the weights or the groups a little."
        )

    def _solve(self, seconds: float) -> Any:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import vstack

        n, limits = self.problem.n, (np.concatenate(self.low), np.concatenate(self.high))
        return milp(
            np.zeros(2 * n),
            integrality=np.repeat([0, 1], n),
            bounds=Bounds(*self.bounds),
            constraints=LinearConstraint(vstack(self.rows, format="csc"), *limits),
            options={"time_limit": seconds},
        )

    def _cut_off(self, held: list[int]) -> None:
        """Ask for other names: Σ_{i∈held} zᵢ − Σ_{i∉held} zᵢ ≤ |held| − 1."""
        from scipy.sparse import csr_array

        signs = np.full(self.problem.n, -1.0)
        signs[held] = 1.0
        self.rows.append(csr_array(np.concatenate([np.zeros(self.problem.n), signs])[None, :]))
        self.low.append([-np.inf])
        self.high.append([len(held) - 1.0])


def _in_a_thread(solve: Any, seconds: float) -> Any:
    """Return ``solve(seconds)``; Ctrl-C ends the wait for it, which a call of a C library would not notice."""
    found: Future[Any] = Future()

    def work() -> None:
        try:
            found.set_result(solve(seconds))
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    while not found.done():
        wait([found], 0.1)
    return found.result()


def _what_is_in_the_way(problem: Holdings) -> str:
    """Return which kind of rule, left out alone, would leave a portfolio."""
    n, none = problem.n, np.zeros(0)
    groups = {"group": np.full(n, -1, dtype=np.int64), "least": none, "most": none}
    for what, changes in (
        ("without the limits of the groups", groups if len(problem.least) else {}),
        ("without the least weights", {"lo": np.zeros(n)}),
        ("without the largest weights", {"hi": np.where(problem.hi > 0.0, 1.0, 0.0)}),
        ("with more names", {"s": n}),
    ):
        other = dataclasses.replace(problem, **changes)
        try:
            if changes and (names_near(other, np.zeros(n)) or _any_names(other, REASON_SECONDS)):
                return f"{what} there would be one"
        except ValueError:  # not known in that time
            continue
    return "loosen the weights or the groups"


def _refuse_contradictions(problem: Holdings) -> None:
    """Say which rules contradict each other, where that is simple."""
    must = np.flatnonzero(problem.must)
    named = problem.names or tuple(range(problem.n))
    groups = problem.group_names or tuple(range(len(problem.least)))
    if len(must) > problem.s:
        raise ValueError(f"{len(must)} names must be held, but at most {problem.s} may be.")
    for i in must:
        if problem.hi[i] <= 0.0:
            raise ValueError(f"{named[i]} must be held, but its largest weight is 0.")
    if problem.lo[must].sum() > 1.0 + ROUNDING:
        raise ValueError(f"the names that must be held weigh {problem.lo[must].sum():g} at least; that exceeds 1.")
    if problem.least.sum() > 1.0 + ROUNDING:
        raise ValueError(f"the least weights of the groups sum to {problem.least.sum():g}; they must not exceed 1.")
    needed = int((problem.least > ROUNDING).sum())
    if needed > problem.s:
        raise ValueError(f"{needed} groups must have a weight, but at most {problem.s} names may be held.")
    for g, name in enumerate(groups):
        inside = problem.group == g
        room = float(np.sort(problem.hi[inside])[::-1][: problem.s].sum())
        if room < problem.least[g] - ROUNDING:
            raise ValueError(
                f"group {name} must weigh {problem.least[g]:g} at least, but its names can hold {room:g} at most."
            )
        forced = float(problem.lo[inside & problem.must].sum())
        if forced > problem.most[g] + ROUNDING:
            raise ValueError(
                f"group {name} may weigh {problem.most[g]:g} at most, but its names that must be held weigh {forced:g}."
            )
    room = _largest_total(problem)
    if room < 1.0 - ROUNDING:
        raise ValueError(
            f"the {problem.most_names} names with most room hold {room:g} together, less than 1; "
            "raise the largest weights, the limits of the groups or the number of names."
        )


def _largest_total(problem: Holdings) -> float:
    """Return what at most s names can hold within the groups' limits: the largest rooms first, which is best."""
    room = np.append(problem.most, np.inf)
    taken = []
    for i in np.argsort(-problem.hi, kind="stable"):
        part = min(float(problem.hi[i]), float(room[problem.group[i]]))
        room[problem.group[i]] -= part
        taken.append(part)
    return float(np.sort(taken)[::-1][: problem.s].sum())

"""State and solve the problem of an IndexTracker, and label the solution for users."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from counterpoise.checks import Vector
from counterpoise.clock import working_seconds
from counterpoise.estimators.measures import Measure
from counterpoise.estimators.options import RunOptions, warn
from counterpoise.estimators.tracking_rules import Names, Rules, feasible
from counterpoise.problem import Problem, Result, Status
from counterpoise.rules import InfeasibleError
from counterpoise.sentences import require, some
from counterpoise.solvers import minimize
from counterpoise.solvers.run import Progress
from counterpoise.solvers.sparse_line import SparseLine, plan_of
from counterpoise.supervision import Limits, supervised
from counterpoise.tables.native import Native
from counterpoise.terms.concave import AtMost
from counterpoise.terms.constraint import Sum
from counterpoise.terms.separable import AbsoluteDeviation, Bounds, SemiContinuous, SeparableTerm
from counterpoise.terms.smooth import GRAM_LIMIT, LeastSquares, Quadratic

# A search for a one-sided measure starts near portfolios that track the index plus these multiples of the tracking
# error; finding them may take AHEAD_SHARE of the time.
AHEAD, AHEAD_SHARE = (1.0, 2.0, 3.0), 0.2


class Task(NamedTuple):
    """The data of a fit: returns A, index y, weights of the days, rules, measure and options."""

    names: Names
    frame: bool
    native: Native | None
    A: Vector
    y: Vector
    weight: Vector
    rules: Rules
    measure: Measure
    options: RunOptions

    def problem(self, size: int) -> Problem:
        """Return the problem with at most ``size`` names; refuse contradictory rules."""
        rules, A, n = feasible(self.rules, size), self.A, len(self.names.labels)
        if n == 1:  # terms need two columns: repeat the name, which is never held
            rules, A = rules.with_an_idle_name(), np.hstack([A, A])
        least = np.where(rules.must, 0.0, rules.lo)
        h: SeparableTerm = Bounds(np.where(rules.must, rules.lo, 0.0), rules.hi)
        if least.any():
            h = h + SemiContinuous(least, rules.hi)
        if rules.cost.any():
            h = h + AbsoluteDeviation(rules.centre, rules.cost)
        u = Sum(1.0)
        if rules.group_names:
            members = {name: np.flatnonzero(rules.group == k) for k, name in enumerate(rules.group_names)}
            u = u.within(members, dict(zip(members, zip(rules.least, rules.most, strict=True), strict=True)))
        # Floors, included names and groups need AᵀA; otherwise the term decides, and skips it for very many columns.
        gram = True if least.any() or rules.must.any() or rules.group_names else None
        f = self.measure.term(A, self.y, self.weight, gram)
        return Problem(f, h, AtMost(min(size, n)), u, constant=rules.sold_cost, name="IndexTracker")

    def solve(
        self, problem: Problem, x0: Vector | None = None, callback: Callable[[Progress], Any] | None = None
    ) -> Result:
        """Solve the problem; the result's x holds the weights."""
        if len(self.names.labels) == 1:
            return self._only_name(problem)
        if x0 is None and problem.is_feasible(self.rules.centre):
            x0 = self.rules.centre
        options, begun = self.options, working_seconds()
        try:
            if self.measure.is_one_sided and options.method == "search" and len(self.names.labels) <= GRAM_LIMIT:
                starts = [*([] if x0 is None else [x0]), *self._ahead(problem)]
                x0 = min(filter(problem.is_feasible, starts), key=problem.objective, default=x0)
                if options.max_time is not None:
                    left = options.max_time - (working_seconds() - begun)
                    options = options._replace(max_time=max(left, 1e-3))
            return minimize(problem, x0, callback=callback, **options.arguments())
        except InfeasibleError as error:
            reason = error.reason.replace("non-zeros", "names").replace("values", "weights")
            raise ValueError(f"No portfolio of at most {problem.g.s} names satisfies all rules; {reason}.") from None

    @supervised
    def _ahead(self, problem: Problem) -> list[Vector]:
        """Return portfolios that track the index, or the index plus a margin; the latter are seldom below the index."""
        limit, seed, root = self.options.max_time, self.options.seed, np.sqrt(self.weight)
        limits = Limits(None if limit is None else AHEAD_SHARE * limit)
        f = LeastSquares(self.A * root[:, None], self.y * root, gram=True)
        found: list[Vector] = []
        error = 0.0
        for margin in (0.0, *AHEAD):
            if limits.reached():
                break
            shifted = Quadratic(f.Q, f.p - margin * error * (self.weight @ self.A))
            line = SparseLine(Problem(shifted, problem.h, problem.g, problem.u))
            line.limits = limits
            found.append(line.near(found[-1], seed) if found else line.start(0, np.random.default_rng(seed)))
            error = error or self.tracking_error(found[0])
        return found

    def _only_name(self, problem: Problem) -> Result:
        """Return the portfolio that holds the only column."""
        objective, status = problem.objective([1.0, 0.0]), Status.CERTIFIED
        fields = {"nit": 0, "nacc": 0, "time": 0.0, "setup_time": 0.0, "cws_gap": 0.0, "tolerance": 0.0}
        history = np.array([[0.0, 0.0, objective]])
        return Result(
            x=np.ones(1), objective=objective, status=status, success=True, message=status.value, history=history,
            seed=self.options.seed, convex_gap=0.0, support_gap=None, swap_gap=None, **fields,
        )  # fmt: skip

    def batches(self, size: int) -> int | None:
        """Return the most reports that a search for ``size`` names can make, or None if unknown."""
        n = len(self.names.labels)
        return self.options.batches(plan_of(min(size, n), n))

    def tracking_error(self, x: Vector) -> float:
        """Return the weighted root mean square of Ax − y."""
        return math.sqrt(float(self.weight @ (self.A @ x - self.y) ** 2) / float(self.weight.sum()))

    def series(self, x: Vector) -> Any:
        """Return weights as a Series or native table by name if the returns are a table, otherwise as an array."""
        if not self.frame:
            return x.copy()
        series = require("A Series needs", "pandas").Series(x, index=self.names.labels, name="weight")
        return series if self.native is None else self.native.table(series.rename_axis("name").to_frame())

    def table(self, rows: list[Vector], sizes: list[int]) -> Any:
        """Return one row of weights per size."""
        if not self.frame:
            return np.array(rows)
        pandas = require("A table needs", "pandas")
        frame = pandas.DataFrame(rows, index=pandas.Index(sizes, name="n_assets"), columns=self.names.labels)
        return frame if self.native is None else self.native.table(frame)

    def warn(self, x: Vector) -> None:
        """Warn if names with constant returns are held, which is probably unintended."""
        if self.frame and len(self.y) > 1:
            still = [k for k in np.flatnonzero(x) if np.ptp(self.A[:, k]) == 0.0]
            if still:
                have, are = ("has", "is") if len(still) == 1 else ("have", "are")
                warn(
                    f"{some(self.names.of(still))} {have} the same return on every day and {are} held; exclude names "
                    "whose prices are missing or were carried forward."
                )

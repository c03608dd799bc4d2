"""The minimum without a limit on the non-zeros: the answer where it keeps the limit, otherwise a start of a search."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise.certificates import convex_gap
from counterpoise.problem import Problem, Result, Status
from counterpoise.solvers import faces
from counterpoise.solvers.bcd import bcd_g
from counterpoise.solvers.run import Epoch, Run
from counterpoise.supervision import Limits
from counterpoise.terms.separable import is_gapped

# It is looked at where at least one coordinate in so many may be held.
ONE_IN = 10
# The share of the time that it may take.
SHARE = 0.2


def dense_answer(run: Run, exact: Any) -> Result | None:
    """Return the minimum over all coordinates if it has at most s non-zeros: g is nowhere less than there.

    Otherwise it becomes a start of the strategy ``exact``. None where it is not the answer.
    """
    problem = run.problem
    if exact is None or not _has_dense_minimum(problem):
        return None
    limits = Limits(None if run.max_time is None else SHARE * run.limits.left(), run.limits)
    relaxed, x = problem.variant(s=problem.n), np.zeros(problem.n)
    if not faces.settle_from_vertex(relaxed, x, run.tol, limits):
        return None
    exact.dense = x
    if np.count_nonzero(x) > problem.g.s or not problem.is_feasible(x):
        return None
    gap, (objective, noise) = convex_gap(relaxed, x), run.measure(x)
    pair_gap = exact.pair_gap(x)
    if pair_gap is None:
        left = None if run.max_time is None else run.limits.left()
        last = bcd_g(problem, x, tol=run.tol, max_time=left, seed=run.seed)
        pair_gap = last.cws_gap if last.status is Status.CERTIFIED and np.array_equal(last.x, x) else np.inf
    if gap is None or max(gap, pair_gap) > run.tol * abs(objective) + noise:
        return None
    end = Epoch(x, 1, 1, Status.OPTIMAL, pair_gap)
    return run.finish(end._replace(status=run.record(end)), {"convex_gap": gap})


def _has_dense_minimum(problem: Problem) -> bool:
    """Return whether F is convex without the limit, and the limit so large that the minimum may keep it."""
    s, h = problem.free, problem.separable
    if s is None or ONE_IN * s < problem.n or problem.n > faces.LARGEST_FACE:
        return False
    if not problem.u.is_line or problem.f.quadratic is None or is_gapped(h) or bool((h.lo < 0.0).any()):
        return False
    return bool(problem.f.is_convex)

"""The minimum without a limit on the non-zeros: the answer if it satisfies the limit, otherwise a start of a search."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise.certificates import convex_gap, named_gap
from counterpoise.problem import Problem, Result, Status
from counterpoise.solvers import faces
from counterpoise.solvers.bcd import bcd_g
from counterpoise.solvers.run import Epoch, Run
from counterpoise.supervision import Limits
from counterpoise.terms.separable import is_gapped

# It is tried if at least one coordinate in this many may be held.
ONE_IN = 10
# The share of the time that it may take.
SHARE = 0.2


def dense_answer(run: Run, exact: Any) -> Result | None:
    """Return the minimum over all coordinates if it has at most s non-zeros, where g is smallest.

    Otherwise it becomes a start of the strategy ``exact``, and None is returned.
    """
    problem = run.problem
    if exact is None or not _has_dense_minimum(problem):
        return None
    limits = Limits(None if run.max_time is None else SHARE * run.limits.left(), run.limits)
    relaxed, x = problem.variant(s=problem.n), np.zeros(problem.n)
    if problem.f.quadratic is None:
        x = bcd_g(relaxed, tol=run.tol, max_time=None if run.max_time is None else limits.left(), seed=run.seed).x
    elif not faces.settle_from_vertex(relaxed, x, run.tol, limits):
        return None
    exact.dense = x
    if np.count_nonzero(x) > problem.g.s or not problem.is_feasible(x):
        return None
    pair_gap = exact.pair_gap(x) if problem.f.quadratic is not None else None
    if pair_gap is None:
        left = None if run.max_time is None else run.limits.left()
        last = bcd_g(problem, x, tol=run.tol, max_time=left, seed=run.seed)
        # It repairs the sum of x, which may move x by rounding.
        x, pair_gap = last.x, last.cws_gap if last.status is Status.CERTIFIED else np.inf
    if np.count_nonzero(x) > problem.g.s:
        return None
    gap, (objective, noise) = convex_gap(relaxed, x), run.measure(x)
    if gap is None or max(gap, pair_gap) > run.tol * abs(objective) + noise:
        return None
    end = Epoch(x, 1, 1, Status.OPTIMAL, pair_gap)
    return run.finish(end._replace(status=run.record(end)), named_gap(problem, gap))


def _has_dense_minimum(problem: Problem) -> bool:
    """Return whether F is convex without the limit, and the limit so large that the minimum may satisfy it."""
    s, h = problem.free, problem.separable
    if s is None or ONE_IN * s < problem.n or (problem.n > faces.LARGEST_FACE and not problem.f.gram):
        return False
    if not problem.u.is_line or is_gapped(h) or bool((h.lo < 0.0).any()):
        return False
    return bool(problem.f.is_convex)

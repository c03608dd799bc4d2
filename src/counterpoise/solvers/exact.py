"""Proofs: small problems are solved by enumeration, larger ones by SCIP from the best known point."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from counterpoise.certificates import exactness_threshold
from counterpoise.checks import Vector, number
from counterpoise.clock import working_seconds
from counterpoise.problem import Problem, Result, Status
from counterpoise.sentences import require
from counterpoise.solvers.bcd import pair_stage
from counterpoise.solvers.run import Epoch, Progress, Run, in_sums
from counterpoise.solvers.search import search, strategy_of
from counterpoise.supervision import supervised
from counterpoise.terms.separable import is_gapped

# Candidates per second on one core, for estimates only.
SPEED = {"supports": 2.5e8, "components": 1.0e5, "sign vectors": 2.0e8}
LONGEST = 600.0
INCUMBENT_WORK = 48
TOL = 1e-9


class Proof(NamedTuple):
    """A proof by enumeration: the number and kind of candidates, and how many of them had to be solved."""

    candidates: int
    kind: str
    solved: int
    seconds: float


@supervised
def exact(
    problem: Problem,
    x0: Any = None,
    *,
    longest: float = LONGEST,
    max_time: float | None = None,
    seed: int | None = 0,
    callback: Callable[[Progress], Any] | None = None,
) -> Result:
    """Return a proved optimum, or refuse with an estimate of how long the proof would take.

    All supports of s coordinates (``TopSum``, ``AtMost``) or all vectors of bounds (``Norm2``, ``ConcaveQuadratic``)
    are examined, most of them by a closed form or a bound, after a search has found a good point.

    Parameters
    ----------
    problem : Problem
        As in :func:`counterpoise.solvers.search.search`, with λ above ``certify(problem, x).exact_lam``: below it the
        best point need not be sparse or binary, and there is nothing to enumerate.
    x0 : array of length n, optional
        A start of the search.
    longest : float
        The longest expected time of a proof, in seconds, that is not refused.
    max_time : float, optional
        Seconds after which the best point so far is returned, unproved.
    seed, callback
        Options of the search; the callback is called after each part of the enumeration.

    Returns
    -------
    Result
        With ``proof``, a :class:`Proof`, if its status is OPTIMAL. If the rounding error of eigenvalues exceeds the
        tolerance, comparing them proves nothing, and the result is that of ``bcd-g`` from the best point.
    """
    problem.require_quadratic("exact")
    strategy = strategy_of(problem, "exact")
    _require_exactness(problem, "exact")
    kind, candidates, parts = strategy.enumeration()
    expected = candidates / SPEED[kind]
    if expected > number(longest, "longest", 0.0):
        raise ValueError(
            f"method 'exact' would examine {candidates:.3g} {kind} in about {_duration(expected)}, more than "
            f"longest = {longest:g} seconds; method 'search' finds good points without a proof."
        )
    run = Run(problem, x0, TOL, None, max_time, seed, callback)
    found = search(problem, run.start if x0 is not None else None, work=INCUMBENT_WORK, max_time=max_time, seed=seed)
    status = run.record(Epoch(found.x, found.nit, found.nacc))
    if status is not None:
        return run.finish(Epoch(found.x, 0, 0, status))
    # Only sparse or binary points are enumerated, so start from one.
    x, solved = strategy.descend(found.x), 0
    steps = parts(x)

    def epoch(trials: int) -> Epoch:
        nonlocal solved
        part = next(steps, None)
        solved += part or 0
        return Epoch(x, 1, int(part is not None), Status.OPTIMAL if part is None else None)

    report = run.stage(epoch)
    if report.status is not Status.OPTIMAL:
        return run.finish(report)
    if getattr(strategy, "noise", 0.0) > run.tolerance:
        return run.finish(*pair_stage(run, x))
    proof = Proof(candidates, kind, solved, working_seconds() - run.clock)
    return run.finish(report, {"proof": proof})


def _require_exactness(problem: Problem, method: str) -> None:
    """Refuse a λ for which the best point need not be sparse or binary."""
    threshold = exactness_threshold(problem)
    if threshold is None or problem.g.lam <= threshold:
        said = "no theorem covers this problem" if threshold is None else f"that takes λ > {threshold:.6g}"
        raise ValueError(
            f"method {method!r} enumerates sparse or binary points, but with λ = {problem.g.lam:g} the best point may "
            f"be neither; {said}."
        )


def _duration(seconds: float) -> str:
    for name, length in (("years", 3.156e7), ("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * length:
            return f"{seconds / length:.3g} {name}"
    return f"{seconds:.3g} seconds"


@supervised
def prove(problem: Problem, x: Any = None, max_time: float = 60.0, seed: int = 0) -> Result:
    """Give SCIP a point as a warm start and return what it proves: ``bound``, ``gap`` and perhaps a better point.

    Parameters
    ----------
    problem : Problem
        With ``TopSum`` or ``AtMost`` on ``Sum`` (at most s coordinates above 0), or binary with ``Norm2`` or
        ``ConcaveQuadratic``.
    x : array of length n, optional
        A start of a short search, whose best point is given to SCIP.
    max_time : float
        Seconds for SCIP.
    """
    pyscipopt = require("prove needs", "pyscipopt")
    if problem.u.weights is not None:
        return in_sums(problem, x, lambda inner, start: prove(inner, start, max_time, seed))
    problem.require_quadratic("prove")
    strategy = strategy_of(problem, "prove")
    if not problem.u.is_line:
        raise ValueError("prove takes problems on Sum only; on Sphere f is concave, use method 'exact' for small ones.")
    if is_gapped(problem.separable) or problem.u.groups or problem.separable.bend.any():
        raise ValueError("prove does not support SemiContinuous, Ridge or limits of groups; leave them out.")
    if number(max_time, "max_time", 0.0) <= 0.0:
        raise ValueError("max_time is 0; a proof needs a positive budget.")
    _require_exactness(problem, "prove")
    if not problem.f.is_convex:
        raise ValueError("prove needs a convex f: SCIP is given ½xᵀQx as a sum of squares; use method 'exact'.")
    start = search(problem, x, work=INCUMBENT_WORK, seed=seed)
    clock = working_seconds()
    model = pyscipopt.Model()
    model.hideOutput()
    model.setParam("limits/time", float(max_time))
    model.setParam("parallel/maxnthreads", 1)
    best, bound = _scip(model, pyscipopt.quicksum, problem, strategy, start.x)
    found = best if best is not None and problem.objective(best) < start.objective else start.x
    objective = problem.objective(found)
    bound = min(bound, objective)
    # Relative to F, like every other tolerance, plus the rounding error of F.
    closed = objective - bound <= 1e-6 * abs(objective) + 64.0 * problem.value_and_resolution(found)[1]
    status = Status.OPTIMAL if closed else Status.TIME_LIMIT
    return Result(
        **{
            **start,
            "x": found,
            "objective": objective,
            "status": status,
            "success": closed,
            "message": status.value,
            "bound": bound,
            # The certificates of the search are for its own point.
            "cws_gap": start.cws_gap if found is start.x else math.nan,
            "convex_gap": start.convex_gap if found is start.x else None,
            "gap": (objective - bound) / max(abs(objective), 1e-300),
            "time": start.time + working_seconds() - clock,
        }
    )


def _scip(model: Any, total: Any, problem: Problem, strategy: Any, x: Vector) -> tuple[Vector | None, float]:
    """State the problem with an epigraph t ≥ ½xᵀQx, solve it, and return a point and a bound on F."""
    h, n, f = problem.separable, problem.n, problem.f
    if len(h.centre):
        raise ValueError("prove does not support AbsoluteDeviation; leave the turnover term out.")
    sparse = strategy.has_supports
    weights = f.p + h.weight
    upper = np.minimum(h.hi, problem.u.c).tolist()
    v = [model.addVar(lb=least, ub=most) for least, most in zip(h.lo.tolist(), upper, strict=True)] if sparse else []
    on = [model.addVar(vtype="B") for _ in range(n)]
    if sparse:
        for value, most, one in zip(v, upper, on, strict=True):
            model.addCons(value <= most * one)
        model.addCons(total(on) <= strategy.s)
    else:
        v = [float(h.hi[0]) * (2.0 * one - 1.0) for one in on]
    model.addCons(total(v) == problem.u.c)
    t = model.addVar(lb=None)
    values, vectors = np.linalg.eigh(f.Q)
    kept = values > 1e-10 * values.max()
    parts = []
    for value, column in zip(values[kept], vectors[:, kept].T, strict=True):
        parts.append(model.addVar(lb=None))
        model.addCons(parts[-1] == total(math.sqrt(value) * float(column[i]) * v[i] for i in range(n)))
    model.addCons(t >= total(0.5 * z * z for z in parts))
    model.setObjective(t + total(float(weights[i]) * v[i] for i in range(n)), "minimize")
    # Give SCIP the support or the signs of x; it fills in the rest.
    partial = model.createPartialSol()
    for one, variable, value in zip(on, v, x.tolist(), strict=True):
        model.setSolVal(partial, one, float(value > 0.0))
        if sparse:
            model.setSolVal(partial, variable, value)
    model.addSol(partial)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.optimize()
    # At sparse or binary points g is constant.
    constant = f.value_at_zero + problem.offset + problem.g.value(strategy.descend(x))
    point = None
    if model.getNSols():
        found = np.array([model.getVal(variable) for variable in (v if sparse else on)])
        point = strategy.descend(found) if sparse else problem.project(np.where(found > 0.5, h.hi[0], h.lo[0]))
    return point, float(model.getDualbound()) + constant

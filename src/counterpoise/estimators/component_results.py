"""Results of components, with or without steps of a method."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from counterpoise.estimators.covariance import Indices, Matrix, embedded
from counterpoise.kernels import sweep
from counterpoise.problem import Problem, Result, Status
from counterpoise.solvers.run import CLAIMS

# Loadings closer than this are equal.
SAME = 1e-9
# The default tolerance of a run, relative to |F|.
TOLERANCE = 1e-9
# The message for a component that is no longer certified.
CHANGED = "other components moved after this one, and a change of two loadings would raise its variance"


class Found(NamedTuple):
    """Components as columns of V, on all features; scores RV, where RᵀR is the covariance; upper bounds."""

    V: Matrix
    variances: Matrix
    scores: Matrix
    bounds: Matrix
    results: list[Result]
    rounds: int
    sizes: list[int]


def kept(problem: Problem, result: Result, x: Matrix) -> Result:
    """Return the result at x, which has at most s loadings, without its claims if they are about another point."""
    if float(np.abs(x - result.x).max()) > SAME:
        status = Status.STATIONARY if result.status in CLAIMS else result.status
        return Result(**{**no_step(x, problem.objective(x), status, result.seed), "time": result.time})
    result["x"] = x
    return result


def certified(problem: Problem, x: Matrix, seed: int) -> Result | None:
    """Return a certified result at x without a step, or None if some pair gains more than a run's tolerance."""
    gap, (objective, resolution) = pair_gap(problem, x), problem.value_and_resolution(x)
    tolerance = TOLERANCE * abs(objective) + 64.0 * resolution
    if not (gap <= tolerance and problem.is_feasible(x)):
        return None
    result = no_step(x, objective, Status.CERTIFIED, seed, gap=gap)
    result.update(success=True, tolerance=tolerance)
    return result


def as_it_is(problem: Problem, x: Matrix, seed: int) -> Result:
    """Return the uncertified result at x without a step, with its gap."""
    message = "raising this component's own variance would lower the total of all; it is left as it is"
    return no_step(x, problem.objective(x), Status.STATIONARY, seed, message, pair_gap(problem, x))


def examined(problem: Problem, result: Result) -> Result:
    """Return the result with objective, gap and claim recomputed for the same point of another problem."""
    if result.status not in (*CLAIMS, Status.STATIONARY):
        return Result(**{**result, "objective": problem.objective(result.x), "cws_gap": math.nan})
    found = certified(problem, result.x, result.seed)
    if found is None:
        found = as_it_is(problem, result.x, result.seed)
        found["message"] = result.message if result.status is Status.STATIONARY else CHANGED
    return Result(**{**found, **{name: result[name] for name in ("nit", "nacc", "time", "history")}})


def pair_gap(problem: Problem, x: Matrix) -> float:
    """Return ``cws_gap`` as :func:`counterpoise.certify` does, without its other checks and its thread."""
    terms, at = problem.terms(), x.copy()
    sweep.start(terms, at)  # moves `at` onto the sphere, if it is off by rounding
    return float(sweep.scan(terms, at, 0.0, np.inf)[0])


def no_step(
    x: Matrix, objective: float, status: Status, seed: int | None, message: str | None = None, gap: float = math.nan
) -> Result:
    """Return a result at x without steps or claims; its message is that of the status by default."""
    return Result(
        x=x,
        objective=objective,
        status=status,
        success=False,
        message=message or status.value,
        nit=0,
        nacc=0,
        time=0.0,
        history=np.zeros((0, 3)),
        cws_gap=gap,
        tolerance=math.nan,
        seed=seed,
        convex_gap=None,
        support_gap=None,
        swap_gap=None,
    )


def orientation(v: Matrix) -> float:
    """Return the sign that makes the sum of v positive or, if it is 0, its entry of largest absolute value."""
    total = float(v.sum())
    return math.copysign(1.0, total if abs(total) > SAME else float(v[np.argmax(np.abs(v))]))


def moved(result: Result, places: Indices, length: int, sign: float = 1.0) -> Result:
    """Return a result whose point is multiplied by ``sign`` and scattered into zeros."""
    return Result(**{**result, "x": embedded(sign * result.x + 0.0, places, length)})

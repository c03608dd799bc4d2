"""Results of single components: those of a method, and those for which no step was taken."""

from __future__ import annotations

import math

import numpy as np

from counterpoise.estimators.deflation import Indices, Matrix
from counterpoise.kernels import sweep
from counterpoise.problem import Problem, Result, Status
from counterpoise.solvers.run import CLAIMS

# Loadings closer than this are equal.
SAME = 1e-9
# Of a run by default, relative to |F|.
TOLERANCE = 1e-9
# What is said of a component that was certified before.
CHANGED = "other components moved after this one, and a change of two loadings would raise its variance"


def kept(problem: Problem, result: Result, x: Matrix) -> Result:
    """Return the result for x, which has at most s loadings; a claim about another point is dropped."""
    if float(np.abs(x - result.x).max()) > SAME:
        status = Status.STATIONARY if result.status in CLAIMS else result.status
        objective = problem.objective(x)
        return Result(**{**no_step(x, objective, status, status.value, math.nan, result.seed), "time": result.time})
    result["x"] = x
    return result


def certified(problem: Problem, x: Matrix, seed: int) -> Result | None:
    """Return the result at x without a step, if no pair gains more than the tolerance of a run; None otherwise."""
    gap, (objective, resolution) = pair_gap(problem, x), problem.value_and_resolution(x)
    tolerance = TOLERANCE * abs(objective) + 64.0 * resolution
    if not (gap <= tolerance and problem.is_feasible(x)):
        return None
    result = no_step(x, objective, Status.CERTIFIED, Status.CERTIFIED.value, gap, seed)
    result.update(success=True, tolerance=tolerance)
    return result


def as_it_is(problem: Problem, x: Matrix, seed: int) -> Result:
    """Return the result at x without a step, with its gap."""
    message = "raising this component's own variance would lower the total of all; it is left as it is"
    return no_step(x, problem.objective(x), Status.STATIONARY, message, pair_gap(problem, x), seed)


def examined(problem: Problem, result: Result) -> Result:
    """Return a result anew for the same point of another problem: its objective, gap and claim."""
    if result.status not in (*CLAIMS, Status.STATIONARY):
        return Result(**{**result, "objective": problem.objective(result.x), "cws_gap": math.nan})
    found = certified(problem, result.x, result.seed)
    if found is None:
        found = as_it_is(problem, result.x, result.seed)
        found["message"] = result.message if result.status is Status.STATIONARY else CHANGED
    return Result(**{**found, **{name: result[name] for name in ("nit", "nacc", "time", "history")}})


def pair_gap(problem: Problem, x: Matrix) -> float:
    """Return ``cws_gap`` as :func:`counterpoise.certify` does, without what else that examines and without a thread."""
    terms, at = problem.terms(), x.copy()
    sweep.start(terms, at)  # moves `at` onto the sphere, which it may miss by rounding
    return float(sweep.scan(terms, at, 0.0, np.inf)[0])


def no_step(x: Matrix, objective: float, status: Status, message: str, gap: float, seed: int | None) -> Result:
    """Return a result at x without a step and without a claim."""
    return Result(
        x=x,
        objective=objective,
        status=status,
        success=False,
        message=message,
        nit=0,
        nacc=0,
        time=0.0,
        history=np.zeros((0, 3)),
        cws_gap=gap,
        tolerance=math.nan,
        seed=seed,
    )


def orientation(v: Matrix) -> float:
    """Return −1 if −v is to be shown instead of v: the sum is positive, or if it is 0 the largest entry by size."""
    total = float(v.sum())
    return math.copysign(1.0, total if abs(total) > SAME else float(v[np.argmax(np.abs(v))]))


def moved(result: Result, places: Indices, length: int, sign: float = 1.0) -> Result:
    """Return a result with its point scattered into zeros, and with the other sign if that is −1."""
    return Result(**{**result, "x": embedded(sign * result.x + 0.0, places, length)})


def embedded(values: Matrix, places: Indices, length: int) -> Matrix:
    """Scatter values into zeros."""
    out = np.zeros((length, *values.shape[1:]))
    out[places] = values[: len(places)]
    return out

"""Newton steps on faces of the box: the way down where the best points are neither sparse nor binary.

For a smooth g the points of small λ have most coordinates strictly between their bounds, where f is ill-conditioned:
steps on pairs, and steps along the gradient, need thousands of iterations. On a face F the linearised problem

    min ½xᵀQx + (p + w + ∇g(x̄))ᵀx   subject to 1ᵀx = c, coordinates outside F at their bounds

is one linear system; the face of the next follows from the signs of its solution (primal-dual active sets). Steps may
go up, and the face may cycle: the best point met is returned, never one worse than the first.
"""

from __future__ import annotations

import numpy as np

from counterpoise.checks import Vector
from counterpoise.problem import Problem
from counterpoise.terms.constraint import Sum

# Added to the diagonal, relative to its mean, so that a singular Q still gives a step.
RIDGE = 1e-10
# A coordinate so close to a bound is on it, relative to the width of the bounds.
AT_BOUND = 1e-9
# Steps in a row without a better point that end the walk.
PATIENCE = 12


def walk_on_faces(problem: Problem, x: Vector, steps: int) -> Vector:
    """Return the best point of at most so many Newton steps from x, on ``Sum`` with finite bounds and a matrix Q."""
    if not isinstance(problem.u, Sum):
        raise TypeError(f"faces belong to Sum; u is {type(problem.u).__name__}.")
    Q, h, c = problem.f.Q, problem.separable, problem.u.c
    lo, hi, linear = h.lo, h.hi, problem.f.p + h.weight
    ridge = RIDGE * float(np.trace(Q)) / problem.n
    margin = AT_BOUND * (hi - lo)
    side = np.where(x >= hi - margin, 1, np.where(x <= lo + margin, -1, 0))
    best, least, idle = x, problem.objective(x), 0
    for _ in range(steps):
        free, held = np.flatnonzero(side == 0), np.flatnonzero(side)
        if len(free) == 0:
            break
        tilt = linear + problem.g.subgradient(x, linear)
        z = np.where(side > 0, hi, lo)
        system = np.ones((len(free) + 1, len(free) + 1))
        system[:-1, :-1] = Q[np.ix_(free, free)]
        system[-1, -1] = 0.0
        system[np.arange(len(free)), np.arange(len(free))] += ridge
        target = np.append(-tilt[free] - Q[np.ix_(free, held)] @ z[held], c - z[held].sum())
        try:
            solution = np.linalg.solve(system, target)
        except np.linalg.LinAlgError:
            break
        z[free] = solution[:-1]
        slope = Q @ z + tilt + solution[-1]
        following = np.where(z > hi, 1, np.where(z < lo, -1, 0))
        following[held] = np.where(side[held] * slope[held] <= 0.0, side[held], 0)
        if not np.isfinite(z).all():
            break
        x = problem.project(np.clip(z, lo, hi))
        objective = problem.objective(x)
        idle = 0 if objective < least else idle + 1
        if objective < least:
            best, least = x, objective
        if idle >= PATIENCE:
            break
        side = following
    return best

"""Python loops around the kernels: clock, history, callback, stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from counterpoise.problem import Problem, Result
from counterpoise.solvers.bcd import bcd_g, bcd_l

METHODS: dict[str, Callable[..., Result]] = {"bcd-g": bcd_g, "bcd-l": bcd_l}


def minimize(problem: Problem, x0: Any = None, method: str = "bcd-g", **options: Any) -> Result:
    """Minimise a problem from x0.

    Parameters
    ----------
    problem : Problem
    x0 : array of length n, optional
        A start; by default ``problem.start(seed)``. A point off the constraints is projected, with a warning.
    method : {"bcd-g"}
    **options
        Of the method, see :func:`counterpoise.solvers.bcd.bcd_g`: working_set, theta, tol, max_iter,
        max_time, seed, callback.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem is a {type(problem).__name__}; it must be a counterpoise.Problem.")
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; it must be one of {', '.join(map(repr, METHODS))}.")
    return METHODS[method](problem, x0, **options)

"""Methods: Python loops around the kernels, with clock, history, callback and stop."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from counterpoise.checks import choice
from counterpoise.problem import Problem, Result
from counterpoise.solvers.baselines import mscr, pdca, psg
from counterpoise.solvers.bcd import bcd_g, bcd_l
from counterpoise.solvers.exact import exact
from counterpoise.solvers.run import in_sums
from counterpoise.solvers.search import search
from counterpoise.solvers.swap import swap

METHODS: dict[str, Callable[..., Result]] = {
    "bcd-g": bcd_g,
    "bcd-l": bcd_l,
    "swap": swap,
    "search": search,
    "exact": exact,
    "psg": psg,
    "mscr": mscr,
    "pdca": pdca,
}


def minimize(problem: Problem, x0: Any = None, method: str = "bcd-g", **options: Any) -> Result:
    """Minimise a problem from x0.

    Parameters
    ----------
    problem : Problem
    x0 : array of length n, optional
        A start; by default ``problem.start(seed)``. A point off the constraints is projected, with a warning. A
        result's x is a warm start for any method.
    method : {"bcd-g", "bcd-l", "swap", "search", "exact", "psg", "mscr", "pdca"}
    **options
        Options of the method. All take max_time, seed and callback, all but search and exact max_iter, all but exact
        tol. ``max_time`` and the times of a result exclude the compilation of kernels, once per installation.

        bcd-g : k, working_set, theta; see :func:`counterpoise.solvers.bcd.bcd_g`
        bcd-l : k, subproblem, working_set, theta; see :func:`counterpoise.solvers.bcd.bcd_l`
        swap : see :func:`counterpoise.solvers.swap.swap`
        search : work, n_jobs; see :func:`counterpoise.solvers.search.search`
        exact : longest; see :func:`counterpoise.solvers.exact.exact`
        psg : step; mscr : inner, split; pdca : extrapolate, lipschitz; see :mod:`counterpoise.solvers.baselines`
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem is of type {type(problem).__name__}; it must be a counterpoise.Problem.")
    signature = inspect.signature(METHODS[choice(method, "method", METHODS)])
    try:
        signature.bind(problem, x0, **options)
    except TypeError as error:
        names = ", ".join(list(signature.parameters)[2:])
        raise TypeError(f"method {method!r}: {error}; its options are {names}.") from None
    if problem.u.weights is None:
        return METHODS[method](problem, x0, **options)
    a, callback = problem.u.weights, options.get("callback")
    if callback is not None:
        options = {**options, "callback": lambda progress: callback(progress._replace(x=progress.x / a))}
    return in_sums(problem, x0, lambda inner, start: METHODS[method](inner, start, **options))

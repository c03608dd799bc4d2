"""BCD-g: Algorithm 1 of the paper with pairs solved globally, to a certified point."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from counterpoise.checks import number
from counterpoise.kernels import select, sweep
from counterpoise.kernels.dispatch import has_body, implements, kernel
from counterpoise.problem import Problem, Result, Status
from counterpoise.solvers.run import Epoch, Progress, Run

RULES = {
    "hybrid": select.Hybrid,
    "cyclic": select.Cyclic,
    "random": select.Random,
    "greedy": select.Greedy,
    "semi-greedy": select.SemiGreedy,
}


class _FunctionRule(NamedTuple):
    unused: int


def bcd_g(
    problem: Problem,
    x0: Any = None,
    working_set: Any = "hybrid",
    theta: float | None = None,
    tol: float = 1e-9,
    max_iter: int | None = None,
    max_time: float | None = None,
    seed: int | None = 0,
    callback: Callable[[Progress], Any] | None = None,
) -> Result:
    """Minimise by exact pair steps until a scan of every live pair proves the point.

    Parameters
    ----------
    problem : Problem
    x0 : array of length n, optional
    working_set : {"hybrid", "cyclic", "random", "greedy", "semi-greedy"}, or a rule of your own
        A rule is a NamedTuple with a body of :func:`counterpoise.kernels.select.select`, or a function
        ``rule(problem, x, theta, floor, rng)`` that returns a pair (i, j), which is compiled.
    theta : float, optional
        Proximal weight θ ≥ 0: every accepted step has F(x⁺) ≤ F(x) − ½θ‖x⁺ − x‖². Larger values give
        worse points; the default is 1e-12 of the largest curvature.
    tol : float
        A point is certified if no pair decreases F by more than ``tol``·|F|, or by more than double
        precision can tell. Smaller steps are not taken.
    max_iter : int, optional
        Limit on iterations, that is on pairs tried.
    max_time : float, optional
        Limit in seconds, looked at between epochs of some milliseconds.
    seed : int or None
        Of the start and of random choices.
    callback : callable, optional
        Called with a :class:`Progress` after every epoch; returning True stops the run.
    """
    run = Run(problem, x0, tol, max_iter, max_time, seed, callback)
    theta = default_theta(problem) if theta is None else number(theta, "theta", 0.0)
    rule, patience = make_rule(working_set, problem.n)
    terms, x = problem.terms(), run.start
    sweep.start(terms, x)
    age = np.array([0, max(1000, 4 * problem.n)])

    def epoch(trials: int) -> Epoch:
        tried, accepted, settled = sweep.epoch(
            rule, terms, x, theta, run.objective, run.tol, run.noise, trials, patience, run.rng, age
        )
        if not settled:
            return Epoch(x, tried, accepted)
        sweep.start(terms, x)
        age[0] = 0
        objective, noise = run.measure(x)
        tolerance = run.tol * abs(objective) + noise
        # Within the iteration limit the scan's best pair is taken, so that every scan makes progress.
        above = tolerance if tried < trials else np.inf
        gap, *_ = sweep.scan(terms, x, theta, above)
        if gap <= tolerance:
            return Epoch(x, tried, accepted, Status.CERTIFIED, gap)
        return Epoch(x, tried + (tried < trials), accepted + (tried < trials))

    return run.loop(epoch)


def default_theta(problem: Problem) -> float:
    """Return a θ that is positive, as the descent lemma wants, and too small to be seen in the result."""
    return 1e-12 * float(np.abs(problem.f.diagonal).max())


def make_rule(working_set: Any, n: int) -> tuple[Any, int]:
    """Return a rule for kernels and how many idle iterations it gets before a scan."""
    if isinstance(working_set, str):
        if working_set not in RULES:
            raise ValueError(
                f"working_set is {working_set!r}; it must be one of {', '.join(map(repr, RULES))}, or a rule."
            )
        counter = np.array([0, 1])
        return RULES[working_set](counter), n * (n - 1) // 2 if working_set == "cyclic" else n
    if has_body(select.select, type(working_set)):
        return working_set, n
    if callable(working_set):
        return _rule_from_function(working_set), n
    raise TypeError(
        f"working_set is a {type(working_set).__name__}; it must be one of {', '.join(map(repr, RULES))}, a "
        "NamedTuple with a body of counterpoise.kernels.select.select, or a function "
        "rule(problem, x, theta, floor, rng) → (i, j)."
    )


def _rule_from_function(function: Callable[..., Any]) -> Any:
    """Wrap a function as a rule type of its own."""
    body = function if not hasattr(function, "py_func") else function.py_func
    count = len(inspect.signature(body).parameters)
    if count != 5:
        raise TypeError(
            f"the working-set function {body.__name__} takes {count} argument(s); "
            "it must be rule(problem, x, theta, floor, rng) → (i, j)."
        )
    return _rule_type(body)(0)


@functools.cache
def _rule_type(body: Callable[..., Any]) -> Any:
    """Return a NamedTuple type whose ``select`` is ``body``."""
    compiled = kernel(body)
    rule_type = type(f"Rule_{body.__name__}", (_FunctionRule,), {"__slots__": (), "__module__": body.__module__})

    @implements(select.select, rule_type)
    def call(rule, problem, x, theta, floor, rng):  # type: ignore[no-untyped-def]
        return compiled(problem, x, theta, floor, rng)

    return rule_type

"""BCD-g: Algorithm 1 of the paper with pairs solved globally, to a certified point."""

from __future__ import annotations

import functools
import inspect
import math
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from counterpoise.checks import Vector, number, vector, whole_number
from counterpoise.kernels import select, sweep
from counterpoise.kernels.dispatch import has_body, implements, kernel
from counterpoise.problem import Problem, Result, Status

RULES = {
    "hybrid": select.Hybrid,
    "cyclic": select.Cyclic,
    "random": select.Random,
    "greedy": select.Greedy,
    "semi-greedy": select.SemiGreedy,
}
# Iterations of the first epoch; later ones grow until they last so many seconds, for limits, Ctrl-C and progress.
FIRST_EPOCH, EPOCH_SECONDS = 16, 0.05
# A projection farther than this, relative to the size of x, is not a correction of rounding but another point.
FAR = 0.5


class _FunctionRule(NamedTuple):
    unused: int


class Progress(NamedTuple):
    """What a callback sees; returning True from the callback stops the run."""

    iteration: int
    seconds: float
    objective: float
    x: Vector


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
    clock = time.perf_counter()
    rng = np.random.default_rng(seed)
    theta = default_theta(problem) if theta is None else number(theta, "theta", 0.0)
    tol = number(tol, "tol", 0.0)
    if max_iter is not None:
        max_iter = whole_number(max_iter, "max_iter", 1)
    if max_time is not None:
        max_time = number(max_time, "max_time", 0.0)
    rule, patience = make_rule(working_set, problem.n)
    x = problem.start(seed) if x0 is None else feasible_start(problem, x0)

    terms = problem.terms()
    sweep.start(terms, x)
    best = x.copy()
    objective, noise = measure(problem, x)
    history = [(0, time.perf_counter() - clock, objective)]
    age = np.array([0, max(1000, 4 * problem.n)])
    done, accepted, trials, gap = 0, 0, FIRST_EPOCH, math.nan

    status: Status | None = None
    try:
        while status is None:
            if max_iter is not None:
                trials = min(trials, max_iter - done)
            tried, taken, settled = sweep.epoch(
                rule, terms, x, theta, objective, tol, noise, trials, patience, rng, age
            )
            done, accepted = done + tried, accepted + taken
            objective, noise = measure(problem, x)
            if settled:
                sweep.start(terms, x)
                age[0] = 0
                tolerance = tol * abs(objective) + noise
                gap, *_ = sweep.scan(terms, x, theta, tolerance)
                if gap <= tolerance:
                    status = Status.CERTIFIED
                else:
                    done, accepted, gap = done + 1, accepted + 1, math.nan
                    objective, noise = measure(problem, x)
            best[:] = x
            history.append((done, time.perf_counter() - clock, objective))
            status = status or _limit(done, history[-1][1], max_iter, max_time)
            if callback is not None and callback(Progress(*history[-1], best.copy())) and status is None:
                status = Status.STOPPED_BY_CALLBACK
            trials = next_trials(trials, history[-1][1] - history[-2][1])
    except KeyboardInterrupt:
        status, gap = Status.INTERRUPTED, math.nan
    return Result(
        x=best,
        objective=problem.objective(best),
        status=status,
        success=status is Status.CERTIFIED,
        message=status.value,
        nit=int(done),
        nacc=int(accepted),
        time=time.perf_counter() - clock,
        history=np.array(history),
        cws_gap=float(gap),
        tolerance=tol * abs(objective) + noise,
        seed=seed,
    )


def measure(problem: Problem, x: Vector) -> tuple[float, float]:
    """Return F(x), and the decrease of F that cannot be told from rounding."""
    objective, resolution = problem.value_and_resolution(x)
    return objective, 64.0 * resolution


def next_trials(trials: int, seconds: float) -> int:
    """Return how many iterations the next epoch gets, given how long this one took."""
    if seconds > EPOCH_SECONDS:
        return max(1, int(trials * EPOCH_SECONDS / seconds))
    return 2 * trials


def _limit(done: int, seconds: float, max_iter: int | None, max_time: float | None) -> Status | None:
    if max_iter is not None and done >= max_iter:
        return Status.ITERATION_LIMIT
    if max_time is not None and seconds >= max_time:
        return Status.TIME_LIMIT
    return None


def default_theta(problem: Problem) -> float:
    """Return a θ that is positive, as the descent lemma wants, and too small to be seen in the result."""
    return 1e-12 * float(np.abs(problem.f.diagonal).max())


def feasible_start(problem: Problem, x0: Any) -> Vector:
    """Return x0, projected with a warning if it is infeasible, refused if it is far."""
    x = np.array(vector(x0, "x0", problem.n))
    violation = problem.violation(x)
    if violation <= 1e-12:
        return x
    projected = problem.project(x)
    distance = float(np.linalg.norm(projected - x))
    size = max(float(np.linalg.norm(projected)), float(np.linalg.norm(x)))
    if distance > FAR * size:
        raise ValueError(
            f"x0 is infeasible by {violation:.3g} and {distance:.3g} away from the nearest feasible point; "
            "give problem.project(x0) if that point is meant."
        )
    if violation > 1e-9:
        warnings.warn(
            f"x0 is infeasible by {violation:.3g}; the run starts from the nearest feasible point, "
            f"{distance:.3g} away.",
            stacklevel=4,
        )
    return projected


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

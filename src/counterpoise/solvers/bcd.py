"""BCD-g and BCD-l-k: Algorithm 1 of the paper, with blocks solved globally or locally."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from counterpoise.certificates import check_blocks, check_enumeration
from counterpoise.checks import Vector, choice, flag, number, whole_number
from counterpoise.kernels import block, select, sweep
from counterpoise.kernels.dispatch import allocating, has_body, implements
from counterpoise.kernels.pair import Terms, violating_pair
from counterpoise.problem import Problem, Result, Status
from counterpoise.registry import pool_for
from counterpoise.solvers import faces
from counterpoise.solvers.descent import descend, has_large_faces, is_convex
from counterpoise.solvers.pooled import pooled
from counterpoise.solvers.run import Epoch, Progress, Run
from counterpoise.supervision import supervised
from counterpoise.terms.separable import is_gapped

RULES = {
    "hybrid": select.HYBRID,
    "cyclic": select.CYCLIC,
    "random": select.RANDOM,
    "greedy": select.GREEDY,
    "semi-greedy": select.SEMI_GREEDY,
    "violating": select.VIOLATING,
}
# Up to this many coordinates a convex problem begins with Newton steps on faces; with more, pairs find the face sooner,
# unless there are so few rows that a minimiser holds few coordinates.
SMALL, FEW_ROWS = 1000, 500
IDLE_BLOCKS = 10
SUBPROBLEMS = {"nested": block.NESTED, "linearised": block.LINEARISED, "states": block.ENUMERATED}
# The largest blocks of which every state is tried, and about how long one state takes.
MOST_STATES, STATE_SECONDS = 10, 4e-6


class _FunctionRule(NamedTuple):
    unused: int


@supervised
def bcd_g(
    problem: Problem,
    x0: Any = None,
    k: int = 2,
    working_set: Any = None,
    theta: float = 0.0,
    newton: bool = True,
    tol: float = 1e-9,
    max_iter: int | None = None,
    max_time: float | None = None,
    seed: int | None = 0,
    callback: Callable[[Progress], Any] | None = None,
) -> Result:
    """Minimise by exact steps on pairs, or on blocks of up to six, until a scan of every live pair finds no decrease.

    If f is not quadratic, steps are exact on quadratic models of F, and those that do not lower F are undone. The last
    scan, its gap and its certificate are those of ``problem.model(x)``, an upper bound of F.

    Because pairs may need very many steps, Newton steps over several coordinates are also taken. On ``Sum`` with a
    quadratic convex f these are steps on the face of x: after some iterations, and when no pair gains any more; at the
    very beginning if F is convex over all coordinates, n is at most 1000 or A has few rows, and there is no x0. With
    another ``working_set`` or θ > 0 they are taken at the end, or after 50 000 iterations. On ``Sphere`` they are taken
    after 4096 iterations, where a scan of all pairs counts as n.

    Parameters
    ----------
    problem : Problem
    x0 : array of length n, optional
    k : int
        Block size. 2 solves pairs. 3 to 6 enumerate every state of a block (2ᵏ convex programs for TopSum and AtMost,
        3ᵏ faces for the binary problems), for Sum only.
    working_set : str or rule, optional
        For k = 2 "hybrid" (default): the pair that violates optimality most, as long as it gains, then the best of all
        pairs; "violating": only the pair that violates optimality most, and scans of all pairs once it does not gain;
        "cyclic", "random", "greedy", "semi-greedy"; or a rule of your own: a NamedTuple
        with a body of :func:`counterpoise.kernels.select.select`, or a function ``rule(problem, x, theta, floor, rng)``
        that returns a pair (i, j), which is compiled. For larger k "support" (default) or "random".
    theta : float
        Proximal weight θ ≥ 0: every accepted step has F(x⁺) ≤ F(x) − ½θ‖x⁺ − x‖². Larger values give worse points, at
        which pairs may still lower F: the run ends as CERTIFIED only if no pair gains without that term either, and
        otherwise as STATIONARY, with ``cws_gap`` the largest decrease of F itself. The default 0 needs no proximal
        term: a step is accepted only if it lowers F by more than the tolerance.
    newton : bool
        Whether to take the Newton steps described above. False is Algorithm 1 of the paper alone, for pairs; the run
        then ends as CERTIFIED when no pair gains, even if a convex F could still fall: ``convex_gap`` and
        ``support_gap`` say by how much at most.
    tol : float
        A point is certified if no pair decreases F by more than ``tol``·|F| plus rounding error. Smaller steps are not
        taken.
    max_iter : int, optional
        Limit on iterations, that is, on pairs or blocks tried.
    max_time : float, optional
        Time limit in seconds, checked between epochs of some milliseconds.
    seed : int or None
        Seed of the start and of random choices.
    callback : callable, optional
        Called with a :class:`Progress` after every epoch; returning True stops the run.
    """
    k = whole_number(k, "k", 2, problem.n)
    if k > 2:
        check_enumeration(problem, k)
    run = Run(problem, x0, tol, max_iter, max_time, seed, callback)
    theta, newton = number(theta, "theta", 0.0), flag(newton, "newton")
    if k > 2:
        if not newton:
            raise ValueError(f"newton is False, but k is {k}; newton is an option for k = 2, so leave it out.")
        return _descend_by_blocks(run, theta, k, block.ENUMERATED, working_set, IDLE_BLOCKS)
    columns = pool_for(problem) if working_set is None and theta == 0.0 else None
    if columns is not None:

        def on_pool(small: Problem, x: Vector, seconds: float | None) -> Result:
            return bcd_g(small, x, newton=newton, tol=run.tol, max_time=seconds, seed=seed)

        return pooled(run, columns, on_pool, x0 is not None, Status.CERTIFIED)
    run.ended = not newton  # no further descent, which would take these steps
    begins = newton and x0 is None and working_set is None and theta == 0.0 and max_iter is None
    if begins and (problem.n <= SMALL or _holds_few(problem)) and is_convex(problem):
        faces.settle_from_vertex(problem, run.start, run.tol, run.limits)
    return run.finish(*pair_stage(run, run.start, theta, "hybrid" if working_set is None else working_set, newton))


def _holds_few(problem: Problem) -> bool:
    """Return whether a minimiser of a convex F has few coordinates off bounds and kinks: one more than A has rows."""
    f, h = problem.f, problem.separable
    return bool(f.gram and getattr(f, "m", math.inf) <= FEW_ROWS and not h.bend.any() and not h.curve.any())


def pair_stage(
    run: Run, x: Vector, theta: float = 0.0, working_set: Any = "hybrid", newton: bool = True
) -> tuple[Epoch, dict[str, Any]]:
    """Descend from x, in place, by pairs until none gains; return the last report and further claims."""
    rule, patience = make_rule(working_set, run.problem)
    by_faces = has_large_faces(run.problem) if working_set == "hybrid" and theta == 0.0 and newton else None
    if by_faces:
        rule = rule._replace(code=select.VIOLATING)
    last = np.empty(5)

    def advance(terms: Terms, tol: float, level: Vector, trials: int, age: Any) -> Any:
        return sweep.epoch(rule, terms, x, theta, tol, level, trials, patience, run.rng, age, 0.0, last)

    return descend(run, x, theta, advance, by_faces=by_faces, newton=newton)


@supervised
def bcd_l(
    problem: Problem,
    x0: Any = None,
    k: int | None = None,
    subproblem: str = "nested",
    working_set: str | None = None,
    idle_blocks: int = IDLE_BLOCKS,
    theta: float = 0.0,
    tol: float = 1e-9,
    max_iter: int | None = None,
    max_time: float | None = None,
    seed: int | None = 0,
    callback: Callable[[Progress], Any] | None = None,
) -> Result:
    """Minimise by local steps on blocks of k coordinates: BCD-l-k.

    Kinks of h and limits of groups are part of the small programs. A semicontinuous coordinate enters or leaves in
    pairs, or in the states of AtMost.

    Parameters
    ----------
    problem : Problem
    x0 : array of length n, optional
    k : int, optional
        Block size, 2 … n; 10 by default, or n if that is less. Blocks of 10 to 50 are worth their cost.
    subproblem : {"nested", "states", "linearised"}
        "linearised" is the paper's N_B, eq. (plb:subproblemlocal): g is replaced by its tangent. "nested" solves the
        block without g, ranks the result, and tries the states "the first p of the ranking are among the s largest"
        for every p, and the current state: at most k + 2 convex programs. For binary problems the sum leaves only one
        such state. Both are monotone, because every candidate is scored by the true model.

        "states" is the paper's section on local solutions for SIT: each coordinate of the block either belongs to the s
        largest or does not, the convex program of each of these 2ᵏ states is solved (exactly, where the paper takes
        projected subgradients), and the lowest F wins. For k > 10, where 2ᵏ states cannot be tried, it tries those of
        "nested". For ``TopSum`` and ``AtMost`` on ``Sum`` with a convex f and x ≥ 0.
    working_set : {"support", "random"}, optional
        "support" (default) draws a random share of a block from the coordinates above their lower bound, sometimes all
        of them, and half of the rest by least slopes; "random" draws uniformly.
    theta, tol, max_iter, max_time, seed, callback
        As in :func:`bcd_g`; an iteration is a block. "nested" ends as CERTIFIED, by scans of all pairs, whose best pair
        is taken as a step while it gains; "states" and "linearised" take no other steps and end as STATIONARY.
    idle_blocks : int
        The number of blocks per coordinate that must bring nothing, in a row, before all pairs are scanned or the run
        ends; more take longer and find better points.
    """
    k = whole_number(min(10, problem.n) if k is None else k, "k", 2, problem.n)
    kind = SUBPROBLEMS[choice(subproblem, "subproblem", SUBPROBLEMS)]
    check_blocks(problem)
    if subproblem == "states":
        _check_states(problem, k, max_time)
        kind = block.ENUMERATED if k <= MOST_STATES else block.NESTED
    run = Run(problem, x0, tol, max_iter, max_time, seed, callback)
    theta = number(theta, "theta", 0.0)
    idle_blocks = whole_number(idle_blocks, "idle_blocks", 1)
    return _descend_by_blocks(run, theta, k, kind, working_set, idle_blocks, subproblem == "nested")


def _check_states(problem: Problem, k: int, max_time: float | None) -> None:
    """Refuse problems whose blocks do not have the paper's states, and blocks with more than there is time for."""
    h = problem.separable
    fits = problem.free is not None and problem.u.is_line and problem.f.is_convex and not (h.lo < 0.0).any()
    if not fits or (is_gapped(h) and problem.g.lam != math.inf):
        raise ValueError(
            'subproblem "states" needs TopSum or AtMost on Sum, a convex f and x ≥ 0, where each state of a block is a '
            'convex program; subproblem "nested" takes other problems.'
        )
    count = 2**k if k <= MOST_STATES else k + 2
    if max_time is not None and count * STATE_SECONDS > number(max_time, "max_time", 0.0):
        raise ValueError(
            f"a block of {k} coordinates has {count:,} states, about {count * STATE_SECONDS:.1g} s of work, but "
            f"max_time is {max_time:g}; give a smaller k or more time."
        )


def _descend_by_blocks(
    run: Run, theta: float, k: int, kind: int, working_set: str | None, idle_blocks: int, certified: bool = True
) -> Result:
    if working_set not in (None, "support", "random"):
        raise ValueError(f'working_set is {working_set!r}; for blocks it must be "support" or "random".')
    how, patience = block.UNIFORM if working_set == "random" else block.SUPPORT, idle_blocks * run.problem.n
    chosen, z = np.zeros(k, dtype=np.int64), np.zeros(k)

    def advance(terms: Terms, tol: float, level: Vector, trials: int, age: Any) -> Any:
        where = terms, run.start, chosen, z, how, kind, theta
        return block.block_epoch(*where, tol, level, trials, patience, run.rng, age)[:3]

    by_faces = False if certified and theta == 0.0 else None
    return run.finish(*descend(run, run.start, theta, advance, certified, by_faces))


def make_rule(working_set: Any, problem: Problem) -> tuple[Any, int]:
    """Return a rule for kernels, and the number of idle iterations before a scan."""
    n = problem.n
    if isinstance(working_set, str):
        if working_set not in RULES:
            known = ", ".join(map(repr, RULES))
            raise ValueError(f"working_set is {working_set!r}; it must be one of {known}, or a rule.")
        u = problem.u.kernel(problem.separable)
        if working_set in ("violating", "semi-greedy") and not has_body(violating_pair, type(u)):
            raise ValueError(
                f"working_set is {working_set!r}, which takes the pair that violates optimality most, but "
                f'{type(problem.u).__name__} has no measure of that; use "hybrid", "cyclic", "random" or "greedy", or '
                f"register a body of `violating_pair` for {type(u).__name__}."
            )
        patience = n * (n - 1) // 2 if working_set == "cyclic" else n
        return select.Rule(RULES[working_set], np.array([0, 1, 0])), patience
    if has_body(select.select, type(working_set)):
        return working_set, n
    if callable(working_set):
        return _rule_from_function(working_set), n
    raise TypeError(
        f"working_set is of type {type(working_set).__name__}; it must be one of {', '.join(map(repr, RULES))}, a "
        "NamedTuple with a body of counterpoise.kernels.select.select, or a function "
        "rule(problem, x, theta, floor, rng) → (i, j)."
    )


def _rule_from_function(function: Callable[..., Any]) -> Any:
    body = getattr(function, "py_func", function)
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
    compiled = allocating(body)
    rule_type = type(f"Rule_{body.__name__}", (_FunctionRule,), {"__slots__": (), "__module__": body.__module__})

    @implements(select.select, rule_type)
    def call(rule, problem, x, theta, floor, rng):  # type: ignore[no-untyped-def]
        return compiled(problem, x, theta, floor, rng)

    return rule_type

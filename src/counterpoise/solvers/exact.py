"""Proofs of optimality by enumeration, for small problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from counterpoise.certificates import exactness_threshold
from counterpoise.checks import number
from counterpoise.clock import working_seconds
from counterpoise.problem import Problem, Result, Status
from counterpoise.solvers.bcd import pair_stage
from counterpoise.solvers.run import Epoch, Progress, Run
from counterpoise.solvers.search import search, strategy_of
from counterpoise.supervision import supervised

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

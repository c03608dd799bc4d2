"""(S1)–(S4): the entry points that Python calls. Each runs a bounded piece of work and returns."""

from __future__ import annotations

from counterpoise.kernels import arc, line  # noqa: F401  (they register the steps)
from counterpoise.kernels.dispatch import entry_point
from counterpoise.kernels.pair import (
    accept,
    count_accepted,
    exhaustive_best_pair,
    pair_step,
    refresh,
    screened_best_pair,
)
from counterpoise.kernels.select import select


@entry_point
def epoch(rule, problem, x, theta, tol, level, trials, patience, rng, age):
    """Run Algorithm 1 for at most ``trials`` iterations, in place.

    A step is accepted if it decreases the model by more than floor = tol·|F| + noise, so that
    F(x⁺) ≤ F(x) − floor − ½θ‖x⁺ − x‖². ``level`` = (F, noise) and ``age`` = (accepted steps since the terms were
    refreshed, how many there may be, idle iterations in a row) are kept between epochs, so that the steps do not depend
    on where one epoch ends and the next begins.

    Returns
    -------
    done, accepted : int
        Iterations and accepted steps.
    settled : bool
        The rule found no pair, or the last ``patience`` iterations brought nothing: time for a scan.
    """
    accepted, floor = 0, tol * abs(level[0]) + level[1]
    for done in range(trials):
        i, j = select(rule, problem, x, theta, floor, rng)
        if i < 0:
            return done, accepted, True
        new_i, new_j, gain = pair_step(problem.u, problem, x, i, j, theta)
        if gain > floor:
            accept(problem, x, i, new_i, j, new_j)
            accepted += 1
            level[0] -= gain
            floor = tol * abs(level[0]) + level[1]
            count_accepted(problem, x, age)
        else:
            age[2] += 1
            if age[2] >= patience:
                return done + 1, accepted, True
    return trials, accepted, False


@entry_point
def start(problem, x):
    """Bring every term to x."""
    refresh(problem, x)


@entry_point
def scan(problem, x, theta, above):
    """Find the best of all live pairs, and take its step if it decreases the model by more than ``above``.

    Returns
    -------
    gap : float
        The largest decrease that any pair offered; 0 if none did.
    i, j : int
        The pair, or −1.
    di, dj : float
        Its step.
    """
    gap, i, j = screened_best_pair(problem.u, problem, x, theta, 0.0)
    if i < 0:
        return 0.0, -1, -1, 0.0, 0.0
    new_i, new_j, gap = pair_step(problem.u, problem, x, i, j, theta)
    di, dj = new_i - x[i], new_j - x[j]
    if gap > above:
        accept(problem, x, i, new_i, j, new_j)
    return gap, i, j, di, dj


@entry_point
def scan_all(problem, x, theta):
    """Return (gap, i, j, di, dj) as :func:`scan` does, by solving every live pair; x is left as it is."""
    gap, i, j = exhaustive_best_pair(problem, x, theta, 0.0)
    if i < 0:
        return 0.0, -1, -1, 0.0, 0.0
    new_i, new_j, gap = pair_step(problem.u, problem, x, i, j, theta)
    return gap, i, j, new_i - x[i], new_j - x[j]


@entry_point
def step(problem, x, i, j, theta):
    """Return (new_i, new_j, decrease) of one pair."""
    return pair_step(problem.u, problem, x, i, j, theta)

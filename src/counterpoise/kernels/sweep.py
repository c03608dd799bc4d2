"""(S1)–(S4): the entry points that Python calls, each of which does a bounded amount of work."""

from __future__ import annotations

import numpy as np

from counterpoise.checks import Vector
from counterpoise.kernels import arc, line, violating_line  # noqa: F401  (they register the steps)
from counterpoise.kernels.dispatch import entry_point
from counterpoise.kernels.pair import Terms, accept, exhaustive_best_pair, new_age, note_step, pair_step, refresh_if_due
from counterpoise.kernels.select import GREEDY, Rule, next_step, scan_work

Found = tuple[float, int, int, float, float]
# A greedy rule draws no random numbers.
_UNUSED = np.random.default_rng(0)


@entry_point
def epoch(rule, problem, x, theta, tol, level, trials, patience, rng, age, above, last):
    """Run Algorithm 1 for at most ``trials`` iterations, in place.

    A step is accepted if it decreases the model by more than floor = tol·|F| + noise, so that
    F(x⁺) ≤ F(x) − floor − ½θ‖x⁺ − x‖², and by more than ``above``. ``level`` = (F, noise) and ``age`` = (accepted steps
    since the terms were refreshed, their limit, idle iterations in a row, work of scans) are kept between epochs, so
    that the steps do not depend on where one epoch ends and the next begins. The work of slow scans counts as
    iterations, so that an epoch does not take much longer than the last one. ``last`` becomes (decrease, i, j, step of
    i, step of j) of the last iteration.

    Return the numbers of iterations and of accepted steps, and whether the rule found no pair or the last ``patience``
    iterations had no accepted step: time for a scan.
    """
    done, accepted, floor, begun = 0, 0, tol * abs(level[0]) + level[1], age[3]
    while True:
        refresh_if_due(problem, x, age)
        if done + age[3] - begun >= trials:
            return done, accepted, False
        i, j, new_i, new_j, gain = next_step(rule, problem, x, theta, floor, rng)
        age[3] = scan_work(rule)
        if i < 0:
            return done, accepted, True
        last[0], last[1], last[2], last[3], last[4] = gain, i, j, new_i - x[i], new_j - x[j]
        if gain > floor and gain > above:
            accept(problem, x, i, new_i, j, new_j)
            accepted += 1
            level[0] -= gain
            floor = tol * abs(level[0]) + level[1]
            note_step(age)
        else:
            age[2] += 1
        done += 1
        if age[2] >= patience:
            return done, accepted, True


def _one_pair(problem: Terms, x: Vector, theta: float, trials: int, above: float, due: int) -> Found:
    """Refresh the terms if ``due``, try the best pair if ``trials`` is 1, and return it as :func:`scan` does."""
    # One compiled function serves runs, scans and refreshing.
    last = np.array([0.0, -1.0, -1.0, 0.0, 0.0])
    rule, age = Rule(GREEDY, np.zeros(3, dtype=np.int64)), new_age(2, 2 * due)
    epoch(rule, problem, x, float(theta), 0.0, np.zeros(2), trials, 2, _UNUSED, age, float(above), last)
    return float(last[0]), int(last[1]), int(last[2]), float(last[3]), float(last[4])


def start(problem: Terms, x: Vector) -> None:
    """Put x on u(x) = 0, in place, and rebuild the cached state of every term from it."""
    _one_pair(problem, x, 0.0, 0, np.inf, due=1)


def scan(problem: Terms, x: Vector, theta: float, above: float) -> Found:
    """Find the best live pair, and take its step if that decreases the model by more than ``above``.

    Return (gap, i, j, di, dj): the largest decrease that any pair offered, 0 if none did, the pair, or −1, and its
    step.
    """
    return _one_pair(problem, x, theta, 1, above, due=0)


@entry_point
def scan_all(problem, x, theta):
    """Return (gap, i, j, di, dj) as :func:`scan` does, by solving every live pair; x is not changed."""
    gap, i, j, new_i, new_j = exhaustive_best_pair(problem, x, theta, 0.0)
    if i < 0:
        return 0.0, -1, -1, 0.0, 0.0
    return gap, i, j, new_i - x[i], new_j - x[j]


@entry_point
def step(problem, x, i, j, theta):
    """Return (new_i, new_j, decrease) of one pair."""
    return pair_step(problem.u, problem, x, i, j, theta)

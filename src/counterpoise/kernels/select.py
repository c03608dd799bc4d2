"""(S1) and (S2): choose the next pair and compute its step.

The rules of the package are codes in one NamedTuple. A rule of your own is a NamedTuple with a body for
``select(rule, problem, x, theta, floor, rng)``, which returns a pair (i, j), or (−1, −1) if the rule knows that no pair
decreases the model by more than ``floor``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterpoise.kernels.arc import Arc
from counterpoise.kernels.dispatch import implements, kernel, verb
from counterpoise.kernels.pair import closing_pair, is_live, pair_step, violating_pair

# The most violating pair while it decreases F, then the pair with the largest decrease, until there is none.
HYBRID = 0
# All pairs in order, repeatedly; pairs that cannot move are skipped.
CYCLIC = 1
# A pair drawn uniformly.
RANDOM = 2
# The pair with the largest decrease.
GREEDY = 3
# The paper's Algorithms 2 and 3: a random pair and the most violating pair alternately.
SEMI_GREEDY = 4
# The most violating pair while it decreases F; for a convex F, steps on a whole face follow.
VIOLATING = 5
OPENING = 1000.0


class Rule(NamedTuple):
    """One of the codes above, and its counters: of the rule itself, two, and of the work of scans."""

    code: int
    counter: np.ndarray


@verb
def select(rule, problem, x, theta, floor, rng):
    """Return the next pair, or (−1, −1) if no pair can decrease the model by more than ``floor``."""
    raise NotImplementedError


@verb
def scans_slowly(u):
    """Return whether scans of all pairs take very long: a run from a dense point then begins with random pairs."""
    return False


@implements(scans_slowly, Arc)
def _scans_slowly_arc(u):
    """Return True; random pairs also end lower (randn 256, s = 30, λ = 1000: −308 instead of −298 on average)."""
    return True


@verb
def scan_work(rule):
    """Return how many iterations the scans of a rule were worth so far, besides the iterations themselves."""
    return 0


@implements(scan_work, Rule)
def _scan_work(rule):
    """Return the count that :func:`next_step` keeps."""
    return rule.counter[2]


@kernel
def random_pair(n, rng):
    """Return two different coordinates drawn uniformly."""
    i = int(rng.random() * n)
    j = int(rng.random() * (n - 1))
    return i, j + (j >= i)


@kernel
def _next_live_pair(problem, x, counter):
    n = len(x)
    for _ in range(n * (n - 1) // 2):
        i, j = counter[0], counter[1]
        if j + 1 < n:
            counter[1] = j + 1
        else:
            counter[0] = i + 1 if i + 2 < n else 0
            counter[1] = counter[0] + 1
        if is_live(problem.u, problem, x, i, j):
            return i, j
    return np.int64(-1), np.int64(-1)


@verb
def next_step(rule, problem, x, theta, floor, rng):
    """Return (i, j, new_i, new_j, decrease) of the next pair; i = −1 if there is none."""
    i, j = select(rule, problem, x, theta, floor, rng)
    if i < 0:
        return -1, -1, 0.0, 0.0, 0.0
    new_i, new_j, gain = pair_step(problem.u, problem, x, i, j, theta)
    return i, j, new_i, new_j, gain


@implements(next_step, Rule)
def _next_step(rule, problem, x, theta, floor, rng):
    """Return the next step of a rule of the package.

    If :func:`scans_slowly`, HYBRID begins with random pairs while one in n gains much more than ``floor``. Then it
    takes the violating pair while that gains more than ``floor``, and then
    :func:`counterpoise.kernels.pair.closing_pair`.
    """
    n, code, counter = len(x), rule.code, rule.counter
    tries = 0 if code == GREEDY else 1
    if code == HYBRID and counter[0] == 0 and scans_slowly(problem.u):
        tries = n + 1
    if code == SEMI_GREEDY:
        counter[0] += 1
    for left in range(tries, 0, -1):
        i, j = np.int64(-1), np.int64(-1)
        if code == HYBRID and left == 1:
            counter[0] = 1  # the opening is over
        if code == CYCLIC:
            i, j = _next_live_pair(problem, x, counter)
        elif (code == HYBRID and left == 1) or code == VIOLATING or (code == SEMI_GREEDY and counter[0] % 2 == 0):
            i, j = violating_pair(problem.u, problem, x, code == SEMI_GREEDY, rng)
        if i < 0 and (left > 1 or code == RANDOM or code == SEMI_GREEDY):
            i, j = random_pair(n, rng)
        picky = code == HYBRID or code == VIOLATING
        if i >= 0 and (not picky or is_live(problem.u, problem, x, i, j)):
            new_i, new_j, gain = pair_step(problem.u, problem, x, i, j, theta)
            if not picky or gain > (floor if left == 1 else OPENING * floor):
                return i, j, new_i, new_j, gain
        if code == CYCLIC or code == VIOLATING:
            return -1, -1, 0.0, 0.0, 0.0
    if code == HYBRID and scans_slowly(problem.u):
        counter[2] += n
    gain, i, j, new_i, new_j = closing_pair(problem.g, problem, x, theta, floor, code == GREEDY, counter[1:2])
    return i, j, new_i, new_j, gain

"""(S1) which pair to try next. A rule is a NamedTuple with a body for ``select``.

``select(rule, problem, x, theta, floor, rng)`` returns a pair (i, j), or (−1, −1) when the rule
knows that no pair decreases the model by more than ``floor``. Each rule keeps its counters in an array.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterpoise.kernels.arc import Arc
from counterpoise.kernels.concave import is_smooth, subslope
from counterpoise.kernels.dispatch import implements, kernel, verb
from counterpoise.kernels.pair import is_live, next_good_pair, pair_step, screened_best_pair, violating_pair
from counterpoise.kernels.smooth import slopes

OPENING = 1000.0


class Cyclic(NamedTuple):
    """All pairs in order, again and again; pairs that cannot move are passed over."""

    counter: np.ndarray


class Random(NamedTuple):
    """A pair drawn uniformly."""

    counter: np.ndarray


class Greedy(NamedTuple):
    """The pair with the largest decrease."""

    counter: np.ndarray


class SemiGreedy(NamedTuple):
    """The paper's Algorithms 2 and 3: a random pair and the most violating pair in turn."""

    counter: np.ndarray


class Hybrid(NamedTuple):
    """The most violating pair while it helps, then the pair with the largest decrease, until there is none."""

    counter: np.ndarray


@verb
def select(rule, problem, x, theta, floor, rng):
    """Return the next pair, or (−1, −1) if no pair can decrease the model by more than ``floor``."""
    raise NotImplementedError


@verb
def paper_pair(u, problem, x, rng):
    """Return the even steps' pair of the paper's semi-greedy rule."""
    return violating_pair(u, problem, x)


@implements(paper_pair, Arc)
def _paper_pair_arc(u, problem, x, rng):
    """Algorithm 3: i = argmax z, j = argmin z for z = |G ⊙ x − (xᵀG)x ⊙ x|.

    z vanishes on every zero coordinate, so argmin alone would always name the first of them; ties are broken
    at random.
    """
    n = len(x)
    gradient = slopes(problem.f)
    product = 0.0
    for i in range(n):
        product += x[i] * (gradient[i] + problem.h.weight[i] + subslope(problem.g, x, i))
    worst, largest, best, least, ties = 0, -1.0, 0, np.inf, 0
    for i in range(n):
        total = gradient[i] + problem.h.weight[i] + subslope(problem.g, x, i)
        z = abs(total * x[i] - product * x[i] * x[i])
        if z > largest:
            worst, largest = i, z
        if z < least:
            best, least, ties = i, z, 1
        elif z == least:
            ties += 1
            if rng.random() * ties < 1.0:
                best = i
    return (worst, best) if worst != best else (-1, -1)


@kernel
def random_pair(n, rng):
    """Return two different coordinates, uniformly."""
    i = int(rng.random() * n)
    j = int(rng.random() * (n - 1))
    return i, j + (j >= i)


@implements(select, Cyclic)
def _select_cyclic(rule, problem, x, theta, floor, rng):
    n = len(x)
    for _ in range(n * (n - 1) // 2):
        i, j = rule.counter[0], rule.counter[1]
        if j + 1 < n:
            rule.counter[1] = j + 1
        else:
            rule.counter[0] = i + 1 if i + 2 < n else 0
            rule.counter[1] = rule.counter[0] + 1
        if is_live(problem.u, problem, x, i, j):
            return i, j
    return -1, -1


@implements(select, Random)
def _select_random(rule, problem, x, theta, floor, rng):
    return random_pair(len(x), rng)


@implements(select, Greedy)
def _select_greedy(rule, problem, x, theta, floor, rng):
    _, i, j = screened_best_pair(problem.u, problem, x, theta, floor)
    return i, j


@implements(select, SemiGreedy)
def _select_semi_greedy(rule, problem, x, theta, floor, rng):
    rule.counter[0] += 1
    if rule.counter[0] % 2 == 0:
        i, j = paper_pair(problem.u, problem, x, rng)
        if i >= 0:
            return i, j
    return random_pair(len(x), rng)


@verb
def opens_at_random(u):
    """Return whether a run from a dense point does better to begin with random pairs."""
    return False


@implements(opens_at_random, Arc)
def _opens_at_random_arc(u):
    """On the arc it does (randn 256, s = 30, λ = 1000: −308 against −298 in the mean), and a scan is dear there."""
    return True


@implements(select, Hybrid)
def _select_hybrid(rule, problem, x, theta, floor, rng):
    """Open with random pairs while one in n brings much more than ``floor``; then violating pairs; then scans.

    Where g has corners the best of all pairs is worth its scan: it leads to better points. Where g is smooth a good
    pair does as well, and is found in a row or two.
    """
    n, draws = len(x), 0
    if rule.counter[0] == 0 and opens_at_random(problem.u):
        draws = n
    for draw in range(draws + 1):
        if draw < draws:
            i, j = random_pair(n, rng)
            above = OPENING * floor
        else:
            i, j = violating_pair(problem.u, problem, x)
            above = floor
            rule.counter[0] = 1
        if i >= 0 and is_live(problem.u, problem, x, i, j):
            _, _, gain = pair_step(problem.u, problem, x, i, j, theta)
            if gain > above:
                return i, j
    if is_smooth(problem.g):
        return next_good_pair(problem.u, problem, x, theta, floor, rule.counter[1:])
    _, i, j = screened_best_pair(problem.u, problem, x, theta, floor)
    return i, j

"""The parts that pair steps of all constraints share: the problem in kernels, and the true change of F by a move."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from counterpoise.kernels import count  # noqa: F401  (it registers the bodies of AtMost)
from counterpoise.kernels.concave import ConcaveQuadratic, Norm2, change, repositioned
from counterpoise.kernels.dispatch import implements, kernel, verb
from counterpoise.kernels.separable import separable_change
from counterpoise.kernels.smooth import curvature, load, moved, slope

# Number of work arrays of length n that a scan of all pairs needs.
WORK_ROWS = 6


class Terms(NamedTuple):
    """F = f + h + g on u(x) = 0, as NamedTuples that carry their own state, and work arrays for kernels."""

    f: Any
    h: Any
    g: Any
    u: Any
    work: np.ndarray
    places: np.ndarray


@kernel
def model_change(problem, x, i, new_i, j, new_j, theta):
    """Return the change of the model M_B of eq. (plb:subproblem) when xᵢ, xⱼ become new_i, new_j.

    f is quadratic, so with θ = 0 this is the change of F itself. Every candidate of every step is scored here and
    nowhere else: a spurious candidate costs time, never correctness.
    """
    f, di, dj = problem.f, new_i - x[i], new_j - x[j]
    smooth = slope(f, i) * di + slope(f, j) * dj + curvature(f, i, j) * di * dj
    smooth += 0.5 * ((f.diagonal[i] + theta) * di * di + (f.diagonal[j] + theta) * dj * dj)
    separable = separable_change(problem.h, i, x[i], new_i) + separable_change(problem.h, j, x[j], new_j)
    return smooth + separable + change(problem.g, x, i, new_i, j, new_j)


@kernel
def accept(problem, x, i, new_i, j, new_j):
    """Perform (S3): write the pair into x and update the cached state of every term."""
    moved(problem.f, i, new_i - x[i], j, new_j - x[j])
    repositioned(problem.g, i, x[i], new_i)
    repositioned(problem.g, j, x[j], new_j)
    followed(problem.u, i, new_i - x[i])
    followed(problem.u, j, new_j - x[j])
    x[i] = new_i
    x[j] = new_j


@kernel
def refresh(problem, x):
    """Remove accumulated rounding: put x back on u(x) = 0 and rebuild the cached state of all terms."""
    repair(problem.u, problem.h, x)
    load(problem.f, x)
    load(problem.g, x)
    load(problem.u, x)


def new_age(most: int, steps: int = 0) -> np.ndarray:
    """Return ``age`` of :func:`counterpoise.kernels.sweep.epoch`, with terms refreshed after ``most`` steps."""
    return np.array([steps, most, 0, 0])


@kernel
def note_step(age):
    """Count an accepted step in ``age`` and reset its count of idle iterations."""
    age[0] += 1
    age[2] = 0


@kernel
def refresh_if_due(problem, x, age):
    """Refresh once the number of accepted steps reaches the limit in ``age``."""
    if age[0] >= age[1]:
        refresh(problem, x)
        age[0] = 0


@verb
def pair_step(u, problem, x, i, j, theta):
    """Perform (S2): return (new_i, new_j, decrease of the model), the global solution on the pair."""
    raise NotImplementedError


@verb
def is_live(u, problem, x, i, j):
    """Return whether the pair can move at all; by default True."""
    return True


@verb
def screened_best_pair(u, problem, x, theta, floor):
    """Return (decrease, i, j, new_i, new_j) of the best pair; i = −1 if none decreases by more than ``floor``.

    By default every live pair is solved.
    """
    return exhaustive_best_pair(problem, x, theta, floor)


@verb
def next_good_pair(u, problem, x, theta, floor, row):
    """Return some pair that decreases by more than ``floor``, like :func:`screened_best_pair`, from ``row[0]`` on."""
    return screened_best_pair(u, problem, x, theta, floor)


@verb
def closing_pair(g, problem, x, theta, floor, best, row):
    """Return a pair for the end of a run, like :func:`screened_best_pair`; by default the best one."""
    return screened_best_pair(problem.u, problem, x, theta, floor)


@implements(closing_pair, Norm2, ConcaveQuadratic)
def _good_pair(g, problem, x, theta, floor, best, row):
    """Return a good pair, usually found in a row or two, unless the ``best`` is required.

    With a smooth g, very many pairs gain nearly the same small amount near the end.
    """
    if best:
        return screened_best_pair(problem.u, problem, x, theta, floor)
    return next_good_pair(problem.u, problem, x, theta, floor, row)


@verb
def violating_pair(u, problem, x, as_printed, rng):
    """Return the pair that most violates first-order optimality, or (−1, −1); ``as_printed`` by the paper's measure."""
    return -1, -1


@verb
def followed(u, i, step):
    """Update the cached state of u after xᵢ moved by ``step``; by default there is none."""


@verb
def repair(u, h, x):
    """Move x back onto u(x) = 0, which it misses by rounding."""
    raise NotImplementedError


@kernel
def exhaustive_best_pair(problem, x, theta, floor):
    """Return the same as :func:`screened_best_pair` by solving every live pair, without bounds."""
    best, best_i, best_j, at_i, at_j = floor, -1, -1, 0.0, 0.0
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            if is_live(problem.u, problem, x, i, j):
                new_i, new_j, gain = pair_step(problem.u, problem, x, i, j, theta)
                if gain > best:
                    best, best_i, best_j, at_i, at_j = gain, i, j, new_i, new_j
    return best, best_i, best_j, at_i, at_j

"""Rounding does not add up: after many steps x is feasible and what the terms keep of it is true."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import COMPILED
from counterpoise.kernels import sweep
from counterpoise.kernels.dispatch import entry_point
from counterpoise.kernels.pair import accept, refresh
from counterpoise.kernels.select import random_pair
from test_bcd import NAMES, build


@entry_point
def wander_line(problem, x, steps, every, rng):
    """Take random feasible steps along pairs, as many as asked, refreshed as a run is."""
    h = problem.h
    for count in range(steps):
        i, j = random_pair(len(x), rng)
        low, high = max(h.lo[i] - x[i], x[j] - h.hi[j]), min(h.hi[i] - x[i], x[j] - h.lo[j])
        eta = low + (high - low) * rng.random()
        new_i, new_j = min(max(x[i] + eta, h.lo[i]), h.hi[i]), min(max(x[j] - eta, h.lo[j]), h.hi[j])
        accept(problem, x, i, new_i, j, new_j)
        if count % every == 0:
            refresh(problem, x)


@entry_point
def wander_arc(problem, x, steps, every, rng):
    """Turn random pairs to random angles."""
    for count in range(steps):
        i, j = random_pair(len(x), rng)
        v, angle = np.hypot(x[i], x[j]), 0.5 * np.pi * rng.random()
        accept(problem, x, i, v * np.sin(angle), j, v * np.cos(angle))
        if count % every == 0:
            refresh(problem, x)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("steps", [10**6, pytest.param(10**7, marks=pytest.mark.slow)])
def test_millions_of_steps(name, steps, rng):
    problem, _, _ = build(name, rng, n=50, m=30)
    x = problem.start(0)
    terms = problem.terms()
    sweep.start(terms, x)
    wander = wander_arc if name == "NNSPCA" else wander_line
    # The cadence of a run is max(1000, 4n) accepted steps; stop in the middle of an interval.
    wander(terms, x, steps + 500 if COMPILED else 2500, 1000, rng)
    assert problem.violation(x) <= 1e-12
    exact = problem.f.gradient(x)
    assert np.abs(terms.f.gradient - exact).max() <= 1e-9 * np.abs(exact).max()
    if name in ("SIT", "NNSPCA"):
        np.testing.assert_array_equal(terms.g.key, np.sort(np.abs(x))[::-1])
        np.testing.assert_array_equal(np.abs(x)[terms.g.order], terms.g.key)
    if name == "DCPB2":
        assert terms.g.square[0] == pytest.approx(x @ x, rel=1e-9)

"""Walks over supports on the line: the choice of the kernel, and the prices with which the fast one starts a slice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from counterpoise.checks import Vector
from counterpoise.kernels import price_line, swap_line, tabu_line, walk_line
from counterpoise.supervision import Limits
from counterpoise.terms.separable import one_sided_slopes

TOL = 1e-9
# Up to this many held coordinates count as few.
FEW = 30
# Steps of a walk between two checks of the clock.
WALK_SLICE = 256
# Steps for which a newcomer has to stay, at most and as a fraction of s, and for which a leaver has to stay away.
STAY, STAY_SHARE, AWAY = 5, 0.5, 12
# If more than FEW may be held, each walk draws both, from the first number up to below the second.
STAYS, AWAYS = (3, 10), (8, 24)


def walk(
    support: swap_line.Support, x: Vector, s: int, rng: np.random.Generator, steps: int, limits: Limits | None = None
) -> None:
    """Walk over exchanges from x and write the best point to x; if s > FEW, on a model without knots."""
    n = len(x)
    # To fill up the support; where floors decide who is held, a large s is not reached.
    filled = min(s, (n + 1) // 2) if support.ruled else s
    steps += max(0, filled - int(np.count_nonzero(x)))
    away_most = max(1, (n - s) // 2)
    stay, away = max(1, min(STAY, math.ceil(STAY_SHARE * s))), min(AWAY, away_most)
    if s > FEW:
        stay, away = int(rng.integers(*STAYS)), min(int(rng.integers(*AWAYS)), away_most)
    model = straightened(support, x) if s > FEW else support
    if is_plain(model) and s > 1:
        _plain_walk(model, x, s, rng, steps, (stay, away), limits or Limits())
    else:
        tabu_line.walk(support, x, s, steps, stay, away, rng)


def straightened(support: swap_line.Support, x: Vector) -> swap_line.Support:
    """Return the support problem with h replaced by its tangent at x, which has no knots."""
    h: Any = support.h
    if not len(h.centre):
        return support
    none = np.zeros((0, len(x)))
    slopes = 0.5 * np.sum(one_sided_slopes(h, x), axis=0)
    slopes[x == 0.0] = one_sided_slopes(h, x)[1][x == 0.0]
    return support._replace(b=support.b + slopes, h=h._replace(centre=none, cost=none, curve=none))


def is_plain(support: swap_line.Support) -> bool:
    """Return whether 0 is the only bound that matters for weights on a support, and single precision suffices."""
    h: Any = support.h
    u: Any = support.u
    room = (h.hi >= u.total) | (h.hi <= 0.0)
    return not (support.ruled or len(h.centre) or bool((h.lo > 0.0).any())) and bool(
        u.total > 0.0 and room.all() and np.diag(support.Q).max() > 1e-150
    )


def _plain_walk(
    support: swap_line.Support, x: Vector, s: int, rng: np.random.Generator, steps: int, tenures: tuple[int, int],
    limits: Limits,
) -> None:  # fmt: skip
    """Walk by :mod:`counterpoise.kernels.walk_line`, with prices recomputed by matrix products for every slice."""
    h: Any = support.h
    u: Any = support.u
    chosen, per = np.argsort(-x, kind="stable")[:s], 1.0 / float(np.diag(support.Q).max())
    members = chosen[x[chosen] > 0.0]
    now, m, best, best_m = new_state(support, per, s), len(members), math.inf, 0
    now.held[1 : m + 1], now.is_held[members] = members, True
    now.enter_from[h.hi <= 0.0] = steps
    for first in range(0, steps, WALK_SLICE):
        if limits.reached():
            break
        value = priced(support, per, now, m)
        if first == 0 and (now.z[1 : m + 1] > 0.0).all():
            best, best_m, now.best_held[:] = value, m, now.held
        slice_of = first, min(first + WALK_SLICE, steps), *tenures
        m, best, best_m = walk_line.walk(support.Q, per, now, m, s, *slice_of, value, best, best_m, rng)
    if best_m > 0:
        end = np.zeros(len(x))
        end[now.best_held[1 : best_m + 1]] = u.total / best_m
        if math.isfinite(swap_line.descend(support, end, s, TOL, 0.0, 0, 1, 1, np.empty(5))[0]):
            x[:] = end


def new_state(support: swap_line.Support, per: float, s: int) -> walk_line.State:
    """Return the state of a walk without members, in which every coordinate may enter."""
    n, single, whole = len(support.b), np.float32, np.int64
    flat = (walk_line.FLAT * per * np.diag(support.Q)).astype(single)
    return walk_line.State(
        held=np.zeros(s + 2, whole), z=np.zeros(s + 2), M=np.zeros((s + 2, s + 2)), Z=np.zeros((s + 2, n), single),
        schur=np.zeros(n, single), flat=flat, slope=np.zeros(n), leave_from=np.zeros(n, whole),
        enter_from=np.zeros(n, whole), is_held=np.zeros(n, np.bool_), best_held=np.zeros(s + 2, whole),
        leaver=np.zeros(n, single), entry=np.zeros(n, single), out=np.zeros(s + 2), into=np.zeros(s + 2),
        leaving=np.zeros(s + 2),
        open_slope=np.zeros(n, single), open_schur=np.zeros(n, single),
    )  # fmt: skip


def priced(support: swap_line.Support, per: float, now: walk_line.State, m: int) -> float:
    """Compute the weights and prices of the m members of a state; return the value in units of 1/``per``."""
    u: Any = support.u
    held = now.held[1 : m + 1]
    K = np.vstack([np.ones(len(support.b)), per * support.Q[held]])
    # Among zero columns, an inverse of 1e100 would overflow in single precision.
    M, b = inverse_with_sum(K[1:, held], 1e-15), per * support.b
    M = np.roll(M, 1, axis=(0, 1))  # the sum comes first
    z = u.total * M[1:, 0] - M[1:, 1:] @ b[held]
    Z = M.astype(np.float32) @ K.astype(np.float32)
    now.M[: m + 1, : m + 1], now.z[1 : m + 1], now.Z[: m + 1] = M, z, Z
    now.schur[:] = per * np.diag(support.Q) - np.einsum("ak,ak->k", K, Z)
    slope = b + z @ K[1:]
    now.slope[:] = slope - slope[held].mean()
    return float(0.5 * z @ (slope[held] + b[held]))


def inverse_with_sum(Q: Any, least: float = 1e-100) -> Any:
    """Return [[Q, 1], [1ᵀ, 0]]⁻¹ with a ridge, at least ``least``, that keeps it finite."""
    inverse = np.linalg.inv(Q + max(price_line.RIDGE * float(np.diag(Q).max()), least) * np.eye(len(Q)))
    row = inverse.sum(axis=1)
    bordered = np.empty((len(Q) + 1, len(Q) + 1))
    bordered[:-1, :-1] = inverse - np.outer(row, row) / row.sum()
    bordered[:-1, -1] = bordered[-1, :-1] = row / row.sum()
    bordered[-1, -1] = -1.0 / row.sum()
    return bordered

"""Stationary points on the sphere, of every support. Nothing here imports the package."""

from __future__ import annotations

import itertools

import numpy as np

REFINEMENTS = 4
MOST_SYSTEMS = 8000


def on_arc(case, penalised):
    """Stationary points of every support, every choice of its s largest and, if they matter, of its signs.

    They are eigenvectors, or roots of (Q − ν)x = −b. Points are returned with both signs where x has signs.
    """
    n = case.n
    supports = _supports(case, penalised and case.g == "top" and case.lam > 0.0)
    if supports is None:
        return None
    found, by_size = [np.eye(n)], {}
    for T, slopes in supports:
        by_size.setdefault(len(T), []).append((T, slopes))
    for k, group in by_size.items():
        sets, slopes = np.array([T for T, _ in group]), np.array([slope for _, slope in group])
        Q = case.Q[sets[:, :, None], sets[:, None, :]]
        scale = max(float(np.abs(case.Q).max()), float(np.abs(slopes).max()), 1e-300)
        plain = np.abs(slopes).max(axis=1) <= 1e-14 * scale
        # Eigenvectors of all supports: with a tiny b the roots are double and lose half of their digits.
        values, vectors = np.linalg.eigh(Q / scale)
        vectors = vectors.transpose(0, 2, 1)
        parts = [(np.repeat(sets, k, axis=0), vectors.reshape(-1, k))]
        if (~plain).any():
            parts.append(_secular(Q[~plain] / scale, slopes[~plain] / scale, sets[~plain]))
            parts += _hard(values[~plain], vectors[~plain], slopes[~plain] / scale, sets[~plain])
        for places, vectors in parts:
            x = np.zeros((len(vectors), n))
            x[np.arange(len(vectors))[:, None], places] = vectors
            found.append(x)
    points = np.concatenate([*found, *(-x for x in found[0 if case.signed else 1 :])])
    if not case.signed:
        points = np.maximum(points[(points >= -1e-13).all(axis=1)], 0.0)
    points = points / np.sqrt((points * points).sum(axis=1))[:, None]
    return points, case.values(points)


def _supports(case, top):
    """The sets of coordinates that are not 0, each with the slopes of all that is not quadratic; None if too many."""
    n, most = case.n, min(case.s, case.n) if case.g == "at most" else case.n
    b, cost = case.p + case.w, sum((cost for _, cost in case.kinks), np.zeros(case.n))
    made = []
    for k in range(1, most + 1):
        for T in map(list, itertools.combinations(range(n), k)):
            even = {
                tuple(cost[T] - (case.lam * np.isin(T, S) if top else 0.0))
                for S in (itertools.combinations(T, min(case.s, k)) if top else [()])
            }
            # What |xᵢ| is multiplied with; where that is 0 the sign does not matter.
            bs = {
                tuple(b[T] + np.array(signs) * each)
                for each in even
                for signs in (
                    itertools.product(*((1.0, -1.0) if one != 0.0 else (1.0,) for one in each))
                    if case.signed
                    else [np.ones(k)]
                )
            }
            made += [(T, slopes) for slopes in sorted(bs)]
        if sum(2 * len(T) for T, _ in made) > MOST_SYSTEMS:
            return None
    return made


def _secular(Q, b, sets):
    """All x with (Q − νI)x = −b and ‖x‖ = 1: ν is an eigenvalue of [[Q, −I], [−bbᵀ, Q]]."""
    k = Q.shape[1]
    eye = np.broadcast_to(np.eye(k), Q.shape)
    outer = b[:, :, None] * b[:, None, :]
    values = np.linalg.eigvals(np.concatenate([np.concatenate([Q, -eye], 2), np.concatenate([-outer, Q], 2)], 1))
    rows, columns = np.nonzero(np.abs(values.imag) <= 1e-5 * (1.0 + np.abs(values.real)))
    shifted = Q[rows] - values.real[rows, columns][:, None, None] * np.eye(k)
    x = -np.einsum("rij,rj->ri", np.linalg.pinv(shifted, rcond=1e-13), b[rows])
    norms = np.sqrt((x * x).sum(axis=1))
    good = norms > 1e-8
    return sets[rows[good]], x[good] / norms[good][:, None]


def _hard(values, vectors, b, sets):
    """All x of norm 1 with ν an eigenvalue that b has no part in: any length along its vector is stationary."""
    parts, along = [], np.einsum("rki,ri->rk", vectors, b)
    for k in range(values.shape[1]):
        apart = values - values[:, k : k + 1]
        weights = np.where(np.abs(apart) > 1e-13, -along / np.where(np.abs(apart) > 1e-13, apart, 1.0), 0.0)
        weights[:, k] = 0.0
        x = np.einsum("rk,rki->ri", weights, vectors)
        left = 1.0 - (x * x).sum(axis=1)
        good = left > 0.0
        more = np.sqrt(np.maximum(left, 0.0))[:, None] * vectors[:, k]
        parts += [(sets[good], (x + sign * more)[good]) for sign in (1.0, -1.0)]
    return parts


def refined(case, x):
    """A point of the sphere near x, on its support and with no larger F, by Newton steps scaled to the columns.

    Eigenvectors are exact to rounding of the longest column, which may be far from exact for the others.
    """
    best, held = case.value(x), np.flatnonzero(x)
    signs = np.where(x < 0.0, -1.0, 1.0)
    slope = case.w + signs * sum((cost for _, cost in case.kinks), np.zeros(case.n))
    if case.g == "top":
        top = np.argsort(-np.abs(x), kind="stable")[: case.s]
        slope[top] -= case.lam * signs[top]
    for _ in range(REFINEMENTS if len(held) > 1 else 0):
        z, total = x[held], (case.gradient(x) + slope)[held]
        nu = float(z @ total)
        scale = 1.0 / np.sqrt(np.abs(np.diag(case.Q))[held] + abs(nu) + 1e-300)
        system = np.zeros((len(held) + 1, len(held) + 1))
        system[:-1, :-1] = (case.Q[np.ix_(held, held)] - nu * np.eye(len(held))) * np.outer(scale, scale)
        system[:-1, -1] = system[-1, :-1] = z * scale / np.linalg.norm(z * scale)
        step = np.linalg.lstsq(system, np.append((nu * z - total) * scale, 0.0), rcond=None)[0][:-1] * scale
        moved = x.copy()
        moved[held] = z + step if case.signed else np.maximum(z + step, 0.0)
        moved /= np.sqrt(moved @ moved) or np.nan  # nothing is left of it
        if not np.isfinite(moved).all() or not case.value(moved) < best:
            break
        best, x = case.value(moved), moved
    return best, x

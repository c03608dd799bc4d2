"""True optima of small problems: every face on the line, every support on the arc. Nothing here imports the package.

All functions return feasible points and their values of F. A point with a lower value than a claim allows refutes the
claim whatever else is true, so a candidate that is missed can hide a fault but never invent one.
"""

from __future__ import annotations

import itertools

import numpy as np

MOST_STATES = 120_000
# Candidates may leave their box by so much, relative to the size of the point.
SLACK = 1e-10
REFINEMENTS = 4


def candidates(case, penalised=True):
    """Stationary points of every face on the line or of every support on the arc, or None if there are too many.

    ``penalised`` counts the slopes of g among those of the pieces; without it F is f + h.
    """
    return _on_line(case, penalised) if case.on_line else _on_arc(case, penalised)


def _on_line(case, penalised):
    """Each coordinate is fixed at a breakpoint or free with a slope; the free ones solve one bordered system.

    A minimiser over a polytope may be chosen on a face where the reduced Hessian is definite, so that singular systems
    need no care.
    """
    n, kind = case.n, case.g if penalised else None
    points, slopes = _pieces(case, kind == "top" and case.lam > 0.0)
    fixed, free = points.shape[1], slopes.shape[1]
    if (fixed + free) ** n > MOST_STATES:
        return None
    H = case.Q - (2.0 * case.lam if kind == "square" else 0.0) * np.eye(n)
    found = []
    for m in range(n + 1):
        sets = _subsets(n, m)
        others = _subsets(n, n - m)[::-1]  # complements, in the order of combinations
        held = _choices(points, others)
        if m == 0:
            found.append(held.reshape(-1, n))
            continue
        # Index letters: one face a row, then the values of the fixed, then the slopes of the free.
        b = _choices(slopes, sets) + case.p[sets][:, None, :]
        couplings = H[sets[:, :, None], others[:, None, :]]
        pull = np.einsum("fij,fkj->fki", couplings, held)
        right = np.zeros((len(sets), held.shape[1], b.shape[1], m + 1))
        right[..., :m] = -(b[:, None] + pull[:, :, None])
        right[..., m] = (case.c - held.sum(axis=2))[:, :, None]
        scale = max(float(np.abs(H).max()), 1e-300)
        system = np.zeros((len(sets), m + 1, m + 1))
        system[:, :m, :m] = H[sets[:, :, None], sets[:, None, :]]
        system[:, :m, m] = system[:, m, :m] = scale
        right[..., m] *= scale
        good = np.linalg.cond(system) < 1e15 if m > 1 else np.ones(len(sets), dtype=bool)
        if not good.any():
            continue
        inverse, right, system = np.linalg.inv(system[good]), right[good], system[good]
        z = np.einsum("fij,fkbj->fkbi", inverse, right)
        z += np.einsum("fij,fkbj->fkbi", inverse, right - np.einsum("fij,fkbj->fkbi", system, z))
        z = z[..., :m]
        x = np.empty((*z.shape[:3], n))
        faces = np.arange(len(z))[:, None, None, None]
        around = np.arange(z.shape[1])[None, :, None, None], np.arange(z.shape[2])[None, None, :, None]
        x[faces, *around, sets[good][:, None, None, :]] = z
        x[faces, *around, others[good][:, None, None, :]] = held[good][:, :, None, :]
        found.append(x.reshape(-1, n))
    return _feasible(case, np.concatenate(found))


def _subsets(n, m):
    chosen = list(itertools.combinations(range(n), m))
    return np.array(chosen, dtype=int).reshape(len(chosen), m)


def _pieces(case, top):
    """Breakpoints and slopes of every coordinate, each padded to the same number."""
    n, zero = case.n, np.zeros(case.n)
    points = [case.low, case.high] + [np.clip(centre, case.low, case.high) for centre, _ in case.kinks]
    slopes = []
    signed = top and (case.low < 0.0).any()
    points += [np.clip(zero, case.low, case.high)] if signed else []
    for signs in itertools.product((-1.0, 1.0), repeat=len(case.kinks)):
        base = case.w + sum((sign * cost for sign, (_, cost) in zip(signs, case.kinks, strict=True)), zero)
        slopes += [
            base + tilt for tilt in ((0.0, -case.lam, case.lam) if signed else (0.0, -case.lam) if top else (0.0,))
        ]
    return np.array(points).T.reshape(n, -1), np.array(slopes).T.reshape(n, -1)


def _choices(options, sets):
    """One option for every member of every set: sets × choices × members."""
    count = options.shape[1]
    picks = list(itertools.product(range(count), repeat=sets.shape[1]))
    picks = np.array(picks, dtype=int).reshape(len(picks), sets.shape[1])
    return options[sets[:, None, :], picks[None]]


def _feasible(case, points):
    """Keep the points that meet all constraints, with their values of F."""
    scale = np.maximum(np.abs(points).sum(axis=1), abs(case.c)) * SLACK
    with np.errstate(invalid="ignore"):
        inside = ((points >= case.lo - scale[:, None]) & (points <= case.hi + scale[:, None])).all(axis=1)
        total = (np.abs(points.sum(axis=1) - case.c) <= 4.0 * scale) if case.on_line else True
        points = points[inside & total & np.isfinite(points).all(axis=1)]
    points = np.clip(points, case.lo, case.hi)
    for _ in range(2 if case.on_line and len(points) else 0):
        # What rounding leaves of the sum goes to the coordinate with the most room; λ would magnify it.
        k = np.minimum(points - case.low, case.high - points).argmax(axis=1)
        rows = np.arange(len(points))
        rest = np.array(case.c - points.astype(np.longdouble).sum(axis=1), dtype=float)
        points[rows, k] = np.clip(points[rows, k] + rest, case.lo[k], case.hi[k])
    if case.on_line:
        rest = np.abs(case.c - points.astype(np.longdouble).sum(axis=1))
        points = points[rest <= 4e-16 * np.maximum(np.abs(points).sum(axis=1), abs(case.c))]
    return points, case.values(points)


def _on_arc(case, penalised):
    """Stationary points of every support and every choice of its s largest: eigenvectors, or roots of (Q − ν)x = −b."""
    n, top = case.n, penalised and case.g == "top" and case.lam > 0.0
    b = case.p + case.w
    supports = [
        (list(T), list(S))
        for k in range(1, n + 1)
        for T in itertools.combinations(range(n), k)
        for S in (itertools.combinations(T, min(case.s, k)) if top else [()])
    ]
    if sum(2 * len(T) for T, _ in supports) > 8000:
        return None
    found, by_size = [np.eye(n)], {}
    for T, S in supports:
        by_size.setdefault(len(T), []).append((T, b[T] - case.lam * np.isin(T, S)))
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
    points = np.concatenate([*found, *(-x for x in found[1:])])
    points = points[(points >= -1e-13).all(axis=1)]
    points = np.maximum(points, 0.0)
    points = points / np.sqrt((points * points).sum(axis=1))[:, None]
    return points, case.values(points)


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


def sparse_best(case):
    """The least f + h on every support of at most s coordinates, as a function of a set of coordinates, or None.

    On the line the lower bounds must be 0 or more; a support contains what has to be positive.
    """
    bare = candidates(case, penalised=not case.on_line)
    if bare is None:
        return None
    points, _ = bare
    at = np.abs(points) > 1e-12 * np.abs(points).max(axis=1, keepdims=True)
    few = at.sum(axis=1) <= case.s
    points, at = np.where(at, points, 0.0)[few], at[few]
    values = case.values(points)
    codes = at @ (1 << np.arange(case.n))

    def least(members):
        allowed = sum(1 << int(i) for i in members)
        fits = (codes & ~allowed) == 0
        if not fits.any():
            return np.inf, None
        k = int(np.flatnonzero(fits)[values[fits].argmin()])
        return float(values[k]), points[k]

    return least


def refined(case, x):
    """A point of the sphere near x, on its support and with no larger F, by Newton steps scaled to the columns.

    Eigenvectors are exact to rounding of the longest column, which may be far from exact for the others.
    """
    best, held = case.value(x), np.flatnonzero(x)
    slope = np.zeros(case.n) + case.w
    if case.g == "top":
        slope[np.argsort(-x, kind="stable")[: case.s]] -= case.lam
    for _ in range(REFINEMENTS if len(held) > 1 else 0):
        z, total = x[held], (case.gradient(x) + slope)[held]
        nu = float(z @ total)
        scale = 1.0 / np.sqrt(np.abs(np.diag(case.Q))[held] + abs(nu) + 1e-300)
        system = np.zeros((len(held) + 1, len(held) + 1))
        system[:-1, :-1] = (case.Q[np.ix_(held, held)] - nu * np.eye(len(held))) * np.outer(scale, scale)
        system[:-1, -1] = system[-1, :-1] = z * scale / np.linalg.norm(z * scale)
        step = np.linalg.lstsq(system, np.append((nu * z - total) * scale, 0.0), rcond=None)[0][:-1] * scale
        moved = x.copy()
        moved[held] = np.maximum(z + step, 0.0)
        moved /= np.sqrt(moved @ moved)
        if not np.isfinite(moved).all() or not case.value(moved) < best:
            break
        best, x = case.value(moved), moved
    return best, x


def best_exchange(case, x, least, own=True):
    """The least F after one exchange from the support of x, or ``own`` new weights on it, and the point."""
    held = np.flatnonzero(x)
    best = least(held) if own else (np.inf, None)
    leavers = [i for i in held if case.lo[i] <= 0.0]
    staying = [held] if len(held) < case.s else [np.setdiff1d(held, [i]) for i in leavers]
    for rest in staying:
        for enters in np.setdiff1d(np.arange(case.n), held):
            found = least([*rest, enters])
            best = min(best, found, key=lambda pair: pair[0])
    return best


def best_exchange_then(case, x, least):
    """The same, exchanging what is held *after* the new weights: the definition of a certificate."""
    own, point = least(np.flatnonzero(x))
    if point is None:
        return own, point
    return min((own, point), best_exchange(case, point, least, own=False), key=lambda pair: pair[0])


def binary_points(case):
    """All points with every coordinate at a bound but at most one, whose value the sum fixes."""
    n, found = case.n, []
    corners = np.array(list(itertools.product((0, 1), repeat=n)))
    ends = np.where(corners == 0, case.low, case.high)
    for odd in range(n):
        x = ends.copy()
        x[:, odd] = case.c - (ends.sum(axis=1) - ends[:, odd])
        found.append(x)
    return _feasible(case, np.concatenate(found))

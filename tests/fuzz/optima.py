"""True optima of small problems: every face on the line, every support on the arc. Nothing here imports the package.

All functions return feasible points and their values of F. A point with a lower value than a claim allows refutes the
claim whatever else is true, so a candidate that is missed can hide a fault but never invent one.
"""

from __future__ import annotations

import itertools

import numpy as np

from fuzz.arcs import on_arc, refined
from fuzz.reference import Case

MOST_STATES = 120_000
# Candidates may leave their box by so much, relative to the size of the point.
SLACK = 1e-10
# What rounding may leave of the limit of a group.
LIMIT = 1e-14
# Steps on a loss; shares of the way to the minimiser of a model; how much of the upper bound a model mixes in.
NEWTON_STEPS, SHARES, MIXES = 200, 2.0 ** -np.arange(0.0, 30.0), (0.0, 1e-9, 1e-6, 1e-3, 1.0)


def candidates(case, penalised=True):
    """Stationary points of every face on the line or of every support on the arc, or None if there are too many.

    ``penalised`` counts the slopes of g among those of the pieces; without it F is f + h. None for a loss, too.
    """
    if case.loss:
        return None
    return _on_line(case, penalised) if case.on_line else on_arc(case, penalised)


def _on_line(case, penalised):
    """Each coordinate is fixed at a breakpoint or free with a slope, each group at a limit or not.

    The free ones solve one bordered system. A minimiser over a polytope may be chosen on a face where the reduced
    Hessian is definite and the rows of the border are independent, so that singular systems need no care.
    """
    kind = case.g if penalised else None
    points, slopes = _pieces(case, kind == "top" and case.lam > 0.0)
    limits = [[None, *{end for end in group[1:] if np.isfinite(end)}] for group in case.groups]
    states = (points.shape[1] + slopes.shape[1]) ** case.n * int(np.prod([len(each) for each in limits]))
    if states > MOST_STATES:
        return None
    H = case.Q - (2.0 * case.lam if kind == "square" else 0.0) * np.eye(case.n)
    found = []
    for chosen in itertools.product(*limits):
        rows, totals = [np.ones(case.n)], [case.c]
        for (members, _, _), limit in zip(case.groups, chosen, strict=True):
            if limit is not None:
                rows.append(np.isin(np.arange(case.n), members).astype(float))
                totals.append(limit)
        found += _faces(case, H, points, slopes, np.array(rows), np.array(totals))
    return _feasible(case, np.concatenate(found))


def _faces(case, H, points, slopes, rows, totals):
    """The stationary points of all faces with given rows of the border."""
    n, found, more = case.n, [], len(rows)
    scale = max(float(np.abs(H).max()), 1e-300)
    for m in range(n + 1):
        sets = _subsets(n, m)
        others = _subsets(n, n - m)[::-1]  # complements, in the order of combinations
        held = _choices(points, others)
        if m == 0:
            found.append(held.reshape(-1, n))
        if m < more:
            continue
        # Index letters: one face a row, then the values of the fixed, then the slopes of the free.
        b = _choices(slopes, sets) + case.p[sets][:, None, :]
        couplings = H[sets[:, :, None], others[:, None, :]]
        pull = np.einsum("fij,fkj->fki", couplings, held)
        right = np.zeros((len(sets), held.shape[1], b.shape[1], m + more))
        right[..., :m] = -(b[:, None] + pull[:, :, None])
        system = np.zeros((len(sets), m + more, m + more))
        system[:, :m, :m] = H[sets[:, :, None], sets[:, None, :]]
        for k, (row, total) in enumerate(zip(rows, totals, strict=True)):
            right[..., m + k] = scale * (total - np.einsum("fj,fkj->fk", row[others], held))[:, :, None]
            system[:, :m, m + k] = system[:, m + k, :m] = scale * row[sets]
        good = np.linalg.cond(system) < 1e15 if m > 1 else np.ones(len(sets), dtype=bool)
        if not good.any():
            continue
        right, system = right[good], system[good]
        try:
            inverse = np.linalg.inv(system)
        except np.linalg.LinAlgError:  # singular although its condition number is below the limit
            with np.errstate(all="ignore"):
                inverse = np.linalg.pinv(system)
        z = np.einsum("fij,fkbj->fkbi", inverse, right)
        z += np.einsum("fij,fkbj->fkbi", inverse, right - np.einsum("fij,fkbj->fkbi", system, z))
        z = z[..., :m]
        x = np.empty((*z.shape[:3], n))
        faces = np.arange(len(z))[:, None, None, None]
        around = np.arange(z.shape[1])[None, :, None, None], np.arange(z.shape[2])[None, None, :, None]
        x[faces, *around, sets[good][:, None, None, :]] = z
        x[faces, *around, others[good][:, None, None, :]] = held[good][:, :, None, :]
        found.append(x.reshape(-1, n))
    return found


def _subsets(n, m):
    chosen = list(itertools.combinations(range(n), m))
    return np.array(chosen, dtype=int).reshape(len(chosen), m)


def _pieces(case, top):
    """Breakpoints and slopes of every coordinate, each padded to the same number."""
    n, zero = case.n, np.zeros(case.n)
    points = [case.low, case.high] + [np.clip(centre, case.low, case.high) for centre, _ in case.kinks]
    points += [np.where(case.gapped, case.floor, case.low)] if case.gapped.any() else []
    slopes = []
    signed = top and (case.low < 0.0).any()
    points += [np.clip(zero, case.low, case.high)] if signed or (case.g == "at most" and (case.low < 0.0).any()) else []
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
    if case.g == "at most":
        points = points[(points != 0.0).sum(axis=1) <= case.s]
    scale = np.maximum(np.abs(points).sum(axis=1), abs(case.c)) * SLACK
    with np.errstate(invalid="ignore"):
        inside = ((points >= case.lo - scale[:, None]) & (points <= case.hi + scale[:, None])).all(axis=1)
        inside &= (~case.gapped | (points == 0.0) | (points >= case.floor - scale[:, None])).all(axis=1)
        total = (np.abs(points.sum(axis=1) - case.c) <= 4.0 * scale) if case.on_line else True
        points = points[inside & total & np.isfinite(points).all(axis=1)]
    points = np.clip(points, case.lo, case.hi)
    points = np.where(case.gapped & (points != 0.0), np.maximum(points, case.floor), points)
    # What is 0 may have to stay 0.
    stays = (points == 0.0) & (case.gapped | (case.g == "at most"))
    low = np.where(case.gapped & (points != 0.0), case.floor, case.low)
    for _ in range(2 if case.on_line and len(points) else 0):
        # What rounding leaves of the sum goes to the coordinate with the most room; λ would magnify it.
        k = np.where(stays, -np.inf, np.minimum(points - low, case.high - points)).argmax(axis=1)
        rows = np.arange(len(points))
        rest = np.array(case.c - points.astype(np.longdouble).sum(axis=1), dtype=float)
        points[rows, k] = np.where(stays[rows, k], 0.0, np.clip(points[rows, k] + rest, low[rows, k], case.hi[k]))
    if case.on_line:
        wide, size = points.astype(np.longdouble), np.maximum(np.abs(points).sum(axis=1), abs(case.c))
        keeps = np.abs(case.c - wide.sum(axis=1)) <= 4e-16 * size
        for members, least, most in case.groups:
            total = wide[:, members].sum(axis=1)
            keeps &= (total >= least - LIMIT * size) & (total <= most + LIMIT * size)
        points = points[keeps]
    return points, case.values(points)


def sparse_best(case):
    """The least F over the points that hold some coordinates, as a function of their set, or None.

    The others are 0, and a coordinate with a floor is at or above it; f + h is minimised where g is a top sum, whose
    lower bounds must be 0 or more on the line, and a support contains what has to be positive.
    """
    if case.loss:
        return _loss_best(case) if case.on_line else None
    bare = candidates(case, penalised=not case.on_line)
    if bare is None:
        return None
    points, _ = bare
    at = np.abs(points) > 1e-12 * np.abs(points).max(axis=1, keepdims=True)
    few = at.sum(axis=1) <= case.s if case.sparse else np.ones(len(at), dtype=bool)
    points, at = np.where(at, points, 0.0)[few], at[few]
    values = case.values(points)
    bits = 1 << np.arange(case.n)
    codes, gapped = at @ bits, int(case.gapped @ bits)

    def least(members):
        allowed = sum(1 << int(i) for i in members)
        fits = ((codes & ~allowed) == 0) & ((codes & gapped) == (allowed & gapped))
        if not fits.any():
            return np.inf, None
        k = int(np.flatnonzero(fits)[values[fits].argmin()])
        return (float(values[k]), points[k]) if case.on_line else refined(case, points[k])

    return least


def _loss_best(case):
    """The same where f is a loss: one convex program for each set, solved when it is asked for."""
    known = {}

    def least(members):
        key = tuple(sorted(int(i) for i in members))
        if key not in known:
            known[key] = _loss_on(case, np.array(key, dtype=int)) if key else (np.inf, None)
        return known[key]

    return least


def _on_members(case, members, Q, p):
    """The problem over some coordinates, the others 0, with a quadratic f and without g."""
    rows = [np.flatnonzero(np.isin(members, at)) for at, _, _ in case.groups]
    groups = [(at, *group[1:]) for at, group in zip(rows, case.groups, strict=True)]
    return Case(
        {
            "f": {"kind": "quad", "Q": Q, "p": p},
            "lo": np.where(case.gapped, case.floor, case.lo)[members],
            "hi": case.hi[members],
            "w": case.w[members],
            "kinks": [(centre[members], cost[members]) for centre, cost in case.kinks],
            "ridge": (case.x0[members], case.rho[members]),
            "g": {"kind": None, "lam": 0.0},
            "u": {"kind": "sum", "c": case.c, "groups": groups},
        }
    )


def _loss_on(case, members):
    """Newton's method: each step minimises a quadratic model, by faces, and goes a share of the way there."""
    outside = np.setdiff1d(np.arange(case.n), members)
    m, A = len(members), np.asarray(case.A, dtype=float)[:, members]
    first = _on_members(case, members, np.eye(m), np.zeros(m))
    impossible = any(not len(at) and not low <= 0.0 <= high for at, low, high in first.groups)
    if impossible or (case.lo[outside] > 0.0).any() or (case.hi[outside] < 0.0).any():
        return np.inf, None
    found = candidates(first)
    if found is None or not len(found[0]):
        return np.inf, None
    x = np.zeros(case.n)
    x[members] = found[0][found[1].argmin()]
    best = case.value(x)
    for _ in range(NEWTON_STEPS):
        z = case.A @ x.astype(np.longdouble) - case.y
        curvature = np.asarray(case.phi.curvature(z), dtype=float)
        slope = np.asarray(case.A.T @ (case.v * case.phi.slope(z)), dtype=float)[members]
        moved = []
        for mix in MIXES:
            bends = curvature + mix * (case.phi.bound - curvature)
            Q = A.T @ (np.asarray(case.v, dtype=float)[:, None] * bends[:, None] * A)
            points, values = candidates(_on_members(case, members, Q, slope - Q @ x[members]))
            if len(points):
                step = np.zeros(case.n)
                step[members] = points[values.argmin()] - x[members]
                moved.append(x + SHARES[:, None] * step)
        if not moved:
            break
        moved = np.concatenate(moved)
        near = moved[np.argsort(case.values(moved), kind="stable")[:4]]
        values = [case.value(point) for point in near]
        if min(values) >= best:
            break
        best, x = min(values), near[int(np.argmin(values))]
    # What rounding leaves of a zero is no member of a support.
    x = np.where(np.abs(x) > 1e-15 * np.abs(x).max(), x, 0.0)
    return case.value(x), x


def some_point(case):
    """A feasible point on the line, or None: the smallest of all faces with floors and numbers of non-zeros."""
    g = {"kind": case.g if case.g == "at most" else None, "lam": 0.0, "s": case.s}
    f = {"kind": "quad", "Q": np.eye(case.n), "p": np.zeros(case.n)}
    found = candidates(Case({**case.spec, "f": f, "g": g, "w": np.zeros(case.n), "kinks": [], "ridge": None}))
    return None if found is None or not len(found[0]) else found[0][found[1].argmin()]


def best_exchange(case, x, least, own=True):
    """The least F after one exchange from the support of x, or ``own`` new weights on it, and the point."""
    held = np.flatnonzero(x)
    best = least(held) if own else (np.inf, None)
    leavers = [i for i in held if case.lo[i] <= 0.0]
    staying = [np.setdiff1d(held, [i]) for i in leavers] + ([held] if len(held) < case.s else [])
    for rest in staying:
        for enters in np.setdiff1d(np.flatnonzero((case.high > 0.0) | (case.low < 0.0)), held):
            found = least([*rest, enters])
            best = min(best, found, key=lambda pair: pair[0])
    return best


def best_exchange_then(case, x, least):
    """The same, exchanging what is held *after* the new weights: the definition of a certificate.

    Among weights that are as good, those of x count: others may hold fewer, and then have exchanges that x has not.
    """
    own, point = least(np.flatnonzero(x))
    if point is None:
        return own, point
    value = case.value(x)
    start = x if value - own <= 1e-9 * abs(value) else point
    return min((own, point), best_exchange(case, start, least, own=False), key=lambda pair: pair[0])


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

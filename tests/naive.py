"""Slow and obvious references: formulas from the paper, grids and brute force. Nothing here imports the package."""

from __future__ import annotations

import dataclasses
import itertools
from typing import NamedTuple

import numpy as np


def top_sum(points, s):
    """‖x‖_[s] of every row."""
    return np.sort(np.abs(points), axis=-1)[..., ::-1][..., :s].sum(axis=-1)


def sit(A, y, s, lam, x):
    return 0.5 * np.sum((A @ x - y) ** 2) + lam * (1 - top_sum(x, s))


def nnspca(A, s, lam, x):
    return -0.5 * np.sum((A @ x) ** 2) + lam * (np.sum(x) - top_sum(x, s))


def spca(A, s, lam, x):
    return -0.5 * np.sum((A @ x) ** 2) + lam * (np.sum(np.abs(x)) - top_sum(x, s))


def dcpb1(A, y, lam, x):
    return 0.5 * np.sum((A @ x - y) ** 2) + lam * (len(x) - np.sum(x**2))


def dcpb2(A, y, lam, x):
    return 0.5 * np.sum((A @ x - y) ** 2) + lam * (np.sqrt(len(x)) - np.sqrt(np.sum(x**2)))


@dataclasses.dataclass
class Case:
    """F(x) = ½xᵀQx + pᵀx + wᵀx + Σ cost|x − centre| + g(x) on lo ≤ x ≤ hi, on a line or an arc."""

    Q: np.ndarray
    p: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    w: np.ndarray
    centre: np.ndarray
    cost: np.ndarray
    g: str
    lam: float
    s: int = 1

    def values(self, points):
        """F at every row, constants included."""
        total = 0.5 * np.einsum("ki,ij,kj->k", points, self.Q, points) + points @ (self.p + self.w)
        for centre, cost in zip(self.centre, self.cost, strict=True):
            total = total + np.abs(points - centre) @ cost
        if self.g == "top":
            return total - self.lam * top_sum(points, self.s)
        if self.g == "norm":
            return total - self.lam * np.sqrt((points**2).sum(axis=1))
        if self.g == "square":
            return total - self.lam * (points**2).sum(axis=1)
        if self.g == "count":
            return np.where((np.abs(points) > 1e-12).sum(axis=1) <= self.s, total, np.inf)
        return total

    def value(self, x):
        return float(self.values(x[None, :])[0])

    def size(self, x):
        """The scale of F's parts: what a relative error is relative to."""
        return float(1 + np.abs(self.Q).max() + np.abs(self.p).max() + np.abs(self.w).max() + abs(self.lam))


def pair_points(x, i, j, parameters, on):
    """The feasible points of a pair: a segment of the line, an arc or a circle."""
    points = np.repeat(x[None, :], len(parameters), axis=0)
    if on == "line":
        points[:, i], points[:, j] = x[i] + parameters, x[j] - parameters
    else:
        v = np.hypot(x[i], x[j])
        points[:, i], points[:, j] = v * np.sin(parameters), v * np.cos(parameters)
    return points


def best_on_pair(case, x, i, j, on, theta=0.0, grid=801, zooms=5):
    """The largest decrease of F + ½θ‖d‖² that moving the pair brings, by a grid refined around its best points."""
    if on == "line":
        low = max(case.lo[i] - x[i], x[j] - case.hi[j])
        high = min(case.hi[i] - x[i], x[j] - case.lo[j])
    elif on == "arc":
        low, high = 0.0, np.pi / 2
    else:
        low, high = -np.pi, np.pi
        grid += -(grid - 1) % 4  # the ends of the quarters are points of the grid
    here = case.value(x)

    def loss(parameters):
        points = pair_points(x, i, j, parameters, on)
        return case.values(points) - here + 0.5 * theta * ((points - x) ** 2).sum(axis=1)

    if not high > low:
        return 0.0
    parameters = np.linspace(low, high, grid)
    values = loss(parameters)
    best = min(0.0, values.min())
    inner = np.r_[np.inf, values, np.inf]
    valleys = np.flatnonzero((inner[1:-1] <= inner[:-2]) & (inner[1:-1] <= inner[2:]))
    for k in valleys[np.argsort(values[valleys])][:3]:
        a, b = parameters[max(k - 1, 0)], parameters[min(k + 1, grid - 1)]
        for _ in range(zooms):
            finer = np.linspace(a, b, 41)
            found = loss(finer)
            m = int(np.argmin(found))
            best = min(best, found[m])
            a, b = finer[max(m - 1, 0)], finer[min(m + 1, 40)]
    return -best


def largest_gap(case, x, on, theta=0.0, grid=201):
    """The largest decrease over all pairs."""
    pairs = itertools.combinations(range(len(x)), 2)
    return max(best_on_pair(case, x, i, j, on, theta, grid) for i, j in pairs)


def case_of(name, A, y, lam, s=1):
    """The paper's problems as cases (constants left out)."""
    n = A.shape[1]
    zero, none = np.zeros(n), np.zeros((0, n))
    if name == "SIT":
        return Case(A.T @ A, -A.T @ y, zero, np.full(n, np.inf), zero, none, none, "top", lam, s)
    if name == "SPCA":
        free = np.full(n, np.inf)
        return Case(-A.T @ A, zero, -free, free, zero, zero[None], np.full((1, n), lam), "top", lam, s)
    if name == "NNSPCA":
        return Case(-A.T @ A, zero, zero, np.full(n, np.inf), np.full(n, lam), none, none, "top", lam, s)
    g = "square" if name == "DCPB1" else "norm"
    return Case(A.T @ A, -A.T @ y, np.full(n, -1.0), np.ones(n), zero, none, none, g, lam)


def sparse_tracking_optimum(A, y, s):
    """min ½‖Ax − y‖² over x ≥ 0, 1ᵀx = 1 with at most s non-zeros: every support, every face of its simplex."""
    n, best, best_x = A.shape[1], np.inf, None
    for size in range(1, s + 1):
        for support in itertools.combinations(range(n), size):
            B = A[:, support]
            system = np.block([[B.T @ B, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
            solution = np.linalg.lstsq(system, np.r_[B.T @ y, 1.0], rcond=None)[0][:size]
            if (solution >= -1e-12).all():
                value = 0.5 * np.sum((B @ solution - y) ** 2)
                if value < best:
                    best, best_x = value, np.zeros(n)
                    best_x[list(support)] = np.maximum(solution, 0)
    return best, best_x


def sparse_pca_optimum(A, s):
    """max ½‖Ax‖² over x ≥ 0, ‖x‖ = 1 with at most s non-zeros: a non-negative eigenvector of every support."""
    G, n = A.T @ A, A.shape[1]
    best, best_x = -np.inf, None
    for size in range(1, s + 1):
        for support in itertools.combinations(range(n), size):
            values, vectors = np.linalg.eigh(G[np.ix_(support, support)])
            for value, vector in zip(values, vectors.T, strict=True):
                vector = vector * np.sign(vector[np.argmax(np.abs(vector))])
                if (vector >= -1e-12).all() and 0.5 * value > best:
                    best, best_x = 0.5 * value, np.zeros(n)
                    best_x[list(support)] = np.maximum(vector, 0)
    return best, best_x


def signed_component_optimum(G, s):
    """max xᵀGx over ‖x‖ = 1 with at most s non-zeros: the largest eigenvalue of every support."""
    n, s = len(G), min(s, len(G))
    return max(np.linalg.eigvalsh(G[np.ix_(w, w)])[-1] for w in itertools.combinations(range(n), s))


def optimum_over_signs(C, s):
    """The same from x ≥ 0 alone: the best non-negative component of DCD over all diagonal matrices D of signs."""
    root = np.linalg.cholesky(C + 1e-13 * np.abs(C).max() * np.eye(len(C))).T
    signs = itertools.product((-1.0, 1.0), repeat=len(C) - 1)
    return max(2.0 * sparse_pca_optimum(root * np.array([1.0, *rest]), s)[0] for rest in signs)


def deflated(kind, C, components):
    """What is left of C after each component in turn (Mackey 2008)."""
    C, basis = C.copy(), []
    for v in components:
        if kind == "schur":
            C = C - np.outer(C @ v, C @ v) / (v @ C @ v)
        elif kind == "hotelling":
            C = C - (v @ C @ v) * np.outer(v, v)
        else:
            q = v if kind == "projection" else v - sum(((q @ v) * q for q in basis), np.zeros(len(v)))
            q = q / np.linalg.norm(q)
            basis.append(q)
            P = np.eye(len(C)) - np.outer(q, q)
            C = P @ C @ P
    return C


def best_signed_exchange(G, x, s):
    """The largest xᵀGx after one held coordinate is exchanged for one outside, and by new weights alone."""
    held, outside = list(np.flatnonzero(x)), list(np.flatnonzero(x == 0))
    smaller = [held] if len(held) < s else [held[:a] + held[a + 1 :] for a in range(len(held))]
    supports = [[*rest, j] for rest in smaller for j in outside]
    tops = [np.linalg.eigvalsh(G[np.ix_(w, w)])[-1] for w in [*supports, held]]
    return max(tops), tops[-1]


def binary_optimum(A, y, c):
    """min ½‖Ax − y‖² over ±1 vectors with the sum c, by enumeration."""
    n = A.shape[1]
    best, best_x = np.inf, None
    for plus in itertools.combinations(range(n), (n + c) // 2):
        x = -np.ones(n)
        x[list(plus)] = 1.0
        value = 0.5 * np.sum((A @ x - y) ** 2)
        if value < best:
            best, best_x = value, x
    return best, best_x


def binary_points(n, c):
    """All vectors of length n with the sum c whose entries are ±1, but for one between them where that is needed."""
    whole = [np.array(signs) for signs in itertools.product((-1.0, 1.0), repeat=n) if sum(signs) == c]
    if whole:
        return whole
    points = []
    for place in range(n):
        for signs in itertools.product((-1.0, 1.0), repeat=n - 1):
            if -1.0 < c - sum(signs) < 1.0:
                points.append(np.insert(signs, place, c - sum(signs)))
    return points


def least_on_box_and_sum(H, b, lo, hi, total):
    """min ½zᵀHz + bᵀz over lo ≤ z ≤ hi, 1ᵀz = total, H definite or not: the stationary point of every face."""
    k = len(b)
    bordered = np.block([[H, np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]])
    best, best_z = np.inf, None
    for face in itertools.product((0, 1, 2), repeat=k):
        face = np.array(face)
        free = face == 2
        z = np.where(face == 0, lo, hi).astype(float)
        if not np.isfinite(z[~free]).all():
            continue
        spare = total - z[~free].sum()
        if free.any():
            if not lo[free].sum() - 1e-9 <= spare <= hi[free].sum() + 1e-9:
                continue
            at = np.append(np.flatnonzero(free), k)
            system = bordered[at[:, None], at]
            right = np.append(-b[free] - H[free][:, ~free] @ z[~free], spare)
            solution = np.linalg.lstsq(system, right, rcond=None)[0]
            if np.abs(system @ solution - right).max() > 1e-8 * (1 + np.abs(right).max()):
                continue
            z[free] = solution[:-1]
        elif abs(spare) > 1e-9:
            continue
        if (z >= lo - 1e-10).all() and (z <= hi + 1e-10).all():
            value = 0.5 * z @ H @ z + b @ z
            if value < best:
                best, best_z = value, z
    return best, best_z


def tracking_on(A, y, held, lo, hi, centre, cost):
    """min ½‖Aw − y‖² + Σcost|w − centre| over lo ≤ w ≤ hi, 1ᵀw = 1, w = 0 outside ``held``: both sides of every kink."""
    B, best, best_w = A[:, held], np.inf, None
    for right in itertools.product((False, True), repeat=len(held)):
        low = np.where(right, np.maximum(lo, centre)[held], lo[held])
        high = np.where(right, hi[held], np.minimum(hi, centre)[held])
        if (low > high).any():
            continue
        z = least_on_box_and_sum(B.T @ B, np.where(right, cost[held], -cost[held]) - B.T @ y, low, high, 1.0)[1]
        if z is not None:
            w = np.zeros(A.shape[1])
            w[held] = z
            value = 0.5 * np.sum((A @ w - y) ** 2) + cost @ np.abs(w - centre)
            if value < best:
                best, best_w = value, w
    return best, best_w


def largest_swap_decrease(A, y, s, x, *h):
    """What new weights gain at an s-sparse x, on its support or one exchange from that of the best weights on it."""
    lo, _, centre, cost = h
    own, at = tracking_on(A, y, np.flatnonzero(x), *h)
    held = np.flatnonzero((at > 1e-12) | (lo > 0))
    leavers = [place for place, i in enumerate(held) if lo[i] == 0]
    staying = [held] if len(held) < s else [np.delete(held, place) for place in leavers]
    outside = np.setdiff1d(np.arange(A.shape[1]), held)
    others = [tracking_on(A, y, np.r_[rest, j], *h)[0] for rest in staying for j in outside]
    return 0.5 * np.sum((A @ x - y) ** 2) + cost @ np.abs(x - centre) - min([own, *others])


def best_on_block(case, x, block, theta=0.0):
    """The largest decrease of F + ½θ‖d‖² over a block on the line: all states of g, all pieces of h, all faces.

    TopSum (x ≥ 0), AtMost and −λ‖x‖² only.
    """
    block = list(block)
    k = len(block)
    H = case.Q[np.ix_(block, block)] + theta * np.eye(k)
    b = (case.Q @ x + case.p + case.w)[block] - H @ x[block]
    lo, hi, total = case.lo[block], case.hi[block], x[block].sum()
    best = np.inf
    insides = [np.array(inside) for inside in itertools.product((0, 1), repeat=k)]
    if case.g == "square":
        states = [(H - 2 * case.lam * np.eye(k), b, lo, hi)]
    elif case.g == "count":
        states = [(H, b, np.where(inside, lo, 0.0), np.where(inside, hi, 0.0)) for inside in insides]
    else:
        states = [(H, b - case.lam * inside, lo, hi) for inside in insides]
    for (matrix, tilted, low, high), piece in itertools.product(states, _pieces(case, block)):
        slopes, left, right = piece
        left, right = np.maximum(low, left), np.minimum(high, right)
        if (left > right).any():
            continue
        _, z = least_on_box_and_sum(matrix, tilted + slopes, left, right, total)
        if z is not None:
            moved = x.copy()
            moved[block] = z
            best = min(best, case.value(moved) + 0.5 * theta * np.sum((moved - x) ** 2))
    return case.value(x) - best


def _pieces(case, block):
    """For every choice of one piece of h per coordinate of a block: the slopes of the kinks there, and its ends."""
    by_coordinate = []
    for i in block:
        knots = [-np.inf, *sorted(set(case.centre[:, i])), np.inf]
        ends = itertools.pairwise(knots)
        by_coordinate.append(
            [(float(np.where(case.centre[:, i] <= left, 1, -1) @ case.cost[:, i]), left, right) for left, right in ends]
        )
    for chosen in itertools.product(*by_coordinate):
        yield tuple(np.array(column) for column in zip(*chosen, strict=True))


def project_line(z, lo, hi, c):
    """The point of {1ᵀx = c, lo ≤ x ≤ hi} nearest to z, clip(z + t), by bisection on t."""
    reach = 1 + abs(c) + np.abs(z).max() + np.abs(np.where(np.isfinite(lo), lo, hi)).max()
    low, high = -2 * reach, 2 * reach
    for _ in range(200):
        t = 0.5 * (low + high)
        low, high = (t, high) if np.clip(z + t, lo, hi).sum() < c else (low, t)
    return np.clip(z + 0.5 * (low + high), lo, hi)


def project_arc(z):
    """The point of {x ≥ 0, ‖x‖ = 1} nearest to z."""
    if z.max() <= 0:
        return np.eye(len(z))[np.argmax(z)]
    return np.maximum(z, 0) / np.sqrt(sum(v**2 for v in z if v > 0))


def least_on_line(G, lo, hi, c):
    """A minimiser of ⟨G, z⟩ on {1ᵀx = c, lo ≤ x ≤ hi}, lo finite: pour what is missing into the cheapest first."""
    z, missing = lo.copy(), c - lo.sum()
    for i in sorted(range(len(G)), key=lambda i: G[i]):
        poured = min(hi[i] - lo[i], missing)
        z[i] += poured
        missing -= poured
    return z


def concave_slope(case, x, slope, ties="index"):
    """An element of ∂g for x ≥ 0; among equal xᵢ the top sum counts the first, or those of the smallest slope."""
    if case.g == "square":
        return -2 * case.lam * x
    if case.g == "norm":
        return -case.lam * x / np.sqrt(np.sum(x**2))
    result, left = np.zeros(len(x)), list(range(len(x)))
    for _ in range(case.s):
        best = left[0]
        for i in left[1:]:
            if x[i] > x[best] or (x[i] == x[best] and ties == "slope" and slope[i] < slope[best]):
                best = i
        result[best] = -case.lam
        left.remove(best)
    return result


def below_tangent(case, x, z):
    """g(x) + ⟨s, z − x⟩ − g(z) ≥ 0, s in ∂g(x): how far g lies below its tangent."""
    alone = dataclasses.replace(case, Q=0 * case.Q, p=0 * case.p, w=0 * case.w)
    return alone.value(x) + concave_slope(case, x, 0 * x) @ (z - x) - alone.value(z)


def blocks_of(n, k):
    """All blocks of k of n coordinates."""
    return [list(block) for block in itertools.combinations(range(n), k)]


def largest_block_norm(Q, k):
    """max ‖Q_BB‖ over the blocks of k coordinates."""
    return max(np.linalg.norm(Q[np.ix_(block, block)], 2) for block in blocks_of(len(Q), k))


def tangent_step(case, x, block, theta):
    """The step of BCD-l-k on a block of the line: the minimiser of N_B, with g replaced by its tangent."""
    slope = case.Q @ x + case.p + case.w
    H = case.Q[np.ix_(block, block)] + theta * np.eye(len(block))
    b = (slope + concave_slope(case, x, slope))[block]
    d = np.zeros(len(x))
    d[block] = least_on_box_and_sum(H, b, (case.lo - x)[block], (case.hi - x)[block], 0.0)[1]
    return d


def pair_step(case, x, i, j, theta, grid=4001):
    """The step of BCD-g on a pair of the line: the minimiser of M_B, by a grid refined five times."""
    low, high = max(case.lo[i] - x[i], x[j] - case.hi[j]), min(case.hi[i] - x[i], x[j] - case.lo[j])
    for _ in range(5):
        eta = np.append(np.linspace(low, high, grid), 0.0)
        points = pair_points(x, i, j, eta, "line")
        best = eta[np.argmin(case.values(points) + theta * eta**2)]
        low, high = max(low, best - (high - low) / 40), min(high, best + (high - low) / 40)
    return pair_points(x, i, j, np.array([best]), "line")[0] - x


def first_order_step(case, x, G, L, c=None):
    """argmin ⟨G, z⟩ + ½L‖z − x‖² on the line with the sum c, or on the arc."""
    if c is None:
        return project_arc(x - G / L if L > 0 else -G)
    return project_line(x - G / L, case.lo, case.hi, c) if L > 0 else least_on_line(G, case.lo, case.hi, c)


def psg_points(case, x, step, count, c=None, ties="index"):
    """The iterates of the projected subgradient method."""
    points = [x]
    for t in range(1, count + 1):
        slope = case.Q @ x + case.p + case.w
        G = slope + concave_slope(case, x, slope, ties)
        x = first_order_step(case, x, G, np.sqrt(t) / step, c)
        points.append(x)
    return points


def mscr_points(case, x, L, count, stages, c=None, ties="index"):
    """The iterates of multi-stage convex relaxation, every stage some steps with the slope of g fixed."""
    points = [x]
    for _ in range(count):
        fixed = concave_slope(case, x, case.Q @ x + case.p + case.w, ties)
        for _ in range(stages):
            x = first_order_step(case, x, case.Q @ x + case.p + case.w + fixed, L, c)
        points.append(x)
    return points


def pdca_points(case, x, L, count, c=None, extrapolate=False, ties="index", most=None):
    """The iterates of the proximal DC algorithm; extrapolated with θ ← (1 + √(1 + 4θ²))/2, β = (θ₋ − 1)/θ.

    θ returns to 1 when a step turns against the extrapolation and every 200 steps, or only when it reaches ``most``.
    """
    points, before, theta_before, age = [x], x, 1.0, 0
    for _ in range(count):
        theta = (1 + np.sqrt(1 + 4 * theta_before**2)) / 2
        z = x + (theta_before - 1) / theta * (x - before) if extrapolate else x
        slope = case.Q @ z + case.p + case.w
        new = first_order_step(case, z, slope + concave_slope(case, x, slope, ties), L, c)
        age += 1
        restart = theta >= most if most else age == 200 or np.dot(z - new, new - x) > 0
        theta_before, age = (1.0, 0) if restart else (theta, age)
        x, before = new, x
        points.append(x)
    return points


# Quadratic problems with pieces, floors, a number of non-zeros and groups, by their definition.


class Spec(NamedTuple):
    """½xᵀQx + pᵀx + Σhᵢ(xᵢ) − penalty·‖x‖_[s], or at most s non-zeros if penalty is None; aᵀx = c, limits of groups.

    The limits of a group are on Σ aᵢxᵢ over its members; a is 1 unless ``weights`` are given.
    """

    Q: np.ndarray
    p: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    floor: np.ndarray
    weight: np.ndarray
    bend: np.ndarray
    knots: np.ndarray
    cost: np.ndarray
    curve: np.ndarray
    s: int
    penalty: float | None
    groups: tuple
    c: float
    weights: np.ndarray | None = None

    @property
    def a(self):
        return np.ones(len(self.p)) if self.weights is None else self.weights


def objectives(spec, points):
    """F of every row, term by term."""
    total = 0.5 * np.einsum("ki,ij,kj->k", points, spec.Q, points) + points @ (spec.p + spec.weight)
    total += 0.5 * points**2 @ spec.bend
    for knot, cost, curve in zip(spec.knots, spec.cost, spec.curve, strict=True):
        total += np.abs(points - knot) @ cost + 0.5 * np.maximum(points - knot, 0.0) ** 2 @ curve
    return total if spec.penalty is None else total - spec.penalty * top_sum(points, spec.s)


def objective(spec, x):
    return float(objectives(spec, x[None, :])[0])


def violations(spec, points):
    """How far every row is from keeping every rule; ∞ for too many non-zeros."""
    sums = points * spec.a
    missed = np.abs(sums.sum(axis=1) - spec.c)
    inside = np.maximum(np.maximum(spec.lo - points, points - spec.hi), 0.0)
    gap = np.minimum(np.abs(points), np.maximum(spec.floor - points, 0.0))
    missed = np.maximum(missed, np.where(spec.floor > spec.lo, np.maximum(inside, gap), inside).max(axis=1))
    for members, least, most in spec.groups:
        total = sums[:, members].sum(axis=1)
        missed = np.maximum(missed, np.maximum(least - total, total - most))
    if spec.penalty is None:
        missed = np.where(np.count_nonzero(points, axis=1) > spec.s, np.inf, missed)
    return missed


def violation(spec, x):
    return float(violations(spec, x[None, :])[0])


def best_transfers(spec, x, pairs):
    """The least F over feasible x + η(eᵢ/aᵢ − eⱼ/aⱼ) for every pair: grids with all points where something changes."""
    i, j = np.array(pairs).T
    a, place = spec.a, np.arange(len(i))
    ends = np.vstack([np.zeros(len(x)), spec.floor, spec.lo, spec.hi, x, spec.knots])
    special = [(a * (ends - x))[:, i], (a * (x - ends))[:, j]]
    for members, least, most in spec.groups:
        total = (a * x)[members].sum()
        special.append(np.repeat([[least - total], [most - total], [total - least], [total - most]], len(i), axis=1))
    special = np.vstack(special)
    special[~np.isfinite(special)] = 0.0
    low, high = special.min(axis=0) - 1e-9, special.max(axis=0) + 1e-9
    grid, reach = np.vstack([special, np.linspace(low, high, 400)]), (high - low) / 399
    best, at = np.full(len(i), np.inf), np.zeros(len(i))
    for _ in range(5):
        points = np.tile(x, (*grid.shape, 1))
        # What is meant to become 0 is 0, in spite of rounding.
        points[:, place, i] = np.where(grid == -(a * x)[i], 0.0, x[i] + grid / a[i])
        points[:, place, j] = np.where(grid == (a * x)[j], 0.0, x[j] - grid / a[j])
        rows = points.reshape(-1, len(x))
        values = np.where(violations(spec, rows) <= 1e-12, objectives(spec, rows), np.inf).reshape(grid.shape)
        k = values.argmin(axis=0)
        better = values[k, place] < best
        best, at = np.where(better, values[k, place], best), np.where(better, grid[k, place], at)
        grid, reach = at + np.linspace(-reach, reach, 200), reach / 99
    return best


def best_transfer(spec, x, i, j):
    """The same for one pair."""
    return float(best_transfers(spec, x, [(i, j)])[0])


def has_feasible(spec):
    """Whether any support has a feasible point, by linear programs over all supports."""
    from scipy.optimize import linprog

    n = len(spec.lo)
    for support in itertools.product((False, True), repeat=n):
        held = np.array(support)
        if spec.penalty is None and held.sum() > spec.s:
            continue
        if ((spec.lo > 0) & ~held).any():
            continue
        least, most = np.where(held, np.maximum(spec.lo, spec.floor), 0.0), np.where(held, spec.hi, 0.0)
        if (least > most).any():
            continue
        rows, limits = [], []
        for members, low, high in spec.groups:
            row = np.zeros(n)
            row[members] = spec.a[members]
            rows += [row, -row]
            limits += [high, -low]
        found = linprog(
            np.zeros(n),
            A_ub=np.array(rows) if rows else None,
            b_ub=limits or None,
            A_eq=spec.a[None, :],
            b_eq=[spec.c],
            bounds=list(zip(least, most, strict=True)),
        )
        if found.status == 0:
            return True
    return False


def least_on_support(spec, x):
    """The least F over points whose non-zeros are those of x, each at or above its floor."""
    held = x != 0.0
    return least_on(spec, held | (spec.floor <= spec.lo) if spec.s >= len(x) else held, x)


def optimum(spec):
    """The least F of all supports; ∞ if none has a feasible point."""
    best = np.inf
    for support in itertools.product((False, True), repeat=len(spec.lo)):
        held = np.array(support)
        if held.sum() <= spec.s and held.any():
            best = min(best, least_on(spec, held, np.zeros(len(held))))
    return best


def least_on(spec, held, x):
    """The least F over points that are 0 where nothing is held, by SLSQP from two starts."""
    from scipy.optimize import minimize

    least, most = np.where(held, np.maximum(spec.lo, spec.floor), 0.0), np.where(held, spec.hi, 0.0)
    # SLSQP would take hundreds of steps to miss what the sums already rule out.
    for members, low, high in [(slice(None), spec.c, spec.c), *spec.groups]:
        if most[members].sum() < low - 1e-9 or least[members].sum() > high + 1e-9:
            return np.inf
    where = np.flatnonzero(held)

    def whole(z):
        point = np.zeros(len(x))
        point[where] = z
        return point

    rows = [{"type": "eq", "fun": lambda z: z.sum() - spec.c, "jac": np.ones_like}]
    for members, low, high in spec.groups:
        inside = np.isin(where, members).astype(float)
        rows.append({"type": "ineq", "fun": lambda z, a=inside, b=low: a @ z - b, "jac": lambda z, a=inside: a})
        rows.append({"type": "ineq", "fun": lambda z, a=inside, b=high: b - a @ z, "jac": lambda z, a=inside: -a})
    best = np.inf
    for start in (x, np.clip(np.full(len(x), spec.c / max(held.sum(), 1)), least, most)):
        found = minimize(
            lambda z: objective(spec, whole(z)),
            start[where],
            bounds=list(zip(least[where], most[where], strict=True)),
            constraints=rows,
            options={"ftol": 1e-13, "maxiter": 300},
        )
        z = np.clip(whole(found.x), least, most)
        if abs(z.sum() - spec.c) <= 1e-9 and violation(spec._replace(s=len(x)), z) <= 1e-9:
            best = min(best, objective(spec, z))
    return best


# Losses of z = Ax − y, one by one.


def loss(kind, z, delta=1.0):
    """A scalar loss at one number; logistic losses take z times the label."""
    if kind == "square":
        return 0.5 * z * z
    if kind == "logistic":
        return np.log1p(np.exp(-abs(z))) + max(-z, 0.0)
    if kind in ("downside", "huber downside"):
        z = min(z, 0.0)
    if kind in ("square", "downside") or abs(z) <= delta:
        return 0.5 * z * z
    return delta * abs(z) - 0.5 * delta * delta


def loss_sum(kind, A, y, v, x, delta=1.0):
    """Σ vₜφ(aₜᵀx − yₜ); for logistic losses y holds the labels."""
    z = A @ x * y if kind == "logistic" else A @ x - y
    return sum(weight * loss(kind, one, delta) for weight, one in zip(v, z, strict=True))


def loss_slope(kind, A, y, v, x, delta=1.0):
    """The gradient of :func:`loss_sum`, from the derivative of every piece."""
    z = A @ x * y if kind == "logistic" else A @ x - y
    if kind == "logistic":
        slopes = -y / (1.0 + np.exp(np.minimum(z, 700.0)))
    else:
        low = {"downside": np.inf, "square": np.inf}.get(kind, delta)
        high = {"downside": 0.0, "huber downside": 0.0, "square": np.inf}.get(kind, delta)
        slopes = np.minimum(np.maximum(z, -low), high)
    return A.T @ (v * slopes)


def loss_model(kind, A, y, v, x, delta=1.0):
    """Q and p of the upper bound f(x) + ⟨∇f, z − x⟩ + ½(z − x)ᵀQ(z − x), Q = L·AᵀVA."""
    Q = (0.25 if kind == "logistic" else 1.0) * A.T @ (v[:, None] * A)
    return Q, loss_slope(kind, A, y, v, x, delta) - Q @ x


def frank_wolfe_gap(gradient, x, lo, hi, c):
    """A bound of F(x) − min F for a convex F on {lo ≤ x ≤ hi, 1ᵀx = c}."""
    return float(gradient @ (x - least_on_line(gradient, lo, hi, c)))


def least_squares_on_simplex(A, y):
    """Return the x ≥ 0 with sum 1 of least ½‖Ax − y‖², by SciPy's nnls.

    There Ax − y = Bx with B = A − y1ᵀ. For x = tw with w on the simplex, ‖Bx‖² + (1ᵀx − 1)² is least over t at
    q/(1 + q), q = ‖Bw‖², so that the direction of its non-negative minimiser is the answer.
    """
    from scipy.optimize import nnls

    B = A - np.asarray(y)[:, None]
    size = max(float(np.abs(B).max()), 1e-300)
    x, _ = nnls(np.vstack([B / size, np.ones(A.shape[1])]), np.append(np.zeros(len(B)), 1.0))
    return x / x.sum()

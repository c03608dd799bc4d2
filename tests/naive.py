"""Slow and obvious references: formulas from the paper, grids and brute force. Nothing here imports the package."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np


def top_sum(points, s):
    """‖x‖_[s] of every row."""
    return np.sort(np.abs(points), axis=-1)[..., ::-1][..., :s].sum(axis=-1)


def sit(A, y, s, lam, x):
    return 0.5 * np.sum((A @ x - y) ** 2) + lam * (1 - top_sum(x, s))


def nnspca(A, s, lam, x):
    return -0.5 * np.sum((A @ x) ** 2) + lam * (np.sum(x) - top_sum(x, s))


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
        return total

    def value(self, x):
        return float(self.values(x[None, :])[0])

    def size(self, x):
        """The scale of F's parts: what a relative error is relative to."""
        return float(1 + np.abs(self.Q).max() + np.abs(self.p).max() + np.abs(self.w).max() + abs(self.lam))


def pair_points(x, i, j, parameters, on):
    """The feasible points of a pair: a segment of the line or an arc."""
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
    else:
        low, high = 0.0, np.pi / 2
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

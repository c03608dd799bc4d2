"""Enumerate all candidate points of small instances of the paper's problems, and classify them by optimality."""

from __future__ import annotations

import itertools
import warnings
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.certificates import certify, exactness_threshold
from counterpoise.checks import Vector
from counterpoise.datasets import simulate_market
from counterpoise.experiments.plan import LETTERS, build
from counterpoise.problem import Problem
from counterpoise.solvers import minimize

Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]

LEVELS = ("critical", "CWS", "swap-optimal", "optimal")
FINDERS: dict[str, dict[str, Any]] = {
    "psg": {"step": 0.1, "max_iter": 3000},
    "mscr": {"inner": "exact", "max_iter": 2000},
    "pdca": {"tol": 1e-12, "max_iter": 20_000},
    "bcd-g": {"tol": 1e-14, "theta": 0.0},
}
# Values are equal up to this share of the range over all candidates; a residual is 0 up to this share of λ.
SAME_VALUE, SAME_SLOPE = 1e-8, 1e-5
SAME_POINT = 1e-4


class Instance(NamedTuple):
    """Data of one of the paper's problems; s is for SIT and NNSPCA, c for DCPB."""

    name: str
    A: Vector
    y: Vector
    s: int
    c: int

    def problem(self, lam: float) -> Problem:
        """Return the problem with this λ, without the warning about the parity of c."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return build(self.name, self.A, self.y, self.s if LETTERS[self.name] == "s" else self.c, lam)

    def threshold(self) -> float:
        """Return the λ above which every CWS point is s-sparse or binary."""
        threshold = exactness_threshold(self.problem(1.0))
        assert threshold is not None
        return threshold


def draw_instance(name: str, n: int, s: int, seed: int) -> Instance:
    """Return a simulated market of n stocks for SIT, or Gaussian data with 2n rows; c has the parity of n."""
    if name == "SIT":
        market = simulate_market(2 * n, n, n_sectors=min(10, n), seed=seed)
        return Instance(name, market.returns, market.index, s, 0)
    rng = np.random.default_rng([seed, n])
    A = rng.standard_normal((2 * n, n))
    return Instance(name, A, A @ rng.standard_normal(n) + rng.standard_normal(2 * n), s, n % 2)


def is_exact(instance: Instance, x: Vector) -> bool:
    """Return whether x has at most s non-zeros, or is a ±1 vector."""
    if instance.name in ("SIT", "NNSPCA"):
        return int(np.count_nonzero(x)) <= instance.s
    return bool((np.abs(x) == 1.0).all())


class Hierarchy(NamedTuple):
    """Counts of points by level, summed over instances: all candidates, and the distinct points of each method.

    ``exceptions`` counts points that have a level but lack the one before it, which the theorems rule out.
    """

    name: str
    n: int
    s: int
    instances: int
    starts: int
    candidates: int
    enumerated: Counts
    found: dict[str, int]
    levels: dict[str, Counts]
    exceptions: int


class Landscape:
    """All points of a small instance that can be CWS if λ is above the threshold, by enumeration.

    These points are s-sparse, and stationary on the face where their non-zeros are positive; for DCPB they are the ±1
    vectors of sum c. Points are indexed by the bit mask of their positive coordinates; ``least[mask]`` is the optimum
    over points that are zero outside the mask, or for DCPB the value of the point with that mask.
    """

    def __init__(self, instance: Instance, problem: Problem) -> None:
        n = instance.A.shape[1]
        self.instance, self.problem, self.bits = instance, problem, 1 << np.arange(n)
        self.sparse = instance.name in ("SIT", "NNSPCA")
        self.held = instance.s if self.sparse else (n + instance.c) // 2
        if self.sparse:
            sizes = range(1, self.held + 1)
            self.points = np.concatenate([stationary_points(instance.name, problem, size) for size in sizes])
        else:
            self.points = np.where(indicators(n, self.held), 1.0, -1.0)
        self.values = np.array([problem.objective(x) for x in self.points])
        self.least = np.full(1 << n, np.inf)
        np.minimum.at(self.least, (self.points > 0.0) @ self.bits, self.values)
        if self.sparse:
            masks = np.arange(1 << n)
            for bit in self.bits:
                larger = masks[(masks & bit) > 0]
                self.least[larger] = np.minimum(self.least[larger], self.least[larger ^ bit])
        self.tolerance = SAME_VALUE * float(np.ptp(self.values))

    def swapped(self, x: Vector) -> float:
        """Return the least value after exchanging one held coordinate, or adding one if fewer than s are held."""
        held, outside = self.bits[x > 0.0], self.bits[x <= 0.0]
        mask = int(held.sum())
        reachable = [self.least[mask], *self.least[(mask ^ held)[:, None] | outside].ravel()]
        if len(held) < self.held:
            reachable.extend(self.least[mask | outside])
        return float(min(reachable))

    def levels(self, x: Vector) -> Flags:
        """Return whether x is critical, CWS, swap-optimal and optimal, each by its own definition."""
        certificate, value = certify(self.problem, x), self.problem.objective(x)
        swap = is_exact(self.instance, x) and value <= self.swapped(x) + self.tolerance
        return np.array((
            certificate.critical_residual <= SAME_SLOPE * self.problem.g.lam,
            certificate.cws_gap <= self.tolerance,
            swap,
            value <= self.least.min() + self.tolerance,
        ))  # fmt: skip


def indicators(n: int, size: int) -> Flags:
    """Return every 0/1 vector of length n with ``size`` ones, one per row."""
    chosen = np.array(list(itertools.combinations(range(n), size)), dtype=np.int64).reshape(-1, size)
    rows = np.zeros((len(chosen), n), dtype=bool)
    np.put_along_axis(rows, chosen, True, axis=1)
    return rows


def stationary_points(name: str, problem: Problem, size: int) -> Vector:
    """Return the stationary points of f on each support of this size that are positive on it.

    SIT: Q_SS x + p_S = μ1, 1ᵀx = 1. NNSPCA: the positive eigenvectors of Q_SS.
    """
    supports = indicators(problem.n, size).nonzero()[1].reshape(-1, size)
    blocks = problem.f.Q[supports[:, :, None], supports[:, None, :]]
    if name == "SIT":
        system = np.zeros((len(supports), size + 1, size + 1))
        system[:, :size, :size] = blocks
        system[:, :size, size] = system[:, size, :size] = 1.0
        right = np.concatenate([-problem.f.p[supports], np.ones((len(supports), 1))], axis=1)
        solved = np.linalg.solve(system, right[:, :, None])[:, None, :size, 0]
    else:
        vectors = np.linalg.eigh(blocks)[1].transpose(0, 2, 1)
        solved = vectors * np.sign(vectors.sum(axis=2, keepdims=True))
    which, order = np.nonzero((solved > 1e-12).all(axis=2))
    points = np.zeros((len(which), problem.n))
    np.put_along_axis(points, supports[which], solved[which, order], axis=1)
    return points


def distinct(points: list[Vector]) -> list[Vector]:
    """Return the distinct points, in the order in which they were found."""
    kept: list[Vector] = []
    for x in points:
        if all(np.abs(x - other).max() > SAME_POINT for other in kept):
            kept.append(x)
    return kept


def measure_hierarchy(instances: list[Instance], starts: int) -> Hierarchy:
    """Classify all candidates of every instance, and the distinct points that each method finds; λ = 1.01·threshold.

    optimal ⊆ swap-optimal ⊆ CWS ⊆ critical, Theorem (theo:optimality) and its continuation.
    """
    candidates, enumerated, exceptions = 0, np.zeros(len(LEVELS), dtype=np.int64), 0
    found = dict.fromkeys(FINDERS, 0)
    levels = {method: np.zeros(len(LEVELS), dtype=np.int64) for method in FINDERS}
    for instance in instances:
        problem = instance.problem(1.01 * instance.threshold())
        landscape = Landscape(instance, problem)
        flags = np.array([landscape.levels(x) for x in landscape.points])
        candidates += len(flags)
        enumerated += flags.sum(axis=0)
        exceptions += count_exceptions(flags)
        for method, options in FINDERS.items():
            runs = [minimize(problem, problem.start(k), method, seed=k, **options).x for k in range(starts)]
            flags = np.array([landscape.levels(x) for x in distinct(runs)])
            found[method] += len(flags)
            levels[method] += flags.sum(axis=0)
            exceptions += count_exceptions(flags)
    first = instances[0]
    size = (first.A.shape[1], landscape.held, len(instances), starts)
    return Hierarchy(first.name, *size, candidates, enumerated, found, levels, exceptions)


def count_exceptions(flags: Flags) -> int:
    """Count the cases in which a point has a level but lacks the one before it."""
    return int((flags[:, 1:] & ~flags[:, :-1]).sum())

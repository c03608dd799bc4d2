"""The paper's theorems, measured: rate, complexity, sufficient decrease, exactness, and the hierarchy of points.

BCD-g is run with uniformly random pairs where a theorem assumes them. λ is given as a multiple of
:func:`counterpoise.certificates.exactness_threshold`, an iteration is a pair tried, an epoch is n of them.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.certificates import certify, exactness_threshold
from counterpoise.checks import Vector
from counterpoise.datasets import simulate_market
from counterpoise.kernels import sweep
from counterpoise.problem import Problem
from counterpoise.problems import DCPB1, DCPB2, NNSPCA, SIT
from counterpoise.solvers import minimize
from counterpoise.solvers.bcd import make_rule

Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]

NAMES = ("SIT", "NNSPCA", "DCPB1", "DCPB2")
BELOW, ABOVE = 0.01, 1.5  # λ as a multiple of the exactness threshold: far below it, and above
NEVER = 10**9
# A run whose last accepted step still brings this share of the whole descent has ended, not converged.
FINITE_SHARE = 1e-6
# The tail of a gap: from this many times its floor down to the floor, which is so many times what F resolves.
TAIL_SPAN, TAIL_FLOOR = 1e6, 640.0
THETAS = (0.01, 1.0, 100.0)  # as multiples of L = max Q_ii
EPSILONS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
LEVELS = ("critical", "CWS", "swap-optimal", "optimal")
FINDERS: dict[str, dict[str, Any]] = {
    "psg": {"step": 0.1, "max_iter": 3000},
    "mscr": {"inner": "exact", "max_iter": 2000},
    "pdca": {"tol": 1e-12, "max_iter": 20_000},
    "bcd-g": {"tol": 1e-14, "theta": 0.0},
}
# Values are equal within this share of the spread of all candidates; a residual is 0 within this share of λ.
SAME_VALUE, SAME_SLOPE = 1e-8, 1e-5
SAME_POINT = 1e-4
# At a dense CWS point of SIT max|∇ᵢf − ∇ⱼf| is λ itself, so a condition λ > … is met with this margin only.
MARGIN = 1e-4


class Instance(NamedTuple):
    """Data of one of the paper's problems; s is for SIT and NNSPCA, c for DCPB."""

    name: str
    A: Vector
    y: Vector
    s: int
    c: int

    def problem(self, lam: float) -> Problem:
        """Return the problem with this λ; that c has the wrong parity is no news here."""
        if self.name == "SIT":
            return SIT(self.A, self.y, self.s, lam)
        if self.name == "NNSPCA":
            return NNSPCA(self.A, self.s, lam)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return (DCPB1 if self.name == "DCPB1" else DCPB2)(self.A, self.y, self.c, lam)

    def threshold(self) -> float:
        """Return the λ above which every CWS point is s-sparse or binary."""
        return sufficient(self.problem(1.0))[1]


class Rate(NamedTuple):
    """How F(xᵗ) − F(ẍ) fell, by epochs; ``slope`` and ``r2`` are NaN where the run ended after finitely many steps."""

    name: str
    n: int
    ratio: float
    gap: Vector
    accepted: int
    certified: bool
    finite: bool
    slope: float
    intercept: float
    r2: float
    window: tuple[int, int]


class Complexity(NamedTuple):
    """The mean over runs of the stationarity measure at some iterations, and the constants of the bound."""

    name: str
    n: int
    runs: int
    theta: float
    drop: float
    iterations: Counts
    measure: Vector

    def needed(self, epsilon: float) -> int | None:
        """Return the first recorded iteration at which the mean measure is ≤ ε, None if there is none."""
        reached = np.flatnonzero(self.measure <= epsilon)
        return int(self.iterations[reached[0]]) if len(reached) else None

    def bound(self, epsilon: float) -> int:
        """Return ⌈2(F(x⁰) − F(x̄))/(θε)⌉, Theorem (theo:global) (iii)."""
        return math.ceil(2.0 * self.drop / (self.theta * epsilon))


class Decrease(NamedTuple):
    """(F(xᵗ) − F(xᵗ⁺¹)) / (½θ‖xᵗ⁺¹ − xᵗ‖²) over the accepted steps, θ = ``theta``·L."""

    name: str
    theta: float
    steps: int
    least: float
    median: float


class Exactness(NamedTuple):
    """CWS points from random starts over a grid of λ = ratio·threshold.

    ``covered`` and ``failed`` count the points that meet a sufficient condition, and those of them that violate the
    constraint all the same: by the paper's condition, and by the corrected one. ``fractional`` are the least and the
    largest number of coordinates off their bounds where c has the wrong parity.
    """

    name: str
    n: int
    starts: int
    threshold: float
    paper: float
    ratios: Vector
    share: Vector
    violation: Vector
    covered: tuple[int, int]
    failed: tuple[int, int]
    fractional: tuple[int, int] | None


class Hierarchy(NamedTuple):
    """Counts of points by level, summed over instances: all candidates, and the distinct points of each method.

    ``exceptions`` counts points of a level that lack the one before it, which the theorems forbid.
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


class Findings(NamedTuple):
    """Everything that the tables and figures show."""

    rates: tuple[Rate, ...]
    complexities: tuple[Complexity, ...]
    decreases: tuple[Decrease, ...]
    exactness: tuple[Exactness, ...]
    hierarchy: tuple[Hierarchy, ...]


def measure(quick: bool = False, seed: int = 0, progress: Callable[[str], None] | None = None) -> Findings:
    """Measure all five statements on simulated data, ``quick`` on less of it; the same seed gives the same numbers."""
    say = progress or (lambda line: None)
    n, s, runs, pairs = (30, 4, 5, 1500) if quick else (60, 6, 10, 10_000)
    small, held, instances, starts = (12, 3, 3, 12) if quick else (14, 4, 10, 40)
    large = {name: draw_instance(name, n, s, seed) for name in NAMES}
    say("rate of convergence")
    rates = [measure_rate(large[name], ratio, 4000, seed) for name in NAMES for ratio in (BELOW, ABOVE)]
    say("iterations until ε")
    horizon = 200 * n if quick else 1000 * n
    complexities = [measure_complexity(large[name], BELOW, horizon, runs, seed) for name in NAMES]
    say("sufficient decrease")
    decreases = [measure_decrease(large[name], theta, pairs, seed) for name in NAMES for theta in THETAS]
    say("exactness thresholds")
    ratios = np.logspace(-3.0, 0.5, 8 if quick else 29)
    exactness = [measure_exactness(large[name], ratios, starts, seed) for name in NAMES]
    hierarchy = []
    for name in NAMES:
        say(f"hierarchy, {name}")
        hierarchy.append(
            measure_hierarchy([draw_instance(name, small, held, seed + 1 + k) for k in range(instances)], starts)
        )
    return Findings(tuple(rates), tuple(complexities), tuple(decreases), tuple(exactness), tuple(hierarchy))


def draw_instance(name: str, n: int, s: int, seed: int) -> Instance:
    """Return a simulated market of n stocks for SIT, Gaussian data of 2n rows for the others; c has n's parity."""
    if name == "SIT":
        market = simulate_market(2 * n, n, n_sectors=min(10, n), seed=seed)
        return Instance(name, market.returns, market.index, s, 0)
    rng = np.random.default_rng([seed, n])
    A = rng.standard_normal((2 * n, n))
    return Instance(name, A, A @ rng.standard_normal(n) + rng.standard_normal(2 * n), s, n % 2)


class Walk:
    """BCD-g with uniformly random pairs, which stops after any number of them.

    Steps that bring less than ``noise`` times what double precision resolves of F are not taken.
    """

    def __init__(self, problem: Problem, start: Vector, theta: float, seed: Any, noise: float) -> None:
        self.problem, self.x, self.theta, self.noise = problem, start.copy(), theta, noise
        self.terms = problem.terms()
        sweep.start(self.terms, self.x)
        self.rule, _ = make_rule("random", problem.n)
        self.rng, self.age = np.random.default_rng(seed), np.array([0, max(1000, 4 * problem.n), 0])
        self.last = np.empty(5)

    def advance(self, pairs: int) -> int:
        """Try so many pairs; return how many steps were accepted."""
        objective, resolution = self.problem.value_and_resolution(self.x)
        level = np.array((objective, self.noise * resolution))
        where = (self.rule, self.terms, self.x, self.theta, 0.0, level)
        return int(sweep.epoch(*where, pairs, NEVER, self.rng, self.age, 0.0, self.last)[1])


def measure_rate(instance: Instance, ratio: float, most_epochs: int, seed: int) -> Rate:
    """Record F(xᵗ) − F(ẍ) after every epoch until ẍ is certified, and fit its tail; Theorem (theo:dec:x:f)."""
    problem = instance.problem(ratio * instance.threshold())
    walk = Walk(problem, problem.start(seed), 0.0, seed, noise=1.0)
    values, accepted, certified = [problem.objective(walk.x)], 0, False
    resolution = 0.0
    while not certified and len(values) <= most_epochs:
        accepted += walk.advance(problem.n)
        objective, resolution = problem.value_and_resolution(walk.x)
        values.append(objective)
        # A scan costs as much as some epochs, so it waits until nothing has happened for a while.
        quiet = len(values) > 10 and values[-10] - objective <= 64.0 * resolution
        certified = quiet and certify(problem, walk.x).cws_gap <= 64.0 * resolution
    gap = np.array(values) - min(values)
    moved = np.flatnonzero(np.diff(gap) < -64.0 * resolution)
    finite = bool(len(moved)) and -np.diff(gap)[moved[-1]] > FINITE_SHARE * gap[0]
    fit = (math.nan, math.nan, math.nan, (0, int(moved[-1]) + 1)) if finite else fit_tail(gap, TAIL_FLOOR * resolution)
    return Rate(instance.name, problem.n, ratio, gap, accepted, bool(certified), finite, *fit)


def fit_tail(gap: Vector, floor: float) -> tuple[float, float, float, tuple[int, int]]:
    """Fit log gap = intercept + slope·t by least squares where the gap is between the floor and 10⁶ times that.

    Return slope, intercept, R² and the first and last epoch of the fit.
    """
    inside = np.flatnonzero((gap > floor) & (gap <= TAIL_SPAN * floor))
    if len(inside) < 3:
        return math.nan, math.nan, math.nan, (0, 0)
    logs = np.log(gap[inside])
    slope, intercept = np.polyfit(inside, logs, 1)
    residual = logs - (slope * inside + intercept)
    r2 = 1.0 - float(residual @ residual) / float(((logs - logs.mean()) ** 2).sum())
    return float(slope), float(intercept), r2, (int(inside[0]), int(inside[-1]))


def mean_squared_step(walk: Walk) -> float:
    """Return the mean of ‖d_B‖² over all pairs B, d_B the exact step of B: the measure of Theorem (theo:global)."""
    x, n, total = walk.x, walk.problem.n, 0.0
    sweep.start(walk.terms, x)
    for i, j in itertools.combinations(range(n), 2):
        new_i, new_j, gain = sweep.step(walk.terms, x, i, j, walk.theta)
        if gain > 0.0:
            total += (new_i - x[i]) ** 2 + (new_j - x[j]) ** 2
    return total / math.comb(n, 2)


def measure_complexity(instance: Instance, ratio: float, horizon: int, runs: int, seed: int) -> Complexity:
    """Average the measure over runs that differ in their random pairs only, at iterations 0, 1, …, ``horizon``.

    Theorem (theo:global) bounds its expectation: min over t < T is at most 2(F(x⁰) − F(x̄))/(θT). θ is L = max Q_ii.
    For F(x̄) the least F reached is taken; it can only be too large, which makes the bound stricter.
    """
    problem = instance.problem(ratio * instance.threshold())
    theta, start = float(np.abs(problem.f.diagonal).max()), problem.start(seed)
    iterations = np.unique(np.r_[0, np.logspace(0.0, math.log10(horizon), 30).astype(np.int64)])
    total, least = np.zeros(len(iterations)), math.inf
    for run in range(runs):
        walk = Walk(problem, start, theta, [seed, run], noise=1.0)
        total[0] += mean_squared_step(walk)
        for k, pairs in enumerate(np.diff(iterations), start=1):
            walk.advance(int(pairs))
            total[k] += mean_squared_step(walk)
        least = min(least, problem.objective(walk.x))
    drop = problem.objective(start) - least
    return Complexity(instance.name, problem.n, runs, theta, drop, iterations, total / runs)


def measure_decrease(instance: Instance, theta: float, pairs: int, seed: int) -> Decrease:
    """Take steps one by one, below and above the threshold, and compare each decrease with ½θ‖xᵗ⁺¹ − xᵗ‖²."""
    ratios = []
    for ratio in (BELOW, ABOVE):
        problem = instance.problem(ratio * instance.threshold())
        weight = theta * float(np.abs(problem.f.diagonal).max())
        # Steps near the resolution of F would measure rounding.
        walk = Walk(problem, problem.start(seed), weight, seed, noise=1e7)
        before, value = walk.x.copy(), problem.objective(walk.x)
        for _ in range(pairs):
            if walk.advance(1):
                after = problem.objective(walk.x)
                ratios.append((value - after) / (0.5 * weight * float(((walk.x - before) ** 2).sum())))
                before, value = walk.x.copy(), after
    return Decrease(instance.name, theta, len(ratios), float(np.min(ratios)), float(np.median(ratios)))


def is_exact(instance: Instance, x: Vector) -> bool:
    """Return whether x has at most s non-zeros, or is a ±1 vector."""
    if instance.name in ("SIT", "NNSPCA"):
        return int(np.count_nonzero(x)) <= instance.s
    return bool((np.abs(x) == 1.0).all())


def sufficient(problem: Problem, x: Vector | None = None) -> tuple[float, float]:
    """Return the λ that the paper and the corrected theorems ask for at the point x, or over all feasible points.

    SIT: 2‖∇f(x)‖∞, Theorem (theo:excat:index); max|∇ᵢf − ∇ⱼf|. NNSPCA: none, hence NaN; √2‖Gx‖∞. DCPB1: ¼max α in
    both, Theorem (theo:extreme:bin). DCPB2: φ√(n+2), φ = max Q − min Q, Theorem (theo:exact:bin); ½√n·max α.
    """
    f, everywhere = problem.f, exactness_threshold(problem)
    assert everywhere is not None
    if problem.name == "SIT":
        # ‖∇f‖∞ is convex, so it is largest at a vertex of the simplex.
        gradient = f.Q + f.p[:, None] if x is None else f.gradient(x)
        return 2.0 * float(np.abs(gradient).max()), everywhere if x is None else float(np.ptp(gradient))
    if problem.name == "NNSPCA":
        return math.nan, everywhere if x is None else math.sqrt(2.0) * float(np.abs(f.gradient(x)).max())
    return (everywhere if problem.name == "DCPB1" else float(np.ptp(f.Q)) * math.sqrt(f.n + 2)), everywhere


def measure_exactness(instance: Instance, ratios: Vector, starts: int, seed: int) -> Exactness:
    """Count, for every λ, the CWS points that satisfy the exact constraint, and average the penalty p = (F − f)/λ."""
    paper, threshold = sufficient(instance.problem(1.0))
    share, violation = np.zeros(len(ratios)), np.zeros(len(ratios))
    covered, failed = [0, 0], [0, 0]
    for k, lam in enumerate(ratios * threshold):
        problem = instance.problem(float(lam))
        for start in range(starts):
            x = minimize(problem, x0=problem.start(seed + start), tol=1e-12, theta=0.0, seed=start).x
            exact = is_exact(instance, x)
            share[k] += exact / starts
            violation[k] += max(0.0, problem.objective(x) - problem.f.value(x)) / (lam * starts)
            for which, needed in enumerate(sufficient(problem, x)):
                covered[which] += lam > (1.0 + MARGIN) * needed
                failed[which] += lam > (1.0 + MARGIN) * needed and not exact
    fractional = None
    if instance.name in ("DCPB1", "DCPB2"):
        odd = instance._replace(c=instance.c + 1).problem(ABOVE * threshold)
        off = [int((np.abs(minimize(odd, theta=0.0, seed=start).x) < 1.0).sum()) for start in range(starts)]
        fractional = (min(off), max(off))
    counts = ((int(covered[0]), int(covered[1])), (int(failed[0]), int(failed[1])))
    return Exactness(instance.name, problem.n, starts, threshold, paper, ratios, share, violation, *counts, fractional)


class Landscape:
    """All points of a small instance that can be CWS above the threshold, by enumeration.

    Those points are s-sparse, and stationary on the face where their non-zeros are positive; for DCPB they are the
    ±1 vectors of sum c. A point is held under the bit mask of its positive coordinates, and ``least[mask]`` is the
    optimum over the points that hold no coordinate outside the mask; for DCPB the value of the mask's own point.
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
        """Return the least value after exchanging one held coordinate, or adding one where fewer than s are held."""
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
    """Return the stationary points of f on every support of this size that are positive there.

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
    """Return the points that differ, in the order in which they were found."""
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
    """Return how many times a point has a level and lacks the one before it."""
    return int((flags[:, 1:] & ~flags[:, :-1]).sum())


def observed_ratio(one: Exactness) -> float:
    """Return the least λ/threshold of the grid from which on every point found is exact; NaN if there is none."""
    exact = one.share > 1.0 - 1e-9
    tail = np.flatnonzero(np.logical_and.accumulate(exact[::-1])[::-1])
    return float(one.ratios[tail[0]]) if len(tail) else math.nan

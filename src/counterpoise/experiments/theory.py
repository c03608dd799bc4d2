"""Measure what the paper's theorems state: rate, complexity, sufficient decrease, exactness, hierarchy of points.

BCD-g uses uniformly random pairs where a theorem assumes them. λ is given as a multiple of
:func:`counterpoise.certificates.exactness_threshold`; an iteration is one pair tried, an epoch is n of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from counterpoise.certificates import certify, exactness_threshold
from counterpoise.checks import Vector
from counterpoise.experiments.hierarchy import Counts, Hierarchy, Instance, draw_instance, is_exact, measure_hierarchy
from counterpoise.experiments.plan import LETTERS
from counterpoise.kernels import sweep
from counterpoise.kernels.pair import new_age
from counterpoise.problem import Problem
from counterpoise.solvers import minimize
from counterpoise.solvers.bcd import make_rule

NAMES = tuple(LETTERS)
CONVEX = ("SIT", "DCPB1", "DCPB2")  # the problems with a convex feasible set
BELOW, ABOVE = 0.01, 1.5  # λ as a multiple of the exactness threshold: far below it, and above
NEVER = 10**9
# A run whose last step gains at least this share of the total descent ended after finitely many steps.
FINITE_SHARE = 1e-6
# The tail of a gap is between a floor, TAIL_FLOOR times the rounding error of F, and TAIL_SPAN times that floor.
TAIL_SPAN, TAIL_FLOOR = 1e6, 640.0
THETAS = (0.01, 1.0, 100.0)  # as multiples of L = max Q_ii
EPSILONS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
# At a dense CWS point of SIT max|∇ᵢf − ∇ⱼf| equals λ, so a condition λ > … only counts as met with this margin.
MARGIN = 1e-4


class Rate(NamedTuple):
    """The decrease of F(xᵗ) − F(ẍ) by epoch; ``slope`` and ``r2`` are NaN if the run ended in finitely many steps."""

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
        """Return the first recorded iteration at which the mean measure is ≤ ε, or None."""
        reached = np.flatnonzero(self.measure <= epsilon)
        return int(self.iterations[reached[0]]) if len(reached) else None

    def bound(self, epsilon: float) -> int:
        """Return ⌈2(F(x⁰) − F(x̄))/(θε)⌉, Theorem (theo:global) (iii)."""
        return math.ceil(2.0 * self.drop / (self.theta * epsilon))


class Constants(NamedTuple):
    """The constants of Theorem (theo:dec:x:f), corrected, along one run, and what they bound.

    ``norm`` is max‖Q_BB‖ over pairs; ρ, the nonconvexity of g, and δ, the distance to ẍ over the
    mean of ‖d_B‖, are the largest of the points recorded. With q = F(x) − F(ẍ) the theorem says
    E q⁺ ≤ (1 − 1/κ)q, κ = n(n − 1)/2 + (norm + θ + ρ)δ²/θ. ``slowest`` is the largest E q⁺/q.
    ``printed`` counts the points at which the recursion is false as the paper prints it.
    """

    name: str
    n: int
    theta: float
    norm: float
    rho: float
    delta: float
    slowest: float
    printed: int
    points: int

    @property
    def kappa(self) -> float:
        """Return κ."""
        weight = (self.norm + self.theta + self.rho) / self.theta
        return math.comb(self.n, 2) + weight * self.delta**2


class Decrease(NamedTuple):
    """(F(xᵗ) − F(xᵗ⁺¹)) / (½θ‖xᵗ⁺¹ − xᵗ‖²) over the accepted steps, θ = ``theta``·L."""

    name: str
    theta: float
    steps: int
    least: float
    median: float


class Exactness(NamedTuple):
    """CWS points from random starts over a grid of λ = ratio·threshold.

    ``covered`` counts the points that meet a sufficient condition, and ``failed`` those of them that still violate the
    constraint, both for the paper's condition and for the corrected one. ``fractional`` is the smallest and the largest
    number of coordinates off their bounds if c has the wrong parity.
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


class Findings(NamedTuple):
    """All measurements shown in the tables and figures."""

    rates: tuple[Rate, ...]
    constants: tuple[Constants, ...]
    complexities: tuple[Complexity, ...]
    decreases: tuple[Decrease, ...]
    exactness: tuple[Exactness, ...]
    hierarchy: tuple[Hierarchy, ...]


def measure(quick: bool = False, seed: int = 0, progress: Callable[[str], None] | None = None) -> Findings:
    """Measure all statements on simulated data, less of it if ``quick``; the same seed gives the same numbers."""
    say = progress or (lambda line: None)
    n, s, runs, pairs = (30, 4, 5, 1500) if quick else (60, 6, 10, 10_000)
    small, held, instances, starts = (12, 3, 3, 12) if quick else (14, 4, 10, 40)
    large = {name: draw_instance(name, n, s, seed) for name in NAMES}
    say("rate of convergence")
    rates = [measure_rate(large[name], ratio, 4000, seed) for name in NAMES for ratio in (BELOW, ABOVE)]
    convex = [large[name] for name in CONVEX if name in large]
    constants = [measure_constants(instance, BELOW, 1000, seed) for instance in convex]
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
        drawn = [draw_instance(name, small, held, seed + 1 + k) for k in range(instances)]
        hierarchy.append(measure_hierarchy(drawn, starts))
    return Findings(
        tuple(rates),
        tuple(constants),
        tuple(complexities),
        tuple(decreases),
        tuple(exactness),
        tuple(hierarchy),
    )


class Walk:
    """BCD-g with uniformly random pairs, which can stop after any number of them.

    Steps that gain less than ``noise`` times the rounding error of F are not taken.
    """

    def __init__(self, problem: Problem, start: Vector, theta: float, seed: Any, noise: float) -> None:
        self.problem, self.x, self.theta, self.noise = problem, start.copy(), theta, noise
        self.terms = problem.terms()
        sweep.start(self.terms, self.x)
        self.rule, _ = make_rule("random", problem)
        self.rng, self.age = np.random.default_rng(seed), new_age(max(1000, 4 * problem.n))
        self.last = np.empty(5)

    def advance(self, pairs: int) -> int:
        """Try a number of pairs; return how many steps were accepted."""
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
        # A scan costs as much as several epochs, so wait until F has stopped falling.
        quiet = len(values) > 10 and values[-10] - objective <= 64.0 * resolution
        certified = quiet and certify(problem, walk.x).cws_gap <= 64.0 * resolution
    gap = np.array(values) - min(values)
    moved = np.flatnonzero(np.diff(gap) < -64.0 * resolution)
    finite = bool(len(moved)) and -np.diff(gap)[moved[-1]] > FINITE_SHARE * gap[0]
    fit = (math.nan, math.nan, math.nan, (0, int(moved[-1]) + 1)) if finite else fit_tail(gap, TAIL_FLOOR * resolution)
    return Rate(instance.name, problem.n, ratio, gap, accepted, bool(certified), finite, *fit)


def fit_tail(gap: Vector, floor: float) -> tuple[float, float, float, tuple[int, int]]:
    """Fit log gap = intercept + slope·t by least squares, where the gap is between the floor and 10⁶ times the floor.

    Return slope, intercept, R² and the first and last epoch of the fit.
    """
    inside = np.flatnonzero((gap > floor) & (gap <= TAIL_SPAN * floor))
    if len(inside) < 3:
        return math.nan, math.nan, math.nan, (0, 0)
    fit = stats.linregress(inside, np.log(gap[inside]))
    return float(fit.slope), float(fit.intercept), float(fit.rvalue) ** 2, (int(inside[0]), int(inside[-1]))


def pair_steps(walk: Walk) -> tuple[Counts, Vector, Vector]:
    """Return all pairs, their exact steps, one row each, and the decreases of F + ½θ‖d_B‖²."""
    x = walk.x
    pairs = np.array(list(itertools.combinations(range(walk.problem.n), 2)))
    steps, gains = np.zeros(pairs.shape), np.zeros(len(pairs))
    sweep.start(walk.terms, x)
    for k, (i, j) in enumerate(pairs.tolist()):
        new_i, new_j, gain = sweep.step(walk.terms, x, i, j, walk.theta)
        if gain > 0.0:
            steps[k], gains[k] = (new_i - x[i], new_j - x[j]), gain
    return pairs, steps, gains


def mean_squared_step(walk: Walk) -> float:
    """Return the mean of ‖d_B‖² over all pairs B, where d_B is the exact step: the measure of Theorem (theo:global)."""
    return float((pair_steps(walk)[1] ** 2).sum(axis=1).mean())


def recursion_terms(walk: Walk, limit: Vector) -> tuple[float, ...]:
    """Return q, E q⁺, r, E r⁺, ρ and δ, the terms of Theorem (theo:dec:x:f), where a walk is.

    ẍ is ``limit``. r is the mean over all pairs B of ½‖x − ẍ‖² in the norm of
    H₊ = U_B Q_BB U_Bᵀ + θI, and r⁺ that of x⁺.
    """
    problem, x, theta = walk.problem, walk.x, walk.theta
    pairs, d, gains = pair_steps(walk)
    blocks = problem.f.Q[pairs[:, :, None], pairs[:, None, :]]
    squares, away = (d**2).sum(axis=1), x - limit
    distance, q = float(away @ away), problem.objective(x) - problem.objective(limit)
    tangent = problem.g.value(x) - problem.g.subgradient(x, problem.f.gradient(x)) @ away
    parts = away[pairs], away[pairs] + d
    before, after = (float(np.einsum("bi,bij,bj->b", z, blocks, z).mean()) for z in parts)
    moved = float((2.0 * (away[pairs] * d).sum(axis=1) + squares).mean())
    return (
        q,
        q - float(gains.mean()) - 0.5 * theta * float(squares.mean()),
        0.5 * (before + theta * distance),
        0.5 * (after + theta * (distance + moved)),
        2.0 * (tangent - problem.g.value(limit)) / distance,
        math.sqrt(distance) / float(np.sqrt(squares).mean()),
    )


def measure_constants(instance: Instance, ratio: float, epochs: int, seed: int) -> Constants:
    """Record the constants of the rate at some epochs of a run; θ is L = max Q_ii.

    The set must be convex; ẍ is the last point of the run. With ε = 0 the printed recursion is
    β₁ E r⁺ + γ E q⁺ ≤ β₂ r + (γ − 2/n)q.
    """
    problem, n = instance.problem(ratio * instance.threshold()), instance.A.shape[1]
    theta = float(np.abs(problem.f.diagonal).max())
    walk = Walk(problem, problem.start(seed), theta, seed, noise=1.0)
    kept, points = np.logspace(0.0, math.log10(epochs), 30).astype(np.int64), [walk.x.copy()]
    for epoch in range(epochs):
        walk.advance(n)
        if epoch in kept:
            points.append(walk.x.copy())
    limit, (least, resolution) = walk.x, problem.value_and_resolution(walk.x)
    rows = []
    for walk.x in points:
        # Nearer to the last point, its own distance from ẍ would count.
        if problem.objective(walk.x) - least > TAIL_FLOOR * TAIL_SPAN * resolution:
            rows.append(recursion_terms(walk, limit))
    q, after, r, r_after, rho, delta = np.array(rows).T
    pairs = list(itertools.combinations(range(n), 2))
    norms = [float(np.linalg.norm(problem.f.Q[np.ix_(pair, pair)], 2)) for pair in pairs]
    low, high = 2.0 / n * min(norms) + theta, 2.0 / n * max(norms) + theta
    largest = float(rho.max())
    gamma = 1.0 + 2.0 * largest / theta
    left = (1.0 - largest / low) * r_after + gamma * after
    right = (1.0 - largest / high * (1.0 - 2.0 / n)) * r + (gamma - 2.0 / n) * q
    found = largest, float(delta.max()), float((after / q).max()), int((left > right).sum()), len(q)
    return Constants(instance.name, n, theta, max(norms), *found)


def measure_complexity(instance: Instance, ratio: float, horizon: int, runs: int, seed: int) -> Complexity:
    """Average the measure over runs that differ only in their random pairs, at iterations 0, 1, …, ``horizon``.

    Theorem (theo:global) bounds its expectation: min over t < T is at most 2(F(x⁰) − F(x̄))/(θT). θ is L = max Q_ii.
    The least F reached is used for F(x̄); it can only be too large, which makes the bound stricter.
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
        # The decrease of steps near the rounding error of F cannot be measured.
        walk = Walk(problem, problem.start(seed), weight, seed, noise=1e7)
        before, value = walk.x.copy(), problem.objective(walk.x)
        for _ in range(pairs):
            if walk.advance(1):
                after = problem.objective(walk.x)
                ratios.append((value - after) / (0.5 * weight * float(((walk.x - before) ** 2).sum())))
                before, value = walk.x.copy(), after
    return Decrease(instance.name, theta, len(ratios), float(np.min(ratios)), float(np.median(ratios)))


def sufficient(problem: Problem, x: Vector | None = None) -> tuple[float, float]:
    """Return the λ that the paper and the corrected theorems require at the point x, or over all feasible points.

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


def observed_ratio(one: Exactness) -> float:
    """Return the smallest λ/threshold on the grid from which on every point found is exact; NaN if there is none."""
    exact = one.share > 1.0 - 1e-9
    tail = np.flatnonzero(np.logical_and.accumulate(exact[::-1])[::-1])
    return float(one.ratios[tail[0]]) if len(tail) else math.nan

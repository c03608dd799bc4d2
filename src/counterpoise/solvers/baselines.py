"""The paper's three baselines, PSG, MSCR and PDCA, in its settings and in stronger ones.

All three repeat one step, :meth:`Model.argmin`: a minimiser over the feasible set of ⟨G, z⟩ + ½L‖z − x‖², where
G = ∇f(x) + ∇h + g′ and g′ ∈ ∂g(x). They differ in L, and in how often and in which part G is updated. As printed,
MSCR and PDCA project after an unconstrained argmin, and MSCR is then unbounded for n > m; here the feasible set is
part of every argmin, and g enters with its own sign.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from counterpoise.checks import Vector, choice, number
from counterpoise.kernels.separable import Separable
from counterpoise.problem import Problem, Result
from counterpoise.solvers.drive import Drive, Update
from counterpoise.solvers.run import Progress, Run
from counterpoise.supervision import supervised
from counterpoise.terms.separable import smooth_slopes
from counterpoise.terms.smooth import Quadratic

Callback = Callable[[Progress], Any]

# The paper's settings: PSG steps 0.01/√t; MSCR solves each subproblem by ten steps.
PAPER_STEP, PAPER_STAGES = 0.01, 10
# Stronger settings: PSG tries each of these steps; MSCR solves to this optimality residual, relative to max|G|.
STEP_GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
INNER_TOL, INNER_LIMIT = 1e-10, 20_000
# pDCAe restarts its momentum at the latest after this many iterations (Wen, Chen and Pong 2018), or when its weight t
# reaches a limit.
RESTART_PERIOD, RESTART_WEIGHT = 200, 40.0
RESTARTS = ("adaptive", "weight")
# The rules by which −λ is given to some of several equal |xᵢ|.
TIES = ("index", "slope")
# Default iteration limits of a call without limits: PSG has no natural stop, the others nearly always have.
PSG_MAX_ITER, MAX_ITER = 10_000, 100_000
# PSG ends after this many steps in a row without a move; points are scored that often, or more often if steps are slow.
WINDOW, WINDOW_COST = 16, 1e8
# Up to this order the eigenvalues of a matrix are computed densely.
DENSE_SIDE = 500
# Steps below this, relative to x, are rounding error.
ROUNDING = 1e-14


@supervised
def psg(
    problem: Problem,
    x0: Any = None,
    *,
    step: Any = PAPER_STEP,
    ties: str | None = None,
    tol: float = 1e-9,
    max_iter: int | None = None,
    max_time: float | None = None,
    seed: int | None = 0,
    callback: Callback | None = None,
) -> Result:
    """Projected subgradients: x⁺ = P(x − αₜG), αₜ = step/√t.

    The paper's step is 0.01, whatever the scale of the data; ``step="grid"`` is the stronger setting.

    Parameters
    ----------
    problem : Problem
        h may contain Bounds, Linear and Ridge, here and in the other two methods.
    step : float, sequence of floats, or "grid"
        Several steps are tried one after another from the same start and the best point is kept. Each gets an even
        share of the limits. The largest come first, because they end soonest and leave time for the others. "grid"
        means ``STEP_GRID``.
    ties : {"index", "slope", "all"}, optional
        Which of several equal entries belong to the s largest, where g is ``TopSum``: the first ("index", the default),
        as a stable sort has it; or those along which F falls most ("slope"), which often ends lower.
        "all" tries both, as several steps are tried. For ``Norm2`` the rule matters at x = 0 only.
    tol : float
        The run ends when 16 steps in a row move no coordinate by more than ``tol``·max|x|. Steps shrink, so this is
        weaker than stationarity: certify the point.
    max_iter : int, optional
        By default 10 000 per step size and rule for ties if there is no time limit.
    callback : callable, optional
        It gets the best of the points scored since its last call; F is not monotone.
    x0, max_time, seed
        As in :func:`counterpoise.solvers.bcd.bcd_g`.
    """
    tried = list(itertools.product(_steps(step), _ties(problem, ties)))
    run = Run(problem, x0, tol, _limit(max_iter, max_time, PSG_MAX_ITER * len(tried)), max_time, seed, callback)
    model = Model(problem)
    rules = [_rule(model, _growing_weights(size), rule) for size, rule in tried]
    return run.loop(Drive(run, rules, patience=WINDOW, stride=model.stride, unit=0.0).epoch)


@supervised
def mscr(
    problem: Problem,
    x0: Any = None,
    *,
    inner: str = "paper",
    split: str = "paper",
    ties: str | None = None,
    tol: float = 1e-9,
    max_iter: int | None = None,
    max_time: float | None = None,
    seed: int | None = 0,
    callback: Callback | None = None,
) -> Result:
    """Multi-stage convex relaxation: x⁺ = argmin f(z) + h(z) + ⟨z, g′⟩ over feasible z, g′ ∈ ∂g(x).

    * f convex on Sum (SIT, DCPB2): a convex QP. The paper solves it by ten (projected gradient) steps of size
      1/‖A‖²; ``inner="exact"`` by accelerated ones with adaptive restarts until solved. F never rises.
    * DCPB1: the paper puts the whole quadratic into g = −½xᵀQ̂x, Q̂ = 2λI − AᵀA ⪰ 0. What remains is linear, and
      the subproblem min ⟨F′(x), z⟩ is a knapsack that sorting solves. If Q̂ is indefinite, λ < ½‖A‖², that is not an
      upper bound of F, and the convex split is used. ``split="convex"`` always keeps f, and ends lower.
    * f concave or the set not convex (NNSPCA): no convex relaxation exists, so f is majorised too, by its
      linearisation if it is concave. On {x ≥ 0, ‖x‖ = 1} the minimiser is then the projection of −G, a unit
      vector if G has no negative entry. The stages repeat this with g′ fixed: ten of them, or to a fixed
      point with ``inner="exact"``.

    Parameters
    ----------
    inner : {"paper", "exact"}
        "exact" means an optimality residual of 1e-10 relative to max|G|, or 20 000 steps.
    split : {"paper", "convex"}
        The split of f + g if g = −λ‖x‖².
    ties : {"index", "slope", "all"}, optional
        As in :func:`psg`.
    tol : float
        The run ends when ‖x⁺ − x‖∞ ≤ ``tol``·max(1, ‖x‖∞).
    max_iter : int, optional
        Limit on subproblems; by default 100 000 if there is no time limit.
    problem, x0, max_time, seed, callback
        As in :func:`psg`.
    """
    choice(inner, "inner", ("paper", "exact"))
    choice(split, "split", ("paper", "convex"))
    run = Run(problem, x0, tol, _limit(max_iter, max_time, MAX_ITER), max_time, seed, callback)
    model = Model(problem)
    rules: list[Update] = []
    for rule in _ties(problem, ties):
        if split == "paper" and model.bend_of_g and model.is_concave(with_g=True):
            rules.append(_rule(model, itertools.repeat(0.0), rule))
        else:
            rules.append(_relaxation_rule(model, inner == "exact", lambda: run.limits.reached() is not None, rule))
    return run.loop(Drive(run, rules).epoch)


@supervised
def pdca(
    problem: Problem,
    x0: Any = None,
    *,
    extrapolate: bool = False,
    restart: str = "adaptive",
    lipschitz: float | None = None,
    ties: str | None = None,
    tol: float = 1e-9,
    max_iter: int | None = None,
    max_time: float | None = None,
    seed: int | None = 0,
    callback: Callback | None = None,
) -> Result:
    """Proximal DC algorithm: x⁺ = P(x − G/L), L = ‖A‖².

    The paper's setting is the default; F never rises. ``extrapolate=True`` is pDCAe: ∇f is taken at
    x + β(x − x₋), with Nesterov's β = (t₋ − 1)/t, t = ½ + √(¼ + t₋²). It may end at another critical point, better or
    worse.

    Parameters
    ----------
    extrapolate : bool
    restart : {"adaptive", "weight", "all"}
        When t is reset to 1: whenever a step points against the extrapolation, and after 200 iterations ("adaptive");
        or when t reaches 40 ("weight"). "all" tries both, each with half of the limits, and keeps the best point.
    lipschitz : float, optional
        L, by default the largest eigenvalue of |Q|. Any L for which ½L‖x‖² − f is convex keeps F from rising; a
        smaller one may cycle. For the concave f of NNSPCA 0 is valid; x⁺ is then the projection of −G, which needs
        less than half the iterations.
    ties : {"index", "slope", "all"}, optional
        As in :func:`psg`.
    tol : float
        The run ends when ‖x⁺ − x‖∞ ≤ ``tol``·max(1, ‖x‖∞), twice in a row if extrapolated.
    max_iter : int, optional
        By default 100 000 if there is no time limit.
    problem, x0, max_time, seed, callback
        As in :func:`psg`.
    """
    bound = None if lipschitz is None else number(lipschitz, "lipschitz", 0.0)
    run = Run(problem, x0, tol, _limit(max_iter, max_time, MAX_ITER), max_time, seed, callback)
    model = Model(problem)
    if bound is None:
        bound = model.norm
    elif bound == 0.0 and not model.is_concave(with_g=True):
        raise ValueError("lipschitz is 0, but f is not concave; give at least its largest curvature, or None for ‖Q‖.")
    choice(restart, "restart", (*RESTARTS, "all"))
    if restart != "adaptive" and not extrapolate:
        raise ValueError(f"restart is {restart!r}, but there is no extrapolation; give extrapolate=True as well.")
    restarts: tuple[Any, ...] = (RESTARTS if restart == "all" else (restart,)) if extrapolate else (None,)
    rules = [
        _rule(model, itertools.repeat(bound), rule, None if how is None else Momentum.restarted(how))
        for rule, how in itertools.product(_ties(problem, ties), restarts)
    ]
    return run.loop(Drive(run, rules, patience=1 + bool(extrapolate), stride=model.stride).epoch)


class Model:
    """The parts of a problem that these methods use: ∇f, the slope of h, the norm of Q, and the argmin of a step."""

    def __init__(self, problem: Problem) -> None:
        if (problem.separable.cost.any() and not problem.u.signed) or not problem.is_convex_set:
            raise ValueError(
                "h contains AbsoluteDeviation or SemiContinuous, or g is AtMost, whose kinks and gaps psg, mscr and "
                'pdca cannot step over; they take Bounds, Linear and Ridge, method "bcd-g" takes all.'
            )
        self.problem, self.f = problem, problem.f
        # −λ‖x‖² adds to the second derivative of F.
        self.bend_of_g = float(getattr(problem.g, "bend", 0.0))
        self.by_gram = self.f.quadratic is not None and self.f.gram and self.f.n**2 <= self.f.cost

    @property
    def stride(self) -> int:
        """The number of iterations between scored points; it depends on the data's size, not on the clock."""
        return int(min(max(WINDOW_COST // max(self.f.cost, 1), 1), WINDOW))

    def slope(self, x: Vector) -> Vector:
        """Return ∇f(x) + ∇h by the cheaper of Qx + p and σAᵀ(Ax − y)."""
        gradient = self.f.Q @ x + self.f.p if self.by_gram else self.f.gradient(x)
        return np.asarray(gradient + smooth_slopes(self.problem.separable, x), dtype=np.float64)

    def argmin(self, x: Vector, G: Vector, L: float) -> Vector:
        """Return the minimiser of ⟨G, z⟩ + ½L‖z − x‖² over the feasible set; with signs h's kinks at 0 are added."""
        u, h = self.problem.u, self.problem.separable
        if u.signed:
            point = u.shrink(L * x - G, h)
        elif L > 0.0:
            point = u.project(x - G / L, h)
        elif u.is_line:
            point = cheapest_point(G, h, u, x)
        else:
            point = u.project(-G, h)
        return np.asarray(point)

    @cached_property
    def norm(self) -> float:
        """‖Q‖, which is |σ|·‖A‖² for least squares and L·‖A‖² for a loss, plus the largest bend of h."""
        h = self.problem.separable
        bend = float((h.bend + np.maximum(h.curve, 0.0).sum(axis=0)).max())
        return _largest_eigenvalue(*self.f.majorant.square) + bend

    def is_concave(self, with_g: bool = False) -> bool:
        """Whether f is concave, or f + g if ``with_g`` and g is quadratic."""
        shift = -self.bend_of_g if with_g else 0.0
        if self.problem.separable.bend.any() or self.problem.separable.curve.any():
            return False
        f = self.f.majorant
        if f.is_concave or self.norm <= shift:
            return True
        return not f.is_convex and Quadratic(shift * np.eye(f.n) - f.Q).is_convex


def cheapest_point(G: Vector, h: Separable, u: Any, x: Vector) -> Vector:
    """Return a minimiser of ⟨G, z⟩ over the feasible set of a sum: from lo, the cheapest coordinates are filled first.

    Among equal ones those with the larger x come first, so that an optimal vertex x stays. If some lo is infinite,
    every hi is finite, and the mirrored problem is solved.
    """
    sign, lo, tree = 1.0, h.lo, u.tree(len(G))
    if not np.isfinite(lo).all():
        sign, lo, tree = -1.0, -h.hi, tree.mirrored()
    room = np.minimum(h.hi - h.lo, max(sign * u.c - float(lo.sum()), 0.0))
    order = np.lexsort((-sign * x, sign * G))
    return np.asarray(sign * tree.cheapest(sign * G[order], room[order], order, lo, sign * u.c))


class Momentum:
    """Nesterov's extrapolation with restarts, for one sequence of points.

    It restarts when a step points against it (O'Donoghue and Candès 2015) and after ``period`` steps; or, if ``most``
    is given, only when t reaches that number.
    """

    def __init__(self, period: float = math.inf, most: float | None = None) -> None:
        self.period, self.most = period, most
        self.weight, self.age = 1.0, 0
        self.previous: Vector | None = None

    def ahead(self, x: Vector) -> Vector:
        """Return x + β(x − x₋)."""
        if self.previous is None or self.weight == 1.0:
            return x
        return x + (self.weight - 1.0) / _next_weight(self.weight) * (x - self.previous)

    def judge(self, x: Vector, ahead: Vector, new: Vector) -> None:
        """Record the step x → new, and restart if it is time."""
        self.previous, self.age = x, self.age + 1
        following = _next_weight(self.weight)
        if self.most is None:
            restarts = self.age >= self.period or bool((ahead - new) @ (new - x) > 0.0)
        else:
            restarts = following >= self.most
        self.weight, self.age = (1.0, 0) if restarts else (following, self.age)

    @classmethod
    def restarted(cls, how: str) -> Momentum:
        """Return the extrapolation with a rule of ``RESTARTS``."""
        return cls(RESTART_PERIOD) if how == "adaptive" else cls(most=RESTART_WEIGHT)


def _next_weight(weight: float) -> float:
    return 0.5 + math.sqrt(0.25 + weight * weight)


def _growing_weights(step: float) -> Iterator[float]:
    """Yield PSG's L = √t/step for t = 1, 2, …"""
    return (math.sqrt(t) / step for t in itertools.count(1))


def _ties(problem: Problem, ties: str | None) -> tuple[str | None, ...]:
    """Return the rules for ties to be tried; None for a g with one subgradient at every point, or of the user's own."""
    if ties is not None:
        choice(ties, "ties", (*TIES, "all"))
    if hasattr(problem.g, "tied_subgradient"):
        return TIES if ties == "all" else (ties or "index",)
    if ties not in (None, "all"):
        name = type(problem.g).__name__
        raise ValueError(f"ties is {ties!r}, but {name} has no tied subgradients to choose from; leave ties out.")
    return (None,)


def _subgradient(model: Model, x: Vector, slope: Vector, ties: str | None) -> Vector:
    """Return an element of ∂g(x), chosen by a rule for ties if g has several."""
    g = model.problem.g
    if ties is None:
        return np.asarray(g.subgradient(x, slope))
    return np.asarray(g.tied_subgradient(x, slope, ties, model.problem.u.signed))


def _rule(model: Model, weights: Iterator[float], ties: str | None, momentum: Momentum | None = None) -> Update:
    """Return the update x → argmin ⟨G, z⟩ + ½L‖z − x‖², which takes the next weight L at each call.

    With momentum (pDCAe), ∇f and the proximal term are taken at the extrapolated point, ∂g at x.
    """

    def update(x: Vector) -> Vector:
        ahead = x if momentum is None else momentum.ahead(x)
        slope = model.slope(ahead)
        new = model.argmin(ahead, slope + _subgradient(model, x, slope, ties), next(weights))
        if momentum is not None:
            momentum.judge(x, ahead, new)
        return new

    return update


def _relaxation_rule(model: Model, exact: bool, expired: Callable[[], bool], ties: str | None) -> Update:
    """Return MSCR's update x → (nearly) argmin f(z) + h(z) + ⟨z, g′(x)⟩."""
    L = 0.0 if model.is_concave() else model.norm
    accelerate = exact and model.problem.u.is_line and model.f.is_convex
    limit, tol = (INNER_LIMIT, INNER_TOL) if exact else (PAPER_STAGES, 0.0)

    def update(x: Vector) -> Vector:
        slope = model.slope(x)
        tilt = _subgradient(model, x, slope, ties)
        momentum, ahead = Momentum(), x
        for stage in range(limit):
            G = slope + tilt
            new = model.argmin(ahead, G, L)
            momentum.judge(x, ahead, new)
            # The optimality residual is relative to the longest gradient step.
            reach = float(np.abs(G).max()) / L if L > 0.0 else 1.0
            solved = np.abs(new - ahead).max() <= tol * reach + ROUNDING * np.abs(new).max()
            x = new
            if solved or stage + 1 == limit or expired():
                break
            ahead = momentum.ahead(x) if accelerate else x
            slope = model.slope(ahead)
        return x

    return update


def _largest_eigenvalue(product: Callable[[Any], Any], side: int) -> float:
    """Return the largest |eigenvalue| of a symmetric matrix, given its product with a vector or a matrix."""
    import scipy.linalg
    import scipy.sparse.linalg

    if side <= DENSE_SIDE:
        return float(np.abs(scipy.linalg.eigvalsh(product(np.eye(side)))).max())
    operator = scipy.sparse.linalg.LinearOperator((side, side), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(side)
    values = scipy.sparse.linalg.eigsh(operator, k=1, which="LM", v0=start, return_eigenvectors=False)
    return float(np.abs(values).max())


def _steps(step: Any) -> tuple[float, ...]:
    """Return the step sizes that ``step`` means, the largest first."""
    if isinstance(step, str):
        if step != "grid":
            raise ValueError(f"step is {step!r}; it must be 'grid', a number or several numbers.")
        step = STEP_GRID
    sizes = [number(size, "step", 0.0) for size in (step if np.ndim(step) else (step,))]
    if not sizes or min(sizes) == 0.0:
        raise ValueError(f"step is {step!r}; it must be a positive number or several of them.")
    return tuple(sorted(sizes, reverse=True))


def _limit(max_iter: int | None, max_time: float | None, default: int) -> int | None:
    """Return the iteration limit, the default if there is no limit at all."""
    return default if max_iter is None and max_time is None else max_iter

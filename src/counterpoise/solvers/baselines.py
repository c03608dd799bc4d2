"""The paper's three opponents: PSG, MSCR and PDCA, in its settings and in the strongest we know.

All three repeat one step, :meth:`Model.argmin`: a minimiser over the feasible set of ⟨G, z⟩ + ½L‖z − x‖², where
G = ∇f(x) + ∇h + g′ and g′ ∈ ∂g(x). They differ in L, in how often G is renewed and in which part of it. As printed,
MSCR and PDCA project after an unconstrained argmin, and MSCR is then unbounded for n > m; here the feasible set is
part of every argmin, and g enters with its own sign.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from counterpoise.checks import Vector, number
from counterpoise.clock import working_seconds
from counterpoise.kernels.separable import Separable
from counterpoise.problem import Problem, Result, Status
from counterpoise.solvers.run import EPOCH_SECONDS, Epoch, Progress, Run
from counterpoise.supervision import supervised
from counterpoise.terms.separable import smooth_slopes

Update = Callable[[Vector], Vector]
Callback = Callable[[Progress], Any]

# The paper's settings: PSG steps 0.01/√t; MSCR solves each subproblem by ten steps.
PAPER_STEP, PAPER_STAGES = 0.01, 10
# The stronger ones: PSG tries each of these; MSCR solves to this optimality residual, relative to max|G|.
STEP_GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
INNER_TOL, INNER_LIMIT = 1e-10, 20_000
# pDCAe forgets its momentum at the latest after so many iterations (Wen, Chen and Pong 2018).
RESTART_PERIOD = 200
# Limits of a call without limits: PSG has no natural stop, the others nearly always have.
PSG_MAX_ITER, MAX_ITER = 10_000, 100_000
# PSG ends after so many steps in a row that do not move; points are also scored that often, or more often if slow.
WINDOW, WINDOW_COST = 16, 1e8
# Up to this side a matrix is decomposed densely; a matrix this close to semidefinite, relative to its norm, is so.
DENSE_SIDE, SEMIDEFINITE = 500, 1e-10
# Steps below this, relative to x, are rounding.
ROUNDING = 1e-14


@supervised
def psg(
    problem: Problem,
    x0: Any = None,
    *,
    step: Any = PAPER_STEP,
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
        With bounds and linear terms for h.
    x0 : array of length n, optional
    step : float, sequence of floats, or "grid"
        Several steps are tried one after another from the same start and the best point is kept. Each has an even
        share of the limits; the largest come first, because they end soonest and leave their rest to the others.
        "grid" is ``STEP_GRID``.
    tol : float
        The run ends when 16 steps in a row move no coordinate by more than ``tol``·max|x|. Steps shrink, so that
        is weaker than stationarity: certify the point.
    max_iter : int, optional
        Without any limit, 10 000 per step size.
    max_time : float, optional
    seed : int or None
        Of the start.
    callback : callable, optional
        Sees the best of the points scored since its last call; F is not monotone.
    """
    steps = _steps(step)
    run = Run(problem, x0, tol, _limit(max_iter, max_time, PSG_MAX_ITER * len(steps)), max_time, seed, callback)
    model = Model(problem)
    rules = [_subgradient_rule(model, size) for size in steps]
    return run.loop(Drive(run, rules, patience=WINDOW, stride=model.stride, unit=0.0).epoch)


@supervised
def mscr(
    problem: Problem,
    x0: Any = None,
    *,
    inner: str = "paper",
    split: str = "paper",
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
      the subproblem min ⟨F′(x), z⟩ a knapsack that sorting solves. Where Q̂ is indefinite, λ < ½‖A‖², that is no
      upper bound of F and the convex split is taken. ``split="convex"`` always keeps f, and ends lower.
    * f concave or the set not convex (NNSPCA): no convex relaxation exists, so f is majorised too, by its
      linearisation if it is concave. On {x ≥ 0, ‖x‖ = 1} the minimiser is then the projection of −G, a unit
      vector if G has no negative entry. The stages repeat that with g′ fixed: ten of them, or to a fixed
      point with ``inner="exact"``.

    Parameters
    ----------
    problem : Problem
        With bounds and linear terms for h.
    x0 : array of length n, optional
    inner : {"paper", "exact"}
        "exact" means an optimality residual of 1e-10 relative to max|G|, or 20 000 steps.
    split : {"paper", "convex"}
        Of f + g where g = −λ‖x‖².
    tol : float
        The run ends when ‖x⁺ − x‖∞ ≤ ``tol``·max(1, ‖x‖∞).
    max_iter : int, optional
        Limit on subproblems; without any limit, 100 000.
    max_time : float, optional
    seed : int or None
        Of the start.
    callback : callable, optional
    """
    _choose(inner, "inner", ("paper", "exact"))
    _choose(split, "split", ("paper", "convex"))
    run = Run(problem, x0, tol, _limit(max_iter, max_time, MAX_ITER), max_time, seed, callback)
    model = Model(problem)
    if split == "paper" and model.bend_of_g and model.is_concave(with_g=True):
        rule = _proximal_rule(model, 0.0)
    else:
        rule = _relaxation_rule(model, exact=inner == "exact", expired=_deadline(run))
    return run.loop(Drive(run, [rule]).epoch)


@supervised
def pdca(
    problem: Problem,
    x0: Any = None,
    *,
    extrapolate: bool = False,
    lipschitz: float | None = None,
    tol: float = 1e-9,
    max_iter: int | None = None,
    max_time: float | None = None,
    seed: int | None = 0,
    callback: Callback | None = None,
) -> Result:
    """Proximal DC algorithm: x⁺ = P(x − G/L), L = ‖A‖².

    The paper's setting is the default; F never rises. ``extrapolate=True`` is pDCAe: ∇f is taken at
    x + β(x − x₋), with Nesterov's β, restarted when the step turns against it and every 200 iterations. It may
    end at another critical point, better or worse.

    Parameters
    ----------
    problem : Problem
        With bounds and linear terms for h.
    x0 : array of length n, optional
    extrapolate : bool
    lipschitz : float, optional
        L, by default the largest eigenvalue of |Q|. Any L for which ½L‖x‖² − f is convex keeps F from rising; a
        smaller one may cycle. For the concave f of NNSPCA 0 is valid, x⁺ is then the projection of −G, and
        takes less than half of the iterations.
    tol : float
        The run ends when ‖x⁺ − x‖∞ ≤ ``tol``·max(1, ‖x‖∞), twice in a row if extrapolated.
    max_iter : int, optional
        Without any limit, 100 000.
    max_time : float, optional
    seed : int or None
        Of the start.
    callback : callable, optional
    """
    bound = None if lipschitz is None else number(lipschitz, "lipschitz", 0.0)
    run = Run(problem, x0, tol, _limit(max_iter, max_time, MAX_ITER), max_time, seed, callback)
    model = Model(problem)
    if bound is None:
        bound = model.norm
    elif bound == 0.0 and not model.is_concave(with_g=True):
        raise ValueError("lipschitz is 0, but f is not concave; give at least its largest curvature, or None for ‖Q‖.")
    rule = _extrapolated_rule(model, bound) if extrapolate else _proximal_rule(model, bound)
    return run.loop(Drive(run, [rule], patience=1 + bool(extrapolate), stride=model.stride).epoch)


class Model:
    """A problem as these methods see it: ∇f, the slope of h, the norm of Q, and the argmin of a step."""

    def __init__(self, problem: Problem) -> None:
        if (problem.separable.cost.any() and not problem.u.signed) or not problem.is_convex_set:
            raise ValueError(
                "h contains AbsoluteDeviation or SemiContinuous, or g is AtMost, whose kinks and gaps psg, mscr and "
                'pdca cannot step over; they take Bounds, Linear and Ridge, method "bcd-g" takes all.'
            )
        self.problem, self.f = problem, problem.f
        # −λ‖x‖² bends F as f does.
        self.bend_of_g = float(getattr(problem.g, "bend", 0.0))
        self.by_gram = self.f.quadratic is not None and self.f.gram and self.f.n**2 <= self.f.cost

    @property
    def stride(self) -> int:
        """How many iterations pass between two scored points: by the size of the data, not the clock, for same bits."""
        return int(min(max(WINDOW_COST // max(self.f.cost, 1), 1), WINDOW))

    def slope(self, x: Vector) -> Vector:
        """Return ∇f(x) + ∇h by the cheaper of Qx + p and σAᵀ(Ax − y)."""
        gradient = self.f.Q @ x + self.f.p if self.by_gram else self.f.gradient(x)
        return np.asarray(gradient + smooth_slopes(self.problem.separable, x), dtype=np.float64)

    def argmin(self, x: Vector, G: Vector, L: float) -> Vector:
        """Return the minimiser of ⟨G, z⟩ + ½L‖z − x‖² over the feasible set; with signs also of h's kinks at 0."""
        u, h = self.problem.u, self.problem.separable
        point: Vector
        if u.signed:
            point = u.shrink(L * x - G, h)
            return point
        if L > 0.0:
            point = u.project(x - G / L, h)
            return point
        if u.groups:  # only a line has groups
            n, tree = self.f.n, u.tree(self.f.n)
            if np.isfinite(h.lo).all():
                spare = np.minimum(h.hi - h.lo, u.c - float(h.lo.sum()))
                point = tree.cheapest(G, spare, np.arange(n), h.lo, u.c)
            else:
                spare = np.minimum(h.hi - h.lo, float(h.hi.sum()) - u.c)
                point = -tree.mirrored().cheapest(-G, spare, np.arange(n), -h.hi, -u.c)
            return point
        point = greedy_fill(G, h, u.c, x) if u.is_line else u.project(-G, h)
        return point

    @cached_property
    def norm(self) -> float:
        """‖Q‖, the largest eigenvalue of |Q|: for least squares |σ|·‖A‖², for a loss L·‖A‖²; and h's largest bend."""
        h = self.problem.separable
        return self._norm_of_f + float((h.bend + np.maximum(h.curve, 0.0).sum(axis=0)).max())

    @cached_property
    def _norm_of_f(self) -> float:
        return _largest_eigenvalue(*self.f.majorant.square)

    @property
    def is_convex(self) -> bool:
        """Whether f is convex."""
        return bool(self.f.is_convex)

    def is_concave(self, with_g: bool = False) -> bool:
        """Whether f, or f + g if that is a quadratic too, is concave."""
        shift = -self.bend_of_g if with_g else 0.0
        if self.problem.separable.bend.any() or self.problem.separable.curve.any():
            return False
        f = self.f.majorant
        if f.is_concave or self.norm <= shift:
            return True
        return not f.is_convex and _is_semidefinite(shift * np.eye(f.n) - f.Q, self.norm)


def greedy_fill(G: Vector, h: Separable, c: float, x: Vector) -> Vector:
    """Return a minimiser of ⟨G, z⟩ over {lo ≤ z ≤ hi, 1ᵀz = c}: from lo, the cheapest coordinates are filled first.

    Among equals those with the larger x come first, so that an optimal vertex x stays. If some lo is infinite
    then every hi is finite, and the mirrored problem is filled.
    """
    if not np.isfinite(h.lo).all():
        return -greedy_fill(-G, h._replace(lo=-h.hi, hi=-h.lo), -c, -x)
    order = np.lexsort((-x, G))
    room = (h.hi - h.lo)[order]
    before = np.concatenate([[0.0], np.cumsum(room[:-1])])
    z = h.lo.copy()
    z[order] += np.clip(c - float(h.lo.sum()) - before, 0.0, room)
    return z


class Momentum:
    """Nesterov's extrapolation with restarts (O'Donoghue and Candès 2015), for one sequence of points."""

    def __init__(self, period: float = math.inf) -> None:
        self.period = period
        self.weight, self.age = 1.0, 0
        self.previous: Vector | None = None

    def ahead(self, x: Vector) -> Vector:
        """Return x + β(x − x₋)."""
        if self.previous is None or self.weight == 1.0:
            return x
        return x + (self.weight - 1.0) / _next_weight(self.weight) * (x - self.previous)

    def judge(self, x: Vector, ahead: Vector, new: Vector) -> None:
        """Note the step x → new; restart if it turned against the extrapolation, or by age."""
        self.previous, self.age = x, self.age + 1
        if self.age >= self.period or (ahead - new) @ (new - x) > 0.0:
            self.weight, self.age = 1.0, 0
        else:
            self.weight = _next_weight(self.weight)


def _next_weight(weight: float) -> float:
    return 0.5 + math.sqrt(0.25 + weight * weight)


class Drive:
    """Iterates update rules x → x⁺ for :meth:`Run.loop`: one after another, each from the start with an even share.

    Points are scored every ``stride`` iterations and at the end of a rule, and an epoch reports the best of them. Which
    points are scored does not depend on the clock, so neither does the result of a run without a time limit.

    Parameters
    ----------
    run : Run
    rules : sequence of callables
        Each returns a new array and may keep state.
    patience : int
        A rule ends when so many steps in a row move no coordinate by more than tol·max(unit, ‖x‖∞).
    stride : int
    unit : float
    """

    def __init__(self, run: Run, rules: Sequence[Update], patience: int = 1, stride: int = 1, unit: float = 1.0):
        self.run, self.rules = run, list(rules)
        self.patience, self.stride, self.unit = patience, stride, unit
        self.cut: Status | None = None
        self._begin(0)

    def _begin(self, done: int) -> None:
        """Go to the start with an even share of what is left of the limits after ``done`` iterations."""
        run, left, now = self.run, len(self.rules), self._now()
        self.x, self.idle = run.start, 0
        self.last = math.inf if run.max_iter is None else done + math.ceil((run.max_iter - done) / left)
        self.until = math.inf if run.max_time is None else now + (run.max_time - now) / left

    def _now(self) -> float:
        return working_seconds() - self.run.clock

    def epoch(self, trials: int) -> Epoch:
        """Iterate for about ``trials`` iterations or 50 ms; report the best scored point."""
        points: list[Vector] = []
        tried = accepted = 0
        pause = min(self._now() + EPOCH_SECONDS, self.until)
        status = None
        while status is None and tried < trials and (not points or self._now() < pause):
            count = int(min(self.stride, self.last - self.run.done - tried))
            steps, moves = self._iterate(count)
            tried, accepted = tried + steps, accepted + moves
            points.append(self.x)
            status = self._verdict(self.run.done + tried)
        best = points[0] if len(points) == 1 else min(reversed(points), key=lambda x: self.run.measure(x)[0])
        return Epoch(best, tried, accepted, self._next_rule(status, self.run.done + tried))

    def _iterate(self, count: int) -> tuple[int, int]:
        """Take up to ``count`` steps; return how many, and how many moved."""
        moves = 0
        for done in range(1, count + 1):
            new = self.rules[0](self.x)
            allowed = self.run.tol * max(self.unit, float(np.abs(self.x).max()))
            moved = float(np.abs(new - self.x).max()) > allowed
            self.x, self.idle, moves = new, 0 if moved else self.idle + 1, moves + moved
            if self.idle >= self.patience:
                return done, moves
        return count, moves

    def _verdict(self, done: int) -> Status | None:
        """Return why the rule ends here, if it does."""
        if self.idle >= self.patience:
            return Status.STATIONARY
        if done >= self.last:
            return Status.ITERATION_LIMIT
        return Status.TIME_LIMIT if self._now() >= self.until else None

    def _next_rule(self, status: Status | None, done: int) -> Status | None:
        """Begin the next rule if this one has ended; after the last say why, a limit before stationarity."""
        if status is None:
            return None
        if status is not Status.STATIONARY:
            self.cut = self.cut or status
        if len(self.rules) == 1 or done == self.run.max_iter:
            return self.cut or status
        del self.rules[0]
        self._begin(done)
        return None


def _subgradient_rule(model: Model, step: float) -> Update:
    """Return PSG's update x → P(x − step/√t·G)."""
    times, g = itertools.count(1), model.problem.g

    def update(x: Vector) -> Vector:
        slope = model.slope(x)
        return model.argmin(x, slope + g.subgradient(x, slope), math.sqrt(next(times)) / step)

    return update


def _proximal_rule(model: Model, L: float) -> Update:
    """Return PDCA's update x → argmin ⟨G, z⟩ + ½L‖z − x‖²."""
    g = model.problem.g

    def update(x: Vector) -> Vector:
        slope = model.slope(x)
        return model.argmin(x, slope + g.subgradient(x, slope), L)

    return update


def _extrapolated_rule(model: Model, L: float) -> Update:
    """Return pDCAe's update: ∇f and the proximal term at the extrapolated point, ∂g at x."""
    momentum, g = Momentum(RESTART_PERIOD), model.problem.g

    def update(x: Vector) -> Vector:
        ahead = momentum.ahead(x)
        slope = model.slope(ahead)
        new = model.argmin(ahead, slope + g.subgradient(x, slope), L)
        momentum.judge(x, ahead, new)
        return new

    return update


def _relaxation_rule(model: Model, exact: bool, expired: Callable[[], bool]) -> Update:
    """Return MSCR's update x → (nearly) argmin f(z) + h(z) + ⟨z, g′(x)⟩."""
    L = 0.0 if model.is_concave() else model.norm
    accelerate = exact and model.problem.u.is_line and model.is_convex
    limit, tol = (INNER_LIMIT, INNER_TOL) if exact else (PAPER_STAGES, 0.0)

    def update(x: Vector) -> Vector:
        slope = model.slope(x)
        tilt = model.problem.g.subgradient(x, slope)
        momentum, ahead = Momentum(), x
        for stage in range(limit):
            G = slope + tilt
            new = model.argmin(ahead, G, L)
            momentum.judge(x, ahead, new)
            solved = np.abs(new - ahead).max() <= tol * _reach(G, L) + ROUNDING * np.abs(new).max()
            x = new
            if solved or stage + 1 == limit or expired():
                break
            ahead = momentum.ahead(x) if accelerate else x
            slope = model.slope(ahead)
        return x

    return update


def _reach(G: Vector, L: float) -> float:
    """Return max|G|/L, the longest gradient step: the unit of an optimality residual; 1 without a proximal term."""
    return float(np.abs(G).max()) / L if L > 0.0 else 1.0


def _deadline(run: Run) -> Callable[[], bool]:
    """Return a function that says whether the run is to stop."""
    return lambda: run.limits.reached() is not None


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


def _is_semidefinite(Q: Vector, norm: float) -> bool:
    """Whether Q has no eigenvalue below rounding, by Cholesky."""
    try:
        np.linalg.cholesky(Q + SEMIDEFINITE * max(norm, 1e-300) * np.eye(len(Q)))
    except np.linalg.LinAlgError:
        return False
    return True


def _steps(step: Any) -> tuple[float, ...]:
    """Return the step sizes that ``step`` names, the largest first."""
    if isinstance(step, str):
        _choose(step, "step", ("grid",), "a number or several")
        step = STEP_GRID
    sizes = [number(size, "step", 0.0) for size in (step if np.ndim(step) else (step,))]
    if not sizes or min(sizes) == 0.0:
        raise ValueError(f"step is {step!r}; it must be a positive number, or at least one of them.")
    return tuple(sorted(sizes, reverse=True))


def _choose(value: Any, name: str, names: Sequence[str], otherwise: str = "") -> None:
    if value not in names:
        others = f", or {otherwise}" if otherwise else ""
        raise ValueError(f"{name} is {value!r}; it must be {' or '.join(map(repr, names))}{others}.")


def _limit(max_iter: int | None, max_time: float | None, default: int) -> int | None:
    """Return the iteration limit, the default where there is no limit at all."""
    return default if max_iter is None and max_time is None else max_iter

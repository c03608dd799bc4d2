"""Newton steps on faces of the box, for points with many coordinates strictly between their bounds.

There f may be ill-conditioned, and steps on pairs or along the gradient need thousands of iterations.

:func:`settle` completes the descent by pairs where F is convex, and :func:`turn` shortens it on a sphere.

:func:`walk_on_faces` serves a smooth g with a small λ. On a face W the linearised problem

    min ½xᵀQx + (p + w + ∇g(x̄))ᵀx   subject to 1ᵀx = c, coordinates outside W at their bounds

is one linear system; the signs of its solution give the next face (primal-dual active sets). A step may raise F, and
the faces may cycle, so the best point found is returned, never one worse than the start.
"""

from __future__ import annotations

import numpy as np

from counterpoise.certificates import convex_gap, convex_members
from counterpoise.checks import Vector
from counterpoise.kernels.separable import Separable
from counterpoise.problem import Problem
from counterpoise.supervision import Limits
from counterpoise.terms.constraint import Sum

# Added to the diagonal, relative to its mean, so that a singular Q still gives a step.
RIDGE = 1e-10
# A coordinate this close to a bound, relative to the distance between its bounds, is at that bound.
AT_BOUND = 1e-9
# The walk ends after this many steps in a row without a better point.
PATIENCE = 12
# Rounds of :func:`settle` are ROUNDS plus ROUNDS_EACH per coordinate; pair steps per round; the most coordinates it
# takes.
ROUNDS_EACH, ROUNDS, FREED, LARGEST_FACE = 0.2, 40, 16, 3000
# Newton steps of :func:`turn`, its most coordinates, and its damping: the first, its factor, and the most.
TURNS, LARGEST_TURN, DAMPINGS = 50, 500, (1.0 / 512.0, 8.0, 1e15)


def walk_on_faces(problem: Problem, x: Vector, steps: int, limits: Limits | None = None) -> Vector:
    """Return the best point of at most ``steps`` Newton steps from x, on ``Sum`` with finite bounds and a matrix Q."""
    if not isinstance(problem.u, Sum):
        raise TypeError(f"faces belong to Sum; u is {type(problem.u).__name__}.")
    Q, h, c = problem.f.Q, problem.separable, problem.u.c
    lo, hi, linear = h.lo, h.hi, problem.f.p + h.weight
    ridge = RIDGE * float(np.trace(Q)) / problem.n
    margin = AT_BOUND * (hi - lo)
    side = np.where(x >= hi - margin, 1, np.where(x <= lo + margin, -1, 0))
    best, least, idle = x, problem.objective(x), 0
    for _ in range(steps):
        free, held = np.flatnonzero(side == 0), np.flatnonzero(side)
        if len(free) == 0 or (limits is not None and limits.reached()):
            break
        tilt = linear + problem.g.subgradient(x, linear)
        z = np.where(side > 0, hi, lo)
        system = np.ones((len(free) + 1, len(free) + 1))
        system[:-1, :-1] = Q[np.ix_(free, free)]
        system[-1, -1] = 0.0
        system[np.arange(len(free)), np.arange(len(free))] += ridge
        target = np.append(-tilt[free] - Q[np.ix_(free, held)] @ z[held], c - z[held].sum())
        try:
            solution = np.linalg.solve(system, target)
        except np.linalg.LinAlgError:
            break
        z[free] = solution[:-1]
        slope = Q @ z + tilt + solution[-1]
        following = np.where(z > hi, 1, np.where(z < lo, -1, 0))
        following[held] = np.where(side[held] * slope[held] <= 0.0, side[held], 0)
        if not np.isfinite(z).all():
            break
        x = problem.project(np.clip(z, lo, hi))
        objective = problem.objective(x)
        idle = 0 if objective < least else idle + 1
        if objective < least:
            best, least = x, objective
        if idle >= PATIENCE:
            break
        side = following
    return best


def settle(problem: Problem, x: Vector, target: float, limits: Limits) -> None:
    """Lower a convex F in place, from a feasible x, until ``convex_gap`` is at most ``target``.

    A primal active-set method. The free coordinates of a face are those at no bound and no kink of h. A Newton step
    on the face takes one factorisation and stops at the first bound or kink. Steps on the pairs that violate optimality
    most then free coordinates again. Every step lowers F. The number of rounds is limited, so the caller must check the
    remaining gap. Nothing happens where :func:`convex_members` knows no set, or one that is too large.
    """
    members = convex_members(problem, x)
    if members is None or len(members) < 2 or len(members) > LARGEST_FACE:
        return
    face = _Face(problem, x, members)
    for _ in range(int(ROUNDS + ROUNDS_EACH * len(members))):
        face.refresh(x)
        face.take_newton_steps(limits)
        freed = face.free_pairs()
        x[members] = face.z
        if not freed or limits.reached() or (convex_gap(problem, x) or 0.0) <= target:
            break


class _Face:
    """The coordinates that may move, the bounds and kinks of h (the walls) of each, and the gradient of f."""

    def __init__(self, problem: Problem, x: Vector, members: np.ndarray) -> None:
        h = problem.separable
        self.problem, self.members, self.z = problem, members, x[members].copy()
        self.h = Separable(h.lo[members], h.hi[members], h.weight[members], h.centre[:, members], h.cost[:, members])
        self.H = problem.f.hessian(members)
        self.walls = np.sort(np.vstack([self.h.lo, np.clip(self.h.centre, self.h.lo, self.h.hi), self.h.hi]), axis=0)

    def refresh(self, x: Vector) -> None:
        """Recompute the gradient of f."""
        self.gradient = self.problem.f.gradient(x)[self.members]

    def _cells(self) -> tuple[Vector, Vector]:
        """Return the nearest wall strictly below and strictly above every coordinate."""
        below = np.where(self.walls < self.z, self.walls, -np.inf).max(axis=0)
        above = np.where(self.walls > self.z, self.walls, np.inf).min(axis=0)
        return below, above

    def _kink_slopes(self, right: bool) -> Vector:
        beyond = self.z >= self.h.centre if right else self.z > self.h.centre
        slopes: Vector = self.h.weight + np.where(beyond, self.h.cost, -self.h.cost).sum(axis=0)
        return slopes

    def take_newton_steps(self, limits: Limits) -> None:
        """Take Newton steps on the face until two full steps in a row meet no wall."""
        whole = 0
        while whole < 2 and not limits.reached():
            free = np.flatnonzero(~(self.walls == self.z).any(axis=0))
            if len(free) < 2:
                return
            step = self._newton(free)
            if step is None:
                return
            below, above = self._cells()
            z = self.z[free]
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(step > 0.0, (above[free] - z) / step, (below[free] - z) / step)
            room[step == 0.0] = np.inf
            first = int(np.argmin(room))
            length = min(1.0, float(room[first]))
            self._move(free, length * step)
            if length < 1.0:
                self.z[free[first]] = above[free[first]] if step[first] > 0.0 else below[free[first]]
                whole = 0
            else:
                whole += 1

    def _newton(self, free: np.ndarray) -> Vector | None:
        """Return the step from z to the minimiser on the face, with 1ᵀstep = 0; None if it cannot be computed."""
        from scipy.linalg import cho_factor, cho_solve

        H = self.H[np.ix_(free, free)]
        H[np.diag_indices(len(free))] += RIDGE * 1e-2 * float(np.abs(np.diag(H)).max()) + 1e-300
        slope = (self.gradient + self._kink_slopes(right=True))[free]
        slope = slope - slope.mean()
        try:
            factor = cho_factor(H, check_finite=False)
        except np.linalg.LinAlgError:
            return None
        both = cho_solve(factor, np.column_stack([slope, np.ones(len(free))]), check_finite=False)
        step: Vector = both[:, 0].sum() / both[:, 1].sum() * both[:, 1] - both[:, 0]
        step -= step.mean()
        return step if np.isfinite(step).all() and float(slope @ step) < 0.0 else None

    def free_pairs(self) -> bool:
        """Step on the pairs that violate optimality most, as far as the next wall; return whether any moved."""
        moved = False
        for _ in range(FREED):
            right = np.where(self.z < self.h.hi, self.gradient + self._kink_slopes(right=True), np.inf)
            left = np.where(self.z > self.h.lo, self.gradient + self._kink_slopes(right=False), -np.inf)
            i, j = int(np.argmin(right)), int(np.argmax(left))
            descent = float(left[j] - right[i])
            if not descent > 0.0 or i == j:
                break
            below, above = self._cells()
            bend = float(self.H[i, i] + self.H[j, j] - 2.0 * self.H[i, j])
            longest = min(float(above[i] - self.z[i]), float(self.z[j] - below[j]))
            step = min(descent / bend, longest) if bend > 0.0 else longest
            if not (np.isfinite(step) and self.z[i] + step > self.z[i]):
                break
            end_i = above[i] if step == above[i] - self.z[i] else self.z[i] + step
            end_j = below[j] if step == self.z[j] - below[j] else self.z[j] - step
            self._move(np.array([i, j]), np.array([step, -step]))
            self.z[i], self.z[j], moved = end_i, end_j, True
        return moved

    def _move(self, places: np.ndarray, step: Vector) -> None:
        self.z[places] += step
        self.gradient += self.H[:, places] @ step


def turn(problem: Problem, x: Vector, tolerance: float, limits: Limits) -> None:
    """Lower F in place by Newton steps over the positive coordinates of a point of the sphere.

    The steps and their damping are those of :func:`counterpoise.kernels.programs.newton_steps`, with g replaced by its
    tangent, which lies above it. A step is taken if it lowers F by more than ``tolerance``.
    """
    h, objective, damping = problem.separable, problem.objective(x), 0.0
    first, factor, most = DAMPINGS
    for _ in range(TURNS):
        free = np.flatnonzero(x > 0.0)
        if len(free) < 2 or len(free) > LARGEST_TURN or limits.reached():
            return
        slope = problem.f.gradient(x) + h.weight
        slope = (slope + problem.g.subgradient(x, slope))[free]
        z, H, found = x[free], problem.f.hessian(free), None
        nu = float(z @ slope)
        while damping < most:
            step = _turning_step(H, slope - nu * z, z, nu, damping)
            if step is not None:
                found = x.copy()
                found[free] = _turned(z, step)
                if problem.objective(found) < objective - tolerance:
                    break
                found = None
                if float(step @ (nu * z - slope)) <= tolerance:  # twice what the step promises
                    return
            damping = max(factor * damping, first)
        if found is None:
            return
        x[:], objective, damping = found, problem.objective(found), damping / factor if damping > first else 0.0


def _turning_step(H: Vector, slope: Vector, z: Vector, nu: float, damping: float) -> Vector | None:
    """Return the minimiser of slopeᵀd + ½dᵀ(H − νI)d over zᵀd = 0, damped; None if there is none."""
    from scipy.linalg import cho_factor, cho_solve

    shift, ridge = nu * max(1.0 - damping, 0.0), 0.0
    if nu <= 0.0 or damping > 1.0:
        shift, ridge = min(nu, 0.0), 1e-2 * damping
    # The largest coordinate balances the others.
    r = int(np.argmax(z))
    others = np.delete(np.arange(len(z)), r)
    share = z[others] / z[r]
    K = H[np.ix_(others, others)] - np.outer(share, H[r, others]) - np.outer(H[others, r], share)
    K += (H[r, r] - shift) * np.outer(share, share)
    diagonal = np.abs(H[others, others]) + share * share * abs(H[r, r]) + (1.0 + share * share) * abs(shift)
    K[np.diag_indices(len(others))] += ridge * diagonal - shift + 1e-300
    try:
        along = cho_solve(cho_factor(K, check_finite=False), share * slope[r] - slope[others], check_finite=False)
    except np.linalg.LinAlgError:
        return None
    step = np.empty(len(z))
    step[others], step[r] = along, -float(share @ along)
    return step if np.isfinite(step).all() else None


def _turned(z: Vector, step: Vector) -> Vector:
    """Return z + t·step, scaled to the length of z, with t ≤ 1 the longest that keeps it ≥ 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(step < 0.0, -z / step, np.inf)
    blocking = int(np.argmin(room))
    new: Vector = z + min(1.0, float(room[blocking])) * step
    if room[blocking] < 1.0:
        new[blocking] = 0.0
    new = np.maximum(new, 0.0)
    return new * (np.linalg.norm(z) / np.linalg.norm(new))

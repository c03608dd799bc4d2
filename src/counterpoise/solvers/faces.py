"""Newton steps on faces of the box, for points with many coordinates strictly between their bounds.

At such points f may be ill-conditioned, and steps on pairs or along the gradient need thousands of iterations.

:func:`settle` completes the descent by pairs if F is convex, and :func:`turn` shortens it on a sphere.

:func:`walk_on_faces` is for a smooth g with a small λ. On a face W the linearised problem

    min ½xᵀQx + (p + w + ∇g(x̄))ᵀx   subject to 1ᵀx = c, coordinates outside W at their bounds

is one linear system; the signs of its solution give the next face (primal-dual active sets). A step may raise F, and
the faces may cycle, so the best point found is returned, never one worse than the start.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from counterpoise.certificates import convex_members, slope_gap
from counterpoise.checks import Vector
from counterpoise.problem import Problem
from counterpoise.solvers.face import Face
from counterpoise.supervision import Limits
from counterpoise.terms.separable import one_sided_slopes

# Added to the diagonal, relative to its mean, so that a singular Q still gives a step.
RIDGE = 1e-10
# A coordinate this close to a bound, relative to the distance between its bounds, is at that bound.
AT_BOUND = 1e-9
# The walk ends after this many steps in a row without a better point.
PATIENCE = 12
# Rounds of :func:`settle` are ROUNDS plus ROUNDS_EACH per coordinate; the most coordinates it takes without AᵀA.
ROUNDS_EACH, ROUNDS, LARGEST_FACE = 0.2, 40, 3000
# Rounds of :func:`descend_face`, between steps on pairs.
FEW_ROUNDS = 4
# Limits of :func:`turn` on Newton steps and coordinates, and its damping: the first, its factor, and the largest.
TURNS, LARGEST_TURN, DAMPINGS = 50, 500, (1.0 / 512.0, 8.0, 1e15)
# How often such a step on a loss is halved before it is damped more, and the fraction of its linear decrease to reach.
HALVINGS, ENOUGH = 24, 0.1

# Steps on a model are rejected if they lower F by less than ACCEPTED times the decrease of the model; if they lower it
# by more than TRUSTED times that, the next model is closer to the local one. MIXES are the models, up to the bound.
ACCEPTED, TRUSTED, MIXES = 0.2, 0.7, (0.0, 0.01, 0.1, 1.0)
# If the least positive mix is trusted STREAK times in a row, FINER_MIX times that mix is added, down to FINEST_MIX.
STREAK, FINER_MIX, FINEST_MIX = 8, 0.01, 1e-12
# The most Newton steps on models, the fraction of the gap to which each model is settled, and bisections of a step.
NEWTON_STEPS, FORCING, BISECTIONS = 200, 0.01, 60
# These steps end when STALLED of them do not halve the gap, and rounds when STALLED_ROUNDS do not lower F either.
STALLED, STALLED_ROUNDS = 10, 12
# Continuation in smoothed losses φ(sz)/s: the factor from one s to the next; the least s; the sum of the curvatures
# that the first loss must have, as a share of that at the least s; and the gap at which the next loss is taken, as a
# share of the change of F from one loss to the next.
NARROWER, LEAST_STRETCH, CURVED, FOLLOWED = 4.0, 0.25**25, 0.5, 0.1


def walk_on_faces(problem: Problem, x: Vector, steps: int, limits: Limits | None = None) -> Vector:
    """Return the best point of at most ``steps`` Newton steps from x, on ``Sum`` with finite bounds and a matrix Q."""
    Q, h, c = problem.f.Q, problem.separable, problem.u.c
    lo, hi, linear = h.lo, h.hi, problem.f.p + h.weight
    Q = Q + np.diag(h.bend) if h.bend.any() else Q
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


def settle(
    problem: Problem, x: Vector, target: float, limits: Limits, most: int | None = None, held: bool = False
) -> None:
    """Lower a convex F in place, from a feasible x, until ``slope_gap`` is at most ``target``.

    This is a primal active-set method. The free coordinates of a face are those at no bound and no kink of h. A Newton
    step on the face takes one factorisation and stops at the first bound or kink. Steps on the pairs that violate
    optimality most then free coordinates again. Every step lowers F. The number of rounds is limited, so the caller
    must check the remaining gap. If ``held``, zeros stay 0 when g limits the number of non-zeros. If f is quadratic and
    :func:`convex_members` returns None or too large a set, x is not changed.
    """
    if problem.f.quadratic is None:
        _settle_on_models(problem, x, target, limits)
        return
    face = _face(problem, x, held)
    if face is None:
        return
    least, closest, idle = math.inf, math.inf, 0
    for _ in range(int(ROUNDS + ROUNDS_EACH * len(face.members)) if most is None else most):
        freed, gap = _round(face, x, limits), slope_gap(problem, x) or 0.0
        value, rounding = problem.value_and_resolution(x)
        # Once neither F nor the gap falls, both are rounding error, and more rounds change nothing.
        idle = 0 if value < least - rounding or gap < 0.5 * closest else idle + 1
        least, closest = min(least, value), gap if idle == 0 else closest
        if not freed or limits.reached() or gap <= target or idle == STALLED_ROUNDS:
            break


def settle_from_vertex(problem: Problem, x: Vector, tol: float, limits: Limits) -> bool:
    """Write the minimiser of a convex F to x, by :func:`settle`; return whether it is the minimiser.

    The start is the best single coordinate, or a point at kinks of h if that is better. From such starts, faces have no
    more coordinates than they need.
    """
    h, c = problem.separable, float(problem.u.c)
    x[:] = 0.0
    x[int(np.argmin(0.5 * c * c * (problem.f.diagonal + h.bend) + c * (problem.f.p + h.weight)))] = c
    starts = [problem.project(x), *(problem.project(centre) for centre in h.centre)]
    x[:] = min(starts, key=problem.objective)
    for _ in range(2):  # the tolerance depends on F
        objective, resolution = problem.value_and_resolution(x)
        settle(problem, x, 0.5 * (tol * abs(objective) + 64.0 * resolution), limits, ROUNDS)
    if not problem.is_feasible(x):
        x[:] = problem.project(x)
    objective, resolution = problem.value_and_resolution(x)
    gap = slope_gap(problem, x)
    return gap is not None and gap <= tol * abs(objective) + 64.0 * resolution


def descend_face(problem: Problem, x: Vector, target: float, limits: Limits) -> int:
    """Lower F in place by some rounds of :func:`settle`; return how many multiplications they took.

    They do not try to close the gap beyond ``target``. If f is convex but F is not, g is replaced by its tangent, which
    lies above it.
    """
    if problem.f.quadratic is None:
        return 0
    face = _face(problem, x, target=target)
    if face is None:
        return _descend_tangent(problem, x, limits)
    for _ in range(FEW_ROUNDS):
        if not _round(face, x, limits) or limits.reached():
            break
    return face.work


def _descend_tangent(problem: Problem, x: Vector, limits: Limits) -> int:
    """Take Newton steps on the non-zeros of x between their bounds, with g replaced by its tangent at x."""
    h, members = problem.separable, np.flatnonzero(x)
    if not (problem.u.is_line and 2 <= len(members) <= LARGEST_FACE and problem.g.lam < np.inf and problem.f.is_convex):
        return 0
    face = Face(problem, x, members)
    face.refresh(x)
    face.gradient += problem.g.subgradient(x, problem.f.gradient(x) + one_sided_slopes(h, x)[1])[members]
    face.take_newton_steps(limits)
    x[members] = face.z
    return face.work


def _face(problem: Problem, x: Vector, held: bool = False, target: float = 0.0) -> Face | None:
    """Return the face on which F is convex; unless ``held``, zeros are included if g allows more non-zeros."""
    members = convex_members(problem, x)
    if members is None:
        return None
    room, h = math.inf, problem.separable
    if problem.g.lam > 0.0 and problem.free is not None and problem.free < problem.n:
        room = float(problem.free - np.count_nonzero(x))
        if room > 0 and not held:
            members = np.flatnonzero((x != 0.0) | (h.floor <= h.lo))
    # If AᵀA is stored, only the part of it that belongs to free coordinates is copied and factored.
    too_many = len(members) > LARGEST_FACE and not problem.f.gram
    return Face(problem, x, members, room, target) if len(members) > 1 and not too_many else None


def _round(face: Face, x: Vector, limits: Limits) -> bool:
    """Take Newton steps on a face, then free pairs of coordinates; return whether any was freed."""
    face.refresh(x)
    face.take_newton_steps(limits)
    freed = face.free_pairs()
    x[face.members] = face.z
    return freed


class Trust:
    """How much of the bound on its curvature a model of f mixes in (:meth:`Problem.model`): more when steps fail."""

    def __init__(self, mixes: tuple[float, ...] = MIXES) -> None:
        self.mixes, self.place, self.streak = mixes, 0, 0

    @property
    def mix(self) -> float:
        """The mix of the next model; 1 is the upper bound."""
        return self.mixes[self.place]

    def judges(self, gain: float, promised: float) -> bool:
        """Return whether to accept steps that lowered the model by ``promised`` and F by ``gain``; adapt the mix.

        On the upper bound they are always accepted.
        """
        if self.mix < 1.0 and gain < ACCEPTED * promised:
            self.place += 1
            return False
        if gain > TRUSTED * promised:
            # Slopes may be tiny relative to the bound, as for a Huber loss with a small δ; steps would then be tiny.
            self.streak = self.streak + 1 if self.place == 1 else 0
            if self.streak == STREAK and self.mix < 1.0 and FINER_MIX * self.mix >= FINEST_MIX:
                self.mixes = (self.mixes[0], FINER_MIX * self.mix, *self.mixes[1:])
                self.place, self.streak = 2, 0
            self.place = max(self.place - 1, 0)
        return True

    def give_up(self) -> None:
        """Use the upper bound as the next model."""
        self.place = len(self.mixes) - 1


def _settle_on_models(problem: Problem, x: Vector, target: float, limits: Limits) -> None:
    """Lower a convex F whose f is not quadratic, by Newton's method: settle a face of the local model, search the line.

    When two values of F differ only by rounding, slopes are still accurate, so the last steps are judged by the gap.
    """
    gap = slope_gap(problem, x)
    if gap is None:
        _descend_tangents(problem, x, target, limits)
        return
    gap = _newton_steps(problem, x, target, gap, limits)
    members = convex_members(problem, x)
    if gap is None or gap <= target or members is None or len(members) < problem.n:
        return
    _follow_corners(problem, x, target, gap, limits)


def _follow_corners(problem: Problem, x: Vector, target: float, gap: float, limits: Limits) -> None:
    """Lower a convex F in place by continuation in smoothed losses, such as the logistic one at large scores.

    Where few rows are near the corner of a loss, each Newton step ends at the next corner. Losses with wider corners
    are minimised one after the other, each from the minimum of the last, down to the loss itself.
    """
    stretch, end = _widest(problem.f, x), x.copy()
    if stretch == 1.0:
        return
    wide = _widened(problem, stretch)
    while stretch < 1.0:
        stretch *= NARROWER
        narrower = _widened(problem, stretch) if stretch < 1.0 else problem
        enough = FOLLOWED * abs(wide.objective(end) - narrower.objective(end))
        _newton_steps(wide, end, max(enough, target), slope_gap(wide, end), limits)
        if limits.reached():
            return
        wide = narrower
    rest = _newton_steps(problem, end, target, slope_gap(problem, end), limits)
    if problem.objective(end) < problem.objective(x) or (rest is not None and rest < gap):
        x[:] = end


def _widened(problem: Problem, stretch: float) -> Problem:
    """Return the problem with the scores of its loss multiplied by ``stretch``, at the same slopes far away."""
    return problem.derived(f=problem.f.widened(stretch))


def _widest(f: Any, x: Vector) -> float:
    """Return the largest power of 1/NARROWER, as a factor of the scores, that brings half of the rows to a corner."""
    z, stretch = f.residual(x), 1.0
    enough = CURVED * float(f.weighted(f.curvature(LEAST_STRETCH * z)).sum())
    while stretch > LEAST_STRETCH and float(f.weighted(f.curvature(stretch * z)).sum()) < enough:
        stretch /= NARROWER
    return stretch


def _newton_steps(problem: Problem, x: Vector, target: float, gap: float | None, limits: Limits) -> float | None:
    """Lower F in place from the given gap; return the gap at the end, None if F is not convex there."""
    before = math.inf
    for k in range(NEWTON_STEPS):
        if gap is None or gap <= target or limits.reached():
            return gap
        if k % STALLED == 0:
            # On a nearly singular face of a loss near 0 the gap may close by only a few percent per step.
            if gap > 0.5 * before:
                return gap
            before = gap
        whole, model, enough = x.copy(), problem.model(x, 0.0), max(0.5 * target, FORCING * gap)
        settle(model, whole, enough, limits)
        level, rounding = problem.value_and_resolution(x, by_models=False)
        if not problem.is_feasible(0.5 * (x + whole)):  # F is not convex between two supports
            if problem.objective(whole) < level - rounding:
                x[:], gap = whole, slope_gap(problem, whole)
                continue
            whole[:] = x
            settle(model, whole, enough, limits, held=True)
        end = _lowest_between(problem, x, whole)
        rest = slope_gap(problem, end)
        if level - problem.objective(end) <= rounding and (rest is None or rest >= gap):
            # Near the minimum the slope along the step is also rounding error; the whole step may still close the gap.
            end, rest = whole, slope_gap(problem, whole)
            if rest is None or rest >= gap or problem.objective(whole) > level + rounding:
                return gap
        x[:], gap = end, rest
    return gap


def _descend_tangents(problem: Problem, x: Vector, target: float, limits: Limits) -> None:
    """Lower an F that is not convex by Newton steps on local models, with g replaced by its tangent."""
    for _ in range(NEWTON_STEPS):
        end = x.copy()
        if limits.reached() or not _descend_tangent(problem.model(x, 0.0), end, limits):
            return
        tangent = problem.g.subgradient(x, problem.f.gradient(x) + one_sided_slopes(problem.separable, x)[1])
        end = _lowest_between(problem, x, end, float(tangent @ (end - x)))
        if not problem.objective(end) < problem.objective(x) - target:
            return
        x[:] = end


def _lowest_between(problem: Problem, x: Vector, end: Vector, tilt: float = 0.0) -> Vector:
    """Return the end of a step if F falls all the way, otherwise the lowest point of the step; F is convex on it.

    ``tilt`` is the slope of the tangent of g along the step.
    """
    step, low, high = end - x, 0.0, 1.0
    slope = problem.f.slope_along(x, step)

    def falls(t: float) -> bool:
        left, right = one_sided_slopes(problem.separable, x + t * step)
        return bool(slope(t) + float(np.where(step > 0.0, left, right) @ step) + tilt <= 0.0)

    if falls(1.0):
        return end
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if falls(middle) else (low, middle)
    return x + low * step


def turn(problem: Problem, x: Vector, tolerance: float, limits: Limits) -> None:
    """Lower F in place by Newton steps over the non-zeros of a point on the sphere, which keep their signs.

    Where F is smooth at 0 the steps are over all coordinates, which may change their signs.

    The steps and their damping are those of :func:`counterpoise.kernels.programs.newton_steps`, with g replaced by its
    tangent, which lies above it. A step is accepted if it lowers F by more than ``tolerance``. If f is a loss, its
    curvature may change along the step, which is halved until it lowers F by a fraction of its linear decrease.
    """
    objective, damping = problem.objective(x), 0.0
    first, factor, most = DAMPINGS
    halvings, enough = (0, 0.0) if problem.f.quadratic is not None else (HALVINGS, ENOUGH)
    is_smooth = problem.u.signed and problem.g.lam == 0.0 and len(problem.separable.centre) == 0
    for _ in range(TURNS):
        free = np.arange(problem.n) if is_smooth else np.flatnonzero(x)
        if len(free) < 2 or len(free) > LARGEST_TURN or limits.reached():
            return
        side = np.where(x[free] < 0.0, -1.0, 1.0)
        slope = problem.f.gradient(x) + one_sided_slopes(problem.separable, x)[1]
        slope = side * (slope + problem.g.subgradient(x, slope))[free]
        z, H, found = side * x[free], side[:, None] * problem.model(x, 0.0).f.hessian(free) * side, None
        nu = float(z @ slope)
        while damping < most:
            step = _turning_step(H, slope - nu * z, z, nu, damping)
            if step is not None:
                promise = float(step @ (nu * z - slope))  # linear decrease, twice that of the model for a whole step
                for share in 0.5 ** np.arange(halvings + 1):
                    trial = x.copy()
                    trial[free] = side * _turned(z, share * step, is_smooth) + 0.0  # −0 becomes 0
                    if problem.objective(trial) < objective - max(tolerance, enough * share * promise):
                        found = trial
                        break
                    if share * promise <= tolerance:
                        break
                if found is not None:
                    break
                if promise <= tolerance:
                    return
            damping = max(factor * damping, first)
        if found is None:
            return
        x[:], objective, damping = found, problem.objective(found), damping / factor if damping > first else 0.0


def _turning_step(H: Vector, slope: Vector, z: Vector, nu: float, damping: float) -> Vector | None:
    """Return the minimiser of slopeᵀd + ½dᵀ(H − νI)d over zᵀd = 0, damped; None if there is none."""
    from scipy.linalg import cho_factor, cho_solve

    # Damp in units of ν if that is positive: the diagonal may be far larger than the curvature in flat directions.
    shift, ridge = (nu * (1.0 - damping), 0.0) if nu > 0.0 else (nu, 1e-2 * damping)
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


def _turned(z: Vector, step: Vector, may_change_sign: bool) -> Vector:
    """Return z + t·step, scaled to the length of z, with t = 1 or the largest t ≤ 1 that keeps it ≥ 0."""
    if may_change_sign:
        whole: Vector = z + step
        return whole * (np.linalg.norm(z) / np.linalg.norm(whole))
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(step < 0.0, -z / step, np.inf)
    blocking = int(np.argmin(room))
    new: Vector = z + min(1.0, float(room[blocking])) * step
    if room[blocking] < 1.0:
        new[blocking] = 0.0
    new = np.maximum(new, 0.0)
    return new * (np.linalg.norm(z) / np.linalg.norm(new))

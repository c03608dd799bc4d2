"""Descent by pairs or blocks to a certificate: on F itself if f is quadratic, otherwise on models of F."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from counterpoise.certificates import convex_gap, convex_members, named_gap, slope_gap
from counterpoise.checks import Vector
from counterpoise.kernels import sweep
from counterpoise.kernels.pair import Terms, new_age
from counterpoise.problem import Problem, Status
from counterpoise.solvers import faces
from counterpoise.solvers.run import Epoch, Run

# Takes (terms, tol, level, iterations, age); returns the iterations done, accepted steps, and whether it has settled.
Advance = Callable[[Terms, float, Vector, int, Any], tuple[int, int, bool]]

# How often the face of a point is settled before its remaining gap is accepted; once without effect counts as VAIN.
SETTLINGS, VAIN = 8, 3
# While a convex F is not at its minimum, the tolerance of pair steps is multiplied by FINER, down to FINEST times the
# original. At most IDLE_TURNS steps on a face in a row may gain only rounding; a step without gain counts as NOTHING.
FINER, FINEST, IDLE_TURNS, NOTHING = 0.01, 1e-6, 16, 8
NEVER = 2**62
# How many scans in a row may find a decrease without a lower F.
IDLE_SCANS = 20
# The fraction of the tolerance to which steps on a face close the gap.
REFINED = 0.1
# F is updated from step to step instead of evaluated if an evaluation reads more entries than this.
DEAR = 1_000_000
# More coordinates than this make a large face; with fewer, scans of all pairs take less time than steps on faces.
MANY = 80
# Iterations before Newton steps are tried on a sphere, and on faces if f is not quadratic; again after twice as many.
# Rules other than the default are those of the paper, and take pair steps only, unless they need very many.
FIRST_TURN, LONG_TAIL = 4096, 50_000
# Newton steps on a face are tried after FACE_EACH iterations per coordinate, and at least FACE_AFTER; AS_LONG of their
# multiplications take as long as a pair step takes per coordinate.
FACE_EACH, FACE_AFTER, AS_LONG = 2, 500, 16
# Iterations between two evaluations of F: the fewest, and the most per coordinate. A new model is taken when they gain
# less than a fraction RENEWAL of all that the model has gained.
FEWEST, LOOK, RENEWAL = 128, 2, 0.1


def descend(
    run: Run,
    x: Vector,
    theta: float,
    advance: Advance,
    certified: bool = True,
    by_faces: bool | None = None,
    newton: bool = True,
) -> tuple[Epoch, dict[str, Any]]:
    """Descend from x, in place, until no pair gains; return the last report and further claims about its point.

    If ``by_faces``, Newton steps on the face are taken whenever ``advance`` settles; if it is False, from time to time;
    if it is None, when no pair gains any more or after very many iterations. Without ``newton`` none are taken.
    """
    kind = DescentOnModels if run.problem.f.quadratic is None else Descent
    way = kind(run, x, theta, advance, certified, by_faces)
    if not newton:
        way.newton, way.turn_after = False, NEVER
    report = run.stage(way.epoch)
    known = report.status in (Status.CERTIFIED, Status.STATIONARY)
    return report, named_gap(run.problem, way.rest if known else None)


def is_convex(problem: Problem) -> bool:
    """Return whether F is quadratic and convex over all coordinates."""
    if problem.f.quadratic is None or (problem.g.lam > 0.0 and (problem.free or 0) < problem.n):
        return False
    members = convex_members(problem, np.zeros(problem.n))
    return members is not None and len(members) == problem.n


def has_large_faces(problem: Problem) -> bool:
    """Return whether F is quadratic and convex on large faces: all coordinates, or many of them, may be held."""
    if problem.f.quadratic is None or not problem.u.is_line:
        return False
    free = (problem.free or 0) if problem.g.lam > 0.0 else problem.n
    return (free >= problem.n or free > MANY) and convex_members(problem, np.zeros(problem.n)) is not None


class Descent:
    """Advance by epochs; when one settles, scan all pairs, and end with a certificate or take the best pair.

    If F is convex, a point at which no pair gains may still be far from the minimum: Newton steps on its face continue
    until the bound on F(x) − F* is also within the tolerance.
    """

    def __init__(self, run: Run, x: Vector, theta: float, advance: Advance, certified: bool, by_faces: bool | None):
        self.run, self.x, self.theta, self.advance, self.certified = run, x, theta, advance, certified
        self.rest: float | None = None
        self.newton = True
        self.tol = run.tol
        self.by_faces, self.faced = bool(by_faces), False
        self.settlings = self.idle_scans = self.idle_turns = self.turned = 0
        self.scanned, self.turn_after = np.inf, FIRST_TURN
        if not run.problem.u.is_sphere and run.problem.f.quadratic is not None:
            self.turn_after = max(FACE_EACH * run.problem.n, FACE_AFTER) if by_faces is not None else LONG_TAIL
        self.age, self.level = new_age(max(1000, 4 * run.problem.n)), np.array(run.measure(x))
        self.begin(run.problem)

    def begin(self, problem: Problem) -> None:
        """Prepare steps on a problem from x."""
        self.terms = problem.terms()
        self.restart()

    def restart(self) -> None:
        """Put x on u(x) = 0 and rebuild the state of the terms."""
        sweep.start(self.terms, self.x)
        f = self.run.problem.f
        if hasattr(f, "remember"):
            f.remember(self.x, self.terms.f.gradient)

    def epoch(self, trials: int) -> Epoch:
        """Advance by at most ``trials`` iterations, and scan all pairs if that settles."""
        run, x = self.run, self.x
        # Counted in iterations, so that the steps do not depend on the clock.
        most, scans = min(trials, self.turn_after - self.turned), self.age[3]
        tried, accepted, settled = self.advance(self.terms, self.tol, self.level, most, self.age)
        self.turned += tried + int(self.age[3] - scans)
        self.faced = self.faced and not accepted
        if not settled:
            if self.turned >= self.turn_after:
                self.turn()
            return Epoch(x, tried, accepted, scored=self.scored())
        self.restart()
        self.age[0] = self.age[2] = 0
        if not self.certified:
            return Epoch(x, tried, accepted, Status.STATIONARY)
        self.level[:] = run.measure(x)
        tolerance = run.tol * abs(self.level[0]) + self.level[1]
        if self.by_faces and not self.faced:
            # Steps on the whole face come before a scan of all pairs, which takes longer.
            self.faced = not self.refines(tolerance)
            return Epoch(x, tried, accepted, scored=self.scored())
        # Within the iteration limit the scan's best pair is taken, so that every scan makes progress.
        spare = run.max_iter is None or run.done + tried < run.max_iter
        gap, *_ = sweep.scan(self.terms, x, self.theta, tolerance if spare else np.inf)
        if gap > tolerance:
            # Decreases that do not lower F in many scans are rounding error.
            self.idle_scans = 0 if self.level[0] < self.scanned else self.idle_scans + 1
            self.scanned = min(self.scanned, float(self.level[0]))
            if self.idle_scans > IDLE_SCANS:
                return Epoch(x, tried + spare, accepted + spare, Status.STATIONARY)
            self.level[0] -= gap if spare else 0.0
            self.faced = False
            return Epoch(x, tried + spare, accepted + spare)
        return self.ended(tried, accepted, tolerance, gap)

    def ended(self, tried: int, accepted: int, tolerance: float, gap: float) -> Epoch:
        """Return the report of a scan in which no pair gains; it is certified only if none gains without θ either."""
        status = self.end(tolerance) if self.certified else Status.STATIONARY
        if status is None:  # x may have moved since the scan
            return Epoch(self.x, tried, accepted)
        if self.theta > 0.0:
            gap, *_ = sweep.scan(self.terms, self.x.copy(), 0.0, np.inf)
            status = Status.STATIONARY if gap > tolerance else status
        return Epoch(self.x, tried, accepted, status, gap)

    def scored(self) -> tuple[float, float] | None:
        """Return F as updated by the steps, and its noise, if evaluating F takes as long as many steps; else None."""
        f = self.run.problem.f
        return (float(self.level[0]), float(self.level[1])) if f.gram and f.cost > DEAR else None

    def turn(self) -> None:
        """Take Newton steps, on a sphere or on a face, to shorten a long tail of pair steps."""
        problem, x, before, self.turned = self.run.problem, self.x, self.x.copy(), 0
        self.level[:] = self.run.measure(x)
        if problem.u.is_sphere:
            # The steps solve systems of m coordinates: m³ operations, as many as in m² pair steps or fewer.
            self.turn_after = min(2 * self.turn_after, max(FIRST_TURN, int(np.count_nonzero(x)) ** 2))
            faces.turn(problem, x, self.run.tol * abs(self.level[0]) + self.level[1], self.run.limits)
        else:
            target = REFINED * (self.run.tol * abs(self.level[0]) + self.level[1])
            work = faces.descend_face(problem, x, target, self.run.limits)
            # Spend half of the time on each kind of step, without reading the clock.
            self.turn_after = max(FACE_EACH * problem.n, FACE_AFTER, work // (AS_LONG * problem.n))
        if np.array_equal(x, before):
            return
        self.restart()  # restoring u(x) = 0 may undo a decrease that is rounding error
        reached = self.run.measure(x)
        if not problem.u.is_sphere and reached[0] >= self.level[0]:  # rounding error; try again later
            self.turn_after *= 2
            x[:] = before
            self.restart()
        else:
            self.level[:] = reached
            self.age[0] = self.age[2] = 0

    def end(self, tolerance: float) -> Status | None:
        """Return the status of a point at which no pair gains; None if the descent goes on."""
        run, x = self.run, self.x
        objective, noise = self.level
        if not self.newton:
            self.rest = convex_gap(run.problem, x)
            return Status.CERTIFIED
        if self.refines(tolerance):
            return None
        if self.rest is None or self.rest <= tolerance:
            return Status.CERTIFIED
        if self.settlings > SETTLINGS:
            self.rest = convex_gap(run.problem, x)
            return Status.CERTIFIED if self.rest is None or self.rest <= tolerance else Status.STATIONARY
        # The point may move, so its pairs are scanned again, unless that has not helped several times.
        rest = self.rest
        self.settle(0.5 * tolerance, objective + noise)
        self.level[:] = run.measure(x)
        helped = self.level[0] < objective - noise or (slope_gap(run.problem, x) or 0.0) < 0.5 * rest
        self.settlings += 1 if helped else VAIN
        return None

    def refines(self, tolerance: float) -> bool:
        """Step on the face, or allow smaller pair steps, if a convex F may still fall; return whether to go on."""
        problem = self.run.problem
        self.rest = slope_gap(problem, self.x)
        if self.rest is None or self.rest <= tolerance or problem.f.quadratic is None:
            return False
        if self.by_faces and problem.g.lam == 0.0 and self.turned < problem.n and self.tol > FINEST * self.run.tol:
            self.tol *= FINER
            return True
        before = float(self.level[0])
        self.turn()
        fell = before - float(self.level[0])
        self.idle_turns = 0 if fell > self.level[1] else self.idle_turns + (1 if fell > 0.0 else NOTHING)
        return self.idle_turns < IDLE_TURNS

    def settle(self, target: float, most: float) -> None:
        """Take Newton steps on the face of x if F is convex on it; undo them if F ends above ``most``."""
        before = self.x.copy()
        faces.settle(self.run.problem, self.x, target, self.run.limits)
        self.restart()
        if self.run.measure(self.x)[0] > most:  # rounding error on a nearly singular face
            self.x[:] = before
            self.restart()


class DescentOnModels(Descent):
    """Advance on quadratic models of F, each taken at the end point of the previous one.

    A model mixes the local curvatures of f with their bound (:meth:`Problem.model`). After some iterations F is
    evaluated: steps are accepted if they lower F by a fraction of the decrease of the model; otherwise the run goes
    back and mixes in more of the bound. The mix 1 is an upper bound of F, on which steps are always accepted, and all
    claims are made on it. When F is evaluated does not depend on where one epoch ends and the next begins, so neither
    do the steps.
    """

    def begin(self, problem: Problem) -> None:
        """Begin with the local curvatures; with the bound if there is no Gram matrix, as each model would copy A."""
        self.trust = faces.Trust(faces.MIXES if problem.f.gram else (1.0,))
        self.look = LOOK * problem.n
        self.is_current = False
        sweep.start(problem.model(self.x).terms(), self.x)  # puts x on its bounds and u(x) = 0

    def epoch(self, trials: int) -> Epoch:
        """Advance by at most ``trials`` iterations on one model, a new one if the last has settled."""
        first = 0
        if not self.is_current:
            gap, tolerance = self.renew()
            if gap <= tolerance:
                return self.ended(0, 0, tolerance, gap)
            first = 1  # the best pair has been taken, so that every model makes progress
        scans = self.age[3]
        more, taken, settled = self.advance(self.terms, self.tol, self.level, min(trials, self.ahead) - first, self.age)
        self.ahead -= first + more
        self.turned += first + more + int(self.age[3] - scans)
        if settled or self.ahead <= 0 or self.run.done + first + more == self.run.max_iter:
            self.judge(settled)
            if self.turned >= self.turn_after:
                self.turn()
        # Until F is evaluated again, report the point of the last evaluation.
        return Epoch(self.seen[2], first + more, first + taken)

    def renew(self) -> tuple[float, float]:
        """Take a new model at x, and its best pair if that gains enough; return its gain and the tolerance.

        If no pair gains enough, the model is the upper bound.
        """
        run, x = self.run, self.x
        self.level[:], self.age[0], self.age[2], self.brought = run.measure(x), 0, 0, 0.0
        tolerance = run.tol * abs(self.level[0]) + self.level[1]
        self.start_look()
        while True:
            self.terms = run.problem.model(x, self.trust.mix).terms()
            sweep.start(self.terms, x)
            gap, *_ = sweep.scan(self.terms, x, self.theta, tolerance)
            self.is_current = gap > tolerance
            if self.is_current:
                self.level[0] -= gap
            if self.is_current or self.trust.mix >= 1.0:
                return gap, tolerance
            self.trust.give_up()

    def turn(self) -> None:
        """Take Newton steps on F itself, on the sphere or on a face on which it is convex; then take a new model."""
        if self.run.problem.u.is_sphere:
            super().turn()
        else:
            self.turned, self.turn_after = 0, 2 * self.turn_after
            objective, noise = self.run.measure(self.x)
            self.settle(0.5 * (self.run.tol * abs(objective) + noise), objective + noise)
        self.is_current = False
        self.start_look()

    def start_look(self) -> None:
        """Record the point at which F is evaluated, and set when it is evaluated next."""
        self.ahead, self.seen = self.look, (self.run.measure(self.x)[0], float(self.level[0]), self.x.copy())

    def judge(self, settled: bool) -> None:
        """Evaluate F: go on from here, with a new model if this one gains little, or go back."""
        objective, level, before = self.seen
        sweep.start(self.terms, self.x)
        promised, most = level - float(self.level[0]), LOOK * self.run.problem.n
        if self.trust.judges(objective - self.run.measure(self.x)[0], promised):
            self.brought += promised
            self.is_current = not settled and promised >= RENEWAL * self.brought
            self.look = min(2 * self.look, most)
            self.start_look()
        else:
            self.x[:], self.is_current = before, False
            self.look = max(self.look // 2, min(FEWEST, most))
            if self.newton and self.trust.mix >= 1.0:
                # Steps on the upper bound may be tiny and many; on a face on which F is convex there are better ones.
                self.settle(0.5 * (self.run.tol * abs(objective) + float(self.level[1])), objective)
                self.start_look()

"""Iterate one or several update rules x → x⁺ as the epochs of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from counterpoise.checks import Vector
from counterpoise.clock import working_seconds
from counterpoise.problem import Status
from counterpoise.solvers.run import EPOCH_SECONDS, Epoch, Run

Update = Callable[[Vector], Vector]


class Drive:
    """Iterates update rules x → x⁺ for :meth:`Run.loop`, one after another, each from the start with an even share.

    Points are scored every ``stride`` iterations and at the end of a rule, and an epoch reports the best of them. Which
    points are scored does not depend on the clock, so neither does the result of a run without a time limit.

    A rule returns a new array and may keep state. It ends when ``patience`` steps in a row move no coordinate by more
    than tol·max(unit, ‖x‖∞).
    """

    def __init__(self, run: Run, rules: Sequence[Update], patience: int = 1, stride: int = 1, unit: float = 1.0):
        self.run, self.rules = run, list(rules)
        self.patience, self.stride, self.unit = patience, stride, unit
        self.cut: Status | None = None
        self._begin(0)

    def _begin(self, done: int) -> None:
        """Return to the start, with an even share of the remaining limits after ``done`` iterations."""
        run, left, now = self.run, len(self.rules), self._now()
        self.x, self.idle = run.start, 0
        self.last = math.inf if run.max_iter is None else done + math.ceil((run.max_iter - done) / left)
        self.until = math.inf if run.max_time is None else now + (run.max_time - now) / left

    def _now(self) -> float:
        return working_seconds() - self.run.clock

    def epoch(self, trials: int) -> Epoch:
        """Iterate for about ``trials`` iterations or 50 ms; report the best scored point."""
        run, tried, accepted = self.run, 0, 0
        points: list[Vector] = []
        pause, status = min(self._now() + EPOCH_SECONDS, self.until), None
        while status is None and tried < trials and (not points or self._now() < pause):
            for _ in range(int(min(self.stride, self.last - run.done - tried))):
                new = self.rules[0](self.x)
                allowed = run.tol * max(self.unit, float(np.abs(self.x).max()))
                moved = float(np.abs(new - self.x).max()) > allowed
                tried, accepted = tried + 1, accepted + moved
                self.x, self.idle = new, 0 if moved else self.idle + 1
                if self.idle >= self.patience:
                    break
            points.append(self.x)
            if self.idle >= self.patience:
                status = Status.STATIONARY
            elif run.done + tried >= self.last:
                status = Status.ITERATION_LIMIT
            elif self._now() >= self.until:
                status = Status.TIME_LIMIT
        best = points[0] if len(points) == 1 else min(reversed(points), key=lambda x: run.measure(x)[0])
        return Epoch(best, tried, accepted, self._next_rule(status, run.done + tried))

    def _next_rule(self, status: Status | None, done: int) -> Status | None:
        """Begin the next rule if this one has ended; after the last return why, a limit rather than stationarity."""
        if status is None:
            return None
        if status is not Status.STATIONARY:
            self.cut = self.cut or status
        if len(self.rules) == 1 or done == self.run.max_iter:
            return self.cut or status
        del self.rules[0]
        self._begin(done)
        return None

"""A face of the box and its groups: the coordinates at no bound and no kink of h, and Newton steps over them.

On a face F is quadratic. Its minimiser subject to the sum solves one linear system, [[Q_FF, 1], [1ᵀ, 0]]; the step
towards it ends at the first bound or kink on its way, a *wall*, where the coordinate stays. The factor of Q_FF also
serves smaller faces: a fixed coordinate is one more row of the system, whose Schur complement is small.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise.checks import Vector
from counterpoise.problem import Problem
from counterpoise.supervision import Limits
from counterpoise.terms.separable import bends, one_sided_slopes, take

# Added to the diagonal, so that a singular Q_FF still gives a step: relative to its largest entry, which is safer where
# Q_FF is singular, and in turn relative to each entry, which serves columns of different scale. Entries below the
# second number, relative to the largest, count as that.
RIDGE, LEAST_ENTRY = 1e-12, 1e-24
# The number of pair steps in a round of :meth:`Face.free_pairs`: at least, and per free coordinate.
FREED, FREED_EACH = 16, 0.125
# The most coordinates fixed before Q_FF is factored again, and the most factorisations, besides one per coordinate.
MOST_FIXED, MOST_FACTORS = 48, 8
# The largest Q_FF that is factored. If h bends by at least BENT times the diagonal everywhere, and Q = BᵀB with a B of
# THIN times as many columns as rows, a matrix of the size of BBᵀ is factored instead.
LARGEST_FACTOR, BENT, THIN = 3000, 1e-10, 3
# Rounds in which a step is changed to meet several walls.
PROJECTIONS = 12
# If the best length along a step is below this, rounding has spoiled the factor, and it is not used again.
SOUND = 0.9


class Face:
    """The coordinates that may move, the bounds and kinks of h (the walls) of each, and the gradient of f.

    At most ``room`` of those that are 0 may become positive. ``target`` is a gap that need not become smaller: pairs
    whose slopes differ by less than ``target`` divided by the mass that may move are not changed.
    """

    def __init__(self, problem: Problem, x: Vector, members: np.ndarray, room: float = np.inf, target: float = 0.0):
        self.problem, self.members, self.z = problem, members, x[members].copy()
        h = take(problem.separable, members)
        # A semicontinuous member is above its floor, and stays there.
        self.h = h._replace(lo=np.maximum(h.lo, h.floor))
        self.H = problem.f.hessian(members)
        self.x, self.tree = x, problem.u.tree(problem.n)
        self.walls = np.sort(np.vstack([self.h.lo, np.clip(self.h.centre, self.h.lo, self.h.hi), self.h.hi]), axis=0)
        self.most = np.count_nonzero(self.z) + room
        mass = float((self.z - self.h.lo).sum())
        self.enough = target / mass if target > 0.0 and 0.0 < mass < np.inf else 0.0
        # The number of multiplications in all factorisations and solutions so far.
        self.work, self.by_entry = 0, True  # the first steps take the other ridge

    def refresh(self, x: Vector) -> None:
        """Recompute the gradient of f."""
        self.gradient = np.array(self.problem.f.gradient(x)[self.members])

    def _cells(self, places: Any) -> tuple[Vector, Vector]:
        """Return the nearest walls strictly below and strictly above the given coordinates."""
        walls, z = self.walls[:, places], self.z[places]
        below = np.where(walls < z, walls, -np.inf).max(axis=0)
        above = np.where(walls > z, walls, np.inf).min(axis=0)
        return below, above

    @np.errstate(over="ignore", invalid="ignore")  # a face may be so flat that steps overflow; these are not taken
    def take_newton_steps(self, limits: Limits) -> None:
        """Take Newton steps on the face until two full steps in a row meet no wall."""
        self.by_entry = not self.by_entry
        for _ in range(MOST_FACTORS + len(self.z)):
            if limits.reached():
                return
            free = np.flatnonzero(~(self.walls == self.z).any(axis=0))
            factor = self._factor(free) if len(free) > 1 else None
            if factor is None:
                return
            before = self.z[free]
            whole = self._steps_of(factor, free, limits)
            if factor.is_thin:
                self.refresh(self._point())
            else:
                self.gradient += (self.z[free] - before) @ self.H[free]
            if whole < 0 or whole >= 2:
                return

    def _factor(self, free: np.ndarray) -> _Factor | None:
        cell = self.tree.cells(self._point(), self.problem.scale)[self.members[free]]
        bend, diagonal = bends(self.h, self.z)[free], np.diag(self.H)[free]
        if bend.min() >= BENT * float(diagonal.max()) > 0.0:
            root = self.problem.f.thin_root(self.members[free], THIN)
            if root is not None:
                self.work += len(root) ** 2 * len(free)
                return _ThinFactor(root, bend, cell)
        if len(free) > LARGEST_FACTOR:
            return None
        H = self.H[free].take(free, axis=1)
        H[np.diag_indices(len(free))] += bend
        self.work += len(free) ** 3 // 3
        factor = _Factor(H, cell, self.by_entry)
        return factor if factor.is_sound else None

    def _steps_of(self, factor: _Factor, free: np.ndarray, limits: Limits) -> int:
        """Step with one factor; return the number of whole steps at the end, −1 if there is no usable step."""
        slope = (self.gradient + one_sided_slopes(self.h, self.z)[1])[free]
        below, above = self._cells(free)
        whole, is_bold = 0, not self.tree.groups
        while whole < 2 and len(factor.fixed) < MOST_FIXED and not limits.reached():
            self.work += 4 * len(free) ** 2
            step = factor.step(slope)
            if step is None:
                return whole if whole else -1
            z, bent = self.z[free], factor.times(step)
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(step > 0.0, (above - z) / step, (below - z) / step)
            room[step == 0.0] = np.inf
            fall, bend = -float(slope @ step), float(step @ bent)
            best = fall / bend if bend > 0.0 else np.inf
            groups = self._room_of_groups(free, step)
            length = max(min(1.0, best, float(room.min()), groups), 0.0)
            end = np.clip(z + length * step, below, above)
            met = room <= length
            end[met] = np.where(step > 0.0, above, below)[met]
            if length == groups:
                self.z[free] = end
                return 0
            gain = length * (fall - 0.5 * length * bend)
            if is_bold and np.count_nonzero(room < 1.0) > 1:
                # Meet several walls at once if that gains more.
                bold, at = factor.step_within(slope, step, below - z, above - z)
                is_bold = bold is not None and -float(slope @ bold) - 0.5 * float(bold @ factor.times(bold)) > gain
                if bold is not None and is_bold:
                    met = np.zeros(len(free), dtype=np.bool_)
                    met[at] = True
                    end = np.clip(z + bold, below, above)
                    end[at] = np.where(bold > 0.0, above, below)[at]
                    length = 1.0
            self.z[free] = end
            slope = slope + factor.times(end - z)
            factor.fix(np.flatnonzero(met))
            whole = whole + 1 if length >= min(1.0, best) and not met.any() else 0
            if best < SOUND and not met.any():  # rounding error on a nearly singular face
                return -1
            if best < SOUND or np.count_nonzero(factor.active) < 2:
                break
        return whole

    def _point(self) -> Vector:
        self.x[self.members] = self.z
        return self.x

    def _room_of_groups(self, free: np.ndarray, step: Vector) -> float:
        """Return the largest multiple of a step that the group limits allow."""
        if not self.tree.groups:
            return np.inf
        along = np.zeros(len(self.x))
        along[self.members[free]] = step
        sums, shifts = self.tree.sums(self._point()), self.tree.sums(along)
        # A group that keeps its sum up to rounding does not move towards a limit.
        shifts[np.abs(shifts) <= 1e-12 * float(np.abs(step).sum())] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(shifts > 0.0, (self.tree.most - sums) / shifts, (self.tree.least - sums) / shifts)
        return max(float(np.min(room[shifts != 0.0], initial=np.inf)), 0.0)

    def free_pairs(self) -> bool:
        """Step on the pairs that violate optimality most, as far as the next wall; return whether any moved."""
        free = np.count_nonzero(~(self.walls == self.z).any(axis=0))
        rising, falling = self._slopes(np.arange(len(self.z)))
        moved, full = False, False
        for _ in range(int(max(FREED, FREED_EACH * free))):
            if not full and np.count_nonzero(self.z) >= self.most:
                full, rising[self.z == 0.0] = True, np.inf
            i, j, descent, most = self._best_transfer(rising, falling)
            if i < 0:
                break
            bend = float(self.H[i, i] + self.H[j, j] - 2.0 * self.H[i, j])
            if len(self.h.centre):
                pair = np.array([i, j])
                below, above = self._cells(pair)
                bend += float(bends(take(self.h, pair), self.z[pair]).sum())
            else:
                below, above = self.h.lo[[i, j]], self.h.hi[[i, j]]
                bend += float(self.h.bend[i] + self.h.bend[j])
            longest = min(float(above[0] - self.z[i]), float(self.z[j] - below[1]), most)
            step = min(descent / bend, longest) if bend > 0.0 else longest
            if not (np.isfinite(step) and self.z[i] + step > self.z[i]):
                break
            end_i = above[0] if step == above[0] - self.z[i] else self.z[i] + step
            end_j = below[1] if step == self.z[j] - below[1] else self.z[j] - step
            change = step * (self.H[i] - self.H[j])
            for slopes in (self.gradient, rising, falling):
                slopes += change
            self.z[i], self.z[j], moved = end_i, end_j, True
            if len(self.h.centre):
                rising[pair], falling[pair] = self._slopes(pair)
            else:
                for k in (i, j):
                    z, slope = self.z[k], self.gradient[k] + (self.h.weight[k] + self.h.bend[k] * self.z[k])
                    rising[k] = slope if z < self.h.hi[k] else np.inf
                    falling[k] = slope if z > self.h.lo[k] else -np.inf
        return moved

    def _slopes(self, places: Any) -> tuple[Vector, Vector]:
        """Return the slopes of F to the right and to the left; ∞ and −∞ at the bounds."""
        h, z = take(self.h, places), self.z[places]
        left, right = one_sided_slopes(h, z)
        gradient = self.gradient[places]
        return np.where(z < h.hi, gradient + right, np.inf), np.where(z > h.lo, gradient + left, -np.inf)

    def _best_transfer(self, rising: Vector, falling: Vector) -> tuple[int, int, float, float]:
        """Return receiver, giver, the rate at which F falls, and how much the groups allow; −1 if none gains."""
        if not self.tree.groups:
            i, j = int(np.argmin(rising)), int(np.argmax(falling))
            rate = float(falling[j] - rising[i])
            return (i, j, rate, np.inf) if rate > self.enough and i != j else (-1, -1, 0.0, 0.0)
        right, left = np.full(len(self.x), np.inf), np.full(len(self.x), -np.inf)
        right[self.members], left[self.members] = rising, falling
        best = self.tree.best_transfer(self._point(), right, left, self.problem.scale)
        if best.i < 0 or best.i == best.j or best.rate <= self.enough:
            return -1, -1, 0.0, 0.0
        i, j = (int(np.searchsorted(self.members, k)) for k in (best.i, best.j))
        return i, j, best.rate, self._room_of_groups(np.array([i, j]), np.array([1.0, -1.0]))


class _Factor:
    """The factor of Q_FF, and steps that keep the sum of every cell and the fixed coordinates."""

    is_thin = False

    def __init__(self, H: Vector, cell: Any, by_entry: bool) -> None:
        from scipy.linalg import lapack

        self.H, self._solve = H, lapack.dpotrs
        raised = H.copy()
        entries = np.abs(np.diag(H))
        least = (LEAST_ENTRY if by_entry else 1.0) * float(entries.max())
        raised[np.diag_indices(len(H))] += RIDGE * np.maximum(entries, least) + 1e-300
        # The transpose of a row-major symmetric matrix is the same matrix in column-major order: LAPACK need not copy.
        self.factor, info = lapack.dpotrf(raised.T, lower=1, overwrite_a=1, clean=0)
        self.is_sound = info == 0
        if self.is_sound:
            self._begin(cell)

    def _begin(self, cell: Any) -> None:
        """Set up the sums over the cells; no coordinate is fixed."""
        _, self.cell = np.unique(cell, return_inverse=True)
        self.cells = int(self.cell.max()) + 1
        self.active, self.fixed = np.ones(len(cell), dtype=np.bool_), np.zeros(0, dtype=np.int64)
        rows = (self.cell == np.arange(self.cells)[:, None]).astype(np.float64)
        self.columns = self._solved(rows.T)

    def times(self, step: Vector) -> Vector:
        """Return Q_FF·step, including the bends of h."""
        return self.H @ step

    def _solved(self, right: Vector) -> Vector:
        solution: Vector = self._solve(self.factor, right, lower=1)[0]
        return solution

    def fix(self, places: Any) -> None:
        """Fix the given coordinates in later steps."""
        if len(places):
            self.active[places] = False
            self.fixed = np.concatenate([self.fixed, places])
            self.columns = np.hstack([self.columns, self._solved(self._units(places))])

    def _units(self, places: Any) -> Vector:
        units = np.zeros((len(self.active), len(places)))
        units[places, np.arange(len(places))] = 1.0
        return units

    def _rows_of(self, values: Vector, fixed: Any) -> Vector:
        """Return the sums over the cells, then the values at the fixed coordinates."""
        if self.cells == 1:
            sums = values.sum(axis=0, keepdims=True)
        else:
            sums = np.vstack([np.bincount(self.cell, column, self.cells) for column in values.T]).T
        return np.concatenate([sums, values[fixed]])

    def step(self, slope: Vector) -> Vector | None:
        """Return the step to the minimiser on the face; None if it cannot be computed."""
        return self._step(slope, self.columns, self.fixed, self.active, np.zeros(self.columns.shape[1]))

    def step_within(self, slope: Vector, step: Vector, least: Vector, most: Vector) -> tuple[Vector | None, Any]:
        """Return a step that stops at all walls in its way, and the coordinates that meet one; None if there is none.

        Coordinates beyond a wall are moved to it, and the others to their minimiser, until none is beyond a wall.
        """
        columns, at, active, moves = self.columns, self.fixed[:0], self.active, np.zeros(self.columns.shape[1])
        for _ in range(PROJECTIONS):
            beyond = np.flatnonzero(active & ((step < least) | (step > most)))
            if len(beyond) == 0:
                return step, at
            at, active = np.concatenate([at, beyond]), active.copy()
            active[beyond] = False
            if not active.any():
                break
            columns = np.hstack([columns, self._solved(self._units(beyond))])
            moves = np.concatenate([moves, np.where(step > most, most, least)[beyond]])
            found = self._step(slope, columns, np.concatenate([self.fixed, at]), active, moves)
            if found is None:
                break
            step = found
        return None, at

    def _step(self, slope: Vector, columns: Vector, fixed: Any, active: Any, moves: Vector) -> Vector | None:
        """Return the minimising step with given ``moves``: 0 for the cell sums, then those of fixed coordinates."""
        size = np.maximum(np.bincount(self.cell, active, self.cells), 1)
        mean = np.bincount(self.cell, np.where(active, slope, 0.0), self.cells) / size
        relative = np.where(active, slope - mean[self.cell], 0.0)
        plain = self._solved(relative[:, None])
        try:
            shared = np.linalg.solve(self._rows_of(columns, fixed), moves + self._rows_of(plain, fixed)[:, 0])
        except np.linalg.LinAlgError:
            return None
        step: Vector = columns @ shared - plain[:, 0]
        step[fixed] = moves[self.cells :]
        rest = np.bincount(self.cell, step, self.cells) / size
        step[active] -= rest[self.cell[active]]
        with np.errstate(over="ignore", invalid="ignore"):  # if the matrix is nearly singular
            usable = np.isfinite(step).all() and (moves.any() or -np.inf < float(relative @ step) < 0.0)
        return step if usable else None


class _ThinFactor(_Factor):
    """The same for Q_FF = BᵀB + D, D the bends of h, by the factor of I + BD⁻¹Bᵀ (the Woodbury identity)."""

    is_thin = True

    def __init__(self, root: Vector, bend: Vector, cell: Any) -> None:
        from scipy.linalg import lapack

        self.root, self.bend, self._solve, self.is_sound = root, bend, lapack.dpotrs, True
        inner = (root / bend) @ root.T
        inner[np.diag_indices(len(root))] += 1.0
        self.factor, _ = lapack.dpotrf(inner.T, lower=1, overwrite_a=1, clean=0)
        self._begin(cell)

    def times(self, step: Vector) -> Vector:
        return self.root.T @ (self.root @ step) + self.bend * step

    def _solved(self, right: Vector) -> Vector:
        scaled = right / self.bend[:, None]
        return scaled - (self.root.T @ super()._solved(self.root @ scaled)) / self.bend[:, None]

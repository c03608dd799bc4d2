"""F, feasibility and the best step of a pair, from a plain description of a problem. Nothing here imports the package.

A problem is a dictionary of lists, which prints, compares and travels between processes:

    f: {"kind": "ls", "A", "y", "scale"} or {"kind": "quad", "Q", "p"}
    lo, hi, w: lists of length n;  kinks: pairs (centre, cost) of such lists
    g: {"kind": None, "top", "norm" or "square", "lam", "s"}
    u: {"kind": "sum", "c"} or {"kind": "sphere"}
"""

from __future__ import annotations

import copy

import numpy as np

EPS = float(np.finfo(float).eps)
WIDE = np.longdouble
# A decrease below so many roundings of the numbers that are added up is not held against a claim.
ROUNDINGS = 256.0


class Case:
    """One problem in extended precision."""

    def __init__(self, spec):
        self.spec, f, g, u = spec, spec["f"], spec["g"], spec["u"]
        self.lo, self.hi, self.w = (np.array(spec[key], dtype=float) for key in ("lo", "hi", "w"))
        self.n = len(self.lo)
        self.kinks = [tuple(np.array(v, dtype=float) for v in kink) for kink in spec["kinks"]]
        self.g, self.lam, self.s = g["kind"], float(g["lam"]), int(g.get("s", 1))
        self.on_line = u["kind"] == "sum"
        self.c = float(u["c"]) if self.on_line else 1.0
        self.data = f["kind"] == "ls"
        if self.data:
            self.A, self.scale = np.array(f["A"], dtype=WIDE), WIDE(f["scale"])
            self.y = np.array(f["y"], dtype=WIDE)
            self.wide_Q, self.wide_p = self.scale * self.A.T @ self.A, -self.scale * self.A.T @ self.y
            size, across = abs(self.scale), np.abs(self.A)
            self.abs_Q = np.array(size * across.T @ across, dtype=float)
            self.abs_p = np.array(size * across.T @ np.abs(self.y), dtype=float)
        else:
            self.wide_Q, self.wide_p = np.array(f["Q"], dtype=WIDE), np.array(f["p"], dtype=WIDE)
            self.abs_Q, self.abs_p = (np.abs(np.array(v, dtype=float)) for v in (self.wide_Q, self.wide_p))
        self.Q, self.p = np.array(self.wide_Q, dtype=float), np.array(self.wide_p, dtype=float)
        self.low, self.high = self._reach()

    def _reach(self):
        """Bounds that the constraint implies where there are none."""
        if not self.on_line:
            return np.zeros(self.n), np.ones(self.n)
        with np.errstate(invalid="ignore"):
            low = np.where(np.isfinite(self.lo), self.lo, self.c - (self.hi.sum() - self.hi))
            high = np.where(np.isfinite(self.hi), self.hi, self.c - (self.lo.sum() - self.lo))
        return low, high

    @property
    def extent(self):
        """The size of the feasible set; 1 where that is the point 0 alone."""
        return max(float(np.abs(self.low).max()), float(np.abs(self.high).max()), abs(self.c)) or 1.0

    @property
    def convex(self):
        """Whether F is convex beyond doubt: no g, f ⪰ 0 by construction or by its eigenvalues, on the line."""
        if not self.on_line or (self.g is not None and self.lam > 0.0):
            return False
        if self.data:
            return self.scale > 0
        return bool(np.linalg.eigvalsh(self.Q)[0] > 1e-9 * np.abs(self.Q).max())

    def values(self, points):
        """F at every row, in double precision."""
        points = np.asarray(points, dtype=float)
        if self.data:
            r = points @ np.asarray(self.A, dtype=float).T - np.asarray(self.y, dtype=float)
            total = 0.5 * float(self.scale) * (r * r).sum(axis=1)
        else:
            total = 0.5 * ((points @ self.Q) * points).sum(axis=1) + points @ self.p
        return total + points @ self.w + self._bends(points) + self._concave(points)

    def value(self, x):
        """F at one point, in extended precision."""
        x = np.asarray(x, dtype=WIDE)
        if self.data:
            r = self.A @ x - self.y
            total = self.scale * (r @ r) / 2
        else:
            total = x @ (self.wide_Q @ x) / 2 + self.wide_p @ x
        return float(total + self.w @ x + self._bends(x[None])[0] + self._concave(x[None])[0])

    def _bends(self, points):
        return sum((np.abs(points - centre) @ cost for centre, cost in self.kinks), np.zeros(len(points)))

    def _concave(self, points):
        if self.g == "top":
            return -self.lam * np.sort(np.abs(points), axis=1)[:, ::-1][:, : self.s].sum(axis=1)
        squares = (points * points).sum(axis=1)
        return -self.lam * {None: 0.0 * squares, "norm": np.sqrt(squares), "square": squares}[self.g]

    def size(self, x):
        """The size of what is added up in F(x): |x|ᵀ|Q||x| and the like."""
        x = np.abs(np.asarray(x, dtype=float))
        squares = 0.5 * x @ self.abs_Q @ x + self.abs_p @ x
        if self.data:
            squares += 0.5 * float(abs(self.scale) * (self.y @ self.y))
        bends = sum(float(cost @ (x + np.abs(centre))) for centre, cost in self.kinks)
        return float(squares + np.abs(self.w) @ x + bends + abs(self._concave(x[None])[0]))

    def slopes(self, x):
        """A bound on how fast F changes around x, one number."""
        x = np.abs(np.asarray(x, dtype=float))
        bends = sum(float(cost.max()) for _, cost in self.kinks)
        concave = {None: 0.0, "top": 1.0, "norm": 1.0, "square": 2.0 * float(x.max())}[self.g] * self.lam
        return float((self.abs_Q @ x + self.abs_p + np.abs(self.w)).max()) + bends + concave

    def noise(self, x):
        """What may pass for rounding of F(x), or of x itself at a minimum, relative to the size of the set.

        The sum of n numbers, and what it leaves of a coordinate at its bound, is off by some roundings for each.
        """
        steps = (32 + self.n) * EPS * self.extent
        return ROUNDINGS * EPS * self.size(x) + 16.0 * steps * steps * float(self.abs_Q.max())

    def step_noise(self, x):
        """What may pass for rounding of a step of one pair: that of the slopes, times the largest coordinate.

        It does not vanish where F(x) is a sum of zeros, because the point that a step leads to is another.
        """
        return ROUNDINGS * EPS * self.slopes(x) * float(np.abs(x).max())

    def violation(self, x):
        """How far x is from the bounds and from u(x) = 0, relative to the size of x."""
        wide = np.asarray(x, dtype=WIDE)
        if not np.isfinite(wide).all():
            return np.inf
        outside = max(float(np.max(self.lo - x)), float(np.max(x - self.hi)), 0.0)
        if self.on_line:
            return max(outside, abs(float(wide.sum() - WIDE(self.c)))) / self.extent
        return max(outside, abs(float(np.sqrt((wide * wide).sum()) - 1)))

    def gradient(self, x):
        """∇f, in extended precision, rounded once."""
        x = np.asarray(x, dtype=WIDE)
        if self.data:
            return np.array(self.scale * (self.A.T @ (self.A @ x - self.y)), dtype=float)
        return np.array(self.wide_Q @ x + self.wide_p, dtype=float)


# Fractions of an interval: even, and ever closer to both ends.
_CLOSE = 2.0 ** -np.arange(2, 44)
EVEN = 96
FRACTIONS = np.unique(np.concatenate([np.linspace(0.0, 1.0, EVEN + 1), _CLOSE, 1.0 - _CLOSE]))
ZOOMS, ZOOM_POINTS = 5, 21
# Neighbours of a point of the grid that are looked at, and local minima that are refined for a pair.
SPREAD, MINIMA = 3, 4


class Pairs:
    """All pairs at one point: how F changes along each, without the cancellation of F(x⁺) − F(x)."""

    def __init__(self, case, x):
        self.case, self.x = case, np.asarray(x, dtype=float)
        self.i, self.j = self._live()
        gradient = case.gradient(self.x)
        i, j = self.i, self.j
        Q, size = case.Q, case.abs_Q @ np.abs(self.x) + case.abs_p
        self.qii, self.qjj, self.qij = Q[i, i], Q[j, j], Q[i, j]
        if case.data and case.on_line:
            # The difference of columns is exact where they are equal, the difference of gradients is not.
            between = case.A[:, i] - case.A[:, j]
            r = case.A @ self.x.astype(WIDE) - case.y
            self.alpha = np.array(case.scale * (between * between).sum(axis=0), dtype=float)
            self.beta = np.array(case.scale * (r @ between), dtype=float)
        else:
            self.alpha, self.beta = self.qii + self.qjj - 2.0 * self.qij, gradient[i] - gradient[j]
        self.gi, self.gj = gradient[i], gradient[j]
        self.rough = (size[i], size[j], case.abs_Q[i, i] + case.abs_Q[j, j] + 2.0 * case.abs_Q[i, j])
        self._rank()

    def _live(self):
        """The pairs that can move, and one at least."""
        case, x = self.case, self.x
        i, j = np.triu_indices(case.n, 1)
        if case.on_line:
            moves = (np.minimum(x[j] - case.low[j], case.high[i] - x[i]) > 0.0) | (
                np.minimum(x[i] - case.low[i], case.high[j] - x[j]) > 0.0
            )
        else:
            moves = (x[i] > 0.0) | (x[j] > 0.0)
        moves[0] = True
        return i[moves], j[moves]

    def _rank(self):
        """Sums of the largest of the others, for the top sum."""
        case, x = self.case, self.x
        rest = np.repeat(np.abs(x)[None], len(self.i), axis=0)
        rows = np.arange(len(self.i))
        rest[rows, self.i] = rest[rows, self.j] = -1.0
        rest = -np.sort(-rest, axis=1)[:, : case.n - 2]
        sums = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rest, axis=1)], axis=1)
        last = case.n - 2
        self.top = [sums[:, min(max(case.s - k, 0), last)][:, None] for k in (0, 1, 2)]
        self.near = [rest[:, k] if 0 <= k < last else np.zeros(len(rows)) for k in (case.s - 2, case.s - 1, case.s)]
        self.here = np.sort(np.abs(x))[::-1][: case.s].sum()

    def change(self, di, dj):
        """F(x⁺) − F(x), and what rounding may hide of it, for steps (pairs × steps) of both coordinates."""
        case, col = self.case, lambda v: v[:, None]
        xi, xj = col(self.x[self.i]), col(self.x[self.j])
        if case.on_line:
            total = col(self.beta) * di + 0.5 * col(self.alpha) * di * di
        else:
            total = col(self.gi) * di + col(self.gj) * dj
            total += 0.5 * (col(self.qii) * di * di + col(self.qjj) * dj * dj) + col(self.qij) * di * dj
        hidden = col(self.rough[0]) * np.abs(di) + col(self.rough[1]) * np.abs(dj)
        hidden = hidden + col(self.rough[2]) * np.maximum(di * di, dj * dj)
        wi, wj = col(case.w[self.i]), col(case.w[self.j])
        total += wi * di + wj * dj
        hidden += np.abs(wi * di) + np.abs(wj * dj)
        for centre, cost in case.kinks:
            for x, d, k in ((xi, di, self.i), (xj, dj, self.j)):
                total += col(cost[k]) * (np.abs(x + d - col(centre[k])) - np.abs(x - col(centre[k])))
                hidden += col(cost[k]) * (np.abs(x) + np.abs(col(centre[k])) + np.abs(d))
        total += self._concave_change(xi, xj, di, dj)
        if case.g is not None:
            rate = 2.0 * np.abs(self.x).max() + np.abs(di) if case.g == "square" else 1.0
            hidden += case.lam * (np.abs(di) + np.abs(dj)) * rate
        return total, ROUNDINGS * EPS * hidden

    def _concave_change(self, xi, xj, di, dj):
        case = self.case
        if case.g is None or case.lam == 0.0:
            return 0.0
        if case.g == "top":
            a, b = np.abs(xi + di), np.abs(xj + dj)
            best = np.maximum(self.top[0], self.top[1] + np.maximum(a, b))
            if case.s >= 2:
                best = np.maximum(best, self.top[2] + a + b)
            return -case.lam * (best - self.here)
        more = di * (2.0 * xi + di) + dj * (2.0 * xj + dj)
        if case.g == "square":
            return -case.lam * more
        squares = float(self.x @ self.x)
        return -case.lam * more / np.maximum(np.sqrt(np.maximum(squares + more, 0.0)) + np.sqrt(squares), 1e-300)

    def steps(self, t):
        """Turn a parameter, the step of i on the line or the angle on the arc, into both steps."""
        if self.case.on_line:
            return t, -t
        xi, xj = self.x[self.i][:, None], self.x[self.j][:, None]
        v = np.hypot(xi, xj)
        return v * np.sin(t) - xi, v * np.cos(t) - xj

    def best(self):
        """Return the largest decrease beyond rounding, the decrease itself, and the point it leads to."""
        t = self._grid()
        total, hidden = self.change(*self.steps(t))
        rows, columns = _promising(t, total)
        if not len(rows):
            return 0.0, 0.0, self.x.copy()
        some, at, grid = self._some(rows), t[rows, columns][:, None], t[rows]
        low, high = grid[:, 0], grid[:, -1]
        same = 4.0 * EPS * np.maximum(np.abs(low), np.abs(high))[:, None]
        every = np.arange(len(rows))
        for _ in range(ZOOMS):
            # The neighbours, of which the grid may hold several copies of one, some of them rounded otherwise.
            below, above = (
                np.where(grid < at - same, grid, low[:, None]),
                np.where(grid > at + same, grid, high[:, None]),
            )
            low, high = below.max(axis=1), above.min(axis=1)
            finer = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, ZOOM_POINTS)
            grid = np.concatenate([finer, at], axis=1)
            total, hidden = some.change(*some.steps(grid))
            at = grid[every, total.argmin(axis=1)][:, None]
        raw, sure = total.min(axis=1), (total + hidden).min(axis=1)
        row = int((sure if sure.min() < 0.0 else raw).argmin())
        di, dj = (d[row, 0] for d in some.steps(at))
        point = self.x.copy()
        point[some.i[row]] += di
        point[some.j[row]] += dj
        return max(0.0, -float(sure.min())), max(0.0, -float(raw.min())), point

    def _some(self, rows):
        """The same for some pairs, some of them several times."""
        other = copy.copy(self)
        for name in ("i", "j", "qii", "qjj", "qij", "alpha", "beta", "gi", "gj"):
            setattr(other, name, getattr(self, name)[rows])
        other.rough = tuple(each[rows] for each in self.rough)
        other.top = [each[rows] for each in self.top]
        return other

    def _grid(self):
        """Parameters to look at, sorted, one row a pair."""
        case, x, i, j = self.case, self.x, self.i, self.j
        xi, xj = x[i], x[j]
        if not case.on_line:
            here = np.arctan2(xi, xj)
            ends = np.zeros(len(i)), np.full(len(i), np.pi / 2)
            more = []
        else:
            here = np.zeros(len(i))
            ends = (
                np.minimum(np.maximum(case.low[i] - xi, xj - case.high[j]), 0.0),
                np.maximum(np.minimum(case.high[i] - xi, xj - case.low[j]), 0.0),
            )
            more = [0.5 * (xj - xi), -xi, xj]
            for centre, _ in case.kinks:
                more += [centre[i] - xi, xj - centre[j]]
            for other in self.near:
                more += [sign * other - xi for sign in (1, -1)] + [xj - sign * other for sign in (1, -1)]
            with np.errstate(all="ignore"):
                tilts = case.w[i] - case.w[j] + np.multiply.outer(np.arange(-2.0, 3.0), np.full(len(i), case.lam))
                more += list(np.nan_to_num(-(self.beta + tilts) / self.alpha, posinf=0.0, neginf=0.0))
        span = ends[1] - ends[0]
        near = np.concatenate([here[:, None] + sign * span[:, None] * _CLOSE for sign in (1, -1)], axis=1)
        t = np.concatenate([ends[0][:, None] + span[:, None] * FRACTIONS, near, *(m[:, None] for m in more)], axis=1)
        return np.sort(np.clip(t, ends[0][:, None], ends[1][:, None]), axis=1)


def _promising(t, total):
    """The places (pair, point) of local minima on the grid around which F may fall, a few for each pair.

    Between a point and its neighbours a parabola falls below the point by no more than the neighbours are above it.
    """
    ends = np.pad(total, ((0, 0), (SPREAD, SPREAD)), mode="edge")
    shifted = [ends[:, k : k + total.shape[1]] for k in range(2 * SPREAD + 1)]
    around = np.maximum.reduce(shifted)
    least = (total <= shifted[SPREAD - 1]) & (total <= shifted[SPREAD + 1]) & (2.0 * total < around)
    masked, rows, found = np.where(least, total, np.inf), np.arange(len(total)), []
    apart = (t[:, -1:] - t[:, :1]) / EVEN
    for _ in range(MINIMA):
        columns = masked.argmin(axis=1)
        good = np.isfinite(masked[rows, columns])
        found.append((rows[good], columns[good]))
        # Close to x, where the grid is dense, rounding makes many minima of one.
        masked[np.abs(t - t[rows, columns][:, None]) <= apart] = np.inf
    return tuple(np.concatenate(each) for each in zip(*found, strict=True))


def best_pair(case, x):
    """The largest decrease that moving one pair brings: beyond rounding, in all, and the point it leads to."""
    return Pairs(case, x).best()

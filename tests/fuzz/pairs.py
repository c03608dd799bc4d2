"""The best step of a pair, from grids. Nothing here imports the package."""

from __future__ import annotations

import copy
import itertools

import numpy as np

from fuzz.reference import EPS, ROUNDINGS, WIDE

# Fractions of an interval: even, and ever closer to both ends.
_CLOSE = 2.0 ** -np.arange(2, 44)
EVEN = 96
FRACTIONS = np.unique(np.concatenate([np.linspace(0.0, 1.0, EVEN + 1), _CLOSE, 1.0 - _CLOSE]))
ZOOMS, ZOOM_POINTS = 5, 21
# Neighbours of a point of the grid that are looked at, and local minima that are refined for a pair.
SPREAD, MINIMA = 3, 4
QUARTERS = np.pi * np.array([-1.0, -0.5, 0.0, 0.5, 1.0])


class Pairs:
    """All pairs at one point: how F changes along each, without the cancellation of F(x⁺) − F(x).

    Where f is a loss, its upper bound with the same value and slopes at x takes its place.
    """

    def __init__(self, case, x):
        self.case, self.x = case, np.asarray(x, dtype=float)
        self.i, self.j = np.triu_indices(case.n, 1)
        self.ends = self._ends()
        moves = (self.ends[0] < 0.0) | (self.ends[1] > 0.0)
        if not case.on_line:
            moves = (self.x[self.i] != 0.0) | (self.x[self.j] != 0.0)
        moves[0] = True  # one at least
        self.i, self.j, self.ends = self.i[moves], self.j[moves], tuple(end[moves] for end in self.ends)
        gradient = case.gradient(self.x)
        i, j = self.i, self.j
        Q, size = case.Q, case.abs_Q @ np.abs(self.x) + case.rough_slopes(self.x)
        self.qii, self.qjj, self.qij = Q[i, i], Q[j, j], Q[i, j]
        if case.data and case.on_line:
            # The difference of columns is exact where they are equal, the difference of gradients is not.
            between, bend = case.A[:, i] - case.A[:, j], case.phi.bound if case.loss else case.scale
            r = case.A @ self.x.astype(WIDE) - case.y
            slope, ridge = case.v * (case.phi.slope(r) if case.loss else bend * r), case.rho * (self.x - case.x0)
            self.alpha = np.array(bend * (case.v @ (between * between)), dtype=float) + case.rho[i] + case.rho[j]
            self.beta = np.array(slope @ between, dtype=float) + ridge[i] - ridge[j]
        else:
            self.alpha, self.beta = self.qii + self.qjj - 2.0 * self.qij, gradient[i] - gradient[j]
        self.gi, self.gj = gradient[i], gradient[j]
        self.rough = (size[i], size[j], case.abs_Q[i, i] + case.abs_Q[j, j] + 2.0 * case.abs_Q[i, j])
        self._rank()

    def _ends(self):
        """The interval of the parameter of each pair: of the step of i on the line, else of the angle."""
        case, x, i, j = self.case, self.x, self.i, self.j
        if not case.on_line:
            return np.full(len(i), -np.pi if case.signed else 0.0), np.full(len(i), np.pi if case.signed else np.pi / 2)
        low, high = (
            np.maximum(case.low[i] - x[i], x[j] - case.high[j]),
            np.minimum(case.high[i] - x[i], x[j] - case.low[j]),
        )
        for members, least, most in case.groups:
            inside, total = np.isin(np.arange(case.n), members), float(x[members].astype(WIDE).sum())
            gets, gives = inside[i] & ~inside[j], inside[j] & ~inside[i]
            high = np.where(
                gets, np.minimum(high, most - total), np.where(gives, np.minimum(high, total - least), high)
            )
            low = np.where(gets, np.maximum(low, least - total), np.where(gives, np.maximum(low, total - most), low))
        # What restoring the sum may move is no room.
        rounding = 2.0 * (32 + case.n) * EPS * case.extent
        return np.where(low < -rounding, low, 0.0), np.where(high > rounding, high, 0.0)

    def _rank(self):
        """Sums of the largest of the others, for the top sum; how many others are not 0."""
        case, x = self.case, self.x
        rest = np.repeat(np.abs(x)[None], len(self.i), axis=0)
        rows = np.arange(len(self.i))
        rest[rows, self.i] = rest[rows, self.j] = -1.0
        rest = -np.sort(-rest, axis=1)[:, : case.n - 2]
        sums = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rest, axis=1)], axis=1)
        last = case.n - 2
        self.others = (rest > 0.0).sum(axis=1)
        self.top = [sums[:, min(max(case.s - k, 0), last)][:, None] for k in (0, 1, 2)]
        self.near = [rest[:, k] if 0 <= k < last else np.zeros(len(rows)) for k in (case.s - 2, case.s - 1, case.s)]
        self.here = np.sort(np.abs(x))[::-1][: case.s].sum()

    def moved(self, t):
        """Both coordinates at a parameter, the step of i on the line or the angle on the arc."""
        xi, xj = self.x[self.i][:, None], self.x[self.j][:, None]
        if self.case.on_line:
            # What rounding of the sum leaves of a coordinate is 0, which matters where that has to be 0.
            rounding = 4.0 * EPS * self.case.extent
            moved = (xi, xi + t), (xj, xj - t)
            return tuple(np.where((np.abs(new) <= rounding) & (old != 0.0), 0.0, new) for old, new in moved)
        v, sine, cosine = np.hypot(xi, xj), np.sin(t), np.cos(t)
        return v * np.where(np.abs(sine) < 1e-15, 0.0, sine), v * np.where(np.abs(cosine) < 1e-15, 0.0, cosine)

    def steps(self, t):
        """Both steps at a parameter."""
        if self.case.on_line:
            return t, -t
        new_i, new_j = self.moved(t)
        return new_i - self.x[self.i][:, None], new_j - self.x[self.j][:, None]

    def change(self, t):
        """F(x⁺) − F(x), ∞ where x⁺ is no feasible point, and what rounding may hide of it (pairs × parameters)."""
        case, col, (di, dj) = self.case, lambda v: v[:, None], self.steps(t)
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
        if case.g in ("top", "norm", "square"):
            rate = 2.0 * np.abs(self.x).max() + np.abs(di) if case.g == "square" else 1.0
            hidden += case.lam * (np.abs(di) + np.abs(dj)) * rate
        return np.where(self._barred(t), np.inf, total), ROUNDINGS * EPS * hidden

    def _barred(self, t):
        """Where too many coordinates are not 0, or one is between 0 and its floor."""
        case, barred = self.case, np.zeros(t.shape, dtype=bool)
        if case.g != "at most" and not case.gapped.any():
            return barred
        count = np.repeat(self.others[:, None], t.shape[1], axis=1)
        for new, k in zip(self.moved(t), (self.i, self.j), strict=True):
            floor = np.where(case.gapped[k], case.floor[k], -np.inf)[:, None]
            barred |= (new != 0.0) & (new < floor - 4.0 * EPS * (case.floor[k] + np.abs(self.x[k]))[:, None])
            count += new != 0.0
        return barred | (count > case.s) if case.g == "at most" else barred

    def _concave_change(self, xi, xj, di, dj):
        case = self.case
        if case.g in (None, "at most") or case.lam == 0.0:
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

    def best(self):
        """Return the largest decrease beyond rounding, the decrease itself, and the point it leads to."""
        t = self._grid()
        total, hidden = self.change(t)
        rows, columns = _promising(t, total, 2 * MINIMA if self.case.signed else MINIMA)
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
            total, hidden = some.change(grid)
            at = grid[every, total.argmin(axis=1)][:, None]
        raw, sure = total.min(axis=1), (total + hidden).min(axis=1)
        row = int((sure if sure.min() < 0.0 else raw).argmin())
        new_i, new_j = (new[row, 0] for new in some.moved(at))
        point = self.x.copy()
        point[some.i[row]], point[some.j[row]] = new_i, new_j
        return max(0.0, -float(sure.min())), max(0.0, -float(raw.min())), point

    def _some(self, rows):
        """The same for some pairs, some of them several times."""
        other = copy.copy(self)
        for name in ("i", "j", "qii", "qjj", "qij", "alpha", "beta", "gi", "gj", "others"):
            setattr(other, name, getattr(self, name)[rows])
        other.rough = tuple(each[rows] for each in self.rough)
        other.top = [each[rows] for each in self.top]
        return other

    def _stationary_angles(self):
        """Angles at which a piece of F is stationary on the circle; an even grid would miss narrow valleys.

        With t = tan(α/2) the derivative of a cos² + b sin + c cos + d sin cos is a quartic over (1 + t²)².
        """
        case, i, j = self.case, self.i, self.j
        xi, xj = self.x[i], self.x[j]
        v = np.hypot(xi, xj)
        cost = sum((each for _, each in case.kinks), np.zeros(case.n))
        pulls = case.lam * np.array([-1.0, 0.0, 1.0]) if case.g == "top" else np.zeros(1)
        signs = np.array([-1.0, 1.0]) if cost.any() else np.zeros(1)
        slopes = [(sign, pull) for sign in signs for pull in pulls]
        b0, c0 = self.gi - self.qii * xi - self.qij * xj, self.gj - self.qjj * xj - self.qij * xi
        a, d = 0.5 * v * v * (self.qjj - self.qii), v * v * self.qij
        found = []
        for (sign_i, pull_i), (sign_j, pull_j) in itertools.product(slopes, slopes):
            b = v * (b0 + case.w[i] + sign_i * cost[i] + pull_i)
            c = v * (c0 + case.w[j] + sign_j * cost[j] + pull_j)
            quartic = np.stack([d - b, 4.0 * a - 2.0 * c, -6.0 * d, -(4.0 * a + 2.0 * c), d + b], axis=1)
            companion = np.zeros((len(i), 4, 4))
            companion[:, [1, 2, 3], [0, 1, 2]] = 1.0
            with np.errstate(all="ignore"):
                row = np.nan_to_num(-quartic[:, 1:] / quartic[:, :1], posinf=0.0, neginf=0.0)
            companion[:, 0] = np.clip(row, -1e150, 1e150)
            found.append(2.0 * np.arctan(np.linalg.eigvals(companion).real))
        return np.concatenate(found, axis=1).T

    def _grid(self):
        """Parameters to look at, sorted, one row a pair."""
        case, x, i, j, ends = self.case, self.x, self.i, self.j, self.ends
        xi, xj = x[i], x[j]
        if not case.on_line:
            here = np.arctan2(xi, xj)
            more = [np.full(len(i), quarter) for quarter in QUARTERS] + list(self._stationary_angles())
        else:
            here = np.zeros(len(i))
            more = [0.5 * (xj - xi), -xi, xj]
            for centre in [centre for centre, _ in case.kinks] + ([case.floor] if case.gapped.any() else []):
                more += [centre[i] - xi, xj - centre[j]]
            for other in self.near:
                more += [sign * other - xi for sign in (1, -1)] + [xj - sign * other for sign in (1, -1)]
            with np.errstate(all="ignore"):
                pull = 0.0 if case.g == "at most" else case.lam
                tilts = case.w[i] - case.w[j] + np.multiply.outer(np.arange(-2.0, 3.0), np.full(len(i), pull))
                more += list(np.nan_to_num(-(self.beta + tilts) / self.alpha, posinf=0.0, neginf=0.0))
        span = ends[1] - ends[0]
        near = np.concatenate([here[:, None] + sign * span[:, None] * _CLOSE for sign in (1, -1)], axis=1)
        t = np.concatenate([ends[0][:, None] + span[:, None] * FRACTIONS, near, *(m[:, None] for m in more)], axis=1)
        return np.sort(np.clip(t, ends[0][:, None], ends[1][:, None]), axis=1)


def _promising(t, total, count):
    """The places (pair, point) of local minima on the grid around which F may fall, a few for each pair.

    Between a point and its neighbours a parabola falls below the point by no more than the neighbours are above it.
    """
    ends = np.pad(total, ((0, 0), (SPREAD, SPREAD)), mode="edge")
    shifted = [ends[:, k : k + total.shape[1]] for k in range(2 * SPREAD + 1)]
    around = np.maximum.reduce(shifted)
    least = (total <= shifted[SPREAD - 1]) & (total <= shifted[SPREAD + 1]) & (2.0 * total < around)
    masked, rows, found = np.where(least, total, np.inf), np.arange(len(total)), []
    apart = (t[:, -1:] - t[:, :1]) / EVEN
    for _ in range(count):
        columns = masked.argmin(axis=1)
        good = np.isfinite(masked[rows, columns])
        found.append((rows[good], columns[good]))
        # Close to x, where the grid is dense, rounding makes many minima of one.
        masked[np.abs(t - t[rows, columns][:, None]) <= apart] = np.inf
    return tuple(np.concatenate(each) for each in zip(*found, strict=True))


def best_pair(case, x):
    """The largest decrease that moving one pair brings: beyond rounding, in all, and the point it leads to."""
    return Pairs(case, x).best()

"""F and feasibility, from a plain description of a problem. Nothing here imports the package.

A problem is a dictionary of lists, which prints, compares and travels between processes:

    f: {"kind": "ls", "A", "y", "scale", "v"}, {"kind": "quad", "Q", "p"} or
       {"kind": "loss", "name", "A", "y", "v", "delta", "ties", "labels"}; v are weights of the rows, or None
    lo, hi, w: lists of length n;  kinks: (centre, cost) or (centre, buy, sell), such lists
    ridge: (x0, rho) or None;  floor: least values of coordinates that are not 0, or None
    g: {"kind": None, "top", "at most", "norm" or "square", "lam", "s"}
    u: {"kind": "sum", "c", "a", "groups"} or {"kind": "sphere", "signed"}; a are weights of the sum, or None, and
       groups are triples (members, least, most), which limit the sum of the members
"""

from __future__ import annotations

import numpy as np

from fuzz.losses import Phi

EPS = float(np.finfo(float).eps)
WIDE = np.longdouble
# A decrease below so many roundings of the numbers that are added up is not held against a claim.
ROUNDINGS = 256.0


class Case:
    """One problem in extended precision."""

    def __init__(self, spec):
        self.spec, g, u = spec, spec["g"], spec["u"]
        self.lo, self.hi, self.w = (np.array(spec[key], dtype=float) for key in ("lo", "hi", "w"))
        self.n = len(self.lo)
        self._take_separable(spec)
        self.g, self.lam, self.s = g["kind"], float(g["lam"]), int(g.get("s", 1))
        self.on_line, self.signed = u["kind"] == "sum", bool(u.get("signed", False))
        self.c = float(u["c"]) if self.on_line else 1.0
        self.a = None if u.get("a") is None else np.array(u["a"], dtype=float)
        self.groups = [(np.array(at, dtype=int), float(low), float(high)) for at, low, high in u.get("groups") or []]
        self._take_smooth(spec["f"])
        self.low, self.high = self._reach()

    def _take_separable(self, spec):
        n, self.kinks, self.constant = self.n, [], float(spec.get("constant", 0.0))
        for centre, buy, *sell in spec["kinks"]:
            centre, buy = np.array(centre, dtype=float), np.array(buy, dtype=float)
            sell = np.array(sell[0], dtype=float) if sell else buy
            self.kinks.append((centre, 0.5 * (buy + sell)))
            self.w = self.w + 0.5 * (buy - sell)
            self.constant -= float(0.5 * (buy - sell) @ centre)
        x0, rho = spec.get("ridge") or (np.zeros(n), np.zeros(n))
        self.x0, self.rho = np.array(x0, dtype=float), np.array(rho, dtype=float)
        self.floor = np.array(spec["floor"], dtype=float) if spec.get("floor") else np.zeros(n)
        # A semicontinuous coordinate is not negative, but aᵢxᵢ may be.
        if spec.get("floor") and not spec.get("in_sums"):
            self.lo = np.maximum(self.lo, 0.0)
        # A floor above the upper bound leaves 0 alone, and one of what may not be 0 is a lower bound.
        closed = (self.floor > 0.0) & (self.floor > self.hi) & (self.lo <= 0.0)
        self.hi, self.floor = np.where(closed, 0.0, self.hi), np.where(closed, 0.0, self.floor)
        self.lo = np.where((self.floor > self.lo) & (self.lo > 0.0), self.floor, self.lo)
        self.gapped = self.floor > np.maximum(self.lo, 0.0)

    def _take_smooth(self, f):
        self.data, self.loss = f["kind"] != "quad", f["kind"] == "loss"
        if self.data:
            self.A, self.scale = np.array(f["A"], dtype=WIDE), WIDE(f.get("scale", 1.0))
            self.y = np.array(f["y"], dtype=WIDE)
            self.v = np.ones(len(self.y), dtype=WIDE) if f.get("v") is None else np.array(f["v"], dtype=WIDE)
            self.phi = Phi(f) if self.loss else None
            bend = WIDE(self.phi.bound) if self.loss else self.scale
            across, weighted = np.abs(self.A), self.v[:, None] * self.A
            # Of a loss this is the Hessian of its upper bound.
            self.wide_Q, self.wide_p = bend * self.A.T @ weighted, -bend * weighted.T @ self.y
            self.abs_Q = np.array(abs(bend) * across.T @ np.abs(weighted), dtype=float)
            self.abs_p = np.array(abs(bend) * np.abs(weighted).T @ np.abs(self.y), dtype=float)
        else:
            self.wide_Q, self.wide_p = np.array(f["Q"], dtype=WIDE), np.array(f["p"], dtype=WIDE)
            self.abs_Q, self.abs_p = (np.abs(np.array(v, dtype=float)) for v in (self.wide_Q, self.wide_p))
        self.f_Q, self.f_p = self.wide_Q, self.wide_p
        self.wide_Q = self.wide_Q + np.diag(self.rho.astype(WIDE))
        self.wide_p = self.wide_p - self.rho * self.x0.astype(WIDE)
        self.abs_Q = self.abs_Q + np.diag(self.rho)
        self.abs_p = self.abs_p + self.rho * np.abs(self.x0)
        self.Q, self.p = np.array(self.wide_Q, dtype=float), np.array(self.wide_p, dtype=float)

    def _reach(self):
        """Bounds that the constraint implies where there are none, of aᵢxᵢ if the sum has weights."""
        if not self.on_line:
            return np.full(self.n, -1.0 if self.signed else 0.0), np.ones(self.n)
        lo, hi = self.lo, self.hi
        if self.a is not None:
            ends = self.a * lo, self.a * hi
            lo, hi = np.minimum(*ends), np.maximum(*ends)
        with np.errstate(invalid="ignore"):
            low = np.where(np.isfinite(lo), lo, self.c - (hi.sum() - hi))
            high = np.where(np.isfinite(hi), hi, self.c - (lo.sum() - lo))
        return low, high

    @property
    def extent(self):
        """The size of the feasible set; 1 where that is the point 0 alone."""
        return max(float(np.abs(self.low).max()), float(np.abs(self.high).max()), abs(self.c)) or 1.0

    @property
    def sparse(self):
        """Whether g leaves s coordinates free."""
        return self.g in ("top", "at most")

    @property
    def free(self):
        """Whether g changes nothing anywhere."""
        return self.g is None or (self.g != "at most" and self.lam == 0.0) or (self.g == "at most" and self.s >= self.n)

    @property
    def is_convex(self):
        """Whether F and the feasible set are convex, up to rounding; Q is looked at on steps that keep the sum."""
        g = self.free or (self.g == "top" and self.s >= self.n and (self.lo >= 0.0).all())
        if not g or not self.on_line or self.gapped.any():
            return False
        keeps = np.eye(self.n) - 1.0 / self.n
        size = max(float(self.abs_Q.max()), np.finfo(float).tiny)
        return float(np.linalg.eigvalsh(keeps @ (self.Q / size) @ keeps)[0]) >= -1e-9 * self.n

    def values(self, points):
        """F at every row, in double precision."""
        points = np.asarray(points, dtype=float)
        if self.data:
            r = points @ np.asarray(self.A, dtype=float).T - np.asarray(self.y, dtype=float)
            each = self.phi.value(r) if self.loss else 0.5 * float(self.scale) * r * r
            total = each @ np.asarray(self.v, dtype=float)
        else:
            total = 0.5 * ((points @ np.array(self.f_Q, dtype=float)) * points).sum(axis=1)
            total = total + points @ np.array(self.f_p, dtype=float)
        return total + self._separable(points) + self._concave(points)

    def value(self, x):
        """F at one point, in extended precision."""
        x = np.asarray(x, dtype=WIDE)
        if self.data:
            r = self.A @ x - self.y
            total = self.v @ (self.phi.value(r) if self.loss else self.scale * r * r / 2)
        else:
            total = x @ (self.f_Q @ x) / 2 + self.f_p @ x
        return float(total + self._separable(x[None])[0] + self._concave(x[None])[0])

    def _separable(self, points):
        away = points - self.x0
        total = points @ self.w + self.constant + 0.5 * (away * away) @ self.rho
        return total + sum((np.abs(points - centre) @ cost for centre, cost in self.kinks), np.zeros(len(points)))

    def _concave(self, points):
        if self.g == "top":
            return -self.lam * np.sort(np.abs(points), axis=1)[:, ::-1][:, : self.s].sum(axis=1)
        squares = (points * points).sum(axis=1)
        none = 0.0 * squares
        return {None: none, "at most": none, "norm": -self.lam * np.sqrt(squares), "square": -self.lam * squares}[
            self.g
        ]

    def size(self, x):
        """The size of what is added up in F(x): |x|ᵀ|Q||x| and the like."""
        at, x = np.asarray(x, dtype=WIDE), np.abs(np.asarray(x, dtype=float))
        squares = 0.5 * x @ self.abs_Q @ x + self.rough_slopes(at) @ x + 0.5 * float(self.rho @ self.x0**2)
        if self.loss:
            z = self.A @ at - self.y
            squares += float(self.v @ (np.abs(self.phi.value(z)) + np.abs(self.phi.slope(z) * self.y)))
        elif self.data:
            squares += 0.5 * float(abs(self.scale) * (self.v @ (self.y * self.y)))
        bends = sum(float(cost @ (x + np.abs(centre))) for centre, cost in self.kinks) + abs(self.constant)
        return float(squares + np.abs(self.w) @ x + bends + abs(self._concave(x[None])[0]))

    def rough_slopes(self, x):
        """What is added up in the slopes of f at x besides |Q||x|."""
        if not self.loss:
            return self.abs_p
        slope = np.abs(self.phi.slope(self.A @ np.asarray(x, dtype=WIDE) - self.y))
        return self.abs_p + np.array(np.abs(self.A).T @ (self.v * slope), dtype=float)

    def slopes(self, x):
        """A bound on how fast F changes around x, one number."""
        rough, x = self.rough_slopes(x), np.abs(np.asarray(x, dtype=float))
        bends = sum(float(cost.max()) for _, cost in self.kinks)
        concave = self.lam * (0.0 if self.free else 2.0 * float(x.max()) if self.g == "square" else 1.0)
        concave = 0.0 if self.g == "at most" else concave
        return float((self.abs_Q @ x + rough + np.abs(self.w)).max()) + bends + concave

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

    def sum_noise(self, x):
        """What F may differ by between points whose sums differ by rounding, where slopes are steep."""
        return (32 + self.n) * EPS * self.extent * self.slopes(x) if self.on_line else 0.0

    def violation(self, x):
        """How far x is from the bounds and from u(x) = 0, relative to the size of x; what has to be 0 is 0."""
        wide = np.asarray(x, dtype=WIDE)
        if not np.isfinite(wide).all() or (self.g == "at most" and np.count_nonzero(x) > self.s):
            return np.inf
        apart = np.maximum(np.maximum(self.lo - x, x - self.hi), 0.0)
        apart = np.maximum(apart, np.where(self.gapped, np.minimum(np.abs(x), self.floor - x), 0.0))
        if not self.on_line:
            return max(float(apart.max()), abs(float(np.sqrt((wide * wide).sum()) - 1)))
        if self.a is not None:
            wide, apart = self.a * wide, np.abs(self.a) * apart
        missed = [float(apart.max()), abs(float(wide.sum() - WIDE(self.c)))]
        for members, least, most in self.groups:
            total = float(wide[members].sum())
            missed += [least - total, total - most]
        return max(missed) / self.extent

    def gradient(self, x):
        """The gradient of f and of the ridge, in extended precision, rounded once."""
        x = np.asarray(x, dtype=WIDE)
        if not self.data:
            return np.array(self.wide_Q @ x + self.wide_p, dtype=float)
        r = self.A @ x - self.y
        slope = self.phi.slope(r) if self.loss else self.scale * r
        return np.array(self.A.T @ (self.v * slope) + self.rho * (x - self.x0), dtype=float)


def in_sums(spec):
    """The problem in zᵢ = aᵢxᵢ, whose sum has no weights; g must not depend on the sizes of x."""
    if spec["u"].get("a") is None:
        return spec
    a, case = np.array(spec["u"]["a"], dtype=float), Case(spec)
    f, size, other = dict(spec["f"]), np.abs(a), dict(spec)
    if case.data:
        f["A"] = np.array(f["A"], dtype=float) / a
    else:
        f |= {"Q": np.array(f["Q"], dtype=float) / np.outer(a, a), "p": np.array(f["p"], dtype=float) / a}
    ends = a * case.lo, a * case.hi
    other |= {"f": f, "u": {**spec["u"], "a": None}, "lo": np.minimum(*ends), "hi": np.maximum(*ends)}
    other |= {
        "constant": case.constant,
        "w": case.w / a,
        "kinks": [(a * centre, cost / size) for centre, cost in case.kinks],
    }
    other |= {
        "ridge": (a * case.x0, case.rho / a**2),
        "floor": (a * case.floor).tolist() if case.gapped.any() else None,
        "in_sums": True,
    }
    return other

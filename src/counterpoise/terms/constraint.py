"""u: the nonseparable constraint, with projections and random points."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from typing import Any

import numpy as np

from counterpoise.checks import LARGEST, SMALLEST, Vector, flag, number, real_array, refuse_extreme
from counterpoise.kernels import concave
from counterpoise.kernels.arc import Arc
from counterpoise.kernels.line import GroupedLine, Line
from counterpoise.kernels.separable import Separable
from counterpoise.terms.groups import Group, Tree, with_limits
from counterpoise.terms.required import require
from counterpoise.terms.separable import nearest_admitted, scaled, take


class Constraint:
    """u(x) = 0. A constraint of your own is a subclass with the methods below.

    ``kernel(h)`` returns u for kernels, a NamedTuple with bodies of ``pair_step`` (global minimum over a pair) and
    ``repair`` (restore u(x) = 0 after rounding); bodies of ``is_live``, ``screened_best_pair`` and ``violating_pair``
    make scans faster, those of ``solve_state`` and ``stays`` allow blocks. See :mod:`counterpoise.kernels.pair`.
    """

    # The verb of g that the pair step calls, None if there can be no g; whether u is a sum, which then has ``c`` and
    # ``tree(n)``, or a sphere.
    step_verb: Any = None
    is_line = is_sphere = False
    weights: Vector | None = None
    # Whether x may have any signs and h has kinks at 0 only, so that full-vector steps may use ``shrink``.
    signed = False
    groups: tuple[Group, ...] = ()

    def kernel(self, h: Separable) -> Any:
        """Return u for kernels."""
        raise NotImplementedError

    def violation(self, x: Vector) -> float:
        """Return how far x is from u(x) = 0, in the unit of x."""
        raise NotImplementedError

    def project(self, z: Vector, h: Separable) -> Vector:
        """Return a feasible point near z."""
        raise NotImplementedError

    def check(self, h: Separable) -> None:
        """Refuse an h that pair steps cannot handle."""

    def scale(self, h: Separable) -> float:
        """Return the largest |xᵢ| of all feasible points, the unit in which rounding of x is measured."""
        return 1.0

    def random(self, h: Separable, rng: np.random.Generator) -> Vector:
        """Return a random feasible point."""
        return self.project(rng.uniform(np.maximum(h.lo, -1.0), np.minimum(h.hi, 1.0)), h)


class Sum(Constraint):
    """1ᵀx = c, or aᵀx = c; with limits on the sums over groups if :meth:`within` adds them.

    Parameters
    ----------
    c : float
    weights : array of length n, optional
        a, without zeros. Limits of groups are then on Σ aᵢxᵢ, and g must be ``AtMost`` or none: the problem is solved
        in zᵢ = aᵢxᵢ, which changes every other g.
    """

    step_verb = concave.minimise_on_line
    is_known = is_line = True

    def __init__(self, c: float = 1.0, weights: Any = None) -> None:
        self.c = number(c, "c", most=LARGEST)
        self.weights = None if weights is None else real_array(weights, "weights").astype(np.float64)
        if self.weights is not None:
            refuse_extreme(self.weights, "weights", smallest=SMALLEST)
            size = np.abs(self.weights)
            if self.weights.ndim != 1 or (size <= 1e-12 * size.max(initial=0.0)).any():
                raise ValueError(
                    "weights must be an array of one number per coordinate, none of them 0 or 1e12 times smaller than "
                    "another."
                )
        self._tree: Tree | None = None

    def within(self, groups: Any, limits: Mapping[Any, Any]) -> Sum:
        """Return the constraint with limits on sums over groups, which must be disjoint or nested.

        Parameters
        ----------
        groups : sequence of length n, or mapping
            The group of every coordinate, None for none; or a mapping from names of groups to their coordinates.
        limits : mapping
            From names of groups to (least, most), either of which may be None, or to one number for both.

        Examples
        --------
        >>> import counterpoise as cp
        >>> u = cp.Sum(1).within(["energy", "energy", "banks", None], {"energy": (0.2, 0.5), "banks": (None, 0.3)})
        >>> u = u.within({"financials": [2, 3]}, {"financials": 0.6})
        >>> [group.name for group in u.groups]
        ['banks', 'energy', 'financials']
        """
        made = Sum(self.c, self.weights)
        made.groups = with_limits(self.groups, groups, limits)
        return made

    @property
    def unweighted(self) -> Sum:
        """The constraint on a∘x."""
        made = Sum(self.c)
        made.groups = self.groups
        return made

    def _unweighted_with(self, h: Separable) -> tuple[Sum, Separable]:
        """Return the constraint and the h of a∘x."""
        return self.unweighted, scaled(h, 1.0 / np.asarray(self.weights))[0]

    def kernel(self, h: Separable) -> Line | GroupedLine:
        """Return u for kernels."""
        if not self.groups:
            return Line(self.c, self.scale(h))
        tree = self.tree(len(h.lo))
        limits = tree.leaf, tree.parent, tree.depth, tree.least, tree.most
        return GroupedLine(self.c, self.scale(h), *limits, sums=np.zeros(len(tree.parent)))

    def tree(self, n: int) -> Tree:
        """Return the groups as a tree over n coordinates, whose root is the whole sum."""
        if self._tree is None or len(self._tree.leaf) != n:
            self._tree = Tree(self.groups, n)
        return self._tree

    def scale(self, h: Separable) -> float:
        """Return the largest |xᵢ| of all feasible points, the unit in which rounding of x is measured.

        With weights a, a bound: the largest |aᵢxᵢ| over the smallest |aᵢ|.
        """
        if self.weights is not None:
            inner, h = self._unweighted_with(h)
            return inner.scale(h) / float(np.abs(self.weights).min())
        lo, hi = np.asarray(h.lo), np.asarray(h.hi)
        # The sum also limits a coordinate, when all others are at their lower or upper bounds, if those are finite.
        most = np.minimum(hi, self.c - _sum_of_others(lo)) if np.isfinite(lo).sum() >= len(lo) - 1 else hi
        least = np.maximum(lo, self.c - _sum_of_others(hi)) if np.isfinite(hi).sum() >= len(hi) - 1 else lo
        size = float(max(np.abs(most).max(), np.abs(least).max()))
        return size if np.isfinite(size) and size > 0.0 else max(abs(self.c), 1e-300)

    def check(self, h: Separable) -> None:
        """Refuse bounds and limits for which the feasible set is empty or unbounded."""
        if self.weights is not None:
            inner, h = self._unweighted_with(h)
            inner.check(h)
            return
        slack = 1e-12 * max(self.scale(h), abs(self.c))
        least, most = self.tree(len(h.lo)).reach(h.lo, h.hi, slack)
        if self.c < least - slack or self.c > most + slack:
            raise ValueError(
                f"no point within the bounds{' and limits' if self.groups else ''} has the sum {self.c:g}: "
                f"their sums reach from {least:g} to {most:g}."
            )
        if not (np.isfinite(h.lo).all() or np.isfinite(h.hi).all()):
            raise ValueError(
                "the feasible set is unbounded: with Sum give a finite lo for every coordinate, "
                "or a finite hi for every coordinate, in Bounds(lo, hi)."
            )

    def violation(self, x: Vector) -> float:
        """Return the larger of |aᵀx − c| and the largest violation of a group's limits, a = 1 without weights."""
        if self.weights is not None:
            return self.unweighted.violation(self.weights * x)
        missed = abs(float(np.sum(x, dtype=np.longdouble) - np.longdouble(self.c)))
        for group in self.groups:
            total = float(x[group.members].sum())
            missed = max(missed, group.least - total, total - group.most)
        return missed

    def project(self, z: Vector, h: Separable) -> Vector:
        """Return the feasible point nearest to z; with weights a, the x for which a∘x is nearest to a∘z."""
        if self.weights is not None:
            inner, inner_h = self._unweighted_with(h)
            # Dividing may violate a bound by rounding.
            return nearest_admitted(h, inner.project(self.weights * z, inner_h) / self.weights)
        if not self.groups:
            return self._project(z, h)
        return self.tree(len(z)).project(z, h.lo, h.hi, self.c, lambda c, z, at: Sum(c)._project(z, take(h, at)))

    def _project(self, z: Vector, h: Separable) -> Vector:
        """Return the point of {1ᵀx = c, lo ≤ x ≤ hi} nearest to z, exactly.

        It is clip(z + t, lo, hi) for the t at which the sum is c. The sum is piecewise linear and non-decreasing in t.
        Newton's method usually finds the right piece in a few rounds; otherwise bisection over the pieces does.
        """
        t = (self.c - float(np.clip(z, h.lo, h.hi).sum())) / len(z)
        below, above = -np.inf, np.inf
        for _ in range(50):
            shifted = z + t
            free = (shifted > h.lo) & (shifted < h.hi)
            count = int(np.count_nonzero(free))
            missing = self.c - float(np.clip(shifted, h.lo, h.hi).sum())
            below, above = (t, above) if missing > 0.0 else (below, t)
            following = t + missing / count if count else np.nan
            if following == t or (count and abs(missing) <= 1e-15 * abs(self.c)):
                return self._on_piece(z, free, shifted, h)
            if not below < following < above:
                break
            t = following
        return self._project_by_bisection(z, h)

    def _project_by_bisection(self, z: Vector, h: Separable) -> Vector:
        """Sort the ends of the pieces and find the one on which the sum is c."""
        ends = np.concatenate([h.lo - z, h.hi - z])
        knots = np.unique(ends[np.isfinite(ends)])
        low = bisect.bisect_left(knots, self.c, key=lambda t: float(np.clip(z + t, h.lo, h.hi).sum()))
        # t lies between two knots, or beyond them.
        before = knots[low - 1] if low > 0 else knots[0] - 2.0
        after = knots[low] if low < len(knots) else knots[-1] + 2.0
        shifted = z + 0.5 * (before + after)
        return self._on_piece(z, (shifted > h.lo) & (shifted < h.hi), shifted, h)

    def _on_piece(self, z: Vector, free: Any, shifted: Vector, h: Separable) -> Vector:
        """Return the point with sum c on one piece, on which the free coordinates move together.

        Only differences of z are used, because a z far larger than the bounds would leave large rounding errors.
        """
        x: Vector = np.clip(shifted, h.lo, h.hi)
        if free.any():
            share = (self.c - float(x[~free].sum())) / int(free.sum())
            x[free] = np.clip(z[free] - float(z[free].mean()) + share, h.lo[free], h.hi[free])
        missing = self.c - float(x.sum())
        rounding = 1e-14 * float(np.abs(x).sum())
        if abs(missing) <= rounding:
            return x
        for i in np.argsort(-np.minimum(x - h.lo, h.hi - x), kind="stable"):
            if abs(missing) <= rounding:
                break
            moved = min(max(x[i] + missing, h.lo[i]), h.hi[i])
            missing -= moved - x[i]
            x[i] = moved
        return x

    def random(self, h: Separable, rng: np.random.Generator) -> Vector:
        """Return a random feasible point: uniform between the bounds, then scaled towards one of them to sum to c.

        If a bound is infinite, the sum limits the range instead.
        """
        if self.weights is not None:
            inner, inner_h = self._unweighted_with(h)
            return nearest_admitted(h, inner.random(inner_h, rng) / self.weights)
        if not np.isfinite(h.lo).all():
            mirrored = h._replace(lo=-h.hi, hi=-h.lo)
            reflected: Vector = -Sum(-self.c).random(mirrored, rng)
            return self.project(reflected, h) if self.groups else reflected
        spare = max(self.c - float(h.lo.sum()), 0.0)
        span = np.minimum(h.hi - h.lo, spare)
        share = rng.uniform(0.0, 1.0, len(span)) * span
        if share.sum() > spare:
            share *= spare / share.sum()
        elif (rest := float((span - share).sum())) > 0.0:
            share = span - (span - share) * (max(float(span.sum()) - spare, 0.0) / rest)
        return self.project(h.lo + share, h)


class Sphere(Constraint):
    """‖x‖₂ = 1, with x ≥ 0 unless ``signed``.

    Parameters
    ----------
    signed : bool
        Whether coordinates may be negative. h then has no bounds, and its kinks are at 0: ``AbsoluteDeviation(0, lam)``
        is λ‖x‖₁.
    """

    step_verb = concave.minimise_on_arc
    is_known = is_sphere = True

    def __init__(self, signed: bool = False) -> None:
        self.signed = flag(signed, "signed")

    def kernel(self, h: Separable) -> Arc:
        """Return u for kernels."""
        return Arc(1.0, self.signed)

    def check(self, h: Separable) -> None:
        """Refuse bounds and kinks that would cut a pair's quarter circle, and curved pieces."""
        if not self.signed and ((h.lo != 0.0).any() or (h.hi < 1.0).any()):
            raise ValueError(
                "Sphere needs h = Bounds(0, inf), or signed=True for x of any sign: other bounds cut the arc, and its "
                "pair step would have to minimise on a part of it."
            )
        if h.bend.any() or h.curve.any() or (h.floor > h.lo).any():
            raise ValueError("Sphere takes no Ridge and no SemiContinuous: its pair step handles linear terms only.")
        if self.signed:
            self._check_signed(h)
        elif len(h.centre):
            raise ValueError(
                "Sphere takes no AbsoluteDeviation: its kinks cut the arc, and its pair step "
                "would have to minimise between them."
            )

    @staticmethod
    def _check_signed(h: Separable) -> None:
        bounded = np.flatnonzero((h.lo > -1.0) | (h.hi < 1.0))
        if len(bounded):
            i = int(bounded[0])
            raise ValueError(
                f"Sphere(signed=True) takes no bounds, which cut the circle of a pair, but coordinate {i} is between "
                f"{h.lo[i]:g} and {h.hi[i]:g}; leave Bounds out, or use Sphere() for x ≥ 0."
            )
        if (off := np.argwhere((h.centre != 0.0) & (h.cost > 0.0))).size:
            i, at = int(off[0, 1]), float(h.centre[tuple(off[0])])
            raise ValueError(
                f"Sphere(signed=True) takes kinks of h at 0 alone, where the quarters of a pair's circle meet, but "
                f"coordinate {i} has one at {at:g}; use AbsoluteDeviation(0, cost)."
            )

    def cancels(self, h: Separable, lam: float) -> bool:
        """Return whether h is λ‖x‖₁ at feasible points, so that h − λ‖x‖_[s] = 0 if at most s are non-zero.

        With λ = ∞, which stands for a constraint, return whether h is 0 there.
        """
        pull = lam if np.isfinite(lam) else 0.0
        if self.signed:
            return bool((h.weight == 0.0).all() and (h.cost.sum(axis=0) == pull).all())
        return bool((h.weight == pull).all())

    def violation(self, x: Vector) -> float:
        """Return |‖x‖ − 1|."""
        wide = x.astype(np.longdouble)
        return abs(float(np.sqrt(np.sum(wide * wide)) - 1))

    def project(self, z: Vector, h: Separable) -> Vector:
        """Return a feasible point nearest to z: z, or its positive part if x ≥ 0, scaled to length 1.

        If no entry is positive, the nearest point is the unit vector at the largest entry, the first if several are
        equal. All signed points are equally near to z = 0; the first unit vector is returned.
        """
        return _with_signs(_scaled(np.abs(z)), z) if self.signed else _scaled(z)

    def shrink(self, z: Vector, h: Separable) -> Vector:
        """Return a signed feasible minimiser of −⟨z, x⟩ + Σ costᵢ|xᵢ|: z soft-thresholded and scaled."""
        return _with_signs(_scaled(np.abs(z) - h.cost.sum(axis=0)), z)

    def random(self, h: Separable, rng: np.random.Generator) -> Vector:
        """Return a point that is uniform on the sphere, or on its non-negative part."""
        drawn = rng.standard_normal(len(h.lo))
        return self.project(drawn if self.signed else np.abs(drawn), h)


def _scaled(sizes: Vector) -> Vector:
    """Return the positive part of ``sizes`` scaled to length 1; the unit vector at the largest if none is positive."""
    x = np.maximum(sizes, 0.0)
    norm = float(np.linalg.norm(x))
    if norm == 0.0:
        x = np.zeros_like(sizes)
        x[int(np.argmax(sizes))] = norm = 1.0
    return np.asarray(x / norm, dtype=np.float64)


def _with_signs(sizes: Vector, z: Vector) -> Vector:
    """Return sizes with the signs of z, avoiding −0."""
    return np.where((z < 0.0) & (sizes > 0.0), -sizes, sizes)


def _sum_of_others(bounds: Vector) -> Vector:
    """Return, for every coordinate, the sum of the other bounds."""
    finite = np.where(np.isfinite(bounds), bounds, 0.0)
    others: Vector = float(finite.sum()) - finite
    if np.isinf(bounds).any():
        # The sum of the others is finite only for the coordinate whose own bound is infinite.
        others = np.where(np.isfinite(bounds), np.sum(bounds[~np.isfinite(bounds)]), others)
    return others


def as_constraint(u: Any) -> Any:
    """Return u if it is a usable constraint; otherwise raise a TypeError that says what it lacks."""
    require(u, "u", Constraint)
    return u

"""A constraint of your own: an ellipsoid Σ dᵢxᵢ² = 1 with x ≥ 0, registered from outside the package.

With zᵢ = √dᵢ·xᵢ a pair turns on a quarter circle, zᵢ = v sin α and zⱼ = v cos α, as on the sphere. The step proposes
the ends of the arc and the stationary points of the quadratic between them; ``model_change`` scores them.
"""

from typing import NamedTuple

import numpy as np

import counterpoise as cp
from counterpoise.kernels.dispatch import implements
from counterpoise.kernels.pair import model_change, pair_step, repair
from counterpoise.kernels.roots import half_angle_minimisers
from counterpoise.kernels.smooth import curvature, slope


class EllipsoidKernel(NamedTuple):
    """u for kernels: the roots √dᵢ."""

    roots: np.ndarray


class Ellipsoid(cp.Constraint):
    """Σ dᵢxᵢ² = 1 with x ≥ 0."""

    def __init__(self, d):
        self.d = np.asarray(d, dtype=float)

    def kernel(self, h):
        """Return u for kernels."""
        return EllipsoidKernel(np.sqrt(self.d))

    def check(self, h):
        """Refuse what the step below does not know."""
        if (h.lo != 0.0).any() or np.isfinite(h.hi).any() or len(h.centre) or h.bend.any():
            raise ValueError("Ellipsoid takes Bounds(0, inf) and Linear only.")

    def violation(self, x):
        """Return |√(Σ dx²) − 1|, or how far x is below 0."""
        return max(abs(np.sqrt(self.d @ x**2) - 1.0), -float(x.min()))

    def project(self, z, h):
        """Return the positive part of z, scaled onto the ellipsoid."""
        x = np.maximum(z, 0.0) if (z > 0.0).any() else np.ones(len(z))
        return x / np.sqrt(self.d @ x**2)


@implements(pair_step, EllipsoidKernel)
def turn(u, problem, x, i, j, theta):
    """Return (new_i, new_j, decrease): the best of the arc's ends and of its stationary points."""
    f, w, r, t = problem.f, problem.h.weight, u.roots[i], u.roots[j]
    v, cross = np.hypot(r * x[i], t * x[j]), curvature(f, i, j) / (r * t)
    q_i, q_j = (f.diagonal[i] + theta) / r**2, (f.diagonal[j] + theta) / t**2
    b = (slope(f, i) + w[i]) / r - q_i * r * x[i] - cross * t * x[j]
    c = (slope(f, j) + w[j]) / t - q_j * t * x[j] - cross * r * x[i]
    best_i, best_j, best = x[i], x[j], 0.0
    for half in (0.0, 1.0, *half_angle_minimisers(0.5 * (q_j - q_i) * v * v, b * v, c * v, cross * v * v)):
        if half >= 0.0:
            new_i, new_j = v / r * 2.0 * half / (1.0 + half**2), v / t * (1.0 - half) * (1.0 + half) / (1.0 + half**2)
            delta = model_change(problem, x, i, new_i, j, new_j, theta)
            if delta < best:
                best_i, best_j, best = new_i, new_j, delta
    return best_i, best_j, -best


@implements(repair, EllipsoidKernel)
def back(u, h, x):
    """Scale x back onto the ellipsoid."""
    x /= np.sqrt(np.sum((u.roots * x) ** 2))


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    A, d = rng.standard_normal((40, 20)), rng.uniform(0.5, 2.0, 20)
    result = cp.minimize(cp.Problem(cp.LeastSquares(A, np.ones(40)), cp.Bounds(0, np.inf), u=Ellipsoid(d)))
    print(f"{result.status.name}: F = {result.objective:.4f}, {np.count_nonzero(result.x)} of 20 coordinates above 0")

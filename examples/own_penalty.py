"""A penalty of your own: the capped ℓ1 norm, registered from outside the package.

g(x) = λ Σ min(xᵢ, cap) is concave on x ≥ 0: it charges for small positions, and nothing more beyond the cap.
On a pair its slopes are −λ, 0, λ, so the exact step has three candidates.
"""

from typing import NamedTuple

import numpy as np

import counterpoise as cp
from counterpoise.kernels.concave import change, minimise_on_line
from counterpoise.kernels.dispatch import implements


class CappedL1(NamedTuple):
    """g(x) = λ Σ min(xᵢ, cap)."""

    lam: float
    cap: float

    def value(self, x):
        """Return g(x)."""
        return self.lam * np.minimum(x, self.cap).sum()

    def subgradient(self, x, slope):
        """Return λ below the cap, 0 above."""
        return np.where(x < self.cap, self.lam, 0.0)

    def kernel(self, lo, hi):
        """Return the term for kernels: itself, since it keeps nothing of x."""
        return self


@implements(change, CappedL1)
def capped_change(g, x, i, new_i, j, new_j):
    """Return g(x with xᵢ = new_i, xⱼ = new_j) − g(x)."""
    return g.lam * (min(new_i, g.cap) - min(x[i], g.cap) + min(new_j, g.cap) - min(x[j], g.cap))


@implements(minimise_on_line, CappedL1)
def capped_step(g, x, i, j, alpha, beta, low, high):
    """Return the best of clip((kλ − β)/α), k = −1, 0, 1; of the ends if α = 0."""
    best, least = low, np.inf
    for k in (-1.0, 0.0, 1.0):
        eta = min(max((k * g.lam - beta) / alpha, low), high) if alpha > 0.0 else (low if k < 0.0 else high)
        value = (0.5 * alpha * eta + beta) * eta + g.lam * (min(x[i] + eta, g.cap) + min(x[j] - eta, g.cap))
        if value < least:
            best, least = eta, value
    return best


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    A = rng.standard_normal((250, 400)) + rng.standard_normal((250, 1))
    y = A[:, :40] @ rng.dirichlet(np.ones(40))
    problem = cp.Problem(cp.LeastSquares(A, y), h=cp.Bounds(0, 0.2), g=CappedL1(lam=20.0, cap=0.02), u=cp.Sum(1))
    result = cp.minimize(problem)
    print(f"{result.status.name}: F = {result.objective:.4f}, {np.count_nonzero(result.x)} of 400 coordinates held")

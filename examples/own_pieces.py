"""A separable term of your own: the Huber distance from x0, linear far away and quadratic near.

hᵢ(t) = ½(t − x0ᵢ)² for |t − x0ᵢ| ≤ δ, else δ|t − x0ᵢ| − ½δ²: two knots, at which the second derivative jumps.
"""

import numpy as np

import counterpoise as cp


class HuberDistance(cp.SeparableTerm):
    """The Huber distance from x0."""

    def __init__(self, x0, delta):
        self.x0, self.delta = np.asarray(x0, dtype=float), delta

    def pieces(self, n):
        """Return slope −δ, a curve of 1 from x0 − δ and of −1 from x0 + δ on."""
        low, high = np.full(n, self.x0 - self.delta), np.full(n, self.x0 + self.delta)
        at_zero = self.delta * float(np.sum(low + 0.5 * self.delta))
        return cp.Pieces(slope=-self.delta, knots=[low, high], curve=[1.0, -1.0], constant=at_zero)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((60, 20)), rng.standard_normal(60)
    h = cp.Bounds(0, 1) + HuberDistance(np.full(20, 0.05), delta=0.1)
    result = cp.minimize(cp.Problem(cp.LeastSquares(A, y), h, cp.AtMost(5), cp.Sum(1)), method="search")
    print(f"{result.status.name}: F = {result.objective:.4f} with {np.count_nonzero(result.x)} of 20 coordinates")

"""abess: best subsets by splicing."""

from typing import Any

import numpy as np
from abess.linear import LinearRegression
from benchmark_utils.portfolios import as_regression, on_support
from benchmark_utils.runs import OneShotSolver


class Solver(OneShotSolver):
    """Adaptive best-subset selection by abess, then the convex QP on its support.

    abess does not know x ≥ 0 and minds the sum only as a row of the regression.
    """

    name = "abess"
    requirements = ["pip::abess"]
    parameters = {"weight": [1.0]}

    def solve(self, seed: int, A: Any, y: Any, s: int, lam: float) -> Any:
        """Return x."""
        model = LinearRegression(support_size=s, fit_intercept=False)
        model.fit(*as_regression(A, y, self.weight))
        return on_support(A, y, np.flatnonzero(model.coef_))

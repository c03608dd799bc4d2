"""skscope: sparsity-constrained optimisation by splicing."""

from typing import Any

import numpy as np
from benchmark_utils.portfolios import as_regression, on_support
from benchmark_utils.runs import OneShotSolver
from skscope import ScopeSolver


class Solver(OneShotSolver):
    """SCOPE by skscope, with the gradient given, then the convex QP on its support.

    skscope does not know x ≥ 0 and minds the sum only as a row of the regression.
    """

    name = "skscope"
    requirements = ["pip::skscope"]
    parameters = {"weight": [3.0]}

    def solve(self, seed: int, A: Any, y: Any, s: int, lam: float) -> Any:
        """Return x."""
        X, b = as_regression(A, y, self.weight)
        Q, p = X.T @ X, X.T @ b
        solver = ScopeSolver(A.shape[1], s, random_state=seed)
        solver.solve(lambda x: 0.5 * x @ (Q @ x) - p @ x, gradient=lambda x: Q @ x - p)
        return on_support(A, y, np.flatnonzero(solver.params))

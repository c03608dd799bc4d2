"""scikit-learn's SparsePCA."""

from typing import Any

import numpy as np
from benchmark_utils.power import truncate
from benchmark_utils.runs import OneShotSolver
from sklearn.decomposition import SparsePCA


class Solver(OneShotSolver):
    """SparsePCA of scikit-learn, one component, α by bisection to at most s non-zeros; clipped at 0, rescaled.

    It centres the data and does not know x ≥ 0, so what is clipped is lost; the better of the two signs is taken.
    """

    name = "sklearn-SparsePCA"
    requirements = ["scikit-learn"]
    parameters = {"bisections": [12]}
    test_config = {"bisections": 3}

    def solve(self, seed: int, A: Any, s: int, lam: float) -> Any:
        """Return x."""
        low, high, loadings = 0.0, 2.0 * float(np.linalg.norm(A, axis=0).max()), np.ones(A.shape[1])
        for _ in range(self.bisections):
            alpha = 0.5 * (low + high)
            model = SparsePCA(1, alpha=alpha, max_iter=100, tol=1e-4, random_state=seed % 2**31).fit(A)
            held = np.count_nonzero(model.components_[0])
            low, high = (alpha, high) if held > s else (low, alpha)
            if 0 < held <= s:
                loadings = model.components_[0]
        return max((truncate(sign * loadings, s) for sign in (1.0, -1.0)), key=lambda x: float(np.linalg.norm(A @ x)))

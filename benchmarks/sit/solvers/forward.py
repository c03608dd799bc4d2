"""Forward selection."""

from typing import Any

from benchmark_utils.portfolios import forward_selection
from benchmark_utils.runs import OneShotSolver


class Solver(OneShotSolver):
    """Greedy: one stock at a time, each followed by the convex QP on the support."""

    name = "forward"
    requirements = ["scipy"]
    parameters = {"candidates": [20]}

    def solve(self, seed: int, A: Any, y: Any, s: int, lam: float) -> Any:
        """Return x."""
        return forward_selection(A, y, s, self.candidates)

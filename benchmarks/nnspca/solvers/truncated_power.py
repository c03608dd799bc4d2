"""Truncated power method."""

from typing import Any

from benchmark_utils.power import truncated_power
from benchmark_utils.runs import OneShotSolver


class Solver(OneShotSolver):
    """Truncated power method (Yuan and Zhang 2013), clipped at 0, with the number of entries halved down to s."""

    name = "truncated-power"
    requirements = ["numpy"]

    def solve(self, seed: int, A: Any, s: int, lam: float) -> Any:
        """Return x."""
        return truncated_power(A, s)

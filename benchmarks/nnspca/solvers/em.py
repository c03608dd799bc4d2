"""Expectation maximisation."""

from typing import Any

from benchmark_utils.power import expectation_maximisation
from benchmark_utils.runs import OneShotSolver


class Solver(OneShotSolver):
    """EM for non-negative sparse PCA (Sigg and Buhmann 2008, as in nsprcomp), one component, random restarts.

    For one component its steps are those of the truncated power method; only the starts differ.
    """

    name = "EM"
    requirements = ["numpy"]
    parameters = {"restarts": [5]}

    def solve(self, seed: int, A: Any, s: int, lam: float) -> Any:
        """Return x."""
        return expectation_maximisation(A, s, self.restarts, seed)

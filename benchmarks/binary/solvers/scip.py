"""SCIP."""

from typing import Any

from benchmark_utils.mixed_integer import by_scip
from benchmark_utils.runs import OneShotSolver


class Solver(OneShotSolver):
    """The binary quadratic program by SCIP, to optimality or for ``time_limit`` seconds: the best point found."""

    name = "SCIP"
    requirements = ["pip::pyscipopt"]
    parameters = {"time_limit": [60.0]}
    test_config = {"time_limit": 5.0}

    def solve(self, seed: int, A: Any, y: Any, c: int, lam: float) -> Any:
        """Return x."""
        return by_scip(A, y, c, self.time_limit)

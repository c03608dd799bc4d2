"""skfolio: a mixed-integer program, by SCIP."""

from typing import Any

import skfolio  # noqa: F401  (benchopt leaves the solver out where this fails)
from benchmark_utils.portfolios import by_skfolio
from benchmark_utils.runs import OneShotSolver


class Solver(OneShotSolver):
    """skfolio's BenchmarkTracker with a cardinality, by SCIP under a time limit, then the convex QP on its support."""

    name = "skfolio-SCIP"
    requirements = ["pip::skfolio", "pip::pyscipopt"]
    parameters = {"time_limit": [60.0]}
    test_config = {"time_limit": 5.0}

    def solve(self, seed: int, A: Any, y: Any, s: int, lam: float) -> Any:
        """Return x."""
        return by_skfolio(A, y, s, self.time_limit)

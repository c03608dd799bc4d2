"""skfolio: a mixed-integer program, by SCIP."""

import warnings
from typing import Any

import numpy as np
from benchmark_utils.portfolios import on_support
from benchmark_utils.runs import OneShotSolver
from skfolio import RiskMeasure
from skfolio.optimization import BenchmarkTracker


class Solver(OneShotSolver):
    """skfolio's BenchmarkTracker with a cardinality, by SCIP under a time limit, then the convex QP on its support.

    skfolio tracks the variance, which ignores the mean. Every day is given twice, once with its sign turned: then the
    mean is 0, and the variance is the objective of this benchmark.
    """

    name = "skfolio-SCIP"
    requirements = ["pip::skfolio", "pip::pyscipopt"]
    parameters = {"time_limit": [60.0]}
    test_config = {"time_limit": 5.0}

    def solve(self, seed: int, A: Any, y: Any, s: int, lam: float) -> Any:
        """Return x; if SCIP found none in time, the s stocks nearest to the index."""
        tracker = BenchmarkTracker(
            risk_measure=RiskMeasure.VARIANCE,
            cardinality=s,
            solver="SCIP",
            solver_params={"scip_params": {"limits/time": self.time_limit}},
            raise_on_failure=False,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a time limit makes the solution "inaccurate"
            tracker.fit(np.vstack([A, -A]) / 100.0, np.append(y, -y) / 100.0)
        weights = -np.sum((A - y[:, None]) ** 2, axis=0) if tracker.weights_ is None else tracker.weights_
        return on_support(A, y, np.argsort(-weights)[:s])

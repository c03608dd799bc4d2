"""The binary quadratic program for SCIP."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyscipopt import Model, quicksum


def by_scip(A: Any, y: Any, c: int, seconds: float) -> Any:
    """Minimise ½‖Ax − y‖² over x ∈ {−1, 1}ⁿ with the sum c; without a solution in time, return any such x."""
    m, n = A.shape
    model = Model()
    model.hideOutput()
    model.setParam("limits/time", seconds)
    b = [model.addVar(vtype="B") for _ in range(n)]
    r = [model.addVar(lb=None) for _ in range(m)]
    bound = model.addVar(lb=0.0)
    for k in range(m):
        model.addCons(quicksum(2.0 * A[k, i] * b[i] for i in range(n)) - r[k] == float(y[k] + A[k].sum()))
    model.addCons(quicksum(b) == (n + c) // 2)
    model.addCons(quicksum(0.5 * v * v for v in r) <= bound)
    model.setObjective(bound)
    model.optimize()
    if model.getNSols() == 0:
        return np.where(np.arange(n) < (n + c) // 2, 1.0, -1.0)
    best = model.getBestSol()
    return np.array([1.0 if best[v] > 0.5 else -1.0 for v in b])

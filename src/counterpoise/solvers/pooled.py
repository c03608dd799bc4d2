"""Run a method on pools of columns until no column outside gains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from counterpoise.checks import Vector
from counterpoise.problem import Problem, Result, Status
from counterpoise.solvers import pool as pools
from counterpoise.solvers.pool import Pool, largest
from counterpoise.solvers.run import Epoch, Run

# A round that lowers F by less than this fraction of F has not helped.
HELPS = 1e-3


def pooled(
    run: Run, pool: Pool, descend: Callable[[Problem, Vector, float | None], Result], given: bool, ending: Status
) -> Result:
    """Run a method on pools until pricing all columns shows that none outside gains.

    ``descend(problem on the pool, x there, seconds left)`` returns a result of the method, which must end with the
    status ``ending``. Columns outside are priced by gains of pairs and, for SWAP_OPTIMAL, by estimated gains of
    exchanges, which are verified in a pool that includes the column. A sparse start is used unless the user has
    ``given`` one.
    """
    if not given:
        run.begin(pool.start())
    x = run.start
    # The columns of pools that had no better pair or exchange at this x, and the largest gap of these pools.
    wanted, verified, verified_gap = np.flatnonzero(x)[:0], np.zeros(run.problem.n, dtype=bool), 0.0
    swaps = ending is Status.SWAP_OPTIMAL

    def epoch(trials: int) -> Epoch:
        nonlocal wanted, verified_gap
        slopes, reached, fresh = pool.slopes(x), run.objective, not len(wanted)
        members = np.union1d(np.union1d(wanted, largest(-slopes, pools.PRICED)), np.flatnonzero(x))
        before = x[members].copy()
        left = None if run.max_time is None else run.limits.left()
        found = descend(pool.restricted(members), before, left)
        x[members], wanted = found.x, wanted[:0]
        run.objective, run.noise = run.measure(x)
        tried, accepted = max(1, found.nit), found.nacc
        # If λ is too small to keep a point sparse, exchanges end as CERTIFIED.
        if found.status not in (ending, Status.CERTIFIED):
            return Epoch(x, tried, accepted, found.status)
        # A point that moved within rounding is the same one; otherwise the rounds might not end.
        if run.objective < reached - run.tolerance:
            verified[:], verified_gap = False, 0.0
        verified[members], verified_gap = True, max(verified_gap, found.cws_gap)
        # Gains cost several times as much as slopes, which suffice as long as they find columns that help.
        if fresh and run.objective < reached - HELPS * abs(reached):
            return Epoch(x, tried, accepted)
        if run.objective < reached - run.tolerance:
            wanted = pool.descending(x, run.tolerance)
            wanted = wanted[~verified[wanted]]
            if len(wanted):
                return Epoch(x, tried, accepted)
        if swaps:
            wanted = pool.to_verify(x, verified, run.tolerance)
            if len(wanted):
                return Epoch(x, tried, accepted)
        gains = np.where(verified, 0.0, pool.gains(x))
        most = float(gains.max(initial=0.0))
        if most <= run.tolerance:
            status = found.status
            if status is Status.SWAP_OPTIMAL:
                proved = max(found.swap_gap, pool.exchange_bound(x, run.tolerance))
                status = status if proved <= run.tolerance else Status.CERTIFIED
                claims["swap_gap"] = proved if status is Status.SWAP_OPTIMAL else None
            return Epoch(x, tried, accepted, status, max(most, verified_gap))
        best = largest(gains, pools.GAINING)
        wanted = best[gains[best] > run.tolerance]
        return Epoch(x, tried, accepted)

    claims: dict[str, Any] = {}
    return run.finish(run.stage(epoch), claims)

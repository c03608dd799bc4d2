"""``IndexTracker`` against the alternatives of a user: ``python benchmarks/estimators_tracking.py``.

Each portfolio of 30 stocks is fitted on all days of a set, to compare the objective ½‖Rw − r‖² in squared percent, and
on the first three quarters, to compare the tracking error (root mean square, in percent per day) in the fourth. Peers
are skfolio's ``BenchmarkTracker`` with a cardinality constraint, solved by SCIP under a time limit; forward selection,
which solves the convex program on the names so far after adding each name; and the convex program on all stocks, which
is not sparse. skfolio minimises a variance, which ignores the mean, so every day is passed twice, once with its sign
flipped. Seconds are those of the fit on all days, for the tracker after a fit that compiles.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent / "sit"))
from benchmark_utils.portfolios import by_skfolio, forward_selection, simplex_qp

from counterpoise.checks import Vector
from counterpoise.estimators.tracking import IndexTracker
from counterpoise.experiments import sets

console = Console(highlight=False, width=120)
Fit = Callable[[Vector, Vector], Vector]


def tracker(s: int, seconds: float) -> Fit:
    """Return the fit of our estimator, validation included."""

    def fit(A: Vector, y: Vector) -> Vector:
        found = IndexTracker(s, max_time=seconds, random_state=0, n_jobs=-1).fit(A, y)
        return np.asarray(found.weights_, dtype=np.float64)

    return fit


def skfolio(s: int, seconds: float) -> Fit | None:
    """Return the fit of skfolio's mixed-integer program; None if it is not installed."""
    if importlib.util.find_spec("skfolio") is None:
        return None
    return lambda A, y: np.asarray(by_skfolio(A, y, s, seconds), dtype=np.float64)


def convex(A: Vector, y: Vector) -> Vector:
    """Return the best portfolio of any number of names."""
    return np.asarray(simplex_qp(A, y)[0], dtype=np.float64)


def error(A: Vector, y: Vector, w: Vector) -> float:
    """Return the tracking error."""
    return float(np.sqrt(np.mean((A @ w - y) ** 2)))


def main() -> None:
    """Print a table a set, and the means over the sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["SP-16", "SP-18", "SP-20"])
    parser.add_argument("--assets", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=0.8, help="of our search")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of SCIP")
    asked = parser.parse_args()
    folder = sets.data_folder()
    fits: dict[str, Fit | None] = {
        "IndexTracker": tracker(asked.assets, asked.seconds),
        "skfolio, SCIP": skfolio(asked.assets, asked.limit),
        "forward + QP": lambda A, y: np.asarray(forward_selection(A, y, asked.assets, 20), dtype=np.float64),
        "convex, not sparse": convex,
    }
    outside: dict[str, list[float]] = {}
    for name in asked.sets:
        try:
            data = sets.load(name, folder)
        except sets.Absent as absence:
            console.print(f"{name} is absent: {absence}")
            continue
        A, y = np.asarray(data.A, dtype=np.float64), np.asarray(data.y, dtype=np.float64)
        train = 3 * len(y) // 4
        table = Table(title=f"{name}: {A.shape[1]} stocks, {len(y)} days, at most {asked.assets} names")
        for column in ("", "objective", "× ours", "seconds", "names", "error, 3 quarters", "error, the fourth"):
            table.add_column(column, justify="left" if not column else "right")
        ours = None
        for label, fit in fits.items():
            if fit is None:
                table.add_row(label, "not installed")
                continue
            if label == "IndexTracker":
                fit(A, y)
            clock = time.perf_counter()
            w = fit(A, y)
            seconds = time.perf_counter() - clock
            objective = 0.5 * float(np.sum((A @ w - y) ** 2))
            ours = objective if ours is None else ours
            before = fit(A[:train], y[:train])
            outside.setdefault(label, []).append(error(A[train:], y[train:], before))
            table.add_row(
                label,
                f"{objective:.4f}",
                f"{objective / ours:.2f}",
                f"{seconds:.2f}",
                str(int(np.sum(w > 1e-9))),
                f"{error(A[:train], y[:train], before):.4f}",
                f"{outside[label][-1]:.4f}",
            )
        console.print(table)
    for label, errors in outside.items():
        mean = float(np.exp(np.mean(np.log(errors))))
        console.print(f"{label}: geometric mean of the errors in the fourth quarter {mean:.4f} percent a day")


if __name__ == "__main__":
    with threadpool_limits(1, user_api="blas"):
        main()

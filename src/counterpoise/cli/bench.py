"""``counterpoise bench``: objectives and times of all methods on simulated data."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import counterpoise as cp
from counterpoise import compiling
from counterpoise.checks import whole_number
from counterpoise.cli import options
from counterpoise.cli.base import app, command
from counterpoise.cli.results import print_json
from counterpoise.datasets import simulate_market

METHODS = ("psg", "mscr", "pdca", "bcd-g", "swap", "search")
SPARSE, LAM = 30, 1e4


@command(app.command())
def bench(
    *,
    size: Annotated[int, "Coordinates of each problem."] = 400,
    starts: Annotated[int, "Starts per method; the table shows medians."] = 3,
    seconds: Annotated[float, "Time limit of a run in seconds."] = 1.0,
    manners: options.Manners,
) -> None:
    """Measure every method on three simulated problems, from the same starts, with one thread each.

    Example: counterpoise bench --size 200 --starts 5
    """
    size = whole_number(size, "--size", 2 * SPARSE, 6000)
    starts = whole_number(starts, "--starts", 1, 100)
    options.check_seconds(seconds)
    console = Console(highlight=False, stderr=manners.as_json, quiet=manners.quiet and not manners.as_json)
    found: list[dict[str, Any]] = []
    with threadpool_limits(1, user_api="blas"):
        for name, make in _problems(size).items():
            with console.status(f"{name}: running …") as status, compiling.listening(status.update):
                rows = _measure(name, make(), starts, seconds)
            found += rows
            if not manners.as_json:
                console.print(_table(name, size, rows), "")
    if manners.as_json:
        print_json({"size": size, "starts": starts, "seconds": seconds, "runs": found})
    elif not manners.quiet:
        console.print("Medians over the starts. Certified: how many runs ended with a proof over all pairs.")


def _problems(n: int) -> dict[str, Callable[[], cp.Problem]]:
    from counterpoise.problems import DCPB2, NNSPCA, SIT

    rng = np.random.default_rng(0)
    market = simulate_market(252, n, 10, 0)
    A = rng.standard_normal((n, n))
    return {
        "SIT": lambda: SIT(market.returns, market.index, s=SPARSE, lam=LAM),
        "NNSPCA": lambda: NNSPCA(A, s=SPARSE, lam=LAM),
        "DCPB2": lambda: DCPB2(A, 0.0, c=n % 2, lam=LAM),
    }


def _measure(name: str, problem: cp.Problem, starts: int, seconds: float) -> list[dict[str, Any]]:
    """Return one row per method: median objective and seconds, and the number of certified runs."""
    rows = []
    for method in METHODS:
        _timed(problem, method, 0, 0.05)  # compiles
        results, times = zip(*(_timed(problem, method, seed, seconds) for seed in range(starts)), strict=True)
        rows.append(
            {
                "problem": name,
                "method": method,
                "objective": float(np.median([result.objective for result in results])),
                "seconds": float(np.median(times)),
                "certified": sum(bool(result.success) for result in results),
                "starts": starts,
            }
        )
    return rows


def _timed(problem: cp.Problem, method: str, seed: int, seconds: float) -> tuple[cp.Result, float]:
    """Run a method from a random start; return its result and seconds. Ctrl-C ends all runs."""
    clock = time.perf_counter()
    result = cp.minimize(problem, problem.start(seed), method, max_time=seconds, seed=seed)
    if result.status is cp.Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result, time.perf_counter() - clock


def _table(name: str, size: int, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=f"{name}, n = {size}", title_justify="left")
    for head in ("method", "objective", "above the best", "seconds", "certified"):
        table.add_column(head, justify="left" if head == "method" else "right", no_wrap=True)
    best = min(row["objective"] for row in rows)
    for row in rows:
        gap = (row["objective"] - best) / max(abs(best), 1e-300)
        style = "bold" if gap <= 1e-9 else ""
        certified = f"{row['certified']} of {row['starts']}"
        table.add_row(
            row["method"], f"{row['objective']:.5g}", f"{gap:.2%}", f"{row['seconds']:.3f}", certified, style=style
        )
    return table

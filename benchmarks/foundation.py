"""Speed of the foundation: a pair step, a run to a certified point, a certificate, a process.

Run ``make bench``. All data is simulated. Figures are printed next to their targets, but nothing is asserted, because
a busy machine is slow, not wrong.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

import counterpoise as cp
from counterpoise.datasets import simulate_market
from counterpoise.kernels import sweep
from counterpoise.kernels.dispatch import entry_point
from counterpoise.kernels.pair import accept, is_live, pair_step
from counterpoise.problems import DCPB1, DCPB2, NNSPCA, SIT

NAMES = ("SIT", "NNSPCA", "DCPB1", "DCPB2")
DAYS, ROWS, HELD = 252, 256, 30
PAIRS, REPEATS, SEEDS = 100_000, 7, 5
console = Console(highlight=False)

# What a script does first; it tells the time at which it has its result.
FIRST_RESULT = """
import sys, time
sys.path.insert(0, sys.argv[1])
from foundation import make
import counterpoise as cp
assert cp.minimize(make(sys.argv[2], 100, seed=0)).success
print(time.time())
"""


def make(name: str, n: int, seed: int, s: int = HELD, lam: float = 1e3) -> cp.Problem:
    """Return a simulated problem; ``s`` and ``lam`` are those of SIT and NNSPCA."""
    if name == "SIT":
        market = simulate_market(DAYS, n, seed=seed)
        return SIT(market.returns, market.index, s=s, lam=lam)
    rng = np.random.default_rng(seed)
    A, y = rng.standard_normal((ROWS, n)), rng.standard_normal(ROWS)
    if name == "NNSPCA":
        return NNSPCA(A, s=s, lam=lam)
    return DCPB1(A, y, c=0, lam=1e4) if name == "DCPB1" else DCPB2(A, y, c=0, lam=1e4)


@entry_point
def draw_live_pairs(terms: Any, x: Any, pairs: Any, rng: Any) -> None:
    """Fill ``pairs`` with random live pairs."""
    count, n = 0, len(x)
    while count < len(pairs):
        i, j = int(rng.random() * n), int(rng.random() * n)
        if i != j and is_live(terms.u, terms, x, i, j):
            pairs[count, 0], pairs[count, 1] = i, j
            count += 1


@entry_point
def try_pairs(terms: Any, x: Any, pairs: Any, accepting: bool) -> float:
    """Solve every pair; if ``accepting``, also move there and back, so that the next pair meets the same point."""
    total = 0.0
    for k in range(len(pairs)):
        i, j = pairs[k]
        new_i, new_j, gain = pair_step(terms.u, terms, x, i, j, 0.0)
        total += gain
        if accepting:
            old_i, old_j = x[i], x[j]
            accept(terms, x, i, new_i, j, new_j)
            accept(terms, x, i, old_i, j, old_j)
    return total


def best_time(function: Callable[..., Any], *args: Any, repeats: int = REPEATS) -> float:
    """Return the least seconds of several calls."""
    seconds = []
    for _ in range(repeats):
        clock = time.perf_counter()
        function(*args)
        seconds.append(time.perf_counter() - clock)
    return min(seconds)


def state_at(problem: cp.Problem, x: npt.NDArray[np.float64]) -> tuple[Any, npt.NDArray[np.float64]]:
    """Return the problem for kernels at a copy of x."""
    terms, x = problem.terms(), x.copy()
    sweep.start(terms, x)
    return terms, x


def certified_point(problem: cp.Problem, seed: int = 0) -> cp.Result:
    """Solve a problem; a run without limits ends in no other way than certified."""
    result = cp.minimize(problem, seed=seed)
    assert result.success, result.message
    return result


def new_table(title: str, *columns: str) -> Table:
    """Return a table whose figures stand at the right, after the problem's name."""
    table = Table(title=title, title_justify="left")
    for k, column in enumerate(columns):
        table.add_column(column, justify="right" if k else "left", no_wrap=True)
    return table


def pair_steps(n: int = 500) -> Table:
    """(a) Nanoseconds per pair."""
    columns = ("problem", "trial at start", "trial at end", "target", "trial + accept")
    table = new_table(f"Nanoseconds per pair, n = {n}", *columns)
    for name in NAMES:
        problem = make(name, n, seed=0)
        nanoseconds = []
        for x in (problem.start(seed=0), certified_point(problem).x):
            terms, x = state_at(problem, x)
            pairs = np.empty((PAIRS, 2), dtype=np.int64)
            draw_live_pairs(terms, x, pairs, np.random.default_rng(0))
            for accepting in (False, True):
                try_pairs(terms, x, pairs[:1], accepting)
                nanoseconds.append(best_time(try_pairs, terms, x, pairs, accepting) / PAIRS * 1e9)
        # At the end no pair moves, so only the start tells the price of a step. It was taken there and back.
        at_start, there_and_back, at_end, _ = nanoseconds
        step = at_start + 0.5 * (there_and_back - at_start)
        target = "≤ 600" if name == "NNSPCA" else "≤ 100"
        table.add_row(name, f"{at_start:.0f}", f"{at_end:.0f}", target, f"{step:.0f}")
    return table


def runs() -> Table:
    """(b) Time to a certified point, with AᵀA (a new problem) and without (the same problem again)."""
    columns = ("problem", "new", "again", "target", "iterations", "F")
    table = new_table(f"Milliseconds to a certified point, median of {SEEDS} seeds", *columns)
    cases: list[tuple[str, int, dict[str, Any], str]] = [(name, n, {}, "") for name in NAMES for n in (100, 500, 2000)]
    cases.insert(3, ("SIT", 470, {"s": 10, "lam": 1e3}, "≤ 5"))
    for name, n, options, target in cases:
        rows = []
        for seed in range(SEEDS):
            problem = make(name, n, seed, **options)
            new, again = certified_point(problem, seed), certified_point(problem, seed)
            rows.append((1e3 * new.time, 1e3 * again.time, again.nit, again.objective))
        new_ms, again_ms, iterations, objective = (statistics.median(column) for column in zip(*rows, strict=True))
        label = f"{name} n={n}" + (f" m={DAYS} s=10 lam=1e3" if options else "")
        table.add_row(label, f"{new_ms:.1f}", f"{again_ms:.1f}", target, f"{iterations:.0f}", f"{objective:.5g}")
    return table


def certificates() -> Table:
    """(c) The scan that proves a point, pruned and over all pairs."""
    columns = ("problem", "pruned", "target", "all pairs", "ratio")
    table = new_table(f"Milliseconds to certify a certified point, s = {HELD}", *columns)
    for name in NAMES:
        for n in (500, 5000):
            problem = make(name, n, seed=0)
            terms, x = state_at(problem, certified_point(problem).x)
            pruned = 1e3 * best_time(sweep.scan, terms, x, 0.0, np.inf, repeats=20)
            every = 1e3 * best_time(sweep.scan_all, terms, x, 0.0, repeats=2)
            target = "≤ 0.3" if (name, n) == ("SIT", 5000) else ""
            table.add_row(f"{name} n={n}", f"{pruned:.3f}", target, f"{every:.1f}", f"{every / pruned:.0f}")
    return table


def processes() -> Table:
    """(d) A fresh process to its first result, with an empty cache and with a full one."""
    columns = ("problem", "cold cache", "target", "warm cache", "target", "ratio")
    table = new_table("Seconds from process start to first result", *columns)
    for name in NAMES:
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = seconds_to_first_result(name, cache), seconds_to_first_result(name, cache)
        table.add_row(name, f"{cold:.1f}", "≤ 20", f"{warm:.2f}", "≤ 1.5", f"{cold / warm:.0f}")
    return table


def seconds_to_first_result(name: str, cache: str) -> float:
    """Start a Python that solves one small problem."""
    package = str(Path(cp.__file__).parents[1])
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": package}
    command = [sys.executable, "-c", FIRST_RESULT, str(Path(__file__).parent), name]
    clock = time.time()
    return float(subprocess.check_output(command, env=environment, text=True)) - clock


if __name__ == "__main__":
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "as many as it likes")
    console.print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the run, BLAS threads: {threads}\n")
    for measure in (pair_steps, runs, certificates, processes):
        with console.status(f"Measuring: {measure.__name__} …"):
            measured = measure()
        console.print(measured)

"""How near to the best value known a search comes, how soon, and against what else: ``make bench-search``.

The best value known is the least over a long search of this run, all its other searches, and what earlier runs have
seen (``BEST_SEEN``). Sets are found in the folder named by COUNTERPOISE_DATA.
"""

from __future__ import annotations

import argparse
import math
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import counterpoise as cp
from counterpoise.experiments import sets
from counterpoise.problems import DCPB2, NNSPCA, SIT

TRACKING = ("NAS-16", "NAS-18", "NAS-20", "SP-16", "SP-18", "SP-20")
ORLIB = (1, 2, 3, 5)
EXACT = 1e6
# Least objectives seen in any long run, to six digits at most.
BEST_SEEN = {
    "NAS-16 s=5": 11.7026,
    "NAS-16 s=10": 4.1468,
    "NAS-16 s=30": 0.594414,
    "SP-16 s=5": 8.98647,
    "SP-16 s=10": 3.39305,
    "SP-16 s=30": 0.54132,
    "SP-18 s=5": 10.3224,
    "SP-18 s=10": 3.80167,
    "SP-18 s=30": 0.577556,
    "SP-20 s=5": 17.419,
    "SP-20 s=10": 6.45033,
    "SP-20 s=30": 1.049,
    "ORLIB-5 s=30": 8.10295,
}
console = Console(highlight=False, width=120)


def tracking(folder: Path | None, sizes: tuple[int, ...]) -> Iterator[tuple[str, cp.Problem]]:
    """Yield index tracking in percent on the index sets and on the OR-Library's, those that are there."""
    found: dict[str, tuple[Any, Any]] = {}
    for name in TRACKING:
        try:
            data = sets.load(name, folder)
            found[name] = data.A, data.y
        except sets.Absent as absence:
            console.print(f"left out: {absence}")
    for number in ORLIB:
        file = None if folder is None else folder / "orlib_indtrack" / f"indtrack{number}.npz"
        if file is None or not file.exists():
            console.print(f"left out: OR-Library {number} is not in COUNTERPOISE_DATA")
            continue
        with np.load(file) as stored:
            prices, index = stored["prices"], stored["index"]
        found[f"ORLIB-{number}"] = 100.0 * (prices[1:] / prices[:-1] - 1.0), 100.0 * (index[1:] / index[:-1] - 1.0)
    for name, (A, y) in found.items():
        for s in sizes:
            if s < A.shape[1]:
                yield f"{name} s={s}", SIT(A, y, s, EXACT)


def blocks(
    folder: Path | None,
    names: tuple[str, ...],
    make: Callable[[Any, int], cp.Problem],
    values: tuple[int, ...],
    letter: str,
) -> Iterator[tuple[str, cp.Problem]]:
    """Yield a problem on blocks of data."""
    for name in names:
        try:
            A = sets.load(name, folder).A
        except sets.Absent as absence:
            console.print(f"left out: {absence}")
            continue
        for value in values:
            yield f"{name} {letter}={value}", make(A, value)


def compare(
    title: str, cells: Iterator[tuple[str, cp.Problem]], budgets: tuple[float, ...], long: float, seeds: int
) -> None:
    """Print for each cell the best known, and the gap of each budget: the mean over seeds, and the worst."""
    table = Table(title=title, title_justify="left")
    for head in ("cell", "best known", "BCD-g", "swap", *(f"{b:g} s" for b in budgets), "worst"):
        table.add_column(head, justify="left" if head == "cell" else "right")
    gaps: list[list[float]] = []
    warm = False
    for name, problem in cells:
        problem.f.Q  # noqa: B018
        if not warm:
            cp.minimize(problem, method="search", work=16)
            warm = True
        descent = cp.minimize(problem)
        plain = [descent.objective]
        plain.append(
            cp.minimize(problem, descent.x, "swap").objective if isinstance(problem.g, cp.TopSum) else math.nan
        )

        def found(seconds: float, seed: int, problem: cp.Problem = problem) -> float:
            return float(cp.minimize(problem, method="search", max_time=seconds, seed=seed, n_jobs=-1).objective)

        values = [[found(b, s) for s in range(seeds)] for b in budgets]
        best = min(found(long, 99), *(v for row in values for v in row))
        best = min(best, BEST_SEEN.get(name, math.inf))
        row = [float(np.mean([gap(v, best) for v in each])) for each in values]
        gaps.append(row)
        worst = max(gap(v, best) for v in values[-1])
        table.add_row(
            name, f"{best:.6g}", *(_percent(gap(v, best)) for v in plain), *map(_percent, row), _percent(worst)
        )
    if gaps:
        mean = [math.expm1(float(np.mean(np.log1p(column)))) for column in zip(*gaps, strict=True)]
        table.add_row("geometric mean", "", "", "", *map(_percent, mean), "", style="bold")
    console.print(table)


def gap(value: float, best: float) -> float:
    """Return how far a value is above the best, relative to it."""
    return max(0.0, (value - best) / abs(best))


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100.0 * share:.3f} %"


def large(n: int) -> None:
    """Time a million columns: certified, and swap-optimal; and the memory beside the data."""
    rng = np.random.default_rng(0)
    days, factors = 252, 10
    loadings = rng.standard_normal((factors, n)).astype(np.float32)
    A = (rng.standard_normal((days, factors)).astype(np.float32) @ loadings).astype(np.float32)
    for first in range(0, n, 50_000):  # noise in pieces, or it would be a second copy
        part = A[:, first : first + 50_000]
        part += rng.standard_normal(part.shape, dtype=np.float32) * 1.5
    y = A[:, : n // 100].mean(axis=1).astype(np.float64) + 0.1 * rng.standard_normal(days)
    console.print(f"n = {n:,}, m = {days}, float32, {A.nbytes / 1e9:.2f} GB")
    small = SIT(A[:, :7000], y, 30, 1e5)
    for method in ("bcd-g", "swap"):
        cp.minimize(small, method=method)  # compile
    for method in ("bcd-g", "swap"):
        clock = time.perf_counter()
        problem = SIT(A, y, 30, 1e5)
        built = time.perf_counter() - clock
        result = cp.minimize(problem, method=method)
        seconds = time.perf_counter() - clock
        console.print(
            f"  {method}: {result.status.name}, F = {result.objective:.6g}, {seconds:.2f} s "
            f"(of which {built:.2f} s to look at the data)"
        )
    tracemalloc.start()  # apart from the clocks, which it slows down
    cp.minimize(SIT(A, y, 30, 1e5), method="swap")
    console.print(f"  peak memory beside the data: {tracemalloc.get_traced_memory()[1] / A.nbytes:.2f} of it")
    tracemalloc.stop()


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", type=float, default=5.0, help="seconds of the search that sets the best known")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--parts", nargs="+", default=["tracking", "components", "binary", "large"])
    parser.add_argument("--columns", type=int, default=1_000_000)
    options = parser.parse_args()
    folder = sets.data_folder()
    if "tracking" in options.parts:
        cells = tracking(folder, (5, 10, 30))
        compare("Index tracking: gap to the best known", cells, (0.03, 0.1, 1.0), options.long, options.seeds)
    if "components" in options.parts:
        names, make = (
            ("randn-a", "MNIST-a", "Cifar-a", "randn-b", "MNIST-b", "Cifar-b"),
            lambda A, s: NNSPCA(A, s, EXACT),
        )
        cells = blocks(folder, names, make, (5, 10, 30, 60), "s")
        compare("Non-negative sparse PCA: gap to the best known", cells, (0.1, 0.5), options.long, options.seeds)
    if "binary" in options.parts:
        images = ("randn-a", "MNIST-a", "randn-b", "MNIST-b")
        cells = blocks(folder, images, lambda A, c: DCPB2(A, 0.0, c, EXACT), (0, 30, 100), "c")
        compare("Binary least squares: gap to the best known", cells, (0.1, 1.0), options.long, options.seeds)
    if "large" in options.parts:
        large(options.columns)


if __name__ == "__main__":
    main()

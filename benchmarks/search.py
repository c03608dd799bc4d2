"""How close a search comes to the best known value, how soon, and compared with peers: ``make bench-search``.

The best known value is the smallest of a long search in this run, all its other searches, all peers, and earlier runs
(``BEST_SEEN``). Sets are read from the folder named by COUNTERPOISE_DATA. Peers that are not installed are skipped with
a message. The same function scores all methods, and compilation is not timed.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent / "nnspca"))
import benchmark_utils
from benchmark_utils.portfolios import by_skfolio, forward_selection
from benchmark_utils.power import truncate, truncated_power

import counterpoise as cp
from counterpoise.experiments import sets
from counterpoise.problems import DCPB2, NNSPCA, SIT

TRACKING = ("NAS-16", "NAS-18", "NAS-20", "SP-16", "SP-18", "SP-20")
ORLIB = (1, 2, 3, 5)
EXACT = 1e6
# Where SCIP gets its minute: one cell of each kind, because each takes it whole.
MINUTE = ("NAS-16 s=10", "SP-16 s=30", "SP-18 s=30", "SP-20 s=30")
# λ of the paper.
WEIGHTS = (1.0, 10.0, 100.0, 1e3, 1e4)
# Coordinates up to which SCIP is asked for a binary problem.
SMALL = 60
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
    "SP-20 s=30": 1.04887,
    "ORLIB-5 s=30": 8.10295,
}


class Cell(NamedTuple):
    """A problem with its name, and the data it was made of."""

    name: str
    problem: cp.Problem
    A: Any
    y: Any
    number: int


# A point, or None where the peer is not asked.
Peer = Callable[[Cell], Any]
console = Console(highlight=False, width=150)


def tracking(folder: Path | None, sizes: tuple[int, ...]) -> Iterator[Cell]:
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
                yield Cell(f"{name} s={s}", SIT(A, y, s, EXACT), A, y, s)


def positions(folder: Path | None) -> Iterator[Cell]:
    """Yield least variance with minimum positions, Frangioni's and Gentile's instances without the row of returns."""
    files = [] if folder is None else sorted((folder / "portfolios").glob("pard*.npz"))
    if not files:
        console.print("left out: portfolios/pard*.npz are not in COUNTERPOISE_DATA")
    for file in files:
        with np.load(file) as stored:
            Q, lo, hi = stored["Q"], stored["lo"], stored["hi"]
            # The optimum with the row of returns, which can only be higher.
            console.print(f"{file.stem}: at most {float(stored['best_upper']):.6g} is published, with a least return")
        yield Cell(
            file.stem, cp.Problem(cp.Quadratic(2.0 * Q), cp.SemiContinuous(lo, hi), u=cp.Sum(1)), Q, None, len(lo)
        )


def position_peers(seconds: float) -> dict[str, Peer]:
    """Return descents by exchanges from random starts, and the convex program cut to what floors allow."""

    def starts(cell: Cell) -> Any:
        end, best, seed = time.perf_counter() + seconds, None, 0
        while time.perf_counter() < end:
            found = cp.minimize(cell.problem, method="swap", seed=seed, max_time=max(end - time.perf_counter(), 1e-3))
            best = found if best is None or found.objective < best.objective else best
            seed += 1
        return None if best is None else best.x

    def rounded(cell: Cell) -> Any:
        h = cell.problem.separable
        dense = cp.minimize(cp.Problem(cell.problem.f, cp.Bounds(0.0, h.hi), u=cp.Sum(1))).x
        return cp.minimize(cell.problem, x0=cell.problem.project(dense), method="swap").x

    return {f"random starts, exchanges, {seconds:g} s": starts, "convex, rounded, exchanges": rounded}


def blocks(
    folder: Path | None,
    names: tuple[str, ...],
    make: Callable[[Any, int], cp.Problem],
    values: tuple[int, ...],
    letter: str,
) -> Iterator[Cell]:
    """Yield a problem on blocks of data."""
    for name in names:
        try:
            A = sets.load(name, folder).A
        except sets.Absent as absence:
            console.print(f"left out: {absence}")
            continue
        for value in values:
            yield Cell(f"{name} {letter}={value}", make(A, value), A, np.zeros(len(A)), value)


def small(n: int, values: tuple[int, ...]) -> Iterator[Cell]:
    """Yield binary problems that SCIP can be asked for."""
    A = np.random.default_rng(0).standard_normal((n, n))
    for c in values:
        yield Cell(f"randn {n} c={c}", DCPB2(A, 0.0, c, EXACT), A, np.zeros(n), c)


def compare(
    title: str, cells: Iterator[Cell], budgets: tuple[float, ...], long: float, seeds: int, peers: Mapping[str, Peer]
) -> None:
    """Print for each cell the best known, the gap of each budget (mean over seeds, and the worst), and each peer's."""
    table = Table(title=title, title_justify="left")
    own = ("BCD-g", "swap", *(f"{b:g} s" for b in budgets), "worst")
    for head in ("cell", "best known", *own, *peers):
        table.add_column(head, justify="left" if head == "cell" else "right")
    gaps: list[list[float]] = []
    lead: dict[str, list[bool]] = {name: [] for name in peers}
    warm = False
    for cell in cells:
        name, problem = cell.name, cell.problem
        problem.f.Q  # noqa: B018
        if not warm:
            # The paper's opponents take no floors.
            for method in ("search", "swap", *(() if math.isinf(problem.g.lam) else ("psg", "mscr", "pdca"))):
                cp.minimize(problem, method=method, **{"work" if method == "search" else "max_iter": 16})
            warm = True
        descent = cp.minimize(problem)
        plain = [descent.objective, cp.minimize(problem, descent.x, "swap").objective]

        def found(seconds: float, seed: int, problem: cp.Problem = problem) -> float:
            return float(cp.minimize(problem, method="search", max_time=seconds, seed=seed, n_jobs=-1).objective)

        values = [[found(b, s) for s in range(seeds)] for b in budgets]
        others = {peer: _timed(solve, cell) for peer, solve in peers.items()}
        best = min(found(long, 99), BEST_SEEN.get(name, math.inf), *(v for row in values for v in row))
        best = min(best, *(value for value, _ in others.values()), *plain)
        row = [float(np.mean([gap(v, best) for v in each])) for each in values]
        gaps.append(row)
        for peer, (value, seconds) in others.items():
            if math.isfinite(value):
                # With no more time than the peer took, or the least that was given.
                ours = values[max((k for k, b in enumerate(budgets) if b <= seconds), default=0)]
                lead[peer].append(max(ours) <= value + 1e-9 * abs(value))
        worst = max(gap(v, best) for v in values[-1])
        table.add_row(
            name,
            f"{best:.6g}",
            *(_percent(gap(v, best)) for v in plain),
            *map(_percent, row),
            _percent(worst),
            *(f"{_percent(gap(v, best))} {t:.2g} s" if math.isfinite(v) else "–" for v, t in others.values()),
        )
    if gaps:
        mean = [math.expm1(float(np.mean(np.log1p(column)))) for column in zip(*gaps, strict=True)]
        ahead = [f"ahead {sum(each)} of {len(each)}" if each else "–" for each in lead.values()]
        table.add_row("geometric mean", "", "", "", *map(_percent, mean), "", *ahead, style="bold")
    console.print(table)
    if gaps and peers:
        console.print(
            f"ahead: below the peer or equal to 1e-9, with the worst seed and no more time than it or {budgets[0]:g} s."
        )


def _timed(solve: Peer, cell: Cell) -> tuple[float, float]:
    """Return the objective of a peer's point, infinite if it has none, and its seconds."""
    clock = time.perf_counter()
    x = solve(cell)
    seconds = time.perf_counter() - clock
    return (math.inf if x is None else cell.problem.objective(x)), seconds


def installed(package: str) -> bool:
    """Whether a package is there; if not, say that its peer is left out."""
    there = importlib.util.find_spec(package) is not None
    if not there:
        console.print(f"left out: {package} is not installed")
    return there


def tracking_peers(minute: float) -> dict[str, Peer]:
    """Return forward selection, and skfolio's mixed-integer program where it gets its time."""
    peers: dict[str, Peer] = {"forward + QP": lambda cell: forward_selection(cell.A, cell.y, cell.number, 20)}
    if minute > 0.0 and installed("skfolio") and installed("pyscipopt"):
        peers["skfolio, SCIP"] = lambda cell: (
            by_skfolio(cell.A, cell.y, cell.number, minute) if cell.name in MINUTE else None
        )
    return peers


def component_peers() -> dict[str, Peer]:
    """Return the truncated power method and abess, whose loadings are cut to those of one sign."""
    peers: dict[str, Peer] = {"truncated power": lambda cell: truncated_power(cell.A, cell.number)}
    if installed("abess"):
        from abess.decomposition import SparsePCA

        def by_abess(cell: Cell) -> Any:
            # It centres the data and knows no signs, so it gets AᵀA, and what has the other sign is lost.
            moments = cell.A.T @ cell.A
            moments[np.diag_indices_from(moments)] += 1e-9 * np.trace(moments)  # else it takes rounding for a fault
            model = SparsePCA(support_size=cell.number).fit(Sigma=moments, n=len(cell.A))
            loadings = np.asarray(model.coef_, dtype=np.float64).ravel()
            both = (truncate(sign * loadings, cell.number) for sign in (1.0, -1.0))
            return max(both, key=lambda x: float(np.linalg.norm(cell.A @ x)))

        peers["abess"] = by_abess
    return peers


def binary_peers(seconds: float, minute: float) -> dict[str, Peer]:
    """Return the paper's three at their strongest, D-Wave's tabu search, and SCIP where it may succeed.

    The three get several λ, because with a large one they rest where they start; their points are rounded.
    """

    def opponent(method: str, **options: Any) -> Peer:
        def solve(cell: Cell) -> Any:
            points = []
            for lam in WEIGHTS:
                problem = cell.problem.variant(lam=lam)
                x = cp.minimize(problem, method=method, max_time=seconds / len(WEIGHTS), **options).x
                binary = np.full(len(x), -1.0)
                binary[np.argsort(-x, kind="stable")[: (len(x) + cell.number) // 2]] = 1.0
                points.append(binary)
            return min(points, key=cell.problem.objective)

        return solve

    peers = {
        "PSG": opponent("psg", step="grid"),
        "MSCR": opponent("mscr", inner="exact"),
        "PDCA": opponent("pdca", extrapolate=True),
    }
    benchmark_utils.__path__.append(str(Path(__file__).parent / "binary" / "benchmark_utils"))
    if installed("dwave"):
        from benchmark_utils.qubo import best_repaired, spin_model
        from dwave.samplers import TabuSampler

        def tabu(cell: Cell) -> Any:
            model = spin_model(cell.A, cell.y, cell.number, 0.05)
            samples = TabuSampler().sample(model, num_reads=4, timeout=round(250.0 * seconds), seed=0)
            return best_repaired(cell.A, cell.y, cell.number, samples)

        peers["dwave tabu"] = tabu
    if minute > 0.0 and installed("pyscipopt"):
        from benchmark_utils.mixed_integer import by_scip

        peers["SCIP"] = lambda cell: by_scip(cell.A, cell.y, cell.number, minute) if cell.A.shape[1] <= SMALL else None
    return peers


def gap(value: float, best: float) -> float:
    """Return how far a value is above the best, relative to it."""
    return max(0.0, (value - best) / abs(best))


def _percent(share: float) -> str:
    return f"{100.0 * share:.2f} %" if share < 1.0 else f"{100.0 * share:.3g} %"


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
    parser.add_argument("--minute", type=float, default=60.0, help="seconds of SCIP; 0 leaves it out")
    parser.add_argument("--parts", nargs="+", default=["tracking", "components", "binary", "positions", "large"])
    parser.add_argument("--columns", type=int, default=1_000_000)
    asked = parser.parse_args()
    folder, effort = sets.data_folder(), (asked.long, asked.seeds)
    if "tracking" in asked.parts:
        cells = tracking(folder, (5, 10, 30))
        compare("Index tracking: gap to the best known", cells, (0.1, 1.0), *effort, tracking_peers(asked.minute))
    if "components" in asked.parts:
        for letter, budget in (("a", 0.1), ("b", 0.5)):
            names = tuple(f"{name}-{letter}" for name in ("randn", "MNIST", "Cifar"))
            cells = blocks(folder, names, lambda A, s: NNSPCA(A, s, EXACT), (5, 10, 30, 60), "s")
            compare("Non-negative sparse PCA: gap to the best known", cells, (budget,), *effort, component_peers())
    if "binary" in asked.parts:
        images, peers = ("randn-a", "MNIST-a", "randn-b", "MNIST-b"), binary_peers(1.0, asked.minute)
        cells = blocks(folder, images, lambda A, c: DCPB2(A, 0.0, c, EXACT), (0, 30, 100), "c")
        compare("Binary least squares: gap to the best known", cells, (0.1, 1.0), *effort, peers)
        compare("The same, small", small(50, (0, 10, 30)), (0.1,), *effort, peers)
    if "positions" in asked.parts:
        title, peers = "Minimum positions: gap to the best known", position_peers(1.0)
        compare(title, positions(folder), (0.1, 1.0, 10.0), *effort, peers)
    if "large" in asked.parts:
        large(asked.columns)


if __name__ == "__main__":
    main()

"""BCD-g against PSG, MSCR and PDCA at their strongest settings, from the same starts: ``make bench-opponents``.

For every cell (set, s or c, λ) the mean final objective over the starts is compared, and for every start the time at
which BCD-g passes the best final value of the three with the time at which that opponent reached it. The real sets are
found in the folder named by COUNTERPOISE_DATA; those that are absent are left out with a line.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import counterpoise as cp
from counterpoise.problems import DCPB1, DCPB2, NNSPCA, SIT

OPPONENTS: dict[str, dict[str, Any]] = {
    "psg": {"step": "grid"},
    "mscr": {"inner": "exact"},
    "pdca": {"extrapolate": True},
}
LAMBDAS = (1.0, 1e1, 1e2, 1e3, 1e4)
TRACKING_SETS = ("NAS-16", "NAS-18", "NAS-20", "SP-16", "SP-18", "SP-20")
# Equal means equal to this, relative: MSCR and PDCA end at the same point but for rounding.
TIE = 1e-4
console = Console(highlight=False)


class Cell(NamedTuple):
    """One comparison: a name, its λ, and the problem."""

    problem: str
    name: str
    lam: float
    make: Callable[[], cp.Problem]


class Outcome(NamedTuple):
    """Mean objectives of BCD-g and of the best opponent, its name, and the speed ratios of the starts that have one."""

    cell: Cell
    ours: float
    theirs: float
    opponent: str
    speed: list[float]


def data_folder() -> Path | None:
    """Return the folder of real data, if there is one."""
    folder = os.environ.get("COUNTERPOISE_DATA")
    return Path(folder) if folder and Path(folder).is_dir() else None


def tracking_cells(folder: Path | None) -> Iterator[Cell]:
    """Yield index tracking on every set, returns in percent."""
    for name in TRACKING_SETS:
        if folder is None or not (folder / "index_tracking" / f"{name}.npz").exists():
            console.print(f"left out: {name} is not in COUNTERPOISE_DATA")
            continue
        with np.load(folder / "index_tracking" / f"{name}.npz") as data:
            A, y = 100.0 * data["R"], 100.0 * data["y"]
        for s in (5, 10, 30):
            for lam in LAMBDAS:
                yield Cell("SIT", f"{name} s={s}", lam, lambda A=A, y=y, s=s, lam=lam: SIT(A, y, s, lam))  # type: ignore[misc]


def matrix_cells(folder: Path | None) -> Iterator[Cell]:
    """Yield PCA and the binary problems on a Gaussian matrix and on a block of MNIST, 256 × 256."""
    rng = np.random.default_rng(0)
    sets = {"randn": rng.standard_normal((256, 256))}
    if folder is not None and (folder / "mnist5000" / "mnist5000.npz").exists():
        with np.load(folder / "mnist5000" / "mnist5000.npz") as data:
            pixels = data["X"].reshape(5000, -1) / 255.0
        sets["MNIST"] = pixels[np.ix_(rng.choice(5000, 256, False), rng.choice(pixels.shape[1], 256, False))]
    else:
        console.print("left out: MNIST is not in COUNTERPOISE_DATA")
    for name, A in sets.items():
        for lam in LAMBDAS:
            yield Cell("NNSPCA", f"{name} s=30", lam, lambda A=A, lam=lam: NNSPCA(A, 30, lam))  # type: ignore[misc]
            yield Cell("DCPB2", f"{name} c=30", lam, lambda A=A, lam=lam: DCPB2(A, 0.0, 30, lam))  # type: ignore[misc]
        yield Cell("DCPB1", f"{name} c=30", 1e4, lambda A=A: DCPB1(A, 0.0, 30, 1e4))  # type: ignore[misc]


def first_time(result: cp.Result, target: float) -> float | None:
    """Return when a run's objective first was at most ``target``, up to 1e-6 of it."""
    reached = np.flatnonzero(result.history[:, 2] <= target + 1e-6 * abs(target))
    return float(result.history[reached[0], 1]) if len(reached) else None


def compare(cell: Cell, starts: int, max_time: float) -> Outcome:
    """Run all methods from the same starts, one at a time."""
    finals: dict[str, list[float]] = {name: [] for name in ("bcd-g", *OPPONENTS)}
    problem, speed = cell.make(), []
    problem.f.Q  # noqa: B018  (the Gram matrix belongs to all of them)
    for seed in range(starts):
        x0 = problem.start(seed)
        runs = {name: cp.minimize(problem, x0, name, max_time=max_time, **OPPONENTS.get(name, {})) for name in finals}
        for name, run in runs.items():
            finals[name].append(run.objective)
        best = min(OPPONENTS, key=lambda name: runs[name].objective)
        ours, theirs = (first_time(runs[name], runs[best].objective) for name in ("bcd-g", best))
        if ours is not None and theirs is not None:
            speed.append(theirs / ours)
    means = {name: float(np.mean(values)) for name, values in finals.items()}
    opponent = min(OPPONENTS, key=lambda name: means[name])
    return Outcome(cell, means["bcd-g"], means[opponent], opponent, speed)


def verdict(outcome: Outcome) -> str:
    """Return won, tied or lost."""
    gap = outcome.ours - outcome.theirs
    if abs(gap) <= TIE * abs(outcome.theirs):
        return "tied"
    return "won" if gap < 0 else "lost"


def report(outcomes: list[Outcome], starts: int) -> None:
    """Print a line for every problem and λ, and every cell lost."""
    table = Table(title=f"BCD-g (hybrid) against the best of {', '.join(OPPONENTS)}, means of {starts} starts")
    for column in ("problem", "λ", "won", "tied", "lost", "best opponent / ours", "times sooner", "starts ahead"):
        table.add_column(column, justify="left" if column == "problem" else "right")
    for problem in dict.fromkeys(o.cell.problem for o in outcomes):
        for lam in LAMBDAS:
            group = [o for o in outcomes if (o.cell.problem, o.cell.lam) == (problem, lam)]
            if group:
                table.add_row(problem, f"{lam:g}", *summary(group, starts))
    console.print(table)
    lost = [o for o in outcomes if verdict(o) == "lost"]
    console.print(f"Cells lost: {len(lost)} of {len(outcomes)}")
    for o in lost:
        console.print(
            f"  {o.cell.problem} {o.cell.name} λ={o.cell.lam:g}: {o.ours:.6g} against {o.theirs:.6g} ({o.opponent})"
        )


def summary(group: list[Outcome], starts: int) -> list[str]:
    """Count verdicts, and average the ratios geometrically."""
    verdicts = [verdict(o) for o in group]
    ratios = [o.theirs / o.ours for o in group if o.ours * o.theirs > 0]
    if ratios and group[0].ours < 0:
        ratios = [1.0 / r for r in ratios]  # negative objectives: the larger magnitude is the better
    speed = [r for o in group for r in o.speed]
    return [
        *(str(verdicts.count(v)) for v in ("won", "tied", "lost")),
        f"{np.exp(np.mean(np.log(ratios))):.3g}" if ratios else "–",
        f"{np.exp(np.mean(np.log(speed))):.3g}" if speed else "–",
        f"{len(speed)}/{starts * len(group)}",
    ]


def blocks(folder: Path | None, starts: int) -> None:
    """Print BCD-l-k, linearised and nested, on SP-16 with s = 10 and λ = 1000."""
    cells = [] if folder is None else [c for c in tracking_cells(folder) if (c.name, c.lam) == ("SP-16 s=10", 1e3)]
    if not cells:
        return
    problem = cells[0].make()
    cp.minimize(problem, method="bcd-l", max_iter=5)  # compile before the clocks run
    table = Table(title=f"BCD-l-k on SP-16, s = 10, λ = 1000: mean (least) objective of {starts} starts, seconds")
    for column in ("k", "idle blocks", "linearised", "nested", "seconds"):
        table.add_column(column, justify="right")
    for k, idle in ((2, 10), (5, 10), (10, 10), (20, 10), (20, 40), (50, 10)):
        row, clock = [], time.perf_counter()
        for subproblem in ("linearised", "nested"):
            runs = [
                cp.minimize(
                    problem, None, "bcd-l", k=k, subproblem=subproblem, idle_blocks=idle, seed=seed, max_time=12.0
                )
                for seed in range(starts)
            ]
            values = [run.objective for run in runs]
            row.append(f"{np.mean(values):.3f} ({min(values):.3f})")
        table.add_row(str(k), str(idle), *row, f"{(time.perf_counter() - clock) / (2 * starts):.2f}")
    console.print(table)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--max-time", type=float, default=0.5, help="seconds for each run")
    parser.add_argument("--problems", nargs="+", default=["SIT", "NNSPCA", "DCPB1", "DCPB2"])
    parser.add_argument("--lams", nargs="+", type=float, default=list(LAMBDAS))
    options = parser.parse_args()
    folder = data_folder()
    every = [*tracking_cells(folder), *matrix_cells(folder)]
    cells = [cell for cell in every if cell.problem in options.problems and cell.lam in options.lams]
    for cell in {cell.problem: cell for cell in cells}.values():  # compile before the clocks run
        cp.minimize(cell.make(), max_iter=5)
    outcomes = [compare(cell, options.starts, options.max_time) for cell in track(cells, "comparing", console=console)]
    report(outcomes, options.starts)
    blocks(folder, options.starts)


if __name__ == "__main__":
    main()

"""Time and quality as the number of names grows: ``python benchmarks/names.py``.

``--full`` uses all sets and takes ten hours, most of them for long runs and SCIP; a quarter of an hour with
``--runs 0 --scip 0``.

The index sets compare a default ``IndexTracker(s).fit`` and ``search`` under time limits, for s from 5 to all names,
with forward selection and with the convex program truncated to s names and solved again. The convex problems are
simplex least squares, BCD-g with hundreds of names, and the dual of a support vector machine, compared with LIBSVM.
Gaps are relative to the best value of this run and of earlier ones (``BEST_SEEN``). Seconds are wall-clock time and, in
brackets, CPU time, which shows how busy the machine was. Sets are read from the folder named by COUNTERPOISE_DATA.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent / "sit"))
from benchmark_utils.portfolios import by_skfolio, forward_selection, on_support

import counterpoise as cp
from counterpoise.experiments import sets
from counterpoise.problems import SIT

FEW_SETS = ("NAS-20", "SP-16", "SP-20")
ALL_SETS = tuple(f"{market}-{year}" for market in ("NAS", "SP") for year in range(16, 21))
FEW_SIZES, ALL_SIZES = (10, 30, 60, 100, 200, 10_000), (5, 10, 30, 45, 60, 80, 100, 150, 200, 10_000)
# Objectives in percent squared, to six digits, of the best of long runs.
BEST_SEEN = {
    "SP-16 30": 0.54132, "SP-16 45": 0.220309, "SP-16 60": 0.10594, "SP-16 80": 0.0477349, "SP-16 100": 0.0250938,
    "SP-16 150": 0.00931732, "SP-16 200": 0.00779922,
    "SP-17 30": 0.389661, "SP-17 45": 0.163883, "SP-17 60": 0.0798993, "SP-17 80": 0.0367206, "SP-17 100": 0.0188546,
    "SP-17 150": 0.00678365, "SP-17 200": 0.00549517,
    "SP-18 30": 0.577556, "SP-18 45": 0.246162, "SP-18 60": 0.115667, "SP-18 80": 0.0513524, "SP-18 100": 0.0266491,
    "SP-18 150": 0.008872, "SP-18 200": 0.0068368,
    "SP-19 30": 0.474884, "SP-19 45": 0.204138, "SP-19 60": 0.10279, "SP-19 80": 0.0456541, "SP-19 100": 0.0229603,
    "SP-19 150": 0.00732588, "SP-19 200": 0.00528342,
    "SP-20 30": 1.04887, "SP-20 45": 0.520199, "SP-20 60": 0.324493, "SP-20 80": 0.219885, "SP-20 100": 0.183551,
    "SP-20 150": 0.159673, "SP-20 200": 0.1586,
}  # fmt: skip
console = Console(highlight=False, width=140)


class Timed(NamedTuple):
    """A value, and the seconds of the clock and of the processor that it took."""

    value: Any
    clock: float
    processor: float

    def __str__(self) -> str:
        return f"{self.clock:.2f} ({self.processor:.2f})"


class Row(NamedTuple):
    """What was found for one set and s: gaps to the best known by method, and seconds of the default."""

    name: str
    s: int
    fit: Timed
    gaps: dict[str, float]


def timed(work: Callable[[], Any], times: int = 1) -> Timed:
    """Run something, several times if asked, and return the fastest."""
    found = []
    for _ in range(times):
        clock, processor = time.perf_counter(), time.process_time()
        value = work()
        found.append(Timed(value, time.perf_counter() - clock, time.process_time() - processor))
    return min(found, key=lambda each: each.clock)


def convex_cut(problem: cp.Problem, A: Any, y: Any, s: int) -> Any:
    """Return the s largest weights of the convex program, solved again."""
    dense = cp.minimize(problem.variant(s=problem.n)).x
    return on_support(A, y, np.sort(np.argsort(-dense, kind="stable")[:s]))


def names(asked: argparse.Namespace) -> list[Row]:
    """Compare on the index sets."""
    table, rows = Table(title="Index tracking", title_justify="left"), []
    limits, peers = asked.seconds, ["forward", "convex, cut"] + (["skfolio, SCIP"] if asked.scip > 0.0 else [])
    for head in ("set", "s", "held", "best", "fit, s", "fit", *(f"{limit:g} s" for limit in limits), *peers):
        table.add_column(head, justify="right")
    for name in asked.sets:
        try:
            data = sets.load(name, sets.data_folder())
        except sets.Absent as absence:
            console.print(f"left out: {absence}")
            continue
        A, y, n = data.A, data.y, data.A.shape[1]
        cp.IndexTracker(5, random_state=0, work=4).fit(A, y)  # compile
        for s in sorted({min(s, n) for s in asked.sizes}):
            problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1), cp.AtMost(s), cp.Sum(1))
            problem.f.Q  # noqa: B018
            fit = timed(lambda: cp.IndexTracker(s, random_state=0).fit(A, y), 2)  # noqa: B023
            values = {"fit": [fit.value.result_.objective]}
            for limit in limits:
                runs = (cp.minimize(problem, method="search", max_time=limit, seed=k) for k in range(asked.seeds))
                values[f"{limit:g} s"] = [run.objective for run in runs]
            values["forward"] = [problem.objective(forward_selection(A, y, s, 8))] if s <= asked.forward else [math.nan]
            values["convex, cut"] = [problem.objective(convex_cut(problem, A, y, s))]
            if asked.scip > 0.0:
                values["skfolio, SCIP"] = [problem.objective(by_skfolio(A, y, s, asked.scip))]
            long = [
                cp.minimize(problem, method="search", max_time=asked.long, seed=90 + k, n_jobs=-1).objective
                for k in range(asked.runs)
            ]
            found = [value for each in values.values() for value in each if not math.isnan(value)]
            best = min(BEST_SEEN.get(f"{name} {s}", math.inf), *long, *found)
            # The worst seed counts.
            gaps = {what: max(max(each) / best - 1.0, 0.0) for what, each in values.items()}
            rows.append(Row(name, s, fit, gaps))
            held = np.count_nonzero(fit.value.coef_)
            table.add_row(
                name, str(s), str(held), f"{best:.6g}", str(fit), *(f"{100 * gap:.2f} %" for gap in gaps.values())
            )
    console.print(table)
    return rows


def convex(times: int) -> None:
    """Time problems without g, and BCD-g with hundreds of names."""
    table = Table(title="Convex problems and hundreds of names", title_justify="left")
    for head in ("problem", "ms (processor)", "status", "steps", "held", "gap", "tolerance"):
        table.add_column(head, justify="left" if head == "problem" else "right")
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((100, 1000)), rng.standard_normal(100)
    inside = A[:, :300] @ rng.dirichlet(np.ones(300)) + 0.01 * rng.standard_normal(100)
    B = rng.standard_normal((500, 400)) + rng.standard_normal((500, 1))
    z = B @ rng.dirichlet(np.ones(400)) + 0.1 * rng.standard_normal(500)
    cases = {
        "simplex least squares 100 × 1000": cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1), u=cp.Sum(1)),
        "the same, y near the hull": cp.Problem(cp.LeastSquares(A, inside), cp.Bounds(0, 1), u=cp.Sum(1)),
        **{f"BCD-g, 200 of 400, λ = {lam:g}": SIT(B, z, 200, lam) for lam in (1e4, 1.0, 0.1)},
        "BCD-g, at most 200 of 400": cp.Problem(cp.LeastSquares(B, z), cp.Bounds(0, 1), cp.AtMost(200), cp.Sum(1)),
        "BCD-g, at most 100 of 400": cp.Problem(cp.LeastSquares(B, z), cp.Bounds(0, 1), cp.AtMost(100), cp.Sum(1)),
    }
    try:
        data = sets.load("SP-20", sets.data_folder())
        f, few = cp.LeastSquares(data.A, data.y), cp.AtMost(150)
        cases["BCD-g, at most 150 of SP-20"] = cp.Problem(f, cp.Bounds(0, 1), few, cp.Sum(1))
        cases["BCD-g, 150 of SP-20, λ = 10000"] = SIT(data.A, data.y, 150, 1e4)
    except sets.Absent as absence:
        console.print(f"left out: {absence}")
    for name, problem in cases.items():
        problem.f.Q  # noqa: B018
        cp.minimize(problem)  # compile
        run = timed(lambda: cp.minimize(problem), times)  # noqa: B023
        result, gap = run.value, run.value.support_gap if run.value.convex_gap is None else run.value.convex_gap
        table.add_row(
            name, f"{1e3 * run.clock:.0f} ({1e3 * run.processor:.0f})", result.status.name, str(result.nit),
            str(np.count_nonzero(result.x)), "–" if gap is None else f"{gap:.1e}", f"{result.tolerance:.1e}",
        )  # fmt: skip
    console.print(table)


def machine(times: int) -> None:
    """Solve the dual of a support vector machine beside LIBSVM, on the same kernel matrix.

    BCD-g is timed to its own end, and until its F is no more than that of LIBSVM.
    """
    from sklearn.datasets import make_classification
    from sklearn.svm import SVC

    table = Table(title="Dual of a support vector machine, n = 2000", title_justify="left")
    for head in ("", "ms (processor)", "objective above the least", "free"):
        table.add_column(head, justify="left" if not head else "right")
    for C, separation in ((1.0, 1.0), (10.0, 0.7)):
        X, labels = make_classification(2000, 20, n_informative=10, class_sep=separation, random_state=0)
        labels, squares = 2.0 * labels - 1.0, (X**2).sum(axis=1)
        K = np.exp(-(squares[:, None] + squares - 2.0 * X @ X.T) / (20.0 * X.var()))
        lo, hi = np.where(labels > 0, 0.0, -C), np.where(labels > 0, C, 0.0)
        # With z = label·a the dual is min ½zᵀKz − labelsᵀz, Σz = 0.
        problem = cp.Problem(cp.Quadratic(K, -labels), cp.Bounds(lo, hi), u=cp.Sum(0))
        cp.minimize(problem, np.zeros(2000))
        own = timed(lambda: cp.minimize(problem, np.zeros(2000)), times)  # noqa: B023
        found = {"BCD-g": (own, own.value.x)}
        for tol in (1e-3, 1e-6):
            peer = timed(lambda: SVC(C=C, kernel="precomputed", tol=tol).fit(K, labels), times)  # noqa: B023
            a = np.zeros(2000)
            a[peer.value.support_] = peer.value.dual_coef_[0]
            found[f"LIBSVM, tol = {tol:g}"] = peer, a
            goal = problem.objective(a)
            ends = lambda progress: progress.objective <= goal  # noqa: E731, B023
            own = timed(lambda: cp.minimize(problem, np.zeros(2000), callback=ends), times)  # noqa: B023
            found[f"BCD-g, until F is that of tol = {tol:g}"] = own, own.value.x
        least = min(problem.objective(x) for _, x in found.values())
        for what, (run, x) in found.items():
            free = np.count_nonzero((np.abs(x) > 1e-9) & (np.abs(x) < C - 1e-9))
            above = f"{problem.objective(x) - least:.1e}"
            table.add_row(f"C = {C:g}, {what}", f"{1e3 * run.clock:.0f} ({1e3 * run.processor:.0f})", above, str(free))
    console.print(table)


def draw(rows: list[Row], file: Path) -> None:
    """Draw seconds of the default fit, and gaps, against s."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "names"
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained")
    for name in dict.fromkeys(row.name for row in rows):
        own = [row for row in rows if row.name == name]
        at = [row.s for row in own]
        (line,) = left.plot(at, [row.fit.processor for row in own], marker="o", markersize=3, label=name)
        for what, dash in (("fit", "-"), ("forward", ":"), ("convex, cut", "--")):
            gaps = [100.0 * row.gaps[what] for row in own]
            right.plot(at, gaps, dash, marker="o", markersize=3, color=line.get_color())
    left.set(xscale="log", xlabel="names, s", ylabel="default fit, processor seconds", ylim=(0.0, None))
    right.set(xscale="log", xlabel="names, s", ylabel="above the best known, %", yscale="symlog", ylim=(0.0, None))
    for what, dash in (("default fit", "-"), ("forward selection", ":"), ("convex program, cut", "--")):
        right.plot([], [], dash, color="black", label=what)
    left.legend(fontsize=8)
    right.legend(fontsize=8)
    figure.savefig(file, metadata={"Date": None})
    console.print(f"drawn: {file}")


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all sets and sizes, long runs, SCIP for a minute a cell")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--sizes", nargs="+", type=int)
    parser.add_argument("--seconds", nargs="+", type=float, help="time limits of searches")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--long", type=float, help="seconds of each search that sets the best known")
    parser.add_argument("--runs", type=int, help="how many of those")
    parser.add_argument("--forward", type=int, default=100, help="names up to which forward selection is asked")
    parser.add_argument("--scip", type=float, help="seconds of SCIP; 0 leaves it out")
    parser.add_argument("--parts", nargs="+", default=["names", "convex", "svm"])
    parser.add_argument("--plot", type=Path, help="an SVG file for time and gap against s")
    asked = parser.parse_args()
    usual = (
        (ALL_SETS, ALL_SIZES, (1.0, 5.0), 60.0, 5, 60.0) if asked.full else (FEW_SETS, FEW_SIZES, (1.0,), 5.0, 1, 0.0)
    )
    for key, value in zip(("sets", "sizes", "seconds", "long", "runs", "scip"), usual, strict=True):
        if getattr(asked, key) is None:
            setattr(asked, key, value)
    if "names" in asked.parts:
        rows = names(asked)
        if asked.plot is not None and rows:
            draw(rows, asked.plot)
    if "convex" in asked.parts:
        convex(5)
    if "svm" in asked.parts:
        machine(5)


if __name__ == "__main__":
    main()

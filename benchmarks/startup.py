"""Time until a user's first result: ``python benchmarks/startup.py [ROW …]``.

Each row is a script that runs in its own process, first with an empty kernel cache and then with the cache left by that
run. Seconds are from the start of the process to its result, and depend on the load of the machine. Compilations are
counted, and timed in CPU seconds, which depend on it less. Pass names of rows to select them; ``--top 10`` lists what
takes longest to compile.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

console = Console(highlight=False, width=120)
PACKAGE = Path(__file__).resolve().parents[1] / "src"

DATA = """
import sys
import numpy as np
rng = np.random.default_rng(0)
A = rng.standard_normal((int(sys.argv[1]), int(sys.argv[2])))
y = A[:, :5].mean(axis=1) + 0.1 * rng.standard_normal(len(A))
"""
PROBLEM = """
import counterpoise as cp
from counterpoise.problems import SIT
problem = SIT(A, y, s=3, lam=1e3)
"""
CERTIFY = """
from counterpoise.cli import app
x = np.zeros(A.shape[1])
x[:3] = 1 / 3
np.savez("data.npz", A=A, y=y)
np.save("x.npy", x)
app("certify data.npz --problem sit -s 3 --point x.npy --level swap --quiet".split(), standalone_mode=False)
"""


class Row(NamedTuple):
    """A script, or a command if it starts so, and the seconds that it may take."""

    script: str
    cold: float | None = None
    warm: float | None = None


ROWS = {
    "minimize": Row(f"{DATA}{PROBLEM}cp.minimize(problem)", 6.0, 0.8),
    "swap": Row(f"{DATA}{PROBLEM}cp.minimize(problem, method='swap')", 12.0),
    "search": Row(f"{DATA}{PROBLEM}cp.minimize(problem, method='search', work=4)", 18.0),
    "tracker": Row(f"{DATA}import counterpoise as cp\ncp.IndexTracker(3, work=4).fit(A / 100, y / 100)", 20.0, 1.5),
    "pca": Row(f"{DATA}import counterpoise as cp\ncp.NonnegativeSparsePCA(2, 3, work=4).fit(A)", 20.0),
    "split": Row(f"{DATA}import counterpoise as cp\ncp.balanced_split(A, len(A) // 2, work=4)", 20.0),
    "binary": Row(f"{DATA}import counterpoise as cp\ncp.BinaryLeastSquares(work=4).fit(A, y)", 20.0),
    "certify": Row(f"{DATA}{CERTIFY}"),
    "import": Row("import counterpoise"),
    "help": Row("counterpoise --help", None, 0.5),
    "compile": Row("counterpoise compile --jobs 2", 60.0),
}
# Rows without kernels, and those whose second run says nothing.
NO_KERNELS, ONLY_COLD = ("import", "help"), ("compile",)

# Keeps the name and the processor's seconds of each compilation, without those inside it.
RECORDER = """
import json, time
from numba.core import event

class Recorder(event.Listener):
    done, open = [], []

    def on_start(self, event):
        self.open.append([time.thread_time(), 0.0])

    def on_end(self, event):
        start, inner = self.open.pop()
        seconds = time.thread_time() - start
        function = event.data["dispatcher"].py_func
        self.done.append((f"{function.__module__}.{function.__qualname__}", seconds - inner))
        if self.open:
            self.open[-1][1] += seconds

event.register("numba:compile", Recorder())
"""
REPORT = """
with open("compiled.json", "w") as file:
    json.dump(Recorder.done, file)
"""
NOW = "\nimport time\nprint(time.time())\n"


class Run(NamedTuple):
    """Seconds of a process to its result, the processor's seconds to its end, and those of each compilation by name."""

    seconds: float
    busy: float
    compiled: list[tuple[str, float]]


def run(script: str, folder: Path, shape: tuple[int, int], recorded: bool = False) -> Run:
    """Run a script or command whose cache is in ``folder``; compilations of a script are recorded if asked for."""
    command = script.startswith("counterpoise ")
    whole = (f"{RECORDER}{script}{REPORT}" if recorded else script) + NOW
    how = ["-m", "counterpoise", *script.split()[1:]] if command else ["-c", whole, *map(str, shape)]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(PACKAGE)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    clock, busy = time.time(), processor_seconds()
    printed = subprocess.run(
        [sys.executable, *how], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    seconds = (time.time() if command else float(printed.split()[-1])) - clock
    record = folder / "compiled.json"
    compiled = json.loads(record.read_text()) if recorded and not command else []
    return Run(seconds, processor_seconds() - busy, [(name, float(own)) for name, own in compiled])


def processor_seconds() -> float:
    """Return what all processes that were started and have ended took of the processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def figure(runs: list[Run], limit: float | None) -> str:
    """Write the median seconds beside the most they may be."""
    if not runs:
        return ""
    return f"{statistics.median(each.seconds for each in runs):.2f}" + ("" if limit is None else f" (≤ {limit:g})")


def largest(compiled: list[tuple[str, float]], count: int) -> Table:
    """Return a table of the functions that take longest to compile, all their types together."""
    each: dict[str, list[float]] = defaultdict(list)
    for name, seconds in compiled:
        each[name].append(seconds)
    table = Table("function", title_justify="left")
    for column in ("types", "seconds"):
        table.add_column(column, justify="right")
    for name, times in sorted(each.items(), key=lambda item: -sum(item[1]))[:count]:
        table.add_row(name, str(len(times)), f"{sum(times):.2f}")
    return table


def main() -> None:
    """Print the table, and what takes longest to compile if asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; all by default")
    parser.add_argument("--repeats", type=int, default=5, help="warm runs, whose median is printed; 0 for none")
    parser.add_argument("--top", type=int, default=0, metavar="N", help="list the N functions slowest to compile")
    parser.add_argument("--shape", type=int, nargs=2, default=(252, 100), metavar=("ROWS", "COLUMNS"))
    asked = parser.parse_args()
    unknown = [name for name in asked.rows if name not in ROWS]
    if unknown:
        parser.error(f"{', '.join(unknown)}: no such row; there are {', '.join(ROWS)}")
    table = Table("first call", title="Seconds from the start of a process to its result", title_justify="left")
    for column in ("functions", "compilations", "compiling", "cold", f"warm, median of {asked.repeats}", "busy"):
        table.add_column(column, justify="right")
    for name in asked.rows or ROWS:
        row = ROWS[name]
        with tempfile.TemporaryDirectory() as place, console.status(f"Measuring: {name} …"):
            folder = Path(place)
            first = run(row.script, folder, asked.shape, recorded=name not in NO_KERNELS)
            cold = None if name in NO_KERNELS else first
            repeats = 0 if name in ONLY_COLD else asked.repeats
            warm = [run(row.script, folder, asked.shape) for _ in range(repeats)]
        compiled = [] if cold is None else cold.compiled
        table.add_row(
            name,
            str(len({function for function, _ in compiled}) or ""),
            str(len(compiled) or ""),
            f"{sum(own for _, own in compiled):.1f}" if compiled else "",
            figure([cold] if cold else [], row.cold),
            figure(warm, row.warm),
            f"{statistics.median(each.busy for each in warm):.2f}" if warm else "",
        )
        if asked.top and compiled:
            console.print(f"{name}:", largest(compiled, asked.top))
    console.print(table)


if __name__ == "__main__":
    console.print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the run\n")
    main()

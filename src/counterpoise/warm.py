"""Compile all kernels in advance, for ``counterpoise compile``.

A recipe runs the methods and estimators of one kind of problem on tiny data, so that every entry point is called with
the types of users' data. Recipes share few kernels. Processes take them one by one, the longest first.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import counterpoise as cp

RULES = ("hybrid", "cyclic", "random", "greedy", "semi-greedy")


def _table(columns: int = 30) -> tuple[Any, Any]:
    """Return A and y; with few columns a search would enumerate all supports and skip kernels."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20, columns))
    return A, A[:, :4].mean(axis=1) + 0.1 * rng.standard_normal(len(A))


def _methods(problem: cp.Problem, small: cp.Problem) -> None:
    """Run all rules, all scans, the single step that plots use, and what goes beyond pairs; enumerate the small one."""
    from counterpoise.kernels import sweep

    for rule in RULES:
        x = cp.minimize(problem, working_set=rule).x
    cp.certify(problem, x, scan="all")
    terms = problem.terms()
    sweep.start(terms, x)
    sweep.step(terms, x, 0, 1, 0.0)
    cp.minimize(problem, method="search")
    x = cp.minimize(problem, method="swap").x
    if problem.free is not None:
        cp.certify(problem, x, level="swap")
        # Below the exactness threshold a search uses other kernels.
        cp.minimize(problem.variant(lam=1e-3), method="search")
    cp.minimize(small, method="exact")


def _tracking() -> None:
    from counterpoise.problems import SIT

    A, y = _table()
    _methods(SIT(A, y, s=3, lam=1e3), SIT(*_table(8), s=3, lam=1e3))
    tracker = cp.IndexTracker(3, random_state=0).fit(A / 100.0, y / 100.0)
    cp.certify(tracker.problem_, tracker.coef_, level="swap")


def _weights() -> None:
    """Minimise without g and with a limit on the non-zeros."""
    A, y = _table()
    cp.SimplexRegression().fit(A, y)
    for g in (None, cp.AtMost(3)):
        problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0.0, 1.0), g, cp.Sum(1.0))
        cp.certify(problem, cp.minimize(problem, problem.start(0)).x)


def _rules() -> None:
    """Fit portfolios with floors, groups and costs."""
    A, y = (values / 100.0 for values in _table())
    rules: dict[str, Any] = {"max_weight": 0.6, "transaction_cost": 0.001, "previous_weights": np.full(30, 1.0 / 30.0)}
    rules |= {"groups": ["a"] * 15 + ["b"] * 15, "group_limits": {"a": (0.2, 0.8)}}
    # A search anneals if few floors fit into the sum.
    for method, floor in (("search", 0.1), ("search", 0.2), ("swap", 0.1), ("bcd-g", 0.1)):
        cp.IndexTracker(3, min_weight=floor, method=method, random_state=0, **rules).fit(A, y)
    cp.IndexTracker(3, min_weight=0.2, random_state=0).fit(A, y)


def _components() -> None:
    from scipy.sparse import csc_array

    from counterpoise.problems import NNSPCA

    A, _ = _table()
    _methods(NNSPCA(A, s=3, lam=1e3), NNSPCA(_table(8)[0], s=3, lam=1e3))
    for X in (A, csc_array(A)):
        for method in ("search", "swap"):
            cp.NonnegativeSparsePCA(2, 3, method=method, random_state=0).fit(X)
    cp.SparsePCA(2, 3, deflation="hotelling", random_state=0).fit(A)
    cp.SparsePCA(2, 3, random_state=0).fit(_table(120)[0])  # more columns than a look considers


def _signs() -> None:
    from counterpoise.problems import DCPB1, DCPB2

    A, y = _table()
    for kind in (DCPB1, DCPB2):
        _methods(kind(A, y, c=0, lam=1e3), kind(*_table(8), c=0, lam=1e3))
    cp.BinaryLeastSquares(random_state=0).fit(A, y)
    cp.balanced_split(A, 10, random_state=0)
    cp.balanced_split(A, (8, 6, 6), strata=[0, 1] * 10, random_state=0)


def _blocks() -> None:
    from counterpoise.problems import DCPB1, DCPB2, NNSPCA, SIT

    A, y = _table()
    for problem in (SIT(A, y, s=3, lam=1e3), DCPB1(A, y, c=0, lam=1e3), DCPB2(A, y, c=0, lam=1e3)):
        x = cp.minimize(problem, k=3).x
        cp.certify(problem, x, k=3)
        cp.minimize(problem, method="bcd-l", k=4)
    cp.minimize(NNSPCA(A, s=3, lam=1e3), method="bcd-l", k=4)


def _columns() -> None:
    """Run methods as with many columns: AᵀA is not stored, or stored as a sparse matrix."""
    from scipy.sparse import csc_array

    A, y = _table()
    sparse = csc_array(A)
    for data, keeps_sparse in ((A, False), (sparse, False), (sparse, True)):
        on_line = cp.LeastSquares(data, y, gram=False)
        on_arc = cp.LeastSquares(data, 0.0, scale=-1.0, gram=False)
        on_line.may_keep_sparse = on_arc.may_keep_sparse = keeps_sparse
        for problem in (
            cp.Problem(on_line, cp.Bounds(0.0, np.inf), cp.TopSum(3, 1e3), cp.Sum(1.0)),
            cp.Problem(on_arc, cp.Bounds(0.0, np.inf) + cp.Linear(1e3), cp.TopSum(3, 1e3), cp.Sphere()),
        ):
            for method in ("bcd-g",) if keeps_sparse else ("bcd-g", "swap", "search"):
                x = cp.minimize(problem, method=method).x
            cp.certify(problem, x)


# By name, the longest first.
RECIPES: dict[str, Callable[[], None]] = {
    recipe.__name__.removeprefix("_"): recipe
    for recipe in (_tracking, _rules, _weights, _signs, _components, _columns, _blocks)
}


class Prepared(NamedTuple):
    """How many kernels are ready, counted once per argument types, and how many of them were not in the cache before.

    ``folder`` is that of the cache, None if no folder is writable. ``lost`` names the functions that were compiled but
    not saved, for example because the disk is full.
    """

    kernels: int
    compiled: int
    seconds: float
    folder: Path | None
    lost: list[str]


def compile_kernels(jobs: int | None = None, progress: Callable[[str, int], object] | None = None) -> Prepared:
    """Compile all kernels that methods, problems and estimators use into the cache, by a process per core or ``jobs``.

    ``progress`` is called with the name of each recipe when it begins and the number of recipes that are done.
    """
    clock, todo, done = time.perf_counter(), list(reversed(RECIPES)), list[str]()

    def work(worker: ProcessPoolExecutor) -> None:
        try:
            while todo:
                name = todo.pop()
                if progress is not None:
                    progress(name, len(done))
                worker.submit(_work, name).result()
                done.append(name)
        except Exception as error:
            raise RuntimeError(f"The kernels of {name} could not be compiled: {error!r}") from error
        finally:
            todo.clear()

    count = min(jobs or os.cpu_count() or 1, len(RECIPES))
    # Ctrl-C ends the processes at once; a method would catch it and go on.
    spawn, at_once = multiprocessing.get_context("spawn"), (signal.SIGINT, signal.SIG_DFL)
    with ExitStack() as stack, ThreadPoolExecutor(count) as threads:
        workers = [stack.enter_context(ProcessPoolExecutor(1, spawn, signal.signal, at_once)) for _ in range(count)]
        for each in [threads.submit(work, worker) for worker in workers]:
            each.result()
        # One after the other, because a report may write to the cache.
        reports = [worker.submit(_report).result() for worker in workers]
    ready = {kernel: False for report in reports for kernel in report["loaded"]}
    ready |= {kernel: True for report in reports for kernel in report["compiled"]}
    folder = next((Path(report["folder"]) for report in reports if report["folder"]), None)
    lost = sorted({kernel.partition("(")[0] for report in reports for kernel in report["lost"]})
    return Prepared(len(ready), sum(ready.values()), time.perf_counter() - clock, folder, lost)


def _work(name: str) -> None:
    """Run a recipe in a process of its own; messages about compiling are for the main process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        RECIPES[name]()


def _report() -> dict[str, Any]:
    """Return which kernels this process compiled or loaded, and the cache's folder; save missing kernels again.

    If two processes write to the index of a function at the same time, one of them loses its entry.
    """
    from numba.core.dispatcher import Dispatcher

    report: dict[str, Any] = {"compiled": [], "loaded": [], "lost": [], "folder": None}
    modules = [module for name, module in sys.modules.items() if name.startswith("counterpoise.kernels.")]
    functions: dict[str, Any] = {
        f"{module.__name__.rpartition('.')[2]}.{name}": function
        for module in modules
        for name, function in vars(module).items()
        if isinstance(function, Dispatcher) and function.py_func.__module__ == module.__name__
        if function.stats.cache_path is not None
    }
    for name, function in functions.items():
        report["folder"] = function.stats.cache_path
        report["loaded"] += [f"{name}{types}" for types in function.stats.cache_hits]
        for types in function.stats.cache_misses:
            report["compiled"].append(f"{name}{types}")
            if not _is_kept(function, types):
                function._cache.save_overload(types, function.overloads[types])
            if not _is_kept(function, types):
                report["lost"].append(f"{name}{types}")
    return report


def _is_kept(function: Any, types: Any) -> bool:
    """Return whether the index on disk has an entry for these types."""
    key = function._cache._index_key(types, function.targetctx.codegen())
    return key in function._cache._cache_file._load_index()

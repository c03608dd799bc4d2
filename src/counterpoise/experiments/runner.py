"""Run missing tasks: in parallel if only quality is measured, one at a time if time is measured."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import hashlib
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import counterpoise as cp
from counterpoise.checks import Vector, choice
from counterpoise.experiments.plan import Place, Task, build
from counterpoise.experiments.sets import load
from counterpoise.experiments.store import Record, Store, as_json
from counterpoise.sentences import require

BACKENDS = ("loky", "threading", "dask", "ray")
PACKAGES = {"dask": "distributed", "ray": "ray"}
# Source files that the result of a run depends on.
CODE = ("kernels", "terms", "solvers", "problem.py", "problems.py", "certificates.py", "checks.py")
# Largest number of history rows in a record: the first, the last, and evenly spaced in log time between.
HISTORY = 200


@functools.cache
def code_identity() -> str:
    """Return the version, and a hash of the numerical packages and the sources that a run's result depends on."""
    root, mark = Path(cp.__file__).parent, hashlib.sha256()
    for part in CODE:
        for file in sorted((root / part).rglob("*.py")) if (root / part).is_dir() else [root / part]:
            mark.update(file.relative_to(root).as_posix().encode() + file.read_bytes())
    mark.update(as_json(versions()).encode())
    return f"{cp.__version__}+{mark.hexdigest()[:12]}"


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of this package and of the numerical packages."""
    packages = {name: metadata.version(name) for name in ("numba", "numpy", "scipy")}
    return {"counterpoise": cp.__version__, "python": platform.python_version(), **packages}


@functools.cache
def machine() -> dict[str, Any]:
    """Return the processor and the number of cores, without the host name."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    return {"processor": model, "cores": os.cpu_count(), "system": platform.system()}


def execute(task: Task, folder: Path | None, code: str) -> Record:
    """Run one task, with single-threaded BLAS for bitwise reproducibility."""
    if code != code_identity():
        raise RuntimeError(f"This worker has counterpoise {code_identity()}, the command {code}; install the same.")
    data = load(task.dataset, folder)
    if data.digest != task.digest:
        raise RuntimeError(
            f"This worker's {task.dataset} has other numbers than the command's; give both the same --data."
        )
    with threadpool_limits(limits=1):
        problem = _problem(task.cell, task.digest, folder)
        result = _run(problem, task)
        claims = cp.certify(problem, result.x)
    return Record(
        **{field.name: getattr(task, field.name) for field in dataclasses.fields(Place)},
        key=task.key(code),
        method=task.method.name,
        stages=as_json(task.method.stages),
        objective=problem.objective(result.x),
        violation=claims.violation,
        cws_gap=claims.cws_gap,
        critical_residual=claims.critical_residual,
        status=result.status.name,
        nit=int(result.nit),
        seconds=float(result.time),
        history=thinned(result.history),
        code=code,
        versions=as_json(versions()),
        machine=as_json(machine()),
        at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


@functools.lru_cache(maxsize=4)
def _problem(cell: tuple[str, str, float, float], digest: str, folder: Path | None) -> cp.Problem:
    """Build a cell's problem once for all methods, so that forming AᵀA is not timed."""
    name, dataset, value, lam = cell
    data = load(dataset, folder)
    # y = 0 in the binary problems, which matches the values printed in the paper.
    problem = build(name, data.A, data.y if name == "SIT" else 0.0, value, lam)
    assert isinstance(problem.f, cp.LeastSquares)
    problem.f.Q  # noqa: B018
    return problem


def _run(problem: cp.Problem, task: Task) -> cp.Result:
    from counterpoise.solvers.hybrid import join

    x, results = problem.start(task.start), []
    for stage in task.method.stages:
        _warm_up(task.problem, tuple(sorted(item for item in stage.items() if item[0] not in ("max_iter", "max_time"))))
        results.append(cp.minimize(problem, x, seed=task.start, **stage))
        x = results[-1].x
        if results[-1].status is cp.Status.INTERRUPTED:
            raise KeyboardInterrupt
    return functools.reduce(join, results)


@functools.cache
def _warm_up(problem: str, stage: tuple[tuple[str, Any], ...]) -> None:
    """Compile a method's kernels on a small problem, so that time limits exclude compilation."""
    rng, n, options = np.random.default_rng(0), 64, dict(stage)
    A, y = rng.standard_normal((n, n)), rng.standard_normal(n)
    small = build(problem, A, y if problem == "SIT" else 0.0, 4.0, 1.0)
    limits = {"work": 8} if options["method"] == "search" else {"max_iter": 20}
    cp.minimize(small, **{**options, **limits})


def thinned(history: Vector, most: int = HISTORY) -> Vector:
    """Return at most ``most`` rows: first, last, best, and others evenly spaced in log time."""
    if len(history) <= most:
        return history
    times = np.log(np.maximum(history[:, 1], 1e-5))
    wanted = np.searchsorted(times, np.linspace(times[0], times[-1], most - 3))
    chosen = np.unique([0, len(history) - 1, int(np.argmin(history[:, 2])), *np.minimum(wanted, len(history) - 1)])
    kept: Vector = history[chosen]
    return kept


def check_backend(backend: str, address: str | None) -> None:
    """Refuse an unknown backend, one whose package is missing, or an address for a backend that takes none."""
    choice(backend, "--backend", BACKENDS, quoted=False)
    if address is not None and backend not in PACKAGES:
        raise ValueError(f"--address is for the backends {' and '.join(PACKAGES)}, not for {backend}.")
    if backend in PACKAGES:
        require(f"The backend {backend} needs", PACKAGES[backend])


@contextlib.contextmanager
def workers(backend: str, address: str | None, jobs: int) -> Iterator[None]:
    """Select a joblib backend; without an address, dask and ray run locally within the block."""
    import joblib

    with contextlib.ExitStack() as stack:
        if backend == "dask":
            from distributed import Client, LocalCluster

            cluster: Any = address
            if address is None:
                # Use any free port for the dashboard; the usual one may be taken by another cluster.
                port: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}}
                cluster = stack.enter_context(LocalCluster(n_workers=jobs, threads_per_worker=1, **port))
            stack.enter_context(Client(cluster))
        elif backend == "ray":
            import ray
            from ray.util.joblib import register_ray

            ray.init(address=address, **({} if address else {"num_cpus": jobs, "include_dashboard": False}))
            stack.callback(ray.shutdown)
            register_ray()
        stack.enter_context(joblib.parallel_config(backend=backend, n_jobs=jobs))
        yield


def run(
    todo: list[Task],
    folder: Path | None,
    store: Store,
    jobs: int = 1,
    backend: str = "loky",
    address: str | None = None,
    done: Callable[[Record], None] = lambda record: None,
    failed: Callable[[Task, Exception], None] | None = None,
) -> None:
    """Run tasks and store each record as it arrives: tasks for quality in parallel, then timed ones one by one."""
    attempt = functools.partial(_attempt, folder=folder, code=code_identity())
    quality = [task for task in todo if task.measure == "quality"]
    parallel = jobs > 1 or backend in PACKAGES

    def collect(outcomes: Iterable[tuple[Task, Record | Exception]]) -> None:
        for task, outcome in outcomes:
            if isinstance(outcome, Record):
                store.add(outcome)
                done(outcome)
            elif failed is None:
                raise outcome
            else:
                failed(task, outcome)

    with workers(backend, address, jobs) if parallel and quality else contextlib.nullcontext():
        collect(_in_parallel(quality, attempt) if parallel else map(attempt, quality))
    collect(map(attempt, (task for task in todo if task.measure != "quality")))


def _attempt(task: Task, folder: Path | None, code: str) -> tuple[Task, Record | Exception]:
    try:
        return task, execute(task, folder, code)
    except Exception as error:
        return task, error


def _in_parallel(todo: list[Task], attempt: Callable[[Task], Any]) -> Iterator[tuple[Task, Record | Exception]]:
    """Yield outcomes as they arrive, or in batches if the backend cannot do that."""
    import joblib

    jobs = [joblib.delayed(attempt)(task) for task in todo]
    try:
        arriving = joblib.Parallel(return_as="generator_unordered", batch_size=1)
    except ValueError:
        size = 16 * max(1, joblib.effective_n_jobs())
        for first in range(0, len(jobs), size):
            yield from joblib.Parallel()(jobs[first : first + size])
    else:
        yield from arriving(jobs)

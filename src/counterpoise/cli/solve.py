"""``counterpoise solve``: solve a problem whose data is in a file, with one or more methods."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table

import counterpoise as cp
from counterpoise import plotting
from counterpoise.checks import Vector, is_sparse, number, whole_number
from counterpoise.cli import base, options, results
from counterpoise.cli.base import Line, app, status_line
from counterpoise.cli.problem import Built, File, Instance, Kind, build, check_problem, data_of, make, read_x
from counterpoise.figures.page import Column
from counterpoise.findings import Listing
from counterpoise.output import csv_text, whole_file, write_text
from counterpoise.sentences import as_seconds, short_gap, spelled

BLOCK_METHOD = "bcd-l"
# Coordinates closer than this to 0 or ±1 count as equal to it.
NEAR = 1e-8
# Columns of the warm-up problem: enough for the default blocks of every method.
WARM_UP_SIZE = 32
# The keys of solvers.METHODS, repeated because importing them would slow down --help.
METHOD_NAMES = ("bcd-g", "bcd-l", "swap", "search", "exact", "psg", "mscr", "pdca")
# Column heads split over two lines, so that the table fits 80 columns.
COUNT_HEADS = {"non-zeros": "non-\nzeros", "fractional": "frac-\ntional"}


@base.command(app.command())
def solve(
    *,
    file: File,
    problem: Kind,
    instance: Instance,
    marks: options.Marks,
    method: Annotated[
        list[str] | None, f"Any of {', '.join(METHOD_NAMES)}, repeatable; first+second is a hybrid. By default bcd-g."
    ] = None,
    working_set: Annotated[str | None, "Rule that selects pairs, for methods that have one."] = None,
    k: Annotated[int | None, f"Block size of {BLOCK_METHOD}; 10 by default.", "--k"] = None,
    start: Annotated[
        Path | None, "Start from this x, as --save or track writes it: .npz, .npy, .csv (name, weight) or .txt."
    ] = None,
    start_name: Annotated[str | None, "Which array or column of --start, if it holds several."] = None,
    seed: Annotated[int, "Seed of the start and of the methods."] = 0,
    max_time: Annotated[float | None, "Seconds for each method; the stages of a hybrid share them."] = None,
    max_iter: Annotated[int | None, "Iterations of each method; the stages of a hybrid share them."] = None,
    plot: Annotated[Path | None, "Draw objective against time: .png, .svg or .pdf."] = None,
    save: Annotated[Path | None, "Save x of each method: .npz, or .csv by name."] = None,
    force: Annotated[bool, "Overwrite the files of --plot and --save."] = False,
    manners: options.Manners,
) -> None:
    """Solve a problem whose data is in a file, with one or more methods from the same start.

    Example: counterpoise solve data.npz --problem sit -s 30 --method bcd-g --method pdca+bcd-g --save x.npz
    """
    limits = {"working_set": working_set, "k": k, "seed": seed, "max_time": max_time, "max_iter": max_iter}
    methods = list(dict.fromkeys(method or ["bcd-g"]))
    options.check_files(file, start=start)
    with base.kept_warnings() as warned:
        check_problem(problem, instance)
        _check_methods(methods, limits)
        _check_outputs(file, plot, save, force)
        if start_name is not None and start is None:
            raise ValueError("--start-name is given without --start; give the file.")
        with status_line(manners.silent) as say:
            say(f"Reading {file.name}")
            read = build(file, problem, instance, marks)
            built, x0 = read.problem, None
            if start is not None:
                x0 = read_x(start, start_name, ("--start", "--start-name"), read, file)
                if (violation := built.violation(x0)) > 1e-9:
                    far = f"{start} violates the constraints by {violation:.3g}"
                    read.notes.append(f"{far}; the run starts from the nearest point on them.")
                    x0 = built.project(x0)
            if k is not None:
                whole_number(k, "--k", 2, built.n)
            say("Preparing")
            _warm_up(problem, built, methods, limits)
    # A method may refuse the problem, which is bad input; errors of its arithmetic are failures.
    with base.failing(np.linalg.LinAlgError, ArithmeticError):
        with base.kept_warnings() as warned_later, status_line(manners.silent) as say:
            outcomes, cut = _run_all(built, methods, limits, say, x0)
    warned += warned_later
    if manners.as_json:
        head = {"file": str(file), "problem": problem, "lam": built.g.lam}
        asked = {"sparsity": instance.sparsity, "total": instance.total, "scale": instance.scale, "seed": seed}
        more = {**asked, "notes": read.notes, "warnings": warned}
        results.print_json({**head, **more, **_as_json(read, outcomes)})
    elif not manners.quiet:
        base.warn(warned)
        _print_outcomes(Console(highlight=False), read, outcomes)
    found = {name: outcome.result for name, outcome in outcomes.items()}
    with base.failing(OSError):
        _write(found, read.names, plot, save, f"{built.name}: {file.name}")
    for path in (save, plot):
        if path is not None and not manners.silent:
            typer.echo(f"Wrote {path}.")
    if cut:
        raise typer.Exit(base.INTERRUPTED)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A method's result, its violation and gap, and the number of non-zero or fractional coordinates."""

    result: cp.Result
    violation: float
    cws_gap: float
    count: int


def _check_methods(methods: list[str], options: dict[str, Any]) -> None:
    """Check the methods and their options."""
    stages = [_stages_of(method) for method in methods]
    whole_number(options["seed"], "--seed", 0)
    if options["max_time"] is not None:
        number(options["max_time"], "--max-time", 0.0)
    if options["max_iter"] is not None:
        whole_number(options["max_iter"], "--max-iter", max(map(len, stages)))
    names = dict.fromkeys(itertools.chain(*stages))
    if options["working_set"] is not None and not any(_takes(name, "working_set") for name in names):
        raise ValueError(f"--working-set is given, but none of the methods has one: {', '.join(names)}.")
    if options["k"] is not None and BLOCK_METHOD not in names:
        raise ValueError(f"--k is given, but {BLOCK_METHOD} is not among the methods: {', '.join(names)}.")


def _stages_of(method: str) -> list[str]:
    """Return the methods that a hybrid such as pdca+bcd-g combines."""
    stages, known = method.split("+"), cp.solvers.METHODS
    if not all(name in known for name in stages):
        raise ValueError(f"--method is {method!r}; it must be one of {', '.join(known)}, or some joined by +.")
    return stages


def _takes(name: str, option: str) -> bool:
    """Return whether a method has an option."""
    if option == "k" and name != BLOCK_METHOD:
        return False  # bcd-g has its own k, the size of enumerated blocks, which this command leaves at 2
    parameters = inspect.signature(cp.solvers.METHODS[name]).parameters
    return option in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _check_outputs(file: Path, plot: Path | None, save: Path | None, force: bool) -> None:
    """Refuse a path that cannot or should not be written, before any computation."""
    if plot is not None:
        plotting.require_matplotlib()
    for option, path, suffixes in (("--plot", plot, plotting.FORMATS), ("--save", save, (".npz", ".csv"))):
        if path is None:
            continue
        if path.suffix.lower() not in suffixes:
            raise ValueError(f"{option} is {path}; it must end in {', '.join(suffixes)}.")
        if path.exists() and file.exists() and path.samefile(file):
            raise ValueError(f"{option} is {path}, the data file; give another path.")
        if path.is_dir() or (path.exists() and not force):
            raise ValueError(
                f"{option} is {path}, which exists; give another path{'' if path.is_dir() else ' or --force'}."
            )
        options.check_writable(option, path)


def _warm_up(problem: str, built: cp.Problem, methods: list[str], options: dict[str, Any]) -> None:
    """Run each method on a small problem of the same types, so that kernels are compiled before timing."""
    from scipy.sparse import csc_array

    data, n = data_of(built), min(built.n, WARM_UP_SIZE)
    A = np.eye(n, dtype=data.A.dtype)
    # λ is above the exactness threshold, 1; otherwise "exact" would refuse the problem.
    given = {"A": csc_array(A) if is_sparse(data.A) else A, "y": np.ones(n), "s": 2, "c": float(n % 2), "lam": 9.0}
    small = make(problem, given)
    data_of(small).gram = data.gram
    block = options["k"] and min(options["k"], n)
    for name in dict.fromkeys(itertools.chain(*map(_stages_of, methods))):
        limits = {**options, "k": block, "max_time": 1.0, "max_iter": 100}
        if _run(small, name, small.start(), limits).status is cp.Status.INTERRUPTED:
            raise KeyboardInterrupt
    cp.certify(small, small.start())


def _run(problem: cp.Problem, name: str, x0: Vector, options: dict[str, Any]) -> cp.Result:
    """Run one method with the options that it accepts."""
    taken = {option: value for option, value in options.items() if value is not None and _takes(name, option)}
    return cp.minimize(problem, x0, method=name, **taken)


def _run_all(
    problem: cp.Problem, methods: list[str], options: dict[str, Any], say: Line, x0: Vector | None
) -> tuple[dict[str, Outcome], bool]:
    """Run the methods from the same start; return the finished outcomes and whether Ctrl-C ended the runs."""
    outcomes: dict[str, Outcome] = {}
    start = problem.start(options["seed"]) if x0 is None else x0
    known = ""
    for k, method in enumerate(methods, 1):
        doing = method if len(methods) == 1 else f"{method}, {k} of {len(methods)}"
        say(doing, options["max_time"], known)
        # A callback costs a copy of x per epoch, so it is used only if progress is shown.
        stages = _stages_of(method)
        most = options["max_iter"] if len(stages) == 1 else None  # the stages of a hybrid count anew
        heard = {"callback": functools.partial(say.hear, most=most)} if say.shown else {}
        try:
            result = _run_stages(problem, stages, start, {**options, **heard})
            say(f"{doing}: objective {result.objective:.4g}, looking for a better pair", aside=known)
            outcomes[method] = _outcome(problem, result)
            if outcomes[method].violation <= 1e-6:  # an infeasible point has no gap
                gap = cp.certify(problem, result.x).cws_gap
                outcomes[method] = dataclasses.replace(outcomes[method], cws_gap=gap)
        except KeyboardInterrupt:
            if not outcomes:
                raise
            return outcomes, True
        if result.status is cp.Status.INTERRUPTED:
            return outcomes, True
        known = f" ({method}: {result.objective:.4g}, gap {short_gap(outcomes[method].cws_gap)})"
    return outcomes, False


def _outcome(problem: cp.Problem, result: cp.Result) -> Outcome:
    """Return the outcome before certification."""
    size = np.abs(result.x)
    off = size > NEAR if problem.free is not None else np.abs(size - 1.0) > NEAR
    return Outcome(result, problem.violation(result.x), math.nan, int(off.sum()))


def _run_stages(problem: cp.Problem, stages: list[str], x0: Vector, options: dict[str, Any]) -> cp.Result:
    """Run each stage from the point of the previous one, with an equal share of the remaining limits."""
    from counterpoise.solvers.hybrid import join

    results: list[cp.Result] = []
    for k, name in enumerate(stages):
        left, limits = len(stages) - k, dict(options)
        if options["max_time"] is not None:
            limits["max_time"] = max(0.0, options["max_time"] - sum(result.time for result in results)) / left
        if options["max_iter"] is not None:
            limits["max_iter"] = max(1, (options["max_iter"] - sum(result.nit for result in results)) // left)
        results.append(_run(problem, name, results[-1].x if results else x0, limits))
        if results[-1].status is cp.Status.INTERRUPTED:
            break
    return functools.reduce(join, results)


def _count_name(problem: cp.Problem) -> str:
    return "non-zeros" if problem.free is not None else "fractional"


def _as_json(read: Built, outcomes: dict[str, Outcome]) -> dict[str, Any]:
    from counterpoise.certificates import exactness_threshold

    problem, rows = read.problem, []
    for name, outcome in outcomes.items():
        fields = {key: outcome.result[key] for key in ("objective", "success", "message", "nit", "nacc", "time")}
        claims = {"violation": outcome.violation, "cws_gap": outcome.cws_gap}
        counted = {_count_name(problem).replace("-", "_"): outcome.count}
        row = {"method": name, "status": outcome.result.status.name, **fields, **claims, **counted}
        if read.names is not None:
            row["x"] = dict(_non_zeros(outcome, read.names))
        rows.append(row)
    shape = {"rows": data_of(problem).m, "columns": problem.n, "exact_lam": exactness_threshold(problem)}
    return {**shape, "best": _best(outcomes), "results": rows}


def _best(outcomes: dict[str, Outcome]) -> str:
    """Return the method with the least objective among feasible points."""
    return min(outcomes, key=lambda name: (math.isnan(outcomes[name].cws_gap), outcomes[name].result.objective))


def _print_outcomes(console: Console, read: Built, outcomes: dict[str, Outcome]) -> None:
    problem = read.problem
    base.tell(console, *read.notes)
    m, n = data_of(problem).m, problem.n
    console.print(f"{problem.name}: {n:,} coordinates, {m:,} rows, λ = {problem.g.lam:g}{read.lam_note}.\n")
    console.print(_comparison(problem, outcomes))
    if read.names is not None and problem.free is not None:
        best = _best(outcomes)
        rows = [[name, f"{value:.4f}"] for name, value in _non_zeros(outcomes[best], read.names)]
        listing = Listing([Column("name"), Column("x", "number")], rows)
        results.print_table(console, f"x of {best}", listing, "the file of --save")


def _non_zeros(outcome: Outcome, names: list[str]) -> list[tuple[str, float]]:
    """Return names and values of the non-zero coordinates, largest first."""
    x = outcome.result.x
    order = [int(k) for k in np.argsort(-np.abs(x), kind="stable") if abs(x[k]) > NEAR]
    return [(names[k], float(x[k])) for k in order]


def _comparison(problem: cp.Problem, outcomes: dict[str, Outcome]) -> Table:
    """Return a table that compares the methods, with the best objective in bold."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    count = COUNT_HEADS[_count_name(problem)]
    for head in ("method", "objective", "violation", count, "CWS gap", "status", "iterations", "time"):
        is_text = head in ("method", "status")
        table.add_column(head, justify="left" if is_text else "right", overflow="fold", no_wrap=head == "time")
    least = f"{outcomes[_best(outcomes)].result.objective:.6g}"
    for name, outcome in outcomes.items():
        result, unknown = outcome.result, math.isnan(outcome.cws_gap)
        objective = f"{result.objective:.6g}"
        table.add_row(
            name,
            f"[bold]{objective}[/bold]" if objective == least and not unknown else objective,
            f"{outcome.violation:.1e}",
            str(outcome.count),
            "—" if unknown else f"{outcome.cws_gap:.1e}",
            spelled(result.status),
            f"{result.nit:,}",
            as_seconds(result.time),
        )
    return table


def _write(
    results: dict[str, cp.Result], names: list[str] | None, plot: Path | None, save: Path | None, title: str
) -> None:
    """Write the requested files."""
    if save is not None and save.suffix.lower() == ".csv":
        points = np.column_stack([result.x for result in results.values()])
        labels = names or [str(k) for k in range(1, len(points) + 1)]
        rows = [[name, *row] for name, row in zip(labels, points.tolist(), strict=True)]
        write_text(save, csv_text(["name", *results], rows))
    elif save is not None:
        with whole_file(save) as part, part.open("wb") as stream:
            np.savez(stream, **{name: result.x for name, result in results.items()})
    if plot is not None:
        plotting.save_objective(results, plot, title)

"""``counterpoise reproduce``: rerun the paper's tables and figures, on this machine or a cluster; resumable."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import shlex
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from counterpoise import plotting
from counterpoise.checks import whole_number
from counterpoise.cli import base, options, results
from counterpoise.cli.base import app
from counterpoise.experiments import pages, plan, runner, sets
from counterpoise.experiments.store import Record, Store
from counterpoise.experiments.tables import show
from counterpoise.sentences import as_seconds, counted, short_gap, spelled

STORE = "records.sqlite"
# Seconds that measured targets take on our machine.
MEASURED_SECONDS = {"theory": 240.0, "sparse-pca": 30.0}
# Seconds between lines of progress if there is no terminal.
PAUSE = 30.0
# A chapter and the files written for it.
Written = tuple[pages.Chapter, list[Path]]


@base.command(app.command())
def reproduce(
    *,
    target: Annotated[str, f"One of {', '.join(plan.TARGETS)}; or all; or a .toml file of your own."],
    quick: Annotated[bool, "Run a small part of it, in under two minutes."] = False,
    data: Annotated[Path | None, "Data folder; COUNTERPOISE_DATA by default."] = None,
    output: Annotated[Path, "Folder of records, tables and figures."] = Path("counterpoise-results"),
    use: Annotated[list[str] | None, "Run on this set instead, repeatable.", "--set"] = None,
    jobs: Annotated[int | None, "Parallel runs, where time is not measured; by default one per core."] = None,
    backend: Annotated[str, f"Backend that executes runs: {', '.join(runner.BACKENDS)}."] = "loky",
    address: Annotated[str | None, "Scheduler of a dask or ray cluster that is running."] = None,
    tables_only: Annotated[bool, "Run nothing; write tables from the records."] = False,
    manners: options.Telling,
) -> None:
    """Rerun a table or figure of the paper and compare it with the printed values.

    Finished runs are kept: the same command continues where it was stopped. index.html shows all targets so far.

    Example: counterpoise reproduce table-3 --quick
    """
    console = Console(highlight=False, markup=False, quiet=manners.silent)
    jobs = os.cpu_count() or 1 if jobs is None else whole_number(jobs, "--jobs", 1)
    runner.check_backend(backend, address)
    folder = sets.data_folder(data)
    if target in plan.MEASURED and tables_only:
        raise ValueError(f"--tables-only is given, but {target} keeps no records; run it without.")
    names = list(plan.TARGETS) if target == "all" else [target]
    measured = [name for name in names if name in plan.MEASURED and not tables_only]
    wanted = [plan.read_target(name, quick, use) for name in names if name not in plan.MEASURED]
    options.check_folder(output, (), force=True, may_ask=False)
    output.mkdir(parents=True, exist_ok=True)
    options.check_writable("--output", output / STORE)
    # Without options that say where to run it.
    words = ["counterpoise", "reproduce", target, *(["--quick"] if quick else [])]
    command = shlex.join([*words, *(word for name in use or [] for word in ("--set", name))])
    failures: list[str] = []
    done: list[Written] = []
    # The input is valid; disk errors from here on are failures.
    with Store(output / STORE) as store, base.failing(OSError, sqlite3.Error):
        plans = [_Plan(goal, folder, store) for goal in wanted]
        absent = dict.fromkeys(sentence for each in plans for sentence in each.absent.values())
        base.tell(console, *(f"Left out: {sentence}" for sentence in absent))
        _say_duration(console, plans, jobs, measured)
        if not plotting.has_matplotlib() and (measured or any(each.target.kind in pages.NOTES for each in plans)):
            base.tell(
                console, "matplotlib is not installed, so the charts are in index.html only; pip install matplotlib."
            )
        run = functools.partial(runner.run, folder=folder, store=store, jobs=jobs, backend=backend, address=address)
        try:
            for each in plans:
                if not tables_only:
                    _run(console, each, run, failures, manners.verbose)
                done.append(_finish(console, each, folder, store, output, command))
            if "theory" in measured:
                done.append(_theory(console, quick, output, command))
            if "sparse-pca" in measured:
                done.append(_published(console, quick, folder, output, command, failures))
        except KeyboardInterrupt:
            typer.echo("Stopped. Finished runs are kept; the same command continues from here.", err=True)
            raise typer.Exit(base.INTERRUPTED) from None
        except BrokenExecutor:
            said = "A worker died, possibly out of memory. Finished runs are kept; the same command continues"
            typer.echo(f"{said}, and fewer --jobs need less memory.", err=True)
            raise typer.Exit(1) from None
    failures = list(dict.fromkeys(failures))
    if manners.as_json:
        results.print_json(_as_json(command, done, failures, output))
    for sentence in failures:
        typer.echo(sentence, err=True)
    if failures:
        raise typer.Exit(1)


def _as_json(command: str, done: list[Written], failures: list[str], output: Path) -> dict[str, Any]:
    """Return what --json prints: counts, sentences, tables and file paths of each target."""
    targets = [
        {
            "target": chapter.name,
            "title": chapter.title,
            **(dataclasses.asdict(chapter.tally) if chapter.tally.wanted else {}),
            "lines": list(chapter.lines),
            "tables": {
                table.name: [dict(zip(table.head, row, strict=True)) for row in table.rows] for table in chapter.tables
            },
            "files": [str(file) for file in files],
        }
        for chapter, files in done
    ]
    return {"command": command, "page": str(output / "index.html"), "targets": targets, "failures": failures}


class _Plan:
    """A target, its available sets, its tasks, and the tasks without a record."""

    def __init__(self, target: plan.Target, folder: Path | None, store: Store) -> None:
        self.target = target
        self.here, self.absent = plan.present(target, folder)
        self.tasks = list(plan.tasks(target, self.here, folder))
        code = runner.code_identity()
        self.keys = [task.key(code) for task in self.tasks]
        known = store.keys()
        self.todo = [task for task, key in zip(self.tasks, self.keys, strict=True) if key not in known]


def _say_duration(console: Console, plans: list[_Plan], jobs: int, measured: list[str]) -> None:
    """Print the number of runs and the expected time."""
    seconds = sum(MEASURED_SECONDS[name] for name in measured)
    for each in plans:
        at_a_time = jobs if each.target.measure == "quality" else 1
        seconds += each.target.seconds_each * len(each.todo) / at_a_time
    todo, known = sum(len(each.todo) for each in plans), sum(len(each.tasks) for each in plans)
    if todo or measured:
        length = f"about {math.ceil(seconds / 60.0)} min" if seconds else "an unknown time"
        base.tell(console, f"{todo} of {known} runs to do, {length} on a machine like ours with {jobs} at a time.")
    elif known:
        console.print(f"All {known} runs are in the records.")


@contextlib.contextmanager
def _progress(console: Console, title: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show a progress bar on a terminal, occasional lines otherwise."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
    )
    shown = console.is_terminal and not console.quiet
    with Progress(*columns, console=console, transient=True, disable=not shown) as bar:
        task = bar.add_task(title, total=total, last="")
        began = said = time.monotonic()
        done = 0

        def step(last: str) -> None:
            nonlocal done, said
            done += 1
            bar.update(task, advance=1, last=last)
            now = time.monotonic()
            if not shown and now - said > PAUSE:
                said, left = now, (now - began) / done * (total - done)
                console.print(f"{title}: {done} of {total}, about {left / 60.0:.0f} min left")

        yield step


def _run(console: Console, each: _Plan, run: Callable[..., None], failures: list[str], verbose: bool) -> None:
    """Perform the missing runs of a target by calling ``run(tasks, done=…, failed=…)``."""
    if not each.todo:
        return
    clock = time.perf_counter()
    with _progress(console, each.target.name, len(each.todo)) as step:

        def done(record: Record) -> None:
            step(f"{record.method}: {record.objective:.4g}, gap {short_gap(record.cws_gap)}")
            if verbose:
                base.tell(console, _in_words(record))

        def failed(task: plan.Task, error: Exception) -> None:
            step(f"{task.method.name} failed")
            failures.append(f"{task.method.name} failed on {task.problem} {task.dataset}: {error}")

        run(each.todo, done=done, failed=failed)
    count = counted(len(each.todo), "run")
    console.print(f"{each.target.name}: {count} in {as_seconds(time.perf_counter() - clock)}.")


def _in_words(record: Record) -> str:
    """Describe how a run ended and how long it took."""
    letter, took = plan.LETTERS[record.problem], as_seconds(record.seconds)
    place = f"{record.problem} {record.dataset}, {letter} = {record.value:g}, λ = {record.lam:g}, start {record.start}"
    return f"{place}: {record.method} {record.objective:.6g}, {spelled(record.status)} after {took}."


def _finish(console: Console, each: _Plan, folder: Path | None, store: Store, output: Path, command: str) -> Written:
    if each.target.kind == "sizes":
        table = pages.sizes(*sets.load_present(sets.names(folder), folder))
        chapter = pages.Chapter(each.target.name, each.target.title, [], [table], {}, command=command)
    else:
        records = store.fetch(each.keys)
        chapter = pages.chapter(each.target, records, len(each.tasks), each.absent, command)
    return _publish(console, chapter, output)


def _publish(console: Console, chapter: pages.Chapter, output: Path) -> Written:
    _show(console, chapter)
    files = pages.write(chapter, output)
    base.tell(console, f"Wrote {', '.join(path.name for path in files)} to {files[-1].parent}.")
    return chapter, files


def _theory(console: Console, quick: bool, output: Path, command: str) -> Written:
    from counterpoise.experiments import theory, theory_pages

    with console.status("theory") as status:
        findings = theory.measure(quick=quick, progress=lambda text: status.update(f"theory: {text}"))
    lines = [f"Made by `{command}`, counterpoise {runner.code_identity()}."]
    tables, charts = theory_pages.tables(findings), theory_pages.charts(findings)
    figures = theory_pages.figures(findings) if plotting.has_matplotlib() else {}
    chapter = pages.Chapter("theory", "The theory, measured", lines, tables, figures, charts, command=command)
    return _publish(console, chapter, output)


def _published(
    console: Console, quick: bool, folder: Path | None, output: Path, command: str, failures: list[str]
) -> Written:
    from counterpoise.experiments import published

    chosen, absent = published.instances(folder)
    if quick:
        chosen = [each for each in chosen if each.name == "pitprops"]
    with console.status("sparse-pca") as status:
        found = published.measure(chosen, lambda text: status.update(f"sparse-pca: {text}"))
    made = f"Made by `{command}` on {time.strftime('%Y-%m-%d')}, counterpoise {runner.code_identity()}."
    missed = [one.instance for one in found if not one.instance.is_reached(one.variance)]
    failures += [f"{each.name}, k = {each.k}: the published {each.printed} is not reached." for each in missed]
    lines = [made, *(f"Left out: {sentence}" for sentence in absent)]
    tables, charts = ([published.table(found)], published.charts(found)) if found else ([], [])
    figures = published.figures(found) if found and plotting.has_matplotlib() else {}
    title = "Sparse components with signs at published optima"
    chapter = pages.Chapter("sparse-pca", title, lines, tables, figures, charts, command=command)
    return _publish(console, chapter, output)


def _show(console: Console, chapter: pages.Chapter) -> None:
    """Print the tables that fit; larger ones are only written to files."""
    base.tell(console, *chapter.lines)
    for table in chapter.tables:
        if not table.rows:
            base.tell(console, f"{table.caption}.")
            continue
        shown = Table(title=table.caption, title_justify="left", box=box.SIMPLE_HEAD)
        for column, head in enumerate(table.head):
            shown.add_column(head, justify="right" if table.is_numeric(column) else "left", no_wrap=True)
        for row in table.cells(lambda value, bold: Text(show(value), "bold" if bold else "")):
            shown.add_row(*row)
        width = console.measure(shown, options=console.options.update(width=10_000)).maximum
        if len(table.rows) <= results.MOST_ROWS and width <= console.width:
            console.print(shown)
        else:
            base.tell(console, f"{table.caption}: in {table.name}.csv.")

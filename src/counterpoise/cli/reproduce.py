"""``counterpoise reproduce``: the paper's tables and figures, on this machine or a cluster, resumable."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from counterpoise import plotting
from counterpoise.checks import whole_number
from counterpoise.cli.base import app, as_seconds, check_writable, quit_with
from counterpoise.experiments import pages, plan, runner, sets
from counterpoise.experiments.store import Record, Store
from counterpoise.experiments.tables import show

STORE = "records.sqlite"
THEORY = "theory"
# Between lines of progress where there is no terminal, in seconds.
QUIET = 30.0
# Longer tables are for the files.
MOST_ROWS = 60


@app.command()
def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            help=f"One of {', '.join(plan.TARGETS)}; or all; or a .toml file of your own.", show_default=False
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A small part of it, under two minutes.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder of data; by default that of COUNTERPOISE_DATA.")] = None,
    output: Annotated[Path, typer.Option(help="Folder of records, tables and figures.")] = Path("counterpoise-results"),
    use: Annotated[list[str] | None, typer.Option("--set", help="Run on this set instead, repeatable.")] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Runs at a time where no clock counts; by default one a core.")
    ] = None,
    backend: Annotated[str, typer.Option(help=f"{', '.join(runner.BACKENDS)}.")] = "loky",
    address: Annotated[str | None, typer.Option(help="Scheduler of a dask or ray cluster that is running.")] = None,
    tables_only: Annotated[bool, typer.Option("--tables-only", help="Run nothing; write from the records.")] = False,
) -> None:
    """Rerun a table or figure of the paper and set its printed values beside.

    What is computed is kept: the same command goes on where it was stopped. Example:
    counterpoise reproduce table-3 --quick
    """
    console = Console(highlight=False)
    with quit_with(2, ValueError, OSError, ImportError):
        plotting.require_matplotlib()
        jobs = os.cpu_count() or 1 if jobs is None else whole_number(jobs, "--jobs", 1)
        runner.check_backend(backend, address)
        folder = sets.data_folder(data)
        names = list(plan.TARGETS) if target == "all" else [target]
        wanted = [plan.read_target(name, quick, use) for name in names if name != THEORY]
        output.mkdir(parents=True, exist_ok=True)
        check_writable("--output", output / STORE)
        store = Store(output / STORE)
    command = _command(target, quick, use)
    with store:
        plans = [_Plan(goal, folder, store) for goal in wanted]
        _say_absent(console, plans)
        _say_duration(console, plans, jobs, THEORY in names)
        failures: list[str] = []
        try:
            for each in plans:
                if not tables_only:
                    _run(console, each, folder, store, jobs, backend, address, failures)
                _finish(console, each, folder, store, output, command)
        except KeyboardInterrupt:
            console.print("Stopped. Every finished run is kept; the same command goes on from here.")
            raise typer.Exit(1) from None
    if THEORY in names:
        _theory(console, quick, output, command)
    for sentence in dict.fromkeys(failures):
        typer.echo(sentence, err=True)
    if failures:
        raise typer.Exit(1)


class _Plan:
    """A target, its sets that are here, its tasks, and those of them that have no record."""

    def __init__(self, target: plan.Target, folder: Path | None, store: Store) -> None:
        self.target = target
        self.here, self.absent = plan.present(target, folder)
        self.tasks = list(plan.tasks(target, self.here, folder))
        code = runner.code_identity()
        self.keys = [task.key(code) for task in self.tasks]
        known = store.keys()
        self.todo = [task for task, key in zip(self.tasks, self.keys, strict=True) if key not in known]

    def core_seconds(self) -> float:
        """What is left, by the mean length of a run that the target's file states."""
        return self.target.seconds_each * len(self.todo)


def _command(target: str, quick: bool, use: list[str] | None) -> str:
    """Return the command that makes these numbers; where it runs is not part of it."""
    parts = ["counterpoise", "reproduce", target, *(["--quick"] if quick else [])]
    return shlex.join([*parts, *(part for name in use or [] for part in ("--set", name))])


def _say_absent(console: Console, plans: list[_Plan]) -> None:
    for sentence in dict.fromkeys(sentence for each in plans for sentence in each.absent.values()):
        console.print(f"Left out: {sentence}")


def _say_duration(console: Console, plans: list[_Plan], jobs: int, theory: bool) -> None:
    """State what is to come before it begins."""
    seconds = 240.0 if theory else 0.0
    for each in plans:
        share = jobs if each.target.measure == "quality" else 1
        seconds += each.core_seconds() / share
    todo, known = sum(len(each.todo) for each in plans), sum(len(each.tasks) for each in plans)
    if todo or theory:
        length = f"about {math.ceil(seconds / 60.0)} min" if seconds else "an unknown time"
        console.print(f"{todo} of {known} runs to do, {length} on a machine like ours with {jobs} at a time.")
    elif known:
        console.print(f"All {known} runs are in the records.")


@contextlib.contextmanager
def _progress(console: Console, title: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar with the time left on a terminal, a line now and then elsewhere."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    shown = console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not shown) as bar:
        task, state = bar.add_task(title, total=total), {"done": 0, "said": time.monotonic(), "began": time.monotonic()}

        def step() -> None:
            state["done"] += 1
            bar.advance(task)
            now = time.monotonic()
            if not shown and now - state["said"] > QUIET:
                state["said"] = now
                left = (now - state["began"]) / state["done"] * (total - state["done"])
                console.print(f"{title}: {state['done']:.0f} of {total}, about {left / 60.0:.0f} min left")

        yield step


def _run(
    console: Console,
    each: _Plan,
    folder: Path | None,
    store: Store,
    jobs: int,
    backend: str,
    address: str | None,
    failures: list[str],
) -> None:
    if not each.todo:
        return
    clock = time.perf_counter()
    with _progress(console, each.target.name, len(each.todo)) as step:

        def done(record: Record) -> None:
            step()

        def failed(task: plan.Task, error: Exception) -> None:
            step()
            failures.append(f"{task.method.name} failed on {task.problem} {task.dataset}: {error}")

        runner.run(each.todo, folder, store, jobs, backend, address, done, failed)
    console.print(f"{each.target.name}: {len(each.todo)} runs in {as_seconds(time.perf_counter() - clock)}.")


def _finish(console: Console, each: _Plan, folder: Path | None, store: Store, output: Path, command: str) -> None:
    if each.target.kind == "sizes":
        here, absent = _all_sets(folder)
        chapter = pages.Chapter(each.target.name, each.target.title, [], [pages.sizes(here, absent)], {})
    else:
        records = store.fetch(each.keys)
        chapter = pages.chapter(each.target, records, len(each.tasks), each.absent, command)
    _show(console, chapter)
    _say_written(console, pages.write(chapter, output))


def _all_sets(folder: Path | None) -> tuple[dict[str, sets.Data], dict[str, str]]:
    here: dict[str, sets.Data] = {}
    absent: dict[str, str] = {}
    for name in sets.names(folder):
        try:
            here[name] = sets.load(name, folder)
        except sets.Absent as absence:
            absent[name] = str(absence)
    return here, absent


def _theory(console: Console, quick: bool, output: Path, command: str) -> None:
    from counterpoise.experiments import theory, theory_pages

    with console.status("theory") as status:
        findings = theory.measure(quick=quick, progress=lambda text: status.update(f"theory: {text}"))
    lines = [f"Made by `{command}`, counterpoise {runner.code_identity()}."]
    chapter = pages.Chapter(
        THEORY, "The theory, measured", lines, theory_pages.tables(findings), theory_pages.figures(findings)
    )
    _show(console, chapter)
    _say_written(console, pages.write(chapter, output))


def _show(console: Console, chapter: pages.Chapter) -> None:
    """Print the tables that fit; the others are in the files."""
    for line in chapter.lines:
        console.print(line)
    for table in chapter.tables:
        if not table.rows:
            console.print(f"{table.caption}.")
            continue
        shown = Table(title=table.caption, title_justify="left", box=box.SIMPLE_HEAD)
        for column, head in enumerate(table.head):
            shown.add_column(head, justify="right" if table.is_numeric(column) else "left", no_wrap=True)
        for r, row in enumerate(table.rows):
            texts = [show(value) for value in row]
            shown.add_row(*(f"[bold]{x}[/bold]" if (r, c) in table.bold else x for c, x in enumerate(texts)))
        if len(table.rows) <= MOST_ROWS and _width(console, shown) <= console.width:
            console.print(shown)
        else:
            console.print(f"{table.caption}: in {table.name}.csv.")


def _width(console: Console, table: Table) -> int:
    return console.measure(table, options=console.options.update(width=10_000)).maximum


def _say_written(console: Console, written: list[Any]) -> None:
    folder = written[-1].parent
    console.print(f"Wrote {', '.join(path.name for path in written)} to {folder}.", soft_wrap=True)

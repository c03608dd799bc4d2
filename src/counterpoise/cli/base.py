"""Shared parts of all commands: the application, error messages, the progress line."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import math
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer
from rich.console import Console
from rich.progress import Progress, RenderableColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text
from typer.core import TyperGroup

import counterpoise as cp
from counterpoise import compiling
from counterpoise.interrupts import noting_interrupts
from counterpoise.output import CannotWriteError
from counterpoise.sentences import lacking, short_gap

if TYPE_CHECKING:
    from counterpoise.solvers.run import Progress as RunProgress


# Non-empty once Ctrl-C was pressed, even if something else handled it.
_pressed: list[int] = []


class OneSentence(TyperGroup):
    """A group that reports a usage error in one sentence and returns an exit code for Ctrl-C."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and exit, as Click does."""
        if not extra.pop("standalone_mode", True):
            return super().main(*args, **{**extra, "standalone_mode": False})
        try:
            _pressed.clear()
            with noting_interrupts(_pressed):
                code = self._exit_code(*args, **extra)
        except KeyboardInterrupt:
            code = INTERRUPTED
        sys.exit(INTERRUPTED if _pressed else code)

    def _exit_code(self, *args: Any, **extra: Any) -> int:
        """Run a command and return its exit code."""
        try:
            code = self.main(*args, **extra, standalone_mode=False)
        except typer.Abort as error:
            return INTERRUPTED if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt) else 1
        except Exception as error:
            # Depending on its version, Typer uses Click or its own copy, so usage errors have no common class.
            if not hasattr(error, "format_message"):
                raise
            typer.echo(error.format_message(), err=True)
            return int(getattr(error, "exit_code", 2))
        return code if isinstance(code, int) else 0


app = typer.Typer(cls=OneSentence, add_completion=True)

# Exit code of a program ended by Ctrl-C.
INTERRUPTED = 130
# The time left is not shown for runs shorter than this (seconds).
LONG = 1.0
# Columns reserved for the spinner and the times.
TIMES = 30


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"counterpoise {cp.__version__}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Choose few of many under a budget: portfolios, components, groups, with a proof of what was reached."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


# Set on errors that are failures, whatever their type.
FAILURE = "is_failure"


@contextlib.contextmanager
def failing(*errors: type[Exception]) -> Iterator[None]:
    """Treat errors of these types as failures, not as bad input."""
    try:
        yield
    except errors as error:
        setattr(error, FAILURE, True)
        raise


def sentence_of(error: BaseException) -> str:
    """Return the message for an error; errors raised by Python and the operating system are reworded."""
    said = " ".join([str(error), *getattr(error, "__notes__", [])])
    if isinstance(error, OSError):
        if error.errno is None:
            return said
        place = "The output" if error.filename is None else str(error.filename)
        return f"{place} cannot be read or written: {error.strerror}."
    if isinstance(error, MemoryError):
        return said or "Out of memory."
    if isinstance(error, ImportError):
        return str(lacking("This needs", error.name)) if said.startswith("No module named") and error.name else said
    if isinstance(error, ValueError | TypeError) or hasattr(error, FAILURE):
        return said
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return f"This is a bug in counterpoise, not in the input: {said}; --debug shows the traceback."


@contextlib.contextmanager
def answer(debug: bool) -> Iterator[None]:
    """Turn errors into one sentence and an exit code: 2 for bad input, 1 for a failure, 130 for Ctrl-C.

    With ``debug`` errors propagate with their traceback. Only the progress line reports compilation.
    """
    try:
        with compiling.listening(lambda said: None):
            yield
        sys.stdout.flush()
    except (typer.Abort, BrokenPipeError, SystemExit):
        raise
    except BaseException as error:
        if debug and not isinstance(error, typer.Exit):
            raise
        code = INTERRUPTED if _pressed or isinstance(error, KeyboardInterrupt) else _exit_code(error)
        if not isinstance(error, typer.Exit):
            typer.echo("Stopped before the end." if code == INTERRUPTED else sentence_of(error), err=True)
        if isinstance(error, OSError) and error.filename is None and not hasattr(error, FAILURE):
            _give_up_stdout()
        raise typer.Exit(code) from None


def _exit_code(error: BaseException) -> int:
    """Return 2 for bad input and 1 for a failure; operating system errors have an error number."""
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if hasattr(error, FAILURE) or isinstance(error, CannotWriteError):
        return 1
    if isinstance(error, OSError):
        return 2 if error.errno is None else 1
    return 2 if isinstance(error, ValueError | TypeError | ImportError) else 1


def _give_up_stdout() -> None:
    """Redirect an unwritable stdout to the null device; otherwise Python would report an error at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command(register: Callable[[Callable[..., Any]], Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that registers a command with ``register``, such as ``app.command()``.

    A parameter whose type is a dataclass stands for one option per field; the command receives an instance. The strings
    of an annotation are the help of an option, how its value is called, and its names if they begin with a dash; a
    tuple holds words that shells complete; what has neither a default nor names is an argument. Errors become one
    sentence and an exit code, see :func:`answer`.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        bundles: dict[str, Any] = {name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)}
        kinds: dict[str, inspect.Parameter] = {}
        for name, given in inspect.signature(function).parameters.items():
            if name in bundles:
                types = get_type_hints(bundles[name], include_extras=True)
                for field in dataclasses.fields(bundles[name]):
                    kinds[field.name] = _parameter(field.name, types[field.name], field.default)
            else:
                kinds[name] = _parameter(name, hints[name], given.default)

        @functools.wraps(function)
        def run(**given: Any) -> None:
            with answer(bool(given.get("debug"))):
                for name, kind in bundles.items():
                    given[name] = kind(**{field.name: given.pop(field.name) for field in dataclasses.fields(kind)})
                function(**given)

        run.__signature__ = inspect.Signature(list(kinds.values()))  # type: ignore[attr-defined]
        run.__annotations__ = {name: kind.annotation for name, kind in kinds.items()}
        register(run)
        return run

    return decorate


def _parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    """Return a parameter of a command for Typer; a flag has no opposite."""
    kind, *said = get_args(hint) if get_origin(hint) is Annotated else [hint]
    if said and isinstance(said[0], str):
        help, *others = (each for each in said if isinstance(each, str))
        names = [word for word in others if word.startswith("-")]
        metavar = next((word for word in others if word not in names), None)
        words = [word for each in said if isinstance(each, tuple) for word in each]
        if default is inspect.Parameter.empty and not names:
            given: Any = typer.Argument(help=help, show_default=False)
        else:
            names = names or ([f"--{name.replace('_', '-')}"] if kind is bool else [])
            given = typer.Option(*names, help=help, metavar=metavar, autocompletion=(lambda: words) if words else None)
        hint = Annotated[kind, given]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def option_names(same: str, **others: str) -> dict[str, str]:
    """Return the options of parameters, for :func:`in_options`; those in the text ``same`` have the same name."""
    names = {name: f"--{name.replace('_', '-')}" for name in same.split()}
    return {**names, "max_time": "--seconds", "n_jobs": "--jobs", **others}


@contextlib.contextmanager
def in_options(options: Mapping[str, str]) -> Iterator[None]:
    """Replace parameter names in error messages with option names, such as n_assets with --assets."""
    try:
        yield
    except (ValueError, TypeError) as error:
        sentence = " ".join([str(error), *getattr(error, "__notes__", [])])
        for name, option in options.items():
            sentence = re.sub(rf"(?<![\w-]){name}(?!\w)", option.replace("\\", r"\\"), sentence)
        raise (TypeError if isinstance(error, TypeError) else ValueError)(sentence) from error


@contextlib.contextmanager
def kept_warnings() -> Iterator[list[str]]:
    """Collect distinct warning messages."""
    sentences: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield sentences
    sentences += dict.fromkeys(str(warning.message) for warning in caught)


class Line:
    """The progress line: current step, objective, certificate gap if known, and time left.

    Parameters
    ----------
    show : callable
        Called with the text whenever it changes.
    shown : bool
        Whether it is visible.
    """

    def __init__(self, show: Callable[[str], Any], shown: bool = True) -> None:
        self.show, self.shown = show, shown
        self("Starting")

    def __call__(self, doing: str, limit: float | None = None, aside: str = "") -> None:
        """Begin a step with an optional time limit; ``aside`` is cut first if the line is too long."""
        self.doing, self.aside, self.limit, self.began = doing, aside, limit, time.perf_counter()
        self.until: float | None = limit
        self.show(f"{doing} …{aside}")

    def hear(
        self, report: RunProgress, share: float | None = None, doing: str | None = None, most: int | None = None
    ) -> None:
        """Show a run's objective and gap; the finished share of the run, or ``most`` iterations, tell when it ends."""
        self.reach(report.iteration / most if most else share)
        said = f"objective {report.objective:.4g}, gap {short_gap(report.gap)}"
        self.show(f"{doing or self.doing}: {said}{self.aside}")

    def reach(self, share: float | None) -> None:
        """Estimate the end from the finished share."""
        if self.limit is None and share:
            self.until = (time.perf_counter() - self.began) / min(share, 1.0)

    def left(self) -> str:
        """Return the time left, if the step is long enough and its end is known or estimated."""
        elapsed = time.perf_counter() - self.began
        if self.until is None or elapsed < LONG:
            return ""
        about = "" if self.limit is not None else "about "
        return f"{about}{math.ceil(max(0.0, self.until - elapsed))} s left"

    def __rich__(self) -> Text:
        """Show the time left, as a column of Rich's progress line."""
        return Text(self.left())


@contextlib.contextmanager
def status_line(quiet: bool = False) -> Iterator[Line]:
    """Show a progress line on stderr if it is a terminal; yield the Line that updates it."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    room = console.width - TIMES

    def show(said: str) -> None:
        progress.update(task, description=said if len(said) <= room else f"{said[: max(0, room - 1)]}…")

    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("Starting …", total=None)
        line = Line(show, not hidden)
        progress.columns += (RenderableColumn(line, table_column=Column(no_wrap=True)),)
        with compiling.listening(show):
            yield line


def warn(sentences: Iterable[str]) -> None:
    """Print warnings to stderr."""
    for sentence in sentences:
        typer.echo(f"Warning: {sentence}", err=True)


def tell(console: Console, *sentences: str) -> None:
    """Print sentences, each word-wrapped on a terminal and on one line otherwise."""
    for sentence in sentences:
        console.print(Text(sentence), soft_wrap=not console.is_terminal)

"""What all commands share: the application, its sentences for bad input, its line of progress, its files."""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text
from typer.core import TyperGroup

import counterpoise as cp
from counterpoise import compiling
from counterpoise.checks import number
from counterpoise.output import CannotWriteError
from counterpoise.sentences import lacking

if TYPE_CHECKING:
    from counterpoise.solvers.run import Progress as RunProgress


# Holds something once Ctrl-C was pressed, whoever handled it.
_pressed: list[bool] = []


class OneSentence(TyperGroup):
    """A group that answers a usage error with its sentence alone, and Ctrl-C with an exit code."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and exit, as Click does."""
        if not extra.pop("standalone_mode", True):
            return super().main(*args, **{**extra, "standalone_mode": False})
        try:
            with _noticed_interrupts():
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
            # Typer carries Click or a copy of it, depending on its version, and so has no one class of usage errors.
            if not hasattr(error, "format_message"):
                raise
            typer.echo(error.format_message(), err=True)
            return int(getattr(error, "exit_code", 2))
        return code if isinstance(code, int) else 0


app = typer.Typer(cls=OneSentence, add_completion=True)

Force = Annotated[bool, typer.Option("--force", help="Replace files that are there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but what is wrong.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say how the run ended and what it took.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error arose.")]
# What a shell reports of a program that Ctrl-C ended.
INTERRUPTED = 130
# Shorter runs are over before their time left is read.
LONG = 1.0
# Columns that the spinner and the times of a line may take.
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
    """Block coordinate descent under one nonseparable constraint, to certified points."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@contextlib.contextmanager
def quit_with(code: int, *errors: type[Exception], debug: bool = False) -> Iterator[None]:
    """Turn errors of these kinds into their sentence and an exit code; with ``debug`` they go through."""
    handled = () if debug else errors
    try:
        yield
    except handled as error:
        typer.echo(sentence_of(error) if isinstance(error, OSError | MemoryError) else str(error), err=True)
        raise typer.Exit(code) from None


def sentence_of(error: BaseException) -> str:
    """Return what to tell the user; errors of Python and of the system are put into words."""
    said = " ".join([str(error), *getattr(error, "__notes__", [])])
    if isinstance(error, OSError):
        if error.errno is None:
            return said
        place = "The output" if error.filename is None else str(error.filename)
        return f"{place} cannot be read or written: {error.strerror}."
    if isinstance(error, MemoryError):
        return said or "Out of memory."
    if isinstance(error, ImportError):
        raw = said.startswith("No module named") and error.name
        return str(lacking("This needs", error.name.partition(".")[0])) if raw and error.name else said
    if isinstance(error, ValueError | TypeError):
        return said
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return f"This is a fault of counterpoise and not of the input: {said}; --debug shows where."


@contextlib.contextmanager
def answer(debug: bool) -> Iterator[None]:
    """End a command as the house does: bad input is a sentence and 2, a failure a sentence and 1, Ctrl-C 130.

    With ``debug`` errors go through, with their traceback. Compilation is told by the line of progress only.
    """
    try:
        with compiling.listening(lambda said: None):
            yield
        sys.stdout.flush()
    except (typer.Abort, BrokenPipeError):
        raise
    except BaseException as error:
        if debug and not isinstance(error, typer.Exit):
            raise
        code = INTERRUPTED if _pressed or isinstance(error, KeyboardInterrupt) else _exit_code(error)
        if not isinstance(error, typer.Exit):
            typer.echo("Stopped before the end." if code == INTERRUPTED else sentence_of(error), err=True)
        if isinstance(error, OSError) and error.filename is None:
            _give_up_stdout()
        raise typer.Exit(code) from None


@contextlib.contextmanager
def _noticed_interrupts() -> Iterator[None]:
    """Remember that Ctrl-C was pressed, also if a method took it for the end of its run or a destructor lost it."""
    _pressed.clear()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def notice(number: int, frame: Any) -> None:
        _pressed.append(True)
        before(number, frame)

    signal.signal(signal.SIGINT, notice)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _exit_code(error: BaseException) -> int:
    """Return 2 for bad input and 1 for a failure; an error number is the system's and not the input's."""
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if isinstance(error, OSError):
        return 2 if error.errno is None and not isinstance(error, CannotWriteError) else 1
    return 2 if isinstance(error, ValueError | TypeError | ImportError) else 1


def _give_up_stdout() -> None:
    """Let nothing be flushed at exit to a stdout that cannot be written, which Python would report by itself."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def in_options(options: Mapping[str, str]) -> Iterator[None]:
    """Say the library's sentences in the command's words, such as --assets for n_assets."""
    try:
        yield
    except (ValueError, TypeError) as error:
        sentence = " ".join([str(error), *getattr(error, "__notes__", [])])
        for name, option in options.items():
            sentence = re.sub(rf"(?<![\w-]){name}(?!\w)", option, sentence)
        raise (TypeError if isinstance(error, TypeError) else ValueError)(sentence) from error


@contextlib.contextmanager
def kept_warnings() -> Iterator[list[str]]:
    """Collect the sentences of warnings, each once."""
    sentences: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield sentences
    sentences += dict.fromkeys(str(warning.message) for warning in caught)


class Line:
    """A line of progress: what is done, the objective, the certificate's gap once it is known, and the time left.

    Parameters
    ----------
    show : callable
        Called with the text whenever it changes.
    shown : bool
        Whether anybody sees it.
    """

    def __init__(self, show: Callable[[str], Any], shown: bool = True) -> None:
        self.show, self.shown = show, shown
        self("Starting")

    def __call__(self, doing: str, limit: float | None = None, aside: str = "") -> None:
        """Begin something, which has so many seconds; what stands aside is the first to go where there is no room."""
        self.doing, self.aside, self.limit, self.began = doing, aside, limit, time.perf_counter()
        self.until: float | None = limit
        self.show(f"{doing} …{aside}")

    def hear(self, report: RunProgress, share: float | None = None, doing: str | None = None) -> None:
        """Show a run's objective and gap; ``share`` is how much of the run is done, if that is known."""
        self.reach(share)
        gap = f"{max(0.0, report.gap):.0e}" if math.isfinite(report.gap) else "–"
        self.show(f"{doing or self.doing}: objective {report.objective:.4g}, gap {gap}{self.aside}")

    def reach(self, share: float | None) -> None:
        """Foresee the end from how much is done."""
        if self.limit is None and share:
            self.until = (time.perf_counter() - self.began) / min(share, 1.0)

    def left(self) -> str:
        """Return the time left, of what has taken a while and has an end that is known or foreseen."""
        elapsed = time.perf_counter() - self.began
        if self.until is None or elapsed < LONG:
            return ""
        about = "" if self.limit is not None else "about "
        return f"{about}{math.ceil(max(0.0, self.until - elapsed))} s left"


class _TimeLeft(ProgressColumn):
    """The time left of a line, at every refresh."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines
        super().__init__(Column(no_wrap=True))

    def render(self, task: Task) -> Text:
        return Text(self.lines[0].left() if self.lines else "")


@contextlib.contextmanager
def status_line(quiet: bool = False) -> Iterator[Line]:
    """Show a line with the time elapsed and left, on the terminal's stderr only; yield what changes it."""
    console = Console(stderr=True)
    lines: list[Line] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(), _TimeLeft(lines))
    room = console.width - TIMES

    def show(said: str) -> None:
        progress.update(task, description=said if len(said) <= room else f"{said[: max(0, room - 1)]}…")

    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("Starting …", total=None)
        lines.append(Line(show, not hidden))
        with compiling.listening(show):
            yield lines[0]


def tell(console: Console, sentence: str) -> None:
    """Print a sentence: on one line where a program reads it, broken between words where a person does."""
    console.print(Text(sentence), soft_wrap=not console.is_terminal)


def check_writable(option: str, path: Path) -> None:
    """Try to write beside the path, or into the file that is there, and leave no trace."""
    try:
        if path.exists():
            os.close(os.open(path, os.O_WRONLY))
        else:
            tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise OSError(f"{option} is {path}, which cannot be written: {error.strerror}.") from None


def check_manners(quiet: bool, verbose: bool) -> None:
    """Refuse what contradicts itself."""
    if quiet and verbose:
        raise ValueError("--quiet and --verbose are both given; give one of them.")


def check_folder(folder: Path, names: Sequence[str], force: bool, may_ask: bool) -> None:
    """Refuse, before any work, a folder that cannot be written, and files in it unless the user agrees to lose them."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--output is {folder}, which is a file; give a folder.")
    above = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        tempfile.TemporaryFile(dir=above).close()
    except OSError as error:
        raise OSError(f"--output is {folder}, which cannot be written: {error.strerror}.") from None
    there = [name for name in names if (folder / name).exists()]
    for name in there:
        if (folder / name).is_dir():
            raise ValueError(f"{folder / name} is a folder, where a file is to be written; give another --output.")
        check_writable("--output", folder / name)
    if not there or force:
        return
    which = f"{folder} holds {' and '.join(there)}"
    if not (may_ask and _is_terminal()):
        raise ValueError(f"{which}; give another --output, or --force to replace.")
    typer.confirm(f"{which}. Replace?", abort=True, err=True)


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def check_seconds(seconds: float | None, what: str = "fit") -> None:
    """Refuse a limit of no time."""
    if seconds is not None and number(seconds, "--seconds", 0.0) == 0.0:
        raise ValueError(f"--seconds is 0; a {what} needs some.")

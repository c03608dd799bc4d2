"""What all commands share: the application, its sentences for bad input, its line of progress."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

import counterpoise as cp


class OneSentence(TyperGroup):
    """A group that answers a usage error with its sentence alone."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and exit, as Click does."""
        if not extra.pop("standalone_mode", True):
            return super().main(*args, **{**extra, "standalone_mode": False})
        try:
            code = self.main(*args, **extra, standalone_mode=False)
        except typer.Abort:
            sys.exit(1)
        except Exception as error:
            # Typer carries Click or a copy of it, depending on its version, and so has no one class of usage errors.
            if not hasattr(error, "format_message"):
                raise
            typer.echo(error.format_message(), err=True)
            sys.exit(getattr(error, "exit_code", 2))
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(cls=OneSentence, add_completion=False)


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
def quit_with(code: int, *errors: type[Exception]) -> Iterator[None]:
    """Turn errors of these kinds into their sentence and an exit code."""
    try:
        yield
    except errors as error:
        typer.echo(str(error) or "The memory does not suffice.", err=True)
        raise typer.Exit(code) from None


@contextlib.contextmanager
def status_line() -> Iterator[Callable[[str], None]]:
    """Show a line with the time elapsed, on the terminal's stderr only; yield what changes its text."""
    console = Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description} …"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Starting", total=None)
        yield lambda text: progress.update(task, description=text)


def check_writable(option: str, path: Path) -> None:
    """Try to write beside the path, or into the file that is there, and leave no trace."""
    try:
        if path.exists():
            os.close(os.open(path, os.O_WRONLY))
        else:
            tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise OSError(f"{option} is {path}, which cannot be written: {error.strerror}.") from None


def as_seconds(seconds: float) -> str:
    """Write seconds or milliseconds with their unit."""
    return f"{seconds:.2f} s" if seconds >= 1.0 else f"{1e3 * seconds:.3g} ms"

"""Output of results: files, JSON, tables, and the command that reproduces them."""

from __future__ import annotations

import itertools
import json
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import counterpoise as cp
from counterpoise.cli import options
from counterpoise.cli.base import INTERRUPTED, failing, tell, warn
from counterpoise.findings import Listing
from counterpoise.output import write_texts

# Options about output, which do not change the result.
MANNERS = ("output", "force", "as_json", "quiet", "verbose", "debug")
# Longer tables are only written to files.
MOST_ROWS = 60


def publish(
    context: typer.Context,
    folder: Path,
    files: Mapping[str, str],
    summary: Mapping[str, Any],
    show: Callable[[Console], None],
    manners: options.Manners,
    warned: Iterable[str] = (),
    glue: str = " and ",
    cut: bool = False,
) -> None:
    """Write files; print the summary as JSON, or what ``show`` prints and where the files are.

    Warnings are part of the summary, so they are printed only without --json; if Ctrl-C cut the run short, the exit
    code says so.
    """
    if not manners.as_json:
        warn(warned)
    with failing(OSError):
        written = write_texts(folder, files)
    if manners.as_json:
        print_json({"command": command_of(context), **summary, "files": [str(path) for path in written]})
    elif not manners.quiet:
        console = Console(highlight=False)
        show(console)
        tell(console, f"Wrote {glue.join(path.name for path in written)} to {folder}.")
    if cut:
        raise typer.Exit(INTERRUPTED)


def print_json(values: Mapping[str, Any]) -> None:
    """Print our version and values as JSON; NaN and infinity are null."""
    typer.echo(json.dumps(without_nan({"counterpoise": cp.__version__, **values}), indent=2))


def print_table(
    console: Console, title: str, listing: Listing, file: str, rows: Iterable[Sequence[str]] | None = None
) -> None:
    """Print the first rows of a table, or their texts ``rows``, and say which file has the others."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in listing.columns:
        table.add_column(column.head, justify="left" if column.is_text else "right", overflow="fold")
    for row in itertools.islice(listing.rows if rows is None else rows, MOST_ROWS):
        table.add_row(*map(Text, row))
    console.print(table)
    if len(listing.rows) > MOST_ROWS:
        console.print(f"… and {len(listing.rows) - MOST_ROWS} more in {file}.")


def grid(facts: Mapping[str, Any]) -> Table:
    """Return a table of labels and what is known under each."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in facts.items():
        table.add_row(label, str(value))
    return table


def without_nan(values: Any) -> Any:
    """Convert values for JSON: NaN and infinity become None."""
    if isinstance(values, dict):
        return {str(key): without_nan(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [without_nan(value) for value in values]
    return None if isinstance(values, float) and not math.isfinite(values) else values


def command_of(context: typer.Context) -> str:
    """Return the command line, without options about output."""
    words, after = ["counterpoise", str(context.info_name)], []
    for parameter, value, several in _values(context):
        source = context.get_parameter_source(str(parameter.name))
        if source is None or source.name != "COMMANDLINE":
            continue
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif value is True:
            after.append(parameter.opts[0])
        else:
            after += [part for each in several for part in (parameter.opts[0], each)]
    return shlex.join([*words, *after])


def settings_of(context: typer.Context) -> dict[str, str]:
    """Return all options that have a value, including defaults, by name."""
    settings = {}
    for parameter, value, several in _values(context):
        option = parameter.param_type_name == "option"
        name = parameter.opts[0].lstrip("-") if option else str(parameter.name)
        settings[name] = "yes" if value is True else ", ".join(several)
    return {name: text for name, text in settings.items() if text}


def _values(context: typer.Context) -> Iterator[tuple[Any, Any, list[str]]]:
    """Yield the parameters about the result that have a value, the value, and its parts as strings."""
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        if str(parameter.name) not in MANNERS and value is not None and value is not False:
            yield parameter, value, [str(each) for each in (value if isinstance(value, list | tuple) else [value])]

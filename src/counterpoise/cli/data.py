"""``counterpoise data``: list, prepare, add and fetch data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from counterpoise.checks import whole_number
from counterpoise.cli import options
from counterpoise.cli.base import OneSentence, app, command, failing, kept_warnings, tell
from counterpoise.cli.portfolio import read_data
from counterpoise.cli.results import print_json
from counterpoise.experiments import sets
from counterpoise.sentences import counted, day_label
from counterpoise.tables.prices import MISSING

data_app = typer.Typer(cls=OneSentence, add_completion=False)
app.add_typer(data_app, name="data")
Folder = Annotated[Path | None, "Data folder; COUNTERPOISE_DATA by default.", "--data"]
Into = Annotated[Path | None, "Folder to write to; the data folder by default."]


@command(data_app.callback(invoke_without_command=True))
def data(*, context: typer.Context, folder: Folder = None, manners: options.Manners) -> None:
    """The data sets: list, prepare, add your own.

    Without a command, list them: whether each is available, and where to get it.

    Example: counterpoise data --data sets --json
    """
    if context.invoked_subcommand is not None:
        _refuse_misplaced(context, context.invoked_subcommand)
        return
    place = sets.data_folder(folder)
    rows = [_describe(name, place) for name in sets.names(place)]
    if manners.as_json:
        print_json({"folder": None if place is None else str(place), "sets": rows})
    elif not manners.quiet:
        _print(Console(highlight=False, markup=False), rows, place)
    else:
        for row in rows:
            if row["state"] == "damaged":
                typer.echo(row["from"], err=True)


def _refuse_misplaced(context: typer.Context, command: str) -> None:
    """Refuse options given before a subcommand, which would be silently ignored."""
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is not None and source.name == "COMMANDLINE":
            raise ValueError(f"{parameter.opts[0]} is given before {command}; give it after.")


def _describe(name: str, place: Path | None) -> dict[str, Any]:
    """Return a set's row: whether it is here, absent or damaged, its sizes, and its origin or what is wrong."""
    m = n = None
    try:
        found = sets.load(name, place)
        state, source, (m, n) = "here", found.source, map(int, found.sizes)
    except sets.Absent:
        state, source = "absent", sets.where_from(name)
    except (ValueError, OSError) as error:
        state, source = "damaged", str(error)
    return {"set": name, "state": state, "m": m, "n": n, "from": source}


def _print(console: Console, rows: list[dict[str, Any]], place: Path | None) -> None:
    table = Table(title="Data sets", title_justify="left")
    for head in ("set", "here", "m", "n", "from"):
        table.add_column(head, justify="right" if head in "mn" else "left", overflow="fold")
    for row in rows:
        sizes = ["" if row[side] is None else str(row[side]) for side in ("m", "n")]
        table.add_row(row["set"], {"here": "yes", "absent": "no"}.get(row["state"], row["state"]), *sizes, row["from"])
    console.print(table)
    said = f"is {place}" if place else f"is not set: give --data or set {sets.VARIABLE}"
    tell(console, f"The data folder {said}.")


@command(data_app.command())
def prepare(
    *,
    names: Annotated[list[str], "Blocks, such as MNIST-a."],
    folder: Folder = None,
    into: Into = None,
    seed: Annotated[int | None, "Seed for drawing rows and columns; by default that of our tables."] = None,
    manners: options.Manners,
) -> None:
    """Draw random blocks of data and write them with their seed, rows and columns.

    Example: counterpoise data prepare MNIST-a --seed 7
    """
    place = sets.data_folder(folder)
    target = _target(into, place)
    if seed is not None:
        whole_number(seed, "--seed", 0)
    try:
        written = [sets.prepare(name, place, target, seed) for name in names]
    except LookupError as error:
        raise ValueError(str(error)) from error
    _say_written(manners, written)


def _say_written(manners: options.Manners, files: list[Path], holding: str = "", **more: Any) -> None:
    """Say which files were written, after notes, if there are any in ``more``, which --json prints."""
    if manners.as_json:
        print_json({**more, "files": [str(file) for file in files]})
    elif not manners.quiet:
        for sentence in (*more.get("notes", ()), *(f"Wrote {file}{holding}." for file in files)):
            typer.echo(sentence)


@command(data_app.command())
def add(
    *,
    prices: Annotated[Path, "Prices or returns, as track takes them."],
    index: Annotated[str, "The index: a column of the prices, or a file.", "COL|FILE", "--index"],
    name: Annotated[str, "Name of the new set.", "--name"],
    returns: Annotated[bool, "The table holds returns as fractions."] = False,
    dates: options.Dates = None,
    ignore: options.Ignore = None,
    missing: Annotated[str, f"What to do about missing prices: {', '.join(MISSING)}.", "RULE", MISSING] = "refuse",
    marks: options.Marks,
    folder: Folder = None,
    into: Into = None,
    force: Annotated[bool, "Replace a set of this name."] = False,
    manners: options.Manners,
) -> None:
    """Make a tracking set from a file of prices; counterpoise reproduce table-2 --set NAME then runs on it.

    Example: counterpoise data add prices.csv --index SPX --name MINE --into sets
    """
    target = _target(into, sets.data_folder(folder))
    if not name or not all(letter.isalnum() or letter in "-_." for letter in name) or name.startswith("."):
        raise ValueError(f"--name is {name!r}; use letters, digits, - and _.")
    if name in (*sets.paper_names(), sets.SIMULATED):
        raise ValueError(f"--name is {name}, a set of the paper; choose another.")
    file = target / sets.catalogue()["tracking"]["folder"] / f"{name}.npz"
    if file.exists() and not force:
        raise ValueError(f"{file} exists; give another --name or --force.")
    with kept_warnings() as warned:
        made = read_data(prices, index, dates, missing, returns, ignore, marks)
    days = [day_label(day) for day in made.returns.index]
    sets.add_prices(name, days, list(made.returns), made.returns.to_numpy(), made.index.to_numpy(), target)
    (m, n), notes = made.returns.shape, [*warned, *made.notes]
    holding = f": {counted(m, 'return')} of {counted(n, 'stock')} and of {index}"
    _say_written(manners, [file], holding, set=name, m=m, n=n, notes=notes)


@command(data_app.command())
def fetch(
    *,
    name: Annotated[str, f"One of {', '.join(sets.FETCHERS)}."],
    folder: Folder = None,
    into: Into = None,
    manners: options.Manners,
) -> None:
    """Download a source with scikit-learn's fetchers; this is the only command that uses the network.

    Example: counterpoise data fetch MNIST --into sets
    """
    if name not in sets.FETCHERS:
        raise ValueError(f"NAME is {name!r}; it must be one of {', '.join(sets.FETCHERS)}.")
    target = _target(into, sets.data_folder(folder))
    # A network error is a failure, not bad input.
    with failing(OSError):
        written = sets.fetch(name, target)
    _say_written(manners, [written])


def _target(into: Path | None, folder: Path | None) -> Path:
    target = into if into is not None else folder
    if target is None:
        raise ValueError(f"There is no folder to write to; give --into, --data or set {sets.VARIABLE}.")
    return target

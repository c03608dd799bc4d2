"""``counterpoise data``: which sets there are, where they may come from, blocks, and sets from one's own prices."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from counterpoise.checks import whole_number
from counterpoise.cli.base import OneSentence, app, quit_with
from counterpoise.experiments import sets
from counterpoise.prices import MISSING, read_prices, returns_of

data_app = typer.Typer(cls=OneSentence, add_completion=False, help="The data sets: list, prepare, add your own.")
app.add_typer(data_app, name="data")
Folder = Annotated[Path | None, typer.Option("--data", help="Folder of data; by default that of COUNTERPOISE_DATA.")]
Into = Annotated[Path | None, typer.Option("--into", help="Folder to write to; by default the folder of data.")]


@data_app.callback(invoke_without_command=True)
def data(context: typer.Context, folder: Folder = None) -> None:
    """List the sets, whether each is here, and where it may come from."""
    if context.invoked_subcommand is not None:
        return
    with quit_with(2, OSError, ValueError):
        place = sets.data_folder(folder)
    console = Console(highlight=False)
    table = Table(title="Data sets", title_justify="left")
    for head, side in (("set", "left"), ("here", "left"), ("m", "right"), ("n", "right"), ("from", "left")):
        table.add_column(head, justify="right" if side == "right" else "left", overflow="fold")
    for name in sets.names(place):
        try:
            found = sets.load(name, place)
            table.add_row(name, "yes", *map(str, found.sizes), found.source)
        except sets.Absent:
            table.add_row(name, "no", "", "", sets.where_from(name))
        except (ValueError, OSError) as error:
            table.add_row(name, "damaged", "", "", str(error))
    console.print(table)
    said = f"is {place}" if place else f"is not set: give --data or set {sets.VARIABLE}"
    console.print(f"The folder of data {said}.", soft_wrap=True)


@data_app.command()
def prepare(
    names: Annotated[list[str], typer.Argument(help="Blocks, such as MNIST-a.", show_default=False)],
    folder: Folder = None,
    into: Into = None,
    seed: Annotated[int | None, typer.Option(help="Of the rows and columns; by default the one of our tables.")] = None,
) -> None:
    """Draw blocks and write them with their seed, rows and columns.

    Example: counterpoise data prepare MNIST-a --seed 7
    """
    with quit_with(2, OSError, ValueError, LookupError):
        place = sets.data_folder(folder)
        target = _target(into, place)
        if seed is not None:
            whole_number(seed, "--seed", 0)
        for name in names:
            typer.echo(f"Wrote {sets.prepare(name, place, target, seed)}.")


@data_app.command()
def add(
    prices: Annotated[Path, typer.Argument(help="Prices: .csv or .parquet, a row a day.", show_default=False)],
    index: Annotated[str, typer.Option(help="Column of the index.")],
    name: Annotated[str, typer.Option(help="Name of the new set.")],
    dates: Annotated[
        str | None, typer.Option(help="Column of dates; by default the first that holds no numbers.")
    ] = None,
    missing: Annotated[str, typer.Option(help=f"What to do about missing prices: {', '.join(MISSING)}.")] = "refuse",
    folder: Folder = None,
    into: Into = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a set of that name.")] = False,
) -> None:
    """Make a tracking set of a file of prices; counterpoise reproduce table-2 --set NAME then runs on it."""
    with quit_with(2, OSError, ValueError, ImportError):
        target = _target(into, sets.data_folder(folder))
        if not name or not all(letter.isalnum() or letter in "-_." for letter in name) or name.startswith("."):
            raise ValueError(f"--name is {name!r}; use letters, digits, - and _.")
        if name in (*sets.paper_names(), sets.SIMULATED):
            raise ValueError(f"--name is {name}, a set of the paper; choose another.")
        file = target / sets.catalogue()["tracking"]["folder"] / f"{name}.npz"
        if file.exists() and not force:
            raise ValueError(f"{file} exists; give another --name or --force.")
        made = returns_of(read_prices(prices, index, dates), missing)
        sets.add_prices(name, made.dates, made.tickers, made.returns, made.index, target)
    for sentence in made.notes:
        typer.echo(sentence)
    m, n = made.returns.shape
    typer.echo(f"Wrote {file}: {m} returns of {n} stocks and of {index}.")


@data_app.command()
def fetch(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(sets.FETCHERS)}.", show_default=False)],
    folder: Folder = None,
    into: Into = None,
) -> None:
    """Download a source with scikit-learn's fetchers; this is the only command that uses the network."""
    with quit_with(2, OSError, ValueError, ImportError):
        if name not in sets.FETCHERS:
            raise ValueError(f"NAME is {name!r}; it must be one of {', '.join(sets.FETCHERS)}.")
        typer.echo(f"Wrote {sets.fetch(name, _target(into, sets.data_folder(folder)))}.")


def _target(into: Path | None, folder: Path | None) -> Path:
    target = into if into is not None else folder
    if target is None:
        raise ValueError(f"There is no folder to write to; give --into, --data or set {sets.VARIABLE}.")
    return target

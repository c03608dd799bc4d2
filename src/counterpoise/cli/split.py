"""``counterpoise split``: groups for an experiment, from a table of units."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console

import counterpoise as cp
from counterpoise.checks import number, whole_number
from counterpoise.cli import base, results
from counterpoise.cli.base import AsJson, Debug, Force, Quiet, Verbose, app, status_line
from counterpoise.findings import Listing, balance_table, split_claims
from counterpoise.output import csv_text
from counterpoise.sentences import counted, suggest
from counterpoise.tables.read import Sheet, read_sheet

LABELS, DRAWS, REPORT = "labels.csv", "draws.csv", "report.html"
OPTIONS = {
    "n_treated": "--treated",
    "n_draws": "--draws",
    "weights": "--weights",
    "strata": "--strata",
    "categorical": "--categorical",
    "max_time": "--seconds",
}


@app.command()
def split(
    context: typer.Context,
    table: Annotated[
        Path, typer.Argument(help="A row a unit, a column a covariate: .csv, .parquet or .xlsx.", show_default=False)
    ],
    treated: Annotated[
        list[int], typer.Option(help="Units of group 1, the others are group 0; repeat it for more groups.")
    ],
    strata: Annotated[
        str | None, typer.Option(metavar="COL", help="Divide the units of each value for themselves.")
    ] = None,
    weights: Annotated[
        list[str] | None, typer.Option(metavar="COL=W", help="Weight of a covariate, repeatable; 1 by default.")
    ] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(metavar="COL", help="A column of numbers that are categories, repeatable.")
    ] = None,
    identity: Annotated[
        str | None, typer.Option("--id", metavar="COL", help="Column with the names of the units.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(metavar="COL", help="A column to leave out, repeatable.")] = None,
    draws: Annotated[int, typer.Option(help="Near-optimal splits to draw from; 100 or more allow an exact test.")] = 1,
    seconds: Annotated[float | None, typer.Option(help="Seconds; by default a fixed amount of work.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same split.")] = 0,
    output: Annotated[Path, typer.Option(metavar="DIR", help="Folder of labels.csv and report.html.")] = Path(
        "counterpoise-split"
    ),
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    debug: Debug = False,
) -> None:
    """Divide units into groups whose covariates agree.

    Example: counterpoise split patients.csv --treated 50 --strata clinic --weights age=2 --draws 200
    """
    with base.answer(debug):
        base.check_manners(quiet, verbose)
        sizes = [whole_number(size, "--treated", 1) for size in treated]
        whole_number(draws, "--draws", 1)
        whole_number(seed, "--seed", 0)
        base.check_seconds(seconds, "search")
        each = [_weight(text) for text in weights or []]
        names = (LABELS, *((DRAWS,) if draws > 1 else ()), REPORT)
        base.check_folder(output, names, force, may_ask=not (as_json or quiet))
        with base.kept_warnings() as warned, status_line(quiet or as_json) as say:
            say(f"Reading {table.name}")
            data = _read(table, identity, ignore or [], categorical or [], strata)
            for name, _ in each:
                if name not in data.frame.columns:
                    hint = suggest(name, data.frame.columns, "its columns are {}", quoted=True)
                    raise ValueError(f"--weights: {name!r} is no covariate; {hint}")
            say(f"Dividing {counted(len(data.frame), 'unit')}", seconds)
            from counterpoise.estimators.callbacks import listening

            with base.in_options(OPTIONS), listening(say.hear):
                found = cp.balanced_split(
                    data.frame,
                    sizes[0] if len(sizes) == 1 else sizes,
                    weights=dict(each) or None,
                    strata=strata,
                    categorical=categorical or None,
                    n_draws=draws,
                    max_time=seconds,
                    random_state=seed,
                )
        notes = [*data.notes, *warned]
        from counterpoise.report import split_report

        balance = balance_table(found)
        report = split_report(
            found,
            title=f"{counted(len(data.frame), 'unit')} of {table.name} in {len(found.group_sizes)} groups",
            command=results.command_of(context),
            settings=results.settings_of(context),
            notes=notes,
        )
        head, labels = data.frame.index.name, [int(label) for label in found.labels]
        files = {LABELS: csv_text([head, "group"], zip(data.frame.index, labels, strict=True))}
        if draws > 1:
            columns = [head, *(f"draw {k}" for k in range(1, len(found.draws) + 1))]
            files[DRAWS] = csv_text(
                columns, ([name, *row] for name, row in zip(data.frame.index, found.draws.T.tolist(), strict=True))
            )
        files[REPORT] = report.html()
        summary = _summary(found, data, labels, balance, notes)
        show = functools.partial(_print, found=found, balance=balance, notes=notes, verbose=verbose)
        results.publish(context, output, files, summary, show, as_json, quiet, glue=", ")


def _weight(text: str) -> tuple[str, float]:
    name, equals, value = text.rpartition("=")
    try:
        weight = float(value)
    except ValueError:
        equals = ""
    if not equals or not name:
        raise ValueError(f"--weights is {text!r}; it must be COL=W, such as age=2.")
    return name, number(weight, f"--weights of {name}", 0.0)


class _Data(NamedTuple):
    """Covariates by unit, and what was left out."""

    frame: Any
    notes: list[str]


def _read(path: Path, identity: str | None, ignore: list[str], categorical: list[str], strata: str | None) -> _Data:
    sheet = read_sheet(path, may_lack_names=True)
    asked: dict[str, list[Any]] = {
        "--ignore": ignore,
        "--categorical": categorical,
        "--strata": [strata],
        "--id": [identity],
    }
    for option, names in asked.items():
        for name in names:
            if name is not None:
                sheet.require(name, option)
    notes = list(sheet.notes)
    free = [name for name in sheet.names if name not in ignore]
    if identity is None:
        identity = next((name for name in free if _is_identity(sheet, name, categorical, strata)), None)
        if identity is not None:
            notes.append(f"Took column {identity!r} for the names of the units, as no two are the same.")
    covariates = [name for name in free if name != identity]
    for name in covariates:
        if name not in categorical and name != strata and sheet.is_mixed(name):
            # Numbers with a few words among them are a mistake, not a category.
            sheet.numbers(name, f"the column's other cells are numbers; correct it, or give --categorical {name}")
    frame = sheet.frame[covariates].copy()
    for name in (*categorical, *([strata] if strata is not None else [])):
        frame[name] = sheet.text(name)
    labels = list(range(1, len(frame) + 1)) if identity is None else sheet.text(identity)
    if len(set(labels)) < len(labels):
        twice = next(label for k, label in enumerate(labels) if label in labels[:k])
        raise ValueError(f"--id is {identity!r}, but {twice!r} comes more than once; the names of units must differ.")
    frame.index = labels
    frame.index.name = "row" if identity is None else identity
    return _Data(frame, notes)


def _is_identity(sheet: Sheet, name: str, categorical: list[str], strata: str | None) -> bool:
    """Whether all words of a column differ, so that no split can balance it."""
    if name in categorical or name == strata or name not in sheet.words or sheet.column(name).dtype.kind == "M":
        return False
    words = sheet.text(name)
    return len(words) > 2 and None not in words and len(set(words)) == len(words) and not sheet.is_mixed(name)


def _summary(found: Any, data: _Data, labels: list[int], balance: Listing, notes: list[str]) -> dict[str, Any]:
    """Return what --json prints."""
    return {
        "units": len(labels),
        "group_sizes": list(found.group_sizes),
        "labels": dict(zip((str(name) for name in data.frame.index), labels, strict=True)),
        "objective": float(found.objective),
        "max_difference": float(found.max_difference),
        "random_difference": float(np.max([row[-2] for row in balance.rows])),
        "balance": [dict(zip((column.head for column in balance.columns), row, strict=True)) for row in balance.rows],
        "draws": len(found.draws),
        "reference": len(found.reference),
        "notes": notes,
    }


def _print(console: Console, found: Any, balance: Listing, notes: list[str], verbose: bool) -> None:
    for note in notes:
        base.tell(console, note)
    # Tiny differences of indicators are rounding errors.
    rows = (
        [name, *(f"{value if abs(value) > 1e-12 else 0.0:.3g}" for value in values)] for name, *values in balance.rows
    )
    results.print_table(console, "Balance", balance, rows, REPORT)
    sizes = ", ".join(f"{size} in group {g}" for g, size in enumerate(found.group_sizes))
    base.tell(console, f"{sizes}.")
    for sentence in split_claims(found)[: None if verbose else 1]:
        base.tell(console, sentence)

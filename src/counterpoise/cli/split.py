"""``counterpoise split``: divide a table of units into balanced groups for an experiment."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

import counterpoise as cp
from counterpoise.checks import choice, number, random_seed, whole_number
from counterpoise.cli import base, options, results
from counterpoise.cli.base import app, status_line
from counterpoise.estimators.covariates import DATE_UNITS
from counterpoise.estimators.draws import check_head
from counterpoise.findings import Listing, balance_table, split_claims
from counterpoise.output import csv_text
from counterpoise.sentences import as_text, counted, in_column, suggest
from counterpoise.tables.read import Sheet, is_code, names_units, read_sheet

LABELS, DRAWS, REPORT = "labels.csv", "draws.csv", "report.html"
SAME = "weights strata moments together: apart:"
OPTIONS = {
    **base.option_names(SAME, n_treated="--treated", n_draws="--draws", group_names="--names"),
    "together and apart": "--together and --apart",
}


@dataclasses.dataclass(frozen=True)
class Columns:
    """Options that say what columns are."""

    strata: Annotated[str | None, "Split each value of this column separately.", "COL"] = None
    categorical: Annotated[list[str] | None, "Columns of numbers that are categories: a,b; repeatable.", "COLS"] = None
    dates: Annotated[list[str] | None, f"Balance dates by {', '.join(DATE_UNITS)}; repeatable.", "COL=UNIT"] = None
    together: Annotated[str | None, "Units with the same value stay in one group.", "COL"] = None
    apart: Annotated[str | None, "No two units with the same value are in one group.", "COL"] = None
    missing: options.Gaps = "refuse"
    identity: options.Identity = None
    ignore: options.Ignore = None


@base.command(app.command())
def split(
    *,
    context: typer.Context,
    table: Annotated[Path, "One row per unit, one column per covariate: .csv, .parquet or .xlsx."],
    treated: Annotated[
        list[str],
        "Size of group 1, or a fraction such as 0.5; all others are group 0. Repeat for more groups.",
        "--treated",
    ],
    names: Annotated[str | None, "Names of groups 0, 1, …, such as control,treated.", "A,B"] = None,
    weights: Annotated[list[str] | None, "Weight of a covariate, repeatable; 1 by default.", "COL=W"] = None,
    moments: Annotated[int, "2 balances spreads as well as means."] = 1,
    columns: Columns,
    marks: options.Marks,
    draws: Annotated[int, "Near-optimal splits to draw from; 100 or more allow an exact test."] = 1,
    seconds: options.Seconds = None,
    seed: Annotated[
        int | None, "The same seed gives the same split; drawn at random, and recorded, by default."
    ] = None,
    output: Annotated[Path, f"Folder to write {LABELS} and {REPORT} to.", "DIR"] = Path("counterpoise-split"),
    manners: options.Writing,
) -> None:
    """Divide units into groups with similar covariates.

    Example: counterpoise split patients.csv --treated 50 --strata clinic --weights age=2 --draws 200
    """
    options.check_files(table)
    sizes = [_size(text) for text in treated]
    whole_number(draws, "--draws", 1)
    random_seed(seed, "--seed")
    choice(columns.missing, "--missing", options.GAPS, quoted=False)
    days = dict(_date(text) for text in columns.dates or [])
    options.check_seconds(seconds)
    each = [_weight(text) for text in weights or []]
    names_of = (LABELS, *((DRAWS,) if draws > 1 else ()), REPORT)
    options.check_folder(output, names_of, manners.force, may_ask=not manners.silent)
    with base.kept_warnings() as warned, status_line(manners.silent) as say:
        say(f"Reading {table.name}")
        frame, notes = _read(table, columns, days, [name for name, _ in each], marks)
        for name, _ in each:
            if name not in frame.columns:
                hint = suggest(name, frame.columns, "its columns are {}", quoted=True)
                raise ValueError(f"--weights: {name!r} is not a covariate; {hint}")
        say(f"Dividing {counted(len(frame), 'unit')}", seconds)
        from counterpoise.estimators.callbacks import listening

        with base.in_options(OPTIONS), listening(say.hear):
            found = cp.balanced_split(
                frame,
                sizes[0] if len(sizes) == 1 else sizes,
                weights=dict(each) or None,
                strata=columns.strata,
                dates={name: unit for name, unit in days.items() if name in frame.columns} or None,
                moments=moments,
                together=columns.together,
                apart=columns.apart,
                group_names=None if names is None else [name.strip() for name in names.split(",")],
                n_draws=draws,
                max_time=seconds,
                random_state=seed,
            )
    notes = [*warned, *notes]
    if not found.is_better_than_random:
        typer.echo(warned[0], err=True)
    notes.append(f"The seed is {found.seed}; --seed {found.seed} gives the same split again.")
    command = results.command_of(context) + ("" if seed is not None else f" --seed {found.seed}")
    from counterpoise.report import split_report

    balance = balance_table(found)
    report = split_report(
        found,
        title=f"{counted(len(frame), 'unit')} of {table.name} in {len(found.group_sizes)} groups",
        command=command,
        settings={**results.settings_of(context), "seed": str(found.seed)},
        notes=notes,
    )
    files = {LABELS: csv_text([frame.index.name, "group"], zip(frame.index, found.labels.tolist(), strict=True))}
    if draws > 1:
        files[DRAWS] = found.to_csv()
    files[REPORT] = report.html()
    summary = {"command": command, **_summary(found, frame.index, balance, notes)}
    shown = [note for note in notes if found.is_better_than_random or note not in warned]
    show = functools.partial(_print, found=found, balance=balance, notes=shown, verbose=manners.verbose)
    results.publish(context, output, files, summary, show, manners, glue=", ")


def _size(text: str) -> int | float:
    """Parse a number of units or a fraction."""
    try:
        if text.strip().endswith("%"):
            return float(text.strip()[:-1]) / 100.0
        return int(text) if text.strip().lstrip("+-").isdigit() else float(text)
    except ValueError:
        raise ValueError(f"--treated is {text!r}; it must be a whole number, or a fraction such as 0.5.") from None


def _date(text: str) -> tuple[str, str]:
    name, equals, unit = text.rpartition("=")
    if not (equals and name):
        raise ValueError(f"--dates is {text!r}; it must be COL=UNIT, such as enrolled=month.")
    return name, choice(unit, f"--dates of {name}", DATE_UNITS, quoted=False)


def _weight(text: str) -> tuple[str, float]:
    name, equals, value = text.rpartition("=")
    try:
        weight = float(value)
    except ValueError:
        equals = ""
    if not equals or not name:
        raise ValueError(f"--weights is {text!r}; it must be COL=W, such as age=2.")
    return name, number(weight, f"--weights of {name}", 0.0)


def _read(
    path: Path, asked: Columns, dates: Iterable[str], weighted: list[str], marks: options.Marks
) -> tuple[Any, list[str]]:
    """Return the covariates by unit, and notes on what was left out."""
    sheet = read_sheet(path, may_lack_names=True, **marks.arguments())
    ignore = options.columns_in(sheet, "--ignore", asked.ignore)
    categorical = options.columns_in(sheet, "--categorical", asked.categorical)
    given = {"strata": asked.strata, "together": asked.together, "apart": asked.apart, "id": asked.identity}
    for option, column in [*given.items(), *(("dates", name) for name in dates)]:
        if column is not None:
            sheet.require(column, f"--{option}")
    notes, identity = list(sheet.notes), asked.identity
    free = [name for name in sheet.names if name not in ignore]
    rules = [name for name in (asked.together, asked.apart) if name is not None]
    as_words = [*categorical, *rules, *([asked.strata] if asked.strata is not None else [])]
    asked_for = {*as_words, *dates, *weighted}
    if identity is None:
        identity = options.units_column(sheet, {*ignore, *asked_for})
        if identity is None:
            notes.append("Numbered the units by their rows, as no column names them.")
        elif names_units(identity) or identity in sheet.words or options.counts_units(sheet, identity):
            notes.append(f"Took column {identity!r} for the names of the units, as no two are the same.")
        else:
            raise ValueError(
                f"Column {identity!r} of {path} holds a different whole number for each unit; give --id {identity} if "
                f"these are names, or --weights {identity}=1 to balance them."
            )
    labels: list[Any] = list(range(1, len(sheet.lines) + 1))
    if identity is not None:
        labels = sheet.labels(check_head(identity), "unit")
        twice = options.repeated(labels)
        if twice is not None:
            raise ValueError(f"--id is {identity!r}, but {twice!r} is duplicated; names of units must be unique.")
    columns = [name for name in free if name != identity]
    notes += _doubts(sheet, [name for name in columns if name not in asked_for], identity)
    for name in columns:
        if name in as_words or name in dates:
            continue
        if sheet.holds_days(sheet.names.index(name)):
            raise ValueError(
                f"Column {name!r} of {path} holds dates; give --dates {name}=month (or {', '.join(DATE_UNITS)}), or "
                f"--ignore {name}."
            )
        if sheet.is_mixed(name):
            # A column of numbers with a few words is a mistake, not a category.
            sheet.numbers(name, f"the column's other cells are numbers; correct it, or give --categorical {name}")
        values = set(sheet.text(name)) if name in sheet.words else ()
        if 2 * len(values) > len(sheet.lines) > 2:
            notes.append(
                f"Column {name!r} has {len(values)} different values in {counted(len(sheet.lines), 'unit')}, too many "
                f"to balance; --ignore {name} leaves it out."
            )
    for name in rules:
        cells = sheet.as_written(name)
        empty = [cell for cell, word in zip(cells, sheet.text(name), strict=True) if word is None]
        if any(empty):
            free_units = counted(len(empty), "unit")
            notes.append(
                f"{next(filter(None, empty))!r} in column {name!r} counts as empty: {free_units} without a rule."
            )
    frame = sheet.frame[columns].copy()
    for name in as_words:
        frame[name] = sheet.text(name)
    frame.index = labels
    frame.index.name = "row" if identity is None else identity
    columns = [name for name in columns if name not in rules]
    gaps = frame[columns].isna().to_numpy()
    rows, whole, said = options.without_gaps(gaps, asked.missing, labels, columns, "unit", sheet.place)
    lost = [name for name, keep in zip(columns, whole, strict=True) if not keep]
    if asked.strata in lost:
        raise ValueError(f"--strata is {asked.strata!r}, which has empty cells; give --missing drop-rows.")
    frame, places = frame[rows].drop(columns=lost), np.flatnonzero(rows).tolist()
    notes += said
    for name in (name for name in dates if name in frame):
        frame[name] = sheet.days(name, places)
    return frame, notes


def _doubts(sheet: Sheet, columns: list[str], identity: str | None) -> list[str]:
    """Refuse covariates that are called like names of units or codes; return notes on those that may hold names."""
    notes = []
    for name in columns:
        words, is_number = sheet.as_written(name), name not in sheet.words
        many = 2 * len(set(words)) > len(words) > 2
        if names_units(name) and (many or (is_number and is_code(name))):
            twice, trouble = options.repeated(words), f"{identity!r} holds their names; give"
            if twice is not None:
                trouble = f"holds {twice!r} more than once; " if twice else "has empty cells; "
                right = "keep one row per unit, or " if twice else "fill them in, or "
                trouble += f"{right if many else ''}give"
            raise ValueError(
                f"Column {name!r} of {sheet.path} is called like names of units or codes, but {trouble} --ignore "
                f"{name}, or --categorical {name} or --weights {name}=1 to balance it."
            )
        if identity is None and is_number and options.all_differ(sheet, name) and options.counts_units(sheet, name):
            notes.append(
                f"Column {name!r} is balanced, though it holds a different whole number for each unit; give "
                f"--id {name} if these are names."
            )
    return notes


def _summary(found: Any, units: Any, balance: Listing, notes: list[str]) -> dict[str, Any]:
    """Return what --json prints."""
    return {
        "units": len(units),
        "group_sizes": list(found.group_sizes),
        "labels": dict(zip(map(str, units), found.labels.tolist(), strict=True)),
        "objective": float(found.objective),
        "max_difference": float(found.max_difference),
        "random_difference": float(found.at_random[1]),
        "better_than_random": found.is_better_than_random,
        "seed": found.seed,
        "balance": [dict(zip((column.head for column in balance.columns), row, strict=True)) for row in balance.rows],
        "draws": len(found.draws),
        "reference": len(found.reference),
        "notes": notes,
    }


def _print(console: Console, found: Any, balance: Listing, notes: list[str], verbose: bool) -> None:
    base.tell(console, *notes)
    names, *parts = zip(*balance.rows, strict=True)
    # Tiny differences of indicators are rounding error; means keep their own units.
    differences = in_column([value if abs(value) > 1e-12 else 0.0 for value in parts[-1]])
    rows = zip(names, *(map(as_text, part) for part in parts[:-2]), in_column(parts[-2]), differences, strict=True)
    results.print_table(console, "Balance", balance, REPORT, rows)
    sizes = ", ".join(f"{size} in group {name}" for name, size in zip(found.groups, found.group_sizes, strict=True))
    base.tell(console, f"{sizes}.", *split_claims(found)[: None if verbose else 1])

"""``counterpoise test``: randomisation test of outcomes, over the splits that the one used was drawn from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from counterpoise.checks import Vector, choice, number
from counterpoise.cli import base, options, results
from counterpoise.cli.base import app
from counterpoise.estimators.draws import COVARIATE, MISSING, Split
from counterpoise.estimators.randomisation import ALTERNATIVES
from counterpoise.figures.page import Column
from counterpoise.findings import Listing
from counterpoise.sentences import as_text, counted, joined, percent, some
from counterpoise.tables.read import Sheet, read_sheet

# Columns of outcomes that may say which group a unit was in.
GROUPS = ("group", "arm", "treatment", "name", "group name")
MEANING = (
    "The interval holds every constant effect that the test does not reject. All is exact only if the groups of the "
    "experiment were those drawn, and were drawn before any outcome was known."
)


@base.command(app.command())
def test(
    *,
    context: typer.Context,
    draws: Annotated[Path, "The draws.csv that counterpoise split --draws wrote."],
    outcomes: Annotated[Path, "One row per unit, with its outcome: .csv, .parquet or .xlsx."],
    outcome: Annotated[list[str], "The column of the outcome, repeatable.", "COL", "--outcome"],
    identity: Annotated[
        str | None, "Column with the names of the units; by default the one named as in the draws.", "COL", "--id"
    ] = None,
    alternative: Annotated[
        str, f"Alternative hypothesis: {', '.join(ALTERNATIVES)}.", "NAME", ALTERNATIVES
    ] = "two-sided",
    confidence: Annotated[float, "Confidence level of the interval; power is at level 1 − confidence."] = 0.95,
    effect: Annotated[float | None, "Print the power to detect an effect of this size."] = None,
    baseline: Annotated[bool, "Outcomes are from before the experiment: power only, no test."] = False,
    missing: Annotated[str, f"What to do about empty cells: {', '.join(MISSING)}.", "RULE", MISSING] = "refuse",
    marks: options.Marks,
    manners: options.Telling,
) -> None:
    """Test whether groups differ in an outcome, by a randomisation test that is exact for the draws of a split.

    Example: counterpoise test counterpoise-split/draws.csv outcomes.csv --outcome pain --effect 5
    """
    options.check_files(draws, outcomes)
    choice(alternative, "--alternative", ALTERNATIVES, quoted=False)
    choice(missing, "--missing", MISSING, quoted=False)
    if not 0.0 < number(confidence, "--confidence") < 1.0:
        raise ValueError(f"--confidence is {confidence:g}; it must be between 0 and 1, such as 0.95.")
    if baseline and effect is None:
        raise ValueError("--baseline needs --effect, the effect whose power to compute.")
    split = Split.load(draws)
    sheet = read_sheet(outcomes, **marks.arguments())
    notes = list(sheet.notes)
    rows = _rows(split, sheet, draws, identity, outcome, notes)
    if not baseline:
        _check_groups(split, sheet, rows, draws)
    found = []
    for name in outcome:
        sheet.require(name, "--outcome")
        y = _values(split, sheet, name, rows, missing, notes)
        found.append(_tested(split, name, y, alternative, confidence, effect, baseline))
    if len(found) > 1 and not baseline:
        notes.append(f"There are {len(found)} outcomes; each p-value is that of its own test, not adjusted.")
    if manners.as_json:
        counts = {"units": len(split.codes), "group_sizes": list(split.group_sizes), "seed": split.seed}
        counts |= {"reference": len(split.reference)}
        results.print_json({"command": results.command_of(context), **counts, "outcomes": found, "notes": notes})
    elif not manners.quiet:
        console = Console(highlight=False)
        base.tell(console, *notes)
        _print(console, split, found, alternative, confidence)
        if manners.verbose:
            base.tell(console, MEANING)


def _rows(
    split: Split, sheet: Sheet, draws: Path, identity: str | None, outcome: list[str], notes: list[str]
) -> list[int | None]:
    """Return the row of every unit in the table of outcomes, or None if it has none."""
    head = str(split.index.name)
    column = sheet.require(identity, "--id") if identity is not None else head if head in sheet.names else None
    units = [str(unit) for unit in split.index]
    by_row = head == "row" and units == [str(k) for k in range(1, len(units) + 1)]
    if column is None:
        if not by_row:
            raise ValueError(
                f"{sheet.path} has no column {head!r}, which holds the units of {draws}; name theirs with --id."
            )
        _check_order(sheet, draws, len(units), outcome)
        notes.append(f"Matched the rows of {sheet.path} with the units of {draws} by their order.")
        return list(range(len(units)))
    words = sheet.labels(column, "unit")
    if by_row and sorted(words) == sorted(str(k) for k in range(len(units))):
        raise ValueError(f"Column {column!r} of {sheet.path} counts rows from 0, but {draws} from 1; add 1 to it.")
    if not set(words) & set(units):  # other spellings, such as 12.0 for 12 or with spaces at the ends
        words, bare = [word or "" for word in sheet.text(column)], [unit.strip() for unit in units]
        units = bare if len(set(bare)) == len(bare) and set(words) & set(bare) else units
    places: dict[str, int] = {}
    for row, unit in enumerate(words):
        if unit in places:
            raise ValueError(f"{sheet.place(row, column)} is {unit!r}, which is a duplicate; keep one row per unit.")
        places[unit] = row
    known = set(units)
    others = [unit for unit in places if unit not in known]
    if len(others) == len(places):
        raise ValueError(
            f"{sheet.path} and {draws} share no unit: the first has {_some_names(places)}, the second "
            f"{_some_names(units)}; check --id."
        )
    absent = {unit.strip(): unit for unit in units if unit not in places}
    alike = next((unit for unit in others if unit.strip() in absent), None)
    if alike is not None:
        raise ValueError(
            f"{sheet.place(places[alike], column)} is {alike!r}, but {draws} has {absent[alike.strip()]!r}; write "
            "names with the same spaces in both."
        )
    if others:
        which = f"{counted(len(others), 'row')} of units that {draws} does not have"
        notes.append(f"Left out {which}: {_some_names(others)}.")
    return [places.get(unit) for unit in units]


def _some_names(units: Iterable[str]) -> str:
    """Return a few names; those with spaces at the ends are quoted."""
    return some((unit if unit == unit.strip() else repr(unit) for unit in units), 3)


def _check_order(sheet: Sheet, draws: Path, count: int, outcome: list[str]) -> None:
    """Refuse to match rows by their order if they seem to have another one than the units of the split."""
    if len(sheet.lines) != count:
        raise ValueError(
            f"{sheet.path} has {counted(len(sheet.lines), 'row')} and {draws} {counted(count, 'unit')}; units without "
            "names are matched by their order, so both must have the same number."
        )
    named = options.units_column(sheet, outcome)
    if named is not None:
        raise ValueError(
            f"{sheet.path} has a column {named!r} that may name its units, but {draws} numbers units by their rows; "
            f"make the split with --id {named}, or leave that column out if the rows are in the order of the split."
        )
    drawn = read_sheet(draws)
    for known in (name for name in drawn.names if name.startswith(COVARIATE)):
        name, equals, level = known.removeprefix(COVARIATE).partition(" = ")
        if name not in sheet.names or (name in sheet.words and not equals):
            continue
        expected = drawn.numbers(known)
        found = np.array([float(word == level) for word in sheet.text(name)]) if equals else sheet.column(name)
        differ = np.flatnonzero(found != expected)
        if len(differ) and np.array_equal(np.sort(found), np.sort(expected)):
            raise ValueError(
                f"{sheet.place(int(differ[0]), name)} differs from unit {differ[0] + 1} of {draws}, though the column "
                "has the same values in another order; give both tables a column that names the units."
            )


def _check_groups(split: Split, sheet: Sheet, rows: list[int | None], draws: Path) -> None:
    """If the table has a column of groups, refuse groups that differ from those drawn."""
    groups = {str(group) for group in split.groups}
    for name in (name for name in sheet.names if name.strip().lower() in GROUPS):
        words = sheet.as_written(name)
        if not {word for word in words if word} <= groups:
            continue
        for unit, label, row in zip(split.index, split.labels, rows, strict=True):
            if row is not None and words[row] and words[row] != str(label):
                raise ValueError(
                    f"{sheet.place(row, name)} is {words[row]!r}, but {draws} has drawn {label} for unit {unit}; the "
                    "test needs the groups that were drawn."
                )


def _values(split: Split, sheet: Sheet, name: str, rows: list[int | None], missing: str, notes: list[str]) -> Vector:
    """Return the outcomes in the order of the units, with NaN for missing ones if that is allowed."""
    column = sheet.numbers(name, "an outcome must be a number")
    y = np.array([np.nan if row is None else column[row] for row in rows])
    infinite = [row for row in rows if row is not None and np.isinf(column[row])]
    if infinite:
        raise ValueError(f"{sheet.place(infinite[0], name)} is {column[infinite[0]]:g}; it must be finite.")
    gaps = np.flatnonzero(np.isnan(y))
    if len(gaps):
        which = f"{len(gaps)} of {counted(len(y), 'unit')} {'lacks' if len(gaps) == 1 else 'lack'} {name!r}"
        if missing == "refuse":
            raise ValueError(
                f"{which}, such as {_some_names([str(split.index[gaps[0]])])}; choose a rule with --missing: "
                f"{', '.join(MISSING[1:])}."
            )
        lost = [f"{int((split.codes[gaps] == g).sum())} of group {group}" for g, group in enumerate(split.groups)]
        notes.append(
            f"Left out of all splits: {which}, {joined(lost)}. The test is exact if that does not depend on the group."
        )
    return y


def _tested(
    split: Split, name: str, y: Vector, alternative: str, confidence: float, effect: float | None, baseline: bool
) -> dict[str, Any]:
    """Return what --json prints about an outcome."""
    known = ~np.isnan(y)
    means = [float(y[known & (split.codes == g)].mean()) for g in range(len(split.groups))]
    said: dict[str, Any] = {"outcome": name, "units": int(known.sum())}
    two = len(split.groups) == 2
    if not baseline:
        statistic = "mean difference" if two else "between groups"
        test = split.randomisation_test(y, statistic, alternative, confidence, "drop-units")
        said |= {"means": dict(zip(map(str, split.groups), means, strict=True)), "statistic": test.statistic}
        said |= {"p_value": test.p_value, "interval": None if test.interval is None else list(test.interval)}
    if effect is not None:
        # Outcomes without an effect: the baseline, or the observed ones minus the estimated effect.
        before = y if baseline or not two else y - (means[1] - means[0]) * split.codes
        said["power"] = split.power(effect, before, 1.0 - confidence, alternative, "drop-units")
        said["effect"] = effect
    return said


def _print(console: Console, split: Split, found: list[dict[str, Any]], alternative: str, confidence: float) -> None:
    if "p_value" in found[0]:
        two, level = found[0]["interval"] is not None, f"{100.0 * confidence:g} % interval"
        heads = [*(f"mean {group}" for group in split.groups), *(["effect", level] if two else []), "p"]
        rows = []
        for said in found:
            cells = [as_text(value) for value in said["means"].values()]
            if two:
                cells += [as_text(said["statistic"]), " to ".join(as_text(limit) for limit in said["interval"])]
            rows.append([said["outcome"], *cells, as_text(said["p_value"])])
        columns = [Column("outcome"), *(Column(head, "number") for head in heads)]
        results.print_table(console, "Outcomes", Listing(columns, rows), "--json")
        between, sides = "", "that of differences between groups"
        if two:
            between = "An effect is the mean of group {1} − that of group {0}. ".format(*split.groups)
            sides = alternative
        count = len(split.reference)
        base.tell(console, f"{between}p is {sides}, and exact over the {count} splits that this one was drawn from.")
        least = (1 + (split.mirrored and alternative == "two-sided")) / count
        if least > 1.0 - confidence + 1e-12:
            few = f"With so few splits no effect can be significant: p is at least {least:.2g}; use more draws."
            base.tell(console, few)
    for said in found:
        if "power" in said:
            of = f"Power for an effect of {said['effect']:g} on {said['outcome']}"
            base.tell(console, f"{of}: {percent(said['power'])} at level {1.0 - confidence:.2g}.")

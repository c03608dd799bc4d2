"""Read the input of ``counterpoise track``: returns of names and index, and rules of the portfolio."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

from counterpoise.checks import number
from counterpoise.cli import base
from counterpoise.cli.options import Marks, names_in
from counterpoise.sentences import counted, percent, some
from counterpoise.tables import portfolios as tables
from counterpoise.tables.prices import CARRY_DAYS, FEW_LEFT, complete, few_left, look_like_returns, to_returns
from counterpoise.tables.read import SUFFIXES


class Data(NamedTuple):
    """Returns of names and index on the same rows, with notes.

    ``listed`` holds the returns of all names, NaN without a price; ``returns`` those of names that can be fitted on all
    rows and bought on the last one; ``offered`` are the names of all stocks in the file. ``carry_days`` is None for a
    table of returns.
    """

    listed: Any
    returns: Any
    index: Any
    index_name: str
    dated: bool
    carry_days: int | None
    notes: list[str]
    offered: list[str]

    def chosen(self, texts: list[str] | None, option: str) -> list[str] | None:
        """Return the names in --include or --exclude; names left out because of missing prices cannot be included."""
        names = names_in(texts, self.offered)
        absent = [name for name in names if name in self.offered and name not in self.listed]
        if option == "--include":
            absent += [name for name in names if name in self.listed and name not in self.returns]
            if absent:
                raise ValueError(
                    f"--include lists {absent[0]!r}, which is left out because of missing prices; take it from "
                    "--include, or choose another rule with --missing or --carry-days."
                )
        return [name for name in names if name not in absent] or None

    def until(self, split: int | None) -> tuple[Data, list[str]]:
        """Return the data with the names that can be fitted on the rows before ``split``, and warnings.

        Names that cannot be fitted on all rows stay in ``listed`` for a backtest, unless there is a split.
        """
        found, notes = complete(self.listed.iloc[:split], self.carry_days or 0)
        listed = self.listed if split is None else self.listed[found.columns]
        warned = few_left(found.shape[1], len(self.offered))
        return self._replace(listed=listed, returns=found, notes=[*self.notes, *notes]), warned


def read_data(
    path: Path,
    index: str,
    dates: str | None,
    missing: str | None,
    returns: bool,
    ignore: list[str] | None,
    marks: Marks,
    carry_days: int = CARRY_DAYS,
    partial: bool = False,
) -> Data:
    """Read prices or returns, and the index; with ``partial`` keep names that are listed or delisted within them."""
    written = marks.arguments()
    table = tables.read_prices(path, dates, names_in(ignore, ()), **written)
    of_index, said = tables.read_index(index, table, path, **written)
    notes = [*table.notes, *said]
    if not returns and look_like_returns(table.frame.to_numpy()):
        returns = True
        notes.append(f"Took {path} for returns, as many of its numbers are negative; prices are positive.")
    rule = missing or ("refuse" if returns else "carry-forward")
    said_of = {"choose a rule": "choose a rule with --missing", "missing is": "--missing is"}
    said_of |= {"prices has": f"{path} has", "index has": f"{index} has"}
    with base.in_options(said_of), warnings.catch_warnings():
        if partial:  # counted by :meth:`Data.until`
            warnings.filterwarnings("ignore", f".*{FEW_LEFT}")
        found, series, more = to_returns(
            table.frame,
            of_index,
            rule,
            align="inner",
            given="returns" if returns else "prices",
            carry_days=carry_days,
            partial=partial,
        )
    name = of_index if isinstance(of_index, str) else str(of_index.name)
    if name.strip().lower() in tables.PRICE_NAMES:
        name = Path(index).stem
    days = None if returns else carry_days
    index_column = of_index if isinstance(of_index, str) else None
    offered = [str(label) for label in table.frame.columns if label != index_column]
    return Data(found, found, series, name, table.dated, days, [*notes, *more], offered)


class Rules(NamedTuple):
    """Parameters of the tracker read from files, weights of the index, notes and warnings."""

    options: dict[str, Any]
    groups: dict[str, str] | None
    index_weights: dict[str, float] | None
    notes: list[str]
    warnings: list[str]


def is_file(text: str) -> bool:
    """Return whether an option that takes a number or a file was given a file."""
    return Path(text).suffix.lower() in SUFFIXES


def read_rules(data: Data, files: dict[str, Path | None], weights: dict[str, str]) -> Rules:
    """Read the tables of groups, group limits, previous weights, index weights and weight limits."""
    groups, limits = files["groups"], files["group_limits"]
    previous, index_weights = files["previous"], files["index_weights"]
    options: dict[str, Any] = {}
    notes: list[str] = []
    warned: list[str] = []
    known, members = set(data.listed.columns), None
    if groups is not None:
        given = tables.read_groups(groups, "--groups")
        members = _known(given, known, groups, "--groups", notes)
        lacking = [name for name in data.listed.columns if name not in members]
        if lacking:
            notes.append(f"In no group: {counted(len(lacking), 'name')}, {some(lacking)}.")
        options["groups"] = members
    if limits is not None:
        options["group_limits"] = tables.read_limits(limits, "--group-limits")
    if previous is not None:
        held = options["previous_weights"] = _spelled(tables.read_weights(previous, "--previous"), known)
        strange = {name: weight for name, weight in held.items() if name not in data.returns and weight}
        if strange:
            warned.append(
                f"{previous} holds {counted(len(strange), 'name')} without enough prices, {some(strange)}: "
                f"{percent(sum(strange.values()), 2)} of the portfolio, which {'is' if len(strange) == 1 else 'are'} "
                "treated as sold."
            )
    for name, text in weights.items():
        option = f"--{name.replace('_', '-')}"
        if is_file(text):
            options[name] = _known(tables.read_weights(Path(text), option), known, Path(text), option, notes)
            continue
        try:
            options[name] = number(float(text), option)
        except ValueError:
            raise ValueError(f"{option} is {text!r}; it must be a number, or a table of name, weight.") from None
    of_index = None
    if index_weights is not None:
        given_weights = tables.read_weights(index_weights, "--index-weights")
        of_index = _known(given_weights, known, index_weights, "--index-weights", notes)
        for name, weight in of_index.items():
            if not 0.0 <= weight <= 1.0:
                raise ValueError(f"--index-weights is {weight:g} for {name!r}; it must be between 0 and 1.")
    return Rules(options, members, of_index, notes, warned)


def _spelled(given: dict[str, Any], known: set[Any]) -> dict[str, Any]:
    """Return entries under the names of the prices, which have no spaces at the ends where they head columns."""
    bare = {name: name.strip() for name in given}
    wrong = {name for name in given if name not in known and bare[name] in known and bare[name] not in given}
    return {bare[name] if name in wrong else name: value for name, value in given.items()}


def _known(given: dict[str, Any], known: set[Any], path: Path, option: str, notes: list[str]) -> dict[str, Any]:
    """Return the entries of names that have prices; add a note about the others."""
    given = _spelled(given, known)
    found = {name: value for name, value in given.items() if name in known}
    strange = [name for name in given if name not in known]
    if not found:
        raise ValueError(f"{option} is {path}, but none of its names has prices; it has {some(given)}.")
    if strange:
        notes.append(f"Left out {counted(len(strange), 'name')} of {path} without enough prices: {some(strange)}.")
    return found

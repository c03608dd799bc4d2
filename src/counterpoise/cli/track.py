"""``counterpoise track``: from a file of prices to a portfolio of few names that follows an index."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console

import counterpoise as cp
from counterpoise.checks import choice, number, whole_number
from counterpoise.cli import base, results
from counterpoise.cli.base import AsJson, Debug, Force, Line, Quiet, Verbose, app, status_line
from counterpoise.findings import Listing, ending, holdings_table, tracking_claims
from counterpoise.output import csv_text
from counterpoise.sentences import counted, percent, some
from counterpoise.tables import portfolios as tables
from counterpoise.tables.prices import MISSING, to_returns

FILES = ("weights.csv", "report.html")
# Parameters in the library's messages, and the options they correspond to.
OPTIONS = {
    "n_assets": "--assets",
    "max_weight": "--max-weight",
    "min_weight": "--min-weight",
    "group_limits": "--group-limits",
    "groups": "--groups",
    "previous_weights": "--previous",
    "transaction_cost": "--cost",
    "include": "--include",
    "exclude": "--exclude",
    "measure": "--measure",
    "huber": "--huber",
    "max_time": "--seconds",
    "window": "WINDOW of --backtest",
}


@app.command()
def track(
    context: typer.Context,
    prices: Annotated[
        Path, typer.Argument(help="Prices: .csv, .parquet or .xlsx; wide, or date, ticker, price.", show_default=False)
    ],
    index: Annotated[str, typer.Option(metavar="COL|FILE", help="The index: a column of the prices, or a file.")],
    assets: Annotated[int, typer.Option(help="How many names to hold, at most.")] = 30,
    max_weight: Annotated[float, typer.Option(help="Largest weight of a name.")] = 1.0,
    min_weight: Annotated[float, typer.Option(help="Least weight of a name that is held.")] = 0.0,
    groups: Annotated[Path | None, typer.Option(help="Table of name, group.")] = None,
    group_limits: Annotated[Path | None, typer.Option(help="Table of group, low, high: limits of its weight.")] = None,
    previous: Annotated[Path | None, typer.Option(help="Table of name, weight: what is held now.")] = None,
    cost: Annotated[float, typer.Option(help="Of a unit bought or sold; 0.001 is ten basis points.")] = 0.0,
    include: Annotated[list[str] | None, typer.Option(help="A name that must be held, repeatable.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="A name that must not be held, repeatable.")] = None,
    measure: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What is least: ete (squared error), dr (squared shortfall), hete, hdr (linear beyond --huber).",
            autocompletion=lambda: ["ete", "dr", "hete", "hdr"],
        ),
    ] = "ete",
    huber: Annotated[
        float | None, typer.Option(help="Daily difference beyond which hete and hdr are linear: 0.0025.")
    ] = None,
    train_until: Annotated[
        str | None, typer.Option(metavar="DATE", help="Fit on the days up to this one, hold on those after.")
    ] = None,
    backtest: Annotated[
        str | None, typer.Option(metavar="WINDOW/STEP", help="Fit on WINDOW rows, hold for STEP, and so on: 252/63.")
    ] = None,
    missing: Annotated[
        str,
        typer.Option(
            metavar="RULE",
            help=f"Of missing prices: {', '.join(MISSING)}.",
            autocompletion=lambda: list(MISSING),
        ),
    ] = "refuse",
    dates: Annotated[str | None, typer.Option(metavar="COL", help="Column of days, if it is not found.")] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Seconds for each fit; by default a fixed amount of work.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same weights.")] = 0,
    output: Annotated[Path, typer.Option(metavar="DIR", help="Folder of weights.csv and report.html.")] = Path(
        "counterpoise-track"
    ),
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    debug: Debug = False,
) -> None:
    """Follow an index with few names, from a file of prices.

    Example: counterpoise track prices.csv --index SPX --assets 30 --max-weight 0.1 --backtest 252/63
    """
    with base.answer(debug):
        base.check_manners(quiet, verbose)
        whole_number(assets, "--assets", 1)
        whole_number(seed, "--seed", 0)
        number(cost, "--cost", 0.0)
        base.check_seconds(seconds)
        choice(missing, "--missing", MISSING, quoted=False)
        _check_measure(measure, huber)
        if train_until is not None and backtest is not None:
            raise ValueError("--train-until and --backtest are both given; give one of them.")
        if group_limits is not None and groups is None:
            raise ValueError("--group-limits is given without --groups; say which name is in which group.")
        spans = None if backtest is None else _spans(backtest)
        base.check_folder(output, FILES, force, may_ask=not (as_json or quiet))
        with base.kept_warnings() as warned, status_line(quiet or as_json) as say:
            say(f"Reading {prices.name}")
            data = _read(prices, index, dates, missing)
            rules = _rules(data, groups, group_limits, previous)
            tracker = _tracker(
                assets,
                max_weight=max_weight,
                min_weight=min_weight,
                transaction_cost=cost,
                measure=measure,
                huber=huber,
                include=include or None,
                exclude=exclude or None,
                max_time=seconds,
                random_state=seed,
                **rules.options,
            )
            split = None if train_until is None else _row_after(data, train_until)
            with base.in_options(OPTIONS):
                found = _fit(tracker, data, split, spans, cost, say)
        notes = [*data.notes, *rules.notes, *warned]
        if found.cut:
            notes.append("Interrupted: what was finished is shown.")
        from counterpoise.report import tracking_report

        weights = holdings_table(found.tracker, rules.groups)
        report = tracking_report(
            found.tracker,
            *found.rows,
            backtest=found.backtest,
            title=f"{data.index_name}, followed by {len(found.tracker.support_)} of {data.returns.shape[1]} names",
            command=results.command_of(context),
            settings=results.settings_of(context),
            notes=notes,
            groups=rules.groups,
        )
        head = [column.head for column in weights.columns]
        files = {"weights.csv": csv_text(head, weights.rows), "report.html": report.html()}
        summary = _summary(found, data, notes)
        show = functools.partial(_print, found=found, data=data, weights=weights, notes=notes, verbose=verbose)
        results.publish(context, output, files, summary, show, as_json, quiet)
    if found.cut:
        raise typer.Exit(base.INTERRUPTED)


def _check_measure(name: str, huber: float | None) -> None:
    """Refuse a bad measure before any file is read; Numba is imported only now."""
    from counterpoise.estimators.measures import as_measure

    with base.in_options(OPTIONS):
        as_measure(name, huber)


def _tracker(assets: int, **options: Any) -> Any:
    """Return an IndexTracker; scikit-learn is imported only now."""
    from counterpoise.estimators.tracking import IndexTracker

    return IndexTracker(assets, **options)


class _Data(NamedTuple):
    """Returns of names and index on the same rows, with notes."""

    returns: Any
    index: Any
    index_name: str
    dated: bool
    notes: list[str]


def _read(path: Path, index: str, dates: str | None, missing: str) -> _Data:
    prices = tables.read_prices(path, dates)
    of_index, said = tables.read_index(index, prices, path)
    with base.in_options({"choose a rule": "choose a rule with --missing"}):
        returns, series, notes = to_returns(prices.frame, of_index, missing, align="inner")
    name = of_index if isinstance(of_index, str) else str(of_index.name)
    if name.strip().lower() in tables.PRICE_NAMES:
        name = Path(index).stem
    return _Data(returns, series, name, prices.dated, [*prices.notes, *said, *notes])


class _Rules(NamedTuple):
    """Options of the tracker from files, with notes."""

    options: dict[str, Any]
    groups: dict[str, str] | None
    notes: list[str]


def _rules(data: _Data, groups: Path | None, limits: Path | None, previous: Path | None) -> _Rules:
    options: dict[str, Any] = {}
    notes: list[str] = []
    members: dict[str, str] | None = None
    if groups is not None:
        known = set(data.returns.columns)
        given = tables.read_groups(groups, "--groups")
        members = {name: group for name, group in given.items() if name in known}
        strange = [name for name in given if name not in known]
        lacking = [name for name in data.returns.columns if name not in members]
        if not members:
            raise ValueError(f"--groups is {groups}, of whose names none has prices; it has {some(given)}.")
        if strange:
            notes.append(f"Left out {counted(len(strange), 'name')} of {groups} without prices: {some(strange)}.")
        if lacking:
            notes.append(f"In no group: {counted(len(lacking), 'name')}, {some(lacking)}.")
        options["groups"] = members
    if limits is not None:
        options["group_limits"] = tables.read_limits(limits, "--group-limits")
    if previous is not None:
        options["previous_weights"] = tables.read_weights(previous, "--previous")
    return _Rules(options, members, notes)


def _spans(text: str) -> tuple[int, int]:
    """Return WINDOW and STEP."""
    parts = text.split("/")
    if len(parts) != 2 or not all(part.strip().isdigit() for part in parts):
        raise ValueError(f"--backtest is {text!r}; it must be WINDOW/STEP in rows, such as 252/63.")
    window, step = (int(part) for part in parts)
    return whole_number(window, "WINDOW of --backtest", 2), whole_number(step, "STEP of --backtest", 1)


def _row_after(data: _Data, text: str) -> int:
    """Return the first row after a day."""
    import pandas

    if not data.dated:
        raise ValueError("--train-until is given, but the prices have no days; use --backtest, which counts rows.")
    try:
        day = pandas.Timestamp(text)
    except ValueError:
        raise ValueError(f"--train-until is {text!r}; it must be a day such as 2024-01-31.") from None
    days = data.returns.index
    row = int(days.searchsorted(day, side="right"))
    if row < 2 or row >= len(days):
        least, most = str(days[1].date()), str(days[-2].date())
        raise ValueError(
            f"--train-until is {text}, with {row} of {len(days)} rows of returns up to it; it must leave two to fit on "
            f"and one to hold: between {least} and {most}."
        )
    return row


class _Found(NamedTuple):
    tracker: Any
    rows: tuple[Any, Any]
    backtest: Any
    cut: bool


def _fit(tracker: Any, data: _Data, split: int | None, spans: tuple[int, int] | None, cost: float, say: Line) -> _Found:
    """Fit on all rows; or fit before the split and hold after it; or fit and backtest."""
    from counterpoise.backtest import backtest
    from counterpoise.estimators.callbacks import listening

    rows = (data.returns, data.index)
    say(f"{tracker.n_assets} of {data.returns.shape[1]} names", tracker.max_time)
    if split is not None:
        parts = [(np.arange(split), np.arange(split, len(data.returns)))]
        with listening(say.hear):
            rolled = backtest(tracker, *rows, splitter=parts, cost=cost)
        fitted = rolled.trackers[0]
        return _Found(fitted, (data.returns.iloc[:split], data.index.iloc[:split]), rolled, _interrupted(fitted))
    with listening(say.hear):
        fitted = tracker.fit(*rows)
    if spans is None or _interrupted(fitted):
        return _Found(fitted, rows, None, _interrupted(fitted))
    known = f"fit {fitted.result_.objective:.4g}, gap {max(0.0, fitted.cws_gap_):.0e}"
    say(f"Backtest: {known}")

    def progress(done: int, total: int) -> None:
        say.reach(done / total)
        say.show(f"Backtest, window {done} of {total}: {known}")

    rolled = backtest(tracker, *rows, *spans, cost=cost, callback=progress)
    return _Found(fitted, rows, rolled, not rolled.complete)


def _interrupted(fitted: Any) -> bool:
    return fitted.result_.status is cp.Status.INTERRUPTED


def _summary(found: _Found, data: _Data, notes: list[str]) -> dict[str, Any]:
    """Return what --json prints."""
    tracker, result = found.tracker, found.tracker.result_
    days = [str(each.date()) if data.dated else int(each) for each in found.rows[0].index[[0, -1]]]
    weights = tracker.weights_[tracker.weights_ != 0.0].sort_values(ascending=False)
    return {
        "index": data.index_name,
        "names": data.returns.shape[1],
        "rows": len(found.rows[0]),
        "first": days[0],
        "last": days[1],
        "held": len(weights),
        "weights": {name: float(weight) for name, weight in weights.items()},
        "tracking_error": float(tracker.tracking_error_),
        "turnover": float(tracker.turnover_),
        "objective": float(result.objective),
        "status": result.status.name,
        "certified": bool(result.success),
        "cws_gap": float(tracker.cws_gap_),
        "seconds": float(result.time),
        "backtest": None if found.backtest is None else dict(found.backtest.summary().items()),
        "notes": notes,
    }


def _print(console: Console, found: _Found, data: _Data, weights: Listing, notes: list[str], verbose: bool) -> None:
    for note in notes:
        base.tell(console, note)
    rows = ([value if isinstance(value, str) else percent(value, 2) for value in row] for row in weights.rows)
    results.print_table(console, "Portfolio", weights, rows, "weights.csv")
    from counterpoise.report import periods_of

    tracker, periods = found.tracker, periods_of(data.returns.index)
    errors = {"of the fit": float(tracker.tracking_error_)}
    if found.backtest is not None:
        errors["out of sample"] = float(found.backtest.tracking_error)
    for where, error in errors.items():
        yearly = "" if periods is None else f", about {percent(math.sqrt(periods) * error, 2)} a year"
        base.tell(console, f"Tracking error {where}: {percent(error)} a row{yearly}.")
    for sentence in tracking_claims(tracker)[: None if verbose else 1]:
        base.tell(console, sentence)
    if verbose:
        base.tell(console, ending(tracker.result_))
        if found.backtest is not None:
            for name, value in found.backtest.summary(periods).items():
                console.print(f"  {name.replace('_', ' ')}: {value:.4g}")

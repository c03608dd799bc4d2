"""``counterpoise track``: find a portfolio of few names that tracks an index, from a file of prices."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console

import counterpoise as cp
from counterpoise.checks import choice, number, whole_number
from counterpoise.cli import base, options, results
from counterpoise.cli.base import Line, app, status_line
from counterpoise.cli.portfolio import Data, is_file, read_data, read_rules
from counterpoise.findings import Listing, ending, holdings_table, rhythm_of, sales, tracking_claims
from counterpoise.output import csv_text
from counterpoise.sentences import counted, percent, short_gap
from counterpoise.tables.prices import CARRY_DAYS, MISSING
from counterpoise.windows import among

FILES = ("weights.csv", "report.html")
# Parameters in the library's messages, and the options they correspond to.
OPTIONS = base.option_names(
    "max_weight min_weight groups group_limits include exclude measure huber method work",
    n_assets="--assets",
    previous_weights="--previous",
    transaction_cost="--cost",
    window="WINDOW of --backtest",
)


@base.command(app.command())
def track(
    *,
    context: typer.Context,
    prices: Annotated[Path, "Prices or returns: .csv, .parquet or .xlsx; wide, or date, ticker, price."],
    index: Annotated[str, "The index: a column of the prices, or a file.", "COL|FILE", "--index"],
    returns: Annotated[bool, "The table holds returns as fractions; detected if many are negative."] = False,
    assets: Annotated[int, "Maximum number of names to hold."] = 30,
    max_weight: Annotated[str, "Largest weight of a name, or a table of name, weight.", "W|FILE"] = "1",
    min_weight: Annotated[str, "Least weight of a name that is held, or a table of name, weight.", "W|FILE"] = "0",
    groups: Annotated[Path | None, "Table of name, group."] = None,
    group_limits: Annotated[Path | None, "Table of group, low, high: limits of its weight."] = None,
    previous: Annotated[
        Path | None,
        "Table of name, weight: what is held now (with --train-until, on that day). A --backtest starts from cash.",
    ] = None,
    index_weights: Annotated[Path | None, "Table of name, weight of the index, to compare with."] = None,
    cost: Annotated[float, "Cost per unit bought or sold; 0.001 is ten basis points."] = 0.0,
    include: Annotated[list[str] | None, "Names that must be held: AAPL,MSFT; repeatable.", "NAMES"] = None,
    exclude: Annotated[list[str] | None, "Names that must not be held; repeatable.", "NAMES"] = None,
    measure: Annotated[
        str,
        "What to minimise: ete (squared error), dr (squared shortfall), hete, hdr (linear beyond --huber).",
        "NAME",
        ("ete", "dr", "hete", "hdr"),
    ] = "ete",
    huber: Annotated[float | None, "Difference beyond which hete and hdr are linear, such as 0.0025."] = None,
    train_until: Annotated[str | None, "Fit on the days up to this one, hold on those after.", "DATE"] = None,
    backtest: Annotated[str | None, "Refit on WINDOW rows every STEP rows: 252/63.", "WINDOW/STEP"] = None,
    expanding: Annotated[bool, "Fit each window of --backtest on all rows before it."] = False,
    missing: Annotated[
        str | None,
        f"What to do about missing prices: {', '.join(MISSING)}; by default carry-forward, for returns refuse.",
        "RULE",
        MISSING,
    ] = None,
    carry_days: Annotated[
        int, "For how many rows carry-forward takes the last price; names with longer gaps are left out."
    ] = CARRY_DAYS,
    dates: options.Dates = None,
    ignore: options.Ignore = None,
    marks: options.Marks,
    method: Annotated[str, "Method: search; swap or bcd-g are faster but not as good.", "NAME"] = "search",
    effort: options.Effort,
    seed: Annotated[int, "The same seed gives the same weights."] = 0,
    output: Annotated[Path, f"Folder to write {' and '.join(FILES)} to.", "DIR"] = Path("counterpoise-track"),
    manners: options.Writing,
) -> None:
    """Follow an index with few names, from a file of prices or returns.

    Example: counterpoise track prices.csv --index SPX --assets 30 --max-weight 0.1 --backtest 252/63
    """
    limits = {"max_weight": max_weight, "min_weight": min_weight}
    tables = {"groups": groups, "group_limits": group_limits, "previous": previous, "index_weights": index_weights}
    options.check_files(prices, **tables, **{name: Path(text) for name, text in limits.items() if is_file(text)})
    whole_number(assets, "--assets", 1)
    whole_number(seed, "--seed", 0)
    if number(cost, "--cost", 0.0) > 1.0:
        raise ValueError(f"--cost is {cost:g}; it must be between 0 and 1, and 0.001 is ten basis points.")
    options.check_seconds(effort.seconds)
    if missing is not None:
        choice(missing, "--missing", MISSING, quoted=False)
    whole_number(carry_days, "--carry-days", 0)
    from counterpoise.estimators.measures import as_measure

    with base.in_options(OPTIONS):
        as_measure(measure, huber)
    if train_until is not None and backtest is not None:
        raise ValueError("--train-until and --backtest are both given; give one of them.")
    if expanding and backtest is None:
        raise ValueError("--expanding is given without --backtest; give both or neither.")
    if group_limits is not None and groups is None:
        raise ValueError("--group-limits is given without --groups; say which name is in which group.")
    spans = None if backtest is None else _spans(backtest)
    options.check_folder(output, FILES, manners.force, may_ask=not manners.silent)
    with base.kept_warnings() as warned, status_line(manners.silent) as say:
        say(f"Reading {prices.name}")
        partial = spans is not None or train_until is not None
        data = read_data(prices, index, dates, missing, returns, ignore, marks, carry_days, partial)
        split = None if train_until is None else _row_after(data, train_until)
        if partial:
            data, few = data.until(split)
            warned += few
        if spans is not None and spans[0] >= (length := len(data.listed)):
            raise ValueError(
                f"WINDOW of --backtest is {spans[0]}, but there are {length} rows of returns; it must be at most "
                f"{length - 1}, so that a row is left to hold a portfolio on."
            )
        rules = read_rules(data, tables, limits)
        tracker = cp.IndexTracker(
            assets,
            transaction_cost=cost,
            measure=measure,
            huber=huber,
            include=data.chosen(include, "--include"),
            exclude=data.chosen(exclude, "--exclude"),
            method=method,
            random_state=seed,
            **effort.arguments(),
            **rules.options,
        )
        with base.in_options(OPTIONS):
            found = _fit(tracker, data, split, spans, expanding, say)
    notes = [*data.notes, *rules.notes]
    if previous is not None and spans is not None:
        notes.append("The backtest starts from cash; --previous is where the portfolio fitted on all rows starts.")
    if spans is not None and data.listed.shape[1] > data.returns.shape[1]:
        notes.append("The backtest takes names that are left out here in the windows in which they have prices.")
    sold = [] if found.backtest is None else sales(found.backtest)
    warned = [*rules.warnings, *warned, *_few_rows(found)]
    if found.cut:
        warned.append("Interrupted; only finished results are shown.")
    from counterpoise.report import tracking_report

    weights = holdings_table(found.tracker, rules.groups, rules.index_weights)
    report = tracking_report(
        found.tracker,
        *found.rows,
        backtest=found.backtest,
        title=f"{data.index_name}, followed by {len(found.tracker.support_)} of {data.returns.shape[1]} names",
        command=results.command_of(context),
        settings=results.settings_of(context),
        notes=[*warned, *notes],
        groups=rules.groups,
        index_weights=rules.index_weights,
    )
    head = [column.head for column in weights.columns]
    files = {"weights.csv": csv_text(head, weights.rows), "report.html": report.html()}
    notes += sold
    summary = _summary(found, data, [*warned, *notes])
    show = functools.partial(_print, found=found, data=data, weights=weights, notes=notes, verbose=manners.verbose)
    results.publish(context, output, files, summary, show, manners, warned, cut=found.cut)


def _spans(text: str) -> tuple[int, int]:
    """Return WINDOW and STEP."""
    parts = text.split("/")
    if len(parts) != 2 or not all(part.strip().isdigit() for part in parts):
        raise ValueError(f"--backtest is {text!r}; it must be WINDOW/STEP in rows, such as 252/63.")
    window, step = (int(part) for part in parts)
    return whole_number(window, "WINDOW of --backtest", 2), whole_number(step, "STEP of --backtest", 1)


def _row_after(data: Data, text: str) -> int:
    """Return the first row after a day."""
    import pandas

    if not data.dated:
        raise ValueError("--train-until is given, but the prices have no dates; use --backtest, which counts rows.")
    try:
        day = pandas.Timestamp(text) if text[:4].isdigit() else None  # 3/1/2024 is ambiguous
    except ValueError:
        day = None
    if day is None:
        raise ValueError(f"--train-until is {text!r}; it must be a day such as 2024-01-31.")
    days = data.listed.index
    row = int(days.searchsorted(day, side="right"))
    if row < 2 or row >= len(days):
        least, most = str(days[1].date()), str(days[-2].date())
        raise ValueError(
            f"--train-until is {text}, with {row} of {len(days)} rows of returns up to it; it must leave two to fit on "
            f"and one to hold on, so it must be between {least} and {most}."
        )
    return row


class _Found(NamedTuple):
    tracker: Any
    rows: tuple[Any, Any]
    backtest: Any
    cut: bool


def _fit(
    tracker: Any, data: Data, split: int | None, spans: tuple[int, int] | None, expanding: bool, say: Line
) -> _Found:
    """Fit on all rows; or fit on rows before a date and hold on those after it; or fit and backtest."""
    from sklearn.base import clone

    from counterpoise.backtest import backtest
    from counterpoise.estimators.callbacks import listening

    rows, cost = (data.returns, data.index), tracker.transaction_cost
    held: dict[str, Any] = {"cost": cost, "carry_days": data.carry_days}
    say(f"{tracker.n_assets} of {data.returns.shape[1]} names", tracker.max_time)
    if split is not None:
        parts = [(np.arange(split), np.arange(split, len(data.listed)))]
        with listening(say.hear):
            rolled = backtest(tracker, data.listed, data.index, splitter=parts, **held)
        fitted = rolled.trackers[0]
        return _Found(fitted, (data.returns, data.index.iloc[:split]), rolled, _interrupted(fitted))
    # A backtest starts from cash: what is held now was not held then.
    tested = clone(tracker).set_params(previous_weights=None)
    columns = data.listed.columns
    kept = np.flatnonzero(columns.isin(data.returns.columns))
    if len(kept) < len(columns):
        own = among(tracker, columns, len(columns), kept)
        tracker.set_params(**{key: value for key, value in own.items() if key not in ("include", "previous_weights")})
    with listening(say.hear):
        fitted = tracker.fit(*rows)
    if spans is None or _interrupted(fitted):
        return _Found(fitted, rows, None, _interrupted(fitted))
    known = f"fit {fitted.result_.objective:.4g}, gap {short_gap(fitted.cws_gap_)}"
    say(f"Backtest: {known}")

    def progress(done: int, total: int) -> None:
        say.reach(done / total)
        say.show(f"Backtest, window {done} of {total}: {known}")

    rolled = backtest(tested, data.listed, data.index, *spans, expanding=expanding, callback=progress, **held)
    return _Found(fitted, rows, rolled, not rolled.complete)


def _few_rows(found: _Found) -> list[str]:
    """Warn if there are so few rows that almost any index could be fitted."""
    rows, names = len(found.rows[0]), found.tracker.n_assets
    if rows > names:
        return []
    return [
        f"The portfolio is fitted on {counted(rows, 'row')} of returns and may hold {names} names: so few rows can be "
        "fitted almost exactly by chance, and the tracking error of the fit says little about other days."
    ]


def _interrupted(fitted: Any) -> bool:
    return fitted.result_.status is cp.Status.INTERRUPTED


def _summary(found: _Found, data: Data, notes: list[str]) -> dict[str, Any]:
    """Return what --json prints."""
    tracker, result = found.tracker, found.tracker.result_
    error, rhythm = float(tracker.tracking_error_), rhythm_of(data.returns.index)
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
        "tracking_error": error,
        "tracking_error_annual": rhythm.yearly(error),
        "periods": rhythm.periods,
        "turnover": float(tracker.turnover_),
        "objective": float(result.objective),
        "status": result.status.name,
        "certified": bool(result.success),
        "cws_gap": float(tracker.cws_gap_),
        "seconds": float(result.time),
        "backtest": None if found.backtest is None else dict(found.backtest.summary(rhythm.periods).items()),
        "notes": notes,
    }


def _print(console: Console, found: _Found, data: Data, weights: Listing, notes: list[str], verbose: bool) -> None:
    base.tell(console, *notes)
    rows = ([value if isinstance(value, str) else percent(value, 2) for value in row] for row in weights.rows)
    results.print_table(console, "Portfolio", weights, "weights.csv", rows)
    tracker, rhythm = found.tracker, rhythm_of(data.returns.index)
    errors = {"of the fit": float(tracker.tracking_error_)}
    if found.backtest is not None:
        errors["out of sample"] = float(found.backtest.tracking_error)
    base.tell(console, *(f"Tracking error {where}: {rhythm.in_words(error)}." for where, error in errors.items()))
    base.tell(console, *tracking_claims(tracker))
    if verbose:
        base.tell(console, ending(tracker.result_))
        if found.backtest is not None:
            for name, value in found.backtest.summary(rhythm.periods).items():
                console.print(f"  {name.replace('_', ' ')}: {value:.4g}")

"""``counterpoise demo``: track a simulated index with a few stocks."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import counterpoise as cp
from counterpoise.checks import Vector, number, whole_number
from counterpoise.cli import options
from counterpoise.cli.base import INTERRUPTED, app, command, status_line
from counterpoise.cli.results import print_json
from counterpoise.datasets import SECTORS, Market, simulate_market
from counterpoise.findings import resolution
from counterpoise.sentences import as_seconds, by_more_than, percent

if TYPE_CHECKING:
    from counterpoise.problems import SIT

TRADING_DAYS = 252
# Below the threshold above which sparsity is guaranteed (see certify), but enough for a year of returns in percent.
DEFAULT_LAM = 1000.0
MOST_STOCKS, MOST_DAYS = 6000, 5000


@command(app.command())
def demo(
    *,
    stocks: Annotated[int, "Stocks in the index."] = 400,
    days: Annotated[int, "Days of returns."] = 252,
    hold: Annotated[int, "Stocks to hold."] = 30,
    seed: Annotated[int, "Seed of the market and of the start."] = 0,
    lam: Annotated[float | None, f"Weight of the sparsity penalty, {DEFAULT_LAM:g} if not given."] = None,
    manners: options.Manners,
) -> None:
    """Track the index of a simulated market with a few of its stocks, and certify the portfolio.

    Example: counterpoise demo --stocks 1000 --hold 50
    """
    stocks = whole_number(stocks, "--stocks", 2, MOST_STOCKS)
    days = whole_number(days, "--days", 2, MOST_DAYS)
    hold = whole_number(hold, "--hold", 1, stocks)
    seed = whole_number(seed, "--seed", 0)
    lam = DEFAULT_LAM if lam is None else number(lam, "--lam", 0.0)
    with status_line(manners.silent) as say:
        market = simulate_market(days, stocks, min(len(SECTORS), stocks), seed)
        say("Solving")
        problem, result, first = _solve(market, hold, lam, seed)
        cut = result.status is cp.Status.INTERRUPTED
        warm = first if cut else _solve(market, hold, lam, seed)[2]
        certificate = cp.certify(problem, result.x)
    error = tracking_error(market, result.x)
    if manners.as_json:
        found = _as_json(market, problem, result, certificate, error)
        asked = {"stocks": stocks, "days": days, "hold": hold, "seed": seed}
        times = {"first_call": first, "second_call": warm}
        print_json({**asked, **found, **times})
    elif not manners.quiet:
        console = Console(highlight=False)
        opening = f"{stocks} simulated stocks over {days} days; at most {hold} of them follow their index.\n"
        console.print(opening)
        console.print(_portfolio(market, result.x), "")
        console.print(_summary(problem, result, certificate, hold, error, first, warm))
    if cut:
        raise typer.Exit(INTERRUPTED)


def _as_json(
    market: Market, problem: SIT, result: cp.Result, certificate: cp.Certificate, error: float
) -> dict[str, Any]:
    """Return what --json prints, except options and times."""
    held = [int(i) for i in np.argsort(-result.x, kind="stable") if result.x[i] > 0.0]
    return {
        "lam": float(problem.g.lam),
        "weights": {market.tickers[i]: float(result.x[i]) for i in held},
        "objective": float(result.objective),
        # As a fraction, like the tracking errors of other commands.
        "tracking_error_annual": error / 100.0,
        "status": result.status.name,
        "certified": bool(result.success),
        "cws_gap": float(certificate.cws_gap),
        "exact_lam": certificate.exact_lam,
        "iterations": int(result.nit),
    }


def _solve(market: Market, hold: int, lam: float, seed: int) -> tuple[SIT, cp.Result, float]:
    """Build and solve the problem; return problem, result and total seconds."""
    clock = time.perf_counter()
    from counterpoise.problems import SIT

    problem = SIT(market.returns, market.index, s=hold, lam=lam)
    result = cp.minimize(problem, seed=seed)
    return problem, result, time.perf_counter() - clock


def tracking_error(market: Market, x: Vector) -> float:
    """Return the annualised root mean square of the daily difference from the index, in percent."""
    difference = market.returns @ x - market.index
    return math.sqrt(TRADING_DAYS * float(np.mean(difference**2)))


def _portfolio(market: Market, x: Vector) -> Table:
    """Return a table of the stocks held, largest weight first."""
    held = [int(i) for i in np.argsort(-x, kind="stable") if x[i] > 0.0]
    table = Table(title="Portfolio", title_justify="left", show_footer=True)
    table.add_column("ticker", "total", no_wrap=True)
    table.add_column("sector", no_wrap=True)
    table.add_column("weight", percent(x.sum(), 2), justify="right", no_wrap=True)
    table.add_column("in the index", percent(market.weights[held].sum(), 2), justify="right", no_wrap=True)
    for i in held:
        table.add_row(market.tickers[i], str(market.sectors[i]), percent(x[i], 2), percent(market.weights[i], 2))
    return table


def _summary(
    problem: SIT, result: cp.Result, certificate: cp.Certificate, hold: int, error: float, first: float, warm: float
) -> Table:
    """Return a table of the result, its certificate and the times."""
    n, pairs = problem.n, problem.n * (problem.n - 1) // 2
    rows = {
        "Objective": f"{result.objective:.6g}, with λ = {problem.g.lam:g}",
        "Tracking error": f"{error:.3f} % a year, on the days of the fit",
        "Names held": _names_held(problem, result.x, hold, certificate),
        "Certificate": f"No exchange between any two of the {n} stocks ({pairs:,} pair{'s' * (pairs > 1)}) "
        f"lowers the objective {by_more_than(certificate.cws_gap, resolution(problem, result.x))}.",
        "Status": f"{result.status.name}: {result.message}",
        "Iterations": f"{result.nit:,}, of which {result.nacc:,} moved the point",
        "First call": f"{as_seconds(first)}, of which {as_seconds(max(0.0, first - warm))} "
        "to compile or load the kernels",
        "Second call": f"{as_seconds(warm)}, from the data to the certified point",
    }
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows.items():
        table.add_row(label, text)
    return table


def _names_held(problem: SIT, x: Vector, hold: int, certificate: cp.Certificate) -> str:
    held = int((x > 0.0).sum())
    if held <= hold:
        return f"{held} of {problem.n}"
    remedy = "" if certificate.exact_lam is None else f"; above {math.ceil(certificate.exact_lam):,} this cannot happen"
    return f"{held} of {problem.n}, more than --hold {hold}: raise --lam{remedy}"

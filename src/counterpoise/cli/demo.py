"""``counterpoise demo``: track a simulated index with a few stocks."""

from __future__ import annotations

import math
import time
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import counterpoise as cp
from counterpoise.checks import Vector, number, whole_number
from counterpoise.cli import options
from counterpoise.cli.base import INTERRUPTED, app, command, status_line
from counterpoise.cli.results import grid, print_json
from counterpoise.datasets import SECTORS, Market, simulate_market
from counterpoise.findings import resolution
from counterpoise.sentences import as_seconds, by_more_than, percent

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
    held = [int(i) for i in np.argsort(-result.x, kind="stable") if result.x[i] > 0.0]
    error = tracking_error(market, result.x)
    if manners.as_json:
        found = {
            "stocks": stocks,
            "days": days,
            "hold": hold,
            "seed": seed,
            "lam": lam,
            "weights": {market.tickers[i]: float(result.x[i]) for i in held},
            "objective": float(result.objective),
            "tracking_error_annual": error / 100.0,  # as a fraction, like those of other commands
            "status": result.status.name,
            "certified": bool(result.success),
            "cws_gap": float(certificate.cws_gap),
            "exact_lam": certificate.exact_lam,
            "iterations": int(result.nit),
            "first_call": first,
            "second_call": warm,
        }
        print_json(found)
    elif not manners.quiet:
        console = Console(highlight=False)
        console.print(f"{stocks} simulated stocks over {days} days; at most {hold} of them follow their index.\n")
        console.print(_portfolio(market, result.x, held), "")
        facts = {
            "Objective": f"{result.objective:.6g}, with λ = {lam:g}",
            "Tracking error": f"{error:.3f} % a year, on the days of the fit",
            "Names held": _names_held(len(held), stocks, hold, certificate.exact_lam),
            "Certificate": _proved(problem, result, certificate),
            "Status": f"{result.status.name}: {result.message}",
            "Iterations": f"{result.nit:,}, of which {result.nacc:,} moved the point",
            "First call": f"{as_seconds(first)}, of which {as_seconds(max(0.0, first - warm))} to compile or load the "
            "kernels",
            "Second call": f"{as_seconds(warm)}, from the data to the certified point",
        }
        console.print(grid(facts))
    if cut:
        raise typer.Exit(INTERRUPTED)


def _solve(market: Market, hold: int, lam: float, seed: int) -> tuple[cp.Problem, cp.Result, float]:
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


def _portfolio(market: Market, x: Vector, held: list[int]) -> Table:
    """Return a table of the stocks held."""
    table = Table(title="Portfolio", title_justify="left", show_footer=True)
    table.add_column("ticker", "total", no_wrap=True)
    table.add_column("sector", no_wrap=True)
    table.add_column("weight", percent(x.sum(), 2), justify="right", no_wrap=True)
    table.add_column("in the index", percent(market.weights[held].sum(), 2), justify="right", no_wrap=True)
    for i in held:
        table.add_row(market.tickers[i], str(market.sectors[i]), percent(x[i], 2), percent(market.weights[i], 2))
    return table


def _names_held(held: int, stocks: int, hold: int, threshold: float | None) -> str:
    if held <= hold:
        return f"{held} of {stocks}"
    remedy = "" if threshold is None else f"; above {math.ceil(threshold):,} this cannot happen"
    return f"{held} of {stocks}, more than --hold {hold}: raise --lam{remedy}"


def _proved(problem: cp.Problem, result: cp.Result, certificate: cp.Certificate) -> str:
    n, pairs = problem.n, problem.n * (problem.n - 1) // 2
    least = by_more_than(certificate.cws_gap, resolution(problem, result.x))
    said = f"No exchange between any two of the {n} stocks ({pairs:,} pair{'s' * (pairs > 1)})"
    return f"{said} lowers the objective {least}."

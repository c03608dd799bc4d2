"""Simulated data: a stock market with an index."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from counterpoise.checks import Vector, whole_number

SECTORS = (
    "Energy",
    "Materials",
    "Industrials",
    "Consumer",
    "Health Care",
    "Financials",
    "Technology",
    "Telecom",
    "Utilities",
    "Real Estate",
)
MARKET_VOL, SECTOR_VOL = 1.0, 0.6
LEAST_OWN_VOL, LARGEST_OWN_VOL = 1.1, 2.1
# With 4, three of twelve years of 3000 stocks had a day above +100 %; with 5, none had.
TAIL_DF = 5.0
CAP_SPREAD = 1.2


@dataclasses.dataclass(frozen=True, eq=False)
class Market:
    """Daily returns of stocks and of the index that they form.

    Attributes
    ----------
    returns : array, days × stocks
        Simple daily returns in percent.
    index : array of length days
        ``returns @ weights``: the index goes back to its weights every day, they do not drift.
    tickers : list of str
        Invented names: AAA, AAB, AAC, …
    sectors : array of str, length stocks
    weights : array of length stocks
        The index's weights, positive, of sum 1; heavy-tailed like market capitalisations.
    """

    returns: Vector
    index: Vector
    tickers: list[str]
    sectors: npt.NDArray[np.str_]
    weights: Vector


def simulate_market(n_days: int = 252, n_stocks: int = 400, n_sectors: int = 10, seed: int = 0) -> Market:
    """Simulate a market by a factor model with heavy tails.

    A stock's daily log return is β·market + sector + own noise, each an independent Student t with 5 degrees of
    freedom. The market's volatility is 1 % a day, a stock's in total mostly 1.5–2.5 %, β is around 1.

    Parameters
    ----------
    n_days, n_stocks : int
        At least 2.
    n_sectors : int
        Every sector has a stock.
    seed : int
        The same seed gives the same market.

    Examples
    --------
    >>> market = simulate_market(n_days=5, n_stocks=3, n_sectors=2)
    >>> market.returns.shape, market.tickers
    ((5, 3), ['AAA', 'AAB', 'AAC'])
    """
    n_days = whole_number(n_days, "n_days", 2)
    n_stocks = whole_number(n_stocks, "n_stocks", 2)
    n_sectors = whole_number(n_sectors, "n_sectors", 1, n_stocks)
    rng = np.random.default_rng(whole_number(seed, "seed", 0))

    sector_of = rng.permutation(np.arange(n_stocks) % n_sectors)
    beta = rng.normal(1.0, 0.2, n_stocks)
    own_vol = rng.uniform(LEAST_OWN_VOL, LARGEST_OWN_VOL, n_stocks)
    market = MARKET_VOL * _heavy_tailed(rng, n_days, 1)
    sector = SECTOR_VOL * _heavy_tailed(rng, n_days, n_sectors)
    log_returns = beta * market + sector[:, sector_of] + own_vol * _heavy_tailed(rng, n_days, n_stocks)
    # Heavy tails reach below −100 % sooner or later; a log return does not.
    returns = 100.0 * np.expm1(log_returns / 100.0)

    caps = rng.lognormal(0.0, CAP_SPREAD, n_stocks)
    weights = caps / caps.sum()
    labels = [*SECTORS[:n_sectors], *(f"Sector {k + 1}" for k in range(len(SECTORS), n_sectors))]
    return Market(returns, returns @ weights, _tickers(n_stocks), np.array(labels)[sector_of], weights)


def _heavy_tailed(rng: np.random.Generator, n_days: int, columns: int) -> Vector:
    """Return Student t draws scaled to variance 1."""
    return rng.standard_t(TAIL_DF, (n_days, columns)) * math.sqrt(1.0 - 2.0 / TAIL_DF)


def _tickers(count: int) -> list[str]:
    """Count in letters: AAA, AAB, …, with as many letters as ``count`` needs and at least three."""
    width = 3
    while 26**width < count:
        width += 1
    return ["".join(chr(ord("A") + k // 26**place % 26) for place in reversed(range(width))) for k in range(count)]

"""Find prices and returns that look like mistakes: total losses, unadjusted splits, prices that stay the same."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoise.checks import Vector
from counterpoise.sentences import day_label, percent, some

if TYPE_CHECKING:
    import pandas as pd

# Returns below LOW or above HIGH are reported, and so are STALE or more rows with the same price.
LOW, HIGH, STALE = -0.45, 0.8, 10
# A gap of at most this many rows between two equal prices does not end their run.
SHORT = 5
# Maximum number of sentences about oddities of each kind; further names are only listed.
MOST = 5
# Usual splits, new shares for old; each may also be reversed.
WHOLE = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 80, 100)
SPLITS = ((6, 5), (5, 4), (4, 3), (3, 2), (5, 3), (5, 2), *((whole, 1) for whole in WHOLE))
SIZES = np.log([new / old for new, old in SPLITS])
# Beyond LOW and HIGH, a ratio of two prices this close to a usual one looks like a split; 2 is also reached by chance.
NEAR_TWO, NEAR = 0.03, 0.06
# Smaller moves, in logarithms and less that of the index, look like a split if they are at least
# SIGMAS times the stock's usual move, and OTHERS times the largest of its other moves except RARE in
# a YEAR of rows and one in each further YEAR, as after reports of earnings; and if the rest is at
# most REST times the usual move and, of a stock that made such moves at all, SHARE of the split. In
# ten sets of daily returns of the S&P 500 and the NASDAQ 100 (2776 stocks and years without splits) 5
# moves satisfy this. Of splits put in at random it finds 97 % or more of those of 2 for 1 and above,
# 84 % of 3 for 2, 59 % of 4 for 3, 33 % of 5 for 4 and 20 % of 6 for 5.
SIGMAS, OTHERS, RARE, YEAR, REST, SHARE = 12.0, 5.0, 3, 252, 3.0, 0.08
# Moves below this, in logarithms, are no split.
LEAST_MOVE = 0.8 * SIZES[0]
# The median absolute value of a normal variable of deviation 1 is 1/NORMAL.
NORMAL = 1.4826


def oddities(table: pd.DataFrame, returns: pd.DataFrame, index: Any, word: str) -> list[str]:
    """Return a sentence for each total loss, split-like move and price or return of 0 that stays, by name and date.

    ``table`` holds the prices or, if ``word`` is "return", the returns, of the index as well; ``returns`` those of the
    stocks.
    """
    known, values = list(table.columns), returns.to_numpy(np.float64)
    if index is not None:
        values = np.column_stack([values, index.to_numpy(np.float64)])
    days = returns.index
    lost = [(j, f"{known[j]} lost 100 % {_on(days[i])}, all that it was worth.") for i, j in _where(values <= -1.0)]
    splits = _splits(values, index is not None)
    moved = ((values < LOW) | (values > HIGH)) & (values > -1.0)
    moves = [(j, _move(known[j], values[i, j], _on(days[i]), splits[i, j])) for i, j in _where(moved | (splits >= 0))]
    # Short gaps do not end a run.
    cells = table.ffill(limit=SHORT).where(table.bfill(limit=SHORT).notna()).to_numpy(np.float64)
    same = np.diff(cells, axis=0) == 0.0 if word == "price" else cells == 0.0
    more = int(word == "price")
    what = "the same price" if word == "price" else "a return of 0"
    stale = []
    for k in np.flatnonzero(same.sum(axis=0) >= STALE - more):
        first, length = _longest_run(same[:, k])
        length += more
        if length >= STALE:
            last = day_label(table.index[first + length - 1])
            span = f"{length} rows, {_on(table.index[first], 'from')} to {last}"
            where = f"all {length} rows" if length == len(table) else span
            stale.append((int(k), f"{known[k]} has {what} in {where}; it may be stale."))
    return [sentence for found in (lost, moves, stale) for sentence in _shortened(found, known)]


def _where(chosen: Any) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in np.argwhere(chosen)]


def _on(label: Any, word: str = "on") -> str:
    return f"{word} {day_label(label)}" if hasattr(label, "date") else f"{word if word != 'on' else 'in'} row {label}"


def _splits(returns: Vector, with_index: bool) -> Any:
    """Return the position in SPLITS of the split that each return looks like, −1 where it looks like none."""
    found = np.full(returns.shape, -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log1p(returns)
    logs[~np.isfinite(logs)] = np.nan
    rest, usual, others = _apart_from_the_index(logs, with_index)
    for i, j in _where(np.fmax(np.abs(logs), np.abs(rest)) > LEAST_MOVE):
        # Beyond LOW and HIGH the ratio of the prices is enough.
        k = int(np.abs(abs(logs[i, j]) - SIZES).argmin())
        ratio, near = math.exp(SIZES[k]), NEAR_TWO if SPLITS[k] == (2, 1) else NEAR
        if (returns[i, j] < LOW or returns[i, j] > HIGH) and abs(math.exp(abs(logs[i, j])) - ratio) <= near * ratio:
            found[i, j] = k
        elif usual[j] > 0.0 and (size := abs(rest[i, j])) >= max(SIGMAS * usual[j], OTHERS * others[j]):
            k = int(np.abs(size - SIZES).argmin())
            calm = others[j] <= REST * usual[j]
            if abs(size - SIZES[k]) <= min(REST * usual[j], math.inf if calm else SHARE * SIZES[k]):
                found[i, j] = k
    return found


def _apart_from_the_index(logs: Vector, with_index: bool) -> tuple[Vector, Vector, Vector]:
    """Return logarithms of returns less those of the index, and of each column the usual and a large move.

    The index is the last column, which has no move then, or the median of all columns.
    """
    rank = RARE + math.ceil(len(logs) / YEAR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows and columns without a number
        market = logs[:, -1:] if with_index else np.nanmedian(logs, axis=1, keepdims=True)
        rest = logs - np.nan_to_num(market)
        size = np.abs(rest)
        usual = np.nan_to_num(NORMAL * np.nanmedian(size, axis=0))
    if len(logs) <= rank:
        return rest, np.zeros(logs.shape[1]), np.zeros(logs.shape[1])
    return rest, usual, -np.sort(-np.nan_to_num(size), axis=0)[rank - 1]


def _move(name: Any, by: float, when: str, split: int) -> str:
    verb = "fell" if by < 0.0 else "rose"
    said = "which is much for one row"
    if split >= 0:
        new, old = SPLITS[split] if by < 0.0 else SPLITS[split][::-1]
        said = f"which looks like a split of {new} for {old} that prices are not adjusted for"
    return f"{name} {verb} by {percent(abs(by))} {when}, {said}."


def _longest_run(zero: Any) -> tuple[int, int]:
    """Return the start of the longest run of True, and its length."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], zero.astype(np.int8), [0]])))
    lengths = edges[1::2] - edges[::2]
    best = int(lengths.argmax())
    return int(edges[2 * best]), int(lengths[best])


def _shortened(found: list[tuple[Any, str]], names: list[Any]) -> list[str]:
    said = [sentence for _, sentence in found[:MOST]]
    others = dict.fromkeys(names[j] for j, _ in found[MOST:])
    return [*said, f"The same holds for {some(others, 8)}."] if others else said

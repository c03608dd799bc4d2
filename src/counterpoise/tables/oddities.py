"""Find returns that look like mistakes in the data, by name and date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from counterpoise.checks import Vector
from counterpoise.sentences import day_label, percent, some

# Returns below LOW or above HIGH are reported, and so are STALE or more consecutive rows without a change.
LOW, HIGH, STALE = -0.45, 0.8, 10
# A ratio of two prices this close to a whole number looks like a split: to 2, as prices may also halve, or to others.
NEAR_TWO, NEAR = 0.03, 0.06
# Maximum number of sentences of each kind; further names are only listed.
MOST = 5
MUCH = "which is much for one row"


def oddities(returns: Vector, names: Iterable[Any], labels: Sequence[Any]) -> list[str]:
    """Return a sentence for each total loss, split-like move and long run of zeros in returns, days × names."""
    known = list(names)
    lost = [(j, f"{known[j]} lost 100 % {_on(labels[i])}, all that it was worth.") for i, j in _places(returns <= -1.0)]
    moves = [
        (j, _move(known[j], returns[i, j], _on(labels[i])))
        for i, j in _places(((returns < LOW) | (returns > HIGH)) & (returns > -1.0))
    ]
    stale = []
    for j in np.flatnonzero((returns == 0.0).sum(axis=0) >= STALE):
        first, length = _longest_run(returns[:, j] == 0.0)
        if STALE <= length < len(returns):
            days = f"{_on(labels[first], 'from')} to {day_label(labels[first + length - 1])}"
            stale.append((j, f"{known[j]} has the same price in {length} rows, {days}; it may be stale."))
    return [sentence for found in (lost, moves, stale) for sentence in _shortened(found, known)]


def _places(chosen: Any) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in np.argwhere(chosen)]


def _on(label: Any, word: str = "on") -> str:
    return f"{word} {day_label(label)}" if hasattr(label, "date") else f"{word if word != 'on' else 'in'} row {label}"


def _move(name: Any, by: float, when: str) -> str:
    verb, ratio = ("fell", 1.0 / (1.0 + by)) if by < 0.0 else ("rose", 1.0 + by)
    whole = round(ratio)
    near = abs(ratio - whole) <= (NEAR_TWO if whole == 2 else NEAR) * whole
    like = f"{whole} for 1" if by < 0.0 else f"1 for {whole}"
    split = f"which looks like a split of {like} that prices are not adjusted for"
    return f"{name} {verb} by {percent(abs(by))} {when}, {split if near else MUCH}."


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

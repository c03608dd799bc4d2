"""Read group sizes per stratum from whole numbers or fractions, given for all units or by stratum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from counterpoise.checks import whole_number
from counterpoise.estimators.covariates import keys_of
from counterpoise.estimators.links import Labels
from counterpoise.sentences import some


def read_strata(strata: Any, index: Any, n: int) -> tuple[list[Any], Labels]:
    """Return the strata's names, in order of appearance, and the number of each unit's stratum."""
    if strata is None:
        return [None], np.zeros(n, dtype=np.int64)
    values = keys_of(strata, index, n, "strata", ", which cannot name a stratum; give words or numbers.")
    if None in values:
        k = values.index(None)
        raise ValueError(f"strata has no value for unit {k if index is None else index[k]}; every unit needs one.")
    numbers = {name: k for k, name in enumerate(dict.fromkeys(values))}
    return list(numbers), np.array([numbers[value] for value in values], dtype=np.int64)


def read_sizes(n_treated: Any, names: list[Any], units: Labels) -> Labels:
    """Return how many units of each stratum form each group."""
    if not isinstance(n_treated, Mapping):
        listed = [_listed(n_treated, "n_treated", int(units.sum()), least=1)]
        return _in_proportion(_with_rest(listed, units.sum(keepdims=True))[0], units)
    if names == [None]:
        raise TypeError("n_treated is a mapping, but there are no strata; give a whole number or sizes of groups.")
    for name in n_treated:
        if name not in names:
            raise ValueError(f"n_treated: {name!r} is not a stratum; the strata are {some(names)}.")
    absent = [name for name in names if name not in n_treated]
    if absent:
        raise ValueError(f"n_treated has no size for stratum {absent[0]!r}; every stratum needs one.")
    listed = [
        _listed(n_treated[name], f"n_treated of stratum {name!r}", int(count), least=0)
        for name, count in zip(names, units, strict=True)
    ]
    if len({len(sizes) for sizes in listed}) > 1:
        raise ValueError("n_treated has more sizes for some strata than for others; give the same number for each.")
    return _with_rest(listed, units)


def _listed(sizes: Any, name: str, units: int, least: int) -> list[int]:
    """Return the given sizes, checked against the number of units; see :func:`_rounded` for fractions."""
    several = isinstance(sizes, Sequence | np.ndarray) and not isinstance(sizes, str)
    given = list(sizes) if several else [sizes]
    if given and all(isinstance(size, float | np.floating) for size in given):
        each = _rounded([float(size) for size in given], name, units)
        return [whole_number(each[0], f"{name}, {given[0]:g} of {units} units,", least, units - least), *each[1:]]
    if not several:
        return [whole_number(sizes, name, least, units - least)]
    each = [whole_number(size, f"{name}[{k}]", least) for k, size in enumerate(sizes)]
    if sum(each) > units:
        raise ValueError(f"{name} adds up to {sum(each)} of {units} units; it must add up to at most {units}.")
    return each


def _rounded(fractions: list[float], name: str, units: int) -> list[int]:
    """Convert fractions to numbers of units; their total is rounded, and the largest remainders are rounded up."""
    for fraction in fractions:
        if not 0.0 < fraction < 1.0:
            raise TypeError(f"{name} is {fraction}; it must be a whole number, or a fraction between 0 and 1.")
    if sum(fractions) > 1.0 + 1e-9:
        raise ValueError(f"{name} adds up to {sum(fractions):g} of all units; fractions must add up to at most 1.")
    exact = [fraction * units for fraction in fractions]
    sizes = [math.floor(size + 1e-9) for size in exact]
    left = math.floor(sum(exact) + 0.5 + 1e-9) - sum(sizes)
    for k in sorted(range(len(sizes)), key=lambda k: sizes[k] - exact[k])[:left]:
        sizes[k] += 1
    return sizes


def _with_rest(listed: list[list[int]], units: Labels) -> Labels:
    """Prepend the size of group 0, the remaining units, unless two or more sizes cover all units."""
    sizes = np.array(listed, dtype=np.int64).reshape(len(units), -1)
    rest = units - sizes.sum(axis=1)
    if rest.any() or sizes.shape[1] < 2:
        sizes = np.column_stack([rest, sizes])
    empty = np.flatnonzero(sizes.sum(axis=0) == 0)
    if len(empty) or sizes.shape[1] < 2:
        group = int(empty[0]) if len(empty) else 1
        raise ValueError(f"n_treated leaves no unit for group {group}; at least two groups are needed, none empty.")
    return sizes


def _in_proportion(totals: Labels, units: Labels) -> Labels:
    """Divide each group's size among strata in proportion to the units not taken yet, the largest remainders first."""
    left, rows = units.copy(), []
    for total in totals[:0:-1]:
        quota = total * left / left.sum()
        taken = np.floor(quota + 1e-9).astype(np.int64)
        order = np.argsort(-(quota - taken), kind="stable")
        order = order[(taken < left)[order]]
        taken[order[: total - taken.sum()]] += 1
        rows.append(taken)
        left = left - taken
    return np.column_stack([left, *rows[::-1]])

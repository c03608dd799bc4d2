"""The rules of a split: strata, group sizes, and units that must share a group or must not.

Units that stay together form a block with summed scores; exchanges are between blocks of the same size. Pairs of blocks
that must stay apart are the edges of a graph, and a split is a colouring of it, with groups as colours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.checks import Vector, whole_number
from counterpoise.estimators.covariates import keys_of
from counterpoise.sentences import some

Labels = npt.NDArray[np.int64]
# Attempts to find a split that keeps the rules, before an error is raised.
ATTEMPTS = 200


class Links(NamedTuple):
    """The block of each unit, the number of units in each block, and pairs of blocks that stay apart."""

    blocks: Labels
    sizes: Labels
    edges: Labels

    @property
    def any(self) -> bool:
        """Whether there is any rule."""
        return bool(len(self.edges) or len(self.sizes) < len(self.blocks))

    def sums(self, values: Vector) -> Vector:
        """Return the sums over blocks of an array with a row per unit."""
        if len(self.sizes) == len(self.blocks):
            return values
        out = np.zeros((len(self.sizes), values.shape[1]))
        np.add.at(out, self.blocks, values)
        return out

    def firsts(self) -> Labels:
        """Return the first unit of every block."""
        return np.unique(self.blocks, return_index=True)[1].astype(np.int64)

    def keeps_apart(self, labels: Labels) -> bool:
        """Whether no edge has both ends in one group."""
        return not (labels[self.edges[:, 0]] == labels[self.edges[:, 1]]).any()

    def edges_among(self, blocks: Labels) -> Labels:
        """Return the edges between these blocks, numbered by their positions in ``blocks``."""
        place = np.full(len(self.sizes), -1)
        place[blocks] = np.arange(len(blocks))
        ends = place[self.edges]
        return np.asarray(ends[(ends >= 0).all(axis=1)], dtype=np.int64)

    def may_join(self, labels: Labels, blocks: Labels, count: int) -> npt.NDArray[np.bool_]:
        """Return a matrix of which pairs of these blocks may be exchanged without breaking the rules about apart."""
        near = np.zeros((len(self.sizes), count))
        for a, b in (self.edges.T, self.edges[:, ::-1].T):
            np.add.at(near, (a, labels[b]), 1.0)
        joins = near[blocks][:, labels[blocks]]
        a, b = self.edges_among(blocks).T
        joins[a, b] -= 1.0
        joins[b, a] -= 1.0
        return np.asarray((joins <= 0.0) & (joins.T <= 0.0))

    def shaken(self, labels: Labels, kinds: Labels, strata: Labels, count: int, rng: np.random.Generator) -> Labels:
        """Return the split after random exchanges of blocks of a kind, or of a block for as many single units."""
        labels = labels.copy()
        for _ in range(max(4, int(0.125 * len(labels) * rng.random()))):
            first = int(rng.integers(len(labels)))
            same = np.flatnonzero((kinds == kinds[first]) & (labels != labels[first]))
            single = (self.sizes == 1) & (strata == strata[first]) & (labels == rng.integers(count))
            many = np.flatnonzero(single & (labels != labels[first]))
            if 1 < self.sizes[first] <= len(many) and (not len(same) or rng.random() < 0.5):
                others = rng.choice(many, self.sizes[first], replace=False)
            elif len(same):
                others = rng.choice(same, 1)
            else:
                continue
            moved = labels.copy()
            moved[first], moved[others] = labels[others[0]], labels[first]
            labels = moved if self.keeps_apart(moved) else labels
        return labels


def read_links(together: Any, apart: Any, index: Any, codes: Labels, groups: int) -> Links:
    """Read the rules for units with these stratum codes and this number of groups."""
    n = len(codes)
    linked: list[tuple[int, int]] = []
    for units in _sets(together, index, n, "together"):
        if len({int(codes[unit]) for unit in units}) > 1:
            raise ValueError(
                f"together: {_named(units, index)} are in more than one stratum; units that stay together must share "
                "one."
            )
        linked += [(units[0], unit) for unit in units]
    blocks = np.arange(n)
    if linked:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        rows, columns = np.array(linked).T
        graph = coo_array((np.ones(len(linked)), (rows, columns)), shape=(n, n)).tocsr()
        blocks = connected_components(graph, directed=False)[1].astype(np.int64)
    edges = set()
    for units in _sets(apart, index, n, "apart"):
        if len(units) > groups:
            raise ValueError(
                f"apart: {_named(units, index)} are {len(units)} units, but there are only {groups} groups; at most "
                f"{groups} units can be kept apart."
            )
        members = [int(blocks[unit]) for unit in units]
        if len(set(members)) < len(members):
            raise ValueError(f"apart: two of {_named(units, index)} must also stay together; drop one of the rules.")
        edges |= {(min(a, b), max(a, b)) for k, a in enumerate(members) for b in members[:k]}
    pairs = np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)
    return Links(blocks, np.bincount(blocks).astype(np.int64), pairs)


def _named(units: list[int], index: Any) -> str:
    return some((unit if index is None else index[unit] for unit in units), 3)


def _sets(given: Any, index: Any, n: int, name: str) -> list[list[int]]:
    """Return sets of positions, given sets of units or one value per unit that members of a set share."""
    if given is None:
        return []
    if isinstance(given, list | tuple | set) and all(isinstance(each, list | tuple | set) for each in given):
        return [_positions(each, index, n, name) for each in given]
    members: dict[Any, list[int]] = {}
    values = keys_of(given, index, n, name, "; give sets of units, or one word or number per unit.")
    for unit, value in enumerate(values):
        if value is not None:
            members.setdefault(value, []).append(unit)
    return [units for units in members.values() if len(units) > 1]


def _positions(units: Iterable[Any], index: Any, n: int, name: str) -> list[int]:
    known = {label: k for k, label in enumerate(range(n) if index is None else index)}
    for unit in units:
        if unit not in known:
            labels = "positions" if index is None else "labels"
            raise ValueError(f"{name}: {unit!r} is not a unit; give the {labels} of units.")
    return sorted({known[unit] for unit in units})


def random_split(sizes: Labels, strata: Labels, links: Links, rng: np.random.Generator) -> Labels:
    """Return a random group for each block, with exactly the given number of units per stratum and group.

    Blocks with edges come first, those with the fewest groups left before others (which is exact for two groups), then
    the rest from the largest to the smallest; each takes a group that has room. After a dead end it starts again.
    """
    for _ in range(ATTEMPTS):
        labels = _attempt(sizes, strata, links, rng)
        if labels is not None:
            return labels
    raise ValueError(
        f"No split into groups of {some(sizes.sum(axis=0), 9)} units was found that satisfies together and apart; "
        "check that the rules do not contradict each other or the sizes."
    )


def _attempt(sizes: Labels, strata: Labels, links: Links, rng: np.random.Generator) -> Labels | None:
    n, count = len(links.sizes), sizes.shape[1]
    room, labels = sizes.copy(), np.full(n, -1, dtype=np.int64)
    barred = np.zeros((n, count), dtype=bool)
    neighbours: dict[int, list[int]] = {}
    for a, b in links.edges.tolist():
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    linked = rng.permutation(np.array(sorted(neighbours), dtype=np.int64))

    def place(block: int) -> bool:
        size, free = links.sizes[block], room[strata[block]]
        chances = np.where((free >= size) & ~barred[block], free, 0).astype(np.float64)
        if not chances.any():
            return False
        group = int(rng.choice(count, p=chances / chances.sum()))
        labels[block] = group
        room[strata[block], group] -= size
        barred[neighbours.get(block, []), group] = True
        return True

    while len(linked):
        # The unassigned block with the fewest groups left; among ties, the largest.
        urgency = barred[linked].sum(axis=1) * (int(links.sizes.max()) + 1) + links.sizes[linked]
        at = int(urgency.argmax())
        if not place(int(linked[at])):
            return None
        linked = np.delete(linked, at)
    for stratum in range(len(sizes)):
        for size in np.unique(links.sizes)[::-1]:
            rest = np.flatnonzero((labels < 0) & (strata == stratum) & (links.sizes == size))
            places = rng.permutation(np.repeat(np.arange(count), room[stratum] // size))
            if len(rest) > len(places):
                return None
            labels[rest] = places[: len(rest)]
            room[stratum] -= size * np.bincount(labels[rest], minlength=count)
    return labels if not room.any() else None


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
    exact = np.array(fractions) * units
    sizes: list[int] = _adding_up(exact, math.floor(exact.sum() + 0.5 + 1e-9), np.inf).tolist()
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
        rows.append(_adding_up(total * left / left.sum(), total, left))
        left = left - rows[-1]
    return np.column_stack([left, *rows[::-1]])


def _adding_up(exact: Vector, total: int, most: Any) -> Labels:
    """Round down, and the largest remainders up until all add up to ``total``, but none above ``most``."""
    sizes = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(sizes - exact, kind="stable")
    order = order[(sizes < most)[order]]
    sizes[order[: total - sizes.sum()]] += 1
    return sizes

"""Limits on sums over groups of coordinates; the groups are disjoint or nested and thus form a tree."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.checks import Vector, number

# A sum this close to a limit, relative to the largest sum, is at the limit.
AT_LIMIT = 1e-12


class Group(NamedTuple):
    """Coordinates whose sum lies between two limits."""

    name: Any
    members: npt.NDArray[np.int64]
    least: float
    most: float
    length: int = 0  # how many coordinates the labels or the mask are given for, 0 if members were given


def with_limits(before: tuple[Group, ...], groups: Any, limits: Mapping[Any, Any]) -> tuple[Group, ...]:
    """Return ``before`` and the groups that have limits, smaller ones first; refuse groups that overlap."""
    if not isinstance(limits, Mapping):
        raise TypeError(
            f"limits is of type {type(limits).__name__}; it must map groups to limits, such as {{'a': (0, 0.3)}}."
        )
    more = []
    for name, pair in limits.items():
        members, length = _members(groups, name)
        more.append(Group(name, members, *_limits(name, pair), length))
    together = tuple(sorted((*before, *more), key=lambda group: len(group.members)))
    for k, group in enumerate(together):
        for other in together[k + 1 :]:
            both = np.isin(group.members, other.members)
            if both.any() and not both.all():
                raise ValueError(
                    f"groups {group.name!r} and {other.name!r} share coordinate {group.members[both][0]}, but neither "
                    "holds the other; groups must be disjoint or nested."
                )
    return together


def _members(groups: Any, name: Any) -> tuple[npt.NDArray[np.int64], int]:
    """Return the coordinates of a group, sorted, and the length of the labels or of the mask that say so, or 0."""
    length = 0
    if isinstance(groups, Mapping):
        if name not in groups:
            raise ValueError(f"limits names group {name!r}, which is not among the groups.")
        given = groups[name]
        given = np.asarray(sorted(given) if isinstance(given, set | frozenset) else given)
        if given.dtype == np.bool_:
            if given.ndim != 1:
                raise ValueError(f"the mask of group {name!r} has {given.ndim} dimensions; it must have 1.")
            given, length = np.flatnonzero(given), len(given)
        if given.size and given.dtype.kind not in "iu":
            raise TypeError(f"group {name!r} holds {groups[name]!r}; give positions of coordinates, counted from 0.")
        members = np.unique(given.astype(np.int64))
    elif np.ndim(groups) == 0:
        raise TypeError(f"groups is {groups!r}; give the group of every coordinate, or a mapping from groups to them.")
    else:
        members, length = np.flatnonzero([label == name for label in groups]).astype(np.int64), len(groups)
    if not len(members):
        raise ValueError(f"group {name!r} is empty; every group with limits needs a coordinate.")
    if members[0] < 0:
        raise ValueError(f"group {name!r} holds coordinate {members[0]}; coordinates are counted from 0.")
    return members, length


def _limits(name: Any, pair: Any) -> tuple[float, float]:
    """Return (least, most) from one number or two."""
    what = f"the limit of group {name!r}"
    if np.ndim(pair) == 0 and pair is not None:
        return (number(pair, what),) * 2
    if np.shape(pair) != (2,):
        raise ValueError(f"{what} is {pair!r}; it must be one number or (least, most).")
    least = -np.inf if pair[0] is None or pair[0] == -np.inf else number(pair[0], what)
    most = np.inf if pair[1] is None or pair[1] == np.inf else number(pair[1], what)
    if least > most:
        raise ValueError(
            f"the limits of group {name!r} are ({least:g}, {most:g}); the first must not exceed the second."
        )
    return least, most


class Transfer(NamedTuple):
    """The transfer from j to i that lowers F fastest, and its rate per unit; i = −1 if no transfer lowers F."""

    rate: float
    i: int
    j: int


class Tree:
    """Groups over n coordinates; the last node is the root, which holds all coordinates.

    Attributes
    ----------
    leaf : array of length n
        The innermost node of every coordinate.
    parent, depth : arrays over the nodes
        Children come before their parents; the parent of the root is −1.
    least, most : arrays over the nodes
        The limits; none at the root.
    """

    def __init__(self, groups: tuple[Group, ...], n: int) -> None:
        count = len(groups)
        self.groups = groups
        self.leaf, self.parent = np.full(n, count), np.full(count + 1, count)
        self.parent[count] = -1
        self.depth = np.zeros(count + 1, dtype=np.int64)
        self.least = np.array([*(group.least for group in groups), -np.inf])
        self.most = np.array([*(group.most for group in groups), np.inf])
        for k in range(count - 1, -1, -1):  # larger groups first
            if groups[k].length not in (0, n):
                raise ValueError(
                    f"group {groups[k].name!r} is given for {groups[k].length} coordinates, but there are {n}; "
                    "give one label for each, or a mask of all."
                )
            if groups[k].members[-1] >= n:
                raise ValueError(
                    f"group {groups[k].name!r} holds coordinate {groups[k].members[-1]}, but there are {n} coordinates."
                )
            self.parent[k] = self.leaf[groups[k].members[0]]
            self.depth[k] = self.depth[self.parent[k]] + 1
            self.leaf[groups[k].members] = k

    def mirrored(self) -> Tree:
        """Return the tree for −x."""
        groups = (group._replace(least=-group.most, most=-group.least) for group in self.groups)
        return Tree(tuple(groups), len(self.leaf))

    def chain(self, node: int) -> Iterator[int]:
        """Yield a node and its ancestors, the innermost first."""
        while node >= 0:
            yield node
            node = int(self.parent[node])

    def reach(self, lo: Vector, hi: Vector, slack: float, members: Any = None) -> tuple[float, float]:
        """Return the least and the largest sum within bounds and limits; refuse a group whose limits cannot be met.

        With ``members`` all other coordinates are 0.
        """
        leaf = self.leaf if members is None else self.leaf[members]
        low, high = (np.bincount(leaf, bound, len(self.parent)) for bound in (lo, hi))
        for k, group in enumerate(self.groups):
            if low[k] > group.most + slack or high[k] < group.least - slack:
                raise ValueError(
                    f"the sum over group {group.name!r} must be between {group.least:g} and {group.most:g}, but its "
                    f"coordinates reach from {low[k]:g} to {high[k]:g}."
                )
            low[self.parent[k]] += max(low[k], group.least)
            high[self.parent[k]] += min(high[k], group.most)
        return float(low[-1]), float(high[-1])

    def sums(self, x: Vector) -> Vector:
        """Return the sum of every node."""
        totals: Vector = np.bincount(self.leaf, x, len(self.parent)).astype(np.float64)
        for k in range(len(self.groups)):
            totals[self.parent[k]] += totals[k]
        return totals

    def project(
        self, z: Vector, lo: Vector, hi: Vector, c: float, on_sum: Callable[[float, Vector, Any], Vector]
    ) -> Vector:
        """Return the point nearest to z within bounds and limits whose sum is c.

        It is z plus a shift for each node, clipped to the bounds. From the root down: the sum of a node is
        non-decreasing and piecewise linear in the shift of its parent; if it violates a limit, the node gets the shift
        at which its sum equals that limit. ``on_sum(total, z, at)`` projects coordinates ``at`` onto a sum.
        """
        least, most = self.least.copy(), self.most.copy()
        least[-1] = most[-1] = c
        own = [np.flatnonzero(self.leaf == k) for k in range(len(least))]
        children = [np.flatnonzero(self.parent == k).tolist() for k in range(len(least))]
        ends = np.concatenate([lo - z, hi - z])
        reach = 4.0 * (float(np.abs(ends[np.isfinite(ends)]).max(initial=0.0)) + abs(c) + float(np.abs(z).max()) + 1.0)

        def inside(k: int, shift: float) -> float:
            total = float(np.clip(z[own[k]] + shift, lo[own[k]], hi[own[k]]).sum())
            inner = (min(max(inside(child, shift), least[child]), most[child]) for child in children[k])
            return total + float(sum(inner))

        def crossing(k: int, target: float) -> float:
            """Return the shift at which the sum of a node is the target, interpolating between two corners."""
            right = bisect.bisect_left(corners[k], target, key=lambda shift: inside(k, shift))
            low, high = corners[k][min(max(right, 1), len(corners[k]) - 1) + np.array([-1, 0])]
            slope, shift = (inside(k, high) - inside(k, low)) / (high - low), low
            for _ in range(2 if slope > 0.0 else 0):  # the second round removes rounding error
                shift = min(max(shift + (target - inside(k, shift)) / slope, low), high)
            return float(shift)

        corners: list[Vector] = []  # of the sum of every node, as a function of the shift
        for k in range(len(least)):
            limits = [crossing(j, limit) for j in children[k] for limit in (least[j], most[j]) if np.isfinite(limit)]
            bounds = np.concatenate([ends[own[k]], ends[len(z) + own[k]], [-reach, reach]])
            corners.append(
                np.unique(np.concatenate([bounds[np.isfinite(bounds)], limits, *(corners[j] for j in children[k])]))
            )
        x = np.empty(len(z))

        def place(k: int, shift: float) -> None:
            total = inside(k, shift)
            target = min(max(total, least[k]), most[k])
            if total != target:
                total, shift = target, crossing(k, target)
            for child in children[k]:
                place(child, shift)
            if len(own[k]):
                # The node's own coordinates absorb the rounding error of its sum.
                rest = sum(float(x[self.groups[child].members].sum()) for child in children[k])
                wanted = min(max(total - rest, float(lo[own[k]].sum())), float(hi[own[k]].sum()))
                x[own[k]] = on_sum(wanted, z[own[k]] + shift, own[k])

        place(len(least) - 1, 0.0)
        # For a z far away shifts have a large rounding error, and a node may have no own coordinates to absorb it.
        is_far = float(np.abs(z).max()) > 4.0 * float(np.abs(x).max()) > 0.0
        return self.project(x, lo, hi, c, on_sum) if is_far else x

    def best_transfer(self, x: Vector, right: Vector, left: Vector, size: float) -> Transfer:
        """Return the transfer that lowers F fastest without breaking a limit.

        ``right`` has the slopes of coordinates that may rise, ∞ for the others; ``left`` those of coordinates that may
        fall, −∞ for the others. i may take from j if j is in every node of i that is at its upper limit and i in every
        node of j that is at its lower limit.
        """
        if not self.groups:
            i, j = int(np.argmin(right)), int(np.argmax(left))
            return Transfer(float(left[j] - right[i]), i, j) if left[j] > right[i] else Transfer(0.0, -1, -1)
        sums, slack, nodes = self.sums(x), AT_LIMIT * size, range(len(self.parent))
        full = [next((k for k in self.chain(a) if sums[k] >= self.most[k] - slack), -1) for a in nodes]
        low = [next((k for k in self.chain(a) if sums[k] <= self.least[k] + slack), -1) for a in nodes]
        at = {int(a): np.flatnonzero(self.leaf == a) for a in np.unique(self.leaf)}
        rise = {a: int(members[np.argmin(right[members])]) for a, members in at.items()}
        fall = {a: int(members[np.argmax(left[members])]) for a, members in at.items()}
        best = Transfer(0.0, -1, -1)
        for a, i in rise.items():
            above = set(self.chain(a))
            for b, j in fall.items():
                rate = float(left[j] - right[i])
                if rate > best.rate and (full[a] < 0 or full[a] in self.chain(b)) and (low[b] < 0 or low[b] in above):
                    best = Transfer(rate, i, j)
        return best

    def cells(self, x: Vector, size: float) -> npt.NDArray[np.int64]:
        """Return for every coordinate the innermost node that contains it and whose sum is at a limit, or the root."""
        sums, slack = self.sums(x), AT_LIMIT * size
        bound = (sums <= self.least + slack) | (sums >= self.most - slack)
        bound[-1] = True
        of_node = np.array([next(k for k in self.chain(a) if bound[k]) for a in range(len(self.parent))])
        cells: npt.NDArray[np.int64] = of_node[self.leaf]
        return cells

    def cheapest(self, slopes: Vector, lengths: Vector, owners: Any, base: Vector, total: float) -> Vector:
        """Return the z ≥ ``base`` of least cost with the given sum.

        Piece k adds up to ``lengths[k]`` to coordinate ``owners[k]`` at a cost of ``slopes[k]`` per unit; the slopes of
        a coordinate's pieces increase. From the leaves up, a node buys what it needs for its lower limit, cheapest
        first, and offers its parent what its upper limit still allows.
        """
        z, order = base.copy(), np.argsort(slopes, kind="stable")
        pending: list[list[Any]] = [[] for _ in self.parent]
        sums = np.bincount(self.leaf, base, len(self.parent)).astype(np.float64)
        nodes = self.leaf[owners]
        for k in range(len(self.parent)):
            own = order[nodes[order] == k]
            offers = np.concatenate([np.stack([slopes[own], lengths[own], owners[own]], axis=1), *pending[k]])
            offers = offers[np.argsort(offers[:, 0], kind="stable")]
            is_root = k == len(self.parent) - 1
            needed = max((total if is_root else self.least[k]) - sums[k], 0.0)
            before = np.concatenate([[0.0], np.cumsum(offers[:, 1])[:-1]]) if len(offers) else np.zeros(0)
            bought = np.clip(needed - before, 0.0, offers[:, 1])
            np.add.at(z, offers[:, 2].astype(np.int64), bought)
            if not is_root:
                room = max(self.most[k] - sums[k], 0.0)
                offers[:, 1] = np.clip(room - before, 0.0, offers[:, 1]) - bought
                pending[self.parent[k]].append(offers[offers[:, 1] > 0.0])
                sums[self.parent[k]] += sums[k] + float(bought.sum())
        return z

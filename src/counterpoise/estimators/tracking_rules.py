"""Convert a portfolio's rules from names to checked arrays over the columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.checks import Vector, float_array, number, whole_number
from counterpoise.estimators.options import hashable, refuse_unusable
from counterpoise.sentences import counted, some, suggest
from counterpoise.tables.native import by_name, is_pandas

if TYPE_CHECKING:
    from counterpoise.estimators.tracking import IndexTracker

# Sums of limits that miss 1 by less than this, such as ten weights of 0.1, do so by rounding.
ROOM = 1e-10
# The least weight of a name in ``include``.
LEAST_HELD = 1e-4


class Names(NamedTuple):
    """The columns' names, or their positions if they have none."""

    labels: list[Any]
    places: dict[Any, int]

    def of(self, positions: Any) -> npt.NDArray[Any]:
        """Return the names at these positions as an array, whose entries may be tuples."""
        kind = np.int64 if self.labels == list(range(len(self.labels))) else object
        out = np.empty(len(positions), dtype=kind)
        for k, position in enumerate(positions):
            out[k] = self.labels[position]
        return out

    def refuse_unknown(self, names: Iterable[Any], what: str, also: Iterable[Any] = ()) -> None:
        """Raise an error about the first name that is neither a column nor in ``also``."""
        others = set(also)
        for name in names:
            if name not in self.places and name not in others:
                raise ValueError(f"{what}: {name!r} is not a column of returns; {suggest(name, self.labels)}")


class Rules(NamedTuple):
    """The rules of a portfolio, as arrays over the columns and over the groups with limits."""

    lo: Vector
    hi: Vector
    must: npt.NDArray[np.bool_]
    group: npt.NDArray[np.int64]
    least: Vector
    most: Vector
    group_names: tuple[str, ...]
    centre: Vector
    cost: Vector
    sold: float
    sold_cost: float

    def turnover(self, x: Vector) -> float:
        """Return Σ|x − centre|, plus the weight of names that are sold because they have no column."""
        return float(np.abs(x - self.centre).sum()) + self.sold

    def with_an_idle_name(self) -> Rules:
        """Return the rules for one more name, of no group, that is not held and must not be."""
        lo, hi, centre, cost = (np.append(part, 0.0) for part in (self.lo, self.hi, self.centre, self.cost))
        must, group = np.append(self.must, False), np.append(self.group, -1)
        return self._replace(lo=lo, hi=hi, centre=centre, cost=cost, must=must, group=group)


def rules_of(tracker: IndexTracker, names: Names) -> Rules:
    """Read the rules from a tracker's parameters; check each of them, and include, exclude and limits together."""
    n = len(names.labels)
    hi = _each(names, tracker.max_weight, "max_weight", 1.0)
    lo = _each(names, tracker.min_weight, "min_weight", 0.0)
    include = _chosen(names, tracker.include, "include")
    exclude = _chosen(names, tracker.exclude, "exclude")
    both = sorted(set(include) & set(exclude))
    if both:
        raise ValueError(f"include and exclude both name {some(names.of(both))}; a name may be in only one of them.")
    hi[exclude] = 0.0
    barred = [k for k in include if hi[k] == 0.0]
    if barred:
        raise ValueError(f"include lists {names.labels[barred[0]]!r}, but its max_weight is 0; raise it.")
    above = np.flatnonzero((lo > hi) & (hi > 0.0))
    if len(above):
        k = int(above[0])
        raise ValueError(f"min_weight is {lo[k]:g} and max_weight {hi[k]:g} for {names.labels[k]!r}; {_ORDER}")
    lo[hi == 0.0] = 0.0
    must = np.zeros(n, dtype=np.bool_)
    must[include] = True
    lo[include] = np.maximum(lo[include], np.minimum(hi[include], LEAST_HELD))
    previous: Any = {} if tracker.previous_weights is None else tracker.previous_weights
    table = _mapping(previous, "previous_weights")
    sold: dict[Any, float] = {}
    if table is not None:
        previous = {name: value for name, value in table.items() if name in names.places}
        rest = [name for name in table if name not in names.places]
        sold = {name: float(_numbers(table[name], "previous_weights")) for name in rest}
        _between(np.array(list(sold.values())), "previous_weights", rest)
    centre = _each(names, previous, "previous_weights", 0.0)
    cost = _each(names, tracker.transaction_cost, "transaction_cost", 0.0, math.inf, sold)
    sold_cost = sum(_cost_of(tracker.transaction_cost, name) * value for name, value in sold.items())
    groups = _groups(names, tracker.groups, tracker.group_limits)
    return Rules(lo, hi, must, *groups, centre, cost, float(sum(sold.values())), sold_cost)


_ORDER = "the first must not exceed the second."


def _cost_of(costs: Any, name: Any) -> float:
    """Return the cost of selling a name that has no column."""
    table = _mapping(costs, "transaction_cost")
    if table is not None:
        value = float(_numbers(table.get(name, 0.0), "transaction_cost"))
        _between(np.array([value]), "transaction_cost", [name], math.inf)
        return value
    return float(costs) if np.ndim(costs) == 0 else 0.0


def _groups(names: Names, groups: Any, limits: Any) -> tuple[npt.NDArray[np.int64], Vector, Vector, tuple[str, ...]]:
    """Return the number of each name's group (−1 if it has no limits), the limits, and the groups' names."""
    n = len(names.labels)
    table = _mapping(limits, "group_limits")
    if limits is not None and table is None:
        raise TypeError(f"group_limits is {limits!r}; it must map groups to limits, such as {{'energy': (0.0, 0.3)}}.")
    if table and groups is None:
        raise ValueError("group_limits is given without groups; say which name is in which group.")
    members = [None] * n if groups is None else _members(names, groups)
    known = {member: None for member in members if member is not None}
    for key in table or ():
        if key not in known:
            raise ValueError(f"group_limits: no name is in group {key!r}; {suggest(key, list(known))}")
    pairs = [_limits(key, value) for key, value in (table or {}).items()]
    numbers = {key: k for k, key in enumerate(table or ())}
    group = np.array([-1 if member is None else numbers.get(member, -1) for member in members], dtype=np.int64)
    least, most = np.array([low for low, _ in pairs]), np.array([high for _, high in pairs])
    return group, least, most, tuple(str(key) for key in table or ())


def _members(names: Names, groups: Any) -> list[Any]:
    table = _mapping(groups, "groups")
    if table is not None:
        names.refuse_unknown(table, "groups")
        members = [table.get(label) for label in names.labels]
    else:
        members = list(groups) if isinstance(groups, Iterable) and not isinstance(groups, str) else []
        if len(members) != len(names.labels):
            raise ValueError(
                f"groups has {len(members)} entries; give one for each of {len(names.labels)} names, or a mapping."
            )
    return hashable(members, "groups", ", which cannot name a group; give a word or a number.")


def _limits(key: Any, value: Any) -> tuple[float, float]:
    """Return (low, high) from one number or a pair."""
    what = f"group_limits of {key!r}"
    if np.ndim(value) == 0 and value is not None:
        low = high = number(value, what, 0.0)
    else:
        if np.shape(value) != (2,):
            raise ValueError(f"{what} is {value!r}; it must be one number or (low, high).")
        low = 0.0 if value[0] is None else number(value[0], what, 0.0)
        high = 1.0 if value[1] is None else number(value[1], what, 0.0)
    if low > high:
        raise ValueError(f"{what} is ({low:g}, {high:g}); {_ORDER}")
    if high > 1.0:
        raise ValueError(f"{what} is {high:g}; weights sum to 1, so limits must be between 0 and 1.")
    return low, high


def feasible(rules: Rules, size: int) -> Rules:
    """Refuse rules that contradict each other in simple ways; rescale limits whose sum misses 1 by rounding."""
    lo, hi, must, group, least, most = rules[:6]
    allowed = hi > 0.0
    if not allowed.any():
        raise ValueError("exclude and max_weight leave no name to hold; allow at least one.")
    size = min(size, int(allowed.sum()))
    if int(must.sum()) > size:
        raise ValueError(f"include lists {int(must.sum())} names, but at most {size} may be held; raise n_assets.")
    reach = _largest(hi, size)
    if reach < 1.0 - ROOM:
        raise ValueError(
            f"{counted(size, 'name')} can hold at most {reach:g} under max_weight, but the weights must sum to 1; "
            "raise n_assets or max_weight."
        )
    bound = float(lo[must].sum())
    if bound > 1.0 + ROOM:
        raise ValueError(f"The min_weight values of the names in include sum to {bound:g}; the sum must be at most 1.")
    for k, name in enumerate(rules.group_names):
        inside = group == k
        reach_here, bound_here = _largest(hi[inside], size), float(lo[inside & must].sum())
        if reach_here < least[k] - ROOM:
            raise ValueError(
                f"group_limits requires at least {least[k]:g} in group {name!r}, but with at most "
                f"{counted(size, 'name')} it can hold only {reach_here:g}."
            )
        if bound_here > most[k] + ROOM:
            raise ValueError(
                f"group_limits allows at most {most[k]:g} in group {name!r}, but the min_weight values of its names "
                f"in include sum to {bound_here:g}."
            )
    lows, highs = float(least.sum()), float(most.sum())
    if lows > 1.0 + ROOM:
        raise ValueError(f"The lower limits of group_limits sum to {lows:g}; the sum must be at most 1.")
    full = bool((group[allowed] >= 0).all())
    if full and highs < 1.0 - ROOM:
        raise ValueError(
            f"Every name that may be held is in a group, and the upper limits of group_limits sum to {highs:g}; "
            "the sum must be at least 1."
        )
    return rules._replace(
        lo=lo / bound if bound > 1.0 else lo,
        hi=np.minimum(hi / reach, 1.0) if reach < 1.0 else hi,
        least=least / lows if lows > 1.0 else least,
        most=most / highs if full and highs < 1.0 else most,
    )


def _largest(values: Vector, count: int) -> float:
    return float(np.sort(values)[::-1][:count].sum())


# Conversion of what users pass.


def _mapping(given: Any, what: str) -> dict[Any, Any] | None:
    """Return a mapping, a Series, or a table of names and values as a dictionary, anything else as None."""
    given = by_name(given)
    if is_pandas(given, "Series"):
        if not given.index.is_unique:
            raise ValueError(f"{what} lists {given.index[given.index.duplicated()][0]!r} twice; names must be unique.")
        return dict(given.to_dict())
    return dict(given) if isinstance(given, Mapping) else None


def _numbers(given: Any, what: str) -> Vector:
    refuse_unusable(**{what: given})
    try:
        return np.array(float_array(given, what))
    except (TypeError, ValueError):
        raise TypeError(
            f"{what} is {given!r}; give real numbers: one, one for each name, or a mapping from names."
        ) from None


def _between(values: Vector, what: str, labels: list[Any], most: float = 1.0) -> None:
    """Raise an error about the first value that is below 0, above ``most`` or not finite."""
    bad = np.flatnonzero(~((values >= 0.0) & (values <= most) & np.isfinite(values)))
    if len(bad):
        k = int(bad[0])
        where = f" for {labels[k]!r}" if labels else ""
        right = "finite and at least 0" if most == math.inf else f"between 0 and {most:g}"
        raise ValueError(f"{what} is {values[k]:g}{where}; it must be {right}.")


def _each(names: Names, given: Any, what: str, default: float, most: float = 1.0, also: Iterable[Any] = ()) -> Vector:
    """Return one number per name, given a single number, a mapping from names or an array."""
    table = _mapping(given, what)
    if table is not None:
        names.refuse_unknown(table, what, also)
        given = [table.get(label, default) for label in names.labels]
    values = _numbers(given, what)
    if values.ndim == 0:
        _between(values[None], what, [], most)
        return np.full(len(names.labels), float(values))
    if values.shape != (len(names.labels),):
        raise ValueError(
            f"{what} has shape {values.shape}; give one number, one for each of {len(names.labels)} names or a mapping."
        )
    _between(values, what, names.labels, most)
    return values


def _chosen(names: Names, given: Any, what: str) -> list[int]:
    """Return the positions of names; integers are positions, unless some name is an integer."""
    if given is None:
        return []
    single = isinstance(given, str) or not isinstance(given, Iterable) or _is_name(given, names)
    numbered = any(isinstance(label, int | np.integer) for label in names.labels)
    places: dict[int, None] = {}
    for item in [given] if single else given:
        if isinstance(item, bool | np.bool_):
            raise TypeError(f"{what} contains {item}; give names or positions, not booleans.")
        if _is_name(item, names):
            places[names.places[item]] = None
        elif isinstance(item, int | np.integer) and not numbered:
            places[whole_number(item, f"a position in {what}", 0, len(names.labels) - 1)] = None
        else:
            raise ValueError(f"{what}: {item!r} is not a column of returns; {suggest(item, names.labels)}")
    return list(places)


def _is_name(item: Any, names: Names) -> bool:
    try:
        return item in names.places
    except TypeError:  # a list cannot be a key
        return False

"""Paths: one problem for many values of s or λ, each warm-started from its neighbours on both sides."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from counterpoise.checks import Vector
from counterpoise.problem import Problem, Result, Status
from counterpoise.solvers import minimize
from counterpoise.supervision import warn


@dataclasses.dataclass(frozen=True, eq=False)
class Path:
    """Results along a path, in the order of the values that were asked for.

    Attributes
    ----------
    name : {"s", "lam"}
    values : tuple
    problems : tuple of Problem
    results : tuple of Result
    """

    name: str
    values: tuple[float, ...]
    problems: tuple[Problem, ...]
    results: tuple[Result, ...]

    @property
    def objectives(self) -> Vector:
        """The objective of each result."""
        return np.array([result.objective for result in self.results])

    def __iter__(self) -> Iterator[tuple[float, Result]]:
        return iter(zip(self.values, self.results, strict=True))

    def __len__(self) -> int:
        return len(self.values)


def path(
    problem: Problem,
    s: Sequence[int] | None = None,
    lam: Sequence[float] | None = None,
    method: str = "bcd-g",
    callback: Callable[[str, float, Result], Any] | None = None,
    **options: Any,
) -> Path:
    """Minimise for every s, or for every λ; no result is worse than that of a single run.

    Each value is solved from the method's own start; then once from the point of the next smaller value, in ascending
    order, and once from that of the next larger one, in descending order. The best of the three is kept. After Ctrl-C
    the path holds the values solved by then, with a warning.

    Parameters
    ----------
    problem : Problem
        Its other constants are not changed.
    s : sequence of int, or lam : sequence of float
        One of the two.
    method, **options
        As in :func:`counterpoise.minimize`.
    callback : callable, optional
        Called with "cold", "up" or "down", the value, and the best result for it so far.
    """
    if (s is None) == (lam is None):
        raise ValueError("give either s or lam, a list of values.")
    name: str = "s" if lam is None else "lam"
    given: Any = s if lam is None else lam
    if np.ndim(given) != 1:
        raise TypeError(f"{name} is {given!r}; give a list of values.")
    asked = list(given)
    if not asked:
        raise ValueError(f"{name} is empty; give at least one value.")
    values = sorted(dict.fromkeys(asked))
    problems = [problem.variant(**{name: value}) for value in values]
    best: list[Result] = []
    tell = callback or (lambda label, value, result: None)
    for value, variant in zip(values, problems, strict=True):
        best.append(minimize(variant, None, method, **options))
        tell("cold", value, best[-1])
        if best[-1].status is Status.INTERRUPTED:
            break
    solved = len(best)
    whole = solved == len(values) and best[-1].status is not Status.INTERRUPTED
    steps = [("up", k, k - 1) for k in range(1, solved)] + [("down", k, k + 1) for k in range(solved - 2, -1, -1)]
    for label, k, near in steps if whole else ():
        x = best[near].x
        start = x if problems[k].is_feasible(x) else problems[k].project(x)
        again = minimize(problems[k], start, method, **options)
        best[k] = again if again.objective < best[k].objective else best[k]
        tell(label, values[k], best[k])
        if again.status is Status.INTERRUPTED:
            whole = False
            break
    if not whole:
        warn(f"The path was interrupted; it holds {solved} of {len(values)} values.")
        asked = [value for value in asked if value in values[:solved]]
    places = [values.index(value) for value in asked]
    return Path(name, tuple(asked), tuple(problems[k] for k in places), tuple(best[k] for k in places))

"""Components for several numbers of loadings: explained variance, and the elbow of its curve."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from counterpoise.checks import Vector
from counterpoise.estimators.component_results import Found
from counterpoise.estimators.covariance import Matrix
from counterpoise.estimators.options import warn
from counterpoise.problem import Result, Status
from counterpoise.sentences import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Largest number of loadings in a default path.
MOST_LOADINGS = 100


def default_sizes(n: int) -> list[int]:
    """Return numbers from 1 to min(n, 100), each 1.5 times the previous one, rounded down, and at least one more."""
    sizes, most = [1], min(n, MOST_LOADINGS)
    while sizes[-1] < most:
        sizes.append(min(max(sizes[-1] + 1, (3 * sizes[-1]) // 2), most))
    return sizes


def elbow(along: Sequence[float], values: Sequence[float]) -> int | None:
    """Return the position where a rising curve is farthest above the line from its first to its last point.

    None if it is nowhere above that line, in particular with fewer than three points.

    Examples
    --------
    >>> elbow([1, 2, 4, 8], [0.1, 0.5, 0.6, 0.65])
    1
    """
    order = np.argsort(along, kind="stable")
    x, y = np.asarray(along, dtype=np.float64)[order], np.asarray(values, dtype=np.float64)[order]
    if len(x) < 3 or x[-1] == x[0]:
        return None
    above = y - (y[0] + (y[-1] - y[0]) * (x - x[0]) / (x[-1] - x[0]))
    best = int(np.argmax(above))
    return int(order[best]) if above[best] > 1e-9 * abs(y[-1] - y[0]) else None


@dataclasses.dataclass(frozen=True, eq=False)
class ComponentPath:
    """Components for several numbers of loadings, returned by :meth:`counterpoise.SparsePCA.path`.

    Attributes
    ----------
    n_nonzero : tuple of int
        In the order requested, like all other attributes. After Ctrl-C only the numbers reached, with a warning.
    components : tuple of arrays, components × features
    explained_variance_ratios : tuple of arrays
        Adjusted, one entry per component.
    results : tuple of tuples of Result
    """

    n_nonzero: tuple[int, ...]
    components: tuple[npt.NDArray[np.float64], ...]
    explained_variance_ratios: tuple[Vector, ...]
    results: tuple[tuple[Result, ...], ...]

    def __len__(self) -> int:
        return len(self.n_nonzero)

    @property
    def shares(self) -> Vector:
        """The share of variance that all components together explain, for each number of loadings."""
        return np.array([float(ratios.sum()) for ratios in self.explained_variance_ratios])

    @property
    def elbow(self) -> int | None:
        """The suggested number of loadings, beyond which more add little variance.

        It is where the curve of variance against loadings is farthest above the line between its ends; None for fewer
        than three numbers. It depends on the numbers requested, mainly on the largest, and is only a suggestion.
        """
        place = elbow(self.n_nonzero, self.shares.tolist())
        return None if place is None else self.n_nonzero[place]

    @property
    def table(self) -> Any:
        """A DataFrame with one row per number: loadings of all components, share of variance, components."""
        columns = {
            "loadings": [int(np.count_nonzero(V)) for V in self.components],
            "explained_variance_ratio": self.shares,
            "components": [len(V) for V in self.components],
        }
        pandas = require("A table needs", "pandas")
        return pandas.DataFrame(columns, index=pandas.Index(self.n_nonzero, name="n_nonzero"))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw variance against loadings, and the elbow; see :func:`counterpoise.plotting.plot_variance`."""
        from counterpoise.plotting import plot_variance

        return plot_variance(self.n_nonzero, self.shares, self.elbow, ax)


def find_path(sizes: Sequence[int], fit: Callable[[int, Matrix | None], Found], total: float) -> ComponentPath:
    """Fit each size in ascending order, and again from the components of the next smaller one if these explain more.

    ``fit`` takes a size, and components to start from or None; ``total`` is the variance of the data.
    """
    found: dict[int, Found] = {}
    best: Found | None = None
    for size in sorted(set(sizes)):
        try:
            runs = [fit(size, None)]
            if best is not None and best.variances.sum() > runs[0].variances.sum():
                runs += [best] if _interrupted(runs) else [fit(size, best.V), best]
        except KeyboardInterrupt:
            if best is None:
                raise
            break
        found[size] = best = max(runs, key=lambda run: float(run.variances.sum()))
        if _interrupted(runs):
            break
    if len(found) < len(set(sizes)):
        warn(f"The path was interrupted; it covers {len(found)} of {len(set(sizes))} numbers of loadings.")
    sizes = [size for size in sizes if size in found]
    chosen = [found[size] for size in sizes]
    return ComponentPath(
        tuple(sizes),
        tuple(each.V.T for each in chosen),
        tuple(each.variances / total for each in chosen),
        tuple(tuple(each.results) for each in chosen),
    )


def _interrupted(runs: Sequence[Found]) -> bool:
    return any(result.status is Status.INTERRUPTED for run in runs for result in run.results)


def warn_if_exhausted(asked: int, found: Iterable[int]) -> None:
    """Warn that fewer components than asked for explain all variance; ``found`` holds the number of each fit."""
    counts = sorted({count for count in found if count < asked})
    if counts:
        number = " or ".join(map(str, counts))
        explain, these = ("component explains", "this one is") if counts == [1] else ("components explain", "these are")
        warn(f"n_components is {asked}, but {number} {explain} all variance; only {these} returned.")

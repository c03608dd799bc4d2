"""Compare signed sparse components with published optima of max xᵀCx, ‖x‖ = 1, at most k non-zeros, C correlations.

The optima of pitprops (Jeffers 1967) are by enumeration; those of wine, MiniBooNE and communities, from the UCI
repository, by Berk and Bertsimas (2019) and by Cory-Wright and Pauphilet (2022).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from counterpoise.checks import Vector
from counterpoise.estimators.pca import SparsePCA
from counterpoise.experiments.tables import Cell, Table
from counterpoise.figures.describe import BLACK, BLUE, ORANGE, Axis, Chart, Panel, Series, Style
from counterpoise.figures.drawing import draw_grid
from counterpoise.problem import Status
from counterpoise.sentences import spelled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Printed values, for k = 1, 2, … or for k = 5 and 10, and the file in the data folder.
PITPROPS = "1.000 1.954 2.475 2.937 3.406 3.771 3.996 4.069 4.139 4.173 4.208 4.218 4.219".split()
PUBLISHED = {
    "pitprops": ("pitprops/pitprops_corr.csv", dict(enumerate(PITPROPS, 1))),
    "wine": ("sparse_pca/wine.npz", {5: "3.43978", 10: "4.59429"}),
    "miniboone": ("sparse_pca/miniboone.npz", {5: "5.0000", 10: "9.99999"}),
    "communities": ("sparse_pca/communities.npz", {5: "4.86051", 10: "8.8236"}),
}
# Largest number of supports that is enumerated for a proof.
MOST_SUPPORTS = 10_000
# Number of calls; the fastest is shown.
CALLS = 3


class Instance(NamedTuple):
    """A matrix of correlations, a number of loadings, and the published variance as printed."""

    name: str
    C: Vector
    k: int
    printed: str

    def is_reached(self, variance: float) -> bool:
        """Return whether a variance is at least the published one, to the printed digits."""
        return round(variance, len(self.printed.partition(".")[2])) >= float(self.printed)


class Found(NamedTuple):
    """The result of a search, its time, an upper bound, and the outcome of enumeration, if any."""

    instance: Instance
    variance: float
    loadings: int
    seconds: float
    bound: float
    proof: Status | None


def instances(folder: Path | None) -> tuple[list[Instance], list[str]]:
    """Return the instances whose matrix is in the folder, and a message for each missing matrix."""
    found, absent = [], []
    for name, (file, values) in PUBLISHED.items():
        path = None if folder is None else folder / file
        if path is None or not path.is_file():
            absent.append(f"{name}: no {file} in the folder of data; name a folder that has it by --data.")
            continue
        if path.suffix == ".csv":
            C = np.genfromtxt(path, delimiter=",", skip_header=1)[:, 1:]
        else:
            with np.load(path) as stored:
                C = stored["C"]
        found += [Instance(name, C, k, printed) for k, printed in values.items()]
    return found, absent


def measure(chosen: list[Instance], progress: Callable[[str], None] | None = None) -> list[Found]:
    """Run a search on every instance, and enumerate the supports if they are few."""
    results = []
    for each in chosen:
        if progress is not None:
            progress(f"{each.name}, k = {each.k}")
        seconds, model = [], SparsePCA(n_nonzero=each.k, random_state=0)
        model.fit(covariance=each.C)  # may compile
        for _ in range(CALLS):
            clock = time.perf_counter()
            model.fit(covariance=each.C)
            seconds.append(time.perf_counter() - clock)
        proof = None
        variance = float(model.explained_variance_[0])
        if math.comb(len(each.C), each.k) <= MOST_SUPPORTS:
            exact = SparsePCA(n_nonzero=each.k, method="exact").fit(covariance=each.C)
            # The proof is for the best support; it applies to the search's if that explains as much.
            same = abs(float(exact.explained_variance_[0]) - variance) <= 1e-9 * variance
            proof = exact.results_[0].status if same else None
        loadings = int(np.count_nonzero(model.components_))
        results.append(Found(each, variance, loadings, min(seconds), float(model.upper_bound_[0]), proof))
    return results


def table(found: list[Found]) -> Table:
    """Return a table of the published values next to ours."""
    rows: list[list[Cell]] = []
    for one in found:
        each = one.instance
        reached = "yes" if each.is_reached(one.variance) and one.loadings <= each.k else "no"
        proved = "–" if one.proof is None else spelled(one.proof)
        ours = f"{one.variance:.5f}", reached, f"{1e3 * one.seconds:.0f}", proved, f"{one.bound:.3f}"
        rows.append([each.name, len(each.C), each.k, each.printed, *ours])
    head = ("matrix", "n", "k", "published", "found", "reached", "ms", "proved", "bound")
    notes = [
        "Found by `SparsePCA(n_nonzero=k).fit(covariance=C)`. Reached: no less than published, in the digits that are "
        f"printed. Times are the least of {CALLS} fits after a first one. Proved: by looking at all supports, where "
        f"these are at most {MOST_SUPPORTS:,}. The bound is `upper_bound_`."
    ]
    return Table("sparse-pca-optima", "max xᵀCx, ‖x‖ = 1, at most k non-zeros", head, rows, notes=notes)


def charts(found: list[Found]) -> list[Chart]:
    """Return charts of variance against the number of loadings, one panel per matrix."""
    panels = []
    for name in dict.fromkeys(one.instance.name for one in found):
        own = [one for one in found if one.instance.name == name]
        k, printed = [one.instance.k for one in own], [float(one.instance.printed) for one in own]
        # Two points are not drawn as a curve.
        bound, line = (Style(ORANGE, "--"), "-") if len(own) > 2 else (Style(ORANGE, "", marker="_"), "")
        series = [
            Series("upper bound", k, [one.bound for one in own], style="muted", look=bound),
            Series("found", k, [one.variance for one in own], look=Style(BLUE, line, marker="o")),
            Series("published", k, printed, look=Style(BLACK, "", marker="x", filled=True)),
        ]
        panels.append(Panel(name, Axis("loadings"), Axis("variance"), series))
    note = "Correlations: the variance of a feature is 1."
    return [Chart("optima", "Variance of the first component against its loadings", "line", panels, note)]


def figures(found: list[Found]) -> dict[str, Figure]:
    """Return the charts as a figure."""
    return {"sparse-pca": draw_grid(charts(found)[0].panels, "line", 4, 2.6, 2.4)}

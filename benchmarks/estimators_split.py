"""Balance of ``balanced_split`` against the best of many random splits: ``python benchmarks/estimators_split.py``.

Rerandomisation with a threshold on the Mahalanobis distance (Morgan and Rubin 2012) is the usual way to a balanced
experiment: of so many random splits the one of least distance. The best of them by the largest standardised difference
itself is harder to beat, and is what the ratio refers to. Seconds are those of a second call; the first may compile.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_diabetes

from counterpoise.checks import Vector
from counterpoise.estimators.split import balanced_split

console = Console(highlight=False, width=120)


def tables() -> Iterator[tuple[str, Vector, int]]:
    """Yield a name, covariates and the size of group 1."""
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((400, 20))
    yield "normal, halves", normal, 200
    yield "normal, one quarter", normal, 100
    yield "log-normal, halves", np.exp(rng.standard_normal((400, 20))), 200
    cancer, diabetes = load_breast_cancer().data, load_diabetes().data
    yield "breast cancer, halves", cancer, len(cancer) // 2
    # 207 of 442 are of one sex, an odd number, so that halves differ by one: its difference is 0.0091 at least.
    yield "diabetes, halves", diabetes, len(diabetes) // 2
    yield "diabetes without sex, halves", np.delete(diabetes, 1, axis=1), len(diabetes) // 2


def at_random(X: Vector, treated: int, count: int) -> tuple[float, float, float]:
    """Return the least largest |SMD| of so many random splits, that of the least Mahalanobis distance, and seconds."""
    clock = time.perf_counter()
    rng, n = np.random.default_rng(1), len(X)
    Z = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    precision = np.linalg.pinv(np.cov(Z.T))
    scale = 1.0 / treated + 1.0 / (n - treated)
    differences = np.array([scale * Z[rng.permutation(n)[:treated]].sum(axis=0) for _ in range(count)])
    largest = np.abs(differences).max(axis=1)
    distance = np.einsum("ij,jk,ik->i", differences, precision, differences)
    return float(largest.min()), float(largest[distance.argmin()]), time.perf_counter() - clock


def timed(*arguments: Any, **options: Any) -> tuple[Any, float]:
    """Return a split and the seconds of a second call."""
    balanced_split(*arguments, **options)
    clock = time.perf_counter()
    split = balanced_split(*arguments, **options)
    return split, time.perf_counter() - clock


def main() -> None:
    """Print largest |SMD| and seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=10_000, help="random splits")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    table = Table(title=f"Largest |SMD|, {options.random} random splits; ours over {options.seeds} seeds")
    for head in ("covariates", "n × p", "random", "s", "rerandomised", "ours", "worst", "s", "ratio", "worst"):
        table.add_column(head, justify="left" if head == "covariates" else "right")
    for name, X, treated in tables():
        best, rerandomised, seconds = at_random(X, treated, options.random)
        runs = [timed(X, treated, random_state=seed) for seed in range(options.seeds)]
        found = np.array([split.max_difference for split, _ in runs])
        ours = float(np.median([clock for _, clock in runs]))
        table.add_row(
            name,
            f"{X.shape[0]} × {X.shape[1]}",
            f"{best:.4f}",
            f"{seconds:.2f}",
            f"{rerandomised:.4f}",
            f"{np.median(found):.5f}",
            f"{found.max():.5f}",
            f"{ours:.2f}",
            f"{best / np.median(found):.1f}",
            f"{best / found.max():.1f}",
        )
    console.print(table)
    name, X, treated = next(tables())
    many, seconds = timed(X, treated, n_draws=options.draws, random_state=0)
    best, *_ = at_random(X, treated, options.random)
    Z, scale = many.covariates.scores, 1.0 / treated + 1.0 / (len(X) - treated)
    largest = np.abs(scale * (many.draws @ Z)).max(axis=1)
    console.print(
        f"{options.draws} draws, {name}: {seconds:.2f} s; largest |SMD| {largest.min():.4f} to {largest.max():.4f}, "
        f"median {np.median(largest):.4f}; the best of {options.random} random splits has {best:.4f}"
    )


if __name__ == "__main__":
    main()

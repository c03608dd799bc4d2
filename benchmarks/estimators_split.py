"""Balance of ``balanced_split`` against random splits and peers: ``python benchmarks/estimators_split.py``.

Rerandomisation with a threshold on the Mahalanobis distance (Morgan and Rubin 2012) is the usual way to balance an
experiment: draw many random splits and keep the one with the smallest distance. Keeping the one with the smallest
maximum standardised difference is harder to beat, and is what the ratio refers to. Seconds are those of a second call;
the first may compile.

The second table compares peers, implemented here from the published formulas:

* anticlustering (Papenberg and Klau 2021, the R package anticlust): exchanges of two units until none improves the
  criterion, from ten random splits. Criteria are the k-means criterion, the sum of squared distances to the group's
  mean; diversity, the sum of distances within groups; and k-plus (Papenberg 2024), k-means of the covariates and of
  their centred squares. All are maximised, on standardised covariates.
* the Gram–Schmidt walk (Harshaw, Sävje, Spielman and Zhang 2024), a randomised design with a parameter φ that trades
  balance (near 0) for robustness (1). A column of ones keeps its groups about equal; their sizes are not fixed.

Its columns are the largest |SMD| of covariates, that of covariates and their centred squares, and CPU seconds, all as
medians over seeds. The peers are uncompiled NumPy code, so only orders of magnitude of the seconds are comparable.
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


def standardised(X: Vector, squares: bool = False) -> Vector:
    """Return scores, on request with those of centred squares of columns with more than two values."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    if not squares:
        return np.asarray(Z)
    many = [k for k in range(Z.shape[1]) if len(np.unique(Z[:, k])) > 2]
    return np.column_stack([Z, standardised(Z[:, many] ** 2)])


def anticlustered(X: Vector, treated: int, criterion: str, seed: int, repetitions: int = 10) -> Vector:
    """Return the best of several local maxima over exchanges of two units, in two groups."""
    rng, n = np.random.default_rng(seed), len(X)
    Z = standardised(X, squares=criterion == "k-plus")
    distances = np.sqrt(np.maximum(((Z[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2), 0.0))
    best, least = np.zeros(n), np.inf
    for _ in range(repetitions):
        labels = (rng.permutation(n) < treated).astype(np.float64)
        improved = True
        while improved:
            improved = False
            for i in range(n):
                others = np.flatnonzero(labels != labels[i])
                change = _changes(Z, distances, labels, i, others, criterion)
                j = int(change.argmin())
                if change[j] < -1e-9:
                    labels[i], labels[others[j]] = labels[others[j]], labels[i]
                    improved = True
        value = _loss(Z, distances, labels, criterion)
        if value < least:
            best, least = labels.copy(), value
    return best


def _loss(Z: Vector, distances: Vector, labels: Vector, criterion: str) -> float:
    """Return minus the criterion, up to a constant."""
    sides = [labels == g for g in (0.0, 1.0)]
    if criterion == "diversity":
        return -0.5 * float(sum(distances[np.ix_(side, side)].sum() for side in sides))
    # Distances to the group's mean and between means have a constant sum.
    return float(sum(side.sum() * (Z[side].mean(axis=0) ** 2).sum() for side in sides))


def _changes(Z: Vector, distances: Vector, labels: Vector, i: int, others: Any, criterion: str) -> Vector:
    """Return the changes of the loss if unit i changes places with each of the others."""
    own, other = labels == labels[i], labels != labels[i]
    if criterion == "diversity":
        within, across = distances[:, own].sum(axis=1), distances[:, other].sum(axis=1)
        gain = across[i] - within[i] + within[others] - across[others] - 2.0 * distances[i, others]
        return np.asarray(-gain)
    a, b = Z[own].sum(axis=0), Z[other].sum(axis=0)
    step = Z[others] - Z[i]
    after = ((a + step) ** 2).sum(axis=1) / own.sum() + ((b - step) ** 2).sum(axis=1) / other.sum()
    return np.asarray(after - (a @ a) / own.sum() - (b @ b) / other.sum())


def gram_schmidt_walk(X: Vector, phi: float, seed: int) -> Vector:
    """Return groups 0 and 1 of the Gram–Schmidt walk with marginal probabilities ½.

    A pivot unit moves by 1, the free units by the u that minimises φ‖u‖² + (1 − φ)‖Xᵀu‖² (rows of X at most 1 long);
    all go along u, one way or the other at random with mean 0, until one reaches ±1 and is fixed.
    """
    rng, n = np.random.default_rng(seed), len(X)
    V = np.column_stack([standardised(X), np.ones(n)])
    V = V / np.sqrt((V**2).sum(axis=1).max())
    z, free, pivot = np.zeros(n), np.ones(n, dtype=bool), -1
    while free.any():
        if pivot < 0 or not free[pivot]:
            pivot = int(rng.choice(np.flatnonzero(free)))
        rest = free.copy()
        rest[pivot] = False
        u = np.zeros(n)
        u[pivot] = 1.0
        A = V[rest]
        inner = phi * np.eye(V.shape[1]) + (1.0 - phi) * (A.T @ A)
        u[rest] = -(1.0 - phi) * (A @ np.linalg.solve(inner, V[pivot]))
        with np.errstate(divide="ignore"):
            limits = (np.sign(u) - z) / u  # to ±1 along u, and along −u
            back = (np.sign(u) + z) / u
        up, down = float(np.min(limits[free & (u != 0.0)])), float(np.min(back[free & (u != 0.0)]))
        z += (up if rng.random() < down / (up + down) else -down) * u
        reached = free & (np.abs(z) >= 1.0 - 1e-10)
        z[reached] = np.sign(z[reached])
        free &= ~reached
    return np.asarray((z > 0.0).astype(np.float64))


def largest_differences(X: Vector, labels: Vector) -> tuple[float, float]:
    """Return the largest |SMD| of covariates, and of these with their centred squares."""
    Z = standardised(X, squares=True)
    differences = np.abs(Z[labels == 1].mean(axis=0) - Z[labels == 0].mean(axis=0))
    return float(differences[: X.shape[1]].max()), float(differences.max())


def peers(seeds: int) -> None:
    """Print a table of peers."""
    methods: dict[str, Any] = {
        "balanced_split": lambda X, m, seed: balanced_split(X, m, random_state=seed).codes,
        "balanced_split, moments=2": lambda X, m, seed: balanced_split(X, m, moments=2, random_state=seed).codes,
        "anticlust k-means": lambda X, m, seed: anticlustered(X, m, "k-means", seed),
        "anticlust diversity": lambda X, m, seed: anticlustered(X, m, "diversity", seed),
        "anticlust k-plus": lambda X, m, seed: anticlustered(X, m, "k-plus", seed),
        "Gram–Schmidt walk, φ = 0.5": lambda X, m, seed: gram_schmidt_walk(X, 0.5, seed),
        "Gram–Schmidt walk, φ = 0.01": lambda X, m, seed: gram_schmidt_walk(X, 0.01, seed),
    }
    table = Table(title=f"Largest |SMD|, medians over {seeds} seeds")
    for head in ("covariates", "method", "means", "with squares", "s", "sizes"):
        table.add_column(head, justify="left" if head in ("covariates", "method") else "right")
    for name, X, treated in tables():
        if "one quarter" in name:
            continue
        for method, split in methods.items():
            runs = []
            split(X, treated, 0)
            for seed in range(seeds):
                clock = time.process_time()
                labels = np.asarray(split(X, treated, seed))
                runs.append((*largest_differences(X, labels), time.process_time() - clock, labels.sum()))
            means, squares, seconds, sizes = np.median(runs, axis=0)
            row = f"{means:.4f}", f"{squares:.4f}", f"{seconds:.2f}", f"{sizes:.0f}"
            table.add_row(name, method, *row)
            name = ""
        table.add_section()
    console.print(table)


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
    parser.add_argument("--peers", action="store_true", help="only the table of peers")
    options = parser.parse_args()
    if options.peers:
        peers(options.seeds)
        return
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
    peers(options.seeds)


if __name__ == "__main__":
    main()

"""Signed sparse components: published optima, and variance on data compared with peers.

``python benchmarks/sparse_pca.py [--parts optima data em]``. Data are read from the folder named by COUNTERPOISE_DATA.

optima: max xᵀCx over ‖x‖ = 1 with at most k non-zeros, where C is a matrix of correlations; see
``counterpoise reproduce sparse-pca``. Peers are the truncated power method (Yuan and Zhang 2013), with the number of
entries halved down to k, and GPower (Journée et al. 2010) with ℓ0, its penalty bisected until k entries are left.

data: ten components of digits, MNIST, news words and simulated genes. All methods have the same number of loadings and
are scored by the same function, the QR-adjusted variance on the centred data. Peers find components one after the other
on the Schur complement, which suits them better than the deflations of their papers. scikit-learn's SparsePCA,
truncated to the same number of loadings, and abess, if installed, have their own deflations.

em: non-negative components of digits, by our default and by EM with five starts.

Times are the fastest of three calls, after a first one that may compile.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.table import Table
from sklearn.datasets import load_digits, make_biclusters
from sklearn.decomposition import SparsePCA as ScikitSparsePCA

sys.path.insert(0, str(Path(__file__).parent))
import estimators_pca as shared

import counterpoise as cp
from counterpoise.checks import Vector
from counterpoise.experiments import published, sets

console = shared.console
# Penalties that scikit-learn's SparsePCA may choose from; the best is shown, with the seconds of its fit alone and,
# in brackets, of all of these fits.
ALPHAS = (0.3, 1.0, 3.0, 10.0)
# Bisections of GPower's penalty.
BISECTIONS = 30


def unit(z: Vector) -> Vector:
    """Return z at length 1."""
    return z / max(float(np.linalg.norm(z)), 1e-300)


def truncated_power(C: Vector, k: int) -> Vector:
    """Return the end of power steps that keep the k largest entries; their number is halved down to k."""
    x: Vector = C[np.argmax(np.diag(C))].copy()
    size = len(C)
    while True:
        for _ in range(1000):
            product = C @ x
            product[np.argpartition(-np.abs(product), size - 1)[size:]] = 0.0
            new = unit(product)
            moved, x = float(np.abs(new - x).max()), new
            if moved <= 1e-10:
                break
        if size == k:
            return x
        size = max(size // 2, k)


def gpower(C: Vector, k: int) -> Vector:
    """Return the component of GPower with ℓ0: its penalty is bisected until k loadings are left, which are refitted.

    The number of loadings jumps with the penalty; where no penalty leaves k, the k largest of more are taken.
    """
    values, vectors = np.linalg.eigh(C)
    A = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    lengths = np.einsum("ij,ij->j", A, A)
    start = unit(A[:, np.argmax(lengths)])
    low, high, supports = 0.0, float(lengths.max()), []
    for _ in range(BISECTIONS):
        gamma, x = 0.5 * (low + high), start
        for _ in range(200):
            inner = A.T @ x
            inner[inner**2 <= gamma] = 0.0
            new = unit(A @ inner)
            moved, x = float(np.abs(new - x).max()), new
            if moved <= 1e-8:
                break
        inner = np.abs(A.T @ x)
        found = np.flatnonzero(inner**2 > gamma)
        low, high = (gamma, high) if len(found) > k else (low, gamma)
        supports.append(found[np.argsort(-inner[found], kind="stable")[:k]])
        if len(found) == k:
            break
    solved = [(np.linalg.eigh(C[np.ix_(held, held)]), held) for held in supports if len(held)]
    (_, vectors), held = max(solved, key=lambda each: float(each[0][0][-1]))
    v = np.zeros(len(C))
    v[held] = vectors[:, -1]
    return v


def searched(C: Vector, k: int) -> Vector:
    """Return the component of SparsePCA."""
    component: Vector = cp.SparsePCA(n_nonzero=k, random_state=0).fit(covariance=C).components_[0]
    return component


def timed(method: Callable[[Vector, int], Vector], C: Vector, k: int) -> tuple[Vector, float]:
    """Return what a method finds and the least seconds of three calls."""
    method(C, k)
    seconds = []
    for _ in range(3):
        clock = time.perf_counter()
        found = method(C, k)
        seconds.append(time.perf_counter() - clock)
    return found, min(seconds)


def show_optima(folder: Path) -> list[str]:
    """Print values and seconds beside the published ones; return what is not reached."""
    table = Table(title="max xᵀCx, ‖x‖ = 1, at most k non-zeros", title_justify="left")
    for head in ("matrix", "n", "k", "published", "SparsePCA", "ms", "truncated power", "ms", "GPower", "ms", "bound"):
        table.add_column(head, justify="left" if head == "matrix" else "right", no_wrap=True)
    missed, (chosen, absent) = [], published.instances(folder)
    for each in chosen:
        row = [each.name, str(len(each.C)), str(each.k), each.printed]
        for method in (searched, truncated_power, gpower):
            x, seconds = timed(method, each.C, each.k)
            value = float(x @ each.C @ x)
            row += [f"{value:.5f}", f"{1e3 * seconds:.1f}"]
            if method is searched and (not each.is_reached(value) or np.count_nonzero(x) > each.k):
                missed.append(f"{each.name} k = {each.k}")
        bound = cp.SparsePCA(n_nonzero=each.k, random_state=0).fit(covariance=each.C).upper_bound_[0]
        table.add_row(*row, f"{bound:.4f}")
    console.print(table)
    for sentence in absent:
        console.print(f"left out: {sentence}")
    return missed


def data(folder: Path | None) -> Iterator[tuple[str, Vector, int]]:
    """Yield name, X and the loadings of a component."""
    yield "digits, 1797 × 64, 10 loadings", load_digits().data, 10
    genes, _, _ = make_biclusters((150, 1000), n_clusters=10, noise=20, minval=10, maxval=60, random_state=0)
    yield "genes by make_biclusters, 150 × 1000, 50 loadings", genes, 50
    if folder is None:
        console.print("left out: MNIST and news words, COUNTERPOISE_DATA is not set")
        return
    with np.load(folder / "mnist5000" / "mnist5000.npz") as stored:
        yield "MNIST, 5000 × 784, 30 loadings", stored["X"] / 255.0, 30
    with np.load(folder / "news20" / "news20_counts_csr.npz", allow_pickle=True) as stored:
        counts = sp.csr_matrix((stored["data"], stored["indices"], stored["indptr"]), shape=stored["shape"])
    words = np.sort(np.argsort(-np.bincount(counts.indices, minlength=counts.shape[1]), kind="stable")[:1000])
    chosen = np.sort(np.random.default_rng(0).choice(counts.shape[0], 4000, replace=False))
    rows = np.log1p(np.minimum(counts[chosen][:, words].toarray(), 10.0))
    rows *= np.log(len(rows) / np.maximum((rows > 0).sum(axis=0), 1))
    yield (
        "news, tf-idf, 4000 × 1000 words, 10 loadings",
        rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-9)[:, None],
        10,
    )


def rows(X: Vector, s: int, count: int = 10) -> Iterator[shared.Row]:
    """Yield all methods on a data set."""

    def ours(**options: Any) -> Vector:
        found: Vector = cp.SparsePCA(count, s, random_state=0, **options).fit(X).components_
        return found

    ours()  # may compile
    yield shared.timed("SparsePCA", ours)
    yield shared.timed("SparsePCA, work=1, backfit=2", lambda: ours(work=1, backfit=2))
    yield shared.timed("SparsePCA, backfit=40", lambda: ours(backfit=40))
    yield shared.timed("truncated power, Schur", lambda: shared.one_by_one(X, s, count, truncated_power, shared.schur))
    yield shared.timed("GPower ℓ0, Schur", lambda: shared.one_by_one(X, s, count, gpower, shared.schur))
    fits = []
    for alpha in ALPHAS:
        model = ScikitSparsePCA(count, alpha=alpha, method="cd", tol=1e-3, max_iter=100, random_state=0)
        fits.append(shared.timed(f"{alpha:g}", lambda model=model: model.fit(X).components_))  # type: ignore[misc]
    cuts = [row._replace(components=shared.cut(row.components, s)) for row in fits]
    best = max(cuts, key=lambda row: shared.adjusted_variance(X, row.components))
    together = sum(row.seconds for row in fits)
    yield best._replace(name=f"scikit-learn, cut, α={best.name} (all α: {together:.2f} s)")
    try:
        decomposition = importlib.import_module("abess.decomposition")
    except ImportError:
        console.print("left out: abess is not installed")
        return
    # A row for each size up to s, a column for each component: 1 where a size is tried.
    tried = np.zeros((s, count))
    tried[-1] = 1.0
    peer = decomposition.SparsePCA(support_size=tried)

    def by_abess() -> Any:
        if len(X) >= X.shape[1]:
            return shared.cut(peer.fit(X, number=count).coef_.T, s)
        # From fewer samples than features it returns vectors without zeros; a definite covariance serves it better.
        C = np.cov(X, rowvar=False)
        return shared.cut(peer.fit(Sigma=C + 1e-6 * np.diag(C).mean() * np.eye(len(C)), number=count).coef_.T, s)

    yield shared.timed("abess", by_abess)


def non_negative(X: Vector, s: int, count: int = 10) -> Iterator[shared.Row]:
    """Yield non-negative components by default and by EM, in turns so that both meet the same load."""

    def ours() -> Vector:
        found: Vector = cp.NonnegativeSparsePCA(count, s, random_state=0).fit(X).components_
        return found

    def by_em(deflate: Any) -> Callable[[], Vector]:
        return lambda: shared.one_by_one(X, s, count, shared.expectation_maximisation, deflate)

    methods = {
        "NonnegativeSparsePCA": ours,
        "EM as nsprcomp, 5 starts": by_em(shared.orthogonal_projection),
        "EM, 5 starts, Schur": by_em(shared.schur),
    }
    for method in methods.values():
        method()
    found = [[shared.timed(name, method) for name, method in methods.items()] for _ in range(5)]
    for each in zip(*found, strict=True):
        yield min(each, key=lambda row: row.seconds)


def main() -> None:
    """Print the tables; fail if a published value is not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["optima", "data", "em"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of peers that reach their iteration limits
    folder = sets.data_folder()
    missed = []
    if "optima" in options.parts:
        missed = show_optima(folder) if folder is not None else ["COUNTERPOISE_DATA is not set"]
    if "em" in options.parts:
        X = load_digits().data
        shared.show("10 non-negative components of digits, 10 loadings", X, non_negative(X, 10))
    if "data" in options.parts:
        for name, X, s in data(folder):
            shared.show(f"10 components of {name}", X, rows(X, s))
    if missed:
        sys.exit(f"not reached: {', '.join(missed)}")


if __name__ == "__main__":
    main()

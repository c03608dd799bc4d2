"""One non-negative sparse component of word counts: value, seconds, certificate and memory, against peers.

The counts are simulated: documents mix a few of many topics, whose words follow Zipf's law. They are used as counts,
and as tf-idf with rows of length 1, where frequent words no longer dominate. All methods have the same number of
non-zeros, are scored by ½‖Ax‖² and certified by the same function. Timing starts with the sparse columns in memory and
the kernels compiled; memory is the peak in addition to these columns, relative to their size.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table
from scipy.sparse.linalg import svds

sys.path.insert(0, str(Path(__file__).parent / "nnspca"))
from benchmark_utils.power import power_iterations, truncate

import counterpoise as cp
from counterpoise.problems import NNSPCA

console = Console(highlight=False, width=120)
# How unevenly a topic takes up words, and a document topics: shapes of a gamma and a Dirichlet distribution.
WORDS_OF_TOPIC, TOPICS_OF_DOCUMENT = 0.3, 0.1
# The documents that kernels are compiled on: enough that no Gram matrix is kept.
FEW = 2000


def topic_counts(documents: int, words: int, topics: int, tokens: int, seed: int = 0) -> Any:
    """Return documents × words in sparse rows; the lengths of documents are lognormal around ``tokens``."""
    rng = np.random.default_rng(seed)
    zipf = 1.0 / (np.arange(words) + 2.7)
    shares = rng.dirichlet(np.full(topics, TOPICS_OF_DOCUMENT), size=documents)
    lengths = np.maximum(rng.lognormal(np.log(tokens) - 0.32, 0.8, documents), 10.0).astype(np.int64)
    drawn = rng.multinomial(lengths, shares)
    rows, columns = [], []
    for topic in range(topics):
        reach = np.cumsum(zipf * rng.gamma(WORDS_OF_TOPIC, size=words))
        rows.append(np.repeat(np.arange(documents, dtype=np.int32), drawn[:, topic]))
        columns.append(np.searchsorted(reach, reach[-1] * rng.random(len(rows[-1]))).astype(np.int32))
    places = np.concatenate(rows), np.concatenate(columns)
    counts = sp.csr_array((np.ones(len(places[0])), places), shape=(documents, words))
    counts.sum_duplicates()
    return counts


def tf_idf(counts: Any) -> Any:
    """Return log(1 + count)·log(documents/documents with the word), in rows of length 1."""
    documents = counts.shape[0]
    A = counts.copy()
    found = np.bincount(A.indices, minlength=A.shape[1])
    A.data = np.log1p(A.data) * np.log(documents / np.maximum(found, 1))[A.indices]
    lengths = np.sqrt(A.power(2).sum(axis=1))
    return sp.csr_array(sp.diags_array(1.0 / np.maximum(lengths, 1e-300)) @ A)


def exact_lam(A: Any) -> float:
    """Return 2σ₁² ≥ 2‖AᵀAx‖: λ > √2‖AᵀAx‖∞ makes every CWS point s-sparse."""
    return 2.0 * float(svds(A, k=1, v0=np.ones(min(A.shape), dtype=A.dtype), return_singular_vectors=False)[0]) ** 2


def truncated_power(A: Any, s: int) -> Any:
    """Truncated power method (Yuan and Zhang 2013), clipped at 0, the number of entries halved down to s."""
    longest = int(np.argmax(A.power(2).sum(axis=0)))
    x, size = truncate(A.T @ A[:, [longest]].toarray()[:, 0], A.shape[1]), A.shape[1]
    while size > s:
        size = max(size // 2, s)
        x = power_iterations(A, truncate(x, size), size)
    return x


def cut_eigenvector(A: Any, s: int) -> Any:
    """Return the leading right singular vector, of the sign of its longer part, cut to its s largest entries."""
    v = svds(A, k=1, v0=np.ones(min(A.shape), dtype=A.dtype))[2][0]
    return truncate(v if np.linalg.norm(np.maximum(v, 0.0)) >= np.linalg.norm(np.minimum(v, 0.0)) else -v, s)


def methods(A: Any, s: int, lam: float) -> dict[str, Callable[[], tuple[Any, str]]]:
    """Return what runs on the columns and gives a point, and what it says of it."""

    def ours(method: str) -> Callable[[], tuple[Any, str]]:
        def run() -> tuple[Any, str]:
            result = cp.minimize(NNSPCA(A, s, lam), method=method)
            return result.x, result.status.name.lower().replace("_", "-")

        return run

    return {
        "BCD-g": ours("bcd-g"),
        "swap": ours("swap"),
        "truncated power": lambda: (truncated_power(A, s), ""),
        "eigenvector, cut": lambda: (cut_eigenvector(A, s), ""),
        "eigenvector, power steps": lambda: (power_iterations(A, cut_eigenvector(A, s), s), ""),
    }


def show(kind: str, A: Any, s: int, lam: float) -> None:
    """Print a table of methods."""
    size = A.data.nbytes + A.indices.nbytes + A.indptr.nbytes
    title = f"{kind}, {A.shape[0]:,} × {A.shape[1]:,}, {A.nnz:,} entries, {A.dtype}, {size / 1e6:.0f} MB, λ = {lam:.3g}"
    table = Table(title=title, title_justify="left")
    for head in ("method", "½‖Ax‖²", "non-zeros", "says", "a pair gains", "seconds", "memory"):
        table.add_column(head, justify="left" if head in ("method", "says") else "right")
    for run in methods(A[:FEW], s, lam).values():
        run()  # compile
    problem = NNSPCA(A, s, lam)
    cp.certify(problem, np.eye(1, problem.n)[0])
    for name, run in methods(A, s, lam).items():
        clock = time.perf_counter()
        x, says = run()
        seconds = time.perf_counter() - clock
        tracemalloc.start()  # apart from the clock, which it slows down
        run()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        clock = time.perf_counter()
        x = problem.project(x.astype(np.float64))
        certificate = cp.certify(problem, x)
        looked = time.perf_counter() - clock
        value = -problem.f.value(x)
        gains = f"{100.0 * certificate.cws_gap / value:.2g} %"
        table.add_row(
            name, f"{value:.7g}", f"{(x > 0).sum()}", says, gains, f"{seconds:.2f}", f"{100.0 * peak / size:.0f} %"
        )
    console.print(table)
    console.print(f"a certificate against all columns: {looked:.2f} s")


def main() -> None:
    """Print a table for each precision."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--words", type=int, default=100_000)
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("-s", type=int, default=30)
    parser.add_argument("--lam", type=float, help="by default one that makes every certified point s-sparse")
    parser.add_argument("--precisions", nargs="+", default=["float64", "float32"])
    options = parser.parse_args()
    counts = topic_counts(options.documents, options.words, options.topics, options.tokens)
    for kind, weighted in (("counts", counts), ("tf-idf", tf_idf(counts))):
        for precision in options.precisions:
            A = sp.csc_array(weighted.astype(precision))
            A.sort_indices()
            show(kind, A, options.s, exact_lam(A) if options.lam is None else options.lam)


if __name__ == "__main__":
    main()

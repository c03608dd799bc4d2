"""Ten non-negative sparse components of digits and MNIST: adjusted variance and seconds, against peers.

All methods have the same number of non-zeros and are scored by the same function, the QR-adjusted variance of their
components on the centred data. Peers that need a covariance are timed including its computation. MNIST is read from the
folder named by COUNTERPOISE_DATA.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sl
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF, SparsePCA

sys.path.insert(0, str(Path(__file__).parent / "nnspca"))
from benchmark_utils.power import truncate

import counterpoise as cp
from counterpoise.estimators.pca import NonnegativeSparsePCA
from counterpoise.experiments import sets

console = Console(highlight=False, width=120)
# Penalties that SparsePCA may choose from; the best of them is shown, with the seconds of its fit alone.
ALPHAS = (1.0, 3.0, 10.0)
# Random starts of EM, as nsprcomp's nrestart.
RESTARTS = 5


class Row(NamedTuple):
    """A method's components, one a row, and how long they took."""

    name: str
    components: Any
    seconds: float


def adjusted_variance(X: Any, components: Any) -> float:
    """Return ΣT_kk²/(m − 1) of the scores (X − mean)Vᵀ = QT, in the order by size, the same for all."""
    T = sl.qr((X - X.mean(axis=0)) @ components.T, mode="r", pivoting=True)[0]
    return float(np.sum(np.diag(T) ** 2)) / (len(X) - 1)


def cut(components: Any, s: int) -> Any:
    """Return the s largest entries by size of every component, at length 1."""
    out = np.zeros_like(components)
    for row, loadings in zip(out, components, strict=True):
        held = np.argsort(-np.abs(loadings), kind="stable")[:s]
        row[held] = loadings[held]
        row /= max(float(np.linalg.norm(row)), 1e-300)
    return out


def non_negative(components: Any) -> Any:
    """Return the positive part of every component, or of its negative if that is longer."""
    parts = np.maximum(components, 0.0), np.maximum(-components, 0.0)
    longer = np.linalg.norm(parts[0], axis=1) >= np.linalg.norm(parts[1], axis=1)
    return np.where(longer[:, None], *parts)


# Deflations of Mackey (2008); V are the components so far, one a column, the last of them new.


def hotelling(C: Any, current: Any, V: Any) -> Any:
    """Return C − (vᵀCv)vvᵀ."""
    v = V[:, -1]
    return current - (v @ current @ v) * np.outer(v, v)


def projection(C: Any, current: Any, V: Any) -> Any:
    """Return (I − vvᵀ)C(I − vvᵀ)."""
    v = V[:, -1]
    left = current - np.outer(v, v @ current)
    return left - np.outer(left @ v, v)


def orthogonal_projection(C: Any, current: Any, V: Any) -> Any:
    """Return (I − QQᵀ)C(I − QQᵀ), Q a basis of all components: orthogonalised projection, as in nsprcomp."""
    Q = np.linalg.qr(V)[0]
    left = C - Q @ (Q.T @ C)
    return left - (left @ Q) @ Q.T


def schur(C: Any, current: Any, V: Any) -> Any:
    """Return C − CvvᵀC/(vᵀCv)."""
    v = current @ V[:, -1]
    return current - np.outer(v, v) / (V[:, -1] @ v)


def one_by_one(X: Any, s: int, count: int, solve: Callable[[Any, int], Any], deflate: Any) -> Any:
    """Return components found one after the other on the deflated covariance."""
    centred = X - X.mean(axis=0)
    C = centred.T @ centred / (len(X) - 1)
    current, V = C, np.zeros((len(C), 0))
    for _ in range(count):
        V = np.column_stack([V, solve(current, s)])
        current = deflate(C, current, V)
        current = 0.5 * (current + current.T)
    return V.T


# Peers for one component of a covariance.


def power_iterations(C: Any, x: Any, s: int) -> Any:
    """Iterate x⁺ = truncate(Cx, s) until x rests."""
    for _ in range(1000):
        new = truncate(C @ x, s)
        moved = float(np.abs(new - x).max())
        x = new
        if moved <= 1e-8:
            break
    return x


def truncated_power(C: Any, s: int) -> Any:
    """Truncated power method (Yuan and Zhang 2013), clipped at 0, the number of entries halved down to s."""
    x, size = truncate(C[np.argmax(np.diag(C))], len(C)), len(C)
    while size > s:
        size = max(size // 2, s)
        x = power_iterations(C, truncate(x, size), size)
    return x


def expectation_maximisation(C: Any, s: int) -> Any:
    """EM (Sigg and Buhmann 2008), best of random starts; for one component its steps are truncated power steps."""
    rng = np.random.default_rng(0)
    starts = (truncate(np.abs(rng.standard_normal(len(C))), len(C)) for _ in range(RESTARTS))
    return max((power_iterations(C, x, s) for x in starts), key=lambda x: float(x @ C @ x))


def search(C: Any, s: int) -> Any:
    """Search of this package, on a covariance that need not be semidefinite."""
    lam = 2.0 * float(np.linalg.norm(C, axis=1).max())
    h = cp.Bounds(0.0, np.inf) + cp.Linear(lam)
    problem = cp.Problem(cp.Quadratic(-C), h, cp.TopSum(s, lam), cp.Sphere())
    return cp.minimize(problem, method="search", work=16).x


# Tables.


def timed(name: str, fit: Callable[[], Any]) -> Row:
    """Run a fit that was warmed up; a short one three times, of which the quickest counts.

    Seconds are the processor's, which other programs disturb less, over all threads: BLAS should have one.
    """
    seconds: list[float] = []
    while not seconds or (sum(seconds) < 5.0 and len(seconds) < 3):
        clock = time.process_time()
        components = fit()
        seconds.append(time.process_time() - clock)
    return Row(name, components, min(seconds))


def rows(X: Any, s: int, count: int = 10) -> Iterator[Row]:
    """Yield all methods on a data set."""

    def ours(**options: Any) -> Any:
        return NonnegativeSparsePCA(count, s, random_state=0, **options).fit(X).components_

    NonnegativeSparsePCA(2, s, backfit=2, random_state=0).fit(X)  # compile
    yield timed("NonnegativeSparsePCA", ours)
    yield timed("NonnegativeSparsePCA, backfit=0", lambda: ours(backfit=0))
    yield timed(
        "EM as nsprcomp, 5 starts", lambda: one_by_one(X, s, count, expectation_maximisation, orthogonal_projection)
    )
    yield timed("EM, 5 starts, Schur", lambda: one_by_one(X, s, count, expectation_maximisation, schur))
    yield timed("truncated power, Schur", lambda: one_by_one(X, s, count, truncated_power, schur))
    yield timed("NMF, cut", lambda: cut(NMF(count, init="nndsvda", random_state=0).fit(X).components_, s))
    fits = []
    for alpha in ALPHAS:
        model = SparsePCA(count, alpha=alpha, method="cd", tol=1e-3, max_iter=100, random_state=0)
        fits.append(timed(f"{alpha:g}", lambda model=model: model.fit(X).components_))  # type: ignore[misc]
    for name, make in (("≥ 0", non_negative), ("both signs", np.asarray)):
        cuts = [row._replace(components=cut(make(row.components), s)) for row in fits]
        best = max(cuts, key=lambda row: adjusted_variance(X, row.components))
        yield best._replace(name=f"SparsePCA, cut, {name}, α={best.name}")


def deflations(X: Any, s: int, count: int = 10) -> Iterator[Row]:
    """Yield the same search with other deflations, and the Schur complement with backfitting."""
    for deflate in (hotelling, projection, orthogonal_projection, schur):

        def fit(deflate: Any = deflate) -> Any:
            return one_by_one(X, s, count, search, deflate)

        yield timed(f"search, {deflate.__name__.replace('_', ' ')}", fit)
    for backfit in (0, 10, 40, 160):

        def ours(backfit: int = backfit) -> Any:
            return NonnegativeSparsePCA(count, s, backfit=backfit, random_state=0).fit(X).components_

        yield timed(f"NonnegativeSparsePCA, backfit={backfit}", ours)


def show(title: str, X: Any, found: Iterator[Row]) -> None:
    """Print a table of methods."""
    table = Table(title=title, title_justify="left")
    for column in ("method", "adjusted variance", "share", "most non-zeros", "least loading", "processor s"):
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    total = float(X.var(axis=0, ddof=1).sum())
    for name, V, seconds in found:
        explained = adjusted_variance(X, V)
        numbers = f"{explained:.4f}", f"{100.0 * explained / total:.2f} %", f"{(V != 0).sum(axis=1).max()}"
        table.add_row(name, *numbers, f"{V.min():.2f}", f"{seconds:.3f}")
    console.print(table)


def data() -> Iterator[tuple[str, Any, int]]:
    """Yield name, X and the non-zeros of a component."""
    yield "digits, 1797 × 64, 10 non-zeros", load_digits().data, 10
    folder = sets.data_folder()
    file = None if folder is None else folder / "mnist5000" / "mnist5000.npz"
    if file is None or not file.exists():
        console.print("left out: MNIST is not in COUNTERPOISE_DATA")
        return
    with np.load(file) as stored:
        yield "MNIST, 5000 × 784, 30 non-zeros", stored["X"] / 255.0, 30


def main() -> None:
    """Print both tables of every data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["peers", "deflations"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of peers that reach their iteration limits
    for name, X, s in data():
        if "peers" in options.parts:
            show(f"10 components of {name}: against the peers", X, rows(X, s))
        if "deflations" in options.parts:
            show(f"10 components of {name}: deflations", X, deflations(X, s))


if __name__ == "__main__":
    main()

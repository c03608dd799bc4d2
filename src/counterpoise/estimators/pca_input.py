"""The input of SparsePCA: data, implicitly centred if sparse, or a covariance; numbers of loadings; options."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import validate_data

from counterpoise.checks import (
    LARGEST_SQUARE,
    SMALLEST,
    SMALLEST_SQUARE,
    choice,
    flag,
    is_sparse,
    refuse_extreme,
    whole_number,
)
from counterpoise.estimators.covariance import EXHAUSTED, KINDS, Indices, Matrix
from counterpoise.estimators.options import RunOptions, refuse_non_finite, refuse_unusable
from counterpoise.supervision import supervised

METHODS = ("search", "swap", "bcd-g", "exact")
# Starts per component before backfitting, which makes up for the rest: 8 starts end no better on digits and MNIST,
# and 2 find less variance in other data, such as breast cancer and stock returns.
FEW_STARTS = 4
# Default backfitting visits LOOKS components in total, but takes at least LEAST_ROUNDS rounds; twice as many with more
# than WIDE columns. On digits this is as fast as EM with five starts.
LOOKS, LEAST_ROUNDS, WIDE = 60, 5, 256
# Default number of non-zeros per component.
DEFAULT_NONZERO = 10
# Asymmetry and negative eigenvalues of a given covariance up to this share of its largest entry are rounding error.
ROUNDING = 1e-8
# A variance in a given covariance of at most this share of the largest is rounding error of a constant column.
CONSTANT = 1e-24


class Source:
    """A source of covariances: the variances of all features, blocks of C, and products with C."""

    # The name of the data in error messages.
    name = "X"
    # The number of samples, if known, and of features.
    m: int | None = None
    n: int
    # What is subtracted from each column of the data, what it is then divided by, and the diagonal of C.
    mean: Matrix
    scale: Matrix
    variance: Matrix

    @property
    def varying(self) -> Indices:
        """Features with a variance above rounding."""
        return np.flatnonzero(self.variance)

    def covariance(self, columns: Indices) -> Matrix:
        """Return C on some columns."""
        raise NotImplementedError

    def products(self, columns: Indices, V: Matrix) -> Matrix:
        """Return C[:, columns]·V on all features."""
        raise NotImplementedError

    def root(self, columns: Indices) -> Matrix | None:
        """Return R with RᵀR = C on some columns if it is available and has fewer rows than columns, otherwise None."""

    @supervised
    def pool(self, count: int, n_components: int, seed: int) -> Indices:
        """Return the initial columns: half by variance, half by their norm in the leading eigenvectors of C.

        The latter, found by subspace iteration, adds columns that vary little individually, but jointly with many.
        """
        rng, all_columns = np.random.default_rng(seed), np.arange(self.n)
        basis = rng.standard_normal((self.n, min(n_components + 10, self.n)))
        for _ in range(3):
            basis = np.linalg.qr(self.products(all_columns, basis))[0]
        products = self.products(all_columns, basis)
        leading = np.linalg.eigh(basis.T @ products)[1][:, -n_components:]
        parts = np.linalg.norm(products @ leading, axis=1)
        chosen = [np.argsort(-by, kind="stable")[: count // 2] for by in (self.variance, parts)]
        return np.intersect1d(np.concatenate(chosen), self.varying)


class Centred(Source):
    """The covariance RᵀR of R = (X − 1μᵀ)/√(n_samples − 1), of which only products are formed if X is sparse.

    ``standardize`` divides columns by their standard deviation, so that C holds correlations.
    """

    def __init__(self, X: Any, standardize: bool = False) -> None:
        self.sparse = bool(is_sparse(X))
        m, self.n = X.shape
        self.m: int = m
        eps = float(np.finfo(np.float64).eps)
        if self.sparse:
            self.X = X.astype(np.float64).tocsc()
            self.mean, variance = (np.asarray(part, dtype=np.float64) for part in mean_variance_axis(self.X, axis=0))
            # Subtracting n_samples·μμᵀ leaves an error of ε times the mean square of a column.
            noise = 64.0 * eps * (variance + self.mean**2)
        else:
            self.mean = X.mean(axis=0, dtype=np.float64)
            self.X = X - self.mean
            variance = np.einsum("ij,ij->j", self.X, self.X) / self.m
            noise = (16.0 * eps * self.mean) ** 2
        self.variance = np.where(variance > noise, variance * (self.m / (self.m - 1.0)), 0.0)
        refuse_extreme(self.variance, "the variances of X", LARGEST_SQUARE, SMALLEST_SQUARE)
        self.scale, self.variance = _scales(self.variance, standardize)
        # The mean of the columns of X as they are stored: dense ones are centred.
        self._centre = self.mean / self.scale if self.sparse else np.zeros(self.n)
        if standardize:
            self.X = (self.X @ sp.diags_array(1.0 / self.scale)).tocsc() if self.sparse else self.X / self.scale

    @supervised
    def covariance(self, columns: Indices) -> Matrix:
        """Return C on some columns."""
        X, mean = self._columns(columns), self._centre[columns]
        products = X.T @ X
        C = (products.toarray() if self.sparse else products) - self.m * np.outer(mean, mean)
        C /= self.m - 1.0
        return np.asarray(0.5 * (C + C.T))

    def root(self, columns: Indices) -> Matrix | None:
        """Return the centred data over √(n_samples − 1) if dense with fewer rows than columns, otherwise None."""
        if self.sparse or self.m >= len(columns):
            return None
        return np.asarray(self._columns(columns) / math.sqrt(self.m - 1.0))

    def products(self, columns: Indices, V: Matrix) -> Matrix:
        """Return C[:, columns]·V on all features, computed from the scores of V."""
        scores = np.asarray(self._columns(columns) @ V) - self._centre[columns] @ V
        return np.asarray((self.X.T @ scores - np.outer(self._centre, scores.sum(axis=0))) / (self.m - 1.0))

    def _columns(self, columns: Indices) -> Any:
        # Avoid a copy when all columns are selected.
        return self.X[:, columns] if len(columns) < self.n else self.X


class Given(Source):
    """A given covariance matrix, or with ``standardize`` its correlations."""

    name = "covariance"

    def __init__(self, C: Any, standardize: bool = False) -> None:
        C = np.asarray(C, dtype=np.float64)
        if C.ndim != 2 or C.shape[0] != C.shape[1]:
            raise ValueError(
                f"covariance has shape {C.shape}; it must be square, a row and a column for every feature."
            )
        refuse_extreme(C, "covariance", LARGEST_SQUARE, SMALLEST_SQUARE)
        self.n, self.mean = len(C), np.zeros(len(C))
        variance = np.diag(C).copy()
        variance[np.abs(variance) <= CONSTANT * variance.max()] = 0.0
        self.scale, self.variance = _scales(variance, standardize)
        units = np.outer(self.scale, self.scale)
        _refuse_asymmetric(C, units)
        self.C = 0.5 * (C + C.T) / units
        np.fill_diagonal(self.C, self.variance)
        self.C = _semidefinite(self.C)
        self.variance = np.where(self.variance == 0.0, 0.0, np.diag(self.C))

    def covariance(self, columns: Indices) -> Matrix:
        """Return C on some columns."""
        return np.asarray(self.C if len(columns) == self.n else self.C[np.ix_(columns, columns)])

    def products(self, columns: Indices, V: Matrix) -> Matrix:
        """Return C[:, columns]·V."""
        return np.asarray((self.C if len(columns) == self.n else self.C[:, columns]) @ V)


def _scales(variance: Matrix, standardize: bool) -> tuple[Matrix, Matrix]:
    """Return the divisors of the columns and their variances after division."""
    if not standardize:
        return np.ones(len(variance)), variance
    varies = variance > 0.0
    return np.sqrt(np.where(varies, variance, 1.0)), np.where(varies, 1.0, variance)


def _refuse_asymmetric(C: Matrix, units: Matrix) -> None:
    """Refuse C if its entries, divided by ``units``, are asymmetric by more than rounding error."""
    skew = np.abs(C - C.T) / units
    if float(skew.max()) > ROUNDING * float((np.abs(C) / units).max()):
        i, j = sorted(int(k) for k in np.unravel_index(np.argmax(skew), skew.shape))
        raise ValueError(
            f"covariance is not symmetric: entry ({i}, {j}) is {C[i, j]:g}, but ({j}, {i}) is {C[j, i]:g}; "
            "both must be the covariance of the same two features."
        )


@supervised
def _semidefinite(C: Matrix) -> Matrix:
    """Return C with negative eigenvalues set to 0 if they are rounding error; refuse larger ones."""
    size = float(np.abs(C).max()) * len(C)
    # With a small shift the factorisation also succeeds if C is only semidefinite.
    if size == 0.0 or sl.lapack.dpotrf(C + EXHAUSTED * size * np.eye(len(C)), overwrite_a=True)[1] == 0:
        return C
    values, vectors = np.linalg.eigh(C)
    if values[0] < -ROUNDING * size:
        raise ValueError(
            f"covariance is not positive semidefinite: its smallest eigenvalue is {values[0]:.3g}, so it is "
            "not a covariance matrix; if it was estimated pairwise, set its negative eigenvalues to 0 first."
        )
    half = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(half @ half.T)


def source_of(estimator: Any, X: Any, covariance: Any) -> tuple[Source, Any]:
    """Return the source of covariances, either data or a given matrix, and its dtype."""
    if (X is None) == (covariance is None):
        given = "X and covariance are both" if X is not None else "Neither X nor covariance is"
        raise ValueError(f"{given} given; give one of them.")
    standardize = flag(estimator.standardize, "standardize")
    if covariance is None:
        values = validated(estimator, X, reset=True)
        refuse_extreme(values.data if is_sparse(values) else values, "X", smallest=SMALLEST)
        data: Source = Centred(values, standardize)
    else:
        refuse_unusable(covariance=covariance)
        if is_sparse(covariance):
            raise TypeError("covariance is a sparse matrix; give a dense one, covariance.toarray().")
        values = validate_data(estimator, covariance, dtype=[np.float64, np.float32], ensure_all_finite=False)
        refuse_non_finite(values, "covariance")
        data = Given(values, standardize)
    if not len(data.varying):
        over = "" if data.m is None else f" over {data.m} samples"
        raise ValueError(
            f"{data.name} is constant: none of its {data.n} columns varies{over}; principal components need variance."
        )
    return data, values.dtype


def validated(estimator: Any, X: Any, reset: bool) -> Any:
    """Return X in single or double precision, dense, CSR or CSC; refuse masked, complex and non-finite entries."""
    refuse_unusable(X=X)
    X = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse=("csr", "csc"),
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        ensure_min_samples=2 if reset else 1,
    )
    refuse_non_finite(X, "X")
    return X


def sizes_of(estimator: Any, data: Source) -> list[int]:
    """Return the maximum number of non-zeros of each component."""
    count = whole_number(estimator.n_components, "n_components", 1)
    most, samples = (data.n, "") if data.m is None else (min(data.m, data.n), f"{data.m} samples and ")
    if count > most:
        raise ValueError(
            f"n_components is {count}, but {data.name} has {samples}{_features(data.n)}; it must be at most {most}."
        )
    if estimator.n_nonzero is None:
        return [min(DEFAULT_NONZERO, data.n)] * count
    if np.ndim(estimator.n_nonzero) == 0:
        return [size_of(estimator.n_nonzero, "n_nonzero", data)] * count
    sizes = [size_of(size, f"n_nonzero[{k}]", data) for k, size in enumerate(np.ravel(estimator.n_nonzero))]
    if len(sizes) != count:
        raise ValueError(f"n_nonzero has {len(sizes)} entries; give one number, or one for each of {count} components.")
    return sizes


def size_of(value: Any, name: str, data: Source) -> int:
    """Check a number of loadings, and return it, or the number of features if that is smaller."""
    return min(whole_number(value, name, 1), data.n)


def _features(count: int) -> str:
    return "1 feature(s)" if count == 1 else f"{count} features"  # scikit-learn looks for these words


class Plan(NamedTuple):
    """The options of a fit."""

    sizes: list[int]
    run: RunOptions
    backfit: int
    signed: bool
    deflation: str

    @property
    def joint(self) -> bool:
        """Whether components are backfitted, which needs several of them and the Schur complement."""
        return self.backfit > 0 and len(self.sizes) > 1 and self.deflation == "schur"

    @property
    def by_size(self) -> bool:
        """Whether components are ordered by adjusted variance; if sizes differ, the user's order is kept."""
        return self.joint and len(set(self.sizes)) == 1

    @property
    def is_quick(self) -> bool:
        """Whether a few descents suffice for each component, because backfitting improves on them."""
        return self.joint and self.run.method == "search" and self.run.max_time is None


def plan_of(estimator: Any, data: Source) -> Plan:
    """Return the checked options of an estimator."""
    sizes = sizes_of(estimator, data)
    default = max(LEAST_ROUNDS, LOOKS // len(sizes)) * (2 if data.n > WIDE else 1)
    backfit = default if estimator.backfit is None else whole_number(estimator.backfit, "backfit", 0)
    signed, deflation = not flag(estimator.nonnegative, "nonnegative"), choice(estimator.deflation, "deflation", KINDS)
    plan = Plan(sizes, RunOptions.of(estimator, METHODS), backfit, signed, deflation)
    if plan.is_quick and plan.run.work is None:
        plan = plan._replace(run=plan.run._replace(work=FEW_STARTS))
    return plan

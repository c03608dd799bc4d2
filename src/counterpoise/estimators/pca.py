"""Non-negative sparse principal components, for scikit-learn.

The first component is max vᵀCv over v ≥ 0, ‖v‖ = 1 with at most s non-zeros, C the covariance of X: the paper's
NNSPCA in the exact regime. The others are the same problem on what the components before have left of C.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg as sl
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from counterpoise.certificates import certify
from counterpoise.checks import (
    LARGEST_SQUARE,
    SMALLEST,
    SMALLEST_SQUARE,
    choice,
    is_sparse,
    refuse_extreme,
    whole_number,
    worker_count,
)
from counterpoise.clock import paused, working_seconds
from counterpoise.estimators.callbacks import FRAMES, CallbackSupport, Tasks, tell, with_callbacks
from counterpoise.estimators.options import drawn_seed, refuse_unusable, time_limit, warn_if_interrupted
from counterpoise.interrupts import noting_interrupts
from counterpoise.kernels import swap_arc
from counterpoise.problem import Problem, Result, Status
from counterpoise.solvers import minimize
from counterpoise.solvers.run import CLAIMS, Progress
from counterpoise.solvers.sparse_arc import MOST_SWAPS, TOLERANCE, NegativeGram
from counterpoise.supervision import supervised
from counterpoise.terms.concave import TopSum
from counterpoise.terms.constraint import Sphere
from counterpoise.terms.separable import Bounds, Linear

Matrix = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

METHODS = ("search", "swap", "bcd-g", "exact")
# Starts and children of a search, a component; on digits and MNIST 8 find what 512 do.
DEFAULT_WORK = 8
# Non-zeros of a component if the user does not say.
DEFAULT_NONZERO = 10
# Up to so many columns that vary, their covariance is formed whole; beyond it that of a pool of so many.
WHOLE, POOLED = 2000, 1000
# How many columns a component may ask into the pool at a time, how often, and what each must gain.
ENTERING, PRICINGS, GAIN = 256, 20, 1e-9
# Less than this share of all variance is rounding.
EXHAUSTED = 1e-12
# A round that raises the total by less than this share of it has come to an end.
SETTLED = 1e-6
# The same for rounds that are still below the best total.
HOPELESS = 1e-4
# A total must rise by this share to count, or rounding would make a cycle.
RISES = 1e-10
# How many components a kick replaces at most, and among how many columns.
KICKED, FEW = 2, 256
# Share of the time that the components one after the other may take when they are fitted jointly afterwards, and what
# is kept for the certificates then.
FIRST_SHARE, LAST_SHARE = 0.5, 0.15
# Exchanges between two looks at the clock.
SLICE = 64
# Loadings closer than this are the same.
SAME = 1e-9


class NonnegativeSparsePCA(
    CallbackSupport,  # type: ignore[misc]
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    r"""Principal components with few loadings, none of them negative.

    Component k maximises vᵀC_k v over v ≥ 0, ‖v‖ = 1 with at most ``n_nonzero`` non-zeros. C₁ = C is the covariance of
    X and C_{k+1} = C_k − C_k v vᵀC_k/(vᵀC_k v) its Schur complement (Mackey 2008): the covariance of what a regression
    on the scores so far leaves of X. So vᵀC_k v is the variance that a component adds to those before.

    Sparse components correlate, and their variances must not be added. ``explained_variance_`` is therefore *adjusted*
    (Zou, Hastie and Tibshirani 2006): with the scores Z = (X − mean)Vᵀ = QR it is R_kk²/(n_samples − 1), the variance
    of a score that the scores before it do not explain. This is vᵀC_k v.

    Components found one after the other are not the best together. Backfitting takes each in turn, deflates C by all
    others, and exchanges loadings until none raises its variance; a change is kept if the total adjusted variance
    rises. Where no component rises any more, up to two are replaced at random and the rounds go on from there; the
    best total remains. If all components have the same ``n_nonzero`` they are ordered by adjusted variance: each is the
    one that adds most to those before it.

    Parameters
    ----------
    n_components : int
        At most min(n_samples, n_features), and at most the rank of X − mean.
    n_nonzero : int, or one a component, optional
        How many loadings may differ from 0. By default 10, or all features if they are fewer. With one a component the
        order of the components is that of ``n_nonzero``.
    method : {"search", "swap", "bcd-g", "exact"}
        Of :func:`counterpoise.minimize`, for each component in its turn. "exact" proves a single component, of few
        features.
    work : int, optional
        Of a search: starts and children a component, 8 if there is no ``max_time`` either.
    max_time : float, optional
        Seconds of a fit, all components together, after the covariance. Results then depend on the machine's speed.
    backfit : int
        Rounds of backfitting at most; a round looks at every component once. With more than 256 columns these rounds
        are among those of the largest variance, and as many may follow among all, without replacements. 0 keeps the
        components as found one after the other.
    random_state : int, RandomState or None
        The same int gives the same bits, for any ``n_jobs``, without ``max_time``.
    n_jobs : int, optional
        Workers of a search, by joblib.

    Attributes
    ----------
    components_ : array, n_components × n_features
        Rows ≥ 0 of length 1, in the precision of X.
    explained_variance_ : array of length n_components
        Adjusted, see above; its sum is the variance explained together.
    explained_variance_ratio_ : array of length n_components
        The same as shares of the total variance of X.
    mean_ : array of length n_features
    n_nonzero_ : array of length n_components
        What ``n_nonzero`` came to.
    results_ : list of Result
        How each component ended, with its status and ``cws_gap``, which speaks of the columns of the pool (see Notes).
        After backfitting a result is of the component given all others, otherwise given those before it;
        −2·objective is the variance that it adds to these. STATIONARY means that a pair would raise the component's
        own variance, but lower the total. Ctrl-C keeps the components found so far, with a warning, once there are
        ``n_components`` of them.
    n_iter_ : int
        Rounds of backfitting done.
    n_features_in_ : int
    feature_names_in_ : array of str
        If X has column names.

    Notes
    -----
    Columns that do not vary never have a loading. Sparse X is centred implicitly: only XᵀX and products with X are
    formed, (XᵀX − n_samples·μμᵀ)/(n_samples − 1). That subtraction costs digits in columns whose mean is far above
    their deviation; such columns belong into a dense array.

    Up to 2000 varying columns the covariance is formed whole. Beyond it that of a pool of at most 1000 is: the columns
    of the largest variance and those with the largest loadings in ordinary principal components. What is found on it is
    priced against all columns: the best exchange of a loading for a column outside, in closed form. Columns that would
    raise a component come into the pool, and the fit goes on until there is none.

    ``transform`` is a projection and no regression, so a row's scores do not depend on its batch.

    References
    ----------
    Mackey (2008), Deflation methods for sparse PCA. Zou, Hastie and Tibshirani (2006), Sparse principal component
    analysis.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.estimators.pca import NonnegativeSparsePCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 2)) @ np.array([[3, 3, 3, 0, 0, 0.0], [0, 0, 0, 1, 1, 0]])
    >>> X += 0.1 * rng.standard_normal((100, 6))
    >>> pca = NonnegativeSparsePCA(n_components=2, n_nonzero=[3, 2], random_state=0).fit(X)
    >>> pca.components_.round(1).tolist()
    [[0.6, 0.6, 0.6, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.7, 0.7, 0.0]]
    """

    def __init__(
        self,
        n_components: int = 1,
        n_nonzero: int | Sequence[int] | None = None,
        *,
        method: str = "search",
        work: int | None = None,
        max_time: float | None = None,
        backfit: int = 40,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero = n_nonzero
        self.method = method
        self.work = work
        self.max_time = max_time
        self.backfit = backfit
        self.random_state = random_state
        self.n_jobs = n_jobs

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> NonnegativeSparsePCA:
        """Find the components of X, an array, DataFrame or sparse matrix, n_samples × n_features."""
        given = X
        refuse_unusable("X", X)
        X = self._validated(X, reset=True)
        refuse_extreme(X.data if is_sparse(X) else X, "X", smallest=SMALLEST)
        sizes = self._sizes(*X.shape)
        plan = self._plan(sizes)
        data = _Centred(X)
        if not len(data.varying):
            raise ValueError(
                f"X is constant: none of its {X.shape[1]} columns varies over {X.shape[0]} samples; "
                "principal components need variance."
            )
        refuse_extreme(data.variance, "the variances of X", LARGEST_SQUARE, SMALLEST_SQUARE)
        tasks = Tasks.of_fit(self, len(sizes) + plan.joint, given, y)
        fit = _Fit(plan, tasks)
        with noting_interrupts() as fit.pressed:
            found = _fit(data, fit)
        warn_if_interrupted(found.results, 2 + FRAMES)
        self.mean_ = data.mean.astype(X.dtype)
        self.components_ = np.ascontiguousarray(found.V.T, dtype=X.dtype)
        self.n_nonzero_ = np.array(sizes)
        self.explained_variance_ = found.variances.astype(X.dtype)
        self.explained_variance_ratio_ = (found.variances / data.variance.sum()).astype(X.dtype)
        self.results_ = found.results
        self.n_iter_ = found.rounds
        tasks.finish(fitted=True)
        return self

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """Return the scores (X − mean_)·components_ᵀ; sparse X is not densified."""
        check_is_fitted(self)
        refuse_unusable("X", X)
        X = self._validated(X, reset=False)
        loadings = self.components_.T.astype(X.dtype)
        mean = self.mean_.astype(X.dtype)
        if is_sparse(X):
            return np.asarray(np.asarray(X @ loadings) - mean @ loadings)
        scores: npt.NDArray[Any] = (X - mean) @ loadings
        return scores

    def inverse_transform(self, X: Any) -> npt.NDArray[Any]:
        """Return the points of the components' span that have these scores: mean_ + X·(components_ᵀ)⁺.

        The components are not orthogonal, so that their transpose would not do. ``inverse_transform(transform(X))`` is
        the orthogonal projection of X − mean_ on their span, and ``transform(inverse_transform(Z))`` is Z.
        """
        check_is_fitted(self)
        X = check_array(X, dtype=[np.float64, np.float32])
        if X.shape[1] != len(self.components_):
            raise ValueError(
                f"X has {X.shape[1]} columns; inverse_transform takes scores, one column for each of the "
                f"{len(self.components_)} components."
            )
        dual = np.linalg.pinv(self.components_.T.astype(np.float64)).astype(X.dtype)
        points: npt.NDArray[Any] = X @ dual + self.mean_.astype(X.dtype)
        return points

    def __sklearn_tags__(self) -> Any:
        """Say that sparse data and both precisions are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _validated(self, X: Any, reset: bool) -> Any:
        """Return X in single or double precision, dense, CSR or CSC, all entries finite."""
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse=("csr", "csc"),
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
        )
        _refuse_non_finite(X)
        return X

    def _sizes(self, n_samples: int, n_features: int) -> list[int]:
        """Return how many non-zeros each component may have."""
        count = whole_number(self.n_components, "n_components", 1)
        if count > min(n_samples, n_features):
            raise ValueError(
                f"n_components is {count}, but X has {n_samples} samples and {_features(n_features)}; "
                f"it must be at most {min(n_samples, n_features)}."
            )
        if self.n_nonzero is None:
            return [min(DEFAULT_NONZERO, n_features)] * count
        if np.ndim(self.n_nonzero) == 0:
            return [_size(self.n_nonzero, "n_nonzero", n_features)] * count
        sizes = [_size(size, f"n_nonzero[{k}]", n_features) for k, size in enumerate(np.ravel(self.n_nonzero))]
        if len(sizes) != count:
            raise ValueError(
                f"n_nonzero has {len(sizes)} entries; give one number, or one for each of {count} components."
            )
        return sizes

    def _plan(self, sizes: list[int]) -> _Plan:
        choice(self.method, "method", METHODS)
        max_time = time_limit(self.max_time)
        work = None if self.work is None else whole_number(self.work, "work", 1)
        return _Plan(
            sizes,
            self.method,
            DEFAULT_WORK if work is None and max_time is None else work,
            max_time,
            whole_number(self.backfit, "backfit", 0),
            drawn_seed(self.random_state),
            worker_count(self.n_jobs),
        )


def _size(value: Any, name: str, n_features: int) -> int:
    size = whole_number(value, name, 1)
    if size > n_features:
        raise ValueError(f"{name} is {size}, but X has {_features(n_features)}; it must be between 1 and {n_features}.")
    return size


def _features(count: int) -> str:
    return "1 feature(s)" if count == 1 else f"{count} features"  # scikit-learn looks for these words


def _refuse_non_finite(X: Any) -> None:
    """Name the first NaN or infinity by row and column."""
    sparse = is_sparse(X)
    values = X.data if sparse else X
    # The sum is not finite if an entry is not; it may also overflow, so the entries decide.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    if sparse:
        entries = X.tocoo()
        places = np.column_stack([entries.row, entries.col])[~np.isfinite(entries.data)]
        row, column = min(places.tolist())
    else:
        row, column = np.argwhere(bad)[0].tolist()
    raise ValueError(
        f"X contains NaN or infinity: {X[row, column]} in row {row}, column {column} is the first of {int(bad.sum())}; "
        "remove or impute them, all entries must be finite."
    )


# The data.


class _Centred:
    """X − 1μᵀ over √(n_samples − 1), of which only products are formed if X is sparse."""

    def __init__(self, X: Any) -> None:
        self.sparse = bool(is_sparse(X))
        self.m, self.n = X.shape
        eps = float(np.finfo(np.float64).eps)
        if self.sparse:
            self.X = X.astype(np.float64).tocsc()
            self.mean, variance = (np.asarray(part, dtype=np.float64) for part in mean_variance_axis(self.X, axis=0))
            # What the subtraction of n_samples·μμᵀ leaves of a column is exact to ε times its mean square.
            noise = 64.0 * eps * (variance + self.mean**2)
        else:
            self.mean = X.mean(axis=0, dtype=np.float64)
            self.X = X - self.mean
            variance = np.einsum("ij,ij->j", self.X, self.X) / self.m
            noise = (16.0 * eps * self.mean) ** 2
        self.variance: Matrix = np.where(variance > noise, variance * (self.m / (self.m - 1.0)), 0.0)
        self.varying: Indices = np.flatnonzero(self.variance)

    @supervised
    def covariance(self, columns: Indices) -> Matrix:
        """Return C on some columns."""
        X = self._columns(columns)
        if not self.sparse:
            return np.asarray(X.T @ X / (self.m - 1.0))
        mean = self.mean[columns]
        C = (X.T @ X).toarray() - self.m * np.outer(mean, mean)
        C /= self.m - 1.0
        return np.asarray(0.5 * (C + C.T))

    def products(self, columns: Indices, V: Matrix) -> Matrix:
        """Return C[:, columns]·V of all features, from the scores of V."""
        scores = np.asarray(self._columns(columns) @ V)
        if not self.sparse:
            return np.asarray(self.X.T @ scores / (self.m - 1.0))
        scores = scores - self.mean[columns] @ V
        return np.asarray((self.X.T @ scores - np.outer(self.mean, scores.sum(axis=0))) / (self.m - 1.0))

    def _columns(self, columns: Indices) -> Any:
        # All of them are no copy.
        return self.X[:, columns] if len(columns) < self.n else self.X

    @supervised
    def pool(self, count: int, n_components: int, seed: int) -> Indices:
        """Return columns to begin with: half by variance, half by their length in the leading eigenvectors of C.

        The latter are found by subspace iteration; they name columns that vary little each, but many together.
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


# The components on a pool of columns.


class _Covariance:
    """C = RᵀR on the pool, and what components leave of it."""

    def __init__(self, C: Matrix) -> None:
        # A pair step needs two coordinates; the second one does not vary and stays at 0.
        self.C = np.ascontiguousarray(np.pad(C, (0, 1)) if len(C) == 1 else C)
        self.root = _root(self.C)
        self.total = float(np.trace(self.C))

    def __len__(self) -> int:
        return len(self.C)

    def rows(self, Z: Matrix, P: Matrix) -> Matrix:
        """Return B with BᵀB = CW(WᵀCW)⁻¹WᵀC from Z = RW and P = CW; C − BᵀB is the Schur complement of C by W.

        With Z = QT it is B = T⁻ᵀPᵀ = QᵀR. Components that others explain, up to rounding, are left out.
        """
        if Z.shape[1] == 0:
            return np.zeros((0, len(P)))
        T, order = sl.qr(Z, mode="r", pivoting=True, check_finite=False)
        diagonal = np.abs(np.diag(T))
        r = int(np.count_nonzero(diagonal > math.sqrt(EXHAUSTED) * diagonal[0]))
        return np.asarray(sl.solve_triangular(T[:r, :r], P[:, order[:r]].T, trans="T", check_finite=False))

    def deflate(self, B: Matrix, G: Matrix) -> None:
        """Write C − BᵀB into G, contiguous rows."""
        G[:] = self.C
        if len(B):
            # Both are symmetric, so that the transpose, whose columns are contiguous, is updated where it is.
            sl.blas.dgemm(-1.0, B, B, 1.0, G.T, trans_a=True, overwrite_c=True)

    def problem(self, W: Matrix, s: int) -> Problem:
        """Return max ½vᵀGv, G = C deflated by W, with a λ above the exactness threshold √2·max‖Gx‖∞."""
        G = np.empty_like(self.C)
        self.deflate(self.rows(self.root @ W, self.C @ W), G)
        if float(np.diag(G).max()) <= EXHAUSTED * self.total:
            raise _ExhaustedError(W)
        lam = 2.0 * math.sqrt(float(np.einsum("ij,ij->i", G, G).max()))
        f = NegativeGram(np.negative(G, out=G), np.zeros(len(G)))
        return Problem(f, Bounds(0.0, np.inf) + Linear(lam), TopSum(min(s, len(G)), lam), Sphere())

    def first_loadings(self, W: Matrix, s: int) -> tuple[Matrix, float]:
        """Return a component after W without a product of the size of C, and −½ of the variance that it adds.

        It has the s largest entries of the column of G, C deflated by W, that varies most; then, if that is better, the
        leading eigenvector of G on these.
        """
        held = np.flatnonzero(W.any(axis=1))
        B = self.rows(self.root[:, held] @ W[held], self.C[:, held] @ W[held])
        left = np.diag(self.C) - np.einsum("kj,kj->j", B, B)
        most = int(np.argmax(left))
        if float(left[most]) <= EXHAUSTED * self.total:
            raise _ExhaustedError(W)
        x = _sparse(np.maximum(self.C[most] - B.T @ B[:, most], 0.0), s)
        places = np.flatnonzero(x)
        G = self.C[np.ix_(places, places)] - B[:, places].T @ B[:, places]
        z, leading = x[places], np.linalg.eigh(G)[1][:, -1]
        leading = _sparse(np.maximum(leading * (1.0 if leading.sum() >= 0.0 else -1.0), 0.0), s)
        z = max((z, leading), key=lambda each: float(each @ G @ each))
        x[places] = z
        return x, -0.5 * float(z @ G @ z)

    def adjusted(self, V: Matrix, by_size: bool) -> tuple[Matrix, Indices]:
        """Return the adjusted variances and their order: that of V, or by size if the order is free."""
        return _adjusted(self.root @ V, by_size)


def _adjusted(Z: Matrix, by_size: bool) -> tuple[Matrix, Indices]:
    """Return T_kk² of the scores Z = QT, and the order of the columns; by size it is QR with pivots."""
    if not by_size:
        return np.asarray(np.diag(np.linalg.qr(Z, mode="r")) ** 2, dtype=np.float64), np.arange(Z.shape[1])
    T, order = sl.qr(Z, mode="r", pivoting=True, check_finite=False)
    return np.asarray(np.diag(T) ** 2, dtype=np.float64), np.asarray(order, dtype=np.intp)


@supervised
def _root(C: Matrix) -> Matrix:
    """Return R with RᵀR = C and as many rows as C has rank, by Cholesky's factorisation with pivots."""
    factor, pivots, rank, _ = sl.lapack.dpstrf(C, lower=0)
    R = np.zeros((max(int(rank), 1), len(C)))
    R[:, pivots - 1] = np.triu(factor)[: len(R)]
    return R


class _ExhaustedError(Exception):
    """No variance is left on the pool by the components V."""

    def __init__(self, V: Matrix) -> None:
        super().__init__()
        self.V = V


class _Plan(NamedTuple):
    """What the user asked for."""

    sizes: list[int]
    method: str
    work: int | None
    max_time: float | None
    backfit: int
    seed: int
    n_jobs: int | None

    @property
    def joint(self) -> bool:
        """Whether components are backfitted."""
        return self.backfit > 0 and len(self.sizes) > 1

    def options(self, seconds: float | None) -> dict[str, Any]:
        """Return the options of the method."""
        options: dict[str, Any] = {"seed": self.seed, "max_time": seconds}
        if self.method == "search":
            options |= {"work": self.work, "n_jobs": self.n_jobs}
        return options


class _Found(NamedTuple):
    """Components as columns of V, on all features."""

    V: Matrix
    variances: Matrix
    results: list[Result]
    rounds: int


class _Seen:
    """Which components were looked at since another one changed: a second look would find the same."""

    def __init__(self, count: int) -> None:
        self.since = np.zeros(count, dtype=bool)

    def look(self, k: int) -> bool:
        """Return whether component k is to be looked at, which counts as done."""
        due = not self.since[k]
        self.since[k] = True
        return due

    def change(self, k: int) -> None:
        """Make all others due; what component k is given has not changed."""
        self.since[np.arange(len(self.since)) != k] = False


class _Fit:
    """Components on a pool, one after the other and then together."""

    def __init__(self, plan: _Plan, tasks: Tasks) -> None:
        self.plan, self.tasks = plan, tasks
        # The rounds of backfitting are subtasks of one.
        self.backfitting: Tasks | None = None
        self.clock, self.told = working_seconds(), 0
        self.rng = np.random.default_rng(plan.seed)
        self.joint = plan.joint
        # Components of different sizes keep the order in which the user gave these.
        self.by_size = self.joint and len(set(plan.sizes)) == 1
        self.rounds, self.interrupted = 0, False
        # Ctrl-C that a method has caught, and may not tell of if it had come to its end.
        self.pressed: list[int] = []
        # Seconds that the last component took beyond those of its method.
        self.setup = 0.0

    def components(
        self, C: _Covariance, V: Matrix | None, results: list[Result], kicks: bool
    ) -> tuple[Matrix, list[Result]]:
        """Return components from those so far, if any; the products are too small for several threads."""
        with threadpool_limits(limits=1, user_api="blas"):
            if V is None or not self.joint:
                V, results = self.one_by_one(C, V)
            return self.together(C, V, kicks) if self.joint else V, results

    def one_by_one(self, C: _Covariance, warm: Matrix | None) -> tuple[Matrix, list[Result]]:
        """Solve for each component after those before it."""
        V, results = np.zeros((len(C), 0)), []
        for k, s in enumerate(self.plan.sizes):
            # A pool that has grown may bring the same component again, which is no new task.
            if k >= self.tasks.done:
                self.tasks.begin("component")
            results.append(self._next(C, V, s, None if warm is None else warm[:, k]))
            V = np.column_stack([V, results[-1].x])
            self.tasks.end()
            self._tell(results[-1].objective, V[:, -1], results[-1].cws_gap)
            if results[-1].status is Status.INTERRUPTED or self.pressed:
                if k + 1 < len(self.plan.sizes):
                    raise KeyboardInterrupt
                self.interrupted = True
        return V, results

    def _next(self, C: _Covariance, V: Matrix, s: int, x0: Matrix | None) -> Result:
        """Solve for the component after V; where there is hardly time for that, take one of a few products."""
        limit, before, seconds = self.plan.max_time, working_seconds(), None
        if limit is not None:
            first = C.first_loadings(V, s)
            left = (FIRST_SHARE if self.joint else 1.0) * limit - (before - self.clock)
            seconds = left / (len(self.plan.sizes) - V.shape[1]) - self.setup
            if seconds <= 0.0 or self.expired():
                return _no_step(*first, Status.TIME_LIMIT, Status.TIME_LIMIT.value, math.nan, self.plan.seed)
            x0 = first[0] if x0 is None else x0
        problem = C.problem(V, s)
        result = minimize(problem, x0, method=self.plan.method, **self.plan.options(seconds))
        if seconds is not None:
            self.setup = max(0.0, working_seconds() - before - seconds)
        return _kept(problem, result, _sparse(result.x, s))

    def together(self, C: _Covariance, V: Matrix, kicks: bool) -> Matrix:
        """Backfit: with kicks among the columns of the largest variance, then among all."""
        if self.backfitting is None:
            self.backfitting = self.tasks.nested("backfit")
        few = np.union1d(np.argsort(-np.diag(C.C), kind="stable")[:FEW], np.flatnonzero(V.any(axis=1)))
        if kicks and len(few) < len(C):
            V = _embedded(self._rounds(_Covariance(C.C[np.ix_(few, few)]), V[few], True), few, len(C))
            kicks = False
        return self._rounds(C, V, kicks)

    def _rounds(self, C: _Covariance, V: Matrix, kicks: bool) -> Matrix:
        """Backfit until nothing rises, and then kick or end; return the best components of all rounds."""
        best, best_total = V, -math.inf
        total, seen = self._total(C, V), _Seen(V.shape[1])
        try:
            for _ in range(self.plan.backfit):
                if self.expired(1.0 - LAST_SHARE):
                    break
                before = total
                assert self.backfitting is not None
                self.backfitting.begin("round")
                V, total = self._round(C, V, total, seen)
                stop = self.backfitting.end()
                self.rounds += 1
                self._tell(-0.5 * total, V[:, -1], math.nan)
                if total > best_total:
                    best, best_total = V, total
                if stop:
                    break
                settled = SETTLED if total >= best_total else HOPELESS
                if total <= before * (1.0 + settled):
                    if not kicks:
                        break
                    V = self._kicked(C, best)
                    total, seen = self._total(C, V), _Seen(V.shape[1])
        except KeyboardInterrupt:
            self.interrupted = True
        return best

    def settle(self, C: _Covariance, V: Matrix) -> tuple[Matrix, list[Result]]:
        """Certify each component given the others while there is time; a step that lowers the total is not taken."""
        results: list[Result] = []
        V, total = V.copy(), self._total(C, V)
        for k, s in enumerate(self.plan.sizes):
            if self.expired():
                results.append(self._uncertified(C, V, k))
                continue
            try:
                here = V[:, k].copy()
                problem = C.problem(np.delete(V, k, axis=1), s)
                result = minimize(problem, here, seed=self.plan.seed, max_time=self._left())
                self.interrupted = result.status is Status.INTERRUPTED or bool(self.pressed)
                there = V.copy()
                there[:, k] = _sparse(result.x, s)
                changed = self._total(C, there)
                if changed < total * (1.0 - RISES):
                    result = _as_it_is(problem, here, self.plan.seed)
                else:
                    result, V, total = _kept(problem, result, there[:, k]), there, changed
            except KeyboardInterrupt:
                self.interrupted = True
                result = self._uncertified(C, V, k)
            results.append(result)
        if self.backfitting is not None:
            self.backfitting.finish()
        return V, results

    def _uncertified(self, C: _Covariance, V: Matrix, k: int) -> Result:
        """Return the result of a component of which nothing is claimed, because the time is over or Ctrl-C pressed."""
        status = Status.INTERRUPTED if self.interrupted else Status.TIME_LIMIT
        added = _adjusted(C.root @ np.column_stack([np.delete(V, k, axis=1), V[:, k]]), False)[0][-1]
        return _no_step(V[:, k].copy(), -0.5 * float(added), status, status.value, math.nan, self.plan.seed)

    def _round(self, C: _Covariance, V: Matrix, total: float, seen: _Seen) -> tuple[Matrix, float]:
        """Exchange loadings of each component in turn given all others; keep what raises the total."""
        V, Z, P, G = V.copy(), C.root @ V, C.C @ V, np.empty_like(C.C)
        for k, s in enumerate(self.plan.sizes):
            if self.expired(1.0 - LAST_SHARE):
                break
            if not seen.look(k):
                continue
            others = np.arange(V.shape[1]) != k
            B = C.rows(Z[:, others], P[:, others])
            C.deflate(B, G)
            x, made = V[:, k].copy(), SLICE
            for _ in range(MOST_SWAPS // SLICE):
                made = int(swap_arc.descend(G, x, s, TOLERANCE, SLICE, False))
                if made < SLICE or self.expired(1.0 - LAST_SHARE):
                    break
            held = np.flatnonzero(x)
            scores = Z.copy()
            scores[:, k] = C.root[:, held] @ x[held]
            changed = float(_adjusted(scores, self.by_size)[0].sum())
            if changed > total * (1.0 + RISES):
                V[:, k], P[:, k], Z, total = x, C.C[:, held] @ x[held], scores, changed
                seen.change(k)
        return V, total

    def _kicked(self, C: _Covariance, V: Matrix) -> Matrix:
        """Replace up to two components by the largest positive entries of random columns of C, drawn by variance."""
        V, count, variance = V.copy(), V.shape[1], np.diag(C.C)
        for k in self.rng.choice(count, size=min(KICKED, count - 1), replace=False):
            column = C.C[self.rng.choice(len(C), p=variance / variance.sum())]
            V[:, k] = _sparse(np.maximum(column, 0.0), self.plan.sizes[k])
        return V

    def _tell(self, objective: float, x: Matrix, gap: float) -> None:
        """Let who listens hear of a component, or of all of them after a round; these end when nothing rises."""
        count = len(self.plan.sizes)
        self.told += 1
        share = None if self.joint else min(self.told / count, 1.0)
        tell(Progress(self.told, working_seconds() - self.clock, objective, x, gap), share)

    def _total(self, C: _Covariance, V: Matrix) -> float:
        return float(C.adjusted(V, self.by_size)[0].sum())

    def _left(self) -> float | None:
        # A method must have some time to return a point at all.
        limit = self.plan.max_time
        return None if limit is None else max(limit - (working_seconds() - self.clock), 1e-3)

    def expired(self, share: float = 1.0) -> bool:
        """Return whether Ctrl-C was pressed, or this share of the time is over."""
        limit = self.plan.max_time
        self.interrupted = self.interrupted or bool(self.pressed)
        return self.interrupted or (limit is not None and working_seconds() - self.clock >= share * limit)


def _sparse(x: Matrix, s: int) -> Matrix:
    """Return the s largest entries of x ≥ 0 at length 1; x itself if it has no more."""
    held = np.flatnonzero(x)
    if len(held) > s:
        x = x.copy()
        x[held[np.argsort(-x[held], kind="stable")[s:]]] = 0.0
    length = float(np.linalg.norm(x))
    return x if abs(length - 1.0) <= 1e-15 else x / length


def _kept(problem: Problem, result: Result, x: Matrix) -> Result:
    """Return the result for x, which has at most s loadings; a claim about another point is dropped."""
    if float(np.abs(x - result.x).max()) > SAME:
        status = Status.STATIONARY if result.status in CLAIMS else result.status
        objective = problem.objective(x)
        return Result(**{**_no_step(x, objective, status, status.value, math.nan, result.seed), "time": result.time})
    result["x"] = x
    return result


def _as_it_is(problem: Problem, x: Matrix, seed: int) -> Result:
    """Return the result of no step at all, with the gap that pairs leave."""
    message = "pairs would raise this component's own variance and lower the total of all; it is left as it is"
    return _no_step(x, problem.objective(x), Status.STATIONARY, message, certify(problem, x).cws_gap, seed)


def _no_step(x: Matrix, objective: float, status: Status, message: str, gap: float, seed: int | None) -> Result:
    return Result(
        x=x,
        objective=objective,
        status=status,
        success=False,
        message=message,
        nit=0,
        nacc=0,
        time=0.0,
        history=np.zeros((0, 3)),
        cws_gap=gap,
        tolerance=math.nan,
        seed=seed,
    )


# The pool and the columns outside.


def _fit(data: _Centred, fit: _Fit) -> _Found:
    """Fit on the whole covariance, or on a pool that grows until no column outside would raise a component."""
    plan, V = fit.plan, None
    results: list[Result] = []
    pricings = 0
    with paused():
        whole = len(data.varying) <= WHOLE
        pool = data.varying if whole else data.pool(POOLED, len(plan.sizes), plan.seed)
        first = data.covariance(pool)
        if fit.pressed:
            raise KeyboardInterrupt
        C = _Covariance(first)
    if fit.pressed:
        raise KeyboardInterrupt
    while True:
        try:
            V, results = fit.components(C, V, results, kicks=pricings == 0)
        except _ExhaustedError as exhausted:
            entering = _left_out(data, pool, C, exhausted.V)
            if not len(entering):
                raise ValueError(
                    f"n_components is {len(plan.sizes)}, but {exhausted.V.shape[1]} components explain all variance "
                    f"of X; it must be at most {exhausted.V.shape[1]}."
                ) from None
        except KeyboardInterrupt:
            if V is None:
                raise
            fit.interrupted = True
            break
        else:
            pricings += 1
            if pricings == PRICINGS or fit.expired(1.0 - LAST_SHARE):
                break
            entering = _entering(data, pool, C, V, fit)
            if not len(entering):
                break
        try:
            grown = np.union1d(pool, entering)
            larger = _Covariance(data.covariance(grown))
        except KeyboardInterrupt:
            if V is None:
                raise
            fit.interrupted = True
            break
        places = np.searchsorted(grown, pool)
        V = None if V is None else _embedded(V, places, len(grown))
        results = [Result(**{**result, "x": _embedded(result.x, places, len(grown))}) for result in results]
        pool, C = grown, larger
    assert V is not None
    if fit.joint:
        with threadpool_limits(limits=1, user_api="blas"):
            V, results = fit.settle(C, V)
    elif fit.interrupted:
        ended = {"status": Status.INTERRUPTED, "message": Status.INTERRUPTED.value, "success": False}
        results = [Result(**{**result, **ended}) for result in results]
    variances, order = C.adjusted(V, fit.by_size)
    results = [Result(**{**results[k], "x": _embedded(results[k].x, pool, data.n)}) for k in order]
    return _Found(_embedded(V[:, order], pool, data.n), variances, results, fit.rounds)


def _entering(data: _Centred, pool: Indices, C: _Covariance, V: Matrix, fit: _Fit) -> Indices:
    """Return the columns to add to the pool; none, if Ctrl-C is pressed on the way."""
    if len(pool) == len(data.varying):
        return pool[:0]
    try:
        gaining: Indices = supervised(_gaining)(data, pool, C, V, fit)
    except KeyboardInterrupt:
        fit.interrupted = True
        return pool[:0]
    return gaining


def _embedded(values: Matrix, places: Indices, length: int) -> Matrix:
    """Return values at their places among zeros."""
    out = np.zeros((length, *values.shape[1:]))
    out[places] = values[: len(places)]
    return out


def _left_out(data: _Centred, pool: Indices, C: _Covariance, V: Matrix) -> Indices:
    """Return columns outside the pool of whose variance the components leave most."""
    B = C.rows(C.root @ V, data.products(pool, V[: len(pool)]))
    left = data.variance - np.einsum("kj,kj->j", B, B)
    left[pool] = 0.0
    most = np.argsort(-left, kind="stable")[:ENTERING]
    return np.asarray(most[left[most] > EXHAUSTED * float(data.variance.sum())])


def _gaining(data: _Centred, pool: Indices, C: _Covariance, V: Matrix, fit: _Fit) -> Indices:
    """Return columns outside the pool that would raise a component, given all others or those before it.

    As in ``kernels.swap_arc``: drop vᵢ, v̂ = (v − vᵢeᵢ)/‖v − vᵢeᵢ‖, and turn v̂ towards eⱼ by the best angle. That is
    worth λ_max of [[v̂ᵀGv̂, (Gv̂)ⱼ], [·, G_jj]], G = C deflated. With fewer non-zeros than allowed none is dropped.
    """
    entering: list[Indices] = []
    outside = np.setdiff1d(data.varying, pool)
    Z, P = C.root @ V, data.products(pool, V)
    for k, s in enumerate(fit.plan.sizes):
        others = np.arange(V.shape[1]) != k if fit.joint else np.arange(V.shape[1]) < k
        B = C.rows(Z[:, others], P[:, others])
        held = np.flatnonzero(V[:, k])
        v = V[held, k]
        columns = data.products(pool[held], np.eye(len(held))) - B.T @ B[:, pool[held]]
        Gv, diagonal = columns @ v, data.variance - np.einsum("kj,kj->j", B, B)
        value = float(v @ Gv[pool[held]])
        score = diagonal[outside].copy()
        if len(held) < s:
            np.maximum(score, _turned(value, Gv[outside], diagonal[outside]), out=score)
            v = v[:0]
        for i, weight in enumerate(v):
            rest = 1.0 - weight**2
            if rest > 0.0:
                row = (Gv - weight * columns[:, i]) / math.sqrt(rest)
                a = (value - 2.0 * weight * Gv[pool[held[i]]] + weight**2 * diagonal[pool[held[i]]]) / rest
                np.maximum(score, _turned(a, row[outside], diagonal[outside]), out=score)
        best = np.argsort(-score, kind="stable")[:ENTERING]
        entering.append(outside[best[score[best] > value * (1.0 + GAIN)]])
    return np.unique(np.concatenate(entering))


def _turned(a: float, b: Matrix, d: Matrix) -> Matrix:
    """Return λ_max of [[a, b], [b, d]] for b > 0, max(a, d) otherwise."""
    b = np.maximum(b, 0.0)
    return np.asarray(0.5 * (a + d) + np.sqrt(0.25 * (a - d) ** 2 + b * b))

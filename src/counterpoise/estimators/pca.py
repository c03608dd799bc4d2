"""Non-negative sparse principal components, for scikit-learn.

The first component is max vᵀCv over v ≥ 0, ‖v‖ = 1 with at most s non-zeros, C the covariance of X: the paper's
NNSPCA in the exact regime. The others are the same problem on what the components before have left of C.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

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
from counterpoise.estimators.callbacks import FRAMES, CallbackSupport, Tasks, with_callbacks
from counterpoise.estimators.components import Fit, Plan, fit_components
from counterpoise.estimators.covariance import Centred
from counterpoise.estimators.options import drawn_seed, refuse_unusable, time_limit, warn_if_interrupted
from counterpoise.interrupts import noting_interrupts

Matrix = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

METHODS = ("search", "swap", "bcd-g", "exact")
# Starts and children of a search per component; on digits and MNIST, 8 find the same as 512.
DEFAULT_WORK = 8
# Non-zeros of a component by default.
DEFAULT_NONZERO = 10


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
        data = Centred(X)
        if not len(data.varying):
            raise ValueError(
                f"X is constant: none of its {X.shape[1]} columns varies over {X.shape[0]} samples; "
                "principal components need variance."
            )
        refuse_extreme(data.variance, "the variances of X", LARGEST_SQUARE, SMALLEST_SQUARE)
        tasks = Tasks.of_fit(self, len(sizes) + plan.joint, given, y)
        fit = Fit(plan, tasks)
        with noting_interrupts() as fit.pressed:
            found = fit_components(data, fit)
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
        """Declare support for sparse data and both precisions."""
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

    def _plan(self, sizes: list[int]) -> Plan:
        choice(self.method, "method", METHODS)
        max_time = time_limit(self.max_time)
        work = None if self.work is None else whole_number(self.work, "work", 1)
        return Plan(
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
    # A finite sum implies finite entries; an infinite one may be overflow, so check the entries.
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

"""Sparse principal components, signed or non-negative, as a scikit-learn transformer.

The first component maximises vᵀCv over ‖v‖ = 1 with at most s non-zeros, and v ≥ 0 if requested, where C is the
covariance of X: the problems SPCA and NNSPCA in the exact regime. Later components solve the same problem on the
deflated C.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import check_array
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import check_is_fitted

from counterpoise.checks import is_sparse
from counterpoise.estimators.callbacks import CallbackSupport, Tasks, with_callbacks
from counterpoise.estimators.component_path import ComponentPath, default_sizes, find_path, warn_if_exhausted
from counterpoise.estimators.component_results import Found
from counterpoise.estimators.components import Fit, fit_components
from counterpoise.estimators.covariance import Matrix
from counterpoise.estimators.options import warn_if_interrupted
from counterpoise.estimators.pca_input import Source, plan_of, size_of, source_of, validated
from counterpoise.interrupts import noting_interrupts


@dataclasses.dataclass(eq=False, repr=False)
class SparsePCA(CallbackSupport, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Sparse principal components: principal components with few non-zero loadings.

    A component is a vector v of loadings with ‖v‖ = 1 and at most ``n_nonzero`` non-zeros, none of them negative if
    ``nonnegative``. The first maximises vᵀCv, the variance of its scores, where C is the covariance of X. Component k
    maximises vᵀC_k v, where C_k is C deflated by the previous components: by default the covariance of the residuals
    of a regression of X on their scores, C_{k+1} = C_k − C_k v vᵀC_k/(vᵀC_k v).

    The scores of sparse components are correlated, so their variances must not be added. ``explained_variance_`` is
    *adjusted* (Zou, Hastie and Tibshirani 2006): the part of a score's variance that previous scores do not explain,
    R_kk²/(n_samples − 1) with (X − mean)Vᵀ = QR.

    Components found one after the other are not jointly optimal. *Backfitting* takes each in turn, deflates C by all
    others, and exchanges loadings while that raises the total adjusted variance. When no component improves any more,
    up to two are replaced at random and the rounds continue; the components with the best total are kept. If all have
    the same ``n_nonzero``, they are then ordered by adjusted variance: each adds the most to those before it.

    Parameters
    ----------
    n_components : int
        At most min(n_samples, n_features). If fewer components explain all variance, the fit stops with a warning.
    n_nonzero : int, or one per component, optional
        Maximum number of non-zero loadings, by default 10; the number of features if that is smaller. If there is
        one number per component, components keep the order of these numbers, unless all are equal.
    nonnegative : bool
        Whether loadings must be non-negative.
    standardize : bool
        Whether to divide columns by their standard deviation, so that C holds correlations. Constant columns are left
        unchanged.
    deflation : {"schur", "hotelling", "projection", "orthogonal"}
        How to remove a component from C, as named by Mackey (2008): the Schur complement, as above; Hotelling's
        deflation C − (vᵀCv)vvᵀ; projection deflation (I − vvᵀ)C(I − vvᵀ); orthogonalised projection deflation, the
        same with v made orthogonal to the previous components. With the last three there is no backfitting, and a
        component may add no variance to the previous ones.
    backfit : int, optional
        Maximum number of rounds of backfitting; a round visits every component once, and considers the component's own
        columns and the 96 most promising others. By default 60 divided by the number of components, and at least 5;
        twice as many with more than 256 columns. More rounds, such as 40, often find more variance. 0 keeps the
        components as found one after the other.
    method : {"search", "swap", "bcd-g", "exact"}
        The method of :func:`counterpoise.minimize` that finds each component. "exact" proves the optimum of a single
        component with few features.
    work : int, optional
        Budget of "search" per component: how many starting points and recombinations to improve, by default as in
        :func:`counterpoise.minimize`. If backfitting follows and there is no ``max_time``, only starting points are
        used, 4 by default.
    max_time : float, optional
        Time limit in seconds for all components together, not counting the covariance. Results then depend on the
        machine's speed.
    random_state : int, RandomState or None
        The same int gives bitwise identical results for any ``n_jobs``, unless ``max_time`` is given.
    n_jobs : int, optional
        Number of joblib workers of "search".

    Attributes
    ----------
    components_ : array, n_components_ × n_features
        Rows of length 1, in the precision of X, with signs chosen so that the sum of the loadings is positive; if it is
        0, so that the loading of largest absolute value is.
    n_components_ : int
        Fewer than ``n_components`` if fewer explain all variance, or if Ctrl-C ended the fit.
    explained_variance_ : array of length n_components_
        The part of each score's variance that previous scores do not explain. The sum is the variance explained by all
        scores together.
    explained_variance_ratio_ : array of length n_components_
        ``explained_variance_`` divided by the total variance, which is that of the standardised columns if
        ``standardize``.
    score_variance_ : array of length n_components_
        The variance vᵀCv of each score on its own; these must not be added.
    score_correlation_ : array, n_components_ × n_components_
        Correlations of the scores. ``components_ @ components_.T`` shows how far the components are from orthogonal.
    upper_bound_ : array of length n_components_
        No unit vector with at most ``n_nonzero_[k]`` non-zeros, non-negative if ``nonnegative``, has scores of larger
        variance than ``upper_bound_[k]``, up to rounding. The bound is cheap and usually above the optimum. See
        :func:`counterpoise.solvers.components.component_bound`.
    mean_, scale_ : arrays of length n_features
        What is subtracted from each column, and what it is then divided by; ``mean_`` is 0 if a covariance was given,
        and ``scale_`` is 1 without ``standardize``.
    n_nonzero_ : array of length n_components_
        The maximum number of non-zero loadings of each component.
    results_ : list of Result
        The result for each component, with its status and ``cws_gap``, which covers the columns of the pool (see
        Notes). The result is for the component given all others after backfitting, otherwise given the previous ones;
        −2·objective is the variance that it adds to these. STATIONARY after backfitting means that the component's own
        variance could be raised, as a rule at the expense of the total; see the message. Ctrl-C ends a fit with the
        components found so far, and a warning.
    n_iter_ : int
        Number of backfitting rounds.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only if X or the covariance has column names.

    Notes
    -----
    Constant columns never get a loading. Sparse X is centred implicitly: only XᵀX and products with X are formed, and
    C = (XᵀX − n_samples·μμᵀ)/(n_samples − 1). That subtraction loses digits in columns whose mean is much larger than
    their standard deviation; pass such columns as a dense array.

    With up to 2000 non-constant columns the whole covariance is formed; with more, that of a pool of at most 1000
    columns: those of the largest variance and those with the largest loadings in ordinary principal components. The
    components found on the pool are then checked against all columns, by the best exchange of a loading for a column
    outside, in closed form. Columns that would improve a component join the pool, and the fit continues until there are
    none.

    ``transform`` is a projection, not a regression, so a row's scores do not depend on the rest of the batch.

    References
    ----------
    Mackey (2008), Deflation methods for sparse PCA. Zou, Hastie and Tibshirani (2006), Sparse principal component
    analysis.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise import SparsePCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 2)) @ np.array([[3, 3, -3, 0, 0, 0.0], [0, 0, 0, 2, -1, 0]])
    >>> X += 0.1 * rng.standard_normal((100, 6))
    >>> pca = SparsePCA(n_components=2, n_nonzero=[3, 2], random_state=0).fit(X)
    >>> pca.components_.round(1).tolist()
    [[0.6, 0.6, -0.6, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.9, -0.4, 0.0]]
    """

    n_components: int = 1
    n_nonzero: int | Sequence[int] | None = None
    _: dataclasses.KW_ONLY
    nonnegative: bool = False
    standardize: bool = False
    deflation: str = "schur"
    backfit: int | None = None
    method: str = "search"
    work: int | None = None
    max_time: float | None = None
    random_state: Any = None
    n_jobs: int | None = None

    @with_callbacks
    def fit(self, X: Any = None, y: Any = None, *, covariance: Any = None) -> SparsePCA:
        """Find the components of data or of a covariance.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix, n_samples × n_features
        y : ignored
        covariance : array or DataFrame, n_features × n_features, optional
            A covariance or correlation matrix, in place of X. ``transform`` then expects centred data.
        """
        data, dtype = source_of(self, X, covariance)
        plan = plan_of(self, data)
        tasks = Tasks.of_fit(self, len(plan.sizes) + plan.joint, covariance if X is None else X, y)
        fit = Fit(plan, tasks)
        with noting_interrupts() as fit.pressed:
            found = fit_components(data, fit)
        warn_if_interrupted(found.results)
        self._keep(found, data, dtype)
        tasks.finish(fitted=True)
        if not fit.interrupted:
            warn_if_exhausted(len(plan.sizes), [len(found.sizes)])
        return self

    def _keep(self, found: Found, data: Source, dtype: Any) -> None:
        """Set the fitted attributes."""
        own = np.einsum("ij,ij->j", found.scores, found.scores)
        cosines = (found.scores.T @ found.scores) / np.sqrt(np.outer(own, own))
        np.fill_diagonal(cosines, 1.0)
        self.components_ = np.ascontiguousarray(found.V.T, dtype=dtype)
        self.n_components_ = len(found.sizes)
        self.n_nonzero_ = np.array(found.sizes)
        self.results_ = found.results
        self.n_iter_ = found.rounds
        for name, values in {
            "mean": data.mean,
            "scale": data.scale,
            "explained_variance": found.variances,
            "explained_variance_ratio": found.variances / data.variance.sum(),
            "score_variance": own,
            "score_correlation": cosines,
            "upper_bound": found.bounds,
        }.items():
            setattr(self, f"{name}_", values.astype(dtype))

    def path(self, X: Any = None, n_nonzero: Sequence[int] | None = None, *, covariance: Any = None) -> ComponentPath:
        """Find components for several numbers of loadings, without fitting the estimator itself.

        Each number is fitted independently, and again from the components of the next smaller number if these explain
        more, so that the explained variance never falls as the number of loadings grows.

        Parameters
        ----------
        X, covariance
            As in :meth:`fit`.
        n_nonzero : sequence of int, optional
            Numbers of loadings, replacing the parameter ``n_nonzero``; ``max_time`` and ``work`` apply to each of them.
            By default from 1 to 100, or to the number of features if that is smaller, each 1.5 times the previous one.
        """
        model = clone(self)
        data, _ = source_of(model, X, covariance)
        try:
            asked = default_sizes(data.n) if n_nonzero is None else list(n_nonzero)
        except TypeError:
            raise TypeError(
                f"n_nonzero is {n_nonzero!r}; give a list of numbers of loadings, such as [5, 10]."
            ) from None
        if not asked:
            raise ValueError("n_nonzero is empty; give at least one number of loadings.")
        sizes = [size_of(size, f"n_nonzero[{k}]", data) for k, size in enumerate(asked)]
        total = float(data.variance.sum())
        path = find_path(sizes, lambda size, warm: model.set_params(n_nonzero=size)._found(data, warm), total)
        warn_if_exhausted(int(self.n_components), map(len, path.components))
        return path

    def _found(self, data: Source, warm: Matrix | None) -> Found:
        """Fit without setting attributes or calling callbacks."""
        plan = plan_of(self, data)
        if warm is not None:
            plan = plan._replace(sizes=plan.sizes[: warm.shape[1]])
        fit = Fit(plan, Tasks.silent())
        with noting_interrupts() as fit.pressed:
            found = fit_components(data, fit, warm)
        if len(fit.plan.sizes) < len(plan.sizes) and fit.interrupted:
            raise KeyboardInterrupt  # a number of loadings without all its components is left out of a path
        return found

    def score(self, X: Any, y: Any = None) -> float:
        """Return the share of the variance of X about ``mean_`` that lies in the span of the components.

        That is 1 − Σ‖x − x̂‖²/Σ‖x − mean_‖² over rows x, with x̂ = ``inverse_transform(transform(x))``, in units of
        ``scale_``; the best score is 1. On the training data it equals the sum of ``explained_variance_ratio_`` if the
        components are orthogonal and their scores uncorrelated. :func:`sklearn.model_selection.cross_val_score` can use
        it to compare numbers of components and of loadings on held-out rows.
        """
        check_is_fitted(self)
        X = validated(self, X, reset=False).astype(np.float64)  # sums of squares in single precision lose digits
        Z = self._scores(X)
        scale, mean = self.scale_.astype(np.float64), self.mean_.astype(np.float64)
        own, variance = mean_variance_axis(X, axis=0) if is_sparse(X) else (X.mean(axis=0), X.var(axis=0))
        total = X.shape[0] * float(np.sum((variance + (own - mean) ** 2) / scale**2))
        # With V = QR, the projection of a row onto the span has coordinates zR⁻¹ in the basis Q.
        inside = float(np.sum((Z @ np.linalg.pinv(np.linalg.qr(self.components_.T.astype(np.float64))[1])) ** 2))
        return inside / total if total > 0.0 else 0.0

    def report(self, path: str | os.PathLike[str], X: Any = None, **options: Any) -> Path:
        """Write a self-contained HTML report; see :func:`counterpoise.report.components_report`."""
        from counterpoise.report import components_report

        check_is_fitted(self)
        return components_report(self, X, **options).write(path)

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """Return the scores (X − mean_)/scale_·components_ᵀ; sparse X is not densified."""
        check_is_fitted(self)
        return self._scores(validated(self, X, reset=False))

    def _scores(self, X: Any) -> npt.NDArray[Any]:
        loadings = (self.components_ / self.scale_).T.astype(X.dtype)
        mean = self.mean_.astype(X.dtype)
        if is_sparse(X):
            return np.asarray(np.asarray(X @ loadings) - mean @ loadings)
        scores: npt.NDArray[Any] = (X - mean) @ loadings
        return scores

    def inverse_transform(self, X: Any) -> npt.NDArray[Any]:
        """Return the points in the span of the components that have these scores: mean_ + scale_·X·(components_ᵀ)⁺.

        The pseudoinverse is needed because components are not orthogonal. ``inverse_transform(transform(X))`` is the
        orthogonal projection of X − mean_, in units of scale_, onto their span, and
        ``transform(inverse_transform(Z))`` is Z.
        """
        check_is_fitted(self)
        X = check_array(X, dtype=[np.float64, np.float32])
        if X.shape[1] != len(self.components_):
            raise ValueError(
                f"X has {X.shape[1]} columns; inverse_transform takes scores, one column for each of the "
                f"{len(self.components_)} components."
            )
        dual = np.linalg.pinv(self.components_.T.astype(np.float64)).astype(X.dtype)
        points: npt.NDArray[Any] = (X @ dual) * self.scale_.astype(X.dtype) + self.mean_.astype(X.dtype)
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


@dataclasses.dataclass(eq=False, repr=False)
class NonnegativeSparsePCA(SparsePCA):
    """Sparse principal components with non-negative loadings: :class:`SparsePCA` with ``nonnegative=True``.

    Parameters and attributes are those of :class:`SparsePCA`.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise import NonnegativeSparsePCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 2)) @ np.array([[3, 3, 3, 0, 0, 0.0], [0, 0, 0, 1, 1, 0]])
    >>> X += 0.1 * rng.standard_normal((100, 6))
    >>> pca = NonnegativeSparsePCA(n_components=2, n_nonzero=[3, 2], random_state=0).fit(X)
    >>> pca.components_.round(1).tolist()
    [[0.6, 0.6, 0.6, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.7, 0.7, 0.0]]
    """

    nonnegative: bool = dataclasses.field(default=True, init=False)

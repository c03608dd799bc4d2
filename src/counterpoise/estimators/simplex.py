"""Least squares with non-negative, optionally sparse coefficients of a given sum, as a scikit-learn regressor."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from counterpoise.checks import SMALLEST, Vector, flag, is_sparse, number, refuse_extreme, whole_number
from counterpoise.estimators.callbacks import CallbackSupport, Tasks, with_callbacks
from counterpoise.estimators.options import RunOptions, refuse_non_finite, refuse_unusable, warn_if_interrupted
from counterpoise.problem import Problem
from counterpoise.solvers import minimize
from counterpoise.solvers.sparse_line import plan_of
from counterpoise.terms.concave import AtMost
from counterpoise.terms.constraint import Sum
from counterpoise.terms.separable import Bounds
from counterpoise.terms.smooth import LeastSquares

METHODS = ("search", "swap", "exact", "bcd-g")
# NaN and infinity are refused afterwards, with an error that names the row and column.
KINDS: dict[str, Any] = {"accept_sparse": ("csc", "csr"), "dtype": np.float64, "ensure_all_finite": False}


@dataclasses.dataclass(eq=False, repr=False)
class SimplexRegression(CallbackSupport, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Minimise ½‖Xw + b − y‖² over w ≥ 0 with Σw = total and at most ``n_nonzero`` non-zeros.

    Suits weights of models in an ensemble, of donors in a synthetic control, of components in a mixture, or of pure
    spectra in a pixel. Without a limit on the number of non-zeros the problem is convex.

    Parameters
    ----------
    n_nonzero : int, optional
        Maximum number of non-zero coefficients; no limit by default.
    intercept : bool
        Whether to fit the intercept b; otherwise b = 0.
    total : float
        The sum of the coefficients; positive.
    method : {"search", "swap", "exact", "bcd-g"}
        "search" looks for the best coefficients within its budget, and proves the minimum if the limit on non-zeros
        does not bind; "swap" exchanges one column for another while that helps; "exact" proves the optimum for few
        columns; "bcd-g" moves weight between two columns while that helps.
    work : int, optional
        Budget of "search": how many starting points and recombinations to improve, in total.
    max_time : float, optional
        Time limit in seconds.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Number of workers of "search".

    Attributes
    ----------
    coef_ : array of length n_features
        Non-negative coefficients that sum to ``total``, up to rounding.
    intercept_ : float
    support_ : array of int
        The positions of the non-zero coefficients.
    problem_ : Problem
        The problem passed to :func:`counterpoise.minimize`, on centred data if there is an intercept: certify the
        coefficients with ``cp.certify(model.problem_, model.coef_)``. If X has a single column, it is duplicated.
    result_ : Result
        The result of the minimisation: ``result_.status`` says what is proved; ``result_.objective`` is
        ½Σ v (Xw + b − y)², where v are the sample weights.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only if X has column names.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((50, 6))
    >>> y = X @ [0.5, 0.0, 0.3, 0.0, 0.2, 0.0]
    >>> model = SimplexRegression(n_nonzero=3, random_state=0).fit(X, y)
    >>> model.coef_.round(6).tolist(), model.result_.status.name
    ([0.5, 0.0, 0.3, 0.0, 0.2, 0.0], 'OPTIMAL')
    """

    n_nonzero: int | None = None
    intercept: bool = False
    total: float = 1.0
    _: dataclasses.KW_ONLY
    method: str = "search"
    work: int | None = None
    max_time: float | None = None
    random_state: Any = None
    n_jobs: int | None = None

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SimplexRegression:
        """Find the coefficients.

        Parameters
        ----------
        X : array, table or sparse matrix, n_samples × n_features
            A sparse matrix is made dense if there is an intercept.
        y : array of length n_samples
        sample_weight : array of length n_samples, optional
            Weights v ≥ 0 of the samples: the objective is then ½Σ vₖ(Xw + b − y)ₖ².
        """
        given = X, y, sample_weight
        refuse_unusable(X=X, y=y, sample_weight=sample_weight)
        X, y = validate_data(self, X, y, y_numeric=True, **KINDS)
        refuse_non_finite(X)
        refuse_extreme(X.data if is_sparse(X) else X, "X", smallest=SMALLEST)
        refuse_extreme(y, "y")
        n = X.shape[1]
        size = n if self.n_nonzero is None else min(n, whole_number(self.n_nonzero, "n_nonzero", 1))
        total = number(self.total, "total")
        if total <= 0.0:
            raise ValueError(f"total is {total:g}; the sum of non-negative coefficients must be positive.")
        options = RunOptions.of(self, METHODS)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        offset, middle = np.zeros(n), 0.0
        if flag(self.intercept, "intercept"):
            X = X.toarray() if is_sparse(X) else X
            offset, middle = np.average(X, axis=0, weights=weight), float(np.average(y, weights=weight))
            X, y = X - offset, y - middle
        if n == 1:  # terms need at least two columns
            X = sp.hstack([X, X], format="csc") if is_sparse(X) else np.hstack([X, X])
        f = LeastSquares(X, y, weights=None if sample_weight is None else weight)
        problem = Problem(f, Bounds(0.0, total), AtMost(size), Sum(total), name="SimplexRegression")
        tasks = Tasks.of_fit(self, options.batches(plan_of(size, X.shape[1])), *given)
        follow = tasks.follow(lambda x: {"coef_": x[:n] if n > 1 else x.sum(keepdims=True)})
        result = minimize(problem, callback=follow, **options.arguments())
        warn_if_interrupted([result])
        self.problem_, self.result_ = problem, result
        self.coef_ = result.x if n > 1 else result.x.sum(keepdims=True)
        self.intercept_ = float(middle - offset @ self.coef_)
        self.support_ = np.flatnonzero(self.coef_)
        tasks.finish(fitted=True)
        return self

    def predict(self, X: Any) -> Vector:
        """Return Xw + b."""
        check_is_fitted(self)
        refuse_unusable(X=X)
        X = validate_data(self, X, reset=False, **KINDS)
        refuse_non_finite(X)
        return np.asarray(X @ self.coef_ + self.intercept_, dtype=np.float64)

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write a report on the fit as one self-contained HTML file; see :func:`counterpoise.report.run_report`."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        if self.n_features_in_ == 1:  # the problem duplicates the column
            names = ["x0" if names is None else names[0]] * 2
        return self.result_.report(path, **{"names": names, "settings": self.get_params(), **options})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # Coefficients of a fixed sum cannot fit a y of arbitrary scale.
        tags.regressor_tags.poor_score = True
        return tags

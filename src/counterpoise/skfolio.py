"""Trackers as skfolio optimisers, for its walk-forward tests, pipelines and portfolios; needs the extra ``skfolio``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from counterpoise.checks import Vector
from counterpoise.sentences import lacking
from counterpoise.tables.native import is_pandas
from counterpoise.windows import PREVIOUS, previous_key, weights_after, weights_of

try:
    from skfolio.optimization import BaseOptimization
except ImportError:

    class BaseOptimization:  # type: ignore[no-redef]
        """A placeholder if skfolio is not installed, which says so when it is used."""

        def __init__(self, **_: Any) -> None:
            raise lacking("SkfolioTracker needs", "skfolio")


class SkfolioTracker(BaseOptimization):  # type: ignore[misc]
    """A tracker as a skfolio portfolio optimisation.

    ``fit(X, y)`` takes the returns of the assets and of the benchmark, as skfolio's ``BenchmarkTracker`` does, and
    ``predict(X)`` returns a skfolio ``Portfolio``.

    Parameters
    ----------
    tracker : estimator
        Such as :class:`counterpoise.estimators.tracking.IndexTracker`: any estimator whose ``fit(returns, index)`` sets
        ``weights_`` or ``coef_``. It is not changed; ``fit`` fits a clone. Set its parameters as ``tracker__n_assets``
        and so on.
    transaction_costs : float, mapping or array
        Costs that skfolio charges to its portfolios. It charges them on every row of a holding period, so ten basis
        points over periods of 21 rows are 0.001/21. The cost of turnover in the *choice* of a portfolio is the
        tracker's own ``transaction_cost``.
    previous_weights : float, mapping or array, optional
        Weights held before the fit, passed to the tracker's parameter ``previous_weights`` if it has one. skfolio's
        ``cross_val_predict`` sets them to the weights of the previous window if costs, drift or a fallback need them.
    portfolio_params, fallback, raise_on_failure
        See skfolio's ``BaseOptimization``. ``portfolio_params={"weight_drift": True}`` lets weights drift between
        rebalances, as :func:`counterpoise.backtest.backtest` does.

    Attributes
    ----------
    weights_ : array of assets
    tracker_ : estimator
        The fitted clone.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only if X has column names.
    """

    def __init__(
        self,
        tracker: Any,
        *,
        transaction_costs: Any = 0.0,
        previous_weights: Any = None,
        portfolio_params: dict[str, Any] | None = None,
        fallback: Any = None,
        raise_on_failure: bool = True,
    ) -> None:
        super().__init__(
            portfolio_params=portfolio_params,
            fallback=fallback,
            previous_weights=previous_weights,
            raise_on_failure=raise_on_failure,
        )
        self.tracker = tracker
        self.transaction_costs = transaction_costs

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> SkfolioTracker:
        """Fit a clone of the tracker to the returns X of assets, observations × assets, and y of the benchmark.

        ``fit_params``, such as sample weights, go to the tracker.
        """
        if y is None:
            raise ValueError("y is missing; give the returns of the benchmark to follow, one per row of X.")
        validate_data(self, X, reset=True, skip_check_array=True)
        tracker = clone(self.tracker)
        key = previous_key(tracker)
        if self.previous_weights is not None and key is not None:
            tracker.set_params(**{key: self._held(X)})
        tracker.fit(X, _one_column(y), **fit_params)
        self.tracker_ = tracker
        self.weights_ = weights_after(tracker, self._names(X), self.n_features_in_)
        return self

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the root mean square of (portfolio − y): larger is better. Without y, skfolio's Sharpe ratio."""
        if y is None:
            return float(super().score(X))
        check_is_fitted(self, "weights_")
        difference = np.asarray(X, dtype=np.float64) @ self.weights_ - np.asarray(_one_column(y), dtype=np.float64)
        return -math.sqrt(float(np.mean(difference**2)))

    @property
    def needs_previous_weights(self) -> bool:
        """Whether the weights of one window must be passed to the next."""
        return bool(super().needs_previous_weights) or (
            previous_key(self.tracker) is not None and _positive(getattr(self.tracker, "transaction_cost", 0.0))
        )

    def _held(self, X: Any) -> Any:
        """Return the previous weights, by name if columns have names; skfolio may include other assets."""
        names, values = self._names(X), self.previous_weights
        if names is not None and isinstance(values, Mapping):
            return dict(values)
        held: Vector = weights_of(values, names, self.n_features_in_, PREVIOUS)
        return held if names is None else dict(zip(names, held.tolist(), strict=True))

    @staticmethod
    def _names(X: Any) -> Any:
        return list(X.columns) if is_pandas(X, "DataFrame") else None


def _one_column(y: Any) -> Any:
    """Return y with one value per row; a table of one column is reduced to it."""
    if np.ndim(y) != 2:
        return y
    if np.shape(y)[1] != 1:
        raise ValueError(f"y has {np.shape(y)[1]} columns; it must hold the returns of one benchmark.")
    return y.iloc[:, 0] if is_pandas(y, "DataFrame") else np.asarray(y)[:, 0]


def _positive(cost: Any) -> bool:
    values = list(cost.values()) if isinstance(cost, Mapping) else cost
    return bool(np.any(np.asarray(values, dtype=np.float64) > 0.0))

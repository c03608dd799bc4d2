"""Sparse index tracking: portfolios of few names, as a scikit-learn regressor."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import column_or_1d
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from counterpoise.checks import SMALLEST, Vector, refuse_extreme, whole_number
from counterpoise.estimators.callbacks import CallbackSupport, Tasks, with_callbacks
from counterpoise.estimators.measures import as_measure
from counterpoise.estimators.options import (
    RunOptions,
    check_frame,
    on_same_dates,
    refuse_non_finite,
    refuse_unusable,
    warn_if_interrupted,
    warn_of_prices,
)
from counterpoise.estimators.tracking_rules import Names, rules_of
from counterpoise.estimators.tracking_task import Task
from counterpoise.problem import Result
from counterpoise.sentences import require
from counterpoise.tables.native import as_pandas, is_pandas, to_pandas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHODS = ("search", "swap", "bcd-g")


@dataclasses.dataclass(eq=False, repr=False)
class IndexTracker(CallbackSupport, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A portfolio of at most ``n_assets`` names whose returns follow those of an index.

    Minimises

        Σₜ φ((Rw − r)ₜ) + Σᵢ transaction_costᵢ |wᵢ − previousᵢ|,   φ(z) = ½z²

    (or another ``measure`` φ) over weights w with Σ w = 1, at most ``n_assets`` non-zeros, and wᵢ = 0 or
    min_weightᵢ ≤ wᵢ ≤ max_weightᵢ. R holds the returns of the names, one row per day, and r those of the index. The
    first term is that of :class:`counterpoise.problems.SIT`: a sum over days, not a mean. The number of names is a
    hard constraint, not a penalty. Returns are not centred, so a portfolio that lags the index by the same amount every
    day has a positive tracking error.

    Parameters
    ----------
    n_assets : int
        Maximum number of names held; capped at the number of columns. Fewer are held if another name does not help.
    max_weight, min_weight : float, mapping, Series or array
        Limits on the weight of a name that is held, between 0 and 1. A name may always be left out, unless it is in
        ``include``. Names missing from a mapping or Series get 1 and 0. A max_weight of 0 excludes a name.
    groups : mapping, Series or array, optional
        The group of each name, such as its sector. Names that are missing, or whose group is None or NaN, belong to no
        group.
    group_limits : mapping or Series, optional
        Maps a group to (low, high), limits on the sum of its weights, either of which may be None; or to one number,
        which the sum must equal. Groups that are missing are not limited.
    previous_weights : mapping, Series or array, optional
        Current holdings, 0 for names that are missing; all cash by default. Names without a column of returns are sold:
        they count towards the turnover and, at their ``transaction_cost``, add a constant to the objective.
    transaction_cost : float, mapping, Series or array
        The cost of buying or selling one unit of weight, in the unit of the returns: 0.001 is ten basis points if a
        return of one percent is 0.01. Names missing from a mapping cost 0, as do sold names if this is an array. See
        Notes.
    include, exclude : names or column positions, optional
        ``include`` lists names that must be held, with at least their ``min_weight`` and at least 0.0001 (one basis
        point). ``exclude`` lists names that must not be held. Integers are column positions, unless a column has an
        integer for its name.
    measure : {"ete", "dr", "hete", "hdr"}
        The loss φ, a function of z = portfolio minus index. "ete", the empirical tracking error, is ½z². "dr", the
        downside risk, is ½min(z, 0)²: only days below the index count. "hete" is the Huber loss, ½z² up to
        |z| = ``huber`` and huber·|z| − ½huber² beyond, which limits the effect of single days; "hdr" is the Huber loss
        of min(z, 0). A tie-breaker 5e-10·z² is added to "dr" and "hdr": among portfolios that are never below the
        index, it prefers the one with the smallest squared error.
    huber : float, optional
        Required by "hete" and "hdr": the daily difference beyond which the loss is linear, in the unit of the returns,
        such as 0.0025.
    method : {"search", "swap", "bcd-g"}
        "search" looks for the best portfolio within its budget; "swap" exchanges one name for another while that
        helps; "bcd-g" moves weight between two names while that helps. Every method ends with a proof that no transfer
        between two names improves the portfolio (``cws_gap_``), unless a time limit or Ctrl-C ended the run.
    work : int, optional
        Budget of "search": how many starting points and recombinations to improve, in total.
    max_time : float, optional
        Time limit in seconds. Results then depend on the machine's speed.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Number of workers of "search".

    Attributes
    ----------
    weights_ : Series, table or array of length n_features
        A Series indexed by name if the returns are a DataFrame; a table of names and weights if they are a Polars or
        Arrow table. The weights sum to 1 and satisfy all limits, to 1e-10.
    coef_ : array of length n_features
        The weights as an array.
    support_ : array
        The names held, or their positions if columns have no names, in column order.
    tracking_error_ : float
        √(mean of (Rw − r)ₜ²) over the days of the fit, weighted by ``sample_weight``; daily, not annualised. The
        definition is the same for every ``measure``.
    turnover_ : float
        Σᵢ |wᵢ − previousᵢ|, purchases plus sales, including names without a column: 1 if everything is bought from
        cash.
    cws_gap_ : float
        The largest decrease of the objective by a transfer between two weights; NaN if the run ended before a scan. For
        measures other than "ete", the decrease of an upper bound of the objective, see :class:`counterpoise.Result`.
    problem_ : Problem
        The problem passed to :func:`counterpoise.minimize`: certify the portfolio with
        ``cp.certify(tracker.problem_, tracker.coef_)``. A single column appears in it twice and is held as [1, 0].
    result_ : Result
        The result of the minimisation; ``result_.objective`` is the objective above.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only if the returns have column names.

    Notes
    -----
    A trade of δ from one name to another is made if it lowers ½ Σₜ (Rw − r)ₜ² by more than δ times the sum of the two
    costs. The sum over days grows with their number. Up to the factor ½, it is the variance of the difference
    accumulated over a holding period as long as the data, if days are independent; costs are paid once in that period.
    With twice as many days, the same trade is worth twice as much. To change this, pass ``sample_weight``: a weight of
    1/days per day turns the sum into a mean, and k/days stands for a holding period of k days. Units matter, as returns
    are squared and costs are not: with returns in percent, costs in percent weigh a hundred times less.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> returns = 0.01 * rng.standard_normal((250, 1)) + 0.01 * rng.standard_normal((250, 20))
    >>> index = returns @ rng.dirichlet(np.ones(20))
    >>> tracker = IndexTracker(n_assets=5, max_weight=0.3, random_state=0).fit(returns, index)
    >>> len(tracker.support_), round(float(tracker.weights_.sum()), 10), bool(tracker.weights_.max() <= 0.3 + 1e-10)
    (5, 1.0, True)
    """

    # Metadata routing must treat these arguments as data, although they are not called X and y.
    __metadata_request__fit = {"returns": UNUSED, "index": UNUSED}  # noqa: RUF012
    __metadata_request__score = {"returns": UNUSED}  # noqa: RUF012
    __metadata_request__predict = {"returns": UNUSED}  # noqa: RUF012

    n_assets: int = 30
    _: dataclasses.KW_ONLY
    max_weight: Any = 1.0
    min_weight: Any = 0.0
    groups: Any = None
    group_limits: Any = None
    previous_weights: Any = None
    transaction_cost: Any = 0.0
    include: Any = None
    exclude: Any = None
    measure: str = "ete"
    huber: float | None = None
    method: str = "search"
    work: int | None = None
    max_time: float | None = None
    random_state: Any = None
    n_jobs: int | None = None

    @with_callbacks
    def fit(self, returns: Any, y: Any = None, sample_weight: Any = None, *, index: Any = None) -> IndexTracker:
        """Find the weights.

        Parameters
        ----------
        returns : DataFrame, table of Polars or Arrow, or array, days × names
            In a Polars or Arrow table, a column of dates is not treated as a name.
        y : Series, array or table of one column, days
            The returns of the index. If both have dates (a pandas index or a column of dates), these must be the same.
        sample_weight : Series or array of length days, optional
            Weights v ≥ 0 of the days: the first term of the objective is then Σ vₜ φ((Rw − r)ₜ).
        index : optional
            Alias for ``y``.
        """
        index = y if index is None else index
        task = self._task(returns, index, sample_weight)
        size = whole_number(self.n_assets, "n_assets", 1)
        problem = task.problem(size)
        tasks = Tasks.of_fit(self, task.batches(size), returns, index, sample_weight)
        result = task.solve(problem, callback=tasks.follow(lambda x: {"coef_": x}))
        task.warn(result.x)
        warn_if_interrupted([result])
        self.problem_ = problem
        self.result_ = result
        self.coef_ = result.x
        self.weights_ = task.series(result.x)
        self.support_ = task.names.of(np.flatnonzero(result.x))
        self.tracking_error_ = task.tracking_error(result.x)
        self.turnover_ = task.rules.turnover(result.x)
        self.cws_gap_ = float(result.cws_gap)
        self._fitted_rows = (as_pandas(returns).index if task.frame else None, task.A @ result.x, task.y)
        tasks.finish(fitted=True)
        return self

    def predict(self, returns: Any) -> Vector:
        """Return the portfolio's returns Rw at constant weights."""
        check_is_fitted(self)
        returns = as_pandas(returns)
        refuse_unusable(returns=returns)
        if is_pandas(returns, "DataFrame"):
            check_frame(returns)
        X = validate_data(self, returns, reset=False, dtype=np.float64, ensure_all_finite=False)
        refuse_non_finite(X, "returns")
        return np.asarray(X @ self.coef_, dtype=np.float64)

    def score(self, returns: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the portfolio's returns: 1 − Σ (Rw − r)²/Σ (r − mean r)²."""
        returns, y, sample_weight = on_same_dates(returns, y, sample_weight)
        return float(super().score(returns, y, sample_weight))

    def tracking_error(self, returns: Any, index: Any, sample_weight: Any = None) -> float:
        """Return the daily tracking error √(mean of (Rw − r)²) on new data, weighted by ``sample_weight`` if given."""
        returns, index, sample_weight = on_same_dates(returns, index, sample_weight)
        difference = self.predict(returns) - column_or_1d(index, dtype=np.float64)
        weight = _check_sample_weight(sample_weight, difference, dtype=np.float64, ensure_non_negative=True)
        return math.sqrt(float(weight @ difference**2) / float(weight.sum()))

    def report(self, path: str | os.PathLike[str], returns: Any = None, index: Any = None, **options: Any) -> Path:
        """Write a self-contained HTML report, by default on the rows of the fit.

        See :func:`counterpoise.report.tracking_report` for the other arguments.
        """
        from counterpoise.report import tracking_report

        check_is_fitted(self)
        return tracking_report(self, returns, index, **options).write(path)

    def path(self, returns: Any, index: Any, s: Sequence[int], sample_weight: Any = None) -> TrackingPath:
        """Find weights for several numbers of names, without fitting the estimator itself.

        Each run starts from the weights of the next smaller number, so the objective never rises with the number of
        names; with the measure "ete" and without transaction costs, neither does the tracking error.

        Parameters
        ----------
        returns, index, sample_weight
            As in :meth:`fit`.
        s : sequence of int
            Numbers of names, replacing ``n_assets``. ``max_time`` and ``work`` apply to each of them.
        """
        try:
            sizes = list(s)
        except TypeError:
            raise TypeError(f"s is {s!r}; give a list of numbers of names, such as [10, 20].") from None
        asked = [whole_number(size, f"s[{k}]", 1) for k, size in enumerate(sizes)]
        if not asked:
            raise ValueError("s is empty; give at least one number of names.")
        task = clone(self)._task(returns, index, sample_weight)
        found: dict[int, Result] = {}
        best: Result | None = None
        for size in sorted(set(asked)):
            problem = task.problem(size)
            runs = [task.solve(problem, None if best is None else best.x)]
            if best is not None:
                # A descent from a warm start is not always better; a search also tries starts of its own.
                runs += [best] if self.method == "search" else [task.solve(problem), best]
            best = min(runs, key=lambda run: float(run.objective))
            found[size] = best
        results = tuple(found[size] for size in asked)
        return TrackingPath(
            tuple(asked),
            task.table([result.x for result in results], asked),
            np.array([task.tracking_error(result.x) for result in results]),
            np.array([task.rules.turnover(result.x) for result in results]),
            results,
        )

    def _task(self, returns: Any, index: Any, sample_weight: Any) -> Task:
        """Check the data and the rules and return them."""
        options, measure = RunOptions.of(self, METHODS), as_measure(self.measure, self.huber)
        returns, native = to_pandas(returns, dated=True)
        refuse_unusable(returns=returns, index=index, sample_weight=sample_weight)
        returns, index, sample_weight = on_same_dates(returns, index, sample_weight)
        frame = is_pandas(returns, "DataFrame")
        if frame:
            check_frame(returns)
        X, y = validate_data(self, returns, index, dtype=np.float64, y_numeric=True, ensure_all_finite=False)
        refuse_non_finite(X, "returns")
        labels = list(returns.columns) if frame else list(getattr(self, "feature_names_in_", range(X.shape[1])))
        names = Names(labels, {label: k for k, label in enumerate(labels)})
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        rules, root = rules_of(self, names), np.sqrt(weight)
        refuse_extreme(X * root[:, None], "returns", smallest=SMALLEST)
        refuse_extreme(y * root, "index")
        warn_of_prices(X, labels, y)
        return Task(names, frame, native, X, np.asarray(y, dtype=np.float64), weight, rules, measure, options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Weights that sum to 1 cannot fit a y of arbitrary scale.
        tags.regressor_tags.poor_score = True
        return tags


@dataclasses.dataclass(frozen=True, eq=False)
class TrackingPath:
    """Portfolios for several numbers of names, returned by :meth:`IndexTracker.path`.

    Attributes
    ----------
    n_assets : tuple of int
        In the order requested, like all other attributes.
    weights : DataFrame or array, numbers × names
        A DataFrame indexed by ``n_assets`` if the returns are a DataFrame.
    tracking_errors : array
        √(mean of (Rw − r)²) of each portfolio, on the data passed to ``path``.
    turnovers : array
    results : tuple of Result
    """

    n_assets: tuple[int, ...]
    weights: Any
    tracking_errors: Vector
    turnovers: Vector
    results: tuple[Result, ...]

    def __len__(self) -> int:
        return len(self.n_assets)

    @property
    def table(self) -> Any:
        """A DataFrame with one row per entry of ``n_assets``: names held, tracking error, turnover and objective."""
        held = [np.count_nonzero(result.x) for result in self.results]
        columns = {
            "held": held,
            "tracking_error": self.tracking_errors,
            "turnover": self.turnovers,
            "objective": [float(result.objective) for result in self.results],
        }
        pandas = require("A table needs", "pandas")
        return pandas.DataFrame(columns, index=pandas.Index(self.n_assets, name="n_assets"))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the tracking error; see :func:`counterpoise.plotting.plot_path`."""
        from counterpoise.plotting import plot_path

        return plot_path(self.n_assets, self.tracking_errors, ax)

"""Portfolios of few names that follow an index, as a scikit-learn regressor."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from counterpoise.checks import SMALLEST, Vector, refuse_extreme, whole_number
from counterpoise.estimators.callbacks import FRAMES, CallbackSupport, Tasks, with_callbacks
from counterpoise.estimators.frames import check_frame, column_of, one_series
from counterpoise.estimators.measures import as_measure
from counterpoise.estimators.options import (
    RunOptions,
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


class IndexTracker(CallbackSupport, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A portfolio of at most ``n_assets`` names whose returns follow those of an index.

    Minimises

        Σₜ φ((Rw − r)ₜ) + Σᵢ transaction_costᵢ |wᵢ − previousᵢ|,   φ(z) = ½z²

    or another ``measure`` φ over weights with Σ w = 1, at most ``n_assets`` of them not 0, and wᵢ = 0 or
    min_weightᵢ ≤ wᵢ ≤ max_weightᵢ. R are the returns of the names, a row a day, and r those of the index. The first
    term is that of :class:`counterpoise.problems.SIT`: a sum over the days, not a mean. There is no penalty; the number
    of names is a constraint. Nothing is centred, so that a portfolio that lags every day by the same amount has a
    tracking error.

    Parameters
    ----------
    n_assets : int
        How many names may be held, at most; all of them where there are fewer columns. A name that does not help is
        left out.
    max_weight, min_weight : float, mapping, Series or array
        Limits of the weight of a name that is held, between 0 and 1. A name may always be left out, unless it is in
        ``include``. Names that a mapping or a Series does not mention have 1 and 0. A max_weight of 0 excludes a name.
    groups : mapping, Series or array, optional
        The group of each name, such as its sector. Names not mentioned, or of group None or NaN, are in none.
    group_limits : mapping or Series, optional
        From groups to (low, high), the limits of the sum of the group's weights, either of which may be None; or to one
        number, which the sum must equal. Groups not mentioned are not limited.
    previous_weights : mapping, Series or array, optional
        What is held now, 0 for names not mentioned; cash if not given. Names without a column of returns are sold: they
        count towards the turnover and, at their ``transaction_cost``, towards the objective of every portfolio.
    transaction_cost : float, mapping, Series or array
        The cost of buying or selling one unit of weight, in the unit of the returns: 0.001 is ten basis points if a
        return of one percent is 0.01. Names not mentioned have 0; for an array, sold names too. See Notes.
    include, exclude : names or column positions, optional
        ``include`` are names that are always held, at their ``min_weight`` at least, which for them is no less than one
        basis point, 0.0001. ``exclude`` are names that are not held. A number is a
        position where no column has a number for its name.
    measure : {"ete", "dr", "hete", "hdr"}
        φ, a function of z = portfolio minus index. "ete", the empirical tracking error, is ½z². "dr", the downside
        risk, is ½min(z, 0)²: only days below the index count. "hete" is the Huber loss, ½z² up to |z| = ``huber`` and
        huber·|z| − ½huber² beyond, so that single days count less; "hdr" is the same of min(z, 0). To "dr" and "hdr"
        5e-10·z² is added: many portfolios may never be below the index, and among these it prefers the one with the
        smallest squared error.
    huber : float, optional
        Of "hete" and "hdr" alone: a daily difference in the unit of the returns, such as 0.0025.
    method : {"search", "swap", "bcd-g"}
        "search" looks for the best portfolio that the budget allows; "swap" exchanges one name for another while that
        helps; "bcd-g" moves weight between two names while that helps. At the end of every method it is proved that no
        transfer between two names improves the portfolio (``cws_gap_``), unless a time limit or Ctrl-C ended the run.
    work : int, optional
        Starts and children of "search".
    max_time : float, optional
        Seconds. Results then depend on the machine's speed.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Workers of "search".

    Attributes
    ----------
    weights_ : Series, table or array of length n_features
        A Series by name if the returns are a DataFrame, a table of names and weights if they are of Polars or Arrow. It
        sums to 1, and all limits hold, to 1e-10.
    coef_ : array of length n_features
        The same as an array.
    support_ : array
        The names that have a weight, or their positions if there are no names, in the order of the columns.
    tracking_error_ : float
        √(mean of (Rw − r)ₜ²) over the days of the fit, weighted by ``sample_weight``; per day and not annualised. It is
        this number for every ``measure``.
    turnover_ : float
        Σᵢ |wᵢ − previousᵢ|, buying and selling, sold names included: 1 if all is bought from cash.
    cws_gap_ : float
        The largest decrease of the objective that any two weights offer; NaN if the run ended before a scan. With
        another measure than "ete" it is that of an upper bound of the objective, as in :class:`counterpoise.Result`.
    problem_ : Problem
        The problem as stated for :func:`counterpoise.minimize`: certify the portfolio with
        ``cp.certify(tracker.problem_, tracker.coef_)``. A single column is in it twice, and held as [1, 0].
    result_ : Result
        Of the minimisation; ``result_.objective`` is the objective above.
    n_features_in_ : int
    feature_names_in_ : array of str
        If the returns have column names.

    Notes
    -----
    A trade of δ from one name to another is made if it lowers ½ Σₜ (Rw − r)ₜ² by more than δ times the two costs. The
    sum grows with the days: it is, but for the factor ½, the variance of the difference that a holding period as long
    as the data would accumulate, if days are independent, and the costs are paid once in that period. With twice the
    days, the same trade is worth twice as much. ``sample_weight`` changes that: 1/days for each day makes the sum a
    mean, k/days one of k days. As the one term is squared and the other is not, the unit matters: with returns in
    percent, costs in percent weigh a hundred times less.

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

    # These are data, though not called X and y.
    __metadata_request__fit = {"returns": UNUSED, "index": UNUSED}  # noqa: RUF012
    __metadata_request__score = {"returns": UNUSED}  # noqa: RUF012
    __metadata_request__predict = {"returns": UNUSED}  # noqa: RUF012

    def __init__(
        self,
        n_assets: int = 30,
        *,
        max_weight: Any = 1.0,
        min_weight: Any = 0.0,
        groups: Any = None,
        group_limits: Any = None,
        previous_weights: Any = None,
        transaction_cost: Any = 0.0,
        include: Any = None,
        exclude: Any = None,
        measure: str = "ete",
        huber: float | None = None,
        method: str = "search",
        work: int | None = None,
        max_time: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_assets = n_assets
        self.max_weight = max_weight
        self.min_weight = min_weight
        self.groups = groups
        self.group_limits = group_limits
        self.previous_weights = previous_weights
        self.transaction_cost = transaction_cost
        self.include = include
        self.exclude = exclude
        self.measure = measure
        self.huber = huber
        self.method = method
        self.work = work
        self.max_time = max_time
        self.random_state = random_state
        self.n_jobs = n_jobs

    @with_callbacks
    def fit(self, returns: Any, y: Any = None, sample_weight: Any = None, *, index: Any = None) -> IndexTracker:
        """Find the weights.

        Parameters
        ----------
        returns : DataFrame, table of Polars or Arrow, or array, days × names
            A column of days in a table of Polars or Arrow is not taken for a name.
        y : Series, array or table of one column, days
            The returns of the index. If both have dates, an index of pandas or a column of days, these must be the
            same.
        sample_weight : Series or array of length days, optional
            v ≥ 0: the first term of the objective is Σ vₜ φ((Rw − r)ₜ).
        index : optional
            Another name of y.
        """
        index = y if index is None else index
        task = self._task(returns, index, sample_weight, 3 + FRAMES)
        size = whole_number(self.n_assets, "n_assets", 1)
        problem = task.problem(size)
        tasks = Tasks.of_fit(self, task.batches(size), returns, index, sample_weight)
        result = task.solve(problem, callback=tasks.follow("batch", lambda x: {"coef_": x}))
        task.warn(result.x)
        warn_if_interrupted([result], 2 + FRAMES)
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
        """Return the portfolio's returns Rw, at constant weights."""
        check_is_fitted(self)
        returns = as_pandas(returns)
        refuse_unusable("returns", returns)
        if is_pandas(returns, "DataFrame"):
            check_frame(returns)
        X = validate_data(self, returns, reset=False, dtype=np.float64, ensure_all_finite=False)
        refuse_non_finite(X, "returns")
        return np.asarray(X @ self.coef_, dtype=np.float64)

    def score(self, returns: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the portfolio's returns: 1 − Σ (Rw − r)²/Σ (r − mean r)²."""
        returns, y, sample_weight = map(as_pandas, (returns, y, sample_weight))
        y = one_series(returns, y, sample_weight)
        return float(super().score(returns, y, sample_weight))

    def tracking_error(self, returns: Any, index: Any, sample_weight: Any = None) -> float:
        """Return √(mean of (Rw − r)²), per day, of other data; ``sample_weight`` weighs the mean."""
        returns, index, sample_weight = map(as_pandas, (returns, index, sample_weight))
        index = one_series(returns, index, sample_weight)
        difference = self.predict(returns) - column_of(index)
        weight = _check_sample_weight(sample_weight, difference, dtype=np.float64, ensure_non_negative=True)
        return math.sqrt(float(weight @ difference**2) / float(weight.sum()))

    def report(self, path: str | os.PathLike[str], returns: Any = None, index: Any = None, **options: Any) -> Path:
        """Write a page about the fitted portfolio: one HTML file that loads nothing.

        Parameters
        ----------
        path : path
            Such as ``report.html``.
        returns, index, **options
            As in :func:`counterpoise.report.tracking_report`, such as ``backtest``; by default the rows of the fit.
        """
        from counterpoise.report import tracking_report

        check_is_fitted(self)
        return tracking_report(self, returns, index, **options).write(path)

    def path(self, returns: Any, index: Any, s: Sequence[int], sample_weight: Any = None) -> TrackingPath:
        """Find weights for several numbers of names.

        Each number starts from the weights of the next smaller one, so that the objective does not rise with the
        number of names; without transaction costs, neither does the tracking error. The estimator is not fitted.

        Parameters
        ----------
        returns, index, sample_weight
            As in :meth:`fit`.
        s : sequence of int
            In place of ``n_assets``. ``max_time`` and ``work`` hold for each of them.
        """
        asked = [whole_number(size, f"s[{k}]", 1) for k, size in enumerate(s)]
        if not asked:
            raise ValueError("s is empty; give at least one number of names.")
        task = clone(self)._task(returns, index, sample_weight, 3)
        found: dict[int, Result] = {}
        best: Result | None = None
        for size in sorted(set(asked)):
            problem = task.problem(size)
            runs = [task.solve(problem, None if best is None else best.x)]
            if best is not None:
                # A descent from a warm start is not always the better one; a search has starts of its own.
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

    def _task(self, returns: Any, index: Any, sample_weight: Any, stacklevel: int) -> Task:
        """Return the data and the rules, checked; warnings are of the caller's caller."""
        options, measure = RunOptions.of(self, METHODS), as_measure(self.measure, self.huber)
        returns, native = to_pandas(returns, dated=True)
        index, sample_weight = as_pandas(index), as_pandas(sample_weight)
        for name, values in (("returns", returns), ("index", index), ("sample_weight", sample_weight)):
            refuse_unusable(name, values)
        index = one_series(returns, index, sample_weight)
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
        warn_of_prices(X, labels, y, stacklevel)
        return Task(names, frame, native, X, np.asarray(y, dtype=np.float64), weight, rules, measure, options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Weights that sum to 1 cannot follow a y of any scale.
        tags.regressor_tags.poor_score = True
        return tags


@dataclasses.dataclass(frozen=True, eq=False)
class TrackingPath:
    """Portfolios of several numbers of names, from :meth:`IndexTracker.path`.

    Attributes
    ----------
    n_assets : tuple of int
        In the order that was asked for, as everything below.
    weights : DataFrame or array, numbers × names
        A DataFrame, with ``n_assets`` as its index, if the returns are one.
    tracking_errors : array
        √(mean of (Rw − r)²) of each, on the data of the path.
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
        """A DataFrame of one row per number: names held, tracking error, turnover and objective."""
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

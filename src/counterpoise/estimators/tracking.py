"""Portfolios of few names that follow an index, as a scikit-learn regressor."""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from counterpoise.checks import (
    SMALLEST,
    Vector,
    choice,
    float_array,
    number,
    refuse_extreme,
    whole_number,
    worker_count,
)
from counterpoise.estimators.callbacks import FRAMES, CallbackSupport, Tasks, batches, with_callbacks
from counterpoise.estimators.covariates import is_pandas, some
from counterpoise.estimators.measures import Measure, as_measure
from counterpoise.estimators.options import (
    drawn_seed,
    refuse_unusable,
    time_limit,
    warn_if_interrupted,
    warn_of_prices,
)
from counterpoise.extras import require
from counterpoise.problem import Problem, Result, Status
from counterpoise.rules import InfeasibleError
from counterpoise.sentences import suggest
from counterpoise.solvers import minimize
from counterpoise.solvers.run import Progress
from counterpoise.solvers.sparse_line import plan_of
from counterpoise.tables.native import Native, as_pandas, by_name, to_pandas
from counterpoise.terms.concave import AtMost
from counterpoise.terms.constraint import Sum
from counterpoise.terms.separable import AbsoluteDeviation, Bounds, SemiContinuous, SeparableTerm

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHODS = ("search", "swap", "bcd-g")
# Limits that miss 1 by less than this, such as ten weights of 0.1, miss it by rounding.
ROOM = 1e-10
# The weight at which a name to include counts as held, if it has no min_weight.
LEAST_HELD = 1e-4


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
        What is held now, 0 for names not mentioned; cash if not given. Names that are no columns of the returns are
        sold: they count for the turnover and, at their ``transaction_cost``, for the objective, whatever is bought.
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
        ``cp.certify(tracker.problem_, tracker.coef_)``. None if there is one column only.
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
            A column of days in a table of Polars or Arrow is no name.
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
            _check_frame(returns)
        X = validate_data(self, returns, reset=False, dtype=np.float64, ensure_all_finite=False)
        _refuse_missing(X, "returns")
        return np.asarray(X @ self.coef_, dtype=np.float64)

    def score(self, returns: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the portfolio's returns: 1 − Σ (Rw − r)²/Σ (r − mean r)²."""
        returns, y, sample_weight = map(as_pandas, (returns, y, sample_weight))
        y = _series(returns, y, sample_weight)
        return float(super().score(returns, y, sample_weight))

    def tracking_error(self, returns: Any, index: Any, sample_weight: Any = None) -> float:
        """Return √(mean of (Rw − r)²), per day, of other data; ``sample_weight`` weighs the mean."""
        returns, index, sample_weight = map(as_pandas, (returns, index, sample_weight))
        index = _series(returns, index, sample_weight)
        difference = self.predict(returns) - _column(index)
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

    def _task(self, returns: Any, index: Any, sample_weight: Any, stacklevel: int) -> _Task:
        """Return the data and the rules, checked; warnings are of the caller's caller."""
        options, measure = self._options(), as_measure(self.measure, self.huber)
        returns, native = to_pandas(returns, dated=True)
        index, sample_weight = as_pandas(index), as_pandas(sample_weight)
        for name, values in (("returns", returns), ("index", index), ("sample_weight", sample_weight)):
            refuse_unusable(name, values)
        index = _series(returns, index, sample_weight)
        frame = is_pandas(returns, "DataFrame")
        if frame:
            _check_frame(returns)
        X, y = validate_data(self, returns, index, dtype=np.float64, y_numeric=True, ensure_all_finite=False)
        _refuse_missing(X, "returns")
        labels = list(returns.columns) if frame else list(getattr(self, "feature_names_in_", range(X.shape[1])))
        names = _Names(labels, {label: k for k, label in enumerate(labels)})
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        rules, root = _rules(self, names), np.sqrt(weight)
        refuse_extreme(X * root[:, None], "returns", smallest=SMALLEST)
        refuse_extreme(y * root, "index")
        warn_of_prices(X, labels, y, stacklevel)
        return _Task(names, frame, native, X, np.asarray(y, dtype=np.float64), weight, rules, measure, options)

    def _options(self) -> dict[str, Any]:
        choice(self.method, "method", METHODS)
        return {
            "method": self.method,
            "work": None if self.work is None else whole_number(self.work, "work", 1),
            "max_time": time_limit(self.max_time),
            "seed": drawn_seed(self.random_state),
            "n_jobs": worker_count(self.n_jobs),
        }

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
        pandas = _pandas("A table")
        return pandas.DataFrame(columns, index=pandas.Index(self.n_assets, name="n_assets"))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the tracking error; see :func:`counterpoise.plotting.plot_path`."""
        from counterpoise.plotting import plot_path

        return plot_path(self.n_assets, self.tracking_errors, ax)


# The problem.


class _Names(NamedTuple):
    """The columns' names, or their positions if they have none."""

    labels: list[Any]
    places: dict[Any, int]

    def of(self, positions: Any) -> npt.NDArray[Any]:
        """Return the names at these positions, in an array that also holds names that are tuples."""
        kind = np.int64 if self.labels == list(range(len(self.labels))) else object
        out = np.empty(len(positions), dtype=kind)
        for k, position in enumerate(positions):
            out[k] = self.labels[position]
        return out

    def refuse_unknown(self, names: Iterable[Any], what: str, also: Iterable[Any] = ()) -> None:
        """Name the first that is no column."""
        others = set(also)
        for name in names:
            if name not in self.places and name not in others:
                raise ValueError(f"{what}: {name!r} is no column of returns; {suggest(name, self.labels)}")


class _Rules(NamedTuple):
    """What is allowed, as arrays over the columns and over the limited groups."""

    lo: Vector
    hi: Vector
    must: npt.NDArray[np.bool_]
    group: npt.NDArray[np.int64]
    least: Vector
    most: Vector
    group_names: tuple[str, ...]
    centre: Vector
    cost: Vector
    sold: float
    sold_cost: float

    def turnover(self, x: Vector) -> float:
        """Return Σ|x − centre|, with what was sold because it is no column."""
        return float(np.abs(x - self.centre).sum()) + self.sold


class _Task(NamedTuple):
    """Returns, the index, the weights of the days, the rules, and what is minimised."""

    names: _Names
    frame: bool
    native: Native | None
    A: Vector
    y: Vector
    weight: Vector
    rules: _Rules
    measure: Measure
    options: dict[str, Any]

    def problem(self, size: int) -> Problem | None:
        """State the problem of at most ``size`` names; refuse rules that contradict each other. None for one name."""
        rules, n = _feasible(self.rules, size, self.names), len(self.names.labels)
        if n == 1:
            return None
        least = np.where(rules.must, 0.0, rules.lo)
        h: SeparableTerm = Bounds(np.where(rules.must, rules.lo, 0.0), rules.hi)
        if least.any():
            h = h + SemiContinuous(least, rules.hi)
        if rules.cost.any():
            h = h + AbsoluteDeviation(rules.centre, rules.cost)
        u = Sum(1.0)
        if rules.group_names:
            members = {name: np.flatnonzero(rules.group == k) for k, name in enumerate(rules.group_names)}
            u = u.within(members, dict(zip(members, zip(rules.least, rules.most, strict=True), strict=True)))
        # Columns are priced without AᵀA where there are very many, if every name may be left out or held at any weight.
        gram = True if least.any() or rules.must.any() or rules.group_names else None
        f = self.measure.term(self.A, self.y, self.weight, gram)
        return Problem(f, h, AtMost(min(size, n)), u, constant=rules.sold_cost, name="IndexTracker")

    def solve(
        self, problem: Problem | None, x0: Vector | None = None, callback: Callable[[Progress], Any] | None = None
    ) -> Result:
        """Return the weights."""
        if problem is None:
            return self._only_name()
        if x0 is None and problem.is_feasible(self.rules.centre):
            x0 = self.rules.centre
        options = {**self.options, "callback": callback}
        if options["method"] != "search":
            del options["work"], options["n_jobs"]
        try:
            return minimize(problem, x0, **options)
        except InfeasibleError as error:
            reason = error.reason.replace("non-zeros", "names").replace("values", "weights")
            raise ValueError(
                f"No portfolio of at most {problem.g.s} names keeps all rules together; {reason}."
            ) from None

    def _only_name(self) -> Result:
        """Return the portfolio of the one name that there is."""
        # Terms have two columns at least: the name twice, of which one is held.
        x, f = np.ones(1), self.measure.term(np.hstack([self.A, self.A]), self.y, self.weight)
        objective = float(f.value(np.array([1.0, 0.0]))) + float(self.rules.cost @ np.abs(x - self.rules.centre))
        objective += self.rules.sold_cost
        status = Status.CERTIFIED
        fields = {"nit": 0, "nacc": 0, "time": 0.0, "setup_time": 0.0, "cws_gap": 0.0, "tolerance": 0.0}
        history = np.array([[0.0, 0.0, objective]])
        return Result(
            x=x, objective=objective, status=status, success=True, message=status.value, history=history,
            seed=self.options["seed"], convex_gap=0.0, swap_gap=None, **fields,
        )  # fmt: skip

    def batches(self, size: int) -> int | None:
        """Return how often a search of ``size`` names reports at most, None if that is not known."""
        n = len(self.names.labels)
        if self.options["method"] != "search":
            return None
        return batches(self.options["work"], self.options["max_time"], plan_of(min(size, n), n))

    def tracking_error(self, x: Vector) -> float:
        """Return the root mean square of the difference."""
        return math.sqrt(float(self.weight @ (self.A @ x - self.y) ** 2) / float(self.weight.sum()))

    def series(self, x: Vector) -> Any:
        """Return weights by name, if the names came with a table."""
        if not self.frame:
            return x.copy()
        series = _pandas("A Series").Series(x, index=self.names.labels, name="weight")
        return series if self.native is None else self.native.table(series.rename_axis("name").to_frame())

    def table(self, rows: list[Vector], sizes: list[int]) -> Any:
        """Return one row of weights per size."""
        if not self.frame:
            return np.array(rows)
        pandas = _pandas("A table")
        frame = pandas.DataFrame(rows, index=pandas.Index(sizes, name="n_assets"), columns=self.names.labels)
        return frame if self.native is None else self.native.table(frame)

    def warn(self, x: Vector) -> None:
        """Tell of weights that are probably not meant: in names that do not vary."""
        if self.frame and len(self.y) > 1:
            still = [k for k in np.flatnonzero(x) if np.ptp(self.A[:, k]) == 0.0]
            if still:
                warnings.warn(
                    f"{some(self.names.of(still))} has the same return on every day and is held; exclude it if its "
                    "prices are missing or were carried forward.",
                    stacklevel=3 + FRAMES,
                )


def _rules(tracker: IndexTracker, names: _Names) -> _Rules:
    """Return the options of a tracker, each checked by itself and against the others."""
    n = len(names.labels)
    hi = _each(names, tracker.max_weight, "max_weight", 1.0)
    lo = _each(names, tracker.min_weight, "min_weight", 0.0)
    include = _chosen(names, tracker.include, "include")
    exclude = _chosen(names, tracker.exclude, "exclude")
    both = sorted(set(include) & set(exclude))
    if both:
        raise ValueError(f"include and exclude both name {some(names.of(both))}; a name can be in one of them.")
    hi[exclude] = 0.0
    barred = [k for k in include if hi[k] == 0.0]
    if barred:
        raise ValueError(f"include names {names.labels[barred[0]]!r}, whose max_weight is 0.")
    above = np.flatnonzero((lo > hi) & (hi > 0.0))
    if len(above):
        k = int(above[0])
        raise ValueError(f"min_weight is {lo[k]:g} and max_weight {hi[k]:g} for {names.labels[k]!r}; {_ORDER}")
    lo[hi == 0.0] = 0.0
    must = np.zeros(n, dtype=np.bool_)
    must[include] = True
    lo[include] = np.maximum(lo[include], np.minimum(hi[include], LEAST_HELD))
    previous = tracker.previous_weights
    table = _mapping(previous, "previous_weights")
    sold = {} if table is None else {name: value for name, value in table.items() if name not in names.places}
    for name, value in sold.items():
        _between(np.atleast_1d(_numbers(value, "previous_weights")), "previous_weights", [name])
    if previous is None:
        centre = np.zeros(n)
    else:
        kept = previous if table is None else {name: table[name] for name in table if name not in sold}
        centre = _each(names, kept, "previous_weights", 0.0)
    cost = _each(names, tracker.transaction_cost, "transaction_cost", 0.0, math.inf, sold)
    sold_cost = sum(_cost_of(tracker.transaction_cost, name) * float(value) for name, value in sold.items())
    group, least, most, group_names = _groups(names, tracker.groups, tracker.group_limits)
    return _Rules(
        lo, hi, must, group, least, most, group_names, centre, cost, float(sum(map(float, sold.values()))), sold_cost
    )


_ORDER = "the first must not be above the second."


def _cost_of(costs: Any, name: Any) -> float:
    """Return the cost of selling a name that is no column."""
    table = _mapping(costs, "transaction_cost")
    if table is not None:
        value = float(_numbers(table.get(name, 0.0), "transaction_cost"))
        _between(np.array([value]), "transaction_cost", [name], math.inf)
        return value
    return float(costs) if np.ndim(costs) == 0 else 0.0


def _groups(names: _Names, groups: Any, limits: Any) -> tuple[npt.NDArray[np.int64], Vector, Vector, tuple[str, ...]]:
    """Return the number of each name's limited group, or −1, the limits, and the groups' names."""
    n = len(names.labels)
    table = _mapping(limits, "group_limits")
    if limits is not None and table is None:
        raise TypeError(f"group_limits is {limits!r}; it must map groups to limits, such as {{'energy': (0.0, 0.3)}}.")
    if table and groups is None:
        raise ValueError("group_limits is given without groups; say which name is in which group.")
    members = [None] * n if groups is None else _members(names, groups)
    known = {member: None for member in members if member is not None}
    for key in table or ():
        if key not in known:
            raise ValueError(f"group_limits: no name is in group {key!r}; {suggest(key, list(known))}")
    pairs = [_limits(key, value) for key, value in (table or {}).items()]
    numbers = {key: k for k, key in enumerate(table or ())}
    group = np.array([-1 if member is None else numbers.get(member, -1) for member in members], dtype=np.int64)
    least, most = np.array([low for low, _ in pairs]), np.array([high for _, high in pairs])
    return group, least, most, tuple(str(key) for key in table or ())


def _members(names: _Names, groups: Any) -> list[Any]:
    table = _mapping(groups, "groups")
    if table is not None:
        names.refuse_unknown(table, "groups")
        members = [table.get(label) for label in names.labels]
    else:
        members = list(groups) if isinstance(groups, Iterable) and not isinstance(groups, str) else []
        if len(members) != len(names.labels):
            raise ValueError(
                f"groups has {len(members)} entries; give one for each of {len(names.labels)} names, or a mapping."
            )
    for member in members:
        if not isinstance(member, Hashable):
            raise TypeError(f"groups holds {member!r}, which cannot name a group; give a word or a number.")
    return [None if member is None or member != member or str(member) == "<NA>" else member for member in members]


def _limits(key: Any, value: Any) -> tuple[float, float]:
    """Return (low, high) from one number or two."""
    what = f"group_limits of {key!r}"
    if np.ndim(value) == 0 and value is not None:
        low = high = number(value, what, 0.0)
    else:
        if np.shape(value) != (2,):
            raise ValueError(f"{what} is {value!r}; it must be one number or (low, high).")
        low = 0.0 if value[0] is None else number(value[0], what, 0.0)
        high = 1.0 if value[1] is None else number(value[1], what, 0.0)
    if low > high:
        raise ValueError(f"{what} is ({low:g}, {high:g}); {_ORDER}")
    if high > 1.0:
        raise ValueError(f"{what} is {high:g}; weights sum to 1, so that limits are between 0 and 1.")
    return low, high


def _feasible(rules: _Rules, size: int, names: _Names) -> _Rules:
    """Refuse rules that contradict each other, in the simpler ways, and mend what misses 1 by rounding."""
    lo, hi, must, group, least, most = rules[:6]
    allowed = hi > 0.0
    if not allowed.any():
        raise ValueError("exclude and max_weight leave no name that may be held.")
    size = min(size, int(allowed.sum()))
    if int(must.sum()) > size:
        raise ValueError(f"include names {int(must.sum())} names, but at most {size} may be held; raise n_assets.")
    reach = _largest(hi, size)
    if reach < 1.0 - ROOM:
        raise ValueError(
            f"{size} names of the largest max_weight sum to {reach:g}, and the weights must sum to 1; "
            "raise n_assets or max_weight."
        )
    bound = float(lo[must].sum())
    if bound > 1.0 + ROOM:
        raise ValueError(f"The min_weight of the names in include sum to {bound:g}; they must sum to 1 at most.")
    for k, name in enumerate(rules.group_names):
        inside = group == k
        reach_here, bound_here = _largest(hi[inside], size), float(lo[inside & must].sum())
        if reach_here < least[k] - ROOM:
            raise ValueError(
                f"group_limits asks for at least {least[k]:g} in group {name!r}, but {size} of its names that may be "
                f"held sum to {reach_here:g} at most."
            )
        if bound_here > most[k] + ROOM:
            raise ValueError(
                f"group_limits allows at most {most[k]:g} in group {name!r}, but the min_weight of its names in "
                f"include sum to {bound_here:g}."
            )
    lows, highs = float(least.sum()), float(most.sum())
    if lows > 1.0 + ROOM:
        raise ValueError(f"The lower limits of group_limits sum to {lows:g}; they must sum to 1 at most.")
    full = bool((group[allowed] >= 0).all())
    if full and highs < 1.0 - ROOM:
        raise ValueError(
            f"Every name that may be held is in a group, and the upper limits of group_limits sum to {highs:g}; "
            "they must sum to 1 at least."
        )
    return rules._replace(
        lo=lo / bound if bound > 1.0 else lo,
        hi=np.minimum(hi / reach, 1.0) if reach < 1.0 else hi,
        least=least / lows if lows > 1.0 else least,
        most=most / highs if full and highs < 1.0 else most,
    )


def _largest(values: Vector, count: int) -> float:
    return float(np.sort(values)[::-1][:count].sum())


# What users give.


def _mapping(given: Any, what: str) -> dict[Any, Any] | None:
    """Return a mapping, a Series, or a table of names and values as a dictionary, anything else as None."""
    given = by_name(given)
    if is_pandas(given, "Series"):
        if not given.index.is_unique:
            raise ValueError(f"{what} names {given.index[given.index.duplicated()][0]!r} twice; names must be unique.")
        return dict(given.to_dict())
    return dict(given) if isinstance(given, Mapping) else None


def _numbers(given: Any, what: str) -> Vector:
    refuse_unusable(what, given)
    try:
        return np.array(float_array(given, what))
    except (TypeError, ValueError):
        raise TypeError(
            f"{what} is {given!r}; give real numbers: one, one for each name, or a mapping from names."
        ) from None


def _between(values: Vector, what: str, labels: list[Any], most: float = 1.0) -> None:
    """Name the first value below 0, above ``most`` or NaN."""
    bad = np.flatnonzero(~((values >= 0.0) & (values <= most) & np.isfinite(values)))
    if len(bad):
        k = int(bad[0])
        where = f" for {labels[k]!r}" if labels else ""
        right = "finite and at least 0" if most == math.inf else f"between 0 and {most:g}"
        raise ValueError(f"{what} is {values[k]:g}{where}; it must be {right}.")


def _each(names: _Names, given: Any, what: str, default: float, most: float = 1.0, also: Iterable[Any] = ()) -> Vector:
    """Return one number per name from one for all, a mapping from names, or an array."""
    table = _mapping(given, what)
    if table is not None:
        names.refuse_unknown(table, what, also)
        given = [table.get(label, default) for label in names.labels]
    values = _numbers(given, what)
    if values.ndim == 0:
        _between(values[None], what, [], most)
        return np.full(len(names.labels), float(values))
    if values.shape != (len(names.labels),):
        raise ValueError(
            f"{what} has shape {values.shape}; give one number, one for each of {len(names.labels)} names or a mapping."
        )
    _between(values, what, names.labels, most)
    return values


def _chosen(names: _Names, given: Any, what: str) -> list[int]:
    """Return the positions of names; a number is a position itself where no name is a number."""
    if given is None:
        return []
    single = isinstance(given, str) or not isinstance(given, Iterable) or _is_name(given, names)
    numbered = any(isinstance(label, int | np.integer) for label in names.labels)
    places: dict[int, None] = {}
    for item in [given] if single else given:
        if isinstance(item, bool | np.bool_):
            raise TypeError(f"{what} holds {item}; give names or positions, not whether.")
        if _is_name(item, names):
            places[names.places[item]] = None
        elif isinstance(item, int | np.integer) and not numbered:
            places[whole_number(item, f"a position in {what}", 0, len(names.labels) - 1)] = None
        else:
            raise ValueError(f"{what}: {item!r} is no column of returns; {suggest(item, names.labels)}")
    return list(places)


def _is_name(item: Any, names: _Names) -> bool:
    try:
        return item in names.places
    except TypeError:  # a list is no key
        return False


# The data.


def _series(returns: Any, index: Any, sample_weight: Any) -> Any:
    """Return the index as a Series or array, with the dates of the returns if both have dates."""
    if is_pandas(index, "DataFrame"):
        if index.shape[1] != 1:
            raise ValueError(f"index has {index.shape[1]} columns, {some(index.columns)}; it must be one series.")
        index = index.iloc[:, 0]
    _same_dates(returns, index, "index")
    _same_dates(returns, sample_weight, "sample_weight")
    if is_pandas(index, "Series") and index.dtype.kind in "fO":
        missing = np.flatnonzero(index.isna().to_numpy())
        if len(missing):
            raise ValueError(
                f"index is NaN on {some(map(_date, index.index[missing]), 3)}; drop these dates from both or fill them."
            )
    return index


def _column(index: Any) -> Vector:
    values = np.asarray(index, dtype=np.float64)
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _same_dates(returns: Any, other: Any, what: str) -> None:
    """Refuse two tables of pandas whose rows are not the same, naming the first that differ."""
    if not (is_pandas(returns, "DataFrame") and is_pandas(other, "Series")) or returns.index.equals(other.index):
        return
    lacking = returns.index[~returns.index.isin(other.index)]
    extra = other.index[~other.index.isin(returns.index)]
    found = []
    if len(lacking):
        found.append(f"{what} lacks {some(map(_date, lacking), 3)}, which returns has")
    if len(extra):
        found.append(f"returns lacks {some(map(_date, extra), 3)}, which {what} has")
    if found:
        raise ValueError(f"{'; '.join(found)}: give both on the same dates.")
    if len(returns) != len(other):
        rows = f"returns has {len(returns)} rows and {what} {len(other)}"
        raise ValueError(f"{rows}, because dates are duplicated; drop the duplicates.")
    k = int(np.flatnonzero(np.asarray(returns.index != other.index))[0])
    dates = _date(returns.index[k]), _date(other.index[k])
    raise ValueError(
        f"returns and {what} have the same dates in another order: row {k} is {dates[0]} in the one and {dates[1]} in "
        "the other; sort both."
    )


def _check_frame(returns: Any) -> None:
    """Refuse columns that have one name, hold words or lack values, by name."""
    if not returns.columns.is_unique:
        twice = returns.columns[returns.columns.duplicated()]
        raise ValueError(f"returns has more than one column {some(twice.unique())}; names must be unique.")
    types = _pandas("A DataFrame").api.types
    for name, column in returns.items():
        if types.is_object_dtype(column.dtype):
            _refuse_objects(name, column)
        elif not types.is_numeric_dtype(column.dtype):
            raise ValueError(f"Column {name!r} of returns holds {column.dtype}; returns must be numbers.")
    bad = returns.isna().to_numpy()
    if not bad.any():
        return
    first = [
        f"{returns.columns[k]!r} on {_date(returns.index[bad[:, k].argmax()])}" for k in np.flatnonzero(bad.any(axis=0))
    ]
    raise ValueError(
        f"returns has {int(bad.sum())} missing values (NaN) in {len(first)} columns, the first of each: "
        f"{some(first, 3)}; drop these names or dates, or fill them."
    )


def _refuse_objects(name: Any, column: Any) -> None:
    """Name the first object of a column that is no number; missing ones are told apart."""
    present = column[column.notna()]
    try:
        float_array(present.to_numpy(), "")
    except (TypeError, ValueError):
        for date, value in present.items():
            try:
                float_array(np.array([value], dtype=object), "")
            except (TypeError, ValueError):
                raise ValueError(
                    f"Column {name!r} of returns holds {value!r} on {_date(date)}, a {type(value).__name__}; returns "
                    "must be numbers."
                ) from None


def _refuse_missing(X: Vector, what: str) -> None:
    """Name the first NaN or infinity by row and column."""
    bad = ~np.isfinite(X)
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        raise ValueError(
            f"{what} contains NaN or infinity: {X[row, column]} in row {row}, column {column} is the first of "
            f"{int(bad.sum())}; remove or impute them, all entries must be finite."
        )


def _date(label: Any) -> str:
    return str(label).removesuffix(" 00:00:00")


def _pandas(what: str) -> Any:
    return require(f"{what} needs", "pandas")

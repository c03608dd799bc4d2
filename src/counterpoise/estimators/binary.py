"""Least squares with coefficients −1 and 1, as a scikit-learn regressor."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from counterpoise.certificates import certify
from counterpoise.checks import Vector, is_sparse, whole_number
from counterpoise.clock import working_seconds
from counterpoise.estimators.callbacks import CallbackSupport, Tasks, with_callbacks
from counterpoise.estimators.options import RunOptions, refuse_unusable, warn_if_interrupted
from counterpoise.interrupts import noting_interrupts
from counterpoise.problem import Problem, Result, Status
from counterpoise.problems import DCPB1
from counterpoise.solvers import minimize
from counterpoise.solvers.binary import Binary
from counterpoise.solvers.exact import Proof
from counterpoise.solvers.run import CLAIMS, Progress
from counterpoise.terms.smooth import GRAM_LIMIT

METHODS = ("search", "exact", "bcd-g", "bcd-l")
# λ as a multiple of max‖aᵢ‖², which is no less than the threshold above which every CWS point of DCPB1 is binary.
ABOVE_THRESHOLD = 1.01
EPSILON = float(np.finfo(float).eps)
# Rows of pairs between two checks of the clock.
ROWS = 64
# A coefficient this close to ±1 differs from it only by rounding.
SAME = 1e-9


@dataclasses.dataclass(eq=False, repr=False)
class BinaryLeastSquares(CallbackSupport, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Minimise ½‖Ax − y‖² over x ∈ {−1, 1}ⁿ, with 1ᵀx = total if a total is given.

    Solves :class:`counterpoise.problems.DCPB1` with λ above its exactness threshold; at binary points its objective is
    ½‖Ax − y‖². There is no intercept.

    Parameters
    ----------
    total : int, optional
        The sum of the coefficients: −n ≤ total ≤ n, even if and only if n is even. By default the sum is free: n zero
        columns are added, whose coefficients make up the sum, so that an exchange with one of them flips a single sign.
    method : {"search", "exact", "bcd-g", "bcd-l"}
        "search" looks for the best point within its budget; "exact" proves the optimum of small problems, for each
        total in turn if the sum is free; "bcd-g" and "bcd-l" quickly reach a certified point, and are the only methods
        for more than 6000 columns, or 3000 if the sum is free.
    work : int, optional
        Budget of "search": how many starting points and recombinations to improve, in total. 128 by default, if there
        is no ``max_time`` either.
    max_time : float, optional
        Time limit in seconds.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Number of workers of "search".

    Attributes
    ----------
    coef_ : array of length n
        Each −1.0 or 1.0.
    result_ : Result
        The result of the minimisation, whose x omits the zero columns; ``result_.objective`` is ½‖Ax − y‖².
    cws_gap_ : float
        The largest decrease of the objective by a change of two coefficients, 0 if none lowers it. With a total it is
        an exchange of a 1 and a −1; with a free sum, a flip of one coefficient or of any two, of equal signs or not.
        All methods make such changes until none gains, unless a limit ends the run. NaN if it ended before a scan.
    n_features_in_ : int
    feature_names_in_ : array of length n
        Only if A has column names of type str.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.random.default_rng(0).standard_normal((20, 6))
    >>> signs = np.array([1, -1, -1, 1, 1, -1])
    >>> BinaryLeastSquares(total=0, work=8, random_state=0).fit(A, A @ signs).coef_.tolist()
    [1.0, -1.0, -1.0, 1.0, 1.0, -1.0]
    """

    total: int | None = None
    _: dataclasses.KW_ONLY
    method: str = "search"
    work: int | None = None
    max_time: float | None = None
    random_state: Any = None
    n_jobs: int | None = None

    @with_callbacks
    def fit(self, A: Any, y: Any, sample_weight: Any = None) -> BinaryLeastSquares:
        """Find the coefficients.

        Parameters
        ----------
        A : array, DataFrame or sparse matrix, m × n
        y : array of length m
        sample_weight : array of length m, optional
            Weights w ≥ 0 of the rows: the objective is then ½Σ wₖ(Ax − y)ₖ².
        """
        given = A, y, sample_weight
        refuse_unusable(A=A, y=y, sample_weight=sample_weight)
        A, y = validate_data(self, A, y, accept_sparse=("csc", "csr"), dtype=np.float64, y_numeric=True)
        options, n = RunOptions.of(self, METHODS), A.shape[1]
        total = None if self.total is None else _check_total(self.total, n)
        columns = 2 * n if total is None else n
        if columns > GRAM_LIMIT and self.method in ("search", "exact"):
            raise ValueError(
                f"method {self.method!r} needs a matrix of {columns} × {columns}, but the limit is {GRAM_LIMIT} rows; "
                "use method 'bcd-g'."
            )
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, A, dtype=np.float64, ensure_non_negative=True)
            root = np.sqrt(weight)
            A, y = sp.diags_array(root) @ sp.csc_array(A) if is_sparse(A) else A * root[:, None], root * y
        if total is None and self.method == "exact" and n > 1:
            tasks = Tasks.of_fit(self, n + 1, *given)
            with noting_interrupts() as pressed:
                self.result_ = _prove_every_total(A, y, options, tasks, pressed)
        else:
            tasks = Tasks.of_fit(self, options.batches(Binary.plan), *given)
            problem = _free_sum(A, y) if total is None else DCPB1(A, y, total, _lam(A))
            follow = tasks.follow(lambda x: {"coef_": np.where(x[:n] > 0.0, 1.0, -1.0)})
            self.result_ = _minimize(problem, options, follow)
            if self.result_.status is Status.OPTIMAL and math.isnan(self.result_.cws_gap):  # enumerated, not scanned
                self.result_["cws_gap"] = certify(problem, self.result_.x).cws_gap
            self.result_["x"] = self.result_.x[:n]
        if total is None:
            _flip(self.result_, A, y, self.max_time)
        warn_if_interrupted([self.result_])
        self.coef_ = self.result_.x
        self.cws_gap_ = float(self.result_.cws_gap)
        tasks.finish(fitted=True)
        return self

    def predict(self, A: Any) -> Vector:
        """Return A times the coefficients."""
        check_is_fitted(self)
        refuse_unusable(A=A)
        A = validate_data(self, A, accept_sparse=("csc", "csr"), dtype=np.float64, reset=False)
        return np.asarray(A @ self.coef_, dtype=np.float64)

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write a report on the fit as one self-contained HTML file; see :func:`counterpoise.report.run_report`."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        return self.result_.report(path, **{"names": names, "settings": self.get_params(), **options})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # Coefficients of ±1 cannot fit a y of arbitrary scale.
        tags.regressor_tags.poor_score = True
        return tags


def _minimize(problem: Problem, options: RunOptions, callback: Callable[[Progress], Any] | None = None) -> Result:
    """Return a binary point; if a limit leaves a fractional point, round it, its largest entries to 1."""
    result = minimize(problem, callback=callback, **options.arguments())
    ones = round((problem.n + float(getattr(problem.u, "c", 0.0))) / 2)
    x = np.full(problem.n, -1.0)
    x[np.argsort(-result.x, kind="stable")[:ones]] = 1.0
    return _moved(result, x, problem.f.value(x))


def _moved(result: Result, x: Vector, objective: float) -> Result:
    """Return the result at a binary x, without its claims if x differs from the point that they are about."""
    if float(np.abs(x - result.x).max()) > SAME:
        status = Status.STATIONARY if result.status in CLAIMS else result.status
        result.update(status=status, message=status.value, success=False, cws_gap=math.nan)
    result.update(x=x, objective=objective, history=_history(result, result.nit, objective))
    return result


def _history(result: Result, nit: int, objective: float) -> Vector:
    """Return the history with a last point, and without any earlier ones below it."""
    earlier = result.history[result.history[:, 2] >= objective]
    return np.vstack([earlier, [nit, result.time, objective]])


def _prove_every_total(A: Any, y: Vector, options: RunOptions, tasks: Tasks, pressed: list[int]) -> Result:
    """Return the best point over all totals, which enumerates 2ⁿ sign vectors instead of C(2n, n)."""
    n, clock, limit = A.shape[1], working_seconds(), options.max_time
    found: list[Result] = []
    ended: Status | None = None
    for total in sorted(range(-n, n + 1, 2), key=abs):
        left = None if limit is None else limit - (working_seconds() - clock)
        if found and left is not None and left <= 0.0:
            ended = Status.TIME_LIMIT
            break
        tasks.begin("total")
        here = options._replace(max_time=None if left is None else max(left, 1e-3))
        found.append(_minimize(DCPB1(A, y, total, _lam(A)), here))
        stop = tasks.end()
        if pressed and len(found) <= n:
            ended = Status.INTERRUPTED
        elif found[-1].status is not Status.OPTIMAL:
            ended = found[-1].status
        elif stop and len(found) <= n:
            ended = Status.STOPPED_BY_CALLBACK
        if ended is not None:
            break
    best = min(found, key=lambda result: float(result.objective))
    best["time"] = working_seconds() - clock
    if ended is None:
        parts = [result.proof for result in found]
        counts = sum(part.candidates for part in parts), parts[0].kind, sum(part.solved for part in parts)
        best["proof"] = Proof(*counts, best.time)
    else:
        best.update(status=ended, message=ended.value, success=False)
        best.pop("proof", None)
    return best


def _flip(result: Result, A: Any, y: Vector, max_time: float | None) -> None:
    """Flip one or two coefficients of a binary point as long as that gains, and measure the gap; change the result.

    A flip of two of equal sign is not a pair step of the problem with zero columns: it moves four of its coordinates. A
    point that a limit left is measured but not moved.
    """
    clock, before = working_seconds() - result.time, result.x
    moves = result.status in (*CLAIMS, Status.STATIONARY)
    ended: Status | None = None
    with noting_interrupts() as pressed:
        flips = _Flips(A, y, before)
        while (found := flips.step(moves)) is None:
            if pressed or (max_time is not None and working_seconds() - clock >= max_time):
                ended = Status.INTERRUPTED if pressed else Status.TIME_LIMIT
                break
    result.update(cws_gap=math.nan if found is None else found, time=working_seconds() - clock)
    if flips.made:
        objective = 0.5 * float(np.sum((A @ flips.x - y) ** 2))
        made = {name: int(result[name]) + flips.made for name in ("nit", "nacc")}
        result.update(x=flips.x, objective=objective, history=_history(result, made["nit"], objective), **made)
    if ended is not None and moves:
        result.update(status=ended, message=ended.value, success=False)
        result.pop("proof", None)


class _Flips:
    """Flips of one or two coefficients of a point of ±1, with the data that tell their gains.

    With g the gradient, flipping xᵢ changes the objective by cᵢ = 2(Q_ii − xᵢgᵢ), and flipping xᵢ and xⱼ by
    cᵢ + cⱼ + 4xᵢxⱼQ_ij, where Q = AᵀA.
    """

    def __init__(self, A: Any, y: Vector, x: Vector) -> None:
        self.A, self.y, self.x, self.n, self.made = A, y, x.copy(), len(x), 0
        self.whole = _dense(A.T @ A) if 2 * self.n <= GRAM_LIMIT else None
        squares = A.power(2).sum(axis=0) if is_sparse(A) else np.einsum("ij,ij->j", A, A)
        self.diagonal = np.asarray(squares, dtype=np.float64).ravel()
        self.g = self._gradient()
        norms = np.sqrt(self.diagonal)
        largest = float(norms.max())
        # Rounding of g, whose terms are at most ‖aᵢ‖‖aⱼ‖ and ‖aᵢ‖‖y‖.
        self.floor = 64.0 * EPSILON * largest * (float(norms.sum()) + float(np.linalg.norm(y)))
        self.place, self.idle, self.gap = 0, 0, 0.0

    def _gradient(self) -> Vector:
        return np.asarray(self.A.T @ (self.A @ self.x - self.y), dtype=np.float64).ravel()

    def rows(self, first: int, last: int) -> Vector:
        """Return rows of Q."""
        return _dense(self.A[:, first:last].T @ self.A) if self.whole is None else self.whole[first:last]

    def step(self, moves: bool) -> float | None:
        """Scan some rows of pairs and make the best flip of each; return the gap once no row gained, or None."""
        first = self.place
        if first == 0 and self.made:  # without the rounding of many flips
            self.g = self._gradient()
        last = min(first + ROWS, self.n)
        for i, row in zip(range(first, last), self.rows(first, last), strict=True):
            costs = 2.0 * (self.diagonal - self.x * self.g)
            changes = costs[i] + costs + (4.0 * self.x[i]) * self.x * row
            changes[i] = costs[i]
            j = int(changes.argmin())
            if moves and changes[j] < -self.floor:
                self._follow(i, row)
                if j != i:
                    self._follow(j, self.rows(j, j + 1)[0])
                self.made, self.idle, self.gap = self.made + 1, 0, 0.0
                continue
            self.idle, self.gap = self.idle + 1, max(self.gap, -float(changes[j]))
            if self.idle == self.n:
                return self.gap
        self.place = last % self.n
        return None

    def _follow(self, i: int, row: Vector) -> None:
        self.g -= 2.0 * self.x[i] * row
        self.x[i] = -self.x[i]


def _dense(values: Any) -> Vector:
    return np.asarray(values.toarray() if is_sparse(values) else values, dtype=np.float64)


def _check_total(given: Any, n: int) -> int:
    total = whole_number(given, "total", -(10**18))
    if abs(total) > n:
        raise ValueError(f"total is {total}, but {n} coefficients of ±1 have a sum between {-n} and {n}.")
    if (total - n) % 2:
        parity = "odd" if n % 2 else "even"
        raise ValueError(
            f"total is {total}, but {n} coefficients of ±1 have an {parity} sum, such as {total - 1} or {total + 1}."
        )
    return total


def _lam(A: Any) -> float:
    """Return 1.01·max‖aᵢ‖², which is above ¼max‖aᵢ − aⱼ‖², the exactness threshold of DCPB1."""
    squares = A.power(2).sum(axis=0) if is_sparse(A) else np.einsum("ij,ij->j", A, A)
    return ABOVE_THRESHOLD * float(np.asarray(squares).max()) or 1.0


def _free_sum(A: Any, y: Vector) -> DCPB1:
    """Return the problem with n extra zero columns and sum 0, so that the first n coefficients are free."""
    sparse: Any = sp
    wide = sparse.hstack([A, sp.csc_array(A.shape)]) if is_sparse(A) else np.hstack([A, np.zeros(A.shape)])
    return DCPB1(wide, y, 0, _lam(A))

"""Fit components on a pool of columns, sequentially and then jointly; grow the pool while that helps."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from counterpoise.clock import paused, working_seconds
from counterpoise.estimators.callbacks import Tasks, tell
from counterpoise.estimators.component_results import (
    Found,
    as_it_is,
    certified,
    examined,
    kept,
    moved,
    no_step,
    orientation,
)
from counterpoise.estimators.covariance import (
    Covariance,
    Deflation,
    ExhaustedError,
    Indices,
    Matrix,
    adjusted_variances,
    deflate_by,
    embedded,
    gaining,
    left_out,
    schur,
    truncated,
    upper_bounds,
)
from counterpoise.estimators.options import single_thread
from counterpoise.estimators.pca_input import Plan, Source
from counterpoise.kernels import swap_arc
from counterpoise.problem import Result, Status
from counterpoise.solvers import minimize
from counterpoise.solvers.run import Progress
from counterpoise.solvers.sparse_arc import MOST_SWAPS, TOLERANCE
from counterpoise.supervision import inline, supervised

# The whole covariance is formed for at most WHOLE varying columns, otherwise that of a pool of POOLED.
WHOLE, POOLED = 2000, 1000
# How many columns a component may add to the pool at a time, and how often.
ENTERING, PRICINGS = 256, 20
# Rounds end when one raises the total by less than this share.
SETTLED = 1e-6
# The same while the total is still below the best one.
HOPELESS = 1e-4
# A change must raise the total by this share; smaller rises may be rounding error, and could cycle.
RISES = 1e-10
# How many components a kick replaces at most.
KICKED = 2
# Columns outside a component's support that one visit considers.
LOOKED = 96
# Least number of entries in the first start of a component; more entries find no more and take most of the time.
OPENING = 512
# Shares of the time limit for the sequential fit, if a joint fit follows, and for the final certificates.
FIRST_SHARE, LAST_SHARE = 0.5, 0.15
# Exchanges between two checks of the clock.
SLICE = 64
# With up to this many columns a method takes milliseconds and runs in the calling thread.
INLINE = 128
# Products of up to this many multiplications run in the calling thread, too.
SHORT = 20_000_000


class Fit:
    """Fits components on a pool, sequentially and then jointly."""

    def __init__(self, plan: Plan, tasks: Tasks) -> None:
        self.plan, self.tasks = plan, tasks
        # One task, whose subtasks are the rounds of backfitting.
        self.backfitting: Tasks | None = None
        self.clock, self.told = working_seconds(), 0
        self.rng = np.random.default_rng(plan.run.seed)
        self.rounds, self.interrupted = 0, False
        # Interrupts that a method caught, possibly without reporting them.
        self.pressed: list[int] = []
        # Seconds that the last component took in addition to its method.
        self.setup = 0.0

    def components(
        self, C: Covariance, V: Matrix | None, results: list[Result], kicks: bool
    ) -> tuple[Matrix, list[Result]]:
        """Return components, starting from those so far if any; single-threaded, because products are small."""
        with single_thread():
            if V is None or not self.plan.joint:
                V, results = self.one_by_one(C, V)
            return self.together(C, V, kicks) if self.plan.joint else V, results

    def one_by_one(self, C: Covariance, warm: Matrix | None) -> tuple[Matrix, list[Result]]:
        """Find each component given the previous ones."""
        results: list[Result] = []
        V, G = np.zeros((len(C), 0)), C.C.copy() if self.plan.is_quick else C.C
        for k, s in enumerate(self.plan.sizes):
            # When components are refitted because the pool has grown, no new task begins.
            if k >= self.tasks.done:
                self.tasks.begin("component")
            try:
                C.refuse_exhausted(V)
                if self.plan.is_quick:
                    result = self._quick(C, G, s)
                else:
                    result = self._next(C, V, s, None if warm is None else warm[:, k])
                if result.objective >= 0.0:
                    raise ExhaustedError
            except ExhaustedError as exhausted:
                exhausted.V, exhausted.results = V, results
                raise
            results.append(result)
            V = np.column_stack([V, result.x])
            self.tasks.end()
            self._tell(result.objective, result.x, result.cws_gap)
            if result.status is Status.INTERRUPTED or self.pressed:
                if warm is not None and k + 1 < len(self.plan.sizes):
                    raise KeyboardInterrupt  # those to start from are complete, and kept
                self.interrupted, self.plan = True, self.plan._replace(sizes=self.plan.sizes[: k + 1])
                break
        return V, results

    def _next(self, C: Covariance, V: Matrix, s: int, x0: Matrix | None) -> Result:
        """Find the component after V, or a cheap one if time is up."""
        limit, before, seconds = self.plan.run.max_time, working_seconds(), None
        if limit is not None:
            first = C.first_loadings(V, s)
            left = (FIRST_SHARE if self.plan.joint else 1.0) * limit - (before - self.clock)
            seconds = left / (len(self.plan.sizes) - V.shape[1]) - self.setup
            if seconds <= 0.0 or self.expired():
                return no_step(*first, Status.TIME_LIMIT, self.plan.run.seed)
            x0 = first[0] if x0 is None else x0
        problem = C.problem(V, s)
        with _thread(C):
            result = minimize(problem, x0, **self.plan.run._replace(max_time=seconds).arguments())
        if seconds is not None:
            self.setup = max(0.0, working_seconds() - before - seconds)
        return kept(problem, result, truncated(result.x, s))

    def _quick(self, C: Covariance, G: Matrix, s: int) -> Result:
        """Return the best of several descents from the longest columns of G, the deflated C; then deflate G.

        The result carries no claim. The first descent starts with many entries and drops the smallest ones step by
        step: it finds large groups of columns that are short individually.
        """
        C.refuse_nothing_left(np.diag(G))
        lengths = np.einsum("ij,ij->i", G, G)
        best, most = G[0], -math.inf
        for k, column in enumerate(np.argsort(-lengths, kind="stable")[: self.plan.run.work]):
            x = C.allowed(G[column]).copy()
            if k == 0:
                x = truncated(x, max(OPENING, 8 * s))
                swap_arc.shrink(G, x, s, C.signed)
            swap_arc.descend(G, x, s, TOLERANCE, MOST_SWAPS, C.signed)
            held = np.flatnonzero(x)
            value = float(x[held] @ G[np.ix_(held, held)] @ x[held])
            if value > most:
                best, most = x, value
            if self.expired():
                break
        deflate_by(G, best)
        return no_step(best, -0.5 * most, Status.STATIONARY, self.plan.run.seed)

    def together(self, C: Covariance, V: Matrix, kicks: bool) -> Matrix:
        """Backfit until the total stops rising, then kick or stop; return the best components."""
        if self.backfitting is None:
            self.backfitting = self.tasks.nested("backfit")
        best, best_total = V, -math.inf
        total, due = self._total(C.root @ V), np.ones(V.shape[1], dtype=bool)
        try:
            for _ in range(self.plan.backfit):
                if self.expired(1.0 - LAST_SHARE):
                    break
                before = total
                self.backfitting.begin("round")
                V, total = self._round(C, V, total, due)
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
                    total, due = self._total(C.root @ V), np.ones(V.shape[1], dtype=bool)
        except KeyboardInterrupt:
            self.interrupted = True
        return best

    def settle(self, C: Covariance, V: Matrix) -> tuple[Matrix, list[Result]]:
        """Certify each component given the others while time remains; steps that lower the total are not taken."""
        results: list[Result] = []
        last = 0
        V, (Z, P) = V.copy(), C.products(V)
        total = self._total(Z)
        for k, s in enumerate(self.plan.sizes):
            if self.expired():
                results.append(self._uncertified(C, V, k))
                continue
            try:
                here, polished, held = V[:, k].copy(), V[:, k].copy(), np.flatnonzero(V[:, k])
                problem = C.problem_on(schur(Z, P, without=k), held, s)
                weights = here[held]
                swap_arc.polish(-problem.f.Q[np.ix_(held, held)], weights, C.signed)
                polished[held] = weights
                result, (scores, changed) = None, self._with(C, Z, k, polished)
                if changed >= total * (1.0 - RISES):
                    result = certified(problem, polished, self.plan.run.seed)
                    if result is None:
                        problem = C.problem(np.delete(V, k, axis=1), s)
                        with _thread(C):  # take pair steps
                            result = minimize(problem, here, seed=self.plan.run.seed, max_time=self._left())
                    self.interrupted = result.status is Status.INTERRUPTED or bool(self.pressed)
                    x = truncated(result.x, s)
                    scores, changed = self._with(C, Z, k, x)
                if result is None or changed < total * (1.0 - RISES):
                    result = as_it_is(problem, here, self.plan.run.seed)
                else:
                    result, V[:, k], Z, total = kept(problem, result, x), x, scores, changed
                    P[:, k], last = C.root.T @ scores[:, k], k
            except KeyboardInterrupt:
                self.interrupted = True
                result = self._uncertified(C, V, k)
            results.append(result)
        # Components before the last change were certified against others that have moved since: examine them again.
        for k, s in enumerate(self.plan.sizes[:last]):
            problem = C.problem_on(schur(Z, P, without=k), np.flatnonzero(V[:, k]), s)
            results[k] = examined(problem, results[k])
        if self.backfitting is not None:
            self.backfitting.finish()
        return V, results

    def _uncertified(self, C: Covariance, V: Matrix, k: int) -> Result:
        """Return a result without claims, after the time limit or Ctrl-C."""
        status = Status.INTERRUPTED if self.interrupted else Status.TIME_LIMIT
        added = adjusted_variances(C.root @ np.column_stack([np.delete(V, k, axis=1), V[:, k]]), False)[0][-1]
        return no_step(V[:, k].copy(), -0.5 * float(added), status, self.plan.run.seed)

    def _round(self, C: Covariance, V: Matrix, total: float, due: Matrix) -> tuple[Matrix, float]:
        """Exchange loadings of each component in turn, given all others; keep changes that raise the total.

        ``due`` says which components to examine: those of which another one has changed since they were examined.
        """
        V, (Z, P) = V.copy(), C.products(V)
        for k, s in enumerate(self.plan.sizes):
            if self.expired(1.0 - LAST_SHARE):
                break
            if not due[k]:
                continue
            due[k] = False
            x = self._exchanged(C, schur(Z, P, without=k), V[:, k], P[:, k], s)
            if np.array_equal(x, V[:, k]):
                continue
            scores, changed = self._with(C, Z, k, x)
            if changed > total * (1.0 + RISES):
                V[:, k], P[:, k], Z, total = x, C.root.T @ scores[:, k], scores, changed
                due[np.arange(len(due)) != k] = True
        return V, total

    def _exchanged(self, C: Covariance, by: Deflation, v: Matrix, product: Matrix, s: int) -> Matrix:
        """Return v after exchanges of loadings on the deflated C, among the most promising columns; product is Cv."""
        if len(C) > LOOKED + s:
            columns = C.promising(by, v, product, s, LOOKED)
            G = C.left_on(by, columns)
        else:
            columns, G = np.arange(len(C)), C.deflated(by)
        x = v[columns]
        for _ in range(MOST_SWAPS // SLICE):
            made = int(swap_arc.descend(G, x, s, TOLERANCE, SLICE, C.signed))
            if made < SLICE or self.expired(1.0 - LAST_SHARE):
                break
        return embedded(x, columns, len(C))

    def _kicked(self, C: Covariance, V: Matrix) -> Matrix:
        """Replace up to two components by the largest allowed entries of random columns of C, drawn by variance."""
        V, count, variance = V.copy(), V.shape[1], C.variance
        for k in self.rng.choice(count, size=min(KICKED, count - 1), replace=False):
            column = C.C[self.rng.choice(len(C), p=variance / variance.sum())]
            V[:, k] = truncated(C.allowed(column), self.plan.sizes[k])
        return V

    def _tell(self, objective: float, x: Matrix, gap: float) -> None:
        """Report a component, or all of them after a round, to the listener."""
        self.told += 1
        share = None if self.plan.joint else min(self.told / len(self.plan.sizes), 1.0)
        tell(Progress(self.told, working_seconds() - self.clock, objective, x, gap), share)

    def _total(self, Z: Matrix) -> float:
        """Return the total adjusted variance of scores Z."""
        return float(adjusted_variances(Z, self.plan.by_size)[0].sum())

    def _with(self, C: Covariance, Z: Matrix, k: int, x: Matrix) -> tuple[Matrix, float]:
        """Return the scores with x as component k, and their total adjusted variance."""
        held, scores = np.flatnonzero(x), Z.copy()
        scores[:, k] = C.root[:, held] @ x[held]
        return scores, self._total(scores)

    def _left(self) -> float | None:
        # A method needs a positive limit to return any point.
        limit = self.plan.run.max_time
        return None if limit is None else max(limit - (working_seconds() - self.clock), 1e-3)

    def expired(self, share: float = 1.0) -> bool:
        """Return whether Ctrl-C was pressed or this share of the time limit has passed."""
        limit = self.plan.run.max_time
        self.interrupted = self.interrupted or bool(self.pressed)
        return self.interrupted or (limit is not None and working_seconds() - self.clock >= share * limit)


def _thread(C: Covariance) -> AbstractContextManager[None]:
    """Let a method run in this thread if C is so small that starting another thread would take longer."""
    return inline() if len(C) <= INLINE else nullcontext()


def fit_components(data: Source, fit: Fit, warm: Matrix | None = None) -> Found:
    """Fit on the whole covariance, or on a pool that grows until no outside column would improve a component.

    ``warm`` holds components on all features to start from.
    """
    plan, V = fit.plan, None
    results: list[Result] = []
    pricings = 0
    with paused():
        whole = len(data.varying) <= WHOLE
        pool = data.varying if whole else data.pool(POOLED, len(plan.sizes), plan.run.seed)
        if warm is not None:
            pool = np.union1d(pool, np.flatnonzero(warm.any(axis=1)))
        amount = (data.m or 1) * len(pool) ** 2
        with inline() if amount <= SHORT else nullcontext(), single_thread(amount):
            first = data.covariance(pool)
            if fit.pressed:
                raise KeyboardInterrupt
            C = Covariance(first, plan.signed, plan.deflation, data.root(pool))
        V = None if warm is None else embedded(warm[pool], np.arange(len(pool)), len(C))
    if fit.pressed:
        raise KeyboardInterrupt
    while True:
        try:
            try:
                V, results = fit.components(C, V, results, kicks=pricings == 0)
            except ExhaustedError as exhausted:
                entering = left_out(data, pool, C, exhausted.V, ENTERING)
                if not len(entering):
                    # All variance is explained; there are no further components.
                    V, results = exhausted.V, exhausted.results
                    fit.plan = plan = plan._replace(sizes=plan.sizes[: V.shape[1]])
                    continue
            else:
                pricings += 1
                if pricings == PRICINGS or len(pool) == len(data.varying) or fit.expired(1.0 - LAST_SHARE):
                    break
                entering = supervised(gaining)(data, pool, C, V, plan.sizes, plan.joint, ENTERING)
                if not len(entering):
                    break
            grown = np.union1d(pool, entering)
            larger = Covariance(data.covariance(grown), plan.signed, plan.deflation, data.root(grown))
        except KeyboardInterrupt:
            if V is None:
                raise
            fit.interrupted = True
            break
        places = np.searchsorted(grown, pool)
        V = None if V is None else embedded(V, places, len(grown))
        results = [moved(result, places, len(grown)) for result in results]
        pool, C = grown, larger
    assert V is not None
    with single_thread():
        return _finished(data, pool, C, V, results, fit)


def _finished(data: Source, pool: Indices, C: Covariance, V: Matrix, results: list[Result], fit: Fit) -> Found:
    """Certify the components of the pool, order them and fix their signs, and return them on all features."""
    plan = fit.plan
    if plan.joint:
        V, results = fit.settle(C, V)
    elif fit.interrupted:
        ended = {"status": Status.INTERRUPTED, "message": Status.INTERRUPTED.value, "success": False}
        results = [Result(**{**result, **ended}) for result in results]
    variances, order = adjusted_variances(C.root @ V, plan.by_size)
    V = V[:, order]
    signs = np.array([orientation(v) for v in V.T])
    results = [moved(results[k], pool, data.n, sign) for k, sign in zip(order, signs, strict=True)]
    V = signs * V + 0.0  # no zero is negative
    bounds = upper_bounds(data, C, plan.sizes)
    return Found(embedded(V, pool, data.n), variances, C.root @ V, bounds, results, fit.rounds, plan.sizes)

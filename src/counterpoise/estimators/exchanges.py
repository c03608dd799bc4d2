"""Groups of given sizes with similar means: local optima over exchanges of two units, and searches among them.

With centred scores zᵢ, weighted by √w, and group means m_g = (1/n_g) Σ_{i∈g} zᵢ, the imbalance of G groups is

    F = Σ_{g<h} ‖m_g − m_h‖² = G Σ_g ‖m_g‖² − ‖Σ_g m_g‖²,

the weighted sum of squared standardised mean differences over all pairs of groups. Reassigning a block of units of two
groups g and h, with x = 1 in g and −1 in h and s = Σ xᵢzᵢ over the block, moves m_g to α_g + as and m_h to α_h − bs,
where a = 1/(2n_g), b = 1/(2n_h), and

    F = κ‖s‖² + 2vᵀs + constant,   κ = G(a² + b²) − (a − b)²,   v = G(aα_g − bα_h) − (a − b)(α_g + α_h + Σ_others m).

That is binary least squares, ½‖Zᵀx + v/κ‖² with the sum of x fixed, which the kernels of DCPB's search minimise. The
penalty ½M²Σ_σ(Σ_{i∈σ} xᵢ − c_σ)² keeps the sizes in each stratum σ, with M² larger than any gain from an exchange
across strata; 2M²xᵢxⱼ keeps units i and j apart. Units that stay together are merged, and their scores added.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from joblib import parallel_config

from counterpoise.checks import Vector
from counterpoise.clock import working_seconds
from counterpoise.estimators.callbacks import tell
from counterpoise.estimators.options import single_thread
from counterpoise.estimators.split_input import Labels, Links, random_split
from counterpoise.kernels import exchange
from counterpoise.problem import Status
from counterpoise.solvers.population import Window
from counterpoise.solvers.run import Progress
from counterpoise.supervision import Limits

# Largest block, which limits the size of matrices; if there are more units, a sample is reassigned.
BLOCK = 2000
# If there are more units, samples of this size come first: they do most of the work in a fifth of the time.
SMALL = 250
# Maximum number of sweeps over all pairs of groups if blocks are samples, as these need not converge; a block that
# lowers the imbalance by a smaller share than ENOUGH counts as idle then.
SWEEPS, ENOUGH = 8, 0.01
# Maximum number of exchanges, as a safeguard: descents terminate, because each exchange lowers the imbalance.
MOST = 10**9
# Tabu search as in solvers/binary.py, but shorter, because many good splits are needed.
TENURE, TENURE_SPREAD, TABU_STEPS, TABU_WORK = 3, 4, 5, 2_000_000
# Jobs per batch, random starts, and how many of the best splits are parents.
BATCH, STARTS, PARENTS = 8, 8, 4
# The work of a job is the squared size of a block, times the pairs of groups; a unit takes about 50 ns. A search
# without a given number of jobs spends at most WORK, and ends after PATIENCE in which neither the imbalance nor the
# largest difference fell by a share of ENOUGH.
WORK, PATIENCE = 3e8, 5e7
# Splits whose imbalance is within this factor of the least are near-optimal; the largest difference decides among them.
NEAR = 1.5
# Seconds between two reports of progress within a batch.
PAUSE = 0.5
# Random starts per batch.
DRAWN_AT_ONCE = 64
# Sample size for completing missing draws after the time limit.
SAMPLE = 200
# How many of the best exchanges are sorted before the others.
SORTED = 4096
# Random exchanges proposed per unit, before a descent.
PROPOSALS = 30
# M² as a multiple of Σ‖zᵢ‖², which is twice the expected value of a random split.
PENALTY = 4.0
EPSILON = float(np.finfo(float).eps)


class Found(NamedTuple):
    """A split and its imbalance."""

    imbalance: float
    labels: Labels


class _Gram(NamedTuple):
    """The data of a block for kernels, except the linear term."""

    Q: Vector
    diagonal: Vector
    ceiling: Vector
    largest_row: float


class Groups:
    """Splits of units with weighted centred scores Z into groups of given sizes in every stratum.

    ``sizes`` has a row per stratum and a column per group, ``strata`` holds the number of each unit's stratum. With
    ``links``, a "unit" is a block of units that stay together, with summed scores.
    """

    def __init__(self, Z: Vector, sizes: Labels, strata: Labels, links: Links | None = None) -> None:
        self.Z, self.sizes, self.drawn, self.links = np.ascontiguousarray(Z), sizes, strata, links
        self.n, self.count = len(Z), sizes.shape[1]
        self.pairs = list(itertools.combinations(range(self.count), 2))
        self.group_sizes = sizes.sum(axis=0).astype(np.float64)
        # Units, or blocks of them, in the two largest groups.
        self.largest_pair = min(self.n, int(np.sort(self.group_sizes)[-2:].sum()))
        # Exchanges are between blocks of the same stratum and size.
        self.strata = strata
        if links is not None:
            kinds = strata * (int(links.sizes.max()) + 1) + links.sizes
            self.strata = np.unique(kinds, return_inverse=True)[1].astype(np.int64)
        self.kinds = int(self.strata.max()) + 1
        self.penalty = PENALTY * float(np.einsum("ij,ij->", Z, Z)) + 1.0
        # Two equal halves in every stratum: exchanging their names changes nothing.
        self.mirrored = self.count == 2 and bool((sizes[:, 0] == sizes[:, 1]).all())
        self.members = [np.flatnonzero(self.strata == s) for s in range(self.kinds)]
        whole = self.count == 2 and self.n <= BLOCK
        # The work of a job; the data of a whole table are computed once.
        self.job = len(self.pairs) * min(self.largest_pair, BLOCK) ** 2 * (0.25 if whole else 1.0)
        self.whole = self._gram(np.arange(self.n)) if whole else None

    def means(self, labels: Labels) -> Vector:
        """Return m_g, groups × covariates."""
        indicator = (labels[None, :] == np.arange(self.count)[:, None]).astype(np.float64)
        return np.asarray((indicator @ self.Z) / self.group_sizes[:, None], dtype=np.float64)

    def imbalance(self, labels: Labels) -> float:
        """Return F."""
        means = self.means(labels)
        return float(sum(((means[g] - means[h]) ** 2).sum() for g, h in self.pairs))

    def largest_difference(self, labels: Labels) -> float:
        """Return the largest √w|SMD| over covariates and pairs of groups."""
        return float(np.ptp(self.means(labels), axis=0).max())

    def random(self, rng: np.random.Generator) -> Labels:
        """Return a random split."""
        if self.links is not None:
            return random_split(self.sizes, self.drawn, self.links, rng)
        labels = np.empty(self.n, dtype=np.int64)
        for units, sizes in zip(self.members, self.sizes, strict=True):
            labels[units] = rng.permutation(np.repeat(np.arange(self.count), sizes))
        return labels

    def shaken(self, labels: Labels, rng: np.random.Generator) -> Labels:
        """Return a copy of the split with the labels of some units permuted within their strata."""
        if self.links is not None:
            return self.links.shaken(labels, self.strata, self.drawn, self.count, rng)
        some = rng.random(self.n) < max(4.0 / self.n, 0.25 * rng.random())
        labels = labels.copy()
        for units in self.members:
            moved = units[some[units]]
            labels[moved] = rng.permutation(labels[moved])
        return labels

    def improved(
        self, labels: Labels, rng: np.random.Generator, tabu: bool = False, over: Callable[[], bool] = bool
    ) -> Found:
        """Return a split that no exchange within a stratum improves, or nearly so if blocks are samples.

        ``over()`` is called after every block; if it returns True, the split reached so far is returned.
        """
        labels = labels.copy()
        sizes = (SMALL, BLOCK) if self.n > BLOCK > SMALL else (BLOCK,)
        for size in sizes:
            if size == sizes[0] or not over():
                self._sweep(labels, size, rng, size == sizes[0], tabu and size == sizes[-1], over)
        return Found(self.imbalance(labels), labels)

    def _sweep(
        self, labels: Labels, size: int, rng: np.random.Generator, first: bool, tabu: bool, over: Callable[[], bool]
    ) -> None:
        """Improve pairs of groups in turn by blocks of at most ``size`` units, in place, until none gains."""
        pairs, value = self.pairs, self.imbalance(labels)
        sampled = self.largest_pair > size
        idle, turn = 0, 0
        most = SWEEPS * len(pairs) if sampled else None
        while idle < len(pairs) and turn != most and not (turn and over()):
            shake, look = (each and turn < len(pairs) for each in (first, tabu))
            gained = self._divide(labels, *pairs[turn % len(pairs)], rng, size, shake, look, over)
            if sampled:
                before, value = value, self.imbalance(labels)
                gained = value < (1.0 - ENOUGH) * before
            idle, turn = 0 if gained else idle + 1, turn + 1

    def key(self, labels: Labels) -> bytes:
        """Return a key shared by equal splits and their mirror images."""
        if self.mirrored and labels[0]:
            labels = 1 - labels
        return labels.astype(np.int16).tobytes()

    def neighbours(self, found: Found, rng: np.random.Generator, most: int = BLOCK) -> Iterator[Found]:
        """Yield splits after one exchange, best first; among a sample if there are more than ``most`` units."""
        labels, means = found.labels, self.means(found.labels)
        units = np.arange(self.n) if self.n <= most else np.sort(rng.choice(self.n, most, replace=False))
        slopes = (self.count * means - means.sum(axis=0)) / self.group_sizes[:, None]
        Z, at, inverse = self.Z[units], labels[units], 1.0 / self.group_sizes
        toward = Z @ slopes.T
        squares = np.einsum("ij,ij->i", Z, Z)
        distance = squares[:, None] + squares[None, :] - 2.0 * (Z @ Z.T)
        u, w = inverse[at][:, None], inverse[at][None, :]
        # Unit i moves from group g to h, and unit j from h to g: d = zⱼ − zᵢ is added to the sum of g.
        own, other = toward[np.arange(len(units)), at], toward[:, at]
        slope = (other.T - own[:, None]) - (own[None, :] - other)
        change = 2.0 * slope + (self.count * (u * u + w * w) - (u - w) ** 2) * distance
        allowed = (at[:, None] < at[None, :]) & (self.strata[units][:, None] == self.strata[units][None, :])
        if self.links is not None:
            allowed &= self.links.may_join(labels, units, self.count)
        for k in _ascending(np.where(allowed, change, np.inf).ravel()):
            i, j = (units[place] for place in divmod(k, len(units)))
            moved = labels.copy()
            moved[i], moved[j] = labels[j], labels[i]
            yield Found(found.imbalance + float(change.flat[k]), moved)

    def _gram(self, units: Labels) -> _Gram:
        Z, strata = self.Z[units], self.strata[units]
        Q = Z @ Z.T
        if self.kinds > 1:
            np.add(Q, self.penalty, out=Q, where=strata[:, None] == strata[None, :])
        if self.links is not None:
            a, b = self.links.edges_among(units).T
            Q[a, b] += 2.0 * self.penalty
            Q[b, a] += 2.0 * self.penalty
        diagonal = np.diag(Q).copy()
        np.fill_diagonal(Q, -np.inf)
        ceiling = Q.max(axis=1)
        np.fill_diagonal(Q, diagonal)
        return _Gram(Q, diagonal, ceiling, float(np.abs(Q).sum(axis=1).max()))

    def _divide(
        self,
        labels: Labels,
        g: int,
        h: int,
        rng: np.random.Generator,
        size: int,
        first: bool,
        tabu: bool,
        over: Callable[[], bool],
    ) -> bool:
        """Reassign at most ``size`` units of two groups in place; return whether any label changed.

        If ``first``, random exchanges precede the descent; if ``tabu``, tabu search follows it if time remains.
        """
        units = np.flatnonzero((labels == g) | (labels == h))
        if len(units) > size:
            units = np.sort(rng.choice(units, size, replace=False))
        gram = self.whole or self._gram(units)
        x = np.where(labels[units] == g, 1.0, -1.0)
        p = self.Z[units] @ self._pull(labels, self.Z[units].T @ x, g, h)
        before = x.copy()
        if self.kinds > 1:
            sums = np.bincount(self.strata[units], weights=x, minlength=self.kinds)
            p -= self.penalty * sums[self.strata[units]]
        floor = 64.0 * EPSILON * (gram.largest_row + float(np.abs(p).max()))
        work = np.empty(len(x))
        if first:
            # Randomise first: a descent visits units in order, so neighbours in the table would often move together.
            still = floor or 1.0
            exchange.anneal(gram.Q, p, gram.diagonal, still, still, PROPOSALS * len(x), rng, x, work)
        exchange.descend(gram.Q, p, gram.diagonal, gram.ceiling, floor, MOST, x, work)
        if tabu and not over():
            settled = x.copy()
            steps = min(TABU_STEPS * len(x), max(TABU_STEPS, TABU_WORK // len(x)))
            exchange.tabu(gram.Q, p, gram.diagonal, floor, 0.0, TENURE, TENURE_SPREAD, steps, rng, x, work)
            exchange.descend(gram.Q, p, gram.diagonal, gram.ceiling, floor, MOST, x, work)
            if not self._keeps_rules(labels, units, x, before, (g, h)):
                x = settled
        if np.array_equal(x, before) or not self._keeps_rules(labels, units, x, before, (g, h)):
            return False
        labels[units] = np.where(x > 0.0, g, h)
        return True

    def _pull(self, labels: Labels, s: Vector, g: int, h: int) -> Vector:
        """Return v/κ."""
        means, a, b = self.means(labels), 0.5 / self.group_sizes[g], 0.5 / self.group_sizes[h]
        to_g, to_h = means[g] - a * s, means[h] + b * s
        others = means.sum(axis=0) - means[g] - means[h]
        v = self.count * (a * to_g - b * to_h) - (a - b) * (to_g + to_h + others)
        return np.asarray(v / (self.count * (a * a + b * b) - (a - b) ** 2), dtype=np.float64)

    def _keeps_rules(self, labels: Labels, units: Labels, x: Vector, before: Vector, pair: tuple[int, int]) -> bool:
        """Return whether x keeps the group sizes of every kind of unit, and separates units that must be apart."""
        if np.bincount(self.strata[units], weights=x - before).any():
            return False
        if self.links is None:
            return True
        moved = labels.copy()
        moved[units] = np.where(x > 0.0, *pair)
        return self.links.keeps_apart(moved)


def _ascending(values: Vector) -> Iterator[int]:
    """Yield the positions of the finite values, smallest value first; the first few are found quickly."""
    few = np.sort(np.argpartition(values, min(SORTED, len(values) - 1))[:SORTED])
    yield from (int(k) for k in few[np.argsort(values[few], kind="stable")] if np.isfinite(values[k]))
    if len(few) < len(values):
        rest = np.setdiff1d(np.flatnonzero(np.isfinite(values)), few, assume_unique=True)
        yield from (int(k) for k in rest[np.argsort(values[rest], kind="stable")])


class Budget:
    """Limits of a search: jobs, seconds, seed and threads; ``callback`` is called with its progress.

    Without a number of jobs, ``ends_early`` is set and the number is at most ``most``; it is lower for large tables if
    there is no time limit.
    """

    def __init__(
        self,
        work: int | None,
        max_time: float | None,
        seed: int,
        n_jobs: int | None,
        callback: Callable[[Progress], Any] | None = None,
        most: int = 64,
    ) -> None:
        self.work, self.max_time, self.seed, self.n_jobs, self.callback = work or most, max_time, seed, n_jobs, callback
        self.ends_early = work is None
        self.limits = Limits(max_time)

    def is_over(self) -> bool:
        """Return whether time is up or Ctrl-C was pressed."""
        return self.limits.reached() is not None


def search_groups(groups: Groups, budget: Budget) -> list[Found]:
    """Return distinct local optima within NEAR times the least imbalance found, best first.

    They come from tabu searches that start at random splits, and then at perturbed copies of the best splits.
    """
    found: list[Found] = []

    def job(k: int) -> Found:
        rng = np.random.default_rng([budget.seed, k])
        if k < STARTS or not found:
            labels = groups.random(rng)
        else:
            labels = groups.shaken(found[int(rng.integers(min(len(found), PARENTS)))].labels, rng)
        return groups.improved(labels, rng, tabu=True, over=budget.is_over)

    size, idle, least = BATCH, 0, math.inf
    if budget.ends_early:
        size = min(BATCH, max(2, int(PATIENCE / groups.job)))
        if budget.max_time is None:
            budget.work = min(budget.work, max(2 * size, int(WORK / groups.job)))
    for batch in _batches(job, budget, size):
        best = found[0].imbalance if found else math.inf
        found = _distinct(groups, [*found, *batch])
        found = [each for each in found if each.imbalance <= NEAR * found[0].imbalance]
        before, least = least, min(groups.largest_difference(each.labels) for each in found)
        gained = found[0].imbalance < (1.0 - ENOUGH) * best or least < (1.0 - ENOUGH) * before
        idle = 0 if gained else idle + len(batch)
        if budget.ends_early and idle * groups.job >= PATIENCE:
            break
    return found


def gather_groups(groups: Groups, wanted: int, budget: Budget) -> list[Found]:
    """Return ``wanted`` distinct splits, best first: local optima from random starts.

    If there are too few, splits after one exchange are added in best-first order: take the best waiting split, and add
    its neighbours to the queue.
    """

    def job(k: int) -> Found:
        rng = np.random.default_rng([budget.seed, k])
        return groups.improved(groups.random(rng), rng, over=budget.is_over)

    drawn: list[Found] = []
    for batch in _batches(job, budget, DRAWN_AT_ONCE):
        drawn += batch
        # For large tables the search ends once there are as many near-optimal splits as wanted.
        if budget.ends_early and len(drawn) >= wanted and len(drawn) * groups.job >= WORK:
            near = _distinct(groups, drawn)
            if len(near) >= wanted and near[wanted - 1].imbalance <= NEAR * near[0].imbalance:
                break
    found = _distinct(groups, drawn)
    if len(found) >= wanted:
        return found[:wanted]
    rng = np.random.default_rng([budget.seed, budget.work])
    order = itertools.count()
    waiting = [(each.imbalance, next(order), each) for each in found]
    heapq.heapify(waiting)
    seen = {groups.key(each.labels) for each in found}
    taken: list[Found] = []
    while waiting and len(taken) < wanted:
        each = heapq.heappop(waiting)[2]
        taken.append(Found(groups.imbalance(each.labels), each.labels))
        room = wanted - len(taken)
        late = budget.is_over()
        if late and len(waiting) >= room:
            continue
        for other in groups.neighbours(each, rng, SAMPLE if late else BLOCK):
            if room == 0:
                break
            key = groups.key(other.labels)
            if key not in seen:
                seen.add(key)
                heapq.heappush(waiting, (other.imbalance, next(order), other))
                room -= 1
    return sorted(taken, key=lambda each: each.imbalance)


def _distinct(groups: Groups, found: list[Found]) -> list[Found]:
    """Return distinct splits, best first."""
    unique = {groups.key(each.labels): each for each in reversed(found)}
    return sorted(unique.values(), key=lambda each: (each.imbalance, groups.key(each.labels)))


def _batches(job: Callable[[int], Found], budget: Budget, size: int) -> Iterator[list[Found]]:
    """Yield the results of jobs 0, 1, … in batches until the work is done or time is up; report each batch.

    If time runs out within a batch, only jobs already begun are included; the first batch has at least one. After it
    Ctrl-C ends the batches as a time limit does.
    """
    clock, done, told = working_seconds(), 0, 0.0
    best: list[Found] = []
    begun = False

    def perform(k: int) -> Found:
        nonlocal begun
        begun = True
        return job(k)

    def report() -> None:
        nonlocal told
        told = working_seconds() - clock
        shown = Progress(done, told, best[0].imbalance, best[0].labels.astype(float))
        tell(shown, done / budget.work)
        if budget.callback is not None and budget.callback(shown):
            budget.limits.stopped = Status.STOPPED_BY_CALLBACK

    # Threads whatever joblib's configuration, because jobs share the splits found.
    with single_thread(), parallel_config(backend="threading"):
        window = Window(size, perform, budget.n_jobs, lambda: begun and budget.is_over())
        try:
            for first in range(0, budget.work, size):
                numbers = range(first, min(first + size, budget.work))
                for k in numbers:
                    window.push(k)
                batch: list[Found] = []
                for k in numbers:
                    found = window.take()[1]
                    if found is None:
                        continue
                    batch.append(found)
                    done += 1
                    best = [min([found, *best], key=lambda each: each.imbalance)]
                    if k < numbers[-1] and working_seconds() - clock - told > PAUSE:
                        report()
                report()
                yield batch
                if budget.is_over():
                    return
        except BaseException as error:  # running jobs check the budget and end soon
            if not isinstance(error, GeneratorExit):
                budget.limits.stopped = Status.INTERRUPTED
            if not (isinstance(error, KeyboardInterrupt) and done):
                raise
        finally:
            window.close()

"""Split units into groups with balanced covariates."""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from counterpoise.checks import callback_function, number, random_seed, whole_number, worker_count
from counterpoise.clock import working_seconds
from counterpoise.estimators.covariates import POWERS, Covariates, read_covariates
from counterpoise.estimators.draws import Split
from counterpoise.estimators.exchanges import Budget, Groups, gather_groups, search_groups
from counterpoise.estimators.options import warn
from counterpoise.estimators.randomisation import RandomisationTest
from counterpoise.estimators.split_input import Links, read_links, read_sizes, read_strata
from counterpoise.problem import Status
from counterpoise.sentences import require
from counterpoise.solvers.run import Progress
from counterpoise.tables.native import as_pandas, is_pandas, to_pandas

__all__ = ["RandomisationTest", "Split", "balanced_split"]

# Default number of local searches for a single split, and of random starts per draw for several.
DEFAULT_WORK, STARTS_PER_DRAW = 64, 2
# Number of random splits that a split is compared with.
RANDOM = 100


def balanced_split(
    covariates: Any,
    n_treated: Any,
    *,
    weights: Any = None,
    strata: Any = None,
    categorical: Any = None,
    dates: Any = None,
    moments: int = 1,
    together: Any = None,
    apart: Any = None,
    group_names: Any = None,
    n_draws: int = 1,
    work: int | None = None,
    max_time: float | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    callback: Callable[[Progress], Any] | None = None,
) -> Split:
    """Divide units into groups of given sizes with covariates as balanced as possible.

    Minimises Σ_k w_k SMD_k², the weighted sum of squared standardised mean differences (SMD), defined in
    :attr:`Split.balance`. For two groups with centred scores zᵢ and xᵢ = 1 in group 1, −1 in group 0, the differences
    are ½(1/n₁ + 1/n₀) Σ xᵢzᵢ, so the problem is binary least squares: :class:`counterpoise.problems.DCPB1` with
    A = √w Zᵀ, y = 0 and c = n₁ − n₀. With more groups the SMD² are summed over all pairs of groups, and two groups at a
    time are improved in the same way. A split is a local optimum if no exchange of two units of the same stratum lowers
    the sum. If two groups have more than 2000 units, exchanges are made within samples of 2000 and nothing is claimed.

    A single split is found by tabu search: among the local optima within 1.5 times the smallest sum found, the one with
    the smallest maximum of √w |SMD|. Several draws are the best local optima of descents from random splits; if these
    are too few, the best exchanges of one pair of units provide the rest.

    Parameters
    ----------
    covariates : DataFrame, table of Polars or Arrow, or array, units × covariates
        Numbers; in a table also strings, categories and booleans. Columns of dates are refused unless listed in
        ``dates``. A category counts as much as a number: its weight is divided evenly among the indicators of its
        levels, which are standardised like numbers. Constant columns are listed in :attr:`Split.balance` but ignored.
    n_treated : int, float, sequence or mapping
        The size of group 1; all other units form group 0. A fraction between 0 and 1 is a share of all units. Several
        sizes make several groups: 0, 1, … in that order if they add up to the number of units; otherwise 1, 2, …, and
        the remaining units form group 0. With strata, sizes are divided in proportion to the size of the strata, the
        largest remainders first; a mapping gives an int, a fraction or several sizes for each stratum.
    weights : mapping, Series or array, optional
        Weights w ≥ 0 of the covariates; 1 by default and for names missing from a mapping. Columns of an array are
        named by their positions.
    strata : array, Series or column name, optional
        Group sizes are kept within each stratum, while covariates are balanced over all units. A column named here is
        not a covariate.
    categorical : column name, position or several, optional
        Numeric columns to treat as categories.
    dates : mapping, optional
        Maps columns of dates to what is balanced: "day", the number of days since the first date, or "week", "month",
        "quarter" or "year" as a category.
    moments : int
        2 also balances the squares of centred numbers, so that groups agree in spread as well as in mean (k-plus
        anticlustering, Papenberg 2024); 3 and 4 add the next powers. They are covariates, such as "age²", of the same
        weight.
    together, apart : column name, array, Series or sequence of sets of units, optional
        Units with the same value must share a group (``together``), or must be in different groups (``apart``); units
        without a value are free. Sets contain index labels, or positions for an array. Units that stay together are
        exchanged for the same number of units, which stay together as well or are single. Columns named here are not
        covariates.
    group_names : sequence of str, optional
        The names of groups 0, 1, … in ``labels``, such as ["control", "treated"].
    n_draws : int
        How many distinct near-optimal splits to find. One of them is drawn at random as ``labels`` (or its mirror
        image, if the two groups have equal size in every stratum), which makes :meth:`Split.randomisation_test` exact.
        With 1, ``labels`` is the best split found or, at random, its mirror image.
    work : int, optional
        How many local searches to run. By default 64 for one split, or two per draw. For large tables it is fewer: as
        many as take some seconds, and none after several in a row that lowered neither the objective nor the largest
        difference by a hundredth; or until as many draws as asked for are near the best one.
    max_time : float, optional
        Time limit in seconds; searches still running are cut short, and missing draws are provided by exchanges.
        Ctrl-C does the same, with a warning.
    random_state : int, numpy Generator or None
        None draws a seed, which is stored in ``Split.seed``.
    n_jobs : int, optional
        Number of threads, -1 for one per core. It does not change the split unless ``max_time`` ends the search.
    callback : callable, optional
        Called as ``callback(progress)`` during the search. ``progress`` has ``iteration``, the number of local searches
        done, ``seconds``, and ``objective`` and ``x``, the least objective so far and its groups. If it returns True,
        the search ends, with the best split so far.

    Examples
    --------
    >>> import numpy as np
    >>> covariates = np.random.default_rng(0).standard_normal((40, 4))
    >>> split = balanced_split(covariates, n_treated=20, random_state=0)
    >>> int(split.labels.sum()), bool(split.max_difference < 0.01)
    (20, True)
    """
    clock = working_seconds()
    covariates, native = to_pandas(covariates)
    strata, together, apart = as_pandas(strata), as_pandas(together), as_pandas(apart)
    named = {"strata": strata, "together": together, "apart": apart}
    columns = [given for name, given in named.items() if _names_a_column(covariates, given, name)]
    moments = whole_number(moments, "moments", 1, max(POWERS))
    parts = read_covariates(covariates, as_pandas(weights), categorical, columns, dates, moments)
    strata, together, apart = (
        covariates[given] if isinstance(given, str) else given for given in (strata, together, apart)
    )
    n = len(parts.scores)
    names, codes = read_strata(strata, parts.index, n)
    sizes = read_sizes(n_treated, names, np.bincount(codes, minlength=len(names)))
    labelled = _group_names(group_names, sizes.shape[1])
    links = read_links(together, apart, parts.index, codes, sizes.shape[1])
    n_draws = whole_number(n_draws, "n_draws", 1)
    work = None if work is None else whole_number(work, "work", 1)
    if max_time is not None and number(max_time, "max_time", 0.0) <= 0.0:
        raise ValueError("max_time is 0; a search needs a positive budget.")
    n_jobs, follow = worker_count(n_jobs), callback_function(callback)
    known = secrets.randbits(32) if random_state is None else random_state
    rng = _generator(known)
    counted = parts.scores.any(axis=0) & (parts.weights > 0.0)
    Z = parts.scores[:, counted] * np.sqrt(parts.weights[counted]) if counted.any() else np.zeros((n, 1))
    groups = Groups(links.sums(Z), sizes, codes[links.firsts()], links if links.any else None)
    if not links.any:
        _check_draws(n_draws, groups)
    seed = int(rng.integers(2**31))
    at_random = _at_random(groups, links, parts)
    # Reading the covariates and random splits take their part of the time.
    left = None if max_time is None else max(max_time - (working_seconds() - clock), 1e-3)
    told = None if follow is None else lambda progress: follow(progress._replace(x=progress.x[links.blocks]))
    most = STARTS_PER_DRAW * n_draws if n_draws > 1 else DEFAULT_WORK
    budget = Budget(work, left, seed, n_jobs, told, most)
    if n_draws > 1:
        found = gather_groups(groups, n_draws, budget)
        if len(found) < n_draws:
            raise ValueError(
                f"n_draws is {n_draws}, but only {len(found)} splits were found that satisfy together and apart; ask "
                "for fewer draws, or for more work."
            )
    else:
        near = search_groups(groups, budget)
        found = [min(near, key=lambda each: groups.largest_difference(each.labels))]
    if budget.limits.stopped is Status.INTERRUPTED:
        warn("The search was interrupted; what it found so far is returned.")
    drawn = int(rng.integers(len(found)))
    labels: Any = found[drawn].labels[links.blocks]
    if groups.mirrored and rng.random() < 0.5:
        labels = 1 - labels
    if group_names is not None:
        labels = np.array([labelled[label] for label in labels], dtype=object)
    if native is not None:
        labels = native.column(labels, "group")
    elif parts.index is not None:
        labels = require("Labels by unit need", "pandas").Series(labels, parts.index, name="group").infer_objects()
    split = Split(
        labels,
        np.array([each.labels[links.blocks] for each in found]),
        found[drawn].imbalance,
        np.array([each.imbalance for each in found]),
        tuple(int(size) for size in sizes.sum(axis=0)),
        groups.mirrored,
        parts,
        parts.index,
        labelled,
        int(known) if isinstance(known, int | np.integer) else None,
        at_random,
        native,
        None if strata is None else [str(names[code]) for code in codes],
    )
    if counted.any() and not split.is_better_than_random:
        warn(
            f"This split is NO BETTER THAN RANDOM: its largest standardised difference is {split.max_difference:.3g} "
            f"and its objective {split.objective:.3g}, the medians of {RANDOM} random splits are {at_random[1]:.3g} "
            f"and {at_random[0]:.3g}. Leave out covariates with many levels, or, if there are few units, ask for fewer "
            "draws."
        )
    return split


def _at_random(groups: Groups, links: Links, parts: Covariates) -> tuple[float, float]:
    """Return the medians of the objective and of the largest difference of random splits."""
    rng, scores = np.random.default_rng(0), parts.scores[:, parts.weights > 0.0]
    splits = [groups.random(rng) for _ in range(RANDOM)]
    largest = []
    for labels in splits:
        of_units = labels[links.blocks]
        member = (of_units[None, :] == np.arange(groups.count)[:, None]).astype(np.float64)
        largest.append(float(np.ptp((member @ scores) / groups.group_sizes[:, None], axis=0).max()))
    return float(np.median([groups.imbalance(labels) for labels in splits])), float(np.median(largest))


def _group_names(given: Any, count: int) -> tuple[Any, ...]:
    """Return the names of the groups; 0, 1, … by default."""
    if given is None:
        return tuple(range(count))
    names = [str(name) for name in given] if isinstance(given, Iterable) and not isinstance(given, str) else []
    if len(names) != count or len(set(names)) < count:
        raise ValueError(f"group_names is {given!r}; it must hold {count} different names, group 0 first.")
    return tuple(names)


def _generator(random_state: Any) -> np.random.Generator:
    """Return a generator from an int, a numpy Generator or None."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    try:
        return np.random.default_rng(random_seed(random_state))
    except (TypeError, ValueError) as error:
        right = "it must be an int of at least 0, a numpy Generator or None"
        raise type(error)(f"random_state is {random_state!r}; {right}.") from None


def _names_a_column(covariates: Any, given: Any, name: str) -> bool:
    """Return whether ``given`` is the name of a column; refuse other strings."""
    if not isinstance(given, str):
        return False
    if is_pandas(covariates, "DataFrame") and given in list(covariates.columns):
        return True
    raise ValueError(f"{name} is {given!r}, which is not a column of covariates; give a column or one value per unit.")


def _check_draws(n_draws: int, groups: Groups) -> None:
    """Refuse more draws than there are splits."""
    each = ((sum(sizes[: g + 1]), size) for sizes in groups.sizes.tolist() for g, size in enumerate(sizes))
    count = math.prod(itertools.starmap(math.comb, each))
    apart = ", not counting mirror images" if groups.mirrored else ""
    count = count // 2 if groups.mirrored else count
    if n_draws > count:
        raise ValueError(f"n_draws is {n_draws}, but there are {count} splits{apart}; ask for at most {count}.")

"""Estimators: rules of portfolios against a MILP and enumeration, p-values under the null, no look at the future."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import scipy.optimize
import scipy.stats

import counterpoise as cp
from fuzz.claims import CLAIMS, Examiner, Status
from fuzz.optima import candidates
from fuzz.reference import Case

# An included name is held at this weight at least (IndexTracker, ``include``).
LEAST_HELD = 1e-4
RULES_HOLD = 1e-9


class Report(Examiner):
    """Counts and findings without a problem of the grammar."""

    brute = False

    def __init__(self, spec):
        self.spec, self.findings, self.counts, self.refusals = spec, [], {}, {}


def examine(seed, index):
    """Check one rule set with both methods, one set of p-values, or one backtest."""
    rng = np.random.default_rng([seed, index, 4])
    report = Report({"seed": seed, "index": index})
    if index % 8 == 7:
        null(report, rng)
    elif index % 8 == 6:
        backtest(report, rng)
    else:
        rules(report, rng)
    return report


# Rules of IndexTracker.


def draw_rules(rng):
    """Return the data and the rules of a tracker: tight sums on a grid, groups, names that must or must not be held."""
    n = int(rng.integers(3, 8)) if rng.random() < 0.85 else int(rng.integers(16, 31))
    X = 0.01 * rng.standard_normal((int(rng.integers(2, 12)), n))
    y = X @ rng.dirichlet(np.ones(n)) + 0.002 * rng.standard_normal(len(X))
    grid = np.array([0.0, 0.05, 0.1, 0.25, 0.3, 0.37, 0.5])
    lo = rng.choice(grid, n) if rng.random() < 0.7 else np.zeros(n)
    hi = np.minimum(1.0, lo + rng.choice([0.0, 0.0, 0.1, 0.3, 1.0], n)) if rng.random() < 0.8 else np.ones(n)
    hi = np.maximum(hi, lo)
    made = {"n_assets": int(rng.integers(1, n + 1)), "min_weight": lo, "max_weight": hi}
    if rng.random() < 0.4:
        groups = rng.integers(0, 3, n)
        names = sorted(set(groups.tolist()))
        limits = {g: tuple(sorted(rng.choice([0.0, 0.2, 0.4, 0.5, 0.8, 1.0], 2))) for g in names if rng.random() < 0.8}
        made |= {"groups": groups, "group_limits": {g: (float(a), float(b)) for g, (a, b) in limits.items()}}
    if rng.random() < 0.25:
        made["include"] = rng.choice(n, 1).tolist()
    if rng.random() < 0.25:
        made["exclude"] = [i for i in rng.choice(n, 1).tolist() if i not in made.get("include", [])]
    if rng.random() < 0.3:
        made |= {"previous_weights": rng.dirichlet(np.ones(n)), "transaction_cost": float(10.0 ** rng.uniform(-6, -3))}
    return X, y, made


# Names up to which all sets of them are tried.
FEW_NAMES = 8


def bounds_of(made, n):
    """Return lo, hi and who must be held."""
    lo, hi, must = (
        np.array(made["min_weight"], dtype=float),
        np.array(made["max_weight"], dtype=float),
        np.zeros(n, dtype=bool),
    )
    for i in made.get("include", []):
        must[i], lo[i] = True, max(lo[i], LEAST_HELD)
    for i in made.get("exclude", []):
        hi[i] = 0.0
    return lo, hi, must


def milp_point(made, n):
    """Return a portfolio that obeys all rules, or None if HiGHS proves that there is none: w, then z who is held."""
    lo, hi, must = bounds_of(made, n)
    eye, zero = np.eye(n), np.zeros((n, n))
    rows = [
        scipy.optimize.LinearConstraint(np.hstack([eye, -np.diag(hi)]), -np.inf, 0.0),
        scipy.optimize.LinearConstraint(np.hstack([eye, -np.diag(lo)]), 0.0, np.inf),
        scipy.optimize.LinearConstraint(np.r_[np.ones(n), np.zeros(n)], 1.0, 1.0),
        scipy.optimize.LinearConstraint(np.r_[np.zeros(n), np.ones(n)], 0.0, made["n_assets"]),
    ]
    for group, (low, high) in made.get("group_limits", {}).items():
        rows.append(scipy.optimize.LinearConstraint(np.r_[(made["groups"] == group).astype(float), zero[0]], low, high))
    held = scipy.optimize.Bounds(np.r_[np.zeros(n), must.astype(float)], np.r_[hi, np.where(hi > 0.0, 1.0, 0.0)])
    found = scipy.optimize.milp(
        np.zeros(2 * n), constraints=rows, bounds=held, integrality=np.r_[np.zeros(n), np.ones(n)]
    )
    if found.x is not None:
        return found.x[:n]
    return enumerated_point(made, n) if n <= FEW_NAMES else None


def enumerated_point(made, n):
    """Return a portfolio that obeys all rules by a linear program for each set of names: HiGHS has missed some."""
    lo, hi, must = bounds_of(made, n)
    limits = [(made["groups"] == group, *between) for group, between in made.get("group_limits", {}).items()]
    rows = [sign * members.astype(float) for members, _, _ in limits for sign in (1.0, -1.0)]
    sides = [side for _, low, high in limits for side in (high, -low)]
    for size in range(1, min(n, made["n_assets"]) + 1):
        for names in itertools.combinations(range(n), size):
            on = np.isin(np.arange(n), names)
            if (must & ~on).any() or lo[on].sum() > 1.0 + 1e-12 or hi[on].sum() < 1.0 - 1e-12:
                continue
            bounds = list(zip(np.where(on, lo, 0.0), np.where(on, hi, 0.0), strict=True))
            found = scipy.optimize.linprog(np.zeros(n), rows or None, sides or None, np.ones((1, n)), [1.0], bounds)
            if found.status == 0:
                return found.x
    return None


def broken(made, w):
    """Return by how much weights break the rules, the largest."""
    n = len(w)
    lo, hi, must = bounds_of(made, n)
    on = w != 0.0
    amounts = [
        abs(w.sum() - 1.0),
        np.max(np.where(on, np.maximum(lo - w, w - hi), 0.0)),
        max(0, on.sum() - made["n_assets"]),
    ]
    amounts.append(float((must & ~on).any()))
    for group, (low, high) in made.get("group_limits", {}).items():
        total = w[made["groups"] == group].sum()
        amounts.append(max(low - total, total - high, 0.0))
    return float(max(amounts))


def least_on(X, y, made, held):
    """Return the least objective of portfolios that hold exactly these names, by faces; without groups."""
    n, (lo, hi, _) = len(held), bounds_of(made, X.shape[1])
    kinks = []
    cost, previous = made.get("transaction_cost", 0.0), np.asarray(made.get("previous_weights", np.zeros(X.shape[1])))
    held = list(held)
    if cost:
        kinks = [[previous[held].tolist(), [cost] * n]]
    spec = {
        "f": {"kind": "ls", "A": X[:, held], "y": y, "scale": 1.0},
        "lo": lo[held],
        "hi": hi[held],
        "w": np.zeros(n),
        "kinks": kinks,
        "g": {"kind": None, "lam": 0.0},
        "u": {"kind": "sum", "c": 1.0},
    }
    if lo[held].sum() > 1.0 + 1e-12 or hi[held].sum() < 1.0 - 1e-12:
        return np.inf
    points = candidates(Case(spec))
    sold = cost * float(np.delete(previous, held).sum())
    return np.inf if points is None or not len(points[0]) else float(points[1].min()) + sold


def rules(report, rng):
    """A tracker finds a portfolio if and only if there is one; it obeys the rules; SWAP_OPTIMAL means it."""
    X, y, made = draw_rules(rng)
    n = X.shape[1]
    report.spec |= {
        "X": X.tolist(),
        "y": y.tolist(),
        "rules": {k: np.asarray(v).tolist() if isinstance(v, np.ndarray) else v for k, v in made.items()},
    }
    some = milp_point(made, n)
    for method in ("swap", "search" if rng.random() < 0.5 else "bcd-g"):
        label = f"IndexTracker(method={method!r}, **rules)"
        tracker = cp.IndexTracker(
            **made, method=method, work=4 if method == "search" else None, random_state=0, max_time=10.0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            fitted = report.call(label, lambda tracker=tracker: tracker.fit(X, y))
        report.made(
            "feasible rules",
            (fitted is None) == (some is None),
            label,
            f"fit {'refused' if fitted is None else 'made'}, MILP {'finds none' if some is None else f'finds {some.round(6).tolist()}'}: {report.spec['rules']}",
        )
        if fitted is None:
            continue
        w = np.asarray(fitted.coef_)
        report.made(
            "rules hold",
            broken(made, w) <= RULES_HOLD,
            label,
            f"by {broken(made, w):.3g}: {w.tolist()}, {report.spec['rules']}",
        )
        value = 0.5 * float(((X @ w - y) ** 2).sum())
        cost = (
            made.get("transaction_cost", 0.0) * np.abs(w - made.get("previous_weights", 0.0)).sum()
            if "previous_weights" in made
            else 0.0
        )
        report.made(
            "tracker objective",
            abs(fitted.result_.objective - value - cost) <= 1e-12 * (1.0 + abs(value)),
            label,
            f"says {fitted.result_.objective!r}, is {value + cost!r}",
        )
        if fitted.result_.status in CLAIMS:
            _two_weights(report, label, X, y, made, w, fitted)
        if fitted.result_.status is Status.SWAP_OPTIMAL and "group_limits" not in made and n < 8:
            _exchanges(report, label, X, y, made, w, value + cost, fitted.result_.tolerance)


def _two_weights(report, label, X, y, made, w, fitted):
    """No two weights can be changed for the better: both inside their limits, or one of them 0."""
    n, (lo, hi, _) = len(w), bounds_of(made, len(w))
    points = []
    for i, j in itertools.combinations(range(n), 2):
        total = w[i] + w[j]
        low, high = max(lo[i], total - hi[j]), min(hi[i], total - lo[j])
        inside = low + (high - low) * np.linspace(0.0, 1.0, 201) if high >= low else np.zeros(0)
        first = np.r_[inside, 0.0, total]
        moved = np.repeat(w[None], len(first), axis=0)
        moved[:, i], moved[:, j] = first, np.where(first == total, 0.0, total - first)
        points.append(moved)
    points = np.concatenate(points)
    values = 0.5 * ((points @ X.T - y) ** 2).sum(axis=1)
    if "previous_weights" in made:
        values += made["transaction_cost"] * np.abs(points - made["previous_weights"]).sum(axis=1)
    here = fitted.result_.objective
    for k in np.argsort(values)[:50]:
        if broken(made, points[k]) <= 1e-12:
            gain, room = here - values[k], fitted.result_.tolerance + 1e-13 * (0.5 * float(y @ y) + here)
            said = f"{w.tolist()} → {points[k].tolist()} gains {gain:.4g} of {here:.4g}, cws_gap_ {fitted.cws_gap_:.3g}, {report.spec['rules']}"
            report.made("no two weights", gain <= room, label, said)
            return


def _exchanges(report, label, X, y, made, w, value, tolerance):
    """No exchange of one name for another lowers the objective, new weights included."""
    n, held = len(w), np.flatnonzero(w)
    must = bounds_of(made, n)[2]
    room = tolerance + 1e-13 * (0.5 * float(y @ y) + value)
    for leaves, enters in itertools.product(held, np.setdiff1d(np.arange(n), held)):
        if must[leaves]:
            continue
        best = least_on(X, y, made, [*np.setdiff1d(held, [leaves]), enters])
        report.made(
            "no exchange of names",
            value - best <= room,
            label,
            f"{leaves} for {enters}: {value:.12g} → {best:.12g}, tolerance {tolerance:.3g}, {report.spec['rules']}",
        )


# p-values.


def null(report, rng, draws=60):
    """Under the null hypothesis p-values of the randomisation test are uniform, up to the steps of the reference."""
    n, found = int(rng.integers(8, 17)), []
    n_treated = n // 2 if rng.random() < 0.6 else int(rng.integers(3, n - 2))
    alternative = str(rng.choice(["two-sided", "greater", "less"]))
    covariates = rng.standard_normal((n, 2))
    outcome = rng.standard_normal(n) + covariates[:, 0]
    for _ in range(draws):
        split = cp.balanced_split(covariates, n_treated, n_draws=20, random_state=int(rng.integers(2**31)))
        test = split.randomisation_test(outcome, alternative=alternative)
        signed = {"two-sided": np.abs, "greater": np.positive, "less": np.negative}[alternative]
        values, mine = signed(test.null), signed(test.statistic)
        slack = 1e-9 * np.abs(test.null).max()
        above, ties = np.mean(values > mine + slack), np.mean(np.abs(values - mine) <= slack)
        report.made(
            "p-value",
            abs(test.p_value - above - ties) <= 1e-12 and ties > 0.0,
            "randomisation_test",
            f"says {test.p_value}, the reference gives {above + ties}",
        )
        found.append(above + rng.random() * ties)
    p = float(scipy.stats.kstest(found, "uniform").pvalue)
    report.made(
        "p-values uniform",
        p > 1e-6,
        f"balanced_split({n} units, {n_treated} treated), {alternative}",
        f"KS p-value {p:.2g} of {draws} draws",
    )


# Backtests.


def backtest(report, rng):
    """What comes after a rebalance changes neither the weights bought there nor the returns before it."""
    rows, n, window, step = 60, 6, int(rng.integers(15, 30)), int(rng.integers(3, 10))
    R = 0.01 * rng.standard_normal((rows, n))
    index = R @ rng.dirichlet(np.ones(n)) + 0.001 * rng.standard_normal(rows)
    tracker = cp.IndexTracker(
        3, method=str(rng.choice(["bcd-g", "swap"])), random_state=0, transaction_cost=float(rng.choice([0.0, 1e-5]))
    )
    options = {
        "window": window,
        "step": step,
        "cost": 0.001,
        "expanding": bool(rng.random() < 0.3),
        "hand_over": bool(rng.random() < 0.5),
    }
    first = cp.backtest(tracker, R, index, **options)
    cut = int(rng.integers(window + 1, rows))
    R2, index2 = R.copy(), index.copy()
    R2[cut:] = 0.02 * rng.standard_normal((rows - cut, n))
    index2[cut:] = 0.02 * rng.standard_normal(rows - cut)
    second = cp.backtest(tracker, R2, index2, **options)
    known = np.flatnonzero(np.asarray(first.rebalances) <= cut)
    before = cut - window
    same = (
        np.array_equal(np.asarray(first.weights)[known], np.asarray(second.weights)[known])
        and np.array_equal(np.asarray(first.portfolio)[:before], np.asarray(second.portfolio)[:before])
        and np.array_equal(np.asarray(first.turnover)[known], np.asarray(second.turnover)[known])
    )
    report.made("no look-ahead", same, f"backtest({options})", f"rows from {cut} on change what is before")
    # Bought and held, by the rules of the documentation.
    held, value, gross = None, [], []
    for t in range(window, rows):
        places = np.flatnonzero(np.asarray(first.rebalances) == t)
        fee = 0.0
        if len(places):
            w = np.asarray(first.weights)[places[0]]
            fee = 0.001 * np.abs(w - (0.0 if held is None else held)).sum()
            held = w
        g = float(held @ R[t])
        gross.append(g)
        value.append((1.0 - fee) * (1.0 + g) - 1.0)
        held = held * (1.0 + R[t]) / (1.0 + g)
    off = max(np.abs(np.asarray(first.portfolio) - value).max(), np.abs(np.asarray(first.gross) - gross).max())
    report.made("bought and held", off <= 1e-12, f"backtest({options})", f"returns differ by {off:.3g}")

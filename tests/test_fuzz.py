"""The fixed profile of the fuzz machine, and tests of the machine itself."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.optimize

import naive
from conftest import COMPILED, parts, scaled
from fuzz import estimators, generator, medium, optima, small, words
from fuzz.claims import Examiner, Status
from fuzz.pairs import best_pair
from fuzz.reference import Case, in_sums

SEED = 12
# Small problems (seed, index, plain) at which longer runs found something, without the terms of enrich.py: slow tails of
# bcd-l on the sphere and of pairs and blocks on faces that are nearly flat, the tolerance at F = 0, a gap that the grid of the reference missed, steps that repairing the sum undid, x = 0 by columns,
# a sparse A without entries, slow tails of bcd-g on the sphere, a unit vector of which nothing is left, gaps between two
# valleys of a pair, and exchanges that gain rounding of the shift of Q.
FOUND = (
    *((21, 237, True), (31, 255, True), (31, 870, True), (31, 922, True), (31, 1521, True), (31, 2604, True)),
    *((31, 3384, True), (31, 4153, True), (31, 5646, True), (501, 536, False), (501, 1236, False)),
    *((601, 57, False), (601, 73, False), (601, 575, False), (601, 821, False)),
    *((1001, 6553, False), (1001, 9780, False), (1002, 3030, False), (1003, 5699, False), (1005, 9370, False)),
    *((3001, 1409, False), (3002, 3984, False)),
)
# The same with those terms: search for a loss on the sphere, slow tails of pairs and blocks there and of losses on a face,
# exchanges under floors while there is room, a pool that held too many, zeros that got the rounding of a limit, exchanges
# for what does not fit, a zigzag between the walls of a steep loss, Newton steps undone by repairs of the sum without
# end, weights on a support with groups where Q is singular, walks where x = 0 is the only feasible point, a claim of
# exchanges beyond the rounding of eigenvalues, a sum with steep slopes (a fault of the reference), walks that went on
# below the rounding of a loss, steps on a nearly singular face that overflow, losses near 0 that the reference did not
# minimise, floors beside negative weights that the reference misread, a gain below the rounding of eigenvalues, and
# valleys on the sphere too narrow for the grid of the reference, Newton steps that hardly close the gap of a loss, and
# losses on a sphere whose slopes are tiny beside the bound of their curvature.
FOUND_RICH = (
    *((5000, 132, True), (5000, 388, True), (5000, 538, True), (5001, 459, True), (5010, 491, True)),
    *((5010, 2824, True), (5010, 3014, True), (6000, 2609, False), (6000, 467, False), (6000, 489, False)),
    *((6000, 3664, False), (7001, 313, False), (7001, 767, False), (7003, 125, False), (7003, 520, False)),
    *((20003, 6340, False), (20003, 7232, False), (20003, 7642, False)),
    *((41000, 17059, False), (41000, 68091, False), (41000, 80201, False), (41000, 95291, False)),
    *((51000, 9938, False), (51000, 14209, False), (52000, 35083, False), (52000, 62282, False)),
    *((53000, 39701, False), (61000, 14057, False), (61000, 20606, False), (61000, 35218, False)),
    *((0, 17310, False), (0, 31842, False), (0, 90054, False)),
)
# Trackers: exchanges under floors that admit no further name, and names with one weight.
FOUND_LARGER = ((0, 1663),)
FOUND_TRACKERS = ((3001, 93), (1003, 26), (1004, 80), (1005, 88), (1500, 220), (1500, 280))


def told(one, index):
    """What to print of a finding."""
    return [f"fuzz index {index}, {check}, {run}: {detail}" for check, run, detail in one.findings]


def is_common(index):
    """Whether a problem needs no kernel that hardly any other test needs, so that the quick part compiles few."""
    spec = generator.spec(SEED, index, plain=True)
    g, u = spec["g"]["kind"], spec["u"]
    return g != "at most" if u["kind"] == "sphere" else not u.get("groups") or g in (None, "at most")


@pytest.mark.parametrize("chunk", parts(8, quick=2))
def test_small_problems_against_brute_force(chunk):
    size = scaled(60, 3)
    indices = [k for k in range(chunk * size, (chunk + 1) * size) if chunk > 1 or is_common(k)]
    found = [line for k in indices for line in told(small.examine(SEED, k, plain=True), k)]
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.compiled
def test_problems_at_which_something_was_found():
    found = [line for seed, k, plain in FOUND for line in told(small.examine(seed, k, plain, False), f"{seed}, {k}")]
    found += [line for seed, k, plain in FOUND_RICH for line in told(small.examine(seed, k, plain), f"{seed}, {k}")]
    found += [line for seed, k in FOUND_LARGER for line in told(medium.examine(seed, k), f"{seed}, {k}")]
    found += [line for seed, k in FOUND_TRACKERS for line in told(estimators.examine(seed, k), f"{seed}, {k}")]
    assert not found, "\n".join(found)


@pytest.mark.compiled
@pytest.mark.parametrize("chunk", parts(3))
def test_larger_problems_against_what_must_not_matter(chunk):
    found = [line for k in range(4 * chunk, 4 * chunk + 4) for line in told(medium.examine(SEED, k, plain=True), k)]
    assert not found, "\n".join(found)


@pytest.mark.compiled
def test_bad_calls_are_refused_in_a_sentence():
    found = [line for k in range(2) for line in told(words.examine(SEED, k), k)]
    assert not found, "\n".join(found)


@pytest.mark.compiled
def test_rules_of_trackers_against_a_milp_and_enumeration():
    found = [line for k in range(40) if k % 8 < 6 for line in told(estimators.examine(SEED, k), k)]
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.compiled
def test_p_values_are_uniform():
    report = estimators.Report({})
    estimators.null(report, np.random.default_rng(SEED), draws=250)
    assert report.counts["p-values uniform"] == 1
    assert not report.findings, report.findings


@pytest.mark.compiled
def test_backtests_do_not_look_ahead():
    report = estimators.Report({})
    estimators.backtest(report, np.random.default_rng(SEED))
    assert report.counts["no look-ahead"] == 1
    assert not report.findings, report.findings


# The machine itself.


def case_of(spec):
    """The same problem for the other set of references, tests/naive.py."""
    case = Case(spec)
    kinks = [np.array([kink[k] for kink in case.kinks]).reshape(-1, case.n) for k in (0, 1)]
    g = {None: "none", "top": "top", "norm": "norm", "square": "square"}[case.g]
    return case, naive.Case(case.Q, case.p, case.lo, case.hi, case.w, *kinks, g, case.lam, case.s)


@pytest.mark.parametrize("index", range(scaled(24, 6)))
def test_the_two_references_of_pairs_agree(index):
    spec = generator.spec(SEED, index, plain=True, rich=False)
    case, other = case_of(spec)
    if not COMPILED and case.n > 5:
        return
    points = optima.candidates(case, penalised=False)
    if points is None or not len(points[0]):
        return
    x = points[0][index % len(points[0])]
    on = "line" if case.on_line else "arc"
    if case.on_line and not (np.isfinite(case.lo).all() and np.isfinite(case.hi).all()):
        other = dataclasses.replace(other, lo=case.low, hi=case.high)
    expected = naive.largest_gap(other, x, on)
    _, gain, point = best_pair(case, x)
    assert case.violation(point) <= 1e-12
    assert case.value(x) - case.value(point) == pytest.approx(gain, rel=1e-6, abs=4 * case.noise(x))
    assert gain >= expected * (1 - 1e-6) - case.noise(x)


@pytest.mark.parametrize("index", range(scaled(30, 8)))
def test_no_grid_beats_an_enumerated_optimum(index):
    """The least of all candidates is below every feasible point of a sample, and no pair leads lower."""
    spec = generator.spec(SEED, 1000 + index, plain=True)
    case = Case(in_sums(spec))
    points = optima.candidates(case)
    if points is None or case.g == "norm" or not len(points[0]) or case.size(points[0][0]) > 1e6:
        return
    x = points[0][int(points[1].argmin())]
    gain, _, _ = best_pair(case, x)
    assert case.violation(x) <= 1e-12
    assert gain <= 1e-9 * case.size(x)


def loss_specs(count):
    """Problems with a loss on a polytope, as many as asked for."""
    specs = (generator.spec(SEED, k, plain=True) for k in range(100_000))
    fitting = (s for s in specs if s["f"]["kind"] == "loss" and s["u"]["kind"] == "sum" and not s["kinks"])
    return itertools.islice((s for s in fitting if s["g"]["kind"] is None and not s.get("floor")), count)


def test_losses_are_minimised_on_supports():
    """By the gap of Frank and Wolfe, from a linear program, F is within rounding of its least value."""
    for spec in loss_specs(scaled(8, 3)):
        case = Case(in_sums(spec))
        _, x = optima.sparse_best(case)(range(case.n))
        if x is None:
            continue
        slopes, rows = case.gradient(x) + case.w, [np.isin(np.arange(case.n), at) for at, _, _ in case.groups]
        limits = np.array([group[1:] for group in case.groups]).reshape(-1, 2)
        program = scipy.optimize.milp(
            slopes,
            bounds=scipy.optimize.Bounds(case.low, case.high),
            constraints=[
                scipy.optimize.LinearConstraint(np.ones(case.n), case.c, case.c),
                *(
                    scipy.optimize.LinearConstraint(row.astype(float), *ends)
                    for row, ends in zip(rows, limits, strict=True)
                ),
            ],
        )
        assert case.violation(x) <= 1e-12
        assert slopes @ x - program.fun <= 1e-8 * case.size(x)


def test_points_of_the_signed_sphere_are_stationary(rng):
    """The least of all points of supports and signs is below a sample, and no pair leads lower."""
    for k in range(scaled(6, 2)):
        n, s = 3 + k % 2, 2
        Q, lam = rng.standard_normal((n, n)), float(rng.exponential())
        spec = {"f": {"kind": "quad", "Q": Q + Q.T, "p": rng.standard_normal(n) * (k % 3 > 0)}, "lo": [-np.inf] * n, "hi": [np.inf] * n, "w": [0.0] * n, "kinks": [[[0.0] * n, [lam] * n]], "g": {"kind": ["top", "at most"][k % 2], "lam": lam, "s": s}, "u": {"kind": "sphere", "signed": True}}  # fmt: skip
        case = Case(spec)
        points, values = optima.candidates(case)
        sample = rng.standard_normal((20_000, n))
        if case.g == "at most":
            sample[np.abs(sample) < np.sort(np.abs(sample), axis=1)[:, n - s, None]] = 0.0
        sample /= np.linalg.norm(sample, axis=1)[:, None]
        assert values.min() <= case.values(sample).min() + 1e-12
        assert best_pair(case, points[values.argmin()])[0] <= 1e-9


def test_exchanges_agree_with_the_other_reference(rng):
    for _ in range(scaled(6, 2)):
        n, s = 5, int(rng.integers(1, 4))
        A, y = rng.standard_normal((4, n)), rng.standard_normal(4)
        spec = {"f": {"kind": "ls", "A": A, "y": y, "scale": 1.0}, "lo": [0.0] * n, "hi": [1.0] * n, "w": [0.0] * n, "kinks": [], "g": {"kind": "top", "lam": 0.0, "s": s}, "u": {"kind": "sum", "c": 1.0}}  # fmt: skip
        case = Case(spec)
        least = optima.sparse_best(case)
        _, x = least(rng.choice(n, s, replace=False))
        zero, one = np.zeros(n), np.ones(n)
        expected = naive.largest_swap_decrease(A, y, s, x, zero, one, zero, zero)
        best, _ = optima.best_exchange(case, x, least)
        assert case.value(x) - best == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda r: r.x.__setitem__(0, r.x[0] + 1e-3), "feasible"),
        (lambda r: r.update(objective=r.objective - 1e-6), "objective"),
        (lambda r: r.update(x=np.full(4, 0.25), objective=None), "no pair gains"),
        (lambda r: r.update(status=Status.OPTIMAL, x=np.full(4, 0.25), objective=None), "optimal"),
        (lambda r: r.update(status=Status.SWAP_OPTIMAL, x=np.array([1.0, 0, 0, 0]), objective=None), "no exchange gains"),
        (lambda r: r.update(tolerance=1.0), "tolerance"),
        (lambda r: r.update(status=Status.TIME_LIMIT), "ends"),
        (lambda r: r.update(history=np.vstack([r.history, [1e6, 1e6, r.objective + 1.0]])), "history falls"),
        (lambda r: r.update(history=r.history + np.array([0.0, 0.0, 1e-14])), "history ends"),
        (lambda r: r.update(x=np.full(4, 0.25), objective=None, cws_gap=0.0), "cws_gap not less"),
        (lambda r: r.update(cws_gap=1.0), "cws_gap not more"),
        (lambda r: r.update(convex_gap=1.0), "convex"),
        (lambda r: r.update(convex_gap=1.0, support_gap=1.0), "one bound"),
        (lambda r: r.update(x=np.full(4, 0.25), objective=None, support_gap=1.0), "support"),
        (lambda r: r.update(x=np.array([0.9, 0.1, 0, 0]), objective=None, support_gap=0.0), "support_gap"),
    ],
)  # fmt: skip
def test_the_machine_finds_planted_faults(change, check):
    """A false claim of each kind is noticed, and a true one is not."""
    A = np.array([[1.0, 0.2, 0.5, -0.3], [0.1, 0.9, -0.4, 0.8], [0.3, 0.3, 1.0, 0.2]])
    spec = {"f": {"kind": "ls", "A": A.tolist(), "y": [0.2, 0.7, 0.1], "scale": 1.0}, "lo": [0.0] * 4, "hi": [1.0] * 4, "w": [0.0] * 4, "kinks": [], "g": {"kind": "top", "lam": 10.0, "s": 2}, "u": {"kind": "sum", "c": 1.0}, "n": 4}  # fmt: skip
    one = Examiner(spec)
    result = one.run("bcd-g")
    assert result.status is Status.CERTIFIED and not one.findings
    change(result)
    if result.objective is None:
        result.objective = one.case.value(result.x)
        result.history = np.array([[0, 0, result.objective]])
    one.check(result, "planted", "bcd-g")
    assert check in [found[0] for found in one.findings], one.findings

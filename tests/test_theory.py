"""The measurements behind the theory page: each must notice when the statement it measures is false."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import counterpoise as cp
from conftest import scaled
from counterpoise.experiments import hierarchy, theory, theory_pages
from counterpoise.experiments.hierarchy import FINDERS, LEVELS, Landscape, draw_instance, measure_hierarchy
from counterpoise.experiments.theory import (
    NAMES,
    THETAS,
    Findings,
    measure_complexity,
    measure_constants,
    measure_decrease,
    measure_exactness,
    measure_rate,
)
from naive import (
    binary_optimum,
    case_of,
    largest_block_norm,
    pair_step,
    sparse_pca_optimum,
    sparse_tracking_optimum,
)


def landscape_of(name, n=6, s=2, seed=3):
    instance = draw_instance(name, n, s, seed)
    return Landscape(instance, instance.problem(1.01 * instance.threshold()))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [1, 2])
def test_enumeration_finds_the_optimum_of_an_independent_one(name, seed):
    landscape = landscape_of(name, n=7, s=3, seed=seed)
    instance = landscape.instance
    if name == "SIT":
        value, x = sparse_tracking_optimum(instance.A, instance.y, instance.s)
    elif name == "NNSPCA":
        value, x = sparse_pca_optimum(instance.A, instance.s)
        value = -value
    else:
        value, x = binary_optimum(instance.A, instance.y, instance.c)
    assert landscape.least.min() == pytest.approx(value, rel=1e-9, abs=1e-9)
    best = landscape.points[np.argmin(landscape.values)]
    np.testing.assert_allclose(best, x, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_every_support_has_the_least_value_of_its_own_enumeration(name):
    """least[mask] against the optimum of the problem restricted to the columns of the mask."""
    landscape = landscape_of(name)
    A, y = landscape.instance.A, landscape.instance.y
    if not landscape.sparse:
        x = landscape.points[3]
        assert landscape.least[(x > 0) @ landscape.bits] == pytest.approx(0.5 * np.sum((A @ x - y) ** 2))
        assert np.isinf(landscape.least[0])
        return
    for support in ([0, 3], [4], [1, 5]):
        restricted = A[:, support]
        expected = (
            sparse_tracking_optimum(restricted, y, 2)[0] if name == "SIT" else -sparse_pca_optimum(restricted, 2)[0]
        )
        assert landscape.least[landscape.bits[support].sum()] == pytest.approx(expected)


@pytest.mark.parametrize("name", NAMES)
def test_inclusions_hold_and_are_strict(name):
    landscape = landscape_of(name, n=scaled(10, 7), s=scaled(3, 2))
    flags = np.array([landscape.levels(x) for x in landscape.points])
    assert hierarchy.count_exceptions(flags) == 0
    counts = flags.sum(axis=0)
    assert counts[3] >= 1
    assert counts[1] < counts[0]
    for x in landscape.points[flags[:, 2]]:
        assert cp.certify(landscape.problem, x, scan="all").cws_gap <= landscape.tolerance
    if not landscape.sparse:
        np.testing.assert_array_equal(flags[:, 1], flags[:, 2])


def test_every_cws_point_reached_is_among_the_candidates():
    landscape = landscape_of("SIT", n=scaled(10, 7))
    for seed in range(scaled(10, 3)):
        x = cp.minimize(landscape.problem, seed=seed, tol=1e-14, theta=0.0).x
        assert np.abs(landscape.points - x).max(axis=1).min() < 1e-5


def test_points_that_differ_by_rounding_are_one():
    a, b = np.array([0.1234549999, 0.5]), np.array([0.1234550001, 0.5])
    assert len(hierarchy.distinct([a, b, a + 0.01])) == 2


def test_an_exception_is_counted():
    assert hierarchy.count_exceptions(np.array([[True, True, False, True], [False, True, True, True]])) == 2


def test_a_swap_that_improves_is_seen():
    """Two of three columns reach the target; holding a wrong one is not swap-optimal."""
    A, y = np.eye(3), np.array([0.5, 0.5, 0.0])
    instance = hierarchy.Instance("SIT", A, y, 2, 0)
    landscape = Landscape(instance, instance.problem(10.0))
    assert landscape.swapped(np.array([0.75, 0.0, 0.25])) == pytest.approx(0.0)
    assert landscape.levels(np.array([0.5, 0.5, 0.0])).all()
    assert not landscape.levels(np.array([0.75, 0.0, 0.25]))[1:].any()


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.99])
def test_the_fit_recovers_a_known_rate(rate):
    t = np.arange(20.0 / -math.log(rate))
    gap = 100.0 * rate**t * np.exp(0.01 * np.sin(t))
    slope, intercept, r2, (first, last) = theory.fit_tail(gap, 1e-6)
    assert math.exp(slope) == pytest.approx(rate, rel=1e-3)
    assert math.exp(intercept) == pytest.approx(100.0, rel=0.1)
    assert r2 > 0.999
    assert gap[first] <= 1.0 < gap[first - 1]
    assert gap[last] > 1e-6


def test_no_fit_without_a_tail():
    assert math.isnan(theory.fit_tail(np.array([1.0, 0.0, 0.0]), 1e-9)[0])


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("name", NAMES)
def test_sufficient_decrease(name, theta):
    found = measure_decrease(draw_instance(name, 8, 2, 0), theta, scaled(500, 60), 0)
    assert found.steps >= 5
    assert 1.0 - 1e-6 <= found.least <= found.median


def test_sufficient_decrease_is_measured_with_the_true_objective(monkeypatch):
    """A step that is too long fails: with the θ of the steps a thousandth of the one compared with."""
    walk = theory.Walk

    def careless(problem, start, weight, seed, noise):
        return walk(problem, start, 1e-3 * weight, seed, noise)

    monkeypatch.setattr(theory, "Walk", careless)
    assert measure_decrease(draw_instance("SIT", 8, 2, 0), 1.0, scaled(300, 80), 0).least < 1.0


def test_a_run_to_vertices_is_finite_and_another_is_linear():
    finite = measure_rate(draw_instance("DCPB1", 6, 2, 0), theory.ABOVE, 300, 0)
    assert finite.finite and finite.certified and math.isnan(finite.slope)
    linear = measure_rate(draw_instance("SIT", 6, 2, 0), theory.BELOW, 300, 0)
    assert not linear.finite and linear.certified
    assert 0.0 < math.exp(linear.slope) < 1.0
    assert (np.diff(linear.gap) <= 1e-12).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_bound_holds(name):
    found = measure_complexity(draw_instance(name, 6, 2, 0), theory.BELOW, 60, 3, 0)
    assert found.measure[0] > found.measure[-1]
    for epsilon in found.measure[1:]:
        if epsilon > 0.0:
            assert found.needed(epsilon) <= found.bound(epsilon)
    assert found.needed(-1.0) is None


def test_the_measure_is_the_mean_over_all_pairs():
    """½‖x − y‖² without effect of g: a pair moves to the mean of its residuals, shortened by θ."""
    y = np.array([0.4, 0.3, 0.2, 0.1])
    instance = hierarchy.Instance("SIT", np.eye(4), y, 4, 0)
    start = np.array([0.2, 0.3, 0.4, 0.1])
    walk = theory.Walk(instance.problem(1.0), start, 1.0, 0, 1.0)
    residual = start - y
    steps = [(residual[j] - residual[i]) / 4.0 for i, j in itertools.combinations(range(4), 2)]
    assert theory.mean_squared_step(walk) == pytest.approx(np.mean([2 * step**2 for step in steps]))


@pytest.mark.parametrize("name", theory.CONVEX)
def test_constants_of_the_rate(name):
    """The corrected bound holds at every point recorded; the printed recursion fails, by a reference of its own."""
    instance = draw_instance(name, 6, 2, 0)
    found = measure_constants(instance, theory.BELOW, scaled(60, 20), 0)
    assert found.points > 3
    assert 0.0 < found.slowest <= 1.0 - 1.0 / found.kappa
    assert found.norm == pytest.approx(largest_block_norm(instance.A.T @ instance.A, 2))
    assert found.kappa > 15
    lam = theory.BELOW * instance.threshold()
    assert found.rho <= 2.0 * lam * (1.0 + 1e-9) or name != "DCPB1"
    assert found.printed > 0 or name == "SIT"


@pytest.mark.parametrize("name", theory.CONVEX)
def test_steps_of_all_pairs_are_those_of_a_grid(name):
    instance = draw_instance(name, 5, 2, 1)
    problem = instance.problem(theory.BELOW * instance.threshold())
    walk = theory.Walk(problem, problem.start(0), 5.0, 0, 1.0)
    case = case_of(name, instance.A, instance.y, problem.g.lam, instance.s)
    for (i, j), step, gain in zip(*theory.pair_steps(walk), strict=True):
        expected = pair_step(case, walk.x, i, j, 5.0)
        np.testing.assert_allclose(step, expected[[i, j]], atol=1e-5)
        left = case.value(walk.x) - case.value(walk.x + expected) - 2.5 * expected @ expected
        assert gain == pytest.approx(left, abs=1e-9 * case.size(walk.x))


def test_the_violation_is_the_penalty_without_its_weight():
    """With λ → 0 the optimum of ½‖x − y‖² is y itself, of which one coordinate of three is free of the penalty."""
    instance = hierarchy.Instance("SIT", np.eye(3), np.array([0.5, 0.3, 0.2]), 1, 0)
    found = measure_exactness(instance, np.array([1e-5]), 1, 0)
    assert found.violation[0] == pytest.approx(0.5, abs=1e-3)
    assert math.isnan(theory.observed_ratio(found))
    grid = found._replace(ratios=np.array([1.0, 2.0, 3.0]), share=np.array([1.0, 0.5, 1.0]))
    assert theory.observed_ratio(grid) == 3.0


@pytest.mark.parametrize("name", NAMES)
def test_exactness_above_the_threshold_only(name):
    found = measure_exactness(draw_instance(name, 6, 2, 0), np.array([1e-4, 1.2]), scaled(5, 2), 0)
    assert found.share[1] == 1.0 and found.violation[1] <= 1e-9
    assert found.share[0] < 1.0 and found.violation[0] > 0.0
    assert found.failed == (0, 0) and found.covered[1] >= scaled(5, 2)
    assert found.fractional == ((1, 1) if name.startswith("DCPB") else None)
    assert math.isnan(found.paper) or found.threshold <= found.paper
    assert theory.observed_ratio(found) == 1.2


def test_tables_and_figures_show_every_number(recwarn):
    pytest.importorskip("matplotlib")
    large = {name: draw_instance(name, 6, 2, 0) for name in NAMES}
    findings = Findings(
        tuple(measure_rate(large[name], ratio, 200, 0) for name in NAMES for ratio in (theory.BELOW, theory.ABOVE)),
        tuple(measure_constants(large[name], theory.BELOW, 20, 0) for name in theory.CONVEX),
        tuple(measure_complexity(large[name], theory.BELOW, 40, 1, 0) for name in NAMES),
        tuple(measure_decrease(large[name], 1.0, 40, 0) for name in NAMES),
        tuple(measure_exactness(large[name], np.array([0.1, 1.2]), 1, 0) for name in NAMES),
        tuple(measure_hierarchy([draw_instance(name, 5, 2, 1)], 2) for name in NAMES),
    )
    rate, constants, complexity, decrease, exactness, hierarchy = theory_pages.tables(findings)
    counts = [len(table.rows) for table in (rate, constants, decrease, exactness, hierarchy)]
    assert counts == [8, 3, 4, 4, 4 * (1 + len(FINDERS))]
    assert {row[0] for row in complexity.rows} <= set(NAMES)
    for table in (rate, constants, complexity, decrease, exactness, hierarchy):
        assert all(len(row) == len(table.head) for row in table.rows)
        assert "nan" not in table.markdown() and table.latex()
    for one in findings.hierarchy:
        assert one.exceptions == 0
        assert one.levels["bcd-g"][LEVELS.index("CWS")] == one.found["bcd-g"] > 0
        assert (one.enumerated[-1] >= 1) and one.enumerated[0] <= one.candidates
    drawn = theory_pages.figures(findings)
    assert list(drawn) == ["theory-rate", "theory-exactness", "theory-hierarchy"]
    for figure in drawn.values():
        figure.draw_without_rendering()
    assert not recwarn.list


@pytest.mark.slow
@pytest.mark.compiled
def test_the_whole_measurement_is_the_same_for_the_same_seed(monkeypatch):
    monkeypatch.setattr(theory, "NAMES", ("SIT",))
    said = []
    first = theory.measure(quick=True, seed=5, progress=said.append)
    assert len(said) == 5
    second = theory.measure(quick=True, seed=5)
    assert [table.csv() for table in theory_pages.tables(first)] == [
        table.csv() for table in theory_pages.tables(second)
    ]

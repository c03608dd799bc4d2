"""The paper's theorems, as corrected, with the counterexamples that the corrections exclude."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import counterpoise as cp
from conftest import make_problem, scaled
from counterpoise.certificates import exactness_threshold
from counterpoise.kernels import sweep
from counterpoise.kernels.pair import new_age
from counterpoise.problems import DCPB1, DCPB2, NNSPCA, SIT
from counterpoise.solvers.bcd import RULES, make_rule
from naive import (
    Case,
    below_tangent,
    best_on_block,
    binary_optimum,
    blocks_of,
    case_of,
    concave_slope,
    largest_block_norm,
    largest_gap,
    pair_step,
    sparse_pca_optimum,
    sparse_tracking_optimum,
    tangent_step,
    top_sum,
)
from test_bcd import NAMES, build


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("theta", [1e-6, 1.0, 30.0])
def test_sufficient_decrease_on_every_step(name, rule, theta, rng):
    """F(x⁺) − F(x) ≤ −½θ‖x⁺ − x‖², Theorem (theo:global)."""
    problem, case, _ = build(name, rng, n=scaled(12, 6))
    x = problem.start(1)
    terms = problem.terms()
    sweep.start(terms, x)
    chosen, _ = make_rule(rule, problem)
    age, value, moves = new_age(10**9), case.value(x), 0
    for _ in range(scaled(400, 40)):
        before = x.copy()
        sweep.epoch(chosen, terms, x, theta, 0.0, np.zeros(2), 1, 10**9, rng, age, 0.0, np.empty(5))
        after = case.value(x)
        slack = 1e-12 * case.size(x)
        assert after - value <= -0.5 * theta * np.sum((x - before) ** 2) + slack
        moves += bool((x != before).any())
        assert np.count_nonzero(x != before) <= 2
        value = after
    assert moves >= 3


def optimum_of(name, A, y, s, c):
    if name == "SIT":
        return sparse_tracking_optimum(A, y, s)[1]
    if name == "NNSPCA":
        return sparse_pca_optimum(A, s)[1]
    return binary_optimum(A, y, c)[1]


@pytest.mark.parametrize("name", NAMES)
def test_optimal_points_are_cws_and_cws_points_are_critical(name, rng):
    """Theorem (theo:optimality), in the exact regime, where enumeration gives the optimum of the penalised problem."""
    for trial in range(scaled(25, 3)):
        n = int(rng.integers(4, scaled(11, 7)))
        s, c = int(rng.integers(1, 4)), n % 2
        A, y = rng.standard_normal((n + 2, n)), rng.standard_normal(n + 2)
        threshold = exactness_threshold(make_problem(name, A, y, s, c, 1.0))
        problem = make_problem(name, A, y, s, c, 1.01 * threshold)
        scale = case_of(name, A, y, problem.g.lam, s).size(y)
        optimal = problem.project(optimum_of(name, A, y, s, c))
        certificate = cp.certify(problem, optimal, scan="all")
        assert certificate.cws_gap <= 1e-10 * scale
        assert certificate.critical_residual <= 1e-5 * scale
        reached = cp.minimize(problem, seed=trial, tol=1e-14)
        assert reached.objective >= problem.objective(optimal) - 1e-10 * scale
        assert cp.certify(problem, reached.x).critical_residual <= 1e-4 * scale


def test_some_critical_points_are_not_cws():
    """A vertex of the simplex with s = 1 is critical for large λ, yet a better vertex is one pair step away."""
    A, y = np.eye(3), np.array([0.1, 0.9, 0.0])
    problem = SIT(A, y, 1, 100.0)
    certificate = cp.certify(problem, [0.0, 0.0, 1.0])
    assert certificate.critical_residual == 0.0
    assert certificate.cws_gap == pytest.approx(0.9)


@pytest.mark.parametrize("name", ["SIT", "NNSPCA"])
@pytest.mark.parametrize("rule", ["hybrid", "random", "cyclic"])
def test_above_the_threshold_cws_points_are_sparse(name, rule, rng):
    """Theorem (theo:excat:index) with λ > max|∇ᵢf − ∇ⱼf|; √2‖Gx‖∞ for NNSPCA."""
    for trial in range(scaled(30, 3)):
        n = int(rng.integers(3, scaled(25, 8)))
        s = int(rng.integers(1, n))
        A, y = rng.standard_normal((8, n)), rng.standard_normal(8)
        problem = SIT(A, y, s, 1.0) if name == "SIT" else NNSPCA(A, s, 1.0)
        lam = 1.001 * exactness_threshold(problem)
        problem = SIT(A, y, s, lam) if name == "SIT" else NNSPCA(A, s, lam)
        result = cp.minimize(problem, working_set=rule, seed=trial, theta=0.0, tol=1e-12)
        assert result.success
        assert np.count_nonzero(result.x) <= s
        if name == "SIT":
            held = problem.f.gradient(result.x)[result.x > 0]
            assert np.ptp(held) <= 1e-4 * lam


def test_below_the_threshold_dense_points_are_legitimate():
    """Counterexample: a small λ leaves the convex optimum, which is dense, in place."""
    problem = SIT(np.eye(4), np.full(4, 0.25), 1, 1e-3)
    result = cp.minimize(problem, tol=1e-14)
    assert np.count_nonzero(result.x) == 4
    certificate = cp.certify(problem, result.x)
    assert certificate.exact is False


def test_theta_raises_the_threshold():
    """Counterexample: λ > ¼α does not suffice with θ > 0; the centre is stationary until λ > ¼α + ½θ."""
    centre = np.zeros(4)
    for lam, theta, stationary in ((1.0, 0.0, False), (1.0, 2.0, True), (1.6, 2.0, False)):
        problem = DCPB1(np.eye(4), np.zeros(4), 0, lam)
        assert (lam > exactness_threshold(problem, theta)) is not stationary
        assert (cp.certify(problem, centre, theta=theta).cws_gap == 0.0) is stationary


@pytest.mark.parametrize("name", ["DCPB1", "DCPB2"])
@pytest.mark.parametrize("rule", ["hybrid", "random", "cyclic"])
def test_above_the_threshold_cws_points_are_binary_for_the_right_parity(name, rule, rng):
    """Theorems (theo:extreme:bin) and (theo:exact:bin), corrected: at most one fractional coordinate, none if c ≡ n."""
    make = DCPB1 if name == "DCPB1" else DCPB2
    for trial in range(scaled(30, 3)):
        n = int(rng.integers(3, scaled(25, 8)))
        A, y = rng.standard_normal((8, n)), rng.standard_normal(8)
        lam = 1.001 * exactness_threshold(make(A, y, n % 2, 1.0))
        c = n - 2 * int(rng.integers(0, n + 1))
        result = cp.minimize(make(A, y, c, lam), working_set=rule, seed=trial, theta=0.0)
        assert result.success
        assert (np.abs(result.x) == 1).all()
        if abs(c) < n:
            with pytest.warns(UserWarning, match="one fractional"):
                problem = make(A, y, c + 0.5, lam)
            result = cp.minimize(problem, working_set=rule, seed=trial, theta=0.0)
            assert (np.abs(result.x) < 1).sum() == 1


def test_below_the_threshold_fractional_points_are_legitimate():
    """Counterexample: with λ = 0 the centre is the optimum."""
    result = cp.minimize(DCPB2(np.eye(4), np.zeros(4), 0, 1e-6), tol=1e-14)
    assert (np.abs(result.x) < 0.1).all()


def test_vertices_satisfy_the_papers_measure_without_being_critical():
    """Erratum: S₂ = |G ⊙ x − (xᵀG)x ⊙ x| vanishes at every vertex; criticality also looks at the zeros."""
    A = np.array([[1.0, 0.0], [0.0, 2.0], [0.5, 1.0]])
    problem = NNSPCA(A, 2, 0.1)
    x = np.array([1.0, 0.0])
    G = -A.T @ A @ x
    np.testing.assert_allclose(G * x - (x @ G) * x * x, 0)
    assert cp.certify(problem, x).critical_residual > 0.1


def test_adjacent_windows_stall(rng):
    """Erratum: cyclic windows {t, t+1} stop far from a CWS point; all pairs do not."""
    stalled = 0
    for trial in range(10):
        A, y = rng.standard_normal((10, 8)), rng.standard_normal(10)
        problem = SIT(A, y, 2, 50.0)
        x = problem.start(trial)
        terms = problem.terms()
        sweep.start(terms, x)
        for _, i in itertools.product(range(200), range(7)):
            a, b, _ = sweep.step(terms, x, i, i + 1, 0.0)
            x[i], x[i + 1] = a, b
            sweep.start(terms, x)
        stalled += cp.certify(problem, x).cws_gap > 1e-3
    assert stalled >= 5


# Quadratic growth, (theo:descent), and its lemmas.


def line_case(Q, p, lo, hi, g="top", lam=0.0, s=1):
    """½xᵀQx + pᵀx + g(x) with bounds, on the line."""
    n, none = len(p), np.zeros((0, len(p)))
    p, lo, hi = np.array(p, dtype=float), np.full(n, float(lo)), np.full(n, float(hi))
    return Case(np.array(Q, dtype=float), p, lo, hi, np.zeros(n), none, none, g, lam, s)


def nonconvexity(case, x):
    """The least ρ with g(x) + ⟨s, z − x⟩ − g(z) ≤ ½ρ‖z − x‖² for all z, if s is unique."""
    if case.g == "square":
        return 2 * case.lam
    if case.g == "norm":
        return case.lam / np.linalg.norm(x)
    ranked = np.sort(x)[::-1]
    return case.lam / (ranked[case.s - 1] - ranked[case.s])


@pytest.mark.parametrize("g", ["top", "square", "norm"])
def test_g_is_locally_bounded_nonconvex(g, rng):
    """Lemma (lemma:rhobounded) with ρ = λ/(x_[s] − x_[s+1]), 2λ and λ/‖x‖; no smaller ρ will do."""
    largest = 0.0
    for _ in range(300):
        case = line_case(np.zeros((6, 6)), np.zeros(6), 0, 1, g, lam=3.0, s=int(rng.integers(1, 6)))
        x = rng.random(6)
        order = np.argsort(-x)
        swapped = x.copy()
        swapped[order[[case.s - 1, case.s]]] = x[order[[case.s, case.s - 1]]]
        for z in (rng.random(6), x + 0.1 * rng.standard_normal(6) * x.min(), swapped):
            bound = 0.5 * nonconvexity(case, x) * np.sum((z - x) ** 2)
            assert below_tangent(case, x, z) <= bound + 1e-12
            largest = max(largest, below_tangent(case, x, z) / bound)
    assert largest == pytest.approx(1.0)


def test_no_rho_is_finite_with_fewer_than_s_non_zeros():
    """Counterexample to (lemma:rhobounded): e₁ is CWS, and every tangent is λ/2 off on a line."""
    x, t = np.array([1.0, 0.0, 0.0]), 1e-6
    assert cp.certify(SIT(np.eye(3), [5.0, 0.0, 0.0], 2, 1.0), x).cws_gap == 0.0
    for share in np.linspace(0.0, 1.0, 11):
        tangent = np.array([1.0, share, 1.0 - share])
        steps = [t * np.array([-1.0, 1.0, 0.0]), t * np.array([-1.0, 0.0, 1.0])]
        off = max(top_sum(x + d, 2) - top_sum(x, 2) - tangent @ d for d in steps)
        assert off >= 0.499 * t > 0.5 * 1e5 * np.sum(steps[0] ** 2)


@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (0.5, False)])
def test_lipschitz_functions_are_globally_bounded_nonconvex(factor, holds, rng):
    """Lemma (lemma:globallybounded): ρ = 2C²/ε for any ε; −C|x| just right of 0 needs all of it."""
    worst = -np.inf
    for g, s in (("top", 1), ("top", 3), ("norm", 1)):
        case = line_case(np.zeros((5, 5)), np.zeros(5), 0, 1, g, lam=2.0, s=s)
        C = 2.0 * np.sqrt(s)
        for epsilon in (0.01, 0.1, 1.0, 10.0):
            x, near = rng.random(5), 1e-9 * np.eye(5)[0]
            ends = rng.random(5), rng.standard_normal(5), -epsilon / C * np.eye(5)[0]
            for start, z in zip((x, x, near), ends, strict=True):
                bound = factor * C**2 / epsilon * np.sum((z - start) ** 2) + epsilon
                worst = max(worst, below_tangent(case, start, z) - bound)
    assert bool(worst <= 1e-7) is holds


def growth_bound(case, name, x, z):
    """½ρ‖z − x‖²; on the sphere ½(‖G‖ − xᵀGx + λ(1ᵀx − ‖x‖_[s]) + ρ)‖z − x‖²."""
    rho = nonconvexity(case, x)
    if name == "NNSPCA":
        rho += np.linalg.norm(case.Q, 2) + x @ case.Q @ x
        rho += case.lam * (x.sum() - top_sum(x, case.s))
    return 0.5 * rho * np.sum((z - x) ** 2)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("theta", [0.0, 20.0])
def test_no_point_is_lower_than_quadratic_growth_allows(name, theta, rng):
    """Theorem (theo:descent), F(ẍ) ≤ F(z) + ½ρ‖z − ẍ‖²: without the paper's ‖Q‖ + θ."""
    used = 0
    for seed in range(scaled(30, 4)):
        problem, case, _ = build(name, rng, n=6, lam=20.0, s=2)
        x = cp.minimize(problem, theta=theta, seed=seed, tol=1e-14).x
        if np.count_nonzero(x) < case.s:
            continue
        used += 1
        others = [problem.start(k) for k in range(20)]
        others += [cp.minimize(problem, theta=theta, seed=k).x for k in range(5)]
        for z in [*others, *(problem.project(x + 0.1 * (z - x)) for z in others)]:
            slack = 1e-7 * case.size(x)
            assert case.value(x) <= case.value(z) + growth_bound(case, name, x, z) + slack
    assert used > 0


@pytest.mark.parametrize(
    ("g", "slope", "x", "z"),
    [
        ("top", [0, -6], [0.7, 0.3], [0.3, 0.7]),
        ("square", [0, 0], [0.0, 0.0], [1.0, -1.0]),
        ("norm", [6, 0], [1.0, 0.0], [0.0, 1.0]),
    ],
)
def test_growth_needs_all_of_its_constant(g, slope, x, z):
    """f is linear and x CWS by a large θ: F(x) = F(z) + ½ρ‖z − x‖², so ρ cannot be smaller."""
    case, x, z = line_case(np.zeros((2, 2)), slope, -1, 1, g, 6.0), np.array(x), np.array(z)
    assert largest_gap(case, x, "line", theta=2 * nonconvexity(case, x)) <= 1e-12
    assert case.value(x) - case.value(z) == pytest.approx(growth_bound(case, "", x, z))


# Means over all blocks.


def test_expected_norms_of_a_block(rng):
    """Erratum: (lemma:iequality) is false for a block and in expectation, true with λ_min(Q_BB)."""
    block, mean = 0, 0
    for _ in range(500):
        n, rank = int(rng.integers(3, 8)), int(rng.integers(1, 4))
        k, root, x = int(rng.integers(2, n)), rng.standard_normal((rank, n)), rng.standard_normal(n)
        parts = np.array([(root.T @ root)[np.ix_(one, one)] for one in blocks_of(n, k)])
        inside = x[np.array(blocks_of(n, k))]
        forms = np.einsum("bi,bij,bj->b", inside, parts, inside) / (x @ x)
        values = np.linalg.eigvalsh(parts) * k / n
        block += forms.min() < values[:, -1].min() or forms.max() > values[:, -1].max()
        mean += forms.mean() < values[:, -1].min()
        assert values.min() - 1e-12 <= forms.mean() <= values.max() + 1e-12
    assert block > 400 and mean > 100


@pytest.mark.parametrize(("share", "holds"), [(1.0, True), (0.5, False)])
def test_means_over_blocks(share, holds, rng):
    """Lemma (lemma:bound:4), i to vii, with k/n: one d for all blocks, and x + d_B anywhere."""
    off = np.zeros(6)
    for trial in range(50):
        n, k, epsilon = 5, 1 + trial % 5, 0.5
        part, x, d = share * k / n, rng.random(n), 0.1 * rng.standard_normal(n)
        steps = d * np.array([np.isin(np.arange(n), block) for block in blocks_of(n, k)])
        root, p = rng.standard_normal((4, n)), rng.standard_normal(n)
        Q, each = root.T @ root, x + steps
        f, g = line_case(Q, p, 0, 1), line_case(0 * Q, 0 * p, 0, 1, "top", 2.0, s=2)
        curved = 0.5 * np.einsum("bi,ij,bj->b", steps, Q, steps).mean()
        pairs = [
            (steps @ x, part * x @ d),
            (steps @ d, part * d @ d),
            ((each**2).sum(axis=1), (1 - part) * x @ x + part * np.sum((x + d) ** 2)),
            (f.values(each), f.value(x) + part * d @ (Q @ x + p) + curved),
            (np.abs(each).sum(axis=1), (1 - part) * x.sum() + part * np.abs(x + d).sum()),
            (g.values(each), g.value(x) + part * concave_slope(g, x, x) @ d),
        ]
        gaps = np.array([left.mean() - right for left, right in pairs])
        off = np.maximum(off, np.append(np.abs(gaps[:5]), gaps[5]))
        below = g.value(x) - g.value(x + d) - 0.5 * 2 * (2.0**2 * 2) / epsilon * d @ d - epsilon
        assert g.values(each).mean() <= g.value(x) - part * below + 1e-12
    assert (off <= 1e-9).all() if holds else (off > 1e-3).all()


# Complexity and rate of BCD-g and BCD-l-k: the paper's assumption is a convex set, here the line.


def steps_of(case, x, k, theta, method):
    """The step of every block."""
    if method == "g":
        return [pair_step(case, x, i, j, theta) for i, j in blocks_of(len(x), 2)]
    return [tangent_step(case, x, block, theta) for block in blocks_of(len(x), k)]


def line_problem(name, rng, n, lam=2.0):
    """A small problem on the line as a case, with feasible points."""
    problem, case, _ = build(name, rng, n=n, m=n + 1, lam=lam, s=2)
    return case, [problem.start(seed) for seed in range(4)]


@pytest.mark.parametrize(
    ("name", "subproblem"),
    [("SIT", "states"), *((name, subproblem) for name in NAMES for subproblem in ("linearised", "nested"))],
)
def test_sufficient_decrease_of_blocks(name, subproblem, rng):
    """Theorem (theo:global), i, for BCD-l-k; twice as much where N_B is convex: on the line."""
    twice = 2.0 if subproblem == "linearised" and name != "NNSPCA" else 1.0
    problem, case, _ = build(name, rng, n=8, lam=3.0, s=3)
    x, theta, least = problem.start(0), 300.0, np.inf
    options = {"subproblem": subproblem, "working_set": "random", "theta": theta, "k": 3}
    for seed in range(scaled(60, 8)):
        new = cp.minimize(problem, x0=x, method="bcd-l", max_iter=1, seed=seed, **options).x
        length = np.sum((new - x) ** 2)
        if length > 1e-10:
            least = min(least, (case.value(x) - case.value(new)) / (0.5 * theta * length))
        x = new
    assert twice - 1e-4 <= least < 2.5


@pytest.mark.parametrize("method", ["g", "l"])
@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (0.5, False)])
def test_complexity(method, factor, holds, rng):
    """Theorem (theo:global), ii and iii: the expectation of ‖d_B‖² over every sequence of blocks.

    2·drop/(θT) for BCD-g, half of it for BCD-l-k; a nearly flat pair and a linear f need it.
    """
    flat = line_case(np.zeros((2, 2)), [1e-3, 0], -1, 1, "square", 1.0)
    slope = line_case(np.zeros((2, 2)), [1.0, 0], -1, 1)
    cases = [(flat, np.zeros(2), 2.0) if method == "g" else (slope, np.zeros(2), 2.0)]
    for name in ("SIT", "DCPB1", "DCPB2"):
        case, starts = line_problem(name, rng, 3)
        cases += [(case, x, theta) for x in starts[:2] for theta in (0.5, 10.0)]
    violated = False
    for case, start, theta in cases:
        points, total, T = [start], 0.0, 4
        for _ in range(T):
            moves = [(x, d) for x in points for d in steps_of(case, x, 2, theta, method)]
            total += np.mean([d @ d for _, d in moves])
            points = [x + d for x, d in moves]
        drop = case.value(start) - np.mean([case.value(x) for x in points])
        bound = factor * (2.0 if method == "g" else 1.0) * drop / (theta * T)
        violated |= total / T > bound + 1e-9
    assert bool(violated) is not holds


def promised_decrease(case, x, z, k, theta, share=1.0, factor=1.0):
    """A lower bound on the mean of F(x) − F(x⁺) − ½θ‖d_B‖² over all blocks, for feasible z."""
    part = share * k * (k - 1) / (len(x) * (len(x) - 1))
    curvature = 0.5 * (largest_block_norm(case.Q, k) + theta) * np.sum((z - x) ** 2)
    return part * (case.value(x) - case.value(z) - factor * (curvature + below_tangent(case, x, z)))


def mean_decrease(case, x, k, theta, method):
    """The mean of F(x) − F(x⁺) − ½θ‖d_B‖² over all blocks of k."""
    if method == "g" and k > 2:
        return np.mean([best_on_block(case, x, block, theta) for block in blocks_of(len(x), k)])
    steps = steps_of(case, x, k, theta, method)
    return np.mean([case.value(x) - case.value(x + d) - 0.5 * theta * d @ d for d in steps])


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("method", ["g", "l"])
def test_expected_decrease(method, k, rng):
    """Theorems (theo:dec:x:f) and (theo:dec:x:f2), i: k(k − 1)/(n(n − 1)) in place of k/n."""
    for name in ("SIT", "DCPB1", "DCPB2"):
        if (method, k, name) == ("g", 3, "DCPB2"):
            continue
        case, points = line_problem(name, rng, 4)
        for x, z, theta in itertools.product(points, points, (0.01, 1.0)):
            for target in (z, 0.9 * x + 0.1 * z):
                least = promised_decrease(case, x, target, k, theta)
                assert mean_decrease(case, x, k, theta, method) >= least - 1e-9 * case.size(x)


# A linear f on a simplex where only the pair (1, 2) gains, and a pair that θ stops at z.
ONE_PAIR = line_case(np.zeros((3, 3)), [0, -1, 0], 0, 1), np.eye(3)[0], np.eye(3)[1], 0.01
ONE_STEP = line_case(np.zeros((2, 2)), [1, 0], 0, 1), np.eye(2)[0], np.array([0.5, 0.5]), 1.0


@pytest.mark.parametrize("method", ["g", "l"])
def test_expected_decrease_needs_all_of_its_constants(method):
    for (case, x, z, theta), share, factor in ((ONE_PAIR, 1.05, 1.0), (ONE_STEP, 1.0, 0.5)):
        found = mean_decrease(case, x, 2, theta, method)
        assert found >= promised_decrease(case, x, z, 2, theta) - 1e-9
        assert found < promised_decrease(case, x, z, 2, theta, share, factor) - 1e-3


@pytest.mark.parametrize("method", ["g", "l"])
def test_rate_constants(method, rng):
    """The same theorems, ii: E q⁺ ≤ (1 − 1/κ)q + ε/κ, κ = 1/p + (max‖Q_BB‖ + θ)δ²/θ.

    For BCD-l-k δ² counts half. δ is ‖x − z‖ over the mean of ‖d_B‖; g lies ε below its tangent.
    """
    for name, theta in itertools.product(("SIT", "DCPB1", "DCPB2"), (0.1, 10.0)):
        case, points = line_problem(name, rng, 4)
        for x, z in itertools.permutations(points, 2):
            steps = np.array(steps_of(case, x, 2, theta, method))
            delta = np.linalg.norm(x - z) / np.linalg.norm(steps, axis=1).mean()
            weight = (1.0 if method == "g" else 0.5) * (largest_block_norm(case.Q, 2) + theta)
            kappa = 6 + weight * delta**2 / theta
            q = case.value(x) - case.value(z)
            after = case.values(x + steps).mean() - case.value(z)
            assert after <= q + (below_tangent(case, x, z) - q) / kappa + 1e-9 * case.size(x)


def test_half_of_kappa_is_not_enough():
    """f linear on a pair, δ = √2: q falls to 0.29q, where κ = 2 allows 0.5q and κ = 1 only 0."""
    case, t = ONE_STEP[0], np.sqrt(0.5)
    d = tangent_step(case, np.array([t, 1 - t]), [0, 1], 1.0)
    delta = t / d[1]
    assert delta == pytest.approx(np.sqrt(2))
    kappa, left = 1 + 0.5 * delta**2, 1 - d[1] / t
    assert 1 - 2 / kappa + 0.2 < left < 1 - 1 / kappa


def test_the_error_bound():
    """(lemma:luo) on a pair: δ = 1 + 2θ/α, but no δ for f = ¼Σxᵢ⁴ with Q = 3I."""
    alpha, theta, along = 3.0, 0.5, np.array([1.0, -1.0])
    case = line_case(np.diag([1.0, 2.0]), [0, 0], -1, 1)
    for e in (1e-1, 1e-3):
        d = tangent_step(case, e * along, [0, 1], theta)
        ratio = np.linalg.norm(e * along) / np.linalg.norm(d)
        assert ratio == pytest.approx(1 + 2 * theta / alpha)
    for e in (1e-1, 1e-2, 1e-3):
        quartic = line_case(3 * np.eye(2), (e**3 - 3 * e) * along, -1, 1)
        d = tangent_step(quartic, e * along, [0, 1], theta)
        assert e / d[1] == pytest.approx((3.0 + theta) / e**2)


def test_lemmas_of_the_binary_theorems(rng):
    """Lemmas (lemma:pmbounded), for the lower of its two signs only, (lemma:xi) and (lemma:xu)."""
    a, b, x, u = np.abs(rng.standard_normal((4, 2000)))
    signs, xi = np.array([[-1.0], [1.0]]), rng.uniform(-1, 1, 2000)
    left, right = -0.5 * a * (x + signs) ** 2 + b * (x + signs), -0.5 * a + 0.5 * b**2 / a
    assert (left.min(axis=0) <= right + 1e-9 * (1 + b**2 / a)).all()
    assert (left.max(axis=0) > right + 0.01).sum() > 500
    left = 0.5 * a * (xi + signs) ** 2 + b * (xi + signs)
    assert (left.min(axis=0) <= 0.5 * a * (1 - xi**2) + 1e-12).all()
    assert (np.sqrt(x) - np.sqrt(x + u) <= -0.5 * u / np.sqrt(x + u) + 1e-12).all()


LABELS = (
    "defition:cws defition:rho lemma:rhobounded theo:descent theo:optimality theo:global "
    "lemma:globallybounded lemma:iequality lemma:bound:4 lemma:luo theo:dec:x:f theo:dec:x:f2 "
    "lemma:boundedterm theo:excat:index theo:extreme:bin lemma:pmbounded theo:exact:bin lemma:xi "
    "lemma:xu"
).split()


def test_the_page_has_a_line_for_every_statement_and_its_checks_exist():
    page = (Path(__file__).parent.parent / "docs" / "theory.rst").read_text("utf-8")
    table = page.partition("Every statement of the paper")[2]
    lines = re.findall(r"^   \* - (.*)$", table, re.M)
    shown = {label for line in lines for label in line.split(", ")}
    assert shown >= {*LABELS, "Critical point", "Globally ρ-ε bounded", "theo: greedy2"}
    named = re.findall(r"``(test_\w+)``", table)
    assert len(named) > 15 and set(named) <= set(globals())

"""Many columns: pools agree with the whole problem, and their certificates with a scan of every pair."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import counterpoise as cp
from conftest import scaled
from counterpoise.kernels import enter, sweep
from counterpoise.problems import NNSPCA, SPCA
from counterpoise.registry import pool_for
from counterpoise.solvers import pool as pools
from counterpoise.solvers.pool import ArcPool, Pool
from counterpoise.solvers.sparse_line import SparseLine
from naive import best_on_pair, case_of, top_sum


@pytest.fixture
def small_pools(monkeypatch):
    """Pools so small that a few dozen columns are many."""
    for name, value in {"PRICED": 6, "GAINING": 3, "PROMISING": 5, "TURNING": 5, "DENSE": 2, "DESCENDING": 4}.items():
        monkeypatch.setattr(pools, name, value)
    monkeypatch.setattr("counterpoise.terms.columns.BLOCK", 7)


def large(rng, n=40, s=4, lam=1e3, sparse=False, single=False, h=None):
    A, y = rng.standard_normal((15, n)), rng.standard_normal(15)
    if sparse:
        A = sp.csc_array(A * (rng.random(A.shape) < 0.4))
    if single:
        A = A.astype(np.float32)
    f = cp.LeastSquares(A, y, gram=False)
    return cp.Problem(f, cp.Bounds(0.0, np.inf) if h is None else h, cp.TopSum(s, lam), cp.Sum(1.0), constant=lam)


def whole(problem):
    A = problem.f.A.toarray() if sp.issparse(problem.f.A) else problem.f.A
    f = cp.LeastSquares(A.astype(float), problem.f.y, gram=True)
    return cp.Problem(f, problem.h, problem.g, problem.u, problem.constant)


TURNOVER = cp.Bounds(0.0, 0.5) + cp.AbsoluteDeviation(np.linspace(0.0, 0.4, 40), 0.5)


@pytest.mark.parametrize("kind", [{}, {"sparse": True}, {"single": True}, {"h": TURNOVER}])
def test_a_pool_ends_certified_against_every_pair(rng, small_pools, kind):
    for case in range(scaled(12, 3)):
        problem = large(rng, **kind)
        assert pool_for(problem) is not None
        result = cp.minimize(problem, seed=case)
        assert result.status is cp.Status.CERTIFIED and result.success
        certificate = cp.certify(whole(problem), result.x, scan="all")
        assert certificate.cws_gap <= 2.0 * result.tolerance + 1e-9
        assert problem.violation(result.x) < 1e-12 and (result.x > 0).sum() <= 4


@pytest.mark.parametrize("bounded", [False, True])
def test_gains_are_those_of_the_pairs(rng, small_pools, bounded):
    """The largest gain of a column is the largest decrease over its pairs with held coordinates."""
    for _ in range(scaled(15, 4)):
        w, lam = rng.normal(0.0, 1.0, 12), float(rng.choice([0.5, 5.0, 500.0]))
        problem = large(rng, n=12, s=3, lam=lam, h=cp.Bounds(0.0, 0.4 if bounded else np.inf) + cp.Linear(w))
        A, y = np.asarray(problem.f.A), problem.f.y
        x = np.zeros(12)
        x[rng.choice(12, int(rng.integers(2, 6)), replace=False)] = 1.0
        x = problem.project(x / x.sum())
        gains = Pool(problem).gains(x)
        for k in np.flatnonzero(x == 0.0):
            best = 0.0
            for j in np.flatnonzero(x):
                eta = np.linspace(0.0, min(x[j], 0.4 if bounded else np.inf), 400)
                moved = np.repeat(x[None], 400, axis=0)
                moved[:, j] -= eta
                moved[:, k] += eta
                values = 0.5 * ((moved @ A.T - y) ** 2).sum(axis=1) + moved @ w - lam * top_sum(moved, 3)
                best = max(best, values[0] - values.min())
            assert gains[k] >= best - 1e-9
            assert gains[k] <= best + 1e-3 * (1.0 + best)


def test_swaps_on_pools_are_swaps_on_all(rng, small_pools):
    for case in range(scaled(10, 3)):
        problem = large(rng, n=30, s=3, lam=1e5)
        result = cp.minimize(problem, method="swap", seed=case)
        assert result.status is cp.Status.SWAP_OPTIMAL
        certificate = cp.certify(whole(problem), result.x, level="swap")
        assert certificate.swap_gap <= 1e-7 * (1.0 + abs(result.objective))


def sparse_point(rng, problem, count):
    x = np.zeros(problem.n)
    x[rng.choice(problem.n, count, replace=False)] = rng.random(count) + 0.1
    return problem.project(np.where(x > 0, x, -10.0))


@pytest.mark.parametrize("kind", ["none", "limits", "turnover", "sparse", "single"])
def test_the_swap_gap_of_many_columns_needs_no_gram_matrix(rng, small_pools, kind):
    for case in range(scaled(6, 2)):
        h = cp.Bounds(0.0, np.inf if kind in ("none", "sparse", "single") else rng.uniform(0.3, 0.6, 30))
        if kind == "turnover":
            h = h + cp.AbsoluteDeviation(rng.uniform(0.0, 0.4, 30), 0.5)
        problem = large(rng, n=30, lam=1e5, h=h, sparse=kind == "sparse", single=kind == "single")
        x = sparse_point(rng, problem, 4) if case else cp.minimize(problem, method="swap").x
        reference = cp.certify(whole(problem), x, level="swap")
        found = cp.certify(problem, x, level="swap")
        assert "Q" not in vars(problem.f)
        assert found.swap_gap == pytest.approx(reference.swap_gap, rel=1e-7, abs=1e-8)
        if reference.worst_swap is not None:  # several may gain the same
            leaves, enters = found.worst_swap
            assert (leaves < 0 or x[leaves] > 0) and x[enters] == 0


def test_promises_bound_the_exchanges(rng, small_pools):
    for _ in range(scaled(10, 3)):
        problem = large(rng, n=14, s=3, lam=1e5)
        x = SparseLine(whole(problem)).weighted(cp.minimize(problem).x)
        assert Pool(problem).promises(x).max() >= cp.certify(whole(problem), x, level="swap").swap_gap - 1e-9


def test_a_start_of_ones_own_limits_and_callbacks(rng, small_pools):
    problem = large(rng)
    x0 = np.zeros(40)
    x0[7] = 1.0
    result = cp.minimize(problem, x0)
    assert result.history[0, 2] == pytest.approx(problem.objective(x0)) and result.success
    assert cp.minimize(problem, max_time=0.0).status is cp.Status.TIME_LIMIT
    seen = []
    stopped = cp.minimize(problem, callback=lambda progress: seen.append(progress) or True)
    assert len(seen) == 1 and stopped.nit >= 1


def test_kinks_survive_in_pools(rng, small_pools):
    x0 = np.zeros(40)
    x0[[3, 11, 30]] = 0.5, 0.3, 0.2
    problem = large(rng, h=cp.Bounds(0.0, 0.6) + cp.AbsoluteDeviation(x0, 2.0))
    result = cp.minimize(problem)
    assert result.success
    assert cp.certify(whole(problem), result.x, scan="all").cws_gap <= 2.0 * result.tolerance + 1e-9


def test_single_precision_data_is_never_copied_whole(rng):
    import tracemalloc

    A = rng.standard_normal((40, 60_000)).astype(np.float32)
    f = cp.LeastSquares(A, rng.standard_normal(40))
    x = np.zeros(60_000)
    x[:50] = 0.02
    tracemalloc.start()
    f.gradient(x)
    f.gradient(np.full(60_000, 1.0 / 60_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert f.A.dtype == np.float32 and peak < 0.75 * A.nbytes
    np.testing.assert_allclose(f.gradient(x), A.astype(float).T @ (A.astype(float) @ x - f.y), rtol=1e-9, atol=1e-9)


def components(rng, n=40, s=4, sparse=False, lam=1e4, single=False, y=0.0, A=None):
    A = rng.standard_normal((15, n)) if A is None else A
    if sparse:
        A = sp.csr_array(A * (rng.random(A.shape) < 0.5))
    if single:
        A = A.astype(np.float32)
    f = cp.LeastSquares(A, y, scale=-1.0, gram=False)
    h = cp.Bounds(0.0, np.inf) + cp.Linear(lam)
    return cp.Problem(f, h, cp.TopSum(s, lam), cp.Sphere())


def whole_components(problem):
    A = problem.f.A.toarray() if sp.issparse(problem.f.A) else problem.f.A
    f = cp.LeastSquares(A.astype(float), problem.f.y, scale=-1.0, gram=True)
    return cp.Problem(f, problem.h, problem.g, problem.u)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("method", ["bcd-g", "swap"])
def test_components_of_many_columns(rng, small_pools, sparse, method, monkeypatch):
    monkeypatch.setattr(pools, "TURNING", 16)  # as many as a certificate polishes
    for case in range(scaled(6, 2)):
        problem = components(rng, sparse=sparse)
        assert pool_for(problem) is not None
        result = cp.minimize(problem, method=method, seed=case)
        assert result.success and problem.violation(result.x) < 1e-9 and (result.x > 0).sum() <= 4
        certificate = cp.certify(whole_components(problem), result.x, scan="all", level="swap")
        assert certificate.cws_gap <= 2.0 * result.tolerance + 1e-9
        if method == "swap":
            assert certificate.swap_gap <= 1e-6 * abs(result.objective)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_swap_gap_of_components_of_many_columns(rng, small_pools, sparse, monkeypatch):
    monkeypatch.setattr(pools, "TURNING", 16)  # as many as a certificate polishes
    for _ in range(scaled(12, 3)):
        problem = components(rng, sparse=sparse)
        x = np.zeros(problem.n)
        x[rng.choice(problem.n, 4, replace=False)] = rng.random(4) + 0.1
        x = problem.project(x)
        found, reference = cp.certify(problem, x, level="swap"), cp.certify(whole_components(problem), x, level="swap")
        assert "Q" not in vars(problem.f)
        assert found.swap_gap == pytest.approx(reference.swap_gap, rel=1e-7)
        assert found.worst_swap == reference.worst_swap


@pytest.mark.compiled
@pytest.mark.parametrize(("make", "all_of"), [(large, whole), (components, whole_components)])
def test_pairs_alone_are_claimed_where_lam_is_too_small(rng, small_pools, make, all_of):
    """Of points that hold more than s, because that is better, no exchange is claimed, but all pairs are looked at."""
    for case in range(scaled(6, 2)):
        problem = make(rng, s=1, lam=1e-3)
        result = cp.minimize(problem, method="swap", seed=case)
        assert np.count_nonzero(result.x) > 1 and result.status is cp.Status.CERTIFIED
        assert cp.certify(all_of(problem), result.x, scan="all").cws_gap <= 2.0 * result.tolerance + 1e-9


@pytest.mark.parametrize("make", [large, components])
def test_a_search_among_many_columns(rng, small_pools, make, monkeypatch):
    monkeypatch.setattr(
        "counterpoise.supervision.GRACE", 60.0
    )  # the last search ends by itself, however slow the machine
    monkeypatch.setattr(sys.modules["counterpoise.solvers.search"], "POOLED", 8)
    problem = make(rng, s=3)
    descent = cp.minimize(problem)
    result = cp.minimize(problem, method="search", work=16)
    assert result.objective <= descent.objective + 1e-9 * abs(descent.objective)
    assert result.success and (result.x > 0).sum() <= 3 and problem.violation(result.x) < 1e-9
    assert cp.minimize(problem, method="search", max_time=1e-9).nit >= 1


@pytest.mark.parametrize("make", [NNSPCA, SPCA])
def test_exchanges_on_sparse_data_do_not_form_the_gram_matrix(rng, small_pools, make):
    """Also where a sparse AᵀA is kept for pairs; the dense one of 20 000 columns takes 3 GB."""
    problem = make(sp.random_array((30, 80), density=0.05, rng=rng, format="csc"), 4, 1e3)
    problem.f.gram, problem.f.may_keep_sparse = False, True
    assert problem.f.sparse_Q is not None
    result = cp.minimize(problem, method="swap")
    assert result.success and np.count_nonzero(result.x) <= 4
    found = cp.certify(problem, result.x, level="swap")
    assert found.swap_gap <= 1e-9 * abs(result.objective)
    assert "Q" not in problem.f.__dict__ and "Q" not in problem.by_columns.f.__dict__


def test_a_method_that_keeps_the_gram_matrix_says_so(rng):
    f = cp.LeastSquares(rng.standard_normal((5, 8)), 0.0, gram=False)
    problem = cp.Problem(f, cp.Bounds(-1.0, 1.0), cp.Norm2(100.0), cp.Sum(0.0))
    with pytest.raises(ValueError, match=r"keeps AᵀA, here 8 × 8"):
        cp.minimize(problem, method="search")


KINDS = ("normal", "positive", "counts", "equal columns", "empty columns", "low rank", "zero")


def small_data(rng, kind, n):
    """A data matrix, most of them degenerate."""
    A = rng.standard_normal((6, n))
    if kind == "positive":
        A = np.abs(A)
    elif kind == "counts":
        A = rng.poisson(0.7, A.shape).astype(float)
    elif kind == "equal columns":
        A[:, n // 2 :] = A[:, : n - n // 2]
    elif kind == "empty columns":
        A[:, rng.random(n) < 0.5] = 0.0
    elif kind == "low rank":
        A[1:] = 0.0
    elif kind == "zero":
        A[:] = 0.0
    return A


def arc_point(rng, n, held):
    """A point of length 1, now and then with equal coordinates, or some of which are very small."""
    x = np.zeros(n)
    kind = rng.integers(3)
    sizes = np.ones(held) if kind == 0 else rng.random(held) ** (1 if kind == 1 else 12) + 1e-9
    x[rng.choice(n, held, replace=False)] = sizes
    return x / np.linalg.norm(x)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_gains_on_the_sphere_are_those_of_every_pair(rng, small_pools, kind, sparse, single, monkeypatch):
    """Below, at and above the exact regime; fewer than s held, as many, and more; anywhere and where little gains."""
    for _ in range(scaled(60, 12)):
        n = int(rng.integers(2, 10))
        s, held = int(rng.integers(1, n + 1)), int(rng.integers(1, n + 1))
        lam = float(rng.choice([0.0, 0.1, 1.0, 3.0, 10.0, 1e3, 1e8]))
        y = rng.choice([0.0, 1.0]) * rng.standard_normal(6)
        problem = components(rng, s=s, lam=lam, sparse=sparse, single=single, y=y, A=small_data(rng, kind, n))
        x, pool = arc_point(rng, n, held), ArcPool(problem)
        monkeypatch.setattr(pools, "DENSE", int(rng.integers(1, 4)))
        if rng.random() < 0.5:
            s_before, lam_before = int(rng.integers(1, n + 1)), lam * float(rng.choice([0.5, 0.9, 1.0, 1.1, 2.0]))
            x = cp.minimize(whole_components(problem).variant(s=s_before, lam=lam_before), x, theta=0.0).x
        gains = pool.gains(x)
        terms, at = whole_components(problem).terms(), x.copy()
        sweep.start(terms, at)
        size = 1.0 + float(np.abs(problem.f.diagonal).max()) + float(np.abs(y).max())
        for k in range(n):
            pairs = [sweep.step(terms, at, k, j, 0.0)[2] for j in np.flatnonzero(x)] if x[k] == 0.0 else [0.0]
            assert gains[k] == pytest.approx(max(pairs), abs=1e-14 * (size + lam) + 1e-12 * size)
        np.testing.assert_allclose(
            pool.slopes(x), whole_components(problem).f.gradient(x) + lam, atol=1e-12 * size + 1e-15 * lam
        )


@pytest.mark.parametrize("kind", KINDS)
def test_gains_on_the_sphere_are_those_of_a_grid(rng, small_pools, kind):
    for trial in range(scaled(40, 4)):
        n = int(rng.integers(2, 8))
        s, held = int(rng.integers(1, n + 1)), int(rng.integers(1, n + 1))
        lam = float(rng.choice([0.0, 0.3, 1.0, 3.0, 10.0, 1e3]))
        A, x = small_data(rng, kind, n), arc_point(rng, n, held)
        gains = ArcPool(components(rng, s=s, lam=lam, A=sp.csr_array(A) if trial % 2 else A)).gains(x)
        case = case_of("NNSPCA", A, np.zeros(6), lam, s)
        for k in np.flatnonzero(x == 0.0):
            best = max(best_on_pair(case, x, k, j, "arc", grid=201) for j in np.flatnonzero(x))
            assert gains[k] == pytest.approx(best, abs=1e-7 * case.size(x))


def test_a_pair_that_is_bounded_does_not_gain(rng):
    """The bound against a fine grid of turns; it decides most pairs that gain nothing."""
    angles = np.linspace(0.0, 0.5 * np.pi, 2001)
    bounded = idle = 0
    for _ in range(scaled(4000, 1000)):
        slope_j = float(rng.choice([1.0, 10.0])) * rng.normal(-1.0, 1.0)
        B = rng.standard_normal((int(rng.integers(1, 4)), 2))
        q_kk, q_jj, q_kj = -B[:, 0] @ B[:, 0], -B[:, 1] @ B[:, 1], -B[:, 0] @ B[:, 1]
        v, lam = rng.random(), float(rng.choice([0.0, 0.3, 3.0, 30.0, 1e4]))
        second = float(rng.choice([0.0, 0.0, 0.5, 0.9, 1.0, 1.5])) * v
        first = np.inf if rng.random() < 0.1 else second + float(rng.choice([0.0, 0.01, 1.0]))
        slope_k = (-lam * rng.uniform(0.8, 1.2) if rng.random() < 0.5 else rng.normal(0.0, 2.0)) + lam
        if rng.random() < 0.5:  # then the whole exchange changes little
            slope_j = slope_k - lam + 0.5 * (q_kk + q_jj - 2.0 * q_kj) * v - float(rng.choice([0.0, 0.01]))
        slope_j, most = slope_j + lam, float(rng.choice([0.0, 0.0, 0.1, 1.0]))
        crosses, even_j = bool(rng.integers(2)), lam * float(rng.choice([0.0, 1.0]))
        u, w = v * np.sin(angles), v * np.cos(angles)
        step = (-w if crosses else w) - v
        after = np.max([u, w, np.full_like(u, second), u + w - first], axis=0)
        change = slope_k * u + 0.5 * q_kk * u**2 + 0.5 * q_jj * step**2 + q_kj * u * step
        change += (slope_j - even_j) * step + even_j * (w - v)
        change += lam * (max(v, second) - after)
        held_j = np.array([v, slope_j, even_j, first, second])
        says = enter._cannot_gain(slope_k, q_kk, q_jj, q_kj, crosses, held_j, lam, most)
        nothing = change.min() >= -most - 1e-12 * (1.0 + lam)
        assert nothing or not says
        bounded, idle = bounded + bool(says), idle + bool(nothing)
    assert bounded > 0.8 * idle > 0
    # Only where u + w − q is the least does this one gain.
    held_j = np.array([1.0, -49.0, 0.0, 1.0, 1.0])
    assert not enter._cannot_gain(0.0, -50.0, -50.0, -1.0, False, held_j, 1.0, 0.0)


@pytest.mark.compiled
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_components_are_certified_against_every_pair_whatever_lam(rng, small_pools, sparse, single):
    for case in range(scaled(24, 4)):
        kind = KINDS[case % len(KINDS)]
        lam = float(rng.choice([0.1, 1.0, 10.0, 1e3, 1e6]))
        problem = components(rng, lam=lam, sparse=sparse, single=single, A=small_data(rng, kind, 24))
        assert problem.f.A.dtype == (np.float32 if single else np.float64)
        result = cp.minimize(problem, seed=case)
        assert result.status is cp.Status.CERTIFIED
        certificate = cp.certify(whole_components(problem), result.x, scan="all")
        assert certificate.cws_gap <= 2.0 * result.tolerance + 1e-9


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_certificate_through_columns_is_that_of_all_pairs(rng, small_pools, sparse, kind):
    for trial in range(scaled(40, 5)):
        n = int(rng.integers(2, 12))
        s, lam = int(rng.integers(1, n + 1)), float(rng.choice([0.0, 0.3, 3.0, 30.0, 1e6]))
        A = small_data(rng, kind, n)
        problem = components(rng, s=s, lam=lam, sparse=sparse, single=trial % 2 == 0, A=A)
        x = arc_point(rng, n, int(rng.integers(1, n + 1)))
        found, reference = cp.certify(problem, x), cp.certify(whole_components(problem), x, scan="all")
        size = 1.0 + float(np.abs(problem.f.diagonal).max())
        assert found.cws_gap == pytest.approx(reference.cws_gap, abs=1e-14 * (size + lam) + 1e-12 * size)
        assert (found.worst_pair is None) == (found.cws_gap == 0.0)
        if found.worst_pair is not None:
            moved = x.copy()
            moved[list(found.worst_pair)] += found.worst_step
            fall = problem.objective(x) - problem.objective(moved)
            assert fall == pytest.approx(found.cws_gap, abs=1e-12 * (size + lam))


def test_the_gram_matrix_of_a_pool_is_that_of_its_columns(rng, small_pools):
    problem = components(rng, sparse=True, single=True, y=rng.standard_normal(15))
    members = np.array([3, 30, 7, 8, 0])
    small, A = ArcPool(problem).restricted(members), problem.f.A.toarray().astype(float)[:, members]
    np.testing.assert_allclose(small.f.Q, -A.T @ A, atol=1e-12)
    x = np.zeros(40)
    x[members] = arc_point(rng, 5, 4)
    assert small.objective(x[members]) == pytest.approx(problem.objective(x), rel=1e-12)


@pytest.mark.compiled
def test_sparse_data_is_never_copied(rng):
    import tracemalloc

    A = sp.random_array((3000, 20_000), density=0.05, format="csc", dtype=np.float32, rng=rng)
    A.sort_indices()
    pool = ArcPool(components(rng, s=30, A=A))
    pool.f.diagonal  # noqa: B018
    x = arc_point(rng, 20_000, 30)
    bytes_held = A.data.nbytes + A.indices.nbytes + A.indptr.nbytes
    tracemalloc.start()
    pool.gains(x)
    pool.promises(x)
    pool.restricted(np.arange(600))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert pool.f.A.dtype == np.float32 and np.shares_memory(pool.f.A.data, A.data)
    assert peak < 0.5 * bytes_held

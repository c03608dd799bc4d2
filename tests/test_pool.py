"""Many columns: pools agree with the whole problem, and their certificates with a scan of every pair."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import counterpoise as cp
from conftest import scaled
from counterpoise.solvers import pool as pools
from counterpoise.solvers.pool import Pool


@pytest.fixture
def small_pools(monkeypatch):
    """Pools so small that a few dozen columns are many."""
    for name, value in {"PRICED": 6, "GAINING": 3, "PROMISING": 5}.items():
        monkeypatch.setattr(pools, name, value)
    monkeypatch.setattr("counterpoise.terms.smooth.BLOCK", 7)


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


@pytest.mark.parametrize("kind", [{}, {"sparse": True}, {"single": True}])
def test_a_pool_ends_certified_against_every_pair(rng, small_pools, kind):
    for case in range(scaled(12, 3)):
        problem = large(rng, **kind)
        assert pools.applies(problem)
        result = cp.minimize(problem, seed=case)
        assert result.status is cp.Status.CERTIFIED and result.success
        certificate = cp.certify(whole(problem), result.x, scan="all")
        assert certificate.cws_gap <= 2.0 * result.tolerance + 1e-9
        assert problem.violation(result.x) < 1e-12 and (result.x > 0).sum() <= 4


@pytest.mark.parametrize("bounded", [False, True])
def test_gains_are_those_of_the_pairs(rng, small_pools, bounded):
    """The largest gain of a column is the largest decrease over its pairs with held coordinates."""
    for _ in range(scaled(15, 4)):
        h = cp.Bounds(0.0, 0.4 if bounded else np.inf) + cp.Linear(rng.normal(0.0, 1.0, 12))
        problem = large(rng, n=12, s=3, lam=float(rng.choice([0.5, 5.0, 500.0])), h=h)
        x = np.zeros(12)
        x[rng.choice(12, int(rng.integers(2, 6)), replace=False)] = 1.0
        x = problem.project(x / x.sum())
        gains = Pool(problem).gains(x)
        held = np.flatnonzero(x)
        for k in np.flatnonzero(x == 0.0):
            best = 0.0
            for j in held:
                most = min(x[j], problem.separable.hi[k])
                for eta in np.linspace(0.0, most, 400):
                    moved = x.copy()
                    moved[j] -= eta
                    moved[k] += eta
                    best = max(best, problem.objective(x) - problem.objective(moved))
            assert gains[k] >= best - 1e-9
            assert gains[k] <= best + 1e-3 * (1.0 + best)


def test_swaps_on_pools_are_swaps_on_all(rng, small_pools):
    for case in range(scaled(10, 3)):
        problem = large(rng, n=30, s=3, lam=1e5)
        result = cp.minimize(problem, method="swap", seed=case)
        assert result.status is cp.Status.SWAP_OPTIMAL
        certificate = cp.certify(whole(problem), result.x, level="swap")
        assert certificate.swap_gap <= 1e-7 * (1.0 + abs(result.objective))


def test_promises_bound_the_exchanges(rng, small_pools):
    for _ in range(scaled(10, 3)):
        problem = large(rng, n=14, s=3, lam=1e5)
        result = cp.minimize(problem)
        promises = Pool(problem).promises(result.x)
        gap = cp.certify(whole(problem), result.x, level="swap").swap_gap
        assert promises.max() >= gap - 1e-9


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


def components(rng, n=40, s=4, sparse=False):
    A = rng.standard_normal((15, n))
    if sparse:
        A = sp.csc_array(A * (rng.random(A.shape) < 0.5))
    f = cp.LeastSquares(A, 0.0, scale=-1.0, gram=False)
    h = cp.Bounds(0.0, np.inf) + cp.Linear(1e4)
    return cp.Problem(f, h, cp.TopSum(s, 1e4), cp.Sphere())


def whole_components(problem):
    A = problem.f.A.toarray() if sp.issparse(problem.f.A) else problem.f.A
    f = cp.LeastSquares(A, 0.0, scale=-1.0, gram=True)
    return cp.Problem(f, problem.h, problem.g, problem.u)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("method", ["bcd-g", "swap"])
def test_components_of_many_columns(rng, small_pools, sparse, method, monkeypatch):
    monkeypatch.setattr(pools, "PROMISING", 16)  # as many as a certificate polishes
    for case in range(scaled(6, 2)):
        problem = components(rng, sparse=sparse)
        assert pools.applies(problem)
        result = cp.minimize(problem, method=method, seed=case)
        assert result.success and problem.violation(result.x) < 1e-9 and (result.x > 0).sum() <= 4
        certificate = cp.certify(whole_components(problem), result.x, scan="all", level="swap")
        assert certificate.cws_gap <= 2.0 * result.tolerance + 1e-9
        if method == "swap":
            assert certificate.swap_gap <= 1e-6 * abs(result.objective)


@pytest.mark.parametrize("make", [large, components])
def test_a_search_among_many_columns(rng, small_pools, make, monkeypatch):
    monkeypatch.setattr(sys.modules["counterpoise.solvers.search"], "POOLED", 8)
    problem = make(rng, s=3)
    descent = cp.minimize(problem)
    result = cp.minimize(problem, method="search", work=16)
    assert result.objective <= descent.objective + 1e-9 * abs(descent.objective)
    assert result.success and (result.x > 0).sum() <= 3 and problem.violation(result.x) < 1e-9
    assert cp.minimize(problem, method="search", max_time=1e-9).nit >= 1


def test_a_method_that_keeps_the_gram_matrix_says_so(rng):
    f = cp.LeastSquares(rng.standard_normal((5, 8)), 0.0, gram=False)
    problem = cp.Problem(f, cp.Bounds(-1.0, 1.0), cp.Norm2(100.0), cp.Sum(0.0))
    with pytest.raises(ValueError, match=r"keeps AᵀA, here 8 × 8"):
        cp.minimize(problem, method="search")

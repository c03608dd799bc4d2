"""Sparse components with signs: exchanges, search, proofs and pools, against the eigenvalues of all supports."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import counterpoise as cp
from conftest import scaled
from counterpoise.certificates import exactness_threshold
from counterpoise.experiments import published
from counterpoise.kernels import swap_arc as kernels
from counterpoise.kernels import sweep
from counterpoise.problems import SPCA
from counterpoise.registry import pool_for
from counterpoise.solvers import pool as pools
from counterpoise.solvers.components import component_bound
from counterpoise.solvers.pool import ArcPool
from counterpoise.solvers.sparse_arc import SparseArc
from naive import best_signed_exchange, signed_component_optimum, sparse_pca_optimum
from test_pool import small_data, small_pools  # noqa: F401
from test_sparse_arc import KINDS, make_matrix


def signed_sparse_point(rng, n, m):
    """A point of length 1 with m non-zeros, now and then of very different sizes."""
    x = np.zeros(n)
    x[rng.choice(n, m, replace=False)] = rng.choice([-1.0, 1.0], m) * (rng.random(m) ** rng.choice([1, 4, 30]) + 1e-9)
    return x / np.linalg.norm(x)


def is_feasible(x, s):
    return x.dtype == np.float64 and np.count_nonzero(x) <= s and abs(x @ x - 1) < 1e-12


def stated(G, s, lam=1e3):
    """max ½xᵀGx as a problem, G definite or not."""
    f, g = cp.Quadratic(-G), cp.TopSum(s, lam)
    return cp.Problem(f, cp.AbsoluteDeviation(0.0, lam), g, cp.Sphere(signed=True))


# Kernels.


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_eigenvalues_and_are_attained(rng, kind):
    for _ in range(scaled(100, 40)):
        n = int(rng.integers(2, 9))
        s = int(rng.integers(1, n + 1))
        A = make_matrix(rng, kind, n)
        G, x = A.T @ A, signed_sparse_point(rng, n, int(rng.integers(max(1, s - 1), s + 1)))
        held, size = np.flatnonzero(x), np.abs(G).max() + 1e-300
        score, out, rest = np.empty(n), np.empty(n, dtype=np.int64), np.empty(max(s, len(held)))
        kernels.score_swaps(G, np.diag(G).copy(), x, G @ x, held, len(held), s, True, np.empty(n), score, out, rest)
        assert (score[held] == -np.inf).all()
        for j in np.flatnonzero(x == 0):
            values = []
            for leaves in [None] if len(held) < s else held:
                kept = np.where(np.arange(n) == leaves, 0.0, x)
                if kept.any():
                    pair = np.column_stack([kept / np.linalg.norm(kept), np.eye(n)[j]])
                    values.append(0.5 * np.linalg.eigvalsh(pair.T @ G @ pair)[1])
                else:
                    values.append(0.5 * G[j, j])
            assert score[j] == pytest.approx(max(values), abs=1e-12 * size)
            tried, z, y = np.empty(n, dtype=np.int64), np.empty(n), np.zeros(n)
            level = x @ G @ x if out[j] < 0 else rest[out[j]]
            count = kernels.exchange(G, x, held, len(held), out[j], j, level, True, tried, z)
            y[tried[:count]] = z[:count]
            assert is_feasible(y, s) and 0.5 * y @ G @ y == pytest.approx(score[j], abs=1e-12 * size)


def test_polishing_finds_the_leading_eigenvector(rng):
    for _ in range(scaled(300, 60)):
        n = int(rng.integers(1, 14))
        A = rng.standard_normal((int(rng.integers(1, 14)), n))
        G, x = A.T @ A, signed_sparse_point(rng, n, int(rng.integers(1, n + 1)))
        support, before = np.flatnonzero(x), 0.5 * x @ G @ x
        reached = kernels.polish(G, x, True)
        assert reached == pytest.approx(0.5 * np.linalg.eigvalsh(G[np.ix_(support, support)])[-1], rel=1e-12)
        assert 0.5 * x @ G @ x == pytest.approx(reached, rel=1e-13) and reached >= before * (1 - 1e-14)
        assert is_feasible(x, len(support)) and not np.delete(x, support).any()


@pytest.mark.parametrize("kind", KINDS)
def test_no_exchange_improves_where_a_descent_ends(rng, kind):
    for _ in range(scaled(60, 20)):
        n = int(rng.integers(2, 11))
        s = int(rng.integers(1, n + 1))
        A = make_matrix(rng, kind, n)
        G, x = A.T @ A, rng.standard_normal(n)
        size = np.abs(G).max() + 1e-300
        kernels.descend(G, x, s, 1e-10, 1000, True)
        assert is_feasible(x, s)
        assert kernels.swap_gap(G, x, s, kernels.CANDIDATES, True)[0] <= 1e-9 * size
        assert np.abs(G @ x - (x @ G @ x) * x)[x != 0].max() <= 1e-9 * size


def test_shrinking_leaves_at_most_s_of_those_it_had(rng):
    for trial in range(scaled(100, 42)):
        n = int(rng.integers(2, 12))
        s, A = int(rng.integers(1, n + 1)), make_matrix(rng, KINDS[trial % len(KINDS)], n)
        x = signed_sparse_point(rng, n, int(rng.integers(1, n + 1)))
        had = x != 0
        kernels.shrink(A.T @ A, x, s, True)
        assert is_feasible(x, s) and not x[~had].any()


# Exchanges and proofs.


@pytest.mark.parametrize("kind", [*KINDS, "indefinite"])
def test_a_swap_optimal_point_is_one_by_the_eigenvalues_of_all_exchanges(rng, kind):
    for trial in range(scaled(40, 6)):
        n = int(rng.integers(2, 10))
        s = int(rng.integers(1, n + 1))
        A = make_matrix(rng, "normal" if kind == "indefinite" else kind, n)
        G = A + A.T if kind == "indefinite" else A.T @ A
        problem = stated(G, s, 1e4) if trial % 2 or kind == "indefinite" else SPCA(A, s, 1e4)
        result = cp.minimize(problem, method="swap", seed=trial)
        size = np.abs(G).max() + 1e-300
        value = result.x @ G @ result.x
        best, own = best_signed_exchange(G, result.x, s)
        assert result.status is cp.Status.SWAP_OPTIMAL
        assert is_feasible(result.x, s) and problem.violation(result.x) <= 1e-12
        assert best <= value + 2.0 * result.swap_gap + 1e-12 * size and own <= value + 1e-9 * size
        assert result.swap_gap <= 1e-9 * abs(value) + 1e-9 * size
        assert best <= value + 1e-8 * size


@pytest.mark.parametrize("kind", [*KINDS, "indefinite"])
def test_a_certificate_over_exchanges_is_that_of_their_eigenvalues(rng, kind):
    for trial in range(scaled(60, 6)):
        n = int(rng.integers(2, 9))
        s = int(rng.integers(1, n + 1))
        A = make_matrix(rng, "normal" if kind == "indefinite" else kind, n)
        G = A + A.T if kind == "indefinite" else A.T @ A
        problem = stated(G, s, 50.0) if trial % 2 or kind == "indefinite" else SPCA(A, s, 50.0)
        x = signed_sparse_point(rng, n, int(rng.integers(1, s + 1)))
        found, size = cp.certify(problem, x, level="swap"), np.abs(G).max() + 1e-300
        gain = 0.5 * (best_signed_exchange(G, x, s)[0] - x @ G @ x)
        assert found.swap_gap == pytest.approx(max(gain, 0.0), abs=1e-9 * size)
        assert found.swap_bound >= gain - 1e-12 * size
        assert found.swap_bound == pytest.approx(max(gain, 0.0), abs=1e-9 * size)
        if found.worst_swap is not None:
            leaves, enters = found.worst_swap
            at = SparseArc(problem).weighted(x)
            assert at[enters] == 0.0 and (at[leaves] != 0.0 if leaves >= 0 else np.count_nonzero(at) < s)


@pytest.mark.parametrize("kind", [*KINDS, "indefinite"])
def test_search_finds_and_exact_proves_the_optimum_of_small_problems(rng, kind):
    for trial in range(scaled(15, 3)):
        n = int(rng.integers(2, 10))
        s = int(rng.integers(1, n + 1))
        A = make_matrix(rng, "normal" if kind == "indefinite" else kind, n)
        G = A + A.T if kind == "indefinite" else A.T @ A
        problem = stated(G, s, 1e4) if trial % 2 or kind == "indefinite" else SPCA(A, s, 1e4)
        best, size = 0.5 * signed_component_optimum(G, s), np.abs(G).max() + 1e-300
        found = cp.minimize(problem, method="search", work=24)
        assert -found.objective == pytest.approx(best, abs=1e-10 * size)
        proved = cp.minimize(problem, method="exact")
        assert proved.status is cp.Status.OPTIMAL and np.count_nonzero(proved.x) <= s
        assert -proved.objective == pytest.approx(best, abs=1e-10 * size)


@pytest.mark.parametrize("kind", ["normal", "equal columns", "empty columns", "orthogonal"])
def test_at_most_s_loadings_need_no_lam(rng, kind):
    """The same optima, exchanges and certificates with the constraint itself."""
    for _ in range(scaled(12, 3)):
        n = int(rng.integers(2, 10))
        s, A = int(rng.integers(1, n + 1)), make_matrix(rng, kind, n)
        G = A.T @ A
        f = cp.LeastSquares(A, 0.0, scale=-1.0)
        problem = cp.Problem(f, None, cp.AtMost(s), cp.Sphere(signed=True))
        best, size = 0.5 * signed_component_optimum(G, s), np.abs(G).max() + 1e-300
        for method, status in (("search", cp.Status.CERTIFIED), ("exact", cp.Status.OPTIMAL)):
            result = cp.minimize(problem, method=method)
            assert result.status is status and is_feasible(result.x, s)
            assert -result.objective == pytest.approx(best, abs=1e-10 * size)
        swapped = cp.minimize(problem, method="swap")
        exchanged = best_signed_exchange(G, swapped.x, s)[0]
        assert swapped.status is cp.Status.SWAP_OPTIMAL
        assert exchanged <= swapped.x @ G @ swapped.x + 1e-8 * size
        certificate = cp.certify(problem, swapped.x, level="swap")
        assert certificate.swap_bound <= 1e-8 * size and certificate.critical_residual <= 1e-4 * size


def test_exact_improves_on_a_poor_start_and_counts_supports(rng, monkeypatch):
    """The enumeration itself finds the optimum: the search before it is kept from doing so."""
    module = sys.modules["counterpoise.solvers.exact"]
    monkeypatch.setattr(module, "search", lambda problem, x0, **_: cp.minimize(problem, np.eye(9)[0], max_iter=1))
    monkeypatch.setattr(SparseArc, "descend", lambda self, x: np.eye(9)[0])
    for s in (1, 2, 4, 8, 9):
        A = rng.standard_normal((9, 9))
        proved = cp.minimize(SPCA(A, s, 1e4), method="exact")
        assert -proved.objective == pytest.approx(0.5 * signed_component_optimum(A.T @ A, s), rel=1e-12)
        assert proved.proof.candidates == {1: 9, 2: 36, 4: 126, 8: 9, 9: 1}[s]


def test_weights_on_a_support_are_the_leading_eigenvector_even_from_another_one(rng):
    """Power steps from an eigenvector stay there; the eigenvalues of the support show the better one."""
    G = np.diag([1.0, 2.0, 3.0])
    strategy = SparseArc(stated(G, 2))
    np.testing.assert_allclose(np.abs(strategy.weighted(np.array([0.0, 1.0, 1e-300]))), [0, 0, 1], atol=1e-12)
    point, _, bound = strategy.advance(np.array([1.0, 0.0, 0.0]), 100, 1e-12)
    assert point @ G @ point == pytest.approx(3.0) and (np.isnan(bound) or bound <= 1e-12)


def test_children_of_opposite_parents_do_not_cancel(rng):
    A = rng.standard_normal((8, 10))
    strategy = SparseArc(SPCA(A, 4, 1e3))
    x = strategy.start(0, rng)
    for _ in range(20):
        child = strategy._united(x, -x, rng)
        assert is_feasible(child, 4) and np.sum((A @ child) ** 2) >= np.sum((A @ x) ** 2) - 1e-9


def test_small_lam_ends_no_worse_than_pairs(rng):
    for _ in range(scaled(20, 3)):
        A, lam = rng.standard_normal((8, 9)), float(10.0 ** rng.uniform(-2, 1))
        problem = SPCA(A, 3, lam)
        pairs = cp.minimize(problem, seed=1)
        for method in ("swap", "search"):
            result = cp.minimize(problem, pairs.x, method=method)
            assert result.objective <= pairs.objective + 1e-9 * abs(pairs.objective)
            assert result.success and problem.violation(result.x) <= 1e-12


def test_a_path_over_s_rises_to_the_largest_eigenvalue(rng):
    A = rng.standard_normal((12, 8))
    path = cp.path(SPCA(A, 1, 1e3), s=range(1, 9))
    values = np.array([-2.0 * result.objective for result in path.results])
    best = [signed_component_optimum(A.T @ A, s) for s in range(1, 9)]
    assert (np.diff(values) >= -1e-9).all() and (values <= np.array(best) + 1e-9).all()
    assert values[-1] == pytest.approx(np.linalg.eigvalsh(A.T @ A)[-1])


def test_linear_terms_are_left_to_pairs(rng):
    A, y = rng.standard_normal((5, 6)), rng.standard_normal(5)
    f = cp.LeastSquares(A, y, scale=-1.0)
    problem = cp.Problem(f, cp.AbsoluteDeviation(0, 3.0), cp.TopSum(2, 3.0), cp.Sphere(signed=True))
    with pytest.raises(ValueError, match=r"AbsoluteDeviation\(0, lam\) as in SPCA"):
        cp.minimize(problem, method="exact")
    assert cp.certify(problem, problem.start(0)).exact_lam is None
    result = cp.minimize(problem, method="search", work=4)
    assert result.objective <= cp.minimize(problem).objective + 1e-9


def test_bounds_of_a_component_are_bounds(rng):
    """With signs and without, against enumeration; exact for s = 1 and s = n with signs."""
    for trial in range(scaled(300, 60)):
        n = int(rng.integers(1, 9))
        A = make_matrix(rng, KINDS[trial % len(KINDS)], n)
        C = A[:, ::-1].T @ A + A.T @ A[:, ::-1] if trial % 4 == 0 else A.T @ A
        size = np.abs(C).max() + 1e-300
        for s in range(1, n + 1):
            best = signed_component_optimum(C, s)
            assert component_bound(C, s) >= best - 1e-12 * size
            if trial % 4:
                bound = component_bound(C, s, signed=False)
                assert 2.0 * sparse_pca_optimum(A, s)[0] - 1e-12 * size <= bound <= component_bound(C, s) + 1e-12 * size
        assert component_bound(C, 1) == pytest.approx(np.diag(C).max(), abs=1e-12 * size)
        assert component_bound(C, n) == pytest.approx(np.linalg.eigvalsh(C)[-1], abs=1e-12 * size)


@pytest.mark.compiled
def test_published_optima_are_reached(data_folder):
    """Pitprops, wine, miniboone and communities, by a search of the problem as it is stated."""
    chosen, absent = published.instances(data_folder)
    assert len(chosen) == 19 and not absent
    for each in chosen:
        lam = 2.0 * exactness_threshold(stated(each.C, each.k))
        x = cp.minimize(stated(each.C, each.k, lam), method="search").x
        value = float(x @ each.C @ x)
        assert np.count_nonzero(x) <= each.k and each.is_reached(value)
        assert value <= component_bound(each.C, each.k) + 1e-12


# Many columns.


def many(A, s, lam, sparse=False, single=False, y=0.0):
    A = A.astype(np.float32) if single else A
    f = cp.LeastSquares(sp.csc_array(A) if sparse else A, y, scale=-1.0, gram=False)
    return cp.Problem(f, cp.AbsoluteDeviation(0.0, lam), cp.TopSum(s, lam), cp.Sphere(signed=True))


def dense(problem):
    A = problem.f.A.toarray() if sp.issparse(problem.f.A) else problem.f.A
    f = cp.LeastSquares(A.astype(float), problem.f.y, scale=-1.0)
    return cp.Problem(f, problem.h, problem.g, problem.u)


@pytest.mark.parametrize("kind", ["normal", "counts", "equal columns", "empty columns", "zero"])
@pytest.mark.parametrize("sparse", [False, True])
def test_gains_through_columns_are_those_of_every_pair(rng, small_pools, kind, sparse, monkeypatch):  # noqa: F811
    for trial in range(scaled(100, 8)):
        n = int(rng.integers(2, 10))
        s, held = int(rng.integers(1, n + 1)), int(rng.integers(1, n + 1))
        lam = float(rng.choice([0.0, 0.1, 1.0, 3.0, 10.0, 1e3, 1e8]))
        y = rng.choice([0.0, 1.0]) * rng.standard_normal(6)
        problem = many(small_data(rng, kind, n), s, lam, sparse, trial % 2 == 0, y)
        x, pool = signed_sparse_point(rng, n, held), ArcPool(problem)
        monkeypatch.setattr(pools, "DENSE", int(rng.integers(1, 4)))
        if rng.random() < 0.5:
            x = cp.minimize(dense(problem).variant(s=int(rng.integers(1, n + 1))), x).x
        gains, terms, at = pool.gains(x), dense(problem).terms(), x.copy()
        sweep.start(terms, at)
        size = 1.0 + float(np.abs(problem.f.diagonal).max()) + float(np.abs(y).max())
        for k in range(n):
            pairs = [sweep.step(terms, at, k, j, 0.0)[2] for j in np.flatnonzero(x)] if x[k] == 0.0 else [0.0]
            assert gains[k] == pytest.approx(max(pairs), abs=1e-14 * (size + lam) + 1e-12 * size)
        steepest = lam - np.abs(dense(problem).f.gradient(x))
        np.testing.assert_allclose(pool.slopes(x), steepest, atol=1e-12 * size + 1e-15 * lam)


@pytest.mark.compiled
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_pools_end_certified_and_swap_optimal_against_all_columns(rng, small_pools, sparse, single):  # noqa: F811
    for trial in range(6):
        A = small_data(rng, ["normal", "counts", "equal columns"][trial % 3], 30)
        problem = many(A, 4, float(rng.choice([0.3, 1e3, 1e5])), sparse, single)
        assert pool_for(problem) is not None
        result = cp.minimize(problem, seed=trial)
        assert result.status is cp.Status.CERTIFIED
        assert cp.certify(dense(problem), result.x, scan="all").cws_gap <= 2.0 * result.tolerance + 1e-9
        swapped = cp.minimize(problem, method="swap", seed=trial)
        G = dense(problem).f.A.T @ dense(problem).f.A
        if problem.g.lam > 1.0:
            assert swapped.status is cp.Status.SWAP_OPTIMAL
            best = best_signed_exchange(G, swapped.x, 4)[0]
            assert best <= swapped.x @ G @ swapped.x + 1e-8 * np.abs(G).max()
            certificate = cp.certify(problem, swapped.x, level="swap")
            assert certificate.swap_bound <= 1e-8 * np.abs(G).max()
            found = cp.minimize(problem, method="search", work=16)
            assert found.objective <= swapped.objective + 1e-9 * abs(swapped.objective)
            assert found.success and np.count_nonzero(found.x) <= 4


@pytest.mark.parametrize("sparse", [False, True])
def test_a_certificate_through_columns_is_that_of_all_pairs(rng, small_pools, sparse):  # noqa: F811
    for trial in range(scaled(100, 8)):
        n = int(rng.integers(2, 12))
        s, lam = int(rng.integers(1, n + 1)), float(rng.choice([0.0, 0.3, 3.0, 30.0, 1e6]))
        problem = many(small_data(rng, ["normal", "low rank", "counts"][trial % 3], n), s, lam, sparse)
        x = signed_sparse_point(rng, n, int(rng.integers(1, n + 1)))
        found, reference = cp.certify(problem, x), cp.certify(dense(problem), x, scan="all")
        size = 1.0 + float(np.abs(problem.f.diagonal).max())
        assert found.cws_gap == pytest.approx(reference.cws_gap, abs=1e-14 * (size + lam) + 1e-12 * size)
        held = signed_sparse_point(rng, n, int(rng.integers(1, s + 1)))
        exchanges, all_of_them = cp.certify(problem, held, level="swap"), cp.certify(dense(problem), held, level="swap")
        assert exchanges.swap_gap == pytest.approx(all_of_them.swap_gap, abs=1e-9 * size)


@pytest.mark.compiled
@pytest.mark.parametrize("signed", [True, False])
def test_a_search_takes_columns_whose_sparse_products_are_kept(rng, small_pools, signed):  # noqa: F811
    for trial in range(4):
        A = small_data(rng, "counts", 30)
        problem = many(A, 4, 1e5, sparse=True)
        if not signed:
            h, g = cp.Bounds(0, np.inf) + cp.Linear(1e5), problem.g
            problem = cp.Problem(problem.f, h, g, cp.Sphere())
        problem.f.may_keep_sparse = True
        assert problem.f.sparse_Q is not None and problem.f.by_columns.sparse_Q is None
        found = cp.minimize(problem, method="search", work=16, seed=trial)
        assert found.success and np.count_nonzero(found.x) <= 4
        assert found.objective == pytest.approx(problem.objective(found.x), rel=1e-12)
        assert cp.certify(problem, found.x).cws_gap <= 2.0 * found.tolerance + 1e-9
        G = A.T @ A
        assert found.x @ G @ found.x <= signed_component_optimum(G, 4) * (1 + 1e-9)
        if signed:
            best = best_signed_exchange(G, found.x, 4)[0]
            assert best <= found.x @ G @ found.x + 1e-8 * np.abs(G).max()

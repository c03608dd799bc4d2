"""Exchanges on the sphere: closed forms against grids and eigenvalues, polishing, descent, search against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.linalg import eigh

import counterpoise as cp
from conftest import scaled
from counterpoise.kernels import swap_arc as kernels
from counterpoise.problems import NNSPCA
from counterpoise.solvers.sparse_arc import NegativeGram, SparseArc
from naive import sparse_pca_optimum

KINDS = ("normal", "low rank", "positive", "equal columns", "empty columns", "orthogonal", "zero")


def make_matrix(rng, kind, n):
    """A data matrix, most of them degenerate."""
    A = rng.standard_normal((n, n))
    if kind == "low rank":
        A = A[:2]
    elif kind == "positive":
        A = np.abs(A)
    elif kind == "equal columns":
        A[:, n // 2 :] = A[:, : n - n // 2]
    elif kind == "empty columns":
        A[:, rng.random(n) < 0.5] = 0.0
    elif kind == "orthogonal":
        A = np.diag(rng.integers(0, 3, n).astype(float))
    elif kind == "zero":
        A[:] = 0.0
    return A


def sparse_point(rng, n, m):
    """A point of length 1 with m positive coordinates, now and then of very different sizes."""
    x = np.zeros(n)
    x[rng.choice(n, m, replace=False)] = rng.random(m) ** rng.choice([1, 4, 30]) + 1e-9
    return x / np.linalg.norm(x)


def value(G, x):
    return 0.5 * x @ G @ x


def exchanges(x, s):
    """All (i, j): i leaves, None if none need; j enters."""
    held = np.flatnonzero(x)
    leaving = [None] if len(held) < s else list(held)
    return itertools.product(leaving, np.flatnonzero(x == 0))


def best_angle(G, x, i, j, grid=None):
    """max ½yᵀGy on the arc from x̂ to eⱼ, by an eigenvalue or by a grid."""
    rest = x.copy()
    if i is not None:
        rest[i] = 0.0
    if not rest.any():
        return 0.5 * G[j, j]
    rest /= np.linalg.norm(rest)
    if grid is not None:
        t = np.linspace(0, np.pi / 2, grid)
        points = np.outer(np.cos(t), rest)
        points[:, j] += np.sin(t)
        return 0.5 * np.einsum("ki,ij,kj->k", points, G, points).max()
    small = np.array([[rest @ G @ rest, rest @ G[:, j]], [rest @ G[:, j], G[j, j]]])
    return 0.5 * (np.linalg.eigvalsh(small)[1] if small[0, 1] > 0 else max(small[0, 0], small[1, 1]))


def scores_of(G, x, s):
    n, held = len(x), np.flatnonzero(x)
    score, out, rest = np.empty(n), np.empty(n, dtype=np.int64), np.empty(max(s, len(held)))
    kernels.score_swaps(G, np.diag(G).copy(), x, G @ x, held, len(held), s, False, np.empty(n), score, out, rest)
    return score, [None if position < 0 else held[position] for position in out]


def is_feasible(x, s):
    return x.dtype == np.float64 and (x >= 0).all() and np.count_nonzero(x) <= s and abs(x @ x - 1) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_the_best_angle_of_every_exchange(rng, kind):
    for _ in range(scaled(100, 60)):
        n = int(rng.integers(2, 9))
        s = int(rng.integers(1, n + 1))
        A = make_matrix(rng, kind, n)
        G, x = A.T @ A, sparse_point(rng, n, int(rng.integers(max(1, s - 1), s + 1)))
        score, out = scores_of(G, x, s)
        size = np.abs(G).max() + 1e-300
        assert (score[x > 0] == -np.inf).all()
        for j in np.flatnonzero(x == 0):
            reference = max(best_angle(G, x, i, k) for i, k in exchanges(x, s) if k == j)
            assert score[j] == pytest.approx(reference, abs=1e-12 * size)
            assert best_angle(G, x, out[j], j, grid=2001) == pytest.approx(score[j], abs=1e-5 * size)
        gain, _, _ = kernels.swap_gap(G, x, s, 0, False)
        assert gain == pytest.approx(max(score.max() - value(G, x), 0.0), abs=1e-12 * size)


@pytest.mark.parametrize("kind", KINDS)
def test_a_gap_is_never_less_than_its_closed_form_and_is_attained(rng, kind):
    for _ in range(scaled(60, 40)):
        n = int(rng.integers(2, 9))
        s = int(rng.integers(1, n + 1))
        A = make_matrix(rng, kind, n)
        G, x = A.T @ A, sparse_point(rng, n, s)
        closed = kernels.swap_gap(G, x, s, 0, False)[0]
        gain, out, into = kernels.swap_gap(G, x, s, n, False)
        size = np.abs(G).max() + 1e-300
        assert gain >= closed >= 0
        if gain > 0:
            support = [k for k in np.flatnonzero(x) if k != out] + [into]
            assert len(support) <= s
            top = 0.5 * np.linalg.eigvalsh(G[np.ix_(support, support)])[-1]
            assert gain <= top - value(G, x) + 1e-12 * size
        else:
            assert (out, into) == (-1, -1)


def test_an_exchange_is_made_at_the_point_that_was_scored(rng):
    for trial in range(scaled(400, 200)):
        n = int(rng.integers(2, 9))
        s, A = int(rng.integers(1, n)), make_matrix(rng, KINDS[trial % len(KINDS)], n)
        G, x = A.T @ A, sparse_point(rng, n, s)
        held, j = np.flatnonzero(x), int(rng.choice(np.flatnonzero(x == 0)))
        position = int(rng.integers(s))
        rest = np.where(np.arange(n) == held[position], 0.0, x)
        level = rest @ G @ rest / (rest @ rest) if rest.any() else -1.0
        tried, z, y = np.empty(s, dtype=np.int64), np.empty(s), np.zeros(n)
        assert kernels.exchange(G, x, held, s, position, j, level, False, tried, z) == s
        y[tried] = z
        assert is_feasible(y, s) and y[held[position]] == 0
        assert value(G, y) == pytest.approx(best_angle(G, x, held[position], j), abs=1e-12 * np.abs(G).max())


def test_polishing_finds_the_leading_eigenvector_where_it_is_positive(rng):
    for _ in range(scaled(200, 100)):
        n = int(rng.integers(2, 14))
        A = rng.random((int(rng.integers(1, 14)), n))
        G, x = A.T @ A, sparse_point(rng, n, int(rng.integers(1, n + 1)))
        support = np.flatnonzero(x)
        values, vectors = eigh(G[np.ix_(support, support)])
        reached = kernels.polish(G, x, False)
        assert reached == pytest.approx(0.5 * values[-1], rel=1e-13)
        assert value(G, x) == pytest.approx(reached, rel=1e-13)
        if len(values) > 1 and values[-2] < 0.9 * values[-1]:
            assert np.abs(x[support] - np.abs(vectors[:, -1])).max() < 1e-9


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6])
def test_polishing_is_exact_where_the_gap_is_small(rng, gap):
    n = scaled(40, 20)
    basis = np.linalg.qr(np.c_[1 + 0.1 * rng.random(n), rng.standard_normal((n, n - 1))])[0]
    spectrum = np.r_[1.0, 1 - gap * (1 + np.arange(3)), rng.random(n - 4) * 0.9]
    G = (basis * spectrum) @ basis.T
    G = 0.5 * (G + G.T)
    x = np.abs(basis[:, 0]) + 0.02 * rng.random(n)
    assert kernels.polish(G, x, False) == pytest.approx(0.5, rel=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_polishing_climbs_to_a_stationary_point_and_keeps_its_support(rng, kind):
    for _ in range(scaled(100, 60)):
        n = int(rng.integers(1, 13))
        A = make_matrix(rng, kind, n)
        G, x = A.T @ A, sparse_point(rng, n, int(rng.integers(1, n + 1)))
        before, outside = value(G, x), x == 0
        reached = kernels.polish(G, x, False)
        size = np.abs(G).max() + 1e-300
        assert is_feasible(x, n) and not x[outside].any()
        assert reached >= before - 1e-14 * size
        assert reached == pytest.approx(value(G, x), abs=1e-13 * size)
        slope = G @ x - 2 * reached * x
        assert np.abs(slope[x > 0]).max() <= 1e-9 * size
        assert slope[~outside].max(initial=0.0) <= 1e-9 * size


@pytest.mark.parametrize("kind", KINDS)
def test_no_exchange_improves_where_a_descent_ends(rng, kind):
    for _ in range(scaled(40, 20)):
        n = int(rng.integers(2, 11))
        s = int(rng.integers(1, n + 1))
        A = make_matrix(rng, kind, n)
        G, x = A.T @ A, np.abs(rng.standard_normal(n))
        size = np.abs(G).max() + 1e-300
        largest = np.where(x >= np.sort(x)[-s], x, 0.0)
        kernels.descend(G, x, s, 1e-10, 1000, False)
        assert is_feasible(x, s)
        assert value(G, x) >= value(G, largest / np.linalg.norm(largest)) - 1e-12 * size
        best = max((best_angle(G, x, i, j) for i, j in exchanges(x, s)), default=0.0)
        assert best <= value(G, x) + 1e-9 * size
        assert kernels.swap_gap(G, x, s, kernels.CANDIDATES, False)[0] <= 1e-9 * size
        assert np.abs(G @ x - 2 * value(G, x) * x)[x > 0].max() <= 1e-9 * size


def test_polished_exchanges_do_not_improve_either(rng):
    n, s = scaled(150, 40), scaled(30, 15)
    for _ in range(scaled(60, 12)):
        A = rng.standard_normal((n, n))
        G, x = A.T @ A, np.abs(rng.standard_normal(n))
        kernels.descend(G, x, s, 1e-10, 1000, False)
        assert kernels.swap_gap(G, x, s, kernels.CANDIDATES, False)[0] <= 1e-9 * np.abs(G).max()


def test_each_exchange_raises_the_value(rng):
    for _ in range(scaled(40, 20)):
        n, s = 10, int(rng.integers(1, 6))
        A = rng.standard_normal((n, n))
        G, start = A.T @ A, np.abs(rng.standard_normal(n))
        values, full = [], start.copy()
        swaps = kernels.descend(G, full, s, 1e-10, 1000, False)
        for most in range(swaps + 1):
            x = start.copy()
            assert kernels.descend(G, x, s, 1e-10, most, False) == most
            values.append(value(G, x))
        assert (np.diff(values) > 0).all()
        assert np.array_equal(x, full)


def test_shrinking_leaves_at_most_s_of_those_it_had(rng):
    for trial in range(scaled(100, 42)):
        n = int(rng.integers(2, 12))
        s, A = int(rng.integers(1, n + 1)), make_matrix(rng, KINDS[trial % len(KINDS)], n)
        x = sparse_point(rng, n, int(rng.integers(1, n + 1)))
        had = x > 0
        kernels.shrink(A.T @ A, x, s, False)
        assert is_feasible(x, s) and not x[~had].any()


@pytest.mark.parametrize("kind", KINDS)
def test_search_finds_the_optimum_of_small_problems(rng, kind):
    for _ in range(scaled(12, 8)):
        n = int(rng.integers(4, scaled(11, 9)))
        s = int(rng.integers(1, scaled(5, 4)))
        A = make_matrix(rng, kind, n)
        problem = NNSPCA(A, s, lam=1e3)
        search = SparseArc(problem)
        points = [search.start(k, rng) for k in range(search.starts)]
        points += [search.child(points, rng) for _ in range(10)]
        assert all(is_feasible(x, s) for x in points)
        best = max(-problem.objective(x) for x in points)
        assert best == pytest.approx(sparse_pca_optimum(A, s)[0], rel=1e-11, abs=1e-300)


def test_search_needs_no_semidefinite_matrix(rng):
    for _ in range(scaled(60, 30)):
        n = 6
        Q = rng.standard_normal((n, n))
        Q += Q.T + 3.0 * np.eye(n)
        problem = cp.Problem(cp.Quadratic(Q), cp.Bounds(0, np.inf) + cp.Linear(100.0), cp.TopSum(2, 100.0), cp.Sphere())
        search = SparseArc(problem)
        x = sparse_point(rng, n, 2)
        assert problem.objective(search.descend(x)) <= problem.objective(x) + 1e-12
        best = max(-problem.objective(search.start(k, rng)) for k in range(search.starts))
        pairs = [best_angle(-Q, np.eye(n)[i], None, j) for i, j in itertools.permutations(range(n), 2)]
        assert best == pytest.approx(max(pairs), abs=1e-10)


def test_a_negative_gram_matrix_is_known_to_be_semidefinite(rng):
    A = rng.standard_normal((5, 12))
    data = NNSPCA(A, 4, lam=1e3)
    kept = cp.Problem(NegativeGram(-A.T @ A, np.zeros(12)), data.h, data.g, data.u)
    points = [SparseArc(problem).start(0, rng) for problem in (data, kept)]
    assert np.array_equal(*points)
    results = [cp.minimize(problem, points[0], "swap") for problem in (data, kept)]
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-12)


def test_points_repeat_with_the_generator(rng):
    problem = NNSPCA(rng.standard_normal((8, 12)), 4, lam=1e3)

    def run():
        search, local = SparseArc(problem), np.random.default_rng(5)
        points = [search.start(k, local) for k in (0, 3, 12, 13)]
        before = [x.copy() for x in points]
        children = [search.child(points, local) for _ in range(12)] + [
            search.child(points[:1], local) for _ in range(3)
        ]
        assert all(np.array_equal(x, y) for x, y in zip(points, before, strict=True))
        return np.array(points + children)

    assert np.array_equal(run(), run())


def test_the_gap_of_a_search_is_that_of_the_objective(rng):
    problem = NNSPCA(np.diag([1.0, 3.0, 2.0]), 1, lam=1e3)
    search = SparseArc(problem)
    own, gain, out, into, bound = search.gap(np.array([0.0, 0.0, 1.0]))
    assert (own, out, into) == (0.0, 2, 1) and gain == pytest.approx(2.5) and gain <= bound < 2.5 + 1e-6
    x = search.descend([0.0, 0.0, 1.0])
    assert x.tolist() == [0.0, 1.0, 0.0] and search.gap(x)[:4] == (0.0, 0.0, -1, -1) and search.gap(x)[4] < 1e-8
    everything = SparseArc(NNSPCA(np.ones((2, 3)), 3, lam=1.0))
    x = everything.start(0, rng)
    assert x == pytest.approx(np.full(3, 3**-0.5)) and everything.gap(x)[2:4] == (-1, -1)
    assert everything.gap(np.eye(3)[0])[0] == pytest.approx(0.0)  # nothing else is held there


def test_an_empty_start_and_empty_data_give_feasible_points(rng):
    zero = SparseArc(NNSPCA(np.zeros((3, 4)), 2, lam=1.0))
    assert zero.starts == 1
    for x in (zero.start(0, rng), zero.start(7, rng), zero.descend(np.zeros(4)), zero.child([np.eye(4)[1]], rng)):
        assert is_feasible(x, 2)
    search = SparseArc(NNSPCA(np.diag([1.0, 2.0, 0.0]), 2, lam=1.0))
    assert search.descend(np.zeros(3)).tolist() == [0.0, 1.0, 0.0]
    assert search.descend(np.array([0.0, 0.0, 1.0])).tolist() == [0.0, 1.0, 0.0]


def test_other_problems_are_refused(rng):
    A = rng.standard_normal((5, 4))
    tilted = cp.Problem(cp.LeastSquares(A, A[:, 0]), cp.Bounds(0, np.inf), cp.TopSum(2, 1.0), cp.Sphere())
    with pytest.raises(ValueError, match="need f\\(x\\) = ½xᵀQx"):
        cp.minimize(tilted, method="exact")

"""NonnegativeSparsePCA: the proven optimum, the QR definition of variance, sparse as dense, scikit-learn's contract."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import counterpoise as cp
from conftest import scaled
from counterpoise.estimators import components as module
from counterpoise.estimators.component_results import pair_gap
from counterpoise.estimators.covariance import Covariance, truncated
from counterpoise.estimators.pca import NonnegativeSparsePCA
from counterpoise.estimators.pca_input import METHODS, refuse_non_finite
from naive import sparse_pca_optimum


def factors(rng, m=40, n=8, rank=3, noise=0.5):
    """Data of a few factors, not centred, columns of different size."""
    X = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n)) + noise * rng.standard_normal((m, n))
    return X * rng.uniform(0.5, 2.0, n) + rng.uniform(-3.0, 3.0, n)


def counts(rng, m=60, n=12, density=0.3):
    """Sparse non-negative data."""
    X = rng.poisson(2.0, (m, n)) * (rng.random((m, n)) < density) * rng.uniform(0.5, 2.0, n)
    return X.astype(np.float64)


def qr_variances(X, components):
    """R_kk²/(m − 1) of the scores, directly."""
    scores = (X - X.mean(axis=0)) @ components.T
    return np.diag(np.linalg.qr(scores)[1]) ** 2 / (len(X) - 1)


def schur_complements(X, components):
    """vᵀC_k v, C_{k+1} = C_k − C_k v vᵀ C_k/(vᵀC_k v), step by step."""
    C, variances = np.cov(X, rowvar=False), []
    for v in components:
        variances.append(v @ C @ v)
        C = C - np.outer(C @ v, C @ v) / variances[-1]
    return np.array(variances)


def largest_exchange(G, v, s):
    """What turning v without one of its loadings towards a column gains at most, eigenvalue by eigenvalue."""
    best = 0.0
    for i in [None] if np.count_nonzero(v) < s else np.flatnonzero(v):
        rest = v.copy()
        if i is not None:
            rest[i] = 0.0
        if not rest.any():
            continue
        rest /= np.linalg.norm(rest)
        for j in np.flatnonzero(v == 0.0):
            b = max(float(rest @ G[j]), 0.0)
            value = np.linalg.eigvalsh([[rest @ G @ rest, b], [b, G[j, j]]])[-1]
            best = max(best, value - v @ G @ v)
    return best


@parametrize_with_checks(
    [
        NonnegativeSparsePCA(),
        NonnegativeSparsePCA(n_components=2, backfit=3),
        NonnegativeSparsePCA(n_components=1, n_nonzero=2),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# What the components are.


@pytest.mark.parametrize("s", [1, 2, 4])
@pytest.mark.parametrize("method", METHODS)
def test_one_component_is_the_optimum(rng, s, method):
    """Every support enumerated; a descent alone need not find it, but is no better."""
    for _ in range(scaled(5, 1)):
        X = factors(rng)
        best = 2.0 * sparse_pca_optimum((X - X.mean(axis=0)) / np.sqrt(len(X) - 1), s)[0]
        pca = NonnegativeSparsePCA(n_nonzero=s, method=method, random_state=0).fit(X)
        assert pca.explained_variance_[0] <= best * (1 + 1e-9)
        if method in ("search", "exact"):
            assert pca.explained_variance_[0] == pytest.approx(best, rel=1e-9)
        assert pca.results_[0].success
    assert method != "exact" or pca.results_[0].status is cp.Status.OPTIMAL


@pytest.mark.parametrize("backfit", [0, 6])
@pytest.mark.parametrize("sizes", [3, (5, 1, 3)])
def test_components_and_their_variances(rng, backfit, sizes):
    for case in range(scaled(5, 2)):
        X = factors(rng)
        pca = NonnegativeSparsePCA(3, sizes, backfit=backfit, random_state=case).fit(X)
        V = pca.components_
        assert V.shape == (3, 8) and (V >= 0.0).all()
        np.testing.assert_allclose(np.linalg.norm(V, axis=1), 1.0, rtol=1e-12)
        np.testing.assert_array_equal(pca.n_nonzero_, np.broadcast_to(sizes, 3))
        assert (np.count_nonzero(V, axis=1) <= pca.n_nonzero_).all()
        np.testing.assert_allclose(pca.explained_variance_, qr_variances(X, V), rtol=1e-8)
        np.testing.assert_allclose(pca.explained_variance_, schur_complements(X, V), rtol=1e-8)
        total = X.var(axis=0, ddof=1).sum()
        np.testing.assert_allclose(pca.explained_variance_ratio_, pca.explained_variance_ / total, rtol=1e-12)
        if sizes == 3:
            assert (np.diff(pca.explained_variance_) <= 1e-9 * total).all()
        assert [result.x.shape for result in pca.results_] == [(8,)] * 3
        np.testing.assert_allclose([result.x for result in pca.results_], V, atol=1e-12)


def test_results_tell_the_variance_added(rng):
    """Given those before without backfitting, given all others with it."""
    X = factors(rng)
    C = np.cov(X, rowvar=False)
    first = NonnegativeSparsePCA(3, 3, backfit=0, random_state=0).fit(X)
    np.testing.assert_allclose([-2 * r.objective for r in first.results_], first.explained_variance_, rtol=1e-8)
    assert first.n_iter_ == 0 and all(r.status is cp.Status.CERTIFIED for r in first.results_)
    joint = NonnegativeSparsePCA(3, 3, backfit=4, random_state=0).fit(X)
    assert joint.n_iter_ == 4
    for k, result in enumerate(joint.results_):
        W, v = np.delete(joint.components_, k, axis=0).T, joint.components_[k]
        G = C - C @ W @ np.linalg.solve(W.T @ C @ W, W.T @ C)
        # The others may have moved a little when they were certified after this one.
        assert -2 * result.objective == pytest.approx(v @ G @ v, rel=1e-4)
        assert np.isfinite(result.cws_gap)


def test_backfitting_raises_the_total(rng):
    gained = 0
    for case in range(scaled(12, 3)):
        X = factors(rng, n=14, rank=5)
        totals = [
            NonnegativeSparsePCA(4, 3, backfit=rounds, random_state=case).fit(X).explained_variance_.sum()
            for rounds in (0, 1, 8)
        ]
        assert totals[0] <= totals[1] * (1 + 1e-9) and totals[1] <= totals[2] * (1 + 1e-9)
        gained += totals[2] > totals[0] * (1 + 1e-6)
    assert gained


def test_looks_at_few_columns(rng, monkeypatch):
    monkeypatch.setattr(module, "LOOKED", 4)
    X = factors(rng, n=14, rank=5)
    greedy = NonnegativeSparsePCA(4, 3, backfit=0, random_state=0).fit(X)
    pca = NonnegativeSparsePCA(4, 3, backfit=5, random_state=0).fit(X)
    assert pca.explained_variance_.sum() >= greedy.explained_variance_.sum() * (1 - 1e-9)
    assert 0 < pca.n_iter_ <= 5
    np.testing.assert_allclose(pca.explained_variance_, qr_variances(X, pca.components_), rtol=1e-8)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("s", [1, 3, 5])
def test_columns_that_promise_most(rng, s, signed):
    """They are the best in place of the smallest loading, or beside all if another one is allowed."""
    for _ in range(scaled(20, 5)):
        C = np.cov(factors(rng, n=12), rowvar=False)
        W, x = np.zeros((12, 2)), np.zeros(12)
        for v in (*W.T, x):
            v[rng.choice(12, 3, replace=False)] = rng.uniform(0.1, 1.0, 3) * (
                rng.choice([-1.0, 1.0]) if signed else 1.0
            )
            v /= np.linalg.norm(v)
        x = truncated(x, s)
        covariance = Covariance(C, signed)
        G = C - C @ W @ np.linalg.solve(W.T @ C @ W, W.T @ C)
        held = np.flatnonzero(x)
        kept = np.delete(held, np.argmin(np.abs(x[held]))) if len(held) >= s else held
        y = np.where(np.isin(np.arange(12), kept), x, 0.0)
        y /= np.linalg.norm(y) or 1.0
        outside = np.setdiff1d(np.arange(12), held)
        values = {}
        for j in outside:
            a, b, d = y @ G @ y, G[j] @ y, G[j, j]
            values[j] = np.linalg.eigvalsh([[a, b if signed else max(b, 0.0)], [b if signed else max(b, 0.0), d]])[-1]
        found = covariance.promising(covariance.deflation(W), x, C @ x, s, 4)
        assert len(found) == len(held) + 4 and set(held) <= set(found)
        chosen = sorted(values[j] for j in found if j in values)
        np.testing.assert_allclose(chosen, sorted(values.values())[-4:], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("signed", [False, True])
def test_certificates_on_a_support_read_only_what_was_formed(rng, signed):
    """Everything else of the matrix is huge, which would spoil any result that read it."""
    for n in (5, 12, 40):
        covariance = Covariance(np.cov(factors(rng, n=n), rowvar=False), signed)
        W, x = np.zeros((n, 1)), np.zeros(n)
        W[: n // 2, 0] = 1.0 / np.sqrt(n // 2)
        held = np.sort(rng.choice(n, 3, replace=False))
        x[held] = 1.0 / np.sqrt(3.0)
        C, by = covariance.C, covariance.deflation(W)
        covariance._room = np.full((n, n), 1e9)
        part = covariance.problem_on(by, held, 3)
        G = C - C @ W @ np.linalg.solve(W.T @ C @ W, W.T @ C)
        assert part.g.lam > np.sqrt(2.0) * np.linalg.norm(G, axis=0).max()  # above the exactness threshold
        whole = Covariance(C, signed)._sparse(cp.Quadratic(-0.5 * (G + G.T)), 3, part.g.lam)
        assert part.objective(x) == pytest.approx(whole.objective(x), rel=1e-12)
        assert pair_gap(part, x) == pytest.approx(pair_gap(whole, x), rel=1e-9, abs=1e-12)
        assert pair_gap(part, x) > 0.0


def raised_by_a_pair(G, x, s, signed):
    """How much a rotation of two loadings raises xᵀGx among points with at most s of them, on a grid of angles."""
    angles, most = np.linspace(-np.pi if signed else 0.0, np.pi if signed else np.pi / 2, 721), 0.0
    held = np.count_nonzero(x)
    for i in np.flatnonzero(x):
        for j in range(len(x)):
            if j == i or (x[j] != 0.0 and j < i):
                continue
            length = np.hypot(x[i], x[j])
            points = np.repeat(x[None], len(angles), axis=0)
            points[:, i], points[:, j] = length * np.cos(angles), length * np.sin(angles)
            if x[j] == 0.0 and held == s:
                points = points[np.abs(points[:, i]) < 1e-12]
                points[:, i] = 0.0
            most = max(most, float(np.einsum("ri,ij,rj->r", points, G, points).max(initial=0.0) - x @ G @ x))
    return most


@pytest.mark.parametrize("signed", [False, True])
def test_results_are_of_the_components_that_are_returned(rng, signed):
    """Each given all others as they are at the end, although they move one after the other."""
    claims = 0
    for _ in range(scaled(12, 4)):
        n, s, count = int(rng.integers(4, 14)), int(rng.integers(1, 5)), int(rng.integers(2, 4))
        X = rng.standard_normal((60, n))
        pca = cp.SparsePCA(count, min(s, n), nonnegative=not signed, random_state=0).fit(X)
        C, V = np.cov(X, rowvar=False), pca.components_.T
        for k, result in enumerate(pca.results_):
            np.testing.assert_array_equal(np.abs(result.x), np.abs(V[:, k]))
            W = np.delete(V, k, axis=1)
            G = C - C @ W @ np.linalg.solve(W.T @ C @ W, W.T @ C)
            assert -2.0 * result.objective == pytest.approx(V[:, k] @ G @ V[:, k], rel=1e-9)
            gain = 0.5 * raised_by_a_pair(G, V[:, k], min(s, n), signed)
            assert gain <= result.cws_gap * (1.0 + 1e-6) + 1e-12
            if result.status is cp.Status.CERTIFIED:
                claims += 1
                assert result.cws_gap <= result.tolerance
    assert claims >= 4


def test_all_features_and_non_negative_data_give_the_first_principal_component(rng):
    """Positive correlations: Perron's eigenvector is ≥ 0 and the constraint does nothing."""
    X = rng.standard_normal((200, 1)) * rng.uniform(1.0, 2.0, 6) + 0.1 * rng.standard_normal((200, 6))
    pca = NonnegativeSparsePCA(random_state=0).fit(X)
    reference = PCA(1).fit(X)
    np.testing.assert_allclose(pca.components_[0], np.abs(reference.components_[0]), atol=1e-7)
    np.testing.assert_allclose(pca.explained_variance_ratio_, reference.explained_variance_ratio_, rtol=1e-10)


def test_as_many_components_as_the_rank(rng):
    X = rng.standard_normal((30, 4))
    pca = NonnegativeSparsePCA(4, 2, random_state=0).fit(X)
    # With all components nothing of X is left: log-determinants agree whatever the order.
    V = pca.components_
    expected = np.linalg.slogdet(V @ np.cov(X, rowvar=False) @ V.T)[1]
    assert np.log(pca.explained_variance_).sum() == pytest.approx(expected, rel=1e-9)


@pytest.mark.compiled
def test_digits_beat_the_greedy_components():
    X = load_digits().data
    greedy = NonnegativeSparsePCA(10, 10, backfit=0, random_state=0).fit(X)
    pca = NonnegativeSparsePCA(10, 10, random_state=0).fit(X)
    assert greedy.explained_variance_ratio_.sum() > 0.539
    assert pca.explained_variance_ratio_.sum() > 0.55
    np.testing.assert_allclose(pca.explained_variance_, qr_variances(X, pca.components_), rtol=1e-8)
    # Three pixels are the same in all images.
    assert not pca.components_[:, X.std(axis=0) == 0.0].any()


# Kinds of data.


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_matrix, sp.csr_array, sp.csc_array])
def test_sparse_as_dense(rng, kind):
    X = counts(rng)
    dense = NonnegativeSparsePCA(3, 4, backfit=4, random_state=0).fit(X)
    sparse = NonnegativeSparsePCA(3, 4, backfit=4, random_state=0).fit(kind(X))
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-7)
    np.testing.assert_allclose(sparse.explained_variance_ratio_, dense.explained_variance_ratio_, rtol=1e-9)
    np.testing.assert_allclose(sparse.mean_, dense.mean_, rtol=1e-12)
    scores = sparse.transform(kind(X))
    assert isinstance(scores, np.ndarray)
    np.testing.assert_allclose(scores, dense.transform(X), atol=1e-7)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_single_precision_stays(rng, kind):
    X = counts(rng).astype(np.float32)
    single = NonnegativeSparsePCA(2, 4, random_state=0).fit(kind(X))
    double = NonnegativeSparsePCA(2, 4, random_state=0).fit(kind(X.astype(np.float64)))
    for name in ("components_", "explained_variance_", "explained_variance_ratio_", "mean_"):
        assert getattr(single, name).dtype == np.float32
        np.testing.assert_allclose(getattr(single, name), getattr(double, name), rtol=1e-5, atol=1e-6)
    scores = single.transform(kind(X))
    assert scores.dtype == np.float32
    assert single.inverse_transform(scores).dtype == np.float32


def test_a_large_mean_loses_nothing(rng):
    """Columns far from 0, in dense data, are centred before anything is squared."""
    X = factors(rng)
    near = NonnegativeSparsePCA(2, 3, random_state=0).fit(X)
    far = NonnegativeSparsePCA(2, 3, random_state=0).fit(X + 1e7)
    np.testing.assert_allclose(far.explained_variance_, near.explained_variance_, rtol=1e-6)


def test_columns_that_do_not_vary(rng):
    X = factors(rng)
    X[:, [1, 5]] = [1e9 / 3, 0.1]
    for data in (X, sp.csr_array(X)):
        pca = NonnegativeSparsePCA(2, 8, random_state=0).fit(data)
        assert not pca.components_[:, [1, 5]].any()


@pytest.mark.parametrize("kind", [np.asarray, sp.csc_array])
def test_one_column_that_varies(rng, kind):
    X = np.ones((10, 3))
    X[:, 1] = rng.standard_normal(10)
    pca = NonnegativeSparsePCA(random_state=0).fit(kind(X))
    np.testing.assert_array_equal(pca.components_, [[0.0, 1.0, 0.0]])
    np.testing.assert_allclose(pca.explained_variance_, X[:, 1].var(ddof=1))
    alone = NonnegativeSparsePCA(random_state=0).fit(kind(X[:, [1]]))
    np.testing.assert_array_equal(alone.components_, [[1.0]])
    np.testing.assert_allclose(alone.results_[0].x, [1.0])


# Many columns.


@pytest.fixture
def small_pools(monkeypatch):
    """Pools so small that a dozen columns are many."""
    for name, value in {"WHOLE": 5, "POOLED": 6, "ENTERING": 2, "PRICINGS": 50}.items():
        monkeypatch.setattr(module, name, value)


@pytest.mark.usefixtures("small_pools")
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("backfit", [0, 5])
def test_no_column_outside_the_pool_gains(rng, kind, backfit):
    for case in range(scaled(6, 1)):
        X, s = counts(rng, n=25), 3
        pca = NonnegativeSparsePCA(3, s, backfit=backfit, random_state=case).fit(kind(X))
        np.testing.assert_allclose(pca.explained_variance_, qr_variances(X, pca.components_), rtol=1e-8)
        C, V = np.cov(X, rowvar=False), pca.components_
        for k in range(3):
            others = [j for j in range(3) if (j != k if backfit else j < k)]
            G = C
            if others:
                W = V[others].T
                G = C - C @ W @ np.linalg.solve(W.T @ C @ W, W.T @ C)
            # With backfitting a column inside the pool may gain for one component and lower the total.
            if not backfit:
                assert largest_exchange(G, V[k], s) <= 1e-6 * V[k] @ G @ V[k]
            else:
                assert largest_exchange(G, V[k], s) <= 0.05 * V[k] @ G @ V[k]


@pytest.mark.usefixtures("small_pools")
def test_a_pool_finds_what_the_whole_covariance_does(rng, monkeypatch):
    """One strong group of columns, each of small variance, among many of larger variance and alone."""
    X = 1.5 * rng.standard_normal((300, 30))
    X[:, 20:26] = rng.standard_normal((300, 1)) + 0.1 * rng.standard_normal((300, 6))
    pooled = NonnegativeSparsePCA(1, 6, random_state=0).fit(X)
    monkeypatch.setattr(module, "WHOLE", 100)
    whole = NonnegativeSparsePCA(1, 6, random_state=0).fit(X)
    assert set(np.flatnonzero(pooled.components_[0])) == set(range(20, 26))
    np.testing.assert_allclose(pooled.components_, whole.components_, atol=1e-7)


@pytest.mark.usefixtures("small_pools")
def test_a_pool_of_copies_is_left(rng):
    """The columns of the largest variance are one; further components need others."""
    x = 10.0 * rng.standard_normal((50, 1))
    X = np.hstack([np.repeat(x, 10, axis=1), rng.standard_normal((50, 3))])
    pca = NonnegativeSparsePCA(4, 2, backfit=2, random_state=0).fit(X)
    np.testing.assert_allclose(pca.explained_variance_, qr_variances(X, pca.components_), rtol=1e-7)
    with pytest.warns(
        UserWarning, match=r"n_components is 5, but 4 components explain all variance; only these are returned"
    ):
        fewer = NonnegativeSparsePCA(5, 2, random_state=0).fit(X)
    assert fewer.n_components_ == len(fewer.components_) == len(fewer.results_) == 4
    np.testing.assert_allclose(fewer.explained_variance_, qr_variances(X, fewer.components_), rtol=1e-7)


# Scores.


def test_scores_do_not_depend_on_the_batch(rng):
    X = factors(rng)
    pca = NonnegativeSparsePCA(3, 3, backfit=2, random_state=0).fit(X)
    scores = pca.transform(X)
    np.testing.assert_allclose(scores, (X - X.mean(axis=0)) @ pca.components_.T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.vstack([pca.transform(row[None]) for row in X]), scores, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(pca.transform(X[::-1])[::-1], scores, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(pca.fit_transform(X), scores, rtol=1e-12, atol=1e-13)


def test_inverse_transform_has_the_scores_and_is_the_nearest_point(rng):
    X = factors(rng)
    pca = NonnegativeSparsePCA(3, 5, backfit=2, random_state=0).fit(X)
    Z = rng.standard_normal((7, 3))
    np.testing.assert_allclose(pca.transform(pca.inverse_transform(Z)), Z, atol=1e-10)
    V = pca.components_.T
    nearest = pca.mean_ + (V @ np.linalg.lstsq(V, (X - pca.mean_).T, rcond=None)[0]).T
    np.testing.assert_allclose(pca.inverse_transform(pca.transform(X)), nearest, atol=1e-10)
    with pytest.raises(ValueError, match=r"X has 2 columns; inverse_transform takes scores, .* 3 components"):
        pca.inverse_transform(Z[:, :2])


def test_names_and_frames(rng):
    frame = pd.DataFrame(factors(rng), columns=list("abcdefgh"))
    pca = NonnegativeSparsePCA(2, 3, backfit=2, random_state=0).set_output(transform="pandas")
    scores = pca.fit_transform(frame)
    names = ["nonnegativesparsepca0", "nonnegativesparsepca1"]
    assert list(scores.columns) == names == list(pca.get_feature_names_out())
    assert list(pca.feature_names_in_) == list("abcdefgh") and pca.n_features_in_ == 8
    assert scores.index.equals(frame.index)
    with pytest.raises(ValueError, match="feature names"):
        pca.transform(frame[list("hgfedcba")])


def test_in_a_pipeline_and_a_grid(rng):
    X = factors(rng, m=60)
    y = X[:, 0] > X[:, 0].mean()
    model = make_pipeline(NonnegativeSparsePCA(2, random_state=0, backfit=2), LogisticRegression())
    grid = GridSearchCV(model, {"nonnegativesparsepca__n_nonzero": [1, 4]}, cv=2).fit(X, y)
    assert grid.best_params_["nonnegativesparsepca__n_nonzero"] in (1, 4)
    fitted = grid.best_estimator_[0]
    assert clone(fitted).get_params() == fitted.get_params()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))


# Budgets and seeds.


def test_the_same_seed_gives_the_same_bits(rng):
    X = factors(rng, n=14, rank=5)

    def fit(**options):
        return NonnegativeSparsePCA(3, 3, backfit=6, **options).fit(X).components_

    first = fit(random_state=7)
    np.testing.assert_array_equal(fit(random_state=7), first)
    np.testing.assert_array_equal(fit(random_state=7, n_jobs=2), first)
    np.testing.assert_array_equal(
        fit(random_state=np.random.RandomState(7)), fit(random_state=np.random.RandomState(7))
    )


@pytest.mark.parametrize("backfit", [0, 1000])
def test_a_time_limit_ends_a_fit(rng, backfit):
    X = factors(rng, n=14, rank=5)
    pca = NonnegativeSparsePCA(3, 3, backfit=backfit, max_time=0.3, random_state=0).fit(X)
    np.testing.assert_allclose(pca.explained_variance_, qr_variances(X, pca.components_), rtol=1e-8)
    assert backfit == 0 or pca.n_iter_ >= 1
    short = NonnegativeSparsePCA(3, 3, backfit=backfit, max_time=1e-9, random_state=0).fit(X)
    assert (np.count_nonzero(short.components_, axis=1) <= 3).all()


def added_variances(X, components):
    """What each component adds to all others: 1/(S⁻¹)_kk, S the covariance of the scores."""
    return 1.0 / np.diag(np.linalg.inv(np.cov(X @ components.T, rowvar=False)))


class Minute:
    """A clock that stands still, and a method that takes as long as it may, and a second more."""

    def __init__(self, monkeypatch):
        self.now, self.asked, self.late = 0.0, [], 0
        monkeypatch.setattr(module, "working_seconds", lambda: self.now)
        monkeypatch.setattr(module, "minimize", self.minimize)

    def minimize(self, problem, x0=None, max_time=None, **options):
        self.asked.append(max_time)
        self.late += self.now > 60.0
        self.now += max_time + 1.0
        result = cp.minimize(problem, x0, max_iter=1, method="bcd-g")
        return cp.Result(**{**result, "status": cp.Status.TIME_LIMIT, "success": False})


@pytest.mark.parametrize(("backfit", "setups"), [(0, 1), (4, 3)])
def test_the_limit_is_for_all_components_together(rng, monkeypatch, backfit, setups):
    X, clock = factors(rng, n=14, rank=5), Minute(monkeypatch)
    monkeypatch.setattr(module, "certified", lambda *_: None)  # so that components take pair steps in the end
    pca = NonnegativeSparsePCA(5, 3, backfit=backfit, max_time=60.0, random_state=0).fit(X)
    assert sum(clock.asked) <= 60.0 and clock.now <= 60.0 + setups and clock.late == 0
    assert len(clock.asked) > 5 * (backfit > 0)
    np.testing.assert_allclose(pca.explained_variance_, qr_variances(X, pca.components_), rtol=1e-8)
    for result, row in zip(pca.results_, pca.components_, strict=True):
        np.testing.assert_array_equal(result.x, row)
        assert not result.success


@pytest.mark.parametrize("backfit", [0, 4])
def test_without_time_components_are_of_a_few_products(rng, monkeypatch, backfit):
    """They are no random points: with 1e-9 seconds most of the variance is there."""
    X = factors(rng, m=60, n=30, rank=3, noise=0.1)
    monkeypatch.setattr(module, "minimize", lambda *_, **__: pytest.fail("there is no time for a method"))
    pca = NonnegativeSparsePCA(3, 4, backfit=backfit, max_time=1e-9, random_state=0).fit(X)
    monkeypatch.undo()
    best = NonnegativeSparsePCA(3, 4, random_state=0).fit(X)
    assert pca.explained_variance_.sum() >= 0.5 * best.explained_variance_.sum()
    assert {result.status for result in pca.results_} == {cp.Status.TIME_LIMIT}
    added = qr_variances(X, pca.components_) if backfit == 0 else added_variances(X, pca.components_)
    np.testing.assert_allclose([-2.0 * result.objective for result in pca.results_], added, rtol=1e-8)
    with pytest.warns(UserWarning, match="n_components is 3, but 2 components explain all variance"):
        NonnegativeSparsePCA(3, backfit=backfit, max_time=1e-9).fit(X[:, :2] @ rng.uniform(size=(2, 6)))


def interrupting(function, call):
    """The function, but its call of that number is Ctrl-C."""
    count = 0

    def wrapped(*arguments, **options):
        nonlocal count
        count += 1
        if count == call:
            raise KeyboardInterrupt
        return function(*arguments, **options)

    return wrapped


@pytest.mark.parametrize("call", [13, 16, 21])  # the first twelve are four starts for each component in its turn
def test_ctrl_c_while_backfitting_keeps_the_components(rng, monkeypatch, call):
    X = factors(rng, n=14, rank=6, noise=1.0)
    alone = NonnegativeSparsePCA(3, 3, backfit=0, random_state=0).fit(X)
    kernels = {name: getattr(module.swap_arc, name) for name in ("descend", "polish", "shrink")}
    kernels["descend"] = interrupting(kernels["descend"], call)
    monkeypatch.setattr(module, "swap_arc", type("Kernels", (), kernels))
    with pytest.warns(UserWarning, match=r"The fit was interrupted; the best point so far is kept") as caught:
        pca = NonnegativeSparsePCA(3, 3, random_state=0).fit(X)
    assert caught[0].filename == __file__
    assert pca.explained_variance_.sum() >= alone.explained_variance_.sum() * (1.0 - 1e-12)
    np.testing.assert_allclose(pca.explained_variance_, qr_variances(X, pca.components_), rtol=1e-8)
    assert all(result.status is cp.Status.INTERRUPTED and not result.success for result in pca.results_)
    added = added_variances(X, pca.components_)
    np.testing.assert_allclose([-2.0 * result.objective for result in pca.results_], added, rtol=1e-8)


@pytest.mark.parametrize(("backfit", "call", "kept"), [(0, 1, 1), (0, 2, 2), (0, 3, 3), (5, 3, 3), (5, 5, 3)])
def test_ctrl_c_in_a_method_keeps_the_components_found(rng, monkeypatch, backfit, call, kept):
    X, count = factors(rng, n=14, rank=6), 0

    def minimize(*arguments, **options):
        nonlocal count
        count += 1
        result = cp.minimize(*arguments, **options)
        if count == call:
            result.update(status=cp.Status.INTERRUPTED, success=False)
        assert count <= call
        return result

    monkeypatch.setattr(module, "minimize", minimize)
    # Every component takes pair steps in the end.
    monkeypatch.setattr(module, "certified", lambda *_: None)
    monkeypatch.setattr(module, "RISES", 1.0)
    pca = NonnegativeSparsePCA(3, 3, backfit=backfit, method="swap" if backfit else "search", random_state=0)
    with pytest.warns(UserWarning, match="The fit was interrupted"):
        pca.fit(X)
    assert len(pca.components_) == pca.n_components_ == len(pca.results_) == kept
    np.testing.assert_allclose(pca.explained_variance_, qr_variances(X, pca.components_), rtol=1e-8)
    assert cp.Status.INTERRUPTED in {result.status for result in pca.results_}
    assert all(result.success == (result.status is cp.Status.CERTIFIED) for result in pca.results_)


@pytest.mark.parametrize("backfit", [0, 5])
@pytest.mark.parametrize("place", ["gaining", "Covariance"])
def test_ctrl_c_between_pools_keeps_the_components(rng, monkeypatch, backfit, place):
    monkeypatch.setattr(module, "WHOLE", 20)
    monkeypatch.setattr(module, "POOLED", 12)
    X = factors(rng, m=80, n=40, rank=6, noise=1.0)
    # The first covariance is that of the first pool.
    call = 2 if place == "Covariance" else 1
    monkeypatch.setattr(module, place, interrupting(getattr(module, place), call))
    with pytest.warns(UserWarning, match="The fit was interrupted"):
        pca = NonnegativeSparsePCA(2, 3, backfit=backfit, random_state=0).fit(X)
    np.testing.assert_allclose(pca.explained_variance_, qr_variances(X, pca.components_), rtol=1e-8)
    assert {result.status for result in pca.results_} == {cp.Status.INTERRUPTED}


# Bad input.


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda X: 1e200 * X, r"X has entries as large as \S+e\+20\d, whose products overflow; rescale the data"),
        (lambda X: 1e-200 * X, r"the largest entry of X is \S+e-\d+, .* underflow; rescale the data"),
        (lambda X: sp.csr_array(1e200 * X), r"X has entries as large as \S+e\+20"),
        (lambda X: 1e-50 * (X - X.mean(axis=0)), r"the largest entry of X is"),
        (lambda X: np.ma.masked_less(X, 0.0), r"X has \d+ masked entries; remove or impute them"),
        (lambda X: 1j * X, r"Complex data not supported: X holds complex numbers"),
    ],
)
def test_unusable_data_are_refused(rng, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        NonnegativeSparsePCA().fit(change(factors(rng)))


@pytest.mark.parametrize("size", [1e-38, 1e38])
def test_the_unit_of_the_data_does_not_matter(rng, size):
    X = factors(rng)
    found, expected = (NonnegativeSparsePCA(2, 3, random_state=0).fit(X * scale) for scale in (size, 1.0))
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)
    np.testing.assert_allclose(found.explained_variance_ratio_, expected.explained_variance_ratio_, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_components": 0}, r"n_components is 0; it must be at least 1"),
        ({"n_components": 9}, r"n_components is 9, but X has 40 samples and 8 features; it must be at most 8"),
        ({"n_nonzero": 0}, r"n_nonzero is 0; it must be at least 1"),
        ({"n_components": 2, "n_nonzero": [3, 0]}, r"n_nonzero\[1\] is 0; it must be at least 1"),
        (
            {"n_components": 2, "n_nonzero": [3]},
            r"n_nonzero has 1 entries; give one number, or one for each of 2",
        ),
        ({"method": "pdca"}, r"method is 'pdca'; it must be one of 'search', 'swap', 'bcd-g', 'exact'"),
        ({"max_time": 0.0}, r"max_time is 0; it must be positive"),
        ({"max_time": -1.0}, r"max_time is -1; it must be finite and at least 0"),
        ({"work": 0}, r"work is 0; it must be at least 1"),
        ({"backfit": -1}, r"backfit is -1; it must be at least 0"),
        ({"random_state": -1}, r"random_state is -1; it must be a whole number of at least 0, or None"),
        ({"random_state": 2**40}, r"random_state is 1099511627776; it must be below 2\*\*32"),
        ({"n_jobs": 0}, r"n_jobs is 0; it must be a positive number of workers"),
    ],
)
def test_bad_options_are_named(rng, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        NonnegativeSparsePCA(**options).fit(factors(rng))


@pytest.mark.parametrize(
    "options",
    [
        {"n_components": 1.5},
        {"n_nonzero": "all"},
        {"n_nonzero": [2.5]},
        {"random_state": "a"},
        {"random_state": 1.5},
        {"n_jobs": "a"},
    ],
)
def test_options_of_another_type_are_named(rng, options):
    with pytest.raises(TypeError, match=rf"{next(iter(options))}\S* is .*; it must be a whole number"):
        NonnegativeSparsePCA(**options).fit(factors(rng))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_first_entry_that_is_not_finite_is_named(rng, kind, value):
    X = factors(rng)
    good = NonnegativeSparsePCA(random_state=0).fit(kind(X))
    X[[3, 9], [4, 1]] = value
    sentence = rf"X contains NaN or infinity: {value} in row 3, column 4 is the first of 2; remove or impute"
    with pytest.raises(ValueError, match=sentence):
        NonnegativeSparsePCA().fit(kind(X))
    with pytest.raises(ValueError, match=sentence):
        good.transform(kind(X))


def test_numbers_whose_sum_overflows_are_no_infinity():
    refuse_non_finite(np.full((2, 2), 1e308))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_constant_data_and_exhausted_rank(rng, kind):
    with pytest.raises(ValueError, match=r"X is constant: none of its 4 columns varies over 10 samples"):
        NonnegativeSparsePCA().fit(kind(np.full((10, 4), 0.3)))
    X = rng.standard_normal((10, 2)) @ rng.uniform(size=(2, 5))
    with pytest.warns(UserWarning, match=r"n_components is 3, but 2 components explain all variance") as caught:
        pca = NonnegativeSparsePCA(3, random_state=0).fit(kind(X))
    assert caught[0].filename == __file__
    assert pca.components_.shape == (2, 5) and pca.transform(kind(X)).shape == (10, 2)
    assert pca.explained_variance_ratio_.sum() <= 1.0 + 1e-12 and pca.n_nonzero_.tolist() == [5, 5]

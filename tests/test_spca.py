"""SparsePCA: proven optima with signs, deflations step by step, covariances, scales, paths, scores, bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import counterpoise as cp
from conftest import scaled
from counterpoise import NonnegativeSparsePCA, SparsePCA
from counterpoise.estimators import components as module
from counterpoise.estimators.component_path import default_sizes, elbow
from counterpoise.estimators.covariance import KINDS, deflate_by, deflation
from counterpoise.experiments import published
from counterpoise.findings import component_claims
from naive import deflated, optimum_over_signs, signed_component_optimum, sparse_pca_optimum
from test_pca import counts, factors, qr_variances


@parametrize_with_checks(
    [
        SparsePCA(),
        SparsePCA(n_components=2, n_nonzero=2, deflation="orthogonal", standardize=True),
        SparsePCA(n_components=2, deflation="hotelling", nonnegative=True),
        SparsePCA(n_components=2, deflation="projection"),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def scatter(rng, n):
    """Covariances of full rank, of less, with equal features, without correlation, with a feature that is constant."""
    A = rng.standard_normal((n + 2, n)) * rng.uniform(0.2, 3.0, n)
    kind = int(rng.integers(5))
    if kind == 1:
        A = rng.standard_normal((n + 2, 2)) @ rng.standard_normal((2, n))
    elif kind == 2:
        A[:, -1] = -A[:, 0]
    elif kind == 3:
        return np.diag(rng.uniform(0.5, 2.0, n))
    elif kind == 4 and n > 2:
        A[:, 1] = 0.0
    return A.T @ A / (n + 1)


# What the components are.


def test_all_signs_of_non_negative_components_are_the_signed_ones(rng):
    """Two references that share nothing: eigenvalues of supports, and x ≥ 0 for every choice of signs."""
    for _ in range(scaled(12, 12)):
        n = int(rng.integers(2, 6))
        C = np.cov(rng.standard_normal((20, n)) @ rng.standard_normal((n, n)), rowvar=False)
        for s in range(1, n + 1):
            assert optimum_over_signs(C, s) == pytest.approx(signed_component_optimum(C, s), rel=1e-9)


@pytest.mark.parametrize("method", ["search", "exact", "swap", "bcd-g"])
def test_one_component_is_the_optimum_over_supports_and_signs(rng, method):
    for trial in range(scaled(40, 4)):
        n = int(rng.integers(2, 10))
        C, s = scatter(rng, n), int(rng.integers(1, n + 1))
        best = signed_component_optimum(C, s)
        pca = SparsePCA(n_nonzero=s, method=method, random_state=trial).fit(covariance=C)
        v = pca.components_[0]
        assert np.count_nonzero(v) <= s and np.linalg.norm(v) == pytest.approx(1.0, abs=1e-12)
        assert v.sum() > 1e-9 or v[np.argmax(np.abs(v))] > 0.0
        assert v @ C @ v == pytest.approx(pca.explained_variance_[0], rel=1e-9)
        assert pca.explained_variance_[0] <= best * (1 + 1e-9) and best <= pca.upper_bound_[0] * (1 + 1e-9)
        if method in ("search", "exact"):
            assert pca.explained_variance_[0] == pytest.approx(best, rel=1e-9)
        assert pca.results_[0].success
        np.testing.assert_allclose(pca.results_[0].x, v, atol=1e-9)
    assert method != "exact" or pca.results_[0].status is cp.Status.OPTIMAL


def test_non_negative_is_a_special_case(rng):
    for trial in range(scaled(10, 2)):
        X = factors(rng, n=7)
        options = {"n_components": 2, "n_nonzero": 3, "random_state": trial}
        special, general = NonnegativeSparsePCA(**options).fit(X), SparsePCA(nonnegative=True, **options).fit(X)
        np.testing.assert_array_equal(special.components_, general.components_)
        assert (special.components_ >= 0.0).all()
        best = 2.0 * sparse_pca_optimum((X - X.mean(axis=0)) / np.sqrt(len(X) - 1), 3)[0]
        assert best <= special.upper_bound_[0] * (1 + 1e-9)
    assert isinstance(special, SparsePCA) and "nonnegative" not in special.get_params()
    assert clone(special).set_params(n_nonzero=2).fit(X).components_.min() >= 0.0


def test_signs_of_the_data_are_signs_of_the_loadings(rng):
    X = factors(rng, n=9, rank=4)
    signs = rng.choice([-1.0, 1.0], 9)
    plain, turned = (SparsePCA(3, 3, random_state=0).fit(data) for data in (X, X * signs))
    np.testing.assert_allclose(np.abs(turned.components_), np.abs(plain.components_), atol=1e-8)
    np.testing.assert_allclose(turned.explained_variance_, plain.explained_variance_, rtol=1e-9)
    for one, two in zip(plain.components_, turned.components_ * signs, strict=True):
        assert abs(one @ two) == pytest.approx(1.0)


def test_one_loading_each_takes_the_features_that_add_most(rng):
    X = factors(rng, n=6)
    pca = SparsePCA(3, 1, backfit=0, random_state=0).fit(X)
    assert (np.count_nonzero(pca.components_, axis=1) == 1).all() and set(pca.components_.ravel()) == {0.0, 1.0}
    C = np.cov(X, rowvar=False)
    for k, v in enumerate(pca.components_):
        assert np.argmax(v) == np.argmax(np.diag(deflated("schur", C, pca.components_[:k])))
    np.testing.assert_allclose(pca.upper_bound_, np.diag(C).max())


def test_all_loadings_give_ordinary_components(rng):
    X = factors(rng, m=60, n=7, rank=7)
    pca, reference = SparsePCA(3, 7, random_state=0).fit(X), PCA(3).fit(X)
    assert pca.explained_variance_.sum() == pytest.approx(reference.explained_variance_.sum(), rel=1e-6)
    alone = SparsePCA(1, 7, random_state=0).fit(X)
    np.testing.assert_allclose(np.abs(alone.components_), np.abs(reference.components_[:1]), atol=1e-6)
    assert alone.upper_bound_[0] == pytest.approx(reference.explained_variance_[0])


@pytest.mark.parametrize("backfit", [0, 6])
@pytest.mark.parametrize("sizes", [3, (5, 1, 3)])
def test_components_and_their_variances(rng, backfit, sizes):
    for case in range(scaled(5, 2)):
        X = factors(rng)
        pca = SparsePCA(3, sizes, backfit=backfit, random_state=case).fit(X)
        V, C = pca.components_, np.cov(X, rowvar=False)
        np.testing.assert_allclose(np.linalg.norm(V, axis=1), 1.0, rtol=1e-12)
        assert (np.count_nonzero(V, axis=1) <= np.broadcast_to(sizes, 3)).all()
        np.testing.assert_allclose(pca.explained_variance_, qr_variances(X, V), rtol=1e-8)
        total = X.var(axis=0, ddof=1).sum()
        np.testing.assert_allclose(pca.explained_variance_ratio_, pca.explained_variance_ / total, rtol=1e-12)
        scores = pca.transform(X)
        np.testing.assert_allclose(pca.score_variance_, scores.var(axis=0, ddof=1), rtol=1e-9)
        np.testing.assert_allclose(pca.score_variance_, np.diag(V @ C @ V.T), rtol=1e-9)
        np.testing.assert_allclose(pca.score_correlation_, np.corrcoef(scores, rowvar=False), atol=1e-9)
        for k, v in enumerate(V):
            assert v @ C @ v <= pca.upper_bound_[k] * (1 + 1e-9)


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_each_component_is_the_best_of_what_the_deflation_leaves(rng, kind, nonnegative):
    """Proved by enumeration on the covariance that was deflated step by step."""
    for trial in range(scaled(12, 2)):
        X = factors(rng, m=30, n=6, rank=6)
        C, s = np.cov(X, rowvar=False), int(rng.integers(1, 5))
        pca = SparsePCA(3, s, nonnegative=nonnegative, deflation=kind, backfit=0, method="exact", random_state=trial)
        pca.fit(X)
        for k, v in enumerate(pca.components_):
            left = deflated(kind, C, pca.components_[:k])
            left = 0.5 * (left + left.T)
            value = v @ left @ v
            assert value <= signed_component_optimum(left, s) + 1e-9 * np.trace(C)
            if not nonnegative:
                assert value == pytest.approx(signed_component_optimum(left, s), abs=1e-9 * np.trace(C))
            elif kind != "hotelling":
                shift = 1e-12 * np.trace(C) * np.eye(6)
                root = np.linalg.cholesky(left + 1e3 * shift).T
                assert value == pytest.approx(2.0 * sparse_pca_optimum(root, s)[0], abs=1e-8 * np.trace(C))
        np.testing.assert_allclose(pca.explained_variance_, qr_variances(X, pca.components_), rtol=1e-8)
        if kind == "orthogonal" and s == 6:
            np.testing.assert_allclose(pca.components_ @ pca.components_.T, np.eye(3), atol=1e-6)


def test_deflations_are_those_of_the_definition(rng):
    for kind in KINDS:
        for _ in range(100):
            n = int(rng.integers(2, 9))
            k, A = int(rng.integers(1, n)), rng.standard_normal((n + 3, n))
            V = rng.standard_normal((n, k)) * (rng.random((n, k)) < 0.7)
            V[np.arange(k), np.arange(k)] += 1.0
            V /= np.linalg.norm(V, axis=0)
            C = A.T @ A
            by = deflation(kind, V, C @ V, A @ V)
            G, expected = C - by.left.T @ by.right, deflated(kind, C, V.T)
            np.testing.assert_allclose(G, expected, atol=1e-8 * np.abs(C).max() * np.linalg.cond(V.T @ C @ V))
            np.testing.assert_allclose(by.diagonal(np.diag(C)), np.diag(G), atol=1e-9 * np.abs(C).max())


@pytest.mark.compiled
def test_digits_with_signs_beat_those_without():
    X = load_digits().data
    signed, positive = (SparsePCA(10, 10, nonnegative=flag, random_state=0).fit(X) for flag in (False, True))
    assert signed.explained_variance_ratio_.sum() > 0.61 > positive.explained_variance_ratio_.sum() > 0.55
    np.testing.assert_allclose(signed.explained_variance_, qr_variances(X, signed.components_), rtol=1e-8)


@pytest.mark.compiled
def test_published_optima_from_a_covariance(data_folder):
    for each in published.instances(data_folder)[0]:
        pca = SparsePCA(n_nonzero=each.k, random_state=0).fit(covariance=each.C)
        assert each.is_reached(pca.explained_variance_[0])
        assert pca.upper_bound_[0] >= pca.explained_variance_[0] * (1 - 1e-12)


# Covariances, scales, sparse data.


def test_a_covariance_is_as_good_as_the_data(rng):
    frame = pd.DataFrame(factors(rng), columns=list("abcdefgh"))
    data = SparsePCA(3, 3, random_state=0).fit(frame)
    given = SparsePCA(3, 3, random_state=0).fit(covariance=frame.cov())
    np.testing.assert_allclose(given.components_, data.components_, atol=1e-8)
    np.testing.assert_allclose(given.explained_variance_ratio_, data.explained_variance_ratio_, rtol=1e-9)
    assert list(given.feature_names_in_) == list("abcdefgh") and not given.mean_.any()
    centred = frame - frame.mean()
    np.testing.assert_allclose(given.transform(centred), data.transform(frame), atol=1e-8)
    single = SparsePCA(2, 3, random_state=0).fit(covariance=frame.cov().to_numpy(dtype=np.float32))
    assert single.components_.dtype == np.float32


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.csc_array])
def test_standardised_columns_are_those_of_a_scaler(rng, kind):
    X = counts(rng)
    X[:, 3] = 2.0
    scaler = StandardScaler().fit(X)
    unit = scaler.transform(X) * np.sqrt((len(X) - 1) / len(X))
    reference = SparsePCA(3, 4, random_state=0).fit(unit)
    pca = SparsePCA(3, 4, standardize=True, random_state=0).fit(kind(X))
    np.testing.assert_allclose(pca.components_, reference.components_, atol=1e-7)
    np.testing.assert_allclose(pca.explained_variance_, reference.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(pca.scale_, np.where(X.std(axis=0) > 0, X.std(axis=0, ddof=1), 1.0), rtol=1e-10)
    np.testing.assert_allclose(pca.transform(kind(X)), reference.transform(unit), atol=1e-7)
    assert pca.score(kind(X)) == pytest.approx(reference.score(unit), rel=1e-8)
    back = pca.inverse_transform(pca.transform(kind(X)))
    np.testing.assert_allclose(
        (back - pca.mean_) / pca.scale_, reference.inverse_transform(reference.transform(unit)), atol=1e-7
    )
    correlations = SparsePCA(3, 4, standardize=True, random_state=0).fit(covariance=np.cov(X, rowvar=False))
    np.testing.assert_allclose(correlations.components_, pca.components_, atol=1e-7)
    assert not pca.components_[:, 3].any()


@pytest.mark.parametrize("deflate", KINDS)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_pool_finds_what_the_whole_covariance_does(rng, monkeypatch, kind, deflate):
    """Two groups of columns of small variance, some turned round, among many of larger variance and alone."""
    X = 1.5 * rng.standard_normal((300, 40))
    X[:, 20:26] = rng.standard_normal((300, 1)) * np.array([1, -1, 1, 1, -1, 1]) + 0.1 * rng.standard_normal((300, 6))
    X[:, 30:36] = 0.9 * rng.standard_normal((300, 1)) * np.array([1, 1, -1, 1, -1, -1])
    X[:, 30:36] += 0.1 * rng.standard_normal((300, 6))
    whole = SparsePCA(2, 6, deflation=deflate, random_state=0).fit(X)
    for name, value in {"WHOLE": 5, "POOLED": 24, "ENTERING": 4, "PRICINGS": 50}.items():
        monkeypatch.setattr(module, name, value)
    pooled = SparsePCA(2, 6, deflation=deflate, random_state=0).fit(kind(X))
    given = SparsePCA(2, 6, deflation=deflate, random_state=0).fit(covariance=np.cov(X, rowvar=False))
    for found in (pooled, given):
        assert [set(np.flatnonzero(row)) for row in found.components_] == [set(range(20, 26)), set(range(30, 36))]
        np.testing.assert_allclose(found.components_, whole.components_, atol=1e-7)
        np.testing.assert_allclose(found.explained_variance_, whole.explained_variance_, rtol=1e-8)
        assert (found.upper_bound_ >= whole.upper_bound_ * (1 - 1e-12)).all()


# Score, path.


def test_the_score_is_the_share_that_the_span_holds(rng):
    X, new = factors(rng, m=50), factors(rng, m=20)
    pca = SparsePCA(3, 3, random_state=0).fit(X)
    for data in (X, new):
        rest = data - pca.inverse_transform(pca.transform(data))
        assert pca.score(data) == pytest.approx(1.0 - np.sum(rest**2) / np.sum((data - pca.mean_) ** 2), rel=1e-9)
    assert SparsePCA(1, 3, random_state=0).fit(X).score(X) == pytest.approx(
        SparsePCA(1, 3, random_state=0).fit(X).explained_variance_ratio_[0], rel=1e-9
    )
    assert pca.score(sp.csr_array(new)) == pytest.approx(pca.score(new), rel=1e-9)
    assert pca.score(np.tile(pca.mean_, (2, 1))) == 0.0


def test_cross_validation_and_grids(rng):
    X = factors(rng, m=60, n=8)
    scores = cross_val_score(SparsePCA(2, 3, random_state=0), X, cv=3)
    assert scores.shape == (3,) and (scores > 0.0).all() and (scores < 1.0).all()
    grid = GridSearchCV(SparsePCA(2, random_state=0), {"n_nonzero": [1, 4], "deflation": ["schur", "orthogonal"]}, cv=2)
    assert grid.fit(X).best_params_["n_nonzero"] == 4


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("deflate", ["schur", "projection"])
def test_a_path_does_not_fall(rng, nonnegative, deflate):
    for seed in range(scaled(4, 1)):
        X = factors(rng, n=9, rank=5)
        model = SparsePCA(2, nonnegative=nonnegative, deflation=deflate, random_state=seed)
        path = model.path(X, [5, 1, 3, 9, 2])
        assert path.n_nonzero == (5, 1, 3, 9, 2) and len(path) == 5
        order = np.argsort(path.n_nonzero)
        assert (np.diff(path.shares[order]) >= -1e-9).all()
        total = X.var(axis=0, ddof=1).sum()
        for size, V, ratios, results in zip(
            path.n_nonzero, path.components, path.explained_variance_ratios, path.results, strict=True
        ):
            assert (np.count_nonzero(V, axis=1) <= size).all() and len(results) == len(V)
            np.testing.assert_allclose(ratios * total, qr_variances(X, V), rtol=1e-7)
        assert not hasattr(model, "components_")
        same = model.path(n_nonzero=[5, 1, 3, 9, 2], covariance=np.cov(X, rowvar=False))
        np.testing.assert_allclose(same.shares, path.shares, rtol=1e-8)


def test_the_elbow_is_farthest_above_the_line():
    assert elbow([1, 2, 4, 8], [0.1, 0.5, 0.6, 0.65]) == 1
    assert elbow([8, 4, 2, 1], [0.65, 0.6, 0.5, 0.1]) == 2
    assert elbow([1, 2], [0.1, 0.5]) is None and elbow([1, 2, 3], [0.1, 0.2, 0.3]) is None
    assert elbow([1, 2, 3], [0.3, 0.2, 0.4]) is None
    assert default_sizes(1) == [1] and default_sizes(10) == [1, 2, 3, 4, 6, 9, 10]
    assert default_sizes(100) == default_sizes(5000) and default_sizes(5000)[-3:] == [63, 94, 100]


def test_components_deflate_in_turn_as_all_together(rng):
    X = factors(rng, n=14, rank=6)
    C, V = np.cov(X, rowvar=False), np.zeros((14, 3))
    G = C.copy()
    for v in V.T:
        v[rng.choice(14, 4, replace=False)] = rng.standard_normal(4)
        deflate_by(G, v)
    np.testing.assert_allclose(G, C - C @ V @ np.linalg.solve(V.T @ C @ V, V.T @ C), atol=1e-10 * C.max())
    np.testing.assert_allclose(G, G.T, atol=1e-13 * C.max())
    before = G.copy()
    deflate_by(G, np.zeros(14))
    np.testing.assert_array_equal(G, before)


def test_a_path_by_default_has_an_elbow_a_table_and_a_picture(rng):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X = rng.standard_normal((200, 1)) * np.r_[np.ones(4), np.zeros(8)] + 0.3 * rng.standard_normal((200, 12))
    path = SparsePCA(1, random_state=0).path(X)
    assert path.n_nonzero == tuple(default_sizes(12)) and path.elbow == 4
    assert list(path.table.index) == list(path.n_nonzero) and path.table.explained_variance_ratio.iloc[-1] < 1.0
    ax = path.plot()
    np.testing.assert_allclose(ax.lines[0].get_ydata(), path.shares)
    assert ax.lines[1].get_xdata()[0] == 4 and ax.get_legend().get_texts()[0].get_text() == "elbow: 4 loadings"
    pyplot.close("all")
    with pytest.raises(ValueError, match="n_nonzero is empty"):
        SparsePCA().path(X, [])
    capped = SparsePCA().path(X, [1, 13])  # 13 of 12 loadings mean all
    assert np.count_nonzero(capped.components[0][0]) == 1 and capped.components[1].shape[1] == 12
    for given in (3, np.array(3)):
        with pytest.raises(
            TypeError, match=r"n_nonzero is .*3\)?; give a list of numbers of loadings, such as \[5, 10\]"
        ):
            SparsePCA().path(X, given)


def test_a_proved_optimum_is_not_called_unproved(rng):
    X = factors(rng)
    for method, unproved in (("search", 1), ("exact", 0)):
        claims = component_claims(SparsePCA(1, 3, method=method, random_state=0).fit(X))
        assert sum(claim.startswith("Not proved") for claim in claims) == unproved, claims


def test_a_path_warns_once_if_few_components_explain_all_variance(rng):
    X = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 6))
    sentence = "n_components is 4, but 2 components explain all variance; only these are returned."
    with pytest.warns(UserWarning) as caught:
        path = SparsePCA(4, random_state=0).path(X, [1, 2, 3])
    assert [str(each.message) for each in caught] == [sentence] and caught[0].filename == __file__
    assert [len(V) for V in path.components] == [2, 2, 2]


@pytest.mark.parametrize(("call", "kept"), [(1, None), (2, (1,)), (3, (1,)), (4, (2, 1))])
def test_ctrl_c_ends_a_path_with_what_it_has(rng, monkeypatch, call, kept):
    """In a fit: before its components are complete the number is left out, later it is the last one."""
    X, calls = factors(rng), itertools.count(1)
    model = SparsePCA(2, random_state=0, backfit=0)

    def minimize(*arguments, **options):
        result = cp.minimize(*arguments, **options)
        if next(calls) == call:
            result.update(status=cp.Status.INTERRUPTED, success=False)
        return result

    whole = model.path(X, [3, 2, 1])
    monkeypatch.setattr(module, "minimize", minimize)
    if kept is None:
        with pytest.raises(KeyboardInterrupt):
            model.path(X, [3, 2, 1])
        return
    with pytest.warns(UserWarning, match=f"The path was interrupted; it covers {len(kept)} of 3 numbers") as caught:
        path = model.path(X, [3, 2, 1])
    assert path.n_nonzero == kept and len(path.components) == len(kept) and caught[0].filename == __file__
    np.testing.assert_array_equal(path.components[-1], whole.components[-1])


# Bad input.


@pytest.mark.parametrize("deflate", KINDS)
@pytest.mark.parametrize("given", [False, True])
def test_no_more_components_than_the_rank(rng, deflate, given):
    for _ in range(scaled(5, 2)):
        X = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 6))
        pca = SparsePCA(4, 3, deflation=deflate, random_state=0)
        with pytest.warns(UserWarning, match=r"n_components is 4, but 2 components explain all variance") as caught:
            pca.fit(**({"covariance": np.cov(X, rowvar=False)} if given else {"X": X}))
        assert caught[0].filename == __file__
        assert pca.n_components_ == 2 and pca.components_.shape == (2, 6) and len(pca.results_) == 2
        np.testing.assert_allclose(pca.explained_variance_, qr_variances(X, pca.components_), rtol=1e-6)
    with pytest.warns(
        UserWarning, match=r"n_components is 2, but 1 component explains all variance; only this one is returned"
    ):
        SparsePCA(2).fit(np.outer(np.arange(5.0), [1.0, -2.0, 3.0]))


def variances_left_by_those_before(X, V):
    """The variance of each score after a regression on those before, of which some may be the same."""
    Z, found = (X - X.mean(axis=0)) @ V.T, []
    for k, z in enumerate(Z.T):
        rest = z - Z[:, :k] @ np.linalg.lstsq(Z[:, :k], z, rcond=1e-10)[0] if k else z
        found.append(rest @ rest / (len(X) - 1))
    return found


@pytest.mark.parametrize("deflate", ["hotelling", "projection", "orthogonal"])
def test_a_component_that_adds_nothing_does_not_end_a_fit(rng, deflate):
    """Of equal columns these deflations take both in turn; the second adds nothing, and others follow."""
    for trial in range(scaled(6, 2)):
        X = rng.standard_normal((20, 5)) * [5.0, 0.8, 0.9, 1.0, 1.1]
        X[:, 4] = X[:, 0]
        pca = SparsePCA(4, 1, deflation=deflate, random_state=trial).fit(X)
        assert pca.n_components_ == 4 and {np.argmax(v) for v in pca.components_[:2]} == {0, 4}
        np.testing.assert_allclose(
            pca.explained_variance_, variances_left_by_those_before(X, pca.components_), atol=1e-9 * X.var()
        )
        assert pca.explained_variance_[1] < 1e-9 and (pca.explained_variance_[2:] > 0.1).all()
        np.testing.assert_allclose(
            pca.score_correlation_, np.corrcoef(pca.transform(X), rowvar=False), rtol=1e-9, atol=1e-9
        )


def test_hotelling_goes_on_where_no_diagonal_entry_is_positive():
    """Its deflation leaves negative eigenvalues: six components of these counts leave a diagonal below 0."""
    X = np.zeros((8, 7))
    ones = [(0, 1), (0, 3), (1, 0), (2, 2), (3, 0), (3, 2), (3, 5), (4, 0), (4, 1), (4, 5), (5, 0), (6, 4), (7, 6)]
    X[tuple(np.transpose(ones))] = 1.0
    X[1, 1] = X[5, 1] = X[5, 6] = 2.0
    X[3, 4] = 3.0
    pca = SparsePCA(7, 4, deflation="hotelling", standardize=True, random_state=0).fit(X)
    left = deflated("hotelling", np.corrcoef(X, rowvar=False), pca.components_[:6])
    assert np.diag(left).max() < 0.0 and pca.n_components_ == 7
    v = pca.components_[6]
    assert v @ left @ v == pytest.approx(signed_component_optimum(0.5 * (left + left.T), 4), abs=1e-9)
    SparsePCA(7, 4, deflation="hotelling", standardize=True, max_time=1e-9, random_state=0).fit(X)


def test_constant_columns_have_no_loading(rng):
    X = factors(rng)
    X[:, [2, 6]] = [1e9 / 3, -0.7]
    for standardize in (False, True):
        for data in (X, sp.csr_array(X)):
            pca = SparsePCA(2, 8, standardize=standardize, random_state=0).fit(data)
            assert not pca.components_[:, [2, 6]].any() and (pca.scale_ > 0.0).all()
    C = np.cov(X, rowvar=False)
    C[[2, 6]] = C[:, [2, 6]] = 0.0
    assert not SparsePCA(2, 8, standardize=True).fit(covariance=C).components_[:, [2, 6]].any()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda C: C[:5], r"covariance has shape \(5, 8\); it must be square, a row and a column for every feature"),
        (lambda C: C + np.eye(8, k=1), r"covariance is not symmetric: entry \(\d, \d\) is .*, but \(\d, \d\) is "),
        (lambda C: C - 2.0 * np.eye(8) * np.trace(C), r"not positive semidefinite: its smallest eigenvalue is -"),
        (lambda C: np.where(np.eye(8) > 0, C, 2.0 * C), r"not positive semidefinite: its smallest eigenvalue is -"),
        (lambda C: np.zeros((8, 8)), r"covariance is constant: none of its 8 columns varies"),
        (lambda C: C * np.where(np.arange(8) == 3, np.nan, 1.0), r"covariance contains NaN or infinity: nan in row 0"),
        (lambda C: 1e200 * C, r"covariance has entries as large as"),
        (lambda C: 1j * C, r"Complex data not supported: covariance holds complex"),
    ],
)
def test_what_is_no_covariance_is_refused(rng, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        SparsePCA().fit(covariance=change(np.cov(factors(rng), rowvar=False)))


def test_rounding_of_a_covariance_is_forgiven(rng):
    X = rng.standard_normal((5, 8))
    C = np.cov(X, rowvar=False)
    assert np.linalg.eigvalsh(C)[0] < 1e-12
    C = C + 1e-12 * rng.standard_normal((8, 8))
    np.testing.assert_allclose(
        SparsePCA(2, 3, random_state=0).fit(covariance=C).components_,
        SparsePCA(2, 3, random_state=0).fit(X).components_,
        atol=1e-6,
    )


def test_what_is_rounding_depends_on_the_units(rng):
    """With correlations asked for, columns of small variance are checked by their own size."""
    C = np.array([[1.0, 1e-5, 0.0], [1e-5, 1e-12, 0.0], [0.0, 0.0, 1.0]])
    assert abs(SparsePCA().fit(covariance=C).components_[0, 1]) < 1e-4
    with pytest.raises(ValueError, match="not positive semidefinite: its smallest eigenvalue is -9"):
        SparsePCA(standardize=True).fit(covariance=C)
    with pytest.raises(ValueError, match="not positive semidefinite: its smallest eigenvalue is -1"):
        SparsePCA(standardize=True).fit(covariance=np.diag([1.0, -1.0, 2.0]))
    C[0, 1] = C[1, 0] = 0.0
    C[1, 0] = 5e-7
    with pytest.raises(ValueError, match=r"not symmetric: entry \(0, 1\) is 0, but \(1, 0\) is 5e-07"):
        SparsePCA(standardize=True).fit(covariance=C)


@pytest.mark.parametrize("standardize", [False, True])
def test_a_constant_column_of_a_covariance_varies_by_rounding(rng, standardize):
    X = factors(rng)
    X[:, 2] = 3.7
    C = np.cov(X, rowvar=False)
    C[2, 2] = 2e-31  # what a mean that is rounded leaves
    pca = SparsePCA(3, 4, standardize=standardize, random_state=0).fit(covariance=C)
    data = SparsePCA(3, 4, standardize=standardize, random_state=0).fit(X)
    assert not pca.components_[:, 2].any()
    np.testing.assert_allclose(pca.explained_variance_ratio_, data.explained_variance_ratio_, rtol=1e-8)


def test_a_covariance_that_is_nearly_semidefinite_has_consistent_variances():
    C = np.eye(700)
    C[0, 1] = C[1, 0] = 1.0 + 4e-6
    pca = SparsePCA(1, 2, random_state=0).fit(covariance=C)
    v = pca.components_[0]
    assert pca.explained_variance_[0] == pytest.approx(v @ C @ v, rel=1e-9)
    assert pca.upper_bound_[0] >= pca.explained_variance_[0] * (1.0 - 1e-12)


def test_a_score_in_single_precision_keeps_its_digits(rng):
    X = rng.random((4000, 3)).astype(np.float32)
    X[:, 0] += 100.0
    pca = SparsePCA(2, 2, random_state=0).fit(X)
    rest = X - pca.mean_.astype(float)
    basis = np.linalg.qr(pca.components_.T.astype(float))[0]
    expected = np.sum((rest @ basis) ** 2) / np.sum(rest**2)
    for kind in (np.asarray, sp.csr_array):
        assert pca.score(kind(X)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"n_components": 9}, ValueError, r"n_components is 9, but covariance has 8 features; it must be at most 8"),
        ({"deflation": "gram"}, ValueError, r"deflation is 'gram'; it must be one of 'schur', 'hotelling'"),
        ({"nonnegative": "yes"}, TypeError, r"nonnegative is 'yes'; it must be True or False"),
        ({"standardize": 1}, TypeError, r"standardize is 1; it must be True or False"),
    ],
)
def test_bad_options_are_named(rng, options, error, sentence):
    with pytest.raises(error, match=sentence):
        SparsePCA(**options).fit(covariance=np.cov(factors(rng), rowvar=False))


def test_data_or_a_covariance_and_not_both(rng):
    X = factors(rng)
    with pytest.raises(ValueError, match="Neither X nor covariance is given; give one"):
        SparsePCA().fit()
    with pytest.raises(TypeError, match=r"covariance is a sparse matrix; give a dense one, covariance.toarray\(\)"):
        SparsePCA().fit(covariance=sp.csr_array(np.eye(4)))
    with pytest.raises(ValueError, match="X and covariance are both given; give one"):
        SparsePCA().fit(X, covariance=np.cov(X, rowvar=False))


def test_a_time_limit_is_for_all_components(rng):
    X = factors(rng, n=14, rank=5)
    for deflate, backfit in itertools.product(("schur", "hotelling"), (0, 1000)):
        pca = SparsePCA(3, 3, deflation=deflate, backfit=backfit, max_time=0.3, random_state=0).fit(X)
        np.testing.assert_allclose(pca.explained_variance_, qr_variances(X, pca.components_), rtol=1e-8)
        short = SparsePCA(3, 3, deflation=deflate, backfit=backfit, max_time=1e-9, random_state=0).fit(X)
        assert (np.count_nonzero(short.components_, axis=1) <= 3).all()
        assert {result.status for result in short.results_} == {cp.Status.TIME_LIMIT}


def test_the_same_seed_gives_the_same_bits(rng):
    X = factors(rng, n=14, rank=5)
    first, again = (SparsePCA(3, 3, backfit=20, random_state=7).fit(X).components_ for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_more_loadings_than_features_mean_all(rng):
    X = rng.standard_normal((30, 2))
    capped, all_of_them = SparsePCA(2, n_nonzero=3).fit(X), SparsePCA(2, n_nonzero=2).fit(X)
    assert np.array_equal(capped.components_, all_of_them.components_) and capped.n_nonzero_.tolist() == [2, 2]

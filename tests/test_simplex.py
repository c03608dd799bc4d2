"""SimplexRegression against SciPy's SLSQP, against all supports of few columns, and against scikit-learn's checks."""

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import counterpoise as cp
from conftest import scaled
from counterpoise import SimplexRegression


def least(X, y, total=1.0, size=None, intercept=False, weight=None):
    """½Σ v(Xw + b − y)² at its least, by SLSQP on every support."""
    n = X.shape[1]
    size, v = size or n, np.ones(len(y)) if weight is None else weight
    best = np.inf
    for support in itertools.combinations(range(n), min(size, n)):
        A = np.column_stack([X[:, support], np.ones(len(y)) if intercept else np.zeros(len(y))])
        start = np.append(np.full(len(support), total / len(support)), 0.0)
        found = minimize(
            lambda w, A=A: 0.5 * float(v @ (A @ w - y) ** 2),
            start,
            jac=lambda w, A=A: A.T @ (v * (A @ w - y)),
            bounds=[(0.0, total)] * len(support) + [(None, None)],
            constraints={"type": "eq", "fun": lambda w: w[:-1].sum() - total, "jac": lambda w: np.append(np.ones(len(w) - 1), 0.0)},
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 500},
        )  # fmt: skip
        best = min(best, float(found.fun))
    return best


@parametrize_with_checks(
    [SimplexRegression(random_state=0), SimplexRegression(n_nonzero=2, intercept=True, work=scaled(8, 2), random_state=0)]
)  # fmt: skip
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("n", "size", "total"), [(6, None, 1.0), (6, 3, 1.0), (5, 2, 2.5), (7, 1, 1.0), (4, 4, 0.1)])
def test_the_least_value(rng, n, size, total, intercept):
    X = rng.standard_normal((12, n)) + 2.0 * intercept
    y = rng.standard_normal(12) + 3.0 * intercept
    weight = rng.integers(0, 4, 12).astype(float)
    for v in (None, weight):
        model = SimplexRegression(size, intercept, total, random_state=0).fit(X, y, sample_weight=v)
        w = model.coef_
        assert w.min() >= 0.0 and w.sum() == pytest.approx(total, rel=1e-12)
        assert np.count_nonzero(w) <= (size or n) and model.support_.tolist() == np.flatnonzero(w).tolist()
        value = 0.5 * float((np.ones(12) if v is None else v) @ (X @ w + model.intercept_ - y) ** 2)
        assert model.result_.objective == pytest.approx(value, rel=1e-9)
        assert value == pytest.approx(least(X, y, total, size, intercept, v), rel=1e-6)
        assert (model.intercept_ != 0.0) is intercept
        np.testing.assert_allclose(model.predict(X), X @ w + model.intercept_)
        certificate = cp.certify(model.problem_, w)
        assert certificate.cws_gap <= 1e-9


def test_a_minimum_without_a_limit_is_proved(rng):
    X = rng.standard_normal((30, 8))
    model = SimplexRegression().fit(X, rng.standard_normal(30))
    assert model.result_.status is cp.Status.OPTIMAL and model.result_.success
    few = SimplexRegression(n_nonzero=2, method="exact").fit(X, rng.standard_normal(30))
    assert few.result_.status is cp.Status.OPTIMAL


@pytest.mark.parametrize("method", ["search", "swap", "bcd-g", "exact"])
def test_methods(rng, method):
    X, y = rng.standard_normal((20, 6)), rng.standard_normal(20)
    model = SimplexRegression(n_nonzero=2, method=method, random_state=0).fit(X, y)
    assert model.coef_.sum() == pytest.approx(1.0) and np.count_nonzero(model.coef_) <= 2
    assert model.result_.objective >= least(X, y, size=2) - 1e-9


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csc_matrix])
def test_one_column_and_sparse_data(rng, form, intercept):
    X = rng.standard_normal((9, 4)) * (rng.random((9, 4)) < 0.5)
    y = rng.standard_normal(9)
    dense = SimplexRegression(intercept=intercept, random_state=0).fit(X, y)
    model = SimplexRegression(intercept=intercept, random_state=0).fit(form(X), y)
    np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-9)
    np.testing.assert_allclose(model.predict(form(X)), dense.predict(X), atol=1e-9)
    one = SimplexRegression(total=2.0, intercept=intercept).fit(form(X[:, :1]), y)
    assert one.coef_.tolist() == pytest.approx([2.0])
    assert one.intercept_ == pytest.approx((y - 2.0 * X[:, 0]).mean() if intercept else 0.0)


def test_an_ensemble_keeps_the_best_models(rng):
    truth = rng.standard_normal(200)
    forecasts = truth[:, None] + rng.standard_normal((200, 8)) * [0.3, 0.3, 2, 2, 2, 2, 2, 2]
    model = SimplexRegression(n_nonzero=2, random_state=0).fit(forecasts, truth)
    assert model.support_.tolist() == [0, 1]
    errors = ((forecasts - truth[:, None]) ** 2).mean(axis=0)
    assert ((model.predict(forecasts) - truth) ** 2).mean() < errors.min()
    grid = GridSearchCV(SimplexRegression(random_state=0), {"n_nonzero": [1, 2, 4]}, cv=3).fit(forecasts, truth)
    assert grid.best_params_["n_nonzero"] >= 2 and grid.best_estimator_.score(forecasts, truth) > 0.9


def test_names_and_repeats(rng):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(rng.standard_normal((9, 3)), columns=["a", "b", "c"])
    model = SimplexRegression(random_state=0).fit(table, table["a"])
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.coef_ == pytest.approx([1.0, 0.0, 0.0], abs=1e-9)
    assert np.array_equal(clone(model).fit(table, table["a"]).coef_, model.coef_)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_nonzero": 0}, r"^n_nonzero is 0; it must be at least 1\.$"),
        ({"total": 0}, r"^total is 0; the sum of non-negative coefficients must be positive\.$"),
        ({"total": -1.0}, r"^total is -1; the sum"),
        ({"intercept": 1}, r"^intercept is 1; it must be True or False\.$"),
        ({"method": "ols"}, r"^method is 'ols'; it must be one of 'search', 'swap', 'exact', 'bcd-g'\.$"),
        ({"max_time": 0}, r"^max_time is 0; it must be positive"),
    ],
)
def test_bad_options_get_one_sentence(rng, options, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        SimplexRegression(**options).fit(rng.standard_normal((6, 3)), rng.standard_normal(6))


def test_a_missing_number_is_named_by_its_place(rng):
    X, y = rng.standard_normal((6, 3)), rng.standard_normal(6)
    model = SimplexRegression().fit(X, y)
    X[2, 1] = np.nan
    for use in (lambda: model.fit(X, y), lambda: model.predict(X)):
        with pytest.raises(ValueError, match=r"^X contains NaN or infinity: nan in row 2, column 1 ") as refusal:
            use()
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("columns", [1, 4])
def test_it_writes_a_page(tmp_path, columns):
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((20, columns)), columns=list("abcd")[:columns])
    page = SimplexRegression(random_state=0).fit(X, X["a"]).report(tmp_path / "report.html").read_text("utf-8")
    assert "<td>a</td>" in page and "<dt>n_nonzero</dt>" in page

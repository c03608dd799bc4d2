"""BinaryLeastSquares against all sign vectors, and against scikit-learn's own checks."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import counterpoise as cp
import naive
from conftest import scaled
from counterpoise.estimators import binary as module
from counterpoise.estimators.binary import BinaryLeastSquares
from counterpoise.problems import DCPB1


def data(m, n, rng, kind="gaussian"):
    A = rng.standard_normal((m, n))
    if kind == "zeros":
        A[:, rng.random(n) < 0.4] = 0.0
    elif kind == "scales":
        A *= 10.0 ** rng.uniform(-2, 1, n)
    return A, 2.0 * rng.standard_normal(m)


def least(A, y, weight=None):
    """½Σw(Ax − y)² at its least over all sign vectors."""
    points = np.array(list(itertools.product((-1.0, 1.0), repeat=A.shape[1])))
    squares = (points @ A.T - y) ** 2
    return float((0.5 * squares @ (np.ones(len(y)) if weight is None else weight)).min())


def model(**options):
    return BinaryLeastSquares(**{"work": scaled(32, 6), "random_state": 0, **options})


@parametrize_with_checks([BinaryLeastSquares(work=scaled(16, 2))])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", ["gaussian", "zeros", "scales"])
@pytest.mark.parametrize("n", [1, 2, 5, scaled(12, 8)])
def test_free_sum_finds_the_optimum(rng, n, kind):
    A, y = data(max(2, n - 1), n, rng, kind)
    fitted = model().fit(A, y)
    assert set(np.abs(fitted.coef_)) == {1.0}
    assert fitted.result_.objective == pytest.approx(least(A, y), rel=1e-9, abs=1e-12)
    assert fitted.result_.objective == pytest.approx(0.5 * ((A @ fitted.coef_ - y) ** 2).sum(), rel=1e-9, abs=1e-12)
    assert fitted.result_.x.shape == fitted.coef_.shape == (n,)


@pytest.mark.parametrize(("n", "total"), [(2, 0), (7, -3), (9, 9), (scaled(12, 8), 2), (8, np.int64(-8))])
def test_given_sum_finds_the_optimum(rng, n, total):
    A, y = data(n, n, rng)
    fitted = model(total=total).fit(A, y)
    assert fitted.coef_.sum() == total
    assert fitted.result_.objective == pytest.approx(naive.binary_optimum(A, y, total)[0])
    assert 0.0 <= fitted.cws_gap_ <= fitted.result_.tolerance


@pytest.mark.parametrize("method", ["exact", "bcd-g", "bcd-l"])
def test_other_methods(rng, method):
    n = scaled(9, 5)
    A, y = data(n, n, rng)
    free, fixed = model(method=method).fit(A, y), model(method=method, total=n - 2).fit(A, y)
    assert fixed.coef_.sum() == n - 2
    assert set(np.abs(free.coef_)) == set(np.abs(fixed.coef_)) == {1.0}
    if method == "exact":
        assert free.result_.status is fixed.result_.status is cp.Status.OPTIMAL
        assert free.result_.proof.candidates == 2**n
        assert free.result_.objective == pytest.approx(least(A, y))
    # No single flip improves a certified point: with a free sum it is an exchange with a column of zeros.
    for i in range(n):
        flipped = free.coef_.copy()
        flipped[i] *= -1.0
        assert 0.5 * ((A @ flipped - y) ** 2).sum() >= free.result_.objective - 1e-9
    assert free.cws_gap_ <= 1e-8


def largest_decrease(A, y, x, total=None, weight=1.0):
    """The largest decrease of ½Σw(Ax − y)² by any change of one or two coefficients that keeps a given total."""
    n = len(x)
    values = [float(0.5 * np.sum(weight * (A @ x - y) ** 2))]
    for flipped in itertools.chain.from_iterable(itertools.combinations(range(n), k) for k in (1, 2)):
        z = x.copy()
        z[list(flipped)] *= -1.0
        if total is None or z.sum() == total:
            values.append(float(0.5 * np.sum(weight * (A @ z - y) ** 2)))
    return values[0] - min(values)


def test_two_flips_of_equal_sign_gain_nothing(rng):
    """By single flips and exchanges alone, BCD-g ended at 21.18, where two flips of equal sign lead to 10.87."""
    data_ = np.random.default_rng(9)
    A = data_.standard_normal((12, 6))
    y = 2.0 * data_.standard_normal(12)
    fitted = model(method="bcd-g").fit(A, y)
    assert fitted.result_.objective == pytest.approx(least(A, y)) == pytest.approx(10.873, abs=1e-3)


@pytest.mark.parametrize("method", ["search", "exact", "bcd-g", "bcd-l"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("kind", ["gaussian", "zeros", "scales"])
def test_no_change_of_two_coefficients_gains(rng, kind, form, method):
    for n in (1, 2, scaled(7, 4), scaled(9, 5)):
        A, y = data(n + 3, n, rng, kind)
        weight = rng.integers(0, 4, n + 3).astype(float)
        weight[0] = 1.0
        fitted = model(method=method, work=4).fit(form(A), y, sample_weight=weight)
        assert set(np.abs(fitted.coef_)) == {1.0}
        decrease = largest_decrease(A, y, fitted.coef_, weight=weight)
        assert fitted.cws_gap_ == pytest.approx(decrease, abs=1e-9) and 0.0 <= decrease <= 1e-9
        assert fitted.result_.cws_gap == fitted.cws_gap_
        value = 0.5 * np.sum(weight * (A @ fitted.coef_ - y) ** 2)
        assert fitted.result_.objective == fitted.result_.history[-1, 2] == pytest.approx(value)
        assert (np.diff(fitted.result_.history[:, 2]) <= 0.0).all()
        if n > 2:
            fixed = model(method=method, work=4, total=n - 2).fit(form(A), y)
            assert fixed.coef_.sum() == n - 2
            assert fixed.cws_gap_ == pytest.approx(largest_decrease(A, y, fixed.coef_, n - 2), abs=1e-8)


@pytest.mark.parametrize("form", [np.asarray, sp.csc_array])
@pytest.mark.parametrize("rows", [2, 64])
@pytest.mark.parametrize("limit", [6000, 4])
def test_the_gap_of_a_point_that_a_limit_left(rng, monkeypatch, limit, rows, form):
    """Measured at any point, but not moved along, with AᵀA or without."""
    monkeypatch.setattr(module, "GRAM_LIMIT", limit)
    monkeypatch.setattr(module, "ROWS", rows)
    for n in (1, 3, 8):
        A, y = data(9, n, rng)
        x = rng.choice([-1.0, 1.0], n)
        history = np.array([[0, 0.0, 0.5 * np.sum((A @ x - y) ** 2)]])
        left = {"x": x, "objective": history[0, 2], "history": history, "time": 0.0, "nit": 0, "nacc": 0}
        result = cp.Result(status=cp.Status.TIME_LIMIT, **left)
        module._flip(result, form(A), y, None)
        assert np.array_equal(result.x, x) and result.status is cp.Status.TIME_LIMIT
        assert result.cws_gap == pytest.approx(largest_decrease(A, y, x), abs=1e-9)
        result = cp.Result(status=cp.Status.CERTIFIED, **left)
        module._flip(result, form(A), y, None)
        assert largest_decrease(A, y, result.x) <= 1e-9 and result.objective <= history[0, 2]
        # A limit that comes before the scan has ended is said.
        result = cp.Result(status=cp.Status.CERTIFIED, **left)
        module._flip(result, form(A), y, 1e-9)
        cut = n > rows or largest_decrease(A, y, x) > 0.0
        assert result.status is (cp.Status.TIME_LIMIT if cut else cp.Status.CERTIFIED)
        assert np.isnan(result.cws_gap) == cut and result.objective <= history[0, 2]


def test_a_proof_that_is_cut_short_is_none(rng):
    A, y = data(6, 5, rng)
    fitted = model(method="exact", max_time=1e-9).fit(A, y)
    assert not fitted.result_.success
    assert fitted.result_.status is cp.Status.TIME_LIMIT
    assert "proof" not in fitted.result_


def test_a_point_that_a_limit_left_in_between_is_rounded(rng):
    A, y = data(30, 20, rng)
    fitted = model(method="bcd-g", total=4, max_time=1e-9).fit(A, y)
    assert set(np.abs(fitted.coef_)) == {1.0}
    assert fitted.coef_.sum() == 4.0
    assert fitted.result_.objective == pytest.approx(0.5 * ((A @ fitted.coef_ - y) ** 2).sum())


@pytest.mark.parametrize("total", [None, 2])
@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_sparse_data_give_the_same(rng, form, total):
    A, y = data(7, 6, rng, "zeros")
    dense, sparse = model(total=total).fit(A, y), model(total=total).fit(form(A), y)
    assert np.array_equal(dense.coef_, sparse.coef_)
    np.testing.assert_allclose(sparse.predict(form(A)), A @ dense.coef_)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_weights_are_repeated_rows(rng, form):
    A, y = data(8, 6, rng)
    weight = rng.integers(0, 4, 8)
    fitted = model().fit(form(A), y, sample_weight=weight)
    assert fitted.result_.objective == pytest.approx(least(A, y, weight))
    repeated = model().fit(np.repeat(A, weight, axis=0), np.repeat(y, weight))
    assert np.array_equal(fitted.coef_, repeated.coef_)


def test_signs_are_recovered_and_scored(rng):
    A = rng.standard_normal((30, 8))
    signs = rng.choice([-1.0, 1.0], 8)
    fitted = model().fit(A, A @ signs)
    assert np.array_equal(fitted.coef_, signs)
    assert fitted.score(A, A @ signs) == 1.0
    assert fitted.n_features_in_ == 8


def test_names_of_a_table_are_kept(rng):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(rng.standard_normal((6, 3)), columns=["a", "b", "c"])
    assert model().fit(table, table["a"]).feature_names_in_.tolist() == ["a", "b", "c"]


def test_same_state_same_coefficients(rng):
    n = scaled(60, 10)
    A, y = data(n, n, rng)
    first = model(work=8).fit(A, y)
    assert np.array_equal(first.coef_, clone(first).fit(A, y).coef_)
    assert np.array_equal(first.coef_, model(work=8, n_jobs=2).fit(A, y).coef_)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"total": 5}, r"^total is 5, but 4 coefficients of ±1 have a sum between -4 and 4\.$"),
        ({"total": 1}, r"^total is 1, but 4 coefficients of ±1 have an even sum, such as 0 or 2\.$"),
        ({"method": "swap"}, r"^method is 'swap'; it must be one of 'search', 'exact', 'bcd-g', 'bcd-l'\.$"),
        ({"work": 0}, r"^work is 0; it must be at least 1\.$"),
        ({"max_time": 0.0}, r"^max_time is 0; it must be positive, or None for no limit\.$"),
    ],
)
def test_bad_parameters_get_one_sentence(rng, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        model(**options).fit(*data(5, 4, rng))


def test_bad_data_get_one_sentence(rng):
    A, y = data(5, 4, rng)
    with pytest.raises(TypeError, match=r"^total is 1\.5; it must be a whole number\.$"):
        model(total=1.5).fit(A, y)
    with pytest.raises(ValueError, match=r"1d array"):
        model().fit(A, np.column_stack([y, y]))
    with pytest.raises(ValueError, match=r"^A has one column; a pair step needs at least two\.$"):
        model(total=1).fit(A[:, :1], y)
    with pytest.raises(
        ValueError, match=r"needs a matrix of 6002 × 6002, but the limit is 6000 rows; use method 'bcd-g'"
    ):
        model().fit(sp.csr_array((1, 3001)), [0.0])
    for data_, sentence in (
        ((np.ma.masked_less(A, 0.0), y), r"^A has \d+ masked entries"),
        ((A, 1j * y), r"^Complex data not supported: y holds complex numbers"),
        ((1e200 * A, y), r"^A has entries as large as"),
        ((A, 1e200 * y), r"^y has entries as large as"),
    ):
        with pytest.raises(ValueError, match=sentence):
            model(total=0).fit(*data_)
    for options in ({"random_state": "a"}, {"random_state": -1}, {"n_jobs": 0}, {"n_jobs": "a"}, {"max_time": "a"}):
        with pytest.raises((TypeError, ValueError), match=rf"^{next(iter(options))} is .*; it must be"):
            model(**options).fit(A, y)


def test_a_rounded_point_keeps_no_claim(rng):
    """What was certified of a point between the vertices says nothing about the vertex next to it."""
    A, y = data(6, 4, rng)
    problem = DCPB1(A, y, 0, 1e-6)
    between = cp.minimize(problem)
    assert between.status is cp.Status.CERTIFIED and np.abs(np.abs(between.x) - 1.0).max() > 1e-3
    x = np.where(between.x > np.median(between.x), 1.0, -1.0)
    moved = module._moved(cp.Result(**between), x, problem.f.value(x))
    assert moved.status is cp.Status.STATIONARY and not moved.success and np.isnan(moved.cws_gap)
    assert moved.history[-1, 2] == moved.objective and (np.diff(moved.history[:, 2]) <= 0.0).all()
    same = module._moved(cp.Result(**between), between.x + 1e-12, between.objective)
    assert same.status is cp.Status.CERTIFIED and same.cws_gap == between.cws_gap


@pytest.mark.parametrize(("call", "status"), [(1, "INTERRUPTED"), (3, "INTERRUPTED"), (2, "TIME_LIMIT")])
def test_a_proof_of_all_totals_ends_where_one_does(rng, monkeypatch, call, status):
    A, y = data(6, 5, rng)
    count = 0

    def minimize(*arguments, **options):
        nonlocal count
        count += 1
        result = cp.minimize(*arguments, **options)
        if count == call:
            result.update(status=cp.Status[status], success=False)
        return result

    monkeypatch.setattr(module, "minimize", minimize)
    estimator = model(method="exact")
    if status == "INTERRUPTED":
        with pytest.warns(UserWarning, match="The fit was interrupted; the best point so far is kept"):
            estimator.fit(A, y)
    else:
        estimator.fit(A, y)
    assert count == call and estimator.result_.status is cp.Status[status]
    assert not estimator.result_.success and "proof" not in estimator.result_
    assert (np.abs(estimator.coef_) == 1.0).all()
    assert estimator.result_.objective == pytest.approx(0.5 * float(np.sum((A @ estimator.coef_ - y) ** 2)))

"""The forms of f agree with the formula and with each other, before and after steps."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import counterpoise as cp
from conftest import scaled
from counterpoise.kernels import sweep
from counterpoise.kernels.smooth import SparseGram, curvature, load, load_row, load_slopes, moved, slope


def forms(A, y, scale):
    return {
        "gram": cp.LeastSquares(A, y, scale),
        "columns": cp.LeastSquares(A, y, scale, gram=False),
        "sparse gram": cp.LeastSquares(sp.csr_array(A), y, scale),
        "sparse columns": cp.LeastSquares(sp.csr_array(A), y, scale, gram=False),
        "kept sparse": kept_sparse(A, y, scale),
    }


def kept_sparse(A, y, scale):
    """AᵀA in compressed rows, which is chosen by itself above 6000 columns only."""
    f = cp.LeastSquares(sp.csr_array(A), y, scale, gram=False)
    f.may_keep_sparse = True
    assert isinstance(f.kernel(), SparseGram)
    return f


@pytest.mark.parametrize("scale", [1.0, -1.0, 0.5])
@pytest.mark.parametrize("form", ["gram", "columns", "sparse gram", "sparse columns", "kept sparse"])
def test_verbs_follow_the_formula(form, scale, rng):
    A = rng.standard_normal((7, 5)) * (rng.random((7, 5)) < 0.6)
    y, x = rng.standard_normal(7), rng.standard_normal(5) * (rng.random(5) < 0.7)
    f = forms(A, y, scale)[form]
    assert f.value(x) == pytest.approx(0.5 * scale * np.sum((A @ x - y) ** 2))
    np.testing.assert_allclose(f.gradient(x), scale * A.T @ (A @ x - y), atol=1e-13)
    kernel = f.kernel()
    load(kernel, x)
    for _ in range(scaled(20, 5)):
        i, j = (int(k) for k in rng.permutation(5)[:2])
        di, dj = rng.standard_normal(2)
        x[i] += di
        x[j] += dj
        moved(kernel, i, di, j, dj)
    expected, Q = scale * A.T @ (A @ x - y), scale * A.T @ A
    load_slopes(kernel)
    np.testing.assert_allclose(kernel.gradient, expected, atol=1e-12)
    for i in range(5):
        assert slope(kernel, i) == pytest.approx(expected[i], abs=1e-12)
        np.testing.assert_allclose(kernel.Q[load_row(kernel, i)], Q[i], atol=1e-13)
        for j in range(5):
            assert curvature(kernel, i, j) == pytest.approx(Q[i, j], abs=1e-13)


@pytest.mark.parametrize("form", ["columns", "sparse gram", "sparse columns", "kept sparse"])
@pytest.mark.parametrize("working_set", ["hybrid", "cyclic"])
def test_every_form_reaches_the_same_certified_point(form, working_set, rng):
    A, y = rng.standard_normal((15, 12)), rng.standard_normal(15)
    problems = {
        name: cp.Problem(f, cp.Bounds(0, np.inf), cp.TopSum(3, 10.0), cp.Sum(1)) for name, f in forms(A, y, 1.0).items()
    }
    results = {name: cp.minimize(problem, working_set=working_set) for name, problem in problems.items()}
    assert results[form].success
    np.testing.assert_allclose(results[form].x, results["gram"].x, atol=1e-5)
    gaps = [cp.certify(problems[form], results["gram"].x, scan=scan).cws_gap for scan in ("pruned", "all")]
    assert max(gaps) <= 2 * results["gram"].tolerance


def test_single_precision_stays_single_without_a_gram_matrix(rng):
    A = rng.standard_normal((6, 4)).astype(np.float32)
    f = cp.LeastSquares(A, 0.0, gram=False)
    assert f.kernel().AT.dtype == np.float32
    x = np.full(4, 0.25)
    assert f.value(x) == pytest.approx(0.5 * np.sum((A.astype(float) @ x) ** 2), rel=1e-6)


def test_quadratic(rng):
    Q, p, x = rng.standard_normal((4, 4)), rng.standard_normal(4), rng.standard_normal(4)
    Q = Q + Q.T
    f = cp.Quadratic(Q, p)
    assert f.value(x) == pytest.approx(0.5 * x @ Q @ x + p @ x)
    np.testing.assert_allclose(f.gradient(x), Q @ x + p)
    kernel = f.kernel()
    load(kernel, x)
    load_slopes(kernel)
    np.testing.assert_allclose(kernel.gradient, Q @ x + p)


def test_starting_the_terms_twice_is_the_same(rng):
    problem = cp.Problem(cp.LeastSquares(rng.standard_normal((5, 4))), cp.Bounds(0, 1), cp.Norm2(1.0), cp.Sum(2))
    x = problem.start(1)
    terms = problem.terms()
    sweep.start(terms, x)
    first = terms.f.gradient.copy(), terms.g.square.copy()
    sweep.start(terms, x)
    np.testing.assert_array_equal(first[0], terms.f.gradient)
    np.testing.assert_array_equal(first[1], terms.g.square)

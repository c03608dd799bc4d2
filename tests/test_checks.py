"""Input checks: numbers of every kind, masks, sizes near the ends of double precision, seeds, workers, callbacks."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import counterpoise as cp
from counterpoise import checks
from counterpoise.problems import DCPB1, NNSPCA, SIT

A = np.arange(12.0).reshape(3, 4) ** 1.5
Y = np.ones(3)


def masked(values, place):
    mask = np.zeros(np.shape(values), dtype=bool)
    mask[place] = True
    return np.ma.masked_array(values, mask)


@pytest.mark.parametrize(
    "values",
    [
        np.array([[Decimal("1.5"), 2], [Fraction(1, 4), True]], dtype=object),
        [[Decimal("1.5"), Decimal(2)], [Fraction(1, 4), 1]],
        np.array([[1.5, np.float32(2)], [np.int8(1) / 4, 1]], dtype=object),
        np.ma.masked_array([[1.5, 2.0], [0.25, 1.0]], False),
        [np.ma.masked_array([1.5, 2.0]), [0.25, 1.0]],
    ],
)
def test_numbers_of_every_kind_become_floats(values):
    found = checks.real_array(values, "A")
    assert found.dtype == np.float64 and found.tolist() == [[1.5, 2.0], [0.25, 1.0]]


def test_one_number_of_every_kind():
    assert [checks.number(value, "c") for value in (Decimal("0.5"), Fraction(1, 2), np.float32(0.5))] == [0.5] * 3


@pytest.mark.parametrize(
    ("values", "kind", "sentence"),
    [
        (np.array([1.0, "2"], dtype=object), TypeError, "A contains '2' at 1, a str; give real numbers"),
        (np.array([[1.0, None]], dtype=object), TypeError, r"A contains None at \(0, 1\), a NoneType"),
        (np.array([1j, 1.0], dtype=object), TypeError, "A contains 1j at 0, a complex"),
        (np.array([1j, 1.0]), TypeError, "A has dtype complex128"),
        (["1", "2"], TypeError, "A has dtype <U1"),
        ([10**400, 1], ValueError, "A contains 10+ at 0, which is too large for a float"),
        ([Decimal("NaN"), 1], ValueError, "A contains nan at 0"),
        ([[1.0, 2.0], [3.0]], ValueError, "A has rows of different lengths; give a rectangular array"),
        (masked([1.0, 2.0], 1), ValueError, "A has 1 masked entry; remove or impute them"),
        (masked(np.ones((3, 2)), (slice(None), 0)), ValueError, "A has 3 masked entries"),
        ([np.ones(2), masked([1.0, 2.0], 1)], ValueError, "A has 1 masked entry"),
        (np.ma.masked, ValueError, "A has 1 masked entry"),
    ],
)
def test_what_is_no_number_is_named(values, kind, sentence):
    with pytest.raises(kind, match=sentence) as caught:
        checks.real_array(values, "A")
    assert "\n" not in str(caught.value)


def test_masks_are_not_lost():
    hole = masked(A, (0, 1))
    for make in (
        lambda: SIT(hole, Y, 2, 1.0),
        lambda: SIT(A, masked(Y, 0), 2, 1.0),
        lambda: cp.Quadratic(masked(np.eye(2), (0, 0))),
        lambda: cp.Bounds(masked(np.zeros(4), 0), 1.0),
        lambda: cp.Sum(np.ma.masked),
    ):
        with pytest.raises(ValueError, match="masked"):
            make()
    assert SIT(np.ma.masked_array(A), Y, 2, 1.0).f.A.tolist() == A.tolist()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SIT(A * 1e160, Y, 2, 1.0), r"A has entries as large as 3.65e\+161, .* overflow; rescale the data"),
        (lambda: SIT(A.T.copy().T * 1e300, Y, 2, 1.0), r"A has entries as large as .* overflow"),
        (lambda: SIT(np.repeat(A, 2, axis=1)[:, ::2] * 1e160, Y, 2, 1.0), "A has entries as large as"),
        (lambda: SIT(sp.csc_array(A * 1e160), Y, 2, 1.0), "the stored entries of A has entries as large as"),
        (lambda: SIT(A, Y * 1e160, 2, 1.0), r"y has entries as large as 1e\+160"),
        (lambda: NNSPCA(A * 1e-170, 2, 1.0), r"the largest entry of A is 3.65e-169, .* underflow; rescale the data"),
        (lambda: DCPB1(A * 1e-200, Y, 0, 1.0), "the largest entry of A is"),
        (lambda: SIT(A, Y, 2, 1e200), r"lam is 1e\+200, .* overflow; it must be at most 1e\+90"),
        (lambda: cp.Quadratic(np.eye(2) * 1e200), r"Q has entries as large as 1e\+200"),
        (lambda: cp.Quadratic(np.eye(2) * 1e-200), "the largest entry of Q is 1e-200"),
        (lambda: cp.Quadratic(np.eye(2), 1e200), r"p has entries as large as 1e\+200"),
        (lambda: cp.LeastSquares(A, scale=1e120), r"scale is 1e\+120, which makes the squares of the data as large"),
        (lambda: cp.LeastSquares(A, scale=1e-120), "scale is 1e-120, which makes the squares of the data as small"),
        (lambda: cp.Bounds(-1e308, 1e308), r"lo contains ±1e\+308; use inf for no bound, or at most 1e\+40"),
        (lambda: cp.Bounds(0, [1e50, 1.0]), r"hi contains ±1e\+50"),
        (lambda: cp.Sum(1e200), r"c is 1e\+200"),
        (lambda: cp.Linear(1e200), r"w has entries as large as 1e\+200"),
        (lambda: cp.AbsoluteDeviation(1e50, 1.0), r"x0 has entries as large as 1e\+50"),
        (lambda: cp.AbsoluteDeviation(0.0, 1e100), r"cost has entries as large as 1e\+100"),
    ],
)
def test_sizes_that_overflow_or_underflow_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [1e-39, 1e-20, 1.0, 1e20, 1e37])
def test_sizes_within_the_range_change_nothing(size):
    problem = SIT(A * size, Y * size, 2, 10.0 * size**2)
    found, expected = cp.minimize(problem), cp.minimize(SIT(A, Y, 2, 10.0))
    assert found.success and found.x == pytest.approx(expected.x, abs=1e-9)
    assert found.objective / size**2 == pytest.approx(expected.objective, rel=1e-9)


def test_zeros_and_unusual_scales_are_allowed():
    cp.LeastSquares(np.zeros((3, 4)), 0.0, scale=1e-30)
    cp.LeastSquares(A * 1e20, Y, scale=1e-30)
    cp.Quadratic(np.zeros((2, 2)), [1.0, 0.0])


@pytest.mark.parametrize("size", [1e-18, 1e18])
def test_single_precision_becomes_double_where_its_squares_would_not_do(size):
    single = (A * size).astype(np.float32)
    for given in (single, np.repeat(single, 2, axis=1)[:, ::2], sp.csc_array(single)):
        assert checks.matrix(given, "A").dtype == np.float64
    for given in (A.astype(np.float32), np.zeros((2, 2), dtype=np.float32), sp.csc_array(A.astype(np.float32))):
        assert checks.matrix(given, "A").dtype == np.float32


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (checks.random_seed, [None, 0, 7, np.int64(3)], ["a", 1.5, True, [1], -1]),
        (checks.worker_count, [None, 1, -1, np.int32(2)], ["a", 1.5, True, 0]),
        (checks.callback_function, [None, print], [3, "print", True]),
    ],
)
def test_seeds_workers_and_callbacks(check, good, bad):
    for value in good:
        assert check(value) == value
    for value in bad:
        with pytest.raises((TypeError, ValueError), match=r"(seed|n_jobs|callback) is .*; it must be") as caught:
            check(value)
        assert "\n" not in str(caught.value)
        assert isinstance(caught.value, ValueError) == (value in (-1, 0) and value is not True and value is not False)

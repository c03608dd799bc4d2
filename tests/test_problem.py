"""Problems: composition, refusals, odd but valid arrays."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import counterpoise as cp
from counterpoise.problems import DCPB1, DCPB2, NNSPCA, SIT
from naive import Case

A = np.arange(12.0).reshape(3, 4) % 5
Y = np.ones(3)


def test_objective_of_a_composition(rng):
    Q = rng.standard_normal((4, 4))
    Q, p, w, x0 = Q @ Q.T, rng.standard_normal(4), rng.standard_normal(4), rng.dirichlet(np.ones(4))
    h = cp.Bounds(0, 0.9) + cp.Linear(w) + cp.AbsoluteDeviation(x0, 0.3) + cp.Bounds(0.01, 1)
    problem = cp.Problem(cp.Quadratic(Q, p), h, cp.TopSum(2, 3.0), cp.Sum(1), constant=7.0)
    case = Case(Q, p, np.full(4, 0.01), np.full(4, 0.9), w, x0[None], np.full((1, 4), 0.3), "top", 3.0, 2)
    x = problem.start(0)
    assert problem.objective(x) == pytest.approx(case.value(x) + 7)
    np.testing.assert_array_equal(problem.separable.lo, case.lo)
    np.testing.assert_array_equal(problem.separable.hi, case.hi)
    assert "Quadratic + Bounds + Linear + AbsoluteDeviation + Bounds + TopSum + Sum" in repr(problem)


def test_violation_measures_bounds_and_sum():
    problem = SIT(A, Y, 2, 1.0)
    assert problem.violation([0.25] * 4) == 0
    assert problem.violation([0.5, 0.5, 0.2, -0.2]) == pytest.approx(0.2)
    assert problem.violation([0.5, 0.5, 0.5, 0.0]) == pytest.approx(0.5)
    assert NNSPCA(A, 2, 1.0).violation([2.0, 0, 0, 0]) == pytest.approx(1)


@pytest.mark.parametrize(
    "odd",
    [
        A.astype(int),
        A.astype(np.int8),
        A.astype(np.float32),
        np.asfortranarray(A),
        np.repeat(A, 2, axis=1)[:, ::2],
        A > 2,
        A.tolist(),
        sp.csr_matrix(A),
        sp.csc_array(A),
        sp.coo_array(A),
        sp.csr_array(A.astype(np.float32)),
    ],
    ids=["int", "int8", "float32", "fortran", "strided", "bool", "list", "csr", "csc", "coo", "csr32"],
)
@pytest.mark.parametrize("gram", [True, False])
def test_odd_arrays_are_accepted(odd, gram):
    if isinstance(odd, np.ndarray):
        odd.setflags(write=False)
    dense = np.asarray(odd.toarray() if sp.issparse(odd) else odd, dtype=float)
    problem = cp.Problem(cp.LeastSquares(odd, Y, gram=gram), cp.Bounds(0, np.inf), cp.TopSum(2, 5.0), cp.Sum(1))
    reference = SIT(dense, Y, 2, 5.0)
    result = cp.minimize(problem)
    assert result.success
    assert result.objective + 5.0 == pytest.approx(cp.minimize(reference).objective, rel=1e-6)


def test_duplicate_and_zero_columns_work():
    B = np.column_stack([A, A[:, 0], np.zeros(3), A[:, 1]])
    for problem in (SIT(B, Y, 2, 5.0), NNSPCA(B, 2, 50.0), DCPB1(B, Y, 1, 50.0), DCPB2(B, Y, 1, 500.0)):
        for rule in ("hybrid", "cyclic"):
            result = cp.minimize(problem, working_set=rule)
            assert result.success
            assert cp.certify(problem, result.x, scan="all").cws_gap <= 2 * result.tolerance
    zero = np.zeros((3, 4))
    assert cp.minimize(SIT(zero, Y, 2, 5.0)).success
    assert cp.minimize(NNSPCA(zero, 2, 5.0)).success


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SIT(np.where(A == 4, np.nan, A), Y, 2, 1.0), r"A contains nan at \(0, 4\)|A contains nan at \(1, 0\)"),
        (lambda: SIT(A, [1, np.inf, 1], 2, 1.0), r"y contains inf at 1"),
        (lambda: SIT(A, np.ones(4), 2, 1.0), r"y has shape \(4,\); it must be \(3,\)"),
        (lambda: SIT(A[0], Y, 2, 1.0), r"A has 1 dimension\(s\); it must be a matrix"),
        (lambda: SIT(np.ones((3, 1)), Y, 1, 1.0), r"A has one column; a pair step needs at least two"),
        (lambda: SIT(np.ones((0, 4)), [], 1, 1.0), r"A is empty, 0 × 4"),
        (lambda: SIT(np.ones((3, 0)), Y, 1, 1.0), r"A is empty, 3 × 0"),
        (lambda: SIT(A, Y, 0, 1.0), r"s is 0; it must be at least 1"),
        (lambda: SIT(A, Y, 5, 1.0), r"s is 5, but there are 4 coordinates; it must be between 1 and 4"),
        (lambda: SIT(A, Y, 2, -1.0), r"lam is -1; it must be finite and at least 0"),
        (lambda: SIT(A, Y, 2, np.inf), r"lam is inf; it must be finite"),
        (lambda: SIT(sp.csr_array(np.where(A == 4, np.nan, A)), Y, 2, 1.0), r"the stored entries of A contains nan"),
        (lambda: DCPB1(A, Y, 5, 1.0), r"c is 5, but 4 coordinates between −1 and 1 sum to -4 at least and 4 at most"),
        (lambda: DCPB2(A, Y, -6, 1.0), r"c is -6, but 4"),
        (lambda: DCPB2(A, Y, np.nan, 1.0), r"c is nan; it must be finite"),
        (
            lambda: cp.Problem(cp.LeastSquares(A), cp.Bounds(0, 0.2), None, cp.Sum(1)),
            r"no point within the bounds has the sum 1: their sums reach from 0 to 0.8",
        ),
        (lambda: cp.Problem(cp.LeastSquares(A), cp.Bounds(0.3, 1), None, cp.Sum(1)), r"no point .* from 1.2 to 4"),
        (
            lambda: cp.Problem(cp.LeastSquares(A), cp.Bounds(1, 0), None, cp.Sum(1)),
            r"the bounds of coordinate 0 are empty: lo = 1 > hi = 0",
        ),
        (
            lambda: cp.Problem(cp.LeastSquares(A), None, None, cp.Sum(1)),
            r"the feasible set is unbounded: with Sum give a finite lo",
        ),
        (lambda: cp.Problem(cp.LeastSquares(A), cp.Bounds(np.nan, 1), None, cp.Sum(1)), r"lo contains NaN"),
        (
            lambda: cp.Problem(cp.LeastSquares(A), cp.Bounds([0, 0], 1), None, cp.Sum(1)),
            r"lo has shape \(2,\); it must be a number or have shape \(4,\)",
        ),
        (
            lambda: cp.Problem(cp.LeastSquares(A), cp.Bounds(0, 0.5), cp.TopSum(2, 1.0), cp.Sphere()),
            r"Sphere needs h = Bounds\(0, inf\)",
        ),
        (
            lambda: cp.Problem(cp.LeastSquares(A), None, cp.TopSum(2, 1.0), cp.Sphere()),
            r"Sphere needs h = Bounds\(0, inf\)",
        ),
        (
            lambda: cp.Problem(cp.LeastSquares(A), cp.Bounds(0) + cp.AbsoluteDeviation(0.1, 1), None, cp.Sphere()),
            r"Sphere takes no AbsoluteDeviation",
        ),
        (lambda: cp.AbsoluteDeviation(0.1, -1), r"cost contains -1; it must be at least 0"),
        (lambda: cp.LeastSquares(A, Y, scale=0), r"scale is 0"),
        (lambda: cp.Quadratic(np.ones((2, 3))), r"Q has shape \(2, 3\); it must be square"),
        (lambda: cp.Quadratic([[1.0]]), r"Q is 1 × 1; a pair step needs at least two"),
        (lambda: cp.Quadratic([[1, 2], [0, 1]]), r"Q differs from its transpose by 2"),
        (lambda: SIT(A, Y, 2, 1.0).objective([1, 0]), r"x has shape \(2,\); it must be \(4,\)"),
    ],
)
def test_bad_values_are_refused_in_one_sentence(make, message):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SIT(A.astype(complex), Y, 2, 1.0), r"A has dtype complex128; give real numbers"),
        (
            lambda: SIT(A.astype(str).astype(object), Y, 2, 1.0),
            r"A contains .0.0. at \(0, 0\), a str; give real numbers",
        ),
        (lambda: SIT(A.astype(str), Y, 2, 1.0), r"A has dtype <U32"),
        (lambda: SIT(sp.csr_array(A.astype(complex)), Y, 2, 1.0), r"A has dtype complex128"),
        (lambda: SIT(A, Y, 2.5, 1.0), r"s is 2.5; it must be a whole number"),
        (lambda: SIT(A, Y, True, 1.0), r"s is True; it must be a whole number"),
        (lambda: SIT(A, Y, 2, "big"), r"lam is 'big'; it must be one real number"),
        (lambda: cp.Problem(A, u=cp.Sum(1)), r"f is of type ndarray; it must be LeastSquares\(A, y\) or Quadratic"),
        (lambda: cp.Problem(cp.LeastSquares(A), u=None), r"u is of type NoneType; it must be Sum\(c\), Sphere\(\) or"),
        (lambda: cp.Problem(cp.LeastSquares(A), h=3, u=cp.Sum(1)), r"h is of type int; it must be Bounds"),
        (
            lambda: cp.Problem(cp.LeastSquares(A), cp.Bounds(0), g=3, u=cp.Sum(1)),
            r"g is of type int; it must be AtMost",
        ),
        (
            lambda: cp.Problem(cp.LeastSquares(A), cp.Bounds(0), cp.Norm2(1.0), cp.Sphere()),
            r"Norm2 has no exact pair step on Sphere: register a body of `minimise_on_arc` for Norm2",
        ),
        (lambda: cp.Bounds("a"), r"lo has dtype"),
        (lambda: cp.Bounds(0) + 3, r"unsupported operand"),
        (lambda: cp.AtMost(3) + 3, r"unsupported operand"),
        (lambda: cp.AtMost(3) + cp.TopSum(3, 1.0), r"a problem takes one g; give AtMost or TopSum\."),
        (lambda: cp.AtMost(3) + cp.Bounds(0), r"AtMost is g and Bounds a part of h; give Problem both"),
        (lambda: cp.Bounds(0) + cp.AtMost(3), r"AtMost is g and Bounds a part of h; give Problem both"),
    ],
)
def test_bad_types_are_refused_in_one_sentence(make, message):
    with pytest.raises(TypeError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_separable_term_of_an_unknown_kind_is_refused():
    from counterpoise.terms.separable import SeparableTerm

    class Cubic(SeparableTerm):
        pass

    with pytest.raises(TypeError, match=r"^h is of type Cubic without pieces\(n\); it must be Bounds"):
        cp.Problem(cp.LeastSquares(A), Cubic() + cp.Bounds(0), None, cp.Sum(1))


@pytest.mark.parametrize(("c", "suggestion"), [(1, "such as [02]"), (0.5, "such as 0"), (-3.9, "such as -4")])
def test_wrong_parity_in_the_exact_regime_is_announced(c, suggestion):
    with pytest.warns(UserWarning, match=f"one fractional coordinate.*{suggestion}"):
        problem = DCPB1(A, Y, c, 1e4)
    fractional = np.abs(cp.minimize(problem).x) < 1
    assert fractional.sum() == 1


def test_right_parity_or_small_penalties_are_silent():
    DCPB1(A, Y, 2, 1e4)
    DCPB2(A, Y, 1, 1e-3)


def test_only_a_g_that_is_there_can_be_varied():
    plain = cp.Problem(cp.LeastSquares(np.eye(3), 0.5), cp.Bounds(0, 1), u=cp.Sum(1))
    assert repr(plain) == "Problem(n=3: LeastSquares + Bounds + Sum)"
    with pytest.raises(ValueError, match=r"^lam cannot change: the problem has no g; give it one, such as AtMost\.$"):
        plain.variant(lam=2.0)
    penalised = cp.Problem(cp.LeastSquares(np.eye(3), 0.5), cp.Bounds(0, 1), cp.TopSum(2, 1.0), cp.Sum(1))
    assert penalised.variant(lam=2.0).g.lam == 2.0
    with pytest.raises(ValueError, match=r"^TopSum has no rho; its constants are s, lam\.$"):
        penalised.variant(rho=1.0)

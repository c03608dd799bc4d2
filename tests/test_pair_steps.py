"""Exact pair steps against grids, on random and degenerate cases: at least 10⁴ for each of the paper's problems."""

from __future__ import annotations

import numpy as np
import pytest

import counterpoise as cp
from conftest import parts, scaled
from counterpoise.kernels import sweep
from counterpoise.kernels.pair import next_good_pair
from counterpoise.problems import DCPB1, DCPB2, NNSPCA, SIT
from naive import Case, best_on_pair, case_of

RELATIVE = 1e-9


def check_step(problem, case, x, i, j, on, theta, grid):
    """The step's claim is true, feasible, and no worse than the best of the grid."""
    terms, x = problem.terms(), x.copy()
    sweep.start(terms, x)
    new_i, new_j, gain = sweep.step(terms, x, i, j, theta)
    moved = x.copy()
    moved[i], moved[j] = new_i, new_j
    scale = case.size(x)
    claimed = case.value(x) - case.value(moved) - 0.5 * theta * np.sum((moved - x) ** 2)
    assert gain == pytest.approx(claimed, abs=RELATIVE * scale)
    assert problem.violation(moved) <= 1e-12
    assert gain >= best_on_pair(case, x, i, j, on, theta, grid) - RELATIVE * scale


def degenerate_matrix(rng, m, n):
    """Gaussian, with now and then a duplicate, a zero or a nearly equal column."""
    A = rng.standard_normal((m, n)) * 10.0 ** rng.integers(-2, 3)
    kind = rng.integers(0, 6)
    if kind == 0:
        A[:, 1] = A[:, 0]
    elif kind == 1:
        A[:, 0] = 0.0
    elif kind == 2:
        A[:, 1] = A[:, 0] * (1 + 1e-9)
    return A


def degenerate_simplex_point(rng, n):
    """Ties, zeros and vertices as well as interior points."""
    kind = rng.integers(0, 4)
    x = rng.dirichlet(np.full(n, 0.5)) if kind else np.full(n, 1.0 / n)
    if kind == 1:
        x[rng.permutation(n)[: n // 2]] = 0.0
        x = x / x.sum() if x.sum() > 0 else np.full(n, 1.0 / n)
    if kind == 2:
        x = np.round(x * 4) / 4
        x = x / x.sum() if x.sum() > 0 else np.eye(n)[0]
    return x


@pytest.mark.parametrize("name", ["SIT", "NNSPCA", "DCPB1", "DCPB2"])
@pytest.mark.parametrize("part", parts(4))
def test_paper_problems_against_a_grid(name, part, rng):
    for _ in range(scaled(2600, 40)):
        n = int(rng.integers(2, 9))
        A, y = degenerate_matrix(rng, int(rng.integers(1, 12)), n), rng.standard_normal(1)[0]
        y = np.full(len(A), y) * 10.0 ** rng.integers(-2, 3)
        lam = float(rng.choice([0.0, 10.0 ** rng.uniform(-3, 4)]))
        theta = float(rng.choice([0.0, 0.0, 10.0 ** rng.uniform(-6, 1)]))
        s = int(rng.integers(1, n + 1))
        if name == "SIT":
            problem, x = SIT(A, y, s, lam), degenerate_simplex_point(rng, n)
        elif name == "NNSPCA":
            problem = NNSPCA(A, s, lam)
            x = np.sqrt(degenerate_simplex_point(rng, n))
        else:
            c = int(rng.integers(-n, n + 1))
            c += (c - n) % 2 if c < n else 0
            problem = (DCPB1 if name == "DCPB1" else DCPB2)(A, y, c, lam)
            x = problem.start(int(rng.integers(1 << 30)))
            if rng.integers(0, 3) == 0:
                x = np.r_[np.ones((n + c) // 2), -np.ones((n - c) // 2)]
        x = problem.project(x)
        i, j = rng.permutation(n)[:2]
        on = "arc" if name == "NNSPCA" else "line"
        check_step(problem, case_of(name, A, y, lam, s), x, int(i), int(j), on, theta, 201)


def random_case(rng, g):
    """Any quadratic, definite or not; any bounds, linear part and kinks."""
    n = int(rng.integers(2, 7))
    Q = rng.standard_normal((n, n))
    Q = Q @ Q.T if rng.integers(0, 2) else Q + Q.T
    lo = np.where(rng.random(n) < 0.3, -rng.random(n), 0.0) if rng.integers(0, 2) else -2.0 * rng.random(n)
    hi = lo + rng.random(n) * 3 + (rng.random(n) < 0.1) * 10
    kinks = int(rng.integers(0, 3))
    centre = lo + (hi - lo) * rng.uniform(-0.2, 1.2, (kinks, n))
    cost = rng.random((kinks, n)) * (rng.random((kinks, n)) < 0.8)
    lam = float(10.0 ** rng.uniform(-2, 2))
    return Case(
        Q, rng.standard_normal(n), lo, hi, rng.standard_normal(n), centre, cost, g, lam, int(rng.integers(1, n + 1))
    )


def problem_of(case, c):
    h = cp.Bounds(case.lo, case.hi) + cp.Linear(case.w)
    for centre, cost in zip(case.centre, case.cost, strict=True):
        h = h + cp.AbsoluteDeviation(centre, cost)
    g = {
        "top": lambda: cp.TopSum(case.s, case.lam),
        "norm": lambda: cp.Norm2(case.lam),
        "square": lambda: cp.ConcaveQuadratic(case.lam),
        "none": lambda: None,
    }[case.g]()
    return cp.Problem(cp.Quadratic(case.Q, case.p), h, g, cp.Sum(c))


@pytest.mark.parametrize("g", ["top", "norm", "square", "none"])
@pytest.mark.parametrize("part", parts(3))
def test_every_g_and_h_on_the_line(g, part, rng):
    for _ in range(scaled(500, 60)):
        case = random_case(rng, g)
        c = float(rng.uniform(case.lo.sum(), case.hi.sum()))
        problem = problem_of(case, c)
        x = problem.start(int(rng.integers(1 << 30)))
        if len(case.centre) and rng.integers(0, 2):
            x = problem.project(np.clip(case.centre[0], case.lo, case.hi))
        i, j = (int(k) for k in rng.permutation(problem.n)[:2])
        check_step(problem, case, x, i, j, "line", float(rng.choice([0.0, 0.1])), 801)


def test_arc_without_g(rng):
    for _ in range(scaled(1000, 60)):
        n = int(rng.integers(2, 6))
        Q = rng.standard_normal((n, n))
        zero, none = np.zeros(n), np.zeros((0, n))
        w = rng.standard_normal(n)
        case = Case(Q + Q.T, rng.standard_normal(n), zero, zero + np.inf, w, none, none, "none", 0.0)
        problem = cp.Problem(cp.Quadratic(case.Q, case.p), cp.Bounds(0, np.inf) + cp.Linear(w), None, cp.Sphere())
        x = problem.project(np.sqrt(degenerate_simplex_point(rng, n)))
        i, j = (int(k) for k in rng.permutation(n)[:2])
        check_step(problem, case, x, i, j, "arc", 0.0, 801)


def test_the_printed_sign_of_beta_raises_the_objective(rng):
    """Erratum: with the paper's β = ∇ᵢf + ∇ⱼf the step of SIT raises F in some cases; with ∇ᵢf − ∇ⱼf never."""
    raised = 0
    for _ in range(300):
        A, y = rng.standard_normal((10, 4)), rng.standard_normal(10)
        case, x = case_of("SIT", A, y, 0.1, 2), rng.dirichlet(np.ones(4))
        gradient = A.T @ (A @ x - y)
        alpha = np.sum((A[:, 0] - A[:, 1]) ** 2)
        for sign in (1, -1):
            beta = gradient[0] + sign * gradient[1]
            candidates = np.clip([-beta / alpha, (0.1 - beta) / alpha, -(0.1 + beta) / alpha], -x[0], x[1])
            points = np.array([x + eta * np.array([1, -1, 0, 0]) for eta in candidates])
            model = [
                0.5 * alpha * e**2 + beta * e - 0.1 * np.sort(p)[-2:].sum()
                for e, p in zip(candidates, points, strict=True)
            ]
            worse = case.value(points[int(np.argmin(model))]) > case.value(x) + 1e-12
            assert not (sign == -1 and worse)
            raised += worse
    assert raised > 0


@pytest.mark.parametrize("name", ["DCPB1", "DCPB2"])
def test_the_next_good_pair_is_good_and_missed_only_if_there_is_none(name, rng):
    found = missed = 0
    for _ in range(scaled(60, 30)):
        n = int(rng.integers(2, 8))
        lam = float(10.0 ** rng.uniform(-2, 2))
        problem = (DCPB1 if name == "DCPB1" else DCPB2)(rng.standard_normal((6, n)), np.ones(6), n % 2, lam)
        x = problem.start(int(rng.integers(1000)))
        if rng.random() < 0.5:
            x = cp.minimize(problem, x).x
        terms = problem.terms()
        sweep.start(terms, x)
        floor = 1e-9 * float(rng.choice([1.0, 1e6]))
        best, *_ = sweep.scan_all(terms, x, 0.0)
        gain, i, j, *_ = next_good_pair(terms.u, terms, x, 0.0, floor, np.array([int(rng.integers(n))]))
        assert (i >= 0) == (best > floor)
        if i >= 0:
            assert gain == pytest.approx(sweep.step(terms, x, i, j, 0.0)[2], rel=1e-12)
            assert floor < gain <= best * (1 + 1e-12)
        found, missed = found + (i >= 0), missed + (i < 0)
    assert found and missed

"""Pieces of h, floors, numbers of non-zeros and limits of groups: pair steps, projections and first points by brute force."""

import itertools

import numpy as np
import pytest

import counterpoise as cp
import naive
from conftest import parts, scaled
from counterpoise.kernels import sweep
from counterpoise.rules import InfeasibleError, rules_of

N = 5


def random_spec(rng: np.random.Generator, weighted: bool = False) -> naive.Spec:
    """Draw a problem of five coordinates with any mixture of rules; small integers make ties and limits that touch."""
    coarse = rng.random() < 0.5

    def draw(low, high, *shape):
        values = rng.uniform(low, high, shape)
        return np.round(4 * values) / 4 if coarse else values

    M = draw(-1, 1, 3, N)
    Q = M.T @ M if rng.random() < 0.8 else np.asarray(M[:, :3].sum() * np.eye(N) - M.T @ M)
    signed = rng.random() < 0.3
    floor = np.where(rng.random(N) < 0.5, draw(0, 0.3, N), 0.0) if rng.random() < 0.5 and not signed else np.zeros(N)
    knots = int(rng.integers(0, 3))
    groups = []
    if rng.random() < 0.5:
        groups.append(([0, 1], *sorted(draw(0, 1, 2))))
        if rng.random() < 0.5:
            groups.append(([0, 1, 2], 0.0, float(draw(0.5, 1))))
        if rng.random() < 0.5:
            groups.append(([3], float(draw(0, 0.2)), 1.0))
    lo = draw(-1, 0, N) if signed else np.zeros(N)
    spec = naive.Spec(
        Q=Q,
        p=draw(-1, 1, N),
        lo=lo,
        hi=np.maximum(draw(0.3, 1.2, N), floor),
        floor=np.where(floor > 0, floor, lo),
        weight=draw(-1, 1, N),
        bend=draw(0, 2, N) if rng.random() < 0.5 else np.zeros(N),
        knots=draw(-0.2, 0.8, knots, N),
        cost=draw(0, 0.5, knots, N),
        curve=draw(0, 1, knots, N) if rng.random() < 0.5 else np.zeros((knots, N)),
        s=int(rng.integers(1, N + 1)) if rng.random() < 0.6 else N,
        penalty=float(rng.choice([0.0, 0.5, 10.0])) if rng.random() < 0.4 and not weighted else None,
        groups=tuple(groups),
        c=1.0,
    )
    if not weighted:
        return spec
    size = rng.choice([0.5, 1.0, 2.0], N) if coarse else rng.uniform(0.3, 3.0, N)
    return spec._replace(weights=np.where((rng.random(N) < 0.2) & (floor == 0.0), -size, size))


def problem_of(spec: naive.Spec) -> cp.Problem:
    h = cp.Pieces(
        spec.lo, spec.hi, spec.floor, spec.weight, spec.bend, list(spec.knots), list(spec.cost), list(spec.curve)
    )
    u = cp.Sum(spec.c, weights=spec.weights)
    for k, (members, least, most) in enumerate(spec.groups):
        u = u.within({k: members}, {k: (least, most)})
    g = cp.AtMost(spec.s) if spec.penalty is None else cp.TopSum(spec.s, spec.penalty)
    return cp.Problem(cp.Quadratic(spec.Q, spec.p), h, g, u)


# Which pairs a rule concerns, given the problem and the point: 10⁴ of each are compared below.
CONCERNS = {
    "number of non-zeros": lambda spec, i, j: spec.penalty is None and spec.s < N,
    "floors": lambda spec, i, j: max((spec.floor - spec.lo)[[i, j]]) > 0.0,
    "groups": lambda spec, i, j: any((i in members) != (j in members) for members, _, _ in spec.groups),
    "ridge": lambda spec, i, j: max(spec.bend[[i, j]]) > 0.0,
    "kinks": lambda spec, i, j: spec.cost[:, [i, j]].any(),
    "weighted sums": lambda spec, i, j: spec.a[i] != spec.a[j],
}
PAIRS = list(itertools.combinations(range(N), 2))


def cases(count: int, seed: int):
    """Yield feasible problems with a random feasible point; count what is refused, which must be infeasible."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        spec = random_spec(rng)
        try:
            problem = problem_of(spec)
            x = problem.start(int(rng.integers(1000)))
        except ValueError:
            assert not naive.has_feasible(spec), spec
            continue
        yield spec, problem, x


@pytest.mark.parametrize("rule", CONCERNS)
@pytest.mark.parametrize("part", parts(10))
def test_pair_steps_are_global(part, rule):
    """A thousand pairs that a rule concerns, in each of ten parts."""
    rng, compared = np.random.default_rng([part, *rule.encode()]), 0
    while compared < scaled(1000, 20):
        spec = random_spec(rng, rule == "weighted sums")
        concerned = [pair for pair in PAIRS if CONCERNS[rule](spec, *pair)]
        try:
            problem = problem_of(spec)
            x = problem.start(int(rng.integers(1000))) if concerned else None
        except ValueError:  # test_first_points_exist_whenever_the_rules_allow_one
            continue
        if x is not None:
            check_steps(spec, problem, x, concerned)
            compared += len(concerned)


def check_steps(spec, problem, x, pairs):
    """Compare steps with grids; those of a weighted sum are taken in z = a∘x, and compared in x."""
    a, solved = spec.a, problem if spec.weights is None else problem.unweighted
    terms, z = solved.terms(), a * x
    sweep.start(terms, z)
    x = z / a
    assert naive.violation(spec, x) <= 1e-9
    value, gains = naive.objective(spec, x), []
    assert problem.objective(x) == pytest.approx(value, abs=1e-9)
    for (i, j), least in zip(pairs, naive.best_transfers(spec, x, pairs), strict=True):
        new_i, new_j, gain = sweep.step(terms, z, i, j, 0.0)
        assert value - gain <= least + 1e-7 * (1 + abs(least)), (spec, x, i, j)
        moved = x.copy()
        moved[i], moved[j] = new_i / a[i], new_j / a[j]
        assert naive.violation(spec, moved) <= 1e-9
        assert naive.objective(spec, moved) == pytest.approx(value - gain, abs=1e-9)
        gains.append(gain)
    found = sweep.scan(terms, z.copy(), 0.0, np.inf)[0]
    assert found == pytest.approx(max(gains), abs=1e-12) if len(pairs) == len(PAIRS) else found >= max(gains) - 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_certified_points_have_no_better_pair(seed):
    for spec, problem, x in cases(scaled(60, 8), 100 + seed):
        result = cp.minimize(problem, x, seed=seed)
        assert result.status is cp.Status.CERTIFIED
        assert naive.violation(spec, result.x) <= 1e-11
        value = naive.objective(spec, result.x)
        assert result.objective == pytest.approx(value, abs=1e-9)
        assert result.objective <= naive.objective(spec, x) + 1e-12
        for i, j in itertools.combinations(range(N), 2):
            assert naive.best_transfer(spec, result.x, i, j) >= value - result.tolerance - 1e-9, (spec, i, j)
        if result.support_gap is not None:
            assert result.support_gap <= result.tolerance
            best = naive.least_on_support(spec, result.x)
            assert value - best <= result.tolerance + 1e-8, (spec, value, best)


KINDS = {
    "bounds": set(),
    "least weights": {"floor"},
    "groups": {"groups"},
    "turnover": {"cost"},
    "names": {"must", "floor"},
    "ridge": {"bend", "curve", "cost"},
    "all": {"floor", "groups", "cost", "must", "bend"},
}


def tracking_spec(rng, n, s, rules):
    """Draw a portfolio of at most s of n names under some rules."""
    A, y = rng.standard_normal((12, n)), rng.standard_normal(12)
    hi = rng.choice([0.4, 0.6, 1.0], n)
    floor = np.minimum(rng.choice([0.0, 0.1, 0.3], n), hi) if "floor" in rules else np.zeros(n)
    lo = np.zeros(n)
    if "must" in rules:
        held = int(rng.integers(n))
        lo[held] = floor[held] = max(floor[held], 0.05)
    groups = []
    if "groups" in rules:
        labels = rng.integers(-1, 3, n)
        for k in range(3):
            if (labels == k).any():
                groups.append((np.flatnonzero(labels == k), *np.sort(np.round(rng.random(2), 1))))
    knots = np.round(rng.dirichlet(np.ones(n)), 2)[None, :] if "cost" in rules else np.zeros((0, n))
    cost = rng.choice([0.0, 0.5, 3.0], (len(knots), n))
    return naive.Spec(
        Q=A.T @ A, p=-A.T @ y, lo=lo, hi=hi, floor=floor, weight=np.zeros(n),
        bend=rng.choice([0.0, 2.0], n) if "bend" in rules else np.zeros(n), knots=knots, cost=cost,
        curve=rng.choice([0.0, 4.0], (len(knots), n)) if "curve" in rules else np.zeros((len(knots), n)),
        s=s, penalty=None, groups=tuple(groups), c=1.0,
    )  # fmt: skip


@pytest.mark.compiled
@pytest.mark.parametrize("kind", KINDS)
def test_search_and_swap_under_every_rule(kind):
    rng = np.random.default_rng(len(kind))
    solved = 0
    for _ in range(16):
        if solved == 6:
            break
        spec = tracking_spec(rng, int(rng.integers(3, 6)), int(rng.integers(1, 4)), KINDS[kind])
        expected = naive.optimum(spec)
        if not np.isfinite(expected):
            with pytest.raises(ValueError):
                cp.minimize(problem_of(spec), method="search")
            continue
        problem = problem_of(spec)
        room = 1e-6 * (1.0 + abs(expected))
        for method in ("search", "swap", "bcd-g"):
            result = cp.minimize(problem, method=method)
            assert naive.violation(spec, result.x) <= 1e-10
            assert result.objective == pytest.approx(naive.objective(spec, result.x), abs=1e-10)
            assert result.success and result.cws_gap <= result.tolerance
            assert (np.diff(result.history[:, 2]) <= 0.0).all()
            assert result.history[-1, 2] <= result.objective <= result.history[-1, 2] + result.tolerance
            assert result.objective >= expected - room
            if method == "search":
                assert result.objective <= expected + room, (spec, result.objective, expected)
            if result.status is cp.Status.SWAP_OPTIMAL:
                _check_exchanges(spec, result)
        solved += 1
    assert solved > 1


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["bounds", "least weights", "groups", "turnover", "all"])
def test_paths_are_no_worse_than_fits_one_by_one(kind):
    """A path starts from its own neighbours, which may hold too many names, and says nothing about it."""
    rng = np.random.default_rng(11)
    compared = 0
    while compared < 3:
        spec = tracking_spec(rng, 5, 1, KINDS[kind])
        expected = {s: naive.optimum(spec._replace(s=s)) for s in (1, 2, 4)}
        sizes = [s for s in expected if np.isfinite(expected[s])]
        if len(sizes) < 2:
            continue
        problem = problem_of(spec._replace(s=sizes[0]))
        found = cp.path(problem, s=sizes, method="search")
        quick = cp.path(problem, s=sizes)
        for (s, result), other in zip(found, quick.results, strict=True):
            best = expected[s]
            assert result.objective == pytest.approx(best, abs=1e-6 * (1.0 + abs(best))), (spec, s)
            assert best - 1e-6 * (1.0 + abs(best)) <= other.objective
            assert other.objective <= cp.minimize(problem.variant(s=s)).objective
            for one in (result, other):
                assert naive.violation(spec._replace(s=s), one.x) <= 1e-10
                assert one.objective == pytest.approx(naive.objective(spec, one.x), abs=1e-10)
        compared += 1


@pytest.mark.compiled
def test_search_where_minimum_positions_nearly_fill_the_sum():
    """Portfolios of small minimums, which hold one name more, are found; the number of names is not limited otherwise."""
    rng = np.random.default_rng(3)
    for _ in range(6):
        n = 7
        M, floor, none = rng.standard_normal((n, n)), rng.uniform(0.2, 0.36, n), np.zeros((0, n))
        spec = naive.Spec(
            Q=M.T @ M + np.diag(rng.uniform(1, 9, n)), p=rng.standard_normal(n), lo=np.zeros(n), hi=np.full(n, 0.6),
            floor=floor, weight=np.zeros(n), bend=np.zeros(n), knots=none, cost=none, curve=none, s=n, penalty=None,
            groups=(), c=1.0,
        )  # fmt: skip
        expected = naive.optimum(spec)
        result = cp.minimize(problem_of(spec), method="search")
        assert naive.violation(spec, result.x) <= 1e-10 and result.success
        assert result.objective == pytest.approx(expected, abs=1e-6 * (1.0 + abs(expected)))
        alone = cp.Problem(cp.Quadratic(spec.Q, spec.p), cp.SemiContinuous(floor, 0.6), u=cp.Sum(1))
        assert cp.minimize(alone, method="search").objective == pytest.approx(result.objective, rel=1e-9)


def _check_exchanges(spec, result):
    """No exchange of one held coordinate for one outside gains, by solving each of them."""
    held = result.x != 0.0
    for j, i in itertools.product(np.flatnonzero(held), np.flatnonzero(~held)):
        other = held.copy()
        other[j], other[i] = False, True
        if spec.lo[j] <= 0.0:
            best = naive.least_on(spec, other, np.where(other, result.x, 0.0))
            assert best >= result.objective - result.swap_gap - 1e-7, (spec, j, i)


@pytest.mark.parametrize("weighted", [False, True])
def test_first_points_exist_whenever_the_rules_allow_one(weighted):
    found = refused = 0
    rng = np.random.default_rng(7)
    for _ in range(scaled(400, 40)):
        spec = random_spec(rng, weighted)
        try:
            problem = problem_of(spec)
            point = problem.project(rng.standard_normal(N))
        except ValueError as error:
            refused += 1
            assert not naive.has_feasible(spec), (spec, error)
        else:
            found += 1
            assert naive.violation(spec, point) <= 1e-9
    assert found > scaled(100, 8) and refused > scaled(20, 1)


def test_a_feasible_point_is_its_own_projection():
    """Rounding of the sum gives no zero a floor, in any unit."""
    rng = np.random.default_rng(0)
    floor = np.where(np.arange(15) % 3 == 0, 1.0, rng.uniform(0.4, 0.95, 15))
    x = np.array([1.0] * 8 + [0.9990123456789, 0.8510987654321, 0.1498888888890] + [0.0] * 4)
    floor[8:11] = 0.1
    x[10] = 10.0 - x[:10].sum()
    for unit in 10.0 ** rng.uniform(-3, 3, scaled(200, 20)):
        h = cp.Bounds(0, unit) + cp.SemiContinuous(unit * floor)
        problem = cp.Problem(cp.LeastSquares(np.eye(15), 0.0), h, cp.AtMost(12), cp.Sum(10.0 * unit))
        assert np.array_equal(problem.project(unit * x) == 0.0, x == 0.0)
        assert np.abs(problem.project(unit * x) - unit * x).max() <= 1e-13 * unit


def test_projection_with_groups_is_the_nearest_point():
    from scipy.optimize import minimize

    rng = np.random.default_rng(3)
    for _ in range(scaled(60, 20)):
        spec = random_spec(rng)._replace(s=N, penalty=0.0, floor=np.full(N, -np.inf), lo=np.zeros(N))
        z = 2 * rng.standard_normal(N)
        try:
            problem = problem_of(spec)
        except ValueError:
            continue
        point = problem.project(z)
        assert naive.violation(spec._replace(floor=spec.lo), point) <= 1e-9
        rows = [{"type": "eq", "fun": lambda x: x.sum() - 1.0}]
        for members, least, most in spec.groups:
            rows.append({"type": "ineq", "fun": lambda x, m=members, b=least: x[m].sum() - b})
            rows.append({"type": "ineq", "fun": lambda x, m=members, b=most: b - x[m].sum()})
        other = minimize(
            lambda x, z=z: ((x - z) ** 2).sum(),
            point,
            jac=lambda x, z=z: 2 * (x - z),
            bounds=list(zip(spec.lo, spec.hi, strict=True)),
            constraints=rows,
            options={"ftol": 1e-14},
        )
        assert ((point - z) ** 2).sum() <= other.fun + 1e-8


def test_the_residual_of_a_weighted_sum_is_per_unit_of_the_sum(rng):
    for _ in range(20):
        A, y, a = rng.standard_normal((8, N)), rng.standard_normal(8), rng.uniform(0.5, 3.0, N)
        problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1), u=cp.Sum(1, weights=a))
        x = problem.start(int(rng.integers(1000)))
        rates = A.T @ (A @ x - y) / a
        gained = np.where(x > 0, rates, -np.inf).max() - np.where(x < 1, rates, np.inf).min()
        assert cp.certify(problem, x).critical_residual == pytest.approx(max(gained, 0.0), abs=1e-12)


def test_integer_program_decides_where_simple_orders_fail():
    w = np.array([0.37] * 8 + [0.3] * 8 + [0.1, 0.05])
    problem = cp.Problem(cp.Quadratic(np.eye(18)), cp.SemiContinuous(w, w), cp.AtMost(9), cp.Sum(1))
    x = problem.start(0)
    assert problem.violation(x) <= 1e-12 and np.count_nonzero(x) <= 9
    assert rules_of(problem).can_hold(np.flatnonzero(x))
    w = np.full(30, 0.3)
    with pytest.raises(InfeasibleError, match="without the least values there would be one"):
        cp.Problem(cp.Quadratic(np.eye(30)), cp.SemiContinuous(w, w + 0.02), cp.AtMost(20), cp.Sum(1)).start(0)


def test_a_sum_with_weights_is_solved_to_its_optimum():
    from scipy.optimize import minimize

    rng = np.random.default_rng(1)
    for _ in range(8):
        A, y = rng.standard_normal((12, N)), rng.standard_normal(12)
        a = rng.choice([-2.0, -1.0, 0.5, 1.0, 3.0], N)
        h = cp.Bounds(-1, 1) + cp.AbsoluteDeviation(0.1, buy=0.3, sell=0.1) + cp.Pieces(knots=[0.2], curve=[1.0])
        problem = cp.Problem(cp.LeastSquares(A, y), h, u=cp.Sum(0.5, weights=a))

        def F(x, A=A, y=y):
            trades = 0.3 * np.maximum(x - 0.1, 0) + 0.1 * np.maximum(0.1 - x, 0) + 0.5 * np.maximum(x - 0.2, 0) ** 2
            return 0.5 * np.sum((A @ x - y) ** 2) + trades.sum()

        seen = []
        result = cp.minimize(problem, callback=seen.append)
        assert result.status is cp.Status.CERTIFIED and result.convex_gap <= result.tolerance
        assert abs(a @ result.x - 0.5) <= 1e-12 and (np.abs(result.x) <= 1.0).all()
        assert result.objective == pytest.approx(F(result.x), abs=1e-12) == problem.objective(result.x)
        assert all(problem.violation(progress.x) <= 1e-9 for progress in seen)
        rows = {"type": "eq", "fun": lambda x, a=a: a @ x - 0.5}
        starts = [problem.start(k) for k in range(3)]
        options = {"bounds": [(-1, 1)] * N, "constraints": rows, "options": {"ftol": 1e-14, "maxiter": 500}}
        assert result.objective <= min(minimize(F, x, **options).fun for x in starts) + 1e-8
        certificate = cp.certify(problem, result.x)
        assert certificate.cws_gap <= result.tolerance and certificate.violation <= 1e-12


@pytest.mark.compiled
def test_a_sum_with_weights_takes_numbers_of_nonzeros_and_groups():
    rng = np.random.default_rng(2)
    for _ in range(6):
        A, y, a = rng.standard_normal((9, 4)), rng.standard_normal(9), rng.uniform(0.5, 2.0, 4)
        u = cp.Sum(1.0, weights=a).within({"first": [0, 1]}, {"first": (0.3, 0.6)})
        problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 2), cp.AtMost(2), u)
        result = cp.minimize(problem, method="search")
        assert np.count_nonzero(result.x) <= 2 and 0.3 - 1e-12 <= (a * result.x)[:2].sum() <= 0.6 + 1e-12
        # The same in z = a∘x, by enumeration.
        B = A / a
        spec = naive.Spec(
            Q=B.T @ B, p=-B.T @ y, lo=np.zeros(4), hi=2 * a, floor=np.zeros(4), weight=np.zeros(4), bend=np.zeros(4),
            knots=np.zeros((0, 4)), cost=np.zeros((0, 4)), curve=np.zeros((0, 4)), s=2, penalty=None,
            groups=(([0, 1], 0.3, 0.6),), c=1.0,
        )  # fmt: skip
        assert result.objective - 0.5 * y @ y <= naive.optimum(spec) + 1e-7
    with pytest.raises(TypeError, match="TopSum has no exact pair step on a Sum with weights"):
        cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1), cp.TopSum(2, 1.0), cp.Sum(1, weights=a))
    with pytest.raises(ValueError, match="none of them 0 or 1e12 times smaller"):
        cp.Sum(1, weights=[1.0, 0.0])
    with pytest.raises(ValueError, match="its weight must be positive"):
        cp.Problem(cp.LeastSquares(A, y), cp.SemiContinuous(0.1, 1), u=cp.Sum(1, weights=-a))


def test_a_knot_out_of_reach_changes_nothing():
    rng = np.random.default_rng(0)
    f = cp.LeastSquares(rng.standard_normal((8, 4)), rng.standard_normal(8))
    plain = cp.minimize(cp.Problem(f, cp.Bounds(0, 1), u=cp.Sum(1)))
    for knot in (1e4, 1e8, 1e30):
        far = cp.minimize(cp.Problem(f, cp.Bounds(0, 1) + cp.Pieces(knots=[knot], curve=[1.0]), u=cp.Sum(1)))
        assert far.status is cp.Status.CERTIFIED
        assert far.objective == pytest.approx(plain.objective, abs=1e-8) and far.tolerance < 1e-7


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: cp.Pieces(knots=0.5), "knots is 0.5; give a list"),
        (lambda: cp.Pieces(knots=[0.5], cost=1.0), "cost is 1.0; give a list"),
        (lambda: cp.Pieces(knots=None), "knots is None; give a list"),
        (lambda: cp.Pieces(constant="a"), "constant is 'a'; it must be one real number"),
        (lambda: cp.Pieces(constant=np.nan), "constant is nan; it must be finite"),
        (lambda: cp.Pieces(slope=1e308), "slope has entries as large as"),
        (lambda: cp.Problem(cp.Quadratic(np.eye(3)), u=cp.Sum(1), constant=np.inf), "constant is inf"),
        (lambda: cp.Sum(1).within({"a": ["x"]}, {"a": 0.5}), "give positions of coordinates"),
        (lambda: cp.Sum(1).within({"a": [0.5]}, {"a": 0.5}), "give positions of coordinates"),
        (lambda: cp.Sum(1).within(None, {"a": 0.5}), "groups is None; give the group of every coordinate"),
        (lambda: cp.Sum(1).within({"a": [0]}, {"b": 0.5}), "limits names group 'b'"),
        (lambda: cp.Sum(1).within({"a": [0, 1], "b": [1, 2]}, {"a": 0.5, "b": 0.5}), "must be disjoint or nested"),
        (lambda: cp.Sum(1).within({"a": []}, {"a": 0.5}), "group 'a' is empty"),
        (lambda: cp.Sum(1).within({"a": [0]}, {"a": (0.5, 0.2)}), "the first must not exceed the second"),
        (lambda: cp.Ridge(0, -1), "rho contains -1; it must be at least 0"),
        (lambda: cp.SemiContinuous(-0.1, 1), "lo contains -0.1"),
        (lambda: bounded(cp.SemiContinuous(0.5, 0.2)), "lo must not exceed hi"),
        (
            lambda: bounded(u=cp.Sum(1).within(["a", "b"], {"a": 0.5})),
            "'a' is given for 2 coordinates, but there are 3",
        ),
        (
            lambda: bounded(u=cp.Sum(1).within({"a": [True, False]}, {"a": 0.5})),
            "'a' is given for 2 coordinates, but th",
        ),
        (
            lambda: bounded(u=cp.Sum(1).within({"a": np.eye(2) > 0}, {"a": 0.5})),
            "the mask of group 'a' has 2 dimensions",
        ),
        (
            lambda: cp.minimize(bounded(cp.SemiContinuous(0.6, 0.9))),
            "^no point keeps all bounds and limits together; without the least values there would be one",
        ),
        (
            lambda: cp.minimize(bounded(cp.SemiContinuous(0.6, 0.9), cp.AtMost(2))),
            "^no point with at most 2 non-zeros keeps all bounds and limits together",
        ),
        (lambda: bounded(u=cp.Sum(1).within({"a": [7]}, {"a": 0.5})), "holds coordinate 7, but there are 3"),
        (lambda: bounded(u=cp.Sum(1).within({"a": [0]}, {"a": (2, 3)})), "coordinates reach from 0 to 1"),
        (lambda: bounded(cp.Bounds(0, 1e-13), u=cp.Sum(9e-13)), "no point within the bounds has the sum"),
        (lambda: cp.AtMost(0), "s is 0"),
        (lambda: cp.minimize(bounded(g=cp.AtMost(4))), "s is 4, but there are 3 coordinates"),
        (lambda: cp.path(bounded(g=cp.AtMost(2)), s=2), "s is 2; give a list of values"),
    ],
)
def test_bad_rules_are_refused_in_a_sentence(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()


def bounded(h=None, g=None, u=None):
    return cp.Problem(cp.Quadratic(np.eye(3)), h or cp.Bounds(0, 1), g, u or cp.Sum(1))


def test_groups_may_be_masks_sets_and_labels():
    mask = np.array([False, False, True])
    for groups in ({"a": mask}, {"a": {2}}, {"a": [2]}, [None, None, "a"]):
        x = cp.minimize(bounded(u=cp.Sum(1).within(groups, {"a": 0.7}))).x
        assert x[2] == pytest.approx(0.7)


@pytest.mark.compiled
def test_the_constant_of_h_is_part_of_every_objective():
    rng = np.random.default_rng(5)
    A, y = rng.standard_normal((8, 5)), rng.standard_normal(8)
    plain, raised = (
        cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1) + cp.Pieces(constant=c), cp.TopSum(2, 1e3), cp.Sum(1))
        for c in (0.0, 50.0)
    )
    for method in ("bcd-g", "swap", "search", "exact"):
        first, second = cp.minimize(plain, method=method), cp.minimize(raised, method=method)
        assert second.objective == pytest.approx(first.objective + 50.0)

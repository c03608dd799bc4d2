"""Exchanges, their search, and the starts and children for binary problems."""

import itertools

import numpy as np
import pytest

import counterpoise as cp
import naive
from conftest import scaled
from counterpoise.kernels import exchange
from counterpoise.solvers.binary import Binary

KINDS = ("gaussian", "duplicates", "zeros", "integers", "scales", "low rank")


def matrix(kind, m, n, rng):
    A = rng.standard_normal((m, n))
    if kind == "duplicates":
        A[:, n // 2 :] = A[:, : n - n // 2]
    elif kind == "zeros":
        A[:, rng.random(n) < 0.5] = 0.0
    elif kind == "integers":
        A = np.round(A)
    elif kind == "scales":
        A *= 10.0 ** rng.uniform(-3, 2, n)
    elif kind == "low rank":
        A = np.outer(A[:, 0], rng.standard_normal(n))
    return A


def totals(n):
    """Sums of either parity, the extreme ones, and one that is no integer."""
    return (0.0, 1.0, float(n), -float(n), n - 1.0, -n + 0.5, 0.3)


def make(A, y, c, b=1.0, w=0.0):
    return cp.Problem(cp.LeastSquares(A, y), cp.Bounds(-b, b) + cp.Linear(w), cp.ConcaveQuadratic(1.0), cp.Sum(c))


def instances(count, rng, most=12):
    for k in range(count):
        n = 2 if k % 10 == 9 else int(rng.integers(2, most + 1))
        A = matrix(KINDS[k % len(KINDS)], max(2, n - 2), n, rng)
        b = (1.0, 0.1, 3.0)[k % 3]
        c = b * totals(n)[k % 7]
        yield make(A, rng.standard_normal(len(A)), c, b, rng.standard_normal(n) if k % 2 else 0.0), b, c


def vertices(n, b, c):
    """Every vector of ±b with the sum c, with one entry of another value if there must be one."""
    for signs in itertools.product((-b, b), repeat=n - 1):
        last = c - sum(signs)
        if abs(last) <= b * (1 + 1e-9):
            for place in range(n):
                yield np.insert(np.array(signs), place, last)


def optimum(problem, b, c):
    return min(problem.objective(x) for x in vertices(problem.n, b, c))


def assert_vertex(problem, x, b, c):
    assert np.count_nonzero(np.abs(x) != b) <= 1
    assert np.abs(x).max() <= b
    assert problem.violation(x) <= 1e-13 * problem.n * b
    if abs((problem.n + c / b) / 2 % 1.0 - 0.5) < 0.4:
        assert np.count_nonzero(np.abs(x) != b) == 1


def best_exchange(problem, x):
    """The largest decrease that exchanging two entries brings, by trying all."""
    here, best = problem.objective(x), 0.0
    for i, j in itertools.combinations(range(len(x)), 2):
        moved = x.copy()
        moved[i], moved[j] = x[j], x[i]
        best = max(best, here - problem.objective(moved))
    return best


def size(problem):
    """What a rounding error of the objective is relative to."""
    b = problem.separable.hi[0]
    return 1.0 + b * b * np.abs(problem.f.Q).sum() + b * np.abs(problem.f.p).sum() + problem.f.value_at_zero


def random_vertex(search, rng):
    return search._round(rng.random(search.n))


def test_change_of_an_exchange(rng):
    for problem, b, _ in instances(scaled(400, 60), rng):
        search = Binary(problem)
        z = random_vertex(search, rng)
        gradient = search.Q @ z + search.p
        for i, j in itertools.product(range(problem.n), repeat=2):
            moved = z.copy()
            moved[i], moved[j] = z[j], z[i]
            direct = problem.objective(b * moved) - problem.objective(b * z)
            change = exchange.exchange_change(search.Q, search.diagonal, gradient, i, j, z[j] - z[i])
            assert abs(change - direct) <= 1e-12 * size(problem)
            if z[i] == 1.0 and z[j] == -1.0:
                a, rise = 2 * search.Q[i, i] - 2 * gradient[i], 2 * search.Q[j, j] + 2 * gradient[j]
                assert abs(change - (a + rise - 4 * search.Q[i, j])) <= 1e-12 * size(problem)


def test_descent_leaves_no_exchange(rng):
    for problem, b, c in instances(scaled(300, 40), rng, most=scaled(24, 12)):
        x = Binary(problem).descend(rng.uniform(-b, b, problem.n))
        assert_vertex(problem, x, b, c)
        assert best_exchange(problem, x) <= 1e-11 * size(problem)


def test_descent_never_rises_and_stays_at_its_end(rng):
    for problem, b, _ in instances(scaled(100, 20), rng):
        search = Binary(problem)
        x = b * random_vertex(search, rng)
        end = search.descend(x)
        assert problem.objective(end) <= problem.objective(x) + 1e-12 * size(problem)
        assert np.array_equal(search.descend(end), end)


@pytest.mark.parametrize("c", [0.0, 1.0, 0.3])
def test_nothing_drifts(rng, c):
    n = scaled(30, 10)
    problem = make(matrix("scales", n, n, rng), rng.standard_normal(n), c)
    search, g = Binary(problem), np.empty(n)
    z = random_vertex(search, rng)
    before = search.value(z)
    # Hot enough that most proposals are accepted: several times as many as there are between two reloads.
    work = scaled(20 * exchange.RELOAD, 3 * exchange.RELOAD) * n
    change = exchange.anneal(search.Q, search.p, search.diagonal, 1e9, 1e8, work, rng, z, g)
    assert np.abs(g - (search.Q @ z + search.p)).max() <= 1e-12 * size(problem)
    assert abs(search.value(z) - before - change) <= 1e-10 * size(problem)
    before = search.value(z)
    change = exchange.tabu(search.Q, search.p, search.diagonal, search.floor, 0.0, 1, 2, work // 4, rng, z, g)
    assert abs(search.value(z) - before - change) <= 1e-10 * size(problem)
    assert_vertex(problem, z, 1.0, c)


def test_annealing_reaches_every_vertex(rng):
    n = 4
    search = Binary(make(np.eye(n), 0.0, 0.3))
    seen, z = set(), random_vertex(search, rng)
    for _ in range(300):
        exchange.anneal(search.Q, search.p, search.diagonal, 1e9, 1e8, n, rng, z, np.empty(n))
        seen.add(tuple(z))
    assert len(seen) == len({tuple(np.round(x, 9)) for x in vertices(n, 1.0, 0.3)})


def test_tabu_lets_thin_columns_follow_only(rng):
    n = 8
    A = matrix("gaussian", n, n, rng)
    A[:, :4] *= 1e-3
    search = Binary(make(A, 0.0, 0.0))
    z = np.tile([1.0, -1.0], n // 2)
    everything_thin = 2.0 * search.diagonal.max()
    data = (search.Q, search.p, search.diagonal, search.floor)
    assert exchange.tabu(*data, everything_thin, 3, 4, 50, rng, z, np.empty(n)) == 0.0
    assert np.array_equal(z, np.tile([1.0, -1.0], n // 2))


def test_homotopy_stays_feasible_and_starts_convex(rng):
    for n, c in ((5, 0.0), (8, 2.0), (6, 6.0), (7, 0.4)):
        A = matrix("gaussian", n + 3, n, rng)
        problem = make(A, A @ rng.uniform(-1, 1, n), c)
        Q, p, x = problem.f.Q, problem.f.p, np.full(n, c / n)
        exchange.homotopy(Q, p, c, np.linalg.norm(Q, 2), 0.0, scaled(2000, 300), x, np.empty(n))
        assert problem.violation(x) <= 1e-10
        stepped = naive.project_line(x - 1e-2 * (Q @ x + p), -np.ones(n), np.ones(n), c)
        assert np.abs(stepped - x).max() <= 1e-6


def test_projection(rng):
    for _ in range(scaled(500, 50)):
        n = int(rng.integers(2, 9))
        z, c = rng.standard_normal(n) * 10.0 ** rng.integers(-2, 3), rng.uniform(-n, n)
        if rng.random() < 0.2:
            z, c = np.round(z), float(np.round(c))
        x = z.copy()
        exchange._project(x, c)
        assert np.abs(x - naive.project_line(z, -np.ones(n), np.ones(n), c)).max() <= 1e-9


def test_search_finds_the_optimum(rng):
    for problem, b, c in instances(scaled(60, 30), rng, most=scaled(12, 9)):
        search = Binary(problem)
        population = [search.start(k, rng) for k in range(4)]
        population += [search.child(population, rng) for _ in range(4)]
        for x in population:
            assert_vertex(problem, x, b, c)
            assert best_exchange(problem, x) <= 1e-11 * size(problem)
        found = min(problem.objective(x) for x in population)
        assert found <= optimum(problem, b, c) + 1e-11 * size(problem)


def test_search_agrees_with_the_reference(rng):
    for n, c in ((10, 0), (10, -4), (9, 3)):
        A, y = matrix("gaussian", 8, n, rng), rng.standard_normal(8)
        problem = make(A, y, c)
        search = Binary(problem)
        found = min(problem.f.value(search.start(k, rng)) for k in range(4))
        assert found == pytest.approx(naive.binary_optimum(A, y, c)[0])


def test_value_is_the_objective_up_to_a_constant(rng):
    for problem, b, _ in instances(20, rng):
        search = Binary(problem)
        x, other = b * random_vertex(search, rng), b * random_vertex(search, rng)
        difference = problem.objective(x) - problem.objective(other)
        assert abs(search.value(x) - search.value(other) - difference) <= 1e-12 * size(problem)


def test_same_generator_same_bits(rng):
    n = scaled(60, 10)
    problem = make(matrix("gaussian", n, n, rng), 0.0, 0.0)

    def points(search):
        generator = np.random.default_rng(3)
        starts = [search.start(k, generator) for k in range(4)]
        return starts + [search.child(starts, generator) for _ in range(6)]

    search = Binary(problem)
    first = np.array(points(search))
    assert np.array_equal(first, points(search))
    assert np.array_equal(first, points(Binary(problem)))


def test_parents_are_left_alone(rng):
    problem = make(matrix("gaussian", 8, 8, rng), 0.0, 0.0)
    search = Binary(problem)
    parents = [search.start(k, rng) for k in range(2)]
    kept, Q = np.array(parents), search.Q.copy()
    for _ in range(5):
        search.child(parents, rng)
    search.descend(parents[0])
    assert np.array_equal(kept, parents)
    assert np.array_equal(Q, search.Q)


def test_norm_is_searched_too(rng):
    f = cp.LeastSquares(matrix("gaussian", 6, 6, rng), 0.0)
    assert_vertex(
        problem := cp.Problem(f, cp.Bounds(-1, 1), cp.Norm2(1.0), cp.Sum(0)), Binary(problem).start(0, rng), 1, 0
    )


@pytest.mark.parametrize(
    ("h", "g", "message"),
    [
        (cp.Bounds(-1, 2), cp.ConcaveQuadratic(1.0), "one finite b"),
        (cp.Bounds([-1, -2, -1], [1, 2, 1]), cp.Norm2(1.0), "one finite b"),
        (cp.Bounds(0, np.inf), cp.Norm2(1.0), "one finite b"),
        (cp.Bounds(-1, 1) + cp.AbsoluteDeviation(0.0, 1.0), cp.Norm2(1.0), "takes Bounds and Linear as h"),
        (cp.Bounds(-1, 1), cp.ConcaveQuadratic(0.0), "has no g, or λ = 0"),
    ],
)
def test_refusals(h, g, message):
    problem = cp.Problem(cp.LeastSquares(np.eye(3), 0.0), h, g, cp.Sum(1.0))
    with pytest.raises(ValueError, match=message):
        Binary(problem)


def test_a_zero_objective_is_no_obstacle(rng):
    problem = make(np.zeros((2, 5)), 0.0, 1.0)
    search = Binary(problem)
    for x in (search.start(0, rng), search.start(1, rng), search.child([np.array([1.0, 1, 1, -1, -1])], rng)):
        assert_vertex(problem, x, 1.0, 1.0)

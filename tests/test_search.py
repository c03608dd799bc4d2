"""Search, swap, exact, paths: the proven optimum on small instances, the same bits for any workers, honest ends."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import counterpoise as cp
from conftest import scaled
from counterpoise.experiments.runner import workers
from counterpoise.problems import DCPB1, DCPB2, NNSPCA, SIT
from counterpoise.solvers.exact import Proof, exact
from counterpoise.solvers.faces import walk_on_faces
from counterpoise.solvers.run import Run
from counterpoise.solvers.search import _exact_strategy, _Search, search
from counterpoise.solvers.sparse_line import SparseLine
from naive import binary_optimum, largest_swap_decrease, sparse_pca_optimum, sparse_tracking_optimum, tracking_on

LARGE = 1e6


def instance(name, rng, n=9, s=3, lam=LARGE):
    A, y = rng.standard_normal((14, n)), rng.standard_normal(14)
    if name == "SIT":
        # Near the mean of all columns, so that the minimum without a limit holds more than s.
        return SIT(A, A.mean(axis=1) + 0.1 * y, s, lam)
    if name == "NNSPCA":
        return NNSPCA(A, s, lam)
    return {"DCPB1": DCPB1, "DCPB2": DCPB2}[name](A, y, float(n % 2), lam)


def optimum(name, problem):
    """The best f, by enumeration that shares nothing with the code under test."""
    A, y = problem.f.A, problem.f.y
    if name == "SIT":
        return sparse_tracking_optimum(A, y, problem.g.s)[0]
    if name == "NNSPCA":
        return -sparse_pca_optimum(A, problem.g.s)[0]
    return binary_optimum(A, y, int(problem.u.c))[0]


NAMES = ("SIT", "NNSPCA", "DCPB1", "DCPB2")


@pytest.mark.parametrize("name", NAMES)
def test_search_finds_the_proven_optimum(rng, name):
    for case in range(scaled(12, 2)):
        problem = instance(name, rng)
        result = search(problem, work=24, seed=case)
        best = optimum(name, problem)
        assert result.objective <= best + 1e-7 * (1.0 + abs(best))
        assert result.objective == pytest.approx(problem.objective(result.x), rel=1e-12)
        assert problem.violation(result.x) < 1e-9
        assert result.status is cp.Status.CERTIFIED and result.nit == 24
        assert (np.diff(result.history[:, 2]) <= 1e-12 * abs(best)).all()


@pytest.mark.parametrize("name", NAMES)
def test_exact_agrees_with_full_enumeration(rng, name):
    for case in range(scaled(8, 2)):
        n = int(rng.integers(5, 10))
        s = int(rng.integers(1, 5))
        problem = instance(name, rng, n, s)
        result = exact(problem, seed=case)
        best = optimum(name, problem)
        assert result.status is cp.Status.OPTIMAL and result.success
        assert result.objective == pytest.approx(best, rel=1e-7, abs=1e-9)
        assert problem.violation(result.x) < 1e-9
        assert isinstance(result.proof, Proof) and result.proof.candidates > 0


@pytest.mark.parametrize("name", NAMES)
def test_the_enumeration_itself_finds_the_optimum(rng, name):
    """Without the search, from a bad point."""
    from counterpoise.solvers.search import strategy_of

    for _ in range(scaled(10, 3)):
        n, s = int(rng.integers(4, 10)), int(rng.integers(1, 5))
        problem = instance(name, rng, n, min(s, n))
        strategy = strategy_of(problem, "exact")
        _, count, parts = strategy.enumeration()
        x = strategy.descend(problem.start(0))
        x[:] = x[rng.permutation(n)] if name != "NNSPCA" else np.eye(n)[0]
        assert sum(parts(x)) >= 1 and count >= 1
        best = optimum(name, problem)
        assert problem.objective(x) == pytest.approx(best, rel=1e-7, abs=1e-9)


@pytest.mark.compiled
def test_exact_with_bounds_and_turnover(rng):
    for _ in range(scaled(8, 2)):
        n, s = 7, 3
        A, y, x0 = rng.standard_normal((10, n)), rng.standard_normal(10), rng.dirichlet(np.ones(n))
        h = cp.Bounds(0.0, 0.5) + cp.AbsoluteDeviation(x0, 0.5) + cp.Linear(rng.normal(size=n))
        problem = cp.Problem(cp.LeastSquares(A, y), h, cp.TopSum(s, 1e6), cp.Sum(1.0), constant=1e6)
        result = exact(problem)
        best = np.inf
        for W in itertools.combinations(range(n), s):
            lid = np.zeros(n)
            lid[list(W)] = 0.5
            inside = cp.Problem(problem.f, h + cp.Bounds(0.0, lid), u=cp.Sum(1.0))
            best = min(best, cp.minimize(inside, tol=1e-13).objective)
        assert result.objective == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize(("c", "n"), [(0.0, 5), (5.0, 5), (-4.0, 4), (1.3, 6), (-2.0, 7)])
def test_exact_binary_of_every_parity(rng, c, n):
    A, y = rng.standard_normal((8, n)), rng.standard_normal(8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        problem = DCPB1(A, y, c, LARGE)
    result = exact(problem)
    ups = (c + n) / 2.0
    values = []
    for odd in [None] if ups == int(ups) else range(n):
        rest = [i for i in range(n) if i != odd]
        for raised in itertools.combinations(rest, int(np.floor(ups))):
            x = -np.ones(n)
            x[list(raised)] = 1.0
            if odd is not None:
                x[odd] = c - (x.sum() - x[odd])
            values.append(problem.objective(x))
    assert result.objective == pytest.approx(min(values), rel=1e-9)


def test_exact_refuses_the_hopeless_and_the_undefined(rng):
    problem = SIT(rng.standard_normal((30, 90)), rng.standard_normal(30), 20, 1e9)
    with pytest.raises(ValueError, match=r"would examine 5.1e\+19 supports in about .* years"):
        exact(problem)
    with pytest.raises(ValueError, match="the best point may be neither; that takes λ >"):
        exact(instance("SIT", rng, lam=1e-3))


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["SIT", "DCPB2"])
def test_workers_do_not_change_the_bits(rng, name):
    problem = instance(name, rng, n=12)
    alone = search(problem, work=20, seed=3)
    together = search(problem, work=20, seed=3, n_jobs=2)
    assert (alone.x == together.x).all()
    assert (alone.history[:, [0, 2]] == together.history[:, [0, 2]]).all()
    assert (search(problem, work=20, seed=3).x == alone.x).all()


@pytest.mark.compiled
def test_small_penalties_are_searched_as_they_are(rng):
    """Below the exact regime the best point is dense; the search must not be worse than descents from many starts."""
    for name in NAMES:
        for _ in range(scaled(4, 1)):
            problem = instance(name, rng, lam=0.3)
            result = search(problem, work=32)
            many = min(cp.minimize(problem, seed=seed).objective for seed in range(12))
            assert result.objective <= many + 1e-7 * (1.0 + abs(many))


@pytest.mark.compiled
def test_limits_callbacks_and_starts(rng):
    problem = instance("SIT", rng)
    seen = []
    stopped = search(problem, work=1000, callback=lambda progress: seen.append(progress) or len(seen) >= 2)
    assert len(seen) == 2 and stopped.nit == 2 * SparseLine.plan.batch
    quick = search(problem, max_time=1.0)
    assert quick.nit >= 1 and quick.status in (cp.Status.CERTIFIED, cp.Status.TIME_LIMIT)
    best = search(problem, work=24)
    again = search(problem, best.x, work=1)
    assert again.objective <= best.objective + 1e-12


def test_an_interrupt_returns_the_best_so_far(rng):
    problem = instance("SIT", rng)

    def interrupt(progress):
        raise KeyboardInterrupt

    result = search(problem, work=100, callback=interrupt)
    assert result.status is cp.Status.INTERRUPTED and not result.success
    assert result.objective == pytest.approx(problem.objective(result.x))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"work": 0}, "work is 0"),
        ({"max_time": 0.0}, "max_time is 0; a search needs a positive budget"),
        ({"work": -3}, "work is -3"),
        ({"max_time": -1.0}, "max_time is -1"),
    ],
)
def test_budgets_of_nothing_are_refused(rng, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        cp.minimize(instance("SIT", rng), method="search", **options)


def test_a_failing_job_costs_only_itself(rng, monkeypatch):
    from counterpoise.solvers import sparse_line

    problem = instance("SIT", rng)
    true_start = sparse_line.SparseLine.start

    def start(self, k, generator):
        if k % 3 == 2:
            raise OSError("the worker is gone")
        return true_start(self, k, generator)

    monkeypatch.setattr(sparse_line.SparseLine, "start", start)
    with pytest.warns(UserWarning, match="jobs were lost with their workers; the rest is complete"):
        result = search(problem, work=32, n_jobs=2)
    assert result.status is cp.Status.CERTIFIED and result.nit == 32


@pytest.mark.compiled
def test_a_search_takes_kinks_at_any_lam(rng):
    for lam in (0.0, 1e-3, 1.0, LARGE):
        A, y = rng.standard_normal((14, 9)), rng.standard_normal(14)
        h = cp.Bounds(0, np.linspace(0.5, 1.0, 9)) + cp.AbsoluteDeviation(np.full(9, 1 / 9), 0.3)
        problem = cp.Problem(cp.LeastSquares(A, y), h, cp.TopSum(3, lam), cp.Sum(1))
        result = search(problem, work=16)
        assert result.success and result.objective <= cp.minimize(problem).objective + 1e-12


# Swaps


@pytest.mark.parametrize("name", ["SIT", "NNSPCA"])
def test_swap_ends_where_no_exchange_gains(rng, name):
    for _ in range(scaled(10, 3)):
        problem = instance(name, rng)
        descent = cp.minimize(problem)
        result = cp.minimize(problem, descent.x, "swap")
        assert result.status is cp.Status.SWAP_OPTIMAL and result.success
        assert result.objective <= descent.objective + 1e-9 * abs(descent.objective)
        certificate = cp.certify(problem, result.x, level="swap")
        assert certificate.swap_gap <= 1e-7 * (1.0 + abs(result.objective))
        assert certificate.cws_gap <= result.tolerance


def limited(rng, kind, n=6, s=3):
    """A problem with bounds that bind or kinks, and what tests/naive.py wants of it."""
    A, y = rng.standard_normal((8, n)), 3.0 * rng.standard_normal(8)
    lo, hi, centre, cost = np.zeros(n), np.ones(n), np.zeros(n), np.zeros(n)
    if kind != "none":
        hi = rng.uniform(0.36, 0.7, n)
    if kind == "turnover":
        centre, cost = rng.uniform(0.0, 0.4, n), np.full(n, float(rng.choice([0.1, 1.0])))
    if kind == "held":
        lo[rng.integers(n)] = 0.2
    h = cp.Bounds(lo, hi) + cp.AbsoluteDeviation(centre, cost)
    problem = cp.Problem(cp.LeastSquares(A, y), h, cp.TopSum(s, LARGE), cp.Sum(1.0))
    return problem, (A, y, s), (lo, hi, centre, cost)


@pytest.mark.parametrize("kind", ["none", "limits", "turnover", "held"])
def test_the_swap_gap_of_any_sparse_point_is_that_of_brute_force(rng, kind, monkeypatch):
    """Points as a user may have them: weights that are not the best, or that are, supports that are not full."""
    monkeypatch.setattr("counterpoise.solvers.sparse_line.CLAIM_TRIES", 2)  # more have to be asked for
    ways = set()
    for case in range(scaled(16, 6)):
        problem, (A, y, s), h = limited(rng, kind)
        x = np.zeros(6)
        x[h[0] > 0] = 1.0
        while x @ h[1] < 1.0 or (case % 2 and x.sum() < s):
            x[rng.integers(6)] = 1.0
        if x.sum() > s:
            continue
        x = problem.project(np.where(x > 0, rng.random(6), -10.0))
        if case % 4 == 0:
            x = tracking_on(A, y, np.flatnonzero(x), *h)[1]
            x[x < 1e-12] = 0.0
        certificate = cp.certify(problem, x, level="swap")
        reference = largest_swap_decrease(A, y, s, x, *h)
        assert certificate.swap_gap == pytest.approx(reference, rel=1e-7, abs=1e-8)
        ways.add(None if certificate.worst_swap is None else certificate.worst_swap[0] < 0)
        swapped = cp.minimize(problem, x, "swap")
        assert swapped.status is cp.Status.SWAP_OPTIMAL
        assert largest_swap_decrease(A, y, s, np.where(swapped.x > 1e-12, swapped.x, 0.0), *h) <= 1e-7
    assert {True, False} <= ways


def test_the_swap_gap_of_any_sparse_direction(rng):
    """Where A ≥ 0 the best direction on a support is its first eigenvector, so that new weights alone are known."""
    for _ in range(scaled(100, 5)):
        A = rng.random((14, 7))
        problem, x = NNSPCA(A, 3, LARGE), np.zeros(7)
        held = rng.choice(7, 3, replace=False)
        x[held] = 0.1 + rng.random(3)
        x /= np.linalg.norm(x)
        now = 0.5 * np.linalg.norm(A @ x) ** 2
        own, best = (
            0.5 * np.linalg.norm(A[:, at], 2) ** 2 - now for at in (held, np.flatnonzero(sparse_pca_optimum(A, 3)[1]))
        )
        certificate = cp.certify(problem, x, level="swap")
        assert own - 1e-9 * now <= certificate.swap_gap <= best + 1e-9 * now
        if certificate.worst_swap is not None:
            leaves, enters = certificate.worst_swap
            after = 0.5 * np.linalg.norm(A[:, [*(set(held) - {leaves}), enters]], 2) ** 2 - now
            assert certificate.swap_gap == pytest.approx(after, rel=1e-7) and after > own


def test_the_swap_gap_names_an_exchange_that_gains(rng):
    found = 0
    for _ in range(20):
        problem = instance("SIT", rng)
        descent = cp.minimize(problem)
        certificate = cp.certify(problem, descent.x, level="swap")
        if certificate.swap_gap > 1e-6:
            found += 1
            leaves, enters = certificate.worst_swap
            held = set(np.flatnonzero(descent.x > 0)) - {leaves} | {enters}
            A = problem.f.A[:, sorted(held)]
            inside = cp.Problem(cp.LeastSquares(A, problem.f.y), cp.Bounds(0, np.inf), u=cp.Sum(1.0))
            gained = descent.objective - cp.minimize(inside, tol=1e-13).objective
            assert gained == pytest.approx(certificate.swap_gap, rel=1e-5)
    assert found > 0


@pytest.mark.parametrize("name", ["SIT", "NNSPCA"])
def test_no_exchange_is_claimed_of_a_point_that_holds_more_than_s(rng, name):
    problem = instance(name, rng).variant(s=1, lam=1e-6)
    dense = cp.minimize(problem)
    assert np.count_nonzero(dense.x) > problem.g.s
    for x0 in (None, dense.x):
        result = cp.minimize(problem, x0, "swap")
        assert result.objective <= dense.objective + 1e-9 * abs(dense.objective)
        assert result.status is cp.Status.CERTIFIED and result.success


def test_swap_refuses_other_problems(rng):
    with pytest.raises(ValueError, match="leaves s coordinates free; g is Norm2"):
        problem = instance("DCPB2", rng)
        cp.certify(problem, problem.start(), level="swap")
    with pytest.raises(ValueError, match="it has no g"):
        cp.minimize(cp.Problem(cp.LeastSquares(np.eye(3), np.ones(3)), cp.Bounds(0, 1), u=cp.Sum(1)), method="swap")
    with pytest.raises(ValueError, match=r"level is 'block'"):
        cp.certify(instance("SIT", rng), instance("SIT", rng).start(), level="block")


def test_swap_ends_where_the_largest_cannot_hold_the_sum():
    h = cp.Bounds(0, [1.0, 0.6, 0.6])
    problem = cp.Problem(cp.LeastSquares(np.eye(3), np.zeros(3)), h, cp.TopSum(1, 100.0), cp.Sum(1))
    result = cp.minimize(problem, [0.0, 0.5, 0.5], "swap", max_time=60.0)
    assert result.status is cp.Status.SWAP_OPTIMAL
    assert result.x.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["DCPB1", "DCPB2"])
def test_swap_on_binary_problems_is_never_worse_than_pairs(rng, name):
    better = 0
    for lam in [0.1, 1.0, 10.0] * scaled(10, 3):
        problem = instance(name, rng, lam=lam, n=14)
        pairs, result = cp.minimize(problem), cp.minimize(problem, method="swap")
        assert result.objective <= pairs.objective and result.success
        assert cp.certify(problem, result.x).cws_gap <= result.tolerance
        better += result.objective < pairs.objective - 1e-9 * abs(pairs.objective)
    assert better > 0


# Newton steps on faces


@pytest.mark.parametrize("name", ["DCPB1", "DCPB2"])
def test_walks_on_faces_end_at_stationary_points_or_where_they_began(rng, name):
    reached = 0
    for _ in range(scaled(40, 10)):
        problem = instance(name, rng, lam=1e-3, n=10)
        x = problem.start(int(rng.integers(1000)))
        end = walk_on_faces(problem, x, 40)
        assert problem.violation(end) <= 1e-9
        assert problem.objective(end) <= problem.objective(x)
        # λ is so small that there is one minimum, which pairs find as well.
        pairs = cp.minimize(problem, x, tol=1e-13)
        reached += problem.objective(end) <= pairs.objective + 1e-7 * (1.0 + abs(pairs.objective))
    assert reached >= 0.8 * scaled(40, 10)


# Paths


@pytest.mark.parametrize("method", ["bcd-g", "swap"])
def test_a_path_is_never_worse_than_its_values_one_by_one(rng, method):
    problem = instance("SIT", rng, n=12)
    found = cp.path(problem, s=[4, 2, 6, 3], method=method)
    assert found.name == "s" and found.values == (4, 2, 6, 3) and len(found) == 4
    for s, result in found:
        alone = cp.minimize(problem.variant(s=s), method=method)
        assert result.objective <= alone.objective + 1e-12 * abs(alone.objective)
        assert (result.x > 0).sum() <= s


def test_a_path_over_lam_uses_the_presets_own_constants(rng):
    for name in NAMES:
        problem = instance(name, rng, lam=1.0)
        found = cp.path(problem, lam=[0.1, 10.0])
        for lam, variant, result in zip(found.values, found.problems, found.results, strict=True):
            rng_free = type(problem)
            given = {"SIT": (problem.f.A, problem.f.y, 3, lam), "NNSPCA": (problem.f.A, 3, lam)}
            direct = rng_free(*given.get(name, (problem.f.A, problem.f.y, getattr(problem.u, "c", 0.0), lam)))
            assert variant.objective(result.x) == pytest.approx(direct.objective(result.x), rel=1e-12)
            assert variant.f is problem.f


@pytest.mark.parametrize(
    ("given", "sentence"),
    [({}, "give either s or lam"), ({"s": [1], "lam": [1.0]}, "give either s or lam"), ({"s": []}, "s is empty")],
)
def test_a_path_needs_one_list(rng, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        cp.path(instance("SIT", rng), **given)


# Clusters, proofs by another solver, graphs


@pytest.mark.compiled
@pytest.mark.parametrize("backend", ["loky", pytest.param("dask", marks=pytest.mark.slow)])
def test_any_backend_of_joblib_gives_the_same_bits(rng, backend):
    if backend == "dask":
        pytest.importorskip("distributed", reason="distributed is not installed")
    problem = instance("SIT", rng, n=12)
    alone = search(problem, work=12, seed=5)
    with workers(backend, address=None, jobs=2):
        together = search(problem, work=12, seed=5, n_jobs=2)
    assert (alone.x == together.x).all()


def test_a_name_that_is_gone_says_what_replaces_it():
    with pytest.raises(AttributeError, match="no attribute 'prove' any more: use minimize"):
        _ = cp.prove


@pytest.mark.compiled
def test_a_graph_too_large_for_a_dense_gram_matrix(rng):
    """Bisection of a ring of 8000: the optimum cuts two edges, ½‖Ax‖² = ½·2·2²; descents end at a few arcs."""
    import scipy.sparse as sp

    n = 8000
    edges = np.arange(n)
    A = sp.csr_array(
        (np.r_[np.ones(n), -np.ones(n)], (np.r_[edges, edges], np.r_[edges, (edges + 1) % n])), shape=(n, n)
    )
    problem = DCPB1(A, 0.0, 0.0, 10.0)
    assert problem.f.sparse_Q is not None
    x0 = np.where(edges < n // 2, 1.0, -1.0)
    kept = cp.minimize(problem, x0)
    assert kept.success and kept.objective == pytest.approx(4.0)
    start = rng.permutation(x0)
    # A random pair costs the neighbours of two coordinates; the default rule looks at all pairs now and then.
    shuffled = cp.minimize(problem, start, working_set="random", max_iter=300_000)
    assert shuffled.objective < 0.6 * problem.objective(start)


def test_a_limited_search_on_the_sphere_opens_with_steps_on_all_coordinates():
    """Below the exactness threshold pair steps from a sparse point would take the whole time."""
    problem = NNSPCA(np.random.default_rng(1).standard_normal((300, 300)), s=8, lam=0.5)
    for start in range(3):
        x0 = problem.start(start)
        steps = cp.minimize(problem, x0, method="pdca", extrapolate=True, max_iter=300)
        run = Run(problem, x0, 1e-9, None, 2.0, start, None)
        opened = _Search(run, _exact_strategy(problem), None, None, given=True).best
        assert opened.objective <= steps.objective + 1e-9 * abs(steps.objective)


@pytest.mark.compiled
@pytest.mark.parametrize("s", [10, 33])
@pytest.mark.parametrize("extra", ["costs", "floors", "weights", "exact fit"])
def test_a_search_ends_no_higher_than_bcd(s, extra):
    for seed in range(2):
        rng = np.random.default_rng([seed, s])
        A, x0 = rng.standard_normal((20, 45)), rng.dirichlet(np.full(45, 0.3))
        y = A @ rng.dirichlet(np.ones(45)) + 0.1 * rng.standard_normal(20)
        h, v = cp.Bounds(0, 1), None
        if extra == "costs":
            h = h + cp.AbsoluteDeviation(x0, 0.5)
        elif extra == "floors":
            h = h + cp.SemiContinuous(0.02, 0.4)
        elif extra == "weights":
            v = rng.uniform(0.0, 2.0, 20) * (rng.random(20) < 0.7)
        else:
            y = A[:, :5].mean(axis=1)
        problem = cp.Problem(cp.LeastSquares(A, y, weights=v), h, cp.AtMost(s), cp.Sum(1))
        found, other = cp.minimize(problem, method="search", work=6), cp.minimize(problem)
        assert problem.is_feasible(found.x) and np.count_nonzero(found.x) <= s
        assert found.objective <= other.objective + other.tolerance


@pytest.mark.compiled
def test_a_search_with_a_small_penalty_ends_no_higher_than_bcd(rng):
    """Below the threshold, where starts need not be near the minimum of F itself, even if there are very few."""
    for trial in range(12):
        A, y = rng.standard_normal((12, 9)), 3.0 * rng.standard_normal(12)
        f = cp.Huber(A, y, 0.3) if trial % 2 else cp.LeastSquares(A, y)
        g = (cp.Norm2(0.1), cp.ConcaveQuadratic(0.01), cp.TopSum(3, 0.05))[trial % 3]
        h = cp.Bounds(0, 1) if trial % 3 == 2 else cp.Bounds(-1, 1)
        problem = cp.Problem(f, h, g, cp.Sum(1))
        found, other = cp.minimize(problem, method="search", work=1), cp.minimize(problem)
        assert found.objective <= other.objective + other.tolerance

"""Windows of jobs against a plain loop in which job k sees the results of jobs up to k − size."""

import threading
import time

import joblib
import numpy as np
import pytest

import counterpoise as cp
from counterpoise.solvers.population import Window
from counterpoise.solvers.run import Run
from counterpoise.solvers.search import _Search
from counterpoise.solvers.sparse_line import ALIKE, SparseLine

SIZE, JOBS = 3, 11


def double(job):
    """Take longer for early jobs, so that workers end out of order."""
    time.sleep(0.002 * (job[0] % 3))
    return 2 * job[1]


def made_by(window):
    """Return the jobs of a population that is the sum of all results so far."""
    seen, total, number = [], 1, 0
    while len(seen) < JOBS:
        while len(window.waiting) < window.size and number < JOBS:
            window.push((number, total))
            number += 1
        job, found = window.take()
        seen.append((*job, found))
        total += found
    window.close()
    return seen


def by_a_loop():
    """Return the same by the definition: job k is made of the results of jobs up to k − SIZE."""
    totals = [1]
    results = []
    for k in range(JOBS):
        results.append(2 * totals[max(0, k - SIZE + 1)])
        totals.append(totals[-1] + results[-1])
    return [(k, totals[max(0, k - SIZE + 1)], results[k]) for k in range(JOBS)]


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 5])
def test_results_do_not_depend_on_the_workers(n_jobs):
    assert made_by(Window(SIZE, double, n_jobs, lambda: False)) == by_a_loop()


def test_other_backends_give_the_same_results():
    with joblib.parallel_config(backend="multiprocessing"):
        assert made_by(Window(SIZE, double, 2, lambda: False)) == by_a_loop()


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_jobs_that_have_not_begun_are_left_out_when_time_is_up(n_jobs):
    over, offered = threading.Event(), []
    window = Window(SIZE, lambda job: over.set() or job, n_jobs, over.is_set, offered.append)
    window.push("first")
    assert window.take() == ("first", "first")
    window.push("second")
    assert window.take() == ("second", None) and offered == ["first"]
    window.close()


def test_a_thread_that_is_free_begins_the_next_job():
    """The first job waits for the third, which a pool that works in batches of two would not have begun."""
    third = threading.Event()

    def work(job):
        if job == 0:
            assert third.wait(30.0)
        elif job == 2:
            third.set()
        return job

    window = Window(SIZE, work, 2, lambda: False)
    for job in range(SIZE):
        window.push(job)
    assert [window.take()[1] for _ in range(SIZE)] == [0, 1, 2]
    window.close()


def test_of_points_alike_the_best_one_stays():
    """Members with most of their names in common are one family; a family keeps its best point, whatever the order."""
    n, s, rng = 240, 70, np.random.default_rng(0)
    A, y = rng.standard_normal((60, n)), rng.standard_normal(60)
    problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1), cp.AtMost(s), cp.Sum(1))
    families = [rng.permutation(n)[: s + 8] for _ in range(2)]
    points = []
    for k in range(12):
        x = np.zeros(n)
        x[rng.choice(families[k % 2], s, replace=False)] = rng.dirichlet(np.ones(s))
        points.append(x)
    search = _Search(Run(problem, points[0], 1e-9, None, None, 0, None), SparseLine(problem), 8, None, False)
    for x in points:
        search._add(x)
    kept = [member.x for member in search.population]
    common = np.count_nonzero((kept[0] != 0.0) & (kept[1] != 0.0))
    assert len(kept) == 2 and common < ALIKE * s
    best = [min(map(problem.objective, points[k::2])) for k in range(2)]
    assert [member.objective for member in search.population] == sorted(best)

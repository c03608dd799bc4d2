"""Windows of jobs against a plain loop in which job k sees the results of jobs up to k − size."""

import threading
import time

import joblib
import pytest

from counterpoise.solvers.population import Window

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

"""The clock of the runs stands still while kernels are compiled."""

import threading
import time

import numba
import pytest

from counterpoise.clock import _Pauses, working_seconds


class Watch:
    """A clock that is set by hand."""

    now = 100.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def watch(monkeypatch):
    watch = Watch()
    monkeypatch.setattr("counterpoise.clock.time", watch)
    return watch


def test_it_runs_between_compilations_and_stands_still_in_them(watch):
    clock = _Pauses()
    readings = [clock.reading()]
    for seconds, event in ((1.0, clock.on_start), (5.0, clock.on_start), (7.0, clock.on_end), (11.0, clock.on_end)):
        watch.now += seconds
        event(None)
        readings.append(clock.reading())
    watch.now += 2.0
    readings.append(clock.reading())
    assert readings == [100.0, 101.0, 101.0, 101.0, 101.0, 103.0]


def test_compilations_of_two_threads_that_overlap_count_once(watch):
    clock = _Pauses()
    for step in (clock.on_start, clock.on_start, clock.on_end, clock.on_end):
        thread = threading.Thread(target=step, args=(None,))
        thread.start()
        thread.join()
        watch.now += 3.0
    assert clock.reading() == pytest.approx(103.0)


@pytest.mark.compiled
def test_numba_tells_of_its_compilations():
    @numba.njit
    def double(x):
        return 2.0 * x

    wall, work = time.perf_counter(), working_seconds()
    assert double(1.5) == 3.0
    work, wall = working_seconds() - work, time.perf_counter() - wall
    assert work < 0.5 * wall

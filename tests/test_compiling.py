"""Who waits for compilation is told so, once."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import joblib
import pytest
from numba.core.caching import NullCache

from counterpoise import compiling
from counterpoise.cli.base import answer, status_line
from counterpoise.clock import UNNOTICED, _Compilations
from test_clock import Watch


@pytest.fixture(autouse=True)
def untold(monkeypatch):
    monkeypatch.setattr(compiling, "_told", [])


@pytest.fixture
def watch(monkeypatch):
    watch = Watch()
    monkeypatch.setattr("counterpoise.clock.time", watch)
    return watch


def of(module, cache=None):
    """An event of Numba about a function of a module."""
    function = SimpleNamespace(__module__=module)
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function, _cache=cache)})


def compile_slowly(watch, outer, inner, seconds):
    listener = _Compilations()
    listener.on_start(outer)
    listener.on_start(inner)
    watch.now += seconds
    listener.on_end(inner)
    listener.on_start(inner)
    listener.on_end(inner)
    listener.on_end(outer)
    return listener


def test_a_long_compilation_is_logged_once_as_python_shows_it(watch, caplog):
    for _ in range(2):
        compile_slowly(watch, of("counterpoise.kernels.sweep"), of("users.own"), 9.0)
        compile_slowly(watch, of("counterpoise.kernels.sweep"), of("counterpoise.kernels.pair"), 9.0)
    assert caplog.record_tuples == [
        (
            "counterpoise",
            logging.WARNING,
            f"counterpoise is compiling its kernels, once per installation: about {compiling.SECONDS} s.",
        )
    ]


def test_short_ones_add_up_and_those_of_others_do_not_count(watch, caplog):
    listener = compile_slowly(watch, of("counterpoise.kernels.sweep"), of("counterpoise.kernels.pair"), 0.6 * UNNOTICED)
    watch.now += 60.0
    compile_slowly(watch, of("sklearn.fast"), of("numba.np"), 60.0)
    assert not caplog.records
    again = of("counterpoise.kernels.sweep")
    listener.on_start(again)
    assert not caplog.records
    watch.now += 0.6 * UNNOTICED
    listener.on_start(of("counterpoise.kernels.pair"))
    assert len(caplog.records) == 1


def test_it_does_not_promise_a_cache_that_is_not_there(watch, caplog):
    outer = of("counterpoise.kernels.sweep", NullCache())
    compile_slowly(watch, outer, of("counterpoise.kernels.pair"), 9.0)
    assert "in every process" in caplog.text and "once per installation" not in caplog.text


def test_commands_show_it_in_their_line_of_progress_or_not_at_all(monkeypatch, capsys, caplog):
    shown = []
    monkeypatch.setattr("counterpoise.cli.base.Progress.update", lambda *_, description: shown.append(description))
    monkeypatch.setenv("COLUMNS", "100")
    with answer(debug=True):
        with status_line():
            compiling.tell(cached=True)
        assert shown[-1] == f"Compiling, once per installation: about {compiling.SECONDS} s"
        compiling._told.clear()
        compiling.tell(cached=True)
    assert not compiling._listeners
    assert capsys.readouterr() == ("", "")
    assert not caplog.records


def test_workers_leave_it_to_their_parent():
    assert joblib.Parallel(2)(joblib.delayed(_told_in_worker)() for _ in range(2)) == [False, False]
    assert _told_in_worker()


def _told_in_worker():
    compiling._told.clear()
    compiling.tell(cached=True)
    return bool(compiling._told)

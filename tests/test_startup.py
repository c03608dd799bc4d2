"""The benchmark of first calls runs and counts compilations; what is imported late, and who is told of compilation."""

from __future__ import annotations

import ast
import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import counterpoise as cp
from counterpoise.cli import solve
from counterpoise.solvers import METHODS

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import startup  # noqa: E402

COMMANDS = ("demo", "track", "pca", "split", "solve", "certify", "bench", "data", "data add", "reproduce", "compile")


@pytest.mark.compiled
def test_the_benchmark_counts_the_compilations_of_an_empty_cache(tmp_path):
    script = f"{startup.DATA}import numba\nnumba.njit(lambda A: A[0, 0] + 1.0)(A)"
    run = startup.run(script, tmp_path, (9, 5), recorded=True)
    assert [name for name, _ in run.compiled] == ["__main__.<lambda>"]
    assert 0.0 < run.compiled[0][1] < run.busy
    assert not startup.run("import counterpoise", tmp_path, (9, 5)).compiled
    assert startup.largest(run.compiled, 3).row_count == 1


@pytest.mark.parametrize("name", [name for name, row in startup.ROWS.items() if not row.script.startswith("counter")])
def test_every_row_of_the_benchmark_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["-c", "12", "8"])
    exec(startup.ROWS[name].script, {})


HEAVY = ("joblib", "matplotlib", "numba", "pandas", "scipy", "sklearn")


def imported_by(code):
    """Return which of the packages that take long to import a process has imported in the end."""
    ending = f"\nimport sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code + ending], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("words", ["--help", "--version", *(f"{name} --help" for name in COMMANDS)])
def test_help_imports_nothing_that_takes_long(words):
    code = f"from counterpoise.cli import app\ntry:\n    app({words.split()})\nexcept SystemExit:\n    pass"
    assert imported_by(code) == []


def test_the_package_imports_nothing_that_takes_long_and_minimize_no_more_than_it_needs():
    assert imported_by("import counterpoise") == []
    code = f"{startup.DATA}{startup.PROBLEM}cp.minimize(problem)"
    found = imported_by("import sys; sys.argv = ['-c', '9', '6']" + code)
    assert set(found) <= {"numba", "scipy"}  # Numba itself imports scipy.linalg for its BLAS


def test_the_names_of_the_package_are_its_own():
    assert set(cp.__all__) == {"Backtest", "backtest", *cp._HOME}
    for name in cp.__all__:
        assert getattr(cp, name).__module__.startswith("counterpoise.")
    for name in cp._SUBMODULES:
        assert getattr(cp, name).__name__ == f"counterpoise.{name}"
    assert {*cp.__all__, *cp._SUBMODULES} <= set(dir(cp))
    with pytest.raises(AttributeError, match="has no attribute 'minimise'"):
        _ = cp.minimise


def test_backtest_is_the_function_whoever_imports_its_module():
    code = "import counterpoise.backtest, counterpoise as cp\nassert callable(cp.backtest)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_the_methods_of_the_command_are_those_of_the_library():
    assert tuple(METHODS) == solve.METHOD_NAMES


def test_a_result_is_a_dictionary_with_attributes():
    result = cp.Result(x=np.ones(2), nit=3)
    result.seed = 5
    assert (result.nit, result["seed"]) == (3, 5)
    assert "nit" in dir(result) and "nit: 3" in repr(result)
    assert pickle.loads(pickle.dumps(result)).seed == copy.deepcopy(result).seed == 5
    del result.seed
    for act in (lambda: result.seed, lambda: delattr(result, "seed")):
        with pytest.raises(AttributeError, match="seed"):
            act()


def test_modules_are_there_without_an_import_of_their_own():
    code = "import counterpoise as cp; print(cp.plotting.plot_weights.__name__, cp.datasets.SECTORS[0], cp.report.Report.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["plot_weights", "Energy", "Report"], done.stderr

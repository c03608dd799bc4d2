"""``counterpoise compile``: after it no process compiles anything; where nothing can be kept, it says so."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher
from typer.testing import CliRunner

from counterpoise import kernels, warm
from counterpoise.cli import app
from counterpoise.kernels import sweep

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import startup


def entry_points():
    """Return the names of all kernels that Python calls."""
    names = set()
    for info in pkgutil.iter_modules(kernels.__path__):
        module = importlib.import_module(f"counterpoise.kernels.{info.name}")
        for name, function in vars(module).items():
            if (
                isinstance(function, Dispatcher)
                and function.__module__ == module.__name__
                and function.stats.cache_path
            ):
                names.add(f"{info.name}.{name}")
    return names


def compile_into(folder, *options):
    """Run the command in a new process; return what it printed as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "counterpoise", "compile", "--json", *options],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def fill(folder):
    """Copy the kernels that are compiled already, as ``make compile`` leaves them, to where Numba looks for them."""
    where = subprocess.run(
        [sys.executable, "-c", "from counterpoise.kernels import sweep; print(sweep.epoch.stats.cache_path)"],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    shutil.copytree(sweep.epoch.stats.cache_path, where, dirs_exist_ok=True)


@pytest.mark.slow
@pytest.mark.compiled
def test_nothing_is_left_to_compile(tmp_path):
    """Begun from a copy of the cache, because ``make compile``, on which slow tests depend, begins from none."""
    fill(tmp_path)
    made = compile_into(tmp_path, "--jobs", "2")
    assert made["kernels"] > 20
    assert Path(made["folder"]).is_relative_to(tmp_path)
    kept = {file.name.partition("-")[0] for file in Path(made["folder"]).glob("*.nbi")}
    assert entry_points() <= kept
    for name, row in startup.ROWS.items():
        if not row.script.startswith("counterpoise ") and name not in startup.NO_KERNELS:
            assert startup.run(row.script, tmp_path, (30, 12), recorded=True).compiled == [], name
    again = compile_into(tmp_path)
    assert (again["kernels"], again["compiled"]) == (made["kernels"], 0)


def prepare(monkeypatch, *options, **fields):
    """Run the command, whose work is done already."""
    made = warm.Prepared(
        **{"kernels": 40, "compiled": 7, "seconds": 12.3, "folder": Path("here"), "lost": [], **fields}
    )
    monkeypatch.setattr(warm, "compile_kernels", lambda jobs, progress: progress("signs", 1) or made)
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    found = CliRunner().invoke(app, ["compile", *options])
    return found.exit_code, found.stdout, found.stderr


def test_it_ends_with_one_line(monkeypatch):
    said = "40 kernels are ready, 7 of them compiled in 12 s; they are kept in here.\n"
    assert prepare(monkeypatch) == (0, said, "")
    assert prepare(monkeypatch, "--quiet", "--jobs", "3") == (0, "", "")
    assert json.loads(prepare(monkeypatch, "--json")[1])["folder"] == "here"


def test_it_says_when_nothing_is_kept(monkeypatch):
    code, _, said = prepare(monkeypatch, folder=None)
    assert (
        code == 1 and said.startswith("There is no writable folder for compiled kernels") and "NUMBA_CACHE_DIR" in said
    )
    assert prepare(monkeypatch, lost=["sweep.scan"]) == (1, "", "here did not keep sweep.scan; is the disk full?\n")


def test_it_refuses_what_it_cannot_do(monkeypatch):
    assert prepare(monkeypatch, "--jobs", "0") == (2, "", "--jobs is 0; it must be at least 1.\n")
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    found = CliRunner().invoke(app, ["compile"])
    assert found.exit_code == 2 and "NUMBA_DISABLE_JIT is set" in found.stderr


def test_a_process_that_fails_is_reported(monkeypatch):
    monkeypatch.setattr(warm, "RECIPES", {"unheard of": None})
    with pytest.raises(RuntimeError, match=r"^The kernels of unheard of could not be compiled: KeyError"):
        warm.compile_kernels(1)


@pytest.mark.compiled
def test_without_a_folder_for_the_cache_no_kernel_counts(tmp_path):
    code = (
        "import numba.core.caching as c\n"
        "def nowhere(self, *a): raise RuntimeError('cannot cache function: no locator available')\n"
        "c.CacheImpl.__init__ = nowhere\n"
        "from counterpoise import warm\nfrom counterpoise.kernels import sweep\nprint(warm._report())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout == "{'compiled': [], 'loaded': [], 'lost': [], 'folder': None}\n"


LOSE = """
import sys
from pathlib import Path
import numpy as np
from counterpoise import warm
from counterpoise.kernels.smooth import column_products
column_products(np.ones(2), np.arange(2), np.arange(3), np.arange(2), np.ones((2, 1)), np.empty((2, 1)))
for file in Path(sys.argv[1]).rglob("*.nbi"):
    file.unlink()
report = warm._report()
print(len(report["compiled"]), report["lost"], len(list(Path(report["folder"]).glob("*.nbi"))))
column_products._cache.save_overload = lambda types, code: None
for file in Path(sys.argv[1]).rglob("*.nbi"):
    file.unlink()
print([kernel.partition("(")[0] for kernel in warm._report()["lost"]])
"""


@pytest.mark.compiled
def test_kernels_that_got_lost_are_kept_after_all_or_named(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LOSE, str(tmp_path)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stdout == "1 [] 1\n['smooth.column_products']\n", done.stderr

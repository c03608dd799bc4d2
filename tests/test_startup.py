"""The benchmark of first calls runs and counts compilations; what is imported late, and who is told of compilation."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import startup  # noqa: E402


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

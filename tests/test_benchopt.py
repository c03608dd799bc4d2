"""The benchmarks for benchopt: objectives against formulas, peers feasible, and one run by the command line."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("benchopt")

from benchopt.benchmark import Benchmark
from benchopt.utils.run_context import RunContext

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


class Parts:
    """Objective, datasets and solvers of a benchmark, loaded the way benchopt does."""

    def __init__(self, name):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # importing other people's solvers may warn
            benchmark = Benchmark(FOLDER / name)
            self.objective_class = benchmark.get_benchmark_objective()
            self.datasets = {part.name: part for part in benchmark.get_datasets()}
            self.solvers = {part.name: part for part in benchmark.get_solvers()}
        self.utils = {name: module for name, module in sys.modules.items() if name.startswith("benchmark_utils.")}

    def set_up(self, dataset, objective):
        """Return the objective and the dataset with these parameters; ``dataset`` has its name too."""
        parameters = dict(dataset)
        dataset = self.datasets[parameters.pop("name")].get_instance(**parameters)
        objective = self.objective_class.get_instance(**objective)
        RunContext().set_run_context(objective, dataset, "none", repetition=0, base_seed=0)
        skip, reason = objective._set_dataset(dataset)
        assert not skip, reason
        return objective, dataset

    def solve(self, name, objective, dataset, **parameters):
        """Return a solver's point and what the objective says of it."""
        if not self.solvers[name].is_installed(quiet=True):
            pytest.skip(f"{name} is not installed")
        solver = self.solvers[name].get_instance(**parameters)
        RunContext().set_run_context(objective, dataset, solver, repetition=0, base_seed=0)
        skip, reason = solver._set_objective(objective)
        assert not skip, reason
        solver.run(lambda: True)
        result = solver.get_result()
        return result["x"], objective.evaluate_result(**result)


@pytest.fixture
def load():
    """Load a benchmark; its ``benchmark_utils`` is forgotten afterwards."""
    yield Parts
    for name in [name for name in sys.modules if name.split(".")[0] in ("benchmark_utils", "benchopt_benchmarks")]:
        del sys.modules[name]


def largest(x, s):
    return np.sort(np.abs(x))[::-1][:s].sum()


def test_index_tracking(load, rng, monkeypatch):
    parts = load("sit")
    objective, dataset = parts.set_up({"name": "Simulated", "n_stocks": 12}, {"s": 3, "lam": 1e3})
    A, y = objective.A, objective.y
    for x in (rng.dirichlet(np.ones(12)), np.eye(12)[3]):
        found = objective.evaluate_result(x)
        track = 0.5 * np.linalg.norm(A @ x - y) ** 2
        assert found["value"] == pytest.approx(track + 1e3 * (1 - largest(x, 3)), rel=1e-9)
        assert found["violation"] == pytest.approx(1 - largest(x, 3), abs=1e-12)
        assert (found["tracking"], found["n_held"]) == (pytest.approx(track), np.count_nonzero(x))
        doubled = objective.evaluate_result(2 * x)  # nobody gains by weights of sum 2
        assert doubled["violation"] >= 1 - 1e-12 and doubled["value"] > -1e-9
    assert objective.evaluate_result(np.full(12, np.nan))["value"] == np.inf

    x, found = parts.solve("forward", objective, dataset)
    assert found["violation"] < 1e-12 and 1 <= found["n_held"] <= 3
    portfolios = parts.utils["benchmark_utils.portfolios"]
    triples = [portfolios.simplex_qp(A[:, list(t)], y)[1] for t in itertools.combinations(range(12), 3)]
    assert min(triples) - 1e-12 <= found["value"] <= 1.5 * min(triples)
    ours, theirs = (parts.solve(name, objective, dataset)[1] for name in ("BCD-g", "PDCA"))
    assert ours["value"] <= theirs["value"] and ours["violation"] < 1e-12

    monkeypatch.delenv("COUNTERPOISE_DATA", raising=False)
    for name in ("Index", "OR-Library"):
        skip, reason = objective.skip(**parts.datasets[name].get_instance().get_data())
        assert skip and "COUNTERPOISE_DATA" in reason


def test_simplex_qp_is_optimal(load, rng):
    """On the simplex the slopes of held stocks are equal and no other is smaller; a weight of the sum changes nothing."""
    portfolios = load("sit").utils["benchmark_utils.portfolios"]
    for _ in range(50):
        A, y = rng.standard_normal((20, 6)), rng.standard_normal(20)
        w, value = portfolios.simplex_qp(A, y)
        slope = A.T @ (A @ w - y)
        assert w.min() >= 0 and w.sum() == pytest.approx(1) and value == pytest.approx(0.5 * np.sum((A @ w - y) ** 2))
        assert np.all(slope >= slope @ w - 1e-9)


def test_sparse_pca(load, rng):
    parts = load("nnspca")
    objective, dataset = parts.set_up({"name": "randn", "size": 12}, {"s": 3, "lam": 1e4})
    A = objective.A
    for x in (np.abs(rng.standard_normal(12)), np.eye(12)[3]):
        x = x / np.linalg.norm(x)
        found = objective.evaluate_result(x)
        assert found["value"] == pytest.approx(
            -0.5 * np.linalg.norm(A @ x) ** 2 + 1e4 * (x.sum() - largest(x, 3)), rel=1e-9
        )
        assert found["violation"] == pytest.approx(x.sum() - largest(x, 3), abs=1e-12)
        assert objective.evaluate_result(3 * x)["value"] == pytest.approx(found["value"], rel=1e-9)
    values = {}
    for name in ("truncated-power", "EM", "BCD-g", "PDCA"):
        x, found = parts.solve(name, objective, dataset)
        assert x.min() >= 0 and found["violation"] < 1e-12 and found["n_held"] <= 3
        values[name] = found["value"]
    assert values["BCD-g"] <= values["PDCA"]
    power = parts.utils["benchmark_utils.power"]
    assert power.truncate(np.array([-2.0, -1.0, -3.0]), 2).tolist() == [0, 1, 0]  # nothing positive: the best axis


def test_binary(load, rng):
    parts = load("binary")
    objective, dataset = parts.set_up({"name": "randn", "size": 10}, {"c": 2, "lam": 1e4})
    A, y = objective.A, objective.y
    for x in (np.full(10, 0.2), np.where(np.arange(10) < 6, 1.0, -1.0)):
        found = objective.evaluate_result(x)
        assert found["value"] == pytest.approx(
            0.5 * np.linalg.norm(A @ x - y) ** 2 + 1e4 * (np.sqrt(10) - np.linalg.norm(x)), rel=1e-9
        )
        assert found["violation"] == pytest.approx(1 - np.abs(x).min(), abs=1e-12)
    binary = [np.array(x) for x in itertools.product((-1.0, 1.0), repeat=10) if sum(x) == 2]
    optimum = min(0.5 * np.linalg.norm(A @ x - y) ** 2 for x in binary)
    values = {}
    for name in ("BCD-g-DCPB2", "BCD-g-DCPB1", "PDCA"):
        x, found = parts.solve(name, objective, dataset)
        assert (found["n_fractional"], x.sum()) == (0, pytest.approx(2)) or name == "PDCA"
        values[name] = found["value"]
    assert optimum - 1e-9 <= values["BCD-g-DCPB2"] <= values["PDCA"]

    x, found = parts.solve("tabu", objective, dataset, seconds=0.1)
    assert (found["violation"], x.sum()) == (0, 2) and found["value"] >= optimum - 1e-9
    qubo = parts.utils["benchmark_utils.qubo"]
    y = rng.standard_normal(10)
    model = qubo.spin_model(A, y, 2, 0.5)
    P = 0.5 * np.trace(A.T @ A) / 10
    points = rng.choice([-1.0, 1.0], (20, 10))
    energies = model.energies((points.astype(np.int8), list(range(10))))
    formula = [0.5 * np.sum((A @ x - y) ** 2) + P * (x.sum() - 2) ** 2 for x in points]
    np.testing.assert_allclose(energies - energies[0], np.array(formula) - formula[0], atol=1e-8)
    for x in points:
        repaired = qubo.repair(A, y, x, 2)
        assert repaired.sum() == 2 and set(repaired) == {-1.0, 1.0}
        assert np.count_nonzero(repaired != x) == abs(x.sum() - 2) / 2


@pytest.mark.compiled
def test_the_command_line_writes_table_and_page(tmp_path):
    """``benchopt run`` without a network, on a copy of the folder, because the results go beside the objective."""
    pandas = pytest.importorskip("pandas")
    copy = shutil.copytree(FOLDER / "sit", tmp_path / "sit", ignore=shutil.ignore_patterns("outputs", "__*cache__"))
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    command = "run sit -d Simulated[n_stocks=20] -s BCD-g -s PDCA -s forward -n 5 -r 1 --no-display"
    done = subprocess.run(
        [sys.executable, "-m", "benchopt", *command.split()],
        cwd=tmp_path,
        env={**os.environ, **nowhere, "BENCHOPT_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (table,) = (copy / "outputs").glob("*.parquet")
    assert list((copy / "outputs").glob("sit_*.html"))
    runs = pandas.read_parquet(table)
    assert set(runs["solver_name"]) == {"BCD-g", "PDCA[extrapolate=True]", "forward[candidates=20]"}
    curve = runs[runs["solver_name"] == "BCD-g"]
    assert len(curve) > 2 and curve["objective_value"].is_monotonic_decreasing


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["BCD-g", "search"])
def test_nothing_is_compiled_after_the_warm_up(name):
    """In a new process, because here the kernels may be compiled already."""
    program = f"""
        from numba.core import event
        from test_benchopt import Parts, RunContext

        parts = Parts("sit")
        objective, dataset = parts.set_up({{"name": "Simulated", "n_stocks": 20}}, {{"s": 3, "lam": 1e3}})
        solver = parts.solvers["{name}"].get_instance()
        RunContext().set_run_context(objective, dataset, solver, repetition=0, base_seed=0)
        solver._set_objective(objective)
        counts = []
        for step in (solver.warm_up, lambda: solver.run(lambda: True)):
            with event.install_recorder("numba:compiler_lock") as seen:
                step()
            counts.append(len(seen.buffer))
        assert counts[0] > 0 and counts[1] == 0, counts
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr

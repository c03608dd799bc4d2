"""Real data, where the folder named by COUNTERPOISE_DATA has it."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import counterpoise as cp
from conftest import scaled
from counterpoise.problems import SIT


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_pitprops_reaches_the_enumerated_optima(data_folder):
    """−½xᵀCx on the non-negative sphere: no start beats the optimum, and some start attains it."""
    folder = data_folder / "pitprops"
    table = read(folder / "pitprops_corr.csv")
    C = np.array([[float(value) for value in list(row.values())[1:]] for row in table])
    for row in read(folder / "exact_sparse_pca_by_enumeration.csv")[: scaled(13, 4)]:
        s, optimum = int(row["k"]), -0.5 * float(row["nonneg_spca_opt"])
        lam = 1.01 * np.sqrt(2) * np.linalg.norm(C, axis=1).max()
        problem = cp.Problem(
            cp.Quadratic(-C), cp.Bounds(0) + cp.Linear(lam), cp.TopSum(s, lam), cp.Sphere(), name="pitprops"
        )
        found = [cp.minimize(problem, seed=seed) for seed in range(scaled(30, 10))]
        assert all(result.success and np.count_nonzero(result.x) <= s for result in found)
        assert min(result.objective for result in found) == pytest.approx(optimum, abs=1e-7)


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["NAS-16", "SP-16"])
def test_index_tracking_ends_certified_and_below_the_opponents(data_folder, name):
    with np.load(data_folder / "index_tracking" / f"{name}.npz") as data:
        problem = SIT(100 * data["R"], 100 * data["y"], 10, 1e3)
    x0 = problem.start(0)
    ours = cp.minimize(problem, x0=x0)
    assert ours.success
    assert np.count_nonzero(ours.x) <= 10
    assert cp.certify(problem, ours.x, scan="all").cws_gap <= 2 * ours.tolerance
    for method in ("psg", "mscr", "pdca"):
        theirs = cp.minimize(problem, x0=x0, method=method, max_iter=300)
        assert theirs.objective > ours.objective
        assert cp.minimize(problem, x0=theirs.x).objective <= theirs.objective

"""``counterpoise reproduce sparse-pca``: published optima beside ours, and what is said when they are not reached."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from counterpoise.cli import app
from counterpoise.experiments import published
from naive import signed_component_optimum


def run(*arguments):
    return CliRunner().invoke(app, ["reproduce", "sparse-pca", *map(str, arguments)])


def put(folder, C):
    """Write a matrix in place of pitprops, as the file is."""
    place = folder / "data" / "pitprops"
    place.mkdir(parents=True)
    names = [f"x{k}" for k in range(len(C))]
    rows = [",".join([name, *map(repr, map(float, row))]) for name, row in zip(names, C, strict=True)]
    (place / "pitprops_corr.csv").write_text("\n".join([",".join(["", *names]), *rows]) + "\n")
    return folder / "data"


def correlations(rng, n):
    return np.corrcoef(rng.standard_normal((40, 3)) @ rng.standard_normal((3, n)), rowvar=False)


def test_values_that_are_reached_are_proved_and_written(rng, tmp_path, monkeypatch):
    C = correlations(rng, 6)
    values = {k: f"{signed_component_optimum(C, k):.4f}" for k in (1, 3, 6)}
    monkeypatch.setattr(published, "PUBLISHED", {"pitprops": (published.PUBLISHED["pitprops"][0], values)})
    found = run("--data", put(tmp_path, C), "--output", tmp_path / "out", "--json")
    assert found.exit_code == 0, found.output
    rows = json.loads(found.stdout)["targets"][0]["tables"]["sparse-pca-optima"]
    assert [row["k"] for row in rows] == [1, 3, 6]
    for row in rows:
        assert row["reached"] == "yes" and row["proved"] == "optimal"
        assert float(row["found"]) == pytest.approx(signed_component_optimum(C, row["k"]), abs=1e-5)
        assert float(row["bound"]) >= float(row["found"]) - 1e-3
    page = (tmp_path / "out" / "sparse-pca.md").read_text("utf-8")
    assert "| pitprops | 6 | 3 |" in page and "reproduce sparse-pca" in page
    assert (tmp_path / "out" / "sparse-pca.svg").exists()


def test_a_value_that_is_not_reached_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(
        published, "PUBLISHED", {"pitprops": (published.PUBLISHED["pitprops"][0], {1: "1.000", 2: "1.954"})}
    )
    found = run("--data", put(tmp_path, np.eye(4)), "--output", tmp_path / "out")
    assert found.exit_code == 1
    assert found.stderr == "pitprops, k = 2: the published 1.954 is not reached.\n"


def test_what_is_absent_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("COUNTERPOISE_DATA", raising=False)
    found = run("--output", tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert "Left out: wine: no sparse_pca/wine.npz in the folder of data" in " ".join(found.output.split())
    refused = run("--output", tmp_path / "out", "--tables-only")
    assert refused.exit_code == 2
    assert refused.stderr == "--tables-only is given, but sparse-pca keeps no records; run it without.\n"


@pytest.mark.compiled
def test_all_published_optima_are_reached(data_folder):
    chosen, absent = published.instances(Path(data_folder))
    assert len(chosen) == 19 and not absent
    for one in published.measure(chosen):
        assert one.instance.is_reached(one.variance) and one.loadings <= one.instance.k
        assert one.variance <= one.bound * (1 + 1e-12)
        assert one.proof is not None or one.instance.name in ("miniboone", "communities")

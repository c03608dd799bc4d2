"""The command that measures this machine."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from counterpoise.cli import app


@pytest.mark.compiled
def test_bench_scores_every_method_by_its_own_point():
    result = CliRunner().invoke(app, ["bench", "--size", "60", "--starts", "1", "--seconds", "0.2", "--json"])
    assert result.exit_code == 0, result.output
    runs = json.loads(result.stdout)["runs"]
    assert [run["problem"] for run in runs] == ["SIT"] * 6 + ["NNSPCA"] * 6 + ["DCPB2"] * 6
    for name in ("SIT", "NNSPCA", "DCPB2"):
        value = {run["method"]: run["objective"] for run in runs if run["problem"] == name}
        assert value["search"] <= value["bcd-g"] + 1e-9 * abs(value["bcd-g"])
    assert all(run["certified"] == 0 for run in runs if run["method"] in ("psg", "mscr", "pdca"))
    assert all(run["certified"] == 1 for run in runs if run["method"] == "bcd-g")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--size", "10"], "--size is 10; it must be between 60 and 6000."),
        (["--starts", "0"], "--starts is 0; it must be between 1 and 100."),
        (["--seconds", "0"], "--seconds is 0; it must be positive."),
    ],
)
def test_bad_options_are_refused(options, sentence):
    result = CliRunner().invoke(app, ["bench", *options])
    assert result.exit_code == 2
    assert sentence in result.output

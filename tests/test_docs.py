"""What the documents show is what the code does."""

from __future__ import annotations

import csv
import doctest
import importlib
import pkgutil
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import counterpoise
import counterpoise as cp
from counterpoise.problems import DCPB1, DCPB2, NNSPCA, SIT, SPCA

ROOT = Path(__file__).parent.parent


def blocks(name, language=""):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / name).read_text(), flags=re.M | re.S)
    return [text for kind, text in found if kind == language]


def test_contributing_shows_the_live_example():
    shown = blocks("CONTRIBUTING.md", "python")
    for name in ("own_penalty", "own_loss", "own_pieces", "own_constraint"):
        assert (ROOT / "examples" / f"{name}.py").read_text() in shown, name


def test_links_inside_lead_somewhere():
    for name in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / name).read_text()):
            assert (ROOT / target).exists(), f"{name} links to {target}"


def test_the_release_has_one_version():
    version = counterpoise.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^## (\S+) \((\S+)\)", (ROOT / "CHANGELOG.md").read_text(), re.M).group(1) == version


def test_workflows_and_classifiers_name_the_same_pythons():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert project["requires-python"] == f">={named[0]}"
    for name in ("tests.yml", "wheels.yml"):
        text = (ROOT / ".github" / "workflows" / name).read_text()
        assert re.search(r"python: \[(.*)\]", text).group(1) == ", ".join(f'"{each}"' for each in named), name


def table_of_methods():
    text = (ROOT / "docs" / "choose.rst").read_text().partition(".. csv-table::")[2].partition("What a result")[0]
    rows = csv.reader([line.strip() for line in text.splitlines() if line.startswith('   "')], skipinitialspace=True)
    return {name: cells for name, *cells in rows}


def stated_problems():
    """The problems of the table in docs/choose.rst, by their names there."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((9, 7))
    y = A[:, :5].mean(axis=1)  # more than may be held
    f, box, both, line, few = cp.LeastSquares(A, y), cp.Bounds(0, 1), cp.Bounds(-1, 1), cp.Sum(1), cp.AtMost(3)
    huber, turnover = cp.Huber(A, y, 0.1), cp.AbsoluteDeviation(np.full(7, 1 / 7), buy=0.1, sell=0.1)
    bent = cp.Quadratic(np.diag([-1.0, *np.ones(6)]))
    return {
        "LeastSquares, Bounds, Sum": cp.Problem(f, box, u=line),
        "LeastSquares, Bounds, AtMost, Sum": cp.Problem(f, box, few, line),
        "LeastSquares, Bounds, TopSum, Sum": SIT(A, y, 3, 1e3),
        "LeastSquares, Bounds, ConcaveQuadratic, Sum": DCPB1(A, y, 1, 1e3),
        "LeastSquares, Bounds, Norm2, Sum": DCPB2(A, y, 1, 1e3),
        "Quadratic that is not convex, Bounds, AtMost, Sum": cp.Problem(bent, box, few, line),
        "LeastSquares, Ridge, AtMost, Sum": cp.Problem(f, box + cp.Ridge(np.zeros(7), 1.0), few, line),
        "LeastSquares, AbsoluteDeviation, AtMost, Sum": cp.Problem(f, box + turnover, few, line),
        "LeastSquares, SemiContinuous, AtMost, Sum": cp.Problem(f, cp.SemiContinuous(0.1, 0.9), few, line),
        "LeastSquares, Bounds, AtMost, Sum with weights": cp.Problem(f, box, few, cp.Sum(1, np.linspace(0.8, 1.2, 7))),
        "LeastSquares, Bounds, AtMost, Sum with groups": cp.Problem(
            f, box, few, line.within({"first": [0, 1, 2]}, {"first": (0.1, 0.8)})
        ),
        "Huber, Bounds, Sum": cp.Problem(huber, box, u=line),
        "Huber, Bounds, AtMost, Sum": cp.Problem(huber, box, few, line),
        "Huber, Bounds, Norm2, Sum": cp.Problem(huber, both, cp.Norm2(10.0), line),
        "Huber, Bounds, AtMost, Sphere": cp.Problem(huber, cp.Bounds(0, np.inf), few, cp.Sphere()),
        "NNSPCA, Sphere": NNSPCA(A, 3, 1e3),
        "SPCA, Sphere with signs": SPCA(A, 3, 1e3),
    }


STATUSES = {"c": "CERTIFIED", "s": "SWAP_OPTIMAL", "o": "OPTIMAL", "t": "STATIONARY"}


@pytest.mark.parametrize("name", table_of_methods())
def test_the_table_of_methods(name):
    problem = stated_problems()[name]
    for method, cell in zip(
        ("bcd-g", "bcd-l", "swap", "search", "exact", "pdca"), table_of_methods()[name], strict=True
    ):
        options = {"work": 4} if method == "search" else {}
        if cell == "–":
            with pytest.raises(ValueError, match=r"\w+ .*\."):
                cp.minimize(problem, method=method, **options)
        else:
            assert cp.minimize(problem, method=method, **options).status.name == STATUSES[cell], method


def modules():
    return [name for _, name, _ in pkgutil.walk_packages(counterpoise.__path__, "counterpoise.")]


@pytest.mark.parametrize("name", modules())
def test_doctests(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_public_names_exist_and_are_documented():
    for name in counterpoise.__all__:
        assert getattr(counterpoise, name).__doc__, name

"""What every test may use."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numba
import numpy as np
import pytest

from counterpoise.problems import DCPB1, DCPB2, NNSPCA, SIT

COMPILED = not numba.config.DISABLE_JIT


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "compiled: needs compiled kernels, or shows nothing more without the JIT; left out when it is off"
    )
    config.addinivalue_line(
        "markers", "slow: compiles from an empty cache, kills processes, starts clusters or fuzzes at length"
    )
    config.addinivalue_line("markers", "browser: needs chromium on PATH; skipped where there is none")


def pytest_collection_modifyitems(items):
    if not COMPILED:
        for item in items:
            if "compiled" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="for compiled kernels, the JIT is off"))


def make_problem(name, A, y, s, c, lam):
    """One of the paper's problems by name."""
    if name == "SIT":
        return SIT(A, y, s, lam)
    if name == "NNSPCA":
        return NNSPCA(A, s, lam)
    return (DCPB1 if name == "DCPB1" else DCPB2)(A, y, c, lam)


def scaled(compiled, plain):
    """How many cases to run: kernels as plain Python are a thousand times slower."""
    return compiled if COMPILED else plain


def parts(count, quick=1):
    """Parts of a random sample, each with its own seed: the first ones run always, the others are slow."""
    return [part if part < quick else pytest.param(part, marks=pytest.mark.slow) for part in range(count)]


@pytest.fixture
def rng(request):
    """A generator seeded by the test's name."""
    return np.random.default_rng(list(request.node.name.encode()))


@pytest.fixture
def shown(monkeypatch):
    """What the line of progress of any command says."""
    from counterpoise.cli import base

    said = []

    @contextlib.contextmanager
    def listen(quiet=False):
        yield base.Line(said.append)

    for command in ("track", "pca", "split", "solve"):
        monkeypatch.setattr(f"counterpoise.cli.{command}.status_line", listen)
    return said


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real data, named by COUNTERPOISE_DATA."""
    folder = os.environ.get("COUNTERPOISE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("COUNTERPOISE_DATA names no folder of data")
    return Path(folder)

"""What the documents show is what the code does."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import counterpoise

ROOT = Path(__file__).parent.parent


def blocks(name, language=""):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / name).read_text(), flags=re.M | re.S)
    return [text for kind, text in found if kind == language]


def test_contributing_shows_the_live_example():
    shown = blocks("CONTRIBUTING.md", "python")
    for name in ("own_penalty", "own_pieces", "own_constraint"):
        assert (ROOT / "examples" / f"{name}.py").read_text() in shown, name


def test_links_inside_lead_somewhere():
    for name in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / name).read_text()):
            assert (ROOT / target).exists(), f"{name} links to {target}"


def modules():
    return [name for _, name, _ in pkgutil.walk_packages(counterpoise.__path__, "counterpoise.")]


@pytest.mark.parametrize("name", modules())
def test_doctests(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_public_names_exist_and_are_documented():
    for name in counterpoise.__all__:
        assert getattr(counterpoise, name).__doc__, name

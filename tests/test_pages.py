"""The pages: what they show is what the code prints, and what they link to exists. Sphinx is not needed."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from conftest import COMPILED

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
# sphinx-gallery writes this one beside the pages.
PAGES = sorted(path for path in DOCS.glob("*.rst") if path.name != "sg_execution_times.rst")
# Whole estimators, which take minutes as plain Python.
SLOW = {page.stem for page in PAGES if page.stem.startswith("guide_")} | {"index", "start", "proved"}
# Columns of code that fit on a page.
WIDTH = 88


def test_there_are_pages():
    found = {"index", "start", "choose", "proved", "compare", "commands", "performance", "theory", "errata", "api"}
    assert found <= {page.stem for page in PAGES} and len(SLOW) >= 9


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_what_a_page_shows_is_printed(page):
    pytest.importorskip("pandas")
    if page.stem in SLOW and not COMPILED:
        pytest.skip("takes long as plain Python, the JIT is off")
    result = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_python_that_can_run_is_a_doctest(page):
    assert not re.search(r"^\.\. code-block:: (python|pycon)|::\s*$\n\n    >>>", page.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_code_fits_the_width(page):
    lines = re.findall(r"^ *(?:>>>|\.\.\.) .*$", page.read_text(encoding="utf-8"), re.M)
    assert [line for line in lines if len(line) > WIDTH] == []


@pytest.mark.parametrize("page", sorted(DOCS.glob("guide_*.rst")), ids=lambda path: path.stem)
def test_guides_show_results_and_no_assertions(page):
    assert not re.search(r"^(True|\(.*\bTrue\b.*\))$", page.read_text(encoding="utf-8"), re.M)


def labels():
    """Labels in the pages, and those that sphinx-gallery gives to examples."""
    found = {f"sphx_glr_auto_examples_{path.name}" for path in (ROOT / "examples").glob("plot_*.py")}
    for page in PAGES:
        found.update(re.findall(r"^\.\. _([^:]+):$", page.read_text(encoding="utf-8"), re.M))
    return found


def targets(text, role):
    """What a role refers to, with or without a title before it."""
    return [re.sub(r".*<(.+)>", r"\1", found, flags=re.S) for found in re.findall(rf":{role}:`([^`]+)`", text)]


def exists(target):
    return target == "auto_examples/index" or (DOCS / f"{target}.rst").is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_links_inside_lead_somewhere(page):
    text, known = page.read_text(encoding="utf-8"), labels()
    for target in targets(text, "doc"):
        assert exists(target), f"{page.name} links to {target}"
    for target in targets(text, "ref"):
        assert target in known, f"{page.name} refers to {target}"
    for target in re.findall(r"^\.\. (?:figure|image|literalinclude|include):: (\S+)", text, re.M):
        assert (DOCS / target).is_file(), f"{page.name} shows {target}"
    for target in re.findall(r"``((?:docs|src|examples|benchmarks|tests)/[\w./-]+)``", text):
        assert (ROOT / target).exists(), f"{page.name} names {target}"


def test_every_page_is_in_a_table_of_contents():
    entries = {"index"}
    for page in PAGES:
        for tree in re.findall(r"^\.\. toctree::\n((?:   .*\n|\n)+)", page.read_text(encoding="utf-8"), re.M):
            lines = [line.strip() for line in tree.splitlines()]
            listed = [re.sub(r".*<(.+)>", r"\1", line) for line in lines if line and not line.startswith(":")]
            assert all(exists(entry) for entry in listed), f"{page.name} lists {listed}"
            entries.update(listed)
    assert {page.stem for page in PAGES} <= entries


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_commands_exist(page):
    import typer

    from counterpoise.cli import app

    commands = typer.main.get_command(app).commands
    lines = re.findall(r"(?:^   |``)counterpoise ([a-z]+)(.*?)(?:``|$)", page.read_text(encoding="utf-8"), re.M)
    for name, rest in lines:
        assert name in commands, f"{page.name} shows counterpoise {name}"
        command = commands[name]
        # A group has commands of its own, whose options are not the group's.
        under = re.match(r" ([a-z]+)", rest)
        if under and under.group(1) in getattr(command, "commands", {}):
            command = command.commands[under.group(1)]
        known = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
        unknown = set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest)) - known
        assert not unknown, f"{page.name} shows counterpoise {name} with {unknown}"


FIGURE = r"[\d.]+ / [\d.]+|\d+ of \d+ cells|[\d.]+ to \d+ (?:%|s)\b|[\d.]+ % above|[\d.]+ %, [\d.]+ s"


def test_figures_on_performance_name_their_command_and_stand_nowhere_else():
    text = (DOCS / "performance.rst").read_text(encoding="utf-8")
    sections = re.split(r"\n(?=[^\n]+\n-{4,}\n)", text)
    measured = [section for section in sections if re.search(FIGURE, section)]
    assert len(measured) >= 4
    for section in measured:
        command = re.search(r"``(make bench\S*|python benchmarks/\S+|counterpoise reproduce \S+)", section)
        assert command, f"{section.split()[0]} names no command"
    figures = set(re.findall(FIGURE, text))
    assert len(figures) > 20
    for page in (ROOT / "README.md", *PAGES):
        if page.stem != "performance":
            again = figures.intersection(re.findall(FIGURE, page.read_text(encoding="utf-8")))
            assert not again, f"{page.name} repeats {again}"


def test_times_of_first_calls_stand_on_one_page():
    pages = [page.stem for page in (ROOT / "README.md", *PAGES) if "benchmarks/startup.py`" in page.read_text("utf-8")]
    assert [stem for stem in pages if stem != "layout"] == ["start"]


def python_names(text):
    """Names that autosummary documents, and those that roles refer to."""
    module = re.search(r"^\.\. currentmodule:: (\S+)", text, re.M)
    trees = re.findall(r"^\.\. autosummary::\n((?:   .*\n|\n)+)", text, re.M)
    listed = [line.strip() for tree in trees for line in tree.splitlines() if line.strip() and ":" not in line]
    referred = [found for role in ("func", "class") for found in targets(text, role)]
    return [f"{module.group(1)}.{name}" for name in listed] + referred if module else referred


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_python_names_exist(page):
    import pkgutil

    for name in python_names(page.read_text(encoding="utf-8")):
        pkgutil.resolve_name(name)


def test_every_public_name_is_in_the_api():
    import counterpoise

    listed = {name.removeprefix("counterpoise.") for name in python_names((DOCS / "api.rst").read_text("utf-8"))}
    assert set(counterpoise.__all__) <= {name.split(".")[-1] for name in listed}

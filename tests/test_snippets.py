"""Every command line and every piece of Python that the documents show runs, on files such as people have."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from counterpoise import warm
from counterpoise.cli import app
from counterpoise.estimators.split import balanced_split
from counterpoise.experiments import runner, sets

pd = pytest.importorskip("pandas")
ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "docs/reproduction/README.md",
    *sorted(ROOT.glob("docs/*.rst")),
]
# What is added to a line so that it takes seconds; all of its own options stay.
SHORTER = {
    "bench": "--size 60 --starts 1 --seconds 0.05",
    "demo": "--stocks 60 --days 120 --hold 10",
    "track": "--seconds 0.3",
    "pca": "--seconds 0.3",
    "split": "--seconds 0.3",
}


def blocks(text):
    """Code of Markdown and of reStructuredText, by language."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.M | re.S)
    rst = re.findall(r"^\.\. code-block:: (\w+)\n\n((?:   .*\n|\n)+)", text, flags=re.M)
    return found + [(language, re.sub(r"^   ", "", code, flags=re.M)) for language, code in rst]


def command_lines(text):
    """Lines in blocks, and those within a sentence that have no placeholder in capitals."""
    lines = [line for language, code in blocks(text) if language != "python" for line in code.splitlines()]
    inside = [" ".join(found.split()) for found in re.findall(r"`(counterpoise [^`]+)`", text)]
    lines += [line for line in inside if not re.search(r" [A-Z]{2,}\b(?!-)", line)]
    return [re.sub(r"\s+#.*", "", line).strip() for line in lines]


def of_counterpoise(lines):
    return list(dict.fromkeys(line for line in lines if line.startswith("counterpoise ")))


def examples_of_help():
    """The example that each command's help ends with."""
    commands = dict(typer.main.get_command(app).commands)
    commands |= {f"data {name}": command for name, command in commands["data"].commands.items()}
    return [re.search(r"Example: (counterpoise .*)", command.help or "").group(1) for command in commands.values()]


def table(names, values, **more):
    return pd.DataFrame({**more, **dict(zip(names, values.T, strict=True))})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The files that the documents name, as programs write them: days first, a line of names."""
    rng = np.random.default_rng(0)
    monkeypatch.chdir(tmp_path)
    names = [f"S{k:02d}" for k in range(35)]
    days = pd.bdate_range("2023-01-02", periods=320).strftime("%Y-%m-%d")
    returns = 0.01 * rng.standard_normal((320, 35)) + 0.01 * rng.standard_normal((320, 1))
    index = returns @ rng.dirichlet(np.ones(35))
    prices = 100.0 * np.cumprod(1.0 + np.column_stack([returns, index]), axis=0)
    table([*names, "SPX"], prices, Date=days).to_csv("prices.csv", index=False)
    table([*names, "INDEX"], np.column_stack([returns, index]), Date=days).to_csv("returns.csv", index=False)
    np.savez("data.npz", A=100.0 * returns, y=100.0 * index)
    features = table([f"gene {k}" for k in range(15)], rng.standard_normal((40, 15)), cell=[f"c{k}" for k in range(40)])
    for name in ("table.csv", "cells.csv"):
        features.to_csv(name)
    features.drop(columns="cell").corr().to_csv("correlations.csv")
    for name, stratum in (("people.csv", "site"), ("patients.csv", "clinic")):
        parts = {"id": [f"p{k}" for k in range(120)], stratum: rng.choice(["a", "b"], 120)}
        table(["age", "weight"], rng.normal(50, 9, (120, 2)), **parts).to_csv(name, index=False)
    for name in ("outcomes.csv", "last-year.csv"):
        table(["pain"], rng.normal(50, 9, (120, 1)), id=[f"p{k}" for k in range(120)]).to_csv(name, index=False)
    Path("sets/mnist5000").mkdir(parents=True)
    np.savez("sets/mnist5000/mnist5000.npz", X=rng.integers(0, 255, (520, 520)).astype(np.uint8))
    Path("mine.toml").write_text(
        'title = "Mine"\nkind = "table"\nmeasure = "quality"\nalong = "lam"\nstarts = [0]\nmethods = ["BCD-g"]\n'
        '[[grids]]\nproblem = "SIT"\nsets = ["simulated"]\ns = [10]\nlam = [100.0]\n'
    )
    monkeypatch.setenv(sets.VARIABLE, "sets")
    return tmp_path


@pytest.fixture
def no_long_runs(monkeypatch):
    """Reruns of the paper are planned and written, but not run; nothing is fetched or compiled, no cluster is asked."""

    def written(source, into):
        assert source in sets.FETCHERS
        return into / f"{source}.npz"

    monkeypatch.setattr(runner, "run", lambda *arguments, **options: None)
    monkeypatch.setattr("counterpoise.cli.reproduce._theory", lambda *arguments: None)
    monkeypatch.setattr("counterpoise.cli.reproduce._published", lambda *arguments: None)
    monkeypatch.setattr(sets, "fetch", written)
    prepared = warm.Prepared(1, 0, 0.0, Path("cache"), [])
    monkeypatch.setattr(warm, "compile_kernels", lambda *arguments: prepared)


def run(line):
    words = shlex.split(line)[1:]
    found = CliRunner().invoke(app, [*words, *shlex.split(SHORTER.get(words[0] if words else "", ""))])
    assert found.exit_code == 0, f"{line}\n{found.output}"
    assert found.exception is None


def pages_with_commands():
    return [page for page in PAGES if of_counterpoise(command_lines(page.read_text("utf-8")))]


@pytest.mark.compiled
@pytest.mark.parametrize("page", pages_with_commands(), ids=lambda page: page.name)
def test_command_lines_run_in_their_order(page, folder, no_long_runs):
    for line in of_counterpoise(command_lines(page.read_text("utf-8"))):
        # A page may write to the same folder twice.
        words = shlex.split(line)
        again = " --force" if words[1] in ("track", "pca", "split") else ""
        run(line + again)


@pytest.mark.compiled
@pytest.mark.parametrize("line", examples_of_help())
def test_examples_of_help_run(line, folder, no_long_runs):
    if "draws.csv" in line:
        people = pd.read_csv("people.csv").set_index("id")
        balanced_split(people, 60, strata="site", n_draws=20, random_state=0).save("counterpoise-split/draws.csv")
    if "--point x.npz" in line:
        np.savez("x.npz", x=np.repeat([1 / 30, 0.0], [30, 5]))
    run(line)


def test_every_command_is_shown():
    commands = set(typer.main.get_command(app).commands)
    shown = of_counterpoise(command_lines((ROOT / "docs/commands.rst").read_text("utf-8")))
    assert {shlex.split(line)[1] for line in shown if "=" not in line} == commands
    readme = of_counterpoise(command_lines((ROOT / "README.md").read_text("utf-8")))
    assert {"track", "pca", "split", "demo", "compile"} <= {shlex.split(line)[1] for line in readme}
    assert len(examples_of_help()) == len(commands) + 3
    assert all(page.exists() for page in PAGES)


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


@pytest.mark.compiled
def test_python_of_the_readme_runs_and_prints_what_it_says():
    names: dict[str, object] = {}
    shown = blocks((ROOT / "README.md").read_text("utf-8"))
    snippets = [code for language, code in shown if language == "python"]
    assert len(snippets) == 4
    for code in snippets:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), names)
        assert printed.getvalue() and ("", printed.getvalue()) in shown


@pytest.mark.parametrize("page", [*PAGES, ROOT / "benchmarks/README.md"], ids=lambda page: page.name)
def test_targets_scripts_and_their_options_exist(page):
    """What takes minutes is not run, but it is there."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    text = page.read_text("utf-8")
    found = [
        *command_lines(text),
        *(re.sub(r"\s+", " ", code) for code in re.findall(r"`((?:make|python) [^`]+)`", text)),
    ]
    for line in found:
        words = line.split("#")[0].split()
        if words[:1] == ["make"]:
            assert re.search(rf"^{re.escape(words[1])}:", makefile, re.M), f"{page.name} shows {line}"
        elif words[:1] == ["python"] and words[1] != "-m":
            source = (ROOT / words[1]).read_text("utf-8")
            for option in (word for word in words[2:] if word.startswith("--")):
                assert f'"{option}"' in source, f"{page.name} shows {line}"

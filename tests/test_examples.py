"""Every example of the gallery runs, draws something, and says what it did."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("plot_*.py"))


@pytest.fixture
def pyplot(monkeypatch):
    """Matplotlib that draws to memory only."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    monkeypatch.setattr(pyplot, "show", lambda: None)
    pyplot.close("all")
    yield pyplot
    pyplot.close("all")


@pytest.mark.compiled
@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem == "plot_sector_neutral" else [])
        for path in EXAMPLES
    ],
)
def test_example(example, pyplot, capsys):
    pytest.importorskip("pandas")
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out
    assert pyplot.get_fignums()
    for number in pyplot.get_fignums():
        pyplot.figure(number).canvas.draw()


@pytest.mark.compiled
def test_tracking_falls_back_to_a_simulated_market_and_says_so(pyplot, capsys, monkeypatch):
    from counterpoise import datasets

    def missing():
        raise ImportError("The S&P 500 sample comes with skfolio.")

    monkeypatch.setattr(datasets, "load_sp500_sample", missing)
    runpy.run_path(str(EXAMPLES[0].with_name("plot_track_and_backtest.py")), run_name="__main__")
    assert "comes with skfolio" in capsys.readouterr().out
    assert "SIMULATED" in pyplot.figure(1).axes[0].get_title(loc="left")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_gallery_finds_a_title(example):
    lines = example.read_text(encoding="utf-8").splitlines()
    assert lines[0] == '"""' and lines[1] and lines[2] == "=" * len(lines[1])

import subprocess
import sys

import numpy as np
import pytest

import counterpoise as cp
from counterpoise.plotting import MARKERS, SPARE, STYLES, plot_objective, save_objective, styles_of
from counterpoise.solvers.hybrid import join

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


def run(values, status=cp.Status.CERTIFIED):
    steps = np.arange(len(values))
    history = np.column_stack([16 * steps, 1e-3 * steps, values])
    return cp.Result(x=np.zeros(2), objective=min(values), status=status, nit=16, nacc=9, time=1.0, history=history)


RUNS = {"bcd-g": run([9.0, 4.0, 1.0]), "other": run([9.0, 5.0, 6.0, 3.0], cp.Status.TIME_LIMIT)}


@pytest.fixture
def ax():
    from matplotlib.figure import Figure

    return Figure().subplots()


def lines(ax):
    return {line.get_label(): line for line in ax.get_lines() if not line.get_label().startswith("_")}


def test_heights_are_above_the_best_known(ax):
    assert plot_objective(RUNS, ax=ax) is ax
    drawn = lines(ax)
    floor = 1e-6 * 8.0
    np.testing.assert_allclose(drawn["bcd-g"].get_ydata(), np.array([8.0, 3.0, 0.0]) + floor)
    np.testing.assert_allclose(drawn["other"].get_ydata(), np.array([8.0, 4.0, 4.0, 2.0]) + floor)
    np.testing.assert_allclose(drawn["bcd-g"].get_xdata(), [0.5e-3, 1e-3, 2e-3])
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert ax.get_xlabel() == "time (s)"
    assert "best known (1)" in ax.get_ylabel()


def test_a_best_known_from_elsewhere(ax):
    plot_objective(RUNS, best=-1.0, x="iteration", ax=ax)
    assert lines(ax)["bcd-g"].get_ydata()[-1] == pytest.approx(2.0, rel=1e-4)
    assert lines(ax)["bcd-g"].get_xdata().tolist() == [8.0, 16.0, 32.0]
    assert ax.get_xlabel() == "iterations"


def test_a_best_known_that_was_beaten_is_not_used(ax):
    plot_objective(RUNS, best=5.0, ax=ax)
    assert min(line.get_ydata().min() for line in lines(ax).values()) > 0.0


def test_ends_are_marked_and_explained(ax):
    plot_objective(RUNS, ax=ax)
    ends = {line.get_marker() for line in ax.get_lines()} - {"None"}
    assert ends == {MARKERS[cp.Status.CERTIFIED], MARKERS[cp.Status.TIME_LIMIT]}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["bcd-g", "other", "certified", "time limit"]


def test_every_status_has_a_mark_of_its_own():
    assert set(MARKERS) == set(cp.Status)
    assert len(set(MARKERS.values())) == len(MARKERS)


def test_a_run_that_never_moved_can_be_drawn(ax):
    still = cp.Result(status=cp.Status.CERTIFIED, objective=0.0, history=np.array([[0.0, 0.0, 0.0]]))
    plot_objective({"still": still}, ax=ax)
    assert lines(ax)["still"].get_ydata()[0] > 0.0
    ax.figure.canvas.draw()


def test_a_method_looks_the_same_in_every_plot():
    alone = styles_of(["new"])["new"]
    assert styles_of(["bcd-g", "psg", "new"])["new"] == alone
    assert styles_of(["bcd-g"])["bcd-g"] == STYLES["bcd-g"]


def test_no_two_lines_look_alike():
    names = [*STYLES, *(f"{name}+bcd-g" for name in STYLES), *(f"new {k}" for k in range(len(SPARE)))]
    styles = styles_of(names)
    assert len({(style.colour, style.width) for style in styles.values()}) == len(names)
    assert len({(style.dash, style.width) for style in styles.values()}) == len(names)


def test_more_names_than_styles_still_have_one():
    assert len(styles_of(f"new {k}" for k in range(20))) == 20


def test_a_hybrid_has_the_colour_of_its_first_stage():
    styles = styles_of(["psg", "psg+bcd-g", "new", "new+bcd-g"])
    for first in ("psg", "new"):
        assert styles[f"{first}+bcd-g"].colour == styles[first].colour
        assert styles[f"{first}+bcd-g"].width > styles[first].width


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_pictures_are_written(tmp_path, suffix, magic):
    path = tmp_path / f"picture{suffix}"
    save_objective({**RUNS, "other+bcd-g": join(RUNS["other"], RUNS["bcd-g"])}, path, "A title")
    assert path.read_bytes().startswith(magic)


def test_a_figure_of_its_own():
    from matplotlib import pyplot

    axes = plot_objective(RUNS)
    assert axes.figure.number in pyplot.get_fignums()
    pyplot.close(axes.figure)


def test_bad_arguments_get_one_sentence():
    with pytest.raises(ValueError, match=r'^x is \'day\'; it must be "time" or "iteration"\.$'):
        plot_objective(RUNS, x="day")
    with pytest.raises(ValueError, match=r"^results is empty; there is nothing to plot\.$"):
        plot_objective({})


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"^A plot needs matplotlib: .* pip install 'counterpoise\[plots\]'\.$"):
        plot_objective(RUNS)


def test_matplotlib_is_not_imported_with_the_command():
    code = "import sys, counterpoise.cli, counterpoise.plotting; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0

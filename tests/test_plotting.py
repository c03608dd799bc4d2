import subprocess
import sys

import numpy as np
import pytest

import counterpoise as cp
from counterpoise.figures.components import spread
from counterpoise.kernels import sweep
from counterpoise.plotting import (
    MARKERS,
    SPARE,
    STYLES,
    plot_balance,
    plot_biplot,
    plot_gap,
    plot_loadings,
    plot_objective,
    plot_pair,
    plot_variance,
    plot_weights,
    save_objective,
    styles_of,
)
from counterpoise.problems import DCPB1, NNSPCA, SIT, SPCA
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
    assert {drawn[name].get_drawstyle() for name in RUNS} == {"steps-post"}  # the best so far changes by jumps
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
    assert min(min(line.get_ydata()) for line in lines(ax).values()) > 0.0


def test_ends_are_marked_and_explained(ax):
    plot_objective(RUNS, ax=ax)
    ends = {line.get_marker() for line in ax.get_lines()} - {"None"}
    assert ends == {MARKERS["CERTIFIED"], MARKERS["TIME_LIMIT"]}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        *("bcd-g", "other", "best known (log axes have no 0)", "certified", "time limit")
    ]
    assert lines(ax)["best known (log axes have no 0)"].get_ydata() == pytest.approx([8e-6, 8e-6])


def test_every_status_has_a_mark_of_its_own():
    assert set(MARKERS) == {status.name for status in cp.Status}
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
    with pytest.raises(ImportError, match=r"^A plot needs matplotlib: .* pip install matplotlib\.$"):
        plot_objective(RUNS)


def test_matplotlib_is_not_imported_with_the_command():
    code = "import sys, counterpoise.cli, counterpoise.plotting; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=600).returncode == 0


def test_several_starts_are_a_median_in_a_band(ax):
    starts = [run([9.0, 4.0, 1.0]), run([8.0, 3.0]), run([7.0, 6.0, 5.0], cp.Status.TIME_LIMIT)]
    plot_objective({"bcd-g": starts, "psg": RUNS["other"]}, x="iteration", ax=ax)
    drawn, floor = lines(ax), 1e-6 * 8.0
    middle = drawn["bcd-g, median of 3"]
    assert middle.get_xdata().tolist() == [8.0, 16.0, 32.0]
    # The second run ended at 16 and keeps its 3.
    np.testing.assert_allclose(middle.get_ydata(), np.array([8.0, 4.0, 3.0]) - 1.0 + floor)
    corners = ax.collections[0].get_paths()[0].vertices
    # In steps: at each place the ends of the band before it and from it on.
    for at, ends in ((8.0, [7.0, 9.0]), (16.0, [3.0, 6.0, 7.0, 9.0]), (32.0, [1.0, 3.0, 5.0, 6.0])):
        heights = np.unique(corners[corners[:, 0] == at, 1].round(9))
        np.testing.assert_allclose(heights, np.array(ends) - 1.0 + floor)
    assert drawn["psg"].get_xdata().tolist() == [8.0, 16.0, 32.0, 48.0]
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words == ["bcd-g, median of 3", "psg", "best known (log axes have no 0)", "certified", "time limit"]
    assert [line.get_marker() for line in ax.get_lines()].count(MARKERS["CERTIFIED"]) == 2


def test_a_list_of_one_start_is_that_start(ax):
    plot_objective({"bcd-g": [RUNS["bcd-g"]]}, ax=ax)
    assert lines(ax)["bcd-g"].get_ydata()[0] == pytest.approx(8.0, rel=1e-4)
    assert not ax.collections


def test_a_method_without_starts_is_named():
    with pytest.raises(ValueError, match=r"^results\['psg'\] is empty; give at least one result\.$"):
        plot_objective({"psg": []})


def bars(ax):
    """Names and lengths of horizontal bars, from the top down."""
    found = {round(bar.get_y() + 0.35): bar.get_width() for bar in ax.patches}
    return [(text.get_text(), found[k]) for k, text in enumerate(ax.get_yticklabels())]


def test_weights_are_drawn_by_size(ax):
    assert plot_weights(np.array([0.1, 0.0, 0.6, 0.3]), ax=ax) is ax
    assert bars(ax) == [("2", 0.6), ("3", 0.3), ("0", 0.1)]
    assert ax.get_xlabel() == "weight"
    low, high = ax.get_ylim()
    assert low > high


def test_weights_have_the_names_of_a_series(ax):
    pandas = pytest.importorskip("pandas")
    plot_weights(pandas.Series([0.125, 0.75, -0.25, 0.0625], index=["A", "B", "C", "D"]), ax=ax, most=2)
    assert bars(ax) == [("B", 0.75), ("C", -0.25)]
    assert ax.get_xlabel() == "weight; 2 others sum to 0.188"
    assert [bool(bar.get_hatch()) for bar in ax.patches] == [False, True]


def test_weights_of_nothing_say_so(ax):
    plot_weights(np.zeros(3), ax=ax)
    assert [text.get_text() for text in ax.texts] == ["all weights are 0"]


def test_components_are_images_on_one_scale():
    from matplotlib import pyplot

    components = np.abs(np.random.default_rng(0).standard_normal((5, 6)))
    axes = plot_loadings(components, shape=(2, 3))
    assert [ax.get_title("left") for ax in axes] == [f"component {k}" for k in range(5)]
    for ax, row in zip(axes, components, strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), row.reshape(2, 3))
        assert ax.images[0].get_clim() == (0.0, components.max())
    axes[0].figure.canvas.draw()
    pyplot.close(axes[0].figure)


def test_negative_pixels_have_a_minus():
    from matplotlib.figure import Figure

    axes = Figure().subplots(2, 2)
    drawn = plot_loadings([[0.5, -0.1], [-0.5, 0.0]], shape=(1, 2), titles=["a", "b"], axes=axes)
    assert drawn == [axes[0, 0], axes[0, 1]]
    assert [ax.get_title("left") for ax in drawn] == ["a", "b"]
    assert [[x for line in ax.get_lines() for x in line.get_xdata()] for ax in drawn] == [[1], [0]]
    assert drawn[0].images[0].get_clim() == (-0.5, 0.5)


def test_components_are_bars_of_words():
    from matplotlib import pyplot

    axes = plot_loadings([[0.1, 0.0, 0.7], [0.0, -0.8, 0.6], [0.0, 0.0, 0.0]], names=["one", "two", "three"], most=2)
    assert [bars(ax) for ax in axes] == [[("three", 0.7), ("one", 0.1)], [("two", -0.8), ("three", 0.6)], []]
    assert [text.get_text() for text in axes[2].texts] == ["all loadings are 0"]
    assert axes[1].get_xlabel() == "loading"
    assert axes[0].get_xlim() == axes[1].get_xlim() == pytest.approx((-0.84, 0.735))
    assert len(axes[0].get_xticks())
    pyplot.close(axes[0].figure)


def test_words_may_be_the_columns_of_a_frame(ax):
    pandas = pytest.importorskip("pandas")
    plot_loadings(pandas.DataFrame([[0.6, 0.8]], columns=["up", "down"]), axes=ax)
    assert bars(ax) == [("down", 0.8), ("up", 0.6)]


LINE = cp.Problem(
    f=cp.Quadratic(4.0 * np.eye(4), [-0.12, 0.0, 0.0, 0.0]), h=cp.Bounds(0, 1), g=cp.TopSum(s=2, lam=1.0), u=cp.Sum(1)
)
ON_LINE = np.array([0.115, 0.335, 0.28, 0.27])


def breaks(ax):
    return sorted(line.get_xdata()[0] for line in ax.get_lines() if line.get_color() == "0.6")


def test_the_landscape_on_a_line(ax):
    assert plot_pair(LINE, ON_LINE, 0, 1, ax=ax) is ax
    drawn, level = lines(ax), LINE.objective(ON_LINE)
    eta, change = drawn["change of F"].get_data()
    assert (eta[0], eta[-1]) == pytest.approx((-0.115, 0.335))
    for k in range(0, len(eta), 50):
        moved = ON_LINE + eta[k] * np.array([1.0, -1.0, 0.0, 0.0])
        assert change[k] == pytest.approx(LINE.objective(moved) - level, abs=1e-14)
    terms, at = LINE.terms(), ON_LINE.copy()
    sweep.start(terms, at)
    new_i, _, gain = sweep.step(terms, at, 0, 1, 0.0)
    assert change.min() + level == pytest.approx(level - gain, abs=1e-14)
    assert eta[change.argmin()] == pytest.approx(new_i - 0.115)
    assert [drawn["exact step"].get_xdata()[0], drawn["exact step"].get_ydata()[0]] == pytest.approx([0.25, -gain])
    assert [drawn["here"].get_xdata()[0], drawn["here"].get_ydata()[0]] == [0.0, 0.0]
    # x_1 falls out of the two largest at the second of the others, 0.27; x_0 comes among them there.
    assert breaks(ax) == pytest.approx([0.065, 0.155])
    assert ax.get_xlabel() == "η, moved from 1 to 0"
    assert ax.get_title("left") == f"F falls by {gain:.3g}"
    assert len(ax.get_legend().get_texts()) == 4


def test_the_breakpoint_where_the_pair_is_level(ax):
    # One of the largest two is 0.5 whatever the pair does; the other is its larger coordinate.
    plot_pair(LINE, [0.3, 0.2, 0.5, 0.0], 0, 1, ax=ax)
    assert breaks(ax) == pytest.approx([-0.05])


def test_breakpoints_of_signs(ax):
    problem = cp.Problem(f=cp.Quadratic(np.eye(3)), h=cp.Bounds(-1, 1), g=cp.TopSum(s=3, lam=1.0), u=cp.Sum(0))
    plot_pair(problem, [0.5, -0.25, -0.25], 0, 1, ax=ax)
    assert breaks(ax) == pytest.approx([-0.5, -0.25])


def test_the_landscape_on_an_arc(ax):
    problem = NNSPCA(np.array([[1.2, 0.0, 0.2], [0.0, 1.0, 0.1]]), s=1, lam=0.9)
    point = np.array([0.5, 0.5, np.sqrt(0.5)])
    plot_pair(problem, point, 0, 2, ax=ax)
    angle, change = lines(ax)["change of F"].get_data()
    v = np.hypot(point[0], point[2])
    for degrees, each in list(zip(angle, change, strict=True))[::60]:
        moved = [v * np.sin(np.radians(degrees)), 0.5, v * np.cos(np.radians(degrees))]
        assert each == pytest.approx(problem.objective(moved) - problem.objective(point), abs=1e-13)
    terms, at = problem.terms(), point.copy()
    sweep.start(terms, at)
    assert change.min() == pytest.approx(-sweep.step(terms, at, 0, 2, 0.0)[2], abs=1e-13)
    assert (angle[0], angle[-1]) == pytest.approx((0.0, 90.0))
    assert breaks(ax) == pytest.approx([45.0])
    assert lines(ax)["here"].get_xdata()[0] == pytest.approx(np.degrees(np.arctan2(point[0], point[2])))


def test_the_landscape_on_a_circle(ax):
    problem = SPCA(np.array([[1.2, 0.0, 0.2], [0.0, 1.0, -0.1]]), s=1, lam=0.9)
    point = np.array([-0.5, 0.5, np.sqrt(0.5)])
    plot_pair(problem, point, 0, 2, ax=ax)
    angle, change = lines(ax)["change of F"].get_data()
    v = np.hypot(point[0], point[2])
    for degrees, each in list(zip(angle, change, strict=True))[::60]:
        moved = [v * np.sin(np.radians(degrees)), 0.5, v * np.cos(np.radians(degrees))]
        assert each == pytest.approx(problem.objective(moved) - problem.objective(point), abs=1e-13)
    terms, at = problem.terms(), point.copy()
    sweep.start(terms, at)
    new_i, new_j, gain = sweep.step(terms, at, 0, 2, 0.0)
    assert change.min() == pytest.approx(-gain, abs=1e-13)
    assert (angle[0], angle[-1]) == pytest.approx((-180.0, 180.0))
    assert breaks(ax) == pytest.approx([-135.0, -45.0, 45.0, 135.0])
    assert lines(ax)["here"].get_xdata()[0] == pytest.approx(np.degrees(np.arctan2(point[0], point[2])))
    assert lines(ax)["exact step"].get_xdata()[0] == pytest.approx(np.degrees(np.arctan2(new_i, new_j)))


def test_pairs_of_names_and_pairs_that_stay(ax):
    pandas = pytest.importorskip("pandas")
    problem = cp.Problem(f=cp.Quadratic(np.eye(3)), h=cp.Bounds(0, 1), u=cp.Sum(1))
    point = pandas.Series([0.5, 0.5, 0.0], index=["A", "B", "C"])
    plot_pair(problem, point, "A", "B", ax=ax)
    assert ax.get_xlabel() == "η, moved from B to A"
    assert ax.get_title("left") == "no step of this pair gains"
    assert "exact step" not in lines(ax)
    assert point.tolist() == [0.5, 0.5, 0.0]
    with pytest.raises(ValueError, match=r"^j is 'D', which is no name of x; give one of its 3 names\.$"):
        plot_pair(problem, point, "A", "D", ax=ax)


def test_a_pair_that_cannot_move_says_so(ax):
    plot_pair(LINE, [0.5, 0.5, 0.0, 0.0], 2, 3, ax=ax)
    assert [text.get_text() for text in ax.texts] == ["the pair 2, 3 cannot move"]


def gap_problem(name, n=12):
    A = np.random.default_rng(3).standard_normal((20, n))
    if name == "SIT":
        return SIT(A, A[:, :3].mean(axis=1), s=3, lam=0.5)
    return NNSPCA(A, s=3, lam=0.5) if name == "NNSPCA" else DCPB1(A, A[:, 0], 0.0, 0.5)


@pytest.mark.parametrize("name", ["SIT", "NNSPCA", "DCPB1"])
def test_the_heat_map_holds_the_gap_of_the_certificate(ax, name):
    problem = gap_problem(name)
    x = problem.start(1)
    before = x.copy()
    assert plot_gap(problem, x, ax=ax) is ax
    np.testing.assert_array_equal(x, before)
    shown = ax.images[0].get_array()
    certificate = cp.certify(problem, x, scan="all")
    assert shown.shape == (12, 12)
    assert shown.max() == pytest.approx(certificate.cws_gap, rel=1e-12)
    np.testing.assert_array_equal(shown.filled(0.0), shown.filled(0.0).T)
    labels = [int(text.get_text()) for text in ax.get_xticklabels()]
    assert sorted(labels) == list(range(12))
    terms, at = problem.terms(), x.copy()
    sweep.start(terms, at)
    for a, b in ((0, 1), (3, 7), (11, 2)):
        first, second = sorted((labels[a], labels[b]))
        expected = sweep.step(terms, at, first, second, 0.0)[2]
        assert shown.filled(0.0)[a, b] == pytest.approx(expected, rel=1e-12, abs=1e-12)
    star = ax.get_lines()[-1]
    assert {labels[int(k)] for k in star.get_xdata()} == set(certificate.worst_pair)
    assert ax.get_title("left").startswith(f"largest decrease: {certificate.cws_gap:.3g}, by ")
    assert ax.figure.axes[1].get_yscale() == "log"
    ax.figure.canvas.draw()


@pytest.mark.parametrize("held", [1, 3, 12])
def test_a_part_of_the_heat_map_still_holds_the_gap(ax, held):
    problem = gap_problem("SIT")
    x = np.zeros(12)
    x[-held:] = 1.0 / held
    plot_gap(problem, x, ax=ax, most=4)
    shown = ax.images[0].get_array()
    assert shown.shape == (4, 4)
    assert shown.max() == pytest.approx(cp.certify(problem, x).cws_gap, rel=1e-12)
    kept = {1: 1, 3: 3, 12: 4}[held]
    assert ax.get_xlabel() == f"4 of 12 coordinates: {kept} held, {4 - kept} at their lower bound"


def test_where_no_pair_gains_there_is_no_map(ax):
    problem = cp.Problem(f=cp.Quadratic(np.eye(3)), h=cp.Bounds(0, 1), u=cp.Sum(1))
    plot_gap(problem, np.full(3, 1.0 / 3.0), ax=ax)
    assert not ax.images
    assert [text.get_text() for text in ax.texts] == ["no pair gains"]
    assert ax.get_title("left") == "none of the 3 pairs lowers F"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot_weights(np.ones((2, 3))), r"weights has shape \(2, 3\); it must be one-dimensional, .*"),
        (lambda: plot_weights([]), r"weights is empty; there is nothing to plot\."),
        (lambda: plot_weights([1.0], most=0), r"most is 0; it must be at least 1\."),
        (lambda: plot_loadings(np.ones((2, 3, 4))), r"components has shape \(2, 3, 4\); .*"),
        (
            lambda: plot_loadings(np.ones((2, 6)), shape=(2, 2)),
            r"shape is \(2, 2\), but a component has 6 loadings; .*",
        ),
        (lambda: plot_loadings(np.ones((2, 3)), names=["a"]), r"names has 1 names, but a component has 3 loadings\."),
        (lambda: plot_loadings(np.ones((2, 2)), (1, 2), names=["a", "b"]), r"shape and names are both given; .*"),
        (lambda: plot_loadings(np.ones((2, 2)), titles=["a"]), r"titles has 1 titles, but there are 2 components\."),
        (lambda: plot_loadings(np.ones((2, 2)), axes=[]), r"axes has 0 Axes, but there are 2 components\."),
        (lambda: plot_pair(LINE, ON_LINE, 1, 1), r"i and j are both 1; a pair has two different coordinates\."),
        (lambda: plot_pair(LINE, ON_LINE, 0, 4), r"j is 4; it must be between 0 and 3\."),
        (lambda: plot_pair(LINE, ON_LINE[:3], 0, 1), r"x has shape \(3,\); it must be \(4,\)\."),
        (
            lambda: plot_gap(LINE, 2.0 * ON_LINE),
            r"x violates the constraints by 1; give problem\.project\(x\) instead\.",
        ),
        (lambda: plot_gap(LINE, ON_LINE, most=1), r"most is 1; it must be at least 2\."),
    ],
)
def test_pictures_refuse_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        call()


# Sparse components.


@pytest.fixture
def signed_fit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2)) @ np.array([[3, -3, 2, 0, 0, 0.0], [0, 0, 1, 1, -1, 0]])
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X + 0.1 * rng.standard_normal((40, 6)), columns=list("abcdef"))
    return cp.SparsePCA(2, 3, random_state=0).fit(frame), frame


def test_a_biplot_has_rows_and_an_arrow_for_every_feature_with_a_loading(signed_fit, ax):
    pca, frame = signed_fit
    assert plot_biplot(pca, frame, ax=ax) is ax
    np.testing.assert_allclose(np.column_stack(ax.lines[0].get_data()), pca.transform(frame))
    arrows = [text for text in ax.texts if not text.get_text()]
    held = np.flatnonzero(pca.components_.any(axis=0))
    assert len(arrows) == len(held)
    led = {text.get_text(): text for text in ax.texts if text.get_text()}
    for j, arrow in zip(held, arrows, strict=True):  # a name that stands apart has a line to the end of its arrow
        assert led["abcdef"[j]].xy == arrow.xy and (led["abcdef"[j]].arrow_patch is not None) == (0.0 in arrow.xy)
    ends = np.array([arrow.xy for arrow in arrows])
    loadings = pca.components_.T[held]
    stretch = np.abs(ends).max() / np.abs(loadings).max()
    np.testing.assert_allclose(ends, stretch * loadings, rtol=1e-9, atol=1e-12)
    assert {text.get_text() for text in ax.texts if text.get_text()} == {"abcdef"[j] for j in held}
    dashes = [arrow.arrow_patch.get_linestyle() for arrow in arrows]
    largest = loadings[np.arange(len(held)), np.abs(loadings).argmax(axis=1)]
    assert [dash == "--" for dash in dashes] == [value < 0.0 for value in largest]
    assert ax.get_xlabel().startswith("component 0 (") and ax.get_ylabel().startswith("component 1 (")


def test_a_biplot_tells_groups_apart(signed_fit, ax):
    pca, frame = signed_fit
    plot_biplot(pca, frame, components=(1, 0), groups=["one"] * 15 + ["two"] * 25, ax=ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "two"]
    assert [len(line.get_xdata()) for line in ax.lines[:2]] == [15, 25]
    assert ax.get_xlabel().startswith("component 1 (")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"components": (0, 2)}, r"components is \(0, 2\); give two different ones of 0 to 1"),
        ({"components": (1, 1)}, r"components is \(1, 1\); give two different ones of 0 to 1"),
        ({"names": list("abc")}, r"names has 3 names, but there are 6 features"),
        ({"groups": [1, 2]}, r"groups has 2 labels, but X has 40 rows"),
    ],
)
def test_a_biplot_of_something_else_is_refused(signed_fit, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        plot_biplot(*signed_fit, **options)


def test_names_along_an_axis_are_kept_apart(rng):
    for _ in range(200):
        places = np.round(rng.uniform(0.0, 5.0, int(rng.integers(0, 9))), int(rng.integers(0, 3)))
        apart = spread(places, 0.7)
        order = np.argsort(places, kind="stable")
        assert (np.diff(apart[order]) >= 0.7 - 1e-9).all()
        if len(places) and (np.diff(np.sort(places)) >= 0.7).all():
            np.testing.assert_allclose(apart, places)
        assert apart.sum() == pytest.approx(places.sum(), abs=1e-9)


def test_variance_against_loadings_marks_an_elbow(ax):
    plot_variance([3, 1, 2], [0.5, 0.2, 0.45], elbow=2, ax=ax)
    assert ax.lines[0].get_xdata().tolist() == [1, 2, 3] and ax.lines[0].get_ydata().tolist() == [0.2, 0.45, 0.5]
    assert ax.get_legend().get_texts()[0].get_text() == "elbow: 2 loadings"
    with pytest.raises(ValueError, match="n_nonzero is empty; there is nothing to plot"):
        plot_variance([], [])


def test_variance_without_an_elbow_has_no_legend(ax):
    assert plot_variance([1], [0.5], ax=ax).get_legend() is None


def test_plots_take_fitted_estimators(rng, ax):
    import pandas
    from matplotlib.figure import Figure

    returns = pandas.DataFrame(0.01 * rng.standard_normal((30, 4)), columns=list("abcd"))
    tracker = cp.IndexTracker(2, method="bcd-g", random_state=0)
    with pytest.raises(ValueError, match="IndexTracker has no coef_ or weights_; fit it first"):
        plot_weights(tracker, ax)
    tracker.fit(returns, returns.mean(axis=1))
    plot_weights(tracker, ax)
    held = tracker.weights_[tracker.weights_ != 0.0].sort_values(ascending=False)
    assert [text.get_text() for text in ax.get_yticklabels()] == list(held.index)
    pca = cp.SparsePCA(1, 2, random_state=0).fit(returns)
    (drawn,) = plot_loadings(pca, axes=[Figure().subplots()])
    used = {"abcd"[k] for k in np.flatnonzero(pca.components_[0])}
    assert {text.get_text() for text in drawn.get_yticklabels()} == used
    split = cp.balanced_split(returns, 15, random_state=0)
    place = Figure().subplots()
    assert plot_balance(split, place) is place

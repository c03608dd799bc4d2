"""Reports in a real browser: what its script draws, sorts and says, and that it complains about nothing."""

import csv
import html
import re
import shutil
import struct
import subprocess
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from counterpoise.cli import app
from counterpoise.report import Axis, Column, Panel, Report, Series

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = [pytest.mark.browser, pytest.mark.skipif(BROWSER is None, reason="there is no chromium on PATH")]


class Tree(HTMLParser):
    """Elements as (tag, attributes, text inside), by id where they have one."""

    VOID = ("meta", "br", "img", "input", "link")

    def __init__(self, text):
        super().__init__()
        self.all, self._open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "text": "", "inside": [], **dict(attributes)}
        for outer in self._open:
            outer["inside"].append(element)
        self.all.append(element)
        if tag not in self.VOID:
            self._open.append(element)

    def handle_data(self, text):
        for element in self._open:
            element["text"] += text

    def handle_endtag(self, tag):
        while self._open and self._open.pop()["tag"] != tag:
            pass

    def __getitem__(self, name):
        return next(element for element in self.all if element.get("id") == name)


def within(element, tag, kind=None):
    return [e for e in element["inside"] if e["tag"] == tag and (kind is None or kind in e.get("class", "").split())]


def browse(path, profile, *options, hash=""):
    """Return the page after its script ran, and what was written to the console."""
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command += [f"--user-data-dir={profile}", "--enable-logging=stderr", "--v=0", "--virtual-time-budget=4000"]
    url = f"{path.as_uri()}{hash}"
    done = subprocess.run([*command, *options, url], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three reports that the command wrote."""
    path = tmp_path_factory.mktemp("reports")
    rng = np.random.default_rng(1)
    steps = 1.0 + 0.01 * rng.standard_normal((61, 5)) + 0.01 * rng.standard_normal((61, 1))
    prices = pd.DataFrame(100.0 * np.cumprod(steps, axis=0), columns=["AAA", "BBB", "CCC", "<b>D&D</b>", "EEE"])
    prices["SPX"] = prices @ [0.4, 0.3, 0.1, 0.1, 0.1]
    prices.index = pd.bdate_range("2024-01-02", periods=61, name="date")
    prices.to_csv(path / "prices.csv")
    X = pd.DataFrame(rng.standard_normal((30, 6)) + rng.standard_normal((30, 1)), columns=list("abcdef"))
    X.to_csv(path / "cells.csv", index=False)
    units = pd.DataFrame({"age": rng.normal(50, 9, 20), "sex": ["f", "m"] * 10})
    units.to_csv(path / "units.csv", index=False)
    for arguments in (
        ("track", "prices.csv", "--index", "SPX", "--assets", "4", "--backtest", "30/10", "--cost", "0.001"),
        ("pca", "cells.csv", "--components", "2", "--nonzero", "3"),
        ("split", "units.csv", "--treated", "10", "--draws", "5"),
    ):
        command, file, *options = arguments
        given = [command, str(path / file), *options, "--output", str(path / command), "--quiet"]
        found = CliRunner().invoke(app, given)
        assert found.exit_code == 0, found.output
    return path


# Two targets: curves of three problems along c and s, and histories.
OWN = """
title = "Own {kind}"
kind = "{kind}"
measure = "{measure}"
starts = [0, 1]
methods = ["PDCA", "PDCA*", "BCD-g"]
[[grids]]
problem = "NNSPCA"
sets = ["small-a", "none-a"]
s = [2, 4, 6]
lam = [10.0]
[[grids]]
problem = "DCPB2"
sets = ["small-a"]
c = [0, 4]
lam = [10.0]
"""


@pytest.fixture(scope="module")
def rerun(tmp_path_factory):
    """The page of two targets that ``counterpoise reproduce`` wrote, one after the other."""
    pytest.importorskip("matplotlib")
    path = tmp_path_factory.mktemp("rerun")
    (path / "data" / "blocks").mkdir(parents=True)
    A = np.random.default_rng(2).standard_normal((8, 8))
    np.savez(path / "data" / "blocks" / "small-a.npz", A=A, seed=3)
    for kind, measure in (("curves", "quality"), ("histories", "timing")):
        (path / f"own-{kind}.toml").write_text(OWN.format(kind=kind, measure=measure))
        given = ["reproduce", path / f"own-{kind}.toml", "--data", path / "data", "--output", path / "out"]
        found = CliRunner().invoke(app, [*map(str, given), "--jobs", "1"])
        assert found.exit_code == 0, found.output
    return path / "out"


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return tmp_path_factory.mktemp("profile")


def rows_of(path):
    with path.open() as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize(
    ("command", "charts"),
    [
        (
            "track",
            {"out-growth": "path", "out-ahead": "path", "bars": "rect", "fit-growth": "path", "fit-returns": "circle"},
        ),
        ("pca", {"variance": "rect", "component-1": "rect", "component-2": "rect", "scores": "circle"}),
        ("split", {"balance-dots": "circle", "draws": "path"}),
    ],
)
def test_every_chart_is_drawn_without_a_complaint(folder, profile, command, charts):
    text, complaints = browse(folder / command / "report.html", profile, "--dump-dom")
    assert complaints == []
    page = Tree(text)
    for name, mark in charts.items():
        assert within(page[name], mark), name
        below = max(float(e["y"]) for e in within(page[name], "text", "tick"))
        for is_x in (True, False):
            ticks = [e["text"] for e in within(page[name], "text", "tick") if (float(e["y"]) == below) == is_x]
            assert len(set(ticks)) == len(ticks) >= (2 if is_x else 0)
    assert "NaN" not in text.replace("isNaN", "")
    assert page["theme"]["text"] in ("Dark", "Light")


def test_a_complaint_would_be_seen(tmp_path, profile):
    (tmp_path / "bad.html").write_text("<script>nothing.at.all()</script>")
    _, complaints = browse(tmp_path / "bad.html", profile, "--dump-dom")
    assert "nothing is not defined" in complaints[0]


@pytest.mark.parametrize("value", [0.019293671170431036, -3.0, 0.0])
def test_values_that_differ_by_rounding_have_ticks(tmp_path, profile, value):
    report = Report("Equal")
    values = [value, np.nextafter(value, 1.0), value]
    report.chart("equal", "Equal", "line", Axis("x"), Axis("y"), [Series("s", [1, 2, 3], values)])
    text, complaints = browse(report.write(tmp_path / "equal.html"), profile, "--dump-dom")
    assert complaints == []
    assert 3 <= len(within(Tree(text)["equal"], "text", "tick")) <= 30


def test_nothing_in_the_data_runs(tmp_path, profile):
    evil = "</script><script>document.title = 'hacked'</script><img src=x onerror=\"document.title = 'hacked'\">"
    report = Report("Good", evil, {evil: evil})
    report.paragraphs(evil)
    report.table("t", evil, [Column(evil), Column("n", "number")], [[evil, 1.0], ["b", None]])
    report.chart("c", evil, "bar", Axis(evil), Axis(evil), [Series(evil, [1.0]), Series("b", [None])], [evil])
    report.chart("p", evil, "scatter", Axis(evil), Axis(evil), [Series(evil, [1.0], [2.0], [evil])])
    path = report.write(tmp_path / "evil.html")
    text, complaints = browse(path, profile, "--dump-dom", hash="#at=p:0&at=c:0")
    assert complaints == []
    assert "<title>Good</title>" in text
    page = Tree(text)
    assert evil in next(e["text"] for e in within(page["p"], "div", "tip"))
    assert not [e for e in page.all if e["tag"] == "img"]


def test_tables_sort_and_hold_what_the_csv_holds(folder, profile):
    rows = {row["name"]: float(row["weight"]) for row in rows_of(folder / "track" / "weights.csv")}
    for asked, order in (
        ("weights:weight:ascending", sorted(rows, key=lambda name: rows[name])),
        ("weights:weight", sorted(rows, key=lambda name: -rows[name])),
        ("weights:name:descending", sorted(rows, reverse=True)),
    ):
        text, complaints = browse(folder / "track" / "report.html", profile, "--dump-dom", hash=f"#sort={asked}")
        assert complaints == []
        table = Tree(text)["weights"]
        cells = [within(row, "td") for row in within(table, "tr")[1:]]
        assert [row[0]["text"] for row in cells] == order
        assert {row[0]["text"]: float(row[1]["data-value"]) for row in cells} == rows
        head = next(e for e in within(table, "th") if e["data-column"] == asked.split(":")[1])
        assert head["aria-sort"] == [*asked.split(":"), "descending"][2]


def test_series_hide_and_values_show(folder, profile):
    path = folder / "track" / "report.html"
    text, complaints = browse(path, profile, "--dump-dom", hash="#hide=fit-growth:index&at=fit-growth:4&theme=dark")
    assert complaints == []
    page = Tree(text)
    assert next(e for e in page.all if e["tag"] == "html")["data-theme"] == "dark"
    assert len(within(page["fit-growth"], "path", "curve")) == 1
    assert [e["aria-pressed"] for e in within(page["fit-growth"], "button")] == ["false", "true"]
    tip = within(page["fit-growth"], "div", "tip")[0]
    assert "hidden" not in tip
    assert re.fullmatch(r"2024-01-08portfolio: \d\.\d+", tip["text"])
    hidden = within(page["fit-ahead"], "div", "tip")[0]
    assert "hidden" in hidden


def test_limits_names_and_one_scale(tmp_path, profile):
    report = Report("T")
    limited = Series("weight", [0.2, 0.3], low=[0.1, None], high=[0.4, None])
    report.chart("limited", "T", "bar", Axis("w", "percent"), Axis(""), [limited], ["a", "b"])
    points = Series("rows", [0.0, 1.0, 0.5, 0.5], [0.0, 1.0, 0.5, 0.5], ["left", "right", "middle", "same place"])
    report.chart("points", "T", "scatter", Axis("x"), Axis("y"), [points])
    for name in ("short", "a much longer name"):
        panel = Panel("", Axis("x", reach=(0.0, 2.0)), Axis(""), [Series("s", [1.0])], [name], letters=18)
        report.draw(f"bar-{len(name)}", "T", "bar", panel)
    text, complaints = browse(report.write(tmp_path / "t.html"), profile, "--dump-dom")
    assert complaints == []
    page = Tree(text)
    assert len(within(page["limited"], "path", "limits")) == 2
    named = [e["text"] for e in within(page["points"], "text", "name")]
    assert {"left", "right"} < set(named) and ("middle" in named) != ("same place" in named)
    bars = [within(page[name], "rect", "bar")[0] for name in ("bar-5", "bar-18")]
    assert bars[0]["x"] == bars[1]["x"] and bars[0]["width"] == bars[1]["width"]


def test_limits_lie_on_the_bars_and_names_cover_no_dot(tmp_path, profile):
    report = Report("T")
    weight = Series("weight", [0.3], low=[0.1], high=[0.4])
    report.chart("bars", "T", "bar", Axis("w", "percent"), Axis(""), [weight, Series("before", [0.35])], ["a"])
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 300))
    names = [f"2024-01-{k:03d}" for k in range(300)]
    points = Series("rows", [*x, np.nan], [*y, 0.0], [*names, "nowhere"])
    report.chart("points", "T", "scatter", Axis("x"), Axis("y"), [points])
    text, complaints = browse(report.write(tmp_path / "t.html"), profile, "--dump-dom")
    assert complaints == []
    page = Tree(text)
    drawn = [e.get("class", "").split()[0] for e in page["bars"]["inside"] if e["tag"] in ("rect", "path")]
    assert drawn == ["bar", "bar", "under", "limits", "under", "limits"]
    dots = [(float(e["cx"]), float(e["cy"])) for e in within(page["points"], "circle", "dot")]
    named = within(page["points"], "text", "name")
    assert len(dots) == 300 and 3 <= len(named) < 60
    for e in named:
        width = 7.0 * len(e["text"])
        left, middle = float(e["x"]) - width * (e["text-anchor"] == "end"), float(e["y"]) - 4.0
        assert not [dot for dot in dots if left < dot[0] < left + width and abs(dot[1] - middle) < 6.5]


def test_a_line_in_steps_keeps_each_value_until_the_next(tmp_path, profile):
    report = Report("T")
    for style in ("", "steps"):
        series = [Series("best", [0.0, 1.0, 2.0], [3.0, 3.0, 1.0], style=style)]
        report.chart(f"line{style}", "T", "line", Axis("s"), Axis("F"), series)
    text, complaints = browse(report.write(tmp_path / "t.html"), profile, "--dump-dom")
    assert complaints == []
    straight, steps = (within(Tree(text)[name], "path", "curve")[0]["d"] for name in ("line", "linesteps"))
    assert straight.count("L") == 2 and re.fullmatch(r"M[\d. ]+(H[\d.]+V[\d.]+){2}", steps)


def test_strange_addresses_are_ignored(folder, profile):
    path = folder / "track" / "report.html"
    asked = "#sort=none:x&sort=weights:none&sort=theme&hide=none:x&at=bars:999&at=x&theme=pink&hide=out-ahead:portfolio"
    text, complaints = browse(path, profile, "--dump-dom", hash=asked)
    assert complaints == []
    assert within(Tree(text)["out-ahead"], "path", "curve")


@pytest.mark.parametrize("size", [(390, 844), (1280, 900)])
def test_pictures_can_be_taken(folder, profile, tmp_path, size):
    picture = tmp_path / "shot.png"
    options = (f"--screenshot={picture}", f"--window-size={size[0]},{size[1]}", "--hide-scrollbars")
    _, complaints = browse(folder / "track" / "report.html", profile, *options)
    assert complaints == []
    content = picture.read_bytes()
    assert struct.unpack(">II", content[16:24]) == size
    assert len(content) > 20_000


@pytest.mark.parametrize("command", ["track", "pca", "split", "reproduce"])
def test_it_fits_a_phone(folder, rerun, profile, tmp_path, command):
    # A window is never narrower than 500 pixels, a frame is.
    path = rerun / "index.html" if command == "reproduce" else folder / command / "report.html"
    frame = html.escape(path.read_text("utf-8"))
    script = """addEventListener("load", () => setTimeout(() => {
        const page = document.querySelector("iframe").contentDocument;
        const widths = [...page.querySelectorAll("svg")].map((svg) => svg.viewBox.baseVal.width);
        document.title = [page.documentElement.scrollWidth, widths.length, Math.max(...widths)].join(" ");
    }, 1000))"""
    wrapper = tmp_path / "phone.html"
    wrapper.write_text(f'<iframe width="360" height="800" srcdoc="{frame}"></iframe><script>{script}</script>', "utf-8")
    text, complaints = browse(wrapper, profile, "--dump-dom")
    assert complaints == []
    page, charts, widest = map(float, re.search(r"<title>([\d. ]+)</title>", text).group(1).split())
    assert page <= 360
    assert charts >= 2
    assert widest <= 360


def test_the_page_of_a_rerun_draws_its_charts_without_a_complaint(rerun, profile):
    text, complaints = browse(rerun / "index.html", profile, "--dump-dom")
    assert complaints == []
    page = Tree(text)
    assert "NaN" not in text.replace("isNaN", "")
    for name, curves in (("own-curves-curves-chart", 3), ("own-histories-histories-chart", 3)):
        assert len(within(page[name], "path", "curve")) == curves
        assert [e["text"] for e in within(page[name], "option")] == ["NNSPCA in small-a", "DCPB2 in small-a"]
        assert [e["text"] for e in within(page[name], "button")] == ["PDCA", "PDCA*", "BCD-g"]
        assert len(within(page[name], "text", "tick")) >= 6
    # One family, one colour; the strongest setting is dashed.
    pdca, strongest, ours = within(page["own-curves-curves-chart"], "path", "curve")
    assert ["s0" in e["class"].split() for e in (pdca, strongest, ours)] == [True, True, False]
    assert ["dashed" in e["class"].split() for e in (pdca, strongest, ours)] == [False, True, False]
    assert [e["href"] for e in page.all if e["tag"] == "a"] == ["#target-own-curves", "#target-own-histories"]


def test_a_logarithmic_scale_is_one(rerun, profile):
    page = Tree(browse(rerun / "index.html", profile, "--dump-dom")[0])
    chart = page["own-histories-histories-chart"]
    below = max(float(e["y"]) for e in within(chart, "text", "tick"))
    ticks = [
        (float(e["text"].replace("−", "-")), float(e["x"]))
        for e in within(chart, "text", "tick")
        if float(e["y"]) == below
    ]
    values, places = np.array(ticks).T
    slopes = np.diff(places) / np.diff(np.log10(values))
    assert len(values) >= 3
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-6)


def test_the_tables_of_a_rerun_sort_and_hold_what_the_csv_holds(rerun, profile):
    rows = rows_of(rerun / "own-curves-nnspca.csv")
    asked = "#sort=own-curves-nnspca-table:BCD-g:descending"
    text, complaints = browse(rerun / "index.html", profile, "--dump-dom", hash=asked)
    assert complaints == []
    table = Tree(text)["own-curves-nnspca-table"]
    heads = [e["data-column"] for e in within(table, "th")]
    assert heads == list(rows[0])
    cells = [[e.get("data-value", e["text"]) for e in within(row, "td")] for row in within(table, "tr")[1:]]
    shown = [dict(zip(heads, row, strict=True)) for row in cells]
    by_value = sorted(rows, key=lambda row: -float(row["BCD-g"]))
    assert [row["s"] for row in by_value] != [row["s"] for row in rows]
    for ours, theirs in zip(shown, by_value, strict=True):
        assert ours["set"] == theirs["set"]
        assert {h: float(ours[h]) for h in heads[1:]} == {h: float(theirs[h]) for h in heads[1:]}


def test_the_values_of_a_chart_are_those_of_the_csv(rerun, profile):
    rows = rows_of(rerun / "own-curves-dcpb2.csv")
    name = "own-curves-curves-chart"
    asked = f"#panel={name}:DCPB2 in small-a&hide={name}:PDCA*&at={name}:1"
    text, complaints = browse(rerun / "index.html", profile, "--dump-dom", hash=asked.replace(" ", "%20"))
    assert complaints == []
    chart = Tree(text)[name]
    assert len(within(chart, "path", "curve")) == 2
    lines = [e["text"] for e in within(within(chart, "div", "tip")[0], "div")]
    assert within(chart, "div", "tip")[0]["text"].startswith("c: 4")
    for line, method in zip(lines, ("PDCA", "BCD-g"), strict=True):
        said = re.fullmatch(rf"{method}: (\S+)( \(\S+ to \S+\))?", line).group(1)
        assert float(said.replace("−", "-")) == pytest.approx(float(rows[1][method]), rel=1e-4)

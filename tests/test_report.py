import json
import math
import re
import time
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import counterpoise as cp
from counterpoise.backtest import backtest
from counterpoise.estimators.binary import BinaryLeastSquares
from counterpoise.estimators.pca import NonnegativeSparsePCA, SparsePCA
from counterpoise.estimators.split import balanced_split
from counterpoise.estimators.tracking import IndexTracker
from counterpoise.findings import rhythm_of
from counterpoise.report import (
    Axis,
    Cell,
    Column,
    Panel,
    Report,
    Series,
    as_text,
    components_report,
    holdings_table,
    loadings_table,
    rounded_up,
    split_report,
    tracking_claims,
    tracking_report,
)
from counterpoise.sentences import in_column

EVIL = "</script><script>alert('x')</script><img src=x onerror=alert(1)> & \"quoted\" \u2028"


class Page(HTMLParser):
    """What a browser would find: tables by id, charts by id, and every tag."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.tags, self.ids, self.texts = {}, [], [], []
        self._table = self._row = self._cell = None
        self.feed(text)
        data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
        self.charts = json.loads(data.group(1))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "table":
            self._table = self.tables.setdefault(attributes["id"], [])
        elif tag == "tr":
            self._row = []
        elif tag in ("td", "th"):
            self._cell = {"text": "", **attributes}

    def handle_data(self, text):
        self.texts.append(text)
        if self._cell is not None:
            self._cell["text"] += text

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._row.append(self._cell)
            self._cell = None
        elif tag == "tr":
            self._table.append(self._row)

    def column(self, table, name):
        heads, *rows = self.tables[table]
        k = [head["text"] for head in heads].index(name)
        return [row[k].get("data-value", row[k]["text"]) for row in rows]


@pytest.fixture(scope="module")
def market():
    rng = np.random.default_rng(0)
    days = pd.bdate_range("2024-01-02", periods=60, name="date")
    names = ["AAA", "BBB", "CCC", "DDD", "EEE", "FFF"]
    returns = pd.DataFrame(0.01 * rng.standard_normal((60, 6)) + 0.01 * rng.standard_normal((60, 1)), days, names)
    return returns, (returns @ rng.dirichlet(np.ones(6))).rename("SPX")


def test_it_is_one_file_that_loads_nothing():
    report = Report("A title", "counterpoise demo", {"seed": 0})
    page = Page(report.html())
    assert not [a for _, a in page.tags if "src" in a or "href" in a]
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    urls = set(re.findall(r"https?://[^\s\"']+", report.html()))
    assert urls == {"http://www.w3.org/2000/svg"}
    assert report.html() == report.html()


def test_it_says_how_to_repeat_it():
    report = Report("A title", "counterpoise track 'my prices.csv' --index SPX", {"seed": 0, "missing": "refuse"})
    page = Page(report.html())
    assert "counterpoise track 'my prices.csv' --index SPX" in page.texts
    assert {"seed", "0", "missing", "refuse"} <= set(page.texts)


def test_everything_is_escaped():
    report = Report(EVIL, EVIL, {EVIL: EVIL})
    report.headline(EVIL, EVIL, EVIL)
    report.heading(EVIL)
    report.paragraphs(EVIL)
    report.table("t", EVIL, [Column(EVIL), Column("n", "number")], [[EVIL, 1.0]], EVIL)
    report.chart("c", EVIL, "bar", Axis(EVIL), Axis(EVIL), [Series(EVIL, [1.0])], [EVIL], note=EVIL)
    report.chart("p", EVIL, "scatter", Axis(EVIL), Axis(EVIL), [Series(EVIL, [1.0], [2.0], [EVIL])])
    text = report.html()
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert "img" not in [tag for tag, _ in page.tags]
    assert not [a for _, a in page.tags if any(name.startswith("on") for name in a)]
    assert page.charts["c"]["categories"] == [EVIL]
    assert page.charts["p"]["series"][0]["labels"] == [EVIL]
    assert page.tables["t"][1][0]["text"] == EVIL


def test_missing_values_are_dashes_and_nulls():
    report = Report("A title")
    columns = [Column("name"), Column("weight", "percent"), Column("mixed", "number")]
    report.table("t", "T", columns, [["a", math.nan, Cell(0.5, "percent")], [None, None, 2.0]])
    days = [pd.Timestamp("2024-01-02"), pd.NaT]
    series = [Series("s", [np.float64(1.0), math.inf], [math.nan, np.int64(2)])]
    report.chart("c", "C", "line", Axis("x"), Axis("y"), series, marks=days)
    page = Page(report.html())
    assert [cell["text"] for cell in page.tables["t"][1]] == ["a", "–", "50.00 %"]
    assert page.tables["t"][1][2]["data-value"] == "0.5"
    assert [cell["text"] for cell in page.tables["t"][2]] == ["–", "–", "2"]
    assert page.charts["c"]["series"][0]["x"] == [1.0, None]
    assert page.charts["c"]["series"][0]["y"] == [None, 2]
    assert page.charts["c"]["marks"] == ["2024-01-02", None]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (0.12345, "percent", "12.35 %"),
        (0.00012345, "percent", "0.0123 %"),
        (0.0, "percent", "0.00 %"),
        (12345.0, "whole", "12,345"),
        (0.123456, "number", "0.1235"),
    ],
)
def test_numbers_as_text(value, kind, text):
    assert as_text(value, kind) == text


def test_bad_parts_are_refused_with_a_sentence():
    report = Report("A title")
    report.table("weights", "T", [Column("a")], [])
    with pytest.raises(ValueError, match="name is 'weights', which is taken"):
        report.table("weights", "T", [Column("a")], [])
    with pytest.raises(ValueError, match="name is 'a b'; use letters"):
        report.table("a b", "T", [Column("a")], [])
    with pytest.raises(ValueError, match="The format of 'a' is 'euro'; use one of text"):
        report.table("other", "T", [Column("a", "euro")], [])
    with pytest.raises(ValueError, match="kind is 'pie'; it must be one of line"):
        report.chart("c", "C", "pie", Axis("x"), Axis("y"), [Series("s", [1])])
    with pytest.raises(ValueError, match="has no series"):
        report.chart("c", "C", "bar", Axis("x"), Axis("y"), [])
    with pytest.raises(ValueError, match="The series 's' of 'c' has 1 values for 2 places"):
        report.chart("c", "C", "bar", Axis("x"), Axis("y"), [Series("s", [1.0])], ["a", "b"])


def test_panels_share_a_place_and_keep_their_bands():
    report = Report("A title")
    series = Series("mean", [1.0, 2.0], [3.0, 4.0], low=[2.0, 3.0], high=np.array([5.0, math.inf]), family="f")
    panels = [Panel("one", Axis("s"), Axis("F", "log"), [series]), Panel("two", Axis("c"), Axis("F"), [series])]
    report.panels("curves", "Curves", "line", panels, "A note.")
    page = Page(report.html())
    first, second = page.charts["curves"]["panels"]
    assert (first["label"], first["y"]["kind"], second["x"]["label"]) == ("one", "log", "c")
    assert first["series"] == second["series"]
    assert (first["series"][0]["low"], first["series"][0]["high"]) == ([2.0, 3.0], [5.0, None])
    assert first["series"][0]["family"] == "f"
    assert page.ids.count("curves") == 1
    with pytest.raises(ValueError, match="The chart 'none' has no panels"):
        report.panels("none", "T", "line", [])
    short = series._replace(low=[1.0])
    with pytest.raises(ValueError, match="The series 'mean' of 'other' has 2 values for 2 places, 1 of them low"):
        report.panels("other", "T", "line", [Panel("one", Axis("s"), Axis("F"), [short])])


def test_named_sections_make_a_list_of_contents():
    report = Report("A title")
    report.heading("One & only", "one")
    assert "<nav" not in report.html()
    report.heading("Two", "two")
    report.subheading("Part")
    report.heading("Unlisted")
    page = Page(report.html())
    assert [a["href"] for tag, a in page.tags if tag == "a"] == ["#one", "#two"]
    assert {"one", "two"} <= set(page.ids)
    assert [tag for tag, _ in page.tags].count("h3") == 1
    with pytest.raises(ValueError, match="name is 'one', which is taken"):
        report.heading("Again", "one")


def test_cells_may_have_words_of_their_own_and_be_bold():
    report = Report("A title")
    cells = [Cell(0.125, "long", "12.5%"), Cell(1.23456789, "long", strong=True)]
    report.table("t", "T", [Column("a", "number"), Column("b", "long")], [cells])
    first, second = Page(report.html()).tables["t"][1]
    assert (first["text"], first["data-value"], first["class"]) == ("12.5%", "0.125", "number")
    assert (second["text"], second["data-value"], second["class"]) == ("1.2346", "1.23456789", "number strong")


@pytest.mark.parametrize("gap", [1.41e-9, 9.99e-9, 2.0])
def test_bounds_are_rounded_up(gap):
    assert gap <= float(rounded_up(gap)) <= 1.1 * gap


@pytest.mark.parametrize(("step", "periods"), [("B", 252.0), ("W", 52.0), ("MS", 12.0), ("QS", 4.0), ("YS", None)])
def test_rows_a_year(step, periods):
    assert rhythm_of(pd.date_range("2010-01-01", periods=12, freq=step)).periods == periods


def test_rows_a_year_need_days():
    assert rhythm_of(None).periods is None
    assert rhythm_of(pd.RangeIndex(9)).periods is None


def test_a_trackers_report_shows_its_numbers(market, tmp_path):
    returns, index = market
    before = {"AAA": 0.5, "GONE": 0.5}
    groups = {"AAA": "x", "BBB": "x", "CCC": "y"}
    tracker = IndexTracker(
        3, groups=groups, previous_weights=before, transaction_cost=1e-4, method="swap", random_state=0
    ).fit(returns, index)
    report = tracking_report(tracker, returns, index, notes=["Left out one day."], command="counterpoise track")
    page = Page(report.write(tmp_path / "report.html").read_text("utf-8"))
    held = tracker.weights_[tracker.weights_ != 0.0].sort_values(ascending=False)
    assert page.column("weights", "name")[: len(held)] == list(held.index)
    assert [float(value) for value in page.column("weights", "weight")][: len(held)] == list(held)
    assert "GONE" in page.column("weights", "name")
    assert page.charts["bars"]["series"][0]["x"][: len(held)] == list(held)
    assert page.charts["fit-growth"]["series"][0]["x"][:2] == ["2024-01-01", "2024-01-02"]
    grown = [1.0, *np.cumprod(1.0 + tracker.predict(returns))]
    np.testing.assert_allclose(page.charts["fit-growth"]["series"][1]["y"], grown, rtol=0, atol=0)
    assert sum(page.charts["groups"]["series"][0]["x"]) == pytest.approx(1.0)
    assert "Left out one day." in page.texts
    assert any("Proved: no change of any two of the 6 weights" in text for text in page.texts)
    labels = {label for label, _, _ in report.headlines}
    assert {"names held", "tracking error of the fit", "turnover", "certificate"} <= labels
    assert dict((label, value) for label, value, _ in report.headlines)["names held"] == str(len(held))
    assert sorted(set(page.ids)) == sorted(page.ids)


def test_a_backtest_comes_first(market):
    returns, index = market
    tracker = IndexTracker(3, method="bcd-g", random_state=0)
    rolled = backtest(tracker, returns, index, 30, 10, cost=0.001)
    page = Page(tracking_report(tracker.fit(returns, index), returns, index, backtest=rolled).html())
    assert page.ids.index("out-growth") < page.ids.index("fit-growth")
    assert page.charts["out-growth"]["series"][1]["y"] == [1.0, *rolled.cumulative["portfolio"]]
    assert page.charts["out-growth"]["marks"] == [str(day.date()) for day in rolled.rebalances]
    assert [float(value) for value in page.column("rebalances", "turnover")] == list(rolled.turnover)
    figures = dict(zip(page.column("summary", "figure"), page.column("summary", "value"), strict=True))
    assert float(figures["tracking error"]) == rolled.tracking_error
    assert float(figures["tracking error annual"]) == rolled.annual_tracking_error(252.0)


def test_arrays_have_rows_and_positions_for_names(market):
    returns, index = (np.asarray(part) for part in market)
    tracker = IndexTracker(2, method="bcd-g", previous_weights=np.full(6, 1 / 6), random_state=0).fit(returns, index)
    rolled = backtest(tracker, returns, index, 40, 10)
    page = Page(tracking_report(tracker, returns, index, backtest=rolled).html())
    assert page.charts["fit-growth"]["x"] == {"label": "row", "kind": "number"}
    assert page.charts["fit-growth"]["series"][0]["x"][:2] == [0, 1]
    assert [int(name) for name in page.column("weights", "name")[:2]] == list(np.argsort(-tracker.weights_)[:2])
    assert page.charts["out-growth"]["marks"] == []
    assert holdings_table(tracker).rows[0][1] == tracker.weights_.max()


def test_claims_do_not_say_more_than_is_known(market):
    tracker = IndexTracker(3, method="bcd-g", random_state=0).fit(*market)
    assert len(tracking_claims(tracker)) == 2
    tracker.result_["success"] = False
    tracker.cws_gap_ = 0.25
    assert re.search(r"^Not settled: .* by up to 2.5e-1", tracking_claims(tracker)[0])
    tracker.cws_gap_ = math.nan
    assert "nothing is proved" in tracking_claims(tracker)[0]
    tracker.result_["success"], tracker.cws_gap_ = True, 0.0
    assert tracking_claims(tracker)[0].endswith("at all.")
    tracker.cws_gap_ = 3.2e-34
    assert tracking_claims(tracker)[0].endswith("by anything measurable.")


def test_a_report_of_components_shows_its_numbers(rng):
    X = rng.standard_normal((30, 2)) @ np.array([[3, 3, 3, 0, 0, 0.0], [0, 0, 0, 1, 1, 0]])
    X += 0.1 * rng.standard_normal((30, 6))
    pca = NonnegativeSparsePCA(2, [3, 2], random_state=0).fit(X)
    report = components_report(pca, X, names=list("abcdef"), rows=[f"r{k}" for k in range(30)])
    page = Page(report.html())
    table = loadings_table(pca, list("abcdef")).rows
    assert page.column("loadings", "feature") == [row[1] for row in table]
    assert [float(value) for value in page.column("loadings", "loading")] == [row[2] for row in table]
    assert page.charts["variance"]["series"][0]["x"] == list(pca.explained_variance_ratio_)
    ordinary = page.charts["variance"]["series"][1]["x"]
    assert sum(ordinary) >= sum(pca.explained_variance_ratio_) - 1e-12
    assert page.charts["scores"]["series"][0]["labels"][0] == "r0"
    assert page.charts["scores"]["series"][0]["y"] == list(pca.transform(X)[:, 1])
    assert loadings_table(pca).rows[0][1] in [f"x{k}" for k in range(6)]
    without = Page(components_report(pca).html())
    assert "scores" not in without.charts
    assert len(without.charts["variance"]["series"]) == 1


@pytest.mark.parametrize("draws", [1, 6])
def test_a_report_of_a_split_shows_its_numbers(rng, draws):
    table = pd.DataFrame({"age": rng.normal(50, 9, 12), "sex": ["f", "m"] * 6})
    split = balanced_split(table, 6, n_draws=draws, random_state=0)
    page = Page(split_report(split).html())
    assert page.column("balance", "covariate") == list(split.balance.index)
    for name in ("mean 0", "mean 1", "random", "difference"):
        assert [float(value) for value in page.column("balance", name)] == list(split.balance[name])
    (dots,) = page.charts["balance-dots"]["series"]
    assert max(dots["x"]) == split.max_difference
    assert page.charts["balance-dots"]["marks"] == [pytest.approx(split.balance["random"].max())]
    assert ("draws" in page.charts) == (draws > 1)
    words = " ".join(page.texts)
    assert ("drawn at random from 12 near-optimal ones" in words) == (draws > 1)


# From Python.


def test_a_tracker_reports_on_the_rows_of_its_fit(market, tmp_path):
    returns, index = market
    tracker = IndexTracker(3, method="bcd-g", random_state=0).fit(returns, index)
    path = tracker.report(tmp_path / "report.html")
    assert path == tmp_path / "report.html"
    page = Page(path.read_text("utf-8"))
    shown = page.charts["fit-growth"]["series"]
    assert shown[0]["y"] == [1.0, *np.cumprod(1.0 + index)]
    assert shown[1]["y"] == pytest.approx([1.0, *np.cumprod(1.0 + returns @ tracker.weights_)], rel=1e-14)
    other = Page(tracker.report(tmp_path / "other.html", returns[:9], index[:9], title="Nine").read_text("utf-8"))
    assert len(other.charts["fit-growth"]["series"][0]["x"]) == 10 and "Nine" in other.texts
    with pytest.raises(Exception, match="not fitted"):
        IndexTracker().report(tmp_path / "none.html")


def test_groups_have_limits_and_weights_of_the_index(market):
    returns, index = market
    groups = dict(zip(returns.columns, ["x", "x", "y", "y", "z", "z"], strict=True))
    tracker = IndexTracker(
        4, groups=groups, group_limits={"x": (0.1, 0.4), "y": 0.3}, previous_weights={"AAA": 1.0}, random_state=0
    ).fit(returns, index)
    in_index = {name: 1 / 6 for name in returns.columns}
    page = Page(tracking_report(tracker, index_weights=in_index).html())
    rows = {row[0]["text"]: row for row in page.tables["group-weights"][1:]}
    heads = [head["text"] for head in page.tables["group-weights"][0]]
    assert heads == ["group", "weight", "index", "before", "change", "low", "high"]
    for group in "xyz":
        held = sum(weight for name, weight in tracker.weights_.items() if groups[name] == group)
        assert float(rows[group][1]["data-value"]) == pytest.approx(held)
        assert float(rows[group][2]["data-value"]) == pytest.approx(1 / 3)
    assert [rows["x"][k]["text"] for k in (3, 5, 6)] == ["100.00 %", "10.00 %", "40.00 %"]
    assert [rows["y"][k]["text"] for k in (5, 6)] == ["30.00 %", "30.00 %"]
    assert [rows["z"][k]["text"] for k in (5, 6)] == ["–", "–"]
    weight = page.charts["groups"]["series"][0]
    assert set(zip(weight["low"], weight["high"], strict=True)) == {(0.1, 0.4), (0.3, 0.3), (None, None)}


def test_the_certificate_is_the_first_card_and_cards_fill_their_rows(market):
    tracker = IndexTracker(3, method="bcd-g", random_state=0).fit(*market)
    report = tracking_report(tracker)
    assert report.headlines[0][0] == "certificate"
    assert 'class="headlines in-4"' in report.html()
    for count, columns in ((1, 1), (2, 2), (3, 3), (5, 5), (6, 3), (8, 4), (9, 3)):
        report.headlines = [("a", "b", "")] * count
        assert f"headlines in-{columns}{' odd' * (count % 2)}" in report.html()


def test_a_page_has_its_day_and_version(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert '<p class="made">2023-11-1' in Report("T").html()
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert f"{time.strftime('%Y-%m-%d')}, counterpoise {cp.__version__}" in Report("T").html()


@pytest.mark.parametrize(
    ("values", "kind", "texts"),
    [
        ([0.125, 0.00123, 0.0], "percent", ["12.50 %", "0.12 %", "0.00 %"]),
        ([0.00382, 0.0029], "percent", ["0.382 %", "0.290 %"]),
        ([0.5322, 0.51, -0.3188], "number", ["0.5322", "0.5100", "−0.3188"]),
        ([1.0, 0.2142, -0.005338], "number", ["1.000", "0.214", "−0.005"]),
        ([22810.3, 0.5, 51.234], "number", ["22810", "0.5000", "51.23"]),
        ([1.193e-5, 0.0, 6.4e-11], "number", ["1.193e−05", "0", "6.400e−11"]),
        ([3.0, 12.0], "number", ["3", "12"]),
        ([1234567, 3], "whole", ["1,234,567", "3"]),
        ([], "number", []),
    ],
)
def test_numbers_of_a_column_have_equal_digits(values, kind, texts):
    assert in_column(values, kind) == texts


def test_long_tables_scroll_and_short_ones_are_whole():
    for count, kind in ((60, "wide"), (61, "wide tall")):
        report = Report("T")
        report.table("t", "T", [Column("a", "whole")], [[k] for k in range(count)])
        assert f'<div class="{kind}" tabindex' in report.html()


def test_components_are_drawn_on_one_scale(rng):
    X = pd.DataFrame(rng.standard_normal((30, 6)), columns=["a", "a long name", *"cdef"])
    pca = SparsePCA(2, 2, random_state=0).fit(X)
    page = Page(components_report(pca, X).html())
    first, second = page.charts["component-1"], page.charts["component-2"]
    assert first["x"] == second["x"] and first["letters"] == second["letters"]
    assert first["x"]["reach"] == [min(0.0, pca.components_.min()), max(0.0, pca.components_.max())]


def test_strata_are_counted(rng, tmp_path):
    table = pd.DataFrame({"age": rng.normal(50, 9, 12), "sex": ["f", "m"] * 6, "site": ["n"] * 4 + ["s"] * 8})
    split = balanced_split(table, 6, strata="site", random_state=0)
    page = Page(split.report(tmp_path / "split.html", title="Mine").read_text("utf-8"))
    assert [[cell["text"] for cell in row] for row in page.tables["strata"][1:]] == [
        ["n", "2", "2", "4"],
        ["s", "4", "4", "8"],
    ]
    assert page.column("balance", "covariate") == ["age", "sex = m"]


def test_runs_backtests_and_binary_fits_have_pages(market, tmp_path, rng):
    returns, index = market
    rolled = backtest(IndexTracker(2, method="bcd-g", random_state=0), returns, index, 40, 10, cost=0.001)
    page = Page(rolled.report(tmp_path / "backtest.html").read_text("utf-8"))
    assert page.charts["out-growth"]["series"][1]["y"] == [1.0, *rolled.cumulative["portfolio"]]
    assert rolled.summary()["tracking_error_annual"] == rolled.annual_tracking_error(252.0)
    tracker = IndexTracker(2, method="bcd-g", random_state=0).fit(returns, index)
    page = Page(tracker.result_.report(tmp_path / "run.html", names=returns.columns).read_text("utf-8"))
    assert {row[0]["text"] for row in page.tables["coordinates"][1:]} == set(tracker.support_)
    with pytest.raises(ValueError, match="names has 2 names, but x has 6 coordinates"):
        tracker.result_.report(tmp_path / "bad.html", names=["a", "b"])
    fitted = BinaryLeastSquares(random_state=0).fit(rng.standard_normal((9, 5)), rng.standard_normal(9))
    page = Page(fitted.report(tmp_path / "binary.html").read_text("utf-8"))
    assert len(page.tables["coordinates"]) == 6
    pca = SparsePCA(1, 2, random_state=0).fit(returns)
    assert "component-1" in Page(pca.report(tmp_path / "pca.html").read_text("utf-8")).charts


def test_long_settings_are_told_by_their_length():
    settings = {"names": list(range(9)), "few": pd.Series({"a": 0.25, "b": 0.75}), "work": None}
    page = Report("T", "", settings).html()
    assert "<dd>list of 9</dd>" in page and "<dd>None</dd>" in page
    assert "<dd>{&#x27;a&#x27;: 0.25, &#x27;b&#x27;: 0.75}</dd>" in page


def test_a_run_without_a_proof_has_no_certificate(tmp_path):
    rng = np.random.default_rng(0)
    problem = cp.Problem(cp.LeastSquares(rng.standard_normal((20, 30)), np.ones(20)), cp.Bounds(0, 1), u=cp.Sum(1))
    result = cp.minimize(problem, max_iter=1)
    assert not result.success
    page = result.report(tmp_path / "run.html").read_text("utf-8")
    assert "<dt>certificate</dt><dd>none</dd><dd>iteration limit" in page


@pytest.mark.parametrize("method", ["bcd-g", "swap", "search"])
def test_certified_is_not_read_as_optimal(market, tmp_path, method):
    returns, index = market
    tracker = IndexTracker(2, method=method, random_state=0).fit(returns, index)
    assert tracker.result_.status.name in ("CERTIFIED", "SWAP_OPTIMAL")
    label, value, note = tracking_report(tracker).headlines[0]
    assert (label, value[:38]) == ("certificate", "no trade between two names improves it")
    assert note.endswith("another portfolio may be better")
    whole = IndexTracker(6, method="search", random_state=0).fit(returns, index)
    assert whole.result_.status.name == "OPTIMAL"
    assert tracking_report(whole).headlines[0][1] == "optimal: no other portfolio is better"
    assert tracking_claims(whole)[-1] == "Proved: no other portfolio within the rules has a lower objective."
    run = cp.minimize(tracker.problem_, method=method, seed=0)
    said = run.report(tmp_path / "run.html").read_text("utf-8")
    assert "<dt>certificate</dt><dd>no change of two coordinates improves it" in said
    assert "another point may be better" in said


@pytest.mark.parametrize("n_components", [1, 3])
def test_certified_components_are_not_read_as_optimal(rng, n_components):
    pca = SparsePCA(n_components, n_nonzero=3, method="bcd-g", random_state=0).fit(rng.standard_normal((30, 8)))
    for result in pca.results_:
        result["status"], result["success"] = cp.Status.CERTIFIED, True
    pca.results_[-1]["status"] = cp.Status.SWAP_OPTIMAL
    report = components_report(pca)
    label, value, note = report.headlines[0]
    assert (label, note) == ("certificate", "other loadings may be better")
    assert value.startswith("no change of two loadings improves ")
    page = Page(report.html())
    assert set(page.column("components", "ended as")) <= {
        "no pair of loadings improves it",
        "no exchange of loadings improves it",
    }
    assert "certified" not in " ".join([*page.texts, *page.column("components", "ended as")])
    pca.results_[0]["status"], pca.results_[0]["success"] = cp.Status.TIME_LIMIT, False
    value = components_report(pca).headlines[0][1]
    assert value == ("none" if n_components == 1 else "no change of two loadings improves 2 of 3 components")


def test_the_page_says_what_was_sold(market):
    returns, index = market
    returns = returns.copy()
    returns.iloc[45:, 0] = np.nan
    tracker = IndexTracker(6, random_state=0, include=[returns.columns[0]])
    rolled = backtest(tracker, returns, index, 40, 10)
    report = tracking_report(rolled.trackers[-1], backtest=rolled)
    said = f"1 holding was sold at the last price, because no more followed: {returns.columns[0]} ({returns.index[44].date()})."
    assert said in Page(report.html()).texts

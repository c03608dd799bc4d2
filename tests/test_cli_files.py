"""Files as people have them, through the real entry point: what they hold is read, or refused in one sentence."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from counterpoise.cli import app

DAYS = pd.bdate_range("2024-01-02", periods=40, name="Date")


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def said(*arguments):
    """What a command prints as JSON."""
    found = run(*arguments, "--json", "--force", "--output", "out")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def refused(*arguments):
    """The sentence of a command that refuses."""
    found = run(*arguments)
    assert (found.exit_code, found.stdout) == (2, ""), found.output
    assert found.stderr.count("\n") == 1
    return found.stderr.strip()


def prices():
    rng = np.random.default_rng(1)
    steps = 1.0 + 0.01 * rng.standard_normal((40, 5)) + 0.01 * rng.standard_normal((40, 1))
    frame = pd.DataFrame(100.0 * np.cumprod(steps, axis=0), DAYS, list("ABCDE")).round(4)
    frame["SPX"] = (frame @ [0.4, 0.3, 0.1, 0.1, 0.1]).round(4)
    return frame


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """The weights that the plain file gives, in the folder where commands run."""
    monkeypatch.chdir(tmp_path)
    prices().to_csv("prices.csv")
    return said("track", "prices.csv", "--index", "SPX", "--assets", "3")["weights"]


# Days.


@pytest.mark.parametrize(
    "form",
    ["%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y 16:00", "%d/%m/%Y 4:00 PM", "%Y/%m/%d", "%Y.%m.%d", "%d-%b-%y", "%b %d, %Y"],
)
def test_days_in_many_forms(weights, form):
    frame = prices()
    frame.index = pd.Index(frame.index.strftime(form), name="Date")
    frame.to_csv("days.csv")
    found = said("track", "days.csv", "--index", "SPX", "--assets", "3")
    assert (found["weights"], found["last"], found["periods"]) == (weights, "2024-02-26", 252.0)


@pytest.mark.parametrize("form", ["%d/%m/%y", "%m-%d-%y", "%y.%m.%d"])
def test_years_of_two_digits_are_refused(weights, form):
    frame = prices()
    frame.index = pd.Index(frame.index.strftime(form), name="Date")
    frame.to_csv("days.csv")
    first = frame.index[0]
    sentence = f"days.csv, line 2, column 'Date' is '{first}', which has a two-digit year; write dates as 2024-01-31."
    assert refused("track", "days.csv", "--index", "SPX") == sentence


@pytest.mark.parametrize("name", ["Datum", "", "trade_date"])
def test_days_as_numbers_are_no_prices(weights, name):
    frame = prices()
    frame.index = pd.Index(frame.index.strftime("%Y%m%d"), name=name)
    frame.to_csv("days.csv")
    found = said("track", "days.csv", "--index", "SPX", "--assets", "3")
    assert (found["weights"], found["names"], found["last"]) == (weights, 5, "2024-02-26")


def test_shares_in_percent_are_refused(weights):
    pd.DataFrame({"name": list("ABCDE"), "weight": [40.0, 30.0, 10.0, 10.0, 10.0]}).to_csv("index.csv", index=False)
    asked = ("track", "prices.csv", "--index", "SPX")
    sentence = "--index-weights is 40 for 'A'; it must be between 0 and 1."
    assert refused(*asked, "--index-weights", "index.csv") == sentence
    assert refused(*asked, "--previous", "index.csv") == "--previous is 40 for 'A'; it must be between 0 and 1."
    sentence = "--cost is 10; it must be between 0 and 1, and 0.001 is ten basis points."
    assert refused(*asked, "--cost", "10") == sentence


def test_duplicate_days_name_the_file(weights):
    pd.concat([prices(), prices().iloc[[7]]]).to_csv("twice.csv")
    sentence = "twice.csv has more than one row of 2024-01-11; keep one row per day."
    assert refused("track", "twice.csv", "--index", "SPX") == sentence
    prices().drop(columns="SPX").to_csv("stocks.csv")
    pd.concat([prices()[["SPX"]], prices()[["SPX"]].iloc[[7]]]).to_csv("spx.csv")
    sentence = "spx.csv has more than one row of 2024-01-11; keep one row per day."
    assert refused("track", "stocks.csv", "--index", "spx.csv") == sentence


# Names.


def test_tickers_of_digits_keep_their_zeros(weights):
    codes = {name: f"00000{k}" for k, name in enumerate("ABCDE", 1)}
    frame = prices().rename(columns=codes)
    frame.to_csv("wide.csv")
    pd.DataFrame({"name": list(codes.values()), "sector": list("xxyyy")}).to_csv("sectors.csv", index=False)
    pd.DataFrame({"name": list(codes.values()), "weight": 0.2}).to_csv("held.csv", index=False)
    expected = {codes[name]: weight for name, weight in weights.items()}
    tables = ("--groups", "sectors.csv", "--previous", "held.csv")
    found = said("track", "wide.csv", "--index", "SPX", "--assets", "3", *tables)
    assert found["weights"] == pytest.approx(expected)
    long = frame.drop(columns="SPX").rename_axis(columns="ticker").stack().rename("close").reset_index()
    long.to_csv("long.csv", index=False)
    frame[["SPX"]].to_csv("spx.csv")
    assert said("track", "long.csv", "--index", "spx.csv", "--assets", "3")["weights"] == pytest.approx(expected)
    with Path("out/weights.csv").open() as stream:
        assert {row["name"] for row in csv.DictReader(stream)} == set(expected)


def test_names_that_look_like_empty_cells_are_names(weights):
    """NA is National Bank of Canada, and the group of North America; a blank name is an error."""
    called = dict(zip("ABCDE", ["NA", "NULL", "None", "nan", "TRUE "], strict=True))
    expected = {called[name]: weight for name, weight in weights.items()}
    frame = prices().rename(columns=called)
    frame[["SPX"]].to_csv("spx.csv")
    long = frame.drop(columns="SPX").rename_axis(columns="ticker").stack().rename("close").reset_index()
    long.to_csv("long.csv", index=False)
    long.to_parquet("long.parquet")
    long.to_excel("long.xlsx", index=False)
    for form in ("csv", "parquet", "xlsx"):
        found = said("track", f"long.{form}", "--index", "spx.csv", "--assets", "3", "--force")
        assert found["weights"] == pytest.approx(expected), form
    sectors = pd.DataFrame({"ticker": list(called.values()), "sector": ["NA", "NA", "x", "x", "x"]})
    sectors.to_csv("sectors.csv", index=False)
    Path("limits.csv").write_text("sector,low,high\nNA,0.7,0.8\n")
    tables = ("--previous", "out/weights.csv", "--groups", "sectors.csv", "--group-limits", "limits.csv")
    found = said("track", "long.csv", "--index", "spx.csv", "--assets", "3", "--force", *tables)
    assert 0.7 - 1e-9 <= sum(found["weights"].get(name, 0.0) for name in ("NA", "NULL")) <= 0.8 + 1e-9
    assert found["notes"] == ["Read long.csv as a long table: names from 'ticker', prices from 'close'."]
    Path("held.csv").write_text("name,weight\nNA,0.5\n ,0.5\n")
    sentence = "held.csv, line 3, column 'name' is empty; every row needs its name."
    assert refused("track", "long.csv", "--index", "spx.csv", "--assets", "3", "--previous", "held.csv") == sentence


def test_a_comma_in_a_name_and_decimal_commas(weights):
    frame = prices().rename(columns={"A": "Münchener Rück, AG"})
    frame.to_csv("german.csv", sep=";", decimal=",", date_format="%d.%m.%Y", encoding="utf-8-sig")
    found = said("track", "german.csv", "--index", "SPX", "--assets", "3")
    assert found["weights"] == {name.replace("A", "Münchener Rück, AG"): w for name, w in weights.items()}
    frame.to_csv("unicode-text.csv", encoding="utf-16")
    assert said("track", "unicode-text.csv", "--index", "SPX", "--assets", "3")["weights"] == found["weights"]


# Columns and rows.


def test_a_column_of_words_can_be_ignored(weights):
    prices().assign(Note="ok", Desk="x").to_csv("notes.csv")
    sentence = (
        "Column 'Note' of notes.csv holds words such as 'ok'; prices must be numbers without a unit; correct the "
        "column, or leave it out with --ignore Note."
    )
    assert refused("track", "notes.csv", "--index", "SPX") == sentence
    found = said("track", "notes.csv", "--index", "SPX", "--assets", "3", "--ignore", "Note,Desk")
    assert found["weights"] == weights
    sentence = "--ignore is 'Notes', but notes.csv has no such column; did you mean 'Note'?"
    assert refused("track", "notes.csv", "--index", "SPX", "--ignore", "Notes") == sentence


def test_the_first_of_several_sheets_is_read(weights):
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter("prices.xlsx") as book:
        prices().to_excel(book, sheet_name="Close")
        prices().mul(2.0).to_excel(book, sheet_name="Open")
    found = said("track", "prices.xlsx", "--index", "SPX", "--assets", "3")
    assert found["weights"] == weights
    assert found["notes"] == ["Read 'Close', the first of 2 sheets of prices.xlsx."]


def test_few_rows_are_warned_of(weights):
    prices().iloc[:4].to_csv("few.csv")
    found = run("track", "few.csv", "--index", "SPX", "--assets", "3", "--force")
    assert found.exit_code == 0
    assert found.stderr.startswith("Warning: The portfolio is fitted on 3 rows of returns and may hold 3 names: so few")


# The other commands.


@pytest.fixture
def units(tmp_path, monkeypatch):
    """Units of an experiment, as a German spreadsheet saves them, and what the plain file gives."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    ages, size = rng.normal(50, 12, 16).round(1), rng.normal(170, 9, 16).round(1)
    frame = pd.DataFrame({"patient": [f"P{k:02d}" for k in range(16)], "age": ages, "Größe": size, "site": [1, 2] * 8})
    frame.to_csv("plain.csv", index=False)
    frame.to_csv("german.csv", index=False, sep=";", decimal=",", encoding="utf-8-sig")
    # Points between thousands and no decimal comma: the marks have to be given.
    Path("marks.csv").write_text(frame.to_csv(index=False, sep="|", decimal=","), encoding="utf-8")
    return said("split", "plain.csv", "--treated", "8", "--seed", "1")


def test_split_reads_german_files(units):
    given = ("--treated", "8", "--seed", "1")
    for file, marks in (
        ("german.csv", ()),
        ("german.csv", ("--decimal", ",", "--separator", ";")),
        ("marks.csv", ("--decimal", ",", "--separator", "|")),
    ):
        found = said("split", file, *given, *marks)
        assert (found["labels"], found["balance"]) == (units["labels"], units["balance"])
    sentence = "--separator and --decimal are both a comma; change one of them."
    assert refused("split", "german.csv", *given, "--decimal", ",", "--separator", ",") == sentence
    assert refused("split", "none.csv", "--treated", "half") == "none.csv does not exist."


def test_split_takes_several_columns_at_once(units):
    found = said("split", "plain.csv", "--treated", "8", "--seed", "1", "--ignore", "age,site")
    assert [row["covariate"] for row in found["balance"]] == ["Größe"]
    found = said("split", "plain.csv", "--treated", "8", "--seed", "1", "--categorical", "site", "--ignore", "age")
    assert [row["covariate"] for row in found["balance"]] == ["Größe", "site = 2"]


def test_the_test_reads_german_files(units):
    said("split", "german.csv", "--treated", "8", "--seed", "1", "--draws", "20")
    outcome = np.random.default_rng(1).normal(0, 1, 16).round(3)
    frame = pd.DataFrame({"patient": [f"P{k:02d}" for k in range(16)], "pain": outcome})
    frame.to_csv("plain.csv", index=False)
    frame.to_csv("german.csv", index=False, sep=";", decimal=",")
    asked = ("out/draws.csv", "german.csv", "--outcome", "pain")
    plain = json.loads(run("test", asked[0], "plain.csv", "--outcome", "pain", "--json").stdout)
    for marks in ((), ("--decimal", ",", "--separator", ";")):
        assert json.loads(run("test", *asked, *marks, "--json").stdout)["outcomes"] == plain["outcomes"]
    assert refused("test", "none.csv", "german.csv", "--outcome", "pain") == "none.csv does not exist."
    assert refused("test", asked[0], "none.csv", "--outcome", "pain") == "none.csv does not exist."


def test_data_add_reads_german_returns(weights):
    frame = prices().pct_change().iloc[1:]
    frame.to_csv("german.csv", sep=";", decimal=",", date_format="%d.%m.%Y")
    asked = ("data", "add", "german.csv", "--index", "SPX", "--name", "MINE", "--into", "sets")
    found = run(*asked, "--returns", "--decimal", ",", "--separator", ";", "--ignore", "E")
    assert found.exit_code == 0, found.output
    assert "39 returns of 4 stocks" in found.output
    np.testing.assert_allclose(np.load("sets/index_tracking/MINE.npz")["R"], frame[list("ABCD")], rtol=1e-12)


def test_words_that_nearly_all_differ_are_told_of(units):
    frame = pd.read_csv("plain.csv").assign(note=[f"n{k % 14}" for k in range(16)])
    frame.to_csv("notes.csv", index=False)
    found = said("split", "notes.csv", "--treated", "8")
    sentence = "Column 'note' has 14 different values in 16 units, too many to balance; --ignore note leaves it out."
    assert sentence in found["notes"]


def test_pca_tells_of_a_column_that_hides_the_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((20, 4)), columns=list("abcd"))
    X.assign(b=1e6 * X["b"]).to_csv("cells.csv", index=False)
    asked = ("pca", "cells.csv", "--components", "1", "--nonzero", "2")
    sentence = "Column 'b' has 100 % of the variance; --standardise gives all columns the same weight."
    assert said(*asked)["notes"] == [sentence]
    assert said(*asked, "--standardise")["notes"] == []


@pytest.mark.parametrize("suffix", [".tsv", ".xlsx"])
def test_solve_reads_the_tables_that_track_reads(weights, suffix):
    frame = prices().pct_change().iloc[1:]
    if suffix == ".xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(f"returns{suffix}")
    else:
        frame.to_csv(f"returns{suffix}", sep="\t")
    frame.to_csv("returns.csv")
    asked = ("--problem", "sit", "--target", "SPX", "-s", "3", "--json")
    plain, found = (json.loads(run("solve", file, *asked).stdout) for file in ("returns.csv", f"returns{suffix}"))
    assert found["results"][0]["x"] == pytest.approx(plain["results"][0]["x"])
    assert found["notes"] == [f"Left out Date of returns{suffix}, which is not data."]

import contextlib
import csv
import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from counterpoise.cli import app, options
from counterpoise.estimators.tracking import IndexTracker
from counterpoise.tables.prices import to_returns

DAYS = pd.bdate_range("2024-01-02", periods=41, name="date")
NAMES = ["AAA", "BBB", "CCC", "DDD", "EEE"]


def run(*arguments):
    return CliRunner().invoke(app, ["track", *map(str, arguments)])


def rows_of(path):
    with path.open() as stream:
        return list(csv.DictReader(stream))


def prices():
    rng = np.random.default_rng(1)
    steps = 1.0 + 0.01 * rng.standard_normal((41, 5)) + 0.01 * rng.standard_normal((41, 1))
    frame = pd.DataFrame(100.0 * np.cumprod(steps, axis=0), DAYS, NAMES)
    frame["SPX"] = frame @ [0.4, 0.3, 0.1, 0.1, 0.1]
    return frame


def long(frame):
    return frame.rename_axis(columns="ticker").stack().rename("price").reset_index()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The same prices in every form, in the folder where commands run."""
    monkeypatch.chdir(tmp_path)
    frame = prices()
    frame.to_csv("prices.csv")
    frame.to_parquet("prices.parquet")
    long(frame).to_csv("long.csv", index=False)
    frame.drop(columns="SPX").to_csv("stocks.csv")
    frame[["SPX"]].to_csv("spx.csv")
    return tmp_path


@pytest.fixture
def result(folder):
    found = run("prices.csv", "--index", "SPX", "--assets", "2", "--output", "out")
    assert found.exit_code == 0, found.output
    return found


def test_other_measures_than_the_squared_error(folder):
    returns, index, _ = to_returns(prices(), "SPX")
    for asked in ({"measure": "dr"}, {"measure": "hdr", "huber": 0.001}):
        arguments = [part for name, value in asked.items() for part in (f"--{name}", value)]
        found = run("prices.csv", "--index", "SPX", "--assets", "2", "--output", "out", "--force", *arguments)
        assert found.exit_code == 0, found.output
        weights = IndexTracker(2, random_state=0, **asked).fit(returns, index).weights_
        for row in rows_of(Path("out/weights.csv")):
            assert float(row["weight"]) == pytest.approx(weights[row["name"]], abs=1e-9)


def test_it_prints_and_writes_what_the_library_finds(result):
    returns, index, _ = to_returns(prices(), "SPX")
    tracker = IndexTracker(2, random_state=0).fit(returns, index)
    held = tracker.weights_[tracker.weights_ != 0.0].sort_values(ascending=False)
    rows = rows_of(Path("out/weights.csv"))
    assert [row["name"] for row in rows] == list(held.index)
    assert [float(row["weight"]) for row in rows] == pytest.approx(list(held), abs=1e-12)
    for name, weight in held.items():
        assert f"{name} {100.0 * weight:.2f} %" in " ".join(result.output.split())
    assert f"Tracking error of the fit: {100.0 * tracker.tracking_error_:.3g} % a day, " in result.output
    assert "Proved: no change of any two of the 5 weights, within the rules, lowers the objective" in result.output
    assert result.output.endswith("Wrote weights.csv and report.html to out.\n")
    page = Path("out/report.html").read_text("utf-8")
    assert "counterpoise track prices.csv --index SPX --assets 2</code>" in page
    for row in rows:
        assert f'data-value="{float(row["weight"])!r}"' in page


@pytest.mark.parametrize(
    ("file", "index"),
    [("prices.parquet", "SPX"), ("long.csv", "SPX"), ("stocks.csv", "spx.csv"), ("semicolon.csv", "SPX")],
)
def test_every_form_gives_the_same_weights(result, folder, file, index):
    prices().to_csv("semicolon.csv", sep=";")
    found = run(file, "--index", index, "--assets", "2", "--output", "other")
    assert found.exit_code == 0, found.output
    one, two = (rows_of(folder / name / "weights.csv") for name in ("out", "other"))
    assert [row["name"] for row in one] == [row["name"] for row in two]
    assert [float(row["weight"]) for row in one] == pytest.approx([float(row["weight"]) for row in two], abs=1e-9)


def test_json_is_all_there_is_on_stdout(folder):
    arguments = ("prices.csv", "--index", "SPX", "--assets", "2", "--train-until", "2024-02-09", "--json")
    found = run(*arguments, "--output", "out", "--cost", "0.001")
    assert found.exit_code == 0, found.output
    assert found.stderr == ""
    said = json.loads(found.stdout)
    assert sum(said["weights"].values()) == pytest.approx(1.0)
    assert said["last"] == "2024-02-09"
    assert said["backtest"]["rows"] == 40 - said["rows"]
    assert said["certified"] is True
    assert said["files"] == [os.path.join("out", name) for name in ("weights.csv", "report.html")]
    assert {row["name"]: float(row["weight"]) for row in rows_of(folder / "out" / "weights.csv")} == said["weights"]


def test_quiet_says_nothing_and_verbose_more(folder):
    quiet = run("prices.csv", "--index", "SPX", "--assets", "2", "--quiet")
    assert (quiet.exit_code, quiet.output) == (0, "")
    assert (folder / "counterpoise-track" / "weights.csv").exists()
    verbose = run("prices.csv", "--index", "SPX", "--assets", "2", "-v", "--force", "--backtest", "20/10")
    assert verbose.exit_code == 0, verbose.output
    assert "The run ended after" in verbose.output
    assert "rebalances: 2" in verbose.output
    assert "Tracking error out of sample" in verbose.output
    page = (folder / "counterpoise-track" / "report.html").read_text("utf-8")
    assert 'id="rebalances"' in page


def test_rules_come_from_files(folder):
    pd.DataFrame({"ticker": [*NAMES, "ZZZ"], "sector": ["x", "x", "y", "y", "y", "x"]}).to_csv("g.csv", index=False)
    pd.DataFrame({"sector": ["y"], "low": [0.3], "high": [None]}).to_csv("l.csv", index=False)
    pd.DataFrame({"name": ["AAA", "OLD"], "weight": [0.5, 0.5]}).to_csv("p.csv", index=False)
    found = run(
        *("prices.csv", "--index", "SPX", "--assets", "3", "--groups", "g.csv", "--group-limits", "l.csv"),
        *("--previous", "p.csv", "--cost", "0.0001", "--max-weight", "0.6", "--min-weight", "0.05"),
        *("--include", "DDD", "--exclude", "BBB"),
    )
    assert found.exit_code == 0, found.output
    assert "Left out 1 name of g.csv without enough prices: ZZZ." in found.output
    rows = rows_of(folder / "counterpoise-track" / "weights.csv")
    weights = {row["name"]: float(row["weight"]) for row in rows}
    assert {"DDD", "OLD"} <= set(weights)
    assert weights.get("BBB", 0.0) == 0.0
    assert weights["OLD"] == 0.0
    assert sum(float(row["weight"]) for row in rows if row["group"] == "y") >= 0.3 - 1e-9
    assert all(0.05 - 1e-9 <= weight <= 0.6 + 1e-9 for weight in weights.values() if weight)
    assert float(next(row["change"] for row in rows if row["name"] == "OLD")) == -0.5


def test_what_is_left_out_is_said(folder):
    frame = prices()
    frame.iloc[3, 1] = np.nan
    frame.to_csv("gaps.csv")
    frame[["SPX"]].iloc[2:].to_csv("late.csv")
    arguments = ("--index", "late.csv", "--assets", "2", "--missing", "drop-stocks")
    frame.drop(columns="SPX").to_csv("stocks.csv")
    found = run("stocks.csv", *arguments)
    assert found.exit_code == 0, found.output
    assert "Left out 2 days that only the stocks have: 2024-01-02, 2024-01-03." in found.output
    assert "Left out 1 stock with missing prices: BBB." in found.output
    assert "Left out 1 stock with missing prices: BBB." in (folder / "counterpoise-track" / "report.html").read_text(
        "utf-8"
    )


def test_rows_without_days_keep_their_order(folder):
    prices().reset_index(drop=True).to_csv("plain.csv")
    found = run("plain.csv", "--index", "SPX", "--assets", "2", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["notes"] == ["plain.csv has no days; its rows are taken in their order."]
    again = run("plain.csv", "--index", "SPX", "--train-until", "2024-02-01", "--force")
    assert again.exit_code == 2
    assert "the prices have no dates; use --backtest, which counts rows." in again.stderr


def write(name, text):
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())


WIDE = "date,AAA,BBB,SPX\n2024-01-02,1,2,3\n2024-01-03,1.1,2.1,3.1\n2024-01-04,1.2,2.0,3.2\n"
BAD_FILES = {
    "absent": (None, "bad.csv does not exist."),
    "empty": ("", "bad.csv is empty."),
    "blank": ("\n\n", "bad.csv is empty."),
    "binary": (
        b"\x00\x01\x02",
        "bad.csv is not text but a spreadsheet, an archive or another binary file; save it as CSV.",
    ),
    "latin": ("date,Ä,SPX\n".encode("latin-1"), "bad.csv, line 1 is not UTF-8 text; save the file as UTF-8."),
    "ragged": (WIDE + "2024-01-05,1\n", "bad.csv, line 5: 2 fields, but line 1 has 4; all must agree."),
    "names only": ("date,AAA,SPX\n", "bad.csv has a line of names but no rows below it."),
    "no names": ("1,2,3\n4,5,6\n", "bad.csv, line 1 holds numbers only; the first line must be the columns' names."),
    "twice": (
        "date,AAA,AAA,SPX\n2024-01-02,1,2,3\n",
        "bad.csv has more than one column 'AAA', columns 2 and 3; names must be unique.",
    ),
    "nameless": ("date,AAA,,SPX\n2024-01-02,1,2,3\n", "bad.csv: column 3 has no name; give every column one."),
    "word": (WIDE.replace("2.1", "n/c"), "bad.csv, line 3, column 'BBB' is 'n/c'; prices must be numbers."),
    "underscore": (WIDE.replace("2.1", "1_000"), "bad.csv, line 3, column 'BBB' is '1_000'; prices must be numbers."),
    "words": (
        WIDE.replace("2,3", "x,3").replace("2.1", "y").replace("2.0", "z"),
        "Column 'BBB' of bad.csv holds words such as 'x'; prices must be numbers without a unit; correct the column, or leave it out with --ignore BBB.",
    ),
    "quote": ('date,"AAA\n', "bad.csv, line 1: unexpected end of data."),
    "no index": (
        WIDE.replace("SPX", "SPX500"),
        "--index is 'SPX', but bad.csv has no such column; did you mean 'SPX500'?",
    ),
    "no such index": (
        WIDE.replace("SPX", "world"),
        "--index is 'SPX', but bad.csv has no such column; its columns are AAA, BBB, world.",
    ),
    "bad day": (
        WIDE.replace("2024-01-03", "soon"),
        "bad.csv, line 3, column 'date' is 'soon'; it must be a day such as 2024-01-31.",
    ),
    "no day": (WIDE.replace("2024-01-03", ""), "bad.csv, line 3, column 'date' is empty; every row needs its day."),
    "ambiguous days": (
        WIDE.replace("2024-01-0", "1/")
        .replace(",1,", "/2024,1,")
        .replace(",1.1,", "/2024,1.1,")
        .replace("4,1.2", "4/2024,1.2"),
        "bad.csv, line 2, column 'date' is '1/2/2024', which is ambiguous, as are all other dates in the column; "
        "write dates as 2024-01-31.",
    ),
    "day twice": (WIDE + "2024-01-04,1,2,3\n", "bad.csv has more than one row of 2024-01-04; keep one row per day."),
    "few": ("".join(WIDE.splitlines(True)[:3]), "There are 2 days of prices; at least 3 are needed."),
    "one stock": (
        "date,AAA,SPX\n2024-01-02,1,3\n2024-01-03,1,3\n2024-01-04,1,3\n",
        "There is 1 stock; at least 2 are needed.",
    ),
    "gap": (
        WIDE.replace("2.1", ""),
        "1 price is missing, of 1 stock on 1 day, such as BBB on 2024-01-03; choose a rule with --missing: "
        "drop-stocks, drop-days, carry-forward.",
    ),
    "zero": (WIDE.replace("2.1", "0"), "The price of BBB on 2024-01-03 is 0; prices must be positive and finite."),
    "long twice": (
        "date,ticker,price\n2024-01-02,AAA,1\n2024-01-02,BBB,1\n2024-01-02,AAA,2\n",
        "bad.csv, line 4, column 'ticker': there is another price of AAA on 2024-01-02; keep one.",
    ),
    "long nameless": (
        "date,ticker,price\n2024-01-02,AAA,1\n2024-01-02,,1\n",
        "bad.csv, line 3, column 'ticker' is empty; every row needs its name.",
    ),
    "long word": (
        "date,ticker,price\n2024-01-02,AAA,1\n2024-01-02,BBB,much\n",
        "bad.csv, line 3, column 'price' is 'much'; prices must be numbers.",
    ),
    "long many": (
        "date,ticker,a,b\n2024-01-02,AAA,1,1\n2024-01-02,BBB,1,1\n",
        "bad.csv has 2 columns of numbers, a, b, and none is called close or price; keep one.",
    ),
    "long none": (
        "date,ticker,a\n2024-01-02,AAA,x\n2024-01-02,BBB,y\n",
        "bad.csv has no column of numbers; it needs one of prices.",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_get_one_sentence(folder, case):
    text, sentence = BAD_FILES[case]
    if text is not None:
        write("bad.csv", text)
    found = run("bad.csv", "--index", "SPX", "--assets", "1", "--missing", "refuse")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == sentence + "\n"
    assert not (folder / "counterpoise-track").exists()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("bad.doc", b"x", "bad.doc has the suffix '.doc'; a table is one of .csv, .tsv, .txt, .parquet, .xlsx."),
        ("bad", b"x", "bad has no suffix; a table is one of .csv, .tsv, .txt, .parquet, .xlsx."),
        ("bad.parquet", b"PAR1nothing", "bad.parquet is damaged, or not a .parquet file."),
        (".", None, ". is a folder; give a file."),
    ],
)
def test_files_of_other_kinds(folder, name, content, sentence):
    if content is not None:
        write(name, content)
    found = run(name, "--index", "SPX")
    assert (found.exit_code, found.stderr) == (2, sentence + "\n")


def test_excel_is_read_or_its_package_named(folder, monkeypatch):
    write("prices.xlsx", b"PK\x03\x04")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    found = run("prices.xlsx", "--index", "SPX")
    assert found.exit_code == 2
    assert found.stderr == "Reading .xlsx needs openpyxl: install it with pip install openpyxl.\n"
    monkeypatch.setitem(sys.modules, "openpyxl", object())
    frame = prices().reset_index().astype({"AAA": object})
    monkeypatch.setattr(pd, "read_excel", lambda io, **options: frame)
    book = contextlib.nullcontext(SimpleNamespace(sheet_names=["one"]))
    monkeypatch.setattr(pd, "ExcelFile", lambda io, engine: book)
    found = run("prices.xlsx", "--index", "SPX", "--assets", "2", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["first"] == "2024-01-03"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--assets", "0"), "--assets is 0; it must be at least 1."),
        (("--seed", "-1"), "--seed is -1; it must be at least 0."),
        (("--cost", "-1"), "--cost is -1; it must be finite and at least 0."),
        (("--seconds", "0"), "--seconds is 0; it must be positive."),
        (("--missing", "guess"), "--missing is 'guess'; it must be one of refuse, drop-stocks, drop-days, carry-forward."),
        (("--quiet", "--verbose"), "--quiet and --verbose are both given; give one of them."),
        (("--max-weight", "2"), "--max-weight is 2; it must be between 0 and 1."),
        (("--max-weight", "0.1"), "2 names can hold at most 0.2 under --max-weight, but the weights must sum to 1; raise --assets or --max-weight."),
        (("--measure", "mse"), "--measure is 'mse'; it must be one of 'ete', 'dr', 'hete', 'hdr'."),
        (("--measure", "hdr"), '--measure "hdr" needs --huber, the daily difference beyond which it is linear, such as --huber=0.0025.'),
        (("--huber", "0.01"), '--huber is 0.01, but --measure "ete" does not use it; leave it out, or use "hete".'),
        (("--include", "AAB"), "--include: 'AAB' is not a column of returns; did you mean AAA?"),
        (("--backtest", "many"), "--backtest is 'many'; it must be WINDOW/STEP in rows, such as 252/63."),
        (("--backtest", "1/5"), "WINDOW of --backtest is 1; it must be at least 2."),
        (("--backtest", "50/5"), "WINDOW of --backtest is 50, but there are 40 rows of returns; it must be at most 39, so that a row is left to hold a portfolio on."),
        (("--backtest", "9/1", "--train-until", "2024-02-01"), "--train-until and --backtest are both given; give one of them."),
        (("--train-until", "soon"), "--train-until is 'soon'; it must be a day such as 2024-01-31."),
        (("--train-until", "9/2/2024"), "--train-until is '9/2/2024'; it must be a day such as 2024-01-31."),
        (("--train-until", "2030-01-01"), "--train-until is 2030-01-01, with 40 of 40 rows of returns up to it; it must leave two to fit on and one to hold on, so it must be between 2024-01-04 and 2024-02-26."),
        (("--group-limits", "l.csv"), "--group-limits is given without --groups; say which name is in which group."),
        (("--groups", "g.csv"), "--groups is g.csv, but none of its names has prices; it has XXX."),
        (("--groups", "h.csv", "--group-limits", "l.csv"), "--group-limits: no name is in group 'tech'; there are energy."),
        (("--groups", "spare.csv"), "--groups is spare.csv, which has one column; it needs two, names and groups."),
        (("--groups", "h.csv", "--group-limits", "h.csv"), "--group-limits is h.csv, which has 2 columns; it needs group, low and high."),
        (("--previous", "w.csv"), "w.csv, line 2, column 'weight' is 'all'; a weight must be a number."),
        (("--previous", "v.csv"), "v.csv, line 3, column 'name' is 'AAA', which is a duplicate; keep one row per name."),
        (("--dates", "dat"), "--dates is 'dat', but prices.csv has no such column; did you mean 'date'?"),
        (("--index", "none.csv"), "--index is none.csv, which does not exist, nor is it a column of prices.csv."),
        (("--index", "AAA"), "--index is AAA, a column of prices.csv and also a file; write ./AAA for the file."),
        (("--output", "prices.csv"), "--output is prices.csv, which is a file; give a folder."),
    ],
)  # fmt: skip
def test_bad_options_get_one_sentence(folder, arguments, sentence):
    write("AAA", "x")
    write("g.csv", "name,group\nXXX,tech\n")
    write("h.csv", "name,group\nAAA,energy\nBBB,energy\n")
    write("l.csv", "group,low,high\ntech,,0.5\n")
    write("w.csv", "name,weight\nAAA,all\nBBB,0.5\n")
    write("v.csv", "name,weight\nAAA,0.5\nAAA,0.5\n")
    write("spare.csv", "name\nAAA\nBBB\n")
    found = run("prices.csv", "--index", "SPX", "--assets", "2", *arguments)
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == sentence + "\n"


def test_files_that_are_there_are_not_replaced_unasked(result, folder, monkeypatch):
    before = (folder / "out" / "weights.csv").read_text()
    arguments = ("prices.csv", "--index", "SPX", "--assets", "3", "--output", "out")
    refused = run(*arguments)
    assert refused.exit_code == 2
    assert (
        refused.stderr == "out holds weights.csv and report.html; give another --output, or --force to replace them.\n"
    )
    assert (folder / "out" / "weights.csv").read_text() == before
    monkeypatch.setattr(options, "_is_terminal", lambda: True)
    no = CliRunner().invoke(app, ["track", *arguments], input="n\n")
    assert no.exit_code == 1
    assert "out holds weights.csv and report.html. Replace? [y/N]" in no.stderr
    assert (folder / "out" / "weights.csv").read_text() == before
    yes = CliRunner().invoke(app, ["track", *arguments], input="y\n")
    assert yes.exit_code == 0
    assert (folder / "out" / "weights.csv").read_text() != before


def test_a_path_that_cannot_be_written_is_found_first(folder):
    write("wall", "x")
    found = run("prices.csv", "--index", "SPX", "--output", "wall/inside")
    assert found.exit_code == 2
    assert found.stderr == "--output is wall/inside, which cannot be written: Not a directory.\n"
    (folder / "taken" / "weights.csv").mkdir(parents=True)
    found = run("prices.csv", "--index", "SPX", "--output", "taken", "--force")
    assert found.stderr.endswith("is a folder, but a file must be written there; give another --output.\n")


def test_a_full_disk_is_a_failure(folder, monkeypatch):
    write_text = Path.write_text

    def full(path, text, **options):
        write_text(path, text[:100], **options)
        if "report" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    found = run("prices.csv", "--index", "SPX", "--assets", "2")
    place = Path("counterpoise-track", "report.html")
    assert (found.exit_code, found.stderr) == (1, f"{place} cannot be written: No space left on device.\n")
    assert list(place.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            RuntimeError("a\nbug"),
            "This is a bug in counterpoise, not in the input: RuntimeError: a bug; --debug shows the traceback.",
        ),
        (MemoryError(), "Out of memory."),
        (KeyboardInterrupt(), "Stopped before the end."),
        (
            ModuleNotFoundError("No module named 'pandas'", name="pandas.core"),
            "This needs pandas: install it with pip install pandas.",
        ),
    ],
)
def test_failures_get_one_sentence_unless_debug_is_on(folder, monkeypatch, error, sentence):
    def broken(*arguments, **options):
        raise error

    monkeypatch.setattr(IndexTracker, "fit", broken)
    found = run("prices.csv", "--index", "SPX", "--assets", "2")
    code = {KeyboardInterrupt: 130, ModuleNotFoundError: 2}.get(type(error), 1)
    assert (found.exit_code, found.stdout, found.stderr) == (code, "", sentence + "\n")
    if isinstance(error, RuntimeError):
        assert run("prices.csv", "--index", "SPX", "--assets", "2", "--debug").exception is error


def test_an_interrupted_run_is_kept_and_fails(folder, monkeypatch):
    from counterpoise import Status

    fit = IndexTracker.fit

    def cut(self, *arguments, **options):
        fit(self, *arguments, **options)
        self.result_["status"], self.result_["success"] = Status.INTERRUPTED, False
        return self

    monkeypatch.setattr(IndexTracker, "fit", cut)
    found = run("prices.csv", "--index", "SPX", "--assets", "2", "--backtest", "20/10")
    assert found.exit_code == 130
    assert "Interrupted; only finished results are shown." in found.output
    assert (folder / "counterpoise-track" / "weights.csv").exists()


def test_a_real_spreadsheet_is_read(folder):
    pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    frame = prices()
    with pd.ExcelWriter("prices.xlsx") as book:
        # An empty row in the midst, a margin to the right, another sheet behind.
        frame.reset_index().reindex([*range(10), 99, *range(10, len(frame))]).assign(**{"Unnamed: 9": None}).to_excel(
            book, sheet_name="prices", index=False
        )
        pd.DataFrame({"note": ["from the terminal"]}).to_excel(book, sheet_name="notes", index=False)
    found = run("prices.xlsx", "--index", "SPX", "--assets", "2", "--json", "--output", "xlsx")
    assert (found.exit_code, found.stderr) == (0, ""), found.output
    said = json.loads(found.stdout)
    plain = json.loads(run("prices.csv", "--index", "SPX", "--assets", "2", "--json", "--output", "csv").stdout)
    assert list(said["weights"]) == list(plain["weights"])
    assert list(said["weights"].values()) == pytest.approx(list(plain["weights"].values()), rel=1e-6)
    assert (said["first"], said["last"], said["rows"]) == (plain["first"], plain["last"], plain["rows"])


def test_a_bad_cell_of_a_spreadsheet_is_named_by_its_row(folder):
    pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    frame = prices().reset_index().astype(object)
    frame.loc[2, "BBB"] = "n.v."
    frame.to_excel("prices.xlsx", index=False)
    found = run("prices.xlsx", "--index", "SPX", "--assets", "2")
    # The names are in row 1 of the sheet.
    sentence = "prices.xlsx, row 4, column 'BBB' is 'n.v.'; prices must be numbers.\n"
    assert (found.exit_code, found.stdout, found.stderr) == (2, "", sentence)
    prices().reset_index(drop=True).to_excel("counted.xlsx")
    assert "counted.xlsx has no days" in run("counted.xlsx", "--index", "SPX", "--assets", "2").stdout


def test_the_line_shows_objective_gap_and_windows(folder, shown):
    found = run("prices.csv", "--index", "SPX", "--assets", "2", "--backtest", "20/10", "--json")
    assert found.exit_code == 0, found.output
    assert shown[:3] == ["Starting …", "Reading prices.csv …", "2 of 5 names …"]
    objective = json.loads(found.stdout)["objective"]
    assert f"2 of 5 names: objective {objective:.4g}, gap –" in shown
    assert re.fullmatch(rf"Backtest, window 2 of 2: fit {objective:.4g}, gap \de[-+]\d+", shown[-1])


def test_days_in_other_clothes(folder):
    frame = prices()
    for form in ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y%m%d", "%d %b %Y"):
        other = frame.copy()
        other.index = frame.index.strftime(form)
        other.to_csv("dressed.csv")
        found = run("dressed.csv", "--index", "SPX", "--assets", "2", "--json", "--force")
        assert found.exit_code == 0, found.output
        said = json.loads(found.stdout)
        assert (said["first"], said["last"]) == ("2024-01-03", "2024-02-27")


def test_help_has_an_example_and_every_command_is_listed():
    for command in ("track", "pca", "split", "certify"):
        shown = CliRunner().invoke(app, [command, "--help"])
        assert shown.exit_code == 0
        assert f"Example: counterpoise {command} " in " ".join(shown.output.split())
        assert command in CliRunner().invoke(app, []).output


@pytest.mark.compiled
def test_in_a_process_without_colours(folder):
    command = [sys.executable, "-m", "counterpoise", "track", "prices.csv", "--index"]
    good = subprocess.run([*command, "SPX", "--assets", "2"], capture_output=True, text=True, timeout=600)
    assert (good.returncode, good.stderr) == (0, "")
    assert "\x1b" not in good.stdout
    bad = CliRunner().invoke(app, [*command[3:], "spx", "--force"])
    assert (bad.exit_code, bad.stdout) == (2, "")
    assert bad.stderr.startswith("--index is 'spx', but prices.csv has no such column; did you mean 'SPX'")


def test_completion_names_commands():
    words = {"COMP_WORDS": "counterpoise tr", "COMP_CWORD": "1", "_COUNTERPOISE_COMPLETE": "complete_bash"}
    environment = {**os.environ, **words}
    code = "import sys; sys.argv = ['counterpoise']; from counterpoise.cli import app; app()"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=600)
    assert found.stdout.split() == ["track"]

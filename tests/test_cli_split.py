import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from counterpoise.cli import app
from counterpoise.estimators.split import balanced_split
from counterpoise.tables.read import read_sheet


def run(*arguments):
    return CliRunner().invoke(app, ["split", *map(str, arguments)])


def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "patient": [f"P{k:02d}" for k in range(16)],
            "age": rng.normal(50, 12, 16).round(1),
            "sex": ["f", "m"] * 8,
            "clinic": ["north"] * 8 + ["south"] * 8,
            "site": [1, 2, 3, 4] * 4,
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table().to_csv("patients.csv", index=False)
    return tmp_path


def rows_of(path):
    with Path(path).open() as stream:
        return list(csv.DictReader(stream))


def test_it_prints_and_writes_what_the_library_finds(folder):
    arguments = ("patients.csv", "--treated", "8", "--strata", "clinic", "--weights", "age=2", "--categorical", "site")
    found = run(*arguments, "--output", "out")
    assert found.exit_code == 0, found.output
    frame = table().set_index("patient").astype({"site": str})
    split = balanced_split(frame, 8, strata="clinic", weights={"age": 2.0}, categorical="site", random_state=0)
    labels = {row["patient"]: int(row["group"]) for row in rows_of("out/labels.csv")}
    assert labels == split.labels.to_dict()
    assert "Took column 'patient' for the names of the units, as no two are the same." in found.output
    assert "8 in group 0, 8 in group 1." in found.output
    assert "site = 4" in found.output
    assert found.output.endswith("Wrote labels.csv, report.html to out.\n")
    page = Path("out/report.html").read_text("utf-8")
    for value in split.balance["difference"]:
        assert f'data-value="{float(value)!r}"' in page


def test_draws_are_kept_for_the_test(folder):
    found = run("patients.csv", "--treated", "8", "--draws", "5", "--json", "--ignore", "site")
    assert found.exit_code == 0, found.output
    said = json.loads(found.stdout)
    rows = rows_of("counterpoise-split/draws.csv")
    draws = np.array([[int(row[f"draw {k}"]) for row in rows] for k in range(1, 6)])
    labels = np.array([said["labels"][row["patient"]] for row in rows])
    assert draws.sum(axis=1).tolist() == [8] * 5
    assert any((labels == draw).all() or (labels == 1 - draw).all() for draw in draws)
    assert (said["draws"], said["reference"], said["group_sizes"]) == (5, 10, [8, 8])
    assert {row["covariate"] for row in said["balance"]} >= {"age", "sex = m"}
    assert said["files"][1].endswith("draws.csv")


def test_several_groups_and_units_without_names(folder):
    table()[["age", "sex"]].to_csv("plain.csv", index=False)
    found = run("plain.csv", "--treated", "5", "--treated", "5", "-v")
    assert found.exit_code == 0, found.output
    assert "6 in group 0, 5 in group 1, 5 in group 2." in found.output
    assert "not proved" in found.output
    rows = rows_of("counterpoise-split/labels.csv")
    assert [row["row"] for row in rows] == [str(k) for k in range(1, 17)]
    assert run("plain.csv", "--treated", "5", "-q", "--force").output == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--treated", "0"), "--treated is 0; it must be at least 1."),
        (("--treated", "16"), "--treated is 16; it must be between 1 and 15."),
        (("--treated", "9", "--treated", "9"), "--treated adds up to 18 of 16 units; it must be 16 at most."),
        (("--draws", "0"), "--draws is 0; it must be at least 1."),
        (("--seconds", "0"), "--seconds is 0; a search needs some."),
        (("--weights", "age"), "--weights is 'age'; it must be COL=W, such as age=2."),
        (("--weights", "age=much"), "--weights is 'age=much'; it must be COL=W, such as age=2."),
        (("--weights", "age=-1"), "--weights of age is -1; it must be finite and at least 0."),
        (("--weights", "agee=1"), "--weights: 'agee' is no covariate; did you mean 'age'?"),
        (("--strata", "clinc"), "--strata is 'clinc', but patients.csv has no such column; did you mean 'clinic'?"),
        (("--categorical", "sit"), "--categorical is 'sit', but patients.csv has no such column; did you mean 'site'?"),
        (("--id", "patien"), "--id is 'patien', but patients.csv has no such column; did you mean 'patient'?"),
        (("--id", "sex"), "--id is 'sex', but 'f' comes more than once; the names of units must differ."),
        (("--ignore", "x"), "--ignore is 'x', but patients.csv has no such column; its columns are patient, age, sex, clinic, site."),
    ],
)  # fmt: skip
def test_bad_options_get_one_sentence(folder, arguments, sentence):
    given = () if "--treated" in arguments else ("--treated", "8")
    found = run("patients.csv", *given, *arguments)
    assert (found.exit_code, found.stdout, found.stderr) == (2, "", sentence + "\n")
    assert not Path("counterpoise-split").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "age,sex\n30,f\n3o,m\n40,f\n",
            "bad.csv, line 3, column 'age' is '3o'; the column's other cells are numbers; correct it, or give --categorical age.",
        ),
        (
            "age,sex\n30,f\n,m\n40,f\n",
            "Column 'age' of covariates lacks a value at index 2; remove or impute such units, all values must be there and finite.",
        ),
        ("age,sex\n30,f\n", "covariates has 1 row(s); a split needs at least two units, one a row."),
        ("age,sex\n30\n", "bad.csv, line 2: 1 field, but line 1 has 2; all must agree."),
    ],
)
def test_bad_files_get_one_sentence(folder, text, sentence):
    Path("bad.csv").write_text(text)
    found = run("bad.csv", "--treated", "1")
    assert (found.exit_code, found.stdout, found.stderr) == (2, "", sentence + "\n")


def test_the_line_shows_the_least_imbalance(folder, shown):
    found = run("patients.csv", "--treated", "8", "--json")
    assert found.exit_code == 0, found.output
    values = [float(said.split("objective ")[1].split(",")[0]) for said in shown if "objective" in said]
    assert len(values) == 8 and values == sorted(values, reverse=True)
    shown.clear()
    assert run("patients.csv", "--treated", "8", "--draws", "20", "--output", "drawn").exit_code == 0
    assert any("objective" in said for said in shown)


def test_without_pandas_the_package_is_named(folder, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    for more in ((), ("--id", "patient")):
        found = run("patients.csv", "--treated", "8", *more)
        sentence = "Tables need pandas: install it with pip install pandas.\n"
        assert (found.exit_code, found.stdout, found.stderr) == (2, "", sentence)


def test_names_that_a_spreadsheet_would_run_come_back(folder):
    names = [*table()["patient"][:-1], "=2+5"]
    table().assign(patient=names).to_csv("patients.csv", index=False)
    assert run("patients.csv", "--treated", "8", "--output", "out").exit_code == 0
    written = [row["patient"] for row in rows_of("out/labels.csv")]
    assert written == [*names[:-1], "'=2+5"]
    assert read_sheet(Path("out/labels.csv")).text("patient") == names


@pytest.mark.parametrize(
    ("first", "names", "note"),
    [
        (
            "P1,50.5,f",
            ["column 1", "column 2", "column 3"],
            "Took line 1 of t.csv for data, as it holds '50.5', a number;",
        ),
        ("1,50,3", ["column 1", "column 2", "column 3"], "Took line 1 of t.csv for data, as it holds numbers only;"),
        (
            "id,2019,2020",
            ["id", "2019", "2020"],
            "Took line 1 of t.csv for the names of the columns, numbers among them: 2019, 2020.",
        ),
        (",0,1", ["0", "1"], "Took line 1 of t.csv for the names of the columns, numbers among them: 0, 1."),
        ("id,age,sex", ["id", "age", "sex"], ""),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_table_without_names(folder, first, names, note, end):
    Path("t.csv").write_bytes(end.join([first, "0,51,7", "1,52.5,8"]).encode())
    sheet = read_sheet(Path("t.csv"), may_lack_names=True)
    assert sheet.names == names
    assert len(sheet.frame) == (3 if names[0] == "column 1" else 2)
    assert sheet.notes == [] if not note else sheet.notes[0].startswith(note)
    if names[0] == "column 1":
        with pytest.raises(ValueError, match="the first line must be the columns' names"):
            read_sheet(Path("t.csv"))


def test_a_spreadsheet_without_names(folder):
    pytest.importorskip("openpyxl")
    table()[["age", "site"]].to_excel("t.xlsx", index=False, header=False)
    found = run("t.xlsx", "--treated", "8")
    assert found.exit_code == 0, found.output
    assert "Took row 1 of t.xlsx for data, as it holds numbers only" in " ".join(found.output.split())
    assert len(rows_of("counterpoise-split/labels.csv")) == 16

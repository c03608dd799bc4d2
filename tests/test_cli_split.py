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
    found = run(*arguments, "--output", "out", "--seed", "0")
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
        (("--treated", "0"), "--treated is 0; it must be between 1 and 15."),
        (("--treated", "half"), "--treated is 'half'; it must be a whole number, or a fraction such as 0.5."),
        (("--treated", "1.5"), "--treated is 1.5; it must be a whole number, or a fraction between 0 and 1."),
        (("--names", "a"), "--names is ['a']; it must hold 2 different names, group 0 first."),
        (("--dates", "age"), "--dates is 'age'; it must be COL=UNIT, such as enrolled=month."),
        (("--dates", "age=moon"), "--dates of age is 'moon'; it must be one of day, week, month, quarter, year."),
        (("--missing", "x"), "--missing is 'x'; it must be one of refuse, drop-rows, drop-columns."),
        (("--seed", "-1"), "--seed is -1; it must be a whole number of at least 0, or None."),
        (("--moments", "9"), "--moments is 9; it must be between 1 and 4."),
        (("--together", "clinc"), "--together is 'clinc', but patients.csv has no such column; did you mean 'clinic'?"),
        (("--apart", "clinic"), "--apart: P00, P01, P02 and 5 more are 8 units, but there are only 2 groups; at most 2 units can be kept apart."),
        (("--treated", "16"), "--treated is 16; it must be between 1 and 15."),
        (("--treated", "9", "--treated", "9"), "--treated adds up to 18 of 16 units; it must add up to at most 16."),
        (("--draws", "0"), "--draws is 0; it must be at least 1."),
        (("--seconds", "0"), "--seconds is 0; it must be positive."),
        (("--weights", "age"), "--weights is 'age'; it must be COL=W, such as age=2."),
        (("--weights", "age=much"), "--weights is 'age=much'; it must be COL=W, such as age=2."),
        (("--weights", "age=-1"), "--weights of age is -1; it must be finite and at least 0."),
        (("--weights", "agee=1"), "--weights: 'agee' is not a covariate; did you mean 'age'?"),
        (("--strata", "clinc"), "--strata is 'clinc', but patients.csv has no such column; did you mean 'clinic'?"),
        (("--categorical", "sit"), "--categorical is 'sit', but patients.csv has no such column; did you mean 'site'?"),
        (("--id", "patien"), "--id is 'patien', but patients.csv has no such column; did you mean 'patient'?"),
        (("--id", "sex"), "--id is 'sex', but 'f' is duplicated; names of units must be unique."),
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
            "1 cell is empty, the first at bad.csv, line 3, column 'age'; choose a rule with --missing: drop-rows, drop-columns.",
        ),
        ("age,sex\n30,f\n", "covariates has 1 row(s); a split needs at least two units, one per row."),
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


def test_names_fractions_and_rules(folder):
    frame = table().assign(twin=[f"T{k // 2}" if k < 6 else "" for k in range(16)])
    frame.to_csv("twins.csv", index=False)
    options = ("--treated", "0.5", "--names", "control,treated", "--together", "twin", "--moments", "2", "--seed", "4")
    found = run("twins.csv", *options, "--json", "--ignore", "clinic")
    assert found.exit_code == 0, found.output
    said = json.loads(found.stdout)
    groups = list(said["labels"].values())
    assert groups.count("control") == groups.count("treated") == 8
    assert groups[0:6:2] == groups[1:6:2]
    assert {"age²", "age"} <= {row["covariate"] for row in said["balance"]}
    assert "mean control" in said["balance"][0] and "twin = T0" not in [row["covariate"] for row in said["balance"]]
    assert rows_of("counterpoise-split/labels.csv")[0]["group"] == groups[0]
    assert said["seed"] == 4
    apart = run("twins.csv", "--treated", "8", "--apart", "twin", "--json", "--output", "apart")
    groups = list(json.loads(apart.stdout)["labels"].values())
    assert all(a != b for a, b in zip(groups[0:6:2], groups[1:6:2], strict=True))


def test_a_lottery_has_a_random_recorded_seed(folder):
    said = [
        json.loads(run("patients.csv", "--treated", "8", "--draws", "20", "--json", "--force").stdout) for _ in "ab"
    ]
    assert said[0]["seed"] != said[1]["seed"]
    seeds = {row["seed"] for row in rows_of("counterpoise-split/draws.csv")}
    assert seeds == {str(said[1]["seed"])}
    assert said[1]["command"].endswith(f"--seed {said[1]['seed']}")
    assert f"The seed is {said[1]['seed']}; --seed" in Path("counterpoise-split/report.html").read_text("utf-8")
    again = run("patients.csv", "--treated", "8", "--draws", "20", "--json", "--force", "--seed", said[1]["seed"])
    assert json.loads(again.stdout)["labels"] == said[1]["labels"]


def test_dates_are_refused_or_binned(folder):
    frame = table().assign(enrolled=[f"{1 + k % 28:02d}.0{1 + k % 2}.2024" for k in range(16)])
    frame.loc[15, "enrolled"] = "28.01.2024"
    frame.to_csv("dated.csv", index=False)
    found = run("dated.csv", "--treated", "8")
    sentence = "Column 'enrolled' of dated.csv holds dates; give --dates enrolled=month (or day, week, month, quarter, year), or --ignore enrolled.\n"
    assert (found.exit_code, found.stderr) == (2, sentence)
    found = run("dated.csv", "--treated", "8", "--dates", "enrolled=month")
    assert found.exit_code == 0 and "enrolled = 2024-02" in found.output  # of two months one says all
    found = run("dated.csv", "--treated", "8", "--dates", "enrolled=day", "--output", "days")
    assert found.exit_code == 0 and "enrolled in days" in found.output


def test_empty_cells_follow_a_rule(folder):
    frame = table()
    frame.loc[3, "age"] = np.nan
    frame.loc[5, "sex"] = None
    frame.to_csv("gaps.csv", index=False)
    found = run("gaps.csv", "--treated", "4")
    assert (
        found.stderr
        == "2 cells are empty, the first at gaps.csv, line 5, column 'age'; choose a rule with --missing: drop-rows, drop-columns.\n"
    )
    found = run("gaps.csv", "--treated", "4", "--missing", "drop-rows", "--seed", "0")
    assert "Left out 2 of 16 units with empty cells: P03, P05." in found.output
    assert len(rows_of("counterpoise-split/labels.csv")) == 14
    found = run("gaps.csv", "--treated", "4", "--missing", "drop-columns", "--force", "--categorical", "sex")
    assert "Left out 2 columns with empty cells: age, sex." in found.output
    assert len(rows_of("counterpoise-split/labels.csv")) == 16
    frame.loc[7, "clinic"] = None
    frame.to_csv("gaps.csv", index=False)
    found = run("gaps.csv", "--treated", "4", "--missing", "drop-columns", "--force", "--strata", "clinic")
    assert found.stderr == "--strata is 'clinic', which has empty cells; give --missing drop-rows.\n"


def test_a_split_no_better_than_random_is_loud(folder):
    # Both splits of two units are the same but for their names.
    Path("few.csv").write_text("age\n1\n2\n")
    for manners in ("--quiet", "--json"):
        found = run("few.csv", "--treated", "1", manners, "--force")
        assert found.exit_code == 0
        assert found.stderr.startswith(
            "This split is NO BETTER THAN RANDOM: its largest standardised difference is 1.41"
        )
    assert json.loads(found.stdout)["better_than_random"] is False
    found = run("few.csv", "--treated", "1", "--force")
    assert found.output.count("This split is NO BETTER") == 1
    assert "NO BETTER THAN RANDOM" in Path("counterpoise-split/report.html").read_text("utf-8")


@pytest.mark.parametrize("name", ["id", "ID", "patient_id", "customerId"])
def test_numbers_called_id_are_names(folder, name):
    table().drop(columns="patient").assign(**{name: range(101, 117)}).to_csv("ids.csv", index=False)
    found = run("ids.csv", "--treated", "50%")
    assert f"Took column '{name}' for the names of the units, as no two are the same." in found.output
    assert rows_of("counterpoise-split/labels.csv")[0][name] == "101"
    table().drop(columns="patient").assign(acid=range(101, 117)).to_csv("acids.csv", index=False)
    assert "acid " in run("acids.csv", "--treated", "8", "--force").output


def people(ids, name="patient", place=0, n=300):
    """A table of units whose names stand in a column."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"age": rng.normal(50, 12, n).round(1), "income": rng.lognormal(10, 0.5, n).round(2)})
    frame.insert(place, name, ids)
    return frame


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("name", ["patient", "Unit", "subject", "user", "user_id", "row", "Student No"])
@pytest.mark.parametrize("ids", [[str(1001 + k) for k in range(300)], [f"{k:05d}" for k in range(300)]])
def test_ids_are_names_and_no_covariate(folder, ids, name, place):
    shuffled = np.random.default_rng(5).permutation(ids).tolist()
    people(shuffled, name, place).to_csv("people.csv", index=False)
    found = run("people.csv", "--treated", "0.5", "--draws", "2", "--seed", "1", "--seconds", "1")
    assert found.exit_code == 0, found.output
    assert f"Took column '{name}' for the names of the units, as no two are the same." in found.output
    for file in ("labels.csv", "draws.csv"):
        assert [row[name] for row in rows_of(f"counterpoise-split/{file}")] == shuffled
        assert Path("counterpoise-split", file).read_text().startswith(f"{name},group")
    said = json.loads(run("people.csv", "--treated", "0.5", "--seconds", "1", "--json", "--force").stdout)
    assert [row["covariate"] for row in said["balance"]] == ["age", "income"]


def test_the_first_column_of_different_numbers_is_taken_or_asked_about(folder):
    people(range(1001, 1301), "nr").to_csv("people.csv", index=False)
    assert "Took column 'nr' for" in run("people.csv", "--treated", "150", "--seconds", "1").output
    people([f"{7 * k:05d}" for k in range(300)], "nr").to_csv("people.csv", index=False)
    assert "Took column 'nr' for" in run("people.csv", "--treated", "150", "--seconds", "1", "--force").output
    people(np.random.default_rng(0).choice(10**6, 300, replace=False), "salary").to_csv("people.csv", index=False)
    found = run("people.csv", "--treated", "150", "--force")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == (
        "Column 'salary' of people.csv holds a different whole number for each unit; give --id salary if these are "
        "names, or --weights salary=1 to balance them.\n"
    )
    for options, balanced in ((("--id", "salary"), False), (("--weights", "salary=1"), True)):
        found = run("people.csv", "--treated", "150", "--seconds", "1", "--json", "--force", *options)
        assert ("salary" in [row["covariate"] for row in json.loads(found.stdout)["balance"]]) == balanced
    people(range(1001, 1301), "nr", 1).to_csv("people.csv", index=False)
    found = run("people.csv", "--treated", "150", "--seconds", "1", "--force")
    assert "Column 'nr' is balanced, though it holds a different whole number for each unit; give --id nr" in (
        " ".join(found.output.split())
    )
    assert "Numbered the units by their rows, as no column names them." in found.output


@pytest.mark.parametrize(
    ("name", "ids", "sentence"),
    [
        ("patient", [*range(1001, 1300), 1001], "called like names of units or codes, but holds '1001' more than once"),
        (
            "patient",
            [*(f"P{k}" for k in range(299)), "P3"],
            "but holds 'P3' more than once; keep one row per unit, or give --ignore patient",
        ),
        (
            "patient",
            [*(f"P{k}" for k in range(299)), ""],
            "but has empty cells; fill them in, or give --ignore patient",
        ),
        (
            "clinic_id",
            [1 + k % 7 for k in range(300)],
            "but holds '1' more than once; give --ignore clinic_id, or --cat",
        ),
        (
            "group",
            [f"P{k}" for k in range(300)],
            "names of the units is called 'group', like a column of the file of draws; rename it.",
        ),
    ],
)
def test_doubtful_names_are_asked_about(folder, name, ids, sentence):
    people(ids, name).to_csv("people.csv", index=False)
    found = run("people.csv", "--treated", "150")
    assert (found.exit_code, found.stdout, found.stderr.count("\n")) == (2, "", 1)
    assert sentence in found.stderr


def test_zeros_and_ones_called_like_units_are_a_covariate(folder):
    people([k % 2 for k in range(300)], "member", 1).to_csv("people.csv", index=False)
    said = json.loads(run("people.csv", "--treated", "150", "--seconds", "1", "--json").stdout)
    assert [row["covariate"] for row in said["balance"]] == ["age", "member", "income"]


def test_names_are_kept_as_they_stand(folder):
    names = ["NA", "NULL", "None", "nan", "-", " a", "a", "a ", *(f"P{k}" for k in range(8))]
    for form, write in (("csv", pd.DataFrame.to_csv), ("xlsx", pd.DataFrame.to_excel)):
        write(table().assign(patient=names), f"named.{form}", index=False)
        found = run(f"named.{form}", "--treated", "8", "--draws", "5", "--force")
        assert "Took column 'patient'" in found.output
        for file in ("labels.csv", "draws.csv"):
            assert [row["patient"] for row in rows_of(f"counterpoise-split/{file}")] == [
                f"'{name}" if name == "-" else name for name in names
            ]


def test_words_for_empty_cells_are_told_of_in_rules(folder):
    table().assign(twin=["NA", "NA", *["T"] * 2, *[""] * 12]).to_csv("twins.csv", index=False)
    found = run("twins.csv", "--treated", "8", "--apart", "twin", "--json", "--seed", "0")
    assert "'NA' in column 'twin' counts as empty: 14 units without a rule." in json.loads(found.stdout)["notes"]


def test_exact_agreement_is_no_ratio(folder):
    Path("pairs.csv").write_text("age,sex\n" + "30.1,f\n30.1,f\n40.7,m\n40.7,m\n50.3,f\n50.3,f\n" * 3)
    assert "between groups is 0: none at all." in run("pairs.csv", "--treated", "0.5").output

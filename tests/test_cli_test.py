"""``counterpoise test`` from files on disk, against the library."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from counterpoise.cli import app
from counterpoise.estimators.split import Split, balanced_split

UNITS = 24


def run(*arguments):
    return CliRunner().invoke(app, ["test", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The draws of an experiment, and its outcomes in another order."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    units = pd.Index([f"P{k:02d}" for k in range(UNITS)], name="patient")
    table = pd.DataFrame({"age": rng.normal(50, 9, UNITS), "weight": rng.normal(70, 9, UNITS)}, index=units)
    split = balanced_split(table, 0.5, n_draws=60, group_names=["control", "treated"], random_state=7)
    split.save("draws.csv")
    outcomes = pd.DataFrame(
        {"group": split.labels, "pain": table["age"] / 5 + rng.normal(0, 1, UNITS) - 2.0 * split.codes, "cost": rng.exponential(3, UNITS)}
    )  # fmt: skip
    outcomes.sample(frac=1.0, random_state=1).to_csv("outcomes.csv")
    return tmp_path


def test_it_says_what_the_library_finds(folder):
    split, outcomes = Split.load("draws.csv"), pd.read_csv("outcomes.csv", index_col="patient")
    found = run("draws.csv", "outcomes.csv", "--outcome", "pain", "--outcome", "cost", "--effect", "1.5", "--json")
    assert found.exit_code == 0, found.output
    said = json.loads(found.stdout)
    assert (said["seed"], said["reference"], said["units"]) == (7, 120, UNITS)
    assert said["notes"] == ["There are 2 outcomes; each p-value is that of its own test, not adjusted."]
    for each in said["outcomes"]:
        test = split.randomisation_test(outcomes[each["outcome"]])
        assert (each["p_value"], each["statistic"]) == pytest.approx((test.p_value, test.statistic))
        assert each["interval"] == pytest.approx(list(test.interval))
        y = outcomes.loc[split.index, each["outcome"]] - test.statistic * split.codes
        assert each["power"] == split.power(1.5, y)
    means = outcomes.groupby("group")["pain"].mean()
    assert said["outcomes"][0]["means"] == pytest.approx(means.to_dict())
    assert said["outcomes"][0]["p_value"] < 0.05 < said["outcomes"][1]["p_value"]


def test_what_is_printed(folder):
    found = run("draws.csv", "outcomes.csv", "--outcome", "pain", "--confidence", "0.9", "--effect", "2", "-v")
    assert found.exit_code == 0, found.output
    words = " ".join(found.output.split())
    for part in ("mean control", "mean treated", "90 % interval", "p is two-sided, and exact over the 120 splits",
                 "An effect is the mean of group treated − that of group control.",
                 "Power for an effect of 2 on pain: 100 % at level 0.1.", "every constant effect"):  # fmt: skip
        assert part in words
    assert run("draws.csv", "outcomes.csv", "--outcome", "pain", "-q").output == ""


def test_power_from_outcomes_before(folder):
    split, outcomes = Split.load("draws.csv"), pd.read_csv("outcomes.csv", index_col="patient")
    found = run("draws.csv", "outcomes.csv", "--outcome", "cost", "--baseline", "--effect", "2", "--json")
    (said,) = json.loads(found.stdout)["outcomes"]
    assert said["power"] == split.power(2.0, outcomes["cost"]) and "p_value" not in said
    printed = run("draws.csv", "outcomes.csv", "--outcome", "cost", "--baseline", "--effect", "2").output
    assert printed.startswith("Power for an effect of 2 on cost: ")


def test_missing_outcomes(folder):
    frame = pd.read_csv("outcomes.csv")
    lost = frame["patient"].tolist()[:3]
    frame.loc[0, "pain"] = np.nan
    frame.drop(index=[1, 2]).to_csv("gaps.csv", index=False)
    found = run("draws.csv", "gaps.csv", "--outcome", "pain")
    assert found.exit_code == 2
    assert (
        found.stderr == f"3 of 24 units lack 'pain', such as {min(lost)}; choose a rule with --missing: drop-units.\n"
    )
    found = run("draws.csv", "gaps.csv", "--outcome", "pain", "--missing", "drop-units", "--json")
    said = json.loads(found.stdout)
    assert said["outcomes"][0]["units"] == 21 and said["notes"][0].startswith("Left out of all splits: 3 of 24 units")


def test_units_without_names_and_several_groups(folder):
    rng = np.random.default_rng(1)
    split = balanced_split(rng.standard_normal((12, 2)), [4, 4, 4], n_draws=30, random_state=0)
    split.save("three.csv")
    pd.DataFrame({"y": rng.standard_normal(12) + 4.0 * (split.labels == 1)}).to_csv("y.csv", index=False)
    found = run("three.csv", "y.csv", "--outcome", "y")
    assert found.exit_code == 0, found.output
    assert "Matched the rows of y.csv with the units of three.csv by their order." in found.output
    assert "mean 2" in found.output and "differences between groups" in " ".join(found.output.split())
    found = run("three.csv", "outcomes.csv", "--outcome", "pain")
    assert found.stderr.startswith("outcomes.csv has 24 rows and three.csv 12 units; units without names are matched")


def test_too_few_draws_are_said(folder):
    table = pd.DataFrame({"age": np.arange(8.0) ** 2}, index=pd.Index(list("abcdefgh"), name="patient"))
    balanced_split(table, 4, n_draws=3, random_state=0).save("few.csv")
    pd.DataFrame({"y": np.arange(8.0)}, index=table.index).to_csv("y.csv")
    found = run("few.csv", "y.csv", "--outcome", "y")
    assert "With so few splits no effect can be significant: p is at least 0.33; use more draws." in found.output
    (said,) = json.loads(run("few.csv", "y.csv", "--outcome", "y", "--json").stdout)["outcomes"]
    assert said["interval"] == [None, None]
    assert math.isfinite(said["statistic"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("draws.csv", "outcomes.csv", "--outcome", "pian"), "--outcome is 'pian', but outcomes.csv has no such column; did you mean 'pain'?"),
        (("draws.csv", "absent.csv", "--outcome", "pain"), "absent.csv does not exist."),
        (("outcomes.csv", "outcomes.csv", "--outcome", "pain"), "outcomes.csv has no columns group and draw 1, draw 2, …; give the draws.csv that counterpoise split --draws or Split.save wrote."),
        (("draws.csv", "outcomes.csv", "--outcome", "group"), "outcomes.csv, line 2, column 'group' is 'control'; an outcome must be a number."),
        (("draws.csv", "outcomes.csv", "--outcome", "pain", "--baseline"), "--baseline needs --effect, the effect whose power to compute."),
        (("draws.csv", "outcomes.csv", "--outcome", "pain", "--confidence", "95"), "--confidence is 95; it must be between 0 and 1, such as 0.95."),
        (("draws.csv", "outcomes.csv", "--outcome", "pain", "--alternative", "up"), "--alternative is 'up'; it must be one of two-sided, greater, less."),
        (("draws.csv", "renamed.csv", "--outcome", "pain"), "renamed.csv has no column 'patient', which holds the units of draws.csv; name theirs with --id."),
        (("draws.csv", "outcomes.csv", "--outcome", "pain", "--id", "cost"), None),
        (("draws.csv", "swapped.csv", "--outcome", "pain"), None),
        (("draws.csv", "twice.csv", "--outcome", "pain"), None),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(folder, arguments, sentence):
    frame = pd.read_csv("outcomes.csv")
    frame.rename(columns={"patient": "id"}).to_csv("renamed.csv", index=False)
    other = {"control": "treated", "treated": "control"}
    frame.assign(group=frame["group"].map(other)).to_csv("swapped.csv", index=False)
    pd.concat([frame, frame[:1]]).to_csv("twice.csv", index=False)
    first = frame["group"][0]
    expected = {
        "cost": "outcomes.csv and draws.csv share no unit: ",
        "swapped.csv": "swapped.csv, line ",
        "twice.csv": f"twice.csv, line 26, column 'patient' is '{frame['patient'][0]}', which is a duplicate; keep one row per unit.",
    }
    sentence = sentence or next(text for key, text in expected.items() if key in arguments)
    found = run(*arguments)
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith(sentence.replace("is 'control'", f"is '{first}'")) and found.stderr.count("\n") == 1
    if "swapped.csv" in arguments:
        assert "has drawn" in found.stderr


def test_renamed_units_and_more_rows(folder):
    frame = pd.read_csv("outcomes.csv").rename(columns={"patient": "id"})
    extra = pd.DataFrame({"id": ["X1"], "pain": [3.0], "cost": [1.0]})
    pd.concat([frame.drop(columns="group"), extra]).to_csv("renamed.csv", index=False)
    found = run("draws.csv", "renamed.csv", "--outcome", "pain", "--id", "id", "--json")
    assert json.loads(found.stdout)["notes"] == ["Left out 1 row of units that draws.csv does not have: X1."]


def test_from_a_table_to_a_p_value_in_two_commands(folder):
    """Through the real entry point, with files on disk."""
    rng = np.random.default_rng(2)
    pd.DataFrame({"id": [f"U{k}" for k in range(20)], "age": rng.normal(40, 8, 20)}).to_csv("units.csv", index=False)
    entry = [sys.executable, "-m", "counterpoise"]
    made = subprocess.run(
        [*entry, "split", "units.csv", "--treated", "0.5", "--draws", "50", "--seed", "1"],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    labels = pd.read_csv("counterpoise-split/labels.csv")
    labels.assign(y=3.0 * labels["group"] + rng.normal(0, 1, 20)).to_csv("y.csv", index=False)
    words = [*entry, "test", "counterpoise-split/draws.csv", "y.csv", "--outcome", "y", "--json"]
    found = subprocess.run(words, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    (said,) = json.loads(found.stdout)["outcomes"]
    low, high = said["interval"]
    assert low < 3.0 < high and said["p_value"] <= 0.05
    assert Path("counterpoise-split/report.html").exists()


# Names of units.


def experiment(ids, effect=7.0):
    """Patients, and their outcomes after a split, in another order; returns the split that was written."""
    rng = np.random.default_rng(3)
    n = len(ids)
    people = pd.DataFrame({"patient": ids, "age": rng.normal(50, 12, n).round(1), "severity": rng.normal(5, 2, n)})
    people.to_csv("people.csv", index=False)
    words = ["split", "people.csv", "--treated", "0.5", "--draws", "100", "--seed", "1", "--seconds", "5", "--json"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    labels = json.loads(found.stdout)["labels"]
    groups = np.array([labels[str(unit)] for unit in ids])
    people["pain"] = people["age"] / 5 + effect * groups + rng.normal(0, 2, n)
    people["group"] = groups
    return people.sample(frac=1.0, random_state=2)


@pytest.mark.parametrize(
    "ids",
    [
        list(range(1001, 1301)),
        [f"{k:05d}" for k in range(300)],
        ["NA", " a", "a ", "null", *(f"P{k}" for k in range(40))],
    ],
)
def test_outcomes_are_matched_by_name_whatever_their_order(tmp_path, monkeypatch, ids):
    """By their order the effect was −0.33 with p = 0.73."""
    monkeypatch.chdir(tmp_path)
    outcomes = experiment(ids)
    means = outcomes.groupby("group")["pain"].mean()
    outcomes[["patient", "pain"]].to_csv("outcomes.csv", index=False)
    outcomes[["pain", "patient"]].to_excel("outcomes.xlsx", index=False)
    for file in ("outcomes.csv", "outcomes.xlsx"):
        found = run("counterpoise-split/draws.csv", file, "--outcome", "pain", "--json")
        assert found.exit_code == 0, found.output
        (said,) = json.loads(found.stdout)["outcomes"]
        assert said["statistic"] == pytest.approx(means[1] - means[0])
        assert said["p_value"] <= 0.02


def test_rows_are_not_matched_by_their_order_if_a_column_names_the_units(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcomes = experiment(list(range(1001, 1041)))
    people = pd.read_csv("people.csv").drop(columns="patient")
    people.to_csv("people.csv", index=False)
    words = ["split", "people.csv", "--treated", "20", "--draws", "50", "--seed", "1", "--force"]
    assert CliRunner().invoke(app, words).exit_code == 0
    draws = "counterpoise-split/draws.csv"
    outcomes[["patient", "pain"]].to_csv("outcomes.csv", index=False)
    found = run(draws, "outcomes.csv", "--outcome", "pain")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == (
        f"outcomes.csv has a column 'patient' that may name its units, but {draws} numbers units by their rows; make "
        "the split with --id patient, or leave that column out if the rows are in the order of the split.\n"
    )
    outcomes[["pain", "age"]].to_csv("outcomes.csv", index=False)
    found = run(draws, "outcomes.csv", "--outcome", "pain")
    assert (found.exit_code, found.stdout) == (2, "")
    assert (
        "though the column has the same values in another order; give both tables a column that names" in found.stderr
    )
    # In the same order, or with another covariate measured again, rows are matched.
    for frame in (outcomes.sort_index()[["pain", "age"]], outcomes.assign(age=outcomes["age"] + 1.0)[["pain", "age"]]):
        frame.to_csv("outcomes.csv", index=False)
        assert "by their order." in run(draws, "outcomes.csv", "--outcome", "pain").output


def test_categories_show_another_order_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"sex": ["f", "m"] * 10, "age": np.arange(20) + 0.5})
    frame.to_csv("people.csv", index=False)
    assert CliRunner().invoke(app, ["split", "people.csv", "--treated", "10", "--draws", "20"]).exit_code == 0
    y = frame.assign(pain=np.arange(20) * 1.5)[["pain", "sex"]]
    y[::-1].to_csv("y.csv", index=False)
    found = run("counterpoise-split/draws.csv", "y.csv", "--outcome", "pain")
    assert found.exit_code == 2 and "column 'sex' differs from unit 1 of" in found.stderr
    y.to_csv("y.csv", index=False)
    assert run("counterpoise-split/draws.csv", "y.csv", "--outcome", "pain").exit_code == 0


def test_row_numbers_from_0_are_refused(tmp_path, monkeypatch):
    """As pandas writes them, shuffled: they would be off by one."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"age": np.arange(20) ** 1.5}).to_csv("people.csv", index=False)
    assert CliRunner().invoke(app, ["split", "people.csv", "--treated", "10", "--draws", "20"]).exit_code == 0
    pd.DataFrame({"pain": np.arange(20) * 1.5}).sample(frac=1.0, random_state=0).to_csv("y.csv")
    found = run("counterpoise-split/draws.csv", "y.csv", "--outcome", "pain")
    expected = "Column 'row' of y.csv counts rows from 0, but counterpoise-split/draws.csv from 1; add 1 to it.\n"
    assert (found.exit_code, found.stderr) == (2, expected)


def test_spaces_at_the_ends_of_names(folder):
    frame = pd.read_csv("outcomes.csv")
    frame.assign(patient=frame["patient"] + " ").to_csv("padded.csv", index=False)
    plain, padded = (
        run("draws.csv", file, "--outcome", "pain", "--json").stdout for file in ("outcomes.csv", "padded.csv")
    )
    assert json.loads(plain)["outcomes"] == json.loads(padded)["outcomes"]
    Path("spaced.csv").write_text(Path("draws.csv").read_text().replace("\nP", "\n P"))
    spaced = run("spaced.csv", "outcomes.csv", "--outcome", "pain", "--json").stdout
    assert json.loads(plain)["outcomes"] == json.loads(spaced)["outcomes"]
    frame.loc[3, "patient"] += " "
    frame.to_csv("padded.csv", index=False)
    found = run("draws.csv", "padded.csv", "--outcome", "pain")
    name = frame.loc[3, "patient"]
    assert found.exit_code == 2
    assert f"is {name!r}, but draws.csv has {name.strip()!r}; write names with the same spaces" in found.stderr
    # The same if the draws have the spaces.
    Path("spaced.csv").write_text(Path("draws.csv").read_text().replace("\nP07,", "\nP07 ,"))
    found = run("spaced.csv", "outcomes.csv", "--outcome", "pain", "--missing", "drop-units")
    assert found.exit_code == 2
    assert "is 'P07', but spaced.csv has 'P07 '; write names with the same spaces" in found.stderr

import csv
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from counterpoise import Status
from counterpoise.cli import app
from counterpoise.estimators.pca import NonnegativeSparsePCA, SparsePCA

FEATURES = ["a", "b", "c", "d", "e", "f"]


def run(*arguments):
    return CliRunner().invoke(app, ["pca", *map(str, arguments)])


def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2)) @ np.array([[3, 3, 3, 0, 0, 0.0], [0, 0, 0, 1, 1, 0]])
    frame = pd.DataFrame(X + 0.1 * rng.standard_normal((30, 6)), columns=FEATURES)
    frame.insert(0, "cell", [f"cell {k}" for k in range(30)])
    return frame


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table().to_csv("cells.csv", index=False)
    return tmp_path


def rows_of(path):
    with Path(path).open() as stream:
        return list(csv.DictReader(stream))


def test_it_prints_and_writes_what_the_library_finds(folder):
    found = run("cells.csv", "--components", "2", "--nonzero", "3", "--nonzero", "2", "--output", "out")
    assert found.exit_code == 0, found.output
    X = np.array([[float(row[name]) for name in FEATURES] for row in rows_of("cells.csv")])
    pca = NonnegativeSparsePCA(2, [3, 2], random_state=0).fit(X)
    rows = {row["feature"]: row for row in rows_of("out/loadings.csv")}
    assert set(rows) == set("abcde")
    for k, component in enumerate(pca.components_, 1):
        for j, name in enumerate(FEATURES[:5]):
            assert float(rows[name][f"component {k}"]) == component[j]
            if component[j]:
                assert f"{component[j]:.3f}".replace("-", "−") in found.output
    assert "Took column 'cell' for the names of the rows, as no two are the same." in found.output
    assert f"Together they explain {100 * pca.explained_variance_ratio_.sum():.1f} % of the variance." in found.output
    assert found.output.endswith("Wrote loadings.csv and report.html to out.\n")
    page = Path("out/report.html").read_text("utf-8")
    for row in rows.values():
        for k in (1, 2):
            value = float(row[f"component {k}"])
            assert not value or f'data-value="{value!r}"' in page


def test_json_is_all_there_is_on_stdout(folder):
    arguments = ("cells.csv", "--components", "1", "--nonzero", "3", "--standardise", "--rows", "cell", "--json")
    found = run(*arguments)
    assert found.exit_code == 0, found.output
    said = json.loads(found.stdout)
    assert said["features"] == 6
    assert len(said["components"][0]["loadings"]) == 3
    assert said["components"][0]["certified"] is True
    assert said["command"] == "counterpoise pca cells.csv --components 1 --nonzero 3 --standardise --rows cell"
    assert "cell 0" in Path("counterpoise-pca/report.html").read_text("utf-8") or len(said["components"]) == 1


def test_quiet_and_verbose(folder):
    assert run("cells.csv", "--components", "1", "-q").output == ""
    found = run("cells.csv", "--components", "1", "--nonzero", "3", "-v", "--force")
    assert "Component 1: The run ended after" in found.output
    assert "Not proved" in found.output


def test_empty_cells_are_treated_by_the_rule(folder):
    frame = table()
    frame.loc[4, "b"] = np.nan
    frame["still"] = 1.0
    frame.to_csv("gaps.csv", index=False)
    refused = run("gaps.csv", "--components", "1")
    assert refused.exit_code == 2
    assert refused.stderr == (
        "1 cell is empty, the first at gaps.csv, line 6, column 'b'; choose a rule with --missing: drop-rows, "
        "drop-columns.\n"
    )
    rows = run("gaps.csv", "--components", "1", "--nonzero", "3", "--missing", "drop-rows", "--output", "rows")
    assert "Left out 1 of 30 rows with empty cells: cell 4." in rows.output
    assert "1 column does not vary and has no loading: still." in rows.output
    columns = run("gaps.csv", "--components", "1", "--nonzero", "3", "--missing", "drop-columns", "--output", "columns")
    assert "Left out 1 column with empty cells: b." in columns.output
    assert {row["feature"] for row in rows_of("columns/loadings.csv")} <= {"a", "c", "d", "e", "f"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n1,2\n3,x\n5,6\n", "bad.csv, line 3, column 'b' is 'x'; it must be a number."),
        ("a,b\n1,2\n3,inf\n5,6\n", "bad.csv, line 3, column 'b' is inf; it must be finite."),
        ("a,b\n1,2\n3,4\n", "The table has 2 rows and 2 columns; components need at least 3 rows and 2 columns."),
        ("name,b\nx,2\ny,4\nz,4\n", "bad.csv has 1 column of numbers; components need at least 2."),
        (
            "a,b\n1,2\n1,2\n1,2\n",
            "X is constant: none of its 2 columns varies over 3 samples; principal components need variance.",
        ),
    ],
)
def test_bad_files_get_one_sentence(folder, text, sentence):
    Path("bad.csv").write_text(text)
    found = run("bad.csv", "--components", "1", "--nonzero", "1")
    assert (found.exit_code, found.stdout, found.stderr) == (2, "", sentence + "\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--components", "0"), "--components is 0; it must be at least 1."),
        (("--components", "9"), "--components is 9, but X has 30 samples and 6 features; it must be at most 6."),
        (("--nonzero", "0"), "--nonzero is 0; it must be at least 1."),
        (("--nonzero", "7"), "--nonzero is 7, but there are 6 features; it must be at most 6."),
        (("--components", "3", "--nonzero", "1", "--nonzero", "2"), "--nonzero has 2 entries; give one number, or one for each of 3 components."),
        (("--seconds", "0"), "--seconds is 0; it must be positive."),
        (("--missing", "guess"), "--missing is 'guess'; it must be one of refuse, drop-rows, drop-columns."),
        (("--rows", "cel"), "--rows is 'cel', but cells.csv has no such column; did you mean 'cell'?"),
        (("--ignore", "g"), "--ignore is 'g', but cells.csv has no such column; its columns are cell, a, b, c, d, e, f."),
    ],
)  # fmt: skip
def test_bad_options_get_one_sentence(folder, arguments, sentence):
    found = run("cells.csv", *arguments)
    assert (found.exit_code, found.stdout, found.stderr) == (2, "", sentence + "\n")
    assert not Path("counterpoise-pca").exists()


def test_an_interrupted_run_is_kept_and_fails(folder, monkeypatch):
    fit = SparsePCA.fit

    def cut(self, X, y=None):
        fit(self, X)
        self.results_[0].update(status=Status.INTERRUPTED, success=False, message="interrupted")
        return self

    monkeypatch.setattr(SparsePCA, "fit", cut)
    found = run("cells.csv", "--components", "1", "--nonzero", "2")
    assert found.exit_code == 130
    assert "Component 1 is not certified: interrupted." in found.output
    assert Path("counterpoise-pca/loadings.csv").exists()


def test_the_line_counts_components(folder, shown):
    plain = json.loads(run("cells.csv", "--components", "2", "--nonzero", "2", "--json", "--output", "plain").stdout)
    shown.clear()
    found = run("cells.csv", "--components", "2", "--nonzero", "2", "--json")
    assert found.exit_code == 0, found.output
    assert shown[2] == "Looking for 2 components …"
    for k, said in enumerate(shown[3:5], 1):
        assert re.fullmatch(rf"Component {k} of 2: objective -\S+, gap (–|\de-?\+?\d+)", said), said
    assert shown[5].startswith("All together, round 1: objective -")
    assert json.loads(found.stdout)["components"] == plain["components"]


def test_a_table_without_names_is_data_and_the_user_is_told(folder):
    numbers = table()[FEATURES]
    numbers.to_csv("bare.csv", index=False, header=False)
    numbers.to_csv("named.csv", index=False)
    bare = run("bare.csv", "--components", "1", "--nonzero", "2", "--output", "bare")
    assert bare.exit_code == 0, bare.output
    assert "Took line 1 of bare.csv for data, as it holds numbers only" in " ".join(bare.output.split())
    assert run("named.csv", "--components", "1", "--nonzero", "2", "--output", "named").exit_code == 0
    values = [[row["component 1"] for row in rows_of(f"{name}/loadings.csv")] for name in ("bare", "named")]
    assert values[0] == values[1]
    assert {row["feature"].split()[0] for row in rows_of("bare/loadings.csv")} == {"column"}


def signed_table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2)) @ np.array([[3, -3, 3, 0, 0, 0.0], [0, 0, 0, 1, -1, 0]])
    return pd.DataFrame(X + 0.1 * rng.standard_normal((40, 6)), columns=FEATURES)


def test_signed_loadings_are_printed_and_written(folder):
    frame = signed_table()
    frame.to_csv("signed.csv", index=False)
    found = run("signed.csv", "--components", "2", "--nonzero", "3", "--signed", "--standardise", "--output", "out")
    assert found.exit_code == 0, found.output
    pca = SparsePCA(2, 3, standardize=True, random_state=0).fit(frame.to_numpy())
    assert (pca.components_ < 0.0).any()
    rows = {row["feature"]: row for row in rows_of("out/loadings.csv")}
    for k, component in enumerate(pca.components_, 1):
        for j in np.flatnonzero(component):
            assert float(rows[FEATURES[j]][f"component {k}"]) == pytest.approx(component[j], rel=1e-12)
            assert f"{component[j]:.3f}".replace("-", "−") in found.output
    again = run("signed.csv", "--components", "2", "--nonzero", "3", "--signed", "--standardise", "--json", "--force")
    said = json.loads(again.stdout)
    for one, component in zip(said["components"], pca.components_, strict=True):
        assert one["loadings"] == pytest.approx({FEATURES[j]: component[j] for j in np.flatnonzero(component)})
        sizes = [abs(value) for value in one["loadings"].values()]
        assert sizes == sorted(sizes, reverse=True) and one["variance"] <= one["upper_bound"] * (1 + 1e-9)
    np.testing.assert_allclose(said["score_correlation"], pca.score_correlation_, atol=1e-12)


def test_a_table_of_covariances(folder):
    signed_table().cov().to_csv("cov.csv", index_label="feature")
    signed_table().to_csv("data.csv", index=False)
    arguments = ("--components", "2", "--nonzero", "3", "--signed", "--json", "--force")
    given, data = (
        json.loads(run(name, *arguments, *more).stdout)["components"]
        for name, more in (("cov.csv", ["--covariance"]), ("data.csv", []))
    )
    for one, two in zip(given, data, strict=True):
        assert one["loadings"] == pytest.approx(two["loadings"], abs=1e-6)
    assert Path("counterpoise-pca/report.html").exists()
    refused = run("data.csv", "--covariance", "--components", "1", "--nonzero", "2", "--force")
    assert refused.exit_code == 2
    assert refused.stderr == (
        "data.csv has 40 rows and 6 columns of numbers; --covariance takes a square table, one row and one column "
        "per feature.\n"
    )
    (-signed_table().cov()).to_csv("negative.csv", index_label="feature")
    refused = run("negative.csv", "--covariance", "--components", "1", "--nonzero", "2", "--force")
    assert refused.exit_code == 2 and "covariance is not positive semidefinite" in refused.stderr


def test_half_a_table_of_covariances_and_one_without_a_feature(folder):
    C = signed_table().cov()
    C.to_csv("cov.csv", index_label="feature")
    C.where(np.tri(len(C)) > 0).to_csv("half.csv", index_label="feature")
    C.iloc[1:, 1:].to_csv("fewer.csv", index_label="feature")
    C.where(np.eye(len(C)) > 0).to_csv("diagonal.csv", index_label="feature")
    arguments = ("--components", "2", "--nonzero", "2", "--signed", "--covariance", "--json", "--force")

    whole, half, fewer = (json.loads(run(name, *arguments).stdout) for name in ("cov.csv", "half.csv", "fewer.csv"))
    assert half["components"] == whole["components"]
    assert half["notes"][-1] == "Filled 15 empty cells from across the diagonal."
    without = json.loads(run("cov.csv", "--ignore", C.columns[0], *arguments).stdout)
    assert without["components"] == fewer["components"]
    refused = run("diagonal.csv", *arguments)
    assert refused.exit_code == 2 and "diagonal.csv has no covariance of features 1 and 2" in refused.stderr


def test_more_components_than_the_rank_are_told(folder):
    pd.DataFrame(np.outer(np.arange(6.0), [1.0, -2.0, 3.0]), columns=list("abc")).to_csv("line.csv", index=False)
    found = run("line.csv", "--components", "2", "--nonzero", "2", "--signed", "--json")
    assert found.exit_code == 0, found.output
    said = json.loads(found.stdout)
    assert len(said["components"]) == 1
    assert "but 1 component explains all variance; only this one is returned." in said["notes"][-1]

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import counterpoise as cp
from counterpoise.cli import app
from counterpoise.cli.certify import sentences
from counterpoise.problems import SIT

RNG = np.random.default_rng(0)
A = RNG.standard_normal((6, 8))
Y = A @ np.array([0.5, 0.3, 0.2, 0, 0, 0, 0, 0])
PROBLEM = ("data.npz", "--problem", "sit", "-s", "3", "--lam", "50")


def run(*arguments):
    return CliRunner().invoke(app, ["certify", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", A=A, y=Y)
    x = cp.minimize(SIT(A, Y, s=3, lam=50.0)).x
    np.save("x.npy", x)
    np.savez("several.npz", **{"bcd-g": x, "psg": x})
    np.savez("one.npz", x=x[None])
    np.savetxt("x.csv", x, header="weight", comments="")
    np.save("flat.npy", np.full(8, 0.125))
    return tmp_path


@pytest.mark.parametrize("point", ["x.npy", "x.csv", "one.npz", "several.npz"])
def test_a_certified_point_is_called_so(folder, point):
    named = ("--name", "bcd-g") if point == "several.npz" else ()
    found = run(*PROBLEM, "--point", point, *named, "--level", "swap")
    assert found.exit_code == 0, found.output
    assert re.search(
        r"No change of any two coordinates, of 28 pairs, lowers it (at all|by anything measurable)", found.output
    )
    assert "No exchange of a held coordinate" in found.output


def test_a_better_pair_is_named(folder):
    certificate = cp.certify(SIT(A, Y, s=3, lam=50.0), np.full(8, 0.125))
    i, j = certificate.worst_pair
    found = run(*PROBLEM, "--point", "flat.npy", "-v")
    assert f"Changing coordinate {i} by" in found.output
    assert f"and {j} by" in found.output
    assert f"lowers it by {certificate.cws_gap:.4g}" in found.output
    assert "critical_residual" in found.output


def test_json_and_quiet(folder):
    said = json.loads(run(*PROBLEM, "--point", "x.npy", "--json").stdout)
    assert said["cws_gap"] == cp.certify(SIT(A, Y, s=3, lam=50.0), np.load("x.npy")).cws_gap
    assert said["sentences"] and said["non_zeros"] <= 3
    assert run(*PROBLEM, "--point", "x.npy", "-q").output == ""


def test_a_better_exchange_is_named():
    problem = SIT(A, Y, s=3, lam=50.0)
    x = np.zeros(8)
    x[7] = 1.0
    said = sentences(problem, cp.certify(problem, x, level="swap"))
    assert any(re.search(r"(Letting|Exchanging) coordinate .* lowers it by", sentence) for sentence in said)
    best = cp.minimize(problem, method="exact").x
    other = np.where(best > 0, best + 1.0, 0.0)
    said = sentences(problem, cp.certify(problem, other / other.sum(), level="swap"))
    assert any(sentence.startswith("Other weights of the same coordinates lower it by") for sentence in said)
    weak = SIT(A, Y, s=3, lam=0.01)
    assert any("λ is not above" in sentence for sentence in sentences(weak, cp.certify(weak, x)))


@pytest.mark.parametrize(
    ("name", "content", "arguments", "sentence"),
    [
        ("p.npy", None, (), "--point is p.npy, which does not exist."),
        (".", None, (), "--point is ., a folder; give a file."),
        ("p.doc", "1", (), "--point is p.doc; it must be one of .npz, .npy, .csv, .txt."),
        ("p.csv", "", (), "p.csv is empty."),
        ("p.csv", "w\nx\n1\n", (), "p.csv, line 2 holds 'x'; it must hold numbers only."),
        ("p.csv", "w\n", (), "p.csv holds no numbers."),
        ("p.csv", "1\n2\n", (), "p.csv holds 2 numbers, but data.npz has 8 columns of data; give one number per column."),
        ("p.txt", "1 " * 8, (), "p.txt violates the constraints by 7, so no certificate is possible; --project moves it onto them first."),
        ("p.npy", "damage", (), "p.npy is damaged, or not an .npy file."),
        ("x.npy", None, ("--name", "x"), "--name is given, but x.npy is no .npz; it holds one array."),
        ("several.npz", None, (), "several.npz holds bcd-g, psg; say which with --name."),
        ("several.npz", None, ("--name", "x"), "several.npz holds no 'x'; it has bcd-g, psg."),
        ("data.npz", None, ("--name", "A"), "data.npz holds an array of shape (6, 8) and dtype float64; a point is a vector of numbers."),
        ("x.npy", None, ("--level", "all"), "--level is 'all'; it must be one of pair, swap."),
        ("x.npy", None, ("--lam", "-1"), "--lam is -1; it must be finite and at least 0."),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(folder, name, content, arguments, sentence):
    if content is not None:
        Path(name).write_text(content)
    found = run(*PROBLEM, "--point", name, *arguments)
    assert (found.exit_code, found.stdout, found.stderr) == (2, "", sentence + "\n")


def test_a_point_can_be_moved_onto_the_constraints(folder):
    Path("p.txt").write_text("1 " * 8)
    assert run(*PROBLEM, "--point", "p.txt", "--project").exit_code == 0

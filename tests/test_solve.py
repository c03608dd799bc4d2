import io
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console
from typer.testing import CliRunner

import counterpoise as cp
from counterpoise import solvers
from counterpoise.cli import app
from counterpoise.cli import solve as command
from counterpoise.problems import DCPB1, DCPB2, NNSPCA, SIT
from counterpoise.solvers.hybrid import join

N = 8
RNG = np.random.default_rng(0)
A = RNG.standard_normal((6, N))
Y = A @ np.array([0.5, 0.3, 0.2, 0, 0, 0, 0, 0])
SIT_OPTIONS = ("--problem", "sit", "-s", "3")


def solve(*arguments):
    return CliRunner().invoke(app, ["solve", *map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data in every format."""
    path = tmp_path_factory.mktemp("data")
    np.savez(path / "both.npz", A=A, y=Y)
    np.savez(path / "bad.npz", A=np.where(A == A[0, 0], np.nan, A), y=Y)
    np.savez(path / "short.npz", A=A, y=Y[:-1])
    np.savez(path / "cube.npz", A=A[None], y=Y)
    np.save(path / "matrix.npy", A)
    sp.save_npz(path / "sparse.npz", sp.csr_array(A))
    names = [f"S{k}" for k in range(N)]
    np.savetxt(
        path / "table.csv", np.column_stack([A, Y]), "%.17g", ",", header=",".join([*names, "index"]), comments=""
    )
    return path


@pytest.fixture
def methods(monkeypatch):
    """Register a method that takes few steps at random and chooses no pairs by name."""

    def stroll(problem, x0=None, max_iter=None, max_time=None, seed=0):
        limits = {"max_iter": min(max_iter or 5, 5), "max_time": max_time}
        result = solvers.METHODS["bcd-g"](problem, x0, working_set="random", seed=seed, **limits)
        return cp.Result(**{**result, "status": cp.Status.STATIONARY, "success": False})

    monkeypatch.setitem(solvers.METHODS, "stroll", stroll)


def test_it_prints_what_the_library_finds(folder):
    result = solve(folder / "both.npz", *SIT_OPTIONS, "--lam", "10")
    assert result.exit_code == 0, result.output
    expected = cp.minimize(SIT(A, Y, s=3, lam=10.0))
    assert result.stdout.startswith("SIT: 8 coordinates, 6 rows, λ = 10.\n")
    row = result.stdout.splitlines()[-1].split()
    assert row[0] == "bcd-g"
    assert row[1] == f"{expected.objective:.6g}"
    assert int(row[3]) == np.count_nonzero(expected.x)
    assert row[5:7] == ["certified", str(expected.nit)]
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("both.npz", ("--problem", "sit", "-s", "3"), lambda lam: SIT(2 * A, 2 * Y, 3, lam)),
        ("table.csv", ("--problem", "sit", "-s", "3", "--target", "index"), lambda lam: SIT(2 * A, 2 * Y, 3, lam)),
        ("matrix.npy", ("--problem", "nnspca", "-s", "3"), lambda lam: NNSPCA(2 * A, 3, lam)),
        ("sparse.npz", ("--problem", "nnspca", "-s", "3"), lambda lam: NNSPCA(sp.csr_array(2 * A), 3, lam)),
        ("both.npz", ("--problem", "dcpb1", "-c", "-2"), lambda lam: DCPB1(2 * A, 2 * Y, -2, lam)),
        ("both.npz", ("--problem", "dcpb2", "-c", "0"), lambda lam: DCPB2(2 * A, 2 * Y, 0, lam)),
    ],
)
def test_json_of_every_problem(folder, name, options, problem):
    result = solve(folder / name, *options, "--scale", "2", "--seed", "3", "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    found = json.loads(result.stdout)
    built = problem(found["lam"])
    certificate = cp.certify(built, cp.minimize(built, seed=3).x)
    (row,) = found["results"]
    assert row["objective"] == pytest.approx(certificate.objective, rel=1e-12)
    assert row["cws_gap"] == pytest.approx(certificate.cws_gap, abs=1e-9)
    assert row["status"] == "CERTIFIED" and row["success"] is True
    # λ was not given: it is above the threshold, so the count cannot be larger.
    assert found["exact_lam"] == pytest.approx(certificate.exact_lam)
    assert found["exact_lam"] < found["lam"] < 1.02 * found["exact_lam"]
    assert row["non_zeros"] <= 3 if "-s" in options else row["fractional"] <= 1
    assert (found["rows"], found["columns"], found["best"], found["warnings"]) == (6, N, "bcd-g", [])


def test_several_methods_start_at_the_same_point(folder, methods, tmp_path):
    save = tmp_path / "x.npz"
    chosen = ("--method", "stroll", "--method", "bcd-g", "--method", "stroll+bcd-g", "--method", "bcd-g")
    result = solve(folder / "both.npz", *SIT_OPTIONS, *chosen, "--save", save, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    rows = {row["method"]: row for row in found["results"]}
    assert list(rows) == ["stroll", "bcd-g", "stroll+bcd-g"]
    problem = SIT(A, Y, 3, found["lam"])
    with np.load(save) as points:
        assert points.files == list(rows)
        for name, row in rows.items():
            assert problem.objective(points[name]) == row["objective"]
    assert rows["stroll+bcd-g"]["objective"] <= rows["stroll"]["objective"]
    assert rows["stroll+bcd-g"]["nit"] > rows["stroll"]["nit"] == 5
    assert rows["stroll"]["status"] == "STATIONARY" and rows["stroll+bcd-g"]["status"] == "CERTIFIED"
    assert found["best"] == min(rows, key=lambda name: rows[name]["objective"])


def test_a_hybrid_shares_its_limits(folder):
    (row,) = json.loads(
        solve(
            folder / "both.npz",
            *SIT_OPTIONS,
            "--method",
            "bcd-g+bcd-g",
            "--max-iter",
            "4",
            "--max-time",
            "60",
            "--json",
        ).stdout
    )["results"]
    assert row["nit"] == 4
    assert row["status"] == "ITERATION_LIMIT" and row["success"] is False


def test_a_working_set_reaches_only_methods_that_have_one(folder, methods):
    arguments = (folder / "both.npz", *SIT_OPTIONS, "--working-set", "cyclic", "--method", "stroll+bcd-g")
    assert solve(*arguments).exit_code == 0


def test_join_continues_the_history():
    problem = SIT(A, Y, 3, 10.0)
    first = cp.minimize(problem, working_set="random", max_iter=7)
    second = cp.minimize(problem, x0=first.x)
    both = join(first, second)
    rows = len(first.history)
    np.testing.assert_array_equal(both.history[:rows], first.history)
    np.testing.assert_array_equal(both.history[rows:, 0], second.history[:, 0] + 7)
    np.testing.assert_allclose(both.history[rows:, 1], second.history[:, 1] + first.history[-1, 1])
    np.testing.assert_array_equal(both.history[rows:, 2], second.history[:, 2])
    assert (np.diff(both.history[:, :2], axis=0) >= 0).all()
    assert (both.nit, both.nacc) == (first.nit + second.nit, first.nacc + second.nacc)
    assert both.time == first.time + second.time
    for name in ("x", "objective", "status", "success", "message", "cws_gap", "tolerance", "seed"):
        assert both[name] is second[name]


def test_join_leaves_its_arguments_alone():
    problem = SIT(A, Y, 3, 10.0)
    first, second = cp.minimize(problem, max_iter=2), cp.minimize(problem)
    kept = first.history.copy(), second.history.copy()
    join(join(first, second), second)
    np.testing.assert_array_equal(first.history, kept[0])
    np.testing.assert_array_equal(second.history, kept[1])


def outcome(objective, gap=0.0):
    result = cp.Result(x=np.zeros(2), objective=objective, status=cp.Status.ITERATION_LIMIT, nit=1234567, time=123.4)
    return command.Outcome(result, 1e-16, gap, 3)


def printed(outcomes, **options):
    console = Console(width=80, file=io.StringIO(), **options)
    console.print(command._comparison(SIT(A, Y, 3, 10.0), outcomes))
    return console.file.getvalue()


def test_the_best_objective_is_bold():
    text = printed({"one": outcome(2.5), "two": outcome(1.5), "three": outcome(1.5)}, force_terminal=True)
    assert re.findall(r"\x1b\[1m([\d.]+)\x1b\[0m", text) == ["1.5", "1.5"]


def test_an_infeasible_point_is_never_the_best():
    outcomes = {"off": outcome(1.0, np.nan), "on": outcome(2.0)}
    assert command._best(outcomes) == "on"
    text = printed(outcomes, force_terminal=True)
    assert re.findall(r"\x1b\[1m([\d.]+)\x1b\[0m", text) == ["2"]
    assert "—" in text


def test_long_rows_fit_a_terminal():
    text = printed({"mscr+bcd-g": outcome(-1.23456789e8), "psg": outcome(2.0)})
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "-1.23457e+08" in text and "iterations" in text and "1,234,567" in text and "mscr+bcd-g" in text


@pytest.mark.parametrize("suffix", [".png", ".svg", ".PDF"])
def test_plot_and_save_say_what_they_wrote(folder, tmp_path, suffix):
    pytest.importorskip("matplotlib")
    plot, save = tmp_path / f"p{suffix}", tmp_path / "x.npz"
    result = solve(folder / "both.npz", *SIT_OPTIONS, "--plot", plot, "--save", save)
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith(f"Wrote {save}.\nWrote {plot}.\n")
    assert plot.stat().st_size > 1000
    again = solve(folder / "both.npz", *SIT_OPTIONS, "--plot", plot, "--save", save, "--force")
    assert again.exit_code == 0, again.output


def test_warnings_become_sentences(folder):
    arguments = (folder / "both.npz", "--problem", "dcpb1", "-c", "1")
    sentence = "no ±1 vector of length 8 has the sum 1"
    plain = solve(*arguments)
    assert plain.exit_code == 0, plain.output
    assert plain.stderr.startswith(f"Warning: {sentence}") and plain.stderr.count("\n") == 1
    as_json = solve(*arguments, "--json")
    assert as_json.stderr == ""
    assert json.loads(as_json.stdout)["warnings"][0].startswith(sentence)


BOTH = "{0}/both.npz"
REFUSED = {
    "problem": ((BOTH, "--problem", "lasso"), "--problem is 'lasso'; it must be one of sit, nnspca, dcpb1, dcpb2."),
    "no s": ((BOTH, "--problem", "sit"), "sit needs --sparsity, the number of coordinates free of the penalty."),
    "no c": ((BOTH, "--problem", "dcpb2"), "dcpb2 needs --total, the sum of x."),
    "c": ((BOTH, *SIT_OPTIONS, "-c", "1"), "sit has no --total; it is an option of dcpb1 and dcpb2."),
    "s": (
        (BOTH, "--problem", "dcpb1", "-c", "0", "-s", "1"),
        "dcpb1 has no --sparsity; it is an option of sit and nnspca.",
    ),
    "s large": ((BOTH, "--problem", "sit", "-s", "9"), "--sparsity is 9; it must be between 1 and 8."),
    "c large": (
        (BOTH, "--problem", "dcpb1", "-c", "9"),
        "c is 9, but 8 coordinates between −1 and 1 sum to -8 at least and 8 at most.",
    ),
    "no y": (
        ("{0}/matrix.npy", *SIT_OPTIONS),
        "sit needs y, but {0}/matrix.npy has only A; give an .npz with A and y.",
    ),
    "no target": (
        ("{0}/table.csv", *SIT_OPTIONS),
        "sit needs y, but {0}/table.csv has only A; name its column with --target.",
    ),
    "target": (
        ("{0}/table.csv", *SIT_OPTIONS, "--target", "indx"),
        "{0}/table.csv has no column 'indx'; did you mean 'index'?",
    ),
    "file": (("{0}/none.csv", *SIT_OPTIONS), "{0}/none.csv does not exist."),
    "nan": (
        ("{0}/bad.npz", *SIT_OPTIONS),
        "A contains nan at (0, 0) (1 such entries); remove or impute them, all entries must be finite.",
    ),
    "length of y": (("{0}/short.npz", *SIT_OPTIONS), "y has shape (5,); it must be (6,)."),
    "dimensions": (("{0}/cube.npz", *SIT_OPTIONS), "A has 3 dimension(s); it must be a matrix, rows × columns."),
    "lam": ((BOTH, *SIT_OPTIONS, "--lam", "-1"), "--lam is -1; it must be finite and at least 0."),
    "scale": ((BOTH, *SIT_OPTIONS, "--scale", "0"), "--scale is 0; it must be non-zero."),
    "seed": ((BOTH, *SIT_OPTIONS, "--seed", "-1"), "--seed is -1; it must be at least 0."),
    "max time": ((BOTH, *SIT_OPTIONS, "--max-time", "nan"), "--max-time is nan; it must be finite and at least 0."),
    "max iter": (
        (BOTH, *SIT_OPTIONS, "--max-iter", "1", "--method", "bcd-g+bcd-g"),
        "--max-iter is 1; it must be at least 2.",
    ),
    "no working set": (
        (BOTH, *SIT_OPTIONS, "--working-set", "cyclic", "--method", "stroll"),
        "--working-set is given, but none of the methods has one: stroll.",
    ),
    "plot": ((BOTH, *SIT_OPTIONS, "--plot", "p.gif"), "--plot is p.gif; it must end in .png, .svg, .pdf."),
    "save": ((BOTH, *SIT_OPTIONS, "--save", "x.tsv"), "--save is x.tsv; it must end in .npz, .csv."),
    "data": (
        (BOTH, *SIT_OPTIONS, "--save", BOTH, "--force"),
        "--save is {0}/both.npz, the data file; give another path.",
    ),
    "exists": (
        (BOTH, *SIT_OPTIONS, "--save", "{0}/short.npz"),
        "--save is {0}/short.npz, which exists; give another path or --force.",
    ),
    "nowhere": (
        (BOTH, *SIT_OPTIONS, "--save", "{0}/none/x.npz"),
        "--save is {0}/none/x.npz, which cannot be written: No such file or directory.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_bad_input_gets_one_sentence(folder, methods, case, form):
    arguments, sentence = REFUSED[case]
    result = solve(*(argument.replace("{0}", str(folder)) for argument in arguments), *form)
    assert result.stderr == sentence.replace("{0}", str(folder)) + "\n"
    assert result.stdout == ""
    assert result.exit_code == 2


def test_an_unknown_working_set_is_refused_before_the_work(folder):
    result = solve(folder / "both.npz", *SIT_OPTIONS, "--working-set", "lucky")
    assert result.exit_code == 2
    assert result.stderr.startswith("working_set is 'lucky'; it must be one of ") and result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize("method", ["simplex", "bcd-g+simplex", "bcd-g+", ""])
def test_an_unknown_method_is_told_those_that_exist(folder, methods, method):
    result = solve(folder / "both.npz", *SIT_OPTIONS, "--method", method)
    known = ", ".join(solvers.METHODS)
    assert "stroll" in known
    assert result.stderr == f"--method is {method!r}; it must be one of {known}, or some joined by +.\n"
    assert result.exit_code == 2


def test_a_folder_is_no_output(folder, tmp_path):
    (tmp_path / "x.npz").mkdir()
    result = solve(folder / "both.npz", *SIT_OPTIONS, "--save", tmp_path / "x.npz", "--force")
    assert result.stderr == f"--save is {tmp_path / 'x.npz'}, which exists; give another path.\n"
    assert result.exit_code == 2


def test_a_plot_without_matplotlib(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = solve(folder / "both.npz", *SIT_OPTIONS, "--plot", "p.png")
    assert result.stderr == "A plot needs matplotlib: install it with pip install matplotlib.\n"
    assert result.exit_code == 2


def refuse_later(error):
    """A method that accepts the small problem of the warm-up and fails on the real one."""

    def method(problem, x0=None, **options):
        if problem.f.m == 6:
            raise error
        return solvers.METHODS["bcd-g"](problem, x0)

    return method


@pytest.mark.parametrize(
    "error", [np.linalg.LinAlgError("no luck."), FloatingPointError("no luck."), MemoryError("no luck.")]
)
def test_a_failure_is_exit_code_1(folder, monkeypatch, error):
    monkeypatch.setitem(solvers.METHODS, "unlucky", refuse_later(error))
    result = solve(folder / "both.npz", *SIT_OPTIONS, "--method", "unlucky")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "no luck.\n")


def test_a_method_that_refuses_the_problem_is_exit_code_2(folder, monkeypatch):
    monkeypatch.setitem(solvers.METHODS, "picky", refuse_later(ValueError("λ is too small.")))
    result = solve(folder / "both.npz", *SIT_OPTIONS, "--method", "picky")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", "λ is too small.\n")


def test_a_disk_that_fills_up_is_exit_code_1(folder, monkeypatch, tmp_path):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("counterpoise.cli.solve.np.savez", full)
    result = solve(folder / "both.npz", *SIT_OPTIONS, "--save", tmp_path / "x.npz")
    assert result.exit_code == 1
    assert "certified" in result.stdout
    assert "No space left on device" in result.stderr and result.stderr.count("\n") == 1


def test_a_bug_is_not_dressed_up(folder, monkeypatch):
    monkeypatch.setitem(solvers.METHODS, "buggy", refuse_later(RuntimeError("a bug")))
    arguments = (folder / "both.npz", *SIT_OPTIONS, "--method", "buggy")
    found = solve(*arguments)
    sentence = "This is a bug in counterpoise, not in the input: RuntimeError: a bug; --debug shows the traceback.\n"
    assert (found.exit_code, found.stdout, found.stderr) == (1, "", sentence)
    assert isinstance(solve(*arguments, "--debug").exception, RuntimeError)


@pytest.mark.parametrize("error", [ValueError("no luck."), FloatingPointError("no luck."), MemoryError("no luck.")])
def test_debug_lets_failures_and_bad_input_through(folder, monkeypatch, error):
    monkeypatch.setitem(solvers.METHODS, "unlucky", refuse_later(error))
    assert solve(folder / "both.npz", *SIT_OPTIONS, "--method", "unlucky", "--debug").exception is error
    assert isinstance(solve(folder / "both.npz", "--problem", "sit", "--debug").exception, ValueError)


def test_quiet_prints_nothing_and_writes_all(folder, tmp_path):
    found = solve(folder / "both.npz", *SIT_OPTIONS, "--quiet", "--save", tmp_path / "x.npz")
    assert (found.exit_code, found.output) == (0, "")
    assert (tmp_path / "x.npz").exists()


def test_an_interrupt_ends_the_comparison_with_what_was_found(folder, monkeypatch):
    def stopped(problem, x0=None, **options):
        result = solvers.METHODS["bcd-g"](problem, x0, max_iter=1)
        # The warm-up has another number of rows.
        return cp.Result(**{**result, "status": cp.Status.INTERRUPTED}) if problem.f.m == 6 else result

    monkeypatch.setitem(solvers.METHODS, "stopped", stopped)
    result = solve(folder / "both.npz", *SIT_OPTIONS, "--method", "stopped+bcd-g", "--method", "bcd-g")
    assert result.exit_code == 130
    rows = result.stdout.splitlines()[5:]
    assert [row.split()[0] for row in rows] == ["stopped+bcd-g"]
    assert "interrupted" in rows[0]


def test_an_infeasible_method_has_no_gap(folder, monkeypatch):
    def off(problem, x0=None, **options):
        result = solvers.METHODS["bcd-g"](problem, x0, max_iter=1)
        return cp.Result(**{**result, "x": result.x + 1.0})

    monkeypatch.setitem(solvers.METHODS, "off", off)
    found = json.loads(
        solve(folder / "both.npz", *SIT_OPTIONS, "--method", "off", "--method", "bcd-g", "--json").stdout
    )
    assert found["results"][0]["cws_gap"] is None
    assert found["best"] == "bcd-g"


def test_data_of_zeros_has_a_penalty_still(folder, tmp_path):
    np.savez(tmp_path / "zero.npz", A=np.zeros((2, 4)), y=np.zeros(2))
    found = json.loads(solve(tmp_path / "zero.npz", *SIT_OPTIONS, "--json").stdout)
    assert found["lam"] == 1.0


def test_the_line_shows_objective_and_gap(folder, shown):
    found = solve(folder / "both.npz", *SIT_OPTIONS, "--method", "bcd-g", "--method", "psg", "--lam", "10", "--json")
    first, second = json.loads(found.stdout)["results"]
    gap = f"gap {max(0.0, first['cws_gap']):.0e}"
    assert f"bcd-g, 1 of 2: objective {first['objective']:.4g}, {gap}" in shown
    aside = f"(bcd-g: {first['objective']:.4g}, {gap})"
    assert f"psg, 2 of 2: objective {second['objective']:.4g}, gap – {aside}" in shown
    assert found.exit_code == 0


def test_in_a_process(folder):
    command = [sys.executable, "-m", "counterpoise", "solve"]
    run = {"capture_output": True, "text": True, "timeout": 120}
    good = subprocess.run([*command, str(folder / "both.npz"), *SIT_OPTIONS, "--json"], **run)
    assert good.returncode == 0, good.stderr
    assert json.loads(good.stdout)["best"] == "bcd-g"
    assert good.stderr == ""


def test_the_problem_is_required(folder):
    bad = solve(folder / "both.npz", "-s", "3")
    assert (bad.exit_code, bad.stdout) == (2, "")
    assert bad.stderr.count("\n") == 1 and "--problem" in bad.stderr


def test_blocks_have_a_size(folder):
    arguments = (folder / "both.npz", *SIT_OPTIONS, "--lam", "10", "--method", "bcd-g", "--method", "bcd-l", "--json")
    found = json.loads(solve(*arguments, "--k", "3").stdout)
    expected = cp.minimize(SIT(A, Y, 3, 10.0), method="bcd-l", k=3, x0=SIT(A, Y, 3, 10.0).start(0))
    rows = {row["method"]: row for row in found["results"]}
    assert rows["bcd-l"]["objective"] == pytest.approx(expected.objective)
    for size, sentence in (
        ("9", "--k is 9; it must be between 2 and 8."),
        ("1", "--k is 1; it must be between 2 and 8."),
    ):
        refused = solve(*arguments, "--k", size)
        assert (refused.exit_code, refused.stderr.strip()) == (2, sentence)
    refused = solve(folder / "both.npz", *SIT_OPTIONS, "--k", "3")
    assert (refused.exit_code, refused.stderr.strip()) == (
        2,
        "--k is given, but bcd-l is not among the methods: bcd-g.",
    )


def test_it_goes_on_from_a_point(folder, tmp_path):
    first = solve(folder / "both.npz", *SIT_OPTIONS, "--lam", "10", "--save", tmp_path / "x.npz", "--json")
    assert first.exit_code == 0
    warm = ("--lam", "10", "--start", tmp_path / "x.npz", "--json")
    again = json.loads(solve(folder / "both.npz", *SIT_OPTIONS, *warm).stdout)
    cold, warm_result = json.loads(first.stdout)["results"][0], again["results"][0]
    assert warm_result["objective"] <= cold["objective"] and warm_result["nacc"] == 0 < cold["nacc"]
    assert again["notes"] == []


def test_a_start_is_moved_onto_the_constraints_with_a_note(folder, tmp_path):
    (tmp_path / "x.csv").write_text("\n".join(["0.5"] * N))
    found = json.loads(solve(folder / "both.npz", *SIT_OPTIONS, "--start", tmp_path / "x.csv", "--json").stdout)
    start = f"{tmp_path / 'x.csv'} violates the constraints by 3; the run starts from the nearest point on them."
    assert found["notes"] == [start]


def test_bad_starts_get_one_sentence(folder, tmp_path):
    np.savez(tmp_path / "two.npz", a=np.ones(N), b=np.ones(3))
    for options, sentence in (
        (("--start-name", "a"), "--start-name is given without --start; give the file."),
        (("--start", "none.npy"), "--start is none.npy, which does not exist."),
        (("--start", tmp_path / "two.npz"), f"{tmp_path / 'two.npz'} holds a, b; say which with --start-name."),
        (
            ("--start", tmp_path / "two.npz", "--start-name", "b"),
            f"{tmp_path / 'two.npz'} holds 3 numbers, but {folder / 'both.npz'} has 8 columns of data; give one number per column.",
        ),
    ):
        found = solve(folder / "both.npz", *SIT_OPTIONS, *options)
        assert (found.exit_code, found.stdout, found.stderr) == (2, "", sentence + "\n")


def test_a_column_of_days_is_left_out_with_a_note(folder, tmp_path):
    lines = (folder / "table.csv").read_text().splitlines()
    dated = [f"{'Date' if k == 0 else f'2024-01-{k:02d}'},{line}" for k, line in enumerate(lines)]
    (tmp_path / "dated.csv").write_text("\n".join(dated))
    options = (*SIT_OPTIONS, "--target", "index", "--lam", "10", "--json")
    plain, with_days = (
        json.loads(solve(path, *options).stdout) for path in (folder / "table.csv", tmp_path / "dated.csv")
    )
    assert with_days["results"][0]["objective"] == plain["results"][0]["objective"]
    assert plain["notes"] == [] and with_days["notes"] == [
        f"Left out Date of {tmp_path / 'dated.csv'}, which is not data."
    ]


def test_prices_in_place_of_returns_are_noticed(folder, tmp_path):
    np.savez(tmp_path / "prices.npz", A=100.0 + A, y=100.0 + Y)
    found = json.loads(solve(tmp_path / "prices.npz", *SIT_OPTIONS, "--lam", "10", "--json").stdout)
    assert found["notes"] == [f"The columns of {tmp_path / 'prices.npz'} look like prices; sit tracks returns."]

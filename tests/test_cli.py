import io
import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import counterpoise as cp
from counterpoise.cli import app
from counterpoise.cli.base import Line, status_line, tell
from counterpoise.cli.demo import tracking_error
from counterpoise.datasets import simulate_market
from counterpoise.problems import SIT
from counterpoise.sentences import by_more_than
from counterpoise.solvers.run import Progress

SMALL = ("--stocks", "60", "--days", "120", "--hold", "5")
ROW = re.compile(r"│ ([A-Z]{3}) +│ ([A-Za-z ]+?) +│ +([\d.]+) % │ +([\d.]+) % │")


def run(*arguments):
    return CliRunner().invoke(app, arguments)


@pytest.fixture(scope="module")
def demo():
    result = run("demo", *SMALL)
    assert result.exit_code == 0, result.output
    return result.output


def test_demo_lists_the_portfolio(demo):
    market = simulate_market(n_days=120, n_stocks=60)
    rows = ROW.findall(demo)
    weights = [float(weight) for _, _, weight, _ in rows]
    assert len(rows) == 5
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(100.0, abs=0.005 * len(rows))
    for ticker, sector, _, in_index in rows:
        stock = market.tickers.index(ticker)
        assert sector == market.sectors[stock]
        assert float(in_index) == pytest.approx(100.0 * market.weights[stock], abs=0.005)


def test_demo_reports_what_the_library_finds(demo):
    market = simulate_market(n_days=120, n_stocks=60)
    result = cp.minimize(SIT(market.returns, market.index, s=5, lam=1e3))
    words = " ".join(demo.split())
    squares = np.mean((market.returns @ result.x - market.index) ** 2)
    assert tracking_error(market, result.x) == pytest.approx(np.sqrt(252 * squares))
    assert "Status CERTIFIED" in words
    assert f"Objective {result.objective:.6g}, with λ = 1000" in words
    assert f"Tracking error {tracking_error(market, result.x):.3f} %" in words
    assert f"Iterations {result.nit:,}," in words
    assert "Names held 5 of 60 " in words
    assert re.search(
        r"any two of the 60 stocks \(1,770 pairs\) lowers the objective (by more than .*e|by anything measurable|at all)",
        words,
    )


def test_demo_splits_its_time(demo):
    words = " ".join(demo.split())
    assert re.search(r"First call [\d.e+]+ m?s, of which [\d.e+-]+ m?s to compile or load the kernels", words)
    assert re.search(r"Second call [\d.e+]+ m?s, from the data to the certified point", words)


def test_no_line_is_wider_than_the_terminal(demo):
    assert max(len(line) for line in demo.splitlines()) <= 80
    assert "…" not in demo


def test_demo_says_when_the_penalty_is_too_weak():
    output = " ".join(run("demo", *SMALL, "--lam", "1").output.split())
    assert re.search(r"Names held \d+ of 60, more than --hold 5: raise --lam; above [\d,]+ this cannot happen", output)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("demo", "--hold", "500"), "--hold is 500; it must be between 1 and 400."),
        (("demo", "--stocks", "1"), "--stocks is 1; it must be between 2 and 6000."),
        (("demo", "--days", "0"), "--days is 0; it must be between 2 and 5000."),
        (("demo", "--seed", "-1"), "--seed is -1; it must be at least 0."),
        (("demo", "--lam", "nan"), "--lam is nan; it must be finite and at least 0."),
        (("demo", "--lam", "-1"), "--lam is -1; it must be finite and at least 0."),
    ],
)
def test_bad_values_get_one_sentence(arguments, sentence):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr == sentence + "\n"
    assert result.stdout == ""


@pytest.mark.parametrize("arguments", [("demo", "--hold", "few"), ("demo", "--what", "1"), ("nonsense",)])
def test_usage_errors_get_one_line(arguments):
    found = run(*arguments)
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.count("\n") == 1
    assert arguments[-2 if len(arguments) > 1 else -1] in found.stderr


def test_a_bug_is_not_dressed_up_as_a_bad_option(monkeypatch):
    def broken(*arguments):
        raise RuntimeError("a bug")

    monkeypatch.setattr("counterpoise.cli.demo.simulate_market", broken)
    found = run("demo", *SMALL)
    sentence = "This is a bug in counterpoise, not in the input: RuntimeError: a bug; --debug shows the traceback.\n"
    assert (found.exit_code, found.stdout, found.stderr) == (1, "", sentence)
    assert isinstance(run("demo", *SMALL, "--debug").exception, RuntimeError)


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.output == f"counterpoise {cp.__version__}\n"


def test_no_command_prints_the_help():
    result = run()
    assert result.exit_code == 0
    assert "demo" in result.output


@pytest.mark.parametrize("gap", [1.41e-9, 9.99e-9, 2.0, 1.04999e-12])
def test_the_certified_bound_is_rounded_up(gap):
    text = by_more_than(gap)
    assert gap <= float(text.removeprefix("by more than ")) <= 1.1 * gap


def test_a_gap_of_zero_is_said_plainly():
    assert by_more_than(0.0) == "at all"


def test_a_process_ends_with_the_code_and_the_line_of_its_error():
    """As a user runs it, not through the runner of the tests."""

    def process(*arguments):
        command = [sys.executable, "-m", "counterpoise", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=600)

    usage = process("demo", "--hold", "few")
    assert (usage.returncode, usage.stdout) == (2, "")
    assert usage.stderr.count("\n") == 1 and "--hold" in usage.stderr and "Traceback" not in usage.stderr
    debug = process("demo", "--hold", "0", "--debug")
    assert debug.returncode == 1
    assert "Traceback" in debug.stderr and "--hold is 0" in debug.stderr


def test_demo_prints_json_only():
    found = run("demo", *SMALL, "--json")
    assert (found.exit_code, found.stderr) == (0, "")
    said = json.loads(found.stdout)
    market = simulate_market(n_days=120, n_stocks=60)
    result = cp.minimize(SIT(market.returns, market.index, s=5, lam=1e3))
    assert said["weights"] == {market.tickers[i]: result.x[i] for i in np.argsort(-result.x)[:5]}
    assert (said["status"], said["certified"], said["objective"]) == ("CERTIFIED", True, result.objective)
    assert said["tracking_error_annual"] == pytest.approx(tracking_error(market, result.x) / 100.0)
    assert (said["stocks"], said["days"], said["hold"], said["seed"], said["lam"]) == (60, 120, 5, 0, 1000.0)
    assert said["second_call"] > 0.0


def test_demo_can_be_quiet():
    assert run("demo", *SMALL, "-q").output == ""


def test_data_is_listed_as_json(tmp_path):
    (tmp_path / "blocks").mkdir()
    np.savez(tmp_path / "blocks" / "small-a.npz", A=np.ones((3, 4)), seed=3)
    (tmp_path / "blocks" / "broken-a.npz").write_bytes(b"no archive")
    found = run("data", "--data", str(tmp_path), "--json")
    assert (found.exit_code, found.stderr) == (0, "")
    said = json.loads(found.stdout)
    rows = {row["set"]: row for row in said["sets"]}
    assert said["folder"] == str(tmp_path)
    assert rows["NAS-16"]["state"] == "absent" and rows["NAS-16"]["m"] is None
    assert (rows["small-a"]["state"], rows["small-a"]["m"], rows["small-a"]["n"]) == ("here", 3, 4)
    quiet = run("data", "--data", str(tmp_path), "--quiet")
    assert (quiet.exit_code, quiet.stdout) == (0, "")
    assert rows["broken-a"]["state"] == "damaged" and quiet.stderr == rows["broken-a"]["from"] + "\n"


def test_data_is_prepared_and_added_with_the_same_manners(tmp_path):
    made = json.loads(run("data", "prepare", "randn-a", "--into", str(tmp_path), "--json").stdout)
    assert made["files"] == [str(tmp_path / "blocks" / "randn-a.npz")]
    assert run("data", "prepare", "randn-a", "--into", str(tmp_path), "-q").output == ""
    prices = tmp_path / "prices.csv"
    prices.write_text("date,A,B,SPX\n" + "".join(f"2024-01-0{k},{k + 9},{k + 10},{k + 11}\n" for k in range(1, 6)))
    arguments = ("data", "add", str(prices), "--index", "SPX", "--into", str(tmp_path))
    said = json.loads(run(*arguments, "--name", "MINE", "--json").stdout)
    assert (said["set"], said["m"], said["n"], said["notes"]) == ("MINE", 4, 2, [])
    assert run(*arguments, "--name", "YOURS", "-q").output == ""
    assert (tmp_path / "index_tracking" / "YOURS.npz").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("data", "--data", "nowhere"), 2, "--data is nowhere, which is not a folder.\n"),
        (("data", "--json", "prepare", "randn-a"), 2, "--json is given before prepare; give it after.\n"),
        (("data", "fetch", "cakes"), 2, "NAME is 'cakes'; it must be one of 20News, MNIST.\n"),
        (("reproduce", "table-9"), 2, None),
        (("reproduce", "table-1", "-q", "-v"), 2, "--quiet and --verbose are both given; give one of them.\n"),
        (
            ("reproduce", "theory", "--tables-only"),
            2,
            "--tables-only is given, but theory keeps no records; run it without.\n",
        ),
    ],
)
def test_bad_input_is_exit_code_2_and_debug_shows_where(arguments, code, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run(*arguments)
    assert (found.exit_code, found.stdout) == (code, "")
    assert found.stderr.count("\n") == 1 and (sentence is None or found.stderr == sentence)
    if arguments[1] != "--json":
        assert isinstance(run(*arguments, "--debug").exception, ValueError | OSError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", ["demo", "data", "data prepare", "data add", "data fetch", "reproduce", "solve", "bench"]
)
def test_help_has_an_example(command):
    shown = run(*command.split(), "--help")
    assert shown.exit_code == 0
    assert f"Example: counterpoise {command} " in " ".join(shown.output.split())


def test_the_line_of_progress_says_what_is_known(monkeypatch):
    now, shown = [100.0], []
    monkeypatch.setattr("counterpoise.cli.base.time.perf_counter", lambda: now[0])
    line = Line(shown.append)
    line("Reading")
    assert (shown[-1], line.left()) == ("Reading …", "")
    line("3 of 9 names", 10.0)
    line.hear(Progress(1, 0.5, 1.2345678, np.zeros(1)))
    assert shown[-1] == "3 of 9 names: objective 1.235, gap –"
    now[0] += 0.5
    assert line.left() == "", "a short run has no time left to speak of"
    now[0] += 1.0
    assert line.left() == "9 s left"
    line("psg, 2 of 2", aside=" (bcd-g: 1, gap 0)")
    line.hear(Progress(1, 0.5, 2.0, np.zeros(1)))
    assert shown[-1] == "psg, 2 of 2: objective 2, gap – (bcd-g: 1, gap 0)"
    now[0] += 2.0
    assert line.left() == "", "without a limit or a count nothing is known"
    line.reach(0.25)
    assert line.left() == "about 6 s left"
    now[0] += 7.0
    assert line.left() == "about 0 s left"


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_line_of_progress_stays_one_line(monkeypatch, columns):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=columns, height=20, color_system=None, _environ={})
    monkeypatch.setattr("counterpoise.cli.base.Console", lambda stderr: console)
    with status_line() as say:
        say("[bold] is no markup " + "a" * 100, 3600.0)
        say.began -= 100.0
        time.sleep(0.3)
    seen = [line for line in re.split(r"[\r\n]|\x1b\[[\d;?]*[A-Za-z]", screen.getvalue()) if "bold" in line]
    assert seen and all(len(line) <= columns for line in seen)
    assert "[bold]" in seen[-1] and seen[-1].endswith("3500 s left")
    assert re.search(r" \d:\d\d:\d\d", seen[-1]), "the time elapsed is never cut"


def test_sentences_break_between_words_on_a_terminal_and_nowhere_else():
    sentence = "No change of any two coordinates lowers the objective by more than a little."
    for terminal in (True, False):
        screen = io.StringIO()
        tell(Console(file=screen, width=30, force_terminal=terminal, color_system=None), sentence)
        lines = screen.getvalue().splitlines()
        assert " ".join(line.strip() for line in lines) == sentence
        assert (len(lines) > 1) == terminal

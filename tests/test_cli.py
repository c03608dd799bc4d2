import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import counterpoise as cp
from counterpoise.cli import app
from counterpoise.cli.demo import _by_more_than, tracking_error
from counterpoise.datasets import simulate_market
from counterpoise.problems import SIT

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
    assert "Status CERTIFIED" in words
    assert f"Objective {result.objective:.6g}, with λ = 1000" in words
    assert f"Tracking error {tracking_error(market, result.x):.3f} %" in words
    assert f"Iterations {result.nit:,}," in words
    assert "Names held 5 of 60 " in words
    assert re.search(r"any two of the 60 stocks \(1,770 pairs\) lowers the objective (by more than .*e|at all)", words)


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
def test_usage_errors_get_one_line_in_a_process(arguments):
    process = subprocess.run(
        [sys.executable, "-m", "counterpoise.cli", *arguments], capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr.count("\n") == 1
    assert arguments[-2 if len(arguments) > 1 else -1] in process.stderr
    assert "Traceback" not in process.stderr


def test_a_bug_is_not_dressed_up_as_a_bad_option(monkeypatch):
    def broken(*arguments):
        raise RuntimeError("a bug")

    monkeypatch.setattr("counterpoise.cli.demo.simulate_market", broken)
    assert isinstance(run("demo", *SMALL).exception, RuntimeError)


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
    text = _by_more_than(gap)
    assert gap <= float(text.removeprefix("by more than ")) <= 1.1 * gap


def test_a_gap_of_zero_is_said_plainly():
    assert _by_more_than(0.0) == "at all"

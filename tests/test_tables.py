"""The reader of tables: separators, decimal commas, names, days."""

import numpy as np
import pytest

from counterpoise.tables.arrays import read_arrays
from counterpoise.tables.portfolios import read_prices
from counterpoise.tables.read import read_sheet


def sheet_of(folder, text, **options):
    path = folder / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_sheet(path, **options)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_separator_is_found_in_the_first_line(tmp_path, separator):
    sheet = sheet_of(tmp_path, "name,age,size\nA,1.5,2\nB,,4\n".replace(",", separator))
    assert sheet.names == ["name", "age", "size"] and sheet.words == ["name"] and sheet.notes == []
    np.testing.assert_array_equal(sheet.numbers("age"), [1.5, np.nan])
    assert sheet.text("size") == ["2", "4"]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas_where_commas_do_not_separate(tmp_path, separator):
    text = "name;age;size\nA;1,5;-0,25\nB;;1,5e3\nC;7;,5\n".replace(";", separator)
    sheet = sheet_of(tmp_path, text)
    np.testing.assert_array_equal(sheet.numbers("age"), [1.5, np.nan, 7.0])
    np.testing.assert_array_equal(sheet.numbers("size"), [-0.25, 1500.0, 0.5])
    assert sheet.notes == [f"Read commas in the numbers of {tmp_path / 't.csv'} as decimal points."]
    assert sheet_of(tmp_path, text, decimal=".").words == ["name", "age", "size"]


def test_a_comma_is_no_decimal_point_beside_points_or_between_commas(tmp_path):
    assert sheet_of(tmp_path, "a;b\n1,5;2.5\n").words == ["a"]
    assert sheet_of(tmp_path, 'a,b\n"1,234",2\n').words == ["a"]
    np.testing.assert_array_equal(sheet_of(tmp_path, 'a,b\n"1,5",2\n', decimal=",").numbers("a"), [1.5])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("day;Rück, AG;B\n1;2,5;3,5\n", ["day", "Rück, AG", "B"]),  # a comma in a name, and in every number
        ("a, EUR;b, EUR\n1,5;2,5\n", ["a, EUR", "b, EUR"]),
        ('a,"b; c"\n1,2\n', ["a", "b; c"]),
        ("a,b;c\n1,2\n3,4\n", ["a", "b;c"]),
        ("a\n1,5\n", ["a"]),
    ],
)
def test_the_separator_divides_all_lines_alike(tmp_path, text, names):
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    if names == ["a"]:
        with pytest.raises(ValueError, match=r"line 2: 2 fields, but line 1 has 1; all must agree\.$"):
            read_sheet(path)
    else:
        assert read_sheet(path).names == names


def test_a_very_wide_table_has_no_separator_but_its_own(tmp_path):
    names = [f"column {k}" for k in range(20_000)]  # a line longer than the csv module takes for one cell
    sheet = sheet_of(tmp_path, "\n".join([",".join(names), ",".join("1" for _ in names)]))
    assert sheet.names == names


def test_zeros_before_a_number_are_part_of_a_name(tmp_path):
    sheet = sheet_of(tmp_path, "ticker,size\n000001,1\n600519,2.0\n")
    assert (sheet.text("ticker"), sheet.text("size")) == (["000001", "600519"], ["1", "2"])


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["2024-01-31", "2024-2-1T16:00"], True),
        (["2024/01/31", "2024.02.01"], True),
        (["31.1.2024", "1/2/2024 16:00"], True),
        (["31-01-24", "01-02-24"], True),
        (["31 Jan 2024", "1-Feb-24"], True),
        (["Jan 31, 2024", "February 1 2024"], True),
        (["10.0.12.7", "10.0.12.8"], False),  # addresses
        (["1.2.3", "1.2.4"], False),  # versions
        (["2024-01-31-7", "2024-01-31-8"], False),  # numbers of cases
        (["north", "2024-01-31"], False),
    ],
)
def test_days_are_known_by_their_look(tmp_path, cells, expected):
    sheet = sheet_of(tmp_path, "x;y\n" + "".join(f"{cell};1\n" for cell in cells))
    assert sheet.holds_days(0) is expected


def test_columns_can_be_left_out(tmp_path):
    sheet = sheet_of(tmp_path, "a,b,c\n1,x,07\n").without(["b"])
    assert (sheet.names, sheet.text("c"), sheet.words) == (["a", "c"], ["07"], [])


def test_a_separator_may_be_given(tmp_path):
    sheet = sheet_of(tmp_path, "a|b\n1|2\n", separator="|")
    assert sheet.names == ["a", "b"] and sheet.numbers("b").tolist() == [2.0]


def test_arrays_and_prices_are_read_by_the_same_reader(tmp_path):
    pytest.importorskip("pandas")
    path = tmp_path / "p.csv"
    path.write_text("Datum;AAA;BBB;SPX\n31.12.2023;1,5;2;3\n2.1.2024;1,75;2,5;3,5\n")
    assert read_arrays(path, "SPX")["A"].tolist() == [[1.5, 2.0], [1.75, 2.5]]
    assert read_arrays(path)["left_out"] == ["Datum"]
    prices = read_prices(path)
    assert prices.frame["SPX"].tolist() == [3.0, 3.5] and str(prices.frame.index[0].date()) == "2023-12-31"
    assert prices.notes == [f"Read commas in the numbers of {path} as decimal points."]


def test_text_in_another_encoding_is_named(tmp_path):
    assert sheet_of(tmp_path, "a,b\n1,2\n".encode("utf-16")).names == ["a", "b"]
    with pytest.raises(ValueError, match=r"t\.csv begins as UTF-16 text, but is damaged; save it as UTF-8\.$"):
        sheet_of(tmp_path, "a,b\n".encode("utf-16")[:-1])
    with pytest.raises(ValueError, match=r"t\.csv, line 2 is not UTF-8 text; save the file as UTF-8\.$"):
        sheet_of(tmp_path, "a,b\nä,2\n".encode("latin-1"))


def test_names_that_repeat_are_refused_but_not_in_arrays(tmp_path):
    text = "a,a\n1,2\n"
    with pytest.raises(ValueError, match=r"has more than one column 'a', columns 1 and 2; names must be unique\.$"):
        sheet_of(tmp_path, text)
    assert read_arrays(tmp_path / "t.csv")["A"].tolist() == [[1.0, 2.0]]

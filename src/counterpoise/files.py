"""Files: one problem's data from ``.npz``, ``.npy``, ``.csv`` or ``.parquet``, or one sentence of what is wrong."""

from __future__ import annotations

import csv
import decimal
import difflib
import io
import numbers
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from counterpoise.checks import Vector
from counterpoise.extras import require
from counterpoise.output import unguarded

MATRIX_NAMES = ("A", "R", "returns", "X")
TARGET_NAMES = ("y", "index")
SPARSE_NAMES = ("data", "indices", "indptr", "shape")
DATE_NAMES = ("date", "dates", "day", "datetime", "time", "timestamp")
# Days as whole numbers, such as 20240131.
COMPACT_DAYS = (19000101, 21991231)
DAY = re.compile(r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{1,2}[ -][A-Za-z]{3}")
# What NumPy raises on an archive cut short, altered or encrypted.
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, RuntimeError)


def read_arrays(path: str | os.PathLike[str], target: str | None = None) -> dict[str, Any]:
    """Read the matrix A, dense or sparse, and the vector y if there is one.

    Parameters
    ----------
    path : path
        * ``.npz``: A (or R, returns, X) and perhaps y (or index); instead of A also data, indices, indptr and shape
          of a CSR matrix, or what ``scipy.sparse.save_npz`` writes.
        * ``.npy``: A.
        * ``.csv``: numbers between commas, with or without a line of names.
        * ``.parquet``: columns of numbers.

        Below a line of names a column of days, and the row numbers that pandas writes, are no data.
    target : str, optional
        The column of a table that becomes y; the others are A.

    Returns
    -------
    dict
        ``A``; ``y`` if there is one; and ``left_out``, the names of columns that are no data, if there are any.

    Raises
    ------
    OSError
        If the file does not exist or cannot be read.
    ValueError
        If it does not hold what it should; the sentence says where.
    ImportError
        If ``.parquet`` needs a package that is not installed.
    """
    path = Path(path)
    reader = _reader(path)
    if target is not None and reader not in (_read_csv, _read_parquet):
        raise ValueError(f"{path} has no columns by name, so a target cannot be chosen; it takes y from the file.")
    try:
        if path.stat().st_size == 0:
            raise ValueError(f"{path} is empty.")
        return reader(path, target)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist.") from None
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror or error}.") from None


def _reader(path: Path) -> Callable[[Path, str | None], dict[str, Any]]:
    suffix = path.suffix.lower()
    if suffix not in READERS:
        said = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
        raise ValueError(f"{path} has {said}; a data file is one of {', '.join(READERS)}.")
    return READERS[suffix]


def _read_npz(path: Path, target: str | None) -> dict[str, Any]:
    with path.open("rb") as stream:
        archive = _load(path, stream)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError(f"{path} is not an .npz archive.")
        arrays: dict[str, Any] = {"A": _matrix(path, archive)}
        name = _one_of(path, archive, TARGET_NAMES)
        if name is not None:
            y = _member(path, archive, name)
            arrays["y"] = y.ravel() if y.ndim == 2 and 1 in y.shape else y
    return arrays


def _read_npy(path: Path, target: str | None) -> dict[str, Any]:
    with path.open("rb") as stream:
        array = _load(path, stream)
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path} is not an .npy array.")
    return {"A": _real(path, "its array", array)}


def _load(path: Path, stream: BinaryIO) -> Any:
    """Load with NumPy, which never unpickles here, and leaves open what it opens and cannot read."""
    try:
        return np.load(stream, allow_pickle=False)
    except DAMAGE as error:
        if str(error).startswith("Object arrays"):
            raise ValueError(f"{path} holds Python objects, which are not loaded; save real numbers.") from None
        raise ValueError(f"{path} is damaged, or not an {path.suffix.lower()} file.") from None


def _matrix(path: Path, archive: Any) -> Any:
    name = _one_of(path, archive, MATRIX_NAMES)
    if name is not None:
        return _member(path, archive, name)
    if "format" in archive.files or set(SPARSE_NAMES) <= set(archive.files):
        return _sparse(path, archive)
    raise ValueError(
        f"{path} holds no matrix: it needs {_either(MATRIX_NAMES)}, or {', '.join(SPARSE_NAMES)} of a CSR matrix; "
        f"found {_listed(archive.files)}."
    )


def _sparse(path: Path, archive: Any) -> Any:
    """Return a CSR array whose indices were all looked at, because kernels do not look."""
    import scipy.sparse as sp

    try:
        if "format" in archive.files:
            matrix: Any = sp.load_npz(path)
        else:
            data, indices, indptr, shape = (_member(path, archive, name) for name in SPARSE_NAMES)
            indices, indptr = indices.astype(np.int64), indptr.astype(np.int64)
            rows, columns = map(int, shape)
            matrix = sp.csr_array((data, indices, indptr), shape=(rows, columns))
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
        matrix = sp.csr_array(matrix)
    except (*DAMAGE, TypeError, IndexError) as error:
        raise ValueError(f"{path} holds no valid sparse matrix: {str(error).rstrip('.')}.") from None
    matrix.data = _real(path, "data", matrix.data)
    return matrix


def _one_of(path: Path, archive: Any, names: Sequence[str]) -> str | None:
    found = [name for name in names if name in archive.files]
    if len(found) > 1:
        raise ValueError(f"{path} holds {_listed(found)}, which mean the same; keep one.")
    return found[0] if found else None


def _member(path: Path, archive: Any, name: str) -> npt.NDArray[Any]:
    try:
        array = archive[name]
    except DAMAGE as error:
        why = "holds Python objects, which are not loaded" if "pickle" in str(error) else "is damaged"
        raise ValueError(f"{path}: {name} {why}; save real numbers.") from None
    return _real(path, name, array)


def _real(path: Path, name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return floats, single precision as it is."""
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{path}: {name} has dtype {array.dtype}; save real numbers.")
    return array if array.dtype == np.float32 else np.asarray(array, dtype=np.float64)


def _read_csv(path: Path, target: str | None) -> dict[str, Any]:
    rows, lines = _csv_rows(path)
    if not rows:
        raise ValueError(f"{path} is empty.")
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{path}, line {line}: {_fields(len(row))}, but line {lines[0]} has {len(rows[0])}; all must agree."
            )
    names = _header(path, rows[0], lines[0], target)
    if names is not None:
        rows, lines = rows[1:], lines[1:]
    if not rows:
        raise ValueError(f"{path} has a line of names but no numbers.")
    if names is None:
        return _split(path, _csv_numbers(path, rows, lines, None), None, target)
    columns = [[row[k].strip() for row in rows] for k in range(len(names))]
    no_data = [
        name != target and (_counts(k, name, columns[k]) or is_days(name, columns[k])) for k, name in enumerate(names)
    ]
    rows = [[cell for cell, skip in zip(row, no_data, strict=True) if not skip] for row in rows]
    return _split_names(path, names, no_data, target, lambda kept: _csv_numbers(path, rows, lines, kept))


def is_days(name: str, cells: Sequence[str]) -> bool:
    """Whether a column holds days: its cells look like some, or it is called so and holds numbers like 20240131."""
    given = [cell for cell in cells if cell]
    if not given:
        return False
    if all(DAY.match(cell) for cell in given):
        return True
    named = name.strip().lower() in DATE_NAMES
    return named and all(cell.isdigit() and COMPACT_DAYS[0] <= int(cell) <= COMPACT_DAYS[1] for cell in given)


def _counts(k: int, name: str, cells: Sequence[str]) -> bool:
    """Whether a first column without a name numbers the rows, as pandas writes it."""
    return k == 0 and not name and all(cell == str(row) for row, cell in enumerate(cells))


def _split_names(
    path: Path, names: list[str], no_data: list[bool], target: str | None, numbers_of: Callable[[list[str]], Vector]
) -> dict[str, Any]:
    """Leave out what is no data, and take the target's column out of the rest."""
    kept = [name for name, skip in zip(names, no_data, strict=True) if not skip]
    if not kept:
        raise ValueError(f"{path} has no column of numbers beside {_listed(names)}.")
    arrays = _split(path, numbers_of(kept), kept, target)
    left_out = [name or "the row numbers" for name, skip in zip(names, no_data, strict=True) if skip]
    return {**arrays, "left_out": left_out} if left_out else arrays


def _csv_rows(path: Path) -> tuple[list[list[str]], list[int]]:
    """Return the lines that are not blank, cut at commas, and their numbers."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        reader = csv.reader(io.StringIO(text), strict=True)
        numbered = [(row, reader.line_num) for row in reader if row]
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text.") from None
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}.") from None
    return [row for row, _ in numbered], [line for _, line in numbered]


def _header(path: Path, row: list[str], line: int, target: str | None) -> list[str] | None:
    """Return the names in the first line, None if it holds numbers; a mixture is names only if the target is one."""
    names = [unguarded(cell.strip()) for cell in row]
    if target in names:
        return names
    numeric = [_is_number(cell) for cell in names]
    if all(numeric):
        return None
    if any(numeric):
        number, other = numeric.index(True), numeric.index(False)
        raise ValueError(
            f"{path}, line {line}: {names[number]!r} is a number and {names[other]!r} is not; a line of names has "
            "no numbers, unless the target is among them."
        )
    return names


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _csv_numbers(path: Path, rows: list[list[str]], lines: list[int], names: list[str] | None) -> Vector:
    """Convert at once, and only if that fails look for the cell to blame."""
    try:
        table = np.array(rows, dtype=np.float64)
    except ValueError:
        table = np.full((1, 1), np.nan)
    # float("1_000") is 1000, but in a file it is more likely a label.
    if np.isfinite(table).all() and not any("_" in cell for row in rows for cell in row):
        return table
    for row, line in zip(rows, lines, strict=True):
        for k, cell in enumerate(row):
            if not _is_number(cell) or not np.isfinite(float(cell)):
                said = "is empty" if not cell.strip() else f"is {cell.strip()!r}"
                raise ValueError(f"{path}, line {line}, {_column(k, names)} {said}; it must be a finite number.")
    raise AssertionError("no cell to blame")


def _read_parquet(path: Path, target: str | None) -> dict[str, Any]:
    pandas = require("Reading .parquet needs", "pandas", "pyarrow")
    try:
        frame = pandas.read_parquet(path, engine="pyarrow")
    except ValueError:
        raise ValueError(f"{path} is damaged, or not a .parquet file.") from None
    if frame.empty:
        raise ValueError(f"{path} is empty.")
    names = [str(name) for name in frame.columns]
    no_data = [name != target and _holds_days(frame.iloc[:, k], name) for k, name in enumerate(names)]
    frame = frame.iloc[:, [k for k, skip in enumerate(no_data) if not skip]]
    return _split_names(path, names, no_data, target, lambda kept: _parquet_numbers(path, frame, kept, pandas))


def _holds_days(column: Any, name: str) -> bool:
    if column.dtype.kind == "M":
        return True
    return column.dtype.kind not in "biufc" and is_days(name, [str(value) for value in column.dropna()])


def _parquet_numbers(path: Path, frame: Any, names: list[str], pandas: Any) -> Vector:
    columns = []
    for k, name in enumerate(names):
        column = frame.iloc[:, k]
        dtype = column.dtype
        if pandas.api.types.is_numeric_dtype(dtype) and not pandas.api.types.is_complex_dtype(dtype):
            columns.append(column.to_numpy(dtype=np.float64, na_value=np.nan))
        elif (values := object_numbers(column)) is not None:
            columns.append(values)
        else:
            raise ValueError(f"{path}, column {name!r} has dtype {dtype}; it must be real numbers.")
    table = np.column_stack(columns)
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        row, k = map(int, bad[0])
        raise ValueError(
            f"{path}, row {row + 1}, {_column(k, names)} is {table[row, k]:g}; it must be a finite number."
        )
    return table


def object_numbers(column: Any) -> Vector | None:
    """Return a column of Python's numbers, such as Decimal, as floats; None if it holds anything else."""
    values = np.full(len(column), np.nan)
    for k, (value, missing) in enumerate(zip(column, column.isna(), strict=True)):
        if missing:
            continue
        if isinstance(value, bool) or not isinstance(value, numbers.Real | decimal.Decimal):
            return None
        values[k] = float(value)
    return values


def _split(path: Path, table: Vector, names: list[str] | None, target: str | None) -> dict[str, Any]:
    """Take the target's column out of the table."""
    if target is None:
        return {"A": table}
    if names is None:
        raise ValueError(f"{path} has no line of names, so no column is {target!r}; add names as its first line.")
    if names.count(target) > 1:
        raise ValueError(f"{path} has {names.count(target)} columns named {target!r}; the target must be one.")
    if target not in names:
        raise ValueError(f"{path} has no column {target!r}; {_nearest(target, names)}")
    k = names.index(target)
    return {"A": np.delete(table, k, axis=1), "y": table[:, k].copy()}


def _nearest(target: str, names: list[str]) -> str:
    """Suggest names that look alike, in any case of letters."""
    by_lower = {name.lower(): name for name in names if name}
    close = difflib.get_close_matches(target.lower(), by_lower, n=3)
    if close:
        return f"did you mean {_either([repr(by_lower[name]) for name in close])}?"
    return f"its columns are {_listed(names)}."


def _column(k: int, names: list[str] | None) -> str:
    return f"column {names[k]!r}" if names is not None and names[k] else f"column {k + 1}"


def _fields(count: int) -> str:
    return f"{count} field" if count == 1 else f"{count} fields"


def _either(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _listed(names: Sequence[str], most: int = 10) -> str:
    if not names:
        return "nothing"
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


READERS = {".npz": _read_npz, ".npy": _read_npy, ".csv": _read_csv, ".parquet": _read_parquet}

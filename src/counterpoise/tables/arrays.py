"""Read the data of a problem, and points, from ``.npz``, ``.npy`` or a table."""

from __future__ import annotations

import itertools
import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from counterpoise.checks import Vector
from counterpoise.sentences import joined, some, suggest
from counterpoise.tables.portfolios import read_weights
from counterpoise.tables.read import Sheet, check_suffix, is_number, number_in, open_sheet, reading
from counterpoise.tables.text import decoded

MATRIX_NAMES = ("A", "R", "returns", "X")
TARGET_NAMES = ("y", "index")
SPARSE_NAMES = ("data", "indices", "indptr", "shape")
TABLES = (".csv", ".tsv", ".parquet", ".xlsx")
SUFFIXES = (".npz", ".npy", *TABLES)
POINTS = (".npz", ".npy", ".csv", ".txt")
# Errors that NumPy raises for an archive that is truncated, altered or encrypted.
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, RuntimeError)


def read_arrays(
    path: str | os.PathLike[str],
    target: str | None = None,
    dates: str | None = None,
    ignore: Sequence[str] = (),
    **marks: Any,
) -> dict[str, Any]:
    """Read the matrix A, dense or sparse, and the vector y if there is one.

    Parameters
    ----------
    path : path
        * ``.npz``: A (or R, returns, X) and optionally y (or index); A may also be given as data, indices, indptr and
          shape of a CSR matrix, or as written by ``scipy.sparse.save_npz``.
        * ``.npy``: A.
        * ``.csv``, ``.tsv`` or ``.xlsx``: numbers, with or without a line of column names.
        * ``.parquet``: columns of numbers.

        In a table with column names, a column of dates and the row numbers that pandas writes are left out.
    target : str, optional
        The column of a table that becomes y; the others form A.
    dates : str, optional
        The column of dates of a table, if it is not recognised as one.
    ignore : sequence of str
        Columns of a table to leave out.
    **marks
        ``separator`` and ``decimal`` of a text file, as in :func:`counterpoise.tables.read.read_sheet`.

    Returns
    -------
    dict
        ``A``; ``y`` if there is one; ``names`` of the columns of A, if the table has names; and ``left_out``, the names
        of columns that were left out, if any.

    Raises
    ------
    OSError
        If the file does not exist or cannot be read.
    ValueError
        If its content is invalid; the message says where.
    ImportError
        If a package needed to read ``.parquet`` or ``.xlsx`` is not installed.
    """
    path = Path(path)
    suffix = check_suffix(path, SUFFIXES, "a data file")
    if suffix in TABLES:
        return arrays_of(read_plain(path, target, **marks), target, dates, ignore)
    if dates is not None or ignore:
        raise ValueError(f"{path} has no column names, so no column can be left out.")
    if target is not None:
        raise ValueError(f"{path} has no column names, so a target cannot be chosen; y is taken from the file.")
    with reading(path), path.open("rb") as stream:
        return _read_binary(path, stream, suffix)


# Tables.


def read_plain(path: Path, target: str | None = None, **marks: Any) -> Sheet:
    """Read a table with or without column names; a first line of both numbers and words must contain the target."""

    def names_in(path: Path, where: str, first: list[str]) -> tuple[list[str] | None, list[str]]:
        numeric = [is_number(cell) for cell in first]
        if target in first or not any(numeric):
            return first, []
        if all(numeric):
            return None, []
        number, other = first[numeric.index(True)], first[numeric.index(False)]
        raise ValueError(
            f"{path}, {where}: {number!r} is a number and {other!r} is not; a line of names has no numbers, unless the "
            "target is among them."
        )

    return open_sheet(path, names_in, **marks)


def arrays_of(
    sheet: Sheet, target: str | None = None, dates: str | None = None, ignore: Sequence[str] = ()
) -> dict[str, Any]:
    """Return A, and y if there is a target, from a table; columns of dates, row numbers or an index are left out."""
    path, names = sheet.path, sheet.names if sheet.named else None
    if not sheet.lines:
        raise ValueError(
            f"{path} has a line of names but no numbers." if sheet.cells is not None else f"{path} is empty."
        )
    for name, option in [*((name, "ignore") for name in ignore), *([] if dates is None else [(dates, "dates")])]:
        sheet.require(name, option)
    apart = {*ignore, dates, sheet.index}
    if (day := sheet.date_column()) in sheet.words:  # numbers such as 20240131 may be data here
        apart.add(day)
    no_data = [
        names is not None and name != target and (name in apart or sheet.holds_days(k))
        for k, name in enumerate(sheet.names)
    ]
    kept = [k for k, skip in enumerate(no_data) if not skip]
    if not kept:
        raise ValueError(f"{path} has no column of numbers beside {some(sheet.names, 10)}.")
    table = _finite_numbers(sheet, kept)
    arrays: dict[str, Any] = {"A": table}
    if target is not None:
        if names is None:
            raise ValueError(f"{path} has no line of names, so no column is {target!r}; add names as its first line.")
        if names.count(target) > 1:
            raise ValueError(f"{path} has {names.count(target)} columns named {target!r}; the target must be one.")
        if target not in names:
            hint = suggest(target, [names[k] for k in kept], "its columns are {}", quoted=True)
            raise ValueError(f"{path} has no column {target!r}; {hint}")
        at = kept.index(names.index(target))
        arrays = {"A": np.delete(table, at, axis=1), "y": table[:, at].copy()}
    if names is not None:
        arrays["names"] = [names[k] for k in kept if names[k] != target]
    unasked = [k for k, skip in enumerate(no_data) if skip and sheet.names[k] not in (sheet.index, dates, *ignore)]
    left_out = [sheet.names[k] or "the first column" for k in unasked]
    left_out = ["the row numbers", *left_out] if sheet.numbered else left_out
    return {**arrays, "left_out": left_out} if left_out else arrays


def _finite_numbers(sheet: Sheet, kept: list[int]) -> Vector:
    """Return columns as an array; refuse non-finite cells, with an error that names the first."""
    words = [k for k in kept if sheet.columns[k].dtype.kind != "f"]
    if words and sheet.cells is None:
        raise ValueError(f"{sheet.path}, column {sheet.names[words[0]]!r} has dtype object; it must be real numbers.")
    table = np.column_stack([sheet.columns[k] for k in kept])
    if not words and np.isfinite(table).all():
        return table
    for row, k in itertools.product(range(len(sheet.lines)), kept):
        cell = f"{sheet.columns[k][row]:g}" if sheet.cells is None else sheet.cells[row][k].strip()
        value = number_in(cell)
        if value is None or not np.isfinite(value):
            said = "is empty" if not cell else f"is {cell}" if sheet.cells is None else f"is {cell!r}"
            raise ValueError(f"{sheet.place(row, k)} {said}; it must be a finite number.")
    raise AssertionError("no cell to blame")


# NumPy archives.


def _read_binary(path: Path, stream: BinaryIO, suffix: str) -> dict[str, Any]:
    loaded = _load(path, stream)
    if isinstance(loaded, np.ndarray) != (suffix == ".npy"):
        raise ValueError(f"{path} is not an {'.npy array' if suffix == '.npy' else '.npz archive'}.")
    if suffix == ".npy":
        return {"A": _real(path, "its array", loaded)}
    arrays: dict[str, Any] = {"A": _matrix(path, loaded)}
    name = _one_of(path, loaded, TARGET_NAMES)
    if name is not None:
        y = _member(path, loaded, name)
        arrays["y"] = y.ravel() if y.ndim == 2 and 1 in y.shape else y
    return arrays


def _load(path: Path, stream: BinaryIO) -> Any:
    """Load with NumPy, without pickles, from a stream that the caller closes."""
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
        f"{path} holds no matrix: it needs {joined(MATRIX_NAMES, 'or')}, or {', '.join(SPARSE_NAMES)} of a CSR matrix; "
        f"found {some(archive.files, 10) or 'nothing'}."
    )


def _sparse(path: Path, archive: Any) -> Any:
    """Return a CSR array; check all its indices, because kernels do not."""
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
        raise ValueError(f"{path} holds {some(found)}, which mean the same; keep one.")
    return found[0] if found else None


def _member(path: Path, archive: Any, name: str) -> npt.NDArray[Any]:
    try:
        array = archive[name]
    except DAMAGE as error:
        why = "holds Python objects, which are not loaded" if "pickle" in str(error) else "is damaged"
        raise ValueError(f"{path}: {name} {why}; save real numbers.") from None
    return _real(path, name, array)


def _real(path: Path, name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array of floats; single precision is kept."""
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{path}: {name} has dtype {array.dtype}; save real numbers.")
    return array if array.dtype == np.float32 else np.asarray(array, dtype=np.float64)


# Points.


def read_point(path: Path, name: str | None, option: str, name_option: str) -> Vector | dict[str, float]:
    """Read a vector from a file; ``name`` selects one of several arrays or columns.

    ``option`` and ``name_option`` are the command-line options that error messages mention. A table of names and
    numbers, such as the weights.csv of ``counterpoise track``, is returned as a dictionary.
    """
    suffix = path.suffix.lower()
    if path.is_dir():
        raise IsADirectoryError(f"{option} is {path}, a folder; give a file.")
    if suffix not in POINTS:
        raise ValueError(f"{option} is {path}; it must be one of {', '.join(POINTS)}.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    if suffix == ".csv" and _names_rows(path):
        return read_weights(path, option, name, name_option)
    if name is not None and suffix != ".npz":
        raise ValueError(f"{name_option} is given, but {path} is no .npz; it holds one array.")
    x = _from_text(path) if suffix in (".csv", ".txt") else _from_archive(path, name, name_option)
    if x.ndim == 2 and 1 in x.shape:
        x = x.ravel()
    if x.ndim != 1 or x.dtype.kind not in "biuf":
        raise ValueError(
            f"{path} holds an array of shape {x.shape} and dtype {x.dtype}; a point is a vector of numbers."
        )
    return np.asarray(x, dtype=np.float64)


def _names_rows(path: Path) -> bool:
    """Return whether a table has words below its first line, which are the names of its rows."""
    lines = [line for line in path.read_text(encoding="utf-8-sig", errors="replace").splitlines() if line.strip()]
    cells = [part.strip().strip('"') for line in lines[1:2] for part in line.replace(";", ",").split(",")]
    return len(cells) > 1 and not all(is_number(cell) or not cell for cell in cells)


def _from_archive(path: Path, name: str | None, name_option: str) -> Any:
    with path.open("rb") as stream:
        loaded = _load(path, stream)
        if isinstance(loaded, np.ndarray):
            return loaded
        names = list(loaded.files)
        wanted = name if name is not None else "x" if "x" in names else names[0] if len(names) == 1 else None
        if wanted is None:
            raise ValueError(f"{path} holds {', '.join(names)}; say which with {name_option}.")
        if wanted not in names:
            raise ValueError(f"{path} holds no {wanted!r}; it has {', '.join(names)}.")
        return _member(path, loaded, wanted)


def _from_text(path: Path) -> Any:
    values: list[float] = []
    for number, line in enumerate(decoded(path).splitlines(), 1):
        for cell in line.replace(",", " ").split():
            try:
                values.append(float(cell))
            except ValueError:
                if number == 1 and not values:
                    continue  # a line of names
                raise ValueError(f"{path}, line {number} holds {cell!r}; it must hold numbers only.") from None
    if not values:
        raise ValueError(f"{path} holds no numbers.")
    return np.array(values)

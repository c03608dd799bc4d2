"""Conversion of Polars and Arrow tables and columns to pandas, which all computations use, and back."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from counterpoise.sentences import require

LIBRARIES = ("polars", "pyarrow")


class Native(NamedTuple):
    """The kind of a user's table: its library, and the name and type of its column of dates, if any."""

    library: str
    day: str | None = None
    day_type: Any = None

    def table(self, frame: Any) -> Any:
        """Convert a DataFrame to such a table; a named index becomes its first column."""
        pyarrow = require("Tables of Arrow need", "pyarrow")
        frame = frame.copy(deep=False)
        index = frame.index
        frame.columns = [str(name) for name in frame.columns]
        if index.name is not None:
            frame.insert(0, str(index.name), index)
        table = pyarrow.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
        if self.day_type is not None and index.name == self.day:
            table = table.set_column(0, self.day, table[0].cast(self.day_type))
        return table if self.library == "pyarrow" else require("Tables of Polars need", "polars").from_arrow(table)

    def column(self, values: Any, name: str) -> Any:
        """Convert one value per row to a column of the library; an index is dropped."""
        frame = require("Tables need", "pandas").DataFrame({name: getattr(values, "array", values)})
        return self.table(frame)[name]


def is_pandas(values: Any, kind: str) -> bool:
    """Return whether ``values`` is a pandas object of that kind, without importing pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(values, getattr(pandas, kind))


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or pandas' NA or NaT."""
    return value is None or str(value) == "<NA>" or bool(value != value)


def native_of(values: Any) -> str | None:
    """Return the library of a Polars or Arrow table or column, None for anything else."""
    library = type(values).__module__.partition(".")[0]
    return library if library in LIBRARIES else None


def to_pandas(values: Any, dated: bool = False) -> tuple[Any, Native | None]:
    """Convert a Polars or Arrow table or column to pandas, and return its kind; keep anything else, with kind None.

    With ``dated``, the first column of dates of a table becomes the index.
    """
    library = native_of(values)
    if library is None:
        return values, None
    require("Tables of Polars and Arrow need", "pandas", "pyarrow")
    name = getattr(values, "name", None)
    values = values.collect() if hasattr(values, "collect") else values
    values = values.to_arrow() if hasattr(values, "to_arrow") else values
    found = values.to_pandas(date_as_object=False)
    if found.ndim == 1:
        return found.rename(name), Native(library)
    if dated:
        for k, (label, kind) in enumerate(zip(found.columns, found.dtypes, strict=True)):
            if kind.kind == "M":
                return found.set_index(label), Native(library, label, values.schema.field(k).type)
    return found, Native(library)


def as_pandas(values: Any) -> Any:
    """Convert a Polars or Arrow table to a DataFrame indexed by date, a column to an array; keep anything else."""
    found, native = to_pandas(values, dated=True)
    return found.to_numpy() if native is not None and found.ndim == 1 else found


def by_name(values: Any) -> Any:
    """Convert a Polars or Arrow table of two columns, names and values, to a Series; keep anything else."""
    found, native = to_pandas(values)
    is_table = native is not None and found.ndim == 2 and found.shape[1] == 2
    return found.set_index(found.columns[0]).iloc[:, 0] if is_table else values

"""Tables and columns of Polars and Arrow: to pandas, in which all is computed, and back."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from counterpoise.sentences import require

LIBRARIES = ("polars", "pyarrow")


class Native(NamedTuple):
    """The kind of a table that was given: its library, and the name and type of its column of days, if any."""

    library: str
    day: str | None = None
    day_type: Any = None

    def table(self, frame: Any) -> Any:
        """Return a DataFrame as such a table; an index with a name is its first column."""
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
        """Return one value per row as such a column; an index is dropped."""
        frame = require("Tables need", "pandas").DataFrame({name: getattr(values, "array", values)})
        return self.table(frame)[name]


def is_pandas(values: Any, kind: str) -> bool:
    """Whether ``values`` is a pandas object of that kind; without importing pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(values, getattr(pandas, kind))


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or what pandas has for a value that is not there."""
    return value is None or str(value) == "<NA>" or bool(value != value)


def native_of(values: Any) -> str | None:
    """Return the library of a table or column of Polars or Arrow, None for anything else."""
    library = type(values).__module__.partition(".")[0]
    return library if library in LIBRARIES else None


def to_pandas(values: Any, dated: bool = False) -> tuple[Any, Native | None]:
    """Return a table or column of Polars or Arrow as pandas, and its kind; anything else unchanged, and None.

    With ``dated``, the first column of days of a table becomes the index.
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
    """Return a table of Polars or Arrow as a DataFrame with its days as index, a column as an array, others as is."""
    found, native = to_pandas(values, dated=True)
    return found.to_numpy() if native is not None and found.ndim == 1 else found


def by_name(values: Any) -> Any:
    """Return a table of Polars or Arrow with two columns, names and values, as a Series, anything else unchanged."""
    found, native = to_pandas(values)
    is_table = native is not None and found.ndim == 2 and found.shape[1] == 2
    return found.set_index(found.columns[0]).iloc[:, 0] if is_table else values

"""Store records in one SQLite file, one row per run, written atomically."""

from __future__ import annotations

import dataclasses
import json
import math
import sqlite3
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from counterpoise.checks import Vector
from counterpoise.experiments.plan import Place
from counterpoise.output import CannotWriteError

SCHEMA = 1


@dataclasses.dataclass(frozen=True)
class Record(Place):
    """One run: its settings, result and certificate, and the code and machine that produced it.

    ``history`` has rows (iteration, seconds, objective); ``versions`` and ``machine`` are JSON, ``at`` a time in UTC.
    """

    key: str
    method: str
    stages: str
    objective: float
    violation: float
    cws_gap: float
    critical_residual: float
    status: str
    nit: int
    seconds: float
    history: Vector
    code: str
    versions: str
    machine: str
    at: str


COLUMNS = tuple(field.name for field in dataclasses.fields(Record))
LISTED = ", ".join(COLUMNS)


class Store:
    """Records on disk; a killed process loses only its current run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # Several commands may share a store; a write takes a millisecond.
            self.connection = sqlite3.connect(path, timeout=60.0)
            (found,) = self.connection.execute("PRAGMA user_version").fetchone()
            if found not in (0, SCHEMA):
                raise ValueError(f"{path} was written by another version (layout {found}); give another --output.")
            self.connection.execute(f"CREATE TABLE IF NOT EXISTS records ({LISTED}, PRIMARY KEY (key)) WITHOUT ROWID")
            self.connection.execute(f"PRAGMA user_version = {SCHEMA}")
            self.connection.commit()
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"{path} is not a store of records ({error}); move it away or give another --output."
            ) from None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def add(self, record: Record) -> None:
        """Append a record; a second one with the same key is ignored."""
        history = zlib.compress(np.ascontiguousarray(record.history, dtype="<f8").tobytes())
        row = [history if name == "history" else getattr(record, name) for name in COLUMNS]
        try:
            with self.connection:
                marks = ", ".join("?" * len(row))
                self.connection.execute(f"INSERT OR IGNORE INTO records ({LISTED}) VALUES ({marks})", row)
        except sqlite3.OperationalError as error:
            raise CannotWriteError(f"{self.path} cannot be written: {error}.") from None

    def keys(self) -> set[str]:
        """Return the keys of all records."""
        return {key for (key,) in self.connection.execute("SELECT key FROM records")}

    def fetch(self, keys: Iterable[str]) -> list[Record]:
        """Return the records with these keys, in that order, skipping missing ones."""
        query = f"SELECT {LISTED} FROM records WHERE key = ?"
        rows = (self.connection.execute(query, [key]).fetchone() for key in keys)
        return [_record(row) for row in rows if row is not None]


def _record(row: tuple[Any, ...]) -> Record:
    values: list[Any] = [math.nan if value is None else value for value in row]  # SQLite stores NaN as NULL
    fields = dict(zip(COLUMNS, values, strict=True))
    fields["history"] = np.frombuffer(zlib.decompress(fields["history"]), dtype="<f8").reshape(-1, 3).copy()
    return Record(**fields)


def as_json(value: Any) -> str:
    """Return JSON with sorted keys."""
    return json.dumps(value, sort_keys=True)

"""Data files of problems; see :mod:`counterpoise.tables.arrays`."""

from counterpoise.tables.arrays import read_arrays

__all__ = ["read_arrays"]

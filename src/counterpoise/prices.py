"""Prices to returns; see :mod:`counterpoise.tables.prices`."""

from counterpoise.tables.prices import FrameReturns, Returns, read_prices, read_table, returns_of, to_returns

__all__ = ["FrameReturns", "Returns", "read_prices", "read_table", "returns_of", "to_returns"]

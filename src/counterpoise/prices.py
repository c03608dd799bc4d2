"""Conversion of prices to returns; see :mod:`counterpoise.tables.prices`."""

from counterpoise.tables.prices import FrameReturns, to_returns

__all__ = ["FrameReturns", "to_returns"]

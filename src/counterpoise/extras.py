"""Errors about missing packages, now in :mod:`counterpoise.sentences`."""

from counterpoise.sentences import lacking, require

__all__ = ["lacking", "require"]

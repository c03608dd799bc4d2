"""Packages that only some features need: one sentence for whoever lacks one."""

from __future__ import annotations

import importlib
from typing import Any


def lacking(need: str, *packages: str) -> ImportError:
    """Return an error that says what needs which packages, and how to install them.

    The hint names the packages and no extra of counterpoise: pip finds those anywhere, an extra only in a clone.

    Examples
    --------
    >>> print(lacking("Reading .parquet needs", "pandas", "pyarrow"))
    Reading .parquet needs pandas and pyarrow: install them with pip install pandas pyarrow.
    """
    them = "it" if len(packages) == 1 else "them"
    names = " and ".join(packages)
    return ImportError(
        f"{need} {names}: install {them} with pip install {' '.join(packages)}.", name=packages[0] if packages else None
    )


def require(need: str, *packages: str) -> Any:
    """Import packages and return the first; name those that are not installed.

    Raises
    ------
    ImportError
        ``need`` opens its sentence, such as "A plot needs".
    """
    found, absent = [], []
    for name in packages:
        try:
            found.append(importlib.import_module(name))
        except ImportError:
            absent.append(name)
    if absent:
        raise lacking(need, *absent) from None
    return found[0]

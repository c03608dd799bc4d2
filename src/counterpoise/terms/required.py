"""What a term must have, letter by letter: checked when a problem is built, with a sentence for what is missing."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

from counterpoise.sentences import joined


class Required(NamedTuple):
    """The terms of the package, the names that a term of your own needs, and those that it needs beside some of them.

    Names are written as they are used: with arguments if they are methods.
    """

    ours: str
    base: str
    names: tuple[str, ...] = ()
    beside: Mapping[str, tuple[str, ...]] = {}


REQUIRED = {
    "f": Required(
        "LeastSquares(A, y) or Quadratic(Q, p), a loss such as Huber(A, y, delta),",
        "Loss(phi, A, y) with a loss of your own",
    ),
    "phi": Required("", "an object", ("value(z)", "slope(z)", "curvature(z)", "bound")),
    "h": Required(
        "Bounds, Linear, Ridge, AbsoluteDeviation, SemiContinuous, a sum of them",
        "a subclass of counterpoise.SeparableTerm",
        ("pieces(n)",),
    ),
    "g": Required(
        "AtMost, TopSum, Norm2, ConcaveQuadratic",
        "a term",
        ("lam", "value(x)", "subgradient(x, slope)", "kernel(lo, hi)"),
        {"violation": ("free",)},
    ),
    "u": Required(
        "Sum(c), Sphere()",
        "a subclass of counterpoise.Constraint",
        ("kernel(h)", "violation(x)", "project(z, h)"),
        {"is_line": ("c", "tree(n)"), "signed": ("shrink(z, h)",)},
    ),
}


def require(term: Any, letter: str, base: type = object) -> None:
    """Refuse a term that is no ``base`` or lacks a name, of which ``base`` has stubs at most."""
    if _is_known(term, letter):
        return
    needs, kind = REQUIRED[letter], type(term).__name__
    missing = [name for name in needs.names if not _has(term, name, base)]
    strange = not isinstance(term, base) or (base is object and len(missing) == len(needs.names))
    if strange or missing:
        lacks = "" if strange else f" without {missing[0]}"
        raise TypeError(f"{letter} is of type {kind}{lacks}; it must be {_wanted(needs)}.")
    for flag, names in needs.beside.items():
        if getattr(term, flag, None) not in (None, False):
            lacking = [name for name in names if not _has(term, name, base)]
            if lacking:
                raise TypeError(
                    f"{letter} is of type {kind}, which has {flag} but not {lacking[0]}; "
                    f"a {letter} with {flag} needs {joined(names)}."
                )
    for name in needs.names:
        if "(" in name and not _is_called_as(term, name):
            part = name.partition("(")[0]
            raise TypeError(f"{letter} is of type {kind}, whose {part} cannot be called as {name}.")


def require_known(term: Any, letter: str) -> None:
    """Refuse what is not a term of the package, for a letter that has no others."""
    if not _is_known(term, letter):
        raise TypeError(f"{letter} is of type {type(term).__name__}; it must be {_wanted(REQUIRED[letter])}.")


def _is_known(term: Any, letter: str) -> bool:
    """Return whether a term is one of the package; refuse a class, and a subclass of one of the package.

    Steps and certificates of a subclass would still be those of its parent.
    """
    if isinstance(term, type):
        example = f"{term.__name__}({', '.join(_arguments(term))})"
        raise TypeError(f"{letter} is the class {term.__name__}; give an instance of it, such as {example}.")
    kind, *parents = type(term).__mro__
    known = [parent for parent in parents if "is_known" in vars(parent)]
    if "is_known" in vars(kind) or not known:
        return "is_known" in vars(kind)
    raise TypeError(
        f"{letter} is of type {kind.__name__}, a subclass of {known[0].__name__}; steps would ignore what it "
        f"overrides, so it must be {_wanted(REQUIRED[letter])}."
    )


def _arguments(kind: type) -> list[str]:
    """Return the names of the arguments that a class must be given."""
    try:
        given = inspect.signature(kind).parameters.values()
    except ValueError:
        return ["…"]
    return [one.name for one in given if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]


def _wanted(needs: Required) -> str:
    """Return what a letter may be."""
    with_names = f" with {joined(needs.names)}" if needs.names else ""
    return f"{needs.ours} or {needs.base}{with_names}" if needs.ours else f"{needs.base}{with_names}"


def _has(term: Any, name: str, base: type) -> bool:
    """Return whether a term has a name, callable if it is a method, and not that of the base class, which is a stub."""
    part, bracket, _ = name.partition("(")
    found = getattr(term, part, None)
    if found is None or (bracket and not callable(found)):
        return False
    return getattr(type(term), part, found) is not getattr(base, part, None)


def _is_called_as(term: Any, name: str) -> bool:
    """Return whether a method takes as many arguments as it must."""
    part, _, arguments = name.rstrip(")").partition("(")
    try:
        inspect.signature(getattr(term, part)).bind(*arguments.split(", "))
    except ValueError:  # compiled functions may have no signature
        return True
    except TypeError:
        return False
    return True

"""A problem of the paper whose data is in a file, and points of it: what ``solve`` and ``certify`` share."""

from __future__ import annotations

import decimal
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import counterpoise as cp
from counterpoise.checks import Vector, is_sparse, whole_number
from counterpoise.tables.arrays import TABLES, read_arrays
from counterpoise.tables.prices import look_like_prices

PROBLEMS = ("sit", "nnspca", "dcpb1", "dcpb2")


class Built(NamedTuple):
    """A problem, how its λ came about, and what to tell the user about the file."""

    problem: cp.Problem
    lam_note: str
    notes: list[str]


def needs(problem: str) -> list[str]:
    """Return what a problem is made of."""
    return list(inspect.signature(_kind(problem)).parameters)


def build(file: Path, problem: str, target: str | None, given: dict[str, Any], scale: float) -> Built:
    """Read the data and build the problem."""
    from counterpoise.certificates import exactness_threshold

    arrays = read_arrays(file, target)
    left_out = arrays.pop("left_out", [])
    notes = [f"Left out {', '.join(left_out)} of {file}, which is no data."] if left_out else []
    if problem == "sit" and not is_sparse(arrays["A"]) and arrays["A"].ndim == 2 and look_like_prices(arrays["A"]):
        notes.append(f"The columns of {file} look like prices; sit tracks returns.")
    if "y" in needs(problem) and "y" not in arrays:
        table = file.suffix.lower() in TABLES
        remedy = "name its column with --target" if table else "give an .npz with A and y"
        raise ValueError(f"{problem} needs y, but {file} has only A; {remedy}.")
    given = {**given, **{name: array * scale for name, array in arrays.items()}}
    if given["s"] is not None and given["A"].ndim == 2:
        whole_number(given["s"], "--sparsity", 1, given["A"].shape[1])
    if given["lam"] is not None:
        return Built(make(problem, given), "", notes)
    probe = make(problem, {**given, "lam": 0.0})
    threshold = exactness_threshold(probe)
    built = make(problem, {**given, "lam": _just_above(threshold or 0.0)})
    built.f = probe.f  # the same data, whose AᵀA need not be formed again
    most = f"{given['s']} non-zeros" if "s" in needs(problem) else "one fractional coordinate"
    return Built(built, f": CWS points have at most {most}", notes)


def _kind(problem: str) -> Callable[..., cp.Problem]:
    """Return the class of a problem; Numba is imported only now."""
    from counterpoise import problems

    kind: Callable[..., cp.Problem] = getattr(problems, problem.upper())
    return kind


def make(problem: str, given: dict[str, Any]) -> cp.Problem:
    """Return one of the paper's problems."""
    return _kind(problem)(**{name: given[name] for name in needs(problem)})


def data_of(problem: cp.Problem) -> cp.LeastSquares:
    """Return its f, which holds A."""
    assert isinstance(problem.f, cp.LeastSquares)
    return problem.f


def _just_above(threshold: float) -> float:
    """Round up to three digits, so that the number printed is the number used."""
    if threshold <= 0.0:
        return 1.0
    return float(decimal.Context(prec=3, rounding=decimal.ROUND_UP).create_decimal_from_float(1.001 * threshold))


def check_length(x: Vector, path: Path, problem: cp.Problem, file: Path) -> None:
    """Refuse a point of another problem."""
    if len(x) != problem.n:
        raise ValueError(
            f"{path} holds {len(x)} numbers, but {file} has {problem.n} columns of data; one each is needed."
        )

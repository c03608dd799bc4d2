"""Build one of the paper's problems, and its points, from files; shared by ``solve`` and ``certify``."""

from __future__ import annotations

import dataclasses
import decimal
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

import counterpoise as cp
from counterpoise.checks import Vector, choice, is_sparse, number, whole_number
from counterpoise.cli.base import in_options
from counterpoise.cli.options import Dates, Ignore, Marks, names_in
from counterpoise.sentences import suggest
from counterpoise.tables.arrays import TABLES, read_arrays, read_point
from counterpoise.tables.prices import look_like_prices

PROBLEMS = ("sit", "nnspca", "dcpb1", "dcpb2")
# Words in the library's messages, and the options they correspond to.
OPTIONS = {
    "ignore": "--ignore",
    "dates": "--dates",
    "it must be a finite number": "it must be a finite number; --ignore COL leaves a column out",
}

File = Annotated[Path, "Data: .npz (A, y), .npy (A), .csv, .tsv, .parquet or .xlsx."]
Kind = Annotated[str, "Which of the paper's problems.", "|".join(PROBLEMS), "--problem", PROBLEMS]


@dataclasses.dataclass(frozen=True)
class Instance:
    """Options that define the problem, given the data."""

    target: Annotated[str | None, "Column of the table that is y; the others are A.", "COL"] = None
    sparsity: Annotated[int | None, "s: coordinates free of the penalty (sit, nnspca).", "--sparsity", "-s"] = None
    total: Annotated[float | None, "c: the sum of x (dcpb1, dcpb2).", "--total", "-c"] = None
    lam: Annotated[float | None, "λ; by default just above the threshold beyond which x is sparse or binary."] = None
    scale: Annotated[float, "Multiply A and y by this factor."] = 1.0
    dates: Dates = None
    ignore: Ignore = None

    @property
    def given(self) -> dict[str, Any]:
        """The parameters of the problem besides the data."""
        return {"s": self.sparsity, "c": self.total, "lam": self.lam}


class Built(NamedTuple):
    """A problem, a note on its λ, notes for the user about the file, and the names of its columns."""

    problem: cp.Problem
    lam_note: str
    notes: list[str]
    names: list[str] | None


def check_problem(problem: str, instance: Instance) -> None:
    """Check the options that do not depend on the data."""
    given = instance.given
    choice(problem, "--problem", PROBLEMS, quoted=False)
    for letter, option, meaning in (
        ("s", "--sparsity", "the number of coordinates free of the penalty"),
        ("c", "--total", "the sum of x"),
    ):
        if letter in needs(problem) and given[letter] is None:
            raise ValueError(f"{problem} needs {option}, {meaning}.")
        if letter not in needs(problem) and given[letter] is not None:
            others = " and ".join(name for name in PROBLEMS if letter in needs(name))
            raise ValueError(f"{problem} has no {option}; it is an option of {others}.")
    if given["lam"] is not None:
        number(given["lam"], "--lam", 0.0)
    if number(instance.scale, "--scale") == 0.0:
        raise ValueError("--scale is 0; it must be non-zero.")


def needs(problem: str) -> list[str]:
    """Return the names of the parameters that define a problem."""
    return list(inspect.signature(_kind(problem)).parameters)


def build(file: Path, problem: str, instance: Instance, marks: Marks) -> Built:
    """Read the data and build the problem."""
    from counterpoise.certificates import exactness_threshold

    given, ignore = instance.given, names_in(instance.ignore, ())
    with in_options(OPTIONS):
        arrays = read_arrays(file, instance.target, instance.dates, ignore, **marks.arguments())
    left_out, names = arrays.pop("left_out", []), arrays.pop("names", None)
    are = "is" if len(left_out) == 1 else "are"
    notes = [f"Left out {', '.join(left_out)} of {file}, which {are} not data."] if left_out else []
    if problem == "sit" and not is_sparse(arrays["A"]) and arrays["A"].ndim == 2 and look_like_prices(arrays["A"]):
        notes.append(f"The columns of {file} look like prices; sit tracks returns.")
    if "y" in needs(problem) and "y" not in arrays:
        remedy = "name its column with --target" if file.suffix.lower() in TABLES else "give an .npz with A and y"
        raise ValueError(f"{problem} needs y, but {file} has only A; {remedy}.")
    given = {**given, **{name: array * instance.scale for name, array in arrays.items()}}
    if given["s"] is not None and given["A"].ndim == 2:
        whole_number(given["s"], "--sparsity", 1, given["A"].shape[1])
    if given["lam"] is not None:
        return Built(make(problem, given), "", notes, names)
    probe = make(problem, {**given, "lam": 0.0})
    threshold = exactness_threshold(probe)
    built = make(problem, {**given, "lam": _just_above(threshold or 0.0)})
    built.f = probe.f  # the same data; avoids forming AᵀA again
    most = f"{given['s']} non-zeros" if "s" in needs(problem) else "one fractional coordinate"
    return Built(built, f": CWS points have at most {most}", notes, names)


def _kind(problem: str) -> Callable[..., cp.Problem]:
    """Return the class of a problem; Numba is imported only now."""
    from counterpoise import problems

    kind: Callable[..., cp.Problem] = getattr(problems, problem.upper())
    return kind


def make(problem: str, given: dict[str, Any]) -> cp.Problem:
    """Return one of the paper's problems."""
    return _kind(problem)(**{name: given[name] for name in needs(problem)})


def data_of(problem: cp.Problem) -> cp.LeastSquares:
    """Return the f of a problem, which holds A."""
    assert isinstance(problem.f, cp.LeastSquares)
    return problem.f


def _just_above(threshold: float) -> float:
    """Round up to three digits, so that the printed number is exactly the one used."""
    if threshold <= 0.0:
        return 1.0
    return float(decimal.Context(prec=3, rounding=decimal.ROUND_UP).create_decimal_from_float(1.001 * threshold))


def read_x(path: Path, name: str | None, options: tuple[str, str], built: Built, file: Path) -> Vector:
    """Read a point of the problem, a vector or numbers by name; refuse points that do not match its columns.

    ``name`` selects one of several arrays or columns; ``options`` are those of ``path`` and ``name``.
    """
    found, n = read_point(path, name, *options), built.problem.n
    if isinstance(found, dict):
        if built.names is None:
            raise ValueError(f"{path} holds numbers by name, but the columns of {file} have none; give {n} numbers.")
        places = {label: k for k, label in enumerate(built.names)}
        x = np.zeros(n)
        for label, value in found.items():
            if label in places:
                x[places[label]] = value
            elif value:
                raise ValueError(f"{path} names {label!r}, but {file} has no such column; {suggest(label, places)}")
        return x
    if len(found) != n:
        raise ValueError(
            f"{path} holds {len(found)} numbers, but {file} has {n} columns of data; give one number per column."
        )
    return found

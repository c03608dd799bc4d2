"""A problem of the paper whose data is in a file, and points of it: what ``solve`` and ``certify`` share."""

from __future__ import annotations

import decimal
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import counterpoise as cp
from counterpoise.checks import Vector, is_sparse, whole_number
from counterpoise.files import DAMAGE, read_arrays
from counterpoise.prices import look_like_prices

PROBLEMS = ("sit", "nnspca", "dcpb1", "dcpb2")
POINTS = (".npz", ".npy", ".csv", ".txt")


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
        table = file.suffix.lower() in (".csv", ".parquet")
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


def read_point(path: Path, name: str | None, option: str, name_option: str) -> Vector:
    """Read a vector from the file of ``option``; ``name_option`` says which of several arrays."""
    suffix = path.suffix.lower()
    if path.is_dir():
        raise IsADirectoryError(f"{option} is {path}, a folder; give a file.")
    if not path.exists():
        raise FileNotFoundError(f"{option} is {path}, which does not exist.")
    if suffix not in POINTS:
        raise ValueError(f"{option} is {path}; it must be one of {', '.join(POINTS)}.")
    if name is not None and suffix != ".npz":
        raise ValueError(f"{name_option} is given, but {path} is no .npz; it holds one array.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    x = _from_text(path) if suffix in (".csv", ".txt") else _from_arrays(path, name, name_option)
    if x.ndim == 2 and 1 in x.shape:
        x = x.ravel()
    if x.ndim != 1 or x.dtype.kind not in "biuf":
        raise ValueError(
            f"{path} holds an array of shape {x.shape} and dtype {x.dtype}; a point is a vector of numbers."
        )
    return np.asarray(x, dtype=np.float64)


def _from_arrays(path: Path, name: str | None, name_option: str) -> Any:
    try:
        with path.open("rb") as stream:
            loaded = np.load(stream, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            names = list(loaded.files)
            wanted = name if name is not None else "x" if "x" in names else names[0] if len(names) == 1 else None
            if wanted is None:
                raise LookupError(f"{path} holds {', '.join(names)}; say which with {name_option}.")
            if wanted not in names:
                raise LookupError(f"{path} holds no {wanted!r}; it has {', '.join(names)}.")
            return loaded[wanted]
    except KeyError:
        raise ValueError(f"{path} is damaged.") from None
    except LookupError as error:
        raise ValueError(str(error.args[0])) from None
    except DAMAGE:
        raise ValueError(f"{path} is damaged, or not a {path.suffix.lower()} file of numbers.") from None


def _from_text(path: Path) -> Any:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text.") from None
    values: list[float] = []
    for number, line in enumerate(lines, 1):
        for cell in line.replace(",", " ").split():
            try:
                values.append(float(cell))
            except ValueError:
                if number == 1 and not values:
                    continue  # a line of names
                raise ValueError(f"{path}, line {number} holds {cell!r}; it must hold numbers only.") from None
    if not values:
        raise ValueError(f"{path} holds no numbers.")
    return np.array(values)


def check_length(x: Vector, path: Path, problem: cp.Problem, file: Path) -> None:
    """Refuse a point of another problem."""
    if len(x) != problem.n:
        raise ValueError(
            f"{path} holds {len(x)} numbers, but {file} has {problem.n} columns of data; one each is needed."
        )

"""Input checks; each error is one sentence that says what is wrong, where, and what would be right."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

# Data, bounds and totals must lie in this range, so that Q = AᵀA, its products and its inverse neither overflow nor
# underflow. Single-precision data outside the narrower range, where its squares are safe, become double.
LARGEST, SMALLEST = 1e40, 1e-40
LARGEST_SINGLE, SMALLEST_SINGLE = 1e15, 1e-15
# The range for a given Q and for slopes, costs and λ, which have the size of squares; it leaves room for sums.
LARGEST_SQUARE, SMALLEST_SQUARE = 1e90, 1e-90


def real_array(values: Any, name: str) -> npt.NDArray[Any]:
    """Return ``values`` as a float array, refusing complex, text, masked and non-finite entries."""
    result = float_array(values, name)
    refuse_non_finite(result, name)
    return result


def float_array(values: Any, name: str, keep_single: bool = False) -> npt.NDArray[Any]:
    """Return ``values`` as a float array; objects that are numbers, such as ``Decimal``, are converted."""
    refuse_masked(values, name)
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths; give a rectangular array of numbers.") from None
    if array.dtype.kind == "O":
        array = _from_objects(array, name)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {array.dtype}; give real numbers (float, int or bool).")
    return array if keep_single and array.dtype == np.float32 else np.asarray(array, dtype=np.float64)


def _from_objects(array: npt.NDArray[Any], name: str) -> Vector:
    """Convert an array of objects number by number; name the first that is not a real number."""
    result = np.empty(array.shape)
    for where in np.ndindex(array.shape):
        value = array[where]
        try:
            if isinstance(value, str | bytes | np.datetime64 | np.timedelta64):
                raise TypeError
            result[where] = float(value)
        except OverflowError:
            raise ValueError(f"{name} contains {value!r}{_at(where)}, which is too large for a float.") from None
        except (TypeError, ValueError):
            kind = type(value).__name__
            raise TypeError(f"{name} contains {value!r}{_at(where)}, a {kind}; give real numbers.") from None
    return result


def _at(where: tuple[Any, ...]) -> str:
    """Return " at 3" for messages, or "" for a single number."""
    place = tuple(int(k) for k in where)
    return f" at {place[0] if len(place) == 1 else place}" if place else ""


def refuse_masked(values: Any, name: str) -> None:
    """Refuse masked entries, which NumPy would silently unmask."""
    parts = values if isinstance(values, list | tuple) else [values]
    count = sum(int(np.ma.getmaskarray(part).sum()) for part in parts if isinstance(part, np.ma.MaskedArray))
    if count:
        raise ValueError(
            f"{name} has {count} masked {'entry' if count == 1 else 'entries'}; remove or impute them, "
            "or call filled() with a value of your choice."
        )


def refuse_non_finite(array: npt.NDArray[Any], name: str) -> None:
    """Name the first NaN or infinity."""
    # One fast pass; entries are checked one by one only if the sum of squares is not finite.
    if np.isfinite(_sum_of_squares(array)):
        return
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(np.argwhere(bad)[0])
        raise ValueError(
            f"{name} contains {array[where]}{_at(where)} ({int(bad.sum())} such entries); "
            "remove or impute them, all entries must be finite."
        )


def refuse_extreme(array: npt.NDArray[Any], name: str, largest: float = LARGEST, smallest: float = 0.0) -> None:
    """Refuse non-finite entries, and a largest |entry| outside the range; all zeros are allowed."""
    if _lies_between(array, smallest, largest):
        return
    refuse_non_finite(array, name)
    size = largest_entry(array)
    if size > largest:
        raise ValueError(
            f"{name} has entries as large as {size:.3g}, whose products overflow; "
            f"rescale the data so that they are at most {largest:g}."
        )
    if 0.0 < size < smallest:
        raise ValueError(
            f"the largest entry of {name} is {size:.3g}, and products of such numbers underflow; "
            f"rescale the data so that it is at least {smallest:g}."
        )


def _lies_between(array: npt.NDArray[Any], smallest: float, largest: float) -> bool:
    """Whether one pass proves that the largest |entry| is inside the range; False proves nothing."""
    squares = _sum_of_squares(array)
    return 0.0 < squares <= largest**2 and squares >= array.size * smallest**2


def largest_entry(array: npt.NDArray[Any]) -> float:
    """Return the largest |entry| without a copy."""
    return max(-float(array.min(initial=0.0)), float(array.max(initial=0.0)))


def _sum_of_squares(array: npt.NDArray[Any]) -> float:
    """Return Σ aᵢ² in one pass; NaN where that would need a copy."""
    if array.dtype.kind != "f" or not (array.flags.c_contiguous or array.flags.f_contiguous):
        return math.nan
    flat = array.ravel(order="K")
    with np.errstate(all="ignore"):
        return float(np.dot(flat, flat))


def vector(values: Any, name: str, length: int) -> Vector:
    """Return a finite float vector of the given length."""
    array = real_array(values, name)
    if array.shape != (length,):
        raise ValueError(f"{name} has shape {array.shape}; it must be ({length},).")
    return array


def spread(values: Any, name: str, length: int) -> Vector:
    """Return a finite float vector of the given length from a vector, or from one number for all entries."""
    array = real_array(values, name)
    return np.full(length, float(array)) if array.ndim == 0 else vector(array, name, length)


def is_sparse(values: Any) -> bool:
    """Whether ``values`` is a SciPy sparse matrix or array."""
    scipy_sparse = sys.modules.get("scipy.sparse")  # a sparse matrix exists only if this is imported
    return scipy_sparse is not None and bool(scipy_sparse.issparse(values))


def matrix(values: Any, name: str) -> Any:
    """Return a finite float matrix with at least one row and two columns; CSR and CSC become sorted CSC.

    Numbers whose squares would overflow or underflow are refused; single precision close to that becomes double.
    """
    if is_sparse(values):
        import scipy.sparse as sp

        if values.dtype.kind not in "biuf":
            raise TypeError(f"{name} has dtype {values.dtype}; give real numbers (float, int or bool).")
        result: Any = sp.csc_array(values, dtype=np.float32 if values.dtype == np.float32 else np.float64, copy=False)
        if not (result.has_canonical_format and result.has_sorted_indices):
            result = result.copy()
            result.sum_duplicates()
        refuse_extreme(result.data, f"the stored entries of {name}", smallest=SMALLEST)
        entries = result.data
    else:
        result = entries = float_array(values, name, keep_single=True)
        refuse_extreme(result, name, smallest=SMALLEST)
    if result.ndim != 2:
        raise ValueError(f"{name} has {result.ndim} dimension(s); it must be a matrix, rows × columns.")
    if result.shape[0] == 0 or result.shape[1] == 0:
        raise ValueError(f"{name} is empty, {result.shape[0]} × {result.shape[1]}; it needs rows and columns.")
    if result.shape[1] == 1:
        raise ValueError(f"{name} has one column; a pair step needs at least two.")
    if result.dtype == np.float32 and not _lies_between(entries, SMALLEST_SINGLE, LARGEST_SINGLE):
        size = largest_entry(entries)
        if size > LARGEST_SINGLE or 0.0 < size < SMALLEST_SINGLE:
            result = result.astype(np.float64)
    return result


def number(value: Any, name: str, least: float | None = None, most: float | None = None) -> float:
    """Return a finite float, at least ``least``, and at most ``most``, beyond which products overflow."""
    refuse_masked(value, name)
    try:
        array = np.asarray(value)
        array = _from_objects(array, name) if array.dtype.kind == "O" and array.ndim == 0 else array
    except (TypeError, ValueError):
        array = np.asarray("")
    if array.ndim != 0 or array.dtype.kind not in "iuf":
        raise TypeError(f"{name} is {value!r}; it must be one real number.")
    result = float(array)
    if not np.isfinite(result) or (least is not None and result < least):
        bound = "finite" if least is None else f"finite and at least {least:g}"
        raise ValueError(f"{name} is {result:g}; it must be {bound}.")
    if most is not None and abs(result) > most:
        raise ValueError(f"{name} is {result:g}, and products of such numbers overflow; it must be at most {most:g}.")
    return result


def whole_number(value: Any, name: str, least: int, most: int | None = None) -> int:
    """Return an int inside [least, most]."""
    result = _whole(value, name, "a whole number")
    if result < least or (most is not None and result > most):
        bound = f"at least {least}" if most is None else f"between {least} and {most}"
        raise ValueError(f"{name} is {value}; it must be {bound}.")
    return result


def _whole(value: Any, name: str, wanted: str) -> int:
    """Return an int, of Python or of NumPy, but not a bool."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {value!r}; it must be {wanted}.")
    return int(value)


def random_seed(value: Any, name: str = "seed") -> int | None:
    """Return a whole number of at least 0, or None for a seed drawn from the system."""
    wanted = "a whole number of at least 0, or None"
    if value is not None and _whole(value, name, wanted) < 0:
        raise ValueError(f"{name} is {value}; it must be {wanted}.")
    return None if value is None else int(value)


def worker_count(value: Any) -> int | None:
    """Return ``n_jobs``, a number of workers as joblib counts them, −1 for one per core, or None."""
    if value is None:
        return None
    if _whole(value, "n_jobs", "a whole number of workers, -1 for one per core, or None") == 0:
        raise ValueError("n_jobs is 0; it must be a positive number of workers, -1 for one per core, or None.")
    return int(value)


def flag(value: Any, name: str) -> bool:
    """Return True or False, of Python or of NumPy."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {value!r}; it must be True or False.")
    return bool(value)


def choice(value: Any, name: str, options: Iterable[str], quoted: bool = True) -> str:
    """Return ``value`` if it is one of ``options``; errors list these without quotes if not ``quoted``."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr if quoted else str, options))}.")
    return value


def callback_function(value: Any) -> Callable[..., Any] | None:
    """Return a callback, or None."""
    if value is not None and not callable(value):
        raise TypeError(f"callback is {value!r}; it must be a function, or None.")
    function: Callable[..., Any] | None = value
    return function

"""Input checks: one sentence that says what is wrong, where, and what would be right."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Vector = npt.NDArray[np.float64]


def real_array(values: Any, name: str, keep_single: bool = False) -> npt.NDArray[Any]:
    """Return ``values`` as a float array, refusing complex, object, text and non-finite entries."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {array.dtype}; give real numbers (float, int or bool).")
    if keep_single and array.dtype == np.float32:
        result: npt.NDArray[Any] = array
    else:
        result = np.asarray(array, dtype=np.float64)
    refuse_non_finite(result, name)
    return result


def refuse_non_finite(array: npt.NDArray[Any], name: str) -> None:
    """Name the first NaN or infinity."""
    # One pass at the speed of memory; a sum of squares that overflows is looked at more closely.
    if array.dtype.kind == "f" and (array.flags.c_contiguous or array.flags.f_contiguous):
        flat = array.ravel(order="K")
        with np.errstate(all="ignore"):
            if np.isfinite(np.dot(flat, flat)):
                return
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(k) for k in np.argwhere(bad)[0])
        place = where[0] if len(where) == 1 else where
        raise ValueError(
            f"{name} contains {array[where]} at {place} ({int(bad.sum())} such entries); "
            "remove or impute them, all entries must be finite."
        )


def vector(values: Any, name: str, length: int) -> Vector:
    """Return a finite float vector of the given length."""
    array = real_array(values, name)
    if array.shape != (length,):
        raise ValueError(f"{name} has shape {array.shape}; it must be ({length},).")
    return array


def spread(values: Any, name: str, length: int) -> Vector:
    """Return a finite float vector of the given length from a vector or one number for all."""
    array = real_array(values, name)
    if array.ndim == 0:
        return np.full(length, float(array))
    return vector(array, name, length)


def is_sparse(values: Any) -> bool:
    """Whether ``values`` is a SciPy sparse matrix or array."""
    return bool(sp.issparse(values))


def matrix(values: Any, name: str) -> Any:
    """Return a finite float matrix with at least one row and two columns; CSR and CSC become sorted CSC."""
    if is_sparse(values):
        if values.dtype.kind not in "biuf":
            raise TypeError(f"{name} has dtype {values.dtype}; give real numbers (float, int or bool).")
        result: Any = sp.csc_array(values, dtype=np.float32 if values.dtype == np.float32 else np.float64, copy=False)
        if not (result.has_canonical_format and result.has_sorted_indices):
            result = result.copy()
            result.sum_duplicates()
        refuse_non_finite(result.data, f"the stored entries of {name}")
    else:
        result = real_array(values, name, keep_single=True)
    if result.ndim != 2:
        raise ValueError(f"{name} has {result.ndim} dimension(s); it must be a matrix, rows × columns.")
    if result.shape[0] == 0 or result.shape[1] == 0:
        raise ValueError(f"{name} is empty, {result.shape[0]} × {result.shape[1]}; it needs rows and columns.")
    if result.shape[1] == 1:
        raise ValueError(f"{name} has one column; a pair step needs at least two.")
    return result


def number(value: Any, name: str, least: float | None = None) -> float:
    """Return a finite float, at least ``least``."""
    array = np.asarray(value)
    if array.ndim != 0 or array.dtype.kind not in "biuf":
        raise TypeError(f"{name} is {value!r}; it must be one real number.")
    result = float(array)
    if not np.isfinite(result) or (least is not None and result < least):
        bound = "finite" if least is None else f"finite and at least {least:g}"
        raise ValueError(f"{name} is {result:g}; it must be {bound}.")
    return result


def whole_number(value: Any, name: str, least: int, most: int | None = None) -> int:
    """Return an int inside [least, most]."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {value!r}; it must be a whole number.")
    if value < least or (most is not None and value > most):
        bound = f"at least {least}" if most is None else f"between {least} and {most}"
        raise ValueError(f"{name} is {value}; it must be {bound}.")
    return int(value)

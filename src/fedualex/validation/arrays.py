"""Arguments as finite float64 arrays and whole numbers, or refused."""

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
from jax.core import Tracer
from numpy.typing import NDArray

from .words import short

Array = Any
"""A read-only float64 numpy array; inside jit or vmap the tracer that stands for one."""


def real_array(
    name: str, value: object, accepted: str = "real numbers", *, truth: bool = False, copy: bool = True
) -> Array:
    """`value` as a finite float64 numpy array.

    Parameters live in numpy float64: jax narrows them where it runs in float32, and certificates see them exact.
    truth: whether True and False count as 1 and 0, as they do in data; a parameter is a number.
    copy: whether the array is one of its own that nobody can change; large data that is read once need not be.
    """
    array = any_real_array(name, value, accepted, truth=truth, copy=copy)
    if isinstance(array, Tracer):
        return array
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite: {accepted}, got {short(value)}")
    if array.size == 0:
        raise ValueError(f"{name} must not be empty, got {short(value)}")
    return array


def any_real_array(
    name: str, value: object, accepted: str = "real numbers", *, truth: bool = False, copy: bool = True
) -> Array:
    """`value` as a float64 numpy array, infinities allowed; a tracer inside jit or vmap as it is, unchecked."""
    if isinstance(value, Tracer):
        return value
    array = plain_array(name, value)
    if array.dtype.kind not in "fiub" or (not truth and _holds_truth(value)):
        raise TypeError(f"{name} must be {accepted}, got {short(value)}")
    if np.any(np.isnan(array)):
        raise ValueError(f"{name} must not contain nan")
    if not copy:
        return np.asarray(array, np.float64)
    owned = np.array(array, dtype=np.float64)
    owned.setflags(write=False)  # what is made of it is immutable
    return owned


def plain_array(name: str, value: object) -> NDArray[Any]:
    """`value` as a numpy array without a mask; the array of None if it cannot become one."""
    refuse_masked(name, value)
    try:
        return np.asarray(value)
    except Exception:  # an object may fail to become an array in any way it likes
        return np.asarray(None)


def row_weights(weight: object, rows: int, name: str = "sample_weight") -> NDArray[Any]:
    """A number >= 0 for each row, not all 0, given by this name."""
    accepted = f"{rows} numbers >= 0, one for each row of X, not all of them zero, with a finite sum"
    found: NDArray[Any] = real_array(name, weight, accepted, truth=True)
    with np.errstate(over="ignore"):  # refused here
        fits = found.shape == (rows,) and not np.any(found < 0) and 0 < found.sum() < np.inf
    if not fits:
        raise ValueError(f"{name} must be {accepted}, got {short(weight)}")
    return found


def refuse_masked(name: str, value: object) -> None:
    """Refuse masked entries: numpy would hand out the numbers behind the mask."""
    if _is_masked(value):
        raise ValueError(f"{name} must not have masked entries: fill them, or leave out their rows")


def _is_masked(value: Any) -> bool:
    if isinstance(value, np.ma.MaskedArray):
        return bool(np.ma.getmaskarray(value).any())
    return any(map(_is_masked, items(value)))


def _holds_truth(value: Any) -> bool:
    """Whether True or False is among the numbers."""
    if isinstance(value, bool | np.bool_) or getattr(getattr(value, "dtype", None), "kind", "") == "b":
        return True
    return any(map(_holds_truth, items(value)))


def items(value: object) -> Iterable[Any]:
    """What a list or an array of objects holds; nothing for all else."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "O" and value.ndim:
        return value.flat
    return value if isinstance(value, list | tuple) else ()


def real_scalar(name: str, value: object, accepted: str = "a real number") -> Array:
    """`value` as a finite 0-dimensional float64 array; what is below the smallest normal number is 0, as in XLA."""
    array = real_array(name, value, accepted)
    if array.ndim:
        raise ValueError(f"{name} must be {accepted}, got an array of shape {array.shape}")
    subnormal = not isinstance(array, Tracer) and abs(array) < np.finfo(float).tiny
    return any_real_array(name, 0.0) if subnormal else array


def nonnegative(name: str, value: object) -> Array:
    """`value` as a finite number >= 0."""
    array = real_scalar(name, value, "a number >= 0")
    if not isinstance(array, Tracer) and array < 0:
        raise ValueError(f"{name} must be a number >= 0, got {float(array)!r}")
    return array


def positive(name: str, value: object) -> Array:
    """`value` as a finite number > 0."""
    array = real_scalar(name, value, "a number > 0")
    if not isinstance(array, Tracer) and array <= 0:
        raise ValueError(f"{name} must be a number > 0, got {float(array)!r}")
    return array


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """`value` as an int, if it is a whole number >= least, of Python or of numpy in any width."""
    try:
        number = None if _holds_truth(value) or _is_masked(value) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {short(value)}")
    return number

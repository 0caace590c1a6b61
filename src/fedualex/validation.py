"""Arguments turned into arrays, or refused in one sentence that names argument, value and what is accepted."""

import difflib
from collections.abc import Iterable
from typing import Any

import numpy as np
from jax.core import Tracer
from numpy.typing import NDArray

Array = Any
"""A read-only float64 numpy array; inside jit or vmap the tracer that stands for one."""


def real_array(name: str, value: Any, accepted: str = "real numbers") -> Array:
    """`value` as a finite float64 numpy array.

    Parameters live in numpy float64: jax narrows them where it runs in float32, and certificates see them exact.
    """
    array = any_real_array(name, value, accepted)
    if isinstance(array, Tracer):
        return array
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite: {accepted}, got {short(value)}")
    if array.size == 0:
        raise ValueError(f"{name} must not be empty, got {short(value)}")
    return array


def any_real_array(name: str, value: Any, accepted: str = "real numbers") -> Array:
    """`value` as a float64 numpy array, infinities allowed; a tracer inside jit or vmap as it is, unchecked."""
    if isinstance(value, Tracer):
        return value
    try:
        array = np.asarray(value)
    except Exception:  # an object may fail to become an array in any way it likes
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be {accepted}, got {short(value)}")
    if np.any(np.isnan(array)):
        raise ValueError(f"{name} must not contain nan")
    owned = np.array(array, dtype=np.float64)
    owned.setflags(write=False)  # what is made of it is immutable
    return owned


def real_scalar(name: str, value: Any, accepted: str = "a real number") -> Array:
    """`value` as a finite 0-dimensional float64 array; what is below the smallest normal number is 0, as in XLA."""
    array = real_array(name, value, accepted)
    if array.ndim:
        raise ValueError(f"{name} must be {accepted}, got an array of shape {array.shape}")
    subnormal = not isinstance(array, Tracer) and abs(array) < np.finfo(float).tiny
    return any_real_array(name, 0.0) if subnormal else array


def nonnegative(name: str, value: Any) -> Array:
    """`value` as a finite number >= 0."""
    array = real_scalar(name, value, "a number >= 0")
    if not isinstance(array, Tracer) and array < 0:
        raise ValueError(f"{name} must be a number >= 0, got {float(array)!r}")
    return array


def positive(name: str, value: Any) -> Array:
    """`value` as a finite number > 0."""
    array = real_scalar(name, value, "a number > 0")
    if not isinstance(array, Tracer) and array <= 0:
        raise ValueError(f"{name} must be a number > 0, got {float(array)!r}")
    return array


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """`value`, if it is a whole number >= least."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {short(value)}")
    return int(value)


def numbered(name: str, values: Any, rows: int | None = None) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """The distinct labels in sorted order, and the number of each row's label among them."""
    count = "" if rows is None else f"{rows} "
    try:
        array, gone = np.asarray(values), missing(values)
        names, number = np.unique(array, return_inverse=True)
    except (TypeError, ValueError):  # ragged, or not to be sorted
        raise TypeError(f"{name} must be {count}labels that can be sorted, got {short(values)}") from None
    if array.ndim != 1 or array.size == 0 or rows not in (None, array.size):
        raise ValueError(f"{name} must hold {count}labels in one column, got an array of shape {array.shape}")
    if gone.any():
        raise ValueError(f"{name} must not contain nan, None or empty text, got {short(values)}")
    return names, number.astype(np.int32)  # the index type of both precisions


def missing(values: Any) -> NDArray[np.bool_]:
    """Where a value is nan, None or empty text."""
    array = np.asarray(values)
    if array.dtype.kind not in "OUS":
        return np.asarray(array != array)  # nan is the one number that differs from itself
    array = np.asarray(values, object)  # of a list with nan and text numpy would make text only
    gone = (value is None or value != value or value in ("", b"") for value in array.flat)
    return np.fromiter(gone, bool, array.size).reshape(array.shape)


def rows_of(number: NDArray[Any]) -> list[NDArray[np.intp]]:
    """The rows of each number 0, 1, ..., in their order; sorted once, because a mask for each would be quadratic."""
    return np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """`value`, if it is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {short(value)}")
    return str(value)


def hint(name: object, known: Iterable[str], listing: str = "known are") -> str:
    """What an unknown name was probably meant to be, or else all that is known."""
    known = list(known)
    close = difflib.get_close_matches(str(name), known, 1)
    return f"did you mean {close[0]!r}?" if close else f"{listing} {', '.join(known)}"


def short(value: Any) -> str:
    """A value for an error message: on one line, and not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."

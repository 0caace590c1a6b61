"""Arguments turned into arrays, numbers and labels, or refused in one sentence."""

import difflib
import operator
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from jax.core import Tracer
from numpy.typing import NDArray

from .arrays import Reals, Values

if TYPE_CHECKING:
    from scipy.sparse import csr_array


# Names and other values: one of several, of a type, and how they are shown in a refusal.


T = TypeVar("T")


def of_type(name: str, value: object, kind: type[T], accepted: str) -> T:
    """`value`, if it is of this type."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {accepted}, got {short(value)}")
    return value


def one_of(name: str, value: object, choices: tuple[str, ...]) -> str:
    """`value`, if it is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {short(value)}")
    return str(value)


def hint(name: object, known: Iterable[str], listing: str = "known are") -> str:
    """What an unknown name was probably meant to be, or else all that is known."""
    known = list(known)
    close = difflib.get_close_matches(str(name), known, 1)
    return f"did you mean {close[0]!r}?" if close else f"{listing} {', '.join(known)}"


def short(value: object) -> str:
    """A value for an error message: on one line, and not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


# Sparse matrices of scipy as one kind of them, or refused.


def issparse(value: object) -> bool:
    """Whether it is a sparse matrix of scipy; whoever has one has imported scipy, and else nobody waits for that."""
    scipy = sys.modules.get("scipy.sparse")
    return scipy is not None and bool(scipy.issparse(value))


def real_csr(name: str, value: Any) -> "csr_array":
    """A sparse matrix of any format as one of finite float64 numbers by rows: a copy without duplicates and zeros."""
    from scipy.sparse import csr_array

    if value.ndim != 2 or 0 in value.shape:
        raise ValueError(f"{name} must be a nonempty matrix with one row for each example, got shape {value.shape}")
    if value.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be a real matrix, got a sparse one of {value.dtype}")
    if hasattr(value, "check_format"):
        _check_indices(name, value)
    with np.errstate(over="ignore"):  # refused below
        matrix = csr_array(value, dtype=np.float64, copy=True)
        matrix.sum_duplicates()
    if not np.all(np.isfinite(matrix.data)):
        raise ValueError(f"{name} must be finite: a real matrix, got {short(value)} with nan or infinite entries")
    matrix.eliminate_zeros()
    return matrix


def refuse_sparse(name: str, value: Any, accepted: str) -> None:
    """Refuse a sparse matrix where rows have to be whole."""
    if issparse(value):
        raise TypeError(f"{name} must be {accepted}, got a sparse matrix of shape {value.shape}: give {name}.toarray()")


def _check_indices(name: str, value: Any) -> None:
    try:
        value.check_format(full_check=True)  # scipy itself reads beyond its arrays if they are wrong
    except ValueError as error:
        raise ValueError(f"{name} must be a sparse matrix whose indices fit its shape {value.shape}: {error}") from None


# Arguments as finite float64 arrays and whole numbers, or refused.


Array = NDArray[np.float64]
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
    if isinstance(value, Tracer):
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
        return cast(Array, value)
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


def plain_array(name: str, value: object) -> Values:
    """`value` as a numpy array without a mask; the array of None if it cannot become one."""
    refuse_masked(name, value)
    try:
        return np.asarray(value)
    except Exception:  # an object may fail to become an array in any way it likes
        return np.asarray(None)


def row_weights(weight: object, rows: int, name: str = "sample_weight") -> Reals:
    """A number >= 0 for each row, not all 0, given by this name."""
    accepted = f"{rows} numbers >= 0, one for each row of X, not all of them zero, with a finite sum"
    factors: Reals = real_array(name, weight, accepted, truth=True)
    with np.errstate(over="ignore"):  # refused here
        fits = factors.shape == (rows,) and not np.any(factors < 0) and 0 < factors.sum() < np.inf
    if not fits:
        raise ValueError(f"{name} must be {accepted}, got {short(weight)}")
    return factors


def refuse_masked(name: str, value: object) -> None:
    """Refuse masked entries: numpy would hand out the numbers behind the mask."""
    if _is_masked(value):
        raise ValueError(f"{name} must not have masked entries: fill them, or leave out their rows")


def _is_masked(value: object) -> bool:
    if isinstance(value, np.ma.MaskedArray):
        return bool(np.ma.getmaskarray(value).any())
    return any(map(_is_masked, items(value)))


def _holds_truth(value: object) -> bool:
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
    subnormal = not isinstance(value, Tracer) and abs(array) < np.finfo(float).tiny
    return any_real_array(name, 0.0) if subnormal else array


def nonnegative(name: str, value: object) -> Array:
    """`value` as a finite number >= 0."""
    array = real_scalar(name, value, "a number >= 0")
    if not isinstance(value, Tracer) and array < 0:
        raise ValueError(f"{name} must be a number >= 0, got {float(array)!r}")
    return array


def positive(name: str, value: object) -> Array:
    """`value` as a finite number > 0."""
    array = real_scalar(name, value, "a number > 0")
    if not isinstance(value, Tracer) and array <= 0:
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


# Labels: sorted and encode_labels, classes among them, and missing values.


def encode_labels(name: str, values: object, rows: int | None = None) -> tuple[Values, NDArray[np.int32]]:
    """The distinct labels in sorted order, and the number of each row's label among them."""
    count = "" if rows is None else f"{rows} "
    refuse_masked(name, values)
    refuse_mixed(name, values)
    try:
        array, gone = np.asarray(values), missing(values)
        names, number = np.unique(array, return_inverse=True)
    except (TypeError, ValueError):  # ragged, or not to be sorted
        raise TypeError(f"{name} must be {count}labels that can be sorted, got {short(values)}") from None
    if array.ndim != 1 or array.size == 0 or rows not in (None, array.size):
        raise ValueError(f"{name} must hold {count}labels in one column, got an array of shape {array.shape}")
    if gone.any():
        row = int(np.argmax(gone))
        missed = f"{short(array[row].item())} in row {row + 1} of {array.size}"
        raise ValueError(f"{name} must not contain nan, None or empty text, got {missed}")
    return names, number.astype(np.int32)  # the index type of both precisions


def classes(name: str, values: object, rows: int | None = None) -> tuple[Values, NDArray[np.int32]]:
    """As `encode_labels`, for a target that counts as classes: text, truth values, or numbers that are all whole.

    A number with a fraction makes it a target of regression, however few distinct values there are.
    """
    names, number = encode_labels(name, values, rows)
    if fractions := [label for label in names.tolist() if isinstance(label, float) and not label.is_integer()]:
        raise ValueError(
            f"{name} must hold classes, which are text, truth values or whole numbers; Unknown label type: "
            f"{fractions[0]!r} has a fraction, so that {name} is a target of regression"
        )
    return names, number


def refuse_mixed(name: str, values: object) -> None:
    """Refuse text beside numbers, such as '1' beside 1: of a list of both numpy makes text, in which they are one."""
    if len({_kind(value) for value in items(values)} - {"missing"}) > 1:
        raise TypeError(f"{name} must be labels of one kind, all of them text or none, got {short(values)}")


def _kind(value: object) -> str:
    if isinstance(value, str | bytes):
        return type(value).__name__ if value else "missing"
    gone = value is None or (isinstance(value, float | np.floating) and value != value)
    return "missing" if gone else "no text"


def missing(values: object) -> NDArray[np.bool_]:
    """Where a value is nan, None or empty text."""
    array = np.asarray(values)
    if array.dtype.kind not in "OUS":
        return np.asarray(array != array)  # nan is the one number that differs from itself
    array = np.asarray(values, object)  # of a list with nan and text numpy would make text only
    gone = (value is None or value != value or value in ("", b"") for value in array.flat)
    return np.fromiter(gone, bool, array.size).reshape(array.shape)


def rows_of(number: Reals) -> list[NDArray[np.intp]]:
    """The rows of each number 0, 1, ..., in their order; sorted once, because a mask for each would be quadratic."""
    return np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])


__all__ = [
    "Array",
    "any_real_array",
    "classes",
    "encode_labels",
    "hint",
    "missing",
    "nonnegative",
    "of_type",
    "one_of",
    "plain_array",
    "positive",
    "real_array",
    "real_csr",
    "real_scalar",
    "refuse_masked",
    "refuse_mixed",
    "refuse_sparse",
    "row_weights",
    "rows_of",
    "short",
    "whole_number",
]

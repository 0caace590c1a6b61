"""Labels: sorted and encode_labels, classes among them, and missing values."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import items, refuse_masked
from .words import short


def encode_labels(name: str, values: object, rows: int | None = None) -> tuple[NDArray[Any], NDArray[np.int32]]:
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
        raise ValueError(f"{name} must not contain nan, None or empty text, got {short(values)}")
    return names, number.astype(np.int32)  # the index type of both precisions


def classes(name: str, values: object, rows: int | None = None) -> tuple[NDArray[Any], NDArray[np.int32]]:
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


def _kind(value: Any) -> str:
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


def rows_of(number: NDArray[Any]) -> list[NDArray[np.intp]]:
    """The rows of each number 0, 1, ..., in their order; sorted once, because a mask for each would be quadratic."""
    return np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])

"""What the catalogue's problems share: checked rows, labels and targets."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..validation import classes, encode_labels, real_array, real_csr, refuse_sparse, short
from ..validation.sparse import issparse


def features(X: object) -> Any:
    """A nonempty real matrix with one row for each example; a sparse one of scipy stays sparse, stored by rows."""
    return real_csr("X", X) if issparse(X) else matrix(X)


def matrix(values: object, name: str = "X") -> NDArray[Any]:
    """A nonempty real matrix with one row for each example, none of them sparse; the given one where it will do.

    Clients get copies of their rows, so that a problem never holds what the caller may change.
    """
    refuse_sparse(name, values, "a real matrix")
    array = real_array(name, values, "a real matrix", truth=True, copy=False)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name} must be a nonempty matrix with one row for each example, got shape {array.shape}")
    return array


def class_column(y: object, rows: int) -> NDArray[Any]:
    """One class for each row."""
    classes("y", y, rows)
    return np.asarray(y)


def label_column(name: str, values: object, rows: int) -> NDArray[Any]:
    """One label for each row."""
    encode_labels(name, values, rows)
    return np.asarray(values)


def two_classes(y: object, rows: int) -> NDArray[Any]:
    """-1 for the first of the two labels in sorted order, +1 for the second."""
    names, label = classes("y", y, rows)
    if len(names) != 2:
        raise ValueError(f"y must hold two classes, but it holds {len(names)}")
    return np.where(label == 1, 1.0, -1.0)


def labels_of_model(y: object, rows: int, labels: object, count: int) -> NDArray[np.int32]:
    """The class of each row as a model with this number of classes counts them, all of which y or labels must name."""
    names, number = classes("y", y, rows)
    known = names if labels is None else classes("labels", labels)[0]
    if len(known) != count:
        held = f"{'y' if labels is None else 'labels'} holds {len(known)} labels"
        raise ValueError(f"labels must be the {count} labels that the model was trained on; {held}")
    if not np.all(np.isin(names, known)):
        raise ValueError(f"y must hold labels of {short(known)}, got {short(names[~np.isin(names, known)][0])}")
    return np.searchsorted(known, names)[number].astype(np.int32)


def targets(y: object, rows: int, name: str = "y") -> NDArray[Any]:
    """One real number for each row."""
    target = real_array(name, y, f"{rows} real numbers", truth=True)
    if target.shape != (rows,):
        raise ValueError(
            f"{name} must hold {rows} numbers, one for each row of X, got an array of shape {target.shape}"
        )
    return np.asarray(target)

"""Weights of rows and of classes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..problems.rows import label_column
from ..validation import positive, row_weights, short

ACCEPTED = "None, 'balanced' or a mapping from classes to numbers > 0"


def weighed(X: Any, y: Any, sample_weight: Any, **columns: Any) -> tuple[Any, Any, dict[str, Any]]:
    """X, y, and what else is known of each row, without the rows of weight 0, which are as good as absent.

    columns: None, or one label for each row.
    """
    labels = {k: None if v is None else label_column(k, v, X.shape[0]) for k, v in columns.items()}
    if sample_weight is None:
        return X, y, {"sample_weight": None, **labels}
    weight = row_weights(sample_weight, X.shape[0])
    there = weight > 0
    kept = {k: None if v is None else v[there] for k, v in labels.items()}
    return X[there], y[there], {"sample_weight": weight[there], **kept}


def by_client(clients: Any, rows: int) -> NDArray[Any]:
    """The order in which the rows of a client lie together, so that nobody needs to copy them again to have them."""
    return np.arange(rows) if clients is None else np.argsort(np.unique(clients, return_inverse=True)[1], kind="stable")


def with_class_weight(class_weight: Any, names: NDArray[Any], label: NDArray[Any], weight: Any) -> NDArray[Any] | None:
    """The weight of each row times that of its class; None if neither was given.

    class_weight "balanced" is (weight of all rows) / (classes * weight of the class), sums to which each client adds
    its own; in a mapping, classes that are not named weigh 1.
    """
    if class_weight is None:
        return None if weight is None else np.asarray(weight)
    own = np.ones(len(label)) if weight is None else weight
    if isinstance(class_weight, str) and class_weight == "balanced":
        mass = np.bincount(label, own, len(names))
        return np.asarray(own * (mass.sum() / (len(names) * mass))[label])
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be {ACCEPTED}, got {short(class_weight)}")
    if unknown := [name for name in class_weight if not np.any(names == name)]:
        raise ValueError(f"class_weight must be for classes of {names.tolist()}, got one for {short(unknown[0])}")
    factors = [positive(f"class_weight[{name!r}]", class_weight.get(name, 1.0)) for name in names.tolist()]
    return np.asarray(own * np.array(factors)[label])

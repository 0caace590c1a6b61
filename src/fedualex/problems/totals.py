"""Sums over the rows of one client that recipes send, and what is read from them once they are added."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..summaries import Known
from .client_rows import Rows


def sums_by_class(rows: Rows, labels: NDArray[Any], masses: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """For each class the weight of its rows, and their weighted sum."""
    member = (rows.numbers(rows.y, labels) == np.arange(len(labels))[:, None]) * masses
    return {"class_mass": member.sum(axis=1), "class_rows": member @ rows.X}


def sums_of_means(rows: Rows, masses: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The weighted sums of targets and rows."""
    return {"target_sum": np.asarray(masses @ rows.y), "row_sum": masses @ rows.X}


def total_mass(known: Sequence[Known]) -> float:
    """The weight of all rows, of which each has its share in the objective."""
    return float(known[0]["mass"].sum())


def mean_of(known: Known, name: str, mass: float) -> Any:
    """A sum divided by the weight of its rows; a number if it is one."""
    return (known[name] / mass)[()]


def known_classes(known: Sequence[Known], two: bool = False) -> NDArray[Any]:
    """The labels of all clients, of which there must be two, or at least two."""
    labels = known[0]["classes"]
    if two and len(labels) != 2:
        raise ValueError(f"y must hold two classes, but it holds {len(labels)}")
    if len(labels) < 2:
        rows = int(known[0]["rows"].sum())
        raise ValueError(f"y must hold at least two classes, but all its {rows} labels are alike")
    return labels


def class_means(known: Known) -> NDArray[Any]:
    """The mean row of each class."""
    return np.asarray(known["class_rows"] / known["class_mass"][:, None])

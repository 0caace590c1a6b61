"""The rows of one client, and how much they weigh."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..validation import encode_labels, real_array, row_weights, short
from ..validation.sparse import issparse
from .data import WEIGHTS, objective_weights
from .sparse_row import example_rows


class Rows(NamedTuple):
    """The rows of one client: features, targets, and where they exist weights and groups of the rows.

    X: a matrix, or a sparse one of scipy.
    y: the targets. weight, group: one for each row, or None.
    """

    X: Any
    y: NDArray[Any]
    weight: NDArray[Any] | None = None
    group: NDArray[Any] | None = None

    @property
    def features(self) -> Any:
        """The features as examples have them, with a row for each example."""
        return example_rows(self.X)

    @property
    def shares(self) -> NDArray[Any]:
        """The weight of each row; 1 where none was given."""
        return np.ones(len(self.y)) if self.weight is None else self.weight

    @property
    def factors(self) -> NDArray[Any]:
        """w_i / (mean of w): the plain mean of these times a loss is its weighted mean; 0 if all weights are 0."""
        mean = self.shares.sum() / len(self.y)
        return self.shares / mean if mean > 0 else np.zeros(len(self.y))

    def mass(self, weights: Any, client: int) -> float:
        """The weight of this client in the objective, up to a factor that all clients share.

        weights: as of a recipe.
        """
        if _by_rows(weights):
            return float(self.shares.sum())
        if not self.shares.any():
            raise ValueError(f"sample_weight must be > 0 for some row of every client, got only 0 for client {client}")
        return 1.0 if isinstance(weights, str) else _number(weights, client)

    def masses(self, weights: Any, client: int) -> NDArray[Any]:
        """That of each row."""
        return self.shares if _by_rows(weights) else self.mass(weights, client) * self.factors / len(self.y)

    def labels(self, values: NDArray[Any]) -> NDArray[Any]:
        """The distinct values of those rows that weigh something: a row of weight 0 is as good as absent."""
        return np.unique(values[self.shares > 0])

    def numbers(self, values: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int32]:
        """The number of each row's value among the sorted labels; any number for a row of weight 0 that has another."""
        found = np.minimum(np.searchsorted(labels, values), len(labels) - 1)
        strange = (labels[found] != values) & (self.shares > 0)
        if strange.any():
            raise ValueError(f"labels must be of {short(labels.tolist())}, got {short(values[strange][0])}")
        return found.astype(np.int32)

    def signs(self, labels: NDArray[Any]) -> NDArray[Any]:
        """-1 for rows of the first of two classes, +1 for those of the second."""
        return np.where(self.numbers(self.y, labels) == 1, 1.0, -1.0)

    def weighed(self, **examples: Any) -> dict[str, Any]:
        """These examples, with the factor of each row as "weight" where rows have weights."""
        return examples if self.weight is None else {**examples, "weight": self.factors}


def split_rows(X: Any, y: NDArray[Any], clients: object, weight: Any = None, group: Any = None) -> list[Rows]:
    """The rows of each client, in the sorted order of their ids; clients None is one client.

    weight: None, or a number >= 0 for each row, not all 0, given as `sample_weight`.
    X, y, clients: rows, targets, and whose each row is. group: None, or the group of each row.
    """
    number = np.zeros(len(y), int) if clients is None else encode_labels("clients", clients, len(y))[1]
    weight = None if weight is None else row_weights(weight, len(y))

    in_order = bool(np.all(number[:-1] <= number[1:]))  # then no row is copied
    order, ends = np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))
    own = [slice(end - rows, end) for end, rows in zip(ends, np.bincount(number), strict=True)]

    def split(values: Any) -> list[Any]:
        if values is None:
            return [None] * len(own)
        sorted_values = values if in_order else values[order]
        return [sorted_values[part] for part in own]

    by_rows = X.tocsr() if issparse(X) else X
    return [Rows(*parts) for parts in zip(*map(split, (by_rows, y, weight, group)), strict=True)]


def checked_weights(weights: object) -> NDArray[Any]:
    """Weights of clients as a recipe has them, for as many clients as there are numbers."""
    given = weights if isinstance(weights, str) else real_array("weights", weights, WEIGHTS)
    return objective_weights(weights, np.ones(np.size(given)))


def _number(weights: Any, client: int) -> float:
    given = checked_weights(weights)
    if client >= given.size:
        raise ValueError(f"weights must hold one number for each client, got {given.size} and a client {client}")
    return float(given[client])


def _by_rows(weights: Any) -> bool:
    return isinstance(weights, str) and weights == "samples"

"""From a table with numbers, categories and holes to a matrix."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .moments import Standardizer


@dataclass(frozen=True)
class Encoder:
    """Numbers are standardized by federated moments; a text column becomes one 0/1 column for each category.

    Missing numbers become 0, the mean, and constant columns 0 (`Standardizer`). The categories are the union of what
    the clients name; a missing or unseen category is a row of zeros. 0/1 columns are not rescaled.
    """

    numbers: tuple[str, ...]
    categories: dict[str, tuple[str, ...]]
    standardizer: Standardizer | None

    @classmethod
    def fit(cls, table: Mapping[str, NDArray[Any]], clients: Any = None) -> "Encoder":
        """What the columns hold: names of categories from each client, and sums of its numbers."""
        numbers = tuple(name for name in table if table[name].dtype.kind in "fiub")
        categories = {
            name: tuple(sorted(set(table[name].astype(str).tolist()) - {""})) for name in table if name not in numbers
        }
        matrix = [np.asarray(table[name], float) for name in numbers]
        return cls(numbers, categories, Standardizer.fit(np.stack(matrix, axis=1), clients) if numbers else None)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the matrix's columns."""
        return (*self.numbers, *(f"{name}={c}" for name, known in self.categories.items() for c in known))

    def transform(self, table: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """The matrix of a table with the columns that were fitted; it may have more."""
        missing = [name for name in (*self.numbers, *self.categories) if name not in table]
        if missing:
            raise ValueError(f"the table must have the column {missing[0]!r}, which was there when it was fitted")
        blocks: list[NDArray[Any]] = []
        if self.standardizer is not None:
            blocks.append(self.standardizer.transform(np.stack([np.asarray(table[n]) for n in self.numbers], axis=1)))
        for name, known in self.categories.items():
            blocks.append((table[name].astype(str)[:, None] == np.array(known, str)[None, :]).astype(float))
        return np.concatenate(blocks, axis=1)

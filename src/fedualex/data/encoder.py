"""From a table with numbers, categories and holes to a matrix."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..validation import encode_labels, missing, plain_array
from .moments import Standardizer
from .tables import Table, from_values


@dataclass(frozen=True, eq=False)
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
        whole = Table({name: _plain(name, column) for name, column in table.items()}, "the table")
        if clients is not None:  # there may be no numbers for whose moments it would be checked
            encode_labels("clients", clients, whole.rows)
        categories = {
            name: tuple(sorted(set(column.tolist()) - {""})) for name, column in whole.items() if _is_text(column)
        }
        numbers = tuple(name for name in whole if name not in categories)
        matrix = [np.asarray(whole[name], float) for name in numbers]
        return cls(numbers, categories, Standardizer.fit(np.stack(matrix, axis=1), clients) if numbers else None)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the matrix's columns."""
        return (*self.numbers, *(f"{name}={c}" for name, known in self.categories.items() for c in known))

    def transform(self, table: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """The matrix of a table with the columns that were fitted; it may have more."""
        gone = [name for name in (*self.numbers, *self.categories) if name not in table]
        if gone:
            raise ValueError(f"the table must have the column {gone[0]!r}, which was there when it was fitted")
        kinds = dict.fromkeys(self.numbers, False) | dict.fromkeys(self.categories, True)
        whole = Table({name: _of_kind(name, table[name], text) for name, text in kinds.items()}, "the table")
        blocks: list[NDArray[Any]] = []
        if self.standardizer is not None:
            blocks.append(self.standardizer.transform(np.stack([whole[name] for name in self.numbers], axis=1)))
        for name, known in self.categories.items():
            blocks.append((whole[name][:, None] == np.array(known, str)[None, :]).astype(float))
        return np.concatenate(blocks, axis=1)


def _of_kind(name: str, values: Any, text: bool) -> NDArray[Any]:
    """The column as text or as numbers; one in which all is missing can be either, any other is what it is."""
    column = _plain(name, values)
    if missing(column).all():
        return np.full(len(column), "" if text else np.nan)
    if _is_text(column) != text:
        fitted, found = ("text", "numbers") if text else ("numbers", "text")
        raise ValueError(f"the column {name!r} must hold {fitted}, as when it was fitted, got {found}")
    return column


def _plain(name: str, values: Any) -> NDArray[Any]:
    """A column as numbers with nan or as text with "" where a value is missing."""
    column = plain_array(f"the column {name!r}", values)
    if column.dtype.kind == "O":
        return from_values(column.tolist())
    return column if column.dtype.kind in "fiubU" else np.where(missing(column), "", column.astype(str))


def _is_text(column: NDArray[Any]) -> bool:
    return column.dtype.kind == "U"

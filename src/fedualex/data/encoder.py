"""From a table with numbers, categories and holes to a matrix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..summaries import Known, Summary, merged
from ..validation import encode_labels, row_weights, rows_of
from ..validation.accepted import Columns
from .columns import (
    CATEGORIES,
    column_of_kind,
    known_categories,
    known_constants,
    known_kinds,
    known_moments,
    known_no_categories,
    plain_column,
    plain_table,
    summarize_categories,
    summarize_columns,
)
from .moments import Standardizer
from .tables import Table


@dataclass(frozen=True, eq=False)
class Encoder:
    """Numbers are standardized by federated moments; a text column becomes one 0/1 column for each category.

    Missing numbers become 0, the mean, and constant columns 0 (`Standardizer`). The categories are the union of what
    the clients name; a missing or unseen category is a row of zeros. 0/1 columns are not rescaled.

    standardizer: the moments of the columns of numbers. Make an encoder with `Encoder.fit`.
    """

    numbers: tuple[str, ...]
    categories: dict[str, tuple[str, ...]]
    standardizer: Standardizer | None
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The columns of text that take no part, each with what it holds instead of categories."""

    exchanges: ClassVar[int] = 2

    @classmethod
    def fit(cls, table: Mapping[str, NDArray[Any]], clients: Any = None, sample_weight: Any = None) -> "Encoder":
        """What the columns hold, from the summaries of each client; clients None is one client.

        sample_weight: None, or a number >= 0 for each row, in proportion to which it counts in means and deviations.
        """
        whole = plain_table(table)
        number = np.zeros(whole.rows, int) if clients is None else encode_labels("clients", clients, whole.rows)[1]
        weight = None if sample_weight is None else row_weights(sample_weight, whole.rows)
        parts = [(whole.take(rows), None if weight is None else weight[rows]) for rows in rows_of(number)]
        known: list[Known] = []
        for _ in range(cls.exchanges):
            known.append(merged(cls.summarize(part, known, own) for part, own in parts))
        return cls.from_known(known)

    @classmethod
    def summarize(cls, table: Mapping[str, NDArray[Any]], known: Sequence[Known], weight: Any = None) -> Summary:
        """At one client: what its columns hold; then its categories, and squared deviations from the mean of all."""
        own = plain_table(table)
        if not known:
            return summarize_columns(own, weight)
        numbers, words = _numbers(known), summarize_categories(own, known[0])
        if not numbers:
            return Summary(sums={"squares": np.zeros(0)}, labels=words)
        squares = Standardizer.summarize(_matrix(own, numbers), [known_moments(known[0], numbers)], weight)
        return Summary(sums=squares.sums, labels=words)

    @classmethod
    def from_known(cls, known: Sequence[Known]) -> "Encoder":
        """From the merged summaries of both exchanges."""
        numbers = _numbers(known)
        found = {name: tuple(known[1][CATEGORIES + name].tolist()) for name in known_categories(known[0])}
        left_out = {**known_no_categories(known[0]), **known_constants(known[0], found)}
        categories = {name: words for name, words in found.items() if name not in left_out}
        if not numbers and not categories:
            held = ", ".join(f"{name} holds {what}" for name, what in left_out.items())
            raise ValueError(f"a table must have columns of numbers or categories; {held}")
        if not numbers:
            return cls(numbers, categories, None, left_out)
        moments = Standardizer.from_known([known_moments(known[0], numbers), known[1]])
        return cls(numbers, categories, moments, left_out)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the matrix's columns."""
        return (*self.numbers, *(f"{name}={c}" for name, known in self.categories.items() for c in known))

    def transform(self, table: Columns) -> NDArray[Any]:
        """The matrix of a table with the columns that were fitted; it may have more."""
        gone = [name for name in (*self.numbers, *self.categories) if name not in table]
        if gone:
            raise ValueError(f"the table must have the column {gone[0]!r}, which was there when it was fitted")
        kinds = dict.fromkeys(self.numbers, False) | dict.fromkeys(self.categories, True)
        plain = {name: plain_column(name, table[name]) for name in kinds}
        whole = Table({name: column_of_kind(name, plain[name], text) for name, text in kinds.items()}, "the table")
        blocks: list[NDArray[Any]] = []
        if self.standardizer is not None:
            blocks.append(self.standardizer.transform(_matrix(whole, self.numbers)))
        for name, known in self.categories.items():
            blocks.append((whole[name][:, None] == np.array(known, str)[None, :]).astype(float))
        return np.concatenate(blocks, axis=1)


def _numbers(known: Sequence[Known]) -> tuple[str, ...]:
    return tuple(name for name, text in known_kinds(known[0]).items() if not text)


def _matrix(table: Table, names: tuple[str, ...]) -> NDArray[Any]:
    return np.stack([column_of_kind(name, table[name], text=False) for name in names], axis=1)

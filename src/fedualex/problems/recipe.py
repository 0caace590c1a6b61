"""Recipes: problems of the catalogue before anybody's data was seen, built from what clients add up to."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..summaries import Known, Summary, merged
from ..tree import Tree
from ..validation import encode_labels, rows_of
from .data import objective_weights
from .general import Problem


class Rows(NamedTuple):
    """The rows of one client: features, targets, and where they exist weights and groups of the rows."""

    X: Any
    y: NDArray[Any]
    weight: NDArray[Any] | None = None
    group: NDArray[Any] | None = None

    @property
    def shares(self) -> NDArray[Any]:
        """The weight of each row; 1 where none was given."""
        return np.ones(len(self.y)) if self.weight is None else self.weight


class AbstractRecipe(ABC):
    """A problem of the catalogue without data. No method but `summarize` and `examples` sees a row.

    exchanges: how many summaries each client sends, one after the other; `known` is the list of merged ones so far.
    """

    exchanges: ClassVar[int]

    @abstractmethod
    def summarize(self, rows: Rows, known: Sequence[Known]) -> Summary:
        """At one client: its next summary. What may leave it is what stands here."""

    @abstractmethod
    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> Tree:
        """At client number `client`: its rows as the loss wants them."""

    @abstractmethod
    def problem(self, known: Sequence[Known], data: Any) -> Problem:
        """Anywhere: the problem with these examples of each client, or with data "elsewhere"."""

    def weights(self, known: Sequence[Known]) -> NDArray[Any]:
        """The weight of each client in the objective: its share of the rows."""
        return objective_weights("samples", known[0]["rows"])


def gather(recipe: AbstractRecipe, parts: Sequence[Rows]) -> list[Known]:
    """All merged summaries of clients that are in this process."""
    known: list[Known] = []
    for _ in range(recipe.exchanges):
        known.append(merged([recipe.summarize(rows, known) for rows in parts]))
    return known


def assemble(recipe: AbstractRecipe, parts: Sequence[Rows]) -> Problem:
    """The problem of clients that are in this process, built as it is between parties."""
    known = gather(recipe, parts)
    return recipe.problem(known, [recipe.examples(rows, known, m) for m, rows in enumerate(parts)])


def split_rows(X: Any, y: NDArray[Any], clients: Any, weight: Any = None, group: Any = None) -> list[Rows]:
    """The rows of each client, in the sorted order of their ids; clients None is one client."""
    number = np.zeros(len(y), int) if clients is None else encode_labels("clients", clients, len(y))[1]

    def part(values: Any, rows: NDArray[Any]) -> Any:
        return None if values is None else values[rows]

    return [Rows(X[rows], y[rows], part(weight, rows), part(group, rows)) for rows in rows_of(number)]

"""A goal for tables that nobody has seen: from each party's columns to a problem, and from its solution to a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Encoder, Standardizer, Table
from ..models import NUMBERS, Answers, Model
from ..models.model import standardized
from ..problems import AbstractRecipe, Problem
from ..problems.rows import Rows, class_column, label_column
from ..runs.settings import recipe_class, recipe_of
from ..summaries import Known, Summary
from ..validation import row_weights
from .goals import (
    GOALS,
    arguments_of,
    check_labels,
    check_target,
    names_of,
    weighs_clients,
    with_limited_weights,
)

TARGET = "target "
"""Before the names of what is said of the target."""
CLASSES_OF_TARGET = TARGET + "classes"
ROWS = "rows"


@dataclass(frozen=True, eq=False)
class TableRecipe:
    """A problem of the catalogue for tables with the same columns at all parties, and the model that comes of it.

    goal, options: one of GOALS, and what was chosen of its options. target, groups, weights: names of columns, of a
    target perhaps several; of weights numbers >= 0, in proportion to which rows count.
    smooth: whether theory chooses step sizes, for which parties tell how fast their operators change.
    The exchanges are those of the encoder, in which the target's classes or moments travel as well, those of the
    goal's own recipe, and one for smoothness. No method but `summarize`, `rows` and `examples` sees a row.
    """

    goal: str
    target: str | tuple[str, ...]
    groups: str | None = None
    weights: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    smooth: bool = False

    @property
    def exchanges(self) -> int:
        """How many summaries each party sends."""
        own: int = recipe_class(GOALS[self.goal].problem).exchanges
        return Encoder.exchanges + own + self.smooth

    def counts(self, known: Sequence[Known]) -> NDArray[Any]:
        """How many rows each party trains on."""
        return known[Encoder.exchanges]["rows"]

    @property
    def predicts_numbers(self) -> bool:
        """Whether the target is one of numbers, which are standardized."""
        return GOALS[self.goal].answers == NUMBERS

    @property
    def limits_classes(self) -> bool:
        """Whether the goal limits the loss of a class."""
        return GOALS[self.goal].arguments.get("groups") == "classes"

    @property
    def weighs_parties(self) -> bool:
        """Whether the dual variable weighs the parties, as where they are the groups of a worst-case loss."""
        return weighs_clients(self.goal, self.groups is not None)

    def summarize(self, table: Table, known: Sequence[Known], client: int) -> Summary:
        """At party number `client`: its next summary, from the rows that it trains on."""
        if len(known) >= Encoder.exchanges:
            own, before = self.recipe(known), known[Encoder.exchanges :]
            summarize = own.summarize if len(before) < own.exchanges else own.smoothness
            return summarize(self.rows(table, known), before, client)
        labels, weight = self.labels(table), self._row_weights(table)
        columns = Encoder.summarize(self._features(table), known, weight)
        if not known:
            columns = _with(columns, sums={ROWS: np.asarray(float(len(labels)))})
        if self.predicts_numbers:
            moments = Standardizer.summarize(labels.reshape(len(labels), -1), _target_known(known), weight)
            return _with(columns, sums={TARGET + name: value for name, value in moments.sums.items()})
        return columns if known else _with(columns, labels={CLASSES_OF_TARGET: np.unique(labels)})

    def recipe(self, known: Sequence[Known]) -> AbstractRecipe:
        """The recipe of the catalogue, once it is known which classes there are."""
        found = np.zeros(0)
        if not self.predicts_numbers:
            check_target(self.goal, str(self.target), found := known[0][CLASSES_OF_TARGET])
        rows = round(float(known[0][ROWS]))  # of a sum under masks, which is near a whole number
        arguments = arguments_of(self.goal, self.options, found, rows)
        if self.weighs_parties and len(known) > Encoder.exchanges:  # before that no summary depends on it
            arguments = with_limited_weights(arguments, self.counts(known).size)
        grouped = {"grouped": True} if self.groups is not None else {}
        return recipe_of({"name": GOALS[self.goal].problem, **arguments, **grouped})

    def rows(self, table: Table, known: Sequence[Known]) -> Rows:
        """At one party: its rows as the catalogue takes them."""
        X, labels, weight = (
            self.encoder(known).transform(self._features(table)),
            self.labels(table),
            self._row_weights(table),
        )
        group = None if self.groups is None else label_column("groups", table[self.groups], len(X))
        if self.predicts_numbers:
            numbers = self.scale(known).transform(labels.reshape(len(X), -1)).reshape(labels.shape)
            return Rows(X, numbers, weight, group)
        y = class_column(labels, len(X))
        return Rows(X, y, weight, y if self.limits_classes else group)

    def examples(self, table: Table, known: Sequence[Known], client: int) -> Any:
        """At one party: its examples, for `problem`."""
        return self.recipe(known).examples(self.rows(table, known), known[Encoder.exchanges :], client)

    def problem(self, known: Sequence[Known], data: Any) -> Problem:
        """Anywhere: the problem with the examples of all parties, of one of them, or with data "elsewhere"."""
        return self.recipe(known).problem(known[Encoder.exchanges :], data)

    def party_weights(self, known: Sequence[Known]) -> NDArray[Any]:
        """The weight of each party in the objective."""
        return self.recipe(known).client_weights(known[Encoder.exchanges :])

    def encoder(self, known: Sequence[Known]) -> Encoder:
        """From columns to features."""
        return Encoder.from_known(known[: Encoder.exchanges])

    def scale(self, known: Sequence[Known]) -> Standardizer:
        """Of a target of numbers."""
        return Standardizer.from_known(_target_known(known[: Encoder.exchanges]))

    def model(self, known: Sequence[Known], x: Mapping[str, Any], **about: Any) -> Model:
        """The model of a solution x. about: what `Model` keeps beside, as its certificate."""
        recipe = self.recipe(known)
        bias = recipe.bias(known[Encoder.exchanges :], x)
        return Model(self.encoder(known), np.asarray(x["weights"]), bias, self._answers(known), self.target, **about)

    def _answers(self, known: Sequence[Known]) -> Answers:
        kind = GOALS[self.goal].answers
        if not self.predicts_numbers:
            return Answers(kind, known[0][CLASSES_OF_TARGET])
        return standardized(kind, self.scale(known), not isinstance(self.target, str))

    @property
    def beside(self) -> tuple[str, ...]:
        """The columns that are no features."""
        return (*names_of(self.target), *(name for name in (self.groups, self.weights) if name is not None))

    def _features(self, table: Table) -> Table:
        return table.without(*self.beside)

    def _row_weights(self, table: Table) -> NDArray[Any] | None:
        if self.weights is None:
            return None
        return row_weights(table[self.weights], table.rows, f"the column {self.weights!r}")

    def labels(self, table: Table) -> NDArray[Any]:
        """At one party: its target, checked."""
        for name in names_of(self.target):
            check_labels(self.goal, name, table[name])
        return table.pick(self.target)


def _with(columns: Summary, **parts: Mapping[str, Any]) -> Summary:
    """A summary with more in these parts of it."""
    return replace(columns, **{name: {**getattr(columns, name), **more} for name, more in parts.items()})


def _target_known(known: Sequence[Known]) -> list[Known]:
    """What is known of the moments of the target, by the names of `Standardizer`."""
    return [{name.removeprefix(TARGET): part[name] for name in part if name.startswith(TARGET)} for part in known]

"""One party of several that hold tables: what it answers, in this process as at a site. Nothing else leaves it."""

from collections.abc import Sequence
from typing import Any

from ..data import Encoder, Table
from ..problems import Problem
from ..problems.rows import Rows
from ..summaries import Known, Summary, merged
from .recipe import TableRecipe


class Party:
    """Party number `client` with the rows that it trains on. A table is encoded once."""

    def __init__(self, recipe: TableRecipe, client: int, trained: Table):
        self.recipe, self.client, self.trained = recipe, client, trained
        self._rows: Rows | None = None

    def summarize(self, known: Sequence[Known]) -> Summary:
        """Its next summary."""
        recipe = self.recipe
        if len(known) < Encoder.exchanges:
            return recipe.summarize_columns(self.trained, known)
        own, before = recipe.recipe(known), recipe.own_known(known)
        summarize = own.summarize if len(before) < own.exchanges else own.smoothness
        return summarize(self.rows(known), before, self.client)

    def rows(self, known: Sequence[Known]) -> Rows:
        """Its rows as the catalogue takes them. What the encoder is made of never changes once it is known."""
        if self._rows is None:
            self._rows = self.recipe.rows(self.trained, known)
        return self._rows

    def examples(self, known: Sequence[Known]) -> Any:
        """Its examples, for `TableRecipe.problem`."""
        recipe = self.recipe
        return recipe.recipe(known).examples(self.rows(known), recipe.own_known(known), self.client)


def agree(parties: Sequence[Party]) -> list[Known]:
    """What parties in this process know after all summaries, as it is between sites."""
    known: list[Known] = []
    for _ in range(parties[0].recipe.exchanges):
        known.append(merged(party.summarize(known) for party in parties))
    return known


def pooled_problem(parties: Sequence[Party], known: Sequence[Known]) -> Problem:
    """Their problem."""
    return parties[0].recipe.problem(known, [party.examples(known) for party in parties])

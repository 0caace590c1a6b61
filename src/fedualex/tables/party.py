"""One of several parties that hold tables, and all that it answers, in this process as at a site."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Values
from ..compiling import double
from ..data import Encoder, Table
from ..data.curves import FEWEST_IN_BIN
from ..inference.hazards import summarize_hazards
from ..inference.sums import Design, summarize_effects
from ..problems import Problem
from ..problems.cox import CoxRecipe, stratum
from ..problems.curvature import ScoreSurveyor, surveyor_of
from ..problems.risk_sets import RiskSets
from ..problems.rows import Rows
from ..problems.scores import ScoreSum
from ..problems.stored import RowSource
from ..summaries import Known, Summary
from .choosing import checked_folds
from .folds import FoldedRows, fold_of, least_of_some
from .goals import SITES
from .ordinary import sum_ordinary
from .recipe import PARTS, TableRecipe, merge_named


class Party:
    """Party number `client` with the rows that it trains on. A table is encoded once.

    name: what others call it. places: where its rows stand among all of its rows, held-out ones counted. By these, or
    by its id if it has one, a row stays in its fold when others are appended. fewest: rows of a bin of its histograms.
    """

    def __init__(
        self,
        recipe: TableRecipe,
        client: int,
        trained: Table,
        name: str = "",
        places: object = None,
        fewest: int = FEWEST_IN_BIN,
    ):
        self.fewest = fewest
        self.recipe, self.client, self.trained, self.name = recipe, client, trained, name
        self._places = places
        self._rows: Rows | None = None
        self._sum: ScoreSum | None = None

    def summarize(self, known: Sequence[Known]) -> Summary:
        """Its next summary, given the merged ones so far."""
        recipe = self.recipe
        if len(known) < Encoder.exchanges:
            return recipe.summarize_columns(self.trained, known, self.fewest)
        own, before = recipe.recipe(known), recipe.own_known(known)
        summarize = own.summarize if len(before) < own.exchanges else own.smoothness
        return summarize(self.rows(known), before, self.client)

    def differences(self, known: Sequence[Known]) -> dict[str, list[str]]:
        """The columns of its features that differ from those of all others by more than parties do, by kind."""
        recipe = self.recipe
        own = [recipe.summarize_columns(self.trained, known[:k], self.fewest) for k in range(Encoder.exchanges)]
        return recipe.find_differences(self.trained, own, known)

    def rows(self, known: Sequence[Known]) -> Rows:
        """Its rows as the catalogue takes them; encoded once, as what the encoder is made of does not change."""
        if self._rows is None:
            self._rows = self.recipe.rows(self.trained, known)
        return self._rows

    def examples(self, known: Sequence[Known]) -> Any:
        """Its examples, for `TableRecipe.problem`."""
        recipe = self.recipe
        return recipe.recipe(known).examples(self.rows(known), recipe.own_known(known), self.client)

    def fold(self, known: Sequence[Known]) -> FoldedRows:
        """Its rows in folds, for the choice of a penalty."""
        recipe, parties = self.recipe, len(self.recipe.counts(known))
        count, sites = checked_folds(recipe.selection.folds, parties), recipe.selection.folds == SITES
        number = np.full(self.trained.rows, self.client) if sites else fold_of(self._keys, self.name, count)
        parts = self._parts(known)
        return FoldedRows(recipe.recipe(known), self.rows(known), number, count, self.client, self.name, sites, parts)

    def fewest_of_parts(self, known: Sequence[Known]) -> tuple[float, float]:
        """The rows of the smallest class, group, or of those with an event: of this party's own, and of all parties.

        Groups of few rows are one together before anything is told of them, so that of all parties only targets count.
        """
        return least_of_some(self._parts(known).sum(axis=1)), least_of_some(known[1][PARTS])

    def _parts(self, known: Sequence[Known]) -> NDArray[np.bool_]:
        """Which rows are of each part whose sums are told apart, (parts, rows)."""
        parts, rows = self.recipe.parts(self.trained, known), self.rows(known)
        if self.recipe.groups is None or rows.group is None:
            return parts
        names = self.recipe.own_known(known)[0]["groups"] if self.recipe.own_known(known) else np.unique(rows.group)
        return np.concatenate([parts, (rows.group == names[:, None]) & (rows.shares > 0)])

    @property
    def _keys(self) -> Any:
        if self.recipe.id is not None:
            return self.trained[self.recipe.id]
        return np.arange(self.trained.rows) if self._places is None else self._places

    def effects(self, known: Sequence[Known], asked: Known) -> Summary:
        """Sums over its rows for the table of effects: at parameters `beta`, rows weighed as `y` weighs them.

        asked: {"beta", "y", "own_intercept", "meat"}, the last two 0 or 1; without y it is of the ordinary model.
        """
        if "y" not in asked:
            return Summary(sums=sum_ordinary(self.recipe, known, self.rows(known), asked))
        weight, rows = float(self.recipe.party_weights(known)[self.client]), self.recipe.rows_in_units(known)
        if self.recipe.reading.timed:
            every = self.rows(known)
            scale = rows * weight / max(float(every.shares.sum()), np.finfo(float).tiny)
            events = self._events(known, asked["y"])
            return Summary(sums=summarize_hazards(events, asked["beta"], scale, bool(asked["meat"])))
        own = self._losses(known)
        matrix: Any = own.rows.rows if isinstance(own.rows.rows, RowSource) else np.asarray(own.rows.rows, float)
        design = Design(matrix, own.target, rows * weight * own.coefficients(asked["y"]))
        return Summary(
            sums=summarize_effects(
                own.family, design, asked["beta"], bool(asked["own_intercept"]), meat=bool(asked["meat"])
            )
        )

    def _events(self, known: Sequence[Known], y: Values) -> RiskSets:
        """Its stratum, with what each event counts with at y."""
        recipe, every = self.recipe.recipe(known), self.rows(known)
        assert isinstance(recipe, CoxRecipe)
        own, order = stratum(every)
        counts = recipe.weigh_events(every, self.recipe.own_known(known), self.client, order, y)
        return own._replace(event=own.event * counts)

    def _losses(self, known: Sequence[Known]) -> ScoreSum:
        """Its rows as losses of scores, which the goals with a table of effects have."""
        if self._sum is None:
            with double():
                surveyor = surveyor_of(self.recipe.problem(known, [self.examples(known)]))
            assert isinstance(surveyor, ScoreSurveyor)
            ((_, self._sum),) = surveyor.parts
        return self._sum


def agree(parties: Sequence[Party]) -> list[Known]:
    """What parties in this process know after all summaries, as it is between sites."""
    known: list[Known] = []
    for _ in range(parties[0].recipe.exchanges):
        known.append(merge_named({party.name or f"client {party.client}": party.summarize(known) for party in parties}))
        parties[0].recipe.check_known(known)
    return known


def pooled_problem(parties: Sequence[Party], known: Sequence[Known]) -> Problem:
    """The problem with the examples of all parties."""
    return parties[0].recipe.problem(known, [party.examples(known) for party in parties])

"""A site with a table of its own: what it answers before a run, during it, and after it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...deploy import Arrays, Request, Site
from ...deploy.site import DisagreementError
from ...deploy.wire import pack_json, pack_summary, unpack_known
from ...models import save
from ...models.store import MODEL
from ...summaries import Known
from ..measures import measured
from .known import read_known, write_known
from .messages import unpack_model
from .own_table import read_own_table
from .settings import agreement, recipe_of_goal

MakeSite = Callable[[Any, Sequence[Known]], Site]
"""From the problem with the site's own examples, and what is known, to its side of the run."""


class TableSite:
    """Site number `client` of a deployment of tables.

    Before a run it is asked for the names of its columns, then for summaries of its rows, and is told what those of all
    sites have become, which it keeps: a site that is started again in the middle of a run answers as before. During the
    run it is a `Site`. After it the model comes, is measured on the rows that the site held out, and is kept.
    """

    def __init__(self, party: Path, settings: Mapping[str, Any], make_site: MakeSite):
        self.party, self.make_site = party, make_site
        self.recipe, self.agreed = recipe_of_goal(settings), agreement(settings)
        self.name, self.client = settings["site"], list(settings["sites"]).index(settings["site"])
        self.table = read_own_table(party, self.recipe, settings["problem"]["holdout"])
        self._site: Site | None = None

    def work(self, request: Request) -> Arrays:
        """The answer to a request."""
        if (answer := ANSWERS.get(request.task)) is None:
            return self.site().work(request)
        if request.run_id.partition("-")[0] != self.agreed:
            raise DisagreementError("the server and this site were told different goals, sites or options")
        return answer(self, request)

    def factors(self, task: str) -> Mapping[str, float]:
        """What its arrays are multiplied by in sums over all sites; those of summaries by nothing."""
        return {} if task in ANSWERS else self.site().factors

    def site(self) -> Site:
        """Its side of the run, once the parties have agreed."""
        if self._site is None:
            if (known := read_known(self.party)) is None:
                raise DisagreementError("this site has not been told what the parties have agreed on")
            self._site = self._made(known)
        return self._site

    def columns(self, request: Request) -> Arrays:
        """The names of its columns that are features, by which the parties find out whether they have the same."""
        return pack_json(columns=[name for name in self.table.trained if name not in self.recipe.beside])

    def summary(self, request: Request) -> Arrays:
        """Its next summary."""
        known = unpack_known(request.arrays)
        return pack_summary(self.recipe.summarize(self.table.trained, known, self.client))

    def begin(self, request: Request) -> Arrays:
        """Take what all summaries have become, if it is made of this site's own too, and get ready for the run."""
        known = unpack_known(request.arrays)
        if int(self.recipe.counts(known)[self.client]) != self.table.trained.rows:
            raise DisagreementError("what the server has merged is not made of this site's rows: begin anew")
        self._site = self._made(known)
        write_known(self.party, known)
        return pack_json(ready=True)

    def measure(self, request: Request) -> Arrays:
        """How a model fares on the rows that this site held out: a few numbers."""
        if (held_out := self.table.held_out) is None:
            return pack_json(measures=None)
        owners = np.full(held_out.rows, self.name)
        found = measured(unpack_model(request.arrays), held_out, owners, self.recipe.limits_classes)
        return pack_json(measures=found.overall)

    def keep(self, request: Request) -> Arrays:
        """Keep the model in this site's folder."""
        save(unpack_model(request.arrays), self.party / MODEL)
        return pack_json(kept=True)

    def _made(self, known: Sequence[Known]) -> Site:
        examples = self.recipe.examples(self.table.trained, known, self.client)
        return self.make_site(self.recipe.problem(known, [examples]), known)


ANSWERS: dict[str, Callable[[TableSite, Request], Arrays]] = {
    "columns": TableSite.columns,
    "summary": TableSite.summary,
    "begin": TableSite.begin,
    "measure": TableSite.measure,
    "model": TableSite.keep,
}
"""What is asked of a site outside of a run's rounds and surveys."""

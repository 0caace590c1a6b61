"""The server of a deployment of tables: columns and summaries before the run, the model after it."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...models import Model, save
from ...models.store import MODEL
from ...runs.folder import StoredRun
from ...summaries import Known, merged
from ...tables.kept_model import make_model
from ...tables.measures import mean_over_rows
from ...tables.recipe import merge_named
from .. import Arrays, Engine
from ..clients import Exchange, SilentSitesError
from ..wire import MessageError, pack_known, unpack_json, unpack_summary
from .agreement import agreement, recipe_of_goal
from .held_out import measures_of
from .messages import check_columns, pack_model, read_known, write_known

log = logging.getLogger(__name__)


class TableServer:
    """What a server asks of sites outside of a run's rounds and surveys.

    roster: the digest of the sites' list of keys, for secure sums.
    """

    def __init__(self, engine: Engine, party: Path, settings: Mapping[str, Any], roster: str = ""):
        self.party, self.settings, self.recipe = party, settings, recipe_of_goal(settings)
        sites, timeout = list(settings["sites"]), settings["run"]["timeout"]
        self.exchange = Exchange(engine, sites, f"{agreement(settings)}-tables", timeout, roster)

    def agree(self) -> list[Known]:
        """What all parties know when the run begins: from the folder if it is there, else from the sites.

        No number leaves a site before all have the same columns: under masks, sums over other columns have no meaning.
        """
        known = read_known(self.party)
        if known is None:
            known = []
            check_columns(self.exchange.ask_all("columns", {}, 0, _column_names))
            for number in range(self.recipe.exchanges):
                parts = self.exchange.ask_all("summary", pack_known(known), number, unpack_summary)
                known.append(merge_named(parts))
                log.info("summary %d of %d: all sites have answered", number + 1, self.recipe.exchanges)
            write_known(self.party, known)
        self.exchange.ask_all("begin", pack_known(known), 0, _done("ready"))
        return known

    def keep_model(self, known: Sequence[Known], stored: StoredRun) -> Model:
        """The model of a finished run, measured at the sites, and kept here and where a site wants it."""
        model = make_model(self.recipe, known, stored, self.exchange.order, self._measures)
        save(model, self.party / MODEL)
        kept = self.exchange.ask("model", pack_model(model), 0, list(self.exchange.order), 0, _done("kept"))
        log.info("the model is kept at the server and at %d sites", len(kept))
        return model

    def _measures(self, model: Model) -> dict[str, Any] | None:
        """The measures of all sites, and of each where they do not come in sums; None if some site does not answer.

        In the clear those of all are means over rows, and what is no such mean is None; so it is in sums.
        """
        masked = bool(self.exchange.roster)
        read = unpack_summary if masked else lambda arrays: unpack_json(arrays, "measures")[0]
        try:
            found = self.exchange.ask_all("measure", pack_model(model), 0, read)
        except SilentSitesError as error:
            log.warning("there is no test on held-out rows: %s", error)
            return None
        if masked:
            sums = measures_of(model, merged(found.values()), self.recipe.limits_classes)
            return None if sums is None else {"rows": sums["rows"], "overall": sums, "clients": {}}
        sites = {site: one for site, one in found.items() if one is not None}
        if not sites:
            return None
        overall = {name: mean_over_rows(name, sites) for name in next(iter(sites.values()))}
        return {"rows": overall["rows"], "overall": overall, "clients": sites}


def _column_names(arrays: Arrays) -> list[str]:
    """A reader of replies that name columns."""
    (names,) = unpack_json(arrays, "columns")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise MessageError("the columns of a table must be a list of names")
    return names


def _done(word: str) -> Any:
    """A reader of replies that say nothing but that something is done."""

    def read(arrays: Arrays) -> bool:
        return bool(unpack_json(arrays, word)[0])

    return read

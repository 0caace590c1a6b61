"""Who takes part in a run that may begin without sites that stay away (`least_sites` in [run]).

Which sites these are is decided once for a kit, before any site has summarized its rows, and by nobody else: two sums
that differ by one site's rows would show that site's. A site that has answered for some sites answers for no others.
"""

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...storage import Json, write_json
from .. import Arrays, Engine, Request, SiteFacts
from ..clients import TRIES, Exchange, Patience, SilentSitesError
from ..engine import event
from ..ledger import TABLES
from ..policy import Release
from ..site import DisagreementError
from ..wire import pack_json, unpack_json
from .agreement import agreement
from .messages import read_known
from .settings import PATIENCE
from .site import TableSite, facts_of

log = logging.getLogger(__name__)

TASK = "present"
"""The task that asks a site to take part with these sites alone."""
FILE = "present.json"
"""In the folder of a party: the sites that take part, once that is decided."""
LEFT_OUT = "left_out"
"""The code of an event: a run begins without this site."""
Settings = Json


def read_present(party: Path) -> list[str] | None:
    """The sites that take part; None if that is not decided yet."""
    file = party / FILE
    return json.loads(file.read_text()) if file.exists() else None


def of_sites(settings: Settings, names: Collection[str]) -> Json:
    """The settings as if there were these sites alone, in their order."""
    return {**settings, "sites": {name: own for name, own in settings["sites"].items() if name in names}}


# The server, which waits for all, and then for enough.


def gather(engine: Engine, party: Path, settings: Json) -> Json:
    """The settings of the run's sites: of all, or of those that are there once patience with the others is over."""
    if settings["run"].get("least_sites") is None:
        return settings
    run = settings["run"]
    exchange = Exchange(engine, list(settings["sites"]), f"{agreement(settings)}{TABLES}", run["timeout"])
    names = read_present(party)
    if names is None:
        if read_known(party) is not None:  # all have begun
            return settings
        names = _wait_for_sites(exchange, run["least_sites"], run.get("patience", PATIENCE))
        for absent in (name for name in settings["sites"] if name not in names):
            why = exchange.reasons[absent].text
            text = f"the run begins without {absent}, which stays away ({why})"
            log.warning("%s", text, extra=event(LEFT_OUT, absent, TASK, 0, text))
        write_json(party / FILE, names)
    exchange.patience = run.get("patience", PATIENCE)
    exchange.ask_all(TASK, pack_json(sites=names), 0, lambda arrays: unpack_json(arrays, "taken")[0], names)
    return of_sites(settings, names)


def _wait_for_sites(exchange: Exchange, least: int, seconds: float) -> list[str]:
    """Those who answer before patience is over; a refusal of enough others is not waited for."""
    patience, there = Patience(TRIES, seconds), set[str]()
    while waited := [name for name in exchange.order if name not in there and not _has_refused(exchange, name)]:
        there |= exchange.ask("columns", {}, 0, waited, len(waited), dict).keys()
        if exchange.awaits_person:
            patience.failures = 0
        if exchange.engine.stopped() or (not there.issuperset(waited) and patience.fail()):
            break
        if not there.issuperset(waited):
            patience.pause(exchange.engine.stopped)
    if len(there) < least or exchange.engine.stopped():
        raise SilentSitesError(
            f"{len(there)} of at least {least} sites are there; no valid answer of {exchange.why_not()}"
        )
    return [name for name in exchange.order if name in there]


def _has_refused(exchange: Exchange, name: str) -> bool:
    return name in exchange.reasons and exchange.reasons[name].is_final


# A site, which takes part with all sites or with those that it was told of before its first answer about rows.


class AttendingSite:
    """A site with a table among those that take part.

    make: its side for the settings of these sites.
    """

    def __init__(self, party: Path, settings: Settings, make: Callable[[Settings], TableSite]):
        self.party, self.settings, self._make = party, settings, make
        self.kit = agreement(settings)
        self.side = make(of_sites(settings, read_present(party) or settings["sites"]))

    @property
    def _least(self) -> int | None:
        least: int | None = self.settings["run"].get("least_sites")
        return least

    @property
    def facts(self) -> SiteFacts:
        """What rules may be about; a kit stays the same whoever takes part."""
        return facts_of(self.side.table.trained, self.side.recipe, self.kit)

    def work(self, request: Request) -> Arrays:
        """The answer to a request."""
        if request.task == TASK:
            return self._take(request)
        if request.task == "summary" and self._least is not None and read_present(self.party) is None:
            write_json(self.party / FILE, self.side.sites)  # from now on for these sites and no others
        return self.side.work(request)

    def declare(self, request: Request) -> Release:
        """What would leave if it were answered."""
        return Release(TASK) if request.task == TASK else self.side.declare(request)

    def factors(self, task: str) -> Mapping[str, float]:
        """What its arrays are multiplied by in secure sums."""
        return {} if task == TASK else self.side.factors(task)

    def told(self, task: str) -> str:
        """What its masks depend on besides the request."""
        return self.side.told(task)

    def added_up(self) -> Sequence[str]:
        """The sites whose answers are added up."""
        return self.side.sites

    def _take(self, request: Request) -> Arrays:
        (names,) = unpack_json(request.arrays, "sites")
        if reason := self._why_not(request, names):
            raise DisagreementError(f"this site does not take part with the sites that the server names: {reason}")
        if names != self.side.sites:
            self.side = self._make(of_sites(self.settings, names))
        write_json(self.party / FILE, names)
        return pack_json(taken=True)

    def _why_not(self, request: Request, names: Any) -> str:
        sites = list(self.settings["sites"])
        if request.run_id.partition("-")[0] != self.kit:
            return "it was told another goal, other sites or options"
        if not isinstance(names, list) or names != [name for name in sites if name in names]:
            return "they must be some of the agreed ones, in their order"
        if self.side.name not in names:
            return "it is none of them"
        if self._least is None or len(names) < self._least:
            return "they are fewer than least_sites"
        if (before := read_present(self.party)) is not None and before != names:
            return "it has answered for others, and two sums that differ by a site show that site's"
        return ""

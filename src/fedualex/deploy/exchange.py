"""Asking sites: checks of every reply, bytes, and patience with sites that do not answer."""

import logging
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from .encoding import MessageError
from .engine import NOT_FINITE, TOO_LARGE, Arrays, Engine, Reply, Request, is_final
from .secure.summed import SUMMED
from .secure.totals import MaskError, revealed
from .wire import NotFiniteError, size_of

Read = Callable[[Arrays], Any]
"""What a reply holds, or a MessageError that says why it is not what was asked for."""

log = logging.getLogger(__name__)

LONGEST_SKIP = 32
"""Exchanges for which a site is left alone at most; the first failure costs it one, the next two, then four."""
EVERYBODY = "all sites together"
TRIES = 3
"""How often all sites are asked when all must answer."""


class SilentSitesError(RuntimeError):
    """Not all sites gave a valid answer where all were needed."""


class Exchange:
    """Requests to sites and valid replies from them.

    roster: the digest of the list of keys of all sites, for secure sums. Then all sites answer or none, each array that
    is added up comes weighted, and the sum of all is in the reply of the first site, with zeros in those of the others.
    """

    def __init__(self, engine: Engine, sites: Sequence[str], run_id: str, timeout: float, roster: str = ""):
        self.engine, self.run_id, self.timeout, self.roster = engine, run_id, timeout, roster
        self.order = {site: m for m, site in enumerate(sites)}
        self.traffic = [0, 0, 0]
        """Bytes of arrays up and down so far, and how many increments sites were asked for under privacy."""
        self.overflown = False
        """Whether all whose answers were wanted last gave them, and nobody finite numbers: it is not their fault.
        A site that is alone must have done so twice."""
        self.refused = False
        """Whether so many sites have refused, when they were asked last, that asking again would change nothing."""
        self.reasons: dict[str, str] = {}
        """Why each site that did not answer when it was asked last did not."""
        self._infinite_before = False
        self._count = self._surveys = 0
        self._misses: dict[str, int] = {}
        self._skip_until: dict[str, int] = {}

    def ask(
        self, task: str, arrays: Arrays, round_index: int, sites: Sequence[str], needed: int, read: Read
    ) -> dict[str, Any]:
        """The valid replies, sorted by site. Sites that failed lately are left out while enough others are there."""
        self._count += 1
        reachable = set(self.engine.sites())
        patient = [s for s in sites if s in reachable and self._skip_until.get(s, 0) < self._count]
        asked = patient if len(patient) >= needed else list(sites)
        self.reasons.pop(EVERYBODY, None)
        nonce = secrets.token_hex(16) if self.roster and task in SUMMED else ""  # fresh masks for every attempt
        request = Request(task, round_index, self.run_id, arrays, nonce, self.roster if nonce else "")
        self.traffic[1] += size_of(arrays) * len(asked)
        valid, reasons, infinite = dict[str, Any](), dict.fromkeys(asked, "no reply"), 0
        for reply in self.engine.broadcast(request, asked, self.timeout):
            if reply.site not in reasons:  # late, or lost its way: no reason to be impatient with that site
                log.warning(
                    "%s %d: a reply of %s is dropped: it was not asked", request.task, request.round, reply.site
                )
                continue
            try:
                valid[reply.site] = self._checked(reply, request, dict if nonce else read)
            except MessageError as error:
                reasons[reply.site] = str(error)
                infinite += isinstance(error, NotFiniteError)
        everybody = 0 < infinite == len(sites)
        self.overflown = everybody and (infinite > 1 or self._infinite_before)
        self._infinite_before = everybody
        refusals = sum(is_final(reason) for site, reason in reasons.items() if site not in valid)
        self.refused = len(sites) - refusals < needed
        for site, reason in reasons.items():
            if site in valid:
                if site in self._misses:
                    log.info("%s %d: %s answers again", request.task, request.round, site)
                for failures in (self._misses, self._skip_until, self.reasons):
                    failures.pop(site, None)
            else:
                self._blame(site, request, reason)
        found = {site: valid[site] for site in sorted(valid, key=self.order.__getitem__)}
        return self._without_masks(request, found, read) if nonce else found

    def survey(self, arrays: Arrays, read: Read) -> dict[str, Any]:
        """A valid reply of every site to a survey.

        Surveys have numbers of their own: a round has several, at other points, whose late replies must not be mixed.
        """
        self._surveys += 1
        return self.ask_all("survey", arrays, self._surveys, read)

    def ask_all(self, task: str, arrays: Arrays, number: int, read: Read) -> dict[str, Any]:
        """A valid reply of every site: those that did not answer are asked again, a few times, unless they refused."""
        sites, found = list(self.order), dict[str, Any]()
        for attempt in range(TRIES):
            missing = [site for site in sites if site not in found]
            if not missing or self.engine.stopped():
                break
            if attempt:
                log.info("%s %d: asked again: %s", task, number, ", ".join(missing))
            found |= self.ask(task, arrays, number, missing, len(missing), read)
            self.overflown &= len(missing) == len(sites)  # asking those again who failed says nothing of the others
            if self.refused:
                break
        if missing := [site for site in sites if site not in found]:
            raise SilentSitesError(f"no valid answer of {self.why_not() or ', '.join(missing)}")
        return {site: found[site] for site in sites}

    def why_not(self) -> str:
        """The sites that gave no valid answer last, each with its reason."""
        return "; ".join(f"{site} ({reason})" for site, reason in self.reasons.items())

    def _without_masks(self, request: Request, found: dict[str, Arrays], read: Read) -> dict[str, Any]:
        """The sums of all sites; nothing if one is missing, for masks cancel in the sum of all only."""
        if list(found) != list(self.order):
            return {}
        try:
            return {site: read(own) for site, own in revealed(found).items()}
        except (MaskError, MessageError) as error:
            log.warning("%s %d: no sum: %s", request.task, request.round, error)
            self.reasons[EVERYBODY] = str(error)
            return {}

    def _checked(self, reply: Reply, request: Request, read: Read) -> Any:
        if reply.error is not None or reply.arrays is None:
            refused = reply.error or "neither arrays nor an error"
            raise (NotFiniteError if refused.endswith((NOT_FINITE, TOO_LARGE)) else MessageError)(refused)
        if (reply.round, reply.run_id) != (request.round, request.run_id):
            raise MessageError(f"a reply to round {reply.round} of run {reply.run_id!r}")
        self.traffic[0] += size_of(reply.arrays)
        return read(reply.arrays)

    def _blame(self, site: str, request: Request, reason: str) -> None:
        self.reasons[site] = reason
        misses = self._misses[site] = self._misses.get(site, 0) + 1
        self._skip_until[site] = self._count + min(2 ** (misses - 1), LONGEST_SKIP)
        log.warning("%s %d: nothing from %s: %s", request.task, request.round, site, reason)

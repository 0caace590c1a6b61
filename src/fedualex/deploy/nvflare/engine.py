"""The engine below the round loop: NVFlare's Collab calls, from inside the server's job."""

from collections.abc import Sequence

from nvflare.collab import collab
from nvflare.collab.api.exceptions import CollabCallError, RunAborted

from ..engine import Reply, Request
from .wire import pack_request, unpack_reply

TIMEOUT = "timeout"
STOPPED = "stopped"


class NVFlareEngine:
    """Made and used in the thread that runs the job's main function: Collab's context is bound to it."""

    def __init__(self) -> None:
        self._context = collab.context
        self._sites = sorted(proxy.name for proxy in collab.clients)

    def sites(self) -> list[str]:
        """The sites of this job. NVFlare fixes them when the job starts."""
        return list(self._sites)

    def broadcast(self, request: Request, sites: Sequence[str], timeout: float) -> list[Reply]:
        """One reply of each site, in their order: NVFlare itself drops what comes twice or too late."""
        replies = {site: self._failure(site, request, "not in this job") for site in sites}
        known = [site for site in replies if site in self._sites]
        if known:
            replies |= {site: self._failure(site, request, STOPPED) for site in known}
            message = pack_request(request)
            try:
                found = collab.get_clients(known)(timeout=timeout).work(message)
            except RunAborted:
                return list(replies.values())
            if not self.stopped():  # else the failures are those of sites that were stopped before us
                reasons = {site: _reason(error) for site, error in found.failures.items()}
                replies |= {site: self._failure(site, request, reason) for site, reason in reasons.items()}
            replies |= {site: unpack_reply(site, answer, request) for site, answer in found}
        return list(replies.values())

    def stopped(self) -> bool:
        """Whether the job was aborted."""
        return bool(self._context.is_aborted())

    def close(self) -> None:
        """Nothing to let go of: connections and processes are the job's."""

    @staticmethod
    def _failure(site: str, request: Request, error: str) -> Reply:
        return Reply(site, request.round, request.run_id, error=error)


def _reason(error: CollabCallError) -> str:
    """NVFlare's failure in our words: only its own timeout is a timeout, a site's TimeoutError arrives as text."""
    return TIMEOUT if isinstance(error.cause, TimeoutError) else str(error.cause)

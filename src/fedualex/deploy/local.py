"""The engine without an engine: sites in threads of this process, with all that a wire would carry."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from .engine import Arrays, Reply, Request
from .wire import from_bytes, to_bytes

Work = Callable[[Request], Arrays]

THREADS = 4
"""Requests that a site works on at once."""


class LocalEngine:
    """Each site's `work` in a thread. Requests and replies are turned into bytes and back, as between machines."""

    def __init__(self, works: Mapping[str, Work]):
        self._works = dict(works)
        # A straggler keeps its thread until it is done, while the next round already needs one; a site that hangs
        # for good uses up its own threads and nobody else's.
        self._threads = {site: ThreadPoolExecutor(THREADS, thread_name_prefix=site) for site in self._works}
        self._stopped = False

    def sites(self) -> list[str]:
        """All of them: nothing comes between."""
        return sorted(self._works)

    def broadcast(self, request: Request, sites: Sequence[str], timeout: float) -> list[Reply]:
        """One reply of each site; whoever is not done in time has the error "timeout"."""
        content = to_bytes(request.arrays)
        futures = {site: self._threads[site].submit(self._answer, site, request, content) for site in sites}
        for future in wait(futures.values(), timeout).not_done:
            future.cancel()
        late = {site: Reply(site, request.round, request.run_id, error="timeout") for site in sites}
        answered = {site: f.result() for site, f in futures.items() if f.done() and not f.cancelled()}
        return [answered.get(site, late[site]) for site in sites]

    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    def stop(self) -> None:
        """Ask the loop to end after its round."""
        self._stopped = True

    def close(self) -> None:
        """Do not wait for stragglers."""
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)

    def _answer(self, site: str, request: Request, content: bytes) -> Reply:
        try:
            received = Request(request.task, request.round, request.run_id, from_bytes(content))
            arrays = self._works[site](received)
            return Reply(site, request.round, request.run_id, from_bytes(to_bytes(arrays)))
        except Exception as error:  # a site's failure is its own; the text stays there, it may quote data
            return Reply(site, request.round, request.run_id, error=f"the site raised {type(error).__name__}")

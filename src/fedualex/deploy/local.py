"""The engine without an engine: sites in threads of this process, with all that a wire would carry."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from .engine import Arrays, Reply, Request
from .wire import from_bytes, to_bytes

Work = Callable[[Request], tuple[Arrays, dict[str, float]]]


class LocalEngine:
    """Each site's `work` in a thread. Requests and replies are turned into bytes and back, as between machines."""

    def __init__(self, works: Mapping[str, Work]):
        self._works = dict(works)
        # A straggler keeps its thread until it is done, while the next round already needs one.
        self._threads = ThreadPoolExecutor(max_workers=4 * len(works), thread_name_prefix="site")
        self._stopped = False

    def sites(self) -> list[str]:
        """All of them: nothing comes between."""
        return sorted(self._works)

    def broadcast(self, request: Request, sites: Sequence[str], timeout: float) -> list[Reply]:
        """One reply of each site; whoever is not done in time has the error "timeout"."""
        content = to_bytes(request.arrays)
        futures = {site: self._threads.submit(self._answer, site, request, content) for site in sites}
        wait(futures.values(), timeout)
        late = {site: Reply(site, request.round, request.run_id, error="timeout") for site in sites}
        return [future.result() if future.done() else late[site] for site, future in futures.items()]

    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    def stop(self) -> None:
        """Ask the loop to end after its round."""
        self._stopped = True

    def close(self) -> None:
        """Do not wait for stragglers."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _answer(self, site: str, request: Request, content: bytes) -> Reply:
        received = Request(request.task, request.round, request.run_id, from_bytes(content))
        try:
            arrays, metrics = self._works[site](received)
            return Reply(site, request.round, request.run_id, from_bytes(to_bytes(arrays)), metrics)
        except Exception as error:  # a site's failure is its own; the text stays there, it may quote data
            return Reply(site, request.round, request.run_id, error=f"the site raised {type(error).__name__}")

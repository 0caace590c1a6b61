"""The two classes that a job names: NVFlare makes them from the installed package, no code travels."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from nvflare.collab import collab
from nvflare.collab.api.exceptions import CollabCallError, RunAborted

from ...runtime.status import Code, Failure
from ..engine import STOPPED, TIMEOUT
from ..party import RESULT, copy_result, read_entry, write_log
from ..wire import CarriedEngine, make_answerer

# What carries messages: NVFlare's Collab calls, from inside the server's job.


log = logging.getLogger(__name__)
NOT_IN_JOB = Failure(Code.UNREACHABLE, "not in this job")
NOT_BYTES = Failure(Code.MALFORMED, "not bytes")


class Collab:
    """Made and used in the thread that runs the job's main function: Collab's context is bound to it."""

    def __init__(self) -> None:
        self._context = collab.context
        self._sites = sorted(proxy.name for proxy in collab.clients)

    def sites(self) -> list[str]:
        """The sites of this job. NVFlare fixes them when the job starts."""
        return list(self._sites)

    def carry(self, message: bytes, sites: Sequence[str], timeout: float) -> dict[str, bytes | Failure]:
        """One answer of each site: NVFlare itself drops what comes twice or too late."""
        answers: dict[str, bytes | Failure] = dict.fromkeys(sites, NOT_IN_JOB)
        known = [site for site in sites if site in self._sites]
        if known:
            answers |= dict.fromkeys(known, STOPPED)
            try:
                replies = collab.get_clients(known)(timeout=timeout).work(message)
            except RunAborted:
                return answers
            if not self.stopped():  # else the failures are those of sites that were stopped before us
                answers |= {site: _reason(error) for site, error in replies.failures.items()}
            answers |= {site: content if isinstance(content, bytes) else NOT_BYTES for site, content in replies}
        return answers

    def stopped(self) -> bool:
        """Whether the job was aborted."""
        return bool(self._context.is_aborted())

    def close(self) -> None:
        """Nothing to let go of: connections and processes are the job's."""


def _reason(error: CollabCallError) -> Failure:
    """NVFlare's failure as ours: only its own timeout is a timeout, a site's TimeoutError arrives as text."""
    return TIMEOUT if isinstance(error.cause, TimeoutError) else Failure(Code.RAISED, str(error.cause))


class ServerRole:
    """Runs the round loop that the server's own settings name."""

    @collab.main
    def run(self) -> None:
        """The whole job; an exception fails it. Its submitter can download what it leaves in the job's own folder."""
        folder, own = _folder(), Path(collab.workspace.get_run_dir(collab.fl_ctx.get_job_id()))
        write_log(folder)
        read_entry(folder)(CarriedEngine(Collab()), folder)
        copy_result(folder, own / RESULT)


class SiteRole:
    """Answers requests with what the site's own settings name."""

    def __init__(self) -> None:
        self._answer: Callable[[bytes], bytes] | None = None

    @collab.init
    def load(self) -> None:
        """Load the site before the first round."""
        folder = _folder()
        write_log(folder)
        log.info("a run begins, which waits for requests of the server")
        self._answer = make_answerer(lambda: read_entry(folder)(folder))

    @collab.publish
    def work(self, message: bytes) -> bytes:
        """The answer to one request."""
        assert self._answer is not None
        return self._answer(message)


def _folder() -> Path:
    return Path(collab.workspace.get_root_dir()).resolve().parent

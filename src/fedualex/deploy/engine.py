"""The seam between the round loop and whatever carries its messages."""

import queue
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from .. import __version__
from ..runtime.status import Code, Failure

Arrays = dict[str, NDArray[Any]]
"""Named arrays of plain numbers: all that ever travels."""


TIMEOUT = Failure(Code.TIMEOUT, "timeout")
STOPPED = Failure(Code.STOPPED, "stopped")
NO_ANSWER = Failure(Code.SILENT, "no answer")
NOT_CONNECTED = Failure(Code.UNREACHABLE, "not connected")

BACK = "answers"
"""The code of an event: a site that had failed has answered."""


def event(
    code: str, party: str, task: str, number: int, text: str = "", answered: float | None = None
) -> dict[str, Any]:
    """What a line of the log is about, as data: `events.jsonl` of a server keeps it (`party.write_log`).

    code: a `Code`, or another word of an event. number: of the round or the survey that `task` is. answered: when the
    party answered last, in seconds since 1970; None if it has not yet.
    """
    words = {"code": str(code), "party": party, "task": task, "number": number, "text": text}
    return {"event": {**words, "answered": answered}}


@dataclass(frozen=True)
class Request:
    """What the server sends to its sites."""

    task: str
    """What a site is asked for. Its name means something to the loop and to the site, and nothing to an engine."""
    round: int
    run_id: str
    """Decides whose request this is: a reply to another run, or to an earlier round, is dropped."""
    arrays: Arrays
    """What the site needs for its answer, by name."""
    nonce: str = ""
    """A word that is new in every attempt, for secure sums; empty if numbers are asked for as they are."""
    roster: str = ""
    """The digest of the server's list of keys, for secure sums."""
    version: str = __version__
    """That of fedualex at the server."""


@dataclass(frozen=True)
class Reply:
    """What came back from one site: exactly one of `arrays` and `error`."""

    site: str
    """Who sent it, by the word of the engine; what a message itself says of its sender does not count."""
    round: int
    """That of the request that is answered, as is the id of the run."""
    run_id: str
    arrays: Arrays | None = None
    error: str | None = None
    code: str = ""
    """The error's `Code`."""

    @property
    def failure(self) -> Failure | None:
        """Why there are no arrays; a code that this version does not know is a malformed reply."""
        if self.arrays is not None and self.error is None:
            return None
        code = Code(self.code) if self.code in list(Code) else Code.MALFORMED
        return Failure(code, self.error or "neither arrays nor an error")


def failure_reply(site: str, round_index: int, run_id: str, why: Failure) -> Reply:
    """The reply of a site that has no answer."""
    return Reply(site, round_index, run_id, error=why.text, code=why.code)


class RefusedError(RuntimeError):
    """A site's own decision not to answer. Its text is told to the server, so it must not quote data.

    code: what the decision is about; whether it is final follows from that (`Failure.is_final`).
    """

    def __init__(self, text: str, code: Code = Code.REFUSED):
        super().__init__(text)
        self.code = code


@runtime_checkable
class Carrier(Protocol):
    """What an engine is to us: it carries bytes to sites and bytes back, and knows nothing about them."""

    def sites(self) -> list[str]:
        """The authenticated names of the sites that can be reached; may change between exchanges."""
        ...

    def carry(self, message: bytes, sites: Sequence[str], timeout: float) -> dict[str, bytes | Failure]:
        """For each of these sites its answer, as bytes, or why there is none: `TIMEOUT` if it was silent."""
        ...

    def stopped(self) -> bool:
        """Whether the engine was asked to end the run."""
        ...

    def close(self) -> None:
        """Let go of processes, threads and connections."""
        ...


@runtime_checkable
class Engine(Protocol):
    """Requests to sites and their replies. Whom to trust and what to do with it is decided above."""

    def sites(self) -> list[str]:
        """The authenticated names of the sites that can be reached; may change between rounds."""
        ...

    def broadcast(self, request: Request, sites: Sequence[str], timeout: float) -> list[Reply]:
        """At most one reply of each of these sites; a site that stays silent gives `TIMEOUT`."""
        ...

    def stopped(self) -> bool:
        """Whether the engine was asked to end the run."""
        ...

    def close(self) -> None:
        """Let go of processes, threads and connections."""
        ...


# Where the answers of sites arrive, from as many threads as there are sites.


POLL_SECONDS = 0.2
"""How often whoever waits looks whether the run was stopped."""

Inbox = queue.SimpleQueue[tuple[str, bytes | Failure]]
"""A site's name and its answer, or why there is none."""


def collect(
    inbox: Inbox, sites: Iterable[str], deadline: float, stopped: Callable[[], bool] = lambda: False
) -> dict[str, bytes | Failure]:
    """The first answer of each of these sites; `TIMEOUT` of those who are silent until the deadline of the monotonic
    clock, and `STOPPED` if the run was stopped before."""
    answers: dict[str, bytes | Failure] = {}
    waiting = set(sites)
    while waiting and (left := deadline - time.monotonic()) > 0 and not stopped():
        try:
            site, answer = inbox.get(timeout=min(left, POLL_SECONDS))
        except queue.Empty:
            continue
        answers[site] = answer
        waiting.discard(site)
    return answers | dict.fromkeys(waiting, STOPPED if stopped() else TIMEOUT)

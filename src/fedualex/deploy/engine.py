"""The seam between the round loop and whatever carries its messages."""

import queue
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
"""Named arrays of plain numbers: all that ever travels."""


@dataclass(frozen=True)
class Request:
    """What the server sends to its sites.

    task: what a site is asked for. round, run_id: which round of which run. arrays: what it needs for that, by name.
    """

    task: str
    """What a site is asked for. Its name means something to the loop and to the site, and nothing to an engine."""
    round: int
    run_id: str
    """Decides whose request this is: a reply to another run, or to an earlier round, is dropped."""
    arrays: Arrays
    nonce: str = ""
    """Of secure sums: a word that is new in every attempt. Empty if numbers are asked for as they are."""
    roster: str = ""
    """Of secure sums: the digest of the list of keys that the server has."""


@dataclass(frozen=True)
class Reply:
    """What came back from one site: exactly one of `arrays` and `error`.

    round, run_id: those of the request that is answered. site: who answers, by the word of the engine.
    """

    site: str
    """Who sent it, by the word of the engine; what a message itself says of its sender does not count."""
    round: int
    run_id: str
    arrays: Arrays | None = None
    error: str | None = None


REFUSED = "refused: "
"""How the server is told a site's decision not to answer."""
NOT_FINITE, TOO_LARGE = "is not finite", "which secure sums cannot hold"
"""How a site ends its refusal to put masks on numbers that the server could not see under them."""
ANSWERED = "this site has answered under this nonce"
"""How it ends its refusal to put masks on two answers of one attempt."""


def is_final(reason: str) -> bool:
    """Whether a site that did not answer for this reason would not answer the same question again.

    What is about the numbers or the nonce of one attempt is not final.
    """
    return reason.startswith(REFUSED) and not reason.endswith((NOT_FINITE, TOO_LARGE, ANSWERED))


class RefusedError(RuntimeError):
    """A site's own decision not to answer. Its text is told to the server, so it must not quote data."""


@runtime_checkable
class Carrier(Protocol):
    """What an engine is to us: it carries bytes to sites and bytes back, and knows nothing about them."""

    def sites(self) -> list[str]:
        """The authenticated names of the sites that can be reached; may change between exchanges."""
        ...

    def carry(self, message: bytes, sites: Sequence[str], timeout: float) -> dict[str, bytes | str]:
        """For each of these sites its answer, as bytes, or why there is none, in words: "timeout" if it was silent."""
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
        """At most one reply of each of these sites; a site that stays silent gives the error "timeout"."""
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

Inbox = queue.SimpleQueue[tuple[str, bytes | str]]
"""A site's name and its answer, or in words why there is none."""


def collect(
    inbox: Inbox, sites: Iterable[str], deadline: float, stopped: Callable[[], bool] = lambda: False
) -> dict[str, bytes | str]:
    """The first answer of each of these sites; "timeout" of those who are silent until the deadline of the monotonic
    clock, and "stopped" if the run was stopped before."""
    answers: dict[str, bytes | str] = {}
    waiting = set(sites)
    while waiting and (left := deadline - time.monotonic()) > 0 and not stopped():
        try:
            site, answer = inbox.get(timeout=min(left, POLL_SECONDS))
        except queue.Empty:
            continue
        answers[site] = answer
        waiting.discard(site)
    return answers | dict.fromkeys(waiting, "stopped" if stopped() else "timeout")

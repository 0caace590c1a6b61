"""Both ends of what engines carry: requests out of the loop and replies into it, and a site's answer to a request."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .encoding import MessageError, reply_from_bytes, reply_to_bytes, request_from_bytes, request_to_bytes
from .engine import REFUSED, Arrays, Carrier, RefusedError, Reply, Request

log = logging.getLogger(__name__)

Work = Callable[[Request], Arrays]
"""What a site does with a request."""
LONGEST_REASON = 300


class CarriedEngine:
    """The loop's engine above anything that carries bytes. Sites are not trusted: what cannot be read is an error."""

    def __init__(self, carrier: Carrier):
        self.carrier = carrier

    def sites(self) -> list[str]:
        """The sites that can be reached."""
        return self.carrier.sites()

    def broadcast(self, request: Request, sites: Sequence[str], timeout: float) -> list[Reply]:
        """One reply of each site, in their order."""
        answers = self.carrier.carry(request_to_bytes(request), sites, timeout)
        return [_reply(site, answers.get(site, "no answer"), request) for site in sites]

    def stopped(self) -> bool:
        """Whether the engine was asked to end the run."""
        return self.carrier.stopped()

    def close(self) -> None:
        """Let go of what carries."""
        self.carrier.close()


def answer(work: Work, message: bytes) -> bytes:
    """A site's answer to a message: what its work gives, or an error.

    Of an exception its kind alone leaves the site, for its text may quote data; the text goes to the site's own log. A
    `RefusedError` is a decision, and its reason is told.
    """
    try:
        request = request_from_bytes(message)
    except MessageError as error:
        log.warning("a message is refused: %s", error)
        return reply_to_bytes(Reply("", 0, "", error=f"malformed request: {error}"))
    try:
        arrays = work(request)
        return reply_to_bytes(Reply("", request.round, request.run_id, arrays))
    except RefusedError as error:
        log.warning("%s %d is refused: %s", request.task, request.round, error)
        reason = f"{REFUSED}{error}"
    except Exception as error:
        log.exception("%s %d failed", request.task, request.round)
        reason = f"the site raised {type(error).__name__} (its log says more)"
    return reply_to_bytes(Reply("", request.round, request.run_id, error=reason))


def answering(load: Callable[[], Any]) -> Callable[[bytes], bytes]:
    """The answers of a site, which is loaded now. One that cannot be loaded says so whenever it is asked."""
    try:
        work: Work = load().work
    except Exception as error:
        log.exception("the site cannot be loaded")
        reason = f"the site cannot be loaded: {type(error).__name__} (its log says more)"

        def work(request: Request) -> Arrays:
            raise RefusedError(reason)

    return lambda message: answer(work, message)


def _reply(site: str, found: bytes | str, request: Request) -> Reply:
    if isinstance(found, str):
        return Reply(site, request.round, request.run_id, error=one_line(found))
    try:
        reply = reply_from_bytes(found)
    except MessageError as error:
        return Reply(site, request.round, request.run_id, error=f"malformed reply: {error}")
    return replace(reply, site=site, error=None if reply.error is None else one_line(reply.error))


def one_line(words: str) -> str:
    """On one line and not too long, whatever a site sends: it goes to the log."""
    return " ".join(words.split())[:LONGEST_REASON]

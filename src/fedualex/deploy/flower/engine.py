"""Flower's message board, which carries messages of the round loop."""

import queue
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from flwr.app import Message, MessageType
from flwr.serverapp import Grid

from . import wire

POLL_SECONDS = 0.1
PULLS_A_SECOND = 50
"""Many sites are asked for less often each."""

CODES = {
    0: "unknown error",
    1: "the site's app could not be loaded",
    2: "the site raised",
    3: "the request or its reply was lost",
    4: "the reply was lost",
    5: "the site is gone",
    6: "refused by a mod",
    7: "the site refused the app",
    8: "the site's process crashed",
}
"""Flower's error codes in words."""


Inbox = queue.SimpleQueue[tuple[str, bytes | str | Exception]]


@dataclass(frozen=True)
class _Sent:
    site: str
    node: int
    ticket: str


class Board:
    """Lives in the ServerApp's process. A site's name follows from its registered public key, from nothing it says."""

    def __init__(self, grid: Grid, names: Mapping[bytes, str], stop_file: Path) -> None:
        """`names` maps public keys, as PEM, to sites; the run is asked to end when `stop_file` appears."""
        self._grid = grid
        self._names = dict(names)
        self._stop_file = stop_file

    def sites(self) -> list[str]:
        """The sites whose node is connected now. Flower notices a vanished node after about a minute."""
        return sorted(self._nodes())

    def carry(self, message: bytes, sites: Sequence[str], timeout: float) -> dict[str, bytes | str]:
        """One answer of each site. A reply to anything but this very message is never looked at."""
        nodes = self._nodes()
        answers: dict[str, bytes | str] = {site: "not connected" for site in sites if site not in nodes}
        sent = [_Sent(site, nodes[site], secrets.token_hex(16)) for site in sites if site in nodes]
        # A request expires with its round, so that a slow site does not work off old ones.
        messages = [Message(wire.pack(message, to.ticket), to.node, MessageType.TRAIN, ttl=timeout) for to in sent]
        deadline = time.monotonic() + timeout
        numbers = list(self._grid.push_messages(messages)) if messages else []
        if len(numbers) != len(sent):
            raise RuntimeError("Flower's SuperLink took none of the messages of this round; its log says why")
        pushed = list(zip(numbers, sent, strict=True))
        waiting = {number: to for number, to in pushed if number}
        answers |= {to.site: "not sent" for number, to in pushed if not number}
        silent = {to.site for to in waiting.values()}
        inbox: Inbox = queue.SimpleQueue()
        pause = max(POLL_SECONDS, len(sent) / PULLS_A_SECOND)
        for number, to in waiting.items():
            # A thread each: a site that dies while it replies blocks Flower's pull of its reply for minutes.
            arguments = (number, to, deadline, pause, inbox)
            threading.Thread(target=self._pull, args=arguments, daemon=True).start()
        while silent and (left := deadline - time.monotonic()) > 0 and not self.stopped():
            try:
                site, found = inbox.get(timeout=min(left, POLL_SECONDS))
            except queue.Empty:
                continue
            if isinstance(found, Exception):
                raise found
            answers[site] = found
            silent.discard(site)
        silence = "stopped" if silent and self.stopped() else "timeout"
        return answers | dict.fromkeys(silent, silence)

    def _pull(self, number: str, to: _Sent, deadline: float, pause: float, inbox: Inbox) -> None:
        """Look for the reply to one message until it is there or the time is up."""
        try:
            while time.monotonic() < deadline and not self.stopped():
                for message in self._grid.pull_messages([number]):
                    if message.metadata.reply_to_message_id == number:
                        inbox.put((to.site, _read(message, to)))
                        return
                time.sleep(pause)
        except (httpx.HTTPError, OSError) as error:  # the SuperLink is not there: the loop must see it
            inbox.put((to.site, error))
        except Exception as error:  # a reply that cannot be read is its site's fault alone
            inbox.put((to.site, f"malformed reply: {type(error).__name__}"))

    def stopped(self) -> bool:
        """Whether `stop` was asked for."""
        return self._stop_file.exists()

    def close(self) -> None:
        """Nothing: Flower closes the grid when the ServerApp ends."""

    def _nodes(self) -> dict[str, int]:
        """Connected nodes by the names of their keys; a node with another key does not exist for us."""
        found = ((self._names.get(node.public_key), node.node_id) for node in self._grid.get_nodes())
        return {name: number for name, number in found if name is not None}


def _read(message: Message, to: _Sent) -> bytes | str:
    if message.has_error():  # made by the SuperLink or by the site's SuperNode, and so without a ticket
        code = message.error.code
        reason = f": {message.error.reason}" if message.error.reason else ""
        return f"{CODES.get(code, f'error {code}')}{reason}"
    if message.metadata.src_node_id != to.node:
        return "reply from another node"
    answer, ticket = wire.unpack(message.content)
    return answer if ticket == to.ticket else "reply to another request"

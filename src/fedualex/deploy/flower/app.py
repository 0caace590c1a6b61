"""The server's Flower app, on Flower's public interfaces alone. It holds no problem: parties read their own folders.

`fedualex.deploy.flower.app:server` and `fedualex.flower_client:client` can be named by any Flower app's pyproject.toml.
The server's folder is given as `folder` in the run's configuration, a site's as `folder` in the node's
(`flower-supernode --node-config 'folder="/path/of/the/site"'`). In Flower's simulation nodes have a number instead, and
node i is the i-th site of the deployment whose server's folder the run names.
"""

import logging
import os
import queue
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

from ...flower_client import FOLDER, RECORD
from ...runtime.status import Code, Failure
from ...storage import Json, write_json
from ..engine import NOT_CONNECTED, Inbox, collect
from ..party import read_entry, write_log
from ..wire import CarriedEngine
from .keys import names_by_key
from .layout import OUTCOME, stop_file

# Messages as Flower's records: bytes that it does not look into, and a ticket.


def pack(message: bytes, ticket: str) -> RecordDict:
    """A message to one site, or its answer. A request's ticket is known to its addressee alone, who repeats it."""
    return RecordDict({RECORD: ConfigRecord({"message": message, "ticket": ticket})})


def unpack(content: RecordDict) -> tuple[bytes, str]:
    """A message and its ticket."""
    record = content.config_records[RECORD]
    message, ticket = record["message"], record["ticket"]
    if not isinstance(message, bytes) or not isinstance(ticket, str):
        raise TypeError("a record of fedualex holds bytes and a ticket")
    return message, ticket


# Flower's message board, which carries messages of the round loop.


log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
PULLS_A_SECOND = 20
"""Many sites are asked for less often each: the SuperLink is one process with one database."""
NAME_SECONDS = 120.0

NOT_SENT = Failure(Code.UNREACHABLE, "not sent: the SuperLink's log says why")
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


@dataclass(frozen=True)
class _Sent:
    site: str
    node: int
    ticket: str


class Board:
    """Lives in the ServerApp's process.

    keys: the folder with sites' public keys. Where it is there, a site's name follows from its node's registered key
    and from nothing that it says; without it, as in a simulation, nodes are asked who they are. stop_file: the run is
    asked to end when it appears.
    """

    def __init__(self, grid: Grid, keys: Path, stop_file: Path) -> None:
        self._grid, self._stop_file = grid, stop_file
        self._keys = names_by_key(keys) if keys.exists() else None
        self._said: dict[int, str] = {}

    def sites(self) -> list[str]:
        """The sites whose node is connected now. Flower notices a vanished node after about a minute."""
        return sorted(self._nodes())

    def carry(self, message: bytes, sites: Sequence[str], timeout: float) -> dict[str, bytes | Failure]:
        """One answer of each site. A reply to anything but this very message is never looked at."""
        nodes, deadline = self._nodes(), time.monotonic() + timeout
        answers: dict[str, bytes | Failure] = {site: NOT_CONNECTED for site in sites if site not in nodes}
        sent = [_Sent(site, nodes[site], secrets.token_hex(16)) for site in sites if site in nodes]
        # A request expires with its round, so that a slow site does not work off old ones.
        messages = [Message(pack(message, to.ticket), to.node, MessageType.TRAIN, ttl=timeout) for to in sent]
        pushed = list(zip(self._push(messages), sent, strict=True))
        answers |= {to.site: NOT_SENT for number, to in pushed if not number}
        waiting = {to.site for number, to in pushed if number}
        inbox: Inbox = queue.SimpleQueue()
        pause = max(POLL_SECONDS, len(sent) / PULLS_A_SECOND)
        for number, to in pushed:
            if number:  # a thread each: a site that dies while it replies blocks Flower's pull for minutes
                arguments = (number, to, deadline, pause, inbox)
                threading.Thread(target=self._pull, args=arguments, daemon=True).start()
        return answers | collect(inbox, waiting, deadline, self.stopped)

    def stopped(self) -> bool:
        """Whether `stop` was asked for."""
        return self._stop_file.exists()

    def close(self) -> None:
        """Nothing: Flower closes the grid when the ServerApp ends."""

    def _push(self, messages: list[Message]) -> list[str]:
        """Flower's numbers of the messages, empty for those that it did not take: it costs a round, not the run."""
        try:
            numbers = list(self._grid.push_messages(messages)) if messages else []
        except Exception as error:  # an overloaded or restarted SuperLink
            log.warning("the SuperLink takes no messages: %s", type(error).__name__)
            numbers = []
        return numbers if len(numbers) == len(messages) else [""] * len(messages)

    def _pull(self, number: str, to: _Sent, deadline: float, pause: float, inbox: Inbox) -> None:
        """Look for the reply to one message until it is there or the time is up."""
        while time.monotonic() < deadline and not self.stopped():
            try:
                replies = [m for m in self._grid.pull_messages([number]) if m.metadata.reply_to_message_id == number]
            except Exception as error:  # an overloaded or restarted SuperLink: it may have the reply later
                log.warning("the SuperLink does not give the reply of %s: %s", to.site, type(error).__name__)
                replies = []
            if replies:
                inbox.put((to.site, _read(replies[0], to)))
                return
            time.sleep(pause)

    def _nodes(self) -> dict[str, int]:
        """Connected nodes by their sites' names; a node with an unknown key does not exist for us."""
        try:
            if self._keys is not None:
                known = self._keys
                return {known[n.public_key]: n.node_id for n in self._grid.get_nodes() if n.public_key in known}
            nodes = list(self._grid.get_node_ids())
            if unknown := [node for node in nodes if node not in self._said]:
                self._ask_names(unknown)
            return {self._said[node]: node for node in nodes if node in self._said}
        except Exception as error:  # as above: nobody can be reached now
            log.warning("the SuperLink does not list its nodes: %s", type(error).__name__)
            return {}

    def _ask_names(self, nodes: list[int]) -> None:
        questions = [Message(RecordDict(), node, MessageType.QUERY, ttl=NAME_SECONDS) for node in nodes]
        for reply in self._grid.send_and_receive(questions, timeout=NAME_SECONDS):
            if not reply.has_error():
                self._said[reply.metadata.src_node_id] = str(reply.content.config_records[RECORD]["name"])


def _read(message: Message, to: _Sent) -> bytes | Failure:
    if message.has_error():  # made by the SuperLink or by the site's SuperNode, and so without a ticket
        code = message.error.code
        reason = f": {message.error.reason}" if message.error.reason else ""
        return Failure(Code.RAISED, f"{CODES.get(code, f'error {code}')}{reason}")
    if message.metadata.src_node_id != to.node:
        return Failure(Code.MALFORMED, "reply from another node")
    try:
        answer, ticket = unpack(message.content)
    except Exception as error:  # what comes from outside can be wrong in any way
        return Failure(Code.MALFORMED, f"malformed reply: {type(error).__name__}")
    return answer if ticket == to.ticket else Failure(Code.MALFORMED, "reply to another request")


server = ServerApp()


@server.main()
def serve(grid: Grid, context: Context) -> None:
    """Run the round loop, and leave word of how it ended: Flower's own exit codes do not tell."""
    home = Path(str(context.run_config[FOLDER]))
    write_log(home)
    run = str(context.run_id)
    outcome: Json = {"run": run, "pid": os.getpid()}
    write_json(home / OUTCOME, {**outcome, "phase": "running", "error": None})
    try:
        read_entry(home)(CarriedEngine(Board(grid, home / "keys", stop_file(home, run))), home)
    except BaseException as error:
        write_json(home / OUTCOME, {**outcome, "phase": "failed", "error": f"{type(error).__name__}: {error}"})
        raise
    phase = "stopped" if stop_file(home, run).exists() else "finished"
    write_json(home / OUTCOME, {**outcome, "phase": phase, "error": None})

"""The Flower app of a site: `fedualex.flower_client:client`. Flower starts a process for each message.

So what takes seconds to import and to load, jax and the site's table, stays in a process of the site that lives as long
as its SuperNode (`fedualex.deploy.flower.worker`), and this module only hands messages over. Where there is none, as in
a federation of others or in a simulation, the site is loaded here.
"""

import json
import socket
from functools import cache
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

RECORD = "fedualex"
"""The name of our record in a message of Flower."""
FOLDER, PARTITION = "folder", "partition-id"
WORKER = "worker.json"
"""In a site's folder: where its worker listens on loopback, and the word by which it knows who may ask."""
CONNECT_SECONDS = 10.0

client = ClientApp()


@client.train()
def work(message: Message, context: Context) -> Message:
    """Answer one request."""
    record = message.content.config_records[RECORD]
    folder = site_folder(context)
    request: Any = record["message"]
    answer = ask_worker(folder, str(context.run_id), request)
    answer = _answer_here(folder, request) if answer is None else answer
    content = RecordDict({RECORD: ConfigRecord({"message": answer, "ticket": record["ticket"]})})
    return Message(content, reply_to=message)


@client.query()
def name(message: Message, context: Context) -> Message:
    """Say which site this is, where nodes have no keys by which the server would know."""
    settings = json.loads((site_folder(context) / "engine.json").read_text())
    return Message(RecordDict({RECORD: ConfigRecord({"name": settings["name"]})}), reply_to=message)


def site_folder(context: Context) -> Path:
    """The folder of the site that this node is."""
    if FOLDER in context.node_config:
        return Path(str(context.node_config[FOLDER]))
    if PARTITION not in context.node_config:
        raise ValueError("--node-config must have folder, the site's own folder")
    from .deploy.party import Layout

    layout = Layout(Path(str(context.run_config[FOLDER])).parent)
    return layout.site(layout.sites()[int(context.node_config[PARTITION])])


def ask_worker(folder: Path, run: str, request: bytes) -> bytes | None:
    """The answer of the site's worker; None if there is none, or it ended at its work."""
    try:
        known = json.loads((folder / WORKER).read_text())
        with socket.create_connection(("127.0.0.1", known["port"]), CONNECT_SECONDS) as link:
            link.settimeout(None)  # it may work for long; Flower forgets a request that took too long
            head = json.dumps({"word": known["word"], "run": run}).encode()
            link.sendall(len(head).to_bytes(4, "big") + head + request)
            link.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: link.recv(1 << 20), b""))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return answer or None


def _answer_here(folder: Path, request: bytes) -> bytes:
    answer: bytes = _answerer_of(folder)(request)
    return answer


@cache
def _answerer_of(folder: Path) -> Any:
    """The site of a folder, loaded once in the life of this process."""
    from .deploy.party import read_entry, write_log
    from .deploy.wire import make_answerer

    write_log(folder)
    return make_answerer(lambda: read_entry(folder)(folder))

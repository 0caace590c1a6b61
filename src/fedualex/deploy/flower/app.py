"""The two Flower apps, on Flower's public interfaces alone. They hold no problem: parties read their own folders.

`fedualex.deploy.flower.app:server` and `:client` can be named by any Flower app's pyproject.toml. The server's folder
is given as `folder` in the run's configuration, a site's as `folder` in the node's (`flower-supernode --node-config
'folder="/path/of/the/site"'`). In Flower's simulation nodes have a number instead, and node i is the i-th site of the
deployment whose server's folder the run names.
"""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from ...storage import write_json
from ..entry import read_entry, read_settings
from ..layout import Layout
from ..logs import write_log
from ..messages import CarriedEngine, answering
from . import wire
from .carrier import Board
from .layout import OUTCOME, stop_file

FOLDER, PARTITION = "folder", "partition-id"

server = ServerApp()
client = ClientApp()


@server.main()
def serve(grid: Grid, context: Context) -> None:
    """Run the round loop, and leave word of how it ended: Flower's own exit codes do not tell."""
    home = Path(str(context.run_config[FOLDER]))
    write_log(home)
    run = str(context.run_id)
    outcome: dict[str, Any] = {"run": run, "pid": os.getpid()}
    write_json(home / OUTCOME, {**outcome, "phase": "running", "error": None})
    try:
        read_entry(home)(CarriedEngine(Board(grid, home / "keys", stop_file(home, run))), home)
    except BaseException as error:
        write_json(home / OUTCOME, {**outcome, "phase": "failed", "error": f"{type(error).__name__}: {error}"})
        raise
    write_json(home / OUTCOME, {**outcome, "phase": "finished", "error": None})


@client.train()
def work(message: Message, context: Context) -> Message:
    """Answer one request."""
    request, ticket = wire.unpack(message.content)
    return Message(wire.pack(_answering(site_folder(context))(request), ticket), reply_to=message)


@client.query()
def name(message: Message, context: Context) -> Message:
    """Say which site this is, where nodes have no keys by which the server would know."""
    return Message(
        RecordDict({wire.RECORD: ConfigRecord({"name": read_settings(site_folder(context))["name"]})}), reply_to=message
    )


def site_folder(context: Context) -> Path:
    """The folder of the site that this node is."""
    if FOLDER in context.node_config:
        return Path(str(context.node_config[FOLDER]))
    if PARTITION not in context.node_config:
        raise ValueError("--node-config must have folder, the site's own folder")
    layout = Layout(Path(str(context.run_config[FOLDER])).parent)
    return layout.site(layout.sites()[int(context.node_config[PARTITION])])


@functools.cache
def _answering(folder: Path) -> Callable[[bytes], bytes]:
    """The site of a folder, loaded once in the life of this process, which in a deployment is one message long."""
    write_log(folder)
    return answering(lambda: read_entry(folder)(folder))

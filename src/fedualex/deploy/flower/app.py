"""The two Flower apps. What they run, and in which folder, comes from the machine they run on, never from a message."""

import functools
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from ...storage import write_json
from . import wire
from .engine import FlowerEngine
from .keys import names_by_key
from .layout import ENTRY_VARIABLE, FOLDER_VARIABLE, OUTCOME, STOP

server = ServerApp()
client = ClientApp()


@server.main()
def serve(grid: Grid, context: Context) -> None:
    """Run the round loop, and leave word of how it ended: Flower's own exit codes do not tell."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    home = folder / "server"
    engine = FlowerEngine(grid, names_by_key(home / "keys"), home / STOP)
    outcome: dict[str, Any] = {"run": str(context.run_id), "pid": os.getpid()}
    write_json(home / OUTCOME, {**outcome, "phase": "running", "error": None})
    try:
        entry(os.environ[ENTRY_VARIABLE])(engine, home)
    except BaseException as error:
        write_json(home / OUTCOME, {**outcome, "phase": "failed", "error": f"{type(error).__name__}: {error}"})
        raise
    finally:
        engine.close()
    write_json(home / OUTCOME, {**outcome, "phase": "finished", "error": None})


@client.train()
def work(message: Message, context: Context) -> Message:
    """Answer one request."""
    request, ticket = wire.unpack_request(message.content)
    arrays, metrics = _site(os.environ[ENTRY_VARIABLE], Path(os.environ[FOLDER_VARIABLE])).work(request)
    return Message(wire.pack_reply(request, ticket, arrays, metrics), reply_to=message)


@functools.cache
def _site(reference: str, folder: Path) -> Any:
    """The site of this machine, loaded once in the life of its process."""
    return entry(reference)(folder)


def entry(reference: str) -> Callable[..., Any]:
    """The function that "module:name" or "module:Class.method" stands for."""
    module, separator, names = reference.partition(":")
    if not (module and separator and names):
        raise ValueError(f"an entry point must read module:function, got {reference!r}")
    found: Any = import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    return found

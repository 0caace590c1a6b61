"""The two Flower apps. What they run, and in which folder, comes from the machine they run on, never from a message."""

import functools
import os
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from ...storage import write_json
from ..entry import resolve
from ..messages import CarriedEngine, answer
from . import wire
from .engine import Board
from .keys import names_by_key
from .layout import ENTRY_VARIABLE, FOLDER_VARIABLE, OUTCOME, stop_file

server = ServerApp()
client = ClientApp()


@server.main()
def serve(grid: Grid, context: Context) -> None:
    """Run the round loop, and leave word of how it ended: Flower's own exit codes do not tell."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    home = folder / "server"
    run = str(context.run_id)
    engine = CarriedEngine(Board(grid, names_by_key(home / "keys"), stop_file(home, run)))
    outcome: dict[str, Any] = {"run": run, "pid": os.getpid()}
    write_json(home / OUTCOME, {**outcome, "phase": "running", "error": None})
    try:
        resolve(os.environ[ENTRY_VARIABLE])(engine, home)
    except BaseException as error:
        write_json(home / OUTCOME, {**outcome, "phase": "failed", "error": f"{type(error).__name__}: {error}"})
        raise
    finally:
        engine.close()
    write_json(home / OUTCOME, {**outcome, "phase": "finished", "error": None})


@client.train()
def work(message: Message, context: Context) -> Message:
    """Answer one request."""
    request, ticket = wire.unpack(message.content)
    site = _site(os.environ[ENTRY_VARIABLE], Path(os.environ[FOLDER_VARIABLE]))
    return Message(wire.pack(answer(site.work, request), ticket), reply_to=message)


@functools.cache
def _site(reference: str, folder: Path) -> Any:
    """The site of this machine, loaded once in the life of its process."""
    return resolve(reference)(folder)

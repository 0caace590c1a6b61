"""`python -m fedualex.deploy.flower.register FOLDER`: the sites' public keys into the SuperLink, each once."""

import json
import socket
import sys
import time
from pathlib import Path

from ...storage import write_json
from ..layout import Layout
from .commands import FlowerError, flwr
from .layout import REGISTERED, port, site_names

WAIT_SECONDS = 180


def register(folder: Path) -> dict[str, str]:
    """Register every key of `folder/server/keys` that is not registered yet; Flower's node numbers by site."""
    file = Layout(folder).server / REGISTERED
    nodes: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
    wait_for_port(folder)
    for name in site_names(folder):
        if name not in nodes:
            nodes[name] = _register(folder, name)
            write_json(file, nodes)
    return nodes


def wait_for_port(folder: Path) -> None:
    """Wait until the SuperLink accepts connections."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not listening(folder):
        if time.monotonic() > deadline:
            raise FlowerError(f"no SuperLink at port {port(folder)} of this machine after {WAIT_SECONDS} seconds")
        time.sleep(0.5)


def listening(folder: Path) -> bool:
    """Whether the SuperLink accepts connections."""
    try:
        socket.create_connection(("127.0.0.1", port(folder)), timeout=5).close()
    except OSError:
        return False
    return True


def _register(folder: Path, name: str) -> str:
    try:
        return str(flwr(folder, "supernode", "register", "--name", name, f"keys/{name}.pub")["node-id"])
    except FlowerError as error:
        if "in use" in str(error):  # registered before, and the note of it lost
            return "unknown"
        raise


if __name__ == "__main__":
    register(Path(sys.argv[1]))

"""`python -m fedualex.deploy.flower.register FOLDER`: the sites' public keys into the SuperLink, each once."""

import json
import socket
import sys
import time
from pathlib import Path

from ...storage import write_json
from .commands import FlowerError, flwr
from .layout import REGISTERED, port, site_names

WAIT_SECONDS = 180


def register(folder: Path) -> dict[str, str]:
    """Register every key of `folder/server/keys` that is not registered yet; Flower's node numbers by site."""
    file = folder / "server" / REGISTERED
    nodes: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
    wait_for_port(folder)
    for name in site_names(folder):
        if name not in nodes:
            nodes[name] = _register(folder, name)
            write_json(file, nodes)
    return nodes


def wait_for_port(folder: Path) -> None:
    """Wait until the SuperLink accepts connections."""
    address = ("127.0.0.1", port(folder))
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            socket.create_connection(address, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise FlowerError(f"no SuperLink at {address[0]}:{address[1]} after {WAIT_SECONDS} seconds") from None
            time.sleep(0.5)


def _register(folder: Path, name: str) -> str:
    try:
        return str(flwr(folder, "supernode", "register", "--name", name, f"keys/{name}.pub")["node-id"])
    except FlowerError as error:
        if "in use" in str(error):  # registered before, and the note of it lost
            return "unknown"
        raise


if __name__ == "__main__":
    register(Path(sys.argv[1]))

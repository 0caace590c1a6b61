"""Server and sites of a deployment on this machine, for a trial: the same start scripts, on loopback."""

import json
import socket
import sys
import time
from pathlib import Path

from ...storage import write_json
from .. import processes
from ..party import SERVER, Layout
from .layout import PORT_VARIABLE, REGISTERED, environment, port, site_names
from .runs import FlowerError, flwr

# `python -m fedualex.deploy.flower.trial FOLDER`: the sites' public keys into the SuperLink, each once.


WAIT_SECONDS = 180


def register(folder: Path) -> dict[str, str]:
    """Register every key of `folder/server/keys` that is not registered yet; Flower's node numbers by site.

    The node of a site's former key is no longer admitted.
    """
    nodes = _nodes(folder)
    for name in site_names(folder):
        key = _key(folder, name)
        if (former := nodes.get(name)) is not None and former["key"] == key:
            continue
        wait_for_port(folder)
        if former is not None:
            flwr(folder, "supernode", "unregister", former["node"])
        nodes[name] = {"node": _register(folder, name), "key": key}
        write_json(Layout(folder).server / REGISTERED, nodes)
    return {name: node["node"] for name, node in nodes.items()}


def _nodes(folder: Path) -> dict[str, dict[str, str]]:
    """Of each site whose key is registered, Flower's node and the key."""
    file = Layout(folder).server / REGISTERED
    return json.loads(file.read_text()) if file.exists() else {}


def _key(folder: Path, name: str) -> str:
    return (Layout(folder).server / "keys" / f"{name}.pub").read_text()


def wait_for_port(folder: Path) -> None:
    """Wait until the SuperLink accepts connections."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_listening(folder):
        if time.monotonic() > deadline:
            raise FlowerError(f"no SuperLink at port {port(folder)} of this machine after {WAIT_SECONDS} seconds")
        time.sleep(0.5)


def is_listening(folder: Path) -> bool:
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


READY_SECONDS, LEAVE_SECONDS = 300.0, 15.0


def up(folder: Path) -> list[str]:
    """Start the SuperLink and every site's SuperNode, and return when all are connected; on failure end them all."""
    names = site_names(folder)
    try:
        start_server(folder)
        _wait_until_forgotten(folder, sum(processes.alive_parties(folder).get(name, False) for name in names))
        for name in names:
            start_site(folder, name)
        wait_until_connected(folder, names)
    except BaseException:
        down(folder)
        raise
    return names


def down(folder: Path) -> None:
    """End everything that `up` started, sites first and one by one: each takes its leave of the SuperLink."""
    for name in site_names(folder):
        processes.down(folder, name, timeout=LEAVE_SECONDS)
    processes.down(folder)


def start_server(folder: Path) -> None:
    """Start the SuperLink, and return when it knows the sites' keys."""
    processes.start(folder, SERVER, environment(Layout(folder).server))
    what = "the SuperLink to know all keys"
    processes.until(lambda: is_listening(folder) and _knows_all_keys(folder), folder, [SERVER], READY_SECONDS, what)


def start_site(folder: Path, name: str) -> None:
    """Start a site's SuperNode, anew if it has ended."""
    home = Layout(folder).party(name)
    processes.start(folder, name, {**environment(home), PORT_VARIABLE: str(_free_port())})


def wait_until_connected(folder: Path, sites: list[str]) -> None:
    """Wait until as many nodes are online."""
    what = f"{len(sites)} nodes to be online"
    processes.until(lambda: count_nodes(folder) >= len(sites), folder, [SERVER, *sites], READY_SECONDS, what)


def _wait_until_forgotten(folder: Path, alive: int) -> None:
    """Sites that could not take their leave are held to be online for a minute, and their new SuperNodes refused."""
    what = "sites of before to be forgotten"
    processes.until(lambda: count_nodes(folder) <= alive, folder, [SERVER], READY_SECONDS, what)


def count_nodes(folder: Path) -> int:
    """How many nodes the SuperLink holds to be online."""
    return sum(node["status"] == "online" for node in flwr(folder, "supernode", "list")["nodes"])


def _knows_all_keys(folder: Path) -> bool:
    nodes = _nodes(folder)
    return all(name in nodes and nodes[name]["key"] == _key(folder, name) for name in site_names(folder))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

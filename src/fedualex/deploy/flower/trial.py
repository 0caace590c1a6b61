"""Server and sites of a deployment on this machine, for a trial: the same start scripts, on loopback."""

import json
import socket
from pathlib import Path

from .. import processes
from ..layout import SERVER, Layout
from .commands import flwr
from .layout import PORT_VARIABLE, REGISTERED, environment, site_names
from .register import listening

READY_SECONDS, LEAVE_SECONDS = 300.0, 15.0


def up(folder: Path) -> list[str]:
    """Start the SuperLink and every site's SuperNode, and return when all are connected; on failure end them all."""
    names = site_names(folder)
    try:
        start_server(folder)
        _wait_until_forgotten(folder, sum(processes.running(folder).get(name, False) for name in names))
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
    processes.until(lambda: listening(folder) and _registered(folder), folder, [SERVER], READY_SECONDS, what)


def start_site(folder: Path, name: str) -> None:
    """Start a site's SuperNode, anew if it has ended."""
    home = Layout(folder).party(name)
    processes.start(folder, name, {**environment(home), PORT_VARIABLE: str(_free_port())})


def wait_until_connected(folder: Path, sites: list[str]) -> None:
    """Wait until as many nodes are online."""
    what = f"{len(sites)} nodes to be online"
    processes.until(lambda: connected(folder) >= len(sites), folder, [SERVER, *sites], READY_SECONDS, what)


def _wait_until_forgotten(folder: Path, alive: int) -> None:
    """Sites that could not take their leave are held to be online for a minute, and their new SuperNodes refused."""
    what = "sites of before to be forgotten"
    processes.until(lambda: connected(folder) <= alive, folder, [SERVER], READY_SECONDS, what)


def connected(folder: Path) -> int:
    """How many nodes the SuperLink holds to be online."""
    return sum(node["status"] == "online" for node in flwr(folder, "supernode", "list")["nodes"])


def _registered(folder: Path) -> bool:
    file = Layout(folder).server / REGISTERED
    return file.exists() and set(site_names(folder)) <= set(json.loads(file.read_text()))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

"""Server and sites of a deployment on this machine, for a trial: the same start scripts, on loopback."""

import json
import socket
import time
from dataclasses import asdict
from pathlib import Path

from ...storage import write_json
from . import processes
from .commands import FlowerError, flwr
from .layout import PORT_VARIABLE, PROCESSES, REGISTERED, environment, site_names
from .processes import Process
from .register import listening

READY_SECONDS = 300.0


def up(folder: Path) -> list[Process]:
    """Start the SuperLink and every site's SuperNode, and return when all are connected; on failure end them all."""
    if any(processes.alive(process) for process in running(folder)):
        raise ValueError(f"{folder} is up already; `down` ends it")
    names = site_names(folder)
    write_json(folder / PROCESSES, [])
    try:
        start_server(folder)
        for name in names:
            start_site(folder, name)
        wait_until_connected(folder, len(names))
    except BaseException:
        down(folder)
        raise
    return running(folder)


def down(folder: Path) -> None:
    """End everything that `up` started, sites first."""
    for process in reversed(running(folder)):
        processes.end(process)
    (folder / PROCESSES).unlink(missing_ok=True)


def running(folder: Path) -> list[Process]:
    """What was started and not ended by us."""
    file = folder / PROCESSES
    return [Process(**entry) for entry in json.loads(file.read_text())] if file.exists() else []


def start_server(folder: Path) -> Process:
    """Start the SuperLink, and return when it knows the sites' keys."""
    home = folder / "server"
    process = _start(folder, "server", home, {})
    deadline = time.monotonic() + READY_SECONDS
    while not (listening(folder) and _registered(folder)):
        _require_life(process, home, deadline)
        time.sleep(0.5)
    return process


def start_site(folder: Path, name: str) -> Process:
    """Start a site's SuperNode, anew if it has ended."""
    home = folder / "sites" / name
    return _start(folder, name, home, {PORT_VARIABLE: str(_free_port())})


def wait_until_connected(folder: Path, sites: int, seconds: float = READY_SECONDS) -> None:
    """Wait until so many nodes are online."""
    deadline = time.monotonic() + seconds
    while connected(folder) < sites:
        for process in running(folder):
            _require_life(process, _home(folder, process.name), deadline)
        time.sleep(0.5)


def connected(folder: Path) -> int:
    """How many nodes the SuperLink holds to be online."""
    return sum(node["status"] == "online" for node in flwr(folder, "supernode", "list")["nodes"])


def _start(folder: Path, name: str, home: Path, more: dict[str, str]) -> Process:
    variables = {**environment(home), **more}
    process = processes.start(name, ["sh", str(home / "start.sh")], home / "output.log", variables)
    others = [other for other in running(folder) if other.name != name]
    write_json(folder / PROCESSES, [asdict(other) for other in [*others, process]])
    return process


def _registered(folder: Path) -> bool:
    file = folder / "server" / REGISTERED
    return file.exists() and set(site_names(folder)) <= set(json.loads(file.read_text()))


def _require_life(process: Process, home: Path, deadline: float) -> None:
    log = home / "output.log"
    if not processes.alive(process):
        tail = " ".join(log.read_text(errors="replace").split())[-400:]
        raise FlowerError(f"{process.name} ended by itself; the end of {log}: {tail}")
    if time.monotonic() > deadline:
        raise FlowerError(f"{process.name} is not ready; its log is {log}")


def _home(folder: Path, name: str) -> Path:
    return folder / "server" if name == "server" else folder / "sites" / name


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

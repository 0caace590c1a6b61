"""The local engine from outside: one process for the server and one for each site, all started by a run."""

import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ...runtime.status import Failure
from ..party import SERVER, Layout, check_entry, check_sites, copy_result, make_private_folder, write_entry, write_file
from . import keys
from .carrier import KEY, KEYS
from .server import LOCK, OUTCOME

POLL = 0.2
HERE = True
KEYED = ()
BESIDE = ()  # the server is of this machine
STOP_SECONDS = 60.0

_children: list["subprocess.Popen[bytes]"] = []
"""Held until they have ended: Python warns about processes that nobody holds."""

START = """#!/bin/sh
# Starts {who}, in the foreground; the server starts its sites itself. PYTHON names the interpreter with fedualex in it.
cd "$(dirname "$0")" || exit 1
exec "${{PYTHON:-python3}}" -m fedualex.deploy.local.{module} .
"""


def provision(
    folder: Path, sites: Sequence[str], *, host: str, port: int, serve: str, site: str, own_keys: bool = False
) -> None:
    """Write `server` and `sites/NAME`, with a key for each site unless it makes its own, and no certificate.

    host and port are not used: the server takes a free port of loopback.
    """
    check_sites(sites)
    check_entry(serve)
    check_entry(site)
    layout = Layout(folder)
    layout.refuse_existing()
    make_private_folder(layout.server)
    make_private_folder(layout.server / KEYS)
    write_entry(layout.server, SERVER, serve, sites=list(sites))
    write_file(layout.server / "start.sh", START.format(who="the server", module="server"), 0o700)
    for name in sites:
        key, home = secrets.token_bytes(32), layout.site(name)
        make_private_folder(home)
        if not own_keys:
            write_file(home / KEY, key, 0o600)
            write_file(layout.server / KEYS / name, key, 0o600)
        write_entry(home, name, site)
        write_file(home / "start.sh", START.format(who=f"site {name}", module="site"), 0o700)
    if own_keys:
        keys.make_server_key(layout.server, [layout.site(name) for name in sites])


def make_public(own: Path, name: str) -> str:
    """The public half of the key that a site makes itself."""
    return keys.make_half(own)


def admit(folder: Path, name: str, public: str) -> str:
    """Let the server know it."""
    keys.check_half(public)
    file = Layout(folder).server / KEYS / f"{name}.pub"
    write_file(file, public)
    return f"{file} goes to the server"


def up(folder: Path) -> list[str]:
    """Nothing: a run starts its processes."""
    return []


def down(folder: Path) -> None:
    """End the run, if there is one, and with it all processes."""
    stop(folder)


def submit(folder: Path, sites: int) -> None:
    """Start the server's process, which starts the sites."""
    home = Layout(folder).server
    if _pid(home) is not None:
        raise RuntimeError(f"the server of {folder} runs already: `fedualex deploy stop` ends it")
    (home / OUTCOME).unlink(missing_ok=True)
    with open(home / "log.txt", "ab") as output:
        process = subprocess.Popen(
            [str((home / "start.sh").resolve())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHON": sys.executable},
            start_new_session=True,
        )
    _children[:] = [process, *(child for child in _children if child.poll() is None)]
    while not (home / OUTCOME).exists() and process.poll() is None:
        time.sleep(0.05)
    if not (home / OUTCOME).exists():
        tail = " ".join((home / "log.txt").read_text(errors="replace").split())[-400:]
        raise RuntimeError(f"the server of {folder} does not start; the end of {home / 'log.txt'}: {tail}")


def state(folder: Path) -> tuple[str, bool]:
    """The server's own word; a server that left none and does not live is "lost"."""
    home = Layout(folder).server
    _children[:] = [child for child in _children if child.poll() is None]
    if _pid(home) is not None:
        return "running", False
    if not (home / OUTCOME).exists():
        return "none", True
    phase = json.loads((home / OUTCOME).read_text())["phase"]
    return ("lost" if phase == "running" else phase), True


def absent(folder: Path, sites: Sequence[str]) -> dict[str, Failure]:
    """Nobody: the server starts its sites again itself."""
    return {}


def stop(folder: Path) -> None:
    """Ask the loop to end, and if it does not, end its process; sites end with it."""
    home, end = Layout(folder).server, time.monotonic() + STOP_SECONDS
    if (pid := _pid(home)) is not None:
        os.kill(pid, signal.SIGTERM)
    while (pid := _pid(home)) is not None:
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    _children[:] = [child for child in _children if child.poll() is None]


def fetch(folder: Path, out: Path) -> None:
    """A copy: all is on this machine, and whoever may read the server's folder is entitled."""
    if not state(folder)[1]:
        raise RuntimeError(f"the run of {folder} has not ended: fetch it afterwards")
    copy_result(Layout(folder).server, out)


def _pid(home: Path) -> int | None:
    """The process that holds the server's lock, which no process does that has ended."""
    try:
        with open(home / LOCK, "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return int((home / LOCK).read_text() or 0) or None
    return None

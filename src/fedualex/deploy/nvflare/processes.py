"""Server and sites as processes of this machine, for a trial. They are known by id, never by name."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from ...storage import write_json

RECORD = "processes.json"
MARK = "FEDUALEX_TRIAL"
"""An environment variable with a random value, inherited by every process below: NVFlare starts its job processes
in sessions of their own, so that neither a process group nor a parent leads to all of them."""

_children: list[subprocess.Popen[bytes]] = []
"""Held until they have ended: Python warns about processes that nobody holds."""


def up(folder: Path, *, timeout: float = 120.0) -> None:
    """Start the server and all sites of a deployment, and return when every site has reached the server."""
    from .job import connected

    sites = sorted(path.name for path in (folder / "sites").iterdir())
    start(folder, "server", *sites)
    try:
        _until(lambda: set(sites) <= set(connected(folder)), timeout, f"{len(sites)} sites to reach the server", folder)
    except BaseException:
        down(folder)
        raise


def start(folder: Path, *names: str) -> None:
    """Start these parties, "server" or sites, unless they run already."""
    record = _read(folder)
    for name in names:
        if name in record["parties"] and _is_alive(record["parties"][name]):
            continue
        party = folder / "server" if name == "server" else folder / "sites" / name
        environment = os.environ | {MARK: record["mark"], "PYTHON": sys.executable}
        with open(party / "log.txt", "ab") as log:
            process = subprocess.Popen(
                [str((party / "start.sh").resolve())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        _children.append(process)
        record["parties"][name] = {"pid": process.pid, "started": psutil.Process(process.pid).create_time()}
        write_json(folder / RECORD, record)


def running(folder: Path) -> dict[str, bool]:
    """Which of the parties that were started are alive."""
    return {name: _is_alive(party) for name, party in _read(folder)["parties"].items()}


def job_processes(folder: Path, name: str) -> list[int]:
    """The ids of the processes in which a party works for a job."""
    party = folder / "server" if name == "server" else folder / "sites" / name
    kit = str((party / "kit").resolve())
    own = _read(folder)["parties"].get(name, {}).get("pid")
    return [p.pid for p in _marked(folder) if p.pid != own and kit in p.cmdline()]


def down(folder: Path, *, timeout: float = 10.0) -> None:
    """End what was started here and whatever came of it: politely, then not."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        processes = _marked(folder)
        for process in processes:
            _send(process, sign)
        psutil.wait_procs(processes, timeout)
    _children[:] = [child for child in _children if child.poll() is None]
    (folder / RECORD).unlink(missing_ok=True)


def _marked(folder: Path) -> list[psutil.Process]:
    mark = _read(folder)["mark"]
    return [process for process in psutil.process_iter() if _mark_of(process) == mark]


def _mark_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK) if process.status() != psutil.STATUS_ZOMBIE else None
    except (psutil.Error, OSError):
        return None


def _is_alive(party: dict[str, Any]) -> bool:
    try:
        process = psutil.Process(party["pid"])
        return process.create_time() == party["started"] and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _send(process: psutil.Process, sign: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(sign)  # psutil makes sure that the id has not been given to another process


def _read(folder: Path) -> dict[str, Any]:
    file = folder / RECORD
    return json.loads(file.read_text()) if file.exists() else {"mark": uuid.uuid4().hex, "parties": {}}


def _until(done: Callable[[], bool], timeout: float, what: str, folder: Path) -> None:
    end = time.monotonic() + timeout
    while not done():
        if dead := [name for name, alive in running(folder).items() if not alive]:
            raise RuntimeError(f"{dead[0]} ended while waiting for {what}: see log.txt in its folder")
        if time.monotonic() > end:
            raise TimeoutError(f"waited {timeout:g} s for {what}: see log.txt in the parties' folders")
        time.sleep(0.5)

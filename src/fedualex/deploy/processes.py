"""Parties as processes of this machine, for a trial: known by their ids, and ended with all that came of them."""

import contextlib
import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import psutil

from ..storage import Json, write_json
from .party import Layout

RECORD, LOG = "processes.json", "log.txt"
MARK = "FEDUALEX_TRIAL"
"""An environment variable with a random value and the party's name, inherited by every process below: engines start
some of theirs in sessions of their own, so that neither a process group nor a parent leads to all of them."""

_children: list[subprocess.Popen[bytes]] = []
"""Held until they have ended: Python warns about processes that nobody holds."""


def start(folder: Path, name: str, environment: Mapping[str, str] = os.environ) -> None:
    """Start a party, "server" or a site, by its start.sh, unless it runs already; its output goes to log.txt."""
    record = _read(folder)
    if alive_parties(folder).get(name):
        return
    party = Layout(folder).party(name)
    with open(party / LOG, "ab") as log:
        process = subprocess.Popen(
            [str((party / "start.sh").resolve())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**environment, MARK: f"{record['mark']} {name}"},
            start_new_session=True,
        )
    _children.append(process)
    record["parties"][name] = {"pid": process.pid, "started": psutil.Process(process.pid).create_time()}
    write_json(folder / RECORD, record)


def alive_parties(folder: Path) -> dict[str, bool]:
    """Which of the parties that were started are alive."""
    return {name: _is_alive(party) for name, party in _read(folder)["parties"].items()}


def members(folder: Path, name: str) -> list[psutil.Process]:
    """The process of a party, first if it is alive, and all that came of it."""
    record = _read(folder)
    own = record["parties"].get(name, {}).get("pid")
    return sorted(_find_marked(f"{record['mark']} {name}"), key=lambda process: process.pid != own)


def down(folder: Path, *names: str, timeout: float = 10.0) -> None:
    """End these parties, all if none is named, and whatever came of them: politely, then not."""
    record = _read(folder)
    for sign in (signal.SIGTERM, signal.SIGKILL):
        processes = [process for name in names or record["parties"] for process in members(folder, name)]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(sign)  # psutil makes sure that the id has not been given to another process
        psutil.wait_procs(processes, timeout)
    _children[:] = [child for child in _children if child.poll() is None]
    for name in names or list(record["parties"]):
        record["parties"].pop(name, None)
    if record["parties"]:
        write_json(folder / RECORD, record)
    else:
        (folder / RECORD).unlink(missing_ok=True)


def until(done: Callable[[], bool], folder: Path, names: Iterable[str], timeout: float, what: str) -> None:
    """Wait, as long as these parties are alive."""
    end = time.monotonic() + timeout
    while not done():
        alive = alive_parties(folder)
        if dead := [name for name in names if not alive.get(name)]:
            log = Layout(folder).party(dead[0]) / LOG
            tail = " ".join(log.read_text(errors="replace").split())[-400:]
            raise RuntimeError(f"{dead[0]} ended while waiting for {what}; the end of {log}: {tail}")
        if time.monotonic() > end:
            raise TimeoutError(f"waited {timeout:g} s for {what}: see {LOG} in the parties' folders")
        time.sleep(0.5)


def _find_marked(mark: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if _mark_of(process) == mark]


def _mark_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK) if process.status() != psutil.STATUS_ZOMBIE else None
    except (psutil.Error, OSError):
        return None


def _is_alive(party: Json) -> bool:
    try:
        process = psutil.Process(party["pid"])
        return process.create_time() == party["started"] and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _read(folder: Path) -> Json:
    file = folder / RECORD
    return json.loads(file.read_text()) if file.exists() else {"mark": uuid.uuid4().hex, "parties": {}}

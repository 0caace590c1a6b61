"""Processes started, remembered and ended by their ids: a whole session each, and nothing by name."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

GRACE_SECONDS = 15.0


@dataclass(frozen=True)
class Process:
    """The leader of a session of its own."""

    name: str
    pid: int
    started: int
    """The kernel's clock at its start, so that a later process with the same id is not mistaken for it."""


def start(name: str, command: list[str], log: Path, environment: Mapping[str, str]) -> Process:
    """Start a command in its own session, its output into a log file."""
    with open(log, "ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
        )
    _children[child.pid] = child
    found = _table().get(child.pid)
    return Process(name, child.pid, found.started if found else 0)


def alive(process: Process) -> bool:
    """Whether the leader still runs."""
    found = _table().get(process.pid)
    return found is not None and found.started == process.started


def end(process: Process, grace: float = GRACE_SECONDS) -> None:
    """End a process and all it has started: politely, and after `grace` seconds by force."""
    members = _members(process)
    _signal(members, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while (left := _left(members | _members(process))) and time.monotonic() < deadline:
        time.sleep(0.1)
    _signal(left, signal.SIGKILL)
    deadline = time.monotonic() + grace
    while _left(left) and time.monotonic() < deadline:
        time.sleep(0.1)


@dataclass(frozen=True)
class _Entry:
    pid: int
    parent: int
    session: int
    started: int


_children: dict[int, subprocess.Popen[bytes]] = {}
"""Ours: they stay in the table as zombies until they are asked."""


def _table() -> dict[int, _Entry]:
    """All processes of this machine that are not zombies."""
    for pid in [pid for pid, child in list(_children.items()) if child.poll() is not None]:
        del _children[pid]
    table = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if fields[0] != "Z":
            pid = int(path.parent.name)
            table[pid] = _Entry(pid, int(fields[1]), int(fields[3]), int(fields[19]))
    return table


def _members(process: Process) -> set[_Entry]:
    """The session of a process and all descendants: Flower puts some of its children into sessions of their own."""
    table = _table()
    leader = table.get(process.pid)
    if leader is not None and leader.started != process.started:
        return set()  # the id belongs to somebody else now
    found = {e for e in table.values() if process.pid in (e.pid, e.session) and e.started >= process.started}
    while more := {e for e in table.values() if e.parent in {f.pid for f in found}} - found:
        found |= more
    return found


def _left(members: set[_Entry]) -> set[_Entry]:
    table = _table()
    return {e for e in members if e.pid in table and table[e.pid].started == e.started}


def _signal(members: set[_Entry], number: signal.Signals) -> None:
    for entry in _left(members):
        try:
            os.kill(entry.pid, number)
        except ProcessLookupError:
            continue

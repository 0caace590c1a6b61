"""A run of the deployment: submit it, ask for its true state, end it."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...storage import write_atomically, write_json
from ..layout import Layout
from .commands import FlowerError, flwr
from .layout import OUTCOME, SUBMITTED, stop_file

Phase = Literal["none", "pending", "running", "finished", "failed", "lost", "unreachable"]
POLL_SECONDS = 0.5
ASK_SECONDS = 30.0
"""Our own word of a run's end is a file; Flower's is a heavy process, and is asked for now and then."""


@dataclass(frozen=True)
class State:
    """How a run stands: what our own process wrote, checked against what the SuperLink says."""

    phase: Phase
    """`lost`: Flower has ended it, and our process could not say why. `unreachable`: no answer from the SuperLink."""
    run: str | None
    """Flower's number."""
    detail: str

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.phase in ("finished", "failed", "lost")


def submit(folder: Path) -> str:
    """Start the round loop in the SuperLink's hands; Flower's number of the run. One run at a time."""
    home = Layout(folder).server
    before = state(folder)
    if before.phase == "unreachable":
        raise FlowerError(before.detail)
    if before.phase in ("pending", "running"):
        raise RuntimeError(f"run {before.run} of {folder} is {before.phase}: `fedualex deploy stop` ends it")
    (home / OUTCOME).unlink(missing_ok=True)
    config = f"folder={json.dumps(str(home.resolve()))}"
    number = str(flwr(folder, "run", "app", options=("--run-config", config))["run-id"])
    write_json(home / SUBMITTED, {"run": number})
    return number


def state(folder: Path) -> State:
    """The true state of the latest run."""
    home = Layout(folder).server
    if not (home / SUBMITTED).exists():
        return State("none", None, "nothing was submitted")
    if word := _own_word(folder):
        return word
    number = _submitted(home)
    try:
        rows = [row for row in flwr(folder, "list")["runs"] if row["run-id"] == number]
    except FlowerError as error:
        return State("unreachable", number, str(error))
    if word := _own_word(folder):  # it may have ended while Flower was asked
        return word
    if not rows:
        return State("lost", number, "the SuperLink does not know this run")
    status, detail = str(rows[0]["status"]), str(rows[0].get("status-details") or "")
    if status.startswith("finished"):
        return State("lost", number, f"Flower says {status!r}: {detail}")
    return State("running" if status == "running" else "pending", number, f"Flower says {status!r}")


def wait(folder: Path, seconds: float) -> State:
    """The state in which the latest run ends, or the one it is in after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (found := state(folder)).ended and time.monotonic() < deadline:
        ask = min(time.monotonic() + ASK_SECONDS, deadline)
        while _own_word(folder) is None and time.monotonic() < ask:
            time.sleep(POLL_SECONDS)
    return found


def stop(folder: Path, seconds: float = 60.0) -> State:
    """Ask the round loop to end at its next pause; if it has not after so many seconds, let Flower end it."""
    home = Layout(folder).server
    if not (home / SUBMITTED).exists():
        return state(folder)
    write_atomically(stop_file(home, _submitted(home)), b"")
    found = wait(folder, seconds)
    if found.phase in ("pending", "running"):
        flwr(folder, "stop", str(found.run))
        found = wait(folder, seconds)
    return found


def _submitted(home: Path) -> str:
    """Flower's number of the latest run."""
    number: str = json.loads((home / SUBMITTED).read_text())["run"]
    return number


def _own_word(folder: Path) -> State | None:
    """How the round loop says that the latest run ended; None if it has not said so."""
    home = Layout(folder).server
    if not ((home / SUBMITTED).exists() and (home / OUTCOME).exists()):
        return None
    number, said = _submitted(home), json.loads((home / OUTCOME).read_text())
    if said["run"] != number:
        return None
    if said["phase"] == "running":
        return None if _lives(said["pid"]) else State("lost", number, "the ServerApp's process is gone")
    return State(said["phase"], number, said["error"] or "the round loop returned")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

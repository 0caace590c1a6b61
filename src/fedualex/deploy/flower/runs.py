"""A run of the deployment: submit it, ask for its true state, end it."""

import json
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...storage import Json, write_atomically, write_json
from ..party import Layout
from .layout import CONNECTION, OUTCOME, SUBMITTED, environment, port, stop_file
from .provision import connection

# Flower's command line, as seen from the server's machine.


SECONDS = 120
"""Time limit of one command: each is a Python process with heavy imports."""


class FlowerError(RuntimeError):
    """A command that Flower refused or that did not reach the SuperLink."""


def flwr(folder: Path, *arguments: str, options: Sequence[str] = ()) -> Json:
    """The JSON answer of `flwr ARGUMENTS` to the deployment's SuperLink. Its exit code is not looked at."""
    home = Layout(folder).server
    (home / "flwr").mkdir(exist_ok=True)
    # Written anew each time: it holds an absolute path, and folders move.
    write_atomically(home / "flwr" / "config.toml", connection(port(folder), home / "ca.crt").encode())
    command = ["flwr", *arguments, CONNECTION, *options, "--format", "json"]
    try:
        done = subprocess.run(
            command, cwd=home, env=environment(home), capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise FlowerError(f"`flwr {arguments[0]}` did not answer within {SECONDS} seconds") from None
    answer = _last_object(done.stdout)
    if answer is None:
        said = " ".join((done.stderr or done.stdout).split())
        raise FlowerError(f"`flwr {arguments[0]}` gave no answer: {said[-300:] or 'it said nothing'}")
    if not answer.get("success"):
        raise FlowerError(f"`flwr {arguments[0]}` failed: {answer.get('error-message', answer)}")
    return answer


def _last_object(text: str) -> Json | None:
    """The last JSON object in a text that may have lines of talk before it."""
    decoder, last, position = json.JSONDecoder(), None, text.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError:
            end = position + 1
        else:
            last = value
        position = text.find("{", end)
    return last


Phase = Literal["none", "pending", "running", "finished", "stopped", "failed", "lost", "unreachable"]
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
    def has_ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.phase in ("finished", "stopped", "failed", "lost")


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
    number = _find_latest(home)
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
    while not (now := state(folder)).has_ended and time.monotonic() < deadline:
        ask = min(time.monotonic() + ASK_SECONDS, deadline)
        while _own_word(folder) is None and time.monotonic() < ask:
            time.sleep(POLL_SECONDS)
    return now


def stop(folder: Path, seconds: float = 60.0) -> State:
    """Ask the round loop to end at its next pause; if it has not after so many seconds, let Flower end it."""
    home = Layout(folder).server
    if not (home / SUBMITTED).exists():
        return state(folder)
    write_atomically(stop_file(home, _find_latest(home)), b"")
    now = wait(folder, seconds)
    if now.phase in ("pending", "running"):
        flwr(folder, "stop", str(now.run))
        now = wait(folder, seconds)
    return now


def _find_latest(home: Path) -> str:
    """Flower's number of the latest run."""
    number: str = json.loads((home / SUBMITTED).read_text())["run"]
    return number


def _own_word(folder: Path) -> State | None:
    """How the round loop says that the latest run ended; None if it has not said so."""
    home = Layout(folder).server
    if not ((home / SUBMITTED).exists() and (home / OUTCOME).exists()):
        return None
    number, said = _find_latest(home), json.loads((home / OUTCOME).read_text())
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

"""Flower from outside: an own authority, SuperLink and SuperNodes, runs of the installed app."""

from collections.abc import Sequence
from pathlib import Path

from ...runtime.status import Failure
from ..party import SERVER, Layout
from . import keys, runs, trial
from .layout import OUTCOME, REGISTERED, SUBMITTED
from .provision import provision

__all__ = [
    "BESIDE",
    "HERE",
    "KEYED",
    "POLL",
    "absent",
    "admit",
    "down",
    "fetch",
    "make_public",
    "provision",
    "state",
    "stop",
    "submit",
    "up",
]

make_public = keys.make_public
POLL = 10.0  # each look is a program of Flower's that keeps a core busy for a second
HERE = False
BESIDE = (SERVER,)
KEYED = ("superlink.db", "superlink.db-shm", "superlink.db-wal", REGISTERED, SUBMITTED, OUTCOME)


def admit(folder: Path, name: str, public: str) -> str:
    """The server registers a site's key when a run is submitted next, in place of an older one; its own is signed."""
    layout = Layout(folder)
    file = keys.sign(layout, public) if name == SERVER else keys.admit(layout.server, name, public)
    return f"{file} goes to the server"


def up(folder: Path) -> list[str]:
    """SuperLink and SuperNodes."""
    return trial.up(folder)


def down(folder: Path) -> None:
    """By process id."""
    trial.down(folder)


def submit(folder: Path, sites: int) -> None:
    """A run of the installed app; Flower takes whoever is connected. Keys that are new are registered before."""
    trial.register(folder)
    runs.submit(folder)


def state(folder: Path) -> tuple[str, bool]:
    """Our process's own word, checked against Flower's."""
    latest = runs.state(folder)
    return latest.phase, latest.has_ended or latest.phase == "none"


def absent(folder: Path, sites: Sequence[str]) -> dict[str, Failure]:
    """Nobody: whoever is back gets the next message."""
    return {}


def stop(folder: Path) -> None:
    """Ask the loop to end, then Flower."""
    runs.stop(folder)


def fetch(folder: Path, out: Path) -> None:
    """Nothing: in Flower's open version whoever reaches the port is heard, so there is nobody to be entitled."""
    raise RuntimeError("Flower has no channel for results that only its submitter can use: copy server/run by hand")

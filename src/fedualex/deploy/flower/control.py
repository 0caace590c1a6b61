"""Flower from outside: an own authority, SuperLink and SuperNodes, runs of the installed app."""

from collections.abc import Sequence
from pathlib import Path

from ...runtime.status import Failure
from . import runs, trial
from .layout import OUTCOME, REGISTERED, SUBMITTED
from .provision import provision

__all__ = ["HERE", "KEYED", "POLL", "absent", "down", "fetch", "provision", "state", "stop", "submit", "up"]

POLL = 10.0  # each look is a program of Flower's that keeps a core busy for a second
HERE = False
KEYED = ("superlink.db", "superlink.db-shm", "superlink.db-wal", REGISTERED, SUBMITTED, OUTCOME)


def up(folder: Path) -> list[str]:
    """SuperLink and SuperNodes."""
    return trial.up(folder)


def down(folder: Path) -> None:
    """By process id."""
    trial.down(folder)


def submit(folder: Path, sites: int) -> None:
    """A run of the installed app; Flower takes whoever is connected."""
    runs.submit(folder)


def state(folder: Path) -> tuple[str, bool]:
    """Our process's own word, checked against Flower's."""
    found = runs.state(folder)
    return found.phase, found.ended or found.phase == "none"


def absent(folder: Path, sites: Sequence[str]) -> dict[str, Failure]:
    """Nobody: whoever is back gets the next message."""
    return {}


def stop(folder: Path) -> None:
    """Ask the loop to end, then Flower."""
    runs.stop(folder)


def fetch(folder: Path, out: Path) -> None:
    """Nothing: in Flower's open version whoever reaches the port is heard, so there is nobody to be entitled."""
    raise RuntimeError("Flower has no channel for results that only its submitter can use: copy server/run by hand")

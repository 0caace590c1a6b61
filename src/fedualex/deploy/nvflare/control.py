"""NVFlare from outside: kits by its own provisioner, a process for each party, jobs."""

from collections.abc import Sequence
from pathlib import Path

from ...runtime.status import Failure
from .. import processes
from . import job, trial
from .provision import provision

__all__ = ["HERE", "KEYED", "POLL", "absent", "down", "fetch", "provision", "state", "stop", "submit", "up"]

POLL = 1.0
HERE = False
KEYED = ()


def up(folder: Path) -> list[str]:
    """One process for each party."""
    return trial.up(folder)


def down(folder: Path) -> None:
    """By process id."""
    processes.down(folder)


def submit(folder: Path, sites: int) -> None:
    """A job that starts when so many sites are there."""
    job.submit(folder, sites)


def state(folder: Path) -> tuple[str, bool]:
    """NVFlare's word, corrected where a job has no process."""
    found = job.state(folder)
    return found, found in job.ENDED


def absent(folder: Path, sites: Sequence[str]) -> dict[str, Failure]:
    """By NVFlare's word: it fixes the sites of a job when the job starts."""
    return job.absent(folder, sites)


def stop(folder: Path) -> None:
    """Abort the job; the loop sees it and keeps its checkpoint."""
    job.abort(folder)


def fetch(folder: Path, out: Path) -> None:
    """With the administrator's certificate, from the store of the server."""
    job.fetch(folder, out)

"""NVFlare from outside: kits by its own provisioner, a process for each party, jobs."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ...runtime.status import Failure
from .. import processes
from ..party import ADMIN, SERVER, Layout
from . import job, keys
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

make_public = keys.make_request
POLL = 1.0
HERE = False
KEYED = ()
BESIDE = (SERVER, ADMIN)


def admit(folder: Path, name: str, public: str) -> str:
    """A certificate for the key of a party, which it needs at its next start."""
    file = keys.sign_request(Layout(folder), name, public)
    return f"{file} goes to {name}, into the same place of its folder, before its next start"


def up(folder: Path, *, timeout: float = 120.0) -> list[str]:
    """Start the server and all sites, and return when every site has reached the server; on failure end them all."""
    sites = Layout(folder).sites()
    try:
        start(folder, SERVER, *sites)
        what = f"{len(sites)} sites to reach the server"
        processes.until(lambda: set(sites) <= set(job.connected_sites(folder)), folder, [SERVER, *sites], timeout, what)
    except BaseException:
        processes.down(folder)
        raise
    return sites


def start(folder: Path, *names: str) -> None:
    """Start these parties, unless they run already."""
    for name in names:
        processes.start(folder, name, os.environ | {"PYTHON": sys.executable})


def down(folder: Path) -> None:
    """By process id."""
    processes.down(folder)


def submit(folder: Path, sites: int) -> None:
    """A job that starts when so many sites are there."""
    job.submit(folder, sites)


def state(folder: Path) -> tuple[str, bool]:
    """NVFlare's word, corrected where a job has no process."""
    phase = job.state(folder)
    return phase, phase in job.ENDED


def absent(folder: Path, sites: Sequence[str]) -> dict[str, Failure]:
    """By NVFlare's word: it fixes the sites of a job when the job starts."""
    return job.absent(folder, sites)


def stop(folder: Path) -> None:
    """Abort the job; the loop sees it and keeps its checkpoint."""
    job.abort(folder)


def fetch(folder: Path, out: Path) -> None:
    """With the administrator's certificate, from the store of the server."""
    job.fetch(folder, out)

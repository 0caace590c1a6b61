"""Server and sites of a deployment on this machine, for a trial: the same start scripts, on loopback."""

import os
import sys
from pathlib import Path

from .. import processes
from ..party import SERVER, Layout
from .job import connected


def up(folder: Path, *, timeout: float = 120.0) -> list[str]:
    """Start the server and all sites, and return when every site has reached the server; on failure end them all."""
    sites = Layout(folder).sites()
    try:
        start(folder, SERVER, *sites)
        what = f"{len(sites)} sites to reach the server"
        processes.until(lambda: set(sites) <= set(connected(folder)), folder, [SERVER, *sites], timeout, what)
    except BaseException:
        processes.down(folder)
        raise
    return sites


def start(folder: Path, *names: str) -> None:
    """Start these parties, unless they run already."""
    for name in names:
        processes.start(folder, name, os.environ | {"PYTHON": sys.executable})

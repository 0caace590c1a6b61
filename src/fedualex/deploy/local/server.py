"""`python -m fedualex.deploy.local.server FOLDER`: the process of the server, which starts its sites."""

import fcntl
import os
import signal
import sys
import time
from pathlib import Path

from ...storage import write_json
from ..party import Layout, read_entry, read_settings, write_log
from ..wire import CarriedEngine
from .carrier import Processes
from .keys import keys_of_sites

LOCK, OUTCOME = "server.lock", "outcome.json"
"""Held and holding the process id while a server lives, however it ends; and how it ended, in its own words."""
LOCK_SECONDS = 1.0
"""Whoever asks whether a server lives holds the lock for an instant."""
CONNECT_SECONDS = 600.0
"""For all sites to load their data before the first round."""


def main(folder: Path) -> None:
    """Run the round loop of this folder, and leave word of how it ended."""
    _take(folder / LOCK)
    write_log(folder)
    write_json(folder / OUTCOME, {"phase": "running", "error": None})
    try:
        phase = _serve(folder)
    except BaseException as error:
        write_json(folder / OUTCOME, {"phase": "failed", "error": f"{type(error).__name__}: {error}"})
        raise
    write_json(folder / OUTCOME, {"phase": phase, "error": None})


def _take(lock: Path) -> None:
    """Hold the lock until the process is gone, to the last thread: nobody closes this handle."""
    handle, end = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600), time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > end:
                raise SystemExit(f"another server holds {lock}") from None
        time.sleep(0.01)
    os.truncate(handle, 0)
    os.write(handle, str(os.getpid()).encode())


def _serve(folder: Path) -> str:
    """ "finished", or "stopped" if that was asked for."""
    names = read_settings(folder)["sites"]
    layout = Layout(folder.parent)
    carrier = Processes({name: layout.site(name) for name in names}, keys_of_sites(folder, names))

    def stop(number: int, frame: object) -> None:
        carrier.stop()

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        serve = read_entry(folder)
        carrier.wait(CONNECT_SECONDS)
        serve(CarriedEngine(carrier), folder)
        return "stopped" if carrier.stopped() else "finished"
    finally:
        carrier.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())

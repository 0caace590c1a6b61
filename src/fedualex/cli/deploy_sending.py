"""A run is sent to its engine, and a command that follows it lets go of it."""

import signal
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..storage import write_atomically
from .common import STOPS, print_json
from .deploy_follow import layout_of

if TYPE_CHECKING:
    from ..deploy.engines import Control

SENT = "sent"
"""A file of the server with a word that is new whenever the run is sent."""
STOPPED = "stopped"
"""That word after `fedualex deploy stop`."""


def submit(folder: Path, control: "Control", settings: dict[str, Any]) -> None:
    """Send the run, which goes on from its checkpoint."""
    from ..experiments.deployment import forget_failure

    server = layout_of(folder).server
    forget_failure(server)
    control.submit(folder, settings["run"]["min_replies"] or len(settings["sites"]))
    write_atomically(server / SENT, uuid.uuid4().hex.encode())


def note_stop(folder: Path) -> None:
    """Whoever follows the run does not send it again."""
    write_atomically(layout_of(folder).server / SENT, STOPPED.encode())


def last_sent(folder: Path) -> str:
    """Which time the run was sent last, or `STOPPED`; of two commands that follow it, one sends it again."""
    file = layout_of(folder).server / SENT
    return file.read_text() if file.exists() else ""


@contextmanager
def heard_interrupts(here: bool) -> Iterator[None]:
    """Ctrl-C is heard inside of this also by a command that a script has put into the background.

    Shells have those ignore it, so that they are not ended by accident. here: whether it would end the run. Where it
    ends no more than the watching, whoever sends it means it.
    """
    deaf = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if here or not deaf:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def detach(folder: Path, as_json: bool) -> NoReturn:
    """End the watching and not the run, in one sentence."""
    words = (
        f"detached; the run goes on: `fedualex deploy run {folder}` joins it, `fedualex deploy stop {folder}` ends it"
    )
    if as_json:
        print_json({"error": words})
    else:
        click.echo(words, err=True)
    sys.exit(STOPS["INTERRUPTED"])

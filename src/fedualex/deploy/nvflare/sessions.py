"""Sessions with the server: of the administrator or of a viewer, each by its certificate."""

import contextlib
import io
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

from nvflare.apis.fl_exception import FLCommunicationError
from nvflare.fuel.flare_api.api_spec import NoConnection
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

from .party import KIT

CONNECT = 10.0
PAUSE = 0.5

logging.getLogger("nvflare").addHandler(logging.NullHandler())  # what it would print about a lost server, we raise


@contextlib.contextmanager
def session(party: Path) -> Iterator[Session]:
    """A session of the administrator or viewer in this folder."""
    kit = party.resolve() / KIT
    user = json.loads((kit / "startup" / "fed_admin.json").read_text())["admin"]["username"]
    opened = _log_in(user, str(kit))
    try:
        yield opened
    finally:
        opened.close()


def _log_in(user: str, kit: str) -> Session:
    end = time.monotonic() + CONNECT
    while True:
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it prints
                return new_secure_session(user, kit, timeout=CONNECT)
        except FLCommunicationError as error:  # a busy server answers a log-in with nothing
            if time.monotonic() > end:
                raise NoConnection(f"the server does not log {user} in: {error}") from None
            time.sleep(PAUSE)

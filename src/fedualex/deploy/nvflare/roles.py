"""The two classes that a job names: NVFlare makes them from the installed package, no code travels."""

import logging
import threading
from pathlib import Path
from typing import Any

from nvflare.collab import collab

from .engine import NVFlareEngine
from .party import read_entry
from .wire import pack_answer, pack_failure, unpack_request

logger = logging.getLogger(__name__)


class ServerRole:
    """Runs the round loop that the server's own settings name."""

    @collab.main
    def run(self) -> None:
        """The whole job; an exception fails it."""
        folder = _folder()
        read_entry(folder)(NVFlareEngine(), folder)


class SiteRole:
    """Answers requests with what the site's own settings name."""

    def __init__(self) -> None:
        self._site: Any = None
        self._failure: str | None = None
        self._loading = threading.Lock()

    @collab.init
    def load(self) -> None:
        """Load the site before the first round. A site that cannot load answers with its error: others go on."""
        folder = _folder()
        with self._loading:
            try:
                self._site = read_entry(folder)(folder)
            except Exception as error:
                logger.exception("the site cannot be loaded")
                self._failure = f"the site cannot be loaded: {_named(error)}"

    @collab.publish
    def work(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request."""
        request = unpack_request(message)
        if self._failure is not None:
            return pack_failure(request, self._failure)
        try:
            return pack_answer(request, self._site.work(request))
        except Exception as error:
            logger.exception("round %d failed", request.round)
            return pack_failure(request, _named(error))


def _folder() -> Path:
    return Path(collab.workspace.get_root_dir()).resolve().parent


def _named(error: Exception) -> str:
    """The kind of an error alone: its message may quote data, and stays in the site's log."""
    return f"{type(error).__name__} (the site's log says more)"

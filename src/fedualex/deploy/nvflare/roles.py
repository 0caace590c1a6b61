"""The two classes that a job names: NVFlare makes them from the installed package, no code travels."""

import logging
import threading
from pathlib import Path
from typing import Any

from nvflare.collab import collab

from ..engine import Arrays, RefusedError, Request
from ..messages import CarriedEngine, answer
from .engine import Collab
from .party import read_entry

logger = logging.getLogger(__name__)


class ServerRole:
    """Runs the round loop that the server's own settings name."""

    @collab.main
    def run(self) -> None:
        """The whole job; an exception fails it."""
        folder = _folder()
        read_entry(folder)(CarriedEngine(Collab()), folder)


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
                self._failure = f"the site cannot be loaded: {type(error).__name__} (its log says more)"

    @collab.publish
    def work(self, message: bytes) -> bytes:
        """The answer to one request."""
        return answer(self._work, message)

    def _work(self, request: Request) -> Arrays:
        if self._failure is not None:
            raise RefusedError(self._failure)
        return self._site.work(request)


def _folder() -> Path:
    return Path(collab.workspace.get_root_dir()).resolve().parent

"""When each site answered last, kept at the server for whoever watches a run."""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...storage import Json, write_json
from .. import Engine, Reply, Request

FILE = "heard.json"
SECONDS = 1.0
"""The least time between two writings: a run may have many exchanges a second."""


@dataclass
class HeardEngine:
    """An engine whose sites' answers are noted in the server's folder."""

    engine: Engine
    folder: Path

    def __post_init__(self) -> None:
        self._sites: dict[str, float] = dict(read_heard(self.folder).get("sites", {}))
        self._written = 0.0

    def sites(self) -> list[str]:
        """The sites that can be reached."""
        return self.engine.sites()

    def broadcast(self, request: Request, sites: Sequence[str], timeout: float) -> list[Reply]:
        """The replies, of which those with an answer count as heard."""
        replies = self.engine.broadcast(request, sites, timeout)
        now = time.time()
        self._sites |= {reply.site: now for reply in replies if reply.failure is None}
        if now - self._written >= SECONDS:
            self._written = now
            with suppress(OSError):  # whoever watches sees older times; a full disk is told where it matters
                write_json(self.folder / FILE, {"task": request.task, "number": request.round, "sites": self._sites})
        return replies

    def stopped(self) -> bool:
        """Whether the run was asked to end."""
        return self.engine.stopped()

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()


def read_heard(folder: Path) -> Json:
    """What was asked last, as `task` and `number`, and when each of `sites` answered; empty before the first answer."""
    file = folder / FILE
    return json.loads(file.read_text()) if file.exists() else {}

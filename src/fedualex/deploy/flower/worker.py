"""`python -m fedualex.deploy.flower.worker FOLDER`: a site's work, in a process that lives as long as its SuperNode.

Flower starts a process for each message; that one hands it over to this one, which has the site loaded. A new run loads
it anew, as does a message after the site could not be loaded: whoever corrects a table need not start anything again.
"""

import contextlib
import hmac
import json
import logging
import secrets
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from ...flower_client import WORKER
from ..party import read_entry, write_file, write_log
from ..wire import LARGEST, Worker, make_answerer

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
WORD = 32
SECONDS = 60.0
"""For a request to arrive, once somebody has connected."""


class SiteWorker:
    """Answers whoever knows the word in the site's folder, one request after the other."""

    def __init__(self, folder: Path):
        self.folder, self._word = folder, secrets.token_hex(WORD)
        self._answer: Callable[[bytes], bytes] | None = None
        self._run = ""
        self._listener = socket.create_server((LOOPBACK, 0))
        place = {"port": self._listener.getsockname()[1], "word": self._word}
        write_file(folder / WORKER, json.dumps(place), 0o600)

    def serve(self) -> None:
        """Until it is closed."""
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            with link, contextlib.suppress(OSError, ValueError):
                self._serve(link)

    def close(self) -> None:
        """Nobody is answered any more."""
        (self.folder / WORKER).unlink(missing_ok=True)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self, link: socket.socket) -> None:
        link.settimeout(SECONDS)
        content = bytearray()
        while part := link.recv(1 << 20):
            content += part
            if len(content) > LARGEST:
                return
        end = 4 + int.from_bytes(content[:4], "big")
        head = json.loads(content[4:end])
        if hmac.compare_digest(str(head["word"]), self._word):
            link.sendall(self._answer_request(str(head["run"]), bytes(content[end:])))

    def _answer_request(self, run: str, request: bytes) -> bytes:
        if self._answer is None or run != self._run:
            log.info("run %s of Flower: this site's table is loaded", run)
            loaded: list[Worker] = []

            def load() -> Worker:
                loaded.append(read_entry(self.folder)(self.folder))
                return loaded[0]

            answer = make_answerer(load)
            self._answer = answer if loaded else None
            self._run = run
            return answer(request)
        return self._answer(request)


if __name__ == "__main__":
    here = Path(sys.argv[1]).resolve()
    write_log(here)
    SiteWorker(here).serve()

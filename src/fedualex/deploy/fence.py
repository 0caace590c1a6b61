"""One writer of a checkpoint: who comes later takes over, who was there before is told at its next write."""

import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..storage import write_atomically


class FencedError(RuntimeError):
    """Another server has taken over this run."""


class Fence:
    """Files beside a checkpoint, of which one names the server that may write."""

    def __init__(self, checkpoint: Path):
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        self._file, self._lock = (checkpoint.with_name(f"{checkpoint.name}.{kind}") for kind in ("server", "lock"))
        self._token = uuid.uuid4().hex

    @contextmanager
    def taken_over(self) -> Iterator[None]:
        """Take over when this ends well: whoever cannot go on from the checkpoint leaves the other one alone."""
        with self._locked():
            yield
            write_atomically(self._file, self._token.encode())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Write only inside of this; raises `FencedError` if another server has come."""
        with self._locked():
            if self._file.read_text() != self._token:
                raise FencedError(
                    f"another server has taken over the run in {self._file.parent}: this one wrote nothing more"
                )
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        handle = os.open(self._lock, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

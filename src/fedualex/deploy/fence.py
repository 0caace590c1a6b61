"""One writer of a checkpoint: who comes later takes over, who was there before is told at its next write."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..storage import locked, write_atomically


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
        with locked(self._lock):
            yield
            write_atomically(self._file, self._token.encode())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Write only inside of this; raises `FencedError` if another server has come."""
        with locked(self._lock):
            if self._file.read_text() != self._token:
                raise FencedError(
                    f"another server has taken over the run in {self._file.parent}: this one wrote nothing more"
                )
            yield

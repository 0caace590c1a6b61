"""The log of a party: `log.jsonl` in its folder, one JSON object on a line, the same on every engine."""

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from .entry import read_settings

LOG = "log.jsonl"
LARGEST, KEPT = 10_000_000, 3
"""Bytes after which another file is begun, and how many older ones stay."""


class JsonLines(logging.Formatter):
    """A record as {"time", "level", "party", "logger", "message"}, and "error" with the traceback if there is one."""

    def __init__(self, party: str):
        super().__init__()
        self.party = party

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever is in it."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "party": self.party,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def write_log(folder: Path) -> None:
    """From now on what the library says in this process goes to the log of this party. It stays there: see `answer`."""
    handler = RotatingFileHandler(folder / LOG, maxBytes=LARGEST, backupCount=KEPT, delay=True)
    handler.setFormatter(JsonLines(read_settings(folder)["name"]))
    logging.getLogger("fedualex").addHandler(handler)
    logging.getLogger("fedualex").setLevel(logging.INFO)


def read_log(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a party's log; one that was cut off by a crash is left out."""
    file = folder / LOG
    return _parsed(file.read_bytes() if file.exists() else b"")


class LogTail:
    """What is written to a party's log from now on."""

    def __init__(self, folder: Path):
        self._file = folder / LOG
        self._read = self._size()

    def new(self) -> list[dict[str, Any]]:
        """The lines since the last look; of a file that was begun anew all."""
        if (size := self._size()) == self._read:
            return []
        with open(self._file, "rb") as log:
            log.seek(self._read if size > self._read else 0)
            content = log.read()
            whole = content[: content.rfind(b"\n") + 1]
            self._read = log.tell() - len(content) + len(whole)
        return list(_parsed(whole))

    def _size(self) -> int:
        return self._file.stat().st_size if self._file.exists() else 0


def _parsed(content: bytes) -> Iterator[dict[str, Any]]:
    for line in content.decode(errors="replace").splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found

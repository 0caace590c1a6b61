"""The log of a party's process: one JSON object on a line, on its error stream."""

import json
import logging
import sys
from datetime import UTC, datetime


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


def write_log(party: str) -> None:
    """What the library says in this process goes to its error stream."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(party))
    logging.getLogger("fedualex").addHandler(handler)
    logging.getLogger("fedualex").setLevel(logging.INFO)

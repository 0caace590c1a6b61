"""The history of a run on disk: one JSON object a line."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from .fields import is_record
from .registry import ConfigurationError


def read_history(file: Path, ended: bool) -> list[dict[str, Any]]:
    """All records; the last line of a run that has not ended may be cut."""
    lines = file.read_text(errors="replace").splitlines() if ended or file.exists() else []
    history = []
    for number, line in enumerate(lines, 1):
        record = None
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
        if record is not None and is_record(record):
            history.append(record)
        elif ended or number < len(lines):  # else the last line of a run that was killed while it was written
            raise ConfigurationError(f"{file} is damaged in line {number}")
    return history


def lines(records: list[dict[str, Any]]) -> bytes:
    """Records as the bytes of the file."""
    return "".join(json.dumps(record, allow_nan=False) + "\n" for record in records).encode()


def finite(value: float | None) -> float | None:
    """A number as it is stored: nothing where it is not finite."""
    return value if value is not None and np.isfinite(value) else None


def plain(value: Any) -> Any:
    """An array or a number of numpy as Python's own."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value

"""Files that a crash cannot spoil."""

import json
import os
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: bytes) -> None:
    """Write, sync, rename, sync the folder: whatever happens, the old file or the new one is there."""
    temporary = path.with_name(f"{path.name}.tmp")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def write_json(path: Path, data: Any) -> None:
    """`data` as strict JSON: a non-finite number is an error here, not a token that no reader accepts."""
    write_atomically(path, (json.dumps(data, indent=1, allow_nan=False) + "\n").encode())

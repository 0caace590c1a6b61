"""Files that a crash cannot spoil."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


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


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for everybody else who holds this file, across processes; one that is killed lets go."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write_json(path: Path, data: object) -> None:
    """`data` as strict JSON: a non-finite number is an error here, not a token that no reader accepts."""
    write_atomically(path, (json.dumps(data, indent=1, allow_nan=False) + "\n").encode())


def read_arrays(path: str | Path, wanted: Callable[[str], bool] = lambda name: True) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file whose names are wanted; pickled objects are refused.

    A missing, truncated or foreign file can fail in many ways: callers catch every exception and name the file.
    """
    with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files if wanted(name)}

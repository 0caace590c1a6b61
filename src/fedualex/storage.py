"""Files that a crash cannot spoil."""

import errno
import fcntl
import io
import json
import math
import os
import secrets
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

READING = threading.Lock()
"""Held while headers of arrays are read: numpy has Python parse them, which before 3.11.8 two threads could not do at
once (CPython's issue 106905: "AST constructor recursion depth mismatch")."""

Json = dict[str, Any]
"""A JSON object or a table of TOML, of any depth. Whoever reads one from a file checks what it holds."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write, sync, rename, sync the folder: whatever happens, the old file or the new one is there.

    What is written first has a name that nobody can guess and that must be new: a link that somebody has put there is
    not followed.
    """
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def is_disk_full(error: BaseException) -> bool:
    """Whether this is what a full disk, or a full share of one, is answered with."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Wait for everybody else who holds this file, across processes; one that is killed lets go."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
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
    with READING, open(path, "rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files if wanted(name)}


class TooLargeError(ValueError):
    """A file beyond the limits that its reader states."""


def read_within(path: Path, most: int) -> bytes:
    """The bytes of a file, of which there are at most so many; a pipe or a device, which may never end, is refused."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise ValueError(f"{path.name} is no regular file")
        if about.st_size > most:
            raise TooLargeError(f"{path.name} has more than {most} bytes")
        content = file.read(about.st_size + 1)
        if len(content) != about.st_size:
            raise ValueError(f"{path.name} was changed while it was read")
        return content


def arrays_within(content: bytes, most: int) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file that take at most so many bytes when they are unpacked, which is seen before they do.

    Other failures are those of `read_arrays`.
    """
    with READING, zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > most or len(parts) > MOST_ARRAYS:
            raise TooLargeError(f"the archive holds more than {most} bytes or {MOST_ARRAYS} arrays")
        return {part.filename.removesuffix(".npy"): _array_within(archive.read(part)) for part in parts}


MOST_ARRAYS = 1000


def _array_within(content: bytes) -> NDArray[Any]:
    """The array of a file .npy, whose header must not promise more than is there."""
    stream = io.BytesIO(content)
    version = npy.read_magic(stream)
    reader = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = reader(stream)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError("an array is longer or shorter than its header says, or holds objects")
    stream.seek(0)
    return np.asarray(npy.read_array(stream, allow_pickle=False))

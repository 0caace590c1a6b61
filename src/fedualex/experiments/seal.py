"""One hash over all files of a finished run, kept in its status.

It shows that a file was changed, lost or exchanged. It is integrity, not a signature: whoever rewrites the hash can
rewrite anything.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CHECKPOINT = "checkpoint.npz"
FILES = ("manifest.json", "history.jsonl", "solution.npz", CHECKPOINT)
"""What a run leaves beside its status; the checkpoint only if it wrote one."""


def sealed(path: Path, status: Mapping[str, Any]) -> dict[str, Any]:
    """The status with the SHA-256 of each file (`files`), and one over all that it says, these included (`sha256`)."""
    whole = {**status, "files": digests(path)}
    return {**whole, "sha256": digest_of(whole)}


def digests(path: Path) -> dict[str, str]:
    """The SHA-256 of each file that is there."""
    return {name: hashlib.sha256((path / name).read_bytes()).hexdigest() for name in FILES if (path / name).exists()}


def digest_of(status: Mapping[str, Any]) -> str:
    """The SHA-256 of a status without the one that it holds, as JSON with its keys in order."""
    content = {key: value for key, value in status.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

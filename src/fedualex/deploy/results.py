"""What a run leaves to whoever is entitled to it: the run folder and the model."""

import shutil
from pathlib import Path

RESULT = "result"
"""The folder in which an engine carries it."""
PARTS = ("run", "model")
OWN = ("*.lock", "*.server")
"""Files of a run folder by which servers take turns."""


def copy_result(server: Path, to: Path) -> None:
    """Copy it out of the server's folder, as far as it is there."""
    for name in PARTS:
        if (server / name).exists():
            shutil.copytree(server / name, to / name, ignore=shutil.ignore_patterns(*OWN))


def check_place(out: Path) -> None:
    """Refuse to mix a result with what is there already."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"out must be a new or an empty folder, got {str(out)!r}")

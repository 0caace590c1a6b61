"""One configured run into a folder: begun, continued after a crash, finished."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..runtime import Run, Stop, solve
from ..runtime.options import SolveOptions, fields_of
from ..validation import short
from . import folder
from .configuration import Configuration
from .registry import ConfigurationError
from .seal import CHECKPOINT


def solve_into(path: Path, configuration: Configuration) -> Run:
    """Solve and store. A folder with an unfinished or interrupted run of the same configuration is gone on with."""
    resolved = json.loads(json.dumps(configuration.resolved))
    if not (path / "manifest.json").exists():
        if path.exists() and any(path.iterdir()):
            raise ConfigurationError(f"{path} is not empty and is not a run: choose another --out")
        return solve_afresh(path, configuration)
    known = folder.load(path)
    if known.status is not None and known.status["stop"] != Stop.INTERRUPTED.name:
        other = _difference(known.manifest["configuration"], resolved)
        raise ConfigurationError(f"{path} already holds a finished run{other}: choose another --out")
    if not (path / CHECKPOINT).exists():  # refused or killed before its first record: nothing to go on with
        return solve_afresh(path, configuration)
    if known.manifest["configuration"] != resolved:
        other = _difference(known.manifest["configuration"], resolved)
        raise ConfigurationError(f"{path} holds an unfinished run{other}: choose another --out")
    folder.reopen(path, known, resolved)
    return _solve(path, configuration)


def _difference(known: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """In words, the first setting in which a stored run differs from the one that is asked for; "" if none does."""
    for table in [*known, *(name for name in asked if name not in known)]:
        before, now = known.get(table), asked.get(table)
        if isinstance(before, dict) and isinstance(now, dict):
            for key in [*before, *(name for name in now if name not in before)]:
                if before.get(key) != now.get(key):
                    return f" with {key} = {short(before.get(key))}, where {short(now.get(key))} is asked for"
        elif before != now:
            return f" with another {table}"
    return ""


def is_finished(path: Path, configuration: Configuration) -> bool:
    """Whether the folder holds a run of this configuration that came to its end by itself."""
    if not (path / "status.json").exists():
        return False
    known = folder.load(path)
    same = known.manifest["configuration"] == json.loads(json.dumps(configuration.resolved))
    return same and known.status is not None and known.status["stop"] != Stop.INTERRUPTED.name


def solve_afresh(path: Path, configuration: Configuration) -> Run:
    """Solve and store, whatever the folder held before."""
    folder.begin(path, configuration.problem, configuration.resolved)
    (path / CHECKPOINT).unlink(missing_ok=True)
    return _solve(path, configuration)


def _solve(path: Path, configuration: Configuration) -> Run:
    kept = {"callback": lambda record: folder.append(path, record), "checkpoint": path / CHECKPOINT}
    options = fields_of(configuration.options, SolveOptions) | kept
    run = solve(configuration.problem, configuration.method, **options)
    folder.finish(path, run, configuration.problem)
    return run

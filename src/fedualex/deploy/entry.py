"""The functions that a party's own settings name, in packages that are installed there: no message can name another."""

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from ..storage import write_json

SETTINGS = "engine.json"
"""In a party's folder, which belongs to the party."""


def write_entry(folder: Path, name: str, entry: str, **more: Any) -> None:
    """Name a party, which it keeps wherever its folder goes, and its function, which need not be importable here."""
    check_entry(entry)
    write_json(folder / SETTINGS, {"name": name, "entry": entry, **more})


def read_entry(folder: Path) -> Callable[..., Any]:
    """The function that works for the party of this folder."""
    return resolve(read_settings(folder)["entry"])


def read_settings(folder: Path) -> dict[str, Any]:
    """What the engine must know at this party."""
    found: dict[str, Any] = json.loads((folder / SETTINGS).read_text())
    return found


def check_entry(entry: str) -> None:
    """Refuse what cannot be "module:function"."""
    if not all(entry.partition(":")):
        raise ValueError(f"entry={entry!r} must name a function as 'module:function'")


def resolve(entry: str) -> Callable[..., Any]:
    """The function behind "module:function"."""
    check_entry(entry)
    module, _, name = entry.partition(":")
    try:
        function: Any = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"entry={entry!r} must name a function as 'module:function': {error}") from None
    if not callable(function):
        raise ValueError(f"entry={entry!r} must name a function, not {type(function).__name__}")
    return function

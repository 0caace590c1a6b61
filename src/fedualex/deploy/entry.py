"""The functions that a party's own settings name, in packages that are installed there."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


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

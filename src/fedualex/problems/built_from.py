"""What a problem of the catalogue is built from, said by its own constructor."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__built_from__"


@dataclass(frozen=True)
class Sources:
    """The arrays among a constructor's arguments."""

    arrays: tuple[str, ...]
    recipe: type | None
    """What the problem is before anybody's data was seen, if its arrays are rows of clients."""


def built_from(*arrays: str, recipe: type | None = None) -> Callable[[F], F]:
    """Declare a constructor of the catalogue: files can name it, and its arrays then come from data files."""

    def mark(constructor: F) -> F:
        setattr(constructor, MARK, Sources(arrays, recipe))
        return constructor

    return mark


def sources_of(constructor: Callable[..., Any]) -> Sources | None:
    """What a constructor declared; None if it is none of the catalogue."""
    found: Sources | None = getattr(constructor, MARK, None)
    return found

"""Names and other values: one of several, of a type, and how they are shown in a refusal."""

import difflib
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def of_type(name: str, value: object, kind: type[T], accepted: str) -> T:
    """`value`, if it is of this type."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {accepted}, got {short(value)}")
    return value


def one_of(name: str, value: object, choices: tuple[str, ...]) -> str:
    """`value`, if it is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {short(value)}")
    return str(value)


def hint(name: object, known: Iterable[str], listing: str = "known are") -> str:
    """What an unknown name was probably meant to be, or else all that is known."""
    known = list(known)
    close = difflib.get_close_matches(str(name), known, 1)
    return f"did you mean {close[0]!r}?" if close else f"{listing} {', '.join(known)}"


def short(value: object) -> str:
    """A value for an error message: on one line, and not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."

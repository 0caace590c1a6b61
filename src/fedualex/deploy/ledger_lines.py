"""The lines of a ledger: JSON, each with the hash of the line before it, and what a whole file of them says."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from .engine import Arrays
from .secure.summed import is_summed

BEGUN, RELEASE, TORN, ACKNOWLEDGED = "begun", "release", "torn", "acknowledged"
BEGINNING = "0" * 64
"""What the first line is chained to."""


@dataclass(frozen=True)
class Line:
    """One line. A release says what left; the others what happened to the ledger itself."""

    kind: str = RELEASE
    time: str = ""
    run: str = ""
    task: str = ""
    round: int = 0
    nonce: str = ""
    """Of secure sums; empty where all left in the clear."""
    arrays: Mapping[str, list[int]] = field(default_factory=dict)
    """Names and shapes, before masks."""
    size: int = 0
    """Bytes of its numbers."""
    sha256: str = ""
    """Of what left, as `content_digest` has it; of all lines before it where damage was acknowledged."""
    noise: float | None = None
    """The multiplier of the noise in it; None if there is none."""
    epsilon: float | None = None
    """What all noisy releases so far are worth, where the site has a budget."""
    note: str = ""
    previous: str = BEGINNING

    @property
    def released(self) -> bool:
        """Whether something left, or may have left, the site."""
        return self.kind in (RELEASE, TORN)

    @property
    def under_masks(self) -> list[str]:
        """The arrays that left under masks: of an answer in secure sums those that are added up, and no others."""
        return [name for name in self.arrays if self.nonce and is_summed(name)]

    @property
    def in_the_clear(self) -> list[str]:
        """The arrays that left as they are."""
        return [name for name in self.arrays if name not in self.under_masks]

    @property
    def seconds(self) -> float:
        """Its time, in seconds since 1970."""
        return datetime.fromisoformat(self.time).timestamp()

    def worth(self, epsilon: float | None) -> "Line":
        """The same, with what all releases are worth after it."""
        return replace(self, epsilon=epsilon)

    def following(self, previous: str, time: str) -> "Line":
        """The same, chained to a line with this hash."""
        return replace(self, previous=previous, time=time)

    def encoded(self) -> bytes:
        """As it is written."""
        return json.dumps(vars(self), allow_nan=False, separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True)
class Reading:
    """A file of lines as it was read."""

    lines: tuple[Line, ...] = ()
    head: str = BEGINNING
    """The hash of the last line."""
    size: int = 0
    torn: bytes | None = None
    """The last line, if it has no end."""
    damage: str = ""


def read(content: bytes) -> Reading:
    """All lines, and the first thing that is wrong with them after the last acknowledgment."""
    *rows, tail = content.split(b"\n")
    lines, head, damage, unread, position = list[Line](), BEGINNING, "", 0, 0
    first = _parsed(rows[0]) if rows else None
    if first is None or first.kind != BEGUN:
        damage = "its beginning is missing"
    for number, row in enumerate(rows, 1):
        line = _parsed(row)
        if line is None:
            unread = unread or number
        else:
            if line.previous != head:
                damage = damage or f"line {number} does not follow from the line before it"
            if unread and not (line.kind == TORN and unread == number - 1):
                damage = damage or f"line {unread} cannot be read"
            if line.kind == ACKNOWLEDGED and line.sha256 == digest(content[:position]):
                damage = ""
            unread = 0
            lines.append(line)
        head, position = digest(row), position + len(row) + 1
    if unread:
        damage = damage or f"line {unread} cannot be read"
    return Reading(tuple(lines), head, len(content), tail or None, damage)


def digest(content: bytes) -> str:
    """SHA-256."""
    return hashlib.sha256(content).hexdigest()


def content_digest(arrays: Arrays) -> str:
    """SHA-256 of names, dtypes, shapes and bytes of arrays."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode() + b"\n")
        found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def stamp(seconds: float) -> str:
    """A time in UTC as a line has it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _parsed(row: bytes) -> Line | None:
    try:
        found = json.loads(row)
        line = Line(**found) if found.keys() == {one.name for one in fields(Line)} else None
        return line if line is not None and _is_sound(line) else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _is_sound(line: Line) -> bool:
    """Whether what is counted can be counted."""
    noise: Any = line.noise
    words = (line.kind, line.nonce, line.previous, line.sha256, line.task, line.run)
    return (
        all(isinstance(word, str) for word in words)
        and line.seconds > 0
        and (noise is None or (type(noise) is float and noise > 0))
    )

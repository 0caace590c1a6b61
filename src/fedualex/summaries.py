"""What clients add up to: the summary that one client sends, and what those of all clients become."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .validation import short

Known = Mapping[str, NDArray[Any]]
"""A merged summary: arrays by name."""


@dataclass(frozen=True, eq=False)
class Summary:
    """What leaves one client in one exchange: arrays by name, sorted by the rule that merges them.

    sums are added. largest is the greatest of all clients, entry by entry. labels become their sorted union.
    each is kept apart, one row for each client. No name is used twice.
    """

    sums: Mapping[str, Any] = field(default_factory=dict)
    largest: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Any] = field(default_factory=dict)
    each: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The name and shape of everything in it."""
        return {name: np.shape(value) for part in self._parts for name, value in part.items()}

    @property
    def _parts(self) -> tuple[Mapping[str, Any], ...]:
        return self.sums, self.largest, self.labels, self.each


def merged(parts: Sequence[Summary]) -> dict[str, NDArray[Any]]:
    """The summaries of all clients as one, in the order of the clients.

    Sums are added one after the other, so that the same clients in the same order give the same bits anywhere.
    """
    first = parts[0]
    for m, part in enumerate(parts):
        if part.shapes.keys() != first.shapes.keys():
            raise ValueError(f"client {m} must summarize {short(list(first.shapes))}, got {short(list(part.shapes))}")
        _check_shapes(m, part, first)

    def column(kind: str, name: str) -> list[NDArray[Any]]:
        return [np.asarray(getattr(part, kind)[name]) for part in parts]

    found: dict[str, NDArray[Any]] = {name: _added(column("sums", name)) for name in first.sums}
    found |= {name: np.max(column("largest", name), axis=0) for name in first.largest}
    found |= {name: _union(name, column("labels", name)) for name in first.labels}
    return found | {name: np.stack(column("each", name)) for name in first.each}


def _check_shapes(m: int, part: Summary, first: Summary) -> None:
    for name, shape in part.shapes.items():
        if name not in part.labels and shape != first.shapes[name]:
            raise ValueError(f"client {m}: {name} must have the shape {first.shapes[name]} of client 0, got {shape}")


def _added(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    total = np.array(arrays[0])
    for array in arrays[1:]:
        total = np.asarray(total + array)  # of arrays without dimensions numpy makes numbers
    return total


def _union(name: str, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    text = [array.dtype.kind in "US" for array in arrays if array.size]
    if any(text) and not all(text):
        raise TypeError(f"{name} must be labels of one kind, all of them text or none, at all clients; got both")
    return np.unique(np.concatenate([array for array in arrays if array.size] or arrays[:1]))

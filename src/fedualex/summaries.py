"""What clients add up to: the summary that one client sends, and what those of all clients become."""

from collections.abc import Iterable, Mapping, Sequence
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


def merge_summaries(parts: Iterable[Summary]) -> dict[str, NDArray[Any]]:
    """The summaries of all clients as one, in the order of the clients.

    Sums are added one after the other, so that the same clients in the same order give the same bits anywhere, and no
    more than one summary need be there at a time.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    whole: dict[str, NDArray[Any]] = {}
    labels: dict[str, list[NDArray[Any]]] = {}
    each: dict[str, list[NDArray[Any]]] = {}
    for m, part in enumerate(parts):
        shapes = shapes or part.shapes
        _check_shapes(m, part, shapes)
        for name, value in part.sums.items():
            whole[name] = np.asarray(whole[name] + value) if m else np.array(value)
        for name, value in part.largest.items():
            whole[name] = np.asarray(np.maximum(whole[name], value)) if m else np.array(value)
        for name, value in part.labels.items():
            labels.setdefault(name, []).append(np.asarray(value))
        for name, value in part.each.items():
            each.setdefault(name, []).append(np.asarray(value))
    whole |= {name: _union(name, arrays) for name, arrays in labels.items()}
    return whole | {name: np.stack(arrays) for name, arrays in each.items()}


def _check_shapes(m: int, part: Summary, shapes: Mapping[str, tuple[int, ...]]) -> None:
    if part.shapes.keys() != shapes.keys():
        raise ValueError(f"client {m} must summarize {short(list(shapes))}, got {short(list(part.shapes))}")
    for name, shape in part.shapes.items():
        if name not in part.labels and shape != shapes[name]:
            raise ValueError(f"client {m}: {name} must have the shape {shapes[name]} of client 0, got {shape}")


def _union(name: str, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    text = [array.dtype.kind in "US" for array in arrays if array.size]
    if any(text) and not all(text):
        raise TypeError(f"{name} must be labels of one kind, all of them text or none, at all clients; got both")
    return np.unique(np.concatenate([array for array in arrays if array.size] or arrays[:1]))

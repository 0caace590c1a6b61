"""Summaries of clients, and what they have become, as the named arrays that travel."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..summaries import Known, Summary
from .encoding import MessageError, plain
from .engine import Arrays

NAMES = "names"
"""The array that says how the others are called: JSON in UTF-8, for columns may have any name."""
PARTS = tuple(field.name for field in fields(Summary))


def pack_summary(summary: Summary) -> Arrays:
    """The arrays of a summary as PART.0, PART.1, ..., so that whoever only adds sums finds them by their prefix."""
    return _pack({part: getattr(summary, part) for part in PARTS})


def unpack_summary(arrays: Mapping[str, Any]) -> Summary:
    """The summary again; a MessageError if it is none, or holds numbers that are not finite."""
    groups = _unpack(arrays)
    if groups.keys() != set(PARTS):
        raise MessageError(f"a summary must have the parts {', '.join(PARTS)}, got {', '.join(sorted(groups))}")
    return Summary(**groups)


def pack_known(known: Sequence[Known]) -> Arrays:
    """All merged summaries so far, as arrays."""
    return _pack({str(number): part for number, part in enumerate(known)})


def unpack_known(arrays: Mapping[str, Any]) -> list[Known]:
    """The merged summaries again."""
    groups = _unpack(arrays)
    if groups.keys() != {str(number) for number in range(len(groups))}:
        raise MessageError(f"merged summaries must be numbered from 0, got {', '.join(sorted(groups))}")
    return [groups[str(number)] for number in range(len(groups))]


def pack_json(**values: Any) -> Arrays:
    """Plain values, each as one array of bytes."""
    return {name: _bytes(value) for name, value in values.items()}


def unpack_json(arrays: Mapping[str, Any], *names: str) -> list[Any]:
    """The plain values of these names, which must be all that there are."""
    if arrays.keys() != set(names):
        raise MessageError(f"arrays must be {sorted(names)}, got {sorted(arrays)}")
    return [_value(name, arrays[name]) for name in names]


def _pack(groups: Mapping[str, Mapping[str, Any]]) -> Arrays:
    packed, names = {}, {}
    for group, content in groups.items():
        names[group] = [[name, np.asarray(value).dtype.kind == "U"] for name, value in content.items()]
        for number, (name, value) in enumerate(content.items()):
            array = np.asarray(value)
            packed[f"{group}.{number}"] = _bytes(array.tolist()) if array.dtype.kind == "U" else plain(name, array)
    return {NAMES: _bytes(names), **packed}


def _unpack(arrays: Mapping[str, Any]) -> dict[str, dict[str, NDArray[Any]]]:
    if NAMES not in arrays:
        raise MessageError(f"summaries must say how their arrays are called, got {sorted(arrays)}")
    names = _names(_value(NAMES, arrays[NAMES]))
    expected = {f"{group}.{number}" for group, entries in names.items() for number in range(len(entries))}
    if arrays.keys() != {NAMES, *expected}:
        raise MessageError(f"summaries must hold {sorted(expected)}, got {sorted(arrays.keys() - {NAMES})}")
    return {
        group: {name: _array(arrays[f"{group}.{i}"], name, text) for i, (name, text) in enumerate(entries)}
        for group, entries in names.items()
    }


def _names(value: Any) -> dict[str, list[tuple[str, bool]]]:
    try:
        names = {str(group): [(name, text) for name, text in entries] for group, entries in value.items()}
    except (AttributeError, TypeError, ValueError):
        raise MessageError("the names of a summary's arrays are not what they should be") from None
    for entries in names.values():
        if not all(isinstance(name, str) and isinstance(text, bool) for name, text in entries):
            raise MessageError("the names of a summary's arrays must be text")
        if len({name for name, _ in entries}) < len(entries):
            raise MessageError("the names of a summary's arrays must be different")
    return names


def _array(array: Any, name: str, text: bool) -> NDArray[Any]:
    if text:
        return _text(name, _value(name, array))
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        raise MessageError(f"{name!r} must be an array of numbers, got {type(array).__name__}")
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise MessageError(f"{name!r} must be finite")
    return array


def _text(name: str, value: Any) -> NDArray[Any]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise MessageError(f"{name!r} must be a list of texts")
    return np.array(value, str)


def _bytes(value: Any) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value, allow_nan=False).encode(), np.uint8)


def _value(name: str, array: Any) -> Any:
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim != 1:
        raise MessageError(f"{name!r} must be JSON as an array of bytes")
    try:
        return json.loads(array.tobytes(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise MessageError(f"{name!r} cannot be read as JSON") from None


def _refuse(constant: str) -> None:
    raise ValueError(constant)

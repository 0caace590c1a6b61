"""Requests and replies as bytes, the same for every engine: a checksum, a JSON header, the arrays' bytes.

    "FXM1" | SHA-256 of all that follows | length of the header | header | the arrays' bytes, one after the other

The header holds the plain fields of the dataclass by name, and for each field of arrays their names, dtypes and shapes.
Nothing is pickled and nothing compressed: how long a message must be follows from its header, and is compared with how
long it is before anything is allocated.
"""

import hashlib
import json
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from .engine import Arrays, Reply, Request

Message = TypeVar("Message", Request, Reply)

MAGIC = b"FXM1"
PREFIX = struct.Struct("<4s32sI")
CHECKED = 36
"""Where the part of a message begins that its checksum covers."""
LARGEST = 1 << 30
"""Bytes of a message at most."""
LARGEST_HEADER = 1 << 20
NUMBERS = "biufc"
"""The kinds of dtypes that travel: bool, integers, floats, complex numbers."""
MOST_AXES = 32


class MessageError(ValueError):
    """What arrived is not what was asked for; says in one sentence why."""


def request_to_bytes(request: Request) -> bytes:
    """A request as it travels."""
    return _encoded(request)


def request_from_bytes(content: bytes) -> Request:
    """The request in a message; `MessageError` if it is none."""
    return _decoded(Request, content)


def reply_to_bytes(reply: Reply) -> bytes:
    """A reply as it travels."""
    return _encoded(reply)


def reply_from_bytes(content: bytes) -> Reply:
    """The reply in a message; `MessageError` if it is none."""
    return _decoded(Reply, content)


def plain(name: str, value: Any) -> NDArray[Any]:
    """A contiguous array of numbers: objects would need pickle, and bfloat16 would arrive as two raw bytes."""
    array = np.ascontiguousarray(value).reshape(np.shape(value))  # 0-d stays 0-d
    if array.dtype.kind not in NUMBERS:
        raise TypeError(f"the message holds {name!r} of dtype {array.dtype.str!r}; only plain numbers travel")
    return array


def _encoded(message: Request | Reply) -> bytes:
    words, tables = dict[str, Any](), dict[str, Any]()
    parts: list[Any] = []
    hints = get_type_hints(type(message))
    for field in fields(message):
        value = getattr(message, field.name)
        if value is not None and _holds_arrays(hints[field.name]):
            arrays = {name: plain(name, array) for name, array in value.items()}
            tables[field.name] = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
            parts += [array.reshape(-1).view(np.uint8).data for array in arrays.values() if array.size]
        else:
            words[field.name] = value
    header = json.dumps(
        {"kind": type(message).__name__, "words": words, "arrays": tables}, allow_nan=False, separators=(",", ":")
    ).encode()
    size = PREFIX.size + len(header) + sum(part.nbytes for part in parts)
    if len(header) > LARGEST_HEADER or size > LARGEST:
        raise ValueError(f"a message has at most {LARGEST} bytes and a header of {LARGEST_HEADER}, got {size}")
    rest = [PREFIX.pack(MAGIC, b"", len(header))[CHECKED:], header, *parts]
    return b"".join([MAGIC, _checksum(*rest), *rest])


def _decoded(kind: type[Message], content: bytes) -> Message:
    try:
        return _read(kind, content)
    except MessageError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MessageError(f"a malformed message: {type(error).__name__}") from None


def _read(kind: type[Message], content: bytes) -> Message:
    if not PREFIX.size <= len(content) <= LARGEST:
        raise MessageError(f"a message has {PREFIX.size} to {LARGEST} bytes, got {len(content)}")
    magic, checksum, length = PREFIX.unpack_from(content)
    if magic != MAGIC or checksum != _checksum(memoryview(content)[CHECKED:]):
        raise MessageError("not a message of fedualex, or one that was damaged on its way")
    end = PREFIX.size + length
    if length > LARGEST_HEADER or end > len(content):
        raise MessageError(f"a header has at most {LARGEST_HEADER} bytes, all of them in the message, got {length}")
    header = json.loads(content[PREFIX.size : end], object_pairs_hook=_table, parse_constant=_no_constant)
    if not isinstance(header, dict) or header.keys() != {"kind", "words", "arrays"} or header["kind"] != kind.__name__:
        raise MessageError(f"a {kind.__name__.lower()} was expected, and something else came")
    hints = get_type_hints(kind)
    values = _check_words(header["words"], hints) | _arrays_of(header["arrays"], hints, content, end)
    if values.keys() != hints.keys():
        raise MessageError(f"a {kind.__name__.lower()} has the fields {sorted(hints)}, got {sorted(values)}")
    return kind(**values)


def _check_words(words: dict[str, Any], hints: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in words.items():
        if name not in hints or not _matches(value, hints[name]):
            raise MessageError(f"the message's {name[:40]!r} is not what it must be")
    return words


def _arrays_of(tables: dict[str, list[Any]], hints: Mapping[str, Any], content: bytes, start: int) -> dict[str, Arrays]:
    """The arrays of every field; together they are as long as the rest of the message, to the byte."""
    listed = [
        (field, name, _dtype(kind), _shape(shape)) for field, rows in tables.items() for name, kind, shape in rows
    ]
    if not all(_holds_arrays(hints[field]) for field in tables):
        raise MessageError("the message has arrays where none belong")
    if start + sum(dtype.itemsize * math.prod(shape) for _, _, dtype, shape in listed) != len(content):
        raise MessageError("the message is longer or shorter than its header says")
    found: dict[str, Arrays] = {field: {} for field in tables}
    for field, name, dtype, shape in listed:
        if not isinstance(name, str) or name in found[field]:
            raise MessageError("the names of arrays in a message are words, each once")
        count = math.prod(shape)
        found[field][name] = np.frombuffer(content, dtype, count, start).reshape(shape).copy()
        start += dtype.itemsize * count
    return found


def _dtype(text: Any) -> np.dtype[Any]:
    dtype = np.dtype(text) if isinstance(text, str) and re.fullmatch(f"[<>|][{NUMBERS}][0-9]{{1,2}}", text) else None
    if dtype is None or dtype.str != text:
        raise MessageError(f"arrays of plain numbers travel, got dtype {str(text)[:40]!r}")
    return dtype


def _shape(axes: Any) -> tuple[int, ...]:
    if (
        not isinstance(axes, list)
        or len(axes) > MOST_AXES
        or not all(type(n) is int and 0 <= n <= LARGEST for n in axes)
    ):
        raise MessageError(f"a shape has at most {MOST_AXES} axes of 0 to {LARGEST} entries, got {str(axes)[:40]}")
    return tuple(axes)


def _matches(value: Any, hint: Any) -> bool:
    """Whether a value from JSON is of an annotated type: words, numbers, and lists, tables and unions of them."""
    inner = get_args(hint)
    if isinstance(hint, UnionType):
        return any(_matches(value, one) for one in inner)
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_matches(item, inner[0]) for item in value)
    if get_origin(hint) is dict:
        return isinstance(value, dict) and all(_matches(item, inner[1]) for item in value.values())
    return hint in (str, int, float, bool, NoneType) and type(value) is hint


def _holds_arrays(hint: Any) -> bool:
    return hint == Arrays or Arrays in get_args(hint)


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise MessageError("the message's header says the same thing twice")
    return found


def _no_constant(name: str) -> Any:
    raise MessageError(f"the message's header holds {name}")


def _checksum(*parts: bytes | memoryview) -> bytes:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.digest()

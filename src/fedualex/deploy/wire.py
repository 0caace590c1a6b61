"""What every engine carries: arrays as bytes, messages, summaries, and how answers are added."""

import hashlib
import json
import logging
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from types import NoneType, UnionType
from typing import Any, Protocol, TypeVar, get_args, get_origin, get_type_hints, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import __version__, tree
from ..arrays import Reals, Values
from ..display import visible
from ..runtime.state import Setup
from ..runtime.status import Code, Failure
from ..storage import is_disk_full
from ..summaries import Known, Summary
from ..tree import Tree
from .engine import NO_ANSWER, Arrays, Carrier, RefusedError, Reply, Request, failure_reply

# Requests and replies as bytes, the same for every engine: a checksum, a JSON header, the arrays' bytes.
#
#     "FXM3" | SHA-256 of all that follows | length of the header | header | the arrays' bytes, one after the other
#
# The header holds the plain fields of the dataclass by name, and for each field of arrays their names, dtypes and
# shapes. Nothing is pickled and nothing compressed: how long a message must be follows from its header, and is compared
# with how long it is before anything is allocated.


Message = TypeVar("Message", Request, Reply)

MAGIC = b"FXM3"
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

    code = Code.MALFORMED


class OtherVersionError(MessageError):
    """A message in the format of another version, which cannot be read."""

    code = Code.OTHER_VERSION


def request_to_bytes(request: Request) -> bytes:
    """A request as it travels."""
    return _encode(request)


def request_from_bytes(content: bytes) -> Request:
    """The request in a message; `MessageError` if it is none."""
    return _decode(Request, content)


def reply_to_bytes(reply: Reply) -> bytes:
    """A reply as it travels."""
    return _encode(reply)


def reply_from_bytes(content: bytes) -> Reply:
    """The reply in a message; `MessageError` if it is none."""
    return _decode(Reply, content)


def as_plain(name: str, value: Any) -> NDArray[Any]:
    """A contiguous array of numbers: objects would need pickle, and bfloat16 would arrive as two raw bytes."""
    array = np.ascontiguousarray(value).reshape(np.shape(value))  # 0-d stays 0-d
    if array.dtype.kind not in NUMBERS:
        raise TypeError(f"the message holds {name!r} of dtype {array.dtype.str!r}; only plain numbers travel")
    return array


def _encode(message: Request | Reply) -> bytes:
    words, tables = dict[str, Any](), dict[str, Any]()
    parts: list[Any] = []
    hints = get_type_hints(type(message))
    for field in fields(message):
        value = getattr(message, field.name)
        if value is not None and _holds_arrays(hints[field.name]):
            arrays = {name: as_plain(name, array) for name, array in value.items()}
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


def _decode(kind: type[Message], content: bytes) -> Message:
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
    if magic != MAGIC and magic[:3] == MAGIC[:3]:
        raise OtherVersionError(f"a message of another version of fedualex than the {__version__} that is here")
    if magic != MAGIC or checksum != _checksum(memoryview(content)[CHECKED:]):
        raise MessageError("not a message of fedualex, or one that was damaged on its way")
    end = PREFIX.size + length
    if length > LARGEST_HEADER or end > len(content):
        raise MessageError(f"a header has at most {LARGEST_HEADER} bytes, all of them in the message, got {length}")
    header = json.loads(content[PREFIX.size : end], object_pairs_hook=_unique_table, parse_constant=_no_constant)
    if not isinstance(header, dict) or header.keys() != {"kind", "words", "arrays"} or header["kind"] != kind.__name__:
        raise MessageError(f"a {kind.__name__.lower()} was expected, and something else came")
    hints = get_type_hints(kind)
    values = _check_words(header["words"], hints) | _read_arrays(header["arrays"], hints, content, end)
    if values.keys() != hints.keys():
        raise MessageError(f"a {kind.__name__.lower()} has the fields {sorted(hints)}, got {sorted(values)}")
    return kind(**values)


def _check_words(words: dict[str, Any], hints: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in words.items():
        if name not in hints or not _matches(value, hints[name]):
            raise MessageError(f"the message's {name[:40]!r} is not what it must be")
    return words


def _read_arrays(
    tables: dict[str, list[Any]], hints: Mapping[str, Any], content: bytes, start: int
) -> dict[str, Arrays]:
    """The arrays of every field; together they are as long as the rest of the message, to the byte."""
    listed = [
        (field, name, _dtype(kind), _shape(shape)) for field, rows in tables.items() for name, kind, shape in rows
    ]
    if not all(_holds_arrays(hints[field]) for field in tables):
        raise MessageError("the message has arrays where none belong")
    if start + sum(dtype.itemsize * math.prod(shape) for _, _, dtype, shape in listed) != len(content):
        raise MessageError("the message is longer or shorter than its header says")
    arrays: dict[str, Arrays] = {field: {} for field in tables}
    for field, name, dtype, shape in listed:
        if not isinstance(name, str) or name in arrays[field]:
            raise MessageError("the names of arrays in a message are words, each once")
        count = math.prod(shape)
        arrays[field][name] = np.frombuffer(content, dtype, count, start).reshape(shape).copy()
        start += dtype.itemsize * count
    return arrays


def _dtype(text: object) -> np.dtype[Any]:
    dtype = np.dtype(text) if isinstance(text, str) and re.fullmatch(f"[<>|][{NUMBERS}][0-9]{{1,2}}", text) else None
    if dtype is None or dtype.str != text:
        raise MessageError(f"arrays of plain numbers travel, got dtype {str(text)[:40]!r}")
    return dtype


def _shape(axes: object) -> tuple[int, ...]:
    if (
        not isinstance(axes, list)
        or len(axes) > MOST_AXES
        or not all(type(n) is int and 0 <= n <= LARGEST for n in axes)
    ):
        raise MessageError(f"a shape has at most {MOST_AXES} axes of 0 to {LARGEST} entries, got {str(axes)[:40]}")
    return tuple(axes)


def _matches(value: object, hint: object) -> bool:
    """Whether a value from JSON is of an annotated type: words, numbers, and lists, tables and unions of them."""
    inner = get_args(hint)
    if isinstance(hint, UnionType):
        return any(_matches(value, one) for one in inner)
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_matches(item, inner[0]) for item in value)
    if get_origin(hint) is dict:
        return isinstance(value, dict) and all(_matches(item, inner[1]) for item in value.values())
    return hint in (str, int, float, bool, NoneType) and type(value) is hint


def _holds_arrays(hint: object) -> bool:
    return hint == Arrays or Arrays in get_args(hint)


def _unique_table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise MessageError("the message's header says the same thing twice")
    return table


def _no_constant(name: str) -> Any:
    raise MessageError(f"the message's header holds {name}")


def _checksum(*parts: bytes | memoryview) -> bytes:
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.digest()


class NotFiniteError(MessageError):
    """The right arrays, with nan or infinity in them."""

    code = Code.NOT_FINITE


def pack(**trees: Tree) -> Arrays:
    """The leaves of each tree as numpy arrays, under the tree's name and the path to the leaf."""
    return {key: np.asarray(leaf) for name, content in trees.items() for key, leaf in _name_leaves(name, content)}


def unpack(arrays: Mapping[str, Values], **likes: Tree) -> dict[str, Tree]:
    """The trees of these shapes: exactly their keys, shapes and dtypes, and finite numbers only."""
    expected = {key: leaf for name, like in likes.items() for key, leaf in _name_leaves(name, like)}
    if arrays.keys() != expected.keys():
        missing, more = sorted(expected.keys() - arrays.keys()), sorted(arrays.keys() - expected.keys())
        raise MessageError(f"arrays must be {sorted(expected)}; missing {missing}, not asked for {more}")
    for name, like in expected.items():
        _check(name, arrays[name], like)
    return {
        name: jax.tree.unflatten(jax.tree.structure(like), [arrays[key] for key, _ in _name_leaves(name, like)])
        for name, like in likes.items()
    }


def make_reader(**likes: Tree) -> Callable[[Mapping[str, Any]], dict[str, Tree]]:
    """The function that unpacks trees of these shapes."""
    return lambda arrays: unpack(arrays, **likes)


def size_of(arrays: Arrays) -> int:
    """The bytes of the numbers in it."""
    return sum(getattr(array, "nbytes", 0) for array in arrays.values())


def _name_leaves(name: str, content: Tree) -> list[tuple[str, Any]]:
    """Leaves as a user would type them, such as `server.omega.x`; a tree that is one array has its name alone."""
    return [(f"{name}.{path}" if path else name, leaf) for path, leaf in tree.leaves_with_names(content)]


def _check(name: str, array: Any, like: Any) -> None:
    if not isinstance(array, np.ndarray) or array.shape != like.shape or array.dtype != like.dtype:
        got = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise MessageError(f"{name} must be {like.dtype} of shape {like.shape}, got {got}")
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise NotFiniteError(
            f"{name} must be finite, but {int(np.sum(~np.isfinite(array)))} entries are nan or infinite"
        )


# Both ends of what engines carry: requests out of the loop and replies into it, and a site's answer to a request.


log = logging.getLogger(__name__)

Work = Callable[[Request], Arrays]
"""What a site does with a request."""
LONGEST_REASON = 300


@runtime_checkable
class Worker(Protocol):
    """A site, as an engine sees it."""

    @property
    def work(self) -> Work: ...


class CarriedEngine:
    """The loop's engine above anything that carries bytes. Sites are not trusted: what cannot be read is an error."""

    def __init__(self, carrier: Carrier):
        self.carrier = carrier

    def sites(self) -> list[str]:
        """The sites that can be reached."""
        return self.carrier.sites()

    def broadcast(self, request: Request, sites: Sequence[str], timeout: float) -> list[Reply]:
        """One reply of each site, in their order."""
        answers = self.carrier.carry(request_to_bytes(request), sites, timeout)
        return [_reply(site, answers.get(site, NO_ANSWER), request) for site in sites]

    def stopped(self) -> bool:
        """Whether the engine was asked to end the run."""
        return self.carrier.stopped()

    def close(self) -> None:
        """Let go of what carries."""
        self.carrier.close()


def answer(work: Work, message: bytes) -> bytes:
    """A site's answer to a message: what its work gives, or an error.

    Of an exception its kind alone leaves the site, for its text may quote data; the text goes to the site's own log. A
    `RefusedError` is a decision, and its reason is told.
    """
    try:
        request = request_from_bytes(message)
    except MessageError as error:
        log.warning("a message is refused: %s", error)
        return reply_to_bytes(failure_reply("", 0, "", Failure(error.code, f"malformed request: {error}")))
    try:
        _check_version(request)
        arrays = work(request)
        return reply_to_bytes(Reply("", request.round, request.run_id, arrays))
    except RefusedError as error:
        log.warning("%s %d is refused: %s", request.task, request.round, error)
        why = Failure(error.code, f"refused: {error}")
    except Exception as error:
        log.exception("%s %d failed", request.task, request.round)
        raised = Failure(Code.RAISED, f"the site raised {type(error).__name__} (its log says more)")
        why = DISK_FULL if is_disk_full(error) else raised
    return reply_to_bytes(failure_reply("", request.round, request.run_id, why))


def _check_version(request: Request) -> None:
    """Refuse to work with another version, whose summaries and masks may be others."""
    if request.version != __version__:
        text = f"the server runs fedualex {request.version[:40]}, and this site {__version__}"
        raise RefusedError(text, Code.OTHER_VERSION)


DISK_FULL = Failure(Code.DISK_FULL, "the disk of this site is full, so that nothing leaves it")


def make_answerer(load: Callable[[], Worker]) -> Callable[[bytes], bytes]:
    """The function that answers messages for a site, which is loaded now; one that cannot be loaded always refuses."""
    try:
        work: Work = load().work
    except Exception as error:
        log.exception("the site cannot be loaded")
        column = getattr(error, "column", "")  # whose name leaves a site before a run anyway
        where = f" in the column {column!r}" if column else ""
        reason = f"the site cannot be loaded: {type(error).__name__}{where} (its log says more)"

        def work(request: Request) -> Arrays:
            raise RefusedError(reason, Code.NOT_LOADED)

    return lambda message: answer(work, message)


def _reply(site: str, answer: bytes | Failure, request: Request) -> Reply:
    if isinstance(answer, Failure):
        return failure_reply(site, request.round, request.run_id, replace(answer, text=one_line(answer.text)))
    try:
        reply = reply_from_bytes(answer)
    except MessageError as error:
        return failure_reply(site, request.round, request.run_id, Failure(error.code, f"malformed reply: {error}"))
    return replace(reply, site=site, error=None if reply.error is None else one_line(reply.error))


def one_line(words: str) -> str:
    """On one line, not too long and without control characters, whatever a site sends: it goes to the log."""
    return visible(" ".join(words.split())[:LONGEST_REASON])


# Summaries of clients, and what they have become, as the named arrays that travel.


NAMES = "names"
"""The array that says how the others are called: JSON in UTF-8, for columns may have any name."""
PARTS = tuple(field.name for field in fields(Summary))


def pack_summary(summary: Summary) -> Arrays:
    """The arrays of a summary as PART.0, PART.1, ..., so that whoever only adds sums finds them by their prefix."""
    return _pack({part: getattr(summary, part) for part in PARTS})


def unpack_summary(arrays: Mapping[str, Values]) -> Summary:
    """The summary again; a MessageError if it is none, or holds numbers that are not finite."""
    groups = _unpack(arrays)
    if groups.keys() != set(PARTS):
        raise MessageError(f"a summary must have the parts {', '.join(PARTS)}, got {', '.join(sorted(groups))}")
    return Summary(**groups)


def pack_known(known: Sequence[Known]) -> Arrays:
    """All merged summaries so far, as arrays."""
    return _pack({str(number): part for number, part in enumerate(known)})


def unpack_known(arrays: Mapping[str, Values]) -> list[Known]:
    """The merged summaries again."""
    groups = _unpack(arrays)
    if groups.keys() != {str(number) for number in range(len(groups))}:
        raise MessageError(f"merged summaries must be numbered from 0, got {', '.join(sorted(groups))}")
    return [groups[str(number)] for number in range(len(groups))]


def pack_json(**values: object) -> Arrays:
    """Plain values, each as one array of bytes."""
    return {name: _bytes(value) for name, value in values.items()}


def unpack_json(arrays: Mapping[str, Values], *names: str) -> list[Any]:
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
            packed[f"{group}.{number}"] = _bytes(array.tolist()) if array.dtype.kind == "U" else as_plain(name, array)
    return {NAMES: _bytes(names), **packed}


def _unpack(arrays: Mapping[str, Values]) -> dict[str, dict[str, NDArray[Any]]]:
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


def _array(array: object, name: str, text: bool) -> Values:
    if text:
        return _text(name, _value(name, array))
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        raise MessageError(f"{name!r} must be an array of numbers, got {type(array).__name__}")
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise MessageError(f"{name!r} must be finite")
    return array


def _text(name: str, value: object) -> Values:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise MessageError(f"{name!r} must be a list of texts")
    return np.array(value, str)


def _bytes(value: object) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value, allow_nan=False).encode(), np.uint8)


def _value(name: str, array: object) -> Any:
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim != 1:
        raise MessageError(f"{name!r} must be JSON as an array of bytes")
    try:
        return json.loads(array.tobytes(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise MessageError(f"{name!r} cannot be read as JSON") from None


def _refuse(constant: str) -> None:
    raise ValueError(constant)


# How the answers of sites are added up: which factor each has, and who multiplies by it.


Factors = Callable[[str], Mapping[str, float]]
"""For a task, what the arrays of a site are multiplied by before they are added, by the first parts of their names."""


def round_factors(setup: Setup, weights: ArrayLike, ids: Sequence[int]) -> dict[str, Reals]:
    """What the arrays of each of these sites in a round are multiplied by before they are added, by their names."""
    kind, p = np.dtype(setup.weights.dtype), np.asarray(weights)
    a, steps = (p / p.sum()).astype(kind), np.asarray(setup.steps)[list(ids)].astype(kind)
    scaled = a * (a @ steps) / steps  # increments count a step of everybody alike (unequal local steps)
    factors = dict.fromkeys(("message", "points", "point_weight"), scaled)
    return factors | dict.fromkeys(("probes", "probe_weights", "shares"), a)


def own_factors(setup: Setup, weights: Reals, site: int) -> dict[str, float]:
    """The factors of one site in exchanges that all sites take part in, surveys included."""
    in_rounds = round_factors(setup, weights, range(len(weights)))
    factors = {name: float(each[site]) for name, each in in_rounds.items()}
    return factors | dict.fromkeys(("operators", "values", "curvature", "cuts", "errors"), float(weights[site]))


class Adder:
    """Adds up replies. weighted: whether each site has multiplied by its factor, as in secure sums."""

    def __init__(self, weighted: bool):
        self.weighted = weighted

    def make_reader(self, **likes: Tree) -> Callable[[Mapping[str, Any]], dict[str, Tree]]:
        """The function that reads replies with trees of these shapes; secure sums are always float64."""
        dtype = jnp.float64 if self.weighted else None
        shapes = {
            name: jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, dtype or leaf.dtype), like)
            for name, like in likes.items()
        }
        return make_reader(**shapes)

    def total(self, factors: Sequence[float] | Reals, trees: Sequence[Tree], like: Tree) -> Tree:
        """sum_i factor_i tree_i, in the precision of `like`, in the order of the trees."""
        own = np.ones(len(trees)) if self.weighted else factors

        def add(shape: Any, *leaves: Any) -> Reals:
            total = sum(leaf.dtype.type(f) * leaf for f, leaf in zip(own, leaves, strict=True))
            return np.asarray(total, shape.dtype)

        return jax.tree.map(add, like, *trees)

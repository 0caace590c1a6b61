"""Pytrees as named arrays and back, with every check that a message from elsewhere needs."""

import io
import threading
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..tree import Tree
from .engine import Arrays

one_reader = threading.Lock()
"""numpy reads its headers by `ast.literal_eval`, which on Python 3.11 fails now and then in two threads at once."""


class MessageError(ValueError):
    """What arrived is not what was asked for; says in one sentence why."""


class NotFiniteError(MessageError):
    """The right arrays, with nan or infinity in them."""


def pack(**trees: Tree) -> Arrays:
    """The leaves of each tree as numpy arrays, under the tree's name and the path to the leaf."""
    return {key: np.asarray(leaf) for name, content in trees.items() for key, leaf in _named(name, content)}


def unpack(arrays: Mapping[str, Any], **likes: Tree) -> dict[str, Tree]:
    """The trees of these shapes: exactly their keys, shapes and dtypes, and finite numbers only."""
    expected = {key: leaf for name, like in likes.items() for key, leaf in _named(name, like)}
    if arrays.keys() != expected.keys():
        missing, more = sorted(expected.keys() - arrays.keys()), sorted(arrays.keys() - expected.keys())
        raise MessageError(f"arrays must be {sorted(expected)}; missing {missing}, not asked for {more}")
    for name, like in expected.items():
        _check(name, arrays[name], like)
    return {
        name: jax.tree.unflatten(jax.tree.structure(like), [arrays[key] for key, _ in _named(name, like)])
        for name, like in likes.items()
    }


def reading(**likes: Tree) -> Callable[[Mapping[str, Any]], dict[str, Tree]]:
    """`unpack` for trees of these shapes."""
    return lambda arrays: unpack(arrays, **likes)


def to_bytes(arrays: Arrays) -> bytes:
    """Arrays in numpy's own format, without pickle."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def from_bytes(content: bytes) -> Arrays:
    """Arrays from numpy's own format; objects are refused."""
    with one_reader, np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def plain(name: str, value: Any, where: str = "the message") -> NDArray[Any]:
    """A contiguous array of numbers: objects would need pickle, and bfloat16 arrives as two raw bytes."""
    array = np.ascontiguousarray(value).reshape(np.shape(value))  # 0-d stays 0-d
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{where} holds {name!r} of dtype {array.dtype.str!r}; only plain numbers travel")
    return array


def size_of(arrays: Arrays) -> int:
    """The bytes of the numbers in it."""
    return sum(getattr(array, "nbytes", 0) for array in arrays.values())


def _named(name: str, content: Tree) -> list[tuple[str, Any]]:
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

"""Pytrees as named arrays and back, with every check that a message from elsewhere needs."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from .. import tree
from ..tree import Tree
from .encoding import MessageError
from .engine import Arrays


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

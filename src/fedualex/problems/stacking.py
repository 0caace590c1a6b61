"""Unequal clients stacked into one pytree, padded to one of a few lengths."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ..tree import Tree, is_floating
from ..validation import plain_array, short
from .data import ELSEWHERE, Clients, objective_weights
from .sparse_row import same_width

FEW = 2**12
"""Rows of all clients together whose padding costs next to nothing."""


def problem_data(data: Sequence[Tree] | str | None, weights: object) -> "tuple[Clients | None, NDArray[Any]]":
    """What `Problem` was given as data= and weights=, checked."""
    if isinstance(data, str) and data == "elsewhere":
        if not (isinstance(weights, str) and weights == "clients"):
            raise ValueError(f"weights={short(weights)} of clients elsewhere: they belong to the deployment")
        return ELSEWHERE, np.zeros(0)
    stacked = None if data is None else stack_clients(data)
    return stacked, objective_weights(weights, None if stacked is None else stacked.counts)


def stack_clients(data: Sequence[Tree] | str) -> Clients:
    """A list of client pytrees as one `Clients`, or a clear refusal."""
    if not isinstance(data, list | tuple) or not data:
        raise TypeError(f"data must be a nonempty list with one pytree of arrays for each client, got {short(data)}")
    structure = jax.tree.structure(data[0])
    if not jax.tree.leaves(data[0]):
        raise TypeError(f"data[0] must be a pytree of arrays, got {short(data[0])}")
    counts = np.array([_count_examples(m, client, structure) for m, client in enumerate(data)])
    data, length = same_width(data), padded_length(int(counts.max()), len(counts))

    def stack(path: Any, *leaves: Any) -> NDArray[Any]:
        name = jax.tree_util.keystr(path)
        arrays = [_checked(f"data[{m}]{name}", leaf) for m, leaf in enumerate(leaves)]
        shapes = {array.shape[1:] for array in arrays}
        if len(shapes) > 1:
            raise ValueError(f"data[m]{name} must have examples of one shape for all clients, got {sorted(shapes)}")
        stacked = np.empty((len(arrays), length, *arrays[0].shape[1:]), np.result_type(*arrays))
        for own, array in zip(stacked, arrays, strict=True):
            own[: len(array)], own[len(array) :] = array, array[:1]
        return stacked

    return Clients(jax.tree_util.tree_map_with_path(stack, data[0], *data[1:]), counts)


def padded_length(longest: int, clients: int) -> int:
    """The next of a few lengths, so that data of almost the same size, as folds are, need not compile again.

    At most an eighth more than the longest client; a multiple of 8 where all clients have few rows together, because
    a program takes longer to compile than the padding to compute.
    """
    step = 2 ** max(0, longest.bit_length() - 4)
    step = max(8, step) if longest >= 8 and clients * longest <= FEW else step
    return -(-longest // step) * step


def _count_examples(m: int, client: Tree, structure: Any) -> int:
    if jax.tree.structure(client) != structure or not jax.tree.leaves(client):
        raise ValueError(f"data[{m}] must have the structure of data[0], {short(structure)}, got {short(client)}")
    counts = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(client)}
    if len(counts) != 1 or () in counts:
        raise ValueError(
            f"data[{m}] must hold arrays with its examples along the first axis, as many in each, got shapes "
            f"{[np.shape(leaf) for leaf in jax.tree.leaves(client)]}"
        )
    (count,) = counts.pop()
    if count == 0:
        raise ValueError(f"data[{m}] is empty: every client needs at least one example")
    return int(count)


def _checked(name: str, leaf: Any) -> NDArray[Any]:
    array = plain_array(name, leaf)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be an array of numbers, got dtype {array.dtype}")
    if is_floating(array) and not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, but {int(np.sum(~np.isfinite(array)))} entries are nan or infinite")
    return array

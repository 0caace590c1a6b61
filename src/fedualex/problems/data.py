"""Client data: unequal clients stacked into one pytree, and the weights of the objective."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..tree import Tree, is_floating
from ..validation import plain_array, real_array, short
from .sparse_row import same_width

WEIGHTS = "'clients', 'samples' or one number for each client"
"""What is accepted as the weights of the clients."""

FEW = 2**12
"""Rows of all clients together whose padding costs next to nothing."""


class Clients(eqx.Module):
    """Examples of shape (clients, length, ...) and how many of them each client really has.

    Clients are padded with copies of their own first example, which is as safe to evaluate as the rest; the padding has
    weight 0. length is `padded_length` of the longest client.
    """

    examples: Tree
    counts: Any

    def shares(self) -> Array:
        """The weight of each example in its client's mean: 1 / count, and 0 for padding."""
        counts = jnp.asarray(self.counts)[..., None]
        length = jax.tree.leaves(self.examples)[0].shape[jnp.ndim(self.counts)]
        return jnp.where(jnp.arange(length) < counts, 1 / counts, 0.0)

    def of(self, m: int) -> "Clients":
        """Client m alone."""
        own: Clients = jax.tree.map(lambda leaf: leaf[m : m + 1], self)
        return own

    def pooled(self, weights: Any) -> tuple[Tree, Array]:
        """The examples of all clients along one axis, and the weight of each in the objective."""
        if not self.counts.size:
            raise TypeError("the data of this problem is elsewhere, so its loss and operator cannot be computed here")
        every = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.examples)
        return every, (jnp.asarray(weights)[:, None] * self.shares()).ravel()

    def minibatch(self, size: int, key: Array) -> Tree:
        """Examples of one client, drawn uniformly with replacement."""
        drawn = jax.random.randint(key, (size,), 0, self.counts)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[drawn], self.examples)

    def sampled(self, examples: int, rng: np.random.Generator) -> "Clients | None":
        """About so many examples, as many of each client, drawn with replacement; None if there are no more."""
        each = max(1, examples // max(1, self.counts.size))
        if jax.tree.leaves(self.examples)[0].shape[1] <= each:
            return None
        drawn = rng.integers(0, np.asarray(self.counts)[:, None], (self.counts.size, each))
        few = jax.tree.map(lambda leaf: np.asarray(leaf)[np.arange(len(drawn))[:, None], drawn], self.examples)
        return Clients(few, np.full(len(drawn), each))


ELSEWHERE = Clients(None, np.zeros(0, int))
"""No examples of no client."""


def problem_data(data: Sequence[Tree] | str | None, weights: Any) -> "tuple[Clients | None, NDArray[Any]]":
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


def objective_weights(weights: Any, counts: NDArray[Any] | None) -> NDArray[Any]:
    """p, summing to 1: from "clients", "samples" or one nonnegative number a client."""
    sizes = np.ones(1) if counts is None else counts
    if isinstance(weights, str):
        if weights not in ("clients", "samples"):
            raise ValueError(f"weights must be {WEIGHTS}, got {weights!r}")
        p = np.ones(sizes.size) if weights == "clients" else sizes.astype(float)
    else:
        p = real_array("weights", weights, WEIGHTS)
    if p.shape != sizes.shape or np.any(p < 0) or not np.any(p > 0):
        raise ValueError(
            f"weights must be {sizes.size} numbers >= 0 with a positive sum, one for each client, got {short(weights)}"
        )
    p = p / p.max()  # whose sum is finite
    return p / p.sum()


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

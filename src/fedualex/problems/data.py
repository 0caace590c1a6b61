"""Client data: unequal clients stacked into one pytree, and the weights of the objective."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..tree import Tree
from ..validation import real_array, short

WEIGHTS = "'clients', 'samples' or one number for each client"
"""What is accepted as the weights of the clients."""


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

    def weighted(self, weights: Any) -> tuple[Tree, Array]:
        """The examples by client, and the weight of each in the objective."""
        if not self.counts.size:
            raise TypeError("the data of this problem is elsewhere, so its loss and operator cannot be computed here")
        return self.examples, jnp.asarray(weights)[:, None] * self.shares()

    def pooled(self, weights: Any) -> tuple[Tree, Array]:
        """The same along one axis."""
        every, share = self.weighted(weights)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), every), share.ravel()

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


def objective_weights(weights: object, counts: NDArray[Any] | None) -> NDArray[Any]:
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

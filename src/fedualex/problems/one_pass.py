"""f and its gradient over many examples in one pass: what does not fit into a cache is read once and used twice."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..tree import Saddle, Tree
from .user_loss import weighted_loss

BLOCK = 160 * 2**10
"""Bytes of examples that stay in a core's cache between a product with them and one with their transpose."""

LEAST_ROWS = 32
"""A block of fewer examples costs more to begin than it saves."""

LARGE = 2**22
"""Bytes of examples from which on blocks are worth their while."""


def loss_and_gradient(problem: Any, z: Saddle) -> tuple[Array, Saddle]:
    """f = sum_mi share_mi f(x, y, example_mi) of a `Problem`, and its gradient at z.

    Blocks have the next examples of every client, so that clients may be spread over devices.
    """
    if problem.data is None:
        alone: tuple[Array, Saddle] = jax.value_and_grad(problem.loss)(z)
        return alone
    examples, share = problem.data.weighted(problem.weights)

    def of(part: tuple[Tree, Array]) -> tuple[Array, Saddle]:
        every, weight = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), part)
        found: tuple[Array, Saddle] = jax.value_and_grad(lambda at: weighted_loss(problem.f, at, every, weight))(z)
        return found

    whole = jax.tree.map(jnp.asarray, (examples, share))
    rows = rows_of_a_block(z, examples)
    if rows is None:
        return of(whole)

    def add(block: Array, total: Any) -> Any:
        part = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, block * rows, rows, axis=1), whole)
        return jax.tree.map(jnp.add, total, of(part))

    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(of, whole))
    found: tuple[Array, Saddle] = jax.lax.fori_loop(0, share.shape[1] // rows, add, nothing)
    return found


def rows_of_a_block(z: Saddle, examples: Tree) -> int | None:
    """How many examples of each client a block has; None if all are better taken at once.

    The largest power of two that divides the length with at most BLOCK bytes of examples. A block adds to every entry
    of the gradient, so z may have no more bytes than the block.
    """
    leaves = jax.tree.leaves(examples)
    clients, length = leaves[0].shape[:2]
    each = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves) / length
    rows = length & -length
    while rows * each > BLOCK and rows > 1:
        rows //= 2
    few = rows * clients < LEAST_ROWS or each * length < LARGE or rows * each > BLOCK
    return None if few or sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(z)) > BLOCK else rows

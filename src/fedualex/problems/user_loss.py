"""A user's own loss: its operator, and a look at what it is given and returns before any run."""

import traceback
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import tree
from ..precision import double
from ..tree import Saddle, Tree, is_floating
from ..validation import any_real_array, short


def saddle_gradient(loss: Callable[[Saddle], Array], z: Saddle) -> Saddle:
    """(grad_x, -grad_y) of a loss."""
    return operator_of(jax.grad(loss)(z))


def operator_of(gradient: Saddle) -> Saddle:
    """(grad_x, -grad_y) from the gradient."""
    return Saddle(gradient.x, jax.tree.map(jnp.negative, gradient.y))


def of_example(f: Callable[..., Any], z: Saddle, *example: Tree) -> Array:
    """f(x, y, example), or without y or an example."""
    value: Array = f(z.x, *example) if z.y is None else f(z.x, z.y, *example)
    return value


def weighted_loss(f: Callable[..., Any], z: Saddle, examples: Tree, share: Array) -> Array:
    """sum_i share_i f(x, y, example_i)."""
    return jnp.vdot(share, jax.vmap(lambda example: of_example(f, z, example))(examples))


def check_loss(f: Callable[..., Any], like: Saddle, examples: Tree | None) -> None:
    """One abstract evaluation on one example, so that a wrong f is found here and not inside a run.

    examples: of all clients, by client; None if f takes none.
    """
    example = () if examples is None else (jax.tree.map(lambda leaf: leaf[0, 0], examples),)

    def loss(z: Saddle) -> Array:
        if not example:
            return of_example(f, z)
        one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], example[0])
        return weighted_loss(f, z, one, jnp.ones(1))

    arguments = "(x, y" if like.y is not None else "(x"
    call = f"f{arguments}{', example)' if example else ')'}"
    try:
        result = jax.eval_shape(partial(of_example, f), like, *example)
    except Exception as error:  # whatever f raises, the user should see where and on what
        raise TypeError(f"{call} could not be evaluated on arrays shaped as `like`: {_cause(f, error)}") from None
    shapes = [getattr(leaf, "shape", None) for leaf in jax.tree.leaves(result)]
    if shapes != [()] or not is_floating(jax.tree.leaves(result)[0]):
        raise ValueError(f"{call} must return one real number, got {short(result)}")
    for scope in (nullcontext(), double()):  # gradients, in the caller's precision and in the certificates'
        with scope:
            try:
                jax.eval_shape(partial(saddle_gradient, loss), _shapes(like, jnp.result_type(float)))
            except Exception as error:
                raise TypeError(f"{call} has no gradient that jax can compute: {_cause(f, error)}") from None


def _shapes(like: Saddle, dtype: Any) -> Saddle:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), dtype), like)


def template(like: object, saddle: bool) -> Saddle:
    """Zeros with the shapes of `like`, or a clear refusal."""
    if not isinstance(like, Saddle):
        raise TypeError(f"like must be fx.Saddle(x0, y0) of arrays with the shapes of x and y, got {short(like)}")
    if (like.y is not None) != saddle:
        raise ValueError("y= and like.y belong together: give both for a saddle point, neither to minimize over x")
    for name, leaf in tree.leaves_with_names(like):
        any_real_array(f"like.{name}", leaf, "an array of numbers")
        if np.size(leaf) == 0:
            raise ValueError(f"like must hold nonempty arrays, got one of shape {np.shape(leaf)}")
    if not jax.tree.leaves(like.x):
        raise ValueError("like.x must hold at least one array")
    return jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), np.float32), like)


def _cause(f: Any, error: Exception) -> str:
    """The first line of an error and the line of f that it came from."""
    text = str(error).splitlines()[0] if str(error) else ""
    here = getattr(getattr(f, "__code__", None), "co_filename", None)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == here]
    return f"{type(error).__name__}: {text}" + (f" (line {lines[-1]} of f's file)" if lines else "")


# f and its gradient over many examples in one pass: what does not fit into a cache is read once and used twice.


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

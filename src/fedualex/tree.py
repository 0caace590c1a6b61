"""Vector-space arithmetic on pytrees: every point, operator value and dual state is one."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float, Integer, Real

from .arrays import Array, is_numpy, xp

Tree = Any
"""A pytree of arrays with one fixed structure: a vector."""

if TYPE_CHECKING:
    Vector = Real[jax.Array | np.ndarray, "..."]
else:  # numpy makes its own numbers of arrays without axes
    Vector = Real[jax.Array | np.ndarray, "..."] | np.floating | np.integer
"""One array of any shape: a leaf. Integers are taken for the floats they stand for."""

Scalar = float | int | np.floating[Any] | Float[jax.Array | np.ndarray, ""]

Count = int | np.integer[Any] | Integer[jax.Array | np.ndarray, ""]
"""A whole number: of Python, or an array of it, as compiled programs and checkpoints have it."""

Flag = bool | np.bool_ | Bool[jax.Array | np.ndarray, ""]
"""True or False, likewise."""


class Saddle(eqx.Module):
    """z = (x, y): x minimizes, y maximizes. Plain minimization has y = None, a pytree without leaves."""

    x: Tree
    y: Tree = None


def dot(a: Tree, b: Tree) -> Array:
    """<a, b>, summed over all leaves."""
    return total(jax.tree.map(lambda u, v: xp.vdot(u, v), a, b))


def total(scalars: Tree) -> Array:
    """The sum of a tree of scalars."""
    return xp.asarray(sum(jax.tree.leaves(scalars), start=0.0))


def add(a: Tree, b: Tree) -> Tree:
    """a + b."""
    return jax.tree.map(lambda u, v: u + v, a, b)


def subtract(a: Tree, b: Tree) -> Tree:
    """a - b."""
    return jax.tree.map(lambda u, v: u - v, a, b)


def scale(factor: Scalar, a: Tree) -> Tree:
    """factor * a, in a's precision."""
    return jax.tree.map(lambda u: cast_like(factor, u) * xp.asarray(u), a)


def cast(a: Tree, dtype: object) -> Tree:
    """The floating leaves of a as jax arrays of another dtype; integers and flags as they are."""
    return jax.tree.map(lambda u: _place(u, dtype if is_floating(u) else None), a)


def _place(u: Any, dtype: Any) -> Array:
    """u as an array. Numbers of numpy are converted by numpy: jax would compile a program for it."""
    if isinstance(u, jax.Array):
        same = dtype is None or u.dtype == dtype  # not `in`: numpy's float64 equals None
        return u if same else u.astype(dtype)
    placed: Any = np.asarray(u, xp.result_type(u) if dtype is None else dtype)
    return placed if is_numpy() else jax.device_put(placed)


def cast_like(parameter: object, like: Vector) -> Array:
    """A parameter in the precision of the array it meets, so that float32 stays float32 where float64 is on."""
    return xp.asarray(parameter, as_real(like).dtype)


def as_real(x: Vector) -> Array:
    """x as an array of floating numbers: integers become floats, floats keep their precision."""
    array = xp.asarray(x)
    return array if is_floating(array) else array.astype(xp.result_type(float))


def is_floating(a: object) -> bool:
    """Whether a is a real number or an array of them."""
    kind = getattr(getattr(a, "dtype", None), "kind", "")
    return kind == "f" or bool(xp.issubdtype(xp.result_type(a), xp.floating))


def is_finite(a: Tree) -> Array:
    """Whether no entry of any leaf is nan or infinite; may be compiled."""
    return xp.all(xp.asarray([xp.all(xp.isfinite(leaf)) for leaf in jax.tree.leaves(a)]))


def known_finite(a: Tree) -> bool:
    """`is_finite` outside of programs, by numpy: jax would compile something for every leaf."""
    return all(bool(np.isfinite(np.asarray(leaf)).all()) for leaf in jax.tree.leaves(a))


def leaves_with_names(a: Tree, is_leaf: Callable[[Any], bool] | None = None) -> list[tuple[str, Any]]:
    """The leaves of a with the path to each as a user would type it, such as `x['bias']`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(a, is_leaf=is_leaf)
    return [(jax.tree_util.keystr(path).lstrip("."), leaf) for path, leaf in leaves]


def where(condition: bool | np.bool_ | Bool[jax.Array | np.ndarray, "..."], a: Tree, b: Tree) -> Tree:
    """a if the condition holds, else b."""
    return jax.tree.map(lambda u, v: xp.where(condition, u, v), a, b)


def depend_on(a: Tree, done: Scalar) -> Tree:
    """A copy of a that XLA cannot compute before `done`, a scalar.

    Two LAPACK calls that may run at the same time can wait for each other forever on a two-thread pool
    (jax 0.10). A true data dependency is what keeps them apart; an optimization barrier does not.
    """
    if is_numpy():
        return a
    nothing = 0.0 * xp.where(xp.isfinite(done), done, 0.0)
    return jax.tree.map(lambda u: as_real(u) + cast_like(nothing, u), a)


def cast_module(a: Tree, dtype: object) -> Tree:
    """A module with its floating arrays as jax arrays of another dtype; functions and strings in it as they are."""
    return jax.tree.map(lambda u: cast(u, dtype) if eqx.is_array_like(u) else u, a)

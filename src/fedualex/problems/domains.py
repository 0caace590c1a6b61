"""The domain of a problem: a geometry from what was given as x= and y=, and points checked against its shapes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..geometry import Product, as_geometry, is_geometry
from ..precision import double
from ..tree import Saddle, Tree
from ..validation import of_type, real_array, short


def build_geometry(x: Tree, y: Tree, like: Saddle) -> Product:
    """The product of what was given as x= and y=, checked against the shapes of `like`."""
    parts = Saddle(as_geometry("x", x), None if like.y is None else as_geometry("y", y))
    for name in ("x", "y"):
        spec: Any = jax.tree.structure(getattr(parts, name), is_leaf=is_geometry)
        shape: Any = jax.tree.structure(getattr(like, name))
        if spec != shape:
            raise ValueError(
                f"{name} must have the structure of like.{name}, with one regularizer or geometry for each array: "
                f"{names_of(getattr(like, name))}"
            )
    named = tree.leaves_with_names(parts, is_leaf=is_geometry)
    for (name, part), leaf in zip(named, jax.tree.leaves(like), strict=True):
        _check_fit(name, part, np.shape(leaf))
    return Product(parts)


def _check_fit(name: str, part: Any, shape: tuple[int, ...]) -> None:
    try:
        with double():  # a bound of 1e150 is no float32
            result = jax.eval_shape(part.project, jax.ShapeDtypeStruct(shape, jnp.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={part!r} does not fit an array of shape {shape}: {error}") from None
    if result.shape != shape:
        raise ValueError(f"{name}={part!r} does not fit an array of shape {shape}: its arrays make it {result.shape}")


def names_of(point: Tree) -> str:
    """The names of a pytree's leaves, for error messages."""
    return short([name for name, _ in tree.leaves_with_names(point)])


def point_like(like: Saddle, z: Tree, name: str) -> Saddle:
    """z in float64 with the shapes of `like`; a clear refusal otherwise. Call within `double()`."""
    of_type(name, z, Saddle, "fx.Saddle(x, y)")
    structure: Any = jax.tree.structure(like)
    if jax.tree.structure(z) != structure:
        raise ValueError(
            f"{name} must have the structure of `like`, arrays {names_of(like)}, got {names_of(z)}; a list "
            "of numbers counts as a structure, so make it an array"
        )
    leaves = []
    for (part, shaped), leaf in zip(tree.leaves_with_names(like), jax.tree.leaves(z), strict=True):
        array = real_array(f"{name}.{part}", leaf)
        if array.shape != np.shape(shaped):
            raise ValueError(f"{name}.{part} must have shape {np.shape(shaped)}, got {array.shape}")
        leaves.append(jax.device_put(array))
    point: Saddle = jax.tree.unflatten(structure, leaves)
    return point


def why_unbounded(geometry: Product) -> str:
    """Which parts have no finite conjugate, and what would give them one; empty if all have."""
    parts = tree.leaves_with_names(geometry.parts, is_leaf=is_geometry)
    unbounded = [f"{name}={part!r}" for name, part in parts if not part.finite_conjugate]
    if not unbounded:
        return ""
    return f"the domain is unbounded in {', '.join(unbounded)}; a set such as Box(D) or L2Ball(D) would bound it"

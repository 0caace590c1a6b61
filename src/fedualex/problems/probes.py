"""f and its derivatives at points around one point: the compiled part of looking for a disproof.

Points are vectors here: all arrays of x, and then all of y, in one.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..compiling import quickly
from ..geometry import is_geometry
from ..tree import Saddle, Tree
from .base import AbstractProblem

ROWS = 8
"""Points in one call of the compiled program for each block, always, so that it is compiled once."""
AT_ONCE = 2**20
"""Numbers of data up to which the points of a call are computed with at once: faster, and more memory."""

Vector = NDArray[Any]


class Seen(NamedTuple):
    """Points, one a row, f and g there, and the size of the domain in each entry."""

    points: Vector
    value: Vector
    g: Vector
    size: Vector


def as_vector(z: Saddle) -> Vector:
    """All arrays of a point as one vector, outside of compiled programs."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(z)])


def flat(z: Tree) -> Array:
    """All arrays of a point as one vector."""
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(z)])


def unflat(like: Saddle, vector: Any) -> Saddle:
    """The point that a vector stands for."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])
    parts = [vector[end - np.size(leaf) : end].reshape(np.shape(leaf)) for end, leaf in zip(ends, leaves, strict=True)]
    return jax.tree.unflatten(structure, parts)


def block_masks(like: Saddle) -> dict[str, NDArray[np.bool_]]:
    """Which entries of a vector are those of x, and which those of y if there is one."""
    x, y = (sum(np.size(leaf) for leaf in jax.tree.leaves(block)) for block in (like.x, like.y))
    is_x = np.arange(x + y) < x
    return {"x": is_x, "y": ~is_x} if y else {"x": is_x}


def look(
    problem: AbstractProblem, center: Vector, offset: Vector, direction: Vector, share: Vector, moved: Vector
) -> Seen:
    """f and g at points on the way from `center` to the projections of `offset + size * direction` onto the domain.

    share: the part of the way that is gone. moved: the entries that move at all, which are those of a block, so that
    the points are in the domain. All four have one row for each point.
    """
    size = ROWS * len(block_masks(problem.like))
    spare = -len(share) % size
    rows = [np.concatenate([part, np.repeat(part[-1:], spare, axis=0)]) for part in (offset, direction, share, moved)]
    at_once = sum(np.size(leaf) for leaf in jax.tree.leaves(problem.data)) <= AT_ONCE
    seen = [
        _look(problem, center, tuple(part[first : first + size] for part in rows), at_once)
        for first in range(0, len(rows[0]), size)
    ]
    return Seen(*(np.concatenate(part)[: len(share)] for part in zip(*seen, strict=True)))


@quickly
def _look(problem: AbstractProblem, center: Any, rows: tuple[Any, ...], at_once: bool) -> tuple[Array, ...]:
    size = _extent(problem, center)

    def at(row: tuple[Array, ...]) -> tuple[Array, ...]:
        offset, direction, share, moved = row
        landed = flat(problem.geometry.project(unflat(problem.like, offset + size * direction)))
        point = jnp.where(moved, center + share * (landed - center), center)
        z = unflat(problem.like, point)
        return point, problem.loss(z), flat(problem.operator(z)), size

    return jax.vmap(at)(rows) if at_once else jax.lax.map(at, rows)


def _extent(problem: AbstractProblem, center: Array) -> Array:
    """The size of the domain in each entry; that of the array's own entries where it is unbounded."""

    def of(part: Any, leaf: Array) -> Array:
        diameter = part.diameter(leaf) / np.sqrt(leaf.size)
        return jnp.full(leaf.shape, jnp.where(jnp.isfinite(diameter), diameter, 1 + jnp.max(jnp.abs(leaf))))

    return flat(jax.tree.map(of, problem.geometry.parts, unflat(problem.like, center), is_leaf=is_geometry))

"""f and its derivatives at points around one point: the compiled part of looking for a disproof.

Points are vectors here: all arrays of x, and then all of y, in one.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..geometry import is_geometry
from ..tree import Saddle, Tree
from .base import AbstractProblem

ROWS = 8
"""Points in one call of the compiled program for each block, always, so that it is compiled once."""
QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""For programs that run a few times: compiled five times as fast, to run half as fast."""

Vector = NDArray[Any]


@functools.cache
def quickly(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled with little optimization."""
    try:
        jax.jit(lambda: 0, compiler_options=QUICK)()
    except Exception:  # another version of the compiler may not know these options
        return eqx.filter_jit(function)
    return eqx.filter_jit(function, compiler_options=QUICK)


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
    problem: AbstractProblem, center: Vector, thrown: Vector, share: Vector, moved: Vector
) -> tuple[Vector, Vector, Vector]:
    """Points on the way from `center` to the projections of `thrown` onto the domain, with f and g there.

    share: the part of the way that is gone. moved: the entries that move at all, which are those of a block, so that
    the points are in the domain. All three have one row for each point.
    """
    size = ROWS * len(block_masks(problem.like))
    spare = -len(share) % size
    rows = [np.concatenate([part, np.repeat(part[-1:], spare, axis=0)]) for part in (thrown, share, moved)]
    seen = [
        quickly(_look)(problem, center, *(part[first : first + size] for part in rows))
        for first in range(0, len(rows[1]), size)
    ]
    points, value, g = (np.concatenate(part)[: len(share)] for part in zip(*seen, strict=True))
    return points, value, g


def _look(problem: AbstractProblem, center: Array, thrown: Array, share: Array, moved: Array) -> Any:
    def at(row: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        thrown, share, moved = row
        landed = flat(problem.geometry.project(unflat(problem.like, thrown)))
        point = jnp.where(moved, center + share * (landed - center), center)
        z = unflat(problem.like, point)
        return point, problem.loss(z), flat(problem.operator(z))

    # One after the other: that takes the memory of one operator.
    return jax.lax.map(at, (thrown, share, moved))


def extent(problem: AbstractProblem, center: Vector) -> Vector:
    """How far the domain extends in each entry; as far as the array's own entries where it is unbounded."""
    return np.asarray(quickly(_extent)(problem, center))


def _extent(problem: AbstractProblem, center: Array) -> Array:
    def of(part: Any, leaf: Array) -> Array:
        diameter = part.diameter(leaf) / np.sqrt(leaf.size)
        return jnp.full(leaf.shape, jnp.where(jnp.isfinite(diameter), diameter, 1 + jnp.max(jnp.abs(leaf))))

    return flat(jax.tree.map(of, problem.geometry.parts, unflat(problem.like, center), is_leaf=is_geometry))

"""Sizes of a domain and of a game: the compiled part of a problem's constants."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..compiling import quickly
from ..geometry import EntropicSimplex, Euclidean, Product, is_geometry
from ..problems import AbstractProblem
from ..tree import Saddle


class Sizes(NamedTuple):
    """Of the domain: B_0, its diameter and those of its blocks, and how far its points may be from 0 in each."""

    B0: Array
    whole: Array
    each: list[Array]
    radii: list[Array]


@quickly
def sizes_of(geometry: Product, z0: Saddle) -> tuple[Saddle, Sizes]:
    """The projection of z0, and the sizes as seen from there."""
    start = geometry.project(z0)
    zero = jax.tree.map(jnp.zeros_like, z0)
    parts = list(zip(jax.tree.leaves(geometry.parts, is_leaf=is_geometry), jax.tree.leaves(zero), strict=True))
    each = [part.diameter(leaf) for part, leaf in parts]
    radii = [_radius(part, leaf) for part, leaf in parts]
    return start, Sizes(geometry.B0(geometry.dual(start).omega), geometry.diameter(zero), each, radii)


@quickly
def size_at_zero(problem: AbstractProblem) -> Array:
    """||g(0)||_*."""
    zero = jax.tree.map(lambda leaf: jnp.zeros(jnp.shape(leaf)), problem.like)
    return problem.geometry.dual_norm(problem.operator(zero))


def _radius(part: Any, leaf: Array) -> Any:
    """sup ||z||. Half a diameter is less on the simplex: it may be as small as one point, and no point has norm 0."""
    if isinstance(part, Euclidean):
        return part.regularizer.farthest(leaf)
    return jnp.ones(()) if isinstance(part, EntropicSimplex) else part.diameter(leaf) / 2


@quickly
def largest_row(part: Any, rows: Any) -> Array:
    """The largest dual norm of a row."""
    return jnp.max(jax.vmap(part.dual_norm)(rows))

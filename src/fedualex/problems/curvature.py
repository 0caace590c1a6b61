"""The smallest curvatures of f in x and of -f in y at a point, by Lanczos' method."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..compiling import quickly
from ..geometry import EntropicSimplex, Product, is_geometry
from ..regularizers import Box, CappedSimplex, InBox, Simplex, split
from ..tree import Saddle
from .base import AbstractProblem
from .probes import Vector, block_masks, flat, unflat

STEPS = 10
"""Products with second derivatives. An eigenvalue apart from the others shows after a few."""
VISIBLE = 1e-12
"""Of the largest curvature: what is smaller is rounding."""
INDEPENDENT = 1e-6
"""Of the largest squared singular value of Lanczos' vectors: what is smaller repeats the others."""


def bent_down(problem: AbstractProblem, center: Vector, start: Vector) -> dict[str, Vector]:
    """The directions of the smallest curvature of f in x and of -f in y at a point, where it is negative.

    Those are extreme eigenvectors of diag(f_xx, -f_yy), the symmetric part of g's Jacobian, restricted to the
    directions in which the domain extends: elsewhere f may curve as it likes. Empty if f has no second derivatives.
    """
    try:
        vectors, products = map(np.asarray, _krylov(problem, center, start))
    except Exception:  # whatever jax or f raises where f cannot be differentiated twice
        return {}
    found = {block: _lowest(vectors[:, b], products[:, b]) for b, block in enumerate(block_masks(problem.like))}
    return {block: direction for block, direction in found.items() if direction is not None}


@quickly
def _krylov(problem: AbstractProblem, center: Any, start: Any) -> tuple[Array, Array]:
    """Lanczos' vectors v and their products H v, for each step and both blocks at once."""
    masks = jnp.stack(list(block_masks(problem.like).values()))
    _, derivative = jax.linearize(problem.operator, unflat(problem.like, center))

    def along_domain(v: Array) -> Array:
        return flat(_along_domain(problem.geometry, unflat(problem.like, v)))

    def normalized(v: Array) -> tuple[Array, Array]:
        size = jnp.sqrt(jnp.sum(v * v, axis=1, keepdims=True))
        return size, v / jnp.where(size > 0, size, 1)

    def step(state: tuple[Array, Array, Array], _: None) -> tuple[Any, tuple[Array, Array]]:
        before, beta, v = state
        product = masks * jax.vmap(lambda u: along_domain(flat(derivative(unflat(problem.like, u)))))(v)
        alpha = jnp.sum(v * product, axis=1, keepdims=True)
        return (v, *normalized(product - alpha * v - beta * before)), (v, product)

    beta, v = normalized(masks * along_domain(start))
    _, seen = jax.lax.scan(step, (jnp.zeros_like(v), 0 * beta, v), None, length=STEPS)
    return seen


def _lowest(vectors: Vector, products: Vector) -> Vector | None:
    """The direction of the smallest curvature in the span of the vectors, if that is negative beyond rounding.

    What rounding left of the vectors' orthogonality is restored here, by their Gram matrix.
    """
    if not np.all(np.isfinite(products)):
        return None
    squares, mixing = np.linalg.eigh(vectors @ vectors.T)
    kept = squares > INDEPENDENT * squares[-1]
    basis = mixing[:, kept] / np.sqrt(squares[kept])
    matrix = basis.T @ (vectors @ products.T) @ basis
    values, inner = np.linalg.eigh((matrix + matrix.T) / 2)
    if not values.size or values[0] >= -VISIBLE * np.abs(values).max():
        return None
    return np.asarray((basis @ inner[:, 0]) @ vectors)


def _along_domain(geometry: Product, v: Saddle) -> Saddle:
    """v projected onto the differences of points of the domain: sum 0 on a simplex, 0 where a box fixes an entry."""

    def project(part: Any, leaf: Array) -> Array:
        core = split(part.regularizer)[0] if hasattr(part, "regularizer") else None
        box = core.domain if isinstance(core, InBox) else core
        if isinstance(part, EntropicSimplex) or isinstance(core, Simplex | CappedSimplex):
            return leaf - jnp.mean(leaf)
        return jnp.where(box.lower < box.upper, leaf, 0) if isinstance(box, Box) else leaf

    return jax.tree.map(project, geometry.parts, v, is_leaf=is_geometry)

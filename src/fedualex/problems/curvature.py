"""The smallest curvatures of f in x and of -f in y at a point, by Lanczos' method."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..geometry import EntropicSimplex, Product, is_geometry
from ..regularizers import Box, CappedSimplex, InBox, Simplex, split
from ..tree import Saddle
from .base import AbstractProblem
from .probes import Vector, block_masks, flat, quickly, unflat

STEPS = 12
"""Products with second derivatives. An eigenvalue apart from the others shows after a few."""
VISIBLE = 1e-12
"""Of the largest curvature: what is smaller is rounding."""

Krylov = tuple[Array, Array, Array]
"""Diagonals and subdiagonals of tridiagonal matrices, and the bases in which they stand for large ones; by block."""


def bent_down(problem: AbstractProblem, center: Vector, start: Vector) -> dict[str, Vector]:
    """The directions of the smallest curvature of f in x and of -f in y at a point, where it is negative.

    Those are extreme eigenvectors of diag(f_xx, -f_yy), the symmetric part of g's Jacobian, restricted to the directions
    in which the domain extends: elsewhere f may curve as it likes. Empty if f has no second derivatives.
    """
    try:
        alpha, beta, basis = (np.asarray(part) for part in quickly(_krylov)(problem, center, start))
    except Exception:  # whatever jax or f raises where f cannot be differentiated twice
        return {}
    found = {block: _lowest(alpha[b], beta[b], basis[b]) for b, block in enumerate(block_masks(problem.like))}
    return {block: direction for block, direction in found.items() if direction is not None}


def _krylov(problem: AbstractProblem, center: Array, start: Array) -> Krylov:
    """Lanczos' method with full reorthogonalization, in both blocks at once; zeros where a Krylov space is exhausted."""
    masks = jnp.stack(list(block_masks(problem.like).values()))
    _, derivative = jax.linearize(problem.operator, unflat(problem.like, center))

    def along_domain(v: Array) -> Array:
        return flat(_along_domain(problem.geometry, unflat(problem.like, v)))

    def normalized(w: Array, scale: Array) -> tuple[Array, Array]:
        size = jnp.linalg.norm(w, axis=1)
        size = jnp.where(size <= VISIBLE * scale, 0, size)
        return size, w * jnp.where(size > 0, 1 / jnp.where(size > 0, size, 1), 0)[:, None]

    def step(k: Any, state: Krylov) -> Krylov:
        alpha, beta, basis = state
        w = jax.vmap(lambda v: along_domain(flat(derivative(unflat(problem.like, v)))))(basis[:, k]) * masks
        alpha = alpha.at[:, k].set(jnp.sum(basis[:, k] * w, axis=1))
        for _ in range(2):  # once would leave rounding of the size of what is taken off
            w = w - jnp.einsum("bkn,bk->bn", basis, jnp.einsum("bkn,bn->bk", basis, w))
        size, following = normalized(w, jnp.max(jnp.abs(alpha), axis=1) + jnp.max(beta, axis=1))
        return alpha, beta.at[:, k].set(size), basis.at[:, k + 1].set(following)

    blocks, entries = masks.shape
    _, first = normalized(masks * along_domain(start), jnp.zeros(blocks))
    basis = jnp.zeros((blocks, STEPS + 1, entries)).at[:, 0].set(first)
    return jax.lax.fori_loop(0, STEPS, step, (jnp.zeros((blocks, STEPS)), jnp.zeros((blocks, STEPS)), basis))


def _lowest(alpha: Vector, beta: Vector, basis: Vector) -> Vector | None:
    """The vector of the smallest eigenvalue, if that is negative beyond rounding."""
    if not np.all(np.isfinite(alpha)) or not np.all(np.isfinite(beta)):
        return None
    size = int(np.argmax(beta == 0)) + 1 if np.any(beta == 0) else alpha.size
    off = beta[: size - 1]
    values, vectors = np.linalg.eigh(np.diag(alpha[:size]) + np.diag(off, 1) + np.diag(off, -1))
    negative = values[0] < -VISIBLE * np.max(np.abs(values))
    return np.asarray(vectors[:, 0] @ basis[:size]) if negative else None


def _along_domain(geometry: Product, v: Saddle) -> Saddle:
    """v projected onto the differences of points of the domain: sum 0 on a simplex, 0 where a box fixes an entry."""

    def project(part: Any, leaf: Array) -> Array:
        core = split(part.regularizer)[0] if hasattr(part, "regularizer") else None
        box = core.domain if isinstance(core, InBox) else core
        if isinstance(part, EntropicSimplex) or isinstance(core, Simplex | CappedSimplex):
            return leaf - jnp.mean(leaf)
        return jnp.where(box.lower < box.upper, leaf, 0) if isinstance(box, Box) else leaf

    return jax.tree.map(project, geometry.parts, v, is_leaf=is_geometry)

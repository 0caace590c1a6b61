"""The Fenchel gap of each geometry, with a bound on its rounding: what certificates are made of."""

import jax.numpy as jnp
from jax.scipy.special import xlogy
from jaxtyping import Array

from ..regularizers import KL, constant_of, split
from ..regularizers.fenchel import Fenchel, fenchel
from ..regularizers.rounding import TINY, UNIT, has_rounding_bound
from ..tree import Vector, as_real, cast_like
from .base import AbstractGeometry
from .entropic import EntropicSimplex
from .euclidean import Euclidean


def fenchel_of(geometry: AbstractGeometry, z: Vector, g: Vector, error: Vector) -> Fenchel:
    """<g, z> + psi(z) + psi^*(-g) for a g that may be wrong by `error`, entry by entry."""
    if isinstance(geometry, Euclidean):
        return fenchel(geometry.regularizer, z, -as_real(g), error)
    z, g = as_real(z), as_real(g)
    psi, conjugate = geometry.psi(z), geometry.psi_conjugate(-g)
    sizes = _sizes(geometry, z, g) if isinstance(geometry, EntropicSimplex) else jnp.abs(psi) + jnp.abs(conjugate)
    terms = jnp.sum(jnp.abs(g * z)) + sizes
    moved = geometry.dual_norm(jnp.abs(error)) * (geometry.norm(z) + geometry.diameter(z))
    return Fenchel(jnp.vdot(g, z) + psi + conjugate, moved + (z.size + 16) * (UNIT * terms + TINY))


def is_bound(geometry: AbstractGeometry) -> bool:
    """Whether the rounding of `fenchel_of` is a bound, rather than an estimate."""
    if isinstance(geometry, Euclidean):
        return has_rounding_bound(geometry.regularizer)
    return isinstance(geometry, EntropicSimplex)


def _sizes(geometry: EntropicSimplex, z: Array, g: Array) -> Array:
    """The size of all that is added: constants, lam |z log z|, lam |z log q|, |c z|, |g| + |c|, lam (1 + |log q|)."""
    core, _, c = split(geometry.regularizer)
    z, tilt = jnp.maximum(z, 0), jnp.abs(cast_like(c, z))
    constant = jnp.abs(cast_like(constant_of(geometry.regularizer), z))
    sizes = jnp.sum(tilt * z) + 5 * jnp.max(jnp.abs(g) + tilt) + 2 * constant
    if isinstance(core, KL):
        lam, log_q = cast_like(core.lam, z), jnp.abs(jnp.log(cast_like(core.q, z)))
        inside = jnp.sum(jnp.abs(xlogy(z, z)) + z * log_q)
        return sizes + lam * (inside + jnp.max(log_q) + jnp.log(z.size) + 1)
    return sizes

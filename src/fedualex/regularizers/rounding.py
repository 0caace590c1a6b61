"""How far rounding may reach: counts of operations, distances within a domain, and what an error of the slope costs."""

import jax.numpy as jnp
from jaxtyping import Array

from ..tree import cast_like
from .balls import L1Ball, L2Ball
from .base import AbstractRegularizer
from .boxes import Box
from .entropies import KL
from .maps import nonzero, norm
from .norms import L1, GroupL2, Zero
from .quadratic import split
from .simplices import CappedSimplex, Simplex
from .spectral import Spectral
from .sums import InBall, InBox

UNIT, TINY = 2.0**-53, 2.0**-1022
"""Half the distance from 1 to the next number; below TINY numbers may become 0."""
ANALYZED = (Zero, L1, GroupL2, Box, L2Ball, L1Ball, Simplex, CappedSimplex, InBox, InBall)
"""Whose formulas are known here, so that their rounding has a bound; of others it is an estimate."""


def has_rounding_bound(psi: AbstractRegularizer) -> bool:
    """Whether the rounding of `fenchel` is a bound for this psi, rather than an estimate."""
    core, _, _ = split(psi)
    return has_rounding_bound(core.psi) if type(core) is Spectral else type(core) in ANALYZED


def cost_of_error(delta: Array, reach: Array, near: Array, lam: Array) -> Array:
    """What an error of length delta in the slope costs."""
    curved = jnp.where(lam > 0, near + delta / (2 * nonzero(lam)), jnp.inf)
    return jnp.where(delta > 0, delta * jnp.minimum(reach, curved), 0)


def distances(psi: AbstractRegularizer, x: Array, s: Array) -> tuple[Array, Array]:
    """Bounds on ||u - x|| for all u of the domain, and for the maximizer u of <s, u> - psi(u)."""
    if isinstance(psi, Spectral):  # symmetric, so that no LAPACK call is needed; ||u|| <= ||s|| / lam
        lam, radius = cast_like(split(psi.psi)[1], s), psi.diameter(x) / 2
        size = jnp.where(lam > 0, norm(s) / nonzero(lam), radius)
        return norm(x) + radius, norm(x) + jnp.minimum(size, radius)
    if isinstance(psi, KL):  # near s the maximizer q exp(s / lam - 1) at most doubles
        lam = nonzero(cast_like(psi.lam, s))
        reach = norm(x) + 2 * norm(cast_like(psi.q, s) * jnp.exp(s / lam - 1))
        return reach, reach
    reach = psi.farthest(x)
    if type(psi) not in ANALYZED:
        # In an unbounded domain one step of size 1 tells roughly how far the maximizer is.
        reach = jnp.where(jnp.isfinite(reach), reach, norm(x) + norm(psi.prox(x + s, jnp.ones((), x.dtype))))
    return reach, reach


def roundings(psi: AbstractRegularizer, x: Array) -> int:
    """How often an evaluation rounds: additions, and for singular values an allowance for LAPACK's backward error."""
    if isinstance(psi, Spectral):
        return 16 * (x.shape[0] + x.shape[1])
    return (2 if isinstance(psi, GroupL2 | InBall) else 1) * x.size + 16

"""Softmax under a cap, and relative entropies that keep their digits."""

import jax
import jax.numpy as jnp
from jax.scipy.special import rel_entr
from jaxtyping import Array

from ..regularizers.maps import ascending, nonzero, put_back
from ..tree import Scalar, Vector

NEAR, TERMS = 0.1, 15
"""Where the divergence is a series, and its last power: NEAR^TERMS is below the rounding of float64."""


def capped_softmax(omega: Array, cap: Scalar) -> Array:
    """min(cap, exp(omega - kappa)) with kappa such that the sum is 1.

    If the j largest entries sit at the cap, the others share 1 - j cap in proportion to exp(omega); the first j
    for which none of those exceeds the cap is the right one.
    """
    cap = jnp.minimum(jnp.asarray(cap, omega.dtype), 1)
    negative, order = ascending(-omega)
    falling = -negative
    left = jnp.maximum(1 - cap * jnp.arange(omega.size, dtype=omega.dtype), 0)
    fits = left / _tail_ratios(falling) <= cap
    first = jnp.argmax(fits.at[-1].set(True))  # the last entry gets what is left, whatever the rounding
    shares = jnp.where(jnp.arange(omega.size) < first, 0, jnp.exp(falling - falling[first]))
    sorted_x = jnp.where(jnp.arange(omega.size) < first, cap, shares / jnp.sum(shares) * left[first])
    return put_back(sorted_x, order, omega)


def _tail_ratios(falling: Array) -> Array:
    """T_j = sum_{i >= j} exp(w_i - w_j) for falling w, from T_j = 1 + exp(w_{j+1} - w_j) T_{j+1}.

    Made of differences alone, so that it stays accurate for w of any size.
    """
    ratios = jnp.exp(jnp.append(jnp.diff(falling), -jnp.inf))

    def compose(later: tuple[Array, Array], step: tuple[Array, Array]) -> tuple[Array, Array]:
        """The affine maps t -> offset + ratio t, one after the other."""
        return step[0] + step[1] * later[0], step[1] * later[1]

    offsets, _ = jax.lax.associative_scan(compose, (jnp.ones_like(ratios), ratios), reverse=True)
    return offsets


def relative_entropy(z: Vector, reference: Vector) -> Array:
    """z log(z / r) - z + r, entry by entry; near z = r by the series of (1 + u) log(1 + u) - u, u = (z - r) / r.

    There the difference is of the order u^2 and would be lost to rounding, and with it what backtracking compares.
    """
    u = jnp.asarray(z - reference) / nonzero(jnp.asarray(reference))
    near = (jnp.abs(u) < NEAR) & (reference > 0)
    small = jnp.where(near, u, 0)
    series = jnp.zeros_like(small)
    for k in range(TERMS, 1, -1):
        series = (-1) ** k / (k * (k - 1)) + small * series
    return jnp.where(near, reference * small**2 * series, rel_entr(z, reference) - z + reference)

"""The level problem: how much weight each remembered survey gets, re-optimized by the server alone."""

import jax.numpy as jnp
from jaxtyping import Array

from .cuts import Cuts
from .flat import Flat
from .nonnegative import minimize_nonnegative

ITERATIONS = 100
"""Of the quasi-Newton method; it ends by itself after 10 to 40 of them where the cuts are not nearly parallel."""


def pair_of(cuts: Cuts, centre: Array) -> tuple[Array, Array]:
    """O(c) = (omega_c - sum c_i g_i, sum c_i), the dual pair of the weights c."""
    return centre - cuts.weights @ cuts.operators, jnp.sum(cuts.weights)


def level_weights(flat: Flat, cuts: Cuts, centre: Array, level: Array) -> Array:
    """The weights c >= 0 that minimize Q(c) = pot(O(c)) + sum c_i e_i - level sum c_i, found from the present ones.

    The gradient is e_i - <g_i, z> - psi(z) - level at z = P(O(c)). The minimum is the projection of the centre onto
    the points where no cut leaves a gap above -level; its dual pair is O(c).
    """
    return _minimized(flat, cuts.operators, cuts.heights, cuts.used, centre, level, cuts.weights)


def model_weights(flat: Flat, slopes: Array, offsets: Array, used: Array, centre: Array, level: Array) -> Array:
    """The weights of the affine minorants offset_i + <slope_i, x> where the centre is projected onto model <= level.

    model(x) = max_i (offset_i + <slope_i, x>) + psi(x). The weights divided by their sum are the multipliers of a
    lower bound of min_x model(x).
    """
    return _minimized(flat, slopes, -offsets, used, centre, -level, jnp.zeros(used.size))


def _minimized(
    flat: Flat, operators: Array, heights: Array, used: Array, centre: Array, level: Array, start: Array
) -> Array:
    # Weights are measured in units that make all operators alike in size.
    size = jnp.sqrt(jnp.max(jnp.sum(operators**2, axis=1)))
    unit = 1 / jnp.where(size > 0, size, 1.0)

    def valued(scaled: Array) -> tuple[Array, Array]:
        c = unit * scaled
        z, psi, potential = flat.mapped(centre - c @ operators, jnp.sum(c))
        slope = heights - operators @ z - psi - level
        return potential + jnp.vdot(c, heights) - level * jnp.sum(c), unit * slope

    curvature = unit**2 * operators @ operators.T
    return unit * minimize_nonnegative(valued, start / unit, curvature, used, ITERATIONS)

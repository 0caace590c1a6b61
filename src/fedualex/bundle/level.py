"""The level problem: how much weight each remembered survey gets, re-optimized by the server alone."""

import jax.numpy as jnp
from jaxtyping import Array

from .cuts import Cuts
from .flat import Flat
from .nonnegative import minimize_nonnegative

EVALUATIONS = 300
"""Of the quasi-Newton method, at most. It ends by itself after 10 to 60, but not where cuts are almost parallel, or if
no point reaches the level: then there is no minimum, and the weights so far prove a gap below the level."""
ACCURACY = 1e-4
"""Up to which share of the level, or of the gap, what a cut leaves above it does not count."""


def pair_of(cuts: Cuts, center: Array) -> tuple[Array, Array]:
    """O(c) = (omega_c - sum c_i g_i, sum c_i), the dual pair of the weights c."""
    return center - cuts.weights @ cuts.operators, jnp.sum(cuts.weights)


def level_weights(flat: Flat, cuts: Cuts, center: Array, level: Array) -> Array:
    """The weights c >= 0 that minimize Q(c) = pot(O(c)) + sum c_i e_i - level sum c_i, found from the present ones.

    The gradient is e_i - <g_i, z> - psi(z) - level at z = P(O(c)). The minimum is the projection of the center onto
    the points where no cut leaves a gap above -level; its dual pair is O(c).
    """
    return _minimized(
        flat, cuts.operators, cuts.heights, cuts.used, center, level, jnp.zeros(()), cuts.weights, ACCURACY * level
    )


def model_weights(
    flat: Flat, slopes: Array, offsets: Array, used: Array, center: Array, level: Array, stiffness: Array, gap: Array
) -> Array:
    """The weights of affine minorants offset_i + <slope_i, x> where the center is projected onto model(x) <= level.

    model(x) = max_i (offset_i + <slope_i, x>) + psi(x). Divided by their sum S, the weights are multipliers of a lower
    bound of min model. stiffness: stiffness S^2 / 2 is added, so that S stays finite where model > level everywhere.
    gap: between the bounds that the level is in the middle of.
    """
    return _minimized(flat, slopes, -offsets, used, center, -level, stiffness, jnp.zeros(used.size), ACCURACY * gap)


def _minimized(
    flat: Flat,
    operators: Array,
    heights: Array,
    used: Array,
    center: Array,
    level: Array,
    stiffness: Array,
    start: Array,
    accuracy: Array,
) -> Array:
    # Weights are measured in units that make all operators alike in size.
    measured = flat.in_dual_metric(operators)
    size = jnp.sqrt(jnp.max(jnp.sum(measured**2, axis=1)))
    unit = 1 / jnp.where(size > 0, size, 1.0)

    def valued(scaled: Array) -> tuple[Array, Array]:
        c = unit * scaled
        total = jnp.sum(c)
        z, psi, potential = flat.mapped(center - c @ operators, total)
        value = potential + jnp.vdot(c, heights) - level * total + stiffness * total**2 / 2
        return value, unit * (heights - operators @ z - psi - level + stiffness * total)

    curvature = unit**2 * (measured @ measured.T + stiffness)
    return unit * minimize_nonnegative(valued, start / unit, curvature, used, EVALUATIONS, unit * accuracy)

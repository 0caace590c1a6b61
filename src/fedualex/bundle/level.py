"""The level problem: how much weight each remembered survey gets, re-optimized by the server alone."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from .bounds import Cuts
from .flat import Flat

# A smooth convex function of a few weights, minimized over weights >= 0.


FAILURES = 25
"""Steps in a row that do not decrease f before rounding is taken for the reason."""
SMALL = 1e-14
"""A decrease below this share of a value is rounding."""
FIRST, LEAST, FACTOR = 1e-6, 1e-12, 10.0
"""The damping of the first step, the least damping, both as shares of the mean curvature, and by what it changes."""


class _State(NamedTuple):
    weights: Array
    value: Array
    gradient: Array
    slope: Array
    """The largest entry of the gradient along which the weights may move."""
    hessian: Array
    damping: Array
    failures: Array
    evaluations: Array
    ended: Array


def minimize_nonnegative(
    f: Callable[[Array], tuple[Array, Array]],
    start: Array,
    curvature: Array,
    used: Array,
    evaluations: int,
    accuracy: Array,
) -> Array:
    """Weights c >= 0, 0 where not used, with f(c) <= f(start): the minimizer of f if the evaluations are enough.

    f: value and gradient. curvature: a positive semidefinite guess of f's second derivatives, from which a projected
    quasi-Newton method starts (two-metric projection, Bertsekas 1982, with BFGS updates and Levenberg's damping):

        p = - (B + damping)^-1 grad f on the free weights, those that are > 0 or would grow;  c <- max(c + p, 0)

    A step counts that decreases f as its slope promises; or at whose end f still falls along it, which proves the
    decrease of a convex f without its last digits; or, where these are used up, that halves the slope. Then the damping
    falls, else it grows. So a short step along the gradient is found even where B is nearly singular, and without a
    minimum the steps become longer and longer. accuracy: the entries of the gradient that count as 0.
    One loop evaluates f at one place, so that it is compiled once.
    """
    size = start.size
    mean = jnp.mean(jnp.diagonal(curvature)) + jnp.finfo(start.dtype).tiny
    zero, none, nothing = jnp.zeros(()), jnp.asarray(0), jnp.zeros(size)
    first = _State(start, zero, nothing, zero, curvature, FIRST * mean, none, none, jnp.asarray(False))

    def evaluated(now: _State) -> _State:
        step = _step(now.weights, now.gradient, now.hessian, used, now.damping)
        c = jnp.maximum(now.weights + step, 0.0)
        value, gradient = f(c)
        slope = jnp.max(jnp.where(used, jnp.abs(jnp.where(c > 0, gradient, jnp.minimum(gradient, 0.0))), 0.0))
        begins = now.evaluations == 0
        promised = 1e-4 * jnp.vdot(now.gradient, c - now.weights)
        rounding = SMALL * jnp.abs(now.value)
        decreases = (value <= now.value + promised) & (value < now.value - rounding)
        downhill = jnp.vdot(gradient, c - now.weights) <= 0
        flattens = (value <= now.value + rounding) & (slope < 0.5 * now.slope)
        good = begins | decreases | downhill | flattens
        hessian = jnp.where(begins, now.hessian, _updated(now.hessian, c - now.weights, gradient - now.gradient))
        found = c, value, gradient, slope, hessian
        c, value, gradient, slope, hessian = (jnp.where(good, *both) for both in zip(found, now[:5], strict=True))
        damping = jnp.where(good, jnp.maximum(now.damping / FACTOR, LEAST * mean), now.damping * FACTOR)
        failures = jnp.where(good, 0, now.failures + 1)
        ended = (failures > FAILURES) | (slope <= accuracy)
        return _State(c, value, gradient, slope, hessian, damping, failures, now.evaluations + 1, ended)

    last = lax.while_loop(lambda now: (now.evaluations < evaluations) & ~now.ended, evaluated, first)
    return last.weights


def _step(c: Array, gradient: Array, hessian: Array, used: Array, damping: Array) -> Array:
    """- (B + damping)^-1 grad f on the free weights, 0 on the others; no number where rounding left B indefinite."""
    free = used & ((c > 0) | (gradient < 0))
    identity = np.eye(c.size)
    matrix = jnp.where(free[:, None] & free[None, :], hessian + damping * identity, identity)
    root = lax.linalg.cholesky(matrix, symmetrize_input=False)
    half = lax.linalg.triangular_solve(root, jnp.where(free, -gradient, 0.0)[:, None], left_side=True, lower=True)
    whole = lax.linalg.triangular_solve(root, half, left_side=True, lower=True, transpose_a=True)
    return jnp.where(free, whole[:, 0], 0.0)


def _updated(hessian: Array, moved: Array, change: Array) -> Array:
    """The BFGS update, left out where the curvature along the step is rounding."""
    bent = jnp.vdot(moved, change)
    along = hessian @ moved
    size = jnp.vdot(moved, along)
    good = (bent > SMALL * jnp.sqrt(jnp.vdot(moved, moved) * jnp.vdot(change, change))) & (size > 0)
    bent, size = jnp.where(good, bent, 1.0), jnp.where(good, size, 1.0)
    update = jnp.outer(change, change) / bent - jnp.outer(along, along) / size
    return hessian + jnp.where(good, update, 0.0)


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

"""A smooth convex function of a few weights, minimized over weights >= 0."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

HALVINGS = 25
"""Tries of a line search before rounding is taken for the reason that nothing decreases any more."""
SMALL = 1e-14
"""A decrease below this share of a value is rounding."""


class _State(NamedTuple):
    weights: Array
    value: Array
    gradient: Array
    hessian: Array
    direction: Array
    length: Array
    """The part of the direction that is tried next; 0 before the first evaluation."""
    halvings: Array
    evaluations: Array
    ended: Array


def minimize_nonnegative(
    f: Callable[[Array], tuple[Array, Array]], start: Array, curvature: Array, used: Array, evaluations: int
) -> Array:
    """Weights c >= 0, 0 where not used, with f(c) <= f(start): the minimizer of f if the evaluations are enough.

    f: value and gradient. curvature: a positive semidefinite guess of f's second derivatives, from which a projected
    quasi-Newton method starts (two-metric projection, Bertsekas 1982, with BFGS updates):

        p = - B^-1 grad f on the free weights, those that are > 0 or would grow;  c <- max(c + t p, 0), t = 1, 1/2, ...

    A step counts that decreases f as its slope promises, or, where f's digits are used up, the slope itself. One loop
    evaluates f at one place, so that it is compiled once.
    """
    size = start.size
    ridge = 1e-10 * jnp.trace(curvature) / size + jnp.finfo(start.dtype).tiny
    zero, none = jnp.zeros(()), jnp.asarray(0)
    nothing = jnp.zeros(size)
    first = _State(
        start, zero, nothing, curvature + ridge * jnp.eye(size), nothing, zero, none, none, jnp.asarray(False)
    )

    def evaluated(now: _State) -> _State:
        c = jnp.maximum(now.weights + now.length * now.direction, 0.0)
        value, gradient = f(c)
        begins = now.evaluations == 0
        promised = 1e-4 * jnp.vdot(now.gradient, c - now.weights)
        rounding = SMALL * jnp.abs(now.value)
        decreases = (value <= now.value + promised) & (value < now.value - rounding)
        flattens = (value <= now.value + rounding) & (
            _slope(c, gradient, used) < 0.5 * _slope(now.weights, now.gradient, used)
        )
        good = begins | decreases | flattens
        hessian = jnp.where(begins, now.hessian, _updated(now.hessian, c - now.weights, gradient - now.gradient))
        c, value, gradient, hessian = (
            jnp.where(good, new, old)
            for new, old in ((c, now.weights), (value, now.value), (gradient, now.gradient), (hessian, now.hessian))
        )
        halvings = jnp.where(good, 0, now.halvings + 1)
        direction = jnp.where(good, _direction(c, gradient, hessian, used), now.direction)
        length = jnp.where(good, 1.0, now.length / 2)
        ended = (halvings > HALVINGS) | (_slope(c, gradient, used) == 0)
        return _State(c, value, gradient, hessian, direction, length, halvings, now.evaluations + 1, ended)

    last = jax.lax.while_loop(lambda now: (now.evaluations < evaluations) & ~now.ended, evaluated, first)
    return last.weights


def _direction(c: Array, gradient: Array, hessian: Array, used: Array) -> Array:
    """- B^-1 grad f on the free weights, 0 on the others."""
    free = used & ((c > 0) | (gradient < 0))
    matrix = jnp.where(free[:, None] & free[None, :], hessian, jnp.eye(c.size))
    return jnp.where(free, -jnp.linalg.solve(matrix, jnp.where(free, gradient, 0.0)), 0.0)


def _slope(c: Array, gradient: Array, used: Array) -> Array:
    """The largest entry of the gradient along which c may move."""
    return jnp.max(jnp.where(used, jnp.abs(jnp.where(c > 0, gradient, jnp.minimum(gradient, 0.0))), 0.0))


def _updated(hessian: Array, moved: Array, change: Array) -> Array:
    """The BFGS update, left out where the curvature along the step is rounding."""
    bent = jnp.vdot(moved, change)
    along = hessian @ moved
    size = jnp.vdot(moved, along)
    good = (bent > SMALL * jnp.sqrt(jnp.vdot(moved, moved) * jnp.vdot(change, change))) & (size > 0)
    bent, size = jnp.where(good, bent, 1.0), jnp.where(good, size, 1.0)
    update = jnp.outer(change, change) / bent - jnp.outer(along, along) / size
    return hessian + jnp.where(good, update, 0.0)

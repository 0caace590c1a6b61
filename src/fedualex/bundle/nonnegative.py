"""A smooth convex function of a few weights, minimized over weights >= 0."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

Valued = tuple[Array, Array]
"""A value and a gradient."""

HALVINGS = 25
"""Tries of a line search before rounding is taken for the reason that nothing decreases any more."""
SMALL = 1e-14
"""A step or a decrease below this share of what it changes is rounding."""


class _Iterate(NamedTuple):
    c: Array
    value: Array
    gradient: Array
    hessian: Array
    count: Array
    ended: Array


def minimize_nonnegative(
    f: Callable[[Array], Valued], start: Array, curvature: Array, used: Array, iterations: int
) -> Array:
    """Weights c >= 0, 0 where not used, with f(c) <= f(start): the minimizer of f if the iterations are enough.

    f: value and gradient. curvature: a positive semidefinite guess of f's second derivatives, from which a projected
    quasi-Newton method starts (two-metric projection, Bertsekas 1982, with BFGS updates):

        p = - B^-1 grad f on the free weights, those that are > 0 or would grow;  c <- max(c + t p, 0), t = 1, 1/2, ...
    """
    size = start.size
    ridge = 1e-10 * jnp.trace(curvature) / size + jnp.finfo(start.dtype).tiny
    value, gradient = f(start)
    first = _Iterate(start, value, gradient, curvature + ridge * jnp.eye(size), jnp.asarray(0), jnp.asarray(False))

    def better(now: _Iterate) -> _Iterate:
        free = used & ((now.c > 0) | (now.gradient < 0))
        both = free[:, None] & free[None, :]
        matrix = jnp.where(both, now.hessian, jnp.eye(size))
        direction = -jnp.linalg.solve(matrix, jnp.where(free, now.gradient, 0.0))
        c, value, gradient, found = _searched(f, now, jnp.where(free, direction, 0.0))
        moved, change = c - now.c, gradient - now.gradient
        hessian = _updated(now.hessian, moved, change)
        tiny = now.value - value <= SMALL * jnp.abs(now.value)
        following = _Iterate(c, value, gradient, hessian, now.count + 1, tiny)
        ended = now._replace(count=now.count + 1, ended=jnp.asarray(True))
        return jax.tree.map(lambda a, b: jnp.where(found, a, b), following, ended)

    last = jax.lax.while_loop(lambda now: (now.count < iterations) & ~now.ended, better, first)
    return last.c


def _searched(f: Callable[[Array], Valued], now: _Iterate, direction: Array) -> tuple[Array, Array, Array, Array]:
    """The first of the steps 1, 1/2, 1/4, ... that decreases f as its slope promises, and whether there is one."""

    def tried(t: Array) -> tuple[Array, Array, Array, Array]:
        c = jnp.maximum(now.c + t * direction, 0.0)
        value, gradient = f(c)
        promised = 1e-4 * jnp.vdot(now.gradient, c - now.c)
        return c, value, gradient, (value <= now.value + promised) & (value < now.value)

    def again(state: tuple[Array, ...]) -> tuple[Array, ...]:
        t, count, *_ = state
        return (t / 2, count + 1, *tried(t / 2))

    one = jnp.ones((), now.c.dtype)
    start = (one, jnp.asarray(0), *tried(one))
    _, _, c, value, gradient, found = jax.lax.while_loop(lambda s: ~s[-1] & (s[1] < HALVINGS), again, start)
    return c, value, gradient, found


def _updated(hessian: Array, moved: Array, change: Array) -> Array:
    """The BFGS update, left out where the curvature along the step is rounding."""
    bent = jnp.vdot(moved, change)
    along = hessian @ moved
    size = jnp.vdot(moved, along)
    good = (bent > SMALL * jnp.sqrt(jnp.vdot(moved, moved) * jnp.vdot(change, change))) & (size > 0)
    bent, size = jnp.where(good, bent, 1.0), jnp.where(good, size, 1.0)
    update = jnp.outer(change, change) / bent - jnp.outer(along, along) / size
    return hessian + jnp.where(good, update, 0.0)

"""Small problems that a server solves at every step: a smooth function of a few weights, concave ones of a number."""

from bisect import insort
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .tree import Scalar, Vector

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
    start: Vector,
    curvature: Array,
    used: Array,
    evaluations: int,
    accuracy: Scalar,
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
    first = _State(jnp.asarray(start), zero, nothing, zero, curvature, FIRST * mean, none, none, jnp.asarray(False))

    def evaluate(now: _State) -> _State:
        step = _find_step(now.weights, now.gradient, now.hessian, used, now.damping)
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
        hessian = jnp.where(begins, now.hessian, _update_hessian(now.hessian, c - now.weights, gradient - now.gradient))
        reached = c, value, gradient, slope, hessian
        c, value, gradient, slope, hessian = (jnp.where(good, *both) for both in zip(reached, now[:5], strict=True))
        damping = jnp.where(good, jnp.maximum(now.damping / FACTOR, LEAST * mean), now.damping * FACTOR)
        failures = jnp.where(good, 0, now.failures + 1)
        ended = (failures > FAILURES) | (slope <= accuracy)
        return _State(c, value, gradient, slope, hessian, damping, failures, now.evaluations + 1, ended)

    last = lax.while_loop(lambda now: (now.evaluations < evaluations) & ~now.ended, evaluate, first)
    return last.weights


def _find_step(c: Array, gradient: Array, hessian: Array, used: Array, damping: Array) -> Array:
    """- (B + damping)^-1 grad f on the free weights, 0 on the others; no number where rounding left B indefinite."""
    free = used & ((c > 0) | (gradient < 0))
    identity = np.eye(c.size)
    matrix = jnp.where(free[:, None] & free[None, :], hessian + damping * identity, identity)
    root = lax.linalg.cholesky(matrix, symmetrize_input=False)
    half = lax.linalg.triangular_solve(root, jnp.where(free, -gradient, 0.0)[:, None], left_side=True, lower=True)
    whole = lax.linalg.triangular_solve(root, half, left_side=True, lower=True, transpose_a=True)
    return jnp.where(free, whole[:, 0], 0.0)


def _update_hessian(hessian: Array, moved: Array, change: Array) -> Array:
    """The BFGS update, left out where the curvature along the step is rounding."""
    bent = jnp.vdot(moved, change)
    along = hessian @ moved
    size = jnp.vdot(moved, along)
    good = (bent > SMALL * jnp.sqrt(jnp.vdot(moved, moved) * jnp.vdot(change, change))) & (size > 0)
    bent, size = jnp.where(good, bent, 1.0), jnp.where(good, size, 1.0)
    update = jnp.outer(change, change) / bent - jnp.outer(along, along) / size
    return hessian + jnp.where(good, update, 0.0)


# Concave functions of [0, 1], maximized.


GOLDEN = (5**0.5 - 1) / 2
SECTIONS = 42
"""Golden sections of a line search: the interval ends below 1e-8."""


def maximize_concave(f: Callable[[Array], Array], at_one: Array) -> tuple[Array, Array]:
    """Where each of several concave functions of [0, 1] is largest, and its value there, by golden sections.

    f: all of them at once, each at its own place. at_one: what is known already, their values at 1. The first interval
    is one that has 1 as its left section: beyond 1 they are -inf, and f is compiled once, in the loop.
    """

    def narrow(_: Array, now: tuple[Array, ...]) -> tuple[Array, ...]:
        low, left, right, high, at_left, at_right = now
        up = at_left < at_right
        low, high = jnp.where(up, left, low), jnp.where(up, high, right)
        kept, at_kept = jnp.where(up, right, left), jnp.where(up, at_right, at_left)
        new = jnp.where(up, low + GOLDEN * (high - low), high - GOLDEN * (high - low))
        at_new = jnp.where(new <= 1, f(jnp.minimum(new, 1.0)), -jnp.inf)
        left, right = jnp.where(up, kept, new), jnp.where(up, new, kept)
        return low, left, right, high, jnp.where(up, at_kept, at_new), jnp.where(up, at_new, at_kept)

    one = jnp.ones_like(at_one)
    start = 0 * one, one, one / GOLDEN, one / GOLDEN**2, at_one, -jnp.inf * one
    _, left, right, _, at_left, at_right = jax.lax.fori_loop(0, SECTIONS, narrow, start)
    return jnp.where(at_left < at_right, right, left), jnp.maximum(at_left, at_right)


ENDS = 1e-3, 1 - 1e-5
"""Where a function of [0, 1] is looked at first: the best share of a floor is mostly small."""


def maximize_on_section(
    f: Callable[[float], float], at_zero: float, at_one: float, enough: float
) -> tuple[float, float]:
    """Where a concave function of [0, 1] is the largest, to within `enough`, and its value there; by few evaluations.

    A line through two of its points is above it beyond them. So on both sides of the highest point that was seen, the
    function is below the lines from left and right, and is looked at where they meet, as long as that is higher.
    """
    seen = sorted([(0.0, at_zero), *((end, f(end)) for end in ENDS), (1.0, at_one)])
    for _ in range(SECTIONS):
        top = max(range(len(seen)), key=lambda k: (seen[k][1], k))
        most, where = max(_most_between(seen, k) for k in (top - 1, top) if 0 <= k < len(seen) - 1)
        if not most > seen[top][1] + max(enough, SMALL * abs(seen[top][1])):
            break
        insort(seen, (where, f(where)))
    value, share = max((value, share) for share, value in seen)
    return share, value


def _most_between(seen: list[tuple[float, float]], k: int) -> tuple[float, float]:
    """How large a concave function may be between the points k and k + 1, and where."""
    (a, at_a), (b, at_b) = seen[k : k + 2]
    rises = (at_a - seen[k - 1][1]) / (a - seen[k - 1][0]) if k > 0 else np.inf
    falls = (at_b - seen[k + 2][1]) / (seen[k + 2][0] - b) if k + 2 < len(seen) else np.inf
    if not (np.isfinite(rises) and np.isfinite(falls)):
        ends = [end for end in (at_a + rises * (b - a), at_b + falls * (b - a)) if np.isfinite(end)]
        return max(at_a, at_b, min(ends, default=np.inf)), (a + b) / 2
    # Where both lines meet; within the section but for rounding.
    where = (at_b + falls * b - at_a + rises * a) / (rises + falls) if rises + falls > 0 else b
    where = min(max(where, a), b)
    return max(at_a, at_b, min(at_a + rises * (where - a), at_b + falls * (b - where))), where

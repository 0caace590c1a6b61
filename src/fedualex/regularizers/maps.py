"""Elementary maps that the closed forms are made of, safe at ties, at zero and at extreme scales."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..tree import Scalar, Vector, as_real


def soft(omega: Vector, threshold: Scalar | Vector) -> Array:
    """sign(omega) * max(|omega| - threshold, 0); exactly 0 where |omega| = threshold."""
    omega = as_real(omega)
    sign = jnp.where(omega < 0, -1, 1).astype(omega.dtype)  # never 0, which would be the slope at 0
    excess = sign * omega - jnp.asarray(threshold, omega.dtype)
    return sign * jnp.where(excess < 0, 0, excess)


def norm(x: Vector) -> Array:
    """||x||_2 over all entries, without overflow or underflow of the squares; its slope at 0 is 0."""
    x = as_real(x)
    # The unit that squares are taken in is a constant: the norm does not depend on it.
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(x), initial=0))
    infinite = largest == jnp.inf
    unit = jnp.where(infinite, 0, x) / nonzero(largest)
    length = jnp.sqrt(nonzero(jnp.sum(unit**2)))  # never the root of 0: its slope is infinite
    return jnp.where(infinite, largest, largest * length)


def radial(omega: Vector, radius: Scalar) -> Array:
    """The nearest point of the Euclidean ball: omega * min(1, radius / ||omega||)."""
    omega = as_real(omega)
    radius = jnp.asarray(radius, omega.dtype)
    largest = nonzero(jnp.max(jnp.abs(omega), initial=0))
    unit = omega / largest
    length = jnp.sqrt(nonzero(jnp.sum(unit**2)))  # never the root of 0: its slope is infinite
    return jnp.where(length <= radius / largest, omega, unit * (radius / length))


def ascending(omega: Array) -> tuple[Array, Array]:
    """The entries of omega in rising order, and the place of each in omega.

    Both come from one sort, whose results XLA stores. Entries gathered or mapped once more under jit may be computed
    once more, with another rounding: beside 1e33 the two differ by more than the whole simplex.
    """
    rising, order = jax.lax.sort((omega.ravel(), jnp.arange(omega.size)), num_keys=1)
    return rising, order


def put_back(entries: Array, order: Array, like: Array) -> Array:
    """The array whose entries, in the order of `ascending`, are these."""
    return jnp.zeros_like(entries).at[order].set(entries, unique_indices=True).reshape(like.shape)


def onto_simplex(omega: Vector, radius: Scalar) -> Array:
    """The nearest point of {x >= 0, sum x = radius}: (omega - kappa)_+, kappa by sorting.

    kappa is the largest of (omega_(1) + ... + omega_(j) - radius) / j over j, omega_(1) the largest entry.
    """
    omega = as_real(omega)
    radius = jnp.asarray(radius, omega.dtype)
    rising, order = ascending(omega)
    # Measured from the largest entry, so that the radius is not lost beside huge values.
    below = rising - rising[-1]
    kappa = jnp.max((jnp.cumsum(below[::-1]) - radius) / jnp.arange(1, omega.size + 1, dtype=omega.dtype))
    x = jnp.maximum(below - kappa, 0)
    return put_back(x * (radius / nonzero(jnp.sum(x))), order, omega)


def onto_capped_simplex(omega: Vector, cap: Scalar) -> Array:
    """The nearest point of {0 <= x <= cap, sum x = 1}: clip(omega - kappa, 0, cap).

    sum clip(omega - kappa, 0, cap) falls in kappa and is linear between the breakpoints omega_i and
    omega_i - cap: take the last breakpoint where it is still >= 1, then solve the linear piece after it.
    """
    omega = as_real(omega)
    cap = jnp.minimum(jnp.asarray(cap, omega.dtype), 1)
    # kappa is within cap below the entry of rank ceil(1 / cap). Measured from there, entries farther than cap
    # are certain to be 0 or cap, so clipping them changes nothing and keeps huge values harmless.
    rising, order = ascending(omega)
    pivot = rising[jnp.clip(omega.size - jnp.ceil(1 / cap).astype(int), 0, omega.size - 1)]
    rising = jnp.clip(rising - pivot, -cap, cap)
    sums = jnp.concatenate([jnp.cumsum(rising[::-1])[::-1], jnp.zeros(1, omega.dtype)])  # from each entry up

    def piece(kappa: Array) -> tuple[Array, Array, Array]:
        """How many entries are capped or free at kappa, and the sum of the free ones."""
        free_from = jnp.searchsorted(rising, kappa, side="right")
        capped_from = jnp.searchsorted(rising, kappa + cap, side="right")
        capped, free = omega.size - capped_from, capped_from - free_from
        return capped.astype(omega.dtype), free.astype(omega.dtype), sums[free_from] - sums[capped_from]

    kappas = jnp.concatenate([rising, rising - cap])
    capped, free, free_sum = piece(kappas)
    mass = capped * cap + free_sum - free * kappas
    start = jnp.max(jnp.where(mass >= 1, kappas, -cap))
    end = jnp.min(jnp.where(kappas > start, kappas, cap))
    # Inside the piece, not at its end, no rounding can mistake a free entry for a capped one.
    capped, free, free_sum = piece((start + end) / 2)
    kappa = jnp.where(free > 0, (free_sum + capped * cap - 1) / nonzero(free), start)
    return put_back(jnp.clip(rising - kappa, 0, cap), order, omega)


def capped_profile(size: int, cap: Scalar, dtype: jnp.dtype) -> Array:
    """The entries of any extreme point of the capped simplex, falling: cap, ..., cap, the rest, 0, ..., 0."""
    return jnp.clip(1 - jnp.asarray(cap, dtype) * jnp.arange(size, dtype=dtype), 0, jnp.asarray(cap, dtype))


def wright(c: Vector) -> Array:
    """The v > 0 with v + log v = c, by Newton's method on u = log v from the side where it is monotone."""
    c = jnp.maximum(as_real(c), jnp.finfo(jnp.result_type(as_real(c))).min)  # -inf - (-inf) is nan
    u = jnp.where(c > 1, jnp.log(jnp.maximum(c, 1)), c)
    for _ in range(8):
        v = jnp.exp(u)
        u = u - (v + u - c) / (v + 1)
    return jnp.where(c > 1, c - u, jnp.exp(u))


def nonzero(x: Array) -> Array:
    """x, with 1 in place of 0: for denominators whose numerator is 0 as well."""
    return jnp.where(x == 0, jnp.ones_like(x), x)

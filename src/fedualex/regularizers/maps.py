"""Elementary maps that the closed forms are made of, safe at ties, at zero and at extreme scales."""

import jax.numpy as jnp
from jaxtyping import Array

from ..tree import Scalar, Vector, as_real


def soft(omega: Vector, threshold: Scalar | Vector) -> Array:
    """sign(omega) * max(|omega| - threshold, 0); exactly 0 where |omega| = threshold."""
    omega = as_real(omega)
    threshold = jnp.asarray(threshold, omega.dtype)
    return jnp.copysign(jnp.maximum(jnp.abs(omega) - threshold, 0), omega)


def norm(x: Vector) -> Array:
    """||x||_2 over all entries, without overflow or underflow of the squares."""
    x = as_real(x)
    largest = jnp.max(jnp.abs(x), initial=0)
    scaled = largest * jnp.sqrt(
        nonzero(jnp.sum((x / nonzero(largest)) ** 2))
    )  # never the root of 0: its slope is infinite
    return jnp.where(jnp.isinf(largest), largest, scaled)


def radial(omega: Vector, radius: Scalar) -> Array:
    """The nearest point of the Euclidean ball: omega * min(1, radius / ||omega||)."""
    omega = as_real(omega)
    radius = jnp.asarray(radius, omega.dtype)
    largest = nonzero(jnp.max(jnp.abs(omega), initial=0))
    unit = omega / largest
    length = jnp.sqrt(nonzero(jnp.sum(unit**2)))  # never the root of 0: its slope is infinite
    return jnp.where(length <= radius / largest, omega, unit * (radius / length))


def onto_simplex(omega: Vector, radius: Scalar) -> Array:
    """The nearest point of {x >= 0, sum x = radius}: (omega - kappa)_+, kappa by sorting.

    kappa is the largest of (omega_(1) + ... + omega_(j) - radius) / j over j.
    """
    omega = as_real(omega)
    radius = jnp.asarray(radius, omega.dtype)
    # Measured from the largest entry, so that the radius is not lost beside huge values.
    below = omega - jnp.max(omega)
    falling = -jnp.sort(-below.ravel())
    kappa = jnp.max((jnp.cumsum(falling) - radius) / jnp.arange(1, omega.size + 1, dtype=omega.dtype))
    x = jnp.maximum(below - kappa, 0)
    total = jnp.sum(x)
    # Under jit omega may carry another rounding here than in its maximum, which beside huge values is all that x has left.
    vertex = jnp.where(jnp.arange(omega.size) == jnp.argmax(omega), radius, 0).reshape(omega.shape)
    return jnp.where(total > 0, x * (radius / nonzero(total)), vertex)


def onto_capped_simplex(omega: Vector, cap: Scalar) -> Array:
    """The nearest point of {0 <= x <= cap, sum x = 1}: clip(omega - kappa, 0, cap).

    sum clip(omega - kappa, 0, cap) falls in kappa and is linear between the breakpoints omega_i and
    omega_i - cap: take the last breakpoint where it is still >= 1, then solve the linear piece after it.
    """
    omega = as_real(omega)
    cap = jnp.minimum(jnp.asarray(cap, omega.dtype), 1)
    # kappa is within cap below the entry of rank ceil(1 / cap). Measured from there, entries farther than cap
    # are certain to be 0 or cap, so clipping them changes nothing and keeps huge values harmless.
    order = jnp.argsort(omega.ravel())
    rising = omega.ravel()[order]
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
    # Back from the sorted entries that kappa was made for: omega itself may carry another rounding under jit.
    return jnp.zeros_like(rising).at[order].set(jnp.clip(rising - kappa, 0, cap)).reshape(omega.shape)


def capped_profile(size: int, cap: Scalar, dtype: jnp.dtype) -> Array:
    """The entries of any extreme point of the capped simplex, falling: cap, ..., cap, the rest, 0, ..., 0."""
    return jnp.clip(1 - jnp.asarray(cap, dtype) * jnp.arange(size, dtype=dtype), 0, jnp.asarray(cap, dtype))


def wright(c: Vector) -> Array:
    """The v > 0 with v + log v = c, by Newton's method on u = log v from the side where it is monotone."""
    c = as_real(c)
    u = jnp.where(c > 1, jnp.log(jnp.maximum(c, 1)), c)
    for _ in range(8):
        v = jnp.exp(u)
        u = u - (v + u - c) / (v + 1)
    return jnp.where(c > 1, c - u, jnp.exp(u))


def nonzero(x: Array) -> Array:
    """x, with 1 in place of 0: for denominators whose numerator is 0 as well."""
    return jnp.where(x == 0, jnp.ones_like(x), x)

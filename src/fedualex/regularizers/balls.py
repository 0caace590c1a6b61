"""Norm balls."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..tree import Vector, as_real, cast_like
from ..validation import nonnegative
from .base import AbstractSet, Parameter, relative, show
from .maps import norm, onto_simplex, radial


class AbstractBall(AbstractSet):
    """All points of norm <= radius around 0."""

    radius: Parameter

    def __init__(self, radius: Any):
        self.radius = nonnegative(f"{type(self).__name__}: radius", radius)

    def diameter(self, like: Vector) -> Array:
        """2 radius."""
        return 2 * cast_like(self.radius, like)

    @property
    def finite_conjugate(self) -> bool:
        return True

    @property
    def absolutely_symmetric(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({show(self.radius)})"


class L2Ball(AbstractBall):
    """||x||_2 <= radius, over all entries (the Frobenius norm of a matrix)."""

    def project(self, omega: Vector) -> Array:
        """omega min(1, radius / ||omega||)."""
        return radial(omega, self.radius)

    def support(self, s: Vector) -> Array:
        """radius ||s||_2."""
        return cast_like(self.radius, s) * norm(s)

    def violation(self, x: Vector) -> Array:
        """(||x||_2 - radius)_+ / radius."""
        return relative(norm(x) - cast_like(self.radius, x), self.radius)

    def farthest(self, center: Vector) -> Array:
        """radius + ||center||_2."""
        return cast_like(self.radius, center) + norm(center)


class L1Ball(AbstractBall):
    """||x||_1 <= radius, over all entries."""

    def project(self, omega: Vector) -> Array:
        """omega inside; outside, the simplex projection of |omega| with the signs of omega."""
        omega = as_real(omega)
        radius = cast_like(self.radius, omega)
        # Inside, where points nearly always are, nothing is sorted.
        projected: Array = jax.lax.cond(jnp.sum(jnp.abs(omega)) <= radius, _unchanged, _onto_face, omega, radius)
        return projected

    def support(self, s: Vector) -> Array:
        """radius max |s|."""
        return cast_like(self.radius, s) * jnp.max(jnp.abs(s), initial=0)

    def violation(self, x: Vector) -> Array:
        """(||x||_1 - radius)_+ / radius."""
        return relative(jnp.sum(jnp.abs(x)) - cast_like(self.radius, x), self.radius)

    def farthest(self, center: Vector) -> Array:
        """sqrt(radius^2 + ||center||^2 + 2 radius max |center|), at a vertex."""
        return jnp.sqrt(cast_like(self.radius, center) ** 2 + norm(center) ** 2 + 2 * self.support(center))


def _unchanged(omega: Array, radius: Array) -> Array:
    return omega


def _onto_face(omega: Array, radius: Array) -> Array:
    """The nearest point of l1 norm `radius`."""
    return jnp.copysign(onto_simplex(jnp.abs(omega), radius), omega)

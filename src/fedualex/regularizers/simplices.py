"""Mixtures: the simplex, and the simplex with a cap on every entry."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from ..tree import Vector, as_real, cast_like
from ..validation import nonnegative, positive
from .base import AbstractSet, Parameter, relative, show
from .maps import capped_profile, norm, onto_capped_simplex, onto_simplex


class Simplex(AbstractSet):
    """x >= 0, sum x = radius, over all entries."""

    radius: Parameter

    def __init__(self, radius: Any = 1.0):
        self.radius = nonnegative("Simplex: radius", radius)

    def project(self, omega: Vector) -> Array:
        """(omega - kappa)_+ with kappa such that the sum is the radius."""
        return onto_simplex(omega, self.radius)

    def support(self, s: Vector) -> Array:
        """radius max s."""
        return cast_like(self.radius, s) * jnp.max(jnp.asarray(s))

    def violation(self, x: Vector) -> Array:
        """The larger of the error of the sum and the largest negative entry, over the radius."""
        x = as_real(x)
        return relative(jnp.maximum(jnp.abs(jnp.sum(x) - cast_like(self.radius, x)), jnp.max(-x)), self.radius)

    def farthest(self, center: Vector) -> Array:
        """sqrt(radius^2 + ||center||^2 - 2 radius min center), at a vertex."""
        center = as_real(center)
        return jnp.sqrt(cast_like(self.radius, center) ** 2 + norm(center) ** 2 + 2 * self.support(-center))

    def diameter(self, like: Vector) -> Array:
        """sqrt(2) radius, between two vertices; 0 if there is only one."""
        return cast_like(np.sqrt(2) * self.radius if np.size(like) > 1 else 0.0, like)

    @property
    def finite_conjugate(self) -> bool:
        return True

    @property
    def absolutely_symmetric(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"Simplex({show(self.radius)})"


class CappedSimplex(AbstractSet):
    """0 <= x <= cap, sum x = 1: mixtures in which no entry has more than `cap`, as in CVaR with level 1 / (d cap)."""

    cap: Parameter

    def __init__(self, cap: Any):
        self.cap = positive("CappedSimplex: cap", cap)

    def check_size(self, size: int) -> None:
        """Refuse a cap so small that no mixture of `size` entries exists."""
        if not isinstance(self.cap, Tracer) and float(self.cap) * size < 1 - 1e-12:
            raise ValueError(
                f"CappedSimplex: cap must be at least 1/{size} for {size} entries, got {float(self.cap)!r}"
            )

    def project(self, omega: Vector) -> Array:
        """clip(omega - kappa, 0, cap) with kappa such that the sum is 1."""
        self.check_size(np.size(omega))
        return onto_capped_simplex(omega, self.cap)

    def support(self, s: Vector) -> Array:
        """cap (sum of the k largest) + (1 - k cap) (the next), k = floor(1 / cap)."""
        s = as_real(s)
        return jnp.vdot(capped_profile(s.size, self.cap, s.dtype), -jnp.sort(-s.ravel()))

    def violation(self, x: Vector) -> Array:
        """The largest of the error of the sum, a negative entry, and an excess over the cap."""
        x = as_real(x)
        outside = jnp.maximum(jnp.max(-x), jnp.max(x - cast_like(self.cap, x)))
        return relative(jnp.maximum(jnp.abs(jnp.sum(x) - 1), outside), 1.0)

    def farthest(self, center: Vector) -> Array:
        """All extreme points have the same norm, so the farthest one minimizes <center, x>."""
        center = as_real(center)
        extreme = norm(capped_profile(center.size, self.cap, center.dtype))
        return jnp.sqrt(extreme**2 + norm(center) ** 2 + 2 * self.support(-center))

    def diameter(self, like: Vector) -> Array:
        """Between an extreme point and the one in the opposite order."""
        profile = capped_profile(np.size(like), self.cap, jnp.result_type(as_real(like)))
        return norm(profile - profile[::-1])

    @property
    def finite_conjugate(self) -> bool:
        return True

    @property
    def absolutely_symmetric(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"CappedSimplex({show(self.cap)})"

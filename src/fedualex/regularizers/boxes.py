"""Boxes, entry by entry."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..tree import Vector, as_real, cast_like
from ..validation import any_real_array, nonnegative, short
from .base import AbstractSet, Parameter, relative, show
from .maps import norm


class Box(AbstractSet):
    """lower <= x <= upper, entry by entry.

    `Box(0.05)` is |x_i| <= 0.05; `Box(lower=..., upper=...)` takes numbers or arrays of the shape of x, may be
    one-sided and need not contain zero.

    radius: |x_i| <= radius. lower, upper: the ends in place of it, None where there is no end.
    """

    lower: Parameter
    upper: Parameter

    def __init__(self, radius: Any = None, *, lower: Any = None, upper: Any = None):
        if (radius is None) == (lower is None and upper is None):
            raise TypeError("Box takes either a radius or lower and upper, e.g. Box(0.05) or Box(lower=0, upper=1)")
        if radius is not None:
            size = nonnegative("Box: radius", radius)
            lower, upper = -size, size
        self.lower = any_real_array("Box: lower", -np.inf if lower is None else lower)
        self.upper = any_real_array("Box: upper", np.inf if upper is None else upper)
        try:
            np.broadcast_shapes(self.lower.shape, self.upper.shape)
        except ValueError:
            raise ValueError(
                f"Box: lower has shape {self.lower.shape} and upper {self.upper.shape}; they must agree, or be numbers"
            ) from None
        if np.any(self.lower > self.upper) or np.any(self.lower == np.inf) or np.any(self.upper == -np.inf):
            raise ValueError(
                f"Box: lower must be <= upper everywhere with a real number between, got {short(lower)}, {short(upper)}"
            )

    def project(self, omega: Vector) -> Array:
        """clip(omega, lower, upper)."""
        omega = as_real(omega)
        return jnp.clip(omega, cast_like(self.lower, omega), cast_like(self.upper, omega))

    def support(self, s: Vector) -> Array:
        """sum_i max(lower_i s_i, upper_i s_i)."""
        s = as_real(s)
        corner = jnp.where(
            s > 0, cast_like(self.upper, s), jnp.where(s < 0, cast_like(self.lower, s), self.project(0 * s))
        )
        bounded = jnp.isfinite(corner)
        # Never infinity times s: its slope is infinite where only another entry is asked for.
        return jnp.sum(jnp.where(bounded, jnp.where(bounded, corner, 0) * s, jnp.inf))

    def violation(self, x: Vector) -> Array:
        """The largest excess over a bound, relative to the entry's own finite bounds (to x if there are none)."""
        x = as_real(x)
        lower, upper = cast_like(self.lower, x), cast_like(self.upper, x)
        size = jnp.maximum(_finite_size(lower), _finite_size(upper))
        size = jnp.where(size > 0, size, jnp.max(jnp.abs(x), initial=0))
        return jnp.max(relative(jnp.maximum(lower - x, x - upper), size), initial=0)

    def farthest(self, center: Vector) -> Array:
        """||max(|lower - center|, |upper - center|)||_2."""
        lower, upper = cast_like(self.lower, center), cast_like(self.upper, center)
        return norm(jnp.maximum(jnp.abs(lower - center), jnp.abs(upper - center)))

    def diameter(self, like: Vector) -> Array:
        """||upper - lower||_2."""
        return norm(jnp.broadcast_to(cast_like(self.upper - self.lower, like), jnp.shape(like)))

    @property
    def finite_conjugate(self) -> bool:
        return bool(np.all(np.isfinite(self.lower)) and np.all(np.isfinite(self.upper)))

    @property
    def absolutely_symmetric(self) -> bool:
        return bool(np.ndim(self.lower) == np.ndim(self.upper) == 0 and self.lower == -self.upper)

    def __repr__(self) -> str:
        if self.absolutely_symmetric:
            return f"Box({show(self.upper)})"
        return f"Box(lower={show(self.lower)}, upper={show(self.upper)})"


def NonNegative() -> Box:
    """x >= 0, entry by entry: `Box` with lower bound 0 and no upper bound."""
    return Box(lower=0.0)


def _finite_size(bound: Array) -> Array:
    return jnp.where(jnp.isfinite(bound), jnp.abs(bound), 0)

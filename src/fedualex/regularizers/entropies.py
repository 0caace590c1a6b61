"""Entropies, finite on the nonnegative orthant."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..tree import Scalar, Vector, as_real, cast_like
from ..validation import nonnegative, real_array
from ..validation.accepted import Number
from .base import AbstractRegularizer, Parameter, indicator, relative, show
from .maps import nonzero, wright


class KL(AbstractRegularizer):
    """psi(x) = lam sum_i x_i log(x_i / q_i) on x >= 0, with 0 log 0 = 0: the divergence from q on the simplex."""

    lam: Parameter
    q: Parameter

    def __init__(self, lam: Any, q: Any):
        self.lam = nonnegative("KL: lam", lam)
        self.q = real_array("KL: q", q)
        if np.any(np.asarray(self.q) <= 0):
            raise ValueError("KL: q must be > 0 in every entry; drop the entries that x may not use")

    def value(self, x: Vector) -> Array:
        """lam sum x log(x / q); its slope at 0 is that at the smallest normal number, not infinite."""
        x = as_real(x)
        x = jnp.where(x < 0, 0, x)
        logarithm = jnp.log(jnp.maximum(x, jnp.finfo(x.dtype).tiny))
        return cast_like(self.lam, x) * jnp.sum(x * logarithm - x * jnp.log(cast_like(self.q, x)))

    def prox(self, omega: Vector, weight: Scalar) -> Array:
        """The x > 0 with x + tau log(x / q) = omega - tau, tau = weight lam; max(omega, 0) at tau = 0."""
        omega = as_real(omega)
        tau = cast_like(weight, omega) * cast_like(self.lam, omega)
        q = cast_like(self.q, omega)
        divisor = nonzero(tau)
        c = omega / divisor - 1 + jnp.log(q) - jnp.log(divisor)
        # Where the entropy is lost to rounding, or tau is 0, the projection is the answer.
        limit = 1 / jnp.finfo(omega.dtype).eps ** 2
        entropic = (tau > 0) & (c < limit)
        return jnp.where(entropic, tau * wright(jnp.where(entropic, c, 0)), jnp.maximum(omega, 0))

    def conjugate(self, s: Vector) -> Array:
        """lam sum q exp(s / lam - 1); at lam = 0, that of x >= 0."""
        s = as_real(s)
        lam = cast_like(self.lam, s)
        entropic = lam * jnp.sum(cast_like(self.q, s) * jnp.exp(s / nonzero(lam) - 1))
        return jnp.where(lam > 0, entropic, indicator(jnp.all(s <= 0), s))

    def subgradient(self, x: Vector) -> Array:
        """lam (1 + log(x / q)), with x kept above the smallest normal number: there is no subgradient at 0."""
        x = jnp.maximum(as_real(x), jnp.finfo(jnp.result_type(as_real(x))).tiny)
        return cast_like(self.lam, x) * (1 + jnp.log(x) - jnp.log(cast_like(self.q, x)))

    def violation(self, x: Vector) -> Array:
        """The largest negative entry, relative to the largest entry."""
        return relative(jnp.max(-as_real(x), initial=0), jnp.max(jnp.abs(x), initial=0))

    def farthest(self, center: Vector) -> Array:
        """The orthant is unbounded."""
        return jnp.full((), jnp.inf, jnp.result_type(as_real(center)))

    def diameter(self, like: Vector) -> Array:
        """The orthant is unbounded."""
        return jnp.full((), jnp.inf, jnp.result_type(as_real(like)))

    @property
    def finite_conjugate(self) -> bool:
        return bool(self.lam > 0)

    @property
    def absolutely_symmetric(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"KL({show(self.lam)}, q={show(self.q)})"


def Entropy(lam: Number) -> KL:
    """psi(x) = lam sum_i x_i log x_i on x >= 0: `KL` with q = 1."""
    return KL(lam, 1.0)

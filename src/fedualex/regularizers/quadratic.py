"""Constant, linear and quadratic terms, which join any regularizer."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..tree import Scalar, Vector, as_real, cast_like, depend_on
from ..validation import nonnegative, real_array
from ..validation.accepted import Number, Numbers
from .base import AbstractRegularizer, Parameter, show
from .maps import nonzero, norm
from .norms import L1, Zero

ROUNDINGS = 8
"""How many roundings of a slope the maximizer of a conjugate carries."""

NONE = np.zeros(())
NONE.setflags(write=False)


class WithQuadratic(AbstractRegularizer):
    """core(x) + lam/2 ||x||^2 + <c, x> + constant, whatever the core."""

    core: AbstractRegularizer
    lam: Parameter
    c: Parameter
    constant: Parameter

    def value(self, x: Vector) -> Array:
        """core(x) + lam/2 ||x||^2 + <c, x> + constant."""
        x = as_real(x)
        # Times x last: a square may overflow that the tiny or zero lam beside it does not let count.
        terms = jnp.sum(cast_like(self.lam, x) / 2 * x * x) + jnp.sum(cast_like(self.c, x) * x)
        return self.core.value(x) + terms + cast_like(self.constant, x)

    def prox(self, omega: Vector, weight: Scalar) -> Array:
        """The core's prox of (omega - weight c) / s with weight / s, s = 1 + weight lam."""
        omega = as_real(omega)
        weight = cast_like(weight, omega)
        scale = 1 + weight * cast_like(self.lam, omega)
        tilted = (omega - weight * cast_like(self.c, omega)) / scale
        return self.core.prox(tilted, weight / scale)

    def divide(self, s: Vector) -> tuple[Array, Array]:
        """The maximizer x of <s, x> - psi(x), and what of s is left to the core there, s - c - lam x; for lam > 0.

        x is the core's prox of (s - c) / lam with weight 1 / lam.
        """
        slope = as_real(s) - cast_like(self.c, s)
        lam = cast_like(self.lam, slope)
        x = self.core.prox(slope / nonzero(lam), 1 / nonzero(lam))
        return x, slope - lam * x

    def conjugate(self, s: Vector) -> Array:
        """<s - c, x> - lam/2 ||x||^2 - core(x) - constant at its maximizer x.

        Never more than the core's conjugate, which is the answer at lam = 0 and where that point is out of range.
        """
        slope = as_real(s) - cast_like(self.c, s)
        lam = cast_like(self.lam, slope)
        x, _ = self.divide(s)
        at_x = jnp.sum(slope * x - lam / 2 * x * x) - self.core.value(x)
        # A slope that is off by r moves the maximizer by r / lam, and at_x is below the maximum by r^2 / (2 lam).
        r = ROUNDINGS * jnp.finfo(slope.dtype).eps * norm(slope)
        at_x = at_x + r * (r / nonzero(2 * lam))
        at_x = jnp.where((lam > 0) & jnp.isfinite(at_x), at_x, jnp.inf)
        # One LAPACK call at a time, should the core be spectral.
        return jnp.minimum(at_x, self.core.conjugate(depend_on(slope, at_x))) - cast_like(self.constant, slope)

    def subgradient(self, x: Vector) -> Array:
        """The core's, plus lam x + c."""
        return self.core.subgradient(x) + cast_like(self.lam, x) * as_real(x) + cast_like(self.c, x)

    def violation(self, x: Vector) -> Array:
        """The core's."""
        return self.core.violation(x)

    def farthest(self, center: Vector) -> Array:
        """The core's."""
        return self.core.farthest(center)

    def diameter(self, like: Vector) -> Array:
        """The core's."""
        return self.core.diameter(like)

    @property
    def finite_conjugate(self) -> bool:
        return bool(self.lam > 0) or self.core.finite_conjugate

    @property
    def absolutely_symmetric(self) -> bool:
        return self.core.absolutely_symmetric and not np.any(self.c)

    def __repr__(self) -> str:
        terms = [] if isinstance(self.core, Zero) else [repr(self.core)]
        terms += [f"SquaredL2({show(self.lam)})"] if np.any(self.lam) else []
        terms += [f"Linear({show(self.c)})"] if np.any(self.c) else []
        terms += [f"constant {show(self.constant)}"] if np.any(self.constant) else []
        return " + ".join(terms) or "Zero()"


def SquaredL2(lam: Number) -> WithQuadratic:
    """psi(x) = lam/2 ||x||_2^2; prox omega / (1 + weight lam), conjugate ||s||^2 / (2 lam)."""
    return WithQuadratic(Zero(), nonnegative("SquaredL2: lam", lam), NONE, NONE)


def ElasticNet(lam1: Number, lam2: Number) -> AbstractRegularizer:
    """psi(x) = lam1 ||x||_1 + lam2/2 ||x||_2^2."""
    l1 = L1(nonnegative("ElasticNet: lam1", lam1))
    return WithQuadratic(l1, nonnegative("ElasticNet: lam2", lam2), NONE, NONE)


def Linear(c: Numbers) -> WithQuadratic:
    """psi(x) = <c, x>; a number stands for the vector with this entry everywhere."""
    return WithQuadratic(Zero(), NONE, real_array("Linear: c", c), NONE)


def split(psi: AbstractRegularizer) -> tuple[AbstractRegularizer, Parameter, Parameter]:
    """The core, the quadratic strength and the linear term of a regularizer."""
    return (psi.core, psi.lam, psi.c) if isinstance(psi, WithQuadratic) else (psi, NONE, NONE)


def constant_of(psi: AbstractRegularizer) -> Parameter:
    """The constant that a regularizer holds beside these three."""
    return psi.constant if isinstance(psi, WithQuadratic) else NONE

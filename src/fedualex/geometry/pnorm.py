"""The p-norm mirror map."""

from typing import Any

import numpy as np

from ..accepted import Number
from ..arrays import Array, xp
from ..regularizers import L1, AbstractRegularizer, Zero
from ..regularizers.base import ModelForm, Parameter, nonzero
from ..tree import Scalar, Vector, as_real, cast_like
from ..validation import real_scalar, short
from .base import AbstractGeometry, Dual, zero_weight


class PNorm(AbstractGeometry):
    """ell(x) = ||x||_p^2 / (2 (p - 1)) for 1 < p <= 2, 1-strongly convex in ||.||_p; the regularizer is none or `L1`.

    p = 1 + 1 / log d comes within a factor e of the l1 norm in d dimensions.
    """

    p: Parameter
    regularizer: AbstractRegularizer

    def __init__(self, p: Number, regularizer: Any = None):
        self.p = real_scalar("PNorm: p", p, "a number with 1 < p <= 2")
        if not 1 < self.p <= 2:
            raise ValueError(f"PNorm: p must be a number with 1 < p <= 2, got {float(self.p)!r}")
        self.regularizer = Zero() if regularizer is None else regularizer
        if not isinstance(self.regularizer, Zero | L1):
            raise TypeError(
                f"PNorm: {short(regularizer)} has no closed form with the p-norm mirror map; accepted: nothing, L1"
            )

    def primal(self, dual: Dual) -> Array:
        """(p-1) sign(w_i) (|w_i| / ||w||_q)^(q-1) ||w||_q: grad ell^* at the thresholded w = soft(omega, tau lam)."""
        w = self.regularizer.prox(dual.omega, dual.tau)
        p = cast_like(self.p, w)
        q = p / (p - 1)
        length = _norm(w, q)
        return (p - 1) * xp.copysign((xp.abs(w) / nonzero(length)) ** (q - 1), w) * length

    def dual(self, z: Vector) -> Dual:
        """sign(z_i) (|z_i| / ||z||_p)^(p-1) ||z||_p / (p - 1)."""
        z = as_real(z)
        p = cast_like(self.p, z)
        length = _norm(z, p)
        omega = xp.copysign((xp.abs(z) / nonzero(length)) ** (p - 1), z) * length / (p - 1)
        return Dual(omega, zero_weight(z))

    def ell(self, z: Vector) -> Array:
        """||z||_p^2 / (2 (p - 1))."""
        return xp.square(self.norm(z)) / (2 * (cast_like(self.p, z) - 1))

    def psi(self, z: Vector) -> Array:
        return self.regularizer.value(z)

    def psi_conjugate(self, s: Vector) -> Array:
        return self.regularizer.conjugate(s)

    def subgradient(self, z: Vector) -> Array:
        return self.regularizer.subgradient(z)

    def violation(self, z: Vector) -> Array:
        """0: the whole space is allowed."""
        return self.regularizer.violation(z)

    def divergence(self, z: Vector, reference: Vector) -> Array:
        """ell(z) - ell(reference) - <grad ell(reference), z - reference>."""
        gradient = self.dual(reference).omega
        return self.ell(z) - self.ell(reference) - xp.sum(gradient * (xp.asarray(z) - reference))

    def norm(self, z: Vector) -> Array:
        """||z||_p."""
        return _norm(z, self.p)

    def dual_norm(self, g: Vector) -> Array:
        """||g||_q, 1/p + 1/q = 1."""
        return _norm(g, self.p / (self.p - 1))

    def B0(self, omega0: Vector) -> Array:
        """Infinite: the domain is unbounded."""
        return xp.full((), xp.inf, xp.result_type(as_real(omega0)))

    def diameter(self, like: Vector) -> Array:
        """Infinite: the domain is unbounded."""
        return xp.full((), xp.inf, xp.result_type(as_real(like)))

    @property
    def finite_conjugate(self) -> bool:
        """False: the domain is unbounded."""
        return False

    @property
    def rounding_is_bound(self) -> bool:
        """False: the rounding of powers is not analyzed."""
        return False

    @property
    def power(self) -> float:
        return float(self.p)

    def __repr__(self) -> str:
        return f"PNorm({float(np.asarray(self.p))!r}, {self.regularizer!r})"

    def model_form(self) -> ModelForm:
        return self.regularizer.model_form()


def _norm(x: Vector, power: Scalar) -> Array:
    """||x||_power, scaled by the largest entry so that no power overflows."""
    x = as_real(x)
    power = xp.asarray(power, x.dtype)
    largest = xp.max(xp.abs(x), initial=0)
    return largest * xp.sum((xp.abs(x) / nonzero(largest)) ** power) ** (1 / power)

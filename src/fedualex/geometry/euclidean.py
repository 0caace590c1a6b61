"""The Euclidean mirror map, 1/2 ||z||^2."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, xp
from ..regularizers import AbstractRegularizer, Zero
from ..regularizers.base import ModelForm, norm
from ..regularizers.fenchel import Fenchel, fenchel, has_rounding_bound
from ..tree import Vector, as_real, depend_on
from ..validation import short
from .base import AbstractGeometry, Dual, zero_weight


class Euclidean(AbstractGeometry):
    """ell(z) = 1/2 ||z||_2^2 with any regularizer: a plain regularizer given as x= or y= means this."""

    regularizer: AbstractRegularizer

    def __init__(self, regularizer: Any = None):
        self.regularizer = Zero() if regularizer is None else regularizer
        if not isinstance(self.regularizer, AbstractRegularizer):
            raise TypeError(f"Euclidean: regularizer must be a regularizer such as L1(0.1), got {short(regularizer)}")

    def primal(self, dual: Dual) -> Array:
        """prox of psi at omega with weight tau."""
        return self.regularizer.prox(dual.omega, dual.tau)

    def primal_in(self, metric: Vector, dual: Dual) -> Array:
        """The regularizer's prox in this metric."""
        return self.regularizer.prox_in(metric, dual.omega, dual.tau)

    def metric_near(self, squares: NDArray[np.float64]) -> float | NDArray[np.float64]:
        return self.regularizer.metric_near(squares)

    def dual(self, z: Vector) -> Dual:
        """(z, 0)."""
        return Dual(as_real(z), zero_weight(z))

    def ell(self, z: Vector) -> Array:
        """1/2 ||z||^2."""
        return xp.sum(xp.square(z)) / 2

    def psi(self, z: Vector) -> Array:
        return self.regularizer.value(z)

    def psi_conjugate(self, s: Vector) -> Array:
        return self.regularizer.conjugate(s)

    def subgradient(self, z: Vector) -> Array:
        return self.regularizer.subgradient(z)

    def violation(self, z: Vector) -> Array:
        return self.regularizer.violation(z)

    def divergence(self, z: Vector, reference: Vector) -> Array:
        """1/2 ||z - reference||^2."""
        return self.ell(xp.asarray(z) - reference)

    def norm(self, z: Vector) -> Array:
        """||z||_2."""
        return norm(z)

    def dual_norm(self, g: Vector) -> Array:
        """||g||_2."""
        return norm(g)

    def B0(self, omega0: Vector) -> Array:
        """1/2 (the farthest distance from omega0 to C)^2 - 1/2 (the nearest)^2."""
        nearest = norm(xp.asarray(omega0) - self.project(omega0))
        farthest = self.regularizer.farthest(depend_on(xp.asarray(omega0), nearest))  # one LAPACK call at a time
        return (farthest - nearest) * (farthest + nearest) / 2

    def diameter(self, like: Vector) -> Array:
        """The Euclidean diameter of C."""
        return self.regularizer.diameter(like)

    @property
    def finite_conjugate(self) -> bool:
        """Whether the regularizer's conjugate is finite."""
        return self.regularizer.finite_conjugate

    def fenchel(self, z: Vector, g: Vector, error: Vector) -> Fenchel:
        """The regularizer's, from differences."""
        return fenchel(self.regularizer, z, -as_real(g), error)

    @property
    def rounding_is_bound(self) -> bool:
        """Whether that of the regularizer is a bound."""
        return has_rounding_bound(self.regularizer)

    @property
    def power(self) -> float:
        return 2.0

    def radius(self, like: Vector) -> Array:
        """The distance of the farthest point from 0."""
        return self.regularizer.farthest(xp.zeros_like(like))

    def __repr__(self) -> str:
        return f"Euclidean({self.regularizer!r})"

    def model_form(self) -> ModelForm:
        return self.regularizer.model_form()

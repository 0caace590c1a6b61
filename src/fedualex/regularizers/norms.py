"""Norms and entropies: regularizers that are finite everywhere, or on positive numbers."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..accepted import Number, Numbers
from ..arrays import Array, largest_of_groups, sums_of_groups, without_slope, xp
from ..tree import Scalar, Vector, as_real, cast_like
from ..validation import nonnegative, plain_array, real_array, short
from .base import (
    AbstractPenalty,
    AbstractRegularizer,
    ModelForm,
    Parameter,
    indicator,
    nonzero,
    relative,
    show,
    soft,
    wright,
)


class Zero(AbstractPenalty):
    """psi(x) = 0 on the whole space."""

    roundings: ClassVar[int | None] = 1

    def value(self, x: Vector) -> Array:
        """0."""
        return xp.zeros((), xp.result_type(as_real(x)))

    def prox(self, omega: Vector, weight: Scalar) -> Array:
        return as_real(omega)

    def prox_in(self, metric: Vector, omega: Vector, weight: Scalar) -> Array:
        """omega / metric."""
        return xp.divide(as_real(omega), cast_like(metric, omega))

    def metric_near(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        return squares

    def conjugate(self, s: Vector) -> Array:
        """0 if s = 0, else infinity."""
        return indicator(xp.all(xp.asarray(s) == 0), s)

    def subgradient(self, x: Vector) -> Array:
        """0."""
        return xp.zeros_like(x)

    @property
    def finite_conjugate(self) -> bool:
        return False

    @property
    def absolutely_symmetric(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "Zero()"

    def model_form(self) -> ModelForm:
        return ModelForm()


class L1(AbstractPenalty):
    """psi(x) = lam ||x||_1. Its prox is soft thresholding; exact zeros are its point."""

    roundings: ClassVar[int | None] = 1

    lam: Parameter

    def __init__(self, lam: Number):
        self.lam = nonnegative("L1: lam", lam)

    def value(self, x: Vector) -> Array:
        """lam ||x||_1."""
        return cast_like(self.lam, x) * xp.sum(xp.abs(x))

    def prox(self, omega: Vector, weight: Scalar) -> Array:
        """soft(omega, weight * lam)."""
        return soft(omega, cast_like(weight, omega) * cast_like(self.lam, omega))

    def prox_in(self, metric: Vector, omega: Vector, weight: Scalar) -> Array:
        """soft(omega, weight * lam) / metric."""
        return xp.divide(self.prox(omega, weight), cast_like(metric, omega))

    def metric_near(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        return squares

    def conjugate(self, s: Vector) -> Array:
        """0 if max |s| <= lam, else infinity."""
        return indicator(xp.max(xp.abs(s), initial=0) <= cast_like(self.lam, s), s)

    def subgradient(self, x: Vector) -> Array:
        """lam sign(x), 0 at 0."""
        return cast_like(self.lam, x) * xp.sign(x)

    @property
    def finite_conjugate(self) -> bool:
        return False

    @property
    def absolutely_symmetric(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"L1({show(self.lam)})"

    def model_form(self) -> ModelForm:
        return ModelForm(l1=float(self.lam))


class GroupL2(AbstractPenalty):
    """psi(x) = lam sum_g w_g ||x_g||_2: whole groups of entries vanish together.

    `groups` holds a label 0, 1, ..., G-1 for every entry of x and has the shape of x; `weights`, one number a
    group, are 1 unless given (the square roots of the group sizes are another common choice).
    """

    roundings: ClassVar[int | None] = 2

    lam: Parameter
    groups: Parameter
    weights: Parameter

    def __init__(self, lam: Number, groups: Numbers, weights: Numbers | None = None):
        self.lam = nonnegative("GroupL2: lam", lam)
        labels = plain_array("GroupL2: groups", groups)
        if labels.dtype.kind not in "iu" or labels.size == 0:
            raise TypeError(f"GroupL2: groups must be integer labels, one for each entry of x, got {short(groups)}")
        count = int(labels.max()) + 1
        if labels.min() < 0 or len(np.unique(labels)) != count:
            raise ValueError(f"GroupL2: groups must use every label of 0..{count - 1} and none below 0")
        self.groups = labels.astype(np.int32)  # the index type of both precisions
        self.weights = np.ones(count) if weights is None else real_array("GroupL2: weights", weights)
        if self.weights.shape != (count,) or np.any(np.asarray(self.weights) < 0):
            raise ValueError(f"GroupL2: weights must be {count} numbers >= 0, one for each group, got {short(weights)}")

    def thresholds(self, x: Vector) -> Array:
        """lam w_g, in the precision of x."""
        return cast_like(self.lam, x) * cast_like(self.weights, x)

    def norms(self, x: Vector) -> Array:
        """||x_g||_2 for each group, without overflow of the squares; its slope at a group of zeros is 0."""
        x = as_real(x)
        if x.shape != self.groups.shape:
            raise ValueError(f"GroupL2: x has shape {x.shape}, but groups has shape {self.groups.shape}")
        count, labels = self.weights.shape[0], self.groups.ravel()
        largest = without_slope(largest_of_groups(xp.abs(x).ravel(), labels, count))
        squares = sums_of_groups(xp.square(x.ravel() / nonzero(largest)[labels]), labels, count)
        return largest * xp.sqrt(nonzero(squares))  # never the root of 0: its slope is infinite

    def value(self, x: Vector) -> Array:
        """lam sum_g w_g ||x_g||_2."""
        return xp.vdot(self.thresholds(x), self.norms(x))

    def prox(self, omega: Vector, weight: Scalar) -> Array:
        """omega_g * max(0, 1 - weight lam w_g / ||omega_g||); a group at or under its threshold is exactly 0."""
        omega = as_real(omega)
        norms, thresholds = self.norms(omega), cast_like(weight, omega) * self.thresholds(omega)
        kept = xp.where(thresholds > 0, xp.maximum(norms - thresholds, 0) / nonzero(norms), 1)
        return omega * kept[self.groups]

    def prox_in(self, metric: Vector, omega: Vector, weight: Scalar) -> Array:
        """The prox of omega / metric, in a metric that is one number in each group."""
        return xp.divide(self.prox(omega, weight), cast_like(metric, omega))

    def metric_near(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean in each group."""
        labels = np.asarray(self.groups).ravel()
        means = np.bincount(labels, np.ravel(squares)) / np.bincount(labels)
        return np.asarray(means[self.groups])

    def conjugate(self, s: Vector) -> Array:
        """0 if ||s_g|| <= lam w_g for every group, else infinity."""
        return indicator(xp.all(self.norms(s) <= self.thresholds(s)), s)

    def subgradient(self, x: Vector) -> Array:
        """lam w_g x_g / ||x_g||, 0 for a group at 0."""
        slopes = self.thresholds(x) / nonzero(self.norms(x))
        return xp.multiply(as_real(x), slopes[self.groups])

    @property
    def finite_conjugate(self) -> bool:
        return False

    @property
    def absolutely_symmetric(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"GroupL2({show(self.lam)}, {self.weights.shape[0]} groups)"

    def model_form(self) -> ModelForm:
        return ModelForm(groups=np.asarray(self.groups), weights=float(self.lam) * np.asarray(self.weights))


# Entropies, finite on the nonnegative orthant.


class KL(AbstractRegularizer):
    """psi(x) = lam sum_i x_i log(x_i / q_i) on x >= 0, with 0 log 0 = 0: the divergence from q on the simplex."""

    roundings: ClassVar[int | None] = None  # exp and log are not analyzed

    lam: Parameter
    q: Parameter

    def __init__(self, lam: Number, q: Numbers):
        self.lam = nonnegative("KL: lam", lam)
        self.q = real_array("KL: q", q)
        if np.any(np.asarray(self.q) <= 0):
            raise ValueError("KL: q must be > 0 in every entry; drop the entries that x may not use")

    def value(self, x: Vector) -> Array:
        """lam sum x log(x / q); its slope at 0 is that at the smallest normal number, not infinite."""
        x = as_real(x)
        x = xp.where(x < 0, 0, x)
        logarithm = xp.log(xp.maximum(x, xp.finfo(x.dtype).tiny))
        return cast_like(self.lam, x) * xp.sum(x * logarithm - x * xp.log(cast_like(self.q, x)))

    def prox(self, omega: Vector, weight: Scalar) -> Array:
        """The x > 0 with x + tau log(x / q) = omega - tau, tau = weight lam; max(omega, 0) at tau = 0."""
        omega = as_real(omega)
        tau = cast_like(weight, omega) * cast_like(self.lam, omega)
        q = cast_like(self.q, omega)
        divisor = nonzero(tau)
        c = omega / divisor - 1 + xp.log(q) - xp.log(divisor)
        # Where the entropy is lost to rounding, or tau is 0, the projection is the answer.
        limit = 1 / xp.finfo(omega.dtype).eps ** 2
        entropic = (tau > 0) & (c < limit)
        return xp.where(entropic, tau * wright(xp.where(entropic, c, 0)), xp.maximum(omega, 0))

    def conjugate(self, s: Vector) -> Array:
        """lam sum q exp(s / lam - 1); at lam = 0, that of x >= 0."""
        s = as_real(s)
        lam = cast_like(self.lam, s)
        entropic = lam * xp.sum(cast_like(self.q, s) * xp.exp(s / nonzero(lam) - 1))
        return xp.where(lam > 0, entropic, indicator(xp.all(s <= 0), s))

    def subgradient(self, x: Vector) -> Array:
        """lam (1 + log(x / q)), with x kept above the smallest normal number: there is no subgradient at 0."""
        x = xp.maximum(as_real(x), xp.finfo(xp.result_type(as_real(x))).tiny)
        return cast_like(self.lam, x) * (1 + xp.log(x) - xp.log(cast_like(self.q, x)))

    def violation(self, x: Vector) -> Array:
        """The largest negative entry, relative to the largest entry."""
        return relative(xp.max(-as_real(x), initial=0), xp.max(xp.abs(x), initial=0))

    def farthest(self, center: Vector) -> Array:
        """The orthant is unbounded."""
        return xp.full((), xp.inf, xp.result_type(as_real(center)))

    def diameter(self, like: Vector) -> Array:
        """The orthant is unbounded."""
        return xp.full((), xp.inf, xp.result_type(as_real(like)))

    @property
    def finite_conjugate(self) -> bool:
        return bool(np.asarray(self.lam) > 0)

    @property
    def absolutely_symmetric(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"KL({show(self.lam)}, q={show(self.q)})"

    def model_form(self) -> ModelForm:
        return ModelForm(lower=0.0, entropy=float(self.lam), prior=np.asarray(self.q))


def Entropy(lam: Number) -> KL:
    """psi(x) = lam sum_i x_i log x_i on x >= 0: `KL` with q = 1."""
    return KL(lam, 1.0)

"""What every regularizer knows, penalties and sets; and the maps that closed forms are made of."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from jax.core import Tracer
from numpy.typing import NDArray

from ..arrays import Array, Module, ascending, put_back, without_slope, xp
from ..tree import Scalar, Vector, as_real, cast_like

Numbers = float | NDArray[np.float64]

Coupling = Literal["l1", "l2", "sum"]
"""The one condition that ties the entries of a block together: ||x||_1 <= r, ||x||_2 <= r, or sum x = r."""


@dataclass(frozen=True)
class ModelForm:
    """psi(x) = sum_i phi_i(x_i) + sum_g weight_g ||x_g|| + quadratic/2 ||x||^2 + <linear, x>, and one coupling.

    phi_i(x) = l1 |x| + entropy x log(x / prior_i) on lower_i <= x <= upper_i. With `spectral`, x are the singular
    values of the block. Numbers stand for arrays of the block's shape.
    """

    l1: float = 0.0
    lower: Numbers = -np.inf
    upper: Numbers = np.inf
    entropy: float = 0.0
    prior: Numbers = 1.0
    groups: NDArray[np.integer[Any]] | None = None
    weights: NDArray[np.float64] | None = None
    """One a group, the strength included."""
    coupling: Coupling | None = None
    radius: float = np.inf
    quadratic: float = 0.0
    linear: Numbers = 0.0
    spectral: bool = False

    @property
    def is_polyhedral(self) -> bool:
        """Whether a linear program can hold psi: nothing in it is curved."""
        curved = self.spectral or self.entropy or self.quadratic or self.groups is not None or self.coupling == "l2"
        return not curved


def soft(omega: Vector, threshold: Scalar | Vector) -> Array:
    """sign(omega) * max(|omega| - threshold, 0); exactly 0 where |omega| = threshold."""
    omega = as_real(omega)
    sign = xp.where(omega < 0, -1, 1).astype(omega.dtype)  # never 0, which would be the slope at 0
    excess = sign * omega - xp.asarray(threshold, omega.dtype)
    return sign * xp.where(excess < 0, 0, excess)


def norm(x: Vector) -> Array:
    """||x||_2 over all entries, without overflow or underflow of the squares; its slope at 0 is 0."""
    x = as_real(x)
    # The unit that squares are taken in is a constant: the norm does not depend on it.
    largest = without_slope(xp.max(xp.abs(x), initial=0))
    infinite = largest == xp.inf
    unit = xp.where(infinite, 0, x) / nonzero(largest)
    length = xp.sqrt(nonzero(xp.sum(unit**2)))  # never the root of 0: its slope is infinite
    return xp.where(infinite, largest, largest * length)


def radial(omega: Vector, radius: Scalar) -> Array:
    """The nearest point of the Euclidean ball: omega * min(1, radius / ||omega||)."""
    omega = as_real(omega)
    radius = xp.asarray(radius, omega.dtype)
    largest = nonzero(xp.max(xp.abs(omega), initial=0))
    unit = omega / largest
    length = xp.sqrt(nonzero(xp.sum(unit**2)))  # never the root of 0: its slope is infinite
    return xp.where(length <= radius / largest, omega, unit * (radius / length))


def onto_simplex(omega: Vector, radius: Scalar) -> Array:
    """The nearest point of {x >= 0, sum x = radius}: (omega - kappa)_+, kappa by sorting.

    kappa is the largest of (omega_(1) + ... + omega_(j) - radius) / j over j, omega_(1) the largest entry.
    """
    omega = as_real(omega)
    radius = xp.asarray(radius, omega.dtype)
    rising, order = ascending(omega)
    # Measured from the largest entry, so that the radius is not lost beside huge values.
    below = rising - rising[-1]
    kappa = xp.max((xp.cumsum(below[::-1]) - radius) / xp.arange(1, omega.size + 1, dtype=omega.dtype))
    x = xp.maximum(below - kappa, 0)
    return put_back(x * (radius / nonzero(xp.sum(x))), order, omega)


def onto_capped_simplex(omega: Vector, cap: Scalar) -> Array:
    """The nearest point of {0 <= x <= cap, sum x = 1}: clip(omega - kappa, 0, cap).

    sum clip(omega - kappa, 0, cap) falls in kappa and is linear between the breakpoints omega_i and
    omega_i - cap: take the last breakpoint where it is still >= 1, then solve the linear piece after it.
    """
    omega = as_real(omega)
    cap = xp.minimum(xp.asarray(cap, omega.dtype), 1)
    # kappa is within cap below the entry of rank ceil(1 / cap). Measured from there, entries farther than cap
    # are certain to be 0 or cap, so clipping them changes nothing and keeps huge values harmless.
    rising, order = ascending(omega)
    pivot = rising[xp.clip(omega.size - xp.ceil(1 / cap).astype(int), 0, omega.size - 1)]
    rising = xp.clip(rising - pivot, -cap, cap)
    sums = xp.concatenate([xp.cumsum(rising[::-1])[::-1], xp.zeros(1, omega.dtype)])  # from each entry up

    def piece(kappa: Array) -> tuple[Array, Array, Array]:
        """How many entries are capped or free at kappa, and the sum of the free ones."""
        free_from = xp.searchsorted(rising, kappa, side="right")
        capped_from = xp.searchsorted(rising, kappa + cap, side="right")
        capped, free = omega.size - capped_from, capped_from - free_from
        return capped.astype(omega.dtype), free.astype(omega.dtype), sums[free_from] - sums[capped_from]

    kappas = xp.concatenate([rising, rising - cap])
    capped, free, free_sum = piece(kappas)
    mass = capped * cap + free_sum - free * kappas
    start = xp.max(xp.where(mass >= 1, kappas, -cap))
    end = xp.min(xp.where(kappas > start, kappas, cap))
    # Inside the piece, not at its end, no rounding can mistake a free entry for a capped one.
    capped, free, free_sum = piece((start + end) / 2)
    kappa = xp.where(free > 0, (free_sum + capped * cap - 1) / nonzero(free), start)
    return put_back(xp.clip(rising - kappa, 0, cap), order, omega)


def capped_profile(size: int, cap: Scalar, dtype: xp.dtype) -> Array:
    """The entries of any extreme point of the capped simplex, falling: cap, ..., cap, the rest, 0, ..., 0."""
    return xp.clip(1 - xp.asarray(cap, dtype) * xp.arange(size, dtype=dtype), 0, xp.asarray(cap, dtype))


def wright(c: Vector) -> Array:
    """The v > 0 with v + log v = c, by Newton's method on u = log v from the side where it is monotone."""
    c = xp.maximum(as_real(c), xp.finfo(xp.result_type(as_real(c))).min)  # -inf - (-inf) is nan
    u = xp.where(c > 1, xp.log(xp.maximum(c, 1)), c)
    for _ in range(8):
        v = xp.exp(u)
        u = u - (v + u - c) / (v + 1)
    return xp.where(c > 1, c - u, xp.exp(u))


def nonzero(x: Array) -> Array:
    """x, with 1 in place of 0: for denominators whose numerator is 0 as well."""
    return xp.where(x == 0, xp.ones_like(x), x)


Parameter = Vector
"""A number or array of a regularizer: numpy float64 at rest, so that float32 never rounds it; a tracer in a jit."""


class AbstractRegularizer(Module):
    """psi: a closed convex function of one array, with the closed forms that the methods need.

    A constraint set C belongs to psi and is always active: it never gets the weight.
    `value` is the finite part; whether a point lies in C is asked of `violation`.
    """

    roundings: ClassVar[int | None] = None
    """How often an evaluation of value, conjugate or farthest rounds for each entry of x, if that was derived for the
    formulas of this very class: certificates then bound their rounding. None: they estimate it, and say so."""

    @abstractmethod
    def value(self, x: Vector) -> Array:
        """psi(x), for x in C."""

    @abstractmethod
    def prox(self, omega: Vector, weight: Scalar) -> Array:
        """argmin_{x in C} 1/2 ||x - omega||^2 + weight * psi(x); weight 0 projects onto C."""

    def prox_in(self, metric: Vector, omega: Vector, weight: Scalar) -> Array:
        """argmin_{x in C} sum metric/2 x^2 - <omega, x> + weight * psi(x), for a metric that `metric_near` returns."""
        return self.prox(as_real(omega) / cast_like(metric, omega), weight / cast_like(metric, omega))

    def metric_near(self, squares: NDArray[np.float64]) -> Numbers:
        """The metric for which `prox_in` is a formula that is near to these numbers > 0, one for each entry of x.

        Here one number for all.
        """
        return float(np.mean(squares))

    @abstractmethod
    def conjugate(self, s: Vector) -> Array:
        """max_{x in C} <s, x> - psi(x)."""

    @abstractmethod
    def subgradient(self, x: Vector) -> Array:
        """One element of the subdifferential of the finite part at x, the smallest where there is a choice."""

    @abstractmethod
    def violation(self, x: Vector) -> Array:
        """How far x is outside C, relative to the size of C (to x where C is a cone); 0 inside."""

    @abstractmethod
    def farthest(self, center: Vector) -> Array:
        """sup_{x in C} ||x - center||_2; infinite where C is unbounded."""

    @abstractmethod
    def diameter(self, like: Vector) -> Array:
        """A bound on ||x - x'||_2 over C, for x of the shape of `like`; attained unless said otherwise."""

    @property
    @abstractmethod
    def finite_conjugate(self) -> bool:
        """Whether `conjugate` is finite everywhere: C is bounded or psi grows faster than any linear function."""

    @property
    @abstractmethod
    def absolutely_symmetric(self) -> bool:
        """Whether psi ignores the signs and the order of the entries: what `Spectral` needs."""

    def model_form(self) -> ModelForm:
        """psi as model problems (`fedualex.model_problem`) and linear programs (`fx.reference.lp`) take it.

        A class of one's own need not declare it: it then has neither.
        """
        raise TypeError(f"{self!r} declares no model_form, so that no model problem with curvature can be solved")

    def __add__(self, other: object) -> "AbstractRegularizer":
        """psi + other, if the sum has a closed form; a TypeError that lists such sums otherwise."""
        from .sums import add  # the table of sums stands above all its members

        return add(self, other)


class AbstractPenalty(AbstractRegularizer):
    """A finite function on the whole space."""

    def violation(self, x: Vector) -> Array:
        """0: every point is allowed."""
        return xp.zeros((), xp.result_type(as_real(x)))

    def farthest(self, center: Vector) -> Array:
        """The whole space has no farthest point."""
        return xp.full((), xp.inf, xp.result_type(as_real(center)))

    def diameter(self, like: Vector) -> Array:
        """The whole space is unbounded."""
        return xp.full((), xp.inf, xp.result_type(as_real(like)))


class AbstractSet(AbstractRegularizer):
    """The indicator of a closed convex set: 0 inside, not allowed outside."""

    @abstractmethod
    def project(self, omega: Vector) -> Array:
        """The nearest point of the set."""

    @abstractmethod
    def support(self, s: Vector) -> Array:
        """max over the set of <s, x>."""

    def value(self, x: Vector) -> Array:
        """0."""
        return xp.zeros((), xp.result_type(as_real(x)))

    def prox(self, omega: Vector, weight: Scalar) -> Array:
        """The projection, whatever the weight."""
        return self.project(omega)

    def conjugate(self, s: Vector) -> Array:
        """The support function; infinity where it leaves the range of floats, because a bound must not be below it."""
        support = self.support(s)
        return xp.where(support > -xp.inf, support, xp.inf)

    def subgradient(self, x: Vector) -> Array:
        """0: the finite part of an indicator is constant."""
        return xp.zeros_like(as_real(x))


def indicator(inside: Array, like: Vector) -> Array:
    """0 where a condition holds, infinity where it does not."""
    return xp.where(inside, 0, xp.inf).astype(xp.result_type(as_real(like)))


def relative(excess: Array, size: Parameter | float) -> Array:
    """The part of `excess` above 0, over `size`; over 1 where the size is 0."""
    size = cast_like(size, excess)
    return xp.maximum(excess, 0) / xp.where(size > 0, size, 1)


def show(parameter: Parameter | float) -> str:
    """A parameter as a user would type it; arrays by their shape."""
    if isinstance(parameter, Tracer):
        return "<traced>"
    return repr(float(parameter)) if np.ndim(parameter) == 0 else f"<array {np.shape(parameter)}>"

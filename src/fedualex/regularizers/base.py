"""What every regularizer knows, and the two kinds most of them are: penalties and sets."""

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from ..tree import Scalar, Vector, as_real, cast_like
from .forms import ModelForm

Parameter = Vector
"""A number or array of a regularizer: numpy float64 at rest, so that float32 never rounds it; a tracer in a jit."""


class AbstractRegularizer(eqx.Module):
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

    def __add__(self, other: Any) -> "AbstractRegularizer":
        """psi + other, if the sum has a closed form; a TypeError that lists such sums otherwise."""
        from .sums import add  # the table of sums stands above all its members

        return add(self, other)


class AbstractPenalty(AbstractRegularizer):
    """A finite function on the whole space."""

    def violation(self, x: Vector) -> Array:
        """0: every point is allowed."""
        return jnp.zeros((), jnp.result_type(as_real(x)))

    def farthest(self, center: Vector) -> Array:
        """The whole space has no farthest point."""
        return jnp.full((), jnp.inf, jnp.result_type(as_real(center)))

    def diameter(self, like: Vector) -> Array:
        """The whole space is unbounded."""
        return jnp.full((), jnp.inf, jnp.result_type(as_real(like)))


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
        return jnp.zeros((), jnp.result_type(as_real(x)))

    def prox(self, omega: Vector, weight: Scalar) -> Array:
        """The projection, whatever the weight."""
        return self.project(omega)

    def conjugate(self, s: Vector) -> Array:
        """The support function; infinity where it leaves the range of floats, because a bound must not be below it."""
        support = self.support(s)
        return jnp.where(support > -jnp.inf, support, jnp.inf)

    def subgradient(self, x: Vector) -> Array:
        """0: the finite part of an indicator is constant."""
        return jnp.zeros_like(as_real(x))


def indicator(inside: Array, like: Vector) -> Array:
    """0 where a condition holds, infinity where it does not."""
    return jnp.where(inside, 0, jnp.inf).astype(jnp.result_type(as_real(like)))


def relative(excess: Array, size: Parameter | float) -> Array:
    """The part of `excess` above 0, over `size`; over 1 where the size is 0."""
    size = cast_like(size, excess)
    return jnp.maximum(excess, 0) / jnp.where(size > 0, size, 1)


def show(parameter: Parameter | float) -> str:
    """A parameter as a user would type it; arrays by their shape."""
    if isinstance(parameter, Tracer):
        return "<traced>"
    return repr(float(parameter)) if np.ndim(parameter) == 0 else f"<array {np.shape(parameter)}>"

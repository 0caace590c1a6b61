"""Sums with a closed form. Four rules give every one of them:

1. a linear or quadratic term joins anything (`WithQuadratic`): it shifts and rescales the prox of the rest;
2. l1 in a box (`InBox`): one-dimensional convexity, so threshold, then clip;
3. a norm in a ball whose norm scales with it (`InBall`): threshold, then scale;
4. l1 on a simplex is a constant: lam times its radius.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..tree import Scalar, Vector, as_real, cast_like
from ..validation import short
from .balls import L1Ball, L2Ball
from .base import AbstractRegularizer, AbstractSet
from .boxes import Box
from .maps import soft
from .norms import L1, GroupL2, Zero
from .quadratic import NONE, WithQuadratic, constant_of, split
from .simplices import CappedSimplex, Simplex
from .spectral import Spectral

KNOWN_SUMS = (
    "L1 + Box (or NonNegative)",
    "L1 + L2Ball",
    "L1 + L1Ball",
    "L1 + Simplex (or CappedSimplex)",
    "GroupL2 + L2Ball",
    "L1 + L1",
    "Box + Box, L2Ball + L2Ball, L1Ball + L1Ball",
    "Spectral + Spectral, if the sum of what is inside exists",
    "any of these, or any single regularizer, + SquaredL2, ElasticNet or Linear where its L1 fits above",
)


class AbstractInSet(AbstractRegularizer):
    """A penalty on a set where the prox is: threshold, then project."""

    penalty: AbstractRegularizer
    domain: AbstractSet

    def value(self, x: Vector) -> Array:
        """The penalty's."""
        return self.penalty.value(x)

    def prox(self, omega: Vector, weight: Scalar) -> Array:
        """The projection of the penalty's prox."""
        return self.domain.project(self.penalty.prox(omega, weight))

    def subgradient(self, x: Vector) -> Array:
        """The penalty's."""
        return self.penalty.subgradient(x)

    def violation(self, x: Vector) -> Array:
        """The set's."""
        return self.domain.violation(x)

    def farthest(self, center: Vector) -> Array:
        """The set's."""
        return self.domain.farthest(center)

    def diameter(self, like: Vector) -> Array:
        """The set's."""
        return self.domain.diameter(like)

    @property
    def finite_conjugate(self) -> bool:
        return self.domain.finite_conjugate

    @property
    def absolutely_symmetric(self) -> bool:
        return self.penalty.absolutely_symmetric and self.domain.absolutely_symmetric

    def __repr__(self) -> str:
        return f"{self.penalty!r} + {self.domain!r}"


class InBox(AbstractInSet):
    """lam ||x||_1 in a box: exact for every box, because it splits into convex functions of one variable."""

    penalty: L1
    domain: Box

    def conjugate(self, s: Vector) -> Array:
        """The box's support of soft(s, lam); a coordinate whose sign the box fixes loses lam with that sign."""
        s = as_real(s)
        lam, lower, upper = (cast_like(p, s) for p in (self.penalty.lam, self.domain.lower, self.domain.upper))
        straddling = soft(s, lam)
        slope = jnp.where(lower > 0, s - lam, jnp.where(upper < 0, s + lam, straddling))
        return self.domain.conjugate(slope)


class InBall(AbstractInSet):
    """A norm in a ball that commutes with its threshold: L1 in an l2 or l1 ball, GroupL2 in an l2 ball."""

    def conjugate(self, s: Vector) -> Array:
        """radius times the dual norm of what the threshold leaves of s."""
        return self.domain.conjugate(self.penalty.prox(s, jnp.ones((), jnp.result_type(as_real(s)))))


def add(left: AbstractRegularizer, right: object) -> AbstractRegularizer:
    """left + right as one regularizer with closed forms."""
    if not isinstance(right, AbstractRegularizer):
        raise TypeError(f"{left!r} + {short(right)}: a regularizer can only be added to a regularizer")
    (a, lam_a, c_a), (b, lam_b, c_b) = split(left), split(right)
    joined = _join(a, b)
    if not any(isinstance(psi, WithQuadratic) for psi in (left, right, joined)):
        return joined
    constant = sum((constant_of(psi) for psi in (left, right, joined)), start=NONE)
    return WithQuadratic(split(joined)[0], np.asarray(lam_a + lam_b), np.asarray(c_a + c_b), np.asarray(constant))


def _join(a: AbstractRegularizer, b: AbstractRegularizer) -> AbstractRegularizer:
    """The sum of two cores, in either order."""
    for first, second in ((a, b), (b, a)):
        match first, second:
            case Zero(), _:
                return second
            case L1(), L1():
                return L1(first.lam + second.lam)
            case Box(), Box():
                return Box(lower=np.maximum(first.lower, second.lower), upper=np.minimum(first.upper, second.upper))
            case L2Ball(), L2Ball():
                return L2Ball(np.minimum(first.radius, second.radius))
            case L1Ball(), L1Ball():
                return L1Ball(np.minimum(first.radius, second.radius))
            case Spectral(), Spectral() if first.route == second.route:
                return Spectral(first.psi + second.psi, first.route)
            case L1(), Box():
                return InBox(first, second)
            case L1(), L2Ball() | L1Ball():
                return InBall(first, second)
            case GroupL2(), L2Ball():
                return InBall(first, second)
            case L1(), Simplex():
                return WithQuadratic(second, NONE, NONE, np.asarray(first.lam * second.radius))
            case L1(), CappedSimplex():
                return WithQuadratic(second, NONE, NONE, first.lam)
            case InBox(), Box():
                return _join(first.penalty, _join(first.domain, second))
            case InBox() | InBall(), L1() if isinstance(first.penalty, L1):
                return _join(_join(first.penalty, second), first.domain)
    raise TypeError(f"{a!r} + {b!r} has no closed form here; known sums: {'; '.join(KNOWN_SUMS)}")

"""Sums with a closed form. Four rules give every one of them:

1. a linear or quadratic term joins anything (`WithQuadratic`): it shifts and rescales the prox of the rest;
2. l1 in a box (`InBox`): one-dimensional convexity, so threshold, then clip;
3. a norm in a ball whose norm scales with it (`InBall`): threshold, then scale;
4. l1 on a simplex is a constant: lam times its radius.
"""

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..accepted import Number, Numbers
from ..arrays import Array, xp
from ..tree import Scalar, Vector, as_real, cast_like, depend_on
from ..validation import nonnegative, real_array, short
from .base import AbstractRegularizer, AbstractSet, ModelForm, Parameter, nonzero, norm, show, soft
from .norms import L1, GroupL2, Zero
from .sets import Box, CappedSimplex, L1Ball, L2Ball, Simplex
from .spectral import Spectral

# Constant, linear and quadratic terms, which join any regularizer.


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
        terms = xp.sum(cast_like(self.lam, x) / 2 * x * x) + xp.sum(cast_like(self.c, x) * x)
        return self.core.value(x) + terms + cast_like(self.constant, x)

    def prox(self, omega: Vector, weight: Scalar) -> Array:
        """The core's prox of (omega - weight c) / s with weight / s, s = 1 + weight lam."""
        omega = as_real(omega)
        weight = cast_like(weight, omega)
        scale = 1 + weight * cast_like(self.lam, omega)
        tilted = (omega - weight * cast_like(self.c, omega)) / scale
        return self.core.prox(tilted, weight / scale)

    def prox_in(self, metric: Vector, omega: Vector, weight: Scalar) -> Array:
        """The core's of omega - weight c, in the metric + weight lam."""
        omega = as_real(omega)
        weight = cast_like(weight, omega)
        return self.core.prox_in(
            cast_like(metric, omega) + weight * cast_like(self.lam, omega),
            omega - weight * cast_like(self.c, omega),
            weight,
        )

    def metric_near(self, squares: NDArray[np.float64]) -> float | NDArray[np.float64]:
        return self.core.metric_near(squares)

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
        at_x = xp.sum(slope * x - lam / 2 * x * x) - self.core.value(x)
        # A slope that is off by r moves the maximizer by r / lam, and at_x is below the maximum by r^2 / (2 lam).
        r = ROUNDINGS * xp.finfo(slope.dtype).eps * norm(slope)
        at_x = at_x + r * (r / nonzero(2 * lam))
        at_x = xp.where((lam > 0) & xp.isfinite(at_x), at_x, xp.inf)
        # One LAPACK call at a time, should the core be spectral.
        return xp.minimum(at_x, self.core.conjugate(depend_on(slope, at_x))) - cast_like(self.constant, slope)

    def subgradient(self, x: Vector) -> Array:
        """The core's, plus lam x + c."""
        return self.core.subgradient(x) + cast_like(self.lam, x) * as_real(x) + cast_like(self.c, x)

    def violation(self, x: Vector) -> Array:
        return self.core.violation(x)

    def farthest(self, center: Vector) -> Array:
        return self.core.farthest(center)

    def diameter(self, like: Vector) -> Array:
        return self.core.diameter(like)

    @property
    def finite_conjugate(self) -> bool:
        return bool(np.asarray(self.lam) > 0) or self.core.finite_conjugate

    @property
    def absolutely_symmetric(self) -> bool:
        return self.core.absolutely_symmetric and not np.any(self.c)

    def __repr__(self) -> str:
        terms = [] if isinstance(self.core, Zero) else [repr(self.core)]
        terms += [f"SquaredL2({show(self.lam)})"] if np.any(self.lam) else []
        terms += [f"Linear({show(self.c)})"] if np.any(self.c) else []
        terms += [f"constant {show(self.constant)}"] if np.any(self.constant) else []
        return " + ".join(terms) or "Zero()"

    def model_form(self) -> ModelForm:
        form = self.core.model_form()  # a spectral core may hold a quadratic term inside
        return replace(form, quadratic=form.quadratic + float(self.lam), linear=form.linear + np.asarray(self.c))


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
        return self.penalty.value(x)

    def prox(self, omega: Vector, weight: Scalar) -> Array:
        """The projection of the penalty's prox."""
        return self.domain.project(self.penalty.prox(omega, weight))

    def prox_in(self, metric: Vector, omega: Vector, weight: Scalar) -> Array:
        """The set's, of what the penalty's threshold leaves of omega."""
        return self.domain.prox_in(metric, self.penalty.prox(omega, weight), weight)

    def metric_near(self, squares: NDArray[np.float64]) -> float | NDArray[np.float64]:
        return self.penalty.metric_near(squares)

    def subgradient(self, x: Vector) -> Array:
        return self.penalty.subgradient(x)

    def violation(self, x: Vector) -> Array:
        return self.domain.violation(x)

    def farthest(self, center: Vector) -> Array:
        return self.domain.farthest(center)

    def diameter(self, like: Vector) -> Array:
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

    roundings: ClassVar[int | None] = 1

    penalty: L1
    domain: Box

    def conjugate(self, s: Vector) -> Array:
        """The box's support of soft(s, lam); a coordinate whose sign the box fixes loses lam with that sign."""
        s = as_real(s)
        lam, lower, upper = (cast_like(p, s) for p in (self.penalty.lam, self.domain.lower, self.domain.upper))
        straddling = soft(s, lam)
        slope = xp.where(lower > 0, s - lam, xp.where(upper < 0, s + lam, straddling))
        return self.domain.conjugate(slope)

    def model_form(self) -> ModelForm:
        return replace(self.domain.model_form(), l1=float(self.penalty.lam))


class InBall(AbstractInSet):
    """A norm in a ball that commutes with its threshold: L1 in an l2 or l1 ball, GroupL2 in an l2 ball."""

    roundings: ClassVar[int | None] = 2

    def conjugate(self, s: Vector) -> Array:
        """radius times the dual norm of what the threshold leaves of s."""
        return self.domain.conjugate(self.penalty.prox(s, xp.ones((), xp.result_type(as_real(s)))))

    def model_form(self) -> ModelForm:
        ball = self.domain.model_form()
        return replace(self.penalty.model_form(), coupling=ball.coupling, radius=ball.radius)


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

"""Indicators of sets: balls, boxes, simplices."""

from typing import Any, ClassVar

import numpy as np
from jax.core import Tracer
from numpy.typing import NDArray

from ..accepted import Number, Numbers
from ..arrays import Array, ascending, choose, put_back, repeat, xp
from ..tree import Scalar, Vector, as_real, cast_like
from ..validation import any_real_array, nonnegative, positive, short
from .base import (
    AbstractSet,
    ModelForm,
    Parameter,
    capped_profile,
    nonzero,
    norm,
    onto_capped_simplex,
    onto_simplex,
    radial,
    relative,
    show,
)

# Norm balls.


class AbstractBall(AbstractSet):
    """All points of norm <= radius around 0."""

    radius: Parameter | float

    def __init__(self, radius: Number):
        self.radius = nonnegative(f"{type(self).__name__}: radius", radius)

    def diameter(self, like: Vector) -> Array:
        """2 radius."""
        return 2 * cast_like(self.radius, like)

    @property
    def finite_conjugate(self) -> bool:
        return True

    @property
    def absolutely_symmetric(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({show(self.radius)})"


class L2Ball(AbstractBall):
    """||x||_2 <= radius, over all entries (the Frobenius norm of a matrix)."""

    roundings: ClassVar[int | None] = 1

    def project(self, omega: Vector) -> Array:
        """omega min(1, radius / ||omega||)."""
        return radial(omega, self.radius)

    def prox_in(self, metric: Vector, omega: Vector, weight: Scalar) -> Array:
        """omega / (metric + mu), mu = 0 or such that the norm is the radius."""
        omega, metric = as_real(omega), cast_like(metric, omega)
        inside = xp.all(norm(omega / metric) <= cast_like(self.radius, omega))
        return choose(inside, _divide, _onto_ellipsoid, omega, metric, cast_like(self.radius, omega))

    def metric_near(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        return squares

    def support(self, s: Vector) -> Array:
        """radius ||s||_2."""
        return cast_like(self.radius, s) * norm(s)

    def violation(self, x: Vector) -> Array:
        """(||x||_2 - radius)_+ / radius."""
        return relative(norm(x) - cast_like(self.radius, x), self.radius)

    def farthest(self, center: Vector) -> Array:
        """radius + ||center||_2."""
        return cast_like(self.radius, center) + norm(center)

    def model_form(self) -> ModelForm:
        return ModelForm(coupling="l2", radius=float(self.radius))


class L1Ball(AbstractBall):
    """||x||_1 <= radius, over all entries."""

    roundings: ClassVar[int | None] = 1

    def project(self, omega: Vector) -> Array:
        """omega inside; outside, the simplex projection of |omega| with the signs of omega."""
        omega = as_real(omega)
        radius = cast_like(self.radius, omega)
        # Inside, where points nearly always are, nothing is sorted.
        return choose(xp.sum(xp.abs(omega)) <= radius, _keep, _onto_face, omega, radius)

    def prox_in(self, metric: Vector, omega: Vector, weight: Scalar) -> Array:
        """soft(omega, mu) / metric, mu = 0 or such that the norm is the radius."""
        omega, metric = as_real(omega), cast_like(metric, omega)
        inside = xp.sum(xp.abs(omega / metric)) <= cast_like(self.radius, omega)
        return choose(inside, _divide, _onto_face_in, omega, metric, cast_like(self.radius, omega))

    def metric_near(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        return squares

    def support(self, s: Vector) -> Array:
        """radius max |s|."""
        return cast_like(self.radius, s) * xp.max(xp.abs(s), initial=0)

    def violation(self, x: Vector) -> Array:
        """(||x||_1 - radius)_+ / radius."""
        return relative(xp.sum(xp.abs(x)) - cast_like(self.radius, x), self.radius)

    def farthest(self, center: Vector) -> Array:
        """sqrt(radius^2 + ||center||^2 + 2 radius max |center|), at a vertex."""
        return xp.sqrt(cast_like(self.radius, center) ** 2 + norm(center) ** 2 + 2 * self.support(center))

    def model_form(self) -> ModelForm:
        return ModelForm(coupling="l1", radius=float(self.radius))


def _keep(omega: Array, radius: Array) -> Array:
    return omega


def _onto_face(omega: Array, radius: Array) -> Array:
    """The nearest point of l1 norm `radius`."""
    return xp.copysign(onto_simplex(xp.abs(omega), radius), omega)


def _divide(omega: Array, metric: Array, radius: Array) -> Array:
    return xp.divide(omega, metric)


def _onto_face_in(omega: Array, metric: Array, radius: Array) -> Array:
    """soft(omega, mu) / metric of l1 norm `radius`.

    mu is the largest of (sum_{i <= j} |omega_(i)| / metric_(i) - radius) / sum_{i <= j} 1 / metric_(i) over j, the
    entries in falling order.
    """
    rising, order = ascending(xp.abs(omega))
    inverse = 1 / xp.broadcast_to(metric, omega.shape).ravel()[order]
    below = rising - rising[-1]  # so that the radius is not lost beside huge values
    mu = xp.max((xp.cumsum((below * inverse)[::-1]) - radius) / xp.cumsum(inverse[::-1]))
    x = xp.maximum(below - mu, 0) * inverse
    return xp.copysign(put_back(x * (radius / nonzero(xp.sum(x))), order, omega), omega)


SEARCHES = 60
"""Of Newton's method for the multiplier of an ellipsoid, which takes 5 to 15."""


def _onto_ellipsoid(omega: Array, metric: Array, radius: Array) -> Array:
    """omega / (metric + mu) of norm `radius`: Newton's method on 1 / norm, which is concave and rises with mu.

    From mu = 0 no step goes too far, and the last point is moved onto the sphere.
    """

    def step(_: Any, mu: Array) -> Array:
        x = omega / (metric + mu)
        length = norm(x)
        slope = xp.sum((x / nonzero(length)) ** 2 / (metric + mu))  # of log(1 / norm)
        return mu + xp.maximum(length / nonzero(radius) - 1, 0) / nonzero(slope)

    x = omega / (metric + repeat(SEARCHES, step, xp.zeros((), omega.dtype)))
    return radial(x, radius)


class Box(AbstractSet):
    """lower <= x <= upper, entry by entry.

    `Box(0.05)` is |x_i| <= 0.05; `Box(lower=..., upper=...)` takes numbers or arrays of the shape of x, may be
    one-sided and need not contain zero.

    radius: |x_i| <= radius. lower, upper: the ends in place of it, None where there is no end.
    """

    roundings: ClassVar[int | None] = 1

    lower: Parameter
    upper: Parameter

    def __init__(self, radius: Number | None = None, *, lower: Numbers | None = None, upper: Numbers | None = None):
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
        return xp.clip(omega, cast_like(self.lower, omega), cast_like(self.upper, omega))

    def prox_in(self, metric: Vector, omega: Vector, weight: Scalar) -> Array:
        """clip(omega / metric, lower, upper)."""
        return self.project(as_real(omega) / cast_like(metric, omega))

    def metric_near(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        return squares

    def support(self, s: Vector) -> Array:
        """sum_i max(lower_i s_i, upper_i s_i)."""
        s = as_real(s)
        corner = xp.where(
            s > 0, cast_like(self.upper, s), xp.where(s < 0, cast_like(self.lower, s), self.project(0 * s))
        )
        bounded = xp.isfinite(corner)
        # Never infinity times s: its slope is infinite where only another entry is asked for.
        return xp.sum(xp.where(bounded, xp.where(bounded, corner, 0) * s, xp.inf))

    def violation(self, x: Vector) -> Array:
        """The largest excess over a bound, relative to the entry's own finite bounds (to x if there are none)."""
        x = as_real(x)
        lower, upper = cast_like(self.lower, x), cast_like(self.upper, x)
        size = xp.maximum(_finite_size(lower), _finite_size(upper))
        size = xp.where(size > 0, size, xp.max(xp.abs(x), initial=0))
        return xp.max(relative(xp.maximum(lower - x, x - upper), size), initial=0)

    def farthest(self, center: Vector) -> Array:
        """||max(|lower - center|, |upper - center|)||_2."""
        lower, upper = cast_like(self.lower, center), cast_like(self.upper, center)
        return norm(xp.maximum(xp.abs(lower - center), xp.abs(upper - center)))

    def diameter(self, like: Vector) -> Array:
        """||upper - lower||_2."""
        return norm(xp.broadcast_to(cast_like(self.upper - self.lower, like), xp.shape(like)))

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

    def model_form(self) -> ModelForm:
        return ModelForm(lower=np.asarray(self.lower), upper=np.asarray(self.upper))


def NonNegative() -> Box:
    """x >= 0, entry by entry: `Box` with lower bound 0 and no upper bound."""
    return Box(lower=0.0)


def _finite_size(bound: Array) -> Array:
    return xp.where(xp.isfinite(bound), xp.abs(bound), 0)


# Mixtures: the simplex, and the simplex with a cap on every entry.


class Simplex(AbstractSet):
    """x >= 0, sum x = radius, over all entries."""

    roundings: ClassVar[int | None] = 1

    radius: Parameter

    def __init__(self, radius: Number = 1.0):
        self.radius = nonnegative("Simplex: radius", radius)

    def project(self, omega: Vector) -> Array:
        """(omega - kappa)_+ with kappa such that the sum is the radius."""
        return onto_simplex(omega, self.radius)

    def support(self, s: Vector) -> Array:
        return cast_like(self.radius, s) * xp.max(xp.asarray(s))

    def violation(self, x: Vector) -> Array:
        """The larger of the error of the sum and the largest negative entry, over the radius."""
        x = as_real(x)
        return relative(xp.maximum(xp.abs(xp.sum(x) - cast_like(self.radius, x)), xp.max(-x)), self.radius)

    def farthest(self, center: Vector) -> Array:
        """sqrt(radius^2 + ||center||^2 - 2 radius min center), at a vertex."""
        center = as_real(center)
        return xp.sqrt(
            xp.maximum(cast_like(self.radius, center) ** 2 + norm(center) ** 2 + 2 * self.support(-center), 0)
        )

    def diameter(self, like: Vector) -> Array:
        """sqrt(2) radius, between two vertices; 0 if there is only one."""
        return cast_like(np.sqrt(2) * self.radius if np.size(like) > 1 else 0.0, like)

    @property
    def finite_conjugate(self) -> bool:
        return True

    @property
    def absolutely_symmetric(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"Simplex({show(self.radius)})"

    def model_form(self) -> ModelForm:
        return ModelForm(lower=0.0, coupling="sum", radius=float(self.radius))


class CappedSimplex(AbstractSet):
    """0 <= x <= cap, sum x = 1: mixtures in which no entry has more than `cap`, as in CVaR with level 1 / (d cap)."""

    roundings: ClassVar[int | None] = 1

    cap: Parameter

    def __init__(self, cap: Number):
        self.cap = positive("CappedSimplex: cap", cap)

    def check_size(self, size: int) -> None:
        """Refuse a cap so small that no mixture of `size` entries exists."""
        if not isinstance(self.cap, Tracer) and float(self.cap) * size < 1 - 1e-12:
            raise ValueError(
                f"CappedSimplex: cap must be at least 1/{size} for {size} entries, got {float(self.cap)!r}"
            )

    def project(self, omega: Vector) -> Array:
        """clip(omega - kappa, 0, cap) with kappa such that the sum is 1."""
        self.check_size(np.size(omega))
        return onto_capped_simplex(omega, self.cap)

    def support(self, s: Vector) -> Array:
        """cap (sum of the k largest) + (1 - k cap) (the next), k = floor(1 / cap)."""
        s = as_real(s)
        return xp.vdot(capped_profile(s.size, self.cap, s.dtype), -xp.sort(-s.ravel()))

    def violation(self, x: Vector) -> Array:
        """The largest of the error of the sum, a negative entry, and an excess over the cap."""
        x = as_real(x)
        outside = xp.maximum(xp.max(-x), xp.max(x - cast_like(self.cap, x)))
        return relative(xp.maximum(xp.abs(xp.sum(x) - 1), outside), 1.0)

    def farthest(self, center: Vector) -> Array:
        """All extreme points have the same norm, so the farthest one minimizes <center, x>."""
        center = as_real(center)
        extreme = norm(capped_profile(center.size, self.cap, center.dtype))
        return xp.sqrt(xp.maximum(extreme**2 + norm(center) ** 2 + 2 * self.support(-center), 0))

    def diameter(self, like: Vector) -> Array:
        """Between an extreme point and the one in the opposite order."""
        profile = capped_profile(np.size(like), self.cap, xp.result_type(as_real(like)))
        return norm(profile - profile[::-1])

    @property
    def finite_conjugate(self) -> bool:
        return True

    @property
    def absolutely_symmetric(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"CappedSimplex({show(self.cap)})"

    def model_form(self) -> ModelForm:
        return ModelForm(lower=0.0, upper=float(self.cap), coupling="sum", radius=1.0)

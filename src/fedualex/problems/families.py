"""Families: what a score says of a target, and how far it is from saying it; each is one object.

Formulas are written once, for arrays of numpy and of jax: where all arguments are numpy's, jax is never called.
"""

from abc import abstractmethod
from types import ModuleType
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..validation import positive

# The array namespace of the formulas.


def namespace(*arrays: Any) -> ModuleType:
    """jax.numpy if any of the arrays is jax's or traced by it, else numpy."""
    return jnp if any(isinstance(array, jax.Array) for array in arrays) else np


def _held(array: Any) -> Any:
    """An array whose derivatives are known to cancel, and are not taken."""
    return jax.lax.stop_gradient(array) if isinstance(array, jax.Array) else array


def _entropy(share: Any, rest: Any) -> Any:
    """share log share + rest log rest, where share + rest = 1, 0 log 0 = 0, and +inf outside [0, 1]."""
    xp = namespace(share, rest)
    each = [xp.where(part > 0, part * xp.log(xp.where(part > 0, part, 1.0)), 0.0) for part in (share, rest)]
    return xp.where((share >= 0) & (rest >= 0), each[0] + each[1], xp.inf)


class Family(eqx.Module):
    """A convex loss phi of a score, given a target: its values, derivatives, conjugate and bounds.

    Scores and targets are arrays along leading axes, one number for each row; a family with several scores for a row
    (`Softmax`) has them along the last axis.

    exact_second: whether `slope` is affine in the score, so that `second` at one score holds at all.
    floor: phi >= floor for every score and target.
    """

    exact_second: ClassVar[bool] = False
    floor: ClassVar[float] = 0.0

    @abstractmethod
    def loss(self, score: Any, target: Any) -> Any:
        """phi(score) of each row."""

    @abstractmethod
    def slope(self, score: Any, target: Any) -> Any:
        """phi'(score), of the shape of the score."""

    @abstractmethod
    def second(self, score: Any, target: Any) -> Any:
        """phi''(score); a matrix for each row of several scores. Where there is none, an element of Clarke's."""

    @abstractmethod
    def conjugate(self, slope: Any, target: Any) -> Any:
        """phi*(a) = sup_s a s - phi(s) of each row; +inf where that is not finite."""

    @abstractmethod
    def clipped(self, slope: Any, target: Any) -> Any:
        """The nearest a with a finite conjugate."""

    @abstractmethod
    def size(self, reach: Any, target: Any) -> Any:
        """What measures the rounding of the loss.

        If a score is a sum of n terms of total size `reach`, the loss is computed to within (n + 16) UNIT size, and its
        slope to within (n + 16) UNIT times the derivative of `size`.
        """

    @abstractmethod
    def curvature(self, lower: Any, upper: Any, target: Any) -> Any:
        """A bound of the second derivative, of its largest eigenvalue for several scores, for lower <= score <= upper.

        One number for all rows, or one for each.
        """

    @abstractmethod
    def steepest(self, lower: Any, upper: Any, target: Any) -> Any:
        """A bound of the norm of the slope of each row, for lower <= score <= upper."""


class Logistic(Family):
    """log(1 + exp(-sign score)), sign = -1 or +1."""

    def loss(self, score: Any, target: Any) -> Any:
        return namespace(score, target).logaddexp(0.0, -target * score)

    def slope(self, score: Any, target: Any) -> Any:
        return -target * self._wrong(score, target)

    def second(self, score: Any, target: Any) -> Any:
        return self._wrong(score, target) * self._wrong(score, -target)

    def conjugate(self, slope: Any, target: Any) -> Any:
        share = -target * slope
        return _entropy(share, 1 - share)

    def clipped(self, slope: Any, target: Any) -> Any:
        return target * namespace(slope, target).clip(target * slope, -1.0, 0.0)

    def size(self, reach: Any, target: Any) -> Any:
        """1 + reach + reach^2 / 8: the slope is at most 1, and its own slope at most 1/4."""
        return 1 + reach + reach**2 / 8

    def curvature(self, lower: Any, upper: Any, target: Any) -> Any:
        return 1 / 4

    def steepest(self, lower: Any, upper: Any, target: Any) -> Any:
        return np.ones(np.shape(target))

    def _wrong(self, score: Any, target: Any) -> Any:
        """1 / (1 + exp(sign score)), the probability of the other sign."""
        xp = namespace(score, target)
        margin = target * score
        small = xp.exp(-xp.abs(margin))
        return xp.where(margin > 0, small, 1.0) / (1 + small)


class Softmax(Family):
    """logsumexp(scores) - scores_c, c the number of the class; the scores of a row are along the last axis."""

    def loss(self, score: Any, target: Any) -> Any:
        xp = namespace(score, target)
        shifted = score - _held(xp.max(score, axis=-1, keepdims=True))
        own = xp.sum(xp.where(self._is_own(score, target), shifted, 0.0), axis=-1)
        return xp.log(xp.sum(xp.exp(shifted), axis=-1)) - own

    def slope(self, score: Any, target: Any) -> Any:
        xp, own = namespace(score, target), self._is_own(score, target)
        others = xp.where(own, 0.0, self._shares(score))
        return xp.where(own, -xp.sum(others, axis=-1, keepdims=True), others)  # no digit of 1 - share is lost

    def second(self, score: Any, target: Any) -> Any:
        xp, share = namespace(score, target), self._shares(score)
        return xp.eye(share.shape[-1]) * share[..., None] - share[..., None] * share[..., None, :]

    def conjugate(self, slope: Any, target: Any) -> Any:
        """The entropy of a + e_c where that is on the simplex; its sum may err by rounding."""
        xp = namespace(slope, target)
        share = slope + self._is_own(slope, target)
        each = xp.where(share > 0, share * xp.log(xp.where(share > 0, share, 1.0)), 0.0)
        slack = 4 * slope.shape[-1] * xp.finfo(slope.dtype).eps
        there = xp.all(share >= 0, axis=-1) & (xp.abs(xp.sum(slope, axis=-1)) <= slack)
        return xp.where(there, xp.sum(each, axis=-1), xp.inf)

    def clipped(self, slope: Any, target: Any) -> Any:
        own = self._is_own(slope, target)
        return _onto_simplex(slope + own) - own

    def size(self, reach: Any, target: Any) -> Any:
        """1 + log(classes) + 2 R + R^2, R the sum over the classes."""
        total = namespace(reach).sum(reach, axis=-1)
        return 1 + np.log(reach.shape[-1]) + 2 * total + total**2

    def curvature(self, lower: Any, upper: Any, target: Any) -> Any:
        return 1 / 2

    def steepest(self, lower: Any, upper: Any, target: Any) -> Any:
        """sqrt(2): the difference of two points of the simplex."""
        return np.full(np.shape(target), np.sqrt(2))

    def _is_own(self, score: Any, target: Any) -> Any:
        xp = namespace(score, target)
        return xp.arange(score.shape[-1]) == xp.asarray(target)[..., None]

    def _shares(self, score: Any) -> Any:
        xp = namespace(score)
        grown = xp.exp(score - _held(xp.max(score, axis=-1, keepdims=True)))
        return grown / xp.sum(grown, axis=-1, keepdims=True)


class Squared(Family):
    """(score - target)^2 / 2."""

    exact_second: ClassVar[bool] = True

    def loss(self, score: Any, target: Any) -> Any:
        return (score - target) ** 2 / 2

    def slope(self, score: Any, target: Any) -> Any:
        return score - target

    def second(self, score: Any, target: Any) -> Any:
        return namespace(score, target).ones_like(score - target)

    def conjugate(self, slope: Any, target: Any) -> Any:
        return slope * (slope / 2 + target)

    def clipped(self, slope: Any, target: Any) -> Any:
        return slope

    def size(self, reach: Any, target: Any) -> Any:
        """(reach + |target|)^2."""
        return (reach + namespace(reach, target).abs(target)) ** 2

    def curvature(self, lower: Any, upper: Any, target: Any) -> Any:
        return 1.0

    def steepest(self, lower: Any, upper: Any, target: Any) -> Any:
        return np.maximum(np.abs(upper - target), np.abs(target - lower))

    def reach(self, budget: float) -> float:
        """The largest |score - target| whose loss is within the budget."""
        return float(np.sqrt(2 * budget))


class Huber(Family):
    """u^2 / 2 for u = |score - target| <= delta, delta u - delta^2 / 2 beyond."""

    delta: Any

    def __init__(self, delta: Any = 1.0):
        self.delta = positive("delta", delta)

    def loss(self, score: Any, target: Any) -> Any:
        inner = self.slope(score, target)
        return inner * (score - target - inner / 2)

    def slope(self, score: Any, target: Any) -> Any:
        return self._within(score - target)

    def second(self, score: Any, target: Any) -> Any:
        """1 where |score - target| <= delta, else 0."""
        apart = score - target
        xp, delta = self._delta(apart)
        return xp.where(xp.abs(apart) <= delta, xp.ones_like(apart), 0.0)

    def conjugate(self, slope: Any, target: Any) -> Any:
        xp, delta = self._delta(slope)
        return xp.where(xp.abs(slope) <= delta, slope * (slope / 2 + target), xp.inf)

    def clipped(self, slope: Any, target: Any) -> Any:
        return self._within(slope)

    def size(self, reach: Any, target: Any) -> Any:
        """(reach + |target|)^2: never less than the square's."""
        return Squared().size(reach, target)

    def curvature(self, lower: Any, upper: Any, target: Any) -> Any:
        return 1.0

    def steepest(self, lower: Any, upper: Any, target: Any) -> Any:
        return np.minimum(Squared().steepest(lower, upper, target), self.delta)

    def reach(self, budget: float) -> float:
        """The largest |score - target| whose loss is within the budget."""
        delta = float(self.delta)
        return float(np.sqrt(2 * budget)) if 2 * budget <= delta**2 else budget / delta + delta / 2

    def _within(self, numbers: Any) -> Any:
        xp, delta = self._delta(numbers)
        return xp.clip(numbers, -delta, delta)

    def _delta(self, like: Any) -> tuple[ModuleType, Any]:
        """The namespace of these numbers, and delta in their precision."""
        xp = namespace(like, self.delta)
        return xp, xp.asarray(self.delta, xp.result_type(like, 1.0))


CLASSIFICATION = ("logistic", "multiclass")
REGRESSION = ("squared", "huber")


def regression_loss(name: str, delta: object) -> Squared | Huber:
    """The loss of this name."""
    return Squared() if name == "squared" else Huber(delta)


def _onto_simplex(points: Any) -> Any:
    """The nearest points of the simplex, along the last axis."""
    xp = namespace(points)
    falling = -xp.sort(-points, axis=-1)
    over = xp.cumsum(falling, axis=-1) - 1
    count = xp.sum(falling * xp.arange(1, points.shape[-1] + 1) > over, axis=-1, keepdims=True)
    return xp.maximum(points - xp.take_along_axis(over, count - 1, axis=-1) / count, 0.0)

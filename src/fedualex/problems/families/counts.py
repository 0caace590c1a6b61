"""Families of counts: the Poisson loss with log link."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...arrays import Array, Reals
from ...summaries import Known
from .base import EXP_LOG, Accuracy, Sums, namespace
from .numbers import NumberFamily

FARTHEST = 20.0
"""The score above which the loss goes on as a parabola: a mean of 5e8, and no count is as large. It changes no solution
and keeps all of a domain finite, and a step that was too long from asking for sums of which one row is nearly all."""
LARGEST = 1e8


class Poisson(NumberFamily):
    """exp(score) - target score + target log target - target: half the unit deviance of a Poisson mean exp(score).

    Above FARTHEST exp(score) stands for exp(FARTHEST) (1 + u + u^2 / 2), u = score - FARTHEST: it is as convex and as
    self-concordant. A row whose target is a count over an exposure, and whose weight is that exposure, has up to a
    constant the loss of the count with the offset log exposure.
    """

    name: ClassVar[str] = "poisson"
    accepted: ClassVar[str] = "numbers from 0 to 1e8"
    effect: ClassVar[str] = "rate ratio"
    estimator: ClassVar[tuple[str, str]] = ("sklearn.linear_model", "PoissonRegressor")
    self_concordant: ClassVar[bool] = True
    counts: ClassVar[bool] = True

    def allows(self, target: Reals) -> NDArray[np.bool_]:
        return np.isfinite(target) & (target >= 0) & (target <= LARGEST)

    def mean(self, score: Array) -> Array:
        return _exponential(score)

    def link(self, mean: Array) -> Array:
        return namespace(mean).log(mean)

    def loss(self, score: Array, target: Array) -> Array:
        return _exponential(score) - target * score + _entropy(target)

    def slope(self, score: Array, target: Array) -> Array:
        xp = namespace(score, target)
        return self.second(score, target) * (1 + xp.maximum(score - FARTHEST, 0.0)) - target

    def second(self, score: Array, target: Array) -> Array:
        xp = namespace(score, target)
        return xp.exp(xp.minimum(score, FARTHEST)) + xp.zeros_like(target)

    def conjugate(self, slope: Array, target: Array) -> Array:
        """With t = slope + target >= 0: t log t - t, where t <= E = exp(FARTHEST), less that of the target.

        Beyond, t FARTHEST + E (t / E - 1)^2 / 2 - E.
        """
        xp = namespace(slope, target)
        t, end = slope + target, float(np.exp(FARTHEST))
        beyond = t * FARTHEST + end * (xp.maximum(t / end - 1, 0.0) ** 2 / 2 - 1)
        value = xp.where(t <= end, _entropy(xp.clip(t, 0.0, end)), beyond) - _entropy(target)
        return xp.where(t >= 0, value, xp.inf)

    def clipped(self, slope: Array, target: Array) -> Array:
        return namespace(slope, target).maximum(slope, -target)

    def size(self, reach: Array, target: Array) -> Array:
        """(1 + reach) exp(reach) + target (2 + reach + |log target|)."""
        xp = namespace(reach, target)
        logs = xp.abs(xp.log(xp.where(target > 0, target, 1.0)))
        return (1 + reach) * _exponential(reach) + target * (2 + reach + logs)

    def accuracy(self, score: Array, target: Array) -> Accuracy:
        """An exponential, products with score and logarithm, and a sum of their four terms."""
        logs = np.abs(np.log(np.where(target > 0, target, 1.0)))
        grown, steep = _exponential(score), self.slope(score, target) + target
        terms = grown + target * (np.abs(score) + logs + 1)
        return Accuracy((EXP_LOG + 12) * terms, (EXP_LOG + 8) * (steep + target))

    def conjugate_accuracy(self, slope: Array, target: Array) -> Accuracy:
        """t is rounded once, which counts |log t| times; -target, the end of the domain, is a number as it is."""
        t = slope + target
        logs, own = (np.abs(np.log(np.where(part > 0, part, 1.0))) for part in (t, target))
        value = (EXP_LOG + 16) * (np.abs(t) * (1 + logs) + target * (1 + own))
        beyond = t > np.exp(FARTHEST)
        return Accuracy(np.where(beyond, 64 * (1 + t / np.exp(FARTHEST)) * t, value), np.zeros_like(slope))

    def curvature(self, lower: Array, upper: Array, target: Array) -> float | Array:
        return self.second(upper, target)

    def steepest(self, lower: Array, upper: Array, target: Array) -> Array:
        return np.maximum(np.abs(self.slope(lower, target)), np.abs(self.slope(upper, target)))

    def constant(self, sums: Sums, mass: float) -> float:
        if not float(sums["target_sum"]) > 0:
            raise ValueError("y must hold a number above 0 for the family poisson, got only 0")
        return super().constant(sums, mass)

    def grid(self, known: Sequence[Known], least: float) -> Reals:
        """From where rows without events have a mean loss of least, and from below the mean, however few events."""
        below, above = known[0]["range"]
        if not above > 0:
            raise ValueError("y must hold a number above 0 for the family poisson, got only 0")
        few = above / max(2.0, float(np.sum(known[0]["rows"])))
        return np.linspace(np.log(max(-below, min(least, few))), np.log(above), 101)

    def log_likelihood(self, score: Array, target: Array) -> Array:
        """The log-likelihood of each row, of a count."""
        from scipy.special import gammaln  # a site of a deployment starts without it

        return target * score - _exponential(score) - gammaln(target + 1)


def _exponential(score: Array) -> Array:
    """exp(score), which goes on as a parabola beyond FARTHEST."""
    xp = namespace(score)
    beyond = xp.maximum(score - FARTHEST, 0.0)
    return xp.exp(xp.minimum(score, FARTHEST)) * (1 + beyond * (1 + beyond / 2))


def _entropy(mean: Array) -> Array:
    """t log t - t, 0 for t = 0."""
    xp = namespace(mean)
    return mean * (xp.log(xp.where(mean > 0, mean, 1.0)) - 1)

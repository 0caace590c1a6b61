"""Families of classes: logistic of two, softmax of more."""

from collections.abc import Sequence
from typing import ClassVar

import jax
import numpy as np

from ...arrays import Array, Reals, Values
from ...regularizers import Box
from ...summaries import Known
from ..known import Ball, class_bias_box, class_means, class_shares, known_classes, largest_product, sums_by_class
from ..readings import ClassReading, Reading
from ..rows import Rows, class_column
from .base import EXP_LOG, Accuracy, Family, Sums, namespace


class ClassFamily(Family):
    """A family whose targets are labels of classes; see `class_bias_box` for its bounds."""

    evidence_rows: ClassVar[str] = "class_rows"

    @property
    def reading(self) -> Reading:
        return ClassReading()

    def column(self, y: object, rows: int) -> Values:
        return class_column(y, rows)

    def opening(self, rows: Rows, masses: Reals) -> dict[str, dict[str, Values]]:
        return {"labels": {"classes": rows.labels(rows.y)}}

    def spread(self, rows: Rows) -> dict[str, dict[str, Values]]:
        return self.opening(rows, rows.shares)

    def evidence(self, rows: Rows, known: Sequence[Known], masses: Reals, around: Sequence[float] | Reals) -> Sums:
        return sums_by_class(rows, known_classes(known), masses)

    def box(
        self,
        sums: Sums,
        mass: float,
        around: Sequence[float] | Reals,
        ball: Ball,
        budget: float,
        center: Reals | float = 0.0,
    ) -> Box:
        shares, means = class_shares(sums["class_mass"], mass), class_means(sums) - center
        return class_bias_box(shares, means, ball, budget, binary=self.one_score)

    def constant(self, sums: Sums, mass: float) -> float:
        return 0.0

    def losses(self, score: float, rows: Rows) -> dict[str, Reals]:
        return {}

    def budget(self, sums: Sums, mass: float, intercept: bool) -> float:
        share = class_shares(sums["class_mass"], mass)
        return float(-share @ np.log(share)) if intercept else float(np.log(share.size))

    def worst_budget(self, sums: Sums, group_mass: Reals) -> float:
        return float(np.log(sums["class_mass"].size))

    def grid(self, known: Sequence[Known], least: float) -> Reals:
        raise NotImplementedError(f"{type(self).__name__} has no single score to try")


class Logistic(ClassFamily):
    """log(1 + exp(-sign score)), sign = -1 for the first of two labels in sorted order and +1 for the second."""

    name: ClassVar[str] = "logistic"
    self_concordant: ClassVar[bool] = True
    largest_second: ClassVar[float] = 1 / 4

    def settled(self, known: Sequence[Known]) -> Family:
        return self if known_classes(known).size == 2 else Softmax()

    def encoded(self, rows: Rows, known: Sequence[Known]) -> Reals:
        return rows.signs(known_classes(known, two=True))

    def grid(self, known: Sequence[Known], least: float) -> Reals:
        """So far that the rows of one class have a mean loss of least."""
        end = max(15.0, 1 - np.log(np.expm1(min(least, 1.0))))  # log(1 + exp(1 - end)) = least
        return np.linspace(-end, end, 301)

    def limit_evidence(
        self, rows: Rows, known: Sequence[Known], masses: Reals, around: Sequence[float] | Reals
    ) -> Sums:
        within = [masses * (self.encoded(rows, known) == sign) for sign in (-1, 1)]
        sums = {"class_mass": [own.sum(axis=1) for own in within], "class_rows": [own @ rows.X for own in within]}
        return {name: np.stack(parts) for name, parts in sums.items()}

    def limit_box(self, sums: Sums, bounds: Reals, around: Sequence[float] | Reals, ball: Ball) -> Box:
        """-sign s (b + <w, mu>) <= L for a mean loss <= L over rows with a share s of one class, whose mean is mu.

        The best of these is taken.
        """
        ends = []
        for within, rows in zip(sums["class_mass"], sums["class_rows"], strict=True):
            has = within > 0
            share = (within / sums["group_mass"])[has]
            ends.append(float(np.min(bounds[has] / share + largest_product(ball, rows[has] / within[has, None]))))
        return Box(lower=-ends[1], upper=ends[0])

    def loss(self, score: Array, target: Array) -> Array:
        return namespace(score, target).logaddexp(0.0, -target * score)

    def slope(self, score: Array, target: Array) -> Array:
        return -target * self._wrong(score, target)

    def second(self, score: Array, target: Array) -> Array:
        return self._wrong(score, target) * self._wrong(score, -target)

    def conjugate(self, slope: Array, target: Array) -> Array:
        share = -target * slope
        return _entropy(share, 1 - share)

    def clipped(self, slope: Array, target: Array) -> Array:
        return target * namespace(slope, target).clip(target * slope, -1.0, 0.0)

    def size(self, reach: Array, target: Array) -> Array:
        """1 + reach + reach^2 / 8: the slope is at most 1, and its own slope at most 1/4."""
        return 1 + reach + reach**2 / 8

    def accuracy(self, score: Array, target: Array) -> Accuracy:
        """An exponential and a logarithm; jax's derivative is exp(-sign score - loss), whose exponent is rounded."""
        each = 2 * EXP_LOG + 8
        slope = np.abs(self.slope(score, target))
        return Accuracy(each * (1 + self.loss(score, target)), each * (1 + np.abs(score)) * slope)

    def conjugate_accuracy(self, slope: Array, target: Array) -> Accuracy:
        """Two terms t log t of size 1 / e at most, one of them at 1 - t."""
        return Accuracy(np.full(np.shape(target), EXP_LOG + 8), np.zeros_like(slope))

    def curvature(self, lower: Array, upper: Array, target: Array) -> float | Array:
        return 1 / 4

    def steepest(self, lower: Array, upper: Array, target: Array) -> Array:
        return np.ones(np.shape(target))

    def _wrong(self, score: Array, target: Array) -> Array:
        """1 / (1 + exp(sign score)), the probability of the other sign."""
        xp = namespace(score, target)
        margin = target * score
        small = xp.exp(-xp.abs(margin))
        return xp.where(margin > 0, small, 1.0) / (1 + small)


class Softmax(ClassFamily):
    """logsumexp(scores) - scores_c, c the number of the class; the scores of a row are along the last axis."""

    name: ClassVar[str] = "multiclass"
    self_concordant: ClassVar[bool] = True
    one_score: ClassVar[bool] = False

    def outputs(self, known: Sequence[Known]) -> tuple[int, ...]:
        return (known_classes(known).size,)

    def encoded(self, rows: Rows, known: Sequence[Known]) -> Reals:
        return rows.numbers(rows.y, known_classes(known))

    def loss(self, score: Array, target: Array) -> Array:
        xp = namespace(score, target)
        shifted = score - _stop_gradient(xp.max(score, axis=-1, keepdims=True))
        own = xp.sum(xp.where(self._is_own(score, target), shifted, 0.0), axis=-1)
        return xp.log(xp.sum(xp.exp(shifted), axis=-1)) - own

    def slope(self, score: Array, target: Array) -> Array:
        xp, own = namespace(score, target), self._is_own(score, target)
        others = xp.where(own, 0.0, self._shares(score))
        return xp.where(own, -xp.sum(others, axis=-1, keepdims=True), others)  # no digit of 1 - share is lost

    def second(self, score: Array, target: Array) -> Array:
        xp, share = namespace(score, target), self._shares(score)
        return xp.eye(share.shape[-1]) * share[..., None] - share[..., None] * share[..., None, :]

    def conjugate(self, slope: Array, target: Array) -> Array:
        """The entropy of a + e_c where that is on the simplex; its sum may err by rounding."""
        xp = namespace(slope, target)
        share = slope + self._is_own(slope, target)
        each = xp.where(share > 0, share * xp.log(xp.where(share > 0, share, 1.0)), 0.0)
        slack = 4 * slope.shape[-1] * xp.finfo(slope.dtype).eps
        there = xp.all(share >= 0, axis=-1) & (xp.abs(xp.sum(slope, axis=-1)) <= slack)
        return xp.where(there, xp.sum(each, axis=-1), xp.inf)

    def clipped(self, slope: Array, target: Array) -> Array:
        own = self._is_own(slope, target)
        return _onto_simplex(slope + own) - own

    def size(self, reach: Array, target: Array) -> Array:
        """1 + log(classes) + 2 R + R^2, R the sum over the classes."""
        total = namespace(reach).sum(reach, axis=-1)
        return 1 + np.log(reach.shape[-1]) + 2 * total + total**2

    def accuracy(self, score: Array, target: Array) -> Accuracy:
        """Exponentials of differences, whose sizes they make up for, a sum over the classes, and a logarithm."""
        each = score.shape[-1] + 2 * EXP_LOG + 16
        return Accuracy(each * (1 + self.loss(score, target)), np.full(np.shape(score), each))

    def conjugate_accuracy(self, slope: Array, target: Array) -> Accuracy:
        """Shares that add up to 1 up to 9 UNIT a class are divided by their sum, which puts them on the simplex."""
        classes = slope.shape[-1]
        value = (32 + 2 * EXP_LOG) * (classes + 2) * (1 + np.log(classes))
        return Accuracy(np.full(np.shape(target), value), np.full(np.shape(slope), 16.0 * classes))

    def inside(self, slope: Array, target: Array) -> Array:
        """Shares that are divided by their sum."""
        own = self._is_own(slope, target)
        share = slope + own
        return share / share.sum(axis=-1, keepdims=True) - own

    def curvature(self, lower: Array, upper: Array, target: Array) -> float | Array:
        return 1 / 2

    def steepest(self, lower: Array, upper: Array, target: Array) -> Array:
        """sqrt(2): the difference of two points of the simplex."""
        return np.full(np.shape(target), np.sqrt(2))

    def _is_own(self, score: Array, target: Array) -> Array:
        xp = namespace(score, target)
        return xp.arange(score.shape[-1]) == xp.asarray(target)[..., None]

    def _shares(self, score: Array) -> Array:
        xp = namespace(score)
        grown = xp.exp(score - _stop_gradient(xp.max(score, axis=-1, keepdims=True)))
        return grown / xp.sum(grown, axis=-1, keepdims=True)


def _stop_gradient(array: Array) -> Array:
    """An array whose derivatives are known to cancel, and are not taken."""
    return jax.lax.stop_gradient(array) if isinstance(array, jax.Array) else array


def _onto_simplex(points: Array) -> Array:
    """The nearest points of the simplex, along the last axis."""
    xp = namespace(points)
    points = points - xp.max(points, axis=-1, keepdims=True)  # far from 0 the sum of 1 would be rounded away
    falling = -xp.sort(-points, axis=-1)
    over = xp.cumsum(falling, axis=-1) - 1
    count = xp.sum(falling * xp.arange(1, points.shape[-1] + 1) > over, axis=-1, keepdims=True)
    return xp.maximum(points - xp.take_along_axis(over, count - 1, axis=-1) / count, 0.0)


def _entropy(share: Array, rest: Array) -> Array:
    """share log share + rest log rest, where share + rest = 1, 0 log 0 = 0, and +inf outside [0, 1]."""
    xp = namespace(share, rest)
    each = [xp.where(part > 0, part * xp.log(xp.where(part > 0, part, 1.0)), 0.0) for part in (share, rest)]
    return xp.where((share >= 0) & (rest >= 0), each[0] + each[1], xp.inf)

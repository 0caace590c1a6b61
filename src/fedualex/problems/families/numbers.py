"""Families of numbers: those with a link in general, and losses of score - target.

The latter are squares, Huber's loss, and the absolute one made smooth.
"""

from abc import abstractmethod
from collections.abc import Sequence
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...accepted import Number
from ...arrays import Array, Reals, Values
from ...regularizers import Box
from ...summaries import Known
from ...validation import positive
from ..known import Ball, bias_box, largest_product
from ..readings import MeanReading, NumberReading, Reading
from ..rows import Rows, targets
from .base import Accuracy, Family, Sums, namespace


class NumberFamily(Family):
    """A family whose targets are numbers, with a mean for each score.

    The box of the bias is from tangents. With c a constant score, L and g > 0 the mean loss and slope there, and v the
    mean of slope * row, convexity gives mean loss >= L + g (b - c) + <w, v>, so with a mean loss within the budget
    b <= c + (budget - L + the largest |<w, v>|) / g; likewise from below where g < 0. This needs no more of a family
    than that its mean loss falls on one side of all constants and grows on the other.

    accepted: which targets there are, in words. effect: what exp(coefficient) is called, or "". estimator: of
    scikit-learn, with the same predictions.
    """

    accepted: ClassVar[str] = "real numbers"
    effect: ClassVar[str] = ""
    estimator: ClassVar[tuple[str, str]] = ("sklearn.linear_model", "LinearRegression")
    evidence_rows: ClassVar[str] = "tangent_rows"

    @abstractmethod
    def mean(self, score: Array) -> Array:
        """The prediction of a score."""

    @abstractmethod
    def link(self, mean: Array) -> Array:
        """The score of a prediction."""

    def allows(self, target: Reals) -> NDArray[np.bool_]:
        """Which targets have a loss."""
        return np.isfinite(target)

    @property
    def reading(self) -> Reading:
        return MeanReading(self)

    def log_likelihood(self, score: Array, target: Array) -> Array:
        """The log-likelihood of each row, of a family of counts."""
        raise NotImplementedError(f"{type(self).__name__} says that it is of counts, but not how likely they are")

    def check_targets(self, target: Reals, what: str = "y") -> Reals:
        """The targets, or a refusal of the first that is not accepted."""
        if not (fine := self.allows(target)).all():
            row = int(np.argmin(fine))
            raise ValueError(
                f"{what} must be {self.accepted} for the family {self.name}, got {target[row]:g} in row {row}"
            )
        return target

    def column(self, y: object, rows: int) -> Reals:
        return self.check_targets(targets(y, rows))

    def encoded(self, rows: Rows, known: Sequence[Known]) -> Reals:
        return rows.y

    def opening(self, rows: Rows, masses: Reals) -> dict[str, dict[str, Values]]:
        return {"sums": {"target_sum": np.asarray(masses @ rows.y)}}

    def spread(self, rows: Rows) -> dict[str, dict[str, Values]]:
        counted = rows.y[rows.shares > 0]
        ends = np.array([np.max(side, initial=-np.inf) for side in (-counted, counted)])
        return {"largest": {"range": ends}}

    def evidence(self, rows: Rows, known: Sequence[Known], masses: Reals, around: Sequence[float] | Reals) -> Sums:
        scores = self._tangent_scores(around)[:, None]
        slopes = masses * self.slope(scores, rows.y)
        losses = self.loss(scores, rows.y) @ masses
        return {"tangent_losses": losses, "tangent_slopes": slopes.sum(axis=1), "tangent_rows": slopes @ rows.X}

    def box(
        self,
        sums: Sums,
        mass: float,
        around: Sequence[float] | Reals,
        ball: Ball,
        budget: float,
        center: Reals | float = 0.0,
    ) -> Box:
        slope = sums["tangent_slopes"] / mass
        if not slope[0] < 0 < slope[1]:
            raise ValueError(
                f"y must have a best constant score for the family {self.name}: its mean loss never grows on both "
                f"sides, with slopes {slope[0]:.3g} and {slope[1]:.3g} at {self._tangent_scores(around)}"
            )
        moved = largest_product(ball, sums["tangent_rows"] / mass - slope[:, None] * np.asarray(center))
        size = (budget - sums["tangent_losses"] / mass + moved) / np.abs(slope)
        lower, upper = self._tangent_scores(around) + np.array([-1.0, 1.0]) * size
        return Box(lower=lower, upper=upper)

    def constant(self, sums: Sums, mass: float) -> float:
        return float(self.link((sums["target_sum"] / mass)[()]))

    def losses(self, score: float, rows: Rows) -> dict[str, Reals]:
        return {"losses": np.asarray(self.loss(np.asarray(score), rows.y))}

    def budget(self, sums: Sums, mass: float, intercept: bool) -> float:
        return float((sums["losses"] / mass)[()])

    def worst_budget(self, sums: Sums, group_mass: Reals) -> float:
        return float(np.max(sums["group_losses"] / group_mass))

    def grid(self, known: Sequence[Known], least: float) -> Reals:
        below, above = known[0]["range"]
        return np.linspace(self.link(-below), self.link(above), 101)

    def _tangent_scores(self, around: Sequence[float] | Reals) -> Reals:
        return np.array([around[0] - 1.0, around[1] + 1.0])


class LocationFamily(NumberFamily):
    """A loss of score - target, >= 0, which is centered and scaled with the targets.

    By Jensen's inequality the loss of the mean of score - target is at most the mean loss: with mu and t the mean row
    and target, |b + <w, mu> - t| is within the reach of the budget.
    """

    effect: ClassVar[str] = "difference"
    evidence_rows: ClassVar[str] = "row_sum"

    @abstractmethod
    def reach(self, budget: float) -> float:
        """The largest |score - target| whose loss is within the budget."""

    @property
    def reading(self) -> Reading:
        return NumberReading()

    def mean(self, score: Array) -> Array:
        return score

    def link(self, mean: Array) -> Array:
        return mean

    def evidence(self, rows: Rows, known: Sequence[Known], masses: Reals, around: Sequence[float] | Reals) -> Sums:
        return {"row_sum": masses @ rows.X}

    def box(
        self,
        sums: Sums,
        mass: float,
        around: Sequence[float] | Reals,
        ball: Ball,
        budget: float,
        center: Reals | float = 0.0,
    ) -> Box:
        mean = sums["row_sum"] / mass - center
        return bias_box((sums["target_sum"] / mass)[()], mean, ball, self.reach(budget))


class Squared(LocationFamily):
    """(score - target)^2 / 2."""

    name: ClassVar[str] = "squared"
    exact_second: ClassVar[bool] = True
    largest_second: ClassVar[float] = 1.0

    def loss(self, score: Array, target: Array) -> Array:
        return (score - target) ** 2 / 2

    def slope(self, score: Array, target: Array) -> Array:
        return score - target

    def second(self, score: Array, target: Array) -> Array:
        return namespace(score, target).ones_like(score - target)

    def conjugate(self, slope: Array, target: Array) -> Array:
        return slope * (slope / 2 + target)

    def clipped(self, slope: Array, target: Array) -> Array:
        return slope

    def size(self, reach: Array, target: Array) -> Array:
        """(reach + |target|)^2."""
        return (reach + namespace(reach, target).abs(target)) ** 2

    def accuracy(self, score: Array, target: Array) -> Accuracy:
        """A difference, a square and a half: relative errors, as nothing cancels after the first of them."""
        return Accuracy(6 * self.loss(score, target), 4 * np.abs(self.slope(score, target)))

    def conjugate_accuracy(self, slope: Array, target: Array) -> Accuracy:
        """a (a / 2 + target): a sum and a product."""
        return Accuracy(6 * np.abs(self.conjugate(slope, target)), np.zeros_like(slope))

    def curvature(self, lower: Array, upper: Array, target: Array) -> float | Array:
        return 1.0

    def steepest(self, lower: Array, upper: Array, target: Array) -> Array:
        return np.maximum(np.abs(upper - target), np.abs(target - lower))

    def reach(self, budget: float) -> float:
        """The largest |score - target| whose loss is within the budget."""
        return float(np.sqrt(2 * budget))


class Huber(LocationFamily):
    """u^2 / 2 for u = |score - target| <= delta, delta u - delta^2 / 2 beyond."""

    name: ClassVar[str] = "huber"
    likelihood: ClassVar[bool] = False
    delta: Number

    def __init__(self, delta: Number = 1.0):
        self.delta = positive("delta", delta)

    def loss(self, score: Array, target: Array) -> Array:
        inner = self.slope(score, target)
        return inner * (score - target - inner / 2)

    def slope(self, score: Array, target: Array) -> Array:
        return self._within(score - target)

    def second(self, score: Array, target: Array) -> Array:
        """1 where |score - target| <= delta, else 0."""
        apart = score - target
        xp, delta = self._delta(apart)
        return xp.where(xp.abs(apart) <= delta, xp.ones_like(apart), 0.0)

    def conjugate(self, slope: Array, target: Array) -> Array:
        xp, delta = self._delta(slope)
        return xp.where(xp.abs(slope) <= delta, slope * (slope / 2 + target), xp.inf)

    def clipped(self, slope: Array, target: Array) -> Array:
        return self._within(slope)

    def size(self, reach: Array, target: Array) -> Array:
        """(reach + |target|)^2: never less than the square's."""
        return Squared().size(reach, target)

    def accuracy(self, score: Array, target: Array) -> Accuracy:
        """|u| - |clip(u)| / 2 is at least |u| / 2, so that errors are relative as those of the square are."""
        return Accuracy(12 * self.loss(score, target), 8 * np.abs(self.slope(score, target)))

    def conjugate_accuracy(self, slope: Array, target: Array) -> Accuracy:
        """That of the square: a clipped slope is within delta as it is."""
        return Squared().conjugate_accuracy(slope, target)

    def curvature(self, lower: Array, upper: Array, target: Array) -> float | Array:
        return 1.0

    def steepest(self, lower: Array, upper: Array, target: Array) -> Array:
        return np.minimum(Squared().steepest(lower, upper, target), self.delta)

    def reach(self, budget: float) -> float:
        """The largest |score - target| whose loss is within the budget."""
        delta = float(self.delta)
        return float(np.sqrt(2 * budget)) if 2 * budget <= delta**2 else budget / delta + delta / 2

    def _within(self, numbers: Array) -> Array:
        xp, delta = self._delta(numbers)
        return xp.clip(numbers, -delta, delta)

    def _delta(self, like: Array) -> tuple[ModuleType, Array]:
        """The namespace of these numbers, and delta in their precision."""
        xp = namespace(like, self.delta)
        return xp, xp.asarray(self.delta, xp.result_type(like, 1.0))


class Absolute(LocationFamily):
    """sqrt(u^2 + delta^2) - delta, u = score - target: |u| to within delta, and smooth.

    It is below |u| by less than delta, so that its mean is the mean absolute deviation to within delta.
    """

    name: ClassVar[str] = "absolute"
    likelihood: ClassVar[bool] = False
    self_concordant: ClassVar[bool] = True
    delta: Number

    def __init__(self, delta: Number = 0.1):
        self.delta = positive("delta", delta)

    def loss(self, score: Array, target: Array) -> Array:
        apart, delta, whole = self._parts(score, target)
        return apart * (apart / (whole + delta))

    def slope(self, score: Array, target: Array) -> Array:
        apart, _, whole = self._parts(score, target)
        return apart / whole

    def second(self, score: Array, target: Array) -> Array:
        _, delta, whole = self._parts(score, target)
        return (delta / whole) ** 2 / whole

    def conjugate(self, slope: Array, target: Array) -> Array:
        """a target + delta (1 - sqrt(1 - a^2))."""
        xp = namespace(slope, target, self.delta)
        rest = xp.sqrt(xp.clip(1 - slope, 0.0, None) * xp.clip(1 + slope, 0.0, None))
        return xp.where(xp.abs(slope) <= 1, slope * (target + self.delta * slope / (1 + rest)), xp.inf)

    def clipped(self, slope: Array, target: Array) -> Array:
        return namespace(slope, target).clip(slope, -1.0, 1.0)

    def size(self, reach: Array, target: Array) -> Array:
        """(reach + |target|)^2 / delta."""
        return namespace(reach, target, self.delta).divide(Squared().size(reach, target), self.delta)

    def accuracy(self, score: Array, target: Array) -> Accuracy:
        """A difference, and from it a root, sums of positive numbers and quotients: relative errors."""
        return Accuracy(16 * self.loss(score, target), 16 * np.abs(self.slope(score, target)))

    def conjugate_accuracy(self, slope: Array, target: Array) -> Accuracy:
        """1 - a and 1 + a are rounded relatively, so the root is; then a sum of two terms, and a product."""
        return Accuracy(16 * np.abs(slope) * (np.abs(target) + float(self.delta)), np.zeros_like(slope))

    def curvature(self, lower: Array, upper: Array, target: Array) -> float | Array:
        return np.asarray(1.0 / float(self.delta))

    def steepest(self, lower: Array, upper: Array, target: Array) -> Array:
        return np.abs(self.slope(target + Squared().steepest(lower, upper, target), target))

    def reach(self, budget: float) -> float:
        """The largest |score - target| whose loss is within the budget."""
        return float(np.sqrt(budget * (budget + 2 * float(self.delta))))

    @property
    def concordance(self) -> float:
        """The largest 3 |u| / (u^2 + delta^2)."""
        return 1.5 / float(self.delta)

    def _parts(self, score: Array, target: Array) -> tuple[Any, Any, Any]:
        """u, delta in its precision, and sqrt(u^2 + delta^2)."""
        apart = score - target
        xp = namespace(apart, self.delta)
        delta = xp.asarray(self.delta, xp.result_type(apart, 1.0))
        return apart, delta, xp.sqrt(apart**2 + delta**2)

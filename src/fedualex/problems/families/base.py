"""What a family is: a loss of scores, its derivatives and conjugate, its bounds, and what scores mean.

Formulas are written once, for arrays of numpy and of jax: where all arguments are numpy's, jax is never called.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...arrays import Array, Module, Reals, Values
from ...regularizers import Box
from ...summaries import Known
from ..known import Ball
from ..readings import Reading
from ..rows import Rows

Sums = Known


def namespace(*arrays: object) -> ModuleType:
    """jax.numpy if any of the arrays is jax's or traced by it, else numpy."""
    return jnp if any(isinstance(array, jax.Array) for array in arrays) else np


class Accuracy(NamedTuple):
    """How far computed numbers may be from the exact ones of the very arguments that were given, in units of UNIT."""

    value: Array
    slope: Array


EXP_LOG = 8.0
"""The relative error of exp, log and log1p that is assumed of numpy and of jax, in units of UNIT: 4 units in the last
place. Tests compare them with arithmetic of many digits."""


class Family(Module):
    """A convex loss phi >= 0 of a score, given a target: values, derivatives, conjugate, bounds, and what scores mean.

    Scores and targets are arrays along leading axes, one number for each row; a family with several scores for a row
    (`Softmax`) has them along the last axis. Every parameter of a family has a default.

    A problem's domains are derived by a family from sums over clients' rows. As losses are >= 0, the loss of a constant
    score, the *budget*, bounds the penalty of a solution, which gives a ball of weights (`Penalty`); it bounds its mean
    loss too, which gives a box of the bias.

    name: in files and arguments. one_score: whether a row has one score. exact_second: whether `slope` is affine in the
    score, so that `second` at one score holds at all. self_concordant: whether |phi'''| <= c phi'', c = `concordance`,
    by which one point can prove how far the optimum is (docs/inference.md). likelihood: whether slopes vary as `second`
    says if the model is right. largest_second: a bound of phi'' whatever score and target are, where one is known.
    counts: whether targets may be counts over an exposure, which is then the weight of a row; and whether they may vary
    more than the family says.
    """

    name: ClassVar[str]
    exact_second: ClassVar[bool] = False
    self_concordant: ClassVar[bool] = False
    likelihood: ClassVar[bool] = True
    largest_second: ClassVar[float] = np.inf
    one_score: ClassVar[bool] = True
    counts: ClassVar[bool] = False

    @property
    @abstractmethod
    def reading(self) -> Reading:
        """What scores mean."""

    @property
    def concordance(self) -> float:
        """c, where the family is self-concordant."""
        return 1.0

    @abstractmethod
    def loss(self, score: Array, target: Array) -> Array:
        """phi(score) of each row."""

    @abstractmethod
    def slope(self, score: Array, target: Array) -> Array:
        """phi'(score), of the shape of the score."""

    @abstractmethod
    def second(self, score: Array, target: Array) -> Array:
        """phi''(score); a matrix for each row of several scores. Where there is none, an element of Clarke's."""

    @abstractmethod
    def conjugate(self, slope: Array, target: Array) -> Array:
        """phi*(a) = sup_s a s - phi(s) of each row; +inf where that is not finite."""

    @abstractmethod
    def clipped(self, slope: Array, target: Array) -> Array:
        """The nearest a with a finite conjugate."""

    @abstractmethod
    def size(self, reach: Array, target: Array) -> Array:
        """What measures the rounding of the loss.

        If a score is a sum of n terms of total size `reach`, the loss is computed to within (n + 16) UNIT size, and its
        slope to within (n + 16) UNIT times the derivative of `size`.
        """

    def accuracy(self, score: Array, target: Array) -> Accuracy | None:
        """How far `loss` and `slope` may be off, in numpy or differentiated by jax; None if nobody derived it.

        With it, and with `conjugate_accuracy`, what rounding does to bounds of the optimal value is proved; else it is
        estimated. An error of the score itself is not part of it.
        """
        return None

    def conjugate_accuracy(self, slope: Array, target: Array) -> Accuracy:
        """How far `conjugate` may be off, in numpy, at a `clipped` slope, and how near a slope in its domain is."""
        raise NotImplementedError(f"{type(self).__name__} says how accurate its loss is, but not its conjugate")

    def inside(self, slope: Array, target: Array) -> Array:
        """The slope of the domain that a `clipped` one stands for, as exact as its own digits are."""
        return slope

    @abstractmethod
    def curvature(self, lower: Array, upper: Array, target: Array) -> float | Array:
        """A bound of the second derivative, of its largest eigenvalue for several scores, for lower <= score <= upper.

        One number for all rows, or one for each.
        """

    @abstractmethod
    def steepest(self, lower: Array, upper: Array, target: Array) -> Array:
        """A bound of the norm of the slope of each row, for lower <= score <= upper."""

    # Targets.

    @abstractmethod
    def column(self, y: object, rows: int) -> Values:
        """The targets of so many rows as callers give them, checked."""

    def settled(self, known: Sequence[Known]) -> "Family":
        """The family, once it is known which labels there are."""
        return self

    def outputs(self, known: Sequence[Known]) -> tuple[int, ...]:
        """The shape of the scores of a row."""
        return ()

    @abstractmethod
    def encoded(self, rows: Rows, known: Sequence[Known]) -> Reals:
        """The targets of a client's rows as the loss takes them."""

    # The derived domain: what clients send, and what is read from it.

    @abstractmethod
    def opening(self, rows: Rows, masses: Reals) -> dict[str, dict[str, Values]]:
        """Parts of a client's first summary: what decides a constant score, or the labels."""

    @abstractmethod
    def spread(self, rows: Rows) -> dict[str, dict[str, Values]]:
        """The same for a grid of constant scores."""

    @abstractmethod
    def evidence(self, rows: Rows, known: Sequence[Known], masses: Reals, around: Sequence[float] | Reals) -> Sums:
        """Sums over a client's rows, of these weights, by which a bound of the mean loss bounds the bias.

        around: the least and the largest of the constant scores that were tried.
        """

    @abstractmethod
    def box(
        self,
        sums: Sums,
        mass: float,
        around: Sequence[float] | Reals,
        ball: Ball,
        budget: float,
        center: Reals | float = 0.0,
    ) -> Box:
        """All biases with which the mean loss may be within the budget, for weights in the ball.

        sums, mass: the sums of `opening` and `evidence`, and the weight of all rows. center: taken off every row.
        """

    evidence_rows: ClassVar[str]
    """The sum of `evidence` whose last axis is that of a row."""

    @abstractmethod
    def constant(self, sums: Sums, mass: float) -> float:
        """A constant score of small mean loss, from the sums of `opening`."""

    def losses_of(self, rows: Rows, known: Sequence[Known]) -> Callable[[Reals], Reals]:
        """From scores of these rows to the loss of each."""
        target = self.encoded(rows, known)
        return lambda scores: np.asarray(self.loss(scores, target))

    @abstractmethod
    def losses(self, score: float, rows: Rows) -> dict[str, Reals]:
        """{"losses": those of a client's rows at a constant score}; nothing if the budget is known without them."""

    @abstractmethod
    def budget(self, sums: Sums, mass: float, intercept: bool) -> float:
        """The mean loss of a constant score, of 0 without intercept, from the sums of `losses` and `evidence`."""

    @abstractmethod
    def worst_budget(self, sums: Sums, group_mass: Reals) -> float:
        """The largest mean loss of a group at a constant score; sums has "group_losses" where there are losses."""

    @abstractmethod
    def grid(self, known: Sequence[Known], least: float) -> Reals:
        """Constant scores to try, from what `spread` became; some rows should have a mean loss as small as `least`."""

    def limit_evidence(
        self, rows: Rows, known: Sequence[Known], masses: Reals, around: Sequence[float] | Reals
    ) -> Sums:
        """`evidence` of the rows of an objective and of each group with a limit, one row of masses each."""
        target = np.asarray(masses[0] @ rows.y)
        return {"target_sum": target, **self.evidence(rows, known, masses[0], around)}

    def limit_box(self, sums: Sums, bounds: Reals, around: Sequence[float] | Reals, ball: Ball) -> Box:
        """`box` from `limit_evidence` and "group_mass", where the mean losses have these bounds."""
        return self.box(sums, sums["group_mass"][0], around, ball, float(bounds[0]))

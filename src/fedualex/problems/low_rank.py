"""Multi-task regression of low rank."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..accepted import Column, Matrix, Number, Numbers
from ..arrays import Reals
from ..regularizers import L1, AbstractRegularizer, Box, L1Ball, Spectral
from ..summaries import Known, Summary
from ..tree import Saddle
from ..validation import of_type, positive
from .families import Squared
from .general import Problem
from .known import Floor, mean_of, sums_of_means, total_mass
from .readings import NumberReading, Reading
from .recipe import AbstractRecipe, assemble, built_from
from .rows import Data, Rows, checked_weights, features, matrix, split_rows
from .scores import OfScore


@dataclass(frozen=True, eq=False)
class LowRankRecipe(AbstractRecipe):
    """`low_rank` without data, in two exchanges: sums of targets and rows, then squared deviations of the targets.

    nuclear, intercept, weights: as for `fx.problems.low_rank`.
    """

    nuclear: Number
    intercept: bool = True
    weights: Numbers | str = "samples"
    exchanges: ClassVar[int] = 2
    keeps_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        of_type("intercept", self.intercept, bool, "True or False")
        positive("nuclear", self.nuclear)
        checked_weights(self.weights)

    @property
    def reading(self) -> Reading:
        """Several numbers for each row."""
        return NumberReading()

    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """Sums around 0, then squares around the mean."""
        masses = rows.masses(self.weights, client)
        if not known:
            return self.opening(rows, client, sums=sums_of_means(rows, masses))
        return Summary(sums={"squares": masses @ (rows.y - self._center(known)) ** 2})

    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, object]:
        """Rows with their targets."""
        return rows.weighed(row=rows.features, target=rows.y)

    def problem(self, known: Sequence[Known], data: Data) -> Problem:
        """The bounds of `low_rank`."""
        total, center = total_mass(known), self._center(known)
        constant = float(np.sum(mean_of(known[1], "squares", total)) / 2)
        nuclear = positive("nuclear", self.nuclear)
        radius, mean = constant / float(nuclear), mean_of(known[0], "row_sum", total)
        x: dict[str, AbstractRegularizer] = {"weights": Spectral(L1(nuclear) + L1Ball(radius))}
        like: dict[str, Reals] = {"weights": np.zeros((mean.size, center.size))}
        if self.intercept:
            spread = radius * np.linalg.norm(mean) + np.sqrt(2 * constant)
            x["bias"] = Box(lower=center - spread, upper=center + spread)
            like["bias"] = np.zeros(center.size)
        f, floor = OfScore(Squared()), Floor(None, 0.0, each=True)
        return self.built(f, known, data, x=x, like=Saddle(like), floor=floor, by_construction=True)

    def held_out_losses(self, rows: Rows, known: Sequence[Known]) -> Callable[[Reals], Reals]:
        return lambda scores: np.asarray(Squared().loss(scores, rows.y))

    def _center(self, known: Sequence[Known]) -> Reals:
        mean = mean_of(known[0], "target_sum", total_mass(known))
        return np.asarray(mean if self.intercept else np.zeros_like(mean))


@built_from("X", "Y", "clients", recipe=LowRankRecipe)
def low_rank(
    X: Matrix,
    Y: Numbers,
    clients: Column | None = None,
    *,
    nuclear: Number,
    intercept: bool = True,
    weights: Numbers | str = "samples",
    sample_weight: Numbers | None = None,
) -> Problem:
    """min_{W, b} sum_i p_i ||W^T X_i + b - Y_i||^2 / 2 + nuclear ||W||_*: many tasks that share few directions.

    X: n rows of d features; Y: n rows of t targets; W has shape (d, t), b (t,). clients, weights
        and sample_weight as in `sparse_glm`.
    x = {"weights": W, "bias": b}; without intercept x = {"weights": W}. There is no y: plain minimization.

    Bounds, none of them active at a solution: with F the loss of the best constant answer (of 0 without intercept),
    the singular values of W are in L1Ball(F / nuclear), and with mu and c the means of X and Y, Jensen's inequality
    gives |b - c| <= (F / nuclear) ||mu|| + sqrt(2 F), entry by entry.
    f is a mean of squares, so its floor is 0.
    """
    recipe = LowRankRecipe(nuclear, intercept, weights)
    rows, targets = features(X), matrix(Y, "Y")
    if len(targets) != rows.shape[0]:
        raise ValueError(f"Y must have {rows.shape[0]} rows, as many as X, got {len(targets)}")
    return assemble(recipe, split_rows(rows, targets, clients, sample_weight))

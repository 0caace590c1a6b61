"""Sparse generalized linear models: LASSO, l1 logistic regression, elastic net, group lasso."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..accepted import Column, Matrix, Number, Numbers
from ..arrays import Reals
from ..regularizers import AbstractRegularizer
from ..summaries import Known, Summary
from ..tree import Saddle, Tree
from ..validation import of_type, real_array, short
from .families import Family, family_of
from .general import Problem
from .known import Floor, Penalty, total_mass
from .readings import Reading
from .recipe import AbstractRecipe, assemble, built_from
from .rows import Data, Rows, checked_weights, features, split_rows
from .scores import OfScore

# `sparse_glm` before anybody's data was seen.


@dataclass(frozen=True, eq=False)
class SparseGlmRecipe(AbstractRecipe):
    """`sparse_glm` without data, in two exchanges.

    family, l1, l2, group, groups, radius, intercept, weights, center: as for `fx.problems.sparse_glm`.
    A family of numbers: the sum of targets, then of losses at their mean and what bounds the bias. Of classes: the
    labels, then for each class the weight of its rows and their sum.
    """

    family: Family | str
    l1: Number = 0.0
    l2: Number = 0.0
    group: Number = 0.0
    groups: Column | None = None
    radius: Number | None = None
    intercept: bool = True
    weights: Numbers | str = "samples"
    center: Numbers | None = None
    exchanges: ClassVar[int] = 2
    keeps_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._family()
        of_type("intercept", self.intercept, bool, "True or False")
        checked_weights(self.weights)
        self._penalty()

    @property
    def reading(self) -> Reading:
        """How the family reads scores."""
        return self._family().reading

    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """What decides a constant score, or labels; then losses of it, and what bounds the bias."""
        masses = rows.masses(self.weights, client)
        if not known:
            return self.opening(rows, client, **self._family().opening(rows, masses))
        family, constant = self._settle_family(known), self._constant(known)
        losses = {name: np.asarray(masses @ each) for name, each in family.losses(constant, rows).items()}
        return Summary(sums=losses | dict(family.evidence(rows, known, masses, (constant, constant))))

    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, object]:
        """Rows with their targets; of classes signs, or numbers if there are more than two."""
        return rows.weighed(row=rows.features, target=self._settle_family(known).encoded(rows, known))

    def problem(self, known: Sequence[Known], data: Data) -> Problem:
        """The bounds of `sparse_glm`."""
        family, penalty, total = self._settle_family(known), self._penalty(), total_mass(known)
        budget, outputs = family.budget(known[1], total, self.intercept), family.outputs(known)
        features = known[1][family.evidence_rows].shape[-1]
        shape, ball, center = (features, *outputs), penalty.ball(budget), self._row(features)
        x: dict[str, AbstractRegularizer] = {"weights": penalty.regularizer(ball, shape)}
        like: dict[str, Reals] = {"weights": np.zeros(shape)}
        if self.intercept:
            like["bias"] = np.zeros(outputs)
            around = (self._constant(known),) * 2
            shift = 0.0 if center is None else center
            x["bias"] = family.box({**known[0], **known[1]}, total, around, ball, budget, shift)
        f, floor = OfScore(family, center), Floor(None, 0.0, each=True)
        return self.built(f, known, data, x=x, like=Saddle(like), floor=floor, by_construction=True)

    def bias(self, known: Sequence[Known], x: Tree) -> Reals:
        """b, less the score of the center."""
        bias, weights = super().bias(known, x), np.asarray(x["weights"])
        return bias if self.center is None else np.asarray(bias - self._row(len(weights)) @ weights)

    def held_out_losses(self, rows: Rows, known: Sequence[Known]) -> Callable[[Reals], Reals]:
        """From the scores of rows to the losses of the family."""
        return self._settle_family(known).losses_of(rows, known)

    def _row(self, features: int) -> Reals | None:
        """The center, checked; None if there is none."""
        if self.center is None:
            return None
        center = real_array("center", self.center, accepted := f"{features} numbers, one for each column of X")
        if center.shape != (features,):
            raise ValueError(f"center must be {accepted}, got {short(self.center)}")
        return center

    def _penalty(self) -> Penalty:
        return Penalty(self.l1, self.l2, self.radius, self.group, self.groups)

    def _family(self) -> Family:
        return family_of("family", self.family)

    def _settle_family(self, known: Sequence[Known]) -> Family:
        return self._family().settled(known)

    def _constant(self, known: Sequence[Known]) -> float:
        """A constant score that solutions are compared with."""
        return self._family().constant(known[0], total_mass(known)) if self.intercept else 0.0


@built_from("X", "y", "clients", recipe=SparseGlmRecipe)
def sparse_glm(
    family: str | Family,
    X: Matrix,
    y: Column,
    clients: Column | None = None,
    *,
    l1: Number = 0.0,
    l2: Number = 0.0,
    group: Number = 0.0,
    groups: Column | None = None,
    radius: Number | None = None,
    intercept: bool = True,
    weights: Numbers | str = "samples",
    sample_weight: Numbers | None = None,
    center: Numbers | None = None,
) -> Problem:
    """min_{w, b} sum_i p_i loss(<w, X_i - c> + b, y_i) + l1 ||w||_1 + l2/2 ||w||^2 + group sum_g sqrt(d_g) ||w_g||_2.

    family "squared": loss (score - y)^2 / 2, so that l1 is scikit-learn's alpha of Lasso. "logistic": with two classes
        log(1 + exp(-s score)), s = -1 for the first label in sorted order and +1 for the second, so that l1 is
        1 / (C n); with more the softmax loss ("multiclass"), and w has shape (d, classes), b (classes,). With
        u = score - y "huber" is u^2 / 2 for |u| <= 1 and |u| - 1/2 beyond, and "absolute" is sqrt(u^2 + .01) - .1.
        "poisson": exp(score) - y score + y log y - y, half the deviance of counts y >= 0; of rates y that of counts if
        sample_weight is their exposure. Or a `Family`.
    clients: for each row, whose it is; None is one client. weights: "samples" makes all p_i alike (the pooled problem),
        "clients" makes all clients alike; or one number for each client. sample_weight: a number >= 0 for each row,
        in proportion to which rows count in every mean over rows; all alike without it.
    center: the row c, 0 if None. With the mean row b hardly depends on w; sparse rows stay sparse.
    groups: for each column of X its group, whose entries vanish together; d_g is how many entries w_g has.
    x = {"weights": w, "bias": b}; without intercept x = {"weights": w}. There is no y: plain minimization.

    Bounds. The loss is >= 0, so a solution's penalty is at most F, the loss of the best constant score (of score 0
    without intercept): w is in a ball that says so (`Penalty`), or in L2Ball(radius). For "squared", with mu the mean
    of X_i - c and S the largest |<w, mu>| for w in the ball, Jensen's inequality gives |b - mean y| <= S + sqrt(2 F);
    for classes see `class_bias_box`. Unless F = 0, no derived bound is active at a solution; a given radius may be.
    As the loss is >= 0, so is f: its floor is 0.
    """
    recipe = SparseGlmRecipe(family, l1, l2, group, groups, radius, intercept, weights, center)
    rows = features(X)
    target = family_of("family", family).column(y, rows.shape[0])
    return assemble(recipe, split_rows(rows, target, clients, sample_weight))

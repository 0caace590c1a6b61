"""`agnostic` before anybody's data was seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..regularizers import Box
from ..summaries import Known, Summary
from ..tree import Saddle
from ..validation import of_type, one_of
from .client_rows import Rows
from .floor import Floor
from .general import Problem
from .losses import CLASSIFICATION, REGRESSION, Huber, Logistic, Loss, Softmax, Squared, regression_loss
from .mixtures import Weighted, checked_prior, mixtures
from .penalties import Ball, Penalty, bias_box, class_bias_box
from .recipe import CLASSES, NUMBERS, AbstractRecipe
from .row_losses import plain_losses
from .totals import class_means, known_classes, sums_by_class, total_mass


@dataclass(frozen=True, eq=False)
class AgnosticRecipe(AbstractRecipe):
    """`agnostic` without data, in three exchanges: labels, then weights of groups, then what the bounds need.

    grouped: whether the mixture is one of groups of rows, not of clients. loss, delta, l1, l2, kl, prior, cvar and
    radius are those of `agnostic`.
    "squared" and "huber" send sums of targets with the weights of groups, then the sum of rows at the prior and the
    losses of groups at the mean target; the other losses send weights and sums of rows of each class, at the prior.
    """

    loss: Any = None
    delta: Any = 1.0
    l1: Any = 0.0
    l2: Any = 0.0
    kl: Any = 0.0
    prior: Any = None
    cvar: Any = None
    radius: Any = None
    grouped: bool = False
    exchanges: ClassVar[int] = 3
    row_groups: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.loss is not None:
            one_of("loss", self.loss, CLASSIFICATION + REGRESSION)
        of_type("grouped", self.grouped, bool, "True or False")
        self._penalty()
        if self.regression:
            self._distance()
        mixtures(self.kl, np.ones(1), self.cvar, self.prior is not None)

    @property
    def regression(self) -> bool:
        """Whether targets are numbers, not classes."""
        return self.loss in REGRESSION

    @property
    def weights(self) -> str:
        """Groups of rows may be anywhere, so all rows weigh as they come; clients weigh alike."""
        return "samples" if self.grouped else "clients"

    @property
    def answers(self) -> str:
        """Numbers for a loss of regression, else classes."""
        return NUMBERS if self.regression else CLASSES

    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """Labels, then sums of groups, then sums at the prior."""
        if not known:
            labels = {} if self.regression else {"classes": rows.labels(rows.y)}
            return self.opening(rows, client, labels={"groups": rows.labels(self._group(rows, client)), **labels})
        group, masses = self._numbers(rows, known, client), rows.masses(self.weights, client)
        count = known[0]["groups"].size
        if len(known) == 1:
            sums = {"group_targets": np.bincount(group, masses * rows.y, count)} if self.regression else {}
            # A sum of n numbers 1 / n is not always 1.
            mass = np.bincount(group, masses, count) if self.grouped else (np.arange(count) == client) * 1.0
            return Summary(sums={"group_mass": mass, **sums})
        share = (self._prior(known) / known[1]["group_mass"])[group] * masses
        if not self.regression:
            return Summary(sums=sums_by_class(rows, known_classes(known), share))
        losses = masses * plain_losses(self._distance(), self._center(known), rows.y)
        return Summary(sums={"row_sum": share @ rows.X, "group_losses": np.bincount(group, losses, count)})

    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, NDArray[Any]]:
        """Rows with targets, groups, and the weight of all rows over that of the group's."""
        group = self._numbers(rows, known, client)
        weight = rows.factors * (total_mass(known) / known[1]["group_mass"])[group]
        target, labels = rows.y, None if self.regression else known_classes(known)
        if labels is not None:
            target = rows.signs(labels) if self._binary(known) else rows.numbers(rows.y, labels)
        return {"row": rows.features, "target": target, "group": group, "weight": weight}

    def problem(self, known: Sequence[Known], data: Any) -> Problem:
        """The bounds of `agnostic`."""
        prior, penalty, budget = self._prior(known), self._penalty(), self._budget(known)
        ball = penalty.ball(budget)
        scalar = self.regression or self._binary(known)
        outputs = () if scalar else (known_classes(known).size,)
        shape = (known[2]["row_sum" if self.regression else "class_rows"].shape[-1], *outputs)
        rule: Loss = self._distance() if self.regression else Logistic() if scalar else Softmax()
        return self.built(
            Weighted(rule),
            known,
            data,
            x={"weights": penalty.regularizer(ball, shape), "bias": self._bias(known, ball, budget)},
            y=mixtures(self.kl, prior, self.cvar, self.prior is not None),
            like=Saddle({"weights": np.zeros(shape), "bias": np.zeros(outputs)}, np.zeros(prior.size)),
            floor=Floor(prior, 0.0, each=True),
            by_construction=True,
        )

    def _penalty(self) -> Penalty:
        return Penalty(self.l1, self.l2, self.radius)

    def _distance(self) -> Squared | Huber:
        return regression_loss(self.loss, self.delta)

    def _group(self, rows: Rows, client: int) -> NDArray[Any]:
        return np.full(len(rows.y), client) if rows.group is None or not self.grouped else rows.group

    def _numbers(self, rows: Rows, known: Sequence[Known], client: int) -> NDArray[np.int32]:
        return rows.numbers(self._group(rows, client), known[0]["groups"])

    def _prior(self, known: Sequence[Known]) -> NDArray[Any]:
        return checked_prior(self.prior, known[0]["groups"].size, "group" if self.grouped else "client")

    def _binary(self, known: Sequence[Known]) -> bool:
        count = known_classes(known).size
        if self.loss == "logistic" and count > 2:
            raise ValueError(f"loss must be 'multiclass' for more than two classes, and y holds {count}")
        return count == 2 and self.loss != "multiclass"

    def _center(self, known: Sequence[Known]) -> float:
        return float(self._prior(known) @ (known[1]["group_targets"] / known[1]["group_mass"]))

    def _budget(self, known: Sequence[Known]) -> float:
        if self.regression:
            return float(np.max(known[2]["group_losses"] / known[1]["group_mass"]))
        return float(np.log(known_classes(known).size))

    def _bias(self, known: Sequence[Known], ball: Ball, budget: float) -> Box:
        if self.regression:
            return bias_box(self._center(known), known[2]["row_sum"], ball, self._distance().reach(budget))
        shares = known[2]["class_mass"]
        return class_bias_box(shares, class_means(known[2]), ball, budget, self._binary(known))

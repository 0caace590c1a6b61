"""`constrained` before anybody's data was seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..regularizers import Box
from ..summaries import Known, Summary
from ..tree import Saddle
from ..validation import one_of, positive
from .client_rows import Rows
from .feasibility import Lagrangian
from .floor import Floor
from .general import Problem
from .groups import check_limits, limited_groups, multiplier_bounds
from .losses import Huber, Logistic, Squared, regression_loss
from .penalties import Ball, Penalty, bias_box, largest_product
from .recipe import CLASSES, NUMBERS, AbstractRecipe
from .row_losses import constant_losses
from .totals import known_classes, total_mass


@dataclass(frozen=True, eq=False)
class ConstrainedRecipe(AbstractRecipe):
    """`constrained` without data, in two exchanges. The group of a row is what `Rows` says.

    First labels of groups, and of classes or the range of the targets; then sums over the rows of loss_0 and of each
    limited group: their weights, their losses at a grid of constant scores, and what bounds the bias: for "logistic"
    weights and sums of rows of each class, otherwise sums of targets and rows of loss_0.

    limits, loss, delta, l1, l2, radius, multiplier: as for `fx.problems.constrained`.
    """

    limits: Any
    loss: str = "logistic"
    delta: Any = 1.0
    l1: Any = 0.0
    l2: Any = 0.0
    radius: Any = None
    multiplier: Any = None
    exchanges: ClassVar[int] = 2
    row_groups: ClassVar[bool] = True

    def __post_init__(self) -> None:
        one_of("loss", self.loss, ("logistic", "squared", "huber"))
        check_limits(self.limits)
        Penalty(self.l1, self.l2, self.radius)
        self._rule()
        if self.multiplier is not None:
            positive("multiplier", self.multiplier)

    @property
    def answers(self) -> str:
        """Classes for the logistic loss, else numbers."""
        return CLASSES if self.loss == "logistic" else NUMBERS

    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """Labels and ranges, then sums of loss_0 and each group."""
        logistic = self.loss == "logistic"
        if not known:
            counted = rows.y[rows.shares > 0]
            groups, labels = {"groups": rows.labels(_group(rows))}, {"classes": np.unique(counted)}
            if logistic:
                return self.opening(rows, client, labels=groups | labels)
            ends = np.array([np.max(side, initial=-np.inf) for side in (-counted, counted)])
            return self.opening(rows, client, labels=groups, largest={"range": ends})
        masses, target = self._members(rows, known) * rows.shares, self._target(rows, known)
        losses = constant_losses(self._rule(), self._constants(known), target, masses)
        sums = {"group_mass": masses.sum(axis=1), "grid_losses": losses}
        if not logistic:
            return Summary(sums={**sums, "target_sum": np.asarray(masses[0] @ target), "row_sum": masses[0] @ rows.X})
        within = [masses * (target == sign) for sign in (-1, 1)]
        by_class = {"class_mass": [w.sum(axis=1) for w in within], "class_rows": [w @ rows.X for w in within]}
        return Summary(sums={**sums, **{name: np.stack(parts) for name, parts in by_class.items()}})

    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, NDArray[Any]]:
        """Rows with targets, and for loss_0 and each group the weight of all rows over that of its rows."""
        shares = self._members(rows, known).T * (total_mass(known) / known[1]["group_mass"])
        return {"row": rows.features, "target": self._target(rows, known), "shares": rows.factors[:, None] * shares}

    def problem(self, known: Sequence[Known], data: Any) -> Problem:
        """The bounds of `constrained`."""
        _, tau = limited_groups(known[0]["groups"], self.limits)
        constant = known[1]["grid_losses"] / known[1]["group_mass"]
        bound = multiplier_bounds(constant, tau, self.multiplier)
        budget = float(np.min(constant[:, 0] + np.maximum(constant[:, 1:] - tau, 0) @ bound))
        penalty = Penalty(self.l1, self.l2, self.radius)
        ball = penalty.ball(budget)
        bias = (
            self._class_bias(known, budget, bound, ball) if self.loss == "logistic" else self._bias(known, budget, ball)
        )
        features = known[1]["class_rows" if self.loss == "logistic" else "row_sum"].shape[-1]
        zero = {"multipliers": np.zeros(tau.size)}
        return self.built(
            Lagrangian(self._rule(), tau, feasible=self.multiplier is None),
            known,
            data,
            x={"weights": penalty.regularizer(ball, (features,)), "bias": bias},
            y={"multipliers": Box(lower=np.zeros_like(bound), upper=bound)},
            like=Saddle({"weights": np.zeros(features), "bias": np.zeros(())}, zero),
            floor=Floor(zero, 0.0, each=True),
            by_construction=True,
        )

    def _rule(self) -> Logistic | Squared | Huber:
        return Logistic() if self.loss == "logistic" else regression_loss(self.loss, self.delta)

    def _target(self, rows: Rows, known: Sequence[Known]) -> NDArray[Any]:
        return rows.signs(known_classes(known, two=True)) if self.loss == "logistic" else rows.y

    def _members(self, rows: Rows, known: Sequence[Known]) -> NDArray[np.bool_]:
        """Which rows count in loss_0 and in each limited group's loss."""
        names = known[0]["groups"]
        limited, _ = limited_groups(names, self.limits)
        group = rows.numbers(_group(rows), names)
        free = ~np.isin(group, limited) if limited.size < names.size else np.ones(len(group), bool)
        return np.concatenate([free[None], group == limited[:, None]])

    def _constants(self, known: Sequence[Known]) -> NDArray[Any]:
        """The grid of `constrained`; for "logistic" so far that the rows of one class meet the least limit."""
        if self.loss != "logistic":
            return np.linspace(-known[0]["range"][0], known[0]["range"][1], 101)
        _, tau = limited_groups(known[0]["groups"], self.limits)
        enough = -np.log(np.expm1(min(tau.min(), 1.0)))  # log(1 + exp(-enough)) = limit
        end = max(15.0, enough + 1)
        return np.linspace(-end, end, 301)

    def _bias(self, known: Sequence[Known], budget: float, ball: Ball) -> Box:
        sums, mass = known[1], known[1]["group_mass"][0]
        reach = regression_loss(self.loss, self.delta).reach(budget)
        return bias_box(sums["target_sum"] / mass, sums["row_sum"] / mass, ball, reach)

    def _class_bias(self, known: Sequence[Known], budget: float, bound: NDArray[Any], ball: Ball) -> Box:
        _, tau = limited_groups(known[0]["groups"], self.limits)
        most, ends = np.array([budget, *(tau + budget / bound)]), []
        for within, rows in zip(known[1]["class_mass"], known[1]["class_rows"], strict=True):
            has = within > 0
            share = (within / known[1]["group_mass"])[has]
            ends.append(float(np.min(most[has] / share + largest_product(ball, rows[has] / within[has, None]))))
        return Box(lower=-ends[1], upper=ends[0])


def _group(rows: Rows) -> NDArray[Any]:
    if rows.group is None:
        raise ValueError("rows must have groups, whose losses have limits; got rows without")
    return rows.group

"""`sparse_glm` before anybody's data was seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..regularizers import Box
from ..summaries import Known, Summary
from ..tree import Saddle
from ..validation import of_type, one_of, real_array, short
from .client_rows import Rows, checked_weights
from .floor import Floor
from .general import Problem
from .losses import Logistic, Loss, Softmax, Squared
from .of_score import OfScore
from .penalties import Ball, Penalty, bias_box, class_bias_box, class_shares
from .recipe import CLASSES, NUMBERS, AbstractRecipe
from .totals import class_means, known_classes, mean_of, sums_by_class, sums_of_means, total_mass

FAMILIES = ("squared", "logistic")


@dataclass(frozen=True, eq=False)
class SparseGlmRecipe(AbstractRecipe):
    """`sparse_glm` without data, in two exchanges.

    family, l1, l2, group, groups, radius, intercept, weights, center: as for `fx.problems.sparse_glm`.
    "squared": the sums of targets and rows, then of squared deviations from the mean target. "logistic": the labels,
    then for each class the weight of its rows and their sum.
    """

    family: Any
    l1: Any = 0.0
    l2: Any = 0.0
    group: Any = 0.0
    groups: Any = None
    radius: Any = None
    intercept: bool = True
    weights: Any = "samples"
    center: Any = None
    exchanges: ClassVar[int] = 2

    def __post_init__(self) -> None:
        one_of("family", self.family, FAMILIES)
        of_type("intercept", self.intercept, bool, "True or False")
        checked_weights(self.weights)
        self._penalty()

    @property
    def answers(self) -> str:
        """Numbers for squares, else classes."""
        return NUMBERS if self.family == "squared" else CLASSES

    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """Sums around 0, or labels; then squares around the mean, or sums of each class."""
        masses = rows.masses(self.weights, client)
        if self.family == "squared":
            if not known:
                return self.opening(rows, client, sums=sums_of_means(rows, masses))
            return Summary(sums={"squares": np.asarray(masses @ (rows.y - self._center(known)) ** 2)})
        if not known:
            return self.opening(rows, client, labels={"classes": rows.labels(rows.y)})
        return Summary(sums=sums_by_class(rows, known_classes(known), masses))

    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, NDArray[Any]]:
        """Rows with their targets; of classes signs, or numbers if there are more than two."""
        return rows.weighed(row=rows.features, target=self._target(rows, known))

    def problem(self, known: Sequence[Known], data: Any) -> Problem:
        """The bounds of `sparse_glm`."""
        squared, penalty = self.family == "squared", self._penalty()
        outputs, budget = self._constant(known)
        features = known[0]["row_sum"].size if squared else known[1]["class_rows"].shape[1]
        shape, ball = (features, *outputs), penalty.ball(budget)
        x: dict[str, Any] = {"weights": penalty.regularizer(ball, shape)}
        like: dict[str, Any] = {"weights": np.zeros(shape)}
        if self.intercept:
            like["bias"] = np.zeros(outputs)
            x["bias"] = self._bias(known, ball, budget)
        rule: Loss = Squared() if squared else Softmax() if outputs else Logistic()
        parts: dict[str, Any] = {"by_construction": True, "floor": Floor(None, 0.0, each=True)}
        return self.built(OfScore(rule, self._row(features)), known, data, x=x, like=Saddle(like), **parts)

    def bias(self, known: Sequence[Known], x: Any) -> NDArray[Any]:
        """b, less the score of the center."""
        bias, weights = super().bias(known, x), np.asarray(x["weights"])
        return bias if self.center is None else np.asarray(bias - self._row(len(weights)) @ weights)

    def _row(self, features: int) -> Any:
        """The center, checked; None if there is none."""
        if self.center is None:
            return None
        found = real_array("center", self.center, accepted := f"{features} numbers, one for each column of X")
        if found.shape != (features,):
            raise ValueError(f"center must be {accepted}, got {short(self.center)}")
        return found

    def _penalty(self) -> Penalty:
        return Penalty(self.l1, self.l2, self.radius, self.group, self.groups)

    def _center(self, known: Sequence[Known]) -> Any:
        return mean_of(known[0], "target_sum", total_mass(known)) if self.intercept else 0.0

    def _target(self, rows: Rows, known: Sequence[Known]) -> NDArray[Any]:
        if self.family == "squared":
            return rows.y
        labels = known_classes(known)
        return rows.signs(labels) if len(labels) == 2 else rows.numbers(rows.y, labels)

    def _constant(self, known: Sequence[Known]) -> tuple[tuple[int, ...], float]:
        """The shape of a score, and the loss F of the best constant one."""
        if self.family == "squared":
            return (), float(mean_of(known[1], "squares", total_mass(known)) / 2)
        q = class_shares(known[1]["class_mass"], total_mass(known))
        return (q.size,) if q.size > 2 else (), float(-q @ np.log(q)) if self.intercept else float(np.log(q.size))

    def _bias(self, known: Sequence[Known], ball: Ball, budget: float) -> Box:
        total = total_mass(known)
        if self.family == "squared":
            mean = self._centered(mean_of(known[0], "row_sum", total))
            return bias_box(self._center(known), mean, ball, Squared().reach(budget))
        shares, means = class_shares(known[1]["class_mass"], total), self._centered(class_means(known[1]))
        return class_bias_box(shares, means, ball, budget, binary=shares.size == 2)

    def _centered(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows if self.center is None else rows - self._row(rows.shape[-1])

"""`auc` before anybody's data was seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..regularizers import Box, SquaredL2
from ..regularizers.rounding import UNIT
from ..summaries import Known, Summary
from ..tree import Saddle
from ..validation import nonnegative, of_type
from ..validation.sparse import issparse
from .client_rows import Rows
from .floor import Floor
from .general import Problem
from .pairwise import CenteredSquare, PairwiseSquare, middle_bias
from .penalties import Ball, largest_product, penalized, weight_ball
from .recipe import RANKING, AbstractRecipe
from .sparse_row import is_sparse
from .totals import class_means, known_classes, mean_of, sums_by_class, total_mass


@dataclass(frozen=True, eq=False)
class AucRecipe(AbstractRecipe):
    """`auc` without data, in two exchanges: labels and the sum of the rows, then the weight of each class and its sums.

    Sums of classes are those of row - mean and |row - mean|: far from 0 the classes' means would lose digits. Of sparse
    rows, whose differences from the mean would fill the memory, the latter is that of |row| + |mean|, which is more.

    l1, l2, radius, saddle: as for `fx.problems.auc`.
    """

    l1: Any = 0.0
    l2: Any = 0.0
    radius: Any = None
    saddle: bool = True
    exchanges: ClassVar[int] = 2

    def __post_init__(self) -> None:
        of_type("saddle", self.saddle, bool, "True or False")
        self._ball()

    @property
    def answers(self) -> str:
        """Only the order of scores has a meaning."""
        return RANKING

    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """The labels, then sums of each class."""
        if not known:
            own = {"row_sum": rows.shares @ rows.X}
            return self.opening(rows, client, labels={"classes": rows.labels(rows.y)}, sums=own)
        return Summary(sums=_sums_around(rows, known_classes(known, two=True), _mean(known)))

    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, Any]:
        """Rows relative to the middle of the class means; without saddle relative to their own, and at most d.

        Sparse rows stay as they are.
        """
        number, mean = rows.numbers(rows.y, known_classes(known, two=True)), _class_means(known)
        weight = rows.factors * (total_mass(known) / known[1]["class_mass"])[number]
        row = rows.features
        if self.saddle:
            row = row if is_sparse(row) else row - _middle(known)
            return {"row": row, "sign": 2.0 * number - 1, "weight": weight}
        return (
            {"row": row, "class": number, "weight": weight} if is_sparse(row) else _squares(row - mean[number], weight)
        )

    def problem(self, known: Sequence[Known], data: Any) -> Problem:
        """The bounds of `auc`."""
        ball, (down, up) = self._ball(), class_means(known[1])
        weights = penalized(ball, nonnegative("l1", self.l1), nonnegative("l2", self.l2))
        like = {"weights": np.zeros(up.size), "a": np.zeros(()), "b": np.zeros(())}
        if not self.saddle:
            only = Saddle({"weights": like["weights"]})
            parts: dict[str, Any] = {"floor": Floor(None, 0.0, each=True), "by_construction": True}
            return self.built(
                CenteredSquare(up - down, _class_means(known)), known, data, x={"weights": weights}, like=only, **parts
            )
        bound = largest_product(ball, up - down)[0]
        return self.built(
            PairwiseSquare(_middle(known)),
            known,
            data,
            x={"weights": weights, "a": Box(lower=0, upper=1), "b": Box(lower=-1, upper=0)},
            y=SquaredL2(2.0) + Box(bound),
            like=Saddle(like, np.zeros(())),
            floor=_floor(known, ball, float(bound)),
            by_construction=True,
        )

    def bias(self, known: Sequence[Known], x: Any) -> NDArray[Any]:
        """Pairs decide no threshold: the score of the middle of the class means becomes 0."""
        return middle_bias(_class_means(known), x["weights"])

    def _ball(self) -> Ball:
        return weight_ball(float(nonnegative("l1", self.l1)), 2 * float(nonnegative("l2", self.l2)), self.radius, 0.5)


def _mean(known: Sequence[Known]) -> NDArray[Any]:
    return np.asarray(mean_of(known[0], "row_sum", total_mass(known)))


def _class_means(known: Sequence[Known]) -> NDArray[Any]:
    return _mean(known) + class_means(known[1])


def _middle(known: Sequence[Known]) -> NDArray[Any]:
    """The middle of the class means."""
    return np.asarray(_mean(known) + class_means(known[1]).sum(axis=0) / 2)


def _sums_around(rows: Rows, labels: NDArray[Any], mean: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """For each class the weight of its rows, and the weighted sums of row - mean and of its size."""
    sparse = issparse(rows.X)
    near = rows if sparse else rows._replace(X=rows.X - mean)
    sums = sums_by_class(near, labels, rows.shares)
    sizes = sums_by_class(near._replace(X=abs(near.X)), labels, rows.shares)["class_rows"]
    if not sparse:
        return {**sums, "class_sizes": sizes}
    shift = sums["class_mass"][:, None] * mean
    return {**sums, "class_rows": sums["class_rows"] - shift, "class_sizes": sizes + np.abs(shift)}


def _squares(rows: NDArray[Any], weight: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """At most d rows whose mean of <w, row>^2 is for every w that of weight <w, row>^2 over all rows: a QR factor."""
    rows *= np.sqrt(weight / len(rows))[:, None]
    factor = np.linalg.qr(rows, mode="r") if len(rows) > rows.shape[1] else rows
    return {"row": np.sqrt(len(factor)) * factor}


def _floor(known: Sequence[Known], ball: Ball, bound: float) -> Floor:
    """1 - 2 (1 + alpha) S, S >= the largest m+ - m- = sum_i factor_i <w, row_i> over the ball, as the rows are stored.

    Sums of n rows, of weights and of rows, shifts and divisions err by fewer than 16 (n + d + 64) UNIT of the classes'
    mean |row|, or of sparse rows |row| + |mean|: the loss takes the middle off. Without the term in S, for bound >= 1,
    every row obeys the floor, and so does a client's own f.
    """
    down, up = class_means(known[1])
    sizes = known[1]["class_sizes"] / known[1]["class_mass"][:, None]
    alpha, unit = -min(1.0, bound), (int(known[0]["rows"].sum()) + up.size + 64) * UNIT
    largest = np.abs(up - down) + 16 * unit * sizes.sum(axis=0)
    most = 2 * (1 + alpha) * float(largest_product(ball, largest)[0])
    return Floor(np.asarray(alpha), 1 - most - unit * (1 + most), each=alpha == -1.0)

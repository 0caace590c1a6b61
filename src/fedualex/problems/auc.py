"""Maximization of the area under the ROC curve, as a saddle point that splits over examples."""

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
from .built_from import built_from
from .client_rows import Rows, split_rows
from .floor import Floor
from .general import Problem
from .pairwise import CenteredSquare, PairwiseSquare
from .penalties import Ball, largest_product, penalized, weight_ball
from .recipe import AbstractRecipe, assemble
from .rows import class_column, matrix
from .totals import class_means, known_classes, signs, sums_by_class, total_mass


@dataclass(frozen=True, eq=False)
class AucRecipe(AbstractRecipe):
    """`auc` without data, in two exchanges: labels, then the weight of each class, the sum of its rows and of |row|."""

    l1: Any = 0.0
    l2: Any = 0.0
    radius: Any = None
    saddle: bool = True
    exchanges: ClassVar[int] = 2

    def __post_init__(self) -> None:
        of_type("saddle", self.saddle, bool, "True or False")
        self._ball()

    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """The labels, then sums of each class."""
        if not known:
            return self.opening(rows, client, labels={"classes": rows.labels(rows.y)})
        labels = known_classes(known, two=True)
        sizes = sums_by_class(rows._replace(X=np.abs(rows.X)), labels, rows.shares)["class_rows"]
        return Summary(sums={**sums_by_class(rows, labels, rows.shares), "class_sizes": sizes})

    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, NDArray[Any]]:
        """Rows relative to the middle of the class means; without saddle relative to their own, and at most d."""
        sign = signs(rows.y, known_classes(known, two=True))
        down, up = class_means(known[1])
        weight = rows.factors * np.where(sign > 0, *(total_mass(known) / known[1]["class_mass"])[::-1])
        if self.saddle:
            return {"row": rows.X - (up + down) / 2, "sign": sign, "weight": weight}
        return _squares(rows.X - np.where(sign[:, None] > 0, up, down), weight)

    def problem(self, known: Sequence[Known], data: Any) -> Problem:
        """The bounds of `auc`."""
        ball, (down, up) = self._ball(), class_means(known[1])
        weights = penalized(ball, nonnegative("l1", self.l1), nonnegative("l2", self.l2))
        like = {"weights": np.zeros(up.size), "a": np.zeros(()), "b": np.zeros(())}
        if not self.saddle:
            only = Saddle({"weights": like["weights"]})
            parts: dict[str, Any] = {"floor": Floor(None, 0.0, each=True), "by_construction": True}
            return self.built(CenteredSquare(up - down), known, data, x={"weights": weights}, like=only, **parts)
        bound = largest_product(ball, up - down)[0]
        return self.built(
            PairwiseSquare(),
            known,
            data,
            x={"weights": weights, "a": Box(lower=0, upper=1), "b": Box(lower=-1, upper=0)},
            y=SquaredL2(2.0) + Box(bound),
            like=Saddle(like, np.zeros(())),
            floor=_floor(known, ball, float(bound)),
            by_construction=True,
        )

    def _ball(self) -> Ball:
        return weight_ball(float(nonnegative("l1", self.l1)), 2 * float(nonnegative("l2", self.l2)), self.radius, 0.5)


def _squares(rows: NDArray[Any], weight: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """At most d rows whose mean of <w, row>^2 is for every w that of weight <w, row>^2 over all rows: a QR factor."""
    rows *= np.sqrt(weight / len(rows))[:, None]
    factor = np.linalg.qr(rows, mode="r") if len(rows) > rows.shape[1] else rows
    return {"row": np.sqrt(len(factor)) * factor}


def _floor(known: Sequence[Known], ball: Ball, bound: float) -> Floor:
    """1 - 2 (1 + alpha) S, S >= the largest m+ - m- = sum_i factor_i <w, row_i> over the ball, as the rows are stored.

    Sums of n rows, of weights and of rows, shifts and divisions err by fewer than 16 (n + 64) UNIT of the classes' mean
    |row|. Without the term in S, for bound >= 1, every row obeys the floor, and so does a client's own f.
    """
    down, up = class_means(known[1])
    sizes = known[1]["class_sizes"] / known[1]["class_mass"][:, None]
    alpha, unit = -min(1.0, bound), (int(known[0]["rows"].sum()) + up.size + 64) * UNIT
    largest = np.abs(up - down) + 16 * unit * sizes.sum(axis=0)
    most = 2 * (1 + alpha) * float(largest_product(ball, largest)[0])
    return Floor(np.asarray(alpha), 1 - most - unit * (1 + most), each=alpha == -1.0)


@built_from("X", "y", "clients", recipe=AucRecipe)
def auc(
    X: Any,
    y: Any,
    clients: Any,
    *,
    l1: Any = 0.0,
    l2: Any = 0.0,
    radius: Any = None,
    saddle: bool = True,
    sample_weight: Any = None,
) -> Problem:
    """min_w mean over pairs of (1 - <w, row> + <w, row'>)^2 + l1 ||w||_1 + l2/2 ||w||^2, row positive, row' negative.

    X: n rows of d features; y: n labels of two classes, the second in sorted order being the positive one;
        clients: for each row, whose it is. The pairs are all n+ n- pairs, of different clients too. A row's score is
        <w, row>. sample_weight: a number >= 0 for each row, all alike without it; a pair weighs the product.
    No client can see a pair, but with E+ and E- the means over the rows of a class, m+ and m- the mean scores, the
    mean over pairs is E+ (<w, row> - m+)^2 + E- (<w, row> - m-)^2 + (1 - m+ + m-)^2, which is

        min_{a, b} max_alpha  E+ (<w, row> - a)^2 + E- (<w, row> - b)^2 - 2 (1 + alpha) (m+ - m-) + 1 - alpha^2,

    a mean over rows once the classes' shares of the rows are known: one federated mean. x = {"weights": w, "a": a,
    "b": b}, y = alpha; -alpha^2 is in psi_2. Shifting all rows changes no pair, so rows are taken relative to the
    middle of the two class means mu+ and mu-, which are federated means as well: m+ = -m-.

    Certificates need bounded domains. At a solution w, scaling it by t < 1 does not help: with d = m- - m+ and V the
    two variances, the slope in t at 1 is 2 V + 2 d (1 + d) + l1 ||w||_1 + l2 ||w||^2 <= 0, hence

        -1 <= d <= 0,  a = m+ = -d/2 is in [0, 1/2],  b = m- = d/2 is in [-1/2, 0],  l1 ||w||_1 + l2 ||w||^2 <= 1/2.

    a and b are kept in [0, 1] and [-1, 0]: near a solution d may be below -1. w is kept in L1Ball(1 / (2 l1)) or
    L2Ball((2 l2)^(-1/2)), the one of smaller radius, or in L2Ball(radius) if radius= is given. alpha's best response
    is d: Box(c), c the largest |<w, mu+ - mu->| for w in its ball, has it for every w, so the certificate bounds how
    far the objective over pairs of w is from its minimum.
    At alpha = -min(1, c) the floor of f, which is without -alpha^2, is 1 - 2 (1 + alpha) c, less what rounding may add:
    the squares are >= 0, and m+ - m- = <w, mu+ - mu-> <= c for every w of the ball.

    saddle=False is the same objective without a, b and alpha, for clients that know mu+ and mu- themselves: the plain
    minimization of E+ <w, row - mu+>^2 + E- <w, row - mu->^2 + (1 - <w, mu+ - mu->)^2, in the same ball, floor 0.
    A client with more than d rows keeps d that have the same sum of squares for every w, of a QR decomposition.
    Ying, Wen, Lyu, Stochastic Online AUC Maximization, NeurIPS 2016.
    """
    recipe = AucRecipe(l1, l2, radius, saddle)
    X = matrix(X)
    return assemble(recipe, split_rows(X, class_column(y, len(X)), clients, sample_weight))

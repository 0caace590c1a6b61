"""Maximization of the area under the ROC curve, as a saddle point that splits over examples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from ..accepted import Column, Matrix, Number, Numbers
from ..arrays import Array, Reals, Values
from ..certificates.rounding import Majorized
from ..regularizers import Box, SquaredL2
from ..regularizers.fenchel import UNIT
from ..summaries import Known, Summary
from ..tree import Saddle, Tree, cast_like
from ..validation import issparse, nonnegative, of_type
from .families import Family, Squared
from .general import Problem
from .known import (
    Ball,
    Floor,
    Smooth,
    class_means,
    known_classes,
    largest_product,
    mean_of,
    norm_of_blocks,
    penalty_in,
    sums_by_class,
    total_mass,
    weight_ball,
)
from .readings import RankReading, Reading
from .recipe import AbstractRecipe, assemble, built_from
from .rows import Data, Rows, SparseRow, class_column, features, is_sparse, scores_at, split_rows
from .scores import ScoreSum, row_weight, score_rows

# The losses of one example by which the area under the ROC curve is maximized.


def middle_bias(means: Array, weights: object) -> Reals:
    """What is added to <w, row> so that the middle of the class means mu- and mu+ has the score 0."""
    return -np.asarray(np.mean(np.asarray(means), axis=0) @ np.asarray(weights))


class PairwiseSquare(Majorized, Smooth):
    """((<w, row> - c)^2 - 2 (1 + alpha) sign <w, row>) / (the class's share) + 1, c = a for sign +1 and b for -1.

    Rows are relative to the middle of the class means. A sparse row is not, for then it would be full: the score of the
    middle is taken off its own.
    """

    middle: Array
    affine: ClassVar[bool] = True

    def __call__(self, x: Tree, alpha: Array, example: Tree) -> Array:
        row, w = example["row"], x["weights"]
        score = row @ w - cast_like(self.middle, w) @ w if is_sparse(row) else row @ w
        center = jnp.where(example["sign"] > 0, x["a"], x["b"])
        return example["weight"] * ((score - center) ** 2 - 2 * (1 + alpha) * example["sign"] * score) + 1

    def majorant(self, x: Tree, alpha: Array, example: Tree) -> Array:
        """The same with a plus everywhere."""
        row, w = abs(example["row"]), x["weights"]
        score = row @ w + jnp.abs(cast_like(self.middle, w)) @ w if is_sparse(row) else row @ w
        center = jnp.where(example["sign"] > 0, x["a"], x["b"])
        return example["weight"] * ((score + center) ** 2 + 2 * (1 + alpha) * score) + 1

    def jacobian_bound(self, examples: Tree, problem: object) -> float:
        """Of the blocks xx, 2 * the largest eigenvalue of mean_i weight_i r_i r_i^T, r = (row, -1 for its class), and
        xy, 2 ||mean_i weight_i sign_i row_i||.
        """
        sign, row = examples["sign"], examples["row"]
        weight = examples["weight"] / len(sign)
        center = np.asarray(self.middle) if is_sparse(row) else None
        rows = score_rows(row, len(self.middle), np.stack([sign > 0, sign < 0], axis=1), center)
        signed = (weight * sign) @ rows.rows - (0 if center is None else (weight @ sign) * center)
        return norm_of_blocks(2 * rows.largest_square(weight), 2 * float(np.linalg.norm(signed)))


class CenteredSquare(Majorized, Smooth):
    """<w, row>^2 + (1 - <w, mu+ - mu->)^2, for rows relative to the mean of their class and weighed by it.

    A sparse row is neither: it counts as weight (<w, row> - <w, mean>)^2, with the mean of its class.
    """

    difference: Array
    """mu+ - mu-."""
    means: Array
    """mu- and mu+."""
    affine: ClassVar[bool] = True
    family: ClassVar[Family] = Squared()

    def __call__(self, x: Tree, example: Tree) -> Array:
        w = x["weights"]
        score = example["row"] @ w
        if is_sparse(example["row"]):
            score = score - (cast_like(self.means, w) @ w)[example["class"]]
        return row_weight(example) * score**2 + (1 - cast_like(self.difference, w) @ w) ** 2

    def majorant(self, x: Tree, example: Tree) -> Array:
        """The same with a plus and absolute values everywhere."""
        w = x["weights"]
        score = abs(example["row"]) @ w
        if is_sparse(example["row"]):
            score = score + (jnp.abs(cast_like(self.means, w)) @ w)[example["class"]]
        difference = jnp.abs(cast_like(self.difference, w))
        return row_weight(example) * score**2 + (1 + difference @ w) ** 2

    def jacobian_bound(self, examples: Tree, problem: object) -> float:
        """2 (the largest eigenvalue of mean_i weight_i r_i r_i^T + ||mu+ - mu-||^2), of sparse rows one for a class."""
        row, difference = examples["row"], float(np.sum(np.square(self.difference)))
        count = len(row.index if is_sparse(row) else row)
        weight = np.broadcast_to(row_weight(examples), count) / count
        rows = score_rows(row, len(self.difference), np.zeros((count, 0)))
        if not is_sparse(row):
            return 2 * (rows.largest_square(weight) + difference)
        parts = [
            rows._replace(center=mean).largest_square(weight * (examples["class"] == c))
            for c, mean in enumerate(self.means)
        ]
        return 2 * (sum(parts) + difference)

    def score_sum(self, examples: Tree, like: object) -> ScoreSum | None:
        """Squares of scores with the target 0, and one more row with the target 1; None for sparse rows."""
        if is_sparse(examples["row"]):
            return None
        rows = np.asarray(examples["row"], float)
        weight = np.broadcast_to(np.asarray(row_weight(examples), float), len(rows)) / len(rows)
        whole = np.concatenate([rows, np.asarray(self.difference, float)[None]])
        target = np.append(np.zeros(len(rows)), 1.0)
        return ScoreSum(
            score_rows(whole, whole.shape[1], np.zeros((len(whole), 0))),
            self.family,
            target,
            2 * np.append(weight, 1.0),
        )


# `auc` before anybody's data was seen.


@dataclass(frozen=True, eq=False)
class AucRecipe(AbstractRecipe):
    """`auc` without data, in two exchanges: labels and the sum of the rows, then the weight of each class and its sums.

    Sums of classes are those of row - mean and |row - mean|: far from 0 the classes' means would lose digits. Of sparse
    rows, whose differences from the mean would fill the memory, the latter is that of |row| + |mean|, which is more.

    l1, l2, radius, saddle: as for `fx.problems.auc`.
    """

    l1: Number = 0.0
    l2: Number = 0.0
    radius: Number | None = None
    saddle: bool = True
    exchanges: ClassVar[int] = 2
    bias_is_known: ClassVar[bool] = True

    def __post_init__(self) -> None:
        of_type("saddle", self.saddle, bool, "True or False")
        self._ball()

    @property
    def reading(self) -> Reading:
        """Only the order of scores has a meaning."""
        return RankReading()

    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """The labels, then sums of each class."""
        if not known:
            own = {"row_sum": rows.shares @ rows.X}
            return self.opening(rows, client, labels={"classes": rows.labels(rows.y)}, sums=own)
        return Summary(sums=_sums_around(rows, known_classes(known, two=True), _mean(known)))

    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, object]:
        """Rows relative to the middle of the class means; without saddle relative to their own, and at most d.

        Sparse rows stay as they are.
        """
        number, mean = rows.numbers(rows.y, known_classes(known, two=True)), _class_means(known)
        weight = rows.factors * (total_mass(known) / known[1]["class_mass"])[number]
        row = rows.features
        if self.saddle:
            row = row if isinstance(row, SparseRow) else row - _middle(known)
            return {"row": row, "sign": 2.0 * number - 1, "weight": weight}
        if isinstance(row, SparseRow):
            return {"row": row, "class": number, "weight": weight}
        return dict(_squares(row - mean[number], weight))

    def problem(self, known: Sequence[Known], data: Data) -> Problem:
        """The bounds of `auc`."""
        ball, (down, up) = self._ball(), class_means(known[1])
        weights = penalty_in(ball, nonnegative("l1", self.l1), nonnegative("l2", self.l2))
        like = {"weights": np.zeros(up.size), "a": np.zeros(()), "b": np.zeros(())}
        if not self.saddle:
            only = Saddle({"weights": like["weights"]})
            return self.built(
                CenteredSquare(up - down, _class_means(known)),
                known,
                data,
                x={"weights": weights},
                like=only,
                floor=Floor(None, 0.0, each=True),
                by_construction=True,
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

    def bias(self, known: Sequence[Known], x: Tree) -> Reals:
        """Pairs decide no threshold: the score of the middle of the class means becomes 0."""
        return middle_bias(_class_means(known), x["weights"])

    def held_out(self, rows: Rows, known: Sequence[Known], client: int, points: Sequence[Tree]) -> Reals:
        """The weight of all pairs of these rows, and that of the pairs in the wrong order; pairs with one score count
        half.
        """
        up = rows.numbers(rows.y, known_classes(known, two=True)) == 1
        down, shares = ~up, rows.shares
        each = scores_at(rows.X, points)
        return np.array([wrong_pairs(scores[down], shares[down], scores[up], shares[up]) for scores in each])

    def _ball(self) -> Ball:
        return weight_ball(float(nonnegative("l1", self.l1)), 2 * float(nonnegative("l2", self.l2)), self.radius, 0.5)


def wrong_pairs(down: Reals, down_weights: Reals, up: Reals, up_weights: Reals) -> tuple[list[float], list[float]]:
    """The weight of all pairs, and that of those in which `down` has the higher score, half of it where they tie."""
    order = np.argsort(down)
    total = np.concatenate([np.zeros(1), np.cumsum(down_weights[order])])
    above, from_on = (total[-1] - total[np.searchsorted(down[order], up, side)] for side in ("right", "left"))
    return [float(total[-1] * up_weights.sum())], [float(up_weights @ (above + from_on) / 2)]


def _mean(known: Sequence[Known]) -> Reals:
    return np.asarray(mean_of(known[0], "row_sum", total_mass(known)))


def _class_means(known: Sequence[Known]) -> Reals:
    return _mean(known) + class_means(known[1])


def _middle(known: Sequence[Known]) -> Reals:
    """The middle of the class means."""
    return np.asarray(_mean(known) + class_means(known[1]).sum(axis=0) / 2)


def _sums_around(rows: Rows, labels: Values, mean: Reals) -> dict[str, Reals]:
    """For each class the weight of its rows, and the weighted sums of row - mean and of its size."""
    sparse = issparse(rows.X)
    near = rows if sparse else rows._replace(X=rows.X - mean)
    sums = sums_by_class(near, labels, rows.shares)
    sizes = sums_by_class(near._replace(X=abs(near.X)), labels, rows.shares)["class_rows"]
    if not sparse:
        return {**sums, "class_sizes": sizes}
    shift = sums["class_mass"][:, None] * mean
    return {**sums, "class_rows": sums["class_rows"] - shift, "class_sizes": sizes + np.abs(shift)}


def _squares(rows: Reals, weight: Reals) -> dict[str, Reals]:
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


@built_from("X", "y", "clients", recipe=AucRecipe)
def auc(
    X: Matrix,
    y: Column,
    clients: Column,
    *,
    l1: Number = 0.0,
    l2: Number = 0.0,
    radius: Number | None = None,
    saddle: bool = True,
    sample_weight: Numbers | None = None,
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
    Sparse rows are not shifted, which would fill them: the loss takes the scores of the middle, or of mu+ and mu-, off.
    Ying, Wen, Lyu, Stochastic Online AUC Maximization, NeurIPS 2016.
    """
    recipe = AucRecipe(l1, l2, radius, saddle)
    rows = features(X)
    return assemble(recipe, split_rows(rows, class_column(y, rows.shape[0]), clients, sample_weight))

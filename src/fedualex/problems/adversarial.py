"""Logistic regression against one sparse perturbation of all examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..accepted import Column, Matrix, Number, Numbers
from ..arrays import Array, Reals
from ..regularizers import L1, Box
from ..summaries import Known, Summary
from ..tree import Saddle, Tree
from ..validation import nonnegative, of_type, positive, real_array
from .active import domain_of
from .base import AbstractProblem
from .families import Logistic
from .general import Problem
from .known import (
    Penalty,
    Smooth,
    class_bias_box,
    class_means,
    class_shares,
    known_classes,
    norm_of_blocks,
    sums_by_class,
    total_mass,
)
from .readings import ClassReading, Reading
from .recipe import AbstractRecipe, assemble, built_from
from .rows import Data, Rows, checked_weights, class_column, features, labels_of_model, split_rows
from .scores import linear_rows, linear_score, row_weight

NOT_CONCAVE = "the loss is convex, not concave, in the perturbation, so no certificate of a saddle point exists"


@dataclass(frozen=True, eq=False)
class AdversarialRecipe(AbstractRecipe):
    """`universal_adversarial` without data, in two exchanges: labels, then the weight and the sum of each class.

    radius, lam, l1, l2, weights: as for `fx.problems.universal_adversarial`.
    """

    radius: Number
    lam: Number
    l1: Number = 0.0
    l2: Number = 1e-3
    weights: Numbers | str = "samples"
    exchanges: ClassVar[int] = 2

    def __post_init__(self) -> None:
        positive("radius", self.radius)
        nonnegative("lam", self.lam)
        if nonnegative("l1", self.l1) == nonnegative("l2", self.l2) == 0:
            raise ValueError("l1 or l2 must be > 0: nothing else bounds the weights of the model")
        checked_weights(self.weights)

    @property
    def reading(self) -> Reading:
        return ClassReading()

    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """The labels, then sums of each class."""
        if not known:
            return self.opening(rows, client, labels={"classes": rows.labels(rows.y)})
        return Summary(sums=sums_by_class(rows, known_classes(known, two=True), rows.masses(self.weights, client)))

    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, object]:
        """Rows with the signs of their classes."""
        return rows.weighed(row=rows.features, target=rows.signs(known_classes(known, two=True)))

    def problem(self, known: Sequence[Known], data: Data) -> Problem:
        """The bounds of `universal_adversarial`."""
        means, budget = class_means(known[1]), float(np.log(2))
        penalty = Penalty(self.l1, self.l2, None)
        ball, lam, radius = penalty.ball(budget), nonnegative("lam", self.lam), positive("radius", self.radius)
        shares = class_shares(known[1]["class_mass"], total_mass(known))
        bias = class_bias_box(shares, means, ball, budget, binary=True)
        features = means.shape[1]
        return self.built(
            AttackedLogistic(),
            known,
            data,
            x={"weights": penalty.regularizer(ball, (features,)), "bias": bias},
            y=L1(lam) + Box(radius) if lam > 0 else Box(radius),
            like=Saddle({"weights": np.zeros(features), "bias": np.zeros(())}, np.zeros(features)),
            uncertified=NOT_CONCAVE,
        )


@built_from("X", "y", "clients", recipe=AdversarialRecipe)
def universal_adversarial(
    X: Matrix,
    y: Column,
    radius: Number,
    lam: Number,
    *,
    clients: Column | None = None,
    l1: Number = 0.0,
    l2: Number = 1e-3,
    weights: Numbers | str = "samples",
    sample_weight: Numbers | None = None,
) -> Problem:
    """min_{w, b} max_delta sum_i p_i log(1 + exp(-s_i (<w, X_i + delta> + b))) + psi(w) - lam ||delta||_1.

    One perturbation delta, the attack, is added to every row; s_i = -1 for the first of two labels in sorted order and
    +1 for the second; psi(w) = l1 ||w||_1 + l2/2 ||w||^2. x = {"weights": w, "bias": b}, y = delta, entry by entry
    within the radius. The penalty of the attack has a minus sign: with the printed plus it would reward a dense attack.

    The loss is convex in delta, so this is outside the theory: a run ends with the status UNCERTIFIED and claims
    nothing. w and b are bounded as in `sparse_glm`, whose argument holds at delta = 0. X, y, clients, weights
    and sample_weight are as there.
    """
    recipe = AdversarialRecipe(radius, lam, l1, l2, weights)
    rows = features(X)
    return assemble(recipe, split_rows(rows, class_column(y, rows.shape[0]), clients, sample_weight))


class AttackedLogistic(Smooth):
    """The logistic loss of one example, moved by delta, times the weight of the row."""

    def __call__(self, x: Tree, delta: Array, example: Tree) -> Array:
        score = linear_score(x, example["row"]) + delta @ x["weights"]
        return row_weight(example) * Logistic().loss(score, example["target"])

    def jacobian_bound(self, examples: Tree, problem: AbstractProblem) -> float:
        """Of the blocks, with W = max ||w||, D = max ||delta||, s the largest singular value of the weighted (row, 1),
        and p the sum of their weights: xx (s + D sqrt p)^2 / 4, yy p W^2 / 4, xy (s + D sqrt p) W sqrt p / 4 + p.
        """
        weight = np.broadcast_to(row_weight(examples), len(examples["target"])) / len(examples["target"])
        rows, sets = linear_rows(examples["row"], problem.like.x, len(weight)), problem.geometry.parts
        root, ball, box = np.sqrt(weight.sum()), *map(_set_of, (sets.x["weights"], sets.y))
        far, size = float(ball.radius) * root, float(box.upper) * np.sqrt(problem.like.y.size)
        moved = np.sqrt(rows.largest_square(weight)) + size * root
        return norm_of_blocks(moved**2 / 4, moved * far / 4 + root**2, far**2 / 4)


def _set_of(part: Any) -> Any:
    return domain_of(part.regularizer)


# How a model does on rows as they are, and under an attack.


@dataclass(frozen=True)
class AttackReport:
    """Accuracy without and with the attack, and the share of the attack's entries that are not zero.

    clean, attacked: shares of right answers without and with the attack. density: the share of its entries.
    """

    clean: float
    attacked: float
    density: float


def attack_report(X: Matrix, y: Column, z: Saddle, *, labels: Column | None = None, zero: float = 1e-5) -> AttackReport:
    """How a model z.x does on rows X with labels y, as they are and with the attack z.y added to each.

    labels: the two labels of the training data, needed where y has only one of them.
    zero: entries of the attack up to this size count as zero.
    """
    rows = features(X)
    label = labels_of_model(y, rows.shape[0], labels, 2)
    weights, bias, delta = _model(z, rows.shape[1])
    zero = float(nonnegative("zero", zero))

    def accuracy(scores: Reals) -> float:
        return float(np.mean((scores > 0) == (label == 1)))

    scores = rows @ weights + bias
    return AttackReport(accuracy(scores), accuracy(scores + delta @ weights), float(np.mean(np.abs(delta) > zero)))


def _model(z: Saddle, features: int) -> tuple[Reals, Reals, Reals]:
    """Weights, bias and attack of an answer."""
    accepted = f"the answer of `universal_adversarial` for {features} features"
    of_type("z", z, Saddle, accepted)
    of_type("z.x", z.x, Mapping, f"weights and bias, as in {accepted}")
    given = {"weights": z.x.get("weights"), "bias": z.x.get("bias"), "attack": z.y}
    weights, bias, delta = (real_array(f"z: {name}", array) for name, array in given.items())
    if weights.shape != (features,) or delta.shape != (features,) or bias.shape != ():
        raise ValueError(f"z must be {accepted}, got arrays of shapes {weights.shape}, {bias.shape}, {delta.shape}")
    return weights, bias, delta

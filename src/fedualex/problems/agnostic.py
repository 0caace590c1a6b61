"""Agnostic federated learning: one model for the worst mixture of clients or groups, or for the worst share of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..accepted import Column, Matrix, Number, Numbers
from ..certificates.rounding import Majorized
from ..geometry import EntropicSimplex
from ..regularizers import KL, Box, CappedSimplex
from ..summaries import Known, Summary
from ..tree import Saddle, Tree
from ..validation import nonnegative, of_type, one_of, positive, real_array, short
from .families import CLASSIFICATION, REGRESSION, Family, Huber, Logistic, Softmax, Squared, regression_loss
from .general import Problem
from .known import Floor, Smooth, norm_of_blocks
from .recipe import (
    CLASSES,
    NUMBERS,
    AbstractRecipe,
    Ball,
    Penalty,
    assemble,
    bias_box,
    built_from,
    class_bias_box,
    class_means,
    known_classes,
    sums_by_class,
    total_mass,
)
from .rows import Rows, class_column, features, label_column, split_rows, targets
from .scores import linear_score, scored

# Mixtures of clients or groups: a prior, the simplex of mixtures with its regularizer, and the loss of a mixture.


def mixtures(kl: Number, mixture: NDArray[Any], cvar: Number | None, prior: bool) -> EntropicSimplex:
    """The simplex of mixtures, held to one mixture by kl or capped by cvar; prior: whether the mixture was given."""
    kl = nonnegative("kl", kl)
    if cvar is None:
        if prior and kl == 0:
            raise ValueError(
                "prior needs kl > 0, the strength that holds the mixture to it: without kl it has no effect"
            )
        return EntropicSimplex(KL(kl, mixture) if kl > 0 else None)
    share = positive("cvar", cvar)
    if share > 1:
        raise ValueError(f"cvar must be a share of the clients, above 0 and at most 1, got {float(share)!r}")
    if kl > 0 or prior:
        raise ValueError("cvar cannot be given together with kl or prior: that mixture has no closed form")
    return EntropicSimplex(CappedSimplex(min(1.0, 1 / (float(share) * mixture.size))))


def checked_prior(prior: object, count: int, part: str) -> NDArray[Any]:
    """The prior divided by its sum; all alike without one. part: "client" or "group", of which a mixture is made."""
    p = np.ones(count) if prior is None else real_array("prior", prior, f"{count} numbers > 0")
    if p.shape != (count,) or np.any(p <= 0):
        raise ValueError(f"prior must be {count} numbers > 0, one for each {part}, got {short(prior)}")
    return p / p.sum()


class Weighted(Majorized, Smooth):
    """weight y_g loss(<w, row> + b, label) of an example of group g; where clients are the groups, weight is M."""

    family: Family

    def __call__(self, x: Tree, y: Array, example: Tree) -> Array:
        factor = example["weight"] * y[example["group"]]
        return factor * self.family.loss(linear_score(x, example["row"]), example["target"])

    def majorant(self, x: Tree, y: Array, example: Tree) -> Array:
        """The same of the size of the loss."""
        reach = linear_score(x, abs(example["row"]))
        return example["weight"] * y[example["group"]] * self.family.size(reach, example["target"])

    def jacobian_bound(self, examples: Tree, problem: Any) -> float:
        """Of the blocks xx and xy, y on the simplex with the norm l1, the largest of a group each.

        xx: that of sum_i weight_i phi_i'' r_i r_i^T / n over its rows, r = (row, 1), with bounds of phi_i''.
        xy: sum_i weight_i slope_i ||r_i|| / n over its rows, slope_i the largest of the loss in the domain.
        """
        group, weight = examples["group"], examples["weight"] / len(examples["group"])
        rows = scored(examples, problem)
        own = [group == g for g in np.unique(group)]
        curved = max(rows.of(members).largest_second(self.family, weight[members]) for members in own)
        crossed = np.bincount(group, weight * rows.steepest(self.family) * rows.rows.norms()).max()
        return norm_of_blocks(curved, float(crossed))


# `agnostic` before anybody's data was seen.


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
        losses = masses * self._distance().loss(self._center(known), rows.y)
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
        rule: Family = self._distance() if self.regression else Logistic() if scalar else Softmax()
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


@built_from("X", "y", "clients", recipe=AgnosticRecipe)
def agnostic(
    X: Matrix,
    y: Column,
    clients: Column,
    *,
    loss: str | None = None,
    delta: Number = 1.0,
    l1: Number = 0.0,
    l2: Number = 0.0,
    kl: Number = 0.0,
    prior: Numbers | None = None,
    cvar: Number | None = None,
    radius: Number | None = None,
    groups: Column | None = None,
    sample_weight: Numbers | None = None,
) -> Problem:
    """min_x max_y sum_m y_m loss_m(x) + l1 ||w||_1 + l2/2 ||w||^2 - kl KL(y || prior), y on the simplex of clients.

    X: n rows of d features; y: n labels; clients: for each row, whose it is. Entry m of the mixture, and of prior,
        is the m-th of the sorted client ids; without prior= all are alike, and its entries are divided by their sum.
        prior needs kl > 0. sample_weight: a number >= 0 for each row, in proportion to which rows count in every mean.
    groups: for each row, its group: the mixture is then one of groups, and loss_m is a mean over the rows of group m,
        whoever holds them, so that clients that share groups need not know it. Without it each client is a group.
    loss: x = {"weights": w, "bias": b}, and loss_m is a mean over client m's rows. "logistic", for two classes:
        log(1 + exp(-s (<w, row> + b))), s = -1 for the first label in sorted order and +1 for the second; w has shape
        (d,), b has (). "multiclass": the softmax loss, w of shape (d, classes), b (classes,). Without loss= it is
        logistic for two classes, multiclass for more. "squared": u^2 / 2, u = <w, row> + b - y; "huber": u^2 / 2 for
        |u| <= delta, delta |u| - delta^2 / 2 beyond.
    cvar: with M groups, y <= 1 / (cvar M), so that the maximum over y is the mean loss of the worst share `cvar` of
        groups; 1 is the mean, cvar <= 1/M the worst group. Not together with kl or prior.

    Certificates need bounded domains. Let phi(x) be the maximum over y, and B = log(classes) = phi(0) for the first
    two losses. They are >= 0, so a solution has l1 ||w||_1 <= B and l2/2 ||w||^2 <= B: w is kept in the L1Ball or the
    L2Ball that says so, the one of smaller radius, or in L2Ball(radius) if radius= is given. For the bias, weigh each
    row of group m by prior_m / (rows of m): at y = prior the mean loss of a solution is at most B, which bounds b as
    in `class_bias_box`. For "squared" and "huber" let t and mu be the weighted means of labels and rows, and
    B = max_m loss_m >= phi at w = 0, b = t. Jensen's inequality at y = prior puts |b + <w, mu> - t| within the reach of
    B, sqrt(2 B) (for "huber" B / delta + delta / 2 if that is more than delta), so |b - t| <= (the largest |<w, mu>|
    for w in its ball) + reach. Unless B = 0, no derived bound is active at a solution; a given radius may be.
    Losses are >= 0, so f(x, y) >= 0 at any mixture: the floor is 0 at the prior, which no cap excludes.
    Mohri, Sivek, Suresh, Agnostic Federated Learning, ICML 2019.
    """
    recipe = AgnosticRecipe(loss, delta, l1, l2, kl, prior, cvar, radius, groups is not None)
    rows = features(X)
    target = targets(y, rows.shape[0]) if recipe.regression else class_column(y, rows.shape[0])
    group = None if groups is None else label_column("groups", groups, rows.shape[0])
    return assemble(recipe, split_rows(rows, target, clients, sample_weight, group))

"""Agnostic federated learning: one model for the worst mixture of clients or groups, or for the worst share of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..accepted import Column, Matrix, Number, Numbers
from ..arrays import Array, Reals, Values
from ..certificates.rounding import Majorized
from ..geometry import EntropicSimplex
from ..regularizers import KL, CappedSimplex
from ..summaries import Known, Summary
from ..tree import Saddle, Tree, cast_like
from ..validation import nonnegative, of_type, positive, real_array, short
from .base import AbstractProblem
from .families import Family, family_of
from .general import Problem
from .known import Floor, Penalty, Smooth, known_classes, norm_of_blocks, total_mass
from .readings import Reading
from .recipe import AbstractRecipe, Measure, assemble, built_from
from .rows import Data, Rows, features, label_column, split_rows
from .scores import ScoreSum, linear_rows, linear_score, score_examples

# Mixtures of clients or groups: a prior, the simplex of mixtures with its regularizer, and the loss of a mixture.


def mixtures(kl: Number, mixture: Reals, cvar: Number | None, prior: bool, spread: float = 0.0) -> EntropicSimplex:
    """The simplex of mixtures, held to one mixture by kl or capped by cvar; prior: whether the mixture was given."""
    kl = nonnegative("kl", kl)
    if cvar is None:
        if prior and kl == 0 and spread == 0:
            raise ValueError(
                "prior needs kl > 0, the strength that holds the mixture to it, or spread > 0: without them it has no "
                "effect"
            )
        return EntropicSimplex(KL(kl, mixture) if kl > 0 else None)
    share = positive("cvar", cvar)
    if share > 1:
        raise ValueError(f"cvar must be a share of the clients, above 0 and at most 1, got {float(share)!r}")
    if kl > 0 or (prior and spread == 0):
        raise ValueError(
            "cvar cannot be given together with kl, or with prior without spread: that mixture has no closed form"
        )
    return EntropicSimplex(CappedSimplex(min(1.0, 1 / (float(share) * mixture.size))))


def checked_prior(prior: object, count: int, part: str) -> Reals:
    """The prior divided by its sum; all alike without one. part: "client" or "group", of which a mixture is made."""
    p = np.ones(count) if prior is None else real_array("prior", prior, f"{count} numbers > 0")
    if p.shape != (count,) or np.any(p <= 0):
        raise ValueError(f"prior must be {count} numbers > 0, one for each {part}, got {short(prior)}")
    return p / p.sum()


def reference(prior: Reals, cvar: Number | None, spread: float) -> tuple[Reals, Reals]:
    """A y that the adversary may always choose, where bounds are proved, and what groups count with there."""
    y = prior if cvar is None else np.full(prior.size, 1 / prior.size)
    return y, (1 - spread) * y + spread * prior


def checked_spread(spread: object) -> float:
    """A number from 0 to below 1."""
    share = float(nonnegative("spread", spread))
    if share >= 1:
        raise ValueError(f"spread must be a number >= 0 and below 1, got {share!r}")
    return share


class Weighted(Majorized, Smooth):
    """weight q_g loss(<w, row> + b, label) of an example of group g; where clients are the groups, weight is M.

    q = (1 - spread) y + spread prior, what the losses of groups count with; y itself without a spread.
    """

    family: Family
    spread: Number | None = None
    """None for 0."""
    prior: Numbers | None = None

    def shares(self, y: Array) -> Array:
        """q of one mixture, or of several one below the other."""
        if self.spread is None:
            return jnp.asarray(y)
        return (1 - cast_like(self.spread, y)) * y + cast_like(self.spread, y) * cast_like(self.prior, y)

    def __call__(self, x: Tree, y: Array, example: Tree) -> Array:
        factor = example["weight"] * self.shares(y)[example["group"]]
        return factor * self.family.loss(linear_score(x, example["row"]), example["target"])

    def majorant(self, x: Tree, y: Array, example: Tree) -> Array:
        """The same of the size of the loss."""
        reach = linear_score(x, abs(example["row"]))
        return example["weight"] * self.shares(y)[example["group"]] * self.family.size(reach, example["target"])

    def jacobian_bound(self, examples: Tree, problem: AbstractProblem) -> float:
        """Of the blocks xx and xy, y on the simplex with the norm l1, the largest of a group each.

        xx: that of sum_i weight_i phi_i'' r_i r_i^T / n over its rows, r = (row, 1), with bounds of phi_i''. Whatever y
        is, the losses of groups count with shares that add up to 1.
        xy: (1 - spread) sum_i weight_i slope_i ||r_i|| / n over its rows, slope_i the largest of the loss.
        """
        group, weight = examples["group"], examples["weight"] / len(examples["group"])
        rows = score_examples(examples, problem)
        own = [group == g for g in np.unique(group)]
        curved = max(rows.of(members).largest_second(self.family, weight[members]) for members in own)
        crossed = np.bincount(group, weight * rows.steepest(self.family) * rows.rows.norms()).max()
        return norm_of_blocks(curved, float(crossed) * self._share_of_y)

    def score_sum(self, examples: Tree, like: Saddle) -> ScoreSum:
        """The share of its group, times its weight."""
        from scipy.sparse import csr_array  # imported where second derivatives are wanted

        group, count = np.asarray(examples["group"]), len(examples["group"])
        weight = np.asarray(examples["weight"], float) / count
        mixed = csr_array((weight * self._share_of_y, (np.arange(count), group)), shape=(count, np.size(like.y)))
        # Plain numbers: the spread may be an array of jax, and this is no program of it.
        fixed = np.zeros(count) if self.spread is None else weight * float(self.spread) * np.asarray(self.prior)[group]
        rows = linear_rows(examples["row"], like.x, count)
        return ScoreSum(rows, self.family, np.asarray(examples["target"]), np.asarray(fixed, float), mixed)

    @property
    def _share_of_y(self) -> float:
        """What y is multiplied by."""
        return 1.0 if self.spread is None else 1 - float(self.spread)


# `agnostic` before anybody's data was seen.


ROWS = "rows"
"""The prior of groups in proportion to their rows."""
MERGED = -1
"""The group of the clients that are one together, the first of all."""


@dataclass(frozen=True, eq=False)
class AgnosticRecipe(AbstractRecipe):
    """`agnostic` without data, in three exchanges: labels, then weights of groups, then what the bounds need.

    grouped: whether the mixture is one of groups of rows, not of clients. merged: numbers of clients that are one group
    together, in which they count alike. prior: numbers, or ROWS for groups in proportion to their rows. loss, delta,
    l1, l2, kl, prior, cvar, radius and spread are otherwise those of `agnostic`.
    Families of numbers send sums of targets with the weights of groups, then what bounds the bias and the losses of
    groups at the mean target; families of classes send weights and sums of rows of each class: all at `reference`.
    """

    loss: Family | str | None = None
    delta: Number = 1.0
    l1: Number = 0.0
    l2: Number = 0.0
    kl: Number = 0.0
    prior: Numbers | str | None = None
    cvar: Number | None = None
    radius: Number | None = None
    grouped: bool = False
    spread: Number = 0.0
    merged: tuple[int, ...] = ()
    exchanges: ClassVar[int] = 3
    keeps_rows: ClassVar[bool] = True
    row_groups: ClassVar[bool] = True
    measure: ClassVar[Measure] = "worst"

    def __post_init__(self) -> None:
        self.family()
        of_type("grouped", self.grouped, bool, "True or False")
        self._penalty()
        mixtures(self.kl, np.ones(1), self.cvar, self.prior is not None, checked_spread(self.spread))

    def family(self) -> Family:
        """The family before anything is known of the targets."""
        return family_of("loss", "logistic" if self.loss is None else self.loss, delta=self.delta)

    @property
    def weights(self) -> str:
        """Groups of rows may be anywhere, so all rows weigh as they come; clients weigh alike."""
        return "samples" if self.grouped else "clients"

    @property
    def reading(self) -> Reading:
        """How the family reads scores."""
        return self.family().reading

    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """Labels, then sums of groups, then sums at the prior."""
        if not known:
            labels = self.family().opening(rows, rows.shares).get("labels", {})
            return self.opening(rows, client, labels={"groups": rows.labels(self._group(rows, client)), **labels})
        group, masses = self._numbers(rows, known, client), rows.masses(self.weights, client)
        count = known[0]["groups"].size
        if len(known) == 1:
            sums = {"group_targets": np.bincount(group, masses * rows.y, count)} if not self.reading.labelled else {}
            # A sum of n numbers 1 / n is not always 1.
            own = group[0] if len(group) else count
            mass = np.bincount(group, masses, count) if self.grouped else (np.arange(count) == own) * 1.0
            return Summary(sums={"group_mass": mass, **sums})
        family, constant = self._settle_family(known), self._constant(known)
        share = (self._reference(known)[1] / known[1]["group_mass"])[group] * masses
        each = family.losses(constant, rows)
        losses = {f"group_{name}": np.bincount(group, masses * loss, count) for name, loss in each.items()}
        return Summary(sums=dict(family.evidence(rows, known, share, (constant, constant))) | losses)

    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, object]:
        """Rows with targets, groups, and the weight of all rows over that of the group's."""
        group = self._numbers(rows, known, client)
        weight = rows.factors * (total_mass(known) / known[1]["group_mass"])[group]
        target = self._settle_family(known).encoded(rows, known)
        return {"row": rows.features, "target": target, "group": group, "weight": weight}

    def problem(self, known: Sequence[Known], data: Data) -> Problem:
        """The bounds of `agnostic`."""
        family, prior, penalty = self._settle_family(known), self._prior(known), self._penalty()
        budget, outputs = family.worst_budget(known[2], known[1]["group_mass"]), family.outputs(known)
        ball, around = penalty.ball(budget), (self._constant(known),) * 2
        shape = (known[2][family.evidence_rows].shape[-1], *outputs)
        sums = {**known[2], "target_sum": self._mean_target(known)}
        spread = checked_spread(self.spread)
        return self.built(
            Weighted(family, np.asarray(spread), prior) if spread > 0 else Weighted(family),
            known,
            data,
            x={"weights": penalty.regularizer(ball, shape), "bias": family.box(sums, 1.0, around, ball, budget)},
            y=mixtures(self.kl, prior, self.cvar, self.prior is not None, spread),
            like=Saddle({"weights": np.zeros(shape), "bias": np.zeros(outputs)}, np.zeros(prior.size)),
            floor=Floor(self._reference(known)[0], 0.0, each=True),
            by_construction=True,
        )

    def held_out_losses(self, rows: Rows, known: Sequence[Known]) -> Callable[[Reals], Reals]:
        """From the scores of rows to the losses of the family."""
        return self._settle_family(known).losses_of(rows, known)

    def held_out_parts(self, known: Sequence[Known]) -> int:
        return int(known[0]["groups"].size)

    def held_out_masses(self, rows: Rows, known: Sequence[Known], client: int) -> Reals:
        """A row counts in its group, whose loss is the mean over its rows."""
        return (np.arange(self.held_out_parts(known))[:, None] == self._numbers(rows, known, client)) * rows.shares

    def _penalty(self) -> Penalty:
        return Penalty(self.l1, self.l2, self.radius)

    def _group(self, rows: Rows, client: int) -> Values:
        if rows.group is not None and self.grouped:
            return rows.group
        return np.full(len(rows.y), MERGED if client in self.merged else client)

    def _numbers(self, rows: Rows, known: Sequence[Known], client: int) -> NDArray[np.int32]:
        return rows.numbers(self._group(rows, client), known[0]["groups"])

    def _prior(self, known: Sequence[Known]) -> Reals:
        if isinstance(self.prior, str) and self.prior == ROWS and self.grouped:
            return np.asarray(known[1]["group_mass"] / known[1]["group_mass"].sum())
        return checked_prior(self.prior, known[0]["groups"].size, "group" if self.grouped else "client")

    def _reference(self, known: Sequence[Known]) -> tuple[Reals, Reals]:
        return reference(self._prior(known), self.cvar, checked_spread(self.spread))

    def _settle_family(self, known: Sequence[Known]) -> Family:
        family = self.family()
        settled = family.settled(known)
        if self.loss is not None and settled is not family:
            count = known_classes(known).size
            raise ValueError(f"loss must be {settled.name!r} for more than two classes, and y holds {count}")
        return settled

    def _mean_target(self, known: Sequence[Known]) -> Reals:
        """At the reference mixture; 0 where targets are no numbers."""
        if "group_targets" not in known[1]:
            return np.zeros(())
        return np.asarray(self._reference(known)[1] @ (known[1]["group_targets"] / known[1]["group_mass"]))

    def _constant(self, known: Sequence[Known]) -> float:
        return self.family().constant({"target_sum": self._mean_target(known)}, 1.0)


@built_from("X", "y", "clients", recipe=AgnosticRecipe)
def agnostic(
    X: Matrix,
    y: Column,
    clients: Column,
    *,
    loss: str | Family | None = None,
    delta: Number = 1.0,
    l1: Number = 0.0,
    l2: Number = 0.0,
    kl: Number = 0.0,
    prior: Numbers | None = None,
    cvar: Number | None = None,
    radius: Number | None = None,
    groups: Column | None = None,
    sample_weight: Numbers | None = None,
    spread: Number = 0.0,
) -> Problem:
    """min_x max_y sum_m q_m loss_m(x) + l1 ||w||_1 + l2/2 ||w||^2 - kl KL(y || prior), y on the simplex of clients.

    q = (1 - spread) y + spread prior, which is y without a spread.
    X: n rows of d features; y: n labels; clients: for each row, whose it is. Entry m of the mixture, and of prior,
        is the m-th of the sorted client ids; without prior= all are alike, and its entries are divided by their sum.
        prior needs kl > 0 or spread > 0. sample_weight: a number >= 0 for each row, in proportion to which rows count
        in every mean.
    groups: for each row, its group: the mixture is then one of groups, and loss_m is a mean over the rows of group m,
        whoever holds them, so that clients that share groups need not know it. Without it each client is a group.
    loss: x = {"weights": w, "bias": b}, and loss_m is a mean over client m's rows. "logistic", for two classes:
        log(1 + exp(-s (<w, row> + b))), s = -1 for the first label in sorted order and +1 for the second; w has shape
        (d,), b has (). "multiclass": the softmax loss, w of shape (d, classes), b (classes,). Without loss= it is
        logistic for two classes, multiclass for more. "squared": u^2 / 2, u = <w, row> + b - y; "huber": u^2 / 2 for
        |u| <= delta, delta |u| - delta^2 / 2 beyond.
    cvar: with M groups, y <= 1 / (cvar M), so that the maximum over y is the mean loss of the worst share `cvar` of
        groups; 1 is the mean, cvar <= 1/M the worst group. Not together with kl, or with prior without spread.
    spread: in [0, 1), what is given to all groups in proportion to the prior, whatever y is: each counts with at least
        spread prior_m, so that the objective is (1 - spread) that of the worst mixture + spread that of the prior.

    Certificates need bounded domains. Let phi(x) be the maximum over y, and B = log(classes) = phi(0) for the first
    two losses. They are >= 0, so a solution has l1 ||w||_1 <= B and l2/2 ||w||^2 <= B: w is kept in the L1Ball or the
    L2Ball that says so, the one of smaller radius, or in L2Ball(radius) if radius= is given. For the bias, let p be the
    prior, which is q at y = prior, and with cvar, whose cap may exclude that y, be q where all y_m are alike. Weigh
    each row of group m by p_m / (rows of m): at q = p the mean loss of a solution is at most B, which bounds b as in
    `class_bias_box`. For "squared" and "huber" let t and mu be the weighted means of labels and rows, and
    B = max_m loss_m >= phi at w = 0, b = t. Jensen's inequality at q = p puts |b + <w, mu> - t| within the reach of
    B, sqrt(2 B) (for "huber" B / delta + delta / 2 if that is more than delta), so |b - t| <= (the largest |<w, mu>|
    for w in its ball) + reach. Unless B = 0, no derived bound is active at a solution; a given radius may be.
    Losses are >= 0, so f(x, y) >= 0 at any mixture: the floor is 0 at the y of p.
    Mohri, Sivek, Suresh, Agnostic Federated Learning, ICML 2019.
    """
    recipe = AgnosticRecipe(loss, delta, l1, l2, kl, prior, cvar, radius, groups is not None, spread)
    rows = features(X)
    target = recipe.family().column(y, rows.shape[0])
    group = None if groups is None else label_column("groups", groups, rows.shape[0])
    return assemble(recipe, split_rows(rows, target, clients, sample_weight, group))

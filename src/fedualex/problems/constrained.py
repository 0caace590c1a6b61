"""Learning under constraints on losses: Neyman-Pearson, limits for clients, limits for any groups of rows."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..accepted import Column, Limits, Matrix, Number, Numbers
from ..arrays import Array, Reals, Values
from ..certificates.certificate import Certificate
from ..certificates.rounding import UNSEEN, Majorized
from ..compiling import double
from ..geometry import EntropicSimplex, Euclidean, Product
from ..regularizers import Box
from ..regularizers.fenchel import UNIT
from ..summaries import Known, Summary
from ..tree import Saddle, Scalar, Tree, Vector, cast_like
from ..validation import of_type, one_of, positive, short
from .active import TOLERANCE, domain_of
from .base import AbstractProblem
from .families import FAMILIES, Family, family_of
from .general import Problem
from .known import Floor, Penalty, Smooth, norm_of_blocks, total_mass, with_floor, with_smoothness
from .readings import Reading
from .recipe import AbstractRecipe, Measure, assemble, built_from
from .rows import Data, Rows, class_column, features, label_column, split_rows
from .scores import ScoreSum, linear_rows, linear_score, score_examples


class AbstractLagrangian(Smooth):
    """loss_0(x) + <lam, losses of groups(x) - limits> of one example, all losses >= 0; y is {"multipliers": lam}."""

    limits: Limits
    feasible: bool = eqx.field(static=True)
    """Whether some model of the domain is known to meet all limits."""

    @abstractmethod
    def without_objective(self) -> Smooth | Majorized:
        """The same without loss_0."""


class Lagrangian(AbstractLagrangian, Majorized):
    """(share_0 + <lam, shares>) loss(<w, row> + b, label) - <lam, limits>; share_g is n / n_g in group g, else 0."""

    family: Family

    def without_objective(self) -> "Excess":
        """With share_0 = 0 in every example."""
        return Excess(self)

    def __call__(self, x: Tree, y: Tree, example: Tree) -> Array:
        lam, shares = y["multipliers"], example["shares"]
        loss = self.family.loss(linear_score(x, example["row"]), example["target"])
        return (shares[0] + jnp.vdot(shares[1:], lam)) * loss - jnp.vdot(lam, cast_like(self.limits, lam))

    def majorant(self, x: Tree, y: Tree, example: Tree) -> Array:
        """The same of the size of the loss, with a plus."""
        lam, shares = y["multipliers"], example["shares"]
        size = self.family.size(linear_score(x, abs(example["row"])), example["target"])
        return (shares[0] + jnp.vdot(shares[1:], lam)) * size + jnp.vdot(lam, cast_like(self.limits, lam))

    def jacobian_bound(self, examples: Tree, problem: "AbstractProblem") -> float:
        """Of the blocks xx, at the largest multipliers, and xy, its columns added by their squares."""
        shares, sets = examples["shares"] / len(examples["shares"]), problem.geometry.parts
        rows, most = score_examples(examples, problem), sets.y["multipliers"].regularizer.upper
        curved = rows.largest_second(self.family, shares[:, 0] + shares[:, 1:] @ most)
        crossed = float(np.linalg.norm((rows.steepest(self.family) * rows.rows.norms()) @ shares[:, 1:]))
        return norm_of_blocks(curved, crossed)

    def score_sum(self, examples: Tree, like: Saddle) -> ScoreSum:
        """share_0 and the multipliers' shares of each row; limits are taken off."""
        shares = np.asarray(examples["shares"], float) / len(examples["shares"])
        rows, level = linear_rows(examples["row"], like.x, len(shares)), -np.asarray(self.limits, float)
        return ScoreSum(rows, self.family, np.asarray(examples["target"]), shares[:, 0], shares[:, 1:], level)


class Excess(Majorized):
    """<lam, shares> loss(<w, row> + b, label) - <lam, limits>: a Lagrangian without its objective."""

    whole: Lagrangian

    def __call__(self, x: Tree, y: Tree, example: Tree) -> Array:
        return self.whole(x, y, _without_objective(example))

    def majorant(self, x: Tree, y: Tree, example: Tree) -> Array:
        """That of the Lagrangian, without its objective."""
        return self.whole.majorant(x, y, _without_objective(example))

    def score_sum(self, examples: Tree, like: Saddle) -> ScoreSum:
        """The Lagrangian's, without share_0."""
        whole = self.whole.score_sum(examples, like)
        return whole._replace(fixed=np.zeros_like(whole.fixed))


def _without_objective(example: Tree) -> Tree:
    return {**example, "shares": jnp.asarray(example["shares"]).at[0].set(0)}


def phase_one(problem: AbstractProblem) -> Problem | None:
    """min_x max_g (loss_g(x) - limit_g) = min_x max_{lam on the simplex} sum_g lam_g (loss_g(x) - limit_g).

    problem: one with limits, as of `constrained`. Data, clients and the domain of x are its own, and there is no
        penalty, so that the value is the least violation in this domain: above 0, no model of it meets all limits.
    Returns None for a problem without limits. Losses are >= 0, so at the vertex lam of the least limit f is at least
    -limit, which is its floor (lowered by UNIT for each client and some more: weights sum to 1 up to rounding).
    """
    if not isinstance(problem, Problem) or (f := lagrangian_of(problem)) is None:
        return None
    sets = {name: Euclidean(domain_of(part.regularizer)) for name, part in problem.geometry.parts.x.items()}
    geometry = Product(Saddle(sets, {"multipliers": EntropicSimplex()}))
    parts = f.without_objective(), geometry
    relaxed = eqx.tree_at(lambda p: (p.f, p.geometry), with_smoothness(problem, None), parts)
    limits = np.asarray(f.limits, np.float64)
    vertex = np.where(np.arange(limits.size) == np.argmin(limits), 1.0, 0.0)
    least = -limits.min() * (1 + (problem.weights.size + 32) * UNIT)
    return with_floor(relaxed, Floor({"multipliers": vertex}, np.asarray(least), each=True))


SLIGHT = 1e-6
"""The share of a limit that is rounding, or left by a run that ended: by so little it may be exceeded."""


def lower_bound(certificate: Certificate, g: Saddle) -> float:
    """A certified lower bound on the value of `phase_one`, from its exact operator and certificate at any (x, lam).

    f is linear in lam and convex in x, so for every x' of the domain max_g (loss_g(x') - limit_g) >= f(x', lam)
    >= f(x, lam) + <g_x, x' - x> >= max(-g_y) - (x part + y part of the certificate), where f(x, lam) = -<g_y, lam>.
    """
    # The error of max(-g_y) is at most what the certificate's rounding holds for g_y; so it is counted once more.
    gap = np.inf if certificate.gap is None else certificate.gap
    return float(np.max(excess(g))) - gap - certificate.rounding


def is_doubtful(problem: AbstractProblem) -> bool:
    """Whether the problem has limits, and no model is known that meets all of them."""
    f = lagrangian_of(problem)
    return f is not None and not f.feasible


def exceeds(problem: AbstractProblem, violation: float | None) -> bool:
    """Whether an answer exceeds the limits by so much that there may be no model that meets them."""
    f = lagrangian_of(problem)
    return f is not None and violation is not None and violation > SLIGHT * float(np.max(np.asarray(f.limits)))


def lagrangian_of(problem: AbstractProblem) -> AbstractLagrangian | None:
    """The loss of a problem with limits; None of one without."""
    return problem.f if isinstance(problem, Problem) and isinstance(problem.f, AbstractLagrangian) else None


def largest_violation(problem: AbstractProblem, g: Saddle | None, error: Scalar | Vector | None = None) -> float | None:
    """max_g loss_g(x) - limit_g from the exact operator at (x, lam); None without limits, or without the operator.

    error: how far each entry of g in y may be from the exact one, which is added; where nobody knows, an estimate.
    """
    if g is None or (f := lagrangian_of(problem)) is None:
        return None
    above = excess(g)
    if error is None:
        error = UNSEEN * UNIT * (np.abs(above) + 2 * np.abs(np.asarray(f.limits, float)))
    return float(np.max(above + error))


def excess(g: Saddle) -> Reals:
    """loss_g(x) - limit_g of each limited group, from the exact operator at any (x, lam)."""
    return -np.asarray(g.y["multipliers"])


def violation(problem: AbstractProblem, z: Saddle) -> Reals:
    """loss_g(x) - limit_g of each limited group, in sorted order: above 0 where the constraint is violated.

    Warns if a multiplier of z is at its bound: the limits are suspected to be infeasible.

    problem, z: a problem with limits, and a point.
    """
    if lagrangian_of(problem) is None:
        raise TypeError(f"violation is for a problem with limits, as of fx.problems.constrained, got {short(problem)}")
    with double():
        z = problem.validate_point(z)
        above = excess(problem.operator(z))
    lam, bound = np.asarray(z.y["multipliers"]), problem.geometry.parts.y["multipliers"].regularizer.upper
    stuck = np.flatnonzero((lam >= (1 - TOLERANCE) * bound) & (bound > 0))
    if stuck.size:
        warnings.warn(
            f"{stuck.size} of {lam.size} multipliers are at their bound (the first is number {stuck[0]}, "
            f"{lam[stuck[0]]:.4g}): the limits are suspected to be infeasible, or multiplier= to be too small",
            stacklevel=2,
        )
    return above


# Groups of rows with limits on their losses, and bounds of their multipliers.


def group_column(y: object, clients: object, groups: object, rows: int) -> Values:
    """The group of each row: whose it is, its class, or what was given."""
    if isinstance(groups, str):
        if one_of("groups", groups, ("clients", "classes")) == "classes":
            return class_column(y, rows)
        return np.zeros(rows, int) if clients is None else label_column("clients", clients, rows)
    return label_column("groups", groups, rows)


def check_limits(limits: object) -> None:
    """Refuse limits that are none, whatever groups there are."""
    if not isinstance(limits, Mapping):
        positive("limits", limits)
    elif not limits:
        raise ValueError("limits must hold at least one limit")
    else:
        for name, limit in limits.items():
            positive(f"limits[{name!r}]", limit)


def limited_groups(names: Values, limits: Limits) -> tuple[NDArray[np.intp], Reals]:
    """The numbers of the groups with a limit among the sorted names of all groups, and their limits."""
    if not isinstance(limits, Mapping):
        return np.arange(len(names)), np.full(len(names), float(np.asarray(limits)))
    numbers, limit_of = numbers_by_name(names), dict[int, float]()
    for name, limit in limits.items():
        if len(numbers.get(name, ())) != 1:
            raise ValueError(f"limits must be for groups of {short(names.tolist())}, got one for {short(name)}")
        (number,) = numbers[name]
        if number in limit_of:
            raise ValueError(f"limits must hold one limit for each group, got two for {short(names[number])}")
        limit_of[number] = float(limit)
    limited = sorted(limit_of)
    return np.array(limited), np.array([limit_of[g] for g in limited])


def multiplier_bounds(constant: Reals, tau: Reals, multiplier: object) -> Reals:
    """The bounds of `constrained`; row c of `constant` holds loss_0 and the groups' losses of one constant score."""
    if multiplier is not None:
        return np.full(tau.size, float(positive("multiplier", multiplier)))
    feasible = constant[np.all(constant[:, 1:] < tau, axis=1)]
    if not len(feasible):
        raise ValueError(
            "multiplier must be given: no constant score meets all limits strictly, so nothing bounds the multipliers"
        )
    with np.errstate(over="ignore"):  # refused below
        bound = np.min(feasible[:, :1] / (tau - feasible[:, 1:]), axis=0)
    if not np.all(np.isfinite(bound)):
        raise ValueError(f"limits must be so large that float64 holds loss / limit, got {tau.min():.3g}")
    return np.asarray(bound)


def numbers_by_name(names: Values) -> dict[object, list[int]]:
    """The numbers of the groups of each name: a label, or its text, as a configuration file has it."""
    numbers: dict[object, list[int]] = {}
    for number, label in enumerate(names.tolist()):
        whole = isinstance(label, float) and label.is_integer()
        for name in {label, str(label), *([str(int(label))] if whole else [])}:
            numbers.setdefault(name, []).append(number)
    return numbers


# `constrained` before anybody's data was seen.


NO_WEIGHT = 1e-9
"""A bound of multipliers that leaves limits without a say."""


@dataclass(frozen=True, eq=False)
class ConstrainedRecipe(AbstractRecipe):
    """`constrained` without data, in two exchanges. The group of a row is what `Rows` says.

    First labels of groups, and of classes or the range of the targets; then sums over the rows of loss_0 and of each
    limited group: their weights, their losses at a grid of constant scores, and what bounds the bias: for "logistic"
    weights and sums of rows of each class, otherwise sums over the rows of loss_0. With `of_all` and a multiplier a sum
    of targets stands for their range, and the grid of numbers is one score.

    limits, loss, delta, l1, l2, radius, multiplier, of_all: as for `fx.problems.constrained`.
    """

    limits: Limits
    loss: Family | str = "logistic"
    delta: Number = 1.0
    l1: Number = 0.0
    l2: Number = 0.0
    radius: Number | None = None
    multiplier: Number | None = None
    of_all: bool = False
    exchanges: ClassVar[int] = 2
    keeps_rows: ClassVar[bool] = True
    row_groups: ClassVar[bool] = True
    measure: ClassVar[Measure] = "limited"

    def __post_init__(self) -> None:
        self.family()
        check_limits(self.limits)
        of_type("of_all", self.of_all, bool, "True or False")
        Penalty(self.l1, self.l2, self.radius)
        if self.multiplier is not None:
            positive("multiplier", self.multiplier)

    def family(self) -> Family:
        """The family, of one score for each row."""
        several = tuple(name for name, family in FAMILIES.items() if not family().one_score)
        family = family_of("loss", self.loss, several, delta=self.delta)
        if not family.one_score:
            raise ValueError(f"loss must have one score for each row, got {family.name!r}")
        return family

    @property
    def reading(self) -> Reading:
        """How the family reads scores."""
        return self.family().reading

    @property
    def unlimited(self) -> AbstractRecipe:
        """Where the objective counts all rows, it alone: the excess of a null model over limits is no scale of it."""
        return replace(self, multiplier=NO_WEIGHT) if self.of_all else self

    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """Labels and ranges, then sums of loss_0 and each group."""
        family = self.family()
        if not known:
            parts = family.opening(rows, rows.shares) if self._is_bounded else family.spread(rows)
            labels = {"groups": rows.labels(find_groups(rows)), **parts.pop("labels", {})}
            return self.opening(rows, client, labels=labels, **parts)
        masses, constants = self._members(rows, known) * rows.shares, self._constants(known)
        losses = constant_losses(family, constants, family.encoded(rows, known), masses)
        sums = {"group_mass": masses.sum(axis=1), "grid_losses": losses}
        return Summary(sums=sums | dict(family.limit_evidence(rows, known, masses, constants[[0, -1]])))

    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, object]:
        """Rows with targets, and for loss_0 and each group the weight of all rows over that of its rows."""
        shares = self._members(rows, known).T * (total_mass(known) / known[1]["group_mass"])
        return {
            "row": rows.features,
            "target": self.family().encoded(rows, known),
            "shares": rows.factors[:, None] * shares,
        }

    def problem(self, known: Sequence[Known], data: Data) -> Problem:
        """The bounds of `constrained`."""
        family, (_, tau) = self.family(), limited_groups(known[0]["groups"], self.limits)
        constant = known[1]["grid_losses"] / known[1]["group_mass"]
        bound = multiplier_bounds(constant, tau, self.multiplier)
        budget = float(np.min(constant[:, 0] + np.maximum(constant[:, 1:] - tau, 0) @ bound))
        penalty = Penalty(self.l1, self.l2, self.radius)
        # A multiplier that is 0, where a constant score has no loss, bounds no loss of its group.
        excess = np.divide(budget, bound, out=np.full_like(bound, np.inf), where=bound > 0)
        ball, most = penalty.ball(budget), np.array([budget, *(tau + excess)])
        bias = family.limit_box(known[1], most, self._constants(known)[[0, -1]], ball)
        features = known[1][family.evidence_rows].shape[-1]
        zero = {"multipliers": np.zeros(tau.size)}
        return self.built(
            Lagrangian(tau, self.multiplier is None, family),
            known,
            data,
            x={"weights": penalty.regularizer(ball, (features,)), "bias": bias},
            y={"multipliers": Box(lower=np.zeros_like(bound), upper=bound)},
            like=Saddle({"weights": np.zeros(features), "bias": np.zeros(())}, zero),
            floor=Floor(zero, 0.0, each=True),
            by_construction=True,
        )

    def held_out_losses(self, rows: Rows, known: Sequence[Known]) -> Callable[[Reals], Reals]:
        """From the scores of rows to the losses of the family."""
        return self.family().losses_of(rows, known)

    def held_out_parts(self, known: Sequence[Known]) -> int:
        """The rows of loss_0, and each limited group."""
        return 1 + self.limits_of(known).size

    def held_out_masses(self, rows: Rows, known: Sequence[Known], client: int) -> Reals:
        """Whoever holds a row."""
        return self._members(rows, known) * rows.shares

    def limits_of(self, known: Sequence[Known]) -> Reals:
        """Those of the limited groups."""
        return limited_groups(known[0]["groups"], self.limits)[1]

    def _members(self, rows: Rows, known: Sequence[Known]) -> NDArray[np.bool_]:
        """Which rows count in loss_0 and in each limited group's loss."""
        names = known[0]["groups"]
        limited, _ = limited_groups(names, self.limits)
        group = rows.numbers(find_groups(rows), names)
        free = np.ones(len(group), bool) if self.of_all or limited.size == names.size else ~np.isin(group, limited)
        return np.concatenate([free[None], group == limited[:, None]])

    def _constants(self, known: Sequence[Known]) -> Reals:
        """The grid of `constrained`."""
        family, (_, tau) = self.family(), limited_groups(known[0]["groups"], self.limits)
        if self._is_bounded and not self.reading.labelled:
            return np.array([family.constant(known[0], total_mass(known))])
        return family.grid(known, tau.min())

    @property
    def _is_bounded(self) -> bool:
        """Whether no constant score has to meet the limits, so that nobody tells the range of targets."""
        return self.of_all and self.multiplier is not None


BLOCK = 4096
"""How many rows are scored at a time by all constant scores, which bounds the memory."""


def constant_losses(family: Family, constants: Reals, target: Reals, masses: Reals) -> Reals:
    """For each constant score (row), the sums of the losses with each row of the weights `masses` (column)."""
    total = np.zeros((len(constants), len(masses)))
    some = masses.any(axis=1)  # a client has rows of few groups
    for start in range(0, len(target), BLOCK):
        part = slice(start, start + BLOCK)
        total[:, some] += np.asarray(family.loss(constants[:, None], target[part])) @ masses[some, part].T
    return total


def find_groups(rows: Rows) -> Values:
    """The group of each row, whose loss may have a limit."""
    if rows.group is None:
        raise ValueError("rows must have groups, whose losses have limits; got rows without")
    return rows.group


@built_from("X", "y", "clients", recipe=ConstrainedRecipe)
def constrained(
    X: Matrix,
    y: Column,
    clients: Column,
    *,
    limits: Limits,
    groups: Column = "clients",
    loss: str | Family = "logistic",
    delta: Number = 1.0,
    l1: Number = 0.0,
    l2: Number = 0.0,
    radius: Number | None = None,
    multiplier: Number | None = None,
    of_all: bool = False,
    sample_weight: Numbers | None = None,
) -> Problem:
    """min_x loss_0(x) + l1 ||w||_1 + l2/2 ||w||^2 subject to loss_g(x) <= limit_g for each group g with a limit.

    X: n rows of d features; y: n labels; clients: for each row, whose it is. sample_weight: a number >= 0 for each row,
        in proportion to which rows count in every mean over rows; all alike without it.
    groups: "clients", "classes" (of y), or one label for each row. limits: one number for all groups, or a mapping
        from some groups to their limits. loss_g is the mean loss of the group's rows, whoever holds them; loss_0 that
        of the rows whose group has no limit, or of all rows if every group has one or of_all=True. groups="classes",
        limits={label: tau} is Neyman-Pearson classification.
    loss: "logistic" (two classes), "squared" or "huber" with its delta, as for `agnostic`; x and radius are as
        there. The saddle point is that of the Lagrangian, y = {"multipliers": lam}, limited groups in sorted order:

        min_x max_{0 <= lam_g <= bound_g}  loss_0(x) + sum_g lam_g (loss_g(x) - limit_g) + penalty(w).

    Certificates need bounded domains. If a constant score c (w = 0) is strictly feasible, losses >= 0 give at a
    solution sum_g lam_g (limit_g - loss_g(c)) <= loss_0(c): bound_g is the least loss_0(c) / (limit_g - loss_g(c))
    over a grid of such c. Where no constant is strictly feasible, multiplier= must be given (of numbers with of_all the
    grid is then the mean alone). The limits may then be
    infeasible, for which a run looks for a proof (`phase_one`), or that bound too small for them (see `violation`).
    Let phi be the maximum over lam, and B the least phi over the grid. A solution has penalty(w) <= B, which gives
    its ball as in `agnostic`; loss_0 <= B, and loss_g <= limit_g + B / bound_g. For "logistic", a mean loss <= L over
    rows of which the share s is of the class with sign +1 and mean mu has -s (b + <w, mu>) <= L, so b >= -L / s -
    (the largest |<w, mu>| for w in its ball); likewise from above for the sign -1. The best of these is taken over
    loss_0 and all groups. For "squared" and "huber", with the means t and mu of the rows of loss_0, |b - t| <= (the
    largest |<w, mu>|) + the reach of B as in `agnostic`.
    At lam = 0 the Lagrangian is loss_0 >= 0, which is its floor.
    Rigollet, Tong, Neyman-Pearson Classification, Convexity and Stochastic Constraints, JMLR 2011.
    """
    recipe = ConstrainedRecipe(limits, loss, delta, l1, l2, radius, multiplier, of_all)
    rows = features(X)
    target = recipe.family().column(y, rows.shape[0])
    group = group_column(y, clients, groups, rows.shape[0])
    return assemble(recipe, split_rows(rows, target, clients, sample_weight, group))

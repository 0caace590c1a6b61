"""Learning under constraints on losses: Neyman-Pearson, limits for clients, limits for any groups of rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..accepted import Column, Matrix, Number, Numbers
from ..regularizers import Box
from ..summaries import Known, Summary
from ..tree import Saddle
from ..validation import one_of, positive, short
from .bounds import Penalty, total_mass
from .families import FAMILIES, Family, family_of
from .feasibility import Lagrangian
from .general import Problem
from .known import Floor
from .readings import Reading
from .recipe import AbstractRecipe, Measure, assemble, built_from
from .rows import Rows, class_column, features, label_column, split_rows

# Groups of rows with limits on their losses, and bounds of their multipliers.


def group_column(y: object, clients: object, groups: object, rows: int) -> NDArray[Any]:
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


def limited_groups(names: NDArray[Any], limits: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """The numbers of the groups with a limit among the sorted names of all groups, and their limits."""
    if not isinstance(limits, Mapping):
        return np.arange(len(names)), np.full(len(names), float(limits))
    numbers, found = _numbers_by_name(names), dict[int, float]()
    for name, limit in limits.items():
        if len(numbers.get(name, ())) != 1:
            raise ValueError(f"limits must be for groups of {short(names.tolist())}, got one for {short(name)}")
        (number,) = numbers[name]
        if number in found:
            raise ValueError(f"limits must hold one limit for each group, got two for {short(names[number])}")
        found[number] = float(limit)
    limited = sorted(found)
    return np.array(limited), np.array([found[g] for g in limited])


def multiplier_bounds(constant: NDArray[Any], tau: NDArray[Any], multiplier: object) -> NDArray[Any]:
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


def _numbers_by_name(names: NDArray[Any]) -> dict[Any, list[int]]:
    """The numbers of the groups of each name: a label, or its text, as a configuration file has it."""
    found: dict[Any, list[int]] = {}
    for number, label in enumerate(names.tolist()):
        whole = isinstance(label, float) and label.is_integer()
        for name in {label, str(label), *([str(int(label))] if whole else [])}:
            found.setdefault(name, []).append(number)
    return found


# `constrained` before anybody's data was seen.


@dataclass(frozen=True, eq=False)
class ConstrainedRecipe(AbstractRecipe):
    """`constrained` without data, in two exchanges. The group of a row is what `Rows` says.

    First labels of groups, and of classes or the range of the targets; then sums over the rows of loss_0 and of each
    limited group: their weights, their losses at a grid of constant scores, and what bounds the bias: for "logistic"
    weights and sums of rows of each class, otherwise sums over the rows of loss_0.

    limits, loss, delta, l1, l2, radius, multiplier: as for `fx.problems.constrained`.
    """

    limits: Any
    loss: Any = "logistic"
    delta: Any = 1.0
    l1: Any = 0.0
    l2: Any = 0.0
    radius: Any = None
    multiplier: Any = None
    exchanges: ClassVar[int] = 2
    row_groups: ClassVar[bool] = True
    measure: ClassVar[Measure] = "limited"

    def __post_init__(self) -> None:
        self.family()
        check_limits(self.limits)
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
        """That of the family."""
        return self.family().reading

    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """Labels and ranges, then sums of loss_0 and each group."""
        family = self.family()
        if not known:
            parts = family.spread(rows)
            labels = {"groups": rows.labels(_group(rows)), **parts.pop("labels", {})}
            return self.opening(rows, client, labels=labels, **parts)
        masses, constants = self._members(rows, known) * rows.shares, self._constants(known)
        losses = constant_losses(family, constants, family.encoded(rows, known), masses)
        sums = {"group_mass": masses.sum(axis=1), "grid_losses": losses}
        return Summary(sums=sums | dict(family.limit_evidence(rows, known, masses, constants[[0, -1]])))

    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, NDArray[Any]]:
        """Rows with targets, and for loss_0 and each group the weight of all rows over that of its rows."""
        shares = self._members(rows, known).T * (total_mass(known) / known[1]["group_mass"])
        return {
            "row": rows.features,
            "target": self.family().encoded(rows, known),
            "shares": rows.factors[:, None] * shares,
        }

    def problem(self, known: Sequence[Known], data: Any) -> Problem:
        """The bounds of `constrained`."""
        family, (_, tau) = self.family(), limited_groups(known[0]["groups"], self.limits)
        constant = known[1]["grid_losses"] / known[1]["group_mass"]
        bound = multiplier_bounds(constant, tau, self.multiplier)
        budget = float(np.min(constant[:, 0] + np.maximum(constant[:, 1:] - tau, 0) @ bound))
        penalty = Penalty(self.l1, self.l2, self.radius)
        ball, most = penalty.ball(budget), np.array([budget, *(tau + budget / bound)])
        bias = family.limit_box(known[1], most, self._constants(known)[[0, -1]], ball)
        features = known[1][family.evidence_rows].shape[-1]
        zero = {"multipliers": np.zeros(tau.size)}
        return self.built(
            Lagrangian(family, tau, feasible=self.multiplier is None),
            known,
            data,
            x={"weights": penalty.regularizer(ball, (features,)), "bias": bias},
            y={"multipliers": Box(lower=np.zeros_like(bound), upper=bound)},
            like=Saddle({"weights": np.zeros(features), "bias": np.zeros(())}, zero),
            floor=Floor(zero, 0.0, each=True),
            by_construction=True,
        )

    def held_out_losses(self, rows: Rows, known: Sequence[Known], scores: NDArray[Any]) -> NDArray[Any]:
        """Those of the family."""
        return np.asarray(self.family().loss(scores, self.family().encoded(rows, known)))

    def held_out_parts(self, known: Sequence[Known]) -> int:
        """The rows of loss_0, and each limited group."""
        return 1 + self.limits_of(known).size

    def held_out_masses(self, rows: Rows, known: Sequence[Known], client: int) -> NDArray[Any]:
        """Whoever holds a row."""
        return self._members(rows, known) * rows.shares

    def limits_of(self, known: Sequence[Known]) -> NDArray[Any]:
        """Those of the limited groups."""
        return limited_groups(known[0]["groups"], self.limits)[1]

    def _members(self, rows: Rows, known: Sequence[Known]) -> NDArray[np.bool_]:
        """Which rows count in loss_0 and in each limited group's loss."""
        names = known[0]["groups"]
        limited, _ = limited_groups(names, self.limits)
        group = rows.numbers(_group(rows), names)
        free = ~np.isin(group, limited) if limited.size < names.size else np.ones(len(group), bool)
        return np.concatenate([free[None], group == limited[:, None]])

    def _constants(self, known: Sequence[Known]) -> NDArray[Any]:
        """The grid of `constrained`."""
        _, tau = limited_groups(known[0]["groups"], self.limits)
        return self.family().grid(known, tau.min())


BLOCK = 4096
"""How many rows are scored at a time by all constant scores, which bounds the memory."""


def constant_losses(
    family: Family, constants: NDArray[Any], target: NDArray[Any], masses: NDArray[Any]
) -> NDArray[Any]:
    """For each constant score (row), the sums of the losses with each row of the weights `masses` (column)."""
    total = np.zeros((len(constants), len(masses)))
    some = masses.any(axis=1)  # a client has rows of few groups
    for start in range(0, len(target), BLOCK):
        part = slice(start, start + BLOCK)
        total[:, some] += family.loss(constants[:, None], target[part]) @ masses[some, part].T
    return total


def _group(rows: Rows) -> NDArray[Any]:
    if rows.group is None:
        raise ValueError("rows must have groups, whose losses have limits; got rows without")
    return rows.group


@built_from("X", "y", "clients", recipe=ConstrainedRecipe)
def constrained(
    X: Matrix,
    y: Column,
    clients: Column,
    *,
    limits: Any,
    groups: Column = "clients",
    loss: str | Family = "logistic",
    delta: Number = 1.0,
    l1: Number = 0.0,
    l2: Number = 0.0,
    radius: Number | None = None,
    multiplier: Any = None,
    sample_weight: Numbers | None = None,
) -> Problem:
    """min_x loss_0(x) + l1 ||w||_1 + l2/2 ||w||^2 subject to loss_g(x) <= limit_g for each group g with a limit.

    X: n rows of d features; y: n labels; clients: for each row, whose it is. sample_weight: a number >= 0 for each row,
        in proportion to which rows count in every mean over rows; all alike without it.
    groups: "clients", "classes" (of y), or one label for each row. limits: one number for all groups, or a mapping
        from some groups to their limits. loss_g is the mean loss of the group's rows, whoever holds them; loss_0 that
        of the rows whose group has no limit, or of all rows if every group has one. groups="classes",
        limits={label: tau} is Neyman-Pearson classification.
    loss: "logistic" (two classes), "squared" or "huber" with its delta, as for `agnostic`; x and radius are as
        there. The saddle point is that of the Lagrangian, y = {"multipliers": lam}, limited groups in sorted order:

        min_x max_{0 <= lam_g <= bound_g}  loss_0(x) + sum_g lam_g (loss_g(x) - limit_g) + penalty(w).

    Certificates need bounded domains. If a constant score c (w = 0) is strictly feasible, losses >= 0 give at a
    solution sum_g lam_g (limit_g - loss_g(c)) <= loss_0(c): bound_g is the least loss_0(c) / (limit_g - loss_g(c))
    over a grid of such c. Where no constant is strictly feasible, multiplier= must be given. The limits may then be
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
    recipe = ConstrainedRecipe(limits, loss, delta, l1, l2, radius, multiplier)
    rows = features(X)
    target = recipe.family().column(y, rows.shape[0])
    group = group_column(y, clients, groups, rows.shape[0])
    return assemble(recipe, split_rows(rows, target, clients, sample_weight, group))

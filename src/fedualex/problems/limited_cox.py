"""Cox regression while the losses of some groups are limited to a share of what they are without a model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..accepted import Column, Limits, Matrix, Number, Numbers
from ..arrays import Array, Reals, Values
from ..regularizers import Box
from ..summaries import Known, Summary
from ..tree import Saddle, Tree, cast_like
from ..validation import one_of, positive
from .base import AbstractProblem
from .constrained import (
    NO_WEIGHT,
    AbstractLagrangian,
    check_limits,
    find_groups,
    limited_groups,
    multiplier_bounds,
)
from .cox import CoxRecipe, Mixing, RiskLoss, bound_jacobians, check_events, find_losses, split_times, stratum
from .general import Problem
from .known import Floor, norm_of_blocks, total_mass
from .recipe import AbstractRecipe, Measure, assemble, built_from
from .risk_sets import Shares
from .rows import Data, Rows, scores_at


class LimitedLikelihood(RiskLoss, AbstractLagrangian):
    """(objective + <lam, factors> of its group) times the loss of every event, - <lam, limits>.

    Group 0 of an example has no limit, group g the multiplier number g - 1. factors: the weight of all rows over what
    the losses of a group add up to at w = 0.
    """

    factors: Numbers
    objective: Number = 1.0

    def __call__(self, x: Tree, y: Tree, example: Tree) -> Array:
        lam = y["multipliers"]
        own = jnp.concatenate([jnp.zeros(1, lam.dtype), cast_like(self.factors, lam) * lam])
        q = cast_like(self.objective, lam) + own
        losses = find_losses(x, example)
        return jnp.vdot(example["event"] * q[example["group"]], losses) - jnp.vdot(lam, cast_like(self.limits, lam))

    def without_objective(self) -> "LimitedLikelihood":
        """With events that count by multipliers alone."""
        return replace(self, objective=0.0)

    def make_mixing(self, size: int) -> Mixing:
        """Of all events and of each limited group."""
        matrix = np.concatenate([np.zeros((1, size)), np.diag(np.asarray(self.factors, float))])
        return Mixing(np.full(1 + size, float(self.objective)), matrix, -np.asarray(self.limits, float))

    def jacobian_bound(self, examples: Tree, problem: AbstractProblem) -> float:
        """Of the blocks xx, at the largest multipliers, and xy, its columns added by their squares."""
        most = np.asarray(problem.geometry.parts.y["multipliers"].regularizer.upper, float)
        mixing = self.make_mixing(most.size)
        curved, sloped = bound_jacobians(examples, 1 + most.size)
        return norm_of_blocks(float(mixing.at(most) @ curved), float(np.linalg.norm(sloped @ mixing.matrix)))


@dataclass(frozen=True, eq=False)
class LimitedCoxRecipe(CoxRecipe):
    """`limited_cox` without data, in two exchanges: groups, then events and losses at w = 0.

    limits, multiplier: as for `fx.problems.limited_cox`. The group of a row is what `Rows` says.
    """

    limits: Limits = 1.0
    multiplier: Number | None = None
    exchanges: ClassVar[int] = 2
    row_groups: ClassVar[bool] = True
    measure: ClassVar[Measure] = "limited"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_limits(self.limits)
        if self.multiplier is not None:
            positive("multiplier", self.multiplier)

    @property
    def unlimited(self) -> AbstractRecipe:
        """Its objective counts all events."""
        return replace(self, multiplier=NO_WEIGHT)

    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """Names of groups, then sums over events."""
        if not known:
            return self.opening(rows, client, labels={"groups": rows.labels(find_groups(rows))})
        own, order = stratum(rows)
        number, counts = self._sort_numbers(rows, known, client, order), own.event * own.weight
        sums = {"group_events": self._add_up(number, counts, known), "row_sum": rows.shares @ rows.X}
        return Summary(sums={**sums, "group_null": self._add_up(number, counts * own.null, known)})

    def problem(self, known: Sequence[Known], data: Data) -> Problem:
        """The bounds of `limited_cox`."""
        events, null, tau = known[1]["group_events"], known[1]["group_null"], self.limits_of(known)
        check_events(float(events[0]))
        if np.any(null[1:] <= 0):
            limited, _ = limited_groups(known[0]["groups"], self.limits)
            lost = known[0]["groups"][limited[int(np.argmax(null[1:] <= 0))]]
            raise ValueError(
                f"every group with a limit must have an event while other rows are at risk, by which its loss is "
                f"measured, but group {lost} has none"
            )
        least = float(null[0]) / total_mass(known)
        bound = multiplier_bounds(np.array([[least, *np.ones(tau.size)]]), tau, self.multiplier)
        ball = self._penalty().ball(least + float(np.maximum(1 - tau, 0) @ bound))
        features, zero = known[1]["row_sum"].size, {"multipliers": np.zeros(tau.size)}
        return self._build(
            LimitedLikelihood(tau, self.multiplier is None, total_mass(known) / null[1:]),
            known,
            data,
            x={"weights": self._penalty().regularizer(ball, (features,))},
            y={"multipliers": Box(lower=np.zeros_like(bound), upper=bound)},
            like=Saddle({"weights": np.zeros(features)}, zero),
            floor=Floor(zero, 0.0, each=True),
        )

    def held_out_parts(self, known: Sequence[Known]) -> int:
        """All events, and those of each limited group."""
        return 1 + self.limits_of(known).size

    def limits_of(self, known: Sequence[Known]) -> Reals:
        """Those of the limited groups."""
        return limited_groups(known[0]["groups"], self.limits)[1]

    def weigh_events(
        self, rows: Rows, known: Sequence[Known], client: int, order: NDArray[np.intp], y: Values
    ) -> Reals:
        """1, and the multiplier of its group with what that is the factor of."""
        q = 1 + np.append(0.0, total_mass(known) / known[1]["group_null"][1:] * np.asarray(y, float))
        return np.asarray(q[self._sort_numbers(rows, known, client, order)])

    def _losses(self, rows: Rows, known: Sequence[Known], client: int, points: Sequence[Tree]) -> tuple[Reals, Reals]:
        """Groups weigh what their events lose at w = 0, so that means are shares of that."""
        own, order = stratum(rows)
        parts = self.held_out_parts(known)
        if not own.event.any():
            return np.zeros(parts), np.zeros((len(points), parts))
        counts, number = own.event * own.weight, self._sort_numbers(rows, known, client, order)
        units = self._add_up(number, counts * own.null, known)
        units[0] = counts.sum()
        each = [counts * (Shares(own, scores).losses(own) - own.null) for scores in scores_at(own.rows, points)]
        return units, np.stack([self._add_up(number, losses, known) for losses in each])

    def _level(self, known: Sequence[Known]) -> Reals:
        """The mean loss at w = 0, of which groups have theirs as the unit."""
        level = float(known[1]["group_null"][0] / known[1]["group_events"][0])
        return np.array([level, *np.ones(self.limits_of(known).size)])

    def _example(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, Reals]:
        _, order = stratum(rows)
        number = self._sort_numbers(rows, known, client, order)
        return {**super()._example(rows, known, client), "group": number.astype(np.int32)}

    def _numbers(self, rows: Rows, known: Sequence[Known], client: int) -> NDArray[np.integer]:
        """0 without a limit, else the place among the limited groups, from 1 on."""
        names = known[0]["groups"]
        limited, _ = limited_groups(names, self.limits)
        place = np.zeros(names.size, np.intp)
        place[limited] = 1 + np.arange(limited.size)
        return np.asarray(place[rows.numbers(find_groups(rows), names)])

    def _add_up(self, number: NDArray[np.integer], values: Reals, known: Sequence[Known]) -> Reals:
        """Over all events, and over those of each limited group."""
        sums = np.bincount(number, values, self.held_out_parts(known))
        sums[0] = values.sum()
        return sums


@built_from("X", "time", "event", "clients", recipe=LimitedCoxRecipe)
def limited_cox(
    X: Matrix,
    time: Column,
    event: Column,
    clients: Column,
    *,
    limits: Limits,
    groups: Column | str = "clients",
    l1: Number = 0.0,
    l2: Number = 0.0,
    radius: Number | None = None,
    multiplier: Number | None = None,
    sample_weight: Numbers | None = None,
) -> Problem:
    """min_w `cox` subject to (sum of loss_e(w) over the events of g) / (the same at w = 0) <= limit_g for limited g.

    loss_e is that of `cox`, with strata by client whatever the groups are. A limit is a share of what a group loses
    without a model: 1 allows no group to be worse off than without one, 0.9 asks that it gains a tenth (a pseudo R^2
    of 0.1, as McFadden's). X, time, event, sample_weight: as for `cox`.
    groups: "clients", or for each row its group. limits, l1, l2, radius: as for `constrained`. The saddle point is
    that of the Lagrangian, y = {"multipliers": lam}, limited groups in sorted order:

        min_w max_{0 <= lam_g <= bound_g}  cox(w) + sum_g lam_g (share_g(w) - limit_g) + penalty(w).

    Bounds. All shares are 1 at w = 0. If all limits are above 1, bound_g = cox(0) / (limit_g - 1), as for
    `constrained`; else multiplier= must be given, and the limits may be infeasible (`phase_one`). The penalty of a
    solution is at most the maximum over lam at w = 0. At lam = 0 the Lagrangian is cox >= 0, which is its floor.
    """
    recipe = LimitedCoxRecipe(l1, l2, radius=radius, limits=limits, multiplier=multiplier)
    given = clients if isinstance(groups, str) and one_of("groups", groups, ("clients",)) else groups
    return assemble(recipe, split_times(X, time, event, clients, sample_weight, given))

"""Cox regression whose strata are the clients: risk sets never cross a client, and only sums leave it."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..accepted import Column, Matrix, Number, Numbers
from ..arrays import Array, Reals, Values
from ..certificates.surveys import Curvature, Minorant, Surveyed
from ..summaries import Known, Summary
from ..tree import Saddle, Tree, cast_like
from ..validation import issparse, of_type, real_array
from .agnostic import checked_prior, checked_spread, mixtures, reference
from .base import AbstractProblem
from .curvature import Columns, Surveyor, reshape_like, score_vectors
from .general import Problem
from .known import Floor, Penalty, Smooth, norm_of_blocks, total_mass
from .readings import Reading, RiskReading
from .recipe import AbstractRecipe, Measure, assemble, built_from
from .risk_sets import RiskSets, Shares, StepCut, cut_of_step, second_of, slope_of
from .rows import Data, Rows, features, label_column, padded_length, scores_at, split_rows, targets

TINY = 1e-12
"""By how much a floor is lowered, relative to its size, for the rounding of the sums that it is made of."""


def times_and_events(y: object, rows: int, name: str = "y") -> NDArray[np.float64]:
    """(rows, 2) of times >= 0 and events, which are 0 or 1; refused by row and value otherwise."""
    pairs = real_array(name, y, f"{rows} pairs of a time and an event", truth=True)
    if pairs.shape != (rows, 2):
        raise ValueError(f"{name} must hold a time and an event for each of {rows} rows, got shape {pairs.shape}")
    for column, words, wrong in (
        ("time", "a number >= 0", ~(pairs[:, 0] >= 0)),
        ("event", "0, if the row was last seen then without it, or 1", ~np.isin(pairs[:, 1], (0, 1))),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            value = pairs[row, int(column == "event")]
            raise ValueError(f"the {column} of every row must be {words}, got {value:g} in row {row + 1} of {rows}")
    return np.asarray(pairs, float)


# One client's stratum as one example: all that a loss of rows cannot be.


class Mixing(NamedTuple):
    """How the y of a problem, as a vector, weighs groups of events: q = base + matrix y; f has <level, y> beside."""

    base: Reals
    matrix: Reals
    level: Reals

    @classmethod
    def none(cls) -> "Mixing":
        """Of one group, without y."""
        return cls(np.ones(1), np.zeros((1, 0)), np.zeros(0))

    def at(self, y: Reals) -> Reals:
        """q, by group."""
        return np.asarray(self.base + self.matrix @ y)


class RiskLoss(Smooth):
    """sum_e q_e c_e (log(sum over the risk set of weight exp(<w, row>)) - <w, row_e> - log weight_e - null_e) of a
    whole stratum, with q that of the group of e.

    An example has {"row", "event", "weight", "last"}, as `RiskSets` orders rows, where "event" has the coefficients c;
    of groups "group", and "null" where losses are less something. Rows after the last risk set are padding.
    """

    @abstractmethod
    def __call__(self, x: Tree, *beside: Tree) -> Array:
        """beside: y where there is one, and an example."""

    @abstractmethod
    def make_mixing(self, size: int) -> Mixing:
        """The weights of groups. size: the number of entries of y."""

    def surveyor(self, problem: Problem) -> "RiskSurveyor | None":
        """In closed form, where the data is here."""
        if problem.data is None or not problem.clients:
            return None
        examples = problem.data.examples
        each = (jax.tree.map(lambda leaf, m=m: np.asarray(leaf[m, 0]), examples) for m in range(problem.clients))
        return RiskSurveyor(
            problem, self, np.asarray(problem.weights, float).tolist(), [find_events(one) for one in each]
        )


def find_losses(x: Tree, example: Tree) -> Array:
    """The loss of every row as if it had an event, without "null"."""
    score = example["row"] @ x["weights"] + jnp.log(example["weight"])
    return jax.lax.cumlogsumexp(score)[example["last"]] - score


def bound_jacobians(examples: Tree, groups: int) -> tuple[Reals, Reals]:
    """Of the events of each group, at q = 1: a bound of the second derivative, and one of the slope.

    A covariance of rows of norm <= r is at most r^2, a slope at most 2 r. examples: the strata of one client.
    """
    each = (jax.tree.map(lambda leaf, k=k: np.asarray(leaf[k]), examples) for k in range(len(examples["event"])))
    bounds = [find_events(one) for one in each]
    group = np.concatenate([own.group for own in bounds])
    curved = np.bincount(group, np.concatenate([own.counts * own.risk.reach**2 for own in bounds]), groups)
    sloped = np.bincount(group, np.concatenate([own.counts * 2 * own.risk.reach for own in bounds]), groups)
    return curved / len(bounds), sloped / len(bounds)


class PartialLikelihood(RiskLoss):
    """All events alike, or with y their groups by q = (1 - spread) y + spread prior.

    With y every loss is less "null", what it is at w = 0 up to a constant.
    """

    spread: Number = 0.0
    prior: Numbers | None = None

    def __call__(self, x: Tree, *beside: Tree) -> Array:
        *y, example = beside
        losses = find_losses(x, example)
        if not y:
            return jnp.vdot(example["event"], losses)
        return jnp.vdot(example["event"] * self.shares(y[0])[example["group"]], losses - example["null"])

    def shares(self, y: Array) -> Array:
        """q of one mixture, or of several one below the other."""
        if self.prior is None:
            return y
        return (1 - cast_like(self.spread, y)) * y + cast_like(self.spread, y) * cast_like(self.prior, y)

    def make_mixing(self, size: int) -> Mixing:
        """q as a function of y."""
        if not size:
            return Mixing.none()
        spread = 0.0 if self.prior is None else float(self.spread)
        prior = np.zeros(size) if self.prior is None else np.asarray(self.prior, float)
        return Mixing(spread * prior, (1 - spread) * np.eye(size), np.zeros(size))

    def jacobian_bound(self, examples: Tree, problem: AbstractProblem) -> float:
        """Of the blocks xx and xy."""
        if problem.like.y is None:
            return float(bound_jacobians(examples, 1)[0].sum())
        curved, sloped = bound_jacobians(examples, problem.like.y.size)
        return norm_of_blocks(float(curved.max()), (1 - float(self.spread)) * float(sloped.max()))


class Events(NamedTuple):
    """A stratum, the coefficient of each row's loss, its group, and what its loss is less by."""

    risk: RiskSets
    counts: NDArray[np.float64]
    group: NDArray[np.intp]
    null: NDArray[np.float64]


def find_events(example: Mapping[str, Reals]) -> Events:
    """The events of one stratum, without padding."""
    used = np.arange(int(np.max(np.where(example["event"] > 0, example["last"], -1), initial=-1)) + 1)
    count, last = np.asarray(example["event"], float)[used], np.asarray(example["last"], np.intp)[used]
    row, weight = (np.asarray(example[name], float)[used] for name in ("row", "weight"))
    risk = RiskSets(row, (count > 0) * 1.0, weight, last)
    group = np.asarray(example["group"], np.intp)[used] if "group" in example else np.zeros(len(used), np.intp)
    null = np.asarray(example["null"], float)[used] if "null" in example else np.zeros(len(used))
    return Events(risk, count, group, null)


class RiskSurveyor(Surveyor):
    """Values, operators, second derivatives and dual cuts of strata, from sums that grow over rows."""

    def __init__(self, problem: Problem, f: RiskLoss, weights: list[float], parts: list[Events]):
        super().__init__(problem)
        self.f, self.weights, self.parts = f, weights, parts

    def survey(
        self, z: Saddle, *, curvature: bool = False, start: Saddle | None = None, columns: Columns = None
    ) -> Surveyed:
        """Added up over clients."""
        x, y = score_vectors(self.problem.like, z)
        begun = None if start is None else score_vectors(self.problem.like, start)
        mixing = self.f.make_mixing(y.size)
        total = _Totals(len(x), mixing, curvature, np.arange(len(x)) if columns is None else columns)
        for weight, own in zip(self.weights, self.parts, strict=True):
            plain = weight * own.counts
            if not np.any(plain):
                continue
            counts, scores = plain * mixing.at(y)[own.group], own.risk.rows @ x[:, 0]
            shares = Shares(own.risk, scores)
            total.add(own, shares, counts)
            if y.size:
                total.add_groups(own, shares, plain)
            if begun is not None:
                before = plain * mixing.at(begun[1])[own.group]
                total.add_cut(
                    own, cut_of_step(own.risk, own.risk.rows @ begun[0][:, 0], scores, before, counts), counts
                )
        return total.to_survey(self.problem.like, y, begun is not None)


class _Totals:
    """What is added up over clients. kept: the entries of x among which second derivatives are wanted."""

    def __init__(self, size: int, mixing: Mixing, curvature: bool, kept: NDArray[np.intp]):
        self.mixing, groups = mixing, len(mixing.base)
        self.value, self.slope, self.of_groups, self.kept = 0.0, np.zeros(size), np.zeros(groups), kept
        self.cut, self.offset, self.curvature = np.zeros(size), 0.0, curvature
        self.xx, self.slopes_of_groups = np.zeros((kept.size, kept.size)), np.zeros((groups, kept.size))

    def add(self, own: Events, shares: Shares, counts: Reals) -> None:
        """Value and slope, and second derivatives where they are wanted."""
        self.value += float(counts @ (shares.losses(own.risk) - own.null))
        self.slope += slope_of(own.risk, shares, counts)
        if self.curvature:
            self.xx += second_of(own.risk.rows[:, self.kept], shares, counts)

    def add_groups(self, own: Events, shares: Shares, counts: Reals) -> None:
        """Values and slopes of each group of events that y weighs."""
        losses = shares.losses(own.risk) - own.null
        for g in np.unique(own.group):
            if not self.mixing.matrix[g].any():
                continue
            member = counts * (own.group == g)
            self.of_groups[g] += member @ losses
            if self.curvature:
                self.slopes_of_groups[g] += slope_of(own.risk, shares, member)[self.kept]

    def add_cut(self, own: Events, cut: StepCut, counts: Reals) -> None:
        """The cut of a step."""
        self.cut += cut.slope
        self.offset += cut.offset - float(counts @ own.null)

    def to_survey(self, like: Saddle, y: Reals, has_cut: bool) -> Surveyed:
        """In the shapes of the problem."""
        matrix, level = self.mixing.matrix, self.mixing.level
        beside = float(level @ y)
        y_slope = reshape_like(like.y, -(matrix.T @ self.of_groups + level))
        survey = Surveyed(Saddle(reshape_like(like.x, self.slope), y_slope), np.asarray(self.value + beside))
        if self.curvature:
            yx = matrix.T @ self.slopes_of_groups
            survey = survey._replace(curvature=Curvature((self.xx + self.xx.T) / 2, yx, np.zeros((y.size, y.size))))
        if has_cut:
            survey = survey._replace(cut=Minorant(reshape_like(like.x, self.cut), np.asarray(self.offset + beside)))
        return survey


# Recipes.


@dataclass(frozen=True, eq=False)
class CoxRecipe(AbstractRecipe):
    """`cox` without data, in one exchange: how many events there are, and what their losses add up to at w = 0.

    l1, l2, group, groups, radius: as for `fx.problems.cox`. Targets are (time, event).
    """

    l1: Number = 0.0
    l2: Number = 0.0
    group: Number = 0.0
    groups: Column | None = None
    radius: Number | None = None
    exchanges: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self._penalty()

    @property
    def reading(self) -> Reading:
        """Scores are logarithms of relative hazards."""
        return RiskReading()

    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        own, _ = stratum(rows)
        counts = own.event * own.weight
        sums = {"events": counts.sum(), "null": counts @ own.null, "row_sum": rows.shares @ rows.X}
        return self.opening(rows, client, sums={name: np.asarray(value) for name, value in sums.items()})

    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, object]:
        """One: all rows in the order of falling times."""
        return {name: value[None] for name, value in self._example(rows, known, client).items()}

    def problem(self, known: Sequence[Known], data: Data) -> Problem:
        """The bounds of `cox`."""
        total = total_mass(known)
        check_events(float(known[0]["events"]))
        budget, features = float(known[0]["null"]) / total, known[0]["row_sum"].size
        x = {"weights": self._penalty().regularizer(self._penalty().ball(budget), (features,))}
        like = Saddle({"weights": np.zeros(features)})
        return self._build(PartialLikelihood(), known, data, x=x, like=like, floor=Floor(None, 0.0, each=True))

    def held_out(self, rows: Rows, known: Sequence[Known], client: int, points: Sequence[Tree]) -> Reals:
        """As of rows beside which there are no others."""
        return self.held_out_of(rows, np.ones(len(rows.y), bool), known, client, points)

    def held_out_of(
        self, rows: Rows, left_out: NDArray[np.bool_], known: Sequence[Known], client: int, points: Sequence[Tree]
    ) -> Reals:
        """For each part the weight of the events among these rows, and the losses of all rows less those of the others.

        Losses are less those at w = 0, which differ by their number, plus the mean of these in training. So rows that
        are left out count with the risk sets of all rows (Verweij and van Houwelingen 1993): those of a fold alone are
        too small to tell much.
        """
        (weight, whole), (own, rest) = (
            self._losses(some, known, client, points) for some in (rows, rows.of(~left_out))
        )
        events = np.broadcast_to(weight - own, whole.shape)
        return np.stack([events, whole - rest + self._level(known) * events], axis=1)

    def _losses(self, rows: Rows, known: Sequence[Known], client: int, points: Sequence[Tree]) -> tuple[Reals, Reals]:
        """For each part the weight of its events, and at each point the sum of their losses less those at w = 0."""
        own, order = stratum(rows)
        parts = self.held_out_parts(known)
        if not own.event.any():
            return np.zeros(parts), np.zeros((len(points), parts))
        counts, number = own.event * own.weight, self._sort_numbers(rows, known, client, order)
        each = [counts * (Shares(own, scores).losses(own) - own.null) for scores in scores_at(own.rows, points)]
        return np.bincount(number, counts, parts), np.stack([np.bincount(number, losses, parts) for losses in each])

    def _example(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, Reals]:
        own, _ = stratum(rows)
        mass = rows.shares.sum()
        event = own.event * own.weight / mass if mass > 0 else np.zeros(len(own.event))
        return {"row": own.rows, "event": event, "weight": own.weight, "last": own.last.astype(np.int32)}

    def _build(self, f: RiskLoss, known: Sequence[Known], data: Any, **parts: Any) -> Problem:
        """Strata of one length, since clients are stacked."""
        if isinstance(data, str):
            return self.built(f, known, data, by_construction=True, **parts)
        length = padded_length(max(one["event"].shape[1] for one in data), len(data))
        padded = [{name: _pad(name, value, length) for name, value in one.items()} for one in data]
        return self.built(f, known, padded, by_construction=True, **parts)

    def _level(self, known: Sequence[Known]) -> float | Reals:
        """What is added to the held-out loss of every event, or of each unit of a part."""
        return float(known[0]["null"] / known[0]["events"])

    def _numbers(self, rows: Rows, known: Sequence[Known], client: int) -> NDArray[np.integer]:
        """The part that each row is of."""
        return np.zeros(len(rows.y), np.intp)

    def _sort_numbers(
        self, rows: Rows, known: Sequence[Known], client: int, order: NDArray[np.intp]
    ) -> NDArray[np.integer]:
        """The same in the order of `stratum`, of which there is one row at least."""
        return self._numbers(rows, known, client)[order] if len(order) else np.zeros(1, np.intp)

    def weigh_events(
        self, rows: Rows, known: Sequence[Known], client: int, order: NDArray[np.intp], y: Values
    ) -> Reals:
        """What an event of each row counts with at y, in the order of `stratum`."""
        return np.ones(max(len(order), 1))

    def _penalty(self) -> Penalty:
        return Penalty(self.l1, self.l2, self.radius, self.group, self.groups)


@dataclass(frozen=True, eq=False)
class FairCoxRecipe(CoxRecipe):
    """`fair_cox` without data, in two exchanges: groups, then events of each and their losses at w = 0.

    kl, prior, cvar, grouped, spread: as of `AgnosticRecipe`.
    """

    kl: Number = 0.0
    prior: Numbers | None = None
    cvar: Number | None = None
    grouped: bool = False
    spread: Number = 0.0
    exchanges: ClassVar[int] = 2
    row_groups: ClassVar[bool] = True
    measure: ClassVar[Measure] = "worst"

    def __post_init__(self) -> None:
        super().__post_init__()
        of_type("grouped", self.grouped, bool, "True or False")
        mixtures(self.kl, np.ones(1), self.cvar, self.prior is not None, checked_spread(self.spread))

    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """Names of groups, then sums over their events."""
        if not known:
            named = rows.labels(self._group_of(rows, client))
            return self.opening(rows, client, labels={"groups": named})
        own, order = stratum(rows)
        number, counts = self._sort_numbers(rows, known, client, order), own.event * own.weight
        parts = known[0]["groups"].size
        sums = {"group_events": np.bincount(number, counts, parts), "row_sum": rows.shares @ rows.X}
        return Summary(sums={**sums, "group_null": np.bincount(number, counts * own.null, parts)})

    def problem(self, known: Sequence[Known], data: Data) -> Problem:
        """The bounds of `fair_cox`."""
        events, groups = known[1]["group_events"], known[0]["groups"]
        check_events(events.sum())
        if np.any(events <= 0):
            kind = "group" if self.grouped else "client"
            lost = groups[int(np.argmax(events <= 0))]
            raise ValueError(
                f"every {kind} must have an event, by which its loss is measured, but {kind} {lost} has none"
            )
        prior, budget = self._prior(known), self._level(known)
        features = known[1]["row_sum"].size
        spread = checked_spread(self.spread)
        return self._build(
            PartialLikelihood(np.asarray(spread), prior if spread > 0 else None),
            known,
            data,
            x={"weights": self._penalty().regularizer(self._penalty().ball(budget), (features,))},
            y=mixtures(self.kl, prior, self.cvar, self.prior is not None, spread),
            like=Saddle({"weights": np.zeros(features)}, np.zeros(groups.size)),
            floor=Floor(self._reference(known)[0], -TINY * (1 + budget)),
        )

    def held_out_parts(self, known: Sequence[Known]) -> int:
        return int(known[0]["groups"].size)

    def _example(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, Reals]:
        own, order = stratum(rows)
        number = self._sort_numbers(rows, known, client, order)
        example = super()._example(rows, known, client)
        scale = (total_mass(known) / _replace_zeros(known[1]["group_events"]))[number]
        null = own.null - self._level(known)
        event = np.asarray(scale * example["event"])
        return {**example, "event": event, "group": number.astype(np.int32), "null": null}

    def _prior(self, known: Sequence[Known]) -> Reals:
        return checked_prior(self.prior, known[0]["groups"].size, "group" if self.grouped else "client")

    def _reference(self, known: Sequence[Known]) -> tuple[NDArray[Any], NDArray[Any]]:
        return reference(self._prior(known), self.cvar, checked_spread(self.spread))

    def _level(self, known: Sequence[Known]) -> float:
        """The mean loss at w = 0 of an event, at `reference`."""
        return float(self._reference(known)[1] @ (known[1]["group_null"] / _replace_zeros(known[1]["group_events"])))

    def _group_of(self, rows: Rows, client: int) -> Values:
        return np.full(len(rows.y), client) if rows.group is None or not self.grouped else rows.group

    def _numbers(self, rows: Rows, known: Sequence[Known], client: int) -> NDArray[np.integer]:
        return rows.numbers(self._group_of(rows, client), known[0]["groups"])


def stratum(rows: Rows) -> tuple[RiskSets, NDArray[np.intp]]:
    """Rows that weigh something in the order of `RiskSets`, and where they stood; of none one row without event."""
    used = np.flatnonzero(rows.shares > 0)
    if not used.size:
        own = RiskSets(np.zeros((1, rows.X.shape[1])), np.zeros(1), np.ones(1), np.zeros(1, np.intp))
        return own, used
    X = rows.X[used].toarray() if issparse(rows.X) else rows.X[used]
    time, event = np.asarray(rows.y, float)[used].T
    return RiskSets.of(X, time, event, rows.shares[used]), used[np.argsort(-time, kind="stable")]


def _replace_zeros(events: Reals) -> Reals:
    """Of groups without events, which `problem` refuses, one."""
    return np.where(events > 0, events, 1.0)


def check_events(events: float) -> None:
    """Refuse rows without any event."""
    if not events > 0:
        raise ValueError("some row must have an event, but every row of every client is censored (its event is 0)")


def _pad(name: str, value: Reals, length: int) -> Reals:
    """Rows after the last risk set: in none, and without an event."""
    more = [(0, 0), (0, length - value.shape[1]), *[(0, 0)] * (value.ndim - 2)]
    return np.pad(value, more, constant_values=1 if name == "weight" else 0)


@built_from("X", "time", "event", "clients", recipe=CoxRecipe)
def cox(
    X: Matrix,
    time: Column,
    event: Column,
    clients: Column | None = None,
    *,
    l1: Number = 0.0,
    l2: Number = 0.0,
    group: Number = 0.0,
    groups: Column | None = None,
    radius: Number | None = None,
    sample_weight: Numbers | None = None,
) -> Problem:
    """min_w (1/n) sum over events e of log(sum_{j in R_e} exp(<w, X_j - X_e>)) + l1 ||w||_1 + l2/2 ||w||^2 + groups.

    Cox's partial likelihood, stratified by clients: R_e are the rows of the client of e that were under observation
    when e happened, so that no risk set crosses a client. Events of one time have the same risk set (Breslow's ties).
    time: 0 or more, until the event or until the row was last seen. event: 1 or 0. n: the number of all rows.
    clients: for each row, whose it is; None is one client, and so one stratum. sample_weight: v_j >= 0 for each row, of
    which the sum has v_j exp(<w, X_j>), events count v_e, and n is the sum. l1, l2, group, groups: as of `sparse_glm`.
    x = {"weights": w}. There is no intercept, which no risk set would notice, and no y.

    Bounds. Each event's loss is >= 0, so the floor is 0, and the loss at w = 0, the mean of log |R_e|, bounds the
    penalty of a solution: w is in the ball of `Penalty`.
    """
    recipe = CoxRecipe(l1, l2, group, groups, radius)
    return assemble(recipe, split_times(X, time, event, clients, sample_weight))


@built_from("X", "time", "event", "clients", recipe=FairCoxRecipe)
def fair_cox(
    X: Matrix,
    time: Column,
    event: Column,
    clients: Column,
    *,
    l1: Number = 0.0,
    l2: Number = 0.0,
    radius: Number | None = None,
    kl: Number = 0.0,
    prior: Numbers | None = None,
    cvar: Number | None = None,
    groups: Column | None = None,
    sample_weight: Numbers | None = None,
    spread: Number = 0.0,
) -> Problem:
    """min_w max_y F + sum_g q_g (mean over events e of group g of loss_e(w) - loss_e(0)) + penalty - kl KL(y, prior).

    loss_e is that of `cox`, with strata by client whatever the groups are. It is taken less its value without a model,
    the logarithm of the size of the risk set: otherwise the largest client would be the worst one. So the worst group
    is the one for which the model gains least. F is the mean of loss_e(0) at the prior, a constant.
    X, time, event, sample_weight: as for `cox`. groups: for each row its group; clients are the groups without it.
    l1, l2, radius, kl, prior, cvar, spread: as for `agnostic`; y is in the simplex of groups.

    Bounds. At w = 0 f is F for every y, and at the prior it is >= 0, since losses are: the floor. So the penalty of a
    solution is at most F. With cvar, whose cap may exclude y = prior, read q where all y_m are alike for the prior.
    """
    recipe = FairCoxRecipe(
        l1, l2, radius=radius, kl=kl, prior=prior, cvar=cvar, grouped=groups is not None, spread=spread
    )
    return assemble(recipe, split_times(X, time, event, clients, sample_weight, groups))


def split_times(
    X: object, time: object, event: object, clients: Column | None, weight: Numbers | None, groups: object = None
) -> list[Rows]:
    """The rows of each client, whose targets are (time, event)."""
    rows = features(X)
    pairs = np.stack([targets(own, rows.shape[0], name) for name, own in (("time", time), ("event", event))], axis=-1)
    y = times_and_events(pairs, rows.shape[0], "(time, event)")
    group = None if groups is None else label_column("groups", groups, rows.shape[0])
    return split_rows(rows, y, clients, weight, group)

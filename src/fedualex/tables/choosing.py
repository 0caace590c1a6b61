"""The penalty, chosen on held-out rows: a path of values, each solved and certified with and without every fold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from numpy.typing import NDArray

from ..algorithms.base import Survey
from ..algorithms.newton import Place
from ..arrays import Reals
from ..certificates.surveys import Surveyed
from ..model_problem.lasso import solve_lasso_path
from ..problems import AbstractRecipe, Problem
from ..problems.rows import Rows
from ..runtime.lockstep import NUMBERS, Member, Quadratic, Solved, is_quadratic, solve_together
from ..summaries import Known, merge_summaries
from ..tree import Saddle
from .folds import HELD_OUT, FoldedRows, FoldsError, added_surveys, check_folds, fold_of, known_by_fold

Rule = Literal["one-standard-error", "best"]
COUNT, FOLDS = 30, 5
SHARE, WIDE_SHARE = 1e-3, 1e-2
"""The least value of a path as a share of its largest; the second where there are fewer rows than columns."""
STRIDE = 4
"""Every STRIDE-th value of the path of all rows is solved first; those between start from these."""
HUGE = 1e6
"""The penalty of the null model at first. Where a weight is worth having there, so many times the least one without."""
TOL, MOST = 1e-6, 400
"""The gap at which an answer of the path ends, as a share of the null model's loss; the most exchanges of a search."""
NULL = 1e-5
"""The gap of the null model, from whose slope all values follow, as a share of that one."""
UNRELATED = 1e-10
"""A slope below this share of what it can be at most is rounding: the feature tells nothing."""
STRONG, RIDGE_SHARE = 10.0, 1e-5
"""The largest l2 of a path, in units of the sum of all curvatures without a model: every direction is then shrunk by
this factor at least. And the least value as a share of it."""
ROOM = 1e-6
"""By how much the largest value is above what the null model says, which is known up to its own gap."""
NONZERO = 1e-9
"""A weight counts from this size on, as a share of the largest."""

# The values that are tried.


def penalty_grid(largest: float, count: int = COUNT, share: float = SHARE) -> NDArray[np.float64]:
    """`count` values from `largest` down to `share` times it, each the same part of the one before."""
    if not (np.isfinite(largest) and largest > 0):
        raise ValueError(f"the largest penalty must be a finite number > 0, got {largest}: no feature tells anything")
    return np.asarray(largest * share ** (np.arange(count) / max(count - 1, 1)))


def share_of(rows: float, columns: int) -> float:
    """The least value of a path as a share of its largest."""
    return WIDE_SHARE if rows < columns else SHARE


def penalty_name(recipe: AbstractRecipe) -> str:
    """The argument that is chosen: `nuclear` where a recipe has it, `group` where weights have groups, else `l1`."""
    names = {one.name for one in fields(recipe)}  # type: ignore[arg-type]
    if "nuclear" in names:
        return "nuclear"
    return "group" if getattr(recipe, "groups", None) is not None else "l1"


def least_zero_penalty(recipe: AbstractRecipe, slope: Reals) -> float:
    """The dual norm of the slope by the weights: the least penalty at which no weight is worth having."""
    kind = penalty_name(recipe)
    if kind == "nuclear":
        return float(np.linalg.norm(slope, 2))
    if kind == "l1":
        return float(np.max(np.abs(slope)))
    _, group = np.unique(np.asarray(getattr(recipe, "groups")), return_inverse=True)  # noqa: B009
    squares = np.bincount(group, np.sum(np.square(slope).reshape(len(group), -1), axis=1))
    sizes = np.bincount(group) * (slope.size // len(group))
    return float(np.max(np.sqrt(squares / sizes)))


# Which value is chosen.


@dataclass(frozen=True)
class Curve:
    """What was measured on held-out rows at each value, and which value was chosen.

    values: falling. measure, error: the mean over folds and its standard error. excess: by how much limits are exceeded
    on held-out rows, less one standard error; 0 where there are none. nonzeros: of the model of all rows. gaps: the
    largest certified gap of a value, of all folds and of all rows. tol: the gap at which a fit ends; missed: how many
    of the fits did not reach it. what: what is measured. said: what a person should know beside.
    """

    name: str
    values: list[float]
    measure: list[float]
    error: list[float]
    excess: list[float]
    nonzeros: list[int]
    gaps: list[float]
    tol: float
    missed: int
    folds: int
    exchanges: int
    what: str
    rule: Rule
    best: int
    chosen: int
    said: str = ""

    @property
    def value(self) -> float:
        """The value that was chosen."""
        return self.values[self.chosen]

    @property
    def short(self) -> str:
        """A sentence: what was chosen, and among what."""
        tried = f"among the {len(self.values)} values tried"
        return f"{self.name} = {self.value:.4g}, chosen by held-out rows ({self.folds} folds) {tried}."

    @property
    def more(self) -> str:
        """Sentences: why it was chosen, and what a reader should know beside."""
        own, best, fits = f"{self.measure[self.chosen]:.4g}", self.best, len(self.values) * (self.folds + 1)
        missed = f" {self.missed} of the {fits} fits ended at a gap above {self.tol:.1g}." if self.missed else ""
        why = f"Its {self.what} on these rows, {own}, is the least."
        if best != self.chosen:
            why = f"It is the largest whose {self.what} on these rows ({own}) is within one standard error "
            why += f"({self.error[best]:.2g}) of the least ({self.measure[best]:.4g}, at {self.name} = "
            why += f"{self.values[best]:.4g})."
        return f"{self.said or why}{missed}"

    @property
    def sentence(self) -> str:
        """`short` and `more` together."""
        return f"{self.short} {self.more}"

    def plain(self) -> dict[str, Any]:
        """The curve as JSON data."""
        return asdict(self)

    @classmethod
    def read(cls, plain: dict[str, Any]) -> "Curve":
        """The curve from what `plain` returned."""
        return cls(**{one.name: plain[one.name] for one in fields(cls)})


class Measured(NamedTuple):
    """Of each value: the measure, its standard error over folds, and by how much limits are exceeded."""

    mean: Reals
    error: Reals
    excess: Reals
    what: str


def rule_of(recipe: AbstractRecipe) -> Rule:
    """One standard error, but the least for the worst group: its few rows make an error so wide that the rule would
    give up what the group gains (docs/penalty.md).
    """
    return "best" if recipe.measure == "worst" else "one-standard-error"


def choose(measured: Measured, rule: Rule, certified: NDArray[np.bool_] | None = None) -> tuple[int, int, str]:
    """The index of the best value, of the chosen one, and what should be said: values fall, so the first is largest.

    certified: which values may be chosen; all unless given, or if it is none. Where limits are exceeded at every value,
    the one that exceeds them least is both.
    """
    if rule not in ("one-standard-error", "best"):
        raise ValueError(f"the rule must be 'one-standard-error' or 'best', got {rule!r}")
    able = np.ones(len(measured.mean), bool) if certified is None or not certified.any() else certified
    fine = able & (measured.excess <= 0)
    if not fine.any():
        least = int(np.argmin(np.where(able, measured.excess, np.inf)))
        return least, least, "No value keeps the limit on held-out rows; this one exceeds it least."
    mean = np.where(fine, measured.mean, np.inf)
    best = int(np.argmin(mean))
    within = mean <= mean[best] + measured.error[best]
    return best, best if rule == "best" else int(np.argmax(within)), ""


def measure_folds(recipe: AbstractRecipe, known: Sequence[Known], sums: Reals) -> Measured:
    """The measure of a recipe from the sums of `held_out`, of shape (folds, values, 2, parts)."""
    mass, total = sums[:, 0, 0], np.moveaxis(sums[:, :, 1], 0, 1)  # (folds, parts), (values, folds, parts)
    pooled, error = _pool(mass, total)
    values, nothing = np.arange(len(pooled)), np.zeros(len(pooled))
    if recipe.measure == "mean":
        what = "1 - AUC" if recipe.bias_is_known else "mean loss"
        return Measured(pooled[:, 0], error[:, 0], nothing, what)
    if recipe.measure == "worst":
        worst = np.argmax(pooled, axis=1)
        return Measured(pooled[values, worst], error[values, worst], nothing, "loss of the worst group")
    over = pooled[:, 1:] - recipe.limits_of(known) - error[:, 1:]
    return Measured(pooled[:, 0], error[:, 0], np.maximum(over.max(axis=1), 0.0), "loss under the limit")


def _pool(mass: Reals, total: Reals) -> tuple[Reals, Reals]:
    """The mean of each value and part over all held-out rows, and its standard error over the folds that have some.

    Folds count by the weight of their rows in both, as in glmnet: the error is the root of the weighted mean of squared
    deviations of folds over (folds - 1).
    """
    there = mass > 0
    counts = there.sum(axis=0)
    if np.any(counts < 2):
        raise FoldsError(
            "every group and class must have held-out rows in two folds at least: choose a penalty by hand"
        )
    pooled, share = total.sum(axis=1) / mass.sum(axis=0), mass / mass.sum(axis=0)
    each = np.where(there, total / np.where(there, mass, 1.0), pooled[:, None])
    spread = np.sum(share * (each - pooled[:, None]) ** 2, axis=1)
    return pooled, np.sqrt(spread / (counts - 1))


# Parties that are asked, in this process or elsewhere.


@runtime_checkable
class Parties(Protocol):
    """All parties together. `summaries`, `surveys` and `measure_held_out` are one exchange each."""

    @property
    def folds(self) -> int:
        """How many there are."""
        ...

    def summaries(self, known: Sequence[Sequence[Known]]) -> Known:
        """The summaries of all parties' `FoldedRows.summarize`, merged; known: of each loss, so far."""
        ...

    def settle(self, known: Sequence[Sequence[Known]]) -> None:
        """Tell parties what all summaries became; it travels with the next exchange."""
        ...

    def surveys(self, requests: Sequence[tuple[int, Survey]]) -> list[list[Surveyed]]:
        """The parts of all parties' `FoldedRows.survey`, by `added_surveys`."""
        ...

    def measure_held_out(self, requests: Sequence[tuple[int, Any]]) -> Known:
        """The summaries of all parties' `FoldedRows.measure_held_out`, merged."""
        ...


class PartiesHere:
    """Parties whose rows are in this process, in the order of their numbers."""

    def __init__(self, members: Sequence[FoldedRows]):
        self.members, self.folds = members, members[0].folds

    def summaries(self, known: Sequence[Sequence[Known]]) -> Known:
        """The merged summaries of all parties."""
        return merge_summaries(party.summarize(known) for party in self.members)

    def settle(self, known: Sequence[Sequence[Known]]) -> None:
        for party in self.members:
            party.settle(known)

    def surveys(self, requests: Sequence[tuple[int, Survey]]) -> list[list[Surveyed]]:
        """The surveys of all parties, added up."""
        return added_surveys(party.survey(requests) for party in self.members)

    def measure_held_out(self, requests: Sequence[tuple[int, Any]]) -> Known:
        """The merged sums of all parties over held-out rows."""
        return merge_summaries(party.measure_held_out(requests) for party in self.members)


def fold_rows(
    recipe: AbstractRecipe,
    parts: Sequence[Rows],
    *,
    folds: int | Literal["sites"] = FOLDS,
    seed: int = 0,
    names: Sequence[str] | None = None,
) -> PartiesHere:
    """Rows of parties in folds.

    folds: how many, or "sites" to leave one party out at a time. seed: by which rows are assigned to folds. names: of
    the parties.
    """
    sites, names = folds == "sites", names or [f"client {m}" for m in range(len(parts))]
    count, members = checked_folds(folds, len(parts)), []
    for m, (name, rows) in enumerate(zip(names, parts, strict=True)):
        number = np.full(len(rows.y), m) if sites else fold_of(len(rows.y), name, count, seed)
        members.append(FoldedRows(recipe, rows, number, count, m, name, sites=sites))
    return PartiesHere(members)


def checked_folds(folds: object, parties: int) -> int:
    """How many folds there are."""
    if folds == "sites":
        if parties < 3:
            raise FoldsError(f"folds='sites' leaves one site out at a time and needs at least three, got {parties}")
        return parties
    if not isinstance(folds, int) or folds < 2:
        raise ValueError(f"folds must be a whole number >= 2, or 'sites', got {folds!r}")
    return folds


# The search.

Pair = tuple[int, int]
"""A loss and a value, by their numbers."""


class Search(NamedTuple):
    """The curve, and for every value the answer with all rows; known: what all rows add up to."""

    curve: Curve
    solved: list[Solved]
    known: list[Known]


def search(
    recipe: AbstractRecipe,
    parties: Parties,
    *,
    name: str = "",
    tol: float = TOL,
    rule: Rule | None = None,
    count: int = COUNT,
    share: float | None = None,
    most_exchanges: int = MOST,
    numbers_per_exchange: float | int = NUMBERS,
    sum_error: float = 0.0,
    announce: Callable[[str], None] = lambda text: None,
) -> Search:
    """The penalty of a recipe, chosen on held-out rows among `count` values.

    recipe: with any penalty, which is replaced. name: of the penalty, that of `penalty_name` if left out. tol: the gap
    at which an answer of the path ends, as a share of the loss of the null model. rule: `rule_of` the recipe unless
    given. share: of the largest value, the least one; as `share_of` says unless given. announce: is told of each
    exchange. The other arguments are those of `solve_together`.
    """
    walk = _Search(
        recipe, parties, name or penalty_name(recipe), most_exchanges, numbers_per_exchange, sum_error, announce
    )
    null = walk.begin(tol)
    values, said = walk.values(null, count, share)
    walk.fits = len(values) * (parties.folds + 1)
    path = walk.path(values, null.place)
    curve = walk.curve(values, [*walk.solve_folds(values, path), path], rule or rule_of(recipe), said)
    return Search(curve, path, walk.known[-1])


def count_nonzeros(recipe: AbstractRecipe, weights: Reals) -> int:
    """How many weights are not 0; for a nuclear norm, the rank."""
    sizes = np.linalg.svd(weights, compute_uv=False) if penalty_name(recipe) == "nuclear" else np.abs(weights)
    return int(np.sum(sizes > NONZERO * max(1.0, float(np.max(sizes)))))


class _Search:
    """The exchanges of a search, counted. fits: how many there are; met: how many of them are within tol."""

    def __init__(
        self,
        recipe: AbstractRecipe,
        parties: Parties,
        name: str,
        most_exchanges: int,
        numbers_per_exchange: float | int,
        sum_error: float,
        announce: Callable[[str], None],
    ):
        self.recipe, self.parties, self.name = recipe, parties, name
        self.most, self.numbers, self.sum_error = most_exchanges, numbers_per_exchange, sum_error
        self.announce, self.exchanges, self.fits, self.met, self.tol = announce, 0, 0, 0, 0.0
        self.known: list[list[Known]] = [[] for _ in range(parties.folds + 1)]
        self.quadratics: list[Quadratic] = []
        self.by_active_sets = self.name == "l1" and getattr(recipe, "radius", None) is None

    def begin(self, tol: float) -> Solved:
        """Summaries of all losses, and the null model of all rows, whose loss is what tol is a share of."""
        for exchange in range(self.recipe.exchanges):
            merged = known_by_fold(self.parties.summaries(self.known), len(self.known))
            self._count("sums of all folds")
            if exchange == 0:
                check_folds(merged)
            for own, part in zip(self.known, merged, strict=True):
                own.append(part)
        self.parties.settle(self.known)
        whole = self.parties.folds
        start = null_point(self.problem(whole, HUGE, limited=False), self.known[whole])
        if is_quadratic(self.problem(whole, HUGE)):
            self._learn(start)
        null, huge = self._null(start, HUGE, NULL * tol), HUGE
        while (largest := self._largest(null)) >= huge:
            huge = HUGE * largest
            null = self._null(start, huge, NULL * tol)
        if not np.isfinite(null.gap):
            raise RuntimeError(f"most_exchanges={self.most} ended before the model without weights was known")
        self.tol = max(tol * abs(null.value), null.gap)  # where the loss is 0, rounding is what is left
        return null

    def _null(self, start: Saddle, huge: float, tol: float) -> Solved:
        """The answer for all rows at a huge penalty."""
        whole = self.parties.folds
        if self.quadratics and self.by_active_sets and (path := self._lasso(whole, np.array([huge]))):
            return path[0]
        return self.solve([Member(whole, self.problem(whole, huge, limited=False), start)], tol, relative=True)[0]

    def _largest(self, null: Solved) -> float:
        """The least penalty at which no weight is worth having; of l2, at which none is worth much."""
        shape = np.shape(null.point.x["weights"])
        if self.name == "l2":
            return float(STRONG * np.diagonal(null.place.jacobian)[self.weights].sum())
        return least_zero_penalty(self.recipe, null.place.operator[self.weights].reshape(shape))

    def values(self, null: Solved, count: int, share: float | None) -> tuple[NDArray[np.float64], str]:
        """The grid; where no feature tells anything, one value that leaves no weights, and a sentence."""
        shape = np.shape(null.point.x["weights"])
        curvature = np.diagonal(null.place.jacobian)[self.weights]
        slope = np.abs(null.place.operator[self.weights])
        most = np.sqrt(2 * abs(null.value) * curvature)  # Cauchy and Schwarz, of squares
        if abs(null.value) <= null.gap or np.all(slope <= UNRELATED * most):
            enough = HUGE if self.name == "l2" else least_zero_penalty(self.recipe, most.reshape(shape))
            return np.array([enough or 1.0]), "No feature tells anything of the target, so that no weight is left."
        rows = float(self.known[-1][0]["rows"].sum())
        usual = RIDGE_SHARE if self.name == "l2" else share_of(rows, shape[0])
        return penalty_grid((1 + ROOM) * self._largest(null), count, usual if share is None else share), ""

    def _learn(self, point: Saddle) -> None:
        """Learn all losses from one exchange."""
        request = Survey((point,), (True,))
        answers = self.parties.surveys([(f, request) for f in range(len(self.known))])
        self._count("squares of all folds")
        self.quadratics = [Quadratic(point, survey) for (survey,) in answers]

    @cached_property
    def weights(self) -> slice:
        """Where the weights are among the entries of a point."""
        like, before = self.problem(self.parties.folds, HUGE).like.x, 0
        for name in sorted(like):
            if name == "weights":
                return slice(before, before + np.size(like[name]))
            before += np.size(like[name])
        raise KeyError("weights")

    def problem(self, f: int, value: float, limited: bool = True) -> Problem:
        """Loss number f with this penalty, its data elsewhere. limited: not for a null model, which limits outweigh."""
        recipe: Any = self.recipe if limited else self.recipe.unlimited
        problem: Problem = replace(recipe, **{self.name: value}).problem(self.known[f], "elsewhere")
        return problem

    def path(self, values: NDArray[np.float64], null: Place) -> list[Solved]:
        """All rows: every STRIDE-th value from the null model, then those between from these; of squares in turn."""
        whole, last = self.parties.folds, len(values) - 1
        if self.quadratics:
            return self._path_of_squares(whole, values)
        first = sorted({*range(0, last, STRIDE), last})
        coarse = [Member(whole, self.problem(whole, values[v]), null) for v in first]
        answers = dict(zip(first, self.solve(coarse), strict=True))
        rest = [v for v in range(len(values)) if v not in answers]
        nearest = [min(first, key=lambda at, v=v: abs(at - v)) for v in rest]  # type: ignore[misc]
        members = [
            Member(whole, self.problem(whole, values[v]), answers[at].place)
            for v, at in zip(rest, nearest, strict=True)
        ]
        answers |= dict(zip(rest, self.solve(members), strict=True))
        pairs = {(whole, v): answers[v] for v in range(len(values))}
        return list(self.mend(values, pairs).values())

    def solve_folds(self, values: NDArray[np.float64], path: list[Solved]) -> list[list[Solved]]:
        """Every fold's answers, from those of all rows at the same value; of squares with l1 by themselves."""
        if self.quadratics and self.by_active_sets:
            return [self._path_of_squares(f, values) for f in range(self.parties.folds)]
        pairs = [(f, v) for v in range(len(values)) for f in range(self.parties.folds)]
        members = [Member(f, self.problem(f, values[v]), *self._start(f, path[v].point)) for f, v in pairs]
        answers = self.mend(values, dict(zip(pairs, self.solve(members), strict=True)))
        return [[answers[f, v] for v in range(len(values))] for f in range(self.parties.folds)]

    def _path_of_squares(self, f: int, values: NDArray[np.float64]) -> list[Solved]:
        """One after the other, which asks nobody: by active sets, and what these do not certify as any other fit."""
        answers = self._lasso(f, values) if self.by_active_sets else []
        for v, value in enumerate(values):
            if v == len(answers) or not answers[v].met:
                start = self._start(f, answers[v - 1].point) if v else (self.quadratics[f].place,)
                answers[v : v + 1] = self.solve([Member(f, self.problem(f, value), *start)])
        return answers

    def _lasso(self, f: int, values: NDArray[np.float64]) -> list[Solved]:
        """All values of squares with l1, from their sums alone."""
        own, view = self.quadratics[f], self.problem(f, HUGE)
        assert view.floor is not None
        l2, rows = float(getattr(self.recipe, "l2", 0.0)), int(self.known[f][0]["rows"].sum())
        terms = rows + own.center.size + 64
        squares = own.with_ridge(self.weights, l2, floor=float(view.floor.value), terms=terms, error=self.sum_error)
        if (path := solve_lasso_path(squares, values)) is None:
            return []
        parts = zip(path.points, path.values.tolist(), path.gaps.tolist(), strict=True)
        place = own.place_at(path.points[0])  # the model of squares is the same anywhere
        return [Solved(own.reshape(z), gap, value, gap <= self.tol, place) for z, value, gap in parts]

    def _start(self, f: int, near: Saddle) -> tuple[Any, ...]:
        """At a point near the answer; of squares at the answer itself, which is looked for near that point."""
        return (self.quadratics[f].place, near) if self.quadratics else (near,)

    def mend(self, values: NDArray[np.float64], answers: dict[Pair, Solved]) -> dict[Pair, Solved]:
        """Those (loss, value) that were left uncertified once more, from the nearest certified value of the same loss.

        A start from another loss can be far off where a fold's rows are almost separable; one from the next value is
        near. Each turn may certify more, from which the next one starts.
        """
        for _ in range(len(values)):
            starts = {pair: near for pair in answers if not answers[pair].met and (near := _nearest(pair, answers))}
            if not starts or self.exchanges >= self.most:
                break
            members = [Member(f, self.problem(f, values[v]), answers[near].place) for (f, v), near in starts.items()]
            again = dict(zip(starts, self.solve(members), strict=True))
            answers |= {pair: own for pair, own in again.items() if own.gap < answers[pair].gap}
            if not any(own.met for own in again.values()):
                break
        return answers

    def measure_held_out(self, folded: list[list[Solved]]) -> Reals:
        """Sums over held-out rows, of shape (folds, values, 2, parts)."""
        losses = self.parties.measure_held_out([(k, one.point.x) for k, own in enumerate(folded) for one in own])
        self._count("losses of held-out rows")
        sums = np.asarray(losses[HELD_OUT])
        return sums.reshape(len(folded), -1, *sums.shape[1:])

    def curve(self, values: NDArray[np.float64], fits: list[list[Solved]], rule: Rule, said: str) -> Curve:
        """What held-out rows say of all fits, those of all rows last; said: what should be said in any case."""
        recipe, (*folded, path) = self.recipe, fits
        measured = measure_folds(recipe, self.known[-1], self.measure_held_out(folded))
        gaps = np.max([[one.gap for one in own] for own in fits], axis=0)
        best, chosen, warning = choose(measured, rule, gaps <= np.maximum(self.tol, measured.error))
        return Curve(
            name=self.name,
            values=values.tolist(),
            measure=measured.mean.tolist(),
            error=measured.error.tolist(),
            excess=measured.excess.tolist(),
            nonzeros=[count_nonzeros(recipe, one.point.x["weights"]) for one in path],
            gaps=gaps.tolist(),
            tol=self.tol,
            missed=sum(not one.met for own in fits for one in own),
            folds=self.parties.folds,
            exchanges=self.exchanges,
            what=measured.what,
            rule=rule,
            best=best,
            chosen=chosen,
            said=said or warning,
        )

    def solve(self, members: Sequence[Member], tol: float | None = None, relative: bool = False) -> list[Solved]:
        """The answers of members: by all parties, or without them where the losses are known."""
        asks, before = not self.quadratics, self.met
        together = solve_together(
            members,
            self.parties.surveys if asks else self._locally,
            tol=self.tol if tol is None else tol,
            relative=relative,
            most_exchanges=self.most - self.exchanges,
            numbers_per_exchange=self.numbers,
            sum_error=self.sum_error,
            report=lambda met: self._report(before + met) if asks else None,
        )
        self.met = before + sum(one.met for one in together.solved) if self.fits else 0
        return together.solved

    def _report(self, met: int) -> None:
        self._count(f"{met} of {self.fits} fits certified" if self.fits else "the model without weights")

    def _count(self, what: str) -> None:
        self.exchanges += 1
        self.announce(f"exchange {self.exchanges}: {what}")

    def _locally(self, requests: Sequence[tuple[int, Survey]]) -> list[list[Surveyed]]:
        return [self.quadratics[f].survey(request) for f, request in requests]


def _nearest(pair: Pair, answers: Mapping[Pair, Solved]) -> Pair | None:
    """The certified pair of the same loss whose value is nearest."""
    f, v = pair
    able = (other for other, own in answers.items() if other[0] == f and own.met)
    return min(able, key=lambda other: abs(other[1] - v), default=None)


def null_point(problem: Problem, known: Sequence[Known]) -> Saddle:
    """No weights, and a bias near the best constant: log-odds of classes, or the middle of what it can be."""
    point = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf)), problem.like)
    if "bias" in point.x:
        box = problem.geometry.parts.x["bias"].regularizer
        masses = known[-1].get("class_mass")
        if masses is None or masses.ndim > 1:
            bias = np.broadcast_to((np.asarray(box.lower) + np.asarray(box.upper)) / 2, np.shape(point.x["bias"]))
        else:
            logs = np.log(masses)
            bias = logs[1] - logs[0] if point.x["bias"].ndim == 0 else logs - logs.mean()
        point.x["bias"] = np.asarray(bias, float)
    return point

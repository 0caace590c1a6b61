"""Standard errors and intervals of the coefficients of an estimator, and its optimum without penalty."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..arrays import Reals
from ..compiling import double
from ..inference.hazards import summarize_hazards
from ..inference.newton import Ask, Estimate, Outcome, estimate
from ..inference.sums import Design, Sums, add_up, summarize_effects
from ..inference.table import Effects, readable_units, tabulate
from ..problems.base import AbstractProblem
from ..problems.cox import RiskSurveyor
from ..problems.curvature import ScoreSurveyor, surveyor_of
from ..problems.families import Family
from ..problems.readings import RiskReading
from ..problems.scores import ScoreRows
from ..tree import Saddle
from ..validation import issparse

INTERCEPT = "(intercept)"
MOST = 1500
"""Columns times scores at most, whose second derivative is inverted."""


class Losses(NamedTuple):
    """What `inference` must know of losses, and what exp of an effect is called."""

    exact: bool
    self_concordant: bool
    likelihood: bool
    effect: str
    counted: str = ""

    @classmethod
    def of(cls, family: Family) -> "Losses":
        """The properties of a family of losses."""
        return cls(family.exact_second, family.self_concordant, family.likelihood, family.reading.effect)


HAZARDS = Losses(False, True, True, RiskReading().effect, "events")


@dataclass(frozen=True)
class Columns:
    """The rows of a problem with columns of deviation 1, less their means where there is an intercept.

    ask: the sums of all clients. mass: what each row weighs, of all clients. count: by what the mean loss is multiplied
    in these sums. mean, deviation: of the columns as the problem has them. unit: by which targets are divided, so that
    squares are of the order of 1. scores: of a row, less that of the first of several classes.
    """

    ask: Ask
    losses: Losses
    mass: Reals
    count: float
    mean: Reals
    deviation: Reals
    unit: float
    intercept: bool
    scores: int

    @classmethod
    def of(cls, problem: AbstractProblem, y: Reals) -> "Columns":
        """Of the rows that a problem holds. y: by which it weighs their losses."""
        weights = problem.like.x["weights"]
        if weights.size > MOST:
            raise ValueError(f"coefficients must be at most {MOST} for their errors to be found, got {weights.size}")
        with double():
            surveyor = surveyor_of(problem)
        if isinstance(surveyor, RiskSurveyor):
            return cls._of_times(surveyor)
        assert isinstance(surveyor, ScoreSurveyor)
        scores = 1 if weights.ndim == 1 else weights.shape[1] - 1
        return cls._of_scores(surveyor.parts, y, "bias" in problem.like.x, scores)

    @classmethod
    def _of_scores(cls, parts: list[Any], y: NDArray[Any], intercept: bool, scores: int) -> "Columns":
        count, family = sum(len(own.target) for _, own in parts), parts[0][1].family
        rows = [_full(own.rows) for _, own in parts]
        mass = [count * float(weight) * own.coefficients(y) for weight, own in parts]
        mean, deviation = _moments(rows, mass, intercept)
        unit = _unit([own.target for _, own in parts], mass) if family.exact_second else 1.0
        designs = [
            Design(
                np.divide(part - mean, deviation),
                np.divide(own.target, unit) if family.exact_second else own.target,
                weight,
            )
            for part, (_, own), weight in zip(rows, parts, mass, strict=True)
        ]

        def ask(beta: Reals, meat: bool) -> Sums:
            about = {"meat": meat, "common_intercept": intercept}
            return add_up([summarize_effects(family, design, beta, **about) for design in designs])

        return cls(ask, Losses.of(family), np.concatenate(mass), count, mean, deviation, unit, intercept, scores)

    @classmethod
    def _of_times(cls, surveyor: RiskSurveyor) -> "Columns":
        """Of strata. An event weighs 1 on average; rows that are in no risk set say nothing."""
        each = zip(surveyor.weights, surveyor.parts, strict=True)
        parts = [(weight * own.counts, own.risk) for weight, own in each if weight * own.counts.sum() > 0]
        count = sum(np.count_nonzero(counts) for counts, _ in parts) / sum(counts.sum() for counts, _ in parts)
        mass = [own.weight for _, own in parts]
        _, deviation = _moments([own.rows for _, own in parts], mass, True)
        strata = [
            (own._replace(rows=np.divide(own.rows, deviation)), count * counts.sum() / (own.event @ own.weight))
            for counts, own in parts
        ]

        def ask(beta: Reals, meat: bool) -> Sums:
            return add_up([summarize_hazards(own, beta, scale, meat) for own, scale in strata])

        middle = np.zeros(deviation.size)  # of each stratum's own
        return cls(ask, HAZARDS, np.concatenate(mass), count, middle, deviation, 1.0, False, 1)

    @property
    def is_weighted(self) -> bool:
        """Whether rows count differently: then errors are those of the sandwich, which no scale of weights changes."""
        return bool(np.ptp(self.mass) > 1e-9 * np.max(self.mass))

    def estimate(self, start: Reals, names: list[str], **options: Any) -> Estimate:
        """The optimum without penalty."""
        own = {"exact": self.losses.exact, "self_concordant": self.losses.self_concordant}
        return estimate(self.ask, start, names=names, counted=self.losses.counted, **own, **options)

    def units_shown(self, origin: Reals, size: float) -> Reals:
        """For how many units of a column each parameter is shown."""
        per = readable_units(origin + size * self.mean, size * self.deviation)
        return np.repeat(np.concatenate([[1.0] * self.intercept, per]), self.scores)

    def units(self, origin: Reals, size: float) -> Reals:
        """From parameters to coefficients of rows as they were before they became (row - origin) / size."""
        spread, middle = size * self.deviation, origin + size * self.mean
        matrix = np.diag(1 / spread)
        if self.intercept:
            matrix = np.block([[np.ones((1, 1)), -(middle / spread)[None]], [np.zeros((len(matrix), 1)), matrix]])
        return self.unit * np.kron(matrix, np.eye(self.scores))


def _full(rows: ScoreRows) -> Reals:
    """Rows less their center, none of them sparse."""
    matrix = rows.rows.toarray() if issparse(rows.rows) else np.asarray(rows.rows, float)
    return matrix if rows.center is None else matrix - np.asarray(rows.center)


def _moments(rows: list[Reals], mass: list[Reals], intercept: bool) -> tuple[Reals, Reals]:
    """Mean (0 without intercept) and deviation of the columns; 1 for those that do not vary."""
    total = sum(weight.sum() for weight in mass)
    mean = sum(weight @ part for part, weight in zip(rows, mass, strict=True)) / total
    mean = mean if intercept else np.zeros_like(mean)
    square = sum(weight @ (part - mean) ** 2 for part, weight in zip(rows, mass, strict=True)) / total
    return mean, np.where(square > 0, np.sqrt(square), 1.0)


def _unit(targets: list[Reals], mass: list[Reals]) -> float:
    values, weight = np.concatenate(targets), np.concatenate(mass)
    largest = float(np.max(np.abs(values)))
    return largest * float(np.sqrt(weight @ (values / largest) ** 2 / weight.sum())) if largest > 0 else 1.0


def parameter_names(features: list[str], intercept: bool, labels: list[str]) -> list[str]:
    """One for each parameter. labels: of the classes but the first, if there are more than two."""
    every = [INTERCEPT, *features] if intercept else features
    return [f"{name}, {label}" for name in every for label in labels] if labels else every


class Optimum(NamedTuple):
    """The optimum without penalty as a point of the problem. gap: what is proved of its mean loss."""

    z: Saddle
    gap: float
    exchanges: int


def find_optimum(problem: AbstractProblem, features: list[str], labels: list[str], most: int) -> Optimum:
    """Of a problem without penalty, whatever its domain; a ValueError says why there is none.

    labels: as for `parameter_names`. most: exchanges.
    """
    columns = Columns.of(problem, np.zeros(0))
    names = parameter_names(features, columns.intercept, labels)
    solution = columns.estimate(np.zeros(len(names)), names, most=most, least_events=0)
    if solution.outcome is not Outcome.DONE:
        raise ValueError(f"there is no model: {solution.why}")
    block = (columns.units(np.zeros(len(features)), 1.0) @ solution.beta).reshape(-1, columns.scores)
    if labels:
        whole = np.concatenate([np.zeros((len(block), 1)), block], axis=1)
        block = whole - whole.mean(axis=1, keepdims=True)
    like, first = problem.like.x, int(columns.intercept)
    x = {"weights": block[first:].reshape(np.shape(like["weights"]))}
    x |= {"bias": block[0].reshape(np.shape(like["bias"]))} if columns.intercept else {}
    return Optimum(Saddle(x), solution.gap * columns.unit**2 / columns.count, solution.exchanges)


# What is asked of an estimator.


class Fitted(NamedTuple):
    """What a fit solved: the problem with its rows, and the solution.

    size, shift: by what its rows were divided, and what was taken off its targets.
    """

    problem: AbstractProblem
    z: Saddle
    size: float
    shift: Reals | float


class Found(NamedTuple):
    """The optimum without penalty, and how it is reported (`tabulate`).

    kind: the errors that are right. weighted: whether rows weigh differently.
    """

    estimate: Estimate
    units: Reals
    shown_per: Reals
    offset: Reals
    effect: str
    scores: int
    kind: str
    weighted: bool


class EffectsMixin:
    """`summary`, `conf_int` and `coef_std_`, for losses with second derivatives.

    They are about the optimum without penalty of all columns, which is found when one of them is asked for first
    (docs/inference.md): a penalized coefficient has no standard error of its own. For that an estimator keeps its rows
    in memory after a fit. Rows are not pickled; what was found by then is.
    """

    _fitted: Fitted
    _found: Found | None = None
    coef_: Reals
    intercept_: Reals
    center_: Reals

    def __getstate__(self) -> dict[str, object]:
        state: dict[str, object] = super().__getstate__()  # type: ignore[assignment]
        return {name: value for name, value in state.items() if name != "_fitted"}

    def summary(self, confidence: float = 0.95, kind: str | None = None) -> Effects:
        """The table of effects, which prints itself; `.plain()` is it as JSON has it.

        It is printed for readable numbers of units, as in `x3 (per 1,000)`; the numbers of `rows` are of one unit.
        confidence: of intervals. kind: of errors, "model-based", "sandwich" (over rows) or "clustered" (over clients,
        which takes more clients than parameters); None is model-based, and sandwich where rows weigh differently or
        the loss is Huber's.
        A ValueError says why there is none, as where there are too few rows, or where classes can be separated.
        """
        check_is_fitted(self)
        effects = self._effects()
        return tabulate(
            effects.estimate,
            penalized=self._parameters(effects.scores, bool(len(effects.units) % np.shape(self.coef_)[-1])),
            effect=effects.effect,
            kind=effects.kind if kind is None else kind,
            confidence=confidence,
            conditional=effects.weighted,
            units=effects.units,
            shown_per=effects.shown_per,
            offset=effects.offset,
        )

    def conf_int(self, confidence: float = 0.95, kind: str | None = None) -> Reals:
        """The ends of the interval of each coefficient, of shape (features, 2).

        Of more than two classes it is (features, classes - 1, 2), each class against the first. nan for columns that
        are combinations of those before them. confidence, kind: as for `summary`.
        """
        return self._by_feature([(row.lower, row.upper) for row in self.summary(confidence, kind).rows])

    @property
    def coef_std_(self) -> Reals:
        """The standard errors behind `conf_int`, of shape (features,) or (features, classes - 1)."""
        return self._by_feature([(row.error,) for row in self.summary().rows])[..., 0]

    def _by_feature(self, rows: list[tuple[float, ...]]) -> Reals:
        """The numbers of all rows of the table but those of the intercept."""
        features, scores = np.shape(self.coef_)[-1], self._effects().scores
        own = np.array(rows)[len(rows) - features * scores :]
        return own.reshape(features, *([scores] if scores > 1 else []), -1)

    def _keep_rows(self, fitted: Fitted) -> None:
        self._fitted, self._found = fitted, None

    def _effects(self) -> Found:
        if self._found is None:
            if not hasattr(self, "_fitted"):
                raise ValueError(
                    f"rows are not kept with a pickled {type(self).__name__}: ask for its summary before, or fit again"
                )
            self._found = self._find_effects(self._fitted)
        return self._found

    def _find_effects(self, fitted: Fitted) -> Found:
        y = np.concatenate([np.zeros(0), *map(np.ravel, jax.tree.leaves(fitted.z.y))])
        columns = Columns.of(fitted.problem, y)
        units = columns.units(self.center_, fitted.size)
        offset = np.zeros(len(units))
        offset[: columns.scores] = fitted.shift if columns.intercept else 0.0
        start = np.linalg.solve(units, self._parameters(columns.scores, columns.intercept) - offset)
        names = parameter_names(feature_names(self), columns.intercept, contrast_labels(self))
        estimate = columns.estimate(start, names, drop=True)
        if estimate.outcome is not Outcome.DONE:
            raise ValueError(f"{type(self).__name__} has {estimate.sentence}")
        losses, weighted = columns.losses, columns.is_weighted
        likely = losses.likelihood  # which Huber's loss has not
        kind = "model-based" if likely and not weighted else "sandwich"
        per = columns.units_shown(self.center_, fitted.size)
        return Found(estimate, units, per, offset, losses.effect, columns.scores, kind, weighted)

    def _parameters(self, scores: int, intercept: bool) -> Reals:
        """Those of the model as `tabulate` has them: against the first class where there are more than two."""
        weights, bias = np.atleast_2d(self.coef_).T, np.reshape(self.intercept_, (1, -1))
        if scores > 1:
            weights, bias = weights[:, 1:] - weights[:, :1], bias[:, 1:] - bias[:, :1]
        return np.concatenate([bias, weights] if intercept else [weights]).ravel()


def feature_names(estimator: Any) -> list[str]:
    """As a data frame had them, else x0, x1 and so on."""
    given = getattr(estimator, "feature_names_in_", None)
    return [f"x{j}" for j in range(estimator.n_features_in_)] if given is None else list(map(str, given))


def contrast_labels(estimator: object) -> list[str]:
    """The classes but the first, if there are more than two."""
    classes = getattr(estimator, "classes_", ())
    return list(map(str, classes[1:])) if len(classes) > 2 else []

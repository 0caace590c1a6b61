"""The table of effects: estimates with their errors and intervals, beside the penalized coefficients, for readers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..display import rounded_up, text_table
from .newton import Estimate, Outcome

QUASI = "quasi-Poisson"
KINDS = {
    "model-based": "Errors are model-based: right if the model is.",
    "sandwich": "Errors are those of the sandwich over rows (HC0): right for large tables even if the model is not.",
    QUASI: "Errors are model-based, times the root of the dispersion: right if the variance is in proportion to "
    "the mean.",
    "clustered": "Errors are those of the sandwich over sites, with the factor G/(G-1) (n-1)/(n-k): "
    "rows of a site may depend on one another.",
}
"""What is said of standard errors, by their kind."""
DIFFERENCE = "difference"
"""The effect that is the coefficient itself."""
NUMBERS = ("penalized", "estimate", "error", "lower", "upper", "z", "p", "bound")
"""The fields of an effect that are numbers, but for its ratios, which follow from them."""
UNPENALIZED = (
    "Estimates and intervals are of the optimum without penalty, of all columns; the penalized coefficients beside "
    "them are those of the model, and have no intervals of their own."
)
CONDITIONAL = (
    "Rows are weighted as this model weighs them: errors are conditional on these weights, whose own chance is not "
    "counted."
)


class Effect(NamedTuple):
    """One parameter, per unit of its column.

    penalized: the coefficient of the model. estimate, error, lower, upper, z, p: without penalty; nan if its column was
    dropped. ratio, ratio_lower, ratio_upper: exp of estimate and interval, None for differences. reference: the level
    that a category is compared with, or "". bound: what is proved of |estimate - optimum|, inf if nothing.
    """

    name: str
    penalized: float
    estimate: float
    error: float
    lower: float
    upper: float
    z: float
    p: float
    ratio: float | None
    ratio_lower: float | None
    ratio_upper: float | None
    reference: str
    bound: float


@dataclass(frozen=True, repr=False)
class Effects:
    """Effects with what is to be said of them.

    kind: of the errors, one of KINDS. effect: what a ratio is called, or "difference". degrees: of Student's
    distribution where intervals are of it, else None. conditional: whether the weights of rows were found by the model.
    words: sentences for those who read the table.
    """

    rows: list[Effect]
    kind: str
    effect: str
    confidence: float
    conditional: bool
    degrees: int | None
    words: list[str]

    def plain(self) -> dict[str, Any]:
        """As JSON has it: what is not finite is None."""
        rows = [{name: _finite(value) for name, value in row._asdict().items()} for row in self.rows]
        return {**vars(self), "rows": rows, "words": list(self.words)}

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> "Effects":
        """From what `plain` wrote."""
        rows = [_read(row, plain["effect"]) for row in plain["rows"]]
        return cls(**{**plain, "rows": rows, "words": list(plain["words"])})

    def header(self) -> list[str]:
        """The names of the columns of `cells`."""
        percent = f"{100 * self.confidence:g}%"
        ratios = [self.effect, f"its {percent} interval"] if self._has_ratios else []
        statistic = "t" if self.degrees is not None else "z"
        return [
            "effect",
            "penalized",
            "estimate",
            "error",
            f"{percent} interval",
            *ratios,
            statistic,
            "p",
            "proved within",
        ]

    def cells(self) -> list[list[str]]:
        """The table as text, one list for each effect."""
        return [self._cells(row) for row in self.rows]

    def as_text(self) -> str:
        """The table for a terminal, and below it what is to be said."""
        return "\n".join([text_table(self.header(), self.cells()), "", *self.words])

    __repr__ = as_text

    @property
    def _has_ratios(self) -> bool:
        return _is_ratio(self.effect)

    def _cells(self, row: Effect) -> list[str]:
        name = f"{row.name} (against {row.reference})" if row.reference else row.name
        if np.isnan(row.estimate):
            return [name, _number(row.penalized), "dropped", *[""] * (len(self.header()) - 3)]
        ratios = []
        if self._has_ratios:
            ratios = [_number(row.ratio), _interval(row.ratio_lower, row.ratio_upper)]
        numbers = [_number(row.penalized), _number(row.estimate), _number(row.error), _interval(row.lower, row.upper)]
        proved = "" if np.isinf(row.bound) else rounded_up(row.bound, 2)
        return [name, *numbers, *ratios, f"{row.z:.2f}", _chance(row.p), proved]


def tabulate(
    estimate: Estimate,
    *,
    penalized: NDArray[Any],
    effect: str,
    kind: str = "model-based",
    confidence: float = 0.95,
    conditional: bool = False,
    units: NDArray[Any] | None = None,
    offset: NDArray[Any] | None = None,
    names: Sequence[str] | None = None,
    references: Mapping[str, str] | None = None,
) -> Effects:
    """The table of an estimate that is DONE.

    penalized: the coefficients of the model, as they are to be shown. effect: what exp of a parameter is called;
    "difference" if it is the parameter itself that is reported, "" if neither has a name. kind: one of KINDS. units: by
    what each parameter is multiplied to be per unit of its column (the target's scale over the column's deviation), or
    a matrix that takes parameters to what is reported, for an intercept at the columns' zeros; offset is added then.
    names: of what is reported, if not the estimate's own. references: the level that a category is compared with, by
    name.
    """
    if estimate.outcome is not Outcome.DONE:
        raise ValueError(f"estimate must be DONE, got {estimate.outcome.name}: {estimate.sentence}")
    check_confidence(confidence)
    names = tuple(estimate.names if names is None else names)
    values, errors, bounds = _reported(estimate, covariance_of(estimate, kind), units)
    values = values if offset is None else values + offset
    degrees = estimate.degrees if kind == "model-based" else None
    if kind == QUASI:
        degrees = estimate.rows - estimate.uninformative - estimate.parameters
    z, p, reach = _tests(values, errors, confidence, degrees)
    lower, upper = values - reach, values + reach
    columns = dict(zip(NUMBERS, (penalized, values, errors, lower, upper, z, p, bounds), strict=True))
    level = {} if references is None else references
    rows = [
        _effect(name, level.get(name, ""), {key: float(column[j]) for key, column in columns.items()}, effect)
        for j, name in enumerate(names)
    ]
    words = _words(estimate, kind, conditional, degrees)
    return Effects(rows, kind, effect, confidence, conditional, degrees, words)


def check_confidence(confidence: float) -> float:
    """The share of intervals that are to hold the truth."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be a number between 0 and 1, got {confidence!r}")
    return confidence


def covariance_of(estimate: Estimate, kind: str) -> NDArray[Any]:
    """The covariance of this kind, refused where there is none."""
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}")
    if kind == QUASI:
        if estimate.model_based is None or estimate.dispersion is None:
            raise ValueError("kind 'quasi-Poisson' is for counts with more rows than parameters")
        return estimate.dispersion * estimate.model_based
    found = {"model-based": estimate.model_based, "sandwich": estimate.sandwich, "clustered": estimate.clustered}[kind]
    if found is None:
        raise ValueError(
            f"kind 'clustered' needs more sites than the {estimate.parameters} parameters, got {estimate.parties} sites"
        )
    return found


def _reported(
    estimate: Estimate, covariance: NDArray[Any], units: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Values, errors and proved bounds in the units that are reported; nan where dropped columns have a part."""
    bounds = np.full(estimate.beta.size, np.inf) if estimate.bounds is None else estimate.bounds
    matrix = np.eye(estimate.beta.size) if units is None else np.asarray(units, float)
    matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
    dropped = np.isnan(estimate.beta)
    lost = np.any(matrix[:, dropped] != 0, axis=1)
    matrix = matrix[:, ~dropped]
    variance = np.einsum("ij,jk,ik->i", matrix, covariance[np.ix_(~dropped, ~dropped)], matrix)
    own = bounds[~dropped]
    within = np.array([np.sum(np.abs(row[row != 0]) * own[row != 0]) for row in matrix])
    values, errors = (
        np.where(lost, np.nan, column) for column in (matrix @ estimate.beta[~dropped], np.sqrt(variance))
    )
    return values, errors, np.where(lost, np.inf, within)


def _tests(
    values: NDArray[Any], errors: NDArray[Any], confidence: float, degrees: int | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The statistic, its two-sided chance, and half the length of the interval."""
    from scipy import stats  # a site of a deployment starts without it

    law = stats.norm() if degrees is None else stats.t(degrees)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = values / errors
    return z, 2 * law.sf(np.abs(z)), law.ppf((1 + confidence) / 2) * errors


def _words(estimate: Estimate, kind: str, conditional: bool, degrees: int | None) -> list[str]:
    words = [UNPENALIZED, KINDS[kind]]
    words += [CONDITIONAL] if conditional else []
    if degrees is not None:
        words.append(f"Intervals are of Student's distribution with {degrees} degrees of freedom.")
    if estimate.dispersion is not None:
        words.append(_dispersion_sentence(estimate.dispersion))
    if estimate.uninformative:
        words.append(
            f"{estimate.uninformative} rows are of sites whose own intercept is infinite (all outcomes alike); they "
            "say nothing about effects and are not counted."
        )
    if estimate.dropped:
        words.append(f"Dropped, as combinations of other columns: {', '.join(estimate.dropped)}.")
    return words


def _dispersion_sentence(dispersion: float) -> str:
    than = "more than" if dispersion > 1 else "less than"
    return (
        f"The dispersion is {dispersion:.3g} (Pearson's statistic over degrees of freedom): counts vary "
        f"{than} Poisson's law, of dispersion 1, says."
    )


def _is_ratio(effect: str) -> bool:
    return effect not in ("", DIFFERENCE)


def _effect(name: str, reference: str, numbers: Mapping[str, float], effect: str) -> Effect:
    """With its ratios, where the effect is one. numbers: by NUMBERS."""
    if not _is_ratio(effect):
        return Effect(name=name, reference=reference, ratio=None, ratio_lower=None, ratio_upper=None, **numbers)
    with np.errstate(over="ignore"):
        ratio, lower, upper = (float(np.exp(numbers[end])) for end in ("estimate", "lower", "upper"))
    return Effect(name=name, reference=reference, ratio=ratio, ratio_lower=lower, ratio_upper=upper, **numbers)


def _read(row: Mapping[str, Any], effect: str) -> Effect:
    """What was not finite was a number of a dropped column, or a bound that is not proved."""
    numbers = {key: np.nan if row[key] is None else float(row[key]) for key in NUMBERS}
    numbers["bound"] = np.inf if row["bound"] is None else numbers["bound"]
    return _effect(row["name"], row["reference"], numbers, effect)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _number(value: float | None) -> str:
    return "" if value is None or np.isnan(value) else f"{value:.4g}"


def _interval(lower: float | None, upper: float | None) -> str:
    return "" if lower is None or upper is None else f"{lower:.4g} to {upper:.4g}"


def _chance(p: float) -> str:
    return "<0.0001" if p < 1e-4 else f"{p:.4f}"

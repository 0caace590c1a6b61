"""The table of effects: estimates with errors and intervals beside the penalized coefficients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Reals
from ..display import round_up, sure_digits, text_table
from ..storage import Json
from .coefficients import Proved
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
"""The sentence about standard errors, by their kind."""
DIFFERENCE = "difference"
"""The name of an effect that is the coefficient itself."""
NUMBERS = ("penalized", "estimate", "error", "lower", "upper", "z", "p", "bound", "penalized_bound")
"""The fields of an effect that are numbers, but for its ratios, which follow from them."""
SCALED = ("penalized", "estimate", "error", "lower", "upper", "bound", "penalized_bound")
"""Those of them that are in units of a column."""
UNPROVED = ("bound", "penalized_bound")
"""Those that are infinite where nothing is proved."""
WIDE, NARROW = 10.0, 0.1
"""The deviations of a column from and below which its effects are shown for another number of its units than 1."""
UNPENALIZED = (
    "Estimates and intervals are of the optimum without penalty, of all columns. The penalized coefficients beside "
    "them are those of the model, and have no intervals."
)
PROVED = (
    "Proved is said of the best model of these rows at this penalty: its coefficient is zero, or has this sign. Other "
    "rows may have another."
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
    penalized_bound: what is proved of the distance of the penalized coefficient from the best one, inf if nothing.
    penalized_proved: "zero" or "sign" if that is proved of the best one, or "". shown_per: how many units of the column
    the effect is shown for, so that it can be read; the numbers here are of one unit.
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
    penalized_bound: float
    penalized_proved: str
    shown_per: float

    @property
    def label(self) -> str:
        """The name with what is needed to read the numbers of `in_units`."""
        per = f" (per {unit_text(self.shown_per)})" if self.shown_per != 1 else ""
        return f"{self.name} (against {self.reference})" if self.reference else f"{self.name}{per}"

    def in_units(self, effect: str) -> "Effect":
        """The effect of `shown_per` units. effect: what exp of it is called."""
        numbers = {name: getattr(self, name) for name in NUMBERS}
        numbers |= {name: self.shown_per * numbers[name] for name in SCALED}
        return _effect(self.name, self.reference, numbers, effect, self.penalized_proved, self.shown_per)


def shown_rows(plain: Json) -> list[Json]:
    """The rows of `Effects.plain`, each for as many units of its column as it is to be shown for."""
    effects = Effects.read(plain)
    rows: list[Json] = replace(effects, rows=[row.in_units(effects.effect) for row in effects.rows]).plain()["rows"]
    return rows


def unit_text(units: float) -> str:
    """A power of ten as people read it."""
    return f"{units:,.0f}" if 1 <= units < 1e9 else f"{units:g}"


def readable_units(mean: Reals, deviation: Reals) -> Reals:
    """For each column how many of its units its effect is shown for: the power of ten below its deviation.

    One unit for deviations between NARROW and WIDE, and for columns of 0 and 1, whose variance is near mean (1 - mean).
    """
    both = mean * (1 - mean)
    binary = (both > 0) & (np.abs(np.log2(np.where(both > 0, deviation**2 / np.where(both > 0, both, 1), 1))) < 1)
    apart = (deviation >= WIDE) | ((deviation < NARROW) & (deviation > 0) & ~binary)
    power = np.floor(np.log10(np.where(apart, deviation, 1.0)) + 1e-9)
    return np.asarray(np.where(apart, 10.0**power, 1.0))


@dataclass(frozen=True, repr=False)
class Effects:
    """The table of effects, with sentences for its readers.

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

    def plain(self) -> Json:
        """The table as JSON data, with None for what is not finite."""
        rows = [{name: finite(value) for name, value in row._asdict().items()} for row in self.rows]
        return {**vars(self), "rows": rows, "words": list(self.words)}

    @classmethod
    def read(cls, plain: Json) -> "Effects":
        """The table from what `plain` returned; other keys are ignored."""
        values = {one.name: plain[one.name] for one in fields(cls)}
        rows = [_read(row, plain["effect"]) for row in plain["rows"]]
        return cls(**{**values, "rows": rows, "words": list(plain["words"])})

    def header(self) -> list[str]:
        """The names of the columns of `cells`."""
        percent = f"{100 * self.confidence:g}%"
        ratios = [self.effect, f"its {percent} interval"] if self._has_ratios else []
        statistic = "t" if self.degrees is not None else "z"
        about = ["estimate", "error", f"{percent} interval", *ratios, statistic, "p", "proved within"]
        penalized = ["penalized"] * self.has_penalized + ["proved"] * self.tells_of_penalized
        return ["effect", *penalized, *about]

    @property
    def has_penalized(self) -> bool:
        """Whether the coefficients of the model are beside its effects."""
        return not all(np.isnan(row.penalized) for row in self.rows)

    @property
    def tells_of_penalized(self) -> bool:
        """Whether anything is proved of penalized coefficients."""
        return any(row.penalized_proved or np.isfinite(row.penalized_bound) for row in self.rows)

    def cells(self) -> list[list[str]]:
        """The table as text, one list for each effect."""
        return [self._cells(row.in_units(self.effect)) for row in self.rows]

    def as_text(self) -> str:
        """The table for a terminal, with its sentences below."""
        return "\n".join([text_table(self.header(), self.cells()), "", *self.words])

    __repr__ = as_text

    @property
    def _has_ratios(self) -> bool:
        return _is_ratio(self.effect)

    def _cells(self, row: Effect) -> list[str]:
        penalized = [sure_digits(row.penalized, row.penalized_bound)] * self.has_penalized
        penalized += [row.penalized_proved] * self.tells_of_penalized
        if np.isnan(row.estimate):
            return [row.label, *penalized, "dropped", *[""] * (len(self.header()) - 2 - len(penalized))]
        ratios = []
        if self._has_ratios:
            ratios = [_number(row.ratio), _interval(row.ratio_lower, row.ratio_upper)]
        numbers = [_number(row.estimate), _number(row.error), _interval(row.lower, row.upper)]
        proved = "" if np.isinf(row.bound) else round_up(row.bound, 2)
        return [row.label, *penalized, *numbers, *ratios, f"{row.z:.2f}", _chance(row.p), proved]


def tabulate(
    estimate: Estimate,
    *,
    penalized: Reals | None,
    effect: str,
    kind: str = "model-based",
    confidence: float = 0.95,
    conditional: bool = False,
    units: Reals | None = None,
    offset: Reals | None = None,
    names: Sequence[str] | None = None,
    references: Mapping[str, str] | None = None,
    proved: Proved | None = None,
    shown_per: Reals | None = None,
    about: str = UNPENALIZED,
) -> Effects:
    """The table of an estimate that is DONE.

    penalized: the coefficients of the model, as they are to be shown; None if they are not comparable.
    effect: what exp of a parameter is called;
    "difference" if it is the parameter itself that is reported, "" if neither has a name. kind: one of KINDS. units: by
    what each parameter is multiplied to be per unit of its column (the target's scale over the column's deviation), or
    a matrix that takes parameters to what is reported, for an intercept at the columns' zeros; offset is added then.
    names: of what is reported, if not the estimate's own. references: the level that a category is compared with, by
    name. proved: of the penalized coefficients, in the units in which they are shown. shown_per: for how many units of
    a column each effect is shown; 1 if left out. about: what the estimates are, in a sentence.
    """
    if estimate.outcome is not Outcome.DONE:
        raise ValueError(f"estimate must be DONE, got {estimate.outcome.name}: {estimate.sentence}")
    check_confidence(confidence)
    names = tuple(estimate.names if names is None else names)
    values, errors, bounds = _convert_units(estimate, covariance_of(estimate, kind), units)
    values = values if offset is None else values + offset
    degrees = estimate.degrees if kind == "model-based" else None
    if kind == QUASI:
        degrees = estimate.rows - estimate.uninformative - estimate.parameters
    z, p, reach = _tests(values, errors, confidence, degrees)
    lower, upper = values - reach, values + reach
    within = np.full(len(names), np.inf) if proved is None else proved.bounds
    penalized = np.full(len(names), np.nan) if penalized is None else penalized
    columns = dict(zip(NUMBERS, (penalized, values, errors, lower, upper, z, p, bounds, within), strict=True))
    level = {} if references is None else references
    units_shown = np.ones(len(names)) if shown_per is None else shown_per
    rows = []
    for j, name in enumerate(names):
        numbers = {key: float(column[j]) for key, column in columns.items()}
        known = "" if proved is None else proved.word(j)
        rows.append(_effect(name, level.get(name, ""), numbers, effect, known, float(units_shown[j])))
    said = [PROVED] if any(row.penalized_proved for row in rows) else []
    words = [about, *said, *_words(estimate, kind, conditional, degrees)]
    return Effects(rows, kind, effect, confidence, conditional, degrees, words)


def chance_of_none(estimate: Estimate, kind: str, parameters: NDArray[np.intp]) -> float:
    """Wald's test that all of these parameters are 0: the chance of a statistic as large; nan if all were dropped."""
    from scipy.special import chdtrc  # not scipy.stats, which takes longer to import than a fit

    kept = parameters[~np.isnan(estimate.beta[parameters])]
    if not kept.size:
        return np.nan
    beta, covariance = estimate.beta[kept], covariance_of(estimate, kind)[np.ix_(kept, kept)]
    return float(chdtrc(kept.size, beta @ np.linalg.solve(covariance, beta)))


def check_confidence(confidence: float) -> float:
    """The confidence of intervals, as a number strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be a number between 0 and 1, got {confidence!r}")
    return confidence


def covariance_of(estimate: Estimate, kind: str) -> Reals:
    """The covariance of this kind, refused where there is none."""
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}")
    if kind == QUASI:
        if estimate.model_based is None or estimate.dispersion is None:
            raise ValueError("kind 'quasi-Poisson' is for counts with more rows than parameters")
        return estimate.dispersion * estimate.model_based
    kinds = {"model-based": estimate.model_based, "sandwich": estimate.sandwich, "clustered": estimate.clustered}
    covariance = kinds[kind]
    if covariance is None:
        raise ValueError(
            f"kind 'clustered' needs more sites than the {estimate.parameters} parameters, got {estimate.parties} sites"
        )
    return covariance


def _convert_units(estimate: Estimate, covariance: Reals, units: Reals | None) -> tuple[Reals, Reals, Reals]:
    """Values, errors and proved bounds in the units that are reported; nan for dropped and for constant columns."""
    bounds = np.full(estimate.beta.size, np.inf) if estimate.bounds is None else estimate.bounds
    matrix = np.eye(estimate.beta.size) if units is None else np.asarray(units, float)
    matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
    dropped = np.isnan(estimate.beta)
    lost = np.any(matrix[:, dropped] != 0, axis=1) | ~np.any(matrix != 0, axis=1)
    matrix = matrix[:, ~dropped]
    variance = np.einsum("ij,jk,ik->i", matrix, covariance[np.ix_(~dropped, ~dropped)], matrix)
    own = bounds[~dropped]
    within = np.array([np.sum(np.abs(row[row != 0]) * own[row != 0]) for row in matrix])
    values, errors = (
        np.where(lost, np.nan, column) for column in (matrix @ estimate.beta[~dropped], np.sqrt(variance))
    )
    return values, errors, np.where(lost, np.inf, within)


def _tests(values: Reals, errors: Reals, confidence: float, degrees: int | None) -> tuple[Reals, Reals, Reals]:
    """The statistic, its two-sided chance, and half the length of the interval."""
    from scipy.special import ndtr, ndtri, stdtr, stdtrit  # a site of a deployment starts without it

    middle = (1 + confidence) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        z: NDArray[np.float64] = np.asarray(values / errors, float)
    if degrees is None:
        return z, 2 * ndtr(-np.abs(z)), ndtri(middle) * errors
    return z, 2 * stdtr(degrees, -np.abs(z)), stdtrit(degrees, middle) * errors


def _words(estimate: Estimate, kind: str, conditional: bool, degrees: int | None) -> list[str]:
    words = [KINDS[kind]]
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


def _effect(
    name: str, reference: str, numbers: Mapping[str, float], effect: str, proved: str, shown_per: float
) -> Effect:
    """An effect with its ratios, if it is one. numbers: by NUMBERS."""
    told = {"name": name, "reference": reference, "penalized_proved": proved, "shown_per": shown_per}
    if not _is_ratio(effect):
        return Effect(ratio=None, ratio_lower=None, ratio_upper=None, **told, **numbers)  # type: ignore[arg-type]
    with np.errstate(over="ignore"):
        ratio, lower, upper = (float(np.exp(numbers[end])) for end in ("estimate", "lower", "upper"))
    return Effect(ratio=ratio, ratio_lower=lower, ratio_upper=upper, **told, **numbers)  # type: ignore[arg-type]


def _read(row: Json, effect: str) -> Effect:
    """An effect from JSON data, where None is a number of a dropped column, or a bound that is not proved."""
    numbers = {key: np.nan if row[key] is None else float(row[key]) for key in NUMBERS}
    numbers |= {key: np.inf for key in UNPROVED if row[key] is None}
    told = row["penalized_proved"], float(row["shown_per"])
    return _effect(row["name"], row["reference"], numbers, effect, *told)


def finite(value: Any) -> Any:
    """The number as JSON data: None if it is not finite."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _number(value: float | None) -> str:
    return "" if value is None or np.isnan(value) else f"{value:.4g}"


def _interval(lower: float | None, upper: float | None) -> str:
    return "" if lower is None or upper is None else f"{lower:.4g} to {upper:.4g}"


def _chance(p: float) -> str:
    return "<0.0001" if p < 1e-4 else f"{p:.4f}"

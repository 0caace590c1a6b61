"""The optimum without penalty, found from sums of all parties: a model's table of effects, or the model itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Reals, Values
from ..display import apart
from ..inference.coefficients import Point, Proved, bound_coefficients
from ..inference.newton import LEAST_EVENTS, Estimate, Outcome, estimate
from ..inference.sums import from_triangle, largest_constant
from ..inference.table import (
    DIFFERENCE,
    QUASI,
    UNPENALIZED,
    Effect,
    chance_of_none,
    finite,
    readable_units,
    tabulate,
)
from ..models import Model, load
from ..models.store import JSON, MODEL
from ..problems import RobustRecipe
from ..problems.families import Family
from ..runs.folder import RUN_OF_FIT
from ..runs.settings import ConfigurationError
from ..runtime.status import status_of
from ..storage import Json
from ..summaries import Known
from .goals import DROPPED, GOALS, HAZARD, LIMITED_HAZARD, MEAN, PAIRS, SHARED, WORST_HAZARD
from .kept_model import Answer
from .recipe import TableRecipe

Ask = Callable[[Known], Mapping[str, Reals]]
"""From what `Party.effects` is asked to the sums of all parties: one exchange."""
INTERCEPT = "(intercept)"
MOST = 1500
"""With more columns nothing is proved of coefficients, as that takes eigenvalues."""
SUMMED = 2.0**-53
"""By how much adding up parties, as under masks, may change an entry of a sum beyond its rounding."""
PROOF = "self-concordance"
"""What proves the gap of a model without penalty, as its certificate keeps it (docs/inference.md)."""
WHY_NONE = {
    SHARED.recipe: "those of several targets are those of each by itself, which the goal lasso has",
    RobustRecipe: "absolute deviations have no second derivatives",
}
OF_ORDINARY = {
    PAIRS.recipe: "Effects are those of the ordinary logistic model of the same rows, without penalty: scores of a "
    "ranking have no unit in which an effect could be told.",
    **dict.fromkeys(
        (WORST_HAZARD.recipe, LIMITED_HAZARD.recipe),
        "Effects are those of the ordinary Cox model of the same rows, without penalty, in which all events count "
        "alike; the penalized coefficients beside them are those of the model.",
    ),
}
"""Structures whose table of effects is that of the ordinary model, and what is said of it."""


@dataclass(frozen=True)
class Wanted:
    """confidence: of intervals. own_intercepts: whether each party has an intercept of its own. collinear: what is done
    with columns that are combinations of others, one of COLLINEAR.
    """

    confidence: float = 0.95
    own_intercepts: bool = False
    collinear: str = DROPPED


def find_effects(
    recipe: TableRecipe,
    known: Sequence[Known],
    x: Mapping[str, Reals],
    y: Values,
    ask: Ask,
    wanted: Wanted,
    gap: float | None,
) -> Json:
    """What a model keeps: the table, its exchanges, and the table by other errors; or why there is none.

    With what is proved of the penalized coefficients, where anything is. x, y: the certified solution, from which the
    search begins and at which rows are weighed. gap: its certified gap; None if nothing is certified.
    """
    structure = GOALS[recipe.goal].structure
    if why := WHY_NONE.get(structure.recipe):
        return {"refused": f"there is no table of effects: {why}"}
    rows, parameters = float(recipe.counts(known).sum()), np.size(x["weights"])
    if parameters > MOST and rows < LEAST_EVENTS * parameters:  # before a square of so many columns is made
        too_few = f"there are {rows:.0f} rows for {parameters} parameters, and {LEAST_EVENTS:g} for each are needed"
        return {"refused": too_few}
    layout, asking = Layout(recipe, known, x, wanted.own_intercepts), Remembering(ask)
    proved, told = None, Json()
    if structure is MEAN and len(layout.features) <= MOST and not recipe.is_unpenalized:
        common = Layout(recipe, known, x, own_intercepts=False) if wanted.own_intercepts else layout
        proved = common.prove(y, asking, np.inf if gap is None else gap)
        told = {} if proved is None else {"coefficients": common.tell_proved(proved)}
    estimate = layout.estimate(y, asking, drop=wanted.collinear == DROPPED)
    if estimate.outcome is not Outcome.DONE:
        return {"refused": estimate.sentence, "exchanges": asking.exchanges, **told}
    conditional = recipe.weights is not None or not (layout.of_ordinary or structure in (MEAN, HAZARD))
    tables = layout.tables(estimate, conditional, wanted.confidence, proved)
    return {**tables, "exchanges": asking.exchanges, **told}


class Remembering:
    """Asks each question once: proofs begin where the search has begun."""

    def __init__(self, ask: Ask):
        self.ask, self.answers = ask, dict[bytes, Mapping[str, Reals]]()

    def __call__(self, asked: Known) -> Mapping[str, Reals]:
        key = b"".join(name.encode() + np.asarray(value).tobytes() for name, value in sorted(asked.items()))
        if key not in self.answers:
            self.answers[key] = self.ask(asked)
        return self.answers[key]

    @property
    def exchanges(self) -> int:
        return len(self.answers)


class Reported(NamedTuple):
    """What is reported: a sum of parameters, of one score. of: what each counts with."""

    name: str
    of: Reals
    reference: str = ""
    shown_per: float = 1.0


class Layout:
    """Which parameter is which coefficient, and how each is reported. of_ordinary: of OF_ORDINARY, or empty."""

    def __init__(self, recipe: TableRecipe, known: Sequence[Known], x: Mapping[str, Reals], own_intercepts: bool):
        self.of_ordinary = OF_ORDINARY.get(GOALS[recipe.goal].structure.recipe, "")
        ordinary = recipe.ordinary if self.of_ordinary else None
        recipe = ordinary or recipe
        timed = recipe.reading.timed  # a baseline hazard for each party takes the place of intercepts
        self.recipe, self.known, self.own = recipe, known, own_intercepts or timed
        self.family: Family | None = None if timed else recipe.family(known)
        self.comparable = not self.of_ordinary or timed  # coefficients of a ranking are none of log-odds
        self.penalized_too = self.comparable and not recipe.is_unpenalized
        if not self.comparable:
            x = {"weights": np.zeros(np.shape(x["weights"])), "bias": np.zeros(())}
        encoder, weights = recipe.encoder(known), np.asarray(x["weights"], float)
        columns, self.encoder = weights.reshape(len(weights), -1), encoder
        whole = columns if self.own else np.concatenate([np.asarray(x["bias"], float).reshape(1, -1), columns])
        self.labels = recipe.answers(known).labels.tolist() if whole.shape[1] > 1 else []
        if self.labels:  # against the first class
            whole = whole[:, 1:] - whole[:, :1]
        levels = [f"{name}={level}" for name, level in encoder.contrasts]
        rest = encoder.features[len(encoder.numbers) + len(levels) :]
        self.features = [*([] if self.own else [INTERCEPT]), *encoder.numbers, *levels, *rest]
        self.start, self.scores = whole.ravel(), whole.shape[1]
        self.reported = self._convert_units()
        self.units = self._in_units(np.stack([row.of for row in self.reported]))
        self.shown_per = np.repeat([row.shown_per for row in self.reported], self.scores)
        self.offset = self._offset()

    @property
    def _about(self) -> str:
        """A sentence about what the estimates are."""
        if self.of_ordinary or self.penalized_too:
            return self.of_ordinary or UNPENALIZED
        return "Estimates and intervals are of the optimum without penalty, as the model is."

    def estimate(self, y: Values, ask: Ask, **options: Any) -> Estimate:
        """The optimum without penalty, from the solution on. options: as for `inference.newton.estimate`."""
        return estimate(
            lambda beta, meat: ask(self.question(y, beta, meat)),
            self.start,
            names=self.names,
            exact=self.family is not None and self.family.exact_second,
            self_concordant=self.family is None or self.family.self_concordant,
            counted="" if self.family is not None else "events",
            **options,
        )

    def prove(self, y: Values, ask: Ask, gap: float) -> Proved | None:
        """What is proved of the model's own coefficients, as they are reported; None of several scores.

        Nothing is proved where l1 is of the norms of curves.
        """
        options = self.recipe.settings(self.known)
        penalties = [float(options.get(name, 0.0)) for name in ("l1", "l2")]
        grouped = self.recipe.groups_curves and penalties[0] > 0
        if self.labels or self.own or self.family is None or grouped:
            return None
        sums = ask(self.question(y, self.start, self.family.exact_second))
        rows = self.recipe.rows_in_units(self.known)
        constant = largest_constant(sums["constant"]) if self.family.self_concordant else np.inf
        at = Point(
            weights=self.start,
            slope=np.divide(sums["slope"], rows),
            second=np.divide(from_triangle(sums["second"]), rows),
            rounding=(sums["rounding"] + SUMMED) / rows,
            gap=gap,
            squares=np.append(1.0, self.encoder.squares),
            smooth=self.family.largest_second,
            constant=0.0 if self.family.exact_second else constant,
        )
        free = np.arange(self.start.size) > 0
        return bound_coefficients(at, *(np.where(free, penalty, 0.0) for penalty in penalties))

    def question(self, y: Values, beta: Reals, meat: bool) -> Known:
        """What parties are asked for their sums at these parameters; without y of the ordinary model."""
        asked = {"own_intercept": np.asarray(int(self.own)), "beta": beta, "meat": np.asarray(int(meat))}
        return asked if self.of_ordinary else {"y": np.asarray(y, float), **asked}

    def penalized_parameters(self) -> Reals:
        """The model's own parameters as they are reported."""
        return np.asarray(self.units @ self.start + (0.0 if self.offset is None else self.offset))

    def tell_proved(self, proved: Proved) -> Json:
        """What is proved, by the names that features have in a model, as JSON has it; proved: with the intercept."""
        names, scales = [INTERCEPT, *self.encoder.features], self.encoder.scales
        per = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0)
        units = np.diag(np.append(1.0, per))
        units[0, 1:] = self.encoder.origin
        units *= float(self.recipe.answers(self.known).scale)
        values = units @ self.start
        values[0] += float(self.recipe.answers(self.known).center)
        proved = proved.of_sums(units, values)
        bounds = [None if np.isinf(bound) else float(bound) for bound in proved.bounds]
        words = [proved.word(j) for j in range(len(names))]
        return {name: {"within": bound, "proved": word} for name, bound, word in zip(names, bounds, words, strict=True)}

    @property
    def names(self) -> list[str]:
        """The name of each parameter."""
        return self._of_scores(self.features)

    def _of_scores(self, names: Sequence[str]) -> list[str]:
        """The names for each score."""
        return [f"{name}, {label}" for name in names for label in self.labels[1:]] if self.labels else list(names)

    def _convert_units(self) -> list["Reported"]:
        """What is reported: of a number per unit, of a category against the reference, of a curve at its knots."""
        encoder = self.encoder
        first = 0 if self.own else 1
        rows = [] if self.own else [Reported(INTERCEPT, np.append(1.0, encoder.origin))]
        scales, mean = encoder.scales, np.zeros(len(encoder.features))
        if encoder.standardizer is not None:
            mean[: len(encoder.numbers)] = encoder.standardizer.mean
        per = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0)
        shown = readable_units(mean, scales)
        references = {f"{name}={level}": encoder.references[name] for name, level in encoder.contrasts}
        curved = {j for place in encoder.bent.values() for j in range(place.start, place.stop)}
        curved |= {encoder.numbers.index(name) for name in encoder.curves}
        for j, name in enumerate(self.features[first:]):
            if j not in curved:
                row = np.zeros(first + len(scales))
                row[first + j] = per[j]
                rows.append(Reported(name, row, references.get(name, ""), float(shown[j])))
        return [*rows, *(row for name in encoder.curves for row in self._at_knots(name))]

    def _at_knots(self, name: str) -> list["Reported"]:
        """The differences of a curve's knots from the middle one."""
        knots = self.encoder.knots(name)
        words, middle = apart(knots.tolist()), len(knots) // 2
        rows = self._of_curve(name, knots)
        return [Reported(f"{name}={words[k]}", rows[k], words[middle]) for k in range(len(knots)) if k != middle]

    def _of_curve(self, name: str, values: Values) -> Reals:
        rows = self.encoder.curve_at(name, values)
        return rows if self.own else np.concatenate([np.zeros((len(rows), 1)), rows], axis=1)

    def _in_units(self, rows: Reals) -> Reals:
        """From parameters to what is reported, in units of the target."""
        scale = float(self.recipe.answers(self.known).scale)
        return np.asarray(scale * np.kron(rows, np.eye(self.scores)))

    def _offset(self) -> Reals | None:
        """What is added to the intercept of a target that was standardized."""
        if self.own or not self.recipe.reading.standardized:
            return None
        offset = np.zeros(len(self.units))
        offset[0] = float(self.recipe.answers(self.known).center)
        return offset

    def tables(self, estimate: Estimate, conditional: bool, confidence: float, proved: Proved | None) -> Json:
        """The table with its main errors, and with others. proved: of the model, with the intercept."""
        likelihood = self.family is None or self.family.likelihood
        kinds = ["sandwich"] if conditional or not likelihood else ["model-based", "sandwich"]
        if estimate.dispersion is not None and not conditional:
            kinds = [QUASI, *kinds]
        kinds += ["clustered"] if estimate.clustered is not None else []
        proved = proved if self.penalized_too else None
        if proved is not None:  # with an intercept, which there may be none of here
            units = np.concatenate([np.zeros((len(self.units), 1)), self.units], axis=1) if self.own else self.units
            proved = proved.of_sums(units, self.penalized_parameters())
        made = {
            kind: tabulate(
                estimate,
                penalized=self.penalized_parameters() if self.penalized_too else None,
                about=self._about,
                effect=self.recipe.reading.effect,
                kind=kind,
                confidence=confidence,
                conditional=conditional,
                units=self.units,
                offset=self.offset,
                names=self._of_scores([row.name for row in self.reported]),
                references={row.name: row.reference for row in self.reported},
                proved=proved,
                shown_per=self.shown_per,
            ).plain()
            for kind in kinds
        }
        first, *others = kinds
        own = self.own and self.family is not None
        about = {"own_intercepts": own, "curves": self._curves(estimate, first, confidence)}
        return {**made[first], **about, "others": {kind: made[kind] for kind in others}}

    def _curves(self, estimate: Estimate, kind: str, confidence: float) -> Json:
        """Of one score: each curve with its band, against its middle knot, and whether it bends at all."""
        told = {}
        for name in self.encoder.curves if self.scores == 1 else ():
            knots, features = self.encoder.knots(name), np.arange(len(self.encoder.features))
            at = self.encoder.curve_grid(name)
            rows = tabulate(
                estimate,
                penalized=np.zeros(len(at)),
                effect=DIFFERENCE,
                kind=kind,
                confidence=confidence,
                units=self._in_units(self._of_curve(name, at)),
                names=list(map(str, at)),
            ).rows
            bent = features[self.encoder.bent[name]] + int(not self.own)
            numbers = {end: [finite(getattr(row, end)) for row in rows] for end in ("estimate", "lower", "upper")}
            about = {"at": at.tolist(), "against": float(knots[len(knots) // 2])}
            told[name] = {**about, **numbers, "bends": finite(chance_of_none(estimate, kind, bent))}
        return told


def effect_columns(kept: Json) -> dict[str, list[Any]]:
    """The table of effects as columns of a file, one row for each effect."""
    return {name: [row[name] for row in kept["rows"]] for name in Effect._fields}


# A model without penalty: from the same sums, with a gap that self-concordance proves.


def find_unpenalized(
    recipe: TableRecipe,
    known: Sequence[Known],
    ask: Ask,
    configuration: Json,
    tol: float | None,
    rounds: int,
    collinear: str = DROPPED,
) -> Answer:
    """The optimum with one intercept for all parties, from zero on.

    Separable data have no model, which is said with the direction; columns that are combinations of those before them
    have coefficient 0, which is said too, or are refused. configuration: what the model keeps of its settings.
    """
    like = recipe.problem(known, "elsewhere").like.x
    zero = {name: np.zeros(np.shape(leaf)) for name, leaf in like.items()}
    layout = Layout(recipe, known, zero, own_intercepts=False)
    drop = collinear == DROPPED
    estimate = layout.estimate(np.zeros(0), ask, drop=drop, least_events=0, most=rounds)
    if estimate.outcome is not Outcome.DONE:
        raise ConfigurationError(f"there is no model: {estimate.why}")
    block = np.nan_to_num(estimate.beta).reshape(len(layout.features), -1)
    if layout.own:  # of times, which have no intercept
        block = np.concatenate([np.zeros((1, block.shape[1])), block])
    if layout.labels:  # scores of classes matter up to a common shift
        block = np.concatenate([np.zeros((len(block), 1)), block], axis=1)
        block = block - block.mean(axis=1, keepdims=True)
    x = {"weights": block[1:].reshape(np.shape(like["weights"]))}
    x |= {"bias": block[0].reshape(np.shape(like["bias"]))} if "bias" in like else {}
    gap = estimate.gap / recipe.rows_in_units(known)
    status = status_of(gap, tol)
    certificate = {
        "gap": gap,
        "status": status.name,
        "meaning": status.value,
        "proof": PROOF,
        "exchanges": estimate.exchanges,
        "violation": None,
        "tol": tol,
    }
    dropped = f"Columns that are combinations of others have no coefficient: {', '.join(estimate.dropped)}."
    return Answer(x, np.zeros(0), certificate, configuration, [dropped] if estimate.dropped else [])


def read_unpenalized(fit: Path) -> Model | None:
    """The model without penalty that a folder holds; None if it holds none, or a run."""
    if (fit / RUN_OF_FIT).exists() or not (fit / MODEL / JSON).exists():
        return None
    model = load(fit / MODEL)
    return model if model.certificate.get("proof") == PROOF else None


class Recheck(NamedTuple):
    """A model without penalty against its rows: the proved gap, and the most by which a coefficient should change."""

    gap: float
    moved: float


def recheck_unpenalized(recipe: TableRecipe, known: Sequence[Known], ask: Ask, x: Mapping[str, Reals]) -> Recheck:
    """Recompute the gap at x; infinite where there is no optimum."""
    layout = Layout(recipe, known, x, own_intercepts=False)
    estimate = layout.estimate(np.zeros(0), ask, drop=True, least_events=0)
    moved = np.max(np.abs(np.nan_to_num(estimate.beta) - layout.start), initial=0.0)
    return Recheck(estimate.gap / recipe.rows_in_units(known), float(moved))

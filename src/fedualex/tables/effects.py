"""The optimum without penalty, found from sums of all parties: a model's table of effects, or the model itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..inference.newton import Estimate, Outcome, estimate
from ..inference.table import QUASI, Effect, Effects, tabulate
from ..models import Model
from ..problems import RobustRecipe
from ..problems.families import Family
from ..runs.settings import ConfigurationError
from ..runtime.status import status_of
from ..summaries import Known
from .goals import GOALS, MEAN, PAIRS, SHARED
from .kept_model import Answer
from .recipe import TableRecipe

Ask = Callable[[Known], Mapping[str, NDArray[Any]]]
"""What is asked of `Party.effects`, to the sums of all parties: one exchange."""
INTERCEPT = "(intercept)"
PROOF = "self-concordance"
"""What proves the gap of a model without penalty, as its certificate keeps it (docs/inference.md)."""
WHY_NONE = {
    PAIRS.recipe: "a ranking of pairs has no standard errors here",
    SHARED.recipe: "coefficients of several targets that share directions have no standard errors here",
    RobustRecipe: "absolute deviations have no second derivatives",
}


@dataclass(frozen=True)
class Wanted:
    """confidence: of intervals. own_intercepts: whether each party has an intercept of its own."""

    confidence: float = 0.95
    own_intercepts: bool = False


def find_effects(
    recipe: TableRecipe, known: Sequence[Known], x: Mapping[str, Any], y: NDArray[Any], ask: Ask, wanted: Wanted
) -> dict[str, Any]:
    """What a model keeps: the table, its exchanges, and the table by other errors; or why there is none.

    x, y: the certified solution, from which the search begins and at which rows are weighed.
    """
    structure = GOALS[recipe.goal].structure
    if why := WHY_NONE.get(structure.recipe):
        return {"refused": f"there is no table of effects: {why}"}
    layout = Layout(recipe, known, x, wanted.own_intercepts)
    found = layout.estimate(y, ask, drop=True)
    if found.outcome is not Outcome.DONE:
        return {"refused": found.sentence, "exchanges": found.exchanges}
    conditional = structure is not MEAN or recipe.weights is not None
    return layout.tables(found, conditional, wanted.confidence)


class Layout:
    """Which parameter is which coefficient, and how each is reported."""

    def __init__(self, recipe: TableRecipe, known: Sequence[Known], x: Mapping[str, Any], own_intercepts: bool):
        self.recipe, self.known, self.own = recipe, known, own_intercepts
        encoder, weights = recipe.encoder(known), np.asarray(x["weights"], float)
        self.family: Family = recipe.family(known)
        columns, bias = weights.reshape(len(weights), -1), np.asarray(x["bias"], float).reshape(1, -1)
        whole = columns if own_intercepts else np.concatenate([bias, columns])
        self.labels = recipe.answers(known).labels.tolist() if whole.shape[1] > 1 else []
        if self.labels:  # against the first class
            whole = whole[:, 1:] - whole[:, :1]
        levels = [f"{name}={level}" for name, level in encoder.contrasts]
        rest = encoder.features[len(encoder.numbers) + len(levels) :]
        self.features = [*([] if own_intercepts else [INTERCEPT]), *encoder.numbers, *levels, *rest]
        self.start = whole.ravel()
        self.units = self._units(encoder, whole.shape[1])
        self.references = {f"{name}={level}": encoder.references[name] for name, level in encoder.contrasts}

    def estimate(self, y: NDArray[Any], ask: Ask, **options: Any) -> Estimate:
        """The optimum without penalty, from the solution on. options: as for `inference.newton.estimate`."""
        asked = {"y": np.asarray(y, float), "own_intercept": np.asarray(int(self.own))}
        return estimate(
            lambda beta, meat: ask({**asked, "beta": beta, "meat": np.asarray(int(meat))}),
            self.start,
            names=self.names,
            exact=self.family.exact_second,
            self_concordant=self.family.self_concordant,
            **options,
        )

    @property
    def names(self) -> list[str]:
        """One for each parameter."""
        if not self.labels:
            return self.features
        return [f"{feature}, {label}" for feature in self.features for label in self.labels[1:]]

    def _units(self, encoder: Any, scores: int) -> NDArray[Any]:
        """From parameters to what is reported: per unit of a column and of the target, at a row of zeros."""
        deviation, mean = np.ones(len(encoder.features)), np.zeros(len(encoder.features))
        if encoder.standardizer is not None:
            numbers = slice(0, len(encoder.numbers))
            deviation[numbers], mean[numbers] = encoder.standardizer.deviation, encoder.standardizer.mean
        per_unit = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
        matrix = np.diag(per_unit)
        if not self.own:
            matrix = np.block([[np.ones((1, 1)), -(mean * per_unit)[None]], [np.zeros((len(matrix), 1)), matrix]])
        scale = float(self.recipe.answers(self.known).scale)
        return scale * np.kron(matrix, np.eye(scores))

    def tables(self, found: Estimate, conditional: bool, confidence: float) -> dict[str, Any]:
        """The table with its main errors, and with others."""
        kinds = ["sandwich"] if conditional or not self.family.likelihood else ["model-based", "sandwich"]
        if found.dispersion is not None and not conditional:
            kinds = [QUASI, *kinds]
        kinds += ["clustered"] if found.clustered is not None else []
        offset = None
        if not self.own and self.recipe.reading.standardized:
            offset = np.zeros(len(self.names))
            offset[0] = float(self.recipe.answers(self.known).center)
        made = {
            kind: tabulate(
                found,
                penalized=self.units @ self.start + (0.0 if offset is None else offset),
                effect=self.recipe.reading.effect,
                kind=kind,
                confidence=confidence,
                conditional=conditional,
                units=self.units,
                offset=offset,
                names=self.names,
                references=self.references,
            ).plain()
            for kind in kinds
        }
        first, *others = kinds
        return {
            **made[first],
            "exchanges": found.exchanges,
            "own_intercepts": self.own,
            "others": {kind: made[kind] for kind in others},
        }


# What a model keeps, read again.


def effects_of(model: Model, kind: str | None = None) -> dict[str, Any]:
    """The table of effects that a model keeps. kind: of its errors; None is the one that is shown first."""
    kept: Mapping[str, Any] | None = model.training.get("effects")
    if kept is None:
        raise ConfigurationError("this model has no table of effects: fit it again with this version")
    if kind is None or "refused" in kept or kind == kept["kind"]:
        return dict(kept)
    if kind not in kept["others"]:
        known = ", ".join([kept["kind"], *kept["others"]])
        raise ConfigurationError(f"errors must be one of {known}, which this model has, got {kind!r}")
    about = {name: kept[name] for name in ("exchanges", "own_intercepts")}
    return {**kept["others"][kind], **about, "others": {}}


def read_effects(kept: Mapping[str, Any]) -> Effects:
    """As an object."""
    return Effects.read({one.name: kept[one.name] for one in fields(Effects)})


def effect_columns(kept: Mapping[str, Any]) -> dict[str, list[Any]]:
    """As a file has it, one row for each effect."""
    return {name: [row[name] for row in kept["rows"]] for name in Effect._fields}


# A model without penalty: from the same sums, with a gap that self-concordance proves.


def find_unpenalized(
    recipe: TableRecipe,
    known: Sequence[Known],
    ask: Ask,
    configuration: Mapping[str, Any],
    tol: float | None,
    rounds: int,
) -> Answer:
    """The optimum with one intercept for all parties, from zero on.

    Separable data have no model, which is said with the direction; columns that are combinations of those before them
    have coefficient 0, which is said too. configuration: what the model keeps of its settings.
    """
    like = recipe.problem(known, "elsewhere").like.x
    zero = {name: np.zeros(np.shape(leaf)) for name, leaf in like.items()}
    layout = Layout(recipe, known, zero, own_intercepts=False)
    found = layout.estimate(np.zeros(0), ask, drop=True, least_events=0, most=rounds)
    if found.outcome is not Outcome.DONE:
        raise ConfigurationError(f"there is no model: {found.why}")
    block = np.nan_to_num(found.beta).reshape(len(layout.features), -1)
    if layout.labels:  # scores of classes matter up to a common shift
        block = np.concatenate([np.zeros((len(block), 1)), block], axis=1)
        block = block - block.mean(axis=1, keepdims=True)
    x = {"weights": block[1:].reshape(np.shape(like["weights"])), "bias": block[0].reshape(np.shape(like["bias"]))}
    gap = found.gap / float(recipe.counts(known).sum())
    status = status_of(gap, tol)
    certificate = {
        "gap": gap,
        "status": status.name,
        "meaning": status.value,
        "proof": PROOF,
        "exchanges": found.exchanges,
        "violation": None,
        "tol": tol,
    }
    dropped = f"Columns that are combinations of others have no coefficient: {', '.join(found.dropped)}."
    return Answer(x, np.zeros(0), certificate, configuration, [dropped] if found.dropped else [])


class Recheck(NamedTuple):
    """A model without penalty against its rows: the proved gap, and the most by which a coefficient should change."""

    gap: float
    moved: float


def recheck_unpenalized(recipe: TableRecipe, known: Sequence[Known], ask: Ask, x: Mapping[str, Any]) -> Recheck:
    """The gap at x once more; infinite where there is no optimum."""
    layout = Layout(recipe, known, x, own_intercepts=False)
    found = layout.estimate(np.zeros(0), ask, drop=True, least_events=0)
    moved = np.max(np.abs(np.nan_to_num(found.beta) - layout.start), initial=0.0)
    return Recheck(found.gap / float(recipe.counts(known).sum()), float(moved))

"""The model of a table without penalty: found from sums of all parties, with a gap that self-concordance proves."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..inference.newton import Outcome
from ..runs.settings import ConfigurationError
from ..runtime.status import status_of
from ..summaries import Known
from .effects import Ask, Layout
from .kept_model import Answer
from .recipe import TableRecipe

PROOF = "self-concordance"
"""What proves the gap of such a model, as its certificate keeps it (docs/inference.md)."""


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
    if layout.own:
        block = np.concatenate([np.zeros((1, block.shape[1])), block])
    if layout.labels:  # scores of classes matter up to a common shift
        block = np.concatenate([np.zeros((len(block), 1)), block], axis=1)
        block = block - block.mean(axis=1, keepdims=True)
    x = {"weights": block[1:].reshape(np.shape(like["weights"]))}
    if "bias" in like:
        x["bias"] = block[0].reshape(np.shape(like["bias"]))
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


def recheck(recipe: TableRecipe, known: Sequence[Known], ask: Ask, x: Mapping[str, Any]) -> Recheck:
    """The gap at x once more; infinite where there is no optimum."""
    layout = Layout(recipe, known, x, own_intercepts=False)
    found = layout.estimate(np.zeros(0), ask, drop=True, least_events=0)
    moved = np.max(np.abs(np.nan_to_num(found.beta) - layout.start), initial=0.0)
    return Recheck(found.gap / float(recipe.counts(known).sum()), float(moved))

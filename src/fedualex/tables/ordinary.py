"""The ordinary model of the same rows at the same penalty, so that a reader sees what a goal has bought."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Table
from ..inference.measures import Interval
from ..models import Model
from ..problems.readings import SMALLER_IS_BETTER
from ..runtime import solve
from .goals import COX, GOALS, LIMITED_CLASS, MEAN, PAIRS, WORST, WORST_HAZARD
from .measures import CONFIDENCE, read_measures, sum_measures, worst
from .party import Party, agree, pooled_problem

BESIDE = {WORST.recipe, LIMITED_CLASS.recipe, PAIRS.recipe, WORST_HAZARD.recipe}
"""The structures that have an ordinary model beside them."""
TOL = 1e-6
MEASURES = ("loss", "deviance", "auc", "mse", "c-index")
"""By the first that both models have they are compared."""


def fit_ordinary(parties: Sequence[Party], penalty: Mapping[str, Any]) -> Model | None:
    """The least mean loss with this l1 and l2; None where the goal is ordinary itself, or has no such model."""
    recipe = parties[0].recipe
    goal = GOALS[recipe.goal]
    if goal.structure.recipe not in BESIDE or not (l1 := float(penalty["value"])) + float(penalty.get("l2", 0.0)) > 0:
        return None
    family = goal.family or "logistic"
    means = (other for other, found in GOALS.items() if found.structure is MEAN and found.family == family)
    name = COX if recipe.reading.timed else next(means)
    options = {"l1": l1, "l2": float(penalty.get("l2", 0.0))}
    plain = replace(recipe, goal=name, groups=None, options=options, least_rows=0)
    dropped = [] if recipe.groups is None else [recipe.groups]
    members = [Party(plain, own.client, own.trained.without(*dropped), own.name) for own in parties]
    known = agree(members)
    run = solve(pooled_problem(members, known), tol=TOL, rounds=100)
    return plain.model(known, run.z.x)


def describe_ordinary(measures: Mapping[str, Any], ordinary: Mapping[str, Any]) -> str:
    """Both models on the same held-out rows, in one sentence."""
    both = (ordinary, measures)
    known = (name for name in MEASURES if all(found["overall"].get(name) is not None for found in both))
    name, told = next(known, "accuracy"), []
    for found in both:
        text, least = f"{found['overall'][name]:.4g}", worst(name, found["clients"])
        told.append(text if least is None or len(found["clients"]) < 2 else f"{text}, {least:.4g} for the worst client")
    how = "smaller" if name in SMALLER_IS_BETTER else "larger"
    beside = f"{name} {told[0]}; this one: {told[1]} ({how} is better)"
    return f"The ordinary model on the same rows, at the same penalty: {beside}"


# Of goals that serve the worst group: what that group has of it on held-out rows.


LEAST_MEASURED = 10
"""Held-out rows of a group below which it is measured together with others of as few."""


def is_constant(model: Model) -> bool:
    """Whether every row gets the same answer."""
    return not any(c.size > 0 for c in model.coefficients)


def judge_fairness(
    model: Model, ordinary: Model, table: Table, groups: NDArray[Any], confidence: float = CONFIDENCE
) -> tuple[str, str]:
    """What is wrong with a fair model on held-out rows, if something is, and both worst groups, in a sentence each.

    table, groups: held-out rows, and whose group each is.
    """
    names, count = np.unique(groups.astype(str), return_counts=True)
    few = np.isin(groups.astype(str), names[count < LEAST_MEASURED])
    number = np.where(few, f"groups of fewer than {LEAST_MEASURED} held-out rows", groups.astype(str))
    own, usual = (_worst_group(one, table, number, confidence) for one in (model, ordinary))
    if own is None or usual is None:
        return ("This model is a constant: every row gets the same answer." if is_constant(model) else ""), ""
    (name, loss), (other, ordinary_loss) = own, usual
    told = (
        f"Served worst on held-out rows: {name}, loss {_told(loss)}; by the ordinary model: {other}, loss "
        f"{_told(ordinary_loss)} (with {100 * confidence:g}% intervals)."
    )
    if is_constant(model):
        return "This model is a constant: every row gets the same answer. " + told, told
    if loss.value >= ordinary_loss.value:
        return f"On held-out rows this model does not serve its worst group better than the ordinary one. {told}", told
    return "", told


def _told(loss: Interval) -> str:
    return f"{loss.value:.3g} ({loss.lower:.3g} to {loss.upper:.3g})"


def _worst_group(model: Model, table: Table, groups: NDArray[Any], confidence: float) -> tuple[str, Interval] | None:
    """The group of the largest loss, with its loss; None if some group has none."""
    found = dict[str, Interval]()
    for name in np.unique(groups).tolist():
        measures = read_measures(model, sum_measures(model, table.take(groups == name)), confidence=confidence)
        known = next((one for key in MEASURES if (one := measures.get(key)) is not None), None)
        if known is None:
            return None
        found[name] = known
    return max(found.items(), key=lambda item: item[1].value)

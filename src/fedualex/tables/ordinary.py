"""The ordinary model of the same rows at the same penalty, so that a reader sees what a goal has bought."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..models import Model
from ..problems.readings import SMALLER_IS_BETTER
from ..runtime import solve
from .goals import COX, GOALS, LIMITED_CLASS, MEAN, PAIRS, WORST, WORST_HAZARD
from .measures import worst
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
    plain = replace(recipe, goal=name, groups=None, options=options)
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

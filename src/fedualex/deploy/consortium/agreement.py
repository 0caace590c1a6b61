"""What all parties of a deployment of tables are told: the goal, the sites, and what a run is allowed."""

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from ...arrays import Reals
from ...models import Model
from ...models.store import to_parts
from ...problems import AbstractProblem
from ...runs.settings import ConfigurationError, build_method
from ...runtime import fingerprint
from ...storage import Json
from ...summaries import Known, Summary
from ...tables.goals import GOALS, LIMITED_GROUPS, Goal
from ...tables.ordinary import ordinary_model
from ...tables.penalty import default_penalty, range_of_path
from ...tables.recipe import CHOSEN, TableRecipe, read_recipe
from ..task import DeploymentOptions
from .messages import read_known

AGREED = ("secure_sums", "least_sites", *(one.name for one in fields(DeploymentOptions) if one.metadata["decides"]))
"""The keys of [run] that change the answer, or what leaves a site."""


def has_tables(settings: Json) -> bool:
    """Whether the sites of these settings have a table each, and the problem is a goal for them."""
    return "goal" in settings["problem"]


def check_goal(name: str) -> None:
    """Refuse a goal of which an answer to the server would have a number for each row, or show a row."""
    goal = GOALS[name]
    if why := _why_on_one_machine(goal):
        alike = {other: one for other, one in GOALS.items() if one.reading.name == goal.reading.name}
        able = ", ".join(
            other for other, one in alike.items() if one.counts == goal.counts and not _why_on_one_machine(one)
        )
        raise ConfigurationError(f"the goal {name} is for one machine: {why}; use {able}")


def _why_on_one_machine(goal: Goal) -> str:
    """Why sites must not answer for it; empty if they may."""
    if goal.structure.recipe.row_duals:
        return "one dual number for each row would leave a site"
    if goal.counts and goal.structure is LIMITED_GROUPS:  # multipliers of a thousand make the first steps long
        return (
            "its loss is an exponential, and a step that was too long would ask for sums of which one row is nearly all"
        )
    return ""


def recipe_of_goal(settings: Json) -> TableRecipe:
    """The recipe of these settings."""
    check_goal(settings["problem"]["goal"])
    return read_recipe(settings["problem"], smooth=bool(build_method(settings["method"]).missing_steps()))


def agreement(settings: Json) -> str:
    """A digest that is equal at all parties that were told the same; requests before a run begin with it.

    It covers what changes the answer or what leaves a site. The rest of [run], such as patience with sites, is the
    operator's, who may change it at the server alone.
    """
    run = {key: value for key, value in settings["run"].items() if key in AGREED}
    told = {"problem": settings["problem"], "method": settings["method"], "run": run, "sites": list(settings["sites"])}
    return fingerprint(json.dumps(told, sort_keys=True))[:16]


def known_at(party: Path) -> list[Known]:
    """What the parties have agreed on, as this one keeps it."""
    if (known := read_known(party)) is None:
        raise ConfigurationError(f"{party} has no merged summaries yet: a run begins with them")
    return known


def server_view(settings: Json, party: Path) -> AbstractProblem:
    """The problem as the server sees it, with nobody's rows."""
    return recipe_of_goal(settings).problem(known_at(party), "elsewhere")


def site_weights(settings: Json, known: Sequence[Known]) -> tuple[float, ...]:
    """The weight of each site in the objective, which the recipe decides."""
    return tuple(map(float, recipe_of_goal(settings).party_weights(known)))


# What a site can check of what it is told: its own part of merged summaries, and models that come to be measured.


MOST_SPREAD = 1e6
"""The largest ratio of two sites' weights: in a sum of less even ones the small ones would be lost in rounding."""
NEAR = 1e-3
"""The share by which the ends of a path may differ from those that a server finds, which looks for a best constant."""
SLACK = 1e-9
"""The relative error that is allowed for sums under masks, and for sums in another order."""
SIGNED = (
    "total",
    "target total",
    "row_sum",
    "target_sum",
    "class_rows",
    "group_targets",
    "tangent_slopes",
    "tangent_rows",
)
"""Sums of numbers of both signs, which may be smaller than a site's own part."""


def why_not_merged(own: Summary, known: Known, client: int, sites: int) -> str:
    """Why a merged summary cannot hold this one of site number `client`, by a name and without a number; else empty."""
    if own.shapes.keys() != known.keys():
        return "it has other parts"
    for name, value in own.each.items():
        if known[name].shape != (sites, *np.shape(value)) or not np.array_equal(known[name][client], value):
            return f"{name} of this site is another"
    for name, value in own.labels.items():
        if not np.all(np.isin(value, known[name])):
            return f"{name} are without some of this site"
    for name, value in (*own.sums.items(), *own.largest.items()):
        if known[name].shape != np.shape(value):
            return f"{name} has another shape"
        least = np.asarray(value) - (SLACK * np.abs(value) if name in own.sums else 0)
        if name not in SIGNED and np.any(known[name] < least - np.finfo(float).tiny):
            return f"{name} is less than that of this site alone"
    return ""


def why_no_penalty(recipe: TableRecipe, known: Sequence[Known], told: Known) -> str:
    """Why this cannot be the penalty that held-out rows have chosen, or the default; else empty.

    known: the merged summaries before it. Which value of the path is chosen no site can compute alone.
    """
    if not recipe.penalties:
        return "it has other parts"
    chosen, default = {CHOSEN + name for name in recipe.penalties}, default_penalty(recipe, known, "").as_known
    if not chosen <= told.keys() <= default.keys():
        return "it has other parts"
    if any(np.shape(value) or not np.isfinite(value) or value < 0 for value in told.values()):
        return "the penalty that was chosen is no number > 0"
    if not any(told[name] > 0 for name in chosen):
        return "the penalty that was chosen is no number > 0"
    if told.keys() == default.keys() and all(told[key] == default[key] for key in told):
        return ""
    if told.keys() != chosen or sum(bool(value > 0) for value in told.values()) > 1:
        return "it has a second penalty, which is not the default"
    ends = range_of_path(recipe, known)
    if ends is not None and not ends[0] * (1 - NEAR) <= float(next(iter(told.values()))) <= ends[1] * (1 + NEAR):
        return "the penalty that was chosen is not within the path that all sums together lead to"
    return ""


def why_not_spread(weights: Reals) -> str:
    """Why sites of these weights are not added up; empty if they are."""
    some = weights[weights > 0]
    if some.size and some.max() > MOST_SPREAD * some.min():
        return f"this site is added up with others whose weights are within a factor of {MOST_SPREAD:g}"
    return ""


def is_of_run(model: Model, recipe: TableRecipe, known: Sequence[Known], calibrates: bool = False) -> bool:
    """Whether a model differs from those of this run in its weights and its bias alone, or is the ordinary one beside.

    calibrates: whether its threshold may be another one too.
    """
    own = recipe.model(known, {"weights": model.weights, "bias": model.bias})
    if calibrates:
        own = replace(own, answers=replace(own.answers, threshold=model.answers.threshold))
    return any(_differs_in_numbers(model, other) for other in (own, _beside(model, recipe, known)) if other is not None)


def _beside(model: Model, recipe: TableRecipe, known: Sequence[Known]) -> Model | None:
    return ordinary_model(recipe, known, model.weights, model.bias)


def _differs_in_numbers(model: Model, own: Model) -> bool:
    """Whether two models are the same but for weights and bias."""
    (said, numbers), (same, others) = to_parts(model), to_parts(own)
    fixed = ("target", "answers", "numbers", "categories", "codes", "indicators", "missing", "curves", "products")
    return {key: said[key] for key in fixed} == {key: same[key] for key in fixed} and all(
        np.array_equal(numbers[name], others[name]) for name in others if name not in ("weights", "bias")
    )

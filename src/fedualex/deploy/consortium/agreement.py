"""What all parties of a deployment of tables are told: the goal, the sites, and what a run is allowed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ... import __version__
from ...problems import AbstractProblem
from ...runs.settings import ConfigurationError, build_method, recipe_class
from ...runtime import fingerprint
from ...summaries import Known
from ...tables.goals import GOALS, Goal
from ...tables.recipe import TableRecipe
from .messages import read_known

OWN = ("goal", "target", "groups", "weights", "holdout")
"""The keys of a table [problem] with a goal that are no options of the goal."""


def has_tables(settings: Mapping[str, Any]) -> bool:
    """Whether the sites of these settings have a table each, and the problem is a goal for them."""
    return "goal" in settings["problem"]


def check_goal(name: str) -> None:
    """Refuse a goal of which an answer to the server would have a number for each row."""
    if _has_row_duals(GOALS[name]):
        others = [other for other, goal in GOALS.items() if goal.answers == GOALS[name].answers]
        able = ", ".join(other for other in others if not _has_row_duals(GOALS[other]))
        raise ConfigurationError(
            f"the goal {name} is for one machine: one dual number for each row would leave a site; use {able}"
        )


def _has_row_duals(goal: Goal) -> bool:
    return bool(recipe_class(goal.problem).row_duals)


def recipe_of_goal(settings: Mapping[str, Any]) -> TableRecipe:
    """The recipe of these settings."""
    problem = settings["problem"]
    check_goal(problem["goal"])
    options = {key: value for key, value in problem.items() if key not in OWN and value is not None}
    target = problem["target"] if isinstance(problem["target"], str) else tuple(problem["target"])
    columns = target, problem["groups"], problem["weights"]
    smooth = bool(build_method(settings["method"]).missing_steps())
    return TableRecipe(problem["goal"], *columns, options, smooth)


def agreement(settings: Mapping[str, Any]) -> str:
    """A word that is the same at all parties that were told the same: requests before a run begin with it."""
    told = {key: settings[key] for key in ("problem", "method", "run")} | {"sites": list(settings["sites"])}
    return fingerprint(json.dumps(told, sort_keys=True), __version__)[:16]


def known_at(party: Path) -> list[Known]:
    """What the parties have agreed on, as this one keeps it."""
    if (known := read_known(party)) is None:
        raise ConfigurationError(f"{party} has no merged summaries yet: a run begins with them")
    return known


def server_view(settings: Mapping[str, Any], party: Path) -> AbstractProblem:
    """The problem as the server sees it, with nobody's rows."""
    return recipe_of_goal(settings).problem(known_at(party), "elsewhere")


def site_weights(settings: Mapping[str, Any], known: Sequence[Known]) -> tuple[float, ...]:
    """The weight of each site in the objective, which the recipe decides."""
    return tuple(map(float, recipe_of_goal(settings).party_weights(known)))

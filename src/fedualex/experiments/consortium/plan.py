"""From a goal and the names of sites to the settings of a deployment of tables, without anybody's table."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...deploy import DeploymentOptions
from ...validation import hint
from ..configuration import run_defaults, with_defaults
from ..deployment_settings import DEFAULT_METHOD, check_parties, server_settings
from ..goals import GOALS, OPTIONS, arguments_of, target_of
from ..registry import METHODS, ConfigurationError, build_method, check_keys, recipe_of

DEFAULTS: dict[str, Any] = {"groups": None, "weights": None, "holdout": 0.2, "rounds": 1000, "tol": None}
KEYS = ("goal", "target", *DEFAULTS, *OPTIONS)
"""The keys of [fit] that a deployment takes; table and clients are the sites' own affair."""
RUN_KEYS = ("attempts", "local_steps", "max_seconds", "operator_bound", "secure_sums", "timeout")
"""The keys of [run] that a deployment of tables takes."""


def plan_deployment(
    fit: Mapping[str, Any],
    sites: Sequence[str],
    server: Mapping[str, Any],
    run: Mapping[str, Any],
    method: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The settings that all parties are told. Sites are in sorted order, which decides sums to the last bit.

    fit: as for `fedualex fit`. server, run, method: as the tables of a file have them.
    """
    method = method or {"name": DEFAULT_METHOD}
    build_method(method)  # refuses what is no method
    check_keys("[fit]", fit, (*KEYS, "table", "clients"))
    check_keys("[run]", run, RUN_KEYS)
    full = {**DEFAULTS, **{key: value for key, value in fit.items() if value is not None}}
    for key, what in (("goal", f"one of {', '.join(GOALS)}"), ("target", "the name of a column")):
        if full.get(key) is None:
            raise ConfigurationError(f"a deployment of tables needs {key}, {what}")
    if (goal := full["goal"]) not in GOALS:
        raise ConfigurationError(f"there is no goal {goal!r}; {hint(goal, GOALS)}")
    full["target"] = target_of(goal, full["target"])
    if full["groups"] is not None and not GOALS[goal].grouped:
        raise ConfigurationError(f"groups are for the goals {_grouped()}, got the goal {goal}")
    parties = server_settings(server)
    check_parties(parties, sites)
    options = {key: full[key] for key in OPTIONS if full.get(key) is not None}
    arguments = arguments_of(goal, options, np.array(["0", "1"]), rows=1)
    recipe_of({"name": GOALS[goal].problem, **arguments})  # refuses bad values
    tol = GOALS[goal].tol if full["tol"] is None else full["tol"]
    return {
        "problem": {"goal": goal, **{key: full[key] for key in ("target", "groups", "weights", "holdout")}, **options},
        "method": with_defaults(method, METHODS),
        "run": {**run_defaults(DeploymentOptions), "rounds": full["rounds"], "tol": tol, **run},
        "privacy": None,
        "server": parties,
        "sites": {name: {"weight": 1.0} for name in sorted(sites)},
        "has_data": True,
    }


def _grouped() -> str:
    return ", ".join(name for name, goal in GOALS.items() if goal.grouped)

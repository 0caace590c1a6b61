"""A deployment of tables on disk: each party's keys, what all agree on, and the files that are a site's own."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...runs.settings import (
    METHODS,
    ConfigurationError,
    build_method,
    check_keys,
    read_toml,
    with_defaults,
)
from ...storage import Json, write_atomically, write_json
from ...tables.goals import (
    GOALS,
    SITES,
    Selection,
    check_exposure,
    check_groups,
    check_options,
    is_unpenalized,
    names_of,
    penalties_to_choose,
    read_fit,
    read_least_rows,
)
from ...tables.rates import check_wanted_rate
from ...tables.recipe import plain_coding
from ...tables.weights import check_kl, weighs_clients
from ...validation import one_of, short
from ..party import SERVER, Layout
from ..secure.sums import FEWEST, OFF
from .agreement import check_goal, recipe_of_goal
from .deployment import provision, rules_in_force, write_deployment, write_readme
from .differences import GO, STOP
from .settings import RUN_DEFAULTS, SETTINGS, check_parties, server_settings
from .site import SITE_FILE, TEMPLATE

# From a goal and the names of sites to the settings of a deployment of tables, without anybody's table.


SITES_OWN = ("table", "clients")
"""The keys of [fit] that each site decides for itself."""
RUN_KEYS = (
    "attempts",
    "least_sites",
    "local_steps",
    "max_seconds",
    "on_warning",
    "operator_bound",
    "patience",
    "secure_sums",
    "timeout",
)
"""The keys of [run] that a deployment of tables takes."""


def plan_deployment(
    fit: Json,
    sites: Sequence[str],
    server: Json,
    run: Json,
    method: Json | None = None,
) -> Json:
    """The settings that all parties are told. Sites are sorted, as the order of a sum decides its last bits.

    fit: as for `fedualex fit`. server, run, method: as the tables of a file have them.
    """
    check_keys("[run]", run, RUN_KEYS)
    one_of("on_warning", run.get("on_warning", STOP), (STOP, GO))
    _check_least_sites(run.get("least_sites"), len(sites), run.get("secure_sums", RUN_DEFAULTS["secure_sums"]))
    _check_named(fit)
    wanted, goal = read_fit(fit, SITES_OWN), fit["goal"]
    check_goal(goal)
    if wanted.rate is not None:
        check_wanted_rate(goal, wanted.rate, wanted.holdout)
    check_groups(goal, wanted.groups)
    check_exposure(goal, wanted.exposure)
    check_kl(goal, wanted.groups, wanted.options)
    given, method = method, method or {"name": _default_method(goal, wanted.groups, len(sites))}
    build_method(method)  # refuses what is no method
    parties = server_settings(server, tables=True)
    check_parties(parties, sites)
    check_options(goal, wanted.options)
    if given and is_unpenalized(wanted.options):
        raise ConfigurationError("[method] has no part in a model without penalty (l1 = l2 = 0): leave it out")
    told = {key: getattr(wanted, key) for key in PLAIN_KEYS} | plain_coding(wanted.coding)
    told["least_rows"] = read_least_rows(goal, wanted.least_rows)
    told |= asdict(Selection(wanted.folds, wanted.choose)) if penalties_to_choose(goal, wanted.options) else {}
    _check_folds(told, run.get("secure_sums", RUN_DEFAULTS["secure_sums"]), len(sites))
    own = {"on_warning": STOP, "least_sites": None, "rounds": wanted.rounds, "tol": wanted.tol}
    return {
        "problem": {**told, **wanted.options},
        "method": with_defaults(method, METHODS),
        "run": {**RUN_DEFAULTS, **own, **run},
        "privacy": None,
        "server": parties,
        "sites": {name: {"weight": 1.0} for name in sorted(sites)},
        "has_data": True,
    }


def _check_folds(told: Json, secure_sums: object, sites: int) -> None:
    if told.get("folds") == SITES and secure_sums != OFF and sites >= FEWEST:
        raise ConfigurationError(
            "folds = 'sites' tells the server of each site alone, which masks are to hide: "
            "choose a number of folds, or secure_sums = 'off' in [run]"
        )


def _check_least_sites(least: object, sites: int, secure_sums: object) -> None:
    fewest = FEWEST if secure_sums != OFF and sites >= FEWEST else 1
    if least is not None and (type(least) is not int or not fewest <= least <= sites):
        raise ConfigurationError(
            f"least_sites must be a whole number from {fewest} to {sites}, the sites without which no run begins, got "
            f"{short(least)}"
        )


def _check_named(fit: Json) -> None:
    """Refuse a fit without a goal or a target. For times, `read_fit` asks for two columns instead."""
    timed = fit.get("goal") in GOALS and GOALS[fit["goal"]].reading.timed
    for key, what in (("goal", f"one of {', '.join(GOALS)}"), ("target", "the name of a column")):
        if fit.get(key) is None and not (timed and key == "target"):
            raise ConfigurationError(f"a deployment of tables needs {key}, {what}")


PLAIN_KEYS = (
    "goal",
    "target",
    "groups",
    "weights",
    "exposure",
    "id",
    "missing",
    "holdout",
    "confidence",
    "rate",
    "site_intercepts",
    "collinear",
)
"""The keys of [fit] that all parties are told unchanged."""
TABLES = ("fit", "method", "server", "run", "sites")
"""The tables of a file; all but [fit] may be left out."""
LEAVES = """First the names of its columns; if all sites have the same, {exchanges} summaries of its rows: which
categories and classes there are and how often, counts, sums and sums of squares, sums of the rows of each class (the
page on recipes lists them all), and the names of columns in which it differs far from the others. Then, in every
exchange, its mean loss and the gradient of it at a point: as many numbers as the model has coefficients, two, and for a
worst-case goal one for each group; with FeDualNewton and FeDualCuts also its
second derivatives, weighted second moments of the rows, one for each pair of coefficients; with a method of local steps
also what these changed. Where no penalty is given, the same before the run without each fold of its rows, and losses of
these folds: the difference of two sums is a sum over one fold. At the end the same sums for the table of effects, with
a power of two above the longest row, and sums that measure and calibrate the model on the rows that it held out: counts
of right answers and of ranks, sums of losses, counts by predicted risk, sums of a regression on the score. Nothing
else: no row. This is not anonymous: sums over few rows can reveal them.
Where the parties' folders have keys in `secure/`, sums, losses, gradients, second derivatives and measures leave under
masks: the server sees what all sites add up to, and of each its number of rows, its categories and names of columns.
What a site lets leave is its own decision, in `policy.toml`, in which these are in force from the beginning: {rules}.
With `secure_sums = "required"` a site gives no sum in the clear, whatever the server asks. What left is in
`ledger.jsonl`, the values in `released/`."""
DATA = """Each site names its own table in its `site.toml`, and there gives columns the names that all sites use. Nobody
else sees this file. `fedualex deploy check sites/NAME` reads the table and shows what would leave, without network."""


def read_file(file: Path) -> Json:
    """The tables of a TOML file with [fit]; every one that was left out is empty."""
    given = read_toml(file)
    check_keys("the file", given, TABLES)
    for name, table in given.items():
        if not isinstance(table, dict):
            raise ConfigurationError(f"the file must have [{name}] as a table")
    return {**{name: {} for name in TABLES}, **given}


def write_table_deployment(
    root: Path,
    fit: Json,
    sites: Json,
    server: Json,
    run: Json,
    method: Json | None = None,
) -> list[str]:
    """Make the folder of a deployment of tables; the names of its sites.

    sites: for each site its table, {} or {"table": file} for a trial on one machine. method: the default if None.
    """
    for name, own in sites.items():
        if not isinstance(own, dict):
            raise ConfigurationError(f"[sites.{name}] must be a table, which may have table, a file")
        check_keys(f"[sites.{name}]", own, ("table",))
    settings = plan_deployment(fit, list(sites), server, run, method)
    provision(root, settings)
    for name in (SERVER, *settings["sites"]):
        party = Layout(root).party(name)
        write_json(party / SETTINGS, settings if name == SERVER else {**settings, "site": name})
        if name != SERVER:
            table, target = json.dumps(sites[name].get("table", "")), names_of(settings["problem"]["target"])[0]
            text = TEMPLATE.format(table=table, target=target)
            write_atomically(party / SITE_FILE, text.encode())
    rules = ", ".join(f"`{name} = {value}`" for name, value in rules_in_force(settings).items())
    leaves = LEAVES.format(exchanges=recipe_of_goal(settings).exchanges, rules=rules)
    write_readme(root, settings, leaves, DATA)
    return list(settings["sites"])


def _default_method(goal: str, groups: str | None, sites: int) -> str:
    """The method that needs the fewest exchanges, where masks can hide what it asks for.

    Of a loss that weighs sites, all second derivatives show each site's own gradient, those in x alone do not.
    """
    return "FeDualCuts" if sites >= FEWEST and weighs_clients(goal, groups is not None) else "FeDualNewton"


# The folder of a deployment, from a command line with or without a file.


def init_deployment(
    root: Path, config: Path | None, sites: str | None, fit: Json, server: Mapping[str, Any]
) -> list[str]:
    """Make the folder of a deployment; the names of its sites. Sites bring tables if the file or `fit` names a goal.

    fit, server: what was given beside the file, over which it has precedence; nothing for None.
    """
    given = {key: value for key, value in fit.items() if value is not None}
    if not given and sites is None and (config is None or "fit" not in read_toml(config)):
        if others := [key for key in server if key != "engine"]:
            raise ConfigurationError(f"{others[0]} belongs into [server] of the file of a problem")
        return write_deployment(root, config, server.get("engine"))
    file = {key: {} for key in TABLES} if config is None else read_file(config)
    named = file["sites"] if sites is None else {name: {} for name in _names(sites)}
    if not named:
        raise ConfigurationError("a deployment of tables needs sites, as --sites north,south,east or [sites.NAME]")
    own = {name: _locate(site, Path() if config is None else config.parent) for name, site in named.items()}
    chosen = {**file["fit"], **given}
    return write_table_deployment(root, chosen, own, {**file["server"], **server}, file["run"], file["method"])


def _names(sites: str) -> list[str]:
    names = [name.strip() for name in sites.split(",") if name.strip()]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"sites must have different names, got {', '.join(names)}")
    return names


def _locate(site: object, folder: Path) -> Any:
    """A site's table as its own folder names it: a file that is here by its whole path, anything else as it is."""
    if isinstance(site, dict) and isinstance(table := site.get("table"), str) and (folder / table).is_file():
        return {**site, "table": str((folder / table).resolve())}
    return site

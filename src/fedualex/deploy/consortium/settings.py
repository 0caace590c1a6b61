"""The settings of a deployment, from its TOML file or a party's folder, and the problem and task they make."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...algorithms import FeDualSlide
from ...algorithms.cuts import are_too_many
from ...algorithms.newton import count_asked, why_no_curvature
from ...problems import AbstractProblem
from ...problems.recipe import sources_of
from ...runs.settings import (
    METHODS,
    PROBLEMS,
    ConfigurationError,
    build_method,
    build_problem,
    check_keys,
    check_tables,
    find_named,
    read_toml,
    run_defaults,
    run_options,
    with_defaults,
)
from ...storage import Json
from ...summaries import Known
from ...tables.goals import default_tolerance
from ...validation import short
from .. import DeploymentOptions, Privacy, Task
from ..engines import ENGINES
from ..party import check_address, check_name
from ..policy import Policy
from ..secure.sums import choose_roster, why_not_secure
from .agreement import has_tables, recipe_of_goal, server_view, site_weights

SETTINGS = "deployment.json"
DEFAULT_METHOD = "FeDualSlide"
"""It needs no step size, which nobody could tune with the data at sites."""
PATIENCE = 300.0
"""Seconds for which a run waits for sites that have failed: a machine that is started again takes as long."""
OF_TABLES = ("on_warning", "least_sites")
"""Keys of [run] that are of deployments of tables alone."""
LOOPBACK = ("localhost", "127.0.0.1")
"""Hosts of a server that only parties on its own machine reach."""
RUN_DEFAULTS = run_defaults(DeploymentOptions) | {"patience": PATIENCE}
"""The keys of [run] in a deployment."""


def read(file: Path) -> Json:
    """The settings of a deployment's TOML file, with every default, checked as far as they can be without data.

    [method] and [server] may be left out.
    """
    tables = {"method": {"name": DEFAULT_METHOD}, "server": {}, **read_toml(file)}
    private = tables.pop("privacy", None)
    check_tables(tables, ("problem", "method", "run", "server", "sites"))
    if private is not None and not (isinstance(private, dict) and {"clip", "noise"} <= private.keys()):
        raise ConfigurationError(f"[privacy] must be a table with clip and noise, got {short(private)}")
    check_keys("[privacy]", private or {}, ("clip", "noise", "delta"))
    check_keys("[run]", tables["run"], RUN_DEFAULTS)
    server = server_settings(tables["server"])
    for name, site in tables["sites"].items():
        if not isinstance(site, dict):
            raise ConfigurationError(f'[sites.{name}] must be a table, such as data = "mine.npz" or weight = 1')
        check_keys(f"[sites.{name}]", site, ("data", "weight"))
        if ("data" in site) != any(isinstance(other, dict) and "data" in other for other in tables["sites"].values()):
            raise ConfigurationError(f"[sites.{name}] has no data, and another site has: give data to all or none")
        if not isinstance(weight := site.get("weight", 1.0), int | float) or isinstance(weight, bool):
            raise ConfigurationError(f"[sites.{name}] weight must be a number >= 0, got {weight!r}")
    if server["own_keys"]:
        raise ConfigurationError("[server] own_keys is for sites with tables: give a goal")
    check_parties(server, tables["sites"])
    name = tables["problem"].get("name")
    if name in PROBLEMS and (made := sources_of(PROBLEMS[name])) and made.recipe is not None:
        raise ConfigurationError(
            f'[problem] name = "{name}" is made from rows of tables: deploy a goal, by [fit] or --goal, or use '
            'entry = "module:function"'
        )
    problem, _ = server_problem(tables, file.parent), build_method(tables["method"])
    settings = {
        "problem": with_defaults(tables["problem"], PROBLEMS),
        "method": with_defaults(tables["method"], METHODS),
        "run": {**RUN_DEFAULTS, **tables["run"]},
        "privacy": private,
        "server": server,
        "sites": {name: {"data": None, "weight": 1.0, **site} for name, site in tables["sites"].items()},
    }
    task_of(settings, problem)
    return settings


def server_settings(given: Json, *, tables: bool = False) -> Json:
    """[server] with its defaults.

    tables: of a deployment of tables, in which parties on several machines make their own keys unless it says
    otherwise.
    """
    check_keys("[server]", given, ("engine", "host", "port", "own_keys"))
    server = {"engine": "local", "host": "localhost", "port": 8002, **given}
    trial = server["engine"] == "local" or server["host"] in LOOPBACK
    server = {"own_keys": tables and not trial, **server}
    if not isinstance(server["own_keys"], bool):
        raise ConfigurationError(f"[server] own_keys must be true or false, got {short(server['own_keys'])}")
    find_named("engine", server["engine"], dict.fromkeys(ENGINES))
    return server


def check_parties(server: Json, sites: Iterable[str]) -> None:
    """Refuse names of sites, a host and a port that no engine could use."""
    if not (names := list(sites)):
        raise ConfigurationError("[sites] must name at least one site, as a table [sites.NAME]")
    for name in names:
        try:
            check_name(name)
        except ValueError as error:
            raise ConfigurationError(f"[sites.{name}]: {error}") from None
        if name == server["host"]:
            raise ConfigurationError(f"[sites.{name}]: the server's host has this name")
    try:
        check_address(server["host"], server["port"])
    except ValueError as error:
        raise ConfigurationError(f"[server] {error}") from None


def settings_of(party: Path) -> Json:
    """The settings in a party's folder."""
    try:
        settings: Json = json.loads((party / SETTINGS).read_text())
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{party} is not the folder of a server or a site: {error}") from None
    return settings


def roster_of(settings: Json, party: Path) -> str:
    """The digest of the list of keys in the server's folder, if a run of these settings has secure sums."""
    run, sites = settings["run"], list(settings["sites"])
    reason = why_not_secure(build_method(settings["method"]), len(sites), run["cohort"], run["min_replies"])
    try:
        return choose_roster(party, sites, run["secure_sums"], reason)
    except ValueError as error:
        raise ConfigurationError(f"[run] {error}") from None


def server_problem(settings: Json, party: Path) -> AbstractProblem:
    """The problem as the server sees it, with nobody's data."""
    return server_view(settings, party) if has_tables(settings) else party_problem(settings, "elsewhere", party)


def party_problem(settings: Json, data: object, party: Path) -> AbstractProblem:
    """The problem of the catalogue or of an entry point as a party sees it; the latter takes data= if sites have it."""
    own = {key: value for key, value in settings["problem"].items() if value is not None}
    has_data = settings.get("has_data", any(site.get("data") is not None for site in settings["sites"].values()))
    if not has_data:
        return build_problem(own, party)
    if "entry" not in own:
        raise ConfigurationError('[sites] have data, so [problem] needs entry = "module:function" that takes data=')
    return build_problem({**own, "data": data}, party)


def task_of(settings: Json, problem: AbstractProblem, known: Sequence[Known] | None = None) -> Task:
    """The task that server and sites agree on. known: the merged summaries, where sites have tables."""
    weights = tuple(float(site["weight"]) for site in settings["sites"].values())
    if known is not None:
        weights = site_weights(settings, known)
    try:
        privacy = None if settings["privacy"] is None else Privacy(**settings["privacy"])
        method = build_method(settings["method"])
        run = {key: value for key, value in settings["run"].items() if key not in OF_TABLES}
        run = run if known is None else {**run, "tol": _tolerance(settings, problem, known)}
        options = run_options(DeploymentOptions, run, problem, weights=weights, privacy=privacy)
        task = Task(method, tuple(settings["sites"]), options)
        task.check(problem)
    except ConfigurationError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"[run]: {error}") from None
    return task


def _tolerance(settings: Json, problem: AbstractProblem, known: Sequence[Known]) -> float:
    """The gap at which a run ends: as was chosen, else small only where sites will give second derivatives.

    By default they give them if they have enough rows for each parameter.
    """
    if settings["run"]["tol"] is not None:
        return float(settings["run"]["tol"])
    recipe, method = recipe_of_goal(settings), build_method(settings["method"])
    rows, view = recipe.counts(known), problem.without_data()
    few = min(rows) < Policy().rows_per_parameter * count_asked(view)
    many = method.asks_alike and are_too_many(view)
    first_order = method.asks_curvature and not recipe.is_unpenalized and (why_no_curvature(view) or few or many)
    return default_tolerance(settings["problem"]["goal"], FeDualSlide() if first_order else method, int(sum(rows)))

"""Deployments as folders: one TOML file becomes a folder for each party, and each party runs from its own."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..deploy import DeploymentOptions, Engine, LocalEngine, Privacy, RunHooks, Site, Task
from ..deploy.clients import UNANSWERED
from ..deploy.fence import FencedError
from ..problems import AbstractProblem
from ..problems.built_from import sources_of
from ..runtime import Run, Status, Stop
from ..runtime.compilation import keep_compiled_programs
from ..runtime.records import Record
from ..storage import write_atomically, write_json
from ..validation import short
from . import folder
from .configuration import check_tables, read_toml, run_defaults, run_options, with_defaults
from .names import (
    METHODS,
    PROBLEMS,
    ConfigurationError,
    build_method,
    build_problem,
    call_entry,
    check_keys,
    named,
)
from .seal import CHECKPOINT

ENGINES = ("local", "nvflare", "flower")
SERVE, SITE = f"{__name__}:serve", f"{__name__}:load_site"
"""What the server and a site of every engine run, each with its own folder."""
SETTINGS = "deployment.json"
RUN = "run"

RUN_DEFAULTS = run_defaults(DeploymentOptions)
"""The keys of [run] in a deployment."""

FAILURE = "failure.json"
"""Why the round loop was not begun or did not end by itself; gone when it is begun again."""

RESUMABLE = (Stop.INTERRUPTED.name, Stop.CLIENTS_LOST.name, Stop.MAX_TIME.name)
"""Ends of a run that was cut off: by hand, because sites were missing, which may be back, or by the clock."""


def read(file: Path) -> dict[str, Any]:
    """The settings of a deployment's TOML file, with every default, checked as far as they can be without data."""
    tables = read_toml(file)
    private = tables.pop("privacy", None)
    check_tables(tables, ("problem", "method", "run", "server", "sites"))
    if private is not None and not (isinstance(private, dict) and {"clip", "noise"} <= private.keys()):
        raise ConfigurationError(f"[privacy] must be a table with clip and noise, got {short(private)}")
    check_keys("[privacy]", private or {}, ("clip", "noise", "delta"))
    check_keys("[run]", tables["run"], RUN_DEFAULTS)
    check_keys("[server]", tables["server"], ("engine", "host", "port"))
    server = {"engine": "local", "host": "localhost", "port": 8002, **tables["server"]}
    named("engine", server["engine"], dict.fromkeys(ENGINES))
    for name, site in tables["sites"].items():
        if not isinstance(site, dict):
            raise ConfigurationError(f'[sites.{name}] must be a table, such as data = "mine.npz" or weight = 1')
        check_keys(f"[sites.{name}]", site, ("data", "weight"))
        if ("data" in site) != any(isinstance(other, dict) and "data" in other for other in tables["sites"].values()):
            raise ConfigurationError(f"[sites.{name}] has no data, and another site has: give data to all or none")
        if not isinstance(weight := site.get("weight", 1.0), int | float) or isinstance(weight, bool):
            raise ConfigurationError(f"[sites.{name}] weight must be a number >= 0, got {weight!r}")
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,62}", name) or name in ("server", "admin", server["host"]):
            raise ConfigurationError(
                f"[sites.{name}]: a name is a letter, then letters, digits and dashes; not the server's"
            )
    if not tables["sites"]:
        raise ConfigurationError("[sites] must name at least one site, as a table [sites.NAME]")
    if not isinstance(server["host"], str) or not re.fullmatch(r"[A-Za-z0-9.-]{1,253}", server["host"]):
        raise ConfigurationError(f"[server] host must be a name or an IPv4 address, got {server['host']!r}")
    if type(server["port"]) is not int or not 0 < server["port"] < 65536:
        raise ConfigurationError(f"[server] port must be between 1 and 65535, got {server['port']!r}")
    name = tables["problem"].get("name")
    if name in PROBLEMS and (made := sources_of(PROBLEMS[name])) and made.pooled:
        raise ConfigurationError(f'[problem] name = "{name}" is made from pooled data; use entry = "module:function"')
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


def write_parties(root: Path, settings: Mapping[str, Any], source: Path) -> None:
    """The settings of each party in its folder: a site is told of its own data alone, the server of nobody's.

    source: the folder of the TOML file, from which files are named and the modules of entry points copied.
    """
    public = {**settings, "sites": {name: {"weight": site["weight"]} for name, site in settings["sites"].items()}}
    public["has_data"] = any(site["data"] is not None for site in settings["sites"].values())
    if (arrays := settings["problem"].get("file")) is not None:  # wherever it lies, each party has it at home
        public["problem"] = {**settings["problem"], "file": Path(arrays).name}
    parties = {"server": root / "server"} | {name: root / "sites" / name for name in settings["sites"]}
    for name, party in parties.items():
        party.mkdir(parents=True, exist_ok=True)
        own = {} if name == "server" else {"site": name, "data": _placed(settings["sites"][name]["data"], source)}
        write_json(party / SETTINGS, {**public, **own})
        entries = [settings["problem"].get("entry"), own.get("data")]
        for module in {str(entry).partition(":")[0] for entry in entries if entry and ":" in str(entry)}:
            if (source / f"{module}.py").exists():
                shutil.copy(source / f"{module}.py", party / f"{module}.py")
        if arrays is not None:
            write_atomically(party / public["problem"]["file"], (source / arrays).read_bytes())


def serve(engine: Engine, party: Path, tell: Callable[[Record], None] | None = None) -> Run:
    """The server's side: the round loop, into the run folder beside the server's settings. tell: is given records."""
    keep_compiled_programs()
    forget_failure(party)
    try:
        return _serve(engine, party, tell)
    except FencedError:  # another server has taken over: what there is to say is its to say
        raise
    except Exception as error:
        with suppress(OSError):  # the disk may be what is wrong
            write_json(party / FAILURE, {"error": f"{type(error).__name__}: {error}"})
        raise


def forget_failure(party: Path) -> None:
    """What went wrong before is not what goes wrong next."""
    (party / FAILURE).unlink(missing_ok=True)


def failure_of(party: Path) -> str | None:
    """Why the server's last run has no result, if it could say so."""
    file = party / FAILURE
    return json.loads(file.read_text())["error"] if file.exists() else None


def _serve(engine: Engine, party: Path, tell: Callable[[Record], None] | None) -> Run:
    settings, path, known = settings_of(party), party / RUN, unfinished(party)
    problem = server_problem(settings, party)
    task = task_of(settings, problem)
    resolved = {key: settings[key] for key in ("problem", "method", "run", "sites", "privacy", "has_data")} | {
        "folder": str(party.resolve())
    }

    def begin() -> None:
        if known is None:
            folder.begin(path, problem, resolved)
        else:  # patience may have changed, and the folder may have moved
            folder.reopen(path, known, resolved)

    def append(record: Record) -> None:
        folder.append(path, record)
        if tell is not None:
            with suppress(BrokenPipeError):  # nobody listens: no reason to end the run
                tell(record)

    hooks = RunHooks(begin, append, lambda run: folder.finish(path, run, problem))
    return task.serve(engine, problem, path / CHECKPOINT, hooks)


def load_site(party: Path) -> Site:
    """A site's side, with its own data."""
    keep_compiled_programs()  # a site that is started again answers its first request in time
    settings = settings_of(party)
    data = None if settings["data"] is None else [_load_data(settings["data"], party)]
    problem = _problem(settings, data, party)
    return task_of(settings, problem).site(problem, settings["site"])


def run_locally(root: Path, tell: Callable[[Record], None] | None = None) -> Run:
    """Server and sites in this process, each from its own folder: a rehearsal without an engine."""
    sites = settings_of(root / "server")["sites"]
    return serve(LocalEngine({name: load_site(root / "sites" / name).work for name in sites}), root / "server", tell)


def unfinished(party: Path) -> folder.StoredRun | None:
    """The run in a server's folder, to go on with; None if there is none, a refusal if it has ended for good."""
    path = party / RUN
    if not (path / "manifest.json").exists():
        return None
    known = folder.load(path)
    if known.status is not None and not _is_resumable(known.status):
        raise ConfigurationError(f"{path} already holds a finished run; move it away to begin another")
    return known


def _is_resumable(status: Mapping[str, Any]) -> bool:
    """Whether a run was cut off before its end, or its sites did not answer when its last points were certified."""
    unanswered = any(output["reason"] == UNANSWERED for output in status["outputs"].values())
    return bool(unanswered or (status["stop"] in RESUMABLE and status["status"] != Status.OPTIMAL.name))


def settings_of(party: Path) -> dict[str, Any]:
    """What a party's folder says."""
    try:
        settings: dict[str, Any] = json.loads((party / SETTINGS).read_text())
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{party} is not the folder of a server or a site: {error}") from None
    return settings


def server_problem(settings: Mapping[str, Any], party: Path) -> AbstractProblem:
    """The problem as the server sees it, with nobody's data."""
    return _problem(settings, "elsewhere", party)


def _problem(settings: Mapping[str, Any], data: Any, party: Path) -> AbstractProblem:
    """The problem as a party sees it; an entry point takes data= if any site has data."""
    own = {key: value for key, value in settings["problem"].items() if value is not None}
    has_data = settings.get("has_data", any(site.get("data") is not None for site in settings["sites"].values()))
    if not has_data:
        return build_problem(own, party)
    if "entry" not in own:
        raise ConfigurationError('[sites] have data, so [problem] needs entry = "module:function" that takes data=')
    return build_problem({**own, "data": data}, party)


def task_of(settings: Mapping[str, Any], problem: AbstractProblem) -> Task:
    """What server and sites agree on."""
    weights = tuple(float(site["weight"]) for site in settings["sites"].values())
    try:
        privacy = None if settings["privacy"] is None else Privacy(**settings["privacy"])
        options = run_options(DeploymentOptions, settings["run"], problem, weights=weights, privacy=privacy)
        task = Task(build_method(settings["method"]), tuple(settings["sites"]), options)
        task.check(problem)
    except ConfigurationError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"[run]: {error}") from None
    return task


def _placed(data: str | None, source: Path) -> str | None:
    """A site's data as its own settings name it: an existing file by its whole path, anything else as it is."""
    return str((source / data).resolve()) if data is not None and (source / data).is_file() else data


def _load_data(data: str, party: Path) -> Any:
    """A site's examples: the arrays of an .npz file, or what its function "module:function" returns."""
    if data.endswith(".npz"):
        try:
            with open(party / data, "rb") as stream, np.load(stream, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        except Exception as error:  # a missing, truncated or foreign file can fail in many ways
            raise ConfigurationError(f"data = {data!r} cannot be read as an .npz file: {error}") from None
    return call_entry(data, party, {}, what="data, if not a file ....npz,")

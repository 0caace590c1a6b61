"""Runs of files, kept in folders: one, or several that are compared."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..algorithms import Method
from ..problems import AbstractOracle, AbstractProblem, GaussianNoise, Minibatch
from ..runtime import Run, Stop, solve
from ..runtime.options import SolveOptions, fields_of, file_defaults
from ..runtime.simulator import compiled_programs_kept
from ..storage import Json
from ..validation import short
from . import folder
from .folder import CHECKPOINT, StoredRun, plain
from .settings import METHODS, Configuration, ConfigurationError, build_method, configure, folder_names, unique

CONTENT = "table_sha256"
"""The key of a fit's settings that is the digest of its table."""


def solve_into(path: Path, configuration: Configuration) -> Run:
    """Solve and store. A folder with an unfinished or interrupted run of the same configuration is gone on with."""
    resolved = json.loads(json.dumps(configuration.resolved))
    if not (path / "manifest.json").exists():
        if path.exists() and any(path.iterdir()):
            raise ConfigurationError(f"{path} is not empty and is not a run: choose another --out")
        return solve_afresh(path, configuration)
    known = folder.load(path)
    if known.status is not None and known.status["stop"] != Stop.INTERRUPTED.name:
        other = describe_difference(known.manifest["configuration"], resolved)
        raise ConfigurationError(f"{path} already holds a finished run{other}: choose another --out")
    if not (path / CHECKPOINT).exists():  # refused or killed before its first record: nothing to go on with
        return solve_afresh(path, configuration)
    if known.manifest["configuration"] != resolved:
        other = describe_difference(known.manifest["configuration"], resolved)
        raise ConfigurationError(f"{path} holds an unfinished run{other}: choose another --out")
    folder.reopen(path, known, resolved)
    return _solve(path, configuration)


def describe_difference(known: Json, asked: Json) -> str:
    """In words, the first setting in which a stored run differs from the one that is asked for; "" if none does."""
    for table in [*known, *(name for name in asked if name not in known)]:
        before, now = known.get(table), asked.get(table)
        if isinstance(before, dict) and isinstance(now, dict):
            for key in [*before, *(name for name in now if name not in before)]:
                if before.get(key) != now.get(key):
                    if key == CONTENT:
                        return f" on what {now['table']} held before it was changed"
                    return f" with {key} = {short(before.get(key))}, where {short(now.get(key))} is asked for"
        elif before != now:
            return f" with another {table}"
    return ""


def is_finished(path: Path, configuration: Configuration) -> bool:
    """Whether the folder holds a run of this configuration that came to its end by itself."""
    if not (path / "status.json").exists():
        return False
    known = folder.load(path)
    same = known.manifest["configuration"] == json.loads(json.dumps(configuration.resolved))
    return same and known.status is not None and known.status["stop"] != Stop.INTERRUPTED.name


def solve_afresh(path: Path, configuration: Configuration) -> Run:
    """Solve and store, whatever the folder held before."""
    folder.begin(path, configuration.problem, configuration.resolved)
    (path / CHECKPOINT).unlink(missing_ok=True)
    return _solve(path, configuration)


def _solve(path: Path, configuration: Configuration) -> Run:
    kept = {"callback": lambda record: folder.append(path, record), "checkpoint": path / CHECKPOINT}
    options = fields_of(configuration.options, SolveOptions) | kept
    with compiled_programs_kept():  # those of `finish` as well
        run = solve(configuration.problem, configuration.method, **options)
        folder.finish(path, run, configuration.problem)
    return run


# Runs that were made in Python, as run folders: the settings of which no file exists, as plain data.


OBJECT = "object"
"""The key of [problem] that says what a problem was that no file names."""


def store(path: Path, problem: AbstractProblem, method: Method, options: SolveOptions, run: Run, *, label: str) -> None:
    """Write the folder of a run that has ended.

    problem: with the weights of the run. label: the name of the method among others.
    """
    resolved = {
        "label": label,
        "problem": {OBJECT: short(problem)},
        "method": describe_method(method),
        "run": describe_options(options),
    }
    folder.begin(path, problem, resolved)
    (path / CHECKPOINT).unlink(missing_ok=True)  # of another run that was here
    folder.finish(path, run, problem)


def describe_method(method: Method) -> Json:
    """The class of a method and the arguments that it was made with."""
    names = [name for name in inspect.signature(type(method)).parameters if hasattr(method, name)]
    known = {"name": type(method).__name__, **{name: _as_data(getattr(method, name)) for name in names}}
    own = type(method).__name__ not in METHODS and method.outputs
    return {**known, "outputs": list(method.outputs)} if own else known


def describe_options(options: SolveOptions) -> Json:
    """[run] as a file has it; a text in place of what no file can name."""
    settings = {name: _as_data(getattr(options, name)) for name in file_defaults(SolveOptions)}
    return {**settings, **_oracle_settings(options.noise), "start": None if options.z0 is None else short(options.z0)}


def _oracle_settings(noise: AbstractOracle | None) -> Json:
    match noise:
        case GaussianNoise():
            return {"noise": _as_data(noise.sigma), "minibatch": None}
        case Minibatch():
            return {"noise": None, "minibatch": _as_data(noise.size)}
    return {"noise": None if noise is None else short(noise), "minibatch": None}


def _as_data(value: object) -> Any:
    """A number, a list or a text."""
    data = plain(value)
    return data if data is None or isinstance(data, bool | int | float | str | list) else short(data)


# One file with several [[method]] tables: a run of each, side by side.


def has_several(given: Json) -> bool:
    """Whether the tables of a file name methods as [[method]], and not one as [method]."""
    return isinstance(given.get("method"), list)


def configure_each(given: Json, home: Path) -> dict[str, Configuration]:
    """The run of each method by its label: the key `label` of its table, or else its name.

    home: where relative paths start from.
    """
    tables: list[Any] = given["method"]
    if not tables or not all(isinstance(table, dict) for table in tables):
        raise ConfigurationError(f"the file needs a table [method], or tables [[method]], got {short(tables)}")
    given_labels = [table.get("label") for table in tables if "label" in table]
    if not all(isinstance(label, str) and label.strip() for label in given_labels):
        raise ConfigurationError(f"[[method]] label must be a text, got {short(given_labels)}")
    if len(set(given_labels)) < len(given_labels):
        raise ConfigurationError(f"[[method]] label must be another one for each method, got {short(given_labels)}")
    configurations: dict[str, Configuration] = {}
    rows = None
    for label, table in zip(unique([_label(table) for table in tables]), tables, strict=True):
        settings = {key: value for key, value in table.items() if key != "label"}
        build_method(settings, f"[[method]] {label}")  # so that a refusal says which
        one = configure({**given, "method": settings}, home, rows)
        configurations[label], rows = replace(one, resolved={"label": label, **one.resolved}), one.rows
    return configurations


def solve_each(
    path: Path, configurations: Mapping[str, Configuration], announce: Callable[[str, Json], None]
) -> dict[str, Json]:
    """Solve and store each run in a folder of its own; the statuses. Runs that have ended are not run again.

    announce: is told the label and the status of each run when it has ended.
    """
    places = folder_names(configurations)
    folder.check_collection(path, "comparison")
    if (path / "manifest.json").exists() and folder.read_manifest(path)["runs"] != list(places.values()):
        raise ConfigurationError(f"{path} holds a comparison of other methods: choose another --out")
    title = title_of(next(iter(configurations.values())).resolved["problem"])
    folder.write_collection(path, "comparison", title=title, runs=list(places.values()))
    statuses: dict[str, Json] = {}
    for label, configuration in configurations.items():
        place = path / places[label]
        if not is_finished(place, configuration):
            solve_into(place, configuration)
        statuses[label] = folder.load(place).status or {}
        announce(label, statuses[label])
        if statuses[label]["stop"] == Stop.INTERRUPTED.name:
            raise KeyboardInterrupt
    return statuses


def runs_among(paths: Sequence[Path]) -> tuple[list[StoredRun], list[Path]]:
    """The runs among files and folders, and what else there is; refused if something is missing, or there is no run.

    The folder of a fit stands for its run.
    """
    paths = [folder.run_of(path) for path in paths]
    kinds = {path: folder.read_manifest(path)["kind"] if (path / "manifest.json").exists() else "" for path in paths}
    runs = [path for path, kind in kinds.items() if kind == "run"]
    ignored = [path for path in kinds if path not in runs]
    if not runs or not all(path.exists() for path in ignored):
        folder.read_manifest(next(path for path in ignored if not runs or not path.exists()), "run")  # which says why
    return [folder.load(path) for path in runs], ignored


def title_of(problem: Json) -> str:
    """The title of runs of one problem, by its settings."""
    return f"Runs of {problem.get('name') or problem.get('goal') or problem.get('entry') or problem.get(OBJECT)}"


def _label(table: Json) -> str:
    return str(table.get("label") or table.get("name"))

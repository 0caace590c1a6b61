"""One file with several [[method]] tables: a run of each, side by side."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..models.store import MODEL
from ..runtime import Stop
from ..validation import short
from . import folder
from .configuration import Configuration, configure
from .folder import StoredRun
from .in_python import OBJECT
from .kept_model import keep_model
from .labels import folder_names, unique
from .registry import ConfigurationError, build_method
from .run_folder import is_finished, solve_into


def has_several(given: Mapping[str, Any]) -> bool:
    """Whether the tables of a file name methods as [[method]], and not one as [method]."""
    return isinstance(given.get("method"), list)


def configure_each(given: Mapping[str, Any], home: Path) -> dict[str, Configuration]:
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
    found: dict[str, Configuration] = {}
    rows = None
    for label, table in zip(unique([_label(table) for table in tables]), tables, strict=True):
        settings = {key: value for key, value in table.items() if key != "label"}
        build_method(settings, f"[[method]] {label}")  # so that a refusal says which
        one = configure({**given, "method": settings}, home, rows)
        found[label], rows = replace(one, resolved={"label": label, **one.resolved}), one.rows
    return found


def solve_each(
    path: Path, configurations: Mapping[str, Configuration], announce: Callable[[str, dict[str, Any]], None]
) -> dict[str, dict[str, Any]]:
    """Solve and store each run in a folder of its own; the statuses. Runs that have ended are not run again.

    announce: is told the label and the status of each run when it has ended.
    """
    places = folder_names(configurations)
    folder.check_collection(path, "comparison")
    if (path / "manifest.json").exists() and folder.read_manifest(path)["runs"] != list(places.values()):
        raise ConfigurationError(f"{path} holds a comparison of other methods: choose another --out")
    title = title_of(next(iter(configurations.values())).resolved["problem"])
    folder.write_collection(path, "comparison", title=title, runs=list(places.values()))
    statuses: dict[str, dict[str, Any]] = {}
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
    """The runs among files and folders, and what else there is; refused if something is missing, or there is no run."""
    kinds = {path: folder.read_manifest(path)["kind"] if (path / "manifest.json").exists() else "" for path in paths}
    runs = [path for path, kind in kinds.items() if kind == "run"]
    ignored = [path for path in kinds if path not in runs]
    if not runs or not all(path.exists() for path in ignored):
        folder.read_manifest(next(path for path in ignored if not runs or not path.exists()), "run")  # which says why
    return [folder.load(path) for path in runs], ignored


def keep_best(path: Path, configurations: Mapping[str, Configuration], labels: Iterable[str]) -> str:
    """Keep the model of the run of these labels that has the smallest certified gap; its label, or "" if none is.

    That is where there is no such run, and where the problem is not made from a table.
    """
    places = folder_names(configurations)
    runs = {label: folder.load(path / places[label]) for label in labels}
    rows = next(iter(configurations.values())).rows
    if rows is None or not runs:
        return ""
    best = min(runs, key=lambda label: _gap(runs[label]))
    keep_model(path / MODEL, runs[best], rows, {"method": best})
    return best


def title_of(problem: Mapping[str, Any]) -> str:
    """The title of runs of one problem, by its settings."""
    return f"Runs of {problem.get('name') or problem.get('entry') or problem.get(OBJECT)}"


def _label(table: Mapping[str, Any]) -> str:
    return str(table.get("label") or table.get("name"))


def _gap(run: folder.StoredRun) -> float:
    """The certified gap of a run's answer; infinite if there is none."""
    gap = (run.status or {})["gap"]
    return math.inf if gap is None else float(gap)

"""From a table to a model: a goal, a certified run in a folder, metrics on held-out rows, and the model to keep."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Table, sources as tables
from ..models import NUMBERS, Model
from ..models.store import MODEL
from ..runs.folder import load
from ..runs.settings import Configuration, ConfigurationError, check_keys, configure
from ..runs.solving import is_finished, solve_into
from ..runtime import Stop
from ..validation import hint, missing, short
from .goals import (
    GOALS,
    OPTIONS,
    arguments_of,
    check_target,
    goal_of,
    names_of,
    target_of,
    weighs_clients,
    with_limited_weights,
    words_of_weights,
)
from .kept_model import keep_model

DEFAULTS: dict[str, Any] = {
    "clients": None,
    "groups": None,
    "weights": None,
    "ignore": [],
    "goal": None,
    "holdout": 0.2,
    "rounds": 1000,
    "tol": None,
}
COLUMNS = ("clients", "groups", "weights")
"""The keys that name columns which are no features."""
KEYS = ("table", "target", *DEFAULTS, *OPTIONS)
"""The keys of [fit]."""
RUN = "run"
"""Within a fit's folder, beside MODEL, which can be taken away: the run that `verify` and `report` read."""
BUNDLED = "bundled:"
MANY = 30
"""Categories of a column from which on a person should know of them, and rows from which on ids can be told."""


@dataclass(frozen=True)
class PlannedFit:
    """What will be fitted, before anything is computed."""

    goal: str
    rows: tables.TableRows
    configuration: Configuration
    notes: list[str]
    """What the data has that a person should know of."""
    weighs: list[str]
    """How clients are weighed, where the adversary weighs them."""

    @property
    def words(self) -> str:
        """The goal, and how much there is to fit it to, in one line."""
        held = 0 if self.rows.held_out is None else self.rows.held_out.rows
        clients, (rows, features) = len(np.unique(self.rows.clients)), self.rows.X.shape
        size = f"{rows} rows of {clients} client{'s' * (clients != 1)}, {features} features, {held} rows held out"
        return f"{self.goal} ({GOALS[self.goal].words}): {size}"


def plan_fit(settings: Mapping[str, Any], folder: Path) -> PlannedFit:
    """The fit that the settings of [fit] describe; relative paths start from the folder."""
    check_keys("[fit]", settings, KEYS)
    for key in ("table", "target"):
        if not isinstance(settings.get(key), str) and not (key == "target" and key in settings):
            raise ConfigurationError(f"[fit] needs {key}, the name of a {'file' if key == 'table' else 'column'}")
    full = {**DEFAULTS, **settings}
    table, target = read_table(full["table"], folder), target_of(full["goal"], full["target"])
    _check_columns(full, table, target)
    goal = goal_of(full["goal"], labels := table.pick(target))
    for name in names_of(target):
        check_target(goal, name, table[name])
    if full["groups"] is not None and not GOALS[goal].grouped:
        able = ", ".join(name for name, other in GOALS.items() if other.grouped)
        raise ConfigurationError(f"groups are for the goals {able}, got the goal {goal}")
    chosen = {key: full[key] for key in OPTIONS if full.get(key) is not None}
    problem = {
        "name": GOALS[goal].problem,
        **_source(full["table"]),
        "target": target,
        "partition": _partition(full["clients"]),
        **{f"{key}_column": full[key] for key in COLUMNS[1:] if full[key] is not None},
        **({"ignore": full["ignore"]} if full["ignore"] != [] else {}),
        "holdout": full["holdout"],
        "standardize": True,
        "standardize_target": GOALS[goal].answers == NUMBERS,
    }
    rows = tables.prepared(tables.with_defaults(problem), table)
    arguments, clients = arguments_of(goal, chosen, labels, len(rows.X)), len(np.unique(rows.clients))
    grouped = full["groups"] is not None
    problem |= with_limited_weights(arguments, clients) if weighs_clients(goal, grouped) else arguments
    run = {"rounds": full["rounds"], "tol": GOALS[goal].tol if full["tol"] is None else full["tol"]}
    configuration = configure({"problem": problem, "method": {"name": "FeDualSlide"}, "run": run}, folder, rows)
    limited = [
        f"the mean loss of {target} = {name} is limited to {limit:g}"
        for name, limit in problem.get("limits", {}).items()
    ]
    weighs = words_of_weights(goal, clients, grouped)
    return PlannedFit(goal, rows, configuration, [*limited, *_notes(rows, GOALS[goal].answers)], weighs)


def _check_columns(full: Mapping[str, Any], table: Table, target: str | list[str]) -> None:
    """Refuse targets that the table does not have, or that are also something else."""
    for name in names_of(target):
        if name not in table:
            several = all(part in table for part in name.split(","))
            other = "several targets are for the goal low-rank" if several else hint(name, table)
            raise ConfigurationError(f"{table.source} has no column {name!r}; {other}")
    for key in COLUMNS:
        if full[key] in names_of(target):
            raise ConfigurationError(f"{key} must be another column than the target, got {full[key]!r}")


def fit_into(path: Path, planned: PlannedFit) -> Model:
    """Run what was planned and keep run and model below `path`.

    An unfinished run of the same settings in it is resumed, and a finished one is not run again.
    """
    if not is_finished(path / RUN, planned.configuration):
        run = solve_into(path / RUN, planned.configuration)
        if run.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
    stored = load(path / RUN)
    status: Mapping[str, Any] = stored.status or {}
    if status["stop"] == Stop.INFEASIBLE.name:
        raise ConfigurationError(f"there is no model: {status['stop_meaning']}")
    return keep_model(path / MODEL, stored, planned.rows, {"goal": planned.goal, "weighs": planned.weighs})


def read_table(table: str, folder: Path) -> Table:
    """The table of this name: a file by its ending, or "bundled:NAME"."""
    return tables.read(_source(table), folder)


def _source(table: str) -> dict[str, str]:
    """A file by its ending, or one of the tables that come with scikit-learn."""
    if table.startswith(BUNDLED):
        return {"bundled": table.removeprefix(BUNDLED)}
    kinds = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".npz": "npz"}
    ending = Path(table).suffix.lower()
    if ending not in kinds:
        raise ConfigurationError(f"table must be a file {', '.join(kinds)} or {BUNDLED}NAME, got {short(table)}")
    return {kinds[ending]: table}


def _partition(clients: Any) -> dict[str, Any]:
    """By the column of this name; a number makes so many clients of rows at random, nothing is one client."""
    if clients is None:
        return {"kind": "iid", "clients": 1}
    if isinstance(clients, int) or str(clients).isdigit():
        return {"kind": "iid", "clients": int(clients)}
    return {"kind": "by_column", "column": clients}


def _notes(rows: tables.TableRows, kind: str) -> list[str]:
    """Columns that take no part or perhaps should not, holes, clients too small or too uniform to be judged alone."""
    found, encoder = [], rows.encoder
    if encoder.standardizer is not None:
        constant = [n for n, d in zip(encoder.numbers, encoder.standardizer.deviation, strict=True) if d == 0]
        found += [f"constant columns have no coefficient: {_some(constant)}"] if constant else []
    if encoder.left_out:
        named = [f"{name} ({what})" for name, what in encoder.left_out.items()]
        found.append(f"columns of text that take no part: {_some(named)}")
    numbered = [name for name in encoder.numbers if _may_number_rows(rows.trained[name])]
    found += [f"if these columns number the rows, leave them out by ignore: {_some(numbered)}"] if numbered else []
    many = [f"{name} ({len(words)})" for name, words in encoder.categories.items() if len(words) > MANY]
    found += [f"columns with many categories, each of which is a feature: {_some(many)}"] if many else []
    holes = [name for name in (*encoder.numbers, *encoder.categories) if missing(rows.trained[name]).any()]
    found += [f"missing values count as the mean, or as no category: {_some(holes)}"] if holes else []
    owners = {str(name): rows.y[rows.clients == name] for name in np.unique(rows.clients)}
    single = [name for name, labels in owners.items() if len(labels) == 1]
    found += [f"clients with one row: {_some(single)}"] if single else []
    uniform = [name for name, labels in owners.items() if len(labels) > 1 and len(np.unique(labels)) == 1]
    found += [f"clients with one class: {_some(uniform)}"] if uniform and kind != NUMBERS else []
    return found


def _may_number_rows(column: NDArray[Any]) -> bool:
    """Whether a column holds another whole number in every row, as an id does."""
    return len(np.unique(column)) == len(column) >= MANY and bool(np.all(column == np.floor(column)))


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")

"""From a table to a model: a goal, a certified run in a folder, metrics on held-out rows, and the model to keep."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data import Table
from ..models import NUMBERS, RANKING, Answers, Model, save
from ..runtime import Run, Stop
from ..validation import classes, hint, short
from . import tables
from .configuration import Configuration, configure
from .goals import GOALS, OPTIONS, arguments_of, check_target, goal_of
from .measures import Measures, measured
from .provenance import provenance
from .registry import ConfigurationError, check_keys
from .run_folder import solve_into

DEFAULTS: dict[str, Any] = {"clients": None, "goal": None, "holdout": 0.2, "rounds": 1000, "tol": None}
KEYS = ("table", "target", *DEFAULTS, *OPTIONS)
"""The keys of [fit]."""
RUN, MODEL = "run", "model"
"""Within a fit's folder: the run that `verify` and `report` read, and the model that can be taken away."""
BUNDLED = "bundled:"


@dataclass(frozen=True)
class Fit:
    """A model with what is known about it."""

    goal: str
    model: Model
    run: Run
    measures: Measures | None
    """On the held-out rows; None if there are none."""


def fit_into(path: Path, settings: Mapping[str, Any], folder: Path) -> Fit:
    """Fit what the settings of [fit] describe, and keep the run and the model below `path`.

    An unfinished run of the same settings in it is resumed.
    """
    check_keys("[fit]", settings, KEYS)
    for key in ("table", "target"):
        if not isinstance(settings.get(key), str):
            raise ConfigurationError(f"[fit] needs {key}, the name of a {'file' if key == 'table' else 'column'}")
    goal, configuration = _configured({**DEFAULTS, **settings}, folder)
    run = solve_into(path / RUN, configuration)
    if run.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    if run.stop is Stop.INFEASIBLE:
        raise ConfigurationError(f"there is no model: {run.detail}")
    model, measures = keep_model(path / MODEL, configuration, run, GOALS[goal].answers, {"goal": goal})
    return Fit(goal, model, run, measures)


def keep_model(
    path: Path, configuration: Configuration, run: Run, answers: str, training: Mapping[str, Any]
) -> tuple[Model, Measures | None]:
    """The model of a run on a table, written into a folder, and its measures on the rows that were held out."""
    rows = configuration.rows
    if rows is None:
        raise ConfigurationError("a model needs a table: this problem is not made from one")
    model = _model(configuration, rows, run, answers)
    measures = None if rows.held_out is None else measured(model, rows.held_out, rows.owners[1])
    about = {
        **training,
        "rows": len(rows.y),
        "clients": {str(name): int(np.sum(rows.clients == name)) for name in np.unique(rows.clients)},
        "configuration": configuration.resolved,
        "held_out": None if measures is None else measures.plain(),
        **provenance(),
    }
    model = Model(model.encoder, model.weights, model.bias, model.answers, model.target, model.certificate, about)
    save(model, path)
    return model, measures


def read_table(table: str, folder: Path) -> Table:
    """The table of this name: a file by its ending, or "bundled:NAME"."""
    return tables.read(_source(table), folder)


def _configured(settings: dict[str, Any], folder: Path) -> tuple[str, Configuration]:
    table, target = read_table(settings["table"], folder), settings["target"]
    if target not in table:
        raise ConfigurationError(f"{table.source} has no column {target!r}; {hint(target, table)}")
    if settings["clients"] == target:
        raise ConfigurationError(f"clients must be another column than the target, got {target!r}")
    goal = goal_of(settings["goal"], table[target])
    check_target(goal, target, table[target])
    chosen = {key: settings[key] for key in OPTIONS if settings.get(key) is not None}
    problem = {
        "name": GOALS[goal].problem,
        **_source(settings["table"]),
        "target": target,
        "partition": _partition(settings["clients"]),
        "holdout": settings["holdout"],
        "standardize": True,
        "standardize_target": GOALS[goal].answers == NUMBERS,
        **arguments_of(goal, chosen, table[target]),
    }
    rows = tables.prepared(tables.with_defaults(problem), table)
    run = {"rounds": settings["rounds"], "tol": GOALS[goal].tol if settings["tol"] is None else settings["tol"]}
    return goal, configure({"problem": problem, "method": {"name": "FeDualSlide"}, "run": run}, folder, rows)


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


def _model(configuration: Configuration, rows: tables.TableRows, run: Run, kind: str) -> Model:
    x = {name: np.asarray(value, float) for name, value in run.z.x.items()}
    weights = x["weights"]
    if kind == NUMBERS:
        scale = rows.target_scale
        ends = (0.0, 1.0) if scale is None else (float(scale.mean[0]), float(scale.deviation[0]) or 1.0)
        answers = Answers(kind, center=ends[0], scale=ends[1])
    else:
        answers = Answers(kind, classes("the target", rows.y)[0])
    bias = x.get("bias", np.zeros(weights.shape[1:]))
    if kind == RANKING:  # pairs decide no threshold: halfway between the mean scores of the two classes
        scores, first = rows.X @ weights, rows.y == answers.labels[0]
        bias = -np.asarray(scores[first].mean() + scores[~first].mean()) / 2
    certificate = {
        "gap": run.gap,
        "status": run.status.name,
        "meaning": run.status.value,
        "tol": configuration.options.tol,
        "exchanges": run.exchanges,
        "violation": run.violation,
    }
    return Model(rows.encoder, weights, bias, answers, rows.target, certificate)

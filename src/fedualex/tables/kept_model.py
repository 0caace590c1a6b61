"""The model of a stored run on a table, kept in a folder with what is certified and measured of it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data import Standardizer
from ..data.sources import TableRows
from ..models import Answers, Model, save
from ..models.model import standardized
from ..models.store import MODEL
from ..problems import gather, split_rows
from ..problems.readings import Reading
from ..runs import folder
from ..runs.folder import StoredRun, provenance
from ..runs.settings import Configuration, folder_names, recipe_of
from ..validation import classes
from .measures import measured

LEAVES = {"weights": "x['weights']", "bias": "x['bias']"}
"""As a run folder names the arrays of a linear model."""


def keep_model(path: Path, stored: StoredRun, rows: TableRows, training: Mapping[str, Any]) -> Model:
    """The model of a run's answer, written into a folder. training: what else to keep."""
    status: Mapping[str, Any] = stored.status or {}
    settings = stored.manifest["configuration"]
    recipe, x = recipe_of(settings["problem"]), solution(stored, status["output"])
    # A ranking has no bias of its own: its middle comes from what clients add up to.
    known = gather(recipe, split_rows(rows.X, rows.y, rows.clients, rows.weights)) if recipe.bias_is_known else []
    weights, bias, answers = x["weights"], recipe.bias(known, x), _answers(recipe.reading, rows)
    certificate = certificate_of(status, settings["run"]["tol"])
    model = Model(rows.encoder, weights, bias, answers, rows.target, certificate)
    by_class = settings["problem"].get("groups") == "classes"
    tested = None if rows.held_out is None else measured(model, rows.held_out, rows.owners[1], by_class).plain()
    about = {
        **training,
        "rows": len(rows.y),
        "clients": {str(name): int(np.sum(rows.clients == name)) for name in np.unique(rows.clients)},
        "held_out": tested,
        "configuration": settings,
        **provenance(),
    }
    model = replace(model, training=about)
    save(model, path)
    return model


def _answers(reading: Reading, rows: TableRows) -> Answers:
    if not reading.standardized:
        return Answers(reading, classes("the target", rows.y)[0] if reading.labelled else np.zeros(0))
    plain = rows.y.reshape(len(rows.y), -1)[0]
    scale = rows.target_scale or Standardizer(np.zeros_like(plain, float), np.ones_like(plain, float))
    return standardized(reading, scale, not isinstance(rows.target, str))


def certificate_of(status: Mapping[str, Any], tol: float | None) -> dict[str, Any]:
    """What a model keeps of the status of the run that found it."""
    return {**{key: status[key] for key in ("gap", "status", "meaning", "exchanges", "violation")}, "tol": tol}


def solution(stored: StoredRun, output: str) -> dict[str, Any]:
    """The weights of an output, and its bias where it has one."""
    z, _ = stored.points(output)
    return {name: z[leaf] for name, leaf in LEAVES.items() if leaf in z}


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


def _gap(run: folder.StoredRun) -> float:
    """The certified gap of a run's answer; infinite if there is none."""
    gap = (run.status or {})["gap"]
    return math.inf if gap is None else float(gap)

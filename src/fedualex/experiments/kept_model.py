"""The model of a finished run on a table: made from the run's folder, measured on held-out rows, and kept."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data import Standardizer
from ..models import NUMBERS, RANKING, Answers, Model, save
from ..models.model import standardized
from ..problems import gather, split_rows
from ..validation import classes
from .folder import StoredRun
from .measures import measured
from .provenance import provenance
from .registry import recipe_of
from .tables import TableRows

LEAVES = {"weights": "x['weights']", "bias": "x['bias']"}
"""As a run folder names the arrays of a linear model."""


def keep_model(path: Path, stored: StoredRun, rows: TableRows, training: Mapping[str, Any]) -> Model:
    """The model of a run's answer, written into a folder. training: what else to keep."""
    status: Mapping[str, Any] = stored.status or {}
    settings = stored.manifest["configuration"]
    recipe, x = recipe_of(settings["problem"]), solution(stored, status["output"])
    # A ranking has no bias of its own: its middle comes from what clients add up to.
    known = gather(recipe, split_rows(rows.X, rows.y, rows.clients, rows.weights)) if recipe.answers == RANKING else []
    weights, bias, answers = x["weights"], recipe.bias(known, x), _answers(recipe.answers, rows)
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


def _answers(kind: str, rows: TableRows) -> Answers:
    if kind != NUMBERS:
        return Answers(kind, classes("the target", rows.y)[0])
    plain = rows.y.reshape(len(rows.y), -1)[0]
    scale = rows.target_scale or Standardizer(np.zeros_like(plain, float), np.ones_like(plain, float))
    return standardized(kind, scale, not isinstance(rows.target, str))


def certificate_of(status: Mapping[str, Any], tol: float | None) -> dict[str, Any]:
    """What a model keeps of the status of the run that found it."""
    return {**{key: status[key] for key in ("gap", "status", "meaning", "exchanges", "violation")}, "tol": tol}


def solution(stored: StoredRun, output: str) -> dict[str, Any]:
    """The weights of an output, and its bias where it has one."""
    z, _ = stored.points(output)
    return {name: z[leaf] for name, leaf in LEAVES.items() if leaf in z}

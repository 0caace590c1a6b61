"""The model of a finished run on a table: made from the run's folder, measured on held-out rows, and kept."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..models import NUMBERS, RANKING, Answers, Model, save
from ..validation import classes
from .folder import StoredRun
from .measures import measured
from .provenance import provenance
from .tables import TableRows

WEIGHTS, BIAS = "x['weights']", "x['bias']"


def keep_model(path: Path, stored: StoredRun, rows: TableRows, kind: str, training: Mapping[str, Any]) -> Model:
    """The model of a run's answer, written into a folder. kind: what its scores mean. training: what else to keep."""
    status: Mapping[str, Any] = stored.status or {}
    z, _ = stored.points(status["output"])
    weights = z[WEIGHTS]
    answers = _answers(kind, rows)
    bias = _threshold(weights, rows, answers) if kind == RANKING else z.get(BIAS, np.zeros(weights.shape[1:]))
    settings = stored.manifest["configuration"]
    certificate = {
        **{key: status[key] for key in ("gap", "status", "meaning", "exchanges", "violation")},
        "tol": settings["run"]["tol"],
    }
    model = Model(rows.encoder, weights, bias, answers, rows.target, certificate)
    tested = None if rows.held_out is None else measured(model, rows.held_out, rows.owners[1]).plain()
    about = {
        **training,
        "rows": len(rows.y),
        "clients": {str(name): int(np.sum(rows.clients == name)) for name in np.unique(rows.clients)},
        "held_out": tested,
        "configuration": settings,
        **provenance(),
    }
    model = Model(rows.encoder, weights, bias, answers, rows.target, certificate, about)
    save(model, path)
    return model


def _answers(kind: str, rows: TableRows) -> Answers:
    if kind != NUMBERS:
        return Answers(kind, classes("the target", rows.y)[0])
    if (scale := rows.target_scale) is None:
        return Answers(kind)
    return Answers(kind, center=float(scale.mean[0]), scale=float(scale.deviation[0]) or 1.0)


def _threshold(weights: Any, rows: TableRows, answers: Answers) -> Any:
    """Pairs decide no threshold: the bias that puts 0 halfway between the mean scores of the two classes."""
    scores, first = rows.X @ weights, rows.y == answers.labels[0]
    return -np.asarray(scores[first].mean() + scores[~first].mean()) / 2

"""Baseline hazards of clients, which stay where their rows are: in the folder of a fit, or of a site."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..arrays import Reals, Values
from ..data import Table
from ..models import Model
from ..models.store import MODEL
from ..problems.risk_sets import cumulative_hazard
from ..runs.settings import ConfigurationError
from ..storage import Json, write_json
from ..validation import hint

BASELINES = "baselines.json"
"""By client the times of events, the cumulative hazard of a row of score 0 from each of them on, and the last time."""
Baseline = Json


def baseline_of(model: Model, trained: Table, weights: str | None = None) -> Baseline:
    """Breslow's estimate from a client's rows at the scores of a model. weights: the column that weighs rows."""
    time, event = trained.pick(model.target).T
    weight = np.ones(len(time)) if weights is None else np.asarray(trained[weights], float)
    used = weight > 0
    scores = model.decision_function(trained)
    times, hazard = cumulative_hazard(time[used], event[used], weight[used], scores[used])
    last = float(np.max(time[used], initial=0.0))
    return {"time": times.tolist(), "hazard": hazard.tolist(), "last": last}


def keep_baselines(folder: Path, baselines: Mapping[str, Baseline]) -> None:
    """Write the baselines of clients beside a model."""
    write_json(folder / BASELINES, dict(baselines))


def read_baselines(path: Path) -> dict[str, Baseline]:
    """The baselines beside the model of this folder, by client."""
    for folder in (path, path.parent if path.name == MODEL else path):
        if (file := folder / BASELINES).exists():
            baselines: dict[str, Baseline] = json.loads(file.read_text())
            return baselines
    raise ConfigurationError(f"{path} has no {BASELINES}, by which survival is told: it stays in the folder of the fit")


def survival(
    baselines: Mapping[str, Baseline], scores: Reals, owners: Values | None, times: Sequence[float]
) -> dict[str, list[float | None]]:
    """The probability of no event up to each time, by the baseline of each row's client; None beyond its last time.

    owners: the client of each row; None where there is one baseline.
    """
    if owners is None:
        if len(baselines) > 1:
            raise ConfigurationError(f"survival needs clients, the column that says which of {len(baselines)} it is of")
        owners = np.full(len(scores), next(iter(baselines)))
    names = np.asarray(owners, str)
    for name in np.unique(names).tolist():
        if name not in baselines:
            raise ConfigurationError(f"there is no baseline hazard of the client {name!r}; {hint(name, baselines)}")
    columns: dict[str, list[float | None]] = {}
    for time in times:
        column: list[float | None] = []
        for name, score in zip(names.tolist(), scores.tolist(), strict=True):
            own = baselines[name]
            place = int(np.searchsorted(own["time"], time, side="right"))
            hazard = own["hazard"][place - 1] if place else 0.0
            column.append(float(np.exp(-hazard * np.exp(score))) if time <= own["last"] else None)
        columns[f"survival at {time:g}"] = column
    return columns

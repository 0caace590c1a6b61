"""The model that a run on a table leaves, and how good it is on rows that were held out."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Table
from ..data.columns import CellError, column_of_kind, complete_rows, plain_column, refuse_twins
from ..data.encoder import DROP
from ..models import Model
from ..problems.readings import MEANS, NEUTRAL, OF, SMALLER_IS_BETTER, Measured
from ..validation import hint, missing
from .goals import LIMITED

# How a model fares on rows that it was not fitted to, in all and for each client.


@dataclass(frozen=True)
class Measures:
    """Numbers by name: of all rows, and of each client by its name. None where a client's rows do not define one."""

    rows: int
    overall: dict[str, float | None]
    clients: dict[str, dict[str, float | None]]
    dropped: int = 0
    """Rows with missing values that were not measured."""

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"rows": self.rows, "overall": self.overall, "clients": self.clients}

    def columns(self) -> dict[str, list[Any]]:
        """As a file has it: a row for all clients, and one for each."""
        found = {"all clients": self.overall, **self.clients}
        return {"client": list(found), **{name: [own.get(name) for own in found.values()] for name in self.overall}}


def measured(model: Model, table: Table, clients: NDArray[Any], by_class: bool = False) -> Measures:
    """rows, and what the model's reading measures; for several targets the mean of their r2, and r2 and mae of each.

    by_class: whether to add the errors of each class, which are the share of its rows that get another answer.
    """
    truth, scores = table.pick(model.target), model.decision_function(table)

    def of(rows: Any) -> Measured:
        found = _measures(model, truth[rows], scores[rows])
        return found | _errors(model, truth[rows], scores[rows]) if by_class else found

    return Measures(len(truth), of(slice(None)), {str(name): of(clients == name) for name in np.unique(clients)})


def evaluated(model: Model, table: Table, clients: str | None) -> Measures:
    """How a model fares on a table that it was not fitted to. clients: the column that says whose each row is.

    Rows with missing values are left out if they were left out in training.
    """
    for name in (*model.targets, *([] if clients is None else [clients])):
        if name not in table:
            raise ValueError(f"{table.source} has no column {name!r}; {hint(name, table)}")
        if gone := int(np.sum(there := missing(table[name]))):
            said = f"the column {name!r} must be known in every row, but it is missing in {gone}, first"
            raise CellError(int(np.argmax(there)), said)
    _check_truth(model, table)
    model.decision_function(table)  # refuses wrong cells while rows have the numbers of the file
    whole = {name: table[name] for name in model.columns}
    kept = complete_rows(whole) if model.encoder.missing == DROP else np.ones(table.rows, bool)
    if not kept.any():
        raise ValueError(f"every row of {table.source} misses a value, and such rows were left out in training")
    used, lost = table.take(kept), int((~kept).sum())
    owners = np.full(used.rows, "all rows") if clients is None else used[clients]
    refuse_twins("the column of clients", np.unique(owners).tolist())
    found = measured(model, used, owners, LIMITED in _problem_of(model))
    return replace(found, clients={} if clients is None else found.clients, dropped=lost)


def _problem_of(model: Model) -> Mapping[str, Any]:
    """The settings of the problem that a model was fitted by; none if it does not tell."""
    found: Mapping[str, Any] = model.training.get("configuration", {}).get("problem", {})
    return found


def _check_truth(model: Model, table: Table) -> None:
    """Refuse a target that is not of the kind that the model predicts, by row and value."""
    for name in model.targets:
        column = table[name]
        if not model.answers.reading.labelled:
            column_of_kind(name, plain_column(name, column), text=False)
        elif np.any(odd := ~np.isin(column, model.classes)):
            row = int(np.argmax(odd))
            known = ", ".join(map(str, model.classes.tolist()))
            raise CellError(row, f"the target {name!r} must hold {known}, as in training, got {column[row].item()!r}")


def worst(name: str, clients: Mapping[str, Mapping[str, float | None]]) -> float | None:
    """The worst value of a measure over the clients that have one; None for what is neither good nor bad."""
    known = [value for found in clients.values() if (value := found.get(name)) is not None]
    if not known or name in NEUTRAL:
        return None
    return max(known) if name.partition(OF)[0] in SMALLER_IS_BETTER else min(known)


def mean_over_rows(name: str, clients: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Of all rows, from each client's number; what is no mean over rows, such as an AUC, cannot be had from these."""
    counts = [found["rows"] for found in clients.values()]
    values = [found.get(name) for found in clients.values()]
    if name == "rows":
        return sum(counts)
    if name.partition(OF)[0] not in MEANS or None in values:
        return None
    return float(np.average(np.array(values, float), weights=counts))


def _measures(model: Model, truth: NDArray[Any], scores: NDArray[Any]) -> Measured:
    if isinstance(model.target, str):
        return {"rows": len(truth), **model.answers.reading.measures(truth, scores, model.answers)}
    each = {
        part.target: part.answers.reading.measures(truth[:, t], scores[:, t], part.answers)
        for t, part in enumerate(model.parts())
    }
    r2 = [own["r2"] for own in each.values() if own["r2"] is not None]
    found: Measured = {"rows": len(truth), "r2": float(np.mean(r2)) if len(r2) == len(each) else None}
    for name, own in each.items():
        found |= {f"{measure}{OF}{name}": own[measure] for measure in ("r2", "mae")}
    return found


def _errors(model: Model, truth: NDArray[Any], scores: NDArray[Any]) -> Measured:
    wrong = model.answers.of(scores) != truth
    owned = {label: wrong[truth == label] for label in model.classes.tolist()}
    return {f"errors{OF}{label}": float(own.mean()) if own.size else None for label, own in owned.items()}

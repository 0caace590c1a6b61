"""The model that a run on a table leaves, and how good it is on rows that were held out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Table
from ..models import CLASSES, NUMBERS, Model
from ..problems import roc_auc

# How a model fares on rows that it was not fitted to, in all and for each client.


SMALLER_IS_BETTER = ("loss", "mae", "mse", "errors")
MEANS = ("positives", "accuracy", "loss", "mae", "mse")
"""What is a mean over rows."""
OF = " of "
"""Between a measure and the target or class that it is of, where there are several."""
NEUTRAL = ("rows", "positives")
"""What is said of the rows, and not of the model."""


@dataclass(frozen=True)
class Measures:
    """Numbers by name: of all rows, and of each client by its name. None where a client's rows do not define one."""

    rows: int
    overall: dict[str, float | None]
    clients: dict[str, dict[str, float | None]]

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"rows": self.rows, "overall": self.overall, "clients": self.clients}


def measured(model: Model, table: Table, clients: NDArray[Any], by_class: bool = False) -> Measures:
    """rows, and for numbers r2, mae and mse; for several targets the mean of their r2, and r2 and mae of each.

    For classes accuracy, and loss, the mean -log(probability of the truth).
    For two classes also positives, the share of rows in the second one, and auc. A ranking has no probabilities and
    so no loss.
    by_class: whether to add the errors of each class, which are the share of its rows that get another answer.
    """
    truth, scores = table.pick(model.target), model.decision_function(table)

    def of(rows: Any) -> dict[str, float | None]:
        found = _measures(model, truth[rows], scores[rows])
        return found | _errors(model, truth[rows], scores[rows]) if by_class else found

    return Measures(len(truth), of(slice(None)), {str(name): of(clients == name) for name in np.unique(clients)})


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


def _measures(model: Model, truth: NDArray[Any], scores: NDArray[Any]) -> dict[str, float | None]:
    answers = model.answers.of(scores)
    found: dict[str, float | None] = {"rows": len(truth)}
    if not isinstance(model.target, str):
        each = {
            name: (_r2(truth[:, t], answers[:, t]), truth[:, t] - answers[:, t]) for t, name in enumerate(model.target)
        }
        r2 = [value for value, _ in each.values() if value is not None]
        found["r2"] = float(np.mean(r2)) if len(r2) == len(each) else None
        for name, (value, apart) in each.items():
            found |= {f"r2{OF}{name}": value, f"mae{OF}{name}": float(np.mean(np.abs(apart)))}
        return found
    if model.answers.kind == NUMBERS:
        apart = truth - answers
        return {
            **found,
            "r2": _r2(truth, answers),
            "mae": float(np.mean(np.abs(apart))),
            "mse": float(np.mean(apart**2)),
        }
    if scores.ndim == 1:
        found["positives"] = float(np.mean(truth == model.classes[1]))
    found["accuracy"] = float(np.mean(answers == truth))
    if scores.ndim == 1:
        found["auc"] = roc_auc(scores, truth) if len(np.unique(truth)) == 2 else None
    if model.answers.kind == CLASSES:
        found["loss"] = _log_loss(model, truth, scores)
    return found


def _errors(model: Model, truth: NDArray[Any], scores: NDArray[Any]) -> dict[str, float | None]:
    wrong = model.answers.of(scores) != truth
    owned = {label: wrong[truth == label] for label in model.classes.tolist()}
    return {f"errors{OF}{label}": float(own.mean()) if own.size else None for label, own in owned.items()}


def _r2(truth: NDArray[Any], answers: NDArray[Any]) -> float | None:
    """The share of the variance that is explained; None where there is none."""
    spread, error = float(np.mean((truth - truth.mean()) ** 2)), float(np.mean((truth - answers) ** 2))
    return 1 - error / spread if spread > 0 else None


def _log_loss(model: Model, truth: NDArray[Any], scores: NDArray[Any]) -> float | None:
    """The mean of -log(probability of the truth), from the scores: log(sum_c exp(s_c)) - s_truth.

    None where some truth is a class that was not there in training.
    """
    if not np.all(np.isin(truth, model.classes)):
        return None
    # With one score s, those of the two classes are 0 and s.
    each = scores if scores.ndim > 1 else np.stack([np.zeros_like(scores), scores], axis=1)
    chosen = np.searchsorted(model.classes, truth)
    return float(np.mean(np.logaddexp.reduce(each, axis=1) - each[np.arange(len(truth)), chosen]))

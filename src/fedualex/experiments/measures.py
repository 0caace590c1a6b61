"""How a model fares on rows that it was not fitted to, in all and for each client."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Table
from ..models import NUMBERS, Model
from ..problems import roc_auc


@dataclass(frozen=True)
class Measures:
    """Numbers by name: of all rows, and of each client by its name. None where a client's rows do not define one."""

    rows: int
    overall: dict[str, float | None]
    clients: dict[str, dict[str, float | None]]

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"rows": self.rows, "overall": self.overall, "clients": self.clients}


def measured(model: Model, table: Table, clients: NDArray[Any]) -> Measures:
    """accuracy, and for two classes auc; for numbers r2 and mae."""
    truth, scores = table[model.target], model.decision_function(table)
    each = {str(name): _measures(model, truth[clients == name], scores[clients == name]) for name in np.unique(clients)}
    return Measures(len(truth), _measures(model, truth, scores), each)


def _measures(model: Model, truth: NDArray[Any], scores: NDArray[Any]) -> dict[str, float | None]:
    answers = model.answers.of(scores)
    if model.answers.kind == NUMBERS:
        spread = float(np.mean((truth - truth.mean()) ** 2))
        error = float(np.mean((truth - answers) ** 2))
        return {"r2": 1 - error / spread if spread > 0 else None, "mae": float(np.mean(np.abs(truth - answers)))}
    found: dict[str, float | None] = {"accuracy": float(np.mean(answers == truth))}
    if scores.ndim == 1:
        found["auc"] = roc_auc(scores, truth) if len(np.unique(truth)) == 2 else None
    return found

"""How the clients of a model fare."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..accepted import Column, Matrix, Number
from ..arrays import Reals
from ..tree import Tree
from ..validation import encode_labels, short
from .families import Family, family_of
from .rows import features, labels_of_model


@dataclass(frozen=True)
class ClientMetrics:
    """Mean loss and share of right answers of each client, clients in sorted order; no accuracies for regression.

    losses, accuracies: one number for each client.
    """

    losses: Reals
    accuracies: Reals | None

    @property
    def mean_loss(self) -> float:
        """All clients count alike."""
        return float(np.mean(self.losses))

    @property
    def worst_loss(self) -> float:
        """The largest loss of a client."""
        return float(np.max(self.losses))

    @property
    def mean_accuracy(self) -> float | None:
        """All clients count alike."""
        return None if self.accuracies is None else float(np.mean(self.accuracies))

    @property
    def worst_accuracy(self) -> float | None:
        """The least accuracy of a client."""
        return None if self.accuracies is None else float(np.min(self.accuracies))


def client_metrics(
    x: Tree,
    X: Matrix,
    y: Column,
    clients: Column,
    *,
    loss: str | Family | None = None,
    delta: Number = 1.0,
    labels: Column | None = None,
) -> ClientMetrics:
    """How the model x = {"weights": w, "bias": b} of `agnostic` or `constrained` fares with each client.

    loss, delta: as for `agnostic`. labels: all labels of the training data, needed where y lacks some.
    X, y, clients: rows, their targets, and whose each row is.
    """
    rows = features(X)
    if not isinstance(x, Mapping) or not {"weights", "bias"} <= x.keys():
        raise TypeError(f'x must be a model {{"weights": w, "bias": b}}, got {short(x)}')
    scores = rows @ np.asarray(x["weights"]) + np.asarray(x["bias"])
    _, client = encode_labels("clients", clients, rows.shape[0])
    sizes = np.bincount(client)
    family = family_of(
        "loss", ("logistic" if scores.ndim == 1 else "multiclass") if loss is None else loss, delta=delta
    )
    if not family.reading.labelled:
        each = family.loss(scores, np.asarray(family.column(y, rows.shape[0]), float))
        return ClientMetrics(np.bincount(client, each) / sizes, None)
    if family.one_score != (scores.ndim == 1):
        raise ValueError(f"loss must fit the model, whose weights have shape {np.shape(x['weights'])}, got {loss!r}")
    label = labels_of_model(y, rows.shape[0], labels, 2 if family.one_score else scores.shape[1])
    each = family.loss(scores, 2.0 * label - 1 if family.one_score else label)
    predicted = scores > 0 if family.one_score else np.argmax(scores, axis=1)
    return ClientMetrics(np.bincount(client, each) / sizes, np.bincount(client, predicted == label) / sizes)

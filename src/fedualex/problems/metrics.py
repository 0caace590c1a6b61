"""What people ask of a model: the area under its ROC curve, and how its clients fare."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..accepted import Column, Matrix, Number, Numbers
from ..tree import Tree
from ..validation import encode_labels, one_of, real_array, short
from .families import CLASSIFICATION, REGRESSION, Logistic, Softmax, regression_loss
from .rows import features, labels_of_model, targets, two_classes


def roc_auc(scores: Numbers, y: Column) -> float:
    """The share of (positive, negative) pairs that the scores rank rightly, ties counted half.

    The second of the two labels in sorted order is the positive one.
    scores, y: a score and a label for each row.
    """
    score = real_array("scores", scores, truth=True)
    if score.ndim != 1:
        raise ValueError(f"scores must be one number for each row, got an array of shape {score.shape}")
    positive = two_classes(y, len(score)) > 0
    negatives = np.sort(score[~positive])
    below, up_to = (np.searchsorted(negatives, score[positive], side) for side in ("left", "right"))
    return float(np.mean(below + up_to) / 2 / len(negatives))


@dataclass(frozen=True)
class ClientMetrics:
    """Mean loss and share of right answers of each client, clients in sorted order; no accuracies for regression.

    losses, accuracies: one number for each client.
    """

    losses: NDArray[Any]
    accuracies: NDArray[Any] | None

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
    loss: str | None = None,
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
    if loss is not None:
        one_of("loss", loss, CLASSIFICATION + REGRESSION)
    if loss in REGRESSION:
        rule = regression_loss(loss, delta)
        return ClientMetrics(np.bincount(client, rule.loss(scores, targets(y, rows.shape[0]))) / sizes, None)
    binary = scores.ndim == 1
    if loss is not None and binary != (loss == "logistic"):
        raise ValueError(f"loss must fit the model, whose weights have shape {np.shape(x['weights'])}, got {loss!r}")
    label = labels_of_model(y, rows.shape[0], labels, 2 if binary else scores.shape[1])
    if binary:
        each, predicted = Logistic().loss(scores, 2.0 * label - 1), scores > 0
    else:
        each, predicted = Softmax().loss(scores, label), np.argmax(scores, axis=1)
    return ClientMetrics(np.bincount(client, each) / sizes, np.bincount(client, predicted == label) / sizes)

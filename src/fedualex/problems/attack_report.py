"""How a model does on rows as they are, and under an attack."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tree import Saddle
from ..validation import nonnegative, of_type, real_array
from ..validation.accepted import Column, Matrix
from .rows import features, labels_of_model


@dataclass(frozen=True)
class AttackReport:
    """Accuracy without and with the attack, and the share of the attack's entries that are not zero.

    clean, attacked: shares of right answers without and with the attack. density: the share of its entries.
    """

    clean: float
    attacked: float
    density: float


def attack_report(X: Matrix, y: Column, z: Saddle, *, labels: Column | None = None, zero: float = 1e-5) -> AttackReport:
    """How a model z.x does on rows X with labels y, as they are and with the attack z.y added to each.

    labels: the two labels of the training data, needed where y has only one of them.
    zero: entries of the attack up to this size count as zero.
    """
    rows = features(X)
    label = labels_of_model(y, rows.shape[0], labels, 2)
    weights, bias, delta = _model(z, rows.shape[1])
    zero = float(nonnegative("zero", zero))

    def accuracy(scores: Any) -> float:
        return float(np.mean((scores > 0) == (label == 1)))

    scores = rows @ weights + bias
    return AttackReport(accuracy(scores), accuracy(scores + delta @ weights), float(np.mean(np.abs(delta) > zero)))


def _model(z: Any, features: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Weights, bias and attack of an answer."""
    accepted = f"the answer of `universal_adversarial` for {features} features"
    of_type("z", z, Saddle, accepted)
    of_type("z.x", z.x, Mapping, f"weights and bias, as in {accepted}")
    given = {"weights": z.x.get("weights"), "bias": z.x.get("bias"), "attack": z.y}
    weights, bias, delta = (real_array(f"z: {name}", array) for name, array in given.items())
    if weights.shape != (features,) or delta.shape != (features,) or bias.shape != ():
        raise ValueError(f"z must be {accepted}, got arrays of shapes {weights.shape}, {bias.shape}, {delta.shape}")
    return weights, bias, delta
